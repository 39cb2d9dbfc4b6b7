"""A network of privately chosen parents: bundle, verification, forgeries and replay, under both relations."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from bundle_making import Key, checked, config_of, require_verified_and_replayed, simulated_codes
from forging import answers_of, failures, forged, require_half_a_sensitivity_is_found, with_answer

from synth.bundle.measurements import Measurements
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import of_kind
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.dependence import Dependence
from synth.privacy.selection import Candidate, Selection
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, RunConfig
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

COLUMNS = (
    NumberColumn("age", 0, 99, 1, fallback=0),
    NumberColumn("income", 0, 999, 1, fallback=0, missing=True),
    CategoryColumn("region", ("north", "south", "east", "west"), fallback="north"),
    CategoryColumn("outcome", ("well", "ill"), fallback="well"),
)
SITUATIONS = {"replace one": (1, "public"), "add or remove": (1, "private"), "add or remove three rows": (3, "private")}


def settings_of(situation: str) -> RunConfig:
    rows_per_unit, row_count = SITUATIONS[situation]
    return config_of(
        COLUMNS,
        number_of_units=4000 if row_count == "public" else None,
        holdout=0.0,
        unit=PrivacyUnit(rows_per_unit=rows_per_unit),
        row_count=row_count,
        generator="privbayes",
        options={"bins": 8, "parents": 2},
        label="outcome",
        domain_source={},
    )


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    found = {}
    for situation in SITUATIONS:
        config, folder = settings_of(situation), tmp_path_factory.mktemp("run")
        table = PrivateTable.from_codes(config.schema, simulated_codes(config.schema, 4000))
        measured = fit_and_sample(config, table, NullProgress())
        assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
        seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
        found[situation] = folder / "bundle.zip"
    return found


def choices_of(found: Measurements) -> tuple[Selection, ...]:
    return of_kind(found.answers, Selection)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_sealed_verified_and_replayed(
    situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    require_verified_and_replayed(bundles[situation], key, tmp_path)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_choice_is_charged_and_foreseen(situation: str, bundles: dict[str, Path]) -> None:
    """2 rows for a row that comes or goes, 3 for one that is replaced, times the rows of a unit."""
    rows_per_unit, row_count = SITUATIONS[situation]
    found = answers_of(bundles[situation])
    chosen = choices_of(found)
    assert len(chosen) == len(COLUMNS) - 1
    assert {one.receipt.sensitivity for one in chosen} == {rows_per_unit * (3.0 if row_count == "public" else 2.0)}
    assert all(isinstance(one.candidate, Dependence) for one in chosen)
    parts = {part.name: part.share for part in forecast(settings_of(situation)).parts}
    whole = sum(receipt.mu_squared_units for answer in found.answers for receipt in answer.receipts)
    columns = next(answer.receipt for answer in found.sums if answer.query == "one-way tables")
    assert columns.mu_squared_units / whole == pytest.approx(parts["one-way tables"], rel=1e-4)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_half_a_sensitivity_is_found(situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    rows_per_unit, row_count = SITUATIONS[situation]
    given = str(rows_per_unit * (3 if row_count == "public" else 2))
    require_half_a_sensitivity_is_found(bundles[situation], tmp_path / "f.zip", key, queries="parents", given=given)


def test_a_choice_scored_in_another_way_is_found(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    """A distance to a table moves less, so its receipt may state less; no network is chosen by one."""

    def as_distance(found: Measurements) -> Measurements:
        first, *_ = choices_of(found)
        one_hot = first.candidate.one_hot
        receipt = dataclasses.replace(first.receipt, sensitivity=1.0)
        return with_answer(found, first, Selection(receipt, first.index, Candidate(one_hot, np.zeros(one_hot.shape))))

    path = forged(
        bundles["add or remove"],
        tmp_path / "f.zip",
        key,
        answers=as_distance,
        receipts=lambda one: dataclasses.replace(one, sensitivity=1.0) if one.query == "parents 1" else one,
    )
    found = "\n".join(checked(path, key.public_key_pem).json["failures"])
    assert "has another sensitivity than the generator's question" in found
    assert "chose a candidate that the generator does not offer" in found


def test_other_parents_than_were_offered_are_found(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    def other(found: Measurements) -> Measurements:
        first, *_ = choices_of(found)
        one = first.candidate.one_hot
        turned = OneHot(one.columns[::-1], one.bins[::-1], one.sizes[::-1])
        return with_answer(found, first, Selection(first.receipt, first.index, Dependence(turned)))

    path = forged(bundles["replace one"], tmp_path / "f.zip", key, answers=other)
    assert "does not offer here" in "\n".join(checked(path, key.public_key_pem).json["failures"])


def test_another_place_among_the_candidates_is_found(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    def moved(found: Measurements) -> Measurements:
        *_, last = choices_of(found)
        place = (last.index + 1) % last.receipt.dimension
        return with_answer(found, last, Selection(last.receipt, place, last.candidate))

    path = forged(bundles["replace one"], tmp_path / "f.zip", key, answers=moved)
    assert checked(path, key.public_key_pem).json["failures"]


def test_parents_of_another_table_are_found(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    def strange(found: Measurements) -> Measurements:
        first, *_ = choices_of(found)
        wrong = Dependence(OneHot(("outcome", "region"), (None, None), (3, 4)))
        return with_answer(found, first, Selection(first.receipt, 0, wrong))

    path = forged(bundles["add or remove"], tmp_path / "f.zip", key, answers=strange)
    assert any("cannot be made on the declared table" in one for one in failures(path))
