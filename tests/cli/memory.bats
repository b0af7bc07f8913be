#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory of a whole job as the kernel counts it: the proportional size of all its processes, added
# up.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# limited MIB RANKS ARGUMENTS...: a job that waits in each product of a device, so that its peak can
# be sampled: a second for a single product, less for many.
limited() {
    need_plain "the sanitizer's own memory counts"
    local limit=$1 count=$2
    shift 2
    run "$PYTHON" "$REPO/tests/lib/memory.py" "$limit" "${launch[@]}" -n "$count" "$MPIMATMUL" mul "$@" -o C.bin \
        --device "faulty:delay=${delay:-1s}:cpu" --weights equal --tail off --quiet
    expect_status 0
}

# Three ranks of some 20 MiB each. B is 34 MiB, so two more copies of it would show.
@test "a node has one copy of B, used in place" {
    "$MPIMATMUL" gen A.bin --dims 300x3000 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 3000x3000 --kind integer --seed 2
    limited 100 3 A.bin B.bin --split rows
    run ! "$PYTHON" "$REPO/tests/lib/memory.py" 40 "${launch[@]}" -n 3 "$MPIMATMUL" mul A.bin B.bin -o C.bin \
        --device faulty:delay=1s:cpu --weights equal --quiet  # the measure itself notices that much
}

@test "a node has one copy of B in its segment" {
    need_numpy
    "$MPIMATMUL" gen A.bin --dims 300x3000 --kind integer --seed 1
    python << 'END'
import numpy as np
np.save("B.npy", np.random.default_rng(2).integers(-4, 5, (3000, 3000)).astype(np.float64))
END
    limited 110 3 A.bin B.npy --split rows --report report.json
    segment=$(sed -n 's/^ *"segment_bytes": \([0-9]*\),*$/\1/p' report.json)
    [ "$segment" -ge $((3000 * 3000 * 4)) ] && [ "$segment" -lt $((3000 * 3000 * 4 + 2000000)) ]
}

@test "a run keeps to --memory with the same result" {
    "$MPIMATMUL" gen A.bin --dims 6007x2003 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 2003x3001 --kind integer --seed 2
    "$MPIMATMUL" mul A.bin B.bin -o alone.bin --device cpu --quiet
    local delay=200ms
    limited 80 2 A.bin B.bin --memory 80MiB --report report.json  # A, B and C are 138 MiB
    cmp alone.bin C.bin
    grep -q '"mapped_bytes": 0' report.json
    limited 60 2 A.bin B.bin --memory 60MiB
    cmp alone.bin C.bin
}

@test "a matrix larger than the device's memory is multiplied in tiles" {
    "$MPIMATMUL" devices --json | grep -q '"0:0"' || skip "opencl: no device 0:0"
    "$MPIMATMUL" gen A.bin --dims 701x503 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 503x607 --kind integer --seed 2
    "$MPIMATMUL" mul A.bin B.bin -o alone.bin --device cpu --quiet
    program mul A.bin B.bin -o C.bin --device 0:0 --device-memory 2MiB --quiet
    expect_status 0
    cmp alone.bin C.bin
}

# may_use FOLDER: prints the part of --memory that is left for a product of A.npy and B.npz while
# their elements lie in FOLDER.
may_use() {
    TMPDIR=$1 "$MPIMATMUL" plan A.npy B.npz --memory 80MiB --json 2> /dev/null |
        sed -n 's/^ *"memory_bytes": \([0-9]*\),*$/\1/p'
}

@test "elements unpacked into memory count as memory" {
    local in_memory=/dev/shm/mpimatmul-test.$$ on_disk
    [ "$(stat -f -c %T /dev/shm)" = tmpfs ] && [ "$(stat -f -c %T .)" != tmpfs ] ||
        skip "not both: /dev/shm in memory, and the tests' folder on a disk"
    "$MPIMATMUL" gen A.npy --dims 100x2000
    "$MPIMATMUL" gen B.npz --dims 2000x2000
    on_disk=$(may_use .)
    mkdir "$in_memory"
    in_memory=$(may_use "$in_memory"; rmdir "$in_memory")
    echo "$on_disk on a disk, $in_memory in memory"
    # 16,000,000 bytes of elements, with some tolerance for the processes' own memory.
    [ $((on_disk - in_memory)) -gt 14000000 ] && [ $((on_disk - in_memory)) -lt 18000000 ]
}
