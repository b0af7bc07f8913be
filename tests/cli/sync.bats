#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a result is worth after a power cut: what is written before what, seen from outside.

# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

need_strace() {
    command -v strace > /dev/null || skip "strace: not installed"
    strace -o /dev/null true 2> /dev/null || skip "strace: may not trace here"
}

# Calls that matter, of a run with these options: the file's by its temporary name, the folder's by its own.
calls() {
    "$MPIMATMUL" gen A.bin --dims 37x29 --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 29x31 --seed 2 --quiet
    run --separate-stderr strace -f -y -qq -o trace -e trace=fsync,fdatasync,rename,renameat,renameat2,sync_file_range \
        "$MPIMATMUL" mul A.bin B.bin -o C.bin --quiet --device cpu "$@"
    expect_quiet_success
    sed -nE 's/^[0-9]+ +//; s/ *= 0$//; /C\.bin|fsync/ { s/[0-9]+<[^>]*\//</; s/rename[a-z0-9]*\(/rename(/; p }' trace
}

@test "a result is on the disk before it has its name, and so is the name before the run ends" {
    need_strace
    calls > seen
    folder=$(basename "$PWD")
    diff - seen <<< "fsync(<C.bin.part>)
rename(\"C.bin.part\", \"C.bin\")
fsync(<$folder>)"
    "$MPIMATMUL" verify A.bin B.bin C.bin --quiet
}

@test "with --sync off nothing is waited for, and the result has its name in one step all the same" {
    need_strace
    calls --sync off > seen
    diff - seen <<< 'rename("C.bin.part", "C.bin")'
    "$MPIMATMUL" verify A.bin B.bin C.bin --quiet
    expect_only_files A.bin B.bin C.bin seen trace
}

@test "--sync has two values" {
    program mul A.bin B.bin --sync later
    expect_failure 64 "--sync: 'later' is none of on|off"
}
