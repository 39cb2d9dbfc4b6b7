"""The noisy answers of a run as ``measurements.npz``: values, the scale of their noise, their questions. Never a draw.

Arrays are plain ``.npy`` members without pickle; ``index`` is a JSON text that ties them to receipts and questions.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError, VerificationError
from synth.privacy.features import Constant, FeatureMap, Fourier, Lookup, OneHot, Product, Stack
from synth.privacy.receipt import Receipt, Release

__all__ = ["measurements_from_bytes", "measurements_to_bytes"]

_FORMAT = 1
_INDEX = "index"
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_KINDS = "iuf"


class _Arrays:
    """Arrays by name, each kept once however many questions use it."""

    def __init__(self) -> None:
        self.by_name: dict[str, NDArray[Any]] = {}
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def name_of(self, array: NDArray[Any] | None) -> str | None:
        if array is None:
            return None
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            self._names[key] = f"table_{len(self._names):04d}"
            self.by_name[self._names[key]] = array
        return self._names[key]


def measurements_to_bytes(releases: Sequence[Release]) -> bytes:
    """Write noisy answers; the same answers give the same bytes.

    Parameters
    ----------
    releases : sequence of Release
        The answers; the feature map of each is written with its tables.
    """
    arrays = _Arrays()
    entries = []
    for place, release in enumerate(releases):
        name = f"answer_{place:04d}"
        arrays.by_name[name] = np.asarray(release.value, dtype="<f8")
        entries.append(
            {
                "answer": name,
                "noise_scale": release.receipt.noise_scale,
                "receipt": release.receipt.to_dict(),
                "question": _describe(release.feature_map, arrays),
            }
        )
    index = json.dumps({"format": _FORMAT, "releases": entries}, sort_keys=True, ensure_ascii=True, allow_nan=False)
    members = {_INDEX: np.frombuffer(index.encode("ascii"), dtype=np.uint8), **arrays.by_name}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in members.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=array.nbytes >= 2**31) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def measurements_from_bytes(data: bytes, *, maximum_numbers: int | None = None) -> tuple[Release, ...]:
    """Read noisy answers back, with their questions.

    Parameters
    ----------
    data : bytes
        The file.
    maximum_numbers : int, optional
        Largest number of entries that one array may have.

    Raises
    ------
    VerificationError
        If it is not a file that :func:`measurements_to_bytes` writes.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [entry.filename.removesuffix(".npy") for entry in archive.infolist()]
            if len(set(names)) != len(names):
                raise ValueError
            arrays = {name: _read_array(archive, name, maximum_numbers) for name in names}
        index = json.loads(arrays[_INDEX].tobytes().decode("ascii"))
        if index["format"] != _FORMAT:
            raise ValueError
        return tuple(_release(entry, arrays) for entry in index["releases"])
    except PrivacyError as refusal:
        raise VerificationError(f"measurements.npz cannot be used: {refusal}") from None
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, RecursionError):
        raise VerificationError("measurements.npz is damaged or not a file of noisy answers.") from None


def _release(entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Release:
    receipt = Receipt.from_dict(entry["receipt"])
    if entry["noise_scale"] != receipt.noise_scale:
        raise PrivacyError(f"the noise of '{receipt.query}' differs from its receipt.")
    return Release(receipt, arrays[entry["answer"]], _remake(entry["question"], arrays))


def _read_array(archive: zipfile.ZipFile, name: str, maximum_numbers: int | None) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as member:
        # The header is read first, so that a small file cannot ask for a huge array.
        version = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(member)
    numbers = int(np.prod(shape, dtype=np.float64))
    declared = archive.getinfo(f"{name}.npy").file_size
    if dtype.kind not in _KINDS or numbers * dtype.itemsize > declared:
        raise ValueError
    if maximum_numbers is not None and name != _INDEX and numbers > maximum_numbers:
        raise ValueError
    with archive.open(f"{name}.npy") as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array


def _describe(question: object, arrays: _Arrays) -> dict[str, Any]:
    if isinstance(question, OneHot):
        bins = [arrays.name_of(one) for one in question.bins]
        return {"map": "one_hot", "columns": list(question.columns), "sizes": list(question.sizes), "bins": bins}
    if isinstance(question, Lookup):
        table, bins_name = arrays.name_of(question.table), arrays.name_of(question.bins)
        return {"map": "lookup", "column": question.column, "table": table, "bins": bins_name}
    if isinstance(question, Fourier):
        places = [arrays.name_of(one) for one in question.positions]
        frequencies = arrays.name_of(question.frequencies)
        return {"map": "fourier", "columns": list(question.columns), "positions": places, "frequencies": frequencies}
    if isinstance(question, Stack):
        parts = [_describe(part, arrays) for part in question.parts]
        return {"map": "stack", "parts": parts, "weights": list(question.weights)}
    if isinstance(question, Product):
        return {"map": "product", "factors": [_describe(factor, arrays) for factor in question.factors]}
    if isinstance(question, Constant):
        return {"map": "constant"}
    raise PrivacyError("A question outside the closed set of feature maps cannot be written.")


def _remake(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FeatureMap:
    return _MAKERS[body["map"]](body, arrays)


def _optional(name: str | None, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    return None if name is None else arrays[name]


def _one_hot(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> OneHot:
    bins = tuple(_optional(name, arrays) for name in body["bins"])
    return OneHot(tuple(map(str, body["columns"])), bins, tuple(map(int, body["sizes"])))


def _lookup(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Lookup:
    return Lookup(str(body["column"]), arrays[body["table"]], _optional(body["bins"], arrays))


def _fourier(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Fourier:
    places = tuple(arrays[name] for name in body["positions"])
    return Fourier(tuple(map(str, body["columns"])), places, arrays[body["frequencies"]])


def _stack(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Stack:
    return Stack(tuple(_remake(part, arrays) for part in body["parts"]), tuple(map(float, body["weights"])))


def _product(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Product:
    return Product(tuple(_remake(factor, arrays) for factor in body["factors"]))


def _constant(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Constant:
    return Constant()


_MAKERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], FeatureMap]] = {
    "one_hot": _one_hot,
    "lookup": _lookup,
    "fourier": _fourier,
    "stack": _stack,
    "product": _product,
    "constant": _constant,
}
