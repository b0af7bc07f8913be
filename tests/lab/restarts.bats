#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Jobs on two hosts, with a killed mpirun or with root's host cut off, restart at once and give the
# result of undisturbed jobs. For more kills, and for cuts with several ranks, which take 40 s each:
# tests/kill_and_restart.py --cut 3 5.
load ../cli/helper
load hosts

setup_file() {
    lab_up 3
}

teardown_file() {
    lab_down
}

setup() {
    need_plain "python is not linked against the sanitizer"
    need_numpy
    lab_begin_test || return 1
    local inside="ip netns exec $LAB_NAME-launcher mpirun -q --bind-to none --mca plm_rsh_agent $LAB_FOLDER/agent"
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    export RESTARTS_MPIRUN="$inside --tune $REPO/scripts/mpimatmul.tune -H node1:1,node2:2"
    export RESTARTS_MPIRUN_LEFT="$inside -H node2:1,node3:2"
    export RESTARTS_CUT="ip -n $LAB_NAME-launcher link set node1 nomaster"
    export RESTARTS_MEND="ip -n $LAB_NAME-launcher link set node1 master bridge"
    # Kept sets are shards on the hosts' own disks. A host does not read those of others.
    kinds=(training product saves loops script)
}

# expect_right OPTION KILLS SEED
expect_right() {
    run "$PYTHON" "$REPO/tests/kill_and_restart.py" "$@" "${kinds[@]}"
    echo "# ${lines[-1]}" >&3
    # shellcheck disable=SC2154 # status and lines are set by bats
    [[ "$status ${lines[-1]}" == "0 "*" 0 wrong" ]] || { show; return 1; }
}

@test "four kills of mpirun on two hosts leave the results right" {
    expect_right 4 1
}

@test "six kills of products on two hosts, which continue, leave the results right" {
    run "$PYTHON" "$REPO/tests/kill_resume.py" 6 1 square tall
    echo "# ${lines[-1]}" >&3
    [[ "$status ${lines[-1]}" == "0 "*" 0 wrong" ]] || { show; return 1; }
}

@test "a cut of the host with the only rank leaves the result right" {
    expect_right --cut 1 1
}
