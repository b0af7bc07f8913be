# SPDX-License-Identifier: MIT
"""The ctypes view of the shared library and Open MPI: structs of the public headers, and the
session with its context.

Every struct of options carries its own size, so the library also accepts an older, smaller one.
"""
import atexit
import ctypes as c
import ctypes.util
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

from . import _caller
from ._rendezvous import Meeting, say, wait_seconds

OPERANDS = 6
NUMBER = -2147483647  # an operand with the value parameters.numbers[i]
F32, F64, I32, I64, BOOL = 0, 3, 4, 5, 11  # enum mmul_dtype
_BRIEF_SECONDS, _BRIEF_MOST = 0.02, 4096
SERIALIZED = 2  # MPI_THREAD_SERIALIZED: any thread, one at a time


class Error(Exception):
    """An error of the library: the text of the error line, `hint`, and the exit code of the
    program."""
    __module__ = __package__  # public path for scripts

    def __init__(self, status, text, hint=""):
        super().__init__(text)
        self.status, self.hint = status, hint
        self.names_layer = False  # true once the message names the failing layer
        self.rank = None  # this rank, if all ranks have the error and there is no session
        if hint and hasattr(self, "add_note"):  # Python 3.11: shown at the end of tracebacks
            self.add_note(f"  hint: {hint}")


class ArgumentError(Error, ValueError):
    """An invalid argument for which torch raises ValueError."""
    __module__ = __package__


class ErrorText(c.Structure):
    _fields_ = [("status", c.c_int), ("text", c.c_char * 1024), ("hint", c.c_char * 256)]


class Shape(c.Structure):
    _fields_ = [("batch", c.c_int64), ("depth", c.c_int64), ("rows", c.c_int64), ("cols", c.c_int64)]

    def sizes(self):
        return (self.batch, self.depth, self.rows, self.cols)


class Region(c.Structure):
    _fields_ = [(name, c.c_int64) for name in ("matrix", "row_begin", "row_end", "col_begin", "col_end")]


class Part(c.Structure):
    _fields_ = [("region", Region), ("data", c.POINTER(c.c_float)), ("row_step", c.c_int64), ("col_step", c.c_int64),
                ("dtype", c.c_int)]


class Parameters(c.Structure):
    _fields_ = [("numbers", c.c_double * OPERANDS), ("epsilon", c.c_double), ("scale", c.c_double),
                ("base", c.c_double), ("causal", c.c_bool), ("interleaved", c.c_bool), ("descending", c.c_bool),
                ("axis", c.c_int), ("count", c.c_int64), ("begin", c.c_int64 * 4), ("end", c.c_int64 * 4),
                ("step", c.c_int64 * 4), ("axes", c.c_int * 4), ("shape", Shape)]


class Call(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("operation", c.c_char_p), ("operands", c.c_int * OPERANDS),
                ("operand_count", c.c_int), ("with_", Parameters), ("origin", c.c_char_p)]


class GradientRequest(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("y", c.c_int), ("xs", c.POINTER(c.c_int)), ("count", c.c_int),
                ("origin", c.c_char_p)]


class Generated(c.Structure):
    _fields_ = [("kind", c.c_int), ("seed", c.c_uint64), ("shape", Shape)]


class PlacementWish(c.Structure):
    _fields_ = [("kind", c.c_int), ("ranks", c.POINTER(c.c_int)), ("rank_count", c.c_int), ("on_all", c.c_bool),
                ("backward_ranks", c.POINTER(c.c_int)), ("backward_count", c.c_int), ("pattern", c.c_char_p),
                ("block_cols", c.c_int64)]


class ContextOptions(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("device", c.c_char_p), ("threads", c.c_int), ("no_bind", c.c_bool),
                ("probe", c.c_void_p), ("launch_seconds", c.c_double), ("agreed_options", c.c_char_p),
                ("shard_folder", c.c_char_p)]


class ProbeOptions(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("limit_seconds", c.c_double), ("ask_again", c.c_bool),
                ("device", c.c_char_p)]


class ProgramOptions(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("weights", c.c_char_p), ("keep_values", c.c_bool), ("io", c.c_int),
                ("no_verify", c.c_bool), ("no_fallback", c.c_bool), ("device_timeout_seconds", c.c_double),
                ("verify_seed", c.c_uint64), ("notice", c.c_void_p), ("notice_context", c.c_void_p),
                ("accept", c.c_void_p), ("accept_context", c.c_void_p), ("record", c.c_bool),
                ("memory_limit_bytes", c.c_int64), ("device_memory_limit_bytes", c.c_int64), ("tail", c.c_int),
                ("tail_share", c.c_double), ("reproducible", c.c_bool), ("arrived", c.c_void_p),
                ("arrived_context", c.c_void_p), ("progress", c.c_void_p), ("split", c.c_int), ("split_rule", c.c_int),
                ("only_planned", c.c_bool), ("may_run_on_root", c.c_bool)]


