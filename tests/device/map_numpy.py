#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What operations give in numpy's double, against what the reference device gave: map_numpy.py FILE.

The file has, for every case of map_test.c, a line of JSON and then the operands and the result in its dtype. Prints a
line for each operation and type: "NAME-DTYPE ok", or what is wrong with the first case that is. Written from the
documentation of numpy and of torch's functions, not from the code of the reference. What is of float64 is computed in
numpy's longdouble, which has 11 bits more here.
"""
import json
import math
import sys

import numpy as np


def over_all(function):
    return np.vectorize(function, otypes=[float])


def softmax(x, count):
    """Of the first count[i] elements of row i."""
    out = np.zeros_like(x)
    for row, into, n in zip(x, out, count):
        if n > 0:
            powers = np.exp(row[:n] - np.max(row[:n]))
            into[:n] = powers / np.sum(powers)
    return out


def counted(case, rows, cols):
    """Elements of every row that count; the diagonal ends in the lower right corner."""
    if not case["causal"]:
        return np.full(rows, cols)
    return np.clip(case["row"] + np.arange(rows) + 1 + cols - case["all_rows"], 0, cols)


def rms_norm(case, x, w=1.0):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + case["epsilon"]) * w


def layer_norm(case, x, w=1.0, b=0.0):
    mean, variance = np.mean(x, axis=-1, keepdims=True), np.var(x, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + case["epsilon"]) * w + b


def order(row):
    """Columns by falling element, NaN first, the lower column first."""
    return sorted(range(len(row)), key=lambda j: (not math.isnan(row[j]), 0 if math.isnan(row[j]) else -row[j], j))


def topk(case, x):
    columns = np.array([order(row)[:case["count"]] for row in x])
    return np.concatenate((np.take_along_axis(x, columns, -1), columns), axis=-1)


def rope(case, x):
    rows, cols = x.shape
    angles = np.outer(case["row"] + np.arange(rows), case["base"] ** (-np.arange(0, cols, 2) / cols))
    turns = np.exp(1j * angles)
    if case["interleaved"]:
        turned = (x[:, 0::2] + 1j * x[:, 1::2]) * turns
        return np.stack((turned.real, turned.imag), axis=-1).reshape(rows, cols)
    turned = (x[:, :cols // 2] + 1j * x[:, cols // 2:]) * turns
    return np.concatenate((turned.real, turned.imag), axis=-1)


def attention(case, q, k, v, mask=0.0):
    scores = q @ k.T * case["scale"] + mask
    count = counted(case, len(q), len(k))
    powers = softmax(scores, count)
    return np.array([row[:n] @ v[:n] if n > 0 else np.zeros(v.shape[1]) for row, n in zip(powers, count)])


ELEMENTS = {
    "neg": np.negative, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": over_all(lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "where": lambda x, y, z: np.where(x != 0, y, z),
}
ROWS = {
    "softmax": lambda case, x: softmax(x, counted(case, *x.shape)), "rms_norm": rms_norm, "layer_norm": layer_norm,
    "normalize": lambda case, x:  # squares that overflow double do so in numpy, too
        x / np.maximum(np.linalg.norm(x.astype(float), axis=-1, keepdims=True), 1e-12),
    "topk": topk, "argmax": lambda case, x: np.argmax(x, axis=-1, keepdims=True), "rope": rope,
    "take": lambda case, table, ids: table[ids[0].astype(int)], "attention": attention,
    **{name: lambda case, x, reduce=getattr(np, name): reduce(x, axis=case["axis"], keepdims=True)
       for name in ("sum", "mean", "max", "min")},
    **{name: lambda case, x: x for name in ("slice", "reshape", "permute", "concat")},
}
# Zeros of either sign: numpy itself gives one or the other.
SIGNLESS = {"relu", "maximum", "minimum", "where", "power"}
# Double has its own errors where a sum or a 1 + tanh is small beside its terms; sizes of terms here are 4 to 100.
CANCELS = {"gelu_tanh", "layer_norm", "rope", "attention", "sum", "mean"}


EPSILON = 2.0**-52  # of double


def largest(x):
    return np.max(np.abs(x[np.isfinite(x)]), initial=0)


def near_double(case, wide, expected):
    """How far from it plain loops in double may be: a rounding for every step of a formula and every term of a sum."""
    name, n = case["op"], wide[0].shape[-1]
    if name in ELEMENTS:
        return EPSILON * (16 * np.abs(expected) + (4 * np.abs(wide[0]) if name == "gelu_tanh" else 0)) + 2.0**-1070
    if name in ("sum", "mean"):
        return EPSILON * wide[0].size * ROWS[name](case, np.abs(wide[0]))
    if name == "layer_norm":
        factor = 1 / np.sqrt(np.min(np.var(wide[0], axis=-1)) + case["epsilon"])
        return EPSILON * (n + 8) * largest(wide[0]) * factor * max(1, largest(wide[-1]))
    if name == "rope":  # angles have the error of their size
        return EPSILON * 4 * (case["row"] + case["rows"] + 8) * largest(wide[0])
    if name == "attention":
        score = n * case["scale"] * largest(wide[0]) * largest(wide[1])
        return EPSILON * 4 * (len(wide[1]) + score + 8) * largest(wide[2])
    if name in ("softmax", "rms_norm", "normalize"):  # of softmax the difference from the largest, up to 160, too
        return EPSILON * (n + 200) * np.abs(expected)
    return 0


def wrong(case, operands, result):
    """What is wrong, or None: the reference rounds what double gives once."""
    name, dtype = case["op"], np.dtype(case["dtype"])
    is_double = dtype == np.float64
    wide = [x.astype(np.longdouble if is_double else float) for x in operands]
    expected = ELEMENTS[name](*wide) if name in ELEMENTS else ROWS[name](case, *wide)
    expected = np.broadcast_to(np.asarray(expected, dtype=wide[0].dtype), result.shape)
    rounded = expected.astype(dtype)
    off = np.abs(result.astype(wide[0].dtype) - expected)
    if is_double:
        near = np.where(np.isfinite(expected), near_double(case, wide, expected), 0)
    else:
        near = 2.0**-23 * np.abs(expected) + 2.0**-149 + (1e-13 if name in CANCELS else 0)
    bad = ~((off <= near) | (result == rounded) | (np.isnan(result) & np.isnan(expected)))
    if name in CANCELS and not is_double and np.any(np.abs(wide[0]) > 1e20):
        bad &= ~(off <= 1e-12 * np.max(np.abs(wide[0][np.isfinite(wide[0])]), initial=0) * wide[0].size)
    if name in ELEMENTS and name not in SIGNLESS:
        bad |= (result == 0) & (expected == 0) & (np.signbit(result) != np.signbit(expected))
    if not bad.any():
        return None
    i, j = np.argwhere(bad)[0]
    at = [x[min(i, len(x) - 1), min(j, x.shape[1] - 1)] for x in operands]
    return (f"{case['rows']} x {case['cols']} ({i}, {j}): {result[i, j]!r}, numpy has {expected[i, j]!r}, "
            f"operands there {at}")


def read(file):
    """Every case: its line, its operands as large as they count, its result."""
    while line := file.readline():
        case, operands = json.loads(line), []
        dtype = np.dtype(case["dtype"]).newbyteorder("<")

        def matrix(rows, cols):
            return np.frombuffer(file.read(dtype.itemsize * rows * cols), dtype=dtype).reshape(rows, cols)

        for rows, cols, all_rows, all_cols in case["operands"]:
            operands.append(np.broadcast_to(matrix(rows, cols), (all_rows, all_cols)))
        yield case, operands, matrix(case["rows"], case["cols"])


def main():
    found = {}
    with open(sys.argv[1], "rb") as file, np.errstate(all="ignore"):
        for case, operands, result in read(file):
            name = f"{case['op']}-{case['dtype']}"
            if found.get(name) is None:
                found[name] = wrong(case, operands, result)
    for name, text in found.items():
        print(name, text or "ok")


main()
