"""A first reading of a table that is not described yet: its names, the number of rows, and likely types of columns.

It is not part of a run. A guess is a single word, from a column's name or type, which are public; what the cells say is
recognised, if the owner asks to look, by :mod:`synth.services.recognition`. Like a run, it reads in a process with
limits on memory and time, which is this module run as a program.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from json import dumps
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synth.errors import TableError
from synth.reading.files import Batches
from synth.reading.more.statistical import Described
from synth.reading.process import main
from synth.reading.reader import ask
from synth.reading.request import Request
from synth.schema import Column, TableFormat
from synth.schema.encoding import NO_DAY, days_of_texts, is_date, is_number, numbers_of_texts, texts_of
from synth.schema.guesses import ColumnKind, kind_by_name
from synth.schema.header import check_names, places_of
from synth.system.conversation import write_frame
from synth.system.machine import cores
from synth.system.settings import ReaderLimits

__all__ = ["LOOKS", "NO_HEADER", "Header", "describe", "inspect_header"]

LOOKED_AT = 10_000
"""Rows at the top of a text that guesses use."""

MOST_LOOKS = max(4, 2 * cores())
"""Files that one process inspects at the same time; more would compete for the same cores and use more memory."""

NO_HEADER = (
    "The first line looks like a row, not like column names, so it is not shown. If it does contain the names, declare "
    "the columns by exactly these names, and it is a header (synth schema TABLE --header drafts them). If it is a row, "
    "write 'header: false', 'separator' and 'names' under 'format' (--format header=false --format separator=, "
    "--format names=age,town)."
)

LOOKS = threading.BoundedSemaphore(MOST_LOOKS)
"""Held by whoever inspects a file."""

_VOUCHED = "vouched"


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about its columns.

    ``kinds`` are guessed from names and from the types of a Parquet file, and are None where neither says anything.
    ``n_rows`` and ``blank_lines`` are exact, so they are for the owner only; so is ``none_readable``, which says that
    no line can be read as a row of this many cells. ``described`` is what a file of SPSS, Stata or SAS says about each
    column. ``renamed`` contains new names of columns, by position from 1, that have no name in the file or a duplicate
    one.
    """

    names: tuple[str, ...]
    kinds: tuple[ColumnKind | None, ...]
    n_rows: int
    renamed: Mapping[int, str] = field(default_factory=dict)
    blank_lines: int = 0
    none_readable: bool = False
    described: tuple[Described, ...] = ()


def inspect_header(
    stream: BinaryIO,
    form: TableFormat | None = None,
    *,
    limits: ReaderLimits | None = None,
    declared: Sequence[Column] = (),
    undeclared: str = "refuse",
    vouched: bool = False,
    beat: Callable[[], None] | None = None,
) -> Header:
    """Read the names of the columns of a table, and count its rows.

    Parameters
    ----------
    stream : binary file
        The bytes of the table.
    form : TableFormat, optional
        The format of the table.
    limits : ReaderLimits, optional
        Limits on the table and on the reading process.
    declared : sequence of Column
        What is declared. If the first line names exactly these, it is a header, whatever else it looks like.
    undeclared : {"refuse", "drop"}
        Whether the first line may name other columns beside them.
    vouched : bool
        Whether the owner vouches that the first line holds names.
    beat : callable, optional
        As in :class:`synth.system.confined.Confined`.

    Raises
    ------
    TableError
        If the file cannot be read to its end as a table, or its first line looks like a row.
    """
    request = Request(
        format=form or TableFormat(),
        limits=limits or ReaderLimits(),
        columns=tuple(declared),
        drop_undeclared=undeclared == "drop",
    )
    with LOOKS:
        parser = ("synth.services.inspection", *([_VOUCHED] if vouched else []))
        end = ask(stream, request, None, parser=parser, beat=beat)
    names, given, rows = tuple(end["names"]), tuple(end["given"]), int(end["rows"])
    blank, unreadable = int(end["lines"][0]), sum(end["lines"][1].values())
    return Header(
        names=names,
        renamed={place: name for place, name in enumerate(names, start=1) if name != given[place - 1]},
        kinds=tuple(_kind(name, kind) for name, kind in zip(names, end["kinds"], strict=True)),
        n_rows=rows,
        blank_lines=blank,
        none_readable=rows > 0 and unreadable == rows and len(names) > 1,
        described=tuple(map(Described.of_list, end["described"])),
    )


