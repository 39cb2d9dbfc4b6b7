"""Classification by kernel affine hull machines of the classes of a label (Kumar 2024, Definitions 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from synth.errors import InputError
from synth.models.wide_hull import Partition, WideHull, fit_wide_hulls
from synth.system.machine import quota_threads

__all__ = ["KahmClassifier", "KahmModel", "Label", "matching_scores", "sorted_labels"]

Label = str | int


@dataclass(frozen=True, slots=True, eq=False)
class KahmModel:
    """A wide affine hull for every class; make one with :meth:`fit`.

    Attributes
    ----------
    classes : tuple of str or of int
        Ascending and distinct.
    hulls : tuple of WideHull
        One for each class, all with the same columns.
    n : int
        Requested subspace dimension.
    block : int
        Approximate rows of a part.
    """

    classes: tuple[Label, ...]
    hulls: tuple[WideHull, ...]
    n: int
    block: int

    def __post_init__(self) -> None:
        if not self.classes or len(self.classes) != len(self.hulls):
            raise InputError(f"{len(self.classes)} classes do not fit {len(self.hulls)} affine hulls.")
        if list(self.classes) != sorted_labels(self.classes):
            raise InputError("The classes of a model must be in ascending order and distinct.")
        if len({hull.n_columns for hull in self.hulls}) > 1:
            raise InputError("The affine hulls of a model must have the same columns.")

    @classmethod
    def fit(
        cls,
        rows: Tensor,
        labels: ArrayLike,
        *,
        n: int = 20,
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
        n, block, partition, seed, device
            See :func:`synth.models.wide_hull.fit_wide_hulls`.

        Raises
        ------
        InputError
            If rows cannot be used.
        """
        classes, codes = np.unique(np.asarray(labels), return_inverse=True)
        groups = [rows[torch.from_numpy(np.flatnonzero(codes == code))] for code in range(len(classes))]
        hulls = fit_wide_hulls(groups, n=n, block=block, partition=partition, seed=seed, device=device)
        return cls(tuple(classes.tolist()), tuple(hulls), n, block)

    @property
    def n_columns(self) -> int:
        """Number of columns, p."""
        return self.hulls[0].n_columns

    def distances(self, points: Tensor | NDArray[np.floating]) -> Tensor:
        """Return the distances of points of shape (m, p) from their images in every class, shape (m, C), on the CPU."""
        table = torch.as_tensor(points)
        return torch.stack([hull.distance(table).cpu() for hull in self.hulls], dim=1)

    def predict(self, points: Tensor) -> NDArray[np.generic]:
        """Return the class of the nearest hull for every point, shape (m,); in a tie the first."""
        nearest: NDArray[np.generic] = np.asarray(self.classes)[self.distances(points).argmin(dim=1).numpy()]
        return nearest


def sorted_labels(labels: Sequence[Label]) -> list[Label]:
    """Return the distinct labels in ascending order.

    Raises
    ------
    InputError
        If text and numbers are mixed.
    """
    if len({isinstance(label, str) for label in labels}) > 1:
        raise InputError("Class labels must be all text or all whole numbers.")
    return sorted(set(labels), key=lambda label: (isinstance(label, str), label))


def matching_scores(distances: Tensor) -> Tensor:
    r"""Return class-matching scores of distances (Kumar 2024, Definition 8).

    .. math:: m_c = \exp\bigl(-\Gamma_c^2 / \textstyle\sum_{c'} \Gamma_{c'}^2\bigr)

    Parameters
    ----------
    distances : Tensor of shape (m, C), not negative

    Returns
    -------
    Tensor of shape (m, C)
        Between 1/e and 1, with product 1/e over the classes: larger means nearer; they are not probabilities. A point
        at distance 0 from every class is shared equally.
    """
    # Relative to the largest, so that squares neither overflow nor underflow.
    largest = distances.amax(dim=1, keepdim=True)
    squares = torch.where(largest > 0, (distances / torch.where(largest > 0, largest, 1.0)).square(), 1.0)
    return torch.exp(-squares / squares.sum(dim=1, keepdim=True).clamp(min=1.0))


