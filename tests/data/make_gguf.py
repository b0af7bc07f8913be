#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes model.gguf and blocks.gguf in the current folder, with the packages numpy and gguf (0.19.0 made the latter).
model.gguf holds what `expected_gguf` in tests/cli/tensors.py says. blocks.gguf holds random blocks of every packed type
that is read, NAME, and beside them NAME.expected, the float32 that the package makes of them."""
import pathlib
import sys

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from tensors import gguf_values

a, stack = gguf_values()
kinds = gguf.GGMLQuantizationType
writer = gguf.GGUFWriter("model.gguf", "llama")
writer.add_array("tokenizer.ggml.tokens", ["a", "b", "c"])
writer.add_float32("some.number", 0.5)
writer.add_tensor("blk.0.f32", a)
writer.add_tensor("blk.0.f16", a.astype(np.float16))
for name, kind in ("bf16", kinds.BF16), ("q8_0", kinds.Q8_0), ("q4_0", kinds.Q4_0), ("q5_0", kinds.Q5_0):
    writer.add_tensor("blk.0." + name, quantize(a, kind), raw_dtype=kind)
writer.add_tensor("blk.0.stack", stack)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

# Where blocks have a factor in float16; of MXFP4 the exponent. Its extremes stand in the first rows.
FACTORS = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
           "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [0]}
EXTREMES = ((65504, -65504), (2**-24, -2**-24), (np.inf, 0.5), (-0.0, 0.0))
EXPONENTS = (0, 1, 2, 254, 255)

random = np.random.default_rng(14)


def blocks_of(name, rows):
    """Random bytes, a row a block of 256 elements or two of 32, with factors of any size that is no NaN."""
    elements, size = gguf.GGML_QUANT_SIZES[kinds[name]]
    blocks = random.integers(0, 256, (rows, 64 // elements or 1, size), "u1")
    for at, place in enumerate(FACTORS[name]):
        if name == "MXFP4":
            blocks[:5, :, place] = np.array(EXPONENTS, "u1")[:rows, None]
            continue
        factors = random.standard_normal((rows, blocks.shape[1])).astype("f2")
        factors[:4] = np.array([row[at] for row in EXTREMES], "f2")[:rows, None]
        blocks[:, :, place : place + 2] = factors[..., None].view("u1")
    return blocks.reshape(rows, -1)


writer = gguf.GGUFWriter("blocks.gguf", "llama")
with np.errstate(all="ignore"):
    for name in FACTORS:
        blocks = blocks_of(name, 6)
        writer.add_tensor(name, blocks, raw_dtype=kinds[name])
        writer.add_tensor(name + ".expected", dequantize(blocks, kinds[name]))
    stack = blocks_of("Q4_K", 12)[6:].reshape(3, 2, -1)
    writer.add_tensor("stack", stack, raw_dtype=kinds.Q4_K)
    writer.add_tensor("stack.expected", dequantize(stack, kinds.Q4_K))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
