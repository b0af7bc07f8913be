# SPDX-License-Identifier: MIT
"""The operations of programs under numpy's names, else torch's, and the operators of values."""
import builtins
import ctypes as c
import math
import operator

import numpy

from . import _elements
from ._begin import collective, rank, session
from ._library import Error, PlacementWish
from ._placements import place_as
from ._program import format_sizes
from ._values import Value, apply, array, as_value, evaluate, evaluate_named, generate, is_number, warn


def _unary(name, what):
    def operation(x):
        return _elements.compute(name, x) if is_number(x) else apply(name, [x])
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{what} of every element, or of a number."
    return operation


# neg, exp, log, ...: the library has the list (src/model/operations.def).
ELEMENTS = {name: _unary(name, what) for name, what in _elements.FUNCTIONS.items()}
ELEMENTS["round"] = _unary("round", "The nearest whole number, of two the even one,")
globals().update(ELEMENTS)


def gelu(x, approximate="none"):
    """Gaussian error linear unit; approximate="tanh" as in torch."""
    if approximate not in ("none", "tanh"):
        raise Error(64, f"invalid approximate '{approximate}': expected none, tanh")
    name = "gelu_tanh" if approximate == "tanh" else "gelu"
    return _elements.compute(name, x) if is_number(x) else apply(name, [x])


def _binary(name, x, y):
    return apply(name, [x, y])


def maximum(x, y):
    """Returns the elementwise maximum."""
    return builtins.max(x, y) if is_number(x) and is_number(y) else _binary("maximum", x, y)


def minimum(x, y):
    """Returns the elementwise minimum."""
    return builtins.min(x, y) if is_number(x) and is_number(y) else _binary("minimum", x, y)


def where(condition, x, y):
    """Returns x where the condition is not 0, else y."""
    if all(map(is_number, (condition, x, y))):
        return x if condition != 0 else y
    return apply("where", [condition, x, y])


def clip(x, low=None, high=None):
    """Limits all elements to [low, high]. Bounds are numbers, or None for no bound."""
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if not is_number(low) or not is_number(high):
        raise Error(64, "clip: a bound must be a number or None", "minimum(maximum(x, low), high) also accepts values")
    return builtins.min(builtins.max(x, low), high) if is_number(x) else apply("clip", [x, low, high])


Value.T = property(lambda self: transpose(self), doc="The last two axes swapped.")
Value.__neg__ = lambda self: apply("neg", [self])
Value.__abs__ = lambda self: apply("abs", [self])
# A comparison with None concerns the whole value, so it gives a bool.
Value.__eq__ = lambda self, other: False if other is None else _binary("equal", self, other)
Value.__ne__ = lambda self, other: True if other is None else _binary("not_equal", self, other)
Value.__hash__ = object.__hash__
for _name, _operation in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"),
                          ("floordiv", "floor_divide"), ("mod", "remainder"), ("pow", "power"), ("lt", "less"),
                          ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("matmul", "matmul")):
    setattr(Value, f"__{_name}__", lambda self, other, o=_operation: _binary(o, self, other))
    setattr(Value, f"__r{_name}__", lambda self, other, o=_operation: _binary(o, other, self))


def _multiply(self, other):
    """Converts bools to floats before they are multiplied by a float, as torch does. The result
    would otherwise count as bools."""
    if isinstance(other, (float, numpy.floating)) and self.current().is_bool:
        self = self / 1
    return _binary("multiply", self, other)


Value.__mul__ = Value.__rmul__ = _multiply


def _logical(sign, operation):
    """Returns an operator on bools, which programs lack."""
    def of_bools(self, other):
        both = (as_value(self), as_value(other))
        if not all(v.is_bool for v in both):
            raise TypeError(f"{sign} needs bools: x != 0 converts numbers")
        return operation(*both)
    return of_bools


def _invert(self):
    if not self.current().is_bool:
        raise TypeError("~ needs bools: x != 0 converts numbers")
    return 1 - self


