"""Binnings kept as runs or pages say the same as the plain array of every code's bin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.bins import MOST_RUNS, PAGE, Bins, pieces

ARRAYS = st.one_of(
    st.lists(st.integers(0, 5), min_size=1, max_size=200),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 500)), min_size=1, max_size=60).map(
        lambda runs: [one for one, width in runs for _ in range(width)]
    ),
).map(lambda bins: np.array(bins, dtype=np.int32))


def digits(size: int) -> NDArray[np.int32]:
    """Bins that change with nearly every code: by trailing zeros, last digit and length."""
    codes = np.arange(size)
    zeros = sum((codes % 10**power == 0).astype(int) for power in range(1, 5))
    return (zeros * 100 + codes % 10 + 10 * np.searchsorted([1000, 10_000, 100_000], codes)).astype(np.int32)


PAGED = [digits(MOST_RUNS * 2 + extra) for extra in (0, 1, PAGE - 7)] + [
    np.random.default_rng(1).integers(0, 9, MOST_RUNS + 20_000).astype(np.int32)
]


def holds(bins: Bins, each: NDArray[np.int32]) -> None:
    """Compare a binning with the plain array in everything that it says."""
    random = np.random.default_rng(3)
    codes = random.integers(0, len(each), 300)
    assert (bins.size, bins.count) == (len(each), each.max() + 1)
    assert (bins[codes] == each[codes]).all()
    assert (bins[codes[:1]] == each[codes[:1]]).all()
    assert (bins.plain() == each).all()
    start, end = sorted(random.integers(0, len(each) + 1, 2).tolist())
    if start < end:
        assert (bins.between(start, end) == each[start:end]).all()
    assert (bins.widths == np.bincount(each)).all()
    assert (bins.used == np.unique(each)).all()
    assert set(np.flatnonzero(np.diff(each, prepend=-1))) <= set(bins.edges.tolist())
    other = Bins.of_codes(np.arange(len(each), dtype=np.int32) // 7)
    of_pieces = [
        (a, b, *own)
        for first, last, both in pieces(start, end, bins, other)
        for a, b, *own in zip(first.tolist(), last.tolist(), *both, strict=True)
    ]
    assert [code for a, b, *_ in of_pieces for code in range(a, b + 1)] == list(range(start, end))
    assert all((each[a : b + 1] == one).all() and a // 7 == b // 7 == two for a, b, one, two in of_pieces)
    assert bins.is_identity == (each == np.arange(len(each))).all()
    groups = random.integers(0, 3, bins.count).astype(np.int32)
    assert bins.merged(groups) == Bins.of_codes(groups[each])
    names = random.permutation(bins.count).astype(np.int32)
    assert bins.merged(names) == Bins.of_codes(names[each])
    assert bins.followed_by(1, len(each) + 3) == Bins.of_codes(np.append(each, [1, 1, 1]))
    wanted = each[codes]
    ranks = (random.random(300) * np.bincount(each)[wanted]).astype(np.int64)
    order = np.argsort(each, kind="stable")
    firsts = np.cumsum(np.bincount(each)) - np.bincount(each)
    assert (bins.codes(wanted, ranks) == order[firsts[wanted] + ranks]).all()
    arrays: dict[str, NDArray[np.int32]] = {}
    said = bins.to_json("bins", arrays)
    assert Bins.from_json(said, arrays) == bins


@given(each=ARRAYS)
@settings(max_examples=150, deadline=None)
def test_runs_say_what_the_plain_array_says(each: NDArray[np.int32]) -> None:
    bins = Bins.of_codes(each)
    assert bins.order is None
    holds(bins, each)


@pytest.mark.parametrize("each", PAGED)
def test_pages_say_what_the_plain_array_says(each: NDArray[np.int32]) -> None:
    bins = Bins.of_codes(each)
    assert bins.order is not None
    holds(bins, each)


@given(each=ARRAYS, cut=st.integers(1, 50), zero=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_one_binning_has_one_form_however_it_is_made(each: NDArray[np.int32], cut: int, zero: int) -> None:
    bins = Bins.of_codes(each)
    in_blocks = Bins.of_blocks(each[start : start + cut] for start in range(0, len(each), cut))
    by_code = Bins.of_runs(
        np.insert(each, zero % len(each), 7), np.insert(np.ones(len(each), int), zero % len(each), 0)
    )
    for other in (in_blocks, by_code):
        assert other == bins
        assert hash(other) == hash(bins)
        assert (other.table == bins.table).all()
    assert (Bins.of_codes((each + 1).astype(np.int32)) == bins) is False


def test_digits_of_a_long_grid_take_little_memory() -> None:
    blocks = (digits(PAGE * 100)[start : start + 333_333] for start in range(0, PAGE * 100, 333_333))
    bins = Bins.of_blocks(blocks)
    assert len(bins.table) < 10
    assert Bins.of_runs(bins.plain(), np.ones(bins.size, dtype=int)) == bins


def test_a_code_outside_the_column_has_no_bin() -> None:
    for bins in (Bins.of_codes([0, 0, 1]), Bins.of_runs([0, 1], [10_000, 10_001]), Bins.of_codes(PAGED[1])):
        for code in (-1, bins.size):
            with pytest.raises(PrivacyError, match="not in its declaration"):
                bins[np.array([0, code])]


RUNS = np.array([[0, 2, 5], [1, 0, 3]], dtype=np.int32)


@pytest.mark.parametrize(
    ("size", "table"),
    [
        (7, RUNS.astype(np.int64)),
        (5, RUNS),
        (7.0, RUNS),
        (2**31, RUNS),
        (7, RUNS + np.array([[1], [0]], np.int32)),
        (7, RUNS[:, [0, 2, 1]]),
        (7, RUNS * np.array([[1], [-1]], np.int32)),
        (7, np.array([[0, 2], [1, 1]], np.int32)),
        (7, RUNS[:1]),
        (7, RUNS[:, :0]),
        (7, RUNS[0]),
    ],
)
def test_runs_in_another_form_are_refused(size: object, table: NDArray[np.int32]) -> None:
    with pytest.raises(PrivacyError, match="one form"):
        Bins.from_json({"size": size, "table": "t"}, {"t": table})


def test_pages_in_another_form_are_refused() -> None:
    bins = Bins.of_codes(PAGED[2])
    assert bins.order is not None

    def made(size: int = bins.size, table: object = bins.table, order: object = bins.order) -> Bins:
        return Bins.from_json({"size": size, "table": "t", "order": "o"}, {"t": table, "o": order})

    assert made() == bins
    swapped = bins.table[::-1].copy(), (len(bins.table) - 1 - bins.order).astype(np.int32)
    padded = bins.table.copy()
    padded[bins.order[-1], -1] += 1
    idle = np.concatenate([bins.table, bins.table[:1] + 1])
    twice = np.concatenate([bins.table, bins.table[:1]])
    again = bins.order.copy()
    again[np.flatnonzero(again == 0)[-1]] = len(bins.table)
    plain = np.zeros((1, PAGE), dtype=np.int32)
    for changed in (
        {"table": swapped[0], "order": swapped[1]},
        {"table": padded},
        {"table": idle},
        {"table": twice, "order": again},
        {"order": bins.order[:-1]},
        {"order": bins.order.astype(np.int64)},
        {"table": bins.table[:, :-1]},
        {"table": plain, "order": np.zeros_like(bins.order)},
    ):
        with pytest.raises(PrivacyError, match="one form"):
            made(**changed)


@pytest.mark.parametrize("bins", [[], [0.5], [[0]], [-1], [2**31], ["a"]])
def test_what_is_no_binning_is_refused(bins: object) -> None:
    with pytest.raises(PrivacyError, match="bin"):
        Bins.of_codes(bins)
