#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Python package over the library: from the build folder, installed, alone and on several ranks.
# shellcheck disable=SC2154 # status, output and stderr are set by bats

load helper.bash

setup() {
    setup_package
}

arguments="'x' (64 x 48) by 'x' (64 x 48)"
below='axis=-2 stacks the rows'
floats='expected True and False, or floats that are added to the scores'
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
take of one axis ok
take of of one axis ok
take of one row ok
take of of one row ok
take of sorted ok
take of sorted row ok
take of column ok
take of joined ids ok
take of placed ok
where ok
layer_norm ok
axis ok
abs ok
any axis ok
by number ok
column ok
dropped ok
soft along ok
clip ok
norm ok
made ok
cumsum ok
in order ok
order ok
dropout ok
loss ok
gw ok
gb ok
gx ok
learned by persist ok
learned by item ok
persistent ok
gradient of it ok
float64 ok
argmin -1 ok
argmin -2 ok
argmin 0 ok
argmin 1 ok
argmax of a stack ok
argmax that stays ok
one_hot of (1, 3) ok
one_hot of (1, 3) ok
one_hot of (1, 3) ok
one_hot of (1, 3) ok
one_hot of (2, 1) ok
big-endian ok
whole ok
large whole ok
kept ok
methods ok
65 cannot multiply '"$arguments"': inner sizes 48 and 64 differ
66 cannot open '"'/nowhere.npy'"': No such file or directory
79 values differ by 1, more than 0.5
64 invalid placement '"'here'"': expected rows, cols, grid, replicate, cyclic
64 index 1000000 of an axis of 64: expected -64 to 63
64 cannot take [a value of float32] of a value: expected whole numbers
64 an index of a one-axis array, which is stored as a row (1 x 48)
64 a slice of a one-axis array, which is stored as a row (1 x 5)
64 ids has 4 axes (1 x 2 x 3 x 4), expected 1 to 3: the result has one more
64 ids has 4 axes (1 x 2 x 3 x 4), expected 1 to 3: the result has one more
64 clip: a bound must be a number or None
64 invalid approximate '"'fast'"': expected none, tanh
65 an array of complex128 cannot be a value: expected real numbers
64 cannot write '"'d.bin'"' as float64: .bin has no such type
64 a file name cannot contain a NUL byte
66 cannot open '"'?.npy'"': No such file or directory
65 18446744073709551615 cannot be an element: expected whole numbers below 2^63
65 an array of complex128 cannot be a value: expected real numbers
64 layer_norm takes b only together with w
64 causal is 2, expected True, False, 1 or 0
64 causal is 1.0, expected True, False, 1 or 0
64 interleaved is None, expected True, False, 1 or 0
65 attention: the mask '"'argument 4 of attention'"' holds whole numbers: '"$floats"'
64 axis -3 of 2 axes: expected -2 to 1
64 mean along axis 0 of a one-axis array, which is stored as a row (1 x 32): axis=-1 runs along its elements
64 concat along axis 0 of a one-axis array, which is stored as a row (1 x 32): axis=-1 joins the elements, '"$below"'
64 seed must be at least 0
65 no array after all
64 device and threads must be chosen before the first value
71 Unable to allocate 364. TiB for an array with shape (10000000, 10000000) and data type float32
65 an array of <U4 cannot be a value: expected real numbers
64 programs cannot be nested
65 cannot save to '"'./X.npy'"': it is already saved
64 values must be computed by the thread that computed the first one
65 '"'bare' holds 1099511627777 at [0, 0, 0, 0]: float32 is exact up to 16777216"'
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
    expect_only_files X.npy X.npy.npz d.npy whole.npy
}

