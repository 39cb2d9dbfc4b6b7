"""The benchmark of devices says that there is no card, or puts the two side by side, within the time that it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import device
import pytest
from pretended_card import pretended_card

ROOT = Path(__file__).parents[2]

FIGURES = {"seconds": 2.5, "share": 1.0, "peak_bytes": 2.0**30, "waits": 3.0}
CEILINGS = {
    "seconds_of_an_operation": 5e-6,
    "bytes_per_second_of_a_fit": 1e11,
    "bytes_per_second": 2e12,
    "single_per_second": 5e13,
    "double_per_second": 3e13,
}


def found_by(given: list[str], **named: Any) -> subprocess.CompletedProcess[str]:
    """Stand for the process that measures: the card is five times as fast."""
    part, where = given[-2:]
    figures = CEILINGS if part == "ceilings" else {**FIGURES, "seconds": 2.5 if where == "cpu" else 0.5}
    return subprocess.CompletedProcess(given, 0, f"said before\n{json.dumps(figures)}\n", "")


@pytest.mark.parametrize("cards", [False, True])
def test_devices_stand_side_by_side_where_there_is_a_card(
    cards: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device.torch.cuda, "is_available", lambda: cards)
    monkeypatch.setattr(device.torch.cuda, "get_device_name", lambda: "NVIDIA pretended")
    monkeypatch.setattr(device.subprocess, "run", found_by)
    found: Any = device.side_by_side(["kahm", "mixture"], 1000.0)
    said = capsys.readouterr().out
    assert list(found["parts"]) == ["kahm", "mixture"]
    assert set(found["parts"]["kahm"]) == {"about", "cpu", *(["cuda"] if cards else [])}
    assert found["card"] == ("NVIDIA pretended" if cards else None)
    assert ("No graphics card was found here" in said) is not cards
    assert ("NVIDIA pretended" in said) is cards
    assert said.count("2.50") == 2
    assert said.count("5.0") == (4 if cards else 1), "operations of a step, and the ratio of each part"
    # What all pairs of neighbours read and write, over what the card copies in a second.
    speed = 2e12 if cards else 3.35e12
    assert found["neighbours_least_seconds"] == pytest.approx(60_000**2 * 240 / speed)
    assert json.loads(json.dumps(found)) == found


def test_what_has_no_time_left_or_fails_is_skipped_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(given: list[str], **named: Any) -> subprocess.CompletedProcess[str]:
        assert named["timeout"] <= 20.0
        if given[-2] == "kahm":
            return subprocess.CompletedProcess(
                given, 1, "", "Traceback ...\nModuleNotFoundError: No module named 'x'\n"
            )
        if given[-2] == "mixture":
            raise subprocess.TimeoutExpired(given, named["timeout"])
        return found_by(given)

    for name in ("kahm", "mixture", "fourier"):
        monkeypatch.setitem(device.PARTS, name, device.replace(device.PARTS[name], needs=5.0))
    monkeypatch.setattr(device.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device.subprocess, "run", run)
    device.side_by_side(["kahm", "mixture", "fourier", "run"], 20.0)
    said = capsys.readouterr().out
    assert "kahm on cpu: ModuleNotFoundError: No module named 'x'" in said
    assert "mixture on cpu: not finished when the time was over" in said
    assert "run on cpu: skipped: " in said
    assert "fourier on cpu" not in said


def test_a_fit_is_timed_from_answers_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    small = device.Part("", lambda share: device.mixture(round(10 * share), 2, 3), 1, 0.5)
    monkeypatch.setitem(device.PARTS, "mixture", small)
    found = device.measure("mixture", "cpu")
    assert found["seconds"] > 0
    assert found["share"] == 0.5
    assert found["peak_bytes"] > 2**20
    work = device.fit_of("dp-merf", {"steps": 2, "features": 20, "batch_size": 32}, rows=50)
    assert (work("cpu") == work("cpu")).all()  # type: ignore[attr-defined]


def test_neighbours_are_the_same_on_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    work = device.neighbours(50, 80)
    here = work("cpu")
    apart = device.neighbours(50, 80, all_pairs=True)("cpu")
    assert (here == apart / (2**24 * 15)).all()  # type: ignore[operator, attr-defined]
    with pretended_card(monkeypatch):
        assert (work("cuda") == here).all()  # type: ignore[attr-defined]


@pytest.mark.thorough
def test_the_whole_run_of_the_benchmark_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path))
    monkeypatch.setattr(device, "RUN", device.RUN.replace("{{name: dp-merf}}", "{{name: independent}}"))
    device.whole_run(60)("cpu")


@pytest.mark.thorough
@pytest.mark.parametrize("command", [["-m", "benchmarks.device"], ["benchmarks/device.py"]])
def test_it_runs_from_the_root_of_the_repository(command: list[str], tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *command, "--parts", "hermite", "--json", str(tmp_path / "found.json")],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "hermite" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["parts"]["hermite"]["cpu"]["seconds"] > 0
    assert found["ceilings"]["cpu"]["bytes_per_second"] > 1e8
