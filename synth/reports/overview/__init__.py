"""At a glance: what was made, what was promised, what the generator says about itself, and the simplest number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from synth.estimators import make
from synth.generators.protocol import Fact, GeneratorTask, Picture
from synth.privacy.accounting import worth_for_a_row
from synth.privacy.receipt import Receipt
from synth.reports.code_tables import sets_of
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import MAXIMUM_HEAT_MAP_SIDE, Bars, Figure, Series, Table
from synth.reports.first_screen import PEOPLE_MADE
from synth.reports.measured import ComparedTable, within
from synth.reports.panels import Badge, Cards, Folded, Heading, Opening, Panel, PromiseCards, Words
from synth.reports.report import PaidAnswers, Report, Screen, Section, Shown, Tab
from synth.reports.wording import rounded_up
from synth.schema import People, RunConfig, declared_part, people_asked

__all__ = ["REPORT", "expected_distance", "fact_evidence", "published_subsample"]

_STEPS = 60


def published_subsample(compared: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    """Say which random sub-sample is as accurate as the measured pairs, and as the synthetic rows at least.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables beside synthetic rows. Pairs are used, or single columns where no pair was measured.

    Returns
    -------
    tuple of SafeEvidence
        ``overview.subsample``; nothing where nothing was measured or there is one row.
    """
    singles, pairs = ([one for one in compared if len(one.columns) == size] for size in (1, 2))
    used = pairs or singles
    if not used or used[0].rows.value < 2:
        return ()
    n = used[0].rows.value
    noise = math.fsum(min(one.expected_noise, 1.0) for one in used) / len(used)
    bound = math.fsum(min(one.distance + one.error, 1.0) for one in used) / len(used)
    shares = [(one.synthetic / one.synthetic.sum()).reshape(-1) for one in used]
    percent, least = (100 * _size_at(distance, shares, n) / n for distance in (noise, bound))
    return (
        SafeEvidence(
            id="overview.subsample",
            title=f"Accuracy of the measured {'pairs' if pairs else 'columns'}, as a sub-sample",
            value=percent,
            unit=f"% of the private {used[0].counted}",
            sentence=f"Judged by the known noise alone, the {len(used):,} noisy tables of "
            f"{sets_of(2 if pairs else 1)} are about as accurate as a random sub-sample of {percent:.2g} % of the "
            f"private {used[0].counted}. The synthetic rows combine all answers, so they may be closer to these, or "
            "further away where the model misses something. With 95 % confidence they are at least as close as a "
            f"sub-sample of {least:.2g} %.",
        ),
    )


def expected_distance(shares: NDArray[np.float64], size: float, n_rows: float) -> float:
    r"""Return the mean total variation between a table and a random sub-sample of it; of several tables, their sum.

    .. math:: \frac{1}{2} \sum_c E|\hat p_c - p_c|, \quad
        E|\hat p - p| = \frac{2 \nu}{m} \binom{m}{\nu} p^\nu (1 - p)^{m - \nu + 1}, \quad \nu = \lfloor m p \rfloor + 1

    where m is ``size``: the mean deviation of a binomial share (De Moivre; Diaconis 1991), times the root of
    1 - m / n for rows that are drawn without putting back.

    Parameters
    ----------
    shares : array of shape (n_cells,), not negative, adding up to 1 in each table
        Share of the rows in each cell of the table, or of several tables one after another.
    size : float
        Rows of the sub-sample, m, at least 1.
    n_rows : float
        Rows of the table, n.
    """
    p = shares[(shares > 0) & (shares < 1)]
    whole = np.floor(size * p) + 1
    inside = whole <= size
    p, whole = p[inside], whole[inside]
    chance = (
        gammaln(size + 1)
        - gammaln(whole + 1)
        - gammaln(size - whole + 1)
        + xlogy(whole, p)
        + xlog1py(size - whole + 1, -p)
    )
    return float((whole / size * np.exp(chance)).sum()) * math.sqrt(max(1 - size / n_rows, 0.0))


def _size_at(distance: float, shares: Sequence[NDArray[np.float64]], n_rows: float) -> float:
    """Return the size of the sub-samples whose mean distance is this one, by halving on a logarithmic scale."""
    low, high = 0.0, math.log(n_rows)
    every = np.concatenate(shares)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        size = math.exp(middle)
        mean = expected_distance(every, size, n_rows) / len(shares)
        low, high = (middle, high) if mean > distance else (low, middle)
    return math.exp(low)


# The report ---------------------------------------------------------------------------------------------------------


_ROW_EPSILON = "overview.row_epsilon"
_PICTURE, _PICTURES = "picture", "Pictures of the model"


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    config = answers.config
    return (
        *_overview(answers, config),
        *_worth_for_a_row(config, answers.receipts),
        *(fact_evidence(fact, "model" if config.is_model else "generator") for fact in answers.facts),
        *map(_of_picture, answers.pictures),
        *published_subsample(within(answers.coarse, declared_part(config.schema).names)),
    )


def fact_evidence(fact: Fact, section: str) -> SafeEvidence:
    """Return what a generator or a model says about itself, as a number that may be published with its table."""
    figures: tuple[Figure, ...] = (Table(fact.title, fact.header, fact.rows),) if fact.header else ()
    if fact.ranges:
        figures = (*_beside_their_ranges(fact), *figures)
    return SafeEvidence(
        id=f"{section}.{fact.name}", title=fact.title, value=fact.value, sentence=fact.sentence, figures=figures
    )


def _beside_their_ranges(fact: Fact) -> tuple[Bars, ...]:
    """Draw numbers of different units beside each other, each divided by half its range."""
    found: list[tuple[str, float]] = []
    for *words, value, low, high in fact.rows:
        half = (float(high) - float(low)) / 2
        if half > 0 and len(found) < MAXIMUM_HEAT_MAP_SIDE:
            found.append((" ".join(map(str, words)), float(value) / half))
    if not found:
        return ()
    names, values = zip(*found, strict=True)
    series = Series(fact.title.lower(), "measured", values, (1.0,) * len(values))
    clear = sum(abs(value) > 1 for value in values)
    title = f"{fact.title}: {clear:,} of {len(values):,} are larger than noise explains"
    return (
        Bars(title, "half the 95 % range", names, (series,), subtitle="A range that includes 0 may be noise alone."),
    )


def _of_picture(picture: Picture) -> SafeEvidence:
    # Its sentence is the number's; it is not repeated with the picture.
    figures, identifier = (replace(picture, sentence=""),), f"{_PICTURE}.{picture.name}"
    return SafeEvidence(id=identifier, title=picture.title, value=None, sentence=picture.sentence, figures=figures)


def _worth_for_a_row(config: RunConfig, receipts: Iterable[Receipt]) -> tuple[SafeEvidence, ...]:
    """Say what an epsilon for one cell is worth for a whole row; the one is never shown without the other."""
    worth = worth_for_a_row(receipts, config.delta)
    if worth is None:
        return ()
    return (
        SafeEvidence(
            id=_ROW_EPSILON,
            title="Epsilon for a whole row",
            value=rounded_up(worth),
            sentence=f"At delta {config.delta:g}, for replacing a whole row by one with the same label; a changed "
            f"label is not protected. The epsilon of this run, {config.epsilon:g}, is for one cell. Use the number "
            "for a whole row to compare this release with others.",
        ),
    )


def _overview(answers: PaidAnswers, config: RunConfig) -> tuple[SafeEvidence, ...]:
    people = people_asked(config.schema)
    # Of a table of people, the table that is published is the declared one.
    schema = config.schema if people is None else people.schema
    columns, learned = len(schema.printed), len(schema.modelled)
    made = columns - learned
    others = "identifiers, which are left out" if config.is_model else "filled with fresh identifiers"
    which = "All of them are modelled." if not made else f"Modelled: {learned}; {others}: {made}."
    return (
        SafeEvidence(
            id="overview.columns",
            title="Columns",
            value=columns,
            sentence=which,
        ),
        *(() if config.is_model else _rows_made(answers, people)),
        SafeEvidence(
            id="overview.unit",
            title="Protected",
            value=config.schema.hidden,
            sentence=f"{config.schema.sentence}. Charged to the account '{config.account}'.",
        ),
    )


def _rows_made(answers: PaidAnswers, people: People | None) -> Iterator[SafeEvidence]:
    """Say how many synthetic rows there are, and of how many people where these are kept whole."""
    chosen, rows = "The owner chose this number; it was not counted in the private table.", answers.rows_made
    if people is not None:
        unit = people.schema.unit.protects
        yield SafeEvidence(
            id=PEOPLE_MADE,
            title=f"Synthetic {people.schema.unit.plural}",
            value=answers.rows_made,
            sentence=f"Each {unit} keeps all of their rows. Questions and this report count each {unit} once: by what "
            f"belongs to the {unit}, one of their rows and the next.",
        )
        count = answers.codes[people.asked.names.index(people.count)]
        rows, units = int(count.sum(dtype=np.int64)) + people.least * len(count), people.schema.unit.plural
        chosen = f"Those of all {units}; the most of one is {people.most:,}. Not counted in the private table."
        if people.schema.tables is not None:
            having = f"{int((count == 0).sum()):,} of {answers.rows_made:,} {units} have none"
            chosen = f"Rows of '{people.schema.tables.second}'; {having}. {chosen}"
    yield SafeEvidence(id="overview.rows_made", title="Synthetic rows", value=rows, sentence=chosen)


def _panels(shown: Shown) -> list[Panel]:
    per_cell = any(entry.id == _ROW_EPSILON for entry in shown.public)
    whose = (
        "For ONE CELL of the table, across everything that may be published; see below what it means for a whole row."
        if per_cell
        else "Across everything in this report that may be published."
    )
    made: list[Panel] = [PromiseCards(whose), Cards(shown.public_of("overview", "generator", "model"), key="glance")]
    panels: list[Panel] = [Badge("safe"), Opening(), Folded("What was made, and what was promised", made)]
    panels += _assumed(shown.config) if shown.config.is_model else []
    pictures = shown.public_of(_PICTURE)
    return [*panels, Heading(_PICTURES), Cards(pictures, key="pictures")] if pictures else panels


def _assumed(config: RunConfig) -> list[Panel]:
    task = GeneratorTask.of(config, device="cpu")
    assumptions = make(config.generator, task, config.options).assumptions
    listed = [Words(f"• {one}", kind="paragraph") for one in assumptions]
    return [Heading("Assumed to be public"), *listed] if assumptions else []


REPORT = Report(
    id="overview",
    title="At a glance",
    sections={
        "overview": Section("At a glance"),
        "generator": Section("Generator"),
        "model": Section("Model"),
        _PICTURE: Section(_PICTURES),
    },
    public=_public,
    screens=(Screen(Tab(10, "● At a glance"), _panels, of_models=lambda config: True),),
    upper_bounds=(_ROW_EPSILON,),
)
