"""Do released rows give away who was used to make them? A membership-inference score for any generator.

Distances of members (private training rows) and of non-members (held-out rows) to affine hulls fitted on *released*
rows should have the same law. The score is the squared difference of the two densities (Kumar 2024, eq. 69), estimated
by least squares (Sugiyama 2013), with two plain attack figures beside it: the attacker says "member" where the distance
is small.

All of it is computed from private rows without noise. It is evidence for the owner and for nobody else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from synth.errors import InputError
from synth.models.kahm_classifier import KahmClassifier
from synth.reports.density_difference import DifferenceEstimator
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence
from synth.system.threads import quota_threads

__all__ = [
    "DistanceModel",
    "MembershipScore",
    "membership_score_of_distances",
    "membership_score_of_model",
    "membership_score_of_rows",
]

_NORMAL_95 = 1.959963984540054
_FALSE_POSITIVE_RATE = 0.01


class DistanceModel(Protocol):
    """Anything that says how far points lie from each of its classes, such as a fitted ``KahmClassifier``."""

    def distances(self, points: Any, /) -> Any:
        """Return distances, shape (m, classes), of points of shape (m, p)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipScore:
    """How well membership can be told from distances to a model of released rows.

    Attributes
    ----------
    value : float
        Integral of the squared difference of the densities of members' and non-members' distances, not negative; in
        units of one over distance (eq. 69).
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

    warnings: ClassVar[tuple[str, str]] = (
        "The score has the unit of one over distance: noise makes all distances larger and so the score smaller. "
        "Do not compare it between tables or scalings; look at the unit-free score and at the attack beside it.",
        "Score and attack are computed from the private rows without noise. They are not differentially private: keep "
        "them on the owner's screen and out of every release.",
    )

    @property
    def stands_out(self) -> bool:
        """Whether the score is above the 95th percentile of its null."""
        return self.unit_free > self.null_95

    def evidence(self) -> tuple[OwnerOnlyEvidence, ...]:
        """Return the figures as evidence for the owner only."""
        unit, both = self.warnings
        rows = f"{self.n_members} members, {self.n_non_members} non-members"
        figures: list[tuple[str, str, float, float | None, str, str]] = [
            ("unit_free", "Membership score, unit-free", self.unit_free, None, "", rows),
            ("null_95", "The score with members exchanged at random, 95 %", self.null_95, None, "", both),
            ("p_value", "Exchanges that score as high", self.p_value, None, "of exchanges", ""),
            ("auc", "Attack by distance: area under the curve", self.auc, self.auc_error, "of pairs", rows),
            ("tpr", "Members found at 1 % false accusations", self.tpr, None, "of members", ""),
            ("value", "Membership score", self.value, None, "1 / distance", unit),
        ]
        return tuple(
            OwnerOnlyEvidence(
                id=f"membership.{name}",
                title=title,
                value=value,
                error=error,
                unit=unit_of,
                sentence=f"{sentence} {OWNER_ONLY_SENTENCE}".strip(),
            )
            for name, title, value, error, unit_of, sentence in figures
        )


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
    its grids and folds, see :class:`synth.reports.density_difference.DifferenceEstimator`. The null chooses its length
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


def membership_score_of_model(
    model: DistanceModel, members: ArrayLike, non_members: ArrayLike, *, permutations: int = 99, seed: int = 0
) -> MembershipScore:
    """Score a model fitted on released rows: distances are those to its nearest class.

    Parameters
    ----------
    model : DistanceModel
        Fitted on released rows and on nothing private.
    members, non_members : array-like of shapes (n1, p) and (n2, p)
        Rows encoded and scaled as the model's own.
    """
    near = [np.asarray(model.distances(np.asarray(points))).min(axis=1) for points in (members, non_members)]
    return membership_score_of_distances(*near, permutations=permutations, seed=seed)


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
    return membership_score_of_model(model, members, non_members, permutations=permutations, seed=seed)


def _orders(n_first: int, n_second: int, permutations: int, generator: torch.Generator) -> torch.Tensor:
    # Folds go by the place within a sample, so the true split is shuffled within each sample.
    actual = torch.cat(
        [torch.randperm(n_first, generator=generator), n_first + torch.randperm(n_second, generator=generator)]
    )
    exchanged = [torch.randperm(n_first + n_second, generator=generator) for _ in range(permutations)]
    return torch.stack([actual, *exchanged])


def _attack(members: NDArray[np.float64], non_members: NDArray[np.float64]) -> tuple[float, float]:
    """Return the area under the curve, ties counting half, and half its 95 % range by the variance of placements."""
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
