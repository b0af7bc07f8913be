# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The environment of every test, sourced by scripts/run-tests and by each bats file, so that a bats
# file also runs on its own. Sets REPO, BUILD, MPIMATMUL (the program), PYTHON, and a TMPDIR of its
# own. Sourcing it again changes nothing.

if [ -z "${MMUL_TEST_ENVIRONMENT:-}" ]; then
    export MMUL_TEST_ENVIRONMENT=1

    REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    MODE=${MODE:-release}
    BUILD=$(mkdir -p "${BUILD:-$REPO/build/$MODE}" && cd "${BUILD:-$REPO/build/$MODE}" && pwd)
    export REPO MODE BUILD

    # Removes the caller's settings of the program, of OpenBLAS (a machine's image may have some)
    # and of Python (with PYTHONUNBUFFERED ranks write into each other's lines). `make -n` must not
    # reach a make in a test either.
    unset "${!MPIMATMUL_@}" "${!OPENBLAS_@}" "${!PYTHON@}" MAKEFLAGS MFLAGS MAKELEVEL
    export MPIMATMUL=$BUILD/bin/mpimatmul
    # A fixed seed: the check samples the same elements of a wrong device in every run.
    export MPIMATMUL_VERIFY_SEED=1
    # After two seconds the program prints a progress line, and on a busy machine anything may take
    # that long.
    export MPIMATMUL_PROGRESS=none

    # Debian's python3 has the numpy that scripts/setup installs. Another one in PATH may not.
    PYTHON=/usr/bin/python3
    [ -x "$PYTHON" ] || PYTHON=$(command -v python3 || true)
    export PYTHON LC_ALL=C PYTHONDONTWRITEBYTECODE=1

    # Open MPI makes sockets below TMPDIR, and a socket's path has 108 bytes at most, so the folder
    # must not be deep. run-tests removes the folder made here. bats removes its own.
    if [ -n "${BATS_RUN_TMPDIR:-}" ]; then
        TMPDIR=$BATS_RUN_TMPDIR
    elif [ ${#BUILD} -le 32 ]; then
        TMPDIR=$(mkdir -p "$BUILD/tests" && mktemp -d "$BUILD/tests/tmp.XXXXXX")
    else
        TMPDIR=$(mktemp -d /tmp/mmul-tests.XXXXXX)
    fi
    export TMPDIR

    # Stored profiles stay inside the tests. Compiled kernels are kept between runs (cold: 7 s,
    # warm: 0.06 s).
    export XDG_CACHE_HOME=$TMPDIR/cache
    export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$BUILD/pocl-cache}
    export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-$BUILD/mesa-cache}
    mkdir -p "$POCL_CACHE_DIR" "$MESA_SHADER_CACHE_DIR"

    # A job publishes its state from its first half second on (tests/cli/top). Tests that count
    # system calls would count these or not, depending on the machine's load. All other tests
    # therefore have a folder that jobs refuse to use.
    export XDG_RUNTIME_DIR=$TMPDIR/run
    mkdir -p "$XDG_RUNTIME_DIR/mpimatmul"
    chmod 700 "$XDG_RUNTIME_DIR"
    chmod 755 "$XDG_RUNTIME_DIR/mpimatmul"

    # Only PoCL is visible, so device 0:0 is the same everywhere. To test a GPU:
    #   OCL_ICD_VENDORS=/etc/OpenCL/vendors TEST_DEVICES=1:0 make check SUITE=device
    export OCL_ICD_VENDORS=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors/pocl.icd}

    # Open MPI as root in a container, with more ranks than cores, without loading OpenCL drivers
    # into mpirun.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1
    export HWLOC_COMPONENTS=-opencl,-gl

    # The tests start thousands of processes of a tenth of a second each. The following would take a
    # third of that: hwloc reads every PCI device (a call of the hypervisor each) and loads libxml2,
    # PMIx makes files for data shared by the ranks of one host (tests/lab has more hosts), and
    # threads of OpenBLAS spin for 25 ms before they sleep.
    export HWLOC_COMPONENTS=$HWLOC_COMPONENTS,-linux:pci,-linux:io HWLOC_PLUGINS_PATH=/nonexistent
    export PMIX_MCA_gds=hash OPENBLAS_THREAD_TIMEOUT=4

    # Several jobs share the cores, so waiting ranks yield. PATIENT is the argument of `mpirun -x`
    # for that.
    export OMPI_MCA_mpi_yield_when_idle=1 PATIENT=LD_PRELOAD=$BUILD/tests/sleeping_waits.so
    case $MODE in asan | tsan) PATIENT=OMPI_MCA_mpi_yield_when_idle ;; esac

    # Ranks of one node copy from each other's memory (CMA), unless a container's seccomp filter
    # forbids the call. Open MPI 4.1 notices that too late.
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

    # Open MPI and the OpenCL drivers keep memory until exit, so leaks are searched in the project's
    # own code only.
    export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0}
    export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$REPO/tests/leaks.supp:print_suppressions=0}
    export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
    # The thread sanitizer does not see synchronisation inside uninstrumented libraries and would
    # report races there.
    export TSAN_OPTIONS=${TSAN_OPTIONS:-ignore_noninstrumented_modules=1:exitcode=99}
fi

# need_plain REASON: skips a test that a sanitizer would disturb.
need_plain() {
    case $MODE in asan | tsan) skip "$MODE: $1" ;; esac
}

# make_built TARGET...: runs `make install` and similar targets on the existing build. Builds
# nothing, whatever its flags were.
make_built() {
    make -s -C "$REPO" SETUP=no BUILD="$BUILD" MODE="$MODE" -o all -o "${BUILD#"$REPO"/}/deb/mpimatmul" "$@"
}
