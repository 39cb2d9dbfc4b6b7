r"""Sums of the moments of rows, exact and free of the order of rows.

A clipped vector is whole numbers of at most 2^b; products of two are whole numbers of at most 2^(2b), and a matrix
product over blocks of rows holds their sums exactly in float64 while 2 b + log2(rows held) is at most 52. Weights and
the factor :math:`\sqrt 2` are whole multiples of 2^-12 and multiply the sums: with 2 b + 12 = 2 h bits the answer is in
steps of 2^-(2h), and nothing is rounded after a row has been clipped.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from synth.privacy.counting import Axis, Rows, rows_by_cell
from synth.privacy.more.row_moments import POWER_BITS, RowMoments, rows_of_vectors

__all__ = ["moment_sums"]

BLOCK_ENTRIES = 2**21
MANTISSA = 52


def moment_sums(
    moments: RowMoments, weight: float, rows: Rows, cells: tuple[Axis, ...], *, half_bits: int, device: str = "cpu"
) -> NDArray[np.int64]:
    """Add up the moments of rows by cell.

    Parameters
    ----------
    moments : RowMoments
    weight : float
        Factor of the whole map, at most 1.
    rows : Rows
    cells : tuple of Axis
        The axes of the cells, last fastest.
    half_bits : int
        10 to 18; a clipped vector's entries have 6 bits less.
    device : str
        "cpu" or "cuda"; changes the time, never the result.

    Returns
    -------
    array of shape (n_cells, dimension), int64
        In steps of 2^-(2 half_bits).
    """
    sums = np.zeros((math.prod(axis.size for axis in cells), moments.dimension), dtype=np.int64)
    needed = {table.column for table in moments.tables}
    needed |= set() if moments.offset_of is None else set(moments.offset_of.columns)
    columns = {name: rows.column(name) for name in needed}
    for cell, places in rows_by_cell(rows, cells):
        chosen = np.arange(rows.n_rows)[places] if isinstance(places, slice) else places
        sums[cell] = _of_one_cell(moments, weight, columns, chosen, half_bits - POWER_BITS // 2, device)
    return sums


def _of_one_cell(
    moments: RowMoments,
    weight: float,
    columns: dict[str, NDArray[np.unsignedinteger]],
    places: NDArray[np.int64],
    bits: int,
    device: str,
) -> NDArray[np.int64]:
    n = moments.length
    _, linear, quadratic = moments.weights
    block = max(1, min(BLOCK_ENTRIES // moments.width, 2 ** (MANTISSA - 2 * bits)))
    blocks_held = 2 ** (MANTISSA - 2 * bits) // block
    first = np.zeros(n, dtype=np.int64)
    second = np.zeros((n, n) if quadratic else (0, 0), dtype=np.int64)
    held = torch.zeros(second.shape, dtype=torch.float64, device=device)
    for number, start in enumerate(range(0, len(places) if linear or quadratic else 0, block), start=1):
        vectors = rows_of_vectors(moments, columns.__getitem__, places[start : start + block], bits=bits, device=device)
        first += vectors.sum(dim=1).cpu().numpy().astype(np.int64)
        if quadratic:
            held.addmm_(vectors, vectors.T)
            if number % blocks_held == 0:
                second += held.cpu().numpy().astype(np.int64)
                held.zero_()
    second += held.cpu().numpy().astype(np.int64)
    # In steps of 2^-(2 bits), whatever the power.
    powers = (np.array([len(places)]) << (2 * bits), first << bits, second[np.triu_indices(n)] if quadratic else first)
    used = [power for power, weight in zip(powers, moments.weights, strict=True) if weight]
    factors = np.rint(moments.factors_under(weight) * 2.0**POWER_BITS).astype(np.int64)
    return np.asarray(np.concatenate(used) * factors)
