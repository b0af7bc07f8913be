#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random commands `mpimatmul mul` with any combination of options, and their expected results.

    tests/random_products.py pairs FOLDER SEED            any two values of two dimensions meet in a command
    tests/random_products.py triples FOLDER SEED          any three
    tests/random_products.py all FOLDER SEED NAME... NAME=VALUE...  every combination of these dimensions, others plain
    tests/random_products.py one FOLDER SEED NAME=VALUE.. a single command, printed

A case has a value of every dimension: types of the files, factors, sizes, stacks, operations behind the product,
devices, ranks, ... Its result is compared with numpy in double. Whole numbers are equal if the result's type holds
them: from -4 to 4, or with all of it in float64 up to 2^20, where float32 would hold hardly any sum. Other numbers
are equal to rounding, with NaN in operands that alpha or beta of 0 must not read. A case that `mul` refuses
(`refusal`) has to fail with that line and code. Two values that are refused in every command meet in a command
without other options. The first value of a dimension is the default.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import numpy as np

import reference
from product_cases import (ADDED, PLAIN, SIZES, STACKS, TYPES, activation, adds, combine, computes_double, cover,
                           factors, output_of, refusal, result_type, single)

sys.path.insert(0, str(pathlib.Path(__file__).parent / "cli"))
from matrices import read_bin, write_bin
from tensors import read_safetensors, write_safetensors

PROGRAM = os.environ["MPIMATMUL"]
LAUNCH = ["mpirun", "-q", "--mca", "odls_base_sigkill_timeout", "0", "--oversubscribe"]

# --------------------------------------------------------------------------------------------- files

