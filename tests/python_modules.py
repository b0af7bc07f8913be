#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Modules, losses, optimisers and schedules with torch's names, and values with numpy's interface,
compared with numpy in double and torch's formulas, alone and under mpirun. Each part prints a line
when it is right, or the refusal."""
import copy
import math
import pickle
import sys
import textwrap

import numpy as np

import mpimatmul as mm
from mpimatmul.optim.lr_scheduler import (CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, StepLR)

mm.init(weights=",".join("132"[:mm.size()]))
rng = np.random.default_rng(4)
nn = mm.nn


def say(*words):
    if mm.rank() == 0:
        print(*words)


def same(name, found, expected, most=1e-12):
    """On root: the value has these sizes and these elements."""
    found, expected = found.numpy(), np.asarray(expected)
    if found is not None:
        assert found.shape == expected.shape, (name, found.shape, expected.shape)
        assert np.abs(found - expected).max() <= most, (name, found, expected)


def refused(*works):
    for work in works:
        try:
            say("not refused:", work())
        except (mm.Error, TypeError, AttributeError) as error:
            hint = getattr(error, "hint", "")
            line = f"{type(error).__name__}: {error}" + f" ({hint})" * bool(hint)
            say(textwrap.fill(line, 116, subsequent_indent="  ", break_long_words=False))


# ------------------------------------------------------------------------------------------ values


def values():
    """Interface that values share with numpy's arrays."""
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
    x, y = mm.array(a), mm.array(b)
    assert (x == None, x != None, None == x) == (False, True, False)  # pylint: disable=singleton-comparison
    assert (x == 1).shape == (4, 3) and x not in (None,)
    p, q = a > 0, b > 0
    for function in (lambda m, n: m & n, lambda m, n: m | n, lambda m, n: m ^ n, lambda m, n: n & ~m,
                     np.logical_or):
        found = function(x > 0, y > 0)
        assert found.is_bool
        same("bools", found, function(p, q), 0)
        same("bools of an array", function(p, y > 0), function(p, q), 0)
    assert not ((x > 0) * 1.0).is_bool and not (1.0 * (x > 0)).is_bool and ((x > 0) * (y > 0)).is_bool
    # floats, so that they are added
    scores = mm.attention(x, y, y, mask=(mm.array(np.eye(4)) > 0) * 1.0)
    w = np.exp(a @ b.T / math.sqrt(3) + np.eye(4))
    same("a mask of floats", scores, w / w.sum(-1, keepdims=True) @ b)
    same("np.exp", np.exp(x), np.exp(a))
    for function in (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.less):
        same("an operator", function(a, y), function(a, b))
        same("an operator", function(x, np.float64(2)), function(a, 2))
    grown = a.copy()
    grown += y
    same("in place", grown, a + b)
    ids = np.array([[0, 3], [-1, 1]])
    same("rows by an array", x[ids], a[ids], 0)
    same("rows by a list", x[[2, 0]], a[[2, 0]], 0)
    same("rows by a value", x[mm.argmax(y.T)], a[b.argmax(0)], 0)
    row = mm.array(a[0])
    assert row[[2, 0]].is_row and not row[ids % 3].is_row
    same("elements", row[[2, 0]], a[0][None, [2, 0]], 0)
    same("elements in two axes", row[ids % 3], a[0][ids % 3], 0)
    assert len(x) == 4 and [part.shape for part in x] == [(1, 3)] * 4
    for part, line in zip(x, a):
        same("a row", part, line[None], 0)
    stack = mm.array(a.reshape(2, 2, 3))
    same("matrices", [*stack][1], a.reshape(2, 2, 3)[1], 0)
    assert x.flatten().is_row and not stack.flatten(1).is_row
    same("flatten", x.flatten(), a.reshape(1, -1), 0)
    same("flatten of the last", stack.flatten(1), a.reshape(2, 6), 0)
    same("flatten of the first", mm.flatten(stack, 0, 1), a, 0)
    assert x.tolist() == (a.tolist() if mm.rank() == 0 else None)
    say("values ok")


