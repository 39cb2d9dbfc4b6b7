"""Distributions, missing cells and associations: exact against other libraries, and no trouble with odd tables."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest
from scipy import stats

from synth.reports.controls import anchored
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.fidelity import owner_fidelity
from synth.reports.fidelity.distances import (
    Associations,
    apart_codes,
    compare_scales,
    quantiles,
    scale_unit,
    scale_values,
)
from synth.reports.figures import MAXIMUM_POINTS, Bars, HeatMap, Table, figure_from_dict, figure_to_dict
from synth.schema import CategoryColumn, DateColumn, DateStep, NumberColumn, Schema, YesNoColumn

COARSE = NumberColumn("coarse", -5, 5, 0.5, special=(99,), missing=True)
FINE = NumberColumn("fine", 0, 2**20, 1)
SCHEMA = Schema(
    (
        COARSE,
        FINE,
        CategoryColumn("town", ("a", "b", "c"), missing=True),
        YesNoColumn("ill"),
        DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2021, 12, 31), DateStep.MONTH),
    )
)


def drawn(schema: Schema, rows: int, seed: int) -> list[np.ndarray]:
    """Draw codes that hang together by a hidden cause."""
    random = np.random.default_rng(seed)
    cause = random.random(rows)
    return [
        np.minimum((size * (0.7 * cause + 0.3 * random.random(rows))).astype(np.int64), size - 1)
        for size in schema.sizes
    ]


def reported(real: list[np.ndarray], made: list[np.ndarray], schema: Schema) -> dict[str, OwnerOnlyEvidence]:
    tables = anchored(real, made, schema, control_noise=3.0, seed=0)
    found = owner_fidelity(tables)
    assert {type(entry) for entry in found} <= {OwnerOnlyEvidence}
    return {entry.id: entry for entry in found}


@pytest.mark.parametrize("column", [COARSE, FINE], ids=lambda column: column.name)
def test_distances_of_numbers_are_those_of_scipy(column: NumberColumn) -> None:
    random = np.random.default_rng(3)
    left = random.binomial(column.levels - 1, 0.3, 400)
    right = np.concatenate([random.binomial(column.levels - 1, 0.4, 250), [0, column.levels - 1]])
    # Codes beside the scale change nothing.
    beside = list(range(column.levels, column.size)) * 30
    found = compare_scales(column, np.concatenate([left, beside]).astype(int), np.append(right, beside[:7]).astype(int))
    assert found is not None
    assert found.ks == pytest.approx(stats.ks_2samp(left, right).statistic, abs=1e-12)
    length = column.levels - 1
    assert found.wasserstein == pytest.approx(stats.wasserstein_distance(left, right) / length, abs=1e-12)
    assert scale_unit(column) == (column.step * length, "")


def test_a_column_without_values_has_no_distance() -> None:
    nothing = np.full(20, COARSE.missing_code)
    assert compare_scales(COARSE, nothing, np.arange(10)) is None
    assert quantiles(COARSE, nothing) is None


def test_quantiles_are_values_of_the_declared_grid() -> None:
    codes = np.repeat(np.arange(20), 10)[:197]
    found = quantiles(COARSE, np.append(codes, [21, 22]))
    assert found is not None
    assert len(found) == 99
    expected = np.quantile(codes, np.arange(1, 100) / 100, method="inverted_cdf")
    assert found.tolist() == expected.tolist()
    assert scale_values(COARSE, found)[:2] == (-5.0, -5.0)
    seen = SCHEMA.modelled_column("seen")
    assert scale_unit(seen) == (23.0, "months")
    assert scale_values(seen, np.array([0, 23])) == (0.0, 23.0)


def test_cells_beside_the_values_have_names() -> None:
    assert apart_codes(COARSE) == ((21, "99.0"), (22, "missing"))
    assert apart_codes(SCHEMA.modelled_column("town")) == ((3, "missing"),)
    assert apart_codes(SCHEMA.modelled_column("ill")) == ()


def test_a_correlation_is_that_of_rows_with_both_values() -> None:
    table = drawn(SCHEMA, 500, seed=1)
    (found,) = Associations(table, SCHEMA).of([(0, 1)])
    known = table[0] < COARSE.levels
    assert 0 < known.sum() < 500
    assert found == pytest.approx(np.corrcoef(table[0][known], table[1][known])[0, 1], abs=1e-12)
    assert Associations(table, SCHEMA).of([(4, 1)])[0] == pytest.approx(np.corrcoef(table[4], table[1])[0, 1])


def test_a_correlation_ratio_agrees_with_an_analysis_of_variance() -> None:
    table = drawn(SCHEMA, 300, seed=2)
    groups = [table[1][table[2] == code] for code in range(4)]
    ratio = stats.f_oneway(*groups).statistic
    # F = (B / 3) / (W / 296), and Kelley's estimate is 1 - (W / 296) / ((B + W) / 299).
    between = 3 * ratio / (3 * ratio + 296)
    expected = math.sqrt(1 - (1 - between) * 299 / 296)
    assert Associations(table, SCHEMA).of([(1, 2)])[0] == pytest.approx(expected, abs=1e-12)
    assert Associations(table, SCHEMA).of([(2, 1)])[0] == pytest.approx(expected, abs=1e-12)


def test_cramer_agrees_with_a_test_of_independence() -> None:
    table = drawn(SCHEMA, 400, seed=3)
    counts = np.zeros((4, 2))
    np.add.at(counts, (table[2], table[3]), 1)
    phi = stats.chi2_contingency(counts, correction=False).statistic / 400 - 3 * 1 / 399
    expected = math.sqrt(phi / (min(4 - 9 / 399, 2 - 1 / 399) - 1))
    assert Associations(table, SCHEMA).of([(2, 3)])[0] == pytest.approx(expected, abs=1e-12)


def test_chance_alone_makes_no_association() -> None:
    schema = Schema(
        (
            CategoryColumn("a", tuple(map(str, range(40)))),
            CategoryColumn("b", tuple(map(str, range(30)))),
            NumberColumn("c", 0, 9, 1),
        )
    )
    random = np.random.default_rng(5)
    found = [
        Associations([random.integers(size, size=400) for size in schema.sizes], schema).of([(0, 1), (0, 2)])
        for _ in range(40)
    ]
    # Uncorrected, Cramer's V would be near sqrt(39 * 29 / 400 / 29) = 0.31 and the ratio near sqrt(39 / 399) = 0.31.
    assert np.mean(found) < 0.1


def test_a_copy_differs_in_nothing_and_shuffled_columns_lose_associations() -> None:
    real = drawn(SCHEMA, 2000, seed=1)
    copied = reported(real, real, SCHEMA)
    for name in ("ks", "wasserstein", "apart", "associations"):
        assert copied[f"fidelity.{name}"].value == pytest.approx(0, abs=1e-12)
    random = np.random.default_rng(2)
    shuffled = reported(real, [random.permutation(codes) for codes in real], SCHEMA)
    assert shuffled["fidelity.ks"].value == pytest.approx(0, abs=1e-12)
    assert shuffled["fidelity.associations"].value > 0.5  # type: ignore[operator]
    assert shuffled["fidelity.associations_floor"].value < 0.05  # type: ignore[operator]


def test_pictures_are_small_and_come_back_from_json() -> None:
    found = reported(drawn(SCHEMA, 300, seed=1), drawn(SCHEMA, 200, seed=2), SCHEMA)
    (picture,) = found["fidelity.quantiles.coarse"].figures
    assert isinstance(picture, Bars)
    assert picture.joined
    assert {len(series.values) for series in picture.series} == {99}
    assert figure_from_dict(figure_to_dict(picture)) == picture
    plain = Bars("t", "u", ("a",), ())
    assert "joined" not in figure_to_dict(plain)
    assert figure_from_dict(figure_to_dict(plain)) == plain
    assert {name for name in found if "quantiles" in name} == {
        f"fidelity.quantiles.{name}" for name in ("coarse", "fine", "seen")
    }


def test_the_same_seed_gives_the_same_numbers() -> None:
    real, made = drawn(SCHEMA, 300, seed=1), drawn(SCHEMA, 200, seed=2)
    assert reported(real, made, SCHEMA) == reported(real, made, SCHEMA)


SCALES = {"ks", "wasserstein", "scales", "quantiles.n"}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            (NumberColumn("n", 0, 9, 1, missing=True),),
            SCALES | {"apart", "apart_cells"},
        ),
        ((CategoryColumn("c", ("x",)),), set()),
        ((YesNoColumn("y"), CategoryColumn("c", ("x", "y"))), {"associations"}),
        (
            (NumberColumn("n", 0, 1, 2), YesNoColumn("y")),
            SCALES | {"associations"},
        ),
    ],
    ids=["one number", "one constant", "no numbers", "a grid of one place"],
)
@pytest.mark.parametrize("rows", [1, 200])
def test_odd_tables(columns: tuple, expected: set[str], rows: int) -> None:
    schema = Schema(columns)
    found = reported(drawn(schema, rows, seed=1), drawn(schema, 50, seed=2), schema)
    names = {name.removeprefix("fidelity.") for name in found}
    assert {name for name in names if not name.startswith("associations_")} == expected


def test_columns_that_are_all_missing_or_constant_are_no_problem() -> None:
    schema = Schema((COARSE, NumberColumn("n", 0, 9, 1, missing=True), CategoryColumn("c", ("x", "y"), missing=True)))
    gone = [np.full(200, 22), np.full(200, 10), np.full(200, 2)]
    constant = [np.full(200, 4), np.full(200, 3), np.zeros(200, dtype=int)]
    found = reported(gone, constant, schema)
    assert "fidelity.ks" not in found
    assert found["fidelity.apart"].value == pytest.approx(3 / 4)
    assert found["fidelity.associations"].value == 0.0
    assert reported(constant, constant, schema)["fidelity.ks"].value == 0.0
    (table,) = found["fidelity.apart_cells"].figures
    assert isinstance(table, Table)
    assert ("coarse", "missing") in {row[:2] for row in table.rows}


def test_wide_tables_are_sampled_and_shown_in_part() -> None:
    schema = Schema(tuple(NumberColumn(f"c{place}", 0, 3, 1) for place in range(120)))
    told: list[tuple[int, int]] = []
    tables = anchored(drawn(schema, 300, seed=1), drawn(schema, 300, seed=2), schema, control_noise=2.0, seed=0)
    found = {entry.id: entry for entry in owner_fidelity(tables, limit=500, on_step=lambda *at: told.append(at))}
    assert "500 of 7,140" in found["fidelity.associations"].sentence
    (square,) = found["fidelity.associations_map"].figures
    assert isinstance(square, HeatMap)
    assert len(square.names) == 40
    (table,) = found["fidelity.scales"].figures
    assert isinstance(table, Table)
    assert len(table.rows) <= MAXIMUM_POINTS
    assert told[-1] == (2000, 2000)
    assert told == sorted(told)
