"""AIM: an adaptive and iterative mechanism for synthetic data (McKenna 2022, arXiv 2201.12677), for comparisons.

    python aim.py --input codes.npy --domain domain.json --epsilon E --delta D --neighbours add_remove|replace_one
                  --rows N --seed S --out synthetic.npy [--rounds 60] [--degree 2]

``codes.npy`` holds integer codes (n_rows, n_columns), ``domain.json`` the list of column sizes. Written from the paper;
README.md says what differs. It is a benchmark: its noise comes from numpy's generator with a public seed, in floating
point, so its output protects nobody.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from graphical_model import GraphicalModel, Measurement, Table
from junction_tree import Columns, ModelSize
from numpy.typing import NDArray

MEASURING = 0.9
"""Part of every round's budget that goes to the measurement; the rest chooses what to measure."""

SMALLEST_CELLS_LIMIT = 10_000
"""Sets of the workload with more cells are left out, as the authors' command does."""


@dataclass(frozen=True)
class Settings:
    """Everything public that the mechanism is told.

    ``rounds`` None is four for each column, the 60 rounds of the reference figures for 15 columns.
    """

    sizes: tuple[int, ...]
    epsilon: float
    delta: float
    replace_one: bool = False
    rows_per_unit: int = 1
    rounds: int | None = None
    degree: int = 2
    iterations: int = 100
    final_iterations: int = 1000
    megabytes: float = 80.0


