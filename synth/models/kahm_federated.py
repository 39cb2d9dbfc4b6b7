r"""Classification by machines of several parties, who exchange distances or models (Kumar 2024, section 5.3).

Every party builds machines on its own fabricated rows (:func:`synth.models.kahm_model.fit_party`). A point belongs to

.. math:: \arg\min_c \min_q \Gamma_{q,c}(y) \qquad \text{(eq. 104)}

where :math:`\Gamma_{q,c}` is its distance from the image by party q's machine of class c, and infinite where q has no
row of that class. That is a function of what parties already gave away, so it costs no privacy beyond what each of them
spent on its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import InputError
from synth.kernels.matching import matching_scores
from synth.models.kahm_model import KahmModel, Label, sorted_labels

__all__ = ["ClassDistances", "FederatedClassifier", "combined_distances"]


@dataclass(frozen=True, slots=True, eq=False)
class ClassDistances:
    """Distances of some points to some classes: all that a party needs to send.

    Attributes
    ----------
    classes : tuple of str or of int
        Ascending, without repetition.
    values : array of shape (m, C), float64
        Not negative; infinite where there is no machine for the class.
    """

    classes: tuple[Label, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not self.classes or list(self.classes) != sorted_labels(self.classes):
            raise InputError("There must be one class at least, and classes must ascend and must not repeat.")
        if self.values.ndim != 2 or self.values.shape[1] != len(self.classes):
            raise InputError(f"Distances of shape {self.values.shape} do not fit {len(self.classes)} classes.")
        if not (self.values >= 0).all():
            raise InputError("Distances must be numbers and must not be negative.")

    @classmethod
    def of(cls, model: KahmModel, points: Tensor) -> ClassDistances:
        """Return the distances of points of shape (m, p) by one party's model."""
        return cls(model.classes, model.distances(points).double().numpy())

    def predict(self) -> NDArray[np.generic]:
        """Return the nearest class of every point, shape (m,); of equally near ones the first."""
        nearest: NDArray[np.generic] = np.asarray(self.classes)[self.values.argmin(axis=1)]
        return nearest

    def matching_scores(self) -> NDArray[np.float64]:
        """Return class-matching scores, shape (m, C) (Definition 8); 0 for a class at no finite distance."""
        scores: NDArray[np.float64] = matching_scores(torch.from_numpy(self.values)).numpy()
        return scores


def combined_distances(parties: Sequence[ClassDistances]) -> ClassDistances:
    """Return the least distance over parties, for every class that one of them has (eq. 104).

    Parameters
    ----------
    parties : sequence of ClassDistances
        Of the same points, in the same order. Classes may differ from party to party.

    Raises
    ------
    InputError
        If there is no party, or they answered for different numbers of points.
    """
    if not parties:
        raise InputError("There are no distances to combine: at least one party has to answer.")
    counts = {len(party.values) for party in parties}
    if len(counts) > 1:
        raise InputError(f"Parties answered for different numbers of points: {sorted(counts)}.")
    classes = tuple(sorted_labels([label for party in parties for label in party.classes]))
    values = np.full((counts.pop(), len(classes)), np.inf)
    for party in parties:
        places = [classes.index(label) for label in party.classes]
        values[:, places] = np.minimum(values[:, places], party.values)
    return ClassDistances(classes, values)


@dataclass(frozen=True, slots=True, eq=False)
class FederatedClassifier:
    """A classifier that holds the models of all parties, so that points need not travel (Remark 6).

    Attributes
    ----------
    models : tuple of KahmModel
        At least one; of the same columns, scaled by the same public bounds.
    """

    models: tuple[KahmModel, ...]

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError("A federated classifier needs the model of at least one party.")
        widths = {model.n_columns for model in self.models}
        if len(widths) > 1:
            raise InputError(f"The models of the parties have different numbers of columns: {sorted(widths)}.")

    def distances(self, points: Tensor) -> ClassDistances:
        """Return the least distances over all parties of points of shape (m, p)."""
        return combined_distances([ClassDistances.of(model, points) for model in self.models])

    def predict(self, points: Tensor) -> NDArray[np.generic]:
        """Return the nearest class of every point, shape (m,)."""
        return self.distances(points).predict()
