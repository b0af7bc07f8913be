# SPDX-License-Identifier: MIT
"""Layers of models with torch's names, layouts and initial distributions, so that saved states are
interchangeable.

    class Model(mm.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = mm.nn.Linear(64, 32), mm.nn.Linear(32, 10)

        def forward(self, x):
            return self.last(mm.relu(self.first(x)))

All ranks make the same layers in the same order, because the seed of each layer's parameters
depends on the layers before it.
"""
import copy
import math
import random
import textwrap

from . import _names
from ._learning import binary_cross_entropy, cross_entropy, dropout, mse, one_hot, stop_gradient
from ._library import Error
from ._operations import abs as sizes_of
from ._operations import arange, attention, concat, flatten, gelu, layer_norm, linear, logsumexp
from ._operations import max as largest_of
from ._operations import maximum
from ._operations import mean as mean_of
from ._operations import minimum, permute, relu, rms_norm, sigmoid, silu, softmax, softplus, sqrt
from ._operations import sum as sum_of
from ._operations import take, tanh, where, zeros
from ._program import format_sizes
from ._states import matched
from ._values import Slot, Value, apply, as_value, generate, no_grad

__all__ = ("BCEWithLogitsLoss", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "GELU", "Identity", "L1Loss",
           "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax", "MSELoss", "Module", "ModuleList", "MultiHeadAttention",
           "MultiheadAttention", "Parameter", "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax",
           "Softplus", "Tanh", "clip_grad_norm_", "manual_seed")
__getattr__ = _names.missing_from(__name__, __all__)
_random = random.Random(0)


def manual_seed(seed):
    """Sets the seed for initial parameters and dropout of layers made from now on (0 without a
    call)."""
    _random.seed(seed)


def _random_parameter(shape, factor, kind="uniform"):
    """Returns a random parameter: uniform in [-factor, factor), or normal."""
    value = generate(shape, kind, _random.getrandbits(63)) * factor
    value.is_row = len(shape) == 1
    return Parameter(value)


def _filled_parameter(shape, kind):
    value = generate(shape, kind)
    value.is_row = len(shape) == 1
    return Parameter(value)


class Parameter(Value):
    """A parameter of a model: an array or value that optimizers replace. Values computed from it
    keep using the data of that time."""

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
        """The current data, as a value that requires no gradient."""
        return _alias(self._leaf, self._leaf)

    @data.setter
    def data(self, data):
        before, data = self._leaf, as_value(data)
        if data.integers:
            raise Error(64, "integers have no gradient: they cannot be a parameter")
        leaf = _alias(data, data if before is None else before)
        leaf.slot = Slot() if before is None else before.slot
        self._leaf = leaf

    def put(self, leaf):
        """Replaces the leaf itself."""
        leaf.is_row, leaf.name, leaf.slot = self._leaf.is_row, self._leaf.name, self._leaf.slot
        self._leaf = leaf

    def __deepcopy__(self, _):
        made = Parameter(self.data)
        made.requires_grad = self.requires_grad
        return made

    def __copy__(self):
        return copy.deepcopy(self)


def _alias(value, of):
    """Returns the same elements under the name of `of`, with one axis if `of` has one."""
    made = stop_gradient(value)
    made.is_row, made.name = of.is_row, of.name
    return made


