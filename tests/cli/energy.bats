#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What reports say of energy: of counters that tests/lib/counters.c makes up, which grow by 2.5 J from one reading to
# the next, so that every run of a process has used as much; and where there is none, or a device was replaced.
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

# said EXPRESSION: of r.json, a dict r, and its ranks.
said() {
    py -c '
import json, sys
r = json.load(open("r.json"))
ranks = r.get("ranks")
print(eval(sys.argv[1]))' "$1"
}

@test "a rank alone: joules of its CPU's packages, in the report, in its text, and in the JSON of a program" {
    run "${counted[@]}" "${product[@]}" --verbose
    [ "$status" -eq 0 ]
    grep -qx 'energy 2.500 J' <<< "$output"
    grep -qx "energy of packages $number of $(hostname), of rank 0: 2.500 J" <<< "$output"
    [ "$(said '[ranks[0][key] for key in ("joules", "joules_source", "joules_rank")], r["joules"]')" = \
        "([2.5, 'packages $number', 0], 2.5)" ]
    printf 'x = load("A.bin") @ load("B.bin")\nsave("C.bin", x)\nfor i in loop(3):\n    print(sum(x) + i)\n' > p.py
    "${counted[@]}" "$MPIMATMUL" run p.py --json > r.json
    [ "$(said 'r["run"]["joules"], r["before"]["joules"] / r["before"]["programs"]')" = "(2.5, 2.5)" ]
    py -c 'import json; assert json.load(open("r.json"))["before"]["programs"] >= 3'
}

@test "of every operation where a record is asked for" {
    printf 'x = load("A.bin") @ load("B.bin")\nsave("C.bin", exp(x.T @ x) + 1)\n' > p.py
    "${counted[@]}" "$MPIMATMUL" run p.py --report r.json --quiet
    [ "$(said 'len(r["operations"]) > 1, {o["ranks"][0]["joules"] for o in r["operations"]}')" = "(True, {2.5})" ]
    # Two readings for each, and one at the end.
    [ "$(said 'ranks[0]["joules"] == 2.5 * (2 * len(r["operations"]) + 1)')" = True ]
    mpirun -q -n 2 "${counted[@]}" "$MPIMATMUL" run p.py --report r.json --quiet
    [ "$(said '{tuple(q["joules"] for q in o["ranks"]) for o in r["operations"]}')" = "{(2.5, None)}" ]
}

@test "ranks on one package state its joules once, and say who does" {
    run mpirun -q -n 3 "${counted[@]}" "${product[@]}" --verbose
    [ "$status" -eq 0 ]
    grep -qx 'energy 2.500 J' <<< "$output"
    grep -qx "energy of packages $number of $(hostname), of rank 0, 1, 2: 2.500 J" <<< "$output"
    [ "$(said '[(q["joules"], q["joules_source"], q["joules_rank"]) for q in ranks], r["joules"]')" = \
        "([(2.5, 'packages $number', 0), (None, 'packages $number', 0), (None, 'packages $number', 0)], 2.5)" ]
}

@test "what is not measured is said to be so, and nothing is added up without it" {
    run mpirun -q -n 1 "${product[@]}" --verbose : -n 1 "${counted[@]}" "${product[@]}" --verbose
    [ "$status" -eq 0 ]
    grep -qx 'energy 2.500 J, of 1 of 2 ranks: of the others it is not measured' <<< "$output"
    grep -qx 'energy of rank 0 (cpu): not measured' <<< "$output"
    [ "$(said '[(q["joules"], q["joules_source"], q["joules_rank"]) for q in ranks], r["joules"]')" = \
        "([(None, '', None), (2.5, 'packages $number', 1)], None)" ]
    rm powercap/*/energy_uj
    run "${counted[@]}" "${product[@]}"
    [ "$status" -eq 0 ]
    [[ "$output" != *energy* ]]
    [ "$(said 'ranks[0]["joules"], r["joules"]')" = "(None, None)" ]
}

@test "of a device that was replaced meanwhile nobody says what it used" {
    run "${counted[@]}" "${product[@]}" --device faulty:fail=1:cpu
    [ "$status" -eq 0 ]
    [[ "$output" != *energy* ]]
    [ "$(said 'ranks[0]["device_replacements"], ranks[0]["joules"]')" = "(1, None)" ]
}
