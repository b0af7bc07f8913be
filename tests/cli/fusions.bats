#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Fused operations: their results equal those of one operation after the other, to the last bit.
# Intermediate values are not stored.
# shellcheck disable=SC2030,SC2031,SC2154 # status, output and stderr are set by bats
bats_require_minimum_version 1.5.0
load helper

# A chain behind a product, one behind a stack times a matrix, one without a product, one that needs
# whole rows, and a step of several operands and results, which is no chain. With middles=1 every
# intermediate value is a result, too. The products are of whole numbers: for others a library may
# add the terms of a row in another order, depending on the number of rows.
write_program() {
    cat > chains.py << 'END'
middles = 0
m = 131
x = generate((m, 67), kind="integer", seed=1)
w = generate((67, 45), kind="integer", seed=2)
b = generate((1, 45), kind="integer", seed=3)
r = generate((m, 45), kind="integer", seed=4)
a1 = x @ w
a2 = a1 + b
a3 = a2 / 64
a4 = gelu(a3)
a5 = a4 + r
save("a.npy", a5)
t = generate((3, 20, 67), kind="integer", seed=5)
u = generate((3, 20, 45), kind="normal", seed=6)
b1 = t @ w
b2 = b1 + b
b3 = relu(b2)
b4 = b3 + u
b5 = layer_norm(b4, b, b)
save("b.npy", b5)
c1 = maximum(r, -1)
c2 = c1 * 3
c3 = c2 > 2
c4 = c2 - 1
c5 = where(c3, c4, b)
c6 = abs(c5)
save("c.npy", c6)
d1 = x @ x.T
d2 = d1 / 8
d3 = softmax(d2, causal=True)
d4 = d3 * 2
save("d.npy", d4)
e1 = x @ w
e2 = e1 / 8
e3 = r * 0.9
e4 = e2 * 0.1
e5 = e3 + e4
e6 = e2 * e2
e7 = sqrt(e6)
e8 = e7 + 1
e9 = e5 / e8
f1 = e1 - e9
save("e.npy", e5)
save("f.npy", f1)
g1 = r[:, 0:1] * r
g2 = g1 - 0.9
g3 = g2 ** 2
g4 = g3 > g1
g5 = where(g4, g2, 0.9)
save("g.npy", g5)
p = generate((1, 1), kind="normal", seed=7)
h1 = p * 0.5
h2 = h1 + p
h3 = h2 - h1
h4 = h3 * h2
h5 = h2 / h2 + 1
h6 = h4 ** h5
save("h.npy", h6)
q = generate((m, 1), kind="normal", seed=8)
k1 = q * 0.5
k2 = k1 + q
k3 = k2 - k1
k4 = k3 * k2
save("k.npy", k4)
if middles:
    save("a1.npy", a1)
    save("a2.npy", a2)
    save("a3.npy", a3)
    save("a4.npy", a4)
    save("b1.npy", b1)
    save("b2.npy", b2)
    save("b3.npy", b3)
    save("b4.npy", b4)
    save("c1.npy", c1)
    save("c2.npy", c2)
    save("c3.npy", c3)
    save("c4.npy", c4)
    save("c5.npy", c5)
    save("d1.npy", d1)
    save("d2.npy", d2)
    save("d3.npy", d3)
    save("e1.npy", e1)
    save("e2.npy", e2)
    save("e3.npy", e3)
    save("e4.npy", e4)
    save("e6.npy", e6)
    save("e7.npy", e7)
    save("e8.npy", e8)
    save("e9.npy", e9)
    save("g1.npy", g1)
    save("g2.npy", g2)
    save("g3.npy", g3)
    save("g4.npy", g4)
    save("h1.npy", h1)
    save("h2.npy", h2)
    save("h3.npy", h3)
    save("k1.npy", k1)
    save("k2.npy", k2)
    save("k3.npy", k3)
END
}

# one_by_one FOLDER: computes each of the program's values there by a program of its own, from the
# files of the values before it.
one_by_one() {
    mkdir -p "$1/values"
    python "$1" << 'END'
import os, re, shutil, subprocess, sys
folder, sizes, values = sys.argv[1], "", []
for line in open("chains.py").read().split("if middles")[0].splitlines():
    assignment = re.fullmatch(r"(\w+) = (.*)", line)
    if not assignment:
        file, value = re.fullmatch(r'save\("(.*)", (.*)\)', line).groups()
        shutil.copy(f"{folder}/values/{value}.npy", f"{folder}/{file}")
    elif assignment[2].isdigit():
        sizes += line + "\n"
    else:
        read = "".join(f'{v} = load("{v}.npy")\n' for v in values if re.search(rf"\b{v}\b", assignment[2]))
        with open(f"{folder}/values/one.py", "w") as text:
            text.write(sizes + read + line + f'\nsave("{assignment[1]}.npy", {assignment[1]})\n')
        subprocess.run([os.environ["MPIMATMUL"], "run", "one.py", "--quiet"], cwd=f"{folder}/values", check=True)
        values.append(assignment[1])
END
}

