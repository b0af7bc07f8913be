#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats and the helper
# The source line shown with the refusal of a program, and replacements proposed by the hints.

load helper

@test "run: the hints for names of numpy and torch propose replacements that give the same results" {
    need_numpy
    "$MPIMATMUL" gen x.npy --dims 4x4 --seed 1 --quiet
    "$MPIMATMUL" gen y.npy --dims 4x4 --seed 2 --quiet
    python << 'END'
import numpy as np
np.save("ids.npy", np.array([[3, 0]], "i4"))
END
    local head='x, y, ids = load("x.npy"), load("y.npy"), load("ids.npy")
m, n, value, table, k = 4, 4, 3, x, 1
axes = (1, 0)' name count=0
    while IFS='|' read -r name reference; do
        script "$head
z = $name(x, y)"
        program run e.py
        expect_status 65
        [[ "$stderr" == *"unknown name '$name'"* ]]
        script "$head
save(\"z.npy\", ${stderr##*hint: })"
        program run e.py -q
        expect_quiet_success
        python "$reference" << 'END'
import sys
import numpy as np
x, y, ids = (np.load(name + ".npy") for name in ("x", "y", "ids"))
expected = np.asarray(eval(sys.argv[1]), float)
z = np.load("z.npy").reshape(expected.shape)
assert np.abs(z - expected).max() < 1e-5, (sys.argv[1], z, expected)
END
        count=$((count + 1))
    done << 'END'
zeros_like|np.zeros_like(x)
ones_like|np.ones_like(x)
full|np.full((4, 4), 3)
identity|np.identity(4)
dot|np.dot(x, y)
matmul|np.matmul(x, y)
add|np.add(x, y)
subtract|np.subtract(x, y)
multiply|np.multiply(x, y)
divide|np.divide(x, y)
square|np.square(x)
concatenate|np.concatenate((x, y))
vstack|np.vstack((x, y))
hstack|np.hstack((x, y))
embedding|x[ids]
trace|np.trace(x)
inner|np.inner(x, y)
tensordot|np.tensordot(x, y, 1)
bmm|x @ y
roll|np.roll(x, 1, -1)
pad|np.pad(x, ((0, 0), (0, 1)))
ravel|np.ravel(x)
isinf|np.isinf(x)
isfinite|np.isfinite(x)
logical_not|np.logical_not(x)
tan|np.tan(x)
leaky_relu|np.where(x > 0, x, 0.01 * x)
elu|np.where(x > 0, x, np.expm1(x))
trunc|np.trunc(x)
END
    [ "$count" -eq 29 ]
}

@test "run: a refusal shows the line and a caret: long lines cut, with their tabs, in columns of characters" {
    shown_source=$'    y = "\té\t" + sofmax(1)\n         \t \t    ^'
    refuses $'x = 1\ny = "\té\t" + sofmax(1)' "e.py:2:13: unknown name 'sofmax'" "'softmax'?"
    # 120 columns: cut at both ends, at the end, at the beginning, not at all.
    local ones eight
    ones=$(printf '1 + %.0s' {1..30})
    eight=$(printf '%*s' 8 '')
    shown_source="    ..$(printf '%0.s1 + ' {1..14})sofmax(1)$(printf ' + 1%.0s' {1..11}) + .."
    shown_source+=$'\n'"$(printf '%62s' '')^"
    refuses "x = ${ones}sofmax(1)$(printf ' + 1%.0s' {1..30})" \
        "e.py:1:125: unknown name 'sofmax'" "'softmax'?"
    [ "$(wc -L <<< "$shown_source")" -le 120 ]
    shown_source="    x = sofmax(1)$(printf ' + 1%.0s' {1..25}) .."$'\n'"$eight^"
    refuses "x = sofmax(1)$(printf ' + 1%.0s' {1..60})" "e.py:1:5: unknown name 'sofmax'" "'softmax'?"
    unset shown_source
    # Control characters for a terminal.
    printf 'x = "\033[1m" + sofmax(1)\n' > e.py
    program run e.py
    shown_source=$'    x = "?[1m" + sofmax(1)\n                 ^'
    expect_failure 65 "e.py:1:14: unknown name 'sofmax'" "'softmax'?"
    # A pipe can be read only once.
    unset shown_source
    run --separate-stderr "$MPIMATMUL" run - <<< 'x = sofmax(1)'
    expect_failure 65 "-:1:5: unknown name 'sofmax'" "'softmax'?"
}
