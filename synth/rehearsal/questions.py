"""Questions about a bundle, read from a line of text: means, quantiles, shares, tables, regressions.

:mod:`synth.rehearsal.estimating` answers them.
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
    "Ask for: mean COLUMN, median COLUMN, quantile 0.9 of COLUMN, share of CONDITION, or table of COLUMN; add "
    "'by COLUMN, COLUMN' or 'where CONDITION' if you like. Or ask for: regression of COLUMN on COLUMN, COLUMN"
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
        The column; "" for a share, and for a regression that predicts one.
    part : float
        The level of a quantile, from 0 to 1.
    share : Condition, optional
        The condition whose share is estimated, or that a logistic regression predicts.
    on : tuple of str
        The predictors of a regression.
    by : tuple of str
        Columns whose values form the groups.
    where : Condition, optional
        The rows to use.
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
        """All columns in the question, each once."""
        named = [self.column] if self.column else []
        for one in (self.share, self.where):
            named += [] if one is None else [name.column for name in names_in(one)]
        return tuple(dict.fromkeys([*named, *self.on, *self.by]))


def read_question(text: str, schema: Schema) -> Question:
    """Read a question about the columns of a schema.

    Raises
    ------
    ConfigError
        If it is not understood, or names an unknown column.
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
            raise ConfigError("A quantile lies between 0 and 1, for example: quantile 0.9 of COLUMN.")
    if not start or not of or (by_at < where_at and not by_text) or (where_at < len(text) and not where):
        raise ConfigError(f"This question is not understood. {_CAN_ASK}.")
    by = tuple(_unquoted(one) for one in by_text.split(",")) if by_text else ()
    share = condition(of) if asked == "share" else None
    kind, on = "quantile" if asked == "median" else asked, tuple[str, ...]()
    if asked == "regression":
        on_at = plain.find(" on ", len(start), by_at)
        if on_at < 0 or by:
            raise ConfigError("Write a regression as: regression of COLUMN on COLUMN, COLUMN where CONDITION.")
        of, on = text[len(start) : on_at], tuple(_unquoted(one) for one in text[on_at + 4 : by_at].split(","))
        kind, share = _predicted(of, schema)
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
            raise ConfigError(f"The bundle has no column '{name}'. Its columns: {', '.join(schema.names)}.")
    if kind in ("mean", "quantile") and schema.modelled_column(question.column).kind != "number":
        raise ConfigError(f"'{question.column}' is not a number. Ask for its table, or for the share of a value.")
    groups = [*question.by, *([question.column] if kind == "table" else [])]
    if any(schema.modelled_column(name).levels for name in groups):
        raise ConfigError("Groups must be by categories, or by yes or no. For a range of a number use 'where'.")
    if len(set(groups)) < len(groups):
        raise ConfigError("A column after 'by' is named twice. Name each column once.")
    if math.prod(schema.modelled_column(name).size for name in groups) > _MOST_GROUPS:
        raise ConfigError(f"The question has more than {_MOST_GROUPS} groups. Name fewer columns after 'by'.")
    if len(set(question.columns)) < len(on) + 1 or len(set(on)) < len(on):
        raise ConfigError("A column of the regression is named twice. Name each column once.")
    return question


def _predicted(text: str, schema: Schema) -> tuple[str, Condition | None]:
    """Return the kind of regression that predicts a column, or whether a condition holds."""
    name = _unquoted(text)
    if name not in schema.names:
        return "logistic", condition(text)
    column = schema.modelled_column(name)
    if column.levels:
        return "linear", None
    if column.kind != "yes_no":
        raise ConfigError(f"'{name}' has several values. Name one: regression of {name} = 'VALUE' on COLUMN.")
    return "logistic", condition('"' + name.replace('"', '""') + '" = TRUE')


def _outside_quotes(text: str) -> str:
    """Return a text in lower case, with an underscore for each character in quotation marks."""
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
