#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# plan --simulate: a job on machines known only by a description.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

describe() {
    cat > job.json << END
{"problem": {"m": 20000, "n": 10000, "k": 10000},
 "nodes": [{"count": ${1:-4}, "name": "box", "memory_gib": 64, "link_gbit": 10, "latency_us": 20,
            "ranks": [{"device": "gpu", "name": "card", "gflops": 4000, "memory_gib": 8},
                      {"device": "cpu", "gflops": [200, 300, 350, 380, 400]}]}]}
END
}

@test "--simulate prints kinds of ranks, seconds, speed-up and other algorithms" {
    describe 4
    program plan --simulate job.json
    expect_quiet_success
    grep -q -E '^card +4 ' <<< "$output"
    grep -q -E '^cpu +4 ' <<< "$output"
    grep -q -E '^predicted: [0-9.]+ s on [0-9]+ of 8 ranks; limit: ' <<< "$output"
    grep -q -E '^speed-up: [0-9.]+ against rank 0 \(card\) alone' <<< "$output"
    grep -q -E '^through root.s link: [0-9.]+ [KMG]iB' <<< "$output"
    grep -q -E '^2-D \(SUMMA\) ' <<< "$output"
    expect_only_files job.json
}

@test "--simulate under mpirun is printed once, with --json and the options of the plan" {
    describe 1024
    ranks 2 plan --simulate job.json --json --split cols --memory 1GiB
    expect_quiet_success
    printf '%s' "$output" > plan.json
    py - << 'END'
import json
s = json.load(open("plan.json"))
p = s["plan"]
assert s["ranks"] == len(p["ranks"]) == 2048 and s["nodes"] == len(p["nodes"]) == 1024
assert p["split"] == "cols" and all(n["memory_bytes"] == 2**30 for n in p["nodes"])
assert all(n["segment_bytes"] + n["private_bytes"] <= 2**30 for n in p["nodes"])
assert 0 < s["ideal_seconds"] < s["predicted_seconds"] < s["best_alone_seconds"]
END
}

@test "every example can be simulated" {
    for file in "$REPO"/bench/clusters/*.json; do
        program plan --simulate "$file"
        expect_quiet_success
    done
}

@test "--simulate takes as many weights as the description has ranks" {
    describe 1
    program plan --simulate job.json --weights 3,1 --json
    expect_quiet_success
    program plan --simulate job.json --weights 3,1,1
    expect_failure 64 "--weights '3,1,1' has 3 numbers for 2 ranks"
}

@test "plan needs either operands or --simulate" {
    program plan
    expect_failure 64 "plan: expected 2 operands or --simulate, found 0 operands" \
        "mpimatmul plan A B [options]"
    program plan A.bin
    expect_failure 64 "plan: expected 2 operands or --simulate, found 1 operand" \
        "mpimatmul plan A B [options]"
    program plan A.bin B.bin --simulate job.json
    expect_failure 64 "plan: --simulate and 'A.bin' exclude each other" \
        "the file of --simulate also describes the operands"
}

@test "--steps prints transfers and computation, of this job and of a described one" {
    program gen A.bin --dims 3x4
    program gen B.bin --dims 4x5
    program plan A.bin B.bin --steps --split rows --tail off
    [ "$status" -eq 0 ]
    [ "$(sed -n '/^transfers$/,$p' <<< "$output" | sed 's/ *$//')" = "transfers
node  line   transfer     bytes  slot    from  to  waits for      brings
   0  store  C of pass 0     60  mapped  -     -   passes done 1  results stored 1
tasks
rank  task  round  rows  columns  elements  waits for
   0     0      0  0-3   0-5            15  rounds loaded 1, passes loaded 1" ]
    describe 2
    program plan --simulate job.json --steps
    expect_quiet_success
    grep -q -E '^ +1 +relay +[AB] of pass 0 +[0-9]+ +0 +0 +- +- +passes loaded 1, passes sent 1$' <<< "$output"
    program plan A.bin B.bin --steps --json
    expect_failure 64 "plan: --json and --steps exclude each other"
}

# With 300 MiB a node holds 20,927 of the rows, so a cut that asks it for more is tried in vain. A
# transfer over the second job's slow cable ends after days, when a double counts by 30 ps.
@test "a cut that does not fit and a cable of 1 kbit/s are no errors of the plan" {
    cat > job.json << END
{"problem": {"m": 21583, "n": 6819, "k": 272},
 "nodes": [{"memory_gib": 8, "link_gbit": 1000, "ranks": [{"device": "cpu", "gflops": 953.922}]},
           {"memory_gib": 8, "link_gbit": 0.001, "latency_us": 50,
            "ranks": [{"device": "gpu", "gflops": 816.422, "memory_gib": 8}]}]}
END
    program plan --simulate job.json --memory 300M
    expect_quiet_success
    cat > job.json << END
{"problem": {"m": 11394, "n": 222, "k": 110},
 "nodes": [{"memory_gib": 0.11, "link_gbit": 0.001, "ranks": [{"device": "gpu", "gflops": 139, "memory_gib": 16}]},
           {"memory_gib": 0.106, "link_gbit": 1e-06, "latency_us": 50,
            "ranks": [{"device": "gpu", "gflops": [634, 1902, 3804, 5389, 6340], "memory_gib": 8}]}]}
END
    run --separate-stderr timeout 20 "$MPIMATMUL" plan --simulate job.json
    expect_quiet_success
}

@test "a missing or wrong description is refused" {
    program plan --simulate job.json
    expect_failure 66 "cannot open 'job.json': No such file or directory"
    describe '"four"'
    program plan --simulate job.json
    expect_failure 65 "'job.json': nodes[0].count is not a number from 1 to 65536"
    echo '{"problem": ' > job.json
    program plan --simulate job.json
    expect_status 65
    [[ "$stderr" == "mpimatmul: 'job.json' is not valid JSON: line"* ]]
}
