"""Findings under the audit: from the bytes of a file to the answers, under both relations, and with planted bugs."""

from __future__ import annotations

import math

import pytest
from found_faults import FOUND_FAULTS
from found_layers import problems
from found_worlds import OPEN, WORLDS, as_csv, ordinary
from reading_here import read_all_here
from recorded_noise import RecordedNoise

from synth.privacy.more.found_values import ValuesQuestion
from synth.privacy.session import PrivateSession


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)


@pytest.mark.parametrize("world", WORLDS)
def test_nothing_is_wrong(world: str) -> None:
    assert list(problems(WORLDS[world])) == []


@pytest.mark.four_cases
@pytest.mark.parametrize("planted", FOUND_FAULTS)
def test_a_planted_bug_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FOUND_FAULTS[planted](monkeypatch)
    # Some need several rows for each unit, some a unit that is replaced.
    assert any(problem for world in WORLDS.values() for problem in problems(world))


@pytest.mark.audit
@pytest.mark.parametrize("relation", ["add or remove", "replace one"])
@pytest.mark.parametrize("planted", FOUND_FAULTS)
def test_it_is_noticed_under_both_relations(planted: str, relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "replace" in planted and relation == "add or remove":
        pytest.skip("no bug where nobody is replaced")
    FOUND_FAULTS[planted](monkeypatch)
    assert any(problem for name, world in WORLDS.items() if name.startswith(relation) for problem in problems(world))


@pytest.mark.audit
@pytest.mark.parametrize("name", WORLDS)
def test_one_unit_alone_is_shown_as_often_as_is_stated(name: str) -> None:
    """4,000 findings with known noise, at a probability that is large enough to be seen."""
    world, often, times = WORLDS[name], 0.2, 4_000
    # Equal rows lift a text farther than different ones, so these are the worst that a unit can do to each column.
    own = [dict.fromkeys(OPEN, "Zanzibar") | {"person": "somebody"}] * world.rows_per_unit
    table = world.session(as_csv([*ordinary(20, world.rows_per_unit), *own]), RecordedNoise())._table
    counted = table._texts
    assert counted is not None
    counts = counted(OPEN)
    table._texts = lambda columns: counts
    noise, shown = RecordedNoise(9), 0
    for _ in range(times):
        session = PrivateSession(table, world.budget, noise=noise)
        answer = session.ask(ValuesQuestion(OPEN, often), share=1.0, query="values", source="test")
        shown += any(text == "Zanzibar" for _, text, _ in answer.values)
    # Of the keys that are paid for, these are the ones that a unit fills with texts of m rows.
    expected = 1 - (1 - often) ** (1 / (world.rows_per_unit * (1 + (world.row_count == "public"))))
    assert shown / times <= often
    assert abs(shown / times - expected) < 4 * math.sqrt(expected / times)
