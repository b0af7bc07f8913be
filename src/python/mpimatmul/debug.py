# SPDX-License-Identifier: MIT
"""Inspection: pending operations, and statistics of the last job."""
import ctypes as c
import json
import sys

from . import _caller
from ._begin import begun, collective, session
from ._library import Error, libc, library
from ._program import Program
from ._values import Value

__all__ = ("print_tape", "worker_statistics")


@collective("print_tape")
def print_tape(*values):
    """Prints on root the operations that would now compute the given values, in order, with names
    and shapes. Without arguments, uses all pending values that the script has names for. Held
    values are the starting points. Collective."""
    named = [value.current() for _, value in _caller.things(Value)]

    def text():
        wanted = [v.current() for v in values] or [v for v in named if v.operands and not v.is_computed]
        with Program() as program:
            for value in wanted:
                program.add(value)
            return _printed(library.mmul_program_print, program.handle, c.c_bool(True))
    found = session().on_root(text)
    if found is not None:
        sys.stdout.write(found)


def _printed(call, *arguments):
    """Returns the text that a function of the library prints to a C stream."""
    text, length = c.c_char_p(), c.c_size_t()
    libc.open_memstream.restype = c.c_void_p
    stream = c.c_void_p(libc.open_memstream(c.byref(text), c.byref(length)))
    call(*arguments, stream)
    libc.fclose(stream)
    found = text.value.decode(errors="replace")
    libc.free(text)
    return found


_OF_RANK = ("rank", "host", "device", "compute_seconds", "copy_seconds", "verify_seconds", "scatter_seconds",
            "gather_seconds", "idle_seconds")


def worker_statistics():
    """Returns statistics of the last recorded job on root, None elsewhere: a dict per rank with
    seconds of work and waiting, bytes of its results, and its share of them. Jobs are recorded
    after `init(record=True)`."""
    there = begun()
    if there is None or there.rank != 0:
        return None
    if there.report is None:
        raise Error(64, "no job was recorded", "call mm.init(record=True) before the job")
    report = json.loads(there.report)
    made = [sum(o["ranks"][rank]["part_bytes"] for o in report["operations"]) for rank in range(there.size)]
    return [{**{name: of[name] for name in _OF_RANK}, "bytes": made[of["rank"]],
             "share": made[of["rank"]] / max(sum(made), 1)} for of in report["ranks"]]
