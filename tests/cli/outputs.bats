#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Outputs in a folder that all users may write to: other users' files under a temporary name,
# permissions of a replaced file, and leftovers of a replaced kept set.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# Every way to write a matrix, each with the files that it creates.
each_writer() {
    local check=$1
    "$check" D.bin mul A.bin B.bin -o D.bin --device cpu
    "$check" D.npy mul A.bin B.bin -o D.npy --transpose-a --device cpu
    "$check" R.npy run one.py --device cpu
    "$check" m.npz run npz.py --device cpu
    "$check" m.safetensors run safetensors.py --device cpu
    "$check" S.npy add A.bin B.bin -o S.npy --device cpu
    "$check" G.bin gen G.bin --dims 5x7 --seed 1
    "$check" V.npz convert A.bin V.npz
    "$check" s/A_shard_1.bin split A.bin --parts 2 --shard-dir s
    "$check" J.bin join A --shard-dir t -o J.bin
    "$check" s/k_shard_0.bin mul A.bin B.bin -o kept:k --shard-dir s --device cpu
}

operands() {
    "$MPIMATMUL" gen A.bin --dims 6x6 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 6x6 --kind integer --seed 2 --quiet
    printf '%s\n' 'save("R.npy", load("A.bin") @ load("B.bin"))' > one.py
    printf '%s\n' 'a = load("A.bin")' 'save("m.npz:a", a)' 'save("m.npz:b", a + a)' > npz.py
    sed s/npz/safetensors/ npz.py > safetensors.py
    "$MPIMATMUL" split A.bin --parts 2 --shard-dir t --quiet
    mkdir -m 700 s
}

# The owner of a temporary file may have it open for writing and would have the result open, too.
refuses_foreign() {
    local file=$1
    shift
    rm -f -- "$file"
    : > "$file.part"
    chmod 666 "$file.part"
    chown nobody "$file.part"
    program "$@"
    local shown=$file.part
    [[ "$stderr" != *"'$PWD/$shown'"* ]] || shown=$PWD/$shown
    [[ "$stderr" == *"'$shown' belongs to user $(id -u nobody), not to user 0: not taken over"* &&
        "$stderr" == *"  hint: remove '$shown', or give the output another name"* ]] || { show; return 1; }
    expect_status 73
    [ ! -e "$file" ] && [ ! -s "$file.part" ] && [ "$(stat -c %U "$file.part")" = nobody ]
    rm "$file.part"
}

@test "no writer takes over a temporary file of another user" {
    [ "$(id -u)" -eq 0 ] || skip "root: a file is given to another user"
    operands
    each_writer refuses_foreign
    : > D.bin.part
    chown nobody D.bin.part
    program mul A.bin B.bin -o D.bin --device cpu
    expect_failure 73 "cannot create 'D.bin': 'D.bin.part' belongs to user $(id -u nobody), not to user 0: $(
        )not taken over" "remove 'D.bin.part', or give the output another name"
    ranks 2 mul A.bin B.bin -o D.bin --device cpu --quiet
    expect_failure 73 "cannot create 'D.bin': 'D.bin.part' belongs to user $(id -u nobody), not to user 0: $(
        )not taken over" "remove 'D.bin.part', or give the output another name"
}

@test "a temporary file with another name, or one that is a link, is left unchanged" {
    operands
    echo precious > other
    ln other D.bin.part
    program mul A.bin B.bin -o D.bin --device cpu
    expect_failure 73 "cannot create 'D.bin': 'D.bin.part' has 2 names (hard links): not taken over" \
        "remove 'D.bin.part', or give the output another name"
    ln -s -f other D.bin.part
    program mul A.bin B.bin -o D.bin --device cpu
    expect_failure 73 "cannot create 'D.bin': 'D.bin.part' is a symbolic link" \
        "remove 'D.bin.part', or give the output another name"
    [ "$(< other)" = precious ] && [ ! -e D.bin ]
}

# The leftover of a killed run is removed. A process with it open gets none of the result.
loses_held() {
    local file=$1
    shift
    rm -f -- "$file"
    echo left > "$file.part"
    exec 7<> "$file.part"
    program "$@"
    expect_status 0
    "$MPIMATMUL" info "$file" > /dev/null
    cp "$file" before
    echo tampered >&7
    exec 7>&-
    cmp before "$file"
}

@test "a process that has the user's own leftover temporary file open gets none of the result" {
    operands
    each_writer loses_held
}

keeps_mode() {
    local file=$1 mode
    shift
    rm -f -- "$file"
    (umask 027 && "$MPIMATMUL" "$@" > /dev/null 2>&1)
    [ "$(stat -c %a "$file")" = 640 ]
    for mode in 600 664 444; do
        chmod "$mode" "$file"
        program "$@"
        expect_status 0
        [ "$(stat -c %a "$file")" = "$mode" ] || { stat "$file"; return 1; }
    done
    chmod 600 "$file"
}

@test "a result has the permissions of the file that it replaces" {
    operands
    each_writer keeps_mode
    keeps_mode report.json mul A.bin B.bin -o D.bin --device cpu --report report.json
}

