# SPDX-License-Identifier: MIT
"""Two emulated hosts, the second of which turns out to be slower than the plan believes: what root's host rescues."""
import json

from cases.balance import BothBusy, with_kernels
from cases.lab import FROM_ROOT, calibrate, prepare
from cases.slow import SLOWER, SlowLater, make_quota, one_core
from harness.builds import Figure, measure_against
from harness.lab import Lab
from harness.measure import Failed, run

KERNELS = "Sandybridge"


def mul(product, lab, slower=(), **more):
    words = product.words(["--device", "cpu", "--io", "root"])
    return product.mul(lab.mpirun_each([words, [*slower, *words]]), env=lab.env(), **more)


def calibrate_and_lie(bench, lab, slower):
    """Stores speeds and links of both hosts, per build; then the second's file says what the first one's has."""
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
