"""Candidates of a private choice, written with their columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synth.privacy.feature_maps import OneHot
from synth.privacy.selection import Candidate

__all__ = ["candidate_of"]


def candidate_of(
    columns: Sequence[str],
    table: np.ndarray,
    weight: float = 1.0,
    penalty: float = 0.0,
    *,
    bins: Sequence[np.ndarray | None] = (),
) -> Candidate:
    """Return the candidate of a table; a column without bins has as many codes as the table is long."""
    known = tuple(bins) or (None,) * len(columns)
    sizes = tuple(size if one is None else one.size for size, one in zip(table.shape, known, strict=False))
    return Candidate(OneHot(tuple(columns), known, sizes), table, weight, penalty)
