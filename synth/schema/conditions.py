"""Which rows of a database's table are read: a condition on each row by itself, in a small part of SQL.

A condition knows columns of its table and constants, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL. There is
no way to write a function, a subquery, an order or a number of rows in it, so whether a row is read follows from that
row alone. What is read here is a tree; the statement that is run is built from the tree, never from the text. The same
tree says which of some rows it holds for that are codes already (estimates from a bundle).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError, SchemaError

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, ColumnElement

__all__ = [
    "MOST_CHARACTERS",
    "Among",
    "Between",
    "CodedColumn",
    "Compared",
    "Condition",
    "Joined",
    "Like",
    "Name",
    "Not",
    "Null",
    "condition",
    "expression_of",
    "holds",
    "names_in",
]

MOST_CHARACTERS = 10_000
MOST_DEPTH = 50

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]
Constant = str | int | Decimal | bool


@dataclass(frozen=True, slots=True)
class Name:
    """A column of the table, and where it stands in the text."""

    column: str
    place: int


@dataclass(frozen=True, slots=True)
class Compared:
    """A column beside a constant or another column of its row."""

    left: Name
    sign: str
    right: Name | Constant


@dataclass(frozen=True, slots=True)
class Among:
    """Whether a column holds one of several constants."""

    left: Name
    constants: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """Whether a column lies between two constants, which are part of the range."""

    left: Name
    low: Constant
    high: Constant


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text matches a pattern of ``%`` and ``_``."""

    left: Name
    pattern: str


@dataclass(frozen=True, slots=True)
class Null:
    """Whether a column has no value."""

    left: Name


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    inner: Condition


@dataclass(frozen=True, slots=True)
class Joined:
    """Several conditions of which all (``AND``) or one (``OR``) must hold."""

    word: str
    parts: tuple[Condition, ...]


Condition = Compared | Among | Between | Like | Null | Not | Joined

SIGNS = ("=", "<>", "!=", "<=", ">=", "<", ">")

_TOKEN = re.compile(
    r"""\s+
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)(?![\w.])
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><>|!=|<=|>=|[=<>(),+-])
    """,
    re.VERBOSE,
)
_WORDS = {"AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE"}

