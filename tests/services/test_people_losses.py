"""Before a charge and afterwards, an owner is told in what people are not as declared, and no cell is quoted."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from synth.reports.losses import Losses, counts_of_people
from synth.reports.owner_view import OwnerView
from synth.reports.reading import owner_reading
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, Schema, TableFormat
from synth.schema.columns.base import PeopleCounts
from synth.services.first_reading import read_once

COLUMNS = (
    IdentifierColumn("patient"),
    CategoryColumn("sex", ("f", "m")),
    NumberColumn("day", 0, 99, 1, missing=True),
    NumberColumn("cost", 0, 99, 1),
)
UNIT = PrivacyUnit("patient", 2, "patient", ("sex",), "day")
SCHEMA = Schema(COLUMNS, unit=UNIT, people="whole")

AS_DECLARED = ["a,f,1,3", "b,m,2,3", "a,f,4,5"]


def text_of(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in ["patient,sex,day,cost", *lines]).encode()


def first(lines: list[str], schema: Schema = SCHEMA) -> Losses:
    return read_once(io.BytesIO(text_of(lines)), TableFormat(), schema)


def afterwards(lines: list[str]) -> str:
    data = text_of(lines)
    view = OwnerView.open(lambda: io.BytesIO(data), "table", SCHEMA, TableFormat(), account_key=bytes(32))
    (entry,) = owner_reading(view.reading, SCHEMA)
    return entry.sentence


def test_people_as_declared_are_not_spoken_of() -> None:
    assert first(AS_DECLARED) == Losses()
    assert "declared the same" not in afterwards(AS_DECLARED)


CROWDED = [*AS_DECLARED, "a,f,7,1", "a,f,8,1"]
DIFFERING = [*AS_DECLARED, "b,f,4,5", "c,m,1,1", "c,m,2,2", "d,m,1,1"]
UNORDERED = [*AS_DECLARED, "b,m,,5", "c,m,1,1", "c,m,2,2", "d,m,1,1"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            CROWDED,
            "40 % of the rows are not used: 50 % of the patients have more than 2, of which the first in order are "
            "kept. If more of them matter, raise rows_per_unit.",
        ),
        (
            DIFFERING,
            "'sex' is declared the same in all rows, but 25 % of the patients have several values in it; the one in "
            "their first row counts. If it changes from row to row, leave it out of same_in_all_rows.",
        ),
        (
            UNORDERED,
            "14 % of the rows have no 'day', which gives the order: they come last among the rows of their patient. "
            "Fill it in, or name another column.",
        ),
    ],
)
def test_each_way_is_told_in_a_sentence_before_the_charge_and_in_the_owners_report(lines: list[str], said: str) -> None:
    assert first(lines) == Losses((said,), mostly=False)
    assert said in afterwards(lines)


def test_where_most_is_lost_a_run_waits_for_the_owners_word() -> None:
    assert first([*AS_DECLARED, *(f"a,f,{day},1" for day in range(50, 60))]).mostly
    assert first(["a,f,1,3", "a,m,2,3", "b,m,1,1", "b,f,2,1", "c,f,1,1"]).mostly
    assert first(["a,f,,3", "a,f,,3", "b,m,1,1"]).mostly


def test_rows_without_an_id_are_nobodys_and_separate_rows_are_not_asked_about() -> None:
    nobodys = first([*AS_DECLARED, ",m,1,1", ",f,2,1", ",f,3,1"])
    assert nobodys.lines == ("50 % of the rows have no 'patient': they are nobody's, and not used.",)
    assert first(CROWDED, replace(SCHEMA, people="separate_rows")) == Losses()


def test_no_order_means_that_the_rows_that_are_kept_are_drawn() -> None:
    unit = PrivacyUnit("patient", 2, "patient", ("sex",))
    (line,) = first(CROWDED, replace(SCHEMA, unit=unit)).lines
    assert "of which 2, drawn by chance, are kept" in line


def test_many_people_are_counted_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    units = rng.permutation(np.repeat(np.arange(9_000), 3)).astype(np.uint64)
    sex = np.where(units % 10 == 0, rng.integers(0, 2, len(units)), 0)
    found = counts_of_people(units, {"sex": sex, "day": np.arange(len(units)) % 101}, UNIT, levels=100)
    differing = sum(len(set(sex[units == unit])) > 1 for unit in range(0, 9_000, 10))
    assert found == PeopleCounts(
        9_000, 27_000, 9_000, 9_000, {"sex": differing}, int((np.arange(27_000) % 101 == 100).sum())
    )
