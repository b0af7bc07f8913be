#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # status, output and stderr are set by bats
#
# The start of a run: processes with different command lines, and Open MPI for a process alone.

load helper

operands() {
    "$MPIMATMUL" gen A.bin --dims 31x23 --kind integer --seed 1
    "$MPIMATMUL" gen B.bin --dims 23x17 --kind integer --seed 2
}

mul=(mul A.bin B.bin -o C.bin --device cpu --quiet)

# mixed "COMMAND LINE" "COMMAND LINE": one rank each. A job that blocks ends with 124.
mixed() {
    # shellcheck disable=SC2086 # the lines are words
    run --separate-stderr timeout 60 "${launch[@]}" -n 1 "$MPIMATMUL" $1 : -n 1 "$MPIMATMUL" $2 < /dev/null
}

# differ MINE ROOTS: the error line of a job with different ranks, and 64.
differ() {
    expect_status 64 || return 1
    [[ "$stderr" == "mpimatmul: rank 1 on "*": options must agree on all ranks: rank 1 has '$1', root has '$2'" ]] ||
        { show; return 1; }
}

@test "ranks with different commands end with 64 and a line, whichever of them needs MPI" {
    operands
    mixed "${mul[*]}" "gen X.bin --dims 3x3"
    differ "command=gen" "command=mul"
    mixed "info A.bin" "${mul[*]}"
    differ "command=mul" "command=info"
    mixed "gen X.bin --dims 3x3" "info A.bin"
    differ "command=info" "command=gen"
    mixed "info A.bin" "info B.bin"
    differ "operand 1=B.bin" "operand 1=A.bin"
    [ -z "$output" ]
    expect_only_files A.bin B.bin
}

@test "a rank with a question such as --help answers it and does not wait for the other ranks" {
    operands
    mixed "${mul[*]}" --version
    differ "command=--version" "command=mul"
    [ "$output" = "$("$MPIMATMUL" --version)" ]
    mixed "gen --help" "${mul[*]}"
    differ "command=mul" "command=--help"
    [ "$output" = "$("$MPIMATMUL" gen --help)" ]
    mixed --version --version
    expect_quiet_success
}

@test "under mpirun a local command runs once, and its failure is the code of all ranks" {
    operands
    ranks 2 info A.bin
    expect_quiet_success
    [ "$(grep -c '^bin 1 ' <<< "$output")" -eq 1 ]
    ranks 2 info absent.bin
    expect_failure 66 "cannot open 'absent.bin': No such file or directory"
    ranks 2 gen A.bin --dims
    expect_failure 64 "gen: --dims is missing its value: --dims DIMS"
}

# srun COUNT [VARIABLE=VALUE...]: two ranks with the variables of srun --mpi=pmix for a rank of so
# many nodes, and without those of mpirun. lab/slurm compares them with those of srun itself.
srun() {
    run --separate-stderr "${launch[@]}" -n 2 env -u OMPI_COMM_WORLD_RANK -u SLURM_PMIX_FENCE SLURM_STEP_ID=0 \
        SLURM_STEP_NUM_NODES="$1" SLURM_STEP_NUM_TASKS=2 "${@:2}" "$MPIMATMUL" info A.bin < /dev/null
    expect_status 0
}

@test "ranks of several nodes under srun print one notice that MPI's start has no barrier" {
    operands
    srun 2
    [ "$stderr" = "mpimatmul: warning: the 2 nodes of srun may start MPI without waiting for each other, $(
        )and one start in many crashes then: export SLURM_PMIX_FENCE=ring first" ]
    srun 1
    [ -z "$stderr" ]
    srun 2 SLURM_PMIX_FENCE=ring
    [ -z "$stderr" ]
    srun 2 OMPI_COMM_WORLD_RANK=0  # started by mpirun inside a Slurm job
    [ -z "$stderr" ]
}

# Prints Open MPI's messages about the layers it opens, without the settings of the tests.
opened() {
    OMPI_MCA_pml_base_verbose=10 OMPI_MCA_btl_base_verbose=10 "$MPIMATMUL" "${mul[@]}" 2>&1 |
        sed -n 's/.*components_open: component \([a-z0-9]*\) open function successful.*/\1/p' | sort -u | xargs
}

@test "a process alone opens no fabric, starts no daemon and queries no PCI device" {
    operands
    unset "${!OMPI_MCA_@}" "${!HWLOC_@}"
    [ "$(opened)" = "ob1 self" ]
    command -v strace > /dev/null || skip "strace is not installed"
    run strace -f -qq -e trace=execve,openat -o calls "$MPIMATMUL" "${mul[@]}"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'execve(' calls)" -eq 1 ]
    [ "$(grep -cE '/bus/pci/devices/|/hwloc_[a-z_]*\.so' calls)" -eq 0 ]
}