Value.__invert__ = _invert
Value.__and__ = Value.__rand__ = _logical("&", lambda x, y: x * y)
Value.__or__ = Value.__ror__ = _logical("|", maximum)
Value.__xor__ = Value.__rxor__ = _logical("^", lambda x, y: x != y)

# Elementwise functions of numpy: those with the same name, and others with another name here.
_NUMPY_FUNCTIONS = {"negative": operator.neg, "absolute": operator.abs, "fabs": operator.abs, "rint": ELEMENTS["round"],
             "invert": operator.inv, "logical_not": operator.inv,
             "bitwise_and": operator.and_, "logical_and": operator.and_, "bitwise_or": operator.or_,
             "logical_or": operator.or_, "bitwise_xor": operator.xor, "logical_xor": operator.xor,
             "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
             "true_divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
             "power": operator.pow, "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
             "matmul": operator.matmul, "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
             "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "maximum": maximum,
             "minimum": minimum, **ELEMENTS}


def _apply_ufunc(self, ufunc, method, *operands, out=None, **more):
    """Applies a numpy function to values: np.exp(x), and operators of an array and a value. `array
    += value` turns the name into a value."""
    called = f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
    in_place = out is not None and len(operands) == 2 and out[0] is operands[0]
    if more or (out is not None and not in_place):
        raise TypeError(f"{called} of values takes no {', '.join(more) or 'out'}: it makes a new value")
    function = _NUMPY_FUNCTIONS.get(called[3:])
    if function is None:
        raise TypeError(f"{called} is not of values: {called}(value.numpy()) is an array on root; mm has "
                        "exp, log, sqrt, tanh and the others of mpimatmul-python(7)")
    return function(*(v.item() if isinstance(v, numpy.generic) else as_value(v) if isinstance(v, numpy.ndarray) else v
                      for v in operands))


Value.__array_ufunc__ = _apply_ufunc


def zeros(shape):
    """Returns zeros of this shape; a single size gives a row."""
    return _filled(shape, "zeros")


def ones(shape):
    """Returns ones of this shape; a single size gives a row."""
    return _filled(shape, "ones")


def _filled(shape, kind):
    shape = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    made = generate(shape, kind)
    made.is_row = len(shape) == 1
    return made


def arange(start, stop=None, step=1):
    """Returns numpy's arange as a row, from 0 without `stop`. Collective."""
    return array(numpy.arange(start, stop, step) if stop is not None else numpy.arange(0, start, step))


_PLACEMENTS = {"rows": 1, "cols": 2, "grid": 3, "replicate": 4, "cyclic": 8}


def place(x, where_to, ranks=None, block=None):
    """Requests a placement: "rows", "cols", "grid", "replicate" or "cyclic". Without a request the
    planner decides. ranks: the only ranks (a number or several) that hold and use the value.
    block: columns of the blocks in which "cyclic" deals a matrix by the ranks' speeds, from its
    last column on (64); one number for all values computed together. x: a value or nested tuples
    of values."""
    if isinstance(x, (tuple, list)):
        return tuple(place(part, where_to, ranks, block) for part in x)
    kind, x = _PLACEMENTS.get(where_to), as_value(x)
    numbers = [ranks] if isinstance(ranks, int) else None if ranks is None else [operator.index(r) for r in ranks]
    if kind is None:
        raise Error(64, f"invalid placement '{where_to}': expected {', '.join(_PLACEMENTS)}")
    if block is not None and operator.index(block) < 1:
        raise Error(64, f"block is {block}, expected 1 or more columns")

    def make(program, ids):
        wish = PlacementWish(kind=kind, block_cols=block or 0)
        if numbers is not None:
            wish.ranks, wish.rank_count = (c.c_int * len(numbers))(*numbers), len(numbers)
        return place_as(program, ids[0], wish)

    made = Value(x.shape, make, [x], x.integers, is_row=x.is_row)
    made.is_bool, made._parameters = x.is_bool, (kind, tuple(numbers or ()), block)
    return made


