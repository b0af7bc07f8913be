#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, stderr and launch are set by bats and the helper
# Values on some of the ranks: placed by the text, by a file of placements, in Python; loops and
# refusals.

load helper

# run_on RANKS ARGUMENTS...
run_on() {
    run --separate-stderr "${launch[@]}" -n "$1" "$MPIMATMUL" run "${@:2}" < /dev/null
}

write_stages() {
    need_numpy
    cat > s.py << 'END'
x = generate((64, 32), kind="integer", seed=3)
w = place(generate((32, 48), kind="integer", seed=4), "replicate", ranks=0)
v = place(generate((48, 16), kind="integer", seed=5), "replicate", ranks=(1,))
u = place(generate((16, 24), kind="integer", seed=6), "cols", ranks=(0, 1))
y = relu(x @ w) @ v
z = y @ u
g = grad(sum(y * y) + sum(z), (w, v, u))
save("y.npy", y)
save("z.npy", z)
save("w.npy", g[0])
save("v.npy", g[1])
save("u.npy", g[2])
print(sum(z))
END
}

@test "values placed on ranks, and their gradients, are equal element by element on 2, 3 and 5 ranks" {
    write_stages
    mkdir numpy
    (cd numpy && py "$REPO/tests/reference.py" ../s.py > ../expected)
    for ranks in 2 3 5; do
        run_on "$ranks" s.py --quiet
        expect_status 0
        [ "$output" = "$(cat expected)" ]
        py -c '
import numpy as np
for name in "yzwvu":
    assert np.array_equal(np.load(f"{name}.npy"), np.load(f"numpy/{name}.npy")), name'
        rm -- *.npy
    done
}

@test "the plan has stages on their ranks and moves each passed value once in each direction" {
    write_stages
    run_on 2 s.py --check
    expect_status 0
    [[ $output == *"rows 0 64 64 "* ]]  # x moves to the first product
    [ "$(grep -c ' move  *relu(x @ w) .* rows 0 0 64 ' <<< "$output")" -eq 1 ]
    [ "$(grep -c ' move .* rows 0 64 64 ' <<< "$output")" -eq 1 ]  # the gradient moves back
    run_on 3 s.py --check
    [[ $output == *" cols 0 12 24 24 "* ]]
}

@test "a file of placements may have both forms and names in tuples, and names without a match are reported" {
    need_numpy
    cat > p.py << 'END'
w = (generate((32, 32), kind="integer", seed=1), (generate((32, 32), kind="integer", seed=2), 7))
a, b = generate((64, 32), kind="integer", seed=3), generate((32, 64), kind="integer", seed=4)
y = (a @ w[0]) @ w[1][0] @ b
save("y.npy", y)
END
    cat > p.yaml << 'END'
# a comment
w.0: {replicated: true, ranks: [1]}
w: {shard: {axis: 1, workers: [0, 2]}, backward: w.0}
"[ab]": rows
nobody: cols
END
    run_on 3 p.py --placement p.yaml
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'nobody' in 'p.yaml' matches no name of the program" ]
    mkdir numpy
    (cd numpy && py "$REPO/tests/reference.py" ../p.py)
    py -c 'import numpy as np; assert np.array_equal(np.load("y.npy"), np.load("numpy/y.npy"))'
    run_on 3 p.py --placement p.yaml --check
    [[ $output == *" cols 0 16 16 32 "* ]]
    [[ $output == *" rows 0 0 64 64 "* ]]  # made with w.0
    [[ $output == *" rows 0 16 16 32 "* ]]  # b, the second operand of w.1
    MPIMATMUL_PLACEMENT=p.yaml run_on 3 p.py --check
    [[ $output == *" cols 0 16 16 32 "* ]]
}

@test "gradients flow through a value on the ranks of another entry" {
    need_numpy
    cat > g.py << 'END'
w = generate((32, 32), kind="integer", seed=1)
x = generate((64, 32), kind="integer", seed=2)
h = x @ w
save("g.npy", grad(sum(h * h), w))
END
    printf '%s\n' 'w: {replicated: true, ranks: [0]}' 'h: {shard: {workers: [0]}, backward: other}' \
        'other: {shard: {workers: [1]}}' > g.yaml
    run_on 2 g.py --placement g.yaml
    expect_status 0
    [ "$stderr" = '' ]
    sed s/g.npy/r.npy/ g.py > r.py
    py "$REPO/tests/reference.py" r.py
    py -c 'import numpy as np; assert np.array_equal(np.load("g.npy"), np.load("r.npy"))'
    run_on 2 g.py --placement g.yaml --check
    [[ $output == *"gradient of w"*" rows 0 0 32 "* ]]
}

