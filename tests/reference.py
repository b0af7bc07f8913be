#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs of `mpimatmul run` under CPython: the same names, over numpy, in double unless PRECISION says otherwise.

    tests/reference.py FILE [NAME=VALUE...]        (REFERENCE_STORES=float64: what is saved)

Formulas are numpy's and torch's own, written down once more; nothing here knows the program under test.
"""
import ast
import builtins
import json
import math
import os
import sys

import numpy as np


class Matrix(np.ndarray):
    """An array of double whose .T swaps the last two axes, and whose comparisons give 0 and 1; one of one element is
    shown as its number."""

    @property
    def T(self):
        return self.swapaxes(-1, -2)

    def __str__(self):
        if self.size != 1:
            return super().__str__()
        number = self.reshape(-1).tolist()[0]
        return f"{number:.0f}" if getattr(self, "is_whole", False) else f"{number:.6g}"

    def __format__(self, _):
        return str(self)


PRECISION = np.float64  # of what is computed
STORED = os.environ.get("REFERENCE_STORES", "float32")  # of what is saved


def matrix(array):
    array = np.asarray(array, dtype=PRECISION)
    return (array[None, :] if array.ndim == 1 else array).view(Matrix)


for _name, _compare in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
                        "eq": np.equal, "ne": np.not_equal}.items():
    setattr(Matrix, f"__{_name}__", lambda x, y, compare=_compare: matrix(compare(np.asarray(x), np.asarray(y))))


def elementwise(of_array):
    def apply(x):
        return matrix(of_array(np.asarray(x))) if isinstance(x, np.ndarray) else of_array(x)
    return apply


def _erf(x):
    return np.vectorize(math.erf, otypes=[float])(x) if isinstance(x, np.ndarray) else math.erf(x)


neg, exp, log, sqrt = np.negative, np.exp, np.log, np.sqrt
rsqrt = elementwise(lambda x: 1 / np.sqrt(x))
relu = elementwise(lambda x: np.maximum(x, 0) if isinstance(x, np.ndarray) else builtins.max(x, 0))
sigmoid = elementwise(lambda x: 1 / (1 + np.exp(-x)))
tanh, maximum, minimum = np.tanh, np.maximum, np.minimum
silu = elementwise(lambda x: x / (1 + np.exp(-x)))


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def where(condition, x, y):
    return matrix(np.where(np.asarray(condition) != 0, x, y))


def _causal(rows, cols):
    return np.arange(cols)[None, :] > np.arange(rows)[:, None] + cols - rows


def _flag(given):
    if not isinstance(given, int) or given not in (0, 1):
        raise ValueError("expected True, False, 1 or 0")
    return bool(given)


def softmax(x, causal=False):
    x = np.asarray(x)
    hidden = _causal(*x.shape[-2:]) if _flag(causal) else np.zeros(x.shape[-2:], bool)
    x = np.where(hidden, -np.inf, x)
    e = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e300))
    total = e.sum(-1, keepdims=True)
    return matrix(np.where(hidden, 0, e / np.where(hidden.all(-1, keepdims=True), 1, total)))


def rms_norm(x, w, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (1 if w is None else w)


def layer_norm(x, w, b, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
    return scaled * (1 if w is None else w) + (0 if b is None else b)


def normalize(x):
    return x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-12)


def topk(x, k):
    x = np.asarray(x)
    order = np.lexsort((-x, ~np.isnan(x)), axis=-1)[..., :k]  # NaN before all, as torch has it
    return matrix(np.take_along_axis(np.asarray(x), order, -1)), _whole(matrix(order))


def _whole(x):
    x.is_whole = True
    return x


def argmax(x):
    return _whole(matrix(np.asarray(x).argmax(-1)[..., None]))


def rope(x, base=10000.0, interleaved=False):
    rows, cols = x.shape[-2:]
    angle = np.arange(rows)[:, None] * base ** (-2.0 * np.arange(cols // 2) / cols)
    left, right = np.s_[..., :cols // 2], np.s_[..., cols // 2:]
    if _flag(interleaved):
        left, right = np.s_[..., 0::2], np.s_[..., 1::2]
    turned = np.empty(x.shape)
    turned[left] = x[left] * np.cos(angle) - x[right] * np.sin(angle)
    turned[right] = x[left] * np.sin(angle) + x[right] * np.cos(angle)
    return matrix(turned)


def _reduction(of_array):
    def reduction(x, axis=None):
        if getattr(x, "is_row", False) and axis is not None and axis >= 0:
            raise ValueError("a file of one axis is a row here: axis=-1 is along its elements")
        return matrix(of_array(np.asarray(x), axis=axis, keepdims=True))
    return reduction


sum, mean, max, min = (_reduction(f) for f in (np.sum, np.mean, np.max, np.min))


def reshape(x, shape):
    return matrix(np.reshape(np.asarray(x), shape))


def permute(x, axes):
    return matrix(np.transpose(np.asarray(x), axes))


def concat(matrices, axis=0):
    if axis >= 0 and any(getattr(m, "is_row", False) for m in matrices):
        raise ValueError("a file of one axis is a row here: axis=-1 joins elements, axis=-2 rows")
    return matrix(np.concatenate([np.asarray(m) for m in matrices], axis))


def take(table, ids):
    ids = np.asarray(ids).astype(int)
    return matrix(np.asarray(table)[ids[0] if ids.ndim == 2 and ids.shape[0] == 1 else ids])


def attention(q, k, v, causal=False, mask=None, scale=None):
    q, k, v = np.asarray(q), np.asarray(k), np.asarray(v)
    if q.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k, v = (np.repeat(y, q.shape[-3] // y.shape[-3], axis=-3) for y in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return softmax(scores if mask is None else scores + mask, causal) @ matrix(v)


def linear(x, w, b=None):
    return x @ w.T + (0 if b is None else b)


def place(x, placement):
    return x


def generate(shape, kind="uniform", seed=1):
    """SplitMix64 at position e: Steele, Lea, Flood, 2014; normal by Box and Muller."""
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        position = np.arange(1, count + count % 2 + 1, dtype=np.uint64)
        z = np.uint64(seed) + position * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    if kind == "uniform":
        made = ((z >> np.uint64(40)).astype(np.int64) - (1 << 23)) * 2.0 ** -23
    elif kind == "integer":
        made = ((z >> np.uint64(32)) * np.uint64(9) >> np.uint64(32)).astype(np.int64) - 4
    elif kind == "normal":
        radius = np.sqrt(-2 * np.log(((z[0::2] >> np.uint64(11)) + np.uint64(1)) * 2.0 ** -53))
        angle = 2 * math.pi * ((z[1::2] >> np.uint64(11)) * 2.0 ** -53)
        made = np.stack((radius * np.cos(angle), radius * np.sin(angle)), -1).reshape(-1).astype(np.float32)
    else:
        made = np.broadcast_to(np.eye(*shape[-2:]), shape)
    return matrix(np.reshape(made.reshape(-1)[:count], shape))


def _tensor(path, name):
    """One of a .safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        begin, end = header[name]["data_offsets"]
        file.seek(start + begin)
        raw = file.read(end - begin)
    kind = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
    array = np.frombuffer(raw, kind[header[name]["dtype"]]).reshape(header[name]["shape"])
    return (array.astype("<u4") << 16).view("<f4") if header[name]["dtype"] == "BF16" else array


