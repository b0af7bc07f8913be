# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# Loaded by every bats file here: runs the program in a folder of the test's own and compares its
# output with the expected whole lines and exit codes.

bats_require_minimum_version 1.5.0
# shellcheck source=tests/environment.sh
source "${BATS_TEST_DIRNAME:?}/../environment.sh"
export PYTHONPATH=$REPO/tests/cli

# Relative names keep the expected lines short. bats keeps files of its own beside this folder.
setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# Drops the warnings of libevent, which mpirun prints when a rank closes its pipe while mpirun reads
# it.
eval "$(as_it_is=$(declare -f run) && printf '%s' "run_as_it_is${as_it_is#run}")"
run() {
    run_as_it_is "$@" || return
    [[ "${stderr:-}" == *'[warn] Epoll '* ]] || return 0
    stderr=$(sed '/^\[warn\] Epoll /d' <<< "$stderr")
    mapfile -t stderr_lines <<< "$stderr"
}

need_numpy() {
    [ -S "${PYTHON_SERVER:-}" ] || py -c 'import numpy' 2> /dev/null || skip "numpy is not installed"
}

# Does the work of `python3 ARGUMENTS...`: run-tests has a running Python with numpy already
# imported.
py() {
    if [ -S "${PYTHON_SERVER:-}" ]; then
        "$PYTHON" -ISs "$REPO/tests/lib/python_client.py" "$PYTHON_SERVER" "$@"
    else
        # without this, numpy's OpenBLAS starts a thread per core for nothing
        OPENBLAS_NUM_THREADS=1 "$PYTHON" "$@"
    fi
}

# Runs Python from stdin, with the module `matrices`.
python() {
    py - "$@"
}

# Runs the program alone: sets status, output, stderr, stderr_lines.
program() {
    run --separate-stderr "$MPIMATMUL" "$@" < /dev/null
}

# mpirun with as little output as possible. When a rank ends with a code other than 0, mpirun sends
# SIGTERM and SIGKILL to the others with a second of sleep between. Without that sleep the tests
# take a fifth of the time, and a rank that prints its line too late is noticed.
launch=(mpirun -q --mca odls_base_sigkill_timeout 0 -x "$PATIENT")

# Runs the program on that many ranks: ranks 2 mul A.bin B.bin
ranks() {
    local count=$1
    shift
    run --separate-stderr "${launch[@]}" -n "$count" "$MPIMATMUL" "$@" < /dev/null
}

# widest_kernels: prints the kernel set for the widest vectors of this processor, by /proc/cpuinfo.
# Prints nothing on any other machine than an x86-64.
widest_kernels() {
    local flags
    flags=" $(grep -m 1 '^flags' /proc/cpuinfo | cut -d : -f 2) "
    case $flags in
        *' avx512f '*) [[ "$flags" != *" avx512vl "* ]] || { echo SkylakeX; return; } ;;&
        *' avx2 '*) [[ "$flags" != *" fma "* ]] || { echo Haswell; return; } ;;&
        *' avx '*) echo Sandybridge ;;
    esac
}

# An OpenBLAS older than this processor uses kernels for another one, which doctor reports. Tests of
# other things therefore choose the kernels themselves.
mend_kernels() {
    unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_BLOCK_FACTOR
    if [[ "$("$MPIMATMUL" devices --device cpu < /dev/null)" == *", not of this processor's "* ]]; then
        OPENBLAS_CORETYPE=$(widest_kernels)
        export OPENBLAS_CORETYPE
    fi
}

show() {
    printf 'status %s\n--- stdout\n%s\n--- stderr\n%s\n' "$status" "$output" "${stderr:-}"
}

expect_status() {
    if [ "$status" -ne "$1" ]; then
        echo "expected status $1"
        show
        return 1
    fi
}

# expect_end CODE LINE: LINE comes first on stderr and is the only line of the program, and there is
# no result D.bin.
expect_end() {
    expect_status "$1" || return 1
    if [ "${stderr_lines[0]}" != "mpimatmul: $2" ] || [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -ne 1 ] ||
        [ -n "$output" ] || [ -e D.bin ] || [ -e D.bin.part ]; then
        printf 'expected the line\nmpimatmul: %s\nand no result\n' "$2"
        show
        return 1
    fi
}

# Success without any output on stderr.
expect_quiet_success() {
    expect_status 0 || return 1
    if [ -n "${stderr:-}" ]; then
        echo "expected nothing on stderr"
        show
        return 1
    fi
}

