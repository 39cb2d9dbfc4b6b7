"""The owner's marginals: a copy scores zero, the control loses on pairs, and wide or narrow tables are no problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from synth.reports.code_tables import compare_marginals
from synth.reports.controls import anchored
from synth.reports.document import owner_document
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.marginals import owner_marginals
from synth.schema import CategoryColumn, NumberColumn, Schema


def rows_of(schema: Schema, rows: int, *, seed: int, together: float = 0.8) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    cause = random.random(rows)
    places = [together * cause + (1 - together) * random.random(rows) for _ in schema.modelled]
    return [np.minimum((size * place).astype(int), size - 1) for size, place in zip(schema.sizes, places, strict=True)]


SCHEMA = Schema(
    (
        NumberColumn("age", 0, 99, 1, missing=True),
        NumberColumn("income", 0, 1e6, 1),
        CategoryColumn("region", ("n", "s", "e", "w")),
        CategoryColumn("class", ("a", "b", "c")),
    )
)


def owner(
    real: list[np.ndarray], made: list[np.ndarray], schema: Schema, *, control_noise: float, **options: Any
) -> tuple[OwnerOnlyEvidence, ...]:
    return owner_marginals(anchored(real, made, schema, control_noise=control_noise, seed=0), **options)


def values(evidence: tuple[OwnerOnlyEvidence, ...]) -> dict[str, object]:
    return {entry.id: entry.value for entry in evidence}


def test_a_copy_has_no_distance_and_an_honest_table_sits_on_the_floor() -> None:
    real = rows_of(SCHEMA, 3000, seed=1)
    copied = values(owner(real, real, SCHEMA, control_noise=5.0))
    fresh = values(owner(real, rows_of(SCHEMA, 3000, seed=2), SCHEMA, control_noise=5.0))
    for alpha in (1, 2, 3, 4):
        assert copied[f"marginals.{alpha}.mean"] == 0.0
        floor, mean = fresh[f"marginals.{alpha}.coarse_floor"], fresh[f"marginals.{alpha}.coarse_mean"]
        # A second draw of the same law differs by sqrt(2) of a bootstrap, not by twice or by half of it.
        assert 0.8 * floor < mean < 2 * floor  # type: ignore[operator]
        if alpha > 1:
            assert fresh[f"marginals.{alpha}.coarse_independent"] > 2 * mean  # type: ignore[operator]
    assert (fresh["marginals.2.evaluated"], fresh["marginals.2.of"]) == (6, 6)
    # One bin per code is sampling noise alone where nearly every row has its own value; the coarse variant is not.
    assert fresh["marginals.1.mean"] > 3 * fresh["marginals.1.coarse_mean"]  # type: ignore[operator]


def test_every_number_is_for_the_owner_only() -> None:
    real = rows_of(SCHEMA, 300, seed=1)
    evidence = owner(real, rows_of(SCHEMA, 200, seed=2), SCHEMA, control_noise=5.0)
    assert {type(entry) for entry in evidence} == {OwnerOnlyEvidence}
    assert all("do not publish" in entry.sentence for entry in evidence)
    document = owner_document(evidence)
    assert set(document["marginals"]["3"]) >= {
        "mean",
        "independent",
        "floor",
        "evaluated",
        "of",
        "worst",
        "coarse_mean",
    }
    assert len(document["marginals"]["2"]["worst"]) == 6
    assert set(document["marginals"]["2"]["worst"][0]) == {"columns", "synthetic", "independent", "floor"}


def test_more_noise_makes_a_worse_control() -> None:
    real = rows_of(SCHEMA, 2000, seed=1)
    made = rows_of(SCHEMA, 2000, seed=2)
    quiet, loud = (
        values(owner(real, made, SCHEMA, control_noise=noise))["marginals.1.coarse_independent"]
        for noise in (0.1, 300.0)
    )
    assert loud > 3 * quiet  # type: ignore[operator]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ((CategoryColumn("only", ("a",)),), 1),
        ((CategoryColumn("only", ("a", "b")),), 5),
        ((CategoryColumn("a", ("x",)), CategoryColumn("b", tuple(map(str, range(60))))), 40),
        ((NumberColumn("a", 0, 1, 1, missing=True), NumberColumn("b", 0, 2**24 - 1, 1)), 30),
    ],
)
def test_small_tables(columns: tuple, rows: int) -> None:
    schema = Schema(columns)
    found = values(owner(rows_of(schema, rows, seed=1), rows_of(schema, 7, seed=2), schema, control_noise=2.0))
    width = len(columns)
    assert found[f"marginals.{width}.evaluated"] == 1
    assert found[f"marginals.{width + 1}.mean"] is None
    assert found[f"marginals.{width + 1}.of"] == 0
    assert ("marginals.2.map" in found) == (width > 1)


def test_wide_tables_are_sampled_and_say_so() -> None:
    schema = Schema(tuple(NumberColumn(f"c{place}", 0, 3, 1) for place in range(200)))
    told: list[tuple[int, int]] = []
    evidence = owner(
        rows_of(schema, 400, seed=1),
        rows_of(schema, 400, seed=2),
        schema,
        control_noise=2.0,
        limit=150,
        on_step=lambda *at: told.append(at),
    )
    found = {entry.id: entry for entry in evidence}
    assert found["marginals.2.evaluated"].value == 150
    assert found["marginals.2.of"].value == 19_900
    assert "150 of 19,900" in found["marginals.2.mean"].sentence
    figure = found["marginals.2.map"].figures[0]
    assert len(figure.names) == 40  # type: ignore[union-attr]
    assert all(cell is not None for row in figure.values for cell in row)  # type: ignore[union-attr]
    assert told[-1][0] == told[-1][1]
    assert told == sorted(told)


def test_the_heat_map_is_symmetric_with_columns_on_its_diagonal() -> None:
    real, made = rows_of(SCHEMA, 500, seed=1), rows_of(SCHEMA, 400, seed=2)
    found = compare_marginals([real, made], SCHEMA)
    square = np.array(found.pairs("Pairs", "").values)
    assert np.array_equal(square, square.T)
    assert np.diag(square).tolist() == found.by_alpha[1].distances[:, 0].tolist()


def test_large_tables_are_sampled() -> None:
    real, made = rows_of(SCHEMA, 5000, seed=1), rows_of(SCHEMA, 5000, seed=2)
    tables = anchored(real, made, SCHEMA, control_noise=2.0, seed=0, maximum_rows=1000)
    assert {len(table[0]) for table in tables.tables} == {1000}
    found = owner_marginals(tables)
    assert values(found)["marginals.1.coarse_mean"] < 0.2  # type: ignore[operator]
