"""How much of a machine one run takes: processes, and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.system import machine
from synth.system.machine import MOST_PROCESSES, free_memory_bytes, local_processes


@pytest.mark.parametrize(("wanted", "cores", "found"), [(0, 2, 2), (0, 64, MOST_PROCESSES), (3, 64, 3), (100, 1, 8)])
def test_a_run_starts_a_bounded_number_of_processes(
    wanted: int, cores: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: cores)
    assert local_processes(wanted) == found


def test_the_limit_of_a_container_bounds_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    of_machine = free_memory_bytes()
    assert of_machine > 2**20
    for name, said in (("memory.max", "1000000"), ("memory.current", "700000"), ("memory.stat", "inactive_file 50000")):
        (tmp_path / name).write_text(f"{said}\n", encoding="ascii")
    assert free_memory_bytes() == 350_000
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert free_memory_bytes() > 2**20
