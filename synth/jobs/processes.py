"""Worker processes: started apart from their parent, recognised by number and time of birth."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

import psutil

__all__ = ["birth_of", "is_alive", "kill", "start"]

SAME_BIRTH_SECONDS = 1.0
"""Two readings of one process's time of birth differ by rounding; a reused number is born much later."""

_children: dict[int, subprocess.Popen[bytes]] = {}


def start(command: Sequence[str], *, environment: Mapping[str, str]) -> tuple[int, float]:
    """Start a process in a session of its own, with no terminal and no output, and return (pid, time of birth).

    It outlives its parent. What it prints is dropped: a library's warning may quote a cell.
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
    return process.pid, birth_of(process.pid)


def birth_of(pid: int) -> float:
    """Return when a process was born, in seconds since 1970; 0 when there is none."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def is_alive(pid: int, born: float) -> bool:
    """Whether the very process still runs; another one that got its number does not count."""
    _reap()
    process = _find(pid, born)
    try:
        return process is not None and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(pid: int, born: float) -> None:
    """Kill the very process and its children, if it still runs."""
    process = _find(pid, born)
    if process is None:
        return
    try:
        for victim in (*process.children(recursive=True), process):
            victim.kill()
        process.wait(timeout=10)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        pass
    _reap()


def _find(pid: int, born: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - born) < SAME_BIRTH_SECONDS else None
    except psutil.Error:
        return None


def _reap() -> None:
    """Collect the exit status of our finished children, so that none stays a zombie."""
    for pid, process in list(_children.items()):
        if process.poll() is not None:
            _children.pop(pid, None)
