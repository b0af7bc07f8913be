#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One call fails, for each call stack of small runs: tests/README.md, "What it survives". Takes up to an hour.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper

setup() {
    need_plain "its library comes first"
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
}

fails() {
    run "$PYTHON" "$REPO/tests/fail_calls.py" sites "$@"
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ "${lines[-1]}" =~ ^[1-9][0-9]*" points, 0 broken"$ ]] || { show; return 1; }
}

for_all="mul:1 npz:1 few:1 training:1 python:1 mul:2"

@test "memory and threads" {
    # shellcheck disable=SC2086 # several words
    fails $for_all memory thread
}

@test "files: a full disk, errors, permissions, interruptions, single bytes" {
    # shellcheck disable=SC2086 # several words
    fails $for_all ENOSPC EIO EACCES EINTR short
}

@test "MPI" {
    # shellcheck disable=SC2086 # several words
    fails $for_all few:2 python:2 mpi
}

@test "OpenCL" {
    [ "$("$MPIMATMUL" devices --json | grep -c '"0:0"')" -gt 0 ] || skip "opencl: no device 0:0"
    fails card:1 opencl-4 opencl-5 opencl-6 opencl-36 opencl-54 opencl-61 opencl-9999
}
