"""Predictions on the hold-out in a bundle: paid, certified, near the exact numbers, the same from the bundle alone."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, altered, checked, members_of, require_verified_and_replayed
from choosing import each_once
from forging import forged, only, with_answer

from synth.bundle.archive import canonical_json
from synth.bundle.certificate import certificate_from_dict
from synth.bundle.measurements import Measurements, measurements_from_bytes
from synth.bundle.model_file import model_from_bytes, restored_model
from synth.bundle.replay import replay
from synth.bundle.writer import SealedBundle
from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import OneHot, Stack
from synth.privacy.more.linear_guesses import CONFIDENCE_STEPS, LinearGuess
from synth.privacy.more.products import Product
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.evidence import ChargedEvidence, evidence_from_dict
from synth.reports.forecast import forecast
from synth.reports.holdout import PREDICTION_QUERY, HoldoutTables, holdout_tables
from synth.reports.measured import measured_tables
from synth.reports.prediction.charged import table_measures
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig, Schema, YesNoColumn
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

COLUMNS = (
    IdentifierColumn("person"),
    NumberColumn("age", 0, 99, 1),
    CategoryColumn("town", ("Ayr", "Bath", "Crewe")),
    YesNoColumn("ill", missing=True),
)
KEY = bytes(32)
CLASSIFIER = "private-classifier"
WORLDS: dict[str, dict[str, Any]] = {
    "replace one": {"row_count": "public", "unit": PrivacyUnit()},
    "add or remove several rows": {
        "row_count": "private",
        "unit": PrivacyUnit(rows_per_unit=2, id_column="person"),
    },
}


def config_of(world: str = "replace one", **changes: Any) -> RunConfig:
    settings: dict[str, Any] = {
        **{"account": "town", "epsilon": 8.0, "delta": 1e-6, "people_at_most": 10_000, "rows": 3000, "seed": 4},
        **{"generator": "independent-by-class", "label": "ill", "holdout": 0.3, "prediction_share": 0.2},
    }
    return RunConfig(schema=Schema(COLUMNS, **WORLDS[world]), **settings | changes)


def parts_of(config: RunConfig, n_rows: int = 6000) -> tuple[PrivateTable, PrivateTable]:
    rng = np.random.default_rng(0)
    age, town = rng.integers(0, 100, n_rows), rng.integers(0, 3, n_rows)
    ill = np.where(rng.random(n_rows) < 0.1, 2, (age / 50 + town / 2 + rng.normal(0, 0.4, n_rows) > 1.5).astype(int))
    ids = None if config.schema.unit.id_column is None else [f"person {row // 2}" for row in range(n_rows)]
    train, held = (
        PrivateTable.from_codes(
            config.schema,
            {"age": age, "town": town, "ill": ill},
            unit_ids=ids,
            account_key=KEY,
            holdout=config.holdout,
            part=part,
        )
        for part in ("train", "holdout")
    )
    return train, held


def made(config: RunConfig, folder: Path, key: Key) -> tuple[SealedBundle, PrivateTable]:
    train, held = parts_of(config)
    measured = fit_and_sample(config, train, NullProgress(), holdout=held)
    folder.mkdir()
    return seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress()), held


def charged(bundle: Path) -> dict[str, ChargedEvidence]:
    entries = [evidence_from_dict(one) for one in json.loads(members_of(bundle)["report.json"])["evidence"]]
    assert not [one for one in entries if one.id.startswith("predictions.") != isinstance(one, ChargedEvidence)]
    return {one.id.removeprefix("predictions."): one for one in entries if isinstance(one, ChargedEvidence)}


@pytest.mark.parametrize(("world", "predictor"), each_once(WORLDS, ["trees", "released model"]))
def test_what_is_charged_is_near_what_is_true(world: str, predictor: str, tmp_path: Path, key: Key) -> None:
    options = {"features": "linear", "steps": 10}
    model = {"generator": CLASSIFIER, "rows": 0, "options": options} if predictor == "released model" else {}
    config = config_of(world, groups=("town",), **model)
    sealed, held = made(config, tmp_path / "run", key)
    found = charged(sealed.path)
    releases = measurements_from_bytes(members_of(sealed.path)["measurements.npz"]).sums
    tables = holdout_tables(releases)
    assert tables is not None
    # The exact numbers, counted here from the held-out rows and the public predictor.
    codes = {name: held._column(name).astype(int) for name in config.schema.names}
    cells = tables.predictor.cells(codes.__getitem__, held._rows).astype(int)
    known = codes["ill"] < 2
    exact = np.zeros(tables.counts.shape)
    np.add.at(exact, (*np.unravel_index(cells[known], tables.predictor.shape), codes["ill"][known]), 1)
    off = (tables.counts - exact).reshape(-1) / tables.noise_std
    assert np.abs(off).max() < 5
    assert 0.4 < off.std() < 1.8
    truth = table_measures(exact, 1e-9, seed=0)
    for name, measure in truth.measures.items():
        entry = found[name]
        # Three times the half width of 95 %: one run in many millions lies outside by chance.
        assert abs(entry.value - measure.value) <= 3 * entry.error, name
        assert entry.error < 0.1
    assert truth.measures["accuracy"].value > 0.8, "there is something to predict"
    assert found["accuracy"].value > found["majority_accuracy"].value + 0.1
    assert abs(found["rows"].value - known.sum()) <= 3 * found["rows"].error
    assert abs(tables.left_out - (~known).sum()) <= 5 * tables.noise_std * 4
    (groups,) = found["groups.town"].figures
    assert [row[0] for row in groups.rows] == ["Ayr", "Bath", "Crewe"]
    if model:
        assert_of_the_model(sealed, tables, held, key, tmp_path)


def assert_of_the_model(
    sealed: SealedBundle, tables: HoldoutTables, held: PrivateTable, key: Key, folder: Path
) -> None:
    """What was counted is what the released model guesses; whoever has the bundle finds the same, and no other."""
    card, state = model_from_bytes(members_of(sealed.path)["model.safetensors"])
    model = restored_model(card, state)
    codes = np.column_stack([held._column(name).astype(int) for name in card.schema.names])
    chances = model.predict(codes)[:, :2]  # the third is that of a missing cell
    by_name = dict(zip(card.schema.names, codes.T, strict=True))
    guessed, confidence = tables.predictor.guesses(by_name.__getitem__, len(codes))
    odds = np.abs(np.log(chances[:, 1] / chances[:, 0]))
    np.testing.assert_allclose(confidence / CONFIDENCE_STEPS, odds, atol=2e-3)
    np.testing.assert_array_equal(guessed[odds > 2e-3], chances.argmax(axis=1)[odds > 2e-3])
    assert charged(sealed.path)["accuracy"].title == "Accuracy, released model"
    require_verified_and_replayed(sealed.path, key, folder)

    def of_another(found: Measurements) -> Measurements:
        asked = next(one for one in found.sums if one.query == PREDICTION_QUERY)
        assert isinstance(asked.feature_map, Stack)
        parts = [
            Product((dataclasses.replace(first, parameters=first.parameters * 2), *rest))
            for first, *rest in (part.factors for part in asked.feature_map.parts if isinstance(part, Product))
            if isinstance(first, LinearGuess)
        ]
        return with_answer(
            found, asked, dataclasses.replace(asked, feature_map=Stack(tuple(parts), asked.feature_map.weights))
        )

    path = forged(sealed.path, folder / "forged.zip", key, answers=of_another)
    only(path, "not those of the model in this bundle")


def test_it_is_paid_for_certified_and_verified(tmp_path: Path, key: Key) -> None:
    config = config_of(epsilon=1.0)
    sealed, _ = made(config, tmp_path / "run", key)
    verdict = checked(sealed.path, public_key=key.public_key_pem)
    assert verdict.ok, verdict.lines
    certificate = certificate_from_dict(json.loads(members_of(sealed.path)["certificate.json"]))
    asked = {receipt.query: receipt for receipt in certificate.receipts}
    receipt = asked[PREDICTION_QUERY]
    assert receipt.part == "holdout"
    assert {one.part for one in certificate.receipts if one is not receipt} == {"train"}
    # The hold-out's cost is a part of the whole, which stays within the budget.
    units = sum(one.mu_squared_units for one in certificate.receipts)
    assert receipt.mu_squared_units / units == pytest.approx(0.2, rel=1e-3)
    assert 0.99 < certificate.epsilon <= 1.0
    entries = charged(sealed.path)
    assert {entry.receipts for entry in entries.values()} == {(receipt.sequence,)}
    assert {entry.epsilon for entry in entries.values()} == {entries["rows"].epsilon}
    assert 0.3 < entries["rows"].epsilon < 0.5
    # What was planned is what was done.
    planned = forecast(config).prediction
    assert planned is not None
    assert planned.noise_std == pytest.approx(receipt.noise_scale, rel=1e-9)


def test_the_report_is_the_same_from_the_bundle_alone(tmp_path: Path, key: Key) -> None:
    sealed, _ = made(config_of(groups=("town",)), tmp_path / "run", key)
    again = replay(sealed.path, tmp_path / "again")
    assert again.identical
    assert again.report_identical
    assert (tmp_path / "again" / "report.json").read_bytes() == members_of(sealed.path)["report.json"]
    assert "the certified one" in again.lines[-1]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("receipts", [99], "without its receipt"), ("epsilon", 1e-3, "not that of its receipts")],
    ids=["receipt", "epsilon"],
)
def test_a_charged_number_that_states_another_cost_is_noticed(
    tmp_path: Path, key: Key, name: str, value: object, words: str
) -> None:
    sealed, _ = made(config_of(), tmp_path / "run", key)

    def better(data: bytes) -> bytes:
        report = json.loads(data)
        entry = next(one for one in report["evidence"] if one["id"] == "predictions.accuracy")
        entry[name] = value
        return canonical_json(report)

    forged = altered(sealed.path, tmp_path / "forged.zip", files={"report.json": better}, sign_with=key)
    verdict = checked(forged)
    assert not verdict.ok
    assert words in " ".join(verdict.lines)
    assert not replay(forged, tmp_path / "again").report_identical


def test_without_a_share_nothing_is_asked_of_the_hold_out(tmp_path: Path, key: Key) -> None:
    sealed, _ = made(config_of(prediction_share=0.0), tmp_path / "run", key)
    assert charged(sealed.path) == {}
    assert b"prediction_share" not in members_of(sealed.path)["config.yaml"]
    assert all(receipt.part == "train" for receipt in sealed.certificate.receipts)


def test_counts_of_the_hold_out_are_never_taken_for_those_of_the_training_part() -> None:
    config = config_of()
    train, held = parts_of(config, 500)
    measured = fit_and_sample(config, train, NullProgress(), holdout=held)
    assert PREDICTION_QUERY in {release.receipt.query for release in measured.answers}
    session = PrivateSession(train, PrivacyBudget(8.0, 1e-6, config.schema.neighbours))
    town = OneHot(("town",), (None,), (3,))
    of_holdout = session.holdout_session(held, share=0.1).noisy_sum(town, share=1.0, query="towns", source="test")
    queries = {table.query for table in measured_tables([*measured.answers, of_holdout])}
    assert queries
    assert not queries & {PREDICTION_QUERY, "towns"}


def test_a_hold_out_that_was_not_opened_is_refused_before_anything_is_asked() -> None:
    config = config_of()
    train, _ = parts_of(config, 50)
    with pytest.raises(PrivacyError, match="was not opened"):
        fit_and_sample(config, train, NullProgress())


def test_a_run_made_again_to_be_attacked_has_the_same_noise_and_predicts_nothing() -> None:
    config = config_of()
    train, held = parts_of(config, 500)
    whole = fit_and_sample(config, train, NullProgress(), holdout=held)
    again = fit_and_sample(config, train, NullProgress(), predict=False)
    kept = [receipt for receipt in whole.receipts if receipt.query != PREDICTION_QUERY]
    assert [one.noise_scale for one in again.receipts] == [one.noise_scale for one in kept]
    assert len(kept) == len(whole.receipts) - 1


def test_a_fault_of_the_predictor_costs_no_paid_run(tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise ValueError("a cell of the table")

    monkeypatch.setattr("synth.reports.holdout.synthetic_forest", fail)
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    sealed, _ = made(config_of(), tmp_path / "run", key)
    found = charged(sealed.path)
    assert "the most frequent class" in found["accuracy"].sentence
    assert found["accuracy"].value == pytest.approx(found["majority_accuracy"].value, abs=3 * found["accuracy"].error)
    assert checked(sealed.path).ok


def test_a_tiny_hold_out_says_that_noise_hides_it(tmp_path: Path, key: Key) -> None:
    config = config_of(epsilon=0.1)
    train, held = parts_of(config, 100)
    measured = fit_and_sample(config, train, NullProgress(), holdout=held)
    (tmp_path / "run").mkdir()
    sealed = seal_release(config, measured, tmp_path / "run", sealing=Sealing(signer=key), progress=NullProgress())
    found = charged(sealed.path)
    assert found["roc_auc"].value is None
    assert "Hidden by privacy noise" in found["roc_auc"].sentence
    assert found["rows"].value is not None
    expected = forecast(replace(config, people_at_most=100)).prediction
    assert expected is not None
    assert expected.hidden


def test_one_class_alone_is_not_called_too_small_for_noise(tmp_path: Path, key: Key) -> None:
    # At epsilon 500 noise hides nothing: there is one class, so that nothing can be ordered or averaged.
    config = config_of(epsilon=500.0)
    everybody = {name: np.zeros(3000, np.int64) for name in config.schema.names} | {"age": np.arange(3000) % 100}
    train, held = (
        PrivateTable.from_codes(config.schema, everybody, account_key=KEY, holdout=config.holdout, part=part)
        for part in ("train", "holdout")
    )
    measured = fit_and_sample(config, train, NullProgress(), holdout=held)
    (tmp_path / "run").mkdir()
    sealed = seal_release(config, measured, tmp_path / "run", sealing=Sealing(signer=key), progress=NullProgress())
    found = charged(sealed.path)
    for name in ("roc_auc", "macro_f1", "majority_macro_f1"):
        assert found[name].value is None
        assert found[name].sentence.startswith("Not defined: fewer than two classes of the label stand out")
    assert found["accuracy"].value == pytest.approx(1.0, abs=0.01)
