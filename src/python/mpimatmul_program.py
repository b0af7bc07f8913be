# SPDX-License-Identifier: MIT
"""The command `mpimatmul` of a wheel that has the program in it (scripts/make-wheel): becomes that program. Beside the
package, not in it, so that a start does not wait for numpy."""
import ctypes
import os
import re
import sys

_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpimatmul")
_UNAVAILABLE = 69


def _package_of(reason):
    """Which of what the library needs the loader speaks of, and the package that has it; or nothing."""
    with open(os.path.join(_PACKAGE, "needs"), encoding="utf-8") as needs:
        for name, package in map(str.split, needs):
            if re.search(rf"(^|/){re.escape(name)}:", reason):
                return name, package
    return None, "?"


def main():
    """Tries the library, of which the loader would say less, and starts the program."""
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
