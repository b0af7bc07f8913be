#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Products on several devices with memory of their own: what only links read of them stays there, wherever the plan has
# put the blocks, in a grid, in panels or in a batch. Operands go up once, results come down once.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
bats_require_minimum_version 1.5.0
load helper

# A CPU dressed up.
card=faulty:hang=1000000:cpu

setup() {
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# write_program M K N EXPRESSION: y of x and w.
write_program() {
    "$MPIMATMUL" gen X.npy --dims "$1x$2" --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen W.npy --dims "$2x$3" --kind integer --seed 2 --quiet
    printf '%s\n' 'x, w = load("X.npy"), load("W.npy")' "save(\"Y.npy\", $4)" > program.py
}

# write_batch PLACE: six products, and what is done to them.
write_batch() {
    "$MPIMATMUL" gen X.npy --dims 6x401x203 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen W.npy --dims 6x203x301 --kind integer --seed 2 --quiet
    printf '%s\n' "x, w = place(load(\"X.npy\"), \"$1\"), place(load(\"W.npy\"), \"$1\")" \
        'save("Y.npy", relu(x @ w) + 1)' > program.py
}

# is_right EXPRESSION
is_right() {
    "$PYTHON" - "$1" << 'END'
import sys
import numpy as np
x, w = np.load("X.npy").astype(float), np.load("W.npy").astype(float)
relu = lambda z: np.maximum(z, 0)
assert np.array_equal(np.load("Y.npy"), eval(sys.argv[1]), equal_nan=True)
END
}

# bus COUNT: "OPERATION UP DOWN UP DOWN ..." of the product, on so many cards.
bus() {
    ranks "$1" run program.py --device "$card" --report report.json --weights equal
    expect_quiet_success || return 1
    "$PYTHON" - << 'END'
import json
one, = [o for o in json.load(open("report.json"))["operations"] if o["operation"].startswith("matmul")]
print(one["operation"], *(r[way] for r in one["ranks"] for way in ("uploaded_bytes", "downloaded_bytes")))
END
}

# next_to DEVICE: rank 0 has a card, rank 1 that.
next_to() {
    local options=(run program.py --weights equal --device-timeout 2 --progress none --device)
    rm -f Y.npy
    run --separate-stderr timeout 100 "${launch[@]}" -n 1 "$MPIMATMUL" "${options[@]}" "$card" : \
        -n 1 "$MPIMATMUL" "${options[@]}" "$1" < /dev/null
}

# survives EXPRESSION: whatever rule is on standard input, with the words of who took over, or - for none.
survives() {
    local rule why
    while read -r rule why; do
        next_to "faulty:hang=100,$rule:cpu"
        expect_status 0 || { echo "$rule"; return 1; }
        if [ "$why" = - ]; then
            [ "$stderr" = "" ]
        else
            [[ "$stderr" == *"rank 1: "*" 'reference' takes over: $why"* && "$(grep -c . <<< "$stderr")" -eq 1 ]]
        fi || { echo "$rule"; show; return 1; }
        is_right "$1" || { echo "$rule"; return 1; }
    done
}

# Pieces of 64 elements that are looked at of what a link reads and, where that stays, makes; their places go up.
piece=$((4 * 64))

@test "a grid: each card has its block of the product until all is done to it" {
    local sample=512
    write_program 1203 203 1001 'relu(place(x, "grid") @ place(w, "grid"))'
    run -0 bus 2
    [ "$output" = "matmul + relu $((4 * (203 * (1203 + 501) + sample))) $((4 * 1203 * 501 + sample * piece)) \
$((4 * (203 * (1203 + 500) + sample))) $((4 * 1203 * 500 + sample * piece))" ] || { show; return 1; }
    is_right 'relu(x @ w)'
    run -0 bus 4
    local other=" $((4 * (203 * (1203 + 250) + sample))) $((4 * 1203 * 250 + sample * piece))"
    [ "$output" = "matmul + relu $((4 * (203 * (1203 + 251) + sample))) \
$((4 * 1203 * 251 + sample * piece))$other$other$other" ] || { show; return 1; }
    is_right 'relu(x @ w)'
}

@test "a grid in panels: what is added up stays, too" {
    local sample=$((2 * 512 + 341)) # before and after the first link, after the second
    write_program 601 1503 701 'abs((place(x, "grid") + 1) @ (place(w, "grid") + 1)) * 3'
    run -0 bus 2
    # Of the operands a part is there; the rest comes in panels.
    [[ "$output" == "matmul + abs + multiply "*" $((4 * 601 * 351 + sample * piece)) "*" \
$((4 * 601 * 350 + sample * piece))" ]] || { show; return 1; }
    is_right 'abs((x + 1) @ (w + 1)) * 3'
    # Without the memory for all of it, it comes and goes with each panel.
    rm Y.npy
    ranks 2 run program.py --device "$card" --weights equal --device-memory 2MiB
    expect_quiet_success
    is_right 'abs((x + 1) @ (w + 1)) * 3'
    # Two blocks come and go, too: what a card has of their first terms is not them.
    "$MPIMATMUL" gen X.npy --dims 2x301x1503 --kind integer --seed 3 --quiet
    "$MPIMATMUL" gen W.npy --dims 2x1503x351 --kind integer --seed 4 --quiet
    ranks 2 run program.py --device "$card" --weights equal
    expect_quiet_success
    is_right 'abs((x + 1) @ (w + 1)) * 3'
}

@test "a batch: each block has its links when it is there" {
    local rows=$((4 * 6 * 401)) cols=$((4 * 6 * 301)) each=$((401 * 301)) sample=$((2 * 401 + 341)) where
    for where in rows replicate; do
        write_batch "$where"
        run -0 bus 1
        [ "$output" = "matmul + relu + add $((203 * (rows + cols) + 4 * 6 * sample)) \
$((6 * (4 * each + sample * piece)))" ] || { show; return 1; }
        is_right 'relu(x @ w) + 1'
        run -0 bus 2
        [ "$output" = "matmul + relu + add$(printf " $((203 * (rows + cols) / 2 + 4 * 3 * sample)) \
$((3 * (4 * each + sample * piece)))%.0s" 1 2)" ] || { show; return 1; }
        is_right 'relu(x @ w) + 1'
    done
}

@test "a block of a grid that stayed is wrong, or lost: found, and made again with all that is done to it" {
    write_program 1203 203 1001 'relu(place(x, "grid") @ place(w, "grid"))'
    # Operations: the product, relu, its sample; sums of the check: of the rows of the block.
    survives 'relu(x @ w)' << 'END'
corrupt=1 1 wrong column in rows
garble=1 500 wrong columns in rows 0-1203 of matrix 0 of
corrupt=2
garble=3 512 wrong rows in rows 0-1203 of matrix 0 of
fail=1 device 'faulty:hang=100,fail=1:cpu' was lost at multiplication 1 by rule
fail=2 device 'faulty:hang=100,fail=2:cpu' was lost at operation 2 by rule
fail-download=1 device 'faulty:hang=100,fail-download=1:cpu' was lost at download 1 by rule
lie=1 -
lie=1,fail-download=1 device 'faulty:hang=100,lie=1,fail-download=1:cpu' was lost at download 1 by rule
lie=1,spoil-download=1 what came of a product is not what it was
hang=1 it hangs
hang=2 it hangs
hang-sum=1 it hangs
END
}

@test "what is added up in panels is wrong, or lost: found, and made again from the first panel on" {
    write_program 601 1503 701 'abs((place(x, "grid") + 1) @ (place(w, "grid") + 1)) * 3'
    # Operations: two sums, the panels, as many of them together as are there, two links. Downloads: two sums first.
    survives 'abs((x + 1) @ (w + 1)) * 3' << 'END'
fail=4 device 'faulty:hang=100,fail=4:cpu' was lost at
fail-download=3 device 'faulty:hang=100,fail-download=3:cpu' was lost at download 3 by rule
lie=1,fail-download=3 device 'faulty:hang=100,lie=1,fail-download=3:cpu' was lost at download 3 by rule
lie=1,spoil-download=3 what came of a product is not what it was
corrupt=3 1 wrong column in rows
hang=3 it hangs
hang=4 it hangs
hang-sum=1 it hangs
END
}

@test "one block of a batch is wrong, or lost, when others are done" {
    write_batch rows
    # Operations of a block: the product, relu, its two samples, the sum, its sample.
    survives 'relu(x @ w) + 1' << 'END'
corrupt=7 1 wrong column in rows 0-401 of matrix 4 of 'x @ w'
corrupt=8
garble=12 341 wrong rows in rows 1604-2005 of matrix 0 of
fail=7 device 'faulty:hang=100,fail=7:cpu' was lost at
fail=8 device 'faulty:hang=100,fail=8:cpu' was lost at operation 8 by rule
fail-download=4 device 'faulty:hang=100,fail-download=4:cpu' was lost at download 4 by rule
hang=7 it hangs
hang=9 it hangs
END
}

@test "Inf and NaN in a grid: the block comes home to be looked at" {
    write_program 1203 203 1001 'relu(place(x, "grid") @ place(w, "grid"))'
    "$PYTHON" - << 'END'
import numpy as np
for name, place in (("X.npy", (5, 7)), ("W.npy", (9, 11))):
    x = np.load(name).copy()
    x[place] = np.inf
    np.save(name, x)
END
    next_to "$card"
    expect_quiet_success
    is_right 'relu(x @ w)' 2> /dev/null
}
