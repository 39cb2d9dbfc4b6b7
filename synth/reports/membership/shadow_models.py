r"""Shadow models: the same run many times, each of the most exposed units in or out of it by its own coin.

The attacker knows the whole table but for the coins, the configuration, and half of the runs with their coins, and
guesses the coins of the other half from the released rows (Stadler 2022, with the coins of many units in one run as in
Steinke 2023). In: the unit's rows are trained on. Out: they are left out (add/remove), or replaced by the rows of
another unit, always the same one (replace-one).

The features that :class:`TargetReader` reads from a release are centred and scaled for each unit by their mean and
standard deviation over the runs of the first half, and one logistic regression for all units is fitted there; its log
odds are the score. So a score compares a unit with itself, in runs with and without it.

**Under the ceiling.** Every run is private in each of its coins, so the test of :mod:`synth.reports.risk_bounds`
holds with a coin for each unit and run, whatever was learned from the other half. Its curve is that of the run whose
receipts add up to most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.privacy.bins import Bins
from synth.privacy.receipt import Receipt
from synth.progress import OnStep, unwatched
from synth.reports.code_tables import CodeTable, UnitRows, coarse_bins
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.membership.attacks import ATTACKS, seeded_rows
from synth.reports.membership.distances import GowerSpace
from synth.reports.membership.evidence import NOTHING_STOPPED, ceiling_words, figures_of, numbers_of
from synth.reports.membership.inference import FEWEST_UNITS, INCIDENT_LEVEL, AttackResult, judged
from synth.reports.report import Remake
from synth.reports.risk_bounds import ProvenCeiling
from synth.schema import Neighbours, Schema

__all__ = [
    "FEATURES",
    "FEWEST_RUNS",
    "MOST_TARGETS",
    "ShadowGame",
    "ShadowScores",
    "TargetReader",
    "most_exposed",
    "no_shadows",
    "shadow_evidence",
]

FEWEST_RUNS = 16
MOST_TARGETS = 16
_UNITS_PER_TARGET = 10
"""At most one unit in so many is a target: a run should look like the one that was released."""


@dataclass(frozen=True, slots=True, eq=False)
class ShadowScores:
    """Scores in the runs that the attacker did not learn from.

    Attributes
    ----------
    members, non_members : arrays of shape (n,) and (m,)
        A score for every unit and run: for units that were in the run, and for units that were not.
    receipts : tuple of Receipt
        Of the run that cost most.
    targets, runs : int
        Number of units attacked, and of all runs.
    """

    members: NDArray[np.float64]
    non_members: NDArray[np.float64]
    receipts: tuple[Receipt, ...]
    targets: int
    runs: int


@dataclass(frozen=True, slots=True, eq=False)
class ShadowGame:
    """The most exposed units of a table, their coins, and the units that replace them.

    Attributes
    ----------
    rows : UnitRows
        All rows.
    targets : array of shape (n_targets,)
        Units, in increasing order.
    donors : array of shape (n_targets,)
        Units whose rows replace those of a target under replace-one.
    coins : array of bool, shape (runs, n_targets)
        Whether a target is in a run.
    device : {"cpu", "cuda"}
        Where many distances are computed; they are the same everywhere.
    """

    rows: UnitRows
    schema: Schema
    targets: NDArray[np.int64]
    donors: NDArray[np.int64]
    coins: NDArray[np.bool_]
    seed: int
    device: str = "cpu"

    @classmethod
    def draw(cls, rows: UnitRows, schema: Schema, *, runs: int, seed: int, device: str = "cpu") -> ShadowGame:
        """Choose the targets and throw the coins, by a public seed.

        Parameters
        ----------
        rows : UnitRows
            What the run was trained on; at least one row.
        schema : Schema
        runs : int
            At least 16; one half is learned from, the other attacked.
        seed : int
        device : {"cpu", "cuda"}

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
        targets = np.sort(most_exposed(rows, schema, number=number, device=device))
        others = ~np.isin(units, targets)
        donors = []
        for own in owned[np.searchsorted(units, targets)].tolist():
            # With the same number of rows where possible, so that the rows differ and not their number.
            alike = units[others & (owned == own)]
            donors.append(random.choice(alike if len(alike) else units[others]))
        return cls(rows, schema, targets, np.array(donors), random.random((runs, number)) < 0.5, seed, device)

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

    def play(self, remake: Remake, *, together: int = 1, on_step: OnStep = unwatched) -> ShadowScores:
        """Make every run, learn from the first half, and score the other.

        Parameters
        ----------
        remake : Remake
        together : int
            Runs that are made side by side.
        on_step : callable
            Called with (done, total) for each run; may raise to stop.
        """
        reader = TargetReader.of(self.rows.of(self.targets), self.schema, seed=self.seed, device=self.device)
        runs = len(self.coins)
        features = np.empty((runs, len(self.targets), len(FEATURES)))
        costliest: tuple[Receipt, ...] = ()
        for first in range(0, runs, together):
            some = range(first, min(first + together, runs))
            for run, made in zip(some, remake([self.table(run) for run in some]), strict=True):
                features[run] = reader.read(made.rows)
                costliest = max(costliest, made.receipts, key=_cost)
                on_step(run + 1, runs)
        half = runs // 2
        scores = _learned(features[:half], self.coins[:half], features[half:])
        members = self.coins[half:]
        return ShadowScores(scores[members], scores[~members], costliest, len(self.targets), runs)


