#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GGUF files: one written by the package gguf (tests/data/make_gguf.py), and others made by hand.
# Every tensor is compared with numpy. Invalid files are refused.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

data=$BATS_TEST_DIRNAME/../data

@test "a file of the package gguf is read: names, plain numbers, packed blocks" {
    need_numpy
    cp "$data/model.gguf" m.gguf
    program info m.gguf
    expect_quiet_success
    expect_line "m.gguf: gguf, 7 tensors, $(stat -c %s m.gguf) bytes"
    expect_line "3 x 64     float32     768  blk.0.f32"
    expect_line "3 x 64     Q8_0        204  blk.0.q8_0"
    expect_line "3 x 64     Q5_0        132  blk.0.q5_0"
    for name in f32 f16 bf16 q8_0 q4_0 q5_0 stack; do
        program convert "m.gguf:blk.0.$name" $name.npy -q
        expect_quiet_success
    done
    python << 'END'
import numpy as np
from tensors import expected_gguf
for name, array in expected_gguf().items():
    found = np.load(name + ".npy")
    assert found.shape == array.shape and (found == array).all(), (name, found, array)
    assert found.dtype == ("f2" if name == "f16" else "f4")
END
    program convert 'm.gguf:blk.0.q8_0[1:3]' part.npy
    expect_quiet_success
    python <<< 'import numpy as np; assert (np.load("part.npy") == np.load("q8_0.npy")[1:3]).all()'
    "$MPIMATMUL" mul q8_0.npy q4_0.npy --transpose-b -o C.npy -q
    ranks 2 mul m.gguf:blk.0.q8_0 m.gguf:blk.0.q4_0 --transpose-b -o D.npy -q
    expect_quiet_success
    program diff C.npy D.npy -q
    expect_quiet_success
    program convert C.npy out.gguf
    [ "$status" -eq 64 ]
    [[ "$stderr" == *"cannot write 'out.gguf': only reading is possible for the ending '.gguf', expected .bin"* ]]
}

# refused FILE LINE
refused() {
    program info "$1"
    expect_failure 65 "${@:2}"
}

@test "invalid GGUF files are refused" {
    need_numpy
    python << 'END'
import struct
from tensors import write_gguf
def text(t):
    return struct.pack("<Q", len(t)) + t.encode()
def store(name, *arguments, **named):
    write_gguf(name + ".gguf", *arguments, **named)
store("good", [("a", (4, 2), 0, 0), ("b", (32,), 2, 32)])
store("aligned", [("a", (2, 2), 0, 64)], text("general.alignment") + struct.pack("<II", 4, 64), 1)
values = text("names") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("y") + text("f") + struct.pack("<If", 6, 1.5)
store("values", [("a", (4, 2), 0, 0)], values, 2)
store("version", version=1)
store("big", version=3 << 24)
store("blocks", [("a", (33,), 8, 0)])
store("superblocks", [("a", (320, 4), 12, 0)])
store("cut", [("a", (256, 2), 12, 0)], data=bytes(287))
store("beyond", [("a", (8, 9), 0, 0)])
store("offset", [("a", (4, 2), 0, 4)])
store("many", [("a", (2 ** 62, 4), 0, 0)])
store("nine", [("a", (1,) * 9, 0, 0)])
store("count", count=2 ** 60)
store("value", values=text("k") + struct.pack("<I", 13), value_count=1)
store("nested", values=text("k") + struct.pack("<IIQ", 9, 9, 1), value_count=1)
store("array", values=text("k") + struct.pack("<IIQ", 9, 4, 2 ** 61), value_count=1)
store("alignment", values=text("general.alignment") + struct.pack("<II", 4, 0), value_count=1)
store("empty", [("", (4, 2), 0, 0)])
END
    for file in good aligned values; do
        program info $file.gguf
        expect_quiet_success
        program info $file.gguf:a
        expect_quiet_success
    done
    no="is not a valid GGUF file:"
    refused version.gguf "'version.gguf' is not read: GGUF version 1, expected 2 or 3"
    refused big.gguf "'big.gguf' is not read: GGUF version 3, big-endian, expected 2 or 3"
    refused blocks.gguf \
        "'blocks.gguf' $no tensor 'a': rows of 33 elements are not whole blocks of 32, the block size of Q8_0"
    refused superblocks.gguf "'superblocks.gguf' $no tensor 'a': rows of 320 elements are not whole blocks of 256, \
the block size of Q4_K"
    refused cut.gguf "'cut.gguf' $no tensor 'a' does not lie in it"
    refused beyond.gguf "'beyond.gguf' $no tensor 'a' does not lie in it"
    refused offset.gguf "'offset.gguf' $no tensor 'a' does not lie in it"
    refused many.gguf "'many.gguf' $no a tensor has too many elements to count"
    refused nine.gguf "'nine.gguf' $no a tensor of more than 8 dimensions"
    refused count.gguf "'count.gguf' $no the file ends inside its header"
    refused value.gguf "'value.gguf' $no a value of an unknown type"
    refused nested.gguf "'nested.gguf' $no an array of an unknown type"
    refused array.gguf "'array.gguf' $no the file ends inside its header"
    refused alignment.gguf "'alignment.gguf' $no its alignment is no multiple of 8"
    refused empty.gguf "'empty.gguf' $no a tensor without a name, or with one of more than 1023 bytes"
}

