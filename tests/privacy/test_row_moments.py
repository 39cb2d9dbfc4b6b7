"""Moments of whole rows: clipped one by one, the same bits beside any other rows, bounded by their weights alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.bundle.answers import from_description, plain
from synth.errors import PrivacyError
from synth.privacy.answers import NoisySum
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import FeatureMap, OneHot, bound_of, exact_sum
from synth.privacy.more import row_moments
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments, rows_of_vectors

TABLE = Lookup("x", np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, -0.8]]))
OTHER = Lookup("y", np.array([[0.5], [-0.5]]))
LABEL = OneHot(("label",), (None,), (2,))


def summed(question: FeatureMap, codes: dict[str, np.ndarray], half_bits: int = 18) -> np.ndarray:
    rows = PrivateRows(codes.__getitem__, len(next(iter(codes.values()))))
    return exact_sum(question.blocks(), rows, half_bits=half_bits)


def random_codes(n_rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "x": random.integers(0, 4, n_rows),
        "y": random.integers(0, 2, n_rows),
        "label": random.integers(0, 2, n_rows),
    }


def test_known_sums() -> None:
    question = RowMoments((TABLE,), 1.0, (0.5, 0.5, 0.5))
    found = summed(question, {"x": np.array([0, 1, 1])}) * 2.0**-36
    # Entries lie a grid step of 2^-12 below 1, because they are truncated.
    np.testing.assert_allclose(found, [1.5, 0.5, 1.0, 0.5, 0.0, 1.0], atol=3e-3)
    np.testing.assert_allclose(question.factors, [0.5, 0.5, 0.5, 0.5, 0.5**0.5, 0.5], atol=2.0**-12)


def test_long_rows_are_shortened_one_by_one() -> None:
    far = RowMoments((TABLE, OTHER), 0.01, (0.0, 1.0, 0.0), offsets=np.array([2.0, -2.0, 1.0]))
    codes = random_codes(50)
    vectors = rows_of_vectors(far, codes.__getitem__, slice(None), bits=12).numpy() * 2.0**-12
    lengths = np.linalg.norm(vectors, axis=0)
    assert (lengths <= 1).all()
    assert (lengths >= 1 - 1e-3).all()


@pytest.mark.parametrize("bits", [6, 12])
def test_no_row_is_longer_than_its_clip_in_whole_numbers(bits: int) -> None:
    random = np.random.default_rng(1)
    tables = tuple(Lookup(f"c{place}", random.normal(size=(50, 3))) for place in range(7))
    codes = {f"c{place}": random.integers(0, 50, 2000) for place in range(7)}
    for clip in (2.0**-20, 0.1, 1.0, 3.0):
        for projection in (None, random.uniform(-1, 1, (21, 5))):
            question = RowMoments(tables, clip, (0.0, 0.0, 1.0), projection=projection)
            whole = rows_of_vectors(question, codes.__getitem__, slice(None), bits=bits)
            assert int((whole * whole).sum(dim=0).max()) <= 4**bits


def test_a_row_is_the_same_beside_any_other_rows() -> None:
    random = np.random.default_rng(2)
    tables = tuple(Lookup(f"c{place}", random.normal(size=(90, 4))) for place in range(60))
    codes = {f"c{place}": random.integers(0, 90, 301) for place in range(60)}
    question = RowMoments(
        tables, 0.7, (0.0, 0.0, 1.0), random.normal(size=240) / 4, projection=random.uniform(-1, 1, (240, 33))
    )
    together = rows_of_vectors(question, codes.__getitem__, slice(None), bits=12)
    for place in (0, 17, 300):
        alone = rows_of_vectors(question, codes.__getitem__, np.array([place]), bits=12)
        assert torch.equal(alone[:, 0], together[:, place])


@pytest.mark.parametrize("entries", [1, 50, 10_000])
def test_blocks_change_nothing(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Product((RowMoments((TABLE, OTHER), 0.8, (0.3, 0.5, 0.7)), LABEL))
    codes = random_codes(700)
    expected = summed(question, codes)
    monkeypatch.setattr(row_moments, "BLOCK_ENTRIES", entries)
    np.testing.assert_array_equal(summed(question, codes), expected)
    monkeypatch.setattr(row_moments, "HELD_BITS", 27)  # hands over to int64 after every few rows
    np.testing.assert_array_equal(summed(question, codes), expected)


def test_each_cell_has_its_own_offset() -> None:
    offsets = np.array([[0.0, 0.0], [0.25, -0.5]])
    codes = random_codes(200, seed=3)
    by_label = summed(RowMoments((TABLE,), 2.0, (0.0, 1.0, 1e-9), offsets, LABEL), codes)
    apart = 0
    for cell in range(2):
        chosen = {name: column[codes["label"] == cell] for name, column in codes.items()}
        apart = apart + summed(RowMoments((TABLE,), 2.0, (0.0, 1.0, 1e-9), offsets[cell]), chosen)
    np.testing.assert_array_equal(by_label, apart)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_pair_of_rows_exceeds_the_bound(data: st.DataObject) -> None:
    value = st.floats(-1, 1) | st.sampled_from([0.0, 1.0, -1.0])
    vectors = data.draw(st.lists(st.lists(value, min_size=3, max_size=3), min_size=2, max_size=5))
    weights = data.draw(st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda one: sum(one) > 0.1))
    weights = np.array(weights) / max(np.linalg.norm(weights), 1.0) * (1 - 1e-9)
    clip = data.draw(st.sampled_from([0.01, 0.5, 1.0, 4.0]))
    question: FeatureMap = RowMoments(
        (Lookup("x", np.array(vectors)),), clip, tuple(weights), np.array(data.draw(st.tuples(value, value, value)))
    )
    if data.draw(st.booleans()):
        question = Product((question, LABEL))
    half_bits = data.draw(st.sampled_from([12, 18]))
    rows = [
        summed(question, {"x": np.array([code]), "label": np.array([label])}, half_bits) * 2.0 ** (-2 * half_bits)
        for code in range(len(vectors))
        for label in range(2)
    ]
    bound = bound_of(question.blocks(), half_bits=half_bits)
    assert max(np.linalg.norm(row) for row in rows) <= bound.norm
    assert max(np.linalg.norm(row - other) for row in rows for other in rows) <= bound.diameter


def test_known_diameters() -> None:
    def diameter(*weights: float, by_label: bool = False) -> float:
        question: FeatureMap = RowMoments((TABLE,), 1.0, weights)
        return (Product((question, LABEL)) if by_label else question).bound(half_bits=18).diameter

    assert diameter(1.0, 0.0, 0.0) == 0.0
    assert diameter(0.0, 1.0, 0.0) == pytest.approx(2.0, rel=1e-9)
    assert diameter(0.0, 0.0, 1.0) == pytest.approx(math.sqrt(2), rel=1e-9)
    # Opposite vectors have the same products; the farthest pair stands at an angle in between.
    assert diameter(0.0, 0.6, 0.8) == pytest.approx(math.sqrt(2 * (1 + 0.36**2 / (4 * 0.64))), rel=1e-3)
    # A constant brings every two rows nearer to each other.
    assert diameter(0.5, 0.5, 0.5) == pytest.approx(math.sqrt(2 * (0.5 + 0.0625)), rel=1e-3)
    assert diameter(1.0, 0.0, 0.0, by_label=True) == pytest.approx(math.sqrt(2), rel=1e-9)


def test_a_sum_that_is_as_large_as_it_can_be_stays_exact() -> None:
    # Every entry is as near to 1 as the clip lets it: 300 001 rows at 2^36 steps are beyond float64's 2^53.
    question = RowMoments((Lookup("x", np.ones((1, 1))),), 1.0, (0.0, 0.0, 1.0))
    found = summed(question, {"x": np.zeros(300_001, dtype=np.uint8)})
    assert found.tolist() == [300_001 * 4095**2 * 4096]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tables": ()}, "at least one column"),
        ({"tables": (TABLE, TABLE)}, "named once"),
        ({"clip": 0.0}, "clip norm"),
        ({"clip": math.inf}, "clip norm"),
        ({"weights": (0.8, 0.8, 0.0)}, "three weights"),
        ({"weights": (0.0, 0.0, 0.0)}, "three weights"),
        ({"weights": (0.5, -0.5, 0.0)}, "three weights"),
        ({"offsets": np.zeros(3)}, "shape"),
        ({"offsets": np.full(2, 2.5)}, "from -2 to 2"),
        ({"offsets": np.zeros((2, 2))}, "chooses among them"),
        ({"offset_of": LABEL}, "must be given"),
        ({"offset_of": LABEL, "offsets": np.zeros((3, 2))}, "shape"),
        ({"projection": np.zeros((3, 2))}, "shape"),
        ({"projection": np.full((2, 2), 1.5)}, "from -1 to 1"),
        ({"projection": np.full((2, 2), np.nan)}, "finite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        RowMoments(**{"tables": (TABLE,), "clip": 1.0, "weights": (0.0, 1.0, 0.0), **changes})


def test_moments_are_not_multiplied_by_other_features() -> None:
    moments = RowMoments((TABLE,), 1.0, (0.0, 1.0, 0.0))
    for other in (moments, OTHER):
        with pytest.raises(PrivacyError, match="moments of rows"):
            Product((moments, other)).blocks()


def test_a_row_that_came_out_too_long_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_moments, "MARGIN", 1.5)
    whole = rows_of_vectors(
        RowMoments((TABLE,), 0.5, (0.0, 1.0, 0.0)), {"x": np.arange(4)}.__getitem__, slice(None), bits=12
    )
    assert not whole.any()


def test_a_zero_with_a_sign_makes_no_other_question() -> None:
    """A bundle writes zeros without signs, so a check has to find the question that was asked."""
    signed = RowMoments((TABLE, OTHER), 1.0, (0.0, 0.0, 1.0), offsets=np.array([-0.0, 0.5, -0.0]))
    description, arrays = signed.describe()
    written = from_description(description, {name: plain(array) for name, array in arrays.items()})
    assert NoisySum(written).digest() == NoisySum(signed).digest()
    other = RowMoments((TABLE, OTHER), 1.0, (0.0, 0.0, 1.0), offsets=np.array([-0.0, 0.5, 2.0**-1074]))
    assert NoisySum(other).digest() != NoisySum(signed).digest()
