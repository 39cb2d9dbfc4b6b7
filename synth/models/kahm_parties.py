r"""Classification by machines of several parties, who exchange distances or models (Kumar 2024, section 5.3).

Every party builds machines on rows that it released, fabricated ones in the paper. A point belongs to

.. math:: \arg\min_c \min_q \Gamma_{q,c}(y) \qquad \text{(eq. 104)}

where :math:`\Gamma_{q,c}` is its distance from the image by party q's machine of class c, and infinite where q has no
row of that class. That is a function of what parties already gave away, so it costs no privacy beyond what each of them
spent on its rows.

A party's model travels as a file: safetensors, with a card that says what the tensors are. Nothing in a file is ever
run. A model is made of fabricated rows and functions of them, so a file gives away what those rows give away and no
more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from synth.errors import InputError
from synth.models.affine_hull import AffineHull, HullReport
from synth.models.kahm_classifier import KahmModel, Label, matching_scores, sorted_labels
from synth.models.wide_hull import DeepHull, WideHull

__all__ = [
    "ClassDistances",
    "FederatedClassifier",
    "combined_distances",
    "load_model",
    "model_from_bytes",
    "model_to_bytes",
    "save_model",
]

_KEY = "hermitage-kahm"

_VERSION = 1

_MAXIMUM_HEADER = 64 * 2**20

_MAXIMUM_CLASSES = 10_000

_SHARED = ("rows", "centre", "directions", "encoded")

_OWN = ("values", "ones")


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


def save_model(model: KahmModel, path: Path) -> None:
    """Write a model to a file; the same model gives the same bytes."""
    path.write_bytes(model_to_bytes(model))


def load_model(path: Path) -> KahmModel:
    """Read a model from a file.

    Raises
    ------
    InputError
        If there is no such file, or it is not what :func:`save_model` writes.
    """
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(f"The model file {path.name} cannot be read: check the path.") from None
    return model_from_bytes(data)


def model_to_bytes(model: KahmModel) -> bytes:
    """Write a model; layers that were not used before are built first."""
    tensors: dict[str, Tensor] = {}
    parts: list[list[list[dict[str, Any]]]] = []
    for group, hull in enumerate(model.hulls):
        parts.append([])
        for place, part in enumerate(hull.parts):
            layers = [part.layer(number) for number in range(part.depth)]
            for name in _SHARED:
                tensors[f"{group}.{place}.{name}"] = getattr(layers[0], name)
            for number, layer in enumerate(layers):
                for name in _OWN:
                    tensors[f"{group}.{place}.{number}.{name}"] = getattr(layer, name)
            parts[-1].append([{"ridge": layer.ridge, **asdict(layer.report)} for layer in layers])
    card = {
        "version": _VERSION,
        "classes": list(model.classes),
        "n": model.n,
        "depth": model.depth,
        "block": model.block,
        "parts": parts,
    }
    metadata = {_KEY: json.dumps(card, sort_keys=True, allow_nan=False)}
    copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in sorted(tensors.items())}
    return bytes(save_safetensors(copies, metadata))


def model_from_bytes(data: bytes) -> KahmModel:
    """Read a model back, exactly as it was.

    Raises
    ------
    InputError
        If it is not what :func:`model_to_bytes` writes, was written by a later version, or its tensors do not fit its
        card.
    """
    card = _card(data)
    try:
        tensors = load_safetensors(data)
    except (SafetensorError, ValueError, KeyError):
        raise InputError("The model file is damaged: ask for it again.") from None
    try:
        classes = tuple(_label(label) for label in card["classes"])
        n, depth, block = (_count(card, name) for name in ("n", "depth", "block"))
        groups = card["parts"]
        if len(groups) != len(classes) or len(classes) > _MAXIMUM_CLASSES:
            raise ValueError
        hulls = []
        for group, parts in enumerate(groups):
            deep = []
            if not parts:
                raise ValueError
            for place, layers in enumerate(parts):
                if not 1 <= len(layers) <= depth:
                    raise ValueError
                fitted = [_hull(tensors, f"{group}.{place}", number, layer) for number, layer in enumerate(layers)]
                deep.append(DeepHull(fitted, len(fitted)))
            hulls.append(WideHull(tuple(deep)))
        expected = {
            name
            for group, parts in enumerate(groups)
            for place, layers in enumerate(parts)
            for name in _names(f"{group}.{place}", len(layers))
        }
        if set(tensors) != expected:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("The model file does not hold what its card says: ask for it again.") from None
    return KahmModel(classes, tuple(hulls), n, depth, block)


def _card(data: bytes) -> dict[str, Any]:
    try:
        (length,) = struct.unpack("<Q", data[:8])
        if length > min(_MAXIMUM_HEADER, len(data) - 8):
            raise ValueError
        card: dict[str, Any] = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][_KEY])
        version = card["version"]
    except (struct.error, KeyError, TypeError, ValueError, RecursionError):
        raise InputError("This is not a model file of affine hulls.") from None
    if version != _VERSION:
        raise InputError(f"The model file has version {version!s:.20}; this program reads version {_VERSION}.")
    return card


def _hull(tensors: Mapping[str, Tensor], prefix: str, number: int, card: Mapping[str, Any]) -> AffineHull:
    kinds = {field.name: field.type for field in fields(HullReport)}
    if set(card) != {"ridge", *kinds}:
        raise ValueError
    report = HullReport(**{name: _number(card[name], kinds[name]) for name in kinds})
    rows, centre, directions, encoded = (tensors[f"{prefix}.{name}"] for name in _SHARED)
    values, ones = (tensors[f"{prefix}.{number}.{name}"] for name in _OWN)
    size, width, used = report.n_rows, report.n_columns, report.n_effective
    first = directions.shape[1]
    shapes = [
        (rows, (size, width)),
        (centre, (width,)),
        (directions, (width, first)),
        (encoded, (size, first)),
        (values, (size, width)),
        (ones, (size,)),
    ]
    dtype = torch.float64 if report.double_precision else torch.float32
    if (
        any(tuple(tensor.shape) != shape or not bool(torch.isfinite(tensor).all()) for tensor, shape in shapes)
        or used != first - number
        or min(size, width, used + 1) < 1
        or {rows.dtype, values.dtype, ones.dtype} != {dtype}
        or {centre.dtype, directions.dtype, encoded.dtype} != {torch.float64}
    ):
        raise ValueError
    ridge = float(_number(card["ridge"], "float"))
    if ridge <= 0:
        raise ValueError
    return AffineHull(
        rows, centre, directions[:, :used].contiguous(), encoded[:, :used].contiguous(), values, ones, ridge, report
    )


def _names(prefix: str, depth: int) -> list[str]:
    return [f"{prefix}.{name}" for name in _SHARED] + [
        f"{prefix}.{number}.{name}" for number in range(depth) for name in _OWN
    ]


def _number(value: Any, kind: Any) -> Any:
    """Return a number of a report if it is of the kind the report declares."""
    if kind == "bool":
        valid = isinstance(value, bool)
    elif kind == "int":
        valid = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    else:
        valid = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    if not valid:
        raise ValueError
    return float(value) if kind == "float" else value


def _count(card: Mapping[str, Any], name: str) -> int:
    value = card[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError
    return value


def _label(value: Any) -> Label:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return value
