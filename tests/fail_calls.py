#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lets one call of a run fail, for every call in turn: fail_calls.py SELECTION RUN... KIND...

RUN is one of RUNS with its number of ranks, such as mul:2. KIND is one of KINDS.
SELECTION is one of these:
- `all`: all calls
- `sites`: the first call of each call stack
- `~TEXT`: the sites with TEXT in their function or in a library of their stack
- A-B: calls with these numbers
- K: every K-th call

tests/lib/fail_call.c makes the call fail. A first run without a failure counts the calls of each rank.

Rules for the end of each run:
- The run ends in time and without a crash.
- With code 0, its files and output are those of a run without a failure.
- With another code, the kind allows that code, and stderr has one line.
- Each output is complete, an old or a new one, and no other file is left.

Each broken rule is one line. The last line counts points and broken rules; a broken rule ends with 1.

Needs numpy, and the environment of tests/environment.sh with LD_PRELOAD unset.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np

REPO = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", REPO / "build/release"))
MPIMATMUL = os.environ.get("MPIMATMUL", str(BUILD / "bin/mpimatmul"))
LIMIT_SECONDS = float(os.environ.get("FAIL_LIMIT", "60"))
JOBS = int(os.environ.get("FAIL_JOBS", "2"))
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}

FEW = """
a, b = load("a.npy"), load("b.npy")
c = maximum(a @ b, 0) + 1
print(sum(c, axis=0))
save("c.npy", c)
save("d.npz", softmax(c))
save("e.safetensors", c.T)
"""

TRAINING = """
turns = 3
x, y = load("x.npy"), load("y.npy")
state, first = restore("state.safetensors", adamw_state((load("w.npy"), load("v.npy"))))
for turn in loop(first, turns):
    loss = mean((tanh(x @ state[0][0]) @ state[0][1] - y) ** 2)
    state = adamw(state, grad(loss, state[0]), turn=turn, rate=0.01)
    print(turn, loss)
    checkpoint("state.safetensors", state, turn=turn + 1)
save("result.npy", state[0][1])
"""

STEP = """
import numpy as np
import mpimatmul as mm
x, y = mm.load("x.npy"), mm.load("y.npy")
model = mm.nn.Linear(4, 2)
model.load_state_dict({"weight": np.ones((2, 4), np.float32), "bias": np.zeros(2, np.float32)})
optimizer = mm.optim.SGD(model.parameters(), lr=0.1)
for turn in range(2):
    loss = mm.mean((model(x) - y) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
mm.print(loss)
mm.save_file(model.state_dict(), "model.safetensors")
"""

# Old outputs exist before a run, except those in `continued`, which a run reads first. `steps` are more commands: their
# outputs are complete versions, too.
Run = collections.namedtuple("Run", "command outputs steps continued", defaults=[(), ()])
QUIET = ["--quiet", "--progress", "none"]
CPU = ["--device", "cpu"]
MUL = [MPIMATMUL, "mul", "a.npy", "b.npy", "--beta", "1", "--c-in", "c_in.npy"]
TRAIN = [MPIMATMUL, "run", "training.py"] + QUIET + CPU
RUNS = {
    "mul": Run(MUL + ["-o", "d.npy"] + QUIET + CPU, ["d.npy"]),
    "npz": Run(MUL + ["-o", "d.npz", "--dtype", "float16"] + QUIET + CPU, ["d.npz"]),
    "few": Run([MPIMATMUL, "run", "few.py"] + QUIET + CPU, ["c.npy", "d.npz", "e.safetensors"]),
    "training": Run(TRAIN, ["state.safetensors", "result.npy"],
                    [TRAIN + ["turns=1"], TRAIN + ["turns=2"]], ["state.safetensors"]),
    "python": Run([os.environ.get("PYTHON", sys.executable), "step.py"], ["model.safetensors"]),
    "card": Run(MUL + ["-o", "d.npy", "--device", "0:0"] + QUIET, ["d.npy"]),
    "card-few": Run([MPIMATMUL, "run", "few.py", "--device", "0:0"] + QUIET, ["c.npy", "d.npz", "e.safetensors"]),
}

