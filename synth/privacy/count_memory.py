"""Exact counts kept between questions of one session, so that what is asked again is not counted again.

They are as private as the rows: they stay inside the session, in a bounded amount of memory, and leave with it.
"""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Collection, Hashable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError

__all__ = ["CountMemory"]

MOST_CELLS = 2**26
"""Cells kept at most: 256 MB."""


class CountMemory:
    """Tables of counts by what they count; the one that was asked for longest ago makes room first."""

    __slots__ = ("_cells", "_digests", "_tables")

    def __init__(self) -> None:
        self._tables: OrderedDict[Hashable, NDArray[np.int32]] = OrderedDict()
        self._cells = 0
        self._digests: dict[int, tuple[weakref.ref[NDArray[np.int32]], bytes]] = {}

    def digest(self, bins: NDArray[np.int32]) -> bytes:
        """Return a digest of bins, which are public; those that nobody can change are read once while they live."""
        held, known = self._digests.get(id(bins), (None, b""))
        if held is not None and held() is bins:
            return known
        found = hashlib.blake2b(bins.tobytes(), digest_size=32).digest()
        if bins.flags.owndata and not bins.flags.writeable:
            key, digests = id(bins), self._digests
            digests[key] = (weakref.ref(bins, lambda _: digests.pop(key, None)), found)
        return found

    def recall(self, key: Hashable) -> NDArray[np.int32] | None:
        """Return the counts kept under a key, or None."""
        counts = self._tables.get(key)
        if counts is not None:
            self._tables.move_to_end(key)
        return counts

    def keep(self, key: Hashable, counts: NDArray[np.int32], *, wanted: Collection[Hashable]) -> None:
        """Keep counts, unless room could only be made by forgetting what the same question wants.

        A question whose tables do not all fit would otherwise push out each one just before it is asked for again.
        """
        if key in self._tables:
            return
        while self._cells + counts.size > MOST_CELLS:
            oldest = next(iter(self._tables), None)
            if oldest is None or oldest in wanted:
                return
            self._cells -= self._tables.pop(oldest).size
        counts.flags.writeable = False
        self._tables[key] = counts
        self._cells += counts.size

    def __repr__(self) -> str:
        return "<CountMemory: counts are not shown>"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("Remembered counts cannot be copied, pickled or sent to another process.")
