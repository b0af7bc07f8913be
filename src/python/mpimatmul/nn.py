# SPDX-License-Identifier: MIT
"""Layers of models, with torch's names, layouts and initial distributions: what is saved here is read there.

    class Model(mm.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = mm.nn.Linear(64, 32), mm.nn.Linear(32, 10)

        def forward(self, x):
            return self.last(mm.relu(self.first(x)))

All ranks make the same layers in the same order; each draws the seed of its parameters from those before it.
"""
import math
import random

from ._learning import dropout, stop_gradient
from ._library import Error
from ._operations import abs as sizes_of
from ._operations import arange, attention, concat, layer_norm, linear
from ._operations import max as largest_of
from ._operations import minimum, rms_norm, sqrt
from ._operations import sum as sum_of
from ._operations import take, where
from ._states import matched
from ._values import Slot, Value, apply, as_value, generate, no_grad

__all__ = ("Dropout", "Embedding", "LayerNorm", "Linear", "Module", "ModuleList", "MultiHeadAttention", "Parameter",
           "RMSNorm", "Sequential", "clip_grad_norm_", "manual_seed")
_random = random.Random(0)


def manual_seed(seed):
    """Layers that are made from now on draw what they begin with, and drop, anew from this seed (0 without it)."""
    _random.seed(seed)


def _drawn(shape, factor, kind="uniform"):
    """A parameter: uniform in [-factor, factor), or normal."""
    value = generate(shape, kind, _random.getrandbits(63)) * factor
    value.is_row = len(shape) == 1
    return Parameter(value)


def _filled(shape, kind):
    value = generate(shape, kind)
    value.is_row = len(shape) == 1
    return Parameter(value)


class Parameter(Value):
    """What a model learns: an array or value that optimisers put another one in the place of. What has been made of it
    is made of what it was then."""

    def __init__(self, data):  # pylint: disable=super-init-not-called # it is what its leaf is
        self._leaf = None
        self.data = data

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._leaf, name)

    def current(self):
        return self._leaf

    @property
    def data(self):
        """What it is now, as a value that requires no gradient."""
        return _alias(self._leaf, self._leaf)

    @data.setter
    def data(self, data):
        before, data = self._leaf, as_value(data)
        if data.integers:
            raise Error(64, "whole numbers have no gradient: they cannot be a parameter")
        leaf = _alias(data, data if before is None else before)
        leaf.slot = Slot() if before is None else before.slot
        self._leaf = leaf

    def put(self, leaf):
        """What it is from now on, itself."""
        leaf.is_row, leaf.name, leaf.slot = self._leaf.is_row, self._leaf.name, self._leaf.slot
        self._leaf = leaf


def _alias(value, of):
    """The same elements; of one axis where `of` is, and of its name."""
    made = stop_gradient(value)
    made.is_row, made.name = of.is_row, of.name
    return made


class Module:
    """What has parameters and other modules, as attributes, and a `forward`, which a call of it is."""

    def __init__(self):
        self.training = True

    def __setattr__(self, name, child):
        if isinstance(child, Parameter):
            child.current().name = name  # as print_tape and errors have it
        super().__setattr__(name, child)

    def __call__(self, *arguments, **named):
        return self.forward(*arguments, **named)

    def forward(self, *arguments, **named):
        """What it makes of its arguments."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def modules(self):
        """Itself and all that are in it."""
        yield self
        for child in vars(self).values():
            if isinstance(child, Module):
                yield from child.modules()

    def _named(self, prefix=""):
        """All parameters by their names, in the order in which they were set; one that is shared has several."""
        for name, child in vars(self).items():
            if isinstance(child, Parameter):
                yield prefix + name, child
            elif isinstance(child, Module):
                yield from child._named(f"{prefix}{name}.")

    def named_parameters(self):
        """(name, parameter) of each; of one that is shared the first name."""
        known = set()
        for name, parameter in self._named():
            if id(parameter) not in known:
                known.add(id(parameter))
                yield name, parameter

    def parameters(self):
        """All parameters, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def train(self, mode=True):
        """Of it and all that are in it: dropout drops. Returns itself."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        """The opposite of train()."""
        return self.train(False)

    def zero_grad(self):
        """Forgets the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def state_dict(self):
        """What the parameters are now, by their names, for `save_file`."""
        return {name: parameter.data for name, parameter in self._named()}

    def load_state_dict(self, state):
        """Gives all parameters other values: of a dict of their names, as `load_file` gives it. Collective where there
        are arrays in it."""
        own = dict(self._named())
        for name, value in matched(state, own, "module").items():
            own[name].data = value


class Linear(Module):
    """x @ weight.T + bias; weight is (outputs, inputs)."""

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.weight = _drawn((out_features, in_features), bound)
        self.bias = _drawn((out_features,), bound) if bias else None

    def forward(self, x):
        """x (..., inputs)"""
        return linear(x, self.weight, self.bias)


class Embedding(Module):
    """Rows of a table, weight (count, width), by whole numbers."""

    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
        self.weight = _drawn((num_embeddings, embedding_dim), 1, "normal")

    def forward(self, ids):
        """ids (..., n); (..., n, width)."""
        return take(self.weight, ids)


