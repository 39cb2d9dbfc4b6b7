"""Estimates from a bundle: means, shares, quantiles and regressions, each with a 95 % interval.

A number from synthetic rows has an error for two reasons: the private rows are a sample, and noise lies between them
and the synthetic rows. Both are simulated again: rows are drawn from the released model, and the same generator runs on
them as it ran on the private rows, with fresh noise (the parametric bootstrap; Efron and Tibshirani 1993, section 6.5;
for noisy answers Ferrando, Wang and Sheldon 2022). How far such a second release is from its model shows how far the
first release is from the population of the private rows.

This reads no private row, costs nothing, and does not need the installation that sealed the bundle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from synth.bundle.replay import saved_generator
from synth.errors import ConfigError, InputError
from synth.estimators import drawn_rows
from synth.generators import Generator
from synth.privacy.answers import NoisyAnswer, of_kind
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.rehearsal.questions import Question, read_question
from synth.rehearsal.resolution import Resolution, unplaced_rows
from synth.reports.interval_estimates import summed_numbers
from synth.reports.measured import measured_tables
from synth.reports.relations import State, relations_of
from synth.schema import ModelledColumn, RunConfig, Schema
from synth.schema.coded_conditions import holds
from synth.services.pipeline import fit_and_sample
from synth.system.paths import path_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REPLICATES", "Estimate", "Estimates", "estimate", "together", "written"]

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]
Resolutions = Mapping[str, Resolution]

REPLICATES = 20
"""Second releases: their standard deviation has an error of about a sixth, which Student's distribution covers."""

_LEAST_REPLICATES = 5
_LEVEL = 0.95

_WORTH_SAYING = 0.05
"""Share of rows in unknown places from which an answer says so, and some questions have no interval."""

_FAR = 0.05
"""Part of a mean by which it must depend on these places for the answer to say so."""

_MOST_TERMS = 100
_SEPARATED = 20.0
"""Log odds per standard deviation above which a logistic regression is taken to have no finite solution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number.

    Attributes
    ----------
    group : tuple of str
        The values of the columns after ``by`` and of the column of a table, or the name of a coefficient.
    value : float
        The number in the released rows, in units of the column; shares are from 0 to 1, coefficients of logistic
        regressions in log odds. NaN if no row is in the group, or if it cannot be determined.
    low, high : float
        The ends of the 95 % interval; NaN if there is none.
    rows : int
        The number of released rows used.
    """

    group: tuple[str, ...]
    value: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True, slots=True)
