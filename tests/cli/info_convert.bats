#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# info and convert, with numpy as the other side: they read numpy's files, and numpy reads theirs.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

@test "info prints header, statistics and a corner" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import write_bin
a = np.arange(-3, 32, dtype=np.float32).reshape(5, 7)
a[4, 6], a[4, 5], a[4, 4] = np.nan, np.inf, -np.inf
write_bin("A.bin", a)
END
    program info A.bin
    expect_quiet_success
    # The finite elements are -3 .. 28.
    [ "$(xargs <<< "${lines[0]}")" = "format dims dtype bytes min max mean NaN Inf file" ]
    [ "$(xargs <<< "${lines[1]}")" = "bin 1 5 x 7 float32 160 -3 28 12.5 1 2 A.bin" ]
    expect_line "A.bin, corner of 4 x 6:"
    [ "$(xargs <<< "${lines[3]}")" = "-3 -2 -1 0 1 2 ..." ]
    [ "$(xargs <<< "${lines[6]}")" = "18 19 20 21 22 23 ..." ]
    [ "$(xargs <<< "${lines[7]}")" = "..." ]
}

@test "info of several files is one table, and a matrix smaller than the corner has no dots" {
    "$MPIMATMUL" gen A.bin --dims 2x3 --kind identity
    "$MPIMATMUL" gen B.npy --dims 7x2x3 --dtype float16 --seed 1
    program info A.bin B.npy
    expect_status 0
    [ "$(xargs <<< "${lines[1]}")" = "bin 1 2 x 3 float32 44 0 1 0.333333 0 0 A.bin" ]
    [[ "$(xargs <<< "${lines[2]}")" == "npy 1 7 x 2 x 3 float16 212 "*" B.npy" ]]
    [[ "$output" != *...* ]]
}

@test "info --quick reads headers only" {
    program gen A.bin --dims 2x3 --kind identity
    program info --quick A.bin
    expect_quiet_success
    [ "${#lines[@]}" -eq 2 ]
    [ "$(xargs <<< "${lines[0]}")" = "format dims dtype bytes file" ]
    [ "$(xargs <<< "${lines[1]}")" = "bin 1 2 x 3 float32 44 A.bin" ]
}