# KIND: the kind of fail_call.c, the value, and the exit codes that are allowed beside 0.
Kind = collections.namedtuple("Kind", "name value codes")
SYSTEM, FILES = {71}, {66, 71, 73, 74}
KINDS = {
    "memory": Kind("memory", 12, SYSTEM),
    "thread": Kind("thread", 11, SYSTEM),
    "ENOSPC": Kind("file", 28, FILES),
    "EIO": Kind("file", 5, FILES),
    "EACCES": Kind("file", 13, FILES),
    "EINTR": Kind("file", 4, FILES),
    "short": Kind("file", "short", set()),
    "mpi": Kind("mpi", 16, SYSTEM),
}
for code in (-4, -5, -6, -36, -54, -61, -9999):
    KINDS[f"opencl{code}"] = Kind("opencl", code, {69, 71})


def write_inputs(folder):
    rng = np.random.default_rng(7)
    for name, shape in (("x", (6, 4)), ("y", (6, 2)), ("w", (4, 3)), ("v", (3, 2)), ("a", (5, 7)), ("b", (7, 3)),
                        ("c_in", (5, 3))):
        np.save(folder / f"{name}.npy", rng.integers(-4, 5, shape).astype(np.float32))
    for name, text in (("few", FEW), ("training", TRAINING), ("step", STEP)):
        (folder / f"{name}.py").write_text(text)


