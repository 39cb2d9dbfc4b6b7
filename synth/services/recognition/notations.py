"""How the cells of one column are written: as numbers, as dates, as times of day, or as words.

What fits is found by shape and then read by the reader itself, so a count of cells is what a run would read.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa

from synth.schema.encoding import (
    NO_DAY,
    NO_TIME,
    days_of_texts,
    minutes_of_texts,
    numbers_of_texts,
    plain_numbers,
)
from synth.schema.written import Notation, has_hours, moment_written

__all__ = [
    "MISSING_WORDS",
    "NEVER_WORDS",
    "NO_NAMES",
    "Counts",
    "DateWriting",
    "NumberWriting",
    "dates_in",
    "is_code",
    "kind_of_cell",
    "kind_of_cells",
    "numbers_in",
    "times_in",
    "words_for_pattern",
]

Counts = Mapping[str, int]
"""The distinct texts of a column without missing ones, and in how many cells each is."""

NEVER_WORDS = (
    "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null",
    "(null)", "\\N", "?", "-", "--", "\u2013", "\u2014",
)  # fmt: skip
"""Texts that mean a missing cell wherever they are, even among words."""

_SOMETIMES_WORDS = (
    "na", "None", "none", "NONE", ".", "..", "...", "#NULL!", "#VALUE!", "#DIV/0!", "missing", "Missing", "unknown",
    "Unknown", "k.A.", "k. A.", "n.d.", "N.D.", "nd", "ND", "n/d", "N/D", "s/d", "S/D", "b.d.", "NC", "n.c.", "不明",
    "x", "X", "/", "*", "nil", "Null",
)  # fmt: skip
"""Texts that mean a missing cell where other cells are numbers or dates."""

MISSING_WORDS = frozenset({"", *NEVER_WORDS, *_SOMETIMES_WORDS})

NO_NAMES = frozenset(word for word in MISSING_WORDS if word in NEVER_WORDS or not any(map(str.isalpha, word)))
"""Texts that mean a missing cell rather than a name, in a line that may be either."""

SURE = 0.95
"""Share of the cells of a column that must be read."""


_LONGEST = 64
"""Characters of the longest text that any pattern is tried on; a longer one is neither a number nor a date."""


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return pattern.match(text) if len(text) <= _LONGEST else None


_CODE = re.compile(
    r"[^\W\d_]{0,6}[-_./#]?\d{2,}[-_./]?\w{0,6}$"
    r"|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
    r"|[^\s@]+@[^\s@]+$"
)


def is_code(text: str) -> bool:
    """Whether a text looks like a number of a person or a thing: letters and digits, or an address of mail.

    Examples
    --------
    >>> is_code("F0001"), is_code("2023-0042"), is_code("a@b.org"), is_code("seen twice")
    (True, True, True, False)
    """
    return _matched(_CODE, text) is not None


# Numbers --------------------------------------------------------------------------------------------------------------

_SPACE = " \u00a0\u202f\u2009"
_BETWEEN = f".,'\u2019{_SPACE}"
_CELL = re.compile(
    rf"^(?P<before>[^\d+\-{_BETWEEN}]{{0,5}}?)[{_SPACE}]*(?P<sign>[+-]?)(?P<inner>[^\d+\-{_BETWEEN}]{{0,5}}?)[{_SPACE}]*"
    rf"(?P<core>[.,]?\d(?:[\d{_BETWEEN}]*\d)?[.,]?)(?:[eE][+-]?\d{{1,3}})?[{_SPACE}]*(?P<behind>\D{{0,12}}?)$"
)
_CURRENCIES = frozenset({
    "CHF", "EUR", "USD", "GBP", "PLN", "BRL", "JPY", "SEK", "NOK", "DKK", "CZK", "HUF", "CAD", "AUD", "Fr", "Fr.",
    "SFr", "kr", "zł", "R$", "US$", "Kč", "Ft", "RM", "Rs", "£", "$", "€", "¥", "円", "元", "원",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class NumberWriting:
    """How the numbers of a column are written.

    ``decimal`` and ``thousands`` are None where no cell shows one. ``unit`` is the one unit of its cells, ``read`` how
    many cells are read. Under ``open`` the only sign is followed by three digits in every cell, and may be either.
    ``codes`` are numbers with zeros in front, which are names rather than numbers.
    """

    decimal: str | None = None
    thousands: str | None = None
    unit: str = ""
    read: int = 0
    open: str = ""
    codes: bool = False

    @property
    def notation(self) -> Notation:
        """The notation with which the reader reads them."""
        return Notation(self.decimal, self.thousands, (self.unit,) if self.unit else ())

    def settled(self, decimal: str) -> NumberWriting:
        """Return it with the meaning of an open sign: ``decimal`` is the table's decimal sign."""
        if not self.open:
            return self
        is_decimal = self.open == decimal
        return replace(
            self, open="", decimal=self.open if is_decimal else None, thousands=None if is_decimal else self.open
        )


