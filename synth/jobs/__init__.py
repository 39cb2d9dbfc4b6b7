"""Starting runs, watching them and stopping them; the run's row in the store is the only truth about it."""

from __future__ import annotations

from synth.jobs.engine import Capacity, JobEngine
from synth.jobs.local import LocalEngine

__all__ = ["Capacity", "JobEngine", "LocalEngine"]
