"""A first look at all pairs of columns: recognise tables in which nearly all columns depend on each other.

A field holds as many relations as its cells allow, and asks for them one after another. That is right if few pairs of
columns carry most of the information: every table gets much of the budget. If all columns depend on each other, one
question about all pairs (``all_pairs``) is better.

A small share of the budget decides between the two (``PairsLook``). Every column is divided in two halves, coded -1 and
1 and centred in the row's class (``Halves``); the answer holds the products of all pairs of columns. How well a field
could describe them is computed before anything else is asked (``relations_left``): relations are added to it, the
strongest missing one first, as long as its cells and the rounds allow. A table is dense if what is then still missing
exceeds the noise of one question about all pairs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.survey import Survey
from synth.models.junction_tree import ColumnSet, JunctionTree, triangulated_cliques
from synth.models.marginals import JointModel
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.row_moments import RowMoments

__all__ = ["LOOK", "Halves", "PairsLook", "halves", "noise_of_all_pairs", "relations_left"]

Vector = NDArray[np.float64]

LOOK = 0.02
"""Share of the budget for the look."""

_MISSING = 0.028
"""What a field must miss in a dense table: product of two halves, root mean square over pairs."""

_CLEARER = 10.0
"""Minimum of this in units of the noise of such a product in one question about all pairs. At three, artificial
characters (7,152 rows) were dense too: pairs were more accurate, but the following sets of many columns said less about
a class."""

_MOST_MISSING = 0.2
"""Approximate maximum of what a field can miss: if noise is too large even for this, there is no look."""

_ROOM = 1.1
"""Clip norm of a row's vector, in units of its expected length."""

_SIGNAL = 3.0
"""Standard deviations of noise from which a product counts as a relation."""

_LEAST_EIGENVALUE = 0.03
"""Minimum eigenvalue of a noisy correlation matrix, so that its inverse exists."""


class Halves:
    """Columns divided in two halves, coded -1 and 1 and centred in the row's class.

    Parameters
    ----------
    survey : Survey
    bins : tuple of ColumnBins
    by_class : bool
        Whether columns are centred by class of the label, which then has more than one bin.
    model : JointModel
        Fitted to the single columns and, if ``by_class``, to the columns by class.

    Attributes
    ----------
    columns : tuple of int
        Columns with more than one bin; without the label if ``by_class``.
    variances : array of shape (columns,)
        Variance of every half around its mean in the row's class, by the model.
    """

    def __init__(self, survey: Survey, bins: tuple[ColumnBins, ...], *, by_class: bool, model: JointModel) -> None:
        self._survey, self._model, self._label = survey, model, survey.label if by_class else None
        self._bin_of_code = [one.bins for one in bins]
        self._signs = {d: halves(one) for d, one in enumerate(bins) if one.size > 1 and d != self._label}
        self.columns = tuple(self._signs)
        self._means, sizes = self._means_by_class() if self.columns else (np.zeros((1, 0)), np.ones(1))
        self.variances = np.maximum(1.0 - sizes @ self._means**2, 0.0)

    def by_class(self, column: int) -> Vector:
        """Return the model's proportions of a column by class, shape (classes, bins); one class without a label."""
        if self._label is None:
            return np.asarray(self._model.marginal((column,))[None, :])
        both = self._model.marginal((min(column, self._label), max(column, self._label)))
        return np.asarray(both if self._label < column else both.T)

    def products(self, places: NDArray[np.integer], *, share: float, query: str) -> tuple[Vector, float]:
        """Ask for the sum over rows of every product of two halves.

        Parameters
        ----------
        places : array of whole numbers
            Positions of n columns in ``columns``.
        share : float
        query : str

        Returns
        -------
        products : array of shape (n (n + 1) / 2,)
            In rows; the upper triangle, row by row.
        noise_std : float
            Of a product off the diagonal.
        """
        survey, label = self._survey, self._label
        asked = [self.columns[place] for place in places]
        clip = _ROOM * math.sqrt(max(float(self.variances[places].sum()), 1e-3))
        question = RowMoments(
            tuple(Lookup(survey.columns[d].name, self._signs[d][:, None], self._bin_of_code[d]) for d in asked),
            clip,
            (0.0, 0.0, 1.0),
            np.clip(self._means[:, places], -1.0, 1.0),
            None if label is None else survey.one_hot((label,), self._bin_of_code),
        )
        release = survey.session.noisy_sum(question, share=share, query=query, source=survey.source)
        products = np.asarray(release.value, dtype=np.float64) / question.factors * clip**2
        return products, release.noise_std / question.factors[1] * clip**2

    def _means_by_class(self) -> tuple[Vector, Vector]:
        """Return the model's means of the halves by class, shape (classes, columns), and the class proportions."""
        by_class = [self.by_class(d) for d in self.columns]
        sizes = by_class[0].sum(axis=1)
        values = [table @ signs for table, signs in zip(by_class, self._signs.values(), strict=True)]
        each = np.stack(values, axis=1) / np.maximum(np.stack([one.sum(axis=1) for one in by_class], axis=1), 1e-300)
        return each, sizes / sizes.sum()


