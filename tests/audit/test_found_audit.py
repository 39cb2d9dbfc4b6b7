"""Findings under the audit: from the bytes of a file to the answers, under both relations, and with planted bugs."""

from __future__ import annotations

import pytest
from found_faults import FOUND_FAULTS
from found_layers import problems
from found_worlds import WORLDS
from reading_here import read_all_here


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)


@pytest.mark.parametrize("world", WORLDS)
def test_nothing_is_wrong(world: str) -> None:
    assert problems(WORLDS[world]) == []


@pytest.mark.parametrize("planted", FOUND_FAULTS)
def test_a_planted_bug_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FOUND_FAULTS[planted](monkeypatch)
    # Some need several rows for each unit, some a unit that is replaced.
    assert any(map(problems, WORLDS.values()))


@pytest.mark.audit
@pytest.mark.parametrize("relation", ["add or remove", "replace one"])
@pytest.mark.parametrize("planted", FOUND_FAULTS)
def test_it_is_noticed_under_both_relations(planted: str, relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "replace" in planted and relation == "add or remove":
        pytest.skip("no bug where nobody is replaced")
    FOUND_FAULTS[planted](monkeypatch)
    assert any(problems(world) for name, world in WORLDS.items() if name.startswith(relation))
