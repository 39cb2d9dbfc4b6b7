"""A tree of columns in two questions, where there are too many columns to choose their tables one by one.

The first question asks for the products of all columns in pairs, each column cut in two and taken about its mean in the
row's class: which columns go together. The tree that holds most of that (Chow 1968) is post-processing of the answer.
The second question counts its edges, all in one stack, by class of the label where one is declared. So the number of
questions does not grow with the number of columns, and a table of a thousand columns takes minutes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth.generators.column_bins import ColumnBins
from synth.generators.joint_models import Fitter
from synth.models.answers import Measured
from synth.models.junction_tree import Subset
from synth.privacy.features import Lookup, OneHot, RowMoments, Stack
from synth.privacy.session import AnswerSource
from synth.schema import ModelledColumn

__all__ = ["MANY_COLUMNS", "WideTree", "bins_of_tree", "rounds_of_tree", "strongest_tree"]

Vector = NDArray[np.float64]

MANY_COLUMNS = 128
"""Columns from which on tables are not chosen one by one."""

_STRUCTURE = 0.25
"""Part of the budget of a tree that goes into finding it."""

_ROOM = 1.1
"""Clip of a row's vector, in units of its expected length; longer rows are shortened to it."""

_FEWEST_BINS = 3
"""Bins of a number below which a column by class says nearly as much as an edge."""

_MOST_PAIRED = 2048
"""Columns whose products are asked for; of more, those that vary most."""


