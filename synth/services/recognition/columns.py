"""What each column is, from its cells: a type, a range, a step, and the values that many rows hold.

Ranges are widened outwards to round numbers. A value is shown only if at least :data:`LEAST_ROWS` rows and
:data:`LEAST_SHARE` of all rows hold it; rarer ones are counted. Nothing is left out because its values differ: numbers
and dates stay numbers and dates.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from synth.errors import InputError
from synth.names import in_natural_order, shown
from synth.schema import TableFormat, parse_column
from synth.schema.columns.find import decimals_of
from synth.schema.encoding import (
    EPOCH,
    NO_DAY,
    NO_TIME,
    days_of_texts,
    minutes_of_texts,
    numbers_of_texts,
    plain_numbers,
)
from synth.schema.guesses import guess_by_name
from synth.services.recognition.notations import Counts, DateWriting, NumberWriting, is_code, words_for_pattern
from synth.services.recognition.proposals import ColumnProposal

__all__ = ["LEAST_ROWS", "LEAST_SHARE", "MOST_TEXTS", "Tally", "Writing", "measured", "proposal_of", "round_range"]

LEAST_ROWS = 20
LEAST_SHARE = 0.01
"""A value is shown if at least so many rows, and at least this share of all rows, hold it."""

_MOST_LEVELS = 10**7
"""Values on the proposed grid of a decimal number; finer steps would only need more memory."""

_MOST_WHOLE_LEVELS = 2**24
MOST_TEXTS = 2_000_000
"""Distinct texts that are counted at the same time, in all columns together."""

_TRUTHS = (
    ("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("1", "0"), ("1.0", "0.0"), ("on", "off"),
    ("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("o", "n"), ("vrai", "faux"),
    ("sí", "no"), ("si", "no"), ("s", "n"), ("sì", "no"), ("sim", "não"), ("sim", "nao"), ("verdadeiro", "falso"),
    ("verdadero", "falso"), ("vero", "falso"), ("ja", "nee"), ("waar", "onwaar"), ("ja", "nej"), ("tak", "nie"),
    ("prawda", "fałsz"), ("t", "n"), ("да", "нет"), ("はい", "いいえ"), ("有", "無"), ("是", "否"), ("예", "아니오"),
)  # fmt: skip
"""Words for yes and no, without capitals."""

_SEXES = tuple(
    frozenset(pair.split())
    for pair in (
        "female male", "f m", "w m", "weiblich männlich", "frau mann", "frauen männer", "femme homme", "f h",
        "féminin masculin", "mujer hombre", "m h", "femenino masculino", "feminino masculino", "mulher homem",
        "donna uomo", "femmina maschio", "vrouw man", "v m", "kobieta mężczyzna", "k m", "kvinna man", "kvinne mann",
        "女 男", "女性 男性", "여 남", "여성 남성",
        "women men", "woman man", "girl boy", "girls boys", "жен муж", "ж м",
    )
)  # fmt: skip
"""Words for two sexes, without capitals."""

_CODES_FOR_MISSING = np.array([
    -1, -2, -3, -7, -8, -9, -66, -77, -88, -97, -98, -99, -777, -888, -998, -999, -9998, -9999, -99999, 66, 77, 88, 97,
    98, 99, 777, 888, 997, 998, 999, 7777, 8888, 9997, 9998, 9999, 99999, 999999,
], dtype=np.float64)  # fmt: skip
"""Numbers that often mean that there is none."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How the cells of a column are written, as found in the first rows: at most one of the three."""

    number: NumberWriting | None = None
    date: DateWriting | None = None
    time: str | None = None
    like: str = ""
    """The column that settled what this one left open."""

    nothing: tuple[str, ...] = ()
    """Words that many of its cells hold where the others are numbers or dates."""


