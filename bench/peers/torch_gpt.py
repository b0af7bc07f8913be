#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""bench/programs/gpt.py as a torch user writes it: the same weights to begin with, batches, optimiser and rates.

    torch_gpt.py CORPUS TURNS [NAME=NUMBER...]     layers, heads, width, length, count, rate, every, as of gpt.py

Prints a line "turn loss" every so many turns, as gpt.py does, and at the end one line of JSON: the median of seconds
per turn, from the second one on. Threads: as many as the process may use.
"""
import json
import math
import pathlib
import statistics
import sys
import time

import numpy as np
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import reference  # noqa: E402 (numbers that are drawn as mpimatmul draws them)

corpus, turns = sys.argv[1], int(sys.argv[2])
size = {"layers": 6, "heads": 6, "width": 384, "length": 256, "count": 16, "rate": 1e-3, "every": 10}
size.update((name, type(size[name])(value)) for name, value in (word.split("=") for word in sys.argv[3:]))
layers, heads, width, length, count = (size[name] for name in ("layers", "heads", "width", "length", "count"))
text = reference.tokens(corpus)


def parameter(array):
    return torch.tensor(np.asarray(array), dtype=torch.float32, requires_grad=True)


def normal(rows, cols, seed):
    return parameter(reference.generate((rows, cols), kind="normal", seed=seed) * 0.02)


def block_of(i):
    return [parameter(np.ones(width)), parameter(np.zeros(width)), normal(3 * width, width, 10 * i + 1),
            normal(width, width, 10 * i + 2), parameter(np.ones(width)), parameter(np.zeros(width)),
            normal(4 * width, width, 10 * i + 3), normal(width, 4 * width, 10 * i + 4)]


def layer_norm(x, scale, shift):
    return torch.nn.functional.layer_norm(x, (width,), scale, shift, 1e-5)


hidden = torch.ones(length, length).triu(1).bool()


def block(x, p):
    y = layer_norm(x, p[0], p[1]) @ p[2].T
    q, k, v = (part.view(count, length, heads, -1).transpose(1, 2) for part in y.split(width, 2))
    scores = (q @ k.transpose(2, 3) / math.sqrt(width // heads)).masked_fill(hidden, -math.inf)
    x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(count, length, width) @ p[3].T
    return x + torch.nn.functional.gelu(layer_norm(x, p[4], p[5]) @ p[6].T) @ p[7].T


first = [normal(text.vocabulary, width, 101), normal(length, width, 102), parameter(np.ones(width)),
         parameter(np.zeros(width))]
blocks = [block_of(i) for i in range(layers)]
learned = first + [p for all_of in blocks for p in all_of]
optimiser = torch.optim.AdamW(learned, betas=(0.9, 0.99), weight_decay=0.01)
seconds = []
for turn in range(turns):
    x, y = (torch.tensor(np.asarray(ids), dtype=torch.long)
            for ids in reference.batch(text, count, length, seed=1, turn=turn))
    begin = time.monotonic()
    h = first[0][x] + first[1]
    for p in blocks:
        h = block(h, p)
    logits = layer_norm(h, first[2], first[3]) @ first[0].T
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(learned, 1.0)
    for group in optimiser.param_groups:
        group["lr"] = reference.cosine(turn, 100, turns, size["rate"], size["rate"] / 10)
    optimiser.step()
    seconds.append(time.monotonic() - begin)
    if turn % size["every"] == size["every"] - 1:
        print(turn, f"{loss.item():.6g}", flush=True)
print(json.dumps({"seconds": statistics.median(seconds[1:] or seconds), "version": torch.__version__}))
