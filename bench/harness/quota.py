# SPDX-License-Identifier: MIT
"""A part of a core for some processes, by control groups (version 1, or 2 where `cpu` is handed down)."""
from pathlib import Path

PERIOD_US = 10000


def parent():
    """The control group to make ours in, or None."""
    if Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").exists() or Path("/sys/fs/cgroup/cpu/cpu.shares").exists():
        return Path("/sys/fs/cgroup/cpu")
    control = Path("/sys/fs/cgroup/cgroup.subtree_control")
    return control.parent if control.exists() and "cpu" in control.read_text().split() else None


class Quota:
    """What is added to it shares `part` of a core from then on. OSError or TypeError: it cannot be set here."""

    def __init__(self, name, part):
        self.folder = parent() / name
        self.folder.mkdir()
        quota = int(part * PERIOD_US)
        try:
            if (self.folder / "cpu.cfs_quota_us").exists():
                (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.folder / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        except OSError:
            self.remove()
            raise

    def add(self, pid):
        """A process with all its threads, and what it starts later."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        """When its processes have ended."""
        try:
            self.folder.rmdir()
        except OSError as problem:
            print(f"cannot remove {self.folder}: {problem.strerror}")
