#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A kind of device that exists only in tests/stub/stub_device.c and one line of the registry: it is
# found, shown, planned for and used like every other kind.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# The program with the stub, on a machine with two of these devices.
setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    export MPIMATMUL=$BUILD/tests/stub/mpimatmul MMUL_STUBS=2 OCL_ICD_VENDORS=/nonexistent
    "$MPIMATMUL" gen A.bin --dims 61x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x47 --kind integer --seed 2
    "$MPIMATMUL" mul A.bin B.bin -o alone.bin --device cpu --quiet
}

# expect_devices EXPRESSION: holds for `d`, the JSON on stdout.
expect_devices() {
    py -c "import json, sys; d = json.load(sys.stdin); sys.exit(0 if $1 else str(d))" <<< "$output"
}

@test "devices shows a stub in use and an unused one" {
    program devices --json
    expect_status 0
    expect_devices "[(x['id'], x['type'], x['used_by']) for x in d['devices']] ==
        [('stub:0', 'gpu', 0), ('stub:1', 'gpu', None)]"
    expect_devices "[(x['device'], x['description']['name']) for x in d['ranks']] == [('stub:0', 'Stub 3000')]"
    program devices
    expect_status 0
    expect_line "$(hostname) stub:1 is unused: start one more rank on this node"
}

@test "a warning of a probe is printed as a warning" {
    MMUL_STUBS=1 program devices
    expect_status 0
    [ "$stderr" = "mpimatmul: warning: a slot for a stub is empty" ] || { show; return 1; }
}

@test "plan gives the stubs of a machine their shares" {
    ranks 3 plan A.bin B.bin --json
    expect_status 0
    expect_devices "[x['device'] for x in d['ranks']] == ['stub:0', 'stub:1', 'cpu']"
    ranks 3 plan A.bin B.bin
    expect_status 0
    [[ "$output" == *stub:1* ]] || { show; return 1; }
}

@test "a product runs on stubs and the CPU, chosen and named" {
    ranks 3 mul A.bin B.bin -o D.bin --weights equal --report report.json --quiet
    expect_quiet_success
    cmp alone.bin D.bin
    [ "$(used_devices)" = "stub:0 stub:1 cpu" ]
    program mul A.bin B.bin -o D.bin --device "faulty:delay=0s:stub:1" --quiet
    expect_quiet_success
    cmp alone.bin D.bin
    program mul A.bin B.bin -o D.bin --device "Stub 4" --report report.json --quiet
    expect_quiet_success
    cmp alone.bin D.bin
    [ "$(used_devices)" = "stub:1" ]
}

# Prints the devices in report.json.
used_devices() {
    py -c 'import json; print(*[r["device"] for r in json.load(open("report.json"))["ranks"]])'
}

@test "the CPU replaces a stub that errs" {
    program mul A.bin B.bin -o D.bin --device "faulty:fail=1:stub:0" --progress none
    expect_status 0
    [[ "$stderr" == "mpimatmul: warning: rank 0: device 'faulty:fail=1:stub:0 "*"'cpu': "* ]] || {
        show
        return 1
    }
    cmp alone.bin D.bin
}

@test "an absent stub is refused, and an unknown name gives the list of kinds" {
    MMUL_STUBS=0 program mul A.bin B.bin -o D.bin --device stub:0
    expect_status 69
    [[ "$stderr" == *"no device 'stub:0'"* ]] || { show; return 1; }
    program mul A.bin B.bin -o D.bin --device faulty:fail=1:nothing
    expect_failure 64 "'nothing' is not a device name" \
        "names are cpu, reference, P:D (platform:device as clinfo numbers them), faulty:RULES:NAME, stub:K"
}

@test "a stub passes the conformance tests of devices" {
    "$BUILD/tests/stub/conformance_test" stub:0 > points
    ! grep '^not ok' points && grep -q '^ok' points && grep -q '^1\.\.' points
}
