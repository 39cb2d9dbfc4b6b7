"""Which rows of a unit are kept, and which units are held out: keyed, so that it is the same in every later run.

Both are decided for each unit by a keyed hash of its id, never by what other units bring:

- at most ``rows_per_unit`` rows of an id are kept, those with the smallest hash of (id, occurrence), where occurrence
  is the place of a row among the rows of its id. Adding or removing an id changes no other id's rows.
- Where the number of units is private (add/remove), each unit is held out by its own independent coin: adding one unit
  leaves every other on its side, and neither size is public. A split of fixed size would turn "one unit added" into
  "one unit swapped".
- Where the number of units is public (replace-one), the units with the smallest hashes are held out, exactly
  round(share * units) of them. Replacing one unit replaces at most one unit on each side.

The hash is AES of (AES of the id's hash) XOR a number: a block-cipher MAC of two blocks, a pseudo-random function that
hashes millions of rows in a second.

Without an id column a row is a unit, and a keyed hash of its codes, with a number among the rows that have the same,
stands for its id: where a row stands in the table, and what stands before it, decides nothing. Where a cell is hidden
its place stands for it instead, because the rest of a row must stay on its side when the cell changes; the number and
the order of the rows are public there. Where a unit may have several such rows, each has a coin of its own under either
relation.

A row without an id, where there is an id column, belongs to no unit. It is on no side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

__all__ = ["hash_key", "held_out_rows", "kept_rows", "place_hashes", "row_hashes"]

PIECE = 2**18
"""Rows hashed at a time; bounds the memory, changes nothing else."""

_Hashes = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]


def hash_key(account_key: bytes) -> bytes:
    """Return the key (32 bytes) with which the ids of an account's units are hashed while a table is read."""
    return _purpose_key(account_key, b"unit ids")


def kept_rows(unit_hashes: _Hashes, *, rows_per_unit: int, account_key: bytes) -> _Mask:
    """Choose at most ``rows_per_unit`` rows of every id.

    Parameters
    ----------
    unit_hashes : array of shape (n_rows, 16)
        The keyed hash of each row's id, in the order of the table.
    rows_per_unit : int
        The declared cap, at least 1.
    account_key : bytes
        The account's secret.

    Returns
    -------
    array of bool of shape (n_rows,)
    """
    unit, occurrence = _units_and_occurrences(unit_hashes)
    crowded = np.bincount(unit)[unit] > rows_per_unit
    rows = np.flatnonzero(crowded)
    numbers = _keyed_numbers(unit_hashes[rows], occurrence[rows], _purpose_key(account_key, b"kept rows"))
    order = np.lexsort((numbers[:, 1], numbers[:, 0], unit[rows]))
    kept = ~crowded
    kept[rows[order]] = _places_in_groups(unit[rows[order]]) < rows_per_unit
    return kept


def held_out_rows(unit_hashes: _Hashes, *, share: float, n_units: int | None, account_key: bytes) -> _Mask:
    """Choose the rows of the units that no generator may see.

    Parameters
    ----------
    unit_hashes : array of shape (n_rows, 16)
        As in :func:`kept_rows`, or :func:`row_hashes` or :func:`place_hashes` where a row is a unit.
    share : float
        Part of the units to hold out, in [0, 1).
    n_units : int, optional
        The public number of units, as declared: exactly round(share * n_units) of those there are, or all where there
        are fewer, are held out. Without it each is held out by its own coin.
    account_key : bytes
        The account's secret.

    Returns
    -------
    array of bool of shape (n_rows,)
        All rows of a unit lie on one side.
    """
    numbers = _keyed_numbers(unit_hashes, None, _purpose_key(account_key, b"hold-out"))
    if n_units is None:
        # A coin of 53 bits, compared exactly.
        coins: _Mask = (numbers[:, 0] >> np.uint64(11)) < np.uint64(round(share * 2**53))
        return coins
    # Rows of one unit have one number of 128 bits, different from every other unit's: encryption is one-to-one.
    high, low = numbers[:, 0], numbers[:, 1]
    order = np.lexsort((low, high))
    first = np.flatnonzero(_begins(numbers[order]))
    n_held = round(share * n_units)
    if n_held >= len(first):
        return np.ones(len(numbers), dtype=bool)
    beyond = order[first[n_held]]
    held: _Mask = (high < high[beyond]) | ((high == high[beyond]) & (low < low[beyond]))
    return held


