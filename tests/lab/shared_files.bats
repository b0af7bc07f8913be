#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Hosts that see root's files read them themselves; the others receive the data. The hosts of the
# lab share this machine's files. A host that should not see the files gets a folder of its own
# mounted over them.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; a script is written in quotes
load ../cli/helper
load hosts

setup_file() {
    lab_up 2
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test || return 1
    "$MPIMATMUL" gen A.bin --dims 301x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x151 --kind integer --seed 2
    "$MPIMATMUL" gen C.bin --dims 301x151 --kind integer --seed 3
}

hosts=node1:2,node2:2

# job IO ARGUMENTS...: computes D.bin, with a report.
job() {
    local io=$1
    shift
    run --separate-stderr lab_mpirun $hosts -n 4 "$MPIMATMUL" mul A.bin B.bin -o D.bin --weights equal \
        --device cpu --io "$io" --report report.json "$@"
}

expect_right_result() {
    "$MPIMATMUL" mul A.bin B.bin --device cpu -o alone.bin --quiet "$@" && cmp alone.bin D.bin
}

network_bytes() {
    sed -n 's/^ *"network_bytes": \([0-9]*\),*$/\1/p' report.json
}

@test "hosts that see the files receive no data" {
    local result=$((150 * 151 * 4)) whole=$((203 * 151 * 4)) pieces=$((150 * 203 * 4))
    job auto
    expect_status 0
    expect_right_result
    [ "$(network_bytes)" -eq "$result" ]
    job shared --beta 2 --c-in C.bin
    expect_status 0
    expect_right_result --beta 2 --c-in C.bin
    [ "$(network_bytes)" -eq "$result" ]
    job root
    expect_status 0
    expect_right_result
    [ "$(network_bytes)" -eq $((result + whole + pieces)) ]
}

# The rank on node2 starts in a folder of its own, where B has the same size and other numbers.
elsewhere() {
    mkdir -p other
    cp A.bin other/A.bin
    "$MPIMATMUL" gen other/B.bin --dims 203x151 --kind integer --seed 4
    local common=("$MPIMATMUL" mul A.bin B.bin -o D.bin --weights equal --device cpu --split rows --io "$1"
        --report report.json)
    run --separate-stderr lab_mpirun node1:1,node2:1 -n 1 -host node1 "${common[@]}" \
        : -n 1 -host node2 unshare --mount sh -c 'mount --bind "$0/other" "$0" && cd "$0" && exec "$@"' \
        "$PWD" "${common[@]}"
}

@test "a host with another file of that name receives the right data" {
    elsewhere auto
    expect_status 0
    expect_right_result
    [ "$(network_bytes)" -eq $(((203 + 150) * 151 * 4)) ]
    elsewhere shared
    expect_status 66
    [[ "$stderr" == *"node2"*"B.bin"* ]] || { show; return 1; }
}
