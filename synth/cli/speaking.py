"""How the command line speaks: results on one stream, how far something is on the other."""

from __future__ import annotations

import sys
from collections.abc import Callable

from synth.names import visible_lines
from synth.progress import ProgressSink, StoredProgress

__all__ = ["Say", "SpokenProgress", "StoredAndSpokenProgress", "say", "tell"]

Say = Callable[[str], None]


def say(*lines: str) -> None:
    """Say lines of a result; what cannot be seen in them is said by its number."""
    sys.stdout.writelines(visible_lines(line) + "\n" for line in lines)
    sys.stdout.flush()


def tell(line: str) -> None:
    """Say how far something is, apart from results."""
    sys.stderr.write(visible_lines(line) + "\n")
    sys.stderr.flush()


class SpokenProgress:
    """Progress as lines of text."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def phase(self, name: str) -> None:
        """Say which phase begins."""
        self._say(f"{name} ...")

    def step(self, k: int, of: int) -> None:
        """Say nothing: steps are for screens."""

    def loss(self, value: float) -> None:
        """Say nothing."""

    def check_cancelled(self) -> None:
        """Nobody but Ctrl-C cancels here."""


class StoredAndSpokenProgress(StoredProgress):
    """Progress in the store and as lines of text."""

    def __init__(self, sink: ProgressSink, run_id: str, say: Say) -> None:
        super().__init__(sink, run_id)
        self._say = say

    def phase(self, name: str) -> None:
        """Note the phase and say it."""
        super().phase(name)
        self._say(f"{name} ...")

    def owner_phase(self, name: str) -> None:
        """Say the phase on this terminal, which is the owner's, and note it nowhere."""
        self._say(f"owner only: {name} ...")
