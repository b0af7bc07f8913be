# SPDX-License-Identifier: MIT
"""Figures of a case for --against: the program's side alone, as (row, Figure, note), while the
case's resources (files, hosts, a slower core) exist."""
import os

from cases import configs as configs_case
from cases import gpu as gpu_case
from cases import lab as lab_case
from cases import local, slow
from harness.builds import Figure
from harness.lab import Lab
from harness.machine import DiskFolder, file_system, require_memory
from harness.measure import Product, Skip
from harness.quota import Quota

LAUNCH_APART = "files in to file out, launch apart"


def file8192(bench):
    size = bench.pick(8192, 512)
    product = local.prepare(bench, size, size, size)
    for ranks in (1, 2):
        words = f"{ranks} rank{'s'[:ranks > 1]}"
        yield words, Figure(f"{product.text} on {words}, {LAUNCH_APART}", lambda: product.mul_ranks(ranks)), ""


def float64(bench):
    size = bench.pick(4096, 512)
    product = local.prepare(bench, size, size, size, "float64")
    for wall, words in ("command", "whole command"), ("report", "launch apart"):
        yield words, Figure(f"{product.text} in float64 on 2 ranks, files in to file out, {words}",
                            lambda: product.mul_ranks(2, wall=wall)), ""


def lab2(bench):
    size = bench.pick(4096, 512)
    product = lab_case.prepare(bench, 2, size, size, size)
    with Lab(bench, 2) as lab:
        for rate in ("1gbit", "100mbit"):
            lab.rate(rate)
            yield rate, Figure(f"{product.text}, 2 hosts, {rate}: {lab_case.FROM_ROOT}",
                               lambda: product.mul_lab(lab, 2)), ""


def lab4(bench):
    product = lab_case.prepare(bench, 4, *bench.pick((4096, 14336, 4096), (256, 896, 256)))
    with Lab(bench, 4) as lab:
        how = lab_case.QUOTA if lab.limit(0.5) else "two hosts on a core"
        for rate in ("1gbit", "100mbit"):
            lab.rate(rate)
            yield rate, Figure(f"{product.text}, 4 hosts of half a core each, {rate}: {lab_case.FROM_ROOT}",
                               lambda: product.mul_lab(lab, 4)), f"half a core by {how}"


def labslow(bench):
    size = bench.pick(6144, 512)
    product = lab_case.prepare(bench, 2, size, size, size)
    with Lab(bench, 2) as lab:
        if not lab.limit(1 / lab_case.SLOWER, lab.hosts[1:]):
            raise Skip("no control group can be made here")
        lab.rate("1gbit")
        yield "1gbit", Figure(f"{product.text}, 2 hosts, one with 1/{lab_case.SLOWER} of a core, 1gbit: "
                              f"{lab_case.FROM_ROOT}", lambda: product.mul_lab(lab, 2)), ""


def slow4(bench):
    size = bench.pick(6144, 512)
    product = local.prepare(bench, size, size, size)
    yield "with files", Figure(f"{product.text} on two ranks, one {slow.SLOWER} times slower, {LAUNCH_APART}",
                               lambda: slow.multiply(product)), ""
    with slow.make_quota() as quota:
        yield "quota", Figure(f"{product.text} on two ranks, one with 1/{slow.SLOWER} of its core by {slow.QUOTA}, "
                              f"{LAUNCH_APART}", lambda: product.mul(slow.by_quota(product, quota)[1])), ""


def slowdown(bench):
    size = bench.pick(6144, 512)
    product = local.prepare(bench, size, size, size)
    with slow.make_quota() as quota:
        later, note = slow.prepare_slowdown(bench, product, quota)
        yield "with files", Figure(f"{product.text} on two ranks, {LAUNCH_APART}", later), note


def startup(bench):
    product = local.prepare(bench, 64, 64, 64)
    for name, command, env, words in local.startup_ways(bench):
        yield name, Figure(f"64^3 {words}, the whole command",
                           lambda: product.mul([*command, *product.words()], env=env, wall="command"),
                           value=lambda sample: 1e3 * sample["seconds"], unit="ms"), ""


def verify(bench):
    big, thin_side = bench.pick((8192, 64), (512, 16))
    for m, k, n in ((big, thin_side, big), (thin_side, big, big), (big, big, thin_side)):
        product = local.prepare(bench, m, k, n)
        yield product.text, Figure(f"{product.text} on 2 ranks, checked, {LAUNCH_APART}",
                                   lambda: product.mul_ranks(2, ["--weights", "equal"])), ""


def thin(bench):
    big, small = bench.pick((8192, 64), (512, 16))
    for m, k, n in ((small, big, big), (big, big, small)):
        product = local.prepare(bench, m, k, n)
        yield product.text, Figure(f"{product.text}: the check, one process",
                                   lambda: product.mul(product.words(["--device", "cpu"])),
                                   value=lambda sample: sample["report"]["verify_seconds"]), ""


def output(bench):
    m, k, n = bench.pick((20000, 384, 20000), (512, 16, 512))
    require_memory(4 * (m * k + k * n), 3 * 4 * m * n)
    if file_system(bench.disk) == "tmpfs":
        raise Skip(f"'{bench.disk}' is in memory: give --disk DIR")
    with DiskFolder(bench.disk) as folder:
        for place, modes in ((folder, ("on", "off")), (bench.folder, ("off",))):
            product = Product(bench, m, k, n, place)
            product.generate()
            for mode in modes:
                name = f"{file_system(place)}, --sync {mode}"
                yield name, Figure(f"{product.text} to {name}, one process, whole command",
                                   lambda: product.mul(product.words(["--device", "cpu", "--sync", mode]),
                                                       wall="command")), ""


def memory(bench):
    size = bench.pick(8192, 512)
    product = local.prepare(bench, size, size, size)
    yield "PSS", Figure(f"{product.text}: largest sum of the PSS of both ranks, sampled every 50 ms",
                        lambda: local.mul_with_peak(product), value=lambda sample: sample["peak_bytes"] / 1e9,
                        unit="GB"), ""


def gpu(bench):
    device = gpu_case.find_device(bench)
    for size in bench.sizes or bench.pick((8192, 16384), (256,)):
        product = local.prepare(bench, size, size, size)
        yield str(size), Figure(f"{product.text} on {device['name']}, {LAUNCH_APART}",
                                lambda: product.mul(product.words(["--device", device["id"]]))), ""


def configs(bench):
    pocl = configs_case.find_pocl(bench)
    for size in bench.pick((1024, 2048, 4096, 8192), (128, 256)):
        require_memory(12 * size * size, 36 * size * size)
        for name in configs_case.configurations(bench, pocl)[0]:
            yield f"{size}^3 {name}", Figure(
                f"{size}^3 {LAUNCH_APART}",
                lambda: configs_case.measure(configs_case.configurations(bench, pocl)[0][name], size, "off")), ""


def planning(bench):
    yield "4096 ranks", local.planning_figure(bench), ""