@test "the package uses an MPI that mpi4py has initialised" {
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
    echo 'save("places.npy", argmax(load("x.npy")))' > p.py
    "$PYTHON" -m mpimatmul p.py
    "$PYTHON" -c 'import numpy as np; assert (np.load("places.npy") == [[3], [3], [3]]).all()'
    "$PYTHON" -c 'import numpy as np; np.save("row.npy", np.arange(4, dtype="f4"))'
    echo 'save("z.npy", max(load("row.npy"), axis=1))' > p.py
    run mpirun -q -n 2 "$PYTHON" -m mpimatmul p.py
    local refused="max along axis 1 of a one-axis array, which is stored as a row (1 x 4)"
    [[ "$output" == *"p.py:1: $refused: axis=-1 "* ]]
    [ "$status" -eq 64 ]
    echo 'save("z.npy", load("x.npy") @ load("x.npy"))' > p.py
    run mpirun -q -n 2 "$PYTHON" -m mpimatmul p.py
    told="p.py:1: cannot multiply 'x.npy' (3 x 4) by 'x.npy' (3 x 4): inner sizes 4 and 3 differ"
    [[ "$output" == *"mpimatmul: $told"* ]]
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

@test "errors name the script's lines and names" {
    cat > words.py << 'END'
import sys
import traceback
import numpy as np
import mpimatmul as mm

def product(left, right):
    return left @ right

def show(work):
    try:
        work()
    except mm.Error as error:
        print(error.status, error)

table = mm.array(np.ones((3, 4)))
table2 = mm.array(np.arange(6).reshape(2, 3))
np.save("w.npy", np.ones((2, 2)))
show(lambda: product(table, table2))
show(lambda: mm.load("w.npy") @ table)
show(lambda: table + mm.array(np.ones((2, 2))))
show(lambda: mm.take(table, mm.array([11])).numpy())
ids = mm.array([1, 7])
show(lambda: mm.take(mm.array([[1.0]] * 3), ids).numpy())
show(lambda: mm.array([[2 ** 40 + 1]]).numpy())
show(lambda: table.reshape(5, 5))
show(lambda: table.reshape(2.5, 5))
show(lambda: table.permute(0, 0))
show(lambda: mm.topk(table, "all"))
product(table, table2)
END
    run --separate-stderr "$PYTHON" "$PWD/words.py"
    diff - <(echo "$output") << 'END'
65 cannot multiply 'left' (3 x 4) by 'right' (2 x 3): inner sizes 4 and 2 differ
65 cannot multiply 'w.npy' (2 x 2) by 'table' (3 x 4): inner sizes 2 and 3 differ
65 cannot add 'table' (3 x 4) and 'argument 2 of add' (2 x 2): rows 3 and 2 differ
65 cannot read row 11 of 'table', which has 3 rows
65 cannot read row 7 of 'array of words.py:23', which has 3 rows
65 'array of words.py:24' holds 1099511627777 at [0, 0, 0, 0]: float32 is exact up to 16777216
65 cannot reshape 'table' (3 x 4) to 5 x 5: 12 elements and 25
64 shape is (2.5, 5), expected whole numbers
64 cannot permute 2 axes to (0, 0)
64 k is 'all', expected whole numbers
END
    diff - <(echo "$stderr") << END
Traceback (most recent call last):
  File "$PWD/words.py", line 29, in <module>
    product(table, table2)
  File "$PWD/words.py", line 7, in product
    return left @ right
           ~~~~~^~~~~~~
mpimatmul.Error: cannot multiply 'left' (3 x 4) by 'right' (2 x 3): inner sizes 4 and 2 differ
END
    [ "$status" -eq 1 ]
}

@test "every name has a docstring, and the package has a help text" {
    run "$PYTHON" -c '
import inspect
import mpimatmul as mm
owners = [mm, mm.nn, mm.optim, mm.debug]
owners += [thing for owner in owners for thing in map(vars(owner).get, owner.__all__) if inspect.isclass(thing)]
for owner in owners:
    for name in getattr(owner, "__all__", None) or dir(owner):
        if not name.startswith("_") and name != "args" and not inspect.getdoc(inspect.getattr_static(owner, name)):
            print(owner, name)
methods = "T all amax amin any argmax argmin argsort backward clip cumsum current diag dtype flatten flip grad " \
          "item local logsumexp max maximum mean min minimum ndim norm numpy outer permute prod repeat " \
          "requires_grad reshape softmax sort std sum take tile tolist topk transpose tril triu var where round".split()
methods += mm._elements.FUNCTIONS  # of elements: the list of the library
assert {"exp", "log1p", "tanh", "sign", "isnan"} < set(methods) < set(dir(mm.Value))
assert [n for n in dir(mm.Value) if not n.startswith("_")] == sorted(methods), dir(mm.Value)'
    [ "$output$status" = 0 ]
    run --separate-stderr "$PYTHON" -m mpimatmul --help
    [ "${lines[0]}" = "usage: python3 -m mpimatmul FILE" ]
    [[ "$output" == *"  --help     this text"* ]]
    [ "$status$stderr" = 0 ]
    run --separate-stderr "$PYTHON" -m mpimatmul
    [ "$status$output$stderr" = "64usage: python3 -m mpimatmul FILE" ]
    run --separate-stderr "$PYTHON" -m mpimatmul nothing.py
    [ "$stderr" = "mpimatmul: cannot open 'nothing.py': No such file or directory" ]
    [ "$status" -eq 66 ]
    echo 'x = = 3' > p.py
    run --separate-stderr "$PYTHON" -m mpimatmul p.py
    [ "$stderr" = "mpimatmul: p.py:1:5: invalid syntax" ]
    [ "$status" -eq 65 ]
}

@test "repr of a value shows its known facts and computes nothing" {
    cat > repr.py << 'END'
import numpy as np
import mpimatmul as mm
x = mm.array(np.arange(24.0).reshape(4, 6))
y = x @ mm.array(np.eye(6, 9))
print(repr(y), y.dtype, len(y))
y.numpy()
print(repr(y))
z = mm.reshape(x, (2, 2, 6))
z.numpy()
print(repr(z))
mm.print("sum", 2, x.sum(), "of", mm.array([[1.0, 2.0]]))
print(f"{x.sum()} {x.sum():.2f} {x.max(axis=-1, keepdims=True)} {np.sum(x)}")
for wrong in (lambda: bool(y), lambda: list(x[0]), lambda: float(y), lambda: x.sum(axis=0, dtype="f4")):
    try:
        wrong()
    except (TypeError, mm.Error) as error:
        print(error)
END
    run "$PYTHON" repr.py
    diff - <(echo "$output") << 'END'
Value(4 x 9, float64) float64 4
Value(4 x 9, float64)
[[ 0.  1.  2.  3.  4.  5. ...]
 [ 6.  7.  8.  9. 10. 11. ...]
 [12. 13. 14. 15. 16. 17. ...]
 [18. 19. 20. 21. 22. 23. ...]]
Value(2 x 2 x 6, float64)
[[ 0.  1.  2.  3.  4.  5.]
 [ 6.  7.  8.  9. 10. 11.]]
 ...
sum 2 276 of Value(1 x 2, float64)
[[1. 2.]]
276 276.00 Value(4 x 1, float64) 276
a matrix has no truth value: float(v) gives the number of a 1 x 1 value
cannot iterate over a one-axis value, which is stored as a row (1 x 6) here
a value of 4 x 9 is not one number
sum: dtype and out are not supported
END
    [ "$status" -eq 0 ]
}

@test "a notebook shows the facts that this rank knows, escaped, and computes nothing" {
    cat > shown.py << 'END'
import numpy as np
import mpimatmul as mm
mm.init(record=True)
x = mm.array(np.arange(24.0).reshape(4, 6))
y, i, z = x.T @ x / 7, mm.argmax(x), mm.reshape(x, (2, 2, 6))
np.save("a<b>&'.npy", np.ones((1, 2)))
f = mm.load("a<b>&'.npy")


def show(*values):
    print(*(value._repr_html_() for value in values), sep="\n")


show(y, f, mm.nn.Parameter(np.ones(2)))
try:
    mm.debug.worker_statistics()
except mm.Error as error:
    print(error)
mm.evaluate(y, i, z)
g = f * 2
(g + 1).numpy()
show(y, i, z, f, g, mm.persist(f + 1), mm.generate((2, 3)))
END
    run "$PYTHON" shown.py
    row() { printf '<tr>'; printf '<td>%s</td>' "$@"; printf '</tr>'; }
    more='&hellip;'
    diff - <(echo "$output") << END
<div><b>Value</b> 6 &times; 6, float64, not computed yet</div>
<div><b>Value</b> 1 &times; 2, float64, 'a&lt;b&gt;&amp;'.npy', not read yet</div>
<div><b>Parameter</b> 1 &times; 2, float64, not computed yet</div>
no job was recorded
<div><b>Value</b> 6 &times; 6, float64, computed, rows 0 6</div><table>$(
    row 72 77.1429 82.2857 87.4286 92.5714 97.7143)$(
    row 77.1429 82.8571 88.5714 94.2857 100 105.714)$(row 82.2857 88.5714 94.8571 101.143 107.429 113.714)$(
    row 87.4286 94.2857 101.143 108 114.857 121.714)$(row $more $more $more $more $more $more)</table>
<div><b>Value</b> 1 &times; 4, int32, computed, rows 0 1</div><table>$(row 5 5 5 5)</table>
<div><b>Value</b> 2 &times; 2 &times; 6, float64, computed, rows 0 4</div><table>$(
    row 0 1 2 3 4 5)$(row 6 7 8 9 10 11)$(
    row $more $more $more $more $more $more)</table>
<div><b>Value</b> 1 &times; 2, float64, 'a&lt;b&gt;&amp;'.npy', read</div>
<div><b>Value</b> 1 &times; 2, float64, computed as an intermediate value, and not kept</div>
<div><b>Value</b> 1 &times; 2, float64, stays on the rank, rows 0 1</div>
<div><b>Value</b> 2 &times; 3, float32, not used yet</div>
END
    cat > alone.py << 'END'
import numpy as np
import mpimatmul as mm
x = mm.array(np.ones((4, 2)))
y = x * 2
if mm.rank() == 1:  # each shows it without the other one
    print(y._repr_html_())
mm.persist(y)
if mm.rank() == 0:
    print(y._repr_html_())
    print((y + 1)._repr_html_())
large = mm.persist(mm.place(mm.generate((600, 600)), "rows"))
if mm.rank() == 0:
    print(large._repr_html_())
END
    run timeout 60 mpirun -q -n 2 "$PYTHON" alone.py
    [ "$status" -eq 0 ]
    diff - <(sort <<< "$output") << 'END'
<div><b>Value</b> 4 &times; 2, float64, not computed yet</div>
<div><b>Value</b> 4 &times; 2, float64, rank 0 knows the state of the computation</div>
<div><b>Value</b> 4 &times; 2, float64, stays on rank 0</div>
<div><b>Value</b> 600 &times; 600, float32, stays on the ranks, rows 0 300 600 of 2 ranks</div>
END
}

# Offline: Debian's setuptools builds the wheel, and the venv's own numpy is a link to Debian's.
@test "in a venv the installed package finds the library and leaves the venv's numpy unchanged" {
    "$PYTHON" -c 'import setuptools, pip, venv, wheel' 2> /dev/null || skip "pip, setuptools, venv or wheel is missing"
    unset PYTHONPATH MPIMATMUL_LIBRARY
    cp -r "$REPO/src/python" package
    "$PYTHON" -m pip --quiet wheel --no-index --no-build-isolation --no-deps --wheel-dir wheels ./package
    [ "$(echo wheels/*)" = "wheels/mpimatmul-$("$MPIMATMUL" --version | cut -d ' ' -f 2)-py3-none-any.whl" ]
    "$PYTHON" -m venv --without-pip venv
    site=$(echo venv/lib/python3*/site-packages)
    "$PYTHON" -c 'import glob, numpy; print(*glob.glob(numpy.__path__[0] + "*"), sep="\n")' |
        while read -r part; do ln -s "$part" "$site"; done
    "$PYTHON" -m pip --quiet --python venv/bin/python install --no-index wheels/*.whl
    make -s -C "$REPO" BUILD="$BUILD" install PREFIX="$PWD/prefix" > /dev/null
    cat > venv.py << 'END'
import os, sys
import numpy
import mpimatmul as mm
print([os.path.relpath(module.__file__) for module in (numpy, mm)])
print([path for path in sys.path if "dist-packages" in path], mm.array([[1.0, 2.0]]).numpy())
END
    expected="['$site/numpy/__init__.py', '$site/mpimatmul/__init__.py']"$'\n'"[] [[1. 2.]]"
    PATH=$PWD/prefix/bin:$PATH run venv/bin/python venv.py
    diff <(echo "$expected") <(echo "$output")
    PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig run venv/bin/python venv.py
    diff <(echo "$expected") <(echo "$output")
    MPIMATMUL_LIBRARY=$PWD/prefix/lib/libmpimatmul.so.0 run mpirun -q -n 2 venv/bin/python venv.py
    [ "$(grep -c 'venv/lib' <<< "$output")" -eq 2 ]
    [ "$status" -eq 0 ]
    MPIMATMUL_LIBRARY=/nowhere/lib.so run venv/bin/python venv.py
    [ "$(tail -n 1 <<< "$output")" = "ImportError: cannot load libmpimatmul.so.0: /nowhere/lib.so: cannot open shared \
object file: No such file or directory; set its path, as \
MPIMATMUL_LIBRARY=/usr/local/lib/libmpimatmul.so.0" ]
    [ "$status" -eq 1 ]
}

@test "the header of a table is skipped with a warning" {
    printf 'a,"1 b"\n1,2\n3,4\n' > h.csv
    printf '1,2\n3,4\n' > n.csv
    cat > header.py << 'END'
import warnings
import mpimatmul as mm
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert mm.load("h.csv").numpy().tolist() == [[1, 2], [3, 4]]
    mm.load("n.csv")
assert [str(w.message) for w in told] == ["the first line of 'h.csv' is a header and was skipped"], told
END
    run --separate-stderr "$PYTHON" header.py
    expect_quiet_success
}

@test "load_file reads the tensors of .npz, .pt and .gguf files and warns of other contents" {
    cp "$REPO"/tests/data/*.{gguf,npz,pt} .
    cat > all.py << 'END'
import os
import sys
import warnings
import numpy as np
import mpimatmul as mm
sys.path.insert(0, sys.argv[1])
from tensors import GGUF_PACKED, expected, expected_gguf, expected_torch, same_bits, write_gguf

def same(file, right):
    found = mm.load_file(file)
    assert sorted(found) == sorted(right), (file, list(found))
    for name, array in right.items():
        if name == "large":  # float32 holds none of its whole numbers
            continue
        array = array if array.ndim > 1 else array[None]
        assert found[name].shape == array.shape, (file, name, found[name].shape)
        data = found[name].numpy()
        assert mm.rank() > 0 or (data == array).all(), (file, name)

def told(file):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        names = list(mm.load_file(file))
    return names, [(str(w.message), os.path.basename(w.filename)) for w in told]

same("stored.npz", expected())
same("torch.pt", expected_torch())
names = ("f32", "f16", "bf16", "q8_0", "q4_0", "q5_0", "stack")
same("model.gguf", {"blk.0." + name: expected_gguf()[name] for name in names})
blocks = mm.load_file("blocks.gguf")
for name in GGUF_PACKED:
    data, right = blocks[name].numpy(), blocks[name + ".expected"].numpy()
    assert mm.rank() > 0 or same_bits(data, right), name
if mm.rank() == 0:
    write_gguf("m.gguf", [("new\x1b", (4, 2), 99, 0), ("here", (4, 2), 0, 32), ("number", (), 0, 64),
                          ("five", (1,) * 5, 0, 96), ("none", (0, 3), 0, 128), ("more", (1,) * 6, 0, 160)])
    write_gguf("none.gguf")
names, lines = told("m.gguf")
assert names == ["here"], names
assert mm.rank() > 0 or lines == [("'m.gguf': not loaded: 'new?' (2 x 4, type 99), 'number' (a number, float32), "
    "'five' (1 x 1 x 1 x 1 x 1, float32), 'none' (3 x 0, float32) and 1 more", "all.py")], lines
assert told("none.gguf") == ([], [])
for file in ("one.npy", "m.gguf:here", "nul.csv", "wide.txt"):
    if mm.rank() == 0:
        np.save("one.npy", np.eye(3, dtype="f4"))
        open("nul.csv", "wb").write(b"1,2\n\0")
        open("wide.txt", "w", encoding="utf-32-le").write("1 2 3")
    try:
        mm.load_file(file)
    except mm.Error as error:
        if mm.rank() == 0:
            print(error.status, error, error.hint)
END
    told="65 'one.npy' holds a single unnamed matrix use load
65 'm.gguf:here' holds a single unnamed matrix use load
65 line 2 of 'nul.csv': column 1 has the control byte 0x00, expected a number \
delete control bytes: tr -d '\\000-\\010\\013\\014\\016-\\037\\177'
65 'wide.txt' is text in UTF-32, which is not read yet \
make UTF-8 of it first: iconv -f UTF-32 -t UTF-8 'wide.txt' -o 'wide.csv'"
    for count in 1 2; do
        rm -f m.gguf none.gguf one.npy
        run --separate-stderr "${launch[@]}" -n $count "$PYTHON" all.py "$REPO/tests/cli"
        expect_quiet_success
        [ "$output" = "$told" ]
    done
}
