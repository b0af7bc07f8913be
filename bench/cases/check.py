# SPDX-License-Identifier: MIT
"""The check alone: its share of a large product on each device of this machine, and its cost
against reading the operands of a product with a small side, in `mul` and in a program with operands
that stay."""
import json

from cases.configs import find_pocl
from cases.local import prepare
from harness.measure import median, run
from harness.tables import row, side

PRODUCTS = 4
PROGRAM = {
    "rows": "x, w = load('{a}'), load('{b}')\nfor i in range({products}):\n    x = x @ w / {k}\nsave('{c}', x)\n",
    "columns": "w, x = load('{a}'), load('{b}')\nfor i in range({products}):\n    x = w @ x / {k}\nsave('{c}', x)\n",
}


def devices(bench):
    pocl = find_pocl(bench)
    return [("cpu", "the CPU")] + [(pocl, "PoCL")] * (pocl is not None)


def share(bench):
    """Takes both figures from one run, so that variation between runs cancels. A slow device runs
    once."""
    rows, size = [], bench.pick(8192, 512)
    product = prepare(bench, size, size, size)
    for device, name in devices(bench):
        runs = bench.runs if device == "cpu" else 1
        samples = [product.mul(product.words(["--device", device])) for _ in range(runs)]
        reports = [sample["report"] for sample in samples]
        check = [report["verify_seconds"] for report in reports]
        whole = [report["compute_seconds"] + report["verify_seconds"] for report in reports]
        rows.append(row(name, side(f"{product.text} on {name}, one process: the check", values=check),
                        side("product and check of the same run", values=whole), asked=bench.asked("share"),
                        parts={"share": f"{100 * median(check) / median(whole):.2f} %"},
                        note="" if runs > 1 else "one run"))
    return rows


def check_of_program(product, device, which):
    """Returns seconds of check per product in a program in which the large operand stays and the
    small one is the last result."""
    file, report = product.folder / "thin.py", product.folder / "thin.json"
    a, b = product.files()
    file.write_text(PROGRAM[which].format(a=a, b=b, c=product.path("C"), k=product.k, products=PRODUCTS))
    run([product.bench.program, "run", file, "--device", device, "--report", report, "--quiet"])
    found = json.loads(report.read_text())
    return {"seconds": found["ranks"][0]["verify_seconds"] / PRODUCTS}


def thin(bench):
    """Measures the check alone against reading the data it reads."""
    rows, threads = [], bench.threads
    big, small = bench.pick((8192, 64), (512, 16))
    for which, m, k, n in (("rows", small, big, big), ("columns", big, big, small)):
        product = prepare(bench, m, k, n)
        shape = f"{m} x {k} x {n}"
        sides = {"unchecked": lambda: product.mul(product.words(["--device", "cpu", "--verify", "off"])),
                 "stream": lambda: product.stream(threads)}
        for device, _ in devices(bench):
            sides[f"mul {device}"] = lambda device=device: product.mul(product.words(["--device", device]))
            sides[f"run {device}"] = lambda device=device: check_of_program(product, device, which)
        samples = bench.alternate(sides)
        stream = side(f"the sum of all bytes of A, B and C, {threads} threads, in memory", samples["stream"])
        for device, name in devices(bench):
            suffix = "" if device == "cpu" else f", {name}"
            checks = [sample["report"]["verify_seconds"] for sample in samples[f"mul {device}"]]
            rows.append(row(f"{shape}{suffix}", side(f"{shape} on {name}: the check, one process, {threads} threads",
                                                     values=checks), stream, asked=bench.asked("thin")))
            rows.append(row(f"{shape}{suffix}, program",
                            side(f"{shape} on {name}, {PRODUCTS} products of a program, the large operand of all the "
                                 "same one: the check per product", samples[f"run {device}"]), stream,
                            asked=bench.asked("thin")))
        rows.append(row(f"{shape}, whole",
                        side(f"{shape} files in to file out, checked, launch apart", samples["mul cpu"]),
                        side("the same with --verify off", samples["unchecked"])))
    return rows
