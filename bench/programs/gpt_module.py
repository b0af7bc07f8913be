# SPDX-License-Identifier: MIT
"""gpt.py in Python, with torch's names for layers and optimiser: a GPT that learns a text of your own, character by
character. It saves the parameters to gpt_module.safetensors.

    python3 gpt_module.py corpus=book.txt                   # on one machine
    mpirun -q -n 2 python3 gpt_module.py corpus=book.txt    # on two ranks, shared by their speeds

On a slow network, apart=20 lets every machine train a copy for 20 turns, on windows of its own (DiLoCo). NAME=VALUE
sets the other numbers below, too: layers=2. tests/reference.py runs gpt.py, with similar losses.
"""
import math
import sys

import numpy as np

import mpimatmul as mm


class Block(mm.nn.Module):
    """A transformer block: attention to earlier tokens, then an MLP for each token."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = mm.nn.LayerNorm(width)
        self.attention = mm.nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = mm.nn.LayerNorm(width)
        self.inner, self.outer = mm.nn.Linear(width, 4 * width), mm.nn.Linear(4 * width, width)

    def forward(self, x):
        """x (count, length, width)"""
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False, is_causal=True)[0]
        return x + self.outer(mm.gelu(self.inner(self.norm2(x))))


class GPT(mm.nn.Module):
    """Logits of the next token, for each position."""

    def __init__(self, vocabulary, layers, heads, width, length):
        super().__init__()
        self.tokens, self.places = mm.nn.Embedding(vocabulary, width), mm.nn.Embedding(length, width)
        self.blocks = mm.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = mm.nn.LayerNorm(width)
        for table in (self.tokens, self.places):
            table.weight.data = table.weight.data * 0.02

    def forward(self, ids):
        """ids (count, length)"""
        return mm.linear(self.norm(self.blocks(self.tokens(ids) + self.places.weight)), self.tokens.weight)


def read_settings():
    """The values of all settings, as NAME=VALUE on the command line sets them."""
    given = {"corpus": "book.txt", "layers": 6, "heads": 6, "width": 384, "length": 256, "count": 16, "turns": 2000,
             "every": 10, "apart": 0}
    for word in sys.argv[1:]:
        name, _, value = word.partition("=")
        if name not in given:
            sys.exit(f"gpt_module.py: there is no '{name}', but {', '.join(given)}")
        given[name] = value if name == "corpus" else int(value)
    return given.values()


def rate(step, turns):
    """The learning rate: rises over 100 steps, then falls along a cosine."""
    part = (step - 100) / max(turns - 100, 1)
    return 1e-3 * (step + 1) / 101 if step < 100 else 1e-4 + 9e-4 * 0.5 * (1 + math.cos(math.pi * part))


def train(corpus, layers, heads, width, length, count, turns, every, apart):
    """Trains on random windows of the text, drawn anew for each step."""
    with open(corpus, encoding="utf-8", newline="") as file:  # every rank reads it
        letters, tokens = np.unique(list(file.read()), return_inverse=True)
    mm.nn.manual_seed(1)
    model = GPT(len(letters), layers, heads, width, length)
    optimizer = mm.optim.AdamW(model.parameters(), betas=(0.9, 0.99))
    outer = mm.optim.DiLoCo(optimizer, turns=apart) if apart else None

    def closure(ids, answers):
        """The loss of the windows; adds its gradients to the parameters."""
        loss = mm.cross_entropy(model(ids), answers)
        loss.backward()
        mm.nn.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    drawn = np.random.default_rng(1)
    for step in range(turns):
        windows = drawn.integers(0, len(tokens) - length, (count, 1)) + np.arange(length)
        optimizer.lr = rate(step, turns)
        if outer:
            loss = outer.step(closure, tokens[windows], tokens[windows + 1])
        else:
            optimizer.zero_grad()
            loss = closure(tokens[windows], tokens[windows + 1])
            optimizer.step()
        if loss is not None and (outer or step % every == every - 1):
            mm.print(step, loss)
    mm.save_file(model.state_dict(), "gpt_module.safetensors")


if __name__ == "__main__":
    train(*read_settings())
