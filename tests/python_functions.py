#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions of numpy or torch in the Python package, compared with numpy in double, alone and under
mpirun. Prints the number of comparisons, and the words of refusals."""
import math
import sys

import numpy as np

import mpimatmul as mm

rng = np.random.default_rng(5)
X, S, R, Q = (rng.standard_normal(sizes) for sizes in ((6, 9), (2, 3, 4, 6), (7,), (2, 6, 9)))
I = rng.integers(-3, 4, (4, 6))
N = np.where(X > 0, X, np.nan)
x, s, r, q, i, n = map(mm.array, (X, S, R, Q, I, N))


def kept(value, axis=None):
    """Returns numpy's result with the reduced axis kept, and at least two axes."""
    return np.reshape(value, (1, 1)) if axis is None else np.expand_dims(value, axis)


def row(value):
    return np.reshape(value, (1, -1))


def close(values, wanted):
    """Pairs of tuples."""
    assert len(values) == len(wanted)
    return list(zip(values, wanted))


# Results of the package and of numpy. All of them are one job.
CASES = [
    (x[::-2, ::3], X[::-2, ::3]), (x[-2:0:-1, 7::-2], X[-2:0:-1, 7::-2]), (s[::-1, 1::2, ::-3], S[::-1, 1::2, ::-3]),
    (x[::100, ::-100], X[::100, ::-100]), (x[2, ::-1], X[2, ::-1][None]),
    (x.argmax(-2), row(X.argmax(-2))), (mm.argmin(s, axis=1), S.argmin(1)),
    (mm.argmax(x, 0, True), kept(X.argmax(0), 0)),
    (mm.flip(x), np.flip(X)), (s.flip((0, -1)), np.flip(S, (0, -1))), (mm.flip(r, axis=-1), row(R[::-1])),
    (mm.stack((x, x * 2)), np.stack((X, X * 2))), (mm.stack((q, q), axis=-2), np.stack((Q, Q), -2)),
    (mm.stack([r, r, r]), np.stack([R] * 3)), (mm.stack((r, r), axis=1), np.stack((R, R), 1)),
    *close(mm.split(x, 3), np.split(X, 3)), *close(mm.split(s, (1, 3), -1), np.split(S, (1, 3), -1)),
    *close(mm.split(r, 7), [row(part) for part in np.split(R, 7)]),
    *close(mm.split(i, 2, axis=1), np.split(I, 2, 1)),
    (mm.tile(x, 2), np.tile(X, 2)), (x.tile((2, 3, 1)), np.tile(X, (2, 3, 1))),
    (mm.tile(r, 3), row(np.tile(R, 3))),
    (mm.tile(r, (2, 2)), np.tile(R, (2, 2))), (mm.tile(i, (3, 1)), np.tile(I, (3, 1))),
    (mm.repeat(x, 2), row(np.repeat(X, 2))), (s.repeat(3, axis=1), np.repeat(S, 3, 1)),
    (i.repeat(2, 0), I.repeat(2, 0)),
    (mm.outer(r, x), np.outer(R, X)), (mm.triu(x, 1), np.triu(X, 1)), (mm.tril(s), np.tril(S)),
    (i.triu(-1), np.triu(I, -1)),
    (mm.eye(3), np.eye(3)), (mm.eye(3, 5, k=-1), np.eye(3, 5, -1)), (mm.eye(4, k=2), np.eye(4, k=2)),
    (mm.diag(r, -2), np.diag(R, -2)), (mm.diag(x, k=2), row(np.diag(X, 2))), (mm.diag(i), row(np.diag(I))),
    (mm.linspace(-1, 2, 7), row(np.linspace(-1, 2, 7))), (mm.normal((3, 4), seed=2), mm.generate((3, 4), "normal", 2)),
    (mm.uniform((3, 4), 5, low=-1, high=3), mm.rand((3, 4), 5) * 4 - 1),
    (x.prod(), kept(X.prod())), (mm.prod(s, axis=0), kept(S.prod(0), 0)),
    (mm.prod(x, 1, keepdims=False), row(X.prod(1))),
    (mm.sum(s, axis=(0, 1)), S.sum((0, 1), keepdims=True)), (np.mean(s, axis=(2, 0)), S.mean((2, 0), keepdims=True)),
    (s.max((1, 2), keepdims=False), S.max((1, 2))), (mm.amin(s, (-1, 0)), S.min((-1, 0), keepdims=True)),
    (s.amax((0, 1, 2), keepdims=False), row(S.max((0, 1, 2)))), (x.amax((0, 1)), kept(X.max())),
    (x.amin(axis=-1), kept(X.min(-1), -1)), (mm.var(s, axis=(0, 3)), S.var((0, 3), keepdims=True)),
    (mm.all(i), kept((I != 0).all())), (i.any(axis=0), kept((I != 0).any(0), 0)), (mm.isnan(n), np.isnan(N)),
    (mm.sign(n), np.sign(N)), (mm.floor(x * 3), np.floor(X * 3)), (x.ceil(), np.ceil(X)),
    (mm.round(i / 2), np.rint(I / 2)),
    (mm.erf(x), np.vectorize(math.erf)(X)), (x.arctan(), np.arctan(X)), (mm.expm1(x * 1e-9), np.expm1(X * 1e-9)),
    *((mm.einsum(text, a, b), np.einsum(text, A, B)) for text, a, A, b, B in (
        ("ij,kj->ik", x, X, x, X), ("ij, jk", i, I, x, X), ("bij,bkj->kbi", q, Q, q, Q), ("ij,ij->ji", x, X, x, X),
        ("abij,abkj->abik", s, S, s, S), ("abij,ak->jb", s, S, i[:2], I[:2]))),
    (mm.einsum("ij,ij->i", x, x), row(np.einsum("ij,ij->i", X, X))), (mm.einsum("i,i", r, r), kept(R @ R)),
    (mm.einsum("ij,j->i", s[0, 0, :, :3], x[0, :3]), row(S[0, 0, :, :3] @ X[0, :3]))]
