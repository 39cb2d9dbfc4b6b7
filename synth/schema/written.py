"""How a table is written, declared once: its kind, its encoding, where its names are, and what its cells look like.

Nothing is guessed from rows. What a declared sign or notation makes of a cell is a function of that cell alone.
"""

from __future__ import annotations

import codecs
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from synth.errors import ConfigError
from synth.limits import COLUMNS
from synth.names import composed, shown
from synth.schema.documents import Flag, Read, Text, as_flag, as_mapping, as_text, as_whole, each, read_as
from synth.schema.source import Origin, origin_sentences

__all__ = [
    "ENCODINGS",
    "MOST_HEADER_ROWS",
    "PLAIN",
    "STATISTICAL_KINDS",
    "TYPED_KINDS",
    "FileKind",
    "Notation",
    "Pattern",
    "Patterns",
    "Sign",
    "TableFormat",
    "Units",
    "WholeOrBlank",
    "as_fields",
    "as_pattern",
    "format_to_mapping",
    "has_hours",
    "moment_written",
    "parse_format",
]

FileKind = Literal[
    "auto", "csv", "tsv", "parquet", "arrow", "xlsx", "ods", "xls", "xlsb", "sav", "dta", "sas7bdat", "xpt"
]  # fmt: skip

STATISTICAL_KINDS = frozenset({"sav", "dta", "sas7bdat", "xpt"})
"""Files of SPSS (.sav, .zsav), Stata and SAS, which themselves say names, types and labels of their columns."""

TYPED_KINDS = frozenset({"parquet", "arrow", "xlsx", "ods", "xls", "xlsb", *STATISTICAL_KINDS})
"""Kinds of file that themselves say where a cell begins and ends."""

ENCODINGS: Mapping[str, str] = {
    "utf-8": "UTF-8 (most files)",
    "cp1252": "Western Europe, Windows (cp1252)",
    "latin-1": "Western Europe (latin-1, iso-8859-1)",
    "iso8859-15": "Western Europe with the euro sign (latin-9, iso-8859-15)",
    "mac-roman": "Western Europe, Macintosh (mac-roman)",
    "cp850": "Western Europe, DOS (cp850)",
    "cp437": "United States, DOS (cp437)",
    "utf-16": "UTF-16 (what Excel calls Unicode text)",
    "cp1250": "Central Europe, Windows (cp1250)",
    "iso8859-2": "Central Europe (latin-2, iso-8859-2)",
    "cp852": "Central Europe, DOS (cp852)",
    "cp1251": "Cyrillic, Windows (cp1251)",
    "koi8-r": "Cyrillic, Russian (koi8-r)",
    "koi8-u": "Cyrillic, Ukrainian (koi8-u)",
    "iso8859-5": "Cyrillic (iso-8859-5)",
    "cp866": "Cyrillic, DOS (cp866)",
    "cp1253": "Greek, Windows (cp1253)",
    "iso8859-7": "Greek (iso-8859-7)",
    "cp1254": "Turkish, Windows (cp1254)",
    "iso8859-9": "Turkish (latin-5, iso-8859-9)",
    "cp1255": "Hebrew, Windows (cp1255)",
    "iso8859-8": "Hebrew (iso-8859-8)",
    "cp1256": "Arabic, Windows (cp1256)",
    "iso8859-6": "Arabic (iso-8859-6)",
    "cp1257": "Baltic, Windows (cp1257)",
    "iso8859-13": "Baltic (latin-7, iso-8859-13)",
    "iso8859-4": "Northern Europe (latin-4, iso-8859-4)",
    "iso8859-10": "Nordic (latin-6, iso-8859-10)",
    "iso8859-14": "Celtic (latin-8, iso-8859-14)",
    "iso8859-16": "South-eastern Europe (latin-10, iso-8859-16)",
    "iso8859-3": "Southern Europe (latin-3, iso-8859-3)",
    "cp1258": "Vietnamese, Windows (cp1258)",
    "cp874": "Thai (cp874)",
    "gb18030": "Chinese, simplified (gb18030, gbk)",
    "big5": "Chinese, traditional (big5)",
    "shift_jis": "Japanese (shift_jis)",
    "cp932": "Japanese, Windows (cp932)",
    "euc_jp": "Japanese (euc-jp)",
    "euc_kr": "Korean (euc-kr)",
    "cp949": "Korean, Windows (cp949)",
}
"""Encodings of text, by their names in Python, and what people call them.

In each of them a line feed, a carriage return and a quotation mark are single bytes that are never part of another
character, and no state carries over to the next line: so lines can be separated before they are decoded, whatever they
contain. UTF-16 is cut by its units. Encodings without these properties, such as ISO-2022 and UTF-7, are not read.
"""

