#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the Python package with numpy in double, alone and under mpirun. Prints the largest
error of each."""
import os
import pathlib
import sys
import threading
import warnings

import numpy as np

if len(sys.argv) > 1 and sys.argv[1] == "mpi4py":
    from mpi4py import MPI  # the script itself initialises and finalises MPI
import mpimatmul as mm

rng = np.random.default_rng(7)
X, W, B = (rng.standard_normal(s).astype("f4") for s in ((64, 48), (48, 32), (32,)))
Q = X.reshape(4, 16, 48).astype("f8")


def show(name, found, expected, most):
    if mm.rank() != 0:
        assert found is None
        return
    assert found.shape == np.shape(expected), (name, found.shape, np.shape(expected))
    off = float(np.abs(found - expected).max())
    sys.stdout.write(f"{name} {'ok' if off <= most else f'off by {off:g}'}\n")


def soft(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def causal(s):
    return np.where(np.tril(np.ones(s.shape[-2:])) > 0, s, -np.inf)


class Broken:
    def __array__(self, *_):
        raise RuntimeError("no array after all")


def nested():
    with mm.program():
        mm.save("first.npy", x)
        with mm.program():
            mm.save("second.npy", x)


def twice():
    with mm.program():
        mm.save(sys.argv[-1], x)
        mm.save(os.path.join(".", sys.argv[-1]), x)


def on_a_thread():
    raised = []

    def run():
        try:
            x.numpy()
        except mm.Error as problem:
            raised.append(problem)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise raised[0]


try:
    mm.init(device="nowhere")  # later programs end normally, too
except mm.Error as error:
    assert error.status == 69, error
x, w, b = mm.array(X), mm.array(W), mm.array(B)
q = mm.reshape(x, (4, 16, -1))
scores = q @ q.T / 7
heads = mm.softmax(scores, causal=True) @ q
values, places = mm.topk(heads, 3)
expected = soft(causal(Q @ Q.swapaxes(1, 2) / 7)) @ Q
show("chain", ((mm.relu(x @ w + b) @ w.T) * 2 - 1).numpy(), np.maximum(X.astype("f8") @ W + B, 0) @ W.T * 2 - 1, 1e-4)
found = mm.evaluate(heads, values, places, mm.sum(heads, axis=None),
                    mm.attention(q, q, q, causal=np.True_, scale=1 / 7))
show("causal", found[0], expected, 1e-5)
show("topk", found[1], -np.sort(-expected, -1)[..., :3], 1e-5)
show("places", found[2], np.argsort(-expected, -1)[..., :3], 0)
show("sum", found[3], expected.sum(keepdims=True), 1e-3)
show("attention", found[4], expected, 1e-5)
assert places.integers and found[2] is None or mm.rank() > 0 or found[2].dtype == np.int32
show("slice", mm.concat((x[3:-1, :5], x[:2, -5:]), axis=-2).numpy(), np.concatenate((X[3:-1, :5], X[:2, -5:])), 0)
show("joined", mm.concat((b, b, w[:1]), axis=-1).numpy(), np.concatenate((B, B, W[0]))[None], 0)
show("stacked", mm.concat((b, b), axis=-2).numpy(), np.stack((B, B)), 0)
show("permute", mm.permute(q, (1, 0, 2)).numpy(), Q.transpose(1, 0, 2), 0)
show("take", mm.take(x, np.array([5, 0, 63])).numpy(), X[[5, 0, 63]], 0)
for name, ids, of in (
        ("one axis", mm.arange(5), np.arange(5)), ("of one axis", mm.arange(5) * 2, np.arange(5) * 2),
        ("one row", np.array([[5, 0, 63]]), np.array([[5, 0, 63]])),
        ("of one row", mm.array([[5, 0, 63]])[:, 1:], np.array([[0, 63]])),
        ("sorted", mm.argsort(x[0]), np.argsort(X[0], kind="stable")),
        ("sorted row", mm.argsort(x[:1]), np.argsort(X[:1], kind="stable")),
        ("column", mm.array([[5], [0]]), np.array([[5], [0]])), ("joined ids", mm.concat([mm.arange(3)] * 2, -1),
                                                                [0, 1, 2, 0, 1, 2]),
        ("placed", mm.place(mm.arange(3), "replicate"), np.arange(3))):
    assert mm.take(x, ids).shape == X[of].shape, name
    show("take of " + name, mm.take(x, ids).numpy(), X[of], 0)
for ids in np.arange(5), np.zeros((1, 5), int), np.zeros((2, 5), int), np.zeros((5, 1), int):
    assert mm.nn.Embedding(7, 3)(ids).shape == (*ids.shape, 3), ids.shape
show("where", mm.where(x > 0, x, 0.5 - x).numpy(), np.where(X > 0, X, 0.5 - X), 0)
show("layer_norm", mm.layer_norm(x).numpy(),
     (X - X.mean(-1, keepdims=True)) / np.sqrt(X.astype("f8").var(-1, keepdims=True) + 1e-5), 1e-5)
show("axis", mm.max(x, -1).numpy(), X.max(-1, keepdims=True), 0)
show("abs", abs(x).numpy(), np.abs(X), 0)
show("any axis", mm.std(q, axis=0).numpy(), Q.std(0, keepdims=True), 1e-5)
show("by number", mm.concat((x[3], x[-1] * 2, q[0, 1, 2:6] * 0 + x[2, 5]), axis=-1).numpy(),
     np.concatenate((X[3], X[-1] * 2, np.full(4, X[2, 5])))[None], 0)
show("column", x[:, 2].numpy(), X[:, 2][None], 0)
show("dropped", mm.concat((x.mean(0, keepdims=False), q.sum(1, keepdims=False)[:1, :2]), axis=-1).numpy(),
     np.concatenate((X.mean(0), Q.sum(1)[0, :2]))[None], 1e-4)
show("soft along", mm.softmax(q, axis=1).numpy(), np.moveaxis(soft(np.moveaxis(Q.astype("f8"), 1, -1)), -1, 1), 1e-6)
show("clip", mm.clip(x, -0.25, None).clip(high=0.5).numpy(), np.clip(X, -0.25, 0.5), 0)
# calls of one kind are cached
signs = [np.signbit((mm.array([[1.0]]) * zero).item()) for zero in (0.0, -0.0, 0.0)]
assert signs == [False, True, False], signs
show("norm", mm.norm(q, axis=2, keepdims=False).numpy(), np.linalg.norm(Q.astype("f8"), axis=2), 1e-4)
show("made", (mm.arange(1, 3) @ mm.ones((2, 2)) + mm.zeros(2) + mm.arange(2)).numpy(), np.array([[3, 4]]), 0)
show("cumsum", x.cumsum(0).numpy(), np.cumsum(X.astype("f8"), 0), 1e-4)
show("in order", q.sort(axis=1, descending=True).numpy(), -np.sort(-Q, 1), 0)
show("order", mm.argsort(x, 0).numpy(), np.argsort(X, 0, kind="stable"), 0)
assert mm.argsort(x).dtype == mm.sort(mm.array([[3, 1, 2]])).dtype == np.int32
sys.path.append(str(pathlib.Path(__file__).parent))
import reference  # noqa: E402  pylint: disable=wrong-import-position,wrong-import-order
show("dropout", mm.dropout(x, 0.75, 3, turn=2 ** 40).numpy(),
     reference.dropout(reference.matrix(X), 0.75, 3, 2 ** 40), 0)
ids = np.arange(64)[None] % 32
loss = mm.cross_entropy(x @ w + b, ids)
gw, (gb, gx) = mm.grad(loss, (w, (b, x)))
found = mm.evaluate(loss, gw, gb, gx)
slope = (soft(X.astype("f8") @ W + B) - np.eye(32)[ids[0]]) / 64
show("loss", found[0], np.full((1, 1), -np.log(soft(X.astype("f8") @ W + B)[np.arange(64), ids[0]]).mean()), 1e-5)
for name, gradient, expected in (("gw", found[1], X.T @ slope), ("gb", found[2], slope.sum(0)[None]),
                                 ("gx", found[3], slope @ W.T)):
    show(name, gradient, expected, 1e-6)
# A model learns step by step. With persistence each result is a leaf of the next step; without it
# the results are the same.
target = X.astype("f8") @ rng.standard_normal((48, 3))
for way in ("persist", "item"):
    v, expected = mm.array(np.zeros((48, 3), "f4")), np.zeros((48, 3))
    for _ in range(7):
        loss = mm.mse(x @ v, mm.array(target.astype("f4")))
        v = v - 0.5 * mm.grad(loss, v)
        expected = expected - 0.5 * 2 * X.astype("f8").T @ (X.astype("f8") @ expected - target) / target.size
        number = mm.persist(loss, v)[0].item() if way == "persist" else loss.item()
    show(f"learned by {way}", v.numpy(), expected, 1e-5)
doubled = mm.persist(x * 2)
assert mm.persist(doubled) is doubled
show("persistent", doubled.numpy(), X * 2, 0)
show("gradient of it", mm.grad(mm.sum(doubled * doubled), doubled).numpy(), X * 4, 0)
D = rng.standard_normal((33, 20))
d = mm.array(D)
found = mm.softmax(d) * 3 - d / 7 + mm.array(np.eye(33, 20, dtype=bool))
show("float64", found.numpy(), soft(D) * 3 - D / 7 + np.eye(33, 20), 1e-14)
assert all(part.dtype == np.float64 and (part == (D / 7)[i:i + len(part), j:j + part.shape[1]]).all()
           for _, i, j, part in mm.place(d / 7, "rows").local())
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    mixed = (d + mm.array(D.astype("f4"))).numpy()
    assert mm.rank() > 0 or (mixed.dtype == np.float32 and
                             [(str(w.message), w.filename) for w in warned] ==
                             [("'d' is float64 and is read as float32", __file__)])
labels = np.argmax(X, -1)
assert (mm.argmax(x) == labels).mean().item() == 1 and mm.argmax(x).shape == (1, len(X))
for axis in (-1, -2, 0, 1):
    show(f"argmin {axis}", mm.argmin(x, axis).numpy(), np.argmin(X, axis)[None], 0)
stack = X[:32].reshape(4, 8, -1)
show("argmax of a stack", mm.argmax(mm.array(stack), 1).numpy(), np.argmax(stack, 1), 0)
show("argmax that stays", x.argmax(keepdims=True).numpy(), np.argmax(X, -1)[:, None], 0)
for ids, expected in ((mm.arange(3), np.eye(4)[:3]), (mm.arange(3)[:], np.eye(4)[:3]),
                      (mm.arange(6)[:, 1:4], np.eye(4)[1:]), (mm.array([[2, 0, 1]]), np.eye(4)[[[2, 0, 1]]]),
                      (mm.array([[2], [0]]), np.eye(4)[[[2], [0]]])):
    show(f"one_hot of {ids.shape}", mm.one_hot(ids, 4).numpy(), expected, 0)
row, column = mm.array(np.arange(5.)), mm.array(np.arange(5.)[:, None])
assert (row * 2 - row).is_row and not (row + column).is_row
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for value in (column == row, row.T < row, mm.mean((column - row) ** 2), mm.sum(abs(row - column))):
        value.numpy()
    for value in (row == row, column * row + column, column - row, mm.maximum(column, row), row[:, :4].T > row,
                  mm.mean(column - row, axis=-1), mm.mean(column * row), row == 3, row[:, :1] == row[:, :1]):
        value.numpy()
    assert mm.rank() > 0 or [(str(w.message), w.filename) for w in warned] == [
        (text, __file__) for text in ("compares all pairs of 5 x 1 and 1 x 5",) * 2 + (
            "mean covers the differences of all pairs of 5 x 1 and 1 x 5",
            "sum covers the differences of all pairs of 5 x 1 and 1 x 5")], [str(w) for w in warned]
show("big-endian", mm.array(D.astype(">f8")).numpy(), D, 0)
show("whole", mm.array(D.astype(">i2")).numpy(), D.astype("i2"), 0)
plain = (mm.maximum(2, 3), mm.minimum(2, 3), mm.where(0, 2, 3), mm.concat((x, X)).shape, mm.sum(X, axis=-1).shape)
assert plain == (3, 2, 3, (128, 48), (64, 1)), plain
large = mm.array([[2**40, -3]])
show("large whole", mm.evaluate(large, large * d[:, :2])[0], np.array([[2**40, -3]]), 0)
if mm.rank() == 0:
    np.save("d.npy", D)
    np.save("whole.npy", np.arange(6).reshape(2, 3))
changing = X.copy()
kept = mm.array(changing) * 2
changing[:] = 0
show("kept", kept.numpy(), X * 2, 0)
bare = mm.array(np.array([2**40 + 1]))
parts = mm.place(x @ w, "rows").local()
whole = (x @ w).numpy()
rows = np.zeros(1)
rows[0] = sum(part.shape[0] for *_, part in parts)
mm.assert_close(x @ w, x @ w, 0)
show("methods", x[:, :32].relu().sum(axis=0).maximum(b).reshape(4, -1).permute(1, 0).T.sqrt().numpy(),
     np.sqrt(np.maximum(np.maximum(X[:, :32], 0).astype("f8").sum(0), B).reshape(4, -1)), 1e-5)
for value in (x, d, d / 7, d.sum(), d @ d.T, d.argmax(), x.topk(2)[1], d[1:], d > 0, mm.where(d > 0, 1, 0),
              d[:, :1] * 2, mm.array([[1, 2]]), mm.array([[1, 2]]) * 2, mm.generate((3, 4)),
              mm.generate((33, 20)) + d, d.T.reshape(-1), mm.take(d, mm.array([2, 1])),
              mm.concat((d, d)), mm.place(d, "rows"), mm.load("d.npy"),
              mm.load("d.npy") * 2, mm.load("whole.npy")):
    found = value.numpy()
    assert mm.rank() > 0 or (found.dtype, found.shape) == (value.dtype, value.shape), (value, found.dtype)
    assert len(value) == value.shape[0]
total = x.sum()
assert repr(total) == "Value(1 x 1, float32)", total
assert abs(float(total) - X.astype("f8").sum()) < 1e-3  # on all ranks
assert [type(n) for n in (float(total), mm.array([[3]]).item(), int(mm.array([[3]])))] == [float, int, int]
for wrong in (lambda: x @ x, lambda: mm.load("/nowhere.npy"), lambda: mm.assert_close(x, x + 1, 0.5),
              lambda: mm.place(x, "here"), lambda: x[10 ** 6], lambda: x[w], lambda: x[0][1], lambda: mm.arange(5)[1:3],
              lambda: mm.one_hot(mm.zeros((1, 2, 3, 4)), 3), lambda: mm.take(x, mm.zeros((1, 2, 3, 4))),
              lambda: mm.clip(x, w), lambda: mm.gelu(x, "fast"), lambda: x + 1j,
              lambda: mm.save("d.bin", d), lambda: mm.load("a\0b"), lambda: mm.load(b"\xff.npy"),
              lambda: mm.array(np.array([2**64 - 1], dtype="u8")), lambda: x + np.complex128(1j),
              lambda: mm.layer_norm(x, None, b), lambda: mm.softmax(x, causal=2),
              lambda: mm.attention(x, x, x, causal=1.0), lambda: mm.rope(x, interleaved=None),
              lambda: mm.attention(x, x, x, mask=np.ones((64, 64), "u1")),
              lambda: mm.sum(x, axis=-3),
              lambda: mm.mean(mm.array(B if mm.rank() == 0 else None), axis=0),
              lambda: mm.concat((b, b)), lambda: mm.generate((2, 3), seed=-1),
              lambda: mm.array(Broken() if mm.rank() == 0 else None), lambda: mm.init(device="cpu"),
              lambda: mm.array(np.broadcast_to(np.float32(1), (10**7, 10**7)) if mm.rank() == 0 else None),
              lambda: mm.array("word" if mm.rank() == 0 else None),
              nested, twice, on_a_thread,
              lambda: bare.numpy(), lambda: mm.array(np.array([None]))):
    try:
        wrong()
    except mm.Error as error:
        if mm.rank() == 0:
            sys.stdout.write(f"{error.status} {error}\n")
if mm.size() > 1:
    assert 0 < rows[0] < 64, rows
mm.save(sys.argv[-1], places)
if mm.rank() == 0:
    assert np.load(sys.argv[-1]).dtype == np.int32 and np.load(sys.argv[-1]).shape == (4, 16, 3)
assert mm.load(sys.argv[-1]).shape == (4, 16, 3) and mm.load(sys.argv[-1]).integers
try:
    with mm.program():  # the first has begun when the second fails to begin
        mm.save(sys.argv[-1] + ".half.npy", x)
        mm.save("/nowhere/y.npy", x)
except mm.Error as error:
    assert error.status == 73
heads = mm.place(mm.reshape(d, (3, 11, 20)) / 7, "rows")
with mm.program():
    mm.save("kept:heads", heads)
    mm.save("kept:sums", mm.sum(x, axis=-1))
with mm.program():
    mm.save(sys.argv[-1] + ".npz:one", x)
    mm.save(sys.argv[-1] + ".npz:two", w)
show("two in a file", mm.load(sys.argv[-1] + ".npz:two").numpy(), W, 0)
again = mm.load("kept:heads")
assert again.shape == (3, 11, 20)
show("kept set", (again * 2).numpy(), D.reshape(3, 11, 20) / 7 * 2, 0)
show("kept sums", (mm.load("kept:sums") - mm.sum(x, axis=-1)).numpy(), np.zeros((64, 1)), 0)
mine = slice(5 * mm.rank(), 5 * mm.rank() + 5 if mm.rank() + 1 < mm.size() else None)
show("parts", (mm.keep("parts", D[mine]) * 2).numpy(), D * 2, 0)
show("columns", (mm.keep("parts", D.T[:, mine].astype("f4"), axis=-1) * 2).numpy(), D.T.astype("f4") * 2, 0)
try:
    mm.keep("parts", np.zeros((2, 2 + (mm.rank() == mm.size() - 1))) if mm.size() > 1 else np.zeros((0, 3)))
except mm.Error as error:
    assert error.status == 65 and str(error).startswith("cannot keep 'parts': "), error
try:
    mm.keep("parts", [1] if mm.rank() == 0 else [[1.0]])
except mm.Error as error:
    assert (error.status, "1 axes, cannot be a part: expected float32" in str(error)) == (65, True), error
show("parts that are left", mm.load("kept:parts").numpy(), D.T.astype("f4"), 0)
try:
    mm.load("kept:others")
except mm.Error as error:
    assert (error.status, str(error)) == (66, f"no kept 'others' in '{os.environ['MPIMATMUL_SHARD_DIR']}'"), error
mm.save(pathlib.Path(sys.argv[-1]), mm.load(pathlib.Path(sys.argv[-1])) * 0)
mm.save(sys.argv[-1], x)
if mm.rank() == 0:
    assert (np.load(sys.argv[-1]) == X).all()
