# SPDX-License-Identifier: MIT
"""Training: seconds per turn, between the lines that a program prints. Steps of the peers run in
memory, compiled before."""
import json
import os
from itertools import pairwise

from cases.balance import KERNELS, with_kernels
from harness.builds import Figure, measure_against
from harness.lab import Lab
from harness.measure import Failed, Skip, jax, median, run
from harness.tables import row, side

STEP = "a step of bench/programs/gpt.py"
ONE_CORE = ["mpirun", "-q", "--bind-to", "core", "-n"]
CORPUS = os.environ.get("MMUL_CORPUS", "/usr/share/common-licenses/GPL-3")  # every Debian has it


class Training:
    """A program of bench/programs that prints a line per turn."""

    def __init__(self, bench, name, turns, settings):
        self.bench, self.file = bench, bench.root / "bench" / "programs" / f"{name}.py"
        self.settings = [f"corpus={CORPUS}", *turns, *settings]
        self.metrics = bench.folder / "metrics.jsonl"

    def words(self, options=()):
        return [self.bench.program, "run", self.file, *self.settings, f"file={self.bench.folder}/state.safetensors",
                f"result={self.bench.folder}/result.npy", "--device", "cpu", "--quiet", "--metrics", self.metrics,
                *options]

    def once(self, argv, env=None):
        """seconds: the median of the turns from the second on."""
        (self.bench.folder / "state.safetensors").unlink(missing_ok=True)
        run(argv, env=env)
        lines = [json.loads(line) for line in self.metrics.read_text().splitlines()]
        at = list({line["turn"]: line["seconds"] for line in lines}.values())
        if len(at) < 3:
            raise Failed(f"{self.file.name} has printed values in {len(at)} turns")
        return {"seconds": median([after - before for before, after in pairwise(at)][1:] or [at[1] - at[0]])}

    def ranks(self, count, options=(), env=None):
        return self.once([*ONE_CORE, count, *self.words(options)], env)

    def alone(self, options=(), env=None):
        return self.once(self.words(options), env)


class Text(Training):
    """A program that is written here, without settings."""

    def __init__(self, bench, name, text):
        super().__init__(bench, name, (), ())
        self.file = bench.folder / f"{name}.py"
        self.file.write_text(text)

    def words(self, options=()):
        return [self.bench.program, "run", self.file, "--device", "cpu", "--quiet", "--metrics", self.metrics, *options]


def sizes_of(bench):
    return bench.pick({"layers": 6, "heads": 6, "width": 384, "length": 256, "count": 16},
                      {"layers": 1, "heads": 2, "width": 16, "length": 8, "count": 4})


def training(bench, name="gpt", turns=("turns=7", "every=1", "saves=1000")):
    return Training(bench, name, turns, [f"{key}={value}" for key, value in sizes_of(bench).items()])


def run_torch(bench, gpt, turns):
    """Runs peers/torch_gpt.py by the Python that MMUL_TORCH_PYTHON names, or this one. Returns its
    lines; the last one is JSON."""
    python = os.environ.get("MMUL_TORCH_PYTHON", bench.python)
    try:
        run([python, "-c", "import torch"])
    except (Failed, OSError):
        raise Skip(f"'{python}' has no torch: MMUL_TORCH_PYTHON names one that has") from None
    settings = [word for word in gpt.settings if word.partition("=")[0] in sizes_of(bench)]
    peer = bench.root / "bench" / "peers" / "torch_gpt.py"
    return run([python, peer, CORPUS, turns, *settings])[1].splitlines()


def torch(bench, gpt):
    return json.loads(run_torch(bench, gpt, 7)[-1])