_CODECS = {codecs.lookup(name).name for name in ENCODINGS} | {
    "utf-8-sig", "ascii", "utf-16-le", "utf-16-be", "gbk", "gb2312", "cp950", "big5hkscs", "cp858", "cp855", "cp857",
    "cp860", "cp861", "cp862", "cp863", "cp865", "cp869", "cp737", "cp775", "mac-cyrillic", "mac-greek", "mac-latin2",
    "mac-turkish", "mac-iceland", "tis-620", "iso8859-11", "hp-roman8", "kz1048", "ptcp154",
}  # fmt: skip

_SPACES = " \u00a0\u202f\u2009"
_APOSTROPHES = "'\u2019"
_SAME = {" ": _SPACES, "'": _APOSTROPHES}
"""Signs of thousands that are written in several ways."""

_SOME_MOMENT = datetime.datetime(2001, 12, 28, 13, 14, 15, tzinfo=datetime.UTC)


def as_pattern(said: object) -> str:
    """Read how dates are written, in the notation of ``strptime``."""
    pattern = as_text(said)
    try:
        datetime.datetime.strptime(_SOME_MOMENT.strftime(pattern), pattern)
    except Exception:  # a repeated directive raises an error of the regular expressions inside
        raise ValueError(f"must be like %d/%m/%Y, got {shown(pattern)}.") from None
    return pattern


def has_hours(pattern: str) -> bool:
    """Return whether a pattern of dates includes a time of day."""
    return any(directive in pattern for directive in ("%H", "%I", "%c", "%X"))


def moment_written(text: str, pattern: str) -> datetime.datetime | None:
    """Return the moment that a text writes by a pattern of ``strptime``; None where it fits none."""
    try:
        return datetime.datetime.strptime(text, composed(pattern))
    except (ValueError, OverflowError):
        return None


def _as_sign(said: object) -> str:
    sign = as_text(said)
    if len(sign) != 1 or sign.isalnum() or sign in '+-"\\':
        raise ValueError("must be one sign, such as a comma in quotes.")
    return next((plain for plain, alike in _SAME.items() if sign in alike), sign)


def _as_units(said: object) -> tuple[str, ...]:
    units = tuple(
        unit.strip() for unit in each(as_text, " of units, such as [kg, %]")([said] if isinstance(said, str) else said)
    )
    if any(not unit or any(map(str.isdigit, unit)) or unit in "+-.," for unit in units):
        raise ValueError("must be units without digits, such as [kg, %].")
    return units


def _as_patterns(said: object) -> str | tuple[str, ...]:
    if not isinstance(said, list | tuple):
        return as_pattern(said)
    patterns = each(as_pattern)(said)
    return patterns[0] if len(patterns) == 1 else patterns


def _as_renames(said: object) -> tuple[tuple[str, str], ...]:
    return tuple((as_text(name), as_text(other)) for name, other in as_mapping(said).items())


def _as_labels(said: object) -> bool | tuple[str, ...]:
    return as_flag(said) if isinstance(said, bool) or not isinstance(said, list | tuple) else each(as_text)(said)