def words():
    """Errors of a script and the proposed replacement."""
    x, row = mm.array(np.ones((4, 3))), mm.array(np.ones(3))
    refused(lambda: mm.sofmax, lambda: mm.optim.adam, lambda: nn.LayerNorms, lambda: mm.optim.lr_scheduler.StepLr,
            lambda: pickle.dumps(x), lambda: pickle.dumps(nn.Sequential(nn.Linear(3, 2))),
            lambda: np.arcsin(x), lambda: np.add(x, x, where=[True]), lambda: np.add.reduce(x), lambda: ~x,
            lambda: x & (x > 1), lambda: (x > 1) | 2, lambda: x[x > 1], lambda: x[x], lambda: x[:, [0, 1]],
            lambda: list(row), lambda: x.flatten(1, 0),
            lambda: mm.attention(x, x, x, mask=np.ones((4, 4), int)))
    try:
        np.asarray(x)
        assert mm.rank() == 0
    except mm.Error as error:
        assert str(error) == f"rank {mm.rank()} has no array of a value: only root, rank 0, has its elements, and " \
            "numpy() is None elsewhere", error
    notes = []
    try:
        mm.attention(x, x, x, mask=np.ones((4, 4), int))
    except mm.Error as error:
        notes = getattr(error, "__notes__", ["  hint: compare it: mask != 0"])  # Python 3.11
    assert notes == ["  hint: compare it: mask != 0"], notes


# ----------------------------------------------------------------------------------------- modules


class Layer(nn.Module):
    """Unfitting sizes are refused where the layer is called."""

    def __init__(self, width):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(4, width), nn.Linear(5, 4)

    def forward(self, x):
        """x (n, 4)"""
        return self.linear2(mm.relu(self.linear1(x)))


class Model(nn.Module):
    """Layers in a list."""

    def __init__(self, *widths):
        super().__init__()
        self.encoder = nn.ModuleList([Layer(width) for width in widths])

    def forward(self, x):
        """x (n, 4)"""
        for layer in self.encoder:
            x = layer(x)
        return x


def shown():
    """Models print as in torch 1.13."""
    say(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), mm.relu, nn.LayerNorm((32,)), nn.GELU("tanh"), nn.Dropout(0.1),
                      nn.Embedding(11, 8), nn.Sequential(nn.Linear(3, 2, bias=False), nn.Softmax(-1)),
                      nn.LeakyReLU(0.2, inplace=True), nn.Flatten(), nn.Identity(), nn.CrossEntropyLoss()))
    say(Model(5))
    say(nn.MultiheadAttention(8, 2))
    model = Model(5, 6)
    assert [name for name, _ in model.named_modules()][:4] == ["", "encoder", "encoder.0", "encoder.0.linear1"]
    assert len(list(model.children())) == 1
    other = copy.deepcopy(model)
    assert other.encoder[0].linear1.weight is not model.encoder[0].linear1.weight
    mm.assert_close(other.encoder[0].linear1.weight, model.encoder[0].linear1.weight, 0)
    x = mm.array(np.ones((2, 4)))
    attention = nn.MultiheadAttention(4, 2)
    refused(lambda: model(x), lambda: Model(5)(x[:, :3]), lambda: nn.Linear(3, 2)(x),
            lambda: attention(x, x, x, attn_mask=np.ones((3, 2))), lambda: attention(x, x.reshape(1, 2, 4), x),
            lambda: attention(x, x, x, key_padding_mask=np.ones((2, 2))), lambda: nn.LayerNorm((2, 3)),
            lambda: nn.MSELoss("most"), lambda: nn.MultiheadAttention(4, 2, dropout=1),
            lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True),
            lambda: nn.MultiheadAttention(4, 2, add_zero_attn=True),
            lambda: nn.MultiheadAttention(4, 2, kdim=3)(x, x, x))


