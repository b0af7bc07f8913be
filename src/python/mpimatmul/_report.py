# SPDX-License-Identifier: MIT
"""Uncaught exceptions: shown without frames of this package, and on one rank if all ranks have the
same one."""
import sys

from . import _begin, _caller
from ._library import Error, mpi


def begin():
    """Installs the exception hook in front of the current one."""
    before = sys.excepthook

    def show(kind, error, trace):
        """An Error occurs on all ranks and is shown by root. Any other exception ends the job."""
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
