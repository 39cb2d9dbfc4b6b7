"""A tree of columns, if there are too many to choose among: found and counted in two questions.

The first question asks for the products of all pairs of columns, each divided in two and centred in the row's class, to
see which columns are related. The tree with the strongest relations (Chow 1968) is post-processing of the answer. The
second question counts its edges, all in one stack, by class of the label if one is declared. So the number of questions
does not grow with the number of columns, and a table of a thousand columns takes minutes.
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
"""Number of columns above which tables are not chosen one by one."""

_STRUCTURE = 0.25
"""Share of a tree's budget for finding it."""

_FEWEST_BINS = 3
"""Minimum bins of a number: with fewer, a column by class says nearly as much as an edge."""

_MOST_PAIRED = 2048
"""Maximum number of columns whose products are asked for: those that vary most."""


def bins_of_tree(columns: int, classes: int, cells: int) -> int:
    """Return how many bins of each column let a tree of columns, by class, fit into ``cells``; 0 if too few.

    Parameters
    ----------
    columns : int
    classes : int
        Classes of the label; 1 without one.
    cells : int
        Maximum number of cells of the joint model.
    """
    bins = math.isqrt(cells // max(columns * classes, 1))
    return bins if bins >= _FEWEST_BINS else 0


def rounds_of_tree(columns: int) -> float:
    """Return the number of tables among which a tree's budget is divided, including the question that finds it."""
    return columns / (1.0 - _STRUCTURE)


class ChowLiuTree:
    """Find and count the tree.

    Parameters
    ----------
    survey : Survey
    bins : tuple of ColumnBins
    by_class : bool
        Whether edges are counted by class of the label, which then has more than one bin.
    fitter : Fitter
        Fitted to the single columns and to the columns by class.
    total : float
        Known or estimated number of rows.
    """

    def __init__(
        self, survey: Survey, bins: tuple[ColumnBins, ...], *, by_class: bool, fitter: Fitter, total: float
    ) -> None:
        self._survey, self._total = survey, total
        self._label = survey.label if by_class else None
        self._bin_of_code = [one.bins for one in bins]
        self._halves = Halves(survey, bins, by_class=by_class, model=fitter.model)

    def ask(self, share: float) -> list[NoisyMarginal]:
        """Find and count the edges with all that is left, and return their tables; none if noise hides all edges.

        Parameters
        ----------
        share : float
            Share of the session's budget for the tree: it determines what finding the tree gets, which is all that is
            spent if no edge is found.
        """
        if len(self._halves.columns) < 2:
            return []
        edges = self._edges(_STRUCTURE * share)
        return self._counted(edges, self._survey.session.remaining_share) if edges else []

    def _edges(self, share: float) -> list[ColumnSet]:
        """Ask for the products of all pairs of columns, and return the tree with the largest ones."""
        variances = self._halves.variances
        places = np.sort(np.argsort(-variances, kind="stable")[:_MOST_PAIRED])
        asked = [self._halves.columns[place] for place in places]
        products, noise = self._halves.products(places, share=share, query="pairs of columns")
        n = len(asked)
        strengths = np.zeros((n, n))
        strengths[np.triu_indices(n)] = np.abs(products)
        # The expected largest of as many products of pure noise and chance (Donoho 1994).
        least = math.sqrt(2.0 * math.log(n * (n - 1) / 2 + 1) * (noise**2 + self._total))
        found = maximum_spanning_forest(strengths, least=least)
        return [(asked[first], asked[second]) for first, second in found]

    def _counted(self, edges: Sequence[ColumnSet], share: float) -> list[NoisyMarginal]:
        """Count the edges in one question, by class if there is a label."""
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
        """Return the model's table of an edge, in rows: it only knows what both columns share with the label."""
        if self._label is None:
            alone = [self._halves.by_class(d)[0] for d in edge]
            return np.asarray(self._total * np.outer(*alone))
        first, second = (self._halves.by_class(d) for d in edge)
        sizes = np.maximum(first.sum(axis=1), 1e-300)
        joint = first[:, :, None] * second[:, None, :] / sizes[:, None, None]
        # Axes of a table ascend with its columns: move the label's axis to its position.
        return np.asarray(self._total * np.moveaxis(joint, 0, table.index(self._label)))


def maximum_spanning_forest(strengths: Vector, *, least: float) -> list[tuple[int, int]]:
    """Return the edges of the forest of greatest total strength.

    Parameters
    ----------
    strengths : array of shape (n, n)
        Of every pair, above the diagonal; not negative.
    least : float
        Only stronger pairs can be edges.

    Returns
    -------
    list of (first, second), ascending
    """
    # The library minimises weights, and treats a weight of zero as no edge.
    weights = np.where(np.triu(strengths, 1) > least, -strengths, 0.0)
    firsts, seconds = minimum_spanning_tree(weights).nonzero()
    return sorted(zip(firsts.tolist(), seconds.tolist(), strict=True))