def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attended(p, q, k, heads, added, v=None):
    """Returns result and weights, (batch, n, columns) and (batch, heads, n, m), by the parameters.
    v: k if None."""
    matrices = np.split(p["in_proj_weight"], 3) if v is None else [p[name + "_proj_weight"] for name in "qkv"]
    parts = [x @ w.T + b for x, w, b in zip((q, k, k if v is None else v), matrices,
                                            np.split(p["in_proj_bias"][0], 3))]
    q, k, v = (np.stack(np.split(x, heads, -1), 1) for x in parts)
    weights = soft(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + added)
    joined = np.concatenate(list(np.moveaxis(weights @ v, 1, 0)), -1)
    return joined @ p["out_proj.weight"].T + p["out_proj.bias"][0], weights


def attention():
    """Attention takes torch's arguments, with the batch in front, behind and without one."""
    model = nn.MultiheadAttention(6, 2, batch_first=True)
    p = {name: rng.standard_normal(x.shape) for name, x in model.named_parameters()}
    q, k = rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 5, 6))
    hidden = rng.random((6, 4, 5)) > 0.6
    padding = np.arange(5) >= np.array([[5], [4], [3]])
    hidden[..., 0] = False
    added = np.where(hidden.reshape(3, 2, 4, 5) | padding[:, None, None], -np.inf, 0)
    expected, weights = attended(p, q, k, 2, added)
    for is_first in (True, False):
        model = nn.MultiheadAttention(6, 2, batch_first=is_first)
        model.load_state_dict(p)
        turned = (lambda x: x) if is_first else (lambda x: x.transpose(1, 0, 2))  # pylint: disable=cell-var-from-loop
        x, y = mm.array(turned(q)), mm.array(turned(k))
        found, seen = model(x, y, y, key_padding_mask=padding, attn_mask=hidden)
        same("result", found, turned(expected))
        same("weights", seen, weights.mean(1))
        seen = model(x, y, y, padding, True, hidden, average_attn_weights=False)[1]
        same("weights of each head", seen, weights)
        floats = rng.standard_normal((4, 5))
        expected_floats, _ = attended(p, q, k, 2, floats + np.where(padding[:, None, None], -np.inf, 0))
        found, seen = model(x, y, y, key_padding_mask=padding, attn_mask=floats, need_weights=False)
        same("floats beside bools", found, turned(expected_floats))
        assert seen is None
    one, all_weights = attended(p, q[:1], k[:1], 2, np.where(hidden[:2], -np.inf, 0))
    found, seen = model(mm.array(q[0]), mm.array(k[0]), mm.array(k[0]), attn_mask=hidden[:2])
    same("without a batch", found, one[0])
    same("its weights", seen, all_weights[0].mean(0))
    for kdim, vdim in ((5, 4), (6, 4)):
        wide = nn.MultiheadAttention(6, 2, kdim=kdim, vdim=vdim, batch_first=True)
        assert [(name, *x.shape[-2:]) for name, x in wide.named_parameters()] == [
            ("q_proj_weight", 6, 6), ("k_proj_weight", 6, kdim), ("v_proj_weight", 6, vdim), ("in_proj_bias", 1, 18),
            ("out_proj.weight", 6, 6), ("out_proj.bias", 1, 6)]
        own = {name: rng.standard_normal(x.shape) for name, x in wide.named_parameters()}
        wide.load_state_dict(own)
        keys, values = rng.standard_normal((3, 5, kdim)), rng.standard_normal((3, 5, vdim))
        same("kdim and vdim", wide(q, keys, values)[0], attended(own, q, keys, 2, 0, values)[0])
    older = nn.MultiHeadAttention(6, 2)
    older.load_state_dict(p)
    same("the older name", older(q, k, k, attn_mask=hidden),
         attended(p, q, k, 2, np.where(hidden.reshape(3, 2, 4, 5), -np.inf, 0))[0])
    drops = nn.MultiheadAttention(6, 2, 0.5, batch_first=True)
    drops.load_state_dict(p)
    _, seen = drops(q, k, k, average_attn_weights=False)
    _, plain = drops.eval()(q, k, k, average_attn_weights=False)
    some, every = mm.evaluate(seen, plain)
    assert mm.rank() > 0 or ((np.abs(some - 2 * every) < 1e-6) | (some == 0)).all() and 0 < (some == 0).mean() < 1
    say("attention ok")


