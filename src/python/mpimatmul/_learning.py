# SPDX-License-Identifier: MIT
"""Losses, the functions they are made of, and gradients."""
import ctypes as c
import math

from . import _caller, _library as lib
from ._begin import begun
from ._library import Error, check, library
from ._operations import _indices, _sizes
from ._program import cross, format_sizes
from ._values import Value, apply, as_value, no_grad


def one_hot(ids, v):
    """Adds an axis of size v with 1 at the index and 0 elsewhere. A one-axis value becomes (n, v).
    Indices are whole numbers from 0 to v - 1; others are refused."""
    ids = _indices(ids)
    v, = _sizes("v", v)
    return apply("one_hot", [ids], ndim=2 if ids.is_row else ids.ndim + 1, count=v)


def add_at(table, ids, rows):
    """Adds rows to a copy of the table, at its rows `ids`, in their order."""
    return apply("add_at", [table, ids, rows], ndim=2)


def cross_entropy(logits, ids):
    """Returns the mean over all rows of -log softmax at the index. logits: (..., n, v). ids: (...,
    n), or (1, n) for logits (n, v)."""
    return apply("cross_entropy", [logits, ids], ndim=2)


def mse(x, y):
    """Returns the mean of the squares of x - y."""
    return apply("mse", [x, y], ndim=2)


def binary_cross_entropy(logits, y):
    """Returns the mean of -y log(sigmoid(logits)) - (1 - y) log(1 - sigmoid(logits))."""
    return apply("binary_cross_entropy", [logits, y], ndim=2)


def stop_gradient(x):
    """Returns x without passing gradients to it."""
    return apply("stop_gradient", [x])


def dropout(x, p, seed, turn):
    """Returns x / (1 - p), or 0 with probability p. Drawn from seed, iteration and the element's
    position."""
    return apply("dropout", [x, p, seed, turn])


def loop(first, end=None):
    """Iterates over range(first, end), or range(first). A program runs each iteration as a job of
    its own. `mpimatmul top` shows the progress of the outermost loop."""
    global _is_looping
    turns = range(first) if end is None else range(first, end)
    if _is_looping:
        yield from turns
        return
    _is_looping = True
    try:
        for i in turns:
            _report_turn(lib.ScriptTurn(i, turns.start, turns.stop, 0))
            yield i
    finally:
        _is_looping = False
        _report_turn(None)


_is_looping = False


def _report_turn(turn):
    here = begun()
    if here and here.context:
        library.mmul_context_publish_turn(here.context, c.byref(turn) if turn else None)


class _Gradients:
    """Gradients of one y by several values. Built together in the first program that needs one of
    them."""

    def __init__(self, y, xs):
        self.y, self.operands = y, [y, *xs]
        for value in _values_between(y, xs):
            cross(value, self)

    def value(self, i):
        """Returns the gradient of the i-th value."""
        made = Value(self.operands[1 + i].shape, lambda program, ids: self.made(program, ids)[i], self.operands)
        made.gradients, made.is_row, made._parameters = self, self.operands[1 + i].is_row, (i,)
        return made

    def made(self, program, ids):
        if self not in program.shared:
            xs, gradients = (c.c_int * (len(ids) - 1))(*ids[1:]), (c.c_int * (len(ids) - 1))()
            place = program.words()[1]
            request = lib.sized(lib.GradientRequest, y=ids[0], xs=xs, count=len(xs),
                                origin=place.encode() if place else None)
            check(library.mmul_program_gradients, program.handle, c.byref(request), gradients)
            program.shared[self] = list(gradients)
        return program.shared[self]


def _values_between(y, xs):
    """Returns the values between y and xs: those that y depends on and that depend on one of xs.
    Works without recursion."""
    made_so, seen, waiting, found = {id(x) for x in xs}, set(), [y], []
    while waiting:
        v = waiting.pop()
        if v is None:  # all operands of the next value are known
            v = waiting.pop()
            for o in v.operands:
                if id(o) in made_so:
                    made_so.add(id(v))
                    found.append(v)
                    break
        elif id(v) not in seen:
            seen.add(id(v))
            if v.operands:
                waiting += (v, None)
                waiting += [o for o in v.operands if type(o) is not float]
    return found


def _flatten_tuples(x):
    return [v for part in x for v in _flatten_tuples(part)] if isinstance(x, (tuple, list)) else [x]


def _rebuild_tuples(x, values):
    return tuple(_rebuild_tuples(part, values) for part in x) if isinstance(x, (tuple, list)) else next(values)


def grad(y, x):
    """Returns the gradient of y, a value with one element, by a value or by nested tuples of
    values."""
    leaves = _flatten_tuples(x)
    if not leaves or not all(isinstance(v, Value) for v in (y, *leaves)):
        raise Error(64, "grad needs a value y and a value x, or nested tuples of them")
    if math.prod(y.shape) != 1:
        raise Error(65, f"cannot differentiate a value of {format_sizes(y.shape)}: expected one element",
                    "use sum or mean to get one element")
    gradients = _Gradients(y.current(), [v.current() for v in leaves])
    return _rebuild_tuples(x, iter([gradients.value(i) for i in range(len(leaves))]))


def _backward(self):
    """Adds the gradients of this one-element value to `grad` of all leaves that require one.
    Computes nothing. Called by all ranks."""
    leaves = [leaf for leaf in self.leaves.values() if leaf.slot is not None]
    if not leaves:
        name = _caller.names(Value).get(id(self), "a value")
        raise Error(64, f"cannot go backward from {name}: none of its inputs requires a gradient",
                    "set x.requires_grad = True before computing it from x")
    with no_grad():
        for leaf, gradient in zip(leaves, grad(self, leaves)):
            leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


_backward.__name__, _backward.__qualname__ = "backward", "Value.backward"
Value.backward = _backward
