# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The environment of every test, sourced by scripts/run-tests and by each bats file, so that a bats file also
# runs on its own. Gives: REPO, BUILD, MPIMATMUL (the program), PYTHON, and a TMPDIR of its own.
# Sourcing it again changes nothing.

if [ -z "${MMUL_TEST_ENVIRONMENT:-}" ]; then
    export MMUL_TEST_ENVIRONMENT=1

    REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    MODE=${MODE:-release}
    BUILD=$(mkdir -p "${BUILD:-$REPO/build/$MODE}" && cd "${BUILD:-$REPO/build/$MODE}" && pwd)
    export REPO MODE BUILD

    # The caller's own settings of the program, of its library, which a machine's image may have, and of Python, whose
    # ranks write into each other's lines when PYTHONUNBUFFERED is set, must not reach the tests, nor `make -n` a make
    # in a test.
    unset "${!MPIMATMUL_@}" "${!OPENBLAS_@}" "${!PYTHON@}" MAKEFLAGS MFLAGS MAKELEVEL
    export MPIMATMUL=$BUILD/bin/mpimatmul
    # What a sample of the check finds of a device that errs is the same in every run.
    export MPIMATMUL_VERIFY_SEED=1
    # On a busy machine anything may take the two seconds after which a line of progress is printed.
    export MPIMATMUL_PROGRESS=none

    # Debian's python3 has the numpy that scripts/setup installs; another one in PATH may not.
    PYTHON=/usr/bin/python3
    [ -x "$PYTHON" ] || PYTHON=$(command -v python3 || true)
    export PYTHON LC_ALL=C PYTHONDONTWRITEBYTECODE=1

    # Open MPI makes sockets below TMPDIR and a socket's path ends at 108 bytes: a deep folder will not do.
    # run-tests removes the folder made here; bats alone has one that it removes itself.
    if [ -n "${BATS_RUN_TMPDIR:-}" ]; then
        TMPDIR=$BATS_RUN_TMPDIR
    elif [ ${#BUILD} -le 32 ]; then
        TMPDIR=$(mkdir -p "$BUILD/tests" && mktemp -d "$BUILD/tests/tmp.XXXXXX")
    else
        TMPDIR=$(mktemp -d /tmp/mmul-tests.XXXXXX)
    fi
    export TMPDIR

    # Stored profiles stay in the tests; compiled kernels are kept between runs (cold: 7 s, warm: 0.06 s).
    export XDG_CACHE_HOME=$TMPDIR/cache
    export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$BUILD/pocl-cache}
    export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-$BUILD/mesa-cache}
    mkdir -p "$POCL_CACHE_DIR" "$MESA_SHADER_CACHE_DIR"

    # What a job says of itself from its first half second on (tests/cli/top) would be among the calls of the system
    # that tests count, or not, by the load of the machine: for all others there is a folder that it does not use.
    export XDG_RUNTIME_DIR=$TMPDIR/run
    mkdir -p "$XDG_RUNTIME_DIR/mpimatmul"
    chmod 700 "$XDG_RUNTIME_DIR"
    chmod 755 "$XDG_RUNTIME_DIR/mpimatmul"

    # Only PoCL is visible, so device 0:0 is the same everywhere. To test a GPU:
    #   OCL_ICD_VENDORS=/etc/OpenCL/vendors TEST_DEVICES=1:0 make check SUITE=device
    export OCL_ICD_VENDORS=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors/pocl.icd}

    # Open MPI as root in a container, with more ranks than cores, without loading OpenCL drivers into mpirun.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1
    export HWLOC_COMPONENTS=-opencl,-gl

    # There are thousands of starts of a tenth of a second, and of that these take a third: hwloc reads every PCI device
    # (a call of the hypervisor each) and loads libxml2, PMIx makes files for what the ranks of one host tell each other
    # (tests/lab has more hosts), and threads of OpenBLAS spin for 25 ms before they sleep.
    export HWLOC_COMPONENTS=$HWLOC_COMPONENTS,-linux:pci,-linux:io HWLOC_PLUGINS_PATH=/nonexistent
    export PMIX_MCA_gds=hash OPENBLAS_THREAD_TIMEOUT=4

    # Several jobs share the cores: ranks that wait let others compute. PATIENT is for `mpirun -x`, which gives it to
    # them.
    export OMPI_MCA_mpi_yield_when_idle=1 PATIENT=LD_PRELOAD=$BUILD/tests/patient.so
    case $MODE in asan | tsan) PATIENT=OMPI_MCA_mpi_yield_when_idle ;; esac

    # Ranks of one node copy from each other's memory (CMA) unless a container's seccomp filter forbids the
    # call, which Open MPI 4.1 finds out too late.
    cma_is_permitted() {
        "$PYTHON" - <<'PYTHON_END' 2> /dev/null
import ctypes, os, sys
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
source, target = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(2)
here, there = (Part(ctypes.addressof(b), 1) for b in (target, source))
copied = ctypes.CDLL(None).process_vm_readv(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
sys.exit(copied != 1)
PYTHON_END
    }
    if ! cma_is_permitted; then
        export OMPI_MCA_btl_vader_single_copy_mechanism=none
    fi

    # Open MPI and the OpenCL drivers keep memory until exit: leaks are looked for in our own code only.
    export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0}
    export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$REPO/tests/leaks.supp:print_suppressions=0}
    export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
    # What the libraries under us do among their own threads the thread sanitizer cannot see, and takes for races.
    export TSAN_OPTIONS=${TSAN_OPTIONS:-ignore_noninstrumented_modules=1:exitcode=99}
fi

# What the sanitizers' own doings would spoil, and why.
need_plain() {
    case $MODE in asan | tsan) skip "$MODE: $1" ;; esac
}

# make_built TARGET...: `make install` and the like of what is built; builds nothing, whatever flags it was built with.
make_built() {
    make -s -C "$REPO" SETUP=no BUILD="$BUILD" MODE="$MODE" -o all -o "${BUILD#"$REPO"/}/deb/mpimatmul" "$@"
}
