#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, lines and launch are set by bats and the helper
# NaN and infinity in gradients: the run ends before it keeps a value of that turn, or it skips the
# step.

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# Two optimisers. g[1][0] is infinite (or NaN) in turn 2, g[0] in turn 5.
learner() {
    script 'x = generate((64, 10), kind="normal", seed=1)
t = tanh(x @ generate((10, 3), kind="normal", seed=2))
state = adamw_state((generate((10, 3), kind="normal", seed=3), (generate((1, 3), kind="zeros"),)))
other = sgd_state(state[0])
for step in loop(8):
    g = grad(mse(tanh(x @ state[0][0] + state[0][1][0]), t), state[0])
    g = (g[0] / ((step - 5) * (step - 5)), (g[1][0] / ((step - 2) * (step - 2)),))
    state = adamw(state, '"${1:-g}"', turn=step, rate=0.01)
    other = sgd(other, g, 0.1, momentum=0.9)
    checkpoint("c.safetensors", state, turn=step + 1)
    print(step, sum(state[0][0]), sum(state[1][0]), sum(state[2][1][0]), sum(other[0][0]), sum(other[1][0]))'
}

# skips OPTION...: gives the results of a program without the skipped steps, and reports these.
skips() {
    run --separate-stderr "${ranks[@]}" "$MPIMATMUL" run e.py --quiet --on-nan skip "$@"
    [ "$status" -eq 0 ]
    local where='gradient'
    diff <(printf 'mpimatmul: warning: turn %s is not finite: no step\n' \
        "2: e.py:8:13: $where '${name}[1][0]'" "2: e.py:9:13: $where 'g[1][0]'" \
        "5: e.py:8:13: $where '${name}[0]'" "5: e.py:9:13: $where 'g[0]'") <(echo "$stderr")
    echo "$output" > printed
    py -c '
mine, theirs = ([list(map(float, line.split())) for line in open(f)] for f in ("printed", "expected"))
assert len(mine) == len(theirs) == 8
for x, y in zip(mine, theirs):
    assert all(abs(a - b) <= 1e-4 * abs(b) + 1e-7 for a, b in zip(x, y)), (x, y)
assert mine[2][1:] == mine[1][1:] and mine[5][1:] == mine[4][1:]'
}

@test "--on-nan skip skips a step, on any ranks and devices" {
    need_numpy
    local ranks=() name
    for name in g 'clip_grad_norm(g, 1.0)'; do
        learner "$name"
        sed -E 's/^    ((state|other) = .*)/    if step != 2:\n        if step != 5:\n            \1/' e.py > without.py
        py "$REPO/tests/reference.py" without.py > expected
        skips
        skips --device faulty:corrupt=30:cpu
        skips --device faulty:fail=40:cpu
        if "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"'; then
            skips --device 0:0
        fi
        for count in 2 3; do
            ranks=("${launch[@]}" -n "$count")
            skips --device cpu
        done
        ranks=()
    done
}

@test "a gradient that is not finite ends the run, and the checkpoint before it is complete" {
    learner
    for count in 1 2 3; do
        rm -f c.safetensors
        run --separate-stderr "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --quiet
        [ "$(grep -c . <<< "$output")" -eq 3 ]  # the lines printed so far
        output=''
        # shellcheck disable=SC2034 # of expect_failure
        shown_source=$'        state = adamw(state, g, turn=step, rate=0.01)\n                ^'
        expect_failure 79 "turn 2: e.py:8:13: gradient 'g[1][0]' is not finite" '--on-nan skip skips such steps'
        head -c 400 c.safetensors | grep -qaE '"__metadata__":[{][^}]*"turn":"2"'
        [ ! -e c.safetensors.part ]
    done
    sed 's/loop(8)/loop(2)/; s/c.safe/d.safe/' e.py > two.py
    "${launch[@]}" -n 3 "$MPIMATMUL" run two.py --quiet
    cmp c.safetensors d.safetensors
}

# ends TEXT LINE: with 79, of a program of one parameter.
ends() {
    script $'w = generate((3, 4))\n'"$1"
    program run e.py --quiet
    expect_failure 79 "e.py:$2" '--on-nan skip skips such steps'
}

@test "a value that is not finite has its name in the text, also outside of loops" {
    ends $'g = w / 0\ns = sgd(sgd_state(w), g, 0.1)' "3:5: gradient 'g' is not finite"
    ends $'s = adamw(adamw_state((w, w)), (w, log(w - 9)), 0, 0.1)' "2:5: gradient '(w, log(w - 9))[1]' is not finite"
    ends $'g = (w * 1e30 * 1e30, w * 0)\ns = sgd(sgd_state((w, w)), clip_grad_norm(g, 1), 0.1)' \
        "3:5: gradient 'clip_grad_norm(g, 1)[0]' is not finite"  # nor is its norm
    script $'w = ones((3, 4))\ns = sgd(sgd_state((w, w)), clip_grad_norm((w * 1e30, w * 1e-30), 1), 1)
print(s[0][0][0, 0], s[0][1][0, 0])'
    run "$MPIMATMUL" run e.py --quiet
    [ "$output" = "0.711325 1" ]
    script $'w = ones((1, 4))\ns = sgd(sgd_state(w), clip_grad_norm(w * 3e38, 1), 0.1)\nprint(s[0][0, 0])' # norm 6e38
    run "$MPIMATMUL" run e.py --quiet
    [ "$output" = 0.95 ]
    script $'w = generate((3, 4)) * 99\ns = sgd(sgd_state(w), grad(sum(log(1 + exp(w * 9))), w), 0.1)'
    program run e.py --quiet
    expect_failure 79 "e.py:2:5: gradient 'grad(sum(log(1 + exp(w * 9))), w)' is not finite" \
        "--on-nan skip skips such steps; softplus(x) for log(1 + exp(x)), logsumexp(x) for log(sum(exp(x))) do$(
        ) not overflow"
    script $'w = generate((3, 4))\ns = sgd(sgd_state(w), w * 1e30, 1e-30)\nprint(max(abs(s[0])) <= 2)'
    run "$MPIMATMUL" run e.py --quiet
    [ "$output" = 1 ]
    program run e.py --on-nan never
    expect_failure 64 "--on-nan: 'never' is invalid, expected one of stop|skip"
}
