"""What the columns of a table agree on: the signs in numbers, the patterns of dates, the words for missing cells.

What one column leaves open, another one may settle; what all leave open is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from synth.schema import TableFormat
from synth.services.recognition.columns import LEAST_ROWS, LEAST_SHARE, Writing
from synth.services.recognition.notations import (
    MISSING_WORDS,
    NEVER_WORDS,
    DateWriting,
    dates_in,
    kind_of_cell,
    numbers_in,
    times_in,
    words_for_pattern,
)
from synth.services.recognition.proposals import FormatProposal

__all__ = ["Agreement", "agreement_of"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the cells of a table are written.

    Attributes
    ----------
    proposals : list of FormatProposal
    writings : list of Writing
        How each column is written.
    kept : list of frozenset of str
        For each column, words for missing cells that are values there.
    """

    proposals: list[FormatProposal]
    writings: list[Writing]
    kept: list[frozenset[str]]


def agreement_of(
    names: Sequence[str], samples: Sequence[Counter[str]], form: TableFormat, *, alone: bool, commas: bool = True
) -> Agreement:
    """Return what the columns of a table agree on.

    Parameters
    ----------
    names : sequence of str
        Their names.
    samples : sequence of Counter
        For each, in how many of its first cells each text is.
    form : TableFormat
        What is declared, which is not proposed again.
    alone : bool
        Whether notations are those of each column alone.
    commas : bool
        Whether commas separate cells, so that a point is before decimals; also where cells are typed.
    """
    missing = _Missing(form)
    present = [missing.without(sample) for sample in samples]
    writings = [_writing(counts, form) for counts in present]
    kept = [missing.kept(sample, writing) for sample, writing in zip(samples, writings, strict=True)]
    proposals = missing.proposals(samples, writings, kept)
    proposals += [] if alone else _number_signs(writings, present, form, commas=commas)
    writings = _settled(names, writings, proposals, form)
    proposals += [] if alone else _date_patterns(writings, present, form)
    return Agreement(proposals, writings, kept)


class _Missing:
    """Which texts mean a missing cell."""

    def __init__(self, form: TableFormat) -> None:
        self._declared = form.missing

    def without(self, sample: Mapping[str, int]) -> Counter[str]:
        """Return the texts that may say something, where the column is numbers or dates; else all but empty ones."""
        return Counter(
            {text: count for text, count in sample.items() if text not in MISSING_WORDS and text not in self._declared}
        )

    def kept(self, sample: Mapping[str, int], writing: Writing) -> frozenset[str]:
        """Return words that are values of a column of words: a country NA among other countries, and None."""
        if writing != Writing():
            return frozenset()
        countries = sum(len(text) == 2 and text.isascii() and text.isupper() for text in sample)
        kept = {word for word in MISSING_WORDS if word and word not in NEVER_WORDS}
        return frozenset(kept | ({"NA"} if countries > _COUNTRIES else set()))

    def proposals(
        self, samples: Sequence[Mapping[str, int]], writings: Sequence[Writing], kept: Sequence[frozenset[str]]
    ) -> list[FormatProposal]:
        """Return the proposal of codes for missing cells; empty where none was found."""
        found: Counter[str] = Counter()
        for sample, writing, values in zip(samples, writings, kept, strict=True):
            words = MISSING_WORDS if writing != Writing() else NEVER_WORDS
            known = [text for text in words if text and text not in values]
            found.update({text: sample[text] for text in (*known, *writing.nothing) if sample.get(text)})
        fresh = [word for word, _ in found.most_common() if word not in self._declared]
        if not fresh or self._declared != TableFormat().missing:
            return []
        counts = ", ".join(f"'{word}' in {found[word]:,} cells" for word in fresh)
        return [FormatProposal("missing", (*self._declared, *fresh), f"{counts} of the first rows")]


_COUNTRIES = 5
"""Other texts of two capitals from which on NA is taken for a country."""


def _writing(counts: Counter[str], form: TableFormat) -> Writing:
    """Return how one column is written, without words that stand for nothing among numbers or dates."""
    writing = _plain_writing(counts, form)
    strangers = _strangers(counts) if writing == Writing() else ()
    if not strangers:
        return writing
    others = Counter({text: count for text, count in counts.items() if text not in strangers})
    without = _plain_writing(others, form)
    return writing if without == Writing() else replace(without, nothing=strangers)


def _strangers(counts: Counter[str]) -> tuple[str, ...]:
    """Return up to three words that many cells hold in a column whose other cells are mostly something else."""
    whole = sum(counts.values())
    least = max(LEAST_ROWS, LEAST_SHARE * whole)
    words = tuple(text for text, count in counts.most_common(10) if count >= least and kind_of_cell(text) == "text")
    held = sum(counts[word] for word in words)
    return words if 1 <= len(words) <= 3 and held < whole / 2 and len(counts) >= 10 else ()


def _plain_writing(counts: Counter[str], form: TableFormat) -> Writing:
    time = times_in(counts)
    if time is not None:
        return Writing(time=time[0])
    number = numbers_in(counts)
    if number is not None and not all(len(text) == 8 and text.isdigit() for text in counts):
        return Writing(number=number)
    date = dates_in(counts, form.dates)
    if date is not None:
        return Writing(date=date)
    return Writing(number=number)