ties = mm.array(np.array([[[3.0, 1, 3], [0, 3, 2]], [[1.0, 1, 1], [1, 1, 1]]]))
GRADIENTS = [mm.grad(mm.sum(mm.einsum("bij,kj->kb", q, x)), x), mm.grad(mm.sum(mm.prod(x * (x > 0), axis=-1)), x),
             mm.grad(mm.sum(mm.amax(ties, axis=(1, 2))), ties)]
CASES += [(GRADIENTS[0], np.broadcast_to(Q.sum((0, 1)), X.shape)), (GRADIENTS[1], np.zeros(X.shape)),
          (GRADIENTS[2], np.array([[[1 / 3, 0, 1 / 3], [0, 1 / 3, 0]], np.full((2, 3), 1 / 6)]))]
assert [mm.round(2.5), mm.floor(-0.5), mm.ceil(0.5), mm.sign(-3), mm.isnan(math.nan), mm.erf(0.5)] == [
    2, -1, 1, -1, True, math.erf(0.5)]
REFUSED = [
    lambda: x[::0], lambda: x[::1.5], lambda: x[4:4:-1], lambda: mm.argmax(x, axis=2), lambda: mm.flip(x, (0, -2)),
    lambda: mm.flip(r, 0), lambda: mm.stack((x, r)), lambda: mm.stack(()), lambda: mm.stack((s, s)),
    lambda: mm.split(x, 4), lambda: mm.split(x, (2, 2)), lambda: mm.tile(x, 0),
    lambda: mm.sum(s, axis=(1, -3)), lambda: mm.amax(s, axis=()), lambda: mm.repeat(x, 1.5),
    lambda: mm.repeat(x, 0), lambda: mm.triu(r), lambda: mm.diag(s), lambda: mm.diag(x, 9),
    lambda: mm.eye(0), lambda: mm.uniform((2, 2), low=1, high=0), lambda: mm.linspace(0, 1, 0),
    lambda: mm.einsum("ij,jk->ik", x, x), lambda: mm.einsum("ij->ji", x, x), lambda: mm.einsum("ii,ij", x, x),
    lambda: mm.einsum("i,ij", x, x), lambda: mm.einsum("ij,ij->k", x, x), lambda: mm.einsum("ij,ij->2", x, x)]

found = mm.evaluate(*(case[0] for case in CASES))
for number, (got, (value, want)) in enumerate(zip(found, CASES)):
    want = want if isinstance(want, np.ndarray) else want.numpy()
    assert mm.rank() > 0 or value.shape == np.shape(want), (number, value.shape, np.shape(want))
    if mm.rank() == 0:
        assert np.allclose(got, want, 1e-12, 1e-14, equal_nan=True), (number, got, want)
        assert value.integers == (np.asarray(want).dtype.kind == "i"), (number, value)
if mm.rank() == 0:
    print(len(found), "compared")
for wrong in REFUSED:
    try:
        wrong()
        raise AssertionError("it is not refused")
    except mm.Error as error:
        if mm.rank() == 0:
            sys.stdout.write(f"{error.status} {error}{f' | {error.hint}' if error.hint else ''}\n")
