#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every kind of transfer fails, on root, on the middle node, on the last. Three ranks each take
# themselves for a machine (tests/lib/refuse.c). The job ends with one line and one code, and leaves
# no result.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# Several chunks, packets and panels of each. Some inputs have elements of 64 bits, which are read,
# not mapped.
setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    operands_of_nodes 1
    py -c 'import numpy
for name, shape in ("A", (401, 701)), ("B", (701, 501)), ("C", (401, 501)):
    numpy.save(name + ".npy", numpy.ones(shape))'
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    ln -s "$BATS_FILE_TMPDIR"/[ABC].* .
    inputs=(A.bin B.bin --beta 1 --c-in C.bin)
    preload=$BUILD/tests/refuse.so
}

# job ARGUMENTS...: computes D.bin of ${inputs[@]} on three nodes. ${only[R]} are options of rank R,
# ${before[R]} stands before its program, and ${weights} are the weights.
job() {
    local rank contexts=()
    for rank in 0 1 2; do
        # shellcheck disable=SC2206 # several words, or none
        contexts+=(-n 1 ${before[rank]:-} env "LD_PRELOAD=$preload" "$MPIMATMUL" mul "${inputs[@]}" -o D.bin \
            --io root --split rows --weights "${weights:-equal}" --progress none --quiet "$@" \
            ${only[rank]:---device cpu} :)
    done
    run --separate-stderr env MMUL_APART=1 "MMUL_REFUSE=${refuse:-}" timeout 30 "${launch[@]}" \
        "${contexts[@]:0:${#contexts[@]}-1}" < /dev/null
}

# place RANK: the beginning of that rank's error.
place() {
    [ "$1" -eq 0 ] || echo "rank $1 on $(uname -n): "
}

# expect_refusals WHAT CALL RANKS...: MPI refuses the call on each of the ranks in turn. The error
# is about WHAT.
expect_refusals() {
    local what=$1 call=$2 rank
    shift 2
    for rank in "$@"; do
        echo "rank $rank: $call"
        refuse=$rank:$call job "${arguments[@]}"
        expect_end 71 "$(place "$rank")MPI $what failed: MPI_ERR_OTHER: known error not in list" || return 1
    done
}

@test "without a fault the result is right" {
    job
    expect_quiet_success
    cmp D.bin "$BATS_FILE_TMPDIR/right.bin"
}

@test "a scatter refused by MPI ends the job" {
    expect_refusals scatter scatterv 0 1 2
    expect_refusals scatter scatterv:2 2 # of C_in
    expect_refusals scatter scatter 0 1 # checksums
    expect_refusals scatter scatterv-test 2
}

@test "a gather refused by MPI ends the job" {
    expect_refusals gather gatherv 0 1 2
    expect_refusals gather gather 2
    expect_refusals gather gatherv-test 0 1
}

@test "a relay's packet refused by MPI ends the job" {
    expect_refusals send send.0 0 1
    expect_refusals send send.1 1
    expect_refusals receive receive.0 1 2
    expect_refusals receive receive.1:2 2
    expect_refusals transfer send.0-test 0
    expect_refusals transfer receive.0-test 1
}

# All later calls on that rank fail, too.
@test "the job ends when MPI refuses all calls of a kind from some moment on" {
    expect_refusals scatter scatterv:1+ 0
    expect_refusals gather gather:2+ 1
    expect_refusals receive receive.0:3+ 2
}

# Tag 9100 is the alarm, by which a leader hears of failures on other ranks.
@test "a leader that MPI does not let receive ends the job" {
    expect_refusals "communicator set-up" receive.9100 0 2
}

@test "a heartbeat that MPI refuses once is sent again" {
    for refuse in 0:send.9002 1:send.9001 2:send.9001:2 1:receive.9002 0:receive.9001; do
        echo "$refuse"
        rm -f D.bin
        job
        expect_quiet_success && cmp D.bin "$BATS_FILE_TMPDIR/right.bin" || return 1
    done
}