def _cost(receipts: tuple[Receipt, ...]) -> int:
    return sum(receipt.units for receipt in receipts)


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
    # A feature that never moved says nothing, whatever it does later: rounding must not decide.
    scale = np.where(spread > 1e-9, 1.0 / np.maximum(spread, 1e-9), 0.0)
    learning, asked = (((part - centre) * scale).reshape(-1, part.shape[2]) for part in (known, attacked))
    answers = coins.reshape(-1)
    if answers.all() or not answers.any():
        return np.zeros(attacked.shape[:2])
    model = LogisticRegression(C=1.0, max_iter=500).fit(learning, answers)
    return np.asarray(model.decision_function(asked)).reshape(attacked.shape[:2])


# What is read from a release -----------------------------------------------------------------------------------------


FEATURES = ("nearest", "near", "cells", "rarest cell", "pairs", "rarest pair")

_MOST_PAIRS = 200
_MOST_DISTANCES = 2**25
"""Distances computed for one release: of very many rows a sample is compared."""

_DISAGREEING = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class TargetReader:
    r"""Reads from released rows what an attacker looks for about one person: a few numbers for each row of that person.

    For a row x of p columns and n released rows:

    - ``nearest``: minus Gower's distance of the nearest released row;
    - ``near``: :math:`\log \sum_i e^{-2 p\, d(x, y_i)}`, released rows near x, each column that has nothing in common
      dividing the weight of a row by e squared;
    - ``cells``, ``rarest cell``: the sum and the least of :math:`\log\frac{c_j + 1/2}{n + 1}` over columns, c_j of the
      released rows having x's cell in column j, numbers and dates in at most 32 public bins;
    - ``pairs``, ``rarest pair``: the same over pairs of columns, at most 200 of them drawn by a public seed.

    A copy shows in the first, a small cluster in the second, counts released with too little noise in the others.

    Attributes
    ----------
    targets : UnitRows
        All rows of the units, codes in ``schema.names`` order.
    schema : Schema
    bins : tuple of arrays
        The public bin of every code, column by column.
    pairs : tuple of (int, int)
        Indices of the columns that are counted together.
    seed : int
    device : {"cpu", "cuda"}
        Where many distances are computed.
    """

    targets: UnitRows
    schema: Schema
    bins: tuple[Bins, ...]
    pairs: tuple[tuple[int, int], ...]
    seed: int
    device: str = "cpu"

    @classmethod
    def of(cls, targets: UnitRows, schema: Schema, *, seed: int, device: str = "cpu") -> Self:
        """Choose the pairs of columns by a public seed.

        Parameters
        ----------
        targets : UnitRows
            At least one row.
        schema : Schema
        seed : int
        device : {"cpu", "cuda"}
        """
        pairs = list(combinations(range(len(schema.modelled)), 2))
        if len(pairs) > _MOST_PAIRS:
            kept = np.random.default_rng([seed, 30]).choice(len(pairs), size=_MOST_PAIRS, replace=False)
            pairs = [pairs[place] for place in np.sort(kept).tolist()]
        return cls(targets, schema, tuple(map(coarse_bins, schema.modelled)), tuple(pairs), seed, device)

    def read(self, released: CodeTable) -> NDArray[np.float64]:
        """Return the features of every unit in one release; of several rows of a unit the largest counts.

        Parameters
        ----------
        released : CodeTable
            Synthetic rows, at least one.

        Returns
        -------
        array of shape (n_units, len(FEATURES)), units in the order of ``targets.numbers``
        """
        sample = seeded_rows(released, _MOST_DISTANCES // len(self.targets.units), seed=self.seed)
        apart = GowerSpace.of(self.schema).between(self.targets.codes, sample, device=self.device)
        weights = np.exp(-_DISAGREEING * len(self.schema.modelled) * apart)
        cells, pairs = self._counted(released)
        columns = (-apart.min(axis=1), np.log(weights.sum(axis=1) + 1e-12), *cells, *pairs)
        return np.column_stack([self.targets.highest(values) for values in columns])

    def _counted(self, released: CodeTable) -> tuple[tuple[NDArray[np.float64], ...], tuple[NDArray[np.float64], ...]]:
        """Return the sum and the least of the log shares of single cells, and of pairs of cells."""
        theirs = [bins[codes] for bins, codes in zip(self.bins, released, strict=True)]
        mine = [bins[codes] for bins, codes in zip(self.bins, self.targets.codes, strict=True)]
        n_rows = len(theirs[0])
        # One table at a time is counted, of the cells that a target has.
        single = [_log_shares(one, other, n_rows) for one, other in zip(mine, theirs, strict=True)]
        sizes = [bins.count for bins in self.bins]
        paired = [
            _log_shares(
                mine[left].astype(np.int64) * sizes[right] + mine[right],
                theirs[left].astype(np.int64) * sizes[right] + theirs[right],
                n_rows,
            )
            for left, right in self.pairs
        ]
        return _sum_and_least(single), _sum_and_least(paired or single)


def _log_shares(mine: NDArray[np.integer], theirs: NDArray[np.integer], n_rows: int) -> NDArray[np.float64]:
    wanted, place = np.unique(mine, return_inverse=True)
    found = np.minimum(np.searchsorted(wanted, theirs), len(wanted) - 1)
    counts = np.bincount(found[wanted[found] == theirs], minlength=len(wanted))
    return np.asarray(np.log((counts[place] + 0.5) / (n_rows + 1)))


def _sum_and_least(shares: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    together = np.stack(shares)
    return together.sum(axis=0), together.min(axis=0)


# Who is attacked ----------------------------------------------------------------------------------------------------


_CANDIDATES = 1000
_PAIRS_AT_ONCE = 2**24
_PAIRS_OF_CELLS = 2 * 10**9
"""Cells compared at most; of very large tables fewer candidates are looked at."""


def most_exposed(rows: UnitRows, schema: Schema, *, number: int, device: str = "cpu") -> NDArray[np.int64]:
    """Return the units whose rows are farthest from the nearest row of any other unit, by Gower's distance.

    Every row is ranked by how rare its cells are, numbers in at most 32 public bins; of the rarest thousand the exact
    distance to the nearest row of another unit decides. A unit counts by its most exposed row.

    Parameters
    ----------
    rows : UnitRows
        At least one row, codes in ``schema.names`` order.
    number : int
        Most units to return.
    device : {"cpu", "cuda"}
        Where distances are computed.

    Returns
    -------
    array of shape (at most ``number``,), the most exposed unit first
    """
    n_rows = len(rows.units)
    rarity = np.zeros(n_rows)
    for column, codes in zip(schema.modelled, rows.codes, strict=True):
        cells = coarse_bins(column)[codes]
        rarity -= np.log(np.bincount(cells)[cells])
    most = max(number, min(_CANDIDATES, _PAIRS_OF_CELLS // (n_rows * len(rows.codes))))
    chosen = np.argsort(-rarity, kind="stable")[:most]
    apart = _from_others(rows, chosen, GowerSpace.of(schema), device)
    # Where several rows are equally far, the rarer ones come first: the order of ``chosen``.
    units = rows.units[chosen[np.argsort(-apart, kind="stable")]]
    _, firsts = np.unique(units, return_index=True)
    return np.asarray(units[np.sort(firsts)][:number])


def _from_others(rows: UnitRows, chosen: NDArray[np.int64], space: GowerSpace, device: str) -> NDArray[np.float64]:
    found = np.empty(len(chosen))
    size = max(1, _PAIRS_AT_ONCE // len(rows.units))
    for start in range(0, len(chosen), size):
        piece = chosen[start : start + size]
        apart = space.between([codes[piece] for codes in rows.codes], rows.codes, device=device)
        apart[rows.units[piece][:, None] == rows.units[None, :]] = np.inf
        found[start : start + size] = apart.min(axis=1)
    return found


# As evidence --------------------------------------------------------------------------------------------------------


_PREFIX = "attacks.shadow."


class _ShadowModels:
    name: ClassVar[str] = "shadow"
    title: ClassVar[str] = "Shadow models"
    knows: ClassVar[str] = (
        "The whole table except whether the person is in it, the configuration, and runs with and without the person."
    )
    caveat: ClassVar[str] = "Only the most exposed units are attacked."


def shadow_evidence(
    scores: ShadowScores, schema: Schema, *, epsilon: float, delta: float, seed: int
) -> tuple[OwnerOnlyEvidence, ...]:
    """Report how well the attack distinguished runs with a unit from runs without it.

    Parameters
    ----------
    scores : ShadowScores
    schema : Schema
    epsilon, delta : float
        What every run promises.
    seed : int
        Public.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``attacks.shadow.area``, ``.caught``, ``.people`` and ``.reached`` with the pictures; ``.warning`` where the
        proof was exceeded; ``.none`` alone where there are too few runs for a verdict.
    """
    sizes = len(scores.members), len(scores.non_members)
    if min(sizes) < FEWEST_UNITS:
        return no_shadows(
            f"No verdict: over {scores.runs - scores.runs // 2} runs, {scores.targets} units were in {sizes[0]} times "
            f"and out {sizes[1]} times; fewer than {FEWEST_UNITS} of either allow no verdict. Ask for more shadow "
            "models."
        )
    ceiling = ProvenCeiling(epsilon, delta, scores.receipts)
    level = INCIDENT_LEVEL / (len(ATTACKS) + 1)
    result = judged(
        _ShadowModels(), scores.members, scores.non_members, ceiling, level=level, seed=seed, own_coins=True
    )
    numbers = [
        _entry(measure, title, f"{_spoken(measure)}{sentence}", value=value, unit=unit)
        for measure, title, unit, value, sentence in numbers_of(result, ceiling)
    ]
    people = _entry(
        "people", "Runs with and without the most exposed units", _people(scores, schema), value=scores.runs
    )
    reached = _entry(
        "reached",
        "What shadow models reached",
        ceiling_words(ceiling),
        figures=figures_of([result], ceiling, "real"),
    )
    return (*_warning(result), *numbers, people, reached)


def no_shadows(reason: str) -> tuple[OwnerOnlyEvidence, ...]:
    """Return the evidence of an attack that was asked for and not run: the reason, in one sentence."""
    return (_entry("none", "Shadow models", reason),)


def _spoken(measure: str) -> str:
    return "How often a run with the person scores higher than one without. " if measure == "area" else ""


def _people(scores: ShadowScores, schema: Schema) -> str:
    other = "replaced by someone else" if schema.neighbours is Neighbours.REPLACE else "left out"
    return (
        f"{scores.runs} runs of this configuration with fresh noise; their results are never shown, and nothing is "
        f"charged. A coin decided whether each of the {scores.targets} units whose rows lie farthest from all others "
        f"was in a run or {other}; the attacker learned from {scores.runs // 2} runs and guessed the coins of the "
        f"others. These units were chosen because they stand out: usually less can be learned about any other "
        f"{schema.unit.protects}."
    )


def _warning(result: AttackResult) -> tuple[OwnerOnlyEvidence, ...]:
    if not result.is_exceeded:
        return ()
    sentence = (
        "Better than chance and the proof together allow. One in 10,000 honest reports gives this warning by mistake. "
        f"The program has a bug: noise, sensitivity or cost is wrong for this configuration. {NOTHING_STOPPED}"
    )
    # Nothing is logged, because the success of an attack on private rows depends on these rows.
    return (
        _entry(
            "warning",
            "Warning: shadow models did better than the proof allows",
            sentence,
            value=uuid4().hex[:8],
            unit="incident",
        ),
    )


def _entry(name: str, title: str, sentence: str, **rest: Any) -> OwnerOnlyEvidence:
    return OwnerOnlyEvidence(id=f"{_PREFIX}{name}", title=title, sentence=sentence, **{"value": None} | rest)