@dataclass(slots=True)
class Tally:
    """The texts of a column, counted over all rows, in bounded memory.

    ``counts`` are exact until there are too many different texts; then rare ones are forgotten (``is_cut``), but none
    that could still be held by enough rows to be shown. ``lowest`` and ``highest`` leave out the numbers in ``codes``,
    which may mean that there is none.
    """

    most: int
    rows: int = 0
    missing: int = 0
    read: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    is_cut: bool = False
    lowest: float = np.inf
    highest: float = -np.inf
    decimals: Counter[int] = field(default_factory=Counter)
    codes: Counter[float] = field(default_factory=Counter)
    next_row: int | None = None
    """The number of the next row if all cells so far count the rows; -1 if they do not."""

    def add(self, texts: pa.Array, is_missing: npt.NDArray[np.bool_], writing: Writing) -> None:
        """Count the cells of some more rows."""
        self._follow(texts)
        self.rows += len(texts)
        self.missing += int(is_missing.sum())
        counted = texts.filter(pa.array(~is_missing)).value_counts()
        values, counts = counted.field(0), counted.field(1).to_numpy(zero_copy_only=False)
        self.counts.update(dict(zip(values.to_pylist(), counts.tolist(), strict=True)))
        if len(self.counts) > self.most:
            least = LEAST_SHARE / 4 * self.rows
            self.counts = Counter({text: count for text, count in self.counts.items() if count >= least})
            self.is_cut = True
        self._measure(measured(writing, values), counts)

    @property
    def present(self) -> int:
        """How many cells are not missing."""
        return self.rows - self.missing

    @property
    def counts_rows(self) -> bool:
        """Whether the cells count the rows, from 0 or 1."""
        return self.next_row is not None and self.next_row >= LEAST_ROWS

    def _follow(self, texts: pa.Array) -> None:
        if self.next_row == -1 or not len(texts):
            return
        cells = texts.to_pylist()
        start = {"0": 0, "1": 1}.get(cells[0], -1) if self.next_row is None else self.next_row
        is_count = start >= 0 and cells == list(map(str, range(start, start + len(cells))))
        self.next_row = start + len(cells) if is_count else -1

    def _measure(self, numbers: npt.NDArray[np.float64] | None, counts: npt.NDArray[np.int64]) -> None:
        if numbers is None:
            return
        known = np.isfinite(numbers)
        found, times = numbers[known], counts[known]
        self.read += int(times.sum())
        is_code = np.isin(found, _CODES_FOR_MISSING)
        for code, count in zip(found[is_code].tolist(), times[is_code].tolist(), strict=True):
            self.codes[code] += count
        for places, count in zip(decimals_of(found).tolist(), times.tolist(), strict=True):
            self.decimals[places] += count
        if not is_code.all():
            kept = found[~is_code]
            self.lowest, self.highest = min(self.lowest, float(kept.min())), max(self.highest, float(kept.max()))


def measured(writing: Writing, values: pa.Array) -> npt.NDArray[np.float64] | None:
    """Return texts as numbers, days or minutes, NaN where they are none; None in a column of words."""
    if writing.number is not None and not writing.number.codes:
        return numbers_of_texts(plain_numbers(values, writing.number.settled(".").notation))
    if writing.date is not None:
        days = days_of_texts(values, patterns=writing.date.patterns, shortest=7)
        return np.where(days == NO_DAY, np.nan, days)
    if writing.time is not None:
        minutes = minutes_of_texts(values, patterns=(writing.time,) if writing.time else ())
        return np.where(minutes == NO_TIME, np.nan, minutes)
    return None


# What a column is -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    """A column that was counted to its end, and the format of its table."""

    name: str
    tally: Tally
    writing: Writing
    form: TableFormat

    @property
    def least(self) -> int:
        """Rows that must hold a value before it is shown."""
        return max(LEAST_ROWS, math.ceil(LEAST_SHARE * self.tally.rows))

    @property
    def shown(self) -> list[str]:
        """The values that enough rows hold."""
        return [text for text, count in self.tally.counts.items() if count >= self.least]

    @property
    def covered(self) -> float:
        """Share of the cells that hold a value that is shown."""
        return sum(self.tally.counts[text] for text in self.shown) / max(self.tally.present, 1)

    @property
    def different(self) -> str:
        """How many different values there are, in words."""
        distinct = len(self.tally.counts)
        return f"more than {self.tally.most:,}" if self.tally.is_cut else f"{distinct:,}"

    def empty(self, fallback: object, *, read: int | None = None) -> dict[str, Any]:
        """Return the keys that say what an empty or unreadable cell becomes."""
        unread = self.tally.present - (self.tally.present if read is None else read)
        return {"missing": True} if self.tally.missing + unread else {"fallback": fallback}