def bins_of_tree(columns: int, classes: int, cells: int) -> int:
    """Return how many bins of each column let a tree of columns, by class, fit into ``cells``; 0 where too few do.

    Parameters
    ----------
    columns : int
    classes : int
        Classes of the label; 1 without one.
    cells : int
        Most cells of the joint model.
    """
    bins = math.isqrt(cells // max(columns * classes, 1))
    return bins if bins >= _FEWEST_BINS else 0


def rounds_of_tree(columns: int) -> float:
    """Return among how many tables the budget of a tree is divided, the question that finds it included."""
    return columns / (1.0 - _STRUCTURE)


class WideTree:
    """Finds and counts the tree.

    Parameters
    ----------
    session : AnswerSource
    columns : tuple of ModelledColumn
    bins : tuple of ColumnBins
    label : int, optional
        Position of the column by whose classes edges are counted; it has more than one bin.
    fitter : Fitter
        Fitted to the columns by themselves and by class.
    total : float
        Number of rows, as far as it is known.
    source : str
        Who asks.
    """

    def __init__(
        self,
        session: AnswerSource,
        columns: tuple[ModelledColumn, ...],
        bins: tuple[ColumnBins, ...],
        *,
        label: int | None,
        fitter: Fitter,
        total: float,
        source: str,
    ) -> None:
        self._session, self._columns, self._bins = session, columns, bins
        self._label, self._fitter, self._total, self._source = label, fitter, total, source
        self._halves = {d: _halves(one) for d, one in enumerate(bins) if one.size > 1 and d != label}

    def ask(self, share: float) -> list[Measured]:
        """Return the tables of the edges, having spent all that is left; none where noise hides them all.

        Parameters
        ----------
        share : float
            Part of the session's budget meant for the tree: what finding it gets is worked out from this, and all that
            is spent where no edge is found.
        """
        if len(self._halves) < 2:
            return []
        edges = self._edges(_STRUCTURE * share)
        return self._counted(edges, self._session.remaining_share) if edges else []

    def _edges(self, share: float) -> list[Subset]:
        """Ask for the products of columns in pairs, and return the tree that holds most of them."""
        means, sizes = self._means()
        variances = np.maximum(1.0 - sizes @ means**2, 0.0)
        places = np.sort(np.argsort(-variances, kind="stable")[:_MOST_PAIRED])
        asked = [list(self._halves)[place] for place in places]
        clip = _ROOM * math.sqrt(max(float(variances[places].sum()), 1e-3))
        label = self._label
        question = RowMoments(
            tuple(self._vector(d) for d in asked),
            clip,
            (0.0, 0.0, 1.0),
            np.clip(means[:, places], -1.0, 1.0),
            None if label is None else self._one_hot((label,)),
        )
        release = self._session.noisy_sum(question, share=share, query="pairs of columns", source=self._source)
        products = np.asarray(release.value, dtype=np.float64) / question.factors * clip**2
        noise = release.noise_std / question.factors[1] * clip**2
        n = len(asked)
        strengths = np.zeros((n, n))
        strengths[np.triu_indices(n)] = np.abs(products)
        # Of as many products that are noise and chance alone, the largest is expected about here (Donoho 1994).
        least = math.sqrt(2.0 * math.log(n * (n - 1) / 2 + 1) * (noise**2 + self._total))
        found = strongest_tree(strengths, least=least)
        return [(asked[first], asked[second]) for first, second in found]

    def _counted(self, edges: Sequence[Subset], share: float) -> list[Measured]:
        """Count the edges in one question, by class where there is a label."""
        label = self._label
        tables = [tuple(sorted(edge if label is None else (label, *edge))) for edge in edges]
        parts = tuple(self._one_hot(table) for table in tables)
        weight = math.sqrt(1.0 / len(parts))
        question = Stack(parts=parts, weights=(weight,) * len(parts))
        release = self._session.noisy_sum(question, share=share, query="tables of a tree", source=self._source)
        pieces = np.split(
            np.asarray(release.value, dtype=np.float64).reshape(-1),
            np.cumsum([part.dimension for part in question.parts])[:-1],
        )
        return [
            Measured(table, (piece / own).reshape(part.shape), release.noise_std / own, self._believed(table, edge))
            for table, edge, piece, own, part in zip(
                tables, edges, pieces, question.weights, question.parts, strict=True
            )
        ]

    def _believed(self, table: Subset, edge: Subset) -> Vector:
        """Return what the model says of an edge, in rows: nothing but what both columns share with the label."""
        if self._label is None:
            alone = [self._by_class(d)[0] for d in edge]
            return np.asarray(self._total * np.outer(*alone))
        first, second = (self._by_class(d) for d in edge)
        sizes = np.maximum(first.sum(axis=1), 1e-300)
        joint = first[:, :, None] * second[:, None, :] / sizes[:, None, None]
        # Axes of a table ascend with its columns: the label's goes where the label stands.
        return np.asarray(self._total * np.moveaxis(joint, 0, table.index(self._label)))

    def _by_class(self, column: int) -> Vector:
        """Return the model's proportions of a column by class, shape (classes, bins); one class without a label."""
        if self._label is None:
            return np.asarray(self._fitter.model.marginal((column,))[None, :])
        both = self._fitter.model.marginal((min(column, self._label), max(column, self._label)))
        return np.asarray(both if self._label < column else both.T)

    def _means(self) -> tuple[Vector, Vector]:
        """Return what is believed of the halves' means by class, shape (classes, columns), and the classes' sizes."""
        by_class = [self._by_class(d) for d in self._halves]
        sizes = by_class[0].sum(axis=1)
        values = [table @ signs for table, signs in zip(by_class, self._halves.values(), strict=True)]
        each = np.stack(values, axis=1) / np.maximum(np.stack([one.sum(axis=1) for one in by_class], axis=1), 1e-300)
        return each, sizes / sizes.sum()

    def _vector(self, column: int) -> Lookup:
        """Return a column as minus or plus one."""
        bins = self._bins[column].bins
        return Lookup(self._columns[column].name, self._halves[column][:, None], bins)

    def _one_hot(self, positions: Subset) -> OneHot:
        return OneHot(
            columns=tuple(self._columns[d].name for d in positions),
            bins=tuple(self._bins[d].bins for d in positions),
            sizes=tuple(self._columns[d].size for d in positions),
        )


def _halves(bins: ColumnBins) -> Vector:
    """Return -1 or 1 for every bin of a column: in order, two sets as nearly of half the rows as bins allow."""
    held = np.cumsum(bins.expected)[:-1]
    cut = int(np.argmin(np.abs(held - 0.5)))
    return np.where(np.arange(bins.size) <= cut, -1.0, 1.0)


def strongest_tree(strengths: Vector, *, least: float) -> list[tuple[int, int]]:
    """Return the edges of the forest of greatest total strength (Kruskal's algorithm).

    Parameters
    ----------
    strengths : array of shape (n, n)
        Of every pair, above the diagonal; not negative.
    least : float
        Pairs that are not stronger are no edges.

    Returns
    -------
    list of (first, second), ascending
    """
    n = len(strengths)
    firsts, seconds = np.triu_indices(n, 1)
    values = strengths[firsts, seconds]
    clear = np.flatnonzero(values > least)
    group = list(range(n))

    def root(one: int) -> int:
        while group[one] != one:
            group[one] = group[group[one]]
            one = group[one]
        return one

    edges = []
    for place in clear[np.argsort(-values[clear], kind="stable")]:
        first, second = int(firsts[place]), int(seconds[place])
        if root(first) != root(second):
            group[root(first)] = root(second)
            edges.append((first, second))
        if len(edges) == n - 1:
            break
    return sorted(edges)
