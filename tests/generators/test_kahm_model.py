"""The KAHM classifier as a private model: from the bytes of a file to a sealed bundle, and on to other parties."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import session

from synth.bundle.checks import check
from synth.bundle.replay import replay
from synth.cli.commands import main
from synth.errors import ConfigError, InputError
from synth.estimators import make, restore
from synth.generators import GeneratorTask
from synth.generators import make as make_generator
from synth.generators.kahm.model import CARD
from synth.generators.kahm.model.classifier import PrivateKahmClassifier
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig, Schema, TableFormat
from synth.services.pipeline import FittedRun, Sealing, fit_and_sample, seal_release
from synth.services.planning import check_config
from synth.vault.keys import Keys

ROWS = 900
KEY = Keys(bytes(32), bytes(32), bytes(range(32)))
ACCOUNT_KEY = b"the key of an account in a test!"
CLASSES = {"low": (20, 30), "high": (75, 60)}

SITUATIONS: dict[str, dict[str, Any]] = {
    "record, add or remove": {"row_count": "private"},
    "record, replace one of three rows": {"row_count": "public", "rows_per_unit": 3},
    "rows, replace one": {"row_count": "public", "options": {"mode": "rows"}, "epsilon": 200.0},
}


def schema_of(*, row_count: str, rows_per_unit: int = 1, **_: Any) -> Schema:
    ids = rows_per_unit > 1
    columns = (
        *((IdentifierColumn("person"),) if ids else ()),
        NumberColumn("first", 0, 100, 1, fallback=0),
        NumberColumn("second", 0, 100, 1, fallback=0),
        CategoryColumn("level", tuple(CLASSES), fallback="low"),
    )
    unit = PrivacyUnit(rows_per_unit=rows_per_unit, id_column="person" if ids else None)
    units = ROWS // rows_per_unit if row_count == "public" else None
    return Schema(columns, unit=unit, row_count=row_count, number_of_units=units)  # type: ignore[arg-type]


def cells_of(seed: int) -> list[list[str]]:
    random = np.random.default_rng(seed)
    labels = random.choice(list(CLASSES), ROWS)
    points = np.array([CLASSES[label] for label in labels]) + 7 * random.standard_normal((ROWS, 2))
    return [[str(round(x)), str(round(y)), label] for (x, y), label in zip(points, labels, strict=True)]


def table_of(schema: Schema) -> PrivateTable:
    names = [column.name for column in schema.columns]
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(names)
    for place, row in enumerate(cells_of(1)):
        writer.writerow([f"p{place // 3}", *row] if "person" in names else row)
    held = io.BytesIO(target.getvalue().encode())
    return PrivateTable.open(lambda: held, "table", schema, TableFormat(), account_key=ACCOUNT_KEY)[0]


def config_of(situation: str) -> RunConfig:
    said = SITUATIONS[situation]
    return RunConfig(
        schema=schema_of(**said),
        account="tests",
        generator=CARD.name,
        label="level",
        options={"rows": 300, "steps": 1, **said.get("options", {})},
        epsilon=said.get("epsilon", 4.0),
        delta=1e-6,
        rows=0,
        people_at_most=ROWS,
        holdout=0.0,
    )


@pytest.fixture(scope="module", params=SITUATIONS)
def sealed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, PrivateKahmClassifier]:
    config, folder = config_of(request.param), tmp_path_factory.mktemp("run")
    check_config(config)
    measured = fit_and_sample(config, table_of(config.schema), NullProgress())
    assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
    seal_release(config, measured, folder, sealing=Sealing(signer=KEY), progress=NullProgress())
    return folder, model_of(request.param, measured)


def model_of(situation: str, measured: FittedRun) -> PrivateKahmClassifier:
    config = config_of(situation)
    made = restore(CARD.name, GeneratorTask(config.schema, "level"), config.options, measured.state)
    assert isinstance(made, PrivateKahmClassifier)
    return made


def right_of(model: PrivateKahmClassifier, seed: int) -> float:
    """Part of other rows whose class it finds."""
    cells = cells_of(seed)
    codes = np.array([[int(row[0]), int(row[1]), 0] for row in cells]).clip(0, 100)
    found = model.predict(codes).argmax(axis=1)
    return float(np.mean([tuple(CLASSES)[one] == row[2] for one, row in zip(found, cells, strict=True)]))


def test_a_run_is_sealed_verified_and_fitted_again(sealed: tuple[Path, PrivateKahmClassifier], tmp_path: Path) -> None:
    folder, _ = sealed
    found = check(folder / "bundle.zip", expected_key=KEY.public_key_pem)
    assert not found.failures
    again = replay(folder / "bundle.zip", tmp_path / "again", refit=True)
    assert again.identical, again.lines
    assert (tmp_path / "again" / "model.json").read_bytes() == (folder / "model.json").read_bytes()
    with zipfile.ZipFile(folder / "bundle.zip") as archive:
        told = json.loads(archive.read("model.json"))["fitted"]
        assert "synthetic.csv" not in archive.namelist()
    assert sum(len(one["rows"]) for one in told["classes"]) == 300
    assert told["columns"] == ["first", "second"]


def test_machines_of_a_released_model_are_handed_on(
    sealed: tuple[Path, PrivateKahmClassifier], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The party's file is that of the model's own machines, and classifies other rows."""
    folder, model = sealed
    file, rows, out = tmp_path / "party.safetensors", tmp_path / "rows.csv", tmp_path / "classes.csv"
    assert main(["parties", str(folder / "bundle.zip"), "--out", str(file)]) == 0
    assert "2 classes from 300 released rows" in capsys.readouterr().out
    with rows.open("w", newline="") as stream:
        csv.writer(stream).writerows([["first", "second", "level"], *cells_of(2)])
    like = ["--like", str(folder / "bundle.zip"), "--out", str(out)]
    assert main(["parties", str(rows), "--models", str(file), *like]) == 0
    found = [row[0] for row in csv.reader(out.open(newline=""))][1:]
    right = np.mean([one == row[2] for one, row in zip(found, cells_of(2), strict=True)])
    assert right > 0.9
    assert right == pytest.approx(right_of(model, 2), abs=0.02)


