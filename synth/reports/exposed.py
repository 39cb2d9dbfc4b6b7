"""The units a release exposes most: those whose rows are farthest from everybody else's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth.reports.control import coarse_bins
from synth.reports.membership import UnitRows
from synth.reports.mixed_distance import GowerSpace
from synth.schema import Schema

__all__ = ["most_exposed"]

_CANDIDATES = 1000
_PAIRS_AT_ONCE = 2**24
_PAIRS_OF_CELLS = 2 * 10**9
"""Cells compared at most; of very large tables fewer candidates are looked at."""


def most_exposed(rows: UnitRows, schema: Schema, *, number: int) -> NDArray[np.int64]:
    """Return the units whose rows are farthest from the nearest row of anybody else, by Gower's distance.

    Every row is ranked by how rare its cells are, numbers in at most 32 public bins; of the rarest thousand the exact
    distance to the nearest row of another unit decides. A unit counts by its most exposed row.

    Parameters
    ----------
    rows : UnitRows
        At least one row, codes in ``schema.names`` order.
    number : int
        Most units to return.

    Returns
    -------
    array of shape (at most ``number``,), the most exposed unit first
    """
    n_rows = len(rows.units)
    rarity = np.zeros(n_rows)
    for column, codes in zip(schema.modelled, rows.codes, strict=True):
        cells = coarse_bins(column)[codes]
        rarity -= np.log(np.bincount(cells)[cells])
    most = max(number, min(_CANDIDATES, _PAIRS_OF_CELLS // (n_rows * len(rows.codes))))
    chosen = np.argsort(-rarity, kind="stable")[:most]
    apart = _from_others(rows, chosen, GowerSpace.of(schema))
    # Where several rows are equally far, the rarer ones come first: the order of ``chosen``.
    units = rows.units[chosen[np.argsort(-apart, kind="stable")]]
    _, firsts = np.unique(units, return_index=True)
    return np.asarray(units[np.sort(firsts)][:number])


def _from_others(rows: UnitRows, chosen: NDArray[np.int64], space: GowerSpace) -> NDArray[np.float64]:
    found = np.empty(len(chosen))
    size = max(1, _PAIRS_AT_ONCE // len(rows.units))
    for start in range(0, len(chosen), size):
        piece = chosen[start : start + size]
        apart = space.between([codes[piece] for codes in rows.codes], rows.codes)
        apart[rows.units[piece][:, None] == rows.units[None, :]] = np.inf
        found[start : start + size] = apart.min(axis=1)
    return found
