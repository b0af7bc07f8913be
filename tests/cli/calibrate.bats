#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# calibrate measures and stores speeds. mul and plan use them for the same ranks and measure
# otherwise. No test checks a time: only the source of the speeds, and the consequences of speeds
# written by hand.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

# The device is so slow by its own simulated clock that calibrate stops after the smallest size. No
# real time passes.
slow=faulty:clock=260ms:cpu
# A device that really is slower than the other rank's.
late=faulty:delay=150ms:cpu

# One calibration alone and one on two ranks serve all tests that only need a profile.
setup_file() {
    export XDG_CACHE_HOME=$BATS_FILE_TMPDIR/cache
    "$MPIMATMUL" calibrate --device $slow --quiet < /dev/null
    "${launch[@]}" -n 2 "$MPIMATMUL" calibrate --device $slow --quiet < /dev/null
}

# Each test has its own profiles, apart from other tests' and the user's.
setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    profile=$XDG_CACHE_HOME/mpimatmul/$(uname -n).json
    "$MPIMATMUL" gen A.bin --dims 300x20 --kind integer --seed 1 2> /dev/null
    "$MPIMATMUL" gen B.bin --dims 20x30 --kind integer --seed 2 2> /dev/null
    # Operands large enough that speeds are measured for them.
    "$MPIMATMUL" gen L.bin --dims 1100x1000 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen M.bin --dims 1000x1000 --kind integer --seed 2 --quiet
}

calibrated() {
    mkdir -p "$(dirname "$profile")"
    cp "$BATS_FILE_TMPDIR/cache/mpimatmul/$(uname -n).json" "$profile"
}

# Prints the line of --verbose about the source of the speeds.
expect_speeds() {
    # The mark of an unsteady machine is optional: other load on the machine is not tested here.
    if ! grep -q -E -x -e "mpimatmul: speeds: $1(, unstable)?" <<< "$stderr"; then
        echo "expected speeds: $1"
        show
        return 1
    fi
}

stored='stored profiles, measured 20[0-9-]{8}T[0-9:]{8}Z'

@test "calibrate prints devices, links and the name of the file it wrote" {
    ranks 2 calibrate --device $slow
    expect_quiet_success
    [[ "${lines[0]}" == rank*host*device*"GFLOP/s 256"*4096*"up GB/s"*"warm-up s"*memory ]]
    [ "$(wc -L <<< "$output")" -le 120 ] || { show; return 1; }
    [ "$(grep -c -E "^ +[01]  $(uname -n) +$slow" <<< "$output")" -eq 2 ]
    expect_line "one node: no links to measure"
    expect_line "profile of $(uname -n): $profile"
    [ "$(find "$XDG_CACHE_HOME" -type f)" = "$profile" ]
    [ "$(stat -c %a "$XDG_CACHE_HOME/mpimatmul")" = 700 ]
}

@test "--json prints the contents of the profile, and --quiet prints and stores nothing" {
    ranks 2 calibrate --device $slow --json
    expect_quiet_success
    printf '%s' "$output" > said.json
    python "$profile" "$slow" << 'END'
import json, sys
said, stored = json.load(open("said.json")), json.load(open(sys.argv[1]))
assert said["schema"] == "mpimatmul-calibration" and stored["schema"] == "mpimatmul-profile"
assert said["nodes"] == [{"host": stored["host"], "root_link": None, "ring_link": None, "profile": sys.argv[1]}]
assert stored["schema_version"] == 1 and stored["links"] == []
by_cores = {device["cores"]: device for device in stored["devices"]}
assert all(device["sharing"] == 2 and device["device"] == sys.argv[2] for device in stored["devices"])
for rank in said["ranks"]:
    sizes = [rate["size"] for rate in rank["gemm"]]
    assert sizes and sizes == [256, 512, 1024, 2048, 4096][:len(sizes)]
    assert all(rate["flops_per_second"] > 0 for rate in rank["gemm"])
    doubles = [rate["size"] for rate in rank["gemm_float64"]]
    assert doubles == sizes[:len(doubles)] and doubles and rank["gemm_float64"][-1]["flops_per_second"] > 0
    assert rank["upload_bytes_per_second"] is None
if len(by_cores) == 2:
    assert sorted(map(str, (r["gemm"] for r in said["ranks"]))) == \
        sorted(map(str, (d["gemm"] for d in by_cores.values())))
    assert sorted(map(str, (r["gemm_float64"] for r in said["ranks"]))) == \
        sorted(map(str, (d["gemm_float64"] for d in by_cores.values())))
END
    rm "$profile"
    program calibrate --device $slow --quiet
    expect_quiet_success
    [ -z "$output" ] && [ -s "$profile" ]
}

