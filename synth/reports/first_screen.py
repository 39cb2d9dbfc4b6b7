"""The first screen of a report: what the rows are good for, what not, how well people are protected, and ten rows.

Its sentences follow by fixed rules, in a table below, from numbers that may be published and from the declaration, so
anyone who checks a bundle writes the same screen again. What was not paid for is called "not measured".
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from synth.estimators import REPAIRED, promised_epsilon
from synth.generators import CONTROL
from synth.names import listed
from synth.reports.evidence import ChargedEvidence, Evidence
from synth.reports.figures import Bars, Gauge, HeatMap, Mark, Series
from synth.reports.risk_bounds import advantage_against_noise, advantage_ceiling
from synth.reports.wording import closeness_words, rounded_up
from synth.schema import Neighbours, RunConfig

__all__ = ["FIRST_ROWS", "PEOPLE_MADE", "FirstScreen", "TableRows", "first_rows", "first_screen"]

FIRST_ROWS = 10
PEOPLE_MADE = "overview.people_made"
"""Id of the number of synthetic people who keep all of their rows."""

_MOST_COLUMNS = 6
_MOST_ON_MAP = 24
"""Columns of a map that can be read at the width of a page."""

_MOST_SAID = 4
_ALPHAS = (4, 3, 2, 1)

TableRows = tuple[tuple[str, ...], ...]
"""Rows of a table as they are printed, its header first."""


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """What a reader sees first.

    Attributes
    ----------
    about : str
        Who is protected, and how strongly.
    fit, unfit : str
        What the rows are good for according to the rules, and what not.
    proven : str
        How often anyone can be right about a protected person at most.
    strong : bool
        Whether that deserves the word safe.
    gauges : tuple of Gauge
    columns : tuple of Bars
        Synthetic beside noisy counts, in per cent of the rows: the label first, then declared groups, then columns in
        their declared order.
    pairs : HeatMap, optional
        Distances of pairs; only the part below its diagonal is drawn.
    rows : tuple
        The header of the table and its first rows.
    meanings : tuple of pairs (name, description)
        What columns mean, of those whose owner says it.
    """

    about: str
    fit: str
    unfit: str
    proven: str
    strong: bool
    gauges: tuple[Gauge, ...]
    columns: tuple[Bars, ...]
    pairs: HeatMap | None
    rows: TableRows
    meanings: tuple[tuple[str, str], ...] = ()


def first_screen(evidence: Sequence[Evidence], config: RunConfig, rows: TableRows = ()) -> FirstScreen:
    """Make the first screen.

    Parameters
    ----------
    evidence : sequence of Evidence
        The numbers of report.json.
    config : RunConfig
        The run.
    rows : tuple, optional
        What :func:`first_rows` read from the synthetic table.
    """
    known = _Known({entry.id: entry for entry in evidence}, config)
    fit, unfit = _verdict(known)
    chance = _chance(config)
    return FirstScreen(
        about=f"{config.schema.sentence} · epsilon {_stated(config)}{_together(known)}",
        fit=fit,
        unfit=unfit,
        proven=_proven(config, chance),
        strong=chance <= _STRONG,
        gauges=(*_closeness(known), *_prediction(known), _attacks(chance)),
        columns=() if config.is_model else tuple(known.columns()),
        pairs=None if config.is_model else _pairs(known),
        rows=rows,
        meanings=tuple(config.schema.meanings.items()),
    )


def _together(known: _Known) -> str:
    """Say how many people with how many rows were made, where people keep all of their rows."""
    people, rows = known.value(PEOPLE_MADE), known.value("overview.rows_made")
    if people is None or rows is None:
        return ""
    unit = known.config.schema.unit
    return (
        f" · {people:,.0f} synthetic {unit.plural} with {rows:,.0f} rows, those of each {unit.protects} kept together"
    )


def first_rows(table: BinaryIO) -> TableRows:
    """Return the header and the first rows of a CSV table."""
    text = io.TextIOWrapper(table, encoding="utf-8", newline="")
    found = tuple(tuple(row) for row in islice(csv.reader(text), 1 + FIRST_ROWS))
    text.detach()
    return found


# The rules ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """The numbers that may be published, by their ids, and the declaration."""

    numbers: Mapping[str, Evidence]
    config: RunConfig

    def value(self, identity: str) -> float | None:
        """Return a number; None where it was not measured."""
        entry = self.numbers.get(identity)
        return float(entry.value) if entry is not None and isinstance(entry.value, int | float) else None

    def range(self, identity: str, sign: int) -> float | None:
        """Return the upper or the lower end of the range of a number."""
        value = self.value(identity)
        return None if value is None else value + sign * (self.numbers[identity].error or 0.0)

    def way(self, alpha: int, name: str) -> str:
        """Return the id of a number about sets of columns, in public bins where there are any."""
        coarse = f"marginals.{alpha}.coarse_{name}"
        return coarse if coarse in self.numbers else f"marginals.{alpha}.{name}"

    def drawn(self) -> Iterator[tuple[str, Bars]]:
        """Yield the columns that were counted with noise and can be drawn, the most important first."""
        config = self.config
        first = [name for name in (config.label, *config.groups) if name in config.schema.names]
        for name in dict.fromkeys([*first, *config.schema.names]):
            entry = self.numbers.get(f"columns.{name}.distance")
            yield from ((name, one) for one in (entry.figures if entry else ()) if isinstance(one, Bars))

    def columns(self) -> Iterator[Bars]:
        """Yield the most important columns, in per cent of the rows."""
        for name, bars in islice(self.drawn(), _MOST_COLUMNS):
            yield Bars(name, f"% of {self.things}", bars.categories, tuple(_in_percent(bars)))

    @property
    def things(self) -> str:
        """What shares are shares of: units that keep all of their rows are counted once each."""
        return self.config.asked.schema.unit.counted

    @property
    def predicted(self) -> bool:
        """Whether the column to predict has classes."""
        return "predictions.mse" not in self.numbers


def _in_percent(bars: Bars) -> Iterator[Series]:
    whole = math.fsum(bars.series[0].values) or 1.0
    for one in bars.series:
        values = tuple(100 * value / whole for value in one.values)
        errors = None if one.errors is None else tuple(100 * error / whole for error in one.errors)
        yield Series(one.name, one.meaning, values, errors)


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is said about one use: the rows are fit for it if its number is within the limit, and otherwise not.

    ``use`` names it where it was not measured.
    """

    number: Callable[[_Known], float | None]
    limit: float
    fit: str
    unfit: str
    use: str
    larger: bool = False
    asked: Callable[[_Known], bool] = lambda known: True

    def said(self, known: _Known) -> tuple[bool | None, str]:
        """Return whether the rows are fit for it, None where that was not measured, and the words."""
        number = self.number(known)
        said = {"label": known.config.label, "things": known.things, "unit": known.config.schema.unit.protects}
        if number is None:
            return None, self.use.format(**said)
        is_fit = number >= self.limit if self.larger else number <= self.limit
        printed = _down(number) if self.larger else _up(number)
        points = f"{printed} point{'' if printed == '1' else 's'}"
        return is_fit, (self.fit if is_fit else self.unfit).format(printed, points=points, **said)


