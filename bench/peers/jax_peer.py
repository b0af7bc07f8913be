#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Work of a jax user on the same CPU: compiled by jit, operands in memory.

    jax_peer.py matmul SIZE                a square product in float32
    jax_peer.py sentence MODEL IDS MASK    bench/programs/sentence.py, of the same files
    jax_peer.py gpt LAYERS HEADS WIDTH LENGTH COUNT VOCABULARY    a training step of bench/programs/gpt.py

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
    """Returns tensors of a .safetensors file in float32, as arrays of jax."""
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


def gpt_loss(p, x, y, heads):
    def layer_norm(x, scale, shift):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift

    count, length = x.shape
    width = p["wte"].shape[1]
    hidden = jnp.triu(jnp.full((length, length), -jnp.inf), 1)
    h = p["wte"][x] + p["wpe"]
    for b in p["blocks"]:
        q, k, v = (part.reshape(count, length, heads, -1).swapaxes(1, 2)
                   for part in jnp.split(layer_norm(h, b[0], b[1]) @ b[2].T, 3, -1))
        a = jax.nn.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(width // heads) + hidden, -1) @ v
        h = h + a.swapaxes(1, 2).reshape(count, length, width) @ b[3].T
        h = h + jax.nn.gelu(layer_norm(h, b[4], b[5]) @ b[6].T, approximate=False) @ b[7].T
    logits = layer_norm(h, *p["norm"]) @ p["wte"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), y[..., None], -1).mean()


def gpt(layers, heads, width, length, count, vocabulary):
    """AdamW with clipped gradients, and its initial state."""
    draw = np.random.default_rng(1)

    def normal(*sizes):
        return jnp.asarray(draw.standard_normal(sizes, "f4") * np.float32(0.02))

    def ones():
        return jnp.ones(width), jnp.zeros(width)

    p = {"wte": normal(vocabulary, width), "wpe": normal(length, width), "norm": ones(),
         "blocks": [(*ones(), normal(3 * width, width), normal(width, width), *ones(), normal(4 * width, width),
                     normal(width, 4 * width)) for _ in range(layers)]}
    nothing = jax.tree.map(jnp.zeros_like, p)
    x, y = (jnp.asarray(draw.integers(0, vocabulary, (count, length))) for _ in range(2))

    def step(p, m, v, x, y):
        g = jax.grad(gpt_loss)(p, x, y, heads)
        norm = jnp.sqrt(sum((one ** 2).sum() for one in jax.tree.leaves(g)))
        g = jax.tree.map(lambda one: one * jnp.minimum(1 / (norm + 1e-6), 1), g)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        return jax.tree.map(lambda p, m, v: p * 0.99999 - 1e-3 * m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v
    return step, [p, nothing, nothing, x, y]


def main():
    if sys.argv[1] == "matmul":
        size = int(sys.argv[2])
        function, arguments = jnp.matmul, [jax.random.uniform(jax.random.key(seed), (size, size)) for seed in (1, 2)]
    elif sys.argv[1] == "gpt":
        function, arguments = gpt(*map(int, sys.argv[2:]))
    else:
        function = sentence
        arguments = [weights(sys.argv[2]), jnp.asarray(np.load(sys.argv[3])), jnp.asarray(np.load(sys.argv[4]), "f4")]
    compiled, times = jax.jit(function), []
    for _ in range(4):
        begin = time.monotonic()
        result = jax.block_until_ready(compiled(*arguments))
        times.append(time.monotonic() - begin)
    print(json.dumps({"peer": "jax " + jax.__version__, "seconds": min(times[1:]),
                      "sum": float(sum(jnp.abs(one).sum() for one in jax.tree.leaves(result)))}))


main()
