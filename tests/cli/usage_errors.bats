#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Wrong command lines: one line with the expected form, code 64, no MPI, no file touched.
# shellcheck disable=SC2154,SC2016 # bats sets status, output and stderr; bash -c expands what stands in ''
load helper

@test "a missing command is refused" {
    program
    expect_failure 64 "no command is given" "mpimatmul --help lists the commands"
}

@test "an unknown command is refused with the nearest one when one is near" {
    program mull A.bin B.bin
    expect_failure 64 "unknown command 'mull', did you mean 'mul'?"
    program devcies
    expect_failure 64 "unknown command 'devcies', did you mean 'devices'?"
    for row in "multiply mul" "matmul mul" "generate gen" "benchmark bench" "verison version" "dev devices"; do
        program "${row% *}" A.bin B.bin
        expect_failure 64 "unknown command '${row% *}', did you mean '${row#* }'?"
    done
    program frobnicate A.bin B.bin
    expect_failure 64 "unknown command 'frobnicate'" "mpimatmul --help lists the commands"
}

@test "an option before the command is refused" {
    program --alpha 2 mul A.bin B.bin
    expect_failure 64 "unknown option '--alpha'" \
        "options follow the command; mpimatmul --help lists the commands"
    program --verzion
    expect_failure 64 "unknown option '--verzion', did you mean '--version'?"
}

@test "an unknown option is refused with the nearest one when one is near" {
    program mul A.bin B.bin --wieghts 1,2
    expect_failure 64 "mul: unknown option '--wieghts', did you mean '--weights'?"
    program mul A.bin B.bin --wieghts=1,2
    expect_failure 64 "mul: unknown option '--wieghts', did you mean '--weights'?"
    program mul --transpose-c A.bin B.bin
    expect_failure 64 "mul: unknown option '--transpose-c', did you mean '--transpose-a'?"
    program gen A.bin --dims 2x2 --frobnicate
    expect_failure 64 "gen: unknown option '--frobnicate'" "mpimatmul gen --help lists the options"
    program info -x A.bin
    expect_failure 64 "info: unknown option '-x'" "mpimatmul info --help lists the options"
}

@test "an option of another command is unknown" {
    program info --alpha 2 A.bin
    expect_failure 64 "info: unknown option '--alpha'" "mpimatmul info --help lists the options"
}

@test "a prefix of two options is not completed" {
    program mul --transpose A.bin B.bin
    expect_status 64
    [[ "${stderr_lines[0]}" == "mpimatmul: mul: unknown option '--transpose'"* ]]
}

@test "a missing and an empty value are refused" {
    program mul A.bin B.bin --alpha
    expect_failure 64 "mul: --alpha is missing its value: --alpha X"
    program mul A.bin B.bin -o
    expect_failure 64 "mul: --output is missing its value: --output FILE"
    program mul A.bin B.bin --output=
    expect_failure 64 "--output: the value is empty"
}

@test "too few, too many and empty operands are refused" {
    program mul A.bin
    expect_failure 64 "mul: expected 2 operands, found 1" "mpimatmul mul A.bin B [options]"
    program convert 'a b.npy'
    expect_failure 64 "convert: expected 2 operands, found 1" "mpimatmul convert IN OUT [options]"
    program convert in.npy
    expect_failure 64 "convert: expected 2 operands, found 1" "mpimatmul convert in.npy OUT [options]"
    program mul A.bin B.bin C.bin
    expect_failure 64 "mul: expected 2 operands, found 3" "mpimatmul mul A B [options]"
    program gen
    expect_failure 64 "gen: expected 1 operand, found 0" "mpimatmul gen OUT [options]"
    program info
    expect_failure 64 "info: expected at least 1 operand, found 0" "mpimatmul info FILE... [options]"
    program devices A.bin
    expect_failure 64 "devices: expected 0 operands, found 1" "mpimatmul devices [options]"
    program diff A.bin ""
    expect_failure 64 "diff: operand 2 is empty"
}

@test "options may stand anywhere, '--' ends them" {
    "$MPIMATMUL" gen --seed 1 A.bin --dims 3x5
    "$MPIMATMUL" gen --seed 1 --dims 3x5 -- --dims
    cmp A.bin ./--dims
    program diff A.bin -- --dims
    expect_quiet_success
}

