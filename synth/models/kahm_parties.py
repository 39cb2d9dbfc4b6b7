r"""Classification by machines of several parties, who exchange models (Kumar 2024, section 5.3).

Every party builds machines from rows that it released; in the paper these are fabricated rows. A point belongs to

.. math:: \arg\min_c \min_q \Gamma_{q,c}(y) \qquad \text{(eq. 104)}

where :math:`\Gamma_{q,c}` is its distance from the image in party q's machine of class c, and infinite if q has no row
of that class. It is a function of what the parties already released, so it costs no privacy beyond what each of them
spent on its rows.

A party's model is sent as a safetensors file, with a card that describes the tensors. Nothing in a file is ever run. A
model consists of released rows and functions of them, so a file reveals what those rows reveal and no more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
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
from synth.models.kahm_classifier import KahmModel, Label, sorted_labels
from synth.models.wide_hull import WideHull

__all__ = [
    "FederatedClassifier",
    "load_model",
    "model_from_bytes",
    "model_to_bytes",
    "save_model",
]

_KEY = "hermitage-kahm"

_VERSION = 1

_MAXIMUM_HEADER = 64 * 2**20

_MAXIMUM_CLASSES = 10_000

_TENSORS = ("rows", "centre", "directions", "encoded", "0.values", "0.ones")
"""Tensors of a machine; the last two belong to its layer, of which there is one."""


@dataclass(frozen=True, slots=True, eq=False)
class FederatedClassifier:
    """A classifier that has the models of all parties, so that points need not be sent (Remark 6).

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

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes that any party has, in ascending order."""
        return tuple(sorted_labels([label for model in self.models for label in model.classes]))

    def distances(self, points: Tensor) -> NDArray[np.float64]:
        """Return the least distance of points of shape (m, p) over parties, for every class; shape (m, C) (eq. 104)."""
        classes = self.classes
        values = np.full((len(points), len(classes)), np.inf)
        for model in self.models:
            places = [classes.index(label) for label in model.classes]
            values[:, places] = np.minimum(values[:, places], model.distances(points).double().numpy())
        return values

    def predict(self, points: Tensor) -> NDArray[np.generic]:
        """Return the nearest class of every point, shape (m,); in a tie the first."""
        nearest: NDArray[np.generic] = np.asarray(self.classes)[self.distances(points).argmin(axis=1)]
        return nearest


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
    """Write a model."""
    tensors: dict[str, Tensor] = {}
    parts: list[list[list[dict[str, Any]]]] = []
    for group, hull in enumerate(model.hulls):
        parts.append([])
        for place, part in enumerate(hull.parts):
            tensors |= {name: getattr(part, field) for name, field in _names(group, place).items()}
            # A list of layers, of which there is one.
            parts[-1].append([{"ridge": part.ridge, **asdict(part.report)}])
    card = {
        "version": _VERSION,
        "classes": list(model.classes),
        "n": model.n,
        "depth": 1,
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
        if depth > 1:
            raise InputError("The model file contains machines with several layers: ask for one with a single layer.")
        if len(groups) != len(classes) or len(classes) > _MAXIMUM_CLASSES or not all(groups):
            raise ValueError
        expected = {
            name for group, parts in enumerate(groups) for place in range(len(parts)) for name in _names(group, place)
        }
        if set(tensors) != expected:
            raise ValueError
        hulls = [
            WideHull(tuple(_hull(tensors, _names(group, place), layer) for place, (layer,) in enumerate(parts)))
            for group, parts in enumerate(groups)
        ]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("The model file does not match its card: ask for it again.") from None
    return KahmModel(classes, tuple(hulls), n, block)


def _names(group: int, place: int) -> dict[str, str]:
    """Return the names of a machine's tensors in a file, and the field of each."""
    return {f"{group}.{place}.{name}": name.rpartition(".")[2] for name in _TENSORS}


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


def _hull(tensors: Mapping[str, Tensor], names: Mapping[str, str], card: Mapping[str, Any]) -> AffineHull:
    kinds = {field.name: field.type for field in fields(HullReport)}
    if set(card) != {"ridge", *kinds}:
        raise ValueError
    report = HullReport(**{name: _number(card[name], kinds[name]) for name in kinds})
    size, width, used = report.n_rows, report.n_columns, report.n_effective
    own = torch.float64 if report.double_precision else torch.float32
    wanted = {
        "rows": ((size, width), own),
        "centre": ((width,), torch.float64),
        "directions": ((width, used), torch.float64),
        "encoded": ((size, used), torch.float64),
        "values": ((size, width), own),
        "ones": ((size,), own),
    }
    found = {field: tensors[name] for name, field in names.items()}
    if min(size, width) < 1 or any(
        (tuple(found[field].shape), found[field].dtype) != want or not bool(torch.isfinite(found[field]).all())
        for field, want in wanted.items()
    ):
        raise ValueError
    ridge = float(_number(card["ridge"], "float"))
    if ridge <= 0:
        raise ValueError
    return AffineHull(**found, ridge=ridge, report=report)


def _number(value: Any, kind: Any) -> Any:
    """Return a number of a report if it has the type that the report declares."""
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
