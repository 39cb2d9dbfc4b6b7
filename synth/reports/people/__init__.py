"""People: what is kept of people with several rows, against noisy answers and, for the owner, against private rows.

What may be published compares the table of people (:mod:`synth.schema.people`), in which everyone has one row: every
figure of it weighs people. What the owner sees compares all rows of all people (:mod:`synth.reports.people.kept`), and
says in each figure whether it weighs people, rows, or pairs of a row and the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from synth.generators import Card, describe
from synth.progress import Progress
from synth.reports.code_tables import bin_labels
from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence
from synth.reports.figures import MAXIMUM_POINTS, Bars, Series, Table
from synth.reports.measured import BAR, ComparedTable
from synth.reports.panels import Badge, Cards, Panel, Part, Words
from synth.reports.people.kept import kept_of_people
from synth.reports.report import OWNER_ONLY, OwnerRows, PaidAnswers, Report, Screen, Section, Shown, Tab
from synth.reports.wording import beyond_noise, in_hundred
from synth.schema import People, RunConfig, people_asked

__all__ = ["REPORT", "published_people"]

_SECTION = "people"
_UNIT = "total variation"
_WEIGHS = "Weighs people: everyone counts once."


def published_people(compared: Sequence[ComparedTable], people: People) -> tuple[SafeEvidence, ...]:
    """Compare synthetic people with the noisy counts of the table of people.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables beside synthetic people.
    people : People

    Returns
    -------
    tuple of SafeEvidence
        ``people.rows``, ``people.own``, ``people.gap``, ``people.usual``, ``people.following`` and ``people.next``, all
        but the first and the last only where there are such columns, with no value where nothing was measured;
        ``people.same.<column>`` for every category that was counted together with that of the next row.
    """
    by_columns = {one.columns: one for one in compared}
    found = [_rows(by_columns.get((people.count,)), people)]
    if people.own:
        found.append(
            _singles("own", "What belongs to people", [by_columns.get((name,)) for name in people.own], people)
        )
    if people.gap is not None:
        found.append(_singles("gap", "From a row to the next", [by_columns.get((people.gap,))], people))
    for name, title, columns in (
        ("usual", "Usual values", people.usual),
        ("following", "The next row by itself", people.following),
    ):
        if columns:
            tables = [by_columns.get((made,)) for made in columns.values()]
            found.append(_singles(name, title, tables, people))
    across = [one for one in compared if _is_across(one, people)]
    found.append(_next(across, people))
    found += [_same(one, people) for one in across if _is_same(one, people)]
    return tuple(found)


def _is_across(one: ComparedTable, people: People) -> bool:
    """Whether a table is about one column of the row and one of the next row."""
    this = [name for name in one.columns if name in people.following]
    after = [name for name in one.columns if name in people.following.values()]
    return len(one.columns) == 2 and len(this) == len(after) == 1


def _is_same(one: ComparedTable, people: People) -> bool:
    """Whether a table is about one category in the row and in the next row, value by value."""
    this = next(name for name in one.columns if name in people.following)
    column = people.schema.modelled_column(this)
    other = people.asked.size_of(people.following[this])
    plain = one.measured.shape in ((column.size, other), (other, column.size))
    return people.following[this] in one.columns and not column.levels and plain


def _unmeasured(name: str, title: str, what: str) -> SafeEvidence:
    sentence = f"{what} was not measured, so nothing can be published about it without spending more budget."
    return SafeEvidence(id=f"{_SECTION}.{name}", title=title, value=None, unit=_UNIT, sentence=sentence)


def _rows(one: ComparedTable | None, people: People) -> SafeEvidence:
    protects = people.schema.unit.protects
    title = f"Rows of a {protects}"
    if one is None:
        return _unmeasured("rows", title, f"How many rows a {protects} has")
    labels = bin_labels(people.asked.modelled_column(people.count), one.bins[0])
    figures: tuple[Bars, ...] = ()
    if len(labels) <= MAXIMUM_POINTS:
        measured = Series("noisy counts", "measured", _floats(one.measured), _floats(BAR * one.noise_std))
        made = Series("synthetic people", "synthetic", _floats(one.synthetic))
        words = f"{in_hundred(one.distance, one.counted)} have another number of rows"
        figures = (Bars(words, one.counted, labels, (made, measured), subtitle=_beyond_noise([one])),)
    return SafeEvidence(
        id=f"{_SECTION}.rows",
        title=title,
        value=one.distance,
        error=one.error,
        unit=_UNIT,
        sentence=_WEIGHS,
        figures=figures,
    )


def _beyond_noise(compared: Sequence[ComparedTable]) -> str:
    """Say how many distances are larger than noise explains."""
    clear = sum(one.distance > one.error for one in compared)
    return beyond_noise(clear, len(compared), noise=max(one.error for one in compared))


def _singles(name: str, title: str, tables: Sequence[ComparedTable | None], people: People) -> SafeEvidence:
    """Return the mean distance of single columns."""
    measured = [one for one in tables if one is not None]
    if not measured:
        return _unmeasured(name, title, title)
    return _mean(name, title, measured, len(tables), "columns", people)


def _next(across: Sequence[ComparedTable], people: People) -> SafeEvidence:
    title = "A row and the next"
    if not across:
        return _unmeasured("next", title, "How a row and the next depend on each other")
    return _mean("next", title, across, len(people.following) ** 2, "pairs of a column and one of the next row", people)


def _mean(name: str, title: str, compared: Sequence[ComparedTable], of: int, what: str, people: People) -> SafeEvidence:
    worst = sorted(compared, key=lambda one: -one.distance)
    rows = tuple((one.words, one.distance, one.error, min(one.expected_noise, 1.0)) for one in worst)
    first = (
        f"{rows[0][0]}: {in_hundred(worst[0].distance, worst[0].counted)} out of place, the largest of {len(worst):,}"
    )
    table = Table(first, ("columns", "synthetic", "error", "noise"), rows, _beyond_noise(worst))
    return SafeEvidence(
        id=f"{_SECTION}.{name}",
        title=title,
        value=fmean([one.distance for one in compared]),
        error=fmean([one.error for one in compared]),
        unit=_UNIT,
        sentence=f"{_WEIGHS} Mean over the {len(compared):,} of {of:,} {what} that were measured.",
        figures=(table,),
    )


def _same(one: ComparedTable, people: People) -> SafeEvidence:
    """Return how often the next row has the same value, of those people who have a next row."""
    this = next(name for name in one.columns if name in people.following)
    following = one.columns.index(people.following[this])
    size = min(one.measured.shape)
    absent = people.absent_code(this)
    shares, errors = {}, {}
    for name, counts in (("synthetic", one.synthetic), ("measured", one.measured)):
        there = np.delete(counts, absent, axis=following)
        whole = max(float(there.sum()), 1.0)
        same = float(sum(there[place, place] for place in range(min(there.shape))))
        shares[name] = min(max(same / whole, 0.0), 1.0)
        # Of a quotient of two noisy sums, one a part of the other: noise on the diagonal and off it.
        share, variance = shares[name], float(one.noise_std.max()) ** 2
        cells = size * (1 - share) ** 2 + (there.size - size) * share**2
        errors[name] = min(BAR * math.sqrt(variance * cells) / whole, 1.0)
    rows = (("synthetic people", shares["synthetic"], None), ("noisy counts", shares["measured"], errors["measured"]))
    title = f"{this}: the same again for {in_hundred(shares['synthetic'], one.counted)} who have a next row"
    return SafeEvidence(
        id=f"{_SECTION}.same.{this}",
        title=f"The same {this} in the next row",
        value=shares["synthetic"],
        unit="share of the synthetic people who have a next row",
        sentence=f"{_WEIGHS} By the noisy counts it is {shares['measured']:.3f} ± {errors['measured']:.3f}.",
        figures=(Table(title, ("of", "share", "± (95 %)"), rows),),
    )


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(values.tolist())


# The report ---------------------------------------------------------------------------------------------------------


_TAB = Tab(25, "● People")


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    people = people_asked(answers.config.schema)
    if people is None or answers.rows is None:
        return ()
    return (*published_people(answers.coarse, people), *_by_the_generator(describe(answers.config.generator)))


def _by_the_generator(card: Card) -> Iterator[SafeEvidence]:
    """Say what the generator keeps of people, whatever the table."""
    if card.keeps_people:
        title = f"What '{card.name}' keeps of people"
        yield SafeEvidence(id=f"{_SECTION}.generator", title=title, value=None, sentence=card.keeps_people)


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    people = people_asked(rows.config.schema)
    if people is None or rows.of_people is None or rows.synthetic_of_people is None:
        return ()
    progress.phase("Comparing people")
    return kept_of_people(rows.of_people, rows.synthetic_of_people, people, seed=rows.config.seed)


def _public_panels(shown: Shown) -> list[Panel]:
    return [
        Words(
            "People who keep all of their rows, compared with the noisy counts that were paid for; ± is the 95 % range "
            "of their noise. Each was asked about once: what belongs to the person, one row and the row after it.",
            "note",
        ),
        Badge("safe"),
        Cards(shown.public_of(_SECTION), key="people"),
    ]


def _exact_panels(shown: Shown) -> list[Panel]:
    return [Part("people", "People", [Cards(shown.exact_of(_SECTION), key="owner-people")])]


def _wanted(config: RunConfig) -> bool:
    return config.schema.people == "whole"


REPORT = Report(
    id="people",
    title="People with several rows",
    sections={_SECTION: Section("People")},
    public=_public,
    owner=_owner,
    screens=(
        Screen(_TAB, _public_panels, wanted=_wanted),
        Screen(OWNER_ONLY, _exact_panels, exact=True, wanted=_wanted),
    ),
    compared=("people.rows", "people.next"),
)
