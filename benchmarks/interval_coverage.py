"""How often the intervals of private coefficients hold what the same fit finds without noise.

    HERMITAGE_DATA=FOLDER python benchmarks/interval_coverage.py [--fits 500] [--tables insurance ...]

Nominal 95 %. What is to be held: the coefficients of the same descent, or the same ridge regression, on the same rows
and from the same noisy mean of labels on, without noise; nothing is said of other rows. Of a descent the interval is an
upper bound, so it holds them more often, unless second moments of the features are measured; ``of a known curvature``
is what it would be if they were public. Noise is fresh in every fit.

Nothing was chosen by these tables: the rules were chosen by others, which are made in other ways.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from private_regression import TABLES

from synth.estimators.random_features.fitting import DESCENTS, LEVEL_95, noise_of_average
from synth.estimators.regression import PrivateRandomFeatureRegressor

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def simulated(seed: int = 1) -> tuple[Matrix, Vector]:
    """Four independent columns and a line."""
    random = np.random.default_rng(seed)
    x = random.random((2000, 4))
    return x, np.clip(0.2 + x @ [0.5, -0.2, 0.0, 0.1] + 0.05 * random.normal(size=2000), 0, 1)


def related(rows: int = 3000) -> tuple[Matrix, Vector]:
    """Six columns that hardly differ."""
    random = np.random.default_rng(11)
    x = np.clip(random.beta(2, 2, size=(rows, 1)) + 0.08 * random.normal(size=(rows, 6)), 0, 1)
    return x, np.clip(0.3 + x @ [0.2, 0, 0.1, 0, 0, 0.1] + 0.1 * random.normal(size=rows), 0, 1)


def narrow(rows: int = 3000) -> tuple[Matrix, Vector]:
    """Six columns of which three fill a twentieth of what is declared, one anywhere in it."""
    random = np.random.default_rng(12)
    x = random.random((rows, 6))
    x[:, :3] = [0.1, 0.5, 0.85] + 0.05 * x[:, :3]
    return x, np.clip(0.2 + x @ [0.5, 0.3, 0, 0.2, 0, 0.1] + 0.05 * random.normal(size=rows), 0, 1)


def clipped(rows: int = 3000) -> tuple[Matrix, Vector]:
    """Labels of 0 and 1, so that most gradients are clipped."""
    random = np.random.default_rng(13)
    x = random.random((rows, 5))
    return x, (random.random(rows) < 0.2 + 0.5 * x[:, 0]).astype(np.float64)


def many(rows: int = 20_000) -> tuple[Matrix, Vector]:
    """Ten columns of all shapes and many rows, for a descent of a hundred steps."""
    random = np.random.default_rng(14)
    x = random.random((rows, 10)) ** np.linspace(0.3, 3, 10)
    x[:, 0], x[:, 9] = x[:, 0] > 0.9, x[:, 8]
    return x, np.clip(0.4 + 0.3 * x[:, 1] - 0.2 * x[:, 5] + random.exponential(0.1, rows), 0, 1)


MADE: dict[str, tuple[Callable[[], tuple[Matrix, Vector]], float]] = {
    "simulated": (simulated, 1.0),
    "related": (related, 1.0),
    "narrow": (narrow, 1.0),
    "clipped": (clipped, 1.0),
    "many rows": (many, 1.0),
    "epsilon 0.2": (lambda: related(4000), 0.2),
    "epsilon 5": (lambda: narrow(4000), 5.0),
}
WAYS = {
    "descent, bound": {"features": "linear"},
    "descent, measured": {"features": "linear", "intervals": "measured"},
    "ridge": {"mechanism": "ridge"},
}


def linear(x: Matrix) -> Matrix:
    """Linear features as the estimator has them."""
    return np.column_stack([2 * x - 1, np.ones(len(x))]) / math.sqrt(x.shape[1] + 1)


def without_noise(seen: Matrix, y: Vector, model: PrivateRandomFeatureRegressor) -> Vector:
    """Coefficients of the same fit without noise."""
    rest = np.clip(y - 0.5 - model.mean_, -0.5, 0.5)
    if model.mechanism == "ridge":
        penalty = 0.5 * model.receipts_[-1].noise_scale * 1.25 * math.sqrt(2 * seen.shape[1])
        return np.asarray(np.linalg.solve(seen.T @ seen + penalty * np.eye(seen.shape[1]), seen.T @ rest))
    used, steps = DESCENTS["squared"], sum(one.query.startswith("gradient") for one in model.receipts_)
    now, late, lengths = np.zeros(seen.shape[1]), [], np.linalg.norm(seen, axis=1)
    for _ in range(steps):
        slopes = seen @ now - rest
        slopes /= np.maximum(1.0, np.abs(slopes) * lengths / used.clip)
        now = now - used.rate * (seen.T @ slopes) / len(seen)
        late.append(now)
    return np.mean(late[steps // 2 :], axis=0)


def held(
    x: Matrix, y: Vector, settings: dict[str, Any], fits: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float]:
    """Whether each interval holds its coefficient, by fit; the same with a known curvature; and their mean width."""
    seen = linear(x)
    curvature, directions = np.linalg.eigh(seen.T @ seen / len(seen))
    found, known, widths = [], [], []
    for _ in range(fits):
        model = PrivateRandomFeatureRegressor(**settings).fit(x, y)
        wanted = without_noise(seen, y, model)
        found.append((model.coef_interval_[:, 0] <= wanted) & (wanted <= model.coef_interval_[:, 1]))
        widths.append(np.diff(model.coef_interval_).mean())
        if model.mechanism == "gradient":
            used, receipt = DESCENTS["squared"], model.receipts_[-1]
            std = receipt.noise_scale * used.clip / len(x)
            steps = sum(one.query.startswith("gradient") for one in model.receipts_)
            variance = noise_of_average(curvature, rate=used.rate, steps=steps, std=std)
            half = LEVEL_95 * np.sqrt((directions**2) @ variance)
            known.append(np.abs(model.coef_ - wanted) <= half)
    return np.array(found), np.array(known or found), float(np.mean(widths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=500)
    tables = MADE | {name: (table, 1.0) for name, table in TABLES.items()}
    parser.add_argument("--tables", nargs="+", choices=tables, default=[*MADE, *TABLES])
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(f"{asked.fits} fits each, delta 1e-5, one row replaced; nominal 95 %")
    for name in asked.tables:
        make, epsilon = tables[name]
        x, y = make()
        for way, settings in WAYS.items():
            found, known, width = held(x, y, settings | {"epsilon": epsilon}, asked.fits)
            by_coefficient = found.mean(axis=0)
            beside = f", of a known curvature {known.mean():.1%}" if way != "ridge" else ""
            print(
                f"{name}, {len(x):,} rows, epsilon {epsilon:g}, {way}: {found.mean():.1%} of all intervals, "
                f"by coefficient {by_coefficient.min():.1%} to {by_coefficient.max():.1%}{beside}; "
                f"mean width {width:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
