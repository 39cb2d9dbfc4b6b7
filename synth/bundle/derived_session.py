"""Recorded answers for another generator than the one that asked them: tables of counts worked out from other tables.

Whatever is worked out from noisy answers costs nothing. A table of counts follows from a measured one of the same
columns, or of more: cells are added up, and where a measured cell lies in several of the wanted ones its count is
shared out by how many codes of it lie in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.answers import RowCount
from synth.privacy.budget import PrivacyBudget
from synth.privacy.features import FeatureMap, OneHot, Stack
from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.receipt import NoisyAnswer
from synth.privacy.recorded_session import RecordedSession
from synth.reports.measured import MeasuredTable, measured_tables
from synth.schema import Schema

__all__ = ["DerivedSession", "derived_table"]


class DerivedSession(RecordedSession):
    """Answers what was asked as it was asked, and tables of counts that follow from others.

    Choices are not answered: which table is worth counting was decided for another model.

    Parameters
    ----------
    schema, budget, rows, releases, row_releases
        As in :class:`synth.privacy.recorded_session.RecordedSession`.
    """

    def __init__(
        self,
        schema: Schema,
        budget: PrivacyBudget,
        *,
        rows: RowCount,
        releases: Iterable[NoisyAnswer] = (),
        row_releases: Iterable[PerturbedRows] = (),
    ) -> None:
        known = tuple(releases)
        super().__init__(schema, budget, rows=rows, releases=known, row_releases=row_releases)
        self._known = known
        self._tables = measured_tables(known)

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        """Return the recorded answer, or one that follows from recorded tables; its receipt is no certified one.

        Raises
        ------
        PrivacyError
            If it was never asked and follows from nothing that was.
        """
        try:
            return super().noisy_sum(feature_map, share=share, query=query, source=source)
        except PrivacyError as refusal:
            release = self._derived(feature_map, query)
            if release is None:
                raise refusal from None
        self._take(share)
        return release

    def sub_session(self, share: float) -> RecordedSession:
        """Return the same answers, for a part that has all of its own share left."""
        self._take(share)
        return DerivedSession(
            self.schema, self.budget, rows=self.rows, releases=self._known, row_releases=self._row_releases.values()
        )

    def _derived(self, question: FeatureMap, query: str) -> NoisyAnswer | None:
        parts = question.parts if isinstance(question, Stack) else (question,)
        weights = question.weights if isinstance(question, Stack) else (1.0,)
        values, noise = [], []
        for part, weight in zip(parts, weights, strict=True):
            found = derived_table(part, self._tables) if isinstance(part, OneHot) else None
            if found is None:
                return None
            counts, deviation = found
            values.append(weight * counts.reshape(-1))
            noise.append(weight * deviation)
        recorded = next(one for one in self._known if one.receipt.mechanism == "discrete_gaussian")
        receipt = replace(
            recorded.receipt, query=query, noise_scale=max(noise), dimension=sum(value.size for value in values)
        )
        return replace(recorded, receipt=receipt, feature_map=question, value=np.concatenate(values))


def derived_table(wanted: OneHot, tables: Sequence[MeasuredTable]) -> tuple[NDArray[np.float64], float] | None:
    """Work out a table of counts from measured ones.

    Parameters
    ----------
    wanted : OneHot
        The columns and their bins.
    tables : sequence of MeasuredTable

    Returns
    -------
    counts : array of shape (bins of each wanted column), in rows
    noise_std : float
        Largest standard deviation of the noise of a count, in rows.
        None where no table has all the columns. A table whose cells lie within the wanted ones comes first, the one
        with the least noise among them; then the finest.
    """
    of_columns = [table for table in tables if set(wanted.columns) <= set(table.columns)]
    found = [_from(wanted, table) for table in of_columns]
    if not found:
        return None
    _, _, counts, noise = min(found, key=lambda one: (not one[0], one[3] if one[0] else -one[1]))
    return counts, noise


def _from(wanted: OneHot, table: MeasuredTable) -> tuple[bool, int, NDArray[np.float64], float]:
    """Return whether cells were only added up, how many cells were measured, the counts, and their largest noise."""
    others = tuple(axis for axis, name in enumerate(table.columns) if name not in wanted.columns)
    counts = table.counts.sum(axis=others)
    variances = np.full(counts.shape, table.noise_std**2 * math.prod(table.counts.shape[axis] for axis in others))
    left = [name for name in table.columns if name in wanted.columns]
    order = [left.index(name) for name in wanted.columns]
    counts, variances = counts.transpose(order), variances.transpose(order)
    exact = True
    for axis, (name, bins, size) in enumerate(zip(wanted.columns, wanted.bins, wanted.sizes, strict=True)):
        target = np.arange(size) if bins is None else bins
        shares = _shares(table.bins[table.columns.index(name)], target)
        exact = exact and bool((shares.max(axis=0) == 1.0).all())
        counts = np.moveaxis(np.tensordot(shares, counts, axes=(1, axis)), 0, axis)
        variances = np.moveaxis(np.tensordot(shares**2, variances, axes=(1, axis)), 0, axis)
    return exact, table.counts.size, counts, math.sqrt(float(variances.max()))


def _shares(measured: NDArray[np.int32], wanted: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Return which part of every measured bin's codes lies in every wanted bin, shape (n_wanted, n_measured)."""
    together = np.zeros((int(wanted.max()) + 1, int(measured.max()) + 1))
    np.add.at(together, (wanted, measured), 1.0)
    return np.asarray(together / np.maximum(together.sum(axis=0), 1.0))