class LocalPart(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("data", c.c_void_p), ("rows", c.c_int64), ("cols", c.c_int64),
                ("row_step", c.c_int64), ("dtype", c.c_int), ("axis", c.c_int)]


class MatrixInfo(c.Structure):
    _fields_ = [("shape", Shape), ("stored", c.c_int), ("delivered", c.c_int), ("format", c.c_int),
                ("version", c.c_int), ("one_dimensional", c.c_bool), ("fortran_order", c.c_bool),
                ("big_endian", c.c_bool), ("has_header", c.c_bool), ("file_bytes", c.c_int64),
                ("dimensions", c.c_int)]


class OutputRequest(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("path", c.c_char_p), ("format", c.c_int), ("shape", Shape),
                ("dtype", c.c_int), ("bin_version", c.c_int), ("empty_allowed", c.c_bool), ("inputs", c.c_void_p),
                ("input_count", c.c_int), ("dimensions", c.c_int), ("beside", c.c_void_p)]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_char_p), ("is_readable", c.c_bool), ("dimensions", c.c_int),
                ("sizes", c.c_int64 * 8), ("bytes", c.c_int64)]


class ScriptTurn(c.Structure):
    _fields_ = [("at", c.c_int64), ("first", c.c_int64), ("end", c.c_int64), ("windows", c.c_int64),
                ("may_break", c.c_bool)]


class ApartNode(c.Structure):
    _fields_ = [("share", c.c_double), ("ranks", c.c_int)]


class TensorsInfo(c.Structure):
    _fields_ = [("format", c.c_int), ("count", c.c_int64), ("file_bytes", c.c_int64)]


class NumberChange(c.Structure):
    _fields_ = [("value", c.c_int), ("operand", c.c_int), ("number", c.c_double)]


class DrawChange(c.Structure):
    _fields_ = [("value", c.c_int), ("seed", c.c_double), ("turn", c.c_double)]


class MatrixChange(c.Structure):
    _fields_ = [("value", c.c_int), ("matrix", c.c_void_p)]


class HeldChange(c.Structure):
    _fields_ = [("value", c.c_int), ("held", c.c_int64)]


class ProgramChanges(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("numbers", c.POINTER(NumberChange)), ("draws", c.POINTER(DrawChange)),
                ("matrices", c.POINTER(MatrixChange)), ("held", c.POINTER(HeldChange)), ("number_count", c.c_int),
                ("draw_count", c.c_int), ("matrix_count", c.c_int), ("held_count", c.c_int), ("hold_count", c.c_int),
                ("holds", c.POINTER(c.c_int64))]


# Structs with the layout of C. The tests compare sizes and offsets of fields.
STRUCTS = {"mmul_error": ErrorText, "mmul_shape": Shape, "mmul_region": Region, "mmul_value_part": Part,
           "mmul_parameters": Parameters, "mmul_call": Call, "mmul_generated": Generated,
           "mmul_context_options": ContextOptions, "mmul_probe_options": ProbeOptions,
           "mmul_program_options": ProgramOptions, "mmul_local_part": LocalPart, "mmul_matrix_info": MatrixInfo,
           "mmul_output_request": OutputRequest, "mmul_gradient_request": GradientRequest, "mmul_tensor": Tensor,
           "mmul_tensors_info": TensorsInfo, "mmul_apart_node": ApartNode, "mmul_script_turn": ScriptTurn,
           "mmul_number_change": NumberChange, "mmul_draw_change": DrawChange, "mmul_matrix_change": MatrixChange,
           "mmul_held_change": HeldChange, "mmul_program_changes": ProgramChanges}


def sized(struct, **fields):
    """Returns a struct of options that carries its own size."""
    return struct(struct_bytes=c.sizeof(struct), **fields)


NAME = "libmpimatmul.so.0"