def losses():
    """Classes are axis 1, as in torch: weights, an ignored class, smoothing."""
    x, ids, w = rng.standard_normal((3, 4, 5)), rng.integers(0, 4, (3, 5)), rng.random(4)
    logp = np.moveaxis(np.log(soft(np.moveaxis(x, 1, -1))), -1, -1)
    chosen = np.eye(4)[ids]
    for weight in (None, w):
        each = np.ones(4) if weight is None else w
        for ignored, smooth in ((None, 0.0), (1, 0.25)):
            counts = np.ones(ids.shape) if ignored is None else ids != ignored
            spread = chosen * (1 - smooth) + smooth / 4
            off = -(spread * logp * each).sum(-1) * counts
            loss = {"none": off, "sum": off.sum().reshape(1, 1),
                    "mean": (off.sum() / ((chosen * each).sum(-1) * counts).sum()).reshape(1, 1)}
            for reduction, expected in loss.items():
                made = nn.CrossEntropyLoss(weight, ignore_index=ignored, reduction=reduction, label_smoothing=smooth)
                same(f"cross entropy, {reduction}", made(mm.array(x), ids), expected)
    likely = soft(rng.standard_normal((3, 4)))
    same("of probabilities", nn.CrossEntropyLoss()(x[:, :, 0], likely),
         (-(likely * np.log(soft(x[:, :, 0]))).sum() / 3).reshape(1, 1))
    y = rng.random((3, 4, 5))
    sure = 1 / (1 + np.exp(-x))
    for kind, off in ((nn.MSELoss, (x - y) ** 2), (nn.L1Loss, np.abs(x - y)),
                      (nn.BCEWithLogitsLoss, -y * np.log(sure) - (1 - y) * np.log(1 - sure))):
        for reduction, expected in (("mean", off.mean().reshape(1, 1)), ("sum", off.sum().reshape(1, 1)),
                                    ("none", off)):
            same(kind.__name__, kind(reduction=reduction)(mm.array(x), mm.array(y)), expected)
    for module, expected in ((nn.ReLU(), np.maximum(x, 0)), (nn.Tanh(), np.tanh(x)), (nn.Sigmoid(), sure),
                             (nn.SiLU(), x * sure), (nn.Softplus(), np.log1p(np.exp(x))),
                             (nn.LeakyReLU(0.2), np.where(x > 0, x, 0.2 * x)), (nn.Softmax(-1), soft(x)),
                             (nn.LogSoftmax(), np.log(soft(x))), (nn.Identity(), x), (nn.Flatten(), x.reshape(3, 20)),
                             (nn.GELU(), x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
                             (nn.GELU("tanh"), 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) *
                                                                      (x + 0.044715 * x ** 3))))):
        same(type(module).__name__, module(mm.array(x)), expected)
    say("losses ok")


# -------------------------------------------------------------------------------------- optimisers


