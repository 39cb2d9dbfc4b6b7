"""Configurations are written as they were, and whatever is wrong with one is said in the words it was said in."""

from __future__ import annotations

from json import loads
from pathlib import Path

import pytest
from documents_given import everything
from transcripts_made import as_text

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "documents"
EXPECTED = loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made() -> dict[str, object]:
    return loads(as_text(everything()))


@pytest.mark.parametrize("part", EXPECTED)
def test_documents_are_read_written_and_refused_as_before(part: str, made: dict[str, object]) -> None:
    assert made[part] == EXPECTED[part]