def test_scores_are_of_every_code_of_the_label_and_follow_from_the_state(
    sealed: tuple[Path, PrivateKahmClassifier],
) -> None:
    _, model = sealed
    codes = np.array([[20, 30, 0], [75, 60, 0], [50, 45, 1]])
    scores = model.predict(codes)
    assert scores.shape == (3, 2)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert scores.argmax(axis=1).tolist()[:2] == [0, 1]
    again = restore(CARD.name, model._task, {"rows": 300, "mode": model._options.mode, "steps": 1}, model.state())
    assert isinstance(again, PrivateKahmClassifier)
    assert again.document() == model.document()
    np.testing.assert_array_equal(again.predict(codes), scores)
    assert again.facts() == model.facts()


def test_it_asks_what_the_generator_asks() -> None:
    schema = schema_of(row_count="public")
    asked = []
    for made in (
        make(CARD.name, GeneratorTask(schema, "level"), {"rows": 50}),
        make_generator("kahm", GeneratorTask(schema, "level"), {}),
    ):
        session = PrivateSession(table_of(schema), PrivacyBudget(2.0, 1e-5, schema.neighbours))
        made.fit(session, NullProgress())
        asked.append([(one.query, one.source) for one in session.receipts])
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("label", "options", "reason"),
    [
        ("level", {"mode": "paper"}, "not differentially private"),
        ("level", {"mode": "cell"}, "protection: cell"),
        ("level", {"rows": 10}, "'rows' must lie between 50 and 4000"),
        (None, {}, "needs a label"),
    ],
)
def test_what_cannot_be_fitted_is_refused(label: str | None, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make(CARD.name, GeneratorTask(schema_of(row_count="public"), label), options)


def test_a_label_of_very_many_classes_is_refused_and_a_damaged_state_too() -> None:
    schema = Schema((NumberColumn("x", 0, 9, 1), NumberColumn("y", 0, 999, 1)), number_of_units=10)
    with pytest.raises(ConfigError, match="at most 256 classes"):
        make(CARD.name, GeneratorTask(schema, "y"), {})
    task = GeneratorTask(schema_of(row_count="public"), "level")
    with pytest.raises(InputError, match="damaged"):
        restore(CARD.name, task, {}, {"codes": np.full((2, 3), 500)})
    with pytest.raises(InputError, match="not been fitted"):
        make(CARD.name, task, {}).state()


@pytest.mark.thorough
def test_a_forecast_knows_how_far_noise_moves_the_centres_of_rows_that_fill_their_ranges() -> None:
    """What was released of such rows is compared with their exact sums; noise has a known key."""
    config = config_of("record, replace one of three rows")
    schema = schema_of(row_count="public")
    assert forecast(replace(config, schema=schema)).of_model is not None
    (fact,) = forecast(replace(config, schema=schema)).of_model.facts  # type: ignore[union-attr]
    random = np.random.default_rng(0)
    codes = {column.name: random.integers(0, column.size, ROWS) for column in schema.modelled}
    squares = []
    for key in range(10):
        opened = session(schema, codes, epsilon=config.epsilon, noise_key=key)
        make(CARD.name, GeneratorTask(schema, "level", device="cpu"), {"steps": 0}).fit(opened, NullProgress())
        (answer,) = [one for one in opened.answers if one.receipts[0].query == "class sizes and sums"]
        question = answer.feature_map
        moments = question.factors[-1]
        noise = (answer.value - question.evaluate(codes).sum(axis=0).reshape(answer.value.shape)).reshape(2, -1)
        moved = (noise / moments.factors)[:, 1:] * moments.clip / (ROWS / 2)
        squares += (moved**2).sum(axis=1).tolist()
    assert float(fact.value) == pytest.approx(math.sqrt(np.mean(squares)), rel=0.25)  # 40 draws of noise


@pytest.mark.parametrize(("mode", "words"), [("rows", "is for one cell"), ("cell", "pure epsilon")])
def test_a_forecast_of_noisy_rows_says_whose_accounting_it_is(mode: str, words: str) -> None:
    config = config_of("rows, replace one")
    schema = replace(config.schema, protection="cell" if mode == "cell" else "record")
    told = forecast(replace(config, schema=schema, options={"mode": mode}))
    assert told.of_model is not None
    (fact,) = told.of_model.facts
    assert words in fact.sentence
    assert {noise.column for noise in told.row_noise} == {"first", "second"}, "it says that widths are listed"
