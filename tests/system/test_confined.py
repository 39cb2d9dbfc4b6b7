"""The one sandbox: what a child process that meets untrusted bytes inherits, and where it is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from synth.system.confined import Confined

LIMITS = {"memory_bytes": 2**30, "cpu_seconds": 60}


def confined_in(tmp_path: Path, steps: str, **limits: int) -> subprocess.CompletedProcess[bytes]:
    """Run steps in a process that has confined itself."""
    given = ", ".join(f"{name}={value}" for name, value in (LIMITS | limits).items())
    program = f"from synth.system.confined import answers_alone, confine\nconfine({given})\n{steps}"
    folder = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x")], cwd=folder, capture_output=True, check=False
    )


def test_it_inherits_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://owner:secret@localhost/x")
    # An interpreter that waits for lines: what it inherited can be read from when it has begun until it is stopped.
    with Confined("code", seconds=60) as confined:
        while not (environment := Path(f"/proc/{confined.process.pid}/environ").read_bytes()):
            assert confined.process.poll() is None
    assert b"PATH" in environment
    assert b"secret" not in environment


def test_it_writes_no_file(tmp_path: Path) -> None:
    steps = (
        "import sys\nfile = open(sys.argv[1], 'wb', buffering=0)\n"
        "try:\n    file.write(b'cell')\nexcept OSError:\n    raise SystemExit(7)\n"
    )
    assert confined_in(tmp_path, steps).returncode == 7
    assert (tmp_path / "x").read_bytes() == b""


def test_its_memory_is_bounded(tmp_path: Path) -> None:
    steps = "held = bytearray({} * 2**20)"
    assert confined_in(tmp_path, steps.format(100)).returncode == 0
    ended = confined_in(tmp_path, steps.format(2000))
    assert b"MemoryError" in ended.stderr


def test_its_processor_time_is_bounded(tmp_path: Path) -> None:
    assert confined_in(tmp_path, "while True:\n    held = 1", cpu_seconds=1).returncode == -signal.SIGXCPU


def test_it_says_nothing_but_its_answers(tmp_path: Path) -> None:
    steps = (
        "import os, sys\nanswers = answers_alone()\nprint('a cell', flush=True)\n"
        "os.write(2, b'a cell')\nanswers.write(b'an answer')\nanswers.close()"
    )
    ended = confined_in(tmp_path, steps)
    assert (ended.stdout, ended.stderr) == (b"an answer", b"")


def test_it_is_waited_for_until_its_deadline_and_killed_when_it_is_left() -> None:
    with Confined("timeit", "-n", "1000000000000", "pass", seconds=0.2) as confined:
        with pytest.raises(TimeoutError):
            confined.read(1)
        assert confined.process.poll() is None
    assert confined.process.returncode == -signal.SIGKILL
    assert not confined.used_up_its_time()
