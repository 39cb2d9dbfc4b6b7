"""Tab-PE: rows that evolve by private votes of the nearest (Tran 2026, arXiv 2606.08259).

    python tab_pe.py --input codes.npy --domain domain.json --epsilon E --delta D --neighbours add_remove|replace_one
                     --rows N --seed S --out synthetic.npy [--ordered 0 1 2] [--label 7]

For comparisons; written from the paper's description, README.md says what is reduced. It is a benchmark: its noise
comes from numpy's generator with a public seed, in floating point, and the parts of the classes are the real ones, as
in the paper, so its output protects nobody.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent / "aim"))

from aim import parser_of, zcdp_of

POPULATION, ROUNDS, VARIATIONS = 1000, 20, 4
FIRST_STEP, LAST_STEP = 0.25, 0.02
"""How far a variation goes in the first and in the last round: part of a number's range, and of its categories."""

BLOCK = 2048


@dataclass(frozen=True)
class Space:
    """Where rows live: sizes of columns, which of them are numbers, and which is the label, if one is."""

    sizes: tuple[int, ...]
    ordered: tuple[int, ...]
    label: int | None

    @property
    def features(self) -> list[int]:
        """The columns beside the label."""
        return [c for c in range(len(self.sizes)) if c != self.label]

    def embedded(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return points whose squared distance adds up squared parts of ranges, and 1 for another category."""
        parts = []
        for c in self.features:
            if c in self.ordered:
                parts.append(rows[:, [c]] / max(self.sizes[c] - 1, 1))
            else:
                parts.append(np.eye(self.sizes[c])[rows[:, c]] / math.sqrt(2))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def varied(self, rows: NDArray[np.int64], step: float, random: np.random.Generator) -> NDArray[np.int64]:
        """Take every number a random step, and draw some categories anew."""
        varied = rows.copy()
        for c in self.features:
            if c in self.ordered:
                moved = rows[:, c] + np.rint(random.normal(size=len(rows)) * step * (self.sizes[c] - 1)).astype(
                    np.int64
                )
                varied[:, c] = np.clip(moved, 0, self.sizes[c] - 1)
            else:
                fresh = random.random(len(rows)) < step
                varied[fresh, c] = random.integers(self.sizes[c], size=int(fresh.sum()))
        return varied


def votes(real: NDArray[np.float32], candidates: NDArray[np.float32]) -> NDArray[np.float64]:
    """Count for each candidate the real rows that it is the nearest to; ties go to the lowest."""
    lengths = (candidates * candidates).sum(axis=1)
    counts = np.zeros(len(candidates))
    for start in range(0, len(real), BLOCK):
        nearest = (lengths - 2 * real[start : start + BLOCK] @ candidates.T).argmin(axis=1)
        counts += np.bincount(nearest, minlength=len(candidates))
    return counts


def evolve(
    codes: NDArray[np.int64], space: Space, sigma: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the last population, and how often each of its rows is to be drawn."""
    groups = np.zeros(len(codes), dtype=np.int64) if space.label is None else codes[:, space.label]
    classes, counts = np.unique(groups, return_counts=True)
    populations, weights = [], []
    for one, count in zip(classes, counts, strict=True):
        size = max(2, round(POPULATION * count / len(codes)))
        rows = np.stack([random.integers(k, size=size) for k in space.sizes], axis=1)
        if space.label is not None:
            rows[:, space.label] = one
        real = space.embedded(codes[groups == one])
        for round_ in range(ROUNDS):
            step = FIRST_STEP * (LAST_STEP / FIRST_STEP) ** (round_ / (ROUNDS - 1))
            tried = np.concatenate([rows, *(space.varied(rows, step, random) for _ in range(VARIATIONS))])
            scores = votes(real, space.embedded(tried)) + sigma * random.normal(size=len(tried))
            rows = tried[np.argsort(-scores)[:size]]
        populations.append(rows)
        weights.append(np.full(size, count / len(codes) / size))
    return np.concatenate(populations), np.concatenate(weights)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--ordered", type=int, nargs="*", default=[])
    parser.add_argument("--label", type=int)
    asked = parser.parse_args()
    sizes = tuple(json.loads(asked.domain.read_text(encoding="utf-8")))
    codes, random = np.load(asked.input).astype(np.int64), np.random.default_rng(asked.seed)
    # Every round is a histogram of votes; a unit's rows move it by so many votes, a replaced one's by sqrt 2 as many.
    sensitivity = asked.rows_per_unit * math.sqrt(2.0 if asked.neighbours == "replace_one" else 1.0)
    sigma = sensitivity * math.sqrt(ROUNDS / (2 * zcdp_of(asked.epsilon, asked.delta)))
    rows, weights = evolve(codes, Space(sizes, tuple(asked.ordered), asked.label), sigma, random)
    drawn = random.choice(len(rows), size=asked.rows, p=weights / weights.sum())
    np.save(asked.out, rows[drawn].astype(np.min_scalar_type(max(sizes))))


if __name__ == "__main__":
    main()
