"""Starting background work, watching it and stopping it; its row in the store is the only truth about it."""

from __future__ import annotations

from synth.jobs.local import LocalEngine

__all__ = ["LocalEngine"]
