"""From the bytes of a file over a finding to the sealed bundle of the run that uses it, in two neighbouring worlds."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_runs import WORLDS, Public, Watched, World, neighbours, start_home
from found_runs import moved_by_finding, same_bytes

from synth.bundle import finding as of_bundle
from synth.privacy.more import finding as questions
from synth.privacy.more.found_values import FoundValues, ValuesPlan, ValuesQuestion
from synth.privacy.table import PrivateTable
from synth.reading.more.texts import TextCounts
from synth.schema import RunConfig
from synth.services import finding as findings

UNITS, EPSILON = 400, 30.0
BROUGHT = {
    "replace one": "far beyond all bounds",
    "add or remove": "a line that cannot be read",
    "replace one of several rows": "a row without an id",
    "add or remove several rows": "more rows than may be kept",
}


def compared(world: World, name: str, home: Path, *, verify: bool = False) -> Public:
    """With the answers forced to be equal, no public byte of finding and run depends on one unit."""
    units, first, second = neighbours(world, name, UNITS)
    config: RunConfig = world.config(units, "independent", epsilon=EPSILON)
    before, *heard = same_bytes(config, first, second, home, verify=verify)
    moved_by_finding(before, *heard)
    return before


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("findings") / "home")


@pytest.mark.audit
@pytest.mark.parametrize("world", WORLDS)
def test_a_neighbour_changes_no_public_byte_of_what_was_found(world: str, home: Path) -> None:
    before = compared(WORLDS[world], BROUGHT[world], home, verify=True)
    # Something was found, so that there is something to be equal.
    assert "CategoryColumn(name='town'" in before["columns"]
    assert "NumberColumn(name='age'" in before["columns"]
    assert b"Nowhere" not in before["bundle"]


def private_rows(patch: pytest.MonkeyPatch) -> list[PrivateTable]:
    """Give a planted bug the rows behind every finding, the last ones last."""
    opened: list[PrivateTable] = []
    right = findings.open_table

    def open_table(*given: Any, **named: Any) -> PrivateTable:
        opened.append(right(*given, **named))
        return opened[-1]

    patch.setattr(findings, "open_table", open_table)
    return opened


def plant_a_count_in_a_log(patch: pytest.MonkeyPatch) -> None:
    right = questions.count_texts

    def count_texts(*given: Any) -> list[TextCounts]:
        found = list(right(*given))
        logging.getLogger("synth.reading").debug("%d texts", sum(map(sum, (one.values() for one in found))))
        return found

    patch.setattr(questions, "count_texts", count_texts)


def plant_a_count_in_what_is_said(patch: pytest.MonkeyPatch) -> None:
    opened, right = private_rows(patch), of_bundle.columns_found

    def columns_found(*given: Any) -> Any:
        rows = opened[-1]._rows if opened else 0
        return tuple(dataclasses.replace(one, said=f"{one.said} Of {rows} rows.") for one in right(*given))

    patch.setattr(of_bundle, "columns_found", columns_found)


def plant_a_threshold_from_rows(patch: pytest.MonkeyPatch) -> None:
    opened, right = private_rows(patch), ValuesQuestion.plan

    def plan(self: ValuesQuestion, allowed: Any) -> ValuesPlan:
        found = right(self, allowed)
        return dataclasses.replace(found, threshold=found.threshold + (opened[-1]._rows if opened else 0))

    patch.setattr(ValuesQuestion, "plan", plan)


def plant_a_question_from_rows(patch: pytest.MonkeyPatch) -> None:
    opened, right = private_rows(patch), FoundValues.counts

    def counts(self: FoundValues, column: str) -> dict[str, float]:
        """How many different texts there are is known to nobody."""
        counter = opened[-1]._texts if opened else None
        held = counter(("town",))[0] if counter else {}
        return {text: rows - len(held) for text, rows in right(self, column).items()}

    patch.setattr(FoundValues, "counts", counts)


def plant_a_step_for_every_value(patch: pytest.MonkeyPatch) -> None:
    opened, right = private_rows(patch), Watched.phase

    def phase(self: Watched, name: str) -> None:
        right(self, name)
        if opened:
            self.step(1, opened[-1]._rows)

    patch.setattr(Watched, "phase", phase)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a count in a log": plant_a_count_in_a_log,
    "a count in what is said": plant_a_count_in_what_is_said,
    "a threshold from rows": plant_a_threshold_from_rows,
    "what is concluded looks at rows": plant_a_question_from_rows,
    "a step for every row": plant_a_step_for_every_value,
}


@pytest.mark.audit
@pytest.mark.parametrize("planted", PLANTED)
def test_what_depends_on_a_unit_beside_the_answers_is_noticed(
    planted: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PLANTED[planted](monkeypatch)
    # A threshold that its noise does not give is refused before a charge, by the check of the bundle of a trial.
    with pytest.raises(AssertionError, match=r"depend|has a threshold of"):
        compared(WORLDS["add or remove"], "far beyond all bounds", home)
