#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The check of results, with many faults and many right results: the tables of SECURITY.md.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper

# Runs a test of the device suite with `count` cases and shows its counts.
counted() {
    local variable=$1 count=$2
    shift 2
    run env "$variable=$count" OPENBLAS_NUM_THREADS=1 "$BUILD/tests/device/$1" "$2"
    grep '^#' <<< "$output" >&3
    [ "$status" -eq 0 ]
}

@test "10,000 faults of each kind are found, but for those below the tolerance and kernels that are sampled" {
    counted DETECTION_FAULTS 10000 detection_test cpu
}

@test "10,000 right products raise no alarm, with each kernel set of OpenBLAS" {
    local set
    for set in Prescott Nehalem Sandybridge Haswell Zen SkylakeX; do
        case $set in
        SkylakeX) grep -qw avx512f /proc/cpuinfo || continue ;;
        Haswell | Zen) grep -qw avx2 /proc/cpuinfo || continue ;;
        esac
        export OPENBLAS_CORETYPE=$set
        counted ALARM_CASES 10000 alarm_test cpu
    done
}

@test "10,000 right products and 100,000 right operations raise no alarm on an OpenCL device" {
    "$MPIMATMUL" devices --json | grep -q '"0:0"' || skip "opencl: no device 0:0"
    counted ALARM_CASES 10000 alarm_test 0:0
    counted ALARM_CASES 100000 map_alarm_test 0:0
}
