#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # launch is set by the helper
# run --trace: the lanes, their order and times in a viewer of a program's trace, on three ranks.

load helper

@test "run --trace: each rank has a lane with the operations and moves in order" {
    need_numpy
    echo 'x = generate((600, 500), kind="integer", seed=1)
y = place(relu(x @ x.T), "cols")
z = softmax(y, causal=True)
save("z.npy", z @ x)' > e.py
    ranks 3 run e.py --trace trace.json --report report.json --device cpu --weights 0.5,0.25,0.25
    expect_quiet_success
    ranks 3 run e.py --device cpu --weights 0.5,0.25,0.25 --check --json
    printf '%s\n' "$output" > plan.json
    python <<'END'
import json
trace, report, plan = (json.load(open(name + ".json")) for name in ("trace", "report", "plan"))
events = trace["traceEvents"]
assert trace["displayTimeUnit"] == "ms" and {e["ph"] for e in events} == {"M", "X", "C"}
# Lanes: a process per rank, with its name in the report.
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
assert sorted(names) == [0, 1, 2]
for rank in report["ranks"]:
    assert names[rank["rank"]] == f"rank {rank['rank']} on {rank['host']}: {rank['device']}"
lanes = [[e for e in events if e["ph"] == "X" and e["pid"] == rank and e["tid"] == 0] for rank in range(3)]
# Memory from the begin of each step, in the size that the plan gives; it has room for the rank's
# part of the result.
for rank in range(3):
    memory = [e for e in events if e["ph"] == "C" and e["pid"] == rank]
    assert {e["name"] for e in memory} == {"memory"} and [e["ts"] for e in memory] == [e["ts"] for e in lanes[rank]]
    for e, step, planned in zip(memory, report["operations"], plan["steps"], strict=True):
        spent = step["ranks"][rank]
        assert e["args"] == {"host_bytes": spent["memory_bytes"], "device_bytes": spent["device_bytes"]}
        assert spent["memory_bytes"] == planned["memory_bytes"][rank] > spent["part_bytes"], (spent, planned)
        assert spent["device_bytes"] == planned["device_bytes"][rank] == 0
# Every lane has a name, and the first one is that of the operations.
called = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert set(called) == {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
assert [called[rank, 0] for rank in range(3)] == ["operations"] * 3
titles = [step["operation"] + " " + step["value"] for step in report["operations"]]
assert any(title.startswith("matmul") for title in titles) and "softmax z" in titles and titles[-1] == "matmul z @ x"
for rank, lane in enumerate(lanes):
    # Every rank has every step, in order, on one line, and steps do not nest.
    assert [e["name"] for e in lane] == titles and {e["tid"] for e in lane} == {0}
    ends = [e["ts"] + e["dur"] for e in lane]
    assert lane[0]["ts"] >= 0 and all(end <= after["ts"] + 0.01 for end, after in zip(ends, lane[1:]))
    assert ends[-1] <= report["wall_seconds"] * 1e6
    for e, step in zip(lane, report["operations"]):
        work = "copy_us" if step["operation"] == "move" else "compute_us"
        args = e["args"]
        assert abs(args["wait_us"] + args[work] + args["check_us"] - e["dur"]) < 0.01
        spent = step["ranks"][rank]
        assert abs(e["ts"] - max(spent["begin_seconds"], 0) * 1e6) < 0.01
        assert (args["shape"], args["placement"]) == (step["shape"], step["placement"])
        assert args["part_bytes"] == spent["part_bytes"]
products = [e for lane in lanes for e in lane if e["name"].startswith("matmul")]
assert products and all(e["args"]["compute_us"] > 0 for e in products)
# No rank computes with rows that another has not made: a move that all ranks wait for ends after
# all have begun it.
turning = [i for i, step in enumerate(report["operations"])
           if step["operation"] == "move" and step["placement"] == "rows 0 300 450 600"]
assert turning
for index in turning:
    assert min(lane[index + 1]["ts"] for lane in lanes) >= max(lane[index]["ts"] for lane in lanes) - 1000
END
}

@test "run --trace: lanes of transfers show source, bytes and step" {
    need_numpy
    "$MPIMATMUL" gen X.bin --dims 600x500 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 500x600 --kind integer --seed 2 -q
    echo 'x = load("X.bin")
y = place(relu(x @ load("W.bin")), "cols")
save("z.npy", softmax(y, causal=True) @ x)' > e.py
    # Each rank is a node of its own.
    run --separate-stderr "${launch[@]}" --oversubscribe -n 3 env LD_PRELOAD="$BUILD/tests/refuse.so" MMUL_APART=1 \
        "$MPIMATMUL" run e.py --trace trace.json --report report.json --device cpu --weights 0.5,0.25,0.25 --io root
    expect_quiet_success
    python <<'END'
import collections, json
trace, report = (json.load(open(name + ".json")) for name in ("trace", "report"))
events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
events = [e for e in events if names[e["pid"], e["tid"]] not in ("operations", "device") and e["name"] != "commit"]
steps = {f"{step['operation']} {step['value']}" for step in report["operations"]}
lanes = collections.defaultdict(list)
for e in events:
    assert e["args"]["stage"] in steps and e["args"]["bytes"] > 0, e
    lanes[e["pid"], names[e["pid"], e["tid"]]].append(e)
print({lane: len(found) for lane, found in lanes.items()})
for lane in lanes.values():  # one after the other
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in zip(lane, lane[1:]))
# A sent transfer is received with the same bytes in the same step. The total is that of the plan.
sent = collections.Counter((e["pid"], e["args"]["to_rank"], e["args"]["stage"], e["args"]["bytes"])
                           for e in events if e["name"] == "send")
received = collections.Counter((e["args"]["from_rank"], e["pid"], e["args"]["stage"], e["args"]["bytes"])
                               for e in events if e["name"] == "receive")
assert sent == received and {(a, b) for a, b, *_ in sent} >= {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}
moved = collections.Counter()
for (_, _, stage, bytes), count in sent.items():
    moved[stage] += bytes * count
expected = collections.Counter()
for step in report["operations"]:
    if step["operation"] == "move":
        expected[f"move {step['value']}"] += step["network_bytes"]
print(moved, expected)
assert moved == expected
# A product that reads its operands from root's file, and stores its result there: two nodes have
# half of the rows.
pieces = [e for e in events if names[e["pid"], e["tid"]] == "scatter" and e["pid"] == 0]
blocks = [e for e in events if names[e["pid"], e["tid"]] == "gather" and e["pid"] == 0]
assert [e["args"]["bytes"] for e in pieces] == [600 * 500 * 4 // 2]
assert sum(e["args"]["bytes"] for e in blocks) == 600 * 500 * 4 // 2
assert {e["args"]["stage"].split()[0] for e in pieces + blocks} == {"matmul"}
assert trace["otherData"]["dropped_events"] == 0
END
}

@test "panels of a product travel while the product before it is computed, with any steps between them" {
    "$MPIMATMUL" gen X.bin --dims 600x500 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.bin --dims 500x600 --kind integer --seed 2 -q
    "$MPIMATMUL" gen V.bin --dims 600x400 --kind integer --seed 3 -q
    echo 'y = place(place(load("X.bin"), "rows") @ load("W.bin"), "rows")
y = place(place(y, "cols"), "rows")
save("z.npy", place(y @ load("V.bin"), "rows"))' > e.py
    run --separate-stderr "${launch[@]}" --oversubscribe -n 2 env LD_PRELOAD="$BUILD/tests/refuse.so" MMUL_APART=1 \
        "$MPIMATMUL" run e.py --trace trace.json --device faulty:delay=30ms:cpu --weights equal --io root -q
    expect_quiet_success
    python <<'END'
import json
events = [e for e in json.load(open("trace.json"))["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
steps = [e for e in events if e["tid"] == 0]
first, last = (e for e in steps if e["name"].startswith("matmul"))
print([e["name"] for e in steps])
assert steps.index(last) > steps.index(first) + 2
panels = [e for e in events if e["name"] == "panel" and e["args"]["stage"] == last["name"]]
assert panels and min(e["ts"] for e in panels) < first["ts"] + first["dur"], (panels, first)
END
}
