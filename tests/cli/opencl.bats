#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# The program on OpenCL devices (PoCL): tiles, two devices at once, 16-bit operands, warm-up, the
# report.

load helper

need_opencl() {
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
}

operands() {
    "$MPIMATMUL" gen A.bin --dims 301x203 --kind integer --seed 5 --dtype "$1" 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 203x157 --kind integer --seed 6 --dtype "$1" 2> /dev/null
    "$MPIMATMUL" mul A.bin B.bin -o expected.bin --device reference --dtype float32 > /dev/null
}

expect_equal() {
    run --separate-stderr "$MPIMATMUL" diff expected.bin C.bin
    expect_status 0
}

# report EXPRESSION: holds for the report, as r.
report() {
    py -c 'import json, sys; r = json.load(open("r.json")); print(eval(sys.argv[1]))' "$1"
}

@test "products cut into tiles are equal, element by element" {
    need_opencl
    for dtype in float32 float16 bfloat16; do
        operands $dtype
        for limit in 300K 500K 2M 1G; do
            program mul A.bin B.bin -o C.bin --dtype float32 --progress none \
                --device 0:0 --device-memory $limit
            expect_quiet_success
            expect_equal
        done
    done
}

# /proc accepts no new folders, not even from root.
@test "PoCL gets another cache folder when its own is not writable, for listing and for computing" {
    need_opencl
    operands float32
    local ours
    ours=$PWD/temporary/mpimatmul-pocl-$(id -u)
    mkdir temporary
    mkdir -m 700 "$ours"
    export TMPDIR=$PWD/temporary HOME=/proc
    unset POCL_CACHE_DIR XDG_CACHE_HOME
    local line="mpimatmul: warning: PoCL cannot write to its cache '/proc/.cache/pocl/kcache' and uses '$ours' instead"
    program devices
    expect_status 0
    [ "$stderr" = "$line" ]
    grep -q '0:0 .*PoCL' <<< "$output"
    program mul A.bin B.bin -o C.bin --device 0:0 --progress none
    expect_status 0
    [ "$stderr" = "$line" ]
    expect_equal
    # Another user's folder is not used as a cache. PoCL then has no device.
    chmod 777 "$ours"
    program mul A.bin B.bin -o C.bin --device 0:0 --progress none
    [ "$status" -eq 69 ]
}

@test "a memory limit below any tile ends with 71 and the numbers" {
    need_opencl
    operands float32
    rm expected.bin
    program mul A.bin B.bin -o C.bin --device 0:0 --device-memory 40K
    expect_status 71
    [[ "$stderr" == "mpimatmul: cannot fit a tile of "*" into 40.0 KiB of device memory" ]]
    expect_only_files A.bin B.bin
}

@test "two devices of one machine run at once, each named by its own rank" {
    need_opencl
    operands float32
    export POCL_DEVICES="pthread pthread"
    export MPIMATMUL_PROGRESS=none
    run --separate-stderr mpirun -q -n 1 "$MPIMATMUL" mul A.bin B.bin -o C.bin --report r.json --device 0:0 \
        : -n 1 "$MPIMATMUL" mul A.bin B.bin -o C.bin --report r.json --device 0:1 < /dev/null
    expect_quiet_success
    expect_equal
    [ "$(report '[rank["device"] for rank in r["ranks"]]')" = "['0:0', '0:1']" ]
    [ "$(report 'r["fallback_products"]')" = 0 ]
}

@test "auto never chooses PoCL, and the report says that PoCL was left unused" {
    need_opencl
    operands float32
    ranks 2 mul A.bin B.bin -o C.bin --report r.json --verbose
    expect_status 0
    [ "$(report '[rank["device"] for rank in r["ranks"]]')" = "['cpu', 'cpu']" ]
    grep -q '^unused: .* 0:0 .*PoCL: OpenBLAS is faster on a CPU' <<< "$output"
    grep -q 'shares the CPU with rank 1' <<< "$output"
}

@test "building kernels is reported apart, as a warm-up" {
    need_opencl
    operands float32
    program mul A.bin B.bin -o C.bin --device 0:0 --report r.json --weights equal --progress none --verbose
    expect_status 0
    grep -q '^warm-up of rank 0 (0:0): [0-9.]* s$' <<< "$output"
    [ "$(report 'r["ranks"][0]["warm_up_seconds"] > 0')" = True ]
}

@test "the report matches its schema" {
    py -c 'import jsonschema' 2> /dev/null || skip "python3-jsonschema is not installed"
    operands float32
    ranks 3 mul A.bin B.bin -o C.bin --report r.json --weights 1,0,2
    expect_quiet_success
    py - "$REPO/include/mpimatmul_report.schema.json" << 'EOF_PYTHON'
import json, sys, jsonschema
schema, report = json.load(open(sys.argv[1])), json.load(open("r.json"))
jsonschema.Draft7Validator.check_schema(schema)
jsonschema.validate(report, schema)
own = set(schema["properties"]) - {"before"}  # a field of loops
assert own == set(report), "fields that the schema does not describe"
assert set(schema["definitions"]["rank"]["properties"]) == set(report["ranks"][0])
EOF_PYTHON
}

@test "a device without doubles, with groups of 64 work-items, computes operations and the check's sums" {
    need_opencl
    run env MMUL_CARD=small LD_PRELOAD="$BUILD/tests/card.so" "$BUILD/tests/device/map_small_test" 0:0
    expect_status 0
    [ "$(grep -c '^ok' <<< "$output")" -eq 5 ]
    run env MMUL_CARD=small LD_PRELOAD="$BUILD/tests/card.so" "$BUILD/tests/device/project_test" 0:0 small
    expect_status 0
    [ "$(grep -c '^ok' <<< "$output")" -eq 8 ]
}

@test "a device without doubles computes the check's sums in pairs of floats" {
    need_opencl
    run env MMUL_CARD=single LD_PRELOAD="$BUILD/tests/card.so" "$BUILD/tests/device/project_test" 0:0
    expect_status 0
    [ "$(grep -c '^ok' <<< "$output")" -eq 23 ]
}

@test "pending commands are awaited even if clFinish does not wait for them" {
    need_opencl
    run env MMUL_CARD=hasty LD_PRELOAD="$BUILD/tests/card.so" "$BUILD/tests/device/transfers_test" 0:0
    expect_status 0
    [ "$(grep -c '^ok' <<< "$output")" -eq 25 ]
}

@test "a device that cannot be opened is listed with the reason, and auto gives it to no rank" {
    need_opencl
    for card in absent closed; do
        run --separate-stderr env MMUL_CARD=$card LD_PRELOAD="$BUILD/tests/card.so" "$MPIMATMUL" devices < /dev/null
        expect_quiet_success
        grep -q ' 0:0 is unused: the driver reports it as unavailable$' <<< "$output" || { show; return 1; }
    done
}
