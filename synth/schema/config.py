"""What one run is asked to do, and how the cells of its table's file are written."""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from synth.errors import ConfigError
from synth.limits import COLUMNS
from synth.names import shown
from synth.schema.schema import Schema

__all__ = [
    "MOST_CHARGED_CLASSES",
    "OptionValue",
    "RunConfig",
    "TableFormat",
    "default_delta",
    "prediction_refusal",
]

OptionValue = str | int | float | bool | None | tuple["OptionValue", ...]

MAXIMUM_ROWS = 50_000_000

_CODECS = {"utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16", "utf-16-le", "utf-16-be"}

MOST_CHARGED_CLASSES = 10
"""Most classes of a label whose predictions can be charged: with more, counts by guess and label are noise."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How the cells of a table file are written.

    ``comment``: lines at the top of the file that begin with this text are skipped. ``skip_rows`` lines are skipped
    after them and before the header, or before the first row of a file without one. ``names`` are the column names of a
    file without a header, which declares its separator too. ``newlines``: cells in quotation marks may hold line
    breaks; whoever says so says that every quotation mark is closed.
    """

    separator: str = "auto"
    header: bool = True
    names: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ("",)
    strip: bool = True
    skip_rows: int = 0
    comment: str | None = None
    kind: Literal["auto", "csv", "tsv", "parquet"] = "auto"
    newlines: bool = False

    def __post_init__(self) -> None:
        if self.separator != "auto" and len(self.separator) != 1:
            raise ConfigError("format: separator must be one character, or auto.")
        if not self.header and not self.names:
            raise ConfigError("format: a table without a header needs 'names', one for every column in order.")
        if self.header and self.names is not None:
            raise ConfigError("format: give 'names' only with 'header: false'.")
        if self.skip_rows < 0:
            raise ConfigError(f"format: skip_rows must not be negative, got {self.skip_rows}.")

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
        """What the certificate says has to be true of the file, because no reader could hold it."""
        if not self.newlines or self.kind == "parquet":
            return ()
        return (
            "Every quotation mark of the table is closed: its cells may hold line breaks (declared as newlines: true), "
            "so an open quotation mark would draw the lines of other units into its own.",
        )

    def check(self) -> None:
        """Refuse a format that leaves open what could only be guessed from rows; nothing is read for that.

        It is no condition of the object itself, so that bundles made before it still open.

        Raises
        ------
        ConfigError
            If the encoding is unknown, there are too many names, the separator is no plain character, or a table
            without a header leaves its separator open or has comments, which could not be told from rows.
        """
        if not self.codec:
            raise ConfigError(
                f"format: the encoding '{shown(self.encoding)}' is not known here. Use utf-8, latin-1 or utf-16."
            )
        if self.names is not None and len(self.names) > COLUMNS:
            raise ConfigError(f"format: names has {len(self.names):,} entries, and at most {COLUMNS:,} are possible.")
        if self.separator != "auto" and (not self.separator.isascii() or self.separator in '"\r\n\0'):
            raise ConfigError("format: the separator must be one plain character, for example a comma.")
        if self.header or self.kind == "parquet":
            return
        if self.separator == "auto" and self.kind != "tsv":
            raise ConfigError(
                "format: a table without a header needs its separator; it could only be guessed from rows otherwise. "
                'Write for example separator: ",".'
            )
        if self.comment:
            raise ConfigError(
                "format: 'comment' needs a header; without one a row could be taken for a comment. Say with "
                "'skip_rows' how many lines stand before the first row."
            )


def default_delta(people_at_most: int) -> float:
    """Return min(1e-6, 1 / (10 people)), rounded down to a power of ten.

    The number of people is the declared one, never the count of a private table.

    Raises
    ------
    ConfigError
        If it is below 1.
    """
    _require_people(people_at_most)
    return float(10.0 ** min(-6, math.floor(-math.log10(10 * people_at_most) + 1e-12)))