# The same program with matrices from float64 files.
write_double_program() {
    write_program
    sed -i -E "s|^([a-z]) = generate\\(.*|\\1 = load(\"$PWD/in_\\1.npy\")|" chains.py
    python << 'END'
import numpy as np
rng = np.random.default_rng(7)
for name, shape in ("x", (131, 67)), ("w", (67, 45)), ("b", (1, 45)), ("r", (131, 45)), ("t", (3, 20, 67)):
    np.save(f"in_{name}.npy", rng.integers(-4, 5, shape).astype("f8"))
for name, shape in ("u", (3, 20, 45)), ("p", (1, 1)), ("q", (131, 1)):
    np.save(f"in_{name}.npy", rng.standard_normal(shape))
END
}

# is_same FOLDER [MIDDLES]: all results, and the intermediate values if asked for, equal those of
# that folder to the last bit.
is_same() {
    local name
    for name in a b c d e f g h k; do
        cmp "$name.npy" "$1/$name.npy" || return 1
    done
    [ -n "${2:-}" ] || return 0
    for name in {a,b,c,d,e,g,h,k}{1,2,3} {a,b,c,e,g}4 c5 e{6,7,8,9}; do
        cmp "$name.npy" "$1/values/$name.npy" || return 1
    done
}

# is_near FOLDER [TYPE]
is_near() {
    python "$1" "${2:-float32}" << 'END'
import sys
import numpy as np
folder, dtype = sys.argv[1:]
tolerance = 2e-5 if dtype == "float32" else 1e-13
for name in "abcdefghk":
    x, y = np.load(f"{name}.npy"), np.load(f"{folder}/{name}.npy")
    assert x.dtype == dtype and x.shape == y.shape, (name, x.dtype)
    assert np.abs(x - y).max() <= tolerance * max(1, np.abs(y).max()), name
END
}

# expect_chains TYPE: the results are right on 1, 2, 3 and 5 ranks, with and without saved
# intermediate values.
expect_chains() {
    local middles count
    one_by_one apart
    mkdir numpy
    (cd numpy && REFERENCE_STORES=$1 py "$REPO/tests/reference.py" ../chains.py)
    for middles in '' middles=1; do
        for count in 1 2 3 5; do
            rm -f [abcdefghk]*.npy
            run --separate-stderr timeout 60 "${launch[@]}" --oversubscribe -n "$count" "$MPIMATMUL" run chains.py \
                --quiet ${middles:+"$middles"}
            expect_quiet_success
            is_same apart "$middles"
            is_near numpy "$1"
        done
    done
}

@test "chains equal separate operations and numpy on 1, 2, 3 and 5 ranks" {
    need_numpy
    write_program
    expect_chains float32
}

@test "chains of float64 equal separate operations and numpy on 1, 2, 3 and 5 ranks, also when a device errs" {
    need_numpy
    write_double_program
    expect_chains float64
    for rule in fail=3,hang=100 garble=3 hang=3; do
        rm -f [abcdefghk]*.npy
        options=(chains.py --weights equal --device-timeout 1 --progress none)
        run --separate-stderr timeout 60 "${launch[@]}" -n 1 "$MPIMATMUL" run "${options[@]}" --device cpu : \
            -n 1 "$MPIMATMUL" run "${options[@]}" --device "faulty:$rule:cpu"
        expect_status 0
        [[ $stderr == "mpimatmul: warning: rank 1: device 'faulty:$rule:cpu"*" 'reference': "* ]]
        is_near numpy float64
    done
}

@test "chains are right when a device is lost, hangs or errs in their middle" {
    need_numpy
    write_program
    mkdir numpy
    (cd numpy && py "$REPO/tests/reference.py" ../chains.py)
    for rule in fail=2 fail=3,hang=100 fail=4 garble=3 garble=4,hang=100 corrupt=3 hang=2 hang=3 hang=4; do
        rm -f ./*.npy
        options=(chains.py --weights equal --device-timeout 1 --progress none)
        run --separate-stderr timeout 60 "${launch[@]}" -n 1 "$MPIMATMUL" run "${options[@]}" --device cpu : \
            -n 1 "$MPIMATMUL" run "${options[@]}" --device "faulty:$rule:cpu"
        expect_status 0
        show
        [[ $stderr == "mpimatmul: warning: rank 1: device 'faulty:$rule:cpu"*" 'reference': "* ]]
        is_near numpy
    done
}

@test "OpenCL chains are right, also when a device errs in one" {
    need_numpy
    [ "$("$MPIMATMUL" devices --json | grep -c '"0:0"')" -gt 0 ] || skip "opencl: no device 0:0"
    write_program
    mkdir numpy
    (cd numpy && py "$REPO/tests/reference.py" ../chains.py)
    program run chains.py --quiet --device 0:0
    expect_quiet_success
    is_near numpy
    program run chains.py --device faulty:garble=3:0:0
    expect_status 0
    [[ $stderr == *"'cpu': "*" wrong rows in "* ]]
    is_near numpy
}

# steps FILE: prints the operations that --check shows, one by one.
steps() {
    program run "$@" --check --verbose
    expect_status 0
    sed -n '/^step /,$p' <<< "$output" | sed '1d;/^$/,$d;s/^ *[0-9]*  //;s/  .*//'
}

