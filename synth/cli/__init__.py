"""The command line: the same code path as the browser, for files of any size and for scripts."""

from __future__ import annotations

from synth.cli.commands import main

__all__ = ["main"]
