#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
# compare: two runs side by side. Its numbers are those of the compared files.
load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    "$MPIMATMUL" gen A.bin --dims 61x203 --kind integer --seed 1 -q
    "$MPIMATMUL" gen B.bin --dims 203x47 --kind integer --seed 2 -q
    "$MPIMATMUL" gen C.bin --dims 203x31 --kind integer --seed 3 -q
}

multiply() {
    local count=$1
    shift
    "${launch[@]}" -n "$count" "$MPIMATMUL" mul "$@" -o D.npy --device cpu -q < /dev/null
}

@test "compare prints the differences in settings first, then the numbers of both runs and their ratio" {
    multiply 2 A.bin B.bin --report a.json --trace t.json
    multiply 3 A.bin C.bin --report b.json --trace t.json --dtype float16
    program compare a.json b.json
    expect_quiet_success
    [ "${lines[0]}" = "A  a.json" ] && [ "${lines[1]}" = "B  b.json" ]
    grep -q -E '^B +203 x 47 +203 x 31$' <<< "$output" || { show; return 1; }
    grep -q -E '^ranks +2 +3$' <<< "$output"
    grep -q -E '^devices +cpu x 2 +cpu x 3$' <<< "$output"
    [ "$(wc -L <<< "$output")" -le 120 ] || { show; return 1; }
    program compare a.json b.json --json
    expect_quiet_success
    printf '%s\n' "$output" > found.json
    py - "$REPO/include/mpimatmul_compare.schema.json" << 'PYTHON'
import json, sys
found, a, b = (json.load(open(name)) for name in ("found.json", "a.json", "b.json"))
try:
    import jsonschema
    jsonschema.Draft7Validator.check_schema(json.load(open(sys.argv[1])))
    jsonschema.validate(found, json.load(open(sys.argv[1])))
except ImportError:
    print("python3-jsonschema is not installed")
def same(rows, a, b):
    for row in rows:
        x, y = (one.get(row["what"], one.get("check", {}).get(row["what"])) for one in (a, b))
        if row["what"] in may_be_none:  # not measured in either run
            x, y = x or None, y or None
        assert row["a"] == x and row["b"] == y, (row, x, y)
        assert row["ratio"] == (y / x if x and y is not None else None), row
may_be_none = {"predicted_seconds", "efficiency", "calibrated_flops_per_second"}
numbers = [row for row in found["numbers"] if row["what"] != "sent_bytes"]
assert {"wall_seconds", "flops_per_second", "compute_seconds", "network_bytes", "bytes_written",
        "blocks_recomputed"} <= {row["what"] for row in numbers}
same(numbers, a, b)
assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
for rank in found["ranks"]:
    assert {"share", "compute_seconds"} <= {row["what"] for row in rank["numbers"]}
    same(rank["numbers"], a["ranks"][rank["rank"]], b["ranks"][rank["rank"]])
row, = found["operations"]
assert (row["step"], row["operation"]) == (1, "matmul")
longest = [max(r["end_seconds"] - r["begin_seconds"] for r in one["operations"][0]["ranks"]) for one in (a, b)]
assert abs(row["a"] - longest[0]) < 1e-12 and abs(row["b"] - longest[1]) < 1e-12
PYTHON
}

@test "a run compared with itself has equal settings and ratios of 1" {
    multiply 2 A.bin B.bin --report a.json
    program compare a.json a.json
    expect_quiet_success
    expect_line "the same setting: sizes, types, ranks, machines, devices, kernels"
    [ "$(grep -E '^(wall|rate|bytes read|written) ' <<< "$output" | awk '{print $NF}' | sort -u)" = 1.00 ]
    grep -q -E '^bytes written +11.2 KiB +11.2 KiB +1.00$' <<< "$output" || { show; return 1; }
}

@test "a value that was neither predicted nor measured is left out, not printed as 0" {
    multiply 1 A.bin B.bin --report a.json
    py -c 'import json; one = json.load(open("a.json")); assert one["predicted_seconds"] == one["efficiency"] == 0'
    program compare a.json a.json
    expect_quiet_success
    run ! grep -E '^ *(predicted|efficiency|calibrated)' <<< "$output"
    py -c 'import json
one = json.load(open("a.json")); one["predicted_seconds"] = 0.5; json.dump(one, open("b.json", "w"))'
    program compare a.json b.json
    expect_quiet_success
    grep -q -E '^predicted +- +0.500 s +-$' <<< "$output" || { show; return 1; }
}

