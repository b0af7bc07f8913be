#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The installed mpimatmul.sbatch under a real Slurm of two nodes that manages cores and memory (see
# slurm.bash): results, the cores of each rank, the stored report, and the job's exit code, which is
# the program's.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load ../cli/helper
load slurm

setup_file() {
    slurm_up
    [ -z "$SLURM_MISSING" ] || return 0
    make_built install DESTDIR="$BATS_FILE_TMPDIR/root"
    export INSTALLED=$BATS_FILE_TMPDIR/root/usr/local
    # As in ../cli/helper: failures end without a second of waiting.
    export OMPI_MCA_odls_base_sigkill_timeout=0
    # One rank on a node without GPUs uses this number of threads.
    CORES=$("$INSTALLED/bin/mpimatmul" devices --json | "$PYTHON" -c 'import json, sys
print(json.load(sys.stdin)["nodes"][0]["cores"])')
    export CORES
}

teardown_file() {
    slurm_down
}

setup() {
    need_slurm
    need_numpy
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    cp "$INSTALLED/share/mpimatmul/mpimatmul.sbatch" job.sbatch
    "$MPIMATMUL" gen A.bin --dims 61x83 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 83x47 --kind integer --seed 2
}

need_cores() {
    [ "$CORES" -ge "$1" ] || skip "lab: $CORES core of $1"
}

# submit OPTION... [VARIABLE=VALUE...]: submits the script as a user does and waits for its end. job
# is its number, status its exit code (of an array the largest), log its output, description Slurm's
# record of it. (`sbatch --wait` polls only every 10 s.)
submit() {
    local word options=() variables=ALL
    for word in "$@"; do
        case $word in
            -*) options+=("$word") ;;
            *) variables+=,$word ;;
        esac
    done
    job=$(PATH=$INSTALLED/bin:$PATH sbatch --parsable "${options[@]}" --export="$variables" job.sbatch < /dev/null)
    slurm_wait slurm_has_ended "$job"
    description=$(scontrol show job "$job")
    status=$(sed -n 's/.*ExitCode=\([0-9]*\):0.*/\1/p' <<< "$description" | sort -n | tail -n 1)
    log=$(cat "mpimatmul-$job.log")
    output=$log
    echo "$log"
}