def zcdp_of(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP gives (epsilon, delta): arXiv 2004.00010, corollary 13."""

    def delta_of(rho: float) -> float:
        # The bound is convex in log(alpha - 1) near its minimum: a golden section finds it.
        def log_delta(t: float) -> float:
            alpha = 1.0 + math.exp(t)
            return (alpha - 1) * (alpha * rho - epsilon) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)

        low, high = math.log(1e-2), math.log((epsilon + 1) / (2 * rho) + 2)
        ratio = (math.sqrt(5) - 1) / 2
        for _ in range(200):
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            if log_delta(left) < log_delta(right):
                high = right
            else:
                low = left
        return math.exp(min(0.0, log_delta(low)))

    low, high = 0.0, epsilon + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if delta_of(middle) <= delta:
            low = middle
        else:
            high = middle
    return low


def counts_of(codes: NDArray[np.int64], sizes: tuple[int, ...], columns: Columns) -> Table:
    """Return the table of counts of a few columns."""
    shape = tuple(sizes[c] for c in columns)
    cells = np.ravel_multi_index(tuple(codes[:, c] for c in columns), shape)
    return np.bincount(cells, minlength=math.prod(shape)).astype(np.float64).reshape(shape)


def candidates_of(settings: Settings) -> dict[Columns, float]:
    """Return the downward closure of the workload, each set with its weight: how many columns it shares with all."""
    columns = range(len(settings.sizes))
    cells = {r: math.prod(settings.sizes[c] for c in r) for r in itertools.combinations(columns, settings.degree)}
    workload = [r for r in cells if cells[r] <= SMALLEST_CELLS_LIMIT]
    closure = {part for r in workload for k in range(1, settings.degree + 1) for part in itertools.combinations(r, k)}
    sets = [set(r) for r in workload]
    return {r: float(sum(len(set(r) & other) for other in sets)) for r in sorted(closure, key=lambda r: (len(r), r))}


@dataclass(frozen=True)
class Round:
    """What one measurement cost: its set, the noise of a count, and the parameter of the choice (0: not chosen)."""

    columns: Columns
    sigma: float
    parameter: float


def fit(
    codes: NDArray[np.int64], settings: Settings, random: np.random.Generator
) -> tuple[GraphicalModel, list[Round]]:
    """Spend the whole budget: one-ways first, then rounds of choosing, measuring and fitting."""
    rho = zcdp_of(settings.epsilon, settings.delta)
    # One row added or removed changes one count by 1 and every score by its weight; one replaced changes two counts by
    # 1 each (L2 distance sqrt 2) and a score by twice its weight.
    rows = settings.rows_per_unit  # A unit of several rows changes everything by so many times as much.
    squared_sensitivity = rows**2 * (2.0 if settings.replace_one else 1.0)
    score_factor = rows * (2.0 if settings.replace_one else 1.0)
    sizes = settings.sizes
    rounds = settings.rounds or 4 * len(sizes)
    sigma = math.sqrt(rounds * squared_sensitivity / (2 * MEASURING * rho))
    parameter = math.sqrt(8 * (1 - MEASURING) * rho / rounds)

    def measure_cost() -> float:
        return squared_sensitivity / (2 * sigma**2)

    weights = candidates_of(settings)
    answers = {r: counts_of(codes, sizes, r) for r in weights}
    model = GraphicalModel(sizes, total=float(len(codes)) if settings.replace_one and rows == 1 else None)

    spent: list[Round] = []

    def measure(columns: Columns, selected_with: float) -> None:
        table = answers[columns]
        spent.append(Round(columns, sigma, selected_with))
        model.add(Measurement(columns, table + sigma * random.normal(size=table.shape), sigma))

    one_ways = [(c,) for c in range(len(sizes))]
    for columns in one_ways:
        if columns not in answers:
            answers[columns] = counts_of(codes, sizes, columns)
        measure(columns, 0.0)
    used = len(one_ways) * measure_cost()
    if used > rho:
        raise SystemExit("Too few rounds: the one-way tables alone would cost more than the budget.")
    model.fit(settings.iterations)
    last = False
    while not last:
        left = rho - used
        if left < 2 * (measure_cost() + parameter**2 / 8):
            sigma = math.sqrt(squared_sensitivity / (2 * MEASURING * left))
            parameter = math.sqrt(8 * (1 - MEASURING) * left)
            last = True
        used += measure_cost() + parameter**2 / 8
        size = ModelSize(sizes, model.measured)
        limit = settings.megabytes * used / rho
        open_sets = [r for r in weights if size.is_free(r) or size.megabytes_with(r) <= limit]
        bias = math.sqrt(2 / math.pi) * sigma
        scores = np.array(
            [
                weights[r] * (np.abs(answers[r] - model.total * model.marginal(r)).sum() - bias * answers[r].size)
                for r in open_sets
            ]
        )
        sensitivity = score_factor * max(weights[r] for r in open_sets)
        chosen = open_sets[int(np.argmax(0.5 * parameter / sensitivity * scores + random.gumbel(size=len(scores))))]
        before = model.total * model.marginal(chosen)
        measure(chosen, parameter)
        model.fit(settings.final_iterations if last else settings.iterations)
        if np.abs(model.total * model.marginal(chosen) - before).sum() <= bias * before.size:
            sigma /= 2
            parameter *= 2
    return model, spent


def parser_of(about: str | None) -> argparse.ArgumentParser:
    """Return a parser of what every program of another method is told: the bins, what is promised, where rows go."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--domain", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--neighbours", choices=("add_remove", "replace_one"), required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows-per-unit", type=int, default=1)
    return parser


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, help="default: four for each column")
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--final-iterations", type=int, default=1000)
    asked = parser.parse_args()
    settings = Settings(
        sizes=tuple(json.loads(asked.domain.read_text(encoding="utf-8"))),
        epsilon=asked.epsilon,
        delta=asked.delta,
        replace_one=asked.neighbours == "replace_one",
        rows_per_unit=asked.rows_per_unit,
        rounds=asked.rounds,
        degree=asked.degree,
        iterations=asked.iterations,
        final_iterations=asked.final_iterations,
    )
    codes = np.load(asked.input).astype(np.int64)
    random = np.random.default_rng(asked.seed)
    model, _ = fit(codes, settings, random)
    rows = model.sample(asked.rows, random)
    np.save(asked.out, rows.astype(np.min_scalar_type(max(settings.sizes))))


if __name__ == "__main__":
    main()
