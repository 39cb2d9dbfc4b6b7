"""Every noisy count among paid answers, cell by cell: which values it counts, the count, and its error.

A count's standard error is the standard deviation of the noise that its mechanism added; the interval of its share is
that of :func:`synth.reports.interval_estimates.share_interval`, as in all reports. What is written is as long as the
answers, whatever the declared ranges.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.names import shown
from synth.privacy.answers import ROW_COUNT_QUERY, NoisyAnswer, RowCount
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.em_steps import EMStepQuestion
from synth.privacy.more.forests import Forest
from synth.privacy.more.found_values import FoundValues
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.gradients import NoisyGradient
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import Responsibilities
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.questions import Answer
from synth.privacy.selection import Selection
from synth.reports.code_tables import bin_labels
from synth.reports.figures import MAXIMUM_POINTS, Bars, Series
from synth.reports.interval_estimates import share_interval
from synth.reports.measured import BAR, tables_of
from synth.schema import FindColumn, Schema, column_title, guarded

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CountedTable", "Counts", "counts_of"]

_HELD: dict[type, str] = {
    Lookup: "sums of public functions of the cells",
    Forest: "counts by the prediction of a public tree",
    Fourier: "sums of random features",
    Constant: "numbers of rows within such sums",
    RowMoments: "moments of whole rows",
    Responsibilities: "sums of responsibilities",
    Losses: "losses of a public predictor",
    LinearGuess: "counts by the guess of a public classifier",
    OneHot: "counts of the kinds and the size of cells",
    NoisyGradient: "gradients of a loss",
    NoisySteps: "steps of a training",
    PerturbedRows: "noisy rows",
    Selection: "private choices",
}
"""What an answer that is no count of values holds, in the words of a list."""

_NO_COUNTS = "This bundle holds no noisy counts: its measurements are"
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class CountedTable:
    """One table of noisy counts, with its values in the declared words.

    Attributes
    ----------
    question : str
        The question that it answers.
    part : str
        The rows that were counted: "train", "holdout", or "found" for all rows before a run.
    columns : tuple of str
        None for the number of rows.
    values : tuple of tuple of str
        By column, the words of each bin: a value, or the first and the last value.
    counts : array of shape (bins of the first column, ...)
    standard_error : float
        Standard deviation of the noise in every count.
    rows : RowCount, optional
        The number of all rows that were counted, where it is known; only then is a share known.
    rows_per_unit : int
    of_ranges : bool
        Whether every bin is one value, or all values from its first to its last.
    titles : tuple of str
        What a reader is told that each column is.
    counted : str
        What is counted: rows, or units that are kept whole.
    """

    question: str
    part: str
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    counts: NDArray[np.float64]
    standard_error: float
    rows: RowCount | None = None
    rows_per_unit: int = 1
    of_ranges: bool = True
    titles: tuple[str, ...] = ()
    counted: str = "rows"

    @property
    def name(self) -> str:
        """Its columns and its question."""
        return f"{', '.join(self.columns)} ({self.question})" if self.columns else self.question

    @property
    def title(self) -> str:
        """Its columns in words, its shape and its question, which tell it from all others in a list to choose from."""
        if not self.columns:
            return f"number of {self.counted}" if self.question == ROW_COUNT_QUERY else self.question
        # A question that names its columns need not name them again.
        asked = self.question.removesuffix(f": {' x '.join(self.columns)}")
        shape = " x ".join(f"{size:,}" for size in self.counts.shape)
        return f"{' and '.join(self.titles or self.columns)}: {shape} counts ({asked})"

    def share_interval(self, count: float) -> tuple[float, float, float]:
        """Return a count's share of all rows and the ends of its 95 % interval; NaN where these are not known."""
        if self.rows is None:
            return math.nan, math.nan, math.nan
        share = min(max(count / max(self.rows.value, 1.0), 0.0), 1.0)
        ends = share_interval(count, self.standard_error, self.rows, rows_per_unit=self.rows_per_unit)
        return share, *ends

    def frame(self, width: int) -> pd.DataFrame:
        """Return one line for each count, with room for the values of ``width`` columns."""
        import pandas as pd

        flat = self.counts.reshape(-1)
        cells = np.unravel_index(np.arange(flat.size), self.counts.shape) if self.columns else ()
        frame = pd.DataFrame({"question": guarded(self.question), "part": self.part}, index=range(flat.size))
        for place in range(width):
            known = place < len(self.columns)
            words = np.array([guarded(one) for one in self.values[place]] if known else [], dtype=object)
            frame[f"column_{place + 1}"] = guarded(self.columns[place]) if known else None
            frame[f"value_{place + 1}"] = words[cells[place]] if known else None
        frame["count"], frame["standard_error"] = flat, self.standard_error
        shares = np.array([self.share_interval(count) for count in flat.tolist()]).reshape(-1, 3)
        frame[["share", "share_low", "share_high"]] = shares
        return frame

    @property
    def bars(self) -> Bars | None:
        """A table of one column as a histogram, with the noise as bars; None if it has more bins than can be seen."""
        if len(self.columns) != 1 or self.counts.size > MAXIMUM_POINTS:
            return None
        errors = (BAR * self.standard_error,) * self.counts.size
        measured = Series("noisy counts", "measured", tuple(self.counts.tolist()), errors)
        return Bars(self.titles[0], self.counted, self.values[0], (measured,), subtitle=self.error_words)

    @property
    def error_words(self) -> str:
        """The error of each count, in words."""
        error = f"±{BAR * self.standard_error:,.3g} {self.counted}"
        return f"Each count is within {error} of the exact one, with 95 % probability."


