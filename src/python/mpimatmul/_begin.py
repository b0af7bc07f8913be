# SPDX-License-Identifier: MIT
"""The session of the process, which starts on first use by all ranks together, and the decorator
for collective functions."""
import ctypes as c
import functools
import os
import threading
import warnings

from . import _caller
from ._library import Error, Session, check, library

_session = None
OPTIONS = {"weights": None, "float32": False, "record": False, "placements": None}


def init(device=None, threads=0, weights=None, dtype=None, record=False, placement=None, stall_timeout=None):
    """Starts the session. Collective. Called automatically with the defaults on first use.

    device: as for `mul --device`. dtype "float32": float64 inputs are read as float32. record:
    collects data for `debug.worker_statistics`. placement: root's file with requested placements,
    by the names of `signal`. stall_timeout: as for `mul --stall-timeout`; None:
    MPIMATMUL_STALL_TIMEOUT, or 120 s."""
    global _session
    if dtype not in (None, "float32"):
        raise Error(64, f"invalid dtype '{dtype}': expected float32 or None")
    if _session and (device or threads):
        raise Error(64, "device and threads must be chosen before the first value")
    OPTIONS.update(weights=weights, float32=dtype == "float32", record=bool(record))
    if stall_timeout is not None or not _session:
        library.mmul_process_watch_stalls(c.c_double(_stall_seconds(stall_timeout)))
    _session = _session or Session(device, threads)
    if placement is not None:
        OPTIONS["placements"] = _session.on_root(lambda: _read_placements(placement))
    return _session


def _stall_seconds(wish):
    text = os.environ.get("MPIMATMUL_STALL_TIMEOUT", "120") if wish is None else wish
    try:
        seconds = float(text)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= 1e9:
        raise Error(64, f"invalid stall timeout '{text}': expected a number from 0 to 1e9")
    return seconds


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
    if not found.is_here:  # MPI and the context do not survive fork()
        raise Error(64, "this process is a child of fork(): values must be computed by the parent",
                    "start children by multiprocessing's spawn, or fork before the first value")
    if found.thread != threading.get_ident():  # MPI and the context belong to one thread
        raise Error(64, "values must be computed by the thread that computed the first one")
    return found


def begun():
    """Returns the session if it has started in this process, else None."""
    return _session if _session and _session.is_here else None


def collective(kind):
    """Decorates a function that all ranks call. Functions of one kind may be mixed between
    ranks."""
    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            with session().together(kind, kind):
                return function(*args, **kwargs)
        return call
    return decorate


def rank():
    """Returns the number of this rank, from 0. Rank 0 is root."""
    return session().rank


def size():
    """Returns the number of ranks."""
    return session().size
