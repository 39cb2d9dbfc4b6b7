"""Attacks on membership: each gives every row a score from the released rows, larger for rows it takes for members.

The attacker holds the released rows and the row in question; what else, each attack says. A new attack is one class
(:class:`synth.reports.attack_scene.Attack`) and one entry in :data:`ATTACKS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from synth.reports.attack_scene import Attack, AttackScene, Extra, seeded_rows
from synth.reports.counting import CodeTable
from synth.reports.hull_attack import HullDistance
from synth.reports.mixed_distance import GowerSpace
from synth.reports.row_density import RowDensity, mean_distances
from synth.system.packages import is_installed

__all__ = ["ATTACKS", "ClosestRecord", "DensityRatio"]

_PAIRS_OF_CELLS = 4 * 10**9
"""Cells compared at most with one table; what takes a processor a few seconds."""

_SAMPLED = "Of a large table a sample of rows is compared, so a copy may be overlooked."


class ClosestRecord:
    """Rows that lie close to a released row are taken for members."""

    name: ClassVar[str] = "closest"
    title: ClassVar[str] = "Closest record"
    knows: ClassVar[str] = "Nothing else."
    caveat: ClassVar[str] = f"It measures similarity; it is not a privacy test. {_SAMPLED}"

    def score(
        self, targets: CodeTable, scene: AttackScene, *, on_step: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float64]:
        """Return minus Gower's distance to the nearest released row."""
        most = 4 * _PAIRS_OF_CELLS // (max(1, len(targets[0])) * len(targets))
        released = seeded_rows(scene.released, most, seed=scene.seed)
        return -GowerSpace.of(scene.schema).nearest(targets, released, on_step=on_step)

    def extras(self, members: NDArray[np.float64], non_members: NDArray[np.float64], *, seed: int) -> tuple[Extra, ...]:
        """Return nothing further."""
        return ()


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
    caveat: ClassVar[str] = _SAMPLED

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

    def extras(self, members: NDArray[np.float64], non_members: NDArray[np.float64], *, seed: int) -> tuple[Extra, ...]:
        """Return nothing further."""
        return ()


ATTACKS: tuple[Attack, ...] = (ClosestRecord(), DensityRatio(), *([HullDistance()] if is_installed("torch") else []))
"""All attacks of the report, in its order."""
