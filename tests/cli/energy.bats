#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Energy in reports. tests/lib/counters.c simulates counters that grow by 2.5 J per reading, so a
# run's energy is a multiple of 2.5 J. Also machines without counters, and replaced devices.
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
load helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    need_numpy
    [ -e /sys/devices/system/cpu/cpu0/topology/physical_package_id ] || skip "the system tells no packages"
    for package in /sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id; do
        number=$(< "$package")
        mkdir -p "powercap/intel-rapl:$number"
        echo "package-$number" > "powercap/intel-rapl:$number/name"
        echo 1000000 > "powercap/intel-rapl:$number/energy_uj"
        echo 262143328850 > "powercap/intel-rapl:$number/max_energy_range_uj"
    done
    [ "$(echo powercap/* | wc -w)" -eq 1 ] || skip "several packages: ranks may have one each"
    export number
    counted=(env "LD_PRELOAD=$BUILD/tests/counters.so${LD_PRELOAD:+:$LD_PRELOAD}" "MMUL_COUNTERS=$PWD/powercap" \
        MMUL_COUNTERS_STEP=2500000)
    "$MPIMATMUL" gen A.bin --dims 60x50 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 50x70 --kind integer --seed 2 --quiet
    product=("$MPIMATMUL" mul A.bin B.bin -o C.bin --report r.json)
}

# said EXPRESSION: holds for r, the report r.json, and its ranks. n(x): x is a whole number of
# readings, in joules.
said() {
    py -c '
import json, sys
r = json.load(open("r.json"))
ranks = r.get("ranks")
n = lambda x: x is not None and x > 0 and x % 2.5 == 0
print(eval(sys.argv[1]))' "$1"
}

# tells LINE: the output has LINE, with J in place of the joules of rank $1 in the report.
tells() {
    grep -qx "${2/J/$(said "f'{ranks[$1][\"joules\"]:.3f}'") J}" <<< "$output"
}

@test "a single rank reports the joules of its CPU packages, in the report, its text and the JSON of a program" {
    run "${counted[@]}" "${product[@]}" --verbose
    [ "$status" -eq 0 ]
    tells 0 'energy J'
    tells 0 "energy of packages $number of $(hostname), of rank 0: J"
    [ "$(said '[ranks[0][key] for key in ("joules_source", "joules_rank")]')" = "['packages $number', 0]" ]
    [ "$(said 'n(ranks[0]["joules"]), r["joules"] == ranks[0]["joules"]')" = "(True, True)" ]
    printf 'x = load("A.bin") @ load("B.bin")\nsave("C.bin", x)\nfor i in loop(3):\n    print(sum(x) + i)\n' > p.py
    "${counted[@]}" "$MPIMATMUL" run p.py --json > r.json
    [ "$(said 'n(r["run"]["joules"]), n(r["before"]["joules"])')" = "(True, True)" ]
    [ "$(said 'r["before"]["joules"] >= 2.5 * r["before"]["programs"] >= 2.5 * 3')" = True ]
}

@test "a record, if asked for, has the joules of every operation" {
    printf 'x = load("A.bin") @ load("B.bin")\nsave("C.bin", exp(x.T @ x) + 1)\n' > p.py
    "${counted[@]}" "$MPIMATMUL" run p.py --report r.json --quiet
    [ "$(said 'len(r["operations"]) > 1, all(n(o["ranks"][0]["joules"]) for o in r["operations"])')" = "(True, True)" ]
    # Two readings for each, and one at the end.
    [ "$(said 'ranks[0]["joules"] >= 2.5 * (2 * len(r["operations"]) + 1)')" = True ]
    [ "$(said 'sum(o["ranks"][0]["joules"] for o in r["operations"]) < ranks[0]["joules"]')" = True ]
    mpirun -q -n 2 "${counted[@]}" "$MPIMATMUL" run p.py --report r.json --quiet
    [ "$(said '{tuple(map(n, (q["joules"] for q in o["ranks"]))) for o in r["operations"]}')" = "{(True, False)}" ]
    [ "$(said '{o["ranks"][1]["joules"] for o in r["operations"]}')" = "{None}" ]
}

@test "ranks on one package report its joules once and name the reporting rank" {
    run mpirun -q -n 3 "${counted[@]}" "${product[@]}" --verbose
    [ "$status" -eq 0 ]
    tells 0 'energy J'
    tells 0 "energy of packages $number of $(hostname), of rank 0, 1, 2: J"
    [ "$(said '{(q["joules_source"], q["joules_rank"]) for q in ranks}')" = "{('packages $number', 0)}" ]
    [ "$(said 'n(r["joules"]), [q["joules"] for q in ranks] == [r["joules"], None, None]')" = "(True, True)" ]
}

@test "energy that is not measured is marked so and not added up" {
    run mpirun -q -n 1 "${product[@]}" --verbose : -n 1 "${counted[@]}" "${product[@]}" --verbose
    [ "$status" -eq 0 ]
    tells 1 'energy J, of 1 of 2 ranks: the others are not measured'
    grep -qx 'energy of rank 0 (cpu): not measured' <<< "$output"
    [ "$(said '[(q["joules_source"], q["joules_rank"]) for q in ranks]')" = "[('', None), ('packages $number', 1)]" ]
    [ "$(said 'ranks[0]["joules"], n(ranks[1]["joules"]), r["joules"]')" = "(None, True, None)" ]
    rm powercap/*/energy_uj
    run "${counted[@]}" "${product[@]}"
    [ "$status" -eq 0 ]
    [[ "$output" != *energy* ]]
    [ "$(said 'ranks[0]["joules"], r["joules"]')" = "(None, None)" ]
}

@test "no energy is reported for a device that was replaced during the run" {
    run "${counted[@]}" "${product[@]}" --device faulty:fail=1:cpu
    [ "$status" -eq 0 ]
    [[ "$output" != *energy* ]]
    [ "$(said 'ranks[0]["device_replacements"], ranks[0]["joules"]')" = "(1, None)" ]
}
