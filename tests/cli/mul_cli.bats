#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mul, plan and devices as a user types them, alone and under mpirun: results equal to numpy's, and
# every refusal as one line with its code.
# shellcheck disable=SC2154,SC2016 # bats sets status, output and stderr; bash -c expands what stands in ''
load helper

# Whole numbers, so that every right answer is the same to the last bit. A 17 x 31, B 31 x 13, C 17
# x 13.
make_operands() {
    python << 'END'
import numpy as np
from matrices import integers, write_bin
a, b, c = integers(1, 17, 31), integers(2, 31, 13), integers(3, 17, 13)
write_bin("A.bin", a)
write_bin("B.bin", b)
write_bin("C.bin", c)
write_bin("At.bin", a.T)
write_bin("Bt.bin", b.T)
END
}

# result_is FILE EXPRESSION: an expression in numpy of a, b and c.
result_is() {
    python "$1" "$2" << 'END'
import sys
import numpy as np
from matrices import read_bin
a, b, c = (read_bin(name + ".bin")[1].astype("f8") for name in "ABC")
found = read_bin(sys.argv[1])[1].astype("f8")
expected = eval(sys.argv[2])
assert found.shape == expected.shape, (found.shape, expected.shape)
assert np.array_equal(found, expected), abs(found - expected).max()
END
}

# both_refused CODE LINE HINT ARGUMENTS...: alone and on two ranks. HINT may be empty.
both_refused() {
    local code=$1 line=$2 hint=$3
    shift 3
    program "$@"
    expect_failure "$code" "$line" ${hint:+"$hint"} || return 1
    ranks 2 "$@"
    expect_failure "$code" "$line" ${hint:+"$hint"}
}

@test "the product is numpy's, alone and on 2 and 3 ranks" {
    need_numpy
    make_operands
    program mul A.bin B.bin -o D.bin --device cpu
    expect_status 0
    result_is D.bin "a @ b"
    for count in 2 3; do
        ranks $count mul A.bin B.bin -o D$count.bin --device cpu
        expect_status 0
        cmp D.bin D$count.bin
    done
}

@test "alpha, beta and transposes give numpy's result" {
    need_numpy
    make_operands
    ranks 2 mul At.bin Bt.bin --transpose-a --transpose-b --alpha -2 --beta 3 --c-in C.bin -o D.bin --device cpu
    expect_status 0
    result_is D.bin "-2 * (a @ b) + 3 * c"
}

@test "without -o the result is named after both inputs, in the current folder" {
    need_numpy
    make_operands
    mkdir far here
    mv A.bin far/A_shard_3.bin
    cd here
    program mul ../far/A_shard_3.bin ../B.bin --device cpu
    expect_status 0
    expect_only_files AxB_combined.bin
    expect_line "AxB_combined.bin: 17 x 13"
}

@test "the result has the type asked for, or the common 16-bit type" {
    need_numpy
    make_operands
    "$MPIMATMUL" convert A.bin Ah.bin --dtype float16
    "$MPIMATMUL" convert B.bin Bh.bin --dtype float16
    for row in "Ah.bin Bh.bin -2" "Ah.bin B.bin 4" "Ah.bin Bh.bin 4 --dtype float32" \
        "A.bin B.bin -3 --dtype bfloat16"; do
        read -r a b tag options <<< "$row"
        # shellcheck disable=SC2086 # several words
        program mul $a $b -o D.bin --device cpu $options
        expect_status 0
        [ "$(head -c 4 D.bin | od -An -t d4 | xargs)" = "$tag" ] || { echo "$row"; return 1; }
    done
    program mul Ah.bin Bh.bin -o D.bin --device cpu
    result_is D.bin "a @ b"
}

