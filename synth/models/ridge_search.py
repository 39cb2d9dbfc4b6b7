r"""The regularisation of a kernel affine hull machine, found from its rows (Kumar 2024, Theorem 1 and eq. 40-44).

With K the kernel matrix, :math:`B(\lambda) = (K + \lambda I)^{-1}`, ms the mean square of the entries of Y and
:math:`\tau = 2\,\mathrm{ms}`, the smoothing error of kernel ridge regression is

.. math:: R(e) = \tfrac{1}{pN}\,\|\lambda B(\lambda) Y\|_F^2, \qquad \lambda = e + \tau,

and :math:`\lambda^* = \hat e + \tau` where :math:`\hat e = R(\hat e)`. The fixed point is found by Newton steps with

.. math:: R'(e) = 2R/\lambda - \tfrac{2\lambda^2}{pN}\,\mathrm{tr}(Y^\top B^3 Y) \in (0, 1).

Each step costs one Cholesky factor and triangular solves. The eigenvalues of K are never computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from synth.errors import InputError

__all__ = ["Ridge", "factor_of", "find_ridge", "sketch_signs"]

_SKETCH = 64
_STEPS = 60
# A Newton step this small, relative to lambda, leaves an error of about its square.
_LAST_STEP = {torch.float64: 1e-6, torch.float32: 1e-3}


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """A batch of solved ridge problems.

    Attributes
    ----------
    excess : Tensor of shape (blocks,), float64
        The fixed point, e in the formulas; between 0 and the mean square of the rows.
    value : Tensor of shape (blocks,), float64
        Lambda: ``excess`` plus twice the mean square; 0 if all rows are 0.
    used : Tensor of shape (blocks,), float64
        The number added to the diagonal: ``value``, or more if that is below the rounding of K.
    values : Tensor of shape (blocks, N, p)
        ``B @ rows``.
    ones : Tensor of shape (blocks, N)
        ``B @ 1``.
    residual : Tensor of shape (blocks,), float64
        Error of the fixed point, relative to lambda.
    steps : int
        Newton steps on the whole rows.
    """

    excess: Tensor
    value: Tensor
    used: Tensor
    values: Tensor
    ones: Tensor
    residual: Tensor
    steps: int


def factor_of(kernel: Tensor, ridge: Tensor) -> Tensor:
    """Return the Cholesky factor of ``kernel + ridge I`` for every block.

    Raises
    ------
    InputError
        If it is not positive definite.
    """
    factor, failed = _factored(kernel, ridge)
    _require_factored(bool(failed))
    return factor


def _factored(kernel: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors, and whether any factorisation failed, without waiting for the device."""
    shifted = kernel.clone()
    shifted.diagonal(dim1=-2, dim2=-1).add_(ridge.to(kernel.dtype)[:, None])
    factor, failed = torch.linalg.cholesky_ex(shifted)
    return factor, (failed != 0).any()


def _require_factored(failed: bool) -> None:
    if failed:
        raise InputError(
            "The kernel matrix of these rows cannot be factored: scale the columns to [0, 1], by public bounds."
        )


