"""Publishable distributions: right by hand, covered by their range, and silent where counts cannot tell."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import RowCount
from synth.privacy.bins import Bins
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reports.document import published_evidence
from synth.reports.evidence import SafeEvidence, evidence_to_dict
from synth.reports.fidelity.distances import compare_scales
from synth.reports.fidelity.published import published_fidelity
from synth.reports.figures import Table
from synth.reports.measured import EVALUATION_QUERY, ComparedTable, evaluation_question
from synth.schema import CategoryColumn, Neighbours, NumberColumn, RunConfig, Schema

COLUMN = NumberColumn("age", 0, 5, 1, special=(9,), missing=True)
SCHEMA = Schema((COLUMN, CategoryColumn("town", ("a", "b"), missing=True)))
PLAIN = np.arange(8, dtype=np.int32)


def compared(
    measured: list[float], synthetic: list[float], bins: np.ndarray = PLAIN, *, noise: float, name: str = "age"
) -> ComparedTable:
    return ComparedTable(
        columns=(name,),
        bins=(Bins.of_codes(bins),),
        measured=np.array(measured),
        synthetic=np.array(synthetic),
        control=np.array(synthetic),
        noise_std=np.full(len(measured), noise),
        rows=RowCount(float(sum(synthetic)), 0.0, public=True),
        titles=(name,),
    )


def published(*tables: ComparedTable) -> dict[str, SafeEvidence]:
    return {entry.id: entry for entry in published_fidelity(tables, SCHEMA)}


def test_distances_and_ranges_by_hand() -> None:
    found = published(compared([10, 20, 30, 20, 10, 10, 60, 40], [20, 20, 20, 20, 10, 10, 80, 20], noise=1.0))
    ks, moved, apart = (found[f"fidelity.{name}"] for name in ("ks", "wasserstein", "apart"))
    # 100 rows on the scale: shares up to 0 are .1 and .2, up to 1 are .3 and .4, then equal.
    assert ks.value == pytest.approx(0.1)
    assert moved.value == pytest.approx(0.2 / 5)
    assert ks.error == moved.error == pytest.approx(2.497705 * np.sqrt(6) / 100)
    assert apart.value == pytest.approx(20 / 200)
    assert apart.error == pytest.approx(1.959964 / 200)
    (table,) = found["fidelity.scales"].figures
    assert isinstance(table, Table)
    assert table.rows[0][0] == "age"
    assert table.rows[0][-1] == "0.2"
    (table,) = found["fidelity.apart_cells"].figures
    assert isinstance(table, Table)
    assert {row[:2] for row in table.rows} == {("age", "9"), ("age", "missing")}


def test_merged_bins_stand_in_their_middle() -> None:
    bins = np.array([0, 0, 1, 1, 2, 2, 3, 3], dtype=np.int32)
    found = published(compared([50, 0, 50, 10], [0, 0, 100, 10], bins, noise=0.1))
    assert found["fidelity.wasserstein"].value == pytest.approx(0.5 * 4 / 5)
    # Special and missing share a bin here, so neither was counted by itself.
    assert "fidelity.apart" not in found


@pytest.mark.parametrize(
    "table",
    [
        compared([5, 5, 5, 5, 5, 5, 5, 5], [5.0] * 8, noise=10.0),
        compared([-50, 5, 5, 5, 5, 5, 90, 5], [5.0] * 8, noise=0.1),
        compared([5, 5, 5, 5, 5, 5, 5, 5], [0, 0, 0, 0, 0, 0, 20, 20], noise=0.1),
        compared([30, 30], [30, 30], np.array([0, 1, 0, 1, 0, 1, 0, 1], dtype=np.int32), noise=0.1),
        compared([30, 30], [30, 30], np.array([0, 0, 0, 1, 1, 1, 1, 1], dtype=np.int32), noise=0.1),
    ],
    ids=["noise", "nothing on the scale", "no synthetic value", "out of order", "mixed with missing"],
)
def test_counts_that_cannot_tell_say_so(table: ComparedTable) -> None:
    found = published(table)
    assert "fidelity.wasserstein" not in found
    # Nothing at all where the bins do not follow the scale.
    assert ("fidelity.ks" in found) == (len(table.measured) > 2)
    if "fidelity.ks" in found:
        assert found["fidelity.ks"].value is None
        assert "noise hides" in found["fidelity.ks"].sentence


def test_categories_have_no_scale() -> None:
    found = published(compared([10, 20, 3], [10, 20, 3], np.arange(3, dtype=np.int32), noise=0.5, name="town"))
    assert set(found) == {"fidelity.apart", "fidelity.apart_cells"}


def test_the_range_covers_the_exact_distance() -> None:
    """Of 400 noisy tables at most 5 % miss, the worst case of the bound; three deviations more would be a fault."""
    random = np.random.default_rng(7)
    column = NumberColumn("age", 0, 63, 1)
    schema = Schema((column,))
    private, made = random.binomial(63, 0.3, 3000), random.binomial(63, 0.32, 2000)
    exact = compare_scales(column, private, made)
    assert exact is not None
    counts = np.bincount(private, minlength=64)
    shares = np.bincount(made, minlength=64) * 1.5
    missed = 0
    for _ in range(400):
        noisy = (counts + np.round(random.normal(0, 12, 64))).tolist()
        one = compared(noisy, shares.tolist(), np.arange(64, dtype=np.int32), noise=12.0)
        found = {entry.id: entry for entry in published_fidelity([one], schema)}
        for name, value in (("ks", exact.ks), ("wasserstein", exact.wasserstein)):
            entry = found[f"fidelity.{name}"]
            missed += abs(entry.value - value) > entry.error  # type: ignore[operator]
    assert missed <= 2 * (400 * 0.05 + 3 * 4.4)


@pytest.mark.thorough
def test_nothing_changes_when_the_private_table_is_gone() -> None:
    random = np.random.default_rng(1)
    codes = {"age": random.integers(0, 8, 3000), "town": random.integers(0, 3, 3000)}
    table = PrivateTable.from_codes(SCHEMA, codes)
    budget = PrivacyBudget(epsilon=4.0, delta=1e-6, neighbours=Neighbours.REPLACE)
    session = PrivateSession(table, budget)
    session.noisy_sum(
        evaluation_question(SCHEMA), share=session.remaining_share, query=EVALUATION_QUERY, source="report"
    )
    releases = session.sums
    config = RunConfig(schema=SCHEMA, account="a", epsilon=4.0, delta=1e-6, people_at_most=10_000, rows=500)
    synthetic = np.column_stack([random.integers(0, 8, 500), random.integers(0, 3, 500)])

    def report() -> list[dict[str, object]]:
        found = published_evidence(synthetic, releases, config, rows=RowCount(3000.0, 0.0, public=True))
        assert {type(entry) for entry in found} == {SafeEvidence}
        return [evidence_to_dict(entry) for entry in found]

    before = report()
    del table, session, codes
    gc.collect()
    assert report() == before
    assert {"fidelity.ks", "fidelity.wasserstein", "fidelity.apart"} <= {entry["id"] for entry in before}
