#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares results of the reference device with numpy's double: map_numpy.py FILE.

For every case of map_test.c the file has a line of JSON, then the operands and the result in its dtype. Prints a line
for each operation and type: "NAME-DTYPE ok", or the first wrong case. Written from the documentation of numpy and of
torch's functions, independently of the reference device's code. Cases of float64 are computed in numpy's longdouble,
which has 11 bits more here.
"""
import json
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import reference  # noqa: E402  pylint: disable=wrong-import-position


def over_all(function):
    return np.vectorize(function, otypes=[float])


def softmax(x, count):
    """Softmax of the first count[i] elements of row i; 0 elsewhere."""
    out = np.zeros_like(x)
    for row, into, n in zip(x, out, count):
        if n > 0:
            powers = np.exp(row[:n] - np.max(row[:n]))
            into[:n] = powers / np.sum(powers)
    return out


def counted(case, rows, cols):
    """Returns the number of unmasked elements of every row; the diagonal ends in the lower right corner."""
    if not case["causal"]:
        return np.full(rows, cols)
    return np.clip(case["row"] + np.arange(rows) + 1 + cols - case["all_rows"], 0, cols)


def rms_norm(case, x, w=1.0):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + case["epsilon"]) * w


def layer_norm(case, x, w=1.0, b=0.0):
    mean, variance = np.mean(x, axis=-1, keepdims=True), np.var(x, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + case["epsilon"]) * w + b


def order(row):
    """Returns the columns by falling element: NaN first, of equal elements the lower column first."""
    none = np.isnan(row)
    return np.lexsort((np.where(none, 0, -row), ~none))  # stable


def topk(case, x):
    columns = np.array([order(row)[:case["count"]] for row in x])
    return np.concatenate((np.take_along_axis(x, columns, -1), columns), axis=-1)


def rope(case, x):
    rows, cols = x.shape
    angles = np.outer(case["row"] + np.arange(rows), case["base"] ** (-np.arange(0, cols, 2) / cols))
    angles = -angles if case["scale"] < 0 else angles
    turns = np.exp(1j * angles)
    if case["interleaved"]:
        turned = (x[:, 0::2] + 1j * x[:, 1::2]) * turns
        return np.stack((turned.real, turned.imag), axis=-1).reshape(rows, cols)
    turned = (x[:, :cols // 2] + 1j * x[:, cols // 2:]) * turns
    return np.concatenate((turned.real, turned.imag), axis=-1)


def attention(case, q, k, v, mask=0.0):
    scores = q @ k.T * case["scale"] + mask
    count = counted(case, len(q), len(k))
    count = [n if np.any(row[:n] != -np.inf) else 0 for row, n in zip(scores, count)]  # a masked row is 0
    powers = softmax(scores, count)
    return np.array([row[:n] @ v[:n] if n > 0 else np.zeros(v.shape[1]) for row, n in zip(powers, count)])


def attention_sums(case, q, k, y, dy, mask=0.0):
    scores = q @ k.T * case["scale"] + mask
    sums = np.zeros((len(q), 2), dtype=q.dtype)
    for row, into, n in zip(scores, sums, counted(case, len(q), len(k))):
        most = np.max(row[:n], initial=-np.inf)
        into[0] = np.inf if most == -np.inf else most + np.log(np.sum(np.exp(row[:n] - most)))
    sums[:, 1] = np.sum(y * dy, axis=-1)
    return sums


def slopes(case, q, k, v, dy, sums, mask=0.0):
    """Returns powers of scores and their gradient, 0 for masked elements. Cached in the case."""
    if "slopes" in case:
        return case["slopes"]
    by_key = case["op"].endswith(("_k", "_v"))
    above, left = (0, case["row"]) if by_key else (case["row"], 0)
    rows, keys = (len(q), case["all_rows"]) if by_key else (case["all_rows"], len(k))
    i, p = np.mgrid[above:above + len(q), left:left + len(k)]
    counts = (p < i + 1 + keys - rows) | (not case["causal"])
    power = np.where(counts, np.exp(q @ k.T * case["scale"] + mask - sums[:, :1]), 0)
    case["slopes"] = power, power * (dy @ v.T - sums[:, 1:])
    return case["slopes"]


def attention_backward(case, q, k, v, dy, sums, mask=0.0):
    power, slope = slopes(case, q, k, v, dy, sums, mask)
    found = {"q": lambda: slope @ k * case["scale"], "k": lambda: slope.T @ q * case["scale"],
             "v": lambda: power.T @ dy, "mask": lambda: slope}
    return found[case["op"].rsplit("_", 1)[1]]()


def in_order(case, x):
    """numpy's stable argsort; falling order sorts -x, which keeps NaN last."""
    return np.argsort(-x if case["descending"] else x, axis=-1, kind="stable")