class Module:
    """A layer: parameters and child modules as attributes, and a `forward`, which a call of the
    module runs."""

    def __init__(self):
        self.training = True

    def __setattr__(self, name, child):
        if isinstance(child, Parameter):
            child.current().name = name  # for print_tape and errors
        super().__setattr__(name, child)

    def __call__(self, *arguments, **named):
        _active_modules.append(self)
        try:
            return self.forward(*arguments, **named)
        except Error as error:
            if not error.names_layer:
                error.names_layer, error.args = True, (f"{error}, in {_failing_layer()}",)
            raise
        finally:
            _active_modules.pop()

    def forward(self, *arguments, **named):
        """Computes the result of the module."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def named_children(self):
        """Yields (name, module) for each child module."""
        yield from ((name, child) for name, child in vars(self).items() if isinstance(child, Module))

    def children(self):
        """Yields the child modules."""
        yield from (child for _, child in self.named_children())

    def named_modules(self, prefix=""):
        """Yields (name, module) for the module itself, "", and all modules inside:
        "encoder.0.linear1"."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self):
        """Yields the module itself and all modules inside."""
        yield from (module for _, module in self.named_modules())

    def _named(self, prefix=""):
        """Yields all parameters by name, in the order of assignment; a shared parameter has several
        names."""
        for name, child in vars(self).items():
            if isinstance(child, Parameter):
                yield prefix + name, child
            elif isinstance(child, Module):
                yield from child._named(f"{prefix}{name}.")

    def named_parameters(self):
        """Yields (name, parameter) for each parameter; a shared one by its first name."""
        known = set()
        for name, parameter in self._named():
            if id(parameter) not in known:
                known.add(id(parameter))
                yield name, parameter

    def parameters(self):
        """Yields all parameters, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def train(self, mode=True):
        """Switches the module and all modules inside to training mode, in which dropout is active.
        Returns itself."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        """Switches to evaluation mode, the opposite of train()."""
        return self.train(False)

    def zero_grad(self):
        """Removes the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def state_dict(self):
        """Returns the current parameters by name, for `save_file`."""
        return {name: parameter.data for name, parameter in self._named()}

    def load_state_dict(self, state):
        """Replaces all parameters by values from a dict, as `load_file` returns it. Collective if
        there are arrays."""
        own = dict(self._named())
        for name, value in matched(state, own, "module").items():
            own[name].data = value

    def extra_repr(self):
        """Returns additional text for `print`."""
        return ""

    def _listed_children(self):
        return self.named_children()

    def __repr__(self):
        """Shows the layers by name, one per line, as torch does."""
        lines = [f"({name}): {_format_child(child)}" for name, child in self._listed_children()]
        text = self.extra_repr()
        if lines:
            text = "\n" + textwrap.indent("\n".join([text] * bool(text) + lines), "  ") + "\n"
        return f"{type(self).__name__}({text})"

    def __copy__(self):
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    def __reduce_ex__(self, _):
        raise TypeError("a module cannot be pickled: mm.save_file(model.state_dict(), 'model.safetensors') saves what "
                        "it has learned, model.load_state_dict(mm.load_file('model.safetensors')) has it again")


_active_modules = []  # modules being called, outermost first


def _failing_layer():
    """Returns the outermost module's name for the innermost module, for errors."""
    for name, module in _active_modules[0].named_modules():
        if module is _active_modules[-1] and name:
            return f"layer '{name}'"
    return f"a {type(_active_modules[-1]).__name__}"


def _format_child(child):
    return repr(child) if isinstance(child, Module) else f"{getattr(child, '__name__', type(child).__name__)}()"