class LayerNorm(Module):
    """Rows less their mean, over their deviation, times weight, plus bias."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        super().__init__()
        self.eps = eps
        self.weight = _filled((normalized_shape,), "ones") if elementwise_affine else None
        self.bias = _filled((normalized_shape,), "zeros") if elementwise_affine and bias else None

    def forward(self, x):
        """Along the last axis."""
        return layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Rows over the root of the mean of their squares, times weight."""

    def __init__(self, normalized_shape, eps=1e-6, elementwise_affine=True):
        super().__init__()
        self.eps = eps
        self.weight = _filled((normalized_shape,), "ones") if elementwise_affine else None

    def forward(self, x):
        """Along the last axis."""
        return rms_norm(x, self.weight, self.eps)


class Dropout(Module):
    """While training: each element is 0 with probability p, and the others are larger by 1 / (1 - p)."""

    def __init__(self, p=0.5):
        super().__init__()
        if not 0 <= p < 1:
            raise Error(64, f"dropout of {p}: expected 0 to below 1")
        self.p, self._seed, self._turn = p, _random.getrandbits(32), 0

    def forward(self, x):
        """Other ones at every call, the same on any number of ranks."""
        if not self.training:
            return x
        self._turn += 1
        return dropout(x, self.p, self._seed, self._turn)


class ModuleList(Module):
    """Modules, or functions between them, by number."""

    def __init__(self, modules=()):
        super().__init__()
        self._count = 0
        for module in modules:
            self.append(module)

    def append(self, module):
        """One more, the last."""
        setattr(self, str(self._count), module)
        self._count += 1
        return self

    def __len__(self):
        return self._count

    def __getitem__(self, i):
        return getattr(self, str(range(self._count)[i]))

    def __iter__(self):
        return (self[i] for i in range(self._count))


class Sequential(ModuleList):
    """Each of what the one before it makes; functions, such as `relu`, may stand between modules."""

    def __init__(self, *modules):
        super().__init__(modules)

    def forward(self, x):
        """The last one's."""
        for module in self:
            x = module(x)
        return x


class MultiHeadAttention(Module):
    """torch's MultiheadAttention with batch_first: the parameters of query, key and value are one, in this order."""

    def __init__(self, embed_dim, num_heads, bias=True):
        super().__init__()
        if embed_dim % num_heads != 0:
            raise Error(64, f"{num_heads} heads of {embed_dim} columns: expected a number that divides them")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.in_proj_weight = _drawn((3 * embed_dim, embed_dim), math.sqrt(6 / (4 * embed_dim)))
        self.in_proj_bias = _filled((3 * embed_dim,), "zeros") if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = _filled((embed_dim,), "zeros")

    def _heads(self, x, part):
        """(batch, n, columns) times the part-th third of the parameters: (batch, heads, n, columns / heads)"""
        columns = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        bias = self.in_proj_bias
        x = linear(x, self.in_proj_weight[columns], None if bias is None else bias[:, columns])
        return x.reshape(*x.shape[:-1], self.num_heads, -1).permute(0, 2, 1, 3)

    def forward(self, query, key, value, attn_mask=None, is_causal=False):
        """query (batch, n, columns), key and value (batch, m, columns). attn_mask (n, m): floats are added to the
        scores; bools are True where a query may NOT attend to a key, as torch's MultiheadAttention has it (the opposite
        of `attention`). is_causal: query i sees keys 0 to i, as in torch; `attention` aligns the last query with the
        last key, which differs where there are fewer queries than keys. What comes out, without the weights."""
        query, key, value = (self._heads(as_value(x), i) for i, x in enumerate((query, key, value)))
        mask = None if attn_mask is None else as_value(attn_mask)
        if mask is not None and mask.is_bool:
            mask = 1 - mask
        rows, keys = query.shape[-2], key.shape[-2]
        if is_causal and rows != keys:
            seen = arange(keys) <= arange(rows).reshape(rows, 1)
            mask = seen if mask is None else mask * seen if mask.is_bool else where(seen, mask, -math.inf)
        heads = attention(query, key, value, is_causal and rows == keys, mask)
        return self.out_proj(heads.permute(0, 2, 1, 3).reshape(heads.shape[0], heads.shape[2], self.embed_dim))


def _scale_for_squares(parameters):
    """1, or a power of two with which squares of gradients neither overflow nor vanish."""
    sizes = [largest_of(sizes_of(p.grad)) for p in parameters]
    return apply("scale_for_squares", [concat(sizes, axis=-1)]) if sizes else 1


def clip_grad_norm_(parameters, max_norm):
    """Makes the gradients shorter where all together are longer than max_norm. Their norm, 1 x 1."""
    parameters = [p for p in parameters if p.grad is not None]
    with no_grad():
        scale = _scale_for_squares(parameters)
        squares = (sum_of((p.grad * scale) * (p.grad * scale)) for p in parameters)
        root = sqrt(sum(squares, 0))
        factor = minimum(max_norm * scale / (root + 1e-6 * scale), 1)  # the norm itself may be beyond float32
        for p in parameters:
            p.grad = p.grad * factor
        return root / scale
