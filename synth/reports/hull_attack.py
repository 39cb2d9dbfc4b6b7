"""The KAHM score as an attack: rows near an affine hull of the released rows are taken for members."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.row_encoding import RowEncoding
from synth.reports.attack_scene import AttackScene, Extra, seeded_rows
from synth.reports.counting import CodeTable
from synth.schema import Schema

__all__ = ["HullDistance"]

_MOST_RELEASED = 5000
_MOST_COMPARED = 2000
"""Distances of each side that densities are compared from: their null estimates a hundred densities."""

_WIDEST = 256
"""Coordinates beyond which rows are projected by a public random matrix, which keeps distances nearly as they are."""


class HullDistance:
    """Distance to kernel affine hulls of released rows, and the difference of its densities (Kumar 2024, eq. 69)."""

    name: ClassVar[str] = "hull"
    title: ClassVar[str] = "Affine hulls (KAHM)"
    knows: ClassVar[str] = "Nothing else."
    caveat: ClassVar[str] = f"It looks at no more than {_MOST_RELEASED:,} released rows."

    def score(
        self, targets: CodeTable, scene: AttackScene, *, on_step: Callable[[int, int], None] | None = None
    ) -> NDArray[np.float64]:
        """Return minus the distance to the hulls of at most 5,000 released rows."""
        from synth.models.kahm_classifier import KahmClassifier  # brings torch, which not every installation has

        released = seeded_rows(scene.released, _MOST_RELEASED, seed=scene.seed)
        rows, points = (_coordinates(table, scene.schema, seed=scene.seed) for table in (released, targets))
        model = KahmClassifier(seed=scene.seed).fit(rows, np.zeros(len(rows), dtype=np.int64))
        if on_step is not None:
            on_step(1, 2)
        distances: NDArray[np.float64] = model.distances(points).min(axis=1)
        if on_step is not None:
            on_step(2, 2)
        # Rows that no hull is near at all are as far as can be.
        return -np.nan_to_num(distances, nan=np.finfo(np.float64).max, posinf=np.finfo(np.float64).max)

    def extras(self, members: NDArray[np.float64], non_members: NDArray[np.float64], *, seed: int) -> tuple[Extra, ...]:
        """Return the KAHM score: how far apart the densities of the two sides' distances are, with its null."""
        from synth.reports.membership_score import membership_score_of_distances  # as above

        mine, theirs = (seeded_rows([-side], _MOST_COMPARED, seed=seed)[0] for side in (members, non_members))
        try:
            score = membership_score_of_distances(mine, theirs, seed=seed)
        except InputError:
            return ()
        verdict = (
            "It stands out from guessing"
            if score.stands_out
            else "It does not stand out from guessing, as the guarantee predicts; it is not extra proof"
        )
        sentence = (
            f"The squared difference of the densities of both sides' distances, without a unit. {verdict}: 95 % of "
            f"{score.permutations} splits by lot lie below {score.null_95:.3g}. From at most {_MOST_COMPARED:,} units "
            "of each side."
        )
        return (Extra("score", "KAHM score", score.unit_free, "", sentence),)


def _coordinates(table: CodeTable, schema: Schema, *, seed: int) -> NDArray[np.float64]:
    """Return rows as vectors, projected where they would be very wide."""
    vectors = RowEncoding.of(schema, schema.names)
    if vectors.width <= _WIDEST:
        return vectors.encode(np.column_stack([codes.astype(np.int64) for codes in table]))
    random = np.random.default_rng([seed, 8])
    total = np.zeros((len(table[0]), _WIDEST))
    for column, lookup, codes in zip(vectors.columns, vectors.tables, table, strict=True):
        matrix = random.normal(0.0, _WIDEST**-0.5, size=(column.width, _WIDEST))
        # A code at a time: a long list of categories is never written out for every row.
        present, place = np.unique(codes, return_inverse=True)
        total += (lookup.evaluate({column.column.name: present.astype(np.int64)}) @ matrix)[place]
    return total
