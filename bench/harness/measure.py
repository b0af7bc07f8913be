# SPDX-License-Identifier: MIT
"""Runs commands side by side and keeps every sample.

A sample is a dict with at least `seconds`, and further data of the run (a report, a peak of
memory). A side is a function that runs once and returns a sample.
"""
import json
import os
import statistics
import subprocess
import threading
import time
from pathlib import Path

UNSTABLE_RATIO = 1.2
PHASES = ("setup", "scatter", "compute", "verify", "gather", "idle", "commit")


class Skip(Exception):
    """A case that cannot be measured here; the text gives the reason."""


class Refused(Exception):
    """A case that this machine has too little memory for."""


class Failed(Exception):
    """A failed command: its first line of output, and its words."""

    def __init__(self, text, argv=()):
        super().__init__(text)
        self.argv = argv


def run(argv, env=None, watch=None):
    """Runs a command to its end: returns (seconds, its output). `watch` is called with its process
    id meanwhile. None in `env` removes a variable."""
    argv = [str(word) for word in argv]
    env = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
    begin = time.monotonic()
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        watcher = watch and threading.Thread(target=watch, args=[process.pid])
        if watcher:
            watcher.start()
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()  # mpirun ends its ranks, too
            raise
        seconds = time.monotonic() - begin
        if watcher:
            watcher.join()
    if process.returncode != 0:
        said = errors.strip().partition("\n")[0] or "nothing on stderr"
        raise Failed(f"exit status {process.returncode}: {said}", argv)
    return seconds, output


def jax(bench, *words):
    """Returns a sample of peers/jax_peer.py, by the Python that MMUL_JAX_PYTHON names, or this one.
    """
    python = os.environ.get("MMUL_JAX_PYTHON", bench.python)
    try:
        run([python, "-c", "import jax"])
    except (Failed, OSError):
        raise Skip(f"'{python}' has no jax: MMUL_JAX_PYTHON names one that has") from None
    peer = json.loads(run([python, bench.root / "bench" / "peers" / "jax_peer.py", *words])[1])
    return {"seconds": peer["seconds"], "peer": peer}


def alternate(sides, runs, warmup, say=lambda text: None):
    """Returns {name: samples} of {name: side}, measured A B A B ...; the first `warmup` rounds do
    not count."""
    samples = {name: [] for name in sides}
    for turn in range(warmup + runs):
        for name, side in sides.items():
            sample = side()
            counts = turn >= warmup
            say(f"{name}: {sample['seconds']:.3f} s{'' if counts else ' (warm-up)'}")
            if counts:
                samples[name].append(sample)
    return samples


def in_seconds(sample):
    return sample["seconds"]


def seconds_of(samples):
    return [in_seconds(sample) for sample in samples]


def median(values):
    return statistics.median(values)


def is_unstable(values):
    return len(values) > 1 and max(values) > UNSTABLE_RATIO * min(values)


def phases_of(report):
    """Returns the phases in a report, of the rank that ended last, as `mpimatmul bench` does."""
    return {name: report[f"{name}_seconds"] for name in PHASES}


def median_phases(samples):
    """Returns the medians of the phases of samples with a report, or {}."""
    all_phases = [phases_of(sample["report"]) for sample in samples if "report" in sample]
    return {name: median([phases[name] for phases in all_phases]) for name in PHASES} if all_phases else {}


# --------------------------------------------------------------------------------------------------------- the sides