def contents(folder):
    """Returns permissions and bytes of each file."""
    return {str(path.relative_to(folder)): f"{path.stat().st_mode:o} ".encode() + path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


class Walk:
    """All points of one run on ranks with one kind of failure."""

    def __init__(self, top, run_name, ranks, kind_name):
        self.top, self.run, self.ranks, self.kind = pathlib.Path(top), RUNS[run_name], ranks, KINDS[kind_name]
        self.name = f"{run_name}:{ranks} {kind_name}"
        self.inputs = self.folder("inputs")
        write_inputs(self.inputs)
        self.versions = collections.defaultdict(set)
        for name in self.run.outputs:  # complete, but another one, and private
            if name not in self.run.continued:
                (self.inputs / name).write_bytes(b"an old result")
                (self.inputs / name).chmod(0o600)
        expected = self.reference(self.run.command)
        self.expected_output, self.expected = expected
        for step in self.run.steps:
            self.reference(step)
        self.before = contents(self.inputs)

    def folder(self, name):
        path = self.top / name
        path.mkdir()
        return path

    def launch(self, folder, command, number, rank, log):
        settings = {"MMUL_FAIL": f"{self.kind.name}:{number}:{self.kind.value}", "MMUL_FAIL_RANK": str(rank),
                    "MMUL_FAIL_LOG": str(log)}
        library = str(BUILD / "tests/fail_call.so")
        environment = dict(os.environ, MPIMATMUL_SHARD_DIR=str(folder / "shards"))
        if self.ranks == 1:
            environment.update(settings, LD_PRELOAD=library)
        else:
            library += f":{BUILD}/tests/sleeping_waits.so"
            words = [word for name, value in dict(settings, LD_PRELOAD=library).items()
                     for word in ("-x", f"{name}={value}")]
            command = ["mpirun", "-q", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "0", *words,
                       "-n", str(self.ranks)] + command
            # One mpirun would remove the folder in which another one starts. A socket's path must be short.
            environment["TMPDIR"] = tempfile.mkdtemp(prefix="f.", dir="/tmp")
        try:
            return self.wait(command, folder, environment)
        finally:
            if self.ranks > 1:
                shutil.rmtree(environment["TMPDIR"], ignore_errors=True)

    def wait(self, command, folder, environment):
        """Returns the exit code (None: there was no end), output and errors."""
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, errors = process.communicate(timeout=LIMIT_SECONDS)
            return process.returncode, out, errors
        except subprocess.TimeoutExpired:
            if os.environ.get("FAIL_STOP"):
                print("hangs: session", process.pid, command, flush=True)
                signal.pause()
            os.killpg(process.pid, signal.SIGTERM)
            try:
                out, errors = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, errors = process.communicate()
            return None, out, errors

    def reference(self, command):
        folder = self.top / "reference"
        shutil.copytree(self.inputs, folder)
        code, out, errors = self.launch(folder, command, 0, -1, os.devnull)
        if code != 0:
            sys.exit(f"{self.name}: the run without a failure ended with {code}: {errors}")
        found = contents(folder)
        for name in self.run.outputs:
            if name in found:
                self.versions[name].add(found[name])
        shutil.rmtree(folder)
        return out, found

    def calls(self, rank):
        """Returns the calls of one rank, as (function, stack)."""
        folder, log = self.top / "record", self.top / "log"
        shutil.copytree(self.inputs, folder)
        log.write_text("")
        self.launch(folder, self.run.command, 0, rank, log)
        shutil.rmtree(folder)
        return [line.split(maxsplit=1)[1] for line in log.read_text().splitlines()]

    def numbers(self, rank, selection):
        calls = self.calls(rank)
        first = {}
        for number, call in enumerate(calls, 1):
            first.setdefault(call, number)
        if selection == "all":
            return range(1, len(calls) + 1)
        if selection == "sites":
            return list(first.values())
        if selection.startswith("~"):
            return [number for call, number in first.items() if selection[1:] in call]
        begin, dash, end = selection.partition("-")
        return range(int(begin), min(int(end), len(calls)) + 1) if dash else range(1, len(calls) + 1, int(selection))

    def judge(self, code, out, errors, found):
        """Returns the broken rules."""
        broken = []
        lines = [line for line in errors.splitlines()
                 if line.startswith("mpimatmul: ") and not line.startswith(("mpimatmul: warning", "mpimatmul: note"))]
        if "step.py" in self.run.command:
            lines = re.findall(r"^(?:mpimatmul\.\w*|\w*Error)\b.*", errors, re.MULTILINE)
        if code is None:
            return [f"no end in {LIMIT_SECONDS:g} s"]
        if -code in CRASHES or code - 128 in CRASHES:
            return [f"crash: {code}"]
        if code == 0:
            if out != self.expected_output:
                broken.append(f"another output: {out!r}")
            if lines:
                broken.append("ends with 0 and an error")
        else:
            if code not in self.kind.codes and not ("step.py" in self.run.command and code == 1):
                broken.append(f"code {code}")
            if len(lines) != 1:
                broken.append(f"{len(lines)} lines")
        for name in sorted(set(found) | set(self.expected if code == 0 else self.before)):
            data = found.get(name)
            if code == 0 and data != self.expected.get(name):
                broken.append(f"{name} is wrong")
            elif code != 0 and name in self.run.outputs:
                if data != self.before.get(name) and data not in self.versions[name]:
                    broken.append(f"{name} is damaged")
            elif code != 0 and data != self.before.get(name):
                broken.append(f"{name} is left" if name not in self.before else f"{name} is changed")
        return broken

    def point(self, number, rank):
        """Returns None if no call failed, else (broken rules, call)."""
        place = self.top / f"{rank}.{number}"
        place.mkdir()
        log = place / "log"
        shutil.copytree(self.inputs, place / "work")
        code, out, errors = self.launch(place / "work", self.run.command, number, rank, log)
        found = contents(place / "work")
        broken = self.judge(code, out, errors, found)
        call = log.read_text().strip() if log.exists() else None
        shutil.rmtree(place)
        if os.environ.get("FAIL_SHOW"):
            print(f"{self.name} rank {rank} call {number}: {code}\n{errors}\n{call}", flush=True)
        if call is None and not broken:
            return None
        return broken, code, errors, call

    def walk(self, selection, pool):
        points = [(rank, number) for rank in range(self.ranks) for number in self.numbers(rank, selection)]
        done, failed, codes = 0, 0, collections.Counter()
        results = pool.map(lambda point: self.point(point[1], point[0]), points)
        for (rank, number), result in zip(points, results):
            if result is None:
                continue
            broken, code, errors, call = result
            done += 1
            codes[code] += 1
            failed += bool(broken)
            if broken:
                print(f"{self.name} rank {rank} call {number}: {'; '.join(broken)}\n    {errors.strip()!r}\n    {call}",
                      flush=True)
        print(f"{self.name}: {done} points, {failed} broken, codes {dict(codes)}", flush=True)
        return done, failed


def main():
    selection, runs, kinds = sys.argv[1], [], []
    for word in sys.argv[2:]:
        if word in KINDS:
            kinds.append(word)
        elif word.partition(":")[0] in RUNS:
            runs.append((word.partition(":")[0], int(word.partition(":")[2] or 1)))
        else:
            sys.exit(f"fail_calls.py: neither a run nor a kind: {word}")
    done = failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for run, ranks in runs:
            for kind in kinds:
                with tempfile.TemporaryDirectory(prefix="fail.") as top:
                    counts = Walk(top, run, ranks, kind).walk(selection, pool)
                done, failed = done + counts[0], failed + counts[1]
    print(f"{done} points, {failed} broken")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
