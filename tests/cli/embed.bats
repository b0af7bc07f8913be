#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Another program uses the installed library: compiled with what pkg-config says and nothing else.

load ../environment.sh

setup_file() {
    make_built install PREFIX=/opt/mm DESTDIR="$BATS_FILE_TMPDIR/root"
}

compile() {
    export PKG_CONFIG_PATH="$BATS_FILE_TMPDIR/root/opt/mm/lib/pkgconfig"
    local root="$BATS_FILE_TMPDIR/root/opt/mm"
    # shellcheck disable=SC2046 # flags are words
    cc "$REPO/tests/embed/multiply.c" -o "$BATS_FILE_TMPDIR/multiply" \
        $(PKG_CONFIG_SYSROOT_DIR="$BATS_FILE_TMPDIR/root" pkg-config --cflags --libs mpimatmul) \
        $(pkg-config --cflags --libs ompi-c) -Wl,-rpath,"$root/lib"
}

# numpy's answer to the same small integers.
expected() {
    "$PYTHON" -c '
import numpy as np
a = (np.arange(300 * 100) % 7 - 3.0).reshape(300, 100)
b = (np.arange(100 * 200) % 5 - 2.0).reshape(100, 200)
c = a @ b
print("c[0][0] = %g, c[299][199] = %g" % (c[0, 0], c[299, 199]))'
}

@test "a program links against the installed library and multiplies on two ranks" {
    compile
    run mpirun -q -n 2 "$BATS_FILE_TMPDIR/multiply"
    [ "$status" -eq 0 ]
    [ "$output" = "$(expected)" ]
}

@test "the library exports only names of its own" {
    run nm -D --defined-only "$BATS_FILE_TMPDIR/root/opt/mm/lib/libmpimatmul.so"
    [ "$status" -eq 0 ]
    [ -n "$output" ]
    [ "$(grep -c ' mmul_' <<< "$output")" -eq "$(wc -l <<< "$output")" ]
}
