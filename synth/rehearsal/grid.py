"""Several rehearsals side by side: a grid of epsilons, generators and seeds on the same public rows.

Each cell runs what a run would run. The attacks of all cells share one chance of a false alarm. A cell in which an
attack does better than the proof allows stops its own configuration. The epsilon nearest to the declared one comes
first, so that a grid which is stopped early has compared the generators there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, Self

from synth.errors import AttackError, ConfigError, InputError, RunCancelledError, SynthError
from synth.generators import CONTROL, GENERATORS
from synth.progress import NullProgress, Progress
from synth.rehearsal.stand_in import REHEARSAL_SENTENCE
from synth.reports.code_tables import CodeTable, UnitRows, compare_marginals
from synth.reports.controls import anchored
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Bars, Cell, Series, Table
from synth.reports.forecast import one_way_noise
from synth.reports.prediction.downstream import compare_predictions
from synth.reports.prediction.problem import DownstreamOptions, Problem, TrainedOn, Untestable
from synth.reports.report import StandInPart
from synth.reports.risk_bounds import ProvenCeiling
from synth.reports.wording import number_text, short_text
from synth.schema import RunConfig
from synth.services.incidents import record_incident
from synth.services.planning import check_config
from synth.services.reports import free_threads

__all__ = [
    "EVERY_GENERATOR",
    "PURPOSES",
    "USUAL_EPSILONS",
    "Grid",
    "GridCell",
    "GridRehearsal",
    "GridStop",
    "OpenedStandIn",
    "Predicted",
    "Purpose",
    "check_grid",
    "grid_evidence",
    "predicted_of",
    "rehearse_grid",
]

USUAL_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
USUAL_SEEDS = 3
_MOST_CELLS = 120
EVERY_GENERATOR = "all"
"""In place of names: every generator that can make the declared table."""
Purpose = Literal["prediction", "counts"]
PURPOSES: tuple[Purpose, ...] = ("prediction", "counts")
"""What rows are for: to predict the label, or to count."""
_MEASURES = ("roc_auc", "r2")
_SPOKEN = {"roc_auc": "ROC AUC", "r2": "R2"}
_GUESSING = 0.5


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
        The number of seeds, at least 1.
    purpose : {"prediction", "counts"}
        What the rows are for; the best generator for it is shown first.
    left_out : tuple of str
        Where every generator was asked for: one sentence for each that cannot make the table.
    """

    epsilons: tuple[float, ...]
    generators: tuple[str, ...]
    seeds: int = USUAL_SEEDS
    purpose: Purpose = "counts"
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.epsilons or not self.generators or self.seeds < 1:
            raise InputError("A grid needs at least one epsilon, one generator and one seed.")
        if min(self.epsilons) <= 0:
            raise InputError(f"epsilon must be positive, got {min(self.epsilons):g}.")
        for what, values in (("epsilon", self.epsilons), ("generator", self.generators)):
            if len(set(values)) < len(values):
                raise InputError(f"The grid names one {what} twice. Name each only once.")
        if self.cells > _MOST_CELLS:
            raise InputError(f"A grid of {self.cells} rehearsals is too large. The most is {_MOST_CELLS}.")

    @classmethod
    def usual(
        cls,
        config: RunConfig,
        *,
        epsilons: tuple[float, ...] | None = None,
        generators: tuple[str, ...] | None = None,
        seeds: int | None = None,
        purpose: Purpose | None = None,
    ) -> Self:
        """Return the grid of a configuration; by default its own generator and the control.

        Parameters
        ----------
        config : RunConfig
        epsilons : tuple of float, optional
        generators : tuple of str, optional
            ``("all",)`` stands for every generator that can make the declared table.
        seeds : int, optional
            By default three, and one if every generator is asked for.
        purpose : {"prediction", "counts"}, optional
            By default what the configuration states: the option ``purpose`` of its generator, or else prediction where
            there is a label.

        Raises
        ------
        InputError
            If this is no grid, or too large a one, or no generator can make the table.
        """
        left_out: tuple[str, ...] = ()
        every = generators is not None and EVERY_GENERATOR in generators
        if every:
            if generators != (EVERY_GENERATOR,):
                raise InputError(f"'{EVERY_GENERATOR}' stands for every generator, so name no other beside it.")
            generators, left_out = _every_generator(config)
        # The control needs sums, which are not always allowed.
        control = (CONTROL,) if config.schema.allows_sums else ()
        own = tuple(dict.fromkeys((config.generator, *control)))
        return cls(
            epsilons or USUAL_EPSILONS,
            generators or own,
            (1 if every else USUAL_SEEDS) if seeds is None else seeds,
            _purpose_of(config) if purpose is None else purpose,
            left_out,
        )

    @property
    def cells(self) -> int:
        """Number of rehearsals."""
        return len(self.epsilons) * len(self.generators) * self.seeds

    def configs(self, config: RunConfig) -> Iterator[RunConfig]:
        """Yield the configuration of every cell, the declared epsilon first; others have their default options."""
        nearest = sorted(self.epsilons, key=lambda epsilon: (abs(math.log(epsilon / config.epsilon)), epsilon))
        for seed, epsilon, name in product(range(self.seeds), nearest, self.generators):
            options = config.options if name == config.generator else {}
            yield replace(config, generator=name, options=options, epsilon=epsilon, seed=config.seed + seed)

    def to_dict(self) -> dict[str, Any]:
        """Write the grid as JSON values; :meth:`from_dict` gives it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        return cls(
            tuple(map(float, body["epsilons"])),
            tuple(map(str, body["generators"])),
            int(body["seeds"]),
            body["purpose"],
            tuple(map(str, body["left_out"])),
        )


def _every_generator(config: RunConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the generators that can make the table of a configuration, and one sentence for each other."""
    able, left_out = [], []
    for name in GENERATORS:
        options = config.options if name == config.generator else {}
        try:
            check_config(replace(config, generator=name, options=options))
        except InputError as error:
            why = str(error).partition(". ")[0].removesuffix(".").replace(f"generator '{name}'", "it", 1)
            left_out.append(f"{name} is left out: {why}.")
        else:
            able.append(name)
    if not able:
        check_config(config)  # which says why
    return tuple(able), tuple(left_out)