class Estimates:
    """The answer to one question.

    Attributes
    ----------
    question : str
    names : tuple of str
        The columns of the values in a group.
    numbers : tuple of Estimate
    unknown : tuple of (str, str, str)
        Pairs of columns of the question whose relation is unknown, and why; then there are no intervals.
    replicates : int
        The number of second releases behind the intervals; 0 if there are none.
    rows_per_unit : int
        The most rows of one unit; in second releases, a unit has copies of one row.
    unplaced : float
        Share of the rows, from 0 to 1, that lie somewhere in ranges that were counted as a whole, so that it is unknown
        on which side of a constant of the question they are, or what they add to a mean.
    """

    question: str
    names: tuple[str, ...]
    numbers: tuple[Estimate, ...]
    unknown: tuple[tuple[str, str, str], ...]
    replicates: int
    rows_per_unit: int = 1
    unplaced: float = 0.0

    @property
    def table(self) -> pd.DataFrame:
        """The numbers as a DataFrame, one row for each."""
        import pandas as pd

        rows = [(*one.group, one.value, one.low, one.high, one.rows) for one in self.numbers]
        return pd.DataFrame(rows, columns=[*self.names, "estimate", "low", "high", "rows"])

    @property
    def lines(self) -> tuple[str, ...]:
        """The numbers and remarks as lines of text."""
        lines = [f"{self.question}:"]
        for one in self.numbers:
            group = ", ".join(f"{name} {value}" for name, value in zip(self.names, one.group, strict=True))
            between = f"  [{one.low:.4g}, {one.high:.4g}]" if math.isfinite(one.low) else ""
            value = f"{one.value:.4g}" if math.isfinite(one.value) else "undetermined" if one.rows else "no rows"
            lines.append(f"{group + ': ' if group else ''}{value}{between}")
        return (*lines, *self.remarks)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remarks that belong to the numbers, as sentences."""
        found = [f"{one} and {other}: {why}; treat as unknown." for one, other, why in self.unknown]
        if self.unknown:
            found.append("So there are no intervals: the rows show only what other columns imply, if anything.")
        elif self.replicates:
            found.append(
                f"95 % intervals for noise and sampling together, from {self.replicates} second releases; they are "
                "about the population that the private rows are a sample of."
            )
            if any(not one.low <= one.value <= one.high for one in self.numbers if math.isfinite(one.low)):
                found.append("An interval corrects the mean error of releases, so a number may lie outside its own.")
            if self.rows_per_unit > 1:
                found.append("The rows of one unit are assumed to be alike, so the intervals are rather too wide.")
        if self.unplaced >= _WORTH_SAYING:
            found.append(
                f"{100 * self.unplaced:.0f} % of the rows lie close together in a range that was counted as a whole; "
                "where in it they lie was not measured. "
                + ("The intervals allow for any place." if self.replicates else "Treat the number as unknown.")
            )
        if any(one.rows and not math.isfinite(one.value) for one in self.numbers):
            found.append(
                "Undetermined: no row has the value, there are too few rows, a predictor depends on the others, or the "
                "outcome is predicted perfectly."
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values, with None for NaN."""
        ends = ([None if math.isnan(end) else end for end in (one.value, one.low, one.high)] for one in self.numbers)
        numbers = [[list(one.group), *own, one.rows] for one, own in zip(self.numbers, ends, strict=True)]
        return asdict(self) | {"numbers": numbers}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        numbers = tuple(
            Estimate(tuple(group), _number(value), _number(low), _number(high), int(rows))
            for group, value, low, high, rows in body["numbers"]
        )
        return cls(
            question=body["question"],
            names=tuple(body["names"]),
            numbers=numbers,
            unknown=tuple((one, other, why) for one, other, why in body["unknown"]),
            replicates=int(body["replicates"]),
            rows_per_unit=int(body["rows_per_unit"]),
            unplaced=float(body.get("unplaced", 0.0)),
        )


def _number(kept: float | None) -> float:
    return math.nan if kept is None else float(kept)


def together(found: Sequence[Estimates]) -> pd.DataFrame:
    """Return all numbers, with their questions."""
    import pandas as pd

    whole = pd.concat([one.table.assign(question=one.question) for one in found])
    return whole[["question", *(name for name in whole.columns if name != "question")]]


