"""What a type of column is: how it is declared, which codes it has, how a cell becomes one and how one is printed.

A column that a model sees has ``size`` codes: first ``levels`` ordered values on a declared grid (numbers, dates), then
unordered ones (categories, special values, "other", "missing"). Everything here is a function of the declared column
and of codes; :mod:`synth.schema.encoding` knows what the cells of a file are.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.names import name_problem
from synth.schema.documents import Flag, Sentence
from synth.schema.written import PLAIN, Notation

__all__ = [
    "OUTSIDE_DOMAIN",
    "CellCounts",
    "CellType",
    "Cells",
    "Coded",
    "Codes",
    "Column",
    "Fate",
    "FormField",
    "LinkedCounts",
    "ModelledColumn",
    "PeopleCounts",
    "ReadingCounts",
    "Scale",
    "TypedCell",
    "Weight",
    "code_dtype",
    "guarded",
    "plain_value",
]

Codes = dict[str, npt.NDArray[np.unsignedinteger[Any]]]
"""A table in memory: one 1-D array of codes per modelled column, in the smallest unsigned type that fits."""

Coded = tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]
"""The code of every cell and its :class:`Fate`."""

CellType = Literal["int64", "double", "date32", "bool", "string"]
"""Type of the cells in a Parquet file, in the words of Arrow."""

TypedCell = str | datetime.date
"""A cell of a table in memory that is not text: a date or time, or the text of a number; a truth value is 0 or 1."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

OUTSIDE_DOMAIN = -1
"""The code of a printed cell that no code of the column prints as."""

_FEW_CODES = 2**16
"""Columns with at most this many codes are checked code by code, however few rows there are."""


def guarded(text: str) -> str:
    """Return ``text``, with a leading apostrophe where a spreadsheet would take it for a formula.

    Names of columns and texts of cells are written like this in every synthetic table, CSV and Parquet alike, so no two
    of them may become equal.
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def code_dtype(size: int) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds the codes 0, ..., ``size`` - 1."""
    return np.dtype(np.min_scalar_type(max(size - 1, 0)))


