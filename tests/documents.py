# SPDX-License-Identifier: MIT
"""Runs the commands of a document in the current folder, one after the other, as a reader would.

    documents.py run FILE            README.md, a manual page in Markdown, or a .txt of `$ COMMAND` lines and output
    documents.py run FILE hosts      its commands for several machines, which `run` alone leaves out
    documents.py check FILE...       each command that is not run (NOT_RUN) is in one of them

Commands in Markdown are the blocks ```sh (a command a line, each ends with 0) and ```console (`$ COMMAND` with its
expected output below). Words are compared, and numbers except for their last digits; `console measured` accepts any
numbers. `...` stands for any text, alone for any lines. A block ```python with the first line `# NAME.py` is that
file from there on. An output line that begins with `mpimatmul: ` belongs to a command that fails.
"""
import os
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

REPO = Path(__file__).resolve().parent.parent
SECONDS = 100
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"

# Commands that no document test runs, with the test that covers them instead.
NOT_RUN = {
    "make demo": "scripts/demo, which takes all cores",
    "make check": "that is what runs this",
    "sbatch": "tests/lab/slurm.bats",
    "pip install src/python": "tests/cli/python.bats",
}
# Long commands and their shorter form for the tests.
SHORTER = {"turns=2000": "turns=4 saves=4", "turns=500": "turns=4", "turns=200": "turns=10", "turns=60": "turns=6",
           "layers=4": "layers=1", "width=128": "width=32", "length=64": "length=16"}
# Commands for several machines, and commands that prepare both those and others.
FOR_HOSTS = re.compile(r"--hostfile|> hosts\b")
FOR_BOTH = ("cat > ", ". ")


def fail(text):
    sys.exit(f"{sys.argv[2]}: {text}")


def blocks(path):
    """Yields (info, lines) of each block of a document."""
    text = path.read_text()
    if path.suffix == ".txt":
        return [("console", text.splitlines())]
    found, info = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if info is None:
                info = line[3:]
                found.append((info, []))
            else:
                info = None
        elif info is not None:
            found[-1][1].append(line)
        elif re.match(r" {4}(\$|mpimatmul|mpirun|make|python3) ", line):
            fail(f"line {number}: a command outside of ```sh and ```console")
    return found


def commands(path):
    """Yields (command, expected lines or None, whether numbers are measured). A file is a command
    that writes it."""
    for info, lines in blocks(path):
        if info == "sh":
            for line in "\n".join(lines).replace("\\\n", " ").splitlines():
                yield line, None, False
        elif info.startswith("console"):
            expected = None
            for line in lines:
                if line.startswith("$ "):
                    expected = []
                    yield line[2:], expected, info == "console measured"
                elif expected is not None:
                    expected.append(line)
        elif info in ("python", "yaml") and re.match(r"# [\w.]+$", lines[0]):
            yield f"cat > {lines[0][2:]} << 'END'\n" + "\n".join(lines) + "\nEND", None, False


def is_run(command):
    return not any(command.startswith(words) for words in NOT_RUN)


def data(folder):
    """Writes the files that the documents assume."""
    rng = np.random.default_rng(1)
    for name, shape in {"A": (300, 200), "B": (200, 100), "D": (100, 50), "X": (200, 100), "q": (8, 512, 64),
                        "k": (8, 512, 64), "v": (8, 512, 64), "x": (4096, 64), "t": (4096, 10), "w": (10, 64)}.items():
        np.save(folder / f"{name}.npy", rng.standard_normal(shape).astype("f4"))
    for name, (rows, cols) in {"A": (300, 200), "B": (200, 100)}.items():
        header = struct.pack("<5i", 4, 1, 1, rows, cols)
        (folder / f"{name}.bin").write_bytes(header + rng.standard_normal((rows, cols)).astype("<f4").tobytes())
    (folder / "book.txt").write_bytes(Path("/usr/share/common-licenses/GPL-3").read_bytes()[:20000])


def script(steps):
    """Returns a script that runs all commands in one shell, so that variables persist. Exit codes
    go to code.N, output to out.N."""
    text = "code=0\n"
    for number, (command, _, _) in enumerate(steps):
        text += f"(exit $code)\n{{ {command}\n}} > .out.{number} 2>&1 < /dev/null\n"
        text += f"code=$?; echo $code > .code.{number}\n"
    return text


def pattern(line):
    """Returns a regular expression for a line of a document, with its numbers as groups."""
    parts = []
    for part in re.split(rf"({NUMBER}|\.\.\.|\s+)", line.strip()):
        if re.fullmatch(NUMBER, part):
            parts.append(f"({NUMBER})")
        elif part == "...":
            parts.append(".*?")
        else:
            parts.append(r"\s+" if part.isspace() else re.escape(part))
    return re.compile("".join(parts))


def is_close(said, found, measured):
    is_whole = not re.search(r"[.e]", said + found)
    return measured or said == found or not is_whole and abs(float(said) - float(found)) <= 0.01 * abs(float(said))


def is_line(expected, line, measured):
    match = pattern(expected).fullmatch(line.strip())
    return match and all(map(is_close, re.findall(NUMBER, expected.replace("...", " ")), match.groups(),
                             [measured] * len(match.groups())))


def is_printed(expected, lines, measured):
    if not expected:
        return not lines
    if expected[0].strip() == "...":
        return any(is_printed(expected[1:], lines[i:], measured) for i in range(len(lines) + 1))
    return bool(lines) and is_line(expected[0], lines[0], measured) and is_printed(expected[1:], lines[1:], measured)


def judge(step, code, output):
    """Returns an error text about a command's result, or None."""
    command, expected, measured = step
    fails = any(line.startswith("mpimatmul: ") for line in expected or ())
    if (code != 0) != fails:
        return f"$ {command}\nended with {code}, and printed\n{output}"
    lines = [line for line in output.replace(socket.gethostname(), "vm").splitlines() if line.strip()]
    if expected is not None and not is_printed([line for line in expected if line.strip()], lines, measured):
        return f"$ {command}\nprinted\n{output}expected\n" + "\n".join(expected)
    return None


def run(path, hosts):
    folder = Path.cwd()
    installed = os.environ["INSTALLED"]
    for name in ("bench", "hostfiles", "src"):
        (folder / name).symlink_to(REPO / name)
    data(folder)
    steps = []
    for command, expected, measured in commands(path):
        if is_run(command) and (command.startswith(FOR_BOTH) or hosts == bool(FOR_HOSTS.search(command))):
            for long, short in SHORTER.items() if path.suffix == ".md" else ():
                command = command.replace(long, short)
            steps.append((command.replace("/usr/local/", f"{installed}/usr/local/"), expected, measured))
    if not steps:
        fail("no command")
    try:
        subprocess.run(["bash", "-c", script(steps)], check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        fail(f"not within {SECONDS} s")
    for number, step in enumerate(steps):
        ended = folder / f".code.{number}"
        code = int(ended.read_text()) if ended.exists() else -1
        wrong = judge(step, code, (folder / f".out.{number}").read_text(errors="replace"))
        if wrong:
            fail(wrong)
    print(f"{len(steps)} commands")


def check(paths):
    found = [command for path in paths for command, _, _ in commands(path)]
    for words in NOT_RUN:
        if not any(command.startswith(words) for command in found):
            sys.exit(f"documents.py excuses '{words}', which no document has")


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(list(map(Path, sys.argv[2:])))
    else:
        run(Path(sys.argv[2]), sys.argv[3:] == ["hosts"])
