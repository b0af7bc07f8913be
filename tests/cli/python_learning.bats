#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Learning in Python scripts: layers, backward, optimisers, states, introspection, each on one rank
# and on three of different weights. tests/python_learning.py compares them.
# shellcheck disable=SC2030,SC2031,SC2154 # status, output and lines are set by bats

load helper.bash

setup() {
    setup_package
    export OPENBLAS_NUM_THREADS=1
}

# everywhere LINES PART...: the parts print LINES, on one rank and on three.
everywhere() {
    local expected=$1 way
    shift
    for way in alone three; do
        if [ $way = alone ]; then
            run "$PYTHON" "$REPO/tests/python_learning.py" "$@"
        else
            run "${launch[@]}" --oversubscribe -n 3 "$PYTHON" "$REPO/tests/python_learning.py" "$@"
        fi
        diff <(echo "$expected") <(echo "$output")
        [ "$status" -eq 0 ]
    done
}

@test "layers compute numpy's results, start with torch's distributions, and drop elements" {
    everywhere $'layers ok\nbeginnings ok\ndropout ok' layers beginnings dropping
}

@test "backward gives central differences to every leaf that requires a gradient, and to no other" {
    everywhere $'backward ok\nleaves ok' backward leaves
}

@test "SGD and AdamW equal the reference in float64 to the last digits, and gradients are clipped" {
    everywhere $'optimisers ok\nlater ok\nclipping ok' optimisers later clipping
}

@test "DiLoCo equals the reference on one node, continues from its state, and reads values of every node" {
    everywhere 'apart ok' apart
    everywhere "65 'parts' is not on every node, but each node needs all of it \
(x = mm.persist(mm.place(x, \"replicate\")), before the first step)
64 a program for one node cannot read or write files
1.1" apart_reads
}

