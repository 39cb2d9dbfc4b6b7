"""L-BFGS for convex functions whose curvature is roughly known (Nocedal 2006, chapter 7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["inner", "minimise"]

Vector = NDArray[np.float64]

TOLERANCE = 1e-2
"""A fit ends when a step promises to lower the objective, in nats over all rows, by less than half of this."""

_MEMORY = 10
"""Number of steps that are remembered."""

_ENOUGH = 1e-4
"""Share of the slope by which a step has to lower the function."""


def minimise(
    value: Callable[[Vector], tuple[float, Vector]],
    divided: Callable[[Vector], Vector],
    start: Vector,
    *,
    steps: int,
) -> Vector:
    """Minimise a function from a start, until a step promises too little (``TOLERANCE``).

    Parameters
    ----------
    value : callable
        Returns the function and its gradient, a new array.
    divided : callable
        Returns the gradient divided by an approximate second derivative; linear, symmetric, positive definite.
    start : array of shape (n,), float64
    steps : int
        Maximum number of steps.

    Notes
    -----
    Libraries require the strong Wolfe conditions, and torch takes longer to start than most fits. For a convex function
    every step downhill has a positive curvature, so a sufficient decrease is enough here.
    """
    place = start
    height, gradient = value(place)
    newton = divided(gradient)
    memory: deque[_Step] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        direction = _direction(gradient, newton, memory)
        slope = inner(gradient, direction)
        if -slope <= TOLERANCE:
            break
        step = 1.0
        while True:
            reached = place + step * direction
            height_there, gradient_there = value(reached)
            rise = height_there - height
            # Function values are known up to rounding.
            if rise <= _ENOUGH * step * slope + 1e-14 * abs(height):
                break
            if step < 1e-9:
                return place
            # The minimum of the parabola through both values and the slope.
            step *= max(0.1, min(0.5, -0.5 * step * slope / (rise - step * slope)))
        newton_there = divided(gradient_there)
        moved, turned = reached - place, gradient_there - gradient
        curvature = inner(moved, turned)
        if curvature > 0:
            memory.append(_Step(moved, turned, newton_there - newton, curvature))
        place, height, gradient, newton = reached, height_there, gradient_there, newton_there
    return place


def inner(left: Vector, right: Vector) -> float:
    """Return the inner product, summed in a fixed order, however many threads a matrix library may use."""
    return float(np.einsum("i,i->", left, right))


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """A past step: how far it ``moved``, how the gradient ``turned``, and ``divided`` of that change."""

    moved: Vector
    turned: Vector
    divided: Vector
    curvature: float


def _direction(gradient: Vector, newton: Vector, memory: deque[_Step]) -> Vector:
    """Return the step by the remembered curvature (Nocedal 2006, algorithm 7.4)."""
    if not memory:
        return -newton
    left, direction, parts = gradient.copy(), newton.copy(), []
    for one in reversed(memory):
        part = inner(one.moved, left) / one.curvature
        left -= part * one.turned
        # ``divided`` is linear.
        direction -= part * one.divided
        parts.append(part)
    direction *= memory[-1].curvature / inner(memory[-1].turned, memory[-1].divided)
    for one, part in zip(memory, reversed(parts), strict=True):
        direction += (part - inner(one.turned, direction) / one.curvature) * one.moved
    return np.negative(direction, out=direction)
