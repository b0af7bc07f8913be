#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# The programs of bench/programs on 1, 2 and 3 ranks and on a CPU with an OpenCL device, compared
# with the same files under CPython with numpy. Each test prints its largest error.

load helper

# Prints the largest error of all saved values, relative to the largest element of each. Fails above
# 2e-6.
compare() {
    python "$@" << 'PYTHON_END'
import sys
import numpy as np
worst = 0
for name in sys.argv[1:]:
    x, y = np.load(name).astype(float), np.load("reference/" + name).astype(float)
    assert x.shape == y.shape, f"{name}: {x.shape}, expected {y.shape}"
    worst = max(worst, abs(x - y).max() / abs(y).max())
print(f"{worst:.2g}")
sys.exit(not worst < 2e-6)
PYTHON_END
}

# example PROGRAM "RESULTS" [NAME=VALUE...]
example() {
    local file=$REPO/bench/programs/$1.py results=$2 way said=''
    need_numpy
    shift 2
    mkdir reference
    cp -- *.npy *.safetensors reference/ 2> /dev/null || true
    (cd reference && py "$REPO/tests/reference.py" "$file" "$@")
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no device 0:0"
    for way in 1 2 3 cpu+0:0; do
        # shellcheck disable=SC2086 # several files
        rm -f $results
        if [ "$way" = cpu+0:0 ]; then
            run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" run "$file" "$@" --device cpu \
                : -n 1 "$MPIMATMUL" run "$file" "$@" --device 0:0 < /dev/null
        else
            ranks "$way" run "$file" "$@" --device cpu
        fi
        expect_quiet_success || return 1
        # shellcheck disable=SC2086
        said+=", $way: $(compare $results)" || { echo "$way$said"; return 1; }
    done
    echo "# $(basename "$file"): largest error$said" >&3
}

@test "attention equals numpy" {
    example attention 'steps.npy fused.npy' rows=150 heads=4
}

@test "the MLP equals numpy" {
    example mlp 'classes.npy best.npy' rows=70 inner=48
}

@test "a block shaped like LLaMA's equals numpy" {
    example llama block.npy rows=60 model=64 heads=4 groups=2 hidden=88
}

@test "similarity search equals numpy" {
    example search 'scores.npy places.npy' queries=130 documents=170 size=24
}

@test "PCA equals numpy" {
    need_numpy
    py "$REPO/bench/programs/example_data.py"
    example pca 'components.npy variances.npy' components=4 turns=3
}

@test "the sentence model with small weights equals numpy" {
    need_numpy
    py "$REPO/bench/programs/example_data.py"
    example sentence vectors.npy layers=2 heads=4
}
