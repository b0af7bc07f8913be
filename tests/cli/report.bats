#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The report of a run: every number was counted or timed, and the sums add up.
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
phases = ("setup", "scatter", "compute", "verify", "gather", "idle", "commit")
for expression in sys.argv[1:]:
    assert eval(expression), (expression, r)
END
}

@test "the report shows the time before the clock in parts that add up" {
    for count in 1 2; do
        ranks $count mul A.bin B.bin -o C.bin --device cpu --report report.json
        expect_status 0
        report "abs(sum(r['startup'].values()) - r['startup_seconds']) < 1e-9" \
            "r['startup']['launch_seconds'] > 0" "r['startup']['discover_seconds'] > 0"
        grep -q -E '^before that [0-9.]+ s: launch [0-9.]+, discovery [0-9.]+, files [0-9.]+, planning [0-9.]+, meas' \
            <<< "$output" || { show; return 1; }
    done
}

# phases_add_up: of every rank. The job's phases are those of the rank that ended last, with little
# idle time.
phases_add_up() {
    report "all(abs(sum(x[p + '_seconds'] for p in phases) - r['wall_seconds']) < 1e-3 for x in [r, *r['ranks']])" \
        "all(x[p + '_seconds'] >= 0 for p in phases for x in r['ranks'])" \
        "all(r[p + '_seconds'] == r['ranks'][r['last_rank']][p + '_seconds'] for p in phases)" \
        "r['idle_seconds'] == min(x['idle_seconds'] for x in r['ranks'])"
}

@test "a rank's phases add up to the wall time: mapped, streamed, with work stealing" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import read_bin
for name in "AB":
    np.save(name + ".npy", read_bin(name + ".bin")[1].astype("f8"))
END
    for count in 1 2 3; do
        for words in "A.bin B.bin --tail 0.5" "A.npy B.npy --dtype float16 --split cols"; do
            # shellcheck disable=SC2086 # several words
            ranks $count mul $words -o C.bin --device cpu --report report.json
            expect_status 0
            phases_add_up || { echo "$count ranks: $words"; return 1; }
        done
    done
}

@test "a rank's phases add up to the wall time on a CPU and PoCL" {
    "$MPIMATMUL" devices --json < /dev/null | grep -q '"id": "0:0"' || skip "opencl: no OpenCL device"
    local common=("$MPIMATMUL" mul A.bin B.bin -o C.bin --report report.json --tail 0.3)
    run --separate-stderr mpirun -q -n 1 "${common[@]}" --device cpu : -n 1 "${common[@]}" --device 0:0 < /dev/null
    expect_status 0
    phases_add_up
}

@test "seconds are counted where they were spent: computing, waiting for others, committing" {
    local common=("$MPIMATMUL" mul A.bin B.bin -o C.bin --report report.json --weights equal --tail off)
    run --separate-stderr mpirun -q -n 1 "${common[@]}" --device cpu \
        : -n 1 "${common[@]}" --device faulty:delay=800ms:cpu < /dev/null
    expect_status 0
    phases_add_up
    report "r['last_rank'] == 1" "r['compute_seconds'] >= 0.8" "r['idle_seconds'] < 0.4" \
        "r['ranks'][0]['idle_seconds'] > 0.4"
    grep -q -E '^wall [0-9.]+ s \(rank 1 ended last\)' <<< "$output"
    command -v strace > /dev/null || skip "strace: not installed"
    strace -o /dev/null true 2> /dev/null || skip "strace: may not trace here"
    run --separate-stderr mpirun -q -n 2 strace -o /dev/null -e trace=fsync -e inject=fsync:delay_enter=800000 \
        "${common[@]}" --device cpu < /dev/null
    expect_status 0
    phases_add_up
    report "all(x['commit_seconds'] >= 0.8 for x in r['ranks'])" "r['idle_seconds'] < 0.4"
}

@test "bytes read and written are those of the files" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import read_bin
for name in "AB":
    np.save(name + ".npy", read_bin(name + ".bin")[1].astype("f8"))
END
    local a=$((61 * 203)) b=$((203 * 47)) c=$((61 * 47))
    "$MPIMATMUL" gen C_in.bin --dims 61x47 --seed 3 --quiet
    # Mapped; streamed, 8 bytes each; a 16-bit result; stolen rows; an added C; no bytes needed.
    for row in "$((4 * (a + b))) $((4 * c)) A.bin B.bin" "$((8 * (a + b))) $((4 * c)) A.npy B.npy --dtype float32" \
        "$((4 * a + 8 * b)) $((2 * c)) A.bin B.npy --dtype float16" \
        "$((4 * (a + b))) $((2 * c)) A.bin B.bin --dtype bfloat16 --tail 0.6" \
        "$((4 * (a + b + c))) $((4 * c)) A.bin B.bin --beta 1 --c-in C_in.bin --split cols" \
        "0 $((4 * c)) A.bin B.bin --alpha 0"; do
        read -r read written words <<< "$row"
        # shellcheck disable=SC2086 # several words
        ranks 2 mul $words -o C.bin --device cpu --report report.json
        expect_status 0
        report "r['bytes_read'] == $read" "r['bytes_written'] == $written" || { echo "$row"; return 1; }
        [ "$(stat -c %s C.bin)" -eq $((written + 20)) ]
    done
    expect_line "read 0 B  written 11.2 KiB  over the network 0 B"
}

