#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Durability of a result over a power cut: the order of writes, observed from outside.

# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

need_strace() {
    command -v strace > /dev/null || skip "strace: not installed"
    strace -o /dev/null true 2> /dev/null || skip "strace: may not trace here"
}

# The relevant calls of a run with these options: the file's under its temporary name, the folder's
# under its own.
calls() {
    "$MPIMATMUL" gen A.bin --dims 37x29 --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 29x31 --seed 2 --quiet
    run --separate-stderr strace -f -y -qq -o trace -e trace=fsync,fdatasync,rename,renameat,renameat2,sync_file_range \
        "$MPIMATMUL" mul A.bin B.bin -o C.bin --quiet --device cpu "$@"
    expect_quiet_success
    sed -nE 's/^[0-9]+ +//; s/ *= 0$//; /C\.bin|fsync/ { s/[0-9]+<[^>]*\//</; s/rename[a-z0-9]*\(/rename(/; p }' trace
}

@test "a result is on the disk before its rename, and the rename before the end of the run" {
    need_strace
    calls > seen
    folder=$(basename "$PWD")
    diff - seen <<< "fsync(<C.bin.part>)
rename(\"C.bin.part\", \"C.bin\")
fsync(<$folder>)"
    "$MPIMATMUL" verify A.bin B.bin C.bin --quiet
}

@test "with --sync off the run flushes nothing, and one rename still publishes the result" {
    need_strace
    calls --sync off > seen
    diff - seen <<< 'rename("C.bin.part", "C.bin")'
    "$MPIMATMUL" verify A.bin B.bin C.bin --quiet
    expect_only_files A.bin B.bin C.bin seen trace
}

# C is 600 MB, so large beside A and B that it is computed in slices.
@test "a large result is written to the disk while it is computed, and is the same" {
    need_strace
    [ "$(stat -f -c %T .)" != tmpfs ] || skip "the tests' folder is in memory"
    [ "$(df --output=avail -k . | tail -n 1)" -gt 3000000 ] || skip "less than 3 GB of disk free"
    "$MPIMATMUL" gen A.bin --dims 20011x3 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 3x7507 --kind integer --seed 2 --quiet
    "$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet --device cpu --sync off
    for ranks in 1 2; do
        strace -f -y -qq -o trace -e trace=fsync,sync_file_range \
            "${launch[@]}" -n "$ranks" "$MPIMATMUL" mul A.bin B.bin -o C.bin --quiet --device cpu < /dev/null
        cmp C.bin D.bin
        sed -nE 's/^[0-9]+ +([a-z_]+)\(.*C\.bin\.part.*/\1/p' trace | uniq > seen
        diff seen - <<< $'sync_file_range\nfsync'
        # Every flushed range lies in the result, each byte once.
        grep -o 'C.bin.part>, [0-9]*, [0-9]*' trace | tr -d , | sort -n -k 2 > stretches
        awk '$2 < end { print "twice:", $0; wrong = 1 }
             { end = $2 + $3 }
             END { exit wrong || end > 20 + 4 * 20011 * 7507 }' stretches
        rm C.bin
    done
}

@test "--sync has two values" {
    program mul A.bin B.bin --sync later
    expect_failure 64 "--sync: 'later' is invalid, expected one of on|off"
}
