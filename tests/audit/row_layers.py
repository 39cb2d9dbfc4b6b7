"""The layers of the audit for questions whose answer is rows. Each raises AssertionError where the promise is broken.

Nothing here uses the product's accounting: how far a cell moves a row's numbers is found by trying every pair of codes,
and what noise that takes follows from the definitions.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import layers
import numpy as np
import oracle
from recorded_noise import RecordedNoise
from row_askers import ASKERS, asker
from scipy import stats
from scipy.special import ndtri
from transcripts import start
from worlds import DELTA, EPSILON, LABEL, Row, World, far_rows, ordinary_rows

from synth.bundle.recorded_session import RecordedSession
from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy import accounting, noise
from synth.privacy.accounting import worth_for_a_row
from synth.privacy.answers import of_kind
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable

UNITS = 40
ROW_DELTA = 1e-2
"""Delta at which the worth of a row is compared with draws: large enough for few of them."""

EVERY = 100
"""Every so many places of a grid are tried where a column has many: the ends always are."""


@dataclass
class Tapped:
    """Known noise that keeps what it was asked for and what it gave."""

    key: int | None
    private: bool = False
    drawn: list[tuple[str, Any, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._noise = RecordedNoise(self.key)

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        return self._kept("gaussian", variance, self._noise.gaussian(variance, size))

    def laplace(self, scale: int, size: int) -> np.ndarray:
        return self._kept("laplace", scale, self._noise.laplace(scale, size))

    def respond(self, values: np.ndarray, *, classes: int, numerator: int, denominator: int) -> np.ndarray:
        answers = self._noise.respond(values, classes=classes, numerator=numerator, denominator=denominator)
        return self._kept("respond", numerator / denominator, answers)

    def order(self, size: int) -> np.ndarray:
        return self._kept("order", size, self._noise.order(size))

    def _kept(self, kind: str, parameter: Any, draws: np.ndarray) -> np.ndarray:
        self.drawn.append((kind, parameter, draws.copy()))
        return draws


# What the oracle knows


def gaps_of(table: Lookup, world: World, grid: float, *, change: float) -> np.ndarray:
    """Return how far every number moves from every code to every other one within reach; many codes of a fine grid."""
    column = world.schema.modelled_column(table.column)
    whole = np.trunc(table.table / grid) * grid
    rows = whole if table.bins is None else whole[table.bins.plain()]
    places = np.arange(column.levels)
    if column.levels > 3 * EVERY:
        places = np.unique([*places[::EVERY], *places[1::EVERY], places[-1]])
    codes = np.concatenate([places, np.arange(column.levels, column.size)]).astype(int)
    gaps = np.abs(rows[codes][:, None] - rows[codes][None])
    far = np.abs(codes[:, None] - codes[None]) > max(1, math.floor(change * (column.levels - 1)))
    gaps[far & (codes[:, None] < column.levels) & (codes[None] < column.levels) & (change < 1)] = 0.0
    return gaps.reshape(-1, gaps.shape[2])


def moves(table: Lookup, world: World, grid: float) -> tuple[float, float, float]:
    """Return the largest L1, single and L2 change of a cell's numbers."""
    gaps = gaps_of(table, world, grid, change=world.cell_change)
    return float(gaps.sum(1).max()), float(gaps.max()), float(np.sqrt((gaps**2).sum(1)).max())


def asked(name: str, world: World, table: PrivateTable, key: int | None) -> tuple[PrivateSession, Tapped, Any]:
    tapped = Tapped(key)
    session = start(world, table, tapped)
    made = asker(name, world.schema)(session)
    return session, tapped, made


# T0 calibration


