#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learning in Python scripts, compared with numpy in double and with the reference of programs,
alone and under mpirun. Each part prints a line when it is right."""
import contextlib
import io
import json
import math
import sys

import numpy as np

import mpimatmul as mm
import reference

mm.init(weights=",".join("132"[:mm.size()]))
rng = np.random.default_rng(3)
nn = mm.nn


def say(*words):
    if mm.rank() == 0:
        print(*words)


def close(name, found, expected, most=1e-12):
    """On root: the elements differ by `most` of the largest at most."""
    found = found.numpy()
    if found is not None:
        assert found.shape == np.shape(expected), (name, found.shape, np.shape(expected))
        off = np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300)
        assert off <= most, (name, off)


def doubles(module):
    """Gives a module random parameters of float64, and returns them in torch's shapes."""
    drawn = {name: rng.standard_normal(p.shape) * 0.5 for name, p in module.named_parameters()}
    module.load_state_dict(drawn)
    return {name: x[0] if x.shape[0] == 1 else x for name, x in drawn.items()}


# ------------------------------------------------------------------------------- layers, as numpy has them


def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scaled(x, centred, eps):
    x = x - x.mean(-1, keepdims=True) if centred else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def heads_of(x, w, b, heads):
    y = x @ w.T + b
    return np.stack(np.split(y, heads, -1), -3)  # columns of a head are adjacent


def multi_head(p, q, k, v, heads, mask=0.0):
    """p: the parameters by torch's names."""
    ws, bs = np.split(p["in_proj_weight"], 3), np.split(p["in_proj_bias"], 3)
    q, k, v = (heads_of(x, w, b, heads) for x, w, b in zip((q, k, v), ws, bs))
    each = soft(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask) @ v
    return np.concatenate(list(np.moveaxis(each, -3, 0)), -1) @ p["out_proj.weight"].T + p["out_proj.bias"]


def future(n):
    return np.where(np.tril(np.ones((n, n))) > 0, 0, -np.inf)


def layers():
    x, y = rng.standard_normal((3, 5, 12)), rng.standard_normal((3, 7, 12))
    a, b = mm.array(x), mm.array(y)
    layer = nn.Linear(12, 9)
    p = doubles(layer)
    close("Linear", layer(a), x @ p["weight"].T + p["bias"])
    layer = nn.Linear(12, 9, bias=False)
    p = doubles(layer)
    close("Linear without bias", layer(a), x @ p["weight"].T)
    layer, ids = nn.Embedding(11, 4), rng.integers(0, 11, (3, 5))
    p = doubles(layer)
    close("Embedding", layer(ids), p["weight"][ids])
    layer = nn.LayerNorm(12, eps=1e-3)
    p = doubles(layer)
    close("LayerNorm", layer(a), scaled(x, True, 1e-3) * p["weight"] + p["bias"])
    close("LayerNorm without parameters", nn.LayerNorm(12, elementwise_affine=False)(a), scaled(x, True, 1e-5))
    layer = nn.RMSNorm(12)
    p = doubles(layer)
    close("RMSNorm", layer(a), scaled(x, False, 1e-6) * p["weight"])
    layer, mask = nn.MultiHeadAttention(12, 3), rng.standard_normal((5, 7))
    p = doubles(layer)
    close("attention", layer(a, b, b), multi_head(p, x, y, y, 3), 1e-11)
    close("attention with a mask", layer(a, b, b * 2, attn_mask=mm.array(mask)), multi_head(p, x, y, 2 * y, 3, mask),
          1e-11)
    # True hides a key from this layer, and shows it to mm.attention
    hidden = np.arange(7) > np.arange(5)[:, None]
    added = np.where(hidden, -np.inf, 0)
    close("attention with a mask of bools", layer(a, b, b, attn_mask=hidden), multi_head(p, x, y, y, 3, added), 1e-11)
    q, columns = x[:, :, :4], mm.array(x[:, :, :4])
    scores = q @ y[:, :, :4].swapaxes(-1, -2) / 2
    close("attention where a query may attend", mm.attention(columns, y[:, :, :4], y, mask=~hidden),
          soft(scores + added) @ y)
    columns.requires_grad = True
    by_sign = columns[:, :, :1] > mm.array(y[:, :, :1]).T  # a comparison has no gradient
    loss = mm.sum(mm.attention(columns, y[:, :, :4], y, mask=by_sign) ** 2)
    loss.backward()
    seen = q[:, :, :1] > y[:, :, :1].swapaxes(-1, -2)
    weights = soft(np.where(seen, scores, -1e30)) * seen
    out = weights @ y
    slope = weights * (2 * out @ y.swapaxes(-1, -2) - 2 * (out * out).sum(-1, keepdims=True))
    close("its gradient", columns.grad, slope @ y[:, :, :4] / 2, 1e-11)
    close("causal attention", layer(a, a, a, is_causal=True), multi_head(p, x, x, x, 3, future(5)), 1e-11)
    some = x[0, :, :7] > np.where(np.arange(7) == 0, np.inf, 0)  # hides no row's first key
    for text, given, more in (("", None, 0), (" and bools", some, np.where(some, -np.inf, 0)),
                              (" and a mask", mask, mask)):  # query i sees keys 0 to i, as in torch
        close("causal attention by fewer queries" + text, layer(a, b, b, given, is_causal=True),
              multi_head(p, x, y, y, 3, added + more), 1e-11)
    stack = nn.Sequential(nn.Linear(12, 6), mm.tanh, nn.ModuleList([nn.Linear(6, 2)])[-1])
    p = doubles(stack)
    close("Sequential", stack(a), np.tanh(x @ p["0.weight"].T + p["0.bias"]) @ p["2.weight"].T + p["2.bias"])
    assert [len(stack), *p] == [3, "0.weight", "0.bias", "2.weight", "2.bias"], p
    say("layers ok")


