"""Several Parquet files as one: what the vault keeps of a table in many files, and which rows of it a process reads.

The joined file is a line of our own, the names and lengths of the files as JSON, and then their bytes as they are, one
after the other. Nothing is decoded or written anew: line i of the table is a line of one of the files, and how rows are
distributed over files matters for nothing but their order.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synth.errors import TableError
from synth.names import shown
from synth.reading.request import SEVERAL

__all__ = ["Piece", "Stretch", "files_in", "head_of", "pieces_of_part"]

_LENGTH = 8
_LONGEST_LIST = 2**24

_BROKEN = "The joined Parquet files are damaged or cut short. Take the files in again."


def head_of(files: Sequence[tuple[str, int]]) -> bytes:
    """Return what comes before the bytes of the files, whose names and lengths are given."""
    listed = json.dumps([[name, size] for name, size in files]).encode()
    if len(listed) > _LONGEST_LIST:
        raise TableError(f"{len(files):,} files are too many for one table. Join some of them first.")
    return SEVERAL + len(listed).to_bytes(_LENGTH, "little") + listed


class Stretch(io.RawIOBase):
    """A stretch of a file with random access, as a file of its own.

    Parameters
    ----------
    whole : binary file
    start, size : int
        Where the stretch begins, and how many bytes it has.
    """

    def __init__(self, whole: io.RawIOBase | io.BytesIO, start: int, size: int) -> None:
        super().__init__()
        self._whole, self._start, self._size, self._place = whole, start, size, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position in the stretch."""
        self._place = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence] + offset
        return self._place

    def tell(self) -> int:
        """Return the position in the stretch."""
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Return the next ``size`` bytes, or fewer at the end of the stretch."""
        left = max(0, self._size - self._place)
        self._whole.seek(self._start + self._place)
        data = self._whole.read(left if size < 0 else min(size, left)) or b""
        self._place += len(data)
        return data


def files_in(whole: io.RawIOBase | io.BytesIO) -> list[tuple[str, Stretch]]:
    """Return the names and the bytes of the files in a joined file, or the whole of one that is not joined.

    Raises
    ------
    TableError
        If it is not what :func:`head_of` begins.
    """
    size = whole.seek(0, io.SEEK_END)
    whole.seek(0)
    if whole.read(len(SEVERAL)) != SEVERAL:
        return [("", Stretch(whole, 0, size))]
    length = int.from_bytes(whole.read(_LENGTH) or b"", "little")
    try:
        listed = json.loads(whole.read(min(length, _LONGEST_LIST)) or b"")
        named = [(str(name), int(of_file)) for name, of_file in listed]
    except (ValueError, TypeError):
        raise TableError(_BROKEN) from None
    start = len(SEVERAL) + _LENGTH + length
    if not named or any(of_file < 0 for _, of_file in named) or start + sum(size for _, size in named) != size:
        raise TableError(_BROKEN)
    files = []
    for name, of_file in named:
        files.append((shown(name), Stretch(whole, start, of_file)))
        start += of_file
    return files


# Which rows one of several processes reads ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """Groups of rows of one of the files, by their numbers."""

    file: int
    groups: tuple[int, ...]


def pieces_of_part(rows: Sequence[Sequence[int]], part: tuple[int, int]) -> Iterator[Piece]:
    """Yield what one of several processes reads: groups of rows that follow each other, about as many rows as others.

    A group belongs to the part in which its middle row lies, so each is in exactly one part, whatever their lengths.

    Parameters
    ----------
    rows : sequence of sequence of int
        The number of rows of every group of every file.
    part : (int, int)
        Which part, from 0, and of how many.

    Examples
    --------
    >>> list(pieces_of_part([[10, 10], [20]], (0, 2)))
    [Piece(file=0, groups=(0, 1))]
    >>> list(pieces_of_part([[10, 10], [20]], (1, 2)))
    [Piece(file=1, groups=(0,))]
    """
    number, parts = part
    total, before = sum(map(sum, rows)), 0
    for file, groups in enumerate(rows):
        chosen = []
        for group, count in enumerate(groups):
            # In whole numbers, so that all processes agree. A group without rows at the end is in the last part.
            place = (2 * before + count) * parts // max(1, 2 * total)
            if min(max(place, 0), parts - 1) == number:
                chosen.append(group)
            before += count
        if chosen:
            yield Piece(file, tuple(chosen))