def proposal_of(name: str, tally: Tally, writing: Writing, form: TableFormat) -> ColumnProposal:
    """Return what a column seems to be.

    Parameters
    ----------
    name : str
    tally : Tally
        Its cells, all of them.
    writing : Writing
        How they are written.
    form : TableFormat
        The format with which it will be read.
    """
    seen = _Seen(name, tally, writing, form)
    found = next(filter(None, (kind(seen) for kind in _KINDS)))
    try:
        for body in filter(None, (found.body, *found.choices)):
            parse_column(name, body)
    except InputError:
        why = f"{found.evidence}, but not in a form that can be declared"
        return ColumnProposal(name, {"type": "drop"}, why)
    return found


def _nothing(seen: _Seen) -> ColumnProposal | None:
    if seen.tally.present:
        return None
    return ColumnProposal(seen.name, {"type": "drop"}, f"all {seen.tally.rows:,} cells are empty")


def _index(seen: _Seen) -> ColumnProposal | None:
    if not seen.tally.counts_rows:
        return None
    return ColumnProposal(
        seen.name, {"type": "drop"}, "its cells count the rows, one after the other: an index, and no fact"
    )


def _named(seen: _Seen) -> ColumnProposal | None:
    """Return what the name says, where the cells do not show a few values that many rows share."""
    guess = guess_by_name(seen.name)
    if guess is None or guess.kind not in ("identifier", "drop") or seen.writing.date or seen.covered >= _MOSTLY:
        return None
    if guess.kind == "drop" and seen.writing.number is not None:
        return None
    why = f"its name has the word '{guess.word}', and it has {seen.different} different values"
    if guess.kind == "drop":
        return ColumnProposal(seen.name, {"type": "drop"}, f"{why}: free text")
    return _identifier(seen, why)


_MOSTLY = 0.9
"""Share of the cells that a few values must cover to be all that matters."""


def _identifier(seen: _Seen, why: str) -> ColumnProposal:
    most = max(seen.tally.counts.values())
    each = "each in one row" if most == 1 else f"each in at most {most:,} rows"
    return ColumnProposal(
        seen.name, {"type": "identifier"}, f"{why} in {seen.tally.present:,} cells, {each}", rows_per_value=most
    )


def _truth(seen: _Seen) -> ColumnProposal | None:
    """Return the two words of a column of yes and no, in their most frequent spelling."""
    spelled = _spellings(seen.tally.counts)
    pair = next((pair for pair in _TRUTHS if set(pair) == set(spelled)), None)
    if pair is None or seen.tally.is_cut:
        return None
    yes, no = (spelled[word] for word in pair)
    body = {"type": "yes_no", "yes": yes, "no": no, **seen.empty(no)}
    return ColumnProposal(seen.name, body, f"all {seen.tally.present:,} cells are {yes} or {no}")


def _spellings(counts: Counts) -> dict[str, str]:
    """Return the most frequent spelling of every word, by the word without capitals."""
    best: dict[str, str] = {}
    for text in counts:
        word = text.casefold()
        if word not in best or counts[text] > counts[best[word]]:
            best[word] = text
    return best


def _time(seen: _Seen) -> ColumnProposal | None:
    pattern = seen.writing.time
    if pattern is None or seen.tally.read < _MOSTLY * seen.tally.present:
        return None
    minutes = measured(seen.writing, pa.array(list(seen.tally.counts), pa.string()))
    known = np.array([]) if minutes is None else minutes[np.isfinite(minutes)]
    step = "hour" if not (known % 60).any() else "quarter" if not (known % 15).any() else "minute"
    said = {"pattern": pattern} if pattern else {}
    body = {"type": "time", "step": step, **said, **seen.empty("00:00", read=seen.tally.read)}
    written = f" written {words_for_pattern(pattern)}" if pattern else ""
    return ColumnProposal(seen.name, body, _evidence(seen, f"times of day{written}"), note=_unread(seen))


def _evidence(seen: _Seen, what: str) -> str:
    return f"{seen.tally.read:,} of {seen.tally.present:,} cells read as {what}"


