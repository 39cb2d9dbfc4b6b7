"""What privacy costs groups over runs with fresh noise: for the owner, uncharged, put into the report."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_owner_report import CONFIG, written

from synth.application import Application
from synth.cli.local import owner_report_again, run_locally
from synth.errors import InputError, JobError
from synth.progress import NullProgress
from synth.reports.code_tables import UnitRows
from synth.reports.owner_view import OwnerView
from synth.reports.prediction import downstream
from synth.reports.registry import renewal_called
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema
from synth.services import reports
from synth.system.settings import Settings


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Settings, str]:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setitem(downstream._CLASSIFIERS, "quick", ("gaussian_nb",))  # type: ignore[arg-type]
    config = replace(CONFIG, groups=("town",))
    result = run_locally(config, tmp_path / "out", table=written(tmp_path / "people.csv", 400, seed=1), keep_table=True)
    return Settings.from_environment(), result.run_id


def reported(path: Path) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in json.loads(path.read_text())["evidence"]}


@pytest.mark.thorough
def test_they_enter_the_owner_report_and_are_charged_nothing(run: tuple[Settings, str], tmp_path: Path) -> None:
    settings, run_id = run
    folder = settings.home / "runs" / run_id
    before = reported(folder / "owner" / "report.json")
    with Application(settings) as application:
        charged = application.ledger_rows()
    said: list[str] = []
    after = reported(owner_report_again(tmp_path / "out", say=said.append, reruns=3))
    assert "Running 3 more times, with predictions from each run ..." in said
    assert after.keys() - before.keys() == {"excess.town"}
    found = after["excess.town"]
    assert found["kind"] == "owner_only"
    for words in ("run 3 more times", "the hold-out", "Read directly from the private rows", "here the gaps are real"):
        assert words in found["sentence"]
    bars, table = found["figures"]
    assert [series["name"] for series in bars["series"]] == ["synthetic rows", "real rows"]
    names, rows = zip(*(row[:2] for row in table["rows"]), strict=True)
    assert names == ("all rows", "Ayr", "Bath")
    assert rows[0] == rows[1] + rows[2] == 100
    with Application(settings) as application:
        assert application.ledger_rows() == charged
    assert "excess" not in (folder / "report.json").read_text()
    # A report that is built again keeps what took long.
    assert reported(owner_report_again(tmp_path / "out", say=said.append))["excess.town"] == found
    with pytest.raises(InputError, match="at least 2 runs, got 1"):
        owner_report_again(tmp_path / "out", say=said.append, reruns=1)


@pytest.mark.thorough
def test_noise_is_fresh_in_every_run(
    run: tuple[Settings, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []
    right = reports._remade

    def watched(config: Any, several: Any) -> Any:
        remade = right(replace(config, epsilon=0.5), several)
        made.extend(b"".join(codes.tobytes() for codes in one.rows) for one in remade)
        assert [len(rows.units) for rows in several] == [300]
        return remade

    monkeypatch.setattr(reports, "_remade", watched)
    owner_report_again(tmp_path / "out", say=lambda line: None, reruns=4)
    assert len(set(made)) == 4


# Of a model that was released ---------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_released_model_is_fitted_again_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    options = {"features": "linear", "steps": 3}
    config = replace(CONFIG, generator="private-classifier", rows=0, epsilon=2.0, groups=("town",), options=options)
    result = run_locally(config, tmp_path / "out", table=written(tmp_path / "people.csv", 400, seed=1), keep_table=True)
    settings = Settings.from_environment()
    folder = settings.home / "runs" / result.run_id
    assert reported(folder / "owner" / "report.json") == {}
    with Application(settings) as application:
        charged, published = application.ledger_rows(), (folder / "bundle.zip").read_bytes()
    with pytest.raises(InputError, match="what privacy costs each group: add --reruns"):
        owner_report_again(tmp_path / "out", say=lambda line: None)
    found = reported(owner_report_again(tmp_path / "out", say=lambda line: None, reruns=3))["excess.town"]
    assert found["kind"] == "owner_only"
    for words in ("fitted 3 more times", "the hold-out", "next to no noise", "Read directly from the private rows"):
        assert words in found["sentence"]
    _, table = found["figures"]
    by_group = {row[0]: dict(zip(table["header"], row, strict=True)) for row in table["rows"]}
    assert by_group.keys() == {"all rows", "Ayr", "Bath"}
    # What the release itself gets wrong, from the bundle and the rows that were held out.
    model, view = reports._released(folder), opened(settings, result.run_id, config)
    wrong = model.predict(view.codes("holdout")).argmax(axis=1) != view.column("ill", "holdout")
    of_release = {"all rows": wrong.mean()} | {
        town: wrong[view.column("town", "holdout") == place].mean() for place, town in enumerate(("Ayr", "Bath"))
    }
    assert {name: row["risk, this release"] for name, row in by_group.items()} == pytest.approx(of_release)
    with Application(settings) as application:
        assert application.ledger_rows() == charged
        renewal = renewal_called("shadow-models")
        with pytest.raises(JobError, match="released a model and made no rows"):
            reports.renew(application.installation, result.run_id, NullProgress(), renewal=renewal, amount="20")
    assert (folder / "bundle.zip").read_bytes() == published
    assert "excess" not in (folder / "report.json").read_text()


def opened(settings: Settings, run_id: str, config: RunConfig) -> OwnerView:
    with Application(settings) as application:
        return reports._opened(config, application.store.runs[run_id], application.vault)[0]


SCHEMA = Schema(
    (
        NumberColumn("age", 0, 99, 1),
        NumberColumn("height", 0, 99, 1),
        NumberColumn("cost", 0, 199, 1),
        CategoryColumn("town", ("Ayr", "Bath")),
    )
)
FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "private-regression": ("cost", {"features": "linear", "steps": 10}),
    "regression-with-missing-inputs": ("cost", {"steps": 3}),
    "mixture-of-regressions": ("cost", {"steps": 3}),
    "kahm-classifier": ("town", {"rows": 200, "n": 2}),
    "gaussian-mixture": ("town", {"steps": 2}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", FITS)
def test_every_model_that_tells_of_a_label_says_who_pays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was held out, so it is of the rows that were fitted to, as in the paper."""
    label, options = FITS[name]
    random = np.random.default_rng(3)
    town, age, height = random.integers(0, 2, 600), *random.integers(0, 100, (2, 600))
    # Costs follow a line, which is clearer in Ayr; in Bath ages are higher.
    age = np.minimum(age + 30 * town, 99)
    cost = (age + height // 2 + np.where(town == 0, 2, 20) * random.normal(size=600)).clip(0, 199).astype(int)
    codes = {"age": age, "height": height, "cost": cost, "town": town}
    config = replace(
        CONFIG, schema=SCHEMA, generator=name, rows=0, label=label, options=options, groups=("age",), epsilon=0.5
    )
    view = OwnerView.from_codes(SCHEMA, {"train": codes})
    rows = reports.owner_rows(config, view, [], ())
    refit = partial(reports._refitted, config)
    likes: list[Any] = []

    def watched(train: UnitRows, *, like: Any = None) -> Any:
        likes.append(like)
        return refit(train, like=like)

    rows = replace(rows, released=refit(rows.train), refit=watched)
    (found,) = renewal_called("reruns").make(rows, "2", NullProgress())
    if name == "gaussian-mixture":
        assert (found.id, likes) == ("excess.none", [])
        assert "'gaussian-mixture' describes rows and predicts no column" in found.sentence
        return
    assert likes == [rows.released, None, None]
    assert found.id == "excess.age"
    assert "the rows that it was fitted to, because no rows were held out" in found.sentence
    assert ("nearer of its two lines" in found.sentence) == (name == "mixture-of-regressions")
    table = found.figures[1]
    (whole, *groups) = [dict(zip(table.header, row, strict=True)) for row in table.rows]  # type: ignore[union-attr]
    assert len(groups) == 32
    assert sum(row["test rows"] for row in groups) == whole["test rows"] == 600
    assert 0 <= whole["risk, next to no noise"] <= whole["risk, mean of 2 runs"] + 0.05 < 1
    assert whole["risk, this release"] > 0


def test_next_to_no_noise_is_another_fit_of_the_same_learner() -> None:
    config = replace(CONFIG, generator="private-classifier", rows=0, epsilon=0.5)
    codes = {"age": np.arange(400) % 100, "town": np.arange(400) % 2, "ill": (np.arange(400) % 100 > 50).astype(int)}
    train = reports.rows_of_part(OwnerView.from_codes(CONFIG.schema, {"train": codes}), "train")
    noisy = reports._refitted(config, train)
    plain = [reports._refitted(config, train, like=noisy) for _ in range(2)]
    assert noisy.settled() == {"features": "linear", "steps": 30}
    assert [one.settled() for one in plain] == [noisy.settled()] * 2
    apart, moved = (
        float(np.abs(plain[0].state()["coefficients"] - other.state()["coefficients"]).max())
        for other in (plain[1], noisy)
    )
    assert 20 * apart < moved
