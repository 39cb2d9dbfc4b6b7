"""Several rehearsals side by side: a grid of budgets, generators and seeds on the same public rows.

Each cell runs what a run would run. The attacks of all cells together share one chance of a false alarm, and a cell in
which one does better than the proof allows stops its own configuration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Self

from synth.errors import AttackError, InputError, RunCancelledError, SynthError
from synth.progress import NullProgress, Progress
from synth.reports.anchors import anchored
from synth.reports.attack_evidence import PublicAttacks
from synth.reports.counting import CodeTable
from synth.reports.downstream import compare_predictions
from synth.reports.evidence import SafeEvidence
from synth.reports.forecast import one_way_noise
from synth.reports.marginals import compare_marginals
from synth.reports.membership import UnitRows
from synth.reports.prediction_problem import DownstreamOptions, Problem, TrainedOn, Untestable
from synth.reports.proven_ceiling import ProvenCeiling
from synth.reports.rehearsal_grid import GridCell, grid_cell_to_dict, grid_evidence
from synth.reports.stand_in import REHEARSAL_SENTENCE
from synth.schema import RunConfig
from synth.services.incidents import record_incident
from synth.services.planning import check_config
from synth.services.reports import free_threads

__all__ = ["USUAL_EPSILONS", "Grid", "GridRehearsal", "GridStop", "OpenedStandIn", "check_grid", "rehearse_grid"]

USUAL_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
USUAL_SEEDS = 3
_CONTROL = "independent"
_MOST_CELLS = 120
_MEASURES = ("roc_auc", "r2")
_SPOKEN = {"roc_auc": "ROC AUC", "r2": "R2"}


@dataclass(frozen=True, slots=True)
class Grid:
    """What is rehearsed: every generator at every epsilon with every seed.

    Attributes
    ----------
    epsilons : tuple of float
        Positive, each once.
    generators : tuple of str
        Names, each once.
    seeds : int
        How many, from 1.
    """

    epsilons: tuple[float, ...]
    generators: tuple[str, ...]
    seeds: int = USUAL_SEEDS

    def __post_init__(self) -> None:
        if not self.epsilons or not self.generators or self.seeds < 1:
            raise InputError("A grid needs at least one epsilon, one generator and one seed.")
        if min(self.epsilons) <= 0:
            raise InputError(f"epsilon must be positive, got {min(self.epsilons):g}.")
        for what, values in (("epsilon", self.epsilons), ("generator", self.generators)):
            if len(set(values)) < len(values):
                raise InputError(f"The grid names one {what} twice. Name each once.")
        if self.cells > _MOST_CELLS:
            raise InputError(f"A grid of {self.cells} rehearsals is too large; at most {_MOST_CELLS} are possible.")

    @classmethod
    def usual(
        cls,
        config: RunConfig,
        *,
        epsilons: tuple[float, ...] | None = None,
        generators: tuple[str, ...] | None = None,
        seeds: int | None = None,
    ) -> Self:
        """Return the grid of a configuration: its own generator beside the control, where nothing else is said."""
        # Where one cell is protected no generator but its own can ask.
        control = (_CONTROL,) if config.schema.protection == "record" else ()
        own = tuple(dict.fromkeys((config.generator, *control)))
        return cls(epsilons or USUAL_EPSILONS, generators or own, USUAL_SEEDS if seeds is None else seeds)

    @property
    def cells(self) -> int:
        """Number of rehearsals."""
        return len(self.epsilons) * len(self.generators) * self.seeds

    def configs(self, config: RunConfig) -> Iterator[RunConfig]:
        """Return the configuration of every cell, seed by seed; another generator keeps no option of the first."""
        for seed, name, epsilon in product(range(self.seeds), self.generators, sorted(self.epsilons)):
            options = config.options if name == config.generator else {}
            yield replace(config, generator=name, options=options, epsilon=epsilon, seed=config.seed + seed)

    def to_dict(self) -> dict[str, Any]:
        """Write the grid as JSON values; :meth:`from_dict` gives it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        return cls(tuple(map(float, body["epsilons"])), tuple(map(str, body["generators"])), int(body["seeds"]))


