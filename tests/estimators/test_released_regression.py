"""Private regression as a released model: from the bytes of a file to the bundle, and what its document says."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_noise import RecordedNoise

import synth
from synth.errors import ConfigError, SynthError
from synth.estimators import make, restore
from synth.estimators.random_features import fitting
from synth.generators import GeneratorTask
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.more.linear_guesses import CONFIDENCE_STEPS
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, DateColumn, NumberColumn, PrivacyUnit, Schema, YesNoColumn
from synth.schema.config import config_of_text

SCHEMA = Schema(
    (
        NumberColumn("age", 18, 67, 1, missing=True, special=(99.0,)),
        CategoryColumn("region", ("north", "south", "east")),
        YesNoColumn("smokes"),
        NumberColumn("cost", 0, 500, 0.5, missing=True),
    )
)


def codes_of(n: int = 2000, *, seed: int = 0, schema: Schema = SCHEMA) -> np.ndarray:
    """Costs that grow with age and smoking, and are lower in the south; few cells are missing."""
    random = np.random.default_rng(seed)
    columns = np.stack([random.integers(0, size, n) for size in schema.sizes], axis=1)
    cost = 200 + 3 * np.minimum(columns[:, 0], 49) + 100 * columns[:, 2] - 60 * (columns[:, 1] == 1)
    columns[:, 3] = np.clip(cost + 10 * random.normal(size=n), 0, 1000)
    columns[:20, 3] = schema.sizes[3] - 1
    return columns


def fitted(name: str, label: str, *, key: int | None = None, epsilon: float = 1.0, **options: object) -> Any:
    columns = codes_of()
    table = PrivateTable.from_codes(SCHEMA, dict(zip(SCHEMA.names, columns.T, strict=True)))
    session = PrivateSession(table, PrivacyBudget(epsilon, 1e-5, SCHEMA.neighbours), noise=RecordedNoise(key))
    return make(name, GeneratorTask(SCHEMA, label, seed=3), options).fit(session, NullProgress())


WAYS: dict[str, tuple[str, str, dict[str, object]]] = {
    "descent": ("private-regression", "cost", {"features": "linear"}),
    "measured": ("private-regression", "cost", {"features": "linear", "intervals": "measured", "steps": 8}),
    "ridge": ("private-regression", "cost", {"mechanism": "ridge"}),
    "huber of waves": ("private-regression", "cost", {"features": "fourier", "loss": "huber", "steps": 12}),
    "ridge of waves": ("private-regression", "cost", {"mechanism": "ridge", "features": "fourier"}),
    "two classes": ("private-classifier", "smokes", {"features": "linear"}),
    "three classes": ("private-classifier", "region", {"features": "linear", "steps": 12}),
    "classes by waves": ("private-classifier", "region", {"features": "fourier", "steps": 8}),
}


# What the document says


def read_as_told(told: dict[str, Any], row: dict[str, str]) -> np.ndarray:
    """Score a row of texts by the document alone: nothing of the program is used."""
    if "terms" in told:
        total = 0.0
        for term in told["terms"]:
            value, coefficient = row.get(term["term"]), np.array(term["coefficient"])
            if term["term"] == "constant":
                total = total + coefficient
            elif "value" in term:
                total = total + coefficient * (value == term["value"])
            elif value not in ("(missing)", "99"):
                total = total + coefficient * (float(value) - float(term["times"].removeprefix("number - ")))
        return np.atleast_1d(total)
    places = []
    for column in told["columns"]:
        value = row[column["column"]]
        if value in column["positions"]:
            places.append(column["positions"][value])
        else:
            place = {"age": lambda v: round(v - 18), "cost": lambda v: round(v / 0.5)}[column["column"]](float(value))
            levels = {"age": 50, "cost": 1001}[column["column"]]
            assert f"floor(128 * place / {levels})" in column["position"]
            places.append(128 * place // levels)
    angles = 2 * math.pi / 4096 * (np.array(told["frequencies"]) @ places)
    scale = float(told["features"].rsplit(" ", 1)[1])
    return np.array(told["coefficients"]) @ (scale * np.concatenate([np.cos(angles), np.sin(angles)]))


def foretold_as_told(told: dict[str, Any], row: dict[str, str]) -> np.ndarray:
    scores = read_as_told(told, row)
    if "classes" not in told:
        if "terms" not in told:
            centre, width = (float(one) for one in told["prediction"].split(" * (")[0].split(" + "))
            scores = centre + width * scores
        return np.clip(scores, *told["bounds"])[0]
    if len(told["classes"]) == 2:
        return np.array([1 - 1 / (1 + math.exp(-scores[0])), 1 / (1 + math.exp(-scores[0]))])
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.parametrize("way", WAYS)
def test_the_document_is_enough_to_predict(way: str) -> None:
    name, label, options = WAYS[way]
    model = fitted(name, label, key=1, **options)
    told = json.loads(json.dumps(model.document(), allow_nan=False))
    columns = codes_of(30, seed=2)
    columns[:3, 0] = [50, 51, 0]  # the special value, a missing cell, the lower bound
    texts = [column.texts(own, missing="(missing)") for column, own in zip(SCHEMA.modelled, columns.T, strict=True)]
    for place, found in enumerate(model.predict(columns)):
        row = {name: own[place] for name, own in zip(SCHEMA.names, texts, strict=True)}
        np.testing.assert_allclose(found, foretold_as_told(told, row), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_a_model_is_made_again_from_its_arrays(way: str) -> None:
    name, label, options = WAYS[way]
    model = fitted(name, label, key=1, **options)
    again = restore(name, GeneratorTask(SCHEMA, label, seed=3), options, model.state())
    assert again.document() == model.document()
    assert again.predict(codes_of(50)).tolist() == model.predict(codes_of(50)).tolist()
    assert (again.facts(), again.pictures()) == (model.facts(), model.pictures())


@pytest.mark.parametrize("way", [way for way, (name, *_) in WAYS.items() if name == "private-regression"])
def test_its_losses_are_those_of_what_it_predicts(way: str) -> None:
    name, label, options = WAYS[way]
    model = fitted(name, label, key=1, **options)
    columns = codes_of(300, seed=2)[20:]  # whose costs are known
    columns[:3, 0] = [50, 51, 0]
    errors = (model.predict(columns) - 0.5 * columns[:, 3]) / 500
    found = model.predictor(1).evaluate(dict(zip(SCHEMA.names, columns.T, strict=True)))
    # Features are whole steps of 2^-16 of 81 numbers, losses of 2^-14.
    np.testing.assert_allclose(found, np.stack([errors**2, 1 - errors**2], axis=1), atol=2e-3)


@pytest.mark.parametrize("way", [way for way, (name, *_) in WAYS.items() if name == "private-classifier"])
def test_its_guesses_are_the_likeliest_values(way: str) -> None:
    name, label, options = WAYS[way]
    model = fitted(name, label, key=1, **options)
    columns = codes_of(400, seed=2)
    chances = np.sort(model.predict(columns), axis=1)
    guess = model.predictor(4)
    by_name = dict(zip(SCHEMA.names, columns.T, strict=True))
    found, confidence = guess.guesses(by_name.__getitem__, len(columns))
    odds = np.log(chances[:, -1] / chances[:, -2])
    # Of 81 features, whole steps of 2^-16.
    np.testing.assert_allclose(confidence / CONFIDENCE_STEPS, odds, atol=4e-3)
    clear = odds > 4e-3
    np.testing.assert_array_equal(found[clear], model.predict(columns).argmax(axis=1)[clear])
    assert guess.shape == (chances.shape[1], 4)
    assert len(np.unique(guess.cells(by_name.__getitem__, len(columns)))) > guess.shape[0], "bins tell nothing apart"


@pytest.mark.parametrize("way", ["descent", "three classes"])
def test_held_out_rows_can_be_asked_about_a_fit_that_is_all_noise(way: str) -> None:
    """A run is paid for by then."""
    name, label, options = WAYS[way]
    model = fitted(name, label, key=1, **options)
    model._fit = dataclasses.replace(model._fit, coefficients=model._fit.coefficients * 1e7)
    found = model.predictor(4)
    columns = codes_of(200, seed=2)
    evaluated = found.evaluate(dict(zip(SCHEMA.names, columns.T, strict=True)))
    np.testing.assert_array_equal(evaluated.sum(axis=1), 1.0)


def test_coefficients_are_those_of_the_columns_and_intervals_hold_them() -> None:
    terms = fitted("private-regression", "cost", key=4, epsilon=20.0, features="linear").document()["terms"]
    found = {(one["term"], one.get("value")): one for one in terms}
    assert found["age", None]["coefficient"] == pytest.approx(1.5, abs=0.3)  # half a unit for each of three places
    smoking = found["smokes", "yes"]["coefficient"] - found["smokes", "no"]["coefficient"]
    assert smoking == pytest.approx(50, abs=6)
    assert found["region", "south"]["coefficient"] == pytest.approx(-20, abs=5)
    assert all(one["from"] < one["coefficient"] < one["to"] for one in terms)
    assert {("age", "99"), ("age", "(missing)"), ("region", "east"), ("constant", None)} <= found.keys()


@pytest.mark.parametrize(("way", "holds"), [("descent", "at least"), ("measured", "about"), ("ridge", "about")])
def test_it_says_how_often_intervals_hold(way: str, holds: str) -> None:
    name, label, options = WAYS[way]
    model = fitted(name, label, key=1, **options)
    (of_terms,) = (fact for fact in model.facts() if fact.name == "coefficients")
    assert f"holds with {holds} 95 %" in of_terms.sentence
    assert model.document()["intervals"] == of_terms.sentence
    assert ("upper bound" in of_terms.sentence) is (holds == "at least")


def test_measured_intervals_need_one_row_for_each_person() -> None:
    visits = Schema(SCHEMA.columns, PrivacyUnit("patient", 6), number_of_units=1000)
    with pytest.raises(ConfigError, match=r"needs one row for each patient.* Choose intervals bound"):
        make("private-regression", GeneratorTask(visits, "cost"), {"intervals": "measured"})


def test_facts_and_pictures_follow_the_fit() -> None:
    model = fitted("private-regression", "cost", key=1, features="linear")
    noise, coefficients = model.facts()
    assert noise.value > 0
    assert "2,000 rows (public)" in noise.sentence
    assert len(coefficients.rows) == len(model.document()["terms"])
    (picture,) = model.pictures()
    assert [trace.name for trace in picture.traces] == ["age"]
    (of_chance,) = fitted("private-classifier", "smokes", key=1).pictures()
    assert all(0 <= chance <= 1 for trace in of_chance.traces for chance in trace.up)


# What is refused


@pytest.mark.parametrize(
    ("name", "label", "options", "reason"),
    [
        ("private-regression", "region", {}, "'region' is neither; choose model 'private-classifier'"),
        ("private-regression", "cost", {"mechanism": "ridge", "loss": "huber"}, "ridge only has squared loss"),
        ("private-classifier", "cost", {}, "at most 50 values, and 'cost' has 1,002"),
        ("private-classifier", "region", {"steps": 201}, "'steps' must lie between 0 and 200"),
        ("private-regression", None, {}, "needs a label"),
    ],
)
def test_what_cannot_be_predicted_is_refused(
    name: str, label: str | None, options: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        make(name, GeneratorTask(SCHEMA, label), options)


def test_a_date_is_predicted_by_its_place() -> None:
    schema = Schema(
        (NumberColumn("x", 0, 9, 1), DateColumn("day", datetime.date(2020, 1, 1), datetime.date(2020, 3, 1)))
    )
    codes = {"x": np.arange(600) % 10, "day": (np.arange(600) % 10) * 6}
    session = PrivateSession(
        PrivateTable.from_codes(schema, codes), PrivacyBudget(50.0, 1e-5, schema.neighbours), noise=RecordedNoise(1)
    )
    model = make("private-regression", GeneratorTask(schema, "day"), {}).fit(session, NullProgress())
    found = model.predict(np.array([[0, 0], [9, 0]]))
    assert abs(found - [0, 54]).max() < 6
    assert model.document()["bounds"] == [0.0, 60.0]


# From the bytes of a file to the bundle

TEXT = """
account: costs
budget: {epsilon: 2.0}
people_at_most: 3000
unit: {protects: person, rows_per_unit: 1}
model: {name: NAME, options: OPTIONS}
label: LABEL
columns:
  age: {type: number, low: 18, high: 67, step: 1, missing: true}
  smokes: {type: yes_no, fallback: "no"}
  cost: {type: number, low: 0, high: 500, step: 0.5, fallback: 0}
