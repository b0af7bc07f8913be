# SPDX-License-Identifier: MIT
"""The machine of a bench: its description, its free memory, and a temporary folder in RAM."""
import datetime
import json
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.measure import Refused

MARGIN_BYTES = 512 << 20


def read_first(path, key):
    """Returns the text after `key:` in a file of /proc, or ""."""
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return ""


def available_bytes():
    return int(read_first("/proc/meminfo", "MemAvailable").split()[0]) * 1024


def require_memory(files_bytes, process_bytes):
    """Refuses a case if the files and the processes together would not fit, with a margin."""
    need, free = files_bytes + process_bytes + MARGIN_BYTES, available_bytes()
    if need > free:
        raise Refused(f"needs {need / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are available")
    room = shutil.disk_usage("/dev/shm").free
    if files_bytes > room:
        raise Refused(f"needs {files_bytes / 1e9:.1f} GB in /dev/shm, {room / 1e9:.1f} GB are free")


def find_commit(root):
    """Returns the commit of the sources. A kit has no repository but a note."""
    note = root / "COMMIT"
    if note.exists():
        return note.read_text().strip()
    changed = git(root, "status", "--porcelain", "--untracked-files=no")
    return (git(root, "rev-parse", "--short=10", "HEAD") or "unknown") + (" with changes" if changed else "")


def git(root, *words):
    if shutil.which("git") is None:
        return ""
    found = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else ""


def find_kernels(program):
    """Describes the OpenBLAS of a case's commands: the library, its kernel set, and the vectors of
    this CPU that the set does not use. In builds that do not name the kernels, the driver's name
    has them."""
    said = subprocess.run([program, "devices", "--device", "cpu", "--json"], capture_output=True, text=True,
                          check=True, stdin=subprocess.DEVNULL).stdout
    cpu = json.loads(said)["ranks"][0]["description"]
    return {"blas": cpu["driver"], "kernels": cpu.get("kernels", ""), "kernels_lack": cpu.get("kernels_lack", "")}


def describe(root, program):
    """Returns the conditions needed to interpret a figure."""
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": find_commit(root),
        "version": version,
        "cpu": read_first("/proc/cpuinfo", "model name"),
        **find_kernels(program),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(read_first("/proc/meminfo", "MemTotal").split()[0]) * 1024,
        "kernel": platform.release(),
    }


def file_system(path):
    """Returns the type of the file system that holds a path."""
    found = subprocess.run(["df", "--output=fstype", path], capture_output=True, text=True, check=True).stdout
    return found.split()[-1]


class RamFolder:
    """A folder in /dev/shm that is removed at the end. A waiting shell removes it also after a kill
    of this program."""

    PLACE = "/dev/shm"

    KEEPER = 'trap "" INT TERM HUP; read -r nothing; rm -rf "$0"'

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="mmul-bench.", dir=self.PLACE))
        self.keeper = subprocess.Popen(["sh", "-c", self.KEEPER, str(self.path)], stdin=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        return self.path

    def __exit__(self, *_):
        self.keeper.stdin.close()
        self.keeper.wait()


class DiskFolder(RamFolder):
    """A temporary folder below a given one."""

    def __init__(self, place):
        self.PLACE = place
