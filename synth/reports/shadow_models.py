r"""Shadow models: the same run many times, each of the most exposed units in or out of it by a coin of its own.

The attacker knows the whole table but for the coins, the configuration, and half of the runs with their coins, and
guesses the coins of the other half from the released rows (Stadler 2022, with the coins of many units in one run as in
Steinke 2023). In: the unit's rows are trained on. Out: they are left out (add/remove), or the rows of somebody else,
always the same, stand in their place (replace-one).

The features of :mod:`synth.reports.shadow_features` are centred and scaled for each unit by their mean and standard
deviation over the runs of the first half, and one logistic regression for all units is fitted there; its log odds are
the score. So a score compares a unit with itself, in runs with and without it.

**Under the ceiling.** Every run is private in each of its coins, so the test of :mod:`synth.reports.proven_ceiling`
holds with a coin for each unit and run, whatever was learned from the other half. Its curve is that of the run whose
receipts add up to most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.privacy.receipt import Receipt
from synth.reports.counting import CodeTable
from synth.reports.exposed import most_exposed
from synth.reports.membership import UnitRows
from synth.reports.shadow_features import FEATURES, TargetReader
from synth.schema import Neighbours, Schema

__all__ = ["FEWEST_RUNS", "MOST_TARGETS", "USUAL_RUNS", "Remade", "Remake", "ShadowGame", "ShadowScores"]

USUAL_RUNS = 64
FEWEST_RUNS = 16
MOST_TARGETS = 16
_UNITS_PER_TARGET = 10
"""No more than one unit in so many is a target: a run should look like the one that was released."""


@dataclass(frozen=True, slots=True, eq=False)
class Remade:
    """What one shadow run made: its rows as codes, column by column, and its receipts."""

    rows: CodeTable
    receipts: tuple[Receipt, ...]


class Remake(Protocol):
    """Runs the same configuration, with fresh noise, on other private rows."""

    def __call__(self, rows: UnitRows, /) -> Remade:
        """Return what the run makes of the rows."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ShadowScores:
    """Scores in the runs that the attacker did not learn from.

    Attributes
    ----------
    members, non_members : arrays of shape (n,) and (m,)
        A score for every unit and run: of units that were in the run, and of units that were not.
    receipts : tuple of Receipt
        Of the run that cost most.
    targets, runs : int
        Units attacked, and runs in all.
    """

    members: NDArray[np.float64]
    non_members: NDArray[np.float64]
    receipts: tuple[Receipt, ...]
    targets: int
    runs: int


@dataclass(frozen=True, slots=True, eq=False)
class ShadowGame:
    """The most exposed units of a table, their coins, and who stands in for them.

    Attributes
    ----------
    rows : UnitRows
        All rows.
    targets : array of shape (n_targets,)
        Units, in increasing order.
    donors : array of shape (n_targets,)
        Whose rows stand in a target's place under replace-one.
    coins : array of bool, shape (runs, n_targets)
        Whether a target is in a run.
    """

    rows: UnitRows
    schema: Schema
    targets: NDArray[np.int64]
    donors: NDArray[np.int64]
    coins: NDArray[np.bool_]
    seed: int

    @classmethod
    def draw(cls, rows: UnitRows, schema: Schema, *, runs: int, seed: int) -> ShadowGame:
        """Choose the targets and throw the coins, by a public seed.

        Parameters
        ----------
        rows : UnitRows
            What the run was trained on; at least one row.
        schema : Schema
        runs : int
            At least 16; one half is learned from, the other attacked.
        seed : int

        Raises
        ------
        InputError
            If there are too few runs, or too few units.
        """
        if runs < FEWEST_RUNS:
            raise InputError(f"A shadow-model attack needs at least {FEWEST_RUNS} runs, got {runs}.")
        units, owned = np.unique(rows.units, return_counts=True)
        number = min(MOST_TARGETS, len(units) // _UNITS_PER_TARGET)
        if number == 0:
            raise InputError(f"A shadow-model attack needs at least {_UNITS_PER_TARGET} units to train on.")
        random = np.random.default_rng([seed, 31])
        targets = np.sort(most_exposed(rows, schema, number=number))
        others = ~np.isin(units, targets)
        donors = []
        for own in owned[np.searchsorted(units, targets)].tolist():
            # As many rows where somebody has as many, so that it is the rows that differ and not their number.
            alike = units[others & (owned == own)]
            donors.append(random.choice(alike if len(alike) else units[others]))
        return cls(rows, schema, targets, np.array(donors), random.random((runs, number)) < 0.5, seed)

    def table(self, run: int) -> UnitRows:
        """Return the rows of one run."""
        absent = ~self.coins[run]
        kept = self.rows.of(np.setdiff1d(self.rows.numbers, self.targets[absent]))
        if self.schema.neighbours is Neighbours.ADD_REMOVE:
            return kept
        parts = [kept]
        for target, donor in zip(self.targets[absent].tolist(), self.donors[absent].tolist(), strict=True):
            theirs = self.rows.of(np.array([donor]))
            parts.append(UnitRows(theirs.codes, np.full(len(theirs.units), target)))
        columns = zip(*(part.codes for part in parts), strict=True)
        return UnitRows([np.concatenate(codes) for codes in columns], np.concatenate([part.units for part in parts]))

    def play(self, remake: Remake, *, on_step: Callable[[int, int], None] | None = None) -> ShadowScores:
        """Make every run, learn from the first half, and score the other.

        Parameters
        ----------
        remake : Remake
        on_step : callable, optional
            Told (done, total) after each run; may raise to stop.
        """
        reader = TargetReader.of(self.rows.of(self.targets), self.schema, seed=self.seed)
        runs = len(self.coins)
        features = np.empty((runs, len(self.targets), len(FEATURES)))
        costliest: tuple[Receipt, ...] = ()
        for run in range(runs):
            made = remake(self.table(run))
            features[run] = reader.read(made.rows)
            costliest = max(costliest, made.receipts, key=_cost)
            if on_step is not None:
                on_step(run + 1, runs)
        half = runs // 2
        scores = _learned(features[:half], self.coins[:half], features[half:])
        members = self.coins[half:]
        return ShadowScores(scores[members], scores[~members], costliest, len(self.targets), runs)


def _cost(receipts: tuple[Receipt, ...]) -> int:
    return sum(receipt.mu_squared_units for receipt in receipts)


def _learned(
    known: NDArray[np.float64], coins: NDArray[np.bool_], attacked: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log odds of being in, for every run and unit of ``attacked``, learned from the runs that are known.

    Returns
    -------
    array of shape (attacked runs, n_targets)
    """
    from sklearn.linear_model import LogisticRegression  # imported late: only this attack needs it

    centre, spread = known.mean(axis=0), known.std(axis=0)
    # A feature that never moved says nothing, whatever it does later: a jump of rounding must not decide.
    scale = np.where(spread > 1e-9, 1.0 / np.maximum(spread, 1e-9), 0.0)
    learning, asked = (((part - centre) * scale).reshape(-1, part.shape[2]) for part in (known, attacked))
    answers = coins.reshape(-1)
    if answers.all() or not answers.any():
        return np.zeros(attacked.shape[:2])
    model = LogisticRegression(C=1.0, max_iter=500).fit(learning, answers)
    return np.asarray(model.decision_function(asked)).reshape(attacked.shape[:2])
