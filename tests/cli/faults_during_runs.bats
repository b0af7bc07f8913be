#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Changes while a job runs: devices that hang or become slow, files that become shorter. The result
# is right or there is none.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    "$MPIMATMUL" gen A.bin --dims 61x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x47 --kind integer --seed 2
}

# job DEVICE DEVICE ARGUMENTS...: writes A B to D, rank 0 on the first device, rank 1 on the second.
job() {
    local mine=$1 theirs=$2
    shift 2
    local common=("$MPIMATMUL" mul A.bin B.bin -o D.bin --progress none --weights equal "$@")
    run --separate-stderr timeout 60 mpirun -q -n 1 "${common[@]}" --device "$mine" \
        : -n 1 "${common[@]}" --device "$theirs" < /dev/null
}

# claimed RANK CONDITION: holds for the number of others' rows that a rank has computed, by the
# report.
claimed() {
    py -c "import json
claimed = json.load(open('report.json'))['ranks'][$1]['claimed']
assert claimed $2, claimed"
}

# expect_right_result ARGUMENTS...: D equals the result of one CPU for A, B and the arguments.
expect_right_result() {
    "$MPIMATMUL" mul A.bin B.bin --device cpu -o alone.bin --quiet "$@" && cmp alone.bin D.bin
}

@test "a hanging device is replaced and its rows are computed again" {
    job cpu faulty:hang=1:cpu --device-timeout 0.3 --tail off
    expect_status 0
    expect_right_result
    [[ "$stderr" == *"warning: rank 1: device 'faulty:hang=1:cpu "*"'reference': it hangs"* ]] ||
        { show; return 1; }
    [[ "$output" == *"replaced by reference"* ]]
}

@test "a device that hangs in stolen rows is replaced" {
    # Rank 1 has three products of its own, and has not finished them before rank 0 begins.
    job faulty:delay=400ms:cpu faulty:delay=50ms,hang=4:cpu --device-timeout 0.4 --tail 0.6 --report report.json
    expect_status 0
    expect_right_result
    [[ "$stderr" == *"it hangs"* ]] || { show; return 1; }
    claimed 1 ">= 1"
}

@test "rows stolen from a rank with a hanging device are not computed again" {
    # The device hangs in its first product. The other ranks have stolen all its other rows before
    # it is replaced.
    job cpu faulty:hang=1:cpu --device-timeout 3 --tail 0.9 --report report.json
    expect_status 0
    expect_right_result
    [[ "$stderr" == *"'reference': it hangs"* ]] || { show; return 1; }
    claimed 0 "> 20"
}

@test "a device that fails, or errs, in stolen rows is replaced" {
    for rule in fail=4 corrupt=4 garble=4; do
        job faulty:delay=400ms:cpu faulty:$rule:cpu --tail 0.6 --report report.json
        expect_status 0
        expect_right_result
        claimed 1 ">= 1"
        [[ "$stderr" == *"rank 1: "*"is replaced by"* ]] || { show; return 1; }
    done
}

