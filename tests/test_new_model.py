"""A new model is one folder and one line in the registry; forecast, run, bundle, verification and replay follow."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_models import CARDS

from synth.bundle.checks import check
from synth.bundle.replay import replay
from synth.errors import ConfigError, InputError
from synth.estimators import MODELS, describe, model_cards
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, config_to_yaml
from synth.schema.config import config_of_text
from synth.services.pipeline import Sealing, fit_and_sample, seal_release
from synth.services.planning import check_config, forecast_lines
from synth.vault.keys import Keys

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 9, 1, fallback=0),
        CategoryColumn("region", ("north", "south"), fallback="north"),
        NumberColumn("income", 0, 99, 1, fallback=0),
    ),
    number_of_units=500,
)


def config_of(**changes: object) -> RunConfig:
    given = {"epsilon": 2.0, "delta": 1e-6, "rows": 0, "people_at_most": 1000, "holdout": 0.0, **changes}
    return RunConfig(schema=SCHEMA, account="toys", **({"generator": "toy-line", "label": "income"} | given))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "toy-line", CARDS[0])  # the line


def test_its_card_is_found_among_models() -> None:
    assert model_cards()[-1] is describe("toy-line") is CARDS[0]
    assert CARDS[0].kind == "model"


def test_its_budget_is_the_whole_of_it() -> None:
    (part,) = forecast(config_of()).parts
    assert (part.name, part.share) == ("gradient, 4 times", pytest.approx(1.0))


def test_what_noise_will_do_is_said_before_anything_is_asked() -> None:
    told = forecast(config_of()).of_model
    assert told is not None
    assert [fact.name for fact in told.facts] == ["noise"]
    assert any("Noise of a gradient" in line for line in forecast_lines(config_of()))
    assert "Assumed public: Steps of 2 were chosen without looking at the rows." in forecast_lines(config_of())


def test_a_run_is_sealed_verified_reported_and_replayed(tmp_path: Path) -> None:
    config = config_of(options={"steps": 3})
    random = np.random.default_rng(0)
    codes = {name: random.integers(0, size, 500) for name, size in zip(SCHEMA.names, SCHEMA.sizes, strict=True)}
    measured = fit_and_sample(config, PrivateTable.from_codes(SCHEMA, codes), NullProgress())
    key, folder = Keys(bytes(32), bytes(32), bytes(range(32))), tmp_path / "run"
    folder.mkdir()
    seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
    bundle = folder / "bundle.zip"
    found = check(bundle, expected_key=key.public_key_pem)
    assert not found.failures
    assert "model.json, made again from the sealed model" in found.checked
    with zipfile.ZipFile(bundle) as archive:
        report, told = json.loads(archive.read("report.json")), json.loads(archive.read("model.json"))
        assert not [name for name in archive.namelist() if name.startswith("synthetic")]
    ids = {entry["id"] for entry in report["evidence"]}
    assert {"model.intercept", "picture.slopes"} <= ids
    assert not ids & {"overview.rows_made", "overview.subsample"}
    assert told["fitted"]["slopes"].keys() == {"age", "region"}
    assert told["assumed"] == ["Steps of 2 were chosen without looking at the rows."]
    again = replay(bundle, tmp_path / "again")
    assert again.as_certified, again.lines
    assert (tmp_path / "again" / "model.json").read_bytes() == (folder / "model.json").read_bytes()
    with pytest.raises(InputError, match="no generator can be fitted to its answers"):
        replay(bundle, tmp_path / "other", generator="independent")


@pytest.mark.parametrize("row_count", ["public", "private"])
def test_its_errors_about_held_out_rows_can_be_paid_for(row_count: str, tmp_path: Path) -> None:
    schema = replace(SCHEMA, row_count=row_count, number_of_units=4000 if row_count == "public" else None)
    config = replace(
        config_of(
            holdout=0.3,
            prediction_share=0.3,
            groups=("region",),
            epsilon=8.0,
            options={"steps": 20},
            people_at_most=4000,
        ),
        schema=schema,
    )
    check_config(config)
    random = np.random.default_rng(0)
    age, region = random.integers(0, 10, 4000), random.integers(0, 2, 4000)
    # What the north earns follows from age, what the south earns hardly does.
    spread = np.where(region == 0, 4, 25)
    income = (8 * age + 15 + spread * random.normal(size=4000)).clip(0, 99).astype(np.int64)
    codes = {"age": age, "region": region, "income": income}
    train, held = (
        PrivateTable.from_codes(schema, codes, account_key=bytes(32), holdout=0.3, part=part)
        for part in ("train", "holdout")
    )
    measured = fit_and_sample(config, train, NullProgress(), holdout=held)
    key, folder = Keys(bytes(32), bytes(32), bytes(range(32))), tmp_path / "run"
    folder.mkdir()
    sealed = seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
    assert not check(sealed.path, expected_key=key.public_key_pem).failures
    assert replay(sealed.path, tmp_path / "again").as_certified
    report = {entry["id"]: entry for entry in json.loads((folder / "report.json").read_text())["evidence"]}
    # The released model on the held-out rows themselves, from the file that anybody gets.
    told = json.loads((folder / "model.json").read_text())["fitted"]
    rows = {name: held._column(name).astype(int) for name in schema.names}
    score = told["intercept"] + sum(
        told["slopes"][name] * (rows[name] / (schema.size_of(name) - 1) - 0.5) for name in ("age", "region")
    )
    losses = (np.clip(score + 0.5, 0, 1) - rows["income"] / 99) ** 2
    found = report["predictions.mse"]
    assert found["title"] == "Mean squared error, released model"
    assert abs(found["value"] - losses.mean()) <= 3 * found["error"]
    by_region = report["predictions.groups.region"]["figures"][0]["rows"]
    for place, (name, _, loss, error, _) in enumerate(by_region):
        assert name == ("north", "south")[place]
        assert abs(loss - losses[rows["region"] == place].mean()) <= 3 * error
    assert by_region[1][2] > 2 * by_region[0][2]
    (asked,) = [one for one in sealed.certificate.receipts if one.part == "holdout"]
    assert asked.sensitivity == pytest.approx(math.sqrt(2) if row_count == "public" else 1.0, rel=1e-6)
    assert ("predictions", 0.3) in [(part.name, part.share) for part in forecast(config).parts]


TEXT = """
account: toys
budget: {epsilon: 2.0}
people_at_most: 1000
unit: {protects: person, rows_per_unit: 1}
row_count: private
model: toy-line
label: income
columns:
  age: {type: number, low: 0, high: 9, step: 1, fallback: 0}
  income: {type: number, low: 0, high: 99, step: 1, fallback: 0}
