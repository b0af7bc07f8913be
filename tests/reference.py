#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs of `mpimatmul run` under CPython: the same names, over numpy, in double unless
PRECISION says otherwise.

    tests/reference.py FILE [NAME=VALUE...]        (REFERENCE_STORES=float64: the type of saved values)

Formulas are numpy's and torch's, written once more. No code of the program under test is used.
"""
import ast
import builtins
import json
import math
import os
import statistics
import sys

import numpy as np


class Matrix(np.ndarray):
    """An array of double: .T swaps the last two axes, and comparisons give 0 and 1. An array of one
    element prints as its number."""

    @property
    def T(self):
        return self.swapaxes(-1, -2)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **how):
        y = getattr(ufunc, method)(*(np.asarray(x) if isinstance(x, Matrix) else x for x in inputs), **how)
        return _kept_row(y.view(Matrix), inputs, method, ufunc) if isinstance(y, np.ndarray) else y

    def __getitem__(self, key):
        return _row(super().__getitem__(_checked(self, key)), self, key)

    def __mul__(self, other):
        return _bools(super().__mul__(other), self, other)

    __rmul__ = __mul__

    def __rsub__(self, other):
        made = super().__rsub__(other)
        return _bools(made, self) if np.ndim(other) == 0 and other == 1 else made

    def __str__(self):
        if self.size != 1:
            return super().__str__()
        return f"{self.item():.0f}" if getattr(self, "is_whole", False) else f"{self.item():.6g}"

    def __format__(self, spec):
        number = self.item() if spec else None
        return format(int(number) if getattr(self, "is_whole", False) else number, spec) if spec else str(self)


PRECISION = np.float64  # the type of computed values
STORED = os.environ.get("REFERENCE_STORES", "float32")  # the type of saved values
KIND = Matrix  # the class of all matrices; Taped if a program asks for gradients


def matrix(array):
    if isinstance(array, KIND) and array.dtype == PRECISION and array.ndim > 1:
        return array
    array = np.asarray(array, dtype=PRECISION)
    return (array[None, :] if array.ndim == 1 else array).view(KIND)


def _checked(x, key):
    if getattr(x, "is_row", False) and isinstance(key, (slice, int)) and key != slice(None):
        raise ValueError("what has one axis is a row here: x[0, i], x[:, a:b]")
    return key


def _row(array, of=None, key=None):
    """Returns a row for an array of one axis or none, and for a part of such a row."""
    made = matrix(np.reshape(array, (1, -1)) if np.ndim(array) < 2 else array)
    keys = key if isinstance(key, tuple) else (key,)
    made.is_row = np.ndim(array) == 1 or (
        getattr(of, "is_row", False) and all(isinstance(k, slice) for k in keys))
    return made


def _kept_row(y, operands, method="__call__", ufunc=None):
    """Marks the result of an operation by element as a row if its operands are. For operands of one
    element that is unknown."""
    operands = [x for x in operands if isinstance(x, np.ndarray)]
    longer = [x for x in operands if x.size > 1]
    y.is_row = (method == "__call__" and ufunc is not np.matmul and y.shape[:-1] == (1,) and
                any(getattr(x, "is_row", False) for x in operands) and
                all(getattr(x, "is_row", False) for x in longer) and (y.size > 1 or not longer))
    return y


def _bools(made, *of):
    """Marks values of True and False, as 1 and 0, if all operands are marked or are 0 and 1. As a
    mask such a value allows attention. Plain numbers are not marked."""
    made.is_bool = not of or (any(isinstance(x, Matrix) for x in of) and all(
        getattr(x, "is_bool", False) if isinstance(x, Matrix) else x in (0, 1) for x in of))
    return made


# --------------------------------------------------------------------------------- gradients: a tape


def _summed(g, shape):
    """Sums the gradient of repeating sizes to the operand's sizes."""
    while g.ndim > len(shape):
        g = g.sum(0)
    repeated = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] > 1)
    return g.sum(repeated, keepdims=True) if repeated else g


def _ties(wins):
    """Gives the gradient to the larger or the smaller of two. Equal ones share it."""
    return (lambda g, y, a, b: g * (wins(a, b) + 0.5 * (a == b)), lambda g, y, a, b: g * (wins(b, a) + 0.5 * (a == b)))


