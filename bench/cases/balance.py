# SPDX-License-Identifier: MIT
"""Two ranks of this machine, equal or not: the cost of sharing, and the gain of late work stealing.
"""
import json
import subprocess

from cases.local import prepare
from harness.builds import Figure, measure_against
from harness.measure import Failed, Skip, run

# Other kernels of OpenBLAS make a slower CPU of this one, without a quota or sleeps.
FILES = "files in to file out, launch apart"
KERNELS = ("Haswell", "Sandybridge", "Nehalem")


def balance(bench):
    size = bench.pick(8192, 512)
    product = prepare(bench, size, size, size)
    return measure_against(
        bench, "default", Figure(f"{product.text} on 2 ranks: {FILES}",
                                 lambda: product.mul_ranks(2, ["--device", "cpu"])),
        Figure("the same with --weights equal --tail off",
               lambda: product.mul_ranks(2, ["--device", "cpu", "--weights", "equal", "--tail", "off"])))


# ------------------------------------------------------------------------------------------------- both speeds at once

class BothBusy:
    """Measures the speed of bare OpenBLAS on two cores at once. `slower` are words before the
    second's command that make it slower."""

    def __init__(self, bench, product, slower=()):
        self.bench, self.product, self.slower = bench, product, slower
        if len(bench.cores) < 2:
            raise Skip("needs two cores")
        part = bench.pick(384, 16)
        self.share = self.speeds([part, part])[0]

    def start(self, core, words, rows):
        words = [*words, "taskset", "-c", core, self.bench.peer("sgemm"), rows, self.product.k, self.product.n, 1, 1, 1,
                 "gate"]
        return subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def speeds(self, rows):
        """Returns (part of the first in the sum, sum of both in operations per second) for these
        numbers of rows. Both begin together."""
        first, second = self.bench.cores[:2]
        started = [self.start(first, (), rows[0]), self.start(second, self.slower, rows[1])]
        if not all([process.stdout.readline() == "ready\n" for process in started]):
            raise Failed(f"peer sgemm does not begin: {' '.join(map(str, self.slower))}")
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        found = [json.loads(process.communicate()[0]) for process in started]
        each = [2 * count * self.product.k * self.product.n / one["seconds"][0] for count, one in zip(rows, found)]
        return each[0] / sum(each), sum(each)

    def once(self):
        """Sizes the work so that both end together and each is measured beside the other."""
        first = min(max(round(self.product.m * self.share), 1), self.product.m - 1)
        self.share, speed = self.speeds([first, self.product.m - first])
        return {"seconds": self.product.flops / speed, "share": self.share}


def against_both(bench, product, name, slower, mul, words):
    busy = BothBusy(bench, product, slower)
    return measure_against(
        bench, name,
        Figure(f"{product.text} on 2 ranks, the second {words}: {FILES}", mul),
        Figure("both cores' speeds, measured with both busy, added up", busy.once, is_ours=False),
        parts=lambda sample: {"speeds": f"{sample['share'] / (1 - sample['share']):.2f} : 1"})


def with_kernels(kernels):
    return ["env", f"OPENBLAS_CORETYPE={kernels}"]


def two_ranks(words, slower):
    """Returns mpirun with a rank for each of two contexts, and words before the second's command.
    """
    return ["mpirun", "-q", "-n", 1, *words, ":", "-n", 1, *slower, *words]


def mul_mixed(product, slower):
    return product.mul(two_ranks(product.words(["--device", "cpu"]), slower))


def mixed(bench):
    size = bench.pick(6144, 512)
    product = prepare(bench, size, size, size)
    rows = []
    for kernels in KERNELS:
        slower = with_kernels(kernels)
        rows += against_both(bench, product, kernels, slower, lambda: mul_mixed(product, slower),
                             f"with kernels for {kernels}")
    return rows


# -----------------------------------------------------------------------------------------------
# wrong stored speeds

def calibrate_and_lie(bench, build, kernels):
    """Measures and stores the speeds of both ranks, and then replaces the slower one's by the
    faster one's."""
    words = [bench.program, "calibrate", "--device", "cpu", "--quiet"]
    run(two_ranks(words, with_kernels(kernels)))
    for path in (bench.cache(build) / "mpimatmul").glob("*.json"):
        profile = json.loads(path.read_text())
        devices = profile.get("devices", [])
        if len(devices) != 2:
            continue
        slow = kernels in devices[1]["driver"]
        devices[slow]["gemm"] = devices[not slow]["gemm"]
        path.write_text(json.dumps(profile))
        return
    raise Failed("calibrate has stored no speeds of two ranks")


def doctored(bench):
    kernels = "Sandybridge"
    size = bench.pick(6144, 512)
    product = prepare(bench, size, size, size)
    for build in bench.builds:
        with bench.by(build):
            calibrate_and_lie(bench, build, kernels)
    slower = with_kernels(kernels)
    return against_both(bench, product, kernels, slower, lambda: mul_mixed(product, slower),
                        f"with kernels for {kernels}, stored speeds say equal")