@test "a refused message in the measurement of links and their costs ends the job" {
    local weights=auto inputs=(X.bin Y.bin)
    "$MPIMATMUL" gen X.bin --dims 1000x1000 --quiet && "$MPIMATMUL" gen Y.bin --dims 1000x1001 --quiet
    expect_refusals "link measurement" send.71:3 0 2
    expect_refusals "link measurement" receive.71:2 1
    expect_refusals send send.73 1
    expect_refusals receive receive.73 0
}

# expect_refused_program NAME REFUSALS...: tests/embed/NAME.c on three nodes.
expect_refused_program() {
    local name=$1
    shift
    for refuse; do
        run --separate-stderr env MMUL_APART=1 "MMUL_REFUSE=$refuse" timeout 30 "${launch[@]}" \
            -n 3 env "LD_PRELOAD=$preload" "$BUILD/tests/embed/$name" < /dev/null
        expect_status 71
        [[ "$stderr" == "$name: $(place "${refuse%%:*}")MPI "*" failed: MPI_ERR_OTHER: known error not in list" ]] ||
            { show; return 1; }
    done
}

# The moves of a program's values.
@test "a program's move refused by MPI ends the job" {
    expect_refused_program chain 0:send.64 1:receive.64 2:send.65 1:receive.64-test
}

@test "a sum of a grid's check refused by MPI ends the job" {
    expect_refused_program grid 0:sum 1:sum:2 2:sum:3 1:sum-test 2:sum-test:3
}

# Errors name node 1 in either direction of its link with root. A transfer from node 1 to node 2
# names both.
@test "bytes that change on the way are found" {
    local rank call between before only
    preload=$BUILD/tests/tamper.so:$BUILD/tests/refuse.so
    while read -r rank call between; do
        echo "rank $rank: $call"
        before=() && before[rank]="env MMUL_TAMPER=$call"
        job
        expect_end 71 "rank ${between%% *} on $(uname -n): bytes changed in transit between ${between#* }" || return 1
    done << 'END'
0 scatterv 1 root and node 1
0 scatterv:2 2 root and node 2
0 send 1 root and node 1
1 send 2 node 1 and node 2
END
    for rank in 1 2; do
        before=() && before[rank]="env MMUL_TAMPER=gatherv"
        job
        expect_end 71 "bytes changed in transit between root and node $rank" || return 1
    done
}

# One element changes in the memory of one rank, before a part of its summand leaves, so the wrong
# element is sent and added. Messages of a rank: first its part of B to each of the others, for the
# first product (rank 1's in two panels). Then, except on root, the data for root's output. Then the
# parts of the others.
@test "a wrong summand makes the check of the sum fail" {
    local from message to row contexts
    while read -r from message to row; do
        echo "message $message of rank $from"
        tamper_message "$from" "$message" "$BUILD/tests/embed/grid"
        run --separate-stderr timeout 30 "${launch[@]}" "${contexts[@]}" < /dev/null
        expect_status 79
        [ "${stderr_lines[0]}" = "grid: rank $to: sum over the ranks is wrong in row $row of matrix 0 of 'value 12'" ]
    done << 'END'
0 3 1 133
0 4 2 233
1 6 2 233
1 7 0 33
2 4 0 33
2 5 1 133
END
}

