# SPDX-License-Identifier: MIT
"""Cases with one rank that is slower than the other."""
from cases.local import prepare
from harness.measure import Failed, Skip, median
from harness.tables import row, side

SLOWER = 4


def work_seconds(sample):
    """Computing, checking and waiting of the rank with the most of it: the run without its files and its launch."""
    return max(rank["compute_seconds"] + rank["verify_seconds"] + rank["idle_seconds"]
               for rank in sample["report"]["ranks"])


def compare(bench, name, product, devices, options, ideal_part, ideal_text):
    """A run on two ranks against an ideal that is a part of what one core needs alone, both measured in turn."""
    samples = bench.alternate({
        "mul": lambda: product.mul_devices(devices, options),
        "one core": lambda: product.sgemm(1, ["taskset", "-c", bench.first_core]),
    })
    one_core = median([sample["seconds"] for sample in samples["one core"]])
    ideal = side(f"ideal: {ideal_text}", value=one_core * ideal_part)
    work = side(f"{product.text}: compute + check + idle of the rank with the most, launch and files apart",
                values=[work_seconds(sample) for sample in samples["mul"]])
    wall = side(f"{product.text} files in to file out, launch apart", samples["mul"])
    parts = {"one core alone": f"{one_core:.3f} s"}
    return [row("work", work, ideal, asked=bench.asked(f"{name} work"), parts=parts),
            row("with files", wall, ideal, asked=bench.asked(f"{name} with files"), parts=parts)]


def slow4(bench):
    size = bench.pick(6144, 512)
    product = prepare(bench, size, size, size)
    return compare(bench, "slow4", product, ["cpu", f"faulty:repeat={SLOWER}:cpu"], ["--weights", "auto"],
                   1 / (1 + 1 / SLOWER), f"one core's time over the sum of the speeds, 1 + 1/{SLOWER}")


def slowdown(bench):
    size = bench.pick(6144, 512)
    product = prepare(bench, size, size, size)
    rule = "faulty:repeat={},from={}:cpu"
    try:
        plain = product.mul_devices(["cpu", rule.format(SLOWER, 10**6)], ["--weights", "equal"])
    except Failed as problem:
        raise Skip(f"no rule `from=N` of the device `faulty`: {problem}") from None
    products = plain["report"]["ranks"][1]["products"]
    if products < 2:
        raise Skip(f"rank 1 computes its part in {products} product, so there is no half-way")
    first_slow = products // 2 + 1
    # Two equal cores reach the half-way point at a quarter of one core's time; half of the work is left.
    ideal = 1 / 4 + 1 / 2 / (1 + 1 / SLOWER)
    rows = compare(bench, "slowdown", product, ["cpu", rule.format(SLOWER, first_slow)], ["--weights", "equal"], ideal,
                   f"both at full speed to the half, then 1 + 1/{SLOWER} of a core: {ideal:.2f} of one core's time")
    for one in rows:
        one["note"] = f"rank 1 is {SLOWER} times slower from product {first_slow} of {products}"
    return rows
