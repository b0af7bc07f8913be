# SPDX-License-Identifier: MIT
"""The shared library and Open MPI as ctypes see them: structs of the public headers, and one context.

Every struct of options says its own size, so one that has grown since is still understood by the library.
"""
import atexit
import ctypes as c
import ctypes.util
import os
import pathlib
import sys
import threading

OPERANDS = 4
NUMBER = -2147483647  # an operand that is parameters.numbers[i]
F32, F64, I32, I64 = 0, 3, 4, 5  # enum mmul_dtype


class Error(Exception):
    """What the library says: the text of an error line, `hint` and the exit code that the program would have."""

    def __init__(self, status, text, hint=""):
        super().__init__(text)
        self.status, self.hint = status, hint


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
                ("base", c.c_double), ("causal", c.c_bool), ("interleaved", c.c_bool), ("axis", c.c_int),
                ("count", c.c_int64), ("begin", c.c_int64 * 4), ("end", c.c_int64 * 4), ("axes", c.c_int * 4),
                ("shape", Shape)]


class Call(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("operation", c.c_char_p), ("operands", c.c_int * OPERANDS),
                ("operand_count", c.c_int), ("with_", Parameters), ("origin", c.c_char_p)]


class Generated(c.Structure):
    _fields_ = [("kind", c.c_int), ("seed", c.c_uint64), ("shape", Shape)]


class ContextOptions(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("device", c.c_char_p), ("threads", c.c_int), ("no_bind", c.c_bool),
                ("probe", c.c_void_p), ("launch_seconds", c.c_double), ("agreed_options", c.c_char_p),
                ("shard_folder", c.c_char_p)]


class ProbeOptions(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("limit_seconds", c.c_double), ("ask_again", c.c_bool),
                ("device", c.c_char_p)]


class ProgramOptions(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("weights", c.c_char_p), ("keep_values", c.c_bool)]


class LocalPart(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("data", c.c_void_p), ("rows", c.c_int64), ("cols", c.c_int64),
                ("row_step", c.c_int64), ("dtype", c.c_int), ("axis", c.c_int)]


class MatrixInfo(c.Structure):
    _fields_ = [("shape", Shape), ("stored", c.c_int), ("delivered", c.c_int), ("format", c.c_int),
                ("version", c.c_int), ("one_dimensional", c.c_bool), ("fortran_order", c.c_bool),
                ("big_endian", c.c_bool), ("file_bytes", c.c_int64), ("dimensions", c.c_int)]


class OutputRequest(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("path", c.c_char_p), ("format", c.c_int), ("shape", Shape),
                ("dtype", c.c_int), ("bin_version", c.c_int), ("empty_allowed", c.c_bool), ("inputs", c.c_void_p),
                ("input_count", c.c_int), ("dimensions", c.c_int), ("beside", c.c_void_p)]


# Structs that C must see in the same way; the tests compare sizes and places of fields.
STRUCTS = {"mmul_error": ErrorText, "mmul_shape": Shape, "mmul_region": Region, "mmul_value_part": Part,
           "mmul_parameters": Parameters, "mmul_call": Call, "mmul_generated": Generated,
           "mmul_context_options": ContextOptions, "mmul_probe_options": ProbeOptions,
           "mmul_program_options": ProgramOptions, "mmul_local_part": LocalPart, "mmul_matrix_info": MatrixInfo,
           "mmul_output_request": OutputRequest}


def sized(struct, **fields):
    """A struct of options that says how large it is here."""
    return struct(struct_bytes=c.sizeof(struct), **fields)


def _find_library():
    """MPIMATMUL_LIBRARY, beside the package's prefix or build folder, or where the loader looks."""
    here = pathlib.Path(__file__).resolve()
    name = "libmpimatmul.so.0"
    candidates = [os.environ.get("MPIMATMUL_LIBRARY", "")]
    candidates += [str(folder / "lib" / name) for folder in here.parents]
    candidates += [str(folder / "build" / "release" / "lib" / name) for folder in here.parents]
    for candidate in candidates:
        if candidate and os.path.exists(candidate):
            return candidate
    return name