"""


def test_a_configuration_names_it_and_is_written_back() -> None:
    config = config_of_text(TEXT)
    assert (config.generator, config.rows, config.holdout, config.is_model) == ("toy-line", 0, 0.0, True)
    assert config_of_text(config_to_yaml(config)) == config
    assert not {"generator", "rows", "rules", "evaluation_share"} & set(config_to_yaml(config).split(":"))
    with_options = config_of_text(TEXT.replace("model: toy-line", "model: {name: toy-line, options: {steps: 2}}"))
    assert with_options.options == {"steps": 2}
    assert config_of_text(config_to_yaml(with_options)) == with_options


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("rows: 10", "'model' and 'rows' are both given"),
        ("generator: {name: independent}", "'model' and 'generator' are both given"),
        ("rules: [age >= income]", "'model' and 'rules' are both given"),
        ("evaluation_share: 0.2", "'model' and 'evaluation_share' are both given"),
        ("prediction_share: 0.2", "nobody is held out"),
    ],
)
def test_what_is_said_of_rows_is_refused_beside_it(more: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        config_of_text(TEXT + more)


def test_errors_of_a_model_without_them_or_of_a_class_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="where 'region' is a number, but it is declared as a list of values"):
        check_config(config_of(holdout=0.3, prediction_share=0.3, label="region"))
    paid = config_of(holdout=0.3, prediction_share=0.3)
    assert config_of_text(config_to_yaml(paid)) == paid
    monkeypatch.setitem(MODELS, "toy-line", replace(MODELS["toy-line"], paid=""))
    with pytest.raises(ConfigError, match="predictions of model 'toy-line' cannot be paid for"):
        check_config(paid)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rows": 5}, "'toy-line' is a model: name it under 'model:'"),
        ({"generator": "independent"}, "'independent' is a generator: name it under 'generator:'"),
        ({"generator": "nothing"}, "no generator called 'nothing'.*Models are: .*toy-line"),
        ({"label": None}, "model 'toy-line' needs a label"),
        ({"options": {"rate": 11}}, "'rate' must lie between 0 and 10"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_anything_is_spent(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_config(config_of(**changes))
    with pytest.raises(ConfigError, match="a model releases none"):
        config_of(constraints=("age >= income",))


def test_a_model_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="model: name is missing"):
        config_of_text(TEXT.replace("model: toy-line", "model: {options: {steps: 2}}"))
