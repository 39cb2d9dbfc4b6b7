"""Every column by class of the label, in one question: what a classifier needs first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synth.generators.column_bins import ColumnBins
from synth.models.answers import Measured
from synth.privacy.features import OneHot, Stack
from synth.privacy.session import AnswerSource
from synth.schema import ModelledColumn

__all__ = ["measure_by_label"]


def measure_by_label(
    session: AnswerSource,
    columns: tuple[ModelledColumn, ...],
    bins: Sequence[ColumnBins],
    *,
    label: int,
    lengths: Sequence[int],
    share: float,
    total: float,
    source: str,
    query: str = "tables by label",
) -> list[Measured]:
    """Count every column together with the label.

    Parameters
    ----------
    session : AnswerSource
    columns : tuple of ModelledColumn
    bins : sequence of ColumnBins
    label : int
        Position of the label.
    lengths : sequence of int
        Most bins that every column can have: longer tables have more to be off by and get more of the norm, and the
        noise is known before the question is asked.
    share : float
        Part of the session's budget to spend, in mu^2.
    total : float
        Number of rows, as far as it is known.
    source : str
        Who asks.
    query : str
        Name of the question.

    Returns
    -------
    list of Measured
        One table for each other column that has more than one bin; none, and nothing spent, where the label has one.
    """
    others = [d for d, one in enumerate(bins) if d != label and one.size > 1]
    if not others or bins[label].size < 2:
        return []
    pairs = [(min(d, label), max(d, label)) for d in others]
    codes = [one.bins for one in bins]
    parts = tuple(
        OneHot(
            columns=tuple(columns[d].name for d in pair),
            bins=tuple(codes[d] for d in pair),
            sizes=tuple(columns[d].size for d in pair),
        )
        for pair in pairs
    )
    parts_of_norm = {d: math.sqrt(length) for d, length in enumerate(lengths) if d != label and length > 1}
    whole = sum(parts_of_norm.values())
    weights = tuple(math.sqrt(parts_of_norm[d] / whole) for d in others)
    question = Stack(parts=parts, weights=weights)
    release = session.noisy_sum(question, share=share, query=query, source=source)
    pieces = np.split(
        np.asarray(release.value, dtype=np.float64).reshape(-1),
        np.cumsum([part.dimension for part in question.parts])[:-1],
    )
    return [
        Measured(
            pair,
            (piece / weight).reshape(part.shape),
            release.noise_std / weight,
            total * np.outer(bins[pair[0]].expected, bins[pair[1]].expected),
        )
        for pair, piece, weight, part in zip(pairs, pieces, question.weights, question.parts, strict=True)
    ]