@test "progress counts stolen rows, too" {
    local common=("$MPIMATMUL" mul A.bin B.bin -o C.bin --progress bar --weights equal --tail 0.9)
    run --separate-stderr mpirun -q -n 2 "${common[@]}" --device faulty:delay=250ms:cpu < /dev/null
    expect_status 0
    [[ "$stderr" == *"multiply "*" of 11.2 KiB"* && "$stderr" != *" of 1.1 KiB"* ]] || { show; return 1; }
}

@test "the report shows a user the main figures and the rest under --verbose" {
    run --separate-stderr mpirun -q -n 1 "$MPIMATMUL" mul A.bin B.bin -o C.bin --device cpu --tail 0.5 \
        : -n 1 "$MPIMATMUL" mul A.bin B.bin -o C.bin --device faulty:delay=50ms:cpu --tail 0.5 < /dev/null
    expect_quiet_success
    grep -q -E '^ +0 +[^ ]+ +cpu +[0-9]+ \([0-9]+ stolen\) +[0-9.]+ % ' <<< "$output" || { show; return 1; }
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --tail 0.5
    expect_quiet_success
    [ "$(head -1 <<< "$output" | xargs)" = \
        "rank host device rows share set-up scatter compute check gather idle commit GFLOP/s" ]
    expect_line "result verified (Freivalds), 0 blocks recomputed"
    [ "$(wc -L <<< "$output")" -le 120 ] || { show; return 1; }
    run ! grep -E 'unused:|used in place|shared memory|lines checked|threads|shares the CPU' <<< "$output"
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --verbose
    expect_status 0
    expect_line "check: 61 lines checked, 0 wrong, 0 recomputed, seed 1"
    for words in 'used in place ' 'shared memory ' threads 'shares the CPU with rank 1'; do
        grep -q "$words" <<< "$output" || { echo "$words"; show; return 1; }
    done
    program mul A.bin B.bin -o C.bin --device cpu --verify off
    expect_line "result not verified"
    program mul A.bin B.bin -o C.bin --device faulty:corrupt=1:cpu
    expect_line "result verified (Freivalds), 1 block recomputed"
}

@test "mul --json prints the report, and mul --dry-run prints the plan" {
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --json --report report.json
    expect_quiet_success
    diff <(echo "$output") report.json
    rm C.bin
    # The free memory of a node changes from one run to the next.
    ranks 2 plan A.bin B.bin --device cpu --weights 1,2
    expected=$(sed -E 's/[0-9.]+ [GM]iB  maps/FREE  maps/' <<< "$output")
    [[ "$expected" == *"FREE  maps"* ]]
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --weights 1,2 --dry-run
    expect_quiet_success
    [ "$(sed -E 's/[0-9.]+ [GM]iB  maps/FREE  maps/' <<< "$output")" = "$expected" ] || { show; return 1; }
    [[ "$output" == "C = A B: A.bin x B.bin -> 61 x 47"* ]]
    ranks 2 mul A.bin B.bin -o C.bin --device cpu --weights 1,2 --dry-run --json --dtype float16
    expect_quiet_success
    echo "$output" > report.json
    report "r['schema'] == 'mpimatmul-plan'" "r['nodes'][0]['maps'] == ['A', 'B']" # C is not float32
    [ ! -e C.bin ]
}

@test "verify --json says whether the result is right" {
    "$MPIMATMUL" mul A.bin B.bin -o C.bin --device cpu --quiet
    program verify A.bin B.bin C.bin --json
    expect_quiet_success
    echo "$output" > report.json
    report "r['schema'] == 'mpimatmul-verify'" "r['right'] is True" "(r['rows_checked'], r['rows_wrong']) == (61, 0)" \
        "r['c'] == 'C.bin'"
    printf 'x' | dd of=C.bin bs=1 seek=$((20 + 4 * 47 * 5 + 3)) conv=notrunc status=none
    program verify A.bin B.bin C.bin --json
    expect_status 79
    echo "$output" > report.json
    report "r['right'] is False" "r['rows_wrong'] == 1" "r['first_wrong_row'] == 5"
    [[ "$stderr" == "mpimatmul: 'C.bin' is not 'A.bin' times 'B.bin': 1 of 61 rows wrong, "* ]]
}
