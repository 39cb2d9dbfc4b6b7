"""With known noise every generator asks the same questions, spends the same, and makes the same of the answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import BUNDLES
from transcripts_made import as_text, forecast_of, transcript_of

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "transcripts"


@pytest.mark.parametrize("name", BUNDLES)
def test_a_run_asks_what_it_always_asked(name: str) -> None:
    assert as_text(transcript_of(name)) == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def test_forecasts_are_what_they_were() -> None:
    made = as_text({name: forecast_of(name) for name in BUNDLES})
    assert made == (FOLDER / "forecasts.json").read_text(encoding="utf-8")
