#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Another program uses the installed library, compiled with the flags of pkg-config alone.

load ../environment.sh

setup_file() {
    make_built install PREFIX=/opt/mm DESTDIR="$BATS_FILE_TMPDIR/root"
}

# compile NAME: compiles tests/embed/NAME.c.
compile() {
    export PKG_CONFIG_PATH="$BATS_FILE_TMPDIR/root/opt/mm/lib/pkgconfig"
    local root="$BATS_FILE_TMPDIR/root/opt/mm"
    local flags=()
    case $MODE in asan) flags=("-fsanitize=address,undefined") ;; tsan) flags=(-fsanitize=thread) ;; esac
    # shellcheck disable=SC2046 # flags are words
    cc "${flags[@]}" "$REPO/tests/embed/$1.c" -o "$BATS_FILE_TMPDIR/$1" \
        $(PKG_CONFIG_SYSROOT_DIR="$BATS_FILE_TMPDIR/root" pkg-config --cflags --libs mpimatmul) \
        $(pkg-config --cflags --libs ompi-c) -Wl,-rpath,"$root/lib"
}

# Prints numpy's answer for the same small integers.
expected() {
    "$PYTHON" -c '
import numpy as np
a = (np.arange(300 * 100) % 7 - 3.0).reshape(300, 100)
b = (np.arange(100 * 200) % 5 - 2.0).reshape(100, 200)
c = a @ b
print("c[0][0] = %g, c[299][199] = %g" % (c[0, 0], c[299, 199]))'
}

version() {
    sed -n 's/^.define MMUL_VERSION "\(.*\)"/\1/p' "$REPO/include/mpimatmul_local.h"
}

need_numpy() {
    "$PYTHON" -c 'import numpy' 2> /dev/null || skip "numpy is not installed"
}

@test "a program links against the installed library and multiplies on two ranks" {
    compile multiply
    run mpirun -q -n 2 "$BATS_FILE_TMPDIR/multiply"
    [ "$status" -eq 0 ]
    [ "$output" = "$(expected)" ]
}

@test "a program of several products keeps its values on the ranks" {
    need_numpy
    compile chain
    run mpirun -q -n 2 "$BATS_FILE_TMPDIR/chain"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "$("$PYTHON" -c '
import numpy as np
x = (np.arange(300 * 60) % 7 - 3.0).reshape(300, 60)
w = (np.arange(60 * 60) % 5 - 2.0).reshape(60, 60)
y = np.maximum(x @ w, 0) @ w
print("H: rows 0 to 150 stay here; Y begins with %g and ends with %g" % (y[0, 0], y[299, 59]))')" ]
    [ "$(wc -l < "$REPO/tests/embed/chain.c")" -le 60 ]
}

@test "a product on a grid and one of summands give the same result" {
    compile grid
    for ranks in 1 4; do
        run mpirun -q --oversubscribe -n "$ranks" "$BATS_FILE_TMPDIR/grid"
        [ "$status" -eq 0 ]
        [[ "${lines[-1]}" == *", 0 elements of D differ" ]]
    done
}

@test "a program runs a text with a loop, and its callback can end it" {
    need_numpy
    compile text
    local text='a = tril(ones((5, 5)))
x = a
for i in loop(9):
    x = x @ a
    if sum(x) > 500:
        break
    print(sum(x))
save("x.npy", x)'
    local printed=$'0 of 9: 35\n1 of 9: 70\n2 of 9: 126\n3 of 9: 210\n4 of 9: 330\n5 of 9: 495\n'
    cd "$BATS_TEST_TMPDIR" || return 1
    for ranks in 1 2; do
        rm -f x.npy
        run mpirun -q -n "$ranks" "$BATS_FILE_TMPDIR/text" "$text" 9
        [ "$status" -eq 0 ]
        [ "$output" = "${printed}14 programs before the last one" ]
        "$PYTHON" -c '
import numpy as np
assert (np.load("x.npy") == np.linalg.matrix_power(np.tril(np.ones((5, 5))), 8)).all()'
    done
    run mpirun -q -n 2 "$BATS_FILE_TMPDIR/text" "$text" 1
    [ "$status" -eq 65 ]
    [ "$(grep -c '^65 turn 1: iteration 1 is too late$' <<< "$output")" -eq 2 ]
    run mpirun -q -n 2 "$BATS_FILE_TMPDIR/text" "${text/500/a}" 9
    [ "$status" -eq 65 ]
    [ "$(grep -c '^65 text:5:8: a condition must be a number, found a matrix$' <<< "$output")" -eq 2 ]
    [ "$(wc -l < "$REPO/tests/embed/text.c")" -le 60 ]
}

@test "another language may pass a struct of options without the later fields" {
    need_numpy
    need_plain "python is not linked against the sanitizer"
    run "$PYTHON" - "$BATS_FILE_TMPDIR/root/opt/mm/lib/libmpimatmul.so" "$BATS_TEST_TMPDIR" <<'END'
import ctypes as c, sys, numpy as np
class Options(c.Structure):  # a size that ends before bin_version
    _fields_ = [("struct_bytes", c.c_size_t), ("format", c.c_int), ("has_dtype", c.c_bool), ("dtype", c.c_int)]
library, folder = c.CDLL(sys.argv[1]), sys.argv[2]
values = np.arange(6, dtype="f4").reshape(2, 3)
np.save(folder + "/A.npy", values)
matrix, error, overflows = c.c_void_p(), c.create_string_buffer(2048), c.c_int64()
assert library.mmul_matrix_open((folder + "/A.npy").encode(), c.byref(matrix), error) == 0
options = Options(struct_bytes=Options.dtype.offset + 4, has_dtype=True, dtype=1)
def convert(options):
    # bytes behind the size are not read as a version
    given = c.create_string_buffer(bytes(options)[:20] + b"\x03" * 100)
    return library.mmul_convert(matrix, (folder + "/A.bin").encode(), given, c.byref(overflows), error)
assert convert(options) == 0, error.raw
found = np.fromfile(folder + "/A.bin", dtype="f2", offset=20).reshape(2, 3)
assert (found == values).all()
options.struct_bytes = 4096
print(convert(options), error.raw[4:].split(b"\0")[0].decode())
END
    [ "$status" -eq 0 ]
    [ "$output" = "64 struct mmul_convert_options is said to have 4096 bytes, this library ($(version)) knows 24" ]
}

@test "the headers compile as C++" {
    command -v c++ > /dev/null || skip "no C++ compiler is installed"
    local include=$BATS_FILE_TMPDIR/root/opt/mm/include
    for header in mpimatmul mpimatmul_local; do
        # shellcheck disable=SC2046 # flags are words
        run c++ -std=c++11 -fsyntax-only -x c++ -I "$include" $(pkg-config --cflags ompi-c) - <<END
#include <$header.h>
char text[96];
char *shown = mmul_shape_format(mmul_shape(), text);
END
        echo "$output"
        [ "$status" -eq 0 ]
        ! grep error <<< "$output" || return 1
    done
}

@test "the library exports only names with its own prefix" {
    run nm -D --defined-only "$BATS_FILE_TMPDIR/root/opt/mm/lib/libmpimatmul.so"
    [ "$status" -eq 0 ]
    [ -n "$output" ]
    [ "$(grep -c ' mmul_' <<< "$output")" -eq "$(wc -l <<< "$output")" ]
}
