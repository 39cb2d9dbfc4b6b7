"""The three private models of EM: from the bytes of a file to a sealed bundle, and what is told of a fit."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_noise import RecordedNoise

from synth.bundle.checks import check
from synth.bundle.replay import replay
from synth.errors import ConfigError, InputError
from synth.estimators import MODELS, describe, make, restore
from synth.estimators.expectation_maximization import CARDS
from synth.estimators.expectation_maximization import fits as em_fits
from synth.estimators.expectation_maximization.fits import _NoisyEM
from synth.generators import GeneratorTask
from synth.generators.options import option_fields
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.answers import of_kind
from synth.privacy.more.em_steps import EMStepQuestion
from synth.privacy.more.gradients import NoisyGradient
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import (
    CategoryColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    TableFormat,
)
from synth.services.pipeline import FittedRun, Sealing, fit_and_sample, seal_release
from synth.services.planning import check_config
from synth.vault.keys import Keys

NAMES = tuple(card.name for card in CARDS)
GROUPS, REGRESSIONS, INPUTS = NAMES
ROWS, BETA, NOISE = 3000, np.array([0.8, -0.6]), 1 / 3
ACCOUNT_KEY = b"the key of an account in a test!"
KEY = Keys(bytes(32), bytes(32), bytes(range(32)))

WORLDS = {
    "replace one": ("public", 1, False),
    "add or remove": ("private", 1, False),
    "replace one of three rows": ("public", 3, True),
    "add or remove three rows": ("private", 3, True),
}


def schema_of(world: str = "replace one") -> Schema:
    row_count, several, ids = WORLDS[world]
    columns = (
        *((IdentifierColumn("person"),) if ids else ()),
        NumberColumn("height", 100, 200, 0.5, missing=True),
        CategoryColumn("region", ("north", "south"), fallback="north"),
        NumberColumn("weight", 0, 120, 0.25, missing=True),
        NumberColumn("income", -50, 50, 0.25, fallback=0),
    )
    unit = PrivacyUnit(rows_per_unit=several, id_column="person" if ids else None)
    units = ROWS // several if row_count == "public" else None
    return Schema(columns, unit=unit, row_count=row_count, number_of_units=units)  # type: ignore[arg-type]


@functools.cache
def file_of(name: str) -> bytes:
    """A file of rows drawn from a model, some inputs missing where it has a place for that."""
    random = np.random.default_rng(4)
    signs = random.choice([-1.0, 1.0], ROWS)
    if name == GROUPS:
        x, y = signs[:, None] * BETA + NOISE * random.standard_normal((ROWS, 2)), random.standard_normal(ROWS)
    else:
        x = random.standard_normal((ROWS, 2))
        y = (signs if name == REGRESSIONS else 1.0) * (x @ BETA) + NOISE * random.standard_normal(ROWS)
    cells = np.stack([150 + 12 * x[:, 0], 60 + 15 * x[:, 1], 12 * y], axis=1).round(2).astype(str)
    if name == INPUTS:
        cells[:, :2][random.random((ROWS, 2)) < 0.1] = ""
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(["person", "height", "region", "weight", "income"])
    writer.writerows([f"p{place // 3}", row[0], "south", row[1], row[2]] for place, row in enumerate(cells.tolist()))
    return target.getvalue().encode()


def table_of(name: str, schema: Schema, data: bytes | None = None) -> PrivateTable:
    held = io.BytesIO(data or file_of(name))
    if schema.unit.id_column is None:  # a column that is not declared would be refused
        lines = [line.split(b",", 1)[1] for line in held.getvalue().splitlines()]
        held = io.BytesIO(b"\n".join(lines))
    return PrivateTable.open(lambda: held, "table", schema, TableFormat(), account_key=ACCOUNT_KEY)[0]


@functools.cache
def usual_table(name: str) -> PrivateTable:
    return table_of(name, schema_of())


def label_of(name: str) -> str | None:
    return None if name == GROUPS else "income"


OPTIONS: dict[str, dict[str, Any]] = {
    GROUPS: {"noise_std": 0.4},
    REGRESSIONS: {"steps": 15, "noise_std": 0.4},
    INPUTS: {"steps": 15, "noise_std": 0.4, "step_size": 1.0},
}


def fitted(name: str, *, epsilon: float = 4.0, key: int | None = 1, **options: Any) -> _NoisyEM:
    schema = schema_of()
    session = PrivateSession(
        usual_table(name), PrivacyBudget(epsilon, 1e-5, schema.neighbours), noise=RecordedNoise(key)
    )
    task = GeneratorTask(schema, label_of(name), seed=3)
    made = make(name, task, OPTIONS[name] | options).fit(session, NullProgress())
    assert isinstance(made, _NoisyEM)
    assert session.remaining_share < 1e-6
    return made


def found_slopes(made: _NoisyEM) -> np.ndarray:
    """Coefficients in units of one standard deviation of what they are of, as the rows were drawn."""
    told = made.document()
    if made.card.name == GROUPS:
        groups = [np.array([one["value"] for one in group]) for group in told["groups"]]
        return (groups[0] - groups[1]) / 2 / [12, 15]  # type: ignore[no-any-return]
    return np.array([one["value"] for one in told["slopes"]]) * [12, 15] / 12


# The label is a number too: where it is no label, it is a third coordinate, of which the groups differ by nothing.


@pytest.mark.parametrize("options", [{}, {"algorithm": 2}, {"algorithm": 2, "truncation": "soft"}], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_it_finds_what_rows_were_drawn_from(name: str, options: dict[str, Any]) -> None:
    made = fitted(name, epsilon=20.0, **options)
    if name == GROUPS:
        centres = np.array([[one["value"] for one in group] for group in made.document()["groups"]])
        found = (centres[0] - centres[1])[:2] / 2 / [12, 15]
    else:
        found = found_slopes(made)
    assert min(np.abs(found - BETA).max(), np.abs(found + BETA).max()) < 0.15


def test_algorithm_three_finds_it_as_well() -> None:
    made = fitted(GROUPS, epsilon=20.0, algorithm=3, truncation="soft")
    centres = np.array([[one["value"] for one in group] for group in made.document()["groups"]])
    found = (centres[0] - centres[1])[:2] / 2 / [12, 15]
    assert min(np.abs(found - BETA).max(), np.abs(found + BETA).max()) < 0.2


def config_of(name: str, world: str, **options: Any) -> RunConfig:
    return RunConfig(
        schema=schema_of(world),
        account="tests",
        generator=name,
        label=label_of(name),
        options=OPTIONS[name] | {"steps": 4} | options,
        epsilon=2.0,
        delta=1e-6,
        rows=0,
        people_at_most=ROWS,
        holdout=0.0,
    )


def measured_on(config: RunConfig) -> FittedRun:
    return fit_and_sample(config, table_of(config.generator, config.schema), NullProgress())


@pytest.mark.parametrize(
    ("name", "options", "world"),
    [
        (GROUPS, {"algorithm": 3, "truncation": "soft"}, "replace one"),
        (GROUPS, {"algorithm": 3, "truncation": "soft"}, "add or remove three rows"),
        (REGRESSIONS, {}, "add or remove"),
        (REGRESSIONS, {}, "replace one of three rows"),
        (INPUTS, {"algorithm": 2}, "add or remove"),
        (INPUTS, {"algorithm": 2}, "replace one"),
    ],
)
def test_a_run_is_sealed_verified_and_fitted_again(
    name: str, options: dict[str, Any], world: str, tmp_path: Path
) -> None:
    config, folder = config_of(name, world, **options), tmp_path / "run"
    check_config(config)
    folder.mkdir()
    measured = measured_on(config)
    assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
    seal_release(config, measured, folder, sealing=Sealing(signer=KEY), progress=NullProgress())
    found = check(folder / "bundle.zip", expected_key=KEY.public_key_pem)
    assert not found.failures
    again = replay(folder / "bundle.zip", tmp_path / "again", refit=True)
    assert again.identical, again.lines
    assert (tmp_path / "again" / "model.json").read_bytes() == (folder / "model.json").read_bytes()
    with zipfile.ZipFile(folder / "bundle.zip") as archive:
        told = json.loads(archive.read("model.json"))
        report = json.loads(archive.read("report.json"))
    assert {one["column"] for one in told["fitted"]["coefficients"]} >= {"height", "weight"}
    assert len(told["assumed"]) == 3
    assert {"model.noise", "model.coefficients", "picture.path"} <= {entry["id"] for entry in report["evidence"]}
    steps = [one for one in of_kind(measured.answers, NoisyGradient) if isinstance(one.question, EMStepQuestion)]
    assert len(steps) == 4
    bound = 1.0 if name == REGRESSIONS else np.sqrt(len(steps[0].question.parameters))
    factor = 2.0 if WORLDS[world][0] == "public" else 1.0
    assert steps[0].receipt.sensitivity == pytest.approx(factor * bound)


def test_what_is_forecast_is_what_is_spent() -> None:
    config = config_of(REGRESSIONS, "add or remove")
    parts = {part.name: part.share for part in forecast(config).parts}
    assert parts.keys() == {"row count", "centre and spread of columns", "step, 4 times"}
    receipts = measured_on(config).receipts
    whole = sum(receipt.mu_squared_units for receipt in receipts)
    spent = sum(one.mu_squared_units for one in receipts if one.query.startswith("step"))
    assert spent / whole == pytest.approx(parts["step, 4 times"], rel=1e-4)


def test_what_a_step_moves_is_told_before_a_fit_by_both_accountings() -> None:
    found = forecast(config_of(REGRESSIONS, "replace one"))
    assert found.of_model is not None
    (fact,) = found.of_model.facts
    (_, ours), (_, printed) = fact.rows
    measured = measured_on(config_of(REGRESSIONS, "replace one"))
    # Two coordinates; a step of length 1 along the mean gradient.
    noise = measured.state["noise_std"][-1] * np.sqrt(2)
    assert fact.value == pytest.approx(noise, rel=0.05)
    assert 1.1 < float(printed) / float(ours) < 1.7


def test_one_line_of_the_file_moves_a_step_by_its_bound_and_no_more() -> None:
    """A line as far out as cells go, in front of the others: under the same noise the first step moves by its own part.

    Centre and spread are declared here, so that both first questions are the same.
    """
    schema = schema_of("add or remove")
    far = b"somebody,1e300,north,-1e300,inf\n"
    head, rest = file_of(REGRESSIONS).split(b"\n", 1)
    for name, algorithm in ((REGRESSIONS, 1), (GROUPS, 3), (GROUPS, 2), (INPUTS, 2)):
        answers = []
        for data in (file_of(REGRESSIONS), head + b"\n" + far + rest):
            session = PrivateSession(
                table_of(name, schema, data), PrivacyBudget(2.0, 1e-5, schema.neighbours), noise=RecordedNoise(1)
            )
            session.count_rows(share=0.1)
            task = GeneratorTask(schema, label_of(name), seed=3)
            options = {"algorithm": algorithm, "truncation": "soft", "scaling": "declared", "tau": 1e-6, "steps": 1}
            # The count is told alike, as a count's noise is no matter here.
            session._record.counted = dataclasses.replace(session._record.counted, value=np.array([3000.0]))  # type: ignore[type-var,arg-type]
            make(name, task, options).fit(session, NullProgress())
            answers.append(of_kind(session.answers, NoisyGradient)[0])
        before, after = answers
        assert before.question.digest() == after.question.digest()
        moved = np.linalg.norm(after.value - before.value)
        assert 0.05 * before.receipt.sensitivity < moved <= before.receipt.sensitivity


# What is told


@pytest.mark.parametrize("name", NAMES)
def test_what_is_told_follows_from_the_state_alone(name: str) -> None:
    made = fitted(name)
    task, options = GeneratorTask(schema_of(), label_of(name), seed=3), OPTIONS[name]
    again = restore(name, task, options, made.state())
    assert isinstance(again, _NoisyEM)
    assert json.dumps(again.document()) == json.dumps(made.document())
    assert again.facts() == made.facts()
    assert [one.name for one in again.pictures()] == [one.name for one in made.pictures()]
    assert not again.facts()[0].sentence.count("nan")


def test_the_paper_needs_more_noise_for_the_same_budget() -> None:
    fact = fitted(GROUPS, epsilon=1.0).facts()[0]
    (_, ours), (_, printed) = fact.rows
    assert 1.2 < float(printed) / float(ours) < 1.7


def test_a_line_foretells_the_label_and_a_missing_input_counts_as_its_centre() -> None:
    made = fitted(INPUTS, epsilon=50.0)
    schema = schema_of()
    codes = np.zeros((3, 4), dtype=np.int64)
    height, weight = schema.modelled_column("height"), schema.modelled_column("weight")
    codes[:, 0], codes[:, 2] = [100, 124, height.size - 1], [240, 240, weight.size - 1]
    foretold = made.predict(codes)
    assert foretold[2] == pytest.approx(foretold[0], abs=1.5)  # 150 and 60 are the centres that were drawn
    assert foretold[1] - foretold[0] == pytest.approx(12 * BETA[0], abs=2.0)
    assert (np.abs(made.predict(np.zeros((1, 4), dtype=np.int64))) <= 50).all()
    # What a hold-out can be asked is by how much these err; the last code of a column is that of a missing cell.
    codes = np.random.default_rng(1).integers(0, schema.sizes, (400, 4))
    errors = (made.predict(codes) - schema.modelled_column("income").grid()[codes[:, 3]]) / 100
    found = made.predictor(1).evaluate(dict(zip(schema.names, codes.T, strict=True)))
    np.testing.assert_allclose(found, np.stack([errors**2, 1 - errors**2], axis=1), atol=1e-3)


@pytest.mark.parametrize("name", [GROUPS, REGRESSIONS])
def test_the_others_foretell_nothing(name: str) -> None:
    with pytest.raises(ConfigError, match="predicts nothing"):
        fitted(name).predict(np.zeros((1, 4), dtype=np.int64))


def test_assumptions_are_said_before_a_fit() -> None:
    task = GeneratorTask(schema_of(), "income")
    said = make(INPUTS, task, {"algorithm": 2, "scaling": "declared"}).assumptions
    assert [sentence.split(",")[0] for sentence in said] == [
        "The model's noise",
        "The second moments of the gradient",
        "The spread of columns",
        "The start",
    ]


# Refusals


@pytest.mark.parametrize(
    ("name", "label", "options", "reason"),
    [
        (INPUTS, "region", {}, "label that is a number"),
        (REGRESSIONS, "income", {"algorithm": 3}, "has no algorithm 3"),
        (INPUTS, "income", {"algorithm": 3}, "has no algorithm 3"),
        (GROUPS, None, {"steps": 0}, "'steps' must lie between 1 and 100"),
        (REGRESSIONS, None, {}, "needs a label"),
    ],
)
def test_what_cannot_be_fitted_is_refused(name: str, label: str | None, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make(name, GeneratorTask(schema_of(), label), options)


def test_a_table_without_numbers_is_refused() -> None:
    schema = Schema((CategoryColumn("region", ("north", "south")),), number_of_units=10)
    with pytest.raises(ConfigError, match="1 to 32 columns of numbers"):
        make(GROUPS, GeneratorTask(schema), {})


def test_nothing_is_told_before_a_fit() -> None:
    with pytest.raises(InputError, match="not been fitted"):
        make(GROUPS, GeneratorTask(schema_of()), {}).state()


def test_every_card_is_found() -> None:
    assert [describe(name).title for name in NAMES] == [card.title for card in CARDS]


@pytest.mark.parametrize("name", MODELS)
def test_every_option_of_a_model_has_its_help_also_where_another_class_declares_it(name: str) -> None:
    fields = option_fields(describe(name).options)
    assert fields
    assert all(field.help for field in fields)


def test_an_option_that_is_declared_anew_has_its_own_default() -> None:
    defaults = {field.name: field.default for field in option_fields(describe(INPUTS).options)}
    assert (defaults["step_size"], defaults["start"], defaults["steps"]) == (0.5, 0.0, 10)


# Intervals


@pytest.mark.thorough
def test_intervals_cover_what_the_same_steps_lead_to_without_noise() -> None:
    """Twenty fits of one table, at noise that is known to the test: 95 % of three intervals each, within chance."""
    scaling = {"scaling": "declared", "spread": 0.24}
    target = [one["coefficient"] for one in fitted(GROUPS, key=None, **scaling).document()["coefficients"]]
    covered = []
    for key in range(20):
        for one, exact in zip(fitted(GROUPS, key=key, **scaling).document()["coefficients"], target, strict=True):
            covered.append(one["low"] <= exact <= one["high"])
    assert 0.8 <= np.mean(covered) <= 1.0


def test_intervals_that_forget_earlier_steps_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fitted(REGRESSIONS)
    monkeypatch.setattr(em_fits.np, "eye", lambda d: np.zeros((d, d)))
    assert (fitted(REGRESSIONS)._result.errors < right._result.errors).all()


# Columns that fill a corner of what is declared


def worst_error(monkeypatch: pytest.MonkeyPatch, above_noise: float) -> float:
    """The largest of six fits' squared errors, as a part of the label's variance; with known noise."""
    monkeypatch.setattr(em_fits, "ABOVE_NOISE", above_noise)
    random = np.random.default_rng(21)
    x = random.exponential(60, (3000, 2))
    codes = np.clip(np.rint(np.column_stack([x, x @ [0.5, 0.3] + 6 * random.normal(size=3000)])), 0, 1000).astype(int)
    schema = Schema(tuple(NumberColumn(name, 0, 1000, 1) for name in "aby"), row_count="public")
    table = PrivateTable.from_codes(schema, dict(zip("aby", codes.T, strict=True)))
    errors = []
    for key in range(6):
        session = PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(key))
        made = make(INPUTS, GeneratorTask(schema, "y"), {}).fit(session, NullProgress())
        errors.append(np.mean((made.predict(codes[:500]) - codes[:500, 2]) ** 2) / codes[:, 2].var())
    return float(max(errors))


def test_noise_in_a_spread_makes_no_step_overshoot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a floor under spreads noise makes some of them far too small, and fits end anywhere."""
    assert worst_error(monkeypatch, em_fits.ABOVE_NOISE) < 0.9
    assert worst_error(monkeypatch, 0.0) > 1.0
