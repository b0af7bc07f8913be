#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A job on two hosts in `top`: the ranks of both, and the progress of both.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
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
    mkdir -m 700 run
    # Speeds stored by other tests would give plans with other rounds.
    export XDG_RUNTIME_DIR=$PWD/run XDG_CACHE_HOME=$PWD/cache
}

teardown() {
    lab_clear > /dev/null
}

# look NAME EXPRESSION...: within some seconds each is true of the only job, as `j`, with its ranks
# r0 and r1. NAME.job holds the job then.
look() {
    local name=$1
    shift
    for ((i = 0; i < 150; i++)); do
        "$MPIMATMUL" top --once --json > "$name.json" || return 1
        ! python "$name" "$@" <<< 'import json, os, sys
known = {name.split(".json")[0] for name in os.listdir("run/mpimatmul")} if os.path.exists("run/mpimatmul") else ()
found = [j for j in json.load(open(sys.argv[1] + ".json"))["jobs"] if j["id"] in known]
if not found:
    sys.exit(1)
j = found[0]
r0, r1 = j["ranks"]
json.dump(j, open(sys.argv[1] + ".job", "w"))
try:
    sys.exit(not all(eval(one) for one in sys.argv[2:]))
except TypeError: # not known yet
    sys.exit(1)' || return 0
        sleep 0.1
    done
    cat "$name.json" "$name.job" out err  # the last observation, and the output of the job
    return 1
}

# job SLOW COMMAND...: rank 0 on node1 without delay, rank 1 on node2 with a device that is late in
# each call.
job() {
    local slow=$1
    shift
    lab_mpirun node1:1,node2:1 -n 1 "$MPIMATMUL" "$@" --device cpu : -n 1 "$MPIMATMUL" "$@" \
        --device "faulty:delay=$slow:cpu" > out 2> err < /dev/null 3>&- &
}

@test "a product shows ranks of both hosts, and the slow rank's remaining work as not done" {
    "$MPIMATMUL" gen A.bin --dims 1024x3000 --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 3000x2000 --seed 2 --quiet
    job 1s mul A.bin B.bin -o C.bin --io root --split rows --weights equal --tail off --quiet
    look early 'r0["done"] == 1 and 0 < r1["done"] < 0.5' 'abs(j["share"] - (1 + r1["done"]) / 2) < 0.02'
    look late 'r1["done"] > 0.6' 'abs(j["share"] - (1 + r1["done"]) / 2) < 0.02'
    python << 'END'
import json
for name in ("early", "late"):
    job = json.load(open(name + ".job"))
    assert job["phase"] == "multiply" and [r["host"] for r in job["ranks"]] == ["node1", "node2"], job
    assert [r["device"] for r in job["ranks"]] == ["cpu", "faulty:delay=1s:cpu"]
    assert [r["share"] for r in job["ranks"]] == [0.5, 0.5] and job["ranks"][1]["computes"] == "matmul"
    assert all(r["memory_bytes"] > 1e6 for r in job["ranks"])
assert all(r["flops_per_second"] is not None for r in job["ranks"])
END
    wait $!
    [ ! -s out ]
    [ ! -s err ]
    [ -e C.bin ]
    [ -z "$(ls run/mpimatmul)" ]
}

# Values split by rows: rank 0 can finish all steps while rank 1 is in its first ones.
@test "a program shows the slow rank's remaining work after root's node has finished" {
    cat > p.py << 'END'
x = generate((2000, 1000), seed=1)
w = generate((1000, 1000), seed=2)
for i in range(12):
    x = tanh(x @ w * 0.01)
save("x.npy", sum(x, axis=0))
END
    job 80ms run p.py --weights equal --tail off --quiet
    look early '0 < r1["done"] < 0.5' '0.9 < r0["done"]' 'abs(j["share"] - (r0["done"] + r1["done"]) / 2) < 0.1'
    look late '0.5 < r1["done"] < 1' 'abs(j["share"] - (r0["done"] + r1["done"]) / 2) < 0.1'
    python << 'END'
import json
job = json.load(open("early.job"))
assert job["phase"] == "run" and job["loop"] is None, job
assert "matmul" in job["ranks"][1]["computes"] or "tanh" in job["ranks"][1]["computes"], job
END
    wait $!
    [ ! -s out ]
    [ ! -s err ]
    [ -e x.npy ]
}

@test "no process of these jobs runs on the hosts at the end" {
    [ -z "$(lab_pids)" ]
}
