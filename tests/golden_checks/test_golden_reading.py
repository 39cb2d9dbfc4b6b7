"""A fixed file gives the codes it always gave, is split as it always was, and is written back byte for byte."""

from __future__ import annotations

from json import loads

import pytest
from reading_made import FOLDER, everything
from transcripts_made import as_text

EXPECTED = loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made() -> dict[str, object]:
    return loads(as_text(everything()))


@pytest.mark.parametrize("part", EXPECTED)
def test_every_cell_is_read_split_and_written_as_before(part: str, made: dict[str, object]) -> None:
    assert made[part] == EXPECTED[part]