class Linear(Module):
    """x @ weight.T + bias; weight is (outputs, inputs)."""

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features)
        self.weight = _random_parameter((out_features, in_features), bound)
        self.bias = _random_parameter((out_features,), bound) if bias else None

    def forward(self, x):
        """x: (..., inputs)."""
        return linear(x, self.weight, self.bias)

    def extra_repr(self):
        """Returns the sizes."""
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Embedding(Module):
    """Selects rows of a table by integers; weight is (count, width)."""

    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = _random_parameter((num_embeddings, embedding_dim), 1, "normal")

    def forward(self, ids):
        """ids: (..., n). Returns (..., n, width)."""
        return take(self.weight, ids)

    def extra_repr(self):
        """Returns the sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


class _Norm(Module):
    """Normalization over the last axis of `normalized_shape` elements."""

    def __init__(self, normalized_shape, eps, elementwise_affine):
        super().__init__()
        sizes = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
        if len(sizes) != 1:
            raise Error(64, f"{type(self).__name__} over the last {len(sizes)} axes: expected one",
                        "x.reshape(..., -1) merges them")
        self.normalized_shape, self.eps, self.elementwise_affine = sizes, eps, elementwise_affine
        self.weight = _filled_parameter(sizes, "ones") if elementwise_affine else None

    def extra_repr(self):
        """Returns size, eps and elementwise_affine."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_Norm):
    """Normalizes rows to mean 0 and deviation 1, then times weight, plus bias."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        super().__init__(normalized_shape, eps, elementwise_affine)
        self.bias = _filled_parameter(self.normalized_shape, "zeros") if elementwise_affine and bias else None

    def forward(self, x):
        """Normalizes the last axis."""
        return layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(_Norm):
    """Divides rows by the root of the mean of their squares, then times weight."""

    def __init__(self, normalized_shape, eps=1e-6, elementwise_affine=True):
        super().__init__(normalized_shape, eps, elementwise_affine)

    def forward(self, x):
        """Normalizes the last axis."""
        return rms_norm(x, self.weight, self.eps)


class Dropout(Module):
    """In training mode, sets each element to 0 with probability p and multiplies the others by 1 /
    (1 - p)."""
    _COMPUTED = ("_turn",)  # attributes that a replayed step computes again

    def __init__(self, p=0.5):
        super().__init__()
        if not 0 <= p < 1:
            raise Error(64, f"dropout of {p}: expected 0 to below 1")
        self.p, self._seed, self._turn = p, _random.getrandbits(32), 0

    def forward(self, x):
        """Draws anew at every call, with the same result on any number of ranks."""
        if not self.training:
            return x
        self._turn += 1
        made = dropout(x, self.p, self._seed, self._turn)
        made._draws = (self, self._turn) if self.p > 0 else None
        return made

    def extra_repr(self):
        """Returns the probability as torch shows it."""
        return f"p={self.p}, inplace=False"


class ModuleList(Module):
    """A list of modules and functions."""

    def __init__(self, modules=()):
        super().__init__()
        self._count = 0
        for module in modules:
            self.append(module)

    def append(self, module):
        """Appends a module."""
        setattr(self, str(self._count), module)
        self._count += 1
        return self

    def __len__(self):
        return self._count

    def __getitem__(self, i):
        return getattr(self, str(range(self._count)[i]))

    def __iter__(self):
        return (self[i] for i in range(self._count))

    def _listed_children(self):
        return ((str(i), child) for i, child in enumerate(self))


class Sequential(ModuleList):
    """Applies modules in sequence; functions, such as `relu`, may stand between them."""

    def __init__(self, *modules):
        super().__init__(modules)

    def forward(self, x):
        """Returns the result of the last module."""
        for module in self:
            x = module(x)
        return x


def _mask_fits(mask, rows, keys):
    return mask.shape[-2] in (1, rows) and mask.shape[-1] in (1, keys)


def _added_mask(mask):
    """Returns a mask that is added to the scores. A mask of bools is True where a query may
    attend."""
    return where(mask, 0, -math.inf) if mask.is_bool else mask


def _combine_masks(mask, other):
    """Combines two masks: a query attends if both masks permit it."""
    if mask is None or other is None:
        return mask if other is None else other
    return mask * other if mask.is_bool and other.is_bool else _added_mask(mask) + _added_mask(other)


# ------------------------------------------------------------------------------------ activations


class Identity(Module):
    """Returns x for any constructor arguments."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, x):
        """Returns x."""
        return x


class Flatten(Module):
    """Merges axes start_dim to end_dim."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        """Returns x with the merged axes."""
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self):
        """Returns the axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


def _activation(name, function):
    """Makes a module of an elementwise function. inplace, known from torch, has no effect."""
    class Activation(Module):
        def __init__(self, inplace=False):
            super().__init__()
            self.inplace = inplace

        def forward(self, x):
            """Applies the function to every element."""
            return function(x)

        def extra_repr(self):
            """Returns the text that torch shows."""
            return "inplace=True" if self.inplace else ""
    Activation.__name__ = Activation.__qualname__ = name
    Activation.__doc__ = f"mm.{function.__name__} as a module."
    return Activation


ReLU = _activation("ReLU", relu)
SiLU = _activation("SiLU", silu)
Sigmoid = _activation("Sigmoid", sigmoid)
Softplus = _activation("Softplus", softplus)
Tanh = _activation("Tanh", tanh)


