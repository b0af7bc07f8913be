# SPDX-License-Identifier: MIT
"""Cases with several emulated hosts: see harness/lab.py."""
from cases import programs
from harness.builds import Figure, measure_against
from harness.lab import Lab
from harness.machine import require_memory
from harness.measure import Product, Skip, median, run
from harness.tables import row, side

SLOWER = 4
QUOTA = "control group's quota"
FROM_ROOT = "root's files to root's file, launch apart"


def prepare(bench, hosts, m, k, n):
    """Files on the first host. Every host holds the whole B, and a peer may have its own copies
    beside the program's."""
    product = Product(bench, m, k, n)
    require_memory(product.bytes, 2 * product.bytes + hosts * 4 * k * n)
    product.generate()
    return product


def floor_of(product, core_seconds, rate):
    """Returns the lower bound of two hosts, from root to root: root keeps the part w of the rows,
    and the wire carries the rest of A and all of B meanwhile. Or root computes everything and sends
    nothing. (seconds, w)"""
    a, b = 4 * product.m * product.k, 4 * product.k * product.n
    share = min(1.0, (a + b) / (rate * core_seconds + a))
    seconds = max(((1 - share) * a + b) / rate, share * core_seconds)
    return (core_seconds, 1.0) if core_seconds <= seconds else (seconds, share)


def two_hosts(bench, lab, product, rate):
    """Returns the rows for one rate of the cable."""
    lab.rate(rate)
    size = bench.pick(64 << 20 if rate == "1gbit" else 16 << 20, 1 << 20)
    link = lab.measure_link(size)
    sides = {
        "mul": lambda: product.mul_lab(lab, 2),
        "one core": lambda: product.sgemm(1, lab.on("node1")),
    }
    if bench.has_peer("psgemm"):
        sides["psgemm in place"] = lambda: product.psgemm(lab, 2, "in-place")
        sides["psgemm from root"] = lambda: product.psgemm(lab, 2, "from-root")
    samples = bench.alternate(sides)
    link = max(link, lab.measure_link(size))
    bench.say(f"{rate}: {link / 1e6:.1f} MB/s, the better of before and after")
    core_seconds = median([sample["seconds"] for sample in samples["one core"]])
    seconds, share = floor_of(product, core_seconds, link)
    parts = {"wire": f"{link / 1e6:.1f} MB/s", "one core": f"{core_seconds:.3f} s",
             "root keeps": f"{100 * share:.0f} %",
             "A": f"{4e-6 * product.m * product.k:.0f} MB", "B": f"{4e-6 * product.k * product.n:.0f} MB"}
    ours = side(f"{product.text}, 2 hosts, {rate}: {FROM_ROOT}", samples["mul"])
    others = [("floor", side("floor: wire and root's core at once", value=seconds), parts),
              ("one core", side("compute only: OpenBLAS on one core", samples["one core"]), {})]
    texts = {"psgemm in place": "ScaLAPACK psgemm, compute and its own messages, operands in place",
             "psgemm from root": "ScaLAPACK psgemm, root's memory to root's memory"}
    others += [(name, side(text, samples[name]), {}) for name, text in texts.items() if name in samples]
    note = "" if bench.has_peer("psgemm") else "psgemm: not built, libscalapack-openmpi-dev is missing"
    return [row(f"{rate} {name}", ours, other, parts=more, note=note, asked=bench.asked(f"lab2 {rate} {name}"))
            for name, other, more in others]


def lab2(bench):
    size = bench.pick(4096, 512)
    product = prepare(bench, 2, size, size, size)
    with Lab(bench, 2) as lab:
        return two_hosts(bench, lab, product, "1gbit") + two_hosts(bench, lab, product, "100mbit")


def advice(samples):
    """Returns the faster choice that the last report proposes, as parts of a row."""
    text = samples[-1]["report"]["faster"]
    return {"report": f"'{text}'"} if text else {}


