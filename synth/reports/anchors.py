"""What an owner's numbers are read beside: the independent control, and a bootstrap of the private rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synth.reports.control import owner_control
from synth.reports.counting import CodeTable
from synth.schema import Schema

__all__ = ["Anchored", "anchored"]

_MAXIMUM_ROWS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Anchored:
    """Tables of codes in ``schema.names`` order; all but ``real`` have the same number of rows.

    Attributes
    ----------
    schema : Schema
        The declared columns.
    seed : int
        Public; whoever compares the tables draws by it too.
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
    """Put private and synthetic rows beside the control and the floor.

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
