r"""Exact sums of feature maps over rows, as whole numbers of a public grid step.

What a row contributes to a sum is a vector of whole numbers that follows from that row and the map alone, to the last
bit: other rows may be added, taken away, put in another order or cut into other blocks, on any device. Noise hides one
row only because of that, as a last bit that its neighbours felt would be a change of theirs. It holds map by map:

- constants, one-hots, forests: a row adds 1 to one cell; counts are integers;
- one table: its entries are truncated to whole steps before a row is read, and a sum is histogram times table in int64;
- products of tables: a row's factors are multiplied and rounded by elementwise IEEE float64 (``products``);
- Fourier features: whole-number angles and a public table of cosines and sines (``fourier_sums``);
- moments of rows: whole numbers up to the clip, which is elementwise IEEE float64, and after it (``row_sums``).

Where matrix products do the adding, they add whole numbers whose partial sums float64 holds exactly, in any order.
A unit of several rows contributes the sum of its rows' vectors; nothing is clipped, scaled or rounded after rows are
added. The argument is in ``docs/proofs/sensitivity.md``; ``tests/privacy/test_contributions.py`` looks for exceptions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth.privacy.counting import Axis, Rows, axes_of, joint_counts, joint_index, rows_by_cell, with_forests
from synth.privacy.leaves import Fourier
from synth.privacy.more.forests import Forest
from synth.privacy.terms import Term

__all__ = ["exact_sum"]

MAXIMUM_HISTOGRAM = 2**24
"""Cells of one table of counts; larger ones are counted in parts."""

FOURIER_ROWS = 2**14
"""Rows whose positions are held as float64 at a time."""


def exact_sum(terms: Sequence[Term], rows: Rows, *, half_bits: int, device: str = "cpu") -> NDArray[np.int64]:
    """Add up a map over all rows.

    Parameters
    ----------
    terms : sequence of Term
        The map, written out as blocks.
    rows : Rows
        The private rows.
    half_bits : int
        Bits of each side of a product of tables, 10 to 18; the grid step is 2^-(2 half_bits).
    device : str
        "cpu" or "cuda"; changes the time, never the result.

    Returns
    -------
    array of shape (dimension,), int64
        The sum in grid steps.
    """
    rows = with_forests(rows, [leaf for term in terms for leaf in term.cells if isinstance(leaf, Forest)])
    answer = np.zeros(sum(term.places.size for term in terms), dtype=np.int64)
    for term in terms:
        answer[term.places] = term.arranged(_sum_of_term(term, rows, half_bits, device))
    return answer


def _sum_of_term(term: Term, rows: Rows, half_bits: int, device: str) -> NDArray[np.int64]:
    """Return one block's sums, shape (n_cells, other features)."""
    cells = tuple(axis for leaf in term.cells for axis in axes_of(leaf))
    if term.moments is not None:
        from synth.privacy.more.row_sums import (
            moment_sums,  # here and below: these bring torch, which counts do without
        )

        return moment_sums(term.moments, term.weight, rows, cells, half_bits=half_bits, device=device)
    if term.fourier is not None:
        from synth.privacy.more.fourier_sums import VALUE_BITS

        steps = math.floor(term.weight * term.fourier.scale * 2.0 ** (2 * half_bits - VALUE_BITS))
        return _fourier_sums(term.fourier, rows, cells, device) * steps
    if len(term.tables) > 1:
        from synth.privacy.more.products import product_sums

        return product_sums(term, rows, cells, half_bits=half_bits, device=device)
    if term.tables:
        table = np.trunc(term.tables[0].table * term.weight * 2.0 ** (2 * half_bits)).astype(np.int64)
        return _table_sums(table, rows, cells, axes_of(term.tables[0])[0])
    return joint_counts(rows, cells)[:, None] * math.floor(term.weight * 2.0 ** (2 * half_bits))


def _table_sums(table: NDArray[np.int64], rows: Rows, cells: tuple[Axis, ...], looked_up: Axis) -> NDArray[np.int64]:
    n_cells = math.prod(axis.size for axis in cells)
    if n_cells * len(table) <= MAXIMUM_HISTOGRAM:
        return joint_counts(rows, (*cells, looked_up)).reshape(n_cells, len(table)) @ table
    sums = np.zeros((n_cells, table.shape[1]), dtype=np.int64)
    bins = joint_index(rows, (looked_up,))
    for cell, places in rows_by_cell(rows, cells):
        sums[cell] = np.bincount(bins[places], minlength=len(table)) @ table
    return sums


def _fourier_sums(fourier: Fourier, rows: Rows, cells: tuple[Axis, ...], device: str) -> NDArray[np.int64]:
    import torch

    from synth.privacy.more.fourier_sums import add_rows

    sums = np.zeros((math.prod(axis.size for axis in cells), fourier.dimension), dtype=np.int64)
    tables = [positions.astype(np.float64) for positions in fourier.positions]
    for cell, places in rows_by_cell(rows, cells):
        codes = [rows.column(name)[places] for name in fourier.columns]
        for start in range(0, len(codes[0]), FOURIER_ROWS):
            block = [table[column[start : start + FOURIER_ROWS]] for table, column in zip(tables, codes, strict=True)]
            positions = torch.from_numpy(np.stack(block, axis=1)).to(device)
            sums[cell] += add_rows(positions, fourier.frequencies).reshape(-1)
    return sums
