#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes model.gguf in the current folder, with the packages gguf and numpy. What is in it is what `expected_gguf` in
tests/cli/tensors.py says."""
import pathlib
import sys

import gguf
import numpy as np
from gguf.quants import quantize

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
