#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Local SGD over several nodes: copies of a model train on windows of their own, and their mean is
# weighted by the windows seen.
# shellcheck disable=SC2154 # status and output are set by bats
load ../cli/helper
load hosts

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test
    cp /usr/share/common-licenses/GPL-3 book.txt
    cat > a.py <<'END'
text = tokens("book.txt")
width = 16
base = generate((text.vocabulary, width), "normal", seed=1) * 0.3
head = generate((text.vocabulary, width), "normal", seed=2) * 0.3
bias = generate((1, text.vocabulary), "normal", seed=3) * 0.1


def loss_of(w, x, y):
    return cross_entropy(tanh(take(w[0], x)) @ w[1].T + bias, y)


def inner(state, turn):
    x, y = batch(text, 6, 8, seed=5, turn=turn)
    g = grad(loss_of(state[0], x, y), state[0])
    return adamw(state, clip_grad_norm(g, 1.0), turn=turn, rate=0.01)


outer = nesterov_state((base, head))
state = adamw_state((base, head))
x, y = batch(text, 40, 8, seed=9, turn=0)
for step in loop(5):
    new = apart(inner, state, step * 4, 4)
    outer = nesterov(outer, average(new[0]), rate=0.7, momentum=0.9)
    state = (outer[0], new[1], new[2])
    print(step, loss_of(outer[0], x, y))
save("w.npy", outer[0][0])
END
}

# agree HOSTS SHARES OPTIONS...: losses and parameters equal those of the reference, run with these
# node shares.
agree() {
    local hosts=$1 shares=$2
    shift 2
    run --separate-stderr lab_mpirun "$hosts" "$MPIMATMUL" run a.py --quiet "$@"
    [ "$status" -eq 0 ] || { echo "$output" "$stderr"; return 1; }
    echo "$output" > got
    mv w.npy got.npy
    REFERENCE_APART=$shares py "$REPO/tests/reference.py" a.py > want
    [ "$(wc -l < want)" -eq 5 ]
    py - <<'END'
import numpy as np
got, want = np.loadtxt("got"), np.loadtxt("want")
assert np.abs(got - want).max() < 1e-4, (got, want)
assert np.abs(np.load("got.npy") - np.load("w.npy")).max() < 1e-4
END
}

@test "copies are trained apart and averaged by the windows that they have seen" {
    agree node1:1,node2:1 1:2 --weights 1,2
    agree node1:2,node2:1 1:2 --weights 1,1,4
    agree node1:1,node2:1,node3:1 1:3:2 --weights 1,3,2
    agree node2:3 1
    run --separate-stderr lab_mpirun node1:1,node2:1 "$MPIMATMUL" run a.py --weights 1,2
    [[ "$output" == *$'\nwindows seen per node: 40:80\n'* ]]
}

@test "--check prints the saved network traffic of local steps, for programs with and without them" {
    cat > together.py <<'END'
table, goals = generate((4096, 64), seed=1), generate((4096, 32), seed=2)


def inner(state, turn):
    x, y = batch(table, goals, 512, seed=3, turn=turn)
    return sgd(state, grad(mse(x @ state[0][0], y), state[0]), rate=0.1)


w = (generate((64, 32), seed=4),)
state = sgd_state(w)
for step in loop(50):
    state = inner(state, step)
save("w.npy", state[0][0])
END
    sed '/^state = /d; s/^for .*/for step in loop(10):/
        s/^    state = .*/    new = apart(inner, sgd_state(w), 5 * step, 5)\n    w = average(new[0])/
        s/state\[0\]\[0\])$/w[0])/' together.py > a.py
    # A mean of 8 KiB on two nodes: each sends one half, which the other adds up, and then the half
    # that it has added up.
    run --separate-stderr lab_mpirun node1:1,node2:1 "$MPIMATMUL" run a.py --check --weights 1,2
    [ "$status" -eq 0 ]
    diff <(grep -E '^(apart|loop| +with)' <<< "$output" | sed -E 's/[0-9.]+ s/N s/g; s/\(.* if/(B if/') - <<'END'
loop in line 10: 10 turns of N s, 16.0 KiB between nodes per turn; carried: w (1 matrix)
apart in line 11: 5 turns of N s on each node, 0 B between nodes per turn (B if together); state: 2 matrices
END
    run --separate-stderr lab_mpirun node1:1,node2:1 "$MPIMATMUL" run together.py --check --weights 1,2
    [ "$status" -eq 0 ]
    diff <(grep -E '^(apart|loop| +with)' <<< "$output" |
        sed -E 's/[0-9.]+ s/N s/g; s/[0-9.]+ KiB/N KiB/') - <<'END'
loop in line 11: 50 turns of N s, N KiB between nodes per turn; carried: state (2 matrices)
  with apart and the mean of 1 matrix every 20 turns: N s, not N s, and 819 B between nodes in each, not N KiB
END
    awk '/^loop/ {now = $8} /with apart/ {exit !($12 < now && $15 == now)}' <<< "$output"
}