# expect_report FILE RANKS NODES: the report stands beside the result and is of this run: every core
# of each node was used, shared between the ranks of the node.
expect_report() {
    python "$@" "$CORES" << 'END'
import json
import sys
r = json.load(open(sys.argv[1]))
ranks, nodes, cores = map(int, sys.argv[2:])
assert len(r["ranks"]) == ranks and r["nodes"] == nodes, r
assert sum(x["end"] - x["begin"] for x in r["ranks"]) == r["total"] and r["check"]["result"] == "passed", r
for host in {x["host"] for x in r["ranks"]}:
    here = [x for x in r["ranks"] if x["host"] == host]
    assert sum(x["threads"] for x in here) == cores, r["ranks"]
    assert len({x["cores"] for x in here}) == len(here), r["ranks"]
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

# expect_failed_job LAUNCHER CODE LINE: the job's code, one line of the program in its log, and
# neither result nor report.
expect_failed_job() {
    expect_status "$2" || return 1
    local lines_about_fabric='(no fabric on this machine|this machine has a fabric): '
    [ "$(grep -vE "$lines_about_fabric" <<< "$log" | grep '^mpimatmul: ')" = "mpimatmul: $3" ] || return 1
    grep -q -x -F "mpimatmul.sbatch: $1 ended with code $2" <<< "$log" || return 1
    [ -z "$(find . -name 'C.bin*')" ]
}

@test "the unchanged script runs one rank on one node with all its cores and memory" {
    submit
    expect_status 0
    expect_product C.bin
    expect_report "C.bin.report.$job.json" 1 1
    [[ "$log" == *"result verified (Freivalds), 0 blocks recomputed"* && "$log" == *"C.bin: 61 x 47"* ]]
    [[ "$description" == *"TRES=cpu=$(slurm_shape CPUs),mem=$(slurm_shape RealMemory)M,node=1,"* ]]
    [[ "$description" == *"TimeLimit=01:00:00"* ]]
}

@test "two nodes keep the report, and the job ends with 0" {
    submit --nodes=2 OUT=D.bin
    expect_status 0
    expect_product D.bin
    expect_report "D.bin.report.$job.json" 2 2
}

@test "variables name the files, and the job has as many ranks as tasks" {
    need_cores 2
    mkdir far
    cp A.bin far/left.bin
    cp B.bin far/right.bin
    submit --nodes=2 --ntasks-per-node=2 "A=$PWD/far/left.bin" "B=$PWD/far/right.bin" "OUT=$PWD/far/D.bin"
    expect_status 0
    expect_product far/D.bin
    expect_report "far/D.bin.report.$job.json" 4 2
}

@test "srun starts a job on two nodes with all their cores" {
    submit --nodes=2 LAUNCH=srun
    expect_status 0
    expect_product C.bin
    expect_report "C.bin.report.$job.json" 2 2
}

@test "srun starts tasks that share the cores of their node" {
    need_cores 2
    submit --nodes=2 --ntasks-per-node=2 LAUNCH=srun
    expect_status 0
    expect_product C.bin
    expect_report "C.bin.report.$job.json" 4 2
}

# Without the setting a rank may get messages before it is ready for them, and crashes.
@test "srun after environment.sh starts and ends MPI on all nodes together" {
    "$PYTHON" -c 'import mpi4py' 2> /dev/null || skip "mpi4py is not installed"
    cat > end.py << 'END'
import os
import time
from mpi4py import MPI

if MPI.COMM_WORLD.rank == 0:
    time.sleep(0.5)
    open("late", "w").close()
MPI.Finalize()
print("has waited" if os.path.exists("late") else "went ahead")
END
    cat > end.sbatch << 'END'
#!/bin/sh
. "$INSTALLED/share/mpimatmul/environment.sh" 2> /dev/null
srun --mpi=pmix --cpu-bind=none "$PYTHON" end.py
END
    sbatch --parsable --nodes=2 --ntasks-per-node=1 --output=end.log end.sbatch < /dev/null > number
    slurm_wait slurm_has_ended "$(cat number)"
    cat end.log
    [ "$(cat end.log)" = $'has waited\nhas waited' ]
}

# A rank recognises its start by these variables. cli/startup tests its notice with faked ones. Here
# MPI does not start, because it might crash.
@test "srun without environment.sh gives ranks the variables that show it" {
    unset SLURM_PMIX_FENCE
    printf '%s\n' '#!/bin/sh' 'srun --mpi=pmix env' > names.sbatch
    sbatch --parsable --nodes=2 --ntasks-per-node=1 --output=names.log names.sbatch < /dev/null > number
    slurm_wait slurm_has_ended "$(cat number)"
    grep -E '^(PMIX_RANK|SLURM_STEP_ID|SLURM_STEP_NUM_|SLURM_PMIX_FENCE|OMPI_COMM)' names.log | sort > names
    cat names
    [ "$(grep -c -x 'PMIX_RANK=[01]' names)" -eq 2 ]
    [ "$(grep -c '^SLURM_STEP_ID=' names)" -eq 2 ]
    [ "$(grep -c -x 'SLURM_STEP_NUM_NODES=2' names)" -eq 2 ]
    [ "$(grep -c -E '^(SLURM_PMIX_FENCE|OMPI_COMM_WORLD_RANK)=' names)" -eq 0 ]
}

@test "a line for GPUs is valid once its second # is gone: the cards, and a task more than they are" {
    need_cores 2
    [ "$(grep -c '^##SBATCH' job.sbatch)" -eq 4 ]
    while read -r cards tasks; do
        [ "$tasks" -eq $((cards + 1)) ]
    done < <(sed -n 's/^##SBATCH --gres=gpu:\([0-9]*\) --ntasks-per-node=\([0-9]*\)$/\1 \2/p' job.sbatch)
    sed -i 's/^##SBATCH --gres=gpu:1 /#SBATCH --gres=gpu:1 /' job.sbatch
    submit MPIMATMUL_DEVICE=cpu
    expect_status 0
    expect_product C.bin
    expect_report "C.bin.report.$job.json" 2 1
    [[ "$description" == *"TresPerNode=gres:gpu:1"* ]]
}

@test "the script runs a program with values for its names" {
    printf '%s\n' 'size = 4' 'result = "y.npy"' 'save(result, load("A.bin")[:size] @ load("B.bin"))' > program.py
    submit --nodes=2 PROGRAM=program.py WORDS='size=5 result=z.npy'
    expect_status 0
    [[ "$log" == *"z.npy: 5 x 47"* ]]
    python << 'END'
import numpy as np
from matrices import read_bin
a, b = (read_bin(name)[1].astype("f8") for name in ("A.bin", "B.bin"))
assert np.array_equal(np.load("z.npy"), (a @ b).reshape(61, 47)[:5]), "not the product"
END
    [ -s "program.py.report.$job.json" ]
    submit LAUNCH=srun PROGRAM=program.py
    expect_status 0
    [[ "$log" == *"y.npy: 4 x 47"* ]]
    submit PROGRAM=none.py
    expect_status 66
}

# Begins the product of a larger A on two nodes with slow devices, and waits for the first entries of its journal.
begin_recorded() {
    "$MPIMATMUL" gen A.bin --dims 8192x83 --kind integer --seed 1
    job=$(PATH=$INSTALLED/bin:$PATH MPIMATMUL_DEVICE=faulty:delay=600ms:cpu MPIMATMUL_JOURNAL_SECONDS=0.001 \
        sbatch --parsable --nodes=2 --export=ALL,TRIES=3,MPIMATMUL_WEIGHTS=equal job.sbatch < /dev/null)
    slurm_wait grep -q -s '^done' C.bin.journal
}

# Prints the numbers of the ranks of this folder's job.
list_ranks() {
    local process
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe")" = "$INSTALLED/bin/mpimatmul" ] && [ "$(readlink "$process/cwd")" = "$PWD" ] &&
            tr '\0' ' ' < "$process/cmdline" | grep -q '^mpimatmul mul ' && basename "$process"
    done 2> /dev/null
}

