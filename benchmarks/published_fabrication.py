r"""Data fabrication as published (Kumar 2024, Algorithm 1, Definition 14, Remark 4). NOT differentially private.

Research code on plain arrays, to reproduce the paper's figures and to attack them. No generator, session or service
uses it, and a test of the house rules holds that.

Algorithm 1 alone is (epsilon, delta)-private for one cell that changes by at most d. What is built on it is not:

- the number of smoothing steps depends on r, the modelling error of the *original* rows (eq. 92), and the output shows
  it: the released rows alone tell two tables that differ in one cell apart far more often than epsilon allows;
- the blocks of large tables are k-means clusters of the *original* rows (eq. 98);
- class labels and class sizes are used as they are, and every row keeps its place;
- the atom of the noise releases each cell unchanged with probability delta, so N p delta cells in all;
- the noise is continuous and drawn in floating point, which leaks by itself (Mironov 2012).

The private counterpart is :mod:`synth.models.fabrication`: public steps, random blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from synth.errors import InputError
from synth.models.affine_hull import AffineHull, checked_rows
from synth.models.wide_hull import partition_rows

__all__ = [
    "PublishedFabrication",
    "draw_noise",
    "fabricate_as_published",
    "fabricate_blocks_as_published",
    "modelling_error",
    "noise_of_uniforms",
]


@dataclass(frozen=True, slots=True, eq=False)
class PublishedFabrication:
    """Rows fabricated as published.

    Attributes
    ----------
    rows : Tensor of shape (N, p)
        Row i belongs to row i of the original.
    steps : int
        The number of steps that the stopping rule chose, or the cap.
    reached : bool
        Whether the error fell to that of the original rows within the cap.
    errors : tuple of float
        Sum of the distances of the smoothed rows from their images, before each step. It need not fall in every step.
    """

    rows: Tensor
    steps: int
    reached: bool
    errors: tuple[float, ...]


def modelling_error(rows: Tensor, *, n: int) -> float:
    """Return r of Definition 14: the sum over rows of their distances from their images, by a machine built on them."""
    return _error(checked_rows(rows), n=n, start=None)[0]


def noise_of_uniforms(uniforms: Tensor, *, epsilon: float, delta: float, change: float = 1.0) -> Tensor:
    r"""Turn uniform numbers into the noise of Algorithm 1 (eq. 76).

    The law is a Laplace law of scale ``change / epsilon`` with an atom of mass ``delta`` at 0.

    Parameters
    ----------
    uniforms : Tensor of any shape, float64, strictly between 0 and 1
    epsilon : float, positive
        For one cell.
    delta : float, in [0, 1)
        Mass of the atom: the probability that a cell is released unchanged.
    change : float, positive
        d: how far the cell may change between neighbours.

    Raises
    ------
    InputError
        If a number is out of range.
    """
    if not (math.isfinite(epsilon) and epsilon > 0 and math.isfinite(change) and change > 0):
        raise InputError(f"epsilon and change must be positive and finite, got {epsilon} and {change}.")
    if not 0 <= delta < 1:
        raise InputError(f"delta must lie in [0, 1), got {delta}.")
    if bool(((uniforms <= 0) | (uniforms >= 1)).any()):
        raise InputError("Uniform numbers must lie strictly between 0 and 1.")
    # The smaller tail, so that neither end loses digits.
    tail = torch.minimum(uniforms, 1 - uniforms)
    size = -torch.log(2 * tail / (1 - delta)).clamp(max=0.0) * (change / epsilon)
    return torch.where(uniforms < 0.5, -size, size)


def draw_noise(
    shape: tuple[int, ...], *, epsilon: float, delta: float, change: float = 1.0, generator: torch.Generator
) -> Tensor:
    """Draw the noise of Algorithm 1, float64, from the caller's seeded generator; see :func:`noise_of_uniforms`."""
    uniforms = torch.rand(shape, dtype=torch.float64, generator=generator)
    # torch.rand returns multiples of 2^-53 and may return 0.
    return noise_of_uniforms(uniforms + 2.0**-54, epsilon=epsilon, delta=delta, change=change)


def fabricate_as_published(noisy_rows: Tensor, *, n: int, error: float, most_steps: int = 50) -> PublishedFabrication:
    """Fabricate rows with the published stopping rule (Definition 14).

    Parameters
    ----------
    noisy_rows : Tensor of shape (N, p)
        What Algorithm 1 returns.
    n : int
        Subspace dimension.
    error : float
        r, the :func:`modelling_error` of the original rows. This argument is what breaks the privacy claim.
    most_steps : int
        Cap on the number of steps, at least 1; the paper has none, and Theorem 6 does not make the rule end.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    if most_steps < 1:
        raise InputError(f"most_steps must be at least 1, got {most_steps}.")
    rows, excess = checked_rows(noisy_rows), None
    errors: list[float] = []
    for steps in range(1, most_steps + 1):
        reached, hull = _error(rows, n=n, start=excess)
        errors.append(reached)
        if reached <= error or steps == most_steps:
            break
        rows, excess = hull.smoothed_rows(), hull.report.excess
    return PublishedFabrication(hull.images_of_rows(), steps, errors[-1] <= error, tuple(errors))


def fabricate_blocks_as_published(
    rows: Tensor,
    *,
    n: int,
    epsilon: float,
    delta: float,
    change: float = 1.0,
    block: int = 1000,
    most_steps: int = 50,
    generator: torch.Generator,
) -> list[tuple[Tensor, PublishedFabrication]]:
    """Fabricate one class's rows as published (Remark 4): k-means of the original rows, then Algorithm 1 by block.

    Parameters
    ----------
    rows : Tensor of shape (N, p)
        The ORIGINAL rows of one class.
    n, epsilon, delta, change, most_steps
        As in :func:`noise_of_uniforms` and :func:`fabricate_as_published`.
    block : int
        There are ``ceil(N / block)`` clusters.
    generator : torch.Generator
        On the CPU; draws the noise and the seed of the clusters.

    Returns
    -------
    list of (int64 Tensor, PublishedFabrication)
        Row numbers of every block, and what was made of them.
    """
    seed = int(torch.randint(2**31, (1,), generator=generator))
    result = []
    for numbers in partition_rows(rows, block=block, partition="k-means", seed=seed):
        own = checked_rows(rows[numbers])
        noise = draw_noise(tuple(own.shape), epsilon=epsilon, delta=delta, change=change, generator=generator)
        made = fabricate_as_published(own + noise.to(own), n=n, error=modelling_error(own, n=n), most_steps=most_steps)
        result.append((numbers, made))
    return result


def _error(rows: Tensor, *, n: int, start: float | None) -> tuple[float, AffineHull]:
    hull = AffineHull.fit(rows, n, start=start)
    distances = torch.linalg.vector_norm(rows - hull.images_of_rows(), dim=1, dtype=torch.float64)
    return float(distances.sum()), hull
