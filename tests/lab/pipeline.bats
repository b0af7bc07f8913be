#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Stages of a pipeline on hosts of their own: losses equal the reference's, each host has its own
# layers, and only the values passed between stages cross the network.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper
load hosts

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test
    cp /usr/share/common-licenses/GPL-3 book.txt
}

settings=(corpus=book.txt layers=3 heads=2 width=32 length=16 count=8 every=1 turns=4 saves=100)

# agree HOSTS STAGES
agree() {
    run --separate-stderr lab_mpirun "$1" "$MPIMATMUL" run "$REPO/bench/programs/pipeline.py" "${settings[@]}" \
        stages="$2" file=none.safetensors --quiet
    [ "$status" -eq 0 ] || { echo "$output" "$stderr"; return 1; }
    paste <(cut -d' ' -f2 expected) <(cut -d' ' -f2 <<< "$output") |
        awk '{ d = $1 - $2; if (d < -1e-4 || d > 1e-4) exit 1; n++ } END { exit n != 4 }'
}

@test "stages on hosts of their own, of one and of several ranks, give the losses of the reference" {
    need_numpy
    py "$REPO/tests/reference.py" "$REPO/bench/programs/pipeline.py" "${settings[@]}" file=none.safetensors > expected
    agree node1:1,node2:1 2
    agree node1:1,node2:1,node3:1 3
    agree node1:2,node2:1 3
}

@test "a host has the layers of its stage, and gradients stay there" {
    run --separate-stderr lab_mpirun node1:1,node2:1 "$MPIMATMUL" run "$REPO/bench/programs/pipeline.py" \
        "${settings[@]}" width=128 layers=4 micro=1 --check
    [ "$status" -eq 0 ] || { echo "$output" "$stderr"; return 1; }
    # Only 8 windows of 16 tokens in 128 columns of float32 go to the second stage, and their
    # gradient back, with ids and the sums of squares. All gradients of the model would be 3 MiB.
    [[ $output =~ s,\ ([0-9.]+)\ KiB\ between\ nodes ]]
    [ "${BASH_REMATCH[1]%.*}" -ge 128 ] && [ "${BASH_REMATCH[1]%.*}" -le 140 ]
}

@test "a lost stage ends the job" {
    local code=0 job
    LAB_SECONDS=400 lab_mpirun node1:1,node2:1 "$MPIMATMUL" run "$REPO/bench/programs/pipeline.py" "${settings[@]}" \
        turns=100000 > job.out 2> job.err 3>&- &
    job=$!
    until grep -q '^3 ' job.out; do
        kill -0 "$job"
        sleep 0.1
    done
    # shellcheck disable=SC2046 # one or several
    kill -KILL $(lab_program_pids node2)
    wait "$job" || code=$?
    [ "$code" -ge 130 ] && [ "$code" -le 143 ] || { echo "$code"; cat job.err; return 1; }
}