def numbers_in(counts: Counts) -> NumberWriting | None:
    """Return how the cells of a column write numbers; None where too few are numbers, or in several units."""
    whole = sum(counts.values())
    found = [(one, count) for text, count in counts.items() if (one := _matched(_CELL, text)) is not None]
    if sum(count for _, count in found) < SURE * whole or not whole:
        return None
    units = Counter[str]()
    for one, count in found:
        unit = _unit(one)
        if unit is None:
            continue
        units[unit] += count
    unit = _one_unit(units, whole)
    if unit is None:
        return None
    signs = _signs_of_cells((one["core"], count) for one, count in found if _unit(one) in (unit, ""))
    if signs is None:
        return None
    writing = replace(signs, unit=unit)
    writing = replace(writing, read=_read(counts, (writing.settled(".") if writing.open else writing).notation))
    return writing if writing.read >= SURE * whole else None


def _unit(cell: re.Match[str]) -> str | None:
    """Return the unit of a cell, empty without one; None where what stands beside the number is no unit."""
    before, behind = (cell["before"] + cell["inner"]).strip(), cell["behind"].strip()
    if before and behind:
        return None
    if before:
        return before if before in _CURRENCIES or unicodedata.category(before[0]) == "Sc" else None
    if not behind:
        return ""
    is_unit = any(sign.isalpha() or sign in "%‰°" or unicodedata.category(sign) == "Sc" for sign in behind)
    return behind if is_unit and not set(behind) & set(":;|()[]") else None


def _one_unit(units: Counter[str], whole: int) -> str | None:
    """Return the unit of nearly all cells with one; None where there are several, or where it may be part of a code."""
    named = Counter({unit: count for unit, count in units.items() if unit})
    if sum(units.values()) < SURE * whole:
        return None
    if not named:
        return ""
    unit, count = named.most_common(1)[0]
    others = sum(named.values()) - count
    if others + (units[""] if count < whole / 2 else 0) > (1 - SURE) * whole:
        return None
    return unit


def _signs_of_cells(cores: Iterable[tuple[str, int]]) -> NumberWriting | None:
    """Return which signs stand before decimals and between thousands."""
    decimals, groups, opened = Counter[str](), Counter[str](), Counter[str]()
    short = long = codes = whole = 0
    for core, count in cores:
        whole += count
        decimal, between, is_open = _signs_of(core)
        if decimal is None:
            continue
        if is_open:
            opened[decimal] += count
        elif decimal or between:
            decimals[decimal] += count * bool(decimal)
            groups[between] += count * bool(between)
        else:
            codes += count * (len(core) > 1 and core[0] == "0")
            long += count * (len(core) > 3)
            short += count * (len(core) <= 3)
    point, group = _most(decimals), _most(groups)
    sign = _most(opened)
    if codes > 0.01 * whole and point is None and group is None and sign is None:
        return NumberWriting(codes=True)
    if sign is None or sign in (point, group):
        return NumberWriting(point, group)
    if point is not None:
        return NumberWriting(point, sign)
    if group is not None:
        return NumberWriting(sign, group)
    if long:
        return NumberWriting(sign)
    if short:  # numbers below a thousand are written whole
        return NumberWriting(None, sign)
    return NumberWriting(open=sign)


def _signs_of(core: str) -> tuple[str | None, str, bool]:
    """Return the decimal sign, the sign between thousands, and whether they may be exchanged; None where no number."""
    plain = "".join(" " if one in _SPACE else "'" if one == "\u2019" else one for one in core)
    signs = [one for one in plain if not one.isdigit()]
    groups = re.split(r"\D", plain)
    if not signs:
        return "", "", False
    in_threes = 1 <= len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    if len(set(signs)) == 1:
        sign = signs[0]
        if sign in " '" or len(signs) > 1:
            return ("", sign, False) if in_threes else (None, "", False)
        return (sign, "", in_threes and groups[0][0] != "0")
    between, point = signs[0], signs[-1]
    in_threes = 1 <= len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:-1])
    if signs.count(point) > 1 or set(signs[:-1]) != {between} or point in " '" or not in_threes:
        return None, "", False
    return point, between, False


def _most(signs: Counter[str]) -> str | None:
    held = +signs
    return held.most_common(1)[0][0] if held else None


def _read(counts: Counts, notation: Notation) -> int:
    """Return how many cells the reader reads as numbers."""
    texts = pa.array(list(counts), pa.string())
    numbers = numbers_of_texts(plain_numbers(texts, notation))
    return int(np.fromiter(counts.values(), np.int64)[~np.isnan(numbers)].sum())