def halves(bins: ColumnBins) -> Vector:
    """Return -1 or 1 for every bin of a column: two halves, as equal in rows as consecutive bins allow."""
    held = np.cumsum(bins.expected)[:-1]
    cut = int(np.argmin(np.abs(held - 0.5)))
    return np.where(np.arange(bins.size) <= cut, -1.0, 1.0)


def noise_of_all_pairs(columns: int, unit_noise: float, total: float, share: float) -> float:
    """Return the noise of the product of two halves in one question about all pairs, as a share of the rows."""
    pairs = columns * (columns - 1) / 2
    return 2.0 * unit_noise * math.sqrt(pairs / share) / max(total, 1.0)


class PairsLook:
    """A first look at all pairs of columns.

    Parameters
    ----------
    survey : Survey
    bins : tuple of ColumnBins
    total : float
        Known or estimated number of rows.
    unit_noise : float
        Noise of a count that gets the whole budget, in rows.
    share : float
        Share of the budget that all pairs would get.
    by_class : bool
        Whether columns are centred by class of the label.
    """

    def __init__(
        self,
        survey: Survey,
        bins: tuple[ColumnBins, ...],
        *,
        total: float,
        unit_noise: float,
        share: float,
        by_class: bool,
    ) -> None:
        self._survey, self._bins, self._total, self._by_class = survey, bins, total, by_class
        useful = sum(one.size > 1 for one in bins)
        self._noise = noise_of_all_pairs(useful, unit_noise, total, share)
        self.can_tell = useful > 2 + by_class and _CLEARER * self._noise < _MOST_MISSING
        """Whether a table could be dense at all."""

    def is_dense(self, model: JointModel, *, cells: int, tables: float, by_label: bool) -> bool:
        """Look, with the share ``LOOK`` of the budget, and decide.

        Parameters
        ----------
        model : JointModel
            Fitted to the answers so far.
        cells : int
            Maximum number of cells of a field.
        tables : float
            Maximum number of its tables.
        by_label : bool
            Whether it would hold every column by class of the label.
        """
        halved = Halves(self._survey, self._bins, by_class=self._by_class, model=model)
        n = len(halved.columns)
        products, noise = halved.products(np.arange(n), share=LOOK, query="which columns go together")
        covariances = np.zeros((n, n))
        covariances[np.triu_indices(n)] = products / self._total
        covariances = np.triu(covariances, 1)
        label = self._survey.label
        classes = self._bins[label].size if self._by_class and label is not None else 1
        missing = relations_left(
            covariances + covariances.T,
            noise / self._total,
            np.sqrt(np.maximum(halved.variances, 1e-4)),
            sizes=tuple(self._bins[d].size for d in halved.columns),
            cells=cells // classes,
            tables=tables,
            hub=halved.columns.index(label) if by_label and label in halved.columns else None,
        )
        return missing > max(_MISSING, _CLEARER * self._noise)


