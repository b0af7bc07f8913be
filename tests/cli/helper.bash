# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# For every bats file here: runs the program in a folder of the test's own, and compares what it says with
# what it should say, whole lines and exit codes.

bats_require_minimum_version 1.5.0
# shellcheck source=tests/environment.sh
source "${BATS_TEST_DIRNAME:?}/../environment.sh"
export PYTHONPATH=$REPO/tests/cli

# Relative names keep the expected lines short. bats keeps files of its own beside this folder.
setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# What libevent may say in mpirun, when a rank's pipe is closed while it is told of it, is not ours.
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

# What `python3 ARGUMENTS...` does: run-tests has a Python at hand that has imported numpy.
py() {
    if [ -S "${PYTHON_SERVER:-}" ]; then
        "$PYTHON" -ISs "$REPO/tests/lib/python_client.py" "$PYTHON_SERVER" "$@"
    else
        OPENBLAS_NUM_THREADS=1 "$PYTHON" "$@" # numpy's begins as many threads as there are cores, for nothing
    fi
}

# From stdin, with the module `matrices` at hand.
python() {
    py - "$@"
}

# The program alone: sets status, output, stderr, stderr_lines.
program() {
    run --separate-stderr "$MPIMATMUL" "$@" < /dev/null
}

# mpirun as quiet as it can be. When a rank ends with a code other than 0 it sends SIGTERM and SIGKILL to the
# others and sleeps a second between: without that the tests take a fifth of the time, and a rank that prints
# its line too late is found out.
launch=(mpirun -q --mca odls_base_sigkill_timeout 0 -x "$PATIENT")

# The program on so many ranks: ranks 2 mul A.bin B.bin
ranks() {
    local count=$1
    shift
    run --separate-stderr "${launch[@]}" -n "$count" "$MPIMATMUL" "$@" < /dev/null
}

# widest_kernels: the set for the widest vectors of this processor, as /proc/cpuinfo lists them; nothing elsewhere than
# on an x86-64.
widest_kernels() {
    local flags
    flags=" $(grep -m 1 '^flags' /proc/cpuinfo | cut -d : -f 2) "
    case $flags in
        *' avx512f '*) [[ "$flags" != *" avx512vl "* ]] || { echo SkylakeX; return; } ;;&
        *' avx2 '*) [[ "$flags" != *" fma "* ]] || { echo Haswell; return; } ;;&
        *' avx '*) echo Sandybridge ;;
    esac
}

# A library that is older than this processor takes kernels for another one, which doctor finds: tests of something
# else tell it what to take.
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

# expect_end CODE LINE: that line of ours before all others, one of them, and no result D.bin.
expect_end() {
    expect_status "$1" || return 1
    if [ "${stderr_lines[0]}" != "mpimatmul: $2" ] || [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -ne 1 ] ||
        [ -n "$output" ] || [ -e D.bin ] || [ -e D.bin.part ]; then
        printf 'expected the line\nmpimatmul: %s\nand no result\n' "$2"
        show
        return 1
    fi
}

# Success without a word on stderr.
expect_quiet_success() {
    expect_status 0 || return 1
    if [ -n "${stderr:-}" ]; then
        echo "expected nothing on stderr"
        show
        return 1
    fi
}

# source_lines TEXT: what stands below a failure of the program that TEXT names a place of, "FILE:LINE:COLUMN: ...":
# that line, and a caret. One with a tab, or too long, is of the tests that set `shown_source` to what they expect.
source_lines() {
    local line
    if [ -n "${shown_source:-}" ]; then
        printf '\n%s' "$shown_source"
    elif [[ $1 =~ ^([^:\']+):([0-9]+):([0-9]+):\  ]] && [ -e "${BASH_REMATCH[1]}" ]; then
        line=$(sed -n "${BASH_REMATCH[2]}p" "${BASH_REMATCH[1]}")
        [ -z "${line// /}" ] || printf '\n    %s\n    %*s^' "$line" $((BASH_REMATCH[3] - 1)) ''
    fi
}

# expect_failure CODE LINE [HINT]: exactly these lines on stderr, with that of a program's text, and nothing on stdout.
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

# script TEXT: the program `e.py`.
script() {
    printf '%s\n' "$1" > e.py
}

# refuses TEXT LINE [HINT]: with 65, and nothing is left but the text.
refuses() {
    script "$1"
    program run e.py
    expect_failure 65 "$2" ${3:+"$3"} || return 1
    expect_only_files e.py
}

# refused_behind LINES LINE:COLUMN TEXT HINT STATEMENT: what is said of STATEMENT behind LINES in e.py. HINT '': none.
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

# expect_line TEXT: a whole line of stdout.
expect_line() {
    if ! grep -q -x -F -e "$1" <<< "$output"; then
        printf 'expected on stdout the line\n%s\n' "$1"
        show
        return 1
    fi
}

# outcome: stdout of a program that says at its end what it was, with N for its seconds, speed and number of steps.
outcome() {
    sed -E '/^wall /{s/[0-9]+\.[0-9]{3} s/N s/g;s/[0-9]+\.[0-9] GFLOP/N GFLOP/;s/\([0-9]+ steps?;/(N steps;/}' \
        <<< "${output:?}"
}

# expect_only_files NAME...: nothing else is in the test's folder, least of all a half-written result.
expect_only_files() {
    local found
    found=$(find . -mindepth 1 -printf '%P\n' | sort | xargs)
    if [ "$found" != "$(printf '%s\n' "$@" | sort | xargs)" ]; then
        printf 'expected files: %s\nfound: %s\n' "$*" "$found"
        return 1
    fi
}

# What stands between mpirun and the program where a rank is to be stopped: each leaves its number.
recorder() {
    # shellcheck disable=SC2016 # expanded there
    printf '%s\n' '#!/bin/sh' 'echo $$ > "pid.$OMPI_COMM_WORLD_RANK"' 'exec "$@"' > record
    chmod 755 record
    echo ./record
}

# Of a job that writes D.bin: rank 1 stands still for 12 s, beginning in its midst.
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

# operands_of_nodes BETA: A, B and C, large enough for several chunks, packets and panels, and right.bin, which is
# A B + BETA C.
operands_of_nodes() {
    "$MPIMATMUL" gen A.bin --dims 401x701 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 701x501 --kind integer --seed 2 --quiet
    "$MPIMATMUL" gen C.bin --dims 401x501 --kind integer --seed 3 --quiet
    "$MPIMATMUL" mul A.bin B.bin --beta "$1" --c-in C.bin -o right.bin --device cpu --quiet
}

# The Python package of this checkout with the library of the build, and a folder of its own.
setup_package() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    need_plain "python is not linked against the sanitizer"
    need_numpy
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    export MPIMATMUL_SHARD_DIR=$BATS_TEST_TMPDIR/shards
}
