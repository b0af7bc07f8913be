#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats and the helper
# Strings, numbers and formats of programs: the results are CPython's.

load helper

@test "a text that only prints strings runs, also on ranks, with nothing to verify" {
    script 'print("hello")
for name in ("a", "b"):
    print(f"{name}:", 3, 0.5)
print()'
    for count in 1 3; do
        ranks $count run e.py
        expect_quiet_success
        [ "$output" = $'hello\na: 3 0.5\nb: 3 0.5' ]
    done
    program run e.py --json
    expect_quiet_success
    py -c '
import json, sys
assert [p["text"] for p in json.loads(sys.argv[1])["printed"]] == ["hello", "a: 3 0.5", "b: 3 0.5"]' "$output"
    program run e.py --check
    expect_failure 65 'e.py: the program makes or reads no matrix'
}

@test "formats of 600 random numbers and strings equal CPython's" {
    py - << 'END'
import random
draw = random.Random(5)
lines = ["n = 7", "x = 1234.5678"]
while len(lines) < 600:
    value = draw.choice(("n", "x", "-n", "x / 1e6", "x * 1e9", "-x", "0.0", "1e300", "1.0", "2.5", "True", "-1e-9",
                         "123456789", "0", "'ab'", "999.9996"))
    spec = draw.choice(("", "", ">", "<", "^", "=", "*^", "0<", "e>"))
    spec += draw.choice(("", "", "+", "-", " ")) + draw.choice(("", "", "0")) + draw.choice(("", "3", "8", "15"))
    spec += draw.choice(("", "", "", ",", "_")) + draw.choice(("", ".0", ".1", ".3", ".10"))
    spec += draw.choice(("", "d", "e", "E", "f", "F", "g", "G", "%", "s"))
    line = f'print(f"|{{{value}:{spec}}}|")'
    try:
        exec(line, {"n": 7, "x": 1234.5678, "print": str})
        lines.append(line)
    except ValueError:
        continue
with open("e.py", "w") as text:
    text.write("\n".join(lines) + "\n")
END
    "$PYTHON" e.py > expected
    program run e.py
    expect_quiet_success
    diff expected - <<< "$output"
}

@test "formats of computed numbers, in lines and file names, equal CPython's on any ranks" {
    need_numpy
    script 'x = generate((6, 4), kind="integer", seed=3) / 8
loss, k = mean(x * x), argmax(x[:1])
line = f"loss {loss:.4f}"
for i in loop(3):
    loss = loss / 3
    print(line, f"{i:02d} {loss:>12.3e}|{loss:<9.2f}|{k:+d}|{k:.1f}|{-loss:+.1%}|", loss, f"{loss}")
    save(f"x_{i:03d}_{i / 2:.2f}.npy", x + i)
print(f"{x[2:3, 1:2]:8.3f}" f"{7:>5}")'
    mkdir expected
    (cd expected && py "$REPO/tests/reference.py" ../e.py > printed)
    [ "$(ls expected)" = $'printed\nx_000_0.00.npy\nx_001_0.50.npy\nx_002_1.00.npy' ]
    for count in 1 2 3; do
        rm -f ./*.npy
        ranks $count run e.py --quiet
        expect_quiet_success
        diff expected/printed - <<< "$output"
        [ "$(echo ./*.npy)" = './x_000_0.00.npy ./x_001_0.50.npy ./x_002_1.00.npy' ]
    done
    program run e.py --json
    expect_status 0
    grep -q '"text": "0.375    7"' <<< "$output"
}

@test "invalid formats are refused with their place" {
    local hint='{x:.3f}, {x:.2e}, {n:04d}, {x:>10.3f}'
    local head='x = ones((2, 3))
n = 7
print(f"a '
    fails() {
        script "$head$1\")"
        program run e.py
        expect_failure 65 "e.py:3:$2" ${3:+"$3"}
    }
    fails '{x:.3f}' '12: a matrix cannot be inserted into a string' 'print("...", x) shows it beside other words'
    fails '{mean(x):d}' '12: format type d needs an integer' "$hint"
    fails '{n:.2d}' '12: an integer takes a precision only with type e, f, g or %' "$hint"
    fails '{n:x}' '12: the format type of a number must be d, e, f, g, %, or omitted' "$hint"
    fails '{None:5}' '12: a format needs a number or a string' "$hint"
    fails '{n:{n}d}' '14: nested formats are not supported'
    fails '{n=}' '13: {x=} is not supported'
}

@test "functions of known numbers are Python's, and those of matrices numpy's" {
    script 'n, x, name = 7, -2.5, "w\303\244"
print(max(3, 4), min(3, 4, 2.5, 1), max((1, 5, 2)), max(3, 3.0), max(3.0, 3), min(True, 2), max(n, -x, 0.5))
print(abs(-3), abs(x), abs(True), round(2.5), round(3.5), round(-0.5), round(x), round(7), round(True))
print(round(2.675, 2), round(0.125, 2), round(7, 2), round(1e300, 1), round(-1234.5678, 3), round(0.5, 0))
print(int(2.9), int(-2.9), int(True), int(-7), float(3), float("inf"), float("-inf"), float("1e3"), float(x))
print(len(name), len((1, 2)), len(""), max(float("inf"), n), min(-1, float("-inf")), f"{round(n / 3, 2)}")
best = float("inf")
for i in loop(4):
    best = min(best, abs(i - 2))
    print(i, best, max(i, 2))'
    printf '%b' "$(cat e.py)" > f.py && mv f.py e.py
    sed 's/loop(/range(/' e.py > range.py
    "$PYTHON" range.py > expected
    program run e.py
    expect_status 0
    diff expected <(grep -v '^wall ' <<< "$output")
    need_numpy
    script 'x = generate((3, 5), kind="integer", seed=2)
y = float(mean(x))
print(max(x), min(x), abs(y), y, len(x), max(x.shape))
print(max(x, -1), min(x, axis=0), max(x, axis=-1, keepdims=False))'
    py "$REPO/tests/reference.py" e.py > expected
    program run e.py --quiet
    expect_quiet_success
    diff expected <(sed -E 's/, (file|replicate|partial|rows|cols|grid)[^;]*;/;/g' <<< "$output")
}

@test "functions of numbers refuse matrices, and the arguments that Python refuses, with their place" {
    local rounds='x // 1 rounds down; print(f"{x:.3f}") prints an element rounded'
    fails() {
        script "x = ones((2, 3))
y = $1"
        program run e.py
        expect_failure 65 "e.py:2:$2" ${3:+"$3"}
    }
    fails 'max(3, x)' '5: max of several values needs numbers, found a matrix' 'maximum(x, y) works element by element'
    fails 'min("a", 1)' '5: min of several values needs numbers, found a string'
    fails 'max(x, 1, True, 4)' '21: max of a matrix takes at most 3 arguments' 'max(x, axis=None, keepdims=True)'
    fails 'max(3, axis=0)' '9: x is a whole number, expected a matrix'
    fails 'max(())' '5: max of an empty tuple'
    fails 'round(x, 2)' '11: round needs a number, found a matrix' "$rounds"
    fails 'int(x)' '9: int needs a number, found a matrix' "$rounds"
    fails 'int("3")' '9: int needs a number, found a string'
    fails 'float(x)' '11: float needs a number, found a matrix' "$rounds"
    fails 'float("0x1")' "11: '0x1' is no number"
    fails 'round(2.5, -1)' '16: ndigits must be at least 0'
    fails 'round(float("-inf"))' '5: inf exceeds the range of 64-bit integers'
    fails 'int(1e30)' '5: 1e+30 exceeds the range of 64-bit integers'
}
