#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# PyTorch files: one written by torch (tests/data/make_torch.py), and others by Python's own pickle
# and zipfile (torchfile.py). Every tensor is compared with numpy. Invalid files are refused, and no
# code in them runs.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

data=$BATS_TEST_DIRNAME/../data

# has FILE TENSORS [SKIPPED]: info lists so many tensors and this line about objects.
has() {
    program info "$1"
    expect_quiet_success
    expect_line "$1: pt, $2, $(stat -c %s "$1") bytes"
    [ -z "${3-}" ] || expect_line "$3"
    [ -n "${3-}" ] || [[ "$output" != *skipped* ]]
}

@test "files of torch.save are read: state dicts, nested dicts, lists, views of one storage, every type" {
    need_numpy
    cp "$data/torch.pt" m.pth
    program info m.pth
    expect_quiet_success
    expect_line "m.pth: pt, 18 tensors, $(stat -c %s m.pth) bytes"
    expect_line "3 x 5          float32      60  model.layer.weight"
    expect_line "2 x 2 x 4 x 5  float32     320  views.6"
    expect_line "2 x 2          bfloat16      8  7.0"
    names=$(py -c "import sys; sys.path.insert(0, '$BATS_TEST_DIRNAME')
from tensors import expected_torch
print(*expected_torch())")
    for name in $names; do
        program convert "m.pth:$name" "$name.npy"
        [ "$status" -eq 0 ]
    done
    python << 'END'
import numpy as np
from tensors import expected_torch
for name, array in expected_torch().items():
    found = np.load(name + ".npy")
    assert found.size == array.size and (found.reshape(array.shape) == array).all(), (name, found)
    assert found.dtype == array.dtype, (name, found.dtype)
END
    program convert 'm.pth:views.1[2:5]' out.npy
    expect_quiet_success
    python << 'END'
import numpy as np
assert (np.load("out.npy") == (np.arange(120).reshape(12, 10) - 60).T[2:5]).all()
END
    program mul m.pth:views.0 m.pth:views.1 -q
    expect_quiet_success
    mv ./*_combined.npy product.npy
    python << 'END'
import numpy as np
a = np.arange(120).reshape(12, 10) - 60
assert (np.load("product.npy") == a @ a.T).all()
END
    ranks 2 mul m.pth:views.0 m.pth:views.1 -o two.npy -q
    expect_quiet_success
    cmp two.npy product.npy
    echo 'save("t.npy", load("m.pth:views.2"))' > a.py
    program run a.py -q
    expect_quiet_success
    cmp t.npy views.2.npy
}

@test "archives may be deflated or big-endian, with unsigned types, a single tensor, parameters" {
    need_numpy
    python << 'END'
import zipfile
import numpy as np
import torchfile as t
a = np.arange(-50, 50, dtype="f4").reshape(10, 10)
np.save("a.npy", a)
t.save(t.tensor(t.storage(a), a.shape), "alone.pt")
t.save({"a": t.tensor(t.storage(a), a.shape)}, "deflated.pt", compression=zipfile.ZIP_DEFLATED)
t.save([t.tensor(t.storage(a.byteswap()), a.shape)], "big.pt", order="big")
t.save([t.tensor(t.storage(a), a.shape)], "little.pt", order="little")
t.save(t.tensor(t.storage(a.T.copy()), a.shape, (1, 10)), "turned.pt")
t.save(t.call("torch._utils", "_rebuild_parameter", t.tensor(t.storage(a), a.shape), True, {}), "parameter.pt")
for kind, name in ("u2", "uint16"), ("u4", "uint32"):
    u = (a + 2 ** (8 * int(kind[1]) - 1)).astype(kind)
    np.save(name + ".npy", u)
    t.save({"x": t.tensor_v3(u, name)}, name + ".pt")
END
    for file in alone deflated big little turned parameter; do
        program convert $file.pt out.npy
        expect_quiet_success
        program diff out.npy a.npy -q
        expect_quiet_success
    done
    for kind in uint16 uint32; do
        program convert $kind.pt out.npy
        expect_quiet_success
        cmp out.npy $kind.npy
    done
    program info alone.pt
    expect_line "10 x 10  float32    400  data"
}

# refused FILE LINE [HINT]
refused() {
    program info "$1"
    expect_failure 65 "${@:2}"
}

@test "a pickle with code to execute executes nothing, and info names the function it would have called" {
    need_numpy
    python << 'END'
import numpy as np
import torchfile as t
a = np.ones((2, 2), "f4")
one = t.tensor(t.storage(a), (2, 2))
t.save_pickle(b"\x80\x02cos\nsystem\nX\x0a\x00\x00\x00touch done\x85R.", "os.pt")
t.save_pickle(b"\x80\x02c__builtin__\neval\nX\x11\x00\x00\x00open('done', 'w')\x85R.", "eval.pt")
t.save_pickle(b"\x80\x02(X\x0a\x00\x00\x00touch doneios\nsystem\n.", "inst.pt")
t.save_pickle(b"\x80\x02ctorch\nFloatStorage\n)R.", "call.pt")
t.save_pickle(b"\x80\x02)\x81.", "newobj.pt")
t.save_pickle(b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "stack.pt")
t.save_pickle(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0atouch done\x85R.", "stack_call.pt")
t.save_pickle(b"\x80\x02Va\n.", "unicode.pt")
t.save_pickle(b"\x80\x02\xff.", "unknown.pt")
t.save_pickle(b"\x80\x05\x97.", "buffer.pt")
t.save({"m": t.call("__main__", "Net", 1), "a": one}, "model.pt")
END
    has os.pt "0 tensors" "1 object without tensors skipped: 1 os.system"
    has eval.pt "0 tensors" "1 object without tensors skipped: 1 __builtin__.eval"
    has call.pt "0 tensors" "1 object without tensors skipped: 1 torch.FloatStorage"
    has model.pt "1 tensor" "1 object without tensors skipped: 1 __main__.Net"
    expect_line "2 x 2  float32     16  a"
    has stack.pt "0 tensors"
    has stack_call.pt "0 tensors" "1 object without tensors skipped: 1 os.system"
    refused newobj.pt "'newobj.pt' is not a valid PyTorch file: its pickle uses more values than it has"
    refused inst.pt "'inst.pt' is not read: its pickle uses the opcode INST, which is not supported"
    refused unicode.pt "'unicode.pt' is not read: its pickle uses the opcode UNICODE, which is not supported"
    refused buffer.pt "'buffer.pt' is not read: its pickle uses the opcode NEXT_BUFFER, which is not supported"
    refused unknown.pt \
        "'unknown.pt' is not a valid PyTorch file: its pickle has the unknown opcode 0xff"
    [ ! -e "done" ]
}

@test "a checkpoint of torch with modules, arrays and objects is read, in the zip and in the older form" {
    need_numpy
    cp "$data/objects.pt" "$data/old_objects.pt" .
    skipped="1 numpy.core.multiarray.scalar, 1 pathlib.PosixPath, 1 torch.device"
    has objects.pt "18 tensors" "4 objects without tensors skipped: 1 datetime.datetime, $skipped"
    expect_line "2 x 3     float32                  24  model.0.weight"
    expect_line "a number  int64                     8  model.1.num_batches_tracked"
    expect_line "2 x 2     qint8 (not read)          4  quantised"
    expect_line "3 x 3     sparse (not read)         0  sparse"
    program info --json objects.pt
    expect_quiet_success
    [[ "$output" == *'"skipped": {"datetime.datetime": 1, "numpy.core.multiarray.scalar": 1, '* ]]
    python << 'END'
import os
import subprocess
import numpy as np
from tensors import expected_objects
for file in "objects.pt", "old_objects.pt":
    for name, array in expected_objects().items():
        subprocess.run([os.environ["MPIMATMUL"], "convert", f"{file}:{name}", "out.npy"], check=True)
        found = np.load("out.npy")
        assert found.dtype == array.dtype.newbyteorder("="), (file, name, found.dtype)
        assert found.size == array.size and (found.reshape(array.shape) == array).all(), (file, name, found)
END
    for name in quantised sparse csr; do
        type=${name/quantised/qint8}
        [ $name = quantised ] && hint="in Python: x.dequantize()" || hint="in Python: x.to_dense()"
        refused objects.pt:$name \
            "tensor '$name' of 'objects.pt' holds elements of type '${type/csr/sparse}', which is not read" "$hint"
    done
}

@test "pickles of protocol 2 to 5 are read: arrays in either order, of either byte order, views, objects with cycles" {
    need_numpy
    python << 'END'
import argparse
import os
import subprocess
from collections import OrderedDict, defaultdict, namedtuple
import numpy as np
import torchfile as t
random = np.random.default_rng(14)
arrays = {"f8": random.standard_normal((301, 17)), "i2": random.integers(-300, 300, (3, 4, 5)).astype("i2"),
          "b1": random.integers(0, 2, (3, 5)).astype(bool), "u1": np.arange(256, dtype="u1").reshape(16, 16)}
arrays["fortran"] = np.asfortranarray(arrays["f8"])
arrays["big"] = arrays["f8"].astype(">f4")
arrays["view"] = arrays["f8"][::2, 1:3]
a = np.arange(6, dtype="f4").reshape(2, 3)
one = t.tensor(t.storage(a), (2, 3))
pair = namedtuple("pair", "x y")
pair.__module__ = "argparse"
argparse.pair = pair
loop = argparse.Namespace(t=one)
loop.itself, loop.list = loop, [loop, {1, 2}, frozenset("x"), 2 ** 100, -1.5, b"", bytearray(b"x")]
for protocol in range(2, 6):
    t.save({**arrays, "objects": np.array([None, {}]), "none": np.zeros((0, 3)), "text": np.array(["a"]), "loop": loop,
            "pair": pair(one, 1), "dd": defaultdict(list, {"x": [one]}), "od": OrderedDict(a=one), "True": True},
           "p.pt", protocol)
    for name, array in {**arrays, "loop.t": a, "pair.0": a, "dd.x.0": a, "od.a": a}.items():
        subprocess.run([os.environ["MPIMATMUL"], "convert", "p.pt:" + name, "out.npy"], check=True)
        found = np.load("out.npy")
        assert found.dtype == array.dtype.newbyteorder("="), (protocol, name, found.dtype)
        assert found.size == array.size and (found.reshape(array.shape) == array).all(), (protocol, name)
END
    program info p.pt
    expect_quiet_success
    expect_line "1          <U1 (not read)      4  text"
    [[ "${output#*$'\n'}" == "2 objects without tensors skipped: 1 builtins.bytearray, 1 numpy.ndarray"* ]] ||
        [[ "${output#*$'\n'}" == "1 object without tensors skipped: 1 numpy.ndarray"* ]] # since protocol 5
    [ "$(grep -c . <<< "$output")" -eq 16 ]
}

@test "tensors that no address can name, and arrays of records, are left out by name, and the others are read" {
    need_numpy
    python << 'END'
import numpy as np
import torchfile as t
a = np.arange(6, dtype="f4").reshape(2, 3)
records = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
for protocol in (2, 5):
    t.save({"ok": a, "plain": records, "array": records.view(np.recarray)}, f"records{protocol}.pt", protocol)
loop = {"w": a, "l": [a + 1]}
loop["self"] = loop
loop["l"].append(loop["l"])
t.save(loop, "loop.pt")
t.save({"ok": a, "nul\0x": a, "n" * 2000: {"deep": a}, "k" * 990: {"abcdefghijkl": a}, "k" * 990 + "x": a}, "names.pt")
t.save({"a.b": a, "a": {"b": a + 1}, 0: a + 2, "0": a + 3, "x": a + 4}, "twice.pt")
END
    for protocol in 2 5; do
        program convert records$protocol.pt records.npz
        expect_status 0
        [[ $stderr == *"'records$protocol.pt': 2 of 3 tensors are skipped: 'plain' (1, |V12), 'array' (1, |records)" ]]
    done
    program convert loop.pt loop.npz
    expect_quiet_success
    program convert names.pt names.npz
    expect_status 0
    [[ $stderr == *"3 of 5 tensors are skipped: 'nul' (2 x 3, (no valid name)), 'nnn"*"), 'kkk"*"k.abcdefghi' "* ]]
    program convert twice.pt twice.npz
    expect_status 0
    [[ $stderr == *"2 of 5 tensors are skipped: 'a.b' (2 x 3, (name is taken)), '0' (2 x 3, (name is taken))" ]]
    python << 'END'
import numpy as np
found = {f: {k: int(v.flat[0]) for k, v in np.load(f + ".npz").items()} for f in ("records", "loop", "names", "twice")}
want = {"records": {"ok": 0}, "loop": {"w": 0, "l.0": 1}, "names": {"ok": 0, "k" * 990 + "x": 0},
        "twice": {"a.b": 0, "0": 2, "x": 4}}
assert found == want, found
END
    refused names.pt:nul "tensor 'nul' of 'names.pt' holds elements of type '(no valid name)', which is not read"
}

@test "the older form is read, and invalid files are refused" {
    need_numpy
    cp "$data/old.pt" .
    program convert old.pt out.npy
    expect_quiet_success
    python << 'END'
import numpy as np
import torchfile as t
assert (np.load("out.npy") == np.arange(120).reshape(12, 10) - 60).all()
old = open("old.pt", "rb").read()
open("cut_pickle.pt", "wb").write(old[:100])
open("cut_keys.pt", "wb").write(old[:-490])
open("cut_count.pt", "wb").write(old[:-484])
open("cut_data.pt", "wb").write(old[:-1])
open("no_key.pt", "wb").write(old.replace(b"X\x09\x00\x00\x00", b"X\x08\x00\x00\x00", 1))
open("huge.pt", "wb").write(old[:-488] + b"\xff" * 8 + old[-480:])
a = np.ones((2, 3), "f4")
s = t.storage(a)
t.save([t.tensor(s, (2, 3), (3, 1), 1)], "beyond.pt")
t.save([t.tensor(s, (3, 2), (2, 2))], "stride.pt")
t.save([t.tensor(s, (2 ** 40, 2 ** 40), (2 ** 40, 2 ** 40))], "many.pt")
t.save([t.tensor(s, (2, 3), (3, 1), 0, {"neg": True})], "neg.pt")
t.save([t.tensor(s, (1,) * 9)], "nine.pt")
t.save([t.tensor(s, (2, 3), (3, -1))], "back.pt")
t.save({"c": t.tensor(t.storage(np.ones((1, 1), "c8")), (1, 1)), "s": t.tensor(s, ())}, "complex.pt")
t.save([t.tensor(s, (2, 3))], "order.pt", order="middle")
t.save_pickle(b"\x80\x02}q\x00", "cut.pt")
t.save_pickle(b"\x80\x02]q\x00h\x00a.", "self.pt")
t.save_pickle(b"\x80\x02h\x05.", "memo.pt")
t.save_pickle(b"\x80\x02r\xff\xff\xff\x7f.", "gap.pt")
bomb = b"\x80\x02]q\x00"
for level in range(1, 60):
    bomb += b"](h%ch%ceq%c" % (level - 1, level - 1, level)
t.save_pickle(bomb + b".", "bomb.pt")
t.save_pickle(b"\x80\x02X\x01\x00\x00\x00aQ.", "persid.pt")
t.save({"a.b": t.tensor(s, (2, 3))}, "missing.pt")
import zipfile
with zipfile.ZipFile("missing.pt") as old, zipfile.ZipFile("gone.pt", "w") as new:
    new.writestr("archive/data.pkl", old.read("archive/data.pkl"))
END
    no="is not a valid PyTorch file:"
    for cut in cut_pickle cut_keys; do
        refused $cut.pt "'$cut.pt' $no its pickle ends too early"
    done
    for cut in cut_count cut_data; do
        refused $cut.pt "'$cut.pt' $no it ends before its last storage"
    done
    refused huge.pt "'huge.pt' $no a storage has more elements than can be counted"
    refused beyond.pt "'beyond.pt' $no tensor '0': it goes beyond the end of its storage"
    refused stride.pt "'stride.pt' $no tensor '0': it goes beyond the end of its storage"
    refused many.pt "'many.pt' $no tensor '0': its elements are too many to count"
    refused neg.pt:0 "tensor '0' of 'neg.pt' holds elements of type 'negated', which is not read"
    refused nine.pt "'nine.pt' $no its pickle has a tensor of more than 8 dimensions"
    refused back.pt "'back.pt' $no its pickle has a tensor with sizes that are not whole numbers"
    refused cut.pt "'cut.pt' $no its pickle ends too early"
    program info self.pt  # a list of itself
    expect_line "self.pt: pt, 0 tensors, 247 bytes"
    refused bomb.pt "'bomb.pt' $no its pickle has values that are nested too deeply"
    refused memo.pt "'memo.pt' $no its pickle reads a memo index that it has not set"
    refused gap.pt "'gap.pt' $no its pickle uses more values than it has"
    refused persid.pt "'persid.pt' $no its pickle has a persistent id that is not a storage"
    refused gone.pt "'gone.pt' $no tensor 'a.b': its storage is not there"
    refused order.pt "'order.pt' $no its byteorder is neither little nor big"
    program info complex.pt
    expect_quiet_success
    expect_line "1 x 1     complex64 (not read)      8  c"
    refused complex.pt:c "tensor 'c' of 'complex.pt' holds elements of type 'complex64', which is not read" \
        "save the real and the imaginary part as two matrices: x.real and x.imag"
    "$MPIMATMUL" gen A.npy --dims 2x2
    program convert A.npy out.pt
    line="cannot write 'out.pt': only reading is possible for the ending '.pt'"
    expect_failure 64 "$line, expected .bin, .npy, .npz, .safetensors, .csv, .tsv or .mtx" \
        "--format bin, npy, npz, safetensors, csv, tsv or mtx writes under any name"
}
