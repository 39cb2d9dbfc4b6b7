"""Kernel affine hull machines of the classes of a label, and distances to them (Kumar 2024, Definition 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synth.errors import InputError
from synth.kernels.affine_hull_layers import Partition, WideHull, fit_wide_hulls
from synth.kernels.fabrication import fabricate, in_blocks
from synth.kernels.hull_report import HullReport
from synth.kernels.matching import matching_scores

__all__ = ["KahmModel", "Label", "fabricate_by_class", "fit_party", "sorted_labels"]

Label = str | int


@dataclass(frozen=True, slots=True, eq=False)
class KahmModel:
    """A wide affine hull for every class; make one with :meth:`fit`.

    Attributes
    ----------
    classes : tuple of str or of int
        Ascending, without repetition.
    hulls : tuple of WideHull
        One for each class, of the same columns.
    n : int
        Subspace dimension that was asked for.
    depth : int
        Layers that were asked for.
    block : int
        About how many rows a part has.
    """

    classes: tuple[Label, ...]
    hulls: tuple[WideHull, ...]
    n: int
    depth: int
    block: int

    def __post_init__(self) -> None:
        if not self.classes or len(self.classes) != len(self.hulls):
            raise InputError(f"{len(self.classes)} classes do not fit {len(self.hulls)} affine hulls.")
        if list(self.classes) != sorted_labels(self.classes):
            raise InputError("The classes of a model must ascend and must not repeat.")
        if len({hull.n_columns for hull in self.hulls}) > 1:
            raise InputError("The affine hulls of a model must have the same columns.")

    @classmethod
    def fit(
        cls,
        rows: Tensor,
        labels: ArrayLike,
        *,
        n: int = 20,
        depth: int = 1,
        block: int = 1000,
        partition: Partition = "k-means",
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> KahmModel:
        """Build the machines.

        Parameters
        ----------
        rows : Tensor of shape (N, p)
            Entries in [0, 1] by public bounds.
        labels : array-like of shape (N,), whole numbers or text
        n, depth, block, partition, seed, device
            See :func:`synth.kernels.affine_hull_layers.fit_wide_hulls`.

        Raises
        ------
        InputError
            If rows and labels do not fit, or rows cannot be used.
        """
        classes, members = _members(rows, labels)
        groups = [rows[numbers] for numbers in members]
        hulls = fit_wide_hulls(groups, n=n, depth=depth, block=block, partition=partition, seed=seed, device=device)
        return cls(classes, tuple(hulls), n, depth, block)

    @property
    def n_columns(self) -> int:
        """Number of columns, p."""
        return self.hulls[0].n_columns

    @property
    def reports(self) -> tuple[tuple[HullReport, ...], ...]:
        """Reports of the parts of every class."""
        return tuple(hull.reports for hull in self.hulls)

    def distances(self, points: Tensor | NDArray[np.floating]) -> Tensor:
        """Return the distances of points of shape (m, p) from their images by every class, shape (m, C), on the CPU."""
        table = torch.as_tensor(points)
        return torch.stack([hull.distance(table).cpu() for hull in self.hulls], dim=1)

    def matching_scores(self, points: Tensor) -> Tensor:
        """Return class-matching scores, shape (m, C) (Definition 8); not probabilities."""
        return matching_scores(self.distances(points))

    def predict(self, points: Tensor) -> NDArray[np.generic]:
        """Return the class of the nearest hull for every point, shape (m,); of equally near ones the first."""
        nearest: NDArray[np.generic] = np.asarray(self.classes)[self.distances(points).argmin(dim=1).numpy()]
        return nearest


def fit_party(
    noisy_rows: Tensor,
    labels: ArrayLike,
    *,
    n: int = 20,
    steps: int = 2,
    depth: int = 1,
    block: int = 1000,
    partition: Partition = "k-means",
    seed: int = 0,
    device: torch.device | str | None = None,
) -> KahmModel:
    """Fabricate noisy rows class by class and build the machines of the fabricated rows (Definition 15, repaired).

    All of it is post-processing of the noisy rows and labels. Arguments as :meth:`KahmModel.fit` and
    :func:`fabricate_by_class`.
    """
    made = fabricate_by_class(noisy_rows, labels, n=n, steps=steps, block=block, seed=seed)
    return KahmModel.fit(made, labels, n=n, depth=depth, block=block, partition=partition, seed=seed, device=device)


def fabricate_by_class(
    noisy_rows: Tensor, labels: ArrayLike, *, n: int = 20, steps: int = 2, block: int = 1000, seed: int = 0
) -> Tensor:
    """Return fabricated rows, shape (N, p), from noisy rows: every class in random blocks, in public steps.

    Parameters
    ----------
    noisy_rows : Tensor of shape (N, p)
    labels : array-like of shape (N,), whole numbers or text
    n, steps
        See :func:`synth.kernels.fabrication.fabricate`.
    block : int
        Largest size of a block.
    seed : int
        Of the blocks; public.
    """
    _, members = _members(noisy_rows, labels)
    made = torch.empty_like(noisy_rows if noisy_rows.is_floating_point() else noisy_rows.double())
    generator = torch.Generator().manual_seed(seed)
    for numbers in members:
        for part in in_blocks(len(numbers), block=block, generator=generator):
            made[numbers[part]] = fabricate(noisy_rows[numbers[part]], n=n, steps=steps).to(made)
    return made


def sorted_labels(labels: Sequence[Label]) -> list[Label]:
    """Return labels ascending, each once.

    Raises
    ------
    InputError
        If text and numbers are mixed.
    """
    if len({isinstance(label, str) for label in labels}) > 1:
        raise InputError("Class labels must be all text or all whole numbers.")
    return sorted(set(labels), key=lambda label: (isinstance(label, str), label))


def _members(rows: Tensor, labels: ArrayLike) -> tuple[tuple[Label, ...], list[Tensor]]:
    array = np.asarray(labels)
    if array.ndim != 1 or rows.ndim != 2 or len(array) != len(rows) or len(array) == 0:
        raise InputError(
            f"Each row needs one label, and there must be one at least: got rows of shape {tuple(rows.shape)} and "
            f"labels of shape {array.shape}."
        )
    if array.dtype.kind not in "biuU":
        raise InputError("Class labels must be whole numbers or text.")
    classes, codes = np.unique(array, return_inverse=True)
    found: tuple[Label, ...] = tuple(label if isinstance(label, str) else int(label) for label in classes.tolist())
    return found, [torch.from_numpy(np.flatnonzero(codes == code)) for code in range(len(classes))]