_swapped = (lambda x: x.swapaxes(-1, -2))
# Rules of numpy's functions, by operand: from the gradient of the result y.
_DERIVATIVES = {
    np.add: (lambda g, y, a, b: g, lambda g, y, a, b: g),
    np.subtract: (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    np.multiply: (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    np.divide: (lambda g, y, a, b: g / b, lambda g, y, a, b: -g * a / b ** 2),
    np.power: (lambda g, y, a, b: g * np.where(b == 0, 0, b * a ** (b - 1)),
               lambda g, y, a, b: g * np.where(a == 0, 0, y * np.log(a))),
    np.remainder: (lambda g, y, a, b: g, lambda g, y, a, b: -g * np.floor(a / b)),
    np.matmul: (lambda g, y, a, b: g @ _swapped(b), lambda g, y, a, b: _swapped(a) @ g),
    np.maximum: _ties(np.greater), np.minimum: _ties(np.less),
    np.negative: (lambda g, y, a: -g,), np.exp: (lambda g, y, a: g * y,), np.log: (lambda g, y, a: g / a,),
    np.log1p: (lambda g, y, a: g / (1 + a),), np.expm1: (lambda g, y, a: g * np.exp(a),),
    np.arctan: (lambda g, y, a: g / (1 + a * a),),
    np.sqrt: (lambda g, y, a: g / (2 * y),), np.absolute: (lambda g, y, a: g * np.sign(a),),
    np.sin: (lambda g, y, a: g * np.cos(a),), np.cos: (lambda g, y, a: -g * np.sin(a),),
    np.tanh: (lambda g, y, a: g * (1 - y * y),), np.square: (lambda g, y, a: 2 * g * a,),
    np.reciprocal: (lambda g, y, a: -g * y * y,),
}


def _guarded(ufunc, g, made):
    """Returns 0 where the result's gradient is 0, whatever the factor or divisor is."""
    return made if ufunc is np.matmul else np.where(g == 0, 0, made)


class Taped(Matrix):
    """A matrix with its operands: .parents are (matrix, function from this matrix's gradient to
    that one's)."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **how):
        plain = [np.asarray(x) for x in inputs]
        y = getattr(ufunc, method)(*plain, **how)
        if not isinstance(y, np.ndarray):
            return y
        if method == "reduce" and ufunc in (np.add, np.maximum, np.minimum):
            return taped(y, (inputs[0], _spread(plain[0], y, ufunc)))
        rules = _DERIVATIVES.get(ufunc, ()) if method == "__call__" else ()
        made = taped(y, *((x, lambda g, rule=rule, at=at:
                           _summed(_guarded(ufunc, g, rule(g, y, *plain)), plain[at].shape))
                          for at, (x, rule) in enumerate(zip(inputs, rules))))
        return _kept_row(made, inputs, method, ufunc)

    def __pow__(self, other):
        is_zero = np.ndim(other) == 0 and other == 0  # numpy makes ones of it without the ufunc
        return np.power(self, np.zeros(self.shape)) if is_zero else super().__pow__(other)

    def __getitem__(self, key):
        def back(g):
            whole = np.zeros(self.shape)
            np.add.at(whole, key, g.reshape(whole[key].shape))
            return whole
        part = _row(np.asarray(self)[_checked(self, key)], self, key)
        made = taped(part, (self, back))
        made.is_row = part.is_row
        return made

    @property
    def T(self):
        return taped(_swapped(np.asarray(self)), (self, _swapped))


def _spread(x, y, ufunc):
    """Spreads a reduction's gradient over the added elements, or over the largest (smallest) ones.
    """
    if ufunc is np.add:
        return lambda g: np.broadcast_to(g, x.shape)
    return lambda g: g * (x == y) / (x == y).sum(tuple(i for i, n in enumerate(y.shape) if n == 1), keepdims=True)


def taped(y, *parents):
    """Returns y with its operands. Without a request for gradients it keeps none."""
    y = matrix(y) if y.ndim > 1 else np.asarray(y).view(KIND)
    if KIND is Taped:
        y.parents = [(x, back) for x, back in parents if isinstance(x, Taped)]
    return y


def grad(y, x):
    """Walks the tape backward."""
    if y.size != 1:
        raise ValueError("grad of a matrix")
    order, seen, stack = [], set(), [(y, False)]
    while stack:
        at, is_done = stack.pop()
        if is_done:
            order.append(at)
        elif id(at) not in seen:
            seen.add(id(at))
            stack.append((at, True))
            stack.extend((parent, False) for parent, _ in getattr(at, "parents", ()))
    known = {id(y): np.ones(y.shape)}
    for at in reversed(order):
        for parent, back in getattr(at, "parents", ()):
            known[id(parent)] = known.get(id(parent), 0) + back(known[id(at)]) if id(at) in known else 0

    def of(x):
        if isinstance(x, tuple):
            return tuple(map(of, x))
        return matrix(np.array(known[id(x)]))
    return of(x)


def dropout(x, p, seed, turn):
    draws = generate(x.shape, seed=_drawn(seed, turn))  # multiples of 2^-23
    return where(draws >= math.floor(p * 2 ** 24) / 2 ** 23 - 1, x / (1 - p), 0) if p else x


# ------------------------------------------------------------------------------------- the functions

for _name, _compare in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
                        "eq": np.equal, "ne": np.not_equal}.items():
    setattr(Matrix, f"__{_name}__", lambda x, y, compare=_compare:
            _bools(_kept_row(matrix(compare(np.asarray(x), np.asarray(y))), (x, y))))


def _erf(x):
    if not isinstance(x, np.ndarray):
        return math.erf(x)
    return taped(np.vectorize(math.erf, otypes=[float])(np.asarray(x)),
                 (x, lambda g: g * 2 / math.sqrt(math.pi) * np.exp(-np.asarray(x) ** 2)))


def plain_erfinv(x):
    """Computes the inverse of erf of a number. The standard library's quantile of the normal distribution
    is of (1 - x) / 2, which has few digits of a small x. Newton's method adds them."""
    size = abs(x)
    if not size < 1:
        return math.copysign(math.inf, x) if size == 1 else math.nan
    y = -statistics.NormalDist().inv_cdf((1 - size) / 2) / math.sqrt(2)
    for _ in range(2):
        off = math.erf(y) - size if size < 0.5 else (1 - size) - math.erfc(y)
        y -= off * math.sqrt(math.pi) / 2 * math.exp(y * y)
    return math.copysign(y, x)


def erfinv(x):
    if not isinstance(x, np.ndarray):
        return plain_erfinv(x)
    y = np.vectorize(plain_erfinv, otypes=[float])(np.asarray(x))
    return taped(y, (x, lambda g: np.where(g == 0, 0, g * math.sqrt(math.pi) / 2 * np.exp(y * y))))


erf, arctan, expm1 = _erf, np.arctan, np.expm1
neg, exp, log, log1p, sqrt, sin, cos = np.negative, np.exp, np.log, np.log1p, np.sqrt, np.sin, np.cos
tanh, maximum, minimum = np.tanh, np.maximum, np.minimum
loop, stop_gradient = (lambda first, *end: range(first, *end)), (lambda x: _kept_row(matrix(np.array(x)), (x,)))
rsqrt, sigmoid, silu = (lambda x: 1 / np.sqrt(x)), (lambda x: 1 / (1 + np.exp(-x))), (lambda x: x / (1 + np.exp(-x)))
softplus = (lambda x: maximum(x, 0) + log1p(exp(-abs(x))))
relu = (lambda x: taped(np.maximum(np.asarray(x), 0), (x, lambda g: g * (np.asarray(x) > 0)))
        if isinstance(x, np.ndarray) else builtins.max(x, 0))
_flag = {0: False, 1: True}.__getitem__


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def where(condition, x, y):
    first = np.asarray(condition) != 0
    made = np.where(first, np.asarray(x), np.asarray(y))
    made = taped(matrix(made), (x, lambda g: _summed(np.where(first, g, 0), np.shape(x))),
                 (y, lambda g: _summed(np.where(first, 0, g), np.shape(y))))
    return _kept_row(made, (condition, x, y))


def clip(x, low, high):
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    if not isinstance(x, np.ndarray):
        return builtins.min(builtins.max(x, low), high)
    return where(x < low, low, where(x > high, high, x)) if low <= high else 0 * x + high


def softmax(x, causal=False, axis=-1):
    if axis not in (-1, x.ndim - 1):
        order = [{axis % x.ndim: x.ndim - 1, x.ndim - 1: axis % x.ndim}.get(i, i) for i in range(x.ndim)]
        return permute(softmax(permute(x, order)), order)
    rows, cols = matrix(x).shape[-2:]
    hidden = (np.arange(cols) > np.arange(rows)[:, None] + cols - rows) & _flag(causal)
    x = where(hidden, -np.inf, x)
    e = np.exp(x - np.maximum(np.asarray(x).max(-1, keepdims=True), -1e300))
    total = e.sum(-1, keepdims=True)
    return where(hidden, 0, e / where(hidden.all(-1, keepdims=True), 1, total))


rms_norm = (lambda x, w, eps=1e-6: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (1 if w is None else w))
normalize = (lambda x: x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-12))


def layer_norm(x, w, b, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
    return scaled * (1 if w is None else w) + (0 if b is None else b)


def _gathered(x, order, axis=-1):
    def back(g):
        whole = np.zeros(x.shape)
        np.put_along_axis(whole, order, g, axis)
        return whole
    return taped(np.take_along_axis(np.asarray(x), order, axis), (x, back))


def topk(x, k):
    plain = np.asarray(x)
    order = np.lexsort((-plain, ~np.isnan(plain)), axis=-1)[..., :k]  # NaN before all, as in torch
    values, places = _gathered(x, order), _whole(matrix(order), x)
    values.is_row = places.is_row
    return values, places


def _whole(x, of=None):
    x.is_whole, x.is_row = True, of if isinstance(of, bool) else getattr(of, "is_row", False)
    return x


def _place(of):
    def place(x, axis=-1, keepdims=True):
        found = of(np.asarray(x), axis)
        return _whole(matrix(np.expand_dims(found, axis))) if keepdims else _whole(_row(found), found.ndim == 1)
    return place


argmax, argmin = _place(np.argmax), _place(np.argmin)
_order = (lambda x, axis, descending:  # NaN behind all
          np.argsort((-1 if _flag(descending) else 1) * np.asarray(x), axis, kind="stable"))
argsort = (lambda x, axis=-1, descending=False: _whole(matrix(_order(x, axis, descending)), x))
sort = (lambda x, axis=-1, descending=False: _kept_row(_gathered(x, _order(x, axis, descending), axis), [x]))


def rope(x, base=10000.0, interleaved=False):
    rows, cols = x.shape[-2:]
    angle = np.arange(rows)[:, None] * base ** (-2.0 * np.arange(cols // 2) / cols)
    left, right = np.s_[..., :cols // 2], np.s_[..., cols // 2:]
    if _flag(interleaved):
        left, right = np.s_[..., 0::2], np.s_[..., 1::2]
    def place(at, part):
        whole = np.zeros(x.shape, PRECISION)
        whole[at] = part
        return taped(whole, (part, lambda g: g[at]))
    return place(left, x[left] * np.cos(angle) - x[right] * np.sin(angle)) + \
        place(right, x[left] * np.sin(angle) + x[right] * np.cos(angle))


def _reduction(of_array):
    def reduction(x, axis=None, keepdims=True):
        axes = axis if isinstance(axis, tuple) else (axis,)
        if getattr(x, "is_row", False) and axis is not None and builtins.max(axes) >= 0:
            raise ValueError("a file of one axis is a row here: axis=-1 runs along its elements")
        made = matrix(of_array(matrix(x), axis))
        if keepdims:
            return made
        left = [n for i, n in enumerate(made.shape) if axis is not None and i not in [a % made.ndim for a in axes]]
        return reshape(made, [1] * (2 - len(left)) + left)
    return reduction


sum, mean, max, min = (_reduction(lambda x, axis, f=f: f(x, axis=axis, keepdims=True))
                       for f in (np.add.reduce, np.mean, np.maximum.reduce, np.minimum.reduce))
amax, amin = max, min


def _root(of, x, axis):
    """Returns the root of a sum or mean of squares, each divided by the largest size. The slope at
    0 is 0."""
    most = np.max(np.abs(np.asarray(x)), axis, keepdims=True)
    most = np.where((most == 0) | ~np.isfinite(most), 1, most)
    squares = of((x / most) ** 2, axis)
    return most * where(squares == 0, 0, np.sqrt(where(squares == 0, 1, squares)))


def _logsumexp(x, axis):
    most = np.max(np.asarray(x), axis, keepdims=True)
    infinite = np.isinf(most)
    shift = np.where(infinite, 0, most)
    return where(infinite, max(x, axis), shift + np.log(sum(np.exp(x - shift), axis)))


def _truth(of):
    return _reduction(lambda x, axis: _bools(matrix(of(np.asarray(x) != 0, axis, keepdims=True))))


prod = _reduction(lambda x, axis: taped(np.prod(np.asarray(x), axis, keepdims=True), (
    x, lambda g: g * _others(np.asarray(x), axis))))
_all, _any = _truth(np.all), _truth(np.any)
norm, logsumexp = _reduction(lambda x, axis: _root(sum, x, axis)), _reduction(_logsumexp)
var = _reduction(lambda x, axis: mean((x - mean(x, axis)) ** 2, axis))
std = _reduction(lambda x, axis: _root(mean, x - mean(x, axis), axis))

cumsum = (lambda x, axis: _kept_row(taped(np.cumsum(np.asarray(x), axis), (
    x, lambda g: np.flip(np.cumsum(np.flip(g, axis), axis), axis))), (x,)))
reshape, permute = (lambda x, shape: taped(np.reshape(np.asarray(x), shape), (x, lambda g: g.reshape(x.shape)))), (
    lambda x, axes: taped(np.transpose(np.asarray(x), axes), (x, lambda g: np.transpose(g, np.argsort(axes)))))


def concat(matrices, axis=0):
    if axis >= 0 and any(getattr(m, "is_row", False) for m in matrices):
        raise ValueError("a file of one axis is a row here: axis=-1 joins elements, axis=-2 rows")
    ends = np.cumsum([m.shape[axis] for m in matrices])
    made = taped(np.concatenate([np.asarray(m) for m in matrices], axis),
                 *((m, lambda g, i=i: np.split(g, ends[:-1], axis)[i]) for i, m in enumerate(matrices)))
    return _kept_row(made, matrices if axis == -1 else ())


# ---------------------------------------------------------------- parts, repeats, diagonals, sums of products by axes


def _axes(x):
    """Returns numpy's array: a value printed as a row has one axis."""
    return np.asarray(x)[0] if getattr(x, "is_row", False) else np.asarray(x)


def _moved(x, of):
    """Builds a result of elements of x: of(numbers of elements, from 1) gives their numbers, and 0
    gives 0."""
    plain = _axes(x)
    places = of(np.arange(plain.size).reshape(plain.shape) + 1)

    def back(g):
        whole = np.zeros(plain.size + 1)
        np.add.at(whole, places.ravel(), np.ravel(g))
        return whole[1:].reshape(x.shape)
    made = taped(_row(np.append(0, plain)[places]), (x, back))
    made.is_row, made.is_whole = places.ndim == 1, getattr(x, "is_whole", False)
    return made


def flip(x, axis=None):
    return _moved(x, lambda places: np.flip(places, axis))


def tile(x, reps):
    return _moved(x, lambda places: np.tile(places, reps))


def repeat(x, repeats, axis=None):
    return _moved(x, lambda places: np.repeat(places, repeats, axis))


def triu(x, k=0):
    return _moved(x, lambda places: np.triu(places, k))


def tril(x, k=0):
    return _moved(x, lambda places: np.tril(places, k))


def diag(x, k=0):
    return _moved(x, lambda places: np.diag(places, k))


def stack(matrices, axis=0):
    return taped(matrix(np.stack([_axes(m) for m in matrices], axis)),
                 *((m, lambda g, i=i, m=m: np.take(g, i, axis).reshape(m.shape)) for i, m in enumerate(matrices)))


def split(x, indices_or_sections, axis=0):
    numbers = np.arange(_axes(x).size).reshape(_axes(x).shape)
    def part(at):
        return _moved(x, lambda places: np.ravel(places)[at])
    return tuple(part(at) for at in np.split(numbers, indices_or_sections, axis))


def outer(a, b):
    return reshape(a, (np.size(a), 1)) * reshape(b, (1, np.size(b)))


def einsum(subscripts, a, b):
    text = subscripts.replace(" ", "")
    terms, arrow, result = text.partition("->")
    one, other = terms.split(",")
    if not arrow:
        result = "".join(sorted(set(one) ^ set(other)))
    sizes = {c: n for term, x in ((one, _axes(a)), (other, _axes(b))) for c, n in zip(term, x.shape)}

    def back(of, also, second):
        alone = "".join(c for c in of if c not in result + also)
        ones = np.ones([sizes[c] for c in alone])
        return lambda g: np.einsum(f"{result},{also},{alone}->{of}", np.reshape(g, [sizes[c] for c in result]),
                                   _axes(second), ones)
    made = _row(np.einsum(f"{one},{other}->{result}", _axes(a), _axes(b)))
    made = taped(made, (a, lambda g: back(one, other, b)(g).reshape(a.shape)),
                 (b, lambda g: back(other, one, a)(g).reshape(b.shape)))
    made.is_row = len(result) == 1
    return made


def _others(x, axis):
    """Returns for every element the product of all others along an axis."""
    last = np.moveaxis(x.reshape(-1) if axis is None else x, -1 if axis is None else axis, -1)
    n = last.shape[-1]
    each = np.where(np.eye(n), 1, np.broadcast_to(last[..., None, :], (*last.shape, n))).prod(-1)
    return each.reshape(x.shape) if axis is None else np.moveaxis(each, -1, axis)


def _whole_numbers(of):
    """Returns a step function, which has no gradient."""
    return lambda x: _kept_row(matrix(of(np.asarray(x))), [x]) if isinstance(x, np.ndarray) else float(of(x))


floor, ceil, sign, _round = map(_whole_numbers, (np.floor, np.ceil, np.sign, np.rint))


def isnan(x):
    return _bools(_kept_row(matrix(np.isnan(np.asarray(x))), [x])) if isinstance(x, np.ndarray) else math.isnan(x)


def eye(n, m=None, k=0):
    return matrix(np.eye(n, m, k))


def linspace(start, stop, num=50):
    return _row(np.linspace(start, stop, num))


def normal(shape, seed=1):
    return generate(shape, "normal", seed)


def uniform(shape, seed=1, low=0.0, high=1.0):
    return generate(shape, "rand", seed) * (high - low) + low


def _indices(ids):
    return np.asarray(ids).astype(int)


take = (lambda table, ids: matrix(table)[_indices(ids)[0] if getattr(ids, "is_row", False) else _indices(ids)])
one_hot = (lambda ids, v: _bools(take(np.eye(v), ids)))


def add_at(table, ids, rows):
    made, ids = np.array(table), _indices(ids).reshape(rows.shape[:-1])
    np.add.at(made, ids, np.asarray(rows))
    return taped(made, (table, lambda g: g), (rows, lambda g: g[ids]))


def cross_entropy(logits, ids):
    shifted = logits - np.asarray(logits).max(-1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(-1, keepdims=True)) - shifted
    chosen = np.eye(logits.shape[-1])[_indices(ids).reshape(logits.shape[:-1])]
    return reshape(mean(sum(losses * chosen, axis=-1)), (1, 1))


mse, binary_cross_entropy = (lambda x, y: reshape(mean((x - y) ** 2), (1, 1))), (lambda logits, y: reshape(
    mean(-(y * log(sigmoid(logits)) + (1 - y) * log(1 - sigmoid(logits)))), (1, 1)))


def attention(q, k, v, causal=False, mask=None, scale=None):
    if q.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k, v = (_repeated(y, q.shape[-3] // y.shape[-3]) for y in (k, v))
    scores = q @ k.T * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if getattr(mask, "is_bool", False):
        mask = np.where(np.asarray(mask) != 0, 0, -np.inf)
    elif getattr(mask, "is_whole", False):
        raise ValueError("a mask is of True and False, or of floats")
    scores = scores if mask is None else scores + mask
    counted = np.tril(np.ones(scores.shape[-2:]), scores.shape[-1] - scores.shape[-2]) if causal else 1
    seen = np.any((np.asarray(scores) != -np.inf) & (counted != 0), axis=-1, keepdims=True)
    return where(seen, softmax(where(seen, scores, 0 * np.asarray(q @ k.T)), causal) @ v, np.zeros(v.shape[-1:]))


def _repeated(x, times):
    """Repeats each head so many times, one behind the other."""
    heads = [*x.shape[:-3], x.shape[-3], times, *x.shape[-2:]]
    return taped(np.repeat(np.asarray(x), times, axis=-3), (x, lambda g: g.reshape(heads).sum(-3)))


# ------------------------------------------------------------------------------------- training


def _map(function, *structures):
    """Applies the function to nested tuples of one structure, element by element."""
    if isinstance(structures[0], tuple):
        return tuple(_map(function, *parts) for parts in zip(*structures, strict=True))
    return function(*structures)


sgd_state = nesterov_state = (lambda parameters: (parameters, _map(lambda p: 0 * p, parameters)))
adamw_state = (lambda parameters: (*sgd_state(parameters), sgd_state(parameters)[1]))
nesterov = (lambda outer, new, rate=0.7, momentum=0.9:
            sgd(outer, _map(lambda p, q: p - q, outer[0], new), rate, momentum, True))


def adamw(state, g, turn, rate, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    (b1, b2), t = betas, turn + 1
    m = _map(lambda m, g: b1 * m + (1 - b1) * g, state[1], g)
    v = _map(lambda v, g: b2 * v + (1 - b2) * g * g, state[2], g)
    return _map(lambda p, m, v: p - rate * decay * p - rate * (m / (1 - b1 ** t)) / (sqrt(v / (1 - b2 ** t)) + eps),
                state[0], m, v), m, v


def sgd(state, g, rate, momentum=0, nesterov=False, decay=0):
    g = _map(lambda g, p: g + decay * p, g, state[0])
    v = _map(lambda v, g: momentum * v + g, state[1], g) if momentum else state[1]
    step = g if not momentum else _map(lambda g, v: g + momentum * v, g, v) if nesterov else v
    return _map(lambda p, s: p - rate * s, state[0], step), v


class _Copies:
    def __init__(self, of, parts):  # the value of each node, and its weight in their mean
        self.of, self.parts = of, parts

    def __getitem__(self, i):
        return _Copies([x[i] for x in self.of], self.parts)


_NODE = None  # the current node, the speed of each, the windows seen by each


def _copy(x, node):
    return x.of[node] if isinstance(x, _Copies) else tuple(_copy(y, node) for y in x) if isinstance(x, tuple) else x


def apart(f, state, first, turns):
    """Runs one node after the other. REFERENCE_APART: the speed of each, such as 1:2."""
    global _NODE
    shares = [float(x) for x in os.environ.get("REFERENCE_APART", "1").split(":")]
    of, seen = [], [0] * len(shares)
    for node in range(len(shares)):
        _NODE, copy = (node, shares, seen), _copy(state, node)
        for turn in range(first, first + turns):
            copy = f(copy, turn)
        of.append(copy)
    _NODE, parts = None, seen if any(seen) else shares
    return _Copies(of, [part / builtins.sum(parts) for part in parts])


def clip_grad_norm(g, most):
    norm = math.sqrt(builtins.sum(float((np.asarray(x) ** 2).sum()) for _, x in _leaves(g)))
    return _map(lambda x: x * builtins.min(most / (norm + 1e-6), 1.0), g)


def _schedule(left):
    def rate(turn, warm, turns, high, low):
        part = builtins.min(builtins.max((turn - warm) / (turns - warm), 0), 1) if turns > warm else 1
        return high * (turn + 1) / (warm + 1) if turn < warm else low + (high - low) * left(part)
    return rate


average = (lambda x: _map(lambda *copies: builtins.sum(p * y for p, y in zip(x.parts, copies)), *x.of))
cosine = _schedule(lambda part: 0.5 * (1 + math.cos(math.pi * part)))
linear_schedule = _schedule(lambda part: 1 - part)


class tokens:
    def __init__(self, file, kind="chars"):
        if kind == "chars":
            with open(file, encoding="utf-8", newline="") as stream:
                self.points, self.ids = np.unique([ord(c) for c in stream.read()], return_inverse=True)
            self.vocabulary = len(self.points)
        else:
            self.ids = np.fromfile(file, "<u2" if kind == "u16" else "u1").astype(int)
            self.vocabulary = builtins.max(int(self.ids.max()) + 1, 256)


def encode(letters, text):
    return _whole(matrix(np.searchsorted(text.points, [[ord(c) for c in letters]])))


def decode(ids, text):
    return "".join(chr(text.points[int(i)]) for i in np.asarray(ids).ravel())


def batch(text, count, length, seed, turn):
    """Draws windows of a text, and the same shifted by one; for (table, labels, count) draws rows.
    """
    labels, count = (None, count) if isinstance(text, tokens) else (count, length)
    most = len(text) if labels is not None else len(text.ids) - length
    starts = [int(_drawn(seed, turn * count + w)) * most >> 64 for w in _own(count)]
    if labels is None:
        windows = np.array(starts)[:, None] + np.arange(length)
        return _whole(matrix(text.ids[windows])), _whole(matrix(text.ids[windows + 1]))
    return matrix(text)[starts], (matrix(labels)[:, starts] if labels.shape[0] == 1 else matrix(labels)[starts])


def _own(count):
    """Returns the windows of the current node out of so many. Without a node: all."""
    if _NODE is None:
        return range(count)
    node, shares, seen = _NODE
    begin, end = (round(count * builtins.sum(shares[:i]) / builtins.sum(shares)) for i in (node, node + 1))
    seen[node] += end - begin
    return range(begin, end)


def _drawn(seed, positions):
    """SplitMix64 at these positions: Steele, Lea, Flood, 2014."""
    z = np.asarray(positions, np.uint64)
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def _leaves(x, name=""):
    return [leaf for i, item in enumerate(x) for leaf in _leaves(item, f"{name}{name and '.'}{i}")] \
        if isinstance(x, tuple) else [(name or "0", x)]


def checkpoint(file, state, turn):
    header, data = {"__metadata__": {"turn": str(turn)}}, b""
    for name, x in _leaves(state):
        begin, data = len(data), data + np.asarray(x, STORED).tobytes()
        header[name] = {"dtype": f"F{STORED[5:]}", "shape": x.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(file, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text + data)


def restore(file, initial):
    if not os.path.exists(file):
        return initial, 0
    read = (load(f"{file}:{name}") for name, _ in _leaves(initial))
    return _map(lambda _: next(read), initial), int(_tensor(file, "__metadata__")["turn"])


zeros, ones = (lambda shape, value=value: _row(np.full(shape, value, PRECISION)) for value in (0.0, 1.0))
arange = (lambda *bounds: _row(np.arange(*bounds)))
linear = (lambda x, w, b=None: x @ w.T + (0 if b is None else b))
place = (lambda x, placement, ranks=None, block=None: x * 1)


def generate(shape, kind="uniform", seed=1):
    """Normal by Box and Muller."""
    count = math.prod(shape)
    z = _drawn(seed, np.arange(count + count % 2))
    if kind == "uniform":
        made = ((z >> np.uint64(40)).astype(np.int64) - (1 << 23)) * 2.0 ** -23
    elif kind == "rand":
        made = (z >> np.uint64(40)).astype(np.int64) * 2.0 ** -24
    elif kind == "integer":
        made = ((z >> np.uint64(32)) * np.uint64(9) >> np.uint64(32)).astype(np.int64) - 4
    elif kind == "normal":
        radius = np.sqrt(-2 * np.log(((z[0::2] >> np.uint64(11)) + np.uint64(1)) * 2.0 ** -53))
        angle = 2 * math.pi * ((z[1::2] >> np.uint64(11)) * 2.0 ** -53)
        made = np.stack((radius * np.cos(angle), radius * np.sin(angle)), -1).reshape(-1).astype(np.float32)
    elif kind in ("zeros", "ones"):
        made = np.full(count, 1.0 if kind == "ones" else 0.0)
    else:
        made = np.broadcast_to(np.eye(*shape[-2:]), shape)
    return matrix(np.reshape(made.reshape(-1)[:count], shape))


rand = (lambda shape, seed=1: generate(shape, "rand", seed))


def _tensor(path, name):
    """Reads a tensor of a .safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        if name == "__metadata__":
            return header[name]
        begin, end = header[name]["data_offsets"]
        file.seek(file.tell() + begin)
        raw = file.read(end - begin)
    kind = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1",
            "BOOL": "?"}
    array = np.frombuffer(raw, kind[header[name]["dtype"]]).reshape(header[name]["shape"])
    return (array.astype("<u4") << 16).view("<f4") if header[name]["dtype"] == "BF16" else array


# a kept value has a file of its own
_path = (lambda file: f"{file[5:]}.kept.npy" if str(file).startswith("kept:") else file)
save = (lambda file, x: np.save(_path(file), np.asarray(x, dtype=STORED)))


def load(file):
    file = _path(file)
    path, colon, name = str(file).partition(".safetensors:")
    array = _tensor(path + ".safetensors", name) if colon else np.load(file)
    loaded = matrix(array)
    loaded.is_row, loaded.is_whole = array.ndim == 1, array.dtype.kind in "biu"
    return _bools(loaded) if array.dtype == bool else loaded


def print(*things, end="\n", flush=True, _called=()):
    """Prints one line, a matrix as its name in the text and statistics; then corners. Placements
    are unknown here."""
    shown, corners = [], []
    for thing, called in zip(things, _called):
        if isinstance(thing, np.ndarray) and thing.size != 1:
            sizes = " x ".join(map(str, thing.shape))
            corners.append(np.asarray(thing).reshape(-1, *thing.shape[-2:])[0])
            thing = f"{called}: {sizes}; min {thing.min():.6g}, max {thing.max():.6g}, mean {thing.mean():.6g}"
        shown.append(str(thing))
    builtins.print(" ".join(shown), end=end, flush=flush)
    for first in corners:
        for row in first[:4]:
            builtins.print("".join(f" {x:12.6g}" for x in row[:6]) + (" ..." if len(row) > 6 else ""))
        builtins.print("          ...\n" if len(first) > 4 else "", end="")


def _quote(text):
    """Returns an expression as errors and prints show it: of a long one the beginning and the end.
    """
    text = " ".join(text.split())
    return text if len(text) <= 42 else f"{text[:20]}..{text[-20:]}"


class _Names(ast.NodeTransformer):
    """Passes the source text of its arguments to print."""

    def __init__(self, text):
        self.text = text

    def visit_AugAssign(self, node):  # x = x + y: matrices do not change
        whole = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, self.visit(node.value))
        return ast.Assign([node.target], whole)

    def visit_Call(self, call):
        self.generic_visit(call)
        if getattr(call.func, "id", None) == "print":
            called = [ast.Constant(_quote(ast.get_source_segment(self.text, a))) for a in call.args]
            call.keywords.append(ast.keyword("_called", ast.Tuple(called, ast.Load())))
        return call


def assert_close(x, y, tolerance):
    largest = float(np.max(np.abs(np.asarray(x) - np.asarray(y))))
    assert largest <= tolerance, f"the largest difference is {largest}"


def _keeps_bools(function, operands):
    """Returns a function with a result of True and False if these of its arguments are."""
    def marked(*arguments, **named):
        made = function(*arguments, **named)
        return _bools(made, *operands(arguments)) if isinstance(made, Matrix) else made
    return marked


for _name in ("reshape", "permute", "sort", "stop_gradient", "take", "max", "min"):
    globals()[_name] = _keeps_bools(globals()[_name], lambda arguments: arguments[:1])
for _name in ("maximum", "minimum"):
    globals()[_name] = _keeps_bools(globals()[_name], lambda arguments: arguments)
where = _keeps_bools(where, lambda arguments: arguments[1:])
concat = _keeps_bools(concat, lambda arguments: arguments[0])
for _kind in (Matrix, Taped):
    _kind.T = property(_keeps_bools(_kind.T.fget, lambda arguments: arguments))
    _kind.__getitem__ = _keeps_bools(_kind.__getitem__, lambda arguments: arguments[:1])

def _of_numbers(reduction, of_numbers):
    """Python's max and min unless the first argument is a matrix."""
    return lambda x, *more, **named: reduction(x, *more, **named) if isinstance(x, np.ndarray) else of_numbers(x, *more)


max, min = _of_numbers(max, builtins.max), _of_numbers(min, builtins.min)
NAMES = {name: thing for name, thing in globals().items() if not name.startswith("_")}
NAMES["float"] = (lambda x: x if isinstance(x, np.ndarray) and x.size == 1 else float(x))
NAMES.update(all=_all, any=_any,  # the code above uses the builtins of these names
             round=lambda x, *digits: _round(x) if isinstance(x, np.ndarray) else round(x, *digits))


def run(text, name="program", settings=(), names=None):
    """Runs a text. Settings "NAME=VALUE" replace the first literal of NAME. Returns its names.
    numpy's warnings about infinities and NaN are not failures."""
    global KIND
    tree = ast.parse(text, name)
    KIND = Taped if any(getattr(node, "id", None) == "grad" for node in ast.walk(tree)) else Matrix
    for setting in settings:
        key, _, value = setting.partition("=")
        for line in tree.body:
            if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", None) == key:
                is_text = isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
                line.value = ast.copy_location(ast.Constant(value if is_text else ast.literal_eval(value)), line.value)
                break
    tree = ast.fix_missing_locations(_Names(text).visit(tree))
    names = {**NAMES, **(names or {})}
    with np.errstate(all="ignore"):
        exec(compile(tree, name, "exec"), names)
    return names


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as program:
        run(program.read(), sys.argv[1], sys.argv[2:])