@test "float64 is read as float32, with a notice" {
    need_numpy
    make_operands
    python << 'END'
import numpy as np
from matrices import read_bin
np.save("A.npy", read_bin("A.bin")[1].astype("f8"))
END
    ranks 2 mul A.npy B.bin -o D.bin --device cpu
    expect_status 0
    grep -q -x -F "mpimatmul: notice: 'A.npy' is float64 and is read as float32" <<< "$stderr"
    result_is D.bin "a @ b"
    program mul A.npy B.bin -o D.bin --device cpu --quiet
    expect_quiet_success
    [ -z "$output" ]
}

@test "the table is on stdout, and the report is JSON" {
    need_numpy
    make_operands
    ranks 2 mul A.bin B.bin -o D.bin --device cpu --weights 2,1 --report report.json
    expect_status 0
    [[ "$output" == *rank*rows*share*"64.7 %"*"35.3 %"* ]]
    expect_line "D.bin: 17 x 13"
    py -c 'import json; json.load(open("report.json"))'
}

@test "operands of unfitting sizes are refused" {
    need_numpy
    make_operands
    python << 'END'
from matrices import integers, write_bin
write_bin("S.bin", integers(1, 2, 3, 4, 5))
write_bin("T.bin", integers(2, 2, 4, 5, 4))
write_bin("U.bin", integers(3, 5, 3, 5, 4))
END
    both_refused 65 "cannot multiply 'A.bin' (17 x 31) by 'C.bin' (17 x 13): inner sizes 31 and 17 differ" "" \
        mul A.bin C.bin
    both_refused 65 "cannot multiply 'A.bin' (17 x 31) by 'B.bin' (31 x 13): inner sizes 17 and 31 differ" "" \
        mul A.bin B.bin --transpose-a
    both_refused 65 \
        "cannot multiply 'S.bin' (2 x 3 x 4 x 5) by 'T.bin' (2 x 4 x 5 x 4): depths 3 and 4 differ" "" mul S.bin T.bin
    both_refused 65 \
        "cannot multiply 'S.bin' (2 x 3 x 4 x 5) by 'U.bin' (5 x 3 x 5 x 4): batch sizes 2 and 5 differ" "" \
        mul S.bin U.bin
    both_refused 65 "cannot add 'A.bin' (17 x 31) to a result of 17 x 13: shapes differ" \
        "sizes of 1 are broadcast: a bias is 1 x 13, a column 17 x 1" \
        mul A.bin B.bin --c-in A.bin --beta 1
    both_refused 65 "cannot multiply 'A.bin' (17 x 31) by 'C.bin' (17 x 13): inner sizes 31 and 17 differ" "" \
        plan A.bin C.bin
    expect_only_files A.bin At.bin B.bin Bt.bin C.bin S.bin T.bin U.bin
}

@test "invalid option values are refused" {
    need_numpy
    make_operands
    both_refused 64 "--alpha: 'nan' is not a number" "" mul A.bin B.bin --alpha nan
    both_refused 64 "--beta: 'inf' is not a number" "" mul A.bin B.bin --beta inf
    both_refused 64 "--beta is 1, but --c-in is missing" "give --c-in FILE" mul A.bin B.bin --beta 1
    both_refused 64 "--weights: weight 1 is -1: a weight is zero or more" "" mul A.bin B.bin --weights -1,1
    both_refused 64 "--weights: 'nan' is not a number" "" mul A.bin B.bin --weights nan,1
    both_refused 64 "--weights: all weights are zero: at least one must be positive" "" mul A.bin B.bin --weights 0,0
    both_refused 64 "mul: unknown option '--wieghts', did you mean '--weights'?" "" mul A.bin B.bin --wieghts 1,1
    both_refused 66 "cannot open 'missing': No such file or directory" "" mul A.bin B.bin --weights @missing
    expect_only_files A.bin At.bin B.bin Bt.bin C.bin
}

@test "too few and too many weights are refused" {
    need_numpy
    make_operands
    for weights in 1 1,1,1; do
        for command in mul plan; do
            ranks 2 $command A.bin B.bin --weights $weights
            expect_status 64
            [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -eq 1 ]
            [[ "${stderr_lines[0]}" == *weights*2*rank* ]] || { show; return 1; }
        done
    done
    expect_only_files A.bin At.bin B.bin Bt.bin C.bin
}

