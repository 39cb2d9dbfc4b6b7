"""Densities of few numbers: kernel-sos beside dp-merf and noisy histograms, by log-likelihood and two distances.

    HERMITAGE_DATA=FOLDER python benchmarks/densities.py [--tables wine] [--epsilons 0.3 1 3] [--seeds 5] [--json FILE]

Replace-one, delta 1e-5. A seed splits a table, 80 % to learn from, and draws frequencies; noise is fresh.
Log-likelihood is the mean log density of held-out rows on the unit box, with 1 % of a uniform density mixed in. Sliced
Wasserstein distances take 200 directions, MMD a mixture of Gaussian kernels (lengths .1, .25 and .5 times the root of
the number of columns) by 3,000 random features; both compare as many synthetic rows as were learned from with held-out
rows, and "floor" is the same of the rows that were learned from. A histogram is charged the whole budget for each
number of bins, and its best number by each measure is taken in hindsight, which flatters it. dp-merf has no density.
Differences are taken split by split; "better" and "worse" are by more than two standard errors, else "level".

Bounds are round numbers that hold for what is measured, written down by people who know these tables.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from published_density import log_likelihood
from sklearn.datasets import make_moons

from synth.generators import GeneratorTask, make
from synth.models.sos_density import SumOfSquares, fourier_features
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.products import Product
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import NumberColumn, Schema

Matrix = NDArray[np.float64]

LEVELS = 1001
FIRST_SEED = 9000
DELTA, FLOOR = 1e-5, 0.01
AIM = {("wine", 1.0): 3.17}
"""Log-likelihood that the prototype reached, on four columns and a box that its report does not name."""


def moons(seed: int) -> Matrix:
    """Two moons, 24,000 points, in [-1.5, 2.5] x [-1, 1.5]."""
    return boxed(make_moons(24_000, noise=0.1, random_state=seed)[0], [(-1.5, 2.5), (-1.0, 1.5)])


def cover(*columns: str) -> Callable[[int], Matrix]:
    bounds = {
        "Elevation": (1800, 4000),
        "Aspect": (0, 360),
        "Slope": (0, 60),
        "Horizontal_Distance_To_Hydrology": (0, 1400),
        "Horizontal_Distance_To_Roadways": (0, 7200),
    }
    path = Path(os.environ["HERMITAGE_DATA"]) / "covtype_sample" / "covtype_train.csv.gz"
    return lambda seed: boxed(pd.read_csv(path)[list(columns)].to_numpy(float), [bounds[name] for name in columns])


def wine(seed: int) -> Matrix:
    """White wine: fixed and volatile acidity, pH and alcohol."""
    path = Path(os.environ["HERMITAGE_DATA"]) / "wine_quality" / "winequality-white.csv"
    bounds = {"fixed acidity": (3, 12), "volatile acidity": (0, 1.2), "pH": (2.7, 4), "alcohol": (8, 15)}
    return boxed(pd.read_csv(path, sep=";")[list(bounds)].to_numpy(float), list(bounds.values()))


def insurance(seed: int) -> Matrix:
    """Insurance: age, body mass index and charges."""
    path = Path(os.environ["HERMITAGE_DATA"]) / "insurance" / "insurance.csv"
    bounds = {"age": (18, 65), "bmi": (15, 55), "charges": (0, 65_000)}
    return boxed(pd.read_csv(path)[list(bounds)].to_numpy(float), list(bounds.values()))


def diabetes(seed: int) -> Matrix:
    """Stays in hospital: days, laboratory procedures and medications, as if every stay were somebody's only one."""
    path = Path(os.environ["HERMITAGE_DATA"]) / "diabetes130" / "diabetic_data.csv.gz"
    bounds = {"time_in_hospital": (1, 14), "num_lab_procedures": (0, 132), "num_medications": (0, 81)}
    return boxed(pd.read_csv(path, usecols=list(bounds))[list(bounds)].to_numpy(float), list(bounds.values()))


