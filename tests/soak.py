#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random jobs with random faults for some hours: soak.py HOURS [SEED] [KIND...]

Jobs of random kinds run one after the other, often beside busy processes. Each kind has its own oracle:

    products    random commands `mul` against numpy               (random_products.py)
    programs    random texts on 1 to 3 ranks against a reference  (random_programs.py)
    restarts    killed jobs, started again                        (kill_and_restart.py)
    resume      killed `mul --resume`                             (kill_resume.py)
    devices     wrong, slow, lost and hanging devices: a right result, or one line and a documented code
    stalls      a stopped rank: 75 and one line
    inputs      damaged inputs and little space: one line, the documented code, the older output untouched
    kept        kept sets, read by another job on the same ranks
    cuts        on emulated hosts, if this user can make them: root's host is cut off; the rest continues

After each job no process of it runs, and its folder and the shared memory hold nothing new. A resident process trains
beside all of them and reports its memory, descriptors and mappings; the second half must not grow over the first.

The last lines count jobs by kind, wrong ones, and the growth. Anything wrong ends with 1; so does a kind without a job.
Run by `make soak HOURS=N`, which sets MPIMATMUL, PYTHONPATH and MPIMATMUL_LIBRARY.
"""
import collections
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parent
REPO = TESTS.parent
MPIMATMUL = os.environ.get("MPIMATMUL", str(REPO / "build/release/bin/mpimatmul"))
MARK = f"MMUL_SOAK={os.getpid()}"
ENDING_SECONDS = 15  # Open MPI lets ranks of a killed mpirun run on for a while
JOB_SECONDS = 900

RESIDENT = """
import os, random, time
import numpy as np
import mpimatmul as mm
mm.init(device="cpu")
rng, draw = np.random.default_rng(1), random.Random(1)
model = mm.nn.Sequential(mm.nn.Linear(16, 33), mm.relu, mm.nn.Linear(33, 7))
optimizer = mm.optim.AdamW(model.parameters(), lr=1e-3)
while True:
    for _ in range(40):
        rows = draw.choice((1, 8, 64, 129))
        x, y = mm.array(rng.normal(size=(rows, 16)).astype("f4")), mm.array(rng.integers(0, 7, (1, rows)))
        loss = mm.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    with open("/proc/self/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/maps") as f:
        maps = sum(1 for _ in f)
    print(resident, len(os.listdir("/proc/self/fd")), maps, flush=True)
    time.sleep(1)
"""


class Wrong(Exception):
    pass


def run(words, folder, seconds=JOB_SECONDS, **more):
    """Runs a command to its end. A command that hangs is a failure."""
    try:
        return subprocess.run(list(map(str, words)), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=seconds, **more)
    except subprocess.TimeoutExpired:
        raise Wrong(f"no end in {seconds} s: {' '.join(map(str, words))}") from None


def expect(done, *codes, line=None):
    if done.returncode not in codes:
        raise Wrong(f"{' '.join(done.args)}: status {done.returncode}, expected one of {codes}: "
                    f"{done.stdout[-2000:]}{done.stderr}")
    if line is not None and not re.search(line, done.stderr):
        raise Wrong(f"{' '.join(done.args)}: no line '{line}' in {done.stderr!r}")


def launcher(ranks):
    own = ["--mca", "odls_base_sigkill_timeout", "0", "--mca", "btl_vader_backing_directory", os.environ["TMPDIR"]]
    return ["mpirun", "-q", "--oversubscribe", *own, "-n", ranks] if ranks > 1 else []


def check_error(done):
    """One line of one rank, with a hint or without."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("  hint:")]
    lines = [line for line in lines if not re.match("mpimatmul: (warning|notice|on )", line)]
    if len(lines) != 1 or not lines[0].startswith("mpimatmul: "):
        raise Wrong(f"{' '.join(done.args)}: expected one line, found {done.stderr!r}")


# -------------------------------------------------------------------------------------------- kinds