def four_hosts(bench, lab, product, rate, how):
    """Returns the row for one rate of the cable."""
    lab.rate(rate)
    link = lab.measure_link(bench.pick(64 << 20 if rate == "1gbit" else 16 << 20, 1 << 20))
    slower = [] if how == QUOTA else ["--device", "faulty:repeat=2:cpu"]
    samples = bench.alternate({
        "2 hosts": lambda: product.mul_lab(lab, 2, slower),
        "4 hosts": lambda: product.mul_lab(lab, 4),
    })
    four = side(f"{product.text}, 4 hosts of half a core each, {rate}: {FROM_ROOT}", samples["4 hosts"])
    two = side("the same on the first 2 hosts", samples["2 hosts"])
    return row(f"{rate} 2 hosts", four, two, asked=bench.asked(f"lab4 {rate} 2 hosts"),
               parts={"speed-up": f"{two['value'] / four['value']:.2f}", "wire": f"{link / 1e6:.1f} MB/s",
                      "half a core by": how, **advice(samples["4 hosts"])})


def lab4(bench):
    product = prepare(bench, 4, *bench.pick((4096, 14336, 4096), (256, 896, 256)))
    with Lab(bench, 4) as lab:
        how = QUOTA if lab.limit(0.5) else "2 hosts: faulty:repeat=2, 4 hosts: two on a core"
        return [four_hosts(bench, lab, product, rate, how) for rate in ("1gbit", "100mbit")]


def labslow(bench):
    size = bench.pick(6144, 512)
    product = prepare(bench, 2, size, size, size)
    with Lab(bench, 2) as lab:
        if not lab.limit(1 / SLOWER, lab.hosts[1:]):
            raise Skip("no control group can be made here")
        lab.rate("1gbit")
        samples = bench.alternate({
            "mul": lambda: product.mul_lab(lab, 2),
            "equal": lambda: product.mul_lab(lab, 2, ["--weights", "equal", "--tail", "off"]),
            "one core": lambda: product.sgemm(1, lab.on("node1")),
        })
    ours = side(f"{product.text}, 2 hosts, one with 1/{SLOWER} of a core, 1gbit: {FROM_ROOT}", samples["mul"])
    parts = advice(samples["mul"])
    return [row("equal shares", ours, side("the same with --weights equal --tail off", samples["equal"]), parts=parts),
            row("one core", ours, side("compute only: OpenBLAS on the faster host's core", samples["one core"]))]


# ---------------------------------------------------------------------------------------------------------- prediction

def calibrate(bench, lab):
    """Stores speeds and links with each build's `calibrate`, so that a plan has all its data."""
    for build in bench.builds:
        with bench.by(build):
            run([*lab.mpirun(), bench.program, "calibrate", "--device", "cpu", "--quiet"], env=lab.env())


def against_prediction(bench, lab, label, product, note=""):
    """Returns the prediction in the report of the run itself."""
    last = {}

    def once():
        last[bench.program] = product.mul_lab(lab, lab.count)
        return last[bench.program]

    return measure_against(
        bench, label, Figure(f"{product.text}, {label}: {FROM_ROOT}", once),
        Figure("predicted by the plan of the same run", lambda: last[bench.program],
               value=lambda sample: sample["report"]["predicted_seconds"]), note=note)


def predict(bench):
    rows, size = [], bench.pick(4096, 256)
    product = prepare(bench, 2, size, size, size)
    with Lab(bench, 2) as lab:
        for rate in ("1gbit", "100mbit"):
            lab.rate(rate)
            calibrate(bench, lab)
            rows += against_prediction(bench, lab, f"2 hosts, {rate}", product)
        lab.rate(programs.RATE)
        calibrate(bench, lab)
        rows += programs.predict(bench, lab)
    product = prepare(bench, 4, *bench.pick((4096, 14336, 4096), (256, 896, 256)))
    with Lab(bench, 4) as lab:
        if not lab.limit(0.5):
            bench.say("no control group can be made here: no row of four hosts")
            return rows
        lab.rate("1gbit")
        calibrate(bench, lab)
        return rows + against_prediction(bench, lab, "4 hosts, 1gbit", product, f"half a core by {QUOTA}")