class Weight(StrEnum):
    """How much a column's accuracy matters to the owner; public."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Fate(IntEnum):
    """What encoding did to a cell."""

    KEPT = 0
    MISSING = 1
    MALFORMED = 2
    OUTSIDE = 3


@dataclass(frozen=True, slots=True)
class CellCounts:
    """How many cells of a column did not fit their declaration; exact, so for the owner only.

    ``missing`` cells were empty; ``malformed`` ones could not be read as the declared type; ``outside`` ones were
    beyond a bound and moved to it, or were undeclared categories.
    """

    missing: int = 0
    malformed: int = 0
    outside: int = 0

    def __add__(self, other: CellCounts) -> CellCounts:
        return CellCounts(self.missing + other.missing, self.malformed + other.malformed, self.outside + other.outside)


@dataclass(frozen=True, slots=True)
class PeopleCounts:
    """What became of people whose rows are kept together; exact, so for the owner only.

    Of ``people`` with ``rows`` rows in all, ``left_out`` rows are more than declared; they are of ``crowded`` people.
    ``differing`` says by column that is declared the same in all rows how many people have several values in it, and
    ``unordered`` how many rows have no value in the column that gives the order. ``broken`` says by rule how many pairs
    of a row and the next break it, and how many pairs there are; or people, for a rule about their number of rows.
    """

    people: int
    rows: int
    crowded: int
    left_out: int
    differing: Mapping[str, int]
    unordered: int
    broken: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LinkedCounts:
    """How the rows of two tables fit together; exact, so for the owner only.

    Of the joined rows, ``first_alone`` are rows of the first table without one of the second, and ``second_alone`` the
    other way round: cells of the other table are empty there. ``unknown`` rows of the second have a key that the first
    does not have, and ``repeated`` units are in the first more than once. ``keyless`` says how many rows of each table
    have no key.
    """

    first_alone: int
    second_alone: int
    unknown: int
    repeated: int
    keyless: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReadingCounts:
    """What became of the lines and cells of a table while it was read; exact, so for the owner only.

    ``blank_lines`` are no rows, except in a table of one column. ``unreadable`` counts the rows that could not be split
    into cells, by the reason (:data:`synth.reading.text.REASONS`). ``without_id`` rows have no id although there is an
    id column, and are in no part. ``cells`` says for each column how many cells did not fit their declaration, and
    ``together`` what became of people, where they were looked at and their rows are kept together. Where two tables
    were joined, ``linked`` says how they fit, and ``cells`` are about the cells that one of them has.
    """

    rows: int
    blank_lines: int
    unreadable: Mapping[str, int]
    without_id: int
    cells: Mapping[str, CellCounts]
    together: PeopleCounts | None = None
    linked: LinkedCounts | None = None

    @property
    def unreadable_lines(self) -> int:
        """How many rows could not be split into cells."""
        return sum(self.unreadable.values())


class Cells(Protocol):
    """Cells of a file, read by a column as numbers, days, minutes or words; each answer has one entry per cell."""

    def numbers(self, notation: Notation = PLAIN) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return the number of every cell in a notation, NaN where it is none, and which cells are missing."""

    def wholes(
        self, notation: Notation = PLAIN
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the whole number of every cell, exact up to 2^63, which cells are no numbers, and which missing."""

    def days(
        self, *, patterns: tuple[str, ...], shortest: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the day of every cell since 1970-01-01, which cells are not dates, and which are missing."""

    def minutes(
        self, *, patterns: tuple[str, ...]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the minute of the day of every cell, which cells are not times, and which are missing."""

    def labels(self, column: ModelledColumn) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the code of the column's word that every cell spells, -1 for none, and which are missing."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The values of a grid as numbers: ``low + step * level``, declared up to ``high``, in ``unit``."""

    low: float
    high: float
    step: float = 1.0
    decimals: int = 0
    unit: str = ""


@dataclass(frozen=True, slots=True)
class FormField:
    """One cell of the table in which an owner describes columns, and the keys of a configuration that it fills.

    ``shape`` is how its text is read; a list of texts fills several keys one by one. ``default`` is what an empty cell
    means. ``needed`` continues the sentence after the column's name where a required cell is empty, or where a list
    does not have one text for each key.
    """

    cell: str
    keys: tuple[str, ...]
    shape: Literal["text", "number", "numbers", "texts", "flag"] = "text"
    default: str = ""
    needed: str = ""


_LAST = {"labels": 1, "missing": 2, "fallback": 3, "weight": 4, "description": 5}
"""Keys that several types have, which come after the type's own in the mapping of a column, in this order."""


def plain_value(value: object) -> object:
    """Return what is declared under a key as a document holds it: texts, numbers, lists and mappings."""
    if isinstance(value, tuple):
        return dict(value) if value and isinstance(value[0], tuple) else list(value)
    if isinstance(value, datetime.time):
        return f"{value:%H:%M}"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, StrEnum) else value


@dataclass(frozen=True, slots=True)
class Column(ABC):
    """One declared column of a table.

    Attributes
    ----------
    kind : str
        The word for its type in a configuration.
    role : str
        The words for its type on the screen.
    blank : str
        What a draft of a configuration says for such a column, to be filled in.
    form : tuple of FormField
        What the screen asks; ``unasked`` are keys that only a configuration can declare.
    cell_type : CellType
        Type of its cells in a Parquet file.
    is_identifier : bool
        Whether it says who the row belongs to.
    is_printed : bool
        Whether a synthetic table has it.
    name : str
    description : str
        What it means, in a public sentence; empty if that is not declared. No cell is read by it.
    """

    kind: ClassVar[str]
    role: ClassVar[str]
    blank: ClassVar[str]
    form: ClassVar[tuple[FormField, ...]] = ()
    unasked: ClassVar[tuple[str, ...]] = ()
    is_identifier: ClassVar[bool] = False
    is_printed: ClassVar[bool] = True

    name: str
    description: Sentence = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        problem = name_problem(self.name)
        if problem is not None:
            raise SchemaError(problem)
        self._check()

    def _check(self) -> None:  # noqa: B027  # a column without bounds has nothing to check
        """Refuse declarations that are invalid for this type."""

    def to_mapping(self) -> dict[str, object]:
        """Write the column as its fields are read; options and empty lists at their defaults are left out."""
        said = {
            one: getattr(self, one.name) for one in sorted(fields(self)[1:], key=lambda one: _LAST.get(one.name, 0))
        }
        return {"type": self.kind} | {
            one.name: plain_value(value)
            for one, value in said.items()
            if value != one.default or not (one.kw_only or not value)
        }

    @property
    def cells_in(self) -> str:
        """The column of the file that contains its cells, where none has its name."""
        return self.name

    @property
    def cell_type(self) -> CellType:
        """Type of its cells in a Parquet file."""
        return "string"

    @property
    def printed_name(self) -> str:
        """Its name in every table that is written, CSV and Parquet alike: :func:`guarded`."""
        return guarded(self.name)

    @property
    def listed(self) -> tuple[str | float, ...]:
        """Everything that is declared one by one."""
        return ()

    def examples(self, most: int) -> list[str]:
        """Return texts of a few valid cells."""
        return [""][:most]

    def text_of_typed(self, cell: TypedCell) -> str:
        """Return the text that is read as this cell of a table in memory: a date or a time, or a number's text."""
        return cell if isinstance(cell, str) else cell.isoformat()


@dataclass(frozen=True, slots=True)
class ModelledColumn(Column):
    """A column that a model sees: it has codes.

    ``missing``: cells may be missing, and a cell that cannot be read is missing too. ``fallback`` is the value of the
    column that an empty or unreadable cell becomes where missing is not declared. ``weight`` says how much its accuracy
    matters.
    """

    is_ordered: ClassVar[bool] = False
    """Whether its values are on a grid; if so it declares :meth:`grid_at` and :meth:`comparable`."""

    is_summable: ClassVar[bool] = False
    """Whether its values can be added."""

    is_categorical: ClassVar[bool] = False
    """Whether its values are listed one by one, so that some may be rare."""

    missing: Flag = field(default=False, kw_only=True)
    weight: Weight = field(default=Weight.NORMAL, kw_only=True)
    fallback: float | str | datetime.date | datetime.time | None = field(default=None, kw_only=True)

    # What there is

    @property
    def levels(self) -> int:
        """Number of values on the grid; 0 where the values have no order."""
        return 0

    @property
    def special(self) -> tuple[float, ...]:
        """Values that keep a code of their own outside the grid."""
        return ()

    @property
    def size(self) -> int:
        """Number of codes: values or grid, then special values, then other, then missing."""
        return self.levels + len(self.special) + self.missing

    @property
    def n_values(self) -> int:
        """Number of codes of plain values, which come first: all except special values, other and missing."""
        return self.size - len(self.special) - (self.other_code is not None) - self.missing

    @property
    def missing_code(self) -> int | None:
        """Code of a missing cell, or None where missing is not declared."""
        return self.size - 1 if self.missing else None

    @property
    def has_special_on_grid(self) -> bool:
        """Whether a special value is also a value of the grid."""
        return False

    @property
    def other_code(self) -> int | None:
        """Code of an undeclared value, or None where "other" is not declared."""
        return None

    @property
    def fallback_code(self) -> int | None:
        """Code of an empty or unreadable cell: missing, else other, else the declared fallback; None without any."""
        if self.missing_code is not None:
            return self.missing_code
        if self.other_code is not None:
            return self.other_code
        return None if self.fallback is None else self._code_of_fallback()

    @abstractmethod
    def _code_of_fallback(self) -> int: ...

    @property
    def unreadable_code(self) -> int:
        """Code of an empty or unreadable cell; 0 where none is declared, in which case no run starts."""
        return self.fallback_code or 0

    @property
    def scale(self) -> Scale:
        """The values of the grid as numbers."""
        return Scale(0.0, float(self.levels - 1))

    @property
    def code_near_zero(self) -> int:
        """Code of zero, or of the end of the grid that is nearest to it; 0 where nothing is zero."""
        return 0

    @property
    def declared_labels(self) -> tuple[str, ...]:
        """The declared texts of its cells, in the order of their codes; none where cells are not words."""
        return ()

    @property
    def listed(self) -> tuple[str | float, ...]:
        """Everything that is declared one by one."""
        return (*self.special, *self.declared_labels)

    @property
    def has_order(self) -> bool:
        """Whether its values can be compared: they are on a grid, or listed in their order."""
        return self.is_ordered

    # Cells to codes

    @abstractmethod
    def encode(self, cells: Cells) -> Coded:
        """Return the code of every cell and what became of it; any cell has a code."""

    def spellings(
        self, *, trim: Callable[[list[str]], list[str]] | None, typed: bool, missing: Collection[str] = ()
    ) -> dict[str, int]:
        """Return every text that means a declared word, with its code; none where cells are not words."""
        return {}

    # Codes to cells

    def texts(self, codes: Sequence[int] | npt.NDArray[Any] | None = None, *, missing: str = "") -> list[str]:
        """Return the text of codes, before any guard against formulas.

        Parameters
        ----------
        codes : sequence of int, optional
            All of the column's in order if absent.
        missing : str
            Text of the missing code.

        Returns
        -------
        list of str
            Numbers with the decimals that the declaration has; ISO dates; texts of categories; yes and no.
        """
        return self._texts(range(self.size) if codes is None else [int(code) for code in codes], missing)

    @abstractmethod
    def _texts(self, codes: Sequence[int], missing: str) -> list[str]: ...

    def notated_texts(self, codes: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """Return the text of codes in the notation in which cells of the table are declared to be written."""
        return list(map(self.notation.written, self.texts(codes)))

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every declared pattern of its dates or times, in the order in which they are tried."""
        return ()

    @property
    def notation(self) -> Notation:
        """How its numbers are written, where that is declared for this column."""
        return PLAIN

    def shown_texts(self, codes: Sequence[int] | npt.NDArray[Any] | None = None) -> list[str]:
        """Return what people read in place of codes: labels where they are declared, else :meth:`texts`."""
        return self.texts(codes, missing="missing")

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return invented cells as they are declared to be written; none if programs write them the same way.

        ``notation`` and ``dates`` are those of the table, for a column without its own.
        """
        return []

    def understood(self, codes: Sequence[int]) -> list[str]:
        """Return what codes mean, in the words shown next to invented cells."""
        return self.texts(codes, missing="missing")

    @abstractmethod
    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the typed cell of every code, None for the missing code; see :attr:`Column.cell_type`."""

    def printed_texts(self, codes: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """Return the text of codes as it is in a CSV file, before quotation marks."""
        return self.texts(codes)

    def printed_cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the typed cell of codes as it is in a Parquet file."""
        return self.cells(codes)

    def declared_texts(
        self, codes: Sequence[int] | npt.NDArray[Any], notation: Notation, dates: tuple[str, ...]
    ) -> list[str]:
        """Return the text of codes as cells of the private table are declared to be written; a missing one is empty.

        ``notation`` and ``dates`` are those of the table, for a column without its own. Of several patterns the first
        is used.
        """
        return self.printed_texts(codes)

    def declared_texts_beside(
        self, codes: npt.NDArray[np.int64], dates: Sequence[datetime.date | None], patterns: tuple[str, ...]
    ) -> list[str]:
        """Return the text of dates and codes in one cell, by ``patterns`` or else in ISO form; empty without a date.

        It is for a column that is read from the cells of a column of dates (:attr:`cells_in`).
        """
        raise SchemaError(f"'{self.name}' is not read from the cells of another column.")

    def code_of_text(self, text: str) -> int:
        """Return the code of a printed cell, or :data:`OUTSIDE_DOMAIN` where no code is printed like that.

        Parameters
        ----------
        text : str
            A cell of a synthetic CSV file; the empty text is a missing cell.
        """
        if text == "":
            return OUTSIDE_DOMAIN if self.missing_code is None else self.missing_code
        near = self._codes_near(text)
        return next((code for code in near if self.printed_texts([code])[0] == text), OUTSIDE_DOMAIN)

    @abstractmethod
    def _codes_near(self, text: str) -> list[int]:
        """Return the codes that could print as this text."""

    def examples(self, most: int) -> list[str]:
        """Return the texts of the first codes."""
        return self.texts(range(min(self.size, most)))

    # Values that can be compared

    def grid(self) -> npt.NDArray[np.float64]:
        """Return the values of the grid in order; columns of one type have values of one kind."""
        return self.grid_at(np.arange(self.levels))

    def grid_at(self, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the values of some levels of the grid, ascending as these are; memory follows their number."""
        return np.empty(0)

    def comparable(self, text: str) -> float:
        """Read a constant that values are compared with.

        Raises
        ------
        SchemaError
            If it cannot be read.
        """
        raise SchemaError(f"'{self.name}' has no order.")

    def comparable_values(self) -> npt.NDArray[np.float64]:
        """Return the value of every code, shape (size,); NaN where it is missing."""
        return self.comparable_at(np.arange(self.size))

    def comparable_at(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the values of some codes, in the shape of ``codes``; memory follows their number."""
        beside = np.concatenate([np.asarray(self.special, dtype=np.float64), [np.nan] * self.missing])
        found = np.empty(codes.shape)
        ordered = codes < self.levels
        found[ordered] = self.grid_at(codes[ordered])
        found[~ordered] = beside[codes[~ordered] - self.levels]
        return found

    # Arrays of codes

    def smallest_codes(self, codes: npt.ArrayLike) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return codes in the smallest unsigned type that fits, after checking that each is one of the column's.

        Parameters
        ----------
        codes : array of integers of shape (rows,), values in [0, size)

        Raises
        ------
        SchemaError
            If a code is not an integer or not one of the column's.
        """
        whole = np.asarray(codes)
        if whole.ndim != 1 or not np.issubdtype(whole.dtype, np.integer):
            raise SchemaError(f"'{self.name}': codes must be one column of whole numbers.")
        if whole.size and not (whole.min() >= 0 and whole.max() < self.size):
            raise SchemaError(f"'{self.name}' has the codes 0 to {self.size - 1}; a code is outside.")
        return whole.astype(code_dtype(self.size), copy=False)

    def distinct_codes(self, codes: npt.NDArray[np.unsignedinteger[Any]]) -> npt.NDArray[np.int64]:
        """Return the codes that occur, in order; memory follows the number of ``codes``, not that of the column."""
        if self.size > max(len(codes), _FEW_CODES):
            return np.unique(codes).astype(np.int64)
        present = np.zeros(self.size, dtype=bool)
        present[codes] = True
        return np.flatnonzero(present)
