"""PrivBayes: a Bayesian network of privately chosen parents, and one noisy table for each column with its parents."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.one_way_marginals import OneWayMarginals, measure_one_way_marginals
from synth.generators.privbayes import CARD, PrivBayesOptions
from synth.generators.privbayes.network import Families, Family
from synth.generators.protocol import Card, Fact, Generator, GeneratorTask, State, states_of_columns
from synth.generators.sampling import check_rows, random_source
from synth.generators.stacked import answers_of_parts
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import LAPLACE_AS_NORMAL, AnswerSource
from synth.privacy.feature_maps import Stack
from synth.privacy.more.dependence import Dependence
from synth.progress import Progress
from synth.schema import column_title

__all__ = ["PrivBayes"]

_MEAN_NOISE = math.sqrt(2.0 / math.pi)
"""Mean absolute value of Gaussian noise, in units of its standard deviation."""

_EVEN = 0.02
"""Share of a table in which its columns are independent: what is drawn where its parents have next to no rows."""

_MOST_LISTED = 100
"""Most columns whose parents are listed among the facts."""

_RAKING = 5
"""Times that a table is scaled to agree with each of its columns."""


@dataclass(frozen=True, slots=True, eq=False)
class _Conditional:
    """How the bins of a column depend on its parents.

    Attributes
    ----------
    parents : tuple of int
    groups : tuple of arrays of shape (bins of a parent,), int32
        Part of every bin, by parent.
    chances : array of shape (cells of the parents, bins)
        Rows sum to 1; cells of the parents in order, the last parent fastest.
    """

    parents: tuple[int, ...]
    groups: tuple[NDArray[np.int32], ...]
    chances: NDArray[np.float64]

    def cells(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell of the parents of every row of bins."""
        found = np.zeros(len(rows), dtype=np.int64)
        for parent, group in zip(self.parents, self.groups, strict=True):
            found *= int(group.max()) + 1
            found += group[rows[:, parent]]
        return found

    def draw(self, rows: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """Draw a bin for every row.

        Within each cell of the parents, bins are drawn systematically and dealt out at random, so that their counts are
        the floor or the ceiling of what is expected and nothing else follows from the order of rows.
        """
        cells = self.cells(rows)
        order = np.lexsort((random.random(len(rows)), cells))
        counts = np.bincount(cells, minlength=len(self.chances))
        starts = np.cumsum(counts) - counts
        cell = cells[order]
        place = (np.arange(len(rows)) - starts[cell] + random.random(len(counts))[cell]) / counts[cell]
        upper = np.cumsum(self.chances, axis=1)
        upper[:, -1] = 1.0
        edges = (upper + np.arange(len(upper))[:, None]).reshape(-1)
        drawn = np.searchsorted(edges, cell + np.minimum(place, 1 - 2.0**-40), side="right") - cell * upper.shape[1]
        bins = np.empty(len(rows), dtype=np.int64)
        bins[order] = np.minimum(drawn, upper.shape[1] - 1)
        return bins


class PrivBayes(Generator):
    """Choose parents privately, count each column with its parents, and draw rows column by column.

    Notes
    -----
    Differs from the paper (Zhang 2017): noise is Gaussian, and Laplace noise as there only where delta is 0; each
    column is first counted on its own, which gives the bins, the first column (the one with the highest entropy, not a
    random one), what tables are scaled to and what is drawn where parents have next to no rows; the parents of a column
    are all cut into at most the same number of parts, and not each along its own taxonomy.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: PrivBayesOptions) -> None:
        self._task, self._options = task, options
        self._columns = task.schema.modelled
        longest = max(self._columns, key=lambda column: column.size)
        if options.score == "F" and longest.size > 2:
            raise ConfigError(
                f"generator 'privbayes' with score F needs columns of at most two values, missing cells included; "
                f"'{column_title(task.schema, longest.name)}' has {longest.size:,}. Choose score R."
            )
        self._bins: tuple[ColumnBins, ...] = ()
        self._pure = False
        self._order: tuple[int, ...] = ()
        self._conditionals: dict[int, _Conditional] = {}

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Count the columns, choose the network, and count its tables."""
        progress.phase("Counting columns")
        whole, own = session.remaining_share, self._options.columns_share
        self._pure = session.budget.is_pure
        one_ways = self._counted(session, whole * own, None)
        left = whole * (1.0 - own)  # as requested, not as rounded when charged
        bins = coarsen(one_ways, self._coarseness(one_ways, left))
        varied = [d for d, one in enumerate(bins) if one.size > 1]
        families = Families(
            self._columns,
            bins,
            cells=self._useful_cells(one_ways, left),
            most_parents=self._options.parents,
            seed=self._task.seed,
        )
        progress.phase("Choosing parents")
        network = self._network(session, varied, bins, families, left, progress)
        if any(family.parents for family in network):
            progress.phase("Counting columns with their parents")
            self._measure(session, network, families, bins, one_ways.rows)
        else:
            # Noise would hide every table of two columns.
            one_ways = self._counted(session, session.remaining_share, one_ways)
            bins = coarsen(one_ways, self._coarseness(one_ways, left))
        constant = [d for d in range(len(bins)) if d not in {family.child for family in network}]
        self._order = (*(family.child for family in network), *constant)
        for d in self._order:
            if d not in self._conditionals:
                self._conditionals[d] = _Conditional((), (), bins[d].expected[None, :])
        self._bins = bins
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw bins column by column, parents first, then codes inside the bins."""
        check_rows(n_rows)
        self._require_fitted()
        random = random_source(seed)
        rows = np.zeros((n_rows, len(self._columns)), dtype=np.int64)
        for d in self._order:
            rows[:, d] = self._conditionals[d].draw(rows, random)
        for d, bins in enumerate(self._bins):
            rows[:, d] = bins.codes(rows[:, d], random)
        return rows

    def state(self) -> State:
        """Return the columns' bins, the order, and every column's parents and chances."""
        self._require_fitted()
        found = {f"column.{d}.{name}": one for d, bins in enumerate(self._bins) for name, one in bins.state().items()}
        for d, one in self._conditionals.items():
            found[f"column.{d}.parents"] = np.array(one.parents, dtype=np.int64)
            found[f"column.{d}.chances_of_bins"] = one.chances.copy()
            found |= {f"column.{d}.parts.{place}": group.copy() for place, group in enumerate(one.groups)}
        return {**found, "order": np.array(self._order, dtype=np.int64)}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: PrivBayesOptions, state: State) -> Self:
        """Rebuild a fitted network; it draws the same bytes.

        Raises
        ------
        ValueError
            If the arrays do not fit each other: a forged part would take memory for all below it.
        """
        made = cls(task, options)
        parts = states_of_columns(state, len(made._columns))
        made._bins = tuple(map(ColumnBins.from_state, made._columns, parts))
        made._order = tuple(state["order"].tolist())
        for d, one in enumerate(parts):
            parents = tuple(one["parents"].tolist())
            groups = tuple(one[f"parts.{place}"].astype(np.int32) for place in range(len(parents)))
            chances = one["chances_of_bins"].astype(np.float64)
            cells = math.prod(int(group.max()) + 1 for group in groups)
            lengths = [made._bins[parent].size for parent in parents]
            if [len(group) for group in groups] != lengths or chances.shape != (cells, made._bins[d].size):
                raise ValueError(f"The parents of '{made._columns[d].name}' and its table do not fit.")
            made._conditionals[d] = _Conditional(parents, groups, chances)
        return made

    def facts(self) -> tuple[Fact, ...]:
        """Return the network: the parents of every column, in the order in which columns are drawn."""
        names = [column_title(self._task.schema, column.name) for column in self._columns]
        rows = tuple(
            (
                names[d],
                ", ".join(names[parent] for parent in self._conditionals[d].parents) or "none",
                int(self._conditionals[d].chances.size),
            )
            for d in self._order
        )
        depending = sum(bool(one.parents) for one in self._conditionals.values())
        return (
            Fact(
                name="network",
                title="Columns that depend on others",
                value=depending,
                sentence="Parents were chosen privately; a column is drawn from its own table, given its parents.",
                header=("column", "depends on", "cells"),
                rows=rows[:_MOST_LISTED],
            ),
        )

    def _require_fitted(self) -> None:
        if not self._bins:
            raise InputError("This generator has not been fitted yet.")

    def _counted(self, session: AnswerSource, share: float, earlier: OneWayMarginals | None) -> OneWayMarginals:
        return measure_one_way_marginals(
            session, self._columns, label=self._task.label, share=share, source=self._source, earlier=earlier
        )

    @property
    def _source(self) -> str:
        return f"generator {self.card.name}"

    def _useful_cells(self, one_ways: OneWayMarginals, left: float) -> float:
        """Return the most cells of a table whose average count is so many times the expected noise of one."""
        tables = max(len(self._columns) - 1, 1)
        share = left * (1.0 - self._options.network_share)
        noise = (
            one_ways.unit_noise / LAPLACE_AS_NORMAL * tables / share
            if self._pure
            else _MEAN_NOISE * one_ways.unit_noise * math.sqrt(tables / share)
        )
        return one_ways.rows / (self._options.usefulness * noise)

    def _coarseness(self, one_ways: OneWayMarginals, left: float) -> Coarseness:
        """Return bins few enough that two columns of a number each can be counted together."""
        cells = self._useful_cells(one_ways, left)
        most = max(min(self._options.bins, round(math.sqrt(cells))), 2)
        return Coarseness(bins=most, categories=max(round(cells / 2), 2) if cells < 512 else 256)

    def _network(
        self,
        session: AnswerSource,
        varied: Sequence[int],
        bins: Sequence[ColumnBins],
        families: Families,
        left: float,
        progress: Progress,
    ) -> list[Family]:
        """Choose the parents of one column after another (algorithm 2 of the paper)."""
        if not varied:
            return []
        first = max(varied, key=lambda d: _entropy(bins[d].expected))
        network, waiting = [Family(first, (), 0)], [d for d in varied if d != first]
        rounds = len(waiting)
        while waiting:
            progress.check_cancelled()
            progress.step(rounds - len(waiting), rounds)
            offered = families.offered(waiting, [family.child for family in network])
            if not offered:
                network.extend(Family(d, (), 0) for d in waiting)
                break
            choice = session.noisy_max(
                [Dependence(families.one_hot(family), self._options.score) for family in offered],
                share=left * self._options.network_share / rounds,
                query=f"parents {len(network)}",
                source=self._source,
            )
            network.append(offered[choice.index])
            waiting.remove(network[-1].child)
        return network

    def _measure(
        self,
        session: AnswerSource,
        network: Sequence[Family],
        families: Families,
        bins: Sequence[ColumnBins],
        total: float,
    ) -> None:
        """Count every column that has parents together with them, in one question."""
        counted = [family for family in network if family.parents]
        parts = tuple(families.one_hot(family) for family in counted)
        question = Stack(parts=parts, weights=(math.sqrt(1.0 / len(parts)),) * len(parts))
        answer = session.noisy_sum(
            question, share=session.remaining_share, query="tables of the network", source=self._source
        )
        for family, (counts, _) in zip(counted, answers_of_parts(answer, question), strict=True):
            own = families.groups(family.child, family.own_parts)
            groups = tuple(families.groups(parent, family.parts) for parent in family.parents)
            expected = bins[family.child].expected
            margins = [_shares_of(own, expected)]
            margins += [
                _shares_of(group, bins[parent].expected) for parent, group in zip(family.parents, groups, strict=True)
            ]
            joint = _fitted(counts / total, margins).reshape(len(margins[0]), -1)
            # Inside a part, a column follows its own distribution.
            inside = expected / np.where(margins[0] > 0, margins[0], 1.0)[own]
            chances = joint.T[:, own] * inside
            chances[chances.sum(axis=1) <= 0] = expected  # parents that are never drawn
            self._conditionals[family.child] = _Conditional(
                family.parents, groups, chances / chances.sum(axis=1, keepdims=True)
            )


def _fitted(noisy: NDArray[np.float64], margins: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the table near to noisy shares that agrees, nearly, with what is known of each of its columns alone.

    Parameters
    ----------
    noisy : array of shape (cells,)
        Of any sign; the last column is fastest.
    margins : sequence of arrays
        Shares of the bins of every column, each not negative with sum 1.

    Returns
    -------
    array of shape (bins of each column), not negative, positive wherever all margins are
    """
    alone = functools.reduce(np.multiply.outer, margins)
    joint = (1.0 - _EVEN) * project_to_simplex(noisy).reshape(alone.shape) + _EVEN * alone
    for _ in range(_RAKING):
        for axis, margin in enumerate(margins):
            others = tuple(other for other in range(joint.ndim) if other != axis)
            now = joint.sum(axis=others)
            joint = joint * np.expand_dims(np.where(now > 0, margin / np.where(now > 0, now, 1.0), 0.0), others)
    return np.asarray(joint)


def _shares_of(groups: NDArray[np.int32], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the shares of the bins of every group."""
    return np.bincount(groups, weights=shares).astype(np.float64)


def _entropy(shares: NDArray[np.float64]) -> float:
    kept = shares[shares > 0]
    return float(-(kept * np.log(kept)).sum())