@test "mul uses the speeds that plan announces, also if its result is discarded" {
    calibrated
    "$MPIMATMUL" convert L.bin H.npy --dtype float16 --quiet
    for operands in "L.bin M.bin" "H.npy H.npy --transpose-b"; do
        for options in "" "--tail off" "--weights 0.7,0.3"; do
            # shellcheck disable=SC2086 # several words
            ranks 2 plan $operands --device $slow --json $options
            expect_quiet_success
            printf '%s' "$output" > plan.json
            # shellcheck disable=SC2086
            ranks 2 mul $operands -o C.bin --device $slow --quiet --report report.json $options
            expect_quiet_success
            python << 'END'
import json
plan, report = (json.load(open(name)) for name in ("plan.json", "report.json"))
for key in ("begin", "end"):
    assert [r[key] for r in plan["ranks"]] == [r[key] for r in report["ranks"]], key
assert 0 <= report["segment_bytes"] - sum(n["segment_bytes"] for n in plan["nodes"]) <= 16384, "what ranks say"
assert abs(plan["predicted_seconds"] - report["predicted_seconds"]) <= 1e-6 * report["predicted_seconds"]
END
        done
    done
}

@test "plans use speeds stored for the same ranks, and no others" {
    ranks 2 plan L.bin M.bin --device $slow --verbose
    expect_speeds "measured now"
    [ ! -e "$XDG_CACHE_HOME" ]  # plan and mul store nothing
    calibrated
    ranks 2 plan L.bin M.bin --device $slow --verbose
    expect_speeds "$stored"
    ranks 2 mul A.bin B.bin -o C.bin --device $slow --verbose
    expect_status 0
    expect_speeds "$stored"
    program plan L.bin M.bin --device $slow --verbose
    expect_speeds "$stored"
    cp "$profile" before.json
    for other in "1 --threads 3" "2 --threads 3" "2 --device cpu" "3"; do
        read -r count options <<< "$other"
        # shellcheck disable=SC2086 # several words
        ranks $count plan L.bin M.bin --device $slow --verbose ${options:-}
        expect_status 0
        expect_speeds "measured now" || { echo "$other"; return 1; }
    done
    cmp before.json "$profile"
}

@test "a CPU that runs alone is not measured, because it has no rank to share with" {
    program mul L.bin M.bin -o C.bin --device cpu --verbose
    expect_status 0
    expect_speeds "not measured"
    program plan L.bin M.bin --device cpu --verbose
    expect_speeds "measured now"
    ranks 2 mul L.bin M.bin -o C.bin --device cpu --verbose
    expect_speeds "measured now"
}

@test "if one rank has no stored speed, all ranks are measured, or with --weights none" {
    calibrated
    local plan=("$MPIMATMUL" plan L.bin M.bin --device "$slow" --verbose)
    run --separate-stderr "${launch[@]}" -n 1 "${plan[@]}" : -n 1 "${plan[@]}" --threads 3 < /dev/null
    expect_status 0
    expect_speeds "measured now"
    plan+=(--weights '1,2')
    run --separate-stderr "${launch[@]}" -n 1 "${plan[@]}" : -n 1 "${plan[@]}" --threads 3 < /dev/null
    expect_status 0
    expect_speeds "not measured"
    [[ "$output" == *"device speeds not measured"* ]]
}

@test "a speed of another program version or of another driver is not used" {
    calibrated
    cp "$profile" good.json
    for change in 's/"version": "[^"]*"/"version": "0.0.9"/' 's/"driver": "[^"]*"/"driver": "older"/'; do
        sed "$change" good.json > "$profile"
        ! cmp -s good.json "$profile"
        program plan L.bin M.bin --device $slow --verbose
        expect_speeds "measured now"
    done
    cp good.json "$profile"
    program plan L.bin M.bin --device $slow --verbose
    expect_speeds "$stored"
}