@test "--on-nan skip reports the node and turn of a skipped step, which may differ between nodes" {
    cat > n.py <<'PROGRAM'
table, goals = load("table.npy"), load("goals.npy")


def inner(state, turn):
    x, y = batch(table, goals, 7, seed=3, turn=turn)
    g = grad(mse(x @ state[0][0], y), state[0])
    return sgd(state, g, rate=0.1)


w = (generate((3, 1), "normal", seed=4),)
for step in loop(3):
    new = apart(inner, sgd_state(w), step * 5, 5)
    w = average(new[0])
save("w.npy", w[0])
PROGRAM
    PYTHONPATH="$REPO/tests" py - > want <<'NUMPY'
import numpy as np
import reference
drawn = np.random.default_rng(1)
table, goals = drawn.standard_normal((40, 3)).astype("f4"), drawn.standard_normal((40, 1)).astype("f4")
table[7, 1] = np.inf
np.save("table.npy", table), np.save("goals.npy", goals)
w = np.asarray(reference.generate((3, 1), "normal", seed=4))
for step in range(3):
    copies = [w, w]
    for turn in range(5 * step, 5 * step + 5):
        rows = [int(reference._drawn(3, turn * 7 + i)) * 40 >> 64 for i in range(7)]
        for node, own in enumerate((rows[:2], rows[2:])):
            if 7 in own:
                print(f"mpimatmul: warning: turn {step}: node {node}, turn {turn}: n.py:7:12: "
                      "gradient 'g[0]' is not finite: no step")
            else:
                off = table[own] @ copies[node] - goals[own]
                copies[node] = copies[node] - 0.1 * 2 * table[own].T @ off / len(own)
    w = (2 * copies[0] + 5 * copies[1]) / 7
np.save("want.npy", w)
NUMPY
    grep -q 'node 0' want && grep -q 'node 1' want
    for hosts in node1:1,node2:1 node1:2,node2:1; do
        run --separate-stderr lab_mpirun $hosts "$MPIMATMUL" run n.py --quiet --on-nan skip \
            --weights "$([ $hosts = node1:1,node2:1 ] && echo 2,5 || echo 1,1,5)"
        [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
        diff want <(echo "$stderr")
        py -c 'import numpy as np; assert np.abs(np.load("w.npy") - np.load("want.npy")).max() < 1e-5'
    done
}

@test "a script's DiLoCo trains nodes apart, as the reference and the text do" {
    export OPENBLAS_NUM_THREADS=1
    local hosts shares weights seen
    while read -r hosts shares weights seen; do
        export REFERENCE_APART=$shares
        run --separate-stderr lab_mpirun "$hosts" env PYTHONPATH="$REPO/src/python:$REPO/tests" \
            MPIMATMUL_LIBRARY="$BUILD/lib/libmpimatmul.so" "$PYTHON" "$REPO/tests/python_learning.py" apart
        [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
        [ "$output" = "apart ok" ]
        run --separate-stderr lab_mpirun "$hosts" "$MPIMATMUL" run text.py --weights "$weights"
        [ "$status" -eq 0 ]
        [[ "$output" == *$'\nwindows seen per node: '$seen$'\n'* ]] || { echo "$output"; return 1; }
        py -c 'import numpy as np
text, script = np.load("apart.npy"), np.load("script.npy")
assert np.abs(text - script).max() < 1e-5, (text, script)'
    done <<< $'node1:1,node2:1 1:3 1,3 24:60\nnode1:2,node2:1 4:2 1,3,2 60:24'
}

@test "a lost node ends the job, the last checkpoint is complete, and the other nodes continue from it" {
    local program=("$MPIMATMUL" run "$REPO/bench/programs/diloco.py" layers=1 heads=2 width=16 length=8 count=4
        inners=2 corpus=book.txt) job code=0
    LAB_SECONDS=400 lab_mpirun node1:1,node2:1 "${program[@]}" outers=100000 > job.out 2> job.err 3>&- &
    job=$!
    until grep -q '^4 ' job.out; do  # then the checkpoint of the turn before is written
        kill -0 "$job" || { cat job.out job.err; return 1; }
        sleep 0.1
    done
    # shellcheck disable=SC2046 # one or several
    kill -KILL $(lab_program_pids node2)
    wait "$job" || code=$?
    [ "$code" -ge 130 ] && [ "$code" -le 143 ] || { echo "$code"; cat job.err; return 1; }
    [ ! -e diloco.wte.npy ]
    local turn
    turn=$("$MPIMATMUL" info diloco.safetensors --json > /dev/null && head -c 3000 diloco.safetensors |
        grep -ao '"turn": *"[0-9]*"' | grep -o '[0-9]*')
    [ "$turn" -ge 4 ]
    run --separate-stderr lab_mpirun node1:1 "${program[@]}" outers=$((turn + 2)) --quiet
    [ "$status" -eq 0 ]
    [ "$(cut -d' ' -f1 <<< "$output" | xargs)" = "$turn $((turn + 1))" ]
    [ -e diloco.wte.npy ]
}
