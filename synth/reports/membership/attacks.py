"""Attacks on membership: each gives every row a score from the released rows, larger for likely members.

The attacker holds the released rows and the row in question; each attack says what else. A new attack is one class
(:class:`Attack`) and one entry in :data:`ATTACKS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.row_encoding import RowEncoding
from synth.progress import OnStep, unwatched
from synth.reports.code_tables import CodeTable
from synth.reports.membership.distances import GowerSpace
from synth.schema import ModelledColumn, Schema
from synth.system.packages import is_installed

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackScene",
    "ClosestRecord",
    "DensityRatio",
    "Described",
    "Extra",
    "HullDistance",
    "RowDensity",
    "mean_distances",
    "seeded_rows",
]


@dataclass(frozen=True, slots=True)
class Extra:
    """A further number of an attack: name, title, value, unit and one sentence."""

    name: str
    title: str
    value: float
    unit: str
    sentence: str


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
        Rows of other people of the same kind, none of which were used for training; at least one.
    seed : int
        Public.
    device : {"cpu", "cuda"}
        Where distances are computed; no score depends on it.
    """

    schema: Schema
    released: CodeTable
    reference: CodeTable
    seed: int = 0
    device: str = "cpu"


class Described(Protocol):
    """How an attack is described."""

    name: ClassVar[str]
    title: ClassVar[str]
    knows: ClassVar[str]
    """What the attacker holds besides the released rows and the row in question, in one sentence."""
    caveat: ClassVar[str]
    """A sentence of caution, or nothing."""


class Attack(Described, Protocol):
    """The method of one attacker."""

    def score(self, targets: CodeTable, scene: AttackScene, *, on_step: OnStep = unwatched) -> NDArray[np.float64]:
        """Return one score for each row of ``targets``, from that row and the scene alone."""
        ...

    def extras(self, members: NDArray[np.float64], non_members: NDArray[np.float64], *, seed: int) -> tuple[Extra, ...]:
        """Return further numbers that come with the attack, from the scores of both sides; none by default."""
        return ()


def seeded_rows(rows: CodeTable, most: int, *, seed: int) -> CodeTable:
    """Return the rows, or where there are more than ``most`` a sample of them drawn by a public seed."""
    n_rows = len(rows[0])
    if n_rows <= max(1, most):
        return rows
    kept = np.sort(np.random.default_rng([seed, 6]).choice(n_rows, size=max(1, most), replace=False))
    return [codes[kept] for codes in rows]


# A density of rows --------------------------------------------------------------------------------------------------


_SHARPNESS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LEFT_OUT = 400
"""Rows left out to choose the sharpness."""

_PAIRS = 10_000
_LEAST_SPREAD = 1e-4
"""A column whose rows agree is as sharp as one that differs in one pair of 10,000."""

