#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# Random programs as text, many in one process, against the same files under CPython with numpy.

load helper

# run_programs COUNT RANKS DEVICE: those of ./programs, and what they saved.
run_programs() {
    rm -f programs/*_out*.npy
    run bash -c "cd programs && ${launch[*]} -n $2 '$BUILD/tests/embed/programs' $1 $3 < /dev/null"
    [ "$output" = '0 failed, 0 bytes are left' ] || { echo "$output"; return 1; }
    run "$PYTHON" "$REPO/tests/random_programs.py" compare programs "$1"
    echo "# $2 rank(s), $3: $output" >&3
    [ "$status" -eq 0 ]
}

@test "500 random programs give what CPython gives, on one rank" {
    need_numpy
    "$PYTHON" "$REPO/tests/random_programs.py" make programs 500 1
    run_programs 500 1 cpu
    [[ $output =~ \(([0-9]+)\ in\ float64\) ]]
    [ "${BASH_REMATCH[1]}" -gt 60 ]
}

@test "random programs on 2 and 3 ranks" {
    need_numpy
    "$PYTHON" "$REPO/tests/random_programs.py" make programs 60 2
    run_programs 60 2 cpu
    run_programs 60 3 cpu
}

@test "random programs on an OpenCL device" {
    need_numpy
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
    "$PYTHON" "$REPO/tests/random_programs.py" make programs 60 3
    run_programs 60 1 0:0
}

@test "1000 texts with something wrong in them are refused with their place, or are programs all the same" {
    need_numpy
    "$PYTHON" "$REPO/tests/random_programs.py" make programs 50 4
    "$PYTHON" "$REPO/tests/random_programs.py" mutate programs 1000 5
    run bash -c "cd programs && '$BUILD/tests/embed/programs' -1000 < /dev/null"
    echo "# $output" >&3
    [ "$status" -eq 0 ]
    [[ $output == *"of 1000 refused, 0 without a place"* ]]
    [[ $output == *"0 bytes are left"* ]]
}