def _number_signs(
    writings: Sequence[Writing], present: Sequence[Counter[str]], form: TableFormat, *, commas: bool
) -> list[FormatProposal]:
    """Return the signs of most numbers of the table; open where no column settles them."""
    cells: Counter[tuple[str, str]] = Counter()
    columns: Counter[tuple[str, str]] = Counter()
    opened = 0
    for writing, counts in zip(writings, present, strict=True):
        number = writing.number
        if number is None:
            continue
        opened += bool(number.open)
        for key, sign in (("decimal", number.decimal), ("thousands", number.thousands)):
            if sign is not None:
                cells[key, sign] += sum(count for text, count in counts.items() if sign in text or sign in "' ")
                columns[key, sign] += 1
    proposals = []
    point = _most_of(columns, "decimal")
    group = _most_of(columns, "thousands")
    if form.decimal is None and point is not None and point != ".":
        proposals.append(_sign_proposal("decimal", point, cells, columns, "before decimals"))
    taken = form.decimal or point or "."
    if form.thousands is None and group is not None and group != taken:
        proposals.append(_sign_proposal("thousands", group, cells, columns, "between thousands"))
    if (
        opened
        and form.decimal is None
        and point is None
        and form.thousands is None
        and group is None
        and _is_open(writings, commas=commas)
    ):
        of = "1 column has" if opened == 1 else f"{opened} columns have"
        why = f"{of} numbers whose only sign stands before three digits"
        proposals.append(FormatProposal("decimal", None, why, (".", ",")))
    return proposals


def _is_open(writings: Sequence[Writing], *, commas: bool) -> bool:
    """Whether a sign before three digits may be either; where commas separate cells, a point is before decimals."""
    signs = {one.number.open for one in writings if one.number is not None and one.number.open}
    return signs != {"."} or not commas


def _most_of(columns: Counter[tuple[str, str]], key: str) -> str | None:
    found = [(count, sign) for (one, sign), count in columns.items() if one == key]
    return max(found)[1] if found else None


def _sign_proposal(
    key: str, sign: str, cells: Counter[tuple[str, str]], columns: Counter[tuple[str, str]], where: str
) -> FormatProposal:
    held, of = cells[key, sign], columns[key, sign]
    return FormatProposal(
        key, sign, f"{held:,} cells of {of:,} {'column' if of == 1 else 'columns'} have '{sign}' {where}"
    )


def _settled(
    names: Sequence[str], writings: Sequence[Writing], proposals: Sequence[FormatProposal], form: TableFormat
) -> list[Writing]:
    """Return how columns are written, with what one leaves open settled by the others."""
    said = {one.key: one.value for one in proposals if not one.choices}
    decimals = {one.number.decimal for one in writings if one.number is not None and one.number.decimal is not None}
    asked = any(one.key == "decimal" and one.choices for one in proposals)
    point = (
        said.get("decimal")
        or form.decimal
        or next(iter(decimals), None)
        or ("," if "thousands" in said and said["thousands"] == "." else ".")
    )
    orders = {
        order: name
        for name, one in zip(names, writings, strict=True)
        if one.date is not None and not one.date.is_open
        for order in one.date.ways
    }
    settled = []
    for writing in writings:
        number, date = writing.number, writing.date
        if number is not None and number.open and not asked:
            writing = replace(writing, number=number.settled(point))
        elif date is not None and date.is_open:
            known = [order for order in date.ways if order in orders]
            if len(known) == 1:
                writing = replace(
                    writing, date=replace(date, ways={known[0]: date.ways[known[0]]}), like=orders[known[0]]
                )
        settled.append(writing)
    return settled


def _date_patterns(
    writings: Sequence[Writing], present: Sequence[Counter[str]], form: TableFormat
) -> list[FormatProposal]:
    """Return the patterns of the dates of a table, and the choices where day and month are open."""
    dates = [
        (one.date, sum(counts.values())) for one, counts in zip(writings, present, strict=True) if one.date is not None
    ]
    settled = [
        (date, cells) for date, cells in dates if not date.is_open and date.patterns and date.patterns != ("%Y-%m",)
    ]
    proposals = []
    chosen: list[str] = list(form.dates)
    evidence = []
    for date, cells in settled:
        if set(date.ways) & {"declared"} or _clash(date.patterns, chosen):
            continue
        chosen += [pattern for pattern in date.patterns if pattern not in chosen]
        words = " or ".join(map(words_for_pattern, date.patterns))
        evidence.append(f"{date.read:,} of {cells:,} cells read as {words}")
    if evidence and not form.dates:
        proposals.append(FormatProposal("dates", tuple(chosen), "; ".join(dict.fromkeys(evidence))))
    opened = [date for date, _ in dates if date.is_open]
    if opened:
        orders = [order for order in opened[0].ways if all(order in date.ways for date in opened)]
        choices = tuple(
            tuple(dict.fromkeys([*chosen, *chain.from_iterable(date.ways[order] for date in opened)]))
            for order in orders
        )
        why = f"dates such as {_example(opened[0])} do not show which of {' and '.join(orders)} it is"
        proposals = [one for one in proposals if one.key != "dates"]
        proposals.append(FormatProposal("dates", None, why, choices))
    return proposals


def _example(date: DateWriting) -> str:
    return (
        words_for_pattern(date.patterns[0])
        .replace("dd", "03")
        .replace("mm", "04")
        .replace("yyyy", "2021")
        .replace("yy", "21")
    )


def _clash(patterns: Sequence[str], chosen: Sequence[str]) -> bool:
    """Whether a pattern would read cells of another one: the same signs in another order."""
    return any(sorted(one) == sorted(other) and one != other for one in patterns for other in chosen)
