#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Profiles of two hosts that share a home: one file each, both with the link between them, and the
# fallbacks of a plan when one profile lacks something.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load ../cli/helper
load hosts

# The device is so slow by its own simulated clock that calibrate stops after the smallest size. No
# real time passes.
slow=faulty:clock=260ms:cpu
hosts=node1:1,node2:1

setup_file() {
    lab_up 2
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test || return 1
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    profiles=$XDG_CACHE_HOME/mpimatmul
    "$MPIMATMUL" gen A.bin --dims 1100x1000 --kind integer --seed 1 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 1000x1000 --kind integer --seed 2 2> /dev/null
}

# expect_plan SPEEDS: the next plan takes its speeds from there.
expect_plan() {
    run --separate-stderr lab_mpirun $hosts -n 2 "$MPIMATMUL" plan A.bin B.bin --device $slow --verbose
    expect_status 0
    grep -q -E -x -e "mpimatmul: speeds: $1" <<< "$stderr" || { echo "expected $1"; show; return 1; }
}

# The tag is that of exec/setup/traffic_cost.c. Packets of comm/link.c have no checksum.
@test "a packet that changes while the cost of traffic is measured ends calibrate with one line" {
    export MMUL_TAMPER=send MMUL_TAMPER_TAG=73
    run --separate-stderr lab_mpirun $hosts -n 2 -x LD_PRELOAD="$BUILD/tests/tamper.so" -x MMUL_TAMPER \
        -x MMUL_TAMPER_TAG "$LAB_FOLDER/rank" "$MPIMATMUL" calibrate --device $slow
    expect_status 71
    [ "$(grep -h '^mpimatmul: ' err.0 err.1)" = \
        "mpimatmul: rank 1 on node2: bytes changed in transit between root and node 1" ] || {
        cat err.0 err.1
        return 1
    }
    [ -z "$output" ] && [ -z "$(find "$profiles" -type f)" ]
}

@test "each host has a file of its own, and both files have the link between them" {
    run --separate-stderr lab_mpirun $hosts -n 2 "$MPIMATMUL" calibrate --device $slow --json
    expect_status 0
    printf '%s' "$output" > said.json
    [ "$(cd "$profiles" && echo *)" = "node1.json node2.json" ]
    python "$profiles" << 'END'
import json, sys
first, second = (json.load(open(f"{sys.argv[1]}/node{i}.json")) for i in (1, 2))
nodes = json.load(open("said.json"))["nodes"]
assert [node["host"] for node in nodes] == ["node1", "node2"]
assert nodes[0]["root_link"] is None
link = nodes[1]["root_link"]
assert link["bytes_per_second"] > 0 and link["latency_seconds"] > 0
for node in nodes:
    assert node["ring_link"] == link and node["profile"] == f"{sys.argv[1]}/{node['host']}.json"
for profile, other in (first, "node2"), (second, "node1"):
    assert [(entry["host"], entry["bytes_per_second"], entry["latency_seconds"]) for entry in profile["links"]] == \
        [(other, link["bytes_per_second"], link["latency_seconds"])]
    assert len(profile["devices"]) == 1 and profile["devices"][0]["sharing"] == 1
END
    run lab_mpirun $hosts -n 2 "$MPIMATMUL" calibrate --device $slow
    expect_status 0
    [ "$(grep -c -E '^node[12] .* node[12] ' <<< "$output")" -eq 2 ]
}

# A core computes and moves bytes at once. Its lost speed is measured at both ends, stored and
# shown.
@test "the cost of traffic for a computing core is measured for sending and receiving" {
    run --separate-stderr lab_mpirun $hosts -n 2 "$MPIMATMUL" calibrate --device cpu --threads 1 --json
    expect_status 0
    printf '%s' "$output" > said.json
    python "$profiles" << 'END'
import json, sys
for rank in json.load(open("said.json"))["ranks"]:
    stored = json.load(open(f"{sys.argv[1]}/{rank['host']}.json"))["devices"][0]
    for name in "send_seconds_per_byte", "receive_seconds_per_byte":
        assert 0 < rank[name] < 1e-7 and stored[name] == rank[name], rank
    assert 0 < rank["duplex"] <= 1 and stored["duplex"] == rank["duplex"], rank
    for name in "pack_a_seconds", "pack_b_seconds":
        assert 0 < rank[name] < 1e-7 and stored[name] == rank[name], rank
    for name in "map_bytes_per_second", "check_bytes_per_second":
        assert 1e8 < rank[name] < 1e13 and stored[name] == rank[name], rank
END
}

