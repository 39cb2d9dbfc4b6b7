"""The noisy answers of a run as ``measurements.npz``: values, the scale of their noise, their questions. Never a draw.

Arrays are plain ``.npy`` members without pickle; ``index`` is a JSON text that ties them to receipts and questions.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.bundle.archive import MEMBER_LIMIT, ExactZip, new_entry
from synth.errors import PrivacyError, VerificationError
from synth.privacy.answers import RowCount
from synth.privacy.descriptions import describe, from_description
from synth.privacy.features import FeatureMap, Lookup
from synth.privacy.more.row_plans import ROW_NOISES, RowsQuestion
from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.receipt import NoisyAnswer, Receipt
from synth.privacy.selection import Candidate, Selection

__all__ = ["Measurements", "measurements_from_bytes", "measurements_to_bytes"]

_FORMAT = 1
_INDEX = "index"
_ATTRIBUTES = 0o600
_KINDS = "iuf"
_UNREADABLE = (ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""What numpy and json raise on files that are not what they seem."""

_LARGEST = 4 * 2**30
"""Bytes of all arrays together; 2^27 noisy numbers, the most one question may have, are a quarter of it."""


class _Arrays:
    """Arrays by name, each kept once however many questions use it."""

    def __init__(self) -> None:
        self.by_name: dict[str, NDArray[Any]] = {}
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, array: NDArray[Any]) -> str:
        """Keep an array and return the name under which it is kept."""
        key = (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._names:
            self._names[key] = f"table_{len(self._names):04d}"
            self.by_name[self._names[key]] = array
        return self._names[key]


@dataclass(frozen=True, slots=True)
class Measurements:
    """All that a run learned about the private rows.

    ``rows`` is what the session said about their number: public, or measured with noise; None where it is not known.
    """

    releases: tuple[NoisyAnswer, ...]
    selections: tuple[Selection, ...] = ()
    rows: RowCount | None = None
    row_releases: tuple[PerturbedRows, ...] = ()


def measurements_to_bytes(measurements: Measurements) -> bytes:
    """Write noisy answers and private choices; the same answers give the same bytes."""
    return _packed(_members(measurements))


def _members(measurements: Measurements) -> dict[str, NDArray[Any]]:
    """Return every array of the file by name, the index first."""
    arrays = _Arrays()
    releases = []
    for place, release in enumerate(measurements.releases):
        name = f"answer_{place:04d}"
        arrays.by_name[name] = np.asarray(release.value, dtype="<f8")
        question, tables = _described(release)
        releases.append(
            {
                "answer": name,
                "noise_scale": release.receipt.noise_scale,
                "receipt": release.receipt.to_dict(),
                "question": question,
                "tables": {key: arrays.add(table) for key, table in tables.items()},
            }
        )
    index = {
        "format": _FORMAT,
        "rows": None if measurements.rows is None else asdict(measurements.rows),
        "releases": releases,
        "selections": [_selection_to_dict(selection, arrays) for selection in measurements.selections],
    }
    if measurements.row_releases:
        index["row_releases"] = [
            _rows_to_dict(place, release, arrays) for place, release in enumerate(measurements.row_releases)
        ]
    return {_INDEX: np.frombuffer(_index_text(index), dtype=np.uint8), **arrays.by_name}


def _selection_to_dict(selection: Selection, arrays: _Arrays) -> dict[str, Any]:
    candidate = selection.candidate
    return {
        "receipt": selection.receipt.to_dict(),
        "index": selection.index,
        "columns": list(candidate.columns),
        "table": arrays.add(candidate.table),
        "weight": candidate.weight,
        "penalty": candidate.penalty,
        "bins": [None if one is None else arrays.add(one) for one in candidate.bins],
    }


def _rows_to_dict(place: int, release: PerturbedRows, arrays: _Arrays) -> dict[str, Any]:
    names = {"numbers": f"rows_{place:04d}", "labels": f"labels_{place:04d}"}
    arrays.by_name[names["numbers"]] = _smallest(release.numbers)
    if release.labels is not None:
        arrays.by_name[names["labels"]] = _smallest(release.labels)
    tables = [describe(table) for table in release.question.tables]
    return {
        "receipts": [receipt.to_dict() for receipt in release.receipts],
        "numbers": names["numbers"],
        "labels": None if release.labels is None else names["labels"],
        "label": release.question.label,
        "noise": release.question.noise,
        "question": [question for question, _ in tables],
        "tables": [{key: arrays.add(table) for key, table in held.items()} for _, held in tables],
    }


def _smallest(whole: NDArray[np.int64]) -> NDArray[Any]:
    """Return whole numbers in the smallest type that holds them: noisy rows are as many as the table has cells."""
    low, high = (int(whole.min()), int(whole.max())) if whole.size else (0, 0)
    kinds = ("<i1", "<i2", "<i4", "<i8")
    return whole.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


def _packed(members: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in members.items():
            entry = new_entry(f"{name}.npy", attributes=_ATTRIBUTES)
            with archive.open(entry, "w", force_zip64=array.nbytes >= MEMBER_LIMIT) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def measurements_from_bytes(data: bytes) -> Measurements:
    """Read noisy answers back, with their questions.

    Parameters
    ----------
    data : bytes
        The file.

    Raises
    ------
    VerificationError
        If it is not a file that :func:`measurements_to_bytes` writes, up to how its members are deflated: arrays that
        nothing refers to are refused like those that are missing.
    """
    packed = ExactZip(io.BytesIO(data), name="measurements.npz", attributes=_ATTRIBUTES)
    try:
        names = [entry.filename.removesuffix(".npy") for entry in packed.entries]
        if len(set(names)) != len(names) or sum(entry.file_size for entry in packed.entries) > _LARGEST:
            raise ValueError
        arrays = {name: _read_array(packed, name) for name in names}
        index = json.loads(arrays[_INDEX].tobytes().decode("ascii"))
        if index["format"] != _FORMAT:
            raise ValueError
        found = Measurements(
            tuple(_release(entry, arrays) for entry in index["releases"]),
            tuple(_selection(entry, arrays) for entry in index["selections"]),
            _row_count(index["rows"]),
            tuple(_rows(entry, arrays) for entry in index.get("row_releases", ())),
        )
    except PrivacyError as refusal:
        raise VerificationError(f"measurements.npz cannot be used: {refusal}") from None
    except _UNREADABLE:
        raise VerificationError("measurements.npz is damaged or not a file of noisy answers.") from None
    packed.require_exact()
    _require_nothing_else(packed, _members(found))
    return found


def _require_nothing_else(packed: ExactZip, members: dict[str, NDArray[Any]]) -> None:
    """Refuse members that are not, byte for byte and in order, those of the answers that were read."""
    names = [entry.filename for entry in packed.entries]
    idle = [name for name in names if name.removesuffix(".npy") not in members]
    if idle:
        raise VerificationError(f"measurements.npz holds {len(idle)} arrays that no answer and no question refers to.")
    same = names == [f"{name}.npy" for name in members]
    for name in list(members) if same else ():
        array = members.pop(name)
        with packed.open(f"{name}.npy") as member:
            written = member.read()
        if name == _INDEX:
            array = _rewritten(written, array)
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
        same = same and written == head.getvalue() + array.tobytes()
    if not same:
        raise VerificationError("measurements.npz holds more than its answers and questions, or in another order.")


def _rewritten(written: bytes, expected: NDArray[Any]) -> NDArray[Any]:
    """Return the index as it was written if it says what it should: 3 and 3.0 are the same number."""
    said = np.lib.format.read_array(io.BytesIO(written), allow_pickle=False).tobytes()
    document = json.loads(said)
    if document != json.loads(expected.tobytes()):
        return expected
    return np.frombuffer(_index_text(document), dtype=np.uint8)


def _index_text(index: Mapping[str, Any]) -> bytes:
    return json.dumps(index, sort_keys=True, ensure_ascii=True, allow_nan=False).encode("ascii")


def _release(entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NoisyAnswer:
    receipt = Receipt.from_dict(entry["receipt"])
    if entry["noise_scale"] != receipt.noise_scale:
        raise PrivacyError(f"the noise of '{receipt.query}' differs from its receipt.")
    tables = {str(key): arrays[name] for key, name in entry["tables"].items()}
    return NoisyAnswer(receipt, arrays[entry["answer"]], from_description(entry["question"], tables))


def _selection(entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Selection:
    candidate = Candidate(
        columns=tuple(map(str, entry["columns"])),
        table=arrays[entry["table"]],
        weight=float(entry["weight"]),
        penalty=float(entry["penalty"]),
        bins=tuple(None if name is None else arrays[name] for name in entry["bins"]),
    )
    return Selection(Receipt.from_dict(entry["receipt"]), int(entry["index"]), candidate)


def _rows(entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> PerturbedRows:
    tables = [
        from_description(question, {str(key): arrays[name] for key, name in names.items()})
        for question, names in zip(entry["question"], entry["tables"], strict=True)
    ]
    label, noise = entry["label"], entry["noise"]
    numbers, labels = (None if entry[key] is None else arrays[entry[key]] for key in ("numbers", "labels"))
    found = [array for array in (numbers, labels) if array is not None]
    if not all(isinstance(table, Lookup) for table in tables) or any(array.dtype.kind != "i" for array in found):
        raise ValueError
    if numbers is None or (label is None) != (labels is None) or noise not in ROW_NOISES:
        raise ValueError
    question = RowsQuestion(
        tuple(table for table in tables if isinstance(table, Lookup)),
        None if label is None else str(label),
        noise=noise,
    )
    return PerturbedRows(tuple(map(Receipt.from_dict, entry["receipts"])), question, numbers, labels)


def _row_count(body: Mapping[str, Any] | None) -> RowCount | None:
    if body is None:
        return None
    value, noise_std, public = body["value"], body["noise_std"], body["public"]
    if not (isinstance(public, bool) and math.isfinite(value) and math.isfinite(noise_std)):
        raise ValueError
    # A public number may be none: where one cell is hidden, and every row of a small table is held out.
    if value < 0 or (value == 0 and not public):
        raise ValueError
    return RowCount(float(value), float(noise_std), public)


def _described(release: NoisyAnswer) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if not isinstance(release.feature_map, FeatureMap):
        raise PrivacyError(f"The question '{release.receipt.query}' is not a feature map of the closed set.")
    return describe(release.feature_map)


def _read_array(packed: ExactZip, name: str) -> NDArray[Any]:
    with packed.open(f"{name}.npy") as member:
        # The header is read first, so that a small file cannot ask for a huge array.
        version = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(member)
    numbers = int(np.prod(shape, dtype=np.float64))
    if dtype.kind not in _KINDS or numbers * dtype.itemsize > packed.size(f"{name}.npy"):
        raise ValueError
    with packed.open(f"{name}.npy") as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array
