"""The bytes of a Parquet file that a separate process writes, sent to the program in pieces as they come."""

from __future__ import annotations

from typing import Any, BinaryIO

from synth.system.conversation import write_frame
from synth.system.settings import ReaderLimits, too_large

__all__ = ["GROUP_BYTES", "GROUP_ROWS", "Frames"]

GROUP_ROWS, GROUP_BYTES = 65_536, 2**25
"""A group of rows of the file ends at either, which bounds the memory."""


class Frames:
    """A file that only grows; every piece is sent as it comes."""

    closed = False

    def __init__(self, answers: BinaryIO, limits: ReaderLimits) -> None:
        self._answers, self._limits, self._sent = answers, limits, 0

    def write(self, data: Any) -> int:
        """Send a piece.

        Raises
        ------
        TableError
            If the file is larger than the program accepts.
        """
        piece = bytes(data)
        self._sent += len(piece)
        if self._sent > self._limits.input_bytes:
            raise too_large("The table", self._limits.input_bytes)
        write_frame(self._answers, b"B", piece)
        return len(piece)

    def tell(self) -> int:
        """Return how many bytes were sent."""
        return self._sent

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def close(self) -> None:
        """Do nothing: the answer goes on."""
