#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Files with several tensors, made by the packages safetensors and numpy (tests/data/make.py): the
# list of info, every tensor compared with numpy, addresses in every command, and refusals.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

data=$BATS_TEST_DIRNAME/../data

@test "info lists the tensors of a .safetensors file" {
    cp "$data/model.safetensors" m.safetensors
    program info m.safetensors
    expect_quiet_success
    expect_line "m.safetensors: safetensors, 11 tensors, $(stat -c %s m.safetensors) bytes"
    expect_line "31 x 17        float32   2108  layer.0.weight"
    expect_line "2 x 3 x 5 x 7  float32    840  stack"
    expect_line "2              bool         2  mask"
    [ "$(grep -c . <<< "$output")" -eq 13 ]
    program info --json m.safetensors
    expect_quiet_success
    need_numpy
    python "$output" << 'END'
import json, sys
from tensors import expected
entry, = json.loads(sys.argv[1])
assert entry["format"] == "safetensors" and len(entry["tensors"]) == 11
for tensor in entry["tensors"]:
    array = expected()[tensor["name"]]
    assert tensor["dims"] == list(array.shape) and tensor["bytes"] == array.nbytes, tensor
    assert tensor["dtype"] == array.dtype.name, tensor
END
}

@test "info lists the members of an .npz archive, stored or deflated" {
    need_numpy
    cp "$data/stored.npz" "$data/deflated.npz" .
    for name in stored deflated; do
        program info $name.npz
        expect_quiet_success
        expect_line "$name.npz: npz, 11 tensors, $(stat -c %s $name.npz) bytes"
        expect_line "31 x 17        float32   2108  layer.0.weight"
        expect_line "2              bool         2  mask"
        [ "$(grep -c . <<< "$output")" -eq 13 ]
    done
    program info --quick stored.npz:layer.0.weight
    expect_quiet_success
    [[ "$output" == *"npz 1 Fortran  31 x 17  float32   2108  stored.npz:layer.0.weight" ]]
}

