"""Attacks on membership: each gives every row a score from the released rows, larger for rows it takes for members.

The attacker holds the released rows and the row in question; what else, each attack says. A new attack is one class
and one entry in :data:`ATTACKS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from synth.reports.counting import CodeTable
from synth.reports.mixed_distance import GowerSpace
from synth.reports.row_density import RowDensity, mean_distances
from synth.schema import Schema

__all__ = ["ATTACKS", "Attack", "AttackScene", "ClosestRecord", "DensityRatio", "seeded_rows"]

_PAIRS_OF_CELLS = 4 * 10**9
"""Cells compared at most with one table; what takes a processor a few seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class AttackScene:
    """What attackers can have.

    Attributes
    ----------
    schema : Schema
        What is public about the table.
    released : CodeTable
        The synthetic rows, at least one.
    reference : CodeTable
        Rows of other people of the same kind, whom nobody trained on; at least one.
    seed : int
        Public.
    """

    schema: Schema
    released: CodeTable
    reference: CodeTable
    seed: int = 0


class Attack(Protocol):
    """How one attacker goes about it."""

    name: ClassVar[str]
    title: ClassVar[str]
    knows: ClassVar[str]
    """What the attacker holds beside the released rows and the row in question, in one sentence."""
    caveat: ClassVar[str]
    """A sentence that belongs to the number, or nothing."""

    def score(
        self, targets: CodeTable, scene: AttackScene, *, on_step: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float64]:
        """Return one score for each row of ``targets``, from that row and the scene alone."""
        ...


class ClosestRecord:
    """Rows that lie close to a released row are taken for members."""

    name: ClassVar[str] = "closest"
    title: ClassVar[str] = "Distance to the closest record"
    knows: ClassVar[str] = "Nothing else."
    caveat: ClassVar[str] = "It measures similarity; it is not a privacy test."

    def score(
        self, targets: CodeTable, scene: AttackScene, *, on_step: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float64]:
        """Return minus Gower's distance to the nearest released row."""
        most = 4 * _PAIRS_OF_CELLS // (max(1, len(targets[0])) * len(targets))
        released = seeded_rows(scene.released, most, seed=scene.seed)
        return -GowerSpace.of(scene.schema).nearest(targets, released, on_step=on_step)


class DensityRatio:
    """Rows that are likelier under the released rows than among people at large are taken for members (DOMIAS).

    The score of DOMIAS (Breugel 2023), with the densities of :mod:`synth.reports.row_density`.

    Notes
    -----
    Kernels are as wide as rows left out ask for. Where rows of few columns fill their range evenly they are wide, and
    copies of rows are then found by :class:`ClosestRecord` alone.
    """

    name: ClassVar[str] = "density"
    title: ClassVar[str] = "Density ratio (DOMIAS)"
    knows: ClassVar[str] = "Rows of other people of the same kind, whom nobody trained on."
    caveat: ClassVar[str] = ""

    def score(
        self, targets: CodeTable, scene: AttackScene, *, on_step: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float64]:
        """Return log p(row | released) - log p(row | reference)."""
        most = max(200, _PAIRS_OF_CELLS // (max(1, len(targets[0])) * len(targets)))
        spreads = mean_distances(scene.released, scene.schema, seed=scene.seed)
        total = np.zeros(len(targets[0]))
        for place, (rows, sign) in enumerate(((scene.released, 1.0), (scene.reference, -1.0))):
            density = RowDensity.fit(
                seeded_rows(rows, most, seed=scene.seed), scene.schema, spreads=spreads, seed=scene.seed
            )
            total += sign * density.log_probability(targets)
            if on_step is not None:
                on_step(place + 1, 2)
        return total


ATTACKS: tuple[Attack, ...] = (ClosestRecord(), DensityRatio())
"""All attacks of the report, in its order."""


def seeded_rows(rows: CodeTable, most: int, *, seed: int) -> CodeTable:
    """Return the rows, or where there are more than ``most`` a sample of them drawn by a public seed."""
    n_rows = len(rows[0])
    if n_rows <= max(1, most):
        return rows
    kept = np.sort(np.random.default_rng([seed, 6]).choice(n_rows, size=max(1, most), replace=False))
    return [codes[kept] for codes in rows]
