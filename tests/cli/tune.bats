#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
#
# tune on PoCL: it reads, tries, stores and uses the results of CLBlast's tuners. The tuners here
# are scripts that write the files of real runs.

load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    DEVICE=$("$MPIMATMUL" devices --json < /dev/null | py -c '
import json, sys
print(next((d["name"] for d in json.load(sys.stdin)["devices"] if d["id"] == "0:0"), ""))' || true)
    [ -n "$DEVICE" ] || skip "opencl: no OpenCL device"
    export DEVICE XDG_CACHE_HOME=$PWD/cache
}

# The result of CLBlast's tuner for PoCL: right everywhere.
good='GEMMK=0 KREG=1 KWG=32 KWI=2 MDIMA=8 MDIMC=8 MWG=64 NDIMB=8 NDIMC=8 NWG=64 SA=1 SB=1 STRM=0 STRN=0 VWM=4 VWN=4'
# Tiles that the work-group cannot fill: wrong products.
wrong=${good/MWG=64/MWG=48}

# result FILE FAMILY PARAMETERS [TIME]: writes a file as a tuner does.
result() {
    printf '{ "kernel_family": "%s", "precision": "32", "best_time": "%s", "arg_m": "64", "arg_n": "64",
  "best_parameters": "%s PRECISION=32", "device": "%s", "results": [] }\n' "$2" "${4:-1.00}" "$3" "$DEVICE" > "$1"
}

# tuner NAME LINE...: a program clblast_tuner_NAME.
tuner() {
    mkdir -p bin
    printf '%s\n' '#!/bin/sh' "${@:2}" > "bin/clblast_tuner_$1"
    chmod 755 "bin/clblast_tuner_$1"
}

# Runs COMMAND OPTIONS... on a device that uses tiles from small products on, so that both trials
# are small. All of CLBlast's kernels are compiled for each set of parameters: without optimisation
# that takes a third of the time.
early() {
    run --separate-stderr timeout 120 env PATH="${programs:-$PATH}" LD_PRELOAD="$BUILD/tests/small_tiles.so" \
        POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable "$MPIMATMUL" "$@" --device 0:0 < /dev/null
}

# Runs tune with $programs for PATH. The product timed before and after is small, too, unless --size says
# otherwise.
tune() {
    early tune --force --size 64 "$@"
}

# expect_warning PATTERN: stderr contains the pattern.
expect_warning() {
    # shellcheck disable=SC2053 # a pattern
    [[ "$stderr" == *$1* ]] || { show; return 1; }
}

kept_files() {
    find cache -name 'tuned-*.json' 2> /dev/null | wc -l
}

@test "files of tuners are tried, stored, and used by later products" {
    result a.json xgemm_1 "$good"
    result b.json copy 'COPY_DIMX=8 COPY_DIMY=8 COPY_VW=2 COPY_WPT=1'
    tune -q a.json b.json
    expect_quiet_success
    [[ "${lines[0]}" == "0:0 ($DEVICE): 2 kernels tuned, a product of 64 x 64 x 64: "*" GFLOP/s, "*" before" ]]
    [[ "${lines[1]}" == "stored in $PWD/cache/mpimatmul/tuned-"*.json ]]
    [ "$(kept_files)" -eq 1 ]
    # Bad parameters make their use visible.
    "$MPIMATMUL" gen A.bin --dims 311x203 --kind integer --seed 1 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 203x305 --kind integer --seed 2 2> /dev/null
    early mul A.bin B.bin -o C.bin --weights equal
    expect_quiet_success
    sed -i 's/"MWG": 64/"MWG": 48/' cache/mpimatmul/tuned-*.json
    early mul A.bin B.bin -o C.bin --weights equal
    expect_status 0
    expect_warning "device '0:0 ($DEVICE)' is replaced by 'cpu': * wrong columns"
}

@test "parameters with wrong products are not stored" {
    result a.json xgemm_1 "$wrong"
    tune -q a.json
    expect_status 79
    expect_warning "mpimatmul: the tuned parameters are not stored: self-test: * is *, expected "
    [ "$(kept_files)" -eq 0 ]
}

@test "unfit files are refused, and the stored parameters stay" {
    result a.json xgemm_1 "$good"
    tune -q a.json
    expect_status 0
    cp cache/mpimatmul/tuned-*.json before
    result b.json xgemm_1 'GEMMK=0 MWG=64'
    tune -q b.json
    expect_status 65
    [[ "$stderr" == *"cannot tune kernel 'Xgemm' on '0:0 ($DEVICE)': CLBlastMissingOverrideParameter (-2047)" ]]
    DEVICE="Other card" result c.json xgemm_1 "$good"
    tune -q c.json
    expect_failure 65 "the parameters were measured on 'Other card', device '0:0' is '$DEVICE'"
    tune -q absent.json
    expect_status 66
    cmp before cache/mpimatmul/tuned-*.json
}

