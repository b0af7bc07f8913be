# SPDX-License-Identifier: MIT
"""A training step of a small model in Python, replayed (`mm.compile`) and not, beside torch's:
Python's own time counts. The last losses are compared if the first ones agree."""
import json
import os

from harness.measure import Failed, Skip, run
from harness.tables import row, side

STEP = "a step of an MLP 64-128-10 on 64 rows in Python, AdamW"
ONE_CORE = ["mpirun", "-q", "--bind-to", "core", "-n"]


def find_torch(bench):
    python = os.environ.get("MMUL_TORCH_PYTHON", bench.python)
    try:
        run([python, "-c", "import torch"])
    except (Failed, OSError):
        raise Skip(f"'{python}' has no torch: MMUL_TORCH_PYTHON names one that has") from None
    return python


def replay(bench):
    script, steps = bench.root / "bench" / "peers" / "small_step.py", bench.pick(280, 30)
    env = {"PYTHONPATH": str(bench.root / "src" / "python"),
           "MPIMATMUL_LIBRARY": str(bench.build / "lib" / "libmpimatmul.so.0")}

    def step(python, way, launch=()):
        return lambda: json.loads(run([*launch, python, script, way, steps], env=env)[1])
    sides = {"replayed": step(bench.python, "replayed"), "not replayed": step(bench.python, "plain"),
             "2 ranks": step(bench.python, "replayed", [*ONE_CORE, 2])}
    try:
        sides["torch"] = step(find_torch(bench), "torch")
    except Skip as reason:
        bench.say(f"replay: {reason}")
    samples = bench.alternate(sides)
    peer = samples.pop("torch", None)
    rows = []
    for name, found in samples.items():
        pairs = [a["seconds"] / b["seconds"] for a, b in zip(found, peer)] if peer else None
        rows.append(row(name, side(f"{STEP}: {name}", found), peer and side("the same in torch", peer),
                        asked=bench.asked(f"replay {name}"), pairs=pairs,
                        parts={"loss": f"{found[-1]['loss']:.7f}", "start": f"{found[-1]['start']:.2f} s"}))
    return rows
