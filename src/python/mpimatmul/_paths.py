# SPDX-License-Identifier: MIT
"""Paths of files, and of tensors inside files, in the library's notation."""
import ctypes as c
import os

from ._library import F64, Error, check, library


def as_path(path):
    """Returns the path as bytes."""
    path = os.fsencode(path)
    if b"\0" in path:
        raise Error(64, "a file name cannot contain a NUL byte")
    return path


def check_type(path, dtype):
    """Refuses float64 for a format that cannot hold it."""
    kind = c.c_int()
    check(library.mmul_output_format, path, 0, c.byref(kind))
    if dtype == F64 and library.mmul_format_holds(kind, dtype) != dtype:
        ending = library.mmul_format_ending(kind).decode()
        raise Error(64, f"cannot write '{os.fsdecode(path)}' as float64: {ending} has no such type")


def split(path):
    """Returns the real path of an output's file and the name of the tensor in it."""
    several, tensor = c.c_bool(), c.c_char_p()
    length = library.mmul_output_file_length(path, c.byref(several), c.byref(tensor))
    return os.path.realpath(path[:length]), tensor.value
