#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Jobs whose mpirun is killed, and that start again at once, end as if nothing had happened. With another seed and more
# kills: tests/restarts.py 200 SEED.
load helper

@test "twelve kills: training, a product, kept values, files of a loop, a Python script" {
    need_plain "python is not linked against the sanitizer"
    need_numpy
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    run "$PYTHON" "$REPO/tests/restarts.py" 12 1
    [ "$status" -eq 0 ] && [[ "${lines[-1]}" =~ ^"12 kills, "[0-9]+" series, 0 wrong"$ ]] || { show; return 1; }
}
