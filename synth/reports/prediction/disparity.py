"""Who pays for privacy: what learning from synthetic rows costs each group, compared with all rows together.

Risks are those of predictors on real test rows: the share of wrong classes, or the squared error of a number whose
declared range is 1. The excessive risk of a group is how much larger its risk is after training on synthetic rows than
after training on real rows; the excessive risk gap is how far that is from the excessive risk of all rows together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from synth.reports.code_tables import FEWEST_ROWS

__all__ = [
    "Excess",
    "GroupRisks",
    "excessive_risk",
    "losing_groups",
    "mean_losses",
    "monte_carlo_error",
    "spread_of_releases",
]

_COVERED = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class GroupRisks:
    """Risks of one column's groups.

    Attributes
    ----------
    labels : tuple of str
        Name of every group.
    rows : array of shape (n_groups,)
        Test rows of every group.
    risks : mapping to arrays of shape (n_trainings, n_weightings, 1 + n_groups)
        By what was trained on, in the order of ``TrainedOn``: the mean over predictors of the risk on all test rows,
        then on those of every group; NaN where a weighting has none of its rows. The first weighting counts every test
        row once, the others resample units.
    """

    labels: tuple[str, ...]
    rows: NDArray[np.int64]
    risks: Mapping[str, NDArray[np.float64]]

    def risk(self, trained_on: str) -> NDArray[np.float64]:
        """Return the risk of all test rows, then that of every group; shape (1 + n_groups,)."""
        return np.asarray(self.risks[trained_on][:, 0].mean(axis=0))

    @property
    def judged(self) -> NDArray[np.int64]:
        """Indices of the groups with enough test rows, if there are at least two groups; one would be all rows."""
        enough = np.flatnonzero(self.rows >= FEWEST_ROWS)
        return enough if (self.rows > 0).sum() > 1 else enough[:0]


@dataclass(frozen=True, slots=True, eq=False)
class Excess:
    """Excessive risks, and half the widths of their ranges; arrays of shape (n_groups,), NaN for groups without rows.

    Attributes
    ----------
    overall, overall_error : float
        R of all test rows.
    risk, error : array
        R_a of every group, and its 95 % range taken by itself.
    apart, apart_error : array
        R_a - R, and a range that covers 95 % over all judged groups together.
    """

    overall: float
    overall_error: float
    risk: NDArray[np.float64]
    error: NDArray[np.float64]
    apart: NDArray[np.float64]
    apart_error: NDArray[np.float64]

    @property
    def gap(self) -> NDArray[np.float64]:
        """Return the excessive risk gap xi_a = |R - R_a| of every group."""
        return np.abs(self.apart)


def spread_of_releases(found: GroupRisks) -> NDArray[np.float64]:
    """Return the standard deviation of R_a from one release to another, all rows first; shape (1 + n_groups,).

    Each training of "synthetic" is on the rows of a separate run; at least two.
    """
    return np.asarray((found.risks["synthetic"] - found.risks["real"])[:, 0].std(axis=0, ddof=1))


def monte_carlo_error(found: GroupRisks) -> NDArray[np.float64]:
    """Return half the width of the 95 % range of the mean of R_a over releases, for the same test rows; as above."""
    n_runs = len(found.risks["synthetic"])
    return _width(n_runs, 1) * spread_of_releases(found) / math.sqrt(n_runs)


def mean_losses(
    losses: NDArray[np.float64], groups: NDArray[np.int64], n_groups: int, weights: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Average the losses of test rows over all of them and by group, for many weightings.

    Parameters
    ----------
    losses : array of shape (n_test,)
    groups : array of shape (n_test,)
        Group of every row, in [0, n_groups).
    n_groups : int
    weights : array of shape (n_weightings, n_test)

    Returns
    -------
    array of shape (n_weightings, 1 + n_groups)
        All rows first; NaN where a weighting has no row of a group.
    """
    counts = np.array([np.bincount(groups, weights=one, minlength=n_groups) for one in weights])
    sums = np.array([np.bincount(groups, weights=one * losses, minlength=n_groups) for one in weights])
    with np.errstate(divide="ignore", invalid="ignore"):
        by_group = np.where(counts > 0, sums / counts, np.nan)
    return np.concatenate([(sums.sum(axis=1) / counts.sum(axis=1))[:, None], by_group], axis=1)


