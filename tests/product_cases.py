# SPDX-License-Identifier: MIT
"""Describes the options of `mpimatmul mul` as dimensions: the meaning of a case, refused cases, and
the choice of cases.

For random_products.py, which runs them.
"""
import itertools
import os
import random

# A, B, and all addends.
TYPES = {"f4": ("f4", "f4", "f4"), "f8": ("f8", "f8", "f8"), "f2": ("f2", "f2", "f2"), "bf2": ("bf2", "bf2", "bf2"),
         "f8 by f4": ("f8", "f4", "f8"), "f8, f4 added": ("f8", "f8", "f4"), "f8 by i4": ("f8", "i4", "f8"),
         "u1 by f8": ("u1", "f8", "i8"), "f2 by bf2": ("f2", "bf2", "f4")}
SIZES = {"odd": (37, 19, 23), "one": (1, 1, 1), "thin": (31, 1, 17), "few rows": (2, 43, 61), "deep": (33, 700, 29),
         "rounds": (1300, 300, 700)}
STACKS = {"": ((), ()), "3 by 3": ((3,), (3,)), "3 by one": ((3,), ()), "one by 3": ((), (3,)),
          "2x3 by 2x3": ((2, 3), (2, 3)), "2x3 by 3": ((2, 3), (3,)), "2x1 by 2x3": ((2, 1), (2, 3))}
ADDED = {"full": lambda s: s, "row": lambda s: s[-1:], "column": lambda s: (s[-2], 1), "number": lambda s: (1, 1),
         "matrix": lambda s: s[-2:], "numbers": lambda s: s[:-2] + (1, 1), "row each": lambda s: s[:-2] + (1, s[-1])}
ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh", "softmax")
if os.environ.get("MODE") in ("asan", "tsan"):  # the sanitizer's memory counts
    del SIZES["rounds"]

DIMENSIONS = {
    "types": tuple(TYPES),
    "factors": ("", "alpha 0", "alpha 0 beta 1", "alpha 0 beta -2.5", "alpha -1 beta 0", "beta 1", "alpha 3 beta -2",
                "alpha 0.3 beta 0.7"),
    "added": tuple(ADDED),
    "numbers": ("whole", "real"),
    "sizes": tuple(SIZES),
    "stack": tuple(STACKS),
    "transposed": ("", "a", "b", "ab"),
    "files": ("npy", "fortran", "bin", "npz", "safetensors"),
    "output": ("npy", "bin", "npz", "safetensors", "--format"),
    "dtype": ("", "float32", "float64", "float16", "bfloat16"),
    "after": ("", "bias", "activation", "topk", "all", "keep"),
    "ranks": (1, 2, 3),
    "device": ("cpu", "reference", "0:0", "cpu,0:0", "faulty:corrupt=1:cpu", "faulty:garble=1:0:0", "faulty:fail=1:cpu",
               "faulty:no-float64:cpu"),
    "device-memory": ("", "2MiB"),
    "weights": ("", "equal", "uneven"),
    "split": ("", "rows", "cols"),
    "split-rule": ("", "hundred"),
    "io": ("", "root", "shared"),
    "tail": ("", "off", "0.5"),
    "reproducible": (False, True),
    "verify": ("", "off"),
    "sync": ("", "off"),
    "threads": ("", "1"),
}
# Options with a cost beside the computation.
COSTS = {("ranks", 2): 8, ("ranks", 3): 12, ("sizes", "rounds"): 8, ("device", "0:0"): 6,
         ("device", "faulty:garble=1:0:0"): 6, ("after", "keep"): 4}


# ------------------------------------------------------------------------------------------- meaning

def factors(case):
    """Returns alpha, beta; None: not given."""
    words = case["factors"].split()
    given = dict(zip(words[::2], words[1::2]))
    return given.get("alpha"), given.get("beta")


def has_c_in(case):
    return factors(case)[1] is not None


def adds(case, what):
    return case["after"] in (what, "all")


def activation(case):
    """Varies an option with the case's number, so that it needs no dimension of its own."""
    if not adds(case, "activation"):
        return None
    return ACTIVATIONS[sum(map(ord, "".join(map(str, case.values())))) % len(ACTIVATIONS)]


def types_of(case):
    a, b, added = TYPES[case["types"]]
    # A program does not read a C that is multiplied by 0.
    reads_c_in = has_c_in(case) and not (case["after"] and factors(case)[1] == "0")
    return [a, b] + [added] * (reads_c_in + 2 * adds(case, "bias"))


def computes_double(case):
    """Returns the type of `mul --help`: float64 if all inputs are, or some are and the others are
    whole numbers."""
    types = types_of(case)
    if case["dtype"]:
        return case["dtype"] == "float64"
    return "f8" in types and all(t in ("f8", "i4", "i8", "u1") for t in types)


def result_type(case):
    """Returns the type of a file's elements. .npy and .npz have no bfloat16."""
    types = types_of(case)
    named = {"float32": "f4", "float64": "f8", "float16": "f2", "bfloat16": "bf2"}.get(case["dtype"])
    if named is None:
        named = types[0] if types[0] in ("f2", "bf2") and len(set(types)) == 1 else "f4"
        named = "f8" if computes_double(case) else named
    return "f4" if named == "bf2" and case["output"] in ("npy", "npz", "--format") else named