def rounded(array, dtype):
    """Converts to the values of a file of that type."""
    if dtype != "bf2":
        return array.astype(dtype)
    bits = array.astype("f4").view("u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype("u4").view("f4")


def numbers(case, role, shape, dtype):
    rng = np.random.default_rng([*map(ord, role), *shape])
    if dtype in ("i4", "i8", "u1"):
        return rng.integers(0 if dtype == "u1" else -4, 5, shape).astype(dtype)
    if case["numbers"] == "real":
        return rounded(rng.standard_normal(shape), dtype)
    most = 2 ** 20 if computes_double(case) and dtype in ("f4", "f8") else 4
    return rounded(rng.integers(-most, most + 1, shape).astype("f8"), dtype)


class Files:
    """Makes the folder's matrices from their descriptions. Equal ones are written once."""

    def __init__(self, folder):
        self.folder, self.paths = folder, {}

    def put(self, array, dtype, form, role):
        held = {"bin": ("f4", "f2", "bf2"), "safetensors": ("f4", "f8", "f2", "bf2", "i4", "i8", "u1")}
        if dtype not in held.get(form, ("f4", "f8", "f2", "i4", "i8", "u1")):
            form = "bin" if dtype == "bf2" else "npy"
        key = (array.tobytes(), array.shape, dtype, form, role)
        if key not in self.paths:
            name = f"{role}{len(self.paths)}.{'npy' if form == 'fortran' else form}"
            self.write(self.folder / name, array, dtype, form)
            self.paths[key] = name
        return self.paths[key]

    @staticmethod
    def write(path, array, dtype, form):
        if form == "bin":
            bits = (array.view("u4") >> 16).astype("u2") if dtype == "bf2" else array
            write_bin(path, bits, {"f4": 4, "f2": -2, "bf2": -3}[dtype])
        elif form == "npz":
            np.savez(path, x=array)
        elif form == "safetensors":
            data = (array.view("u4") >> 16).astype("u2") if dtype == "bf2" else array
            name = {"f4": "F32", "f8": "F64", "f2": "F16", "bf2": "BF16", "i4": "I32", "i8": "I64", "u1": "U8"}[dtype]
            write_safetensors(path, {"x": {"dtype": name, "shape": list(array.shape),
                                           "data_offsets": [0, data.nbytes]}}, data.tobytes())
        else:
            np.save(path, np.asfortranarray(array) if form == "fortran" else array)


def read_result(path, form):
    """Returns a file's numbers and type."""
    if form == "bin":
        tag, array = read_bin(path)
        if tag == -3:
            return (array.astype("u4") << 16).view("f4"), "bf2"
        return array, {4: "f4", -1: "f4", -2: "f2"}[tag]
    if form == "safetensors":
        (array,) = read_safetensors(path).values()
        if array.dtype == "u2":
            return (array.astype("u4") << 16).view("f4"), "bf2"
        return array, array.dtype.str[1:]
    array = np.load(path)
    if form == "npz":
        array = array[array.files[0]]
    return array, array.dtype.str[1:]


# ------------------------------------------------------------------------------------------ commands

class Case:
    """Returns a command as words, its expected result, and the tolerance."""

    def __init__(self, case, files):
        self.case, self.files, self.options = case, files, []
        m, k, n = SIZES[case["sizes"]]
        transposed = case["transposed"]
        of_a, of_b = STACKS[case["stack"]]
        types = TYPES[case["types"]]
        self.a, a = self.operand("A", of_a, (m, k), types[0], "a" in transposed)
        self.b, b = self.operand("B", of_b, (k, n), types[1], "b" in transposed)
        self.multiply(a, b, types[2])
        self.continue_with(types[2])
        self.add_options()

    def seen(self, array):
        """Files of other types are converted when they are read."""
        with np.errstate(over="ignore"):
            return array.astype("f8" if computes_double(self.case) else "f4").astype("f8")

    def operand(self, role, stack, shape, dtype, is_transposed):
        array = numbers(self.case, role, stack + shape, dtype)
        alpha = factors(self.case)[0]
        if alpha == "0" and array.dtype.kind == "f":
            array = array.copy()
            array[..., 0, 0] = np.nan
        stored = np.ascontiguousarray(array.swapaxes(-1, -2)) if is_transposed else array
        if is_transposed:
            self.options += [f"--transpose-{role.lower()}"]
        return self.files.put(stored, dtype, self.case["files"], role), self.seen(array)

    def added(self, role, how, dtype, spoiled=False):
        shape = ADDED[how](self.value.shape)
        array = numbers(self.case, role, shape, dtype)
        if spoiled and array.dtype.kind == "f":
            array = np.full_like(array, np.nan)
        return self.files.put(array, dtype, self.case["files"], role), self.seen(array)

    def multiply(self, a, b, dtype):
        """value: the exact result; size: of its terms, which determine the rounding error; error:
        the tolerance."""
        is_double = computes_double(self.case)
        self.unit = 2.0 ** -53 if is_double else 2.0 ** -24
        alpha, beta = factors(self.case)
        self.options += ["--alpha", alpha] if alpha is not None else []
        x = float(alpha) if alpha is not None else 1.0
        y = float(beta) if beta is not None else 0.0
        if not is_double:
            x, y = float(np.float32(x)), float(np.float32(y))
        with np.errstate(invalid="ignore"):
            product = a @ b
            size = np.abs(a) @ np.abs(b)
        if x == 0:
            product, size = np.zeros(product.shape), np.zeros(product.shape)
        self.value, self.size = x * product, abs(x) * size
        self.exact = self.case["numbers"] == "whole" and x == round(x) and y == round(y)
        if beta is not None:
            path, c_in = self.added("C", self.case["added"], dtype, y == 0)
            self.options += ["--beta", beta, "--c-in", path]
            if y != 0:
                self.value = self.value + y * c_in
                self.size = self.size + abs(y) * np.abs(c_in)
        self.rounded_by(a.shape[-1] + 8)

    def rounded_by(self, count):
        self.error = np.zeros(self.value.shape) if self.exact else count * self.unit * self.size

    def continue_with(self, dtype):
        """Applies the operations behind the product, in the order of `mul --help`."""
        case = self.case
        for option in ("bias", "activation", "residual"):
            if not adds(case, "bias" if option == "residual" else option):
                continue
            if option == "activation":
                self.activate(activation(case))
                continue
            path, array = self.added(option, case["added"] if option == "bias" else "full", dtype)
            self.options += [f"--{option}", path]
            self.value = self.value + array
            self.error = self.error + (0 if self.exact else 2 * self.unit * np.abs(self.value))
        if case["after"] == "all":
            self.options += ["--normalize-rows"]
            self.normalize()
        self.indices = None
        if adds(case, "topk"):
            self.k = min(5, self.value.shape[-1])
            self.options += ["--topk", str(self.k), "--indices", "indices.npy"]
            self.indices = "indices.npy"

    def activate(self, name):
        self.options += ["--activation", name]
        before = self.value
        self.value = np.asarray(activate(name, before))
        if name == "softmax":  # an error e becomes a factor of exp(2 e)
            most = np.minimum(self.error.max(-1, keepdims=True), 1)
            self.error = self.value * np.expm1(2 * most) + 64 * self.unit * (self.value + self.unit)
        elif name != "relu":  # slopes below 1.2
            self.error = 1.2 * self.error + 16 * self.unit * np.maximum(1, np.abs(self.value))
        self.exact &= name == "relu"

    def normalize(self):
        length = np.sqrt((self.value ** 2).sum(-1, keepdims=True))
        off = np.sqrt((self.error ** 2).sum(-1, keepdims=True))
        self.value = np.asarray(reference.normalize(self.value))
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(length > 0, np.minimum(2, 2 * off / length), np.where(off > 0, 2, 0))
        self.error = np.broadcast_to(relative + (self.value.shape[-1] + 16) * self.unit * np.abs(self.value),
                                     self.value.shape)
        self.exact = False

    def add_options(self):
        case, options = self.case, self.options
        if case["sizes"] == "rounds":  # none of it is in place
            options += ["--io", "root"] if not case["io"] else []
        if case["after"] == "keep":
            options += ["--keep"]
        if case["output"] == "--format":
            options += ["--format", "npy"]
        for name in ("dtype", "device-memory", "split", "split-rule", "io", "tail", "verify", "sync", "threads"):
            if case[name]:
                options += [f"--{name}", case[name]]
        if case["reproducible"]:
            options += ["--reproducible"]
        if case["weights"]:
            uneven = {1: "1", 2: "0.75,0.25", 3: "0.5,0,0.5"}[case["ranks"]]
            options += ["--weights", "equal" if case["weights"] == "equal" else uneven]

    def words(self, memory=None, *more):
        devices = self.case["device"].split(",")
        own = [PROGRAM, "mul", self.a, self.b, *self.options, "-o", output_of(self.case), *(more or ["-q"])]
        own += ["--memory", f"{memory}MiB"] if memory else []
        if self.case["ranks"] == 1:
            return own + ["--device", devices[-1]]
        contexts = []
        for rank in range(self.case["ranks"]):
            contexts += [":"] * (rank > 0) + ["-n", "1", *own, "--device", devices[rank % len(devices)]]
        return LAUNCH + contexts


def activate(name, x):
    if name == "relu":
        return np.maximum(x, 0)
    with np.errstate(over="ignore"):
        if name == "sigmoid":
            return 1 / (1 + np.exp(-x))
        if name == "silu":
            return x / (1 + np.exp(-x))
    return np.tanh(x) if name == "tanh" else getattr(reference, name)(x)


# ------------------------------------------------------------------------------------------ checking

class Runner:
    def __init__(self, folder):
        self.folder = folder
        self.files = Files(folder)
        self.count = self.refused = self.in_rounds = self.doubles = 0
        self.least = {}
        os.environ["MPIMATMUL_SHARD_DIR"] = str(folder / "shards")

    def call(self, words):
        return subprocess.run(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)

    def run_in_little(self, command):
        """Returns about the least accepted memory. A process's own memory varies."""
        ranks, has_opencl = key = command.case["ranks"], "0:0" in command.case["device"]
        memory = self.least.get(key, 18 + 6 * ranks + 76 * has_opencl)
        for _ in range(40):
            done = self.call(command.words(memory))
            if done.returncode != 71:
                break
            said = re.search(r"hint: --memory (\d+)MiB has room", done.stderr)
            memory = int(said[1]) if said else memory + 2
        else:
            return done, memory
        if not command.case["after"]:
            self.least[key] = min(memory, self.least.get(key, memory))
        return done, memory

    def check(self, case):
        """Returns None or the error."""
        for name in ("C.npy", "C.bin", "C.npz", "C.safetensors", "C.data", "indices.npy"):
            (self.folder / name).unlink(missing_ok=True)
        command = Case(case, self.files)
        self.words = command.words()
        memory = None
        self.count += 1
        if case["sizes"] == "rounds" and refusal(case) is None:
            done, memory = self.run_in_little(command)
            self.words = command.words(memory)
        else:
            done = self.call(self.words)
        expected = refusal(case)
        if expected is not None:
            self.refused += 1
            return self.check_refusal(done, *expected)
        if done.returncode != 0:
            return f"status {done.returncode}: {done.stderr}"
        wrong = self.check_words(case, done)
        if wrong is None:
            wrong = self.check_result(command)
        if wrong is None and memory and not case["after"]:
            # A process's own memory varies, so the same limit may be refused now.
            for limit in range(memory, memory + 8, 2):
                plan = self.call(command.words(limit, "--dry-run", "--json"))
                if plan.returncode == 0:
                    break
            else:
                return f"--dry-run: status {plan.returncode}: {plan.stderr}"
            self.in_rounds += json.loads(plan.stdout)["rounds"] > 1
        return wrong

    @staticmethod
    def check_refusal(done, code, lines):
        if (done.returncode, done.stderr, done.stdout) == (code, f"mpimatmul: {lines}\n", ""):
            return None
        return f"status {done.returncode}, expected {code} and\n{lines}\nfound\n{done.stdout}{done.stderr}"

    @staticmethod
    def check_words(case, done):
        for line in done.stderr.splitlines():
            if not (case["device"].startswith("faulty:") and line.startswith("mpimatmul: warning: rank ") and
                    "is replaced by" in line):
                return f"on stderr: {done.stderr}"
        return None if done.stdout == "" else f"on stdout: {done.stdout}"

    def check_result(self, command):
        case = command.case
        form = {"--format": "npy"}.get(case["output"], case["output"])
        found, dtype = read_result(self.folder / output_of(case), form)
        self.doubles += dtype == "f8"
        if dtype != result_type(case):
            return f"result is {dtype}, expected {result_type(case)}"
        if command.indices:
            return self.check_largest(command, found, np.load(self.folder / command.indices))
        if found.size != command.value.size or found.shape[-2:] != command.value.shape[-2:]:
            return f"result is {found.shape}, expected {command.value.shape}"
        found = found.reshape(command.value.shape)
        wrong = self.compare(command, found, command.value, command.error)
        if wrong is None and case["after"] == "keep":
            wrong = self.check_kept(command, found)
        return wrong

    @staticmethod
    def compare(command, found, value, error):
        dtype = result_type(command.case)
        narrow = rounded(value.astype("f4" if not computes_double(command.case) else "f8"), dtype).astype("f8")
        # A value with an error may be rounded to the neighbouring number, so the tolerance includes
        # their distance.
        coarse = {"f2": 2.0 ** -10, "bf2": 2.0 ** -7, "f4": 2.0 ** -23, "f8": 0}[dtype]
        allowed = np.where(error > 0, error + coarse * (np.abs(value) + error) + 2.0 ** -24 * (dtype == "f2"), 0)
        with np.errstate(invalid="ignore"):
            is_wrong = ~(np.abs(found.astype("f8") - narrow) <= allowed)
        if not is_wrong.any():
            return None
        at = np.unravel_index(is_wrong.argmax(), is_wrong.shape)
        return (f"{is_wrong.sum()} of {is_wrong.size} elements are wrong, the first {tuple(map(int, at))}: "
                f"{float(found[at])!r}, expected {float(narrow[at])!r} within {float(allowed[at]):.3g}")

    def check_largest(self, command, found, places):
        value, error = command.value, command.error
        shape = value.shape[:-1] + (command.k,)
        if found.size != np.prod(shape) or places.size != found.size:
            return f"result is {found.shape}, expected {shape}"
        found, places = found.reshape(shape), places.reshape(shape)
        largest, where = (np.asarray(x) for x in reference.topk(value, command.k))
        most = np.broadcast_to(error.max(-1, keepdims=True), shape)
        if not most.any() and not np.array_equal(places, where):
            return "places of the largest elements differ"
        wrong = self.compare(command, found, largest, most)
        if wrong is None:
            there = np.take_along_axis(value, places.astype(int), -1)
            wrong = self.compare(command, found, there, 2 * most)
        return wrong

    def check_kept(self, command, found):
        name = "x".join(pathlib.Path(path).stem for path in (command.a, command.b))
        done = self.call([PROGRAM, "convert", f"kept:{name}", "kept.npy", "-q"])
        if done.returncode != 0:
            return f"what is kept: status {done.returncode}: {done.stderr}"
        kept = np.load(self.folder / "kept.npy")
        shutil.rmtree(self.folder / "shards")
        if kept.dtype != ("f8" if computes_double(command.case) else "f4"):
            return f"what is kept is {kept.dtype}"
        # The file may have 16 bits.
        same = kept.size == found.size and np.array_equal(
            rounded(kept.reshape(found.shape), result_type(command.case)), found)
        return None if same else "what is kept is not what was written"


def main(mode, folder, seed, *rest):
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(exist_ok=True)
    runner, wrong = Runner(folder), 0
    cases = {"pairs": lambda: cover(2, seed), "triples": lambda: cover(3, seed),
             "all": lambda: combine(rest), "one": lambda: [single(rest)]}[mode]()
    asked_to_end = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked_to_end.append(number))
    for case in cases:
        if asked_to_end:
            print("asked to end: the rest was not run")
            break
        message = runner.check(case)
        if message is not None:
            wrong += 1
            print(" ".join(f"'{n}={v}'" for n, v in case.items() if v != PLAIN[n]))
            print("   ", *runner.words)
            print("   ", message, flush=True)
    print(f"seed {seed}: {runner.count} commands, {runner.refused} refused, {runner.doubles} results in float64, "
          f"{runner.in_rounds} in rounds, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