def _unread(seen: _Seen) -> str:
    unread = seen.tally.present - seen.tally.read
    if not unread:
        return ""
    return f"{unread:,} {'cell does' if unread == 1 else 'cells do'} not, and would become missing"


# Numbers --------------------------------------------------------------------------------------------------------------


def _number(seen: _Seen) -> ColumnProposal | None:
    number, tally = seen.writing.number, seen.tally
    if number is None or number.codes or tally.read < _MOSTLY * tally.present or not tally.read or _has_codes(seen):
        return None
    if number.open:
        ways = [replace(number.settled(sign), open="") for sign in (".", ",")]
        bodies = tuple(_number_body(seen, _counted_again(seen, way), way, own=True) for way in ways)
        why = f"all its numbers have '{number.open}' before three digits, which may be decimals or thousands"
        return ColumnProposal(seen.name, {}, why, choices=bodies)
    body = _number_body(seen, tally, number)
    special = body.get("special")
    note = _unread(seen)
    if special:
        note = "; ".join(filter(None, (f"{_listed(special)} may mean that there is no number", note)))
    return ColumnProposal(
        seen.name, body, _evidence(seen, f"numbers{_signs_in_words(number)}") + _like(seen), note=note
    )


def _has_codes(seen: _Seen) -> bool:
    """Whether the cells that are no numbers are codes with letters, as in lists of diagnoses."""
    tally = seen.tally
    if tally.present - tally.read < _SOME * tally.present:
        return False
    values = measured(seen.writing, pa.array(list(tally.counts), pa.string()))
    read = np.zeros(len(tally.counts)) if values is None else values
    others = {text: tally.counts[text] for text, value in zip(tally.counts, read, strict=True) if np.isnan(value)}
    return sum(count for text, count in others.items() if is_code(text)) > _HALF * sum(others.values())


_SOME = 0.005
"""Share of the cells that must be codes before a column of numbers is one of codes."""


def _like(seen: _Seen) -> str:
    return f", as in '{shown(seen.writing.like)}'" if seen.writing.like else ""


def _listed(values: Sequence[float]) -> str:
    return " and ".join(f"{value:g}" for value in values)


def _signs_in_words(number: NumberWriting) -> str:
    words = []
    if number.decimal not in (None, "."):
        words.append(f"'{number.decimal}' before decimals")
    if number.thousands is not None:
        words.append(f"'{number.thousands}' between thousands")
    if number.unit:
        words.append(f"the unit '{number.unit}'")
    return f" with {' and '.join(words)}" if words else ""


def _counted_again(seen: _Seen, number: NumberWriting) -> Tally:
    """Return the range of a column's texts in one of several notations."""
    again = Tally(seen.tally.most)
    counts = seen.tally.counts
    again.add(pa.array(list(counts), pa.string()), np.zeros(len(counts), bool), Writing(number=number))
    return again


def _number_body(seen: _Seen, tally: Tally, number: NumberWriting, *, own: bool = False) -> dict[str, Any]:
    low, high, special = _without_codes(tally)
    whole = sum(count for places, count in tally.decimals.items() if places == 0)
    is_whole = whole >= 0.99 * sum(tally.decimals.values())
    lowest, highest, step = round_range(low, high, _decimals(tally), is_whole=is_whole)
    body: dict[str, Any] = {"type": "number", "low": lowest, "high": highest, "step": step}
    if special:
        body["special"] = [int(code) for code in special]
    return body | _own_notation(number, seen.form, own=own) | seen.empty(lowest, read=seen.tally.read)


def _own_notation(number: NumberWriting, form: TableFormat, *, own: bool) -> dict[str, Any]:
    """Return the keys of a column whose numbers are not written as the table's."""
    point, group = number.decimal or ("." if own else None), number.thousands
    if number.decimal is None and group is not None and group == (point or form.notation.point):
        point = "," if group == "." else "."  # whole numbers do not show it, and it cannot be the same
    said: dict[str, Any] = {}
    if point is not None and (own or point != form.notation.point):
        said["decimal"] = point
    if group is not None and (own or group != form.thousands):
        said["thousands"] = group
    elif said and form.thousands == point:
        said["thousands"] = "," if point == "." else "."
    if number.unit:
        said["units"] = [number.unit]
    return said


