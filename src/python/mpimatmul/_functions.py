# SPDX-License-Identifier: MIT
"""Functions known from numpy: flip, stack, split, tile, repeat, diagonals, truth values and
einsum."""
import operator

import numpy

from ._library import Error
from ._operations import _along, _axis, _method, _reduction, _sizes, as_value, concat, is_number, reshape
from ._values import Value, apply, array, generate, rand

prod = _reduction("prod", "The product")
all = _reduction("all", "Is each element not 0,")  # pylint: disable=redefined-builtin
any = _reduction("any", "Is an element not 0,")  # pylint: disable=redefined-builtin


def _axis_count(x):
    return 1 if x.is_row else x.ndim


def _whole(name, given, least=None):
    try:
        number = operator.index(given)
    except TypeError:
        raise Error(64, f"{name} is {given!r}, expected an integer") from None
    if least is not None and number < least:
        raise Error(64, f"{name} is {number}: at least {least}")
    return number


def flip(x, axis=None):
    """Reverses the elements along all axes, one axis, or those of a tuple."""
    x = as_value(x)
    axes = range(-x.ndim, 0) if axis is None else [_along("flip", x, a) for a in _sizes("axis", axis)]
    if len(set(axes)) < len(axes):
        raise Error(64, f"flip: duplicate axis: {axis}")
    return x[tuple(slice(None, None, -1 if i - x.ndim in axes else 1) for i in range(x.ndim))]


def stack(values, axis=0):
    """Joins values along a new axis."""
    values = [as_value(v) for v in values]
    if not values:
        raise Error(64, "stack needs at least one value")
    for v in values:
        if (v.ndim, v.is_row) != (values[0].ndim, values[0].is_row):
            raise Error(64, f"stack: values of {_axis_count(values[0])} and of {_axis_count(v)} axes")
    axes = _axis_count(values[0]) + 1
    if axes > 4:
        raise Error(64, f"stack of values of {axes - 1} axes: at most 3")
    along = _axis(axis, axes)
    parts = []
    for v in values:
        sizes = list(v.shape[v.ndim + 1 - axes:])
        sizes.insert(axes + along, 1)
        parts.append(reshape(v, sizes))
    return concat(parts, along)