def _kind(name: str, by_cells: ColumnKind | None) -> ColumnKind | None:
    """Return the guess from the name if it suggests people or free text, else the guess from the type or cells."""
    by_name = kind_by_name(name)
    return by_name if by_name in {"identifier", "drop"} or by_cells is None else by_cells


# In the parsing process -----------------------------------------------------------------------------------------------


def describe(request: Request, batches: Batches, answers: BinaryIO, *, vouched: bool = False) -> None:
    """Read a table to its end; write the names and likely types of its columns, and count rows and odd lines.

    Cells decide one thing: whether the first line of a text is a row. It is then refused and never shown. A line that
    names the declared columns is none, nor is one that the owner vouches for.

    Raises
    ------
    TableError
        If the file cannot be read to its end, a column is nested, or the first line looks like a row.
    """
    check_names(batches.names)
    missing = request.format.missing
    top: list[pa.Array] | None = None
    rows = 0
    for batch in batches.read(range(len(batches.names))):
        top = top or [cells.slice(0, LOOKED_AT) for cells in batch.columns]
        rows += len(batch.columns[0])
    may_be_row = batches.types is None and request.format.header and not vouched
    may_be_row = may_be_row and not _names_the_declared(request, batches)
    if may_be_row and top is not None and _is_row(batches.given, top, missing):
        raise TableError(NO_HEADER, key="header")
    kinds = [None if batches.types is None else _kind_of_type(kind) for kind in batches.types or batches.names]
    body = {
        "names": batches.names,
        "given": batches.given or batches.names,
        "kinds": kinds,
        "rows": rows,
        "lines": batches.odd_lines,
        "described": [one.to_list() for one in batches.described],
    }
    write_frame(answers, b"Z", dumps(body).encode())


def _names_the_declared(request: Request, batches: Batches) -> bool:
    if not request.columns:
        return False
    try:
        places_of(batches.names, request.columns, drop_undeclared=request.drop_undeclared)
    except TableError:
        return False
    return True


def _is_row(names: Sequence[str], columns: Sequence[pa.Array], missing: tuple[str, ...]) -> bool:
    """Return whether names look like cells: a name occurs in its column, or is a number or date wherever cells are."""
    scales = like_scales = 0
    for name, cells in zip(names, columns, strict=True):
        texts = _present(cells, missing)
        if name and name not in missing and pc.any(pc.equal(texts, name)).as_py():
            return True
        if _is_scale(texts):
            scales += 1
            like_scales += _is_scale(pa.array([name], pa.string()))
    return scales > 0 and scales == like_scales


def _kind_of_type(kind: pa.DataType) -> ColumnKind | None:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_boolean(value):
        return "yes_no"
    if is_date(value):
        return "date"
    return "number" if is_number(value) or pa.types.is_duration(value) else None


def _present(cells: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    texts = pc.utf8_trim_whitespace(texts_of(cells)).drop_null()
    return texts.filter(pc.invert(pc.is_in(texts, value_set=pa.array([*missing, ""], texts.type))))


def _is_scale(texts: pa.Array) -> bool:
    """Whether there are texts, and all of them are numbers or all are dates."""
    if len(texts) == 0:
        return False
    if not np.isnan(numbers_of_texts(texts)).any():
        return True
    return bool((days_of_texts(texts, patterns=(), shortest=10) != NO_DAY).all())


if __name__ == "__main__":
    raise SystemExit(main(partial(describe, vouched=_VOUCHED in sys.argv[1:])))
