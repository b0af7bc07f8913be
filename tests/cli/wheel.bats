#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The wheel of `make wheel`: its contents in a fresh venv, offline (the venv's own numpy is a link
# to Debian's), and its error when a system library is missing.
# shellcheck disable=SC2154 # status, output, stderr and launch are set by bats and the helper
load helper

setup_file() {
    need_plain "python is not linked against the sanitizer"
    need_numpy
    "$PYTHON" -c 'import setuptools, pip, venv, wheel' 2> /dev/null || skip "pip, setuptools, venv or wheel is missing"
    unset PYTHONPATH MPIMATMUL_LIBRARY
    cd "$BATS_FILE_TMPDIR" || return 1
    mkdir wheels
    "$REPO/scripts/make-wheel" "$BUILD/bin/mpimatmul" "$BUILD/lib/libmpimatmul.so.0" wheels > made
    "$PYTHON" -m venv --without-pip venv
    site=$(echo venv/lib/python3*/site-packages)
    "$PYTHON" -c 'import glob, numpy; print(*glob.glob(numpy.__path__[0] + "*"), sep="\n")' |
        while read -r part; do ln -s "$part" "$site"; done
    "$PYTHON" -m pip --quiet --python venv/bin/python install --no-index wheels/*.whl
    export VENV=$BATS_FILE_TMPDIR/venv
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    unset PYTHONPATH MPIMATMUL_LIBRARY
    export PATH=$VENV/bin:$PATH
}

@test "one command makes a wheel for this platform and any Python" {
    platform=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_platform().replace("-", "_").replace(".", "_"))')
    name=mpimatmul-$("$MPIMATMUL" --version | cut -d ' ' -f 2)-py3-none-$platform.whl
    [ "$(< "$BATS_FILE_TMPDIR/made")" = "$(realpath "$BATS_FILE_TMPDIR/wheels/$name")" ]
    make_built wheel > log
    [ "$(tail -n 1 log)" = "$(realpath "$BUILD/$name")" ]
    rm "$BUILD/$name"
    PYTHON=/bin/false run --separate-stderr "$REPO/scripts/make-wheel" "$MPIMATMUL" "$MPIMATMUL" .
    [ "$status" -eq 69 ]
    [ "$stderr" = "make-wheel: /bin/false has not all of pip, setuptools and wheel: install python3-pip$(
        ) python3-setuptools python3-wheel" ]
}

@test "in a fresh venv the program and scripts run alone and under mpirun, with the library of the wheel" {
    [ "$(command -v mpimatmul)" = "$VENV/bin/mpimatmul" ]
    [ "$(mpimatmul --version)" = "$("$MPIMATMUL" --version)" ]
    mpimatmul gen A.npy --dims 30x40 --kind integer --seed 1 --quiet
    mpimatmul gen B.npy --dims 40x20 --kind integer --seed 2 --quiet
    mpirun -q -n 2 mpimatmul mul A.npy B.npy -o C.npy --report r.json --quiet
    py -c '
import json, numpy as np
assert np.array_equal(np.load("A.npy") @ np.load("B.npy"), np.load("C.npy"))
assert len(json.load(open("r.json"))["ranks"]) == 2'
    [[ "$(ldd "$VENV"/lib/python3*/site-packages/mpimatmul/bin/mpimatmul)" == *"=> $VENV/lib/"*"/libmpimatmul.so.0 "* ]]
    run mpimatmul mul A.npy nothing.npy -o C.npy # its exit codes are the program's
    [ "$status" -eq 66 ]
    [ "${lines[0]}" = "mpimatmul: cannot open 'nothing.npy': No such file or directory" ]
    cat > script.py << 'END'
import numpy as np
import mpimatmul as mm
y = (mm.load("A.npy") @ mm.load("B.npy")).numpy()
if mm.rank() == 0:
    print(np.array_equal(y, np.load("C.npy")), sorted({line.split()[-1] for line in open("/proc/self/maps")
                                                       if "libmpimatmul.so" in line}))
END
    run mpirun -q -n 2 "$VENV/bin/python" script.py
    [ "$output" = "True ['$(echo "$VENV"/lib/python3*/site-packages/mpimatmul/lib/libmpimatmul.so.0)']" ]
}

@test "a missing Open MPI gives a line with its package" {
    mkdir broken
    touch broken/libmpi.so.40
    LD_LIBRARY_PATH=$PWD/broken run --separate-stderr mpimatmul --version
    [ "$status" -eq 69 ]
    [ "$stderr" = "mpimatmul: cannot load libmpi.so.40: $PWD/broken/libmpi.so.40: file too short
  hint: install openmpi-bin" ]
    LD_LIBRARY_PATH=$PWD/broken run --separate-stderr "$VENV/bin/python" -c 'import mpimatmul'
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"ImportError: cannot load Open MPI: $PWD/broken/libmpi.so.40: file too short; Debian's package is$(
        ) openmpi-bin" ]]
    mkdir other
    touch other/libhwloc.so.15
    LD_LIBRARY_PATH=$PWD/other run --separate-stderr mpimatmul --version
    [ "$stderr" = "mpimatmul: cannot load libhwloc.so.15: $PWD/other/libhwloc.so.15: file too short
  hint: install $(dpkg --search '*/libhwloc.so.15' | head -n 1 | cut -d : -f 1)" ]
}