@test "a model learns the same on any ranks" {
    run "$PYTHON" "$REPO/tests/python_learning.py" learning
    [ "${#lines[@]}" -eq 12 ]
    first=${lines[0]##* } last=${lines[11]##* }
    awk "BEGIN {exit !($last < 0.8 * $first)}"
    everywhere "$output" learning
    expected=$output
    run "${launch[@]}" -n 2 "$PYTHON" "$REPO/tests/python_learning.py" learning
    diff <(echo "$expected") <(echo "$output")
}

@test "states are saved to .safetensors files and loaded from them, with torch's names and axes" {
    everywhere 'states ok' states
    expect_only_files ours.safetensors theirs.safetensors
}

@test "a model that cannot learn is refused in a line with a remedy" {
    local same='(a state fits only the same layers with the same sizes)'
    local parameters='(model.parameters(), or mm.nn.Parameter(x) of a value)'
    everywhere "64 cannot go backward from plain: none of its inputs requires a gradient \
(set x.requires_grad = True before computing it from x)
65 cannot differentiate a value of 4 x 2: expected one element (use sum or mean to get one element)
64 requires_grad can only be set for a leaf: this value depends on values that require a gradient \
(compute it inside \`with mm.no_grad():\`)
64 integers have no gradient
64 a value without requires_grad has no gradient (set its requires_grad = True)
65 '1.exp_avg' of the state is 4 x 3, in the optimizer it is 1 x 2 $same
65 'weight' of the state is 4 x 3, in the module it is 2 x 3 $same
65 the state lacks 'bias' of the module $same
65 the state has 'more', which the module lacks $same
64 cannot take 'x.npz': the name of a state's file must end in .safetensors
64 cannot write 'x.safetensors': there are no values
66 cannot open 'none.safetensors': No such file or directory
64 integers have no gradient: they cannot be a parameter
64 an optimizer needs at least one parameter $parameters
64 an optimizer needs at least one parameter $parameters
64 nesterov needs a momentum above 0
64 2 heads of 7 columns: expected a number that divides them
64 dropout of 1: expected 0 to below 1
64 DiLoCo needs an inner optimizer (mm.optim.DiLoCo(mm.optim.AdamW(model.parameters()), turns=20))
64 DiLoCo of 0 turns: expected 1 at least
64 a batch must consist of arrays, at least one: each node gets its own rows
64 a batch must consist of arrays, at least one: each node gets its own rows
65 arrays of a batch have 4 and 6 rows: expected as many in each
65 0 rows are too few for 1 nodes: node 0 has none
64 turn 1 of 2: the nodes have different parameters (call it after an outer step, when all nodes agree)
65 every node has its own value of 'w' (an outer step of DiLoCo combines them)
65 every node has its own value of 'w' (an outer step of DiLoCo combines them)
64 no job was recorded (call mm.init(record=True) before the job)" errors
    expect_only_files
}

@test "the tape shows pending operations, and statistics show the results of each rank" {
    run "$PYTHON" "$REPO/tests/python_learning.py" looking
    output=$(sed "s/ of python_learning.py:[0-9]*/ of the script/; s/held [0-9]*/held N/; s/  */ /g" <<< "$output")
    diff - <(echo "$output") << 'END'
value operation operands shape
array of the script load 4 x 3 float64
w reshape array of the script 4 x 3 float64
x kept 'held N' 6 x 4 float64
matmul matmul x, w 6 x 3 float64
y relu matmul 6 x 3 float64
value 5 sum y 6 x 1 float64
sum sum value 5 1 x 1 float64
value operation operands shape
array of the script load 4 x 3 float64
w reshape array of the script 4 x 3 float64
x kept 'held N' 6 x 4 float64
matmul matmul x, w 6 x 3 float64
y relu matmul 6 x 3 float64
value operation operands shape
value operation operands shape
generate of the script generate 1 x 4
bias reshape generate of the script 1 x 4
generate of the script generate 1 x 4
weight reshape generate of the script 1 x 4
x kept 'held N' 6 x 4 float64
layer_norm layer_norm x, weight, bias 6 x 4 float64
value operation operands shape
loss kept 'held N' 1 x 1 float64
w kept 'held N' 4 x 3 float64
shares 1.0000 1440
END
    run "${launch[@]}" --oversubscribe -n 3 "$PYTHON" "$REPO/tests/python_learning.py" looking
    [ "${lines[-1]}" = "shares 0.1667 240 0.5000 720 0.3333 480" ]
}

# falls: the loss of the last line is less than 0.95 of the first one's.
falls() {
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    awk 'NF == 2 {if (!n++) first = $2; last = $2} END {exit !(n > 1 && last < 0.95 * first)}' <<< "$output" ||
        { echo "$output"; return 1; }
}

@test "the Python programs of bench/programs learn" {
    head -c 20000 /usr/share/common-licenses/GPL-3 > book.txt
    run "${launch[@]}" -n 2 "$PYTHON" "$REPO/bench/programs/gpt_module.py" layers=1 width=32 heads=4 length=16 \
        count=8 turns=40
    falls
    run "${launch[@]}" -n 2 "$PYTHON" "$REPO/bench/programs/gpt_module.py" layers=1 width=32 heads=4 length=16 \
        count=8 turns=40 apart=10
    falls
    [ "$(awk '{print $1}' <<< "$output" | xargs)" = "9 19 29 39" ]
    for count in 1 2; do # a batch of one window
        run "${launch[@]}" -n "$count" "$PYTHON" "$REPO/bench/programs/gpt_module.py" layers=1 width=32 heads=4 \
            length=16 count=1 turns=20
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
        [ "$(awk '{print $1}' <<< "$output" | xargs)" = "9 19" ]
    done
    "$MPIMATMUL" info gpt_module.safetensors | grep -q ' blocks.0.attention.in_proj_weight$'
    "$PYTHON" "$REPO/bench/programs/digits_data.py" 300
    run "${launch[@]}" -n 2 "$PYTHON" "$REPO/bench/programs/digits_module.py" learned=240 hidden=24 count=40 \
        turns=60 every=20
    falls
    awk 'END {exit !($NF > 0.9)}' <<< "$output"
    "$MPIMATMUL" info digits.safetensors | grep -q '^24 .* 0.bias$'
}