# Dates ----------------------------------------------------------------------------------------------------------------

_TIME = r"(?:(?P<gap>,? |T)\d{1,2}:\d{2}(?P<seconds>:\d{2})?(?P<half> ?[AaPp][Mm])?)?"
_DATE = re.compile(rf"^(?P<first>\d{{1,4}})(?P<sign>[./\-])(?P<second>\d{{1,2}})(?P=sign)(?P<third>\d{{1,4}}){_TIME}$")
_ORDERS = {"day first": "dmy", "month first": "mdy", "year first": "ymd"}
_WRITTEN_OUT = (
    "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%d.%b.%Y", "%d%b%Y", "%b %d, %Y", "%b %d %Y", "%d %B %Y",
    "%d. %B %Y", "%B %d, %Y", "%Y年%m月%d日", "%Y. %m. %d.", "%d. %m. %Y", "%Y%m%d", "%d%m%Y", "%m/%Y", "%m.%Y",
    "%b %Y", "%B %Y", "%b-%y", "%b-%Y", "%Y/%m", "%Y年%m月",
)  # fmt: skip
"""Patterns of dates that are told apart by trying: with names of months, without signs, or without days."""

_ENDINGS = ("", " %H:%M", " %H:%M:%S")
_LEAST_DIFFERENCE = 0.01
"""Share of the cells by which one order of day and month must read more than the other."""


