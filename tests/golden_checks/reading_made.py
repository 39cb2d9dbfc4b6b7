"""What a fixed file becomes: codes, the split, and the table that is written of the codes again, as JSON values."""

from __future__ import annotations

import hashlib
import io
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from synth.bundle.table_files import write_csv, write_parquet
from synth.privacy.table import holdout_rows, kept_rows, place_hashes, row_hashes
from synth.reading.reader import EncodedTable, read_codes, with_id
from synth.schema import Schema, TableFormat, load_config

__all__ = ["everything"]

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "reading"
KEYS = {"ascending": bytes(range(32)), "sevens": bytes([7]) * 32}
FORM = TableFormat(separator=",", kind="csv", missing=("", "NA"))


def schema() -> Schema:
    return load_config(FOLDER / "config.yaml").schema


def encoded() -> EncodedTable:
    data = (FOLDER / "table.csv").read_bytes()
    return read_codes(lambda: io.BytesIO(data), FORM, schema(), key=KEYS["sevens"])


def typed() -> EncodedTable:
    """Read cells that are numbers, truth values and dates already, from Parquet."""
    days = np.array(["2020-01-14", "2021-05-06", "NaT", "2030-01-01"], dtype="datetime64[D]")
    columns = {
        "id": pa.array(["a", "b", None, "a"]),
        "whole": pa.array([1, -4, None, 500], pa.int64()),
        "half": pa.array([20.25, float("nan"), -1.0, 1e300], pa.float64()),
        "tenth": pa.array([0.05, -0.05, 0.15, None], pa.float32()),
        "large": pa.array([2**53, 2**30 - 1, 2**29, None], pa.int64()),
        "word": pa.array(["north", "N", None, "?"]).dictionary_encode(),
        "closed": pa.array(["low", "high", None, "?"]),
        "open": pa.array([1, 2, 3, None], pa.int32()),
        "smoker": pa.array([True, False, None, True]),
        "digit": pa.array([1, 0, None, 2], pa.int8()),
        "day": pa.array(days.astype("datetime64[s]").astype("datetime64[us]")),
        "month": pa.array(days),
        "year": pa.array(["06.05.2021", "x", None, "01.01.1990"]),
        "note": pa.array([None] * 4, pa.string()),
    }
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    data = buffer.getvalue()
    return read_codes(lambda: io.BytesIO(data), TableFormat(kind="parquet"), schema(), key=KEYS["sevens"])


def read_again(table: EncodedTable) -> dict[str, Any]:
    """Return every code, what became of cells and lines, and the hashes of ids."""
    assert table._unit_hashes is not None
    fates = {name: list(astuple(counts)) for name, counts in table._reading.cells.items()}
    return {
        "codes": {name: " ".join(map(str, codes)) for name, codes in table._codes.items()},
        "types": {name: str(codes.dtype) for name, codes in table._codes.items()},
        "cells": fates,
        "lines": [table._n_rows, table._reading.blank_lines, table._reading.unreadable_lines],
        "ids": hashlib.sha256(table._unit_hashes.tobytes()).hexdigest(),
    }


def split_again(table: EncodedTable) -> dict[str, str]:
    """Return which rows are kept and held out under fixed keys, one character a row."""
    assert table._unit_hashes is not None
    of_id = table._unit_hashes[with_id(table._unit_hashes)]
    found = {}
    for name, key in KEYS.items():
        for most in (1, 2, 3):
            found[f"kept of {most}, {name}"] = _mask(kept_rows(of_id, rows_per_unit=most, account_key=key))
        rows = row_hashes([table._codes[column] for column in schema().names], account_key=key)
        found[f"row hashes, {name}"] = hashlib.sha256(rows.tobytes()).hexdigest()
        for kind, hashes in {"ids": of_id, "rows": rows, "places": place_hashes(table._n_rows)}.items():
            for share in (0.2, 0.5):
                for units in (None, 25):
                    held = holdout_rows(hashes, share=share, n_units=units, account_key=key)
                    found[f"held out {share} of {units} {kind}, {name}"] = _mask(held)
    return found


def _mask(rows: np.ndarray) -> str:
    return "".join("x" if row else "." for row in rows)


def written_again(table: EncodedTable) -> dict[str, str]:
    """Return the CSV that is written of the codes, and the hash of the Parquet file."""
    declared = schema()
    codes = np.stack([table._codes[name].astype(np.int64) for name in declared.names], axis=1)
    csv, parquet = io.BytesIO(), io.BytesIO()
    write_csv(codes, declared, csv, 3)
    write_parquet(codes, declared, parquet, 3)
    return {"csv": csv.getvalue().decode(), "parquet": hashlib.sha256(parquet.getvalue()).hexdigest()}


def everything() -> dict[str, Any]:
    """Return all of it."""
    table, cells = encoded(), typed()
    return {
        "read": read_again(table),
        "split": split_again(table),
        "written": written_again(table),
        "typed": read_again(cells),
        "typed, written": written_again(cells),
    }
