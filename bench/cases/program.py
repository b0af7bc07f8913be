# SPDX-License-Identifier: MIT
"""Several products in one job, with values that stay: `peers/program.c` drives the library by its
public header."""
import json

from cases.balance import BothBusy
from harness.builds import Figure, Turns
from harness.lab import Lab
from harness.machine import require_memory
from harness.measure import Failed, Product, median, run
from harness.tables import row, side

RATE = "1gbit"
# A setting that the program makes itself (src/cli/launcher.c). Here the driver and the peers get
# it, too.
PUSH = {"OMPI_MCA_btl_tcp_flags": "send"}
PRODUCTS = 4


def program(bench):
    """Returns the driver of the build under measurement."""
    path = bench.program.parent.parent / "bench" / "program"
    if not path.exists():
        raise Failed(f"peer program is not built there: make {path.relative_to(path.parents[3])}")
    return path


def run_driver(bench, lab, words):
    """Returns the driver's output, its whole time and the bytes on the cable, as a sample."""
    before = lab.traffic("node2")
    command, output = run([*lab.mpirun(), program(bench), *words], env=lab.env())
    received, sent = (after - was for after, was in zip(lab.traffic("node2"), before))
    found = json.loads(output)
    return {"seconds": found["seconds"][-1], "command_seconds": command, "peer": found,
            "received": received, "sent": sent}


def rows_of_builds(bench, turns, make):
    """Returns make(build, suffix) for the measured builds."""
    return [made for build in (bench.builds if not turns.refused else ("new",))
            for made in make(build, ", old build" if build == "old" else "")]


# ------------------------------------------------------------------------------------------------------------- chain

