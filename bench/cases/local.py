# SPDX-License-Identifier: MIT
"""Cases of this machine alone: files, startup, checking, memory."""
from harness.builds import Figure
from harness.machine import DiskFolder, file_system, require_memory
from harness.measure import PeakMemory, Product, Skip, alternate, jax, median, run
from harness.tables import row, side


def prepare(bench, m, k, n, dtype="float32"):
    """Files of this size, where they, the processes and a second result fit."""
    product = Product(bench, m, k, n, dtype=dtype)
    require_memory(product.bytes + (8 if dtype == "float64" else 4) * m * n, 2 * product.bytes)
    product.generate()
    return product


def file8192(bench):
    size = bench.pick(8192, 512)
    product = prepare(bench, size, size, size)
    samples = bench.alternate({
        "mul": lambda: product.mul_ranks(2, wall="command"),
        "numpy": lambda: product.numpy(2),
        "sgemm": lambda: product.sgemm(2),
    })
    whole = side(f"{product.text} files in to file out on 2 ranks, whole command", samples["mul"])
    inside = side(f"{product.text} files in to file out on 2 ranks, launch apart",
                  values=[sample["report"]["wall_seconds"] for sample in samples["mul"]])
    sgemm = side("compute only: OpenBLAS sgemm, 2 threads", samples["sgemm"])
    blas = samples["numpy"][0]["peer"]["blas"].rpartition("/")[2]
    return [
        row("numpy", whole, side(f"files in to file out by numpy with 2 threads of {blas}, whole command",
                                 samples["numpy"]), asked=bench.asked("file8192 numpy")),
        row("sgemm", whole, sgemm, asked=bench.asked("file8192 sgemm")),
        row("sgemm, launch apart", inside, sgemm, asked=bench.asked("file8192 sgemm, launch apart")),
        *file8192_jax(bench, product),
    ]


def file8192_jax(bench, product):
    """The program from file to file, jax in memory."""
    try:
        samples = bench.alternate({"mul": lambda: product.mul_ranks(2), "jax": lambda: jax(bench, "matmul", product.m)})
    except Skip as reason:
        bench.say(f"file8192 jax: {reason}")
        return []
    return [row("jax", side(f"{product.text} files in to file out on 2 ranks, launch apart", samples["mul"]),
                side("jax, jit, in memory, compiled before, the best of three", samples["jax"]),
                asked=bench.asked("file8192 jax"))]


def float64(bench):
    """Compares with numpy's own default: whole commands, and both without the time before the first
    byte is read."""
    size = bench.pick(4096, 512)
    product = prepare(bench, size, size, size, "float64")
    samples = bench.alternate({"mul": lambda: product.mul_ranks(2, wall="command"), "numpy": lambda: product.numpy(2)})
    blas = samples["numpy"][0]["peer"]["blas"].rpartition("/")[2]
    phases = ("read_seconds", "compute_seconds", "write_seconds")
    inside = [sum(sample["peer"][name] for name in phases) for sample in samples["numpy"]]
    startup = startup_parts([sample["report"] for sample in samples["mul"]])
    return [
        row("numpy", side(f"{product.text} in float64, files in to file out on 2 ranks, whole command", samples["mul"]),
            side(f"files in to file out by numpy with 2 threads of {blas}, whole command", samples["numpy"]),
            asked=bench.asked("float64 numpy")),
        row("numpy, launch apart",
            side(f"{product.text} in float64, files in to file out on 2 ranks, launch apart",
                 values=[sample["report"]["wall_seconds"] for sample in samples["mul"]]),
            side("files in to file out by numpy, imports apart", values=inside), parts=startup),
    ]


def startup(bench):
    """A product so small that only startup and shutdown count, against an MPI program that does
    only these."""
    product = prepare(bench, 64, 64, 64)
    runs = bench.pick(max(bench.runs, 9), bench.runs)
    peer = bench.peer("empty_mpi")
    rows = []
    for name, command, env, words in startup_ways(bench):
        samples = bench.alternate({
            "mul": lambda: product.mul([*command, *product.words()], env=env, wall="command"),
            "empty": lambda: {"seconds": run([*command, peer], env=env)[0]},
        }, runs=runs)
        ours, theirs = (side(text, values=[1e3 * sample["seconds"] for sample in samples[key]]) for key, text in (
            ("mul", f"64^3 {words}, the whole command"), ("empty", f"MPI_Init and MPI_Finalize {words}")))
        parts = {"difference of the medians": f"{ours['value'] - theirs['value']:.1f} ms"}
        parts.update(startup_parts([sample["report"] for sample in samples["mul"]]))
        rows.append(row(name, ours, theirs, unit="ms", asked=bench.asked(f"startup {name}"), parts=parts))
    return rows


def startup_ways(bench):
    """Ways to start the program: (row, words before the program, environment, description)."""
    chosen = fabric_choice(bench)
    return (("alone", [], UNSET, "alone, nothing set"),
            ("launch", ["mpirun", "-q", "-n", 2], chosen, "by mpirun -n 2 with environment.sh"),
            ("launch, Open MPI's defaults", ["mpirun", "-q", "-n", 2], UNSET, "by mpirun -n 2, nothing set"))