def row_hashes(columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]], *, account_key: bytes) -> _Hashes:
    """Return stand-ins for unit hashes where every row is a unit: keyed hashes of what each row holds.

    Parameters
    ----------
    columns : sequence of arrays of shape (n_rows,)
        The codes of all columns, in the order of the schema.
    account_key : bytes
        The account's secret.

    Returns
    -------
    array of shape (n_rows, 16)
        Different for all rows: the k-th row with the same codes has a hash of its own for every k. Another row that
        comes or goes leaves the hashes of all others as they were, up to the order of rows that are alike.
    """
    n_rows, width = len(columns[0]), sum(column.itemsize for column in columns)
    blocks = Cipher(algorithms.AES(_purpose_key(account_key, b"rows")), modes.ECB()).encryptor()  # noqa: S305
    hashes = np.empty((n_rows, 16), dtype=np.uint8)
    padded = -(-width // 16) * 16
    piece = max(1, 16 * PIECE // padded)
    for start in range(0, n_rows, piece):
        rows = slice(start, min(start + piece, n_rows))
        whole = np.zeros((rows.stop - start, padded), dtype=np.uint8)
        place = 0
        for column in columns:
            codes = np.ascontiguousarray(column[rows]).astype(column.dtype.newbyteorder("<"), copy=False)
            whole[:, place : place + column.itemsize] = codes.view(np.uint8).reshape(-1, column.itemsize)
            place += column.itemsize
        # The MAC of a chain of blocks, which is sound because all rows of a table are equally long.
        state = np.zeros((len(whole), 16), dtype=np.uint8)
        for first in range(0, padded, 16):
            state ^= whole[:, first : first + 16]
            state = np.frombuffer(blocks.update(state.tobytes()), dtype=np.uint8).reshape(-1, 16).copy()
        hashes[rows] = state
    _, occurrence = _units_and_occurrences(hashes)
    return _keyed_numbers(hashes, occurrence, _purpose_key(account_key, b"rows alike")).view(np.uint8)


def place_hashes(n_rows: int) -> _Hashes:
    """Return stand-ins for unit hashes where a cell is hidden: the place of each row in the table."""
    places = np.zeros((n_rows, 2), dtype=np.uint64)
    places[:, 0] = np.arange(n_rows, dtype=np.uint64)
    return places.view(np.uint8)


def _purpose_key(account_key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(account_key, digest_size=32, person=purpose).digest()


def _units_and_occurrences(unit_hashes: _Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each row's unit, numbered from 0, and how many rows of that unit stand before it."""
    pairs = np.ascontiguousarray(unit_hashes).view(np.uint64).reshape(-1, 2)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))  # stable: rows of one unit stay in the order of the table
    sorted_unit = np.cumsum(_begins(pairs[order])) - 1
    unit, occurrence = np.empty_like(sorted_unit), np.empty_like(sorted_unit)
    unit[order] = sorted_unit
    occurrence[order] = _places_in_groups(sorted_unit)
    return unit, occurrence


def _begins(sorted_items: npt.NDArray[Any]) -> _Mask:
    """Say which items differ from the one before them; the first does."""
    begins = np.ones(len(sorted_items), dtype=bool)
    differ = sorted_items[1:] != sorted_items[:-1]
    begins[1:] = differ if differ.ndim == 1 else differ.any(axis=1)
    return begins


def _places_in_groups(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0, 1, 2, ... within each run of equal numbers."""
    places = np.arange(len(groups))
    return places - np.maximum.accumulate(np.where(_begins(groups), places, 0))


def _keyed_numbers(
    unit_hashes: _Hashes, occurrences: npt.NDArray[np.int64] | None, key: bytes
) -> npt.NDArray[np.uint64]:
    """Return a pseudo-random number of 128 bits, as two halves, for each pair of an id's hash and an occurrence."""
    # Each block is encrypted by itself, as a block-cipher MAC asks for: nothing is kept secret by this mode.
    blocks = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    numbers = np.empty((len(unit_hashes), 2), dtype=np.uint64)
    for start in range(0, len(numbers), PIECE):
        piece = np.ascontiguousarray(unit_hashes[start : start + PIECE])
        inner = np.frombuffer(blocks.update(piece.tobytes()), dtype="<u8").reshape(-1, 2).copy()
        if occurrences is not None:
            inner[:, 0] ^= occurrences[start : start + PIECE].astype(np.uint64)
        numbers[start : start + PIECE] = np.frombuffer(blocks.update(inner.tobytes()), dtype="<u8").reshape(-1, 2)
    return numbers