@test "a plan uses speeds if every rank has one, and links if every host has its own" {
    stored='stored profiles, measured [0-9TZ:-]*'
    expect_plan 'measured now; links measured now'
    lab_mpirun $hosts -n 2 "$MPIMATMUL" calibrate --device $slow --quiet
    cp -r "$profiles" good
    expect_plan "$stored; links stored"
    python "$profiles/node2.json" << 'END'
import json, sys
profile = json.load(open(sys.argv[1]))
profile["links"][0]["host"] = "node7"
json.dump(profile, open(sys.argv[1], "w"))
END
    expect_plan "$stored; links measured now"
    cp good/node2.json "$profiles"
    sed -i 's/"threads": 1/"threads": 2/' "$profiles/node1.json"
    expect_plan 'measured now; links stored'
    echo text > "$profiles/node2.json"
    expect_plan 'measured now; links measured now'
    [ "$(grep -c 'warning: ' <<< "$stderr")" -eq 1 ]
    grep -q -F "stored profile ignored: '$profiles/node2.json' is not valid JSON" <<< "$stderr"
}

# With equal speeds root's part of the split work is more than half if both ranks wait for root's
# data. It is half if no data comes from root.
@test "a program gives root's host a larger share if the other host waits for the cable" {
    for i in 1 2 3; do
        "$MPIMATMUL" gen W$i.bin --dims 1024x1024 --kind integer --seed $i -q
    done
    echo 'x = load("W1.bin")
for i in range(2, 4):
    x = x @ load(f"W{i}.bin")
save("Y.bin", x)' > loaded.py
    sed 's/load("W1.bin")/generate((1024, 1024), kind="integer", seed=1)/
        s/load(f"W{i}.bin")/generate((1024, 1024), kind="integer", seed=i)/' loaded.py > made.py
    lab_mpirun $hosts -n 2 "$MPIMATMUL" calibrate --device $slow --quiet
    python "$profiles" << 'END'
import json, sys
for name in ("node1", "node2"):
    path = f"{sys.argv[1]}/{name}.json"
    profile = json.load(open(path))
    (device,), (link,) = profile["devices"], profile["links"]
    device.update(send_seconds_per_byte=1e-9, receive_seconds_per_byte=1e-9, duplex=1.0, pack_a_seconds=3e-10,
                  pack_b_seconds=3e-10, map_bytes_per_second=1e10, check_bytes_per_second=1e10)
    for entry in device["gemm"]:
        entry["flops_per_second"] = 5e9
    link.update(bytes_per_second=2e7, latency_seconds=1e-4)
    json.dump(profile, open(path, "w"))
END
    for name in loaded made; do
        lab_mpirun $hosts -n 2 "$MPIMATMUL" run $name.py --device $slow --io root --check --json > $name.json
    done
    python << 'END'
import json
def split(name):
    found = [step["placement"].split()[1:] for step in json.load(open(name))["steps"]
             if step["placement"].split()[0] in ("rows", "cols")]
    assert found and all(one == found[0] for one in found), found
    return int(found[0][1]) / int(found[0][2])
assert 0.54 < split("loaded.json") < 0.8, split("loaded.json")
assert split("made.json") == 0.5, split("made.json")
END
}

@test "a host that cannot store its profile ends calibrate with 73 and the path" {
    mkdir -p "$profiles/node2.json"
    run --separate-stderr lab_mpirun $hosts -n 2 "$MPIMATMUL" calibrate --device $slow
    expect_status 73
    [[ "$stderr" == *"mpimatmul: rank 1 on node2: cannot write '$profiles/node2.json': it is a folder"* ]] || {
        show
        return 1
    }
}