def relations_left(
    covariances: Vector,
    noise: float,
    deviations: Vector,
    *,
    sizes: tuple[int, ...],
    cells: int,
    tables: float,
    hub: int | None = None,
) -> float:
    """Return how much of the covariances a field would miss, root mean square over pairs, with noise subtracted.

    Columns are treated as halved normal variables. A field with some pairs turns their correlations into those of a
    decomposable graph (Lauritzen 1996, section 5.3).

    Parameters
    ----------
    covariances : array of shape (n, n)
        With noise; the diagonal is not used.
    noise : float
        Standard deviation of an entry.
    deviations : array of shape (n,)
        Standard deviations of the columns.
    sizes : tuple of int
        Bins of each column.
    cells : int
        Maximum number of cells of the field.
    tables : float
        Maximum number of its tables.
    hub : int, optional
        A column whose pairs the field holds in any case.
    """
    n = len(sizes)
    scale = _Halving(np.outer(deviations, deviations), np.array(sizes) > 2)
    # Keep nothing that may be noise: otherwise a column that hardly varies would seem related to others.
    kept = np.maximum(1.0 - noise**2 / np.maximum(covariances**2, 1e-300), 0.0)
    correlations = _proper(scale.whole(kept * covariances))
    subsets: list[ColumnSet] = [(d,) for d in range(n)]
    if hub is not None:
        subsets += [(min(d, hub), max(d, hub)) for d in range(n) if d != hub]
    upper = np.triu_indices(n, 1)
    added = 0
    while True:
        away = np.abs(covariances - scale.halved(_implied(correlations, JunctionTree.of(sizes, subsets))))[upper]
        # The table of two columns describes their relation completely.
        held = set(subsets)
        away[[pair in held for pair in zip(*(one.tolist() for one in upper), strict=True)]] = 0.0
        found = 0
        for one in np.argsort(-away, kind="stable")[: 2 * n]:
            if away[one] < _SIGNAL * noise or added + found >= tables or found >= max(1, n // 4):
                break
            pair = (int(upper[0][one]), int(upper[1][one]))
            if pair in subsets:
                continue
            cliques = triangulated_cliques(sizes, [*subsets, pair])
            if sum(math.prod(sizes[d] for d in clique) for clique in cliques) <= cells:
                subsets.append(pair)
                found += 1
        if not found:
            # Noise alone adds up to at most this in all but one of forty tables.
            chance = noise**2 * (1.0 + 2.0 * math.sqrt(2.0 / len(away)))
            return math.sqrt(max(float((away**2).mean()) - chance, 0.0))
        added += found


class _Halving:
    """The effect on correlations of dividing columns in two; normal columns are divided in the middle.

    The halves of two numbers with correlation r have the correlation 2 / pi asin(r) (Sheppard 1899); those of a number
    and a column with only two values have r sqrt(2 / pi).
    """

    def __init__(self, scale: Vector, cut: NDArray[np.bool_]) -> None:
        self._scale, self._both, self._one = scale, cut & cut[:, None], cut ^ cut[:, None]

    def whole(self, covariances: Vector) -> Vector:
        """Return the correlations of the columns, from covariances of their halves."""
        found = np.clip(covariances / self._scale, -1.0, 1.0)
        found = np.where(self._both, np.sin(0.5 * math.pi * found), found)
        return np.where(self._one, found * math.sqrt(0.5 * math.pi), found)

    def halved(self, correlations: Vector) -> Vector:
        """Return the covariances of the columns' halves."""
        found = np.where(self._one, correlations * math.sqrt(2.0 / math.pi), correlations)
        return self._scale * np.where(self._both, 2.0 / math.pi * np.arcsin(np.clip(found, -1.0, 1.0)), found)


def _proper(correlations: Vector) -> Vector:
    """Return a nearby correlation matrix whose inverse exists."""
    bounded = np.clip(correlations, -0.97, 0.97)
    np.fill_diagonal(bounded, 1.0)
    values, vectors = np.linalg.eigh(bounded)
    found = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(np.diag(found))
    return np.asarray(found / np.outer(scale, scale))


def _implied(correlations: Vector, tree: JunctionTree) -> Vector:
    """Return the correlations of a normal field on the cliques of a tree, given its correlations inside them."""
    precision = np.zeros_like(correlations)
    for columns, sign in [(one, 1.0) for one in tree.cliques] + [(one, -1.0) for one in tree.separators if one]:
        inside = np.ix_(columns, columns)
        precision[inside] += sign * np.linalg.inv(correlations[inside])
    return np.asarray(np.linalg.inv(precision))