def written(found: Sequence[Estimates], out: str | None) -> tuple[str, ...]:
    """Return all numbers as lines of text; if a file is named, also write them as CSV, with their questions."""
    lines = tuple(line for one in found for line in one.lines)
    if out is None:
        return lines
    try:
        together(found).to_csv(path_of(out, "the table of estimates"), index=False)
    except OSError:
        raise InputError(f"'{Path(out).name}' cannot be written. Name a file in a folder that exists.") from None
    return (*lines, f"Wrote {out}.")


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A question about the rows of a schema, group by group.

    Attributes
    ----------
    question : Question
    schema : Schema
    names : tuple of str
        The columns of the values in a group.
    groups : tuple of tuple of int
        The codes of these values.
    terms : tuple of (str, int)
        The terms of a regression: columns, each with the code of a category, or -1 for a number.
    """

    question: Question
    schema: Schema
    names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    terms: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, question: Question, schema: Schema) -> Self:
        """Build the groups of a question, in the order of the declared values."""
        if question.on:
            columns = [schema.modelled_column(name) for name in question.on]
            codes = [[-1] if column.levels else range(1, column.n_values) for column in columns]
            terms = tuple((name, code) for name, own in zip(question.on, codes, strict=True) for code in own)
            if len(terms) > _MOST_TERMS:
                raise ConfigError(f"The regression has more than {_MOST_TERMS} coefficients. Name fewer columns.")
            return cls(question, schema, ("coefficient",), tuple((place,) for place in range(len(terms) + 1)), terms)
        names = (*question.by, *([question.column] if question.kind == "table" else []))
        sizes = (range(schema.modelled_column(name).size) for name in names)
        return cls(question, schema, names, tuple(itertools.product(*sizes)))

    @property
    def _columns(self) -> dict[str, ModelledColumn]:
        return {name: self.schema.modelled_column(name) for name in self.question.columns}

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The printed values of every group, or the names of the coefficients of a regression."""
        if self.terms:
            told = ((name, self.schema.modelled_column(name).texts(), code) for name, code in self.terms)
            return [("constant",), *((name if code < 0 else f"{name} = {own[code]}",) for name, own, code in told)]
        texts = [self.schema.modelled_column(name).texts(missing="missing") for name in self.names]
        return [tuple(own[code] for own, code in zip(texts, group, strict=True)) for group in self.groups]

    def estimated(self, codes: Codes) -> tuple[Vector, Vector]:
        """Return the number of every group in some rows, and how many rows it uses; both of shape (groups,)."""
        if self.terms:
            return self._coefficients(codes)
        values, rows = np.full(len(self.groups), np.nan), np.zeros(len(self.groups))
        numbers, inside = self._inside(codes)
        for place, group in enumerate(self.groups):
            mine = numbers[inside[place]]
            table = self.question.kind == "table"
            rows[place] = np.count_nonzero(mine == group[-1]) if table else len(mine)
            if not len(mine):
                continue
            if table:
                values[place] = rows[place] / len(mine)
            elif self.question.kind == "quantile":
                values[place] = np.quantile(mine, self.question.part)
            else:
                values[place] = mine.mean()
        return values, rows

    def compared(self, codes: Codes, released: Vector, known: Resolutions) -> Vector:
        """Return what is compared between releases, shape (2, groups): the least and the most that a number may be.

        They differ where rows lie anywhere in ranges that were counted as a whole. Of a quantile it is, twice, the
        share of rows below the released one, because quantiles of few values jump and this share does not.
        """
        if self.question.kind in ("share", "table"):
            return np.array(self._shares(codes, known))
        if self.question.kind != "quantile":
            values = self.estimated(codes)[0]
            lower, higher = self._moved(codes, known)
            return np.array([values - lower, values + higher])
        numbers, inside = self._inside(codes)
        parts = zip((numbers[own] for own in inside), released, strict=True)
        below = [(mine < at).mean() + 0.5 * (mine == at).mean() if len(mine) else math.nan for mine, at in parts]
        return np.array([below, below])

    def interval(
        self, codes: Codes, released: Vector, said: Vector, whole: Vector, known: Resolutions
    ) -> tuple[Vector, Vector]:
        """Return the ends of the interval of every group.

        Parameters
        ----------
        codes : array of shape (rows, columns)
        released : array of shape (groups,)
        said : array of shape (replicates, 2, groups)
            What was compared of the second releases.
        whole : array of shape (2, groups)
            The same of their model.
        known : mapping of str to Resolution
        """
        errors = said - whole
        n = len(errors)
        far = float(stdtrit(n - 1, 0.5 + _LEVEL / 2)) * math.sqrt(1.0 + 1.0 / n) * errors.std(axis=0, ddof=1)
        middle = -errors.mean(axis=0)
        if self.question.kind == "quantile":
            return self._quantiles(codes, self.question.part - middle[0], far[0], known)
        low, high = self.compared(codes, released, known) + middle + far * np.array([[-1.0], [1.0]])
        least, most = self._possible
        return np.clip(low, least, most), np.clip(high, least, most)

    @property
    def _possible(self) -> tuple[float, float]:
        """The smallest and the largest number that there can be."""
        if self.question.kind in ("share", "table"):
            return 0.0, 1.0
        if self.question.kind != "mean":
            return -math.inf, math.inf
        column = self.schema.modelled_column(self.question.column)
        own = column.comparable_at(np.array([0, column.levels - 1, *range(column.levels, column.size)]))
        return float(np.nanmin(own)), float(np.nanmax(own))

    def _quantiles(self, codes: Codes, middle: Vector, far: Vector, known: Resolutions) -> tuple[Vector, Vector]:
        """Return the quantiles at the ends of an interval of the level."""
        own_codes = codes[:, self.schema.names.index(self.question.column)]
        numbers, inside = self._inside(codes)
        ends = np.full((2, len(self.groups)), np.nan)
        for place, own in enumerate(inside):
            levels = np.clip([middle[place] - far[place], middle[place] + far[place]], 0.0, 1.0)
            mine = numbers[own]
            if not len(mine) or not np.isfinite(levels).all():
                continue
            if self.question.column in known:
                ends[:, place] = known[self.question.column].widened(mine, own_codes[own], (levels[0], levels[1]))
            else:
                ends[0, place] = np.quantile(mine, levels[0], method="inverted_cdf")
                ends[1, place] = np.quantile(mine, levels[1], method="higher")
        return ends[0], ends[1]

    def _shares(self, codes: Codes, known: Resolutions) -> tuple[Vector, Vector]:
        """Return the smallest and the largest share of every group, wherever rows lie in ranges counted as a whole."""
        column_of = dict(zip(self.schema.names, codes.T, strict=True))
        either = np.broadcast_to(unplaced_rows(self.question.share, known, column_of), len(codes))
        unsure = np.broadcast_to(unplaced_rows(self.question.where, known, column_of), len(codes))
        if not either.any() and not unsure.any():
            values = self.estimated(codes)[0]
            return values, values
        looked, lowest, highest = self._looked(column_of), [], []
        of_all = None if self.question.share is None else holds(self.question.share, self._columns, column_of)
        for group in self.groups:
            mine = self._in_group(column_of, group)
            told, not_told = of_all or self._of_value(column_of, group[-1])
            mine &= told | not_told
            sure, added = (1.0 - unsure) * (mine & looked), unsure[mine].sum()
            least, most = (sure * (1.0 - either))[told].sum(), sure[told].sum() + (sure * either)[not_told].sum()
            of = sure.sum() + added
            lowest.append(least / of if of else math.nan)
            highest.append((most + added) / of if of else math.nan)
        return np.array(lowest), np.array(highest)

    def _moved(self, codes: Codes, known: Resolutions) -> tuple[Vector, Vector]:
        """Return how much lower and higher the mean of every group may be, wherever rows lie in such ranges."""
        found = np.zeros((2, len(self.groups)))
        if self.question.kind == "mean" and self.question.column in known:
            own = codes[:, self.schema.names.index(self.question.column)]
            for place, inside in enumerate(self._inside(codes)[1]):
                moved = known[self.question.column].moved(own[inside])
                found[:, place] = np.array(moved) / max(np.count_nonzero(inside), 1)
        return found[0], found[1]

    def divided(self, codes: Codes, known: Resolutions) -> float:
        """Return which share of the rows may lie on either side of a constant of the question's conditions."""
        return float(np.mean(self._divided(codes, known)))

    def _divided(self, codes: Codes, known: Resolutions) -> Vector:
        column_of = dict(zip(self.schema.names, codes.T, strict=True))
        share, where = (unplaced_rows(one, known, column_of) for one in (self.question.share, self.question.where))
        return np.maximum(np.zeros(len(codes)), np.maximum(share, where))

    def unplaced(self, codes: Codes, known: Resolutions) -> float:
        """Return which share of the rows lies somewhere in a range that was counted as a whole, so that it matters."""
        question, found = self.question, self._divided(codes, known)
        if question.column in known:
            own, values = codes[:, self.schema.names.index(question.column)], self.estimated(codes)[0]
            if question.kind == "mean" and (np.sum(self._moved(codes, known), axis=0) > _FAR * np.abs(values)).any():
                found = np.maximum(found, known[question.column].free(own))
            elif question.kind == "quantile":
                at = [("=", one) for one in values.tolist()]
                found = np.maximum(found, known[question.column].unplaced_at(at, own))
        return float(np.mean(found))

    def _looked(self, column_of: dict[str, Codes]) -> Flags:
        rows = len(next(iter(column_of.values())))
        if self.question.where is None:
            return np.ones(rows, bool)
        return holds(self.question.where, self._columns, column_of)[0]

    def _of_value(self, column_of: dict[str, Codes], code: int) -> tuple[Flags, Flags]:
        """Return which rows have a value of the column of a table, and which another."""
        told = column_of[self.question.column] == code
        return told, ~told

    def _in_group(self, column_of: dict[str, Codes], group: tuple[int, ...]) -> Flags:
        inside = np.ones(len(next(iter(column_of.values()))), bool)
        for name, code in zip(self.question.by, group, strict=False):
            inside &= column_of[name] == code
        return inside

    def _inside(self, codes: Codes) -> tuple[Vector, list[Flags]]:
        """Return the numbers of all rows, for a table codes, and which rows belong to every group."""
        question, schema = self.question, self.schema
        column_of = dict(zip(schema.names, codes.T, strict=True))
        looked = self._looked(column_of)
        if question.share is not None:
            told, not_told = holds(question.share, self._columns, column_of)
            looked = looked & (told | not_told)
            numbers = told.astype(np.float64)
        elif question.kind == "table":
            numbers = column_of[question.column].astype(np.float64)
        else:
            numbers = schema.modelled_column(question.column).comparable_at(column_of[question.column])
            looked = looked & np.isfinite(numbers)
        return numbers, [looked & self._in_group(column_of, group) for group in self.groups]

    def _coefficients(self, codes: Codes) -> tuple[Vector, Vector]:
        """Return the coefficients of a regression over rows without missing cells, and how many rows they use."""
        question, column_of = self.question, dict(zip(self.schema.names, codes.T, strict=True))
        looked = self._looked(column_of)
        if question.share is not None:
            told, not_told = holds(question.share, self._columns, column_of)
            y, full = told.astype(np.float64), looked & (told | not_told)
        else:
            y = self.schema.modelled_column(question.column).comparable_at(column_of[question.column])
            full = looked & np.isfinite(y)
        x = np.ones((len(y), len(self.groups)))
        for place, (name, code) in enumerate(self.terms, start=1):
            column, own = self.schema.modelled_column(name), column_of[name]
            x[:, place] = own == code if code >= 0 else column.comparable_at(own)
            full = full & np.isfinite(x[:, place]) & (own < column.n_values)
        found = _regressed(x[full], y[full], logistic=question.share is not None)
        return found, np.full(len(self.groups), float(np.count_nonzero(full)))


