# SPDX-License-Identifier: MIT
"""Pictures by gnuplot: configs.svg, speed over size, a line per configuration; curve.svg, losses over turns."""
import json
import shutil
import subprocess

SCRIPT = """
set terminal svg size 800,500 dynamic background rgb 'white'
set output {output}
set xlabel {x}
set ylabel {y}
{more}
set grid
plot {lines}
"""
AXES = {"configs": ("size n of n x n x n", "GFLOP/s", "set logscale x 2\nset yrange [0:*]\nset key bottom right"),
        "curve": ("turn", "loss", "set key top right")}


def quote(text):
    return "'" + str(text).replace("'", "''") + "'"


def speeds(rows):
    """Returns {configuration: [(n, GFLOP/s)]}. OpenBLAS is the other side of the rows."""
    lines = {}
    for row in rows:
        for name, one in ((row["configuration"], row["figure"]), ("OpenBLAS, compute only", row["against"])):
            if one:
                lines.setdefault(name, {})[row["n"]] = 2 * row["n"] ** 3 / one["value"] / 1e9
    return {name: sorted(found.items()) for name, found in lines.items()}


def losses(rows):
    return rows[0]["curves"]


def draw_one(folder, case, points):
    """Returns the path of a case's picture, or the reason why there is none."""
    source, target = folder / f"{case}.json", folder / f"{case}.svg"
    rows = json.loads(source.read_text())["rows"] if source.exists() else []
    if not rows:
        return f"no picture: case {case} was not measured"
    if not shutil.which("gnuplot"):
        return "no picture: gnuplot is not installed"
    script, data = [], []
    for name, line in points(rows).items():
        script.append(f"'-' with linespoints title {quote(name)}")
        data += [f"{x} {y}" for x, y in line] + ["e"]
    x, y, more = AXES[case]
    text = SCRIPT.format(output=quote(target), x=quote(x), y=quote(y), more=more, lines=", ".join(script))
    found = subprocess.run(["gnuplot"], input=text + "\n".join(data) + "\n", capture_output=True, text=True)
    return f"picture: {target}" if found.returncode == 0 else f"no picture: gnuplot: {found.stderr.strip()}"


def draw(folder):
    return "\n".join(draw_one(folder, case, points) for case, points in (("configs", speeds), ("curve", losses)))
