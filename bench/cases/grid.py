# SPDX-License-Identifier: MIT
"""A product of grids in place on described machines: predicted, not measured."""
import json

from harness.measure import Failed, run
from harness.tables import row, side


def planner(bench):
    path = bench.program.parent.parent / "bench" / "grid_plan"
    if not path.exists():
        raise Failed(f"peer grid_plan is not built there: make {path.relative_to(path.parents[3])}")
    return path


def grid4096(bench):
    """Returns the predicted run: moves and product overlap, the check follows them."""
    cluster = bench.root / "bench" / "clusters" / "cluster-100gbit.json"
    _, output = run([planner(bench), cluster])
    found = json.loads(output)
    ours = found["formula"]
    rows, cols = found["mesh"]
    text = f"262144^3 with A and B in place as grids on 4,096 described ranks, {rows} x {cols} of them, predicted"
    grid = " x ".join(map(str, ours["grid"]))
    bound = side(f"SUMMA by formula (plan/simulate/grid.h) on {grid} of its nodes: {ours['bytes'] / 2**30:.1f} GiB "
                 "in and out of each at the link's rate, perfect overlap, no check", value=ours["seconds"])
    parts = {"check": f"{found['check_seconds']:.3f} s", "planning": f"{found['plan_seconds']:.3f} s"}
    unchecked = found["seconds"] - found["check_seconds"]
    return [row("checked", side(text, value=found["seconds"]), bound, asked=bench.asked("grid4096 checked"),
                parts=parts, note="links at their rate, as for mul: checksums and MPI cost a leader nothing"),
            row("without the check", side(text + ", --verify off", value=unchecked), bound)]