# The environment of a user's shell, without the settings that the other cases share.
UNSET = {"HWLOC_COMPONENTS": None, "OMPI_MCA_pml": None}


def fabric_choice(bench):
    """Returns the settings that scripts/environment.sh makes on this machine."""
    _, output = run(["sh", "-c", '. "$0" && env -0', bench.root / "scripts" / "environment.sh"], env=UNSET)
    found = dict(line.split("=", 1) for line in output.split("\0") if "=" in line)
    return {name: found.get(name) for name in UNSET}


def startup_parts(reports):
    """Returns medians of the reports' times before their clock."""
    return {name.removesuffix("_seconds"): f"{1e3 * median([one['startup'][name] for one in reports]):.1f} ms"
            for name in reports[0].get("startup", {})}


def verify(bench):
    rows = []
    big, thin = bench.pick((8192, 64), (512, 16))
    for m, k, n in ((big, big, big), (big, thin, big), (thin, big, big), (big, big, thin)):
        product = prepare(bench, m, k, n)
        samples = bench.alternate({
            "on": lambda: product.mul_ranks(2, ["--weights", "equal"]),
            "off": lambda: product.mul_ranks(2, ["--weights", "equal", "--verify", "off"]),
        })
        name = f"{m} x {k} x {n}"
        rows.append(row(name, side(f"{name} files in to file out on 2 ranks, checked, launch apart", samples["on"]),
                        side("the same with --verify off", samples["off"]), asked=bench.asked(f"verify {name}")))
    return rows


def output(bench):
    """A product with a result large beside its operands, on a disk and in memory."""
    m, k, n = bench.pick((20000, 384, 20000), (512, 16, 512))
    require_memory(4 * (m * k + k * n), 4 * 4 * m * n)
    place = bench.disk
    if file_system(place) == "tmpfs":
        raise Skip(f"'{place}' is in memory: give --disk DIR")
    rows = []
    with DiskFolder(place) as folder:
        rows += output_rows(bench, Product(bench, m, k, n, folder), file_system(folder), ("on", "off"))
    return rows + output_rows(bench, Product(bench, m, k, n), "tmpfs", ("off",))


def output_rows(bench, product, system, modes):
    def alone(once):
        # no data of the side before is still unwritten
        for path in (product.path("C"), product.path("N")):
            path.unlink(missing_ok=True)
        return once()

    product.generate()
    rows, threads = [], bench.threads
    for mode in modes:
        fsync = ["fsync"] if mode == "on" else []
        samples = bench.alternate({
            "mul": lambda: alone(lambda: product.mul(product.words(["--device", "cpu", "--sync", mode]),
                                                     wall="command")),
            "numpy": lambda: alone(lambda: product.numpy(threads, fsync)),
        })
        ours = side(f"{product.text} files in to file out on {system}, --sync {mode}, one process, whole command",
                    samples["mul"])
        theirs = side(f"numpy with {threads} threads, whole command, {'then fsync' if fsync else 'no fsync'}",
                      samples["numpy"])
        name = f"{system}, --sync {mode}"
        rows.append(row(name, ours, theirs, asked=bench.asked(f"output --sync {mode}")))
    for path in (product.path("C"), product.path("N")):
        path.unlink(missing_ok=True)
    return rows


def mul_with_peak(product):
    peak = PeakMemory("mpimatmul")
    sample = product.mul_ranks(2, ["--device", "cpu"], watch=peak)
    return {**sample, "peak_bytes": peak.peak_bytes, "looks": peak.samples}


def memory(bench):
    size = bench.pick(8192, 512)
    product = prepare(bench, size, size, size)
    samples = alternate({"mul": lambda: mul_with_peak(product)}, bench.runs, 0, bench.say)["mul"]
    figure = side(f"{product.text}: largest sum of the PSS of both ranks, sampled every 50 ms",
                  values=[sample["peak_bytes"] / 1e9 for sample in samples])
    matrices = side("A + B + C", value=product.bytes / 1e9)
    return [row("PSS", figure, matrices, unit="GB", asked=bench.asked("memory PSS"),
                parts={"samples of a run": str(int(median([sample["looks"] for sample in samples])))},
                note="the files in /dev/shm count where a rank maps them")]


def planning_figure(bench):
    """Planning for described ranks: no files, no MPI."""
    cluster = bench.root / "bench" / "clusters" / "cluster-100gbit.json"
    return Figure("262144^3 planned for the 4,096 ranks of clusters/cluster-100gbit.json, the whole command",
                  lambda: {"seconds": run([bench.program, "plan", "--simulate", cluster])[0]})


def planning(bench):
    figure = planning_figure(bench)
    samples = bench.alternate({"plan": figure.once})["plan"]
    return [row("4096 ranks", figure.side(samples), asked=bench.asked("planning 4096 ranks"))]
