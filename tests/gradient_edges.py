#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Values and gradients of functions at points of unbounded slope: 0 and -0, the smallest subnormal
number, huge and infinite numbers. The expected values are closed forms, or torch's where it is
installed and agrees by definition.

    tests/gradient_edges.py write FOLDER TYPE       a program, gradient_edges.py, and the files that it loads
    tests/gradient_edges.py compare FOLDER TYPE     compares its saved values; prints the number of cases
    tests/gradient_edges.py torch                   the closed forms of finite rows against torch in float64
"""
import sys
from pathlib import Path

import numpy as np

INF, NAN = float("inf"), float("nan")
ROOT = 0.5 ** 0.5


def softplus_at(x):
    x = np.array(x, "f8")
    return np.logaddexp(0, x), np.exp(-np.logaddexp(0, -x))


# (expression, x, its value or None, the gradient of its sum or None): one of each per element of x.
TINY = {"float32": 2.0 ** -149, "float64": 2.0 ** -1074}
HUGE = {"float32": 1e30, "float64": 1e200}
CASES = [
    ("x ** 0", (-2, 0, 3), (1, 1, 1), (0, 0, 0)),
    ("x ** 0", (-0.0, INF, -INF), (1, 1, 1), (0, 0, 0)),
    ("x ** y", (0, 2, -0.0), (1, 4, 0), (0, 4, 0)),  # y is (0, 2, 3)
    ("y ** x", (0, 2, 3), (1, 4, 27), (0, 4 * np.log(2), 27 * np.log(3))),
    ("0 ** x", (2, 1, 0), (0, 0, 1), (0, 0, 0)),
    ("std(x)", (2, 2, 2), 0, (0, 0, 0)),
    ("std(x[:, :1])", (2, 3, 4), 0, (0, 0, 0)),
    ("norm(x)", (0, -0.0, 0), 0, (0, 0, 0)),
    ("norm(x)", ("huge", 1, 1), "huge", (1, "1/huge", "1/huge")),
    ("norm(x)", ("tiny", 0, 0), "tiny", (1, 0, 0)),
    ("norm(x)", (INF, 1, 0), INF, None),
    ("std(x)", ("huge", "huge", "-huge"), None, (ROOT / 3, ROOT / 3, -2 * ROOT / 3)),
    ("where(x > 0, sqrt(x), 0 * x)", (0, 1, 4), (0, 1, 2), (0, 0.5, 0.25)),
    ("where(x > 0, sqrt(x), 0 * x)", (-0.0, -1, -INF), None, (0, 0, None)),
    ("where(x > 0, log(x), 0)", (0, 1, -4), (0, 0, 0), (0, 1, 0)),
    ("where(x > 0, rsqrt(x), 0)", (0, 1, -4), (0, 1, 0), (0, -0.5, 0)),
    ("where(x > 0, 1 / x, 0)", (0, 1, -0.0), (0, 1, 0), (0, -1, 0)),
    ("where(x > 0, x / (x * x), 0)", (0, 1, -0.0), (0, 1, 0), (0, -1, 0)),
    ("where(x < 9, exp(x), 0)", (0, 1e4, INF), (1, 0, 0), (1, 0, 0)),
    ("1 / (1 + exp(-x))", (0, -1e4, 1e4), (0.5, 0, 1), (0.25, 0, 0)),
    ("where(x > 0, x ** -1.5, 0)", (0, 1, -1), (0, 1, 0), (0, -1.5, 0)),
    ("where(x > 0, x ** 0.5, 0)", (0, 1, -1), (0, 1, 0), (0, 0.5, 0)),
    ("where(x < 9, sin(x), 0)", (0, INF, 1e30), (0, 0, 0), (1, 0, 0)),
    ("where(x < 9, cos(x), 0)", (0, INF, 1e30), (1, 0, 0), (0, 0, 0)),
    ("where(x > 0, 3 % x, 0)", (0, 2, -0.0), (0, 1, 0), (0, -1, 0)),
    ("where(x > 0, log1p(x - 1), 0)", (0, 1, -3), (0, 0, 0), (0, 1, 0)),
    ("where(x > 0, normalize(x) / x, 0)", (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ("maximum(sqrt(x * x), 0.0000000001)", (0, -0.0, 3), (1e-10, 1e-10, 3), (0, 0, 1)),
    ("minimum(sqrt(abs(x)), 1)", (4, INF, 9), (1, 1, 1), (0, 0, 0)),
    ("max(sqrt(abs(x)))", (0, 4, 1), 2, (0, 0.25, 0)),
    ("sqrt(x)", (0, 4, 1), (0, 2, 1), (INF, 0.25, 0.5)),  # a nonzero gradient keeps the IEEE value
    ("log(x)", (0, 4, 1), (-INF, None, 0), (INF, 0.25, 1)),
    ("1 / x", (0, 4, -0.0), (INF, 0.25, -INF), (-INF, -1 / 16, -INF)),
    ("silu(x)", (-INF, 0, INF), (0, 0, INF), (0, 0.5, 1)),
    ("gelu(x)", (-INF, 0, INF), (0, 0, INF), (0, 0.5, 1)),
    ('gelu(x, approximate="tanh")', (-INF, 0, INF), (0, 0, INF), (0, 0.5, 1)),
    ("softplus(x)", (1000, 0, -1000), softplus_at((1000, 0, -1000))[0], (1, 0.5, 0)),
    ("softplus(x)", (INF, -0.0, -INF), (INF, np.log(2), 0), (1, 0.5, 0)),
    ("softplus(x)", (-20, 20, "tiny"), (*softplus_at((-20, 20))[0], np.log(2)), (*softplus_at((-20, 20))[1], 0.5)),
    ("logsumexp(x)", (1000, 1000, 0), 1000 + np.log(2), (0.5, 0.5, 0)),
    ("logsumexp(x)", (-1000, -1000, -INF), -1000 + np.log(2), (0.5, 0.5, 0)),
    ("logsumexp(x)", (INF, 0, 1), INF, (1, 0, 0)),
    ("logsumexp(x)", (-INF, -INF, -INF), -INF, (1 / 3, 1 / 3, 1 / 3)),
    ("log1p(x)", (0, -0.0, "tiny"), (0, 0, "tiny"), (1, 1, 1)),
    ("log1p(x)", (1e-9, -1, 1e30), (1e-9 - 5e-19, -INF, np.log(1e30)), (1 - 1e-9, INF, 1e-30)),
    # overflow does not count as a slope of 0
    ("log(1 + exp(x))", (1, 1e4, 0), None, (softplus_at(1)[1], INF, 0.5)),
    ("binary_cross_entropy(x, y * 0 + 1)", (100, 0, -100), (100 + np.log(2)) / 3, (0, -1 / 6, -1 / 3)),
]


def numbers(row, of):
    def number(x):
        return {"huge": HUGE[of], "-huge": -HUGE[of], "1/huge": 1 / HUGE[of], "tiny": TINY[of], None: NAN}.get(x, x)
    return np.array([[number(x) for x in row]], of)


def write(folder, of):
    lines = ['y = load("y.npy")']
    np.save(folder / "y.npy", numbers((0, 2, 3), of))
    for i, (text, x, _, slopes) in enumerate(CASES):
        np.save(folder / f"x{i}.npy", numbers(x, of))
        lines += [f'x = load("x{i}.npy")', f"z = {text}", f'save("z{i}.npy", z)']
        if slopes is not None:
            lines += [f'save("g{i}.npy", grad(sum(z), x))']
    (folder / "gradient_edges.py").write_text("\n".join(lines) + "\n")


def is_close(found, row, of, text, what):
    row = row if isinstance(row, (tuple, list, np.ndarray)) else (row,)
    expected = numbers(row, of).astype("f8")
    found = np.asarray(found, "f8").reshape(expected.shape)
    some = np.array([[x is not None for x in row]])
    tolerance = 1e-5 if of == "float32" else 1e-13
    with np.errstate(invalid="ignore"):
        near = (found == expected) | (np.abs(found - expected) <= tolerance * np.abs(expected)) | ~some
    if not near.all():
        raise SystemExit(f"{of}: {what} {text}: {found[0]}, expected {expected[0]}")


def compare(folder, of):
    for i, (text, _, values, slopes) in enumerate(CASES):
        if values is not None:
            is_close(np.load(folder / f"z{i}.npy"), values, of, text, "value of")
        if slopes is not None:
            is_close(np.load(folder / f"g{i}.npy"), slopes, of, text, "gradient of")
    print(len(CASES), "cases")


def with_torch():
    import torch  # pylint: disable=import-outside-toplevel
    f = torch.nn.functional
    y = torch.tensor([[0., 2., 3.]], dtype=torch.float64)
    same = {"x ** 0": lambda x: x ** 0, "x ** y": lambda x: x ** y, "y ** x": lambda x: y ** x,
            "norm(x)": torch.norm, "std(x)": lambda x: torch.std(x, unbiased=False), "sqrt(x)": torch.sqrt,
            "log(x)": torch.log, "1 / x": lambda x: 1 / x, "softplus(x)": lambda x: torch.logaddexp(x, x * 0),
            "logsumexp(x)": lambda x: torch.logsumexp(x, 1), "log1p(x)": torch.log1p,
            "binary_cross_entropy(x, y * 0 + 1)": lambda x: f.binary_cross_entropy_with_logits(x, y * 0 + 1)}
    count = 0
    for text, x, values, slopes in CASES:
        row = numbers(x, "float64")
        if text not in same or not np.isfinite(row).all() or "huge" in x or "tiny" in x:
            continue
        leaf = torch.tensor(row, requires_grad=True)
        z = same[text](leaf)
        z.sum().backward()
        if values is not None:
            is_close(z.detach().numpy(), values, "float64", text, "torch's value of")
        is_close(leaf.grad.numpy(), slopes, "float64", text, "torch's gradient of")
        count += 1
    print(count, "cases as torch")


if __name__ == "__main__":
    if sys.argv[1] == "torch":
        with_torch()
    else:
        {"write": write, "compare": compare}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
