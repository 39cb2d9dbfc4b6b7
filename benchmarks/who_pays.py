r"""Figures 7 and 8 of the random-feature paper (Liao 2024): by how much noise raises the risk of each group.

    HERMITAGE_DATA=FOLDER python benchmarks/who_pays.py [--seeds 5] [--draws 100]

The gap of a group is |R - R_a|, where R is the mean squared error with noise less that without. Noise of variance
sigma^2 on every coefficient raises the error of a row by sigma^2 |phi(x)|^2 exactly, so a gap is sigma^2 times how far
the group's mean squared length of features is from that of all rows; no draw is needed. The paper estimates it from 100
draws for each group by itself. Columns: the gap, that estimate, and the risk without noise, for random features and for
ridge regression on columns that are scaled within each group, with the same noise, as in the paper.

The half in the paper's eq. 8 is right with the Hessian of the squared error, 2 phi phi^T, and not with the phi phi^T
that it goes on with. Noise as in Algorithm 1; the public notebook has 5 Delta / sqrt(2 epsilon) for it. No epsilon here
holds, and everything reads private rows.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from published_regression import claimed_noise_std, code_features, least_norm

from synth.estimators.random_features.fitting import ridge_of_moments

FEATURES, DELTA, EPSILONS = 4000, 1e-5, (0.05, 0.1, 0.3)

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of two groups: inputs as they are, labels of length 1 altogether, and which rows are of the first group."""

    title: str
    x: Matrix
    y: Vector
    first: NDArray[np.bool_]
    names: tuple[str, str]
    spread: float
    """Standard deviation of frequencies."""


def tables(random: np.random.Generator) -> Iterator[Groups]:
    """Draw the training rows of each figure."""
    folder = Path(os.environ["HERMITAGE_DATA"])
    costs = pd.read_csv(folder / "insurance" / "insurance.csv")
    inputs = pd.concat(
        [costs[["age", "bmi", "children"]], pd.get_dummies(costs[["sex", "smoker", "region"]])], axis=1
    ).to_numpy(dtype=np.float64)
    kept = random.permutation(len(costs))[: len(costs) * 9 // 10]
    labels = costs["charges"].to_numpy(dtype=np.float64)[kept]
    for column, value in (("sex", "male"), ("smoker", "yes")):
        first = (costs[column] == value).to_numpy()[kept]
        names = (value, next(other for other in costs[column].unique() if other != value))
        yield Groups(f"medical cost, {column}", inputs[kept], labels, first, names, math.sqrt(2e-5))
    wines = [
        pd.read_csv(folder / "wine_quality" / f"winequality-{colour}.csv", sep=";").to_numpy(dtype=np.float64)
        for colour in ("red", "white")
    ]
    rows = np.concatenate([wine[random.permutation(len(wine))[:1000]] for wine in wines])
    yield Groups("wine", rows[:, :-1], rows[:, -1], np.arange(2000) < 1000, ("red", "white"), math.sqrt(20))


def gaps(features: Matrix, first: NDArray[np.bool_], noise_std: float) -> tuple[float, float]:
    """Return the gap of each group, exactly."""
    lengths = (features**2).sum(axis=1)
    return tuple(noise_std**2 * abs(float(lengths.mean() - lengths[of].mean())) for of in (first, ~first))  # type: ignore[return-value]


def drawn_gaps(
    features: Matrix,
    residuals: Vector,
    first: NDArray[np.bool_],
    noise_std: float,
    random: np.random.Generator,
    draws: int,
) -> tuple[float, float]:
    """Return the gaps as the paper estimates them: fresh draws for all rows, and for each group."""

    def risk(of: NDArray[np.bool_]) -> float:
        noise = noise_std * random.standard_normal((features.shape[1], draws))
        moved = residuals[of][:, None] + features[of] @ noise
        return float((moved**2).mean() - (residuals[of] ** 2).mean())

    whole = risk(np.ones_like(first))
    return abs(whole - risk(first)), abs(whole - risk(~first))


def scaled_by_group(x: Matrix, first: NDArray[np.bool_]) -> Matrix:
    """Scale columns to [0, 1] by the extremes of each group, and add a constant."""
    found = np.ones((len(x), x.shape[1] + 1))
    for of in (first, ~first):
        low, high = x[of].min(axis=0), x[of].max(axis=0)
        found[of, :-1] = (x[of] - low) / np.where(high > low, high - low, 1.0)
    return found


def measured(groups: Groups, random: np.random.Generator, draws: int) -> Iterator[tuple[str, float, list[float]]]:
    """Give, by model and epsilon, both groups' gaps, their estimates, and both groups' risks without noise."""
    labels = groups.y / np.linalg.norm(groups.y)
    frequencies = groups.spread * random.standard_normal((FEATURES, groups.x.shape[1]))
    features = code_features(groups.x, frequencies, random.uniform(0, 2 * math.pi, FEATURES))
    scaled = scaled_by_group(groups.x, groups.first)
    # The paper chooses this penalty so that both models get the same noise.
    penalty = math.sqrt(FEATURES / (2 * len(labels)))
    models = {
        "random features": (features, least_norm(features, labels)),
        "ridge": (scaled, ridge_of_moments(scaled.T @ scaled, scaled.T @ labels, penalty=penalty)),
    }
    for name, (columns, coefficients) in models.items():
        residuals = columns @ coefficients - labels
        risks = [float((residuals[of] ** 2).mean()) for of in (groups.first, ~groups.first)]
        for epsilon in EPSILONS:
            noise_std = claimed_noise_std(FEATURES, epsilon=epsilon, delta=DELTA)
            estimated = drawn_gaps(columns, residuals, groups.first, noise_std, random, draws)
            yield name, epsilon, [*gaps(columns, groups.first, noise_std), *estimated, *risks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=100)
    asked = parser.parse_args()
    found: dict[str, dict[tuple[str, float], list[list[float]]]] = {}
    names: dict[str, tuple[str, str]] = {}
    for seed in range(asked.seeds):
        random = np.random.default_rng(seed)
        for groups in tables(random):
            names[groups.title] = groups.names
            for name, epsilon, figures in measured(groups, random, asked.draws):
                found.setdefault(groups.title, {}).setdefault((name, epsilon), []).append(figures)
    for title, by_model in found.items():
        heads = [f"{what} {group}" for what in ("gap", "drawn", "risk") for group in names[title]]
        print(f"\n{title}\n{'':>28}" + "".join(f"{head:>18}" for head in heads))
        for (name, epsilon), runs in by_model.items():
            means = [statistics.fmean(values) for values in zip(*runs, strict=True)]
            print(f"{name:>18} {'eps ' + format(epsilon, 'g'):>9}" + "".join(f"{value:>18.3g}" for value in means))


if __name__ == "__main__":
    main()