def print(*things, **how):  # pylint: disable=redefined-builtin
    """Prints like Python's print, with values computed in one job. Root prints. A value is shown
    with its shape, a 1 x 1 value as a number. Collective."""
    values = [thing for thing in things if isinstance(thing, Value)]
    found = iter(evaluate_named("print", values) if values else ())
    shown = [_format_value(thing, next(found)) if isinstance(thing, Value) else thing for thing in things]
    if rank() == 0:
        builtins.print(*shown, **how)


def _format_value(value, found):
    if found is None:
        return ""
    if found.size == 1:
        return f"{found.item():g}"
    return f"Value({format_sizes(value.shape)}, {found.dtype})\n{found}"


def _bounds(key, shape):
    """Returns begin, end, step and "axis stays" per axis, from slices and numbers in numpy's
    notation."""
    for i in [i for i, k in enumerate(key) if k is Ellipsis][:1]:
        key = key[:i] + (slice(None),) * (len(shape) - len(key) + 1) + key[i + 1:]
    if len(key) > len(shape):
        raise Error(64, f"{len(key)} bounds for a value of {len(shape)} axes")
    return [_bound(k, n) for k, n in zip(key + (slice(None),) * (len(shape) - len(key)), shape)]


def _bound(k, n):
    if isinstance(k, slice):
        try:
            begin, end, step = k.indices(n)
        except (TypeError, ValueError) as problem:
            raise Error(64, f"cannot take [{k}] of a value: {problem}") from None
        return begin, end, builtins.max(-n, builtins.min(n, step)), True
    if not isinstance(k, (int, numpy.integer)) or isinstance(k, bool):
        shown = "a value" if isinstance(k, Value) else "an array" if _are_indices(k) else k
        raise Error(64, f"cannot take [{shown}] of a value: expected begin:end:step, or a number",
                    "x[ids] or take(x, ids) selects rows by integers" if _are_indices(k) else "")
    if not -n <= k < n:
        raise Error(64, f"index {k} of an axis of {n}: expected {-n} to {n - 1}")
    return k % n, k % n + 1, 1, False


def _are_indices(key):
    """Returns true for a value, an array or a list, which select rows."""
    if isinstance(key, list):
        key = numpy.asarray(key)
    return isinstance(key, Value) or (isinstance(key, numpy.ndarray) and key.ndim > 0)


def _take_rows(x, ids):
    """Returns x[ids] as `take`; a one-axis x gives its elements."""
    if not isinstance(ids, Value):
        ids = numpy.asarray(ids)
        last = x.shape[1] if x.is_row else x.shape[0]
        ids = numpy.where(ids < 0, ids + last, ids) if ids.dtype.kind in "iu" else ids
    ids = as_value(ids)
    if ids.is_bool:
        raise Error(64, "cannot index by bools: the number of elements is unknown before the run",
                    "where(mask, x, other) has the sizes of x")
    # Other values are checked once they are computed
    if ids.stored is not None and not ids.integers and ids.operation is None:
        raise Error(64, f"cannot take [a value of {ids.dtype}] of a value: expected whole numbers")
    if not x.is_row:
        return take(x, ids)
    made = reshape(take(reshape(x, (-1, 1)), ids), ids.shape)
    made.is_row = ids.is_row
    return made


def _slice(x, key):
    if _are_indices(key):
        return _take_rows(x.current(), key)
    key = key if isinstance(key, tuple) else (key,)
    is_slice = isinstance(key[0], slice) if key else False
    if x.is_row and len(key) == 1 and (is_slice or isinstance(key[0], (int, numpy.integer))) and \
            not (is_slice and key[0] == slice(None)):
        raise Error(64, f"{'a slice' if is_slice else 'an index'} of a one-axis array, "
                        f"which is stored as a row (1 x {x.shape[1]})",
                    "x[:, a:b] has elements a to b - 1" if is_slice else "x[0, i] is an element")
    begin, end, step, stay = zip(*[(0, 1, 1, True)] * (4 - x.ndim), *_bounds(key, x.shape))
    return _drop_axes(apply("slice", [x], begin=begin, end=end, step=step), [not s for s in stay[4 - x.ndim:]])