# Neither file exists yet: only their paths show that they are the same file.
@test "two outputs of a job that would be one file are refused before the work" {
    "$MPIMATMUL" gen A.npy --dims 4x4 --kind integer --quiet
    mkdir dir
    ln -s C.npy link
    printf 'x = load("A.npy")\nsave("C.npy", x)\nprint(sum(x))\n' > p.py
    local name
    for name in ./C.npy dir/../C.npy "$PWD/C.npy" link; do
        program mul A.npy A.npy -o C.npy --report "$name"
        expect_failure 73 "cannot write the report to '$name': it is one of the matrices"
        program run p.py --metrics "$name"
        expect_failure 73 "cannot write the metrics to '$name': it is the program's or one of its files"
        [ ! -e C.npy ]
    done
    program run p.py --report r --metrics dir/../r
    expect_failure 73 "cannot write the metrics to 'dir/../r': it is the report"
    program run p.py --report r --log ./s --metrics "$PWD/t"
    expect_quiet_success
    [ -s r ] && [ -s s ] && [ -s t ] && [ -s C.npy ]
}

@test "an error about a kept set with a changed description names the set" {
    "$MPIMATMUL" gen A.bin --dims 4x4 --quiet
    mkdir -m 700 s
    "$MPIMATMUL" mul A.bin A.bin -o kept:y --shard-dir s --device cpu --quiet
    sed -i -z 's/4,\n    4\n/4,\n    4444444444\n/' s/y_shards.json
    MPIMATMUL_SHARD_DIR=s program info kept:y
    expect_status 65
    [[ "$stderr" == "mpimatmul: cannot read kept 'y': "* && "$stderr" != *"'-'"* ]] || { show; return 1; }
    MPIMATMUL_SHARD_DIR=s program convert kept:y C.npy
    expect_status 65
    [[ "$stderr" == "mpimatmul: cannot read kept 'y': "* && "$stderr" != *"'-'"* ]] || { show; return 1; }
}

@test "a set of fewer ranks, or of another type, leaves no file of the set it replaces" {
    need_numpy
    python <<< 'import numpy as np; np.save("D.npy", np.ones((8, 8))); np.save("F.npy", np.ones((8, 8), "f4"))'
    mkdir -m 700 s
    ranks 3 mul F.npy F.npy -o kept:y --shard-dir s --device cpu --quiet
    expect_status 0
    touch s/y_shard_7.txt s/yy_shard_5.bin s/z_shard_2.bin
    ranks 2 mul F.npy F.npy -o kept:y --shard-dir s --device cpu --quiet
    expect_status 0
    [ "$(cd s && echo y_*)" = "y_shard_0.bin y_shard_1.bin y_shard_7.txt y_shards.json" ] || { ls s; return 1; }
    ranks 2 mul D.npy D.npy -o kept:y --shard-dir s --device cpu --quiet
    expect_status 0
    [ "$(cd s && echo *)" = "y_shard_0.npy y_shard_1.npy y_shard_7.txt y_shards.json yy_shard_5.bin z_shard_2.bin" ] ||
        { ls s; return 1; }
    ranks 2 mul kept:y D.npy -o C.npy --shard-dir s --device cpu --quiet
    expect_status 0
}

# A path of an open descriptor is written through it: behind earlier output of the shell, and into
# the shell's pipes.
@test "/dev/stdout and /dev/fd/N keep output from before and after the result" {
    "$MPIMATMUL" gen A.npy --dims 30x20 -q
    "$MPIMATMUL" gen B.npy --dims 20x10 -q
    printf '%s\n' 'x = load("A.npy")' 'for i in loop(3):' '    x = x * 2' '    print(i, sum(x))' > e.py
    local option lines
    for option in metrics report log trace; do
        { echo before; "$MPIMATMUL" run e.py -q --$option /dev/stdout; echo after; } > log
        lines=$(wc -l < log)
        [ "$lines" -gt 6 ] && [ "$(head -n 1 log)" = before ]
        # A stream without a line feed at its end continues in the first line of the summary.
        [[ "$(tail -n 1 log)" == *after ]] || { cat log; return 1; }
        { echo before; "$MPIMATMUL" run e.py -q --$option /dev/fd/1; echo after; } >> log
        [ "$(grep -c '^before$' log)" -eq 2 ] && [ "$(grep -c 'after$' log)" -eq 2 ]
        [ "$(head -n 1 log)" = before ] || { cat log; return 1; }
        mkfifo pipe.$option
        wc -c < pipe.$option > count.$option &
        "$MPIMATMUL" run e.py -q --$option /dev/fd/7 7> pipe.$option > printed
        wait $!
        [ "$(< count.$option)" -gt 100 ]
    done
    { echo before; "$MPIMATMUL" mul A.npy B.npy -o /dev/fd/8 --format npy -q; } 8> C.npy > printed
    "$MPIMATMUL" mul A.npy B.npy -o D.npy -q
    cmp C.npy D.npy
}
