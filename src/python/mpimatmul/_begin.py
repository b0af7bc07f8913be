# SPDX-License-Identifier: MIT
"""The one session of the process: begun when it is first needed, by the ranks together; and what they do together."""
import ctypes as c
import functools
import os
import threading
import warnings

from . import _caller
from ._library import Error, Session, check, library

_session = None
OPTIONS = {"weights": None, "float32": False, "record": False, "placements": None}


def init(device=None, threads=0, weights=None, dtype=None, record=False, placement=None):
    """Collective; called by itself with these defaults when it is first needed. `device` as of `mul --device`. dtype
    "float32": what is float64 is read as float32. record: for `debug.worker_statistics`.
    placement: root's file that says where values are to be, by the names of `signal`."""
    global _session
    if dtype not in (None, "float32"):
        raise Error(64, f"no dtype '{dtype}': expected float32, or none: float64 where all inputs are")
    if _session and (device or threads):
        raise Error(64, "device and threads are chosen before the first value")
    OPTIONS.update(weights=weights, float32=dtype == "float32", record=bool(record))
    _session = _session or Session(device, threads)
    if placement is not None:
        OPTIONS["placements"] = _session.on_root(lambda: _read_placements(placement))
    return _session


def _read_placements(path):
    placements = c.c_void_p()
    check(library.mmul_placements_read, os.fsencode(path), c.byref(placements))
    index = 0
    while notice := library.mmul_placements_notice(placements, index):
        warnings.warn(notice.decode(errors="replace"), stacklevel=_caller.depth())
        index += 1
    return placements


def session():
    found = _session or init()
    if not found.is_here:  # MPI and the context have not come along
        raise Error(64, "values are computed by the process that has begun with it: this is a child of fork()",
                    "start children by multiprocessing's spawn, or fork before the first value")
    if found.thread != threading.get_ident():  # MPI's calls and the context's are of one thread
        raise Error(64, "values are computed by the thread that has begun with it")
    return found


def begun():
    """The session, where one has begun in this process; else None."""
    return _session if _session and _session.is_here else None


def collective(kind):
    """A function that all ranks call, or another one of its kind, which meets the same calls of the others."""
    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            with session().together(kind, kind):
                return function(*args, **kwargs)
        return call
    return decorate


def rank():
    """Number of this rank, from 0, which is root; 0 where there is one."""
    return session().rank


def size():
    """How many ranks run the script."""
    return session().size
