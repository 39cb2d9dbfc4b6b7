from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from synth.jobs import machine, processes


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1,3"}, ("1", "3")),
        ({"CUDA_VISIBLE_DEVICES": " GPU-a1 , GPU-b2 "}, ("GPU-a1", "GPU-b2")),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "3", machine.MACHINE_GPUS: "0,1,2,3"}, ("0", "1", "2", "3")),
        ({"CUDA_VISIBLE_DEVICES": "", machine.MACHINE_GPUS: ""}, ()),
    ],
)
def test_gpus_are_what_the_environment_allows(environment: dict[str, str], gpus: tuple[str, ...]) -> None:
    assert machine.available_gpus(environment) == gpus


def test_a_machine_without_the_drivers_tool_has_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    machine._installed_gpus.cache_clear()
    assert machine.available_gpus({}) == ()
    machine._installed_gpus.cache_clear()


def test_gpus_are_asked_of_the_drivers_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 0\necho 1\n", encoding="ascii")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    machine._installed_gpus.cache_clear()
    assert machine.available_gpus({}) == ("0", "1")
    machine._installed_gpus.cache_clear()


@pytest.mark.parametrize(
    ("quota", "expected"), [("100000 100000", 1), ("max 100000", None), ("50000 100000", 1), ("nonsense", None)]
)
def test_a_containers_quota_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, expected: int | None
) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(quota, encoding="ascii")
    monkeypatch.setattr(machine, "CPU_QUOTA", path)
    assert machine.cores() == (expected or len(os.sched_getaffinity(0)))


def test_a_process_is_known_by_number_and_birth() -> None:
    pid, born = processes.start((sys.executable, "-c", "import time; time.sleep(60)"), environment=os.environ)
    assert processes.is_alive(pid, born)
    assert not processes.is_alive(pid, born - 60)
    assert os.getsid(pid) == pid  # a session of its own: closing the terminal does not end it
    processes.kill(pid, born - 60)
    assert processes.is_alive(pid, born)
    processes.kill(pid, born)
    assert not processes.is_alive(pid, born)
    processes.kill(pid, born)


def test_a_process_that_ended_by_itself_is_not_alive() -> None:
    pid, born = processes.start((sys.executable, "-c", ""), environment=os.environ)
    processes._children[pid].wait(timeout=60)
    assert not processes.is_alive(pid, born)


def test_a_zombie_of_somebody_else_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    born = processes.birth_of(process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(process.pid, born)
    process.wait()