def _regressed(x: Vector, y: Vector, *, logistic: bool) -> Vector:
    """Return coefficients by least squares or maximum likelihood; NaN for those that cannot be determined.

    Predictors are standardised first, so that units do not matter. A value that no row has is left out; if predictors
    depend on each other, or predict the outcome perfectly, nothing is determined.
    """
    found = np.full(x.shape[1], np.nan)
    if len(y) <= x.shape[1] or np.ptp(y) == 0:
        return found
    seen = np.ptp(x, axis=0) > 0
    scale, middle = x[:, seen].std(axis=0), x[:, seen].mean(axis=0)
    z = np.column_stack([np.ones(len(y)), (x[:, seen] - middle) / scale])
    if np.linalg.matrix_rank(z) < z.shape[1]:
        return found
    beta = np.zeros(z.shape[1]) if logistic else np.linalg.lstsq(z, y, rcond=None)[0]
    for _ in range(50 if logistic else 0):
        chance = 1.0 / (1.0 + np.exp(-np.clip(z @ beta, -30.0, 30.0)))
        step = np.linalg.lstsq((z * (chance * (1.0 - chance))[:, None]).T @ z, z.T @ (y - chance), rcond=None)[0]
        beta = beta + step
        if np.abs(step).max() < 1e-9 or np.abs(beta[1:]).max(initial=0.0) > _SEPARATED:
            break
    if logistic and np.abs(beta[1:]).max(initial=0.0) > _SEPARATED:
        return found
    found[seen] = beta[1:] / scale
    found[0] = beta[0] - float(middle @ found[seen])
    return found