has_stopped() {
    [[ "$(scontrol show job "$job")" == *JobState=PENDING* && -z "$(list_ranks)" ]]
}

# expect_continued: the job has ended with 0, and has continued once.
expect_continued() {
    slurm_wait slurm_has_ended "$job"
    log=$(cat "mpimatmul-$job.log")
    echo "$log"
    [[ "$(scontrol show job "$job")" == *"JobState=COMPLETED"* ]]
    expect_product C.bin
    [ "$(grep -c '^mpimatmul: resume: [0-9]* of 8192 rows of .C.bin. are complete$' <<< "$log")" -eq 1 ]
    [ -z "$(ls C.bin.part C.bin.journal 2> /dev/null)" ]
}

@test "with TRIES a job continues after a killed rank" {
    begin_recorded
    kill -9 "$(list_ranks | head -n 1)"
    expect_continued
    [[ "$log" == *"mpimatmul: retry: the command ended with "*"; try 2 of 3"* ]]
}

@test "with TRIES a job that Slurm starts again continues" {
    begin_recorded
    scontrol requeue "$job"
    slurm_wait has_stopped
    sleep 3 # a node refuses a job of the second in which it has killed one of this number
    scontrol update "jobid=$job" starttime=now # else in two minutes
    expect_continued
    [[ "$log" != *"mpimatmul: retry: the command ended with "*"; try 2 of 3"* ]]
}

@test "each job of an array has its number for %a" {
    echo 'n = 1' > program.py
    echo 'save(f"y_{n}.npy", load("A.bin")[:n])' >> program.py
    submit --array=2-3 PROGRAM=program.py WORDS='n=%a'
    expect_status 0
    python -c 'import numpy as np; assert [len(np.load(f"y_{n}.npy")) for n in (2, 3)] == [2, 3]'
    cp A.bin A_2.bin
    cp A.bin A_3.bin
    submit --array=2-3 A=A_%a.bin OUT=C_%a.bin
    expect_status 0
    expect_product C_2.bin
    expect_product C_3.bin
    [ "$(echo C_?.bin.report.*.json | wc -w)" -eq 2 ]
}