class GELU(Module):
    """mm.gelu as a module; approximate "tanh" or "none"."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x):
        """Applies gelu to every element."""
        return gelu(x, self.approximate)

    def extra_repr(self):
        """Returns the approximation."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """Returns x if positive, else negative_slope times x."""

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, x):
        """Applies the function to every element."""
        return maximum(x, 0) + minimum(x, 0) * self.negative_slope

    def extra_repr(self):
        """Returns the slope."""
        return f"negative_slope={self.negative_slope}" + ", inplace=True" * self.inplace


class Softmax(Module):
    """mm.softmax as a module along axis dim."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        """Computes softmax along dim."""
        return softmax(x, axis=self.dim)

    def extra_repr(self):
        """Returns the axis."""
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """log(softmax(x)) along axis dim, without overflow."""

    def forward(self, x):
        """Computes log-softmax along dim."""
        return x - logsumexp(x, axis=self.dim)


# ----------------------------------------------------------------------------------------- losses


class _Loss(Module):
    """Reduces a loss over elements or rows: reduction "mean", "sum" or "none"."""

    def __init__(self, reduction):
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise Error(64, f"no reduction '{reduction}': expected mean, sum, none")
        self.reduction = reduction

    def _reduced(self, losses):
        if self.reduction == "none":
            return losses
        return {"mean": mean_of, "sum": sum_of}[self.reduction](losses, keepdims=False)


class MSELoss(_Loss):
    """Squares of x - y."""

    def __init__(self, reduction="mean"):
        super().__init__(reduction)

    def forward(self, x, y):
        """x and y have the same shape."""
        return mse(x, y) if self.reduction == "mean" else self._reduced((as_value(x) - y) ** 2)


class L1Loss(_Loss):
    """|x - y|"""

    def __init__(self, reduction="mean"):
        super().__init__(reduction)

    def forward(self, x, y):
        """x and y have the same shape."""
        return self._reduced(sizes_of(as_value(x) - y))


class BCEWithLogitsLoss(_Loss):
    """-y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x))"""

    def __init__(self, reduction="mean"):
        super().__init__(reduction)

    def forward(self, x, y):
        """x: logits. y: targets from 0 to 1."""
        if self.reduction == "mean":
            return binary_cross_entropy(x, y)
        x = as_value(x)
        return self._reduced(softplus(x) - x * y)


class CrossEntropyLoss(_Loss):
    """-log softmax at the class, with torch's arguments: a weight per class, a class to ignore
    (none by default), label_smoothing."""

    def __init__(self, weight=None, *, ignore_index=None, reduction="mean", label_smoothing=0.0):
        super().__init__(reduction)
        self.weight, self.ignore_index, self.label_smoothing = weight, ignore_index, label_smoothing

    def forward(self, x, target):
        """x: (n, classes), or (n, classes, ...) as in torch. target: integers (n, ...), or
        probabilities with the shape of x."""
        x, target = as_value(x), as_value(target)
        is_probable = target.shape == x.shape and target.stored is not None
        is_plain = self.weight is None and self.ignore_index is None and self.label_smoothing == 0
        order = (0, *range(2, x.ndim), 1)
        x = x if x.ndim == 2 else permute(x, order)
        if is_probable:
            target = target if target.ndim == 2 else permute(target, order)
        elif is_plain and self.reduction == "mean":
            return cross_entropy(x, target)
        return self._of_all(x, target, is_probable)

    def _of_all(self, x, target, is_probable):
        """Returns the loss of each row, or its reduction; the mean is weighted by the classes."""
        counts, classes, weight = 1, x.shape[-1], 1 if self.weight is None else as_value(self.weight)
        rest = target.shape
        if not is_probable:
            if self.ignore_index is not None:
                counts = target != self.ignore_index
                target = where(counts, target, 0)
                counts = counts.reshape(*x.shape[:-1], 1)
            target = one_hot(target, classes).reshape(*x.shape)
        likely = (x - logsumexp(x, axis=-1)) * weight
        smooth = self.label_smoothing
        spread = target * (1 - smooth) + smooth / classes if smooth else target
        losses = -sum_of(spread * likely, axis=-1) * counts
        if self.reduction == "mean" and not is_probable:
            weights = sum_of(target * weight, axis=-1) * counts
            return sum_of(losses, keepdims=False) / sum_of(weights, keepdims=False)
        if self.reduction != "none":
            return self._reduced(losses)
        losses = losses.reshape(*(rest if not is_probable else losses.shape[:-1]))
        losses.is_row = losses.ndim == 2 and losses.shape[0] == 1
        return losses


# -------------------------------------------------------------------------------------- attention


class MultiheadAttention(Module):
    """Attention as in torch: one parameter for query, key and value, in this order, or with kdim or
    vdim (columns of key and value) three. Dropout applies to the weights."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False):
        super().__init__()
        for name, given in (("add_bias_kv", add_bias_kv), ("add_zero_attn", add_zero_attn)):
            if given:
                raise Error(64, f"MultiheadAttention has no {name}",
                            "join the row to k and v before attention(q, k, v): concat((k, row), axis=-2)")
        if embed_dim % num_heads != 0:
            raise Error(64, f"{num_heads} heads of {embed_dim} columns: expected a number that divides them")
        if not 0 <= dropout < 1:
            raise Error(64, f"dropout of {dropout}: expected 0 to below 1")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self._seed, self._turn = _random.getrandbits(32) if dropout else 0, 0
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = _random_parameter((3 * embed_dim, embed_dim), math.sqrt(6 / (4 * embed_dim)))
        else:
            for name, columns in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
                bound = math.sqrt(6 / (embed_dim + columns))
                setattr(self, name + "_proj_weight", _random_parameter((embed_dim, columns), bound))
        self.in_proj_bias = _filled_parameter((3 * embed_dim,), "zeros") if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = _filled_parameter((embed_dim,), "zeros")

    def _batches(self, inputs):
        """Returns the inputs as (batch, n, columns); (n, columns) becomes a batch of one."""
        inputs = [as_value(x) for x in inputs]
        axes = {x.ndim for x in inputs}
        if axes == {2}:
            return [x.reshape(1, *x.shape) for x in inputs]
        if axes != {3}:
            raise Error(65, "query, key and value have " + ", ".join(str(x.ndim) for x in inputs) +
                        " axes: expected 3 of each, or 2 without a batch")
        return inputs if self.batch_first else [permute(x, (1, 0, 2)) for x in inputs]

    def _heads(self, x, part):
        """Projects (batch, n, columns) by the given third of the parameters to (batch, heads, n,
        columns / heads)."""
        columns = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        bias, is_one = self.in_proj_bias, self.kdim == self.vdim == self.embed_dim
        weight = self.in_proj_weight[columns] if is_one else getattr(self, "qkv"[part] + "_proj_weight")
        x = linear(x, weight, None if bias is None else bias[:, columns])
        return x.reshape(*x.shape[:-1], self.num_heads, -1).permute(0, 2, 1, 3)

    def _merge_masks(self, query, key, attn_mask, key_padding_mask):
        """Combines both masks to one of two or four axes, as `attention` takes it. None for no
        mask."""
        batch, heads, rows, keys = *query.shape[:3], key.shape[2]
        mask = None if attn_mask is None else as_value(attn_mask)
        if mask is not None:
            if mask.ndim == 3 and mask.shape[0] == batch * heads:
                mask = mask.reshape(batch, heads, *mask.shape[1:])
            if not _mask_fits(mask, rows, keys) or (mask.ndim == 3 and mask.shape[0] not in (1, heads)):
                raise Error(65, f"attn_mask is {format_sizes(mask.shape)}: expected {rows} x {keys}, or "
                                f"{batch * heads} x {rows} x {keys}, which is batch * heads in front")
            mask = 1 - mask if mask.is_bool else mask
        if key_padding_mask is None:
            return mask
        padding = as_value(key_padding_mask)
        if padding.shape != (batch, keys):
            raise Error(65, f"key_padding_mask is {format_sizes(padding.shape)}: expected {batch} x {keys}")
        padding = padding.reshape(batch, 1, 1, keys)
        return _combine_masks(mask, 1 - padding if padding.is_bool else padding)

    def _weights(self, query, key, mask, is_causal):
        """Returns the attention weights (batch, heads, n, m) without dropout."""
        scores = query @ key.T / math.sqrt(query.shape[-1])
        if mask is None or not mask.is_bool:
            return softmax(scores if mask is None else scores + mask, is_causal)
        return softmax(where(mask, scores, -1e30), is_causal) * mask

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        """query: (n, batch, columns). key: (m, batch, kdim). value: (m, batch, vdim). With batch_first the batch
        is the first axis; without a batch: (n, columns).

        attn_mask: (n, m) or (batch * heads, n, m). key_padding_mask: (batch, m). Masks of floats
        are added to the scores. Masks of bools are True where a query may NOT attend to a key, the
        opposite of `attention`. is_causal: query i sees keys 0 to i. `attention` aligns the last
        query with the last key instead, which differs if there are fewer queries than keys.

        Returns (result, weights). The weights are the mean over all heads, (batch, n, m), or with
        average_attn_weights=False those of each head, (batch, heads, n, m), or None with
        need_weights=False. Weights cost time only if their elements are used."""
        is_batch = as_value(query).ndim == 3
        query, key, value = (self._heads(x, i) for i, x in enumerate(self._batches((query, key, value))))
        mask = self._merge_masks(query, key, attn_mask, key_padding_mask)
        rows, keys = query.shape[-2], key.shape[-2]
        if is_causal and rows != keys:
            mask = _combine_masks(mask, arange(keys) <= arange(rows).reshape(rows, 1))
        is_causal, drops = is_causal and rows == keys, self.training and self.dropout > 0
        weights = self._weights(query, key, mask, is_causal) if need_weights or drops else None
        if drops:
            self._turn += 1
            weights = dropout(weights, self.dropout, self._seed, self._turn)
            heads = weights @ value
        else:
            heads = attention(query, key, value, is_causal, mask)
        made = self.out_proj(heads.permute(0, 2, 1, 3).reshape(heads.shape[0], heads.shape[2], self.embed_dim))
        if not need_weights:
            weights = None
        elif average_attn_weights:
            weights = mean_of(weights, axis=1, keepdims=False)
        if is_batch:
            return made if self.batch_first else permute(made, (1, 0, 2)), weights
        return made.reshape(*made.shape[1:]), None if weights is None else weights.reshape(*weights.shape[1:])


