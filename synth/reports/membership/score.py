"""Do released rows reveal which rows were used to make them? A membership-inference score for any generator.

Distances of members (private training rows) and of non-members (held-out rows) to affine hulls fitted on *released*
rows should have the same law. The score is the squared difference of the two densities (Kumar 2024, eq. 69), estimated
by least squares (Sugiyama 2013), together with two plain attack figures: the attacker says "member" where the distance
is small.

All of it is computed from private rows without noise. It is evidence for the owner only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synth.errors import InputError
from synth.models.kahm_classifier import KahmClassifier
from synth.system.machine import quota_threads

__all__ = [
    "REGULARISERS",
    "DensityDifference",
    "DifferenceEstimator",
    "MembershipScore",
    "length_scales_of",
    "membership_score_of_distances",
    "membership_score_of_rows",
]

_NORMAL_95 = 1.959963984540054
_FALSE_POSITIVE_RATE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipScore:
    """How well distances to a model of released rows reveal membership.

    Attributes
    ----------
    value : float
        Integral of the squared difference of the densities of members' and non-members' distances, not negative; in
        units of one over distance (eq. 69), so that noise, which makes all distances larger, makes it smaller: not to
        be compared between tables or scalings.
    unit_free : float
        ``value`` times the standard deviation of all distances.
    null_95 : float
        95th percentile of ``unit_free`` when members and non-members change places at random.
    p_value : float
        Part of such exchanges that score as high, at least 1 / (permutations + 1).
    auc : float
        Area under the curve of the attack: the probability that a member is nearer than a non-member.
    auc_error : float
        Half the width of its 95 % range.
    tpr : float
        Part of the members that the attack finds while it accuses at most 1 % of the non-members.
    n_members, n_non_members : int
    permutations : int
    """

    value: float
    unit_free: float
    null_95: float
    p_value: float
    auc: float
    auc_error: float
    tpr: float
    n_members: int
    n_non_members: int
    permutations: int

    @property
    def stands_out(self) -> bool:
        """Whether the score is above the 95th percentile of its null."""
        return self.unit_free > self.null_95


def membership_score_of_distances(
    members: ArrayLike, non_members: ArrayLike, *, permutations: int = 99, seed: int = 0
) -> MembershipScore:
    """Score distances of members against those of non-members.

    Parameters
    ----------
    members, non_members : array-like of shapes (n1,) and (n2,)
        Distances to a model of released rows; at least two of each.
    permutations : int
        Random exchanges behind the null, at least 19.
    seed : int
        Of centres, folds and exchanges.

    Raises
    ------
    InputError
        If distances are not finite or too few.

    Notes
    -----
    Distances are divided by their standard deviation before densities are compared, so that the unit-free score does
    not depend on their unit at all: the regularisation of the estimate has no unit. Differs from the published code in
    its grids and folds, see :class:`synth.reports.membership.score.DifferenceEstimator`. The null chooses its length
    scale and regularisation anew for each exchange, as the score does.
    """
    first, second = (np.asarray(sample, dtype=np.float64) for sample in (members, non_members))
    if first.ndim != 1 or second.ndim != 1 or min(len(first), len(second)) < 2:
        raise InputError(
            f"The score needs distances of at least 2 members and 2 non-members, got shapes {first.shape} and "
            f"{second.shape}."
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InputError("Distances must be finite: the model has no class that is near these rows.")
    if permutations < 19:
        raise InputError(f"A 95 % null needs at least 19 permutations, got {permutations}.")
    auc, auc_error = _attack(first, second)
    found = {
        "auc": auc,
        "auc_error": auc_error,
        "tpr": _true_positive_rate(first, second),
        "n_members": len(first),
        "n_non_members": len(second),
        "permutations": permutations,
    }
    both = np.concatenate([first, second])
    spread = float(both.std(ddof=1))
    if not spread > 1e-12 * float(np.abs(both).max(initial=0.0)):
        return MembershipScore(value=0.0, unit_free=0.0, null_95=0.0, p_value=1.0, **found)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    points = torch.from_numpy((both - both.mean()) / spread)[:, None]
    with quota_threads():
        estimator = DifferenceEstimator.of(points, generator=generator)
        orders = _orders(len(first), len(second), permutations, generator)
        scores = [max(0.0, estimate.squared) for estimate in estimator.estimate(orders, len(first))]
    score, null = scores[0], np.sort(scores[1:])
    return MembershipScore(
        value=score / spread,
        unit_free=score,
        # The smallest number that at most 5 % of the exchanges, counting this table as one of them, lie above.
        null_95=float(null[math.ceil(0.95 * (permutations + 1)) - 1]),
        p_value=(1 + int((null >= score).sum())) / (permutations + 1),
        **found,  # type: ignore[arg-type]
    )


def membership_score_of_rows(
    released: ArrayLike,
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n: int = 20,
    block: int = 1000,
    scale: Literal["fitted"] | tuple[ArrayLike, ArrayLike] | None = None,
    permutations: int = 99,
    seed: int = 0,
) -> MembershipScore:
    """Score rows that any generator released.

    Parameters
    ----------
    released : array-like of shape (N, p)
    members, non_members : array-like of shapes (n1, p) and (n2, p)
        Rows that were and were not used to make them, encoded in the same way.
    labels : array-like of shape (N,), optional
        Classes of the released rows; without them all are one class.
    n, block, scale
        See :class:`synth.models.kahm_classifier.KahmClassifier`.
    permutations, seed
        See :func:`membership_score_of_distances`.
    """
    rows = np.asarray(released)
    classes: NDArray[Any] = np.zeros(len(rows), dtype=np.int64) if labels is None else np.asarray(labels)
    model = KahmClassifier(n=n, block=block, scale=scale, seed=seed).fit(rows, classes)
    near = [np.asarray(model.distances(np.asarray(points))).min(axis=1) for points in (members, non_members)]
    return membership_score_of_distances(*near, permutations=permutations, seed=seed)


def _orders(n_first: int, n_second: int, permutations: int, generator: torch.Generator) -> torch.Tensor:
    # Folds go by the place within a sample, so the true split is shuffled within each sample.
    actual = torch.cat(
        [torch.randperm(n_first, generator=generator), n_first + torch.randperm(n_second, generator=generator)]
    )
    exchanged = [torch.randperm(n_first + n_second, generator=generator) for _ in range(permutations)]
    return torch.stack([actual, *exchanged])


def _attack(members: NDArray[np.float64], non_members: NDArray[np.float64]) -> tuple[float, float]:
    """Return the area under the curve, ties counting half, and half its 95 % range by the variance of placements."""
    from scipy.stats import rankdata  # imported late: it starts slowly

    n_first, n_second = len(members), len(non_members)
    ranks = rankdata(np.concatenate([members, non_members]))
    # For each member, the part of non-members that lie further; for each non-member, the part of members nearer.
    further = 1 - (ranks[:n_first] - rankdata(members)) / n_second
    nearer = (ranks[n_first:] - rankdata(non_members)) / n_first
    variance = further.var(ddof=1) / n_first + nearer.var(ddof=1) / n_second
    return float(further.mean()), _NORMAL_95 * math.sqrt(float(variance))


def _true_positive_rate(members: NDArray[np.float64], non_members: NDArray[np.float64]) -> float:
    allowed = math.floor(_FALSE_POSITIVE_RATE * len(non_members))
    threshold = np.sort(non_members)[allowed]
    return float((members < threshold).mean())


# The squared difference of two densities ----------------------------------------------------------------------------


REGULARISERS = tuple(float(value) for value in np.logspace(-3, 1, 9))
_MOST_CENTRES = 300
_SPLITS_AT_A_TIME = 20
_FOLDS = 5
"""Parts of the cross-validation, drawn from each sample by itself."""


@dataclass(frozen=True, slots=True)
class DensityDifference:
    r"""One least-squares estimate of the squared difference of two densities (Sugiyama 2013).

    The difference :math:`f - g` is modelled as :math:`\sum_l \theta_l \exp(-\|x - c_l\|^2 / (2\sigma^2))` with
    centres c drawn from both samples. With

    .. math::
        H_{l l'} = (\sqrt\pi\,\sigma)^d \exp\Bigl(-\frac{\|c_l - c_{l'}\|^2}{4\sigma^2}\Bigr), \qquad
        h_l = \frac1{n_1}\sum_i e^{-\|x_i - c_l\|^2/(2\sigma^2)} - \frac1{n_2}\sum_j e^{-\|x'_j - c_l\|^2/(2\sigma^2)},

    :math:`\theta = (H + \lambda I)^{-1} h` and :math:`\hat L^2 = 2\theta^\top h - \theta^\top H \theta` estimates
    :math:`\int (f - g)^2`. Sigma and lambda minimise :math:`\theta^\top H \theta - 2\theta^\top h` over folds. One
    eigendecomposition of H for each sigma gives every lambda.

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
        Finite.
    centres : Tensor of shape (b, d), float64
        At least one.
    length_scales : sequence of positive float
    regularisers : sequence of positive float

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
    ) -> None:
        self.points = points.double()
        self.centres = centres.double()
        self.length_scales = tuple(length_scales)
        self.regularisers = tuple(regularisers)
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
        """
        n_second = len(self.points) - n_first
        folds = min(_FOLDS, n_first, n_second)
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
