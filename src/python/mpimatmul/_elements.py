# SPDX-License-Identifier: MIT
"""The library's elementwise operations: their names, and functions of plain numbers."""
import ctypes as c
import numbers

from ._library import library


class _Info(c.Structure):
    _fields_ = [("name", c.c_char_p), ("help", c.c_char_p), ("operands", c.c_int), ("has_gradient", c.c_bool)]


def _all():
    library.mmul_elements_get.restype = c.c_bool
    number, info = 0, _Info()
    while library.mmul_elements_get(number, c.byref(info)):
        yield info.name.decode(), info.help and info.help.decode(), info.has_gradient
        number += 1


_FOUND = tuple(_all())
NAMES = frozenset(name for name, _, _ in _FOUND)
WITHOUT_GRADIENT = frozenset(name for name, _, has_gradient in _FOUND if not has_gradient)
FUNCTIONS = {name: text for name, text, _ in _FOUND if text}  # of one value: the start of their docstring

library.mmul_elements_compute.restype = c.c_double
_STAY_WHOLE = ("abs", "neg", "relu", "sign")


def compute(name, x):
    """Returns an operation of a plain number, as in programs: nan and inf instead of an exception."""
    y = library.mmul_elements_compute(name.encode(), c.c_double(x))
    if name == "isnan":
        return y != 0
    return int(y) if name in _STAY_WHOLE and isinstance(x, numbers.Integral) and -2 ** 53 < x < 2 ** 53 else y
