#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A program of `mpimatmul run` as a numpy user would have it run: in float32, with OpenBLAS.

    numpy_program.py FILE [NAME=VALUE...]

Names are those of tests/reference.py. Its simple code (erf one by one, a sort of whole rows, double) is replaced by
fast code of numpy. Prints one line of JSON: seconds from the first line of the program to the last, and
the largest memory of the process. The number of threads is OPENBLAS_NUM_THREADS.
"""
import importlib.util
import json
import math
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
path = Path(__file__).resolve().parents[2] / "tests" / "reference.py"
spec = importlib.util.spec_from_file_location("reference", path)
names = importlib.util.module_from_spec(spec)
spec.loader.exec_module(names)
names.PRECISION = np.float32


def erf(x):
    """Abramowitz and Stegun 7.1.26, with an error of 1.5e-7 at most."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    sum_of_powers = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.copysign(1 - sum_of_powers.astype(np.float32) * np.exp(-x * x), x)


def gelu(x, approximate="none"):
    assert approximate == "none"
    x = np.asarray(x)
    return names.matrix(0.5 * x * (1 + erf(x * np.float32(1 / math.sqrt(2)))))


def softmax(x, causal=False):
    x = np.array(x)
    if causal:
        rows, cols = x.shape[-2:]
        x[..., np.arange(cols)[None, :] > np.arange(rows)[:, None] + cols - rows] = -np.inf
    x -= x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return names.matrix(x)


def attention(q, k, v, causal=False, mask=None, scale=None):
    q, k, v = (np.asarray(x) for x in (q, k, v))
    if k.shape[-3] < q.shape[-3]:
        k, v = (np.repeat(x, q.shape[-3] // k.shape[-3], -3) for x in (k, v))
    scores = (q * np.float32(scale or 1 / math.sqrt(q.shape[-1]))) @ k.swapaxes(-1, -2)
    if mask is not None:
        scores += np.asarray(mask)
    return names.matrix(np.asarray(softmax(scores, causal)) @ v)


def topk(x, k):
    x = np.asarray(x)
    places = np.argpartition(x, -k, -1)[..., -k:]
    found = np.take_along_axis(x, places, -1)
    order = np.argsort(-found, -1, kind="stable")
    return names.matrix(np.take_along_axis(found, order, -1)), names.matrix(np.take_along_axis(places, order, -1))


def rope(x, base=10000.0, interleaved=False):
    assert not interleaved
    x = np.asarray(x)
    rows, cols = x.shape[-2:]
    angle = np.arange(rows)[:, None] * base ** (-2.0 * np.arange(cols // 2) / cols)
    cos, sin = np.cos(angle).astype("f4"), np.sin(angle).astype("f4")
    left, right = x[..., :cols // 2], x[..., cols // 2:]
    return names.matrix(np.concatenate((left * cos - right * sin, left * sin + right * cos), -1))


OURS = {"gelu": gelu, "softmax": softmax, "attention": attention, "topk": topk, "rope": rope}


def main():
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    begin = time.monotonic()
    names.run(text, sys.argv[1], sys.argv[2:], OURS)
    seconds = time.monotonic() - begin
    print(json.dumps({"seconds": seconds, "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}))


main()
