"""A new generator is one folder and one line in the registry; card, form, forecast, run, report and replay follow."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from toy_family import CARDS

from synth.bundle.checks import check
from synth.bundle.replay import replay
from synth.errors import ConfigError
from synth.generators import GENERATORS, cards, options_of
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema
from synth.services.pipeline import Sealing, fit_and_sample, seal_release
from synth.vault.keys import Keys

SCHEMA = Schema(
    (NumberColumn("age", 0, 9, 1, fallback=0), CategoryColumn("region", ("north", "south"), fallback="north")),
    number_of_units=200,
)


def config_of(**changes: object) -> RunConfig:
    given = {"epsilon": 2.0, "delta": 1e-6, "rows": 50, "people_at_most": 1000, "holdout": 0.0, **changes}
    return RunConfig(schema=SCHEMA, account="toys", generator="toy", **given)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GENERATORS, "toy", CARDS[0])  # the line


def test_its_card_and_the_fields_of_its_form_are_offered() -> None:
    assert cards()[-1].title == "Toy"
    mode, flatness = options_of("toy")
    assert mode.choices == ("plain", "shy")
    assert (flatness.default, flatness.kind) == (0.5, float)
    assert flatness.help.startswith("How much of an even distribution")


def test_its_options_are_checked_before_anything_is_spent() -> None:
    with pytest.raises(ConfigError, match="'flatness' must lie between 0 and 1, got 2"):
        forecast(config_of(options={"flatness": 2.0}))
    with pytest.raises(ConfigError, match="'toy': mode must be plain or shy, got loud"):
        forecast(config_of(options={"mode": "loud"}))


def test_its_noise_is_forecast() -> None:
    found = forecast(config_of())
    assert [cell.columns for cell in found.columns] == [("age",), ("region",)]
    assert found.columns[0].basis == "generator"


def test_a_run_is_sealed_verified_reported_and_replayed(tmp_path: Path) -> None:
    config = config_of(options={"flatness": 0.25})
    random = np.random.default_rng(0)
    codes = {name: random.integers(0, size, 200) for name, size in zip(SCHEMA.names, SCHEMA.sizes, strict=True)}
    measured = fit_and_sample(config, PrivateTable.from_codes(SCHEMA, codes), NullProgress())
    key, folder = Keys(bytes(32), bytes(32), bytes(range(32))), tmp_path / "run"
    folder.mkdir()
    seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
    bundle = folder / "bundle.zip"
    assert not check(bundle, expected_key=key.public_key_pem).failures
    with zipfile.ZipFile(bundle) as archive:
        report = json.loads(archive.read("report.json"))
    assert [entry["value"] for entry in report["evidence"] if entry["title"] == "Flatness"] == [0.25]
    (shown,) = (entry for entry in report["evidence"] if entry["id"] == "picture.shares")
    assert [trace["name"] for trace in shown["figures"][0]["series"]] == ["age", "region"]
    for number, refit in enumerate((False, True)):
        assert replay(bundle, tmp_path / str(number), refit=refit).identical