class Product:
    """C = A B with generated files in the bench's folder, and the commands that compute it."""

    def __init__(self, bench, m, k, n, folder=None, dtype="float32"):
        self.bench, self.m, self.k, self.n, self.dtype = bench, m, k, n, dtype
        self.folder = folder or bench.folder
        self.bytes = (8 if dtype == "float64" else 4) * (m * k + k * n + m * n)
        self.flops = 2 * m * k * n
        self.text = f"{m} x {k} x {n}" if not m == k == n else f"{m}^3"

    def path(self, name):
        return self.folder / f"{name}.{'npy' if self.dtype == 'float64' else 'bin'}"

    def generate(self):
        for name, rows, cols, seed in (("A", self.m, self.k, 1), ("B", self.k, self.n, 2)):
            run([self.bench.program, "gen", self.path(name), "--dims", f"{rows}x{cols}", "--seed", seed, "--dtype",
                 self.dtype, "--quiet"])

    def files(self):
        return [self.path("A"), self.path("B")]

    def parts(self):
        """Returns the unfinished result files."""
        return self.folder.glob("*C.bin*")

    def words(self, options=()):
        """`mpimatmul mul` of the two files."""
        return [self.bench.program, "mul", *self.files(), "-o", self.path("C"), "--report",
                self.bench.folder / "report.json", "--quiet", *options]

    def mul(self, argv, env=None, wall="report", watch=None):
        """Runs a command that ends in words(). seconds: of the whole `command`, or of the `report`,
        which counts from the first byte read to the renamed result."""
        self.path("C").unlink(missing_ok=True)
        seconds, _ = run(argv, env=env, watch=watch)
        report = json.loads((self.bench.folder / "report.json").read_text())
        return {"seconds": seconds if wall == "command" else report["wall_seconds"], "command_seconds": seconds,
                "report": report}

    def mul_ranks(self, ranks, options=(), **more):
        """Runs on so many ranks of this machine."""
        return self.mul(["mpirun", "-q", "-n", ranks, *self.words(options)], **more)

    def mul_devices(self, devices, options=(), **more):
        """Runs with a rank per device of the list."""
        argv = ["mpirun", "-q"]
        for place, device in enumerate(devices):
            argv += [":"] if place > 0 else []
            argv += ["-n", 1, *self.words(["--device", device, *options])]
        return self.mul(argv, **more)

    def mul_lab(self, lab, hosts, options=()):
        """Runs with a rank on each of the first hosts of a lab."""
        return self.mul([*lab.mpirun(hosts), *self.words(["--device", "cpu", "--io", "root", *options])], env=lab.env())

    def numpy(self, threads, options=()):
        self.path("N").unlink(missing_ok=True)
        script = self.bench.root / "bench" / "peers" / "numpy_matmul.py"
        seconds, output = run([self.bench.python, script, *self.files(), self.path("N"), *options],
                              env={"OPENBLAS_NUM_THREADS": str(threads)})
        return {"seconds": seconds, "peer": json.loads(output)}

    def sgemm(self, threads, launcher=()):
        """Runs one multiplication by bare OpenBLAS after a warm-up, in a program of its own."""
        _, output = run([*launcher, self.bench.peer("sgemm"), self.m, self.k, self.n, threads, 1, 1])
        found = json.loads(output)
        return {"seconds": found["seconds"][0], "peer": found}

    def stream(self, threads):
        """Runs one sum of all bytes of A, B and C in memory after a warm-up."""
        _, output = run([self.bench.peer("stream"), self.m, self.k, self.n, threads, 1, 1])
        found = json.loads(output)
        return {"seconds": found["seconds"][0], "peer": found}

    def psgemm(self, lab, hosts, mode, *grid):
        """Runs one multiplication by ScaLAPACK after a warm-up. grid: the side of its blocks and
        the rows of the grid."""
        _, output = run([*lab.mpirun(hosts), self.bench.peer("psgemm"), mode, self.m, self.k, self.n, 1, 1, *grid],
                        env={**lab.env(), "OPENBLAS_NUM_THREADS": "1"})
        found = json.loads(output)
        return {"seconds": found["seconds"][0], "peer": found}


# ------------------------------------------------------------------------------------------------------------ memory

def descendants(pid):
    """Returns the process ids below `pid`, including itself."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found += descendants(int(child))
    return found


def pss_bytes(pid):
    """Returns the memory of a process, with shared memory divided by the number of its users; 0 for
    a process that ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


class PeakMemory:
    """Samples the summed PSS of the processes of one name below a process, every 50 ms until it
    ends."""

    def __init__(self, name):
        self.name, self.peak_bytes, self.samples = name, 0, 0

    def is_ours(self, pid):
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip() == self.name
        except OSError:
            return False

    def __call__(self, pid):
        while Path(f"/proc/{pid}/smaps_rollup").exists() and pss_bytes(pid) > 0:
            total = sum(pss_bytes(child) for child in descendants(pid) if self.is_ours(child))
            self.peak_bytes = max(self.peak_bytes, total)
            self.samples += total > 0
            time.sleep(0.05)
