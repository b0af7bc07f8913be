#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# devices --test: right and wrong devices on one rank and several, and the effect of the results on
# later runs.

load helper

need_opencl() {
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
}

# Profiles and other remembered results belong to this test alone.
fresh_cache() {
    export XDG_CACHE_HOME=$PWD/cache
    rm -rf "$XDG_CACHE_HOME"
}

# Devices so slow by their own simulated clock that few sizes are timed.
slow=faulty:clock=300ms:cpu
slow_card=faulty:clock=300ms:0:0

# tests EXPRESSION: holds for the JSON in $output, as d, the list of devices.
tests() {
    py -c 'import json, sys; d = json.load(sys.stdin)["devices"]; print(eval(sys.argv[1]))' "$1" <<< "$output"
}

# remembered EXPRESSION: holds for this host's profile, as t, the list of tests.
remembered() {
    py -c 'import json, sys; t = json.load(open(sys.argv[1]))["tests"]; print(eval(sys.argv[2]))' \
        "$XDG_CACHE_HOME/mpimatmul/$(hostname).json" "$1"
}

# Drops the line that names a file: its length depends on the user's folder.
expect_narrow() {
    [ "$(grep -v '^stored on' <<< "$output" | wc -L)" -le 120 ] || {
        echo "wider than 120 columns"
        show
        return 1
    }
}

@test "a right device passes, with rates of growing sizes, in JSON and in a table of 120 columns" {
    fresh_cache
    program devices --test --device cpu --threads 1 --json
    expect_quiet_success
    [ "$(tests '[(t["rank"], t["device"], t["passed"], t["failure"]) for t in d]')" = "[(0, 'cpu', True, '')]" ]
    [ "$(tests '[t["float64"] for t in d]')" = "[True]" ]
    [ "$(tests 'all(r["flops_per_second"] > 0 for r in d[0]["gemm"])')" = True ]
    [ "$(tests '[1024, 2048, 4096, 8192][:len(d[0]["gemm"])] == [r["size"] for r in d[0]["gemm"]]')" = True ]
    [ "$(tests 'd[0]["upload_bytes_per_second"], d[0]["download_bytes_per_second"]')" = "(None, None)" ]
    [ "$(remembered '[(e["device"], e["passed"]) for e in t]')" = "[('cpu', True)]" ]
    need_opencl
    program devices --test --device $slow_card
    expect_quiet_success
    expect_narrow
    grep -qE '^rank +host +device +test +GFLOP/s 1024 +2048 +4096 +8192 +up GB/s +down GB/s +name$' <<< "$output"
    grep -qE "^ +0 +[^ ]+ +$slow_card +passed +([0-9.-]+ +){6}" <<< "$output"
    expect_line "stored on $(hostname): $XDG_CACHE_HOME/mpimatmul/$(hostname).json"
    [ "$(remembered '[(e["device"], e["passed"]) for e in t]')" = "[('cpu', True), ('$slow_card', True)]" ]
}

@test "forced kernels are compared with others, and their loss of speed is reported" {
    local widest
    widest=$(widest_kernels)
    [ "$widest" = SkylakeX ] || [ "$widest" = Haswell ] || skip "the processor has no AVX2"
    [ "$MODE" = release ] || [ "$MODE" = debug ] || skip "sanitizers do not know a library that is loaded twice"
    fresh_cache
    # The forced kernels have at most a third of the speed, a difference that other load does not
    # hide.
    run --separate-stderr env OPENBLAS_CORETYPE=Nehalem "$MPIMATMUL" devices --test --device cpu --threads 1 \
        < /dev/null
    expect_quiet_success
    expect_narrow
    expect_line "rank 0 on $(hostname): OPENBLAS_CORETYPE=Nehalem is set:"
    grep -qE "^  [0-9.]+ GFLOP/s on a core; with(out it [0-9.]+ \([A-Za-z]+\)| OPENBLAS_CORETYPE=$widest [0-9.]+)$" \
        <<< "$output" || { show; return 1; }
    grep -qxE "  fix: (unset OPENBLAS_CORETYPE|export OPENBLAS_CORETYPE=$widest)" <<< "$output" || { show; return 1; }
}

@test "a wrong device ends with 79, its row and its fault, and the ranks beside it are tested all the same" {
    fresh_cache
    run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" devices --test --device $slow \
        : -n 1 "$MPIMATMUL" devices --test --device faulty:corrupt=8:cpu < /dev/null
    expect_status 79
    [ "$stderr" = "mpimatmul: 1 of 2 devices failed" ]
    grep -qE "^ +0 +[^ ]+ +$slow +passed " <<< "$output"
    grep -qE '^ +1 +[^ ]+ +faulty:corrupt=8:cpu +FAILED ' <<< "$output"
    grep -qE "^rank 1 on $(hostname), .* failed: self-test: 5 x 1 x 9, transposed 1 1: element \(" <<< "$output"
    [ "$(remembered 'sorted((e["device"], e["passed"]) for e in t)')" = \
        "[('$slow', True), ('faulty:corrupt=8:cpu', False)]" ]
    program devices --test --device faulty:fail=3:cpu --json
    expect_status 79
    [ "$(tests '[(t["passed"], t["gemm"], t["failure"]) for t in d]')" = \
        "[(False, [], \"device 'faulty:fail=3:cpu' was lost at multiplication 3 by rule\")]" ]
    # The device hangs in its fourth product. The test waits no longer than the limit of one call.
    program devices --test --device faulty:hang=4:cpu --device-timeout 0.2 --quiet
    expect_failure 79 "1 of 1 device failed"
    [ "$(remembered '[e["failure"][-28:] for e in t if "hang" in e["device"]]')" = "['hangs: a call exceeded 0.2 s']" ]
}