@test "the last value of a repeated option counts" {
    "$MPIMATMUL" gen A.bin --dims 3x5 --seed 1 --seed 2
    "$MPIMATMUL" gen B.bin --dims 3x5 --seed 2
    cmp A.bin B.bin
}

# value_refused OPTION VALUE TEXT: mul refuses the value with TEXT, alone and from the environment.
value_refused() {
    local name
    program mul A.bin B.bin "--$1=$2"
    expect_failure 64 "--$1: $3" || return 1
    name=MPIMATMUL_$(tr a-z- A-Z_ <<< "$1")
    export "$name=$2"
    program mul A.bin B.bin
    unset "$name"
    expect_failure 64 "$name: $3"
}

@test "invalid values are refused" {
    value_refused alpha nan "'nan' is not a number"
    value_refused alpha inf "'inf' is not a number"
    value_refused alpha 1e39 "'1e39' is out of range, expected -3.40282e+38 to 3.40282e+38"
    value_refused beta -1e39 "'-1e39' is out of range, expected -3.40282e+38 to 3.40282e+38"
    value_refused beta 1x "'1x' is not a number"
    value_refused threads 0 "'0' is not a whole number from 1 to 1024"
    value_refused threads 1025 "'1025' is not a whole number from 1 to 1024"
    value_refused threads 99999999999999999999 "'99999999999999999999' is not a whole number from 1 to 1024"
    value_refused memory 4X "'4X' is not a size like 512MiB or 4GiB"
    value_refused memory -1 "'-1' is not a size like 512MiB or 4GiB"
    value_refused memory 9999999TiB "'9999999TiB' is not a size like 512MiB or 4GiB"
    value_refused device-memory 0 "'0' must be at least one byte"
    value_refused split diagonal "'diagonal' is invalid, expected one of rows|cols|auto"
    value_refused split row "'row' is invalid, expected one of rows|cols|auto"
    value_refused split-rule hundreds "'hundreds' is invalid, expected one of exact|hundred"
    value_refused io node "'node' is invalid, expected one of auto|root|shared"
    value_refused verify maybe "'maybe' is invalid, expected one of on|off"
    value_refused progress dots "'dots' is invalid, expected one of auto|bar|plain|none"
    value_refused bind core "'core' is invalid, expected one of auto|none"
    value_refused dtype int8 "'int8' is not float32, float16, bfloat16 or float64"
    value_refused no-fallback 2 "'2' is not on or off"
}

@test "invalid weights are refused" {
    value_refused weights 0.5,x "'x' is not a number"
    value_refused weights nan,1 "'nan' is not a number"
    value_refused weights 1,-1 "weight 2 is -1: a weight is zero or more"
    value_refused weights 0,0 "all weights are zero: at least one must be positive"
    value_refused weights 1, "nothing after the last comma"
}

@test "invalid dims are refused" {
    for dims in 3 3x 0x5 -3x5 3x5x 1x2x3x4x5 axb 3x2147483648 3X5; do
        program gen A.bin --dims "$dims"
        expect_status 64
        [ "${#stderr_lines[@]}" -eq 1 ]
        [[ "$stderr" == "mpimatmul: '$dims' is not a shape like 4096x1024 "* ]]
    done
    program gen A.bin
    expect_failure 64 "gen: --dims is missing" "give --dims ROWSxCOLS, as in --dims 512x256"
    expect_only_files
}

@test "--beta without --c-in is refused" {
    program mul A.bin B.bin --beta 2
    expect_failure 64 "--beta is 2, but --c-in is missing" "give --c-in FILE"
}

