#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs over three hosts, each with its own network stack (see hosts.bash), one of them slow and at the end of a
# slow cable: every pair of placements, every rule of a product, a chain, and devices that fail.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper
load hosts

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test
}

@test "values move between all placements on three hosts while one is slow" {
    tc -n "$LAB_NAME-node3" qdisc replace dev eth0 root tbf rate 20mbit burst 128k latency 50ms ||
        skip "lab: cannot shape a cable"
    run lab_mpirun node1:2,node2:1,node3:1 -n 4 "$BUILD/tests/mpi/program_test" hosts
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ "$output" == *"ok 1 - cpu, 0 nodes, weights 1,1,1,1: every pair of placements"* ]] || { show; return 1; }
    [[ "$output" == *"1..9" ]] || { show; return 1; }
}