def against_peers(bench):
    """One rank, all threads."""
    gpt, rows = training(bench), []
    peers = {"jax": lambda: jax(bench, "gpt", *sizes_of(bench).values(), 76), "torch": lambda: torch(bench, gpt)}
    for name, peer in peers.items():
        try:
            samples = bench.alternate({"run": gpt.alone, name: peer})
        except Skip as reason:
            bench.say(f"learn {name}: {reason}")
            continue
        rows.append(row(name, side(f"{STEP}: one rank, {bench.threads} threads, checks on, launch apart",
                                   samples["run"]), side(f"the same step in {name}, in memory", samples[name]),
                        asked=bench.asked(f"learn {name}")))
    return rows


def against_itself(bench):
    gpt = training(bench)
    one_core = Figure(f"{STEP}: one rank of one core", lambda: gpt.ranks(1, env={"OMP_NUM_THREADS": "1"}))
    rows = measure_against(bench, "2 ranks", Figure(f"{STEP}: two ranks of one core", lambda: gpt.ranks(2)), one_core)
    rows += measure_against(bench, "checks", Figure(f"{STEP}: one rank, checks on", gpt.alone),
                            Figure("the same with --verify off", lambda: gpt.alone(["--verify", "off"])))
    return rows


def mixed(bench):
    """The second rank has slower kernels, without given weights."""
    gpt, rows = training(bench), []
    for kernels in KERNELS[:2]:
        slower = with_kernels(kernels)
        rank = ["-n", 1]

        def both(slower=slower):
            return gpt.once([*ONE_CORE[:-1], *rank, *gpt.words(), ":", *rank, *slower, *gpt.words()])

        def ideal(slower=slower):
            first, second = (gpt.once([*ONE_CORE, 1, *words, *gpt.words()], {"OMP_NUM_THREADS": "1"})["seconds"]
                             for words in ((), slower))
            return {"seconds": 1 / (1 / first + 1 / second)}
        figure = Figure(f"{STEP}: two ranks, the second with kernels for {kernels}", both)
        rows += measure_against(bench, kernels, figure,
                                Figure("the sum of the speeds of both, each alone", ideal, is_ours=False))
    return rows


def hosts(bench):
    """Two emulated hosts of one core against one of them: gradients in each turn, or local SGD."""
    rows = []
    cases = (("2 hosts", "1gbit", training(bench), STEP),
             ("apart", "100mbit", training(bench, "diloco", ("outers=3", f"inners={bench.pick(20, 2)}", "saves=1000")),
              "an outer step of bench/programs/diloco.py, 20 turns"))
    with Lab(bench, 2) as lab:
        for name, rate, program, text in cases:
            lab.rate(rate)
            two, one = (Figure(words, lambda count=count, program=program: program.once(
                [*lab.mpirun(count), *program.words()], lab.env()))
                for words, count in ((f"{text}: two hosts of one core, {rate}", 2), ("one of them", 1)))
            rows += measure_against(bench, name, two, one)
        lab.rate("100mbit")
        staged, whole = (Figure(f"{STEP}: {words}, 100mbit", lambda program=program: program.once(
            [*lab.mpirun(2), *program.words()], lab.env()))
            for words, program in (("two hosts of one core in a pipeline", training(bench, "pipeline")),
                                   ("both on their windows", training(bench))))
        rows += measure_against(bench, "pipeline", staged, whole)
    return rows


SMALL = """x = generate((8, 8), kind="normal", seed=1)
for step in loop({turns}):
    for i in range(5):
        x = tanh(x + 0.1)
    if step % {every} == 0:
        print(sum(x))
save("{folder}/x.npy", x)
"""


OPTIMISER = """w = generate(({rows}, 4096), kind="normal", seed=1)
g = generate(({rows}, 4096), kind="normal", seed=2)
state = adamw_state(w)
for step in loop(40):
    state = adamw(state, g, turn=step, rate=0.001)
    print("x", sum(state[0][0:1, 0:1]))
"""


def optimiser(bench):
    """AdamW over as many weights as that GPT has: it reads four arrays and writes three."""
    rows = bench.pick(2588, 4)
    program = Text(bench, "adamw", OPTIMISER.format(rows=rows))

    def copied():
        found = json.loads(run([bench.peer("copy"), 7 * rows * 4096, bench.threads, 5, 2])[1])
        return {"seconds": median(found["seconds"])}
    figure = Figure(f"a turn of adamw over {rows * 4096 / 1e6:.1f} million weights", program.alone)
    return measure_against(bench, "adamw", figure, Figure(f"memcpy of 7 such arrays, {bench.threads} threads", copied,
                                                          is_ours=False))


