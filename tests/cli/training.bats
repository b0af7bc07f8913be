#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, lines and launch are set by bats and the helper
# Building blocks of training: optimisers, rates, texts of tokens and batches of them, compared with
# the reference.

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# as_reference TOLERANCE WORD...: runs a program with NAME=VALUE and options. Every saved file
# equals the reference's to TOLERANCE of the largest element, and so do root's printed lines,
# nearly.
as_reference() {
    local tolerance=$1 program=$2 words=() options=()
    shift 2
    for word in "$@"; do
        case $word in *=*) words+=("$word") ;; *) options+=("$word") ;; esac
    done
    if [ ! -d expected ]; then
        mkdir expected
        (cd expected && py "$REPO/tests/reference.py" "$program" "${words[@]}" > printed)
    fi
    rm -f ./*.npy
    run "${ranks[@]}" "$MPIMATMUL" run "$program" "${words[@]}" --quiet "${options[@]}"
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    echo "$output" > printed
    py -c '
import glob, numpy as np
tolerance = '"$tolerance"'
files = glob.glob("*.npy", root_dir="expected")
assert files and sorted(files) == sorted(glob.glob("*.npy")), files
for f in files:
    mine, theirs = np.load(f), np.load("expected/" + f)
    assert mine.shape == theirs.shape and mine.dtype in (theirs.dtype, "i4"), (f, mine.shape, mine.dtype, theirs.shape)
    assert np.abs(mine - theirs).max() <= tolerance * np.abs(theirs).max(), (f, np.abs(mine - theirs).max())
mine, theirs = (open(f).read().split() for f in ("printed", "expected/printed"))
assert len(mine) == len(theirs), (mine, theirs)
for x, y in zip(mine, theirs):
    assert x == y or abs(float(x) - float(y)) <= max(tolerance, 1e-5) * abs(float(y)), (x, y)'
}

@test "a GPT learns a text as the reference does: losses and parameters, on any ranks and devices" {
    need_numpy
    local ranks=()
    head -c 20000 /usr/share/common-licenses/GPL-3 > book.txt
    local small=(corpus="$PWD/book.txt" layers=2 width=48 heads=4 length=24 count=3 turns=12 every=4)
    as_reference 1e-4 "$REPO/bench/programs/gpt.py" "${small[@]}"
    first=$(awk 'NR == 1 {print $2}' printed)
    awk -v first="$first" 'END {exit !($2 < first)}' printed
    for count in 2 3; do
        ranks=("${launch[@]}" -n "$count")
        as_reference 1e-4 "$REPO/bench/programs/gpt.py" "${small[@]}" --device cpu
    done
    as_reference 1e-4 "$REPO/bench/programs/gpt.py" "${small[@]}" --weights 1,3,2
    as_reference 1e-4 "$REPO/bench/programs/gpt.py" "${small[@]}" --device=faulty:corrupt=50:cpu
    as_reference 1e-4 "$REPO/bench/programs/gpt.py" "${small[@]}" --device=faulty:fail=300:cpu
}

@test "a GPT learns from batches of one window as the reference does, on one rank and on two" {
    need_numpy
    local ranks=()
    head -c 20000 /usr/share/common-licenses/GPL-3 > book.txt
    local one=(corpus="$PWD/book.txt" layers=1 width=32 heads=4 length=24 count=1 turns=8 every=2)
    as_reference 1e-4 "$REPO/bench/programs/gpt.py" "${one[@]}"
    ranks=("${launch[@]}" -n 2)
    as_reference 1e-4 "$REPO/bench/programs/gpt.py" "${one[@]}"
}

# Each turn appends the likeliest token and drops the first one. Windows of one prompt keep their
# axis.
@test "one prompt, and several, are continued token by token as by the reference" {
    need_numpy
    local ranks=() prompts one=("$PWD/e.py" "corpus=$PWD/book.txt")
    head -c 20000 /usr/share/common-licenses/GPL-3 > book.txt
    cat > e.py << 'END'
prompts = 1
corpus = "book.txt"
text = tokens(corpus)
table = generate((text.vocabulary, 12), kind="integer", seed=1) * 1
other = generate((12, text.vocabulary), kind="integer", seed=2) * 1
x, y = batch(text, prompts, 8, seed=1, turn=0)
for i in range(5):
    h = take(table, x)
    last = h[:, -1:] * 2 + mean(h, axis=1) * 8 + take(table, x[:, 1:])[:, :1]
    following = argmax(reshape(last, (prompts, 12)) @ other)
    x = concat((x[:, 1:], following), axis=1)
    print(i, sum(h), sum(following))
for i in loop(5):
    h = take(table, x)
    following = argmax(reshape(h[:, -1:] * 2 + h[:, :1], (prompts, 12)) @ other)
    x = concat((x[:, 1:], following), axis=1)
    print(i, cross_entropy(h @ other * 0.01, y))
save("x.npy", x)
save("h.npy", take(table, x))
save("last.npy", take(table, x[:, 7:]))
END
    for prompts in 1 3; do
        mkdir $prompts
        (cd $prompts && rm -rf expected && as_reference 1e-5 "${one[@]}" prompts=$prompts) || return 1
        ranks=("${launch[@]}" -n 2)
        (cd $prompts && as_reference 1e-5 "${one[@]}" prompts=$prompts) || return 1
        ranks=()
        py -c "import numpy as np; assert np.load('$prompts/h.npy').shape == ($prompts, 8, 12)"
    done
}

# everywhere PROGRAM NAME=VALUE...: a program of bench/programs gives the reference's results on one
# rank and on three.
everywhere() {
    local ranks=() program=$REPO/bench/programs/$1.py
    shift
    as_reference 1e-4 "$program" "$@"
    ranks=("${launch[@]}" -n 3)
    as_reference 1e-4 "$program" "$@" --weights 1,3,2
}

@test "digits are learned as by the reference, and most held-back digits are recognised" {
    need_numpy
    py "$REPO/bench/programs/digits_data.py" 300
    mkdir given
    mv ./*.npy given
    everywhere digits pictures="$PWD/given/digits.npy" numbers="$PWD/given/digits_labels.npy" learned=240 \
        hidden=24 count=40 turns=60 every=20
    awk 'END {exit !($NF > 0.9)}' printed
}

@test "regression finds the reference's weights, and k-means its centres" {
    need_numpy
    everywhere regression rows=900 inputs=7 outputs=3 turns=60 every=20
    awk 'END {exit !($NF < 0.05)}' printed
    rm -rf expected
    everywhere kmeans points=360 size=5 k=4 turns=9 every=3
}

# optimiser BEGIN TURN COUNT: two parameters of a one-layer model learn for 30 turns in float64.
# COUNT is the number of arrays in the state.
optimiser() {
    script 'one = ""
x = generate((64, 10), kind="normal", seed=1) * load(one)
t = tanh(x @ generate((10, 3), kind="normal", seed=2))
parameters = (generate((10, 3), kind="normal", seed=3) * load(one), (generate((1, 3), kind="zeros") * load(one),))
'"$1"'
for step in loop(30):
    g = grad(mse(tanh(x @ state[0][0] + state[0][1][0]), t), state[0])
    '"$2"'
for i in range('"$3"'):
    save(f"w{i}.npy", state[i][0])
    save(f"b{i}.npy", state[i][1][0])'
    rm -rf expected
    mkdir -p given
    py -c 'import numpy as np; np.save("given/one.npy", np.ones((1, 1)))'
    for count in 1 3; do
        local ranks=("${launch[@]}" -n "$count")
        REFERENCE_STORES=float64 as_reference 1e-12 "$PWD/e.py" one="$PWD/given/one.npy"
    done
}

@test "adamw is Loshchilov and Hutter's, in float64 to the last digits" {
    need_numpy
    optimiser 'state = adamw_state(parameters)' 'state = adamw(state, g, turn=step, rate=0.01)' 3
    optimiser 'state = adamw_state(parameters)' \
        'state = adamw(state, clip_grad_norm(g, 0.1), turn=step, rate=cosine(step, 5, 25, 0.1, 0.01),
                  betas=(0.8, 0.95), eps=1e-6, decay=0.1)' 3
}

@test "sgd works plain, with momentum, with Nesterov's, and with decay, and rates change by turn" {
    need_numpy
    optimiser 'state = sgd_state(parameters)' 'state = sgd(state, g, rate=linear_schedule(step, 4, 20, 0.5, 0.05))' 2
    optimiser 'state = sgd_state(parameters)' 'state = sgd(state, g, rate=0.1, momentum=0.9)' 2
    optimiser 'state = sgd_state(parameters)' \
        'state = sgd(state, g, rate=0.1, momentum=0.9, nesterov=True, decay=0.01)' 2
    optimiser 'state = sgd_state(parameters)' 'state = sgd(state, clip_grad_norm(g, 100), rate=0.1, decay=0.1)' 2
}

@test "seed and turn alone decide the batches: of characters, bytes, 16-bit tokens and tables" {
    need_numpy
    local ranks=()
    py -c '
import numpy as np
np.random.seed(1)
open("book.txt", "w").write("grüße, 世界 𝔸 and again: " * 9)
np.random.randint(0, 70, 500).astype("<u2").tofile("ids.bin")
np.save("table.npy", np.random.rand(17, 4).astype("f"))
np.save("labels.npy", np.random.randint(0, 9, (1, 17)).astype("i4"))
np.save("targets.npy", np.random.rand(17, 2).astype("f"))'
    script 'given = "."
book, ids = f"{given}/book.txt", f"{given}/ids.bin"
texts = (tokens(book), tokens(book, kind="bytes"), tokens(ids, kind="u16"))
for i in range(3):
    print(texts[i].vocabulary)
    for turn in range(3):
        x, y = batch(texts[i], 4, 9, seed=5, turn=turn)
        save(f"text{i}.{turn}x.npy", x)
        save(f"text{i}.{turn}y.npy", y)
table, labels, targets = load(f"{given}/table.npy"), load(f"{given}/labels.npy"), load(f"{given}/targets.npy")
for turn in loop(3):
    rows, of = batch(table, labels, 6, seed=7, turn=turn)
    save(f"rows{turn}.npy", rows)
    save(f"labels{turn}.npy", of)
    again, to = batch(table, targets, 6, seed=7, turn=turn)
    save(f"targets{turn}.npy", to)'
    mkdir given
    mv ./*.npy book.txt ids.bin given
    as_reference 0 "$PWD/e.py" given="$PWD/given"
    ranks=("${launch[@]}" -n 3)
    as_reference 0 "$PWD/e.py" given="$PWD/given"
}

# learner: ./e.py learns for `turns` turns and writes its state every fourth turn.
learner() {
    script 'turns = 10
x = generate((64, 10), kind="normal", seed=1)
t = tanh(x @ generate((10, 3), kind="normal", seed=2))
initial = (generate((10, 3), kind="normal", seed=3), (generate((1, 3), kind="zeros"),))
state, first = restore("c.safetensors", adamw_state(initial))
print("from", first)
for step in loop(first, turns):
    g = grad(mse(tanh(x @ state[0][0] + state[0][1][0]), t), state[0])
    state = adamw(state, g, turn=step, rate=0.01)
    if step % 4 == 3:
        checkpoint("c.safetensors", state, turn=step + 1)
save("w.npy", state[0][0])
save("m.npy", state[1][0])'
}

@test "a run continues from any checkpoint to the same bits, and like the reference" {
    need_numpy
    learner
    for count in 1 2 3; do
        rm -f c.safetensors
        local run=("${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --reproducible --quiet)
        run "${run[@]}" turns=14
        [ "$output" = "from 0" ]
        mv w.npy whole.npy && mv m.npy whole_m.npy && rm c.safetensors
        run "${run[@]}" turns=6
        [ "$output" = "from 0" ]
        cp c.safetensors four.safetensors
        run "${run[@]}" turns=14
        [ "$output" = "from 4" ]
        cmp w.npy whole.npy && cmp m.npy whole_m.npy
        "$MPIMATMUL" info c.safetensors | grep -q "0.1.0"
    done
    # float32 differs over many turns: one state is given to the other
    cp four.safetensors c.safetensors
    py "$REPO/tests/reference.py" e.py turns=14 > printed
    grep -qx "from 4" printed
    py -c '
import numpy as np
assert np.abs(np.load("w.npy") - np.load("whole.npy")).max() < 1e-5'
    rm c.safetensors
    py "$REPO/tests/reference.py" e.py turns=6
    run "$MPIMATMUL" run e.py turns=14 --quiet
    [ "$output" = "from 4" ]
    py -c '
import numpy as np
assert np.abs(np.load("w.npy") - np.load("whole.npy")).max() < 1e-5'
}

@test "after a kill at any moment the checkpoint is complete, and the run continues from it" {
    learner
    run "$MPIMATMUL" run e.py turns=40 --reproducible --quiet
    mv w.npy whole.npy
    rm c.safetensors
    for _ in 1 2 3 4 5 6; do  # each gets further, or to the end
        "$MPIMATMUL" run e.py turns=40 --reproducible --quiet > printed 2>&1 &
        local pid=$! was
        was=$(stat -c %i c.safetensors 2> /dev/null || echo none)
        for _ in {1..200}; do
            [ "$(stat -c %i c.safetensors 2> /dev/null || echo none)" = "$was" ] || break
            kill -0 "$pid" 2> /dev/null || break
            sleep 0.005
        done
        kill -9 "$pid" 2> /dev/null || true
        wait "$pid" || true
        "$MPIMATMUL" info c.safetensors > /dev/null
    done
    run "$MPIMATMUL" run e.py turns=40 --reproducible --quiet
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ "${output/#from 0*/no}" != no ] || { echo "$output"; return 1; }
    cmp w.npy whole.npy
    [ ! -e c.safetensors.part ]
}

