"""The engine that the settings choose."""

from __future__ import annotations

from collections.abc import Sequence

from synth.jobs.engine import WORKER_COMMAND, Engine
from synth.jobs.local import LocalEngine
from synth.store import Store

__all__ = ["engine_of"]


def engine_of(store: Store, *, command: Sequence[str] = WORKER_COMMAND) -> Engine:
    """Return the engine of an installation: this machine."""
    return LocalEngine(store, command=command)