def _purpose_of(config: RunConfig) -> Purpose:
    """Return what a configuration says that its rows are for."""
    stated = str(config.options.get("purpose", ""))
    if config.label is None or stated.startswith(("marginals", "regression")):
        return "counts"
    return "prediction"


@dataclass(frozen=True, slots=True, eq=False)
class OpenedStandIn:
    """A stand-in as one seed splits it, and what is done with it.

    ``train`` and ``holdout`` are public rows. ``make`` runs a configuration on the first and returns its rows as
    codes, column by column, what its receipts prove, and the seconds it took; ``attack`` tries to distinguish the two.
    """

    train: UnitRows
    holdout: UnitRows
    make: Callable[[RunConfig], tuple[CodeTable, ProvenCeiling, float]]
    attack: Callable[[RunConfig, CodeTable, ProvenCeiling], StandInPart]


@dataclass(frozen=True, slots=True)
class GridStop:
    """A cell in which an attack did better than the proof allows."""

    config: RunConfig
    incident: str
    exceeded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GridRehearsal:
    """The result of a grid: the cells that are done, those that failed and why, stops, and what was left out."""

    cells: tuple[GridCell, ...]
    of: int
    label: str | None
    said: str
    failures: tuple[str, ...] = ()
    stops: tuple[GridStop, ...] = ()
    purpose: Purpose = "counts"
    left_out: tuple[str, ...] = ()

    @property
    def evidence(self) -> tuple[SafeEvidence, ...]:
        """The cells side by side; nothing while no cell is done."""
        if not self.cells:
            return ()
        return grid_evidence(self.cells, label=self.label, said=self.said, purpose=self.purpose)

    @property
    def done(self) -> int:
        """Number of rehearsals that ended, whether well or not."""
        return len(self.cells) + len(self.failures)

    @property
    def incident(self) -> str | None:
        """The first incident, or None."""
        return self.stops[0].incident if self.stops else None

    @property
    def sentence(self) -> str:
        """The sentence to show first."""
        if not self.stops:
            return f"{self.said} {REHEARSAL_SENTENCE}"
        found = "; ".join(
            f"{stop.config.generator} at epsilon {stop.config.epsilon:g}: {', '.join(stop.exceeded)}, incident "
            f"{stop.incident}"
            for stop in self.stops
        )
        return (
            f"Stop. An attack did better than the proof allows ({found}). This is a bug, so do not release. Runs and "
            "releases with these configurations are stopped."
        )

    @property
    def document(self) -> dict[str, Any]:
        """What is kept besides the evidence."""
        return {
            "cells": [asdict(cell) for cell in self.cells],
            "done": self.done,
            "of": self.of,
            "failures": list(self.failures),
            "left_out": list(self.left_out),
            "incidents": [stop.incident for stop in self.stops],
        }

    @property
    def lines(self) -> list[str]:
        """The table and the verdict, as lines of text."""
        lines = []
        for entry in self.evidence[:1]:
            for table in entry.figures[:1]:
                if isinstance(table, Table):
                    lines.append("  ".join(f"{name:>22}" for name in table.header))
                    lines += ["  ".join(f"{_text(value):>22}" for value in row) for row in table.rows]
                lines.append(entry.sentence.removesuffix(self.said).rstrip())
        stopped = [f"{self.done} of {self.of} rehearsals are done."] if self.done < self.of else []
        return [*lines, *self.left_out, *self.failures, *stopped, self.sentence]

    @property
    def latest(self) -> str:
        """One line about the cell that ended last."""
        if not self.cells:
            return self.failures[-1] if self.failures else ""
        cell = self.cells[-1]
        said = [f"distance of pairs {number_text(cell.pairs)}"]
        if cell.predicted is not None:
            said.insert(0, f"{cell.measure} {number_text(cell.predicted)}")
        seed = f", seed {cell.seed}" if cell.seed else ""
        return f"{cell.generator} at epsilon {cell.epsilon:g}{seed}: {', '.join(said)}"


