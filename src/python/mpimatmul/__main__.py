# SPDX-License-Identifier: MIT
"""python3 -m mpimatmul FILE: a program of `mpimatmul run` under Python, computed in one job at its end."""
import sys

import mpimatmul


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: python3 -m mpimatmul FILE")
    names = {name: getattr(mpimatmul, name) for name in mpimatmul.__all__}
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            text = compile(file.read(), sys.argv[1], "exec")
        with mpimatmul.program():
            exec(text, names)  # pylint: disable=exec-used
    except mpimatmul.Error as error:
        if mpimatmul.rank() == 0:
            sys.stderr.write(f"mpimatmul: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        sys.exit(error.status)


main()
