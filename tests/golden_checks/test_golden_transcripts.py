"""With known noise every generator asks the same questions, spends the same, and makes the same of the answers."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from golden_cases import BUNDLES
from transcripts_made import as_text, forecast_of, transcript_of

import synth

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "transcripts"


@pytest.fixture(autouse=True)
def every_python_adds_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse ``sum`` of floats in the product: Python 3.12 and newer round it otherwise than 3.11 does.

    Shares, sensitivities and scales of noise would differ in their last digits, and a bundle made on one could not be
    checked on another. ``math.fsum`` is rounded once, and is the same everywhere.
    """
    own, product = builtins.sum, str(Path(synth.__file__).parent)

    def adding(values: Iterable[Any], /, start: Any = 0) -> Any:
        found, caller = own(values, start), sys._getframe(1).f_code
        if type(found) is float and caller.co_filename.startswith(product):
            raise AssertionError(f"{caller.co_filename}, {caller.co_name}: use math.fsum for floats.")
        return found

    monkeypatch.setattr(builtins, "sum", adding)


@pytest.mark.four_cases
@pytest.mark.parametrize("name", BUNDLES)
def test_a_run_asks_what_it_always_asked(name: str) -> None:
    assert as_text(transcript_of(name)) == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def test_forecasts_are_what_they_were() -> None:
    made = as_text({name: forecast_of(name) for name in BUNDLES})
    assert made == (FOLDER / "forecasts.json").read_text(encoding="utf-8")
