# SPDX-License-Identifier: MIT
"""configs.svg by gnuplot: speed over size, a line per configuration."""
import json
import shutil
import subprocess

SCRIPT = """
set terminal svg size 800,500 dynamic background rgb 'white'
set output {output}
set xlabel 'size n of n x n x n'
set ylabel 'GFLOP/s'
set logscale x 2
set yrange [0:*]
set key bottom right
set grid
plot {lines}
"""


def quote(text):
    return "'" + str(text).replace("'", "''") + "'"


def points(rows):
    """{configuration: [(n, GFLOP/s)]} of the case `configs`; OpenBLAS is the other side of the rows."""
    lines = {}
    for row in rows:
        for name, one in ((row["configuration"], row["figure"]), ("OpenBLAS, compute only", row["against"])):
            if one:
                lines.setdefault(name, {})[row["n"]] = 2 * row["n"] ** 3 / one["value"] / 1e9
    return {name: sorted(found.items()) for name, found in lines.items()}


def draw(folder):
    """Why there is no picture, or where it is."""
    source, target = folder / "configs.json", folder / "configs.svg"
    rows = json.loads(source.read_text())["rows"] if source.exists() else []
    if not rows:
        return "no picture: case configs was not measured"
    if not shutil.which("gnuplot"):
        return "no picture: gnuplot is not installed"
    script, data = [], []
    for name, line in points(rows).items():
        script.append(f"'-' with linespoints title {quote(name)}")
        data += [f"{n} {speed}" for n, speed in line] + ["e"]
    text = SCRIPT.format(output=quote(target), lines=", ".join(script)) + "\n".join(data) + "\n"
    found = subprocess.run(["gnuplot"], input=text, capture_output=True, text=True)
    return f"picture: {target}" if found.returncode == 0 else f"no picture: gnuplot: {found.stderr.strip()}"
