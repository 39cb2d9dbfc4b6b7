"""The rows of a private table as codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from synth.reading.reader import with_id
from synth.schema import Codes

if TYPE_CHECKING:
    from synth.schema.encoding import CellCounts

__all__ = ["EncodedTable", "ReadingCounts"]


@dataclass(frozen=True, slots=True)
class ReadingCounts:
    """What became of the lines and cells of a table while it was read; exact, so for the owner only.

    ``without_id`` rows have no id where there is an id column, and are on no side. ``cells`` says for each column how
    many cells did not arrive as declared.
    """

    rows: int
    blank_lines: int
    unreadable_lines: int
    without_id: int
    cells: Mapping[str, CellCounts]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedTable:
    """The rows of a private table as codes; it stays inside ``synth.privacy``.

    ``unit_hashes`` has shape (n_rows, 16), the keyed hash of each row's id (zeros: no id), or is None without an id
    column. ``counts`` tells the owner how many cells of a column did not arrive as declared, ``blank_lines`` and
    ``unreadable_lines`` how many rows had no cells that could be told apart.
    """

    codes: Codes
    unit_hashes: npt.NDArray[np.uint8] | None
    n_rows: int
    counts: dict[str, CellCounts]
    blank_lines: int = 0
    unreadable_lines: int = 0

    @property
    def reading(self) -> ReadingCounts:
        """What became of lines and cells; exact, so for the owner only."""
        without_id = 0 if self.unit_hashes is None else int((~with_id(self.unit_hashes)).sum())
        return ReadingCounts(
            rows=self.n_rows,
            blank_lines=self.blank_lines,
            unreadable_lines=self.unreadable_lines,
            without_id=without_id,
            cells=dict(self.counts),
        )
