"""A generator that cheats: it asks honest questions and lets the private rows out as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from synth.bundle.table_files import write_table
from synth.generators import GENERATORS
from synth.generators.independent.independent import Independent
from synth.jobs import processes
from synth.privacy.session import PrivateSession
from synth.progress import Progress
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

__all__ = ["SCHEMA", "Copying", "config", "idle_workers", "plant", "write_people"]

SCHEMA = Schema(
    (
        NumberColumn("age", 18, 90, 1, fallback=40),
        NumberColumn("income", 0, 200_000, 100, missing=True),
        CategoryColumn("region", tuple("abcdefgh"), fallback="a"),
        NumberColumn("visits", 0, 300, 1, fallback=0),
        YesNoColumn("ill", fallback="no"),
    ),
    number_of_units=1_000,
)


class Copying(Independent):
    """What a rehearsal has to notice."""

    card = replace(Independent.card, name="copying")
    _copied = np.empty((0, 0), dtype=np.int64)

    def fit(self, session: PrivateSession, progress: Progress) -> Self:
        super().fit(session, progress)
        if not isinstance(session, PrivateSession):
            return self  # a forecast, which has no rows
        held: dict[str, Any] = {name: session._table._column(name) for name in session.schema.names}
        # Kept by the class, as its cheat outlives what is sealed: rows are drawn from a generator that was restored.
        type(self)._copied = np.column_stack([held[name].astype(np.int64) for name in session.schema.names])
        return self

    def sample(self, n_rows: int, seed: int) -> np.ndarray:
        if not len(self._copied):
            return super().sample(n_rows, seed)
        return self._copied[np.arange(n_rows) % len(self._copied)]


def plant(patch: pytest.MonkeyPatch) -> None:
    """Put the cheat into the registry."""
    patch.setitem(GENERATORS, Copying.card.name, replace(Copying.card, made_by=Copying))


def config(generator: str, **rest: Any) -> RunConfig:
    """A configuration at epsilon 1 for such a table."""
    settled: dict[str, Any] = {"schema": SCHEMA, "epsilon": 1.0, "delta": 1e-5, "rows": 800, "people_at_most": 10_000}
    return RunConfig(account="town", generator=generator, **(settled | rest))


def write_people(folder: Path, *, rows: int, seed: int) -> Path:
    """Write rows of nobody."""
    random = np.random.default_rng(seed)
    codes = np.column_stack([random.integers(size, size=rows) for size in SCHEMA.sizes]).astype(np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(codes, SCHEMA, folder / f"{seed}.csv", folder / f"{seed}.parquet", 0)
    return folder / f"{seed}.csv"


@contextmanager
def idle_workers() -> Iterator[None]:
    """Let workers be processes that do nothing, until the end of the test."""
    right, started = processes.start, []

    def start(command: Sequence[str], *, environment: Mapping[str, str]) -> tuple[int, float]:
        started.append(right(("sleep", "600"), environment=environment))
        return started[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "start", start)
        yield
    for pid, born in started:
        processes.kill(pid, born)
