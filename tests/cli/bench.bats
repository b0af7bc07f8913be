#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bench: the content of its table in all three forms, on one rank and two, refused arguments, and
# files that stay behind. Also the parts of the driver bench/run that need no measurement. No test
# checks a time.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# No file of this test remains in /dev/shm. Other benches may run beside it, so theirs are ignored.
bench_folders() {
    find /dev/shm "$TMPDIR" -maxdepth 1 -name 'mpimatmul-bench.*' -newer "$BATS_TEST_TMPDIR/begin" 2> /dev/null
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    touch "$BATS_TEST_TMPDIR/begin"
}

# The JSON in file $1: every expression is true of `t`, the table, and of `rows`.
json_holds() {
    python "$@" << 'END'
import json, sys
t = json.load(open(sys.argv[1]))
rows = t["rows"]
for expression in sys.argv[2:]:
    assert eval(expression), (expression, t)
END
}

@test "the JSON has a row for OpenBLAS and one for mul, per size" {
    program bench --sizes 16,24x8x40 --runs 3 --format json -o table.json
    expect_status 0
    [ -z "$output" ]
    json_holds table.json "t['schema'] == 'mpimatmul-bench'" "t['schema_version'] == 1" "t['version'] == '0.1.0'" \
        "t['runs'] == 3" "t['warmup'] == 1" "t['dtype'] == 'float32'" "len(t['cluster']['ranks']) == 1" \
        "[(r['m'], r['k'], r['n']) for r in rows] == [(16, 16, 16)] * 2 + [(24, 8, 40)] * 2" \
        "[r['what'] for r in rows] == ['baseline', 'mul'] * 2" \
        "[r['counted'] for r in rows] == ['compute only', 'files in to file out'] * 2" \
        "all(r['ranks'] == 1 for r in rows)" "all(r['threads'] >= 1 for r in rows[::2])" \
        "all(len(r['seconds']) == 3 and min(r['seconds']) > 0 for r in rows)" \
        "all(sorted(r['seconds']) == [r['min_seconds'], r['median_seconds'], r['max_seconds']] for r in rows)" \
        "all(abs(r['flops_per_second'] * r['median_seconds'] / (2 * r['m'] * r['k'] * r['n']) - 1) < 1e-9
             for r in rows)" \
        "all(r['unstable'] == (r['max_seconds'] > 1.2 * r['min_seconds']) for r in rows)" \
        "all(abs(b['median_seconds'] / m['median_seconds'] - m['speedup']) < 1e-9 * m['speedup']
             for b, m in zip(rows[::2], rows[1::2]))"
    for phase in setup scatter compute verify gather idle commit; do
        json_holds table.json "all('${phase}_seconds' in r for r in rows[1::2])" \
            "not any('${phase}_seconds' in r for r in rows[::2])"
    done
}

@test "two ranks, an even number of runs, no warm-up, no baseline" {
    ranks 2 bench --sizes 48 --runs 2 --warmup 0 --baseline off --format json --quiet
    expect_quiet_success
    echo "$output" > table.json
    json_holds table.json "len(rows) == 1" "rows[0]['ranks'] == 2" "rows[0]['speedup'] is None" \
        "len(t['cluster']['ranks']) == 2" "t['warmup'] == 0" \
        "abs(sum(rows[0]['seconds']) / 2 - rows[0]['median_seconds']) < 1e-12"
}

@test "the CSV has a heading and a row per line, with as many fields" {
    ranks 2 bench --sizes 20,10x30x50 --runs 2 --format csv -q
    expect_quiet_success
    [ "${#lines[@]}" -eq 5 ]
    [[ "${lines[0]}" == m,k,n,dtype,what,counted,ranks,threads,runs,warmup,median_seconds,* ]]
    [[ "${lines[1]}" == "20,20,20,float32,baseline,compute only,1,"* ]]
    [[ "${lines[4]}" == "10,30,50,float32,mul,files in to file out,2,,2,1,"* ]]
    run awk -F, '{ print NF }' <<< "$output"
    [ "$(sort -u <<< "$output")" = 23 ]
}

@test "the Markdown table is valid and names the counted quantities" {
    program bench --sizes 32x16x8 --runs 1 --dtype bfloat16 -q
    expect_quiet_success
    for ((i = 0; i < 4; i++)); do
        [ "$(tr -cd '|' <<< "${lines[i]}" | wc -c)" -eq 9 ]
    done
    [[ "${lines[2]}" == *"32 x 16 x 8"*OpenBLAS* ]]
    [[ "${lines[3]}" == *"32 x 16 x 8"*"mul, 1 rank "* ]]
    [[ "$output" == *"mpimatmul 0.1.0, bfloat16; "*"mul is timed from files in to file out; OpenBLAS"* ]]
    [ "$(wc -L <<< "$output")" -le 120 ]
    program bench --sizes 32x16x8 --runs 1 --verbose
    expect_status 0
    for ((i = 0; i < 4; i++)); do
        [ "$(tr -cd '|' <<< "${lines[i]}" | wc -c)" -eq 17 ]
    done
    [[ "${lines[2]}" == *"32 x 16 x 8"*OpenBLAS*"compute only"* ]]
    [[ "${lines[3]}" == *"32 x 16 x 8"*"mul, 1 rank "*"files in to file out"* ]]
}