@test "a process alone keeps the user's settings of Open MPI" {
    operands
    unset "${!OMPI_MCA_@}"
    mkdir -p home/.openmpi
    local HOME=$PWD/home
    [ "$(OMPI_MCA_btl=self,tcp opened)" = "ob1 self tcp" ]
    # A list of components to exclude does not choose another component.
    echo 'pml = ^ucx' > home/.openmpi/mca-params.conf
    [ "$(opened)" = "ob1 self" ]
    echo ' btl=self,tcp' >> home/.openmpi/mca-params.conf
    [ "$(opened)" = "ob1 self tcp" ]
    echo 'pml = ^ob1' > other.conf
    [[ "$(OMPI_MCA_mca_base_param_files=$PWD/other.conf opened)" != *ob1* ]]
}

@test "ranks of a job push their messages over TCP, unless the user chose otherwise" {
    mkdir -p home/.openmpi
    local HOME=$PWD/home
    # flags WORDS...: prints the flags that the environment gives to the ranks' MPI at its start.
    flags() {
        OMPI_MCA_mpi_show_mca_params=enviro "${launch[@]}" "$@" -n 2 "$MPIMATMUL" devices --device cpu 2>&1 |
            sed -n 's/.* btl_tcp_flags=\(.*\) (environment)/\1/p'
    }
    [ "$(flags)" = send ]
    [ "$(flags --mca btl_tcp_flags send,put)" = send,put ]
    echo 'btl_tcp_flags = put' > home/.openmpi/mca-params.conf
    [ -z "$(flags)" ]
}

@test "ranks of a job search for a fabric only if the machine has one or the user asks for it" {
    mkdir -p none empty/infiniband fabric/infiniband/mlx5_0 home/.openmpi
    unshare --mount mount --bind "$PWD/none" /sys/class 2> /dev/null || skip "mounting over /sys needs root"
    unset OMPI_MCA_pml
    # searched FOLDER [WORDS...]: prints the components that ranks load on a machine with these
    # device classes in /sys/class.
    searched() {
        # shellcheck disable=SC2016 # expanded there
        env HOME="$PWD/home" OMPI_MCA_pml_base_verbose=10 unshare --mount bash -c \
            'mount --bind "$0" /sys/class && "$@"' "$PWD/$1" \
            "${launch[@]}" "${@:2}" -n 2 "$MPIMATMUL" devices --device cpu 2>&1 |
            sed -n 's/.*components_open: found loaded component //p' | sort -u | xargs
    }
    [ "$(searched none)" = ob1 ]
    [ "$(searched empty)" = ob1 ]
    [[ "$(searched fabric)" == *cm* ]]
    [[ "$(searched none --mca mtl ^psm)" == *cm* ]]
    [[ "$(searched none --mca pml ^ucx,v)" == *cm* ]]
    echo 'pml = ob1,cm' > home/.openmpi/mca-params.conf
    [ "$(searched none)" = "cm ob1" ]
}

@test "messages from a rank to its launcher are sent without delay" {
    command -v strace > /dev/null || skip "strace is not installed"
    run "${launch[@]}" -n 1 strace -f -qq -e trace=connect,setsockopt -o calls \
        "$MPIMATMUL" devices --device cpu
    [ "$status" -eq 0 ]
    local socket
    socket=$(sed -n 's/.*connect(\([0-9]*\), {sa_family=AF_INET, .*127\.0\.0\.1.*/\1/p' calls | head -1)
    [ -n "$socket" ]
    grep -q "setsockopt($socket, SOL_TCP, TCP_NODELAY, \[1\], 4) *= 0" calls
}

# environment FOLDER SHELL-TEXT: sources environment.sh on a machine with these device classes in
# /sys/class, and prints the output of the text.
environment() {
    run --separate-stderr env HOME="$PWD/home" unshare --mount \
        bash -c "mount --bind '$PWD/$1' /sys/class && . '$REPO/scripts/environment.sh' && $2"
}

@test "environment.sh chooses ob1 if the machine has no fabric, and says so" {
    mkdir -p none empty/infiniband fabric/infiniband/mlx5_0 home/.openmpi
    unshare --mount mount --bind "$PWD/none" /sys/class 2> /dev/null || skip "mounting over /sys needs root"
    unset OMPI_MCA_pml HWLOC_COMPONENTS
    for machine in none empty; do
        # shellcheck disable=SC2016 # expanded there
        environment $machine 'echo "$OMPI_MCA_pml $HWLOC_COMPONENTS"'
        [ "$output" = "ob1 -opencl,-gl" ]
        [ "$stderr" = "mpimatmul: no fabric on this machine: Open MPI uses TCP and shared memory \
(OMPI_MCA_pml=ob1)" ]
    done
    # shellcheck disable=SC2016
    environment fabric 'echo "${OMPI_MCA_pml-unset}"'
    [ "$output" = unset ]
    [ "$stderr" = "mpimatmul: this machine has a fabric: Open MPI keeps its own choice" ]
    # A container may see the fabric in /dev alone. A user's choice among fabric drivers implies a
    # fabric, too.
    mkdir -p dev/infiniband
    touch dev/null dev/infiniband/uverbs0
    # shellcheck disable=SC2016
    run --separate-stderr env HOME="$PWD/home" unshare --mount bash -c "mount --bind '$PWD/none' /sys/class &&
        mount --bind '$PWD/dev' /dev && . '$REPO/scripts/environment.sh' && echo \"\${OMPI_MCA_pml-unset}\""
    [ "$output" = unset ]
    # shellcheck disable=SC2016
    OMPI_MCA_mtl=^psm environment none 'echo "${OMPI_MCA_pml-unset}"'
    [ "$output" = unset ]
}

