r"""Kernel affine hull machines (Kumar 2024, Definitions 1 and 2).

A machine is built from rows :math:`y_1, \dots, y_N` and maps any point onto their affine hull,

.. math:: A(y) = \frac{k(y)^\top B\, Y}{k(y)^\top B\, 1}, \qquad B = (K + \lambda^* I)^{-1},

where k is a Gaussian of whitened principal coordinates (``whitening``) and the regularisation :math:`\lambda^*` is
found from the rows (``ridge_search``). The distance of a point from its image measures how unlike the rows it is.

The machine is neither scale- nor shift-equivariant: lambda is compared with the mean square of the raw entries. Scale
columns to [0, 1] by public bounds first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from synth.errors import InputError
from synth.models.ridge_search import Ridge, factor_of, find_ridge
from synth.models.whitening import Whitening, encoded_kernel, whiten

__all__ = [
    "GUARD",
    "AffineHull",
    "HullBatch",
    "HullReport",
    "checked_blocks",
    "checked_rows",
]

# If the weights of an image sum to at most this fraction of their absolute sum, the nearest row replaces it.
GUARD = 1e-3

# Float32 keeps four digits of a solution as long as the number of rows over lambda is below this.
_SINGLE_PRECISION_CONDITION = 1e5

_MAXIMUM_ROWS = 20_000

_CHUNK_ENTRIES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class HullReport:
    """The report of a fit.

    Attributes
    ----------
    n_rows, n_columns : int
    n_effective : int
        Principal coordinates in use: n, or fewer if the rows have lower rank.
    regulariser : float
        Lambda of eq. 40, in squared units of the rows; 0 if all rows are 0.
    excess : float
        The fixed point of eq. 41.
    residual : float
        Error of the fixed point relative to lambda.
    condition : float
        Bound on the condition number of the matrix that was factored.
    double_precision : bool
        Whether matrices are float64: by the type of the rows, or because N / lambda is above 1e5.
    raised : bool
        Whether lambda was below the rounding of K and was raised to it.
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
class AffineHull:
    """A fitted kernel affine hull machine; make one with :meth:`fit`.

    Attributes
    ----------
    rows : Tensor of shape (N, p)
        The rows that it is built from.
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
        The number added to the diagonal of K.
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
            Entries should lie in [0, 1] by public bounds. Float32 rows give float32 matrices if conditioning allows it.
        n : int
            Subspace dimension; reduced to N - 1, p and the rank of the rows.
        start : float, optional
            Start of the search for the fixed point, such as the ``excess`` of a similar fit.

        Raises
        ------
        InputError
            If there are no rows or columns, too many rows, entries that are not finite, or n is below 1.
        """
        rows = checked_rows(rows)
        real = torch.ones(1, rows.shape[0], dtype=torch.bool, device=rows.device)
        begin = None if start is None else torch.tensor([start], dtype=torch.float64, device=rows.device)
        return HullBatch.fit(rows[None], real, n=n, start=begin).hulls()[0]

    def image(self, points: Tensor) -> Tensor:
        """Return the images of points of shape (m, p), in the precision of the machine (eq. 33)."""
        return self.images(points)[0]

    def images(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images of points of shape (m, p), and which of them the guard replaced by the nearest row, (m,).

        Raises
        ------
        InputError
            If points have another number of columns, or entries that are not finite.

        Notes
        -----
        Differs from the paper, which claims in eq. 148 that the weights always have a positive sum. They do not; if the
        sum is at most 1e-3 of the absolute sum, the image is the row with the nearest encoding.
        """
        cancels = _Cancellation(self)
        parts = [self._images(part, cancels) for part in self._chunks(points)]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def distance(self, points: Tensor) -> Tensor:
        """Return the distances of points of shape (m, p) from their images, shape (m,) (Definition 2)."""
        cancels = _Cancellation(self)
        return torch.cat([_norms(self._images(part, cancels)[0].sub_(part)) for part in self._chunks(points)])

    def images_of_rows(self) -> Tensor:
        r"""Return the images of the machine's own rows, shape (N, p), without evaluating the kernel again.

        .. math:: A(Y) = (Y - \lambda V) / (1 - \lambda a), \quad V = BY, \; a = B1
        """
        return self.row_images()[0]

    def row_images(self) -> tuple[Tensor, Tensor]:
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
        return torch.where(guarded[:, None], self.rows, images), guarded

    def smoothed_rows(self) -> Tensor:
        """Return kernel ridge regression's fit to the rows, shape (N, p): their images times their weights' sums."""
        return self.rows - self.ridge * self.values

    def _images(self, points: Tensor, cancels: _Cancellation) -> tuple[Tensor, Tensor]:
        encoded = (points.double() - self.centre) @ self.directions
        exponents = self._exponents(encoded)
        least, nearest = exponents.min(dim=1)
        # The factor that is taken out is the same in numerator and denominator; without it far points give 0 / 0.
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
        :math:`\lambda^{-1/2}`; it is also at most :math:`\|k\| / \lambda`. These bounds settle almost every point.
        """
        n_rows = self.rows.shape[0]
        near = math.sqrt(n_rows / self.ridge) * torch.exp(taken_out.clamp(min=0.0))
        far = math.sqrt(n_rows) * torch.linalg.vector_norm(kernel, dim=1, dtype=torch.float64) / self.ridge
        return torch.minimum(near, far).clamp(max=torch.finfo(kernel.dtype).max).to(kernel.dtype)

    def _chunks(self, points: Tensor) -> Iterator[Tensor]:
        if points.ndim != 2 or points.shape[1] != self.rows.shape[1]:
            raise InputError(
                f"Points of shape {tuple(points.shape)} do not fit an affine hull with {self.rows.shape[1]} columns."
            )
        for part in torch.split(points, max(1, _CHUNK_ENTRIES // self.rows.shape[0])):
            own = part.to(self.rows)
            if not bool(torch.isfinite(own).all()):
                raise InputError("Points contain entries that are not finite; replace missing values first.")
            yield own


@dataclass(frozen=True, slots=True, eq=False)
class HullBatch:
    """Machines of several blocks of rows, fitted together; padding is at the end of a block and contains zeros.

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
        """Build one machine from every block, independently of the other blocks.

        Parameters
        ----------
        rows, real : Tensor
        n : int
        start : Tensor of shape (blocks,), optional
            Starts of the search for the fixed point.
        signs : Tensor, optional
            Of :func:`synth.models.ridge_search.sketch_signs`, if they are already on the device of the rows.

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
        # Rows are rarely in doubt; if one is, the machine of every block checks its own rows.
        if bool(((totals <= bound[:, None]) & self.real).any()):
            for block, hull in enumerate(self.hulls()):
                found, replaced = hull.row_images()
                images[block, : len(found)] = found
                guarded[block] = replaced.sum()
        return images, guarded

    def reports(self) -> list[HullReport]:
        """Return the report of every block, with one download."""
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
        """Return every block's machine."""
        return [
            AffineHull(
                rows=self.rows[block, : report.n_rows],
                centre=self.whitening.centre[block],
                # One layout in memory, so that products of the same numbers have the same digits.
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
    """Find where weights nearly cancel. K is only built and factored again if a point is in doubt."""

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
    """Return rows in the precision that their machine needs, or refuse rows that no machine can be built from."""
    return checked_blocks([rows])[0]


def checked_blocks(blocks: Sequence[Tensor]) -> list[Tensor]:
    """Return blocks of rows, at least one, as :func:`checked_rows` does, with a single wait for the device."""
    for rows in blocks:
        if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
            raise InputError(f"An affine hull needs at least one row and one column, got shape {tuple(rows.shape)}.")
        if rows.shape[0] > _MAXIMUM_ROWS:
            raise InputError(
                f"One affine hull takes at most {_MAXIMUM_ROWS} rows, got {rows.shape[0]}: use a wide one, built from "
                "blocks."
            )
    own = [rows if rows.dtype in (torch.float32, torch.float64) else rows.double() for rows in blocks]
    if not bool(torch.stack([torch.isfinite(rows).all() for rows in own]).all()):
        raise InputError("Rows contain entries that are not finite; replace missing values first.")
    return [rows.double() if rows.dtype == torch.float32 and not _single_will_do(rows) else rows for rows in own]


def _norms(rows: Tensor) -> Tensor:
    """Return the lengths of rows, from squares in float64: for far points squares in float32 overflow."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return lengths.to(rows.dtype)


def _single_will_do(rows: Tensor) -> bool:
    """Return whether float32 matrices keep enough digits: lambda is at least twice the mean square of the entries."""
    square = float(torch.linalg.vector_norm(rows, dtype=torch.float64)) ** 2 / rows.numel()
    return rows.shape[0] <= 2 * square * _SINGLE_PRECISION_CONDITION
