# SPDX-License-Identifier: MIT
"""Learning-rate schedules with torch's names and formulas: mm.optim.lr_scheduler.

    scheduler = mm.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    for step in range(1000):
        ...
        optimizer.step()
        scheduler.step()
"""
import math

from . import _names
from ._library import ArgumentError

__all__ = ("CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "StepLR")
__getattr__ = _names.missing_from("mpimatmul.optim.lr_scheduler", __all__)


class _Scheduler:
    """Changes "lr" of all groups of an optimizer: on creation, then with every step(). Several
    schedulers of one optimizer build on each other's rates."""

    def __init__(self, optimizer):
        self.optimizer, self.last_epoch = optimizer, -1
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.step()

    def step(self):
        """Sets the rates of the next epoch."""
        self.last_epoch += 1
        for i, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self._next(group["lr"], self.base_lrs[i], i)

    def _next(self, lr, base, i):
        """Returns the next rate of group i. lr: the current rate. base: the initial one."""
        raise NotImplementedError

    def get_last_lr(self):
        """Returns the current rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        """Returns numbers for `load_state_dict` of a scheduler with the same arguments.
        JSON-compatible."""
        return {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs, "last_lr": self.get_last_lr()}

    def load_state_dict(self, state):
        """Restores a state from `state_dict`, including the optimizer's rates."""
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        for group, lr in zip(self.optimizer.param_groups, state["last_lr"]):
            group["lr"] = lr


class LambdaLR(_Scheduler):
    """The initial rate times lr_lambda(epoch), with one function for all groups or one for each."""

    def __init__(self, optimizer, lr_lambda):
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (tuple, list)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ArgumentError(64, f"{len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer)

    def _next(self, lr, base, i):
        return base * self.lr_lambdas[i](self.last_epoch)


class StepLR(_Scheduler):
    """Multiplies the rate by gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def _next(self, lr, base, i):
        return lr * self.gamma if self.last_epoch > 0 and self.last_epoch % self.step_size == 0 else lr


class MultiStepLR(_Scheduler):
    """Multiplies the rate by gamma at each milestone."""

    def __init__(self, optimizer, milestones, gamma=0.1):
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(optimizer)

    def _next(self, lr, base, i):
        return lr * self.gamma ** self.milestones.count(self.last_epoch)


class ExponentialLR(_Scheduler):
    """Multiplies the rate by gamma every epoch."""

    def __init__(self, optimizer, gamma):
        self.gamma = gamma
        super().__init__(optimizer)

    def _next(self, lr, base, i):
        return lr * self.gamma if self.last_epoch > 0 else lr


class LinearLR(_Scheduler):
    """From start_factor to end_factor times the initial rate, linearly in total_iters epochs."""

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ArgumentError(64, f"factors {start_factor} and {end_factor}: expected more than 0, and 0, up to 1")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def _factor(self, epoch):
        return self.start_factor + (self.end_factor - self.start_factor) * min(epoch / self.total_iters, 1)

    def _next(self, lr, base, i):
        if self.last_epoch == 0:
            return lr * self.start_factor
        return lr * self._factor(self.last_epoch) / self._factor(self.last_epoch - 1)


class CosineAnnealingLR(_Scheduler):
    """Half a cosine from the initial rate to eta_min in T_max epochs, and back in as many."""

    def __init__(self, optimizer, T_max, eta_min=0):  # pylint: disable=invalid-name # torch's
        self.T_max, self.eta_min = T_max, eta_min  # pylint: disable=invalid-name
        super().__init__(optimizer)

    def _height(self, epoch):
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def _next(self, lr, base, i):
        epoch = self.last_epoch
        if epoch == 0:
            return lr
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the previous rate was eta_min
            return lr + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        return self._height(epoch) / self._height(epoch - 1) * (lr - self.eta_min) + self.eta_min
