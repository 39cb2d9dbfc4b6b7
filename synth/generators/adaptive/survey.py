"""What all questions of one fit share, columns counted by class of the label, and what declared rules say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.stacked import answers_of_parts
from synth.models.junction_tree import ColumnSet, triangulated_cliques
from synth.models.marginals import NoisyMarginal
from synth.privacy.answers import AnswerSource
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import OneHot, Stack
from synth.schema import ModelledColumn
from synth.schema.rules import Rule, possible_cells

__all__ = ["CLEAR", "Survey", "declared_zeros", "measure_label_marginals"]

Vector = NDArray[np.float64]

CLEAR = 2.0
"""Standard deviations of noise, and of chance, above which an answer shows anything."""

_NEXT_TO_NONE = 0.1
"""Noise of a count of zero rows in cells that rules exclude: a field has no exact zeros."""

_OF_SEVERAL = 3
"""Maximum number of columns in a rule that the model can take into account."""


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What all questions of one fit have in common: the session, the columns, the label and who asks.

    Attributes
    ----------
    session : AnswerSource
    columns : tuple of ModelledColumn
    label : int, optional
        Position of the column to predict.
    source : str
        Who asks, for the receipts.
    """

    session: AnswerSource
    columns: tuple[ModelledColumn, ...]
    label: int | None
    source: str

    def one_hot(self, positions: ColumnSet, bin_of_code: Sequence[Bins | None] | Mapping[int, Bins]) -> OneHot:
        """Return the question for a table of counts of some columns, given the bin of every code by column."""
        return OneHot(
            columns=tuple(self.columns[d].name for d in positions),
            bins=tuple(bin_of_code[d] for d in positions),
            sizes=tuple(self.columns[d].size for d in positions),
        )

    def counted_once(
        self, parts: Sequence[OneHot], weights: tuple[float, ...], *, share: float, query: str
    ) -> list[tuple[Vector, float]]:
        """Ask for several tables in one question; return the counts of each and the noise of one count."""
        question = Stack(parts=tuple(parts), weights=weights)
        answer = self.session.noisy_sum(question, share=share, query=query, source=self.source)
        counted = answers_of_parts(answer, question)
        return [(counts.reshape(part.shape), noise) for (counts, noise), part in zip(counted, parts, strict=True)]


def measure_label_marginals(
    survey: Survey,
    bins: Sequence[ColumnBins],
    *,
    lengths: Sequence[int],
    share: float,
    total: float,
    query: str,
) -> list[NoisyMarginal]:
    """Count every column together with the label.

    Parameters
    ----------
    survey : Survey
        For a table with a label.
    bins : sequence of ColumnBins
    lengths : sequence of int
        Maximum number of bins of every column: longer tables have larger errors and get more of the norm, and the noise
        is known before the question is asked.
    share : float
        Share of the session's budget to spend, in mu^2.
    total : float
        Known or estimated number of rows.
    query : str
        Name of the question.

    Returns
    -------
    list of NoisyMarginal
        One table for each other column with more than one bin; none, and nothing is spent, if the label has one bin.
    """
    label = survey.label
    if label is None or bins[label].size < 2:
        return []
    others = [d for d, one in enumerate(bins) if d != label and one.size > 1]
    if not others:
        return []
    pairs = [(min(d, label), max(d, label)) for d in others]
    parts_of_norm = {d: math.sqrt(length) for d, length in enumerate(lengths) if d != label and length > 1}
    whole = math.fsum(parts_of_norm.values())
    weights = tuple(math.sqrt(parts_of_norm[d] / whole) for d in others)
    bin_of_code = [one.bins for one in bins]
    parts = [survey.one_hot(pair, bin_of_code) for pair in pairs]
    counted = survey.counted_once(parts, weights, share=share, query=query)
    return [
        NoisyMarginal(pair, counts, noise_std, total * np.outer(bins[pair[0]].expected, bins[pair[1]].expected))
        for pair, (counts, noise_std) in zip(pairs, counted, strict=True)
    ]


def declared_zeros(
    survey: Survey, bins: Sequence[ColumnBins], rules: Sequence[Rule], *, total: float, cells: int
) -> list[NoisyMarginal]:
    """Return what rules say about tables: cells that they exclude contain no rows.

    Parameters
    ----------
    survey : Survey
    bins : sequence of ColumnBins
    rules : sequence of Rule
        Declared rules; every cell is possible if a rule does not declare which value determines which.
    total : float
        Known or estimated number of rows.
    cells : int
        Maximum number of cells of a model with all these tables; rules that do not fit are left to repair.

    Returns
    -------
    list of NoisyMarginal
        The rows in possible cells (all), and in excluded cells (none). No question is asked.
    """
    places = {column.name: place for place, column in enumerate(survey.columns)}
    by_columns: dict[ColumnSet, list[Rule]] = {}
    for rule in rules:
        columns = tuple(sorted(places[name] for name in rule.columns))
        if 2 <= len(columns) <= _OF_SEVERAL and all(bins[place].size > 1 for place in columns):
            by_columns.setdefault(columns, []).append(rule)
    sizes, found = [one.size for one in bins], list[NoisyMarginal]()
    for columns, own in by_columns.items():
        codes = {survey.columns[place].name: bins[place] for place in columns}
        of_code = {name: one.grouped(np.arange(one.size)) for name, one in codes.items()}
        possible = possible_cells(own, of_code)
        held = triangulated_cliques(sizes, [*(one.columns for one in found), columns])
        if possible.all() or sum(math.prod(sizes[place] for place in clique) for clique in held) > cells:
            continue
        counts = np.array([total, 0.0])
        found.append(NoisyMarginal(columns, counts, _NEXT_TO_NONE, cells=(~possible).astype(np.intp)))
    return found