@test "info --json is valid JSON for any contents and name of the file" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import write_bin
write_bin('we"ird\\ \t\u00e9.bin', np.array([[np.nan, np.inf]]))
write_bin(b"not utf8 \xff\xe0\x80.bin", np.array([[1.5, -2]]), tag=-2)
np.save("F.npy", np.asfortranarray(np.array([[1, 2], [3, 4]], ">f8")))
END
    "$MPIMATMUL" info --json ./*.npy ./*.bin > info.json
    python << 'END'
import json
fortran, other, weird = json.load(open("info.json", encoding="utf-8"))
assert weird["file"] == './we"ird\\ \t\u00e9.bin', weird
assert weird["min"] is weird["max"] is weird["mean"] is None
assert (weird["nan"], weird["inf"], weird["corner"]) == (1, 1, [[None, None]])
assert other["file"] == "./not utf8 \ufffd\ufffd\ufffd.bin", other
assert (other["format"], other["version"], other["dtype"], other["dims"]) == ("bin", 2, "float16", [1, 1, 1, 2])
assert (other["min"], other["max"], other["mean"], other["bytes"]) == (-2, 1.5, -0.25, 24)
assert fortran["fortran_order"] and fortran["big_endian"] and fortran["dtype"] == "float64"
assert fortran["corner"] == [[1, 2], [3, 4]]
END
}

@test "info continues after invalid files and ends with the code of the first" {
    "$MPIMATMUL" gen A.bin --dims 2x3 --kind identity
    printf 'text' > t.bin
    program info A.bin missing.bin A.bin t.bin A.bin
    expect_status 66
    [ "${stderr_lines[0]}" = "mpimatmul: cannot open 'missing.bin': No such file or directory" ]
    [ "${stderr_lines[1]}" = "mpimatmul: 't.bin' is a text file, which is not read yet" ]
    [ "$(grep -c float32 <<< "$output")" -eq 3 ]
    program info t.bin missing.bin
    expect_status 65
    [ -z "$output" ]
    [ "${stderr_lines[1]}" = "mpimatmul: cannot open 'missing.bin': No such file or directory" ]
}

@test "info --json has an entry for each file, also for invalid ones" {
    "$MPIMATMUL" gen A.bin --dims 2x3 --kind identity
    run --separate-stderr "$MPIMATMUL" info --json A.bin missing.bin A.bin
    expect_status 66
    echo "$output" > info.json
    python << 'END'
import json
first, missing, last = json.load(open("info.json"))
assert missing == {"file": "missing.bin", "error": "cannot open 'missing.bin': No such file or directory"}, missing
assert first["dims"] == last["dims"] == [1, 1, 2, 3]
END
}

@test "info of float64 counts and prints the file's own values, in both orders" {
    need_numpy
    python << 'END'
import numpy as np
a = np.full((3, 4), 1e39)
a[1, 2], a[0, 3], a[2, 0] = -1e300, np.inf, np.nan
np.save("C.npy", a)
np.save("F.npy", np.asfortranarray(a.astype(">f8")))
END
    for name in C F; do
        program info $name.npy
        expect_quiet_success
        [[ "$(xargs <<< "${lines[1]}")" == *" 3 x 4 float64 "*" -1e+300 1e+39 -1e+299 1 1 $name.npy" ]]
        [ "$(xargs <<< "${lines[3]}")" = "1e+39 1e+39 1e+39 inf" ]
        [ "$(xargs <<< "${lines[4]}")" = "1e+39 1e+39 -1e+300 1e+39" ]
    done
}

@test "values that become infinite are counted, and --quiet does not hide the count" {
    need_numpy
    python << 'END'
import numpy as np
a = np.ones((50, 7))
a[0, :5] = 65519, 65520, 1e30, -3.4e38, 3.5e38
a[1, :3] = -1e39, np.inf, np.nan
np.save("D.npy", a)
np.save("F.npy", np.asfortranarray(a))
with np.errstate(over="ignore"):
    np.save("S.npy", a.astype("f4"))
END
    # float16: 65520, 1e30, -3.4e38, 3.5e38, -1e39; bfloat16: -3.4e38 too; float32: the last two.
    for row in "D float16 5" "D bfloat16 3" "D float32 2" "F float16 5" "F float32 2" "S float16 3" "S bfloat16 1"; do
        read -r name dtype count <<< "$row"
        program convert "$name.npy" out.bin --dtype "$dtype" --quiet
        expect_status 0
        values=values
        [ "$count" -ne 1 ] || values=value
        [ "$stderr" = "mpimatmul: warning: 'out.bin': $count $values beyond $dtype became infinite" ]
    done
    program convert D.npy out.bin
    expect_status 0
    [ "${stderr_lines[1]}" = "mpimatmul: warning: 'out.bin': 2 values beyond float32 became infinite" ]
    program convert S.npy out.bin
    expect_quiet_success
}

@test "mul counts the elements of C beyond the 16-bit range, and names inputs beyond float32" {
    need_numpy
    python << 'END'
import numpy as np
np.save("A.npy", np.diag([300.0, 200, 2, 1]).astype("f4"))
np.save("B.npy", np.full((4, 5), 300, "f4"))          # 90000, 60000, 600 and 300
np.save("D.npy", np.array([[1e39, 1, 1, 1]]))
END
    for count in 1 2; do
        ranks $count mul A.npy B.npy -o C.npy --dtype float16 --quiet
        expect_status 0
        [ "$stderr" = "mpimatmul: warning: 'C.npy': 5 values beyond float16 became infinite" ]
    done
    program mul A.npy B.npy -o C.npy --quiet
    expect_quiet_success
    program mul D.npy B.npy -o C.npy --quiet
    expect_status 0
    [ "$stderr" = "mpimatmul: warning: 'D.npy': values beyond float32 were read as infinite" ]
}

@test "files of numpy are read: f2 f4 f8, both byte orders, both element orders, 1-D to 4-D" {
    need_numpy
    python << 'END'
import itertools
import subprocess
import numpy as np
from matrices import read_bin
import os
rng = np.random.default_rng(1)
cases = list(itertools.product(("f2", "f4", "f8"), "<>", "CF", ((7,), (3, 5), (2, 3, 5), (2, 3, 4, 5))))
assert len(cases) == 48
for kind, byte_order, order, dims in cases:
    a = rng.standard_normal(dims).astype(byte_order + kind, order=order)
    np.save("in.npy", a)
    subprocess.run([os.environ["MPIMATMUL"], "convert", "-q", "in.npy", "out.bin"], check=True)
    tag, b = read_bin("out.bin")
    expected = a.astype("<f2" if kind == "f2" else "<f4", order="C")
    assert tag == (-2 if kind == "f2" else 4), (tag, kind)
    assert b.shape == (1,) * (4 - len(dims)) + dims, (b.shape, dims)
    assert b.tobytes() == expected.tobytes(), (kind, byte_order, order, dims)
END
}

@test "numpy reads the written files and finds the same elements" {
    need_numpy
    for dtype in float32 float16; do
        "$MPIMATMUL" gen A.bin --dims 2x3x5x7 --seed 2 --kind normal --dtype $dtype
        program convert A.bin A.npy
        expect_quiet_success
        DTYPE=$dtype python << 'END'
import os
import numpy as np
from matrices import read_bin, same_bits
a = np.load("A.npy", allow_pickle=False)
assert a.dtype == np.dtype(os.environ["DTYPE"]) and a.flags.c_contiguous
assert same_bits(a, read_bin("A.bin")[1])
END
    done
}

@test ".bin to .npy to .bin is byte-identical, with NaN payloads and -0" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import write_bin
words = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000,
                  0x00000001, 0x7F800000, 0xFF800000, 0x3F800000], "<u4")
write_bin("A.bin", np.resize(words.view("<f4"), (2, 3, 4, 5)))
halves = np.array([0x7E01, 0xFD55, 0x7C01, 0x8000, 0x0001, 0x7C00, 0xFC00, 0x3C00], "<u2")
write_bin("H.bin", np.resize(halves.view("<f2"), (2, 3, 4, 5)), tag=-2)
END
    "$MPIMATMUL" convert A.bin A.npy
    "$MPIMATMUL" convert A.npy B.bin
    cmp A.bin B.bin
    "$MPIMATMUL" convert H.bin H.npy
    "$MPIMATMUL" convert H.npy G.bin --dtype float16
    cmp H.bin G.bin
}

@test "narrowing rounds to nearest even, as numpy does" {
    need_numpy
    python << 'END'
import numpy as np
from matrices import write_bin
rng = np.random.default_rng(3)
a = np.concatenate([rng.standard_normal(4000) * 10.0 ** rng.integers(-9, 6, 4000),
                    1 + np.arange(4096) / 2**13,
                    [65504, 65519.99, 65520, 65536, 1e30, -0.0, 0, 2**-24, 2**-25, 3 * 2**-26]])
write_bin("A.bin", a.astype("f4")[None])
END
    "$MPIMATMUL" convert A.bin H.bin --dtype float16
    "$MPIMATMUL" convert A.bin B.bin --dtype bfloat16
    "$MPIMATMUL" convert B.bin W.bin --dtype float32
    python << 'END'
import numpy as np
from matrices import read_bin, same_bits
a = read_bin("A.bin")[1]
with np.errstate(over="ignore"):
    assert same_bits(read_bin("H.bin")[1], a.astype("<f2"))
bits = a.view("<u4").astype("u8")
expected = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
assert same_bits(read_bin("B.bin")[1], expected)
assert np.array_equal(read_bin("W.bin")[1].view("<u4"), expected.astype("<u4") << 16)
END
}

@test "a notice says that float64 becomes float32, unless float32 was asked for" {
    need_numpy
    python << 'END'
import numpy as np
np.save("D.npy", np.array([[1 / 3, 2.0]]))
END
    program convert D.npy A.bin
    expect_status 0
    [ "$stderr" = "mpimatmul: notice: 'D.npy' is float64 and becomes float32" ]
    program convert D.npy A.bin --dtype float32
    expect_quiet_success
    program convert D.npy A.bin --quiet
    expect_quiet_success
}

@test "float64 and whole numbers keep their type where the format has it" {
    need_numpy
    python << 'END'
import numpy as np
np.save("D.npy", np.asfortranarray(np.random.default_rng(1).standard_normal((2, 3, 5)) * 1e300))
np.save("I.npy", np.array([[2**62 + 1, -1], [3, 4]], ">i8"))
np.save("U.npy", np.arange(6, dtype="u1").reshape(2, 3))
END
    for name in D I U; do
        for path in npz safetensors npy; do
            program convert $name.npy "$name.2.$path"
            expect_quiet_success
            program convert "$name.2.$path" "$name.$path.npy"
            expect_quiet_success
        done
    done
    program convert U.npy UD.npy --dtype float64
    expect_quiet_success
    program gen G.npy --dims 3x4 --kind integer --seed 1 --dtype float64
    expect_quiet_success
    python << 'END'
import numpy as np
for name in "D", "I", "U":
    x = np.load(name + ".npy")
    for path in "npz", "safetensors", "npy":
        y = np.load(f"{name}.{path}.npy")
        assert y.dtype == x.dtype.newbyteorder("<") and y.size == x.size and (y.reshape(x.shape) == x).all(), path
assert np.load("UD.npy").dtype == np.float64 and (np.load("UD.npy") == np.load("U.npy")).all()
assert np.load("G.npy").dtype == np.float64 and np.abs(np.load("G.npy")).max() <= 4
END
    program convert D.npy D.bin --dtype float64
    expect_failure 64 "cannot write 'D.bin' as float64: .bin has no such type"
    program convert U.npy out.npy --dtype int32
    expect_failure 64 "--dtype: 'int32' is not float32, float16, bfloat16 or float64"
}

@test "--bin-version 2 keeps the elements and changes the header" {
    "$MPIMATMUL" gen A.bin --dims 3x5 --seed 1
    program convert A.bin B.bin --bin-version 2
    expect_quiet_success
    [ "$(head -c 4 B.bin | od -An -t d4 | xargs)" = "-1" ]
    cmp <(tail -c +5 A.bin) <(tail -c +5 B.bin)
    program convert B.bin C.bin --bin-version 1
    expect_quiet_success
    cmp A.bin C.bin
}

@test "headers with 2 and 3 sizes are read" {
    need_numpy
    python << 'END'
import struct
import numpy as np
a = np.arange(30, dtype="<f4")
open("two.bin", "wb").write(struct.pack("<3i", 2, 5, 6) + a.tobytes())
open("three.bin", "wb").write(struct.pack("<4i", 3, 2, 5, 3) + a.tobytes())
END
    "$MPIMATMUL" convert two.bin A.bin
    [ "$(head -c 20 A.bin | od -An -v -t d4 | xargs)" = "4 1 1 5 6" ]
    cmp <(tail -c +13 two.bin) <(tail -c +21 A.bin)
    "$MPIMATMUL" convert three.bin A.bin
    [ "$(head -c 20 A.bin | od -An -v -t d4 | xargs)" = "4 2 1 5 3" ]
}

@test "numpy files without a matrix are refused" {
    need_numpy
    python << 'END'
import numpy as np
np.save("c.npy", np.array([[1, 2]], "c8"))
np.save("o.npy", np.array([[{}]]), allow_pickle=True)
np.save("five.npy", np.zeros((1, 1, 1, 1, 2), "f4"))
np.save("none.npy", np.zeros((0, 2), "f4"))
END
    for name in c o five none; do
        program convert $name.npy out.bin
        expect_status 65
        [ "${#stderr_lines[@]}" -le 2 ]
        [[ "${stderr_lines[0]}" == "mpimatmul: '$name.npy' "* ]]
    done
    [ ! -e out.bin ]
}

# Axes of written results, for all pairs of operands of one to four axes, with stacks of one and of
# several. A file of one axis is a row.
@test "results have numpy's axes, at least two, in every format and on every rank count" {
    need_numpy
    python << 'END'
import itertools, os, subprocess
import numpy as np
from matrices import read_bin, write_bin
from tensors import read_safetensors
program = os.environ["MPIMATMUL"]
mpirun = ["mpirun", "-q", "--mca", "odls_base_sigkill_timeout", "0", "-n", "2"]
rng = np.random.default_rng(7)
stacks = [None, (), (1,), (3,), (1, 1), (1, 3), (2, 1), (2, 3)]  # None: one axis
endings = ["npy", "npz", "safetensors"]
def operand(letter, stack, rows, cols):
    shape = (cols,) if stack is None else stack + (rows, cols)
    a = rng.integers(-4, 5, shape).astype("f4")
    name = letter + ("v" if stack is None else "".join(map(str, stack)))
    np.save(name + ".npy", a)
    return name, a
left = [operand("a", s, 5, 3) for s in stacks]
right = [operand("b", s, 3, 7) for s in stacks[1:]] + [operand("r", None, 1, 7)]
column = operand("c", (), 4, 1)
def read(path):
    if path.endswith(".npy"):
        return np.load(path)
    return np.load(path)["data"] if path.endswith(".npz") else read_safetensors(path)["data"]
def expect(path, expected):
    found = read(path)
    assert found.shape == expected.shape and np.array_equal(found, expected), (path, found.shape, expected.shape)
def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
pairs = [(x, y) for x in left for y in right if y[0] != "rv"] + [(column, right[-1])]
assert len(pairs) == 57
results = [(f"{x[0]}_{y[0]}", np.matmul(np.atleast_2d(x[1]), np.atleast_2d(y[1]))) for x, y in pairs]
for i, ((x, y), (name, product)) in enumerate(zip(pairs, results)):
    for ranks in [[], mpirun] if i % 8 == 1 else [[]]:
        out = f"{name}.{endings[i % 3]}"
        run(*ranks, program, "mul", x[0] + ".npy", y[0] + ".npy", "-o", out, "--device", "cpu", "-q")
        expect(out, product)
# The same, and other operations, as one program.
text, wanted = "", []
def add(name, expression, expected):
    global text
    for ending in endings:
        text += f'save("{name}.{ending}", {expression})\n'
        wanted.append((f"{name}.{ending}", expected))
for (x, y), (name, product) in zip(pairs, results):
    add("run_" + name, f'load("{x[0]}.npy") @ load("{y[0]}.npy")', product)
for x, y in itertools.product(left, left):
    add(f"add_{x[0]}_{y[0]}", f'load("{x[0]}.npy") + load("{y[0]}.npy")', np.atleast_2d(x[1]) + np.atleast_2d(y[1]))
for name, a in left:
    a = np.atleast_2d(a)
    add("neg_" + name, f'neg(load("{name}.npy"))', -a)
    add("sum_" + name, f'sum(load("{name}.npy"), axis=-1)', a.sum(-1, keepdims=True))
    add("t_" + name, f'load("{name}.npy").T', a.swapaxes(-1, -2))
with open("all.py", "w") as file:
    file.write(text)
for ranks in [], mpirun:
    for path, _ in wanted:
        if os.path.exists(path):
            os.remove(path)
    run(*ranks, program, "run", "all.py", "--device", "cpu", "--verify", "off", "--progress", "none")
    for path, expected in wanted:
        expect(path, expected)
# An addend has axes, too. A kept value has only the axes that its sizes imply.
np.save("c4.npy", np.ones((1, 1, 5, 7), "f4"))
two = {name: a for name, a in left + right}
run(program, "mul", "a.npy", "b.npy", "--beta", "1", "--c-in", "c4.npy", "-o", "c.npy", "--device", "cpu", "-q")
expect("c.npy", (two["a"] @ two["b"] + 1)[None, None])
run(program, "mul", "a13.npy", "b.npy", "--bias", "rv.npy", "-o", "bias.npz", "--device", "cpu", "-q")
expect("bias.npz", two["a13"] @ two["b"] + two["rv"])
run(program, "add", "a3.npy", "a11.npy", "-o", "added.safetensors", "--device", "cpu", "-q")
expect("added.safetensors", two["a3"] + two["a11"])
run(program, "map", "neg", "a1.npy", "-o", "mapped.npy", "--device", "cpu", "-q")
expect("mapped.npy", -two["a1"])
# convert keeps the axes of its input. A .bin always has four.
for i, ((name, a), ending) in enumerate(itertools.product(left, endings)):
    source = endings[(i + i // 3) % 3]
    run(program, "convert", "-q", name + ".npy", f"s.{source}")
    run(program, "convert", "-q", f"s.{source}", f"d.{ending}")
    expect(f"d.{ending}", np.atleast_2d(a))
for dims in (5, 3), (3, 5, 3), (2, 3, 5, 3), (2, 1, 5, 3):
    a = rng.integers(-4, 5, dims).astype("f4")
    write_bin("x.bin", a)
    for ending in endings:
        run(program, "convert", "-q", "x.bin", f"y.{ending}")
        expect(f"y.{ending}", a)
        run(program, "convert", "-q", f"y.{ending}", "back.bin")
        assert open("back.bin", "rb").read() == open("x.bin", "rb").read()
        run(program, "mul", "x.bin", "b.npy", "-o", f"z.{ending}", "--device", "cpu", "-q")
        expect(f"z.{ending}", a @ two["b"])
    run(program, "split", "x.bin", "--parts", "2", "--shard-dir", "s", "-q")
    run(program, "join", "x", "--shard-dir", "s", "-o", "joined.npy", "-q")
    expect("joined.npy", a)
END
}

@test "float64 and decimal text become 16-bit types in one rounding" {
    need_numpy
    python << 'END'
import numpy as np
x = np.array([[1 + 2**-11 + 2**-40, 65519.99999999, -65519.99999999, 2**-25 + 2**-60, 3 * 2**-25 - 2**-70,
               1 + 2**-8 + 2**-40]])
np.save("x.npy", x)
open("x.csv", "w").write(",".join("%.17g" % v for v in x[0]) + "\n")
END
    for input in x.npy x.csv; do
        program convert $input half.npy --dtype float16
        expect_quiet_success
        "$MPIMATMUL" convert $input b.safetensors --dtype bfloat16
        "$MPIMATMUL" convert b.safetensors b.npy --dtype float32
        python << 'END'
import numpy as np
assert np.array_equal(np.load("half.npy"), np.load("x.npy").astype("f2"))
assert np.load("b.npy")[0, 5] == 1.0078125
END
    done
}
