"""What one noisy table of counts says of a relation between two columns, beyond what each of them says alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

__all__ = ["LEVEL", "Excess", "excess_of"]

_MEAN_OF_FOLDED = math.sqrt(2 / math.pi)

_Matrix = NDArray[np.float64]

LEVEL = 0.05
"""How often about a pair of unrelated columns is called clear."""

_GROUPS = 4
"""Groups of bins per column in the second test."""

_UNKNOWN_TOTAL = 0.5
"""Noise on the total, as a fraction of it, above which nothing is read: the second order is no longer small."""


@dataclass(frozen=True, slots=True)
class Excess:
    """What one table says about a relation.

    Attributes
    ----------
    p_value : float
        How often unrelated columns would say as much, at most 1.
    seen : float
        Share of rows in other cells than the columns alone would put them; noise contributes to it.
    by_chance : float
        The average of this share for unrelated columns, from noise and sampling, at most 1.
    shape : tuple of two ints
        Bins of the test that decided.
    """

    p_value: float
    seen: float
    by_chance: float
    shape: tuple[int, int]

    @property
    def clear(self) -> bool:
        """Whether it is more than noise and chance explain."""
        return self.p_value < LEVEL


def excess_of(counts: _Matrix, noise_std: float) -> Excess | None:
    r"""Return what a table says beyond its margins, compared with noise and chance.

    Parameters
    ----------
    counts : array of shape (bins of one column, bins of the other)
        Noisy counts, in rows.
    noise_std : float
        Standard deviation of the noise on every count, in rows.

    Returns
    -------
    Excess, optional
        None if a column has a single bin, so that there can be no relation.

    Notes
    -----
    Let M be the table of shape (a, b), with noise of variance :math:`\sigma^2 w_i w'_j` on its cells (bins that
    were merged have more), T its total, and u, v the shares of its margins. Beyond the columns alone it says

    .. math:: E = M - T u v^T .

    If the columns are unrelated and the rows are a sample, E is to first order :math:`(I - u 1^T)(M - T u v^T)(I -
    1 v^T)`, whose covariance is a sum of two Kronecker products,

    .. math:: \sigma^2 \, (A W A^T) \otimes (B W' B^T) + T \, (D_u - u u^T) \otimes (D_v - v v^T), \quad
        A = I - u 1^T, \; B = I - v 1^T ,

    that of the noise and that of the multinomial sample (Agresti, Categorical Data Analysis, 3.2). Two symmetric
    matrices are diagonal in one basis, so E has (a - 1)(b - 1) uncorrelated coordinates with known variances, and
    the sum of their squares over these is chi-square distributed. The joint effect of noise on both margins is of
    second order; it is added to the variances as the part :math:`\sigma^2 \sum w \sum w' / T^2` of the noise. Many
    cells hide a relation that changes slowly along both columns, so a large table is tested a second time in at most
    four groups of bins per column, and the smaller p-value is doubled (Bonferroni). A table with fewer rows than
    cells is tested in groups only. ``benchmarks/drowned.py`` measures the actual level.
    """
    if min(counts.shape) < 2:
        return None
    found = [_one_look(table, noise_std, widths) for table, widths in _looks(counts)]
    if not found:
        return Excess(1.0, 1.0, 1.0, counts.shape)
    best = min(found, key=lambda one: one.p_value)
    return Excess(min(len(found) * best.p_value, 1.0), best.seen, best.by_chance, best.shape)


_Widths = tuple[_Matrix, _Matrix]


def _looks(counts: _Matrix) -> Iterator[tuple[_Matrix, _Widths]]:
    small = max(counts.shape) <= _GROUPS
    # Squares of counts that are mostly 0 or 1 are not chi-square distributed.
    if small or float(counts.sum()) >= counts.size:
        yield counts, (np.ones(counts.shape[0]), np.ones(counts.shape[1]))
    if small:
        return
    starts = [_starts(counts.sum(axis=1 - axis)) for axis in (0, 1)]
    if min(map(len, starts)) > 1:
        merged = np.add.reduceat(np.add.reduceat(counts, starts[0], axis=0), starts[1], axis=1)
        rows, columns = (np.diff([*one, size]) for one, size in zip(starts, counts.shape, strict=True))
        yield merged, (rows.astype(np.float64), columns.astype(np.float64))


def _starts(margin: _Matrix) -> NDArray[np.intp]:
    """Return where groups of neighbouring bins with about equally many rows begin."""
    if len(margin) <= _GROUPS:
        return np.arange(len(margin))
    below = np.cumsum(np.maximum(margin, 0.0))
    before = np.concatenate([[0.0], below[:-1]]) / max(float(below[-1]), 1e-300)
    # A bin belongs to the group in which its middle lies.
    middle = before + np.diff([*before, 1.0]) / 2
    return np.unique(np.minimum(middle * _GROUPS, _GROUPS - 1).astype(np.intp), return_index=True)[1]


def _one_look(counts: _Matrix, noise_std: float, widths: _Widths) -> Excess:
    total, (n, m) = float(counts.sum()), counts.shape
    part = noise_std * math.sqrt(float(widths[0].sum() * widths[1].sum())) / max(total, 1e-300)
    if part > _UNKNOWN_TOTAL:
        return Excess(1.0, 1.0, 1.0, (n, m))
    rows, columns = (_Side.of(counts.sum(axis=1 - axis), widths[axis]) for axis in (0, 1))
    beyond = counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    noise = noise_std**2 * (1 + part**2)
    variances = noise + total * np.outer(rows.scales, columns.scales)
    statistic = float(((rows.basis @ beyond @ columns.basis.T) ** 2 / variances).sum())
    cells = noise * np.outer(rows.noise, columns.noise) + total * np.outer(rows.draw, columns.draw)
    by_chance = _MEAN_OF_FOLDED * float(np.sqrt(cells).sum()) / (2 * total)
    seen = float(np.abs(beyond).sum()) / (2 * total)
    p_value = float(chdtrc((n - 1) * (m - 1), statistic))
    return Excess(p_value, min(seen, 1.0), min(by_chance, 1.0), (n, m))


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One column's part of the covariance: the basis in which noise is 1 and sampling diagonal, and the diagonals.

    ``basis`` has the shape (bins - 1, bins), ``scales`` (bins - 1,); ``noise`` and ``draw``, of shape (bins,), are the
    variances of single cells.
    """

    basis: _Matrix
    scales: _Matrix
    noise: _Matrix
    draw: _Matrix

    @classmethod
    def of(cls, margin: _Matrix, widths: _Matrix) -> _Side:
        shares = np.maximum(margin, 0.0)
        shares = shares / shares.sum()
        size = len(shares)
        residual = np.eye(size) - shares[:, None]
        of_noise = (residual * widths) @ residual.T
        of_draw = np.diag(shares) - np.outer(shares, shares)
        contrasts = _contrasts(size)
        whitened = np.linalg.solve(np.linalg.cholesky(contrasts @ of_noise @ contrasts.T), contrasts)
        scales, turned = np.linalg.eigh(whitened @ of_draw @ whitened.T)
        basis = np.ascontiguousarray(turned.T @ whitened)
        return cls(basis, np.maximum(scales, 0.0), np.diag(of_noise).copy(), np.diag(of_draw).copy())


def _contrasts(size: int) -> _Matrix:
    """Return an orthonormal basis of the vectors that add up to 0, shape (size - 1, size) (Helmert)."""
    made = np.tril(np.ones((size - 1, size)), k=0)
    places = np.arange(1, size)
    made[places - 1, places] = -places
    return np.asarray(made / np.sqrt(places * (places + 1.0))[:, None])
