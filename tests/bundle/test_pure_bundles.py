"""A release with a delta of 0: its bundle, what its check recomputes, forgeries, refusals and its place in a ledger."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, config_of, members_of, require_verified_and_replayed, simulated_codes
from forging import answers_of, costing, failures, forged, only

from synth.errors import ConfigError, PrivacyError, VerificationError
from synth.generators import GENERATORS, PURE
from synth.ledger.spending import Cost
from synth.privacy.accounting import PrivacyBudget, epsilon_of, epsilon_of_receipts
from synth.privacy.receipt import Receipt, misstated
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import budget_parts, forecast, smallest_epsilon
from synth.reports.risk_bounds import ProvenCeiling, advantage_ceiling
from synth.schema import CategoryColumn, Neighbours, NumberColumn, PrivacyUnit, RunConfig
from synth.services.pipeline import Sealing, fit_and_sample, seal_release
from synth.services.planning import check_config, forecast_lines

COLUMNS = (
    NumberColumn("age", 0, 99, 1, fallback=0),
    CategoryColumn("region", ("north", "south", "east", "west"), fallback="north"),
    CategoryColumn("outcome", ("well", "ill"), fallback="well"),
)
SITUATIONS = {"replace one": (1, "public"), "add or remove three rows": (3, "private")}


def settings_of(situation: str, **changes: object) -> RunConfig:
    rows_per_unit, row_count = SITUATIONS[situation]
    settings = {
        "number_of_units": 4000 if row_count == "public" else None,
        "holdout": 0.0,
        "unit": PrivacyUnit(rows_per_unit=rows_per_unit),
        "row_count": row_count,
        "generator": "privbayes",
        "options": {"bins": 8, "parents": 2},
        "label": "outcome",
        "domain_source": {},
        "delta": 0.0,
    }
    return config_of(COLUMNS, **settings | changes)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    found = {}
    for situation in SITUATIONS:
        config, folder = settings_of(situation), tmp_path_factory.mktemp("run")
        table = PrivateTable.from_codes(config.schema, simulated_codes(config.schema, 4000))
        measured = fit_and_sample(config, table, NullProgress())
        seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
        found[situation] = folder / "bundle.zip"
    return found


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_sealed_verified_and_replayed(
    situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    require_verified_and_replayed(bundles[situation], key, tmp_path)
    certificate = json.loads(members_of(bundles[situation])["certificate.json"])
    assert certificate["delta"] == 0.0
    assert 0.999 < certificate["epsilon"] <= 1.0
    kinds = {receipt["mechanism"] for receipt in certificate["receipts"]}
    assert kinds == {"laplace_sum", "exponential"}
    readme = members_of(bundles[situation])["README.txt"].decode()
    assert "at delta = 0," in readme
    assert "except with a chance" not in readme


@pytest.mark.parametrize("situation", SITUATIONS)
def test_sums_move_in_l1_by_what_the_schema_says(situation: str, bundles: dict[str, Path]) -> None:
    """Every table of a stack by its weight, two of its counts where a row is replaced, times the rows of a unit."""
    rows_per_unit, row_count = SITUATIONS[situation]
    counts = rows_per_unit * (2 if row_count == "public" else 1)
    asked = {one.query: one for one in answers_of(bundles[situation]).sums}
    for query in ("one-way tables", "tables of the network"):
        weights = math.fsum(asked[query].feature_map.weights)
        assert asked[query].receipt.sensitivity == pytest.approx(counts * weights, rel=1e-6)
    if row_count == "private":
        assert asked["number of rows"].receipt.sensitivity == pytest.approx(3.0)


def a_tenth(receipt: Receipt) -> Receipt:
    if receipt.mechanism != "laplace_sum":
        return receipt
    return costing(dataclasses.replace(receipt, sensitivity=receipt.sensitivity / 10))


def cheaper(receipt: Receipt) -> Receipt:
    return dataclasses.replace(receipt, pure_units=receipt.pure_units // 2)


def free_choices(receipt: Receipt) -> Receipt:
    if receipt.mechanism != "exponential":
        return receipt
    return dataclasses.replace(receipt, pure_units=1)


def off_the_grid(receipt: Receipt) -> Receipt:
    if receipt.mechanism != "laplace_sum":
        return receipt
    return costing(dataclasses.replace(receipt, noise_scale=receipt.noise_scale + receipt.grid / 2))


def as_gaussian(receipt: Receipt) -> Receipt:
    if receipt.mechanism != "laplace_sum":
        return receipt
    scale = math.nextafter(math.sqrt(round((receipt.noise_scale / receipt.grid) ** 2)) * receipt.grid, 0.0)
    slack = 6 * receipt.dimension * (receipt.grid / receipt.noise_scale) ** 2 * 1.01
    said = dataclasses.replace(
        receipt, mechanism="discrete_gaussian", noise_scale=scale, pure_units=0, mu_squared_units=1, slack=slack
    )
    return costing(said)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (a_tenth, "its question and schema.json give"),
        (off_the_grid, "whose scale is not a whole number of grid steps"),
    ],
)
def test_a_receipt_that_states_less_is_found(
    change: Callable[[Receipt], Receipt], words: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    path = forged(bundles["add or remove three rows"], tmp_path / "forged.zip", key, receipts=change)
    assert any(words in failure for failure in failures(path)), failures(path)


def test_a_tenth_of_every_sum_with_a_budget_to_match_is_found(
    bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    path = forged(bundles["replace one"], tmp_path / "f.zip", key, receipts=a_tenth, budget=True)
    only(path, "its question and schema.json give")


@pytest.mark.parametrize("change", [cheaper, free_choices])
def test_no_epsilon_is_worked_out_from_a_receipt_that_costs_more_than_it_states(
    change: Callable[[Receipt], Receipt], bundles: dict[str, Path]
) -> None:
    receipts = [one for answer in answers_of(bundles["replace one"]).answers for one in answer.receipts]
    with pytest.raises(PrivacyError, match="states a pure epsilon of"):
        epsilon_of_receipts([change(one) for one in receipts], 0.0)
    assert any("does not follow from its noise" in said for one in receipts for said in misstated(change(one)))
    dearer = [dataclasses.replace(one, pure_units=2 * one.pure_units) for one in receipts]
    assert all(any("does not follow" in said for said in misstated(one)) for one in dearer)


def as_pure(receipt: Receipt) -> Receipt:
    if receipt.mechanism != "exponential":
        return receipt
    return costing(dataclasses.replace(receipt, mu_squared_units=0, pure_units=1))


def test_a_choice_of_a_run_with_a_delta_is_not_paid_for_in_pure_epsilon(tmp_path: Path, key: Key) -> None:
    config = settings_of("replace one", delta=1e-6)
    table = PrivateTable.from_codes(config.schema, simulated_codes(config.schema, 4000))
    measured = fit_and_sample(config, table, NullProgress())
    seal_release(config, measured, tmp_path, sealing=Sealing(signer=key), progress=NullProgress())
    assert not failures(tmp_path / "bundle.zip")
    path = forged(tmp_path / "bundle.zip", tmp_path / "forged.zip", key, receipts=as_pure)
    assert any("is not paid for in mu^2 alone, as the budget" in failure for failure in failures(path)), failures(path)


@pytest.mark.parametrize("delta", [-0.0, math.nan, True, "0", None, 1e-6])
def test_a_certificate_with_another_delta_than_0_is_refused(
    delta: object, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["delta"] = delta

    if delta == 1e-6:
        path = forged(bundles["replace one"], tmp_path / "f.zip", key, certificate=change)
        assert any("the certificate states 1e-06" in failure for failure in failures(path))
        return
    with pytest.raises(VerificationError, match=r"delta of at least 0, below 1|wrong type"):
        forged(bundles["replace one"], tmp_path / "f.zip", key, certificate=change)


def test_no_epsilon_holds_at_a_delta_of_0_beside_an_additive_delta(bundles: dict[str, Path]) -> None:
    receipts = [one for answer in answers_of(bundles["replace one"]).answers for one in answer.receipts]
    risky = [dataclasses.replace(receipts[0], additive_delta=1e-9), *receipts[1:]]
    assert epsilon_of_receipts(risky, 0.0) == math.inf
    assert epsilon_of_receipts(risky, 1e-6) < math.inf


def test_pure_epsilons_add_and_gaussian_noise_has_no_epsilon_at_a_delta_of_0(bundles: dict[str, Path]) -> None:
    receipts = [one for answer in answers_of(bundles["replace one"]).answers for one in answer.receipts]
    whole = sum(receipt.pure_units for receipt in receipts) * 2.0**-40
    assert epsilon_of_receipts(receipts, 0.0) == pytest.approx(whole, rel=1e-12)
    assert epsilon_of_receipts(receipts, 1e-6) == epsilon_of_receipts(receipts, 0.0)
    gaussian = dataclasses.replace(
        as_gaussian(next(one for one in receipts if one.mechanism == "laplace_sum")), sequence=99, query="beside"
    )
    assert epsilon_of_receipts([*receipts, gaussian], 0.0) == math.inf
    both = epsilon_of_receipts([*receipts, gaussian], 1e-6)
    assert both == pytest.approx(whole + epsilon_of_receipts([gaussian], 1e-6), rel=1e-9)


def test_a_ledger_adds_pure_epsilons_as_they_are_and_to_others_by_basic_composition() -> None:
    pure = Cost.of_budget(0.5, 0.0, Neighbours.ADD_REMOVE)
    assert (pure + pure).epsilon(0.0) == pytest.approx(1.0)
    assert (pure + pure).epsilon(1e-6) == pytest.approx(1.0)
    assert (pure + pure).fits(epsilon=1.0, delta=1e-6)
    other = Cost.of_budget(1.0, 1e-6, Neighbours.ADD_REMOVE)
    assert (pure + other).epsilon(1e-6) == pytest.approx(1.5, rel=1e-6)
    assert not (pure + other).fits(epsilon=1.49, delta=1e-6)
    assert (pure + other).epsilon(0.0) == math.inf
    assert not (pure + other).fits(epsilon=100.0, delta=0.0)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-13, 1e-7, 1001.0, 1e7, 1e300])
def test_an_epsilon_that_cannot_be_spent_as_pure_is_refused_before_anything_is_planned(epsilon: float) -> None:
    with pytest.raises(PrivacyError, match=r"too (small|large).*Choose epsilon of at (least 0.001|most 1000)\."):
        forecast(settings_of("add or remove three rows", epsilon=epsilon))


@pytest.mark.parametrize("epsilon", [1e-3, 1000.0])
def test_all_of_the_smallest_and_of_the_largest_pure_epsilon_can_be_spent(epsilon: float) -> None:
    config = settings_of("add or remove three rows", epsilon=epsilon, generator="independent", options={})
    table = PrivateTable.from_codes(config.schema, simulated_codes(config.schema, 4000))
    receipts = fit_and_sample(config, table, NullProgress()).receipts
    assert 0.999 * epsilon < epsilon_of_receipts(receipts, 0.0) <= epsilon


def test_a_share_of_a_pure_budget_is_a_share_of_epsilon() -> None:
    budget = PrivacyBudget(2.0, 0.0, Neighbours.REPLACE)
    assert budget.is_pure
    assert budget.units == 2 * 2**40
    assert budget.epsilon_of_share(0.25) == 0.5
    with pytest.raises(PrivacyError, match="strictly between 0 and 1"):
        epsilon_of(0.1, 0.0)


def test_attacks_are_bounded_by_epsilon_alone(bundles: dict[str, Path]) -> None:
    receipts = tuple(one for answer in answers_of(bundles["replace one"]).answers for one in answer.receipts)
    promise = forecast(settings_of("replace one")).promise
    assert promise.advantage == promise.noise_advantage >= advantage_ceiling(1.0, 0.0)
    assert 0.5 < ProvenCeiling(1.0, 0.0, receipts).area < 1
    said = " ".join(forecast_lines(settings_of("replace one")))
    assert "except with a chance" not in said
    assert "in 100 true cases by any method. " in said, "a second, equal ceiling is said"


def test_noise_is_inversely_proportional_to_epsilon() -> None:
    wide, narrow = (forecast(settings_of("replace one", epsilon=epsilon)) for epsilon in (0.5, 2.0))
    assert np.allclose(
        [one.noise_std for one in wide.columns], [4 * one.noise_std for one in narrow.columns], rtol=1e-4
    )
    config = settings_of("replace one")
    error = max(cell.range95 for cell in forecast(config).columns)
    assert smallest_epsilon(config, error) == pytest.approx(1.0, rel=1e-3)


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GENERATORS)
def test_only_those_that_ask_for_counts_and_choices_run(name: str) -> None:
    config = settings_of("replace one", generator=name, options={})
    if name in PURE:
        assert budget_parts(config)
        return
    for refuse in (budget_parts, check_config):
        with pytest.raises(ConfigError, match=r"delta of 0. Choose independent, .* or privbayes \(4 Generate\), or a"):
            refuse(config)


def test_what_has_a_delta_of_its_own_is_refused() -> None:
    with pytest.raises(ConfigError, match="predictions of held-out rows cannot be paid for with a delta of 0"):
        settings_of("replace one", prediction_share=0.1, holdout=0.2)
    with pytest.raises(ConfigError, match="delta must be at least 0 and below 1"):
        settings_of("replace one", delta=-1e-9)
