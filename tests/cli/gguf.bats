#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GGUF files: one that the package gguf has written (tests/data/make_gguf.py), and others by hand. Every tensor against
# numpy; what is refused.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

data=$BATS_TEST_DIRNAME/../data

@test "what the package gguf has written: names, numbers that lie there, blocks of Q8_0 and Q4_0" {
    need_numpy
    cp "$data/model.gguf" m.gguf
    program info m.gguf
    expect_quiet_success
    expect_line "m.gguf: gguf, 7 tensors, $(stat -c %s m.gguf) bytes"
    expect_line "3 x 64     float32            768  blk.0.f32"
    expect_line "3 x 64     Q8_0               204  blk.0.q8_0"
    expect_line "3 x 64     Q5_0 (not read)    132  blk.0.q5_0"
    for name in f32 f16 bf16 q8_0 q4_0 stack; do
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
    program mul m.gguf:blk.0.q5_0 C.npy
    expect_failure 65 "tensor 'blk.0.q5_0' of 'm.gguf' holds elements of type 'Q5_0', which is not read"
    program convert C.npy out.gguf
    [ "$status" -eq 64 ]
    [[ "$stderr" == *"cannot write 'out.gguf': files are only read that have the ending '.gguf', expected .bin"* ]]
}

# refused FILE LINE
refused() {
    program info "$1"
    expect_failure 65 "${@:2}"
}

@test "GGUF files that are not valid" {
    need_numpy
    python << 'END'
import struct
def text(t):
    return struct.pack("<Q", len(t)) + t.encode()
def store(name, tensors=(), values=b"", value_count=0, version=3, count=None, data=bytes(256)):
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors) if count is None else count, value_count) + values
    for n, sizes, kind, offset in tensors:
        head += text(n) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes) + \
            struct.pack("<IQ", kind, offset)
    open(name + ".gguf", "wb").write(head + bytes(-len(head) % 32) + data)
store("good", [("a", (4, 2), 0, 0), ("b", (32,), 2, 32)])
store("aligned", [("a", (2, 2), 0, 64)], text("general.alignment") + struct.pack("<II", 4, 64), 1)
values = text("names") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("y") + text("f") + struct.pack("<If", 6, 1.5)
store("values", [("a", (4, 2), 0, 0)], values, 2)
store("version", version=1)
store("big", version=3 << 24)
store("kind", [("a", (4, 2), 99, 0)])
store("gone", [("a", (4, 2), 4, 0)])
store("blocks", [("a", (33,), 8, 0)])
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
    refused kind.gguf "'kind.gguf' $no tensor 'a' has the unknown type 99"
    refused gone.gguf "'gone.gguf' $no tensor 'a' has the unknown type 4"
    refused blocks.gguf "'blocks.gguf' $no a tensor whose rows are no whole blocks"
    refused beyond.gguf "'beyond.gguf' $no tensor 'a' does not lie in it"
    refused offset.gguf "'offset.gguf' $no tensor 'a' does not lie in it"
    refused many.gguf "'many.gguf' $no a tensor of more elements than can be counted"
    refused nine.gguf "'nine.gguf' $no a tensor of more than 8 dimensions"
    refused count.gguf "'count.gguf' $no its header goes beyond its end"
    refused value.gguf "'value.gguf' $no a value of an unknown type"
    refused nested.gguf "'nested.gguf' $no an array of an unknown type"
    refused array.gguf "'array.gguf' $no its header goes beyond its end"
    refused alignment.gguf "'alignment.gguf' $no its alignment is no multiple of 8"
    refused empty.gguf "'empty.gguf' $no a tensor without a name, or with one of more than 1023 bytes"
}