def split(x, indices_or_sections, axis=None):
    """Splits a value along an axis (None: the first). Returns a tuple of equal parts, or of the
    parts between split positions."""
    x = as_value(x)
    along = (-1 if x.is_row else -x.ndim) if axis is None else _along("split", x, axis)
    size = x.shape[along]
    if hasattr(indices_or_sections, "__iter__"):
        ends = [*(n + size if n < 0 else n for n in _sizes("indices_or_sections", indices_or_sections)), size]
    else:
        count = _whole("indices_or_sections", indices_or_sections)
        if count < 1 or size % count != 0:
            raise Error(64, f"an axis of {size} cannot be divided into {count} equal parts")
        ends = range(size // count, size + 1, size // count)
    parts = []
    for begin, end in zip([0, *ends], ends):
        if not begin < end <= size:
            raise Error(64, f"empty part [{begin}:{end}] of {size}")
        parts.append(x[(slice(None),) * (x.ndim + along) + (slice(begin, end),)])
    return tuple(parts)


def tile(x, reps):
    """Repeats the whole value along each axis."""
    x, reps = as_value(x), _sizes("reps", reps)
    if len(reps) > 4 or min(reps, default=0) < 1:
        raise Error(64, f"reps is {reps}: expected 1 to 4 numbers of at least 1")
    made = apply("tile", [x], ndim=max(x.ndim, len(reps)), shape=reps)
    made.is_row = x.is_row and len(reps) == 1
    return made


def repeat(x, repeats, axis=None):
    """Repeats each element along an axis (None: all elements, as one row)."""
    x, count = as_value(x), _whole("repeats", repeats, 1)
    is_row = x.is_row or axis is None
    along = -1 if axis is None else _along("repeat", x, axis)
    made = apply("repeat", [reshape(x, (-1,)) if axis is None else x], axis=along, count=count)
    made.is_row = is_row
    return made


def outer(a, b):
    """Returns the products of all pairs of elements."""
    made = apply("outer", [as_value(a), as_value(b)], ndim=2)
    made.is_row = False
    return made


def _triangle(name, what):
    def operation(x, k=0):
        x = as_value(x)
        if x.is_row:
            raise Error(64, f"{name} of a one-axis array, which is stored as a row (1 x {x.shape[1]})")
        return apply(name, [x], count=_whole("k", k))
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"Zeros {what} diagonal k; k is so many columns to the right of the main one."
    return operation


triu = _triangle("triu", "below")
tril = _triangle("tril", "above")


def diag(x, k=0):
    """Returns a matrix with the given row on diagonal k, or diagonal k of a matrix as a row."""
    x = as_value(x)
    if x.ndim != 2:
        raise Error(64, f"diag of {x.ndim} axes: expected 1 or 2")
    made = apply("diag" if x.is_row else "diagonal", [x], count=_whole("k", k))
    made.is_row = not x.is_row
    return made


def eye(n, m=None, k=0):
    """Returns an n x m matrix (None: n x n) with ones on diagonal k and zeros elsewhere."""
    n, m, k = _whole("n", n, 1), _whole("m", n if m is None else m, 1), _whole("k", k)
    if k >= m or -k >= n:
        return generate((n, m), "zeros")
    down, along = max(k, 0), max(-k, 0)
    made = generate((n + down, m + along), "identity")
    return made if k == 0 else made[down:, along:]


def linspace(start, stop, num=50):
    """Returns numpy's linspace as a row, both ends included. Collective."""
    return array(numpy.linspace(start, stop, _whole("num", num, 1)))


def normal(shape, seed=1):
    """Draws from the normal distribution with mean 0 and standard deviation 1, as `generate`."""
    return generate(shape, "normal", seed)


def uniform(shape, seed=1, low=0.0, high=1.0):
    """Draws uniformly from [low, high)."""
    if not low <= high:
        raise Error(64, f"uniform from {low:g} to {high:g}: expected low <= high")
    made = rand(shape, seed)
    made = made if high - low == 1 else made * (high - low)
    return made if low == 0 else made + low


def _terms(subscripts, values):
    """Returns the letters of both operands and of the result."""
    text = subscripts.replace(" ", "")
    terms, arrow, result = text.partition("->")
    terms = terms.split(",")
    if len(terms) != 2:
        raise Error(64, "einsum: expected two values")
    for term in (*terms, result):
        if not term.isalpha() and term or not term.isascii():
            raise Error(64, "einsum: expected letters, a comma and '->'")
        for letter in term:
            if term.count(letter) > 1:
                raise Error(64, f"einsum: '{letter}' occurs twice in a term")
    for term, value, name in zip(terms, values, "ab"):
        if len(term) != _axis_count(value):
            raise Error(64, f"einsum: {len(term)} letters for {_axis_count(value)} axes ({name})")
    if not arrow:
        result = "".join(sorted(set(terms[0]) ^ set(terms[1])))
    for letter in result:
        if letter not in terms[0] + terms[1]:
            raise Error(64, f"einsum: '{letter}' is in no operand")
    if len(result) > 4:
        raise Error(64, f"einsum: the result has {len(result)} axes: at most 4")
    return (*terms, result)


def einsum(subscripts, a, b):
    """Sums products of elements over labeled axes. "ij,jk->ik" is a matrix product, "bij,bkj->kbi"
    a product of stacks with transposed operands."""
    a, b = as_value(a), as_value(b)
    one, other, result = _terms(subscripts, (a, b))
    sizes = dict(zip(one, a.shape[a.ndim - len(one):]))
    for letter, size in zip(other, b.shape[b.ndim - len(other):]):
        if sizes.get(letter, size) != size:
            raise Error(64, f"einsum: sizes {sizes[letter]} and {size} of '{letter}' differ")
    labels = [(0,) * (4 - len(term)) + tuple(map(ord, term)) for term in (one, other, result)]
    made = apply("einsum", [a, b], ndim=max(len(result), 2), begin=labels[0], end=labels[1], axes=labels[2])
    made.is_row = len(result) == 1
    return made


for _function in (prod, all, any, flip, tile, repeat, outer, triu, tril, diag):
    setattr(Value, _function.__name__, _method(_function))
