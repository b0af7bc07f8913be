#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2030,SC2031,SC2154 # status, output, lines and launch are set by bats and the helper
# --metrics: a line of JSON for each printed value, written at once.

load helper

measured='x = generate((5, 7), kind="integer", seed=1)
print("sum", sum(x), f"and {mean(x)}: {3}", 4)
for i in loop(2, 4):
    x = x + 1
    print(i, x)
    for j in loop(2):
        print(j, sum(x / (j - 1)))
print(f"last {sum(x * 2)}", sum(log(x * 0)))'

# Compares the contents of metrics.jsonl with the expected values.
compare() {
    py - << 'END'
import json
lines = [json.loads(line) for line in open("m.jsonl")]
seconds = [line.pop("seconds") for line in lines]
assert seconds == sorted(seconds) and 0 < seconds[0] and seconds[-1] < 60, seconds
def value(turn, line, name, value):
    return {"turn": turn, "line": line, "name": name, "value": value}
def matrix(turn, least, mean):
    return {"turn": turn, "line": 5, "name": "x", "shape": [5, 7], "min": least, "max": least + 8, "mean": mean}
quotient = "sum(x / (j - 1))"
expected = [value(None, 2, "sum(x)", -1), value(None, 2, "mean(x)", -1 / 35), matrix(2, -3, 1 - 1 / 35),
            value(2, 7, quotient, -34), value(2, 7, quotient, None), matrix(3, -2, 2 - 1 / 35),
            value(3, 7, quotient, -69), value(3, 7, quotient, None), value(None, 8, "sum(x * 2)", 138),
            value(None, 8, "sum(log(x * 0))", None)]
for mine, theirs in zip(lines, expected, strict=True):
    assert mine.keys() == theirs.keys(), mine
    for key, right in theirs.items():
        close = isinstance(right, float) and abs(mine[key] - right) < 1e-6
        assert mine[key] == right or close, (mine, theirs)
END
}

@test "printed values are lines of JSON, in loops and outside of them" {
    need_numpy
    script "$measured"
    for count in 1 2 3; do
        echo old > m.jsonl
        run --separate-stderr "${launch[@]}" -n "$count" "$MPIMATMUL" run e.py --metrics m.jsonl --quiet
        expect_quiet_success
        [ "${#lines[@]}" -eq 18 ]
        compare
    done
    MPIMATMUL_METRICS=m.jsonl "$MPIMATMUL" run e.py --device faulty:corrupt=3:cpu --quiet
    compare
}

@test "--metrics works with --json, and --check writes no metrics" {
    script $'x = generate((2, 2), kind="ones")\nprint("x", sum(x))'
    run "$MPIMATMUL" run e.py --json --metrics m.jsonl
    [ "$status" -eq 0 ]
    [[ $output == *'"text": "x 4"'* ]]
    [[ "$(< m.jsonl)" == '{"turn":null,"line":2,"name":"sum(x)","value":4.0,"seconds":'*'}' ]]
    rm m.jsonl
    run "$MPIMATMUL" run e.py --check --metrics m.jsonl
    [ "$status" -eq 0 ]
    [ ! -e m.jsonl ]
}

@test "a failing run leaves the metrics of its finished turns" {
    script $'x = generate((2, 2), kind="ones")\nfor i in loop(5):\n    print(sum(x * i))\n    assert_close(x * i, x, 1)'
    program run e.py --metrics m.jsonl --quiet
    expect_status 79
    [ "$(grep -c '"name":"sum(x \* i)","value":' m.jsonl)" -eq 4 ]  # turn 3 fails after its print
}

@test "an unwritable metrics file is reported before the run starts" {
    script $'x = generate((2, 2), kind="ones")\nprint(sum(x))\nsave("y.npy", x)\nfor i in loop(2):\n    print(sum(x))'
    program run e.py --metrics e.py
    expect_failure 73 "cannot write the metrics to 'e.py': it is the program's or one of its files"
    program run e.py --metrics y.npy
    expect_failure 73 "cannot write the metrics to 'y.npy': it is the program's or one of its files"
    program run e.py --metrics none/m
    expect_failure 73 "cannot write the metrics to 'none/m': No such file or directory"
    program run e.py --metrics -
    expect_failure 73 "cannot write the metrics to '-': only matrices go to stdout" "./- names a file called '-'"
    expect_only_files e.py
    run --separate-stderr "$MPIMATMUL" run e.py --metrics /dev/full --quiet
    output=''
    expect_failure 74 "cannot write the metrics to '/dev/full': No space left on device"
    program mul e.py e.py --metrics m
    expect_status 64
}
