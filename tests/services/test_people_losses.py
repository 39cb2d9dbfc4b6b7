"""Before a charge and afterwards, an owner is told in what people are not as declared, and no cell is quoted."""

from __future__ import annotations

import io
from collections.abc import Sequence
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


def first(lines: list[str], schema: Schema = SCHEMA, rules: Sequence[str] = ()) -> Losses:
    return read_once(io.BytesIO(text_of(lines)), TableFormat(), schema, rules=rules)


def afterwards(lines: list[str], rules: Sequence[str] = ()) -> str:
    data = text_of(lines)
    view = OwnerView.open(lambda: io.BytesIO(data), "table", SCHEMA, TableFormat(), account_key=bytes(32), rules=rules)
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


PAIRS_OF_RULES = [*AS_DECLARED, "b,m,9,9", "c,f,5,5"]


@pytest.mark.parametrize(
    ("rule", "share"),
    [
        ("next.day - day <= 3", "50 % of the pairs of a patient's row and the next"),
        ("next.cost >= cost", None),
        ("if next.cost > 8 then sex = f", "50 % of the pairs of a patient's row and the next"),
        ("count >= 2", "33 % of the patients"),
        ("if count = 1 then cost > 5", "33 % of the patients"),
        ("cost <= 1", None),
    ],
)
def test_rules_about_people_that_rows_break_are_told_and_no_other_rule_is(rule: str, share: str | None) -> None:
    said = f"The rule '{rule}' is broken by {share}. Every synthetic patient will keep it: if it is not true of the "
    expected = () if share is None else (f"{said}table, delete it.",)
    assert first(PAIRS_OF_RULES, rules=[rule]).lines == expected
    assert (said in afterwards(PAIRS_OF_RULES, [rule])) == (share is not None)


def test_a_rule_that_most_pairs_break_waits_for_the_owners_word_and_rows_come_in_their_order() -> None:
    rows = ["a,f,9,1", "a,f,1,8", "b,m,3,2", "b,m,2,5", "b,m,90,1"]
    assert first(rows, rules=["next.cost < cost"]) == Losses(
        (
            "20 % of the rows are not used: 50 % of the patients have more than 2, of which the first in order are "
            "kept. If more of them matter, raise rows_per_unit.",
        )
    )
    assert first(rows, rules=["next.cost > cost"]).mostly


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
    found = counts_of_people(units, {"sex": sex, "day": np.arange(len(units)) % 101}, SCHEMA)
    differing = sum(len(set(sex[units == unit])) > 1 for unit in range(0, 9_000, 10))
    assert found == PeopleCounts(
        9_000, 27_000, 9_000, 9_000, {"sex": differing}, int((np.arange(27_000) % 101 == 100).sum())
    )
