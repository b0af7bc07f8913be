#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Ctrl-C and similar signals: one line, the old result and no other file, exit 75. A finished result
# stays.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    "$MPIMATMUL" gen A.bin --dims 61x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x47 --kind integer --seed 2
    "$MPIMATMUL" gen D.bin --dims 5x3 --kind integer --seed 3
    cp D.bin old.bin
}

# interrupt SIGNAL DISPOSITION COMMAND...: starts a product of some seconds and sends the signal
# after its begin. The command starts with the disposition `default` or `ignore`. Sets code; out and
# err hold the output.
interrupt() {
    local signal=$1 disposition=$2
    shift 2
    env "--$disposition-signal=INT,TERM,HUP" "$@" mul A.bin B.bin -o D.bin --progress none \
        --device faulty:delay=2s:cpu > out 2> err < /dev/null 3>&- &
    for ((i = 0; i < 100; i++)); do
        [ ! -e D.bin.part ] || break
        sleep 0.1
    done
    sleep 0.3
    kill "-$signal" $!
    code=0
    wait $! || code=$?
}

# expect_stopped CODE LINE
expect_stopped() {
    if [ "$code" -ne "$1" ] || [ "$(cat err)" != "mpimatmul: $2" ] || [ -s out ]; then
        echo "code $code, expected $1"
        cat out err
        return 1
    fi
    cmp D.bin old.bin && expect_only_files A.bin B.bin D.bin old.bin out err
}

@test "an interrupted process ends with 75, one line and no temporary file" {
    local signal
    for signal in INT TERM HUP; do
        interrupt $signal default "$MPIMATMUL"
        expect_stopped 75 "stopped by SIG$signal: no result was written"
    done
}

# mpirun passes all of them on as SIGTERM, and ends with 1 whatever the ranks' codes.
@test "an interrupted mpirun gives one line and no temporary file" {
    local signal
    for signal in INT HUP; do
        interrupt $signal default mpirun -q -n 2 "$MPIMATMUL"
        expect_stopped 1 "stopped by SIGTERM: no result was written"
    done
}

@test "when mpirun is interrupted, no rank leaves its unfinished part of a kept value" {
    local signal shards=$PWD/shards
    printf '%s\n' 'save("kept:y", load("A.bin") @ load("B.bin"))' > keep.py
    for signal in INT TERM; do
        MPIMATMUL_SHARD_DIR=$shards mpirun -q --oversubscribe -n 3 "$MPIMATMUL" run keep.py --progress none \
            --device faulty:delay=20s:cpu > out 2> err < /dev/null 3>&- &
        for ((i = 0; i < 100; i++)); do
            [ ! -e shards/y_shard_0.bin.part ] || [ ! -e shards/y_shard_2.bin.part ] || break
            sleep 0.1
        done
        [ -e shards/y_shard_2.bin.part ]
        kill "-$signal" $!
        wait $! || true
        [ "$(cat err)" = "mpimatmul: stopped by SIGTERM: no result was written" ] || { cat err; return 1; }
        [ -z "$(ls shards)" ] || { ls shards; return 1; }
    done
}

# mpirun kills the other ranks as soon as one has ended.
@test "root ends after the other ranks have removed their parts of kept values" {
    local shards=$PWD/shards command=("$MPIMATMUL" run keep.py --progress none --device faulty:delay=20s:cpu)
    printf '%s\n' 'save("kept:y", load("A.bin") @ load("B.bin"))' > keep.py
    MPIMATMUL_SHARD_DIR=$shards mpirun -q -n 1 "${command[@]}" : -n 1 env "LD_PRELOAD=$BUILD/tests/slow_disk.so" \
        MMUL_LATE=y_shard_1.bin.part "${command[@]}" > out 2> err < /dev/null 3>&- &
    for ((i = 0; i < 100; i++)); do
        [ ! -e shards/y_shard_0.bin.part ] || [ ! -e shards/y_shard_1.bin.part ] || break
        sleep 0.1
    done
    [ -e shards/y_shard_1.bin.part ]
    kill -TERM $!
    wait $! || true
    [ "$(cat err)" = "mpimatmul: stopped by SIGTERM: no result was written" ] || { cat err; return 1; }
    [ -z "$(ls shards)" ] || { ls shards; return 1; }
}

