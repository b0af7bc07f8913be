# SPDX-License-Identifier: MIT
"""python3 -m mpimatmul FILE: runs a program of `mpimatmul run` under Python, as one job at its
end."""
import functools
import os
import sys
import traceback

import mpimatmul

USAGE = """\
usage: python3 -m mpimatmul FILE
       mpirun -n RANKS python3 -m mpimatmul FILE

Runs FILE, a program as of `mpimatmul run`, as a script of Python: its names are those of this package, and what it
saves is computed in one job at its end. `pydoc3 mpimatmul` shows what they do.

  --help     this text
  --version  the version of the package

Exit codes are those of `mpimatmul run`: 0 done, 64 usage, 65 data, 66 no input, 73 and 74 output, 79 wrong.
"""


def _fail(status, text, hint=""):
    if mpimatmul.rank() == 0:
        sys.stderr.write(f"mpimatmul: {text}\n" + (f"  hint: {hint}\n" if hint else ""))
    sys.exit(status)


def _find_line(error, path):
    """Returns the innermost line of the program that led to the error."""
    lines = [line for file, line in ((f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__))
             if file == path]
    return f"{os.path.basename(path)}:{lines[-1]}: " if lines else ""


def main():
    """Runs the command line as described in USAGE."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        sys.stdout.write(USAGE)
        return
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"mpimatmul {mpimatmul.__version__}\n")
        return
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit((sys.stderr.write(USAGE.splitlines()[0] + "\n"), 64)[1])
    path = sys.argv[1]
    names = {name: getattr(mpimatmul, name) for name in mpimatmul.__all__}
    for name in ("argmax", "argmin"):  # programs keep the axis
        names[name] = functools.partial(names[name], keepdims=True)
    try:
        with open(path, encoding="utf-8") as file:
            text = compile(file.read(), path, "exec")
    except OSError as error:
        _fail(66, f"cannot open '{path}': {error.strerror}")
    except SyntaxError as error:
        _fail(65, f"{os.path.basename(path)}:{error.lineno}:{error.offset}: {error.msg}")
    except ValueError as error:  # not UTF-8, or NUL bytes
        _fail(65, f"'{path}' is no program: {error}")
    try:
        with mpimatmul.program():
            exec(text, names)  # pylint: disable=exec-used
    except mpimatmul.Error as error:
        _fail(error.status, _find_line(error, path) + str(error), error.hint)


main()
