r"""Least-squares estimate of the squared difference of two densities (Sugiyama 2013).

The difference :math:`f - g` is modelled as :math:`\sum_l \theta_l \exp(-\|x - c_l\|^2 / (2\sigma^2))` with centres c
drawn from both samples. With

.. math::
    H_{l l'} = (\sqrt\pi\,\sigma)^d \exp\Bigl(-\frac{\|c_l - c_{l'}\|^2}{4\sigma^2}\Bigr), \qquad
    h_l = \frac1{n_1}\sum_i e^{-\|x_i - c_l\|^2/(2\sigma^2)} - \frac1{n_2}\sum_j e^{-\|x'_j - c_l\|^2/(2\sigma^2)},

:math:`\theta = (H + \lambda I)^{-1} h` and :math:`\hat L^2 = 2\theta^\top h - \theta^\top H \theta` estimates
:math:`\int (f - g)^2`. Sigma and lambda minimise :math:`\theta^\top H \theta - 2\theta^\top h` over folds. One
eigendecomposition of H for each sigma gives every lambda.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from synth.errors import InputError

__all__ = ["REGULARISERS", "DensityDifference", "DifferenceEstimator", "length_scales_of"]

REGULARISERS = tuple(float(value) for value in np.logspace(-3, 1, 9))
_MOST_CENTRES = 300
_SPLITS_AT_A_TIME = 20


@dataclass(frozen=True, slots=True)
class DensityDifference:
    """One estimate.

    Attributes
    ----------
    squared : float
        Estimate of the integral of the squared difference, in units of one over volume; noise can make it negative.
    length_scale : float
        Sigma that was chosen, in units of the points.
    regulariser : float
        Lambda that was chosen.
    """

    squared: float
    length_scale: float
    regulariser: float


class DifferenceEstimator:
    """Density differences between the two parts of any split of the same points.

    What depends on the points alone is computed once, so that a permutation null costs little more than one estimate.

    Parameters
    ----------
    points : Tensor of shape (n, d), float64
        Both samples.
    centres : Tensor of shape (b, d), float64
    length_scales : sequence of positive float
    regularisers : sequence of positive float
    folds : int
        Parts of the cross-validation, drawn from each sample by itself.

    Raises
    ------
    InputError
        If points are not finite or a number is out of range.

    Notes
    -----
    Differs from the published code (M. C. du Plessis): its folds of the second sample are cut by the size of the first,
    so that some are empty once the second is smaller, and its length scales do not depend on the points.
    """

    def __init__(
        self,
        points: Tensor,
        centres: Tensor,
        *,
        length_scales: Sequence[float],
        regularisers: Sequence[float] = REGULARISERS,
        folds: int = 5,
    ) -> None:
        if points.ndim != 2 or centres.ndim != 2 or points.shape[1] != centres.shape[1] or not len(centres):
            raise InputError("Points and centres must be tables of the same columns, with one centre at least.")
        if not bool(torch.isfinite(points).all()) or not bool(torch.isfinite(centres).all()):
            raise InputError("Points hold entries that are not finite; replace missing values first.")
        if not length_scales or not regularisers or min(*length_scales, *regularisers) <= 0:
            raise InputError("Length scales and regularisers must be positive, with one of each at least.")
        if folds < 2:
            raise InputError(f"There must be at least 2 folds, got {folds}.")
        self.points = points.double()
        self.centres = centres.double()
        self.length_scales = tuple(length_scales)
        self.regularisers = tuple(regularisers)
        self.folds = folds
        self._to_centres = _squared_distances(self.points, self.centres)

    @classmethod
    def of(cls, points: Tensor, *, generator: torch.Generator) -> DifferenceEstimator:
        """Return an estimator with at most 300 of the points as centres, and length scales from their distances."""
        chosen = torch.randperm(len(points), generator=generator)[:_MOST_CENTRES]
        centres = points[chosen.to(points.device)]
        return cls(points, centres, length_scales=length_scales_of(centres))

    def estimate(self, orders: Tensor, n_first: int) -> list[DensityDifference]:
        """Estimate the difference for several splits of the points.

        Parameters
        ----------
        orders : int64 Tensor of shape (splits, n)
            Each row holds every point's number once: the first ``n_first`` are the first sample. The i-th point of a
            sample is in fold ``i mod folds``, so the order within a sample should be random.
        n_first : int
            Each sample must have at least two points.

        Raises
        ------
        InputError
            If a sample has fewer than two points.
        """
        n_second = len(self.points) - n_first
        if min(n_first, n_second) < 2:
            raise InputError(f"Each sample needs at least 2 points, got {n_first} and {n_second}.")
        folds = min(self.folds, n_first, n_second)
        best = torch.full((len(orders),), math.inf, dtype=torch.float64)
        squared, chosen = torch.zeros_like(best), torch.zeros(len(orders), 2, dtype=torch.int64)
        for place, length_scale in enumerate(self.length_scales):
            features = self._features(length_scale)
            values, vectors = torch.linalg.eigh(self.inner_products(length_scale))
            rotated = features @ vectors
            for first in range(0, len(orders), _SPLITS_AT_A_TIME):
                part = slice(first, first + _SPLITS_AT_A_TIME)
                whole, trained, tested = _means(rotated, orders[part], n_first, folds)
                for number, regulariser in enumerate(self.regularisers):
                    weights = trained / (values + regulariser)
                    losses = ((values * weights - 2 * tested) * weights).sum(dim=2).mean(dim=1)
                    better = losses < best[part]
                    weights = whole / (values + regulariser)
                    found = ((2 * whole - values * weights) * weights).sum(dim=1)
                    best[part] = torch.where(better, losses, best[part])
                    squared[part] = torch.where(better, found, squared[part])
                    chosen[part] = torch.where(better[:, None], torch.tensor([place, number]), chosen[part])
        return [
            DensityDifference(value, self.length_scales[place], self.regularisers[number])
            for value, (place, number) in zip(squared.tolist(), chosen.tolist(), strict=True)
        ]

    def inner_products(self, length_scale: float) -> Tensor:
        """Return H, the inner products of the Gaussians over all space, shape (b, b)."""
        exponents = _squared_distances(self.centres, self.centres) / (4 * length_scale**2)
        return (math.sqrt(math.pi) * length_scale) ** self.centres.shape[1] * torch.exp(-exponents)

    def _features(self, length_scale: float) -> Tensor:
        return torch.exp(self._to_centres / (-2 * length_scale**2))


def length_scales_of(points: Tensor) -> tuple[float, ...]:
    """Return nine length scales around the median distance of different points; around 1 if all are the same."""
    distances = torch.pdist(points.double())
    apart = distances[distances > 0]
    median = float(apart.median()) if len(apart) else 1.0
    return tuple(median * float(factor) for factor in np.logspace(-1.5, 0.5, 9))


def _means(features: Tensor, orders: Tensor, n_first: int, folds: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return differences of mean features: of whole samples, without each fold, and of each fold alone."""
    n_points, n_splits = len(features), len(orders)
    sizes = (n_first, n_points - n_first)
    fold = torch.cat([torch.arange(size) % folds for size in sizes])
    group = fold + folds * (torch.arange(n_points) >= n_first)
    belongs = torch.zeros(n_splits, 2 * folds, n_points, dtype=torch.float64)
    belongs[torch.arange(n_splits)[:, None], group[None], orders] = 1.0
    sums = (belongs.flatten(end_dim=1) @ features).reshape(n_splits, 2, folds, -1)
    counts = torch.stack([torch.bincount(fold[group // folds == sample], minlength=folds) for sample in (0, 1)])
    within, total = counts[None, :, :, None].double(), torch.tensor(sizes, dtype=torch.float64)[None, :, None]
    everything = sums.sum(dim=2)
    whole = everything / total
    trained = (everything[:, :, None] - sums) / (total[..., None] - within)
    tested = sums / within
    return whole[:, 0] - whole[:, 1], trained[:, 0] - trained[:, 1], tested[:, 0] - tested[:, 1]


def _squared_distances(left: Tensor, right: Tensor) -> Tensor:
    return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist").square()
