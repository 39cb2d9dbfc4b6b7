"""Bundles in the hands of others: what earlier versions sealed still verifies and makes the certified table again."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.bundle.replay import replay
from synth.bundle.verify import verify

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles"
GOLDEN = sorted(FOLDER.glob("*.zip"))
LATER = sorted(FOLDER.with_name("bundles-3").glob("*.zip"))


def test_none_is_missing() -> None:
    """Of the generators and modes of version 0.2.0; ``tests/golden_checks`` holds that every later one has a bundle."""
    assert {path.stem for path in GOLDEN} == {
        *("dp-hp", "dp-hp-adaptive", "dp-hp-adaptive-several-rows", "dp-merf"),
        *("independent", "independent-by-class", "kahm", "kahm-cell", "kahm-rows"),
    }


@pytest.mark.parametrize("path", [*GOLDEN, *LATER], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_verifies(path: Path) -> None:
    verdict = verify(path, public_key=path.with_name("public-key.pem"))
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["signer"] == "as expected"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_it_makes_the_certified_table(path: Path, tmp_path: Path) -> None:
    again = replay(path, tmp_path)
    assert again.identical, again.lines
