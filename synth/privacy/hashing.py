"""Keyed hashes that decide which rows of a unit are kept, in which order, and which units are held out.

A hash is AES of (AES of the id's hash) XOR a number: a block-cipher MAC of two blocks, a pseudo-random function that
hashes millions of rows in a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

__all__ = [
    "Hashes",
    "begins",
    "content_hashes",
    "keyed_numbers",
    "places_in_groups",
    "purpose_key",
    "units_and_occurrences",
]

PIECE = 2**18
"""Rows hashed at a time; bounds the memory, changes nothing else."""

Hashes = npt.NDArray[np.uint8]
"""16 bytes for each row."""


def content_hashes(columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]], *, account_key: bytes) -> Hashes:
    """Return keyed hashes of the contents of each row, which are the same for equal rows.

    Parameters
    ----------
    columns : sequence of arrays of shape (n_rows,)
        The codes of all columns, in the order of the schema.
    account_key : bytes
        The account's secret.

    Returns
    -------
    array of shape (n_rows, 16)
    """
    n_rows, width = len(columns[0]), sum(column.itemsize for column in columns)
    blocks = Cipher(algorithms.AES(purpose_key(account_key, b"rows")), modes.ECB()).encryptor()  # noqa: S305
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
    return hashes


def purpose_key(account_key: bytes, purpose: bytes) -> bytes:
    """Return the key (32 bytes) for one purpose."""
    return hashlib.blake2b(account_key, digest_size=32, person=purpose).digest()


def units_and_occurrences(unit_hashes: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each row's unit, numbered from 0, and how many rows of that unit come before it."""
    pairs = np.ascontiguousarray(unit_hashes).view(np.uint64).reshape(-1, 2)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))  # stable: rows of one unit stay in the order of the table
    sorted_unit = np.cumsum(begins(pairs[order])) - 1
    unit, occurrence = np.empty_like(sorted_unit), np.empty_like(sorted_unit)
    unit[order] = sorted_unit
    occurrence[order] = places_in_groups(sorted_unit)
    return unit, occurrence


def begins(sorted_items: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which items differ from the previous one; the first always does."""
    begins = np.ones(len(sorted_items), dtype=bool)
    differ = sorted_items[1:] != sorted_items[:-1]
    begins[1:] = differ if differ.ndim == 1 else differ.any(axis=1)
    return begins


def places_in_groups(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0, 1, 2, ... within each run of equal numbers."""
    places = np.arange(len(groups))
    return places - np.maximum.accumulate(np.where(begins(groups), places, 0))


def keyed_numbers(unit_hashes: Hashes, occurrences: npt.NDArray[np.int64] | None, key: bytes) -> npt.NDArray[np.uint64]:
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