def check_grid(config: RunConfig, grid: Grid) -> None:
    """Refuse, before anything is read, a grid with a configuration that a run would refuse."""
    if config.is_model:
        raise ConfigError("A grid compares tables, and a model makes none. Rehearse the model by itself.")
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
        A configuration that holds out some units.
    grid : Grid
    opened : callable
        Opens the stand-in, split by the seed of a configuration; called with the number of rehearsals that share a
        false alarm.
    progress : Progress
        Shows the time left once the first cell is done.
    said : str
        What to say about the rows.
    keep : callable
        Called with the grid so far, after every cell.
    """
    found = GridRehearsal((), grid.cells, config.label, said, purpose=grid.purpose, left_out=grid.left_out)
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
            sentence = f"Something failed inside Hermitage (incident {record_incident(error)})."
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
) -> tuple[GridCell, tuple[str, float] | None, StandInPart]:
    """Rehearse one cell of the grid; ``real`` is the score after training on stand-in rows, once known."""
    synthetic, ceiling, seconds = stand_in.make(config)
    # Of people who are kept whole, one row each is compared.
    asked = config.asked
    train, schema = stand_in.train.codes, asked.schema
    tables = anchored(train, synthetic, schema, control_noise=one_way_noise(asked), seed=config.seed)
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
    """Predict the label of held-out rows; return nothing if there is no label or nothing to predict from."""
    if config.label is None or not len(stand_in.holdout.units):
        return {}
    tables: dict[TrainedOn, CodeTable] = {"synthetic": synthetic}
    if with_real:
        tables["real"] = stand_in.train.codes
    problem = Problem(
        schema=config.asked.schema,
        label=config.label,
        tables=tables,
        test=stand_in.holdout.codes,
        test_units=stand_in.holdout.units,
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


@dataclass(frozen=True, slots=True)
class Predicted:
    """How well the label was predicted at one epsilon, and after training on the stand-in itself."""

    measure: str
    epsilon: float
    score: float
    real: float | None


def predicted_of(report: Mapping[str, Any], epsilon: float) -> Iterator[Predicted]:
    """Yield the score in the report of a single rehearsal, as for the cells of a grid."""
    values = {entry["id"]: entry["value"] for entry in report["evidence"]}
    for name in _MEASURES:
        score = values.get(f"downstream.synthetic.{name}")
        if score is not None:
            yield Predicted(_SPOKEN[name], epsilon, float(score), values.get(f"downstream.real.{name}"))
            return


def _failure(config: RunConfig, sentence: str) -> str:
    return f"{config.generator} at epsilon {config.epsilon:g}, seed {config.seed}: {sentence}"


def _minutes(minutes: float) -> str:
    return "less than a minute" if minutes < 1 else f"about {round(minutes)} minute{'s' * (round(minutes) > 1)}"


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


# The cells of a grid side by side, as evidence -----------------------------------------------------------------------


Measure = Callable[["GridCell"], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One generator at one epsilon with one seed.

    Attributes
    ----------
    generator : str
    epsilon : float
    seed : int
    pairs : float
        Mean total variation between synthetic and stand-in rows over pairs of columns (over columns, if there is only
        one), with numbers and dates in at most 32 public bins.
    floor : float
        The same for another draw of the stand-in rows.
    measure : str
        The score of predictions; empty if nothing could be predicted.
    predicted, real : float, optional
        The mean score after training on synthetic rows, and on stand-in rows.
    attack : str
        The strongest attack; empty if there were too few people for a verdict.
    area, ceiling : float, optional
        Its ROC AUC, and the largest that the receipts allow for any attack.
    seconds : float
        The time for measuring, fitting and drawing, without reports; an even share where several were fitted together.
    """

    generator: str
    epsilon: float
    seed: int
    pairs: float
    floor: float
    measure: str = ""
    predicted: float | None = None
    real: float | None = None
    attack: str = ""
    area: float | None = None
    ceiling: float | None = None
    seconds: float = 0.0


