#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a jax user has on the same CPU: compiled by jit, operands in memory.

    jax_peer.py matmul SIZE                a square product in float32
    jax_peer.py sentence MODEL IDS MASK    bench/programs/sentence.py, of the same files

The first call compiles and is not counted. Prints one line of JSON: seconds of the best of the next three calls, and a
sum of the result. Threads: as many as the process may use.
"""
import json
import struct
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def weights(path):
    """Tensors of a .safetensors file in float32, as arrays of jax."""
    with open(path, "rb") as stream:
        header = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))
        begin = stream.tell()
        header.pop("__metadata__", None)
        found = {}
        for name, is_at in header.items():
            if is_at["dtype"] != "F32":
                continue
            stream.seek(begin + is_at["data_offsets"][0])
            count = (is_at["data_offsets"][1] - is_at["data_offsets"][0]) // 4
            found[name] = jnp.asarray(np.fromfile(stream, "<f4", count).reshape(is_at["shape"]))
        return found


def norm(x, w, name):
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
    return centred * scale * w[name + ".weight"] + w[name + ".bias"]


def dense(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def sentence(w, ids, mask, layers=6, heads=12):
    texts, tokens = mask.shape
    hidden = ((1 - mask) * -1e9).reshape(texts, 1, 1, tokens)
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:tokens]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0:1], w, "embeddings.LayerNorm")
    width = x.shape[-1]

    def split(y):
        return y.reshape(texts, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    for i in range(layers):
        name = f"encoder.layer.{i}"
        q, k, v = (split(dense(x, w, f"{name}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(width // heads) + hidden, -1)
        a = (scores @ v).transpose(0, 2, 1, 3).reshape(texts, tokens, width)
        x = norm(dense(a, w, name + ".attention.output.dense") + x, w, name + ".attention.output.LayerNorm")
        h = jax.nn.gelu(dense(x, w, name + ".intermediate.dense"), approximate=False)
        x = norm(dense(h, w, name + ".output.dense") + x, w, name + ".output.LayerNorm")
    counts = mask[:, :, None]
    mean = (x * counts).sum(-2) / jnp.maximum(counts.sum(-2), 1e-9)
    return mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)


def main():
    if sys.argv[1] == "matmul":
        size = int(sys.argv[2])
        function, arguments = jnp.matmul, [jax.random.uniform(jax.random.key(seed), (size, size)) for seed in (1, 2)]
    else:
        function = sentence
        arguments = [weights(sys.argv[2]), jnp.asarray(np.load(sys.argv[3])), jnp.asarray(np.load(sys.argv[4]), "f4")]
    compiled, times = jax.jit(function), []
    for _ in range(4):
        begin = time.monotonic()
        result = compiled(*arguments).block_until_ready()
        times.append(time.monotonic() - begin)
    print(json.dumps({"peer": "jax " + jax.__version__, "seconds": min(times[1:]),
                      "sum": float(jnp.abs(result).sum())}))


main()
