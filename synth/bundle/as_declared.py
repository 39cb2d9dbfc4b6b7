"""The rows of a bundle, written in the declared format of the private table.

``synthetic.csv`` always has the same format: UTF-8, commas, decimal points, ISO dates, empty cells for missing ones.
Programs that read the private table need rows in its own format.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.bundle.archive import open_archive
from synth.bundle.certificate import certificate_of, config_of
from synth.bundle.sheets import Sheet
from synth.bundle.table_files import quoted, read_table, read_units
from synth.errors import ConfigError, TableError
from synth.schema import Column, ModelledColumn, Schema, TableFormat, guarded
from synth.schema.encoding import encode_cells

__all__ = ["rows_as_declared", "tables_as_declared", "write_as_declared"]


def rows_as_declared(bundle: str | Path, *, table: str | None = None) -> bytes:
    """Return the rows of a bundle in the declared format of the private table.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    table : str, optional
        The name of one of two tables that belong together, where there are two.

    Returns
    -------
    bytes
        Of a text file; see :func:`write_as_declared`.

    Raises
    ------
    VerificationError
        If the bundle cannot be read.
    ConfigError
        If it is the bundle of a model, or ``table`` is not one of its two tables.
    TableError
        If a declared value cannot be written in the declared encoding.
    """
    made = tables_as_declared(bundle)
    if table in made:
        return made[table]
    names = " or ".join(f"'{name}'" for name in made if name is not None)
    raise ConfigError(f"Name one of its two tables, {names}." if names else "This is the bundle of one table.")


def tables_as_declared(bundle: str | Path) -> dict[str | None, bytes]:
    """Return what :func:`rows_as_declared` returns, by the name of each of two tables, or by None for the only one."""
    with open_archive(Path(bundle)) as archive:
        certificate_of(archive)
        config = config_of(archive)
        if config.is_model:
            raise ConfigError("This is the bundle of a model, which has no rows.")
        with archive.open("synthetic.csv") as stream:
            codes = read_table(stream, config.schema)
        with archive.open("synthetic.csv") as stream:
            units = read_units(stream, config.schema)
    tables = config.schema.tables
    made: dict[str | None, bytes] = {}
    for table in (None,) if tables is None else (tables.first, tables.second):
        target = io.BytesIO()
        write_as_declared(codes, config.schema, config.format, target, config.seed, units=units, table=table)
        made[table] = target.getvalue()
    return made


def write_as_declared(
    codes: npt.ArrayLike,
    schema: Schema,
    form: TableFormat,
    target: BinaryIO,
    seed: int,
    *,
    units: npt.NDArray[np.int64] | None = None,
    table: str | None = None,
) -> None:
    """Write a synthetic table, or one of two by its name, as text in the declared format of the private one.

    It has the same separator, encoding, header lines, decimal and thousands signs and units, the first of the declared
    date patterns, and the first sign for a missing cell that is not empty. Cells that a column would read as something
    else, and texts that a spreadsheet would take for formulas, are written as in ``synthetic.csv``. What reads the
    private table can read this one.

    Parameters
    ----------
    codes, schema, seed, units, table
        As in :func:`synth.bundle.table_files.write_csv`.
    form : TableFormat
        Format of the private table; of a typed one (a workbook, Parquet) what it says about cells.
    target : BinaryIO

    Raises
    ------
    TableError
        If a declared value cannot be written in the declared encoding, or in the positions of its field.
    """
    sheet = Sheet(codes, schema, units=units, table=table)
    separator = form.separator if form.separator != "auto" else "\t" if form.kind == "tsv" else ","
    beside = _times_beside_dates(sheet.columns)
    names = [column.name for column in sheet.columns if column not in beside.values()]
    names = names if form.header else list(form.names or ())
    if form.row_names is not None:  # the first cell of every row, which the header line leaves out
        names = [form.row_names, *(name for name in names if name != form.row_names)]
    empty = '""' if len(names) == 1 and not form.fields else ""

    def written(text: str) -> str:
        return text if form.fields else quoted(text, separator) or empty

    def cells_of(column: ModelledColumn, found: npt.NDArray[np.int64]) -> pa.Array:
        return pa.array([written(text) for text in _declared_texts(column, found, form)])

    of_name = dict(zip((column.name for column in sheet.columns), sheet.printers(seed, cells_of), strict=True))
    for day, time in beside.items():
        both = np.column_stack([sheet.codes(day), sheet.codes(time)]).astype(np.int64)
        pairs, place = np.unique(both, axis=0, return_inverse=True)
        texts = list(map(written, _moments(day, time, pairs.T, form)))
        of_name[day.name] = partial(_cells, pa.array(texts), place.reshape(-1))
    encoder = codecs.getincrementalencoder(form.codec or "utf-8")()

    def put(text: str) -> None:
        try:
            target.write(encoder.encode(text))
        except UnicodeEncodeError:
            raise TableError(
                f"A declared value or name cannot be written in '{form.encoding}'. Use synthetic.csv, which is UTF-8."
            ) from None

    put("\n" * form.skip_rows + _declared_header(names if form.row_names is None else names[1:], form, separator))
    nothing = pa.scalar(empty)
    if form.row_names is not None:
        of_name.setdefault(form.row_names, _counted)
    for first, last in sheet.pieces():
        cells = [of_name[name](first, last) if name in of_name else pa.repeat(nothing, last - first) for name in names]
        if form.fields:
            cells, separator = _at_positions(cells, form), ""
        lines = pc.binary_join_element_wise(*cells, separator) if len(cells) > 1 else cells[0]
        put("".join(f"{line}\n" for line in lines.to_pylist()))


def _at_positions(cells: list[pa.Array], form: TableFormat) -> list[pa.Array]:
    """Return cells in the order of their fields, filled with spaces up to the next one.

    Raises
    ------
    TableError
        If a declared value is longer than its field, or fields overlap.
    """
    placed = sorted(zip((places for _, *places in form.fields), cells, strict=True), key=lambda one: one[0])
    ends = [first - 1 for (first, _), _ in placed[1:]] + [placed[-1][0][1]]
    before, found = placed[0][0][0] - 1, []
    for ((first, last), texts), end in zip(placed, ends, strict=True):
        if last > end or (pc.max(pc.utf8_length(texts)).as_py() or 0) > last - first + 1:
            raise TableError(
                f"A value does not fit into positions {first} to {last} of a line, as the format declares them. Use "
                "synthetic.csv."
            )
        padded = pc.utf8_rpad(texts, end - first + 1)
        found.append(pc.binary_join_element_wise(" " * before, padded, "") if before else padded)
        before = 0
    return found


def _counted(first: int, last: int) -> pa.Array:
    """Return names of rows where none are released: their numbers, as R names them."""
    return pa.array(map(str, range(first + 1, last + 1)), pa.string())


def _cells(texts: pa.Array, place: npt.NDArray[np.intp], first: int, last: int) -> pa.Array:
    return texts.take(pa.array(place[first:last]))


def _times_beside_dates(columns: Sequence[Column]) -> dict[ModelledColumn, ModelledColumn]:
    """Return the columns of dates whose cells also contain times of day, with the columns of those times."""
    modelled = [column for column in columns if isinstance(column, ModelledColumn)]
    dates = {column.name: column for column in modelled if column.cell_type == "date32"}
    return {dates[one.cells_in]: one for one in modelled if one.cells_in != one.name and one.cells_in in dates}


def _moments(day: ModelledColumn, time: ModelledColumn, codes: npt.NDArray[np.int64], form: TableFormat) -> list[str]:
    """Return cells with a date and a time that are read as the same codes; ``codes`` has shape (2, cells)."""
    alone = dict(zip(np.unique(codes[0]).tolist(), _declared_texts(day, np.unique(codes[0]), form), strict=True))
    found, dates = [], day.cells(codes[0])
    for patterns in (day.patterns or form.dates, ()):
        texts = time.declared_texts_beside(codes[1], dates, patterns)
        read = [encode_cells(one, pa.array(texts, pa.string()), **form.of_cells).codes for one in (day, time)]
        found.append((texts, (read[0] == codes[0]) & (read[1] == codes[1])))
    (wanted, right), (plain, _) = found
    return [
        alone[code] if date is None else one if same else other
        for code, date, one, same, other in zip(codes[0].tolist(), dates, wanted, right, plain, strict=True)
    ]


def _declared_header(names: list[str], form: TableFormat, separator: str) -> str:
    if not form.header:
        return ""
    came = {other: name for name, other in form.rename}
    line = separator.join(quoted(guarded(came.get(name, name)), separator) for name in names) + "\n"
    empty = separator * (len(names) - 1) + "\n"
    place = (form.names_from or 1) - 1
    return empty * place + line + empty * (form.header_rows - 1 - place)


def _declared_texts(column: ModelledColumn, codes: npt.NDArray[np.int64], form: TableFormat) -> list[str]:
    """Return the cells of codes in the declared format, if that is read as the same codes."""
    plain = column.printed_texts(codes)
    wanted = column.declared_texts(codes, form.notation, form.dates)
    if codes.size and codes[-1] == column.missing_code:
        # A sign for missing cells may be a value of this column.
        signs = [text for text in form.missing if text]
        meant = encode_cells(column, pa.array(signs, pa.string()), **form.of_cells).codes
        wanted[-1] = next((sign for sign, code in zip(signs, meant, strict=True) if code == codes[-1]), "")
    read = encode_cells(column, pa.array(wanted, pa.string()), **form.of_cells).codes
    return [one if code == again else other for one, other, code, again in zip(wanted, plain, codes, read, strict=True)]
