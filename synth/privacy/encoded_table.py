"""The rows of a private table as codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from synth.codes import Codes

if TYPE_CHECKING:
    from synth.encoding import CellCounts

__all__ = ["EncodedTable"]


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
