# SPDX-License-Identifier: MIT
"""The meeting of ranks: before every collective call the ranks wait for each other here instead of
in MPI, because only here missing ranks can be detected.

A rank that ends notifies all others. A rank that waits for it, or has waited long, asks which other
ranks wait, too. The waiting ranks answer, and the lowest one prints the message for all:

    mpimatmul: rank 1 has ended, and rank 0 waits for it in numpy() (script.py:7)
    mpimatmul: rank 0 has waited 10 s in numpy() (script.py:7) for rank 1

The first message ends the job. The second one does not, because a slow rank may take any time.
"""
import ctypes as c
import os
import sys
import time

STOPPED = 75  # MMUL_ERR_STOPPED
_WAITING, _ENDED = 1, 2  # tags
_ANY = -1
_ANSWER_SECONDS = 0.5  # time for waiting ranks to answer


class _Note(c.Structure):
    """A message between ranks: the number of the call, its kind (equal on all ranks), and the
    script's name and line of it."""
    _fields_ = [("number", c.c_int64), ("seconds", c.c_double), ("kind", c.c_char * 32), ("mark", c.c_char * 32),
                ("name", c.c_char * 64),
                ("place", c.c_char * 128), ("reason", c.c_char * 256)]

    def __str__(self):
        return f"{self.name.decode()}() ({self.place.decode(errors='replace')})"


class _Status(c.Structure):
    _fields_ = [("source", c.c_int), ("tag", c.c_int), ("error", c.c_int), ("cancelled", c.c_int),
                ("bytes", c.c_size_t)]


def wait_seconds():
    """Returns the time after which a waiting rank prints a message: MPIMATMUL_WAIT_SECONDS, or
    10."""
    try:
        return max(float(os.environ.get("MPIMATMUL_WAIT_SECONDS", "")), 0.0)
    except ValueError:
        return 10.0


def say(text):
    """Prints a line in the format of the program's messages."""
    sys.stdout.flush()
    sys.stderr.write(f"mpimatmul: {text}\n")
    sys.stderr.flush()


def _format_ranks(ranks):
    """Formats "rank 1", "ranks 1 and 2" or "ranks 1, 2, 3 and 9 others"."""
    known = [str(r) for r in ranks]
    if len(known) == 1:
        return f"rank {known[0]}"
    if len(known) > 5:
        known[3:] = [f"{len(known) - 3} others"]
    return f"ranks {', '.join(known[:-1])} and {known[-1]}"


