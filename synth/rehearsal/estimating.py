"""Estimates from a bundle with the noise in them: means, shares and quantiles, each with an interval of 95 %.

A number worked out from synthetic rows is off for two reasons: the private rows are a sample, and noise lies between
them and the synthetic ones. Both are made again: rows are drawn from the released model, and the same generator is run
on them as it was run on the private ones, with noise of its own (the parametric bootstrap; Efron and Tibshirani 1993,
section 6.5; for noisy answers Ferrando, Wang and Sheldon 2022). How far such a second release is from the model that
it was made of says how far the first one is from the population that the private rows come from.

Nothing here has seen a private row, needs the installation that sealed the bundle, or costs anything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from synth.bundle.replay import saved_generator
from synth.errors import ConfigError, InputError, SchemaError
from synth.estimators import drawn_rows
from synth.generators import Generator
from synth.privacy.answers import NoisyAnswer, of_kind
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.reports.relations import State, relations_of
from synth.schema import ModelledColumn, RunConfig, Schema
from synth.schema.conditions import (
    Among,
    Between,
    Compared,
    Condition,
    Joined,
    Name,
    Not,
    Null,
    condition,
    names_in,
)
from synth.services.pipeline import fit_and_sample
from synth.system.paths import path_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REPLICATES", "Estimate", "Estimates", "Question", "estimate", "read_question", "written"]

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]

REPLICATES = 20
"""Second releases: enough for a standard deviation that is off by a sixth, which Student's distribution allows for."""

_LEAST_REPLICATES = 5
_MOST_GROUPS = 200
_LEVEL = 0.95

_CAN_ASK = (
    "Ask for: mean COLUMN, median COLUMN, quantile 0.9 of COLUMN, share of CONDITION, or table of COLUMN; then, if you "
    "like, by COLUMN, COLUMN and where CONDITION"
)

