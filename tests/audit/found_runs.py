"""A finding and the run that uses it in two neighbouring worlds, from the bytes of a file to the sealed bundle."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_runs import AS_DECLARED, Browser, Dictation, Public, Watched, differences
from recorded_noise import RecordedNoise

from synth.application import Application
from synth.jobs.processes import birth_of
from synth.privacy.more.found_values import ValuesPlan, ValuesQuestion
from synth.progress import NullProgress
from synth.schema import FindColumn, ModelledColumn, RunConfig, config_to_mapping, parse_config
from synth.services import finding as findings
from synth.services import run_folder
from synth.system.machine import this_host

__all__ = ["OF_FINDING", "FindingBrowser", "FoundDictation", "moved_by_finding", "same_bytes"]

OF_FINDING = 8.0


class FoundDictation(Dictation):
    """What dictates found values too: the second world draws its own, and is told those of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: Counter[tuple[str, str]] = Counter()
        """How many rows hold each text of each column that was asked for."""

    def again(self) -> FoundDictation:
        other = FoundDictation()
        other._answers, other._place = self._answers, 0
        return other

    def install(self, patch: pytest.MonkeyPatch) -> None:
        super().install(patch)
        right = ValuesQuestion.draw

        def draw(question: ValuesQuestion, plan: ValuesPlan, rows: Any, noise: Any, *, device: str) -> Any:
            def heard(columns: Any) -> Any:
                found = rows.texts(columns)
                for name, counts in zip(columns, found, strict=True):
                    self.texts.update({(name, text): count for text, count in counts.items()})
                return found

            found = right(question, plan, dataclasses.replace(rows, texts=heard), RecordedNoise(11), device=device)
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
        work = application.findings.reserve(config, table_id=table_id, epsilon=OF_FINDING, reading=AS_DECLARED)
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


def same_bytes(
    config: RunConfig, first: bytes, second: bytes, home: Path, *, verify: bool = False
) -> tuple[Public, FoundDictation, FoundDictation]:
    """With the answers forced to be equal, no public byte of finding and run depends on one unit."""
    browser, dictation = FindingBrowser(config, home, owner_report=False, verify=verify), FoundDictation()
    before = browser.public(first, dictation)
    assert before["shown after the release"]["run"].state == "released", before["shown"]["run"].message
    again = dictation.again()
    found = differences(before, browser.public(second, again))
    again.require_all_asked()
    assert not found, f"a finding and its run depend on one unit in {', '.join(found[:8])}"
    return before, dictation, again


def moved_by_finding(public: Public, first: FoundDictation, second: FoundDictation) -> dict[str, float]:
    """By question of a finding: how far one unit moves its exact answer, which its receipt bounds."""
    receipts = json.loads(public["what was found"]["found.json"])["receipts"]
    sums = [one for one in receipts if not one["query"].startswith("values of")]
    found = {
        receipt["query"]: float(np.linalg.norm((one - other).astype(np.float64))) * receipt["grid"]
        for receipt, one, other in zip(sums, first.sums, second.sums, strict=False)
    }
    for receipt in receipts[len(sums) :]:
        changed = first.texts.keys() | second.texts.keys()
        found[receipt["query"]] = math.sqrt(sum((first.texts[one] - second.texts[one]) ** 2 for one in changed))
    for receipt in receipts:
        distance = found[receipt["query"]]
        assert distance <= receipt["sensitivity"] * (1 + 1e-9), (
            f"'{receipt['query']}' moved by {distance:.6g}, its receipt says {receipt['sensitivity']:.6g}"
        )
    return found