@dataclass(frozen=True, slots=True)
class DateWriting:
    """How the dates of a column are written.

    ``ways`` are the patterns that fit equally well, by the order of day, month and year; a single way has no patterns
    if the reader needs none. ``read`` is how many cells are read.
    """

    ways: Mapping[str, tuple[str, ...]]
    read: int
    has_time: bool = False

    @property
    def is_open(self) -> bool:
        """Whether day and month may be exchanged."""
        return len(self.ways) > 1

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the first way."""
        return next(iter(self.ways.values()))

    @property
    def has_days(self) -> bool:
        """Whether cells say more than a month."""
        return not self.patterns or any("%d" in pattern for pattern in self.patterns)


def dates_in(counts: Counts, declared: tuple[str, ...] = ()) -> DateWriting | None:
    """Return how the cells of a column write dates; None where too few are dates.

    Parameters
    ----------
    counts : mapping
    declared : tuple of str
        Patterns of the table, which are not proposed again.
    """
    whole = sum(counts.values())
    if not whole:
        return None
    for patterns in filter(None, (declared, ("",))):
        known = tuple(filter(None, patterns))
        read = _dates_read(counts, known, shortest=10)
        if read >= SURE * whole and (known or not _only_digits(counts) or _is_likely("%Y%m%d", counts)):
            timed = any(len(text) > 10 and text[10:].strip("T0:. Z") for text in counts)
            return DateWriting({"declared" if known else "ISO 8601": known}, read, timed)
    found = {text: one for text in counts if (one := _matched(_DATE, text)) is not None}
    if sum(counts[text] for text in found) >= SURE * whole:
        return _in_numbers(counts, found, whole)
    return _written_out(counts, whole)


def _only_digits(counts: Counts) -> bool:
    return all(map(str.isdigit, counts))


def _dates_read(counts: Counts, patterns: tuple[str, ...], *, shortest: int) -> int:
    days = days_of_texts(pa.array(list(counts), pa.string()), patterns=patterns, shortest=shortest)
    return int(np.fromiter(counts.values(), np.int64)[days != NO_DAY].sum())


def _in_numbers(counts: Counts, found: Mapping[str, re.Match[str]], whole: int) -> DateWriting | None:
    signs = Counter(one["sign"] for one in found.values())
    sign = signs.most_common(1)[0][0]
    some = [one for one in found.values() if one["sign"] == sign]
    endings = Counter(map(_ending, some))
    long_year = sum(len(one["first"]) == 4 or len(one["third"]) == 4 for one in some) > len(some) / 2
    year = "%Y" if long_year else "%y"
    scores = {}
    ways = {}
    for order, letters in _ORDERS.items():
        if order == "year first" and not long_year and sign != "-":
            continue  # nobody writes 24.03.05
        day = sign.join({"d": "%d", "m": "%m", "y": year}[letter] for letter in letters)
        # The longest first: a pattern without seconds would not read those with them, nor the other way round.
        ways[order] = tuple(f"{day}{ending}" for ending in sorted(endings, key=len, reverse=True))
        scores[order] = _written_count(counts, ways[order])
    best = max(scores.values())
    if best < SURE * whole:
        return None
    near = {order: ways[order] for order, score in scores.items() if score >= best - _LEAST_DIFFERENCE * whole}
    if len(near) > 1 and best - min(scores[order] for order in near) >= 3:
        near = {order: ways[order] for order in near if scores[order] == best}
    return DateWriting(near, best, any(endings[ending] for ending in endings if ending))


def _ending(cell: re.Match[str]) -> str:
    if cell["gap"] is None:
        return ""
    seconds = ":%S" if cell["seconds"] else ""
    if cell["half"] is None:
        return f"{cell['gap']}%H:%M{seconds}"
    return f"{cell['gap']}%I:%M{seconds}{' ' * cell['half'].startswith(' ')}%p"


def _written_count(counts: Counts, patterns: Sequence[str]) -> int:
    return sum(
        count
        for text, count in counts.items()
        if len(text) <= _LONGEST and any(moment_written(text, pattern) is not None for pattern in patterns)
    )


def _written_out(counts: Counts, whole: int) -> DateWriting | None:
    if _dates_read(counts, (), shortest=7) >= SURE * whole and all("-" in text for text in counts):
        return DateWriting({"months": ("%Y-%m",)}, _dates_read(counts, (), shortest=7))
    some = dict(islice(counts.items(), 50))
    if not any(_may_be_written_out(text) for text in islice(some, 5)):
        return None
    for day in _WRITTEN_OUT:
        for ending in _ENDINGS if "%d" in day and ("%b" in day.lower() or "年" in day) else ("",):
            pattern = f"{day}{ending}"
            if _written_count(some, (pattern,)) < 0.9 * sum(some.values()):
                continue
            read = _written_count(counts, (pattern,))
            if read >= SURE * whole and _is_likely(pattern, counts):
                return DateWriting({"written out": (pattern,)}, read, has_hours(pattern))
    return None


def _may_be_written_out(text: str) -> bool:
    """Whether a text has the length of a date, and letters, signs or digits as such a date has."""
    return 4 <= len(text) <= _LONGEST and (len(text) == 8 or not text.isdigit())


def _is_likely(pattern: str, counts: Counts) -> bool:
    """Whether digits without signs are dates: strptime reads many numbers as one."""
    if pattern not in ("%Y%m%d", "%d%m%Y"):
        return True
    if any(len(text) != 8 for text in counts):
        return False
    years = [moment.year for text in counts if (moment := moment_written(text, pattern)) is not None]
    return len(years) > 2 and all(1900 <= year <= 2100 for year in years)


_WORDS = {
    "%d": "dd", "%m": "mm", "%Y": "yyyy", "%y": "yy", "%H": "hh", "%M": "mm", "%S": "ss", "%I": "hh", "%p": "am/pm",
    "%b": "mon", "%B": "month",
}  # fmt: skip


def words_for_pattern(pattern: str) -> str:
    """Return a pattern of dates as people write it.

    Examples
    --------
    >>> words_for_pattern("%d.%m.%Y %H:%M")
    'dd.mm.yyyy hh:mm'
    """
    for directive, word in _WORDS.items():
        pattern = pattern.replace(directive, word)
    return pattern


# Times of day ---------------------------------------------------------------------------------------------------------

_TIMES = ("", "%I:%M %p", "%I:%M%p", "%Hh%M", "%H h %M", "%Hh", "%H時%M分")
_TIME_OF_DAY = re.compile(r"^\d{1,2}(:|\s?h|時)")


def times_in(counts: Counts) -> tuple[str, int] | None:
    """Return the pattern of times of day, empty for ISO 8601, and how many cells are read; None where too few are."""
    whole = sum(counts.values())
    if not whole or sum(count for text, count in counts.items() if _matched(_TIME_OF_DAY, text)) < SURE * whole:
        return None
    for pattern in _TIMES:
        minutes = minutes_of_texts(pa.array(list(counts), pa.string()), patterns=(pattern,) if pattern else ())
        read = int(np.fromiter(counts.values(), np.int64)[minutes != NO_TIME].sum())
        if read >= SURE * whole:
            return pattern, read
    return None


# Any cell -------------------------------------------------------------------------------------------------------------


def kind_of_cell(text: str) -> str:
    """Return what a cell looks like by itself: "number", "date" or "text"."""
    if _matched(_DATE, text) or _matched(_TIME_OF_DAY, text):
        return "date"
    number = _matched(_CELL, text)
    if number is not None and _unit(number) is not None and _signs_of(number["core"])[0] is not None:
        return "number"
    return "date" if dates_in({text: 1}) is not None else "text"


def kind_of_cells(cells: Sequence[str]) -> str:
    """Return what the cells of a column are: "number", "date" or "text"; missing ones say nothing."""
    counts = Counter(cell for cell in cells if cell not in MISSING_WORDS)
    if not counts:
        return "text"
    if times_in(counts) is not None:
        return "date"
    if not _only_digits(counts) and numbers_in(counts) is not None:
        return "number"
    if dates_in(counts) is not None:
        return "date"
    return "text" if numbers_in(counts) is None else "number"