def cross_entropy(_, x, ids):
    most = np.max(x, axis=-1, keepdims=True)
    at = np.take_along_axis(x, ids.astype(int), -1)
    return np.log(np.sum(np.exp(x - most), axis=-1, keepdims=True)) + (most - at)


def cross_entropy_backward(_, x, ids, dy):
    return (softmax(x, np.full(len(x), x.shape[1])) - (np.arange(x.shape[1]) == ids)) * dy


def norm_backward(case, x, dy, w=1.0, centers=False):
    """Gradient of x f(x) with f(x) = (mean(x^2) + epsilon)^(-1/2), so f' = -x f^3 / n. If `centers`, x - mean(x)
    takes the place of x; the derivative of that subtracts the mean of the gradient."""
    def mean(y):
        return np.mean(y, axis=-1, keepdims=True)

    g = dy * w
    off = x - mean(x) if centers else x
    f = (mean(off * off) + case["epsilon"]) ** -0.5
    found = f * g - off * f**3 * mean(off * g)
    return found - mean(found) if centers else found


def layer_norm_backward(case, x, dy, w=1.0):
    return norm_backward(case, x, dy, w, centers=True)


def sum_at(case, rows, ids):
    found = np.zeros((case["all_rows"], rows.shape[1]), dtype=rows.dtype)
    np.add.at(found, ids[:, 0].astype(int), rows)
    return found[case["row"]:case["row"] + case["rows"]]


def within(x):
    """Clips x to a range beyond which every slope is 0 or 1."""
    return np.clip(x, -1000, 1000)


def logistic_slope(x, u, du):
    """Derivative of x / (1 + exp(-u)); du is the derivative of u."""
    return 1 / (1 + np.exp(-u)) + x * du / (2 + np.exp(u) + np.exp(-u))


def silu_slope(x):
    return logistic_slope(within(x), within(x), 1)


def gelu_slope(x):
    density = np.exp(-within(x)**2 / 2) / np.sqrt(np.asarray(2, x.dtype) * np.pi)
    return over_all(lambda x: math.erfc(-x / math.sqrt(2)) / 2)(within(x)) + within(x) * density


def gelu_tanh_slope(x):
    root = 2 * math.sqrt(2 / math.pi)
    y = within(x)
    return logistic_slope(y, root * (y + 0.044715 * y**3), root * (1 + 0.134145 * y**2))


def bounded(x):
    """Replaces -infinity by the least double, so that x times a factor that goes to 0 gives 0, the limit."""
    return np.maximum(x, -np.finfo(float).max)