@dataclass(eq=False, repr=False)
class KahmClassifier(ClassifierMixin, BaseEstimator):
    """Assign points to the class whose kernel affine hull machine gives the nearest image (Kumar 2024, Definition 7).

    Parameters
    ----------
    n : int
        Subspace dimension; reduced to what the rows of a class allow.
    block : int
        Approximate rows of a machine: a class of N rows has ``ceil(N / block)`` machines.
    partition : {"k-means", "random"}
        How a class is cut into blocks.
    scale : None, "fitted" or (low, high)
        The machine compares entries with fixed numbers, so columns should lie in [0, 1]. ``None`` leaves them unscaled;
        ``(low, high)``, two numbers or two arrays with one number for each column, maps public bounds to 0 and 1;
        ``"fitted"`` takes the bounds from the training rows, which is only right if those are public or synthetic.
        Points outside the bounds are not clipped.
    seed : int
        Seed of the blocks; the same seed and rows give the same classifier.
    device : str or None
        Device that torch computes on, such as "cuda"; None is the CPU.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    model_ : KahmModel
        Its classes are positions in ``classes_``.
    offset_, range_ : arrays of shape (n_features_in_,)
        The scale in use: ``(X - offset_) / range_``.

    Notes
    -----
    Rows in float32 are computed in float32 if conditioning allows it. In a tie the first class is predicted; the
    authors' code takes the last. ``predict_proba`` is a normalised matching score (Definition 8): it ranks the classes,
    but its values are not probabilities, and with C classes they stay near 1/C.
    """

    n: int = 20
    _: KW_ONLY
    block: int = 1000
    partition: Partition = "k-means"
    scale: Literal["fitted"] | tuple[ArrayLike, ArrayLike] | None = None
    seed: int = 0
    device: str | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's name
        """Build the machines of every class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
        y : array-like of shape (n_rows,)

        Raises
        ------
        InputError
            If a parameter is out of range.
        """
        rows, labels = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.offset_, self.range_ = _scale(self.scale, rows)
        with quota_threads():
            self.model_ = KahmModel.fit(
                self._scaled(rows),
                codes,
                n=self.n,
                block=self.block,
                partition=self.partition,
                seed=self.seed,
                device=self.device,
            )
        return self

    def distances(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the distances of points from their images in every class, shape (m, n_classes)."""
        check_is_fitted(self)
        points = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        with quota_threads():
            found: NDArray[Any] = self.model_.distances(self._scaled(points)).numpy()
        return found

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the nearest class of every point, shape (m,)."""
        distances = self.distances(X)
        predicted: NDArray[Any] = self.classes_[distances.argmin(axis=1)]
        return predicted

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return matching scores that sum to 1 over classes, shape (m, n_classes); not calibrated."""
        scores = self._scores(X)
        shares: NDArray[Any] = scores / scores.sum(axis=1, keepdims=True)
        return shares

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return logarithms of matching scores, shape (m, n_classes); with two classes their difference, shape (m,)."""
        logarithms: NDArray[Any] = np.log(self._scores(X))
        if len(self.classes_) == 2:
            difference: NDArray[Any] = logarithms[:, 1] - logarithms[:, 0]
            return difference
        return logarithms

    def _scores(self, points: ArrayLike) -> NDArray[Any]:
        scores: NDArray[Any] = matching_scores(torch.from_numpy(self.distances(points)).double()).numpy()
        return scores

    def _scaled(self, rows: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(((rows - self.offset_) / self.range_).astype(rows.dtype)))


def _scale(scale: object, rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    width = rows.shape[1]
    if scale is None:
        return np.zeros(width), np.ones(width)
    if isinstance(scale, str):
        if scale != "fitted":
            raise InputError(f"scale must be None, 'fitted' or (low, high), got '{scale}'.")
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        # A constant column is moved to 0.
        return low, np.where(high > low, high - low, 1.0)
    try:
        low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64), (width,)) for bound in scale)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InputError(f"scale must be two bounds, each one number or {width}, one for each column.") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise InputError("scale must have finite bounds, the lower below the upper in every column.")
    return low.copy(), high - low
