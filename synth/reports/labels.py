"""Names of the bins of a declared column."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from synth.schema import ModelledColumn

__all__ = ["bin_labels"]


def bin_labels(column: ModelledColumn, bins: NDArray[np.int32]) -> tuple[str, ...]:
    """Name every bin by the codes in it: one value, the first and the last, or the first and how many others.

    Parameters
    ----------
    column : ModelledColumn
    bins : array of shape (column.size,)
        Bin of every code.
    """
    order = np.argsort(bins, kind="stable")
    ends = np.searchsorted(bins[order], np.arange(int(bins.max()) + 2)).tolist()
    labels = []
    for start, end in itertools.pairwise(ends):
        codes = order[start:end]
        if start == end:
            labels.append("nothing")
        elif int(codes[-1]) - int(codes[0]) == len(codes) - 1:
            labels.append(" to ".join(column.texts(sorted({int(codes[0]), int(codes[-1])}), missing="missing")))
        else:
            (first,) = column.texts([int(codes[0])], missing="missing")
            labels.append(f"{first} and {len(codes) - 1} more")
    return tuple(labels)