@dataclass(frozen=True, slots=True, eq=False)
class OpenedStandIn:
    """A stand-in as one seed splits it, and the two things that are done with it.

    ``train`` and ``held_out`` are public rows. ``make`` runs a configuration on the first and returns its rows as
    codes, column by column, and what its receipts prove; ``attack`` tries to tell the two apart.
    """

    train: UnitRows
    held_out: UnitRows
    make: Callable[[RunConfig], tuple[CodeTable, ProvenCeiling]]
    attack: Callable[[RunConfig, CodeTable, ProvenCeiling], PublicAttacks]


@dataclass(frozen=True, slots=True)
class GridStop:
    """A cell in which an attack did better than the proof allows."""

    config: RunConfig
    incident: str
    exceeded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GridRehearsal:
    """What a grid came to: its cells as far as they were rehearsed, those that failed and why, and stops."""

    cells: tuple[GridCell, ...]
    of: int
    label: str | None
    said: str
    failures: tuple[str, ...] = ()
    stops: tuple[GridStop, ...] = ()

    @property
    def evidence(self) -> tuple[SafeEvidence, ...]:
        """The cells side by side; none while there is no cell."""
        return grid_evidence(self.cells, label=self.label, said=self.said) if self.cells else ()

    @property
    def incident(self) -> str | None:
        """The first incident, or None."""
        return self.stops[0].incident if self.stops else None

    @property
    def sentence(self) -> str:
        """What has to be said of it first."""
        if not self.stops:
            return f"{self.said} {REHEARSAL_SENTENCE}"
        found = "; ".join(
            f"{stop.config.generator} at epsilon {stop.config.epsilon:g}: {', '.join(stop.exceeded)}, incident "
            f"{stop.incident}"
            for stop in self.stops
        )
        return (
            f"Stop. An attack did better than the proof allows ({found}). This is a bug; do not release. Runs and "
            "releases with these configurations are stopped."
        )

    @property
    def document(self) -> dict[str, Any]:
        """What is kept beside the evidence."""
        return {
            "cells": [grid_cell_to_dict(cell) for cell in self.cells],
            "done": len(self.cells) + len(self.failures),
            "of": self.of,
            "failures": list(self.failures),
            "incidents": [stop.incident for stop in self.stops],
        }

    @property
    def lines(self) -> list[str]:
        """The table as lines of text, and the verdict."""
        lines = []
        for entry in self.evidence[:1]:
            table = entry.figures[0]
            header, rows = table.header, table.rows  # type: ignore[union-attr]
            lines.append("  ".join(f"{name:>22}" for name in header))
            lines += ["  ".join(f"{_text(value):>22}" for value in row) for row in rows]
        return [*lines, *self.failures, self.sentence]


def check_grid(config: RunConfig, grid: Grid) -> None:
    """Refuse, before anything is read, a grid with a configuration that a run would refuse; errors of its check."""
    for one in grid.configs(config):
        check_config(one)


def rehearse_grid(
    config: RunConfig,
    grid: Grid,
    opened: Callable[[RunConfig, int], OpenedStandIn],
    progress: Progress,
    *,
    said: str,
    keep: Callable[[GridRehearsal], None],
) -> GridRehearsal:
    """Rehearse every cell of a grid.

    Parameters
    ----------
    config : RunConfig
        Holds some units out.
    grid : Grid
    opened : callable
        Opens the stand-in as the seed of a configuration splits it; told how many rehearsals share a false alarm.
    progress : Progress
        Told the time left once the first cell is done.
    said : str
        What is said of the rows.
    keep : callable
        Given the grid as far as it is, after every cell.
    """
    found = GridRehearsal((), grid.cells, config.label, said)
    stand_in: OpenedStandIn | None = None
    real: tuple[str, float] | None = None
    begun, seed = time.monotonic(), -1
    progress.phase(f"Rehearsing {grid.cells} times")
    for done, one in enumerate(grid.configs(config)):
        if stand_in is None or one.seed != seed:
            stand_in, seed, real = opened(one, grid.cells), one.seed, None
        try:
            cell, real, attacked = _cell(one, stand_in, real)
        except RunCancelledError:
            raise
        except SynthError as error:
            found = replace(found, failures=(*found.failures, _failure(one, str(error))))
        except Exception as error:
            sentence = f"It failed inside the program (incident {record_incident(error)})."
            found = replace(found, failures=(*found.failures, _failure(one, sentence)))
        else:
            found = replace(found, cells=(*found.cells, cell))
            if attacked.exceeded:
                incident = record_incident(AttackError("", incident=""))
                found = replace(found, stops=(*found.stops, GridStop(one, incident, attacked.exceeded)))
        keep(found)
        left = (time.monotonic() - begun) / (done + 1) * (grid.cells - done - 1) / 60
        progress.phase(f"Rehearsing {grid.cells} times, {_minutes(left)} left")
        progress.step(done + 1, grid.cells)
        progress.check_cancelled()
    return found