def grid_evidence(
    cells: Sequence[GridCell], *, label: str | None, said: str, purpose: Purpose = "counts"
) -> tuple[SafeEvidence, ...]:
    """Put the cells of a grid side by side.

    Parameters
    ----------
    cells : sequence of GridCell
        At least one.
    label : str, optional
        What is predicted.
    said : str
        What to say about the rows under every chart.
    purpose : {"prediction", "counts"}
        By what generators are ordered: the prediction of the label, if there is one, or the distance of pairs.

    Returns
    -------
    tuple of SafeEvidence
        ``grid.table``, ``grid.pairs``, ``grid.prediction`` and ``grid.attacks``, the last two only if there is
        something to show.
    """
    seeds, first = len({cell.seed for cell in cells}), cells[0].epsilon
    cells = _best_first(cells, purpose)
    # Pictures come in the order of the epsilon that was rehearsed first.
    drawn = sorted(cells, key=lambda cell: cell.epsilon != first)
    bands = f"Bands span {seeds} seeds. " if seeds > 1 else "With only one seed, no variation is shown. "
    floor = partial(_line, "another draw of the stand-in", "floor", lambda cell: cell.floor)
    real = partial(_line, "trained on stand-in rows", "ceiling", lambda cell: cell.real)
    found = [
        SafeEvidence(
            id="grid.table",
            title="Every generator at every epsilon",
            value=None,
            sentence=f"Means over {seeds} seed{'s' * (seeds > 1)}; small distances and large scores are good. At each "
            f"epsilon, the best {_for(cells, purpose, label)} comes first. {_few(cells)}{said}",
            figures=(_table(cells),),
        ),
        SafeEvidence(
            id="grid.pairs",
            title="Error of pairs of columns",
            value=None,
            unit="total variation",
            sentence="Synthetic rows compared with the stand-in, with numbers and dates in at most 32 public bins; 0 "
            f"means equal. {bands}{said}",
            figures=_figures(drawn, "Distance of pairs", "total variation", lambda cell: cell.pairs, floor),
        ),
    ]
    measure = next((cell.measure for cell in cells if cell.measure), "")
    if measure:
        found.append(
            SafeEvidence(
                id="grid.prediction",
                title=f"Prediction of '{label}'",
                value=None,
                unit=measure,
                sentence=f"Trained on synthetic rows, tested on held-out stand-in rows. {bands}{said}",
                figures=_figures(drawn, "Prediction", measure, lambda cell: cell.predicted, real),
            )
        )
    if any(cell.area is not None for cell in cells):
        found.append(
            SafeEvidence(
                id="grid.attacks",
                title="The strongest attack",
                value=None,
                unit="ROC AUC",
                sentence="The attack with the largest area under the curve. 0.5 is guessing; the largest of several is "
                "a little above it by chance. The ceiling is proven for every attack; a point above it is due to "
                f"chance, unless an incident is named. {bands}{said}",
                figures=_figures(drawn, "Strongest attack", "ROC AUC", lambda cell: cell.area, _ceiling),
            )
        )
    return tuple(found)


def _few(cells: Sequence[GridCell]) -> str:
    """Return a warning where generators are compared with a single seed."""
    several = len({cell.generator for cell in cells}) > 1 and len({cell.seed for cell in cells}) == 1
    return "With another seed, generators that are close may change places. " if several else ""


def _for(cells: Sequence[GridCell], purpose: Purpose, label: str | None) -> str:
    predicted = purpose == "prediction" and any(cell.predicted is not None for cell in cells)
    return f"for predicting '{label}'" if predicted else "for counting pairs of columns"