def _require_people(people_at_most: int) -> None:
    if people_at_most < 1:
        raise ConfigError(f"people_at_most must be at least 1, got {people_at_most:,}.")


def prediction_refusal(schema: Schema, label: str | None, holdout: float) -> str | None:
    """Say in one sentence why predictions on the hold-out cannot be charged, or return None where they can."""
    if schema.protection == "cell":
        return "where one cell is protected no sum may be asked. Declare 'protection: record' or leave it out."
    if label is None:
        return "no label is declared. Name the column to predict under 'label:' or leave it out."
    if holdout == 0:
        return (
            "nobody is held out. Write for example 'holdout: 0.2' or leave it out; a test_table does not count, as its "
            "people may be in the table too."
        )
    column = schema.modelled_column(label)
    classes = column.size - (column.missing_code is not None)
    scale = column.levels > 2
    if scale or not 2 <= classes <= MOST_CHARGED_CLASSES:
        return (
            f"the label '{label}' must have 2 to {MOST_CHARGED_CLASSES} classes, got "
            f"{'a number or date' if scale else f'{classes:,}'}. Declare a label of few classes or leave it out."
        )
    return None


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything one run needs to know; nothing in it comes from rows.

    ``table`` and ``test_table`` are where the files lie on the owner's machine and never leave it
    (:meth:`published` drops them). ``seed`` is public and seeds training and sampling, never the privacy noise.
    ``evaluation_share`` and ``prediction_share`` are parts of mu^2 for the two charged parts of the report: one-way
    tables where the generator measures none, and predictions on the hold-out.
    """

    schema: Schema
    account: str
    epsilon: float
    rows: int
    delta: float
    people_at_most: int
    generator: str = "dp-hp-adaptive"
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    table: str | None = None
    test_table: str | None = None
    format: TableFormat = TableFormat()
    test_format: TableFormat | None = None
    undeclared: Literal["refuse", "drop"] = "refuse"
    holdout: float = 0.2
    label: str | None = None
    groups: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    seed: int = 0
    device: str = "auto"
    evaluation_share: float = 0.1
    prediction_share: float = 0.0
    domain_source: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ConfigError(f"budget: epsilon must be positive and finite, got {self.epsilon:g}.")
        if not 0 < self.delta < 1:
            raise ConfigError(f"budget: delta must be between 0 and 1, got {self.delta:g}.")
        _require_people(self.people_at_most)
        if not 1 <= self.rows <= MAXIMUM_ROWS:
            raise ConfigError(f"rows must be between 1 and {MAXIMUM_ROWS:,}, got {self.rows:,}.")
        if not 0 <= self.holdout < 1:
            raise ConfigError(f"holdout must be at least 0 and below 1, got {self.holdout:g}.")
        if not 0 <= self.evaluation_share < 1:
            raise ConfigError(f"evaluation_share must be at least 0 and below 1, got {self.evaluation_share:g}.")
        if not 0 <= self.prediction_share < 1:
            raise ConfigError(f"prediction_share must be at least 0 and below 1, got {self.prediction_share:g}.")
        if not self.account.strip():
            raise ConfigError("account must name the people the ledger protects, for example city-survey-2026.")
        if self.device not in {"auto", "cpu", "cuda"}:
            raise ConfigError(f"device must be auto, cpu or cuda, got {self.device}.")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed}.")
        self._check_columns()

    def _check_columns(self) -> None:
        if self.label is not None:
            self.schema.modelled_column(self.label)
        for name in self.groups:
            self.schema.modelled_column(name)
        refusal = prediction_refusal(self.schema, self.label, self.holdout) if self.prediction_share else None
        if refusal is not None:
            raise ConfigError(f"prediction_share cannot be used: {refusal}")

    def published(self) -> RunConfig:
        """Return the configuration as it may leave the machine: without paths."""
        return replace(self, table=None, test_table=None)