@test "tune runs the tuners and leaves out one that crashes or takes too long" {
    for name in copy_fast copy_pad transpose_fast transpose_pad xgemm_direct xgemm; do
        tuner $name 'echo "$0 $*" >> "$CALLS"' 'exit 0'
    done
    result good.json xgemm_1 "$good" 2.00
    result slow.json xgemm_2 "$wrong" 3.00
    tuner copy_fast 'echo "$0 $*" >> "$CALLS"' 'kill -6 $$'
    tuner copy_pad 'exec sleep 60'
    tuner xgemm 'echo "$0 $*" >> "$CALLS"' "cp $PWD/good.json clblast_xgemm_1_32.json" \
        "cp $PWD/slow.json clblast_xgemm_2_32.json" 'echo "{" > clblast_half.json'
    export CALLS=$PWD/calls
    programs=$PWD/bin:$PATH tune --size 512 --fraction 7 --limit 1
    expect_status 0
    [ "$(kept_files)" -eq 1 ]
    grep -q '"MWG": 64' cache/mpimatmul/tuned-*.json
    [[ "$output" == *": 1 kernel tuned, "* ]]
    grep -q -x 'mpimatmul: clblast_tuner_copy_fast: crashed (signal 6)' <<< "$stderr"
    grep -q -x 'mpimatmul: clblast_tuner_copy_pad: stopped after 1 s' <<< "$stderr"
    grep -q "clblast_half.json' is not valid JSON" <<< "$stderr"
    grep -q 'clblast_tuner_xgemm -platform 0 -device 0 -precision 32 -m 512 -n 512 -k 512 -fraction 7$' calls
    grep -q 'clblast_tuner_xgemm_direct -platform 0 -device 0 -precision 32 -m 256 -n 256 -k 256 -fraction 7$' calls
    run find "$TMPDIR" -maxdepth 1 -name 'mpimatmul-tune.*'
    [ -z "$output" ]
}

@test "tune reports missing tuners, and tuners without a result" {
    for name in copy_fast copy_pad transpose_fast transpose_pad xgemm_direct xgemm; do
        tuner $name 'exit 1'
    done
    programs=$PWD/bin:$PATH tune -q
    expect_failure 69 "cannot tune: none of CLBlast's tuners left a usable result"
    rm bin/*
    ln -s "$(command -v ld)" bin/ # PoCL links its kernels with ld
    programs=$PWD/bin tune -q
    expect_failure 69 "cannot tune: CLBlast's tuners are not on PATH" \
        "Debian and Ubuntu have them in the package clblast-utils"
    [ "$(kept_files)" -eq 0 ]
}

# Products of the default size.
@test "a real tuner finds parameters" {
    command -v clblast_tuner_copy_fast > /dev/null || skip "clblast-utils is not installed"
    mkdir bin
    ln -s "$(command -v clblast_tuner_copy_fast)" "$(command -v ld)" bin/
    run --separate-stderr timeout 120 env PATH="$PWD/bin" "$MPIMATMUL" tune --device 0:0 --force --fraction 16 \
        --limit 60 < /dev/null
    expect_status 0
    [[ "$output" == *", a product of 1024 x 1024 x 1024: "* ]]
    grep -q '"COPY_DIMX"' cache/mpimatmul/tuned-*.json
}

@test "parameters of another driver are not used, and a line says so" {
    result a.json xgemm_1 "$good"
    tune -q a.json
    sed -i 's/"driver": "/"driver": "old /' cache/mpimatmul/tuned-*.json
    "$MPIMATMUL" gen A.bin --dims 31x33 --kind integer --seed 1 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 33x35 --kind integer --seed 2 2> /dev/null
    program mul A.bin B.bin -o C.bin --device 0:0 --progress none
    expect_status 0
    expect_warning "mpimatmul: warning: rank 0: tuned parameters of '$DEVICE' are for driver 'old *': not used"
}

@test "devices that cannot be tuned are refused" {
    for device in cpu reference faulty:fail=1:0:0 nonsense; do
        program tune --device "$device"
        expect_failure 64 "'$device' is not an OpenCL device: expected P:D"
    done
    program tune --device 9:9
    expect_status 69
    program tune  # auto never chooses PoCL
    expect_failure 69 "no GPU on this machine to tune" \
        "name another OpenCL device with --device P:D, as clinfo numbers it"
}
