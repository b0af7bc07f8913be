# SPDX-License-Identifier: MIT
"""Rows of figures, and their files: JSON per case, and one CSV and Markdown table of all cases.

A row compares a figure of the program with another: `figure` and `against` each name the counted
quantity. `ratio` is the first over the second, or the median of `pairs`, the ratios of the turns.
`asked` is the required ratio ("": none).
"""
import csv
import io
import json

from harness.measure import PHASES, is_unstable, median, median_phases, seconds_of

COLUMNS = ("case", "row", "figure_counted", "figure", "unit", "figure_min", "figure_max", "figure_unstable",
           "against_counted", "against", "against_min", "against_max", "against_unstable", "ratio",
           "ratio_min", "ratio_max", "asked", *(f"{name}_seconds" for name in PHASES),
           "parts", "note", "date", "commit", "old_commit")


def side(counted, samples=None, value=None, values=None):
    """One side of a row: from samples, plain values, or a computed value."""
    if values is None:
        values = seconds_of(samples) if samples is not None else [value]
    return {"counted": counted, "value": median(values), "min": min(values), "max": max(values), "values": values,
            "unstable": is_unstable(values), "phases": median_phases(samples or [])}


def row(name, figure, against=None, unit="s", asked="", parts=None, note="", pairs=None):
    """parts: {name: text}, the components of a computed side."""
    ratio = figure["value"] / against["value"] if against and against["value"] else None
    return {"row": name, "figure": figure, "against": against, "unit": unit, "ratio": median(pairs) if pairs else ratio,
            "pairs": pairs or [], "asked": asked, "parts": parts or {}, "note": note}


# ------------------------------------------------------------------------------------------------------------- texts

def number(value, unit):
    if unit == "ms":
        return f"{value:.1f} ms"
    if unit == "s":
        return f"{value:.3f} s" if value >= 0.01 else f"{value * 1e3:.2f} ms"
    return f"{value:.2f} {unit}".strip()


def side_text(one, unit):
    if not one:
        return "-"
    mark = " (unstable)" if one["unstable"] else ""
    return f"{number(one['value'], unit)}{mark}: {one['counted']}"


def phases_text(phases):
    return ", ".join(f"{name} {seconds:.3f}" for name, seconds in phases.items())


def parts_text(parts):
    return ", ".join(f"{name} {text}" for name, text in parts.items())


def ratio_text(one):
    """Returns the ratio of a row as text, with several pairs their minimum and maximum, too."""
    pairs = one.get("pairs", [])
    if one["ratio"] is None:
        return "-"
    if len(pairs) < 2:
        return f"{one['ratio']:.2f}"
    return f"{one['ratio']:.3f} ({min(pairs):.2f} to {max(pairs):.2f})"


def commits_text(machine):
    old = machine.get("against")
    return f"commit {machine['commit']}" + (f" against {old['commit']}" if old else "")


def machine_text(machine):
    """Returns such as "Intel(R) Xeon(R) Processor, OpenBLAS 0.3.21 (Haswell),
    OPENBLAS_CORETYPE=Haswell set". Results of earlier versions lack the library."""
    words = [machine["cpu"]]
    if machine.get("blas"):
        words.append(machine["blas"])
    if machine.get("kernels_lack"):
        words.append(f"which leaves {machine['kernels_lack']} unused")
    if machine.get("openblas_kept"):
        words.append(f"{machine['openblas_kept']} set")
    return ", ".join(words)


def markdown(results):
    """Returns the table of all cases, with the machines below it."""
    lines = ["| case | figure: what is counted | against: what is counted | ratio | asked | phases and parts |",
             "|:--|:--|:--|--:|--:|:--|"]
    machines = []
    for result in results:
        machine = result["machine"]
        if machine not in machines:
            machines.append(machine)
        mark = f" [{machines.index(machine) + 1}]"
        if result["status"] != "measured":
            lines.append(f"| `{result['case']}`{mark} | {result['status']}: {result['reason']} | - | - | - | |")
        for one in result["rows"]:
            details = "; ".join(filter(None, [phases_text(one["figure"]["phases"]), parts_text(one["parts"]),
                                              one["note"]]))
            lines.append(f"| `{result['case']}` {one['row']}{mark} | {side_text(one['figure'], one['unit'])} "
                         f"| {side_text(one['against'], one['unit'])} | {ratio_text(one)} "
                         f"| {one['asked'] or '-'} | {details} |")
    lines.append("")
    for place, machine in enumerate(machines, 1):
        lines.append(f"[{place}] {machine['date']}, {commits_text(machine)}, {machine_text(machine)}, "
                     f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; medians of "
                     f"{machine['runs']} after {machine['warmup']}{', tiny sizes' if machine['quick'] else ''}.")
    return "\n".join(lines) + "\n"


def csv_row(result, one):
    """Returns a line in the order of COLUMNS."""
    figure, against, machine = one["figure"], one["against"] or {}, result["machine"]
    pairs = one.get("pairs") or [""]
    return [result["case"], one["row"], figure["counted"], figure["value"], one["unit"], figure["min"], figure["max"],
            int(figure["unstable"]), against.get("counted", ""), against.get("value", ""), against.get("min", ""),
            against.get("max", ""), int(against.get("unstable", False)),
            "" if one["ratio"] is None else one["ratio"], min(pairs), max(pairs), one["asked"],
            *(figure["phases"].get(name, "") for name in PHASES), parts_text(one["parts"]), one["note"],
            machine["date"], machine["commit"], machine.get("against", {}).get("commit", "")]


def csv_text(results):
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for result in results:
        writer.writerows(csv_row(result, one) for one in result["rows"])
    return stream.getvalue()


# ------------------------------------------------------------------------------------------------------------- files

def load(folder, order):
    """Returns the newest result of every case in `order` that has one."""
    files = [folder / f"{name}.json" for name in order]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def store_case(folder, result):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{result['case']}.json").write_text(json.dumps(result, indent=2) + "\n")


def store_all(folder, order):
    """Writes results.json, results.csv and table.md from the files of the cases."""
    results = load(folder, order)
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    (folder / "results.csv").write_text(csv_text(results))
    (folder / "table.md").write_text(markdown(results))
