#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mpimatmul retry on four hosts that are cut off one after the other, in any order and at any
# moment, during a training with checkpoints. Each turn adds one, so that a turn that is left out or
# done twice shows in the result.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load ../cli/helper
load hosts

setup_file() {
    lab_up 4
}

teardown_file() {
    lab_down
}

setup() {
    need_plain "it takes too long"
    need_numpy
    lab_begin_test || return 1
    # The lab's agent enters a host without its cable, which ssh cannot. A host refuses a closed port.
    printf '%s\n' '#!/bin/sh' 'ip netns exec "$LAB_NAME-launcher" timeout 3 bash -c \
": < /dev/tcp/10.77.0.${1#node}/9" 2>&1 | grep -q refused || exit 255' \
        'exec "$LAB_FOLDER/agent" "$@"' > agent
    chmod 755 agent
    printf '%s slots=1\n' node1 node2 node3 node4 > hosts
}

teardown() {
    lab_clear > /dev/null
}

# wait_for SECONDS COMMAND...: repeats the command until it succeeds.
wait_for() {
    local i
    for ((i = 0; i < $1 * 10; i++)); do
        ! "${@:2}" || return 0
        sleep 0.1
    done
    echo "not within $1 s: ${*:2}"
    cat errors
    return 1
}

has_new_checkpoint() {
    [ state.safetensors -nt mark ]
}

@test "a training ends right on the last of four hosts" {
    local cut=() left job code=0 host
    printf '%s\n' 'w = load("w.npy")' 'state, first = restore("state.safetensors", (w,))' \
        'for turn in loop(first, 300):' '    state = (state[0] @ load("p.npy") + 1,)' \
        '    checkpoint("state.safetensors", state, turn=turn + 1)' 'save("r.npy", state[0])' > t.py
    "$MPIMATMUL" gen w.npy --dims 31x31 --kind integer --seed 1 --quiet
    "$MPIMATMUL" gen p.npy --dims 31x31 --kind identity --quiet
    TMPDIR=$LAB_FOLDER/launcher/tmp timeout 300 ip netns exec "$LAB_NAME-launcher" "$MPIMATMUL" retry -- \
        mpirun -q --bind-to none --mca plm_rsh_agent "$PWD/agent" --mca oob_tcp_keepalive_time 2 \
        --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2 --hostfile hosts -n 4 \
        "$MPIMATMUL" run t.py --quiet --device faulty:delay=50ms:cpu < /dev/null 2> errors 3>&- &
    job=$!
    mapfile -t left < <(shuf -e node1 node2 node3 node4)
    for host in "${left[@]:0:3}"; do
        touch mark
        wait_for 60 has_new_checkpoint
        sleep "$((RANDOM % 2)).$((RANDOM % 10))"
        lab_cut "$host"
        cut+=("$host")
        hosts_left=$((4 - ${#cut[@]}))
        wait_for 60 grep -q "goes on with $hosts_left host" errors
    done
    wait $job || code=$?
    cat errors
    [ "$code" -eq 0 ]
    for host in "${cut[@]}"; do
        lab_mend "$host"
    done
    diff <(grep '^mpimatmul: retry: ' errors) - << END
mpimatmul: retry: ${cut[0]} does not answer; try 2 of 5 goes on with 3 hosts
mpimatmul: retry: $(sorted "${cut[@]:0:2}") do not answer; try 3 of 5 goes on with 2 hosts
mpimatmul: retry: $(sorted "${cut[@]}") do not answer; try 4 of 5 goes on with 1 host
END
    python << 'END'
import numpy as np
assert np.array_equal(np.load("r.npy"), np.load("w.npy") + 300)
END
}

# sorted HOST...: prints them in the order of the hostfile, with commas.
sorted() {
    printf '%s\n' "$@" | sort | paste -s -d , | sed 's/,/, /g'
}
