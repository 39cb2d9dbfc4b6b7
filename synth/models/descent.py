"""The minimum of a smooth convex function: L-BFGS (Nocedal 2006, algorithm 7.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["minimum"]

_MEMORY = 10
"""Steps that are remembered."""

_ENOUGH = 1e-4
"""Part of the slope by which a step has to bring the function down."""


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """A step taken: how far it ``moved``, how the gradient ``turned``, and what ``divided`` makes of that."""

    moved: Tensor
    turned: Tensor
    divided: Tensor
    curvature: float


def minimum(
    value: Callable[[Tensor], tuple[float, Tensor]],
    divided: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    steps: int,
    tolerance: float,
) -> Tensor:
    """Go downhill from a start.

    Parameters
    ----------
    value : callable
        Returns the function and its gradient, a new tensor.
    divided : callable
        Returns the gradient divided by roughly the second derivative; linear, symmetric and positive definite.
    start : Tensor of shape (n,)
    steps : int
        Most steps.
    tolerance : float
        A step that promises to bring the function down by less than half of this is not taken.

    Notes
    -----
    torch's own optimiser imports a compiler, for longer than most fits take, and asks for the strong Wolfe conditions.
    Of a convex function every step downhill shows a curvature above 0, so that enough of a descent is enough here.
    """
    place = start
    height, gradient = value(place)
    newton = divided(gradient)
    memory: deque[_Step] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        direction = _direction(gradient, newton, memory)
        slope = float(gradient @ direction)
        if -slope <= tolerance:
            break
        step = 1.0
        while True:
            reached = torch.add(place, direction, alpha=step)
            height_there, gradient_there = value(reached)
            rise = height_there - height
            # Heights are known up to rounding.
            if rise <= _ENOUGH * step * slope + 1e-14 * abs(height):
                break
            if step < 1e-9:
                return place
            # The lowest point of the parabola through both heights and the slope.
            step *= max(0.1, min(0.5, -0.5 * step * slope / (rise - step * slope)))
        newton_there = divided(gradient_there)
        moved, turned = reached - place, gradient_there - gradient
        curvature = float(moved @ turned)
        if curvature > 0:
            memory.append(_Step(moved, turned, newton_there - newton, curvature))
        place, height, gradient, newton = reached, height_there, gradient_there, newton_there
    return place


def _direction(gradient: Tensor, newton: Tensor, memory: deque[_Step]) -> Tensor:
    """Return the step that the remembered curvature asks for (Nocedal 2006, algorithm 7.4)."""
    if not memory:
        return -newton
    left, direction, parts = gradient.clone(), newton.clone(), []
    for one in reversed(memory):
        part = float(one.moved @ left) / one.curvature
        left.sub_(one.turned, alpha=part)
        # ``divided`` is linear.
        direction.sub_(one.divided, alpha=part)
        parts.append(part)
    direction *= memory[-1].curvature / float(memory[-1].turned @ memory[-1].divided)
    for one, part in zip(memory, reversed(parts), strict=True):
        direction.add_(one.moved, alpha=part - float(one.turned @ direction) / one.curvature)
    return direction.neg_()