@test "without --quiet bench reports its current measurement on stderr" {
    program bench --sizes 8,9 --runs 1 --warmup 0 --format csv
    expect_status 0
    [ "$stderr" = "mpimatmul: measuring 8 x 8 x 8: 0 + 1 runs
mpimatmul: measuring 9 x 9 x 9: 0 + 1 runs" ]
}

@test "invalid sizes are refused" {
    for sizes in 0 x 12x 1x2 1x2x3x4 axbxc -4 1.5 1,,2 ',' 3000000000 1x1x3000000000 4096X1X1; do
        word=$sizes
        [[ "$sizes" != *,* ]] || word=
        program bench --sizes "$sizes"
        expect_failure 64 "--sizes: invalid size '$word', expected 1024 or 4096x14336x4096" \
            "MxKxN is A of M x K times B of K x N, N alone is a cube"
    done
    program bench --sizes "$(seq -s , 65)"
    expect_failure 64 "--sizes: more than 64 sizes"
    ranks 2 bench --sizes 0
    expect_failure 64 "--sizes: invalid size '0', expected 1024 or 4096x14336x4096" \
        "MxKxN is A of M x K times B of K x N, N alone is a cube"
}

@test "a long word is refused as a size, also if its beginning is a number" {
    program bench --sizes "1x1x$(printf '0%.0s' {1..55})123456"
    expect_status 64
    [[ "$stderr" == "mpimatmul: --sizes: invalid size '1x1x0000"*"...', expected "* ]]
}

@test "invalid options are refused" {
    program bench --runs 0
    expect_failure 64 "--runs: '0' is not a whole number from 1 to 1000"
    program bench --warmup -1
    expect_failure 64 "--warmup: '-1' is not a whole number from 0 to 1000"
    program bench --format svg
    expect_failure 64 "--format: 'svg' is invalid, expected one of md|csv|json"
    program bench 1024
    expect_failure 64 "bench: expected 0 operands, found 1" "mpimatmul bench [options]"
}

@test "sizes that no memory holds, and an unwritable table, are refused before any measurement" {
    program bench --sizes 2147483647
    expect_failure 74 "no room for 8.0 EiB of matrices in /dev/shm, \$TMPDIR or /tmp"
    program bench --sizes 8 -o missing/table.md
    expect_failure 73 "cannot create 'missing/table.md': No such file or directory"
    program bench --sizes 8 --runs 1 -q -o /dev/full
    expect_status 74
}

@test "a failing device ends bench with the code of mul and leaves no file" {
    program bench --sizes 64 --device faulty:fail=3:cpu --no-fallback -q
    expect_failure 69 "device 'faulty:fail=3:cpu' was lost at multiplication 3 by rule" \
        "leave out --no-fallback to let the CPU take over"
    [ -z "$(bench_folders)" ]
}

@test "a killed bench leaves no files" {
    "$MPIMATMUL" bench --sizes 256 --runs 1000 -q > /dev/null 2>&1 3>&- &
    victim=$!
    for ((i = 0; i < 100; i++)); do
        [ -z "$(bench_folders)" ] || break
        sleep 0.1
    done
    [ -n "$(bench_folders)" ]
    kill -KILL $victim
    wait $victim || true
    for ((i = 0; i < 100; i++)); do
        [ -n "$(bench_folders)" ] || break
        sleep 0.1
    done
    [ -z "$(bench_folders)" ]
}

@test "the driver lists its cases and refuses an unknown one" {
    run --separate-stderr "$REPO/bench/run" --list
    expect_quiet_success
    [ "$(awk '{ print $1 }' <<< "$output" | xargs -n 6)" = \
"file8192 float64 lab2 lab4 labslow labdoctored
labslowdown steps slow4 slowdown startup verify
thin share output memory gpu configs
planning balance mixed doctored chain resident
grid4096 programs learn curve replay rows
predict" ]
    # The driver unsets OPENBLAS_* of the caller or, if told to, keeps them. It reports either, with
    # the kernels in use.
    unset OPENBLAS_THREAD_TIMEOUT
    local quick=("$REPO/bench/run" --quick --runs 1 --warmup 0 --build "$BUILD" --output "$PWD/out" planning)
    run --separate-stderr env OPENBLAS_CORETYPE=Nehalem OPENBLAS_L2_SIZE=512 "${quick[@]}"
    expect_status 0
    expect_line \
        "environment: OPENBLAS_CORETYPE=Nehalem OPENBLAS_L2_SIZE=512 taken away, on both sides (--keep-environment)"
    grep -qE '^machine: .*, OpenBLAS [0-9.]+ \([A-Za-z0-9]+\)(, which leaves [A-Z0-9-]+ unused)?$' \
        <<< "$output" || { show; return 1; }
    run --separate-stderr env OPENBLAS_CORETYPE=Nehalem "${quick[@]}" --keep-environment
    expect_status 0
    expect_line "environment: OPENBLAS_CORETYPE=Nehalem kept, on both sides"
    grep -qE \
        '^machine: .*, OpenBLAS [0-9.]+ \(Nehalem\)(, which leaves .* unused)?, OPENBLAS_CORETYPE=Nehalem set$' \
        <<< "$output"
    grep -q 'OPENBLAS_CORETYPE=Nehalem set' out/table.md
    run --separate-stderr "$REPO/bench/run" nosuchcase
    expect_status 64
    [[ "$stderr" == "bench/run: no case 'nosuchcase': expected file8192, "* ]]
    run --separate-stderr "$REPO/bench/run" --runs 0
    expect_status 64
}

@test "the driver's table is made from the result files of the cases" {
    need_numpy
    run --separate-stderr "$REPO/bench/run" --quick --runs 1 --warmup 0 --build "$BUILD" --output results verify
    expect_quiet_success
    expect_only_files results results/verify.json results/results.json results/results.csv results/table.md
    run --separate-stderr "$REPO/bench/run" --table --output results
    expect_quiet_success
    diff results/table.md - <<< "$output"
    [ "$(grep -c "^| .verify. " <<< "$output")" -eq 4 ]
    [ "$(wc -l < results/results.csv)" -eq 5 ]
    python << 'END'
import json
result, = json.load(open("results/results.json"))
assert result["status"] == "measured" and len(result["rows"]) == 4
for row in result["rows"]:
    assert len(row["figure"]["values"]) == len(row["against"]["values"]) == 1
    assert row["figure"]["phases"].keys() >= {"setup", "scatter", "compute", "verify", "gather", "idle", "commit"}
    assert abs(row["ratio"] - row["figure"]["value"] / row["against"]["value"]) < 1e-12
END
}

@test "the driver compares two builds pair by pair and names the options that the old one lacks" {
    run --separate-stderr "$REPO/bench/run" --build "$BUILD" --against nowhere balance
    expect_status 64
    [[ "$stderr" == "bench/run: no program '$PWD/nowhere/build/release/bin/mpimatmul': "* ]]
    mkdir -p same/build old/build/release/bin
    ln -s "$BUILD" same/build/release
    # A stand-in for an older program: it plans, but refuses the option --weights of mul.
    printf '#!/bin/sh\ncase "$*" in *--weights*) echo "mpimatmul: no option --weights" >&2; exit 64 ;; esac\n' \
        > old/build/release/bin/mpimatmul
    printf 'exec "%s" "$@"\n' "$BUILD/bin/mpimatmul" >> old/build/release/bin/mpimatmul
    chmod 755 old/build/release/bin/mpimatmul
    for old in same old; do
        run --separate-stderr "$REPO/bench/run" --quick --runs 3 --warmup 0 --build "$BUILD" --against $old \
            --output $old.results planning balance
        expect_quiet_success
    done
    python << 'END'
import json, statistics
same = {one["case"]: one for one in json.load(open("same.results/results.json"))}
plan, = same["planning"]["rows"]
assert plan["row"] == "4096 ranks new / old" and len(plan["pairs"]) == 3, plan
assert plan["pairs"] == [new / old for new, old in zip(plan["figure"]["values"], plan["against"]["values"])]
assert plan["ratio"] == statistics.median(plan["pairs"])
assert [row["row"] for row in same["balance"]["rows"]] == ["default", "default, old build", "default new / old"]
old = {one["case"]: one for one in json.load(open("old.results/results.json"))}
assert "commit" in old["planning"]["machine"]["against"] and old["planning"]["rows"][0]["ratio"]
assert [row["row"] for row in old["balance"]["rows"]] == ["default", "default new / old"]
assert old["balance"]["rows"][1]["note"] == "old build: exit status 64: mpimatmul: no option --weights"
assert old["balance"]["rows"][1]["against"] is None and old["balance"]["rows"][1]["ratio"] is None
END
    grep -E "launch apart \| - \| - \| - \| .*old build: exit status 64" old.results/table.md
    grep -E "commit [^,]* against [^,]*, " same.results/table.md
}
