#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A training step of an MLP 64-128-10 with AdamW on batches of 64 rows, as a user writes it.

    small_step.py replayed|plain|torch STEPS

Prints one line of JSON: the median of seconds per step, from the 20th on, batches made into tensors included; the last
loss; and seconds until the first step is over, without imports.
"""
import json
import statistics
import sys
import time

import numpy as np

way, steps = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((20, 64, 64)).astype("f4"), rng.integers(0, 10, (20, 64))
FIRST, LAST = rng.standard_normal((128, 64)).astype("f4") / 8, rng.standard_normal((10, 128)).astype("f4") / 11
STATE = {"0.weight": FIRST, "0.bias": np.zeros(128, "f4"), "2.weight": LAST, "2.bias": np.zeros(10, "f4")}

if way == "torch":
    import torch
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model.load_state_dict({name: torch.tensor(array) for name, array in STATE.items()})
    optim, cross_entropy, tensor, rank = torch.optim, nn.functional.cross_entropy, torch.tensor, 0
else:
    import mpimatmul as mm
    mm.init(device="cpu")
    model = mm.nn.Sequential(mm.nn.Linear(64, 128), mm.relu, mm.nn.Linear(128, 10))
    model.load_state_dict({name: array.reshape(-1, array.shape[-1]) for name, array in STATE.items()})
    optim, cross_entropy, tensor, rank = mm.optim, mm.cross_entropy, mm.array, mm.rank()
optimizer = optim.AdamW(model.parameters(), lr=1e-3)


def step(x, y):
    loss = cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if way == "replayed":
    step, tensor = mm.compile(step), np.asarray
seconds = []
for i in range(steps):
    begin = time.perf_counter()
    loss = step(tensor(X[i % 20]), tensor(Y[i % 20]))
    seconds.append(time.perf_counter() - begin)
last = loss.item()
if rank == 0:
    print(json.dumps({"seconds": statistics.median(seconds[20:]), "loss": last, "start": seconds[0]}))
