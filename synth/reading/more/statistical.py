"""Files of SPSS (.sav, .zsav), Stata (.dta) and SAS (.sas7bdat, .xpt). The contract: cells follow from their own row.

pyreadstat reads them, some rows at a time. Everything that is the same for all rows is what the file declares of its
columns: names, types, formats, labels of values, codes that mean a missing cell. By these alone a column is read:

- a column whose format writes dates or times as days, moments or times of day;
- a column with labels of values as the label of each value that has one, otherwise as its number;
- any other as numbers or texts.

What a cell becomes then follows from that cell. Missing values of all three programs, and codes that the file declares
as missing, become missing cells. pyreadstat would end the reading at the first text that is not in the encoding of the
file, or at a date that no calendar has. So here it converts neither: texts are read byte for byte (every byte is a
character of ISO 8859-1) and decoded here, numbers become dates here, and what cannot be read is one malformed cell.
"""

from __future__ import annotations

import datetime
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import RawIOBase
from itertools import count
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from synth.errors import InputError, TableError
from synth.names import shown
from synth.schema import TableFormat
from synth.schema.documents import as_sentence
from synth.schema.encoding import EPOCH, texts_of
from synth.system.packages import missing_package
from synth.system.settings import ReaderLimits, too_large

__all__ = ["Described", "StatisticalFile", "moments", "moments_of"]

CHUNK_BYTES = 2**28
"""Memory of the rows read at a time, which changes no result; with less of it, rows are passed over more often."""

READ_BYTES = 2**20
"""Bytes of the file that are asked for at a time."""

MOST_LABELS = 10_000
"""Labels of a column that are passed on as a description; there cannot be more categories."""

COLUMNS_AT_ONCE = 1_000
"""Columns of a file that does not say how many rows it has; room for many is made in each."""

Moment = Literal["day", "week", "month", "quarter", "half", "moment", "leap", "time", ""]
"""What the number of a column with a format of dates counts; empty in all other columns."""

_BYTES = "ISO-8859-1"
_XPT_RECORD = 80

_NAMES = {"sav": "SPSS", "dta": "Stata", "sas7bdat": "SAS", "xpt": "SAS transport"}
_READERS = {"sav": "read_sav", "dta": "read_dta", "sas7bdat": "read_sas7bdat", "xpt": "read_xport"}


@dataclass(frozen=True, slots=True)
class Described:
    """What the file itself says about a column, which is as public as its name.

    Attributes
    ----------
    label : str
        Its description in words; empty without one.
    kind : {"number", "date", "time", "text"}
    values : tuple of pairs (cell, label)
        What labelled values are read as, and their labels, in the order of the values; without those that mean a
        missing cell.
    """

    label: str
    kind: Literal["number", "date", "time", "text"]
    values: tuple[tuple[str, str], ...] = ()

    @property
    def description(self) -> str:
        """The label as a column is described, on one line; empty where it cannot be declared."""
        try:
            return as_sentence(" ".join(self.label.split()))
        except ValueError:
            return ""

    def to_list(self) -> list[Any]:
        """Write it as a list, as a message holds it."""
        return [self.label, self.kind, list(map(list, self.values))]

    @classmethod
    def of_list(cls, said: Sequence[Any]) -> Described:
        """Read what :meth:`to_list` wrote."""
        label, kind, values = said
        return cls(str(label), kind, tuple((str(cell), str(text)) for cell, text in values))


@dataclass(frozen=True, slots=True)
class _Variable:
    """A column as the file declares it; ``name`` is as pyreadstat knows it."""

    name: str
    stored: str
    counts: Moment
    labels: Mapping[Any, str]
    width: int