@test "a hanging device that wakes up later damages nothing" {
    for name in A B C_in; do
        "$MPIMATMUL" gen $name.bin --dims 6x1x100x100 --kind integer --seed ${#name} --quiet
    done
    # The device wakes up while the other rank is still computing. With beta, a product added twice
    # would show.
    job faulty:delay=400ms:cpu faulty:hang=1,wake=1s:cpu --device-timeout 0.3 --beta 1 --c-in C_in.bin
    expect_status 0
    [[ "$stderr" == *"'reference': it hangs"* ]] || { show; return 1; }
    expect_right_result --beta 1 --c-in C_in.bin
}

@test "a slow CPU does not count as a hanging device" {
    job cpu faulty:delay=800ms:cpu --device-timeout 0.1 --tail off
    expect_status 0
    expect_right_result
    [ -z "$stderr" ] || { show; return 1; }
    program mul A.bin B.bin -o E.bin --device reference --device-timeout 0.001 --quiet
    expect_status 0
    cmp E.bin D.bin
}

@test "a device that hangs in its measurement is replaced" {
    # large enough to be measured
    "$MPIMATMUL" gen A.bin --dims 1100x1000 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 1000x1000 --kind integer --seed 2 --quiet
    job cpu faulty:hang=3:cpu --device-timeout 2 --weights auto --tail off
    expect_status 0
    expect_right_result
    [[ "$stderr" == *"device 'faulty:hang=3:cpu "*"'reference': device 'cpu "*"hangs: a call exceeded 2 s" ]] ||
        { show; return 1; }
    rm D.bin
    job cpu faulty:hang=3:cpu --device-timeout 2 --weights auto --tail off --no-fallback
    expect_status 69
    [[ "$stderr" == *"rank 1"*"device 'cpu "*"hangs: a call exceeded 2 s"*"hint: leave out --no-fallback"* ]] ||
        { show; return 1; }
    [ ! -e D.bin ]
}

@test "without a replacement, a device that hangs in stolen rows ends the job" {
    # By then the owner of the stolen rows has begun all its own.
    job faulty:delay=150ms:cpu faulty:hang=4:cpu --device-timeout 5 --tail 0.6 --no-fallback
    expect_status 69
    [[ "$stderr" == *"rank 1"*"device 'faulty:hang=4:cpu' hangs"*"hint: leave out --no-fallback"* ]] ||
        { show; return 1; }
    [ ! -e D.bin ] && [ ! -e D.bin.part ]
}

@test "without a replacement, a hanging device ends the job" {
    job cpu faulty:hang=1:cpu --device-timeout 0.3 --no-fallback
    expect_status 69
    [[ "$stderr" == *"rank 1"*"device 'faulty:hang=1:cpu' hangs"*"hint: leave out --no-fallback"* ]] ||
        { show; return 1; }
    [ ! -e D.bin ] && [ ! -e D.bin.part ]
}

# claims RANK CONDITION: holds for the number of times that a rank stole rows, in all products of a
# program.
claims() {
    py -c "import json
claims = json.load(open('report.json'))['ranks'][$1]['claims']
assert claims $2, claims"
}

@test "the faster rank steals rows in every product of a program, with and without a schedule of its own" {
    "$MPIMATMUL" gen X.bin --dims 1x12x61x203 --kind integer --seed 1
    "$MPIMATMUL" gen Y.bin --dims 1x12x203x47 --kind integer --seed 2
    cat > stacks.py << 'END'
save("D.bin", relu(relu(load("X.bin")) @ relu(load("Y.bin"))))
END
    cat > chain.py << 'END'
x = relu(load("A.bin")) @ load("B.bin")
y = relu(x) @ load("W.bin")
save("D.bin", relu(y) @ load("W.bin"))
END
    "$MPIMATMUL" gen W.bin --dims 47x47 --kind integer --seed 3
    for program in stacks chain; do
        for tail in 0.9 off; do
            local common=("$MPIMATMUL" run "$program.py" --progress none --weights equal --tail "$tail"
                --report report.json)
            rm -f D.bin
            run --separate-stderr timeout 60 mpirun -q -n 1 "${common[@]}" --device cpu \
                : -n 1 "${common[@]}" --device faulty:delay=20ms:cpu < /dev/null
            expect_status 0
            mv D.bin both.bin
            "$MPIMATMUL" run "$program.py" --device cpu --quiet
            cmp D.bin both.bin
            claims 1 "== 0"
            if [ "$tail" = off ]; then claims 0 "== 0"; else claims 0 "> 0"; fi
        done
    done
}

@test "all rows are there, whichever rank stole them" {
    # The last job is checked in more detail: its device is slow enough that other load on the
    # machine does not matter.
    for row in "20 --tail 0.001" "20 --tail 0.3 --split cols" "20 --tail 0.9 --split rows" "150 --tail 0.9 --split cols"
    do
        read -r delay words <<< "$row"
        # shellcheck disable=SC2086 # several words
        job cpu "faulty:delay=${delay}ms:cpu" $words --report report.json
        expect_status 0
        expect_right_result
        python << 'END'
import json
ranks = json.load(open("report.json"))["ranks"]
assert abs(sum(r["claimed"] - r["given"] for r in ranks)) < 1e-9, ranks
assert abs(sum(r["share"] for r in ranks) - 1) < 1e-9, ranks
END
    done
    # The slow rank has kept a few of its nine tenths.
    claimed 0 "> 10"
    claimed 1 "== 0"
    job cpu cpu --tail off --report report.json
    expect_status 0
    claimed 0 "== 0"
    claimed 1 "== 0"
}

# meanwhile RULES COMMAND...: starts a job of some seconds on devices with these rules, and then
# runs the command. Sets code.
meanwhile() {
    local rules=$1
    shift
    timeout 60 mpirun -q -n 2 "$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet --weights equal \
        --device "faulty:delay=2s$rules:cpu" > out 2> err < /dev/null 3>&- &
    for ((i = 0; i < 100; i++)); do
        [ ! -e D.bin.part ] || break
        sleep 0.1
    done
    sleep 0.7
    "$@"
    code=0
    wait $! || code=$?
}

@test "an input that becomes shorter while it is used ends the job" {
    meanwhile "" truncate -s 4096 A.bin
    [ $code -eq 65 ]
    grep -q "mpimatmul: 'A.bin' has become shorter than its header says: it ends at byte 4096" err
    [ ! -e D.bin ] && [ ! -e D.bin.part ]
}

# Here the device causes the wrong numbers, but the job cannot know that. --quiet hides neither of
# the lines.
@test "wrong numbers are blamed on a modified input, not on a device" {
    meanwhile ,corrupt=1 touch B.bin
    [ $code -eq 65 ]
    # Both ranks find it. mpirun may already have stopped the later one.
    [ "$(sed 's/rank 1 on [^:]*: //' err)" = "mpimatmul: 'B.bin' was written to while it was used
  hint: do not change inputs while the job runs" ] || { cat err; return 1; }
    [ ! -e D.bin ] && [ ! -e D.bin.part ]
    meanwhile "" touch B.bin
    [ $code -eq 0 ]
    grep -x "mpimatmul: warning: 'B.bin' was modified while it was read: the result may mix its old and \
its new contents" err
}

# The device of rank 0 is slow, which needs no notice.
@test "a stopped rank is named when it stops and when it continues" {
    stop_rank_1 3>&- &
    run --separate-stderr timeout 60 mpirun -q -n 2 "$(recorder)" "$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet \
        --weights equal --tail off --device faulty:delay=12s:cpu < /dev/null
    wait $!
    expect_status 0
    [[ "$stderr" == "mpimatmul: rank 1 on $(uname -n) has not responded for 10 s
mpimatmul: rank 1 on $(uname -n) responds again after "*" s" ]] || { show; return 1; }
    expect_right_result
}

# The plain loops that replace one rank's wrong results take some seconds.
@test "long plain loops give a notice" {
    [ "$MODE" != tsan ] || skip "tsan: they would take minutes"
    "$MPIMATMUL" gen A.bin --dims 5000x1500 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 1500x1700 --kind integer --seed 2 --quiet
    # also wrong when it computes the block again in another cut
    job cpu 'faulty:garble=*:cpu' --tail off
    expect_status 0
    expect_right_result
    grep -q -E "^mpimatmul: rank 1 on $(uname -n) recomputes with plain loops because its device gave wrong results: \
[0-9]+ % of 1700 lines$" <<< "$stderr" || { show; return 1; }
}

@test "when all blocks of all ranks are wrong, the job ends without plain loops" {
    "$MPIMATMUL" gen A.bin --dims 2500x2400 --seed 1 --quiet
    "$MPIMATMUL" gen B.bin --dims 2400x2500 --seed 2 --quiet
    program mul A.bin B.bin -o D.bin --device "faulty:garble=*:cpu" --quiet
    expect_status 79
    [[ "$stderr" == *"mpimatmul: all checked blocks are wrong, 1 on 1 rank; recomputing them with plain \
loops was given up
  hint: suspect a shared cause: OpenBLAS's kernels for this processor (OPENBLAS_CORETYPE=Haswell selects others), or \
memory" ]] || { show; return 1; }
    [ ! -e D.bin ] && [ ! -e D.bin.part ]
}

@test "--reproducible gives the same bits twice, at any speed of the devices" {
    "$MPIMATMUL" gen A.bin --dims 301x203 --kind normal --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x147 --kind normal --seed 2
    timeout 60 mpirun -q -n 2 "$MPIMATMUL" mul A.bin B.bin -o one.bin --reproducible --quiet < /dev/null
    timeout 60 mpirun -q -n 2 "$MPIMATMUL" mul A.bin B.bin -o two.bin --reproducible --quiet < /dev/null
    cmp one.bin two.bin
}

# A missing heartbeat is not a failure of the run, and no rank waits for a rank that cannot receive.
@test "a rank that receives no heartbeats ends all the same" {
    local rank ears=(env "LD_PRELOAD=$BUILD/tests/refuse.so") command=("$MPIMATMUL" mul A.bin B.bin -o D.bin --quiet)
    for rank in 0 1; do
        local mine=() theirs=()
        [ $rank -ne 0 ] || mine=("${ears[@]}" MMUL_REFUSE=0:receive.9001:1+)
        [ $rank -ne 1 ] || theirs=("${ears[@]}" MMUL_REFUSE=1:receive.9002:1+)
        run --separate-stderr timeout 30 mpirun -q -n 1 "${mine[@]}" "${command[@]}" \
            : -n 1 "${theirs[@]}" "${command[@]}" < /dev/null
        expect_quiet_success && expect_right_result || return 1
    done
}
