"""Start, watch and stop background work; its row in the store is the only record of it."""

from __future__ import annotations

from synth.jobs.local import LocalEngine

__all__ = ["LocalEngine"]
