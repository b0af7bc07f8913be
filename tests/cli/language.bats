#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, lines and launch are set by bats and the helper
# Features that texts share with numpy: statements, indices, axes, ranges, compared with the
# reference under CPython. gradients.bats tests their gradients.

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    need_numpy
}

# agree: e.py prints the same as under CPython, to rounding, on any ranks and devices.
agree() {
    py "$REPO/tests/reference.py" e.py > want
    for way in 1 3 "2 --dtype float32" "1 --device reference" "2 --device faulty:corrupt=9:cpu"; do
        # shellcheck disable=SC2086 # a number, or words behind it
        run --separate-stderr "${launch[@]}" -n ${way%% *} "$MPIMATMUL" run e.py --quiet ${way#"${way%% *}"}
        [ "$status" -eq 0 ] || { echo "$way: $stderr"; return 1; }
        echo "$output" > got
        py - << 'END'
import re
import numpy as np
NUMBER = r"(?<![\w.])-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)(?![\w.])"
placed = re.sub(r", (?:replicate|rows|cols|grid)[0-9 ]*;", ";", open("got").read())
got, want = ([line.rstrip() for line in text.splitlines()] for text in (placed, open("want").read()))
assert len(got) == len(want), (len(got), len(want))
for mine, theirs in zip(got, want):
    assert re.sub(NUMBER + "| +", "", mine) == re.sub(NUMBER + "| +", "", theirs), (mine, theirs)
    numbers = ([float(x) for x in re.findall(NUMBER, line)] for line in (mine, theirs))
    assert np.allclose(*numbers, rtol=2e-4, atol=2e-6, equal_nan=True), (mine, theirs)
END
    done
}

# refused LINE:COLUMN TEXT HINT PROGRAM
refused() {
    refused_behind 'x = generate((2, 3))' "$@"
}

@test "x += y, and or not, and loops over tuples act as in Python" {
    cat > e.py << 'END'
x = generate((3, 4), "integer", seed=1)
y = generate((3, 4), "integer", seed=2)
n, s, before = 3, 0, x
for i in range(n):
    s += i
    x += y
    x *= 2
x -= y
x /= 4
n **= 2
n //= 2
n %= 3
t, name = (), "a"
name += "b"
for a, b in ((1, 2), (3, 4)):
    t += (a * b,)
for p in t:
    s += p
y @= generate((4, 4), "integer", seed=5)
def f(k, flag):
    if not flag and k > 1 or k == 7:
        k += 1
    return k
for v, scale in ((x, 2), (y, 3), (before, 1)):
    print(v * scale, f(2, False), f(7, True), f(1, False), 0 or 5, 1 and 0, not 3 and 1 / 0)
for (a, b) in ((1, 0),):
    print(s, n, t[0], t[1], name, a or b / 0, b and a / 0)
for step in loop(3):
    for p, q in ((x, 1), (y, 2)):
        x = x + p * q
    s += step
    if step > 0 and not step == 2:
        print(step, s)
print(sum(x), s)
END
    agree
    refused 2:1 "'+=' needs a name on its left" "" 'x[0] += 1'
    refused 3:1 "'-=' needs a name on its left" "" $'y = 1\nx, y -= 1'
    refused 2:5 "range gives one number at a time, for one name" "" $'for a, b in range(3):\n    x = a'
    refused 2:10 "cannot iterate over a whole number: expected range(...), loop(...) or a tuple" "" \
        $'for a in 3:\n    x = a'
    refused 2:10 "cannot iterate over a matrix: expected range(...), loop(...) or a tuple" \
        "for i in range(len(x)): x[i] is a row" $'for a in x:\n    y = a'
    refused 2:5 "2 names for 3 values" "" $'for a, b in ((1, 2, 3),):\n    y = a'
    refused 2:13 "a whole number cannot be unpacked into several names" "" $'for a, b in (1, 2):\n    y = a'
    refused 2:5 "cannot assign: expected a name" "" $'for f(x) in (1, 2):\n    y = a'
    refused 2:5 "expected a name, found '3'" "" $'for 3 in (1, 2):\n    y = a'
    refused 2:4 "'and' needs numbers, found a matrix" "for values 0 and 1: minimum(x, y)" $'if x and 1:\n    y = 1'
    refused 2:10 "'or' needs numbers, found a matrix" "for values 0 and 1: maximum(x, y)" $'y = 0 or x'
    refused 2:9 "'not' needs numbers, found a matrix" "for values 0 and 1: 1 - x" 'y = not x'
    refused 2:10 "expected a value, found the end of the line" "" 'y = 1 and'
    refused 3:5 "'z' is read before it is assigned" "" $'def f():\n    z += 1\nz = 1\nf()'
}

# numpy's own sizes: ids[None] of (n,) is (1, n).
@test "rows from take have the axes of their indices and one more: (1, n, d) of (1, n), (n, d) of one axis" {
    cat > e.py << 'END'
t = generate((11, 4), "integer", seed=1)
n, two = arange(5), reshape(arange(5), (1, 5))
save("a5.npy", take(t, n))
save("b15.npy", take(t, two))
save("c14.npy", take(t, two[:, 1:]))
save("d4.npy", take(t, n[:, 1:]))
save("e5.npy", take(t, n * 2 + 1))
save("f15.npy", take(t, two * 2 + 1))
save("g51.npy", take(t, n.T))
save("h15.npy", take(t, zeros((1, 5))))
save("i4.npy", take(t, argsort(t[0])))
save("j14.npy", take(t, argsort(t[:1])))
save("k10.npy", take(t, concat((n, n), axis=-1)))
save("l25.npy", take(t, concat((n, n), axis=-2)))
save("m5.npy", take(t, where(n > 2, n, 0)))
save("n15.npy", take(t, n + two))
save("o1.npy", take(t, n[:, 2:3]))
save("p11.npy", take(t, two[:, 2:3]))
save("q2.npy", take(t, topk(t[0], 2)[1]))
save("r12.npy", take(t, topk(t[:1], 2)[1]))
save("s5.npy", take(t, place(clip(n, 1, 3), "replicate")))
save("t111.npy", take(t, argmax(t)))
END
    mkdir expected
    (cd expected && REFERENCE_STORES=float32 py "$REPO/tests/reference.py" ../e.py)
    for count in 1 2; do
        rm -f ./*.npy
        ranks "$count" run e.py --quiet
        expect_quiet_success
        py -c '
import glob, numpy as np
sizes = {"5": (5,), "15": (1, 5), "14": (1, 4), "4": (4,), "51": (5, 1), "10": (10,), "25": (2, 5), "1": (1,),
         "11": (1, 1), "2": (2,), "12": (1, 2), "111": (11, 1)}
files = glob.glob("*.npy")
assert len(files) == 20, files
for f in files:
    made, expected = np.load(f), np.load("expected/" + f)
    assert made.shape == expected.shape == (*sizes[f[1:-4]], 4), (f, made.shape, expected.shape)
    assert (made == expected).all(), f'
    done
}

@test "rows by number, axes, ranges, bounds and norms equal numpy's" {
    cat > e.py << 'END'
x = generate((3, 5), "normal", seed=1)
s = generate((2, 3, 4), "normal", seed=2)
n = arange(5)
print(n, arange(2, 11, 3), arange(0, 1, 0.25), arange(5, 0, -2), arange(3.5), len((1, 2)), len(x), len(s))
print(take(x.T, n), zeros((2, 3)), ones(4), zeros((2, 1, 2)), one_hot(arange(1, 3), 4), ones((2, 2)) @ ones((2, 3)))
print(clip(x, -0.5, 0.5), clip(x, None, 0), clip(x, 0, None), clip(x, 1, -1), clip(7, 0, 5), clip(0.5, 1, 2))
print(clip(log(x), -1, 1), clip(1 / zeros((1, 2)), 0, 3))
print(sum(x, axis=0, keepdims=False), mean(x, -1, False), max(x, keepdims=False), sum(s, axis=1, keepdims=False))
print(std(s, axis=0, keepdims=True), var(s, 2, keepdims=False), x - mean(x, axis=0, keepdims=False))
print(x[0], x[-1], x[1, 2], x[:, 1], x[1:, -1], s[1], s[:, 2])
print(s[0, 1], s[1, :, 2], s[1, 2, 3], s[:, 1, 1:3], x[0] + x[1], s[0] @ s[1].T)
print(softmax(x), softmax(x, axis=0), softmax(s, axis=1), softmax(s, axis=-3), softmax(s, axis=2))
print(softmax(x, causal=True, axis=-1), norm(x), norm(x, axis=-1), norm(x, axis=0), norm(s, axis=0))
print(norm(s), norm(s, axis=1, keepdims=False), norm(x * 0), norm(x * 0, axis=1))
print(sort(x), sort(x, axis=0), sort(x, 1, True), sort(s, axis=0, descending=True), sort(s, -2), sort(s[:, 1]))
m = generate((6, 7), "integer", seed=4)
print(sort(m @ m.T), argsort(m @ m.T, -1, True), argsort(relu(m @ m.T)), sort(m @ m.T, 0), sum(sort(m.T @ m)[2]))
print(argsort(x), argsort(x, axis=0), argsort(x, descending=True), argsort(s, 1), argsort(s, axis=-3, descending=1))
print(take(x.T, argsort(x[0])), sort(argsort(s, -1))[0], argsort(x * 0), sort(log(x)), argsort(log(x), descending=True))
print(one_hot(n, 5), one_hot(n[:], 6), one_hot(n[:, 1:3], 5), one_hot(reshape(n, (1, 5)), 5), one_hot(n[:, :1], 2))
for i in range(len(x)):
    print(i, sum(x[i]))
for k in loop(3):
    print(k, x[k], sum(s[k // 2]), clip(k, 1, 2))
END
    agree
    local row="which is stored as a row (1 x 3)"
    refused 2:7 "index 2 of an axis of 2: expected -2 to 1" "" 'y = x[2]'
    refused 2:13 "3 indices for 2 axes (2 x 3)" "" 'y = x[0, 1, 2]'
    refused 2:7 "an index is a number, expected a whole number" "" 'y = x[1.5]'
    refused 2:7 "cannot index with a matrix: expected a number" \
        "take(table, ids) selects rows by a matrix of indices" 'y = x[x]'
    refused 2:5 "an index of a one-axis array, $row" "x[0, i] is an element" 'y = x[0][1]'
    refused 2:5 "a slice of a one-axis array, $row" "x[:, a:b] has elements a to b - 1" 'y = x[0][1:3]'
    refused 2:5 "a slice of a one-axis array, $row" "x[:, a:b] has elements a to b - 1" 'y = x[0][:1]'
    local ids='ids has 4 axes (1 x 2 x 3 x 4), expected 1 to 3: the result has one more'
    local reshaped='reshape(ids, (m, n)) before the call, reshape(..., shape) after it'
    refused 2:17 "$ids" "$reshaped" 'y = one_hot(    zeros((1, 2, 3, 4)), 5)'
    refused 2:13 "$ids" "$reshaped" 'y = take(x, zeros((1, 2, 3, 4)))'
    refused 2:10 'table has 3 axes (2 x 3 x 4), expected 2' '' 'y = take(zeros((2, 3, 4)), x)'
    refused 2:5 "len of a one-axis array, $row" "x.shape[1] is the number of elements" 'y = len(x[0])'
    refused 2:9 "len needs a tuple, a string or a matrix, found a whole number" "" 'y = len(3)'
    refused 2:20 "sum along axis 0 of a one-axis array, $row" "axis=-1 runs along its elements" 'y = sum(x[0], axis=0)'
    refused 2:21 "keepdims is 2, expected True, False, 1 or 0" "" 'y = sum(x, keepdims=2)'
    refused 2:5 "arange: 0 numbers, expected 1 to 2147483647" "" 'y = arange(0)'
    refused 2:5 "arange: the step must not be 0" "" 'y = arange(1, 5, 0)'
    refused 2:12 "start is a string, expected a number" "" 'y = arange("a")'
    refused 2:5 "cannot generate a matrix of 2 x 0" "" 'y = zeros((2, 0))'
    refused 2:13 "clip: low is a matrix, expected a number or None" \
        "minimum(maximum(x, low), high) also accepts matrices" 'y = clip(x, x, 1)'
    refused 2:5 "clip: argument 'high' is missing" "clip(x, low, high)" 'y = clip(x, 0)'
    refused 2:5 "softmax along axis -2: causal needs the last axis" "" 'y = softmax(x, causal=True, axis=0)'
    refused 2:21 "axis 2 of 2 axes: expected -2 to 1" "" 'y = softmax(x, axis=2)'
    refused 2:21 "sort along axis 0 of a one-axis array, $row" "axis=-1 runs along its elements" \
        'y = sort(x[0], axis=0)'
    refused 2:21 "axis -3 of 2 axes: expected -2 to 1" "" 'y = argsort(x, axis=-3)'
    refused 2:24 "descending is 2, expected True, False, 1 or 0" "" 'y = sort(x, descending=2)'
}

@test "slopes at a bound, and of a norm of 0, equal torch's" {
    cat > e.py << 'END'
x, z = ones((2, 3)), zeros((2, 3))
y = concat((x * 3, z), axis=0)
print(grad(sum(clip(x, 0, 1)), x), grad(sum(clip(x, 1, 2)), x), grad(sum(clip(x, 2, 3)), x))
print(grad(norm(z), z), grad(sum(norm(y, axis=-1)), y), grad(norm(y), y))
print(grad(sum(softmax(y, axis=0) * y), y), grad(sum(y[1] * y[:, 2][0, 1]), y))
END
    agree
    py "$REPO/tests/reference.py" e.py | grep -c nan | grep -qx 0
}

@test "comparisons, and means of differences, of all pairs of a column and a row give a warning each" {
    script 'p = generate((5, 1), kind="integer")
y = ones((1, 5))
hits = mean(p == y)
loss = mean((p - y) ** 2)
none = sum(p * y + p) + mean(p - y, axis=-1) + maximum(p, y) + (y[:, :1] == p)
four = y[:, :4] < p
def closest(x, y):
    return sum(abs(y - x))
for i in loop(3):
    print(hits, loss, mean(y >= p), closest(p, y), closest(p, y * 2))'
    pairs='compares all pairs of' of='covers the differences of all pairs of 5 x 1 and 1 x 5'
    for count in 1 2; do
        ranks "$count" run e.py --quiet
        expect_status 0
        [ "$stderr" = "mpimatmul: warning: e.py:3:13: $pairs p (5 x 1) and y (1 x 5)
mpimatmul: warning: e.py:4:8: mean $of
mpimatmul: warning: e.py:10:28: $pairs y (1 x 5) and p (5 x 1)
mpimatmul: warning: e.py:8:12: sum $of" ] || { show; return 1; }
    done
    script 'x = ones((5, 1))
y = mse(x, x.T)'
    program run e.py
    expect_failure 65 "e.py:2:5: cannot apply mse to 'x' (5 x 1) and 'x.T' (1 x 5): sizes differ"
}

@test "places in rows with NaN give a warning, one per statement and job" {
    script 'x = sqrt(generate((40, 7), kind="normal"))
y = generate((40, 7))
a, b = argmax(x), argmin(y)
v, i = topk(log(y), 2)
w, j = topk(y, 2)
s, t = topk(y @ x.T, 3)
save("all.npy", concat((argmin(reshape(tanh(x) * 2, (5, 8, 7))), argmax(reshape(y, (5, 8, 7)))), axis=-1))
print(sum(a), sum(b), sum(i), sum(j), sum(t))'
    for count in 1 2 3; do
        ranks "$count" run e.py --device cpu
        expect_status 0
        [ "$(sort <<< "$stderr")" = "$(printf 'mpimatmul: warning: e.py:%s of a row that holds NaN\n' \
            '3:8: argmax' '4:8: topk' '6:8: topk' '7:25: argmin')" ] || { show; return 1; }
    done
}

@test "a loss has no axis, also for an operand of one element that has one" {
    need_numpy
    py -c 'import numpy as np; np.save("one.npy", np.float32([2]))'
    script 'x = load("one.npy")
for y in (mse(x, x), binary_cross_entropy(x, x), cross_entropy(x, x * 0)):
    print(concat((y, y), 0).shape)'
    program run e.py --quiet
    [ "$status$output" = "0(2, 1)
(2, 1)
(2, 1)" ] || { show; return 1; }
}
