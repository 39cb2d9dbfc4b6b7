"""A mixture found by steps of EM: bundle, verification, forgeries and replay, under both relations."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from bundle_making import Key, config_of, require_verified_and_replayed, simulated_codes
from forging import answers_of, forged, require_half_a_sensitivity_is_found, with_answer

from synth.bundle.measurements import Measurements
from synth.bundle.replay import replay
from synth.errors import PrivacyError
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import FeatureMap
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import Responsibilities
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
STEPS = 5

SITUATIONS = {"replace one": (1, "public"), "add or remove": (1, "private"),
              "add or remove three rows": (3, "private"), "replace three rows": (3, "public")}  # fmt: skip


def settings_of(situation: str) -> RunConfig:
    rows_per_unit, row_count = SITUATIONS[situation]
    unit = PrivacyUnit(rows_per_unit=rows_per_unit, id_column="person" if rows_per_unit > 1 else None)
    columns = (*((IdentifierColumn("person"),) if rows_per_unit > 1 else ()), *COLUMNS)
    return config_of(
        columns,
        number_of_units={1: 3000, 3: 1000}[rows_per_unit] if row_count == "public" else None,
        holdout=0.0,
        unit=unit,
        row_count=row_count,
        generator="dp-mixture",
        options={"components": 2, "steps": STEPS},
        label="outcome",
        domain_source={},
    )


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    found = {}
    for situation in SITUATIONS:
        config, folder = settings_of(situation), tmp_path_factory.mktemp("run")
        codes = simulated_codes(config.schema, 3000)
        people = [f"person {place % 1000}" for place in range(3000)] if config.schema.unit.id_column else None
        table = PrivateTable.from_codes(config.schema, codes, unit_ids=people)
        measured = fit_and_sample(config, table, NullProgress())
        assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
        seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
        found[situation] = folder / "bundle.zip"
    return found


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_sealed_verified_and_replayed(
    situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    require_verified_and_replayed(bundles[situation], key, tmp_path)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_step_is_charged_and_foreseen(situation: str, bundles: dict[str, Path]) -> None:
    """m for a row that comes or goes, m sqrt 2 for one that is replaced, in units of the longest t."""
    rows_per_unit, row_count = SITUATIONS[situation]
    parts = {part.name: part.share for part in forecast(settings_of(situation)).parts}
    receipts = [receipt for one in answers_of(bundles[situation]).answers for receipt in one.receipts]
    whole = sum(receipt.mu_squared_units for receipt in receipts)
    steps = [receipt for receipt in receipts if receipt.query.startswith("step")]
    assert len(steps) == STEPS
    asked = sum(receipt.mu_squared_units for receipt in (*steps, *(one for one in receipts if one.query == "classes")))
    assert asked / whole == pytest.approx(parts["generator"], rel=1e-4)
    for receipt in steps:
        assert receipt.mu_squared_units == pytest.approx(steps[0].mu_squared_units, rel=1e-4)
        wanted = rows_per_unit * (np.sqrt(2) if row_count == "public" else 1.0)
        assert receipt.sensitivity == pytest.approx(wanted, rel=1e-5)


def steps_of(found: Measurements) -> list[NoisyAnswer]:
    return [one for one in found.sums if one.query.startswith("step")]


def at_another_mixture(question: FeatureMap) -> Product:
    """The same question at the weights of other components."""
    assert isinstance(question, Product)
    return Product(
        tuple(
            dataclasses.replace(one, weights=np.roll(one.weights, 1, axis=1) - 5)
            if isinstance(one, Responsibilities)
            else one
            for one in question.factors
        )
    )


@pytest.mark.parametrize("step", [0, STEPS - 1])
def test_a_step_at_another_mixture_is_not_refitted(
    step: int, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """What was asked is in the bundle: an answer passed off as one at another mixture fits no refit."""

    def passed_off(found: Measurements) -> Measurements:
        one = steps_of(found)[step]
        return with_answer(found, one, dataclasses.replace(one, feature_map=at_another_mixture(one.feature_map)))

    path = forged(bundles["replace one"], tmp_path / "forged.zip", key, answers=passed_off)
    with pytest.raises(PrivacyError, match="another feature map"):
        replay(path, tmp_path / "again", refit=True)


def test_answers_of_the_step_before_are_not_refitted(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    """Two steps' numbers exchanged: what follows from them is another mixture, which nobody asked at."""

    def exchanged(found: Measurements) -> Measurements:
        one, other = steps_of(found)[3:5]
        found = with_answer(found, one, dataclasses.replace(one, value=other.value))
        return with_answer(found, other, dataclasses.replace(other, value=one.value))

    path = forged(bundles["replace one"], tmp_path / "forged.zip", key, answers=exchanged)
    with pytest.raises(PrivacyError, match="another feature map"):
        replay(path, tmp_path / "again", refit=True)


def test_half_the_sensitivity_is_found_though_everything_agrees_and_is_signed(
    bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    require_half_a_sensitivity_is_found(
        bundles["replace one"], tmp_path / "forged.zip", key, queries="step", given="1.41"
    )
