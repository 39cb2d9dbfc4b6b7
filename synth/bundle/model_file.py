"""The fitted model as ``model.safetensors``: tensors, and a card that says what made them; and ``model.json``.

``model.json`` says in plain numbers what a released model learned, so that it can be used without this program.
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
"""Version of ``model.json``: it increases when a key changes its meaning."""

_WORDS = frozenset({"title", "summary", "reference", "assumed"})

_KEY = "hermitage"
_MAXIMUM_HEADER = 64 * 2**20
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a saved model needs besides its tensors: its generator, options, schema, label and public seed.

    ``is_model`` is true if ``generator`` names a model, which draws no rows.
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
        """Its task, to be run on the processor."""
        return GeneratorTask(schema=self.schema, label=self.label, seed=self.seed, device="cpu")


def model_to_bytes(card: ModelCard, state: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a model; the same card and arrays give the same bytes."""
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
        If :func:`model_to_bytes` would not write it, up to the order of its tensors.
    """
    card = card_from_stream(io.BytesIO(data))
    try:
        state = load_safetensors(data)
        exact = _is_exact(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise VerificationError("model.safetensors is damaged.") from None
    if not exact:
        raise VerificationError("model.safetensors contains something that is neither a tensor nor the card.")
    return card, state


def _is_exact(data: bytes) -> bool:
    """Whether a file contains exactly one card and its tensors, one after another.

    The order of the tensors is left open, since it changes with the library.
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
    # Compare with the canonical text, so that duplicate keys, blanks and escapes are found.
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
    """Return a released model, rebuilt from its card and its tensors.

    Raises
    ------
    VerificationError
        If this program releases no model of that name.
    """
    found = restore(card.generator, card.task, card.options, state)
    if not isinstance(found, ReleasedModel):
        raise VerificationError(f"'{card.generator}' is not a model that can be released: it is a generator of rows.")
    return found


def model_to_json(card: ModelCard, fitted: ReleasedModel) -> bytes:
    """Return ``model.json``: what a model learned, and everything needed to use it.

    It follows from the card and the restored model in ``model.safetensors``, so a check can write it again.
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
    """Return ``model.json`` without the words, which a later version may change."""
    return {key: value for key, value in parse_canonical(data, name="model.json").items() if key not in _WORDS}


def differing(ours: State, theirs: State) -> list[str]:
    """Return the names of the tensors that both models have and that differ in any bit."""
    return [
        name
        for name in sorted(ours.keys() & theirs.keys())
        if (ours[name].shape, ours[name].dtype) != (theirs[name].shape, theirs[name].dtype)
        or ours[name].tobytes() != theirs[name].tobytes()
    ]


def card_from_stream(stream: BinaryIO) -> ModelCard:
    """Read only the card, from the first bytes of a model.

    Raises
    ------
    VerificationError
        If there is no card.
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
