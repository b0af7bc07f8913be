#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status and output are set by bats
# Runs the commands of README.md and of mpimatmul-clusters(7) for several machines on emulated
# hosts, and the tutorial.
load ../cli/helper
load hosts

setup_file() {
    export INSTALLED=$BATS_FILE_TMPDIR/root
    make_built install PREFIX="$INSTALLED/usr/local"
    mend_kernels
    lab_up 2
}

teardown_file() {
    lab_down
}

setup() {
    need_plain "what the documents run has a Python in it"
    need_numpy
    lab_begin_test || return 1
    export PATH=$INSTALLED/usr/local/bin:$PATH LD_LIBRARY_PATH=$INSTALLED/usr/local/lib
    export OMPI_MCA_plm_rsh_agent=$LAB_FOLDER/agent OMPI_MCA_hwloc_base_binding_policy=none
}

document() {
    TMPDIR=$LAB_FOLDER/launcher/tmp run ip netns exec "$LAB_NAME-launcher" \
        "$PYTHON" "$REPO/tests/documents.py" run "$REPO/$1" hosts
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "README.md" {
    document README.md
}

@test "mpimatmul-clusters(7)" {
    document src/doctor/mpimatmul-clusters.7.md
}

@test "the tutorial works, from doctor to a trained model that continues without one of three machines" {
    run "$REPO/scripts/tutorial" --quick
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^READY' <<< "$output")" -eq 1 ]
    [ "$(grep -c '^begins with turn' <<< "$output")" -eq 2 ]
    expect_line 'begins with turn 0'
    expect_line 'begins with turn 100'
    awk '/^accuracy on held-back/ { count++; good += $NF > 0.9 } END { exit !(count == 2 && good == 2) }' <<< "$output"
}
