#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# run --trace: what a viewer shows of a program. Lanes, order and times, on three ranks.

load helper

@test "run --trace: a lane for each rank, with the operations and moves one after the other" {
    need_numpy
    echo 'x = generate((600, 500), kind="integer", seed=1)
y = place(relu(x @ x.T), "cols")
z = softmax(y, causal=True)
save("z.npy", z @ x)' > e.py
    ranks 3 run e.py --trace trace.json --report report.json --device cpu --weights 0.5,0.25,0.25
    expect_quiet_success
    python <<'END'
import json
trace, report = (json.load(open(name + ".json")) for name in ("trace", "report"))
events = trace["traceEvents"]
assert trace["displayTimeUnit"] == "ms" and {e["ph"] for e in events} == {"M", "X"}
# Lanes: a process per rank, called as in the report.
names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
assert sorted(names) == [0, 1, 2]
for rank in report["ranks"]:
    assert names[rank["rank"]] == f"rank {rank['rank']} on {rank['name']}"
lanes = [[e for e in events if e["ph"] == "X" and e["pid"] == rank] for rank in range(3)]
titles = [step["operation"] + " " + step["value"] for step in report["operations"]]
assert any(title.startswith("matmul") for title in titles) and "softmax z" in titles and titles[-1] == "move z @ x"
for rank, lane in enumerate(lanes):
    # Every rank has every step, in order, on one line; none is inside of another one.
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
# Nobody computes with what a rank has not made yet: a move that all wait for ends after it was begun by all.
for index, step in enumerate(report["operations"]):
    if step["operation"] == "move" and step["placement"].startswith("cols"):
        assert min(lane[index + 1]["ts"] for lane in lanes) >= max(lane[index]["ts"] for lane in lanes) - 1000
END
}