_CELLS = 2**19
"""Pairs of rows at a time: what fits a processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class RowDensity:
    r"""A probability for every row of mixed columns: kernels around given rows, one factor for each column.

    .. math:: \log p(x) = \log \frac{1}{n} \sum_{i=1}^{n} \prod_{j} \frac{e^{-w_j d_j(x_j, y_{ij})}}{Z_j(y_{ij})}

    where d_j is Gower's distance in column j, in [0, 1], and Z_j sums the numerator over all codes of the column. So a
    number spreads like a discrete Laplace law cut off at its declared range, a category keeps its value with some
    probability and takes each other with an equal smaller one (Aitchison 1976), and p is a law on the declared codes:
    it sums to one.

    A column's sharpness is w_j = s / (mean distance of two of the rows in that column): columns count alike whatever
    their range. The one free number s is chosen so that rows left out are as likely as can be (Habbema 1974).

    It is chosen over a mixture or a network because it is a law on exactly the codes that a generator makes, has one
    number to fit and no local optimum, and keeps what an attack on copies relies on: a spike at every row.

    Attributes
    ----------
    columns : tuple of ModelledColumn
    weights : array of shape (n_columns,)
        w_j.
    points : list of arrays of shape (n_rows,), float32
        Where the rows are, in units in which columns' distances add up.
    mass : array of shape (n_rows,)
        Logarithm of the product of the Z_j of each row, and of the number of rows.
    """

    columns: tuple[ModelledColumn, ...]
    weights: NDArray[np.float64]
    points: list[NDArray[np.float32]]
    mass: NDArray[np.float64]

    @classmethod
    def fit(cls, rows: CodeTable, schema: Schema, *, spreads: NDArray[np.float64], seed: int) -> Self:
        """Choose the sharpness by rows left out.

        Parameters
        ----------
        rows : CodeTable
            Codes in ``schema.names`` order, at least one row.
        spreads : array of shape (n_columns,)
            Mean distance of two rows in each column (:func:`mean_distances`).
        seed : int
            Public; draws the rows left out.
        """
        n_rows = len(rows[0])
        left_out = np.random.default_rng([seed, 4]).permutation(n_rows)[:_LEFT_OUT]
        weights = 1.0 / np.maximum(spreads, _LEAST_SPREAD)
        unit = cls._around(rows, schema.modelled, weights)
        # Distances for a sharpness of 1; every other one multiplies them.
        apart = unit.distances([codes[left_out] for codes in rows])
        apart[np.arange(len(left_out)), left_out] = np.inf
        best, chosen = -np.inf, _SHARPNESS[0]
        for sharpness in _SHARPNESS if n_rows > 1 else ():
            mass = _log_mass(rows, schema.modelled, sharpness * weights)
            likelihood = float(_log_sums(-np.float32(sharpness) * apart, mass).mean())
            if likelihood > best:
                best, chosen = likelihood, sharpness
        return cls._around(rows, schema.modelled, chosen * weights)

    @classmethod
    def _around(cls, rows: CodeTable, columns: tuple[ModelledColumn, ...], weights: NDArray[np.float64]) -> Self:
        points = [_points(column, codes, w) for column, codes, w in zip(columns, rows, weights.tolist(), strict=True)]
        return cls(columns, weights, points, _log_mass(rows, columns, weights) + np.log(len(rows[0])))

    def log_probability(self, targets: CodeTable) -> NDArray[np.float64]:
        """Return the logarithm of the probability of rows.

        Parameters
        ----------
        targets : CodeTable
            Codes in the order of the columns.

        Returns
        -------
        array of shape (n_targets,)
        """
        found = np.empty(len(targets[0]))
        size = max(1, _CELLS // len(self.mass))
        for start in range(0, len(found), size):
            piece = [codes[start : start + size] for codes in targets]
            found[start : start + size] = _log_sums(-self.distances(piece), self.mass)
        return found

    def distances(self, targets: CodeTable) -> NDArray[np.float32]:
        """Return the weighted distance of every target from every row.

        Returns
        -------
        array of shape (n_targets, n_rows)
        """
        total = np.zeros((len(targets[0]), len(self.mass)), dtype=np.float32)
        apart = np.empty_like(total)
        for column, weight, theirs, codes in zip(
            self.columns, self.weights.tolist(), self.points, targets, strict=True
        ):
            mine = _points(column, codes, weight)[:, None]
            if column.levels:
                np.subtract(mine, theirs, out=apart)
                np.abs(apart, out=apart)
                if column.size > column.levels:
                    np.minimum(apart, np.float32(weight), out=apart)
            else:
                np.multiply(mine != theirs, np.float32(weight), out=apart)
            total += apart
        return total


def mean_distances(rows: CodeTable, schema: Schema, *, seed: int) -> NDArray[np.float64]:
    """Return the mean of Gower's distance of two rows, column by column, over pairs drawn by a public seed.

    Parameters
    ----------
    rows : CodeTable
        Codes in ``schema.names`` order, at least one row.

    Returns
    -------
    array of shape (n_columns,), in [0, 1]
    """
    one, other = np.random.default_rng([seed, 5]).integers(len(rows[0]), size=(2, _PAIRS))
    spreads = []
    for column, codes in zip(schema.modelled, rows, strict=True):
        left, right = codes[one].astype(np.int64), codes[other].astype(np.int64)
        apart = (left != right).astype(np.float64)
        on_grid = (left < column.levels) & (right < column.levels)
        apart[on_grid] = np.abs(left - right)[on_grid] / max(column.levels - 1, 1)
        spreads.append(float(apart.mean()))
    return np.array(spreads)


def _log_sums(exponents: NDArray[np.float32], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(sum(exp(exponents - mass))) of each row; the exponents are written over."""
    exponents -= mass.astype(np.float32)
    greatest = exponents.max(axis=1, keepdims=True)
    exponents -= greatest
    np.exp(exponents, out=exponents)
    return np.asarray(np.log(exponents.sum(axis=1, dtype=np.float64)) + greatest[:, 0])


