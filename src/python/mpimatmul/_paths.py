# SPDX-License-Identifier: MIT
"""Names of files, and the tensors in them, as the library has them."""
import ctypes as c
import os

from ._library import F64, Error, check, library


def as_path(path):
    """As the file system has it."""
    path = os.fsencode(path)
    if b"\0" in path:
        raise Error(64, "a NUL byte cannot be in a file's name")
    return path


def check_type(path, dtype):
    """Doubles are held or refused."""
    kind = c.c_int()
    check(library.mmul_output_format, path, 0, c.byref(kind))
    if dtype == F64 and library.mmul_format_holds(kind, dtype) != dtype:
        ending = library.mmul_format_ending(kind).decode()
        raise Error(64, f"cannot write '{os.fsdecode(path)}' as float64: {ending} has no such type")


def split(path):
    """An output's file, however it is spelled, and the tensor of it."""
    several, tensor = c.c_bool(), c.c_char_p()
    length = library.mmul_output_file_length(path, c.byref(several), c.byref(tensor))
    return os.path.realpath(path[:length]), tensor.value
