"""What was fitted as ``model.safetensors``: tensors, and a card that says what made them; and ``model.json``.

A model that is released says there in plain numbers what it learned, so that it is of use without this program.
"""

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

from synth.bundle.archive import canonical_json, parse_canonical
from synth.bundle.certificate import option_of
from synth.errors import VerificationError
from synth.estimators import describe, restore
from synth.generators.protocol import GeneratorTask, ReleasedModel, State
from synth.schema import OptionValue, RunConfig, Schema, schema_from_document, schema_to_document

__all__ = [
    "ModelCard",
    "card_from_stream",
    "differing",
    "model_from_bytes",
    "model_to_bytes",
    "model_to_json",
    "restored_model",
    "words_left_out",
]

MODEL_VERSION = 1
"""Of ``model.json``: it goes up when a key means something else."""

_WORDS = frozenset({"title", "summary", "reference", "assumed"})

_KEY = "hermitage"
_MAXIMUM_HEADER = 64 * 2**20
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a saved model needs beside its tensors: its generator, options, schema, label and public seed.

    ``is_model`` says that ``generator`` names a model, which draws no rows.
    """

    generator: str
    options: Mapping[str, OptionValue]
    schema: Schema
    label: str | None
    seed: int
    is_model: bool = False

    @classmethod
    def of(cls, config: RunConfig) -> ModelCard:
        """Return the card of a run."""
        return cls(
            config.generator, dict(config.options), config.schema, config.label, config.seed, is_model=config.is_model
        )

    @property
    def task(self) -> GeneratorTask:
        """What it was told, for the processor."""
        return GeneratorTask(schema=self.schema, label=self.label, seed=self.seed, device="cpu")


def model_to_bytes(card: ModelCard, state: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a model; the same card and arrays give the same bytes."""
    body = {
        "model" if card.is_model else "generator": card.generator,
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
        If it is not a model that :func:`model_to_bytes` writes, up to the order of its tensors.
    """
    card = card_from_stream(io.BytesIO(data))
    try:
        state = load_safetensors(data)
        exact = _is_exact(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise VerificationError("model.safetensors is damaged.") from None
    if not exact:
        raise VerificationError("model.safetensors holds something that is neither a tensor nor its card.")
    return card, state


def _is_exact(data: bytes) -> bool:
    """Whether a file holds its tensors one after another, one card, and nothing else.

    How tensors are ordered is left open, since that changes with the library.
    """
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].decode("utf-8")
    header: dict[str, Any] = json.loads(text)
    metadata = header.pop("__metadata__")
    body = json.loads(metadata[_KEY])
    place = 0
    for tensor in sorted(header.values(), key=lambda tensor: tuple(tensor["data_offsets"])):
        if set(tensor) != {"dtype", "shape", "data_offsets"} or tensor["data_offsets"][0] != place:
            return False
        place = tensor["data_offsets"][1]
    # Written again, so that a key given twice, a blank or an escape has no room.
    written = {"__metadata__": metadata, **header}
    plain = json.dumps(written, separators=(",", ":"), ensure_ascii=False)
    return (
        text == plain + " " * (-len(plain.encode()) % _ALIGNMENT)
        and 8 + length + place == len(data)
        and set(metadata) == {_KEY}
        and set(body) == {"model" if "model" in body else "generator", "options", "schema", "label", "seed"}
        and metadata[_KEY] == json.dumps(body, sort_keys=True, ensure_ascii=True, allow_nan=False)
    )


def restored_model(card: ModelCard, state: State) -> ReleasedModel:
    """Build a released model again from its card and its tensors.

    Raises
    ------
    VerificationError
        If no model of that name is released by this program.
    """
    found = restore(card.generator, card.task, card.options, state)
    if not isinstance(found, ReleasedModel):
        raise VerificationError(f"'{card.generator}' is no model that is released: rows are drawn from it.")
    return found


def model_to_json(card: ModelCard, fitted: ReleasedModel) -> bytes:
    """Write what a model learned, and everything that using it needs, as ``model.json``.

    It follows from ``model.safetensors``, whose card and restored model are given: whoever checks a bundle writes it
    again.
    """
    about = describe(card.generator)
    return canonical_json(
        {
            "version": MODEL_VERSION,
            "model": about.name,
            "title": about.title,
            "summary": about.summary,
            "reference": about.reference,
            "options": dict(card.options),
            "label": card.label,
            "seed": card.seed,
            "declared": schema_to_document(card.schema),
            "assumed": list(fitted.assumptions),
            "fitted": fitted.document(),
        }
    )


def words_left_out(data: bytes) -> dict[str, Any]:
    """Return what ``model.json`` says in numbers and names: without the words that a later version may choose anew."""
    return {key: value for key, value in parse_canonical(data, name="model.json").items() if key not in _WORDS}


def differing(ours: State, theirs: State) -> list[str]:
    """Return the names of the tensors that two models both have, and that differ in a bit."""
    return [
        name
        for name in sorted(ours.keys() & theirs.keys())
        if (ours[name].shape, ours[name].dtype) != (theirs[name].shape, theirs[name].dtype)
        or ours[name].tobytes() != theirs[name].tobytes()
    ]


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
            generator=str(body["model" if "model" in body else "generator"]),
            is_model="model" in body,
            options={str(name): option_of(value) for name, value in body["options"].items()},
            schema=schema_from_document(body["schema"]),
            label=None if body["label"] is None else str(body["label"]),
            seed=int(body["seed"]),
        )
    except (struct.error, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise VerificationError("model.safetensors does not say which generator made it.") from None
