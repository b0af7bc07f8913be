# SPDX-License-Identifier: MIT
"""Limits processes to a part of a core by control groups (version 1, or 2 where `cpu` is
delegated)."""
from pathlib import Path

PERIOD_US = 10000


def parent():
    """Returns the parent control group for the quota, or None."""
    if Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").exists() or Path("/sys/fs/cgroup/cpu/cpu.shares").exists():
        return Path("/sys/fs/cgroup/cpu")
    control = Path("/sys/fs/cgroup/cgroup.subtree_control")
    return control.parent if control.exists() and "cpu" in control.read_text().split() else None


class Quota:
    """Processes added to it share `part` of a core from then on. OSError or TypeError: no limit can
    be set here."""

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
        """Adds a process with all its threads and future children."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        """Removes the group after its processes have ended."""
        try:
            self.folder.rmdir()
        except OSError as problem:
            print(f"cannot remove {self.folder}: {problem.strerror}")
