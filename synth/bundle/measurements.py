"""The noisy answers of a run as ``measurements.npz``: values, noise scales and questions, but no noise draws.

Arrays are plain ``.npy`` members, stored and without pickle; ``index`` is a JSON text that ties them to receipts and
questions. The same answers give the same bytes, and a file is read only if it is what its answers are written as.
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from synth.bundle.answers import ENTRIES, ArrayFile, bytes_of
from synth.bundle.archive import ExactZip, canonical_line, zip_of
from synth.errors import PrivacyError, VerificationError
from synth.privacy.answers import ROW_COUNT_QUERY, NoisyAnswer, RowCount, of_kind
from synth.privacy.feature_maps import Constant, frozen
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.questions import Answer
from synth.privacy.receipt import SUMS, Receipt
from synth.schema import Schema

__all__ = [
    "Measurements",
    "measurements_from_bytes",
    "measurements_to_bytes",
    "pairing_problems",
    "row_count_problems",
]

_FORMAT = 1
_INDEX = "index"
_ATTRIBUTES = 0o600
_KINDS = "iuf"
_MAGIC = b"\x93NUMPY\1\0"
_ALIGNMENT = 64
_UNREADABLE = (ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""What numpy and json raise on malformed files."""

_BLOCK = 2**20

_LARGEST = 4 * 2**30
"""Bytes of all arrays together: four times the 2^27 noisy numbers that one question may have at most."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """All that a run learned about the private rows.

    ``rows`` is their number, public or measured with noise; None if it is not known.
    """

    answers: tuple[Answer, ...]
    rows: RowCount | None = None

    @property
    def sums(self) -> tuple[NoisyAnswer, ...]:
        """The noisy sums, in order."""
        return of_kind(self.answers, NoisyAnswer)


def measurements_to_bytes(measurements: Measurements) -> bytes:
    """Write noisy answers and private choices; the same answers give the same bytes."""
    members = {f"{name}.npy": (_head(array), bytes_of(array)) for name, array in _members(measurements).items()}
    return b"".join(zip_of(members, attributes=_ATTRIBUTES))


def _members(measurements: Measurements) -> dict[str, NDArray[Any]]:
    """Return every array of the file by name, the index first; answers of a kind are listed together."""
    if any(type(answer) not in ENTRIES for answer in measurements.answers):
        raise PrivacyError("The file of answers can hold answers of the known kinds only.")
    arrays, rows = ArrayFile(), measurements.rows
    index: dict[str, Any] = {
        "format": _FORMAT,
        "rows": rows and {"value": float(rows.value), "noise_std": float(rows.noise_std), "public": rows.public},
    }
    for kind, entry in ENTRIES.items():
        of_kind = [answer for answer in measurements.answers if type(answer) is kind]
        if of_kind or entry.always_listed:
            index[entry.listed_as] = [entry.to_json(answer, place, arrays) for place, answer in enumerate(of_kind)]
    return {_INDEX: np.frombuffer(_index_text(index), dtype=np.uint8), **arrays.by_name}


def _head(array: NDArray[Any]) -> bytes:
    """Return what stands before the bytes of an array in a ``.npy`` file, version 1.0, without room to grow."""
    text = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}"
    blanks = -(len(_MAGIC) + 2 + len(text) + 1) % _ALIGNMENT
    return _MAGIC + struct.pack("<H", len(text) + blanks + 1) + text.encode("ascii") + b" " * blanks + b"\n"


def measurements_from_bytes(data: bytes, *, name: str = "measurements.npz") -> Measurements:
    """Read noisy answers back, with their questions.

    Parameters
    ----------
    data : bytes
        The file.
    name : str
        What it is called in messages.

    Raises
    ------
    VerificationError
        If :func:`measurements_to_bytes` would not write this file. Arrays that nothing refers to are refused, as
        missing ones are.
    """
    packed = ExactZip(io.BytesIO(data), name=name, attributes=_ATTRIBUTES)
    try:
        names = [member.removesuffix(".npy") for member in packed.names]
        if len(set(names)) != len(names) or len(data) > _LARGEST:
            raise ValueError
        arrays = {member: _read_array(packed, member) for member in names}
        if not all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
            raise VerificationError(f"{name} contains a number that is not finite.")
        index = json.loads(arrays[_INDEX].tobytes().decode("ascii"))
        if index["format"] != _FORMAT:
            raise ValueError
        listed = [
            (entry, said)
            for entry in ENTRIES.values()
            for said in (index[entry.listed_as] if entry.always_listed else index.get(entry.listed_as, ()))
        ]
        found = Measurements(tuple(entry.from_json(said, arrays) for entry, said in listed), _row_count(index["rows"]))
    except PrivacyError as refusal:
        raise VerificationError(f"{name} cannot be used: {refusal}") from None
    except _UNREADABLE:
        raise VerificationError(f"{name} is damaged, or is not a file of noisy answers.") from None
    _require_nothing_else(packed, _members(found), name)
    return found


def _require_nothing_else(packed: ExactZip, members: dict[str, NDArray[Any]], file: str) -> None:
    """Refuse a file whose members are not, byte for byte and in order, those of the answers that were read."""
    idle = [name for name in packed.names if name.removesuffix(".npy") not in members]
    if idle:
        raise VerificationError(f"{file} contains {len(idle)} arrays that no answer and no question refers to.")
    same = packed.names == tuple(f"{name}.npy" for name in members)
    for name in list(members) if same else ():
        with packed.open(f"{name}.npy") as member:
            same = same and _is_written(member, members.pop(name))
    if not same:
        raise VerificationError(
            f"{file} contains more than its answers and questions, or has them in another order or spelling."
        )


def _is_written(member: IO[bytes], array: NDArray[Any]) -> bool:
    """Whether a member is exactly an array as it is written; compared block by block."""
    body = bytes_of(array)
    blocks = (body[place : place + _BLOCK] for place in range(0, len(body), _BLOCK))
    return all(member.read(len(block)) == block for block in (_head(array), *blocks)) and not member.read(1)


def _index_text(index: Mapping[str, Any]) -> bytes:
    return canonical_line(index).encode("ascii")


def _row_count(body: Mapping[str, Any] | None) -> RowCount | None:
    if body is None:
        return None
    value, noise_std, public = body["value"], body["noise_std"], body["public"]
    if not (isinstance(public, bool) and math.isfinite(value) and math.isfinite(noise_std)):
        raise ValueError
    # A public number may be 0: where cells are protected and all rows of a small table are held out.
    if value < 0 or (value == 0 and not public):
        raise ValueError
    return RowCount(float(value), float(noise_std), public)


def row_count_problems(found: Measurements, schema: Schema, *, holdout: float) -> Iterator[str]:
    """Yield a problem if the file of answers states a number of private rows that it must not state.

    Parameters
    ----------
    found : Measurements
        As they were read from a bundle.
    schema : Schema
        As it was declared.
    holdout : float
        Part of the units that the configuration holds out: the number of rows is the declared number without them.
    """
    rows = found.rows
    if rows is None:
        return
    if schema.rows_are_public:
        exact = rows.public and rows.noise_std == 0 and rows.value == round(rows.value)
        declared = schema.number_of_units if schema.needs_number_of_units else None
        let_out = {len(answer.numbers) for answer in found.answers if isinstance(answer, PerturbedRows)}
        if declared is None:
            exact = exact and let_out <= {rows.value}
        else:
            # There are as many noisy rows as private ones, which may differ from the declared number.
            exact = exact and rows.value == declared - round(holdout * declared) and len(let_out) <= 1
        if not exact:
            yield "measurements.npz does not state the number of rows that was declared public."
        return
    if rows.public:
        yield "measurements.npz states an exact number of rows, which was not declared public."
        return
    counts = [one for one in found.sums if type(one.feature_map) is Constant and one.receipt.part == "train"]
    paid = [
        (max(float(one.value[0]), 1.0), one.noise_std)
        for one in counts
        if one.receipt.query == ROW_COUNT_QUERY and one.receipt.mechanism in SUMS
    ]
    if (rows.value, rows.noise_std) not in paid:
        yield "measurements.npz states a number of rows that is not the noisy one that was charged."


def pairing_problems(
    answers: Iterable[Answer],
    receipts: Sequence[Receipt],
    *,
    name: str = "measurements.npz",
    stated: str = "the certificate",
) -> Iterator[str]:
    """Yield receipts without an answer or with two, answers without their receipt, and those not in order.

    Parameters
    ----------
    answers : iterable of Answer
    receipts : sequence of Receipt
        Of the same session.
    name, stated : str
        In messages: the file of the answers, and where the receipts are stated.
    """
    by_sequence = {receipt.sequence: receipt for receipt in receipts}
    seen: set[int] = set()
    # A file lists the answers of each kind together, as they were asked: another order would be room for something.
    last: dict[type[Answer], int] = {}
    in_order = True
    for kind, receipt in ((type(answer), receipt) for answer in answers for receipt in answer.receipts):
        if by_sequence.get(receipt.sequence) != receipt:
            yield f"The answer to '{receipt.query}' has a different receipt from the one in {stated}."
        if receipt.sequence in seen:
            yield f"{name} contains a second answer to '{receipt.query}', but only one was charged."
        else:
            in_order = in_order and receipt.sequence > last.get(kind, -1)
        seen.add(receipt.sequence)
        last[kind] = receipt.sequence
    if not in_order:
        yield f"{name} lists its answers in another order than that in which they were given."
    for receipt in receipts:
        if receipt.sequence not in seen:
            yield f"{name} lacks the answer to '{receipt.query}'."


def _read_array(packed: ExactZip, name: str) -> NDArray[Any]:
    with packed.open(f"{name}.npy") as member:
        # The header is read first, so that a small file cannot ask for a huge array.
        version = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read_header(member)
        numbers = int(np.prod(shape, dtype=np.float64))
        if by_columns or dtype.kind not in _KINDS or numbers * dtype.itemsize > packed.size(f"{name}.npy"):
            raise ValueError
        array = np.empty(shape, dtype)
        body = bytes_of(array)
        while body:
            read = cast(io.BufferedReader, member).readinto(body)
            if not read:
                raise EOFError
            body = body[read:]
    # Read-only bins and tables are shared with the questions that use them, not copied.
    return frozen(array)
