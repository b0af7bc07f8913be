#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loaded values with files that are replaced or modified afterwards. Prints a line for each case.
"""
import sys

import numpy as np

import mpimatmul as mm
from mpimatmul import nn


def say(line):
    if mm.rank() == 0:
        sys.stdout.write(line + "\n")


def show(name, value, expected):
    found = value.numpy()
    say(f"{name} ok" if found is None or np.array_equal(found, expected) else f"{name}: {found}, not {expected}")


def store(path, array):
    """Root modifies the file in place."""
    if mm.rank() == 0:
        np.save(path, array)


ONES = np.ones((1, 2))

store("w.npy", ONES)
w = mm.load("w.npy")
mm.save("w.npy", w + 1)
show("npy", w, ONES)

store("w.npy", ONES)
w = mm.load("w.npy")
w.numpy()
mm.save("w.npy", w + 1)
show("after a use", w, ONES)
mm.save("w.npy", w + 1)
show("saved twice", mm.load("w.npy"), 2 * ONES)

for path in "w.npz:a", "w.safetensors:a", "w.csv", "w.bin", "w.mtx":
    mm.save(path, mm.array(ONES.astype("f4")))
    w = mm.load(path)
    mm.save(path, w + 1)
    show(path.split(":", maxsplit=1)[0][2:], w, ONES)

SET = np.ones((5, 3), "f4")
mm.save("kept:w", mm.array(SET))
w, again = mm.load("kept:w"), mm.load("kept:w")
mm.save("kept:w", w + 1)
show("kept", w + again, 2 * SET)
w = mm.load("kept:w")
show("kept by name", w, 2 * SET)
mm.keep("w", np.full((3, 2), 7, "f4"))
show("kept part", w, 2 * SET)

LARGE = np.ones((600, 600), "f4")
store("large.npy", LARGE)
w = mm.load("large.npy")
mm.save("large.npy", w + 1)
show("large", w, LARGE)
w = mm.load("large.npy")
store("large.npy", 5 * LARGE)
try:
    w.numpy()
except mm.Error as error:
    say(f"{error.status} {error}; {error.hint}")

store("small.npy", LARGE[:6])
w = mm.load("small.npy")
store("small.npy", 5 * LARGE[:6])
show("small, in place", w, LARGE[:6])

mm.save_file({"a": mm.array(ONES), "b": mm.array(3 * ONES)}, "s.safetensors")
state = mm.load_file("s.safetensors")
mm.save_file({"a": state["a"] + 5, "b": state["b"] + 5}, "s.safetensors")
show("state", state["a"] + state["b"], 4 * ONES)

teacher, student = nn.Linear(3, 2), nn.Linear(3, 2)
mm.save_file(teacher.state_dict(), "best.safetensors")
weights = teacher.weight.numpy()
teacher.load_state_dict(mm.load_file("best.safetensors"))
mm.save_file(student.state_dict(), "best.safetensors")
show("another model's state", teacher.weight, weights)
