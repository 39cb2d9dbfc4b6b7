"""Nearest centres in whole numbers: the same cell for a row beside any rows, ties to the first, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from synth.models import centres
from synth.models.centres import CellsOfCentres, centres_of, nearest

COORDINATES = (
    np.arange(-20.0, 20.0, 5.0)[:, None],
    16.0 * np.eye(3),
    np.column_stack([[-9.0, 0.0, 9.0, 0.0], [0, 0, 0, 16.0]]),
)


def drawn(n: int) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.integers(0, len(one), n) for one in COORDINATES]


def brute(bins: list[np.ndarray], found: np.ndarray) -> np.ndarray:
    rows = np.concatenate([one[own] for one, own in zip(COORDINATES, bins, strict=True)], axis=1)
    return ((rows[:, None, :] - found[None]) ** 2).sum(axis=2).argmin(axis=1)


@pytest.fixture(scope="module")
def found() -> np.ndarray:
    return centres_of(drawn(3000), COORDINATES, most=12, seed=2)


def test_the_nearest_is_found_and_centres_are_whole_means_of_their_rows(found):
    bins = drawn(3000)
    assert 2 < len(found) <= 12
    assert (found == np.rint(found)).all()
    own = nearest(bins, COORDINATES, found)
    np.testing.assert_array_equal(own, brute(bins, found))
    rows = np.concatenate([one[place] for one, place in zip(COORDINATES, bins, strict=True)], axis=1)
    away = ((rows - found[own]) ** 2).sum()
    assert away < 0.5 * ((rows - rows.mean(axis=0)) ** 2).sum()
    np.testing.assert_array_equal(found, centres_of(bins, COORDINATES, most=12, seed=2))


@pytest.mark.parametrize("block", [1, 7, 2**13])
def test_a_rows_cell_is_the_same_in_any_order_and_block(found, block: int, monkeypatch: pytest.MonkeyPatch):
    bins = drawn(500)
    wanted = brute(bins, found)
    monkeypatch.setattr(centres, "_ROWS_AT_A_TIME", block)
    order = np.random.default_rng(1).permutation(500)
    np.testing.assert_array_equal(nearest([one[order] for one in bins], COORDINATES, found), wanted[order])


def test_of_several_that_are_as_near_the_first_is_taken():
    twice = np.array([[-10.0], [10.0], [10.0]])
    assert nearest([np.array([1, 0, 2])], (np.array([[0.0], [20.0], [-20.0]]),), twice).tolist() == [1, 0, 0]


def test_many_coordinates_are_compared_in_float64():
    wide = (np.where(np.eye(400) > 0, 128.0, -128.0),)
    held = np.array([wide[0][3], wide[0][3] + np.r_[np.zeros(399), 1.0]])
    assert nearest([np.array([3, 399])], wide, held).tolist() == [0, 1]


def cells() -> CellsOfCentres:
    return CellsOfCentres((0, 1, 3), (COORDINATES[0], COORDINATES[1]), np.zeros((2, 4)), label=3, classes=2)


SIZES = (8, 3, 4, 2)


def test_cells_are_made_again_from_their_state():
    again = CellsOfCentres.from_state(cells().state(), SIZES)
    assert (again.columns, again.features, again.label, again.shape) == ((0, 1, 3), (0, 1), 3, (2, 2))
    alone = CellsOfCentres((0,), (COORDINATES[0],), np.zeros((3, 1)))
    assert CellsOfCentres.from_state(alone.state(), SIZES).shape == (3, 1)


WRONG = {
    "columns out of order": {"columns": np.array([1, 0, 3])},
    "a label that is no column": {"label": np.array([2, 4])},
    "classes that are not the label's": {"label": np.array([3, 5])},
    "a column that there is not": {"columns": np.array([0, 1, 9]), "label": np.array([9, 2])},
    "centres of another width": {"centres": np.zeros((2, 5))},
    "no centre": {"centres": np.zeros((0, 4))},
    "centres that are no table": {"centres": np.zeros(4)},
    "coordinates of another column": {"places.1": COORDINATES[0]},
    "a coordinate too large": {"centres": np.full((2, 4), 129.0)},
    "a coordinate that is not whole": {"centres": np.full((2, 4), 0.5)},
    "a coordinate that is no number": {"centres": np.full((2, 4), np.nan)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_state_of_cells_is_refused(wrong: str):
    with pytest.raises((LookupError, ValueError)):
        CellsOfCentres.from_state({**cells().state(), **WRONG[wrong]}, SIZES)
