"""Sums over rows are exact, free of order and the same on every device."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from by_hand import contribution
from choosing import each_once
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import every_kind_of_map, small_codes, small_schema

from synth.errors import PrivacyError
from synth.privacy import counting
from synth.privacy.answers import check_fits
from synth.privacy.bins import Bins
from synth.privacy.counting import MAXIMUM_ROWS, Axis, PrivateRows, joint_counts
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack, exact_sum
from synth.privacy.more import fourier as fourier_sums
from synth.privacy.more import lookups, products, row_moments
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product

MAPS = every_kind_of_map()


def rows_of(codes: dict[str, np.ndarray]) -> PrivateRows:
    return PrivateRows(codes.__getitem__, len(next(iter(codes.values()))))


def summed(feature_map: FeatureMap, codes: dict[str, np.ndarray], half_bits: int = 18) -> np.ndarray:
    return exact_sum(feature_map.blocks(), rows_of(codes), half_bits=half_bits)


@pytest.mark.parametrize(("kind", "half_bits"), each_once(MAPS, [12, 18]))
def test_a_sum_equals_a_loop_over_rows(kind: str, half_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "PIECE", 8)  # more rows than two pieces
    monkeypatch.setattr(products, "BLOCK_ENTRIES", 64)
    monkeypatch.setattr(row_moments, "BLOCK_ENTRIES", 64)
    codes = small_codes(20, seed=3)
    rows = [{name: int(column[row]) for name, column in codes.items()} for row in range(20)]
    expected = sum(contribution(MAPS[kind], row, half_bits) for row in rows)
    np.testing.assert_array_equal(summed(MAPS[kind], codes, half_bits).astype(object), expected)


@pytest.mark.parametrize("kind", MAPS)
def test_a_sum_is_close_to_the_features_that_a_map_shows(kind: str) -> None:
    codes = small_codes(3000)
    shown = MAPS[kind].evaluate(codes).sum(axis=0)
    found = summed(MAPS[kind], codes) * 2.0**-36
    # Exact but for the rounding of products (2^-19 a side), of cosines and sines (2^-12) and of a stack's weights.
    np.testing.assert_allclose(found, shown, atol=3000 * 1e-5, rtol=0)


@pytest.mark.parametrize("kind", MAPS)
def test_the_order_of_rows_changes_nothing(kind: str) -> None:
    codes = small_codes(5000)
    order = np.random.default_rng(9).permutation(5000)
    shuffled = {name: column[order] for name, column in codes.items()}
    np.testing.assert_array_equal(summed(MAPS[kind], codes), summed(MAPS[kind], shuffled))


@pytest.mark.parametrize("kind", MAPS)
def test_sums_add_up(kind: str) -> None:
    codes = small_codes(1000)
    first = {name: column[:317] for name, column in codes.items()}
    second = {name: column[317:] for name, column in codes.items()}
    none = {name: column[:0] for name, column in codes.items()}
    np.testing.assert_array_equal(summed(MAPS[kind], codes), summed(MAPS[kind], first) + summed(MAPS[kind], second))
    assert not summed(MAPS[kind], none).any()


@pytest.mark.parametrize("kind", ["product", "wide product", "stack of everything"])
def test_products_by_counts_and_by_rows_are_the_same_numbers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = small_codes(20_000)
    by_counts = summed(MAPS[kind], codes)
    monkeypatch.setattr(products, "SMALL_HISTOGRAM", 0)
    monkeypatch.setattr(products, "LARGEST_SIDE", 0)
    np.testing.assert_array_equal(summed(MAPS[kind], codes), by_counts)
    monkeypatch.setattr(products, "BLOCK_ENTRIES", 700)
    np.testing.assert_array_equal(summed(MAPS[kind], codes), by_counts)


def test_products_stay_exact_when_float64_has_to_hand_over_to_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    # All rows alike with features of 1: 200 000 rows at 2^36 steps are beyond float64's 2^53.
    n_rows = 200_001
    tables = (Lookup("age", np.ones((12, 1))), Lookup("income", np.ones((301, 1))))
    codes = {"age": np.zeros(n_rows, np.uint8), "income": np.zeros(n_rows, np.uint16)}
    expected = n_rows * 2**36
    assert summed(Product(tables), codes).tolist() == [expected]
    monkeypatch.setattr(products, "LARGEST_SIDE", 0)
    assert summed(Product(tables), codes).tolist() == [expected]


def test_large_tables_of_counts_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = small_codes(2000)
    whole = summed(MAPS["lookup by label"], codes)
    monkeypatch.setattr(lookups, "MAXIMUM_HISTOGRAM", 1)
    np.testing.assert_array_equal(summed(MAPS["lookup by label"], codes), whole)


def test_a_million_rows_are_counted_like_a_few() -> None:
    n_rows = 2 * counting.PIECE + 12_345
    rng = np.random.default_rng(0)
    codes = {
        "age": rng.integers(0, 12, n_rows).astype(np.uint8),
        "income": rng.integers(0, 301, n_rows).astype(np.uint16),
    }
    expected = np.zeros((12, 301), dtype=np.int64)
    np.add.at(expected, (codes["age"], codes["income"]), 1)
    axes = (Axis("age", None, 12), Axis("income", None, 301))
    np.testing.assert_array_equal(joint_counts(rows_of(codes), axes).reshape(12, 301), expected)
    np.testing.assert_array_equal(joint_counts(rows_of(codes), axes[:1]), expected.sum(axis=1))
    np.testing.assert_array_equal(joint_counts(rows_of(codes), axes[1:]), expected.sum(axis=0))
    assert joint_counts(rows_of(codes), ()).tolist() == [n_rows]


def test_read_only_codes_of_any_width_are_counted() -> None:
    for kind in (np.uint8, np.uint16, np.uint32, np.int64):
        column = np.array([3, 0, 3], dtype=kind)
        column.flags.writeable = False
        assert joint_counts(rows_of({"x": column}), (Axis("x", None, 4),)).tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize("size", [2**8, 2**8 + 1, 2**15 - 1, 2**15, 2**15 + 1, 2**16 + 1])
def test_tables_at_the_edge_of_a_number_type_are_counted(size: int) -> None:
    codes = {"long": np.array([size - 1, 0, size - 1]), "short": np.array([0, 1, 1])}
    axes = Axis("long", None, size), Axis("short", Bins.of_codes([0, 0]), 1)
    for both in (axes, axes[::-1]):
        assert np.flatnonzero(joint_counts(rows_of(codes), both)).tolist() == [0, size - 1]


def test_codes_that_were_never_declared_are_refused() -> None:
    with pytest.raises(PrivacyError, match="encoded again"):
        joint_counts(rows_of({"x": np.array([5], np.uint8)}), (Axis("x", None, 4),))


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(PrivacyError, match="at most 120,000,000 rows"):
        PrivateRows(lambda name: np.zeros(0), MAXIMUM_ROWS + 1)


def test_the_sum_of_the_most_rows_on_the_finest_grid_leaves_room_for_the_largest_noise() -> None:
    rows = PrivateRows(lambda name: np.zeros(0), MAXIMUM_ROWS)
    found = int(exact_sum(Constant().blocks(), rows, half_bits=18)[0])
    assert found == MAXIMUM_ROWS * 2**36
    assert found + 2**53 < 2**63


# Fourier


def wide_fourier(n_columns: int, n_frequencies: int, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    positions = torch.from_numpy(rng.integers(0, 256, (4099, n_columns)).astype(np.float64))
    return positions, rng.integers(-2048, 2048, (n_frequencies, n_columns)).astype(np.int32)


def test_rounded_cosines_and_sines_are_near_the_true_ones() -> None:
    cosines, sines = fourier_sums.step_values()
    angle = 2 * np.pi * np.arange(4096) / 4096
    assert (
        np.abs(cosines / 4096 - np.cos(angle)).max() <= 0.75 / 4096
    )  # half a step of rounding, a quarter of arithmetic
    assert np.abs(sines / 4096 - np.sin(angle)).max() <= 0.75 / 4096
    assert np.abs(np.concatenate([cosines, sines])).max() <= 4096  # what adding up both as one int64 needs
    assert fourier_sums.longest_pair() <= 1 + 2.0**-12


def test_fourier_are_sums_of_the_table_of_steps() -> None:
    positions, frequencies = wide_fourier(15, 37)
    steps = positions.numpy().astype(np.int64) @ frequencies.T.astype(np.int64) % 4096
    cosines, sines = fourier_sums.step_values()
    expected = np.stack([cosines[steps].sum(axis=0), sines[steps].sum(axis=0)])
    np.testing.assert_array_equal(fourier_sums.add_rows(positions, frequencies), expected)


@pytest.mark.parametrize("block_rows", [3, 64, 1000, 4096])
def test_fourier_do_not_depend_on_blocks(block_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    positions, frequencies = wide_fourier(6, 15)
    expected = fourier_sums.add_rows(positions, frequencies)
    monkeypatch.setattr(fourier_sums, "BLOCK_FREQUENCIES", 7)
    np.testing.assert_array_equal(
        fourier_sums.add_rows(positions[:100], frequencies, block_rows=block_rows)
        + fourier_sums.add_rows(positions[100:], frequencies, block_rows=block_rows),
        expected,
    )


@pytest.mark.parametrize("step", range(0, 4096, 1024))
def test_many_equal_rows_do_not_wear_out_what_they_are_added_up_in(step: int) -> None:
    # Every cosine or every sine is 1 or -1: 4096 steps a row, and more rows than are held in one int64.
    n_rows = fourier_sums.HELD_ROWS + 50_001
    positions = torch.ones(n_rows, 1, dtype=torch.float64)
    found = fourier_sums.add_rows(positions, np.array([[step]], dtype=np.int32))
    turn = 2 * np.pi * step / 4096
    assert found.tolist() == [[n_rows * 4096 * round(np.cos(turn))], [n_rows * 4096 * round(np.sin(turn))]]


def test_the_table_of_cosines_and_sines_is_the_same_everywhere() -> None:
    digest = hashlib.sha256(np.stack(fourier_sums.step_values()).astype("<i2").tobytes()).hexdigest()
    assert digest == "89f6e2cad4b12da2bfd4a13eb19222545e60d279278cc915bc17c627cdf63808"


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 40), st.randoms(use_true_random=False))
def test_fourier_by_label_is_fourier_of_each_class(
    n_columns: int, n_frequencies: int, n_rows: int, random: object
) -> None:
    rng = np.random.default_rng(random.randrange(2**32))
    names = [f"x{place}" for place in range(n_columns)]
    codes = {name: rng.integers(0, 10, n_rows) for name in names}
    codes["y"] = rng.integers(0, 3, n_rows)
    frequencies = rng.integers(-2048, 2048, (n_frequencies, n_columns))
    fourier = Fourier(tuple(names), (np.arange(10),) * n_columns, frequencies)
    joint = summed(Product((fourier, OneHot(("y",), (None,), (3,)))), codes).reshape(-1, 3)
    for label in range(3):
        chosen = {name: column[codes["y"] == label] for name, column in codes.items()}
        np.testing.assert_array_equal(joint[:, label], summed(fourier, chosen))


@pytest.mark.thorough
@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("kind", MAPS)
def test_cuda_gives_the_same_integers(kind: str) -> None:
    codes = small_codes(5000)
    terms = MAPS[kind].blocks()
    on_cuda = exact_sum(terms, rows_of(codes), half_bits=18, device="cuda")
    np.testing.assert_array_equal(on_cuda, summed(MAPS[kind], codes))


# Terms


@pytest.mark.parametrize("kind", MAPS)
def test_blocks_cover_every_place_of_the_answer_once(kind: str) -> None:
    places = np.concatenate([term.places for term in MAPS[kind].blocks()])
    np.testing.assert_array_equal(np.sort(places), np.arange(MAPS[kind].dimension))


def test_a_product_of_a_map_with_itself_is_its_square() -> None:
    region = OneHot(("region",), (None,), (4,))
    codes = small_codes(100)
    counts = np.bincount(codes["region"], minlength=4)
    np.testing.assert_array_equal(summed(Product((region, region)), codes).reshape(4, 4) / 2**36, np.diag(counts))


def test_products_that_no_sum_can_do_are_refused() -> None:
    fourier = MAPS["fourier"]
    for other in (fourier, MAPS["lookup"]):
        with pytest.raises(PrivacyError, match="Fourier map"):
            Product((fourier, other)).blocks()
    parts = tuple(OneHot(("outcome",), (None,), (2,)) for _ in range(20))
    wide = Stack(parts, (0.2,) * 20)
    with pytest.raises(PrivacyError, match="blocks"):
        Product((wide,) * 4).blocks()
    with pytest.raises(PrivacyError, match="feature map"):
        check_fits("ages", small_schema())
