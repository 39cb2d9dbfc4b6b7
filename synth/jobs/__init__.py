"""Start, watch and stop background work; its row in the store is the only record of it."""

from __future__ import annotations

from synth.jobs.chosen import engine_of
from synth.jobs.engine import Engine
from synth.jobs.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "engine_of"]