def _path(file):
    """What the ranks keep is in a file of that name."""
    return f"{file[5:]}.kept.npy" if str(file).startswith("kept:") else file


def load(file):
    file = _path(file)
    path, colon, name = str(file).partition(".safetensors:")
    array = _tensor(path + ".safetensors", name) if colon else np.load(file)
    loaded = matrix(array)
    loaded.is_row = array.ndim == 1
    return loaded


def save(file, x):
    np.save(_path(file), np.asarray(x, dtype=STORED))


def print(*things, _called=()):
    """One line, a matrix by what the text calls it, with statistics; then corners. Where it is nobody knows here."""
    shown, corners = [], []
    for thing, called in zip(things, _called):
        if isinstance(thing, np.ndarray) and thing.size != 1:
            sizes = " x ".join(map(str, thing.shape))
            corners.append(np.asarray(thing).reshape(-1, *thing.shape[-2:])[0])
            thing = f"{called}: {sizes}; min {thing.min():.6g}, max {thing.max():.6g}, mean {thing.mean():.6g}"
        shown.append(str(thing))
    builtins.print(" ".join(shown))
    for first in corners:
        for row in first[:4]:
            cells = "".join(f" {x:12.6g}" for x in row[:6])
            builtins.print(cells + (" ..." if len(row) > 6 else ""))
        if len(first) > 4:
            builtins.print("          ...")


def _quote(text):
    """As errors and prints call an expression: of a long one the beginning and the end."""
    text = " ".join(text.split())
    return text if len(text) <= 42 else f"{text[:20]}..{text[-20:]}"


class _Names(ast.NodeTransformer):
    """Tells print what the text calls its arguments."""

    def __init__(self, text):
        self.text = text

    def visit_Call(self, call):
        self.generic_visit(call)
        if getattr(call.func, "id", None) == "print":
            called = [ast.Constant(_quote(ast.get_source_segment(self.text, a))) for a in call.args]
            call.keywords.append(ast.keyword("_called", ast.Tuple(called, ast.Load())))
        return call


def assert_close(x, y, tolerance):
    largest = float(np.max(np.abs(np.asarray(x) - np.asarray(y))))
    assert largest <= tolerance, f"the largest difference is {largest}"


NAMES = {name: thing for name, thing in globals().items() if not name.startswith("_")}


def run(text, name="program", settings=(), names=None):
    """Runs a text; settings "NAME=VALUE" replace the first literal of NAME. Returns its names. numpy's warnings
    about infinities and NaN are no failures."""
    tree = ast.parse(text, name)
    for setting in settings:
        key, _, value = setting.partition("=")
        for line in tree.body:
            if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", None) == key:
                is_text = isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
                line.value = ast.copy_location(ast.Constant(value if is_text else ast.literal_eval(value)), line.value)
                break
    tree = ast.fix_missing_locations(_Names(text).visit(tree))
    names = {**NAMES, **(names or {})}
    with np.errstate(all="ignore"):
        exec(compile(tree, name, "exec"), names)
    return names


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as program:
        run(program.read(), sys.argv[1], sys.argv[2:])
