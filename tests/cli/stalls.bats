#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --stall-timeout: a rank that makes no progress ends its job with 75 and one line.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

setup() {
    need_plain "its library comes first"
    cd "$BATS_TEST_TMPDIR" || return 1
    "$MPIMATMUL" gen A.npy --dims 200x150 --kind integer --seed 1
    "$MPIMATMUL" gen B.npy --dims 150x100 --kind integer --seed 2
    hint="  hint: repair or leave out $(uname -n) and start again; --stall-timeout 0 waits for ever"
}

# expect_stall RANK REASON
expect_stall() {
    [ "$status" -eq 75 ] && [ "$stderr" = "mpimatmul: rank $1 on $(uname -n) has made no progress for 1 s: $2
$hint" ] && [ ! -e D.npy ] && [ ! -e D.npy.part ] && return
    show
    return 1
}

# stop_rank RANK: stops this rank of the job as soon as it computes.
stop_rank() {
    local i process
    for ((i = 0; i < 100; i++)); do
        sleep 0.1
        [ -e D.npy.part ] || continue
        sleep 0.7
        for process in $(pgrep -f "mul $PWD/A.npy"); do
            tr '\0' '\n' < "/proc/$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" || continue
            kill -STOP "$process"
            return
        done
    done
}

@test "a read that does not return ends the job, alone, on ranks, in a program and in Python" {
    local stuck=$BUILD/tests/stuck_read.so reason="a read or write of 'A.npy' does not return"
    export MMUL_STUCK=A.npy
    run --separate-stderr timeout 30 env LD_PRELOAD="$stuck" "$MPIMATMUL" mul A.npy B.npy -o D.npy \
        --quiet --stall-timeout 1
    expect_stall 0 "$reason"
    run --separate-stderr timeout 30 mpirun -q -n 2 -x MMUL_STUCK -x LD_PRELOAD="$stuck" "$MPIMATMUL" mul A.npy B.npy \
        -o D.npy --quiet --stall-timeout 1 < /dev/null
    expect_stall 0 "$reason"
    echo 'save("D.npy", load("A.npy") @ load("B.npy"))' > p.py
    run --separate-stderr timeout 30 env LD_PRELOAD="$stuck" MPIMATMUL_STALL_TIMEOUT=1 "$MPIMATMUL" run p.py \
        --quiet
    expect_stall 0 "$reason"
    printf 'import mpimatmul as mm\nmm.init(stall_timeout=1)\nmm.load("A.npy")\n' > q.py
    run --separate-stderr timeout 30 env LD_PRELOAD="$stuck" PYTHONPATH="$REPO/src/python" \
        MPIMATMUL_LIBRARY="$BUILD/lib/libmpimatmul.so.0" "$PYTHON" q.py
    expect_stall 0 "$reason"
}

@test "a rank that is stopped ends the job, root as well as another one" {
    local rank
    for rank in 1 0; do
        stop_rank "$rank" 3>&- &
        run --separate-stderr timeout 60 mpirun -q -n 2 "$MPIMATMUL" mul "$PWD/A.npy" B.npy -o D.npy --quiet \
            --stall-timeout 1 --weights equal --tail off --device faulty:delay=20s:cpu < /dev/null
        wait $!
        rm -f D.npy.part # a stopped process removes no file
        expect_stall "$rank" "it sends no messages; it is stopped, or its host or network is down"
    done
}

@test "a slow rank is not stalled, but a task that takes far too long is" {
    run --separate-stderr timeout 60 mpirun -q -n 2 "$MPIMATMUL" mul A.npy B.npy -o D.npy --quiet --stall-timeout 1 \
        --weights equal --tail off --device faulty:delay=3s:cpu < /dev/null
    [ "$status" -eq 0 ] && [ "$stderr" = "" ] || { show; return 1; }
    rm D.npy
    "$MPIMATMUL" gen A.npy --dims 1500x1500 --seed 1
    "$MPIMATMUL" gen B.npy --dims 1500x2000 --seed 1
    run --separate-stderr timeout 60 "$MPIMATMUL" mul A.npy B.npy -o D.npy --quiet --device reference \
        --device-timeout 0.01 --stall-timeout 1
    expect_stall 0 "a task on its device takes far longer than expected"
}
