"""Planted bugs: each breaks the promise in one place, and each must be noticed by some layer for every asker."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from synth.generators.adaptive import all_pairs, dp_hp_adaptive, tables, whole_rows
from synth.generators.adaptive.bins import ColumnBins
from synth.privacy import accounting, answers, costs, counting, feature_maps, noise, selection, session, table
from synth.privacy.answers import NoisyAnswer, RowCount
from synth.privacy.costs import Bound
from synth.privacy.feature_maps import Block
from synth.privacy.more import lookups, products
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.lookups import Lookup
from synth.privacy.selection import Selection
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import Neighbours

Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, Plant] = {}


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant
        return plant

    return keep


def wrapped_noise(patch: pytest.MonkeyPatch, wrapper: Callable[[Any], Any]) -> None:
    """Put something between every session and its noise."""
    make = PrivateSession.__init__

    def __init__(self: PrivateSession, *arguments: Any, **named: Any) -> None:  # noqa: N807
        make(self, *arguments, **named)
        self._noise = wrapper(self._noise)

    patch.setattr(PrivateSession, "__init__", __init__)


def tables_opened(patch: pytest.MonkeyPatch) -> list[PrivateTable]:
    """Give a planted bug the rows behind every session, the last one last."""
    opened: list[PrivateTable] = []
    make = PrivateSession.__init__

    def __init__(self: PrivateSession, table: PrivateTable, *arguments: Any, **named: Any) -> None:  # noqa: N807
        opened.append(table)
        make(self, table, *arguments, **named)

    patch.setattr(PrivateSession, "__init__", __init__)
    return opened


class Between:
    """A noise source that hands everything on."""

    def __init__(self, source: Any) -> None:
        self.source, self.private = source, source.private

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        return self.source.gaussian(variance, size)

    def choose(self, scores: np.ndarray, **rate: int) -> int:
        return self.source.choose(scores, **rate)


# Noise


@fault("half the noise")
def _(patch: pytest.MonkeyPatch) -> None:
    right = costs._variance
    patch.setattr(costs, "_variance", lambda *a: right(*a) // 4)


@fault("nine tenths of the noise")
def _(patch: pytest.MonkeyPatch) -> None:
    right = costs._variance
    patch.setattr(costs, "_variance", lambda *a: right(*a) * 81 // 100)


@fault("half the noise, whatever the receipt says")
def _(patch: pytest.MonkeyPatch) -> None:
    class Halved(Between):
        def gaussian(self, variance: int, size: int) -> np.ndarray:
            return self.source.gaussian(variance, size) // 2

    wrapped_noise(patch, Halved)


@fault("half the noise of the operating system")
def _(patch: pytest.MonkeyPatch) -> None:
    right = noise.SystemNoise.gaussian
    patch.setattr(noise.SystemNoise, "gaussian", lambda self, variance, size: right(self, variance, size) // 2)


@fault("noise missing on one part")
def _(patch: pytest.MonkeyPatch) -> None:
    class Partial(Between):
        def gaussian(self, variance: int, size: int) -> np.ndarray:
            draws = self.source.gaussian(variance, size)
            draws[: (size + 1) // 2] = 0
            return draws

    wrapped_noise(patch, Partial)


@fault("noise on another grid")
def _(patch: pytest.MonkeyPatch) -> None:
    class Coarse(Between):
        def gaussian(self, variance: int, size: int) -> np.ndarray:
            return self.source.gaussian(variance, size) * 2

    wrapped_noise(patch, Coarse)


@fault("fixed noise key")
def _(patch: pytest.MonkeyPatch) -> None:
    def renew(self: Any) -> None:
        self._process = (noise.os.getpid(), noise._forks)
        self._encryptor = Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()

    patch.setattr(noise.CipherStream, "_renew", renew)


@fault("noise shared after a fork")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        noise.CipherStream,
        "words",
        lambda self, count: np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype=np.uint64),
    )


@fault("noise reused")
def _(patch: pytest.MonkeyPatch) -> None:
    class Reusing(Between):
        def gaussian(self, variance: int, size: int) -> np.ndarray:
            if not hasattr(self, "kept") or self.kept.size < size:
                self.kept = self.source.gaussian(variance, max(size, 5000))
            return self.kept[:size].copy()

    wrapped_noise(patch, Reusing)


@fault("noise draws stored")
def _(patch: pytest.MonkeyPatch) -> None:
    class Storing(Between):
        def gaussian(self, variance: int, size: int) -> np.ndarray:
            self.kept = self.source.gaussian(variance, size)
            return self.kept

    wrapped_noise(patch, Storing)


# Bounds


def _truncated(features: np.ndarray) -> np.ndarray:
    return np.trunc(features * 2.0**lookups.LEAF_BITS) / 2.0**lookups.LEAF_BITS


def _believe_tables(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lookup, "row_bound", lambda lookup: Bound(1.0, math.sqrt(2)))


@fault("no clip on the last column")
def _(patch: pytest.MonkeyPatch) -> None:
    right = lookups._clipped_to_grid

    def clipped(features: np.ndarray) -> np.ndarray:
        if features.shape[1] == 1:
            return right(features)
        return np.concatenate([right(features[:, :-1]), _truncated(features[:, -1:])], axis=1)

    patch.setattr(lookups, "_clipped_to_grid", clipped)
    _believe_tables(patch)


@fault("clip after aggregation")
def _(patch: pytest.MonkeyPatch) -> None:
    right = answers.exact_sum

    def clipped(blocks: Any, rows: Any, *, half_bits: int, device: str) -> np.ndarray:
        sums = right(blocks, rows, half_bits=half_bits, device=device)
        length, most = np.linalg.norm(sums.astype(np.float64)), rows.n_rows * 2.0 ** (2 * half_bits)
        return sums if length <= most else np.trunc(sums * (most / length)).astype(np.int64)

    patch.setattr(lookups, "_clipped_to_grid", _truncated)
    patch.setattr(answers, "exact_sum", clipped)
    _believe_tables(patch)


@fault("Fourier features bounded like Hermite features")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Block.bound

    def bound(block: Block, half_bits: int) -> Bound:
        found = right(block, half_bits)
        fourier = any(isinstance(one, Fourier) for one in block.map.maps)
        return Bound(found.norm, math.sqrt(2) * found.norm) if fourier else found

    patch.setattr(Block, "bound", bound)


@fault("signed tables bounded like Hermite features")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Lookup.row_bound
    patch.setattr(
        Lookup, "row_bound", lambda lookup: Bound(right(lookup).norm, min(right(lookup).diameter, math.sqrt(2)))
    )


@fault("neighbour factor dropped")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrivateSession, "_between_neighbours", lambda self, row: self.schema.unit.rows_per_unit * row.norm)


@fault("rows of a unit forgotten")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        PrivateSession,
        "_between_neighbours",
        lambda self, row: row.diameter if self.neighbours is Neighbours.REPLACE else row.norm,
    )


@fault("float matrix product")
def _(patch: pytest.MonkeyPatch) -> None:
    def features(tables: Any, indexes: Any, weight: float, half_bits: int) -> Any:
        import torch

        found = None
        for one, index in zip(tables, indexes, strict=True):
            chosen = one[torch.from_numpy(index.astype(np.int64))]
            found = chosen if found is None else (found[:, :, None] * chosen[:, None, :]).flatten(1)
        return found * (weight * 2.0**half_bits)

    patch.setattr(products, "_features", features)


@fault("last row forgotten")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        PrivateSession,
        "_rows",
        lambda self: session.PrivateRows(
            lambda name: self._table._column(name)[:-1],
            self._table._rows - 1,
            units=None if self._table._units is None else self._table._units[:-1],
        ),
    )


@fault("counts remembered whatever the bins")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(counting.Axis, "key", property(lambda axis: (axis.column, axis.size)))


@fault("counts remembered from another table")
def _(patch: pytest.MonkeyPatch) -> None:
    one = session.CountMemory()
    patch.setattr(session, "CountMemory", lambda: one)


@fault("remembered counts handed out with a choice")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.noisy_max

    class Told(Selection):
        """A choice that can hold one more thing."""

    def noisy_max(self: PrivateSession, *arguments: Any, **asked: Any) -> Selection:
        selection = right(self, *arguments, **asked)
        told = Told(selection.receipt, selection.index, selection.candidate)
        object.__setattr__(told, "counts", self._memory)
        return told

    patch.setattr(PrivateSession, "noisy_max", noisy_max)


# Facts taken from rows


@fault("bounds from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateTable._column

    def column(self: PrivateTable, name: str) -> np.ndarray:
        codes = right(self, name).astype(np.int64)
        levels = self.schema.modelled_column(name).levels
        on_grid = codes < levels
        if not on_grid.any():
            return codes
        return np.where(on_grid, codes * (levels - 1) // max(1, codes[on_grid].max()), codes)

    patch.setattr(PrivateTable, "_column", column)


@fault("categories from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateTable._column

    def column(self: PrivateTable, name: str) -> np.ndarray:
        codes = right(self, name)
        return codes if self.schema.modelled_column(name).levels else np.unique(codes, return_inverse=True)[1]

    patch.setattr(PrivateTable, "_column", column)


def bins_from_data(patch: pytest.MonkeyPatch, module: Any) -> None:
    """Have the bins that a generator makes of its columns follow the codes that are present."""
    right, opened = module.coarsen, tables_opened(patch)

    def coarsen(one_ways: Any, options: Any) -> tuple[ColumnBins, ...]:
        found = []
        for one_way, bins in zip(one_ways.columns, right(one_ways, options), strict=True):
            places = np.repeat(np.arange(one_way.grid.size), one_way.grid.width)
            present = np.isin(np.arange(one_way.grid.size), places[opened[-1]._column(one_way.column.name)])
            own = np.where(present, bins.bin_of_place, 0)
            found.append(ColumnBins.of(one_way, np.unique(own, return_inverse=True)[1].astype(np.int32)))
        return tuple(found)

    patch.setattr(module, "coarsen", coarsen)


@fault("bins from data")
def _(patch: pytest.MonkeyPatch) -> None:
    bins_from_data(patch, dp_hp_adaptive)


@fault("groups from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = all_pairs.grouped, tables_opened(patch)

    def grouped(one: ColumnBins, most: int, clear: float) -> np.ndarray:
        return right(one, max(2, min(most, len(np.unique(opened[-1]._column("age"))) % 5)), clear)

    patch.setattr(all_pairs, "grouped", grouped)


@fault("candidates from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = tables.SelectionRounds._candidates, tables_opened(patch)

    def candidates(self: tables.SelectionRounds, limit: int) -> list[tuple[int, ...]]:
        present = [len(np.unique(opened[-1]._column(column.name))) for column in self._columns]
        return sorted(right(self, limit), key=lambda subset: math.prod(present[d] for d in subset))

    patch.setattr(tables.SelectionRounds, "_candidates", candidates)


@fault("sets of columns from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = whole_rows._Candidates.sets, tables_opened(patch)

    def sets(self: Any) -> list[Any]:
        present = {name: len(np.unique(opened[-1]._column(name))) for name in opened[-1].schema.names}
        return sorted(right(self), key=lambda one: math.prod(present[name] for name in one.one_hot.columns))

    patch.setattr(whole_rows._Candidates, "sets", sets)


@fault("a row twice in a table of many columns")
def _(patch: pytest.MonkeyPatch) -> None:
    right = feature_maps.joint_counts

    def joint_counts(rows: Any, axes: Any) -> np.ndarray:
        return right(rows, axes) * (2 if len(axes) > 3 else 1)

    patch.setattr(feature_maps, "joint_counts", joint_counts)


@fault("private number of rows told")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrivateSession, "rows", property(lambda self: RowCount(float(self._table._rows), 0.0, public=True)))


@fault("answers divided by the private number of rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.noisy_sum

    def noisy_sum(self: PrivateSession, feature_map: Any, **asked: Any) -> NoisyAnswer:
        release = right(self, feature_map, **asked)
        return NoisyAnswer(release.receipt, release.value / max(self._table._rows, 1), feature_map)

    patch.setattr(PrivateSession, "noisy_sum", noisy_sum)


# The budget


@fault("budget not charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._open

    def _open(self: PrivateSession, query: str, units: int, **named: Any) -> None:
        right(self, query, units, **named)
        self._spent_units -= units

    patch.setattr(PrivateSession, "_open", _open)


@fault("choices not charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.noisy_max

    def noisy_max(self: PrivateSession, *arguments: Any, **asked: Any) -> Selection:
        before = self._spent_units
        selection = right(self, *arguments, **asked)
        self._spent_units = before
        return selection

    patch.setattr(PrivateSession, "noisy_max", noisy_max)


@fault("refund after read")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.noisy_sum

    def noisy_sum(self: PrivateSession, *arguments: Any, **asked: Any) -> NoisyAnswer:
        before = self._spent_units
        try:
            return right(self, *arguments, **asked)
        except Exception:
            self._spent_units = before
            raise

    patch.setattr(PrivateSession, "noisy_sum", noisy_sum)


@fault("additive delta dropped")
def _(patch: pytest.MonkeyPatch) -> None:
    right = accounting.epsilon_of
    patch.setattr(accounting, "epsilon_of", lambda *a, **named: right(*a, **{**named, "additive_delta": 0.0}))


# Selection


@fault("selection weights ignored")
def _(patch: pytest.MonkeyPatch) -> None:
    right = selection.scores_of

    def undivided(candidates: Any, rows: Any) -> np.ndarray:
        by_itself = [one.weight * right([one], rows) for one in candidates]
        return np.rint(np.concatenate(by_itself)).astype(np.int64)

    patch.setattr(selection, "scores_of", undivided)


@fault("selection without the replace factor")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(selection, "ONE_SCORE", Bound(norm=1.0, diameter=1.0))


@fault("selection with twice its parameter")
def _(patch: pytest.MonkeyPatch) -> None:
    right = selection.exponential_of_mu
    patch.setattr(selection, "exponential_of_mu", lambda mu: 2 * right(mu))


@fault("selection without noise")
def _(patch: pytest.MonkeyPatch) -> None:
    class Best(Between):
        def choose(self, scores: np.ndarray, **rate: int) -> int:
            return int(scores.argmax())

    wrapped_noise(patch, Best)


@fault("selection at twice the rate")
def _(patch: pytest.MonkeyPatch) -> None:
    class Twice(Between):
        def choose(self, scores: np.ndarray, *, numerator: int, denominator: int) -> int:
            return self.source.choose(scores, numerator=2 * numerator, denominator=denominator)

    wrapped_noise(patch, Twice)


# Units


@fault("fixed-size split under add or remove")
def _(patch: pytest.MonkeyPatch) -> None:
    right = table.holdout_rows

    def fixed(hashes: np.ndarray, **named: Any) -> np.ndarray:
        return right(hashes, **{**named, "n_units": len(np.unique(hashes, axis=0))})

    patch.setattr(table, "holdout_rows", fixed)


@fault("a private number of units splits")
def _(patch: pytest.MonkeyPatch) -> None:
    # The declared number is left aside for that of the table at hand.
    right = table.holdout_rows

    def counted(hashes: np.ndarray, *, n_units: int | None, **named: Any) -> np.ndarray:
        own = None if n_units is None else len(np.unique(hashes, axis=0))
        return right(hashes, n_units=own, **named)

    patch.setattr(table, "holdout_rows", counted)


@fault("a private number of units is printed")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateTable._of.__func__  # type: ignore[attr-defined]

    def counted(cls: type[PrivateTable], *arguments: Any, **named: Any) -> PrivateTable:
        made: PrivateTable = right(cls, *arguments, **named)
        if made._public_rows is not None:
            made._public_rows = made._rows
        return made

    patch.setattr(PrivateTable, "_of", classmethod(counted))


@fault("split by place in the table")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "row_hashes", lambda columns, **_: table.place_hashes(len(columns[0])))


@fault("rows without an id share a unit")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "with_id", lambda hashes: np.ones(len(hashes), dtype=bool))


@fault("split by row")
def _(patch: pytest.MonkeyPatch) -> None:
    right = table.holdout_rows
    patch.setattr(table, "holdout_rows", lambda hashes, **named: right(table.place_hashes(len(hashes)), **named))


@fault("cap by a global shuffle")
def _(patch: pytest.MonkeyPatch) -> None:
    def kept(hashes: np.ndarray, *, rows_per_unit: int, account_key: bytes) -> np.ndarray:
        mask, seen = np.zeros(len(hashes), dtype=bool), dict[bytes, int]()
        for place in np.random.default_rng(0).permutation(len(hashes)):
            unit = hashes[place].tobytes()
            seen[unit] = seen.get(unit, 0) + 1
            mask[place] = seen[unit] <= rows_per_unit
        return mask

    patch.setattr(table, "kept_rows", kept)