# Sharding files of GT contain entries that do not exist here and compile instructions, and null
# means all workers.
@test "a sharding file of GT is read unchanged" {
    need_numpy
    cat > g.py << 'END'
w = generate((32, 32), kind="integer", seed=1)
x = generate((64, 32), kind="integer", seed=2)
h = x @ w
k = x @ (w + 1)
save("g.npy", grad(sum(h * h) + sum(k), w))
END
    cat > gt.yaml << 'END'
w:
  shard:
    axis: 1
    workers: null
    replicated: true  # on all of them
x:
  compile: true
h:
  compile: true
  shard:
    axis: 0
    workers: [1]
    replicated: false
  backward: h_bwd
k:
  shard:
    axis: 1
    workers: ~
  backward: w
END
    run_on 2 g.py --placement gt.yaml
    expect_status 0
    local end='which has no ranks: its gradients stay with the value'
    [ "$stderr" = "mpimatmul: notice: gt.yaml:8: backward of 'h' is 'h_bwd', $end
mpimatmul: notice: gt.yaml:15: backward of 'k' is 'w', $end
mpimatmul: notice: gt.yaml:6: compile of 'x' and of others is ignored" ]
    sed s/g.npy/r.npy/ g.py > r.py
    py "$REPO/tests/reference.py" r.py
    py -c 'import numpy as np; assert np.array_equal(np.load("g.npy"), np.load("r.npy"))'
    run_on 2 g.py --placement gt.yaml --check
    [[ $output == *" rows 0 0 64 "* ]] # h
    [[ $output == *" move "*" k rows "*" cols "* ]]
    run_on 2 g.py --placement gt.yaml --quiet
    expect_quiet_success
    need_plain "python is not linked against the sanitizer"
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    echo 'import mpimatmul; mpimatmul.init(placement="gt.yaml")' > w.py
    run --separate-stderr "$PYTHON" w.py < /dev/null
    expect_status 0
    [ "$(grep -c 'Warning: gt.yaml:' <<< "$stderr")" -eq 3 ]
}

@test "a loop carries values in place and gives the losses of the reference" {
    need_numpy
    cp "$REPO/LICENSE" book.txt
    local settings=(corpus=book.txt layers=4 heads=2 width=16 length=8 count=8 every=1 turns=6 saves=3)
    local program=$REPO/bench/programs/pipeline.py
    py "$REPO/tests/reference.py" "$program" "${settings[@]}" file=r.safetensors > expected
    [ "$(wc -l < expected)" -eq 6 ]
    for stages in 1 2 4; do
        rm -f pipeline.safetensors
        run_on "$stages" "$program" "${settings[@]}" stages="$stages" --quiet
        expect_status 0
        paste <(cut -d' ' -f2 expected) <(cut -d' ' -f2 <<< "$output") |
            awk '{ d = $1 - $2; if (d < -1e-4 || d > 1e-4) exit 1; n++ } END { exit n != 6 }'
    done
    # Two stages continue the checkpoint of four.
    run_on 2 "$program" "${settings[@]}" turns=8 --quiet
    expect_status 0
    [ "$(cut -d' ' -f1 <<< "$output" | xargs)" = '6 7' ]
}

@test "a wrong or lost device of a stage is replaced" {
    write_stages
    mkdir numpy
    (cd numpy && py "$REPO/tests/reference.py" ../s.py > /dev/null)
    for device in faulty:corrupt=1:cpu faulty:fail=1:cpu; do
        run_on 2 s.py --quiet --device "$device"
        expect_status 0
        py -c '
import numpy as np
for name in "yzwvu":
    assert np.array_equal(np.load(f"{name}.npy"), np.load(f"numpy/{name}.npy")), name'
    done
}

# refused CODE LINE TEXT...
refused() {
    printf '%s\n' "${@:3}" > bad.py
    run_on 2 bad.py
    expect_failure "$1" "$2"
}

@test "invalid ranks are refused" {
    local x='x = generate((4, 4))'
    refused 64 "cannot place 'y' on rank 2: the job has 2 ranks" "$x" 'y = place(x, "rows", ranks=(0, 2))' 'print(y)'
    refused 65 'bad.py:2:5: cannot place a value on rank 1024: expected 0 to 1023' "$x" \
        'y = place(x, "rows", ranks=1024)'
    refused 65 'bad.py:2:28: invalid rank -1: ranks start at 0' "$x" 'y = place(x, "rows", ranks=(-1,))'
    refused 65 'bad.py:2:28: ranks is empty, expected one at least' "$x" 'y = place(x, "rows", ranks=())'
    refused 65 "bad.py:2:5: a grid placement needs all ranks" "$x" 'y = place(x, "grid", ranks=0)'
}

# refused_file LINE TEXT...
refused_file() {
    printf '%s\n' "${@:2}" > bad.yaml
    run_on 2 bad.py --placement bad.yaml
    [ "$status" -eq 65 ] && [ "$stderr" = "mpimatmul: bad.yaml$1" ] && [ -z "$output" ] && return
    show
    return 1
}

@test "a wrong file of placements is refused with its place" {
    echo 'a = generate((4, 4))' > bad.py
    refused_file ":2:1: did not find expected ',' or ']'" 'a: [1'
    refused_file ":1:4: 'up': expected rows, cols, cyclic, replicate or grid" 'a: up'
    refused_file ":1:25: 'a': expected at least one rank" 'a: {shard: rows, ranks: []}'
    refused_file ":1:26: '-1': expected a rank: 0, 1, ..." 'a: {shard: rows, ranks: [-1]}'
    refused_file ":1:5: 'sharp': expected shard, block, ranks, replicated, backward or compile" 'a: {sharp: rows}'
    refused_file ":1:19: '2': expected axis 0 (rows) or 1 (cols)" 'a: {shard: {axis: 2}}'
    refused_file ":1:13: 'axle': expected axis, workers or replicated" 'a: {shard: {axle: 0}}'
    refused_file ":1:14: 'maybe': expected true or false" 'a: {compile: maybe}'
    refused_file ':1:4: '"'a': a grid is on all ranks" 'a: {shard: grid, ranks: [0]}'
    refused_file ":1:17: 'no': expected true or false" 'a: {replicated: no}'
    refused_file ':1:31: '"'a': its ranks are given twice" 'a: {shard: {workers: , ranks: [1]}}'
    refused_file ":2:1: 'a': this name occurs twice" 'a: rows' 'a: cols'
    refused_file ':1:34: '"'a': its ranks are given twice" 'a: {ranks: [0], shard: {workers: [1]}}'
    refused_file ': expected lines NAME: placement' '- a'
    refused_file ': expected lines NAME: placement'
    run_on 1 bad.py --placement nowhere.yaml
    expect_failure 66 "cannot open 'nowhere.yaml': No such file or directory"
}

@test "in Python, place takes ranks, and signal takes names" {
    need_numpy
    need_plain "python is not linked against the sanitizer"
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    cat > t.py << 'END'
import numpy as np
import mpimatmul as mm
mm.init(placement="t.yaml")
x = mm.array(np.arange(64.0).reshape(8, 8))
with mm.signal("w1"):
    w = mm.generate((8, 8), kind="integer", seed=1)
v, (u,) = mm.place((mm.generate((8, 8), kind="integer", seed=2), [mm.generate((8, 8), kind="integer", seed=3)]),
                   "replicate", ranks=1)
w.requires_grad = v.requires_grad = True
for _ in range(2):
    y = x @ w @ v @ u
    mm.sum(y).backward()
    mm.persist(y, w.grad, v.grad)
found = [a.numpy() for a in (x, w, v, u, y, w.grad, v.grad)]
if mm.rank() == 0:
    x, w, v, u, y, gw, gv = (a.astype("f8") for a in found)
    ones = np.ones((8, 8))
    assert np.array_equal(y, x @ w @ v @ u)
    assert np.array_equal(gw, 2 * x.T @ ones @ u.T @ v.T)
    assert np.array_equal(gv, 2 * (x @ w).T @ ones @ u.T)
END
    echo 'w1: {shard: rows, ranks: [0, 1]}' > t.yaml
    run --separate-stderr "${launch[@]}" -n 3 "$PYTHON" t.py < /dev/null
    expect_status 0
    echo 'w1: {shard: rows, ranks: [0, 4]}' > t.yaml
    run --separate-stderr "${launch[@]}" -n 3 "$PYTHON" t.py < /dev/null
    [ "$status" -ne 0 ]
    [[ $stderr == *"on rank 4: the job has 3 ranks"* ]]
}