def t0_calibration(name: str) -> None:
    """Noise is as wide as the budget asks, on every number of every row, and the receipts say all of it."""
    world = ASKERS[name]
    table = world.table(ordinary_rows(UNITS, 1))
    session, tapped, made = asked(name, world, table, 1)
    spent = 0.0
    draws = iter(tapped.drawn)
    for release in of_kind(session.answers, PerturbedRows):
        spent += _paid(release, draws, world, table)
    if world.protection == "cell":
        assert spent <= EPSILON * (1 + 1e-9), "more is spent than the budget"
        assert spent > 0.97 * EPSILON, "the noise is wider than the budget asks for"
        paid = [Receipt.from_dict({**one.to_dict(), "private": True}) for one in session.receipts]
        stated = accounting.epsilon_of_receipts(paid, DELTA)
        assert stated >= spent * (1 - 1e-9), "the receipts state less than the noise costs"
        worth = worth_for_a_row(paid, ROW_DELTA)
        assert worth is not None
        drawn = _row_delta_drawn(of_kind(session.answers, PerturbedRows), world, worth)
        assert drawn <= 1.2 * ROW_DELTA, "noise is said to be worth too little for a row"
    else:
        mu = math.sqrt(spent)
        assert oracle.delta_of_gaussian(mu, EPSILON) <= DELTA, "more is spent than the budget"
        assert oracle.delta_of_gaussian(1.04 * mu, EPSILON) > DELTA, "the noise is wider than the budget asks for"
        stated = sum(receipt.mu_squared_units for receipt in session.receipts) * accounting.MU_UNIT
        assert stated >= spent * (1 - 1e-9), "the receipts state less than the noise costs"
    for receipt in session.receipts:
        accounting.require_honest(receipt)
        assert receipt.neighbours is world.schema.neighbours
        assert not receipt.private
    assert session.remaining_share < 1e-3
    layers.assert_nothing_private_is_reachable(
        [made, of_kind(session.answers, PerturbedRows)], _Reached(tapped), table, skip=(tapped,)
    )
    layers.assert_nothing_private_is_reachable(
        [session], _Reached(tapped), table, skip=(tapped, session._table, session._memory)
    )


@dataclass
class _Reached:
    """What may not be reachable: the noise of numbers."""

    tapped: Tapped

    @property
    def draws(self) -> list[np.ndarray]:
        return [draws for kind, _, draws in self.tapped.drawn if kind in ("gaussian", "laplace")]


def _paid(release: PerturbedRows, draws: Any, world: World, table: PrivateTable) -> float:
    """Return what one answer costs, in epsilon of a cell or in mu^2, from the noise that was really drawn."""
    question, receipt = release.question, release.receipt
    codes = {name: np.asarray(table._column(name)) for name in table.schema.names}
    exact = np.concatenate([one.evaluate(codes) for one in question.tables], axis=1)
    moved = [moves(one, world, receipt.grid) for one in question.tables]
    if receipt.mechanism == "gaussian_rows":
        kind, variance, noises = next(draws)
        assert (kind, noises.size) == ("gaussian", exact.size), "not every number has noise of its own"
        added = noises.reshape(exact.shape)
        cost = sum(l2**2 for _, _, l2 in moved) / (variance * receipt.grid**2)
        assert receipt.slack >= 6 * exact.shape[1] / variance
    else:
        columns, rates = [], []
        for one, (l1, _, _) in zip(question.tables, moved, strict=True):
            kind, scale, noises = next(draws)
            assert (kind, noises.size) == ("laplace", len(exact) * one.dimension), "a number has no noise of its own"
            columns.append(noises.reshape(len(exact), -1))
            rates.append(l1 / (scale * receipt.grid))
        added = np.concatenate(columns, axis=1)
        if world.protection == "cell":
            assert min(rates) > 0.97 * max(rates), "the noise of a column is wider than the others' cost asks for"
            cost = max(rates)
        else:
            cost = sum(mu_of_pure(rate) ** 2 for rate in rates)
    labels = None if question.label is None else codes[question.label]
    if labels is not None and world.protection == "record":
        kind, epsilon, labels = next(draws)
        assert kind == "respond", "the label is let out as it is"
        cost += mu_of_pure(epsilon) ** 2
        assert len(release.receipts) == 2, "nothing is paid for the label"
    kind, _, order = next(draws)
    assert kind == "order"
    assert np.array_equal(np.sort(order), np.arange(len(exact)))
    expected = (exact + added * receipt.grid)[order]
    assert np.abs(release.vectors - expected).max() <= 2 * receipt.grid, "a row is not its numbers plus the noise"
    for place in range(added.shape[1]):
        assert np.unique(added[:, place]).size > 0.8 * len(added), "noise is used twice within a column"
        assert not any((added[:, place] == added[:, other]).all() for other in range(place)), "noise is used twice"
    if labels is not None:
        np.testing.assert_array_equal(release.labels, np.asarray(labels)[order])
    return float(cost)