def _library_paths():
    """Yields possible paths of the library, in this order: MPIMATMUL_LIBRARY alone if set, the
    prefix or build folder around this package, the loader's search path, the folder of the program
    in PATH, pkg-config."""
    here = pathlib.Path(__file__).resolve()
    if os.environ.get("MPIMATMUL_LIBRARY"):
        yield os.environ["MPIMATMUL_LIBRARY"]
        return
    for folder in here.parents:
        yield str(folder / "lib" / NAME)
    for folder in here.parents:
        yield str(folder / "build" / "release" / "lib" / NAME)
    yield NAME
    program = shutil.which("mpimatmul")
    if program:
        yield str(pathlib.Path(program).resolve().parents[1] / "lib" / NAME)
    if shutil.which("pkg-config"):
        asked = subprocess.run(["pkg-config", "--variable=libdir", "mpimatmul"], capture_output=True, text=True,
                               check=False)
        if asked.returncode == 0:
            yield os.path.join(asked.stdout.strip(), NAME)


def _load_library():
    reason = "not found in any of the usual places"
    for place in _library_paths():
        if os.sep in place and not os.path.exists(place) and not os.environ.get("MPIMATMUL_LIBRARY"):
            continue
        try:
            return c.CDLL(place)
        except OSError as error:
            if place != NAME:
                reason = str(error)
    raise ImportError(f"cannot load {NAME}: {reason}; set its path, as "
                      f"MPIMATMUL_LIBRARY=/usr/local/lib/{NAME}", name=NAME)


