"""The benchmark of devices says that there is no card, or puts the two side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import device


@pytest.mark.parametrize("cards", [False, True])
def test_devices_stand_side_by_side_where_there_is_a_card(
    cards: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = json.dumps({"seconds": 2.5, "peak_bytes": 2.0**30, "waits_per_step": 0.05})
    monkeypatch.setattr(device.torch.cuda, "is_available", lambda: cards)
    monkeypatch.setattr(device.torch.cuda, "get_device_name", lambda: "NVIDIA pretended")
    monkeypatch.setattr(device.subprocess, "run", lambda *given, **named: SimpleNamespace(stdout=figures))
    found = device.side_by_side(["kahm", "mixture"], 1)
    said = capsys.readouterr().out
    assert list(found) == ["kahm", "mixture"]
    assert set(found["kahm"]) == ({"cpu", "cuda"} if cards else {"cpu"})
    assert ("No graphics card was found here" in said) is not cards
    assert ("NVIDIA pretended" in said) is cards
    assert said.count("2.50") == len(found) * len(found["kahm"])


def test_a_fit_is_timed_from_answers_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(device.WORKS, "mixture", (lambda: device.mixture(3, 2, 3), 3))
    found = device.measure("mixture", "cpu", 1)
    assert found["seconds"] > 0
    assert found["peak_bytes"] > 2**20
    work = device.fit_of("dp-merf", {"steps": 2, "features": 20, "batch_size": 32}, rows=50)
    assert (work("cpu") == work("cpu")).all()  # type: ignore[attr-defined]