def excessive_risk(found: GroupRisks, trained_on: str) -> Excess:
    """Return what training on a table costs every group, compared with training on real rows.

    With L(f, D_a) the mean loss of predictor f on the rows of group a,

        R_a = E L(f_made, D_a) - L(f_real, D_a),    xi_a = |R - R_a|,

    where R is the same over all rows D (Liao 2024, Section 3.4, the definitions before equation 8; they have no
    numbers).

    Parameters
    ----------
    found : GroupRisks
        With risks of "real" and of ``trained_on``.
    trained_on : str
        "synthetic" or "control".

    Notes
    -----
    Where this differs from the paper:

    - Rows are test rows, which no predictor has seen. The paper defines risks on the rows that were trained on, where R
      cannot be negative; here it can.
    - f_real is trained on all real rows, as the paper's global minimiser is, but by the predictors of the report: the
      mean over several takes the place of one model of one family.
    - The expectation over the noise is a mean over the trainings that are given: of the one release there is, or of
      runs with fresh noise, one training for each. Ranges cover another draw of the test rows (whole units) and other
      trainings of the same kind; of one release they do not cover another.
    - The loss of a class is 0 or 1, that of a number its squared error with the declared range as 1.
    - Equation 8 is not used. It approximates the gap for noise added to the coefficients of a linear model by
      sigma^2 / 2 times a difference of traces, which is right only where the Hessian is twice the second moments of the
      features; a gap of 0 for features of norm 1 follows from it for that noise alone, and not for synthetic rows.

    A group of few rows may show no spread by luck. No range is taken narrower than if its rows were as spread as all
    test rows together are.
    """
    differences = found.risks[trained_on] - found.risks["real"]
    of_all, of_groups = differences[:, :, :1], differences[:, :, 1:]
    there = found.rows > 0
    steadiness = np.where(there, found.rows.sum() / np.maximum(found.rows, 1), np.nan)
    resampled = _resampling_variance(of_all)[0]
    risk_variance = np.maximum(_resampling_variance(of_groups), resampled * steadiness)
    apart_variance = np.maximum(_resampling_variance(of_groups - of_all), resampled * (steadiness - 1))
    n_resamples = differences.shape[1] - 1
    alone = _width(n_resamples, 1)
    together = _width(n_resamples, len(found.judged))
    overall, risk = float(of_all[:, 0].mean()), np.where(there, of_groups[:, 0].mean(axis=0), np.nan)
    return Excess(
        overall=overall,
        overall_error=alone * math.sqrt(resampled + _training_variance(of_all)[0]),
        risk=risk,
        error=alone * np.sqrt(risk_variance + _training_variance(of_groups)),
        apart=risk - overall,
        apart_error=together * np.sqrt(apart_variance + _training_variance(of_groups - of_all)),
    )


def losing_groups(found: GroupRisks, excess: Excess) -> list[str]:
    """Name the judged groups that lose more than all rows together, beyond what chance explains."""
    return [found.labels[place] for place in found.judged if excess.apart[place] > excess.apart_error[place]]


def _resampling_variance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance over weightings of the mean over trainings; 0 where fewer than two weightings have a row."""
    resampled = values[:, 1:].mean(axis=0)
    known = np.isfinite(resampled)
    count = known.sum(axis=0)
    centred = np.where(known, resampled, 0.0)
    mean = centred.sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(known, resampled - mean, 0.0) ** 2).sum(axis=0)
    return np.asarray(squares / np.maximum(count - 1, 1))


def _training_variance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of the mean over trainings."""
    trainings = values[:, 0]
    if len(trainings) < 2:
        return np.zeros(trainings.shape[1])
    return np.asarray(trainings.var(axis=0, ddof=1) / len(trainings))


def _width(n_resamples: int, n_ranges: int) -> float:
    """Return half the width, in standard deviations, of ranges that cover 95 % together (Bonferroni)."""
    tail = (1 - _COVERED) / (2 * max(n_ranges, 1))
    return float(stdtrit(max(n_resamples - 1, 1), 1 - tail))