def find_ridge(
    kernel: Tensor,
    rows: Tensor,
    real: Tensor,
    *,
    start: Tensor | None = None,
    gram: Tensor | None = None,
    signs: Tensor | None = None,
) -> Ridge:
    r"""Find lambda of every block and solve with it.

    Parameters
    ----------
    kernel : Tensor of shape (blocks, N, N)
        Its dtype is that of all matrices; scalars are float64. Padding has 1 on the diagonal and 0 elsewhere.
    rows : Tensor of shape (blocks, N, p), dtype of ``kernel``
        Padding contains zeros.
    real : Tensor of shape (blocks, N), bool
    start : Tensor of shape (blocks,), optional
        Start of the search for the fixed point. By default a sketch of the columns gives it.
    gram : Tensor of shape (blocks, N, N), optional
        Inner products of the rows, if they are already known; entries of padding do not matter.
    signs : Tensor, optional
        Of :func:`sketch_signs`, if they are already on the device of the rows.

    Returns
    -------
    Ridge
        In float64 lambda is exact to 1e-12 of itself; in float32 to about 1e-6.

    Notes
    -----
    Differs from the paper, which iterates :math:`e \leftarrow R(e)`, and from its published code, which stops at an
    absolute change of 0.01 or 0.001: too coarse for entries in [0, 1]. With a lambda below the rounding of K (rows
    within about 1e-6 of zero) K itself would have to be factored; lambda is raised to that rounding, see ``used``.
    """
    n_rows = real.sum(dim=1)
    lowest = 8 * kernel.shape[-1] * torch.finfo(kernel.dtype).eps
    # Padding contains zeros and is not counted.
    entries = n_rows.double() * rows.shape[2]
    level = _squares(rows) / entries

    def ridge_of(excess: Tensor) -> Tensor:
        return (excess + 2 * level).clamp(min=lowest)

    def newton(error: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], excess: Tensor) -> tuple[Tensor, int]:
        for taken in range(1, _STEPS + 1):
            value, slope, failed = error(ridge_of(excess))
            moved = (excess + (value - excess) / (1 - slope.clamp(0.0, 0.99))).clamp(min=0.0)
            moved = torch.minimum(moved, level)
            small = (moved - excess).abs() <= _LAST_STEP[kernel.dtype] * ridge_of(excess)
            excess = moved
            # Both in one number, so that there is a single wait for the device in each step.
            outcome = int(small.all() + 2 * failed)
            _require_factored(outcome > 1)
            if outcome:
                return excess, taken
        return excess, _STEPS

    if start is not None:
        excess = start.double()
    else:
        excess = level / 2
        if rows.shape[2] > 2 * _SKETCH:
            excess, _ = newton(_error_by_rows(kernel, _sketch(rows, level, entries, signs), entries), excess)
    if rows.shape[2] > 2 * rows.shape[1]:
        inner = rows @ rows.mT if gram is None else gram.to(rows.dtype) * (real[:, :, None] & real[:, None, :])
        excess, steps = newton(_error_by_gram(kernel, inner, entries), excess)
        del inner
    else:
        excess, steps = newton(_error_by_rows(kernel, rows, entries), excess)
    used = ridge_of(excess)
    factor = factor_of(kernel, used)
    # A product with the inverse is faster than two triangular solves if there are many columns.
    wide = rows.shape[2] > rows.shape[1]
    values = torch.cholesky_inverse(factor) @ rows if wide else torch.cholesky_solve(rows, factor)
    ones = torch.cholesky_solve(real[..., None].to(rows.dtype), factor)[..., 0]
    reached = used.square() * _squares(values) / entries
    return Ridge(excess, excess + 2 * level, used, values, ones, (reached - excess).abs() / used, steps)


def _error_by_rows(kernel: Tensor, rows: Tensor, entries: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Return R, its derivative and whether factoring failed, as functions of lambda, by solving for the rows."""

    def error(ridge: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        factor, failed = _factored(kernel, ridge)
        values = torch.cholesky_solve(rows, factor)
        value = ridge.square() * _squares(values) / entries
        cubes = _squares(torch.linalg.solve_triangular(factor, values, upper=False))
        return value, 2 * value / ridge - 2 * ridge.square() * cubes / entries, failed

    return error


def _error_by_gram(kernel: Tensor, gram: Tensor, entries: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Return the same functions by the rows' Gram matrix, whose cost does not depend on the number of columns."""

    def error(ridge: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        factor, failed = _factored(kernel, ridge)
        inverse = torch.cholesky_inverse(factor)
        product = inverse @ gram
        value = ridge.square() * (product * inverse).sum(dim=(1, 2), dtype=torch.float64) / entries
        cubes = (product * (inverse @ inverse)).sum(dim=(1, 2), dtype=torch.float64)
        return value, 2 * value / ridge - 2 * ridge.square() * cubes / entries, failed

    return error


def _squares(matrices: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(matrices, dim=(1, 2), dtype=torch.float64)
    return norms.square()


def sketch_signs(columns: int) -> Tensor:
    """Return public random signs, shape (columns, 64), float64, on the processor: the same for every device."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 2, (columns, _SKETCH), generator=generator).double() * 2 - 1


def _sketch(rows: Tensor, level: Tensor, entries: Tensor, signs: Tensor | None) -> Tensor:
    """Return a few random combinations of the columns, scaled to the rows' mean square: a start, not a result."""
    sketch = rows @ (sketch_signs(rows.shape[2]) if signs is None else signs).to(rows)
    squares = _squares(sketch).clamp(min=torch.finfo(torch.float64).tiny)
    return sketch * (level * entries / squares).sqrt().to(rows.dtype)[:, None, None]
