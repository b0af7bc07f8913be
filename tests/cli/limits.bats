#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Limits that batch systems set: a job that does not fit ends with 71 and a line of the program, and
# no rank waits for ever.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# limited ULIMIT VALUE ARGUMENTS...: runs the program alone under a limit, with two threads of
# OpenBLAS on any machine.
limited() {
    local limit=$1 value=$2
    shift 2
    # shellcheck disable=SC2016 # expanded there
    run --separate-stderr env OPENBLAS_NUM_THREADS=2 timeout -k 5 60 \
        bash -c 'ulimit "$0" "$1"; shift; exec "$@"' "$limit" "$value" "$MPIMATMUL" "$@" < /dev/null
}

need_limits() {
    need_plain "the sanitizer itself needs the address space"
}

# OpenBLAS maps 128 MiB per thread and retries until it succeeds: for its worker before main, for
# the calling thread at the first product.
@test "address space too small for OpenBLAS ends with 71" {
    need_limits
    "$MPIMATMUL" gen A.bin --dims 300x300 --kind integer --seed 1
    limited -v 150000 mul A.bin A.bin -o C.bin
    expect_failure 71 "the program and OpenBLAS's threads need 368.0 MiB of address space, but its limit \
(ulimit -v) is 146.5 MiB" "raise that limit, or set OPENBLAS_NUM_THREADS=1"
    expect_only_files A.bin
    # Enough for the program, not for a product. The other mappings differ between machines.
    for command in "mul A.bin A.bin -o C.bin --device cpu" "bench --sizes 256" "calibrate --device cpu"; do
        # shellcheck disable=SC2086 # several words
        limited -v 380000 $command --quiet
        expect_status 71
        [[ "$stderr" == *"cannot map 1 x 136.0 MiB for OpenBLAS's threads: "*" are in use, but the limit on address \
space (ulimit -v) is 371.1 MiB
  hint: raise that limit, or set OPENBLAS_NUM_THREADS=1" ]] || { show; return 1; }
    done
    expect_only_files A.bin
}

# Commands without a product also have OpenBLAS: a thread of OpenBLAS is stuck in its mapping, and
# its library waits for it at exit.
@test "commands without OpenBLAS work with less address space" {
    need_limits
    limited -v 150000 gen A.bin --dims 3x3 --quiet
    expect_quiet_success
    limited -v 150000 info A.bin
    expect_quiet_success
    limited -v 150000 --version
    expect_quiet_success
}

# Without the check, threads would end the process without a word.
@test "a small stack limit is raised where possible, and otherwise gives one line" {
    need_limits
    "$MPIMATMUL" gen A.bin --dims 300x300 --kind integer --seed 1
    echo 'save("D.bin", load("A.bin") @ load("A.bin"))' > p.py
    local size command
    for size in 256 1023; do
        for command in "mul A.bin A.bin -o C.bin" "run p.py" "devices"; do
            # shellcheck disable=SC2086 # several words
            limited -s $size $command
            expect_failure 71 "a stack of $size KiB is allowed (ulimit -s), at least 1024 KiB are needed" \
                "ulimit -s 8192"
        done
    done
    limited -s 256 info --quick A.bin
    expect_quiet_success
    expect_only_files A.bin p.py
    limited -Ss 256 mul A.bin A.bin -o C.bin --device cpu --quiet
    expect_quiet_success
    limited -s 1024 run p.py --device cpu --quiet
    expect_quiet_success
    cmp C.bin D.bin
}

@test "a low limit of open files is raised where possible, and otherwise gives one line" {
    "$MPIMATMUL" gen A.bin --dims 30x30 --kind integer --seed 1
    limited -n 16 mul A.bin A.bin -o C.bin --device cpu
    expect_failure 71 "16 open files are allowed (ulimit -n), at least 32 are needed"
    expect_only_files A.bin
    limited -Sn 16 mul A.bin A.bin -o C.bin --device cpu --quiet
    expect_quiet_success
    # A program keeps its outputs open until all of them are written.
    { echo 'x = load("A.bin")' && printf 'save("%s.npy", x)\n' {1..200}; } > e.py
    limited -n 100 run e.py --device cpu
    expect_status 73
    [[ "${stderr_lines[0]}" =~ ^"mpimatmul: e.py:"[0-9]+":1: cannot create '"[0-9]+".npy': Too many open files"$ ]]
    [ "${stderr_lines[3]}" = "  hint: a process may open 100 files here: raise the limit (ulimit -n, limits.conf)" ]
    expect_only_files A.bin C.bin e.py
    limited -Sn 100 run e.py --device cpu --quiet
    expect_quiet_success
    local saved=([0-9]*.npy)
    [ ${#saved[@]} -eq 200 ]
}

# Open MPI would keep files of its own in TMPDIR.
@test "a process alone works with a full TMPDIR or none" {
    [ "$(id -u)" -eq 0 ] || skip "root: a disk is mounted"
    "$MPIMATMUL" gen A.bin --dims 30x30 --kind integer --seed 1
    mkdir full
    mount -t tmpfs -o size=4k none full 2> /dev/null || skip "root: mount is not permitted"
    head -c 4096 /dev/zero > full/x
    TMPDIR=$PWD/full program mul A.bin A.bin -o C.bin --device cpu --quiet
    umount full
    expect_quiet_success
    # root could create the missing folder
    TMPDIR=/dev/null/none program mul A.bin A.bin -o C.bin --device cpu --quiet
    expect_quiet_success
}

@test "a result above the file size limit names the limit, not the free space" {
    "$MPIMATMUL" gen A.bin --dims 500x500 --kind integer --seed 1
    limited -f 900 mul A.bin A.bin -o C.bin --device cpu --quiet
    expect_failure 71 "cannot write 'C.bin': 1000020 bytes (976.6 KiB) needed: the limit on file size \
(ulimit -f) is 900.0 KiB"
    expect_only_files A.bin
}

# ulimit -f applies to results, to memory shared by processes, and to files written beside results.
limit_files() {
    run --separate-stderr timeout -k 5 60 bash -c 'ulimit -f 100; exec "$@"' limited "$@" < /dev/null
}

@test "a limit on the size of files is named, alone and on ranks" {
    local count file limit='the limit on file size (ulimit -f) is 100.0 KiB'
    "$MPIMATMUL" gen a.npy --dims 300x300 --seed 1 --quiet
    "$MPIMATMUL" gen s.npy --dims 100x100 --seed 1 --quiet
    for file in o.npy o.csv o.npz o.safetensors; do
        limit_files "$MPIMATMUL" mul a.npy a.npy -o $file
        expect_status 71
        [[ "$stderr" =~ ^"mpimatmul: cannot write '$file': "[0-9]+" bytes (35"[0-9.]+" KiB) needed: $limit"$ ]]
    done
    printf '%s\n' 'x = load("s.npy")' 'save("o.npz:a", x)' 'save("o.npz:b", x)' 'save("o.npz:c", x)' > several.py
    limit_files "$MPIMATMUL" run several.py
    expect_failure 71 "cannot write 'o.npz:a': $limit"
    printf '%s\n' 'x = load("s.npy")' 'for i in loop(2):' '    x = x + 1' \
        '    checkpoint("c.safetensors", (x, x, x), turn=i)' 'save("x.npy", x)' > turns.py
    limit_files "$MPIMATMUL" run turns.py
    expect_failure 71 "turn 0: cannot write 'c.safetensors:0': $limit"
    printf '%s\n' 'x = load("a.npy")' 'y = tanh(x) @ x' 'save("y.npy", y[:10, :10])' > shared.py
    limit_files "$MPIMATMUL" run shared.py
    [ "$status" -eq 71 ]
    [[ "$stderr" =~ ^"mpimatmul: cannot allocate "[0-9.]+" "[KM]"iB of shared memory: $limit"$ ]]
    printf '%s\n' 'x = load("s.npy")' 'for i in loop(2000):' \
        "    print(\"$(printf 'word %.0s' {1..20})\", x[0, 0] * i)" 'save("z.npy", x)' > words.py
    limit_files "$MPIMATMUL" run words.py --metrics m.jsonl --quiet --progress none
    [ "$status" -eq 71 ] && [ "$stderr" = "mpimatmul: cannot write the metrics to 'm.jsonl': $limit" ]
    rm z.npy m.jsonl
    for count in 1 2; do
        limit_files "${launch[@]}" -n $count "$MPIMATMUL" mul a.npy a.npy -o o.npy
        expect_failure 71 "cannot start MPI: the file size limit (ulimit -f) is 100.0 KiB, but Open MPI needs shared \
files of 4100 KiB" "ulimit -f unlimited"
    done
    expect_only_files a.npy s.npy several.py shared.py turns.py words.py
}