# Kernels that any x86-64 processor can run, whichever the library would choose itself.
@test "a speed of other kernels, or of a file that names none, is not used, and --verbose says so" {
    [ "$(uname -m)" = x86_64 ] || skip "no x86-64: other kernels"
    run --separate-stderr env OPENBLAS_CORETYPE=Prescott "$MPIMATMUL" calibrate --device $slow < /dev/null
    expect_quiet_success
    local lack="(, not of this processor's [A-Z0-9-]+)?"
    grep -qE "^rank 0: OpenBLAS's kernels are Prescott, OPENBLAS_CORETYPE=Prescott is set$lack$" \
        <<< "$output" || { show; return 1; }
    local unused="the stored speed of rank 0 is not used:"
    local plan=("$MPIMATMUL" plan L.bin M.bin --device "$slow" --verbose)
    run --separate-stderr env OPENBLAS_CORETYPE=Prescott "${plan[@]}" < /dev/null
    expect_speeds "$stored"
    [[ "$stderr" != *"not used"* ]]
    run --separate-stderr env OPENBLAS_CORETYPE=Nehalem "${plan[@]}" < /dev/null
    expect_speeds "measured now"
    grep -qx "mpimatmul: $unused measured with kernels Prescott, now Nehalem" <<< "$stderr" || { show; return 1; }
    run --separate-stderr env OPENBLAS_CORETYPE=Prescott OPENBLAS_L2_SIZE=512 "${plan[@]}" < /dev/null
    expect_speeds "measured now"
    grep -qx "mpimatmul: $unused measured with kernels Prescott, now Prescott OPENBLAS_L2_SIZE=512" <<< "$stderr"
    sed -i '/"kernels":/d' "$profile"  # the format of an earlier version
    run --separate-stderr env OPENBLAS_CORETYPE=Prescott "${plan[@]}" < /dev/null
    expect_speeds "measured now"
    grep -qx "mpimatmul: $unused measured with kernels not named, now Prescott" <<< "$stderr"
}

# set_speeds FLOPS...: sets the speeds of the devices in the profile, ordered by their cores. All
# sizes get the same.
set_speeds() {
    python "$profile" "$@" << 'END'
import json, sys
path, speeds = sys.argv[1], [float(text) for text in sys.argv[2:]]
profile = json.load(open(path))
profile["devices"] = [device for device in profile["devices"] if device["sharing"] == len(speeds)]
profile["devices"].sort(key=lambda device: device["cores"])
assert len(profile["devices"]) == len(speeds)
for device, speed in zip(profile["devices"], speeds):
    device["gemm"] = [{"size": 256, "flops_per_second": speed}]
json.dump(profile, open(path, "w"))
END
}

@test "stored speeds decide the shares" {
    [ "$(nproc)" -ge 2 ] || skip "one core only: the ranks cannot be told apart"
    calibrated
    set_speeds 1e6 1e8
    ranks 2 mul A.bin B.bin -o C.bin --device $slow --split rows --report report.json
    expect_status 0
    python << 'END'
import json
ranks = json.load(open("report.json"))["ranks"]
assert [rank["calibrated_flops_per_second"] for rank in ranks] == [1e6, 1e8]
assert ranks[0]["end"] - ranks[0]["begin"] < 30
END
    "$MPIMATMUL" mul A.bin B.bin -o D.bin --device cpu --quiet
    cmp C.bin D.bin
}

# set_device INDEX DEVICE: renames device INDEX of the profile, counted in the order of their cores.
set_device() {
    python "$profile" "$@" << 'END'
import json, sys
path, index, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
profile = json.load(open(path))
profile["devices"][index]["device"] = profile["devices"][index]["name"] = name
json.dump(profile, open(path, "w"))
END
}

# lines_claimed: prints the number of rank 1's lines that rank 0 computed, and of the products with
# such lines.
lines_claimed() {
    python << 'END'
import json
first, second = json.load(open("report.json"))["ranks"]
assert first["claimed"] == second["given"] and second["claimed"] == 0, (first, second)
print(f"{first['claimed']:.0f} {first['claims']}")
END
}