def estimate(
    bundle: str | Path,
    *questions: str,
    replicates: int = REPLICATES,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Estimates, ...]:
    """Estimate numbers of the population from a bundle, with intervals that include its noise.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    *questions : str
        Such as "mean income by sex"; all are answered from the same second releases.
    replicates : int
        Second releases to simulate; each takes as long as the fit of the run. 0: no intervals.
    seed : int
        Public seed of the rows in second releases. Their noise is fresh.
    progress : Progress, optional

    Returns
    -------
    tuple of Estimates
        One for each question, in order.

    Raises
    ------
    ConfigError
        If a question is not understood, or the bundle is of a model.
    VerificationError
        If the bundle cannot be read.

    Notes
    -----
    With theta the released number, theta_M that of all rows drawn from the model, and theta_b that of the b-th second
    release, the interval is theta - mean(e) -/+ t s sqrt(1 + 1/B), e_b = theta_b - theta_M, s their standard deviation
    and t Student's quantile with B - 1 degrees of freedom; with so few e_b, their own quantiles would give too short
    intervals. For a quantile, theta is the share of rows below the released one, and the ends are the quantiles of the
    released rows at the ends of that interval about its level (Woodruff 1952), because quantiles of few values jump.
    Where rows may lie anywhere in a range that was counted as a whole, theta has a least and a most possible value, and
    the interval reaches from the lower end of the one to the upper end of the other.
    What the model has lost cannot be lost again, so pairs of columns that were not measured, or that noise hides, get
    no interval.
    """
    if replicates and replicates < _LEAST_REPLICATES:
        raise ConfigError(f"Intervals need at least {_LEAST_REPLICATES} second releases. Use 0 for no intervals.")
    for text in questions:
        if not isinstance(text, str):
            raise ConfigError(f"A question is a text, such as 'mean income by sex', not {type(text).__name__}.")
    fitted, config, answers, rows = saved_generator(bundle)
    schema = config.schema
    asked = [_Asked.of(read_question(text, schema), schema) for text in questions]
    codes = drawn_rows(fitted, config).codes
    released = [one.estimated(codes) for one in asked]
    receipts = [receipt for answer in answers for receipt in answer.receipts]
    # Questions of the run are about the table of people where these are kept whole; its columns are among them.
    names = config.asked.schema.names
    sums = of_kind(answers, NoisyAnswer)
    states = relations_of(sums, receipts, names, rows=rows).states
    resolutions = _resolutions(asked, sums, codes)
    unknown = [tuple(_unknown(one.question, names, states)) for one in asked]
    unplaced = [one.unplaced(codes, resolutions) for one in asked]
    known = {
        one: values
        for one, (values, _), pairs in zip(asked, released, unknown, strict=True)
        # A share allows for both sides; of which rows something else is computed is then unknown.
        if not pairs and (one.question.kind in ("share", "table") or one.divided(codes, resolutions) < _WORTH_SAYING)
    }
    again = {}
    if replicates and known:
        again = _second_releases(fitted, config, known, resolutions, rows, replicates, seed, progress or NullProgress())
    found = []
    for text, one, (values, counts), pairs, far in zip(questions, asked, released, unknown, unplaced, strict=True):
        none = np.full(len(values), np.nan)
        low, high = one.interval(codes, values, *again[one], resolutions) if one in again else (none, none)
        numbers = tuple(
            Estimate(words, float(value), float(first), float(last), int(count))
            for words, value, count, first, last in zip(one.words, values, counts, low, high, strict=True)
        )
        made = replicates if one in again else 0
        each = max(config.asked.schema.unit.rows_per_unit, 1)
        found.append(Estimates(text, one.names, numbers, pairs, made, each, far))
    return tuple(found)


