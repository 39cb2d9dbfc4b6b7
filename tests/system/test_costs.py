"""What computing costs here is measured once, kept, and measured again where it no longer says what is there."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from pretended_card import pretended_card
from torch.utils._python_dispatch import TorchDispatchMode

from synth.system import costs
from synth.system.costs import COSTS_FILE, STEP_OPERATIONS, Costs, CostTable, Work, costs_here, kept_costs

CPU = Costs(operation=1e-5, single=1e-10, double=2e-10, byte=1e-10)
CARD = Costs(operation=2e-5, single=1e-13, double=1e-13, byte=1e-12)
TABLE = CostTable("a card", CPU, CARD)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what is measured; every measurement finds the same costs."""
    seen: list[str] = []

    def measure(device: str) -> Costs:
        seen.append(device)
        return {"cpu": CPU, "cuda": CARD}[device]

    monkeypatch.setattr(costs, "measured_costs", measure)
    return seen


def test_a_processor_adds_up_and_a_card_overlaps() -> None:
    work = Work(steps=100, operations=50.0, single=1e8, double=1e7, bytes=1e8)
    assert TABLE.cpu_seconds(work) == pytest.approx(100 * (50e-5 + 1e-2 + 2e-3 + 1e-2))
    assert TABLE.card_seconds(work) == pytest.approx(100 * 50 * 2e-5), "launches take longer than what they start"
    few = Work(steps=100, operations=1.0, single=1e9)
    assert TABLE.card_seconds(few) == pytest.approx(100 * 1e9 * 1e-13)
    assert TABLE.cpu_seconds(Work(steps=0, operations=9.0)) == 0.0


def test_costs_are_measured_once_and_kept_for_the_owner_alone(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    with pretended_card(monkeypatch):
        first = costs_here(home)
        assert costs_here(home) == first == kept_costs(home)
    assert measured == ["cpu", "cuda"]
    assert (first.cpu, first.card) == (CPU, CARD)
    assert stat.S_IMODE((home / COSTS_FILE).stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == [COSTS_FILE]


@pytest.mark.parametrize("changed", ["card", "processor"])
def test_costs_of_another_card_or_processor_are_measured_again(
    changed: str, tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended_card(monkeypatch):
        costs_here(tmp_path)
        if changed == "card":
            monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA another")
        else:
            monkeypatch.setattr(costs, "processor_name", lambda: "another")
        assert "another" in costs_here(tmp_path).about
        assert kept_costs(tmp_path) == costs_here(tmp_path)
    assert measured == 2 * ["cpu", "cuda"]


def _broken(**changes: Any) -> bytes:
    kept = json.loads(TABLE.to_json())
    kept["cpu"] |= changes
    return json.dumps(kept).encode()


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"[" * 10_000,
        b"[]",
        b'{"about": "a card"}',
        TABLE.to_json()[:-20],
        _broken(operation=-1.0),
        _broken(single=0.0),
        _broken(byte="fast"),
        _broken(double=float("nan")),
        _broken(byte=None),
    ],
)
def test_a_damaged_file_is_measured_again(
    content: bytes, tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / COSTS_FILE).write_bytes(content)
    assert kept_costs(tmp_path) is None
    with pretended_card(monkeypatch):
        assert costs_here(tmp_path).cpu == CPU
    assert measured == ["cpu", "cuda"]
    assert kept_costs(tmp_path) is not None


def test_a_folder_that_takes_no_file_stops_nothing(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("a file")
    with pretended_card(monkeypatch):
        assert costs_here(tmp_path / "home").card == CARD


def test_every_kind_of_work_is_measured_on_either_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for cost in ("operation", "single", "double", "byte"):
        assert 0 < getattr(costs.measured_costs("cpu"), cost) < 1e-2
    with pretended_card(monkeypatch) as traffic:
        costs.measured_costs("cuda")
    assert traffic.operations > STEP_OPERATIONS
    assert traffic.uploads == 0


def test_the_operations_of_the_measured_step_are_those_that_are_stated() -> None:
    class Counting(TorchDispatchMode):
        found = 0

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.found += not operation.is_view
            return operation(*args, **(kwargs or {}))

    layers = [torch.full((16, 16), 0.01) for _ in range(3)]
    with Counting() as counting:
        costs.training_step(layers)
    assert counting.found == STEP_OPERATIONS
