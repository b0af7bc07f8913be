# SPDX-License-Identifier: MIT
"""Cases with one rank that is slower than the other."""
import contextlib
import os
import time
from pathlib import Path

from cases.balance import against_both, two_ranks
from cases.local import prepare
from harness.measure import Failed, Skip, descendants, median
from harness.quota import Quota
from harness.tables import row, side

SLOWER = 4
QUOTA = "a control group"


def work_seconds(sample):
    """Set-up, computing, checking and waiting of the rank with the most of it: the run without its
    files and launch."""
    return max(rank["setup_seconds"] + rank["compute_seconds"] + rank["verify_seconds"] + rank["idle_seconds"]
               for rank in sample["report"]["ranks"])


def compare(bench, name, product, sides, ideal_part, ideal_text):
    """`mul` against an ideal that is a fraction of one core's time alone. All `sides` are measured
    in turn."""
    samples = bench.alternate(sides)
    one_core = median([sample["seconds"] for sample in samples["one core"]])
    ideal = side(f"ideal: {ideal_text}", value=one_core * ideal_part)
    work = side(f"{product.text}: compute + check + idle of the rank with the most, launch and files apart",
                values=[work_seconds(sample) for sample in samples["mul"]])
    wall = side(f"{product.text} files in to file out, launch apart", samples["mul"])
    parts = {"one core alone": f"{one_core:.3f} s"}
    return [row("work", work, ideal, asked=bench.asked(f"{name} work"), parts=parts),
            row("with files", wall, ideal, asked=bench.asked(f"{name} with files"), parts=parts)]


def one_core(bench, product):
    return product.sgemm(1, ["taskset", "-c", bench.cores[0]])


def multiply(product):
    return product.mul_devices(["cpu", f"faulty:repeat={SLOWER}:cpu"], ["--weights", "auto"])


def slow4(bench):
    size = bench.pick(6144, 512)
    product = prepare(bench, size, size, size)
    rows = compare(bench, "slow4", product, {
        "mul": lambda: multiply(product),
        "one core": lambda: one_core(bench, product),
    }, 1 / (1 + 1 / SLOWER), f"one core's time over the sum of the speeds, 1 + 1/{SLOWER}")
    try:
        with make_quota() as quota:
            return rows + slow4_by_quota(bench, product, quota)
    except Skip as reason:
        bench.say(f"{reason}: no row by quota")
        return rows


def by_quota(product, quota):
    """Words that put a command into the quota, and a product on two ranks with these words for the
    second."""
    slower = ["sh", "-c", f'echo $$ > {quota.folder}/cgroup.procs && exec "$@"', "sh"]
    return slower, two_ranks(product.words(["--device", "cpu"]), slower)


def slow4_by_quota(bench, product, quota):
    slower, words = by_quota(product, quota)
    return against_both(bench, product, "quota", slower, lambda: product.mul(words),
                        f"with 1/{SLOWER} of its core by {QUOTA}")


class SlowLater:
    """Watches a run: some seconds after the creation of its result file, rank 1 gets only a part of
    its core. `find` lists the processes below the command's, rank 1 among them."""

    def __init__(self, product, quota, seconds, find=descendants):
        self.product, self.quota, self.seconds, self.find, self.happened = product, quota, seconds, find, False

    def rank_1(self, pid):
        """Returns rank 1's process; None if it has ended."""
        for child in self.find(pid):
            try:
                if b"OMPI_COMM_WORLD_RANK=1" in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    return child
            except OSError:
                pass
        return None

    def __call__(self, pid):
        while Path(f"/proc/{pid}/exe").exists() and not any(self.product.parts()):
            time.sleep(0.001)
        time.sleep(self.seconds)
        rank = self.rank_1(pid)
        if rank is not None:
            self.quota.add(rank)
            self.happened = True


@contextlib.contextmanager
def make_quota():
    try:
        quota = Quota(f"mmul-{os.getpid()}-slow", 1 / SLOWER)
    except (OSError, TypeError):
        raise Skip("no control group can be made here") from None
    try:
        yield quota
    finally:
        quota.remove()


def prepare_slowdown(bench, product, quota):
    """A run that is slowed at its half, and its data."""
    quarter = one_core(bench, product)["seconds"] / 4

    def slowed():
        later = SlowLater(product, quota, quarter)
        sample = product.mul_ranks(2, ["--device", "cpu", "--weights", "auto"], watch=later)
        if not later.happened:
            raise Failed("the run ended before it was half-way")
        return sample

    return slowed, f"after {quarter:.2f} s rank 1 gets 1/{SLOWER} of its core's time by a control group"


def slowdown(bench):
    size = bench.pick(6144, 512)
    product = prepare(bench, size, size, size)
    # Two equal cores reach the half-way point after a quarter of one core's time. Half of the work
    # is left.
    ideal = 1 / 4 + 1 / 2 / (1 + 1 / SLOWER)
    with make_quota() as quota:
        slowed, note = prepare_slowdown(bench, product, quota)
        rows = compare(bench, "slowdown", product,
                       {"mul": slowed, "one core": lambda: one_core(bench, product)}, ideal,
                       f"both at full speed to the half, then 1 + 1/{SLOWER} of a core: {ideal:.2f} of one core's time")
    for one in rows:
        one["note"] = note
    return rows