class StatisticalFile:
    """The table in a file of SPSS, Stata or SAS.

    Parameters
    ----------
    file : binary file
        With random access.
    kind : str
        One of :data:`synth.schema.STATISTICAL_KINDS`.
    form : TableFormat
        Its encoding, where the file does not say the right one, and which columns are read as labels.
    limits : ReaderLimits
        What is refused.

    Attributes
    ----------
    names : tuple of str
    types : tuple of pyarrow.DataType
        By what the file declares.
    described : tuple of Described

    Raises
    ------
    TableError
        If it cannot be read, in one sentence that quotes no cell.
    MissingPackageError
        If pyreadstat is not installed.
    """

    def __init__(self, file: RawIOBase | io.BytesIO, kind: str, form: TableFormat, limits: ReaderLimits) -> None:
        self._kind, self._limits = kind, limits
        self._file = file if isinstance(file, io.BytesIO) else io.BufferedReader(_Ranges(file), READ_BYTES)
        if kind == "xpt" and self._file.seek(0, io.SEEK_END) % _XPT_RECORD:  # which says nowhere how long it is
            raise self._damaged()
        self._codec = self._encoding(form)
        # Codes that mean a missing cell are listed only on request, and of other programs there are none to list.
        codes = {"user_missing": True} if kind == "sav" else {}
        said = self._read(encoding=_BYTES, metadataonly=True, **codes)[1]
        self._rows: int | None = said.number_rows
        if not said.column_names:
            raise self._damaged()
        if len(said.column_names) > limits.columns:
            raise limits.too_many_columns(len(said.column_names))
        if self._rows is not None and self._rows > limits.rows:
            raise limits.too_many_rows()
        self.names = tuple(self._public(name) for name in said.column_names)
        wanted = form.labels if isinstance(form.labels, tuple) else self.names if form.labels else ()
        unknown = next((name for name in wanted if name not in self.names), None)
        if unknown is not None:
            raise TableError(f"'labels' lists '{shown(unknown)}', but no column of the table is called that.")
        by_label = set(wanted)
        self._variables, self.described = [], []
        for place, (raw, name) in enumerate(zip(said.column_names, self.names, strict=True)):
            labels = self._labels(said.variable_value_labels.get(raw) or {})
            stored = said.readstat_variable_types[raw]
            counts = moments_of(kind, said.original_variable_types.get(raw) or "") if stored != "string" else ""
            # In a column of numbers a letter stands for a missing value.
            labels = {
                value: label
                for value, label in labels.items()
                if not counts and isinstance(value, str) == (stored == "string")
            }
            read = labels if name in by_label else {}
            self._variables.append(
                _Variable(raw, stored, counts, read, max(0, int(said.variable_storage_width.get(raw) or 0)))
            )
            self.described.append(
                Described(
                    self._public(said.column_labels[place] or "").strip(),
                    "text"
                    if stored == "string"
                    else "number"
                    if not counts
                    else "time"
                    if counts == "time"
                    else "date",
                    _values(labels, said.missing_ranges.get(raw) or (), as_labels=name in by_label),
                )
            )
        self.types = tuple(map(_type_of, self._variables))
        self._row_bytes = sum(one.width for one in self._variables)
        self._check_size(self._rows or 0)

    def batches(self, places: Sequence[int]) -> Iterator[tuple[list[pa.Array], list[int]]]:
        """Yield the columns at ``places``, and how many cells of each are malformed; those are null."""
        wanted = [self._variables[place] for place in places]
        each = sum(
            32 if one.stored != "string" else 64 + 2 * one.width for one in {one.name: one for one in wanted}.values()
        )
        at_once = max(1, min(CHUNK_BYTES // max(1, each), self._rows or CHUNK_BYTES))
        for first in count(0, at_once):
            if self._rows is not None and first >= self._rows:
                return
            here, columns, malformed = self._chunk(wanted, first, at_once)
            self._check_size(first + here)
            if here:
                yield columns, malformed
            if here < at_once:
                return

    def _chunk(self, wanted: Sequence[_Variable], first: int, most: int) -> tuple[int, list[pa.Array], list[int]]:
        """Return how many rows are read, their columns, and how many cells of each are malformed."""
        cells = self._cells(dict.fromkeys(one.name for one in wanted), first, most)
        here = len(next(iter(cells.values())))
        read: dict[str, tuple[pa.Array, int]] = {}
        for one in {one.name: one for one in wanted}.values():
            read[one.name] = self._column(one, cells.pop(one.name))
        return here, [read[one.name][0] for one in wanted], [read[one.name][1] for one in wanted]

    def _check_size(self, rows: int) -> None:
        if rows * self._row_bytes > self._limits.text_bytes:
            raise too_large(f"The table inside the {_NAMES[self._kind]} file", self._limits.text_bytes)

    def _cells(self, names: Mapping[str, None], first: int, most: int) -> dict[str, list[Any]]:
        """Return the cells of some rows by the names of columns; all columns have equally many."""
        listed = list(names)
        at_once = len(listed) if self._rows is not None else COLUMNS_AT_ONCE
        found: dict[str, list[Any]] = {}
        for place in range(0, len(listed), at_once):
            found |= self._read(
                encoding=_BYTES, usecols=listed[place : place + at_once], row_offset=first, row_limit=most
            )[0]
        if set(found) != set(listed) or len({len(cells) for cells in found.values()}) != 1:
            raise self._damaged()
        return found

    def _column(self, variable: _Variable, cells: list[Any]) -> tuple[pa.Array, int]:
        """Return the cells of a column as its type says, and how many of them cannot be read."""
        if variable.stored == "string":
            return self._texts(variable, cells)
        if variable.counts:
            return moments(np.array(cells, np.float64), variable.counts, self._kind)
        numbers = _numbers(variable.stored, cells)
        if not variable.labels:
            return numbers, 0
        distinct = numbers.dictionary_encode()
        plain = texts_of(distinct.dictionary).to_pylist()
        read = [
            variable.labels.get(one, text) for one, text in zip(distinct.dictionary.to_pylist(), plain, strict=True)
        ]
        return _chosen(read, distinct.indices), 0

    def _texts(self, variable: _Variable, cells: list[Any]) -> tuple[pa.Array, int]:
        distinct = pa.array(cells, pa.string()).dictionary_encode()
        read = [self._decoded(text) for text in distinct.dictionary.to_pylist()]
        found = _chosen([None if one is None else variable.labels.get(one, one) for one in read], distinct.indices)
        return found, found.null_count - distinct.null_count

    # What the file says about itself

    def _encoding(self, form: TableFormat) -> str:
        """Return the declared encoding, otherwise that of the file: what it says, or what its version implies."""
        if form.codec != TableFormat().codec:
            return form.codec
        if self._kind == "dta":
            # Stata wrote texts in the encoding of Windows until version 13, and in UTF-8 since.
            start = self._start(64)
            release = re.search(rb"<release>([0-9]{3})<", start)
            return "utf-8" if release is not None and int(release[1]) >= 118 else "cp1252"
        said = None if self._kind == "xpt" else self._said_encoding()
        if not said:
            return form.codec
        codec = TableFormat(encoding=said).codec
        if not codec:
            raise TableError(
                f"The file is written in '{shown(said)}', which is not supported. Save it in UTF-8, or name its "
                "encoding in the format, for example encoding=cp1252.",
                key="encoding",
            )
        return codec

    def _said_encoding(self) -> str | None:
        try:
            encoding: str | None = self._read(metadataonly=True)[1].file_encoding
        except TableError:
            self._read(encoding=_BYTES, metadataonly=True)
            # It can be read, but not in the encoding that it says.
            raise self._not_in("that it says") from None
        return encoding

    def _not_in(self, encoding: str) -> TableError:
        return TableError(
            f"A name or a label in the file is not in the encoding {encoding}. Name the right one in the format, for "
            "example encoding=cp1252.",
            key="encoding",
        )

    def _start(self, size: int) -> bytes:
        self._file.seek(0)
        return self._file.read(size)

    def _public(self, raw: str) -> str:
        """Return a name or a label as the encoding reads it."""
        text = self._decoded(raw)
        if text is None:
            raise self._not_in(self._codec.upper())
        return text

    def _decoded(self, raw: str | None) -> str | None:
        if raw is None or raw.isascii():
            return raw
        try:
            return raw.encode("latin-1").decode(self._codec)
        except UnicodeError:
            return None

    def _labels(self, raw: Mapping[Any, str]) -> dict[Any, str]:
        """Return the labels of values, without blank ones."""
        found = {
            self._public(value).rstrip() if isinstance(value, str) else value: self._public(label).strip()
            for value, label in raw.items()
        }
        return {value: label for value, label in found.items() if label}

    # pyreadstat

    def _read(self, **asked: Any) -> tuple[dict[str, list[Any]], Any]:
        """Ask pyreadstat, and say what is wrong without its messages, which may quote a cell."""
        try:
            import pyreadstat  # an extra
        except ModuleNotFoundError as error:
            raise missing_package(error) or error from None
        self._file.seek(0)
        try:
            with warnings.catch_warnings(action="ignore"):
                read = getattr(pyreadstat, _READERS[self._kind])
                return cast(
                    tuple[dict[str, list[Any]], Any],
                    read(self._file, output_format="dict", disable_datetime_conversion=True, **asked),
                )
        except (InputError, MemoryError):
            raise
        except UnicodeError:
            raise self._damaged("in another encoding than it says, ") from None
        except Exception as error:
            if "memory" in str(error).lower():  # of the library: "Unable to allocate memory"
                raise MemoryError from None
            raise self._damaged() from None

    def _damaged(self, more: str = "") -> TableError:
        return TableError(
            f"The {_NAMES[self._kind]} file is damaged, cut short, {more}or of a version that is not supported. Save "
            "it again, or as CSV."
        )


class _Ranges(RawIOBase):
    """A file that is asked for by ranges, as a buffer needs it."""

    def __init__(self, file: RawIOBase) -> None:
        super().__init__()
        self._of = file
        self.seek, self.tell = file.seek, file.tell  # type: ignore[method-assign]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._of.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)


def _chosen(of_distinct: Sequence[str | None], places: pa.Array) -> pa.Array:
    return pa.array(of_distinct, pa.string()).take(places)


_ARROW = {"int8": pa.int64(), "int16": pa.int64(), "int32": pa.int64(), "float": pa.float32(), "double": pa.float64()}


def _type_of(variable: _Variable) -> pa.DataType:
    if variable.stored == "string" or variable.labels or variable.counts == "time":
        return pa.string()
    if variable.counts:
        return pa.timestamp("ms") if variable.counts in {"moment", "leap"} else pa.date32()
    return _ARROW[variable.stored]


def _numbers(stored: str, cells: list[Any]) -> pa.Array:
    kind = _ARROW[stored]
    if pa.types.is_integer(kind):
        return pa.array(cells, kind)
    # A missing number is null; so is one that is not a number, which no program writes.
    return pa.array(np.array(cells, np.float64), from_pandas=True).cast(kind, safe=False)


def _values(labels: Mapping[Any, str], missing: Sequence[Any], *, as_labels: bool) -> tuple[tuple[str, str], ...]:
    """Return how labelled values are read, with their labels, without values that mean a missing cell."""
    ranges = [(one["lo"], one["hi"]) if isinstance(one, dict) else (one, one) for one in missing]
    kept = {
        value: label
        for value, label in labels.items()
        if not any(isinstance(low, type(value)) and low <= value <= high for low, high in ranges)
    }
    texts = [value for value in kept if isinstance(value, str)]
    plain = texts if texts else texts_of(pa.array(list(kept))).to_pylist()
    read = [(label if as_labels else text, label) for text, label in zip(plain, kept.values(), strict=True)]
    return tuple(dict(read[: MOST_LABELS + 1]).items())


# Dates and times ------------------------------------------------------------------------------------------------------

MOST_SIGNS = 64
"""Of a format that is looked at; longer ones no program writes."""

_NAME = re.compile(r"([A-Z_0-9]*?[A-Z_])([0-9]+)?(\.[0-9]*)?")
_STATA = re.compile(r"%-?(?:t([dcCwmqh])|(d))")
_HOURS_ALONE = re.compile(r"[HhMSsAap:._ ]+")

_SPSS_MOMENTS: Mapping[str, Moment] = {
    **dict.fromkeys(("DATE", "ADATE", "EDATE", "JDATE", "SDATE", "QYR", "MOYR", "WKYR"), "day"),
    **dict.fromkeys(("DATETIME", "YMDHMS"), "moment"),
    "TIME": "time",
}
_STATA_MOMENTS: Mapping[str, Moment] = {
    "d": "day", "c": "moment", "C": "leap", "w": "week", "m": "month", "q": "quarter", "h": "half",
}  # fmt: skip
_SAS_DAYS = re.compile(
    r"DATE|DAY|(DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|(MMYY|YYMM)[CDNPS]?|YYQR?[CDNPS]?|YYMON|MONYY|JULIAN|JULDAY|YEAR|QTRR?|"
    r"MONNAME|MONTH|WEEKDATX?|WEEKDATE|WEEKDAY|DOWNAME|WORDDATX?|WORDDATE|(E8601|B8601|IS8601)DA|NLDATE[A-Z]*|"
    r"EURDF(DD|DE|DN|DT|DWN|MN|MY|WDX|WKX)|MINGUO|NENGO|HDATE|HEBDATE|PDJULG|PDJULI|WEEK[UVW]"
)
_SAS_MOMENTS = re.compile(
    r"DATETIME|DATEAMPM|MDYAMPM|DTDATE|DTMONYY|DTWKDATX|DTYEAR|DTYYQC|(E8601|B8601|IS8601)D[TNXZ]|NLDATM[A-Z]*|"
    r"EURDFDT|TWMDY"
)
_SAS_TIMES = re.compile(r"TIME|HHMM|TOD|TIMEAMPM|(E8601|B8601|IS8601)T[MXZ]|NLTIM(E|AP|MAP)[A-Z]*")


def moments_of(kind: str, written: str) -> Moment:
    """Return what the numbers of a column count, from the format that the file declares for it.

    Examples
    --------
    >>> moments_of("sav", "ADATE10"), moments_of("dta", "%tm"), moments_of("sas7bdat", "DATETIME20")
    ('day', 'month', 'moment')
    """
    if len(written) > MOST_SIGNS:
        return ""
    if kind == "dta":
        found = _STATA.match(written)
        if found is None:
            return ""
        # A format of hours alone writes a time of day, which Stata stores as one on 1 January 1960.
        letter, display = found[1] or found[2], written[found.end(1 if found[1] else 2) :]
        return "time" if letter in "cC" and _HOURS_ALONE.fullmatch(display) else _STATA_MOMENTS[letter]
    name = _NAME.fullmatch(written.upper())
    if name is None:
        return ""
    if kind == "sav":
        return _SPSS_MOMENTS.get(name[1], "")
    if _SAS_MOMENTS.fullmatch(name[1]):
        return "moment"
    return "day" if _SAS_DAYS.fullmatch(name[1]) else "time" if _SAS_TIMES.fullmatch(name[1]) else ""


_DAY_ZERO = {"sav": datetime.date(1582, 10, 14)}
_SINCE_1960 = datetime.date(1960, 1, 1)
_SECOND = {"dta": 1_000}
"""Units of a second in numbers that count moments: SPSS and SAS count seconds, Stata thousandths."""

_FIRST, _END = datetime.date.min.toordinal() - EPOCH, datetime.date.max.toordinal() - EPOCH + 1
_DAY = 86_400_000

_LEAP_SECONDS = tuple(
    (datetime.date.fromisoformat(day) - _SINCE_1960).days * _DAY + 1_000 * before
    for before, day in enumerate((
        "1972-07-01", "1973-01-01", "1974-01-01", "1975-01-01", "1976-01-01", "1977-01-01", "1978-01-01", "1979-01-01",
        "1980-01-01", "1981-07-01", "1982-07-01", "1983-07-01", "1985-07-01", "1988-01-01", "1990-01-01", "1991-01-01",
        "1992-07-01", "1993-07-01", "1994-07-01", "1996-01-01", "1997-07-01", "1999-01-01", "2006-01-01", "2009-01-01",
        "2012-07-01", "2015-07-01", "2017-01-01",
    ))
)  # fmt: skip
"""Thousandths of a second since 1960 at which a leap second begins, as Stata's %tC counts them."""


def moments(numbers: npt.NDArray[np.float64], counts: Moment, kind: str) -> tuple[pa.Array, int]:
    """Return dates, moments or times of day from what a program stores, and how many cells are none.

    Parameters
    ----------
    numbers : array of shape (rows,)
        As stored; NaN where the cell is missing.
    counts : Moment
        What they count.
    kind : str
        The kind of the file.

    Returns
    -------
    cells : pyarrow array
        Days (date32), moments (timestamp) or times of day (ISO texts); the first day of a week, month or quarter. A
        number outside the years 1 to 9999 is null, and so is a time of day beyond one day.
    malformed : int
        How many cells that are not missing are null.
    """
    absent = np.isnan(numbers)
    zero = _DAY_ZERO.get(kind, _SINCE_1960).toordinal() - EPOCH
    thousandths = 1_000 // _SECOND.get(kind, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        if counts in {"moment", "leap"}:
            found = np.rint(numbers * thousandths)
            if counts == "leap":
                found -= 1_000.0 * np.searchsorted(_LEAP_SECONDS, found, side="right")
            found += float(zero) * _DAY
            inside = (found >= float(_FIRST) * _DAY) & (found < float(_END) * _DAY)
            whole = _whole(found, inside)
            return pa.array(whole, pa.timestamp("ms"), mask=~inside), int((~inside & ~absent).sum())
        if counts == "time":
            found = np.floor(numbers * thousandths / 1_000)
            inside = (found >= 0) & (found < 86_400)
            cells = pa.array(_whole(found, inside).astype(np.int32), pa.time32("s"), mask=~inside).cast(pa.string())
            return cells, int((~inside & ~absent).sum())
        found = np.floor(numbers / 86_400) if kind == "sav" else np.floor(numbers)
    days = found + zero if counts == "day" else _first_days(found, counts)
    inside = (days >= _FIRST) & (days < _END)
    return pa.array(_whole(days, inside).astype(np.int32), pa.date32(), mask=~inside), int((~inside & ~absent).sum())


def _whole(numbers: npt.NDArray[np.float64], inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    return np.where(inside, numbers, 0).astype(np.int64)


_PARTS: Mapping[str, int] = {"week": 52, "month": 12, "quarter": 4, "half": 2}


def _first_days(numbers: npt.NDArray[np.float64], counts: Moment) -> npt.NDArray[np.float64]:
    """Return the first day of weeks, months, quarters or half-years since 1960, as Stata counts them; NaN for none.

    A year has 52 of Stata's weeks, of which the first begins on 1 January.
    """
    each = _PARTS[counts]
    found = np.full(len(numbers), np.nan)
    known = np.flatnonzero(np.abs(numbers) < each * 10_000)
    for place in np.unique(numbers[known]).tolist():
        year, part = divmod(int(place), each)
        if 1 <= 1960 + year <= 9999:
            if counts == "week":
                day = datetime.date(1960 + year, 1, 1).toordinal() + 7 * part
            else:
                day = datetime.date(1960 + year, 1 + part * 12 // each, 1).toordinal()
            found[numbers == place] = day - EPOCH
    return found
