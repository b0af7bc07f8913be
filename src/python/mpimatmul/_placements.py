# SPDX-License-Identifier: MIT
"""Where values are to be: on which ranks, and what a file of placements says of names."""
import contextlib
import ctypes as c

from . import _library as lib
from ._begin import OPTIONS
from ._library import check, library

_signals = []  # names that are under way


@contextlib.contextmanager
def signal(name):
    """with signal(name): values that are made inside go by that name in the file of `init(placement=FILE)`."""
    _signals.append(str(name))
    try:
        yield
    finally:
        _signals.pop()


def current_signal():
    return _signals[-1] if _signals else None


def place_as(program, value, wish):
    """The value of a program as it is wished."""
    placed = c.c_int()
    check(library.mmul_program_place_as, program.handle, value, c.byref(wish), program.word("place").encode(),
          c.byref(placed))
    return placed.value


def wished(program, name, value):
    """Where the file of placements wants what goes by this name."""
    wish = lib.PlacementWish()
    if name is None or not OPTIONS["placements"] or not library.mmul_placements_find(
            OPTIONS["placements"], name.encode(), c.byref(wish)):
        return value
    return place_as(program, value, wish)