def _decimals(tally: Tally) -> int:
    """Return how many decimals nearly all numbers of a column are written with at most."""
    whole, places = sum(tally.decimals.values()), 0
    while sum(count for one, count in tally.decimals.items() if one > places) > 0.01 * whole:
        places += 1
    return places


def _without_codes(tally: Tally) -> tuple[float, float, list[float]]:
    """Return the range of a column, and the numbers far outside of it that usually mean that there is none."""
    low, high = tally.lowest, tally.highest
    if not np.isfinite(low):
        return min(tally.codes), max(tally.codes), []
    special: list[float] = []
    for code in sorted(tally.codes, key=lambda one: max(one - high, low - one)):
        span = max(high - low, 1.0)
        outside = max(code - high, low - code)
        is_far = outside > span / 2 or (code < 0 <= low and span >= 10)
        if outside > 0 and is_far and tally.codes[code] >= _LEAST_CODES:
            special.append(code)
        else:
            low, high = min(low, code), max(high, code)
    return low, high, sorted(code for code in special if not low <= code <= high)


_LEAST_CODES = 5
"""Cells that must hold a number far outside before it is taken for a code."""


def round_range(
    low: float, high: float, places: int, *, is_whole: bool
) -> tuple[int | float, int | float, int | float]:
    """Return a range widened outwards to round numbers, and a step.

    Parameters
    ----------
    low, high : float
        The lowest and the highest number.
    places : int
        Decimals of the numbers.
    is_whole : bool
        Whether they are whole.

    Examples
    --------
    >>> round_range(0.42, 80.0, 2, is_whole=False), round_range(1122, 63770, 0, is_whole=True)
    ((0, 80, 0.01), (0, 70000, 1))
    """
    first, last = Decimal(repr(low)), Decimal(repr(high))
    span = last - first or abs(first) or Decimal(1)
    unit = Decimal(1).scaleb((span / 4).adjusted())
    unit *= max(factor for factor in (1, 2, 5) if factor * unit <= span / 4 or factor == 1)
    unit = max(unit, Decimal(1)) if is_whole else unit
    lowest = (first / unit).to_integral_value(ROUND_FLOOR) * unit
    highest = (last / unit).to_integral_value(ROUND_CEILING) * unit
    highest = highest if highest > lowest else lowest + unit
    step = Decimal(1) if is_whole else Decimal(1).scaleb(-places)
    most = _MOST_WHOLE_LEVELS if is_whole else _MOST_LEVELS
    while (highest - lowest) / step >= most:
        step *= 10
    return _plain(lowest), _plain(highest), _plain(step)


