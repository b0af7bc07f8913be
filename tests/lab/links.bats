#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Faults between two hosts: bytes that change on the way, a remote rank that dies, a host that is
# cut off. The job ends, prints one line if it still can, and leaves an existing result unchanged.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load ../cli/helper
load hosts

setup_file() {
    lab_up 2
}

teardown_file() {
    lab_down
}

# Large enough that no message of the run's own (plan, options) has this size.
setup() {
    lab_begin_test || return 1
    "$MPIMATMUL" gen A.bin --dims 301x203 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 203x151 --kind integer --seed 2
    "$MPIMATMUL" gen C.bin --dims 301x151 --kind integer --seed 3
    "$MPIMATMUL" gen D.bin --dims 5x5 --kind integer --seed 4
    cp D.bin old.bin
}

hosts=node1:1,node2:1

# job ARGUMENTS...: computes A B into D on both hosts. $before stands between mpirun and the
# program.
job() {
    # shellcheck disable=SC2086 # before is several words, or none
    run --separate-stderr lab_mpirun $hosts -n 2 ${before:-} "$LAB_FOLDER/rank" "$MPIMATMUL" mul A.bin B.bin \
        -o D.bin --weights equal --device cpu --io root "$@"
    stderr+=$(cat err.0 err.1)
}

# contexts OPTIONS: computes A B into D; rank 1, on node2, has other options.
contexts() {
    local common=("$LAB_FOLDER/rank" "$MPIMATMUL" mul A.bin B.bin -o D.bin --weights equal --io root)
    # shellcheck disable=SC2086 # several words
    run --separate-stderr lab_mpirun $hosts -n 1 -host node1 "${common[@]}" --device cpu \
        : -n 1 -host node2 "${common[@]}" $1
    stderr+=$(cat err.0 err.1)
}

expect_one_line() {
    if [ "$(grep -c '^mpimatmul: ' <<< "$stderr")" -ne 1 ] || [[ "$stderr" != *"mpimatmul: "*"$1"* ]]; then
        printf 'expected one line of ours, with\n%s\n' "$1"
        show
        return 1
    fi
}

# The old result, and no temporary file.
expect_old_result() {
    cmp old.bin D.bin && [ ! -e D.bin.part ]
}

expect_right_result() {
    "$MPIMATMUL" mul A.bin B.bin --device cpu -o alone.bin --quiet "$@" && cmp alone.bin D.bin
}

@test "a bit that changes on the way is found in either direction" {
    local message before="-x LD_PRELOAD=$BUILD/tests/tamper.so -x MMUL_TAMPER"
    for message in scatterv scatterv:2 send gatherv; do
        export MMUL_TAMPER=$message
        job --split rows --beta 1 --c-in C.bin
        expect_status 71
        expect_one_line "bytes changed in transit between root and node 1"
        [ -z "$output" ]
        expect_old_result
    done
    # The same helper without orders succeeds, so the flipped bit ends the job.
    MMUL_TAMPER=none job --split rows --beta 1 --c-in C.bin
    expect_status 0
    expect_right_result --beta 1 --c-in C.bin
}

@test "a missing device on the remote host is refused" {
    contexts "--device 7:7"
    expect_status 69
    expect_one_line ""
    [[ "$stderr" == *"'7:7'"* && "$stderr" == *node2* ]] || { show; return 1; }
    expect_old_result
}

@test "after a device of the remote host is lost, the CPU there takes over" {
    contexts "--device faulty:fail=*:cpu"
    expect_status 0
    expect_one_line "warning: rank 1"
    expect_right_result
}

# Root and the other rank of node2 wait for blocks that never arrive, and get the error instead.
@test "without a replacement, a lost device of the remote host ends the job with 69" {
    local common=("$MPIMATMUL" mul A.bin B.bin -o D.bin --weights equal --io root --no-fallback)
    local tail
    for tail in off 0.5; do
        run --separate-stderr lab_mpirun node1:1,node2:2 -n 1 -host node1 "${common[@]}" --device cpu --tail $tail \
            : -n 1 -host node2 "${common[@]}" --device cpu --tail $tail \
            : -n 1 -host node2 "${common[@]}" --device faulty:fail=1:cpu --tail $tail
        expect_status 69
        expect_one_line "rank 2 on node2"
        expect_old_result
    done
}

