#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Replayed steps against the same steps without `compile`: losses and parameters are equal bit by
bit. Runs alone and under mpirun. Each part prints a line when it is right."""
import sys
import warnings

import numpy as np

import mpimatmul as mm
from mpimatmul._compile import Record

mm.init(weights="equal")  # a fixed order of sums, however busy the ranks are
rng = np.random.default_rng(5)
X, Y = rng.standard_normal((8, 16, 6)).astype("f4"), rng.integers(0, 3, (8, 16))
warnings.simplefilter("error")


def say(*words):
    if mm.rank() == 0:
        print(*words)


def build(make_optimizer, *between):
    mm.nn.manual_seed(7)
    model = mm.nn.Sequential(mm.nn.Linear(6, 5), mm.relu, *[m() for m in between], mm.nn.Linear(5, 3))
    optimizer = make_optimizer(model.parameters())

    def step(x, y):
        loss = mm.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    return model, optimizer, step


def batch(i, rows=16):
    return X[i % 8, :rows], Y[i % 8, :rows]


def counted():
    """Returns the number of replayed steps so far, of all compiled ones."""
    return Record.count


def count(run=Record.run):
    def counting(self):
        Record.count += 1
        return run(self)
    Record.count, Record.run = 0, counting


def same(name, found, count_replayed, least):
    assert count_replayed >= least, (name, count_replayed)
    if mm.rank() == 0:
        for i, (plain, replayed) in enumerate(zip(*found)):
            assert np.array_equal(plain, replayed), (name, i, plain, replayed)
    say(name, "ok")


def alike(name, make_optimizer, turns=50, least=40, between=(), each=lambda i, model, optimizer: None,
          rows=lambda i: 16):
    """Runs the same steps with and without compile. `each` is called before every step."""
    found = []
    for compiled in (False, True):
        model, optimizer, step = build(make_optimizer, *between)
        run = mm.compile(step) if compiled else lambda x, y: step(mm.array(x), mm.array(y))
        losses, before = [], counted()
        for i in range(turns):
            each(i, model, optimizer)
            losses.append(run(*batch(i, rows(i))))
        found.append([v.numpy() for v in (*losses, *model.parameters())])
    same(name, found, counted() - before, least)


def adamw(parameters):
    return mm.optim.AdamW(parameters, lr=1e-2)


def sgd(parameters):
    return mm.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def schedules():
    def each(i, _, optimizer):
        optimizer.lr = 0.01 / (1 + i)
        optimizer.weight_decay = 0.01 + 0.001 * i
        if hasattr(optimizer, "momentum"):
            optimizer.momentum = 0.9 - 0.01 * i
    alike("adamw", adamw)
    alike("adamw schedule", adamw, each=each)
    alike("sgd schedule", sgd, each=each)


def structures():
    alike("two batch sizes", adamw, rows=lambda i: 16 if i % 3 else 10)
    alike("momentum off", sgd, each=lambda i, m, o: setattr(o, "momentum", 0 if i == 20 else 0.9), least=30)


def modes():
    def each(i, model, _):
        model.train(i % 10 < 7)
    alike("dropout", adamw, between=[lambda: mm.nn.Dropout(0.4)])
    alike("train and eval", adamw, between=[lambda: mm.nn.Dropout(0.4)], each=each)


def replaced():
    def each(i, model, optimizer):
        if i == 20:
            state = {name: value.numpy() for name, value in model.state_dict().items()}
            model.load_state_dict({n: None if v is None else v * 0.5 for n, v in state.items()}
                                  if mm.rank() == 0 else {n: np.zeros(p.shape) for n, p in model._named()})
        if i == 30:
            optimizer.load_state_dict(optimizer.state_dict())
    alike("load_state_dict", adamw, each=each, least=30)

def functions():
    """Values among arguments and results, gradients by mm.grad, and values used after the step."""
    weights = [rng.standard_normal((6, 3)) for _ in range(2)]
    # captured by the step, computed with its first job
    shift = mm.array(rng.standard_normal(3).astype("f4")) * 2

    def step(w, x, y):
        logits = x @ w["w"] + shift
        loss = mm.cross_entropy(logits, y)
        new = w["w"] - 0.1 * mm.grad(loss, w["w"])
        mm.persist(loss, new)
        return {"w": new}, (loss, mm.mean(mm.argmax(logits) == y))
    found = []
    for run in (step, mm.compile(step)):
        w, shown = {"w": mm.persist(mm.array(weights[0]) * 1)}, []
        before = counted()
        for i in range(12):
            w, made = run(w, mm.array(X[i % 8]), mm.array(Y[i % 8]))
            shown += made
            if i == 6:  # values of another type in between
                other, _ = run({"w": mm.persist(mm.array(weights[1].astype("f4")) * 1)}, mm.array(X[0]), mm.array(Y[0]))
                shown.append(other["w"])
        found.append([v.numpy() for v in (*shown, w["w"])])
    same("functions", found, counted() - before, 8)


def used():
    """Gradients left by a step, logits returned by it, and a second backward, each after a replay.
    """
    found = []
    for compiled in (False, True):
        model, optimizer, _ = build(adamw)

        def step(x, y):
            logits = model(x)
            loss = mm.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, logits
        run, shown, before = mm.compile(step) if compiled else step, [], counted()
        for i in range(8):
            x, y = mm.array(X[i]), mm.array(Y[i])
            loss, logits = run(x, y)
            shown += [p.grad * 1 for p in model.parameters()] + [logits, loss]
            if i > 5:
                weight = next(iter(model.parameters()))
                shown += [mm.grad(mm.mean(model(x)), weight)]
        found.append([v.numpy() for v in shown])
    same("used", found, counted() - before, 4)


class Block(mm.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.heads = mm.nn.LayerNorm(8), mm.nn.MultiHeadAttention(8, 2)
        self.drop, self.last = mm.nn.Dropout(0.3), mm.nn.Linear(8, 5)

    def forward(self, x):
        y = self.norm(x)
        return self.last(x + self.drop(self.heads(y, y, y, is_causal=True)))


class Trainer:
    """A step that is a method. `seen` does not belong to it."""

    def __init__(self):
        mm.nn.manual_seed(3)
        self.table, self.block, self.seen = mm.nn.Embedding(5, 8), mm.nn.ModuleList([Block()]), 0
        self.parameters = [*self.table.parameters(), *self.block.parameters()]
        self.optimizer = mm.optim.AdamW(self.parameters, lr=1e-2)

    def step(self, ids):
        self.optimizer.zero_grad()
        loss = mm.cross_entropy(self.block[0](self.table(ids)), ids)
        loss.backward()
        norm = mm.nn.clip_grad_norm_(self.parameters, 0.5)
        self.optimizer.step()
        return loss, norm


def methods():
    """A step that is a method of an object with a transformer. The norm that it returns is computed
    when it is read, with the random draws of its own step."""
    found, ids = [], rng.integers(0, 5, (2, 6))
    for compiled in (False, True):
        trainer, shown, before = Trainer(), [], counted()
        run = mm.compile(trainer.step) if compiled else trainer.step
        for i in range(8):
            trainer.seen += 1
            trainer.optimizer.lr = 0.01 / (1 + i)
            shown += run(mm.array(ids))
        found.append([v.numpy() for v in (*shown, *trainer.parameters)])
    same("methods", found, counted() - before, 4)


def refused():
    """A step that cannot be replayed prints one warning and gives right results."""
    state = {"calls": 0}
    numbers = iter(range(1000))
    scale = 1.0

    def reads(loss):
        return loss.item() > 1e9

    def counts(_):
        state["calls"] += 1

    def takes(_):
        return next(numbers)

    def draws(_):
        return np.random.rand()

    def makes(_):
        return mm.array([1.0])

    def prints(loss):
        print(end="" if loss is not None else "?")
    for extra in (reads, counts, takes, draws, makes, prints):
        found, texts = [], []
        for compiled in (False, True):
            model, optimizer, plain = build(adamw)

            def step(x, y):
                loss = plain(x, y)
                extra(loss)
                return loss
            run = mm.compile(step) if compiled else step
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                losses = [run(mm.array(X[i]), mm.array(Y[i])) for i in range(5)]
            found.append([v.numpy() for v in losses])
            texts += [str(w.message) for w in caught]
        same(extra.__name__, found, 0, 0)
        say(texts)
    assert state["calls"] == 10, state
    # A constant around a step that changes is traced anew.
    model, optimizer, plain = build(sgd)

    def scaled(x, y):
        loss = mm.cross_entropy(model(x) * scale, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    run, found = mm.compile(scaled), [[], []]
    for i in range(8):
        scale = 1.0 if i < 5 else 2.0
        found[0].append((mm.cross_entropy(model(mm.array(X[i])) * scale, mm.array(Y[i]))).numpy())
        found[1].append(run(*batch(i)).numpy())
    same("scale", found, 1, 1)


def interrupted():
    """An exception inside a step leaves the old state, and the next steps are right."""
    found = []
    for compiled in (False, True):
        model, optimizer, plain = build(adamw)
        fails = []

        def step(x, y):
            if fails:
                raise KeyError("here")
            return plain(x, y)
        run, losses, before = mm.compile(step) if compiled else step, [], counted()
        for i in range(14):
            if i == 7:
                fails.append(1)
                try:
                    run(mm.array(X[0]), mm.array(Y[0]))
                    assert False
                except KeyError:
                    pass
                fails.clear()
            if compiled and i == 9:  # a replay that fails leaves the parameters
                try:
                    run(mm.array(X[0]), mm.array(Y[0] + 5))
                    assert False
                except mm.Error as error:
                    assert "whole numbers from 0 to 2" in str(error), error
            losses.append(run(mm.array(X[i % 8]), mm.array(Y[i % 8])))
        found.append([v.numpy() for v in (*losses, *model.parameters())])
    same("interrupted", found, counted() - before, 6)


count()
PARTS = {f.__name__: f for f in (schedules, structures, modes, replaced, functions, used, methods, refused,
                                  interrupted)}
for part in sys.argv[1:]:
    PARTS[part]()