@test "an absent device and a malformed one are refused" {
    need_numpy
    make_operands
    for command in "mul A.bin B.bin" "plan A.bin B.bin" devices; do
        # shellcheck disable=SC2086 # several words
        program $command --device 97:3
        expect_status 69
        [ -z "$output" ]
        [[ "${stderr_lines[0]}" == "mpimatmul: "*"'97:3'"* ]]
        # shellcheck disable=SC2086
        ranks 2 $command --device "no such card"
        expect_status 69
        [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -eq 1 ]
        [[ "$stderr" == *"'no such card'"* ]]
    done
    for device in gpu:x gpu: faulty: faulty:explode=1:cpu; do
        ranks 2 mul A.bin B.bin --device $device
        expect_status 64
        [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -eq 1 ]
        [[ "${stderr_lines[0]}" == *gpu:* || "${stderr_lines[0]}" == *faulty* ]]
    done
    expect_only_files A.bin At.bin B.bin Bt.bin C.bin
}

@test "a missing GPU gives the missing part and the way to install it" {
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"type": "gpu"' && skip "this machine has a GPU"
    program devices --device gpu
    expect_status 69
    [[ "${stderr_lines[0]}" == "mpimatmul: rank 0 on "*": no device 'gpu'" ]]
    [[ "${stderr_lines[1]}" == "  hint: "*"-opencl-icd"* ]] || { show; return 1; }
    program devices --device cuda:0
    expect_status 69
    [[ "${stderr_lines[1]}" == "  hint: did you mean 'gpu:0'? devices of this machine: cpu"* ]] || { show; return 1; }
}

# contexts ARGUMENTS...: rank 0 and rank 1 of one job. The arguments of rank 1 begin at number
# $split.
contexts() {
    run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" "${@:1:$((split - 1))}" \
        : -n 1 "$MPIMATMUL" "${@:$split}" < /dev/null
}

@test "one rank with a wrong option ends all of them with one line" {
    need_numpy
    make_operands
    split=6
    contexts mul A.bin B.bin --device cpu mul A.bin B.bin --device cpu --threads x
    expect_failure 64 "--threads: 'x' is not a whole number from 1 to 1024"
    contexts mul A.bin B.bin --device cpu mull A.bin B.bin
    expect_failure 64 "unknown command 'mull', did you mean 'mul'?"
    contexts mul A.bin B.bin --device cpu mul A.bin B.bin --device 97:3
    expect_status 69
    [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -eq 1 ]
    split=4
    contexts mul A.bin --threads mul A.bin B.bin --device cpu
    expect_failure 64 "mul: --threads is missing its value: --threads N"
    expect_only_files A.bin At.bin B.bin Bt.bin C.bin
}

@test "device, threads and bind may differ between ranks, no other option" {
    need_numpy
    make_operands
    split=10
    contexts mul A.bin B.bin --device reference --bind none -o D.bin \
        mul A.bin B.bin --device cpu --threads 1 -q -o D.bin
    expect_status 0
    result_is D.bin "a @ b"
    split=8
    for other in "--alpha 2" "--split rows" "--verify off" "--sync off" "--weights equal" "-o E.bin" "--memory 4GiB"; do
        # shellcheck disable=SC2086 # two words
        contexts mul A.bin B.bin --device cpu -o F.bin mul A.bin B.bin --device cpu -o F.bin $other
        expect_status 64
        [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -eq 1 ]
        [ ! -e F.bin ]
    done
    contexts mul A.bin B.bin --device cpu -o F.bin mul A.bin C.bin --device cpu -o F.bin
    expect_status 64
    # One value in two spellings is one value.
    split=12
    contexts mul A.bin B.bin --device cpu -o F.bin --alpha 1.0 --memory 4GiB \
        mul A.bin B.bin --device cpu -o F.bin --alpha 1e0 --memory 4096M
    expect_status 0
    result_is F.bin "a @ b"
}