# The sum has one row, which is split by columns. Each rank's columns of it are a line of the check.
# Messages of a rank: on root first a part of an operand to each of the others. Then its summands for
# the next rank, and for the one after that.
@test "a wrong summand of a single row makes the check of the sum fail" {
    local from message to contexts
    "$MPIMATMUL" gen x.npy --dims 6x1 --kind uniform --seed 1 -q
    "$MPIMATMUL" gen y.npy --dims 6x30000 --kind uniform --seed 2 -q
    printf '%s\n' 'x, y = load("x.npy"), load("y.npy")' 'b = place(x.T, "cols") @ place(y, "rows")' \
        'save("b.npy", place(b, "cols"))' > e.py
    while read -r from message to; do
        echo "message $message of rank $from"
        tamper_message "$from" "$message" "$MPIMATMUL" run e.py --weights equal --progress none
        run --separate-stderr timeout 30 "${launch[@]}" "${contexts[@]}" < /dev/null
        expect_status 79
        [ "${stderr_lines[0]}" = "mpimatmul: rank $to: sum over the ranks is wrong in row 0 of matrix 0 of 'b'" ]
        [ ! -e b.npy ]
    done << 'END'
0 3 1
0 4 2
1 1 2
1 2 0
2 1 0
2 2 1
END
}

# expect_fault CODE NAME CALL ERROR PATH:RULE TEXT: a system call of root's fails on that file.
expect_fault() {
    local code=$1 text=$6 before path
    echo "$2: $3 $4 $5"
    path=$(realpath -m "${5%:*}")
    before=("strace --quiet=path-resolution -o trace -P $path -e trace=$3 -e inject=$3:error=$4:${5#*:}")
    job "${arguments[@]}"
    expect_end "$code" "$text" && grep -q INJECTED trace
}

# Root computes nothing, so that other ranks receive the data that it reads.
@test "a read or write error in root's files ends the job" {
    command -v strace > /dev/null || skip "strace: not installed"
    strace -o /dev/null true 2> /dev/null || skip "strace: may not trace here"
    local weights=0,1,1 inputs=(A.npy B.npy --beta 1 --c-in C.npy) arguments=(--dtype float32)
    expect_fault 66 "scatter of pieces" pread64 EIO A.npy:when=5 "cannot read 'A.npy': Input/output error"
    expect_fault 66 "scatter of C_in" pread64 EIO C.npy:when=5 "cannot read 'C.npy': Input/output error"
    expect_fault 66 "relay of panels" pread64 EIO B.npy:when=5 "cannot read 'B.npy': Input/output error"
    arguments=(--dtype float16)
    expect_fault 74 "gather" pwrite64 ENOSPC D.bin.part:when=2 "cannot write 'D.bin': No space left on device"
    weights=1,0,0
    expect_fault 66 "load of pieces" pread64 EIO A.npy:when=5 "cannot read 'A.npy': Input/output error"
    expect_fault 66 "load of panels" pread64 EIO B.npy:when=5 "cannot read 'B.npy': Input/output error"
    expect_fault 74 "store" pwrite64 EIO D.bin.part:when=2 "cannot write 'D.bin': Input/output error"
}

@test "without a replacement a failing device ends the job" {
    local rank only
    for rank in 0 1 2; do
        only=() && only[rank]="--device faulty:fail=1:cpu"
        job --no-fallback
        expect_end 69 "$(place "$rank")device 'faulty:fail=1:cpu' was lost at multiplication 1 by rule" || return 1
    done
}

# mpirun stops the others, and root may be one of them. A rank in the middle of reading a killed
# rank's memory gets an error from Open MPI: "[host:pid] Read -1, expected 34304, errno = 3".
@test "a killed rank ends the job" {
    local rank before only said
    recorder > /dev/null
    for rank in 0 1 2; do
        rm -f pid.* D.bin.part
        before=(./record ./record ./record) only=("--device faulty:delay=5s:cpu")
        {
            until [ -e D.bin.part ] && [ -s pid.$rank ]; do sleep 0.05; done
            sleep 0.2
            kill -KILL "$(< pid.$rank)"
        } 3>&- &
        job
        wait $!
        expect_status 137
        said=$(grep -vE '^\[[^]]*:[0-9]+\] Read -1, expected [0-9]+, errno = 3$' <<< "$stderr" || true)
        [[ -z "$output" && ! -e D.bin && ( -z "$said" ||
            "$said" == "mpimatmul: stopped by SIGTERM: no result was written" ) ]] || { show; return 1; }
    done
}
