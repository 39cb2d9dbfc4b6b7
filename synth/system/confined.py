"""A child process that meets untrusted bytes: little memory, little time, no files of its own, nothing to inherit."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["confine", "start_confined"]

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT", "TZDIR")


def start_confined(module: str, arguments: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a module of this program with pipes for its input and its output; its complaints go nowhere.

    Parameters
    ----------
    module : str
        Run as ``python -m module``; it calls :func:`confine` before it reads anything.
    arguments : sequence of str
        Its command line.
    """
    root = str(Path(__file__).resolve().parents[2])
    variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
    # One thread and one plain memory pool keep what is reserved small, and what is reserved is limited.
    variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    variables |= {"MALLOC_ARENA_MAX": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables,
        bufsize=0,
    )


def confine(*, memory_bytes: int, cpu_seconds: int) -> None:
    """Limit this process for good: memory of its own, processor time, no core dumps, no files.

    Parameters
    ----------
    memory_bytes : int
        Private memory, without the libraries' own pages: what allocations are made of.
    cpu_seconds : int
        Processor time; a second later the process is killed.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CPU, cpu_seconds, grace=1)
    if sys.platform != "darwin":  # which does not count what is mapped
        _limit(resource.RLIMIT_DATA, memory_bytes)


def _limit(kind: int, most: int, *, grace: int = 0) -> None:
    _, hard = resource.getrlimit(kind)
    lowered = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # The hard limit of processor time kills, so it lies above the soft one, whose signal says what happened.
    above = grace if lowered != hard else 0
    resource.setrlimit(kind, (lowered, lowered + above))