@test "between two slices of its sums a rank gives up lines that other ranks would finish sooner" {
    [ "$(nproc)" -ge 2 ] || skip "one core only: the ranks cannot be told apart"
    "$MPIMATMUL" gen T.bin --dims 1100x2100 --kind integer --seed 3 --quiet
    "$MPIMATMUL" gen U.bin --dims 2100x700 --kind integer --seed 4 --quiet
    "$MPIMATMUL" gen V.bin --dims 1100x700 --kind integer --seed 5 --quiet
    local fast=faulty:repeat=1:cpu
    # Stored speeds give the second rank most of the work, although it is far slower. Then its
    # device is lost or wrong in its second and last slice. Then the first rank's device fails in
    # stolen lines.
    for row in "$fast $late" "$fast faulty:delay=150ms,fail=2:cpu" "$fast faulty:delay=150ms,fail=4:cpu" \
        "$fast faulty:delay=150ms,corrupt=2:cpu" "$fast faulty:delay=150ms,corrupt=4:cpu" \
        "faulty:fail=5:cpu $late" "faulty:corrupt=5:cpu $late"; do
        local devices
        read -r -a devices <<< "$row"
        calibrated
        set_speeds 1e8 1e9
        set_device 0 "${devices[0]}"
        set_device 1 "${devices[1]}"
        local words=(mul T.bin U.bin -o C.bin --alpha 2 --beta 3 --c-in V.bin --split rows --report report.json)
        run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" "${words[@]}" --device "${devices[0]}" \
            : -n 1 "$MPIMATMUL" "${words[@]}" --device "${devices[1]}" < /dev/null
        expect_status 0 || { echo "$row"; return 1; }
        "$MPIMATMUL" mul T.bin U.bin -o D.bin --alpha 2 --beta 3 --c-in V.bin --device cpu --quiet
        cmp C.bin D.bin || { echo "$row"; show; return 1; }
        [[ "$row" != *fail=* || "$stderr" == *"is replaced by"* ]] || { echo "$row"; show; return 1; }
        [[ "$row" != *corrupt=* || "$output" == *"1 block recomputed"* ]] || { echo "$row"; show; return 1; }
        read -r lines claims <<< "$(lines_claimed)"
        [ "$lines" -gt 0 ] || { echo "$row: $lines lines, $claims"; return 1; }
    done
    # The owner's device had added wrong terms to the lines that it gave up. No other device is
    # blamed.
    for rule in corrupt=1 'garble=*'; do
        calibrated
        set_speeds 1e8 1e9
        set_device 0 $fast
        set_device 1 "faulty:delay=150ms,$rule:cpu"
        words=(mul T.bin U.bin -o C.bin --split rows --report report.json)
        run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" "${words[@]}" --device $fast \
            : -n 1 "$MPIMATMUL" "${words[@]}" --device "faulty:delay=150ms,$rule:cpu" < /dev/null
        expect_status 0
        "$MPIMATMUL" mul T.bin U.bin -o D.bin --device cpu --quiet
        cmp C.bin D.bin
        [[ "$stderr" != *"rank 0: device"* ]] || { show; return 1; }
        [[ "$stderr" == *"rows "*" were wrong as rank 1 had begun them: computed again"* ]] || { show; return 1; }
    done
    # A thief's device hangs after it has added terms to some of the lines.
    "$MPIMATMUL" gen S.bin --dims 6x300x2100 --kind integer --seed 7 --quiet
    "$MPIMATMUL" gen R.bin --dims 6x2100x200 --kind integer --seed 8 --quiet
    "$MPIMATMUL" mul S.bin R.bin -o D.bin --device cpu --quiet
    calibrated
    set_speeds 1e9 1e8
    set_device 0 $late
    set_device 1 faulty:hang=4:cpu
    words=(mul S.bin R.bin -o C.bin --split rows --verify off --device-timeout 1.5)
    run --separate-stderr "${launch[@]}" -n 1 "$MPIMATMUL" "${words[@]}" --device $late \
        : -n 1 "$MPIMATMUL" "${words[@]}" --device faulty:hang=4:cpu < /dev/null
    expect_status 0
    [[ "$stderr" == *"it hangs"* ]] || { show; return 1; }
    cmp C.bin D.bin
    # An owner with a single line gives it up, and no rank waits for lines that the owner no longer
    # has.
    "$MPIMATMUL" gen W.bin --dims 2x2100 --kind integer --seed 6 --quiet
    calibrated
    set_speeds 1e9 1e9
    set_device 0 $fast
    words=(mul W.bin U.bin -o C.bin --split rows --report report.json)
    run --separate-stderr timeout 60 "${launch[@]}" -n 1 "$MPIMATMUL" "${words[@]}" --device $fast \
        : -n 1 "$MPIMATMUL" "${words[@]}" --device $late < /dev/null
    expect_status 0
    "$MPIMATMUL" mul W.bin U.bin -o D.bin --device cpu --quiet
    cmp C.bin D.bin
}

@test "a measured speed above the stored one is not printed as a percentage, and an unstable one is marked" {
    calibrated
    "$MPIMATMUL" gen S.bin --dims 700x700 --kind integer --seed 3 --quiet
    set_speeds 1e6
    program mul S.bin S.bin -o C.bin --device $slow
    expect_status 0
    grep -q -F "(more than the devices' measured speed)" <<< "$output"
    [[ "$output" != *" % of the devices"* ]]
    sed -i 's/"flops_per_second": 1000000.0}/"flops_per_second": 1e15, "unstable": true}/' "$profile"
    program mul S.bin S.bin -o C.bin --device $slow --report report.json --verbose
    grep -q -F "(the devices' speeds were measured, but unstable)" <<< "$output"
    [[ "$stderr" == *"speeds: stored profiles, measured "*", unstable"* ]]
    python <<< 'import json; assert json.load(open("report.json"))["ranks"][0]["speed_unstable"]'
}

