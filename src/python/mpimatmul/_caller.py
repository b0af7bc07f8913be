# SPDX-License-Identifier: MIT
"""Information about the calling script: its line, its names for values, and tracebacks that end in
it."""
import contextlib
import functools
import os
import sys
import types

_OURS = __package__


def _is_ours(frame):
    return frame.f_globals.get("__package__") == _OURS


def frame():
    """Returns the innermost frame outside of this package, or None."""
    found = sys._getframe(1)  # pylint: disable=protected-access
    while found is not None and found.f_globals.get("__package__") == _OURS:
        found = found.f_back
    return found


_fixed = None  # cached result of place()


@contextlib.contextmanager
def at_this_line():
    """with at_this_line(): all values made inside get the current line of the script, found only
    once."""
    global _fixed
    before, _fixed = _fixed, place()
    try:
        yield
    finally:
        _fixed = before


def place():
    """Returns the current line of the script: "script.py:12"."""
    if _fixed is not None:
        return _fixed
    found = frame()
    return _format_place(found.f_code.co_filename, found.f_lineno) if found else ""


@functools.lru_cache(4096)
def _format_place(file, line):
    return f"{os.path.basename(file)}:{line}"


def depth():
    """Returns the frame depth of the script as seen by the caller; 1 is the caller."""
    found, count = sys._getframe(1), 1  # pylint: disable=protected-access
    while found is not None and _is_ours(found):
        found, count = found.f_back, count + 1
    return count


def things(kind):
    """Yields (name, object) for all objects of a kind that the script can name here, local names
    first."""
    found = frame()
    if found is None:
        return
    places = [found.f_locals]
    if found.f_globals is not found.f_locals:
        places.append(found.f_globals)
    for variables in places:
        yield from ((name, thing) for name, thing in list(variables.items()) if isinstance(thing, kind))


def names(kind):
    """Returns the script's names for values, by id() of the computed value."""
    known = {}
    for name, value in things(kind):
        known.setdefault(id(value.current()), name)
    return known


def _trim_traceback(trace):
    """Returns the traceback without frames of this package and of Python modules it called."""
    if trace is None:
        return None
    rest = _trim_traceback(trace.tb_next)
    if _is_ours(trace.tb_frame):
        return None if rest and rest.tb_frame.f_globals.get("__name__") == "threading" else rest
    return types.TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def trim(error):
    """Removes internal frames from the exception and its causes, as if the script had raised
    them."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _trim_traceback(error.__traceback__)
        error = error.__cause__ or error.__context__