TABLES: dict[str, Callable[[int], Matrix]] = {
    "wine": wine,
    "moons": moons,
    "cover in 2": cover("Elevation", "Horizontal_Distance_To_Roadways"),
    "cover in 5": cover(
        "Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Horizontal_Distance_To_Roadways"
    ),
    "insurance": insurance,
    "diabetes": diabetes,
}

BINS = {2: (8, 12, 16, 24, 32, 48, 64), 3: (4, 6, 8, 12, 16, 24), 4: (3, 4, 5, 6, 8, 10), 5: (2, 3, 4, 5, 6, 8)}


def boxed(rows: Any, bounds: list[tuple[float, float]]) -> Matrix:
    """Scale rows to the unit box, and round them to the grid that is declared."""
    low, high = (np.array(side, dtype=np.float64) for side in zip(*bounds, strict=True))
    return np.asarray(np.rint(np.clip((rows - low) / (high - low), 0, 1) * (LEVELS - 1)) / (LEVELS - 1))


class Problem:
    """Rows to learn from behind a session, and held-out rows."""

    def __init__(self, rows: Matrix, seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(rows))
        cut = len(rows) // 5
        self.held, self.train = rows[order[:cut]], rows[order[cut:]]
        d = rows.shape[1]
        self.schema = Schema(tuple(NumberColumn(f"x{k}", 0, 1, 1 / (LEVELS - 1), fallback=0) for k in range(d)))
        self.codes = {f"x{k}": np.rint(self.train[:, k] * (LEVELS - 1)).astype(np.int64) for k in range(d)}
        random = np.random.default_rng(0)
        directions = random.standard_normal((d, 200))
        self.directions = directions / np.linalg.norm(directions, axis=0)
        lengths = np.resize((0.1, 0.25, 0.5), 1500) * math.sqrt(d)
        self.frequencies = random.standard_normal((1500, d)) / lengths[:, None]

    def session(self, epsilon: float) -> PrivateSession:
        table = PrivateTable.from_codes(self.schema, self.codes)
        return PrivateSession(table, PrivacyBudget(epsilon, DELTA, self.schema.neighbours))

    def distances(self, made: Matrix) -> dict[str, float]:
        """Return the sliced Wasserstein distance and MMD from held-out rows."""
        places = (np.arange(1000) + 0.5) / 1000
        quantiles = [np.quantile(rows @ self.directions, places, axis=0) for rows in (made, self.held)]
        means = [fourier_features(rows[:20_000], self.frequencies).mean(axis=0) for rows in (made, self.held)]
        return {
            "swd": float(np.abs(quantiles[0] - quantiles[1]).mean()),
            "mmd": float(np.linalg.norm(means[0] - means[1])),
        }


def by_generator(name: str, problem: Problem, epsilon: float, seed: int) -> dict[str, float]:
    began = time.perf_counter()
    task = GeneratorTask(problem.schema, seed=seed, device="cpu")
    fitted = make(name, task, {}).fit(problem.session(epsilon), NullProgress())
    made = fitted.sample(len(problem.train), seed) / (LEVELS - 1)
    seconds = time.perf_counter() - began
    found = problem.distances(made) | {"seconds": seconds}
    state = fitted.state()
    if "points.0" in state:
        bandwidth = float(state["fit.0"][0])
        density = SumOfSquares(state["points.0"], state["coefficients.0"], bandwidth)
        box = np.zeros(problem.held.shape[1]), np.ones(problem.held.shape[1])
        found |= {"ll": log_likelihood(density, problem.held, lower=box[0], upper=box[1], floor=FLOOR), "s": bandwidth}
    return found