def _load():
    # Open MPI's plugins need its symbols in the global scope.
    try:
        mpi = c.CDLL(ctypes.util.find_library("mpi") or "libmpi.so.40", mode=c.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(f"cannot load Open MPI: {error}; Debian's package is openmpi-bin",
                          name="libmpi.so.40") from None
    library = _load_library()
    library.mmul_program_value_shape.restype = Shape
    library.mmul_matrix_info.restype = MatrixInfo
    library.mmul_tensors_get.restype = Tensor
    library.mmul_tensors_info.restype = TensorsInfo
    library.mmul_tensor_is_matrix.restype = c.c_bool
    library.mmul_values_report.restype = c.c_void_p
    library.mmul_context_of_node.restype = c.c_void_p
    library.mmul_values_part.restype = Part
    library.mmul_values_part_count.restype = c.c_int64
    library.mmul_values_placement.restype = c.c_char_p
    library.mmul_placements_find.restype = c.c_bool
    library.mmul_placements_notice.restype = c.c_char_p
    library.mmul_format_ending.restype = c.c_char_p
    library.mmul_program_is_rounded.restype = c.c_bool
    library.mmul_program_is_bool.restype = c.c_bool
    library.mmul_program_kept_version.restype = c.c_uint64
    library.mmul_matrix_was_written.restype = c.c_bool
    library.mmul_process_has_lost_mpi.restype = c.c_bool
    library.mmul_kept_name.restype = c.c_char_p
    library.mmul_output_file_length.restype = c.c_size_t
    library.mmul_values_part.argtypes = [c.c_void_p, c.c_int, c.c_int64]
    return mpi, library


mpi, library = _load()
libc = c.CDLL(None)


def lost_mpi():
    """Returns "" or, if MPI has refused a collective call, the place: "here" or "elsewhere"."""
    own = c.c_bool()
    if not library.mmul_process_has_lost_mpi(c.byref(own)):
        return ""
    return "here" if own.value else "elsewhere"


def raise_error(error):
    """Raises the error of a struct mmul_error. Names in its text may be truncated or invalid
    UTF-8."""
    raise Error(error.status, error.text.decode(errors="replace"), error.hint.decode(errors="replace"))


_SPARE = []  # unused error structs without a message, for reuse


def check(call, *arguments):
    """Calls a function of the library whose last argument is a struct mmul_error. Raises its
    error."""
    error = _SPARE.pop() if _SPARE else ErrorText()
    if call(*arguments, c.byref(error)) != 0:
        raise_error(error)
    if error.status == 0:
        _SPARE.append(error)


def text_of(call, *arguments):
    """Returns a text that a function of the library allocates."""
    text = c.c_char_p()
    check(call, *arguments, c.byref(text))
    try:
        return text.value.decode(errors="replace")
    finally:
        library.mmul_free(text)


def placement(values, number):
    """Returns the placement of a value after its program has run, as "rows 0 32 64". "rank 0": it is on root alone."""
    room = c.create_string_buffer(96)
    return library.mmul_values_placement(values, number, c.byref(c.c_int()), room).decode()


class _Job(threading.Thread):
    """A computation on its own thread, so that the script's thread can handle signals. If the
    script leaves it early, the job keeps its resources and frees them at its end."""

    def __init__(self, work, clean):
        super().__init__(daemon=True)
        self.work, self.clean = work, clean
        self.lock, self.over = threading.Lock(), threading.Event()
        self.failure, self.is_left = None, False

    def run(self):
        try:
            self.work()
        # Raised again where the job is awaited.
        except BaseException as failure:  # pylint: disable=broad-except
            self.failure = failure
        with self.lock:
            self.over.set()
        if self.is_left:
            self.clean()

    def leave(self):
        """Detaches from the job. Returns false if the job is already over."""
        with self.lock:
            self.is_left = not self.over.is_set()
        return self.is_left


class _Together:
    """A call that all ranks make, from their meeting to its end. SIGINT with a Python handler is
    delayed until the end, because the other ranks would otherwise block in the interrupted call."""

    def __init__(self, session, kind, name, mark):
        self.session, self.kind, self.name, self.mark, self.held = session, kind, name, mark, None

    def __enter__(self):
        s = self.session
        s.depth += 1
        if s.depth > 1:
            return None
        if s.watch is not None:
            s.watch(self.kind, self.name)
        if s.left is not None:  # a context runs one operation at a time
            s.left.join()
            s.left = None
        try:
            if s.size > 1 and threading.current_thread() is threading.main_thread():
                handler = signal.getsignal(signal.SIGINT)
                if callable(handler):
                    self.held = handler
                    signal.signal(signal.SIGINT, self.hold)
            if s.size == 1:
                return None
            notes = s.meeting.meet(self.kind, self.name, _caller.place(), self.mark)
            if len({note.kind for note in notes}) > 1:
                other = next(r for r, note in enumerate(notes) if note.kind != notes[0].kind)
                raise Error(64, f"rank 0 is in {notes[0]} and rank {other} in {notes[other]}: all ranks must "
                                "make the same calls")
            return notes
        except BaseException:
            self.__exit__()
            raise

    def hold(self, number, frame):
        self.session.interrupt = number, frame
        self.session.meeting.interrupted += 1

    def __exit__(self, *_):
        s = self.session
        s.depth -= 1
        if s.depth > 0 or self.held is None:
            return
        signal.signal(signal.SIGINT, self.held)
        came, s.interrupt = s.interrupt, None
        if came is not None:
            self.held(*came)


class Session:
    """MPI, which is started here unless mpi4py or other code did so, and the context of all
    ranks."""

    def __init__(self, device=None, threads=0):
        begun, level = c.c_int(), c.c_int()
        self.probe, self.context, self.meeting = c.c_void_p(), c.c_void_p(), None
        # is_here: false in a child of fork()
        self.is_here, self.thread = True, threading.get_ident()
        self.depth, self.interrupt, self.left = 0, None, None
        self.brief = set()  # kinds of computations that recently took little time
        self.watch = None  # called with kind and name of each collective operation
        self.report = None  # root: JSON report of the last recorded program
        mpi.MPI_Initialized(c.byref(begun))
        library.mmul_process_end_with_launcher()
        wish = device.encode() if device else None
        probing = sized(ProbeOptions, limit_seconds=30.0, device=wish)
        if not begun.value:  # drivers are queried in a child process, which must precede MPI
            check(library.mmul_probe_create, c.byref(probing), c.byref(self.probe))
            self._begin_mpi()
            atexit.register(self._finalize)  # also if no context is created
        mpi.MPI_Query_thread(c.byref(level))
        self.may_move = level.value >= SERIALIZED
        self.world = c.c_void_p(c.addressof(c.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
        self.meeting = Meeting(mpi, self.world)
        self.rank, self.size = self.meeting.rank, self.meeting.size
        atexit.register(self.close)
        # A child of fork() must not run the exit handlers of MPI and drivers.
        os.register_at_fork(after_in_child=self._after_fork)
        for number in (n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL):
            library.mmul_outputs_abandon_on_signal(int(number))
        self.shard_folder = os.environ.get("MPIMATMUL_SHARD_DIR", "").encode() or None
        options = sized(ContextOptions, device=wish, threads=threads, probe=self.probe, shard_folder=self.shard_folder)
        try:
            with self.together("init", "init"):
                check(library.mmul_context_create, self.world, c.byref(options), c.byref(self.context))
        except Error as error:
            error.rank = self.rank
            raise

    def _begin_mpi(self):
        """Starts MPI. All ranks wait for each other inside MPI_Init_thread, so a timer reports a
        long wait."""
        place, seconds = _caller.place(), wait_seconds()
        rank = os.environ.get("OMPI_COMM_WORLD_RANK", "")
        try:
            check(library.mmul_process_check_files)
        except Error:
            # Root prints the error, and mpirun needs a second to end the other ranks.
            time.sleep(0 if rank == "0" else 3)
            raise

        def tell():
            say(f"rank {rank} has waited {seconds:g} s in init() ({place}) for ranks that have not started")
        timer = threading.Timer(seconds, tell)
        timer.daemon = True
        if rank in ("0", "1"):  # at least one of the two is not the late rank
            timer.start()
        mpi.MPI_Init_thread(None, None, SERIALIZED, c.byref(c.c_int()))
        timer.cancel()

    def together(self, kind, name, mark=""):
        """Returns a context manager for a collective call. kind: equal on all ranks. name: the
        script's name for the call. mark: a word for the other ranks. `as` gives the notes of all
        ranks, or None for a single rank."""
        return _Together(self, kind, name, mark)

    def agree(self, error=None):
        """Agrees on an error: one that any rank has is raised on all. Collective."""
        said = ErrorText()
        if error is None and self.interrupt is not None:
            error = Error(75, f"rank {self.rank} was interrupted")
        if error is not None:
            said.status, said.hint = error.status, error.hint.encode(errors="replace")
            said.text = str(error).encode(errors="replace")[:1023]
        if library.mmul_agree(self.world, c.byref(said)) != 0:
            raise_error(said)

    def on_root(self, work):
        """Runs work() on root. Returns its result on root and None elsewhere; an error is raised on
        all ranks. Collective."""
        result, error, cause = None, None, None
        if self.rank == 0:
            try:
                result = work()
            except Error as failure:
                error = failure
            # Errors of numpy, ctypes or root's objects must also end the wait of other ranks.
            except Exception as failure:
                cause = failure
                error = Error(71 if isinstance(failure, MemoryError) else 65, str(failure) or type(failure).__name__)
        if error is None and self.size == 1:
            return result
        try:
            self.agree(error)
        except Error as everybodys:
            raise everybodys from cause
        return result

    def broadcast(self, data):
        """Sends root's ctypes object to all ranks. Collective."""
        if self.size == 1:
            return data
        check(library.mmul_context_broadcast, self.context, c.byref(data), c.c_int64(c.sizeof(data)))
        return data

    def compute(self, work, clean, likeness=None):
        """Runs a long work(). A single rank stays open to signals. The exception of a signal is
        raised at once and output in progress is discarded, while work() and then clean() finish in
        the background. A computation that was short the last time (same likeness) runs without a
        thread, which would cost more than a short step."""
        is_alone = self.size == 1 and self.may_move and threading.current_thread() is threading.main_thread()
        begin = time.monotonic()
        if is_alone and likeness not in self.brief:
            self._compute_on_thread(work, clean)
        else:
            work()
        self.brief.discard(likeness)
        if is_alone and likeness is not None and time.monotonic() - begin < _BRIEF_SECONDS:
            if len(self.brief) >= _BRIEF_MOST:
                self.brief.clear()
            self.brief.add(likeness)

    def _compute_on_thread(self, work, clean):
        job = _Job(work, clean)
        job.start()
        try:
            while not job.over.wait(1):
                pass
        except BaseException:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            library.mmul_outputs_abandon()
            self.left = job if job.leave() else None
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        if job.failure is not None:
            raise job.failure

    def is_left(self, clean):
        """Returns true if compute(.., clean) was left before its end."""
        return self.left is not None and self.left.clean == clean

    def _after_fork(self):
        self.is_here = False
        libc.on_exit(c.cast(libc._exit, c.c_void_p), None)

    def is_busy(self):
        return self.left is not None and self.left.is_alive()

    def close(self):
        """Called at the end of the process."""
        ended = c.c_int()
        if not self.is_here:
            libc.fflush(None)
            return
        mpi.MPI_Finalized(c.byref(ended))
        if ended.value:
            return
        if lost_mpi():  # MPI would still write to memory of the collectives that were given up
            libc.fflush(None)
            libc.on_exit(c.cast(libc._exit, c.c_void_p), None)
            return
        self.meeting.leave()
        if self.is_busy():  # a running computation still uses the context
            libc.fflush(None)
            libc.on_exit(c.cast(libc._exit, c.c_void_p), None)  # keeps the exit status
        elif self.context:
            library.mmul_context_destroy(self.context)
            self.context = c.c_void_p()

    def _finalize(self):
        ended = c.c_int()
        if not self.is_here or self.is_busy() or lost_mpi():
            return
        mpi.MPI_Finalized(c.byref(ended))
        if not ended.value:
            mpi.MPI_Finalize()