@test "a state of another text or type, and a file that is no checkpoint, are refused, and doubles stay doubles" {
    need_numpy
    learner
    "$MPIMATMUL" run e.py --quiet
    mv c.safetensors good.safetensors
    refused() { # INITIAL REASON
        fails "state, first = restore(\"good.safetensors\", $1)" "e.py:1:16: $2"
    }
    local w='generate((10, 3))' b='generate((1, 3))'
    refused "$w" "'good.safetensors' lacks '0' of the state"
    refused "(($w, ($b,)), ($w, ($b,)))" "'good.safetensors' has '2.0', which is not in the state"
    refused "(($w, ($b,)), ($w, ($b,)), ($w, ($w,)))" \
        "'2.1.0' of 'good.safetensors' is 1 x 3, but 10 x 3 in the state"
    py -c 'import numpy as np; np.save("w.npy", np.ones((10, 3))); np.save("one.npy", np.ones((1, 1)))'
    refused "((load(\"w.npy\"), ($b,)), ($w, ($b,)), ($w, ($b,)))" \
        "'0.0' of 'good.safetensors' is float32, but float64 in the state"
    refused "(($w, (1,)), ($w, ($b,)), ($w, ($b,)))" \
        'a state must consist of matrices and tuples of them, found a whole number'
    "$MPIMATMUL" gen plain.safetensors --dims 3x3 --quiet
    fails 's, t = restore("plain.safetensors", generate((3, 3)))' \
        "e.py:1:8: 'plain.safetensors' is no checkpoint: no turn is stored in it"
    head -c 300 good.safetensors > cut.safetensors
    fails 's, t = restore("cut.safetensors", generate((3, 3)))' \
        "e.py:1:8: 'cut.safetensors' is not a valid .safetensors file: 300 bytes, but its header alone takes 640"
    fails 's, t = restore("w.npy", generate((3, 3)))' "e.py:1:16: the name of a checkpoint must end in .safetensors"
    fails 'checkpoint("x.safetensors", generate((3, 3)), turn=-1)' 'e.py:1:52: turn must be at least 0'
    fails 'checkpoint("x.safetensors", ((), ()), turn=1)' 'e.py:1:29: a state must contain at least one matrix'
    fails 'x = generate((3, 3))
save("x.safetensors:a", x)
checkpoint("./x.safetensors", x, turn=1)' "e.py:3:1: cannot checkpoint to './x.safetensors': line 2 saves it"
    fails 'x = generate((3, 3))
checkpoint("x.safetensors", x, turn=1)
checkpoint("x.safetensors", x, turn=2)' "e.py:3:1: cannot checkpoint to 'x.safetensors': line 2 saves it in this turn"
    fails 'x = generate((3, 3))
checkpoint("x.safetensors", x, turn=1)
save("x.safetensors:a", x)' "e.py:3:1: cannot save to 'x.safetensors:a': line 2 saves it as 'x.safetensors:0'"
    script 'x = generate((10, 3)) * load("one.npy")
state, first = restore("double.safetensors", (generate((10, 3)), x))
checkpoint("double.safetensors", (state[0] * x, state[1] / 3), turn=first + 1)'
    for turn in 1 2; do
        "$MPIMATMUL" run e.py --quiet
        [ "$("$MPIMATMUL" info double.safetensors | grep -c float64)" -eq 2 ]
        head -c 80 double.safetensors | grep -qaF "\"turn\":\"$turn\","
    done
}

