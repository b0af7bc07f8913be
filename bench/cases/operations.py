# SPDX-License-Identifier: MIT
"""Operations of programs on the CPU, in memory: their cost against moving their bytes, and
attention."""
import json

from harness.machine import require_memory
from harness.measure import run
from harness.tables import row, side


def bandwidth_rows(bench, dtype):
    """Alternates each operation with a plain copy, and scales the copy's seconds to as many bytes.
    """
    rows, cols = bench.pick((65536, 1024), (256, 128))
    of_type = "" if dtype == "float32" else f" in {dtype}"
    cols //= 1 if dtype == "float32" else 2
    require_memory(0, 4 * 4 * rows * cols)
    _, output = run([bench.peer("rows"), dtype, rows, cols, bench.threads, bench.runs])
    found = []
    for one in json.loads(output)["operations"]:
        name = one["operation"] + of_type
        copy = [seconds * one["bytes"] / one["copy"]["bytes"] for seconds in one["copy"]["seconds"]]
        text = f"{name}, {rows} x {cols}, {bench.threads} threads, in memory"
        found.append(row(name, side(text, values=one["seconds"]),
                         side("memcpy of as many bytes by as many threads", values=copy),
                         asked=bench.asked(f"rows {name}"),
                         pairs=[ours / theirs for ours, theirs in zip(one["seconds"], copy)]))
    return found


def attention_row(bench, dtype):
    rows, heads, depth = bench.pick((8192, 8, 64), (256, 2, 16))
    of_type, bytes_each = ("", 4) if dtype == "float32" else (f" in {dtype}", 8)
    require_memory(0, bytes_each * heads * rows * rows * 2)

    def ours():
        _, output = run([bench.peer("rows"), "attention", dtype, rows, heads, depth, bench.threads])
        found = json.loads(output)
        return {"seconds": found["seconds"][0], "peer": found}

    def numpy():
        script = bench.root / "bench" / "peers" / "numpy_attention.py"
        _, output = run([bench.python, script, rows, heads, depth, dtype],
                        env={"OPENBLAS_NUM_THREADS": str(bench.threads)})
        return {"seconds": json.loads(output)["seconds"][0]}

    samples = bench.alternate({"ours": ours, "numpy": numpy})
    scores = bytes_each * heads * rows * rows
    held = max(sample["peer"]["held_bytes"] for sample in samples["ours"])
    parts = {"memory beside operands and result": f"{held / 2**20:.1f} MiB, {held / scores:.4f} of all scores"}
    text = f"attention{of_type}, {heads} heads of {depth}, sequence {rows}, {bench.threads} threads, in memory"
    return row(f"attention{of_type}", side(text, samples["ours"]),
               side("numpy, the same threads, computation only", samples["numpy"]), parts=parts,
               asked=bench.asked(f"rows attention{of_type}"))


def rows(bench):
    types = ("float32", "float64")
    return [*(one for dtype in types for one in bandwidth_rows(bench, dtype)),
            *(attention_row(bench, dtype) for dtype in types)]