def _drop_axes(x, dropped):
    """Removes axes of size 1. A result with one axis stays a row."""
    if not any(dropped):
        return x
    left = [n for n, is_dropped in zip(x.shape, dropped) if not is_dropped]
    made = reshape(x, [1] * (2 - len(left)) + left)
    made.is_row = len(left) == 1
    return made


Value.__getitem__ = _slice


def transpose(x):
    """Swaps the last two axes."""
    return apply("transpose", [x])


def _flag(name, given):
    """Converts a flag of a program to bool."""
    if not isinstance(given, (int, numpy.integer, numpy.bool_)) or given not in (0, 1):
        raise Error(64, f"{name} is {given!r}, expected True, False, 1 or 0")
    return bool(given)


def linear(x, w, b=None):
    """x @ w.T + b"""
    y = as_value(x) @ as_value(w).T
    return y if b is None else y + b


def softmax(x, causal=False, axis=-1):
    """Returns exp(x) over its sum, per row or along another axis. causal: row i uses only its first
    i + 1 elements, with rows counted such that the last row uses all."""
    x = as_value(x)
    return apply("softmax", [x], causal=_flag("causal", causal), axis=_axis(axis, x.ndim))


def rms_norm(x, w=None, eps=1e-6):
    """Divides rows by the root of the mean of their squares (plus eps), then multiplies by w."""
    return apply("rms_norm", [x] + [w] * (w is not None), epsilon=eps)


def layer_norm(x, w=None, b=None, eps=1e-5):
    """Subtracts the mean of each row and divides by the root of its variance (plus eps), then times
    w, plus b."""
    if w is None and b is not None:
        raise Error(64, "layer_norm takes b only together with w")
    return apply("layer_norm", [x] + [v for v in (w, b) if v is not None], epsilon=eps)


def normalize(x):
    """Scales rows to length 1."""
    return apply("normalize", [x])


def topk(x, k):
    """Returns the k largest elements of each row in descending order, and their column indices."""
    k, = _sizes("k", k)
    both = apply("topk", [x], count=k)
    values, places = both[..., :k], both[..., k:]
    places.integers, places.leaves = True, {}
    return values, places


def _axis(axis, ndim):
    """Checks an axis and counts it from the end, as the library does."""
    if not -ndim <= operator.index(axis) < ndim:
        raise Error(64, f"axis {axis} of {ndim} axes: expected {-ndim} to {ndim - 1}")
    return axis - ndim if axis >= 0 else axis


def _along(name, x, axis):
    """As _axis, but refuses axis 0 of a one-axis value, which is a row here."""
    along = _axis(axis, x.ndim)
    if x.is_row and axis >= 0:
        raise Error(64, f"{name} along axis {axis} of a one-axis array, which is stored as a row (1 x {x.shape[1]}): "
                        "axis=-1 runs along its elements")
    return along


def _index_reduction(name, what):
    def operation(x, axis=-1, keepdims=False):
        x = as_value(x)
        along = _along(name, x, axis)
        return _drop_axes(apply(name, [x], axis=along), [not keepdims and i == x.ndim + along for i in range(x.ndim)])
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"The place of the {what} element along an axis, which goes unless keepdims=True."
    return operation


argmax = _index_reduction("argmax", "largest")
argmin = _index_reduction("argmin", "smallest")