def _share_error(known: _Known) -> float | None:
    """Return the largest error of a share in percentage points: the difference seen plus the range of the noise."""
    worst = [
        abs(made - measured) + error
        for _, bars in known.drawn()
        for one in [{series.meaning: series for series in _in_percent(bars)}]
        if "synthetic" in one and "measured" in one
        for made, measured, error in zip(
            one["synthetic"].values, one["measured"].values, one["measured"].errors or (), strict=False
        )
    ]
    return max(worst, default=None)


def _out_of_place(known: _Known) -> float | None:
    end = known.range(known.way(2, "mean"), 1)
    return None if end is None else min(100 * end, 100.0)


def _rows_of_people(known: _Known) -> float | None:
    end = known.range("people.rows", 1)
    return None if end is None else min(100 * end, 100.0)


def _row_to_next(known: _Known) -> float | None:
    end = known.range("people.next", 1)
    return None if end is None else min(100 * end, 100.0)


def _told_apart(known: _Known) -> float | None:
    end = known.range("predictions.roc_auc", -1)
    return None if end is None else max(100 * end, 0.0)


def _missed(known: _Known) -> float | None:
    end = known.range("predictions.mse", 1)
    return None if end is None else 100 * math.sqrt(max(end, 0.0))


_RULES = (
    _Rule(
        _share_error,
        5.0,
        "shares of single columns, to within {points}",
        "shares of single columns, with errors of up to {points}",
        "single columns",
        asked=lambda known: not known.config.is_model,
    ),
    _Rule(
        _out_of_place,
        10.0,
        "the measured pairs of columns, with at most {} in 100 {things} out of place",
        "pairs of columns, with up to {} in 100 {things} out of place",
        "pairs of columns",
        asked=lambda known: not known.config.is_model and len(known.config.schema.names) > 1,
    ),
    _Rule(
        _rows_of_people,
        10.0,
        "how many rows a {unit} has, with at most {} in 100 {things} out of place",
        "how many rows a {unit} has, with up to {} in 100 {things} out of place",
        "how many rows a {unit} has",
        asked=lambda known: known.config.schema.people == "whole",
    ),
    _Rule(
        _row_to_next,
        10.0,
        "what was measured of a row and the next, with at most {} in 100 {things} out of place",
        "a row and the next, with up to {} in 100 {things} out of place",
        "how a row and the next depend on each other",
        asked=lambda known: known.config.schema.people == "whole",
    ),
    _Rule(
        _told_apart,
        70.0,
        "predicting {label}: classes told apart in at least {} of 100 pairs",
        "predicting {label}: classes may be told apart in only {} of 100 pairs (guessing: 50)",
        "predicting {label}",
        larger=True,
        asked=lambda known: bool(known.config.label) and known.predicted,
    ),
    _Rule(
        _missed,
        10.0,
        "predicting {label}, typically to within {} % of its range",
        "predicting {label}, with typical errors of up to {} % of its range",
        "predicting {label}",
        asked=lambda known: not known.predicted,
    ),
)
"""Number, threshold, sentence: everything that decides between fit and not fit.

Every number is the worse end of its 95 % range. Points and rows out of place refer to the rows of the table. The limits
are what a reader of shares and simple models can accept, and are the same for every table.
"""

