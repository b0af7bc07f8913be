#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random programs for `mpimatmul run`, and their expected results.

    tests/random_programs.py make FOLDER COUNT SEED [RANKS]
                                                         p0.py, p1.py, ... and the files that they load; with values on
                                                         some of so many ranks
    tests/random_programs.py compare FOLDER COUNT        runs them in reference.py, compares the saved files and the
                                                         printed lines (p0.py.txt, ...)
    tests/random_programs.py mutate FOLDER COUNT SEED    m0.py, ...: programs with something wrong in them

A statement is written if the reference can run it on sizes of up to four axes. Functions with jumps (comparisons,
quotients rounded down, places of largest elements) only get whole numbers, which float32 holds exactly. The tolerance
of a result is the error of the reference itself in float32, which covers programs that shrink or amplify rounding
errors. Three of five programs have gradients of their values. All save their last three values, and end with a
statement of any kind: a loop, a nested one, a definition, a printed line, a break. Files are of float32, of float64
or of both. A float64 result has to be accurate to float64. Programs in which float32 keeps less than two digits are
left out.
"""
import math
import pathlib
import random
import sys

import numpy as np

import reference

SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 16, 23)
LARGEST = 1e4
reference.KIND = reference.Taped


class Writer:
    """A program as it grows: its lines, and its names under the reference."""

    def __init__(self, rng, folder, number, ranks):
        self.rng, self.folder, self.number, self.ranks = rng, folder, number, ranks
        self.lines, self.names, self.exact = [], {**reference.NAMES, **_recorders({}, [])}, set()
        self.count = 0
        # for their files
        self.types = rng.choice((["f4"], ["f4"], ["f4"], ["f8"], ["f8"], ["f4", "f8"]))

    # -- available names

    def matrices(self, test=lambda x: True):
        return [n for n, x in self.names.items() if isinstance(x, np.ndarray) and test(x)]

    def pick(self, test=lambda x: True):
        found = self.matrices(test)
        return self.rng.choice(found) if found else None

    def pick_exact(self):
        found = [n for n in self.matrices() if n in self.exact]
        return self.rng.choice(found) if found else None

    def shape(self, name):
        return self.names[name].shape

    def fresh(self):
        self.count += 1
        return f"{self.rng.choice('abcdghuvwxyz')}{self.count}"

    def size(self):
        return self.rng.choice(SIZES)

    def add(self, text, exact=False):
        """Writes a statement if the reference can run it and all its results may be used further.
        """
        trial = dict(self.names)
        try:
            with np.errstate(all="ignore"):
                exec(text, trial)
        except (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError):
            return False
        made = [n for n, x in trial.items() if isinstance(x, np.ndarray) and x is not self.names.get(n)]
        for name in made:
            x = np.asarray(trial[name])
            if not (2 <= x.ndim <= 4 and x.size and np.isfinite(x).all() and np.abs(x).max() < LARGEST):
                return False
            if exact and not (x == np.round(x)).all():
                return False
        self.names = trial
        self.exact = (self.exact | set(made)) if exact else self.exact - set(made)
        self.lines.append(text)
        return True

    # -- statements

    def new_matrix(self):
        shape = tuple(self.size() for _ in range(self.rng.choice((2, 2, 2, 3, 4))))
        kinds = ("uniform", "normal", "integer", "integer", "identity", "file", "row")
        name, kind = self.fresh(), self.rng.choice(kinds)
        if kind in ("file", "row"):
            path = f"p{self.number}_{name}.npy"
            draw = np.random.default_rng(self.rng.getrandbits(32)).standard_normal
            array = draw(shape[-1:] if kind == "row" else shape)
            np.save(self.folder / path, array.astype(self.rng.choice(self.types)))
            with np.errstate(all="ignore"):
                self.names[name] = reference.load(self.folder / path)
            self.lines.append(f'{name} = load("{path}")')
            return True
        return self.add(f'{name} = generate({shape}, kind="{kind}", seed={self.rng.randrange(1000)})',
                        kind in ("integer", "identity"))

    def literal(self):
        choice = self.rng.choice
        return choice(("2", "0.5", "-1.5", "3", "1 / 3", "sqrt(5)", "2 ** -2", "7 // 2", "-7 % 4", "n", "n * 2 - 1"))

    def elementwise(self):
        x = self.pick()
        y = self.pick(lambda m: m.shape == self.names[x].shape or 1 in m.shape) if self.rng.random() < 0.7 else None
        y = y or self.literal()
        pair = (x, y) if self.rng.random() < 0.5 else (y, x)
        form = self.rng.choice(("{} + {}", "{} - {}", "{} * {}", "{} / (abs({}) + 1)", "maximum({}, {})",
                                "minimum({}, {})", "where(tanh({}) * 0 + 1, {}, 0.25)"))
        text = form.format(*pair)
        exact = all(n in self.exact or n in ("2", "3", "n", "n * 2 - 1", "7 // 2") for n in pair) and "/ (" not in text
        return self.add(f"{self.fresh()} = {text}", exact and "where" not in text)

    def unary(self):
        x = self.pick()
        form = self.rng.choice(("-{}", "neg({})", "exp(minimum({}, 4))", "log(abs({}) + 0.5)", "sqrt(abs({}) + 0.1)",
                                "rsqrt({} * {} + 0.5)", "abs({})", "relu({})", "sigmoid({})", "tanh({})", "silu({})",
                                "softplus({})", "log1p(abs({}))", "logsumexp({}, axis=-1)",
                                "gelu({})", 'gelu({}, approximate="tanh")', "sin({})", "cos({})",
                                "{} ** 2", "(abs({}) + 0.1) ** 0.5", "dropout({}, 0.3, 5, n)"))
        return self.add(f"{self.fresh()} = {form.replace('{}', x)}",
                        x in self.exact and form in ("-{}", "neg({})", "abs({})", "relu({})", "{} ** 2"))

    def jump(self):
        x, y = self.pick_exact(), self.pick_exact()
        if x is None:
            return False
        y = self.rng.choice((y, "2", "3", "-2"))
        form = self.rng.choice(("{x} > {y}", "{x} <= {y}", "{x} == {y}", "{x} != {y}", "{x} // {d}", "{x} % {d}",
                                "where({x} < {y}, {x}, {y})", "argmax({x})", "argmin({x})", "where({x}, 1, {y})"))
        return self.add(f"{self.fresh()} = " + form.format(x=x, y=y, d=self.rng.choice(("2", "3", "-3", "0.5"))), True)

    def product(self):
        x = self.pick()
        y = self.pick(lambda m: m.shape[-2] == self.shape(x)[-1] and m is not self.names[x])
        if y is None:
            other = self.fresh()
            shape = (self.shape(x)[-1], self.size())
            if not self.add(f'{other} = generate({shape}, kind="integer", seed={self.count})', True):
                return False
            y = other
        bias = f"{y}[{':, ' * (self.names[y].ndim - 2)}:1, :]"
        text = self.rng.choice((f"{x} @ {y}", f"{x} @ {y}", f"({y}.T @ {x}.T).T", f"linear({x}, {y}.T)",
                                f"linear({x}, {y}.T, {bias})"))
        return self.add(f"{self.fresh()} = {text}", x in self.exact and y in self.exact)

    def rows(self):
        x = self.pick()
        cols = self.shape(x)[-1]
        vector = self.pick(lambda m: m.shape == (1, cols))
        forms = ["softmax({x})", "softmax({x}, causal=True)", "normalize({x} + 0.25)", "rope({x})",
                 "rope({x}, base=100.0, interleaved=True)"]
        if vector is not None:
            forms += ["rms_norm({x}, {w})", "rms_norm({x}, {w}, eps=0.01)", "layer_norm({x}, {w}, {w}, eps=0.1)"]
        form = self.rng.choice(forms)
        if "rope" in form and cols % 2:
            return False
        return self.add(f"{self.fresh()} = " + form.format(x=x, w=vector))

    def top(self):
        x = self.pick_exact()
        if x is None:
            return False
        values, places, ndim = self.fresh(), self.fresh(), self.names[x].ndim
        if self.rng.random() < 0.4:
            how = self.rng.choice(("", f", axis={self.rng.randrange(-ndim, ndim)}", ", descending=True"))
            return self.add(f"{values} = {self.rng.choice(('sort', 'argsort'))}({x}{how})", True)
        k = self.rng.randint(1, self.shape(x)[-1])
        return self.add(f"{values}, {places} = topk({x}, {k})", True)

    def look_up(self):
        table = self.pick(lambda m: m.ndim == 2)
        if table is None:
            return False
        ids = self.pick(lambda m: m.ndim < 4 and (np.asarray(m) >= 0).all() and
                        (np.asarray(m) < self.shape(table)[0]).all() and (np.asarray(m) == np.round(m)).all())
        if ids is None or ids not in self.exact:
            shape, ids = (self.rng.choice((1, 2, 3)), self.size()), self.fresh()
            drawn = f'generate({shape}, kind="integer", seed={self.count})'
            if not self.add(f"{ids} = abs({drawn}) % {self.shape(table)[0]}", True):
                return False
        if self.rng.random() < 0.5:
            return self.add(f"{self.fresh()} = take({table}, {ids})", table in self.exact)
        if self.rng.random() < 0.5:
            rows = f"take({table} * 2, {ids})"
            return self.add(f"{self.fresh()} = add_at({table}, {ids}, {rows})", table in self.exact)
        return self.add(f"{self.fresh()} = one_hot({ids}, {self.shape(table)[0]})", True)

    def loss(self):
        x = self.pick(lambda m: 2 <= m.ndim <= 4)
        shape, ids = self.shape(x), self.fresh()
        rows = shape[:-1] if len(shape) > 2 else (1, shape[0])
        y = self.pick(lambda m: m.shape == shape and m is not self.names[x])
        return self.add(self.rng.choice((
            f'{ids} = cross_entropy({x}, abs(generate({rows}, kind="integer", seed={self.count})) % {shape[-1]})',
            f"{ids} = mse({x}, {y or x + ' * 0.5'})",
            f"{ids} = binary_cross_entropy(tanh({x}), sigmoid({y or x}))")))

    def reduction(self):
        x = self.pick()
        ndim = self.names[x].ndim
        axis = self.rng.choice(("axis=-1", "axis=-2", "-1", "None", "", f"axis={-ndim}", f"axis={ndim - 1}"))
        operation = self.rng.choice(("sum", "mean", "max", "min", "var", "std", "cumsum"))
        if operation == "cumsum":
            axis = str(self.rng.randrange(-ndim, ndim))
        if operation == "std":
            x = f"{x} + generate({self.shape(x)})"
        return self.add(f"{self.fresh()} = {operation}({x}{', ' if axis else ''}{axis})",
                        x in self.exact and operation in ("sum", "max", "min", "cumsum"))

    def gradient(self):
        """Applies a function with jumps to numbers that are not whole."""
        y, x = self.pick(), self.pick(lambda m: not (np.asarray(m) == np.round(m)).all())
        other = self.pick(lambda m: not (np.asarray(m) == np.round(m)).all())
        if x is None or other is None:
            return False
        s, g = self.fresh(), self.fresh()
        loss = f"{s} = sum({y} * generate({self.shape(y)}, seed={self.count}))"
        pair = f"({x}, {other})" if self.rng.random() < 0.5 and other != x else ""
        return self.add(f"{loss}\n{g}, {g}2 = grad({s}, {pair})" if pair else f"{loss}\n{g} = grad({s}, {x})")

    def move(self):
        x = self.pick()
        shape = self.shape(x)
        axes, count = list(range(len(shape))), math.prod(shape)
        self.rng.shuffle(axes)
        bounds = ", ".join(
            self.rng.choice((":", "1:", f":{n}", f"-{n}:", f":-{self.rng.randint(1, n)}", f"0:{(n + 1) // 2}"))
            for n in shape[:self.rng.randint(1, len(shape))])
        first = self.rng.choice([d for d in range(1, count + 1) if count % d == 0])
        axis = self.rng.randrange(-len(shape), len(shape))
        forms = [f"{x}.T", f"{x}[{bounds}]", f"permute({x}, {tuple(axes)})", f"reshape({x}, ({first}, -1))",
                 f"reshape({x}, (1, {count // first}, {first}))", f"concat(({x}, {x}), {axis})"]
        y = self.pick(lambda m: m.ndim == len(shape) and m.shape[1:] == shape[1:])
        forms.append(f"concat(({x}, {y}, {x}))" if y else f"{x}.T")
        return self.add(f"{self.fresh()} = {self.rng.choice(forms)}", x in self.exact and y in self.exact)

    def attend(self):
        q = self.pick(lambda m: m.ndim > 2 and m.shape[-1] > 1)
        if q is None:
            return False
        shape = list(self.shape(q))
        keys, heads = self.size(), self.rng.choice([d for d in range(1, shape[-3] + 1) if shape[-3] % d == 0])
        k, v = self.fresh(), self.fresh()
        shape[-3], shape[-2] = heads, keys
        mask = f', mask=generate(({self.shape(q)[-2]}, {keys}), kind="integer", seed=3)'
        mask = self.rng.choice(("", "", mask, mask + f" > {self.rng.randint(-3, 3)}"))
        causal = self.rng.choice(("", ", causal=True", ", scale=0.3")) if shape[-2] >= self.shape(q)[-2] else ""
        return (self.add(f"{k} = generate({tuple(shape)}, seed={self.count})") and
                self.add(f"{v} = generate({tuple(shape[:-1]) + (self.size(),)}, seed={self.count})") and
                self.add(f"{self.fresh()} = attention({q}, {k}, {v}{causal}{mask})"))

    def control(self):
        x, name = self.pick(), self.fresh()
        return self.add(self.rng.choice((
            f"{name} = {x}\nfor i in range({self.rng.randint(1, 4)}):\n    {name} = tanh({name} + i * 0.1)",
            f"if n % 2 == 0:\n    {name} = {x} + n\nelif n > 6:\n    {name} = {x} - n\nelse:\n    {name} = {x} * 0.5",
            f"def f{name}(x, k=2, w=None):\n    y = x * k\n    if w == None:\n        return y, k\n"
            f"    return y + w, k\n"
            f"{name}, k{name} = f{name}({x}, {self.rng.choice(('', 'k=3', 'w=1', '0.5, 2'))})".replace(", )", ")"),
            f"{name} = {x}\nfor i in range(6, 0, -2):\n    if i == 4:\n        {name} = {name} / i\n"
            f"    {name} = {name} + {x} * 0.125",
            f"rows = {x}.shape[-2]\n{name} = {x} * (rows // 2 + 1)",
            f'{name} = place({x}, "{self.rng.choice(("rows", "cols", "replicate"))}") * 2',
        )))

    def team(self):
        ranks = tuple(sorted(self.rng.sample(range(self.ranks), self.rng.randint(1, self.ranks))))
        name, x = self.fresh(), self.pick()
        return self.add(f'{name} = place({x}, "{self.rng.choice(("rows", "cols", "replicate"))}", ranks={ranks})',
                        x in self.exact)

    def statement(self, turns):
        """Makes a statement of any kind, possibly with others inside. `turns`: names of the loops
        around it. A file is not written twice in a turn: its name contains those of all loops. The
        name of a checkpoint contains those of the unrolled loops, which have longer names."""
        rng, x, y, depth = self.rng, self.pick(), self.fresh(), len(turns)
        inner = f"{self.rng.choice('ijk')}{self.count % 100}"
        places = "".join(f"_{{{turn}}}" for turn in turns)
        state = f"p{self.number}_{y}{''.join(f'_{{{turn}}}' for turn in turns if len(turn) > 3)}.safetensors"
        kinds = [
            f"print({', '.join(['n', *turns, f'mean({x}, axis=None)'])})",
            f'print("a line", f"n is {{n}}", n / 3)',
            f'print(f"{{n:{rng.choice(("03d", "+,", "^7", "_"))}}} {{n / 3:{rng.choice((".3f", ">9.2e", "g"))}}}", '
            f'f"{{mean({x}):{rng.choice((".6f", ">+14.5e", ".7g"))}}}")',
            f'save(f"p{self.number}_{y}{places}.npy", {x} * {rng.choice(["0.5", *turns, "n"])})',
            f'checkpoint(f"{state}", ({x}, ({x} - 1, {x} * 2)), turn={rng.choice(["n", "7"])})',
            f"assert_close({x}, {x} + 0, 0)",
            f"{y} = {x} * 2",
            f"{y}, k{y} = {x} @ {x}.T, n",
            f"{x} += 0.25",
            f"n = n + 1",
            f"mean({x})",
            f"pass_{y} = ({x}, ({x}, n))",
        ]
        if depth == 0:
            kinds += [f"def f{y}(x, k=2):\n    return x * k"] * 2
            kinds += [f"def f{y}(x, k=2):\n    return x * k\nprint(f{y}(n))"]
        if depth < 3:
            kinds += [f"for {inner} in {over}:\n" for over in ("loop(3)", "loop(1, 3)", "loop(2)")
                      for _ in range(7 if depth == 0 else 2)]
            kinds += [f"for unrolled_{inner} in range(2):\n"] * 3
            kinds += [f"if n {rng.choice(('>', '<='))} {rng.randint(1, 9)}:\n"] * 2
            kinds += [f"for unrolled_{inner} in (1, 2.5):\n", "for i in loop(2, 2):\n"]
        if turns:
            kinds += self.jumps(turns)
        kind = rng.choice(kinds)
        if not kind.endswith(":\n"):
            return kind
        turns = turns if kind.startswith("if") else [*turns, kind.split()[1]]
        body = "\n".join(self.statement(turns) for _ in range(rng.choice((1, 1, 2))))
        text = kind + _indented(body)
        return text + "\nelse:\n" + _indented(self.statement(turns)) if kind.startswith("if") and rng.random() < 0.5 \
            else text

    def jumps(self, turns):
        """Leaves loops and branches by numbers that are known or, in a turn, computed. The numbers
        are whole, because conditions jump."""
        word, x = self.rng.choice(("break", "continue")), self.pick_exact()
        known = f"n {self.rng.choice(('>', '<='))} {self.rng.randint(1, 9)}"
        if x is None or all(len(turn) > 3 for turn in turns):
            return [f"if {known}: {word}"]
        found = f"{self.rng.choice(('sum', 'max', 'min'))}({x}) > {self.rng.randint(-20, 20)}.3"
        both = f"not {found} {self.rng.choice(('and', 'or'))} {known}"
        return [f"if {known}: {word}", f"if {found}: {word}", f"if {both}: {word}", f"if {found}:\n", f"if {both}:\n"]

    def write(self):
        rng = self.rng
        self.lines.append(f"n = {rng.randint(1, 9)}")
        exec(self.lines[0], self.names)
        while len(self.matrices()) < 3:
            self.new_matrix()
        kinds = (self.elementwise, self.elementwise, self.unary, self.jump, self.product, self.product, self.rows,
                 self.top, self.look_up, self.reduction, self.loss, self.move, self.move, self.attend, self.control,
                 self.new_matrix) + (self.team,) * (4 if self.ranks > 1 else 0)
        wanted = rng.randint(3, 14) + len(self.lines)
        for _ in range(200):
            if len(self.lines) >= wanted:
                break
            rng.choice(kinds)()
        if rng.random() < 0.6:
            any(self.gradient() for _ in range(20))
        for i, name in enumerate(self.matrices()[-3:]):
            self.lines.append(f'save(f"p{self.number}_out{{{i}}}.npy", {name})')
        any(self.add(self.statement([])) for _ in range(20))
        return "\n".join(self.lines) + "\n"


def _indented(text):
    return "\n".join("    " + line for line in text.split("\n"))


def _recorders(saved, words):
    """Replaces the writing functions: arrays by the names of files and tensors, words of prints."""
    def checkpoint(file, state, turn):
        def keep(x, name):
            for i, part in enumerate(x if isinstance(x, tuple) else ()):
                keep(part, f"{name}.{i}".lstrip("."))
            if not isinstance(x, tuple):
                saved[f"{file}:{name}"] = np.array(x, dtype=np.float64)
        keep(state, "")
    return {"save": lambda file, x: saved.update({file: np.array(x, dtype=np.float64)}),
            "print": lambda *things, _called=(): words.extend(" ".join(map(str, things)).split()),
            "checkpoint": checkpoint}


def outputs(text, folder, precision):
    """Returns the saved and printed values of a program in that precision: arrays by their names,
    words."""
    reference.PRECISION, kind = precision, reference.KIND
    saved, words = {}, []
    reference.run(text, names={"load": lambda file: reference.load(folder / file), **_recorders(saved, words)})
    reference.KIND, reference.PRECISION = kind, np.float64
    return saved, words


def is_fit(text, folder):
    exactly, _ = outputs(text, folder, np.float64)
    roughly, _ = outputs(text, folder, np.float32)
    return all(np.isfinite(x).all() and np.abs(x - roughly[name]).max() < 1e-2 * max(1.0, np.abs(x).max())
               for name, x in exactly.items())


def make(folder, count, seed, ranks="1"):
    folder.mkdir(exist_ok=True)
    for number in range(count):
        for attempt in range(100):
            text = Writer(random.Random(f"{seed} {number} {attempt}"), folder, number, int(ranks)).write()
            if is_fit(text, folder):
                break
        (folder / f"p{number}.py").write_text(text)


def _load(path, name):
    file, colon, tensor = name.partition(".safetensors:")
    return reference._tensor(path / (file + ".safetensors"), tensor) if colon else np.load(path / name)


def _are_close(found, exactly, roughly):
    """Compares two words: equal, or numbers that agree in six digits."""
    try:
        numbers = [float(word) for word in (found, exactly, roughly)]
    except ValueError:
        return found == exactly
    scale = max(1.0, abs(numbers[1]))
    return abs(numbers[0] - numbers[1]) <= 2e-5 * scale + 30 * abs(numbers[2] - numbers[1])


def compare_words(path, exactly, roughly):
    """Returns the number of programs with wrong lines: 0 or 1."""
    found = path.read_text().split()
    if len(found) == len(exactly) and all(map(_are_close, found, exactly, roughly)):
        return 0
    print(f"{path.name}: printed {' '.join(found)}, expected {' '.join(exactly)}")
    return 1


def compare(folder, count):
    wrong, saved, doubles, printed, worst, where = 0, 0, 0, 0, 0.0, ""
    for number in range(count):
        text = (folder / f"p{number}.py").read_text()
        exactly, words = outputs(text, folder, np.float64)
        roughly, rough_words = outputs(text, folder, np.float32)
        printed += len(words)
        wrong += compare_words(folder / f"p{number}.py.txt", words, rough_words)
        for name, x in exactly.items():
            scale, y = max(1.0, np.abs(x).max()), roughly[name]
            try:
                found = _load(folder, name)
            except (OSError, KeyError) as error:
                print(f"p{number}.py: {error}")
                wrong += 1
                continue
            saved += 1
            # In double the same errors are smaller by 2^-29.
            is_double = found.dtype == np.float64
            doubles += is_double
            least, factor = (1e-13, 100 * 2.0 ** -29) if is_double else (2e-5, 30)
            error = np.abs(found - x).max() / scale if found.shape == x.shape else math.inf
            if not error <= least + factor * np.abs(x - y).max() / scale:
                print(f"p{number}.py: {name} {found.shape}, expected {x.shape}: off by {error:.3g} of its size")
                wrong += 1
            elif error > worst:
                worst, where = error, f"p{number}.py"
    print(f"{count} programs, {saved} results ({doubles} in float64), {printed} words, {wrong} wrong; "
          f"largest error {worst:.3g} of a result's size ({where})")
    return 1 if wrong else 0


BROKEN = ("(", ")", "[", "]", ",", ":", "=", "@", "+", "-", "**", ".T", "'", '"', "#", "\n", "    ", "\t", "0", "-1",
          "999999999999", "1e400", "None", "while", "lambda x: x", "import os", "[1, 2]", "{", "}", "f\"{x}\"", "\\",
          "\x00", "\xff", "\u20ac", ";", "x", "reshape", "softmax(", "for i in range(9):\n",
          "def f(x):\n    return f(x)\n", "return", ".shape", "::", "[0]")


def mutate(folder, count, seed):
    """Writes texts of programs with pieces taken out, doubled, swapped or inserted."""
    rng = random.Random(seed)
    texts = [path.read_text() for path in sorted(folder.glob("p*.py"))]
    for number in range(count):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 4)):
            at, length = rng.randrange(len(text) + 1), rng.choice((1, 1, 2, 5, 20, 100))
            piece = text[at:at + length]
            text = rng.choice((text[:at] + text[at + length:], text[:at] + piece + text[at:], text[:at],
                               text[:at] + rng.choice(BROKEN) + text[at:],
                               text[:at] + rng.choice(BROKEN) + text[at + length:]))
        (folder / f"m{number}.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    action, where_to, how_many, *more = sys.argv[1:]
    job = {"make": make, "compare": compare, "mutate": mutate}[action]
    sys.exit(job(pathlib.Path(where_to), int(how_many), *more))