def _best_first(cells: Sequence[GridCell], purpose: Purpose) -> list[GridCell]:
    """Order cells by epsilon, and those of each epsilon by what the rows are for; cells without a score come last."""
    by_prediction = purpose == "prediction" and any(cell.predicted is not None for cell in cells)

    def place(cell: GridCell) -> tuple[float, float, int]:
        own = [one for one in cells if (one.generator, one.epsilon) == (cell.generator, cell.epsilon)]
        predicted = _mean([one.predicted for one in own if one.predicted is not None])
        pairs = sum(one.pairs for one in own) / len(own)
        unknown = math.inf if predicted is None else -predicted
        return (cell.epsilon, unknown if by_prediction else pairs, cell.seed)

    return sorted(cells, key=place)


def _ceiling(cells: Sequence[GridCell]) -> list[Series]:
    epsilons = _epsilons(cells)
    guessing = Series("guessing", "floor", (_GUESSING,) * len(epsilons))
    return [guessing, *_line("proven ceiling", "ceiling", lambda cell: cell.ceiling, cells)]


def _line(name: str, meaning: Any, measure: Measure, cells: Sequence[GridCell]) -> list[Series]:
    means = [_mean(_values(cells, epsilon, measure)) for epsilon in _epsilons(cells)]
    known = [mean for mean in means if mean is not None]
    return [Series(name, meaning, tuple(known))] if len(known) == len(means) else []


def _figures(
    cells: Sequence[GridCell],
    title: str,
    unit: str,
    measure: Measure,
    anchors: Callable[[Sequence[GridCell]], list[Series]],
) -> tuple[Bars, ...]:
    """Return a chart of each generator with the control, or of the control alone if there is no other."""
    generators = _in_order(cell.generator for cell in cells)
    control = [cell for cell in cells if cell.generator == CONTROL]
    figures = []
    for name in [name for name in generators if name != CONTROL] or generators:
        own = [cell for cell in cells if cell.generator == name]
        epsilons = _epsilons(own)
        series = _bands(name, "stand_in", own, measure)
        if name != CONTROL and _epsilons(control) == epsilons:
            series += _bands(CONTROL, "control", control, measure)
        if series:
            categories = tuple(f"ε = {epsilon:g}" for epsilon in epsilons)
            seen, beside = f"{title} of {name}: {_ends(series[0], epsilons)}", anchors(own)
            judged = "; ".join(f"{one.name} {short_text(one.values[-1])}" for one in beside)
            subtitle = f"Compare with: {judged}." if judged else ""
            figures.append(Bars(seen, unit, categories, (*series, *beside), joined=True, subtitle=subtitle))
    return tuple(figures)


def _ends(series: Series, epsilons: Sequence[float]) -> str:
    """Return the values of a curve at its smallest and its largest epsilon, in words."""
    ends = (0,) if len(epsilons) == 1 else (0, -1)
    return ", ".join(f"{short_text(series.values[place])} at epsilon {epsilons[place]:g}" for place in ends)


def _bands(name: str, meaning: Any, cells: Sequence[GridCell], measure: Measure) -> list[Series]:
    found = [_values(cells, epsilon, measure) for epsilon in _epsilons(cells)]
    if not all(found):
        return []
    means = [sum(values) / len(values) for values in found]
    above = tuple(max(values) - mean for values, mean in zip(found, means, strict=True))
    below = tuple(mean - min(values) for values, mean in zip(found, means, strict=True))
    return [Series(name, meaning, tuple(means), errors=above, below=below)]


def _table(cells: Sequence[GridCell]) -> Table:
    measure = next((cell.measure for cell in cells if cell.measure), "")
    header = ["generator", "epsilon", "distance of pairs"]
    measures: list[Measure] = [lambda cell: cell.pairs]
    if measure:
        header.append(f"prediction, {measure}")
        measures.append(lambda cell: cell.predicted)
    if any(cell.area is not None for cell in cells):
        header += ["strongest attack, ROC AUC", "its proven ceiling"]
        measures += [lambda cell: cell.area, lambda cell: cell.ceiling]
    header.append("seconds of a run")
    measures.append(lambda cell: cell.seconds)
    rows: list[tuple[Cell, ...]] = []
    for name, epsilon in dict.fromkeys((cell.generator, cell.epsilon) for cell in cells):
        own = [cell for cell in cells if (cell.generator, cell.epsilon) == (name, epsilon)]
        rows.append((name, epsilon, *(_mean(_values(own, epsilon, one)) for one in measures)))
    return Table("Generators and budgets side by side", tuple(header), tuple(rows))


def _values(cells: Sequence[GridCell], epsilon: float, measure: Measure) -> list[float]:
    found = (measure(cell) for cell in cells if cell.epsilon == epsilon)
    return [value for value in found if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _epsilons(cells: Iterable[GridCell]) -> list[float]:
    return sorted({cell.epsilon for cell in cells})


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
