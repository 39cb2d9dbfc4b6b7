"""What was sealed with the words of today verifies, and is made and written again byte for byte, sentences included."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles_written import members_of, written_again

from synth.bundle.replay import replay
from synth.bundle.verify import verify

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles-4"

by_bundle = pytest.mark.parametrize("path", sorted(FOLDER.glob("*.zip")), ids=lambda path: path.stem)


def test_they_hold_groups_paid_predictions_and_one_hidden_cell() -> None:
    assert {path.stem for path in FOLDER.glob("*.zip")} == {"dp-hp-adaptive", "dp-hp-adaptive-predictions", "kahm-cell"}


@by_bundle
def test_it_verifies_in_these_words(path: Path) -> None:
    verdict = verify(path, public_key=FOLDER / "public-key.pem")
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["not_compared"] == [], "every text is written again, by whichever version"


@by_bundle
def test_its_report_is_made_again_with_every_sentence(path: Path, tmp_path: Path) -> None:
    again = replay(path, tmp_path)
    assert again.as_certified, again.lines
    assert again.words_version is None, "nothing is left out of the comparison"
    assert (tmp_path / "report.json").read_bytes() == members_of(path)["report.json"]


@by_bundle
def test_its_writer_writes_every_byte_again(path: Path, tmp_path: Path) -> None:
    assert written_again(path, tmp_path) == members_of(path)
