"""The fitted generator as ``model.safetensors``: tensors, and a card that says what made them."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from synth.bundle.schema_json import schema_from_document, schema_to_document
from synth.config import OptionValue, RunConfig
from synth.errors import VerificationError
from synth.schema import Schema

__all__ = ["ModelCard", "card_from_stream", "model_from_bytes", "model_to_bytes"]

_KEY = "hermitage"
_MAXIMUM_HEADER = 64 * 2**20


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a saved model needs beside its tensors: its generator, options, schema, label and public seed."""

    generator: str
    options: Mapping[str, OptionValue]
    schema: Schema
    label: str | None
    seed: int

    @classmethod
    def of(cls, config: RunConfig) -> ModelCard:
        """Return the card of a run."""
        return cls(config.generator, dict(config.options), config.schema, config.label, config.seed)


def model_to_bytes(card: ModelCard, state: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a model; the same card and arrays give the same bytes."""
    body = {
        "generator": card.generator,
        "options": dict(card.options),
        "schema": schema_to_document(card.schema),
        "label": card.label,
        "seed": card.seed,
    }
    # One key only: the library does not keep the order of several.
    metadata = {_KEY: json.dumps(body, sort_keys=True, ensure_ascii=True, allow_nan=False)}
    arrays = {name: np.ascontiguousarray(array) for name, array in sorted(state.items())}
    return bytes(save_safetensors(arrays, metadata))


def model_from_bytes(data: bytes) -> tuple[ModelCard, dict[str, NDArray[Any]]]:
    """Read a model back.

    Raises
    ------
    VerificationError
        If it is not a model that :func:`model_to_bytes` writes.
    """
    card = card_from_stream(io.BytesIO(data))
    try:
        return card, load_safetensors(data)
    except (SafetensorError, ValueError, KeyError):
        raise VerificationError("model.safetensors is damaged.") from None


def card_from_stream(stream: BinaryIO) -> ModelCard:
    """Read the card alone, from the first bytes of a model.

    Raises
    ------
    VerificationError
        If there is none.
    """
    try:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > _MAXIMUM_HEADER:
            raise ValueError
        header: dict[str, Any] = json.loads(stream.read(length))
        body = json.loads(header["__metadata__"][_KEY])
        return ModelCard(
            generator=str(body["generator"]),
            options={str(name): _option(value) for name, value in body["options"].items()},
            schema=schema_from_document(body["schema"]),
            label=None if body["label"] is None else str(body["label"]),
            seed=int(body["seed"]),
        )
    except (struct.error, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise VerificationError("model.safetensors does not say which generator made it.") from None


def _option(value: Any) -> OptionValue:
    if isinstance(value, list):
        return tuple(_option(entry) for entry in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError
