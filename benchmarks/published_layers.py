r"""Conditionally deep kernel affine hull machines as published (Kumar 2024, Definitions 3 and 4).

A deep machine passes a point through machines of the same rows with fewer and fewer principal coordinates,
:math:`x_0 = y`, :math:`x_l = A_{n-l+1}(x_{l-1})`, and answers with the :math:`x_l` nearest to y. A deeper layer starts
from an image and moves on, mostly away from the point: on handwritten digits the first layer is the nearest for every
point, so deeper layers cost their time and change nothing. That is why the product has the first layer alone. Layers
beyond the first are built when they are first used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from synth.errors import InputError
from synth.models.affine_hull import AffineHull, HullBatch, HullReport
from synth.models.ridge_search import find_ridge
from synth.models.whitening import Whitening, encoded_kernel

__all__ = ["DeepHull", "narrowed"]


@dataclass(slots=True, eq=False)
class DeepHull:
    """A conditionally deep machine (Definition 3).

    Attributes
    ----------
    layers : list of AffineHull
        Those built so far, at least the first; each has one principal coordinate less than the one before.
    depth : int
        L: how many layers there are; at most the number of principal coordinates of the first.
    """

    layers: list[AffineHull]
    depth: int

    @classmethod
    def of(cls, first: AffineHull, *, depth: int = 1) -> Self:
        """Build a deep machine on a first layer; the depth is reduced to what its rank allows.

        Raises
        ------
        InputError
            If ``depth`` is below 1.
        """
        if depth < 1:
            raise InputError(f"The depth of an affine hull must be at least 1, got {depth}.")
        return cls([first], max(1, min(depth, first.report.n_effective)))

    @property
    def report(self) -> HullReport:
        """The report of the first layer."""
        return self.layers[0].report

    def layer(self, number: int) -> AffineHull:
        """Return layer ``number``, counted from 0; built now if it was not used before."""
        while len(self.layers) <= number:
            last = self.layers[-1]
            self.layers.append(narrowed(last, last.report.n_effective - 1))
        return self.layers[number]

    def image(self, points: Tensor) -> Tensor:
        """Return the images of points of shape (m, p) (eq. 50)."""
        return self.image_and_distance(points)[0]

    def distance(self, points: Tensor) -> Tensor:
        """Return the distances of points from their images, shape (m,) (Definition 4)."""
        if self.depth == 1:
            return self.layers[0].distance(points)
        return self.image_and_distance(points)[1]

    def image_and_distance(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and distances; of layers at the same distance the first counts."""
        own = points.to(self.layers[0].rows)
        reached = nearest = self.layers[0].image(own)
        distances: Tensor = torch.linalg.vector_norm(own - reached, dim=1)
        for number in range(1, self.depth):
            reached = self.layer(number).image(reached)
            further: Tensor = torch.linalg.vector_norm(own - reached, dim=1)
            nearest = torch.where((further < distances)[:, None], reached, nearest)
            distances = torch.minimum(distances, further)
        return nearest, distances


def narrowed(hull: AffineHull, n: int) -> AffineHull:
    """Build the machine of the same rows with fewer principal coordinates, from those already known.

    Raises
    ------
    InputError
        If n is below 1 or above ``report.n_effective``.
    """
    if not 1 <= n <= hull.report.n_effective:
        raise InputError(f"n must lie between 1 and {hull.report.n_effective}, got {n}.")
    real = torch.ones(1, hull.rows.shape[0], dtype=torch.bool, device=hull.rows.device)
    dimensions = torch.tensor([n], dtype=torch.float64, device=hull.rows.device)
    whitening = Whitening(hull.centre[None], hull.directions[None, :, :n], dimensions)
    encoded = hull.encoded[None, :, :n]
    kernel = encoded_kernel(encoded, dimensions, real).to(hull.rows.dtype)
    start = torch.tensor([hull.report.excess], dtype=torch.float64, device=hull.rows.device)
    ridge = find_ridge(kernel, hull.rows[None], real, start=start)
    return HullBatch(hull.rows[None], real, whitening, encoded, ridge).hulls()[0]
