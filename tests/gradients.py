#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gradients of every differentiable function of programs, in float64, compared with central
differences of the reference and with the reference's tape.

    tests/gradients.py write FOLDER       a program, gradients.py, and the files that it loads
    tests/gradients.py compare FOLDER [TOLERANCE]     compares its saved gradients, relative to the largest element of
                                                      each (1e-6), and prints their number
"""
import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import reference  # noqa: E402  pylint: disable=wrong-import-position

STEP, TOLERANCE = 1e-5, 1e-6

# The kinds of x, y, z, then an expression of them. positive: above 0, unit: between -1 and 1, ids:
# whole numbers below that. Functions of one value come from the table (elementwise).
SQUARE = {"x": (6, 5), "y": (6, 5)}
CASES = [(f"{name}(x)", {"x": (6, 5)}) for name in ("gelu", "normalize")]
CASES += [(text, SQUARE) for text in (
    "x + y", "x - y", "x * y", "x / y", "maximum(x, y)", "minimum(x, y)", "where(x > y, x, y)",
    "x @ y.T", "concat((x, y), axis=0)", "concat((x, y), axis=-1)", "linear(x, y)", "x.T @ y", "mse(x, y)",
    "binary_cross_entropy(x, sigmoid(y))", "x * x + stop_gradient(y) * y",
    "dropout(x * y, 0.5, 3, 8) * x")]
CASES += [(text, {"x": (6, 5)}) for text in (
    "gelu(x, approximate=\"tanh\")", "2 - x", "3 / x", "x * 2.5", "x ** 2", "x ** 3", "-x", "x[1:4, 2:5]",
    "softmax(x)", "softmax(x, causal=True)", "sum(x)", "sum(x, axis=-1)", "sum(x, axis=-2)", "mean(x)",
    "mean(x, axis=-2)", "max(x)", "max(x, axis=-1)", "min(x, axis=-2)", "var(x)", "var(x, axis=-1)",
    "std(x, axis=-2)", "std(x)", "cumsum(x, -1)", "cumsum(x, -2)", "sort(x)", "sort(x, descending=True) * x",
    "sort(x, axis=-2)", "reshape(x, (2, 15))", "x.T",
    "rms_norm(x, None)", "layer_norm(x, None, None)", "maximum(x, 0.25)", "x * x * x", "exp(x) * sin(x) + x",
    "clip(x, -0.5, 0.75)", "clip(x, None, 0.1)", "norm(x)", "norm(x, axis=-1)", "norm(x, -2, keepdims=False)",
    "softmax(x, axis=0)", "x[2]", "x[:, -1]", "x[1, 3] * x", "mean(x, axis=1, keepdims=False)", "x")]
CASES += [(text, {"x": (6, 5), "y": (1, 5), "z": (1, 5)}) for text in (
    "x + y * z", "x * y - z", "layer_norm(x, y, z)", "rms_norm(x, y) + z", "linear(x, concat((y, z), axis=0))")]
# Slices of one value: adjacent, with a gap, overlapping, along several axes, and the whole value.
CASES += [(text, {"x": (6, 5)}) for text in (
    "x[:2] * x[2:4] * x[4:]", "x[4:] * x[:2]", "x[:4] * x[2:]", "x[:3, :2] * x[3:, 3:]", "x[:2, :2] * sum(x[:, 3:])",
    "x[:3] * x[3:] * sum(x)", "x[:3] * x[:3] * x[3:]", "concat((x[1:3] * 2, x[3:] ** 2))")]
CASES += [(text, {"x": (6, 5)}) for text in (
    "x[::2] * x[1::2]", "x[::-1] * x", "x[5:0:-2, ::-2] * x[:3, ::2]", "x[1::3, 3] * x[0, 0]",
    "x[::-4, 1:] * x[::5, :4]")]
CASES += [("x[::-1, ::2, 3:0:-2, ::3] * x[:, :2, :2, 2:4]", {"x": (2, 3, 4, 6)})]
CASES += [(text, {"x": (6, 5)}) for text in (
    "prod(x)", "prod(x, axis=-1)", "prod(x, axis=0) * x",
    "prod(relu(x) * x, axis=1)",
    "flip(x, 0) * x", "stack((x, x * x), axis=1)", "split(x, 3)[1] * split(x, (2, 4))[0]", "tile(x, (2, 3))",
    "repeat(x, 2, axis=0) * repeat(x * x, 2, 0)", "outer(x, x)", "triu(x, 1) * x", "tril(x)", "diag(x, -1)",
    "diag(x[1], 2)", "einsum(\"ij,kj->ki\", x, x)", "einsum(\"ij,ij->j\", x, x * x)",
    "sign(x) * ceil(x) * round(x) * x")]
CASES += [("einsum(\"bij,jk->kb\", x, y)", {"x": (2, 3, 4), "y": (4, 5)}),
          ("einsum(\"abij,akj->bik\", x, y)", {"x": (2, 3, 4, 5), "y": (2, 6, 5)}),
          ("prod(x, axis=1) * tile(y, (2, 2))", {"x": (2, 3, 4, 6), "y": (2, 1, 2, 3)})]
CASES += [(text, {"x": (6, 5), "y": (6, 1)}) for text in ("x + y", "x * y", "x / y", "maximum(x, y)")]
CASES += [(text, {"x": (2, 3, 4, 6)}) for text in (
    "permute(x, (2, 0, 3, 1))", "sum(x, axis=-3)", "sum(x, axis=-4)", "mean(x, axis=0)", "mean(x, axis=1)", "sum(x)",
    "rope(x)", "rope(x, interleaved=True)", "cumsum(x, 0)", "cumsum(x, 1)", "softmax(x, causal=True)", "x[1:2, :, 1:3]",
    "sort(x, 1)", "sort(x, axis=0, descending=True)",
    "dropout(x, 0.25, 1, 0)", "var(x, axis=-3)", "max(x, axis=-3)", "concat((x, x * x), axis=-3)", "x @ x.T",
    "layer_norm(x, None, None)", "softmax(x, axis=1)", "softmax(x, axis=0)", "norm(x, axis=1)", "x[1]",
    "x[:, 2, 1:, 0]", "sum(x, axis=1, keepdims=False)", "amax(x, axis=(1, 2))", "amin(x, (0, -1), False)",
    "mean(x, axis=(3, 1))", "logsumexp(x, axis=(0, 2, 3))")]
CASES += [(text, {"x": (2, 3, 4, 5), "y": (5, 6)}) for text in ("x @ y", "(x * 2) @ y", "relu(x @ y) * 3")]
CASES += [("x @ y", {"x": (4, 5), "y": (2, 3, 5, 6)}), ("x @ y", {"x": (2, 1, 4, 5), "y": (1, 3, 5, 6)}),
          ("x @ y", {"x": (4, 1), "y": (1, 5)}), ("x @ y", {"x": (1, 4), "y": (2, 4, 1)}),
          ("x + y", {"x": (2, 3, 4, 5), "y": (3, 1, 5)}), ("x ** y", {"x": (6, 5, "positive"), "y": (6, 5)}),
          ("x % y", {"x": (6, 5), "y": (6, 5, "positive")}),
          ("2.0 ** x", {"x": (6, 5)})]
CASES += [("attention(x, y, z)", {"x": (2, 4, 5, 6), "y": (2, 4, 7, 6), "z": (2, 4, 7, 3)}),
          ("attention(x, y, z, causal=True)", {"x": (2, 4, 5, 6), "y": (2, 2, 5, 6), "z": (2, 2, 5, 3)}),
          ("attention(x, y, y, scale=0.3, mask=z)", {"x": (3, 5, 6), "y": (3, 7, 6), "z": (5, 7)}),
          ("attention(x, y, z, causal=True)", {"x": (1, 7, 6), "y": (1, 3, 6), "z": (1, 3, 2)}),
          ("attention(x, y, y.T.T, mask=z)", {"x": (2, 4, 5, 6), "y": (2, 2, 7, 6), "z": (2, 1, 1, 7)}),
          # Sizes beyond one tile of the CPU's transposition, which has 192 rows by 192 (float32:
          # 384) columns.
          ("attention(x, y, z)", {"x": (197, 3), "y": (389, 3), "z": (389, 2)}),
          ("attention(x, y, z, causal=True)", {"x": (2, 389, 1), "y": (1, 197, 1), "z": (1, 197, 3)}),
          ("attention(x, y, y, causal=True, mask=z)", {"x": (197, 2), "y": (203, 2), "z": (1, 203)})]
CASES += [("take(x, i)", {"x": (7, 5), "i": (1, 9, "ids", 7)}), ("take(x, i)", {"x": (7, 5), "i": (3, 4, "ids", 7)}),
          ("cross_entropy(x, i)", {"x": (6, 5), "i": (1, 6, "ids", 5)}),
          ("cross_entropy(x * y, i)", {"x": (2, 3, 5), "y": (1, 5), "i": (2, 3, "ids", 5)}),
          ("one_hot(i, 5) * x", {"x": (6, 5), "i": (1, 6, "ids", 5)}),
          ("add_at(x, i, y)", {"x": (7, 5), "y": (9, 5), "i": (1, 9, "ids", 7)}),
          ("add_at(x, i, y * y)", {"x": (7, 5), "y": (3, 4, 5), "i": (3, 4, "ids", 7)}),
          ("attention(x, y, y, mask=y[:, :, 0:1].T > -0.5)", {"x": (3, 5, 6), "y": (3, 7, 6)})]
CASES += [(text, {"x": (6, 5)}) for text in (
    "softplus(x * 900)", "logsumexp(x)", "logsumexp(x, axis=-1)", "logsumexp(x * 900, axis=0)",
    "norm(x * 1e25) * 1e-25", "std(x * 1e-25, axis=0) * 1e25", "x ** 0")]


def made(rng, shape):
    *sizes, kind = shape if isinstance(shape[-1], str) else (*shape, "")
    if len(shape) > 3 and shape[-2] == "ids":
        return rng.integers(0, shape[-1], shape[:-2]).astype("f8")
    numbers = rng.standard_normal(sizes)
    return {"positive": np.abs(numbers) + 0.5, "unit": np.tanh(numbers), "": numbers}[kind]


def elementwise():
    """Yields a case for each function of one value in the table, in the first domain without NaN. Functions with
    whole results are steps, which have no gradient."""
    table = Path(__file__).resolve().parents[1] / "src/model/operations.def"
    for name in re.findall(r"^(?:FUNCTION\(\w+, |COMPOSITE\()(\w+), ", table.read_text("utf8"), re.M):
        for kind in ("", "positive", "unit"):
            with np.errstate(all="ignore"):
                y = np.asarray(value(f"{name}(x)", {"x": made(np.random.default_rng(0), (6, 5, kind))}))
            if np.isfinite(y).all():
                break
        if (y != np.rint(y)).any():
            yield f"{name}(x)", {"x": (6, 5, kind)}


def names_of(shapes):
    """Returns the matrices to differentiate by: all but indices."""
    return [name for name in shapes if name != "i"]


def cases():
    """Yields (number, expression, matrices, weights of the result, names to differentiate by)."""
    reference.KIND = reference.Taped
    for number, (text, shapes) in enumerate(CASES):
        rng = np.random.default_rng(number)
        given = {name: made(rng, shape) for name, shape in shapes.items()}
        result = value(text, given)
        weights = rng.standard_normal(result.shape)
        yield number, text, given, weights, names_of(shapes)


def value(text, given):
    names = {**reference.NAMES, **{name: reference.matrix(array) for name, array in given.items()}}
    return eval(text, names)  # pylint: disable=eval-used


CASES += elementwise()


def differences(text, given, weights, name):
    """Returns central differences, for about thirty of many elements, and NaN for the others."""
    slope = np.full(given[name].shape, np.nan)
    for at in list(np.ndindex(slope.shape))[::1 if slope.size <= 200 else slope.size // 30]:
        ends = []
        for sign in (1, -1):
            moved = {**given, name: given[name].copy()}
            moved[name][at] += sign * STEP
            ends.append(float((np.asarray(value(text, moved)) * weights).sum()))
        slope[at] = (ends[0] - ends[1]) / (2 * STEP)
    return slope


def judges(text, given, weights, name):
    """Returns the gradient of the reference's tape."""
    leaves = {n: reference.matrix(a) for n, a in given.items()}
    y = reference.sum(value(text, leaves) * weights)
    found = {"the tape": np.asarray(reference.grad(y, leaves[name]))}
    if "stop_gradient" not in text:
        found["differences"] = differences(text, given, weights, name)
    return found


