#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Lines of a node that is late, computed by ranks of root's (exec/tasks/lending.h): who computes what is certain,
# because the devices of the other nodes wait before each product. Ranks take themselves for several machines
# (tests/lib/refuse.c).
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# Stacks of matrices, some transposed: a loan is of lines of several of them.
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

# job ARGUMENTS...: ${inputs[@]} into D.bin, a rank for each of ${only[@]} with these options and ${before[R]} before
# it, ${nodes_of} ranks on each node.
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

# lent CONDITION: what root's node has computed of the others' lines, as they are split.
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

@test "lines of late nodes are computed by root's, by rows and by columns" {
    for split in rows cols; do
        job --split $split
        expect_right_result && lent "> 100" || return 1
    done
}

@test "the same of stacks, transposed, without the check, by several ranks of each node" {
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

@test "nothing is lent where nothing may be claimed, or root's node does not compute C where it lies" {
    for words in "--tail off" --reproducible "--dtype float16"; do
        # shellcheck disable=SC2086 # several words
        job $words
        expect_quiet_success && lent "== 0" || return 1
    done
}

@test "a device of root's node fails, or errs, in what it has borrowed" {
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

@test "a device of a node that has lent fails" {
    only[1]="--device faulty:delay=300ms,fail=1:cpu"
    job --no-fallback
    expect_end 69 "rank 1 on $(uname -n): device 'faulty:delay=300ms,fail=1:cpu' was lost at multiplication 1 by rule"
}

@test "a rank that has lent is killed" {
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

# What is promised must come: unlike other signs of life these words are not said again.
@test "MPI refuses a question or its answer" {
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

@test "who cannot be heard is not asked" {
    for refuse in 0:receive.9001 0:receive.9001-test; do
        rm -f D.bin
        job
        expect_right_result || return 1
    done
}