def products(folder, draw):
    code = ("import itertools, pathlib, random, sys\n"
            f"sys.path.insert(0, {str(TESTS)!r})\n"
            "import random_products\n"
            f"seed = {draw.getrandbits(30)}\n"
            "runner = random_products.Runner(pathlib.Path.cwd())\n"
            "cases = random.Random(seed).sample(list(random_products.cover(2, seed)), 15)\n"
            "wrong = [(case, m) for case in cases if (m := runner.check(case)) is not None]\n"
            "sys.exit(str(wrong) if wrong else 0)\n")
    expect(run([sys.executable, "-c", code], folder), 0)


def programs(folder, draw):
    seed, count, ranks = draw.getrandbits(30), 6, draw.randint(1, 3)
    drive = TESTS / "random_programs.py"
    expect(run([sys.executable, drive, "make", folder, count, seed, ranks], folder), 0)
    for i in range(count):
        done = run([*launcher(ranks), MPIMATMUL, "run", f"p{i}.py", "--quiet"], folder)
        expect(done, 0)
        (folder / f"p{i}.py.txt").write_text(done.stdout)
    expect(run([sys.executable, drive, "compare", folder, count], folder), 0)


def restarts(folder, draw):
    kinds = ("training", "product", "keep", "saves", "loops", "script")
    expect(run([sys.executable, TESTS / "kill_and_restart.py", 4, draw.getrandbits(30), draw.choice(kinds)], folder), 0)


def resume(folder, draw):
    expect(run([sys.executable, TESTS / "kill_resume.py", 4, draw.getrandbits(30)], folder), 0)


def write_product(folder, draw):
    """Writes A.npy, B.npy; returns their product."""
    rng = np.random.default_rng(draw.getrandbits(32))
    m, k, n = (draw.randint(1, 700) for _ in range(3))
    a, b = (rng.integers(-4, 5, shape).astype("f4") for shape in ((m, k), (k, n)))
    np.save(folder / "A.npy", a)
    np.save(folder / "B.npy", b)
    return a.astype(float) @ b


def expect_product(folder, expected):
    if not np.array_equal(np.load(folder / "C.npy"), expected):
        raise Wrong("C.npy is wrong")


def devices(folder, draw):
    expected = write_product(folder, draw)
    rules = draw.choice(("corrupt=2", "garble=2", "fail=2", "fail-upload=2", "hang=2", "delay=20ms", "repeat=3"))
    ranks = draw.randint(1, 3)
    words = [*launcher(ranks), MPIMATMUL, "mul", "A.npy", "B.npy", "-o", "C.npy", "--quiet", "--device",
             f"faulty:{rules}:cpu", "--device-timeout", 1] + ["--no-fallback"] * (draw.random() < 0.3)
    done = run(words, folder)
    expect(done, 0, 69, 79)
    if done.returncode == 0:
        expect_product(folder, expected)
    else:
        check_error(done)
        if (folder / "C.npy").exists():
            raise Wrong("a failed job left C.npy")


