r"""Figure 2 of the kernel sum-of-squares paper (Muzellec 2021): two moons by bandwidth, penalty and support.

    python benchmarks/sos_moons.py [--seeds 5] [--html FILE]

100 points, the first m of them as support, Gaussian kernel exp(-|x - z|^2 / sigma^2): panels a and b vary sigma^2 and
lambda at m = 50, panel c varies m. The paper shows pictures only; here the mean log density of 2,000 fresh points
stands beside (1 % of a uniform density on [-2, 3] x [-1.5, 2] mixed in), the objective, and the same for a kernel
density estimate of the same bandwidth. Nothing is private: support points are rows.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots
from published_density import fit_rows, log_likelihood
from sklearn.datasets import make_moons

from synth.models.sos_density import SumOfSquares, gaussian_gram
from synth.models.sos_estimation import SumOfSquaresFit

ROWS, SUPPORT, FRESH, NOISE = 100, 50, 2000, 0.1
LOWER, UPPER = np.array([-2.0, -1.5]), np.array([3.0, 2.0])
BANDWIDTHS, PENALTIES, SUPPORTS = (0.1, 0.3, 1.0), (1e-1, 1e-2, 1e-3), (10, 25, 50, 100)

Matrix = NDArray[np.float64]


def moons(n: int, seed: int) -> Matrix:
    return np.asarray(make_moons(n, noise=NOISE, random_state=seed)[0], dtype=np.float64)


def fitted(seed: int, *, sigma_squared: float, penalty: float, support: int = SUPPORT) -> SumOfSquaresFit:
    """Fit the density of one draw of the rows; sigma^2 is twice the squared bandwidth."""
    rows = moons(ROWS, seed)
    return fit_rows(rows, rows[:support], bandwidth=math.sqrt(sigma_squared / 2), trace_penalty=penalty)


def score(density: SumOfSquares, seed: int) -> float:
    """Return the mean log density of fresh points."""
    return log_likelihood(density, moons(FRESH, 1000 + seed), lower=LOWER, upper=UPPER)


def kernel_score(sigma_squared: float, seed: int) -> float:
    """Return the score of a Gaussian kernel density estimate of the rows with the same bandwidth."""
    bandwidth = math.sqrt(sigma_squared / 2)
    found = gaussian_gram(moons(FRESH, 1000 + seed), moons(ROWS, seed), bandwidth=bandwidth).mean(axis=1)
    found /= 2 * math.pi * bandwidth**2
    return float(np.mean(np.log(0.99 * found + 0.01 / np.prod(UPPER - LOWER))))


def show(head: str, fits: list[SumOfSquaresFit]) -> None:
    scores = [score(fit.density, seed) for seed, fit in enumerate(fits)]
    objective = statistics.fmean(fit.objective for fit in fits)
    steps = statistics.fmean(fit.steps for fit in fits)
    mean, spread = statistics.fmean(scores), statistics.pstdev(scores)
    print(f"{head:>34} {mean:>8.3f} +- {spread:.3f} {objective:>12.5f} {steps:>8.0f}")


def picture(panels: dict[str, SumOfSquares]) -> go.Figure:
    """Draw the densities of the first draw, three to a line."""
    drawing = make_subplots(rows=math.ceil(len(panels) / 3), cols=3, subplot_titles=list(panels))
    across, up = (np.linspace(low, high, 80) for low, high in zip(LOWER, UPPER, strict=True))
    grid = np.stack(np.meshgrid(across, up), axis=-1)
    for place, density in enumerate(panels.values()):
        heights = density.density(grid.reshape(-1, 2)).reshape(80, 80)
        heat = go.Heatmap(x=across, y=up, z=heights, showscale=False, colorscale="Viridis")
        drawing.add_trace(heat, row=place // 3 + 1, col=place % 3 + 1)
    return drawing.update_layout(width=1100, height=300 * math.ceil(len(panels) / 3), title="Two moons (Muzellec 2021)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--html", type=Path)
    asked = parser.parse_args()
    panels: dict[str, SumOfSquares] = {}
    print(f"{'':>34} {'log density of fresh points':>18} {'objective':>10} {'steps':>8}")
    for sigma_squared in BANDWIDTHS:
        for penalty in PENALTIES:
            head = f"sigma^2 = {sigma_squared:g}, lambda = {penalty:g}"
            fits = [fitted(seed, sigma_squared=sigma_squared, penalty=penalty) for seed in range(asked.seeds)]
            panels[head] = fits[0].density
            show(head, fits)
        kernels = [kernel_score(sigma_squared, seed) for seed in range(asked.seeds)]
        print(f"{'kernel density estimate':>34} {statistics.fmean(kernels):>8.3f} +- {statistics.pstdev(kernels):.3f}")
    for support in SUPPORTS:
        head = f"m = {support}, sigma^2 = 1, lambda = 0.001"
        fits = [fitted(seed, sigma_squared=1.0, penalty=1e-3, support=support) for seed in range(asked.seeds)]
        panels[head] = fits[0].density
        show(head, fits)
    if asked.html:
        asked.html.parent.mkdir(parents=True, exist_ok=True)
        picture(panels).write_html(asked.html, include_plotlyjs="cdn")


if __name__ == "__main__":
    main()
