# SPDX-License-Identifier: MIT
"""Operands for the lab, results against numpy, and looks into reports.

  operands.py make                  writes the operands below into the current folder
  operands.py equal EXPRESSION FILE...  each equals EXPRESSION exactly; operands by name, in lower case
  operands.py report EXPRESSION...  each is true; r is report.json, p is plan.json if that is there

Whole numbers throughout, so that the right answer is the same to the last bit on any rank. Zeros may
have either sign.
"""
import json
import os
import sys

import numpy as np
from matrices import integers, read_bin, write_bin

A, B, C = integers(1, 61, 83), integers(2, 83, 47), integers(3, 61, 47)
S, T, U = integers(4, 2, 3, 17, 29), integers(5, 1, 3, 29, 23), integers(6, 2, 3, 17, 23)
V, W = integers(7, 4, 9, 29), integers(8, 29, 11)  # a 3-D stack times one matrix
OPERANDS = {"a": A, "b": B, "c": C, "s": S, "t": T, "u": U, "v": V, "w": W}


def swapped(x):
    return x.swapaxes(-1, -2)


def bfloat16(x):
    """Returns bit patterns: exact for the small numbers here."""
    return (np.ascontiguousarray(x, "<f4").view("<u4") >> 16).astype("<u2")


def make():
    for name, array in OPERANDS.items():
        write_bin(name.upper() + ".bin", array)
        write_bin(name.upper() + "t.bin", swapped(array))
    for name in "ab":
        write_bin(name.upper() + "h.bin", OPERANDS[name], -2)
        write_bin(name.upper() + "b.bin", bfloat16(OPERANDS[name]), -3)


def equal_file(file, expression):
    tag, found = read_bin(file)
    if tag == -3:
        found = (found.astype("<u4") << 16).view("<f4")
    expected = np.asarray(eval(expression, {name: x.astype("f8") for name, x in OPERANDS.items()}))
    expected = expected.reshape((1,) * (4 - expected.ndim) + expected.shape)
    assert found.shape == expected.shape, (file, found.shape, expected.shape)
    wrong = np.argwhere(found.astype("f8") != expected)
    assert len(wrong) == 0, f"{file}: {len(wrong)} of {found.size} elements, the first at {wrong[0]}"


def equal(expression, *files):
    for file in files:
        equal_file(file, expression)


def report(*expressions):
    names = {}
    for name in ("report", "plan"):
        if os.path.exists(name + ".json"):
            with open(name + ".json", encoding="utf-8") as file:
                names[name[0]] = json.load(file)
    for expression in expressions:
        assert eval(expression, names), f"{expression} is not so in {json.dumps(names, indent=1)}"


if __name__ == "__main__":
    {"make": make, "equal": equal, "report": report}[sys.argv[1]](*sys.argv[2:])
