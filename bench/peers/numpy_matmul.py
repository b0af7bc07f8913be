#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""C = A B as a numpy user writes it: files in, file out.   numpy_matmul.py A B C [fsync]

Files are .npy, or .bin of version 1 (float32). Prints one line of JSON: its phases, and the BLAS of numpy. The
caller measures the time of the whole command. The number of threads is OPENBLAS_NUM_THREADS.
"""
import time

begin = time.monotonic()
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

import numpy  # noqa: E402


def load(path):
    if path.endswith(".npy"):
        return numpy.load(path)
    header = numpy.fromfile(path, "<i4", 5)
    if header[0] != 4 or header[1] != 1 or header[2] != 1:
        sys.exit(f"numpy_matmul: '{path}' is not one matrix in a .bin of version 1")
    return numpy.fromfile(path, "<f4", offset=20).reshape(header[3], header[4])


def store(path, c):
    if path.endswith(".npy"):
        numpy.save(path, c)
        return
    with open(path, "wb") as stream:
        numpy.array([4, 1, 1, *c.shape], "<i4").tofile(stream)
        c.tofile(stream)


def blas():
    """Returns the loaded BLAS library by its file."""
    with open("/proc/self/maps") as maps:
        found = {line.split()[-1] for line in maps if "blas" in line.rpartition("/")[2]}
    return " ".join(sorted(found)) or "unknown"


def main():
    times = [begin, time.monotonic()]
    a, b = load(sys.argv[1]), load(sys.argv[2])
    times.append(time.monotonic())
    c = a @ b
    times.append(time.monotonic())
    store(sys.argv[3], c)
    if sys.argv[4:] == ["fsync"]:
        with open(sys.argv[3], "rb") as stream:
            os.fsync(stream.fileno())
    times.append(time.monotonic())
    names = ("import_seconds", "read_seconds", "compute_seconds", "write_seconds")
    phases = {name: after - before for name, before, after in zip(names, times, times[1:])}
    print(json.dumps({"peer": "numpy " + numpy.__version__, "counted": "files in to file out", "blas": blas(),
                      **phases}))


main()
