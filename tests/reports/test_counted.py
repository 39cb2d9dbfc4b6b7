"""Noisy counts as they are given away: which values they count, and the error of the mechanism that made them."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from recorded_noise import RecordedNoise

from synth.errors import InputError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import FEATURE_MAPS, KINDS, RowCount
from synth.privacy.bins import PAGE, Bins
from synth.privacy.feature_maps import OneHot, Stack
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.products import Product
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reports import counted
from synth.reports.code_tables import bin_labels
from synth.reports.counted import CountedTable, Counts, counts_of
from synth.reports.interval_estimates import share_interval
from synth.schema import CategoryColumn, Column, NumberColumn, PrivacyUnit, Schema, YesNoColumn

AGE = NumberColumn("age", 0, 99, 1, missing=True)
TOWN = CategoryColumn("town", ("north", "=south"), other=True)
SMOKES = YesNoColumn("smokes", yes="yes", no="no")
DECADES = Bins.of_runs(range(11), [10] * 10 + [1])
ROWS = 400


def table_of(*columns: Column, rows_per_unit: int = 1) -> PrivateTable:
    schema = Schema(columns, unit=PrivacyUnit(rows_per_unit=rows_per_unit))
    random = np.random.default_rng(0)
    codes = {column.name: random.integers(0, column.size, ROWS) for column in schema.modelled}
    return PrivateTable.from_codes(schema, codes, unit_ids=None, account_key=bytes(32))


def asked(table: PrivateTable, *questions: tuple[object, float], key: int | None) -> PrivateSession:
    session = PrivateSession(table, PrivacyBudget(1.0, 1e-6, table.schema.neighbours), noise=RecordedNoise(key))
    for place, (question, share) in enumerate(questions):
        session.noisy_sum(question, share=share, query=f"question {place}", source="test")
    return session


def counts(session: PrivateSession) -> Counts:
    return counts_of(session.answers, session.schema, RowCount(float(ROWS), 0.0, public=True))


def ages() -> OneHot:
    return OneHot(("age",), (DECADES,))


def towns() -> OneHot:
    return OneHot(("town",), (None,), (TOWN.size,))


def test_every_cell_has_its_declared_words_and_the_count_of_just_these_values() -> None:
    table = table_of(AGE, TOWN, SMOKES)
    cross = Product((towns(), OneHot(("smokes",), (None,), (2,))))
    session = asked(table, (Stack((ages(), cross), (0.6, 0.8)), 1.0), key=None)
    found = counts(session)
    assert [one.columns for one in found.tables] == [("age",), ("town", "smokes")]
    age, town = found.tables
    assert age.values == (("0 to 9", *(f"{ten}0 to {ten}9" for ten in range(1, 10)), "missing"),)
    assert town.values == (("north", "=south", "other"), ("no", "yes"))
    exact = {name: table._column(name) for name in ("age", "town", "smokes")}
    # Weights are whole numbers of 2^-24, so that a sum without noise is the count to the last digits.
    wanted = np.bincount(DECADES[exact["age"]], minlength=11)
    np.testing.assert_allclose(age.counts, wanted, atol=1e-3)
    for left, right in product(range(3), range(2)):
        cells = np.count_nonzero((exact["town"] == left) & (exact["smokes"] == right))
        assert town.counts[left, right] == pytest.approx(cells, abs=1e-3)


@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_the_standard_error_is_that_of_the_noise_that_was_added(rows_per_unit: int) -> None:
    table = table_of(AGE, TOWN, rows_per_unit=rows_per_unit)
    questions = (
        (Stack((ages(), towns()), (0.8, 0.6)), 0.5),
        (Product((ages(), towns())), 0.25),
        (towns(), 0.25),
    )
    exact = counts(asked(table, *questions, key=None)).tables
    again = [counts(asked(table, *questions, key=key)).tables for key in range(40)]
    for place, one in enumerate(exact):
        noise = np.array([run[place].counts - one.counts for run in again])
        assert {run[place].standard_error for run in again} == {one.standard_error}
        # Known noise of a fixed key: over hundreds of draws its spread is the stated one.
        size = noise.size
        assert noise.std() == pytest.approx(one.standard_error, rel=4 / math.sqrt(2 * size))
        assert abs(noise.mean()) < 4 * one.standard_error / math.sqrt(size)
    # Each part of a stack has the noise of the stack, divided by its weight.
    assert exact[0].standard_error * 0.8 == pytest.approx(exact[1].standard_error * 0.6, rel=1e-6)


def test_the_interval_of_a_share_is_the_one_of_the_reports() -> None:
    found = counts(asked(table_of(AGE, TOWN, rows_per_unit=3), (towns(), 1.0), key=1))
    (table,) = found.tables
    frame = found.frame
    for place, count in enumerate(table.counts.tolist()):
        ends = share_interval(count, table.standard_error, table.rows, rows_per_unit=3)
        assert tuple(frame.loc[place, ["share_low", "share_high"]]) == ends
        assert ends[0] <= frame.loc[place, "share"] <= ends[1]
    assert (
        counts_of(asked(table_of(TOWN), (towns(), 1.0), key=1).answers, table_of(TOWN).schema, None)
        .frame[["share", "share_low", "share_high"]]
        .isna()
        .all(axis=None)
    )


def test_the_csv_is_tidy_and_safe_in_a_spreadsheet() -> None:
    found = counts(asked(table_of(AGE, TOWN), (towns(), 0.5), (Product((towns(), ages())), 0.5), key=1))
    target = io.StringIO()
    found.write_csv(target)
    read = pd.read_csv(io.StringIO(target.getvalue()))
    assert list(read.columns) == [
        "question", "part", "column_1", "value_1", "column_2", "value_2", "count", "standard_error", "share",
        "share_low", "share_high",
    ]  # fmt: skip
    assert len(read) == TOWN.size + TOWN.size * 11
    assert set(read["value_1"]) == {"north", "'=south", "other"}
    assert read["value_2"].notna().sum() == TOWN.size * 11
    pd.testing.assert_frame_equal(found.frame.fillna(""), read.fillna(""), check_dtype=False)


def test_tables_are_asked_for_by_their_question_or_by_their_columns() -> None:
    found = counts(asked(table_of(AGE, TOWN), (Stack((towns(), ages()), (0.6, 0.8)), 0.5), (ages(), 0.5), key=1))
    assert [one.columns for one in found.only(["question 0"]).tables] == [("age",), ("town",)]
    assert [one.question for one in found.only(["age"]).tables] == ["question 0", "question 1"]
    assert [one.name for one in found.only(["age (question 1)"]).tables] == ["age (question 1)"]
    assert found.only([]) is found
    with pytest.raises(InputError, match=r"^Nothing was counted for 'age, town'\. Counted were: age; town\.$"):
        found.only(["age", "age, town"])


def test_what_holds_no_counts_says_in_one_sentence_what_it_holds_instead() -> None:
    waves = Fourier((AGE.name,), (np.arange(AGE.size),), np.array([[40]]))
    found = counts(asked(table_of(AGE, TOWN), (waves, 1.0), key=1))
    assert not found.tables
    sentence = "This bundle holds no noisy counts: its measurements are sums of random features."
    assert found.sentence == sentence
    with pytest.raises(InputError, match=f"^{sentence}$"):
        _ = found.frame
    with pytest.raises(InputError, match=f"^{sentence}$"):
        found.write_csv(io.StringIO())
    mixed = counts(asked(table_of(AGE, TOWN), (waves, 0.5), (towns(), 0.5), key=1))
    assert mixed.sentence == "Not listed, because they count no values: sums of random features."


def test_every_kind_of_question_has_words_for_what_it_holds() -> None:
    # Stacks and products hold what their parts hold; steps of EM and found values have answers with words of their own.
    composed = {Stack, Product}
    assert set(FEATURE_MAPS) - composed <= set(counted._HELD)
    assert len(KINDS) == 8, "a new kind of question needs words in synth.reports.counted"


def test_a_histogram_shows_every_count_with_its_noise_if_it_can_be_seen() -> None:
    found = counts(asked(table_of(AGE, TOWN), (ages(), 0.5), (OneHot(("age",), (None,), (AGE.size,)), 0.5), key=1))
    bars = found.tables[0].bars
    assert bars is not None
    assert bars.categories == found.tables[0].values[0]
    (series,) = bars.series
    assert series.values == tuple(found.tables[0].counts.tolist())
    assert series.errors == (1.959964 * found.tables[0].standard_error,) * 11
    wide = replace(found.tables[0], counts=np.zeros(201), values=(("",) * 201,))
    assert wide.bars is None


@pytest.mark.parametrize("size", [7 * PAGE, 7 * PAGE + 123])
def test_words_of_digits_in_a_long_range_take_what_the_bins_take(size: int) -> None:
    column = NumberColumn("cents", 0, size - 1, 1)
    plain = np.arange(size) % 10 + 10 * (np.arange(size) // PAGE == 3)
    # One code of a bin in each of two equal pages, and in each of two different ones.
    plain[[17, 2 * PAGE + 17]] = 20
    plain[[4 * PAGE + 5, 6 * PAGE + 8]] = 21
    bins = Bins.of_codes(plain)
    assert bins.order is not None
    assert bins.order[0] == bins.order[2] != bins.order[1]
    labels = bin_labels(column, bins)
    for own in np.unique(plain).tolist():
        codes = np.flatnonzero(plain == own)
        first, second, last = codes[[0, 1, -1]].tolist()
        many = len(codes)
        assert labels[own] == (f"{first}, {last}" if many == 2 else f"{first}, {second} ... {last} ({many:,} values)")


def test_values_are_as_long_as_the_answers_and_not_as_the_declared_range() -> None:
    column = NumberColumn("cents", 0, 9_999_999, 1)
    table = PrivateTable.from_codes(
        Schema((column,), unit=PrivacyUnit()), {"cents": np.arange(50)}, unit_ids=None, account_key=bytes(32)
    )
    halves = OneHot(("cents",), (Bins.of_runs([0, 1], [5_000_000, 5_000_000]),))
    (found,) = counts(asked(table, (halves, 1.0), key=None)).tables
    assert isinstance(found, CountedTable)
    assert found.values == (("0 to 4999999", "5000000 to 9999999"),)


def test_tables_come_in_the_order_of_columns_and_each_has_a_title_of_its_own() -> None:
    fine, last_digit = OneHot(("age",), (None,), (AGE.size,)), OneHot(("age",), (Bins.of_codes(np.arange(101) % 10),))
    cross = Product((towns(), ages()))
    session = asked(
        table_of(TOWN, AGE), (Stack((last_digit, cross, fine, ages()), (0.5,) * 4), 0.5), (towns(), 0.5), key=1
    )
    found = counts(session)
    assert [one.title for one in found.tables] == [
        "town: 3 counts (question 1)",
        "age: 11 counts (question 0)",
        "age: 101 counts (question 0)",
        "age: 10 counts (question 0)",
        "town and age: 3 x 11 counts (question 0)",
    ]
    assert not found.tables[3].of_ranges
    named = replace(found.tables[4], question="table 7: town x age")
    assert named.title == "town and age: 3 x 11 counts (table 7)"