def as_fields(said: object) -> tuple[tuple[str, int, int], ...]:
    """Read the fields of a text as triples (name, first position, last position)."""
    return tuple((as_text(name), *_positions(places)) for name, places in as_mapping(said).items())


def _positions(said: object) -> tuple[int, int]:
    """Read the first and the last position of a field: 3-7, [3, 7], or one position."""
    try:
        first, _, last = said.partition("-") if isinstance(said, str) else (said, "", "")
        ends = list(map(as_whole, said if isinstance(said, list | tuple) else (first, last or first)))
        start, end = ends
    except ValueError:
        start = end = 0
    if not 1 <= start <= end <= MOST_POSITIONS:
        raise ValueError("must be positions that count from 1, such as {id: 1-5, sex: 6}.")
    return start, end


def _missing_cells(value: object) -> tuple[str, ...]:
    """Read the texts that mean a missing cell; an empty one may be left blank, and a single one need not be a list."""
    if value is None or isinstance(value, Mapping) or not isinstance(value, Sequence):
        raise ValueError("must be a list of the texts that mean a missing cell.")
    return tuple("" if cell is None else as_text(cell) for cell in ([value] if isinstance(value, str) else value))


WholeOrBlank = Annotated[int, Read(lambda value: 0 if value is None else as_whole(value))]
Sign = Annotated[str, Read(_as_sign)]
Units = Annotated[tuple[str, ...], Read(_as_units)]
Pattern = Annotated[str, Read(as_pattern)]
"""How cells are written, in the notation of ``strptime``, with each directive at most once."""

Patterns = Annotated[str | tuple[str, ...], Read(_as_patterns)]
"""One pattern of cells, or several: a cell is read by the first that fits it."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How numbers are written: the decimal sign, the thousands separator, and units.

    ``units`` are before or after a number and are ignored: currencies, percent, "kg". What is left out is as programs
    write it: a decimal point, nothing between thousands, no unit.
    """

    decimal: str | None = None
    thousands: str | None = None
    units: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.decimal is not None or self.thousands is not None or bool(self.units)

    def over(self, table: Notation) -> Notation:
        """Return this notation of a column, completed by that of its table."""
        return Notation(self.decimal or table.decimal, self.thousands or table.thousands, self.units or table.units)

    @property
    def point(self) -> str:
        """The decimal sign."""
        return self.decimal or "."

    @property
    def between(self) -> str:
        """Every sign that may separate thousands."""
        return "" if self.thousands is None else _SAME.get(self.thousands, self.thousands)

    @property
    def problem(self) -> str | None:
        """Why it cannot be used, as the end of a sentence after a key; None where it can."""
        if self.point in self.between:
            return f"the decimal sign and the thousands separator are both '{self.point}'. Give two different signs."
        return None

    def in_full(self, number: str) -> str:
        """Return a number as this notation writes it, with signs between thousands and a unit.

        Parameters
        ----------
        number : str
            As a program writes it, without an exponent.
        """
        whole, point, decimals = number.partition(".")
        sign = "-" * whole.startswith("-")
        groups = f"{int(whole):,}".lstrip("-").replace(",", self.thousands or "")
        full = f"{sign}{groups}{self.point if point else ''}{decimals}"
        return f"{full} {self.units[0]}" if self.units else full

    def written(self, number: str) -> str:
        """Return a number as this notation writes it, without signs between thousands and without a unit.

        Parameters
        ----------
        number : str
            As a program writes it.
        """
        return number if "e" in number.lower() else number.replace(".", self.point)


