#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Ranks end with the mpirun that started them, also after its kill, and rename no file into place
# afterwards.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load helper

# A killed mpirun leaves its shared segments behind.
setup_file() {
    export OMPI_MCA_btl_vader_backing_directory=$BATS_FILE_TMPDIR
}

# A small training: every turn writes a checkpoint.
turns() {
    printf '%s\n' 'x = generate((4, 4), seed=1)' 'for i in loop(100000000):' '    x = tanh(x * 0.9 + 0.1)' \
        '    checkpoint("c.safetensors", (x, x * 2), turn=i + 1)' > turns.py
}

# wait_for FILE...: waits ten seconds at most.
wait_for() {
    local i file
    for file in "$@"; do
        for ((i = 0; i < 100; i++)); do
            [ ! -s "$file" ] || continue 2
            sleep 0.1
        done
        echo "no $file after 10 s"
        cat err
        return 1
    done
}

# runs PID: false for a zombie, a process that has ended but was not waited for by its parent.
runs() {
    local state
    state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2> /dev/null) && [ "$state" != Z ]
}

list_files() {
    find . -type f -printf '%p %i %s %C@\n' | sort
}

# kill_launcher RANKS: kills mpirun, process $!. Half a second later no rank runs, and the outputs
# stay unchanged for as long as Open MPI would let ranks continue.
kill_launcher() {
    local launcher=$! rank pids=() files
    for ((rank = 0; rank < $1; rank++)); do
        wait_for "pid.$rank"
        pids+=("$(< "pid.$rank")")
        runs "${pids[$rank]}" || { echo "rank $rank does not run"; cat err; return 1; }
    done
    kill -KILL "$launcher"
    wait "$launcher" || true
    sleep 0.5
    for ((rank = 0; rank < $1; rank++)); do
        ! runs "${pids[$rank]}" || { echo "rank $rank still runs"; return 1; }
    done
    files=$(list_files)
    sleep 1.2
    [ "$(list_files)" = "$files" ] || { diff <(echo "$files") <(list_files); return 1; }
    [[ "$files" != *.part* ]] || { echo "$files"; return 1; }
}

@test "ranks end with a killed mpirun and commit no checkpoint after it" {
    local count
    turns
    for count in 1 2 3; do
        rm -f c.safetensors pid.*
        "${launch[@]}" -n $count "$(recorder)" "$MPIMATMUL" run turns.py > out 2> err < /dev/null 3>&- &
        wait_for c.safetensors
        kill_launcher $count
    done
}

# The script is the parent of the rank and continues to run.
@test "ranks also end when a script stands between them and the killed mpirun" {
    turns
    printf '%s\n' '#!/bin/sh' '"$@" &' 'echo $! > "pid.$OMPI_COMM_WORLD_RANK"' 'wait' > script
    chmod 755 script
    "${launch[@]}" -n 2 ./script "$MPIMATMUL" run turns.py > out 2> err < /dev/null 3>&- &
    wait_for c.safetensors
    kill_launcher 2
}

@test "ranks of a product and of a kept value end with a killed mpirun" {
    "$MPIMATMUL" gen A.bin --dims 61x203 --seed 1
    printf '%s\n' 'save("kept:y", load("A.bin") @ load("A.bin").T)' > keep.py
    export MPIMATMUL_SHARD_DIR=$PWD/shards
    "${launch[@]}" -n 2 "$(recorder)" "$MPIMATMUL" run keep.py --device faulty:delay=20s:cpu --progress none \
        > out 2> err < /dev/null 3>&- &
    wait_for shards/y_shard_0.bin.part shards/y_shard_1.bin.part
    kill_launcher 2
    rm pid.*
    "${launch[@]}" -n 2 "$(recorder)" "$MPIMATMUL" mul A.bin A.bin --transpose-b -o D.bin \
        --device faulty:delay=20s:cpu --progress none > out 2> err < /dev/null 3>&- &
    wait_for D.bin.part
    kill_launcher 2
    [ ! -e D.bin ]
}

@test "ranks of a Python script end with a killed mpirun" {
    need_plain "python is not linked against the sanitizer"
    need_numpy
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    printf '%s\n' 'import mpimatmul as mm' 'x = mm.ones((4, 4))' 'while True:' '    x = mm.tanh(x * 0.9 + 0.1)' \
        '    mm.save("x.npy", x)' > script.py
    "${launch[@]}" -n 2 "$(recorder)" "$PYTHON" script.py > out 2> err < /dev/null 3>&- &
    wait_for x.npy
    kill_launcher 2
}

@test "a process without a launcher outlives its parent" {
    turns
    sh -c '"$MPIMATMUL" run turns.py > out 2> err < /dev/null 3>&- & echo $! > pid.0; exec sleep 60' 3>&- &
    wait_for pid.0 c.safetensors
    kill -KILL $!
    wait $! || true
    sleep 0.5
    runs "$(< pid.0)"
    kill -KILL "$(< pid.0)"
}
