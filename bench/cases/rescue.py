# SPDX-License-Identifier: MIT
"""Two emulated hosts, the second slower than the plan assumes: the gain of work stealing by root's
host."""
import json
import time
from pathlib import Path

from cases.balance import BothBusy, with_kernels
from cases.lab import FROM_ROOT, calibrate, prepare
from cases.programs import Program
from cases.slow import SLOWER, SlowLater, make_quota, one_core
from harness.builds import Figure, measure_against
from harness.lab import Lab
from harness.machine import require_memory
from harness.measure import Failed, descendants, run

KERNELS = "Sandybridge"


def mul(product, lab, slower=(), **more):
    words = product.words(["--device", "cpu", "--io", "root"])
    return product.mul(lab.mpirun_each([words, [*slower, *words]]), env=lab.env(), **more)


def calibrate_and_lie(bench, lab, slower):
    """Stores speeds and links of both hosts, per build. Then the second's file gets the first one's
    speeds."""
    for build in bench.builds:
        with bench.by(build):
            words = [bench.program, "calibrate", "--device", "cpu", "--quiet"]
            run(lab.mpirun_each([words, [*slower, *words]]), env=lab.env())
        first, second = (bench.cache(build) / "mpimatmul" / f"{host}.json" for host in lab.hosts[:2])
        if not first.exists() or not second.exists():
            raise Failed("calibrate has stored no speeds of two hosts")
        profile = json.loads(second.read_text())
        profile["devices"][0]["gemm"] = json.loads(first.read_text())["devices"][0]["gemm"]
        second.write_text(json.dumps(profile))


def labdoctored(bench):
    size, slower = bench.pick(6144, 512), with_kernels(KERNELS)
    product = prepare(bench, 2, size, size, size)
    busy = BothBusy(bench, product, slower)
    with Lab(bench, 2) as lab:
        lab.rate("1gbit")
        calibrate_and_lie(bench, lab, slower)
        return measure_against(
            bench, KERNELS,
            Figure(f"{product.text}, 2 hosts, 1gbit, the second with kernels for {KERNELS}, stored speeds say equal: "
                   f"{FROM_ROOT}", lambda: mul(product, lab, slower)),
            Figure("both cores' speeds, measured with both busy, added up", busy.once, is_ours=False),
            parts=lambda sample: {"speeds": f"{sample['share'] / (1 - sample['share']):.2f} : 1"})


def labslowdown(bench):
    size = bench.pick(6144, 512)
    product = prepare(bench, 2, size, size, size)
    quarter, ideal = one_core(bench, product)["seconds"] / 4, 1 / 4 + 1 / 2 / (1 + 1 / SLOWER)
    with make_quota() as quota, Lab(bench, 2) as lab:
        lab.rate("1gbit")
        calibrate(bench, lab)

        def slowed():
            later = SlowLater(product, quota, quarter, find=lambda _: lab.pids("node2"))
            sample = mul(product, lab, watch=later)
            if not later.happened:
                raise Failed("the run ended before it was half-way")
            return sample

        return measure_against(
            bench, "1gbit",
            Figure(f"{product.text}, 2 hosts, 1gbit, the second gets 1/{SLOWER} of its core's time by a control group "
                   f"after {quarter:.2f} s: {FROM_ROOT}", slowed),
            Figure(f"ideal: both at full speed to the half, then 1 + 1/{SLOWER} of a core: {ideal:.2f} of one core's "
                   "time", lambda: one_core(bench, product), value=lambda sample: ideal * sample["seconds"],
                   is_ours=False))


SIX = """x = generate(({0}, {0}), seed=1)
for i in range(6):
    x = relu(x @ generate(({0}, {0}), seed=i + 2))
save("six.npy", x)
"""


class Span:
    """Watches a run: returns the seconds from the creation of its result file, before devices are
    ready and the report's clock starts, to its end."""

    def __init__(self, program):
        self.program, self.seconds = program, 0

    def __call__(self, pid):
        while Path(f"/proc/{pid}/exe").exists() and not any(self.program.parts()):
            time.sleep(0.001)
        begin = time.monotonic()
        while any(self.program.parts()):
            time.sleep(0.001)
        self.seconds = time.monotonic() - begin


def slowed_program(bench, label, program, text, launch, env, find):
    """One rank of two is slowed down at 40 % of the work. Also returns the ideal, in the time of an
    undisturbed run."""
    at, ideal = 0.4, 0.4 + 0.6 * 2 / (1 + 1 / SLOWER)
    options, wholes = ["--threads", 1], []
    for _ in range(3):
        span = Span(program)
        seconds = program.ours(launch, env, options, watch=span)["report_seconds"]
        wholes.append((seconds, span.seconds - (1 - at) * seconds))
    after = min(wholes)[1]
    with make_quota() as quota:

        def slowed():
            later = SlowLater(program, quota, after, find=find)
            sample = program.ours(launch, env, options, watch=later)
            if not later.happened:
                raise Failed("the run ended before it was slowed down")
            return sample

        return measure_against(
            bench, label,
            Figure(f"{text}, {label}, one gets 1/{SLOWER} of its core's time by a control group when 40 % is done: "
                   "launch apart", slowed, lambda sample: sample["report_seconds"]),
            Figure(f"ideal: both at full speed for 40 %, then 1 + 1/{SLOWER} of a core: {ideal:.2f} times the time "
                   "without that", lambda: program.ours(launch, env, options),
                   lambda sample: ideal * sample["report_seconds"]))


def steps(bench):
    size = bench.pick(4096, 256)
    require_memory(40 * size * size, 4 * size * size)
    program = Program(bench, "attention")
    program.file = bench.folder / "six.py"
    program.file.write_text(SIX.format(size))
    text = f"six products {size}^3 with relu, two ranks of one core"
    rows = slowed_program(bench, "one node", program, text, ["mpirun", "-q", "-n", "2"], None, descendants)
    with Lab(bench, 2) as lab:
        for rate in ("10gbit", "1gbit"):
            lab.rate(rate)
            calibrate(bench, lab)
            rows += slowed_program(bench, f"2 hosts, {rate}", program, text, lab.mpirun(), lab.env(),
                                   lambda _: lab.pids("node2"))
    return rows
