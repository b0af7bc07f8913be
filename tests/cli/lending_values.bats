#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Rows of a node that is late in a program: they go to another node, and come back (exec/tasks/loans.h). Who computes
# what is certain, because the device of the late node waits before each product. Ranks take themselves for several
# machines (tests/lib/refuse.c).
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

# job ARGUMENTS...: the program, a rank for each of ${only[@]} with these options and ${before[R]} before it,
# ${nodes_of} ranks on each node.
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

# lent RANK...: these have computed what was others'; without any: nobody has.
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

@test "rows of late nodes are computed by others, root's among the late ones" {
    job
    expect_right_result && lent 0 || return 1
    only=("$late" "")
    job
    expect_right_result && lent 1 || return 1
    only=("$late" "$late" "")
    job --verify off
    expect_right_result && lent 2
}

@test "leaders borrow for nodes of several ranks, whoever of the late ones they are from" {
    nodes_of=2 only=("" "" "$late" "$late")
    job
    expect_right_result && lent 0
}

@test "a node whose leader has no work, of which nobody knows how fast it is, is waited for until it is through" {
    nodes_of=2 only=("" "" "" "$late")
    job --weights 1,1,0,1
    expect_right_result
}

@test "in float64" {
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

@test "nothing is lent where nothing may be claimed, on one node, or where there is no room" {
    for words in "--tail off" --reproducible; do
        # shellcheck disable=SC2086 # several words
        job $words
        expect_quiet_success && lent || return 1
    done
}

@test "a device fails, or errs, in what it has borrowed" {
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

@test "a device of a node that has lent fails" {
    only[1]="--device faulty:delay=100ms,fail=1:cpu"
    job --no-fallback
    expect_end 69 "rank 1 on $(uname -n): device 'faulty:delay=100ms,fail=1:cpu' was lost at multiplication 1 by rule"
}

@test "a bit of a row changes on its way there, or back" {
    local tampers=$BUILD/tests/tamper.so:
    with=("MMUL_TAMPER=send MMUL_TAMPER_TAG=9005" "")
    job
    expect_end 71 "rank 1 on $(uname -n): bytes changed on the way between root and node 1"
    with=("" "MMUL_TAMPER=send MMUL_TAMPER_TAG=9003")
    job
    expect_end 71 "bytes changed on the way between root and node 1"
}

@test "MPI refuses words or rows" {
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

@test "a rank that has lent, or borrows, is killed" {
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
