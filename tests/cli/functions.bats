#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, lines and launch are set by bats and the helper
# Functions of numpy or torch in texts, compared with the reference under CPython.
# tests/python_package.py tests them in the Python package, tests/gradients.py their gradients.

load helper

setup() {
    setup_package
}

# saves: the values in the tuples `all` and `wholes` of e.py equal the reference's in value and
# shape, on any ranks and devices.
saves() {
    local way
    printf 'for i in range(len(all)):\n    save(f"r{i}.npy", all[i])\n' >> e.py
    mkdir -p want
    (cd want && rm -f ./r*.npy && py "$REPO/tests/reference.py" ../e.py)
    for way in 1 "3 --device reference" "2 --dtype float32" "1 --device 0:0"; do
        if [ "$way" = "1 --device 0:0" ] && ! "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"'; then
            continue
        fi
        rm -f ./r*.npy
        # shellcheck disable=SC2086 # a number, or words behind it
        "${launch[@]}" -n ${way%% *} "$MPIMATMUL" run e.py --quiet ${way#"${way%% *}"} < /dev/null
        run py - << 'END'
import glob
import numpy as np
names = glob.glob("r*.npy", root_dir="want")
assert names and sorted(names) == sorted(glob.glob("r*.npy")), (names, glob.glob("r*.npy"))
for name in names:
    got, want = np.load(name), np.load("want/" + name)
    assert got.shape == want.shape, (name, got.shape, want.shape)
    assert np.allclose(got, want, rtol=1e-4, atol=1e-6, equal_nan=True), (name, got, want)
END
        [ "$status" -eq 0 ] || { echo "$way: $output"; return 1; }
    done
}

# refused LINE:COLUMN TEXT HINT PROGRAM: refused at its last line, in which x is 2 x 3, s 2 x 3 x 4
# and r a row of 5.
refused() {
    refused_behind 'x, s, r = generate((2, 3)), generate((2, 3, 4)), arange(5)' "$@"
}

@test "slices have numpy's steps, also along an axis, of files, and of sizes that a device cannot copy itself" {
    py -c '
import numpy as np
np.save("f.npy", np.random.default_rng(1).standard_normal((70, 90)))'
    mkdir want && cp f.npy want
    cat > e.py << 'END'
x, s = generate((5, 7), "normal", seed=1), generate((2, 3, 4, 6), "normal", seed=2)
f = load("f.npy")
n, m = -2, None
all = (x[::2], x[::-1], x[1:4:2, ::-3], x[-1:0:-2, 5::n], x[:, ::100], x[::-100, 3], x[4:m:-1], x[0][:, ::-2],
       x[:, 1][:, 1::3], s[::-1, ::2, ::-3, 4:1:-1], s[1, :, ::2], s[:, :, :, ::-1], s[::-1], s[:, ::-1], x.T[::-2],
       f[::2, ::-3], f[::-1], f[:, ::-1], f.T[::-3, 1::2], (f * 2)[5::4], f[69:2:-3, 80:3:-7], topk(x, 3)[1][:, ::-1])
END
    sed -i 's/s\[\.\.\., ::-1\] if n > 0 else //' e.py
    saves
    refused 2:7 "the slice is empty: [0:1:-1] of 2" "" 'y = x[0:5:-1]'
    refused 2:10 "the slice is empty: [2:2:3] of 3" "" 'y = x[:, 2:2:3]'
    refused 2:9 "the step of a slice is 0" "" 'y = x[::0]'
    refused 2:9 "a step of a slice is a number, expected a whole number" "" 'y = x[::0.5]'
    refused 2:5 "a tuple takes a single index" "" 'y = (1, 2)[::-1]'
}

@test "parts, repeats, diagonals and sums of products by axes equal numpy's" {
    cat > e.py << 'END'
x, s, r = generate((5, 7), "normal", seed=1), generate((2, 3, 4), "normal", seed=2), arange(5) * 0.5
i, t = generate((4, 6), "integer", seed=3), generate((2, 3, 4, 5), "normal", seed=4)
all = (argmax(x, axis=-2), argmax(x, 0, False), argmin(x, axis=-1, keepdims=False), argmax(s, axis=0), argmin(s, 1),
       flip(x), flip(s, 0), flip(s, axis=(0, -1)), flip(r), flip(t, 2), stack((x, x * 2)), stack((x, x * 2), axis=-1),
       stack((r, r, r)), stack((r, r), 1), stack((s, s), axis=2), tile(x, 2), tile(x, (2, 3)), tile(r, 3),
       tile(r, (2, 2)), tile(s, (2, 1, 3)), tile(argmax(x), (1, 4)), tile(x, (2, 1, 1)), repeat(x, 2),
       repeat(x, 3, axis=0), repeat(s, 2, -1), repeat(r, 2, axis=-1), repeat(s, 3, 1), repeat(t, 2, 0), outer(r, x),
       outer(r, r))
all += split(i, 2) + split(i, (1, 4), axis=-1) + split(r, 5) + split(s, (-2,), 1)
END
    saves
    cat > e.py << 'END'
x, s, r = generate((5, 7), "normal", seed=1), generate((2, 3, 4), "normal", seed=2), arange(5) * 0.5
i, t = generate((4, 6), "integer", seed=3), generate((2, 3, 4, 5), "normal", seed=4)
all = (triu(x), triu(x, 2), triu(x, -2), tril(s), tril(i, -1), tril(x, k=1), triu(argsort(x)), eye(3), eye(3, 5),
       eye(3, 4, 1), eye(4, 3, k=-2), eye(2, 2, 5), diag(r), diag(r, 1), diag(r, k=-2), diag(i), diag(i, 2),
       diag(i, -3), linspace(0, 1, 5), linspace(-2, 3), linspace(1, 2, 1), normal((3, 4), seed=2), uniform((3, 4), 5),
       uniform((3, 4), low=-2, high=2, seed=7), einsum("ij,kj->ik", x, x), einsum("ij, jk", i, i.T),
       einsum("bij,bkj->bik", s, s), einsum("bij,bkj->kbi", s, s), einsum("ij,ij->i", x, x), einsum("ij,ij->ji", x, x),
       einsum("ij,ij->", x, x), einsum("i,i->", r, r), einsum("i,j->ji", r, r), einsum("bij,j->ib", s, s[0, 0]),
       einsum("abij,abkj->abik", t, t), einsum("abij,ak->jb", t, t[0, 0, :2]), einsum("bij,kl->bk", s, x))
END
    saves
    refused 2:15 "axis 2 of 2 axes: expected -2 to 1" "" 'y = argmax(x, 2)'
    refused 2:13 "flip along axis 0 of a one-axis array, which is stored as a row (1 x 5)" \
        "axis=-1 runs along its elements" \
        'y = flip(r, 0)'
    refused 2:13 "axis 0 is given twice" "" 'y = flip(x, (0, -2))'
    refused 2:11 "stack takes a tuple of matrices: (x, y)" "" 'y = stack(x)'
    refused 2:11 "matrices of 2 and of 1 axes" "" 'y = stack((x, r))'
    refused 2:14 "an axis of 2 cannot be divided into 3 equal parts (at most 64)" "" 'y = split(x, 3)'
    refused 2:14 "empty part [1:1] of 2" "" 'y = split(x, (1, 1))'
    refused 2:13 "reps holds 0: at least 1" "" 'y = tile(x, (1, 0))'
    refused 2:15 "repeats is 0: at least 1" "" 'y = repeat(x, 0)'
    refused 2:10 "triu of a one-axis array, which is stored as a row (1 x 5)" "" 'y = triu(r)'
    refused 2:10 "diag of 3 axes: expected 1 or 2" "" 'y = diag(s)'
    refused 2:5 "no diagonal 3 of 2 x 3" "" 'y = diag(x, 3)'
    refused 2:5 "cannot generate a matrix of 0 x 0" "" 'y = eye(0)'
    refused 2:5 "uniform from 1 to 0: expected low <= high" "" 'y = uniform((2, 2), low=1, high=0)'
    refused 2:5 "linspace: 0 numbers, expected 1 to 2147483647" "" 'y = linspace(0, 1, 0)'
    refused 2:5 "einsum: sizes 3 and 2 of 'j' differ" "" 'y = einsum("ij,jk->ik", x, x)'
    refused 2:12 "einsum: 'i' occurs twice in a term" "" 'y = einsum("ii,ij", x, x)'
    refused 2:23 "einsum: 1 letters for 2 axes (a)" "" 'y = einsum("i,ij->j", x, x)'
    refused 2:12 "einsum: 'k' is in no operand" "" 'y = einsum("ij,ij->k", x, x)'
    refused 2:12 "einsum: expected two matrices" "" 'y = einsum("ij->ji", x, x)'
    refused 2:12 "einsum: expected two matrices" "" 'y = einsum("ij,ij,ij", x, x)'
    refused 2:12 "einsum: expected letters, a comma and '->'" "" 'y = einsum("i1,ij", x, x)'
}

@test "products, truth, steps and functions of elements equal numpy's" {
    cat > e.py << 'END'
x, s, r = generate((5, 7), "normal", seed=1), generate((2, 3, 4), "normal", seed=2), arange(5) * 0.5
i, t = generate((4, 6), "integer", seed=3), generate((2, 3, 4, 5), "normal", seed=4)
one, none = ones((1, 1)), zeros((1, 2))
all_of = (prod(x), prod(x, axis=-1), prod(x, 0), prod(s, axis=0), prod(s), prod(s, axis=1, keepdims=False), prod(r + 1),
          all(x), all(i, axis=-1), any(i * 0), any(i, axis=0), all(s > -9, axis=1), any(isnan(log(x)), axis=-1),
          isnan(log(x)), sign(x), sign(i), sign(log(x)), floor(x), ceil(x), round(x * 4), round(arange(9) * 0.5 - 2),
          one * floor(-2.5), one * ceil(2.5), one * round(2.5), one * sign(-0.5), one * erf(0.5), one * arctan(2),
          one * expm1(0.1), 1 / ceil(none - 0.5), 1 / round(0 - one / 2), erf(x), arctan(x * 9), expm1(x),
          expm1(x * 1e-9), floor(1 / none), round(log(x)), erf(-1 / none), arctan(1 / none), expm1(log(none)))
all_of += (sum(s, axis=(0, 1)), mean(s, axis=(2, 0)), max(t, axis=(1, 2)), amax(t, (0, 3), False), amin(t, axis=(3, 1)),
           amax(t, (0, 1, 2, 3), keepdims=False), min(t, axis=(-4, -3, -1)), sum(s, (1, 0), keepdims=True), amax(i),
           amin(i, 0), var(t, axis=(0, 2)), any(t > 2, axis=(1, 2, 3)), mean(x, axis=(0, 1)), sum(r, axis=(-1,)))
if isnan(3) or not isnan(0 * 1e400):
    all_of = none
all = all_of
END
    saves
    refused 2:9 "x is a whole number, expected a matrix" "" 'y = all(3)'
    refused 2:17 "axis 1 is given twice" "" 'y = sum(s, axis=(1, -2))'
    refused 2:13 "axis is an empty tuple, expected an axis" "" 'y = amax(s, ())'
    refused 2:13 "axis 3 of 3 axes: expected -3 to 2" "" 'y = mean(s, (0, 3))'
    refused 2:12 "sum along axis 0 of a one-axis array, which is stored as a row (1 x 5)" \
        "axis=-1 runs along its elements" 'y = sum(r, (0, -1))'
    refused 2:5 "'sum(floor(x))' does not depend on 'x': it has no gradient" "" 'y = grad(sum(floor(x)), x)'
}

@test "a function that is not there yet is refused with an alternative" {
    local has='not available yet: save("x.npy", x), then use numpy' name
    for name in svd inv solve eig qr cholesky det; do
        refused 2:5 "unknown name '$name'" "$has.linalg has it" "y = $name(x)"
    done
    refused 2:5 "unknown name 'fft'" "$has.fft has it" 'y = fft(x)'
    refused 2:5 "unknown name 'conv2d'" \
        "not available yet: join slices to windows, concat((x[:-1], x[1:]), axis=-1) @ w" 'y = conv2d(x, x)'
    refused 2:5 "unknown name 'trace'" "sum(diag(x))" 'y = trace(x)'
    # The alternatives in the hints give the right results.
    cat > e.py << 'END'
x, k, n = log(generate((4, 5), "integer", seed=1)), 2, 5
y = abs(generate((4, 5), "normal", seed=2))
all = (abs(x) == 1e999, x - x == 0, sort(y)[:, n // 2], exp(cumsum(log(y), axis=-1)), sum(diag(y)),
       concat((y[:, -k:], y[:, :-k]), axis=-1), log(y) / log(2), y - logsumexp(y, axis=-1),
       maximum(y - 1, 0.01 * (y - 1)), where(y > 1, y, expm1(minimum(y, 0))), sign(y - 1) * floor(abs(y * 3 - 3)),
       reshape(y, (1, -1)))
END
    saves
    py -c '
import numpy as np
x, y = (np.load(f"want/r{i}.npy") for i in (0, 1))
assert 0 < x.sum() < 20 and 0 < y.sum() < 20 and not (x * y).any()'
}

@test "the Python package has the same functions, alone and on three ranks" {
    expected="84 compared
64 cannot take [slice(None, None, 0)] of a value: slice step cannot be zero
64 cannot take [slice(None, None, 1.5)] of a value: slice indices must be integers or None or have an __index__ method
65 cannot take [4:4:-1] of axis -2 of 'x': it has 6
64 axis 2 of 2 axes: expected -2 to 1
64 flip: duplicate axis: (0, -2)
64 flip along axis 0 of a one-axis array, which is stored as a row (1 x 7): axis=-1 runs along its elements
64 stack: values of 2 and of 1 axes
64 stack needs at least one value
64 stack of values of 4 axes: at most 3
64 an axis of 6 cannot be divided into 4 equal parts
64 empty part [2:2] of 6
64 reps is (0,): expected 1 to 4 numbers of at least 1
64 sum: duplicate axis: (1, -3)
64 amax: axis is an empty tuple
64 repeats is 1.5, expected an integer
64 repeats is 0: at least 1
64 triu of a one-axis array, which is stored as a row (1 x 7)
64 diag of 4 axes: expected 1 or 2
65 no diagonal 9 of 6 x 9
64 n is 0: at least 1
64 uniform from 1 to 0: expected low <= high
64 num is 0: at least 1
64 einsum: sizes 9 and 6 of 'j' differ
64 einsum: expected two values
64 einsum: 'i' occurs twice in a term
64 einsum: 1 letters for 2 axes (a)
64 einsum: 'k' is in no operand
64 einsum: expected letters, a comma and '->'"
    run "$PYTHON" "$REPO/tests/python_functions.py"
    diff <(echo "$expected") <(echo "$output")
    run "${launch[@]}" -n 3 --oversubscribe "$PYTHON" "$REPO/tests/python_functions.py"
    diff <(echo "$expected") <(echo "$output")
}