@test "given weights are predicted with stored speeds, and without those nothing is measured" {
    ranks 2 plan A.bin B.bin --device $slow --weights 1,2 --verbose
    expect_status 0
    expect_speeds "not measured"
    [ ! -e "$XDG_CACHE_HOME" ]
    calibrated
    ranks 2 plan A.bin B.bin --device $slow --weights 1,2 --verbose
    expect_status 0
    expect_speeds "$stored"
    [[ "$output" != *"speeds not measured"* ]]
    ranks 2 plan A.bin B.bin --device $slow --weights equal --verbose
    expect_speeds "$stored"
}

@test "an unusable profile is ignored with one warning that names it" {
    mkdir -p "$(dirname "$profile")"
    local head='{"schema": "mpimatmul-profile", "schema_version":'
    for row in "not json|is not valid JSON: line 1, column 3: '[' or '{' expected near 'not'" \
        "$head 9}|has schema version 9, expected 1" \
        "$head 1, \"host\": \"other\"}|is no profile of this program: it belongs to another host"; do
        printf '%s' "${row%%|*}" > "$profile"
        ranks 2 mul A.bin B.bin -o C.bin --device cpu
        expect_status 0
        [ "$stderr" = "mpimatmul: warning: stored profile ignored: '$profile' ${row#*|}" ] || { show; return 1; }
        ranks 2 plan A.bin B.bin --device cpu --weights equal
        [ "$stderr" = "mpimatmul: warning: stored profile ignored: '$profile' ${row#*|}" ] || { show; return 1; }
        [ "$(cat "$profile")" = "${row%%|*}" ]
    done
    rm "$profile"
    mkfifo "$profile"
    program plan A.bin B.bin --device cpu
    expect_status 0
    [ "$stderr" = "mpimatmul: warning: stored profile ignored: cannot read '$profile': not a regular file" ]
}

@test "calibrate replaces an unusable profile" {
    mkdir -p "$(dirname "$profile")"
    echo '[' > "$profile"
    program calibrate --device $slow
    expect_status 0
    [[ "$stderr" == "mpimatmul: warning: stored profile replaced: '$profile' is not valid JSON: "* ]]
    program plan A.bin B.bin --device $slow --verbose
    expect_speeds "$stored"
}

@test "an unwritable profile folder ends calibrate with 73 before any measurement" {
    echo text > file
    XDG_CACHE_HOME=$PWD/file ranks 2 calibrate --device faulty:delay=60s:cpu
    expect_failure 73 "cannot store the profile '$PWD/file/mpimatmul/$(uname -n).json': cannot create folder \
'$PWD/file': File exists"
    unset XDG_CACHE_HOME
    HOME='' program calibrate --device $slow
    expect_failure 73 "no folder for profiles: neither XDG_CACHE_HOME nor HOME is set"
    HOME=$PWD/home program calibrate --device $slow --quiet
    expect_quiet_success
    [ -s "home/.cache/mpimatmul/$(uname -n).json" ]
}

@test "a failing device is replaced, and the profile holds its replacement" {
    # The plain loops that follow a failing CPU would take a minute to measure.
    "$MPIMATMUL" devices --json | grep -q '"id": "0:0"' || skip "opencl: no device 0:0"
    program calibrate --device faulty:fail=1:0:0 --threads 1
    expect_status 0
    [[ "$stderr" == "mpimatmul: warning: rank 0: device 'faulty:fail=1:0:0 "*"'cpu': "* ]]
    [ "$(grep '"device": ' "$profile" | xargs)" = "device: cpu," ]
}

@test "an OpenCL device has transfers and a warm-up in its profile" {
    "$MPIMATMUL" devices --json | grep -q '"id": "0:0"' || skip "opencl: no device 0:0"
    program calibrate --device faulty:clock=260ms:0:0 --json  # only one size
    expect_status 0
    printf '%s' "$output" > said.json
    python << 'END'
import json
rank = json.load(open("said.json"))["ranks"][0]
assert rank["upload_bytes_per_second"] > 0 and rank["download_bytes_per_second"] > 0
assert rank["warm_up_seconds"] > 0 and rank["memory_bytes"] > 0
END
}