def mu_of_pure(epsilon: float) -> float:
    return 2 * float(ndtri(1 / (1 + math.exp(-epsilon)))) if epsilon else 0.0


def _row_delta_drawn(releases: tuple[PerturbedRows, ...], world: World, epsilon: float, draws: int = 20_000) -> float:
    """Return delta at ``epsilon`` of two rows that differ as far as they can in every cell, from draws of the loss."""
    rng = np.random.default_rng(6)
    losses = np.zeros(draws)
    for release in releases:
        for table, cell in zip(release.question.tables, release.receipt.cells, strict=True):
            # With its row a cell may change altogether, however little of it the promise for one cell covers.
            gaps = gaps_of(table, world, release.receipt.grid, change=1.0)
            worst = gaps[gaps.sum(1).argmax()] / (cell.scale * release.receipt.grid)
            for shift in worst[worst > 0]:
                noises = rng.laplace(size=draws)
                losses += np.abs(noises + shift) - np.abs(noises)
    return float(np.maximum(0.0, -np.expm1(epsilon - losses)).mean())


# T1 sensitivity


def t1_cell(name: str, brought: Row, *, place: int = 5) -> None:
    """One cell at a time: only that row's and that column's numbers move, by at most what the receipt says."""
    world = ASKERS[name]
    if world.protection == "record":
        # A row with another cell may lie on the other side of the split, whole; whole rows have a layer of their own.
        world = replace(world, holdout=0.0)
    rows = ordinary_rows(UNITS, 1)
    before, _, _ = asked(name, world, world.table(rows), None)
    for column in world.schema.names:
        changed = [dict(row) for row in rows]
        changed[place][column] = brought[column]
        if world.cell_change < 1 and not _within(world, column, rows[place], changed[place]):
            continue
        after, _, _ = asked(name, world, world.table(changed), None)
        for one, other in zip(
            of_kind(before.answers, PerturbedRows), of_kind(after.answers, PerturbedRows), strict=True
        ):
            _one_cell_moved(one, other, column, cell=world.protection == "cell")


def _within(world: World, column: str, one: Row, other: Row) -> bool:
    codes = [int(world.table([row] * 20)._column(column)[0]) for row in (one, other)]
    levels = world.schema.modelled_column(column).levels
    return max(codes) >= levels or abs(codes[0] - codes[1]) <= math.floor(world.cell_change * (levels - 1))


def _one_cell_moved(one: PerturbedRows, other: PerturbedRows, column: str, *, cell: bool) -> None:
    assert [receipt.to_dict() for receipt in one.receipts] == [receipt.to_dict() for receipt in other.receipts]
    change = np.abs(one.numbers - other.numbers)
    assert (change.any(axis=1)).sum() <= 1, "one cell moves more than one row"
    start = 0
    for place, table in enumerate(one.question.tables):
        moved = change[:, start : start + table.dimension]
        start += table.dimension
        assert table.column == column or not moved.any(), "one cell moves the numbers of another column"
        if cell:
            noise = one.receipt.cells[place]
            assert moved.sum(axis=1).max() <= noise.l1, "a cell moves its numbers by more than its receipt states"
            assert moved.max() <= noise.row_largest, "a cell moves a number by more than its receipt states"
    length = math.sqrt(float((change.astype(float) ** 2).sum())) * one.receipt.grid
    assert cell or length <= one.receipt.sensitivity * math.sqrt(len(one.question.tables))
    if one.question.label not in (None, column) and one.labels is not None:
        np.testing.assert_array_equal(one.labels, other.labels)


