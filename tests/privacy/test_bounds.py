"""Bounds are computed from the map's data, never below the truth, and tight where it matters."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import SIZES, every_kind_of_map

from synth.errors import PrivacyError
from synth.generators.hermite.dp_hp import hermite_features
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack, bound_of, exact_sum
from synth.privacy.more import lookups
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product

MAPS = every_kind_of_map()


def rows_of_one(codes: dict[str, int]) -> PrivateRows:
    return PrivateRows(lambda name: np.array([codes[name]]), 1)


def summed_features(feature_map: FeatureMap, rows: list[dict[str, int]], half_bits: int) -> np.ndarray:
    """What each row adds to the sum, in units of the answer: the thing that must obey the bound."""
    terms = feature_map.blocks()
    whole = [exact_sum(terms, rows_of_one(row), half_bits=half_bits) for row in rows]
    return np.array(whole) * 2.0 ** (-2 * half_bits)


def extremes(feature_map: FeatureMap, rows: list[dict[str, int]], half_bits: int) -> tuple[float, float]:
    features = summed_features(feature_map, rows, half_bits)
    distances = [np.linalg.norm(one - other) for one, other in itertools.combinations(features, 2)]
    return float(np.linalg.norm(features, axis=1).max()), float(max(distances, default=0.0))


@pytest.mark.parametrize("half_bits", [12, 18])
@pytest.mark.parametrize("kind", MAPS)
def test_no_row_and_no_pair_of_rows_exceeds_the_bound(kind: str, half_bits: int) -> None:
    rng = np.random.default_rng(5)
    rows = [{name: int(rng.integers(size)) for name, size in SIZES.items()} for _ in range(60)]
    bound = bound_of(MAPS[kind].blocks(), half_bits=half_bits)
    norm, distance = extremes(MAPS[kind], rows, half_bits)
    assert norm <= bound.norm <= 1.02
    assert distance <= bound.diameter <= 2.04


def test_known_diameters() -> None:
    def diameter(feature_map: FeatureMap) -> float:
        return bound_of(feature_map.blocks(), half_bits=18).diameter

    label = OneHot(("y",), (None,), (3,))
    assert diameter(label) == pytest.approx(math.sqrt(2), rel=1e-9)
    assert diameter(OneHot(("y",), (None,), (1,))) == 0.0
    assert diameter(Constant()) == 0.0
    assert diameter(Lookup("x", np.eye(4))) == pytest.approx(math.sqrt(2), rel=1e-9)
    assert diameter(Lookup("x", np.array([[1.0], [-1.0]]))) == pytest.approx(2, rel=1e-9)
    assert diameter(Lookup("x", np.array([[0.5], [0.25]]))) == pytest.approx(0.25, rel=1e-9)
    # In one cell two rows can point in opposite directions; in different cells they stand at right angles.
    assert diameter(Product((Lookup("x", np.array([[0.5], [0.25]])), label))) == pytest.approx(math.sqrt(0.5), rel=1e-6)
    fourier = Fourier(("x",), (np.arange(9),), np.array([[1], [900]]))
    assert diameter(fourier) == pytest.approx(2, rel=2e-3)  # rounded cosines and sines are a hair longer than 1
    assert diameter(Product((fourier, label))) == pytest.approx(2, rel=2e-3)
    assert diameter(Stack((label, label), (0.6, 0.8))) == pytest.approx(math.sqrt(2), rel=1e-6)


def hermite_lookup(column: str, order: int, places: int = 101) -> Lookup:
    import torch

    table = hermite_features(torch.linspace(-1, 1, places, dtype=torch.float64), order=order, rho=0.6)
    return Lookup(column, table.numpy())


def test_hermite_products_keep_the_small_diameter() -> None:
    label = OneHot(("y",), (None,), (2,))
    product = Product((*tuple(hermite_lookup(name, 10) for name in "abcde"), label))
    bound = bound_of(product.blocks(), half_bits=18)
    assert bound.norm <= 1 + 2e-4
    assert bound.diameter <= math.sqrt(2) * (1 + 2e-4)
    sums = Stack(tuple(Product((hermite_lookup(name, 100), label)) for name in "abcd"), (0.5,) * 4)
    assert bound_of(sums.blocks(), half_bits=12).diameter <= math.sqrt(2) * (1 + 1e-5)


def test_a_product_with_one_map_outside_the_lemma_falls_back_to_twice_its_norm() -> None:
    signed = Lookup("x", np.array([[1.0], [-1.0]]))
    product = Product((signed, hermite_lookup("a", 3), hermite_lookup("b", 3)))
    bound = bound_of(product.blocks(), half_bits=18)
    assert bound.diameter == pytest.approx(2 * bound.norm, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_products_and_stacks_of_any_tables_obey_their_bound(data: st.DataObject) -> None:
    sizes = {"a": 3, "b": 3, "c": 2}
    value = st.floats(-1.5, 1.5) | st.sampled_from([0.0, 1.0, -1.0, 0.999999])

    def table(column: str) -> Lookup:
        width = data.draw(st.integers(1, 3))
        rows = data.draw(
            st.lists(st.lists(value, min_size=width, max_size=width), min_size=sizes[column], max_size=sizes[column])
        )
        return Lookup(column, np.array(rows))

    tables = tuple(table(column) for column in data.draw(st.sampled_from(["ab", "abc", "ac", "b"])))
    product: FeatureMap = Product(tables)
    if data.draw(st.booleans()):
        product = Product((product, OneHot(("c",), (None,), (2,))))
    if data.draw(st.booleans()):
        weight = data.draw(st.floats(0.01, 0.99))
        product = Stack((product, table("b")), (weight, math.sqrt(1 - weight**2) * 0.999999))
    half_bits = data.draw(st.sampled_from([12, 16, 18]))
    everywhere = [dict(zip(sizes, codes, strict=True)) for codes in itertools.product(*map(range, sizes.values()))]
    norm, distance = extremes(product, everywhere, half_bits)
    bound = bound_of(product.blocks(), half_bits=half_bits)
    assert norm <= bound.norm
    assert distance <= bound.diameter


def test_many_bins_are_compared_in_blocks_and_too_many_are_bounded_by_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    lookup = Lookup("x", np.abs(rng.normal(size=(1500, 4))) / 4)
    whole = bound_of(lookup.blocks(), half_bits=12)
    brute = max(float(np.linalg.norm(lookup.table - row, axis=1).max()) for row in lookup.table)
    assert whole.diameter == pytest.approx(brute, rel=1e-9)
    monkeypatch.setattr(lookups, "EXACT_BINS", 1000)
    coarse = bound_of(lookup.blocks(), half_bits=12)
    assert coarse.diameter == pytest.approx(2 * coarse.norm, rel=1e-9)


def test_a_map_that_was_altered_is_refused() -> None:
    longer = Lookup("x", np.eye(3))
    object.__setattr__(longer, "table", np.full((3, 3), 0.75))
    with pytest.raises(PrivacyError, match="longer than 1"):
        bound_of(longer.blocks(), half_bits=12)
    finer = Lookup("x", np.eye(3))
    object.__setattr__(finer, "table", np.full((3, 3), 1 / 3))
    with pytest.raises(PrivacyError, match="altered"):
        bound_of(finer.blocks(), half_bits=12)