# source_lines TEXT: prints the lines that follow the error TEXT of a program, "FILE:LINE:COLUMN:
# ...": the source line and a caret. A test with a tab in that line, or with a long line, sets
# `shown_source` to the expected text.
source_lines() {
    local line
    if [ -n "${shown_source:-}" ]; then
        printf '\n%s' "$shown_source"
    elif [[ $1 =~ ^([^:\']+):([0-9]+):([0-9]+):\  ]] && [ -e "${BASH_REMATCH[1]}" ]; then
        line=$(sed -n "${BASH_REMATCH[2]}p" "${BASH_REMATCH[1]}")
        [ -z "${line// /}" ] || printf '\n    %s\n    %*s^' "$line" $((BASH_REMATCH[3] - 1)) ''
    fi
}

# expect_failure CODE LINE [HINT]: exactly these lines on stderr, with the source line of a program,
# and nothing on stdout.
expect_failure() {
    local expected
    expected="mpimatmul: $2$(source_lines "$2")"
    [ $# -lt 3 ] || expected+=$'\n'"  hint: $3"
    expect_status "$1" || return 1
    if [ "${stderr:-}" != "$expected" ] || [ -n "$output" ]; then
        printf 'expected status %s, no stdout, and on stderr\n%s\n' "$1" "$expected"
        show
        return 1
    fi
}

# script TEXT: writes the program `e.py`.
script() {
    printf '%s\n' "$1" > e.py
}

# refuses TEXT LINE [HINT]: the program ends with 65, and no file is left but the text.
refuses() {
    script "$1"
    program run e.py
    expect_failure 65 "$2" ${3:+"$3"} || return 1
    expect_only_files e.py
}

# refused_behind LINES LINE:COLUMN TEXT HINT STATEMENT: STATEMENT behind LINES in e.py is refused
# with TEXT and HINT. HINT '': none.
refused_behind() {
    printf '%s\n' "$1" "$5" > e.py
    run --separate-stderr "$MPIMATMUL" run e.py
    [ "$status" -eq 65 ] || { echo "$status $5"; return 1; }
    [ "${stderr_lines[0]}" = "mpimatmul: e.py:$2: $3" ] || { echo "$stderr"; return 1; }
    if [ -n "$4" ]; then
        [ "${stderr_lines[-1]}" = "  hint: $4" ] || { echo "$stderr"; return 1; }
    else
        [[ "$stderr" != *hint:* ]] || { echo "$stderr"; return 1; }
    fi
}

# expect_line TEXT: stdout has this whole line.
expect_line() {
    if ! grep -q -x -F -e "$1" <<< "$output"; then
        printf 'expected on stdout the line\n%s\n' "$1"
        show
        return 1
    fi
}

# outcome: prints stdout of a program, with N for the seconds, speed and number of steps in its last
# lines.
outcome() {
    sed -E '/^wall /{s/[0-9]+\.[0-9]{3} s/N s/g;s/[0-9]+\.[0-9] GFLOP/N GFLOP/;s/\([0-9]+ steps?;/(N steps;/}' \
        <<< "${output:?}"
}

# expect_only_files NAME...: the test's folder has no other file, above all no temporary result.
expect_only_files() {
    local found
    found=$(find . -mindepth 1 -printf '%P\n' | sort | xargs)
    if [ "$found" != "$(printf '%s\n' "$@" | sort | xargs)" ]; then
        printf 'expected files: %s\nfound: %s\n' "$*" "$found"
        return 1
    fi
}

# Writes the script `record`, which stands between mpirun and the program. Each rank stores its
# process id, by which a test stops it.
recorder() {
    # shellcheck disable=SC2016 # expanded there
    printf '%s\n' '#!/bin/sh' 'echo $$ > "pid.$OMPI_COMM_WORLD_RANK"' 'exec "$@"' > record
    chmod 755 record
    echo ./record
}

# Stops rank 1 of a job that writes D.bin for 12 s, beginning one second after D.bin.part appears.
stop_rank_1() {
    local i
    for ((i = 0; i < 100; i++)); do
        [ ! -e D.bin.part ] || break
        sleep 0.1
    done
    sleep 1
    kill -STOP "$(< pid.1)"
    sleep 12
    kill -CONT "$(< pid.1)"
}

# operands_of_nodes BETA: makes A, B and C, large enough for several chunks, packets and panels, and
# right.bin, which is A B + BETA C.
operands_of_nodes() {
    "$MPIMATMUL" gen A.bin --dims 401x701 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 701x501 --kind integer --seed 2 --quiet
    "$MPIMATMUL" gen C.bin --dims 401x501 --kind integer --seed 3 --quiet
    "$MPIMATMUL" mul A.bin B.bin --beta "$1" --c-in C.bin -o right.bin --device cpu --quiet
}

# Uses the Python package of this checkout with the library of the build, in a folder of its own.
setup_package() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    need_plain "python is not linked against the sanitizer"
    need_numpy
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    export MPIMATMUL_SHARD_DIR=$BATS_TEST_TMPDIR/shards
}

# tamper_message FROM MESSAGE WORD...: sets `contexts` to the program contexts of three ranks, each
# with this command. Rank FROM changes an element of that message before it sends it.
tamper_message() {
    local from=$1 message=$2 rank
    shift 2
    contexts=()
    for rank in 0 1 2; do
        contexts+=(-n 1 env "LD_PRELOAD=$BUILD/tests/tamper.so:$BUILD/tests/refuse.so" MMUL_APART=1
            MMUL_TAMPER_TAG=64 MMUL_TAMPER_HASH=1)
        [ "$rank" -ne "$from" ] || contexts+=("MMUL_TAMPER=send:$message")
        contexts+=("$@" :)
    done
    unset 'contexts[-1]'
}