@test "an unwritable report is refused before the work" {
    need_numpy
    make_operands
    for count in 1 2; do
        ranks $count mul A.bin B.bin -o D.bin --report no/report.json
        expect_failure 73 "cannot write the report to 'no/report.json': No such file or directory"
        mkdir folder
        ranks $count mul A.bin B.bin -o D.bin --report folder
        expect_failure 73 "cannot write the report to 'folder': Is a directory"
        rmdir folder
        ln -s B.bin link
        for name in A.bin link D.bin; do
            ranks $count mul A.bin B.bin -o D.bin --report $name
            expect_failure 73 "cannot write the report to '$name': it is one of the matrices"
        done
        rm link
    done
    expect_only_files A.bin At.bin B.bin Bt.bin C.bin
}

@test "a report on a full disk ends all ranks with 74, and the result stays" {
    need_numpy
    make_operands
    ranks 2 mul A.bin B.bin -o D.bin --report /dev/full --quiet --device cpu
    expect_failure 74 "cannot write '/dev/full': No space left on device"
    result_is D.bin "a @ b"
}

@test "a full disk behind stdout ends all ranks with 74" {
    need_numpy
    make_operands
    run --separate-stderr bash -c '"$MPIMATMUL" mul A.bin B.bin --device cpu > /dev/full'
    expect_failure 74 "cannot write to standard output: No space left on device"
    for words in "plan A.bin B.bin" devices "devices --json"; do
        # shellcheck disable=SC2086 # several words
        run --separate-stderr bash -c '"$MPIMATMUL" "$@" --device cpu > /dev/full' - $words
        expect_failure 74 "cannot write to standard output: No space left on device"
    done
    # No file opened by MPI may reuse the closed descriptor of stdout.
    run --separate-stderr bash -c '"$MPIMATMUL" devices --device cpu >&-'
    expect_failure 74 "cannot write to standard output: Bad file descriptor"
}

@test "plan shows shares and writes no file, and --json is JSON" {
    need_numpy
    make_operands
    ranks 2 plan A.bin B.bin --weights 2,1 --device cpu
    expect_status 0
    [[ "$output" == *"64.7 %"*"35.3 %"* ]]
    ranks 2 plan A.bin B.bin --weights 2,1 --device cpu --json
    expect_quiet_success
    py -c 'import json, sys; json.loads(sys.argv[1])' "$output"
    expect_only_files A.bin At.bin B.bin Bt.bin C.bin
}

@test "devices shows every rank, and --json is JSON" {
    ranks 3 devices --device reference
    expect_status 0
    for rank in 0 1 2; do
        grep -q -E "^ *$rank +.*reference" <<< "$output"
    done
    ranks 3 devices --device reference --json
    expect_quiet_success
    py -c 'import json, sys; json.loads(sys.argv[1])' "$output"
}

# Takes the kernels of each rank from r.json.
kernels_reported() {
    py -c 'import json
print([(r["kernels"], r["kernels_setting"]) for r in json.load(open("r.json"))["ranks"]])'
}

