#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mul --trace over three hosts: the lanes of their links, on one clock although each host has its
# own.
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

# The script between mpirun and the program: the monotonic clock of each host but the first is hours
# ahead.
write_shift() {
    unshare --time --monotonic 3600 true 2> /dev/null || skip "lab: cannot make time namespaces"
    # shellcheck disable=SC2016 # expanded there
    printf '%s\n' '#!/bin/sh' 'ahead=$((OMPI_COMM_WORLD_RANK * 3600))' \
        '[ $ahead -eq 0 ] || exec unshare --time --monotonic $ahead "$@"' 'exec "$@"' > ./shift
    chmod 755 ./shift
}

@test "links have lanes with their bytes, and clocks that are hours apart are corrected" {
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
    # A panel arrives before it is multiplied, and a block is multiplied before it leaves.
    first = {lane: lanes[rank][lane][0] for lane in ("scatter", "gather")}
    multiply = next(event for event in lanes[rank]["device"] if event["name"] == "multiply")
    assert first["scatter"]["ts"] + first["scatter"]["dur"] <= multiply["ts"] + 1
    assert multiply["ts"] + multiply["dur"] <= first["gather"]["ts"] + 1
assert total(0, "scatter") == 4 * 203 * (rows[1] + rows[2])
assert total(0, "gather") == 4 * 1147 * (rows[1] + rows[2])
# The same bytes by sender and receiver.
sent = report["sent_bytes"]
assert [rank["node"] for rank in report["ranks"]] == [0, 1, 2]
assert [len(row) for row in sent] == [3, 3, 3] and [sent[i][i] for i in range(3)] == [0, 0, 0], sent
for node in (1, 2):
    assert sent[node][0] == 4 * 1147 * rows[node], sent
    assert sum(row[node] for row in sent) == 4 * 203 * (rows[node] + 1147), sent
END
}

# Placements are given, so that a plan has no choice. Integers: exact in any order.
@test "summands are added up while later steps compute" {
    need_numpy
    cat > early.py << 'END'
x, w = place(load("X.npy"), "rows"), place(load("W.npy"), "replicate")
s = x.T @ x
for i in range(4):
    x = place(relu(x @ w) % 5, "rows")
save("S.npy", place(s, "rows") + 1)
save("Y.npy", x)
END
    "$MPIMATMUL" gen X.npy --dims 1500x600 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.npy --dims 600x600 --kind integer --seed 2 -q
    lab_rate 20mbit
    run --separate-stderr lab_mpirun node1:1,node2:1,node3:1 -n 3 "$MPIMATMUL" run early.py --device cpu \
        --weights equal --trace trace.json --report report.json
    lab_rate none
    expect_status 0 || { show; return 1; }
    PYTHONPATH=$REPO/tests/cli python << 'END'
import numpy as np
from traces import load
x, w = (np.load(f"{name}.npy").astype(float) for name in "XW")
s = x.T @ x
for i in range(4):
    x = np.maximum(x @ w, 0) % 5
assert np.array_equal(np.load("S.npy"), s + 1) and np.array_equal(np.load("Y.npy"), x)
overtakes = {}
for rank, lanes in load("trace.json").items():
    steps = lanes["operations"]
    at = next(i for i, step in enumerate(steps) if step["name"] == "move s")
    arrive = [event for event in lanes["receive"] if event["args"]["stage"] == "move s"]
    end = max(event["ts"] + event["dur"] for event in arrive)
    behind = [step["name"] for step in steps[at + 1:] if step["ts"] + step["dur"] <= end]
    overtakes[rank] = any(name.startswith("matmul") for name in behind)
# A rank that gets W late has waited for W, not for the sum.
assert sum(overtakes.values()) > 1, overtakes
END
}