class Chain:
    """X W1 W2 W3 W4 with files of root's: as one program, and as runs of `mul`, each of which reads
    the result of the one before."""

    def __init__(self, bench, lab, rows, side_length):
        self.bench, self.lab, self.rows, self.side = bench, lab, rows, side_length
        require_memory(4 * (7 * rows * side_length + PRODUCTS * side_length**2), 32 * rows * side_length)
        for seed, name in enumerate(["X", *self.weights()], 1):
            dims = f"{rows if name == 'X' else side_length}x{side_length}"
            run([bench.program, "gen", self.path(name), "--dims", dims, "--seed", seed, "--quiet"])

    def weights(self):
        return [f"W{i}" for i in range(1, PRODUCTS + 1)]

    def path(self, name):
        return self.bench.folder / f"{name}.bin"

    def compare(self):
        """Compares the numbers to the error of four roundings of sums."""
        if self.path("Y").exists() and self.path("Y4").exists():
            run([self.bench.program, "diff", self.path("Y4"), self.path("Y"), "--tolerance", self.side**2 * 1e-3,
                 "--quiet"])

    def as_program(self):
        self.path("Y").unlink(missing_ok=True)
        sample = run_driver(self.bench, self.lab,
                            ["chain", *(self.path(name) for name in ("X", *self.weights(), "Y"))])
        self.compare()
        return sample

    def as_runs(self):
        """seconds: the sum of the reports' wall times."""
        seconds, command, last = 0, 0, "X"
        for i, name in enumerate(self.weights(), 1):
            self.path(f"Y{i}").unlink(missing_ok=True)
            report = self.bench.folder / "report.json"
            took, _ = run([*self.lab.mpirun(), self.bench.program, "mul", self.path(last), self.path(name), "-o",
                           self.path(f"Y{i}"), "--device", "cpu", "--io", "root", "--report", report, "--quiet"],
                          env=self.lab.env())
            seconds, command, last = seconds + json.loads(report.read_text())["wall_seconds"], command + took, f"Y{i}"
        return {"seconds": seconds, "command_seconds": command}

    def speeds(self):
        """Both cores at once, each with a part of the rows of one product: (root's, the other's).
        """
        busy = BothBusy(self.bench, Product(self.bench, self.rows, self.side, self.side))
        share, total = busy.speeds([self.rows // 2, self.rows - self.rows // 2])
        return share * total, (1 - share) * total

    def floor(self, speeds, rate):
        """Returns (seconds, part of the rows that root keeps), a lower bound for any program: the
        rest of X and all weights go out, the rest of the result comes back at the same time, both
        cores compute, and all of it overlaps."""
        flops, x = 2 * self.rows * self.side**2 * PRODUCTS, 4 * self.rows * self.side
        weights = 4 * self.side**2 * PRODUCTS

        def seconds(kept):
            moved = ((1 - kept) * x + weights) / rate if kept < 1 else 0
            return max(moved, kept * flops / speeds[0], (1 - kept) * flops / speeds[1])

        return min((seconds(i / 1000), i / 1000) for i in range(1001))


def chain_rows(turns, build, suffix, floor, asked):
    """Rows of one build: the program against four runs, the lower bound and four whole commands."""
    ours, theirs = turns.of("program", build), turns.of("runs", build)
    last = ours[-1]
    traffic = {"to the other host": f"{last['received'] / 1e6:.0f} MB", "back": f"{last['sent'] / 1e6:.0f} MB",
               "plan": f"{median([one['peer']['plan_seconds'] for one in ours]):.3f} s"}
    program_side = turns.figures["program"].side(ours)
    commands = [side(f"{text}, whole command{'s'[:place]}", values=[one["command_seconds"] for one in samples])
                for place, (text, samples) in enumerate((("one program", ours), (f"{PRODUCTS} runs of mul", theirs)))]
    pairs = [a / b for a, b in zip(commands[0]["values"], commands[1]["values"])]
    return [row(f"{PRODUCTS} runs{suffix}", program_side, turns.figures["runs"].side(theirs), parts=traffic,
                asked=asked(f"{PRODUCTS} runs"), pairs=turns.pairs("program", build, "runs", build)),
            row(f"floor{suffix}", program_side, floor[0], parts=floor[1], asked=asked("floor")),
            row(f"whole commands{suffix}", commands[0], commands[1], asked=asked("whole commands"), pairs=pairs,
                note=turns.refused)]


def chain(bench):
    bench.peer("program")
    rows, length = bench.pick((8192, 2048), (512, 128))
    with Lab(bench, 2) as lab:
        lab.variables.update(PUSH)
        lab.rate(RATE)
        job = Chain(bench, lab, rows, length)
        text = f"{rows} x {length} by {PRODUCTS} weights of {length} x {length}, 2 hosts, {RATE}"
        link = lab.measure_link(bench.pick(64 << 20, 1 << 20))
        turns = Turns(bench, {
            "program": Figure(f"{text}: one program, root's files to root's file, launch apart", job.as_program),
            "runs": Figure(f"{PRODUCTS} runs of mul, walls of their reports added up", job.as_runs),
            "speed": Figure("OpenBLAS on both cores at once", lambda: {"speeds": job.speeds()}, is_ours=False,
                            value=lambda sample: sum(sample["speeds"]) / 1e9, unit="GFLOP/s"),
        })
        link = max(link, lab.measure_link(bench.pick(64 << 20, 1 << 20)))
    speeds = [median(values) for values in zip(*(one["speeds"] for one in turns.of("speed", None)))]
    seconds, kept = job.floor(speeds, link)
    floor = (side("floor: cable and both cores at once", value=seconds),
             {"wire": f"{link / 1e6:.1f} MB/s", "cores": " + ".join(f"{one / 1e9:.0f}" for one in speeds) + " GFLOP/s",
              "root keeps": f"{100 * kept:.0f} %"})
    return rows_of_builds(bench, turns, lambda build, suffix: chain_rows(
        turns, build, suffix, floor, lambda name: bench.asked(f"chain {name}")))


# ---------------------------------------------------------------------------------------------------------- resident

def product_seconds(sample):
    return sample["seconds"] - sample["peer"]["operands"]["seconds"][-1]


def best_of(bench, name, ways, once):
    """Returns the fastest of `ways`, each tried twice."""
    tried = {}
    for way in ways:
        tried[way] = min(once(*way)["seconds"] for _ in range(2))
        bench.say(f"{name} {' '.join(map(str, way))}: {tried[way]:.3f} s")
    return min(tried, key=tried.get)


def cosma(bench, lab, product, overlap, *split):
    """Runs one multiplication by COSMA after a warm-up."""
    _, output = run([*lab.mpirun(), bench.peer("cosma_sgemm"), product.m, product.k, product.n, 1, 1, *split],
                    env={**lab.env(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                         "COSMA_OVERLAP_COMM_AND_COMP": overlap})
    found = json.loads(output)
    return {"seconds": found["seconds"][0], "peer": found}


def cosma_figure(bench, lab, product, name, splits):
    ways = [(overlap, *split) for overlap in ("ON", "OFF") for split in splits]
    overlap, *split = best_of(bench, f"{name}, overlap:", ways, lambda *way: cosma(bench, lab, product, *way))
    return Figure(f"COSMA, operands in its own layout, overlap {overlap.lower()}, "
                  f"split {f'of {split[0]} asked for' if split else 'by its own choice'}",
                  lambda: cosma(bench, lab, product, overlap, *split), is_ours=False)


def resident_figures(bench, lab, product):
    """Measures the program and the available peers, and notes the missing ones."""
    size, missing = product.m, []
    figures = {"product": Figure(
        f"{product.text}, A, B and C by rows on 2 hosts, {RATE}: the product alone (with it less without it), checked",
        lambda: run_driver(bench, lab, ["resident", size, size, size, 1, 1]), value=product_seconds)}
    if bench.has_peer("psgemm"):
        ways = [(block, grid) for block in bench.pick((64, 128, 256, 512), (64,)) for grid in (1, 2)]
        block, grid = best_of(bench, "psgemm in blocks, rows of the grid:", ways,
                              lambda *way: product.psgemm(lab, 2, "in-place", *way))
        figures["psgemm"] = Figure(
            f"ScaLAPACK psgemm, operands in place, blocks of {block}, grid {grid} x {2 // grid}",
            lambda: product.psgemm(lab, 2, "in-place", block, grid), is_ours=False)
    else:
        missing.append("psgemm: not built, libscalapack-openmpi-dev is missing")
    if bench.has_peer("cosma_sgemm"):
        for name, splits in (("COSMA", [()]), ("COSMA split by hand", [("m",), ("n",), ("k",)])):
            figures[name] = cosma_figure(bench, lab, product, name, splits)
    else:
        missing.append("COSMA: not at hand, make bench-peers COSMA=DIR builds it where it is")
    return figures, "; ".join(missing)


def resident(bench):
    bench.peer("program")
    size = bench.pick(4096, 256)
    require_memory(0, 6 * 4 * size * size)
    with Lab(bench, 2) as lab:
        lab.variables.update(PUSH)
        lab.rate(RATE)
        figures, missing = resident_figures(bench, lab, Product(bench, size, size, size))
        turns = Turns(bench, figures)

    def rows(build, suffix):
        ours = turns.of("product", build)
        figure = figures["product"].side(ours)
        parts = {"of both runs and their warm-ups, to the other host": f"{ours[-1]['received'] / 1e6:.0f} MB",
                 "back": f"{ours[-1]['sent'] / 1e6:.0f} MB", "C": ours[-1]["peer"]["result"]}
        others = [name for name in figures if name != "product"]
        if not others:
            return [row(f"alone{suffix}", figure, parts=parts, note=missing)]
        return [row(f"{name}{suffix}", figure, figures[name].side(turns.of(name, None)), parts=parts, note=missing,
                    asked=bench.asked(f"resident {name}"), pairs=turns.pairs("product", build, name, None))
                for name in others]

    return rows_of_builds(bench, turns, rows)