@test "the command line wins over the environment, which wins over the default" {
    "$MPIMATMUL" gen I.bin --dims 3x3 --kind identity
    export MPIMATMUL_ALPHA=2 MPIMATMUL_TRANSPOSE_A=yes
    program verify --verbose --alpha 1.0 I.bin I.bin I.bin
    expect_status 0
    expected="mpimatmul: option --transpose-a is on (MPIMATMUL_TRANSPOSE_A)
mpimatmul: option --alpha is 1 (command line)
mpimatmul: option --progress is none (MPIMATMUL_PROGRESS)"
    [ "$stderr" = "$expected" ] || { show; return 1; }
    program verify --verbose --transpose-a=off I.bin I.bin I.bin
    [[ "$stderr" == *"option --transpose-a is off (command line)"* ]]
    [[ "$stderr" == *"option --alpha is 2 (MPIMATMUL_ALPHA)"* ]]
    MPIMATMUL_ALPHA='' program verify --verbose I.bin I.bin I.bin
    [ "$stderr" = "mpimatmul: option --transpose-a is on (MPIMATMUL_TRANSPOSE_A)
mpimatmul: option --progress is none (MPIMATMUL_PROGRESS)" ]
}

@test "an environment variable without an option gives a warning with the nearest name" {
    "$MPIMATMUL" gen I.bin --dims 3x3 --kind identity
    export MPIMATMUL_WIEGHTS=1,2 MPIMATMUL_HOME=/nowhere MPIMATMUL_WEIGHTS=1
    expected="mpimatmul: warning: no option reads the variable 'MPIMATMUL_HOME'
mpimatmul: warning: no option reads the variable 'MPIMATMUL_WIEGHTS', did you mean 'MPIMATMUL_WEIGHTS'?"
    for words in "verify I.bin I.bin I.bin" "devices --device cpu"; do
        # shellcheck disable=SC2086 # several words
        program $words
        expect_status 0
        [ "$(sort <<< "$stderr")" = "$expected" ] || { show; return 1; }
    done
    ranks 2 devices --device cpu
    [ "$(sort <<< "$stderr")" = "$expected" ] || { show; return 1; }
    program verify I.bin I.bin I.bin --quiet
    expect_quiet_success
    # Variables of the Python package are known.
    unset MPIMATMUL_WIEGHTS MPIMATMUL_HOME MPIMATMUL_WEIGHTS
    MPIMATMUL_LIBRARY=lib.so MPIMATMUL_WAIT_SECONDS=3 program verify I.bin I.bin I.bin
    expect_quiet_success
}

@test "more threads than cores give a warning" {
    local cores
    cores=$(nproc)
    program devices --device cpu --threads 1000
    expect_status 0
    expected="mpimatmul: warning: rank 0 on $(uname -n): --threads 1000 is more than the $cores cores it may use"
    [ "$cores" -eq 1 ] || [ "$stderr" = "$expected" ] || { show; return 1; }
    program devices --device cpu --threads 1
    expect_quiet_success
}

@test "a bad value in the environment is ignored when the command line wins" {
    "$MPIMATMUL" gen I.bin --dims 3x3 --kind identity
    MPIMATMUL_ALPHA=nonsense program verify --alpha 1 I.bin I.bin I.bin
    expect_quiet_success
}

@test "a line break in an argument does not break the error line" {
    program $'mu\nl'
    expect_failure 64 "unknown command 'mu?l', did you mean 'mul'?"
    program info $'no\nsuch file'
    expect_failure 66 "cannot open 'no?such file': No such file or directory"
}

@test "a full disk or a closed pipe behind stdout has an error of its own" {
    "$MPIMATMUL" gen I.bin --dims 3x3 --kind identity
    for words in "info I.bin" "diff I.bin I.bin" "--help" "mul --help" "--version"; do
        # shellcheck disable=SC2086 # several words
        run --separate-stderr bash -c '"$MPIMATMUL" "$@" > /dev/full' - $words
        expect_failure 74 "cannot write to standard output: No space left on device"
        # shellcheck disable=SC2086
        run --separate-stderr bash -c '{ "$MPIMATMUL" "$@"; echo $? >&2; } | true' - $words
        [ "${stderr_lines[-1]}" = 74 ] || [ "${stderr_lines[-1]}" = 0 ]
        # shellcheck disable=SC2086
        run --separate-stderr bash -c '"$MPIMATMUL" "$@" >&-' - $words
        expect_failure 74 "cannot write to standard output: Bad file descriptor"
    done
}

@test "with stdout closed no table is written into a file" {
    "$MPIMATMUL" gen I.bin --dims 3x3 --kind identity
    run bash -c '"$MPIMATMUL" split I.bin --parts 2 --shard-dir s >&-'
    expect_status 74
    program join I --shard-dir s -o J.bin
    expect_quiet_success
    cmp I.bin J.bin
}

@test "under mpirun a usage error is one line and ends all ranks" {
    ranks 2 mull A.bin B.bin
    expect_failure 64 "unknown command 'mull', did you mean 'mul'?"
    ranks 2 gen A.bin
    expect_failure 64 "gen: --dims is missing" "give --dims ROWSxCOLS, as in --dims 512x256"
    ranks 2
    expect_failure 64 "no command is given" "mpimatmul --help lists the commands"
}