def write(folder):
    """Writes the program, its matrices, and the expected results, which serve all runs of it."""
    lines = []
    for number, text, given, weights, names in cases():
        for name, array in {**given, "w": weights}.items():
            np.save(folder / f"{number}{name}.npy", array)
            lines.append(f'{name} = load("{number}{name}.npy")')
        lines.append(f"s = sum(({text}) * w)")
        lines.append(f"g = grad(s, ({', '.join(names)},))")
        lines += [f'save("{number}d{name}.npy", g[{i}])' for i, name in enumerate(names)]
        for name in names:
            np.savez(folder / f"{number}d{name}.npz", **judges(text, given, weights, name))
    (folder / "gradients.py").write_text("\n".join(lines) + "\n")


def compare(folder, tolerance=TOLERANCE):
    count = 0
    for number, (text, shapes) in enumerate(CASES):
        for name in names_of(shapes):
            found = np.load(folder / f"{number}d{name}.npy")
            others = np.load(folder / f"{number}d{name}.npz")
            most = max(np.abs(others["the tape"]).max(), 1e-3)
            for what, other in others.items():
                known = ~np.isnan(other)
                off = np.abs(found - other)[known].max() / most if found.shape == other.shape else np.inf
                if not off <= float(tolerance):
                    sys.exit(f"{text} by {name}: off {what} by {off:.2g} of the largest\n{found}\n{other}")
            count += 1
    print(f"{count} gradients")


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