def _points(column: ModelledColumn, codes: NDArray[np.integer], weight: float) -> NDArray[np.float32]:
    """Return numbers whose difference, cut off at the weight, is the weighted distance; categories keep their code."""
    if not column.levels:
        return codes.astype(np.float32)
    step = weight / max(column.levels - 1, 1)
    # Float32 keeps categories and, relative to their range, grid places to 2^-24.
    state = 2.0 * weight * (codes.astype(np.float64) - column.levels + 1)
    return np.where(codes < column.levels, codes * step, state).astype(np.float32)


def _log_mass(
    rows: CodeTable, columns: tuple[ModelledColumn, ...], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the logarithm of the product of the Z_j of each row."""
    total = np.zeros(len(rows[0]))
    for column, codes, weight in zip(columns, rows, weights.tolist(), strict=True):
        other = np.exp(-weight)
        if not column.levels:
            total += np.log1p((column.size - 1) * other)
            continue
        ratio = np.exp(-weight / max(column.levels - 1, 1))
        # Codes outside the grid are replaced below; a power of their distance could divide by zero.
        place = np.minimum(codes, column.levels - 1).astype(np.float64)
        tail = np.float64(1.0 - ratio)
        grid = (2 - ratio ** (place + 1) - ratio ** (column.levels - place)) / tail - 1
        atoms = column.size - column.levels
        states = 1 + (column.size - 1) * other
        total += np.log(np.where(codes < column.levels, grid + atoms * other, states))
    return total


# The attacks --------------------------------------------------------------------------------------------------------


_PAIRS_OF_CELLS = 4 * 10**9
"""Most cells compared with one table: a few seconds of a processor."""

_SAMPLED = "Of a large table only a sample of rows is compared, so a copy may be missed."


class ClosestRecord(Attack):
    """Rows close to a released row are taken for members."""

    name: ClassVar[str] = "closest"
    title: ClassVar[str] = "Closest record"
    knows: ClassVar[str] = "Nothing."
    caveat: ClassVar[str] = f"It measures similarity; it is not a privacy test. {_SAMPLED}"

    def score(self, targets: CodeTable, scene: AttackScene, *, on_step: OnStep = unwatched) -> NDArray[np.float64]:
        """Return minus Gower's distance to the nearest released row."""
        most = 4 * _PAIRS_OF_CELLS // (max(1, len(targets[0])) * len(targets))
        released = seeded_rows(scene.released, most, seed=scene.seed)
        return -GowerSpace.of(scene.schema).nearest(targets, released, device=scene.device, on_step=on_step)


class DensityRatio(Attack):
    """Rows that are likelier under the released rows than in the population are taken for members (DOMIAS).

    The score of DOMIAS (Breugel 2023), with the densities of :class:`RowDensity`.

    Notes
    -----
    Kernels are as wide as rows left out ask for. Where rows of few columns fill their range evenly they are wide, and
    copies of rows are then found by :class:`ClosestRecord` alone.
    """

    name: ClassVar[str] = "density"
    title: ClassVar[str] = "Density ratio (DOMIAS)"
    knows: ClassVar[str] = "Rows of other people of the same kind, none of which were used for training."
    caveat: ClassVar[str] = _SAMPLED

    def score(self, targets: CodeTable, scene: AttackScene, *, on_step: OnStep = unwatched) -> NDArray[np.float64]:
        """Return log p(row | released) - log p(row | reference)."""
        most = max(200, _PAIRS_OF_CELLS // (max(1, len(targets[0])) * len(targets)))
        spreads = mean_distances(scene.released, scene.schema, seed=scene.seed)
        total = np.zeros(len(targets[0]))
        for place, (rows, sign) in enumerate(((scene.released, 1.0), (scene.reference, -1.0))):
            density = RowDensity.fit(
                seeded_rows(rows, most, seed=scene.seed), scene.schema, spreads=spreads, seed=scene.seed
            )
            total += sign * density.log_probability(targets)
            on_step(place + 1, 2)
        return total


_MOST_RELEASED = 5000
_MOST_COMPARED = 2000
"""Distances of each side that densities are compared from: their null estimates a hundred densities."""

_WIDEST = 256
"""Rows with more coordinates are projected by a public random matrix, which nearly keeps distances."""


class HullDistance(Attack):
    """Distance to kernel affine hulls of released rows, and the difference of its densities (Kumar 2024, eq. 69)."""

    name: ClassVar[str] = "hull"
    title: ClassVar[str] = "Affine hulls (KAHM)"
    knows: ClassVar[str] = "Nothing."
    caveat: ClassVar[str] = f"It uses at most {_MOST_RELEASED:,} released rows."

    def score(self, targets: CodeTable, scene: AttackScene, *, on_step: OnStep = unwatched) -> NDArray[np.float64]:
        """Return minus the distance to the hulls of at most 5,000 released rows."""
        from synth.models.kahm_classifier import KahmClassifier  # brings torch, which not every installation has

        released = seeded_rows(scene.released, _MOST_RELEASED, seed=scene.seed)
        rows, points = (_coordinates(table, scene.schema, seed=scene.seed) for table in (released, targets))
        model = KahmClassifier(seed=scene.seed).fit(rows, np.zeros(len(rows), dtype=np.int64))
        on_step(1, 2)
        distances: NDArray[np.float64] = model.distances(points).min(axis=1)
        on_step(2, 2)
        # Rows far from every hull are at the largest distance.
        return -np.nan_to_num(distances, nan=np.finfo(np.float64).max, posinf=np.finfo(np.float64).max)

    def extras(self, members: NDArray[np.float64], non_members: NDArray[np.float64], *, seed: int) -> tuple[Extra, ...]:
        """Return the KAHM score: how far apart the densities of the two sides' distances are, with its null."""
        from synth.reports.membership.score import membership_score_of_distances  # as above

        mine, theirs = (seeded_rows([-side], _MOST_COMPARED, seed=seed)[0] for side in (members, non_members))
        try:
            score = membership_score_of_distances(mine, theirs, seed=seed)
        except InputError:
            return ()
        verdict = (
            "It is larger than by chance"
            if score.stands_out
            else "It is no larger than by chance, as the guarantee predicts; it is not extra proof"
        )
        sentence = (
            f"The squared difference of the densities of both sides' distances, without a unit. {verdict}: 95 % of "
            f"{score.permutations} random splits lie below {score.null_95:.3g}. From at most {_MOST_COMPARED:,} units "
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
    for column, codes in zip(vectors.columns, table, strict=True):
        matrix = random.normal(0.0, _WIDEST**-0.5, size=(column.width, _WIDEST))
        if not column.column.levels:
            # The vector of a code is a one and zeros: of a long list they are never written out.
            total += matrix[codes]
            continue
        present, place = np.unique(codes, return_inverse=True)
        total += (column.table.evaluate({column.column.name: present.astype(np.int64)}) @ matrix)[place]
    return total


ATTACKS: tuple[Attack, ...] = (ClosestRecord(), DensityRatio(), *([HullDistance()] if is_installed("torch") else []))
"""All attacks of the report, in its order."""
