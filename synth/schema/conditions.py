"""Which rows of a database's table are read: a condition on each row by itself, in a small part of SQL.

A condition has columns of its table and constants, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL. It has no
functions, subqueries, orders or limits on rows, so whether a row is read follows from that row alone. sqlglot parses
the text. The few nodes that are listed here become a tree of ours, and anything else is refused. The statement that is
run is built from our tree, never from the text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from synth.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, ColumnElement
    from sqlglot.expressions import Expr

__all__ = [
    "MOST_CHARACTERS",
    "SIGNS",
    "Among",
    "Between",
    "Compared",
    "Condition",
    "Joined",
    "Like",
    "Name",
    "Not",
    "Null",
    "condition",
    "expression_of",
    "names_in",
]

MOST_CHARACTERS = 10_000
MOST_DEPTH = 20
"""Nested NOTs and brackets; each takes up to thirty calls inside sqlglot, and Python allows a thousand."""

Constant = str | int | Decimal | bool


@dataclass(frozen=True, slots=True)
class Name:
    """A column of the table, and its position in the text."""

    column: str
    place: int


@dataclass(frozen=True, slots=True)
class Compared:
    """A column compared with a constant or with another column of its row."""

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
    """Whether a column is between two constants, both included."""

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

_SIGNS_OF = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_PARTS = {
    "Paren": {"this"},
    "Not": {"this"},
    "In": {"this", "expressions"},
    "Between": {"this", "low", "high"},
    **{kind: {"this", "expression"} for kind in ("And", "Or", "Is", "Like", *_SIGNS_OF)},
}
"""The nodes of sqlglot that are read, with their parts, besides a negation; a node with more parts is refused."""

_BEFORE = {"AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "VAR", "IDENTIFIER", "STRING"}
"""Tokens, as sqlglot calls them, that end one part of a condition before another one begins."""

_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")

_PREDICATE = "a comparison, IN, BETWEEN, LIKE or IS NULL"
_POSSIBLE = (
    "A condition may contain columns, texts in 'single quotation marks', numbers, comparisons, AND, OR, NOT, IN, "
    "BETWEEN, LIKE and IS NULL"
)
_FREE = (
    "Functions, subqueries and other tables could make a row depend on other people's rows. If you need them, write "
    "the whole query under 'sql'; the certificate then states what is assumed of it"
)


def condition(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    ConfigError
        If it is more than a condition on one row, or is not understood, with the position.

    Examples
    --------
    >>> condition("age >= 18 AND region IN ('north', 'south')").parts[0]
    Compared(left=Name(column='age', place=1), sign='>=', right=18)
    """
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"where: has {len(text):,} characters, and at most {MOST_CHARACTERS:,} are allowed.")
    from sqlglot import Dialect  # here: runs without a condition need not load it
    from sqlglot.errors import ParseError, TokenError

    try:
        tokens = _tokens(text)
        (parsed,) = Dialect().parser().parse(tokens, text)
        if parsed is None:
            raise _refused(0, "a comparison")
        return _tree(parsed)
    except _MissingError as missing:
        raise _refused(_start(missing.node, tokens), missing.wanted) from None
    except TokenError:
        raise ConfigError(f"where: a quotation mark or a comment is left open. {_POSSIBLE}. {_FREE}.") from None
    except ParseError as error:
        said = error.errors[0]  # where it ends, by line and column from 1
        end = sum(len(line) + 1 for line in text.split("\n")[: said["line"] - 1]) + said["col"]
        if "Unexpected token" not in said["description"] and not text[end:].strip():
            raise _refused(end, "a bracket, a name or a constant") from None
        raise _refused(end - len(said["highlight"])) from None
    except RecursionError:
        raise _too_deep() from None


def _tokens(text: str) -> list[Any]:
    """Cut a condition into words and signs, which must make up all of it except blanks: sqlglot skips comments."""
    from sqlglot import Dialect

    tokens = Dialect().tokenize(text)
    starts = [*(token.start for token in tokens), len(text)]
    for start, end in zip([0, *(token.end + 1 for token in tokens)], starts, strict=True):
        passed = text[start:end]
        if passed.strip():
            raise _refused(end - len(passed.lstrip()))
    for token in tokens:
        # Signs that sqlglot would skip, or read as the name of a column.
        if text[token.start] in ";+$" or "\0" in token.text:
            raise _refused(token.start)
    return tokens