"""


def config_of(name: str, label: str, options: str, row_count: str, more: str = "") -> Any:
    text = TEXT.replace("NAME", name).replace("LABEL", label).replace("OPTIONS", options)
    public = "row_count: public\nnumber_of_units: 600" if row_count == "public" else "row_count: private"
    return config_of_text(f"{text}{public}\n{more}")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = codes_of(600, seed=7)
    path = tmp_path_factory.mktemp("file") / "costs.csv"
    lines = [
        f"{18 + age if age < 50 else ''},{'yes' if smokes else 'no'},{0.5 * min(cost, 1000)}"
        for age, _, smokes, cost in columns.tolist()
    ]
    path.write_text("\n".join(["age,smokes,cost", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize(
    ("name", "label", "options", "row_count"),
    [
        ("private-regression", "cost", "{steps: 5, intervals: measured}", "public"),
        pytest.param(
            "private-regression",
            "cost",
            "{steps: 4, loss: huber, intervals: measured}",
            "private",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "private-regression", "cost", "{mechanism: ridge, features: fourier}", "private", marks=pytest.mark.thorough
        ),
        ("private-classifier", "smokes", "{steps: 4, features: linear}", "public"),
    ],
)
def test_a_run_from_a_file_is_verified_and_replayed(
    table: Path, tmp_path: Path, name: str, label: str, options: str, row_count: str
) -> None:
    config = config_of(name, label, options, row_count)
    result = synth.run(config, tmp_path / "out", table=table)
    assert result.epsilon <= 2.0
    bundle = tmp_path / "out" / "bundle.zip"
    assert synth.verify(bundle).ok
    again = synth.replay(bundle, tmp_path / "again")
    assert again.as_certified, again.lines
    with zipfile.ZipFile(bundle) as archive:
        told = json.loads(archive.read("model.json"))["fitted"]
        certificate = json.loads(archive.read("certificate.json"))
    assert told["rows_are"] == ("public" if row_count == "public" else "released with noise")
    assert (told["rows"] == 600.0) is (row_count == "public")
    asked = [one["query"] for one in certificate["receipts"]]
    gradients = [one for one in asked if one.startswith("gradient")]
    assert gradients == [f"gradient {step}" for step in range(1, len(gradients) + 1)]
    assert ("number of rows" in asked) is (row_count == "private")
    assert ("second moments" in asked) is ("ridge" in options or "measured" in options)
    planned = forecast(config)
    assert sum(part.share for part in planned.parts) == pytest.approx(1.0)
    assert planned.of_model is not None
    (foretold,) = planned.of_model.facts
    assert "The only accounting is the exact curve" in foretold.sentence
    if row_count == "public":  # the number that is declared is the one that is used
        assert f"{foretold.value:.4g}" == f"{told['noise_of_a_prediction']['root_mean_square']:.4g}"
    sensitivities = {one["sensitivity"] for one in certificate["receipts"] if one["query"].startswith("gradient")}
    assert sensitivities <= {2.0 if row_count == "public" else 1.0}


@pytest.mark.thorough
@pytest.mark.parametrize("row_count", ["public", "private"])
def test_its_errors_about_held_out_rows_are_paid_for_and_checked(table: Path, tmp_path: Path, row_count: str) -> None:
    paid = "holdout: 0.3\nprediction_share: 0.2\ngroups: [smokes]\n"
    config = config_of("private-regression", "cost", "{steps: 4}", row_count, paid)
    result = synth.run(config, tmp_path / "out", table=table)
    assert result.epsilon <= 2.0
    bundle = tmp_path / "out" / "bundle.zip"
    assert synth.verify(bundle).ok
    assert synth.replay(bundle, tmp_path / "again").as_certified
    with zipfile.ZipFile(bundle) as archive:
        receipts = json.loads(archive.read("certificate.json"))["receipts"]
        told = {one["id"] for one in json.loads(archive.read("report.json"))["evidence"]}
    (held,) = (one for one in receipts if one.get("part") == "holdout")
    # Two numbers that add up to 1: with one column of groups they are told once for each group.
    assert held["sensitivity"] == pytest.approx(math.sqrt(2) if row_count == "public" else 1.0, rel=1e-3)
    assert {"predictions.mse", "predictions.groups.smokes"} <= told


@pytest.mark.thorough
def test_a_replay_that_takes_other_steps_asks_at_other_parameters_and_is_refused(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synth.run(config_of("private-regression", "cost", "{steps: 3}", "public"), tmp_path / "out", table=table)
    descent = fitting.DESCENTS["squared"]
    monkeypatch.setitem(fitting.DESCENTS, "squared", dataclasses.replace(descent, rate=descent.rate * (1 + 1e-4)))
    with pytest.raises(SynthError, match="at other parameters"):
        synth.replay(tmp_path / "out" / "bundle.zip", tmp_path / "again")
