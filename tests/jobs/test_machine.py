from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from synth.jobs import processes
from synth.system import machine


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
    ("files", "expected"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "199999 100000"}, 1),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
    ids=["one", "a part", "one and a part", "no quota", "nonsense", "older", "older without", "no files"],
)
def test_a_containers_quota_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
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


SHIFTED = """
import os, sys, subprocess
from pathlib import Path
step, pid, born = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
stat = Path("/proc/stat").read_text()
at = next(line for line in stat.splitlines() if line.startswith("btime"))
fake = Path(sys.argv[4])
fake.write_text(stat.replace(at, f"btime {int(at.split()[1]) + step}"))
if subprocess.run(["mount", "--bind", str(fake), "/proc/stat"], capture_output=True).returncode:
    sys.exit(77)
import psutil
from synth.jobs import processes
print(round(psutil.Process(pid).create_time()), processes.is_alive(pid, born))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_process_is_known_though_the_kernel_says_another_time_of_start(step: int, tmp_path: Path) -> None:
    """What a clock that is set does: /proc/stat, in a name space of its own, says another time of boot."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("needs root and unshare for a name space of mounts")
    own = psutil.Process().create_time()
    born = processes.birth_of(os.getpid())
    command = ["unshare", "-m", sys.executable, "-c", SHIFTED, str(step), str(os.getpid()), repr(born)]
    seen = subprocess.run([*command, str(tmp_path / "stat")], capture_output=True, text=True)
    if seen.returncode in (1, 77):
        pytest.skip("mounting is not allowed here")
    created, alive = seen.stdout.split()
    assert abs(int(created) - own - step) < 5  # the system's time of birth moved by an hour ...
    assert alive == "True"  # ... and the process is the same


def test_a_worker_stands_back_so_that_screens_are_answered() -> None:
    pid, born = processes.start((sys.executable, "-c", "import time; time.sleep(60)"), environment=os.environ)
    assert os.getpriority(os.PRIO_PROCESS, pid) >= processes.BACK
    processes.kill(pid, born)


def test_a_process_that_ended_by_itself_is_not_alive() -> None:
    pid, born = processes.start((sys.executable, "-c", ""), environment=os.environ)
    processes._children[pid].wait(timeout=300)
    assert not processes.is_alive(pid, born)


def test_a_zombie_of_somebody_else_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    born = processes.birth_of(process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(process.pid, born)
    process.wait()