@test "compare writes two runs as a page" {
    multiply 2 A.bin B.bin --report a.json --trace t.json
    multiply 3 A.bin C.bin --report b.json --trace t.json
    program compare a.json b.json --html p.html --json
    expect_quiet_success
    printf '%s\n' "$output" > found.json
    program report found.json -o again.html -q
    expect_quiet_success
    cmp p.html again.html
    for name in a.json b.json; do
        program compare a.json b.json --html $name
        expect_failure 73 "cannot write the page to '$name': it is one of the inputs"
    done
    program compare a.json b.json --html none/p.html
    expect_failure 73 "cannot write the page to 'none/p.html': No such file or directory"
    command -v chromium > /dev/null || skip "chromium: not installed"
    run --separate-stderr timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$BATS_TEST_TMPDIR/chromium" --enable-logging=stderr --dump-dom "file://$PWD/p.html" < /dev/null
    expect_status 0
    [[ "$stderr" != *CONSOLE* ]] || { show; return 1; }
    [[ "$output" == *'data-state="drawn"'* && "$output" == *'<title>mpimatmul: a.json beside b.json</title>'* ]]
    for words in '<td>203 x 47</td><td>203 x 31</td>' '<td>cpu x 2</td><td>cpu x 3</td>' 'id="seconds"' 'id="ranks"'; do
        [[ "$output" == *"$words"* ]] || { echo "$words"; show; return 1; }
    done
}

@test "joules stand beside each other when both runs measured them" {
    multiply 2 A.bin B.bin --report a.json
    py -c 'import json
r = json.load(open("a.json"))
for i, rank in enumerate(r["ranks"]): rank["joules"] = 1.5 + i
r["joules"] = 4
json.dump(r, open("a.json", "w"))
for rank in [r, *r["ranks"]]: rank["joules"] *= 2
json.dump(r, open("b.json", "w"))'
    program compare a.json b.json
    expect_quiet_success
    grep -q -E '^joules +4 +8 +2.00$' <<< "$output" || { show; return 1; }
    grep -q -E '^ +1  joules +2.5 +5 +2.00$' <<< "$output"
}

@test "of many operations compare prints those that differ most, and all with --verbose" {
    script 'x = generate((20, 20), kind="integer", seed=1)
for i in range(20):
    x = relu(x @ x.T) % 3
    print(sum(x))
save("y.npy", x)'
    "$MPIMATMUL" run e.py --device cpu --report a.json -q < /dev/null
    "$MPIMATMUL" run e.py --device cpu --report b.json -q < /dev/null
    steps=$(py -c 'import json; print(len(json.load(open("a.json"))["operations"]))')
    [ "$steps" -gt 20 ]
    program compare a.json b.json
    expect_quiet_success
    [ "$(sed -n '/^step /,$p' <<< "$output" | grep -c -E '^ *[0-9]+  ')" -eq 12 ]
    expect_line "and $((steps - 12)) operations that differ less"
    program compare a.json b.json --verbose
    [ "$(sed -n '/^step /,$p' <<< "$output" | awk 'NR > 1 {print $1}' | xargs)" = "$(seq "$steps" | xargs)" ]
    script 'save("y.npy", relu(generate((20, 20), seed=1)))'
    "$MPIMATMUL" run e.py --device cpu --report b.json -q < /dev/null
    program compare a.json b.json
    expect_quiet_success
    run ! grep '^step ' <<< "$output"
}

@test "compare takes the output of run --json: its numbers, and equality of the printed lines" {
    script $'x = generate((5, 4), kind="integer", seed=seed)\nprint("sum", sum(x))'
    sed -i '1i seed = 1' e.py
    "$MPIMATMUL" run e.py --device cpu --json < /dev/null > a.json
    "$MPIMATMUL" run e.py --device cpu --json < /dev/null > b.json
    "$MPIMATMUL" run e.py seed=7 --device cpu --json < /dev/null > c.json
    program compare a.json b.json
    expect_quiet_success
    expect_line "printed values are the same"
    expect_line "the same setting: sizes, types, ranks, machines, devices, kernels"
    program compare a.json c.json
    expect_line "printed values are different"
}

@test "two files of different kinds, or a damaged one, are refused" {
    multiply 2 A.bin B.bin --report a.json --trace t.json
    script $'x = generate((5, 4), kind="integer", seed=1)\nprint("sum", sum(x))'
    "$MPIMATMUL" run e.py --device cpu --json < /dev/null > run.json
    program compare a.json run.json
    expect_failure 65 "'a.json' is a report, 'run.json' is the output of run --json: expected two files of one kind"
    program compare a.json t.json
    expect_failure 65 "'t.json' is a trace: expected a report" "--report of mul and run writes one"
    program compare a.json none.json
    expect_failure 66 "cannot open 'none.json': No such file or directory"
    echo '{"schema": "mpimatmul-report", "schema_version": 4}' > old.json
    program compare old.json a.json
    expect_failure 65 "'old.json' has schema version 4, expected 5"
    echo '{"a": 1' > cut.json
    program compare a.json cut.json
    expect_status 65
    [[ "$stderr" == "mpimatmul: 'cut.json' is not valid JSON: line "* ]]
    program compare a.json
    expect_failure 64 "compare: expected 2 operands, found 1" "mpimatmul compare a.json B [options]"
    # A report without content, and names with control characters for a terminal.
    echo '{"schema": "mpimatmul-report", "schema_version": 5}' > b.json
    program compare b.json b.json
    expect_quiet_success
    printf '{"schema": "mpimatmul-report", "schema_version": 5, "version": "\\u001b[31m"}' > c.json
    program compare b.json c.json
    expect_quiet_success
    grep -q -E '^version +- +\?\[31m$' <<< "$output" || { show; return 1; }
}
