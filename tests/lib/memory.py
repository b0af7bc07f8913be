# SPDX-License-Identifier: MIT
"""memory.py LIMIT_MIB COMMAND...: runs a command under a memory limit. Every 20 ms it adds up the proportional
memory (Pss) of the command's mpimatmul processes. Fails if the peak exceeds the limit or no memory was seen;
otherwise ends with the command's code."""
import glob
import subprocess
import sys
import time


def children(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            found += [int(word) for word in open(path).read().split()]
        except OSError:
            pass
    return found + [below for child in found for below in children(child)]


def proportional_kib(pid):
    try:
        if open(f"/proc/{pid}/comm").read().strip() != "mpimatmul":
            return 0
        for line in open(f"/proc/{pid}/smaps_rollup"):
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def main():
    limit_mib, command = float(sys.argv[1]), sys.argv[2:]
    peak_kib = 0
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak_kib = max(peak_kib, sum(map(proportional_kib, children(process.pid))))
            time.sleep(0.02)
    print(f"peak of proportional memory: {peak_kib / 1024:.1f} MiB, limit {limit_mib:g} MiB")
    return process.returncode or (1 if peak_kib / 1024 > limit_mib or peak_kib == 0 else 0)


sys.exit(main())