def _resolutions(asked: Sequence[_Asked], sums: Sequence[NoisyAnswer], codes: Codes) -> dict[str, Resolution]:
    """Return how finely the numbers in some questions were counted; means that have a noisy sum are known without."""
    tables, summed, found = measured_tables(sums), summed_numbers(sums), dict[str, Resolution]()
    for one in asked:
        for name in one.question.columns:
            place = one.schema.names.index(name)
            known = Resolution.of(one.schema.modelled_column(name), tables, codes[:, place], summed=name in summed)
            if known is not None:
                found[name] = known
    return found


def _second_releases(
    fitted: Generator,
    config: RunConfig,
    asked: Mapping[_Asked, Vector],
    known: Resolutions,
    rows: float,
    replicates: int,
    seed: int,
    progress: Progress,
) -> dict[_Asked, tuple[Vector, Vector]]:
    """Return what is compared of second releases, shape (replicates, 2, groups), and of their model, (2, groups)."""
    schema = config.schema
    n_rows = max(round(rows), 2)
    if schema.rows_are_public and schema.needs_number_of_units:
        schema = replace(schema, number_of_units=n_rows)
    # How alike the rows of a unit are is unknown: all are copies of one row, which is the worst case.
    each = max(schema.unit.rows_per_unit, 1)
    units = np.arange(n_rows) // each
    ids = [str(unit) for unit in units.tolist()] if schema.unit.id_column is not None else None
    said: dict[_Asked, list[Vector]] = {one: [] for one in asked}
    drawn = []
    for place in range(1, replicates + 1):
        progress.phase(f"Second release {place} of {replicates}")
        made = replace(config, seed=(seed + 7919 * place) % 2**63, rows=n_rows, by_people=schema.people == "whole")
        rows_made = drawn_rows(fitted, made)
        codes = rows_made.codes
        drawn.append(codes)
        # Generators draw rows with little sampling error; units drawn one by one have that of a real sample.
        random = np.random.Generator(np.random.PCG64([seed, place]))
        if rows_made.units is None:
            sample = codes[random.integers(n_rows, size=int(units[-1]) + 1)[units]]
        else:
            places, units = _people_drawn(rows_made.units, random)
            sample, ids = codes[places], [str(unit) for unit in units.tolist()]
        columns = dict(zip(schema.names, sample.T, strict=True))
        table = PrivateTable.from_codes(schema, columns, unit_ids=ids, account_key=bytes(32))
        again = replace(made, schema=schema, rows=config.rows, by_people=config.by_people, device="cpu")
        found = fit_and_sample(again, table, NullProgress(), predict=False)
        for one in asked:
            said[one].append(one.compared(found.codes, asked[one], known))
        progress.step(place, replicates)
    whole = np.concatenate(drawn)
    return {one: (np.array(said[one]), one.compared(whole, released, known)) for one, released in asked.items()}


def _people_drawn(units: NDArray[np.int64], random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw as many people with replacement, each with all of their rows: return these rows and whose they are."""
    count = np.bincount(units)
    first = np.cumsum(count) - count
    who = random.integers(len(count), size=len(count))
    many = count[who]
    whose = np.repeat(np.arange(len(who)), many)
    return np.repeat(first[who] - (np.cumsum(many) - many), many) + np.arange(len(whose)), whose


def _unknown(question: Question, names: Sequence[str], states: NDArray[np.int8]) -> list[tuple[str, str, str]]:
    words = {State.UNMEASURED: "not measured", State.DROWNED: "measured, but noise hides it"}
    found = []
    for one, other in itertools.combinations(question.columns, 2):
        state = State(int(states[names.index(one), names.index(other)]))
        if state in words:
            found.append((one, other, words[state]))
    return found
