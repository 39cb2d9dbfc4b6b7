r"""Kernel affine hull machines (Kumar 2024, Definitions 1 and 2).

A machine is built from rows :math:`y_1, \dots, y_N` and maps any point onto their affine hull,

.. math:: A(y) = \frac{k(y)^\top B\, Y}{k(y)^\top B\, 1}, \qquad B = (K + \lambda^* I)^{-1},

where k is a Gaussian of whitened principal coordinates (``Whitening``) and the regularisation :math:`\lambda^*` is
found from the rows (``ridge_search``). The distance of a point from its image says how unlike the rows the point is.

The rows of P are eigenvectors of the sample covariance S, so :math:`\theta = P S P^\top` (eq. 36) is the diagonal
matrix of the leading eigenvalues and the kernel of eq. 35 needs no inverse: it is a Gaussian of the whitened
coordinates :math:`z = \theta^{-1/2} P (y - \bar y)`. Subtracting the mean changes no difference between two encodings.

The machine is neither scale- nor shift-equivariant: lambda is compared with the mean square of the raw entries. Scale
columns to [0, 1] by public bounds first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
import torch
from scipy.linalg import get_blas_funcs
from torch import Tensor

from synth.errors import InputError
from synth.models.ridge_search import Ridge, factor_of, find_ridge

__all__ = [
    "GUARD",
    "AffineHull",
    "HullBatch",
    "HullImages",
    "HullReport",
    "Whitening",
    "checked_blocks",
    "checked_rows",
    "encoded_kernel",
    "whiten",
]

# Where the weights of an image sum to less than this part of their absolute sum, the nearest row takes its place.
GUARD = 1e-3

# Float32 keeps four digits of a solution while the number of rows over lambda stays below this.
_SINGLE_PRECISION_CONDITION = 1e5

_MAXIMUM_ROWS = 20_000

_CHUNK_ENTRIES = 2**20

# Directions whose variance is below this part of the largest one are rounding, not data.
_LEAST_PART = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class HullReport:
    """What a fit found.

    Attributes
    ----------
    n_rows, n_columns : int
    n_effective : int
        Principal coordinates in use: n, or less where the rows have less rank.
    regulariser : float
        Lambda of eq. 40, in squared units of the rows; 0 where all rows are 0.
    excess : float
        The fixed point of eq. 41.
    residual : float
        Error of the fixed point relative to lambda.
    condition : float
        Bound on the condition number of the matrix that was factored.
    double_precision : bool
        Whether matrices are float64: asked for, or needed as N / lambda is above 1e5.
    raised : bool
        Whether lambda lay below the rounding of K and was raised to it.
    newton_steps : int
    """

    n_rows: int
    n_columns: int
    n_effective: int
    regulariser: float
    excess: float
    residual: float
    condition: float
    double_precision: bool
    raised: bool
    newton_steps: int


@dataclass(frozen=True, slots=True, eq=False)
class HullImages:
    """Images of points, and which of them are the nearest row because the weights nearly cancelled.

    Attributes
    ----------
    images : Tensor of shape (m, p)
    guarded : Tensor of shape (m,), bool
    """

    images: Tensor
    guarded: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class AffineHull:
    """A fitted kernel affine hull machine; make one with :meth:`fit`.

    Attributes
    ----------
    rows : Tensor of shape (N, p)
        What it was built from.
    centre : Tensor of shape (p,), float64
    directions : Tensor of shape (p, n_effective), float64
        ``(point - centre) @ directions`` are the whitened coordinates of a point.
    encoded : Tensor of shape (N, n_effective), float64
        Coordinates of the rows.
    values : Tensor of shape (N, p)
        B Y.
    ones : Tensor of shape (N,)
        B 1.
    ridge : float
        What was added to the diagonal of K.
    report : HullReport
    """

    rows: Tensor
    centre: Tensor
    directions: Tensor
    encoded: Tensor
    values: Tensor
    ones: Tensor
    ridge: float
    report: HullReport

    @classmethod
    def fit(cls, rows: Tensor, n: int = 20, *, start: float | None = None) -> AffineHull:
        """Build a machine.

        Parameters
        ----------
        rows : Tensor of shape (N, p)
            Entries should lie in [0, 1] by public bounds. Float32 rows give float32 matrices where conditioning allows.
        n : int
            Subspace dimension; reduced to N - 1, p and the rank of the rows.
        start : float, optional
            Where the search for the fixed point starts, such as the ``excess`` of a similar fit.

        Raises
        ------
        InputError
            If there are no rows or columns, too many rows, entries that are not finite, or n is below 1.
        """
        rows = checked_rows(rows)
        real = torch.ones(1, rows.shape[0], dtype=torch.bool, device=rows.device)
        begin = None if start is None else torch.tensor([start], dtype=torch.float64, device=rows.device)
        return cls.fit_padded(rows[None], real, n=n, start=begin)[0]

    @classmethod
    def fit_padded(cls, rows: Tensor, real: Tensor, *, n: int, start: Tensor | None = None) -> list[AffineHull]:
        """Build one machine from every block of a padded batch; blocks know nothing of each other.

        Parameters
        ----------
        rows : Tensor of shape (blocks, N, p)
            As :func:`checked_rows` gives them; padding comes last in a block and holds zeros.
        real : Tensor of shape (blocks, N), bool
            Which rows are not padding.
        n : int
        start : Tensor of shape (blocks,), optional
        """
        return HullBatch.fit(rows, real, n=n, start=start).hulls()

    def narrowed(self, n: int) -> AffineHull:
        """Build the machine of the same rows with fewer principal coordinates, from those already known.

        Raises
        ------
        InputError
            If n is below 1 or above ``report.n_effective``.
        """
        if not 1 <= n <= self.report.n_effective:
            raise InputError(f"n must lie between 1 and {self.report.n_effective}, got {n}.")
        real = torch.ones(1, self.rows.shape[0], dtype=torch.bool, device=self.rows.device)
        dimensions = torch.tensor([n], dtype=torch.float64, device=self.rows.device)
        whitening = Whitening(self.centre[None], self.directions[None, :, :n], dimensions)
        encoded = self.encoded[None, :, :n]
        kernel = encoded_kernel(encoded, dimensions, real).to(self.rows.dtype)
        start = torch.tensor([self.report.excess], dtype=torch.float64, device=self.rows.device)
        ridge = find_ridge(kernel, self.rows[None], real, start=start)
        return HullBatch(self.rows[None], real, whitening, encoded, ridge).hulls()[0]

    def image(self, points: Tensor) -> Tensor:
        """Return the images of points of shape (m, p), in the precision of the machine (eq. 33)."""
        return self.images(points).images

    def images(self, points: Tensor) -> HullImages:
        """Return the images of points of shape (m, p), and which of them the guard replaced.

        Raises
        ------
        InputError
            If points have another number of columns or hold entries that are not finite.

        Notes
        -----
        Differs from the paper, which claims in eq. 148 that the weights always have a positive sum. They do not; where
        the sum is at most 1e-3 of the absolute sum, the image is the row with the nearest encoding.
        """
        cancels = _Cancellation(self)
        parts = [self._images(part, cancels) for part in self._chunks(points)]
        return HullImages(torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts]))

    def distance(self, points: Tensor) -> Tensor:
        """Return the distances of points of shape (m, p) from their images, shape (m,) (Definition 2)."""
        cancels = _Cancellation(self)
        return torch.cat([_norms(self._images(part, cancels)[0].sub_(part)) for part in self._chunks(points)])

    def images_of_rows(self) -> Tensor:
        r"""Return the images of the machine's own rows, shape (N, p), without evaluating the kernel again.

        .. math:: A(Y) = (Y - \lambda V) / (1 - \lambda a), \quad V = BY, \; a = B1
        """
        return self.row_images().images

    def row_images(self) -> HullImages:
        """Return the images of the machine's own rows, and which of them the guard replaced."""
        totals = 1 - self.ridge * self.ones
        doubtful = torch.nonzero(totals <= GUARD * math.sqrt(self.rows.shape[0] / self.ridge)).flatten()
        guarded = torch.zeros_like(totals, dtype=torch.bool)
        if len(doubtful):
            exponents = self._exponents(self.encoded[doubtful])
            shifted = torch.exp(-(exponents - exponents.amin(dim=1, keepdim=True)))
            guarded[doubtful] = _Cancellation(self)(shifted)
        totals = torch.where(guarded, torch.ones_like(totals), totals)
        images = self.smoothed_rows() / totals[:, None]
        # The nearest row to a row is itself.
        return HullImages(torch.where(guarded[:, None], self.rows, images), guarded)

    def smoothed_rows(self) -> Tensor:
        """Return kernel ridge regression's fit to the rows, shape (N, p): their images times their weights' sums."""
        return self.rows - self.ridge * self.values

    def _images(self, points: Tensor, cancels: _Cancellation) -> tuple[Tensor, Tensor]:
        encoded = (points.double() - self.centre) @ self.directions
        exponents = self._exponents(encoded)
        least, nearest = exponents.min(dim=1)
        # The factor that is taken out is the same above and below the fraction; without it far points give 0 / 0.
        kernel = torch.sub(least[:, None], exponents, out=exponents).to(self.values.dtype).exp_()
        totals = kernel @ self.ones
        size = max(1, self.report.n_effective)
        taken_out = encoded.square().sum(dim=1) / (2 * size) + least
        guarded = torch.zeros_like(totals, dtype=torch.bool)
        doubtful = torch.nonzero(totals <= GUARD * self._most_absolute(kernel, taken_out)).flatten()
        if len(doubtful):
            guarded[doubtful] = cancels(kernel[doubtful])
        images = (kernel @ self.values).div_(torch.where(guarded, torch.ones_like(totals), totals)[:, None])
        images[guarded] = self.rows[nearest[guarded]]
        return images, guarded

    def _exponents(self, encoded: Tensor) -> Tensor:
        """Return squared distances to the encoded rows over 2n, less the point's own square, which cancels later."""
        size = max(1, self.report.n_effective)
        own = self.encoded.square().sum(dim=1) / (2 * size)
        return torch.addmm(own, encoded, self.encoded.T, alpha=-1 / size)

    def _most_absolute(self, kernel: Tensor, taken_out: Tensor) -> Tensor:
        r"""Bound the absolute sum of the weights :math:`h = B k` from above, without B.

        As :math:`k^\top B k \le 1` and :math:`\lambda \|h\|^2 \le k^\top B k`, the norm of h is at most
        :math:`\lambda^{-1/2}`; and it is at most :math:`\|k\| / \lambda`. Almost every point passes by these alone.
        """
        n_rows = self.rows.shape[0]
        near = math.sqrt(n_rows / self.ridge) * torch.exp(taken_out.clamp(min=0.0))
        far = math.sqrt(n_rows) * torch.linalg.vector_norm(kernel, dim=1, dtype=torch.float64) / self.ridge
        return torch.minimum(near, far).clamp(max=torch.finfo(kernel.dtype).max).to(kernel.dtype)

    def _chunks(self, points: Tensor) -> Iterator[Tensor]:
        if points.ndim != 2 or points.shape[1] != self.rows.shape[1]:
            raise InputError(
                f"Points of shape {tuple(points.shape)} do not fit an affine hull of {self.rows.shape[1]} columns."
            )
        for part in torch.split(points, max(1, _CHUNK_ENTRIES // self.rows.shape[0])):
            own = part.to(self.rows)
            if not bool(torch.isfinite(own).all()):
                raise InputError("Points hold entries that are not finite; replace missing values first.")
            yield own


@dataclass(frozen=True, slots=True, eq=False)
class HullBatch:
    """Machines of several blocks of rows, fitted together; padding comes last in a block and holds zeros.

    Attributes
    ----------
    rows : Tensor of shape (blocks, N, p)
        As :func:`checked_rows` gives them.
    real : Tensor of shape (blocks, N), bool
        Which rows are not padding.
    whitening : Whitening
    encoded : Tensor of shape (blocks, N, n), float64
    ridge : Ridge
    """

    rows: Tensor
    real: Tensor
    whitening: Whitening
    encoded: Tensor
    ridge: Ridge

    @classmethod
    def fit(
        cls, rows: Tensor, real: Tensor, *, n: int, start: Tensor | None = None, signs: Tensor | None = None
    ) -> Self:
        """Build one machine from every block; blocks know nothing of each other.

        Parameters
        ----------
        rows, real : Tensor
        n : int
        start : Tensor of shape (blocks,), optional
            Where the search for the fixed point starts.
        signs : Tensor, optional
            Of :func:`synth.models.ridge_search.sketch_signs`, where they lie on the device of the rows already.

        Raises
        ------
        InputError
            If n is below 1 or a kernel matrix cannot be factored.
        """
        if n < 1:
            raise InputError(f"The dimension n of an affine hull must be at least 1, got {n}.")
        whitening = whiten(rows, real, n=n)
        encoded = whitening.encode(rows).masked_fill(~real[..., None], 0.0)
        kernel = encoded_kernel(encoded, whitening.dimensions, real).to(rows.dtype)
        ridge = find_ridge(kernel, rows, real, start=start, gram=whitening.gram, signs=signs)
        return cls(rows, real, whitening, encoded, ridge)

    def smoothed_rows(self) -> Tensor:
        """Return kernel ridge regression's fit to the rows of every block, shape (blocks, N, p); padding stays zero."""
        return self.rows - self.ridge.used.to(self.rows.dtype)[:, None, None] * self.ridge.values

    def row_images(self) -> tuple[Tensor, Tensor]:
        """Return the images of every block's own rows, and how many of a block's rows the guard replaced.

        Returns
        -------
        images : Tensor of shape (blocks, N, p)
        guarded : Tensor of shape (blocks,), int64
        """
        used = self.ridge.used.to(self.rows.dtype)[:, None]
        totals = 1 - used * self.ridge.ones
        images = self.smoothed_rows() / totals[..., None]
        counts = self.real.sum(dim=1)
        bound = (GUARD * (counts / self.ridge.used).sqrt()).to(totals.dtype)
        guarded = torch.zeros_like(counts)
        # Rarely is a row in doubt; then the machine of every block looks at its own.
        if bool(((totals <= bound[:, None]) & self.real).any()):
            for block, hull in enumerate(self.hulls()):
                found = hull.row_images()
                images[block, : len(found.images)] = found.images
                guarded[block] = found.guarded.sum()
        return images, guarded

    def reports(self) -> list[HullReport]:
        """Return what was found for every block; one download."""
        ridge = self.ridge
        found = (self.real.sum(dim=1).double(), self.whitening.dimensions)
        numbers = torch.stack([*found, ridge.value, ridge.used, ridge.excess, ridge.residual])
        return [
            HullReport(
                n_rows=int(n_rows),
                n_columns=self.rows.shape[2],
                n_effective=int(width),
                regulariser=value,
                excess=excess,
                residual=residual,
                condition=(n_rows + used) / used,
                double_precision=self.rows.dtype == torch.float64,
                raised=used > value,
                newton_steps=ridge.steps,
            )
            for n_rows, width, value, used, excess, residual in numbers.T.tolist()
        ]

    def hulls(self) -> list[AffineHull]:
        """Return the machine of every block by itself."""
        return [
            AffineHull(
                rows=self.rows[block, : report.n_rows],
                centre=self.whitening.centre[block],
                # One layout in memory, whatever was solved how: products of the same numbers then have the same digits.
                directions=self.whitening.directions[block, :, : report.n_effective].contiguous(),
                encoded=self.encoded[block, : report.n_rows, : report.n_effective].contiguous(),
                values=self.ridge.values[block, : report.n_rows].contiguous(),
                ones=self.ridge.ones[block, : report.n_rows].contiguous(),
                ridge=used,
                report=report,
            )
            for block, (report, used) in enumerate(zip(self.reports(), self.ridge.used.tolist(), strict=True))
        ]


class _Cancellation:
    """Says where weights nearly cancel. K is built and factored once more, if a point ever comes in doubt."""

    def __init__(self, hull: AffineHull) -> None:
        self._hull = hull
        self._factor: Tensor | None = None

    def __call__(self, kernel: Tensor) -> Tensor:
        """Return for every row of a kernel matrix whether its weights nearly cancel."""
        if self._factor is None:
            hull, device = self._hull, kernel.device
            real = torch.ones(1, hull.rows.shape[0], dtype=torch.bool, device=device)
            dimensions = torch.tensor([hull.report.n_effective], dtype=torch.float64, device=device)
            ridge = torch.tensor([hull.ridge], dtype=torch.float64, device=device)
            self._factor = factor_of(encoded_kernel(hull.encoded[None], dimensions, real), ridge)[0]
        weights = torch.cholesky_solve(kernel.double().T, self._factor)
        return weights.sum(dim=0) <= GUARD * weights.abs().sum(dim=0)


def checked_rows(rows: Tensor) -> Tensor:
    """Return rows in the precision their machine needs, or say why no machine can be built from them."""
    return checked_blocks([rows])[0]


def checked_blocks(blocks: Sequence[Tensor]) -> list[Tensor]:
    """Return blocks of rows, at least one, as :func:`checked_rows` does; a card is waited for once."""
    for rows in blocks:
        if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
            raise InputError(f"An affine hull needs at least one row and one column, got shape {tuple(rows.shape)}.")
        if rows.shape[0] > _MAXIMUM_ROWS:
            raise InputError(
                f"One affine hull takes at most {_MAXIMUM_ROWS} rows, got {rows.shape[0]}: use a wide one, made of "
                "blocks."
            )
    own = [rows if rows.dtype in (torch.float32, torch.float64) else rows.double() for rows in blocks]
    if not bool(torch.stack([torch.isfinite(rows).all() for rows in own]).all()):
        raise InputError("Rows hold entries that are not finite; replace missing values first.")
    return [rows.double() if rows.dtype == torch.float32 and not _single_will_do(rows) else rows for rows in own]


def _norms(rows: Tensor) -> Tensor:
    """Return the lengths of rows, by squares in float64: those of far points in float32 overflow."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return lengths.to(rows.dtype)


def _single_will_do(rows: Tensor) -> bool:
    """Say whether float32 matrices keep enough digits: lambda is at least twice the mean square of the entries."""
    square = float(torch.linalg.vector_norm(rows, dtype=torch.float64)) ** 2 / rows.numel()
    return rows.shape[0] <= 2 * square * _SINGLE_PRECISION_CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Whitened principal coordinates of a batch of blocks of rows.

    Attributes
    ----------
    centre : Tensor of shape (blocks, p), float64
        Means of the rows.
    directions : Tensor of shape (blocks, p, n), float64
        ``(row - centre) @ directions`` has mean 0 and covariance I. Columns that a block has no variance for are 0.
    dimensions : Tensor of shape (blocks,), float64
        For each block, how many columns of ``directions`` are not 0.
    gram : Tensor of shape (blocks, N, N), float64, optional
        Inner products of the rows, not centred, where they were needed anyway.
    """

    centre: Tensor
    directions: Tensor
    dimensions: Tensor
    gram: Tensor | None = None

    def encode(self, rows: Tensor) -> Tensor:
        """Return whitened coordinates, shape (blocks, N, n), of rows of shape (blocks, N, p)."""
        return (rows.double() - self.centre[:, None]) @ self.directions


def whiten(rows: Tensor, real: Tensor, *, n: int) -> Whitening:
    """Find the whitened principal coordinates of every block.

    Parameters
    ----------
    rows : Tensor of shape (blocks, N, p), floating point
        Rows that are padding hold zeros.
    real : Tensor of shape (blocks, N), bool
        Which rows are not padding; at least one in every block.
    n : int
        Number of coordinates wanted, at least 1; a block gets at most its number of rows less one, and no more than
        the rank of its rows.

    Notes
    -----
    Always in float64: the eigenvalues of a covariance in float32 do not converge once columns are constant. Where
    columns outnumber rows the Gram matrix of the centred rows gives the same coordinates.
    """
    counts = real.sum(dim=1)
    exact = rows.double()
    centre = exact.sum(dim=1) / counts[:, None]
    # The mean of a column that does not vary may differ from it by rounding, which is not to be taken for variance.
    first = exact[:, :1]
    constant = ((exact == first) | ~real[..., None]).all(dim=1)
    centre = torch.where(constant, first[:, 0], centre)
    centred = exact - centre[:, None]
    del exact
    if _has_padding(real):
        centred = centred.masked_fill_(~real[..., None], 0.0)
    n = min(n, rows.shape[2], rows.shape[1])
    freedom = (counts - 1).clamp(min=1).double()
    if rows.shape[2] <= rows.shape[1]:
        values, vectors = _leading(_inner_products(centred, rows=False), n)
        gram = None
    else:
        gram = _inner_products(centred, rows=True)
        values, left = _leading(gram, n)
        # From here on of the rows themselves; by way of the centred ones, as large means would drown small variances.
        along = (centred @ centre[..., None]) * real[..., None]
        gram += along + along.mT + centre.square().sum(dim=1)[:, None, None]
        vectors = centred.mT @ left / values.clamp(min=torch.finfo(torch.float64).tiny).sqrt()[:, None]
    variances = values / freedom[:, None]
    place = torch.arange(n, device=rows.device)
    kept = (variances > _LEAST_PART * variances[:, :1]) & (variances > 0) & (place < (counts - 1)[:, None])
    scales = torch.where(kept, variances, 1.0).rsqrt()
    directions = torch.where(kept[:, None], vectors * scales[:, None], 0.0)
    return Whitening(centre, directions, kept.sum(dim=1).double(), gram)


def encoded_kernel(encoded: Tensor, dimensions: Tensor, real: Tensor) -> Tensor:
    """Return the kernel matrices of whitened coordinates (Kumar 2024, eq. 35 and 39).

    Parameters
    ----------
    encoded : Tensor of shape (blocks, N, n), float64
    dimensions : Tensor of shape (blocks,), float64
        Coordinates in use, n of eq. 35; with none, all entries are 1.
    real : Tensor of shape (blocks, N), bool
        Padding gets 1 on the diagonal and 0 elsewhere.

    Returns
    -------
    Tensor of shape (blocks, N, N), float64, entries in [0, 1]
    """
    squares = encoded.square().sum(dim=2)
    distances = squares[:, :, None] + squares[:, None, :] - 2 * encoded @ encoded.mT
    kernel = torch.exp(-distances.clamp(min=0.0) / (2 * dimensions.clamp(min=1.0))[:, None, None])
    if _has_padding(real):
        kernel = kernel * (real[:, :, None] & real[:, None, :])
    kernel.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    return kernel


def _has_padding(real: Tensor) -> bool:
    """Whether padding has to be put out; not looked for on a card, where waiting for the answer takes longer."""
    return real.device.type != "cpu" or not bool(real.all())


def _inner_products(matrices: Tensor, *, rows: bool) -> Tensor:
    """Return the inner products of the rows of every matrix with each other, or of its columns."""
    if matrices.device.type != "cpu":
        return matrices @ matrices.mT if rows else matrices.mT @ matrices
    dsyrk = get_blas_funcs("syrk", dtype=np.float64)
    # BLAS computes one triangle in half the time; torch only offers the whole.
    lower = np.stack([dsyrk(1.0, one.numpy().T, trans=rows, lower=True) for one in matrices])
    triangles = torch.from_numpy(lower)
    return triangles + triangles.tril(-1).mT


def _leading(symmetric: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the ``n`` largest eigenvalues, descending and not negative, and their eigenvectors, of every matrix."""
    size = symmetric.shape[-1]
    if symmetric.device.type == "cpu" and n < size // 2:
        # LAPACK finds a few eigenpairs in a third of the time of all; torch only offers all.
        pairs = [scipy.linalg.eigh(one.numpy(), subset_by_index=[size - n, size - 1]) for one in symmetric]
        values = torch.from_numpy(np.stack([pair[0] for pair in pairs]))
        vectors = torch.from_numpy(np.stack([pair[1] for pair in pairs]))
    else:
        values, vectors = torch.linalg.eigh(symmetric)
    return values[:, -n:].flip(-1).clamp(min=0.0), vectors[:, :, -n:].flip(-1)
