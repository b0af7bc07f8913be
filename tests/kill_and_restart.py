#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills jobs and starts them again: kill_and_restart.py KILLS SEED [KIND...]
Cuts the host of root off instead of each kill: kill_and_restart.py --cut KILLS SEED [KIND...]

Each series is a job of one kind on 1, 2 or 3 ranks. Its mpirun is killed (SIGKILL) after a random delay, and the same
command starts again at once, until the job ends. Then its outcome is compared with that of an undisturbed job: printed
turns line by line, files byte by byte. The last line counts kills, series and differences; a difference ends with 1.

The program is MPIMATMUL, and PYTHONPATH and MPIMATMUL_LIBRARY lead to the package. RESTARTS_MPIRUN, if set, is the
command that launches a job in place of `mpirun -q --oversubscribe`. Needs numpy.

--cut: RESTARTS_CUT is the command that cuts root's host off, RESTARTS_MEND the one that joins it again, and
RESTARTS_MPIRUN_LEFT launches on the hosts that are left. The ranks of the host that was cut off run on for some
seconds, so the next starts may be refused (73, another process writes the file) until they have ended.
"""
import collections
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

REPO = pathlib.Path(__file__).resolve().parents[1]
MPIMATMUL = os.environ.get("MPIMATMUL", str(REPO / "build/release/bin/mpimatmul"))
LIMIT_SECONDS = 60
IS_HELD = 73  # the exit code of a job when another process writes its outputs
KILLS_OF_A_JOB = 2, 3

# Many tensors, and a checkpoint in every turn, so that a reader meets two versions while another
# job replaces the file.
TRAINING = """
x, y = load("x.npy"), load("y.npy")
parameters = (load("w.npy"),)
for i in range(15):
    parameters = parameters + (generate((16, 16), kind="normal", seed=i) * 0.1,)
state, first = restore("state.safetensors", adamw_state(parameters))
for turn in loop(first, 100):
    h = x
    for i in range(15):
        h = h + tanh(h @ state[0][1 + i])
    loss = mean((h @ state[0][0] - y) ** 2)
    state = adamw(state, grad(loss, state[0]), turn=turn, rate=0.01)
    print(turn, loss)
    checkpoint("state.safetensors", state, turn=turn + 1)
save("result.npy", state[0][1])
"""

SAVES = """
x = load("b.npy") * 0
for turn in loop(150):
    x = x + load("b.npy")
    save(f"x_{turn}.npy", x)
save("x.npy", x)
"""

# No checkpoints: --resume continues in the inner loop, or in the second one.
LOOPS = """
x, y, p, b = load("x.npy"), load("y.npy"), load("p.npy"), load("b.npy")
state, v, count = adamw_state((load("w.npy"),)), b, 0
for turn in loop(60):
    for step in loop(4):
        loss = mean((x @ state[0][0] - y) ** 2)
        state = adamw(state, grad(loss, state[0]), turn=count, rate=0.01)
        v = p @ v + b
        count += 1
    print(turn, count, sum(v), sum(state[0][0]))
for turn in loop(60, 120):
    v = p @ v - b
    print(turn, sum(v))
save("w_result.npy", state[0][0])
save("v_result.npy", v)
"""

KEEP = """
save("kept:y", load("left.npy") @ load("right.npy"))
"""

READ = """
save("kept.npy", load("kept:y"))
"""

# Integers: exact for any shares of the ranks.
SCRIPT = """
import os
import numpy as np
import mpimatmul as mm
p, b = mm.load("p.npy"), mm.load("b.npy")
w, v, first = b, b, 0
if os.path.exists("state.safetensors"):
    state = mm.load_file("state.safetensors")
    w, v, first = state["w"], state["v"], int(state["turn"].item())
for turn in range(first, 90):
    w, v = p @ w + b, p @ v + w
    if turn % 3 == 2:
        mm.print(turn, mm.sum(w, axis=None), mm.sum(v, axis=None))
        mm.save_file({"w": w, "v": v, "turn": np.array([[turn + 1.0]])}, "state.safetensors")
