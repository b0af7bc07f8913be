# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# Source this before mpirun:   . /usr/local/share/mpimatmul/environment.sh
#
# Without this line hwloc, inside mpirun and its daemons, loads every OpenCL and X driver of the
# machine before any rank starts. That doubles the start-up time, and a broken driver ends mpirun.
# The setting is a variable of the environment and not an Open MPI parameter, so mpimatmul.tune
# cannot hold it. Other hosts need it too: put the next line into the login file that ssh reads
# there (~/.bashrc, above any test for a terminal).
export HWLOC_COMPONENTS=-opencl,-gl

# mpirun notices a host that is switched off or cut off after about 5 + 3 * 2 = 11 seconds and ends
# with code 205. With Open MPI's defaults the run hangs for minutes without a word. mpimatmul.tune
# has the same settings for `mpirun --tune`.
export OMPI_MCA_oob_tcp_keepalive_time="${OMPI_MCA_oob_tcp_keepalive_time:-5}"
export OMPI_MCA_oob_tcp_keepalive_intvl="${OMPI_MCA_oob_tcp_keepalive_intvl:-2}"
export OMPI_MCA_oob_tcp_keepalive_probes="${OMPI_MCA_oob_tcp_keepalive_probes:-3}"

# Under `srun --mpi=pmix` the ranks of a node wait for those of other nodes when MPI starts and
# ends. The default of Slurm's plugin fails to if TreeWidth (50, unless set) is larger than the
# number of nodes of the job: its tree for barriers then has no children (Slurm 22.05.8:
# reverse_tree_info, pmixp_lib_fence). One start in about 1500 ended in a segmentation fault, by a
# message to a rank that was not ready. The plugin's other algorithm, the ring, is right.
export SLURM_PMIX_FENCE="${SLURM_PMIX_FENCE:-ring}"

# Hosts with and without a fabric do not connect if each makes its own choice. So the launching
# machine decides once for the whole job. If it has no InfiniBand, Omni-Path or Slingshot device,
# the job uses TCP and shared memory (ob1). With one, Open MPI keeps its own choice (UCX where that
# is installed). A pml that you have set, in the environment, in Open MPI's files or with `mpirun
# --mca pml`, stays. has_fabric of src/cli/launcher.c uses the same definition of a fabric for ranks
# started without this file.
if [ -z "${OMPI_MCA_pml+set}" ] && ! grep -Eqs '^[[:blank:]]*pml[[:blank:]]*=[[:blank:]]*[^^[:space:]]' \
    "${HOME:-}/.openmpi/mca-params.conf" /etc/openmpi/openmpi-mca-params.conf; then
    if [ -z "${OMPI_MCA_mtl+set}" ] &&
        [ -z "$(find /sys/class/infiniband /sys/class/cxi /dev/infiniband -mindepth 1 2> /dev/null)" ]; then
        export OMPI_MCA_pml=ob1
        echo "mpimatmul: no fabric on this machine: Open MPI uses TCP and shared memory (OMPI_MCA_pml=ob1)" >&2
    else
        echo "mpimatmul: this machine has a fabric: Open MPI keeps its own choice" >&2
    fi
fi