def _refused(start: int, missing: str = "") -> ConfigError:
    said = f"at character {start + 1}, {missing} is missing" if missing else f"character {start + 1} is not understood"
    return ConfigError(f"where: {said}. {_POSSIBLE}. {_FREE}.")


def _too_deep() -> ConfigError:
    return ConfigError(f"where: more than {MOST_DEPTH} NOTs and brackets are nested. Make the condition flatter.")


class _MissingError(Exception):
    """Something else is where a part of a condition is expected."""

    def __init__(self, node: Expr, wanted: str) -> None:
        super().__init__(wanted)
        self.node, self.wanted = node, wanted


def _place(node: Expr) -> int:
    """Return the position of the first name or constant of a node; other nodes do not know theirs."""
    return min((int(one.meta["start"]) for one in node.walk() if "start" in one.meta), default=0)


def _start(node: Expr, tokens: Sequence[Any]) -> int:
    """Return where an unexpected node begins, with the brackets and words before its first name."""
    start = _place(node)
    for token in reversed([one for one in tokens if one.start < start]):
        if token.token_type.name in _BEFORE or not (token.text == "(" or token.text.isalpha()):
            break
        start = token.start
    return start


def _tree(node: Expr, depth: int = 0) -> Condition:
    kind = type(node).__name__
    said = {key: value for key, value in node.args.items() if value not in (None, False, [])}
    negated = said.pop("negate", False) is True
    if said.keys() != _PARTS.get(kind):
        raise _MissingError(node, _PREDICATE)
    if depth > MOST_DEPTH:
        raise _too_deep()
    found: Condition
    if kind == "Paren":
        found = _tree(node.this, depth + 1)
    elif kind == "Not":
        found = Not(_tree(node.this, depth + 1))
    elif kind in ("And", "Or"):
        found = Joined(kind.upper(), tuple(_tree(one, depth) for one in _chain(node)))
    elif kind == "In":
        found = Among(_name(node.this), tuple(map(_constant, said["expressions"])))
    elif kind == "Between":
        found = Between(_name(node.this), _constant(said["low"]), _constant(said["high"]))
    elif kind == "Like":
        found = Like(_name(node.this), _pattern(node.expression))
    elif kind == "Is":
        if type(node.expression).__name__ != "Null":
            raise _MissingError(node, _PREDICATE)
        found = Null(_name(node.this))
    else:
        right = node.expression
        is_column = type(right).__name__ == "Column"
        found = Compared(_name(node.this), _SIGNS_OF[kind], _name(right) if is_column else _constant(right))
    return Not(found) if negated else found


def _chain(node: Expr) -> Iterator[Expr]:
    """Yield what one word joins, in order; sqlglot nests a long chain to its left."""
    kind, behind = type(node), []
    while type(node) is kind:
        behind.append(node.expression)
        node = node.this
    yield node
    yield from reversed(behind)


def _name(node: Expr) -> Name:
    if not (type(node).__name__ == "Column" and node.args.keys() == {"this"} and node.name):
        raise _MissingError(node, "the name of a column")
    return Name(node.name, _place(node) + 1)


def _constant(node: Expr) -> Constant:
    below = type(node).__name__ == "Neg"
    found = node.this if below else node
    kind, text = type(found).__name__, str(found.name)
    if kind == "Literal" and not found.is_string and _NUMBER.fullmatch(text):
        # A whole number is bound as one, so that a database compares it with whole numbers.
        number: int | Decimal = int(Decimal(text)) if text.isdigit() else Decimal(text)
        return -number if below else number
    if kind == "Literal" and found.is_string and not below:
        return text
    if kind == "Boolean" and not below:
        return bool(found.this)
    raise _MissingError(node, "a constant")


def _pattern(node: Expr) -> str:
    pattern = _constant(node)
    if not isinstance(pattern, str):
        raise _MissingError(node, "a pattern in 'single quotation marks'")
    if "\\" in pattern:
        raise ConfigError(
            f"where: the pattern at character {_place(node) + 1} has a backslash, which databases read differently. "
            "Leave it out."
        )
    return pattern


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


SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def expression_of(found: Condition) -> ColumnElement[bool]:
    """Return a condition as an expression; constants are bound, never written into the statement."""
    import sqlalchemy as sa  # here: runs without a database need not load it

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
    compared: ColumnElement[bool] = SIGNS[found.sign](left, right)
    return compared


def _bound(constant: Constant) -> BindParameter[Any]:
    import sqlalchemy as sa

    # Without a type: the column that it is compared with decides, as for a constant in the text.
    return sa.bindparam(None, constant, type_=sa.types.NullType())
