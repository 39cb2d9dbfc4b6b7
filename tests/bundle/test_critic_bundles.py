"""Turns of private critics: bundle, verification, forgeries and replay, under both relations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, checked, config_of, members_of, require_verified_and_replayed, simulated_codes
from forging import answers_of, costing, forged, require_half_a_sensitivity_is_found, with_answer

from synth.bundle.answers import ENTRIES
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.replay import replay
from synth.errors import PrivacyError
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import of_kind
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

COLUMNS = (
    NumberColumn("age", 0, 99, 1, fallback=0),
    NumberColumn("income", 0, 999, 1, fallback=0, missing=True),
    CategoryColumn("region", ("north", "south", "east", "west"), fallback="north"),
    CategoryColumn("outcome", ("well", "ill"), fallback="well"),
)
SITUATIONS = {
    "replace one": (1, "public", False),
    "add or remove": (1, "private", False),
    "add or remove three rows": (3, "private", False),
    "replace three rows of an id": (3, "public", True),
}
OPTIONS = {"parts": 4, "turns": 6, "batch_size": 5, "critic_steps": 2}
PAID = {"replace one": 4, "add or remove": 2, "add or remove three rows": 5, "replace three rows of an id": 4}
"""Of 6 turns of 4 critics two have 2, two have 1."""


def settings_of(situation: str) -> RunConfig:
    rows_per_unit, row_count, ids = SITUATIONS[situation]
    return config_of(
        (IdentifierColumn("person"), *COLUMNS) if ids else COLUMNS,
        number_of_units=600 if row_count == "public" else None,
        holdout=0.0,
        unit=PrivacyUnit(rows_per_unit=rows_per_unit, id_column="person" if ids else None),
        row_count=row_count,
        generator="gs-wgan",
        options=OPTIONS,
        label="outcome",
        domain_source={},
    )


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    found = {}
    for situation, (_, _, ids) in SITUATIONS.items():
        config, folder = settings_of(situation), tmp_path_factory.mktemp("run")
        codes, people = simulated_codes(config.schema, 600), [f"{row % 400}" for row in range(600)]
        table = PrivateTable.from_codes(config.schema, codes, unit_ids=people if ids else None)
        measured = fit_and_sample(config, table, NullProgress())
        assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
        seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
        found[situation] = folder / "bundle.zip"
    return found


def turns_of(found: Measurements) -> NoisySteps:
    (answer,) = of_kind(found.answers, NoisySteps)
    return answer


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_sealed_verified_and_replayed(
    situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    require_verified_and_replayed(bundles[situation], key, tmp_path)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_all_turns_are_charged_as_one_answer_and_foreseen(situation: str, bundles: dict[str, Path]) -> None:
    found = answers_of(bundles[situation])
    answer = turns_of(found)
    assert answer.receipt.sensitivity == pytest.approx(2 * math.sqrt(5 * PAID[situation]), rel=1e-12)
    assert answer.whole.shape == (6, answer.question.dimension)
    assert answer.receipt.dimension == answer.whole.size
    planned = forecast(settings_of(situation))
    parts = {part.name: part.share for part in planned.parts}
    whole = sum(receipt.mu_squared_units for one in found.answers for receipt in one.receipts)
    assert answer.receipt.mu_squared_units / whole == pytest.approx(parts["generator"], rel=1e-4)


def test_answers_are_written_and_read_back_byte_for_byte(bundles: dict[str, Path]) -> None:
    for bundle in bundles.values():
        written = members_of(bundle)["measurements.npz"]
        assert measurements_to_bytes(measurements_from_bytes(written)) == written


@pytest.mark.parametrize("situation", SITUATIONS)
def test_half_a_sensitivity_is_found(situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    given = f"{2 * math.sqrt(5 * PAID[situation]):.6g}"[:5]
    require_half_a_sensitivity_is_found(bundles[situation], tmp_path / "f.zip", key, queries="turns", given=given)


Change = Callable[[NoisySteps], NoisySteps]


def receipt_with(**changes: Any) -> Change:
    return lambda one: dataclasses.replace(one, receipt=costing(dataclasses.replace(one.receipt, **changes)))


def asked_with(**changes: Any) -> Change:
    return lambda one: dataclasses.replace(one, question=dataclasses.replace(one.question, **changes))


FORGERIES: dict[str, tuple[Change, str]] = {
    "a sensitivity without the 2": (receipt_with(sensitivity=math.sqrt(20)), "its question and schema.json give"),
    "one part charged where a unit is replaced": (receipt_with(sensitivity=2 * math.sqrt(10)), "give"),
    "more parts than there were": (asked_with(parts=601), "cannot be asked about the declared table"),
    "fewer parts than there were": (asked_with(parts=2), "its question and schema.json give"),
    "another mechanism": (receipt_with(mechanism="gaussian_rows"), "a receipt that is not for"),
    "another grid": (receipt_with(grid=2.0**-23), "a grid that no sum uses"),
    "no whole variance": (receipt_with(noise_scale=3.5 * 2.0**-24), "not a whole number of grid steps"),
    "columns of another table": (
        lambda one: asked_with(tables=(Lookup("age", np.eye(one.question.width)),))(one),
        "cannot be asked about the declared table",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_answer_is_found(forgery: str, bundles: dict[str, Path]) -> None:
    change, reason = FORGERIES[forgery]
    schema = settings_of("replace one").schema
    first = turns_of(answers_of(bundles["replace one"]))
    problems = ENTRIES[NoisySteps].problems
    assert not list(problems(first, schema))
    assert any(reason in problem for problem in problems(change(first), schema))


@pytest.mark.parametrize("changes", [{"clip": 0.5}, {"parts": 5}, {"learned": 3}, {"seed": 6}], ids=str)
def test_turns_of_another_question_are_not_refitted(
    changes: dict[str, Any], bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    def passed_off(found: Measurements) -> Measurements:
        return with_answer(found, turns_of(found), asked_with(**changes)(turns_of(found)))

    path = forged(bundles["add or remove"], tmp_path / "forged.zip", key, answers=passed_off)
    with pytest.raises(PrivacyError, match="with other settings"):
        replay(path, tmp_path / "again", refit=True)
    assert checked(path, key.public_key_pem).json["failures"]


def test_other_turns_than_were_answered_are_found_by_a_refit(
    bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """The network follows from the turns, so another number gives another network."""

    def changed(found: Measurements) -> Measurements:
        answer = turns_of(found)
        whole = answer.whole.copy()
        whole[2] = -whole[2]
        return with_answer(found, answer, dataclasses.replace(answer, whole=whole))

    path = forged(bundles["add or remove"], tmp_path / "forged.zip", key, answers=changed)
    assert checked(path, key.public_key_pem, refit=True).json["failures"]


def test_a_bundle_holds_no_critic(bundles: dict[str, Path]) -> None:
    for bundle in bundles.values():
        answer = turns_of(answers_of(bundle))
        assert isinstance(answer.question, CriticTurns)
        assert answer.question.training is None
        said, _ = answer.question.to_json("question", {})
        assert set(said) == {"columns", "parts", "steps", "rows", "clip", "learned", "batch", "rate", "seed"}