def _plain(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() and abs(number) < 2**53 else float(number)


# Dates ----------------------------------------------------------------------------------------------------------------


def _date(seen: _Seen) -> ColumnProposal | None:
    date, tally = seen.writing.date, seen.tally
    if date is None or tally.read < _MOSTLY * tally.present or not tally.read:
        return None
    if date.is_open:
        bodies = tuple(_date_body(seen, patterns, own=True) for patterns in date.ways.values())
        why = f"{tally.read:,} of {tally.present:,} cells are dates, but none shows whether {_either(date)} comes first"
        return ColumnProposal(seen.name, {}, why, choices=bodies)
    written = " or ".join(map(words_for_pattern, date.patterns)) or "ISO 8601 (yyyy-mm-dd)"
    note = "; ".join(filter(None, (_time_too(date), _unread(seen))))
    return ColumnProposal(
        seen.name, _date_body(seen, date.patterns), _evidence(seen, f"dates written {written}") + _like(seen), note=note
    )


def _either(date: DateWriting) -> str:
    return " or ".join(f"the {order.removesuffix(' first')}" for order in date.ways)


def _time_too(date: DateWriting) -> str:
    return "its cells also hold a time of day, which can be a column of its own" if date.has_time else ""


def _date_body(seen: _Seen, patterns: tuple[str, ...], *, own: bool = False) -> dict[str, Any]:
    days = days_of_texts(pa.array(list(seen.tally.counts), pa.string()), patterns=patterns, shortest=7)
    known = days[days != NO_DAY]
    first, last = (int(known.min()), int(known.max())) if own else (int(seen.tally.lowest), int(seen.tally.highest))
    low, high = _round_days(*(datetime.date.fromordinal(day + EPOCH) for day in (first, last)))
    has_days = replace(seen.writing.date, ways={"": patterns}).has_days if seen.writing.date else True
    said = {"pattern": patterns[0] if len(patterns) == 1 else list(patterns)} if patterns else {}
    if (not own and set(patterns) <= set(seen.form.dates)) or patterns == ("%Y-%m",):
        said = {}
    step = "day" if has_days else "month"
    return {
        "type": "date", "low": low.isoformat(), "high": high.isoformat(), "step": step, **said,
        **seen.empty(low.isoformat(), read=seen.tally.read),
    }  # fmt: skip


def _round_days(first: datetime.date, last: datetime.date) -> tuple[datetime.date, datetime.date]:
    """Return whole years around two days, or whole months if they are less than a year apart."""
    if (last - first).days >= _YEAR:
        return datetime.date(first.year, 1, 1), datetime.date(last.year, 12, 31)
    later = datetime.date(last.year + last.month // 12, last.month % 12 + 1, 1) if last.year < 9999 else None
    return first.replace(day=1), last.replace(day=31) if later is None else later - datetime.timedelta(days=1)


_YEAR = 365


# Words ----------------------------------------------------------------------------------------------------------------


def _words(seen: _Seen) -> ColumnProposal:
    """Return the values that many rows hold, or why no value can be listed."""
    tally, shown_values = seen.tally, _shown_words(seen)
    distinct, codes = len(tally.counts), sum(is_code(text) for text in tally.counts)
    covered = sum(tally.counts[text] for text in shown_values) / tally.present
    if covered >= _HALF:
        return _category(seen, shown_values, covered)
    facts = f"{seen.different} different {{}} in {tally.present:,} cells"
    if codes >= _MOSTLY * distinct and tally.present >= _HALF * tally.rows:
        return _identifier(seen, f"{seen.different} different codes")
    if tally.is_cut or distinct >= _HALF * tally.present:
        return ColumnProposal(
            seen.name, {"type": "drop"}, f"{facts.format('texts')}: too many to list, and no numbers or dates"
        )
    if shown_values:
        return _category(seen, shown_values, covered)
    note = "group them in the file, or list those that anyone could know"
    return ColumnProposal(
        seen.name,
        {"type": "drop"},
        f"{facts.format('values')}, each in fewer than {seen.least:,} rows",
        rarer=distinct,
        note=note,
    )


_HALF = 0.5


def _shown_words(seen: _Seen) -> list[str]:
    """Return the values that are shown, in their order: those of enough rows, and the words for two sexes."""
    counts = seen.tally.counts
    spelled = _spellings(counts)
    sexes = next((pair for pair in _SEXES if pair <= set(spelled)), frozenset())
    known = {spelled[word] for word in sexes}
    if sum(counts[text] for text in known) < _MOSTLY * seen.tally.present:
        known = set()
    return in_natural_order(known.union(seen.shown))


def _category(seen: _Seen, values: Sequence[str], covered: float) -> ColumnProposal:
    tally = seen.tally
    value_of = {text.casefold(): text for text in values}
    aliases = {
        text: value_of[text.casefold()]
        for text in tally.counts
        if text not in values and text.casefold() in value_of and len(value_of) == len(values)
    }
    rarer = len(tally.counts) - len(values) - len(aliases)
    body: dict[str, Any] = {"type": "category", "values": list(values)}
    body |= {"aliases": aliases} if aliases else {}
    if rarer or tally.is_cut:
        body |= {"other": True} | ({"missing": True} if tally.missing else {})
    else:
        body |= seen.empty(max(values, key=lambda text: tally.counts[text]))
    many = f"{len(values):,} {'value' if len(values) == 1 else 'values'}"
    why = f"{many} in {math.floor(100 * covered)} % of {tally.present:,} cells"
    values_are = "rarer value" if rarer == 1 else "rarer values, each"
    note = f"{rarer:,} {values_are} in fewer than {seen.least:,} rows would become other"
    return ColumnProposal(seen.name, body, why, rarer=rarer, note=note if rarer else "")


_KINDS = (_nothing, _named, _index, _truth, _time, _date, _number, _words)
"""In this order: the first that says something is proposed, and the last always does."""