def _reduction(name, what, operator_name=None):
    kind = operator_name or name

    def operation(x, *more, axis=None, keepdims=True, dtype=None, out=None):
        if name in ("sum", "max", "min") and not isinstance(x, (Value, numpy.ndarray)):
            return getattr(builtins, name)(x, *more)
        if dtype is not None or out is not None:  # numpy's own functions pass these arguments
            raise Error(64, f"{name}: dtype and out are not supported")
        x, axis = as_value(x), more[0] if more else axis
        if axis is None and x.are_pairs and name in ("sum", "mean"):
            warn(f"{name} covers the differences of all pairs of {x.shape[-1]} x 1 and 1 x {x.shape[-1]}")
        axes = range(-x.ndim, 0) if axis is None else [_along(name, x, a) for a in _sizes("axis", axis)]
        if not axes or len(set(axes)) < len(axes):
            raise Error(64, f"{name}: duplicate axis: {axis}" if axes else f"{name}: axis is an empty tuple")
        along = axes if len(axes) < x.ndim else ()  # none: all
        made = apply(kind, [x], axis=along[0] if len(along) == 1 else 0,
                     axes=tuple(len(along) > 1 and i in along for i in range(-4, 0)))
        return _drop_axes(made, [not keepdims and i - x.ndim in axes for i in range(x.ndim)])
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{what} along one or several axes (None: all), which stay with size 1 unless keepdims=False."
    return operation


sum = _reduction("sum", "The sum")  # pylint: disable=redefined-builtin
max = _reduction("max", "The largest element")  # pylint: disable=redefined-builtin
min = _reduction("min", "The smallest element")  # pylint: disable=redefined-builtin
amax = _reduction("amax", "The largest element", "max")
amin = _reduction("amin", "The smallest element", "min")
mean = _reduction("mean", "The mean")
var = _reduction("var", "The variance (ddof 0)")
std = _reduction("std", "The standard deviation (ddof 0)")
norm = _reduction("norm", "The root of the sum of squares")
logsumexp = _reduction("logsumexp", "log(sum(exp(x))), without overflow,")


def sort(x, axis=-1, descending=False):
    """Sorts along an axis; NaN comes last."""
    x = as_value(x)
    return apply("sort", [x], axis=_along("sort", x, axis), descending=_flag("descending", descending))


def argsort(x, axis=-1, descending=False):
    """Returns the indices that sort along an axis. Equal elements keep their order."""
    x = as_value(x)
    return apply("argsort", [x], axis=_along("argsort", x, axis), descending=_flag("descending", descending))


def cumsum(x, axis):
    """Returns the sums of all elements up to each one, along an axis."""
    x = as_value(x)
    return apply("cumsum", [x], axis=_axis(axis, x.ndim))


def _sizes(name, given):
    """Returns one or several integers as a tuple."""
    try:
        return tuple(map(operator.index, given if hasattr(given, "__iter__") else (given,)))
    except TypeError:
        raise Error(64, f"{name} is {given!r}, expected whole numbers") from None


