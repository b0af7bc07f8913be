# SPDX-License-Identifier: MIT
"""Exceptions that nobody caught: shown as the script's own, and on one rank where all have them."""
import sys

from . import _begin, _caller
from ._library import Error, mpi


def begin():
    """Stands in front of what shows exceptions now."""
    before = sys.excepthook

    def show(kind, error, trace):
        """Ours come on all ranks, and root shows them; others end the job."""
        session = _begin.begun()
        alone = session is None or session.size == 1
        _caller.trim(error)
        if alone or session.rank == 0 or not isinstance(error, Error):
            before(kind, error, error.__traceback__)
        if not alone and isinstance(error, Error):
            session.meeting.reason = str(error)
        elif not alone:
            sys.stderr.flush()
            mpi.MPI_Abort(session.world, 1)

    sys.excepthook = show
