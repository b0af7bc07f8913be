#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Local SGD on one node: its results and the refused texts. tests/lab/local_sgd.bats runs it on several
# nodes.
# shellcheck disable=SC2154 # status and output are set by bats
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    cat > begin.py <<'END'
table = generate((40, 3), "normal", seed=1)
goals = generate((40, 1), "normal", seed=2)


def inner(state, turn):
    x, y = batch(table, goals, 4, seed=3, turn=turn)
    return sgd(state, grad(mse(x @ state[0], y), state[0]), rate=0.1, momentum=0.5)


state = sgd_state(generate((3, 1), "normal", seed=4))
END
}

# refused LINE:COLUMN TEXT HINT: the program on stdin, appended to the common beginning, ends with
# 65 and this error. --check gives the same error.
refused() {
    cat begin.py - > bad.py
    for check in "" --check; do
        # shellcheck disable=SC2086 # no word, or one
        run --separate-stderr "$MPIMATMUL" run bad.py $check
        [ "$status" -eq 65 ] || { echo "$check $status"; return 1; }
        [ "${stderr_lines[0]}" = "mpimatmul: bad.py:$1: $2" ] || { echo "$stderr"; return 1; }
        [ -z "$3" ] || [[ "$stderr" == *"hint: $3"* ]] || { echo "$stderr"; return 1; }
    done
}

