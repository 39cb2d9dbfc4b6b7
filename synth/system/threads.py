"""How many CPU threads torch may use: one, so that sums have one order, or no more than the machine lends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

__all__ = ["quota_threads", "single_thread"]

_CGROUPS = Path("/sys/fs/cgroup")


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one CPU thread, so that sums have one order; restores the number of threads."""
    with _threads(1):
        yield


@contextmanager
def quota_threads() -> Iterator[None]:
    """Run torch on no more CPU threads than this process may use; restores the number of threads.

    Torch starts a thread for every processor of the host. In a container that is lent two of them, small matrices then
    take a hundred times as long.
    """
    with _threads(min(torch.get_num_threads(), _quota())):
        yield


@contextmanager
def _threads(wanted: int) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _quota(cgroups: Path = _CGROUPS) -> int:
    """Return the number of processors lent to this process, at least 1."""
    lent = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        if (cgroups / "cpu.max").exists():
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota, period = ((cgroups / "cpu" / name).read_text() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
        lent = min(lent, round(int(quota) / int(period))) if int(quota) > 0 else lent
    except (OSError, ValueError):
        # No quota, or one that reads "max".
        return max(1, lent)
    return max(1, lent)
