"""Bundles in the hands of others: what earlier versions sealed still verifies and makes the certified table again."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.generators import GENERATORS

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles"
GOLDEN = sorted(FOLDER.glob("*.zip"))
LATER_GENERATORS = {"dp-mixture", "kernel-sos"}
"""Came with version 0.5.0, which seals bundles of its own."""
LATER = sorted(FOLDER.with_name("bundles-3").glob("*.zip"))


def test_there_is_a_bundle_for_every_generator_and_mode() -> None:
    cases = {"dp-hp-adaptive-several-rows", "kahm-rows", "kahm-cell"}
    assert {path.stem for path in GOLDEN} == ({*GENERATORS} - LATER_GENERATORS) | cases


@pytest.mark.parametrize("path", [*GOLDEN, *LATER], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_verifies(path: Path) -> None:
    verdict = verify(path, public_key=path.with_name("public-key.pem"))
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["signer"] == "as expected"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_it_makes_the_certified_table(path: Path, tmp_path: Path) -> None:
    again = replay(path, tmp_path)
    assert again.identical, again.lines
