# SPDX-License-Identifier: MIT
"""Requested placements of values: by ranks, and by names in a placement file."""
import contextlib
import ctypes as c

from . import _library as lib
from ._begin import OPTIONS
from ._library import check, library

_signals = []  # active names, innermost last


@contextlib.contextmanager
def signal(name):
    """with signal(name): values made inside have that name in the file of
    `init(placement=FILE)`."""
    _signals.append(str(name))
    try:
        yield
    finally:
        _signals.pop()


def current_signal():
    return _signals[-1] if _signals else None


def place_as(program, value, wish):
    """Adds the requested placement to a value of a program and returns the placed value."""
    placed = c.c_int()
    check(library.mmul_program_place_as, program.handle, value, c.byref(wish), program.word("place").encode(),
          c.byref(placed))
    return placed.value


def wished(program, name, value):
    """Applies the placement that the placement file requests for this name."""
    wish = lib.PlacementWish()
    if name is None or not OPTIONS["placements"] or not library.mmul_placements_find(
            OPTIONS["placements"], name.encode(), c.byref(wish)):
        return value
    return place_as(program, value, wish)