_POSSIBLE = (
    "A condition has columns, constants in 'single quotation marks' or numbers, comparisons, AND, OR, NOT, IN, "
    "BETWEEN, LIKE and IS NULL"
)
_FREE = (
    "Functions, subqueries and other tables may let a row depend on other people's rows: write the whole query as "
    "SQL instead (sql), and the certificate says what is assumed of it"
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def condition(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    ConfigError
        If it is more than a condition on one row, or is not understood; says where.

    Examples
    --------
    >>> condition("age >= 18 AND region IN ('north', 'south')").parts[0]
    Compared(left=Name(column='age', place=1), sign='>=', right=18)
    """
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"where: has {len(text):,} characters, and at most {MOST_CHARACTERS:,} are possible.")
    return _Reader(text).whole()


class _Reader:
    """One condition, read token by token."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), _Token("end", "", len(text) + 1)]
        self._at = 0
        self._depth = 0

    def whole(self) -> Condition:
        found = self._joined("OR")
        if self._here.kind != "end":
            self._refuse("AND, OR or the end of the condition")
        return found

    @property
    def _here(self) -> _Token:
        return self._tokens[self._at]

    def _takes(self, *words: str) -> bool:
        """Pass over a word or a sign, and say whether it stood there."""
        found = self._here.kind in ("word", "sign") and self._here.text.upper() in words
        self._at += found
        return found

    def _needs(self, word: str) -> None:
        if not self._takes(word):
            self._refuse(word)

    def _refuse(self, wanted: str) -> NoReturn:
        raise ConfigError(f"where: at character {self._here.place}, {wanted} is missing. {_POSSIBLE}. {_FREE}.")

    def _joined(self, word: str) -> Condition:
        parts = [self._joined("AND") if word == "OR" else self._negated()]
        while self._takes(word):
            parts.append(self._joined("AND") if word == "OR" else self._negated())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _negated(self) -> Condition:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise ConfigError(
                f"where: more than {MOST_DEPTH} NOTs and brackets stand in one another. Write it flatter."
            )
        try:
            if self._takes("NOT"):
                return Not(self._negated())
            if self._takes("("):
                inner = self._joined("OR")
                self._needs(")")
                return inner
            return self._predicate()
        finally:
            self._depth -= 1

    def _predicate(self) -> Condition:
        left = self._name()
        if left is None:
            self._refuse("the name of a column")
        if self._takes("IS"):
            negated = self._takes("NOT")
            self._needs("NULL")
            return Not(Null(left)) if negated else Null(left)
        if self._here.text in SIGNS and self._here.kind == "sign":
            sign = self._here.text
            self._at += 1
            return Compared(left, sign, self._name() or self._constant())
        negated = self._takes("NOT")
        found = self._ranged(left)
        return Not(found) if negated else found

    def _ranged(self, left: Name) -> Condition:
        if self._takes("BETWEEN"):
            low = self._constant()
            self._needs("AND")
            return Between(left, low, self._constant())
        if self._takes("LIKE"):
            if self._here.kind != "text":
                self._refuse("a pattern in 'single quotation marks'")
            place, pattern = self._here.place, str(self._constant())
            if "\\" in pattern:
                raise ConfigError(
                    f"where: the pattern at character {place} has a backslash, which databases read apart."
                )
            return Like(left, pattern)
        if self._takes("IN"):
            self._needs("(")
            constants = [self._constant()]
            while self._takes(","):
                constants.append(self._constant())
            self._needs(")")
            return Among(left, tuple(constants))
        self._refuse("a comparison, IN, BETWEEN, LIKE or IS NULL")

    def _name(self) -> Name | None:
        token = self._here
        if token.kind == "quoted":
            name = token.text[1:-1].replace('""', '"')
        elif token.kind == "word" and token.text.upper() not in _WORDS:
            name = token.text
        else:
            return None
        self._at += 1
        if self._here.text == "(":
            self._refuse(f"a comparison behind the column '{name}'" if token.kind == "quoted" else "a plain column")
        return Name(name, token.place)

    def _constant(self) -> Constant:
        below = self._takes("-")
        token = self._here
        self._at += 1
        if token.kind == "number":
            number = Decimal(token.text)
            # A whole number is bound as one, so that a database compares it with whole numbers.
            exact: int | Decimal = int(number) if token.text.isdigit() else number
            return -exact if below else exact
        if not below and token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if not below and token.kind == "word" and token.text.upper() in ("TRUE", "FALSE"):
            return token.text.upper() == "TRUE"
        self._at -= 1
        self._refuse("a constant")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or "\0" in found.group():
            raise ConfigError(f"where: character {at + 1} is not understood. {_POSSIBLE}. {_FREE}.")
        if found.lastgroup is not None:
            yield _Token(found.lastgroup, found.group(), at + 1)
        at = found.end()


# What it means --------------------------------------------------------------------------------------------------------


def names_in(found: Condition) -> Iterator[Name]:
    """Yield the columns that a condition names, as often as it does."""
    if isinstance(found, Joined):
        for part in found.parts:
            yield from names_in(part)
    elif isinstance(found, Not):
        yield from names_in(found.inner)
    else:
        yield found.left
        if isinstance(found, Compared) and isinstance(found.right, Name):
            yield found.right


_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def expression_of(found: Condition) -> ColumnElement[bool]:
    """Return a condition as an expression; constants are bound, never written into the statement."""
    import sqlalchemy as sa  # here: who reads no database does without it

    if isinstance(found, Joined):
        return (sa.and_ if found.word == "AND" else sa.or_)(*map(expression_of, found.parts))
    if isinstance(found, Not):
        return sa.not_(expression_of(found.inner))
    left: ColumnElement[Any] = sa.column(found.left.column)
    if isinstance(found, Null):
        return left.is_(None)
    if isinstance(found, Among):
        return sa.or_(*(left == _bound(one) for one in found.constants))
    if isinstance(found, Between):
        return left.between(_bound(found.low), _bound(found.high))
    if isinstance(found, Like):
        return left.like(_bound(found.pattern))
    right = sa.column(found.right.column) if isinstance(found.right, Name) else _bound(found.right)
    compared: ColumnElement[bool] = _SIGNS[found.sign](left, right)
    return compared


def _bound(constant: Constant) -> BindParameter[Any]:
    import sqlalchemy as sa

    # Of no type of ours: what it is compared with decides, as for a constant that stands in the text.
    return sa.bindparam(None, constant, type_=sa.types.NullType())


# Over coded rows -----------------------------------------------------------------------------------------------------


class CodedColumn(Protocol):
    """What a condition asks of a declared column: its values as text, and as they are compared."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def kind(self) -> str:
        """Its type."""
        ...

    @property
    def levels(self) -> int:
        """Places of its grid; 0 where values have no order."""
        ...

    @property
    def missing_code(self) -> int | None:
        """Code of a missing cell."""
        ...

    def comparable_values(self) -> Vector:
        """Return the value of every code; NaN where it is missing."""
        ...

    def comparable(self, text: str) -> float:
        """Read a constant that values are compared with."""
        ...

    def texts(self, codes: Sequence[int] | None = None) -> list[str]:
        """Return the text of codes, by default of all."""
        ...


def holds(found: Condition, columns: Mapping[str, CodedColumn], codes: Mapping[str, Codes]) -> tuple[Flags, Flags]:
    """Return which coded rows a condition holds for, and for which it does not; of a missing cell it is neither.

    Parameters
    ----------
    found : Condition
    columns : mapping of str to CodedColumn
    codes : mapping of str to array of shape (rows,)

    Raises
    ------
    ConfigError
        If a column cannot be compared so.
    """
    if isinstance(found, Joined):
        parts = [holds(one, columns, codes) for one in found.parts]
        every, some = np.logical_and.reduce, np.logical_or.reduce
        if found.word == "OR":
            every, some = some, every
        return every([one for one, _ in parts]), some([one for _, one in parts])
    if isinstance(found, Not):
        yes, no = holds(found.inner, columns, codes)
        return no, yes
    column = columns[found.left.column]
    own = codes[found.left.column]
    missing = own == column.missing_code if column.missing_code is not None else np.zeros(len(own), bool)
    if isinstance(found, Null):
        return missing, ~missing
    if isinstance(found, Compared) and isinstance(found.right, Name):
        other = columns[found.right.column]
        if not column.levels or not other.levels:
            raise ConfigError("Two columns are compared where both are numbers, or both are dates.")
        left, right = column.comparable_values()[own], other.comparable_values()[codes[found.right.column]]
        known = np.isfinite(left) & np.isfinite(right)
        yes = _compared(left, found.sign, right) & known
        return yes, known & ~yes
    if isinstance(found, Compared):
        of_code = _code_flags(column, found.sign, found.right)
    elif isinstance(found, Among):
        of_code = np.any([_code_flags(column, "=", one) for one in found.constants], axis=0)
    elif isinstance(found, Between):
        of_code = _code_flags(column, ">=", found.low) & _code_flags(column, "<=", found.high)
    else:
        raise ConfigError("LIKE is not estimated. Name the values: COLUMN IN ('one', 'another').")
    yes = of_code[own] & ~missing
    return yes, ~yes & ~missing


def _code_flags(column: CodedColumn, sign: str, constant: object) -> Flags:
    """Return for every code of a column whether it stands in a relation to a constant."""
    if column.levels:
        try:
            return _compared(column.comparable_values(), sign, column.comparable(str(constant)))
        except SchemaError as error:
            raise ConfigError(f"'{column.name}' is compared with what it cannot be: {error}") from None
    if sign not in ("=", "<>", "!="):
        raise ConfigError(f"The values of '{column.name}' have no order here. Compare by = or IN.")
    text = str(constant)
    if isinstance(constant, bool) and column.kind == "yes_no":
        text = column.texts([int(constant)])[0]
    texts = column.texts()
    if text not in texts:
        raise ConfigError(f"'{column.name}' has no value '{text}'. Its values: {', '.join(texts[:10])}.")
    same = np.array([one == text for one in texts])
    return same if sign == "=" else ~same


def _compared(left: Vector, sign: str, right: Vector | float) -> Flags:
    with np.errstate(invalid="ignore"):
        found = {
            "=": np.equal, "<>": np.not_equal, "!=": np.not_equal,
            "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
        }[sign](left, right)  # fmt: skip
    return np.asarray(found, dtype=bool)