@test "environment.sh keeps the user's choice without a word" {
    mkdir -p home/.openmpi
    # shellcheck disable=SC2016
    local source='. "$0" && echo "${OMPI_MCA_pml-unset}"'
    unset OMPI_MCA_pml
    OMPI_MCA_pml=ucx run --separate-stderr sh -c "$source" "$REPO/scripts/environment.sh"
    [ "$output" = ucx ] && [ -z "$stderr" ]
    echo 'pml = ucx' > home/.openmpi/mca-params.conf
    HOME=$PWD/home run --separate-stderr sh -eu -c "$source" "$REPO/scripts/environment.sh"
    [ "$output" = unset ] && [ -z "$stderr" ]
}

# ------------------------------------------------------------------------------------------ OpenCL drivers

# A driver that counts its queries, installed under this name as the only one of the machine.
counting_driver() {
    mkdir vendors
    cp "$BUILD/tests/icd_count.so" "$1"
    echo "$PWD/$1" > vendors/count.icd
    export OCL_ICD_VENDORS=$PWD/vendors ICD_COUNT=$PWD/asked XDG_CACHE_HOME=$PWD/cache
    "$MPIMATMUL" devices > /dev/null
    [ -s asked ] || skip "opencl: built without it"
    rm -rf asked cache
    operands
}

# asked TIMES COMMAND...: the command queries the driver so many times.
asked() {
    local times=$1
    shift
    : > asked
    "$MPIMATMUL" "$@" > /dev/null
    [ "$(wc -l < asked)" -eq "$times" ] || { echo "asked $(wc -l < asked) times, expected $times: $*"; return 1; }
}

@test "driver queries are cached until the driver, its environment or the cache file changes" {
    counting_driver libcount.so
    asked 1 mul A.bin B.bin -o C.bin
    asked 0 mul A.bin B.bin -o C.bin
    asked 0 mul A.bin B.bin -o C.bin --device cpu
    touch libcount.so
    asked 1 mul A.bin B.bin -o C.bin
    asked 0 mul A.bin B.bin -o C.bin
    CUDA_VISIBLE_DEVICES=1 asked 1 mul A.bin B.bin -o C.bin
    asked 1 mul A.bin B.bin -o C.bin
    echo "$PWD/libcount.so" > vendors/twice.icd
    asked 2 mul A.bin B.bin -o C.bin
    asked 0 mul A.bin B.bin -o C.bin
    asked 2 devices
    echo '{"schema": 1}' > cache/mpimatmul/opencl-*.json
    asked 2 mul A.bin B.bin -o C.bin
    asked 0 mul A.bin B.bin -o C.bin
    rm -r cache && touch cache
    asked 2 mul A.bin B.bin -o C.bin
}

@test "without a card, auto does not query PoCL" {
    # shellcheck disable=SC2086 # patterns
    ! compgen -G "/dev/dri/render*" > /dev/null && ! compgen -G "/dev/nvidia*" > /dev/null ||
        skip "opencl: this machine has a card"
    counting_driver libpocl-count.so
    asked 0 mul A.bin B.bin -o C.bin
    asked 0 plan A.bin B.bin
    asked 1 devices
    rm -r cache
    asked 1 mul A.bin B.bin -o C.bin --verbose
    rm -r cache
    program mul A.bin B.bin -o C.bin --device 0:0
    expect_status 69
    [ "$(wc -l < asked)" -eq 2 ]
}

@test "drivers that delay the start are named after 2 s" {
    counting_driver libcount.so
    ICD_SECONDS=3 program mul A.bin B.bin -o C.bin
    expect_status 0
    [ "$stderr" = "mpimatmul: waiting for OpenCL drivers to list their devices ($PWD/libcount.so), at most 10 s" ]
    rm -r cache
    ICD_SECONDS=3 program mul A.bin B.bin -o C.bin --quiet
    expect_quiet_success
}

@test "listing the drivers leaves no file in PoCL's cache" {
    mkdir pocl temporary
    POCL_CACHE_DIR=$PWD/pocl TMPDIR=$PWD/temporary program devices
    expect_status 0
    [ -z "$(find pocl temporary -mindepth 1)" ]
}