def beginnings():
    """Initial distributions are torch's, by their bounds and moments, and equal for equal seeds."""
    nn.manual_seed(5)
    made = [nn.Linear(400, 300), nn.Embedding(200, 100), nn.MultiHeadAttention(64, 4), nn.LayerNorm(7)]
    nn.manual_seed(5)
    mm.assert_close(made[0].weight, nn.Linear(400, 300).weight, 0)
    found = mm.evaluate(made[0].weight, made[0].bias, made[1].weight, made[2].in_proj_weight, made[2].in_proj_bias,
                        made[2].out_proj.weight, made[2].out_proj.bias, made[3].weight, made[3].bias)
    if mm.rank() == 0:
        bounds = (0.05, 0.05, None, math.sqrt(6 / 256), 0, 1 / 8, 0)
        for x, bound in zip(found, bounds):
            assert bound is None or 0.98 * bound <= np.abs(x).max() <= bound, (np.abs(x).max(), bound)
        assert abs(found[0].std() - 0.05 / math.sqrt(3)) < 1e-3 and abs(found[0].mean()) < 1e-3
        assert abs(found[2].std() - 1) < 0.02 and abs(found[2].mean()) < 0.02 and np.abs(found[2]).max() > 3
        assert np.corrcoef(found[0][0], found[0][1])[0, 1] < 0.3
        assert (found[-2] == 1).all() and (found[-1] == 0).all()
    say("beginnings ok")


def dropping():
    layer, x = nn.Dropout(0.25), mm.array(np.ones((400, 50)))
    x.requires_grad = True
    first, second = layer(x), layer(x)
    mm.sum(first * mm.array(np.ones((400, 50))), axis=None).backward()
    one, two, slope, plain = mm.evaluate(first, second, x.grad, layer.eval()(x))
    if mm.rank() == 0:
        assert set(np.unique(one)) == {0, 1 / 0.75} and abs((one == 0).mean() - 0.25) < 0.02, one
        assert (one != two).mean() > 0.2 and (slope == one).all() and (plain == 1).all()
    assert not layer.training and layer.train().training
    say("dropout ok")