@test "one rank that gets SIGTERM ends the job with 75" {
    printf '%s\n' '#!/bin/sh' 'echo $$ > "pid.$OMPI_COMM_WORLD_RANK"' 'exec "$@"' > record
    chmod 755 record
    { for ((i = 0; i < 100; i++)); do [ ! -e D.bin.part ] || break; sleep 0.1; done; kill -TERM "$(< pid.1)"; } 3>&- &
    run --separate-stderr timeout 60 mpirun -q -n 2 ./record "$MPIMATMUL" mul A.bin B.bin -o D.bin --progress none \
        --device faulty:delay=20s:cpu < /dev/null
    expect_status 75
    [ "$stderr" = "mpimatmul: stopped by SIGTERM: no result was written" ] || { show; return 1; }
    cmp D.bin old.bin
    [ ! -e D.bin.part ]
}

@test "an ignored signal stays ignored" {
    interrupt HUP ignore "$MPIMATMUL"
    [ "$code" -eq 0 ]
    [ ! -e D.bin.part ] && ! cmp -s D.bin old.bin
}

@test "a program with a hundred outputs leaves none of their temporary files" {
    printf '%s\n' 'x = load("A.bin") @ load("B.bin")' 'for i in range(100):' '    save(f"y{i}.bin", x + i)' > many.py
    "$MPIMATMUL" run many.py --device faulty:delay=3s:cpu --progress none > out 2> err < /dev/null 3>&- &
    for ((i = 0; i < 100; i++)); do
        [ ! -e y99.bin.part ] || break
        sleep 0.1
    done
    [ "$(compgen -G 'y*.part' | wc -l)" -eq 100 ]
    sleep 0.3
    kill -TERM $!
    code=0
    wait $! || code=$?
    [ "$code" -eq 75 ]
    [ "$(cat err)" = "mpimatmul: stopped by SIGTERM: no result was written" ]
    expect_only_files A.bin B.bin D.bin old.bin many.py out err
}

# The signal arrives during the fsync of the folder, after the rename of the result: the process
# ends as if there had been no signal.
@test "a finished result is complete after a signal, and the exit code says so" {
    strace -o /dev/null true 2> /dev/null || skip "strace is missing or may not trace"
    strace -f -q -o /dev/null -e trace=rename -e inject=rename:signal=TERM \
        "$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet --device cpu > out 2> err < /dev/null
    [ ! -s err ]
    "$MPIMATMUL" verify A.bin B.bin D.bin --quiet
    cp old.bin D.bin
    code=0
    strace -f -q -o /dev/null -e trace=fsync -e inject=fsync:signal=TERM \
        "$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet --device cpu > out 2> err < /dev/null || code=$?
    expect_stopped 75 "stopped by SIGTERM: no result was written"
}

@test "a loop that writes in its turns is not finished, and ends at once" {
    printf '%s\n' 'x = generate((4, 4), seed=1)' 'for i in loop(100000000):' '    x = tanh(x * 0.9 + 0.1)' \
        '    if i % 100 == 99:' '        checkpoint("c.safetensors", (x, x * 2), turn=i + 1)' > loop.py
    local launcher
    for launcher in '' "mpirun -q --oversubscribe -x $PATIENT -n 2"; do
        rm -f c.safetensors
        # shellcheck disable=SC2086 # words, or none
        shopt -s extglob
        $launcher "$MPIMATMUL" run loop.py --quiet --device cpu > out 2> err < /dev/null 3>&- &
        for ((i = 0; i < 600; i++)); do
            [ ! -e c.safetensors ] || break
            sleep 0.1
        done
        [ -e c.safetensors ]
        kill -TERM $!
        code=0
        wait $! || code=$?
        [ "$code" -eq "$([ -z "$launcher" ] && echo 75 || echo 1)" ] || { echo "$code"; return 1; }
        [[ "$(cat err)" == "mpimatmul: stopped by SIGTERM: not all results were written
mpimatmul: c.safetensors holds turn "+([0-9]) ]] || { cat err; return 1; }
        [ ! -s out ]
    done
}
