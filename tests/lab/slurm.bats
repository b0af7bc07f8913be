#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# scripts/mpimatmul.sbatch under a real Slurm of one node (see slurm.bash): results, the report that is kept, and
# the job's exit code, which is the program's.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load ../cli/helper
load slurm

setup_file() {
    slurm_up
}

teardown_file() {
    slurm_down
}

setup() {
    need_slurm
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    "$MPIMATMUL" gen A.bin --dims 61x83 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 83x47 --kind integer --seed 2
}

# submit TASKS VARIABLE=VALUE...: the script as a user submits it; status is sbatch's, which is the job's. job is
# its number, log what it printed.
submit() {
    local tasks=$1 variables
    shift
    variables=$(IFS=, && echo "$*")
    PATH=$BUILD/bin:$PATH run --separate-stderr timeout 60 sbatch --wait --parsable --ntasks-per-node="$tasks" \
        --export="ALL${variables:+,$variables}" "$REPO/scripts/mpimatmul.sbatch" < /dev/null
    job=$output
    log=$(cat "mpimatmul-$job.log")
    echo "$log"
}

# expect_report FILE RANKS: kept beside the result, and of this run.
expect_report() {
    python "$@" << 'END'
import json
import sys
r = json.load(open(sys.argv[1]))
assert len(r["ranks"]) == int(sys.argv[2]) and r["nodes"] == 1, r
assert sum(x["end"] - x["begin"] for x in r["ranks"]) == r["total"] and r["check"]["result"] == "passed", r
END
}

expect_product() {
    python "$1" << 'END'
import sys
import numpy as np
from matrices import read_bin
a, b, found = (read_bin(name)[1].astype("f8") for name in ("A.bin", "B.bin", sys.argv[1]))
assert np.array_equal(found, a @ b), "not the product"
END
}

@test "two tasks multiply, the report is kept, the job ends with 0" {
    submit 2 OUT=D.bin
    expect_status 0
    expect_product D.bin
    expect_report "D.bin.report.$job.json" 2
    [[ "$log" == *"result verified (Freivalds), 0 blocks recomputed"* && "$log" == *"D.bin: 61 x 47"* ]]
}

@test "files named by variables, as many ranks as tasks" {
    mkdir far
    cp A.bin far/left.bin
    cp B.bin far/right.bin
    submit 3 "A=$PWD/far/left.bin" "B=$PWD/far/right.bin" "OUT=$PWD/far/D.bin"
    expect_status 0
    expect_product far/D.bin
    expect_report "far/D.bin.report.$job.json" 3
}

# expect_failed_job CODE LINE: the job's code, one line of ours in its log, and neither result nor report.
expect_failed_job() {
    expect_status "$1" || return 1
    [ "$(grep -c '^mpimatmul: ' <<< "$log")" -eq 1 ] && grep -q -x -F "mpimatmul: $2" <<< "$log" || return 1
    grep -q -x -F "mpimatmul.sbatch: mpirun ended with code $1" <<< "$log" || return 1
    [ -z "$(find . -name 'C.bin*')" ]
}

@test "an input that is missing ends the job with 66" {
    rm B.bin
    submit 2
    expect_failed_job 66 "cannot open 'B.bin': No such file or directory"
}

@test "an input that is not a matrix ends the job with 65" {
    head -c -1 A.bin > short.bin
    submit 2 A=short.bin
    expect_failed_job 65 "'short.bin' is shorter than its header says: 20271 bytes, expected 20272 for 61 x 83 float32"
}

@test "a batch script's own process starts alone, srun's processes start together" {
    cat > alone.sbatch << 'END'
#!/bin/sh
OMPI_MCA_btl_base_verbose=10 "$MPIMATMUL" mul A.bin B.bin -o C.bin --device cpu --quiet 2>&1 |
    sed -n 's/.*components_open: found loaded component //p' | xargs echo alone:
srun --mpi=pmix "$MPIMATMUL" info A.bin
END
    run --separate-stderr timeout 60 sbatch --wait --ntasks=2 --output=alone.log alone.sbatch < /dev/null
    cat alone.log
    expect_status 0
    expect_product C.bin
    [ "$(head -n 1 alone.log)" = "alone: self" ]
    [ "$(grep -c '^bin 1 ' alone.log)" -eq 1 ]
}
