# SPDX-License-Identifier: MIT
"""What learns: optimisers of parameters, with torch's names and the results of programs' `sgd` and `adamw`.

    optimizer = mm.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1000):
        loss = mm.cross_entropy(model(x), ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()                      # one job: forward, backward and this; loss.item() costs nothing then

Steps of one structure are planned once, whatever `optimizer.lr` is.
"""
from ._library import Error
from ._operations import sqrt
from ._states import matched
from ._values import as_value, no_grad, persist
from .nn import Parameter

__all__ = ("AdamW", "SGD")


class _Optimizer:
    """Parameters, and of each what is remembered from step to step, by name."""

    def __init__(self, params, lr, remembered):
        self.params, self.lr, self.remembered, self.turn = list(params), lr, remembered, 0
        if not self.params or not all(isinstance(p, Parameter) for p in self.params):
            raise Error(64, "an optimizer is of parameters, of one at least",
                        "model.parameters(), or mm.nn.Parameter(x) of a value")
        self.state = [{} for _ in self.params]

    def zero_grad(self):
        """Forgets the gradients."""
        for p in self.params:
            p.grad = None

    def _remembered(self, i):
        """Values by name; in the beginning zeros of the parameter's type."""
        if not self.state[i]:
            with no_grad():
                self.state[i] = {name: self.params[i] * 0 for name in self.remembered}
        return self.state[i]

    def _step(self, p, g, remembered):
        """The next value of a parameter whose gradient is g, and in `remembered` what is then."""
        raise NotImplementedError

    def step(self):
        """Computes the next values of all parameters that have a gradient, in one job with all that these are made of,
        and leaves them, and the losses, where they lie. Collective."""
        self.turn += 1
        made = []
        with no_grad():
            for i, p in enumerate(self.params):
                if p.grad is not None:
                    remembered = self._remembered(i)
                    p.data = self._step(p, p.grad, remembered)
                    made += [p, *remembered.values()]
        persist(*made)

    def state_dict(self):
        """What is remembered, by the parameter's place and torch's name, and how many steps were made; for
        `save_file`."""
        state = {f"{i}.{name}": value for i in range(len(self.params)) for name, value in self._remembered(i).items()}
        return {**state, "turn": self.turn}

    def load_state_dict(self, state):
        """What `state_dict` of an optimizer of the same parameters gave. Collective."""
        own = self.state_dict()
        own["turn"] = as_value(self.turn)
        values = matched(state, own, "optimizer")
        self.turn = int(values.pop("turn"))
        for name, value in values.items():
            i, remembered = name.split(".")
            self.state[int(i)][remembered] = value


class SGD(_Optimizer):
    """v = momentum v + g; then v, or with nesterov g + momentum v, times lr. weight_decay is added to g."""

    def __init__(self, params, lr, momentum=0, nesterov=False, weight_decay=0):
        super().__init__(params, lr, ("momentum_buffer",) if momentum else ())
        if nesterov and momentum == 0:
            raise Error(64, "nesterov is of a momentum above 0")
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay

    def _step(self, p, g, remembered):
        if self.weight_decay != 0:
            g = g + p * self.weight_decay
        if self.momentum != 0:
            v = remembered["momentum_buffer"] = remembered["momentum_buffer"] * self.momentum + g
            g = g + v * self.momentum if self.nesterov else v
        return p - g * self.lr


class AdamW(_Optimizer):
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019; all parameters decay."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, ("exp_avg", "exp_avg_sq"))
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def _step(self, p, g, remembered):
        first, second = self.betas
        m = remembered["exp_avg"] = remembered["exp_avg"] * first + g * (1 - first)
        v = remembered["exp_avg_sq"] = remembered["exp_avg_sq"] * second + g * g * (1 - second)
        root = sqrt(v * (1 / (1 - second ** self.turn))) + self.eps
        return p * (1 - self.lr * self.weight_decay) - m * (self.lr / (1 - first ** self.turn)) / root