@dataclass(frozen=True, slots=True)
class Counts:
    """All noisy counts of a bundle, and in words what its other answers hold."""

    tables: tuple[CountedTable, ...]
    others: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What the bundle holds besides counts, or instead of them; empty if there is nothing else."""
        if not self.others:
            return ""
        listed = ", ".join(self.others[:-1]) + " and " + self.others[-1] if len(self.others) > 1 else self.others[0]
        return f"Not listed, because they count no values: {listed}." if self.tables else f"{_NO_COUNTS} {listed}."

    def only(self, asked: Sequence[str]) -> Counts:
        """Return the tables of some questions, each named by itself or by its columns with commas between them.

        Raises
        ------
        InputError
            If there is no such table.
        """
        wanted = [[table for table in self.tables if _is_asked(table, one)] for one in asked]
        missing = next((one for one, found in zip(asked, wanted, strict=True) if not found), None)
        if missing is not None:
            names = list(dict.fromkeys(", ".join(table.columns) or table.question for table in self.tables))
            more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            raise InputError(
                f"Nothing was counted for '{shown(missing)}'. Counted were: {'; '.join(names[:_MOST_NAMED])}{more}."
            )
        chosen = {id(table) for found in wanted for table in found}
        return Counts(tuple(table for table in self.tables if id(table) in chosen)) if asked else self

    @property
    def width(self) -> int:
        """The most columns of a table."""
        return max((len(table.columns) for table in self.tables), default=0)

    @property
    def frame(self) -> pd.DataFrame:
        """All counts, one line for each; :meth:`write_csv` says what the columns are.

        Raises
        ------
        InputError
            If there are no counts; the message says what the bundle holds instead.
        """
        import pandas as pd

        frames = [table.frame(self.width) for table in self._required()]
        return pd.concat([one.astype(object) for one in frames], ignore_index=True).infer_objects()

    def write_csv(self, target: TextIO) -> None:
        """Write all counts as CSV, one table after the other, one line for each count.

        ``question`` and ``part`` say what was asked of which rows; ``column_1``, ``value_1`` and so on, which values
        are counted; ``count`` and ``standard_error`` are in rows; ``share`` is the share of all rows, with the 95 %
        interval of the population's share.

        Raises
        ------
        InputError
            As :attr:`frame`.
        """
        for place, table in enumerate(self._required()):
            table.frame(self.width).to_csv(target, index=False, header=place == 0, lineterminator="\n")

    @property
    def csv(self) -> str:
        """The text that :meth:`write_csv` writes."""
        target = io.StringIO()
        self.write_csv(target)
        return target.getvalue()

    def _required(self) -> tuple[CountedTable, ...]:
        if not self.tables:
            raise InputError(self.sentence or f"{_NO_COUNTS} nothing that was counted.")
        return self.tables


def _is_asked(table: CountedTable, asked: str) -> bool:
    names = [name.strip() for name in asked.split(",")]
    return asked in (table.question, table.name) or (bool(table.columns) and sorted(names) == sorted(table.columns))


def counts_of(answers: Iterable[Answer], schema: Schema, rows: RowCount | None, *, part: str | None = None) -> Counts:
    """Return the noisy counts among some answers: in the order of their columns, those of a column alone first.

    Of the same columns, tables of whole ranges come first, and the shortest of them.

    Parameters
    ----------
    answers : iterable of Answer
    schema : Schema
        What was declared when they were asked.
    rows : RowCount, optional
        The number of rows of the training part.
    part : str, optional
        What to call the rows, where they are not those of a part of a run.
    """
    tables: list[CountedTable] = []
    others: dict[str, None] = {}
    for answer in answers:
        mine, held = _of_answer(answer, schema, rows, part)
        tables += mine
        others |= dict.fromkeys(held)
    place = {name: at for at, name in enumerate(schema.names)}

    def order(table: CountedTable) -> tuple[Any, ...]:
        own = [place[name] for name in table.columns]
        return len(own), own, not table.of_ranges, table.counts.size

    return Counts(tuple(sorted(tables, key=order)), tuple(others))


def _of_answer(
    answer: Answer, schema: Schema, rows: RowCount | None, part: str | None
) -> tuple[list[CountedTable], list[str]]:
    """Return the tables of counts of one answer, and words for what else it holds."""
    k = schema.unit.rows_per_unit
    if isinstance(answer, FoundValues):
        found = []
        for name in answer.question.columns:
            counts = answer.counts(name)
            if counts:
                held = np.array(list(counts.values()))
                found.append(
                    CountedTable(
                        answer.query,
                        part or "train",
                        (name,),
                        (tuple(counts),),
                        held,
                        answer.receipt.noise_scale,
                        titles=(name,),
                    )
                )
        return found, []
    if not isinstance(answer, NoisyAnswer):
        steps = isinstance(answer, NoisyGradient) and isinstance(answer.question, EMStepQuestion)
        return [], ["steps of EM" if steps else _HELD[type(answer)]]
    own = answer.receipt.part
    known = rows if part is None and own == "train" else None
    if isinstance(answer.feature_map, Constant):
        value = np.asarray(answer.value, dtype=np.float64).reshape(-1)
        of = schema.unit.counted
        return [CountedTable(answer.receipt.query, part or own, (), (), value, answer.noise_std, counted=of)], []
    tables = []
    for table in tables_of(answer):
        columns = [schema.modelled_column(name) for name in table.columns]
        if any(isinstance(column, FindColumn) for column in columns):
            return [], [_HELD[OneHot]]
        labels = tuple(bin_labels(column, bins) for column, bins in zip(columns, table.bins, strict=True))
        counted = CountedTable(
            question=table.query,
            part=part or own,
            columns=table.columns,
            values=labels,
            counts=table.counts,
            standard_error=table.noise_std,
            rows=known,
            rows_per_unit=k,
            of_ranges=all(one.order is None and one.table.shape[1] == len(one.used) for one in table.bins),
            titles=tuple(column_title(schema, name) for name in table.columns),
            counted=schema.unit.counted,
        )
        tables.append(counted)
    return tables, list(_held_by(answer.feature_map))


def _held_by(question: FeatureMap) -> Iterator[str]:
    """Yield words for the parts of a question that are no tables of counts of values."""
    if isinstance(question, Stack):
        for part in question.parts:
            yield from _held_by(part)
    elif isinstance(question, Product):
        others = [factor for factor in question.factors if not isinstance(factor, OneHot)]
        for factor in others[:1]:
            yield from _held_by(factor)
        columns = [name for factor in question.factors for name in factor.columns]
        if not others and len(set(columns)) < len(columns):
            yield "products of counts of one column"
    elif not isinstance(question, OneHot):
        yield _HELD[type(question)]