@test "devices and the report name the kernels of each rank and the setting that forces them" {
    [ "$(uname -m)" = x86_64 ] || skip "no x86-64: other kernels"
    local devices=("$MPIMATMUL" devices --device cpu)
    run --separate-stderr "${launch[@]}" -n 1 env OPENBLAS_CORETYPE=Nehalem "${devices[@]}" \
        : -n 2 env OPENBLAS_CORETYPE=Prescott "${devices[@]}" < /dev/null
    expect_quiet_success
    local lack="(, not of this processor's [A-Z0-9-]+)?"
    grep -qE "^rank 0: OpenBLAS's kernels are Nehalem, OPENBLAS_CORETYPE=Nehalem is set$lack$" \
        <<< "$output" || { show; return 1; }
    grep -qE "^ranks 1 to 2: OpenBLAS's kernels are Prescott, OPENBLAS_CORETYPE=Prescott is set$lack$" \
        <<< "$output"
    expect_line "  \`mpimatmul devices --test\` measures others"
    run --separate-stderr env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE -u OPENBLAS_BLOCK_FACTOR "${devices[@]}" \
        < /dev/null
    expect_quiet_success
    [[ "$output" != *"is set"* ]]
    run env OPENBLAS_CORETYPE=Prescott OPENBLAS_L2_SIZE=1048576 "${devices[@]}" < /dev/null
    [[ "$output" == *"OPENBLAS_L2_SIZE=1048576"* ]]
    [ "$(wc -L <<< "$output")" -le 120 ]
    "$MPIMATMUL" gen A.bin --dims 41x31 --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 31x37 --seed 2 --quiet
    OPENBLAS_CORETYPE=Nehalem program mul A.bin B.bin -o C.bin --quiet --device cpu --report r.json
    expect_quiet_success
    [ "$(kernels_reported)" = "[('Nehalem', 'OPENBLAS_CORETYPE=Nehalem')]" ]
    OPENBLAS_CORETYPE=Nehalem program mul A.bin B.bin -o C.bin --verbose --device cpu
    [[ "$output" == *$'\n'"kernels of rank 0: Nehalem (OPENBLAS_CORETYPE=Nehalem is set)"* ]] || { show; return 1; }
    echo 'save("c.npy", load("A.bin") @ load("B.bin"))' > p.py
    OPENBLAS_CORETYPE=Nehalem program run p.py --quiet --device cpu --report r.json
    expect_quiet_success
    [ "$(kernels_reported)" = "[('Nehalem', 'OPENBLAS_CORETYPE=Nehalem')]" ]
}

@test "devices fits 120 columns and names the OpenBLAS in use in one word" {
    ranks 2 devices --device cpu
    expect_quiet_success
    [ "$(wc -L <<< "$output")" -le 120 ] || { show; return 1; }
    [ "$(grep -c -E '^ +[01] .* OpenBLAS [0-9.]+ \([A-Za-z]+\)$' <<< "$output")" -eq 2 ] || { show; return 1; }
    expect_line "rank 1: shares the CPU with rank 0"
    [[ "$output" != *vendor* ]]
    ranks 2 devices --device cpu --verbose
    expect_status 0
    [[ "$output" == *" vendor "* ]]
}

# Columns 4 and 5 of a rank's row: cores, threads.
@test "--threads and --bind reach the ranks" {
    ranks 2 devices --device cpu --threads 2
    expect_status 0
    [ "$(awk '$1 == 1 && $6 == "cpu" { print $5 }' <<< "$output")" = 2 ]
    ranks 2 devices --device cpu --threads 1
    [ "$(awk '$1 == 1 && $6 == "cpu" { print $5 }' <<< "$output")" = 1 ]
    ranks 2 devices --device cpu --threads 1 --bind none
    [ "$(awk '$1 == 1 && $6 == "cpu" { print $4 }' <<< "$output")" = any ]
}

@test "progress goes to stderr, and a short run has none" {
    need_numpy
    make_operands
    for style in auto plain none; do
        program mul A.bin B.bin -o D.bin --device cpu --progress $style
        expect_quiet_success
    done
}

@test "a progress bar on a terminal is erased at the end" {
    command -v script > /dev/null || skip "script is not installed"
    "$MPIMATMUL" gen A.bin --dims 301x307 --seed 1
    "$MPIMATMUL" gen B.bin --dims 307x303 --seed 2
    MPIMATMUL_PROGRESS=auto command script -q -e typescript < /dev/null \
        -c "'$MPIMATMUL' mul A.bin B.bin -o D.bin --device faulty:delay=300ms:cpu > table"
    grep -q 'D.bin: 301 x 303' table
    [[ "$(< typescript)" == *$'\r['*' %'*$'\r\033[K'* ]]
}
