"""Columns drawn by a seed: what is declared of each, and its cells, as a text and as a Parquet file holds them.

Nothing here knows which declarations pass. Grids are short and long, categories few and many and oddly spelt, cells
mostly as declared, and now and then missing, unreadable, beyond the bounds or all alike.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_One = TypeVar("_One")

LONGEST = 16_000_000
"""Places of all grids of a table together: about half of what one input may declare."""

GRIDS = (
    ("0", "110", "1"), ("-5", "5", "1"), ("0", "1", "0.01"), ("-1", "1", "0.001"), ("0", "10", "3"),
    ("0.1", "0.9", "0.1"), ("0", "1", "1"), ("1000000000", "1000001000", "1"), ("-1000000", "1000000", "100"),
    ("18", "90", "0.5"), ("-40.5", "60", "0.1"), ("1", "5", "1"), ("0", "1000000", "1000"), ("2", "2.5", "0.25"),
    ("1900", "2030", "1"), ("0", "1e15", "1e12"), ("0", "0.000001", "0.000000001"), ("-273.15", "100", "0.01"),
    ("0", "0.3", "0.1"), ("7", "8", "1"),
)  # fmt: skip
"""Lowest, highest and step of short grids; not all of them end on a step."""

LONG_GRIDS = (
    ("0", "10000000", "1"), ("0", "100000", "0.01"), ("-180", "180", "0.0001"), ("0", "1", "0.0000001"),
    ("-500000", "2000000", "1"), ("0", "999999", "1"),
)  # fmt: skip
"""Whole numbers, cents and degrees one by one."""

WORDS = (
    "low", "middle", "high", "north", "south", "east", "west", "red", "green", "blue", "single", "married", "widowed",
    "A", "B", "C", "a", "b", "small", "large", "none of these", "full time", "part time", "Mon", "Tue", "Wed",
)  # fmt: skip

ODD_WORDS = (
    "a, b", 'say "no"', "O'Neill", "Zürich", "naïve café", "日本", "😀", "NA", "null", "None", "nan", "true", "false",
    "yes", "no", "1", "2", "007", "1.0", "1e3", "-1", "+1", "=A1+B1", "@home", "-", "?", ".", "2020-01-31", "12:30",
    "other", "missing", "other*", "<5", ">=5", "semi;colon", "a|b", "x" * 200, "100 %", "#1", "e\u0301t\u00e9", "a\\b",
    "'quoted'", "and", "if", "then", "determines", "(in)", "İ", "is missing", "inf", "1,000", "0", "_", "Ω", "ß", "٣",
)  # fmt: skip
"""Words that look like something else, or that a file or a rule has to quote."""

YES_AND_NO = (
    ("yes", "no"), ("1", "0"), ("true", "false"), ("J", "N"), ("ja", "nein"), ("+", "-"), ("Yes, I do", "No"),
)  # fmt: skip

ODD_NAMES = (
    "income 2", "Größe", "a,b", 'the "old" one', "if", "and x", "x is missing", "日付", "=sum", "-", "other", "missing",
    "row", "index", "a.b", "x/y", "a + b", "age >= 18", "count", "label", "null", "y" * 120, "😀", "it's", "id", "%",
    "determines", "(n)", "A", "a", "tab;le", "rows", "unit", "x on y", "True",
)  # fmt: skip

PATTERNS = ("%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", "%d %b %Y", "%d/%m/%Y %H:%M", "%Y-%m-%d %H:%M:%S")
TIME_PATTERNS = ("%H:%M", "%H:%M:%S", "%H.%M", "%I:%M %p", "%Hh%M")


class Draw:
    """What is drawn, from one generator of random numbers."""

    def __init__(self, seed: int | tuple[int, ...]) -> None:
        self.random = np.random.default_rng(seed)

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def whole(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high, endpoint=True))

    def size(self, low: int, high: int) -> int:
        """Return a whole number whose digits are as likely as its place: 1 to 10 as often as 10 to 100."""
        return min(max(int(math.exp(self.random.uniform(math.log(low), math.log(high + 1)))), low), high)

    def amount(self, low: float, high: float) -> float:
        """Return a number above 0 of three digits, drawn as :meth:`size` draws whole ones."""
        drawn = math.exp(self.random.uniform(math.log(low), math.log(high)))
        return min(max(float(f"{drawn:.3g}"), low), high)

    def one(self, among: Sequence[_One]) -> _One:
        return among[self.whole(0, len(among) - 1)]

    def some(self, among: Sequence[_One], count: int) -> list[_One]:
        """Return so many of them, each once, in a drawn order."""
        order = self.random.permutation(len(among))[:count]
        return [among[int(place)] for place in order]

    def places(self, size: int, rows: int) -> NDArray[np.int64]:
        """Return a place for each row: evenly, towards an end, around the middle, of few values, or all alike."""
        shape = self.one(("even", "even", "low", "high", "bell", "heaped", "two", "constant"))
        part = self.random.random(rows)
        if shape in {"low", "high"}:
            part = part ** self.whole(2, 12)
            part = 1 - part if shape == "high" else part
        elif shape == "bell":
            part = np.clip(self.random.normal(0.5, 0.12, rows), 0, 1)
        elif shape == "heaped":
            heaps = self.random.random(self.size(1, 12))
            part = np.where(self.random.random(rows) < 0.7, heaps[self.random.integers(0, len(heaps), rows)], part)
        elif shape == "two":
            part = np.where(self.random.random(rows) < self.random.random(), 0.0, 1.0)
        elif shape == "constant":
            part = np.full(rows, self.one((0.0, 1.0, self.random.random())))
        return np.minimum((part * size).astype(np.int64), size - 1)


@dataclass(eq=False)
class Drawn:
    """One column of a table.

    Attributes
    ----------
    name : str
    declared : dict
        What a configuration says of it.
    texts : list of str, or None
        Its cells in a text; None where it stands in the cells of another column, or in no file.
    typed : list, or None
        Its cells in a Parquet file, where they are no texts.
    values : list of str
        Declared texts, as a rule may name them; of a grid its lowest, some and its highest.
    places : array
        The place of every row on the grid or list, for columns that are made from this one.
    levels : int
        Places of the grid; 0 where the values are listed.
    """

    name: str
    declared: dict[str, Any]
    texts: list[str] | None
    typed: list[Any] | None = None
    values: list[str] = field(default_factory=list)
    places: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    levels: int = 0

    @property
    def kind(self) -> str:
        return str(self.declared["type"])

    @property
    def is_modelled(self) -> bool:
        return self.kind not in {"identifier", "drop"}

    @property
    def may_be_empty(self) -> bool:
        return self.declared.get("missing") is True

    @property
    def size(self) -> int:
        """Number of declared values, about."""
        return self.levels or len(self.values)


@dataclass(frozen=True)
class Written:
    """How cells of a table are written where their columns say nothing else."""

    missing: tuple[str, ...] = ("",)
    decimal: str = ""
    thousands: str = ""
    unit: str = ""
    dates: tuple[str, ...] = ()


class Columns:
    """Draws columns of one table.

    Parameters
    ----------
    draw : Draw
    rows : int
    written : Written
    longest : int
        Places of all grids together.
    """

    def __init__(self, draw: Draw, rows: int, written: Written, *, longest: int = LONGEST) -> None:
        self.draw, self.rows, self.written, self.left = draw, rows, written, longest
        self.names: set[str] = set()

    def of(self, kind: str) -> list[Drawn]:
        """Return one column of a kind, or two that stand in the same cells."""
        return {
            "number": self.number, "category": self.category, "yes_no": self.yes_no, "date": self.date,
            "time": self.time, "moment": self.moment, "identifier": self.identifier, "drop": self.dropped,
        }[kind]()  # fmt: skip

    def name(self, stem: str) -> str:
        draw = self.draw
        name = draw.one(ODD_NAMES) if draw.chance(0.1) else f"{stem}{len(self.names)}"
        while name in self.names:
            name = f"{stem}{len(self.names)}{draw.one('abcdefgh')}"
        self.names.add(name)
        return name

    # Numbers

    def number(self, grid: tuple[str, str, str] | None = None, *, bare: bool = False) -> list[Drawn]:
        draw = self.draw
        low, high, step = map(Decimal, grid or self._grid())
        levels = int((high - low) / step) + 1
        self.left -= levels
        declared: dict[str, Any] = {"type": "number", "low": _plain(low), "high": _plain(high), "step": _plain(step)}
        special: list[Decimal] = []
        if not bare and draw.chance(0.2):
            special = draw.some([Decimal(0), low, low - step, high + 100 * step, Decimal(-1), Decimal(999)], 2)
            special = list(dict.fromkeys(special))[: draw.whole(1, 2)]
            declared["special"] = list(map(_plain, special))
        if draw.chance(0.15):
            declared["weight"] = draw.one(("low", "high"))
        places = draw.places(levels, self.rows)
        numbers = [low + int(place) * step for place in places]
        self._overlay(numbers, special, 0.3 if special else 0)
        odd = draw.random.random() if not bare and draw.chance(0.15) else 0
        self._overlay(numbers, [low - 7 * step, high + (high - low), high + step / 3, Decimal("1e30")], odd / 3)
        if draw.chance(0.1):
            numbers = [number + step * Decimal("0.4") for number in numbers]
        texts = [self._number_text(number) for number in numbers]
        typed: list[Any] = [float(number) for number in numbers]
        if all(number == int(number) and abs(number) < 2**62 for number in numbers):
            typed = [int(number) for number in numbers]
        middle = low + (levels // 2) * step
        values = [f"{value:f}" for value in dict.fromkeys((low, middle, low + (levels - 1) * step))]
        drawn = Drawn(self.name("n"), declared, texts, typed, values, places, levels)
        fallbacks = [low, middle, *special]
        return self._with_gaps(drawn, [_plain(value) for value in fallbacks], ("abc", "1.2.3", "--"), bare=bare)

    def _grid(self) -> tuple[str, str, str]:
        draw = self.draw
        if draw.chance(0.12):
            grid = draw.one(LONG_GRIDS)
        elif draw.chance(0.5):
            grid = draw.one(GRIDS)
        else:
            step = Decimal(draw.one(("1", "1", "2", "5", "0.1", "0.25", "0.01", "10", "0.001")))
            low = Decimal(draw.whole(-1000, 1000)) * step if draw.chance(0.4) else Decimal(0)
            high = low + draw.size(1, 5_000) * step + (step / 2 if draw.chance(0.1) else 0)
            grid = (str(low), str(high), str(step))
        low, high, step = map(Decimal, grid)
        return grid if (high - low) / step < self.left else ("0", "10", "1")

    def _number_text(self, number: Decimal) -> str:
        written, draw = self.written, self.draw
        text = f"{number.normalize():f}" if abs(number) < 10**20 else f"{number:e}"
        if written.thousands and abs(number) >= 1000 and draw.chance(0.8) and abs(number) < 10**20:
            whole, point, behind = text.partition(".")
            text = f"{int(whole):,}".replace(",", written.thousands) + (written.decimal or point) * bool(point) + behind
        else:
            text = text.replace(".", written.decimal or ".")
        return f"{text} {written.unit}" if written.unit and draw.chance(0.8) else text

    # Words

    def category(self, sizes: tuple[int, int] = (1, 300), *, bare: bool = False) -> list[Drawn]:
        draw = self.draw
        name = self.name("c")
        values = self._words(name, draw.size(*sizes), bare=bare)
        declared: dict[str, Any] = {"type": "category", "values": values}
        places = draw.places(len(values), self.rows)
        texts = [values[int(place)] for place in places]
        if not bare:
            self._more_of_words(declared, values, texts)
        drawn = Drawn(name, declared, texts, None, list(values), places)
        return self._with_gaps(drawn, values, (), bare=bare, other=True)

    def _words(self, name: str, count: int, *, bare: bool) -> list[str]:
        draw = self.draw
        if bare or draw.chance(0.7):
            words = draw.some(WORDS, count)
        else:
            words = draw.some((*ODD_WORDS, *WORDS), count)
            words = [*words[:-1], name] if draw.chance(0.05) else words
        width = draw.one((0, 0, 3, 5))
        stem = draw.one(("v", "", "code ", "E", "Ä"))
        for number in range(count - len(words)):
            words.append(f"{stem}{number + 1:0{width}d}")
        return list(dict.fromkeys(words))

    def _more_of_words(self, declared: dict[str, Any], values: list[str], texts: list[str]) -> None:
        draw = self.draw
        if draw.chance(0.15):
            declared["ordered"] = True
        if draw.chance(0.1):
            taken = draw.some(values, draw.whole(1, 3))
            declared["aliases"] = {f"also {word}": word for word in taken}
            self._overlay(texts, list(declared["aliases"]), 0.2)
        if draw.chance(0.1):
            declared["labels"] = {word: f"label of {word}" for word in draw.some(values, draw.whole(1, 4))}
        if draw.chance(0.3):
            self._overlay(texts, ["undeclared-Quibble", "secret Zyxwv 7", "unheard-of Ämtli"], 0.1)

    def yes_no(self) -> list[Drawn]:
        draw = self.draw
        yes, no = draw.one(YES_AND_NO)
        declared: dict[str, Any] = {"type": "yes_no"}
        if (yes, no) != ("yes", "no") or draw.chance(0.5):
            declared |= {"yes": yes, "no": no}
        if draw.chance(0.1):
            declared["labels"] = {yes: "has it", no: "has it not"}
        places = draw.places(2, self.rows)
        texts = [(no, yes)[int(place)] for place in places]
        typed = [bool(place) for place in places]
        drawn = Drawn(self.name("y"), declared, texts, typed, [no, yes], places)
        return self._with_gaps(drawn, [no, yes], ("perhaps-Wobbly",))

    # Dates and times

    def date(self) -> list[Drawn]:
        return [self._dates()[0]]

    def _dates(self, *, with_hours: bool = False) -> tuple[Drawn, list[datetime.date]]:
        draw = self.draw
        low = datetime.date(draw.whole(1900, 2020), draw.whole(1, 12), draw.whole(1, 28))
        days = draw.size(1, 40_000)
        step = draw.one(("day", "day", "month", "year"))
        high = min(low + datetime.timedelta(days=days), datetime.date(2150, 1, 1))
        self.left -= days
        declared: dict[str, Any] = {"type": "date", "low": low.isoformat(), "high": high.isoformat(), "step": step}
        places = draw.places((high - low).days + 1, self.rows)
        dates = [low + datetime.timedelta(days=int(place)) for place in places]
        if draw.chance(0.1):
            self._overlay(dates, [datetime.date(1700, 1, 1), datetime.date(2999, 12, 31)], 0.1)
        patterns = self.written.dates
        if not patterns and not with_hours and draw.chance(0.25):
            patterns = tuple(draw.some(PATTERNS, draw.whole(1, 2)))
            declared["pattern"] = patterns[0] if len(patterns) == 1 else list(patterns)
        forms = (*patterns, "%Y-%m-%d") if draw.chance(0.1) or not patterns else patterns
        texts = [date.strftime(draw.one(forms)) for date in dates]
        values = [low.isoformat(), dates[0].isoformat() if dates else low.isoformat(), high.isoformat()]
        values = list(dict.fromkeys(value for value in values if low.isoformat() <= value <= high.isoformat()))
        drawn = Drawn(self.name("d"), declared, texts, list(dates), values, places, (high - low).days + 1)
        fallbacks = [low.isoformat(), high.isoformat()]
        return self._with_gaps(drawn, fallbacks, ("31/31/2020", "soon"))[0], dates

    def time(self, *, of: str | None = None) -> list[Drawn]:
        draw = self.draw
        step = draw.one(("hour", "quarter", "minute"))
        declared: dict[str, Any] = {"type": "time", "step": step}
        first, last = 0, 24 * 60 - 1
        if draw.chance(0.4):
            first, last = draw.whole(0, 600), draw.whole(601, last)
            declared |= {"low": _clock(first), "high": _clock(last)}
        places = first + draw.places(last - first + 1, self.rows)
        clocks = [_clock(int(place)) for place in places]
        texts: list[str] | None = clocks
        if of is not None:
            declared["of"] = of
        elif draw.chance(0.2):
            pattern = draw.one(TIME_PATTERNS)
            declared["pattern"] = pattern
            texts = [datetime.time(*divmod(int(place), 60)).strftime(pattern) for place in places]
        values = list(dict.fromkeys((_clock(first), _clock(last))))
        typed = [datetime.time(*divmod(int(place), 60)) for place in places]
        drawn = Drawn(self.name("t"), declared, texts, typed, values, places, 24 * 60)
        return self._with_gaps(drawn, values, ("25:61", "noon"))

    def moment(self) -> list[Drawn]:
        """Return dates, and the times of day that stand behind them in the same cells."""
        dated, dates = self._dates(with_hours=True)
        (timed,) = self.time(of=dated.name)
        clocks = [datetime.time(*divmod(int(place), 60)) for place in timed.places]
        moments = [datetime.datetime.combine(date, clock) for date, clock in zip(dates, clocks, strict=True)]
        behind = next((pattern for pattern in self.written.dates if "%H" in pattern), None)
        texts = [moment.strftime(behind or "%Y-%m-%d %H:%M") for moment in moments]
        gaps = [place for place, text in enumerate(dated.texts or ()) if text in self.written.missing]
        for place in gaps:
            texts[place] = self.written.missing[0]
        dated.texts, timed.texts, timed.typed = texts, None, None
        dated.typed = [None if place in set(gaps) else moment for place, moment in enumerate(moments)]
        return [dated, timed]

    # What is not learned

    def identifier(self) -> list[Drawn]:
        texts = [f"person-{number:05d}x" for number in self.draw.random.permutation(self.rows)]
        return [Drawn(self.name("id"), {"type": "identifier"}, texts)]

    def dropped(self) -> list[Drawn]:
        notes = ("Mrs Grimshaw-Oddly, of Leeds", 'he said "perhaps-Not"', "", "=HYPERLINK(1)", "Ünlü notes; many")
        texts = [self.draw.one(notes) for _ in range(self.rows)]
        return [Drawn(self.name("note"), {"type": "drop"}, texts)]

    # Cells that are not as declared

    def _overlay(self, cells: list[Any], among: Sequence[Any], share: float) -> None:
        """Put some of these in place of a share of the cells."""
        if not share or not among:
            return
        for place in np.flatnonzero(self.draw.random.random(len(cells)) < share):
            cells[int(place)] = self.draw.one(among)

    def _with_gaps(
        self, drawn: Drawn, fallbacks: Sequence[Any], odd: Sequence[str], *, bare: bool = False, other: bool = False
    ) -> list[Drawn]:
        """Say what an empty cell becomes, and empty some cells; a few columns say nothing of it, and are refused."""
        draw, declared = self.draw, drawn.declared
        if other and not bare and draw.chance(0.3):
            declared["other"] = True
        if not bare and draw.chance(0.4):
            declared["missing"] = True
        elif "other" not in declared and not draw.chance(0.0005):
            declared["fallback"] = draw.one(fallbacks)
        share = draw.one((0.0, 0.0, 0.0, 0.02, 0.3, 0.9, 1.0)) if not bare and draw.chance(0.6) else 0.0
        empty = draw.random.random(self.rows) < share
        for place in np.flatnonzero(empty):
            if drawn.texts is not None:
                drawn.texts[int(place)] = draw.one(self.written.missing)
            if drawn.typed is not None:
                drawn.typed[int(place)] = None
        if drawn.texts is not None and not bare and odd and draw.chance(0.1):
            self._overlay(drawn.texts, odd, 0.05)
        return [drawn]


def _plain(number: Decimal) -> int | float:
    """Return a number as YAML holds it."""
    return int(number) if number == int(number) and abs(number) < 2**63 else float(number)


def _clock(minute: int) -> str:
    return "{:02d}:{:02d}".format(*divmod(minute, 60))
