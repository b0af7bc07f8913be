#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, lines and launch are set by bats and the helper
# Gradients of programs: those of every function compared with central differences, and refusals of
# functions without one. Random programs (programs.bats) compose them.

load helper

# Central differences take seconds, and are the same for all tests.
setup_file() {
    mkdir "$BATS_FILE_TMPDIR/cases"
    ! py -c 'import numpy' 2> /dev/null || py "$REPO/tests/gradients.py" write "$BATS_FILE_TMPDIR/cases"
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    need_numpy
}

# gradients RANKS TOLERANCE OPTION...: runs the program that tests/gradients.py writes.
gradients() {
    local ranks=$1 tolerance=$2
    shift 2
    rm -f ./*d?.npy
    "${launch[@]}" -n "$ranks" "$MPIMATMUL" run gradients.py --quiet "$@" < /dev/null
    run py "$REPO/tests/gradients.py" compare . "$tolerance"
    echo "# $ranks rank(s) $*: $output" >&3
    [ "$status" -eq 0 ]
    [[ $output =~ ^2(5[1-9]|[6-9][0-9])\ gradients$ ]]
}

@test "gradients of every function equal its central differences, on any number of ranks" {
    cp "$BATS_FILE_TMPDIR"/cases/* .
    for ranks in 1 2 3 5; do
        gradients "$ranks" 1e-6
    done
    gradients 3 1e-6 --weights 1,3,2
}

@test "gradients are right in float32 on devices that are wrong, hang or are lost" {
    cp "$BATS_FILE_TMPDIR"/cases/* .
    gradients 2 1e-4 --dtype float32
    gradients 1 1e-4 --dtype float32 --device faulty:corrupt=9:cpu
    gradients 1 1e-4 --dtype float32 --device faulty:fail=40:cpu
    gradients 2 1e-4 --dtype float32 --device faulty:hang=30:cpu --device-timeout 0.3
}

@test "gradients are right on an OpenCL device" {
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
    cp "$BATS_FILE_TMPDIR"/cases/* .
    gradients 1 1e-4 --dtype float32 --device 0:0
}

@test "gradients of attention store no scores" {
    # 8 x 4096 x 4096 scores are 512 MiB. The gradients take a fiftieth of that at most, beside
    # operands and results.
    heads='(8, 4096, 64)'
    cat > made.py << END
q, k, v, w = generate($heads, seed=1), generate($heads, seed=2), generate($heads, seed=3), generate($heads, seed=4)
y = attention(q, k, v)
END
    (cat made.py; printf 'dy = w * 2\na, b, c = q * dy, k * dy, v * dy\n') > beside.py
    (cat made.py; echo 'a, b, c = grad(sum(y * w), (q, k, v))') > gradients.py
    for name in beside gradients; do
        printf 'save("%s.npy", %s)\n' q q k k v v w w y y a a b b c c >> "$name.py"
        command time -f %M -o "$name.kib" "$MPIMATMUL" run "$name.py" --quiet < /dev/null
    done
    echo "# $(cat gradients.kib) KiB, $(cat beside.kib) KiB without gradients" >&3
    [ "$(cat gradients.kib)" -le $(($(cat beside.kib) + 512 * 1024 / 50)) ]
}

# refuses TEXT LINE: in the last line of a program in which x is 3 x 4.
refuses() {
    printf 'x = generate((3, 4))\n%s\n' "$1" > e.py
    run "$MPIMATMUL" run e.py --quiet
    [ "$status" -eq 65 ]
    [ "${lines[0]}" = "mpimatmul: e.py:$2" ] || { echo "$output"; return 1; }
}

@test "a function without a gradient is refused, with the place and the reason" {
    py -c 'import numpy as np; np.save("i.npy", [[1, 5, 2]])'
    refuses 'y = grad(x, x)' "2:5: cannot differentiate 'x' (3 x 4): expected one element"
    [[ $output == *'hint: use sum or mean to get one element' ]]
    refuses 'g = grad(sum(x), x * 2)' "2:5: 'sum(x)' does not depend on 'x * 2': it has no gradient"
    refuses 'g = grad(sum(argmax(x)), x)' "2:5: 'sum(argmax(x))' does not depend on 'x': it has no gradient"
    refuses 'g = grad(sum(stop_gradient(x)), x)' \
        "2:5: 'sum(stop_gradient(x))' does not depend on 'x': it has no gradient"
    refuses $'i = argmax(x)\ng = grad(sum(i * 2.0 + x), (x, i))' \
        "3:5: cannot differentiate with respect to 'i': it holds whole numbers"
    refuses 'g = grad(sum(grad(sum(softmax(x) * x), x)), x)' \
        '2:5: cannot differentiate softmax_backward: second derivatives of it are not supported'
    refuses 'g = grad(sum(x), (x, (3, x)))' \
        '2:18: grad: x must be a matrix or nested tuples of matrices, found a whole number'
    refuses 'g = grad(sum(x), ())' '2:18: grad: x must be a matrix or nested tuples of matrices, found an empty tuple'
    refuses 'g = grad(3, x)' '2:10: y is a whole number, expected a matrix'
    refuses $'z = generate((3, 200))\nw, j = topk(z, 100)\ng = grad(sum(w), z)' \
        '4:5: cannot differentiate the largest 100 of a row: at most 64'
    refuses 'y = cross_entropy(x, load("i.npy"))' \
        "2:5: 'i.npy' contains 5, but cross_entropy needs whole numbers from 0 to 3 as indices"
    refuses 'y = add_at(x, load("i.npy"), x)' \
        "2:5: 'i.npy' contains 5, but sum_at needs whole numbers from 0 to 2 as indices"
    refuses 'y = cross_entropy(x, x)' "2:5: cross_entropy of 'x' (3 x 4) by 'x' (3 x 4): expected an index per row"
    refuses 'y = one_hot(load("i.npy"), 5)' \
        "2:5: 'i.npy' contains 5, but one_hot needs whole numbers from 0 to 4 as indices"
    refuses 'y = one_hot(0 - ones((1, 2)), 5)' \
        "2:5: '0 - ones((1, 2))' contains -1, but one_hot needs whole numbers from 0 to 4 as indices"
    refuses 'y = one_hot(ones((2, 2)) / 2, 5)' \
        "2:5: 'ones((2, 2)) / 2' contains 0.5, but one_hot needs whole numbers from 0 to 4 as indices"
    refuses 'y = one_hot(sqrt(0 - ones((2, 2))), 5)' \
        "2:5: 'sqrt(0 - ones((2, 2)))' contains nan, but one_hot needs whole numbers from 0 to 4 as indices"
    refuses 'y = one_hot(x, 0)' '2:5: one_hot of 0 classes: expected 1 to 16777216'
    refuses 'y = mse(x, x.T)' "2:5: cannot apply mse to 'x' (3 x 4) and 'x.T' (4 x 3): sizes differ"
    refuses 'y = add_at(x, argmax(x), x[:, 1:])' \
        "2:5: cannot add rows of 'x[:, 1:]' to 'x': expected one matrix with 3 columns"
    refuses 'y = cumsum(x, 2)' '2:15: axis 2 of 2 axes: expected -2 to 1'
}

@test "second derivatives exist where the rules use differentiable operations" {
    cat > s.py << 'END'
x = load("x.npy")
g = grad(sum(x ** 3 + sin(x) * exp(x)), x)
save("h.npy", grad(sum(g), x))
w, v = load("w.npy"), load("v.npy")
in_order = grad(sum(w * sort(x, descending=True) ** 3), x)
save("s.npy", grad(sum(in_order * v), x))
END
    py -c '
import numpy as np
for name, x in zip("xwv", np.random.default_rng(3).standard_normal((3, 5, 6))):
    np.save(f"{name}.npy", x)'
    "$MPIMATMUL" run s.py --quiet
    py -c '
import numpy as np
x, h = np.load("x.npy"), np.load("h.npy")
assert np.abs(h - (6 * x + 2 * np.cos(x) * np.exp(x))).max() < 1e-12
w, v, s = (np.load(f"{name}.npy") for name in "wvs")
places = np.argsort(np.argsort(-x))
assert np.abs(s - 6 * np.take_along_axis(w, places, -1) * x * v).max() < 1e-12'
}

@test "gradients keep the structure of tuples, and their names" {
    cat > t.py << 'END'
a, b = generate((3, 4), kind="integer", seed=1), generate((4, 2), kind="integer", seed=2)
model = ((a, b), (generate((1, 2), kind="integer", seed=3),))
loss = sum((a @ b + model[1][0]) ** 2)
pair, rest = grad(loss, model)
ga, gb = pair
print(loss, ga)
print(gb)
print(rest[0])
END
    run "$MPIMATMUL" run t.py --quiet
    py "$REPO/tests/reference.py" t.py > expected
    diff expected <(sed -E 's/, (file|replicate|partial|rows|cols)[^;]*;/;/' <<< "$output")
    run "$MPIMATMUL" run t.py --check
    [[ $output == *'gradient of b'* ]]
}

@test "losses have their slope also where a part of them has none" {
    cat > t.py << 'END'
x, y = generate((2, 3), kind="zeros"), generate((2, 3), kind="ones") * 0.25
w = grad(binary_cross_entropy(x, y), x) * 6
print(sum(w))
assert_close(w, generate((2, 3), kind="ones") * 0.25, 0.0)
assert_close(grad(mse(x, x), x), x, 0.0)
END
    run "$MPIMATMUL" run t.py --quiet
    [ "$status" -eq 0 ]
    [ "$output" = 1.5 ]
    py "$REPO/tests/reference.py" t.py
}

@test "a gradient made of numbers alone has the type of its value" {
    need_numpy
    py -c 'import numpy as np; np.save("x.npy", np.ones((2, 3)))'
    printf '%s\n' 'x = load("x.npy")' 'save("g.npy", grad(sum(x / 3), x))' > t.py
    "$MPIMATMUL" run t.py --quiet
    py -c 'import numpy as np
g = np.load("g.npy")
assert g.dtype == np.float64 and (g == 1 / 3).all(), g'
}

# masked_rows OPTION...: a row of attention with all keys masked is 0, and so are its gradients. The
# expected values are closed forms: a row that sees one key has that key's value.
masked_rows() {
    run "$MPIMATMUL" run masked.py --quiet "$@" < /dev/null
    [ "$status" -eq 0 ]
    py -c '
import numpy as np
def has(name, expected):
    found = np.load(name + ".npy")
    assert np.array_equal(found, expected), (name, found)
has("a", [[1], [0]])
for name, expected in (("q", [[1], [0]]), ("k", [[0], [0]]), ("v", [[2], [0]]), ("m", [[0, 0], [0, 0]])):
    has("d" + name, expected)
has("b", np.zeros((2, 1)))
has("c", np.zeros((400, 3)))
has("dc", np.zeros((400, 3)))'
}

@test "a row of attention with all keys masked is 0 and has the gradient 0" {
    py -c '
import numpy as np
np.save("q.npy", [[1.0], [2.0]])
np.save("m.npy", [[0, -np.inf], [-np.inf, -np.inf]])
np.save("far.npy", np.full((400, 500), -np.inf))'
    cat > masked.py << 'END'
q, m = load("q.npy"), load("m.npy")
a = attention(q, q, q, mask=m)
save("a.npy", a)
save("dq.npy", grad(sum(a[0:1]), q))
k, v = load("q.npy") * 1, load("q.npy") * 1
s = sum(attention(q, k, v, mask=m) * 2)
g = grad(s, (k, v, m))
save("dk.npy", g[0])
save("dv.npy", g[1])
save("dm.npy", g[2])
save("b.npy", attention(q, q, q, causal=True, mask=m) * (q > 1))
x, y = generate((400, 3), seed=1), generate((500, 3), seed=2)
c = attention(x, y, y, mask=load("far.npy"))
save("c.npy", c)
save("dc.npy", grad(sum(c * x), x) - c - attention(x, y, y, mask=load("far.npy")))
END
    masked_rows
    masked_rows --dtype float32
    ! "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || masked_rows --dtype float32 --device 0:0
}

@test "gradients are right where a slope is unbounded: at zeros, subnormal, huge and infinite numbers" {
    need_numpy
    local type device devices=("cpu" "reference")
    if "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"'; then
        devices+=("0:0")
    fi
    for type in float32 float64; do
        py "$REPO/tests/gradient_edges.py" write . "$type"
        for device in "${devices[@]}"; do
            rm -f z*.npy g*.npy
            "$MPIMATMUL" run gradient_edges.py --quiet --device "$device"
            run py "$REPO/tests/gradient_edges.py" compare . "$type"
            [ "$status$output" = "047 cases" ] || { show; return 1; }
        done
        rm -f z*.npy g*.npy
        "${launch[@]}" -n 3 "$MPIMATMUL" run gradient_edges.py --quiet
        py "$REPO/tests/gradient_edges.py" compare . "$type"
    done
    if "$PYTHON" -c 'import torch' 2> /dev/null; then
        run "$PYTHON" "$REPO/tests/gradient_edges.py" torch
        [ "$status$output" = "012 cases as torch" ] || { show; return 1; }
    fi
}

# bools RANKS OPTION...: attention with masks of bools. The expected values are those of torch
# 1.13's scaled_dot_product_attention and its backward.
bools() {
    "${launch[@]}" -n "$1" "$MPIMATMUL" run bools.py --quiet "${@:2}" < /dev/null
    "${launch[@]}" -n "$1" "$MPIMATMUL" run kept.py --quiet "${@:2}" < /dev/null
    py -c '
import numpy as np
def has(name, expected):
    found = np.load(name + ".npy")
    assert np.abs(found - expected).max() < 2e-6, (name, found)
for i in range(16):
    has(f"a{i}", [[1], [1.88079708]])
    has(f"d{i}", [[0.90921583], [1.19577783]])
has("y", [[[1, 2], [1, 0], [1, 2.892850054]], [[-1, 3], [-1.214083603, 2.678874596], [-2.984702239, 0.021101727]]])
has("dy", [[[0, 0], [0, 2.828427125], [0, 0.067960652]],
           [[0, 0], [0.675879915, 1.013819872], [0.054561716, 0.074062747]]])
assert np.load("double.npy").dtype == np.load("y.npy").dtype, "a comparison of float32 chose the type"
has("double", [[1], [2]])
has("sum", [[1.5], [1.88079708]])
has("hot", [[1], [2]])'
}

@test "a mask of bools allows attention, one of floats is added, one of integers is refused" {
    export MPIMATMUL_SHARD_DIR=$PWD/shards
    py -c '
import numpy as np
np.save("q.npy", [[1.0], [2.0]])
m = np.array([[True, False], [True, True]])
np.save("m.npy", m)
np.save("u8.npy", m.astype("u1"))
np.save("floats.npy", m.astype("f8"))
np.save("single.npy", np.eye(2, dtype="f4"))
np.save("h.npy", [[[2., 3], [3, 0], [3, 3]], [[3, -3], [0, 1], [-2, -1]]])
np.save("k.npy", [[[1., 2], [1, -2], [1, 3], [-2, 0]], [[-1, 3], [-3, 0], [3, 0], [-3, 2]]])'
    cat > bools.py << 'END'
q, m, u, f = load("q.npy"), load("m.npy"), load("u8.npy"), load("floats.npy")
some = q > 1  # a compared value has no gradient
masks = (m, u != 0, m.T.T, m * (f == 1), 1 - (m < 1), where(some, m, u == 1), reshape(m, (1, 2, 2))[0], maximum(m, 0),
         concat((m[:, 0:1], m[:, 1:2]), axis=-1), take(m, arange(2)), stop_gradient(place(m, "replicate")),
         permute(permute(m, (1, 0)), (1, 0)), maximum(q.T == 1, some))
for i in range(len(masks)):
    a = attention(q, q, q, mask=masks[i])
    save(f"a{i}.npy", a)
    save(f"d{i}.npy", grad(sum(a), q))
h, k = load("h.npy"), load("k.npy")
y = attention(h, k, k, mask=arange(4) <= reshape(arange(3), (3, 1)))
save("y.npy", y)
save("dy.npy", grad(sum(y), h))
save("sum.npy", attention(q, q, q, mask=f))
save("hot.npy", attention(q, q, q, mask=one_hot(arange(2), 2)))
save("double.npy", attention(q, q, q, mask=load("single.npy") > 0))
save("kept:m", m == 1)
END
    cat > kept.py << 'END'
q, m = load("q.npy"), load("kept:m")
for i in loop(13, 16):
    a = attention(q, q, q, mask=m)
    save(f"a{i}.npy", a)
    save(f"d{i}.npy", grad(sum(a), q))
    m = m * m
END
    bools 1
    bools 2
    bools 2 --dtype float32
    ! "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || bools 1 --dtype float32 --device 0:0
    printf '%s\n' 'q = load("q.npy")' 'save("r.npy", attention(q, q, q, mask=load("u8.npy")))' > integers.py
    run "$MPIMATMUL" run integers.py --quiet
    [ "$status" -eq 65 ]
    [ "$output" = "mpimatmul: integers.py:2:15: attention: the mask 'u8.npy' holds whole numbers: expected True and \
False, or floats that are added to the scores
    save(\"r.npy\", attention(q, q, q, mask=load(\"u8.npy\")))
                  ^
  hint: compare it: mask != 0" ]
    [ ! -e r.npy ]
}

@test "ties of a maximum over all axes share its gradient as in torch's amax" {
    need_numpy
    py -c '
import numpy as np
np.save("x.npy", np.array([[[3., 3, 1], [3, 0, 2]], [[0, 0, 0], [1, 3, 0]]]))'
    cat > t.py << 'END'
x = load("x.npy")
save("most.npy", grad(2 * max(x), x))
save("least.npy", grad(2 * min(x), x))
save("matrix.npy", grad(2 * max(x[0]), x))
save("chain.npy", grad(max(max(x[0], axis=-1), axis=-2), x))
save("kept.npy", grad(2 * max(x * x), x))
END
    for ranks in 1 3; do
        rm -f most.npy
        "${launch[@]}" -n "$ranks" "$MPIMATMUL" run t.py --quiet
        py -c '
import numpy as np
def has(name, expected):
    found = np.load(name + ".npy")
    assert np.allclose(found, expected, 1e-15, 0), (name, found)
none = [[0, 0, 0], [0, 0, 0]]
has("most", [[[.5, .5, 0], [.5, 0, 0]], [[0, 0, 0], [0, .5, 0]]])
has("least", [[[0, 0, 0], [0, .4, 0]], [[.4] * 3, [0, 0, .4]]])
has("matrix", [[[2 / 3, 2 / 3, 0], [2 / 3, 0, 0]], none])
has("chain", [[[.25, .25, 0], [.5, 0, 0]], none])
has("kept", np.array([[[3, 3, 0], [3, 0, 0]], [[0, 0, 0], [0, 3, 0]]]) * 1.)'
    done
    if "$PYTHON" -c 'import torch' 2> /dev/null; then
        "$PYTHON" -c '
import numpy as np, torch
for name, function in (("most", torch.amax), ("least", torch.amin)):
    x = torch.tensor(np.load("x.npy"), requires_grad=True)
    (2 * function(x)).backward()
    assert torch.allclose(x.grad, torch.tensor(np.load(name + ".npy"))), x.grad'
    fi
}
