#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mul --trace over three hosts: the lanes of their links, on one clock although each host has its own.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load ../cli/helper
load hosts

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test || return 1
    "$MPIMATMUL" gen A.bin --dims 301x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x1147 --kind integer --seed 2
}

# What stands between mpirun and the program: the monotonic clock of each host but the first is hours ahead.
write_shift() {
    unshare --time --monotonic 3600 true 2> /dev/null || skip "lab: cannot make time namespaces"
    # shellcheck disable=SC2016 # expanded there
    printf '%s\n' '#!/bin/sh' 'ahead=$((OMPI_COMM_WORLD_RANK * 3600))' \
        '[ $ahead -eq 0 ] || exec unshare --time --monotonic $ahead "$@"' 'exec "$@"' > ./shift
    chmod 755 ./shift
}

@test "links have lanes with their bytes, and clocks that are hours apart are put right" {
    write_shift
    run --separate-stderr lab_mpirun node1:1,node2:1,node3:1 -n 3 ./shift "$MPIMATMUL" mul A.bin B.bin -o C.bin \
        --device cpu --io root --split rows --weights equal --trace trace.json --report report.json
    expect_status 0
    PYTHONPATH=$REPO/tests/cli python << 'END'
import json
from traces import check, names
lanes, report = check("trace.json", "report.json")
ahead = [one / 3600e9 for one in json.load(open("trace.json"))["otherData"]["clocks_ahead_ns"]]
assert [round(one, 3) for one in ahead] == [0, 1, 2], ahead
total = lambda rank, lane: sum(event["args"]["bytes"] for event in lanes[rank][lane])
rows = [rank["end"] - rank["begin"] for rank in report["ranks"]]
for rank in (1, 2):
    assert total(rank, "scatter") == 4 * 203 * rows[rank]
    assert total(rank, "relay") == 4 * 203 * 1147
    assert total(rank, "gather") == 4 * 1147 * rows[rank]
    assert all(lane in lanes[rank] and lane != "results to files" for lane in ("device", "scatter", "relay", "gather"))
    # What arrives is there before it is multiplied, and what is multiplied before it leaves.
    first = {lane: lanes[rank][lane][0] for lane in ("scatter", "gather")}
    multiply = next(event for event in lanes[rank]["device"] if event["name"] == "multiply")
    assert first["scatter"]["ts"] + first["scatter"]["dur"] <= multiply["ts"] + 1
    assert multiply["ts"] + multiply["dur"] <= first["gather"]["ts"] + 1
assert total(0, "scatter") == 4 * 203 * (rows[1] + rows[2])
assert total(0, "gather") == 4 * 1147 * (rows[1] + rows[2])
END
}