@test "the commands of mpimatmul-clusters(7) work" {
    cp job.sbatch mpimatmul.sbatch
    printf '%s\n' 'corpus = ""' 'turns = 1' 'save("turns.npy", generate((turns, 1)))' > gpt.py
    printf '%s\n' 'seed = 1' 'result = ""' 'save(result, generate((2, 2), seed=seed))' > train.py
    count=0
    while read -r line; do
        number=$(PATH=$INSTALLED/bin:$PATH && eval "${line/#sbatch /sbatch --parsable }" < /dev/null)
        slurm_wait slurm_has_ended "$number"
        scontrol show job "$number" | grep -o 'ExitCode=[^ ]*' | sort -u > codes
        [ "$(cat codes)" = ExitCode=0:0 ] || { cat mpimatmul-*.log; return 1; }
        count=$((count + 1))
    done < <(grep '^sbatch ' "$REPO/src/doctor/mpimatmul-clusters.7.md")
    [ $count -eq 3 ]
    expect_product C.bin
    [ "$("$MPIMATMUL" info turns.npy | grep -c '500 x 1')" -ge 1 ]
    cmp w_1.npy <("$MPIMATMUL" gen - --dims 2x2 --seed 1 --format npy)
    [ -s w_4.npy ]
}

@test "on shared nodes the job has the cores that --cpus-per-task asks for" {
    sed -i -e "s/^#SBATCH --exclusive/#SBATCH --cpus-per-task=$(slurm_shape CPUs)/" \
        -e 's/^#SBATCH --mem=0/#SBATCH --mem=200M/' job.sbatch
    for launcher in mpirun srun; do
        submit --nodes=2 LAUNCH=$launcher
        expect_status 0
        [[ "$description" == *"mem=400M,node=2,"* && "$description" == *"OverSubscribe=OK"* ]]
        expect_product C.bin
        expect_report "C.bin.report.$job.json" 2 2
    done
}

@test "options may be variables" {
    "$MPIMATMUL" gen B.bin --dims 47x83 --kind integer --seed 2
    submit MPIMATMUL_TRANSPOSE_B=on
    expect_status 0
    [[ "$log" == *"C.bin: 61 x 47"* ]]
}

@test "a missing input ends the job with 66" {
    rm B.bin
    for launcher in mpirun srun; do
        submit --nodes=2 LAUNCH=$launcher
        expect_failed_job $launcher 66 "cannot open 'B.bin': No such file or directory"
    done
}

@test "an input that is not a matrix ends the job with 65" {
    head -c -1 A.bin > short.bin
    submit A=short.bin
    expect_failed_job mpirun 65 \
        "'short.bin' is shorter than its header says: 20271 bytes, expected 20272 for 61 x 83 float32"
}

@test "a missing program and an unknown launcher are refused" {
    submit LAUNCH=ssh
    expect_status 64
    [ "$(tail -n 1 <<< "$log")" = "mpimatmul.sbatch: LAUNCH is 'ssh': expected mpirun or srun" ]
    INSTALLED=/nonexistent submit
    expect_status 127
    [ "$log" = "mpimatmul.sbatch: mpimatmul is not in PATH on node1" ]
}

@test "a batch script's own process starts alone, srun's processes start together" {
    cat > alone.sbatch << 'END'
#!/bin/sh
OMPI_MCA_btl_base_verbose=10 "$MPIMATMUL" mul A.bin B.bin -o C.bin --device cpu --quiet 2>&1 |
    sed -n 's/.*components_open: found loaded component //p' | xargs echo alone:
SLURM_PMIX_FENCE=ring srun --mpi=pmix "$MPIMATMUL" info A.bin
END
    job=$(sbatch --parsable --ntasks=2 --output=alone.log alone.sbatch < /dev/null)
    slurm_wait slurm_has_ended "$job"
    cat alone.log
    scontrol show job "$job" | grep -q -F 'ExitCode=0:0'
    expect_product C.bin
    [ "$(head -n 1 alone.log)" = "alone: self" ]
    [ "$(grep -c '^bin 1 ' alone.log)" -eq 1 ]
}
