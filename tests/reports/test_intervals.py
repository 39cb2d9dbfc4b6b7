"""Numbers to quote: intervals from noisy counts alone hold the population's numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from synth.privacy.answers import RowCount
from synth.privacy.bins import Bins
from synth.reports.figures import Table
from synth.reports.interval_estimates import SummedNumber, quantile_places, share_interval
from synth.reports.intervals import REPORT, EstimatedNumber, column_numbers, cross_table, group_numbers
from synth.reports.measured import ComparedTable
from synth.reports.panels import Folded, Pick
from synth.reports.report import PaidAnswers, Shown
from synth.schema import CategoryColumn, DateColumn, NumberColumn, PrivacyUnit, RunConfig, Schema, YesNoColumn

SCHEMA = Schema(
    (
        CategoryColumn("ward", ("a", "b", "c"), missing=True),
        NumberColumn("stay", 0, 99, 1, missing=True),
        YesNoColumn("ill"),
        DateColumn("seen", date(2020, 1, 1), date(2020, 12, 31)),
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
COLUMNS = {column.name: column for column in SCHEMA.modelled}
ROWS = 4000
STAYS = 100
FOURS = np.concatenate([np.repeat(np.arange(25), 4), [25]]).astype(np.int32)


def law() -> np.ndarray:
    """The population, shape (wards and missing, stays and missing, not ill and ill)."""
    wards = np.array([0.5, 0.3, 0.17, 0.03])
    places = np.arange(STAYS)
    # A long tail, as lengths of stay have one; longer in b.
    of_ward = [np.exp(-places / mean) for mean in (12.0, 20.0, 12.0, 15.0)]
    stays = np.array([np.append(0.95 * own / own.sum(), 0.05) for own in of_ward])
    ill = np.append(0.2 + 0.5 * places / STAYS, 0.3)
    return wards[:, None, None] * stays[:, :, None] * np.stack([1 - ill, ill], axis=1)


def of(names: tuple[str, ...], cube: np.ndarray, noise: float, random: np.random.Generator) -> ComparedTable:
    """Count some columns of drawn rows with noise; synthetic counts are as many as the noisy ones."""
    axes = ("ward", "stay", "ill")
    counts = cube.sum(axis=tuple(place for place, name in enumerate(axes) if name not in names)).astype(float)
    noisy = counts + noise * random.normal(size=counts.shape)
    return ComparedTable(
        columns=names,
        bins=tuple(Bins.of_codes(np.arange(COLUMNS[name].size)) for name in names),
        measured=noisy,
        synthetic=np.maximum(noisy, 0.0),
        control=counts,
        noise_std=np.full(counts.shape, noise),
        rows=RowCount(float(cube.sum()), 0.0, public=True),
        titles=names,
    )


def in_bins(table: ComparedTable, bins: np.ndarray) -> ComparedTable:
    """Put stays into wider bins."""
    axis, starts = table.columns.index("stay"), np.flatnonzero(np.diff(bins, prepend=-1))

    def summed(values: np.ndarray) -> np.ndarray:
        return np.moveaxis(np.add.reduceat(np.moveaxis(values, axis, 0), starts), 0, axis)

    return replace(
        table,
        bins=tuple(
            Bins.of_codes(bins) if name == "stay" else own for name, own in zip(table.columns, table.bins, strict=True)
        ),
        measured=summed(table.measured),
        synthetic=summed(table.synthetic),
        control=summed(table.control),
        noise_std=np.sqrt(summed(table.noise_std**2)),
    )


def drawn(random: np.random.Generator, noise: float) -> list[ComparedTable]:
    cube = random.multinomial(ROWS, law().reshape(-1)).reshape(law().shape)
    sets = (("ward",), ("stay",), ("ill",), ("ward", "stay"), ("ward", "ill"))
    return [of(names, cube, noise, random) for names in sets]


def truths() -> dict[str, float]:
    found, stays = law(), np.arange(STAYS)
    known = found.sum(axis=(0, 2))[:-1]
    below = np.cumsum(known) / known.sum()
    of_ward = found.sum(axis=2)[:, :-1]
    return {
        "mean": float((known * stays).sum() / known.sum()),
        "median": float(np.searchsorted(below, 0.5)),
        "90 % below": float(np.searchsorted(below, 0.9)),
        "share missing": float(found[:, -1].sum()),
        **{name: float(value) for name, value in zip("abc", of_ward @ stays / of_ward.sum(axis=1), strict=False)},
        **{f"{ward}, {ill}": float(found[i, :, j].sum()) for i, ward in enumerate("abc") for j, ill in enumerate("ny")},
    }


def numbers(tables: list[ComparedTable], config: RunConfig = CONFIG) -> dict[str, EstimatedNumber]:
    """Work everything out; which rows were made has nothing to do with intervals here, but inside bins."""
    made = np.repeat(np.arange(STAYS), np.maximum(1, np.rint(1e4 * law().sum(axis=(0, 2))[:-1])).astype(int))
    rows = np.column_stack([made, made % 4])
    found = {one.name: one for one in column_numbers(tables, COLUMNS["stay"], made, config)}
    found |= {one.name: one for one in group_numbers(tables, COLUMNS["stay"], COLUMNS["ward"], rows, config)}
    (pair,) = (one for one in tables if one.columns == ("ward", "ill"))
    cells = cross_table(pair, [COLUMNS["ward"], COLUMNS["ill"]], config)
    return found | {one.name.replace("no", "n").replace("yes", "y"): one for one in cells}


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [0.5, 8.0, 25.0])
@pytest.mark.parametrize("wide", [False, True])
def test_intervals_hold_the_numbers_of_the_population(noise: float, wide: bool) -> None:
    """In 500 simulated runs, whether sampling or noise is what moves a number; seeded, so the same every time."""
    random = np.random.default_rng(29)
    expected = truths()
    held: dict[str, list[bool]] = {name: [] for name in expected}
    for _ in range(500):
        tables = drawn(random, noise)
        found = numbers([in_bins(one, FOURS) if wide and "stay" in one.columns else one for one in tables])
        for name, value in expected.items():
            if np.isnan(found[name].low):
                continue  # of a small group among much noise
            held[name].append(found[name].low - 1e-12 <= value <= found[name].high + 1e-12)
    assert all(len(own) > (200 if name == "c" else 490) for name, own in held.items())
    part = {name: float(np.mean(own)) for name, own in held.items()}
    # Ends of quantiles are values, and means know that nobody saw into the bins: both may hold more than they need to.
    at_least = ("median", "90 % below", *(("mean", "a", "b", "c") if wide else ()))
    assert all(own >= 0.92 for own in part.values()), part
    assert all(own <= 0.985 for name, own in part.items() if name not in at_least), part


@pytest.mark.thorough
def test_a_tail_in_one_bin_is_anywhere_in_it() -> None:
    """Rows that were made evenly put it twice as far out as it is: no mean is told so nearly that this shows."""
    random, held = np.random.default_rng(37), []
    long = np.concatenate([np.arange(20), np.full(STAYS - 20, 20), [21]]).astype(np.int32)
    made = np.arange(STAYS)
    for _ in range(200):
        tables = [in_bins(one, long) if "stay" in one.columns else one for one in drawn(random, 2.0)]
        found = {one.name: one for one in column_numbers(tables, COLUMNS["stay"], made, CONFIG)}
        rows = np.column_stack([made, made % 4])
        found |= {one.name: one for one in group_numbers(tables, COLUMNS["stay"], COLUMNS["ward"], rows, CONFIG)}
        held.append([found[name].low <= truths()[name] <= found[name].high for name in ("mean", "a", "b")])
    assert np.mean(held, axis=0).min() >= 0.92


@pytest.mark.thorough
def test_without_the_noise_in_it_an_interval_is_too_short() -> None:
    random, told = np.random.default_rng(31), []
    for _ in range(200):
        tables = drawn(random, 25.0)
        blind = [replace(one, noise_std=np.full(one.noise_std.shape, 1e-3)) for one in tables]
        mean = numbers(blind)["mean"]
        told.append(mean.low <= truths()["mean"] <= mean.high)
    assert np.mean(told) < 0.8


def test_a_share_without_noise_has_the_interval_of_wilson() -> None:
    """10 of 100: .0552 to .1744, as textbooks have it."""
    low, high = share_interval(10.0, 0.0, RowCount(100.0, 0.0, public=True), rows_per_unit=1)
    assert (low, high) == (pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))


@pytest.mark.parametrize("count", [-500.0, -3.0, 0.0, 99.0, 100.0, 800.0])
def test_a_share_lies_between_nothing_and_all(count: float) -> None:
    low, high = share_interval(count, 5.0, RowCount(100.0, 2.0, public=False), rows_per_unit=3)
    assert 0.0 <= low < high <= 1.0


def test_of_an_unknown_number_of_rows_no_quantile_is_told() -> None:
    assert quantile_places(np.array([3.0, -2.0]), np.array([5.0, 5.0]), [0.5], rows_per_unit=1) == [None]


def test_rows_of_one_unit_are_taken_to_be_alike() -> None:
    tables = drawn(np.random.default_rng(1), 0.01)
    several = replace(CONFIG, schema=replace(SCHEMA, unit=PrivacyUnit("person", 4)))
    one, other = (numbers(tables, config) for config in (CONFIG, several))
    for name in ("mean", "a", "share missing", "a, n"):
        width, wider = (own[name].high - own[name].low for own in (one, other))
        assert wider == pytest.approx(2 * width, rel=0.02), name


def test_a_sum_beside_classes_that_mix_values_with_missing_cells() -> None:
    # The table of the column by itself says nothing about where its rows are; that of a pair does.
    cube = np.random.default_rng(11).multinomial(ROWS, law().reshape(-1)).reshape(law().shape)
    pair = of(("ward", "stay"), cube, 2.0, np.random.default_rng(12))
    by_itself = of(("stay",), cube, 1.0, np.random.default_rng(13))
    classes = (np.append(np.arange(STAYS), 7) % 10 == 0).astype(np.int32)
    counts = np.bincount(classes, by_itself.measured)
    mixed = replace(
        by_itself, bins=(Bins.of_codes(classes),), measured=counts, synthetic=counts, noise_std=np.ones(len(counts))
    )
    steps = np.append(np.arange(STAYS) / STAYS, 0.0)
    summed = SummedNumber(steps, Bins.of_codes(np.arange(STAYS + 1)), float(cube.sum(axis=(0, 2)) @ steps), 1.0)
    codes = np.repeat(np.arange(STAYS), 3)
    found = column_numbers([mixed, pair], COLUMNS["stay"], codes, CONFIG, summed)
    assert found == column_numbers([mixed, pair], COLUMNS["stay"], codes, CONFIG)
    assert found[0].name == "mean"


def test_a_table_with_more_columns_is_summed_where_that_says_more() -> None:
    random = np.random.default_rng(2)
    exact, rough = drawn(random, 0.01), drawn(random, 60.0)
    tables = [exact[3], *rough[:3]]
    by_pair = column_numbers(tables, COLUMNS["stay"], np.arange(STAYS), CONFIG)
    alone = column_numbers(rough[:3], COLUMNS["stay"], np.arange(STAYS), CONFIG)
    assert by_pair[0].high - by_pair[0].low < 0.5 * (alone[0].high - alone[0].low)


def test_a_column_that_nobody_counted_has_no_numbers() -> None:
    tables = drawn(np.random.default_rng(2), 1.0)
    assert column_numbers(tables, COLUMNS["seen"], np.arange(366), CONFIG) == []
    assert group_numbers(tables[:3], COLUMNS["stay"], COLUMNS["ward"], np.zeros((4, 2), int), CONFIG) == []


def published(config: RunConfig, tables: list[ComparedTable], rows: int = 400) -> list:
    random = np.random.default_rng(5)
    codes = [random.integers(column.size, size=rows) for column in config.schema.modelled]
    known = tables[0].rows
    answers = PaidAnswers(config, codes, rows, (), (), (), (), known, tuple(tables), tuple(tables))
    assert REPORT.public is not None
    return list(REPORT.public(answers))


def test_the_report_lists_columns_groups_and_pairs() -> None:
    random = np.random.default_rng(3)
    days = random.multinomial(ROWS, np.full(366, 1 / 366)).astype(float)
    seen = replace(
        drawn(random, 2.0)[0],
        columns=("seen",),
        bins=(Bins.of_codes(np.arange(366)),),
        measured=days,
        synthetic=days,
        control=days,
        noise_std=np.full(366, 2.0),
    )
    found = {entry.id: entry for entry in published(CONFIG, [*drawn(random, 2.0), seen])}
    assert list(found) == [
        *(f"intervals.column.{name}" for name in ("ward", "stay", "ill", "seen")),
        "intervals.groups.mean stay by ward",
        "intervals.groups.share of ill by ward",
        "intervals.pair.ward and ill",
    ]
    for entry in found.values():
        (table,) = entry.figures
        assert isinstance(table, Table)
        assert f"{entry.value} of {len(table.rows)} synthetic numbers" in table.title
        json.dumps(table.rows, allow_nan=False)
    # Rows were made evenly, and the population has a long tail: the report says that the mean lies outside.
    (table,) = found["intervals.column.stay"].figures
    mean = table.rows[0]
    assert mean[0] == "mean"
    assert not mean[2] <= mean[1] <= mean[3]
    assert found["intervals.column.stay"].value < 3
    # Dates have quantiles as dates.
    (table,) = found["intervals.column.seen"].figures
    assert [str(row[1])[:5] for row in table.rows] == ["2020-"] * 5


def test_the_screen_offers_them_by_name() -> None:
    found = published(CONFIG, drawn(np.random.default_rng(3), 2.0))
    panels = REPORT.screens[0].panels(Shown(CONFIG, tuple(found)))
    columns = next(panel for panel in panels if isinstance(panel, Pick))
    assert [option.name for option in columns.options] == ["ward", "stay", "ill"]
    folded = [panel for panel in panels if isinstance(panel, Folded)]
    assert [panel.title for panel in folded] == ["Inside groups", "Two columns together"]


def test_where_nothing_was_counted_nothing_is_said() -> None:
    assert published(CONFIG, [replace(drawn(np.random.default_rng(3), 2.0)[4])])[0].id == "intervals.column.ward"
    assert REPORT.screens[0].panels(Shown(CONFIG, ())) == []
