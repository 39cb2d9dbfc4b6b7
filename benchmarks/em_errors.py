r"""Figures 1 to 10 of the DP EM paper (Wang 2020): errors of Algorithms 1-3 and of EM, on models and on real tables.

    HERMITAGE_DATA=FOLDER python benchmarks/em_errors.py [--seeds 3] [--models GMM MRM RMC] [--json FILE]

Rows are drawn from each model with a signal to noise ratio of 3, delta is 1 / n and neighbours replace a row, as in the
paper. It leaves open |beta*|, the start, eta, zeta, tau, the part that is missing and the constant of Algorithm 1: here
they are 1, a point half a length away, 1, 0.1, the largest second moment of a coordinate's gradient at beta* (taken of
the rows: utility alone depends on it, and a private run has to guess it), 0.1 and what the exact curve needs.

Nothing here is a release: noise is continuous and drawn from a seed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from paper_tables import adult_numbers, census_numbers, wine_numbers
from plotly.subplots import make_subplots
from published_em import (
    PublishedSetting,
    clipped_gradient_em,
    clipped_noise_std,
    gradient_em,
    truncated_em,
    truncated_gradient_em,
)

from synth.privacy.more.em_models import GaussianPair, MissingCovariates, RegressionPair

SIGNAL_TO_NOISE, ZETA, MISSING, DISTANCE = 3.0, 0.1, 0.1, 0.5
KINDS = {"GMM": GaussianPair, "MRM": RegressionPair, "RMC": MissingCovariates}
EM, EXACT_EM = "EM as printed", "EM of the likelihood"
ALGORITHMS = (EM, EXACT_EM, "Algorithm 1", "Algorithm 2, paper", "Algorithm 2, exact", "Algorithm 3, exact")

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """One point of a figure."""

    model: str
    n: int = 50_000
    d: int = 10
    epsilon: float = 0.5
    steps: int = 10
    clip: float = 1.0
    seed: int = 0

    @property
    def name(self) -> str:
        return f"n={self.n:,} d={self.d} epsilon={self.epsilon:g} T={self.steps}" + (
            f" C={self.clip:g}" if self.clip != 1 else ""
        )


def drawn(model: str, n: int, beta: Vector, random: np.random.Generator) -> Matrix:
    """Draw rows of a model, in the layout of its class."""
    noise = float(np.linalg.norm(beta)) / SIGNAL_TO_NOISE
    signs = random.choice([-1.0, 1.0], n)
    if model == "GMM":
        return signs[:, None] * beta + noise * random.standard_normal((n, beta.size))
    x, v = random.standard_normal((n, beta.size)), noise * random.standard_normal(n)
    if model == "MRM":
        return np.column_stack([x, signs * (x @ beta) + v])
    return np.column_stack([x, random.random(x.shape) >= MISSING, x @ beta + v])


def problem(setting: Setting) -> tuple[Matrix, Vector, Vector, float]:
    """Return rows, beta*, the start and the noise of a model."""
    random = np.random.default_rng([setting.seed, setting.d])
    beta, apart = (one / np.linalg.norm(one) for one in random.standard_normal((2, setting.d)))
    return drawn(setting.model, setting.n, beta, random), beta, beta + DISTANCE * apart, 1 / SIGNAL_TO_NOISE


def paths(setting: Setting, rows: Matrix, beta: Vector, start: Vector, noise_std: float) -> dict[str, Matrix]:
    """Return the path of every algorithm from one start, by name."""
    model = KINDS[setting.model](noise_std)
    delta, (steps, d) = 1 / setting.n, (setting.steps, beta.size)
    tau = float((model.gradients(rows, beta) ** 2).mean(axis=0).max())
    cost = PublishedSetting(setting.n, d, setting.epsilon, delta, tau, ZETA, steps)
    clipped = clipped_noise_std(setting.clip, n=setting.n, steps=steps, epsilon=setting.epsilon, delta=delta)
    draws = np.random.default_rng([setting.seed, 1]).standard_normal((steps, d))
    exact = replace(model, as_printed=False)

    def gradients(at: Vector) -> Matrix:
        return model.gradients(rows, at)

    truncated = {"scale": cost.scale, "precision": cost.precision}
    found = {
        EM: gradient_em(lambda at: gradients(at).mean(axis=0), start, rate=1.0, steps=steps),
        EXACT_EM: gradient_em(lambda at: exact.gradients(rows, at).mean(axis=0), start, rate=1.0, steps=steps),
        "Algorithm 1": clipped_gradient_em(gradients, start, clip_norm=setting.clip, rate=1.0, noise=clipped * draws),
        "Algorithm 2, paper": truncated_gradient_em(
            gradients, start, **truncated, rate=1.0, noise=cost.published_noise_std * draws
        ),
        "Algorithm 2, exact": truncated_gradient_em(
            gradients, start, **truncated, rate=1.0, noise=cost.exact_noise_std() * draws
        ),
    }
    if isinstance(model, GaussianPair):
        moment = float((model.statistics(rows, beta) ** 2).mean(axis=0).max())
        whole = replace(cost, tau=moment)
        found["Algorithm 3, exact"] = truncated_em(
            lambda at: model.statistics(rows, at),
            start,
            scale=whole.scale,
            precision=whole.precision,
            noise=whole.exact_noise_std() * draws,
        )
    return found


def errors(setting: Setting) -> dict[str, list[float]]:
    """Return the distance from beta* after every step, by algorithm; either sign of a pair counts."""
    rows, beta, start, noise_std = problem(setting)
    found = {}
    for name, path in paths(setting, rows, beta, start, noise_std).items():
        apart = np.linalg.norm(path - beta, axis=1)
        if setting.model != "RMC":
            apart = np.minimum(apart, np.linalg.norm(path + beta, axis=1))
        found[name] = apart.tolist()
    return found


def settings(model: str, steps: int) -> Iterator[Setting]:
    """The points of Figures 2 to 4 and 6 to 8, and those of Figure 1."""
    base = Setting(model, steps=steps)
    yield from (replace(base, epsilon=epsilon) for epsilon in (0.2, 0.5, 1.0))
    yield from (replace(base, d=d) for d in (5, 20))
    yield from (replace(base, n=n) for n in (20_000, 100_000))
    yield from (replace(base, steps=steps) for steps in (5, 22))
    yield from (replace(base, clip=clip) for clip in (0.1, 5.0, 10.0))


TABLES = {"Adult": adult_numbers, "Census": census_numbers, "Wine, by colour": wine_numbers}
"""For Figure 5: the paper has Adult and two tables that are not public."""


def table_errors(table: str, epsilon: float, seed: int, steps: int) -> dict[str, float]:
    """Figure 5: the two classes of a table as a pair of Gaussians, centred by their true means as the paper does."""
    random = np.random.default_rng([5, seed])
    numbers, positive = TABLES[table]()
    take = min(positive.sum(), (~positive).sum())
    halves = [random.permutation(np.flatnonzero(which))[:take] for which in (positive, ~positive)]
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    means = [numbers[half].mean(axis=0) for half in halves]
    rows = numbers[random.permutation(np.concatenate(halves))] - sum(means) / 2
    beta = means[0] - sum(means) / 2
    spread = max(float(np.linalg.eigvalsh(np.cov(numbers[half].T))[-1]) for half in halves)
    start = beta + DISTANCE * np.linalg.norm(beta) * random.standard_normal(beta.size) / math.sqrt(beta.size)
    setting = Setting("GMM", len(rows), beta.size, epsilon, steps, seed=seed)
    found = paths(setting, rows, beta, start, math.sqrt(spread))
    return {
        name: float(min(np.linalg.norm(path[-1] - beta), np.linalg.norm(path[-1] + beta)) / np.linalg.norm(beta))
        for name, path in found.items()
    }


def verdicts(found: dict[str, dict[str, dict[str, list[list[float]]]]], steps: int) -> Iterator[str]:
    """Say of each claim of the paper whether it comes out."""

    def last(model: str, name: str, **changes: float) -> float:
        runs = found[model][replace(Setting(model, steps=steps), **changes).name][name]
        return statistics.mean(run[-1] for run in runs)

    second = "Algorithm 2, paper"
    for model in found:
        falls = last(model, second, epsilon=1.0) < last(model, second, epsilon=0.2)
        grows = last(model, second, d=20) > last(model, second, d=5)
        more = last(model, second, n=100_000) < last(model, second, n=20_000)
        yield f"{model}: error falls with epsilon {falls}, with n {more}, grows with d {grows}"
        yield (
            f"{model}: Algorithm 2 beats Algorithm 1 at C = 1: {last(model, second) < last(model, 'Algorithm 1')} "
            f"({last(model, second):.3f} and {last(model, 'Algorithm 1'):.3f}); "
            f"{last(model, second) / last(model, EM):.1f} times the error of EM"
        )
        yield f"{model}: T = 22 is better than T = 5: {last(model, second, steps=22) < last(model, second, steps=5)}"
        yield f"{model}: the printed E-step costs {last(model, EM) - last(model, EXACT_EM):+.4f} without any noise"


def figure(found: dict[str, dict[str, dict[str, list[list[float]]]]], steps: int) -> go.Figure:
    """Draw error against step, for each model at each epsilon (Figures 2-4)."""
    epsilons = (0.2, 0.5, 1.0)
    titles = [f"{model}, epsilon {epsilon:g}" for model in found for epsilon in epsilons]
    drawing = make_subplots(rows=len(found), cols=len(epsilons), subplot_titles=titles, shared_xaxes=True)
    for row, model in enumerate(found, start=1):
        for column, epsilon in enumerate(epsilons, start=1):
            runs = found[model][Setting(model, epsilon=epsilon, steps=steps).name]
            for name, colour in zip(ALGORITHMS, COLOURS, strict=True):
                if name in runs:
                    line = go.Scatter(
                        y=np.mean(runs[name], axis=0), name=name, line={"color": colour}, showlegend=row == column == 1
                    )
                    drawing.add_trace(line, row=row, col=column)
    drawing.update_yaxes(type="log")
    return drawing.update_layout(width=1200, height=300 * len(found), title="Error by step (Wang 2020, Figures 2-4)")


COLOURS = ("#444444", "#999999", "#CC79A7", "#E69F00", "#0072B2", "#009E73")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--models", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--html", type=Path)
    asked = parser.parse_args()
    found: dict[str, dict[str, dict[str, list[list[float]]]]] = {}
    print(f"{'':>44}" + "".join(f"{name:>22}" for name in ALGORITHMS))
    for model in asked.models:
        found[model] = {}
        for setting in settings(model, asked.steps):
            runs: dict[str, list[list[float]]] = {}
            for seed in range(asked.seeds):
                for name, path in errors(replace(setting, seed=seed)).items():
                    runs.setdefault(name, []).append(path)
            found[model][setting.name] = runs
            shown = [
                f"{statistics.mean(run[-1] for run in runs[name]):.3f}" if name in runs else "" for name in ALGORITHMS
            ]
            print(f"{model:>4} {setting.name:>39}" + "".join(f"{one:>22}" for one in shown), flush=True)
    print("Error as a part of |beta*| (Figure 5)")
    for table, epsilon in itertools.product(TABLES, (0.2, 0.5, 1.0)):
        of_seeds = [table_errors(table, epsilon, seed, asked.steps) for seed in range(asked.seeds)]
        shown = [f"{statistics.mean(one[name] for one in of_seeds):.3f}" for name in ALGORITHMS]
        print(f"{f'{table}, epsilon {epsilon:g}':>44}" + "".join(f"{one:>22}" for one in shown), flush=True)
    if asked.models == list(KINDS):
        print("\n".join(verdicts(found, asked.steps)))
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"seeds": asked.seeds, "errors": found}, indent=1), encoding="utf-8")
    if asked.html:
        asked.html.parent.mkdir(parents=True, exist_ok=True)
        figure(found, asked.steps).write_html(asked.html, include_plotlyjs="cdn")


if __name__ == "__main__":
    main()