# ------------------------------------------------------------------------------------------- backward


class Reader(nn.Module):
    """A function of all operations."""

    def __init__(self):
        super().__init__()
        self.table, self.attention = nn.Embedding(11, 8), nn.MultiHeadAttention(8, 2)
        self.first, self.second = nn.LayerNorm(8), nn.RMSNorm(8)
        self.last = nn.Sequential(nn.Linear(8, 6), mm.gelu, nn.Linear(6, 11))

    def forward(self, ids):
        x = self.first(self.table(ids))
        x = x + self.attention(x, x, x, is_causal=True)
        return self.last(self.second(x))


def reader(p, ids):
    """The same in numpy."""
    x = scaled(p["table.weight"][ids], True, 1e-5) * p["first.weight"] + p["first.bias"]
    own = {name[10:]: value for name, value in p.items() if name.startswith("attention.")}
    x = x + multi_head(own, x, x, x, 2, future(ids.shape[-1]))
    x = scaled(x, False, 1e-6) * p["second.weight"] @ p["last.0.weight"].T + p["last.0.bias"]
    x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return x @ p["last.2.weight"].T + p["last.2.bias"]


def reader_loss(p, ids, answers):
    chosen = np.take_along_axis(soft(reader(p, ids)), answers[..., None], -1)
    return -np.log(chosen).mean()


def backward():
    """Gradients equal central differences of the numpy version."""
    model, ids, answers = Reader(), rng.integers(0, 11, (3, 5)), rng.integers(0, 11, (3, 5))
    p = doubles(model)
    loss = mm.cross_entropy(model(ids), answers)
    loss.backward()
    close("loss", loss, np.full((1, 1), reader_loss(p, ids, answers)))
    found = mm.evaluate(*(parameter.grad for parameter in model.parameters()))
    h = 1e-5
    for (name, x), gradient in zip(p.items(), found):
        for i in rng.integers(0, x.size, 4) if mm.rank() == 0 else ():
            sides = []
            for side in (h, -h):
                moved = x.copy()
                moved.reshape(-1)[i] += side
                sides.append(reader_loss({**p, name: moved}, ids, answers))
            slope = (sides[0] - sides[1]) / (2 * h)
            assert abs(gradient.reshape(-1)[i] - slope) < 1e-8 + 1e-7 * abs(slope), (name, slope)
    before = mm.persist(*(parameter.grad for parameter in model.parameters()))
    mm.cross_entropy(model(ids), answers).backward()  # added to the gradient there
    for parameter, gradient in zip(model.parameters(), before):
        mm.assert_close(parameter.grad, 2 * gradient, 1e-15)
    model.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
    say("backward ok")