@test "every tensor equals numpy's" {
    need_numpy
    cp "$data"/*.safetensors "$data"/*.npz .
    for name in layer.0.weight layer.0.bias layer.1.weight stack double ids rows bytes mask 'a:b[1:2]'; do
        for file in *.safetensors *.npz; do
            program convert "$file:$name" "$file.npy" -q
            expect_quiet_success
        done
        python "$name" << 'END'
import sys
import numpy as np
from tensors import expected
array = expected()[sys.argv[1]]
for file in "model.safetensors", "stored.npz", "deflated.npz":
    found = np.load(file + ".npy")
    assert found.size == array.size and (found.reshape(array.shape) == array.astype(found.dtype)).all(), (file, found)
END
    done
}

@test "an address takes a range of the first axis" {
    need_numpy
    cp "$data/model.safetensors" m.safetensors
    cp "$data/stored.npz" .
    for address in 'layer.0.weight[3:9]' 'layer.0.weight[-2:]' 'layer.0.bias[:5]' 'stack[1:]' \
        'layer.1.weight[16:99]' 'a:b[1:2][0:1]'; do
        program convert "m.safetensors:$address" out.npy
        expect_quiet_success
        program convert "stored.npz:$address" out2.npy  # layer.0.weight is in Fortran order there
        expect_quiet_success
        cmp out.npy out2.npy
        python "$address" << 'END'
import re, sys
import numpy as np
from tensors import expected
name, begin, end = re.fullmatch(r"(.*)\[(-?\d*):(-?\d*)\]", sys.argv[1]).groups()
array = expected()[name][int(begin) if begin else None : int(end) if end else None]
found = np.load("out.npy")
assert found.size == array.size and (found.reshape(array.shape) == array).all(), found
END
    done
    program info 'm.safetensors:layer.0.weight[31:]'
    expect_failure 65 "'m.safetensors:layer.0.weight[31:]' is empty: its first axis has 31 elements"
}

@test "tensors are operands of mul, diff, verify and split, on one rank and on two" {
    need_numpy
    mkdir models
    cp "$data/model.safetensors" models/m.safetensors
    python << 'END'
import numpy as np
from tensors import expected
e = expected()
np.save("C.npy", e["layer.0.weight"] @ e["layer.1.weight"].astype("f4"))
END
    a=models/m.safetensors:layer.0.weight b=models/m.safetensors:layer.1.weight
    program mul $a $b -o out.npy -q
    expect_quiet_success
    cmp out.npy C.npy
    ranks 2 mul $a $b -o out2.npy -q
    expect_quiet_success
    cmp out2.npy C.npy
    program verify $a $b C.npy
    expect_quiet_success
    program diff $a $a -q
    expect_quiet_success
    program split $a --parts 2 --shard-dir s -q
    expect_quiet_success
    program join layer.0.weight --shard-dir s -o joined.npy -q
    expect_quiet_success
    program diff joined.npy $a -q
    expect_quiet_success
}

@test "a name with a colon may be that of a file" {
    need_numpy
    cp "$data/model.safetensors" m.safetensors
    "$MPIMATMUL" gen m.safetensors:stack --format bin --dims 3x4
    program info --quick m.safetensors:stack
    expect_quiet_success
    [[ "$output" == *"bin 1"*"3 x 4"* ]]
    cp m.safetensors x:y
    program info --quick x:y:double
    expect_quiet_success
    [[ "$output" == *"3 x 4"*"float64"* ]]
}

@test "addresses without a tensor are refused" {
    cp "$data/model.safetensors" m.safetensors
    "$MPIMATMUL" gen A.npy --dims 3x3
    program mul m.safetensors:layer.0.weigth A.npy
    expect_failure 65 "'m.safetensors' holds no tensor 'layer.0.weigth'" "did you mean 'layer.0.weight'?"
    program mul 'm.safetensors:layer.0.wight[1:3]' A.npy
    expect_failure 65 "'m.safetensors' holds no tensor 'layer.0.wight'" "did you mean 'layer.0.weight'?"
    program mul m.safetensors:quite.another A.npy
    expect_failure 65 "'m.safetensors' holds no tensor 'quite.another'" "mpimatmul info lists its 11 tensors"
    program convert A.npy one.npz:square
    program mul A.npy one.npz:other
    expect_failure 65 "'one.npz' holds no tensor 'other'" "it holds only 'square'"
    rm one.npz
    program mul m.safetensors A.npy
    expect_failure 65 "'m.safetensors' holds 11 tensors, expected one" \
        "name one as 'm.safetensors:ids'; mpimatmul info lists them"
    python << 'END'
from tensors import write_safetensors
write_safetensors("c.safetensors", {"z": {"dtype": "C64", "shape": [1, 1], "data_offsets": [0, 8]}}, bytes(8))
END
    program info c.safetensors
    expect_line "1 x 1  C64 (not read)      8  z"
    program mul c.safetensors:z A.npy
    expect_failure 65 "tensor 'z' of 'c.safetensors' holds elements of type 'C64', which is not read" \
        "save the real and the imaginary part as two matrices: x.real and x.imag"
    rm c.safetensors
    program mul none.safetensors:x A.npy
    expect_failure 66 "cannot open 'none.safetensors:x': No such file or directory"
    program mul A.npy:x A.npy
    expect_failure 65 "cannot open 'A.npy:x': 'A.npy' is a .npy file, which has no named tensors"
    expect_only_files A.npy m.safetensors
}

@test "a file without tensors is reported" {
    need_numpy
    python << 'END'
import numpy as np
from tensors import write_safetensors
write_safetensors("bare.safetensors", "{}")
write_safetensors("blank.safetensors", "{ }")
write_safetensors("padded.safetensors", "{}      ")
write_safetensors("said.safetensors", {"__metadata__": {"format": "pt"}})
write_safetensors("long.safetensors", "{}", bytes(4))
np.savez("none.npz")
END
    "$MPIMATMUL" gen A.npy --dims 3x3
    for file in bare.safetensors blank.safetensors padded.safetensors said.safetensors none.npz; do
        program info $file
        expect_quiet_success
        [ "$output" = "$file: ${file#*.}, 0 tensors, $(stat -c %s $file) bytes" ]
        program info --json $file
        expect_quiet_success
        [[ "$output" == *'"tensors": []'* ]]
        # shellcheck disable=SC2016 # expanded there
        run --separate-stderr bash -c '"$MPIMATMUL" info - < "$0" && cat "$0" | "$MPIMATMUL" info -' $file
        expect_quiet_success
        line="-: ${file#*.}, 0 tensors, $(stat -c %s $file) bytes"
        [ "$output" = "$line"$'\n'"$line" ]
        program mul $file:weight A.npy
        expect_failure 65 "'$file' holds no tensor 'weight'" "it holds none"
        program mul $file A.npy
        expect_failure 65 "'$file' holds 0 tensors, expected one"
    done
    # With four bytes behind it, the file is a .bin of 0 x 32123 elements, as some shards are.
    program info long.safetensors
    expect_failure 65 "'long.safetensors' is not a valid .bin matrix: its sizes are 0 x 32123, expected at least 1 each"
}

@test "whole numbers and booleans of every width are read with their type, from every kind of file" {
    need_numpy
    python << 'END'
import numpy as np
from tensors import TYPES, write_safetensors
archive, header, data = {}, {}, b""
for name, kind in TYPES.items():
    if np.dtype(kind).kind not in "iub" or name == "U64":
        continue
    least, most = (0, 1) if name == "BOOL" else (np.iinfo(kind).min, np.iinfo(kind).max)
    values = [least, most, 1, 0, max(least, -2), min(most, 100)]
    # Values beyond float32 are in another test: the limits of the wide types, except powers of 2.
    values = [v if abs(v) <= 2**24 else 2**24 * (1 if v > 0 else -1) for v in values]
    a = np.array(values, kind).reshape(2, 3)
    np.save(name + ".npy", a)
    np.save(name + "_swapped.npy", np.asfortranarray(a).astype(a.dtype.newbyteorder(">")))
    archive[name] = a
    header[name] = {"dtype": name, "shape": [2, 3], "data_offsets": [len(data), len(data) + a.nbytes]}
    data += a.tobytes()
np.savez("all.npz", **archive)
write_safetensors("all.safetensors", header, data)
np.save("E.npy", np.eye(3, dtype="f4"))
np.savez("expected.npz", **{name: a.astype("f4") for name, a in archive.items()})
END
    count=0
    for file in BOOL.npy I*[0-9].npy U*[0-9].npy; do
        name=${file%.npy}
        for given in "$file" "${name}_swapped.npy" "all.npz:$name" "all.safetensors:$name"; do
            "$MPIMATMUL" mul "$given" E.npy -o out.npy -q
            program diff out.npy "expected.npz:$name" -q
            expect_quiet_success
        done
        type=$(python -c 'import numpy as np, sys; print(np.load(sys.argv[1]).dtype)' "$file")
        program info "$file"
        [[ "$output" == *" $type "* ]]
        count=$((count + 1))
    done
    [ "$count" -eq 8 ]
    # A boolean file selects elements.
    echo 'save("chosen.npy", where(load("BOOL.npy"), load("I16.npy"), load("U8.npy")))' > mask.py
    program run mask.py -q
    expect_quiet_success
    python << 'END'
import numpy as np
chosen = np.load("chosen.npy")
assert np.array_equal(chosen, np.where(np.load("BOOL.npy"), np.load("I16.npy"), np.load("U8.npy"))), chosen
END
}

@test "a file from a pipe is recognised like the file itself" {
    cp "$data/model.safetensors" m.safetensors
    "$MPIMATMUL" gen one.npy --dims 3x3 --kind integer --seed 1
    "$MPIMATMUL" convert one.npy one.npz
    touch nothing
    for file in m.safetensors one.npz one.npy nothing; do
        for options in "" --json --quick; do
            # shellcheck disable=SC2086 # nothing, or a word
            program info $options $file
            local code=$status told=$output$stderr
            # shellcheck disable=SC2002,SC2016 # a pipe is meant; expanded there
            run bash -c 'cat "$1" | "$MPIMATMUL" info $0 - 2>&1' "$options" $file
            expect_status "$code"
            told=${told//"$file"/-}
            [ "$(tr -s ' ' <<< "${output//$'\n'/}")" = "$(tr -s ' ' <<< "${told//$'\n'/}")" ] || {
                echo "expected $told"
                show
                return 1
            }
        done
    done
    program info nothing
    expect_failure 65 "'nothing' is not a valid matrix file: it is empty"
}

@test "whole numbers become float32, or are refused with their place if they are not exact there" {
    need_numpy
    cp "$data/model.safetensors" m.safetensors
    python << 'END'
import numpy as np
from tensors import expected
np.save("large.npy", np.asfortranarray(expected()["large"]))
np.save("E.npy", np.eye(2, dtype=">i4"))
END
    for large in m.safetensors:large large.npy; do
        program mul $large E.npy -o out.npy -q
        expect_failure 65 "'$large' holds 16777217 at [0, 0, 1, 0]: float32 is exact up to 16777216"
        ranks 2 mul $large E.npy -o out.npy -q
        expect_failure 65 "'$large' holds 16777217 at [0, 0, 1, 0]: float32 is exact up to 16777216"
        [ ! -e out.npy ]
    done
    program mul m.safetensors:ids m.safetensors:ids --transpose-b -o out.npy -q
    expect_quiet_success
    program info m.safetensors:large
    expect_status 0
    [[ "$output" == *" 1.67772e+07"* ]]
}

@test "whole numbers are not rounded if the file's other tensors are read as float64" {
    need_numpy
    python << 'END'
import numpy as np
np.save("x.npy", np.array([[2**24, 3], [-2**24, 5]]))
np.save("large.npy", np.array([[2**24 + 1, 3], [5, 7]]))
np.save("huge.npy", np.array([[2**31, 3], [5, 7]]))
np.save("half.npy", np.full((2, 2), 0.5))
END
    printf 'n = "x"\nx = load(f"{n}.npy")\nsave("sum.npy", x + load("half.npy"))\n' > sum.py
    { cat sum.py && echo 'save("turned.npy", concat((x.T, x)))'; } > p.py
    { cat sum.py && echo 'save("x2.npy", x)'; } > whole.py
    program run p.py -q
    expect_quiet_success
    python << 'END'
import numpy as np
x, turned = np.load("x.npy"), np.load("turned.npy")
assert turned.dtype == np.int32 and (turned == np.concatenate((x.T, x))).all()
assert (np.load("sum.npy") == x + 0.5).all()
END
    rm turned.npy sum.npy
    for count in 1 3; do
        ranks $count run p.py n=large -q
        expect_failure 65 "'large.npy' holds 16777217 at [0, 0, 0, 0]: float32 is exact up to 16777216"
        ranks $count run whole.py n=huge -q
        expect_failure 65 "cannot write 'x2.npy': 2147483648 is not a valid int32"
    done
    expect_only_files half.npy huge.npy large.npy p.py sum.py whole.py x.npy
    program run whole.py n=large -q
    expect_quiet_success
    python -c 'import numpy as np; assert (np.load("x2.npy") == np.load("large.npy")).all()'
}

@test "a damaged .safetensors file is refused, and one that is truncated during its use" {
    need_numpy
    python << 'END'
from tensors import write_safetensors
w = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
write_safetensors("short.safetensors", {"w": w}, bytes(15))
write_safetensors("long.safetensors", {"w": w}, bytes(17))
write_safetensors("twice.safetensors", '{"w": %s, "w": %s}' % (("{}",) * 2), b"")
write_safetensors("header.safetensors", {"w": w}, bytes(16), length=100000001)
END
    program info short.safetensors
    expect_failure 65 "'short.safetensors' is not a valid .safetensors file: tensor 'w': its data_offsets lie beyond \
the end of the file"
    program info long.safetensors:w
    expect_failure 65 "'long.safetensors' is longer than its header says: 90 bytes, expected 89"
    program info twice.safetensors
    expect_failure 65 "'twice.safetensors' is not valid: byte 13 of its JSON: duplicate object key near '\"w\"'"
    program info header.safetensors
    expect_failure 65 "'header.safetensors' is not a valid .safetensors file: a header of 100000001 bytes, \
expected at most 100000000"
}

@test "archives are recognised by any member, and members by their content" {
    need_numpy
    cp "$data/objects.pt" "$data/stored.npz" .
    python << 'END'
import io
import zipfile
import numpy as np
a = np.arange(6.0).reshape(2, 3)
np.save("a.npy", a)
data = open("a.npy", "rb").read()
for name, members in {"note": {"note.txt": "hi", "a.npy": data}, "folder": {"f/": "", "f/a.npy": data},
                      "bare": {"note.txt": "hi", "a": data}, "zip": {"note.txt": "hi"}}.items():
    with zipfile.ZipFile(name + ".npz", "w") as z:
        for member, content in members.items():
            z.writestr(member, content)
old = zipfile.ZipFile("objects.pt")
names = sorted(old.namelist(), key=lambda name: name.endswith("data.pkl"))      # last
for file, folder, cut in ("above.pt", "", 0), ("inside.pt", "", len("objects/")), ("below.pt", "x/", 0):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x/", "")
        z.writestr("x/more/yet/data.pkl", "no pickle")
        for name in names:
            z.writestr(folder + name[cut:], old.read(name))
with zipfile.ZipFile("lzma.npz", "w") as z:
    z.writestr("a.npy", data)
    z.writestr("b.npy", data, zipfile.ZIP_LZMA)
with zipfile.ZipFile("lzma.pt", "w", zipfile.ZIP_LZMA) as z:
    for name in names:
        z.writestr(name, old.read(name))
with zipfile.ZipFile("only.npz", "w", zipfile.ZIP_LZMA) as z:
    z.writestr("b.npy", data)
content = open("only.npz", "rb").read()
open("64.npz", "wb").write(content.replace(b"\x0e\x00", b"\x09\x00"))  # Deflate64 in both headers
with zipfile.ZipFile("marks.npz", "w") as z:
    for name in "\x1b[31m", "\x9b1m", "\u202e", "\x7f", "a\nb":
        z.writestr(name + "\u00e9.npy", data)  # \u00e9: the names are UTF-8
END
    for address in note.npz note.npz:a folder.npz folder.npz:f/a bare.npz bare.npz:a; do
        program convert $address out.npy
        expect_quiet_success
        cmp out.npy a.npy
    done
    program convert objects.pt:array array.npy
    for file in above inside below; do
        program info $file.pt
        expect_line "$file.pt: pt, 18 tensors, $(stat -c %s $file.pt) bytes"
        program convert $file.pt:array out.npy
        expect_quiet_success
        cmp out.npy array.npy
    done
    program info zip.npz
    expect_failure 65 "'zip.npz' is a zip archive, which is not read yet" "unpack it first: unzip 'zip.npz'"
    program convert lzma.npz:a out.npy
    expect_quiet_success
    program info lzma.npz:b
    expect_failure 65 "tensor 'b' of 'lzma.npz' holds elements of type 'LZMA-compressed', which is not read" \
        "in Python: numpy.savez_compressed(NEW, **numpy.load(OLD))"
    program info lzma.pt
    expect_failure 65 "cannot read 'lzma.pt': it is compressed with LZMA" \
        "unpack the archive and pack it again: zip -r"
    program convert only.npz out.npz
    expect_failure 65 "tensor 'b' of 'only.npz' holds elements of type 'LZMA-compressed', which is not read" \
        "in Python: numpy.savez_compressed(NEW, **numpy.load(OLD))"
    program convert 64.npz out.npz
    expect_failure 65 "tensor 'b' of '64.npz' holds elements of type 'zip method 9', which is not read" \
        "unpack the archive and pack it again: zip -r"
    program convert lzma.npz out.npz
    [ "$status $stderr" = "0 mpimatmul: warning: 'lzma.npz': 1 of 2 tensors are skipped: 'b' (LZMA-compressed)" ]
    for command in "info marks.npz" "info --json marks.npz" "convert marks.npz:x out.npy" "convert marks.npz out.npy" \
        "convert marks.npz out.npz" "mul marks.npz a.npy"; do
        # shellcheck disable=SC2086 # words are meant
        program $command
        run ! grep -P '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' <<< "$output$stderr"
    done
}

@test "a pointer of Git LFS is refused by name, for any target" {
    printf '%s\n' "version https://git-lfs.github.com/spec/v1" "oid sha256:4d7a2146" "size 12345" > m.pt
    for name in m.npz m.npy m.csv m.mtx m.safetensors m.bin; do
        cp m.pt $name
        program info $name
        expect_failure 65 "'$name' is a Git LFS pointer, which is not read yet" \
            "fetch the file that it stands for: git lfs pull"
    done
}

@test "a number without axes is a matrix of one element, in every kind of file" {
    need_numpy
    cp "$data/objects.pt" .
    python << 'END'
import numpy as np
from tensors import write_safetensors
np.save("one.npy", np.float64(3))
np.savez("one.npz", x=np.int64(3))
header = {"x": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}
write_safetensors("one.safetensors", header, np.float32(3).tobytes())
END
    for file in one.npy one.npz one.safetensors; do
        program mul $file one.npy -o out.npy -q
        expect_quiet_success
        python -c "import numpy as np; assert (np.load('out.npy') == [[9]]).all()"
    done
    program convert objects.pt:model.1.num_batches_tracked out.npy
    expect_quiet_success
    python -c "import numpy as np; x = np.load('out.npy'); assert x.dtype == 'i8' and x.tolist() == [[0]]"
    program info 'one.npz:x[0:1]'
    expect_failure 65 "'one.npz:x[0:1]' is a range of a number, which has no axis"
}

@test "complex numbers are refused with a way to convert them" {
    need_numpy
    cp "$data/objects.pt" .
    python << 'END'
import numpy as np
c = np.ones((2, 2), "c8")
np.save("c.npy", c)
np.savez("c.npz", c=c)
END
    echo "%%MatrixMarket matrix array complex general" > c.mtx
    hint="save the real and the imaginary part as two matrices: x.real and x.imag"
    program info c.npy
    expect_failure 65 "'c.npy' holds elements of numpy type '<c8': f2, f4, f8 (float16, 32, 64), b1 (bool), i1 to i8 \
and u1 to u4 (int8 to 64, uint8 to 32) are read" "$hint"
    program info c.npz:c
    expect_failure 65 "tensor 'c' of 'c.npz' holds elements of type '<c8', which is not read" "$hint"
    program info objects.pt:complex
    expect_failure 65 "tensor 'complex' of 'objects.pt' holds elements of type 'complex64', which is not read" "$hint"
    program info c.mtx
    expect_failure 65 "'c.mtx' holds complex numbers, which are not read" "$hint"
}

@test "a damaged .npz archive is refused" {
    need_numpy
    cp "$data/deflated.npz" "$data/stored.npz" .
    python << 'END'
import warnings
import zipfile
import numpy as np
data = open("stored.npz", "rb").read()
open("cut.npz", "wb").write(data[:-30])
at = data.index(b"NUMPY") + 400      # an element of layer.0.weight
open("flipped.npz", "wb").write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
with zipfile.ZipFile("none.npz", "w") as z:
    z.writestr("w.npy", "not so")
    z.writestr("readme.txt", "text")
np.save("w.npy", np.eye(3, dtype="f4"))
with zipfile.ZipFile("short.npz", "w") as z:
    z.writestr("w.npy", open("w.npy", "rb").read()[:-1])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with zipfile.ZipFile("twice.npz", "w") as z:
        for _ in range(2):
            z.writestr("w.npy", open("w.npy", "rb").read())
END
    program info cut.npz
    expect_failure 65 "'cut.npz' is not a valid .npz file: Not a zip archive"
    program convert flipped.npz:layer.0.weight out.npy
    expect_failure 65 "cannot read 'flipped.npz:layer.0.weight': CRC error"
    program info twice.npz
    expect_failure 65 "'twice.npz' is not a valid .npz file: it has 'w.npy' more than once"
    program convert none.npz out.npy
    expect_failure 65 "tensor 'w' of 'none.npz' holds elements of type 'no valid .npy', which is not read"
    program info none.npz
    expect_quiet_success
    expect_line "none.npz: npz, 1 tensor, $(stat -c %s none.npz) bytes"
    program convert short.npz out.npy
    expect_failure 65 "'short.npz' is shorter than its header says: 163 bytes, expected 164 for 3 x 3 float32"
    program convert stored.npz out.npy
    expect_failure 65 "'stored.npz' holds 11 tensors, expected one" \
        "name one as 'stored.npz:layer.0.weight'; mpimatmul info lists them"
    program convert stored.npz:double stored.npz --format bin -q
    expect_failure 73 "cannot create 'stored.npz': it is one of the inputs" "give the output another name"
}

@test "results are written as .npz and .safetensors, on one rank and on two, equal to numpy's and valid in the format" {
    need_numpy
    "$MPIMATMUL" gen A.safetensors:a --dims 300x200 --kind integer --seed 1
    "$MPIMATMUL" gen B.npz:b --dims 200x100 --kind integer --seed 2
    for count in 1 2; do
        for out in C.npz:c D.npz E.safetensors:x.y F.safetensors 2.npz:with/slash; do
            ranks $count mul A.safetensors B.npz:b -o $out -q
            expect_quiet_success
        done
        python << 'END'
import numpy as np
from tensors import read_safetensors
a, b = read_safetensors("A.safetensors"), np.load("B.npz")
assert list(a) == ["a"] and b.files == ["b"]
right = a["a"] @ b["b"]
for file, name in ("C.npz", "c"), ("D.npz", "data"), ("2.npz", "with/slash"):
    found = np.load(file)
    assert found.files == [name] and (found[name] == right).all(), file
for file, name in ("E.safetensors", "x.y"), ("F.safetensors", "data"):
    found = read_safetensors(file)
    assert list(found) == [name] and (found[name] == right).all(), file
END
    done
    program verify A.safetensors:a B.npz C.npz
    expect_quiet_success
    program mul A.safetensors:a A.safetensors --transpose-b -q
    expect_quiet_success
    expect_only_files 2.npz A.safetensors B.npz C.npz D.npz E.safetensors F.safetensors axA_combined.safetensors
}

@test "outputs with tensors appear complete or not at all, and cannot be inputs" {
    "$MPIMATMUL" gen A.npz:a --dims 3x3 --kind identity
    program mul A.npz A.npz -o A.npz:b
    expect_failure 73 "cannot create 'A.npz:b': it is one of the inputs" "give the output another name"
    program mul A.npz A.npz -o none/A.npz:b
    expect_failure 73 "cannot create 'none/A.npz:b': No such file or directory"
    program gen B.npz --dims 3x3 --bin-version 2
    [ "$status" -eq 64 ]
    program convert A.npz B.npz --bin-version 2
    expect_failure 64 "cannot write 'B.npz' as version 2: only .bin files have versions"
    program gen "B.safetensors:$(printf 'n%.0s' {1..5000})" --dims 3x3
    expect_failure 64 "'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' is too long a name for a tensor"
    program gen B.safetensors:__metadata__ --dims 3x3
    expect_failure 64 "'__metadata__' cannot name a tensor of .safetensors files"
    program gen $'B.safetensors:\xff' --dims 3x3
    expect_failure 64 "'?' cannot name a tensor: it is not UTF-8"
    TMPDIR=A.npz program gen B.npz --dims 3x3
    expect_failure 74 "cannot create a temporary file in 'A.npz': Not a directory"
    "$MPIMATMUL" gen - --format npz --dims 3x3 --kind identity | cat > out
    "$MPIMATMUL" convert A.npz:a - --format npz | cmp out
    rm out
    expect_only_files A.npz
}

@test "programs take rows by whole numbers from a file, and save whole numbers as int32" {
    need_numpy
    cp "$data/model.safetensors" m.safetensors
    cat > p.py << 'END'
rows = load("m.safetensors:rows")
x = take(load("m.safetensors:layer.0.weight"), rows)
save("x.npz:x", x @ load("m.safetensors:layer.1.weight"))
save("rows.safetensors:ids", rows)
END
    program run p.py -q
    expect_quiet_success
    python << 'END'
import numpy as np
from tensors import expected, read_safetensors
e = expected()
right = e["layer.0.weight"][e["rows"]] @ e["layer.1.weight"].astype("f4")
assert (np.load("x.npz")["x"].reshape(right.shape) == right).all()
ids = read_safetensors("rows.safetensors")["ids"]
assert ids.dtype == np.int32 and (ids.ravel() == e["rows"]).all(), ids
END
}

@test "convert writes all tensors of one version of a file under their names, and lists those left out" {
    need_numpy
    cp "$data"/*.{gguf,pt,npz,safetensors} .
    for file in model.safetensors stored.npz deflated.npz torch.pt model.gguf blocks.gguf; do
        for ending in npz safetensors; do
            program convert $file "$file.all.$ending"
            expect_quiet_success
        done
    done
    python << 'END'
import numpy as np
from tensors import GGUF_PACKED, expected, expected_gguf, expected_torch, read_safetensors, same_bits
gguf = {"blk.0." + name: array for name, array in expected_gguf().items()}
for file, right in (("model.safetensors", expected()), ("stored.npz", expected()), ("deflated.npz", expected()),
                    ("torch.pt", expected_torch()), ("model.gguf", gguf), ("blocks.gguf", None)):
    npz = np.load(file + ".all.npz")
    npz = {name: npz[name] for name in npz.files}
    # numpy has no bfloat16: their bits.
    found = {name: (a.astype("u4") << 16).view("f4") if a.dtype == "u2" and name in ("7.0", "blk.0.bf16") else a
             for name, a in read_safetensors(file + ".all.safetensors").items()}
    for tensors in npz, found:
        if right is None:
            assert all(same_bits(tensors[name], tensors[name + ".expected"]) for name in GGUF_PACKED)
            continue
        assert sorted(tensors) == sorted(right), (file, sorted(tensors))
        for name, array in right.items():
            assert tensors[name].shape == array.shape, (file, name, tensors[name].shape)
            assert (tensors[name] == array).all(), (file, name)
            if file != "model.gguf" and name != "7.0":
                assert tensors[name].dtype == array.dtype, (file, name, tensors[name].dtype)
END
    # The opposite direction loses nothing, and a single tensor keeps its name, too.
    program convert torch.pt.all.npz back.safetensors
    expect_quiet_success
    "$MPIMATMUL" gen one.npz:a --dims 3x3 --kind identity
    program convert one.npz one.safetensors
    expect_quiet_success
    program info one.safetensors:a
    expect_quiet_success
    program convert one.npz:a named.safetensors:b -q
    expect_quiet_success
    program info named.safetensors:b
    expect_quiet_success
    program convert model.gguf half.safetensors --dtype float16
    expect_quiet_success
    [ "$("$MPIMATMUL" info half.safetensors | grep -c ' float16 ')" -eq 7 ]

    # A conversion to a single matrix, or to a name, takes one tensor.
    program convert stored.npz out.npy
    expect_failure 65 "'stored.npz' holds 11 tensors, expected one" \
        "name one as 'stored.npz:layer.0.weight'; mpimatmul info lists them"
    program convert stored.npz out.npz:x
    expect_failure 65 "'stored.npz' holds 11 tensors, expected one" \
        "name one as 'stored.npz:layer.0.weight'; mpimatmul info lists them"
    program convert stored.npz out.npz --format csv
    expect_failure 65 "'stored.npz' holds 11 tensors, expected one" \
        "name one as 'stored.npz:layer.0.weight'; mpimatmul info lists them"
    program convert stored.npz stored.npz
    expect_failure 73 "cannot create 'stored.npz': it is one of the inputs" \
        "give the output another name"
    program convert stored.npz out.npz --bin-version 2
    expect_failure 64 "cannot write 'out.npz' as version 2: only .bin files have versions"

    python << 'END'
from tensors import write_gguf
write_gguf("m.gguf", [("new", (4, 2), 99, 0), ("here", (4, 2), 0, 32), ("number", (), 0, 64),
                      ("five", (1,) * 5, 0, 96), ("none", (0, 3), 0, 128), ("more", (1,) * 6, 0, 160)])
write_gguf("no.gguf", [("new", (4, 2), 99, 0)])
write_gguf("two.gguf", [("same", (4, 2), 0, 0), ("same", (4, 2), 0, 32)])
END
    program convert m.gguf m.npz -q
    expect_status 0
    [ "$stderr" = "mpimatmul: warning: 'm.gguf': 5 of 6 tensors are skipped: 'new' (2 x 4, type 99), \
'number' (a number, float32), 'five' (1 x 1 x 1 x 1 x 1, float32), 'none' (3 x 0, float32) and 1 more" ]
    python <<< 'import numpy as np; assert np.load("m.npz").files == ["here"]'
    program convert no.gguf no.npz
    expect_failure 65 "tensor 'new' of 'no.gguf' holds elements of type 'type 99', which is not read"
    program convert two.gguf no.npz
    expect_failure 65 "'two.gguf' holds two tensors 'same'"
    [ ! -e no.npz ] && [ ! -e no.npz.part ]
    # An unreadable tensor leaves no output file.
    python << 'END'
data = open("stored.npz", "rb").read()
at = data.index(b"NUMPY") + 400      # an element of layer.0.weight
open("flipped.npz", "wb").write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
END
    program convert flipped.npz out.safetensors
    expect_failure 65 "cannot read 'flipped.npz:layer.0.weight': CRC error"
    [ ! -e out.safetensors ] && [ ! -e out.safetensors.part ] && [ ! -e out.npz ]
    # A file from a pipe is converted like the file itself.
    # shellcheck disable=SC2002 # a pipe is meant
    cat model.gguf | "$MPIMATMUL" convert - - --format npz | cat > piped.npz
    python << 'END'
import numpy as np
a, b = np.load("piped.npz"), np.load("model.gguf.all.npz")
assert a.files == b.files and all((a[name] == b[name]).all() for name in a.files)
END
}

@test "a damaged member of a .npz is not read as a tensor of another type" {
    need_numpy
    python <<'END'
import numpy as np
a = np.arange(12.0).reshape(3, 4)
np.savez("whole.npz", a=a, b=a + 1)
for name, at in (("magic", 66), ("type", 78)):
    data = bytearray(open("whole.npz", "rb").read())
    data[at] ^= 4
    open(name + ".npz", "wb").write(data)
END
    local name
    for name in magic type; do
        program convert $name.npz out.npz -q
        expect_failure 65 "cannot read '$name.npz:a': CRC error"
        [ ! -e out.npz ]
    done
    program convert whole.npz out.npz -q
    expect_quiet_success
}