_ALWAYS_FIT = "testing programs: names, types and formats are those of the private table"
_ALWAYS_FIT_OF_MODEL = "reading what the model learned, shown below with what is known of its error"
_STRONG = 0.8
"""If an attacker may be right more often than this, the release is not called safe."""


def _verdict(known: _Known) -> tuple[str, str]:
    said = [rule.said(known) for rule in _RULES if rule.asked(known)]
    always = _ALWAYS_FIT_OF_MODEL if known.config.is_model else _ALWAYS_FIT
    fit = [words for is_fit, words in said if is_fit] or [always]
    unfit = [words for is_fit, words in said if is_fit is False]
    unmeasured = [words for is_fit, words in said if is_fit is None]
    if not known.config.is_model:
        unfit = [*_repaired(known), *unfit, *_unknown(known), *_small(known)]
        unmeasured += _unmeasured(known)
    unfit = unfit[:_MOST_SAID]
    return _sentence(fit), _sentence([*unfit, f"not measured: {', '.join(unmeasured)}"] if unmeasured else unfit)


def _repaired(known: _Known) -> list[str]:
    """Say if many rows satisfy the declared rules only because they were changed to do so."""
    # Of people who are kept whole, one row each is drawn and repaired.
    people, rows = known.value(PEOPLE_MADE), known.value("overview.rows_made")
    changed, made = known.value(f"generator.{REPAIRED}"), rows if people is None else people
    if not (changed and made) or changed / made < _MANY_REPAIRED:
        return []
    return [
        f"anything your rules are about: {_up(100 * changed / made)} in 100 {known.things} were changed to satisfy them"
    ]


