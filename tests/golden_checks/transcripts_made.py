"""What a run asks with known noise, and what is forecast of it, as JSON values."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.csv
from golden_cases import configuration, stand_in
from recorded_noise import NoiseCall, RecordedNoise

from synth.bundle.archive import canonical_json
from synth.bundle.measurements import Measurements, measurements_to_bytes
from synth.bundle.table_files import read_table
from synth.privacy.answers import NoisyAnswer, of_kind
from synth.privacy.selection import Selection
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.services import pipeline
from synth.services.planning import forecast_lines

__all__ = ["as_text", "digest", "forecast_of", "transcript_of"]

KEY = bytes(range(32))

TRAINED = ("dp-merf", "dp-hp")
"""Generators whose rows follow from trained weights, which may differ between processors; their answers do not."""


CHOOSING_BY_TRAINED = ("dp-hp-adaptive-several-rows",)
"""Cases that choose by a model of trained weights, so that later choices may differ between processors: they are held
to what they ask up to the first choice, and to what they spend in all."""


def digest(*arrays: np.ndarray) -> str:
    """Hash arrays with their shapes and values, whatever types hold them."""
    found = hashlib.sha256()
    for array in arrays:
        kind = "<i8" if np.issubdtype(array.dtype, np.integer) else "<f8"
        found.update(f"{array.shape} {kind};".encode() + np.ascontiguousarray(array, dtype=kind).tobytes())
    return found.hexdigest()


def table_of(name: str, *, part: str = "train") -> PrivateTable:
    """Open the simulated table of a case from codes, under a known key."""
    config, data = configuration(name), stand_in(name)
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        Path(file.name).write_bytes(data)
        codes = read_table(Path(file.name), config.schema)
    column = config.schema.unit.id_column
    ids = None if column is None else pyarrow.csv.read_csv(io.BytesIO(data))[column].to_pylist()
    by_name = {key: codes[:, place] for place, key in enumerate(config.schema.names)}
    return PrivateTable.from_codes(
        config.schema, by_name, unit_ids=ids, account_key=KEY, holdout=config.holdout, part=part
    )


def transcript_of(name: str) -> dict[str, Any]:
    """Fit and sample with known noise; return every question, receipt and draw, and hashes of what came of them."""
    noise, config = RecordedNoise(7), configuration(name)
    with mock.patch.object(pipeline, "PrivateSession", partial(PrivateSession, noise=noise)):
        holdout = table_of(name, part="holdout") if config.prediction_share else None
        made = pipeline.fit_and_sample(config, table_of(name), NullProgress(), holdout=holdout)
    kept = Measurements(made.answers, made.rows)
    if name in CHOOSING_BY_TRAINED:
        asked = next(place for place, one in enumerate(made.receipts) if one.mechanism == "exponential")
        answers, choice = of_kind(made.answers, NoisyAnswer)[:asked], of_kind(made.answers, Selection)[0]
        return {
            "receipts": [receipt.to_dict() for receipt in made.receipts[: asked + 1]],
            "noise": [_call(call) for call in noise.calls[:asked]],
            "answers": [[one.receipt.query, digest(np.asarray(one.value))] for one in answers],
            "choices": [[choice.receipt.query, choice.index, list(choice.candidate.columns)]],
            "spent": _short(sum(receipt.mu_squared_units for receipt in made.receipts), digits=6),
        }
    return {
        "receipts": [receipt.to_dict() for receipt in made.receipts],
        "noise": [_call(call) for call in noise.calls],
        "answers": [[one.receipt.query, digest(np.asarray(one.value))] for one in of_kind(made.answers, NoisyAnswer)],
        "choices": [
            [one.receipt.query, one.index, list(one.candidate.columns)] for one in of_kind(made.answers, Selection)
        ],
        "rows": [made.rows.value, made.rows.noise_std, made.rows.public],
        "measurements": _members(measurements_to_bytes(kept)),
        "codes": None if config.generator in TRAINED else digest(made.codes),
    }


def _call(call: NoiseCall) -> str:
    scores = f", scores {digest(np.array(call.scores, dtype=np.int64))}" if call.scores else ""
    return f"{call.kind} {call.parameter}, {call.size} numbers{scores}"


def _members(data: bytes) -> dict[str, str]:
    """Hash every member, without what follows from the last bits of a fit: these differ between processors.

    Numbers are rounded to a millionth of the largest of their array, those of the index to nine digits.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        arrays = {name: np.load(io.BytesIO(archive.read(name)), allow_pickle=False) for name in archive.namelist()}
    index = json.loads(arrays.pop("index.npy").tobytes(), parse_float=lambda said: _short(float(said), digits=9))
    found = {"index.npy": hashlib.sha256(canonical_json(index)).hexdigest()}
    return found | {name: digest(_rounded(array)) for name, array in arrays.items()}


def _rounded(array: np.ndarray) -> np.ndarray:
    """Return numbers in whole millionths of the largest; whole numbers as they are."""
    if not np.issubdtype(array.dtype, np.floating):
        return array
    largest = float(np.abs(array).max(initial=0.0)) or 1.0
    return np.rint(array / largest * 1e6).astype(np.int64)


def forecast_of(name: str) -> dict[str, Any]:
    """Return what is forecast before a run, in words and in numbers of ten digits."""
    config = configuration(name)
    made = forecast(config)
    pairs = list(made.pairs)
    return {
        "lines": forecast_lines(config),
        "rows": [_short(made.rows), made.rows_sentence, _short(made.row_count_std)],
        "parts": [[part.name, part.question, _short(part.share)] for part in made.parts],
        "columns": [_cells(one) for one in made.columns],
        "pairs": [_cells(one) for one in pairs],
        "row noise": [made.row_epsilon and _short(made.row_epsilon), len(made.row_noise)],
    }


def _cells(cells: Any) -> str:
    numbers = f"{cells.cells} cells, noise {_short(cells.noise_std)}, moved {_short(cells.moved)}"
    return f"{' by '.join(cells.columns)}: {numbers} ({cells.basis})"


def _short(number: float, *, digits: int = 10) -> str:
    return f"{number:.{digits}g}"


def as_text(value: object) -> str:
    """Write JSON values as the golden files hold them."""
    return canonical_json(value).decode()
