#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Work stealing between nodes in products: ranks of root's node compute lines of a late node
# (exec/tasks/node_steal.h). The devices of the other nodes wait before each product, so the test knows
# the thief. Each rank takes itself for a machine (tests/lib/refuse.c).
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# Stacks of matrices, some transposed: a stolen range has lines of several of them.
setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    operands_of_nodes 2
    "$MPIMATMUL" gen S.bin --dims 3x2x301x90 --kind integer --seed 4 --quiet
    "$MPIMATMUL" gen T.bin --dims 3x2x130x301 --kind integer --seed 5 --quiet
    "$MPIMATMUL" mul S.bin T.bin --transpose-a --transpose-b -o stacks.bin --device cpu --quiet
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    ln -s "$BATS_FILE_TMPDIR"/*.bin .
    inputs=(A.bin B.bin --beta 2 --c-in C.bin)
    right=right.bin nodes_of=1
    only=("" "--device faulty:delay=150ms:cpu" "--device faulty:delay=100ms:cpu")
}

# job ARGUMENTS...: computes D.bin of ${inputs[@]}, with one rank for each of ${only[@]}, which
# holds its options. ${before[R]} stands before the program of rank R. Each node has ${nodes_of}
# ranks.
job() {
    local rank contexts=()
    for rank in "${!only[@]}"; do
        # shellcheck disable=SC2206 # several words, or none
        contexts+=(-n 1 ${before[rank]:-} env "LD_PRELOAD=$BUILD/tests/refuse.so" "$MPIMATMUL" mul "${inputs[@]}" \
            -o D.bin --io root --weights equal --tail 0.4 --progress none --quiet --report report.json "$@" \
            ${only[rank]:---device cpu} :)
    done
    run --separate-stderr env "MMUL_APART=$nodes_of" "MMUL_REFUSE=${refuse:-}" timeout 30 "${launch[@]}" \
        "${contexts[@]:0:${#contexts[@]}-1}" < /dev/null
}

# lent CONDITION: holds for the part of the split that root's node has computed for the others.
lent() {
    py -c "import json
ranks = json.load(open('report.json'))['ranks']
assert abs(sum(rank['claimed'] - rank['given'] for rank in ranks)) < 1e-9, ranks
lent = sum(rank['claimed'] - rank['given'] for rank in ranks[:$nodes_of])
assert lent $1, lent"
}

expect_right_result() {
    expect_quiet_success && cmp D.bin "$right"
}

@test "ranks of root's node compute lines of late nodes, by rows and by columns" {
    for split in rows cols; do
        job --split $split
        expect_right_result && lent "> 100" || return 1
    done
}

@test "lines of stacks, transposed and unchecked, move between nodes of several ranks" {
    inputs=(S.bin T.bin --transpose-a --transpose-b) right=stacks.bin
    for split in rows cols; do
        job --split $split --verify off
        expect_right_result && lent "> 0" || return 1
    done
    nodes_of=2 only=("" "" "--device faulty:delay=100ms:cpu" "--device faulty:delay=50ms:cpu")
    inputs=(A.bin B.bin --beta 2 --c-in C.bin) right=right.bin
    job --split rows
    expect_right_result && lent "> 100"
}

@test "no line moves where stealing is off, or where root's node does not compute C in place" {
    for words in "--tail off" --reproducible "--dtype float16"; do
        # shellcheck disable=SC2086 # several words
        job $words
        expect_quiet_success && lent "== 0" || return 1
    done
}

@test "a device of root's node fails, or errs, in stolen lines" {
    for rule in fail=2 corrupt=2; do
        only[0]="--device faulty:$rule:cpu"
        job
        expect_right_result && lent "> 0" || return 1
        py -c "import json
assert json.load(open('report.json'))['ranks'][0]['note'].startswith('replaced by ')"
    done
    only[0]="--device faulty:fail=2:cpu"
    rm D.bin
    job --no-fallback
    expect_end 69 "device 'faulty:fail=2:cpu' was lost at multiplication 2 by rule"
}

@test "a device of the owner's node fails after its lines were stolen" {
    only[1]="--device faulty:delay=300ms,fail=1:cpu"
    job --no-fallback
    expect_end 69 "rank 1 on $(uname -n): device 'faulty:delay=300ms,fail=1:cpu' was lost at multiplication 1 by rule"
}

@test "an owner of stolen lines is killed" {
    recorder > /dev/null
    before=(./record ./record ./record)
    only[1]="--device faulty:delay=5s:cpu"
    {
        until [ -e D.bin.part ] && [ -s pid.1 ]; do sleep 0.05; done
        sleep 0.3
        kill -KILL "$(< pid.1)"
    } 3>&- &
    job
    wait $!
    expect_status 137
    [[ -z "$output" && ! -e D.bin && ( -z "$stderr" ||
        "$stderr" == "mpimatmul: stopped by SIGTERM: no result was written" ) ]] || { show; return 1; }
}

# A granted line must be sent: unlike heartbeats these messages are not repeated.
@test "a refused request or reply of work stealing ends the job with 71" {
    local end="failed: MPI_ERR_OTHER: known error not in list"
    refuse=0:send.9002 job
    expect_end 71 "MPI send $end"
    refuse=0:send.9002-test job
    expect_end 71 "MPI transfer $end"
    refuse=1:send.9001 job
    expect_end 71 "rank 1 on $(uname -n): MPI send $end"
    refuse=1:send.9001-test job
    expect_end 71 "rank 1 on $(uname -n): MPI transfer $end"
    refuse=1:receive.9002 job
    expect_end 71 "rank 1 on $(uname -n): MPI receive $end"
}

@test "a rank that cannot receive requests is not asked for lines" {
    for refuse in 0:receive.9001 0:receive.9001-test; do
        rm -f D.bin
        job
        expect_right_result || return 1
    done
}
