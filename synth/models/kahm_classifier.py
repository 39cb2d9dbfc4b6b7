"""The affine hull classifier as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from synth.errors import InputError
from synth.kernels.affine_hull_layers import Partition
from synth.kernels.matching import matching_scores
from synth.models.kahm_model import KahmModel
from synth.system.threads import quota_threads

__all__ = ["KahmClassifier"]


class KahmClassifier(ClassifierMixin, BaseEstimator):
    """Assign points to the class whose kernel affine hull machine gives the nearest image (Kumar 2024, Definition 7).

    Parameters
    ----------
    n : int
        Subspace dimension; reduced to what the rows of a class allow.
    depth : int
        Layers of every machine. 1 is enough, see :mod:`synth.kernels.affine_hull_layers`.
    block : int
        About how many rows a machine is built from: a class of N rows has ``ceil(N / block)`` machines.
    partition : {"k-means", "random"}
        How a class is cut into blocks.
    scale : None, "fitted" or (low, high)
        The machine compares entries with fixed numbers, so columns should lie in [0, 1]. ``None`` takes them as they
        are; ``(low, high)``, two numbers or two arrays with one number for each column, maps public bounds to 0 and 1;
        ``"fitted"`` takes the bounds from the training rows, which is only right where those are public or synthetic.
        Points outside the bounds are not clipped.
    seed : int
        Of the blocks; the same seed and rows give the same classifier.
    device : str or None
        Where torch computes, such as "cuda"; None is the CPU.

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
    Rows in float32 are computed in float32 where conditioning allows. Of classes at the same distance the first is
    predicted; the authors' code takes the last. ``predict_proba`` is a matching score (Definition 8), normalised: its
    order is right, its values are no probabilities, and with C classes they stay near 1/C.
    """

    def __init__(
        self,
        n: int = 20,
        *,
        depth: int = 1,
        block: int = 1000,
        partition: Partition = "k-means",
        scale: Literal["fitted"] | tuple[ArrayLike, ArrayLike] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        self.n = n
        self.depth = depth
        self.block = block
        self.partition = partition
        self.scale = scale
        self.seed = seed
        self.device = device

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
                depth=self.depth,
                block=self.block,
                partition=self.partition,
                seed=self.seed,
                device=self.device,
            )
        return self

    def distances(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the distances of points from their images by every class, shape (m, n_classes)."""
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
        """Return logarithms of matching scores, shape (m, n_classes); of two classes their difference, shape (m,)."""
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
        # A column that does not vary is moved to 0.
        return low, np.where(high > low, high - low, 1.0)
    try:
        low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64), (width,)) for bound in scale)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InputError(f"scale must hold two bounds, each one number or {width}, one for each column.") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise InputError("scale must hold finite bounds, the lower below the upper in every column.")
    return low.copy(), high - low
