"""From the bytes of a file over a finding to the sealed bundle of the run that uses it, in two neighbouring worlds."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_runs import WORLDS, Browser, Dictation, Public, Watched, World, differences, neighbours, start_home
from recorded_noise import RecordedNoise

from synth.application import Application
from synth.bundle import finding as of_bundle
from synth.jobs.processes import birth_of
from synth.privacy.more import finding as questions
from synth.privacy.more.found_values import FoundValues, ValuesPlan, ValuesQuestion
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reading.more.texts import TextCounts
from synth.schema import FindColumn, ModelledColumn, RunConfig, config_to_mapping, parse_config
from synth.services import finding as findings
from synth.services import run_folder
from synth.system.machine import this_host

UNITS, EPSILON, OF_FINDING = 400, 30.0, 8.0
BROUGHT = {
    "replace one": "far beyond all bounds",
    "add or remove": "a line that cannot be read",
    "replace one of several rows": "a row without an id",
    "add or remove several rows": "more rows than may be kept",
}


class FoundDictation(Dictation):
    """What dictates found values too: the second world draws its own, and is told those of the first."""

    def again(self) -> FoundDictation:
        other = FoundDictation()
        other._answers, other._place = self._answers, 0
        return other

    def install(self, patch: pytest.MonkeyPatch) -> None:
        super().install(patch)
        right = ValuesQuestion.draw

        def draw(question: ValuesQuestion, plan: ValuesPlan, rows: Any, noise: Any, *, device: str) -> Any:
            found = right(question, plan, rows, RecordedNoise(11), device=device)
            return self._answer(("values", question.columns, plan.threshold, plan.gaussian.variance), found)

        patch.setattr(ValuesQuestion, "draw", draw)


@dataclasses.dataclass(frozen=True)
class FindingBrowser(Browser):
    """A run whose columns were found privately first."""

    def _carried(self, application: Application, table_id: str, patch: pytest.MonkeyPatch) -> Public:
        columns = tuple(
            FindColumn(one.name) if isinstance(one, ModelledColumn) else one for one in self.config.schema.columns
        )
        config = dataclasses.replace(self.config, schema=dataclasses.replace(self.config.schema, columns=columns))
        public: Public = {"plan of the finding": repr(application.findings.plan(config, epsilon=OF_FINDING))}
        work = application.findings.reserve(config, table_id=table_id, epsilon=OF_FINDING)
        pid = os.getpid()
        application.store.work.claim(work.id, host=this_host(), pid=pid, pid_created=birth_of(pid))
        watched = Watched(NullProgress())
        finding = findings.carry_out(application.installation, work.id, watched)
        folder = run_folder.of(application.settings, work.id)
        filled = parse_config(findings.completed(config_to_mapping(config), finding))
        public |= {
            "what was found": {
                str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.glob("found.*"))
            },
            "steps of the finding": watched.seen,
            "columns": repr(filled.schema),
            "what is said of it": repr(finding.columns),
        }
        run = Browser(filled, self.home, self.owner_report, self.verify)
        return public | run._carried(application, table_id, patch)


def compared(world: World, name: str, home: Path, *, verify: bool = False) -> Public:
    """With the answers forced to be equal, no public byte of finding and run depends on one unit."""
    units, first, second = neighbours(world, name, UNITS)
    config: RunConfig = world.config(units, "independent", epsilon=EPSILON)
    browser, dictation = FindingBrowser(config, home, owner_report=False, verify=verify), FoundDictation()
    before = browser.public(first, dictation)
    assert before["shown after the release"]["run"].state == "released", before["shown"]["run"].message
    again = dictation.again()
    found = differences(before, browser.public(second, again))
    again.require_all_asked()
    assert not found, f"a finding and its run depend on one unit in {', '.join(found[:8])}"
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
    with pytest.raises(AssertionError, match="depend"):
        compared(WORLDS["add or remove"], "far beyond all bounds", home)
