# SPDX-License-Identifier: MIT
"""Sizes and configurations of this machine, each against OpenBLAS on all its cores."""
import json

from harness.machine import require_memory
from harness.measure import run
from harness.tables import row, side


def find_pocl(bench):
    """Returns this CPU's OpenCL device, as --device names it, or None."""
    _, output = run([bench.program, "devices", "--json"])
    for device in json.loads(output)["devices"]:
        if device["platform"].startswith("Portable Computing Language"):
            return device["id"]
    return None


def configurations(bench, pocl):
    """Returns {name: words from mpirun to the options of `mpimatmul bench`}, and a note on missing
    ones."""
    words = [bench.program, "bench"]
    found = {"1 rank": words,
             "2 ranks": ["mpirun", "-q", "-n", 2, *words, "--device", "cpu"]}
    if pocl is None:
        return found, "no PoCL device here"
    found["cpu + PoCL"] = ["mpirun", "-q", "-n", 1, *words, "--device", "cpu", "OPTIONS", ":",
                           "-n", 1, *words, "--device", pocl]
    return found, ""


def measure(words, size, baseline):
    """Runs `mpimatmul bench` with one counted run after a warm-up."""
    options = ["--sizes", size, "--runs", 1, "--warmup", 1, "--format", "json", "--quiet", "--baseline", baseline]
    argv = []
    for word in [*words, "OPTIONS"]:
        argv += options if word == "OPTIONS" else [word]
    found = json.loads(run(argv)[1])["rows"]
    phases = {key: value for key, value in found[-1].items() if key.endswith("_seconds")}
    return {"seconds": found[-1]["seconds"][0], "report": phases,
            "baseline_seconds": found[0]["seconds"][0] if baseline == "on" else None}


def configs(bench):
    rows = []
    found, note = configurations(bench, find_pocl(bench))
    for size in bench.pick((1024, 2048, 4096, 8192), (128, 256)):
        require_memory(12 * size * size, 36 * size * size)
        sides = {name: (lambda words=words, name=name: measure(words, size, "on" if name == "1 rank" else "off"))
                 for name, words in found.items()}
        samples = bench.alternate(sides)
        baseline = side("compute only: OpenBLAS on all cores",
                        values=[sample["baseline_seconds"] for sample in samples["1 rank"]])
        for name in found:
            one = row(f"{size}^3 {name}", side(f"{size}^3 files in to file out, launch apart", samples[name]), baseline,
                      asked=bench.asked(f"configs {size} {name}"), note=note)
            rows.append({**one, "configuration": name, "n": size})
    return rows
