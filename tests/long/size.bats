#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Matrices of more than 2^31 elements and 4 GiB, in little memory. Needs 10 GiB of disk in TMPDIR.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper

memory() {
    "$PYTHON" "$REPO/tests/lib/memory.py" "$@"
}

@test "131072 x 16400 by 16400 x 48 runs in 2 GiB and its rows equal numpy's" {
    need_numpy
    [ "$(df --output=avail -B1G . | tail -1)" -ge 10 ] || skip "disk: less than 10 GiB in $PWD"
    "$MPIMATMUL" gen A.bin --dims 131072x16400 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 16400x48 --kind integer --seed 2
    memory 2048 "${launch[@]}" -n 2 "$MPIMATMUL" mul A.bin B.bin -o C.bin --device cpu --memory 2GiB --report r.json
    "$PYTHON" - << 'END'
import json
import numpy as np
a = np.memmap("A.bin", "<f4", "r", 20, (131072, 16400))
b = np.fromfile("B.bin", "<f4", offset=20).reshape(16400, 48).astype(np.float64)
c = np.fromfile("C.bin", "<f4", offset=20).reshape(131072, 48)
rows = sorted({0, 1, 65535, 65536, 130943, 130944, 131071} | set(range(17, 131072, 997)))
assert (a[rows].astype(np.float64) @ b == c[rows]).all()
report = json.load(open("r.json"))
assert report["bytes_read"] > 2**33 and report["check"]["result"] == "passed"
END
}

@test "an operand of 131072 x 16400 is read in place, transposed, when the other one is split" {
    need_numpy
    [ "$(df --output=avail -B1G . | tail -1)" -ge 10 ] || skip "disk: less than 10 GiB in $PWD"
    "$MPIMATMUL" gen B.bin --dims 131072x16400 --kind integer --seed 1
    "$MPIMATMUL" gen A.bin --dims 24x16400 --kind integer --seed 2
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --transpose-b --split rows
    expect_status 0
    "$PYTHON" - << 'END'
import numpy as np
b = np.memmap("B.bin", "<f4", "r", 20, (131072, 16400))
a = np.fromfile("A.bin", "<f4", offset=20).reshape(24, 16400).astype(np.float64)
c = np.fromfile("C.bin", "<f4", offset=20).reshape(24, 131072)
rows = sorted({0, 1, 65535, 65536, 131071} | set(range(17, 131072, 1997)))
assert (a @ b[rows].astype(np.float64).T == c[:, rows]).all()
END
}

@test "a matrix larger than the device's memory (POCL_MEMORY_LIMIT=1) is multiplied in parts" {
    "$MPIMATMUL" devices --json | grep -q '"0:0"' || skip "opencl: no device 0:0"
    "$MPIMATMUL" gen A.bin --dims 70000x4096 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 4096x32 --kind integer --seed 2
    "$MPIMATMUL" mul A.bin B.bin -o alone.bin --device cpu --quiet
    POCL_MEMORY_LIMIT=1 program mul A.bin B.bin -o C.bin --device 0:0 --no-fallback --quiet
    expect_status 0
    cmp alone.bin C.bin
}