PLAIN = Notation()
"""Numbers as programs write them."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How a table file is written.

    ``comment``: lines at the top of the file that begin with this text are skipped. ``skip_rows`` lines are skipped
    after them and before the header, or before the first row of a file without one. ``names`` are the column names of a
    file without a header, which must declare its separator too. ``newlines``: cells in quotation marks may contain line
    breaks, which also declares that every quotation mark is closed. ``sheet`` is the sheet of a workbook that holds the
    table. ``header_rows`` lines hold names: those of a column are joined, or those of line ``names_from`` are taken.
    ``decimal``, ``thousands`` and ``units`` say how numbers are written, and ``dates`` how dates are, in every column
    without a notation of its own. ``rename`` gives other names to columns of the header, as pairs (name, other name); a
    blank name becomes column_3 by its place. ``row_names`` is the name of a first column that the header line leaves
    out, as in a text that R wrote with the names of its rows. ``fields`` are the columns of a text whose cells have
    fixed positions, as triples (name, first, last) that count characters from 1; such a text has no header line.
    ``labels`` says which columns of an SPSS, Stata or SAS file are read as the labels of their values: all that have
    some, none, or those listed. ``origin`` says where the rows came from before they were this file, and is set when a
    database is read.
    """

    separator: Text = "auto"
    header: Flag = True
    names: Annotated[tuple[str, ...], Read(each(as_text, " of column names"))] | None = None
    encoding: Text = "utf-8"
    missing: Annotated[tuple[str, ...], Read(_missing_cells)] = ("",)
    strip: Flag = True
    skip_rows: WholeOrBlank = 0
    comment: Text | None = None
    kind: FileKind = "auto"
    newlines: Flag = False
    sheet: Text | None = None
    header_rows: Annotated[int, Read(as_whole)] = 1
    names_from: Annotated[int, Read(as_whole)] | None = None
    decimal: Sign | None = None
    thousands: Sign | None = None
    units: Units = ()
    dates: Annotated[tuple[str, ...], Read(each(as_pattern, " such as [%d/%m/%Y]"))] = ()
    rename: Annotated[tuple[tuple[str, str], ...], Read(_as_renames)] = ()
    row_names: Text | None = None
    fields: Annotated[tuple[tuple[str, int, int], ...], Read(as_fields)] = ()
    labels: Annotated[bool | tuple[str, ...], Read(_as_labels)] = True
    origin: Origin = "file"

    def __post_init__(self) -> None:
        if self.fields:
            self._check_fields()
        if self.separator != "auto" and len(self.separator) != 1:
            raise ConfigError("format: separator must be one character, or auto.")
        if not self.header and not self.names:
            raise ConfigError("format: a table without a header needs 'names', one for every column in order.")
        if self.header and self.names is not None:
            raise ConfigError("format: give 'names' only with 'header: false'.")
        if self.skip_rows < 0:
            raise ConfigError(f"format: skip_rows must not be negative, got {self.skip_rows}.")
        if not 1 <= self.header_rows <= MOST_HEADER_ROWS:
            raise ConfigError(f"format: header_rows must be 1 to {MOST_HEADER_ROWS}, got {self.header_rows}.")
        if self.names_from is not None and not 1 <= self.names_from <= self.header_rows:
            raise ConfigError(
                f"format: names_from must be one of the {self.header_rows} header_rows, got {self.names_from}."
            )
        if self.notation.problem is not None:
            raise ConfigError(f"format: {self.notation.problem}")
        if self.row_names is not None and (not self.header or self.kind in TYPED_KINDS):
            raise ConfigError(
                "format: 'row_names' is for a text whose header line leaves out the first column. Take it out."
            )
        if self.rename and (not self.header or self.kind in {"parquet", "arrow"}):
            raise ConfigError(
                "format: 'rename' is for the names of a header line. Give the columns their names in 'names'."
            )

    def _check_fields(self) -> None:
        """Take the names from the fields, because such a text has no header line."""
        names = tuple(name for name, _, _ in self.fields)
        if self.names not in (None, names):
            raise ConfigError("format: 'fields' has the names of the columns. Take 'names' out.")
        if self.separator != "auto" or self.kind != "auto" or self.newlines or self.row_names is not None:
            raise ConfigError(
                "format: 'fields' is for a text whose cells have fixed positions. Take out kind, separator, newlines "
                "and row_names."
            )
        object.__setattr__(self, "header", False)
        object.__setattr__(self, "names", names)

    @property
    def notation(self) -> Notation:
        """How numbers are written in columns without a notation of their own."""
        return Notation(self.decimal, self.thousands, self.units)

    @property
    def of_cells(self) -> dict[str, Any]:
        """The arguments for :func:`synth.schema.encoding.encode_cells` that say how cells are written."""
        return {"missing": self.missing, "strip": self.strip, "notation": self.notation, "dates": self.dates}

    @property
    def codec(self) -> str:
        """Python's name of the encoding; empty where it is unknown here."""
        try:
            name = codecs.lookup(self.encoding).name
        except (LookupError, ValueError):
            return ""
        return name if name in _CODECS else ""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate states as assumed of the file, because no reader could enforce it."""
        if not self.newlines or self.kind in TYPED_KINDS:
            return origin_sentences(self.origin)
        return (
            *origin_sentences(self.origin),
            "Every quotation mark of the table is closed: its cells may hold line breaks (declared as newlines: true), "
            "so an open quotation mark would draw the lines of other units into its own.",
        )

    def check(self) -> None:
        """Refuse a format that leaves open what could only be guessed from rows; nothing is read to check it.

        The object itself does not require this, so that older bundles still open.

        Raises
        ------
        ConfigError
            If the encoding is unknown, there are too many names, the separator is not a plain character, or a table
            without a header leaves its separator open or has comments, which would look like rows.
        """
        if not self.codec:
            raise ConfigError(
                f"format: the encoding '{shown(self.encoding)}' is not supported. Use for example utf-8 or latin-1."
            )
        if self.names is not None and len(self.names) > COLUMNS:
            raise ConfigError(f"format: names has {len(self.names):,} entries, and at most {COLUMNS:,} are allowed.")
        if self.separator != "auto" and (not self.separator.isascii() or self.separator in '"\r\n\0'):
            raise ConfigError("format: the separator must be one plain character, for example a comma.")
        if self.header or self.kind in TYPED_KINDS:
            return
        if self.separator == "auto" and self.kind != "tsv" and not self.fields:
            raise ConfigError(
                "format: a table without a header needs its separator; otherwise it could only be guessed from rows. "
                'Write for example separator: ",".'
            )
        if self.comment:
            raise ConfigError(
                "format: 'comment' needs a header; without one a row could be taken for a comment. Use 'skip_rows' to "
                "say how many lines come before the first row."
            )


MOST_HEADER_ROWS = 10
"""Lines that may hold names."""

MOST_POSITIONS = 2**20
"""Characters of a line of fields."""


def parse_format(section: object, key: str = "format") -> TableFormat:
    """Read what :func:`format_to_mapping` wrote, and what a configuration has under ``key``."""
    return read_as(TableFormat, section, within=f"{key}: ")


_LEFT_OUT = {
    "origin",
    "sheet",
    "header_rows",
    "names_from",
    "decimal",
    "thousands",
    "units",
    "dates",
    "rename",
    "row_names",
    "fields",
    "labels",
}
"""Keys that are written only where they say something, so that older bundles keep their bytes."""


def format_to_mapping(table_format: TableFormat) -> dict[str, Any]:
    """Write how a table's file is written, as the ``format`` section of a configuration."""
    body = {one.name: (getattr(table_format, one.name), one.default) for one in fields(TableFormat)}
    said = {
        key: list(value) if isinstance(value, tuple) else value
        for key, (value, default) in body.items()
        if value is not None and (key not in _LEFT_OUT or value != default)
    }
    if table_format.fields:
        # The names and the missing header follow.
        said = {key: value for key, value in said.items() if key not in {"header", "names"}}
        said["fields"] = {name: f"{first}-{last}" for name, first, last in table_format.fields}
    return said | ({"rename": dict(table_format.rename)} if table_format.rename else {})
