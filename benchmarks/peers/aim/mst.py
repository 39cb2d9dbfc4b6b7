"""MST (McKenna, Miklau, Sheldon 2021, arXiv 2108.04978): one-way tables, a private spanning tree of pairs, one field.

    python mst.py --input codes.npy --domain domain.json --epsilon E --delta D --neighbours add_remove|replace_one
                  --rows N --seed S --out synthetic.npy

For comparisons, with the arguments and the engine of ``aim.py``. Written from the paper and checked against the
authors' ``mechanisms/mst.py``: a third of rho measures every column, a third chooses the tree, a third measures its
pairs. README.md says what differs. Its noise comes from numpy's generator with a public seed: its output protects
nobody.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence

import numpy as np
from aim import Settings, counts_of, parser_of, zcdp_of
from graphical_model import GraphicalModel, Measurement
from junction_tree import Columns
from numpy.typing import NDArray

Codes = NDArray[np.int64]

RARE = 3.0
"""Codes of which fewer are counted than this many standard deviations of the noise share one place."""


class Grouped:
    """Columns with their rare codes in one last place, as the noisy one-way counts tell them; costs nothing."""

    def __init__(self, counts: Sequence[NDArray[np.float64]], noise_std: float) -> None:
        self.frequent = [np.flatnonzero(table >= RARE * noise_std) for table in counts]
        self.rare = [np.flatnonzero(table < RARE * noise_std) for table in counts]
        self.sizes = tuple(len(f) + (len(r) > 0) for f, r in zip(self.frequent, self.rare, strict=True))

    def places(self, codes: Codes) -> Codes:
        """Return the place of every code."""
        found = np.empty_like(codes)
        for d, frequent in enumerate(self.frequent):
            place_of = np.full(len(frequent) + len(self.rare[d]), len(frequent))
            place_of[frequent] = np.arange(len(frequent))
            found[:, d] = place_of[codes[:, d]]
        return found

    def codes(self, places: Codes, random: np.random.Generator) -> Codes:
        """Return codes; those of the last place are drawn evenly from the rare ones."""
        found = np.empty_like(places)
        for d, (frequent, rare) in enumerate(zip(self.frequent, self.rare, strict=True)):
            drawn = random.choice(rare, len(places)) if len(rare) else np.zeros(len(places), dtype=np.int64)
            listed = np.append(frequent, 0)
            found[:, d] = np.where(places[:, d] == len(frequent), drawn, listed[places[:, d]])
        return found


def grouped_counts(table: NDArray[np.float64], frequent: Codes, rare: Codes) -> tuple[NDArray[np.float64], ...]:
    """Return noisy counts of the places of one column, and of how many noises each is the sum."""
    if not len(rare):
        return table, np.ones(len(table))
    return np.append(table[frequent], table[rare].sum()), np.append(np.ones(len(frequent)), len(rare))


def spanning_tree(
    scores: dict[Columns, float], columns: int, scale: float, random: np.random.Generator
) -> list[Columns]:
    """Choose pairs that join all columns, each by the exponential mechanism with weights exp(scale * score)."""
    part, tree, open_pairs = list(range(columns)), [], list(scores)
    while len(tree) < columns - 1:
        open_pairs = [(a, b) for a, b in open_pairs if part[a] != part[b]]
        noisy = scale * np.array([scores[pair] for pair in open_pairs]) + random.gumbel(size=len(open_pairs))
        a, b = open_pairs[int(np.argmax(noisy))]
        tree.append((a, b))
        part = [part[a] if each == part[b] else each for each in part]
    return tree


def synthetic(codes: Codes, settings: Settings, rows: int, random: np.random.Generator) -> Codes:
    """Spend the whole budget and return rows."""
    rho, many = zcdp_of(settings.epsilon, settings.delta), len(settings.sizes)
    # As in aim.py: the L2 sensitivity of one table, and the L1 sensitivity of one score.
    moved = settings.rows_per_unit * (math.sqrt(2) if settings.replace_one else 1.0)
    score_moved = settings.rows_per_unit * (2.0 if settings.replace_one else 1.0)
    total = float(len(codes)) if settings.replace_one and settings.rows_per_unit == 1 else None

    noise_std = moved * math.sqrt(many * 3 / (2 * rho))
    one_ways = [counts_of(codes, settings.sizes, (d,)) for d in range(many)]
    noisy = [table + noise_std * random.normal(size=table.shape) for table in one_ways]
    grouped = Grouped(noisy, noise_std)
    places = grouped.places(codes)
    model = GraphicalModel(grouped.sizes, total=total)
    for d, table in enumerate(noisy):
        counts, noises = grouped_counts(table, grouped.frequent[d], grouped.rare[d])
        model.add(Measurement((d,), counts, noise_std * np.sqrt(noises)))
    model.fit(settings.iterations)
    if many > 1:
        scores = {
            pair: float(np.abs(counts_of(places, grouped.sizes, pair) - model.total * model.marginal(pair)).sum())
            for pair in itertools.combinations(range(many), 2)
        }
        parameter = math.sqrt(8 * rho / 3 / (many - 1))
        tree = spanning_tree(scores, many, 0.5 * parameter / score_moved, random)
        noise_std = moved * math.sqrt((many - 1) * 3 / (2 * rho))
        for a, b in tree:
            table = counts_of(places, grouped.sizes, (a, b))
            model.add(Measurement((a, b), table + noise_std * random.normal(size=table.shape), noise_std))
        model.fit(settings.final_iterations)
    return grouped.codes(model.sample(rows, random), random)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--final-iterations", type=int, default=1000)
    asked = parser.parse_args()
    settings = Settings(
        sizes=tuple(json.loads(asked.domain.read_text(encoding="utf-8"))),
        epsilon=asked.epsilon,
        delta=asked.delta,
        replace_one=asked.neighbours == "replace_one",
        rows_per_unit=asked.rows_per_unit,
        iterations=asked.iterations,
        final_iterations=asked.final_iterations,
    )
    rows = synthetic(np.load(asked.input).astype(np.int64), settings, asked.rows, np.random.default_rng(asked.seed))
    np.save(asked.out, rows.astype(np.min_scalar_type(max(settings.sizes))))


if __name__ == "__main__":
    main()
