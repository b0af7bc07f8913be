#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One call fails: of memory, files, MPI or OpenCL. A sample of the calls of small runs; long/fail_calls has
# all of them (tests/README.md, "What it survives").
# shellcheck disable=SC2154 # status and output are set by bats
load helper

# fails SELECTION RUN... KIND...: every point keeps the rules of tests/fail_calls.py.
fails() {
    run "$PYTHON" "$REPO/tests/fail_calls.py" "$@"
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ "${lines[-1]}" =~ ^[1-9][0-9]*" points, 0 broken"$ ]] || { show; return 1; }
}

setup() {
    need_plain "its library comes first"
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
}

# A .safetensors file would otherwise have a tensor with fewer sizes.
@test "missing memory for JSON or an archive ends with 71, and old results stay" {
    fails '~libjansson' few:1 memory
    fails '~libzip' few:1 memory
}

# The first pass over the text foresees types of the part before the failure.
@test "missing memory while a program's text is read ends with 71" {
    fails 45-70 training:1 memory
}

@test "a file whose status cannot be read leaves no temporary file, and keeps its permissions" {
    fails '~stat' mul:1 EIO
}

@test "an input that cannot be mapped ends with 71" {
    fails '~mmap' mul:1 EACCES
}

@test "calls of files fail, are interrupted, or read and write a single byte" {
    fails 61 few:1 training:1 ENOSPC EINTR
    fails 3 npz:1 short
}

@test "memory, threads and files fail on each of two ranks" {
    fails 151 mul:2 memory EIO
}

# 71, or 1 in Python, on all ranks; a message that only one rank sends may also be tried again.
@test "an MPI call that is refused on one rank ends all ranks with one line" {
    fails 41 mul:2 mpi
    fails 67 python:2 mpi
}

@test "a Python script ends with an error where memory or a file fails" {
    fails 97 python:1 memory EIO
}

@test "an OpenCL call that fails leads to another device, or to 69 or 71" {
    [ "$("$MPIMATMUL" devices --json | grep -c '"0:0"')" -gt 0 ] || skip "opencl: no device 0:0"
    fails 19 card:1 opencl-4 opencl-5 opencl-36
}
