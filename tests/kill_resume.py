#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills products at random moments and continues them with --resume: kill_resume.py KILLS SEED [-v] [KIND...]

Each job is a random product of whole numbers in [-4, 4]: shape, stack, types, transposes, C_in, format of the result,
layout of the inputs. Its devices are slowed, so that most kills come while it computes and after entries of its
journal. A kill is a SIGKILL of a random rank, of root, of mpirun, or of all of them at once. The job is then continued
with other ranks, weights, axis, memory and rules of the device, until it ends. Checked with numpy, element by element:

- after each kill, the regions of the temporary file that the journal names, if their checksums are right;
- that the next run finds all lines of C that these regions cover;
- the result at the end, with nothing left beside it.

The last line counts jobs, kills, kills after an entry, recorded elements that were computed again, and wrong jobs; a
wrong job ends with 1. The program is MPIMATMUL. RESTARTS_MPIRUN, if set, is the command that launches all jobs in place
of `mpirun -q --oversubscribe`. Needs numpy and libxxhash.
"""
import collections
import ctypes
import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

REPO = pathlib.Path(__file__).resolve().parents[1]
MPIMATMUL = os.environ.get("MPIMATMUL", str(REPO / "build/release/bin/mpimatmul"))
LAUNCH = shlex.split(os.environ.get("RESTARTS_MPIRUN", "mpirun -q --oversubscribe --mca odls_base_sigkill_timeout 0"))
LIMIT_SECONDS = 60
KILLS_OF_A_JOB = 5
WRONG_JOBS_MOST = 20
KINDS = [word for word in sys.argv[3:] if word != "-v"] or ("tall", "wide", "square", "stack", "stack")
RECORD = '#!/bin/sh\necho $$ > "pid.${OMPI_COMM_WORLD_RANK:-0}"\nexec "$@"\n'
# Rules of the device beside its delay. Counted calls come after the first entries.
RULES = ("", "", "", "", ",corrupt=5", ",garble=4", ",fail=4", ",fail-upload=6", ",hang=5")
HASH = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
HASH.argtypes, HASH.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint64
REMARK = re.compile(r"resume: (\d+) of (\d+) (rows|columns|matrices) of ")


# ------------------------------------------------------------------------------------------- files

def round_to_bf16(x):
    """Rounds float32 to the nearest bfloat16, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    return (((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


def write_safetensors(path, array, dtype):
    data = array.astype("<f4").view(np.uint32) >> 16 if dtype == "BF16" else array
    data = data.astype("<u2") if dtype == "BF16" else np.ascontiguousarray(data)
    head = json.dumps({"x": {"dtype": dtype, "shape": list(array.shape), "data_offsets": [0, data.nbytes]}}).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data.tobytes())


def read_stored(path, name):
    """Reads a whole result or its temporary file, as it is stored: bfloat16 as bit patterns. `name`
    is the final one."""
    data = path.read_bytes()
    if name.endswith(".bin"):
        head = np.frombuffer(data, "<i4", 5)
        shape, dtype, begin = tuple(head[1:]), {4: "<f4", -1: "<f4", -2: "<f2", -3: "<u2"}[int(head[0])], 20
    elif name.endswith(".safetensors"):
        begin = 8 + int.from_bytes(data[:8], "little")
        (tensor,) = (t for key, t in json.loads(data[8:begin]).items() if key != "__metadata__")
        shape, dtype = tensor["shape"], {"F32": "<f4", "F64": "<f8", "F16": "<f2", "BF16": "<u2"}[tensor["dtype"]]
    else:
        whole = np.load(path)
        assert path.stat().st_size == whole.nbytes + 128, "bytes follow the elements"
        return whole
    return np.frombuffer(data, dtype, offset=begin).reshape(shape)


def read_if_there(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def to_double(stored):
    is_bf16 = stored.dtype == np.uint16
    return ((stored.astype(np.uint32) << 16).view(np.float32) if is_bf16 else stored).astype(np.float64)


# -------------------------------------------------------------------------------------------- jobs

class Job:
    """A random product in a folder of its own, with its expected result."""

    def __init__(self, folder, draw):
        self.folder, self.draw = folder, draw
        folder.mkdir()
        (folder / "record").write_text(RECORD)
        (folder / "record").chmod(0o755)
        kind = draw.choice(KINDS)
        few, many = draw.randint(3, 40), draw.randint(6000, 20000)
        self.m, self.n = {"tall": (many, few), "wide": (few, many), "square": (draw.randint(1500, 2600),) * 2,
                          "stack": (draw.randint(300, 900), few)}[kind]
        self.n += kind == "square"
        self.k = draw.randint(1, 60)
        if not kind == "stack" and draw.random() < 0.25:  # idle ranks add a part of the terms of others
            self.k, self.m, self.n = draw.randint(600, 900), self.m // 2 + 1, self.n // 2 + 2
        self.lead = draw.choice(((12,), (2, 7), (24,))) if kind == "stack" else ()
        self.type = draw.choice(("f4", "f4", "f4", "f8", "f8", "f2", "bf2"))
        self.command = []
        self.write_inputs(np.random.default_rng(draw.getrandbits(32)))
        suffixes = {"f8": (".npy", ".safetensors"), "bf2": (".bin", ".safetensors")}
        self.name = "C" + draw.choice(suffixes.get(self.type, (".npy", ".bin", ".safetensors")))
        self.command += ["-o", self.name]
        self.slow = draw.choice((80, 150, 250))

    def write_operand(self, name, array):
        if self.type == "bf2":
            name += ".safetensors"
            write_safetensors(self.folder / name, array, "BF16")
            return name
        layout = self.draw.choice(("C", "C", "C", "F"))  # columns first: not used in place
        stored = np.asarray(array, {"f4": "<f4", "f8": "<f8", "f2": "<f2"}[self.type], order=layout)
        np.save(self.folder / f"{name}.npy", stored)
        return f"{name}.npy"

    def write_inputs(self, rng):
        draw = self.draw
        shapes = [self.lead + (self.m, self.k), self.lead + (self.k, self.n)]
        if self.lead and draw.random() < 0.3:
            i = draw.randrange(2)
            shapes[i] = draw.choice(((), self.lead[:-1] + (1,))) + shapes[i][-2:]  # repeats
        a, b = (rng.integers(-4, 5, s).astype(np.float64) for s in shapes)
        self.expected = a @ b
        for flag, name, x in (("--transpose-a", "A", a), ("--transpose-b", "B", b)):
            is_transposed = draw.random() < 0.3
            self.command += [self.write_operand(name, np.swapaxes(x, -1, -2) if is_transposed else x)]
            self.command += [flag] * is_transposed
        self.expected *= (alpha := draw.choice((1, 1, 2, -3)))
        self.command += ["--alpha", str(alpha)] * (alpha != 1)
        if draw.random() < 0.4:
            beta = draw.choice((1, -2))
            size = draw.choice((self.expected.shape, (1, self.n), (self.m, 1), self.expected.shape[-2:]))
            c_in = rng.integers(-4, 5, size).astype(np.float64)
            self.expected += beta * c_in
            self.command += ["--beta", str(beta), "--c-in", self.write_operand("D", c_in)]
        if self.type == "f2":
            self.expected = self.expected.astype(np.float16).astype(np.float64)
        elif self.type == "bf2":
            self.expected = round_to_bf16(self.expected).astype(np.float64)

    def stack(self, array):
        """Returns a stack of matrices, as entries count them."""
        return array.reshape((-1, self.m, self.n))

    def recorded(self):
        """Returns the elements that whole entries of the journal name and that are still in the file, the number of
        entries, and that of entries with other bytes. Lines that were recorded in part are computed again and then
        differ for a while."""
        covered, others = np.zeros((int(np.prod(self.lead)) if self.lead else 1, self.m, self.n), bool), 0
        lines = read_if_there(self.folder / f"{self.name}.journal").decode().splitlines(True)
        lines = [line.split() for line in lines if re.search(r"^done .*\t[0-9a-f]{8}\n$", line)]
        part = self.folder / f"{self.name}.part"
        part = self.stack(read_stored(part, self.name)) if lines and part.exists() else None
        for line in lines if part is not None else ():
            t, top, bottom, left, right = map(int, line[1:6])
            region = part[t, top:bottom, left:right].tobytes()
            if HASH(region, len(region)) == int(line[6], 16):
                covered[t, top:bottom, left:right] = True
            else:
                others += 1
        return covered, len(lines), others

    def wrong_in_part(self, covered):
        """Returns the number of wrong elements in recorded regions of the temporary file."""
        if not covered.any():
            return 0
        found = to_double(self.stack(read_stored(self.folder / f"{self.name}.part", self.name)))
        return int((found != self.stack(self.expected))[covered].sum())

    def wrong_at_end(self):
        found = to_double(read_stored(self.folder / self.name, self.name))
        if self.stack(found).shape != self.stack(self.expected).shape:
            return f"shape {found.shape}"
        wrong = int((self.stack(found) != self.stack(self.expected)).sum())
        return f"{wrong} wrong elements" if wrong else None


class Start:
    """One start of a job: mpirun or a single rank, with options of its own."""

    def __init__(self, job):
        draw = job.draw
        self.job, self.ranks = job, draw.choice((1, 2, 2, 3))
        self.has_mpirun = self.ranks > 1 or draw.random() < 0.5 or "RESTARTS_MPIRUN" in os.environ
        weights = draw.choice(("auto", "equal", ",".join(f"{draw.uniform(0.2, 1):.2f}" for _ in range(self.ranks))))
        self.options = ["--resume", "--journal-seconds", draw.choice(("0.001", "0.05")), "--progress", "none",
                        "--weights", weights, "--device-timeout", "1",
                        "--device", f"faulty:delay={job.slow}ms{draw.choice(RULES)}:cpu"]
        self.options += ["--split", draw.choice(("rows", "cols"))] if not job.lead and draw.random() < 0.4 else []
        self.options += ["--io", "root"] * (draw.random() < 0.2) + ["--tail", "off"] * (draw.random() < 0.3)
        if draw.random() < 0.3:  # the smallest size that is allowed, which the refusal of another one proposes
            self.options += ["--memory", "1MiB"]
            self.launch()
            self.process.wait()
            match = re.search(r"--memory (\S+) is enough", self.errors())
            self.options[-1] = match[1] if match else "64MiB"
        self.launch()

    def launch(self):
        folder = self.job.folder
        for path in folder.glob("pid.*"):
            path.unlink()
        command = ["./record", MPIMATMUL, "mul"] + self.job.command + self.options
        if self.has_mpirun:
            command = LAUNCH + ["--mca", "btl_vader_backing_directory", os.environ["TMPDIR"], "-n",
                                str(self.ranks)] + command
        with open(folder / "out", "wb") as out, open(folder / "errors", "wb") as errors:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)

    def errors(self):
        return (self.job.folder / "errors").read_text(errors="replace")

    def ended(self):
        return self.process.poll() is not None

    def wait_for_entries(self, least, seconds):
        """Waits until the journal has this many entries, the job ends, or time is up."""
        path, end = self.job.folder / f"{self.job.name}.journal", time.monotonic() + seconds
        while not self.ended() and time.monotonic() < end:
            if read_if_there(path).count(b"\ndone ") >= least:
                return
            time.sleep(0.003)

    def pids(self):
        found = {}
        for path in self.job.folder.glob("pid.*"):
            text = path.read_text().strip()
            if text:
                found[int(path.suffix[1:])] = int(text)
        return found

    def kill(self, what):
        pids = self.pids()
        ranks = [pids[0]] if what == "root" and 0 in pids else []
        ranks = [pids[self.job.draw.choice(sorted(pids))]] if what == "rank" and pids else ranks
        ranks = list(pids.values()) if what == "all" else ranks
        if what in ("mpirun", "all") or not ranks:
            self.process.kill()
        for pid in ranks:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


# -------------------------------------------------------------------------------------------- runs

class Killer:
    """Runs jobs until there were enough kills, and counts."""

    def __init__(self, kills, seed, is_verbose):
        self.kills, self.draw, self.is_verbose = kills, random.Random(seed), is_verbose
        self.counts, self.problems = collections.Counter(), []

    def note(self, job, text):
        self.problems.append(text)
        print(f"job {self.counts['jobs']} ({' '.join(job.command)}; m {job.m}, n {job.n}, k {job.k}, stack {job.lead}, "
              f"{job.type}): {text}", flush=True)

    def check_found(self, job, covered, text):
        """Compares what a run says that it found with the regions in the journal before it."""
        match = REMARK.search(text)
        possible = ("matrices",) if job.lead else ("rows", "columns")
        found, lines = (int(match[1]), match[3]) if match else (0, possible[-1])
        whole = {"matrices": covered.all(axis=(1, 2)), "rows": covered.all(axis=(0, 2)),
                 "columns": covered.all(axis=(0, 1))}
        # The last line is computed again if none is missing. A root of a killed mpirun may add entries.
        for each in (lines,) if match else possible:
            if found < min(whole[each].sum(), whole[each].size - 1):
                self.note(job, f"found {found} {each}, but the journal has {whole[each].sum()}")
        axis = {"matrices": 0, "rows": 1, "columns": 2}[lines]
        kept = np.moveaxis(covered, axis, 0)[whole[lines]].sum()
        self.counts["recorded"] += int(covered.sum())
        self.counts["again"] += int(covered.sum() - kept)

    def run_job(self, folder):
        job, kills = Job(folder, self.draw), 0
        most = self.draw.randint(1, KILLS_OF_A_JOB)
        self.counts["jobs"] += 1
        while True:
            covered, count, _ = job.recorded()
            start = Start(job)
            is_last = kills == most or self.counts["kills"] >= self.kills
            if not is_last and self.draw.random() < 0.8:
                start.wait_for_entries(count + self.draw.randint(1, 4), 20)
                time.sleep(self.draw.uniform(0, 0.1))
            elif not is_last:
                start.wait_for_entries(1 << 30, self.draw.uniform(0, 1))
            else:
                start.wait_for_entries(1 << 30, LIMIT_SECONDS)
            if start.ended():
                break
            what = self.draw.choice(("rank", "root", "mpirun", "all")) if start.has_mpirun else "all"
            start.kill("all" if is_last else what)
            if is_last:
                self.note(job, f"no end in {LIMIT_SECONDS} s on {start.ranks}: {' '.join(start.options)}")
                return
            kills += 1
            self.counts["kills"] += 1
            self.counts[what] += 1
            found, now, others = job.recorded()
            # A task that begins again after a hang writes its recorded blocks again.
            if others > 0 and count == 0 and "hang" not in " ".join(start.options):
                self.note(job, f"{others} of {now} entries have other bytes ({what}): {' '.join(start.options)}")
            self.counts["after entries"] += now > count
            if (folder / job.name).exists():
                break
            if "resume: " in start.errors():
                self.check_found(job, covered, start.errors())
            wrong = job.wrong_in_part(found)
            if wrong:
                self.note(job, f"{wrong} wrong elements in recorded regions after kill {kills} ({what}): "
                               f"{' '.join(start.options)}")
            if self.is_verbose:
                print(f"{' '.join(job.command)} {' '.join(start.options)}: {what} killed, {now - count} new entries")
        self.finish(job, start, covered)

    def finish(self, job, start, covered):
        code = start.process.returncode
        if (job.folder / job.name).exists() and code != 0:
            code = 0  # killed behind its last step
        elif code != 0:
            self.note(job, f"ended with {code}: {start.errors().strip()} ({' '.join(start.options)})")
            return
        else:
            self.check_found(job, covered, start.errors())
        wrong = job.wrong_at_end()
        if wrong:
            self.note(job, f"{wrong} at the end: {' '.join(start.options)}")
        left = [path.name for path in job.folder.iterdir() if path.suffix in (".part", ".journal")]
        if left and start.process.returncode == 0:
            self.note(job, f"{left} left")
        self.counts["dropped"] += "recorded" in start.errors()

    def run(self, top):
        while self.counts["kills"] < self.kills and self.counts["wrong"] < WRONG_JOBS_MOST:
            before = len(self.problems)
            folder = top / f"job{self.counts['jobs']}"
            self.run_job(folder)
            self.counts["wrong"] += len(self.problems) > before
            subprocess.run(["rm", "-rf", str(folder)], check=True)
        c = self.counts
        print(f"killed: {c['rank']} ranks, {c['root']} roots, {c['mpirun']} mpiruns, {c['all']} whole jobs")
        print(f"{c['jobs']} jobs, {c['kills']} kills, {c['after entries']} after entries, {c['again']} of "
              f"{c['recorded']} recorded elements computed again, {c['wrong']} wrong")
        return c["wrong"] > 0


def main():
    kills, seed, is_verbose = int(sys.argv[1]), int(sys.argv[2]), "-v" in sys.argv[3:]
    with tempfile.TemporaryDirectory(prefix="kill_resume.") as top:
        os.environ["TMPDIR"] = top  # Open MPI's leftovers of killed jobs go with it
        return Killer(kills, seed, is_verbose).run(pathlib.Path(top))


if __name__ == "__main__":
    sys.exit(main())
