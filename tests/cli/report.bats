#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a run says about itself: every number is one that was counted or timed, and sums add up.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    "$MPIMATMUL" gen A.bin --dims 61x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x47 --kind integer --seed 2
}

# report EXPRESSION...: each is true of the report r.
report() {
    python "$@" << 'END'
import json, sys
r = json.load(open("report.json"))
for expression in sys.argv[1:]:
    assert eval(expression), (expression, r)
END
}

@test "the report has the fields of its schema and no others" {
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --report report.json
    expect_status 0
    python "$REPO/include/mpimatmul_report.schema.json" << 'END'
import json, sys
schema, report = (json.load(open(name)) for name in (sys.argv[1], "report.json"))

def check(value, rule, place):
    rule = {**schema["definitions"].get(rule.get("$ref", "").rpartition("/")[2], {}), **rule}
    types = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    assert isinstance(value, types.get(rule.get("type"), object)), (place, value)
    assert value in rule.get("enum", [value]) and value == rule.get("const", value), (place, value)
    assert not isinstance(value, (int, float)) or value >= rule.get("minimum", value), (place, value)
    if "properties" in rule:
        assert set(value) == set(rule["properties"]) == set(rule["required"]), (place, set(value))
        for key in value:
            check(value[key], rule["properties"][key], f"{place}.{key}")
    for i, item in enumerate(value if "items" in rule else []):
        check(item, rule["items"], f"{place}[{i}]")

check(report, schema, "report")
END
}

@test "what comes before the clock is shown, and its parts add up" {
    for count in 1 2; do
        ranks $count mul A.bin B.bin -o C.bin --device cpu --report report.json
        expect_status 0
        report "abs(sum(r['startup'].values()) - r['startup_seconds']) < 1e-9" \
            "r['startup']['launch_seconds'] > 0" "r['startup']['discover_seconds'] > 0"
        grep -q -E '^before that [0-9.]+ s: launch [0-9.]+ s, discovery [0-9.]+ s, planning [0-9.]+ s, measuring' \
            <<< "$output" || { show; return 1; }
    done
}
