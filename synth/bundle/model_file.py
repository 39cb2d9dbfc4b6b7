"""The fitted model as ``model.safetensors``: tensors, and a card that says what made them; and ``model.json``.

The file is written here: the library orders tensors of one type as it happens, and keeps no order of several keys. The
tensors lie in the order of their names, without gaps, so one model has one file, which any reader of the format reads.

``model.json`` says in plain numbers what a released model learned, so that it can be used without this program.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from synth.bundle.answers import bytes_of, plain
from synth.bundle.archive import canonical_json, canonical_line, parse_canonical
from synth.bundle.certificate import option_of
from synth.errors import VerificationError
from synth.estimators import describe, restore
from synth.generators.protocol import GeneratorTask, ReleasedModel, State
from synth.schema import OptionValue, RunConfig, Schema, asked_schema, schema_from_document, schema_to_document

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
_TYPES = {
    **{f"<f{size}": f"F{8 * size}" for size in (2, 4, 8)},
    **{f"{'<' if size > 1 else '|'}i{size}": f"I{8 * size}" for size in (1, 2, 4, 8)},
    **{f"{'<' if size > 1 else '|'}u{size}": f"U{8 * size}" for size in (1, 2, 4, 8)},
    "|b1": "BOOL",
}
"""Names of types in the file, by those of numpy."""


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
        return GeneratorTask(schema=asked_schema(self.schema), label=self.label, seed=self.seed, device="cpu")


def model_to_bytes(card: ModelCard, state: State) -> bytes:
    """Return the bytes of a model; the same card and arrays give the same bytes."""
    return b"".join(_parts(card, state))


def _parts(card: ModelCard, state: State) -> Iterator[bytes | memoryview]:
    """Yield the length of the header, the header, and every tensor."""
    body = {
        "model" if card.is_model else "generator": card.generator,
        "options": dict(card.options),
        "schema": schema_to_document(card.schema),
        "label": card.label,
        "seed": card.seed,
    }
    header: dict[str, Any] = {"__metadata__": {_KEY: canonical_line(body)}}
    place = 0
    for name, array in sorted(state.items()):
        kind = array.dtype.newbyteorder("<").str
        offsets = [place, place + array.nbytes]
        header[name] = {"dtype": _TYPES[kind], "shape": list(array.shape), "data_offsets": offsets}
        place += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-len(text) % _ALIGNMENT)
    yield struct.pack("<Q", len(text))
    yield text
    for _, array in sorted(state.items()):
        yield bytes_of(plain(array))


def model_from_bytes(data: bytes) -> tuple[ModelCard, dict[str, NDArray[Any]]]:
    """Read a model back.

    Raises
    ------
    VerificationError
        If :func:`model_to_bytes` would not write it.
    """
    card = card_from_stream(io.BytesIO(data))
    try:
        state = load_safetensors(data)
        numbers = not any(np.isnan(array).any() for array in state.values() if array.dtype.kind == "f")
        exact = numbers and _is_exact(data, card, state)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise VerificationError("model.safetensors is damaged.") from None
    if not numbers:
        raise VerificationError("model.safetensors contains something in the place of a number.")
    if not exact:
        raise VerificationError(
            "model.safetensors contains something that is neither a tensor nor the card, or is written in another way."
        )
    return card, state


def _is_exact(data: bytes, card: ModelCard, state: State) -> bool:
    held, place = memoryview(data), 0
    for part in _parts(card, state):
        if held[place : place + len(part)] != part:
            return False
        place += len(part)
    return place == len(data)


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
    """Return the names of the tensors that both models have and that differ in any bit, signs of zeros aside."""
    return [
        name
        for name in sorted(ours.keys() & theirs.keys())
        if (ours[name].shape, ours[name].dtype) != (theirs[name].shape, theirs[name].dtype)
        or bytes_of(plain(ours[name])) != bytes_of(plain(theirs[name]))
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