class Meeting:
    """Exchanges notes between all ranks, on a communicator of its own."""

    def __init__(self, mpi, world):
        rank, size, self.comm = c.c_int(), c.c_int(), c.c_void_p()
        mpi.MPI_Comm_rank(world, c.byref(rank))
        mpi.MPI_Comm_size(world, c.byref(size))
        mpi.MPI_Comm_dup(world, c.byref(self.comm))
        self.mpi, self.rank, self.size = mpi, rank.value, size.value
        self.byte = c.c_void_p(c.addressof(c.c_char.in_dll(mpi, "ompi_mpi_byte")))
        self.number = 0
        # Notes and requests of sends, which must stay alive until the sends complete.
        self.sent = []
        self.ended = {}  # last note of each rank that has ended
        self.waiting = {}  # note of each waiting rank in this meeting
        self.reason = ""  # reason for this rank's end
        self.interrupted = 0  # number of signals during this meeting

    def _send_note(self, note, tag):
        for other in range(self.size):
            if other != self.rank:
                request = c.c_void_p()
                self.mpi.MPI_Isend(c.byref(note), c.c_int(c.sizeof(note)), self.byte, other, tag, self.comm,
                                   c.byref(request))
                self.sent.append((note, request))

    def _receive_notes(self):
        there, status = c.c_int(), _Status()
        while True:
            self.mpi.MPI_Iprobe(_ANY, _ANY, self.comm, c.byref(there), c.byref(status))
            if not there.value:
                return
            note = _Note()
            self.mpi.MPI_Recv(c.byref(note), c.c_int(c.sizeof(note)), self.byte, status.source, status.tag, self.comm,
                              None)
            if status.tag == _ENDED:
                self.ended[status.source] = note
            elif note.number == self.number:
                known = self.waiting.get(status.source)
                note.seconds = max(note.seconds, known.seconds if known else 0)
                self.waiting[status.source] = note

    def leave(self):
        """Announces the end of this rank and waits until all ranks have done so. Collective. A wait
        in MPI_Finalize instead, while other ranks end the job, sometimes crashes mpirun (4.1)."""
        if self.size > 1:
            self._send_note(_Note(number=self.number, reason=self.reason.encode()[:255]), _ENDED)
        nap = 1e-5
        while len(self.ended) < self.size - 1:
            self._receive_notes()
            time.sleep(nap)
            nap = min(1.5 * nap, 5e-3)

    def meet(self, kind, name, place, mark=""):
        """Waits for all ranks and returns their notes. Collective. Not for a single rank."""
        self.number += 1
        self.waiting, self.interrupted = {}, 0
        own = _Note(number=self.number, kind=kind.encode(), name=name.encode(), mark=mark.encode(),
                    place=place.encode()[:127])
        everybody, request = (_Note * self.size)(), c.c_void_p()
        length = c.c_int(c.sizeof(own))
        self.mpi.MPI_Iallgather(c.byref(own), length, self.byte, everybody, length, self.byte, self.comm,
                                c.byref(request))
        self._wait(request, own)
        return everybody

    def _wait(self, request, own):
        limit, begin, done = wait_seconds(), time.monotonic(), c.c_int()
        answered, asked_at, doomed_at = False, None, None
        while True:
            self.mpi.MPI_Test(c.byref(request), c.byref(done), None)
            if done.value:
                return
            self._receive_notes()
            now = time.monotonic()
            waited = now - begin
            if doomed_at is None and (self._ended_ranks() or self.interrupted > (waited < limit)):
                doomed_at = now
            # The first rank past the limit asks the others. Of two such ranks the lower one prints.
            asks = waited >= limit and asked_at is None and not any(n.seconds > 0 for n in self.waiting.values())
            if asks:
                asked_at = now
            if asks or (not answered and (self.waiting or doomed_at is not None)):
                own.seconds, answered = waited if asks else 0, True
                self._send_note(_Note.from_buffer_copy(own), _WAITING)
            if doomed_at is not None and now - doomed_at >= _ANSWER_SECONDS:
                self._abort(own, now - doomed_at)
            elif asked_at is not None and asked_at > 0 and now - asked_at >= _ANSWER_SECONDS:
                asked_at = 0  # printed
                self._warn(own, limit)
            if waited < 1e-3:
                os.sched_yield()  # sleep(0) takes 70 us
            else:
                time.sleep(min(waited / 8, 2e-3))

    def _present_ranks(self):
        return sorted({self.rank, *self.waiting})

    def _ended_ranks(self):
        """Returns the ranks that ended before this meeting."""
        return sorted(r for r, note in self.ended.items() if note.number < self.number)

    def _missing_ranks(self):
        return [r for r in range(self.size) if r != self.rank and r not in self.waiting]

    def _warn(self, own, limit):
        asking = [r for r, n in self.waiting.items() if n.seconds > 0]
        if self._missing_ranks() and self.rank == min([self.rank] + asking):
            here = self._present_ranks()
            say(f"{_format_ranks(here)} {'has' if len(here) == 1 else 'have'} waited {limit:g} s in {own} for "
                f"{_format_ranks(self._missing_ranks())}")

    def _abort(self, own, seconds):
        """Ends the job. The lowest waiting rank prints the reason. Other ranks end the job
        themselves if that rank does not."""
        gone, here = self._ended_ranks(), self._present_ranks()
        wait = f"{_format_ranks(here)} {'waits' if len(here) == 1 else 'wait'}"
        if not gone:
            say(f"rank {self.rank} was interrupted, and {wait} for {_format_ranks(self._missing_ranks())} in {own}")
        elif self.rank == here[0]:
            reason = self.ended[gone[0]].reason.decode(errors="replace")
            say(f"{_format_ranks(gone)} {'has' if len(gone) == 1 else 'have'} ended"
                f"{f' ({reason})' if reason else ''}, and "
                f"{wait} for {'it' if len(gone) == 1 else 'them'} in {own}")
        elif seconds < 4 * _ANSWER_SECONDS:
            return
        self.mpi.MPI_Abort(self.comm, STOPPED)
