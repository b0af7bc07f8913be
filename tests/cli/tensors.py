# SPDX-License-Identifier: MIT
"""The contents of the files in tests/data, and a reader of .safetensors of its own: numpy, no code
under test."""
import json
import struct

import numpy as np

TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1", "BOOL": "?",
         "I8": "i1", "I16": "<i2", "U16": "<u2", "U32": "<u4"}


def expected():
    """Returns name -> array. Whole numbers, so that products are exact, except for the float64."""
    random = np.random.default_rng(11)

    def whole(dtype, *sizes):
        return random.integers(-4, 5, sizes).astype(dtype)

    return {
        "layer.0.weight": whole("f4", 31, 17),
        "layer.0.bias": whole("f4", 17),
        "layer.1.weight": whole("f2", 17, 13),
        "stack": whole("f4", 2, 3, 5, 7),
        "double": random.standard_normal((3, 4)),
        "ids": np.array([3, 0, 2**24], "i8"),
        "large": np.array([[1, 2], [2**24 + 1, 3]], "i8"),
        "rows": np.arange(5, dtype="i4"),
        "bytes": np.arange(6, dtype="u1").reshape(2, 3),
        "mask": np.array([True, False]),
        "a:b[1:2]": whole("f4", 2, 3),
    }


def write_safetensors(path, header, data=b"", length=None):
    """Writes a .safetensors file with `header` as JSON or as text, and `length` as its stated
    length."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length) + text + data)


def read_safetensors(path):
    """Returns name -> array."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        found[name] = np.frombuffer(data[8 + length + begin : 8 + length + end],
                                    TYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def expected_torch():
    """Returns name -> array of tests/data/torch.pt."""
    random = np.random.default_rng(12)
    base = np.arange(120, dtype="f4").reshape(12, 10) - 60
    kinds = ("f4", "f2", "f8", "i8", "i4", "i2", "i1", "u1")
    return {
        "model.layer.weight": random.integers(-4, 5, (3, 5)).astype("f4"),
        **{"model." + kind: random.integers(0, 100, (2, 3)).astype(kind) for kind in kinds},
        "model.mask": np.array([True, False, True]),
        "views.0": base, "views.1": base.T, "views.2": base[2:5, 1:7], "views.3": base[::2, ::3], "views.4": base[3],
        "views.5": np.broadcast_to(base[:1], (4, 10)), "views.6": base.reshape(2, 3, 4, 5)[:, 1:],
        "7.0": np.array([[1, -2.5], [0.75, 1024]], "f4"),
    }


def expected_objects():
    """Returns name -> array of the readable contents of tests/data/objects.pt and old_objects.pt.
    """
    a = np.arange(6, dtype="f8").reshape(2, 3) - 2.5
    return {"model.0.weight": np.arange(6, dtype="f4").reshape(2, 3), "model.0.bias": np.array([1, 2], "f4"),
            "model.1.running_var": np.ones(2, "f4"), "args.t": np.array([1, 2, 3], "f4"), "array": a, "fortran": a,
            "big": np.array([1, -2, 2 ** 24], ">i4"), "default.a.0": np.array([7, 8], "f4"),
            "pair.0.0": np.array([9], "f4")}


def gguf_values():
    """Returns the contents of tests/data/model.gguf: numbers that every type there holds exactly,
    and a stack."""
    random = np.random.default_rng(13)
    a = random.integers(-8, 8, (3, 64)).astype("f4")
    a[:, ::32] = -8  # the factor of Q4_0 is 1
    return a, random.integers(-4, 5, (2, 3, 5)).astype("f4")


def expected_gguf():
    """Returns name -> array of tests/data/model.gguf, behind blk.0. Q8_0 follows the format's
    description: a factor in float16."""
    a, stack = gguf_values()
    blocks = a.reshape(3, 2, 32)
    factor = np.abs(blocks).max(axis=2, keepdims=True) / np.float32(127)
    whole = np.round(blocks / factor)
    q8 = (whole * factor.astype("f2").astype("f4")).reshape(a.shape).astype("f4")
    return {"f32": a, "f16": a, "bf16": a, "q4_0": a, "q5_0": a, "q8_0": q8, "stack": stack}


GGUF_PACKED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
               "MXFP4", "stack")


def same_bits(a, b):
    """Returns the arrays as float32 with all NaN alike: tests require no particular NaN."""
    return a.shape == b.shape and bool(((a.view("u4") == b.view("u4")) | (np.isnan(a) & np.isnan(b))).all())


def write_gguf(path, tensors=(), values=b"", value_count=0, version=3, count=None, data=bytes(256)):
    """Writes a GGUF file of `tensors`, (name, sizes in the file's order, number of the type,
    offset), and `values`, its bytes."""
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors) if count is None else count, value_count) + values
    for name, sizes, kind, offset in tensors:
        head += struct.pack("<Q", len(name)) + name.encode()
        head += struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        head += struct.pack("<IQ", kind, offset)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)
