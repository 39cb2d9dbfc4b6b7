"""The choice of a table's joint model, and its repeated fits as answers come in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.models.junction_tree import ColumnSet, JunctionTree, triangulated_cliques
from synth.models.marginals import JointModel, NoisyMarginal
from synth.models.markov_random_field import MarkovRandomField
from synth.models.mixture import Mixture
from synth.models.mrf_estimation import fit_markov_random_field
from synth.models.pool import TiltedPool
from synth.system.costs import Work

__all__ = [
    "Fitter",
    "MarkovRandomFieldFitter",
    "MixtureFitter",
    "fitter_of",
    "kind_for",
    "restored_model",
    "work_of_mixtures",
]

Report = Callable[[int, float], None]

FEW_COLUMNS = 8
"""With at most this many columns every small triple may be counted, even if none of its pairs was informative."""

EXACT_COLUMNS = 24
"""With more columns than this the size of a grown field is bounded for every candidate, not computed."""


def kind_for(sizes: Sequence[int], cells: int) -> str:
    """Return "field" if a tree of typical pairs fits into ``cells``, else "mixture".

    Parameters
    ----------
    sizes : sequence of int
        Most bins that each column can get: declared, so that the choice reveals nothing about the rows.
    cells : int
        Maximum number of cells of a field.
    """
    d = len(sizes)
    if d < 2:
        return "field"
    typical = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) / (d * (d - 1))
    return "field" if (d - 1) * typical <= cells else "mixture"


class MarkovRandomFieldFitter:
    """Fits a Markov random field, starting from its last factors."""

    together = 1
    """Number of tables that are chosen before the model is fitted again."""
    takes_coarse = True
    """Whether it is also fitted to coarse tables."""
    first_steps = 12
    last_steps = 150

    def __init__(
        self,
        sizes: tuple[int, ...],
        total: float,
        device: str,
        *,
        triple_cells: int,
        known: Sequence[NoisyMarginal] = (),
    ) -> None:
        self._sizes, self._total, self._device, self._triple_cells = sizes, total, device, triple_cells
        self._known = known
        self._subsets: list[ColumnSet] = []
        tree = JunctionTree.of(sizes, ())
        self._model = MarkovRandomField(
            tree, tuple(np.full(sizes[clique[0]], 1 / sizes[clique[0]]) for clique in tree.cliques)
        )

    @property
    def model(self) -> MarkovRandomField:
        """The model as last fitted."""
        return self._model

    def refit(self, measured: Sequence[NoisyMarginal], *, last: bool, report: Report | None = None) -> None:
        """Fit by some steps of L-BFGS."""
        answers = [*measured, *self._known]
        self._subsets = sorted({one.columns for one in answers})
        self._model = fit_markov_random_field(
            self._sizes,
            answers,
            self._total,
            start=self._model if self._model.weights else None,
            steps=self.last_steps if last else self.first_steps,
            device=self._device,
            report=report,
        )

    def tables(self, subsets: Sequence[ColumnSet]) -> dict[ColumnSet, NDArray[np.float64]]:
        """Return the proportions of pairs, and of triples that lie within a clique or among few columns."""
        return self._model.tables(subsets)

    def candidates(self, pairs: Sequence[ColumnSet], limit: int) -> list[ColumnSet]:
        """Return pairs that can be added to the field, and small triples that it already contains.

        With few columns it returns all small triples that can be added: a class may depend on two columns together
        although neither is informative on its own.
        """
        tree = self._model.tree
        limit = max(limit, tree.cells)
        room, growths = limit - tree.cells, tree.growths
        triples = self._triples_within(tree)
        if len(self._sizes) <= FEW_COLUMNS:
            useful = [column for column, size in enumerate(self._sizes) if size > 1]
            triples = [
                triple
                for triple in itertools.combinations(useful, 3)
                if tree.cells_of(triple) <= self._triple_cells and self._fits(triple, limit)
            ]
        return [pair for pair in pairs if growths[pair] <= room or self._fits(pair, limit)] + triples

    def _fits(self, columns: ColumnSet, limit: int) -> bool:
        if len(self._sizes) > EXACT_COLUMNS:
            return False
        tree = self._model.tree
        return sum(map(tree.cells_of, triangulated_cliques(self._sizes, [*self._subsets, columns]))) <= limit

    def _triples_within(self, tree: JunctionTree) -> list[ColumnSet]:
        triples: set[ColumnSet] = set()
        for clique in tree.cliques:
            for a, first in enumerate(clique):
                for b, second in enumerate(clique[a + 1 :], a + 1):
                    if tree.cells_of((first, second)) <= self._triple_cells:
                        triples.update((first, second, third) for third in clique[b + 1 :])
        return sorted(triple for triple in triples if tree.cells_of(triple) <= self._triple_cells)


class MixtureFitter:
    """Fits a mixture of products to tables too wide for a tree; several tables at a time, as fits are slow."""

    takes_coarse = False
    first_steps = 100
    last_steps = 1000
    components = 200

    @classmethod
    def work(cls, sizes: Sequence[int], tables_of_column: int = 3) -> Work:
        """Return what the fits compute if some tables of two columns are measured for each column."""
        columns, bins = max(len(sizes), 1), sum(sizes)
        rounds = tables_of_column * 8  # an eighth of the columns gets a table in each round
        return work_of_mixtures(
            bins,
            tables_of_column * bins**2 // columns,
            components=cls.components,
            steps=cls.last_steps + rounds * cls.first_steps,
        )

    def __init__(self, sizes: tuple[int, ...], total: float, device: str, *, seed: int) -> None:
        self._sizes, self._total, self._device, self._seed = sizes, total, device, seed
        self.together = max(1, len(sizes) // 8)
        self._model = Mixture(sizes, np.ones(1), np.concatenate([np.full(size, 1.0 / size) for size in sizes])[None, :])
        self._fitted = False

    @property
    def model(self) -> Mixture:
        """The model as last fitted."""
        return self._model

    def refit(self, measured: Sequence[NoisyMarginal], *, last: bool, report: Report | None = None) -> None:
        """Fit by some steps of Adam."""
        from synth.models.mixture_estimation import fit_mixtures  # here, as it imports torch, unlike a field

        joint = any(len(one.columns) > 1 for one in measured)
        (self._model,) = fit_mixtures(
            self._sizes,
            measured,
            self._total,
            steps=self.last_steps if last and joint else self.first_steps,
            # Single columns need one component.
            components=self.components if joint else 1,
            seeds=(self._seed,),
            device=self._device,
            starts=(self._model,) if self._fitted else None,
            report=None if report is None else lambda step, chi_squares: report(step, chi_squares[0]),
        )
        self._fitted = joint

    def tables(self, subsets: Sequence[ColumnSet]) -> dict[ColumnSet, NDArray[np.float64]]:
        """Return the proportions of each subset of columns."""
        return {subset: self._model.marginal(subset) for subset in subsets}

    def candidates(self, pairs: Sequence[ColumnSet], limit: int) -> list[ColumnSet]:
        """Return all pairs: a mixture does not grow."""
        return list(pairs)


def work_of_mixtures(
    bins: int, cells: int, *, components: int, steps: int, fits: int = 1, overlap: bool = True
) -> Work:
    """Return what fitting mixtures of products side by side computes, in numbers.

    Parameters
    ----------
    bins : int
        Of all columns together.
    cells : int
        Of all measured tables together.
    components : int
        Of each mixture.
    steps : int
    fits : int
        Number of mixtures.
    overlap : bool
        Whether components are compared with each other.
    """
    compared = 6.0 * components**2 * bins if overlap else 0.0
    return Work(
        steps=steps,
        operations=40.0,
        single=fits * (8.0 * cells * components + compared),
        bytes=fits * 4.0 * (58 * bins * components + 14 * cells),
    )


Fitter = MarkovRandomFieldFitter | MixtureFitter
"""Fits one kind of joint model to a growing number of answers."""


def fitter_of(
    kind: str,
    sizes: tuple[int, ...],
    total: float,
    device: str,
    *,
    seed: int,
    triple_cells: int,
    known: Sequence[NoisyMarginal] = (),
) -> Fitter:
    """Build the fitter of a kind of model; a field also uses tables that are ``known`` without an answer."""
    if kind == "field":
        return MarkovRandomFieldFitter(sizes, total, device, triple_cells=triple_cells, known=known)
    return MixtureFitter(sizes, total, device, seed=seed)


def restored_model(sizes: tuple[int, ...], state: Mapping[str, NDArray[Any]], *, seed: int) -> JointModel:
    """Restore a model of any kind from its ``state``; ``seed`` is that of the run that fitted it."""
    arrays = {name: array.astype(np.float64) for name, array in state.items()}
    if not arrays:
        raise ConfigError("The saved model is empty.")
    if "pool.seed" in arrays:
        base = {name.removeprefix("base."): one for name, one in arrays.items() if name.startswith("base.")}
        return TiltedPool.from_state(restored_model(sizes, base, seed=seed), arrays, seed=seed)
    if "weights" in arrays:
        return Mixture.from_state(sizes, arrays)
    return MarkovRandomField.from_state(sizes, arrays)
