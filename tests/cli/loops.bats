#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, lines and launch are set by bats and the helper
# Loops: each turn is a program of its own, and the ranks hold the carried values.

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# placeless: drops the placements of matrices from the lines, which the reference does not know.
placeless() {
    sed -E 's/, (file|replicate|partial|rows|cols|grid)[^;]*;/;/g' <<< "${output:?}"
}

# as_reference OPTION...: ./e.py prints and saves exactly the results of the reference, on 1 to 3
# ranks.
as_reference() {
    mkdir -p expected
    (cd expected && py "$REPO/tests/reference.py" ../e.py > printed)
    for count in 1 2 3; do
        rm -f ./*.npy
        run "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --quiet "$@"
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
        diff expected/printed <(placeless) || return 1
        py -c '
import glob, numpy as np
files = glob.glob("*.npy", root_dir="expected")
assert files and sorted(files) == sorted(glob.glob("*.npy")), files
assert all((np.load(f) == np.load("expected/" + f)).all() for f in files)'
    done
}

integers='x = generate((40, 12), kind="integer", seed=1)
w = generate((12, 12), kind="integer", seed=2)
total = generate((40, 12), kind="zeros")
count = 0
pair = (x, "a", (w, 3))
save("before.npy", total + x)

def again(y):
    return minimum(maximum(y @ w + count, -3), 3)
'

@test "carried matrices, numbers, tuples, functions, prints and files equal CPython's" {
    need_numpy
    script "$integers"'
for i in loop(7):
    y = again(x)
    x = y + i % 2
    total = total + x
    count = count + 2
    pair = (pair[0] + 1, f"{pair[1]}{i}", (pair[2][0], count))
    if i % 3 == 2:
        print(i, count, sum(x), pair[1])
        save(f"x_{i}.npy", x)
print(count, total, pair[1], sum(pair[0]), sum(pair[2][0]))
for k in range(2):
    total = total * 2
for k in loop(0):
    total = total * 0
for k in loop(3, 6):
    total = total + k
save("after.npy", total)'
    as_reference
    as_reference --verify off
}

@test "loops nest" {
    need_numpy
    script "$integers"'
for i in loop(2, 5):
    part = generate((40, 12), kind="zeros")
    y = x * i
    for j in loop(3):
        part = part + y * j
        count = count + 1
        print(i, j, count, sum(part))
    total = total + part
    for j in range(2):
        total = total - 1
save("total.npy", total)'
    as_reference
}

@test "loops inside unrolled loops have the outer names and files in every round" {
    need_numpy
    script "$integers
for k in range(2):
    y = x @ w
    save(f\"round_{k}.npy\", y)
    for i in loop(2):
        total = total + y
    for a in (1, 2.5):
        if k < a:
            z = w * a
        for i in loop(1, 3):
            total = total - z[:1]
            save(f\"turn_{k}_{a}_{i}.npy\", total)
for left, number in ((x, 1), (x @ w, 2)):
    for i in loop(2):
        for right, a in ((w, 1), (w + 1, 2.5)):
            for j in loop(2):
                total = total + number * (left @ right)
                print(number, i, a, j)
save(\"after.npy\", total)"
    as_reference
    script 'x = ones((2, 2))
save("before.npy", x)
for k in range(2):
    save(f"round_{k}.npy", x)
    for i in loop(2):
        save(f"turn_{k}_{i}.npy", x)
    assert_close(x, k + 1, 0)'
    rm -f ./*.npy
    program run e.py
    expect_failure 79 'e.py:7:5: not close: the largest difference 1 exceeds the tolerance 0'
    [ "$(echo ./*.npy)" = './turn_0_0.npy ./turn_0_1.npy ./turn_1_0.npy ./turn_1_1.npy' ]
}

@test "a value that a turn assigns before it reads it may have changed its size" {
    need_numpy
    script "$integers"'
y, k = x[:6, :], w
def double(t):
    return t + t
for i in loop(1, 4):
    y = x[:3 * i, :]
    if i % 2 == 0:
        k = y @ w
    else:
        k = "odd"
    total = total + sum(double(y))
    for k in range(2):
        total = total + k
print(k, sum(y))
save("y.npy", y)
save("total.npy", total)'
    as_reference
}

@test "a turn, and the end of a text, may consist of prints alone" {
    need_numpy
    script 'x = generate((4, 4), kind="integer", seed=1)
n = 0
for i in loop(3):
    for j in loop(2):
        x = x + 1
    n = n + 1
    print("turn", i, n)
for i in loop(2):
    print(f"and {i}")
print("end", n)'
    py "$REPO/tests/reference.py" e.py > expected
    for count in 1 2 3; do
        run "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --quiet
        [ "$status" -eq 0 ]
        diff expected <(echo "$output")
    done
}

@test "a model learns as it does under CPython, on any device" {
    need_numpy
    script 'x = generate((64, 10), kind="normal", seed=1)
t = tanh(x @ generate((10, 3), kind="normal", seed=2))
state = (generate((10, 3), kind="zeros"), generate((1, 3), kind="zeros"))
rate = 0.3
for step in loop(40):
    loss = mse(tanh(x @ state[0] + state[1]), t)
    g = grad(loss, state)
    rate = rate * 0.99
    state = (state[0] - rate * g[0], state[1] - rate * g[1])
    if step % 10 == 9:
        print(step, loss)
save("w.npy", state[0])'
    py "$REPO/tests/reference.py" e.py > expected
    mv w.npy expected.npy
    for device in cpu faulty:corrupt=50:cpu faulty:fail=70:cpu 0:0; do
        [ "$device" = 0:0 ] && ! "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' && continue
        run "${launch[@]}" -n 2 "$MPIMATMUL" run e.py --quiet --device "$device"
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
        py -c '
import numpy as np
assert np.abs(np.load("w.npy") - np.load("expected.npy")).max() < 1e-5
for mine, theirs in zip(open("expected"), """'"$output"'""".splitlines()):
    (a, x), (b, y) = mine.split(), theirs.split()
    assert a == b and abs(float(x) - float(y)) < 1e-5 * float(x), (mine, theirs)'
    done
}

@test "progress counts turns of the outer loop, not the steps inside one" {
    need_numpy
    script 'x = generate((64, 64), seed=1)
for i in loop(2, 10):
    for j in loop(2):
        x = tanh(x @ x)
    print(i)
save("x.npy", x)'
    run --separate-stderr "${launch[@]}" -n 2 "$MPIMATMUL" run e.py --device faulty:delay=100ms:cpu --progress bar
    expect_status 0
    printf '%s' "$stderr" > bar
    python <<'END'
import re
text = open("bar").read()
found = re.findall(r"\[([#.]{24})\] turn (\d+) of 10, [0-9.]+ turns/s, \d+ s left", text)
turns = [int(turn) for _, turn in found]
assert len(set(turns)) >= 4 and turns == sorted(turns) and turns[-1] <= 10, text
assert all(bar.count("#") == 24 * (turn - 1 - 2) // 8 for bar, turn in zip([b for b, _ in found], turns)), text
# The part before the loop has a bar of its own if it takes long.
assert "run " not in text[text.index(" of 10, "):text.index("turn 10 of 10")], text
END
    run --separate-stderr "$MPIMATMUL" run e.py --device faulty:delay=20ms:cpu --progress bar --quiet
    [[ $stderr != *turn* ]]
}

@test "ten times the turns take no more memory" {
    script 'state = (generate((100, 100), seed=1), "", 1)
for i in loop(turns):
    y = tanh(state[0] @ state[0] * 0.01)
    state = (y, f"turn {i}", i)
    if i % 100 == 0:
        print(state[1], sum(y))'
    for turns in 200 2000; do
        (echo "turns = $turns"; cat e.py) > "$turns.py"
        command time -f %M -o "$turns.kib" "$MPIMATMUL" run "$turns.py" --quiet > /dev/null
    done
    # 600 bytes of a turn
    [ "$(cat 2000.kib)" -le $(($(cat 200.kib) + 1024)) ] || { cat ./*.kib; return 1; }
}

# fails TEXT LINE [STATUS]: the run fails. STATUS `checked`: 65, with --check, too.
fails() {
    printf 'x = generate((3, 4))\n%s\n' "$1" > e.py
    if [ "${3:-}" = checked ]; then
        run "$MPIMATMUL" run e.py --check
        [ "$status" -eq 65 ]
        [ "${lines[0]}" = "mpimatmul: $2" ] || { echo "$output"; return 1; }
        set -- "$1" "$2" 65
    fi
    for count in 1 2; do
        run "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --quiet
        [ "$status" -eq "${3:-65}" ]
        # If several ranks find the fault, the first one reports it.
        sed -E 's/^(mpimatmul: turn [0-9]+: )rank [0-9]+ on [^ ]+: /\1/' <<< "$output" | grep -qxF "mpimatmul: $2" ||
            { echo "$output"; return 1; }
    done
}

@test "statements that a loop cannot hold are refused, and a failure names the turn" {
    need_numpy
    py -c 'import numpy as np; np.save("i.npy", [[0, 3, 2]])'
    fails $'for i in loop(3):\n    x = concat((x, x), 0)' \
        "e.py:2:5: 'x' is 3 x 4 at the beginning of a turn and 6 x 4 at its end" checked
    fails $'for i in loop(3):\n    x = (x, 1)' \
        "e.py:2:5: 'x' is a matrix at the beginning of a turn but changes its structure, or is a tuple, at its end" \
        checked
    fails $'for i in loop(3):\n    y = x + i\nsave("y.npy", y)' \
        "e.py:4:15: 'y' was assigned only inside a loop(...) that has ended" \
        checked
    fails $'for i in loop(3):\n    if i > 0:\n        x = y\n    y = x + i' \
        "e.py:4:13: 'y' was assigned only inside a loop(...) that has ended"
    fails $'def f(x):\n    for i in loop(3):\n        x = x + 1\n    return x\ny = f(x)' \
        'e.py:3:5: loop(...) is not allowed inside a function' checked
    fails $'for k in loop(1.5):\n    x = x' 'e.py:2:15: a bound of loop is a number, expected a whole number'
    fails $'for k in loop(0, 9, 2):\n    x = x' 'e.py:2:21: loop takes one or two whole numbers'
    fails 'y = loop(3)' 'e.py:2:5: loop can only be used in a loop: for i in loop(...):'
    fails $'i = load("i.npy")\nfor k in loop(5):\n    y = cross_entropy(x[:, :2] * 1, minimum(i, k))' \
        "turn 2: e.py:4:9: 'minimum(i, k)' contains 2, but cross_entropy needs whole numbers from 0 to 1 as indices"
    fails $'for k in loop(3):\n    x = x + 1\n    assert_close(x, x + k // 2, 0.5)' \
        'turn 2: e.py:4:5: not close: the largest difference 1 exceeds the tolerance 0.5' 79
}

@test "--json has the prints of all turns; log, trace and report show the last turn, with sums" {
    need_numpy
    script 'x = generate((40, 12), kind="integer", seed=1)
print("before", sum(x))
for i in loop(2, 4):
    x = x @ x.T @ x
    print(i, sum(x))
    for j in loop(2):
        x = minimum(maximum(x + j, -3), 3)
        print(i, j, sum(x))
print("end", sum(x * 2))
save("x.npy", x)'
    for count in 1 2 3; do
        run "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --quiet
        echo "$output" > printed
        "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --json --report r.json --log log --trace t.json > j.json
        py - "$REPO/include" "$count" <<'END'
import json, sys
run, report, trace = (json.load(open(f)) for f in ("j.json", "r.json", "t.json"))
assert [line["text"] for line in run["printed"]] == open("printed").read().splitlines(), run
assert run["saved"] == [{"file": "x.npy", "shape": [40, 12]}] and run["before"]["programs"] == 7, run
before, operations = report["before"], {o["operation"] for o in report["operations"]}
assert before["programs"] == 6 and 0 < before["wall_seconds"] < run["before"]["wall_seconds"], before
assert before["lines_checked"] > 0 and before["flops"] > 2 * 2 * 2 * 40 * 40 * 12, before
assert any("maximum" in o for o in operations) and not any("matmul" in o for o in operations), operations
log = [line.split("\t") for line in open("log").read().splitlines()]
assert {line[3] for line in log[1:]} == set(map(str, range(int(sys.argv[2])))) and "maximum" in str(log), log
assert "maximum" in str(trace) and "matmul" not in str(trace)
try:
    import jsonschema
except ImportError:
    sys.exit()
jsonschema.validate(run, json.load(open(sys.argv[1] + "/mpimatmul_run.schema.json")))
jsonschema.validate(report, json.load(open(sys.argv[1] + "/mpimatmul_report.schema.json")))
END
    done
    script $'for i in loop(2):\n    print(i)'
    run "$MPIMATMUL" run e.py --json --report r2.json
    [ "$status" -eq 0 ]
    [[ $output == *'"text": "1"'* ]]
    [ ! -e r2.json ]  # the plan has not run
}

@test "a loop that fails discards files saved before it and keeps files saved by its turns" {
    script 'x = generate((3, 4))
save("before.npy", x)
for k in loop(5):
    x = x + 1
    save(f"x{k}.npy", x)
    assert_close(x, x + k // 3, 0.5)'
    run "${launch[@]}" -n 2 "$MPIMATMUL" run e.py --quiet
    [ "$status" -eq 79 ]
    [ "$(echo ./*.npy*)" = "./x0.npy ./x1.npy ./x2.npy" ]
}

@test "--check plans one turn, prints the facts common to all turns, and runs nothing" {
    script 'x, rate = generate((600, 400), kind="normal"), 1
pair = ((x, "a"), x)
for i in loop(5, 1000000):
    x, y = tanh(x @ (x.T @ x)) * rate, 3
    rate = rate + i
    for j in loop(1):
        pair = ((x, "b"), pair[1])
for k in loop(0):
    x = x + 1
for k in loop(2):
    y = x * 2
save("x.npy", x)'
    for count in 1 2; do
        run "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --check
        [ "$status" -eq 0 ]
        [ "$(grep -c tanh <<< "$output")" -ge 1 ]
        awk '/^loop/ && $8 > 0 {n++} END {exit n < 1}' <<< "$output"
        diff <(sed -E -n '/^loop/{s/of [0-9.]+ s, [0-9.]+ [KM]?i?B/of N s, N B/;p}' <<< "$output") - << 'END'
loop in line 3: 999995 turns of N s, N B between nodes per turn; carried: x (600 x 400), rate, pair (2 matrices)
loop in line 6: 1 turn of N s, N B between nodes per turn; carried: pair (2 matrices)
loop in line 10: 2 turns of N s, N B between nodes per turn; carried: nothing
END
    done
    [ ! -e x.npy ]
}

# Values that the ranks hold have one placement for all turns. Large ones are shared by measured
# speeds even without stored ones, small ones equally.
@test "a large carried value is shared by measured speeds" {
    need_numpy
    export XDG_CACHE_HOME=$PWD/cache
    script 'rows = 1
x = generate((rows, 1000), kind="normal", seed=1)
for step in loop(3):
    x = x * 0.5
save("x.npy", x)'
    for rows in 1100 900; do
        local words=(run e.py "rows=$rows" --quiet --report report.json)
        run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" "${words[@]}" --device cpu \
            : -n 1 "$MPIMATMUL" "${words[@]}" --device faulty:clock=50ms:cpu < /dev/null
        [ "$status" -eq 0 ] || { show; return 1; }
        py -c '
import json, sys
first, second = (r["calibrated_flops_per_second"] for r in json.load(open("report.json"))["ranks"])
assert 0 < 10 * second < first if int(sys.argv[1]) >= 1049 else first == second == 0, (first, second)' "$rows"
    done
}

@test "a loop may be the last statement: with lines, checkpoints, saves or none, each with a summary and a page" {
    need_numpy
    python << 'END'
import numpy as np
np.save("d.npy", np.arange(6.).reshape(2, 3))
np.save("f.npy", np.arange(6, dtype="f4").reshape(2, 3))
END
    for file in d f; do
        for last in 'print(mean(x, axis=None))' 's = s + x' 'checkpoint("c.safetensors", s + x, turn=i + 1)' \
            'save(f"s_{i}.npy", s + x)' 'assert_close(x, x, 0)'; do
            script "x = load(\"$file.npy\")
s = zeros((2, 3))
for i in loop(3):
    $last"
            for count in 1 2; do
                rm -f page.html
                ranks $count run e.py --html page.html
                expect_status 0
                grep -q '^wall ' <<< "$output" || { show; return 1; }
                grep -q '</html>' page.html
                [[ "$last" != print* ]] || [ "$(grep -c -x 2.5 <<< "$output")" -eq 3 ]
            done
        done
    done
    program run e.py --quiet
    expect_quiet_success
}

# as_range: the text in $1 with loops makes the same bits, types and lines as with range, on 1 and 2
# ranks.
as_range() {
    printf '%s\n' "$1" > loop.py
    sed 's/ in loop(/ in range(/' loop.py > range.py
    for count in 1 2; do
        for kind in loop range; do
            rm -rf "$kind" && mkdir "$kind"
            run --separate-stderr "${launch[@]}" -n "$count" "$MPIMATMUL" run $kind.py --quiet --verify off
            expect_status 0
            touch $kind/printed
            [ -z "$output" ] || placeless > $kind/printed
            mv ./*_o.npy $kind/
        done
        diff loop/printed range/printed || return 1
        py -c '
import glob, sys
import numpy as np
for f in sorted(glob.glob("*.npy", root_dir="range")):
    made, expected = np.load("loop/" + f), np.load("range/" + f)
    assert made.dtype == expected.dtype, (f, made.dtype, expected.dtype)
    assert made.tobytes() == expected.tobytes(), (f, abs(made - expected).max())
    assert f[0] not in "dt" or made.dtype == np.float64, (f, made.dtype)
    assert f[0] != "d" or (made.astype("f4") != made).any(), f
assert glob.glob("*.npy", root_dir="range")' || return 1
    done
}

# Sums of these are exact in float64 for three turns, and not in float32.
make_doubles() {
    py -c '
import numpy as np
r = np.random.default_rng(1)
np.save("x.npy", r.integers(-1, 2, (8, 7)).astype("f8"))
np.save("y.npy", r.integers(-4, 5, (8, 1)) + 2.0 ** -26)
np.save("e.npy", r.integers(-4, 5, (8, 7)) + 2.0 ** -26)
np.save("s.npy", r.integers(-4, 5, (8, 7)).astype("f4"))'
}

# The value d has digits that float32 cannot hold.
@test "a value created and then carried takes the type of the values it meets, as with range" {
    need_numpy
    make_doubles
    as_range 'x, y = load("x.npy"), load("y.npy")
w = zeros((7, 1))
for i in loop(3):
    w = w - x.T @ (x @ w - y) / 4
    print(i, sum(w))
save("d_o.npy", w)'
    [ "$stderr" = "" ]
    as_range 'x = load("x.npy")
p = (generate((7, 7), kind="normal", seed=1) * 0.1, (zeros((7, 7)), ones((8, 1))))
for i in loop(3):
    p = (p[0] * 0.3 + p[1][0], (p[1][0] - 0.1, p[1][1] * x[:, :1]))
save("d1_o.npy", place(p[0], "replicate") + x[:7, :])
save("t_o.npy", p[1][1])'
    as_range 's = load("s.npy")
w = generate((8, 7), kind="normal", seed=1) * 0.1
for i in loop(3):
    w = w * 0.3 - s
save("s_o.npy", w)'
    py -c 'import numpy as np; assert np.load("loop/s_o.npy").dtype == np.float32'
}

# In the first turn a is made of numbers alone. In the second turn b, which by then has met x, makes
# it float64. Values of a to which only numbers were added are read as float64 behind the loop.
@test "one carried value gives another its type a turn later or behind the loop" {
    need_numpy
    make_doubles
    as_range 'x = load("e.npy")
a, b = generate((8, 7), kind="normal", seed=1) * 0.1, zeros((8, 7))
for i in loop(4):
    a = a * 0.3 + b
    b = b + x
    print(i, sum(a))
save("d_o.npy", a)
save("db_o.npy", b)'
    as_range 'x = load("e.npy")
a, b = zeros((8, 7)), generate((8, 7), kind="normal", seed=2) * 0.1
for i in loop(4):
    a = b
    b = b * 0.3
save("d_o.npy", x * a)'
    as_range 'x = load("e.npy")
a, b, c, d = zeros((8, 7)), zeros((8, 7)), zeros((8, 7)), zeros((8, 7))
for i in loop(6):
    d = d * 0.3 + c
    c = c * 0.3 + b
    b = b * 0.3 + a
    a = a * 0.3 + x
save("d_o.npy", d)'
}

@test "types of values carried by nested loops are as with range" {
    need_numpy
    make_doubles
    as_range 'x = load("e.npy")
w = generate((8, 7), kind="normal", seed=1) * 0.1
v = generate((8, 7), kind="normal", seed=2) * 0.1
for i in loop(3):
    part = zeros((8, 7))
    for j in loop(3):
        v = v * 0.3 + w
        part = part * 0.3 + v
    w = w + part / 3
save("d_o.npy", w * x)'
    as_range 'x, s = load("e.npy"), load("s.npy")
total = zeros((8, 7))
for i in loop(2):
    w = generate((8, 7), kind="normal", seed=1) * 0.1
    for j in loop(3):
        w = w * 0.3
        if i == 1:
            w = w + x
    total = total + w
    t = s * 0.1
    for j in loop(2):
        t = t + s / 3
save("d_o.npy", total)'
}

@test "a state that starts as zeros is float64 in its checkpoint and continues to the same bits" {
    need_numpy
    make_doubles
    script 'turns = 5
x, y = load("e.npy"), load("y.npy")
state, first = restore("s.safetensors", (zeros((7, 1)), generate((7, 1), kind="normal", seed=1) * 0.1))
for i in loop(first, turns):
    w, m = state
    m = 0.3 * m + mean(x * y, axis=-2).T
    state = (w - 0.1 * m, m)
    checkpoint("s.safetensors", state, turn=i + 1)
save("w.npy", state[0])'
    for count in 1 2; do
        rm -f s.safetensors
        ranks "$count" run e.py --quiet --reproducible
        expect_quiet_success
        mv w.npy once.npy
        rm s.safetensors
        ranks "$count" run e.py --quiet --reproducible turns=2
        expect_quiet_success
        ranks "$count" run e.py --quiet --reproducible
        expect_quiet_success
        cmp w.npy once.npy
        py -c '
import numpy as np
e, y = np.load("e.npy"), np.load("y.npy")
w = np.load("w.npy")
assert w.dtype == np.float64
assert (w.astype("f4") != w).any()'
    done
}

@test "a state that meets float64 only behind its loop, or without a loop, is restored to the same bits" {
    need_numpy
    make_doubles
    local turns
    in_a_loop='turns = 3
x, y = load("e.npy"), load("y.npy")
state, first = restore("s.safetensors", (zeros((7, 1)), generate((7, 1), kind="normal", seed=1)))
for i in loop(first, turns):
    state = (state[0] / 3 + 1, state[0] - state[1] / 7)
    checkpoint("s.safetensors", state, turn=i + 1)
save("w.npy", x @ state[0] + sum(state[1]))'
    without='turns = 3
x = load("e.npy")
state, first = restore("s.safetensors", (zeros((7, 1)), zeros((7, 1))))
for i in range(first, turns):
    state = (state[0] / 3 + 1, state[0] - state[1] / 7)
checkpoint("s.safetensors", state, turn=turns)
save("w.npy", x @ state[0] + sum(state[1]))'
    for text in "$in_a_loop" "$without"; do
        script "$text"
        rm -f s.safetensors
        program run e.py --quiet
        expect_quiet_success
        mv w.npy once.npy
        rm s.safetensors
        for turns in 1 2 3 3; do
            program run e.py --quiet turns=$turns
            expect_quiet_success
        done
        cmp w.npy once.npy
        program info s.safetensors
        [[ $output != *float32* ]]
    done
    script 'state, first = restore("s.safetensors", (zeros((7, 1)),))
checkpoint("s.safetensors", (state[0] / 3 + 1,), turn=first + 1)'
    rm s.safetensors
    program run e.py --quiet
    expect_quiet_success
    program info s.safetensors
    [[ $output == *float32* ]]
}

@test "float64 held before a loop that meets float32 in it gives the same notice as without a loop" {
    need_numpy
    make_doubles
    script 'x, s = load("e.npy"), load("s.npy")
for i in loop(2):
    save(f"y_{i}.npy", x * 0.5 + s)'
    for count in 1 2; do
        rm -f y_*
        ranks "$count" run e.py
        expect_status 0
        [ "$stderr" = "mpimatmul: notice: 'e.npy' is float64 and is read as float32" ] || { show; false; }
    done
    program run e.py --check
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'e.npy' is float64 and is read as float32" ] || { show; false; }
    script 'x, s = load("e.npy"), load("s.npy")

acc = x * 0.5
for i in loop(2):
    acc = acc * 0.5 + s
save("acc.npy", acc)'
    program run e.py
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'e.npy' is float64 and is read as float32
mpimatmul: notice: 'acc' changes from float64 to float32 in the loop of line 4" ] || { show; false; }
    script 'x, s = load("e.npy"), load("s.npy")
acc, other = s, x
for i in loop(3):
    acc, other = other, acc
save("acc.npy", acc)'
    program run e.py
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'acc' changes from float32 to float64 in the loop of line 3
mpimatmul: notice: 'other' changes from float64 to float32 in the loop of line 3
mpimatmul: notice: 'acc' changes from float64 to float32 in the loop of line 3
mpimatmul: notice: 'other' changes from float32 to float64 in the loop of line 3" ] || { show; false; }
}

@test "a value that moves through names of turns, which the first reading skips, is as with range" {
    need_numpy
    make_doubles
    local turns when
    for turns in "4:i == 2" "5:i == 2 or i == 3" "6:i == 3 or i == 4"; do
        when=${turns#*:} turns=${turns%%:*}
        as_range "a = load('y.npy')
x = ones((1, 1))
y = x
z = x
for i in loop($turns):
    x, y, z = y, z, x / 3
    if $when:
        x = x + a[:1]
save('d_o.npy', z)"
    done
}

@test "a text on standard input, and a matrix there, are read once" {
    need_numpy
    make_doubles
    script 'x, y = load("-"), load("y.npy")
w = zeros((7, 1))
for i in loop(3):
    w = w - x.T @ (x @ w - y) / 4
save("w.npy", w)'
    run --separate-stderr "$MPIMATMUL" run e.py --quiet < x.npy
    expect_quiet_success
    mv w.npy first.npy
    sed 's/"-"/"x.npy"/' e.py > f.py
    run --separate-stderr "$MPIMATMUL" run - --quiet < f.py
    expect_quiet_success
    cmp w.npy first.npy
    py -c 'import numpy as np; assert np.load("w.npy").dtype == np.float64'
}
