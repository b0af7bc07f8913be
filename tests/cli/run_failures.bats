#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
# run: a rank that fails or is killed in the middle of a program, and what a long program needs.

load helper

# shellcheck disable=SC2016 # a script in quotes
# In a namespace of its own: a /dev/shm that nobody else uses. Says in `left` what is there in the end.
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

@test "run: a device that fails in the middle, and nobody may take over" {
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

@test "run: a rank is killed in the middle" {
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
    expect_status 137
    [[ -z $stderr || $stderr == "mpimatmul: stopped by SIGTERM: no result was written" ]]
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
    for n in 10 200; do # each y is 4 MB: 190 more of them, and what lies between, would be more than 1 GB
        run "$PYTHON" "$REPO/tests/lib/memory.py" 250 "${launch[@]}" -n 2 "$MPIMATMUL" run e.py n=$n --device cpu
        expect_status 0
        peaks+=("$(sed -n 's/^peak of proportional memory: \([0-9]*\).*/\1/p' <<< "$output")")
    done
    [ "${peaks[0]}" -gt 0 ] && [ "${peaks[1]}" -le $((peaks[0] + 32)) ] || { echo "${peaks[@]}"; return 1; }
}