def adam():
    """Adam is torch's, with two groups and a changing rate in one. The decay of Adam is part of the
    gradient."""
    start, slope = rng.standard_normal((2, 3, 2)), rng.standard_normal((6, 2, 3, 2))
    p = [nn.Parameter(x) for x in start]
    made = mm.optim.Adam([{"params": p[0]}, {"params": p[1:], "lr": 0.2, "weight_decay": 0.1}], lr=0.1,
                         betas=(0.8, 0.95))
    assert made.lr == made.param_groups[0]["lr"] == 0.1 and made.param_groups[1]["betas"] == (0.8, 0.95)
    x, m, v = start.copy(), np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
    rates, decays = [0.1, 0.2], [0, 0.1]
    for turn, each in enumerate(slope):
        if turn == 3:
            made.param_groups[1]["lr"] = rates[1] = 0.05
        made.zero_grad()
        for parameter, g in zip(p, each):
            mm.sum(parameter * mm.array(g)).backward()
        made.step()
        for i in range(2):
            g = each[i] + decays[i] * x[i]
            m[i], v[i] = 0.8 * m[i] + 0.2 * g, 0.95 * v[i] + 0.05 * g * g
            x[i] -= rates[i] * m[i] / (1 - 0.8 ** (turn + 1)) / (np.sqrt(v[i] / (1 - 0.95 ** (turn + 1))) + 1e-8)
    same("the first group", p[0], x[0])
    same("the second group", p[1], x[1])
    made.lr = 0.3
    assert [group["lr"] for group in made.param_groups] == [0.3, 0.3]
    w = nn.Parameter(np.ones((2, 2)))
    for nothing in (nn.clip_grad_norm_([], 1), nn.clip_grad_norm_(w, 1)):
        assert nothing.item() == 0
    mm.sum(w * w).backward()
    assert nn.clip_grad_norm_(w, 1).item() == 4 and abs(mm.norm(w.grad).item() - 1) < 1e-6
    for wrong in (lambda: mm.optim.Adam([w], betas=(0.9, 1.0)), lambda: mm.optim.AdamW([w], lr=-1e-3),
                  lambda: mm.optim.SGD([w], 1, nesterov=True), lambda: mm.optim.SGD([w], 1, momentum=-1),
                  lambda: mm.optim.Adam([w], eps=float("nan")), lambda: mm.optim.Adam([w, w]),
                  lambda: mm.optim.Adam([{"params": w, "rate": 1}]), lambda: LinearLR(made, 0)):
        try:
            wrong()
        except ValueError as error:
            say(error.status, error)
    say("adam ok")


def schedules():
    """Schedules follow closed forms, and continue from a rate set by hand or by another schedule.
    """
    def rates(make, count=9):
        optimizer = mm.optim.SGD([{"params": nn.Parameter(np.ones((1, 1)))}], lr=2.0)
        schedule, found = make(optimizer), []
        for _ in range(count):
            found.append(schedule.get_last_lr()[0])
            assert found[-1] == optimizer.param_groups[0]["lr"]
            schedule.step()
        return found
    turns = range(9)
    for make, expected in (
            (lambda o: StepLR(o, 3), lambda i: 2 * 0.1 ** (i // 3)),
            (lambda o: MultiStepLR(o, [2, 5, 5], 0.5), lambda i: 2 * 0.5 ** ((i >= 2) + 2 * (i >= 5))),
            (lambda o: ExponentialLR(o, 0.9), lambda i: 2 * 0.9 ** i),
            (lambda o: LambdaLR(o, lambda i: 1 / (1 + i)), lambda i: 2 / (1 + i)),
            (lambda o: LinearLR(o), lambda i: 2 * (1 / 3 + 2 / 3 * min(i / 5, 1))),
            (lambda o: LinearLR(o, 0.5, 0.25, 4), lambda i: 2 * (0.5 - 0.25 * min(i / 4, 1))),
            (lambda o: CosineAnnealingLR(o, 4, 0.5), lambda i: 0.5 + 0.75 * (1 + math.cos(math.pi * i / 4)))):
        assert np.allclose(rates(make), [expected(i) for i in turns], rtol=1e-12, atol=0), rates(make)
    optimizer = mm.optim.SGD([nn.Parameter(np.ones((1, 1)))], lr=2.0)
    both = LinearLR(optimizer, 0.5, 1.0, 2), ExponentialLR(optimizer, 0.5)
    found = []
    for _ in turns[:4]:
        found.append(optimizer.lr)
        for schedule in both:
            schedule.step()
    assert np.allclose(found, [1, 0.75, 0.5, 0.25]), found
    state = both[1].state_dict()
    optimizer.lr = 7
    both[1].load_state_dict(state)
    assert (optimizer.lr, both[1].last_epoch) == (0.125, 4), (optimizer.lr, state)
    say("schedules ok")


PARTS = (values, words, shown, attention, losses, adam, schedules)
for part in PARTS:
    if part.__name__ in sys.argv[1:]:
        part()