# fails TEXT LINE [STATUS]
fails() {
    printf '%s\n' "$1" > e.py
    for count in 1 2; do
        run "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --quiet
        [ "$status" -eq "${3:-65}" ] || { echo "$output"; return 1; }
        grep -qxF "mpimatmul: $2" <<< "$output" || { echo "$output"; return 1; }
    done
}

@test "functions that cannot train are refused with their line" {
    printf 'abc\xff' > bad.txt
    printf 'abc' > odd.bin
    printf 'abcdefgh' > t.txt
    : > empty
    fails 'x = tokens("bad.txt")' "e.py:1:5: 'bad.txt' is not UTF-8: invalid byte at offset 3"
    fails 'x = tokens("odd.bin", kind="u16")' "e.py:1:5: 'odd.bin' has 3 bytes: not a multiple of 2 for 16-bit tokens"
    fails 'x = tokens("none.txt")' "e.py:1:5: cannot open 'none.txt': No such file or directory" 66
    fails 'x = tokens("empty")' "e.py:1:5: cannot read 'empty': it is empty" 66
    fails 'x = tokens("t.txt", kind="words")' "e.py:1:26: kind 'words' is unknown: expected chars, bytes or u16"
    fails 'x, y = batch(tokens("t.txt"), 2, 8, seed=1, turn=0)' \
        'e.py:1:34: window length 8 for a text of 8 tokens: expected 1 to 7'
    fails 'x, y = batch(tokens("t.txt"), 0, 3, seed=1, turn=0)' \
        'e.py:1:8: batch: count is at least 1, seed and turn are at least 0'
    fails 'x, y = batch(tokens("t.txt"), 2, seed=1, turn=0)' "e.py:1:8: batch: argument 'length' is missing"
    fails 'x, y = batch(generate((4, 3)), generate((1, 3)), 2, seed=1, turn=0)' \
        'e.py:1:8: batch: a table has two axes, and labels one for each of its rows'
    fails 'x = tokens("t.txt") + 1' "e.py:1:5: '+' cannot combine a text of tokens and a whole number"
    fails 'save("x.npy", tokens("t.txt"))' 'e.py:1:15: x is a text of tokens, expected a matrix'
    local p='p = (generate((2, 2)), generate((2, 3)))'
    fails "$p
s = adamw(adamw_state(p), (p[0],), turn=0, rate=0.1)" \
        'e.py:2:5: the gradient and the parameters differ in structure'
    fails "$p
s = adamw(p, p, turn=0, rate=0.1)" 'e.py:2:11: state must be a tuple of 3, as made by the matching ..._state function'
    fails "$p
s = adamw((p, p, (p[0],)), p, turn=0, rate=0.1)" 'e.py:2:5: the state and the parameters differ in structure'
    fails "$p
s = sgd(sgd_state(p), (p[1], p[0]), rate=0.1)" 'e.py:2:5: a gradient and its parameter differ in shape'
    fails "$p
s = adamw(adamw_state(p), p, turn=-1, rate=0.1)" 'e.py:2:35: turn must be at least 0'
    fails "$p
s = adamw(adamw_state(p), p, turn=1, rate=0.1, betas=0.9)" 'e.py:2:54: betas are two numbers: (0.9, 0.999)'
    fails 's = sgd_state((1, 2))' 'e.py:1:5: parameters must be matrices or nested tuples of them'
    fails 'x = cosine(1, 2, 3, 4)' "e.py:1:5: cosine: argument 'low' is missing"
}