PYTHON = """import time
import mpimatmul as mm
mm.init(device="cpu")
x = mm.generate((8, 8), kind="normal", seed=1)
for turn in range({turns} + 20):
    began = time.monotonic() if turn == 20 else began if turn else 0
    for _ in range(5):
        x = mm.tanh(x + 0.1)
    mm.persist(x)
if mm.rank() == 0:
    print((time.monotonic() - began) / {turns})
"""


def python(bench):
    """The same ten operations as `small`, computed in each turn of Python's own loop."""
    turns, rows = bench.pick(2000, 20), []
    script = bench.folder / "small_python.py"
    script.write_text(PYTHON.format(turns=turns))
    env = {"PYTHONPATH": str(bench.root / "src" / "python"),
           "MPIMATMUL_LIBRARY": str(bench.build / "lib" / "libmpimatmul.so.0")}
    looped = Text(bench, "small", SMALL.format(turns=10 * turns, every=turns, folder=bench.folder))
    for label, launch in (("python", []), ("python 2 ranks", [*ONE_CORE, 2])):
        def step(launch=launch):
            return {"seconds": float(run([*launch, bench.python, script], env=env)[1])}

        def turn(launch=launch):
            return {"seconds": looped.once([*launch, *looped.words()])["seconds"] / turns}
        rows += measure_against(bench, label, Figure("a step of ten operations on 8 x 8 in Python, computed", step),
                                Figure("a turn of `loop`", turn))
    return rows


def small(bench):
    """Turns of ten operations on 8 x 8, and the memory of the last of many."""
    turns, rows = bench.pick(10000, 100), []
    program = Text(bench, "small", SMALL.format(turns=turns, every=turns // 10, folder=bench.folder))
    for label, launch in (("small", []), ("small 2 ranks", [*ONE_CORE, 2])):
        def turn(launch=launch):
            sample = program.once([*launch, *program.words()])
            return {"seconds": sample["seconds"] / (turns // 10)}
        samples = bench.alternate({label: turn})
        rows.append(row(label, side("a turn of ten operations on 8 x 8", samples[label]),
                        asked=bench.asked(f"learn {label}")))
    return rows


def learn(bench):
    rows = small(bench) + optimiser(bench) + python(bench) + against_itself(bench) + against_peers(bench) + mixed(bench)
    try:
        return rows + hosts(bench)
    except Skip as reason:
        bench.say(f"learn hosts: {reason}")
        return rows


def curve(bench):
    """The same initial weights, batches and rates: losses on both sides, and their distance."""
    turns = bench.pick(300, 30)
    gpt = training(bench, turns=(f"turns={turns}", "every=10", "saves=100000"))
    theirs = [tuple(map(float, line.split())) for line in run_torch(bench, gpt, turns)[:-1]]
    gpt.once(gpt.words())
    lines = [json.loads(line) for line in gpt.metrics.read_text().splitlines()]
    ours = [(line["turn"], line["value"]) for line in lines if line["name"] == "loss"]
    if [turn for turn, _ in ours] != [turn for turn, _ in theirs]:
        raise Failed(f"losses of {len(ours)} turns, of {len(theirs)} by torch")
    apart = max(abs(one - other) / other for (_, one), (_, other) in zip(ours, theirs))
    made = row("losses", side(f"largest difference of the losses of {turns} turns of bench/programs/gpt.py",
                              value=100 * apart), unit="%", asked=bench.asked("curve losses"),
               parts={"the last ones": f"{ours[-1][1]:.4f} and {theirs[-1][1]:.4f} of torch"})
    return [{**made, "curves": {"mpimatmul": ours, "torch": theirs}}]