# start_slow_job: starts a job of many seconds and waits until D.bin.part exists.
start_slow_job() {
    local common=("$MPIMATMUL" mul A.bin B.bin -o D.bin --weights equal --io root --device) slow=faulty:delay=40s:cpu i
    lab_mpirun $hosts --tune "$REPO/scripts/mpimatmul.tune" -n 1 -host node1 "${common[@]}" cpu \
        : -n 1 -host node2 "${common[@]}" $slow > job.out 2> job.err 3>&- &
    job=$!
    for ((i = 0; i < 100; i++)); do
        [ ! -e D.bin.part ] || break
        sleep 0.1
    done
    sleep 0.5
    [ -n "$(lab_program_pids node2)" ]
}

# expect_job_end LEAST MOST: mpirun's exit code, which is none of the program's.
expect_job_end() {
    local code=0
    wait "$job" || code=$?
    if [ "$code" -lt "$1" ] || [ "$code" -gt "$2" ]; then
        echo "expected mpirun to end with $1 to $2, found $code"
        cat job.out job.err
        return 1
    fi
    cmp old.bin D.bin
}

# A killed run cannot clean up its files. The next one does.
expect_next_run() {
    job
    expect_status 0
    expect_right_result
    [ ! -e D.bin.part ]
}

@test "a killed rank of the remote host ends the job" {
    start_slow_job
    # shellcheck disable=SC2046 # one or several
    kill -KILL $(lab_program_pids node2)
    expect_job_end 130 143
    expect_next_run
}

@test "a host that is cut off ends the job, with the settings of mpimatmul.tune" {
    start_slow_job
    lab_cut node2
    expect_job_end 200 210
    lab_mend node2
    lab_clear > /dev/null
    expect_next_run
}

# start_turns HOSTS ARGUMENTS...: starts a loop with a checkpoint in every turn and waits for the
# first one.
start_turns() {
    local on=$1 i
    shift
    printf '%s\n' 'x = generate((4, 4), seed=1)' 'for i in loop(100000000):' '    x = tanh(x * 0.9 + 0.1)' \
        '    checkpoint("c.safetensors", (x, x * 2), turn=i + 1)' > turns.py
    lab_mpirun "$on" "$@" -n 2 "$MPIMATMUL" run turns.py > job.out 2> job.err 3>&- &
    job=$!
    for ((i = 0; i < 100; i++)); do
        [ ! -e c.safetensors ] || break
        sleep 0.1
    done
    [ -n "$(lab_program_pids node1)" ] && [ -n "$(lab_program_pids node2)" ]
}

# The process of mpirun: in the launcher's namespace, and not an agent of one of the hosts.
launcher_pid() {
    local pid
    for pid in $(ip netns pids "$LAB_NAME-launcher"); do
        [ "$(cat "/proc/$pid/comm")" != mpirun ] || echo "$pid"
    done
}

expect_all_gone() {
    local host
    for host in node1 node2; do
        [ -z "$(lab_program_pids $host)" ] || { echo "ranks still run on $host"; return 1; }
    done
}

# expect_no_more_commits: no checkpoint is written any more, and the last one is complete.
expect_no_more_commits() {
    local before
    before=$(stat -c '%i %Z' c.safetensors)
    sleep 1.2
    [ "$(stat -c '%i %Z' c.safetensors)" = "$before" ]
    "$MPIMATMUL" info c.safetensors > info.out
}

@test "ranks of both hosts end when mpirun is killed, with its daemons as their launchers" {
    start_turns $hosts
    kill -KILL "$(launcher_pid)"
    wait "$job" || true
    sleep 0.5
    expect_all_gone
    expect_no_more_commits
}

# Both sides, mpirun and the host's daemon, notice the cut after the seconds that mpimatmul.tune
# sets.
@test "ranks of both hosts end when root's host is cut off" {
    local i
    start_turns $hosts --tune "$REPO/scripts/mpimatmul.tune"
    lab_cut node1
    wait "$job" || true
    for ((i = 0; i < 600; i++)); do
        [ -n "$(lab_program_pids node1)$(lab_program_pids node2)" ] || break
        sleep 0.1
    done
    expect_all_gone
    expect_no_more_commits
    lab_mend node1
    lab_clear > /dev/null
    expect_next_run
}
