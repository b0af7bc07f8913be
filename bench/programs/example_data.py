# SPDX-License-Identifier: MIT
"""Writes small random input files for two examples. sentence.py reads model.safetensors (2 layers of 24, under the
names of all-MiniLM-L6-v2), ids.npy and mask.npy. pca.py reads digits.npy and start.npy.

    python3 example_data.py
"""
import json

import numpy as np

rng = np.random.default_rng(1)


def parameters(width=24, inner=40, words=60, places=16, layers=2):
    """{name: shape}"""
    shapes = {"embeddings.word_embeddings.weight": (words, width),
              "embeddings.position_embeddings.weight": (places, width),
              "embeddings.token_type_embeddings.weight": (2, width)}
    names = [f"encoder.layer.{i}.{part}" for i in range(layers) for part in ("attention.output", "output")]
    for name in ["embeddings"] + names:
        shapes |= {f"{name}.LayerNorm.weight": (width,), f"{name}.LayerNorm.bias": (width,)}
    for i in range(layers):
        for part, outer, inside in (("attention.self.query", width, width), ("attention.self.key", width, width),
                                    ("attention.self.value", width, width), ("attention.output.dense", width, width),
                                    ("intermediate.dense", inner, width), ("output.dense", width, inner)):
            name = f"encoder.layer.{i}.{part}"
            shapes |= {f"{name}.weight": (outer, inside), f"{name}.bias": (outer,)}
    return shapes


def save_safetensors(file, shapes):
    header, data = {}, b""
    for name, shape in shapes.items():
        raw = (rng.standard_normal(shape) * 0.3).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(file, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + data)


save_safetensors("model.safetensors", parameters())
np.save("ids.npy", rng.integers(0, 60, (5, 9)))
np.save("mask.npy", (np.arange(9)[None, :] < np.arange(3, 8)[:, None]).astype("i4"))

scales = 3.0 ** np.arange(8)[:, None]  # far apart, so that rounding cannot rotate a component
np.save("digits.npy", (rng.standard_normal((90, 8)) @ (scales * np.eye(8))).astype("f4"))
np.save("start.npy", rng.standard_normal((8, 4)).astype("f4"))