_ASKED_FOR = ("mean of ", "mean ", "median of ", "median ", "share of ", "table of ", "quantile ")


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be estimated.

    Attributes
    ----------
    kind : str
        "mean", "quantile", "share" or "table".
    column : str
        Of which column; "" for a share.
    part : float
        Of a quantile, from 0 to 1.
    share : Condition, optional
        Of which rows the share is.
    by : tuple of str
        Columns whose values make the groups.
    where : Condition, optional
        Which rows are looked at.
    """

    kind: str
    column: str
    part: float
    share: Condition | None
    by: tuple[str, ...]
    where: Condition | None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it names, each once."""
        named = [self.column] if self.column else []
        for one in (self.share, self.where):
            named += [] if one is None else [name.column for name in names_in(one)]
        return tuple(dict.fromkeys([*named, *self.by]))


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number.

    Attributes
    ----------
    group : tuple of str
        Values of the columns of ``by``, and of the column of a table.
    value : float
        Of the released rows, in units of the column; of shares from 0 to 1. NaN where no row is in the group.
    low, high : float
        Ends of the interval of 95 %; NaN where there is none.
    rows : int
        Released rows that it was worked out from.
    """

    group: tuple[str, ...]
    value: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True, slots=True)
class Estimates:
    """What was asked for, with the noise in it.

    Attributes
    ----------
    question : str
    names : tuple of str
        What the values in a group are of.
    numbers : tuple of Estimate
    unknown : tuple of (str, str, str)
        Pairs of columns of the question of which nothing is known, and why: then there are no intervals.
    replicates : int
        Second releases that the intervals come from; 0 where there are none.
    """

    question: str
    names: tuple[str, ...]
    numbers: tuple[Estimate, ...]
    unknown: tuple[tuple[str, str, str], ...]
    replicates: int

    @property
    def table(self) -> pd.DataFrame:
        """The same as a DataFrame, a row for every number."""
        import pandas as pd

        rows = [(*one.group, one.value, one.low, one.high, one.rows) for one in self.numbers]
        return pd.DataFrame(rows, columns=[*self.names, "estimate", "low", "high", "rows"])

    @property
    def lines(self) -> tuple[str, ...]:
        """The same as lines of text."""
        lines = [f"{self.question}:"]
        for one in self.numbers:
            group = ", ".join(f"{name} {value}" for name, value in zip(self.names, one.group, strict=True))
            between = f"  [{one.low:.4g}, {one.high:.4g}]" if math.isfinite(one.low) else ""
            value = f"{one.value:.4g}" if math.isfinite(one.value) else "no rows"
            lines.append(f"{group + ': ' if group else ''}{value}{between}")
        if self.unknown:
            lines += [f"{one} and {other}: {why}; treat as unknown." for one, other, why in self.unknown]
            lines.append("So no interval is given: the rows show what other columns imply, if anything.")
        elif self.replicates:
            lines.append(
                f"In brackets 95 % intervals of noise and sampling together, from {self.replicates} second releases; "
                "they are about the population that the private rows were a sample of."
            )
        return tuple(lines)


def written(found: Sequence[Estimates], out: str | None) -> tuple[str, ...]:
    """Write all numbers as CSV, where a file is named, each beside its question; return them as lines of text."""
    lines = tuple(line for one in found for line in one.lines)
    if out is None:
        return lines
    import pandas as pd

    whole = pd.concat([one.table.assign(question=one.question) for one in found])
    try:
        whole[["question", *(name for name in whole.columns if name != "question")]].to_csv(
            path_of(out, "the table of estimates"), index=False
        )
    except OSError:
        raise InputError(f"'{Path(out).name}' cannot be written. Name a file in a folder that exists.") from None
    return (*lines, f"Wrote {out}.")


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
    kind = "quantile" if asked == "median" else asked
    question = Question(
        kind=kind,
        column="" if share else _unquoted(of),
        part=part,
        share=share,
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
    return question


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A question about the rows of a schema, group by group.

    Attributes
    ----------
    question : Question
    schema : Schema
    names : tuple of str
        What the values in a group are of.
    groups : tuple of tuple of int
        Their codes.
    """

    question: Question
    schema: Schema
    names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, question: Question, schema: Schema) -> Self:
        """Make the groups of a question, in the order of the declared values."""
        names = (*question.by, *([question.column] if question.kind == "table" else []))
        sizes = (range(schema.modelled_column(name).size) for name in names)
        return cls(question, schema, names, tuple(itertools.product(*sizes)))

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The values of every group, as they are read."""
        texts = [self.schema.modelled_column(name).texts(missing="missing") for name in self.names]
        return [tuple(own[code] for own, code in zip(texts, group, strict=True)) for group in self.groups]

    def estimated(self, codes: Codes) -> tuple[Vector, Vector]:
        """Return the number of every group in some rows, and of how many rows it is; both of shape (groups,)."""
        question, schema = self.question, self.schema
        column_of = dict(zip(schema.names, codes.T, strict=True))
        looked = np.ones(len(codes), bool) if question.where is None else _holds(question.where, schema, column_of)[0]
        by = [column_of[name] for name in question.by]
        values, rows = np.full(len(self.groups), np.nan), np.zeros(len(self.groups))
        if question.share is not None:
            told, not_told = _holds(question.share, schema, column_of)
            looked = looked & (told | not_told)
            numbers = told.astype(np.float64)
        elif question.kind == "table":
            numbers = column_of[question.column].astype(np.float64)
        else:
            numbers = schema.modelled_column(question.column).comparable_values()[column_of[question.column]]
            looked = looked & np.isfinite(numbers)
        for place, group in enumerate(self.groups):
            inside = looked.copy()
            for own, code in zip(by, group, strict=False):
                inside &= own == code
            mine = numbers[inside]
            rows[place] = np.count_nonzero(mine == group[-1]) if question.kind == "table" else len(mine)
            if not len(mine):
                continue
            if question.kind == "table":
                values[place] = rows[place] / len(mine)
            elif question.kind == "quantile":
                values[place] = np.quantile(mine, question.part)
            else:
                values[place] = mine.mean()
        return values, rows


def estimate(
    bundle: str | Path,
    *questions: str,
    replicates: int = REPLICATES,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Estimates, ...]:
    """Estimate numbers of the population from a bundle, with intervals that know of its noise.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    *questions : str
        Such as "mean income by sex"; all are answered from the same second releases.
    replicates : int
        Second releases that are made; each takes as long as the run's fit did. 0: no intervals.
    seed : int
        Public: of the rows that second releases are made of. Their noise is fresh.
    progress : Progress, optional

    Returns
    -------
    tuple of Estimates
        One for each question, in order.

    Raises
    ------
    ConfigError
        If a question is none, or the bundle is of a model.
    VerificationError
        If the bundle cannot be read.

    Notes
    -----
    With theta the released number, theta_M that of all rows drawn from the model, and theta_b that of the b-th second
    release, the interval is theta - mean(e) -/+ t s sqrt(1 + 1/B), e_b = theta_b - theta_M, s their standard deviation
    and t Student's quantile with B - 1 degrees of freedom. Quantiles of so few e_b would be too near. What the model
    has lost for good cannot be lost again, so pairs of columns that were not measured, or that noise hides, get none.
    """
    if replicates and replicates < _LEAST_REPLICATES:
        raise ConfigError(f"At least {_LEAST_REPLICATES} second releases are needed for an interval, or none (0).")
    fitted, config, answers, rows = saved_generator(bundle)
    schema = config.schema
    asked = [_Asked.of(read_question(text, schema), schema) for text in questions]
    codes = drawn_rows(fitted, config).codes
    released = [one.estimated(codes) for one in asked]
    receipts = [receipt for answer in answers for receipt in answer.receipts]
    states = relations_of(of_kind(answers, NoisyAnswer), receipts, schema.names, rows=rows).states
    unknown = [tuple(_unknown(one.question, schema, states)) for one in asked]
    known = [one for one, pairs in zip(asked, unknown, strict=True) if not pairs]
    again = {}
    if replicates and known:
        again = _second_releases(fitted, config, known, rows, replicates, seed, progress or NullProgress())
    found = []
    for text, one, (values, counts), pairs in zip(questions, asked, released, unknown, strict=True):
        middle, half = _interval(values, *again[one]) if one in again else (values, np.full(len(values), np.nan))
        numbers = tuple(
            Estimate(words, float(value), float(centre - width), float(centre + width), int(count))
            for words, value, count, centre, width in zip(one.words, values, counts, middle, half, strict=True)
        )
        found.append(Estimates(text, one.names, numbers, pairs, replicates if one in again else 0))
    return tuple(found)


def _second_releases(
    fitted: Generator,
    config: RunConfig,
    asked: Sequence[_Asked],
    rows: float,
    replicates: int,
    seed: int,
    progress: Progress,
) -> dict[_Asked, tuple[Vector, Vector]]:
    """Return what second releases say, shape (replicates, groups), and what the model does, shape (groups,)."""
    schema = config.schema
    n_rows = max(round(rows), 2)
    if schema.rows_are_public and schema.needs_number_of_units:
        schema = replace(schema, number_of_units=n_rows)
    ids = [str(place) for place in range(n_rows)] if schema.unit.id_column is not None else None
    said: dict[_Asked, list[Vector]] = {one: [] for one in asked}
    drawn = []
    for place in range(1, replicates + 1):
        progress.phase(f"Second release {place} of {replicates}")
        made = replace(config, seed=(seed + 7919 * place) % 2**63, rows=n_rows)
        codes = drawn_rows(fitted, made).codes
        drawn.append(codes)
        # Generators draw so that counts stray little; a sample of a population strays as rows drawn one by one do.
        sample = codes[np.random.Generator(np.random.PCG64([seed, place])).integers(n_rows, size=n_rows)]
        columns = dict(zip(schema.names, sample.T, strict=True))
        table = PrivateTable.from_codes(schema, columns, unit_ids=ids, account_key=bytes(32))
        again = replace(made, schema=schema, rows=config.rows, holdout=0.0, device="cpu")
        found = fit_and_sample(again, table, NullProgress(), predict=False)
        for one in asked:
            said[one].append(one.estimated(found.codes)[0])
        progress.step(place, replicates)
    whole = np.concatenate(drawn)
    return {one: (np.array(said[one]), one.estimated(whole)[0]) for one in asked}


def _interval(released: Vector, said: Vector, whole: Vector) -> tuple[Vector, Vector]:
    """Return the middle and half the width of every interval."""
    errors = said - whole
    n = len(errors)
    spread = errors.std(axis=0, ddof=1)
    far = float(stdtrit(n - 1, 0.5 + _LEVEL / 2)) * math.sqrt(1.0 + 1.0 / n)
    return released - errors.mean(axis=0), far * spread


def _unknown(question: Question, schema: Schema, states: NDArray[np.int8]) -> list[tuple[str, str, str]]:
    words = {State.UNMEASURED: "not measured", State.DROWNED: "measured, but noise hides it"}
    found = []
    for one, other in itertools.combinations(question.columns, 2):
        state = State(int(states[schema.names.index(one), schema.names.index(other)]))
        if state in words:
            found.append((one, other, words[state]))
    return found


# Conditions -----------------------------------------------------------------------------------------------------------


def _holds(found: Condition, schema: Schema, codes: dict[str, Codes]) -> tuple[Flags, Flags]:
    """Return which rows a condition holds for, and for which it does not; of a missing cell it is neither."""
    if isinstance(found, Joined):
        parts = [_holds(one, schema, codes) for one in found.parts]
        every, some = np.logical_and.reduce, np.logical_or.reduce
        if found.word == "OR":
            every, some = some, every
        return every([one for one, _ in parts]), some([one for _, one in parts])
    if isinstance(found, Not):
        yes, no = _holds(found.inner, schema, codes)
        return no, yes
    column = schema.modelled_column(found.left.column)
    own = codes[found.left.column]
    missing = own == column.missing_code if column.missing_code is not None else np.zeros(len(own), bool)
    if isinstance(found, Null):
        return missing, ~missing
    if isinstance(found, Compared) and isinstance(found.right, Name):
        other = schema.modelled_column(found.right.column)
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


def _code_flags(column: ModelledColumn, sign: str, constant: object) -> Flags:
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