def is_senseless(case):
    """True for a case that is allowed but not worth its time. Without the check no error of a
    device is found. Plain loops are slow, stacks are large, and so is the room for 16 bits as 32,
    or for --reproducible."""
    errs = case["device"].startswith(("faulty:corrupt", "faulty:garble"))
    return case["verify"] == "off" and errs or case["sizes"] == "rounds" and (
        case["device"] == "reference" or case["stack"] != "" or case["io"] == "shared" or case["reproducible"] or
        "f2" in case["types"])


def output_of(case):
    return "C.data" if case["output"] == "--format" else "C." + case["output"]


HINT_FLOAT32 = "all other formats have it; --dtype float32 computes in float32"


def refusal(case):
    """Returns None, or the code and the lines of the refusal by `mul`."""
    after = {"": "", "bias": "--residual", "all": "--topk"}.get(case["after"], "--" + case["after"])
    if after:
        # A program has no room for these.
        for option, value in (("format", case["output"] == "--format"), ("split", case["split"]),
                              ("split-rule", case["split-rule"])):
            if value:
                return 64, f"--{option} cannot be combined with {after}"
        # A program computes in the type of its files, and kept values have no 16 bits.
        if case["dtype"] == "float64":
            return 64, (f"--dtype float64 cannot be combined with {after}\n"
                        "  hint: without it the result is float64 where all files are")
        if case["dtype"] in ("float16", "bfloat16") and after == "--keep":
            return 64, (f"--dtype {case['dtype']} cannot be combined with --keep\n"
                        "  hint: persistent sets are float32 or float64")
    if computes_double(case) and case["output"] == "bin":
        hint = HINT_FLOAT32 if not after else "--dtype float32 computes in float32"
        return 64, f"cannot write '{output_of(case)}' as float64: .bin has no such type\n  hint: {hint}"
    return None


# ------------------------------------------------------------------------------------------- choosing

NAMES = tuple(DIMENSIONS)
PLAIN = {name: values[0] for name, values in DIMENSIONS.items()}


def is_fit(case):
    return refusal(case) is None and not is_senseless(case)


def met(case, strength):
    """Returns the pairs covered by a case: tuples of (name, value), in the order of names."""
    return itertools.combinations(((name, case[name]) for name in NAMES if name in case), strength)


def repair(case, rng):
    """Returns a case with one more value that makes it acceptable, such as another --dtype for
    float64 in .bin."""
    for name in rng.sample(NAMES, len(NAMES)):
        for value in DIMENSIONS[name] if name not in case else ():
            if is_fit({**PLAIN, **case, name: value}):
                return {**case, name: value}
    return None


def complete(wanted, missing, strength, rng):
    """Returns a case with these values. Dimension by dimension it takes the value that covers most
    missing combinations. None: every case is refused."""
    case = dict(wanted) if is_fit({**PLAIN, **wanted}) else repair(wanted, rng)
    for name in rng.sample(NAMES, len(NAMES)) if case else ():
        if name in case:
            continue
        others = [tuple(some) for some in met(case, strength - 1)]
        best = None
        for value in rng.sample(DIMENSIONS[name], len(DIMENSIONS[name])):
            if not is_fit({**PLAIN, **case, name: value}):
                continue
            count = sum(in_order(some, (name, value)) in missing for some in others)
            count -= COSTS.get((name, value), 0) / 4
            if best is None or count > best[0]:
                best = count, value
        case[name] = best[1]
    return case


def in_order(some, one):
    return tuple(sorted((*some, one), key=lambda item: NAMES.index(item[0])))


def cover(strength, seed):
    """Yields cases that cover every combination of so many values. Of a few candidates with a
    missing combination it takes the one that covers most."""
    rng = random.Random(seed)
    missing = dict.fromkeys(some for names in itertools.combinations(NAMES, strength)
                            for some in itertools.product(*([(n, v) for v in DIMENSIONS[n]] for n in names)))
    while missing:
        wanted = next(iter(missing))
        found = [complete(dict(wanted), missing, strength, rng) for _ in range(10 if strength == 2 else 1)]
        if found[0] is None:
            del missing[wanted]
            if not is_senseless({**PLAIN, **dict(wanted)}):
                yield {**PLAIN, **dict(wanted)}
            continue
        best = max(found, key=lambda c: sum(some in missing for some in met(c, strength)) / (20 + cost(c)))
        for some in met(best, strength):
            missing.pop(some, None)
        yield {name: best[name] for name in NAMES}


def cost(case):
    return sum(COSTS.get(item, 0) for item in case.items())


def combine(words):
    fixed, names = single([word for word in words if "=" in word]), [word for word in words if "=" not in word]
    for values in itertools.product(*(DIMENSIONS[name] for name in names)):
        case = {**fixed, **dict(zip(names, values))}
        if not is_senseless(case):
            yield case


def single(words):
    given = dict(word.split("=", 1) for word in words)
    return {name: next(v for v in DIMENSIONS[name] if str(v) == given.get(name, str(PLAIN[name]))) for name in NAMES}
