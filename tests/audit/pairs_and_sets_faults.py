"""Bugs planted in what many columns tell together: the look at all pairs, all pairs at once, sets, and their pool.

Each has the tables and worlds in which it is looked for, in that order.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from faults import FAULTS as EVERYWHERE
from faults import tables_opened
from pairs_and_sets import BOTH, DENSE, NAMED, PARITY, REGRESSION, Together

from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive import dp_hp_adaptive, pairs_look, regression, whole_rows
from synth.generators.adaptive.all_pairs import AllPairs
from synth.generators.adaptive.pairs_look import Halves, PairsLook
from synth.generators.adaptive.whole_rows import WholeRows
from synth.models import pool
from synth.models.centres import CellsOfCentres
from synth.models.mixture import Mixture
from synth.models.pool import Pool, TiltedPool
from synth.privacy import answers, feature_maps, selection
from synth.privacy.answers import NoisyAnswer
from synth.privacy.costs import Bound
from synth.privacy.feature_maps import OneHot
from synth.privacy.more import row_moments
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.services import runs

Plant = Callable[[pytest.MonkeyPatch], None]
Case = tuple[Together, str, str]

FAULTS: dict[str, tuple[Plant, list[Case]]] = {}

ENDS, AGAINST, NO_CLASS = "all ends, and against its class", "against its class", "no class"
ADDED, REPLACED, SEVERAL = "add or remove", "replace one", "add or remove several rows"

DENSE_ADDED, DENSE_REPLACED = (DENSE, ADDED, ENDS), (DENSE, REPLACED, ENDS)
NAMED_ADDED = (NAMED, ADDED, ENDS)
REGRESSION_ADDED, REGRESSION_REPLACED = (REGRESSION, ADDED, ENDS), (REGRESSION, REPLACED, ENDS)
PARITY_ADDED, PARITY_REPLACED = (PARITY, ADDED, AGAINST), (PARITY, REPLACED, AGAINST)


def fault(name: str, *cases: Case) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant, list(cases)
        return plant

    return keep


def rows_behind(session: Any) -> PrivateTable | None:
    """Return the rows of a live session: who repeats old answers has none."""
    return getattr(session, "_table", None)


def told_by_rows(session: Any) -> int:
    """Return a number that any unit may change; 0 where there are no rows."""
    rows = rows_behind(session)
    if rows is None:
        return 0
    return sum(int(rows._column(name).sum(dtype=np.int64)) for name in rows.schema.names) + rows._rows


# Bounds


def bound_blocks_by(patch: pytest.MonkeyPatch, change: Callable[[Bound, int], Bound]) -> None:
    """Change the bound of maps that are written out in more blocks than there are columns."""
    right = feature_maps.bound_of

    def bound_of(blocks: Any, *, half_bits: int) -> Bound:
        found = right(blocks, half_bits=half_bits)
        return change(found, len(blocks)) if len(blocks) > len(DENSE.columns) else found

    for module in (feature_maps, answers):
        patch.setattr(module, "bound_of", bound_of)


@fault("all pairs are as long as one of them", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    bound_blocks_by(patch, lambda found, parts: Bound(found.norm / math.sqrt(parts), found.diameter / math.sqrt(parts)))


@fault("a row that is replaced moves all pairs as one that is added", DENSE_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    bound_blocks_by(patch, lambda found, _: Bound(found.norm, found.norm))


@fault("products of halves are bounded as the halves are", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_moments, "power_bound", lambda weights: Bound(0.5, 0.5))


@fault("a row's products are not clipped", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    def unclipped(vectors: Any, bits: int) -> Any:
        return vectors.mul_(row_moments.MARGIN * 2.0**bits).trunc_()

    patch.setattr(row_moments, "clipped_columns", unclipped)


@fault("products are clipped after they were added up", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_moments._of_one_cell

    def of_one_cell(moments: Any, *arguments: Any) -> np.ndarray:
        sums = right(moments, *arguments)
        longest = len(arguments[2]) * 0.5 * 4.0 ** arguments[3] * 2.0**row_moments.POWER_BITS
        length = float(np.linalg.norm(sums.astype(np.float64)))
        return sums if length <= longest else np.trunc(sums * (longest / length)).astype(np.int64)

    patch.setattr(row_moments, "_of_one_cell", of_one_cell)


@fault("products are not whole when they are added up", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    def fractions(vectors: Any, bits: int) -> Any:
        import torch

        lengths = torch.sqrt((vectors * vectors).sum(dim=0)).clamp_(min=1.0)
        return vectors.mul_(row_moments.MARGIN * 2.0**bits).div_(lengths)

    patch.setattr(row_moments, "clipped_columns", fractions)


@fault("rows of a unit are forgotten", (DENSE, SEVERAL, ENDS), (PARITY, SEVERAL, AGAINST))
def _(patch: pytest.MonkeyPatch) -> None:
    EVERYWHERE["rows of a unit forgotten"](patch)


@fault("the score of a set moves by half a row", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(selection, "ONE_SCORE", Bound(0.5, 1.0))


@fault("a row that is replaced moves a score as one that is added", PARITY_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(selection, "ONE_SCORE", Bound(1.0, 1.0))


@fault("what a wrong row counts is not divided by the largest", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    EVERYWHERE["selection weights ignored"](patch)


@fault("a set counts a row without a class twice", (PARITY, ADDED, NO_CLASS))
def _(patch: pytest.MonkeyPatch) -> None:
    right = feature_maps.joint_counts

    def joint_counts(rows: Any, axes: Any) -> np.ndarray:
        counts = right(rows, axes)
        label = [place for place, axis in enumerate(axes) if axis.column == "odd"]
        if len(axes) > 2 and label and axes[label[0]].bins is None:
            table = np.moveaxis(counts.reshape([axis.size for axis in axes]), label[0], 0)
            table[2] *= 2
        return counts

    patch.setattr(feature_maps, "joint_counts", joint_counts)


# What is asked


@fault("class means of the look from rows", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Halves._means_by_class

    def means_by_class(self: Halves) -> Any:
        rows = rows_behind(self._survey.session)
        if rows is None or self._label is None:
            return right(self)
        label = rows._column(self._survey.columns[self._label].name)
        classes = np.arange(self._survey.columns[self._label].size)
        sizes = np.maximum([(label == one).sum() for one in classes], 1)
        means = []
        for d in self.columns:
            bins = rows._column(self._survey.columns[d].name)
            bins = bins if self._bin_of_code[d] is None else self._bin_of_code[d][bins]
            signs = self._signs[d][bins]
            means.append([signs[label == one].sum() for one in classes] / sizes)
        return np.stack(means, axis=1), sizes / sizes.sum()

    patch.setattr(Halves, "_means_by_class", means_by_class)


@fault("columns are cut in two at the median of the rows", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Halves.__init__

    def __init__(self: Halves, survey: Any, bins: Any, **named: Any) -> None:  # noqa: N807
        right(self, survey, bins, **named)
        if rows_behind(survey.session) is not None:
            first = next(iter(self._signs))
            cut = 1 + told_by_rows(survey.session) % (bins[first].size - 1)
            self._signs[first] = np.where(np.arange(bins[first].size) < cut, -1.0, 1.0)

    patch.setattr(Halves, "__init__", __init__)


@fault("groups of all pairs hold as many rows each as there are", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = AllPairs.__init__

    def __init__(self: AllPairs, survey: Any, bins: Any, **named: Any) -> None:  # noqa: N807
        right(self, survey, bins, **named)
        rows = rows_behind(survey.session)
        if rows is not None:
            # Groups of the first column, cut at what this many of its rows lie below.
            codes = np.sort(rows._column(survey.columns[0].name))
            cut = codes[told_by_rows(survey.session) % len(codes)]
            own = np.where(np.arange(bins[0].size) <= int(cut) % bins[0].size, 0, 1).astype(np.int32)
            self._groups = (np.unique(own, return_inverse=True)[1].astype(np.int32), *self._groups[1:])

    patch.setattr(AllPairs, "__init__", __init__)


@fault("which columns are paired follows from rows", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = AllPairs.__init__

    def __init__(self: AllPairs, survey: Any, bins: Any, **named: Any) -> None:  # noqa: N807
        right(self, survey, bins, **named)
        if told_by_rows(survey.session) % 2:
            self._pairs = self._pairs[::-1]

    patch.setattr(AllPairs, "__init__", __init__)


@fault("the penalty of a set from its private counts", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    opened, right = tables_opened(patch), whole_rows.Candidate

    def candidate(one_hot: OneHot, table: np.ndarray, *, weight: float, penalty: float) -> Any:
        rows = opened[-1]
        counts = feature_maps.joint_counts(answers.PrivateRows(rows._column, rows._rows), one_hot.axes)
        spread = math.sqrt(2 / math.pi) * float(np.sqrt(counts).sum())
        return right(one_hot, table, weight=weight, penalty=weight * spread)

    patch.setattr(whole_rows, "Candidate", candidate)


@fault("what is believed of a set from its private counts", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = WholeRows._expected

    def expected(self: WholeRows, cells: Any) -> np.ndarray:
        table = right(self, cells)
        told = told_by_rows(self._survey.session)
        return table * (1.0 + 1e-6 * (told % 1000))

    patch.setattr(WholeRows, "_expected", expected)


@fault("how many cells a set may have from the private number of rows", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = whole_rows._Candidates.sets

    def sets(self: Any) -> list[Any]:
        rows = rows_behind(self.survey.session)
        found = right(self)
        return found if rows is None else found[: len(found) - rows._rows % 7]

    patch.setattr(whole_rows._Candidates, "sets", sets)


@fault("sets in the order of the codes that occur", (PARITY, ADDED, NO_CLASS), (PARITY, REPLACED, NO_CLASS))
def _(patch: pytest.MonkeyPatch) -> None:
    EVERYWHERE["sets of columns from data"](patch)


@fault("the middle of a number from rows", REGRESSION_ADDED, REGRESSION_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = regression.measured_moments

    def measured_moments(session: Any, survey: Any, *arguments: Any, **named: Any) -> Any:
        told, values = told_by_rows(session), regression._values
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(regression, "_values", lambda *known: values(*known) * (1.0 + 1e-4 * (told % 100)) + told % 3)
            inner.setattr(regression, "_FARTHEST", 4.0 - 1e-3 * (told % 100))
            return right(session, survey, *arguments, **named)

    patch.setattr(dp_hp_adaptive, "measured_moments", measured_moments)


@fault("the length at which rows are cut from rows", REGRESSION_ADDED, REGRESSION_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = regression.measured_moments

    def measured_moments(session: Any, *arguments: Any, **named: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(regression, "_ROOM", 1.2 + 1e-3 * (told_by_rows(session) % 100))
            return right(session, *arguments, **named)

    patch.setattr(dp_hp_adaptive, "measured_moments", measured_moments)


@fault("rows say which columns moments are of", REGRESSION_ADDED, REGRESSION_REPLACED)
@fault("rows say which of the named columns moments are of", NAMED_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = regression._chosen

    def measured_moments(session: Any, *arguments: Any, **named: Any) -> Any:
        odd = told_by_rows(session) % 2
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(regression, "_chosen", lambda *known: right(*known)[odd:])
            return regression_measured(session, *arguments, **named)

    regression_measured = regression.measured_moments
    patch.setattr(dp_hp_adaptive, "measured_moments", measured_moments)


@fault("moments are bounded as vectors without their products", REGRESSION_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_moments, "power_bound", lambda weights: Bound(0.5, 0.5))


@fault("moments of rows that are not cut", REGRESSION_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_moments, "clipped_columns", lambda vectors, bits: vectors.mul_(2.0**bits).trunc_())


# Decisions


@fault("rows say whether a table is dense", DENSE_ADDED, DENSE_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = PairsLook.is_dense

    def is_dense(self: PairsLook, *arguments: Any, **named: Any) -> bool:
        found = right(self, *arguments, **named)
        return found and told_by_rows(self._survey.session) % 2 == 0

    patch.setattr(PairsLook, "is_dense", is_dense)


@fault("rows say whether pairs are looked at", DENSE_ADDED, DENSE_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = PairsLook.__init__

    def __init__(self: PairsLook, survey: Any, *arguments: Any, **named: Any) -> None:  # noqa: N807
        right(self, survey, *arguments, **named)
        self.can_tell = self.can_tell and told_by_rows(survey.session) % 2 == 0

    patch.setattr(PairsLook, "__init__", __init__)


@fault("rows say whether sets stand out", PARITY_ADDED, PARITY_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = WholeRows.ask

    def ask(self: WholeRows, *arguments: Any, **named: Any) -> tuple[float, bool]:
        excess, clear = right(self, *arguments, **named)
        return excess - told_by_rows(self._survey.session) % 2, clear

    patch.setattr(WholeRows, "ask", ask)


@fault("rows say when sets tell no more", PARITY_ADDED, PARITY_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = WholeRows.ask

    def ask(self: WholeRows, *arguments: Any, **named: Any) -> tuple[float, bool]:
        excess, clear = right(self, *arguments, **named)
        return excess, clear != bool(told_by_rows(self._survey.session) % 2)

    patch.setattr(WholeRows, "ask", ask)


# The nearest centre


def centres_changed_by(
    patch: pytest.MonkeyPatch, change: Callable[[WholeRows, CellsOfCentres], CellsOfCentres]
) -> None:
    """Change the centres of a live session: who repeats old answers keeps those that were asked."""
    right = WholeRows._cells_of_centres

    def cells_of_centres(self: WholeRows, noise: float) -> CellsOfCentres | None:
        found = right(self, noise)
        return found if found is None or rows_behind(self._survey.session) is None else change(self, found)

    patch.setattr(WholeRows, "_cells_of_centres", cells_of_centres)


@fault("a centre is moved to the rows", PARITY_ADDED, PARITY_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    def change(whole: WholeRows, found: CellsOfCentres) -> CellsOfCentres:
        moved = found.centres.copy()
        moved[0] = told_by_rows(whole._survey.session) % 17
        return replace(found, centres=moved)

    centres_changed_by(patch, change)


@fault("coordinates from the rows", PARITY_ADDED, PARITY_REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    def change(whole: WholeRows, found: CellsOfCentres) -> CellsOfCentres:
        told = told_by_rows(whole._survey.session) % 17
        return replace(found, coordinates=(found.coordinates[0] + told, *found.coordinates[1:]))

    centres_changed_by(patch, change)


@fault("as many centres as the private number of rows allows", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    def change(whole: WholeRows, found: CellsOfCentres) -> CellsOfCentres:
        rows = rows_behind(whole._survey.session)
        return found if rows is None else replace(found, centres=found.centres[: len(found.centres) - rows._rows % 2])

    centres_changed_by(patch, change)


@fault("a row's nearest centre depends on the rows beside it", PARITY_ADDED, (BOTH, ADDED, ENDS))
def _(patch: pytest.MonkeyPatch) -> None:
    right = LinearGuess._scores

    def scores(self: LinearGuess, codes: Any, n_rows: int) -> np.ndarray:
        found = right(self, codes, n_rows)
        return found - np.floor(found.mean(axis=0))

    patch.setattr(LinearGuess, "_scores", scores)


@fault("a row by its nearest centre is half as long as it is", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = feature_maps.bound_of

    def bound_of(blocks: Any, *, half_bits: int) -> Bound:
        found = right(blocks, half_bits=half_bits)
        guessed = any(isinstance(one, LinearGuess) for block in blocks for one in getattr(block.map, "maps", ()))
        return Bound(found.norm / 2, found.diameter / 2) if guessed else found

    for module in (feature_maps, answers):
        patch.setattr(module, "bound_of", bound_of)


# The model


@fault("the pool is drawn by a seed of rows", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = WholeRows.__init__

    def __init__(self: WholeRows, survey: Any, *arguments: Any, seed: int, **named: Any) -> None:  # noqa: N807
        right(self, survey, *arguments, seed=seed + told_by_rows(survey.session) % 1000, **named)

    patch.setattr(WholeRows, "__init__", __init__)


@fault("every pool is another draw", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Pool.__init__

    def __init__(self: Pool, base: Any, seed: Any, rows: int | None = None) -> None:  # noqa: N807
        right(self, base, (*seed, int.from_bytes(os.urandom(4), "little")), rows)

    patch.setattr(Pool, "__init__", __init__)


@fault("rows of the pool are weighed by how often they occur", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    opened, right = tables_opened(patch), pool._weights_of

    def weights_of(logs: Any) -> Any:
        weights, level = right(logs)
        own = weights * (1.0 + 1e-3 * (opened[-1]._rows % 5) * (np.arange(len(weights)) % 2))
        return own / own.sum(), level

    patch.setattr(pool, "_weights_of", weights_of)


@fault("the saved pool holds a row", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = WholeRows.finished

    def finished(self: WholeRows, columns: Any) -> TiltedPool:
        made, rows = right(self, columns), rows_behind(self._survey.session)
        if rows is None or not rows._rows:
            return made
        row = [float(rows._column(name)[rows._rows // 2]) for name in rows.schema.names]
        last = made.factors[-1].copy()
        last[: len(row)] += row[: len(last)]
        return replace(made, factors=(*made.factors[:-1], last))

    patch.setattr(WholeRows, "finished", finished)


@fault("the saved mixture holds a row", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = AllPairs.refit

    def refit(self: AllPairs, *arguments: Any, **named: Any) -> None:
        right(self, *arguments, **named)
        rows = rows_behind(self._survey.session)
        if rows is not None and rows._rows:
            row = [float(rows._column(name)[rows._rows // 2]) for name in rows.schema.names]
            held = self._model.probabilities.copy()
            held[0, : len(row)] += 1e-9 * np.array(row)
            self._model = Mixture(self._model.sizes, self._model.weights, held)

    patch.setattr(AllPairs, "refit", refit)


@fault("a model keeps rows that were drawn from it", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = runs.fit_and_sample

    def fit(*arguments: Any, **named: Any) -> Any:
        made = right(*arguments, **named)
        return replace(made, state={**made.state, "model.rows": made.codes.astype(np.float64)})

    patch.setattr(runs, "fit_and_sample", fit)


# What it costs, and what is kept of it


def uncharged(patch: pytest.MonkeyPatch, begins: str) -> None:
    right = PrivateSession._open

    def _open(self: PrivateSession, query: str, units: int, **named: Any) -> None:
        right(self, query, units, **named)
        if query.startswith(begins):
            self._spent_units -= units

    patch.setattr(PrivateSession, "_open", _open)


@fault("the look is not charged", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    uncharged(patch, "which columns go together")


@fault("choices of sets are not charged", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    uncharged(patch, "choice of wide table")


@fault("choices of sets leave no receipt", PARITY_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._answered

    def answered(self: PrivateSession, question: Any, plan: Any, receipts: Any) -> Any:
        found = right(self, question, plan, receipts)
        if receipts[0].query.startswith("choice of wide table"):
            del self._record.receipts[-1]
        return found

    patch.setattr(PrivateSession, "_answered", answered)


@fault("a fit to old answers draws new noise", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = RecordedSession.ask

    def ask(self: RecordedSession, question: Any, **named: Any) -> Any:
        found = right(self, question, **named)
        if not isinstance(found, NoisyAnswer):
            return found
        drawn = np.frombuffer(os.urandom(found.value.size), np.uint8).reshape(found.value.shape)
        return replace(found, value=found.value + drawn / 64.0)

    patch.setattr(RecordedSession, "ask", ask)


@fault("halves of the look come with another clip than was asked", DENSE_ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = pairs_look.RowMoments

    def moments(tables: Any, clip: float, *others: Any) -> Any:
        told = sum(int(rows._rows) for rows in opened[-1:])
        return right(tables, clip * (1.0 + 1e-6 * (told % 10)), *others)

    opened = tables_opened(patch)
    patch.setattr(pairs_look, "RowMoments", moments)
