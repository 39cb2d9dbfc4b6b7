"""Worker processes: detached from their parent, and recognised by number and birth whatever the clock says."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

__all__ = ["birth_of", "boot", "is_alive", "kill", "start"]

PROC = Path("/proc")
TICK_BITS = 36
"""Bits for the start ticks: 21 years at 100 per second. With 16 bits for the boot a double holds both exactly."""

BACK = 10
"""Nice value of workers, so that screens stay responsive while runs compute."""

_children: dict[int, subprocess.Popen[bytes]] = {}


def start(command: Sequence[str], *, environment: Mapping[str, str]) -> tuple[int, float]:
    """Start a process in its own session, with no terminal and no output, and return (pid, birth).

    It outlives its parent and runs at low priority. Its output is discarded: a library's warning may quote a cell.
    """
    process = subprocess.Popen(
        list(command),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )
    _children[process.pid] = process
    with suppress(OSError):  # it has ended, or has a lower priority already
        os.setpriority(os.PRIO_PROCESS, process.pid, BACK)
    return process.pid, birth_of(process.pid)


@cache
def boot() -> int:
    """Return 16 bits that identify this boot of the machine; 0 if the system does not say."""
    try:
        identity = (PROC / "sys" / "kernel" / "random" / "boot_id").read_bytes().strip()
    except OSError:
        return 0
    return int.from_bytes(hashlib.blake2b(identity, digest_size=2).digest(), "big")


def birth_of(pid: int) -> float:
    """Return a number that no other process with this pid has; 0 if there is no such process.

    It combines the boot of the machine and the clock ticks from that boot to the start of the process, because a time
    of day would change whenever the clock is set. Without /proc it is the system's own record of the start time.
    """
    try:
        ticks = int(_stat(pid)[19])
    except OSError:
        return 0.0 if _has_proc() else _recorded_birth(pid)
    return float((boot() << TICK_BITS) | ticks)


def is_alive(pid: int, born: float) -> bool:
    """Whether this process still runs; another one with its number does not count."""
    _reap()
    if born == 0 or birth_of(pid) != born:
        return False
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def kill(pid: int, born: float) -> None:
    """Kill this process and its children, if it still runs."""
    if not is_alive(pid, born):
        return
    with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        process = psutil.Process(pid)
        for victim in (*process.children(recursive=True), process):
            victim.kill()
        process.wait(timeout=10)
    _reap()


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third on; the second, a name, may contain blanks and brackets."""
    return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()


@cache
def _has_proc() -> bool:
    return (PROC / "self" / "stat").exists()


def _recorded_birth(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def _reap() -> None:
    """Collect the exit status of our finished children, so that none remains a zombie."""
    for pid, process in list(_children.items()):
        if process.poll() is not None:
            _children.pop(pid, None)
