#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs on three hosts, each with its own network stack (see hosts.bash), one of them slow and
# behind a slow cable: the same numbers, and a smaller share for that host; every pair of
# placements, every rule of a product, a chain; devices that fail.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper
load hosts

hosts=node1:1,node2:1,node3:1

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test
    "$MPIMATMUL" gen X.npy --dims 1100x1000 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.npy --dims 1000x1200 --kind integer --seed 2 -q
    cat > e.py <<'END'
x, w = load("X.npy"), load("W.npy")
y = relu(x @ w) % 7
save("Y.npy", y)
save("S.npy", sum(y @ w.T, axis=-1))
print(y)
END
}

# run_hosts OPTIONS...: node3 has a slow device.
run_hosts() {
    local common=("$MPIMATMUL" run e.py "$@" --device)
    run --separate-stderr lab_mpirun $hosts -n 1 -host node1 "${common[@]}" cpu \
        : -n 1 -host node2 "${common[@]}" cpu : -n 1 -host node3 "${common[@]}" faulty:delay=150ms:cpu
}

@test "a program on three hosts with a slow one gives the same numbers" {
    need_numpy
    tc -n "$LAB_NAME-node3" qdisc replace dev eth0 root tbf rate 300mbit burst 128k latency 50ms ||
        skip "lab: cannot shape a cable"
    run_hosts --weights auto --report report.json
    tc -n "$LAB_NAME-node3" qdisc del dev eth0 root
    expect_status 0 || { show; return 1; }
    printf '%s' "$output" > printed
    python <<'END'
import json, re
import numpy as np
x, w = np.load("X.npy").astype(float), np.load("W.npy").astype(float)
y = np.maximum(x @ w, 0) % 7
assert np.array_equal(np.load("Y.npy"), y) and np.array_equal(np.load("S.npy"), (y @ w.T).sum(-1, keepdims=True))
report = json.load(open("report.json"))
assert [rank["host"] for rank in report["ranks"]] == ["node1", "node2", "node3"]
made = next(o for o in report["operations"] if o["operation"].startswith("matmul"))
parts = [rank["part_bytes"] for rank in made["ranks"]]
print(made["placement"], parts)
assert parts[2] < min(parts[:2])
END
}

# A chunk of rows takes long on the cable, its product does not.
@test "rows of a late host are computed while its other rows are on their way" {
    cat > many.py << 'END'
x = generate((3000, 1500), kind="integer", seed=1)
save("D.bin", relu(x @ generate((1500, 1500), kind="integer", seed=2)))
END
    "$MPIMATMUL" run many.py --device cpu --quiet
    mv D.bin right.bin
    lab_rate 100mbit || skip "lab: cannot shape a cable"
    local common=("$MPIMATMUL" run many.py --weights equal --tail 0.4 --quiet --report report.json --device)
    run --separate-stderr lab_mpirun node1:1,node2:1 -n 1 -host node1 "${common[@]}" cpu \
        : -n 1 -host node2 "${common[@]}" faulty:delay=1s:cpu
    lab_rate none
    expect_quiet_success && cmp D.bin right.bin
    python <<'END'
import json
ranks = json.load(open("report.json"))["ranks"]
print([rank["claims"] for rank in ranks])
assert ranks[0]["claims"] > 3 and ranks[1]["claims"] == 0
END
}

@test "a program is right after one of three hosts loses its device for good" {
    local common=("$MPIMATMUL" run e.py --weights equal --no-fallback --device)
    run --separate-stderr lab_mpirun $hosts -n 1 -host node1 "${common[@]}" cpu \
        : -n 1 -host node2 "${common[@]}" faulty:fail=2:cpu : -n 1 -host node3 "${common[@]}" cpu
    expect_status 69 || { show; return 1; }
    [[ $stderr == "mpimatmul: rank 1 on node2: device 'faulty:fail=2:cpu' was lost at "*" 2 by rule"* ]]
    [ ! -e Y.npy ] && [ ! -e Y.npy.part ] && [ ! -e S.npy ] && [ ! -e S.npy.part ]
}

