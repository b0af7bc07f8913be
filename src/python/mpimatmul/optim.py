# SPDX-License-Identifier: MIT
"""Optimizers with torch's names and the results of the programs' functions `sgd` and `adamw`.

    optimizer = mm.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1000):
        loss = mm.cross_entropy(model(x), ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()              # one job for all of it; loss.item() then costs nothing

Steps of one structure are planned once, for any value of `optimizer.lr`; `mm.compile` replays them.
`optimizer.param_groups[0]["lr"]` is the same rate, and lr_scheduler changes it. On slow networks,
DiLoCo lets every node train on its own for several steps.
"""
import operator
import sys

from . import _local_training, _caller, _names, _program
from . import _lr_scheduler as lr_scheduler
from ._begin import collective
from ._library import ArgumentError, Error
from ._operations import sqrt
from ._program import Given
from ._states import matched
from ._values import Value, as_value, count_steps, no_grad, persist
from .nn import Parameter

__all__ = ("Adam", "AdamW", "DiLoCo", "SGD", "lr_scheduler")
__getattr__ = _names.missing_from(__name__, __all__)
# Enables: from mpimatmul.optim.lr_scheduler import StepLR
sys.modules[__name__ + ".lr_scheduler"] = lr_scheduler


def _check_options(options):
    """Refuses the values that torch refuses."""
    for name, number in options.items():
        if name in ("lr", "eps", "weight_decay", "momentum") and not number >= 0:
            raise ArgumentError(64, f"{name} of {number}: expected 0 or more")
    for i, beta in enumerate(options.get("betas", ())):
        if not 0 <= beta < 1:
            raise ArgumentError(64, f"betas[{i}] of {beta}: expected 0 to below 1")
    if options.get("nesterov") and options["momentum"] == 0:
        raise ArgumentError(64, "nesterov needs a momentum above 0")


class _Optimizer:
    """Parameters, with the state of each by name. param_groups as in torch: dicts of "params" and
    of numbers, which may change between steps and differ between groups."""

    def __init__(self, params, remembered, **options):
        groups = [params] if isinstance(params, dict) else list(params)
        if not groups or not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.remembered, self.turn, self.param_groups, self.params = remembered, 0, [], []
        for group in groups:
            self._add(group, options)
        self.state = [{} for _ in self.params]

    def _add(self, group, options):
        """Adds a group: a dict of parameters, and of numbers that override the defaults."""
        given = group["params"]
        given = [given] if isinstance(given, Value) else list(given)
        if not given or not all(isinstance(p, Parameter) for p in given):
            raise Error(64, "an optimizer needs at least one parameter",
                        "model.parameters(), or mm.nn.Parameter(x) of a value")
        for name in set(group) - set(options) - {"params"}:
            raise ArgumentError(64, f"a group has '{name}': expected {', '.join(('params', *options))}")
        known = {id(p) for p in self.params}
        if len({id(p) for p in given} | known) < len(given) + len(known):
            raise ArgumentError(64, "a parameter occurs twice in the groups of an optimizer")
        made = {**options, **group, "params": given}
        _check_options(made)
        self.param_groups.append(made)
        self.params += given

    @property
    def lr(self):
        """The rate of the first group. Assignment sets it for all groups."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, rate):
        for group in self.param_groups:
            group["lr"] = rate

    def zero_grad(self):
        """Removes the gradients."""
        for p in self.params:
            p.grad = None

    def _remembered(self, i):
        """Returns the state of parameter i by name; initially zeros of the parameter's type."""
        if not self.state[i]:
            with no_grad():
                self.state[i] = {name: self.params[i] * 0 for name in self.remembered}
        return self.state[i]

    def _form(self):
        """Returns the settings that determine the operations of a step. Other settings only change
        numbers."""
        return tuple(self._form_of(group) for group in self.param_groups)

    def _form_of(self, group):  # pylint: disable=unused-argument # of others it matters
        """Returns the settings of one group."""
        return ()

    def _numbers(self, turn):
        """Returns the floats used by the step of this number, group after group; `_step` gets those
        of its group. A replayed step calls this again."""
        return tuple(number for group in self.param_groups for number in self._numbers_of(group, turn))

    def _numbers_of(self, group, turn):
        """Returns the floats of one group; all groups have equally many."""
        raise NotImplementedError

    def _step(self, p, g, remembered, form, numbers):
        """Returns the next value of a parameter with gradient g, and updates `remembered`. form,
        numbers: of the parameter's group."""
        raise NotImplementedError

    def step(self):
        """Computes the next values of all parameters with a gradient, in one job with everything
        they depend on. The values and the losses stay on the ranks. Collective."""
        persist(*self._advance())

    def _advance(self):
        """Makes the step without computing it. Returns the new values and states."""
        self.turn += 1
        count_steps(self.turn)
        made, numbers, groups = [], self._numbers(self.turn), []
        if _program.recorder is not None:
            numbers = [Given(n, (self, i, self.turn)) for i, n in enumerate(numbers)]
        each = len(numbers) // len(self.param_groups)
        for k, group in enumerate(self.param_groups):
            groups += [(self._form_of(group), numbers[k * each:(k + 1) * each])] * len(group["params"])
        with no_grad(), _caller.at_this_line():
            for i, p in enumerate(self.params):
                if p.grad is not None:
                    remembered = self._remembered(i)
                    p.data = self._step(p, p.grad, remembered, *groups[i])
                    made += [p.current(), *remembered.values()]
        return made

    def state_dict(self):
        """Returns the state by the parameter's index and torch's name, and the number of steps, for
        `save_file`."""
        state = {f"{i}.{name}": value for i in range(len(self.params)) for name, value in self._remembered(i).items()}
        return {**state, "turn": self.turn}

    def load_state_dict(self, state):
        """Restores a state from `state_dict` of an optimizer of the same parameters. Collective."""
        own = self.state_dict()
        own["turn"] = as_value(self.turn)
        values = matched(state, own, "optimizer")
        self.turn = int(values.pop("turn"))
        for name, value in values.items():
            i, remembered = name.split(".")
            self.state[int(i)][remembered] = value