# Others of one value are the functions of tests/reference.py, which are numpy's or made of them.
ELEMENTS = {
    "abs": np.abs, "relu": lambda x: np.maximum(x, 0), "silu": lambda x: bounded(x) / (1 + np.exp(-x)),
    "gelu": over_all(lambda x: 0.5 * bounded(x) * math.erfc(-x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * bounded(x) * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    **{name: lambda x, dy, slope=slope: slope(x).astype(float) * dy  # what is 0 as a double is nothing times infinity
       for name, slope in (("silu_backward", silu_slope), ("gelu_backward", gelu_slope),
                           ("gelu_tanh_backward", gelu_tanh_slope))},
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "multiply_backward": lambda dy, x: np.where(dy == 0, 0, dy * x),
    "divide_backward": lambda dy, x: np.where(dy == 0, 0, dy / x),
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "where": lambda x, y, z: np.where(x != 0, y, z),
}
ROWS = {
    "softmax": lambda case, x: softmax(x, counted(case, *x.shape)), "rms_norm": rms_norm, "layer_norm": layer_norm,
    "normalize": lambda case, x:  # squares that overflow double do so in numpy, too
        x / np.maximum(np.linalg.norm(x.astype(float), axis=-1, keepdims=True), 1e-12),
    "topk": topk, "argmax": lambda case, x: np.argmax(x, axis=-1, keepdims=True), "rope": rope,
    "argmin": lambda case, x: np.argmin(x, axis=-1, keepdims=True), "cumsum": lambda case, x: np.cumsum(x, axis=-1),
    "sort": lambda case, x: np.take_along_axis(x, in_order(case, x), -1), "argsort": lambda case, x: in_order(case, x),
    "sort_backward": lambda case, dy, places: np.take_along_axis(dy, places.astype(int), -1),
    "one_hot": lambda case, x: np.arange(case["cols"]) == x,
    "cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward,
    "softmax_backward": lambda case, y, dy: y * (dy - np.sum(y * dy, axis=-1, keepdims=True)),
    "rms_norm_backward": norm_backward, "layer_norm_backward": layer_norm_backward, "sum_at": sum_at,
    "take": lambda case, table, ids: table[ids[0].astype(int)], "attention": attention,
    "attention_sums": attention_sums,
    **{f"attention_backward_{of}": attention_backward for of in ("q", "k", "v", "mask")},
    **{name: lambda case, x, reduce=getattr(np, name): reduce(x, axis=case["axis"], keepdims=True)
       for name in ("sum", "mean", "max", "min")},
    **{name: lambda case, x: x for name in ("slice", "reshape", "permute", "concat")},
}
# Operations that may return zeros of either sign, as numpy does.
SLOPES = {"silu_backward", "gelu_backward", "gelu_tanh_backward"}
SIGNLESS = {"relu", "maximum", "minimum", "where", "power", *SLOPES}
# Double has rounding errors of its own if a sum or a 1 + tanh is small beside its terms (here of 4 to 100) ...
CANCELS = {"gelu_tanh", "layer_norm", "rope", "attention", "sum", "mean"}
# ... and these have errors that depend on the case, for example on the length of a row.
BOUNDED = SLOPES | {"cumsum", "sum_at", "cross_entropy", "cross_entropy_backward", "softmax_backward",
                    "rms_norm_backward", "layer_norm_backward", "attention_sums",
                    *(f"attention_backward_{of}" for of in ("q", "k", "v", "mask"))}


EPSILON = 2.0**-52  # unit of double


def largest(x):
    return np.max(np.abs(x[np.isfinite(x)]), initial=0)


def near_norm_backward(case, x, dy, w=1.0):
    """Error bound: terms of up to g (1 + n^2) f, and the rounding error of x - mean(x), times f g n f."""
    off = x - np.mean(x, axis=-1, keepdims=True) if case["op"] == "layer_norm_backward" else x
    f = 1 / np.sqrt(np.mean(off * off, axis=-1, keepdims=True) + case["epsilon"])
    most = np.max(np.abs(dy * w), axis=-1, keepdims=True)
    size = 1 + np.abs(off * f)
    return EPSILON * most * f * size * (32 * size + 8 * f * np.max(np.abs(x), axis=-1, keepdims=True))


def near_attention_backward(case, q, k, v, dy, sums, mask=0.0):
    """Error bound: terms of up to the largest power times two sums of products, each rounded like its score."""
    power, _ = slopes(case, q, k, v, dy, sums, mask)
    score = q.shape[1] * case["scale"] * largest(q) * largest(k) + largest(sums)
    slope = v.shape[1] * largest(v) * largest(dy) + largest(sums)
    others = {"q": len(k) * largest(k), "k": len(q) * largest(q), "v": len(q), "mask": 1}
    return EPSILON * 8 * (score + 8 + len(q) + len(k)) * np.max(power) * slope * others[case["op"].rsplit("_", 1)[1]]


def near_double(case, wide, expected):
    """Error bound of plain loops in double: one rounding per step of a formula and per term of a sum."""
    name, n = case["op"], wide[0].shape[-1]
    if name in SLOPES:  # terms of up to 2; 1 - tanh^2 has x^3 times its rounding error until it reaches 1
        x = np.clip(np.abs(wide[0]), 0, 40 if name == "silu_backward" else 9)
        return EPSILON * (4 * np.abs(expected) + (4 + (x**3 if name == "gelu_tanh_backward" else x)) * np.abs(wide[1]))
    if name not in ROWS:
        return EPSILON * (16 * np.abs(expected) + (4 * np.abs(wide[0]) if name == "gelu_tanh" else 0)) + 2.0**-1070
    if name in ("sum", "mean"):
        return EPSILON * wide[0].size * ROWS[name](case, np.abs(wide[0]))
    if name in ("cumsum", "sum_at"):
        return EPSILON * len(wide[0]) * n * ROWS[name](case, np.abs(wide[0]), *wide[1:])
    if name == "cross_entropy":  # a power has the rounding error of a difference of up to 160
        return EPSILON * (200 + 8 * np.abs(expected))
    if name == "cross_entropy_backward":
        return EPSILON * 400 * np.abs(wide[2])
    if name == "softmax_backward":
        y, dy = np.abs(wide[0]), np.abs(wide[1])
        return EPSILON * 4 * y * (dy + n * np.sum(y * dy, axis=-1, keepdims=True))
    if name in ("rms_norm_backward", "layer_norm_backward"):
        return near_norm_backward(case, *wide)
    if name == "layer_norm":
        factor = 1 / np.sqrt(np.min(np.var(wide[0], axis=-1)) + case["epsilon"])
        return EPSILON * (n + 8) * largest(wide[0]) * factor * max(1, largest(wide[-1]))
    if name == "rope":  # the error of an angle grows with the angle
        return EPSILON * 4 * (case["row"] + case["rows"] + 8) * largest(wide[0])
    if name == "attention":
        score = n * case["scale"] * largest(wide[0]) * largest(wide[1])
        return EPSILON * 4 * (len(wide[1]) + score + 8) * largest(wide[2])
    if name == "attention_sums":
        score = n * case["scale"] * largest(wide[0]) * largest(wide[1])
        return EPSILON * 4 * (len(wide[1]) + score + 8 + wide[2].shape[1] * largest(wide[2]) * largest(wide[3]))
    if name.startswith("attention_backward"):
        return near_attention_backward(case, *wide)
    if name in ("softmax", "rms_norm", "normalize"):  # softmax: also the difference to the largest, up to 160
        return EPSILON * (n + 200) * np.abs(expected)
    return 0


def wrong(case, operands, result):
    """Describes the first wrong element; None if all are right: the result of double, rounded once."""
    name, dtype = case["op"], np.dtype(case["dtype"])
    is_double = dtype == np.float64
    wide = [x.astype(np.longdouble if is_double else float) for x in operands]
    by_row = ROWS.get(name)
    expected = by_row(case, *wide) if by_row else (ELEMENTS.get(name) or reference.NAMES[name])(*wide)
    expected = np.broadcast_to(np.asarray(expected, dtype=wide[0].dtype), result.shape)
    rounded = expected.astype(dtype)
    off = np.abs(result.astype(wide[0].dtype) - expected)
    if is_double:
        near = np.where(np.isfinite(expected), near_double(case, wide, expected), 0)
    else:
        near = 2.0**-23 * np.abs(expected) + 2.0**-149 + (1e-13 if name in CANCELS else 0)
        near = near + (near_double(case, wide, expected) if name in BOUNDED else 0)
    bad = ~((off <= near) | (result == rounded) | (np.isnan(result) & np.isnan(expected)))
    if name in CANCELS and not is_double and np.any(np.abs(wide[0]) > 1e20):
        bad &= ~(off <= 1e-12 * np.max(np.abs(wide[0][np.isfinite(wide[0])]), initial=0) * wide[0].size)
    if not by_row and name not in SIGNLESS:
        bad |= (result == 0) & (expected == 0) & (np.signbit(result) != np.signbit(expected))
    if not bad.any():
        return None
    i, j = np.argwhere(bad)[0]
    at = [x[min(i, len(x) - 1), min(j, x.shape[1] - 1)] for x in operands]
    return (f"{case['rows']} x {case['cols']} ({i}, {j}): {result[i, j]!r}, numpy has {expected[i, j]!r}, "
            f"operands there {at}")


def read(file):
    """Yields every case: its JSON line, its operands broadcast to full size, its result."""
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
