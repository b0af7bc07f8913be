# SPDX-License-Identifier: MIT
"""The script that calls us: its places and its words for values, and tracebacks that end in it."""
import contextlib
import functools
import os
import sys
import types

_OURS = __package__


def _is_ours(frame):
    return frame.f_globals.get("__package__") == _OURS


def frame():
    """The innermost one that is not ours, or None."""
    found = sys._getframe(1)  # pylint: disable=protected-access
    while found is not None and found.f_globals.get("__package__") == _OURS:
        found = found.f_back
    return found


_fixed = None  # what place() is meanwhile


@contextlib.contextmanager
def at_this_line():
    """with at_this_line(): what is made inside is made by the line that is under way now, without a look each time."""
    global _fixed
    before, _fixed = _fixed, place()
    try:
        yield
    finally:
        _fixed = before


def place():
    """The line of the script that is under way: "script.py:12"."""
    if _fixed is not None:
        return _fixed
    found = frame()
    return _shown(found.f_code.co_filename, found.f_lineno) if found else ""


@functools.lru_cache(4096)
def _shown(file, line):
    return f"{os.path.basename(file)}:{line}"


def depth():
    """The script's, as the caller counts frames: 1 is the caller."""
    found, count = sys._getframe(1), 1  # pylint: disable=protected-access
    while found is not None and _is_ours(found):
        found, count = found.f_back, count + 1
    return count


def things(kind):
    """Those of a kind that the script has names for where it is: (name, thing), local ones first."""
    found = frame()
    if found is None:
        return
    places = [found.f_locals]
    if found.f_globals is not found.f_locals:
        places.append(found.f_globals)
    for variables in places:
        yield from ((name, thing) for name, thing in list(variables.items()) if isinstance(thing, kind))


def names(kind):
    """Of values, by id() of what is computed with: what the script calls them where it is."""
    known = {}
    for name, value in things(kind):
        known.setdefault(id(value.current()), name)
    return known


def _outside(trace):
    """A traceback without what is ours, and what that has called in Python's own modules."""
    if trace is None:
        return None
    rest = _outside(trace.tb_next)
    if _is_ours(trace.tb_frame):
        return None if rest and rest.tb_frame.f_globals.get("__name__") == "threading" else rest
    return types.TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def trim(error):
    """Makes the exception, and those that it comes from, look as if the script had raised them."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _outside(error.__traceback__)
        error = error.__cause__ or error.__context__