def t1_row(name: str, *, places: Sequence[int] = (5, 11, 17, 23)) -> None:
    """Somebody else in the place of somebody: one row's numbers move, by at most the sensitivity of a whole row."""
    world = ASKERS[name]
    if world.protection == "cell":
        return
    rows = ordinary_rows(UNITS, 1)
    before, _, _ = asked(name, world, world.table(rows), None)
    for place in places:
        changed = [*rows[:place], far_rows(1)[0] | {"person": "new"}, *rows[place + 1 :]]
        after, _, _ = asked(name, world, world.table(changed), None)
        for one, other in zip(
            of_kind(before.answers, PerturbedRows), of_kind(after.answers, PerturbedRows), strict=True
        ):
            gone, come = _unmatched(one.numbers, other.numbers)
            assert len(gone) == len(come) <= 1, "somebody else moves more than one row"
            if one.receipt.mechanism == "gaussian_rows" and len(gone):
                length = math.sqrt(float(((gone - come) ** 2).sum())) * one.receipt.grid
                assert length <= one.receipt.sensitivity, "a row moves by more than its receipt states"


def _unmatched(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each that the other lacks: rows are let out in a drawn order, so places tell nothing."""
    left, right = (Counter(map(tuple, numbers.tolist())) for numbers in (one, other))
    return np.array([*(left - right).elements()], float), np.array([*(right - left).elements()], float)


class Hears(PrivateSession):
    """Asks a neighbour, and hears the earlier answers."""

    __slots__ = ("told",)

    def perturb_rows(self, *arguments: Any, **named: Any) -> PerturbedRows:
        PrivateSession.perturb_rows(self, *arguments, **named)
        return self.told.perturb_rows(*arguments, **named)


def t1_made(name: str) -> None:
    """What is made depends on noisy rows alone: on neighbours with the same answers it is the same, byte for byte."""
    world = ASKERS[name]
    rows = ordinary_rows(UNITS, 1)
    first, _, made = asked(name, world, world.table(rows), 1)
    for place, age in ((5, "100"), (11, "0"), (17, "100"), (23, "0"), (29, "100"), (35, "0")):
        changed = [dict(row) for row in rows]
        changed[place] |= {key: value for key, value in far_rows(1)[0].items() if key != LABEL} | {"age": age}
        hears = Hears(world.table(changed), world.budget, noise=Tapped(2))
        hears.told = RecordedSession(world.schema, first.budget, rows=first.rows, answers=first.answers)
        made_again = asker(name, world.schema)(hears)
        assert layers.same_bytes(made, made_again), "what is made depends on more than the noisy rows"


# T2 laws


def t2_laws(name: str, rows: int = 3000) -> None:
    """Noise of the operating system has the law that the oracle works out, not one 30 % off; labels and order too."""
    world = layers_world(ASKERS[name])
    row = ordinary_rows(1, 1)[0]
    table = world.table([dict(row) for _ in range(rows)])
    silent = start(world, table, RecordedNoise(None))
    asker(name, world.schema)(_Only(silent))
    noisy = start(world, table, noise.SystemNoise())
    asker(name, world.schema)(_Only(noisy))
    for one, other in zip(of_kind(noisy.answers, PerturbedRows), of_kind(silent.answers, PerturbedRows), strict=True):
        _number_laws(one, other, world)
        if len(one.receipts) > 1:
            _label_law(one, other)
    _order_law(name, world, row)


class _Only:
    """Hands questions on and stops an asker before it makes anything of the answers."""

    def __init__(self, session: PrivateSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def perturb_rows(self, *arguments: Any, **named: Any) -> PerturbedRows:
        release = self._session.perturb_rows(*arguments, **named)
        few = slice(0, 12)
        labels = None if release.labels is None else release.labels[few]
        return PerturbedRows(release.receipts, release.question, release.numbers[few], labels)


def layers_world(world: World) -> World:
    return replace(world, holdout=0.0)


def _chance(values: np.ndarray, law: str) -> float:
    """Return the smaller of two p-values: of the shape, and of the mean size, which tells a wrong scale far sooner."""
    mean, deviation = (1.0, 1.0) if law == "laplace" else (math.sqrt(2 / math.pi), math.sqrt(1 - 2 / math.pi))
    z = (np.abs(values).mean() - mean) * math.sqrt(values.size) / deviation
    return min(float(stats.kstest(values, law).pvalue), 2 * float(stats.norm.sf(abs(z))))


def _number_laws(one: PerturbedRows, other: PerturbedRows, world: World) -> None:
    residuals = (one.numbers - other.numbers) * one.receipt.grid
    start = 0
    # The claimed law: the oracle's change of a cell or a row, at the cost on the receipt.
    moved = [moves(table, world, one.receipt.grid) for table in one.question.tables]
    for (l1, _, _), table in zip(moved, one.question.tables, strict=True):
        noises = residuals[:, start : start + table.dimension].reshape(-1)[:4000]
        start += table.dimension
        if one.receipt.mechanism == "gaussian_rows":
            cost = math.sqrt(one.receipt.mu_squared_units * accounting.MU_UNIT)
            scale, law = math.sqrt(sum(l2**2 for _, _, l2 in moved)) / cost, "norm"
        elif world.protection == "cell":
            scale, law = l1 / (one.receipt.pure_units * accounting.MU_UNIT), "laplace"
        else:
            mu = math.sqrt(one.receipt.mu_squared_units * accounting.MU_UNIT / len(moved))
            scale, law = l1 / _pure_of_mu(mu), "laplace"
        assert _chance(noises / scale, law) > 1e-6, f"the noise of '{table.column}' has another law"
        for wrong in (0.7, 1.3):
            assert _chance(noises / scale * wrong, law) < 1e-6, "the test cannot tell"
    if residuals.shape[1] > 1:
        linked = np.abs(np.corrcoef(residuals[:, :2].T)[0, 1])
        assert linked < 6 / math.sqrt(len(residuals)), "two numbers of a row share their noise"


def _pure_of_mu(mu: float) -> float:
    p = stats.norm.cdf(mu / 2)
    return math.log(p / (1 - p))


def _label_law(one: PerturbedRows, other: PerturbedRows) -> None:
    epsilon = _pure_of_mu(math.sqrt(one.receipts[1].mu_squared_units * accounting.MU_UNIT))
    truth, n = int(other.labels[0]), len(one.labels)
    kept = int((one.labels == truth).sum())
    classes = one.receipts[1].dimension

    def pvalue(parameter: float) -> float:
        share = math.exp(parameter) / (math.exp(parameter) + classes - 1)
        return float(stats.binomtest(kept, n, share).pvalue)

    assert pvalue(epsilon) > 1e-6, "labels are kept more or less often than their cost says"
    assert min(pvalue(20 * epsilon), pvalue(-20 * epsilon)) < 1e-6, "the test cannot tell"


class _EnoughError(Exception):
    """The first question was asked."""


class _Stop(_Only):
    """Asks the first question only."""

    def perturb_rows(self, *arguments: Any, **named: Any) -> PerturbedRows:
        self._session.perturb_rows(*arguments, **named)
        raise _EnoughError


def _order_law(name: str, world: World, row: Row) -> None:
    """The odd one out ends up anywhere: 60 times among 8 rows, told by a label or by numbers without noise."""

    class Silent(RecordedNoise):
        def __init__(self) -> None:
            super().__init__(None)
            self.system = noise.SystemNoise()

        def order(self, size: int) -> np.ndarray:
            return self.system.order(size)

    odd = far_rows(1)[0] | {"person": "odd"}
    table = world.table([odd, *(dict(row) for _ in range(7))])
    places = np.zeros(8)
    for _ in range(120):
        session = start(world, table, Silent())
        with contextlib.suppress(_EnoughError):
            asker(name, world.schema)(_Stop(session))
        numbers = of_kind(session.answers, PerturbedRows)[0].numbers
        typical = np.median(numbers, axis=0)
        places[int(np.abs(numbers - typical).sum(axis=1).argmax())] += 1
    assert stats.chisquare(places).pvalue > 1e-6, "the order of rows says which is which"


# T3 metadata


def t3_metadata(name: str, folder: Path) -> None:
    """An outlier's cells change not one byte but those of the noisy rows: receipts, and the table of equal answers."""
    from synth.bundle.table_files import write_table

    world = ASKERS[name]
    rows = ordinary_rows(UNITS, 1)
    changed = [dict(row) for row in rows]
    changed[5] |= {key: value for key, value in far_rows(1)[0].items() if key != LABEL}
    receipts, written = [], []
    for number, some in enumerate((rows, changed)):
        session, _, _ = asked(name, world, world.table(some), 3)
        receipts.append([receipt.to_dict() for receipt in session.receipts])
        paths = folder / f"{name[:4]}{number}.csv", folder / f"{name[:4]}{number}.parquet"
        write_table(np.zeros((20, len(world.schema.names)), np.int64), world.schema, *paths, seed=0)
        written.append([path.read_bytes() for path in paths])
        assert [release.numbers.shape for release in of_kind(session.answers, PerturbedRows)] == [
            (len(of_kind(session.answers, PerturbedRows)[0].numbers), sum(release.question.widths))
            for release in of_kind(session.answers, PerturbedRows)
        ]
    assert receipts[0] == receipts[1], "a receipt depends on the rows"
    assert written[0] == written[1]


# T4 distinguishing


def t4_distinguishing(name: str, draws: int = 20_000) -> float:
    """Guess from noisy rows which of two neighbours they came from; return the epsilon, or mu, that the guesses prove.

    Every row of a table of equal rows is a run of its own, because rows are made noisy independently.
    """
    world = layers_world(ASKERS[name])
    near = ordinary_rows(1, 1)[0]
    far = far_rows(1)[0]
    pairs = [{**near, "job": far["job"]}]
    if world.protection == "cell":
        pairs.append({**near, "age": "100" if world.cell_change == 1 else str(min(100, int(near["age"]) + 20))})
    else:
        pairs = [{**far, "person": near["person"]}]
    proven = 0.0
    for other in pairs:
        mu, epsilon = _told_apart(name, world, near, other, draws)
        if world.protection == "cell":
            assert epsilon <= EPSILON, f"two cells are told apart: epsilon is at least {epsilon:.3g}"
            proven = max(proven, epsilon)
        else:
            assert mu <= 0 or oracle.delta_of_gaussian(mu, EPSILON) <= DELTA, f"two rows are told apart: mu {mu:.3g}"
            proven = max(proven, mu)
    return proven


def t4_rows_of_cells(name: str = "cell", draws: int = 20_000) -> tuple[float, float]:
    """With one cell hidden, two rows with one label are told apart, and by no more than the certificate says."""
    world = layers_world(ASKERS[name])
    near = ordinary_rows(1, 1)[0]
    other = {**far_rows(1)[0], "person": near["person"], LABEL: near[LABEL]}
    _, proven = _told_apart(name, world, near, other, draws)
    table = world.table([dict(near) for _ in range(5)])
    session, _, _ = asked(name, world, table, 1)
    stated = worth_for_a_row(session.receipts, DELTA)
    assert stated is not None
    assert proven <= stated, f"two rows are told apart: epsilon is at least {proven:.3g}, stated {stated:.3g}"
    return proven, stated


def _told_apart(name: str, world: World, near: Row, other: Row, draws: int) -> tuple[float, float]:
    exact, noisy = [], []
    for row in (near, other):
        table = world.table([dict(row) for _ in range(draws)])
        few = start(world, world.table([dict(row) for _ in range(12)]), RecordedNoise(None))
        asker(name, world.schema)(_Only(few))
        exact.append(of_kind(few.answers, PerturbedRows)[0])
        session = start(world, table, None)
        asker(name, world.schema)(_Only(session))
        noisy.append(of_kind(session.answers, PerturbedRows)[0])
    scores = [_log_ratio(release, exact) for release in noisy]
    half = draws // 2
    best = (0.0, 0.0)
    for threshold in np.quantile(np.concatenate([one[:half] for one in scores]), np.linspace(0.02, 0.98, 49)):
        rates = [float((one[:half] > threshold).mean()) for one in scores]
        best = max(best, (_gain(rates), float(threshold)))
    alarms, hits = (int((one[half:] > best[1]).sum()) for one in scores)
    n = draws - half
    alarm, hit = stats.beta.ppf(1 - 1e-5, alarms + 1, n - alarms), stats.beta.ppf(1e-5, hits, n - hits + 1)
    return float(ndtri(hit) - ndtri(alarm)), float(math.log(max(hit, 1e-300) / alarm))


def _gain(rates: list[float]) -> float:
    alarm, hit = np.clip(rates, 0.003, 0.997)
    return float(math.log(hit / alarm))


def _log_ratio(release: PerturbedRows, exact: list[PerturbedRows]) -> np.ndarray:
    receipt, total = release.receipt, np.zeros(len(release.numbers))
    middles = [one.numbers[0] for one in exact]
    if receipt.mechanism == "gaussian_rows":
        change = (middles[1] - middles[0]).astype(float)
        middle = (middles[1] + middles[0]) / 2
        return ((release.numbers - middle) @ change) / (receipt.noise_scale / receipt.grid) ** 2
    start = 0
    for table, cell in zip(release.question.tables, receipt.cells, strict=True):
        part = slice(start, start + table.dimension)
        start += table.dimension
        gaps = [np.abs(release.numbers[:, part] - middle[part]).sum(axis=1) for middle in middles]
        total += (gaps[0] - gaps[1]) / cell.scale
    return total


# Accounts


def accounts_stay_apart(folder: Path) -> None:
    """A run that hides one cell is charged in pure epsilon, stops at a cap, and never enters another account."""
    from synth.ledger.ledger import Ledger
    from synth.privacy.accounting import PrivacyBudget
    from synth.schema import Neighbours, PrivacyUnit
    from synth.store import Store
    from synth.system.settings import Settings

    settings = Settings(home=folder, database_url=f"sqlite:///{folder / 'audit.sqlite'}")
    with Store(settings) as store:
        ledger = Ledger(store)
        people = store.accounts.ensure("people", Neighbours.REPLACE, PrivacyUnit())[0]
        cells = store.accounts.ensure("cells", Neighbours.CELL, PrivacyUnit())[0]
        cell, row = (PrivacyBudget(1.0, DELTA, one) for one in (Neighbours.CELL, Neighbours.REPLACE))
        for account, budget in ((people, cell), (cells, row)):
            try:
                ledger.reserve(account.id, "a run", budget, purpose="audit")
            except PrivacyError:
                continue
            raise AssertionError("a run entered an account of another promise")
        for name, neighbours in (("people", Neighbours.CELL), ("cells", Neighbours.REPLACE)):
            try:
                store.accounts.ensure(name, neighbours, PrivacyUnit())
            except PrivacyError:
                continue
            raise AssertionError("an account was opened for another promise")
        ledger.set_cap(cells.id, epsilon=2.0, delta=DELTA)
        runs = [
            store.runs.add(account_id=cells.id, config='{"protection": "cell", "label": "a"}', owner="audit").id
            for _ in range(3)
        ]
        for run in runs[:2]:
            ledger.reserve(cells.id, run, cell, purpose="audit")
        assert abs(ledger.spent(cells.id).epsilon - 2.0) < 1e-9, "pure epsilons do not add in the ledger"
        refused = False
        try:
            ledger.reserve(cells.id, runs[2], PrivacyBudget(0.01, DELTA, Neighbours.CELL), purpose="audit")
        except BudgetExceededError:
            refused = True
        assert refused, "more was charged than the cap allows"
        ledger.set_cap(cells.id, epsilon=None, delta=None)
        other = store.runs.add(account_id=cells.id, config='{"protection": "cell", "label": "b"}', owner="audit").id
        try:
            ledger.reserve(cells.id, other, cell, purpose="audit")
        except PrivacyError:
            return
        raise AssertionError("a run that hides other cells entered the account")
