#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# `if` on numbers computed in a turn, break and continue: the results are CPython's and the same on
# all ranks.

load helper

# as_reference OPTION...: ./e.py prints and saves exactly the results of the reference, on 1 to 3
# ranks.
as_reference() {
    mkdir -p expected
    (cd expected && py "$REPO/tests/reference.py" ../e.py > printed)
    for count in 1 2 3; do
        rm -f ./*.npy
        ranks "$count" run e.py --quiet "$@"
        expect_quiet_success
        diff expected/printed - <<< "$output" || return 1
        py -c '
import glob, numpy as np
files = glob.glob("*.npy", root_dir="expected")
assert files and sorted(files) == sorted(glob.glob("*.npy")), files
assert all((np.load(f) == np.load("expected/" + f)).all() for f in files)'
    done
}

@test "break, continue and branches anywhere in a turn, in nested loops of any kind, act as in CPython" {
    need_numpy
    script 'x = generate((40, 12), kind="integer", seed=1)
total = zeros((40, 12))
count, name = 0, "a"
pair = (x, "a", (total, 3))
save("before.npy", total + x)
for k in range(2):
    y = x + k
    for i in loop(6):
        if sum(y) > 900:
            break
        y = y + 1
        for a, b in ((y, 1), (y * 2, 2)):
            if mean(a) * b > 3.5 and not count > 30:
                continue
            total = total + a
            for j in range(4):
                if j == 2:
                    break
                count = count + 1
        if max(y) > 6 or i > 4:
            name = f"{name}{i}"
            save(f"y_{k}_{i}.npy", y)
        elif min(y) > -2:
            pair = (y, name, (total, i))
        else:
            total = total - 1
        for m in loop(3):
            if sum(total) + m > 700 * m:
                print("inner", i, m, count)
                continue
            count = count + 100
            if count > 500: break
        if i % 2 == 1: continue
        print(k, i, count, name, sum(total), pair[1], sum(pair[0]))
for i in loop(3):
    if 0 * max(x) == 0: break
for i in loop(3):
    for j in loop(3):
        if sum(x) + i > j: break
    total = total + j
print(count, name, sum(total), sum(y))
save("after.npy", total + pair[2][0])'
    # A name that only a turn assigns is unknown behind the loop.
    sed -i 's/^for i in loop(3):$/j = 0\n&/' e.py
    as_reference
    as_reference --reproducible
}

@test "a training stops early, remembers its best turn, and a number may become an element" {
    need_numpy
    script 'x = generate((6, 4), kind="integer", seed=1)
w, t = zeros((4, 1)), sum(x, axis=-1)
best, best_w, stop, last, worse = float("inf"), w, -1, 0, 0
for i in loop(2000):
    loss = mse(x @ w, t)
    w = w - 0.02 * grad(loss, w)
    if loss < best:
        best, best_w, worse = loss, w, 0
    else:
        worse += 1
    if worse == 3:
        break
    if i > 5 and loss < 0.01:
        stop, last = i, i
        print("stop at", i, f"{loss:.3f}")
        break
    last = i
print(stop, last, f"{best:.3f}", worse)
assert_close(best_w, w, 0)
save("stop.npy", zeros((1, 1)) + stop)'
    as_reference
    program run e.py --check
    expect_status 0
    grep -q '^loop in line 4: up to 2000 turns of ' <<< "$output"
    [ "$(grep '^line ' <<< "$output")" = \
        "line 7: the condition of this 'if' is known only in a run: the plan takes its 'else'" ]
    ranks 2 run e.py --report r.json --log log --html page.html --metrics m.jsonl
    expect_status 0
    py -c 'import json; assert json.load(open("r.json"))["before"]["programs"] > 30'
    [ "$(wc -l < log)" -gt 1 ]
    grep -q '</html>' page.html
    grep -q '"turn":24,.*"name":"loss"' m.jsonl
}

@test "types of all branches are those of the same text without loops" {
    need_numpy
    mkdir expected data && ln -s ../data expected/data
    py -c '
import numpy as np
r = np.random.default_rng(1)
np.save("data/d.npy", r.integers(-4, 5, (8, 7)) + 2.0 ** -26)'
    script 'd = load("data/d.npy")
one, two, three, four = zeros((8, 7)), rand((8, 7)) / 3, rand((8, 7)) / 7, rand((8, 7)) / 9
for i in loop(12):
    if sum(one) >= i * 56:
        one = one + 1
    if i == 10 and sum(one) > 10:
        two = two + d
    if not sum(one) > 0:
        three = three + d
    elif sum(one) > 10:
        three = three * d
        if sum(one) > 11:
            four = d - four
    if i == 11 and sum(one) < 1000:
        four = four + d
        break
save("one.npy", one)
save("two.npy", two)
save("three.npy", three)
save("four.npy", four)
print(sum(one))
save("all.npy", one + d)'
    REFERENCE_STORES=float64 as_reference
    py -c '
import numpy as np
kinds = {f: np.load(f + ".npy").dtype for f in ("one", "two", "three", "four", "all")}
assert kinds == dict(one="f4", two="f8", three="f8", four="f8", all="f8"), kinds
assert (np.load("four.npy").astype("f4") != np.load("four.npy")).any()'
}

@test "a run that stopped early continues after a restart, unless its last checkpoint marks all turns as done" {
    local head='x, turns = ones((4, 4)), 50
state, first = restore("c.safetensors", (x, zeros((1, 1))))
print("from", first)
for i in loop(first, turns):
    state = (state[0] + 1, state[1] + sum(state[0]))'
    script "$head
    checkpoint(\"c.safetensors\", state, turn=i + 1)
    if max(state[0]) > 4 + 2 * (first // 5): break
print(max(state[0]))"
    for expected in 5 6; do
        ranks 2 run e.py --quiet
        expect_quiet_success
        [ "$output" = "from $([ "$expected" = 5 ] && echo 0 || echo 4)"$'\n'"$expected" ]
    done
    rm c.safetensors
    script "$head
    if max(state[0]) > 4:
        checkpoint(\"c.safetensors\", state, turn=turns)
        break
    checkpoint(\"c.safetensors\", state, turn=i + 1)
print(max(state[0]))"
    for first in 0 50; do
        ranks 2 run e.py --quiet
        expect_quiet_success
        [ "$output" = "from $first"$'\n'5 ]
    done
}

@test "invalid conditions are refused with their place, and a failure names its turn" {
    local where='where(c, x, y) chooses element by element' other="where(c, x, y) chooses without 'if'"
    local place="'if' on a computed number is only allowed inside loop(...) and outside of functions"
    # fails TEXT LINE [HINT [checked]]: the run ends with 65, and with `checked` so does --check.
    fails() {
        script "x, w = ones((2, 3)), ones((3, 1))
$1"
        program run e.py
        expect_failure 65 "$2" ${3:+"$3"}
        [ "${4:-}" = checked ] || return 0
        program run e.py --check
        expect_failure 65 "$2" ${3:+"$3"}
    }
    fails $'if sum(x) > 3:\n    x = x + 1' "e.py:2:4: $place" "$other" checked
    fails $'for i in range(3):\n    if sum(x) > 3: break' "e.py:3:8: $place" "$other" checked
    fails $'def f(x):\n    if sum(x) > 3: return x\n    return x * 2\nfor i in loop(3):\n    x = f(x)' \
        "e.py:3:8: $place" "$other" checked
    fails $'for i in loop(3):\n    if x > 3: break' 'e.py:3:8: a condition must be a number, found a matrix' \
        "$where" checked
    fails $'for i in loop(3):\n    if "a": break' 'e.py:3:8: a condition must be a number, found a string' '' checked
    fails break 'e.py:2:1: break outside of a loop' '' checked
    fails $'if 1:\n    continue' 'e.py:3:5: continue outside of a loop'
    fails $'for i in loop(3):\n    def f(x):\n        break' 'e.py:4:9: break outside of a loop'
    fails 'break = 3' 'e.py:2:1: break outside of a loop'
    fails 'x = continue' "e.py:2:5: expected a name, found 'continue'"
    fails $'for i in loop(3):\n    if sum(x) > 0: if i > 0: break' \
        "e.py:3:20: expected the block on separate lines, found 'if'"
    fails $'for i in loop(3):\n    y = sum(x @ w)\n    if y < 0: break\n    g = grad(y, w)' \
        "e.py:5:9: 'y' has no gradient here: it was computed before" \
        "compute a gradient in the same turn as its y, before any 'if' on a number that is computed"
    # The failure lies in the turn, before its `if` and behind it.
    for last in $'if sum(x) > 20:\n        assert_close(x, 0, 0)' \
        $'assert_close(x, 0, 3)\n    if sum(x) > 20: break'; do
        script "x = ones((2, 3))
for i in loop(3):
    x = x + 1
    $last"
        for count in 1 2; do
            ranks $count run e.py
            expect_status 79
            grep -q "^mpimatmul: turn 2: .*e.py:[45]:[59]: not close: the largest difference 4 exceeds" <<< "$stderr"
        done
    done
}