@test "outer steps on one node equal the reference's, with and without a loop, on one rank and three" {
    cat begin.py - > a.py <<'END'
new = apart(inner, state, 0, 3)
print("first", sum(average(new[0])), sum(average(new)[1]))
outer = nesterov_state(state[0])
for step in loop(6):
    new = apart(inner, new, 3 + 2 * step, 2)
    for i in loop(2):
        outer = nesterov(outer, average(new[0]))
    print(step, mse(table @ outer[0], goals))
save("w.npy", outer[0])
END
    py "$REPO/tests/reference.py" a.py > want
    mv w.npy want.npy
    for ranks in 1 3; do
        run --separate-stderr "${launch[@]}" -n "$ranks" "$MPIMATMUL" run a.py --quiet --weights "$(seq -s , "$ranks")"
        [ "$status" -eq 0 ]
        echo "$output" > got
        [ "$(wc -l < got)" -eq 7 ]
        py - <<'END'
import re
import numpy as np
got, want = ([float(x) for x in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", open(name).read())] for name in ("got", "want"))
assert len(got) == len(want) and np.allclose(got, want, rtol=1e-4, atol=1e-5), (got, want)
assert np.abs(np.load("w.npy") - np.load("want.npy")).max() < 1e-5
END
    done
    run --separate-stderr "$MPIMATMUL" run a.py --check
    [ "$status" -eq 0 ]
    diff <(grep -E '^(apart|loop| +with)' <<< "$output" | sed -E 's/[0-9.]+ s/N s/') - <<'END'
loop in line 14: 6 turns of N s, 0 B between nodes per turn; carried: new (2 matrices), outer (2 matrices)
loop in line 16: 2 turns of N s, 0 B between nodes per turn; carried: outer (2 matrices)
apart in line 11: 3 turns of N s on each node, 0 B between nodes per turn (0 B if together); state: 2 matrices
apart in line 15: 2 turns of N s on each node, 0 B between nodes per turn (0 B if together); state: 2 matrices
END
}

@test "diloco.py learns as the reference does and continues from its checkpoint" {
    local small=("$REPO/bench/programs/diloco.py" layers=1 heads=2 width=16 length=8 count=4 inners=3 corpus=book.txt)
    cp /usr/share/common-licenses/GPL-3 book.txt
    py "$REPO/tests/reference.py" "${small[@]}" outers=3 > want
    rm diloco.safetensors
    "$MPIMATMUL" run "${small[@]}" outers=2 --quiet > got
    "${launch[@]}" -n 2 "$MPIMATMUL" run "${small[@]}" outers=3 --quiet > on
    [ "$(cut -d" " -f1 on)" = 2 ]
    py - <<'END'
import numpy as np
got, want = np.loadtxt("got"), np.loadtxt("want")
assert np.abs(got - want[:2]).max() < 1e-4, (got, want)
END
    rm diloco.safetensors # a node may have one window
    py "$REPO/tests/reference.py" "${small[@]}" outers=1 count=1 > want
    rm diloco.safetensors
    "$MPIMATMUL" run "${small[@]}" outers=1 count=1 --quiet > got
    py -c 'import numpy as np; assert np.abs(np.loadtxt("got") - np.loadtxt("want")).max() < 1e-4'
}

@test "--on-nan skip reports the skipped turns, behind a loop and without one" {
    cat > n.py <<'END'
table = generate((40, 3), "normal", seed=1)
goals = generate((40, 1), "normal", seed=2)


def inner(state, turn):
    x, y = batch(table, goals, 4, seed=3, turn=turn)
    g = grad(mse(x @ state[0][1], y), state[0][1]) / ((turn - 2) * (turn - 4))
    state = sgd(state, (state[0][0] * 0, g), rate=0.1, momentum=0.5)
    return sgd(state, (g * (turn - 4), g * 0), rate=0.1)


w = generate((3, 1), "normal", seed=4)
new = apart(inner, sgd_state((w, w)), 0, 3)
for step in loop(2):
    new = apart(inner, new, 3 + step, 1)
    print(step, sum(average(new[0][0])), sum(average(new[0][1])))
END
    cat > want <<'END'
mpimatmul: warning: node 0, turn 2: n.py:8:13: gradient '(state[0][0] * 0, g)[1]' is not finite: no step
mpimatmul: warning: node 0, turn 2: n.py:9:12: gradient '(g * (turn - 4), g * 0)[0]' is not finite: no step
mpimatmul: warning: turn 1: node 0, turn 4: n.py:8:13: gradient '(state[0][0] * 0, g)[1]' is not finite: no step
mpimatmul: warning: turn 1: node 0, turn 4: n.py:9:12: gradient '(g * (turn - 4), g * 0)[0]' is not finite: no step
END
    for ranks in 1 3; do
        run --separate-stderr "${launch[@]}" -n "$ranks" "$MPIMATMUL" run n.py --quiet --on-nan skip
        [ "$status" -eq 0 ]
        diff want <(echo "$stderr")
        [ "$(cut -d' ' -f2- <<< "${lines[0]}")" = "$(cut -d' ' -f2- <<< "${lines[1]}")" ]
    done
}

trained='new = apart(inner, state, 0, 1)'

@test "values that are local to a node are read by average alone" {
    local everywhere="this value differs between the nodes" remedy="average(x) combines them"
    refused 12:7 "$everywhere" "$remedy" <<< "$trained"$'\nprint(new[0] * 2)'
    refused 12:1 "$everywhere" "$remedy" <<< "$trained"$'\ncheckpoint("c.safetensors", new, turn=1)'
    refused 11:1 "average needs a result of apart(...): all nodes have the same value here" "" <<< 'average(state[0])'
    refused 11:1 "average needs matrices or tuples of them, found a whole number" "" <<< 'average(3)'
    [ ! -e c.safetensors ]
}

@test "the function of local steps takes a state and a turn and returns a state of the same structure" {
    refused 11:13 "expected the name of a function defined in this file" "" <<< 'new = apart(state, state, 0, 1)'
    refused 11:7 "apart: first must be at least 0 and turns at least 1" "" <<< 'new = apart(inner, state, 0, 0)'
    refused 11:20 "the state must contain matrices" "" <<< 'new = apart(inner, (1, 2), 0, 1)'
    refused 11:8 "apart must be assigned outside of functions: NAME = apart(...)" "" <<< \
        'new = (apart(inner, state, 0, 1), 1)'
    refused 13:13 "f must be a function of two parameters, a state and a turn" "" << 'END'
def one(x):
    return x
new = apart(one, state, 0, 1)
END
    refused 13:7 "half changes the structure of its state: other matrices or shapes" "" << 'END'
def half(state, turn):
    return state[0]
new = apart(half, state, 0, 1)
END
    refused 12:5 "print cannot be used inside apart(...)" "call it before apart(...), or after it on average(...)" \
        << 'END'
def shown(state, turn):
    print(turn)
    return state
new = apart(shown, state, 0, 1)
END
}
