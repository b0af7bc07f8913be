# SPDX-License-Identifier: MIT
"""The command `mpimatmul` of a wheel that contains the program (scripts/make-wheel). Replaces this
process by the program. Lives beside the package, so that a start does not import numpy."""
import ctypes
import os
import re
import sys

_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpimatmul")
_UNAVAILABLE = 69


def _package_of(reason):
    """Returns the missing library that the loader's message names, and the package that contains
    it. Returns (None, "?") for an unknown one."""
    with open(os.path.join(_PACKAGE, "needs"), encoding="utf-8") as needs:
        for name, package in map(str.split, needs):
            if re.search(rf"(^|/){re.escape(name)}:", reason):
                return name, package
    return None, "?"


def main():
    """Loads the library first, for a better message than the loader's, then runs the program."""
    library, program = os.path.join(_PACKAGE, "lib", "libmpimatmul.so.0"), os.path.join(_PACKAGE, "bin", "mpimatmul")
    try:
        ctypes.CDLL(library)
    except OSError as error:
        name, package = _package_of(str(error))
        sys.stderr.write(f"mpimatmul: cannot load {name or library}: {error}\n")
        if package != "?":
            sys.stderr.write(f"  hint: install {package}\n")
        sys.exit(_UNAVAILABLE)
    os.execv(program, [program, *sys.argv[1:]])