_MANY_REPAIRED = 0.05
"""Share of the rows that may be changed for rules before the first screen says so."""


def _small(known: _Known) -> list[str]:
    """Say which groups or counts are too small to use."""
    groups = [known.value(f"groups.smallest.{name}") for name in known.config.groups]
    needed = max((size for size in groups if size is not None), default=None)
    if needed is not None:
        return [f"groups of fewer than {_rows(needed)} {known.things} (noise of more than 5 points on a share)"]
    trusted = known.value("accuracy.trust")
    return [] if trusted is None else [f"counts below {_rows(trusted)} {known.things} (noise of more than 10 %)"]


def _unknown(known: _Known) -> list[str]:
    """Say for how many pairs nothing is known."""
    said = [
        f"{unknown:,.0f} of {pairs:,.0f} {words}"
        for name, words in (("", "pairs of columns"), ("next_", "pairs of a column and one of the next row"))
        if (unknown := known.value(f"relations.{name}unknown")) and (pairs := known.value(f"relations.{name}of"))
    ]
    return [f"relations within {' and '.join(said)} (not measured, or hidden by noise)"] if said else []


def _unmeasured(known: _Known) -> list[str]:
    """Say which relations between columns were not measured."""
    found, width = [], len(known.config.schema.names)
    measured, of = known.value("marginals.2.evaluated"), known.value("marginals.2.of")
    if measured and of and measured < of and known.value("relations.of") is None:
        found.append(f"{of - measured:,.0f} of {of:,.0f} pairs")
    widest = next((alpha for alpha in _ALPHAS if known.value(f"marginals.{alpha}.evaluated")), 0)
    if 2 <= widest < width:
        found.append(f"{_COUNTED[widest + 1]} or more columns together")
    return found


_COUNTED = {3: "three", 4: "four", 5: "five"}


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


_HAIR = 1e-6
"""The largest rounding error of a whole number in binary."""


def _up(number: float) -> str:
    """Write a bound with its meaningful digits, rounded up."""
    return f"{math.ceil(number - _HAIR)}" if number >= 10 else f"{math.ceil(10 * number - _HAIR) / 10:g}"


def _down(number: float) -> str:
    return f"{math.floor(number + _HAIR)}"


def _rows(number: float) -> str:
    """Write a number of rows with two digits, rounded up."""
    step = 10 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return f"{math.ceil(number / step) * step:,}"


# What is proven -----------------------------------------------------------------------------------------------------


def _stated(config: RunConfig) -> str:
    """Return the epsilon of the release, including what was spent on a finding and on previews before the run."""
    alone = config.found is None and not config.previews
    return f"{config.epsilon:g}" if alone else f"{rounded_up(promised_epsilon(config)):g}"


def _chance(config: RunConfig) -> float:
    """Return how often anyone can be right about two equally likely cases: one half plus half the advantage."""
    bound = advantage_against_noise if config.schema.allows_sums else advantage_ceiling
    return (1 + bound(promised_epsilon(config), config.delta)) / 2


def _proven(config: RunConfig, chance: float) -> str:
    words = _hidden(config, chance)
    if not config.read_columns:
        return words
    names = listed(config.read_columns, _MOST_NAMED)
    but = f"apart from the ranges and categories of {names}, which the owner took from the rows"
    return f"{words.removesuffix('.')}, {but}."


_MOST_NAMED = 6
"""Columns that one sentence names."""


def _hidden(config: RunConfig, chance: float) -> str:
    schema, made = config.schema, "this model" if config.is_model else "these rows"
    times = f"more than {math.ceil(100 * chance)} times in 100 (guessing: 50)"
    if schema.neighbours is Neighbours.CELL:
        words = f"Nobody can correctly tell from {made} which of two values a cell holds {times}."
        return f"{words} Whole rows are not protected."
    unit = schema.unit.protects
    if schema.neighbours is Neighbours.REPLACE:
        return f"Nobody can correctly tell from {made} which of two candidates is the {unit} in the table {times}."
    return f"Nobody can correctly tell from {made} whether a given {unit} is in the table {times}."


