# SPDX-License-Identifier: MIT
"""Uncaught exceptions: shown without frames of this package, and on one rank if all ranks have the
same one."""
import sys
import time

from . import _begin, _caller
from ._library import Error, lost_mpi, mpi

_LOST_SECONDS = 3  # mpirun needs about one second to end the ranks after root's end


def begin():
    """Installs the exception hook in front of the current one."""
    before = sys.excepthook

    def show(kind, error, trace):
        """An Error occurs on all ranks and is shown by root. Any other exception ends the job. If
        MPI refused a call here, root may not know the error: this rank waits for the end and then
        shows it."""
        session = _begin.begun()
        alone = session is None or session.size == 1
        rank = getattr(error, "rank", None) if session is None else session.rank
        lost = lost_mpi() if rank else ""
        if lost:
            time.sleep(_LOST_SECONDS)
        _caller.trim(error)
        if not rank or lost == "here" or not isinstance(error, Error):
            before(kind, error, error.__traceback__)
        if not alone and isinstance(error, Error):
            session.meeting.reason = str(error)
        elif not alone:
            sys.stderr.flush()
            mpi.MPI_Abort(session.world, 1)

    sys.excepthook = show
