#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# run: its output about a program before and after the run.

load helper

@test "run --check: equal layers are printed once, in 120 columns, with the sum of all of them" {
    cat > e.py << 'END'
def layer_with_a_name_that_is_long(x, number):
    weights = load(f"weights/of/a/model/with/long/names/of/its/layers/layer.{number}.npy")
    return layer_norm(relu(x @ weights + bias_of_all_layers_of_this_model), None, None) + x
bias_of_all_layers_of_this_model = generate((1, 40), seed=2)
x = generate((30, 40), seed=1)
for i in range(12):
    x = layer_with_a_name_that_is_long(x, i)
save("y.npy", x)
END
    mkdir -p weights/of/a/model/with/long/names/of/its/layers
    local i
    for i in {0..11}; do
        "$MPIMATMUL" gen "weights/of/a/model/with/long/names/of/its/layers/layer.$i.npy" --dims 40x40 --seed "$i" -q
    done
    ranks 2 run e.py --check --device cpu --weights equal
    expect_quiet_success
    [ "$(wc -L <<< "$output")" -le 120 ] || { show; return 1; }
    [ "$(wc -l <<< "$output")" -le 30 ] || { show; return 1; }
    [ "$(grep -c '^x 12:$' <<< "$output")" -eq 1 ] || { show; return 1; }
    [ "$(grep -c -E '^[0-9]+-[0-9]+ +x 1[12], sums of all:$' <<< "$output")" -eq 1 ] || { show; return 1; }
    printf '%s\n' "$output" > grouped
    ranks 2 run e.py --check --device cpu --weights equal --verbose
    expect_status 0
    [ "$(grep -c -E ' load  ' <<< "$output")" -eq 12 ] && [ "$(wc -L <<< "$output")" -gt 120 ] || { show; return 1; }
    printf '%s\n' "$output" > whole
    ranks 2 run e.py --check --device cpu --weights equal --json
    printf '%s' "$output" > plan.json
    py - <<'END'
import json, re
steps = json.load(open("plan.json"))["steps"]
seconds, last = {}, {}
for name in "grouped", "whole":
    text = open(name).read()
    table = text[text.index("\nstep ") + 1:].split("\n\n")[0].splitlines()[1:]
    rows = [row for row in table if not row.endswith("sums of all:")]
    found = [re.search(r" ([0-9.]+)  +([0-9.]+ [KMG]?i?B)$", row) for row in rows]
    seconds[name] = sum(float(f[1]) for f in found)
    last[name] = max(int(re.match(r" *(\d+)", row)[1]) for row in rows)
    groups = [re.match(r"(\d+)-(\d+) +x (\d+)", row) for row in table if row.endswith("sums of all:")]
    covered = sum(int(g[2]) - int(g[1]) + 1 - (int(g[2]) - int(g[1]) + 1) // int(g[3]) for g in groups if g)
    assert len(rows) + covered == len(steps), (name, len(rows), covered, len(steps))
total = sum(step["seconds"] for step in steps)
assert abs(seconds["grouped"] - total) < len(steps) * 5e-7, (seconds, total)
assert abs(seconds["whole"] - total) < len(steps) * 5e-7, (seconds, total)
assert last["whole"] == last["grouped"] == len(steps)
END
}

@test "run: the last lines of stdout give seconds, speed, steps, check and outputs" {
    script 'x = generate((30, 40), kind="integer", seed=1)
y = x @ x.T
save("y.npy", y)
print("sum", sum(y))
save("z.npz:a", x[0:3])
save("kept:k", y)
save("and_one_with_a_name_that_has_no_room_in_the_first_line_any_more_because_that_has_120_columns.npy", y)'
    local tail='y.npy: 30 x 30  z.npz:a: 3 x 40  kept:k: 30 x 30 on COUNT
and_one_with_a_name_that_has_no_room_in_the_first_line_any_more_because_that_has_120_columns.npy: 30 x 30'
    export MPIMATMUL_SHARD_DIR=$PWD/s
    local begin='wall N s  N GFLOP/s  (N steps; before that N s)'
    for count in 1 2; do
        ranks $count run e.py --device cpu
        expect_quiet_success
        local on="$count rank"
        [ $count -eq 1 ] || on+=s
        [ "$(outcome | sed '1s/^sum .*/sum/')" = "sum
$begin  results checked, 0 blocks recomputed
${tail/COUNT/$on}" ] || { show; return 1; }
        ranks $count run e.py --device cpu --verify off
        [ "$(outcome | sed -n 2p)" = "$begin  results not checked" ] || { show; return 1; }
        ranks $count run e.py --device cpu --quiet
        expect_quiet_success
        [[ $output == "sum "* ]] && [ "$(wc -l <<< "$output")" -eq 1 ] || { show; return 1; }
    done
    # The count covers blocks of all ranks.
    run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" run e.py --weights equal --device cpu : \
        -n 1 "$MPIMATMUL" run e.py --weights equal --device faulty:corrupt=1:cpu
    expect_status 0
    [[ "$(outcome | sed -n 2p)" == "$begin  results checked, 1 block recomputed"* ]] || { show; return 1; }
    # A matrix on standard output is the only content there.
    script 'save("-", generate((3, 4), seed=1) * 2)'
    "$MPIMATMUL" run e.py > out.bin 2> tables < /dev/null
    [ "$(stat -c %s out.bin)" -eq $((20 + 3 * 4 * 4)) ]
    output=$(< tables)
    [ "$(outcome)" = "$begin  no operation needed a check
-: 3 x 4" ] || { show; return 1; }
    "$MPIMATMUL" run e.py -q > out.bin 2> tables < /dev/null
    [ ! -s tables ]
}

@test "run: for a text with loops the plans of all programs come first, and the summary may follow the last prints" {
    need_numpy
    script 'x = generate((60, 60), kind="integer", seed=1)
for i in loop(5):
    x = minimum(maximum(x @ x, -3), 3)
save("x.npy", x * 2)'
    ranks 2 run e.py --device cpu --report r.json
    expect_quiet_success
    python "${lines[0]}" << 'END' || { show; return 1; }
import json, re, sys
report = json.load(open("r.json"))
wall, programs, steps = re.fullmatch(r"wall ([0-9.]+) s  [0-9.]+ GFLOP/s  \(([0-9]+) programs, ([0-9]+) steps\); "
                                     "the last of them:", sys.argv[1]).groups()
before = report["before"]  # and the report of the last turn; then comes one program more
assert (int(programs), before["programs"]) == (7, 5) and int(steps) > before["steps"] + report["steps"], report
assert float(wall) > before["wall_seconds"] + report["wall_seconds"], (wall, before)
assert report["program"] == "e.py" and report["command"].startswith("mpimatmul run e.py --device cpu"), report
END
    [[ "${lines[1]}" == "wall "*" step"*"before that"* ]] || { show; return 1; }
    [ "${lines[2]}" = "x.npy: 60 x 60" ]
    script 'for i in loop(3):
    print(sum(generate((40, 50), seed=i)))'
    ranks 1 run e.py --device cpu
    expect_quiet_success
    [[ "${lines[3]}" =~ ^'wall '[0-9.]+' s  '([0-9.]+' GFLOP/s  ')?'('[0-9]+' programs, '[0-9]+' steps)'$ ]] ||
        { show; return 1; }
    [ "${#lines[@]}" -eq 4 ] || { show; return 1; }
}