mm.save("w_result.npy", w)
mm.save("v_result.npy", v)
"""

Kind = collections.namedtuple("Kind", "command results prints then")
RUN = [MPIMATMUL, "run", "--reproducible", "--progress", "none"]
KINDS = {
    "training": Kind(RUN + ["training.py"], ["result.npy"], True, None),
    "product": Kind([MPIMATMUL, "mul", "left.npy", "right.npy", "-o", "product.npy", "--device",
                     "faulty:delay=300ms:cpu", "--reproducible", "--quiet", "--progress", "none"],
                    ["product.npy"], False, None),
    "keep": Kind(RUN + ["keep.py", "--device", "faulty:delay=300ms:cpu", "--quiet"], ["kept.npy"], False,
                 RUN + ["read.py", "--quiet"]),
    "saves": Kind(RUN + ["saves.py"], ["x.npy"] + [f"x_{turn}.npy" for turn in range(150)], False, None),
    "loops": Kind(RUN + ["loops.py", "--resume", "--journal-seconds", "0.01"],
                  ["w_result.npy", "v_result.npy"], True, None),
    "script": Kind([sys.executable, "script.py"], ["w_result.npy", "v_result.npy"], True, None),
}


def write_inputs(folder):
    rng = np.random.default_rng(7)
    for name, shape in (("x", (96, 16)), ("y", (96, 4)), ("w", (16, 4))):
        np.save(folder / f"{name}.npy", rng.normal(size=shape).astype(np.float32))
    for name, shape in (("left", (301, 203)), ("right", (203, 151)), ("b", (48, 32))):
        np.save(folder / f"{name}.npy", rng.integers(1, 5, size=shape).astype(np.float32))
    np.save(folder / "p.npy", np.eye(48, dtype=np.float32)[rng.permutation(48)])
    np.save(folder / "product.npy", np.zeros((2, 2), np.float32))
    for name, text in (("training", TRAINING), ("saves", SAVES), ("keep", KEEP), ("read", READ),
                       ("loops", LOOPS), ("script", SCRIPT)):
        (folder / f"{name}.py").write_text(text)


class Job:
    """One start of a command on ranks."""

    def __init__(self, folder, ranks, command, launcher="RESTARTS_MPIRUN"):
        environment = dict(os.environ, MPIMATMUL_SHARD_DIR=str(folder / "shards"))
        launch = shlex.split(os.environ.get(launcher, "mpirun -q --oversubscribe"))
        launch += ["--mca", "btl_vader_backing_directory", os.environ["TMPDIR"]]
        self.out, self.errors = folder / "out", folder / "errors"
        self.begin = time.monotonic()
        with open(self.out, "wb") as out, open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(launch + ["-n", str(ranks)] + command, cwd=folder, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=errors)

    def ends_within(self, seconds):
        try:
            self.process.wait(max(self.begin + seconds - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()

    def turns(self):
        """Returns {turn: line} of whole lines."""
        return {line.split()[0]: line for line in re.findall(r"^\d+ [-\d].*\n", self.out.read_text(), re.MULTILINE)}


class Reference:
    """Returns the printed lines and files of an undisturbed job."""

    def __init__(self, folder, kind, ranks):
        folder.mkdir()
        write_inputs(folder)
        job = Job(folder, ranks, kind.command)
        if not job.ends_within(LIMIT_SECONDS) or job.process.returncode != 0:
            sys.exit(f"the undisturbed job ended with {job.process.returncode}: {job.errors.read_text()}")
        self.seconds = time.monotonic() - job.begin
        self.turns = job.turns() if kind.prints else {}
        if kind.then is not None:
            Job(folder, ranks, kind.then).ends_within(LIMIT_SECONDS)
        self.results = {name: (folder / name).read_bytes() for name in kind.results}
        shutil.rmtree(folder)


class Series:
    """A job that is killed and started again until it ends."""

    def __init__(self, folder, name, ranks, reference, cuts):
        self.folder, self.name, self.ranks, self.reference, self.cuts = folder, name, ranks, reference, cuts
        self.kind, self.kills, self.problems = KINDS[name], 0, []
        folder.mkdir()
        write_inputs(folder)
        self.inputs = self.read_results()  # product.npy is an older result

    def compare_turns(self, turns):
        for turn, line in turns.items() if self.kind.prints else ():
            if self.reference.turns.get(turn) != line:
                self.problems.append(f"after {self.kills} kills: turn {turn} printed {line.strip()!r}, expected "
                                     f"{(self.reference.turns.get(turn) or '').strip()!r}")
                return

    def compare_results(self, found, is_end):
        for name, data in found.items():
            before = () if is_end else (None, self.inputs.get(name))
            if data != self.reference.results[name] and data not in before:
                self.problems.append(f"{name} differs {'at the end' if is_end else f'after kill {self.kills}'}")

    def read_results(self):
        return {name: (self.folder / name).read_bytes() if (self.folder / name).exists() else None
                for name in self.kind.results}

    def cut(self, job):
        """Starts the job on the remaining hosts until it is not refused."""
        subprocess.run(shlex.split(os.environ["RESTARTS_CUT"]), check=True)
        self.kills += 1
        job.ends_within(LIMIT_SECONDS)
        job.kill()
        self.compare_turns(job.turns())
        begin = time.monotonic()
        while True:
            job = Job(self.folder, self.ranks, self.kind.command, "RESTARTS_MPIRUN_LEFT")
            if not job.ends_within(LIMIT_SECONDS) or job.process.returncode != IS_HELD:
                break
            if time.monotonic() - begin > LIMIT_SECONDS:
                break
        subprocess.run(shlex.split(os.environ["RESTARTS_MEND"]), check=True)
        return job

    def run(self, kills, draw):
        job = Job(self.folder, self.ranks, self.kind.command)
        while self.kills < kills:
            if job.ends_within(draw.uniform(0.1, 0.8 * self.reference.seconds)):
                break
            if self.cuts:
                job = self.cut(job)
                break
            job.kill()
            self.kills += 1
            found, turns = self.read_results(), job.turns()
            job = Job(self.folder, self.ranks, self.kind.command)
            self.compare_turns(turns)
            self.compare_results(found, False)
        if not job.ends_within(LIMIT_SECONDS):
            job.kill()
            self.problems.append(f"no end in {LIMIT_SECONDS} s")
        elif job.process.returncode != 0:
            self.problems.append(f"start {self.kills + 1} ended with {job.process.returncode}: "
                                 f"{job.errors.read_text().strip()}")
        else:
            self.compare_turns(job.turns())
            if self.kind.then is not None:
                Job(self.folder, self.ranks, self.kind.then).ends_within(LIMIT_SECONDS)
            self.compare_results(self.read_results(), True)
            self.problems += [f"{path.name} is left" for pattern in ("*.part", "*.journal*")
                              for path in self.folder.rglob(pattern)]
        shutil.rmtree(self.folder)
        return self.problems


def main():
    cuts = sys.argv[1] == "--cut"
    arguments = sys.argv[1 + cuts:]
    kills, seed, names = int(arguments[0]), int(arguments[1]), arguments[2:] or list(KINDS)
    draw, done, series, references = random.Random(seed), 0, 0, {}
    counts = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="restarts.") as top:
        os.environ["TMPDIR"] = top  # Open MPI's leftovers of killed jobs go with it
        while done < kills:
            name, ranks = names[series % len(names)], draw.randint(1, 3)
            if (name, ranks) not in references:
                references[name, ranks] = Reference(pathlib.Path(top, "reference"), KINDS[name], ranks)
            one = Series(pathlib.Path(top, "job"), name, ranks, references[name, ranks], cuts)
            problems = one.run(min(draw.randint(*KILLS_OF_A_JOB), kills - done), draw)
            series, done = series + 1, done + one.kills
            counts[name, "kills"] += one.kills
            counts[name, "series"] += 1
            counts["wrong"] += bool(problems)
            for problem in problems:
                print(f"{name} on {ranks}, series {series}: {problem}", flush=True)
        for name in names:
            print(f"{name}: {counts[name, 'kills']} kills in {counts[name, 'series']} series")
    print(f"{done} kills, {series} series, {counts['wrong']} wrong")
    return counts["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
