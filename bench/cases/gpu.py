# SPDX-License-Identifier: MIT
"""A card from file to file, against CLBlast and cuBLAS on it with operands in its memory."""
import json

from cases.local import prepare
from harness.measure import Failed, Refused, Skip, median, run
from harness.tables import row, side


def find_device(bench):
    """Returns the device that --device names, as `devices --json` describes it, with its `id`."""
    try:
        _, output = run([bench.program, "devices", "--json", "--device", bench.device])
    except Failed as reason:
        raise Skip(f"--device {bench.device}: {str(reason).partition('mpimatmul: ')[2] or reason}") from reason
    found = json.loads(output)["ranks"][0]["description"]
    if ":" not in found["id"]:
        raise Skip(f"--device {bench.device} is no OpenCL device")
    return found


def peers(bench, device):
    """Returns {name: words before the size} of the available peers, and the reason for each missing
    one."""
    found, notes = {"CLBlast": [bench.peer("clblast_sgemm"), device["id"]]}, []
    if not bench.has_peer("cublas_sgemm"):
        return found, "no cuBLAS: it is not built where nvcc is missing"
    words = [bench.peer("cublas_sgemm"), device["pci"] or "-"]
    try:
        run([*words, 64, 64, 64, 1, 0])
        found["cuBLAS"] = words
    except (Failed, OSError) as reason:
        notes.append(f"no cuBLAS: {reason}")
    return found, "; ".join(notes)


def multiply(words, product):
    """Runs one multiplication after a warm-up. NVIDIA_TF32_OVERRIDE=0 keeps cuBLAS at float32 in
    any environment."""
    _, output = run([*words, product.m, product.k, product.n, 1, 1], env={"NVIDIA_TF32_OVERRIDE": "0"})
    found = json.loads(output)
    return {"seconds": found["seconds"][0], "peer": found}


def rate_text(flops, one):
    return f"{flops / one['value'] / 1e9:.0f} GFLOP/s"


def measure(bench, size, device):
    product = prepare(bench, size, size, size)
    others, note = peers(bench, device)
    options = ["--device", device["id"]]
    samples = bench.alternate({
        "mul": lambda: product.mul(product.words(options)),
        **{name: (lambda words=words: multiply(words, product)) for name, words in others.items()},
    })
    ours = side(f"{product.text} files in to file out on {device['name']}, checked, launch apart", samples["mul"])
    parts = {"whole command": f"{median([sample['command_seconds'] for sample in samples['mul']]):.3f} s",
             "driver": device["driver"], "ours": rate_text(product.flops, ours)}
    rows = []
    for name in others:
        theirs = side(f"compute only: {name} sgemm, operands on the device", samples[name])
        rows.append(row(f"{size} {name}", ours, theirs, asked=bench.asked(f"gpu {size} {name}"), note=note,
                        parts={**parts, name: rate_text(product.flops, theirs)}))
    return rows


def gpu(bench):
    rows = []
    device = find_device(bench)
    for size in bench.sizes or bench.pick((8192, 16384), (256,)):
        try:
            rows += measure(bench, size, device)
        except Refused as reason:
            if not rows:
                raise
            bench.say(f"{size}: {reason}")
            rows[-1]["note"] = "; ".join(filter(None, [rows[-1]["note"], f"{size} {reason}"]))
    return rows