def by_histogram(problem: Problem, epsilon: float, seed: int) -> dict[str, float]:
    """Return the best of every measure over numbers of bins, each charged the whole budget."""
    random, d = np.random.default_rng(seed), problem.held.shape[1]
    each = []
    for bins in BINS[d]:
        places = np.minimum(np.arange(LEVELS) * bins // (LEVELS - 1), bins - 1).astype(np.int32)
        cells = Product(tuple(OneHot((f"x{k}",), (places,), (LEVELS,)) for k in range(d)))
        counts = np.maximum(
            problem.session(epsilon).noisy_sum(cells, share=1.0, query="cells", source="histogram").value.reshape(-1), 0
        )
        shares = counts / counts.sum() if counts.sum() > 0 else np.full(counts.size, 1 / counts.size)
        own = np.minimum((problem.held * bins).astype(np.int64), bins - 1)
        heights = shares[np.ravel_multi_index(tuple(own.T), (bins,) * d)] * bins**d
        drawn = np.stack(
            np.unravel_index(random.choice(shares.size, len(problem.train), p=shares), (bins,) * d), axis=1
        )
        each.append(
            {"ll": float(np.log((1 - FLOOR) * heights + FLOOR).mean())}
            | problem.distances((drawn + random.random(drawn.shape)) / bins)
        )
    return {
        "ll": max(one["ll"] for one in each),
        "swd": min(one["swd"] for one in each),
        "mmd": min(one["mmd"] for one in each),
    }


def show(name: str, epsilon: float, method: str, runs: list[dict[str, float]]) -> None:
    cells = []
    for key, digits in (("ll", 3), ("swd", 4), ("mmd", 3), ("s", 2), ("seconds", 1)):
        values = [run[key] for run in runs if key in run]
        if values:
            mean, error = with_error(values)
            cells.append(f"{key} {mean:.{digits}f} +- {error:.{digits}f}")
    print(f"{name:<11} eps {epsilon:<4g} {method:<11} {'  '.join(cells)}", flush=True)


def with_error(values: list[float]) -> tuple[float, float]:
    """Return the mean, and its standard error over seeds."""
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def verdict(ours: list[float], theirs: list[float], *, more_is_better: bool) -> tuple[float, float, str]:
    """Return the mean difference of pairs, its standard error, and who is ahead by more than two of these."""
    mean, error = with_error([one - other for one, other in zip(ours, theirs, strict=True)])
    if not abs(mean) > 2 * error:
        return mean, error, "level"
    return mean, error, "better" if (mean > 0) == more_is_better else "worse"


def compare(name: str, epsilon: float, found: dict[str, list[dict[str, float]]]) -> None:
    """Print how kernel-sos stands beside every other method, by every measure that both have."""
    ours = found.get("kernel-sos", [])
    for method in (one for one in found if one != "kernel-sos" and ours):
        cells = []
        for key, digits in (("ll", 3), ("swd", 4), ("mmd", 4)):
            if all(key in run for run in found[method]):
                pair = [[run[key] for run in runs] for runs in (ours, found[method])]
                mean, error, word = verdict(*pair, more_is_better=key == "ll")
                cells.append(f"{key} {mean:+.{digits}f} +- {error:.{digits}f} {word}")
        print(f"{name:<11} eps {epsilon:<4g} kernel-sos against {method}: {', '.join(cells)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=["floor", "kernel-sos", "histogram", "dp-merf"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    for name in given.tables:
        problems = [Problem(TABLES[name](seed), seed) for seed in range(FIRST_SEED, FIRST_SEED + given.seeds)]
        if "floor" in given.methods:
            show(name, math.inf, "floor", [one.distances(one.train) for one in problems])
        for epsilon in given.epsilons:
            here: dict[str, list[dict[str, float]]] = {}
            for method in (one for one in given.methods if one != "floor"):
                runs = [
                    by_histogram(one, epsilon, FIRST_SEED + k)
                    if method == "histogram"
                    else by_generator(method, one, epsilon, FIRST_SEED + k)
                    for k, one in enumerate(problems)
                ]
                show(name, epsilon, method, runs)
                here[method] = runs
                found += [{"table": name, "epsilon": epsilon, "method": method, **run} for run in runs]
            compare(name, epsilon, here)
            if (name, epsilon) in AIM:
                print(f"{name:<11} eps {epsilon:<4g} aim         ll {AIM[name, epsilon]}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
