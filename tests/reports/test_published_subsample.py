"""The publishable sub-sample: an exact law, a lower bound for the rows, and silence where nothing was measured."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from synth.privacy.answers import RowCount
from synth.reports.evidence import SafeEvidence
from synth.reports.fidelity.subsample import subsample_scale
from synth.reports.measured import ComparedTable
from synth.reports.overview import expected_distance, published_subsample
from synth.schema import CategoryColumn, Schema


def compared(measured: np.ndarray, synthetic: np.ndarray, noise: float, columns: tuple[str, ...]) -> ComparedTable:
    return ComparedTable(
        columns=columns,
        bins=tuple(np.arange(size, dtype=np.int32) for size in measured.shape),
        measured=measured,
        synthetic=synthetic * (measured.sum() / synthetic.sum()),
        control=synthetic,
        noise_std=np.full(measured.shape, noise),
        rows=RowCount(float(measured.sum()), 0.0, public=True),
        titles=columns,
    )


@pytest.mark.parametrize("size", [1, 7, 200])
def test_the_mean_deviation_of_a_share_is_exact(size: int) -> None:
    shares = np.array([0.0, 0.004, 0.096, 0.3, 0.6])
    counts = np.arange(size + 1)
    exact = sum(float((np.abs(counts / size - share) * stats.binom.pmf(counts, size, share)).sum()) for share in shares)
    assert expected_distance(shares, size, 1e12) == pytest.approx(exact / 2, rel=1e-6)
    assert expected_distance(shares, size, float(size)) == 0.0
    assert expected_distance(np.array([1.0]), size, 1e12) == 0.0


def numbers(*tables: ComparedTable) -> tuple[float, float]:
    """Return the accuracy of the counts and the least accuracy of the rows, in percent."""
    (entry,) = published_subsample(tables)
    assert type(entry) is SafeEvidence
    assert isinstance(entry.value, float)
    return entry.value, float(entry.sentence.rpartition("sub-sample of ")[2].split()[0])


def test_counts_and_rows_have_their_place_on_the_scale() -> None:
    random = np.random.default_rng(1)
    schema = Schema((CategoryColumn("a", tuple("abcdefgh")), CategoryColumn("b", tuple("stuvwxyz"))))
    left = random.integers(0, 8, 20_000)
    real = [left, (left + random.integers(0, 3, 20_000)) % 8]
    kept = random.choice(20_000, 2000, replace=False)
    made = [codes[kept] for codes in real]
    counts = [np.histogram2d(*table, bins=[np.arange(9)] * 2)[0] for table in (real, made)]
    scale = subsample_scale(real, [made], schema)
    assert scale is not None
    exact = scale.percentages[0]
    assert exact == pytest.approx(10, rel=0.3)
    places = []
    for noise in (0.01, 2.0, 10.0, 40.0):
        measured = counts[0] + random.normal(0, noise, (8, 8))
        places.append(numbers(compared(measured, counts[1], noise, ("a", "b"))))
    # Without noise the rows are known to be what they are, and more noise only takes certainty away.
    assert places[0][1] == pytest.approx(exact, rel=0.3)
    assert all(least < 1.3 * exact for _, least in places)  # type: ignore[operator]
    for side in (0, 1):
        assert [pair[side] for pair in places] == sorted((pair[side] for pair in places), reverse=True)
    # 24 of 64 cells hold 833 rows each. A cell of a sub-sample of m rows is off by sqrt(833 / 20000 * 20000^2 / m).
    noise_of_all = 64 * 40.0
    size = (24 * np.sqrt(833 * 20_000) / noise_of_all) ** 2
    assert places[3][0] == pytest.approx(100 / (1 + 20_000 / size), rel=0.1)


def test_pairs_come_before_single_columns() -> None:
    single = compared(np.array([50.0, 50.0]), np.array([50.0, 50.0]), 1.0, ("a",))
    pair = compared(np.full((2, 2), 25.0), np.full((2, 2), 25.0), 1.0, ("a", "b"))
    for tables, word in (([single], "single columns"), ([single, pair], "pairs of columns")):
        (entry,) = published_subsample(tables)
        assert f"the 1 noisy tables of {word}" in entry.sentence


def test_nothing_measured_or_one_row_say_nothing() -> None:
    assert published_subsample([]) == ()
    assert published_subsample([compared(np.array([1.0, 0.0]), np.array([1.0, 0.0]), 1.0, ("a",))]) == ()


def test_where_noise_hides_everything_hardly_a_row_is_claimed() -> None:
    one = compared(np.array([60.0, 40.0]), np.array([60.0, 40.0]), 500.0, ("a",))
    assert numbers(one) == pytest.approx((1.0, 1.0))