@test "shares of a product stay on devices of two hosts, one of which loses its device, or errs" {
    local rule common=("$MPIMATMUL" run e.py --weights equal --device-timeout 1 --report report.json --device)
    need_numpy
    for rule in hang=1000000 hang=1000000,fail=2 hang=1000000,corrupt=1; do
        rm -f Y.npy S.npy
        run --separate-stderr lab_mpirun node1:1,node2:1 -n 1 -host node1 "${common[@]}" faulty:hang=1000000:cpu \
            : -n 1 -host node2 "${common[@]}" "faulty:$rule:cpu"
        expect_status 0 || { show; return 1; }
        [[ "$rule" == hang=1000000 || "$stderr" == *"rank 1: device "*" 'reference': "* ]] ||
            { show; return 1; }
        python <<'END'
import json
import numpy as np
x, w = np.load("X.npy").astype(float), np.load("W.npy").astype(float)
y = np.maximum(x @ w, 0) % 7
assert np.array_equal(np.load("Y.npy"), y) and np.array_equal(np.load("S.npy"), (y @ w.T).sum(-1, keepdims=True))
made = next(o for o in json.load(open("report.json"))["operations"] if o["operation"].startswith("matmul + relu"))
print(made["operation"], made["placement"], [r["downloaded_bytes"] for r in made["ranks"]])
assert made["ranks"][0]["downloaded_bytes"] < 1.5 * made["ranks"][0]["part_bytes"]
END
    done
}

@test "values move between all placements on three hosts, one of them slow" {
    tc -n "$LAB_NAME-node3" qdisc replace dev eth0 root tbf rate 300mbit burst 128k latency 50ms ||
        skip "lab: cannot shape a cable"
    run lab_mpirun node1:2,node2:1,node3:1 -n 4 "$BUILD/tests/mpi/program_test" hosts
    tc -n "$LAB_NAME-node3" qdisc del dev eth0 root
    [ "$status" -eq 0 ] || { show; return 1; }
    [[ "$output" == *"ok 1 - cpu, 0 nodes, weights 1,1,1,1: every pair of placements"* ]] || { show; return 1; }
    [[ "$output" == *"1..9" ]] || { show; return 1; }
}

# values_at MIB: prints the plan's memory with that limit.
values_at() {
    lab_mpirun node1:1,node2:1 "$MPIMATMUL" run early.py --device cpu --weights equal --memory "$1MiB" --check |
        grep -o 'values take at most [0-9.]*'
}

@test "operands sent early take more memory, and are sent when they are read if memory is short" {
    need_numpy
    "$MPIMATMUL" gen X.npy --dims 256x2048 --kind integer --seed 1 -q
    {
        echo 'x = place(load("X.npy"), "rows")'
        for i in 2 3 4 5; do
            echo "w$i = place(generate((2048, 2048), kind=\"integer\", seed=$i), \"rows\")"
            echo "save(\"W$i.npy\", w$i)"
        done
        for i in 2 3 4 5; do echo "x = place((x @ place(w$i, \"replicate\")) % 5, \"rows\")"; done
        echo 'save("Y.npy", x)'
    } > early.py
    local limit=140 early late
    early=$(values_at $limit)
    late=$early
    while [ "$late" = "$early" ]; do
        limit=$((limit - 8))
        late=$(values_at $limit)
    done
    run --separate-stderr lab_mpirun node1:1,node2:1 "$MPIMATMUL" run early.py --device cpu --weights equal \
        --memory "${limit}MiB"
    expect_status 0 || { show; return 1; }
    python << 'END'
import numpy as np
x = np.load("X.npy").astype(float)
for i in (2, 3, 4, 5):
    x = x @ np.load(f"W{i}.npy").astype(float) % 5
assert np.array_equal(np.load("Y.npy"), x)
END
}
