"""The independent control: rows whose single columns are right, up to noise, and nothing else.

Once the one-way tables are known it costs nothing more, so every other table must beat it. The floor, a bootstrap of
the private rows, is shown beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.sampling import rounded_counts
from synth.models.simplex import project_to_simplex
from synth.privacy.bins import Bins
from synth.reports.code_tables import CodeTable, coarse_bins
from synth.schema import Schema

__all__ = [
    "Anchored",
    "OneWay",
    "anchored",
    "independent_columns",
    "independent_rows",
    "owner_control",
]


@dataclass(frozen=True, slots=True, eq=False)
class OneWay:
    """Counts of one column, over bins of its codes.

    ``bins`` are those of the column; ``counts`` has shape (n_bins,), in rows, and may be noisy.
    """

    bins: Bins
    counts: NDArray[np.float64]


def independent_rows(tables: Sequence[OneWay], *, n_rows: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw rows whose columns follow noisy one-way tables and are unrelated to each other.

    Parameters
    ----------
    tables : sequence of OneWay
        One for each column; negative counts are allowed.
    n_rows : int
        Rows to draw, at least 1.
    seed : int
        Public.

    Returns
    -------
    list of arrays of shape (n_rows,), int64
        Codes, one array per column; inside a bin every code is as likely.
    """
    return list(independent_columns(tables, n_rows=n_rows, seed=seed))


def independent_columns(tables: Sequence[OneWay], *, n_rows: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the columns of :func:`independent_rows` one after the other, so that none has to be held beside others."""
    random = np.random.default_rng([seed, len(tables)])
    for table in tables:
        total = max(float(table.counts.sum()), 1.0)
        drawn = np.repeat(
            np.arange(len(table.counts)), rounded_counts(project_to_simplex(table.counts / total), n_rows, random)
        )
        codes = _codes_inside(table.bins, drawn, random)
        yield random.permutation(codes)


def owner_control(
    private: CodeTable, schema: Schema, noise: float, *, n_rows: int, seed: int
) -> list[NDArray[np.int64]]:
    """Draw the control of an owner-only report, from counts of private rows with as much noise as a budget buys.

    The noise is not privacy noise: it shows the owner the effect of noise of this size, and nothing of it leaves the
    owner's screen.

    Parameters
    ----------
    private : CodeTable
        Codes in ``schema.names`` order.
    schema : Schema
    noise : float
        Standard deviation on every count, in rows.
    n_rows : int
        Rows to draw.
    seed : int
        Public.
    """
    random = np.random.default_rng([seed, 2])
    tables = []
    for column, codes in zip(schema.modelled, private, strict=True):
        bins = coarse_bins(column)
        counts = np.bincount(bins[codes], minlength=bins.count)
        tables.append(OneWay(bins, counts + random.normal(0.0, noise, size=len(counts))))
    return independent_rows(tables, n_rows=n_rows, seed=seed)


def _codes_inside(bins: Bins, drawn: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    width = bins.widths[drawn]
    inside = (random.random(len(drawn)) * width).astype(np.int64)
    return bins.codes(drawn, np.minimum(inside, width - 1))


# What an owner's numbers are compared with ----------------------------------------------------------------------------


_MAXIMUM_ROWS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Anchored:
    """Tables of codes in ``schema.names`` order; all but ``real`` have the same number of rows.

    Attributes
    ----------
    schema : Schema
        The declared columns.
    seed : int
        Public; also used to draw when the tables are compared.
    real : CodeTable
        The private rows, or a seeded sample of them.
    synthetic : CodeTable
        The synthetic rows, or a seeded sample of them.
    control : CodeTable
        Columns with this run's noise, unrelated to each other.
    floor : CodeTable
        A bootstrap: another draw of the same private rows.
    """

    schema: Schema
    seed: int
    real: CodeTable
    synthetic: CodeTable
    control: CodeTable
    floor: CodeTable

    @property
    def tables(self) -> tuple[CodeTable, CodeTable, CodeTable, CodeTable]:
        """All four, the private rows first."""
        return self.real, self.synthetic, self.control, self.floor


def anchored(
    private: CodeTable,
    synthetic: CodeTable,
    schema: Schema,
    *,
    control_noise: float,
    seed: int,
    maximum_rows: int = _MAXIMUM_ROWS,
) -> Anchored:
    """Return private and synthetic rows together with the control and the floor.

    Parameters
    ----------
    private, synthetic : CodeTable
        Codes in ``schema.names`` order, one array per column; at least one row each.
    schema : Schema
        The declared columns.
    control_noise : float
        Standard deviation, in rows, of the noise on every cell of the control's one-way tables: what the whole budget
        of the run would buy (``synth.reports.forecast.one_way_noise``).
    seed : int
        Public; draws samples, control and bootstrap.
    maximum_rows : int
        Of larger tables a seeded sample of this many rows is taken.
    """
    random = np.random.default_rng([seed, 1])
    real = _at_most(private, maximum_rows, random)
    made = _at_most(synthetic, maximum_rows, random)
    control = owner_control(private, schema, control_noise, n_rows=len(made[0]), seed=seed)
    drawn = random.integers(len(real[0]), size=len(made[0]))
    return Anchored(schema, seed, real, made, control, [codes[drawn] for codes in real])


def _at_most(table: CodeTable, rows: int, random: np.random.Generator) -> CodeTable:
    if len(table[0]) <= rows:
        return [codes.astype(np.int64) for codes in table]
    kept = np.sort(random.choice(len(table[0]), size=rows, replace=False))
    return [codes[kept].astype(np.int64) for codes in table]
