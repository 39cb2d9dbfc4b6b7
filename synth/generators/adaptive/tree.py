"""A tree of columns, where there are too many to choose among: found and counted in two questions.

The first asks for the products of all columns in pairs, each column cut in two and taken about its mean in the row's
class: which columns go together. The tree that holds most of that (Chow 1968) is post-processing of the answer. The
second counts its edges, all in one stack, by class of the label where one is declared. So the number of questions does
not grow with the number of columns, and a table of a thousand columns takes minutes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.pairs_look import Halves
from synth.generators.adaptive.survey import Survey
from synth.models.joint_model import Fitter
from synth.models.junction_tree import ColumnSet
from synth.models.marginals import NoisyMarginal

__all__ = ["MANY_COLUMNS", "ChowLiuTree", "bins_of_tree", "maximum_spanning_forest", "rounds_of_tree"]

Vector = NDArray[np.float64]

MANY_COLUMNS = 128
"""Columns from which on tables are not chosen one by one."""

_STRUCTURE = 0.25
"""Part of the budget of a tree that goes into finding it."""

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


class ChowLiuTree:
    """Finds and counts the tree.

    Parameters
    ----------
    survey : Survey
    bins : tuple of ColumnBins
    by_class : bool
        Whether edges are counted by class of the label, which then has more than one bin.
    fitter : Fitter
        Fitted to the columns by themselves and by class.
    total : float
        Number of rows, as far as it is known.
    """

    def __init__(
        self, survey: Survey, bins: tuple[ColumnBins, ...], *, by_class: bool, fitter: Fitter, total: float
    ) -> None:
        self._survey, self._total = survey, total
        self._label = survey.label if by_class else None
        self._bin_of_code = [one.bins for one in bins]
        self._halves = Halves(survey, bins, by_class=by_class, model=fitter.model)

    def ask(self, share: float) -> list[NoisyMarginal]:
        """Return the tables of the edges, having spent all that is left; none where noise hides them all.

        Parameters
        ----------
        share : float
            Part of the session's budget meant for the tree: what finding it gets is worked out from this, and all that
            is spent where no edge is found.
        """
        if len(self._halves.columns) < 2:
            return []
        edges = self._edges(_STRUCTURE * share)
        return self._counted(edges, self._survey.session.remaining_share) if edges else []

    def _edges(self, share: float) -> list[ColumnSet]:
        """Ask for the products of columns in pairs, and return the tree that holds most of them."""
        variances = self._halves.variances
        places = np.sort(np.argsort(-variances, kind="stable")[:_MOST_PAIRED])
        asked = [self._halves.columns[place] for place in places]
        products, noise = self._halves.products(places, share=share, query="pairs of columns")
        n = len(asked)
        strengths = np.zeros((n, n))
        strengths[np.triu_indices(n)] = np.abs(products)
        # Of as many products that are noise and chance alone, the largest is expected about here (Donoho 1994).
        least = math.sqrt(2.0 * math.log(n * (n - 1) / 2 + 1) * (noise**2 + self._total))
        found = maximum_spanning_forest(strengths, least=least)
        return [(asked[first], asked[second]) for first, second in found]

    def _counted(self, edges: Sequence[ColumnSet], share: float) -> list[NoisyMarginal]:
        """Count the edges in one question, by class where there is a label."""
        label = self._label
        tables = [tuple(sorted(edge if label is None else (label, *edge))) for edge in edges]
        parts = [self._survey.one_hot(table, self._bin_of_code) for table in tables]
        weights = (math.sqrt(1.0 / len(parts)),) * len(parts)
        counted = self._survey.counted_once(parts, weights, share=share, query="tables of a tree")
        return [
            NoisyMarginal(table, counts, noise_std, self._believed(table, edge))
            for table, edge, (counts, noise_std) in zip(tables, edges, counted, strict=True)
        ]

    def _believed(self, table: ColumnSet, edge: ColumnSet) -> Vector:
        """Return what the model says of an edge, in rows: nothing but what both columns share with the label."""
        if self._label is None:
            alone = [self._halves.by_class(d)[0] for d in edge]
            return np.asarray(self._total * np.outer(*alone))
        first, second = (self._halves.by_class(d) for d in edge)
        sizes = np.maximum(first.sum(axis=1), 1e-300)
        joint = first[:, :, None] * second[:, None, :] / sizes[:, None, None]
        # Axes of a table ascend with its columns: the label's goes where the label stands.
        return np.asarray(self._total * np.moveaxis(joint, 0, table.index(self._label)))


def maximum_spanning_forest(strengths: Vector, *, least: float) -> list[tuple[int, int]]:
    """Return the edges of the forest of greatest total strength.

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
    # The library looks for least weights, and takes a weight of zero for no edge.
    weights = np.where(np.triu(strengths, 1) > least, -strengths, 0.0)
    firsts, seconds = minimum_spanning_tree(weights).nonzero()
    return sorted(zip(firsts.tolist(), seconds.tolist(), strict=True))
