"""An attack on KAHM as published: its stopping rule reads private rows, and the fabricated rows show what it read.

The paper smooths noisy rows until their modelling error falls below r, the error of a machine built from the *original*
rows (Kumar 2024, Definition 14). Two tables are made here that differ in one cell, by at most 1. Their r differ a lot,
so the rule stops early for one and late for the other, and smoother rows have a smaller modelling error of their own.
That is all an attacker looks at: the published rows. The noise is that of epsilon 0.1 for one cell, which allows an
advantage of 0.05; with a public number of steps the same attack has none.

    python benchmarks/attack_on_stopping_rule.py          # both, in a few seconds

Nothing here is private data, and nothing that makes a release uses this code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from published_fabrication import draw_noise, fabricate_as_published, modelling_error
from scipy.stats import beta
from torch import Tensor

from synth.models.fabrication import fabrications

EPSILON, DELTA = 0.1, 1e-5
ROWS, DIMENSION, STEPS, MOST_STEPS = 20, 2, 2, 50
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Attack:
    """How often the attack was right, and the epsilon that this proves with 95 % confidence."""

    hits: int
    alarms: int
    runs: int
    epsilon: float

    @property
    def advantage(self) -> float:
        """Share of hits less share of false alarms."""
        return (self.hits - self.alarms) / self.runs


def neighbours() -> tuple[Tensor, Tensor]:
    """Return two tables that differ in one cell: 20 rows close to one another, and one of them pulled away."""
    rows = torch.full((ROWS, 3), 0.5, dtype=torch.float64)
    rows[:, 0] = torch.linspace(0.0, 0.04, ROWS, dtype=torch.float64)
    changed = rows.clone()
    changed[0, 0] = 1.0
    return rows, changed


def published_rows(rows: Tensor, *, as_published: bool, seed: int) -> Tensor:
    """Make noisy rows and fabricate from them: with the paper's rule, or with a public number of steps."""
    random = torch.Generator().manual_seed(seed)
    noisy = rows + draw_noise(tuple(rows.shape), epsilon=EPSILON, delta=DELTA, generator=random)
    if not as_published:
        return next(fabrications([noisy], n=DIMENSION, steps=STEPS)).rows
    allowed = modelling_error(rows, n=DIMENSION)
    return fabricate_as_published(noisy, n=DIMENSION, error=allowed, most_steps=MOST_STEPS).rows


def score(published: Tensor) -> float:
    """Return what the attacker looks at: the modelling error of the published rows themselves."""
    return modelling_error(published, n=DIMENSION)


def attack(*, as_published: bool, runs: int = 40, seed: int = 0) -> Attack:
    """Choose a threshold on half of the runs, and count on the other half how often it tells the two tables apart."""
    scores = [
        [score(published_rows(rows, as_published=as_published, seed=seed + 2 * run + side)) for run in range(2 * runs)]
        for side, rows in enumerate(neighbours())
    ]
    learned, counted = [one[:runs] for one in scores], [one[runs:] for one in scores]
    levels = sorted(learned[0] + learned[1])
    threshold = max(levels, key=lambda level: _rate(learned[0], level) - _rate(learned[1], level))
    hits, alarms = (sum(value <= threshold for value in one) for one in counted)
    return Attack(hits, alarms, runs, _proven(hits, alarms, runs))


def _rate(scores: list[float], threshold: float) -> float:
    return sum(value <= threshold for value in scores) / len(scores)


def _proven(hits: int, alarms: int, runs: int) -> float:
    """Return the largest epsilon that the rates contradict, by Clopper-Pearson bounds on either rate."""
    tail = (1 - CONFIDENCE) / 2
    hit = float(beta.ppf(tail, hits, runs - hits + 1)) if hits else 0.0
    alarm = float(beta.ppf(1 - tail, alarms + 1, runs - alarms)) if alarms < runs else 1.0
    return max(0.0, math.log(max(hit - DELTA, 1e-300) / alarm))


if __name__ == "__main__":
    for said, as_published in (("as published", True), ("with a public number of steps", False)):
        found = attack(as_published=as_published)
        print(
            f"{said}: right on {found.hits} of {found.runs}, wrong on {found.alarms} of {found.runs}; advantage "
            f"{found.advantage:.2f} where epsilon {EPSILON} allows {math.tanh(EPSILON / 2):.2f}; epsilon is at least "
            f"{found.epsilon:.2f}"
        )
