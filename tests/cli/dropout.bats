#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, lines and launch are set by bats and the helper
# dropout: the reference decides the dropped elements, independent of the rank and device that
# compute them.

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# Integers with p = 0.75 or 0.5 make every number exact.
masks() {
    script 'x, y = generate((37, 21), kind="integer", seed=1), generate((2, 3, 5, 7), kind="integer", seed=2)
save("half.npy", dropout(x, 0.5, 3, 7))
save("quarter.npy", dropout(y, 0.75, 3, 8))
save("none.npy", dropout(x, 0, 3, 8))
save("columns.npy", dropout(place(x * 1, "cols"), 0.5, 4, 0).T)
save("product.npy", dropout(x @ x.T, 0.5, 2 ** 53, 123456))
w, loss = x, 0
for step in loop(5):
    loss = sum(dropout(w @ x.T, 0.5, 9, step) * 2)
    w = w + grad(loss, w) / 4
    w = where(w > 4, w - 8, w) * 1
    save(f"w{step}.npy", w)'
}

# same OPTION...: saved values equal the reference's, element by element.
same() {
    rm -f ./*.npy
    run "${ranks[@]}" "$MPIMATMUL" run e.py --quiet "$@" < /dev/null
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    py -c '
import glob, numpy as np
names = glob.glob("*.npy", root_dir="expected")
assert len(names) == 10 and sorted(names) == sorted(glob.glob("*.npy")), names
for name in names:
    mine, theirs = np.load(name), np.load("expected/" + name)
    assert mine.shape == theirs.shape and (mine == theirs).all(), (name, (mine != theirs).sum())'
}

@test "dropout drops the same elements as the reference, on any ranks, devices and placements" {
    need_numpy
    masks
    mkdir expected && (cd expected && py "$REPO/tests/reference.py" ../e.py)
    local ranks=()
    same
    same --device faulty:corrupt=5:cpu
    same --device faulty:fail=9:cpu
    if "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"'; then
        same --device 0:0
    fi
    for count in 2 3; do
        ranks=("${launch[@]}" -n "$count")
        same --device cpu
    done
    same --device cpu --weights 1,3,2
    py -c '
import numpy as np
half, quarter = np.load("half.npy"), np.load("quarter.npy")
assert 0.4 < (half == 0).mean() < 0.7 and 0.65 < (quarter == 0).mean() < 0.95'
}

@test "dropout refuses invalid arguments" {
    refuses $'x = generate((3, 4))\nsave("y.npy", dropout(x, 1, 1, 0))' \
        'e.py:2:15: dropout of 1: expected at least 0, and less than 1'
    refuses $'x = generate((3, 4))\nsave("y.npy", dropout(x, 0.5, -1, 0))' \
        'e.py:2:15: dropout: seed and turn are whole numbers from 0 on'
    refuses $'x = generate((3, 4))\nsave("y.npy", dropout(x, 0.5, 1, 0.5))' \
        'e.py:2:34: turn is a number, expected a whole number'
    refuses $'x = generate((3, 4))\nsave("y.npy", dropout(3, 0.5, 1, 0))' \
        'e.py:2:23: x is a whole number, expected a matrix'
}
