#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# run: a rank that fails or is killed in the middle of a program, and the memory of a long program.

load helper

# shellcheck disable=SC2016 # a script in quotes
# Runs in a namespace with a /dev/shm of its own. `left` lists the files there at the end.
alone() {
    unshare --mount true 2> /dev/null || skip "cannot make a mount namespace"
    run --separate-stderr timeout 60 unshare --mount bash -c 'mount -t tmpfs none /dev/shm
        "$@"
        code=$?
        ls -A /dev/shm > left
        exit $code' alone "$@"
}

loop='x = load("X.bin")
y = x
for i in range(20):
    y = relu(x @ y) % 3
save("Y.npy", y)'

@test "run: without a device to take over, one that fails in the middle ends the job" {
    "$MPIMATMUL" gen X.bin --dims 300x300 --kind integer --seed 1 -q
    echo "$loop" > e.py
    local common=("$MPIMATMUL" run e.py --no-fallback --device)
    alone "${launch[@]}" -n 1 "${common[@]}" cpu : -n 1 "${common[@]}" faulty:fail=7:cpu : \
        -n 1 --oversubscribe "${common[@]}" cpu
    [[ $stderr == 'mpimatmul: rank 1 on '*": device 'faulty:fail=7:cpu' was lost at multiplication 7 by rule"* ]]
    expect_status 69
    [ "${#stderr_lines[@]}" -eq 2 ] # the hint
    [ ! -s left ] && rm left
    expect_only_files X.bin e.py
}

@test "run: a rank killed in the middle ends the job and leaves no file" {
    "$MPIMATMUL" gen X.bin --dims 300x300 --kind integer --seed 1 -q
    echo "$loop" > e.py
    cat > record <<'END'
#!/bin/sh
echo $$ > pid.$OMPI_COMM_WORLD_RANK
exec "$@"
END
    chmod +x record
    cat > job <<'END'
#!/usr/bin/env bash
mpirun -q --oversubscribe -n 3 ./record "$MPIMATMUL" run e.py --device faulty:delay=3s:cpu &
until [ -e Y.npy.part ] && [ -s pid.1 ]; do sleep 0.05; done
sleep 0.5
kill -KILL "$(< pid.1)"
wait $!
END
    chmod +x job
    export MPIMATMUL
    alone ./job
    local killed="mpimatmul: stopped by SIGTERM: no result was written"
    expect_status 137
    # mpirun may end root in the middle of its words.
    [[ "${stderr:-$killed}" == "$killed"* ]] || { show; return 1; }
    case ${stderr#"$killed"} in
        '' | "
mpimatmul: rank 1 on $(hostname) has ended or does not answer
  hint: mpirun without -q names the signal; 'dmesg' shows if memory ran out") ;;
        *) show && return 1 ;;
    esac
    [ ! -s left ] && rm left
    expect_only_files X.bin e.py job record pid.0 pid.1 pid.2
}

@test "run: a loop of 200 takes the memory of a loop of 10" {
    need_plain "the sanitizer's own memory counts"
    "$MPIMATMUL" gen X.bin --dims 1000x1000 --seed 1 -q
    echo 'n = 10
x = load("X.bin")
y = x
for i in range(n):
    y = tanh(x @ y) + 0.5
save("Y.npy", y)' > e.py
    local peaks=() n
    for n in 10 200; do  # each y is 4 MB: 190 more of them and the values between would exceed 1 GB
        run "$PYTHON" "$REPO/tests/lib/memory.py" 250 "${launch[@]}" -n 2 "$MPIMATMUL" run e.py n=$n --device cpu
        expect_status 0
        peaks+=("$(sed -n 's/^peak of proportional memory: \([0-9]*\).*/\1/p' <<< "$output")")
    done
    [ "${peaks[0]}" -gt 0 ] && [ "${peaks[1]}" -le $((peaks[0] + 32)) ] || { echo "${peaks[@]}"; return 1; }
}

# Both operands of the second product are values: a device with memory of its own keeps these.
steps='x, w = load("X.npy"), load("W.npy")
g = x @ w
for i in range(3):
    g = relu(g @ x @ w) % 3
save("G.npy", g)'

write_steps() {
    "$MPIMATMUL" gen X.npy --dims 90x70 --kind integer --seed 1 -q
    "$MPIMATMUL" gen W.npy --dims 70x90 --kind integer --seed 2 -q
    echo "$steps" > e.py
}

@test "run: all devices of a rank hang in turn, in values kept by the device before" {
    write_steps
    local rule count
    for rule in hang=1,everywhere hang=2,everywhere; do
        for count in 1 2 3; do
            ranks $count run e.py --device "faulty:$rule:cpu" --device-timeout 0.1
            expect_status 69
            [[ $stderr =~ ^"mpimatmul: "("rank "[12]" on "[^ ]+": ")?"no fallback device after \
'faulty:$rule:reference': it hangs"$ ]] || { show; return 1; }
            expect_only_files X.npy W.npy e.py
        done
    done
}

# Runs with a library that removes the file `exits` when the program's exit handlers run.
watched() {
    touch exits
    run --separate-stderr env AT_EXIT=exits LD_PRELOAD="$BUILD/tests/at_exit.so${LD_PRELOAD:+:$LD_PRELOAD}" \
        "$MPIMATMUL" "$@" < /dev/null
}

@test "a thread left behind in a driver runs no exit handlers, and all output is written" {
    need_plain "leaks are looked for at exit"
    write_steps
    echo 'print("the sum is", sum(g))' >> e.py
    watched run e.py --device cpu
    expect_quiet_success
    [ ! -e exits ]
    local printed=${output%%$'\n'wall *}
    [[ $printed == *"the sum is"* ]]
    mv G.npy right.npy
    watched run e.py --device faulty:hang=3:cpu --device-timeout 0.1
    expect_status 0
    [[ $stderr == *"'reference': it hangs" && -e exits &&
        ${output%%$'\n'wall *} == "$printed" ]] || { show; return 1; }
    cmp G.npy right.npy
    watched run e.py --device faulty:hang=3,everywhere:cpu --device-timeout 0.1
    expect_failure 69 "no fallback device after 'faulty:hang=3,everywhere:reference': it hangs"
    [ -e exits ]
}

@test "OpenCL: a device that is replaced while its driver compiles does not stop the run" {
    [[ $("$MPIMATMUL" devices --json) == *'"0:0"'* ]] || skip "opencl: no device 0:0"
    "$MPIMATMUL" gen X.npy --dims 400x300 --kind integer --seed 1 -q
    echo 'save("Y.npy", argmax(softmax(load("X.npy"))))' > e.py
    "$MPIMATMUL" run e.py --device cpu -q
    mv Y.npy right.npy
    for _ in 1 2 3 4; do
        POCL_CACHE_DIR=$(mktemp -d "$BATS_TEST_TMPDIR/XXXXXX") program run e.py --device 0:0 --device-timeout 0.1
        expect_status 0
        cmp Y.npy right.npy
        rm Y.npy
    done
}
