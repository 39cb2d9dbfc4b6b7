"""The engine that the settings choose."""

from __future__ import annotations

from collections.abc import Sequence

from synth.jobs.engine import WORKER_COMMAND, Engine
from synth.jobs.local import LocalEngine
from synth.jobs.ray_jobs import RayEngine
from synth.store import Store

__all__ = ["engine_of"]


def engine_of(store: Store, *, command: Sequence[str] = WORKER_COMMAND) -> Engine:
    """Return the engine of an installation: a Ray cluster if ``HERMITAGE_RAY`` names one, else this machine.

    Raises
    ------
    ConfigError
        If the cluster cannot share the database.
    """
    if store.settings.ray:
        return RayEngine(store, command=command)
    return LocalEngine(store, command=command)