def _load():
    # Open MPI's plugins look for its symbols among those that everybody sees.
    mpi = c.CDLL(ctypes.util.find_library("mpi") or "libmpi.so.40", mode=c.RTLD_GLOBAL)
    library = c.CDLL(_find_library())
    library.mmul_program_value_shape.restype = Shape
    library.mmul_matrix_info.restype = MatrixInfo
    library.mmul_values_part.restype = Part
    library.mmul_values_part_count.restype = c.c_int64
    library.mmul_values_placement.restype = c.c_char_p
    library.mmul_format_ending.restype = c.c_char_p
    library.mmul_program_is_rounded.restype = c.c_bool
    library.mmul_kept_name.restype = c.c_char_p
    library.mmul_output_file_length.restype = c.c_size_t
    library.mmul_values_part.argtypes = [c.c_void_p, c.c_int, c.c_int64]
    return mpi, library


mpi, library = _load()


def raise_error(error):
    """What a struct mmul_error says; a name in it may be cut, or be no UTF-8."""
    raise Error(error.status, error.text.decode(errors="replace"), error.hint.decode(errors="replace"))


def check(call, *arguments):
    """Calls a function of the library whose last argument is a struct mmul_error; raises what it says."""
    error = ErrorText()
    if call(*arguments, c.byref(error)) != 0:
        raise_error(error)


def _finalize():
    ended = c.c_int()
    mpi.MPI_Finalized(c.byref(ended))
    if not ended.value:
        mpi.MPI_Finalize()


class Session:
    """MPI, begun here unless somebody did (mpi4py), and the context of all ranks."""

    def __init__(self, device=None, threads=0):
        begun = c.c_int()
        self.probe, self.context = c.c_void_p(), c.c_void_p()
        mpi.MPI_Initialized(c.byref(begun))
        wish = device.encode() if device else None
        probing = sized(ProbeOptions, limit_seconds=30.0, device=wish)
        if not begun.value:  # drivers are asked in a child process, which must come first
            check(library.mmul_probe_create, c.byref(probing), c.byref(self.probe))
            mpi.MPI_Init_thread(None, None, 1, c.byref(c.c_int()))
            atexit.register(_finalize)  # also where there is no context in the end
        self.thread = threading.get_ident()
        self.world = c.c_void_p(c.addressof(c.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
        rank, size = c.c_int(), c.c_int()
        mpi.MPI_Comm_rank(self.world, c.byref(rank))
        mpi.MPI_Comm_size(self.world, c.byref(size))
        self.rank, self.size = rank.value, size.value
        if getattr(sys.excepthook, "__func__", None) is not Session.end:
            self.excepthook, sys.excepthook = sys.excepthook, self.end
        self.shard_folder = os.environ.get("MPIMATMUL_SHARD_DIR", "").encode() or None
        options = sized(ContextOptions, device=wish, threads=threads, probe=self.probe, shard_folder=self.shard_folder)
        check(library.mmul_context_create, self.world, c.byref(options), c.byref(self.context))
        atexit.register(self.close)

    def end(self, kind, error, trace):
        """An exception that nobody caught: ours come on all ranks and root shows them; others end the job."""
        if self.rank == 0 or not isinstance(error, Error):
            self.excepthook(kind, error, trace)
        if self.size > 1 and not isinstance(error, Error):
            sys.stderr.flush()
            mpi.MPI_Abort(self.world, 1)

    def agree(self, error=None):
        """Collective: the error that a rank has alone, or None, becomes everybody's."""
        said = ErrorText()
        if error is not None:
            said.status, said.hint = error.status, error.hint.encode(errors="replace")
            said.text = str(error).encode(errors="replace")[:1023]
        if library.mmul_agree(self.world, c.byref(said)) != 0:
            raise_error(said)

    def on_root(self, work):
        """Collective: what work() returns on root, None elsewhere; its error is everybody's."""
        result, error, cause = None, None, None
        if self.rank == 0:
            try:
                result = work()
            except Error as failure:
                error = failure
            except Exception as failure:  # numpy's, ctypes' and those of root's own objects: nobody else may wait
                cause = failure
                error = Error(71 if isinstance(failure, MemoryError) else 65, str(failure) or type(failure).__name__)
        try:
            self.agree(error)
        except Error as everybodys:
            raise everybodys from cause
        return result

    def broadcast(self, data):
        """Collective: root's ctypes object to all."""
        check(library.mmul_context_broadcast, self.context, c.byref(data), c.c_int64(c.sizeof(data)))
        return data

    def close(self):
        ended = c.c_int()
        mpi.MPI_Finalized(c.byref(ended))
        if self.context and not ended.value:
            library.mmul_context_destroy(self.context)
        self.context = c.c_void_p()
