"""Tables of counts among the paid answers of a run: what a publishable report compares with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.coarse_grid import coarse_grid
from synth.privacy.column_maps import OneHot
from synth.privacy.feature_maps import FeatureMap, Stack
from synth.privacy.more.products import Product
from synth.privacy.noisy_sums import NoisyAnswer
from synth.reports.control import PUBLIC_BINS
from synth.schema import ModelledColumn, Schema

__all__ = ["EVALUATION_QUERY", "MeasuredTable", "evaluation_question", "measured_tables"]

EVALUATION_QUERY = "one-way tables for the report"
_FINEST = 128
"""A declared range with more places than this is measured for the report in 32 public bins; finer ones are noise."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """A table of noisy counts.

    Attributes
    ----------
    columns : tuple of str
        One to three columns.
    bins : tuple of arrays of shape (column size,), int32
        Bin of every code, by column.
    counts : array of shape (bins of the first column, ...)
        Noisy counts, in rows.
    noise_std : float
        Standard deviation of the noise on every count, in rows.
    query : str
        The question it answers.
    """

    columns: tuple[str, ...]
    bins: tuple[NDArray[np.int32], ...]
    counts: NDArray[np.float64]
    noise_std: float
    query: str

    @property
    def is_by_code(self) -> bool:
        """Whether every declared code has a bin of its own."""
        return all(len(one) == int(one.max()) + 1 for one in self.bins)


def evaluation_question(schema: Schema) -> FeatureMap:
    """Return the one question that a charged evaluation asks: every column's one-way table.

    The columns share it equally. A range of more than 128 places is counted in 32 public bins.
    """
    parts = tuple(_one_way(column) for column in schema.modelled)
    return Stack(parts=parts, weights=(1 / math.sqrt(len(parts)),) * len(parts))


def _one_way(column: ModelledColumn) -> OneHot:
    grid = PUBLIC_BINS if column.levels > _FINEST else _FINEST
    places = coarse_grid(column, grid=grid, atoms=max(column.size, 1))
    return OneHot(columns=(column.name,), bins=(places.bins,), sizes=(column.size,))


def measured_tables(releases: Iterable[NoisyAnswer]) -> tuple[MeasuredTable, ...]:
    """Find every table of counts among noisy answers, best measured first.

    Looks into stacks and products; maps that are no counts (Fourier, Hermite) are passed over, and so is what was asked
    of the hold-out, whose rows are others than those that synthetic rows are compared with.
    """
    found: list[MeasuredTable] = []
    for release in releases:
        if release.receipt.mechanism == "discrete_gaussian" and release.receipt.part == "train":
            flat = np.asarray(release.value, dtype=np.float64).reshape(-1)
            found += _tables(release.feature_map, flat, release.noise_std, release.receipt.query)
    return tuple(sorted(found, key=lambda table: table.noise_std))


def _tables(question: object, flat: NDArray[np.float64], noise_std: float, query: str) -> Iterator[MeasuredTable]:
    if isinstance(question, Stack):
        start = 0
        for part, weight in zip(question.parts, question.weights, strict=True):
            piece = flat[start : start + part.dimension]
            start += part.dimension
            yield from _tables(part, piece / weight, noise_std / weight, query)
        return
    leaves = list(question.factors) if isinstance(question, Product) else [question]
    hots = [leaf for leaf in leaves if isinstance(leaf, OneHot)]
    if not hots or len(hots) < len(leaves):
        return
    columns = tuple(column for hot in hots for column in hot.columns)
    if len(set(columns)) == len(columns):
        shape = tuple(size for hot in hots for size in hot.shape)
        bins = tuple(one for hot in hots for one in _explicit_bins(hot))
        yield MeasuredTable(columns, bins, flat.reshape(shape), noise_std, query)


def _explicit_bins(hot: OneHot) -> Sequence[NDArray[np.int32]]:
    return [
        np.arange(size, dtype=np.int32) if one is None else one for size, one in zip(hot.sizes, hot.bins, strict=True)
    ]