@test "a tensor of an unknown type is unreadable, and the others stay readable" {
    need_numpy
    python << 'END'
import numpy as np
from tensors import write_gguf, write_safetensors
data = np.zeros(512, "u1")
data[256:288] = np.arange(8, dtype="f4").view("u1")
write_gguf("m.gguf", [("new", (64, 4), 99, 0), ("gone", (32, 2), 4, 128), ("here", (4, 2), 0, 256),
                      ("ternary", (256,), 34, 288), ("small", (64,), 40, 352), ("last", (32,), 31, 416)],
           data=data.tobytes())
write_safetensors("m.safetensors", {
    "here": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
    "new": {"dtype": "F4", "shape": [2, 4], "data_offsets": [32, 36]},
    "odd": {"dtype": "a\tb\n", "shape": [2], "data_offsets": [36, 38]}}, data[256:294].tobytes())
END
    program info m.gguf
    expect_quiet_success
    expect_line "4 x 64  type 99 (not read)    128  new"
    expect_line "2 x 32  type 4 (not read)     128  gone"
    expect_line "256     TQ1_0 (not read)       54  ternary"
    expect_line "64      NVFP4 (not read)       36  small"
    expect_line "32      type 31 (not read)     96  last"
    program info m.safetensors
    expect_quiet_success
    expect_line "2 x 4  F4 (not read)        4  new"
    expect_line "2      a?b? (not read)      2  odd"
    for file in m.gguf m.safetensors; do
        program convert $file:here here.npy -q
        expect_quiet_success
        python <<< 'import numpy as np; assert (np.load("here.npy") == np.arange(8).reshape(2, 4)).all()'
    done
    for given in m.gguf:new:"type 99" m.gguf:gone:"type 4" m.gguf:ternary:TQ1_0 m.gguf:small:NVFP4 \
        m.safetensors:new:F4; do
        IFS=: read -r file name type <<< "$given"
        program mul "$file:$name" here.npy
        expect_failure 65 "tensor '$name' of '$file' holds elements of type '$type', which is not read"
    done
}

@test "packed tensors equal the package gguf's values, whole and by rows, on one rank and on two" {
    need_numpy
    cp "$data/blocks.gguf" b.gguf
    python << 'END'
import numpy as np
for n in 64, 256:
    np.save(f"{n}.npy", np.eye(n, dtype="f4"))
END
    for name in Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 stack; do
        rows=4:6 unit=256.npy
        [ $name != stack ] || rows=1:3
        [[ $name == *_K || $name == IQ4_XS || $name == stack ]] || unit=64.npy
        for address in "$name" "$name.expected" "${name}[$rows]"; do
            program convert "b.gguf:$address" "$address.npy"
            expect_quiet_success
        done
        ranks 2 mul "b.gguf:${name}[$rows]" $unit -o "$name.product.npy" -q
        expect_quiet_success
    done
    python << 'END'
import numpy as np
from tensors import GGUF_PACKED, same_bits
for name in GGUF_PACKED:
    rows = slice(1, 3) if name == "stack" else slice(4, 6)
    expected = np.load(name + ".expected.npy")
    assert same_bits(np.load(name + ".npy"), expected), name
    assert same_bits(np.load(f"{name}[{rows.start}:{rows.stop}].npy"), expected[rows]), name
    # A product with the unit matrix gives the rows themselves, if they are finite.
    product, right = np.load(name + ".product.npy"), expected[rows]
    finite = np.isfinite(right).all(axis=-1)
    assert finite.all() or name == "MXFP4", name
    assert (product[finite] == right[finite]).all(), name
END
}