def stalls(folder, draw):
    write_product(folder, draw)
    stopped = draw.randint(0, 1)
    (folder / "record").write_text('#!/bin/sh\necho $$ > "pid.$OMPI_COMM_WORLD_RANK"\nexec "$@"\n')
    (folder / "record").chmod(0o755)
    words = [*launcher(2), "./record", MPIMATMUL, "mul", "A.npy", "B.npy", "-o", "C.npy", "--quiet", "--stall-timeout",
             "2", "--weights", "equal", "--tail", "off", "--device", "faulty:delay=40s:cpu"]
    job = subprocess.Popen(list(map(str, words)), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (folder / "C.npy.part").exists() and time.monotonic() < end and job.poll() is None:
        time.sleep(0.05)
    time.sleep(2)  # the run has begun
    pid = int((folder / f"pid.{stopped}").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        errors = job.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        job.kill()
        raise Wrong(f"rank {stopped} was stopped, but the job did not end") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if job.returncode != 75 or f"rank {stopped} on " not in errors:
        raise Wrong(f"rank {stopped} was stopped: status {job.returncode}, {errors!r}")
    (folder / "C.npy.part").unlink(missing_ok=True)  # a stopped process removes no file


def inputs(folder, draw):
    expected = write_product(folder, draw)
    (folder / "C.npy").write_bytes(b"older")
    words = [*launcher(draw.randint(1, 2)), MPIMATMUL, "mul", "A.npy", "B.npy", "-o", "C.npy", "--quiet"]
    fault = draw.choice(("none", "missing", "truncated", "shape", "garbage", "folder", "space", "option"))
    codes = {"none": 0, "missing": 66, "truncated": 65, "shape": 65, "garbage": 65, "folder": 73, "space": 71,
             "option": 64}
    data = (folder / "A.npy").read_bytes()
    if fault == "missing":
        (folder / "A.npy").unlink()
    elif fault == "truncated":
        (folder / "A.npy").write_bytes(data[:draw.randrange(len(data) - 1)])
    elif fault == "shape":
        np.save(folder / "A.npy", np.zeros((3, expected.shape[1] + 701), "f4"))
    elif fault == "garbage":
        (folder / "A.npy").write_bytes(draw.randbytes(draw.randint(1, 3000)))
    elif fault == "folder":
        words[words.index("C.npy")] = "absent/C.npy"
    elif fault == "space":
        words = ["prlimit", f"--fsize={draw.randint(0, expected.size * 4)}"] + words[words.index(MPIMATMUL):]
    elif fault == "option":
        words += ["--weights", "nonsense"]
    done = run(words, folder)
    expect(done, codes[fault])
    if fault == "none":
        expect_product(folder, expected)
    else:
        check_error(done)
        if (folder / "C.npy").read_bytes() != b"older":
            raise Wrong(f"{fault}: the older C.npy was touched")


def kept(folder, draw):
    expected, ranks = write_product(folder, draw), draw.randint(1, 3)
    end = [MPIMATMUL, "run", "--quiet", "--shard-dir", folder / "shards"]
    (folder / "keep.py").write_text('save("kept:y", load("A.npy") @ load("B.npy"))\n')
    (folder / "read.py").write_text('save("C.npy", load("kept:y"))\n')
    for text in ("keep.py", "read.py"):
        expect(run([*launcher(ranks), *end[:2], text, *end[2:]], folder), 0)
    expect_product(folder, expected)


def cuts(folder, draw):
    """Three emulated hosts: see tests/lab/restarts.bats."""
    lab = 'source "$0"; lab_up 3 >&2; trap lab_down EXIT; [ -z "${LAB_MISSING:-}" ] || exit 99\n' \
          'inside="ip netns exec $LAB_NAME-launcher mpirun -q --bind-to none --mca plm_rsh_agent $LAB_FOLDER/agent"\n' \
          f'export RESTARTS_MPIRUN="$inside --tune {REPO}/scripts/mpimatmul.tune -H node1:1,node2:2"\n' \
          'export RESTARTS_MPIRUN_LEFT="$inside -H node2:1,node3:2"\n' \
          'export RESTARTS_CUT="ip -n $LAB_NAME-launcher link set node1 nomaster"\n' \
          'export RESTARTS_MEND="ip -n $LAB_NAME-launcher link set node1 master bridge"\n"$@"'
    kind = draw.choice(("training", "product", "saves", "loops", "script"))
    words = [sys.executable, TESTS / "kill_and_restart.py"]
    words += ["--cut", 1] if draw.random() < 0.3 else [3]
    done = run(["bash", "-c", lab, TESTS / "lab" / "hosts.bash", *words, draw.getrandbits(30), kind], folder)
    if done.returncode == 99:
        return "no emulated hosts here"
    return expect(done, 0)


KINDS = {each.__name__: each
         for each in (products, programs, restarts, resume, devices, stalls, inputs, kept, cuts)}


# ---------------------------------------------------------------------------------------- leftovers

def processes():
    """Returns {pid: command} of the processes that jobs have started."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if MARK.encode() in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return found


def segments():
    return {path.name for path in pathlib.Path("/dev/shm").iterdir()
            if path.owner() == pathlib.Path("/proc/self").owner() and "mpimatmul" in path.name}


def leftovers(before):
    """Waits for the job's processes to end. Returns what is left, as text."""
    end = time.monotonic() + ENDING_SECONDS
    while (left := processes()) and time.monotonic() < end:
        time.sleep(0.2)
    problems = [f"process {pid} still runs: {command}" for pid, command in left.items()]
    return problems + [f"segment {name} is left" for name in sorted(segments() - before)]


# -------------------------------------------------------------------------------------------- growth

def growth(lines):
    """Compares the second half of the resident process's figures with the end of the first."""
    figures = [tuple(map(int, line.split())) for line in lines if line.count(" ") == 2]
    if len(figures) < 8:
        return f"only {len(figures)} figures of the resident process", True
    half = figures[len(figures) // 4:len(figures) // 2]
    first, last = (tuple(max(column) for column in zip(*part)) for part in (half, figures[-len(half):]))
    text = (f"resident process: {first[0] / 1e6:.1f} MB, {first[1]} descriptors, {first[2]} mappings; at the end "
            f"{last[0] / 1e6:.1f} MB, {last[1]}, {last[2]}")
    return text, last[0] > 1.05 * first[0] + 4e6 or last[1] > first[1] or last[2] > first[2] + 8


def main(hours, seed="1", *names):
    draw, end = random.Random(int(seed)), time.monotonic() + 3600 * float(hours)
    counts, wrong, missing = collections.Counter(), 0, {}
    names = list(names or KINDS)
    asked_to_end = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked_to_end.append(number))
    with tempfile.TemporaryDirectory(prefix="soak.") as top:
        os.environ["TMPDIR"] = top
        with open(f"{top}/resident", "w", encoding="utf-8") as out:
            resident = subprocess.Popen([sys.executable, "-c", RESIDENT], stdout=out, stdin=subprocess.DEVNULL)
        os.environ[MARK.split("=")[0]] = MARK.split("=")[1]  # for jobs alone
        while time.monotonic() < end and not asked_to_end:
            kind = min(names, key=lambda name: (counts[name], draw.random())) if draw.random() < 0.5 \
                else draw.choice(names)
            own, before = draw.getrandbits(40), segments()
            folder = pathlib.Path(top, "job")
            folder.mkdir()
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    for _ in range(draw.choice((0, 0, 1)) if kind != "cuts" else 0)]  # three hosts are enough
            begin = time.monotonic()
            try:
                why = KINDS[kind](folder, random.Random(own))
                problems = []
                if why is not None:
                    missing[kind] = why
            except Wrong as problem:
                problems = [str(problem)]
            finally:
                for each in busy:
                    each.kill()
                    each.wait()
            problems += leftovers(before)
            problems += [f"{path.name} is left" for path in folder.rglob("*.part")] if not problems else []
            counts[kind] += 1
            wrong += bool(problems)
            for problem in problems:
                print(f"{kind} {own}, job {sum(counts.values())}, {time.monotonic() - begin:.1f} s: {problem}",
                      flush=True)
            shutil.rmtree(folder, ignore_errors=True)
        ended = resident.poll()
        resident.kill()
        resident.wait()
        text, grows = growth(pathlib.Path(top, "resident").read_text(encoding="utf-8").splitlines())
    print(", ".join(f"{name} {counts[name]}" for name in names))
    print(text + (f"; it ended with {ended}" if ended is not None else ""))
    for kind, why in missing.items():
        print(f"not run: {kind}: {why}")
    print(f"seed {seed}: {sum(counts.values())} jobs, {wrong} wrong{', growth' * grows}")
    return 1 if wrong or grows or ended is not None or not all(counts[name] for name in names) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
