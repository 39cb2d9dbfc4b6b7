"""Names of the bins of a declared column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth.codes import code_values
from synth.schema import ModelledColumn

__all__ = ["bin_labels"]


def bin_labels(column: ModelledColumn, bins: NDArray[np.int32]) -> tuple[str, ...]:
    """Name every bin by the codes in it: one value, or the first and the last.

    Parameters
    ----------
    column : ModelledColumn
    bins : array of shape (column.size,)
        Bin of every code, ascending over the codes.
    """
    edges = np.searchsorted(bins, np.arange(int(bins.max()) + 2))
    labels = []
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        labels.append(" to ".join(code_values(column, sorted({first, end - 1}), missing="missing")))
    return tuple(labels)