_PAID = ChargedEvidence.badge


# Gauges -------------------------------------------------------------------------------------------------------------


def _closeness(known: _Known) -> tuple[Gauge, ...]:
    if known.config.is_model:
        return ()
    alpha = next((alpha for alpha in (2, 1) if known.value(known.way(alpha, "mean")) is not None), None)
    title = "Closeness of pairs" if alpha == 2 else "Closeness of columns"
    if alpha is None:
        return (Gauge("Closeness", "", 0, 1, (), "Not measured: no counts were paid for."),)
    ours, noise, control = (known.value(known.way(alpha, name)) or 0.0 for name in ("mean", "noise", CONTROL))
    error = known.numbers[known.way(alpha, "mean")].error
    marks = (
        Mark("noise alone", "floor", 100 * noise),
        Mark("unrelated columns", "control", 100 * control),
        Mark("synthetic rows", "synthetic", 100 * ours, None if error is None else 100 * error),
    )
    highest = max(one.value + (one.error or 0.0) for one in marks)
    sentence = closeness_words(ours, error or 0.0, noise=noise, control=control)
    return (Gauge(title, f"in 100 {known.things} out of place", 0, _round(highest), marks, sentence),)


def _prediction(known: _Known) -> tuple[Gauge, ...]:
    label = known.config.label
    if not label:
        return ()
    title = f"Prediction of {label}"
    if not known.predicted:
        ours, error = known.value("predictions.mse"), known.numbers["predictions.mse"].error
        if ours is None:
            return (Gauge(title, "", 0, 1, (), "Not measured: noise hides it."),)
        paid = (Mark("trained on these rows", "synthetic", ours, error),)
        return (Gauge(title, "squared error", 0, _round(ours + (error or 0.0)), paid, "Smaller is better.", _PAID),)
    area = known.value("predictions.roc_auc")
    if area is None:
        why = "noise hides it" if "predictions.roc_auc" in known.numbers else "no budget was set aside for it"
        return (Gauge(title, "", 0, 1, (), f"Not measured: {why}."),)
    error = known.numbers["predictions.roc_auc"].error
    sure = "Better than guessing." if area - (error or 0.0) > 0.5 else "Not clearly better than guessing."
    marks = (
        Mark("guessing", "floor", 50.0),
        Mark("trained on these rows", "synthetic", 100 * area, None if error is None else 100 * error),
    )
    return (Gauge(title, "pairs of 100 told apart", min(50.0, 100 * area), 100.0, marks, sure, _PAID),)


def _attacks(chance: float) -> Gauge:
    marks = (Mark("guessing", "floor", 50.0), Mark("at most", "ceiling", float(math.ceil(100 * chance))))
    return Gauge("Attacks", "right in 100", 50.0, 100.0, marks, "Proven, whatever the attacker knows.")


def _round(highest: float) -> float:
    """Return the end of a scale: the next of 1, 2, 5, 10, 20, ..."""
    if highest <= 0:
        return 1.0
    step = 10.0 ** math.floor(math.log10(highest))
    return next(step * part for part in (1, 2, 5, 10) if step * part >= highest)


# The map of pairs ---------------------------------------------------------------------------------------------------


def _pairs(known: _Known) -> HeatMap | None:
    """Return the distances of measured pairs, over all columns if they fit on the map and otherwise over the worst."""
    entry = known.numbers.get("marginals.2.map")
    maps = [figure for figure in (entry.figures if entry else ()) if isinstance(figure, HeatMap)]
    if not maps:
        return None
    held, names = maps[0], known.config.schema.names
    if len(names) > _MOST_ON_MAP:
        names = held.names[:_MOST_ON_MAP]
    place = {name: index for index, name in enumerate(held.names)}
    values = tuple(
        tuple(
            held.values[place[left]][place[right]] if left != right and {left, right} <= place.keys() else None
            for right in names
        )
        for left in names
    )
    return HeatMap("Pairs of columns", f"share of {known.things} out of place", tuple(names), values)
