"""How well points match classes, from their distances to the classes' models (Kumar 2024, Definition 8)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["matching_scores"]


def matching_scores(distances: Tensor) -> Tensor:
    r"""Return class-matching scores of distances (Kumar 2024, Definition 8).

    .. math:: m_c = \exp\bigl(-\Gamma_c^2 / \textstyle\sum_{c'} \Gamma_{c'}^2\bigr)

    Parameters
    ----------
    distances : Tensor of shape (m, C), not negative; infinite where a class has no model

    Returns
    -------
    Tensor of shape (m, C)
        Between 1/e and 1, with product 1/e over the classes: larger is nearer, but not a probability. A point at
        distance 0 from every class is shared equally. Infinite distances score 0 and count for nothing else.
    """
    finite = torch.isfinite(distances)
    # Relative to the largest, so that squares neither overflow nor vanish.
    known = torch.where(finite, distances, 0.0)
    largest = known.amax(dim=1, keepdim=True)
    squares = (known / torch.where(largest > 0, largest, 1.0)).square()
    squares = torch.where(largest > 0, squares, finite.to(squares.dtype))
    shares = squares / squares.sum(dim=1, keepdim=True).clamp(min=1.0)
    return torch.where(finite, torch.exp(-shares), 0.0)
