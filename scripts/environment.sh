# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# Source this before mpirun:   . /usr/local/share/mpimatmul/environment.sh
#
# hwloc, inside mpirun and its daemons, otherwise loads every OpenCL and X driver of the machine before any rank
# starts: that doubles the start-up time, and a broken driver takes mpirun down with it. It is a variable of the
# environment and not an Open MPI parameter, so mpimatmul.tune cannot hold it. On other hosts it must be set
# too: put this line into the login file that ssh reads there (~/.bashrc, above any test for a terminal).
export HWLOC_COMPONENTS=-opencl,-gl