def _cell(
    config: RunConfig, stand_in: OpenedStandIn, real: tuple[str, float] | None
) -> tuple[GridCell, tuple[str, float] | None, PublicAttacks]:
    """Rehearse one cell; ``real`` is what training on stand-in rows reaches, once it is known for this seed."""
    begun = time.monotonic()
    synthetic, ceiling = stand_in.make(config)
    seconds = time.monotonic() - begun
    train, schema = stand_in.train.codes, config.schema
    tables = anchored(train, synthetic, schema, control_noise=one_way_noise(config), seed=config.seed)
    ways = compare_marginals(tables.tables, schema, coarse=True, alphas=(1, 2), seed=config.seed).by_alpha
    pairs, _, floor = ways[min(2, len(schema.names))].means
    scores = _scores(config, stand_in, synthetic, with_real=real is None)
    if "real" in scores:
        real = scores["real"]
    attacked = stand_in.attack(config, synthetic, ceiling)
    areas = {entry.title: entry.value for entry in attacked.evidence if entry.id.endswith(".area")}
    worst = max(areas, key=lambda title: float(areas[title] or 0.0), default="")
    measure, predicted = scores.get("synthetic", ("", None))
    return (
        GridCell(
            generator=config.generator,
            epsilon=config.epsilon,
            seed=config.seed,
            pairs=float(pairs or 0.0),
            floor=float(floor or 0.0),
            measure=measure,
            predicted=predicted,
            real=None if real is None or not measure else real[1],
            attack=worst,
            area=float(areas[worst] or 0.0) if worst else None,
            ceiling=ceiling.area if worst else None,
            seconds=seconds,
        ),
        real,
        attacked,
    )


def _scores(
    config: RunConfig, stand_in: OpenedStandIn, synthetic: CodeTable, *, with_real: bool
) -> dict[TrainedOn, tuple[str, float]]:
    """Predict the label of the held-out rows; empty where there is none, or nothing to predict from."""
    if config.label is None or not len(stand_in.held_out.units):
        return {}
    tables: dict[TrainedOn, CodeTable] = {"synthetic": synthetic}
    if with_real:
        tables["real"] = stand_in.train.codes
    problem = Problem(
        schema=config.schema,
        label=config.label,
        tables=tables,
        test=stand_in.held_out.codes,
        test_units=stand_in.held_out.units,
        seed=config.seed,
    )
    options = DownstreamOptions(repeats=1, resamples=2, threads=free_threads())
    found = compare_predictions(problem, options, NullProgress())
    if isinstance(found, Untestable):
        return {}
    scores: dict[TrainedOn, tuple[str, float]] = {}
    for source, measures in found.means.items():
        for name in _MEASURES:
            value = measures[name].value if name in measures else None
            if value is not None and source not in scores:
                scores[source] = (_SPOKEN[name], value)
    return scores


def _failure(config: RunConfig, sentence: str) -> str:
    return f"{config.generator} at epsilon {config.epsilon:g}, seed {config.seed}: {sentence}"


def _minutes(minutes: float) -> str:
    return "less than a minute" if minutes < 1 else f"about {round(minutes)} minute{'s' * (round(minutes) > 1)}"


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
