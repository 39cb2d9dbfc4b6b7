"""Codes are stored and written back as they came; people read their labels."""

from __future__ import annotations

import numpy as np
import pytest

from synth.errors import SchemaError
from synth.privacy.bins import Bins
from synth.reports.code_tables import bin_labels
from synth.schema import CategoryColumn, YesNoColumn, parse_column

MARITAL = {
    "type": "category",
    "values": ["N", "?", "Y"],
    "other": True,
    "missing": True,
    "labels": {"N": "single", "?": "not said"},
}


def test_labels_are_declared_and_written_as_they_are_read() -> None:
    column = parse_column("married", MARITAL)

    assert isinstance(column, CategoryColumn)
    assert column.labels == (("N", "single"), ("?", "not said"))
    assert column.to_mapping() == MARITAL
    assert "labels" not in parse_column("married", {**MARITAL, "labels": {}}).to_mapping()


def test_files_hold_codes_and_people_read_labels() -> None:
    column = parse_column("married", MARITAL)
    assert isinstance(column, CategoryColumn)
    every = np.arange(column.size)

    assert column.printed_texts(every) == ["N", "?", "Y", "other", ""]
    assert column.shown_texts() == ["single", "not said", "Y", "other", "missing"]
    assert bin_labels(column, Bins.of_codes(every.astype(np.int32))) == ("single", "not said", "Y", "other", "missing")
    assert "single" not in column.spellings(trim=None, typed=False)


def test_a_yes_no_column_has_labels_too() -> None:
    column = parse_column("smokes", {"type": "yes_no", "yes": "2", "no": "1", "labels": {"1": "no", "2": "yes"}})

    assert isinstance(column, YesNoColumn)
    assert column.shown_texts([1, 0]) == ["yes", "no"]
    assert column.texts([1, 0]) == ["2", "1"]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"X": "else"}, "a label must belong to a declared value"),
        ({"N": " "}, "a label is empty"),
        ({"N": "Y"}, "two values have the same label"),
        ({"N": "other"}, "two values have the same label"),
        ({"N": "a", "Y": "a"}, "two values have the same label"),
        (["N"], "must be a mapping"),
    ],
)
def test_labels_that_would_mislead_are_refused_in_a_sentence(labels: object, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        parse_column("married", {**MARITAL, "labels": labels})
