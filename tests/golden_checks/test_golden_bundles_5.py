"""Bundles of models that were sealed verify, and their noisy answers are fitted again to every number of the model."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles_written import members_of
from golden_cases import MODELS, configuration

from synth.bundle.archive import MEMBERS_OF_MODEL
from synth.bundle.model_file import without_words
from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.schema import config_to_yaml

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles-5"

by_bundle = pytest.mark.parametrize("path", sorted(FOLDER.glob("*.zip")), ids=lambda path: path.stem)


def test_they_are_the_models_of_the_golden_cases() -> None:
    assert {path.stem for path in FOLDER.glob("*.zip")} == set(MODELS)


@by_bundle
def test_it_verifies(path: Path) -> None:
    verdict = verify(path, public_key=FOLDER / "public-key.pem")
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["not_checked"] == []
    assert tuple(members_of(path)) == MEMBERS_OF_MODEL


@by_bundle
def test_its_configuration_is_written_as_it_was(path: Path) -> None:
    assert config_to_yaml(configuration(path.stem)).encode() == members_of(path)["config.yaml"]


@by_bundle
def test_its_answers_are_fitted_again_to_every_number(path: Path, tmp_path: Path) -> None:
    again = replay(path, tmp_path)
    assert again.identical, again.lines
    assert not again.costs_differ
    assert without_words((tmp_path / "model.json").read_bytes()) == without_words(members_of(path)["model.json"])