@test "float64 products are tested on a device with doubles, and a device without them says so" {
    fresh_cache
    # The 57th product is the first in float64.
    program devices --test --device faulty:corrupt=65:cpu
    expect_status 79
    grep -qE "^rank 0 on .* failed: self-test: 31 x 67 x 41, transposed 0 0, of float64: element \(" <<< "$output"
    program devices --test --device faulty:corrupt=65:cpu --json
    expect_status 79
    [ "$(tests '[(t["passed"], t["float64"]) for t in d]')" = "[(False, None)]" ]
    program devices --test --device faulty:no-float64,corrupt=65,clock=300ms:cpu --threads 1
    expect_quiet_success
    local alone="tested in float32 only (no float64)"
    expect_line "$alone: rank 0 on $(hostname), faulty:no-float64,corrupt=65,clock=300ms:cpu"
    program devices --test --device faulty:no-float64,clock=300ms:cpu --threads 1 --json
    expect_quiet_success
    [ "$(tests '[(t["passed"], t["float64"]) for t in d]')" = "[(True, False)]" ]
}

@test "where no result can be stored, no device is tested" {
    export XDG_CACHE_HOME=/proc/none
    program devices --test --device cpu
    expect_status 73
    [[ "$stderr" == "mpimatmul: cannot store the profile "* ]]
    [ -z "$output" ]
}

# A card that is really PoCL, configured by environment variables. Its driver has a name of its own
# for each configuration: the library does not query PoCL where only a card is wanted, and caches a
# driver's answer.
card() {
    local driver=$BATS_TEST_TMPDIR/card_${*//[^a-zA-Z]/_}.so preloads=$BUILD/tests/card.so:$BUILD/tests/small_tiles.so
    cp "$BUILD/tests/card_icd.so" "$driver"
    # The environment variable lowers optimisation: unoptimised kernels compile in a third of the
    # time.
    run --separate-stderr env OCL_ICD_VENDORS="$driver" LD_PRELOAD="$preloads" \
        POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable "$@" \
        "$MPIMATMUL" "${command[@]}" < /dev/null
}

used_device() {
    py -c 'import json; print(json.load(open("r.json"))["ranks"][0]["device"])'
}

@test "auto skips a device that failed, with the reason, until it passes or its driver changes" {
    need_opencl
    fresh_cache
    "$MPIMATMUL" gen A.bin --dims 41x31 --kind integer --seed 1 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 31x37 --kind integer --seed 2 2> /dev/null
    # --verbose, because otherwise the library does not ask a machine for cards when PoCL is its
    # only driver.
    local mul=(mul A.bin B.bin -o C.bin --report r.json --progress none --weights equal --verbose)
    command=("${mul[@]}")
    card
    expect_status 0
    [ "$(used_device)" = 0:0 ]
    command=(devices --test)
    card MMUL_CARD=wrong
    expect_status 79
    grep -qE "^rank 0 on [^ ]+, 0:0 \(.*\) failed: self-test: " <<< "$output"
    command=("${mul[@]}")
    card
    expect_status 0
    [ "$(used_device)" = cpu ]
    local alone
    alone="^mpimatmul: warning: $(hostname): device '0:0 \(.*\)' is excluded because it failed its test"
    grep -qE "$alone \(.*\): self-test: .*; \`mpimatmul devices --test --device 0:0\` tests it again$" <<< "$stderr"
    grep -q "failed its test (" r.json
    command=(devices)
    card
    grep -q "unused: failed its test (" <<< "$output"
    card MMUL_CARD_DRIVER=another
    expect_quiet_success
    [[ "$output" != *"failed its test"* ]]
    # No option names the device. It is tested because it failed before.
    command=(devices --test --json)
    card
    expect_status 0
    [ "$(tests '[(t["device"], t["passed"]) for t in d]')" = "[('cpu', True), ('0:0', True)]" ]
    command=("${mul[@]}")
    card
    expect_status 0
    [[ "$stderr" != *warning* ]]
    [ "$(used_device)" = 0:0 ]
}

@test "a device is remembered as failed if its driver ends the process in the test" {
    need_opencl
    fresh_cache
    command=(devices --test --device 0:0)
    card MMUL_CARD=crash
    [ "$status" -ge 128 ]
    [ "$(remembered '[(e["device"], e["passed"], e["failure"][:23]) for e in t]')" = \
        "[('0:0', False, 'its test did not finish')]" ]
    command=(devices --json)
    card
    expect_status 0
    [ "$(py -c 'import json, sys; print(json.load(sys.stdin)["ranks"][0]["device"])' <<< "$output")" = cpu ]
}