@test "fused operations are one step, with several results where others read the intermediate values" {
    write_program
    steps chains.py > found
    grep -qx 'matmul + add + divide + gelu + add' found
    grep -qx 'matmul + add + relu + add + layer_norm' found
    grep -qx 'maximum + multiply + greater + subtract + where + abs' found
    grep -qx 'matmul + divide + softmax + multiply' found
    grep -qx 'multiply + subtract + power + greater + where' found
    grep -qx 'matmul + divide + multiply + multiply + add + multiply + sqrt + add + divide + subtract' found
    steps chains.py | grep '+' > single
    steps chains.py middles=1 | grep '+' | diff - single  # the intermediate value is a result, too
    program run chains.py middles=1 --check --json
    python "$output" << 'END'
import json, sys
steps = {s["operation"]: s for s in json.loads(sys.argv[1])["steps"]}
step = steps["matmul + add + divide + gelu + add"]
assert step["value"] == "a5" and sorted(s["value"] for s in step["also"]) == ["a1", "a2", "a3", "a4"], step
END
    write_double_program
    steps chains.py | grep '+' | diff - <(sed 's|^generate + ||' single)  # the same in float64
}

@test "an operand with several readers, one read in another order, and a repeated row prevent fusion" {
    cat > e.py << 'END'
x = generate((64, 64), kind="integer", seed=1)
y = x * 2
save("z.npy", y @ y + y)
a = x + 1
save("b.npy", a.T - a)
v = generate((1, 64), kind="integer", seed=2) * 3
save("w.npy", x / v)
END
    steps e.py > found
    grep -qx 'matmul + add' found
    [ "$(grep -cx 'generate + multiply' found)" -eq 2 ]
    grep -qx 'add' found
    grep -qx 'subtract' found
    grep -qx 'divide' found
}

@test "a step of an optimiser is one step with three results" {
    cat > e.py << 'END'
state = adamw_state(generate((300, 40), kind="normal", seed=1))
g = generate((300, 40), kind="normal", seed=2)
state = adamw(state, g, 3, 0.1)
state = adamw(state, g * 2, 4, 0.1)
save("w.npy", state[0])
save("m.npy", state[1])
save("v.npy", state[2])
END
    program run e.py --check --json
    python "$output" << 'END'
import json, sys
steps = [s for s in json.loads(sys.argv[1])["steps"] if "sqrt" in s["operation"]]
assert len(steps) == 1 and len(steps[0]["also"]) == 2, steps
assert sorted(len(set(s["value"] for s in steps[0]["also"])) for s in steps) == [1], steps
END
}

# memory_of TEXT: prints the bytes that the program's values take, by --check.
memory_of() {
    printf '%s\n' 'x = generate((1024, 1024), kind="normal", seed=1)' "$@" > e.py
    program run e.py --check
    sed -n 's/.*values take at most \([0-9.]* [KMG]iB\) per.*/\1/p' <<< "$output"
}

@test "intermediate values take no memory" {
    [ "$(memory_of 'save("y.npy", x @ x)')" = "4.0 MiB" ]
    [ "$(memory_of 'save("y.npy", relu(x @ x))')" = "8.0 MiB" ]
    [ "$(memory_of 'save("y.npy", tanh(relu(x @ x / 32) + 1) * 2 + x)')" = "8.0 MiB" ]
    [ "$(memory_of 'save("y.npy", softmax(exp(-abs(x)) * 3 + x) / 2)')" = "4.0 MiB" ]
}

@test "log, trace and report show a fused step as one" {
    need_numpy
    cat > e.py << 'END'
x = generate((30, 30), seed=1)
save("z.npy", relu(x @ x) + 1)
END
    program run e.py --log log --trace trace.json --report report.json --quiet
    expect_quiet_success
    cut -f 6 log | grep -qx 'matmul + relu + add'
    python << 'END'
import json
names = [e["name"] for e in json.load(open("trace.json"))["traceEvents"] if e["ph"] == "X"]
assert any(name.startswith("matmul + relu + add ") for name in names), names
assert "matmul + relu + add" in [o["operation"] for o in json.load(open("report.json"))["operations"]]
END
}

@test "a product on a grid may be followed by an operation that reads a file" {
    need_numpy
    "$MPIMATMUL" gen X.npy --dims 601x1503 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.npy --dims 1503x701 --kind integer --seed 2 -q
    "$MPIMATMUL" gen C.npy --dims 601x701 --kind integer --seed 3 -q
    echo 'x, w, c = load("X.npy"), load("W.npy"), load("C.npy")
z = place(x, "grid") @ place(w, "grid")
save("Y.npy", maximum(z, c))' > grid.py
    local count
    for count in 1 2 3 4; do
        ranks $count run grid.py --device cpu -q
        expect_quiet_success
        python << 'END'
import numpy as np
x, w, c = (np.load(name + ".npy").astype("f8") for name in "XWC")
assert np.array_equal(np.load("Y.npy"), np.maximum(x @ w, c))
END
    done
}
