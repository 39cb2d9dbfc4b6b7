"""Differences between groups: worked out from noisy counts alone, with intervals that hold the population's."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from synth.privacy.answers import RowCount
from synth.privacy.bins import Bins
from synth.reports.differences import REPORT, Difference, differences
from synth.reports.measured import ComparedTable
from synth.reports.report import PaidAnswers
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, RunConfig, Schema, YesNoColumn

SCHEMA = Schema(
    (
        CategoryColumn("ward", ("a", "b", "c"), missing=True),
        NumberColumn("stay", 0, 9, 1, missing=True),
        YesNoColumn("ill", missing=True),
        CategoryColumn("town", ("x", "y"), other=True),
    ),
    PrivacyUnit("person", 1),
)
CONFIG = RunConfig(
    schema=SCHEMA,
    account="clinic",
    epsilon=1.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=50,
    generator="independent",
    groups=("ward",),
    holdout=0.0,
)
SIZES = {column.name: column.size for column in SCHEMA.modelled}
NOISE = 8.0


def table(columns: tuple[str, ...], counts: np.ndarray, noise: float = NOISE) -> ComparedTable:
    return ComparedTable(
        columns=columns,
        bins=tuple(Bins.of_codes(np.arange(SIZES[name])) for name in columns),
        measured=counts,
        synthetic=counts,
        control=counts,
        noise_std=np.full(counts.shape, noise),
        rows=RowCount(float(counts.sum()), 0.0, public=True),
        titles=columns,
    )


def law(column: str) -> np.ndarray:
    """The population: how likely each pair of codes is, shape (wards and missing, codes)."""
    shares = np.array([0.5, 0.3, 0.17, 0.03])
    if column == "ill":
        return shares[:, None] * np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.5, 0.4, 0.1]])
    places = np.arange(10)
    of_ward = [np.exp(-((places - middle) ** 2) / 8) for middle in (3.0, 4.0, 3.0, 5.0)]
    known = np.array([0.95 * own / own.sum() for own in of_ward])
    return shares[:, None] * np.column_stack([known, np.full(4, 0.05)])


def truth(column: str) -> list[float]:
    """Means of the known values in a, less those in b and c."""
    found, values = law(column), np.arange(SIZES[column] - 1)
    means = [(row[:-1] * values).sum() / row[:-1].sum() for row in found]
    return [means[0] - means[1], means[0] - means[2]]


def drawn(random: np.random.Generator, rows: int, noise: float = NOISE) -> list[ComparedTable]:
    found = []
    for column in ("stay", "ill"):
        counts = random.multinomial(rows, law(column).reshape(-1)).reshape(4, -1).astype(float)
        noisy = counts + noise * random.normal(size=counts.shape)
        single = counts.sum(axis=0) + noise * random.normal(size=counts.shape[1])
        found += [table(("ward", column), noisy, noise), table((column,), single, noise)]
        if column == "stay":
            found.append(table(("ward",), counts.sum(axis=1) + noise * random.normal(size=4), noise))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [0.5, 8.0, 25.0])
@pytest.mark.parametrize("column", ["stay", "ill"])
def test_intervals_hold_the_difference_of_the_population(column: str, noise: float) -> None:
    """In 500 simulated runs, whether sampling or noise is what moves it; seeded, so the same every time."""
    random = np.random.default_rng(17)
    held, told, expected = [], [], truth(column)
    for _ in range(500):
        found = [one for one in differences(drawn(random, 4000, noise), CONFIG, "ward") if one.column == column]
        by_group = {one.other: one for one in found}
        assert [found[0].group, *by_group][:3] == ["a", "b", "c"]
        held += [
            abs(by_group[name].value - value) <= by_group[name].error
            for name, value in zip("bc", expected, strict=True)
        ]
        told.append([by_group[name].said == "told" for name in "bc"])
    assert 0.92 <= np.mean(held) <= 0.98
    # b differs from a, c does not.
    assert np.mean(told, axis=0)[1] <= 0.08
    if noise < 25:
        assert np.mean(told, axis=0)[0] > 0.9


def test_rows_of_one_unit_are_taken_to_be_alike() -> None:
    tables = drawn(np.random.default_rng(1), 4000, 0.01)
    several = replace(CONFIG, schema=replace(SCHEMA, unit=PrivacyUnit("person", 4)))
    one, other = (differences(tables, config, "ward")[0] for config in (CONFIG, several))
    assert other.value == one.value
    assert other.error == pytest.approx(2 * one.error, rel=1e-3)


def test_bins_have_the_mean_of_what_was_counted_in_them() -> None:
    counts = np.array([[90.0, 10.0], [10.0, 90.0]])
    schema = Schema((CategoryColumn("ward", ("a", "b")), NumberColumn("stay", 0, 9, 1)))
    single = np.array([50.0, 0, 0, 0, 50, 0, 0, 0, 0, 100])
    halves = np.repeat([0, 1], 5).astype(np.int32)
    pair = replace(table(("ward", "stay"), counts, 1.0), bins=(Bins.of_codes([0, 1]), Bins.of_codes(halves)))
    tables = [
        pair,
        replace(table(("stay",), single, 1.0), bins=(Bins.of_codes(np.arange(10)),)),
        replace(table(("ward",), counts.sum(axis=1), 1.0), bins=pair.bins[:1]),
    ]
    (found,) = differences(tables, replace(CONFIG, schema=schema), "ward")
    # The first half is 2 on average, the second 9.
    assert abs(found.value) == pytest.approx(0.8 * 7)


def test_of_tables_with_more_columns_the_others_are_summed() -> None:
    random = np.random.default_rng(2)
    tables = drawn(random, 4000, 0.01)
    three = np.stack([tables[0].measured * 0.25, tables[0].measured * 0.75, 0 * tables[0].measured], axis=1)
    wide = table(("ward", "town", "stay"), three, 0.01)
    without = [one for one in tables if one.columns != ("ward", "stay")]
    by_pair, by_three = (differences(found, CONFIG, "ward") for found in (tables, [wide, *without]))
    assert [one.value for one in by_three] == pytest.approx([one.value for one in by_pair])
    turned = table(("stay", "ward"), tables[0].measured.T, 0.01)
    again = differences([turned, *without], CONFIG, "ward")
    assert [one.value for one in again] == pytest.approx([one.value for one in by_pair])


def test_what_was_not_measured_and_too_small_groups() -> None:
    tables = [one for one in drawn(np.random.default_rng(3), 4000) if one.columns != ("ward", "ill")]
    found = {(one.column, one.other): one.said for one in differences(tables, CONFIG, "ward")}
    assert found["ill", "b"] == "not measured"
    assert found["stay", "b"] == "told"
    noisy = drawn(np.random.default_rng(3), 400, 60.0)
    assert {one.said for one in differences(noisy, CONFIG, "ward")} <= {"too few rows", "not told from noise", "told"}
    assert "too few rows" in {one.said for one in differences(noisy, CONFIG, "ward")}
    assert differences(tables, CONFIG, "town") == ()


def test_what_is_said_of_them() -> None:
    assert Difference("x", "a", "b", 2.0, 1.0).said == "told"
    assert Difference("x", "a", "b", -2.0, 3.0).said == "not told from noise"
    tables = tuple(one for one in drawn(np.random.default_rng(3), 4000) if one.columns != ("ward", "ill"))
    assert REPORT.public is not None
    answers = PaidAnswers(CONFIG, [], 0, (), (), (), (), None, tables)
    (entry,) = REPORT.public(answers)
    assert entry.id == "differences.ward"
    told = [one.said for one in differences(tables, CONFIG, "ward")].count("told")
    assert entry.value == told
    assert "treat as unknown: ill" in entry.sentence
    rows = {row[0]: row for row in entry.figures[0].rows}  # type: ignore[union-attr]
    assert rows["ill"][1:] == (None, None, "not measured")
    assert entry.unit == "of 3 measured"
    value = rows["stay: a less b"][1]
    assert isinstance(value, float)
    assert math.isfinite(value)
    assert not REPORT.public(replace(answers, config=replace(CONFIG, groups=())))
