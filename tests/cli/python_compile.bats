#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Steps in Python that are replayed, against the same steps without: bit by bit, on one rank and on two. The comparisons
# are in tests/python_compile.py.
# shellcheck disable=SC2030,SC2031,SC2154 # status, output and lines are set by bats

load helper.bash

setup() {
    setup_package
    export OPENBLAS_NUM_THREADS=1 MPIMATMUL_WAIT_SECONDS=100
}

# everywhere LINES PART...: prints these, on one rank and on two.
everywhere() {
    local expected=$1
    shift
    diff <(echo "$expected") <("$PYTHON" "$REPO/tests/python_compile.py" "$@" 2>&1)
    diff <(echo "$expected") \
        <("${launch[@]}" -n 2 "$PYTHON" "$REPO/tests/python_compile.py" "$@" 2>&1)
}

@test "a replayed step is the step: rates, momentum and decay that change, shapes, modes, loaded states" {
    everywhere $'adamw ok\nadamw schedule ok\nsgd schedule ok\ntwo batch sizes ok\nmomentum off ok\ndropout ok
train and eval ok\nload_state_dict ok' schedules structures modes replaced
}

@test "values among arguments and results, gradients and logits that are used after a replay" {
    everywhere $'functions ok\nused ok\nmethods ok' functions used methods
}

@test "a step that is more than its job runs as before, with one warning; an exception leaves all as it was" {
    everywhere "reads ok
['step is not replayed: it reads a value']
counts ok
[\"step is not replayed: it changes 'calls'\"]
takes ok
['step is not replayed: it takes the next of an iterator']
draws ok
['step is not replayed: it draws random numbers']
makes ok
['step is not replayed: it makes an array']
prints ok
['step is not replayed: it prints']
scale ok
interrupted ok" refused interrupted
}
