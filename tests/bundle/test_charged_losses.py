"""Losses of held-out rows where the label is a number: paid, certified, near the exact ones, by group, replayed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundle_making import Key, altered, checked, members_of
from test_charged_predictions import WORLDS, charged, config_of, made, parts_of

from synth.bundle.archive import canonical_json
from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.replay import replay
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.reports.holdout import PREDICTION_QUERY, holdout_losses
from synth.schema import NumberColumn, RunConfig, Schema
from synth.services.pipeline import Sealing, fit_and_sample, seal_release
from synth.services.planning import prediction_lines


def of_a_number(world: str = "replace one", **changes: object) -> RunConfig:
    """The age is predicted, which is missing for some and refused (-1) by others."""
    config = config_of(world, **{"label": "age", "generator": "dp-hp-adaptive", "groups": ("town",)} | changes)
    age = NumberColumn("age", 0, 99, 1, special=(-1,), missing=True)
    columns = tuple(age if column.name == "age" else column for column in config.schema.columns)
    return replace(config, schema=Schema(columns, **WORLDS[world]))


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_charged_is_near_what_is_true(world: str, tmp_path: Path, key: Key) -> None:
    config = of_a_number(world)
    sealed, held = made(config, tmp_path / "run", key)
    found = charged(sealed.path)
    assert set(found) == {"mse", "rows", "groups.town"}
    tables = holdout_losses(measurements_from_bytes(members_of(sealed.path)["measurements.npz"]).sums)
    assert tables is not None
    # The exact losses, from the held-out rows and the public predictor.
    codes = {name: held._column(name).astype(int) for name in config.schema.names}
    losses = tables.predictor.evaluate(codes)[:, 0]
    known = codes["age"] < 100
    truth, rows = float(losses[known].mean()), int(known.sum())
    assert 0 < truth < np.var(codes["age"][known] / 99), "there is nothing to predict"
    assert abs(found["mse"].value - truth) <= 3 * found["mse"].error
    assert found["mse"].error < 0.02
    assert abs(found["rows"].value - rows) <= 3 * found["rows"].error
    assert f"{math.sqrt(found['mse'].value) * 99:.3g} units of age" in found["mse"].sentence
    (by_town,) = found["groups.town"].figures
    assert [row[0] for row in by_town.rows] == ["Ayr", "Bath", "Crewe"]
    for place, (_, _, loss, error, root) in enumerate(by_town.rows):
        own = losses[known & (codes["town"] == place)]
        assert abs(loss - own.mean()) <= 3 * error
        assert root == pytest.approx(math.sqrt(loss) * 99)
    (asked,) = [one for one in sealed.certificate.receipts if one.query == PREDICTION_QUERY]
    assert asked.part == "holdout"
    assert asked.sensitivity == pytest.approx(math.sqrt(2) if world == "replace one" else 2.0, rel=1e-6)


def test_it_is_verified_planned_and_the_same_from_the_bundle_alone(tmp_path: Path, key: Key) -> None:
    config = of_a_number(epsilon=1.0)
    sealed, _ = made(config, tmp_path / "run", key)
    verdict = checked(sealed.path, public_key=key.public_key_pem)
    assert verdict.ok, verdict.lines
    again = replay(sealed.path, tmp_path / "again")
    assert again.identical
    assert again.report_identical
    (asked,) = [one for one in sealed.certificate.receipts if one.query == PREDICTION_QUERY]
    planned = forecast(config)
    assert planned.prediction is not None
    assert planned.prediction.groups == (("town", 3, pytest.approx(asked.noise_scale, rel=1e-9)),)
    first, by_town = prediction_lines(planned)
    assert "standard error of the mean squared error (declared range as 1) at most 0.0" in first
    assert by_town.startswith("  by town: in a group of ")


def test_a_charged_loss_that_was_made_smaller_is_noticed_by_whoever_replays(tmp_path: Path, key: Key) -> None:
    sealed, _ = made(of_a_number(), tmp_path / "run", key)

    def better(data: bytes) -> bytes:
        report = json.loads(data)
        next(one for one in report["evidence"] if one["id"] == "predictions.mse")["value"] /= 2
        return canonical_json(report)

    forged = altered(sealed.path, tmp_path / "forged.zip", files={"report.json": better}, sign_with=key)
    assert not replay(forged, tmp_path / "again").report_identical


def test_a_fault_of_the_predictor_costs_no_paid_run(tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise ValueError("a cell of the table")

    monkeypatch.setattr("synth.reports.holdout.synthetic_losses", fail)
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    sealed, held = made(of_a_number(groups=()), tmp_path / "run", key)
    found = charged(sealed.path)
    assert "their mean is always predicted" in found["mse"].sentence
    ages = held._column("age")[held._column("age") < 100] / 99
    assert found["mse"].value == pytest.approx(float(ages.var()), abs=3 * found["mse"].error + 2e-3)
    assert checked(sealed.path).ok


def test_a_tiny_hold_out_says_that_noise_hides_it(tmp_path: Path, key: Key) -> None:
    config = of_a_number(epsilon=0.1)
    train, held = parts_of(config, 100)
    measured = fit_and_sample(config, train, NullProgress(), holdout=held)
    (tmp_path / "run").mkdir()
    sealed = seal_release(config, measured, tmp_path / "run", sealing=Sealing(signer=key), progress=NullProgress())
    found = charged(sealed.path)
    assert found["mse"].value is None
    assert "Hidden by privacy noise" in found["mse"].sentence
    assert found["groups.town"].value is None
    assert [row[2] for row in found["groups.town"].figures[0].rows] == [None] * 3
    expected = forecast(replace(config, people_at_most=100)).prediction
    assert expected is not None
    assert expected.hidden
