#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Python package over the library: from the build folder, installed, alone and on several ranks.

load helper.bash

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
    need_plain "python is not linked against the sanitizer"
    need_numpy
    export PYTHONPATH=$REPO/src/python MPIMATMUL_LIBRARY=$BUILD/lib/libmpimatmul.so.0
    export MPIMATMUL_SHARD_DIR=$BATS_TEST_TMPDIR/shards
}

arguments="'argument 1 of matmul' (64 x 48) by 'argument 2 of matmul' (64 x 48)"
below='axis=-2 puts rows below each other'
expected='chain ok
causal ok
topk ok
places ok
sum ok
attention ok
slice ok
joined ok
stacked ok
permute ok
take ok
where ok
layer_norm ok
axis ok
abs ok
float64 ok
big-endian ok
whole ok
large whole ok
kept ok
65 cannot multiply '"$arguments"': inner sizes 48 and 64 differ
66 cannot open '"'/nowhere.npy'"': No such file or directory
79 values differ by 1, more than 0.5
64 no placement '"'here'"': expected rows, cols, grid, replicate
64 cannot take [0] of a value: expected begin:end
64 no gelu of '"'fast'"': expected none, tanh
65 an array of complex128 cannot be a value: expected real numbers
64 cannot write '"'d.bin'"' as float64: .bin has no such type
64 a NUL byte cannot be in a file'"'"'s name
66 cannot open '"'?.npy'"': No such file or directory
65 18446744073709551615 cannot be an element: expected whole numbers below 2^63
65 an array of complex128 cannot be a value: expected real numbers
64 layer_norm adds b where it has w
64 causal is 2, expected True, False, 1 or 0
64 causal is 1.0, expected True, False, 1 or 0
64 interleaved is None, expected True, False, 1 or 0
64 axis -3 of 2 axes: expected -2 to 1
64 mean along axis 0 of one axis, which is a row (1 x 32) here: axis=-1 is along its elements
64 concat along axis 0 of one axis, which is a row (1 x 32) here: axis=-1 joins its elements, '"$below"'
64 seed must be at least 0
65 no array after all
64 device and threads are chosen before the first value
71 Unable to allocate 364. TiB for an array with shape (10000000, 10000000) and data type float32
65 an array of <U4 cannot be a value: expected real numbers
64 a program cannot begin inside of another one
65 cannot save to '"'./X.npy'"': it is saved before
64 values are computed by the thread that has begun with it
65 '"'an array' holds 1099511627777 at [0, 0, 0, 0]: float32 is exact up to 16777216"'
65 an array of object cannot be a value: expected real numbers
two in a file ok
kept set ok
kept sums ok
parts ok
columns ok
parts that are left ok'

@test "values agree with numpy, alone and on three ranks" {
    run "$PYTHON" "$REPO/tests/python_package.py" alone X.npy
    diff <(echo "$expected") <(echo "$output")
    [ "$status" -eq 0 ]
    run mpirun -q --oversubscribe -n 3 "$PYTHON" "$REPO/tests/python_package.py" alone X.npy
    diff <(echo "$expected") <(echo "$output")
    [ "$status" -eq 0 ]
    expect_only_files X.npy X.npy.npz
}

@test "mpi4py may have begun MPI" {
    "$PYTHON" -c 'import mpi4py' 2> /dev/null || skip "mpi4py is not installed"
    run mpirun -q -n 2 "$PYTHON" "$REPO/tests/python_package.py" mpi4py X.npy
    diff <(echo "$expected") <(echo "$output")
    [ "$status" -eq 0 ]
}

@test "ctypes and C see the same structs" {
    "$PYTHON" - << 'END' > layout.c
from mpimatmul import _library as lib
print('#include <mpimatmul.h>\nint main(void) {')
for name, struct in lib.STRUCTS.items():
    for field, *_ in struct._fields_:
        print(f'    printf("{name} {field} %zu\\n", offsetof(struct {name}, {field.rstrip("_")}));')
print('    printf("%zu %zu %zu %zu\\n", sizeof(struct mmul_error), sizeof(struct mmul_parameters), '
      'sizeof(struct mmul_value_part), sizeof(struct mmul_call));\n}')
END
    # shellcheck disable=SC2046 # flags are words
    cc -I "$REPO/include" layout.c -o layout $(pkg-config --cflags --libs ompi-c)
    run "$PYTHON" - << 'END'
import ctypes
from mpimatmul import _library as lib
for name, struct in lib.STRUCTS.items():
    for field, *_ in struct._fields_:
        print(name, field, getattr(struct, field).offset)
print(*map(ctypes.sizeof, (lib.ErrorText, lib.Parameters, lib.Part, lib.Call)))
END
    diff <(./layout) <(echo "$output")
}

@test "a program file is a script" {
    "$PYTHON" -c 'import numpy as np; np.save("x.npy", np.arange(12, dtype="f4").reshape(3, 4) - 5)'
    printf 'x = load("x.npy")\nfor i in range(2):\n    x = relu(x @ x.T @ x) / 100\nsave("y.npy", x)\n' > p.py
    run mpirun -q -n 2 "$PYTHON" -m mpimatmul p.py
    [ "$output" = "" ]
    [ "$status" -eq 0 ]
    "$PYTHON" -c '
import numpy as np
x = np.load("x.npy").astype("f8")
for i in range(2):
    x = np.maximum(x @ x.T @ x, 0) / 100
assert np.allclose(np.load("y.npy"), x, rtol=1e-5)'
    "$PYTHON" -c 'import numpy as np; np.save("row.npy", np.arange(4, dtype="f4"))'
    echo 'save("z.npy", max(load("row.npy"), axis=1))' > p.py
    run mpirun -q -n 2 "$PYTHON" -m mpimatmul p.py
    [[ "$output" == *"mpimatmul: max along axis 1 of one axis, which is a row (1 x 4) here: axis=-1 is along"* ]]
    [ "$status" -eq 64 ]
    echo 'save("z.npy", load("x.npy") @ load("x.npy"))' > p.py
    run mpirun -q -n 2 "$PYTHON" -m mpimatmul p.py
    [[ "$output" == *"mpimatmul: cannot multiply 'x.npy' (3 x 4) by 'x.npy' (3 x 4): inner sizes 4 and 3 differ"* ]]
    [ "$status" -eq 65 ]
    [ ! -e z.npy ]
}

@test "an exception on one rank ends the job" {
    echo 'import mpimatmul as mm
x = mm.array([[1.0, 2.0]])
if mm.rank() == 1:
    raise ValueError("of rank 1 alone")
x.numpy()' > one.py
    run timeout 20 mpirun -q -n 2 "$PYTHON" one.py
    [[ "$output" == *"ValueError: of rank 1 alone"* ]]
    [ "$status" -eq 1 ]
    printf 'import mpimatmul as mm\nx = mm.array([[1.0, 2.0]])\nx @ x' > all.py
    run timeout 20 mpirun -q --oversubscribe -n 3 "$PYTHON" all.py
    [ "$(grep -c 'Error: cannot multiply' <<< "$output")" -eq 1 ]
    [ "$status" -eq 1 ]
}
