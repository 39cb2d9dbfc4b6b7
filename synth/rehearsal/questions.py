"""Questions that can be asked of a bundle, read from a line of text: means, quantiles, shares, tables, regressions.

A question says nothing of how it is answered; :mod:`synth.rehearsal.estimating` does that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from synth.errors import ConfigError
from synth.schema import Schema
from synth.schema.conditions import Condition, condition, names_in

__all__ = ["Question", "read_question"]

_MOST_GROUPS = 200

_CAN_ASK = (
    "Ask for: mean COLUMN, median COLUMN, quantile 0.9 of COLUMN, share of CONDITION, or table of COLUMN; then, if you "
    "like, by COLUMN, COLUMN and where CONDITION. Or for: regression of COLUMN on COLUMN, COLUMN"
)

_ASKED_FOR = ("mean of ", "mean ", "median of ", "median ", "share of ", "table of ", "quantile ", "regression of ")


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be estimated.

    Attributes
    ----------
    kind : str
        "mean", "quantile", "share", "table", "linear" or "logistic".
    column : str
        Of which column; "" for a share, and where a regression foretells one.
    part : float
        Of a quantile, from 0 to 1.
    share : Condition, optional
        Of which rows the share is; what a logistic regression foretells.
    on : tuple of str
        What a regression foretells it from.
    by : tuple of str
        Columns whose values make the groups.
    where : Condition, optional
        Which rows are looked at.
    """

    kind: str
    column: str
    part: float
    share: Condition | None
    on: tuple[str, ...]
    by: tuple[str, ...]
    where: Condition | None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it names, each once."""
        named = [self.column] if self.column else []
        for one in (self.share, self.where):
            named += [] if one is None else [name.column for name in names_in(one)]
        return tuple(dict.fromkeys([*named, *self.on, *self.by]))


def read_question(text: str, schema: Schema) -> Question:
    """Read a question about the columns of a schema.

    Raises
    ------
    ConfigError
        If it is none, or names a column that there is not.
    """
    text = text.strip()
    plain = _outside_quotes(text)
    start = next((word for word in _ASKED_FOR if plain.startswith(word)), "")
    where_at = plain.find(" where ")
    where_at = len(text) if where_at < 0 else where_at
    by_at = plain.find(" by ", 0, where_at)
    by_at = where_at if by_at < 0 else by_at
    asked = start.split(" ")[0]
    of, by_text, where = text[len(start) : by_at], text[by_at + 4 : where_at], text[where_at + 7 :]
    part = 0.5
    if asked == "quantile":
        number, of_word, of = of.partition(" of ")
        try:
            part = float(number) if of_word else math.nan
        except ValueError:
            part = math.nan
        if not 0 < part < 1:
            raise ConfigError("A quantile lies between 0 and 1: quantile 0.9 of COLUMN, for example.")
    if not start or not of or (by_at < where_at and not by_text) or (where_at < len(text) and not where):
        raise ConfigError(f"This is no question that can be estimated. {_CAN_ASK}.")
    by = tuple(_unquoted(one) for one in by_text.split(",")) if by_text else ()
    share = condition(of) if asked == "share" else None
    kind, on = "quantile" if asked == "median" else asked, tuple[str, ...]()
    if asked == "regression":
        on_at = plain.find(" on ", len(start), by_at)
        if on_at < 0 or by:
            raise ConfigError("A regression is asked for as: regression of COLUMN on COLUMN, COLUMN where CONDITION.")
        of, on = text[len(start) : on_at], tuple(_unquoted(one) for one in text[on_at + 4 : by_at].split(","))
        kind, share = _foretold(of, schema)
    question = Question(
        kind=kind,
        column="" if share else _unquoted(of),
        part=part,
        share=share,
        on=on,
        by=by,
        where=condition(where) if where else None,
    )
    for name in question.columns:
        if name not in schema.names:
            raise ConfigError(f"There is no column '{name}' in the bundle. Its columns: {', '.join(schema.names)}.")
    if kind in ("mean", "quantile") and schema.modelled_column(question.column).kind != "number":
        raise ConfigError(f"'{question.column}' is no number. Ask for its table, or for the share of a value.")
    groups = [*question.by, *([question.column] if kind == "table" else [])]
    if any(schema.modelled_column(name).levels for name in groups):
        raise ConfigError("Groups are of categories and of yes or no. Say ranges of a number by where.")
    if len(set(groups)) < len(groups):
        raise ConfigError("A column makes groups once. Leave out what stands twice.")
    if math.prod(schema.modelled_column(name).size for name in groups) > _MOST_GROUPS:
        raise ConfigError(f"The question has more than {_MOST_GROUPS} groups. Ask by fewer columns.")
    if len(set(question.columns)) < len(on) + 1 or len(set(on)) < len(on):
        raise ConfigError("In a regression a column stands once. Leave out what stands twice.")
    return question


def _foretold(text: str, schema: Schema) -> tuple[str, Condition | None]:
    """Return which regression foretells a column, or whether a condition holds."""
    name = _unquoted(text)
    if name not in schema.names:
        return "logistic", condition(text)
    column = schema.modelled_column(name)
    if column.levels:
        return "linear", None
    if column.kind != "yes_no":
        raise ConfigError(f"'{name}' has several values. Say which: regression of {name} = 'VALUE' on COLUMN.")
    return "logistic", condition('"' + name.replace('"', '""') + '" = TRUE')


def _outside_quotes(text: str) -> str:
    """Return a text in small letters, with a sign of no meaning for each one in quotation marks."""
    inside, signs = "", []
    for sign in text:
        if inside or sign in "\"'":
            signs.append("_")
            inside = "" if sign == inside else inside or sign
        else:
            signs.append(" " if sign.isspace() else sign.lower() if sign.isascii() else "_")
    return "".join(signs)


def _unquoted(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace('""', '"') if len(name) > 1 and name[0] == name[-1] == '"' else name
