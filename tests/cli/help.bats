#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Help and version: on stdout, code 0, complete, and equal to the tables that the parser uses.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

commands=(mul gen info convert diff verify split join devices plan bench calibrate tune doctor
    run add sub transpose map reduce topk kept report compare top retry)

@test "--help lists the commands of this version and no others" {
    program --help
    expect_quiet_success
    listed=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<< "$output" | xargs)
    [ "$listed" = "${commands[*]}" ]
}

@test "--help lists every exit code" {
    program --help
    for code in 0 64 65 66 69 70 71 73 74 75 78 79; do
        grep -q -E "^ +$code  [a-z]" <<< "$output"
    done
}

@test "every command has help, with a default on every option line" {
    for command in "${commands[@]}"; do
        program "$command" --help
        expect_quiet_success
        [ "${lines[0]%% \[options\]}" != "${lines[0]}" ]
        [ "$(grep -c -E '^  (-[a-z],|   ) --' <<< "$output")" -ge 3 ]
        run grep -E '^  (-[a-z],|   ) --' <<< "$output"
        for line in "${lines[@]}"; do
            [[ "$line" =~ \[default:\ [^]]+\]$ ]] || { echo "$line"; return 1; }
        done
    done
}

@test "options with an environment variable name it" {
    program mul --help
    [ "$(grep -c -E '; MPIMATMUL_[A-Z_]+\]$' <<< "$output")" -eq 33 ]  # all but --output and --help
    grep -q -F '[default: off; MPIMATMUL_TRANSPOSE_A]' <<< "$output"
    program gen --help
    grep -q -F -e '--seed N' <<< "$output"
    [[ "$output" != *MPIMATMUL_SEED* ]]
}

@test "help fits in 105 columns" {
    for command in "${commands[@]}" ""; do
        program ${command:+"$command"} --help
        run awk 'length > 105' <<< "$output"
        [ -z "$output" ]
    done
}

@test "the parser accepts every option in the help of mul, and --help lists no other" {
    program mul --help
    names=$(sed -n 's/^  \(-[a-z],\|   \) --\([a-z-]*\).*/\2/p' <<< "$output")
    [ "$(wc -w <<< "$names")" -eq 46 ]
    for name in $names; do
        [ "$name" != help ] || continue
        program mul A.bin "--$name=?"  # a bad value or a missing operand, not an unknown option
        expect_status 64
        [[ "$stderr" != *"unknown option"* ]]
    done
    [[ "$names" != *restart* ]]
    program mul A.bin B.bin --restart
    expect_status 64
    [[ "${stderr_lines[0]}" == "mpimatmul: mul: unknown option '--restart'"* ]]
}

@test "-h is --help, and wins over anything that is wrong" {
    program mul --help
    expected=$output
    program mul -h
    [ "$output" = "$expected" ]
    program mul --alpha nonsense --help
    expect_quiet_success
    [ "$output" = "$expected" ]
}

@test "help and version are commands, too" {
    program help
    expect_quiet_success
    expected=$output
    program --help
    [ "$output" = "$expected" ]
    program help diff
    expect_quiet_success
    expected=$output
    program diff --help
    [ "$output" = "$expected" ]
    program help multiply
    expect_failure 64 "unknown command 'multiply', did you mean 'mul'?"
    program version
    expect_quiet_success
    [ "$output" = "mpimatmul 0.1.0" ]
}

@test "--version prints name and version" {
    program --version
    expect_quiet_success
    [ "$output" = "mpimatmul 0.1.0" ]
}

@test "under mpirun help is printed once" {
    program mul --help
    expected=$output
    ranks 3 mul --help
    expect_quiet_success
    [ "$output" = "$expected" ]
}

@test "help does not need MPI" {
    # An Open MPI that can load no component fails in MPI_Init.
    OMPI_MCA_btl=none OMPI_MCA_pml=none program plan --help
    expect_quiet_success
}