def reshape(x, shape):
    """Returns the same elements in C order with another shape; one size may be -1."""
    x, shape = as_value(x), _sizes("shape", shape)
    known = builtins.max(math.prod(n for n in shape if n != -1), 1)
    shape = tuple(math.prod(x.shape) // known if n == -1 else n for n in shape)
    shape = shape if len(shape) > 1 else (1, *shape)
    if len(shape) > 4:
        raise Error(64, f"cannot reshape to {len(shape)} axes: expected 1 to 4")
    return apply("reshape", [x], ndim=len(shape), shape=shape)


def flatten(x, start_dim=0, end_dim=-1):
    """Merges axes start_dim to end_dim. Merging all axes gives a row."""
    x = as_value(x)
    first, last = (_axis(axis, x.ndim) + x.ndim for axis in (start_dim, end_dim))
    if first > last:
        raise Error(64, f"flatten from axis {start_dim} to axis {end_dim} of {x.ndim}: start_dim must not "
                        "exceed end_dim")
    sizes = (*x.shape[:first], -1, *x.shape[last + 1:])
    made = reshape(x, sizes)
    made.is_row = len(sizes) == 1
    return made


def permute(x, axes):
    """Permutes axes: axis i of the result is axis axes[i] of x."""
    x, axes = as_value(x), _sizes("axes", axes)
    if sorted(axes) != list(range(x.ndim)):
        raise Error(64, f"cannot permute {x.ndim} axes to {axes}")
    kept = 4 - x.ndim
    return apply("permute", [x], axes=(*range(kept), *(a + kept for a in axes)))


def concat(values, axis=0):
    """Joins values along an axis."""
    values = [as_value(v) for v in values]
    if not values:
        raise Error(64, "concat needs at least one value")
    for row in (v for v in values if v.is_row and axis in (0, 1)):
        raise Error(64, f"concat along axis {axis} of a one-axis array, which is stored as a row (1 x {row.shape[1]}): "
                        "axis=-1 joins the elements, axis=-2 stacks the rows")
    joined = values[0]
    for other in values[1:]:
        joined = apply("concat", [joined, other], axis=_axis(axis, joined.ndim))
    if len(values) > 1:
        joined.is_row = axis == -1 and builtins.all(v.is_row for v in values)
    return joined


def take(table, ids):
    """Returns rows of a table by integers, with torch's shapes: ids (..., n) give (..., n, d), so
    (1, n) gives (1, n, d). One-axis ids (a one-axis array, arange, x[i], and results of such values
    alone) give (n, d)."""
    ids = _indices(ids)
    return apply("take", [table, ids], ndim=2 if ids.is_row else ids.ndim + 1)


def _indices(ids):
    """Checks indices for a result that has one more axis."""
    ids = as_value(ids)
    if ids.ndim > 3:
        raise Error(64, f"ids has 4 axes ({format_sizes(ids.shape)}), expected 1 to 3: the result has one more",
                    "reshape(ids, (m, n)) before the call, reshape(..., shape) after it")
    return ids


def rope(x, base=10000.0, interleaved=False):
    """Rotates pairs of columns by an angle that depends on the row's position."""
    return apply("rope", [x], base=base, interleaved=_flag("interleaved", interleaved))


def attention(q, k, v, causal=False, mask=None, scale=None):
    """Returns softmax(scale q k^T + mask) v. k and v may have fewer heads. scale None: 1 /
    sqrt(columns of q).

    A mask of bools (an array, a file, a comparison) is True where a query may attend to a key, as
    in torch's scaled_dot_product_attention, and gets no gradient. A mask of floats is added. Other
    integers are refused. nn.MultiheadAttention uses the opposite meaning, as torch's does.

    causal: the last query sees all keys, and each earlier query one key less, as a key cache needs
    it. torch aligns the first query with the first key instead."""
    q = as_value(q)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return apply("attention", [q, k, v] + [mask] * (mask is not None), causal=_flag("causal", causal), scale=scale)


@collective("assert_close")
def assert_close(x, y, tolerance):
    """Raises Error (79) if any |x - y| > tolerance. Collective."""
    off = evaluate(max(abs(as_value(x) - y)))[0]
    largest = session().broadcast(c.c_double(0 if off is None else off.item())).value
    if not largest <= tolerance:
        raise Error(79, f"values differ by {largest:g}, more than {tolerance:g}")


# --------------------------------------------- methods with numpy's and torch's names and arguments


def _method(function):
    """Returns a method of Value for a function whose first argument is a value."""
    def method(self, *arguments, **named):
        return function(self, *arguments, **named)
    method.__name__, method.__doc__ = function.__name__, function.__doc__
    method.__qualname__ = f"Value.{function.__name__}"
    return method


def _sizes_method(function):
    """As _method, for sizes that may also be separate arguments: x.reshape(2, -1)."""
    def method(self, *sizes):
        return function(self, sizes[0] if len(sizes) == 1 else sizes)
    method.__name__, method.__doc__ = function.__name__, function.__doc__
    method.__qualname__ = f"Value.{function.__name__}"
    return method


for _function in (*ELEMENTS.values(), maximum, minimum, clip, softmax, topk, argmax, argmin, sort, argsort, sum, mean,
                  max, min, amax, amin, var, std, norm, logsumexp, cumsum, take, transpose, flatten):
    setattr(Value, _function.__name__, _method(_function))
for _function in (reshape, permute):
    setattr(Value, _function.__name__, _sizes_method(_function))


def _where(self, condition, other):
    """Returns this value where the condition is not 0, else the other."""
    return where(condition, self, other)


Value.where = _where
