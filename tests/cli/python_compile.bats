#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Replayed steps in Python against the same steps without replay, bit by bit, on one rank and on
# two. tests/python_compile.py compares them.
# shellcheck disable=SC2030,SC2031,SC2154 # status, output and lines are set by bats

load helper.bash

setup() {
    setup_package
    export OPENBLAS_NUM_THREADS=1 MPIMATMUL_WAIT_SECONDS=100
}

# everywhere LINES PART...: the parts print LINES, on one rank and on two.
everywhere() {
    local expected=$1
    shift
    diff <(echo "$expected") <("$PYTHON" "$REPO/tests/python_compile.py" "$@" 2>&1)
    diff <(echo "$expected") \
        <("${launch[@]}" -n 2 "$PYTHON" "$REPO/tests/python_compile.py" "$@" 2>&1)
}

@test "a replayed step equals the step: changing rates, momentum and decay, shapes, modes, loaded states" {
    everywhere $'adamw ok\nadamw schedule ok\nsgd schedule ok\ntwo batch sizes ok\nmomentum off ok\ndropout ok
train and eval ok\nload_state_dict ok' schedules structures modes replaced
}

@test "values may be arguments and results, and gradients and logits may be used after a replay" {
    everywhere $'functions ok\nused ok\nmethods ok' functions used methods
}

@test "a step that does more than its job runs without replay, with one warning, and an exception changes no state" {
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
