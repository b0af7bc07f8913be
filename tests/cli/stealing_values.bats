#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Work stealing between nodes in programs: rows of a late node go to another node and come back
# (exec/tasks/steals.h). The late node's device waits before each product, so the test knows the
# thief. Each rank takes itself for a machine (tests/lib/refuse.c).
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    cat > p.py << 'END'
x = generate((900, 520), kind="integer", seed=1)
for i in range(3):
    x = relu(x @ generate((520, 520), kind="integer", seed=i + 2) * 0.125)
save("D.bin", x)
END
    "$MPIMATMUL" run p.py --device cpu --quiet
    mv D.bin right.bin
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    ln -s "$BATS_FILE_TMPDIR"/*.bin "$BATS_FILE_TMPDIR"/p.py .
    nodes_of=1 late="--device faulty:delay=120ms:cpu"
    only=("" "$late")
}

# job ARGUMENTS...: runs the program with one rank for each of ${only[@]}, which holds its options.
# ${before[R]} stands before the program of rank R. Each node has ${nodes_of} ranks.
job() {
    local rank contexts=()
    for rank in "${!only[@]}"; do
        # shellcheck disable=SC2206 # several words, or none
        contexts+=(-n 1 ${before[rank]:-} env "LD_PRELOAD=${tampers:-}$BUILD/tests/refuse.so" ${with[rank]:-}
            "$MPIMATMUL" run "${program:-p.py}" --weights equal --tail 0.4 --progress none --quiet
            --report report.json "$@" ${only[rank]:---device cpu} :)
    done
    run --separate-stderr env "MMUL_APART=$nodes_of" "MMUL_REFUSE=${refuse:-}" timeout 30 "${launch[@]}" \
        --oversubscribe "${contexts[@]:0:${#contexts[@]}-1}" < /dev/null
}

# lent RANK...: these ranks have computed rows of others; without arguments no rank has.
lent() {
    py -c "import json
ranks = json.load(open('report.json'))['ranks']
claims = {rank['rank'] for rank in ranks if rank['claims'] > 0}
wanted = {int(word) for word in '$*'.split()}
assert wanted <= claims if wanted else not claims, claims"
}

expect_right_result() {
    expect_quiet_success && cmp D.bin right.bin
}

@test "other nodes compute rows of late nodes, root's node among the late ones" {
    job
    expect_right_result && lent 0 || return 1
    only=("$late" "")
    job
    expect_right_result && lent 1 || return 1
    only=("$late" "$late" "")
    job --verify off
    expect_right_result && lent 2
}

@test "leaders request rows for nodes of several ranks, from any rank of a late node" {
    nodes_of=2 only=("" "" "$late" "$late")
    job
    expect_right_result && lent 0
}

@test "a node of unknown speed, with a leader that has no work, computes all its rows itself" {
    nodes_of=2 only=("" "" "" "$late")
    job --weights 1,1,0,1
    expect_right_result
}

@test "rows in float64 move between nodes" {
    need_numpy
    python << 'END'
import numpy as np
rng = np.random.default_rng(1)
for name, rows in ("X", 900), ("W", 520):
    np.save(f"{name}.npy", rng.integers(-4, 5, (rows, 520)) * 1.0)
END
    printf '%s\n' 'x = load("X.npy") * 2' 'w = place(load("W.npy") * 2, "replicate")' \
        'save("D.npy", relu(x @ w))' > doubles.py
    program=doubles.py
    job
    expect_quiet_success && lent 0 || return 1
    python << 'END'
import numpy as np
assert np.array_equal(np.load("D.npy"), np.maximum(4 * np.load("X.npy") @ np.load("W.npy"), 0))
END
}

@test "no row moves where stealing is off, on one node, or without room for it" {
    for words in "--tail off" --reproducible; do
        # shellcheck disable=SC2086 # several words
        job $words
        expect_quiet_success && lent || return 1
    done
}

@test "a device fails, or errs, in stolen rows" {
    for rule in fail=2 corrupt=2; do
        only[0]="--device faulty:$rule:cpu"
        job
        expect_right_result && lent 0 || return 1
        py -c "import json
assert json.load(open('report.json'))['ranks'][0]['note'].startswith('replaced by ')"
    done
    only[0]="--device faulty:fail=2:cpu"
    rm D.bin
    job --no-fallback
    expect_end 69 "device 'faulty:fail=2:cpu' was lost at multiplication 2 by rule"
}

@test "a device of the owner's node fails after its rows were stolen" {
    only[1]="--device faulty:delay=100ms,fail=1:cpu"
    job --no-fallback
    expect_end 69 "rank 1 on $(uname -n): device 'faulty:delay=100ms,fail=1:cpu' was lost at multiplication 1 by rule"
}

@test "a bit of a row that flips on its way there or back is found" {
    local tampers=$BUILD/tests/tamper.so:
    with=("MMUL_TAMPER=send MMUL_TAMPER_TAG=9005" "")
    job
    expect_end 71 "rank 1 on $(uname -n): bytes changed in transit between root and node 1"
    with=("" "MMUL_TAMPER=send MMUL_TAMPER_TAG=9003")
    job
    expect_end 71 "bytes changed in transit between root and node 1"
}

@test "refused messages or rows of work stealing end the job with 71" {
    local end="failed: MPI_ERR_OTHER: known error not in list" here
    here="rank 1 on $(uname -n): "
    while read -r refuse line; do
        job
        expect_end 71 "${line//HERE/$here} $end" || { echo "$refuse"; return 1; }
    done << END
0:send.9002 MPI send
0:send.9002-test MPI transfer
1:send.9001 HEREMPI send
1:receive.9002 HEREMPI receive
0:receive.9003 MPI receive
0:receive.9003-test MPI transfer
1:send.9003 HEREMPI send
1:send.9003-test HEREMPI transfer
0:send.9005:2 MPI send
1:receive.9005:3 HEREMPI receive
1:receive.9006-test HEREMPI transfer
END
}

@test "an owner of stolen rows, or their thief, is killed" {
    recorder > /dev/null
    before=(./record ./record)
    local rank
    for rank in 0 1; do
        rm -f pid.*
        only=("" "--device faulty:delay=2s:cpu")
        {
            until [ -s pid.$rank ] && [ -e D.bin.part ]; do sleep 0.05; done
            sleep 0.5
            kill -KILL "$(< pid.$rank)"
        } 3>&- &
        job
        wait $!
        expect_status 137
        [[ -z "$output" && ! -e D.bin && ( -z "$stderr" ||
            "$stderr" == "mpimatmul: stopped by SIGTERM: no result was written" ) ]] || { show; return 1; }
    done
}