class SGD(_Optimizer):
    """v = momentum v + g. The step is v, or g + momentum v with nesterov, times lr. weight_decay is
    added to g."""

    def __init__(self, params, lr, momentum=0, *, nesterov=False, weight_decay=0):
        super().__init__(params, ("momentum_buffer",) if momentum else (), lr=lr, momentum=momentum,
                         nesterov=nesterov, weight_decay=weight_decay)

    def _form_of(self, group):
        return group["weight_decay"] != 0, group["momentum"] != 0, bool(group["nesterov"])

    def _numbers_of(self, group, turn):
        return group["lr"], group["momentum"], group["weight_decay"]

    def _step(self, p, g, remembered, form, numbers):
        decays, has_momentum, is_nesterov = form
        lr, momentum, weight_decay = numbers
        if decays:
            g = g + p * weight_decay
        if has_momentum:
            v = remembered["momentum_buffer"] = remembered.get("momentum_buffer", p * 0) * momentum + g
            g = g + v * momentum if is_nesterov else v
        return p - g * lr


class Adam(_Optimizer):
    """Kingma and Ba, "Adam: a method for stochastic optimization", 2015. weight_decay is added to
    g."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
        super().__init__(params, ("exp_avg", "exp_avg_sq"), lr=lr, betas=tuple(betas), eps=eps,
                         weight_decay=weight_decay)

    def _form_of(self, group):
        return (group["weight_decay"] != 0,)

    def _numbers_of(self, group, turn):
        first, second = group["betas"]
        return (first, 1 - first, second, 1 - second, 1 / (1 - second ** turn), group["eps"], group["weight_decay"],
                group["lr"] / (1 - first ** turn))

    def _step(self, p, g, remembered, form, numbers):
        return self._apply_moments(p, g + p * numbers[6] if form[0] else g, remembered, numbers)

    def _apply_moments(self, p, g, remembered, numbers):
        """Moves by the mean of the gradients over the root of the mean of their squares."""
        first, rest, second, rest_of_squares, unbias, eps, _, rate = numbers
        m = remembered["exp_avg"] = remembered["exp_avg"] * first + g * rest
        v = remembered["exp_avg_sq"] = remembered["exp_avg_sq"] * second + g * g * rest_of_squares
        return p - m * rate / (sqrt(v * unbias) + eps)


class AdamW(Adam):
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019. All parameters
    decay."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)

    def _form_of(self, group):
        return ()

    def _numbers_of(self, group, turn):
        numbers = list(super()._numbers_of(group, turn))
        numbers[6] = 1 - group["lr"] * group["weight_decay"]
        return tuple(numbers)

    def _step(self, p, g, remembered, form, numbers):
        return self._apply_moments(p * numbers[6], g, remembered, numbers)


class DiLoCo:
    """DiLoCo (Douillard et al., "DiLoCo", 2023). Every node trains a copy of the parameters for
    `turns` steps of the inner optimizer, on its own part of each batch, without traffic between
    nodes. Then an outer step with Nesterov momentum moves all nodes towards the mean of the copies,
    weighted by the data each has seen.

        optimizer = mm.optim.DiLoCo(mm.optim.AdamW(model.parameters(), lr=1e-3), turns=20)

        def closure(x, y):                        # called once per node with its rows of x and y
            loss = mm.cross_entropy(model(x), y)
            loss.backward()
            return loss

        for step in range(2000):
            loss = optimizer.step(closure, *draw(step))  # arrays of all nodes together
            if loss is not None:                     # every 20 steps, after the outer step
                mm.print(step, loss)
    """

    def __init__(self, inner, turns, lr=0.7, momentum=0.9):
        if not isinstance(inner, _Optimizer):
            raise Error(64, "DiLoCo needs an inner optimizer",
                        "mm.optim.DiLoCo(mm.optim.AdamW(model.parameters()), turns=20)")
        if operator.index(turns) < 1:
            raise Error(64, f"DiLoCo of {turns} turns: expected 1 at least")
        self.inner, self.turns, self.lr, self.momentum = inner, turns, lr, momentum
        # Steps of the inner optimizer so far; rows that each node has seen in total.
        self.turn, self.windows = 0, None
        self._nodes = self._began = self._velocity = None
        self._seen = []

    @collective("DiLoCo.step")
    def step(self, closure, *batch):
        """Makes one step of the inner optimizer on every node. batch: root's arrays, divided among
        the nodes by speed or weight. closure(*rows) computes a loss, calls backward (zero_grad is
        not needed) and returns the loss. Returns None, or after the last of `turns`, which includes
        the outer step, the mean of the nodes' last losses. Collective."""
        self._nodes = self._nodes or _local_training.Nodes()
        if self.turn % self.turns == 0:
            self._begin()
        rows, seen = self._nodes.cut(batch)
        losses = self._step_apart(closure, rows)
        self._seen = [a + b for a, b in zip(self._seen, seen)]
        self.windows = [a + b for a, b in zip(self.windows, seen)]
        self.turn += 1
        return self._end_turns(losses) if self.turn % self.turns == 0 else None

    def _begin(self):
        """Replicates the state of the training on all nodes."""
        inner, count = self.inner, self._nodes.count
        self._seen, self.windows = [0] * count, self.windows or [0] * count
        with no_grad():
            self._velocity = self._velocity or [p * 0 for p in inner.params]
            for i, p in enumerate(inner.params):
                p.put(_local_training.everywhere(p.current()))
                inner.state[i] = {name: _local_training.everywhere(value)
                                  for name, value in inner._remembered(i).items()}
        self._began = [p.current() for p in inner.params]
        persist(*self._began, *(value for state in inner.state for value in state.values()))

    def _step_apart(self, closure, rows):
        """Computes one step for each node and returns the loss. The first node's values stand for
        all."""
        inner = self.inner
        before, turn, made, after = self._copy(), inner.turn, [], None
        try:
            for own in rows:
                self._restore(before, turn)
                loss = closure(*own)
                made.append([*inner._advance(), loss])
                after = after or self._copy()
            _local_training.compute(made)
        except BaseException:
            self._restore(before, turn)
            raise
        self._restore(after, turn + 1)
        return made[0][-1]

    def _copy(self):
        return [p.current() for p in self.inner.params], [dict(state) for state in self.inner.state]

    def _restore(self, copy, turn):
        self.inner.zero_grad()
        self.inner.turn, self.inner.state = turn, [dict(state) for state in copy[1]]
        for p, leaf in zip(self.inner.params, copy[0]):
            p.put(leaf)

    def _end_turns(self, loss):
        """Makes the outer step and returns the mean of the losses."""
        moved = [i for i, p in enumerate(self.inner.params) if p.current().is_apart]
        with no_grad():
            *means, loss = self._nodes.average([*(self.inner.params[i].current() for i in moved), loss], self._seen)
            for i, mean in zip(moved, means):
                off = self._began[i] - mean
                self._velocity[i] = self._velocity[i] * self.momentum + off
                self.inner.params[i].put(_local_training.everywhere(
                    self._began[i] - (off + self._velocity[i] * self.momentum) * self.lr))
        persist(*(p.current() for p in self.inner.params), *self._velocity, loss)
        return loss

    def state_dict(self):
        """Returns the outer step's velocities by parameter index, and the number of steps. Only
        after an outer step. The state of the inner optimizer differs per node and is not included,
        so it restarts."""
        if self.turn % self.turns != 0:
            raise Error(64, f"turn {self.turn % self.turns} of {self.turns}: the nodes have different parameters",
                        "call it after an outer step, when all nodes agree")
        with no_grad():
            velocity = self._velocity or [p * 0 for p in self.inner.params]
        return {**{f"{i}.momentum_buffer": value for i, value in enumerate(velocity)}, "turn": self.turn}

    def load_state_dict(self, state):
        """Restores a state from `state_dict` with the same parameters and turns. Collective."""
        own = self.state_dict()
        own["turn"] = as_value(self.turn)
        values = matched(state, own, "optimizer")
        self.turn = int(values.pop("turn"))
        self._velocity = [values[f"{i}.momentum_buffer"] for i in range(len(self.inner.params))]
        self.inner.turn, self.inner.state = 0, [{} for _ in self.inner.params]