class MultiHeadAttention(MultiheadAttention):
    """MultiheadAttention under its older name: the batch is the first axis, and the weights are not
    returned."""

    def __init__(self, embed_dim, num_heads, bias=True):
        super().__init__(embed_dim, num_heads, bias=bias, batch_first=True)

    def forward(self, query, key, value, attn_mask=None, is_causal=False):  # pylint: disable=arguments-differ
        """query: (batch, n, columns). key, value: (batch, m, columns), or all without a batch.
        Masks and is_causal as for `MultiheadAttention`. Returns the result without weights."""
        return super().forward(query, key, value, need_weights=False, attn_mask=attn_mask, is_causal=is_causal)[0]


def clip_grad_norm_(parameters, max_norm):
    """Scales the gradients down if their total norm exceeds max_norm. parameters: several, or one.
    Returns the norm, 1 x 1; 0 without gradients."""
    parameters = [parameters] if isinstance(parameters, Value) else parameters
    parameters = [p for p in parameters if p.grad is not None]
    if not parameters:
        return zeros((1, 1))
    with no_grad():
        # 1, or a power of two that keeps squares of gradients from overflow and underflow.
        scale = apply("scale_for_squares", [concat([largest_of(sizes_of(p.grad)) for p in parameters], axis=-1)])
        squares = (sum_of((p.grad * scale) * (p.grad * scale)) for p in parameters)
        root = sqrt(sum(squares, 0))
        # The norm itself may overflow float32.
        factor = minimum(max_norm * scale / (root + 1e-6 * scale), 1)
        for p in parameters:
            p.grad = p.grad * factor
        return root / scale