def leaves():
    """A leaf gets a gradient even if values on the way to it have been computed."""
    x, w = mm.array(rng.standard_normal((4, 3))), mm.array(rng.standard_normal((3, 2)))
    w.requires_grad = True
    with mm.no_grad():
        assert not (x @ w).requires_grad
    assert not any(v.requires_grad for v in (x, w > 0, mm.argmax(w), mm.topk(w, 1)[1], mm.stop_gradient(w), w // 2))
    y = mm.tanh(x @ w)
    loss = mm.mse(y * (w[:1] > 0), mm.stop_gradient(y))
    for _ in range(3):
        loss.item(), y.numpy()  # the ranks hold the value then, and its operands stay known
    loss.backward()
    mm.assert_close(w.grad, mm.grad(loss, w), 0)
    assert w.requires_grad and loss.requires_grad and x.grad is None and y.grad is None
    x.requires_grad = True
    loss = mm.mean(x * x * w[:1, :1], axis=None)
    w.requires_grad = False
    loss.backward()
    assert w.grad is None
    mm.assert_close(x.grad, x * w[:1, :1] / 6, 1e-15)
    loss = mm.sum(mm.tanh(x))
    mm.persist(loss)  # the ranks hold it, and its operands stay known because a gradient is wanted
    found = mm.evaluate(loss, mm.grad(loss, x), mm.tanh(x))
    assert mm.rank() != 0 or np.abs(found[1] - 1 + found[2] ** 2).max() < 1e-14
    say("leaves ok")


# ------------------------------------------------------------------------------------------ optimisers

TEXT = """
x = generate((64, 10), kind="normal", seed=1)
t = tanh(x @ generate((10, 3), kind="normal", seed=2))
initial = (generate((10, 3), kind="normal", seed=3), generate((1, 3), kind="zeros"))
state = {0}_state(initial)
for step in loop(30):
    g = grad(mse(tanh(x @ state[0][0] + state[0][1]), t), state[0])
    state = {1}
"""


def optimiser(make, step, rate=None):
    """30 steps equal those of the text; rate: by turn."""
    known = reference.run(TEXT.format(step[:step.index("(")], step))
    x, t = mm.array(known["x"]), mm.array(known["t"])
    w, b = (nn.Parameter(np.array(v)) for v in known["initial"])
    made = make([w, b])
    for turn in range(30):
        if rate is not None:
            made.lr = rate(turn)
        if turn == 13:  # resumed by another optimiser
            mm.save_file(made.state_dict(), "optimizer.safetensors")
            made = make([w, b])
            made.load_state_dict(mm.load_file("optimizer.safetensors"))
            made.lr = rate(turn) if rate is not None else made.lr
        made.zero_grad()
        mm.mse(mm.tanh(x @ w + b), t).backward()
        made.step()
    close(step, w, known["state"][0][0])
    close(step, b, known["state"][0][1])
    for i, value in enumerate(v for name, v in made.state_dict().items() if name.startswith("0.")):
        close(step, value, known["state"][1 + i][0])


def later():
    """A value of a parameter from before a step uses the parameter's value of then, and its
    gradient reaches the parameter."""
    x, layer = rng.standard_normal((5, 4)), nn.Linear(4, 3)
    p = doubles(layer)
    y, optimizer = layer(mm.array(x)), mm.optim.SGD(layer.parameters(), 1)
    mm.mean(layer(mm.array(x)), axis=None).backward()
    optimizer.step()
    close("before the step", y, x @ p["weight"].T + p["bias"])
    close("after it", layer.bias, p["bias"][None] - 1 / 3)
    optimizer.zero_grad()
    mm.sum(y * y, axis=None).backward()
    close("of what it was", layer.bias.grad, 2 * (x @ p["weight"].T + p["bias"]).sum(0, keepdims=True))
    layer.bias.requires_grad = False
    optimizer.zero_grad()
    mm.mean(layer(mm.array(x)), axis=None).backward()
    assert layer.bias.grad is None and layer.weight.grad is not None
    say("later ok")


def optimisers():
    optimiser(lambda p: mm.optim.AdamW(p, lr=0.01), "adamw(state, g, turn=step, rate=0.01)")
    optimiser(lambda p: mm.optim.AdamW(p, 1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
              "adamw(state, g, turn=step, rate=0.1 / (1 + step), betas=(0.8, 0.95), eps=1e-6, decay=0.1)",
              lambda turn: 0.1 / (1 + turn))
    optimiser(lambda p: mm.optim.SGD(p, lr=0.5), "sgd(state, g, rate=0.5)")
    optimiser(lambda p: mm.optim.SGD(p, 0.1, momentum=0.9), "sgd(state, g, rate=0.1, momentum=0.9)")
    optimiser(lambda p: mm.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.01),
              "sgd(state, g, rate=0.1, momentum=0.9, nesterov=True, decay=0.01)")
    say("optimisers ok")


# Local SGD on nodes with the shares of REFERENCE_APART. The inner optimiser begins anew after two
# of the four rounds.
APART = """
table = generate((40, 3), kind="normal", seed=1)
goals = generate((40, 2), kind="normal", seed=2)
def inner(state, turn):
    x, y = batch(table, goals, 7, seed=3, turn=turn)
    loss = mse(tanh(x @ state[0][0] + state[0][1]), y)
    g = clip_grad_norm(grad(loss, state[0]), 0.5)
    return adamw((state[0], state[1], state[2]), g, turn=turn % 6, rate=0.03) + (loss,)
outer = nesterov_state((generate((3, 2), kind="normal", seed=4), generate((1, 2), kind="zeros")))
for half in range(2):
    state = adamw_state(outer[0]) + (generate((1, 1), kind="zeros"),)
    for step in loop(2):
        new = apart(inner, state, 6 * half + 3 * step, 3)
        outer = nesterov(outer, average(new[0]), rate=0.6, momentum=0.8)
        state = (outer[0], new[1], new[2], new[3])
        print(half, step, average(new[3]))
save("apart.npy", outer[0][0])
"""


class Small(nn.Module):
    """The model of APART with one more parameter that does not learn."""

    def __init__(self, known):
        super().__init__()
        self.w, self.b, self.fixed = (nn.Parameter(np.array(reference.generate(s, kind=kind, seed=seed)))
                                      for s, kind, seed in known)
        self.fixed.requires_grad = False

    def forward(self, x):
        """x (n, 3)"""
        return mm.tanh(x @ self.w + self.b * self.fixed)


def apart():
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        known = reference.run(APART)
    losses = [float(line.split()[-1]) for line in printed.getvalue().splitlines()]
    model = Small((((3, 2), "normal", 4), ((1, 2), "zeros", 0), ((1, 1), "ones", 0)))
    def begin():
        return mm.optim.DiLoCo(mm.optim.AdamW(model.parameters(), lr=0.03), turns=3, lr=0.6, momentum=0.8)
    optimizer, table, goals = begin(), np.array(known["table"]), np.array(known["goals"])
    calls = []

    def closure(x, y):
        calls.append(x.shape[0])
        loss = mm.mse(model(x), y)
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 0.5)
        return loss
    for turn in range(12):
        if turn == 6:  # resumed by another optimiser
            mm.save_file(optimizer.state_dict(), "outer.safetensors")
            optimizer = begin()
            optimizer.load_state_dict(mm.load_file("outer.safetensors"))
        starts = [int(reference._drawn(3, turn * 7 + w)) * 40 >> 64 for w in range(7)]
        loss = optimizer.step(closure, *((table[starts], goals[starts]) if mm.rank() == 0 else (None, None)))
        assert (loss is None) == (turn % 3 < 2) and model.w.grad is None
        if loss is not None:
            close("mean of the losses", loss, np.full((1, 1), losses[turn // 3]), 1e-5)
    close("w", model.w, known["outer"][0][0])
    close("b", model.b, known["outer"][0][1])
    close("velocity", optimizer.state_dict()["0.momentum_buffer"], known["outer"][1][0])
    assert sum(calls) == 12 * 7 and len(calls) % 12 == 0, calls
    mm.save("script.npy", model.w)
    if mm.rank() == 0:
        with open("text.py", "w", encoding="utf-8") as file:
            file.write(APART)
    say("apart ok")


def clipping():
    for most in (0.1, 1e3):
        p = [nn.Parameter(rng.standard_normal(s)) for s in ((4, 3), (3,))]
        mm.sum((p[0] * p[1]) ** 2, axis=None).backward()
        plain = mm.evaluate(*(x.grad for x in p))
        norm = nn.clip_grad_norm_(p, most)
        clipped = mm.evaluate(norm, *(x.grad for x in p))
        if mm.rank() == 0:
            expected = math.sqrt(sum((g ** 2).sum() for g in plain))
            assert abs(clipped[0].item() - expected) < 1e-12 * expected
            for before, after in zip(plain, clipped[1:]):
                factor = min(most / (expected + 1e-6), 1)
                assert np.abs(before * factor - after).max() < 1e-12 * np.abs(before).max()
    say("clipping ok")


def learning():
    """Returns the losses, which are equal on any number of ranks."""
    model = Reader()
    doubles(model)
    ids, answers = rng.integers(0, 11, (5, 6)), rng.integers(0, 11, (5, 6))
    optimizer = mm.optim.AdamW(model.parameters(), lr=0.05)
    for turn in range(12):
        loss = mm.cross_entropy(model(ids), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        number = loss.item()
        say(f"turn {turn} {number:.10g}")


# ---------------------------------------------------------------------------------------------- states


class Tied(nn.Module):
    """A shared parameter is one parameter with two names."""

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(6, 4), nn.Linear(4, 6)
        self.last.weight = self.table.weight

    def forward(self, ids):
        return self.last(self.table(ids))


def written(path, arrays):
    """Writes a .safetensors file by the format's description."""
    header, data = {}, b""
    for name, x in arrays.items():
        header[name] = {"dtype": f"F{8 * x.itemsize}", "shape": x.shape,
                        "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    return {name: np.frombuffer(data[of["data_offsets"][0]:of["data_offsets"][1]],
                                f"<f{of['dtype'][1:]}".replace("64", "8").replace("32", "4")).reshape(of["shape"])
            for name, of in header.items() if name != "__metadata__"}


def states():
    model, ids = Reader(), rng.integers(0, 11, (3, 5))
    p = doubles(model)
    mm.save_file(model.state_dict(), "ours.safetensors")
    if mm.rank() == 0:
        found = read("ours.safetensors")
        assert {name: x.shape for name, x in found.items()} == {name: x.shape for name, x in p.items()}, found
        assert all((found[name] == p[name]).all() for name in p)
    p = {name: rng.standard_normal(x.shape).astype("f4") for name, x in p.items()}
    if mm.rank() == 0:
        written("theirs.safetensors", p)
    model.load_state_dict(mm.load_file("theirs.safetensors"))
    close("theirs", model(ids), reader({name: x.astype("f8") for name, x in p.items()}, ids), 1e-5)
    tied = Tied()
    mm.cross_entropy(tied(ids % 6), ids % 6).backward()
    names = ["table.weight", "last.weight", "last.bias"]
    assert (list(tied.state_dict()), [n for n, _ in tied.named_parameters()]) == (names, names[::2])
    mm.assert_close(tied.last.weight.grad, mm.grad(mm.cross_entropy(tied(ids % 6), ids % 6), tied.table.weight), 0)
    say("states ok")


# --------------------------------------------------------------------------------------------- errors


def small():
    """Returns a model of two parameters, after one step, and the values it learns from."""
    model, x, y = Small((((3, 2), "normal", 4), ((1, 2), "zeros", 0), ((1, 1), "ones", 0))), np.ones((6, 3)), np.ones(6)
    y = np.stack((y, y), 1)

    def closure(x, y):
        loss = mm.mse(model(x), y)
        loss.backward()
        return loss
    optimizer = mm.optim.DiLoCo(mm.optim.SGD(model.parameters(), 1), turns=2)
    optimizer.step(closure, x, y)
    return model, optimizer, closure, x, y


def apart_errors():
    model, optimizer, closure, x, y = small()
    return (lambda: mm.optim.DiLoCo(model, turns=2), lambda: mm.optim.DiLoCo(optimizer.inner, turns=0),
            lambda: optimizer.step(closure), lambda: optimizer.step(closure, mm.array(x), y),
            lambda: optimizer.step(closure, x, y[:4]), lambda: optimizer.step(closure, x[:0], y[:0]),
            optimizer.state_dict, lambda: model.w.numpy(), lambda: mm.save_file(model.state_dict(), "x.safetensors"))


def apart_reads():
    """A closure reads values of every node. A refused closure has not trained."""
    model, optimizer, closure, x, y = small()
    parts = mm.persist(mm.place(mm.array(x) * 2, "rows"))
    whole = mm.persist(mm.place(mm.array(x[:1]) * 2, "replicate"))
    mm.save("x.npy", mm.array(x))
    for wrong in (lambda: parts[:1], lambda: mm.load("x.npy")[:1]):
        try:
            optimizer.step(lambda x, y: closure(x * wrong(), y), x, y)
        except mm.Error as error:
            say(f"{error.status} {error}" + f" ({error.hint})" * bool(error.hint))
    assert (optimizer.turn, optimizer.inner.turn) == (1, 1)
    def of_one(x, y, ids):
        assert mm.take(model.w, ids).shape == (1, 4, 2), "a window of a batch of one"
        return closure(x * whole, y)
    say(f"{optimizer.step(of_one, x[:1], y[:1], np.zeros((1, 4), int)).item():.3g}")


def errors():
    x, layer = mm.array(rng.standard_normal((4, 3))), nn.Linear(3, 2)
    y = layer(x)
    loss = mm.mean(y, axis=None)
    adamw = mm.optim.AdamW(layer.parameters())

    def set_inner():
        y.requires_grad = True

    def set_whole():
        mm.argmax(x).requires_grad = True

    def set_gradient():
        x.grad = x

    def cannot(*_):
        adamw.load_state_dict({**adamw.state_dict(), "1.exp_avg": x})

    plain = mm.mean(x, axis=None)
    state = layer.state_dict()
    for wrong in (lambda: plain.backward(), lambda: y.backward(), set_inner, set_whole, set_gradient, cannot,
                  lambda: layer.load_state_dict({**state, "weight": x}),
                  lambda: layer.load_state_dict({"weight": x}),
                  lambda: layer.load_state_dict({**state, "more": x}),
                  lambda: mm.save_file(state, "x.npz"), lambda: mm.save_file({}, "x.safetensors"),
                  lambda: mm.load_file("none.safetensors"), lambda: nn.Parameter(np.array([1, 2])),
                  lambda: mm.optim.SGD([], 1), lambda: mm.optim.SGD([x], 1),
                  lambda: mm.optim.SGD(layer.parameters(), 1, nesterov=True), lambda: nn.MultiHeadAttention(7, 2),
                  lambda: nn.Dropout(1), *apart_errors(), mm.debug.worker_statistics if mm.rank() == 0 else set_whole):
        try:
            wrong()
        except mm.Error as error:
            say(f"{error.status} {error}" + f" ({error.hint})" * bool(error.hint))
    loss.backward()
    assert all(p.grad is not None for p in layer.parameters())


# --------------------------------------------------------------------------------------------- a look inside


def looking():
    x = mm.persist(mm.array(np.ones((6, 4))) * 2)
    w = nn.Parameter(np.ones((4, 3)))
    y = mm.relu(x @ w)
    mm.debug.print_tape(mm.sum(y))
    mm.debug.print_tape()
    y.numpy()
    mm.debug.print_tape()
    mm.debug.print_tape(nn.LayerNorm(4)(x))
    loss, optimizer = mm.mean(y, axis=None), mm.optim.SGD([w], 1)
    loss.backward()
    optimizer.step()
    mm.debug.print_tape(loss, w)
    mm.init(record=True, weights=",".join("132"[:mm.size()]))
    mm.persist(mm.place(mm.array(np.ones((12, 5))) * 3, "rows"))
    found = mm.debug.worker_statistics()
    assert (found is None) == (mm.rank() > 0)
    if found is not None:
        assert [of["rank"] for of in found] == list(range(mm.size()))
        assert abs(sum(of["share"] for of in found) - 1) < 1e-12 and all(of["compute_seconds"] >= 0 for of in found)
        print("shares", *(f"{of['share']:.4f} {of['bytes']}" for of in found))


PARTS = (layers, beginnings, dropping, backward, leaves, optimisers, later, apart, clipping, learning, states, errors,
         apart_reads, looking)
for part in PARTS:
    if part.__name__ in sys.argv[1:]:
        part()
