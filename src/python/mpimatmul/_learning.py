# SPDX-License-Identifier: MIT
"""Losses, what they are made of, and gradients."""
import ctypes as c
import math

from . import _caller, _library as lib
from ._begin import begun
from ._library import Error, check, library
from ._operations import _indices, _sizes
from ._program import cross
from ._values import Value, apply, as_value, no_grad


def one_hot(ids, v):
    """An axis more, of size v: 1 at the index, 0 elsewhere; of what has one axis (n, v). Indices are whole numbers from
    0 to v - 1; others are refused."""
    ids = _indices(ids)
    v, = _sizes("v", v)
    return apply("one_hot", [ids], ndim=2 if ids.is_row else ids.ndim + 1, count=v)


def add_at(table, ids, rows):
    """The table with rows added at its rows `ids`, in their order."""
    return apply("add_at", [table, ids, rows], ndim=2)


def cross_entropy(logits, ids):
    """The mean over all rows of logits (..., n, v) of -log softmax at the index; ids (..., n), or (1, n) for (n, v)."""
    return apply("cross_entropy", [logits, ids], ndim=2)


def mse(x, y):
    """The mean of the squares of x - y."""
    return apply("mse", [x, y], ndim=2)


def binary_cross_entropy(logits, y):
    """The mean of -y log(sigmoid(logits)) - (1 - y) log(1 - sigmoid(logits))."""
    return apply("binary_cross_entropy", [logits, y], ndim=2)


def stop_gradient(x):
    """x, through which no gradient goes."""
    return apply("stop_gradient", [x])


def dropout(x, p, seed, turn):
    """x / (1 - p), or 0 with probability p: seed, turn and the element's position say which."""
    return apply("dropout", [x, p, seed, turn])


def loop(first, end=None):
    """The numbers of range(first, end), or range(first): programs carry it out turn by turn, and so does Python.
    `mpimatmul top` shows how far the outermost one is."""
    global _is_looping
    turns = range(first) if end is None else range(first, end)
    if _is_looping:
        yield from turns
        return
    _is_looping = True
    try:
        for i in turns:
            _tell_turn(lib.ScriptTurn(i, turns.start, turns.stop, 0))
            yield i
    finally:
        _is_looping = False
        _tell_turn(None)


_is_looping = False


def _tell_turn(turn):
    here = begun()
    if here and here.context:
        library.mmul_context_tell_turn(here.context, c.byref(turn) if turn else None)


class _Gradients:
    """Of one y by several values: made all at once in a program that needs one of them."""

    def __init__(self, y, xs):
        self.y, self.operands = y, [y, *xs]
        for value in _between(y, xs):
            cross(value, self)

    def value(self, i):
        """That of the i-th."""
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


def _between(y, xs):
    """What y is made of that is made of one of xs: values, without recursion."""
    made_so, seen, waiting, found = {id(x) for x in xs}, set(), [y], []
    while waiting:
        v = waiting.pop()
        if v is None:  # operands of the next one are known
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


def _flat(x):
    return [v for part in x for v in _flat(part)] if isinstance(x, (tuple, list)) else [x]


def _like(x, values):
    return tuple(_like(part, values) for part in x) if isinstance(x, (tuple, list)) else next(values)


def grad(y, x):
    """The gradient of y, which has one element, by a value, or by those of a tuple of them in tuples."""
    leaves = _flat(x)
    if not leaves or not all(isinstance(v, Value) for v in (y, *leaves)):
        raise Error(64, "grad is of a value by values, or tuples of them")
    if math.prod(y.shape) != 1:
        raise Error(65, f"cannot differentiate a value of {' x '.join(map(str, y.shape))}: expected one element",
                    "sum and mean have one")
    gradients = _Gradients(y.current(), [v.current() for v in leaves])
    return _like(x, iter([gradients.value(i) for i in range(len(leaves))]))


def _backward(self):
    """Adds the gradients of this value, which has one element, to `grad` of all leaves that require one and that it is
    made of. Computes nothing; all ranks call it."""
    leaves = [leaf for leaf in self.leaves.values() if leaf.slot is not None]
    if not leaves:
        name = _caller.names(Value).get(id(self), "a value")
        raise Error(64, f"cannot go backward from {name}: nothing that it is made of requires a gradient",
                    "x.requires_grad = True, before it is made of x")
    with no_grad():
        for leaf, gradient in zip(leaves, grad(self, leaves)):
            leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


_backward.__name__, _backward.__qualname__ = "backward", "Value.backward"
Value.backward = _backward
