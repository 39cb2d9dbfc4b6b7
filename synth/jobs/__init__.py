"""Starting runs, watching them and stopping them; the run's row in the store is the only truth about it."""

from __future__ import annotations

from synth.jobs.local import LocalEngine

__all__ = ["LocalEngine"]
