"""Neighbouring DataFrames, and bugs that let one row of a DataFrame into the lines of others."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.cli import frame_cells, frames
from synth.cli.frames import frame_as_table
from synth.schema import Schema

Row = Mapping[str, Any]


# What pandas makes of the same rows in a table of others --------------------------------------------------------------


def inferred(rows: Sequence[Row]) -> pd.DataFrame:
    """As most are made: each column's type is guessed from all of its cells."""
    return pd.DataFrame(list(rows))


def nullable(rows: Sequence[Row]) -> pd.DataFrame:
    return inferred(rows).convert_dtypes()


def categorical(rows: Sequence[Row]) -> pd.DataFrame:
    """Each column a categorical one, with its rows' values as categories."""
    frame = inferred(rows)
    names = [name for name in frame if not frame[name].map(lambda cell: isinstance(cell, list)).any()]
    return frame.astype(dict.fromkeys(names, "category"))


def joined(rows: Sequence[Row]) -> pd.DataFrame:
    """The first rows typed by themselves, and the last one put behind them, under an index that says so."""
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        return pd.concat([inferred(rows[:-1]), inferred(rows[-1:])], keys=["before", "after"])


def enlarged(rows: Sequence[Row]) -> pd.DataFrame:
    frame = inferred(rows[:-1])
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        frame.loc["somebody new"] = dict(rows[-1])
    return frame


WAYS: dict[str, Callable[[Sequence[Row]], pd.DataFrame]] = {
    made.__name__: made for made in (inferred, nullable, categorical, joined, enlarged)
}


# Rows -----------------------------------------------------------------------------------------------------------------

DAY = datetime.date(2021, 3, 4)


def honest(place: int) -> Row:
    """A row of somebody, whose numbers a 32-bit float, a float and a whole number can all hold, or not."""
    return {
        "person": place + 1,
        "age": 20 + place,
        "income": 250.0 * place,
        "job": (1, 2, 3)[place % 3],
        "visited": pd.Timestamp(DAY) + pd.Timedelta(days=place),
        "smoker": place % 2 == 0,
        "code": 2**53 + place,
        "note": f"CANARY {place}",
    }


NASTY: dict[str, Row] = {
    "nothing": dict.fromkeys(honest(0), None),
    "not a number": dict.fromkeys(honest(0), float("nan")),
    "missing": dict.fromkeys(honest(0), pd.NA),
    "texts": dict.fromkeys(honest(0), "CANARY, \"x'"),
    "line breaks": dict.fromkeys(honest(0), 'a\n1,2,3,4\r\n"'),
    "half a character": dict.fromkeys(honest(0), "\ud800"),
    "floats": dict.fromkeys(honest(0), 1.5),
    "floats of 32 bits": dict.fromkeys(honest(0), np.float32(0.1)),
    "whole numbers": dict.fromkeys(honest(0), 7),
    "far too large": dict.fromkeys(honest(0), 2**62 + 1),
    "decimals": dict.fromkeys(honest(0), Decimal("1.10")),
    "truth values": dict.fromkeys(honest(0), True),
    "dates": dict.fromkeys(honest(0), DAY),
    "another time zone": dict.fromkeys(honest(0), pd.Timestamp("2021-03-04T23:30", tz="America/New_York")),
    "another calendar": dict.fromkeys(honest(0), np.datetime64("20000-01-01")),
    "lists": {name: [1, 2] for name in honest(0)},
}


def lines_of(frame: pd.DataFrame, schema: Schema) -> list[bytes]:
    """The lines of a frame, without its header."""
    return frame_as_table(frame, schema).getvalue().split(b"\n")[1:-1]


# Planted bugs ---------------------------------------------------------------------------------------------------------


def _as_stored(write: Any, cell: Any) -> str:
    return "" if cell != cell else str(cell)


def _told_apart(write: Any, cell: Any) -> str:
    """Whole numbers digit by digit, where they still are whole numbers."""
    return str(int(cell))


def _by_type_of_column(cells: pd.Series[Any], write: Any) -> list[str]:
    return cells.astype(str).tolist()


def _by_categories(cells: pd.Series[Any], write: Any) -> list[str]:
    return cells.map(str).astype("category").cat.codes.map(str).tolist()


def _with_index(cells: pd.Series[Any], write: Any) -> list[str]:
    return [f"{place} {text}" for place, text in zip(cells.index, TEXTS(cells, write), strict=True)]


def _left_out(cells: pd.Series[Any], write: Any) -> list[str]:
    """Cells that cannot be written are left out, so that those behind them move up."""
    written = [text for text in TEXTS(cells, write) if text]
    return written + [""] * (len(cells) - len(written))


def _looked_up(column: Any, times: Any) -> Any:
    """Moments too are looked up among those of other rows."""
    write = WRITER(column, times)
    if write is None:
        return None
    looked_up = partial(_written_by_lookup, lru_cache(maxsize=4096)(write), write)
    looked_up.column = column  # type: ignore[attr-defined]
    return looked_up


def _written_by_lookup(looked_up: Any, write: Any, cell: Any) -> str:
    return str((looked_up if isinstance(cell, pd.Timestamp) and cell is not pd.NaT else write)(cell))


TEXTS, WRITER = frames._texts, frames._writer_of

FAULTS: dict[str, tuple[str, Any]] = {
    "numbers as they are stored": ("numbers", _as_stored),
    "whole numbers told apart beyond 2^53": ("whole numbers", _told_apart),
    "the type of the column decides": ("_texts", _by_type_of_column),
    "places among the categories": ("_texts", _by_categories),
    "the index is written": ("_texts", _with_index),
    "unreadable cells are left out": ("_texts", _left_out),
    "moments are looked up": ("_writer_of", _looked_up),
}

WRITTEN = {"whole numbers": frame_cells._WHOLE_TYPES, "numbers": (*frame_cells._WHOLE_TYPES, *frame_cells._FLOAT_TYPES)}
"""Types of cells, by what a fault changes."""


@contextmanager
def planted(fault: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        name, bug = FAULTS[fault]
        if name in WRITTEN:
            for kind in WRITTEN[name]:
                patch.setitem(frame_cells._ways(), kind, bug)
        else:
            patch.setattr(f"synth.cli.frames.{name}", bug)
        frame_cells._way_of.cache_clear()
        yield
    frame_cells._way_of.cache_clear()
