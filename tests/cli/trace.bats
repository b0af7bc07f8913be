#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mul --trace: the lanes and spans that a viewer of Chrome traces shows. No test checks a duration.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    "$MPIMATMUL" gen A.bin --dims 301x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x147 --kind integer --seed 2
}

# Runs Python from stdin, after the checks that every trace must pass.
look() {
    { printf 'from traces import *\nlanes, report = check("trace.json", "report.json")\n' && cat; } | python
}

@test "a trace has a lane per device, its spans nest and lie inside the run, on 1, 2 and 3 ranks" {
    for count in 1 2 3; do
        ranks $count mul A.bin B.bin -o C.bin --device cpu --split rows --weights equal \
            --trace trace.json --report report.json
        expect_status 0
        look << 'END'
count = len(report["ranks"])
for rank in range(count):
    spans = names(lanes[rank]["device"])
    assert spans[0] == "set up" and {"multiply", "check"} <= set(spans), spans
    rows = sum(e["args"]["rows"] for e in lanes[rank]["device"] if e["name"] == "multiply")
    assert rows == report["ranks"][rank]["end"] - report["ranks"][rank]["begin"], rows
    assert ("results to files" in lanes[rank]) == (rank == 0)
assert names(lanes[0]["results to files"])[-1] == "commit"
END
    done
    run grep -c dropped_events\":0 trace.json
    expect_status 0
}

@test "without the check a trace has no check spans, and without --trace there is no trace file" {
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --verify off --trace trace.json --report report.json
    expect_status 0
    look <<< 'assert not any("check" in names(lanes[rank]["device"]) for rank in (0, 1))'
    rm trace.json
    ranks 2 mul A.bin B.bin -o C.bin --device cpu
    expect_status 0
    [ ! -e trace.json ]
}

@test "uploads and downloads of a device have a lane of their own, with their bytes" {
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
    program mul A.bin B.bin -o C.bin --device 0:0 --device-memory 300KiB --trace trace.json --report report.json
    expect_status 0
    look << 'END'
copies = lanes[0]["copies"]
assert set(names(copies)) == {"upload", "download"}
down = sum(e["args"]["bytes"] for e in copies if e["name"] == "download")
up = sum(e["args"]["bytes"] for e in copies if e["name"] == "upload")
assert down == 4 * 301 * 147, down
assert up >= 4 * (301 * 203 + 203 * 147), up
multiply, = (e for e in lanes[0]["device"] if e["name"] == "multiply")
assert all(multiply["ts"] <= e["ts"] and e["ts"] + e["dur"] <= multiply["ts"] + multiply["dur"] for e in copies)
END
}

@test "an unwritable trace is refused before the work" {
    ranks 2 mul A.bin B.bin -o D.bin --trace no/trace.json
    expect_failure 73 "cannot write the trace to 'no/trace.json': No such file or directory"
    mkdir folder
    program mul A.bin B.bin -o D.bin --trace folder
    expect_failure 73 "cannot write the trace to 'folder': Is a directory"
    for name in A.bin D.bin; do
        program mul A.bin B.bin -o D.bin --trace $name
        expect_failure 73 "cannot write the trace to '$name': it is one of the matrices"
    done
    program mul A.bin B.bin -o D.bin --trace same.json --report same.json
    expect_failure 73 "cannot write the trace to 'same.json': it is the report"
    [ ! -e D.bin ]
    ranks 2 mul A.bin B.bin -o D.bin --trace /dev/full --quiet --device cpu
    expect_failure 74 "cannot write '/dev/full': No space left on device"
    "$MPIMATMUL" verify A.bin B.bin D.bin --quiet
}

@test "a run that fails leaves the trace of the run before" {
    echo before > trace.json
    ranks 2 mul A.bin B.bin -o C.bin --device faulty:fail=1:cpu --no-fallback --trace trace.json --quiet
    expect_status 69
    [ "$(< trace.json)" = before ]
    [ -z "$(find . -name '*.part')" ]
}
