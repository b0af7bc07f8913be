#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Jobs with killed mpiruns that restart at once give the result of undisturbed jobs. With another
# seed and more kills: tests/kill_and_restart.py 200 SEED.
load helper

@test "results survive fourteen kills: training, a product, kept values, files of a loop, loops, a Python script" {
    need_plain "python is not linked against the sanitizer"
    need_numpy
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    run "$PYTHON" "$REPO/tests/kill_and_restart.py" 14 1
    [ "$status" -eq 0 ] && [[ "${lines[-1]}" =~ ^"14 kills, "[0-9]+" series, 0 wrong"$ ]] || { show; return 1; }
}
