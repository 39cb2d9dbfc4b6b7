"""What this machine has: its name, processors and GPUs."""

from __future__ import annotations

import math
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["MACHINE_GPUS", "available_gpus", "cores", "this_host"]

MACHINE_GPUS = "HERMITAGE_MACHINE_GPUS"
"""Environment variable in which a worker, which itself sees one GPU, passes on all of them to the next worker."""

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def this_host() -> str:
    """Return the name that process numbers of this machine belong to."""
    return platform.node() or "localhost"


def cores() -> int:
    """Return how many processors this process may use, a container's quota included."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CPU_QUOTA.read_text(encoding="ascii").split()
        return max(1, min(allowed, math.floor(int(quota) / int(period))))
    except (OSError, ValueError):
        return allowed


def available_gpus(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the GPUs this machine may use, lowest first, as ``CUDA_VISIBLE_DEVICES`` names them."""
    variables = os.environ if environment is None else environment
    for name in (MACHINE_GPUS, "CUDA_VISIBLE_DEVICES"):
        listed = variables.get(name)
        if listed is not None:
            return tuple(entry.strip() for entry in listed.split(",") if entry.strip() and entry.strip() != "-1")
    return _installed_gpus()


@cache
def _installed_gpus() -> tuple[str, ...]:
    # Asked of the driver's tool, because importing torch takes seconds in a process that never computes.
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        answer = subprocess.run(
            [tool, "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in answer.stdout.splitlines() if line.strip().isdigit())
