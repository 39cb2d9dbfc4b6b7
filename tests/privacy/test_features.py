"""Feature maps are public data that say exactly what is summed."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from questions import every_kind_of_map, small_codes

from synth.bundle.answers import from_description
from synth.errors import PrivacyError
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more import lookups
from synth.privacy.more.fourier import Fourier, Positions, angle_steps
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product

MAPS = every_kind_of_map()


@pytest.mark.parametrize("kind", MAPS)
def test_shape_dimension_and_evaluation_agree(kind: str) -> None:
    feature_map = MAPS[kind]
    features = feature_map.evaluate(small_codes(7))
    assert features.shape == (7, feature_map.dimension)
    assert features.dtype == np.float64
    assert np.prod(feature_map.shape) == feature_map.dimension
    assert (np.linalg.norm(features, axis=1) <= 1 + 1e-12).all()


def test_evaluation_by_hand() -> None:
    table = np.array([[0.5, 0.25], [0.0, -1.0], [0.125, 0.5]])
    by_label = Product((Lookup("x", table), OneHot(("y",), (None,), (2,))))
    codes = {"x": np.array([0, 2]), "y": np.array([1, 0])}
    assert by_label.shape == (2, 2)
    np.testing.assert_array_equal(by_label.evaluate(codes), [[0, 0.5, 0, 0.25], [0.125, 0, 0.5, 0]])
    joint = OneHot(("x", "y"), (np.array([0, 1, 1]), None), (3, 2))
    np.testing.assert_array_equal(joint.evaluate(codes), [[0, 1, 0, 0], [0, 0, 1, 0]])
    stack = Stack((Constant(), Lookup("x", table)), (0.5, 0.75))
    np.testing.assert_array_equal(stack.evaluate(codes), [[0.5, 0.375, 0.1875], [0.5, 0.09375, 0.375]])


def test_fourier_features_are_cosines_and_sines_of_the_angle() -> None:
    fourier = Fourier(("x", "y"), (np.arange(5), np.array([0, 7])), np.array([[100, -3], [2000, 1]]))
    codes = {"x": np.array([3, 4]), "y": np.array([1, 0])}
    angle = 2 * np.pi / 4096 * np.array([[300 - 21, 6000 + 7], [400, 8000]])
    expected = np.concatenate([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(2)
    np.testing.assert_allclose(fourier.evaluate(codes), expected, atol=1e-7)  # the scale is rounded down to 2^-24


def test_fourier_features_approximate_the_gaussian_kernel() -> None:
    rng = np.random.default_rng(0)
    places = np.arange(256)
    fourier = Fourier(("x",), (places,), angle_steps(rng.normal(size=(20_000, 1)) / 0.3 / 255))
    features = fourier.evaluate({"x": places})
    kernel = np.exp(-(((places[:, None] - places) / 255) ** 2) / (2 * 0.3**2))
    error = np.abs(features @ features.T - kernel)
    assert error.mean() <= 0.01  # close to unbiased: 20 000 frequencies leave 0.005
    assert error.max() <= 0.05  # nothing far off: frequencies are rounded to 1/4096 turn per place


def test_angle_steps_take_off_whole_turns() -> None:
    steps = angle_steps([[0.0, 2 * np.pi, np.pi, -np.pi / 2, 2 * np.pi / 4096]])
    np.testing.assert_array_equal(steps, [[0, 0, -2048, -1024, 1]])


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, -1.0, 1 / np.sqrt(2), 1e-300]),
    )
)
def test_every_table_is_clipped_to_norm_one_on_its_grid(table: np.ndarray) -> None:
    kept = Lookup("x", table).table
    whole = kept * 2**20
    assert (whole == np.trunc(whole)).all()
    for row in whole:
        assert sum(int(entry) ** 2 for entry in row) <= 2**40
    assert (np.abs(kept) <= np.abs(table)).all()  # towards zero, never away from it


def test_a_table_within_the_norm_is_kept_but_for_truncation() -> None:
    table = np.random.default_rng(2).uniform(-0.3, 0.3, (50, 8))
    error = Lookup("x", table).table - table
    assert np.abs(error).max() < 2**-20


def test_a_frozen_table_on_the_grid_is_shared_and_no_other() -> None:
    kept = Lookup("x", np.random.default_rng(2).normal(size=(9, 3))).table
    assert Lookup("y", kept).table is kept
    assert Lookup("y", kept.copy()).table is not kept, "somebody could change it"
    off = [0.3 * kept, 2.0 * kept, np.where(kept == kept[0, 0], -0.0, kept)]
    off[1][0, 0] = np.float64(1 / 3)
    for table in (*off, np.full((2, 2), 2.0), np.eye(2)[::1] * 0.1):
        table.flags.writeable = False
        made = Lookup("y", table).table
        assert made is not table
        np.testing.assert_array_equal(made, Lookup("y", table.copy()).table)
        assert not np.signbit(made[made == 0]).any()
    broken = np.array([[np.nan, 0.0]])
    broken.flags.writeable = False
    with pytest.raises(PrivacyError, match="not finite"):
        Lookup("y", broken)


def test_frozen_whole_numbers_are_shared_and_no_others() -> None:
    places = np.arange(4, dtype=np.int32)
    positions = Positions.of_codes(places)
    assert positions.values is not places
    assert Fourier(("x",), (positions,), [[3]]).positions[0] is positions
    places.flags.writeable = False
    assert Positions(Bins.of_codes(places), places).values is places
    bins = Bins.of_codes([0, 0, 1])
    assert OneHot(("x",), (bins,)).bins[0] is bins
    least = np.array([-(2**31), 0], dtype=np.int32)
    least.flags.writeable = False
    with pytest.raises(PrivacyError, match="below 2"):
        Fourier(("x",), (least,), [[0]])


def test_long_tables_are_worked_on_in_pieces_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(3).normal(size=(50, 3)) * 0.7
    bins = np.random.default_rng(4).integers(0, 50, 80).astype(np.int32)
    whole = Lookup("x", table, bins)
    bounds = whole.row_bound()
    monkeypatch.setattr(lookups, "PIECE", 7)
    pieces = Lookup("x", table, bins)
    np.testing.assert_array_equal(pieces.table, whole.table)
    assert pieces.row_bound() == bounds
    np.testing.assert_array_equal(pieces.largest, np.abs(whole.whole).max(axis=0))
    monkeypatch.setattr(lookups, "EXACT_BINS", 10)
    assert Lookup("x", table, bins).row_bound().norm == bounds.norm


def test_maps_cannot_be_changed_after_they_are_made() -> None:
    table = np.eye(3)
    lookup = Lookup("x", table)
    table[0, 0] = 100.0
    assert lookup.table.max() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        lookup.table[0, 0] = 2.0
    with pytest.raises(AttributeError):
        lookup.column = "y"


def _refusals() -> dict[str, object]:
    one, two = OneHot(("x",), (None,), (2,)), OneHot(("y",), (None,), (2,))
    return {
        "not finite": lambda: Lookup("x", np.array([[np.nan]])),
        "bins as rows": lambda: Lookup("x", np.zeros((0, 3))),
        "from 0 to 1": lambda: Lookup("x", np.eye(2), np.array([0, 2])),
        "whole numbers": lambda: Lookup("x", np.eye(2), np.array([0.0, 1.0])),
        "one to six": lambda: OneHot(("x", "x"), (None, None), (2, 2)),
        "name the bin": lambda: OneHot(("x",), (None,)),
        "one entry of": lambda: OneHot(("x", "y"), (None,), (2,)),
        "at most 1": lambda: Stack((one, two), (0.8, 0.7)),
        "positive and finite": lambda: Stack((one,), (-0.5,)),
        "one weight per part": lambda: Stack((one, two), (0.5,)),
        "at least one factor": lambda: Product(()),
        "at most 268,435,456": lambda: Product(
            (OneHot(("x",), (None,), (20_000,)), OneHot(("y",), (None,), (20_000,)))
        ),
        "2\\^24": lambda: Fourier(("x",), (np.array([0, 10_000]),), np.array([[2000]])),
        "at least one column": lambda: Fourier((), (), np.zeros((1, 0), np.int32)),
        "one row per frequency": lambda: Fourier(("x",), (np.arange(2),), np.zeros((1, 2), np.int32)),
        "place of every code": lambda: Fourier(("x", "y"), (np.arange(2),), np.zeros((1, 2), np.int32)),
    }


@pytest.mark.parametrize("words", _refusals())
def test_maps_that_mean_nothing_are_refused(words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        _refusals()[words]()


@pytest.mark.parametrize("kind", MAPS)
def test_a_map_survives_a_file(kind: str) -> None:
    description, tables = MAPS[kind].describe(name="question")
    file = io.BytesIO()
    np.savez_compressed(file, **tables)
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        again = from_description(json.loads(json.dumps(description)), dict(stored))
    assert again.is_same(MAPS[kind])
    codes = small_codes(20)
    np.testing.assert_array_equal(again.evaluate(codes), MAPS[kind].evaluate(codes))


def test_different_maps_are_told_apart() -> None:
    kinds = list(MAPS)
    for one in kinds:
        for other in kinds:
            assert MAPS[one].is_same(MAPS[other]) == (one == other)
    assert not Lookup("x", np.eye(2)).is_same(Lookup("x", np.eye(2) / 2))
    assert not Constant().is_same("constant")


def test_damaged_descriptions_are_refused() -> None:
    with pytest.raises(PrivacyError, match="damaged"):
        from_description({"kind": "lookup", "column": "x"}, {})
    with pytest.raises(PrivacyError, match="unknown kind"):
        from_description({"kind": "function"}, {})
