"""Files of every kind are read, and every refusal is one sentence without a cell."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from json import loads
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synth.config import TableFormat
from synth.encoding import CellCounts
from synth.errors import ConfigError, InputError, SchemaError, TableError
from synth.privacy.reader import EncodedTable, ReaderLimits, inspect_header, read_codes
from synth.privacy.reader_guess import kind_by_name
from synth.privacy.reader_pipes import Request, error_named, read_frame, write_frame
from synth.privacy.reader_process import serve
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
)

CANARY = "Zanzibar-7391846"
"""Stands in cells of every kind; must stand nowhere else."""

SCHEMA = Schema(
    (
        IdentifierColumn("who"),
        NumberColumn("age", 0, 120, 1, missing=True),
        CategoryColumn("town", ("Ayr", "Bath, Avon", "São Paulo"), other=True, missing=True),
        DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), missing=True),
        DropColumn("notes"),
    ),
    PrivacyUnit("person", 2, "who"),
)
HEADER = ["who", "age", "town", "seen", "notes"]
ROWS = [
    [CANARY, "47", "Ayr", "2021-03-04", f"said {CANARY}"],
    ["b", "", "Bath, Avon", "", "two\nlines"],
    [CANARY, "300", CANARY, CANARY, 'a "word"'],
    ["", CANARY, "São Paulo", "1066-10-14", ""],
]
AGES, TOWNS, DAYS = [47, 121, 120, 121], [0, 1, 3, 2], [428, 1827, 1827, 0]


def as_text(
    separator: str = ",",
    *,
    header: bool = True,
    end: str = "\n",
    quoting: int = csv.QUOTE_MINIMAL,
    backwards: bool = False,
) -> str:
    target = io.StringIO()
    writer = csv.writer(target, delimiter=separator, lineterminator=end, quoting=quoting)
    for row in [HEADER, *ROWS] if header else ROWS:
        writer.writerow(row[::-1] if backwards else row)
    return target.getvalue()


def as_parquet(table: pa.Table | None = None, **options: object) -> bytes:
    target = io.BytesIO()
    pq.write_table(
        pa.table(dict(zip(HEADER, zip(*ROWS, strict=True), strict=True))) if table is None else table, target, **options
    )
    return target.getvalue()


PLAIN = as_text().encode()


class Endless(io.RawIOBase):
    """A table without an end, of rows that compress to nothing."""

    def __init__(self, block: bytes, start: bytes = b"") -> None:
        super().__init__()
        self._start = start
        self._block = block

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
            return data
        return self._block[:size]


class Unseekable(io.BytesIO):
    """Bytes that come past once, as from a socket."""

    def seekable(self) -> bool:
        return False


def read(
    data: bytes | BinaryIO, form: TableFormat | None = None, schema: Schema = SCHEMA, **options: object
) -> EncodedTable:
    """Read through the parsing process."""
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    return read_codes(lambda: stream, form or TableFormat(), schema, **options)


def served(
    data: bytes | BinaryIO,
    form: TableFormat | None = None,
    schema: Schema | None = SCHEMA,
    *,
    limits: ReaderLimits | None = None,
    drop_undeclared: bool = False,
) -> dict[str, object]:
    """Read as the parsing process does, in this one: quicker, with the same frames and the same sentences."""
    answers = io.BytesIO()
    request = Request(
        format=form or TableFormat(),
        limits=limits or ReaderLimits(),
        columns=None if schema is None else schema.columns,
        id_column=None if schema is None else schema.unit.id_column,
        drop_undeclared=drop_undeclared,
    )
    request = Request.from_bytes(request.to_bytes())
    serve(request, io.BytesIO(data) if isinstance(data, bytes) else data, answers)
    answers.seek(0)
    bodies = []
    while True:
        kind, body = read_frame(answers)
        if kind == b"E":
            assert not answers.read()
            raise error_named(**{"name": loads(body)["type"], "text": loads(body)["text"]})
        if kind == b"Z":
            return {**loads(body), "bodies": bodies}
        bodies.append(body)


def codes_of(result: dict[str, object], widths: tuple[int, ...] = (1, 1, 2)) -> list[list[int]]:
    columns: list[list[int]] = [[] for _ in widths]
    for body in result["bodies"]:
        rows, place = int.from_bytes(body[:8], "little"), 8
        for column, width in zip(columns, widths, strict=True):
            column += np.frombuffer(body, f"u{width}", rows, place).tolist()
            place += rows * width
    return columns


NO_HEADER = {"header": False, "names": tuple(HEADER)}
HANDLED: dict[str, tuple[bytes, TableFormat]] = {
    "comma": (PLAIN, TableFormat()),
    "semicolon": (as_text(";").encode(), TableFormat()),
    "tab": (as_text("\t").encode(), TableFormat()),
    "tab by kind": (as_text("\t").encode(), TableFormat(kind="tsv")),
    "bar": (as_text("|").encode(), TableFormat()),
    "another separator": (as_text("~").encode(), TableFormat(separator="~")),
    "no header": (as_text(header=False).encode(), TableFormat(**NO_HEADER)),
    "no header, separator by width": (as_text(";", header=False).encode(), TableFormat(**NO_HEADER)),
    "every cell quoted": (as_text(quoting=csv.QUOTE_ALL).encode(), TableFormat()),
    "windows line ends": (as_text(end="\r\n").encode(), TableFormat()),
    "old mac line ends": (as_text(end="\r").replace("two\nlines", "two lines").encode(), TableFormat()),
    "no last line end": (PLAIN.rstrip(), TableFormat()),
    "blank lines": (b"\n\n" + PLAIN.replace(b"\nb,", b"\n\n\nb,") + b"\n\n", TableFormat()),
    "utf-8 mark": (b"\xef\xbb\xbf" + PLAIN, TableFormat()),
    "latin-1": (as_text().encode("latin-1"), TableFormat(encoding="latin-1")),
    "windows-1252": (as_text().encode("cp1252"), TableFormat(encoding="cp1252")),
    "utf-16": (as_text().encode("utf-16"), TableFormat(encoding="utf-16")),
    "utf-16 by its mark": (as_text().encode("utf-16"), TableFormat()),
    "utf-16 big end by its mark": (b"\xfe\xff" + as_text().encode("utf-16-be"), TableFormat()),
    "utf-16 without mark": (as_text().encode("utf-16-le"), TableFormat(encoding="utf-16-le")),
    "comment lines": (b"# made by hand\n# on a day\n" + PLAIN, TableFormat(comment="#")),
    "skipped lines": (b"a,b\n\nc\n" + PLAIN, TableFormat(skip_rows=3)),
    "comments, then skipped lines": (b"|x\nskip me\n" + PLAIN, TableFormat(comment="|", skip_rows=1)),
    "gzip": (gzip.compress(PLAIN), TableFormat()),
    "gzip in two members": (gzip.compress(PLAIN[:50]) + gzip.compress(PLAIN[50:]), TableFormat()),
    "gzip with padding": (gzip.compress(PLAIN) + bytes(512), TableFormat()),
    "gzip of utf-16": (gzip.compress(as_text().encode("utf-16")), TableFormat()),
    "columns in another order": (as_text(backwards=True).encode(), TableFormat()),
    "header with spaces": (PLAIN.replace(b"who,age", b" who , age"), TableFormat()),
    "guarded header": (PLAIN, TableFormat()),
    "parquet": (as_parquet(), TableFormat()),
    "parquet of small groups": (as_parquet(row_group_size=1), TableFormat()),
    "parquet without dictionaries": (as_parquet(use_dictionary=False, compression="zstd"), TableFormat(kind="parquet")),
    "parquet in gzip": (gzip.compress(as_parquet()), TableFormat()),
}


@pytest.mark.parametrize("name", HANDLED)
def test_handled(name: str) -> None:
    data, form = HANDLED[name]
    result = served(data, form)
    assert codes_of(result) == [AGES, TOWNS, DAYS]
    assert result["counts"] == {"age": [1, 1, 1], "town": [0, 0, 1], "seen": [1, 1, 1]}


@pytest.mark.parametrize("name", ["comma", "gzip", "parquet", "parquet in gzip"])
@pytest.mark.parametrize("stream", [io.BytesIO, Unseekable])
def test_handled_by_the_parsing_process(name: str, stream: type[io.BytesIO]) -> None:
    data, form = HANDLED[name]
    table = read(stream(data), form)
    assert (table.n_rows, [codes.tolist() for codes in table.codes.values()]) == (4, [AGES, TOWNS, DAYS])
    assert table.counts["age"] == CellCounts(1, 1, 1)
    assert [str(codes.dtype) for codes in table.codes.values()] == ["uint8", "uint8", "uint16"]
    assert table.unit_hashes is not None
    one, other, same, none = table.unit_hashes.tolist()
    assert one == same
    assert one != other
    assert none == [0] * 16


def test_typed_parquet_columns() -> None:
    table = pa.table(
        {
            "who": pa.array([1.0, 2.0, None, 1.0]),
            "age": pa.array([47, None, 300, None], pa.uint16()),
            "town": pa.array(["Ayr", "Bath, Avon", "?", "São Paulo"]).dictionary_encode(),
            "seen": pa.array([datetime.datetime(2021, 3, 4, 5), None, None, datetime.datetime(1066, 10, 14)]),
            "notes": pa.array([[1], [2], [3], [4]]),
            "__index_level_0__": pa.array([0, 1, 2, 3]),
        }
    )
    result = read(as_parquet(table))
    assert [codes.tolist() for codes in result.codes.values()] == [AGES, TOWNS, DAYS]
    as_text_too = read(b"who,age,town,seen\n1,,,\n2,,,\n,,,\n1,,,\n")
    assert result.unit_hashes is not None
    assert as_text_too.unit_hashes is not None
    np.testing.assert_array_equal(result.unit_hashes, as_text_too.unit_hashes)


def test_ids_are_hashed_with_the_key() -> None:
    one, other = (read(PLAIN, key=key).unit_hashes for key in (b"one", b"other"))
    assert one is not None
    assert other is not None
    assert (one[0] != other[0]).any()
    assert (one[3] == other[3]).all()


def test_parquet_columns_with_odd_names() -> None:
    names = ["a.b", "a", "c d", "=e"]
    schema = Schema(tuple(NumberColumn(name, 0, 9, 1) for name in names))
    table = pa.table({name: [place, 2] for place, name in enumerate(names)})
    assert [codes.tolist() for codes in read(as_parquet(table), schema=schema).codes.values()] == [
        [0, 2],
        [1, 2],
        [2, 2],
        [3, 2],
    ]


def test_guarded_header_is_the_declared_name() -> None:
    schema = Schema((NumberColumn("=e", 0, 9, 1),))
    assert codes_of(served(b"'=e\n3\n", schema=schema), (1,)) == [[3]]


def test_one_column_keeps_its_empty_rows() -> None:
    schema = Schema((NumberColumn("x", 0, 9, 1, missing=True),))
    assert codes_of(served(b'x\n1\n\n""\n2\n', schema=schema), (1,)) == [[1, 10, 10, 2]]


def test_a_long_cell_that_is_left_out_is_no_matter() -> None:
    long = f'b,5,Ayr,,"{"x" * 3 * 2**20}"\n'.encode()
    assert codes_of(served(PLAIN + long + PLAIN.split(b"\n", 1)[1]))[0] == [*AGES, 5, *AGES]


def test_undeclared_columns_can_be_dropped() -> None:
    data = as_text().replace("notes", "more").encode()
    assert codes_of(served(data, drop_undeclared=True)) == [AGES, TOWNS, DAYS]


def test_two_hundred_columns() -> None:
    schema = Schema(tuple(NumberColumn(f"n{place}", 0, 255, 1) for place in range(200)))
    cells = np.random.default_rng(1).integers(0, 256, (300, 200))
    text = ",".join(schema.names) + "\n" + "\n".join(",".join(map(str, row)) for row in cells)
    table = read(text.encode(), schema=schema)
    np.testing.assert_array_equal(np.column_stack(list(table.codes.values())), cells)
    frame = pa.table({name: cells[:, place] for place, name in enumerate(schema.names)})
    again = read(as_parquet(frame), schema=schema)
    np.testing.assert_array_equal(np.column_stack(list(again.codes.values())), cells)


def test_blocks_and_pieces_end_anywhere() -> None:
    rows = [
        [str(place), str(place % 121), 'x "y"\r\nz' * (place % 7), "", "é" * (place % 50)] for place in range(60_000)
    ]
    target = io.StringIO()
    csv.writer(target).writerows([HEADER, *rows])
    data = target.getvalue().encode()
    assert len(data) > 4 * 2**20
    result = served(data)
    assert codes_of(result)[0] == [place % 121 for place in range(60_000)]


SMALL = ReaderLimits(input_bytes=4_000, text_bytes=4_000, rows=3, columns=10, cell_bytes=100)
LONG_TEXT = f"who,age,town,seen,notes\n{CANARY},1,{CANARY * 20},,\n".encode()
MANY_COLUMNS = (",".join(f"{CANARY}{place}" for place in range(20_000)) + "\n").encode()
DAMAGED_PAGES = bytearray(as_parquet(compression="snappy"))
DAMAGED_PAGES[20:200] = bytes(180)

EMPTY = "The file is empty. Send a table with a header and rows."
NOT_UTF_8 = "This does not look like UTF-8 text. Save it as UTF-8 CSV, or name its encoding in the format."
DAMAGED_GZIP = "The gzip file is damaged or cut short. Compress the table again and send the whole file."
DAMAGED_PARQUET = "The Parquet file is damaged or cut short. Save it again and send the whole file."
NESTED = pa.table({"who": ["a"], "age": [1], "town": [{"street": CANARY}], "seen": ["b"]})
OF_TIMES = pa.table({"who": ["a"], "age": [datetime.time(1)], "town": ["a"], "seen": ["b"]})

Case = tuple[bytes | Callable[[], BinaryIO], TableFormat, ReaderLimits | None, str]
REFUSED: dict[str, Case] = {
    "empty file": (b"", TableFormat(), None, EMPTY),
    "only blank lines": (b"\n \n\n", TableFormat(), None, EMPTY),
    "empty gzip": (gzip.compress(b""), TableFormat(), None, EMPTY),
    "only a comment": (b"# x\n", TableFormat(comment="#"), None, EMPTY),
    "header only": (
        ",".join(HEADER).encode(), TableFormat(), None, "The table has a header but no rows. Send the whole table."
    ),
    "parquet header only": (
        as_parquet(pa.table({name: pa.array([], pa.string()) for name in HEADER})), TableFormat(), None,
        "The table has a header but no rows. Send the whole table.",
    ),
    "blank name": (
        PLAIN.replace(b"town", b" "), TableFormat(), None,
        "Column 3 has no name. Give every column a name in the first row.",
    ),
    "repeated name": (
        PLAIN.replace(b"town", b"age"), TableFormat(), None,
        "Two columns are called 'age'. Give each column its own name.",
    ),
    "repeated cell taken for a name": (
        f"{CANARY},7,{CANARY},1,2\n".encode(), TableFormat(), None,
        "Columns 1 and 3 have the same name. Give each column its own name; if the first row is not a header, say so "
        "with 'header: false' and 'names'.",
    ),
    "no declared name": (
        f"{CANARY},7,x,1,2\n".encode(), TableFormat(), None,
        "The first row of the table names none of the declared columns. If the table has no header, say so with "
        "'header: false' and 'names'.",
    ),
    "absent column": (
        PLAIN.replace(b"town", b"city"), TableFormat(), None,
        "The table has no column 'town', which is declared. Add it, or take it out of the declaration.",
    ),
    "two absent columns": (
        f"who,notes,seen\n{CANARY},2,3".encode(), TableFormat(), None,
        "The table has no column 'age', which is declared (and 1 more). Add it, or take it out of the declaration.",
    ),
    "undeclared column": (
        b"more," + PLAIN.replace(b"\n", b"\n1,"), TableFormat(), None,
        "The table has a column 'more' that is not declared. Declare it (type: drop leaves it out), or set "
        "'undeclared: drop'.",
    ),
    "undeclared column that may be a cell": (
        PLAIN.replace(b"notes", b"7"), TableFormat(), None,
        "The table has a column, number 5, that is not declared. Declare it (type: drop leaves it out), or set "
        "'undeclared: drop'.",
    ),
    "rows inside an open quotation mark of the header": (
        f'age,who,town,seen,"notes\n1,b,,,{CANARY}\n'.encode(), TableFormat(), None,
        "The table has a column, number 5, that is not declared. Declare it (type: drop leaves it out), or set "
        "'undeclared: drop'.",
    ),
    "stray quotation mark in the header": (
        f'age,who,town,seen,5" notes\n1,b,,,{CANARY}\n'.encode(), TableFormat(), None,
        "The first row cannot be read. Check its quotation marks.",
    ),
    "short row": (
        PLAIN + f"{CANARY},1\n".encode(), TableFormat(), None,
        "Row 6 has 2 fields; the header has 5. Check its separators and quotation marks.",
    ),
    "long row": (
        PLAIN.replace(b"\nb,", f"\n{CANARY},1,2,3,4,5\nb,".encode()), TableFormat(), None,
        "Row 3 has 6 fields; the header has 5. Check its separators and quotation marks.",
    ),
    "long row after skipped lines": (
        b"#\n\n" + PLAIN.replace(b"\nb,", f"\n{CANARY},1,2,3,4,5\nb,".encode()), TableFormat(skip_rows=1), None,
        "Row 5 has 6 fields; the header has 5. Check its separators and quotation marks.",
    ),
    "short row without a header": (
        as_text(header=False).encode() + f"{CANARY},1\n".encode(), TableFormat(**NO_HEADER), None,
        "Row 5 has 2 fields; 'names' lists 5. Check its separators and quotation marks.",
    ),
    "other width than names": (
        as_text(header=False).encode(), TableFormat(header=False, names=("a", "b")), None,
        "The first row has 5 fields; 'names' lists 2. Check the format.",
    ),
    "quotation mark never closed": (
        PLAIN + f'"{CANARY},1,2,3,4\n'.encode() + b"x" * 10 * 2**20, TableFormat(), None,
        "The table cannot be read after row 5: a row is longer than 4 MB, or a quotation mark is never closed.",
    ),
    "endless first line": (
        lambda: Endless(CANARY.encode() * 1000), TableFormat(), None,
        "The first line is longer than 4 MB. Check that this is a table with one row on each line.",
    ),
    "not utf-8": (
        as_text().encode("latin-1"), TableFormat(), None,
        NOT_UTF_8,
    ),
    "not utf-8 far down": (
        PLAIN + b"b,1,2,,\n" * 300_000 + b"b,1,\xff,,\n", TableFormat(), None,
        NOT_UTF_8,
    ),
    "cut in a character": (
        PLAIN + "é".encode()[:1], TableFormat(), None,
        NOT_UTF_8,
    ),
    "utf-16 unannounced": (
        as_text().encode("utf-16-le"), TableFormat(), None,
        NOT_UTF_8,
    ),
    "not utf-16": (
        PLAIN[:51], TableFormat(encoding="utf-16"), None,
        "This does not look like UTF-16-LE text. Save it as UTF-8 CSV, or name its encoding in the format.",
    ),
    "unknown encoding": (
        PLAIN, TableFormat(encoding="rot13"), None,
        "format: the encoding 'rot13' is not known here. Use utf-8, latin-1 or utf-16.",
    ),
    "cut gzip": (
        gzip.compress(PLAIN)[:-9], TableFormat(), None,
        DAMAGED_GZIP,
    ),
    "damaged gzip": (
        gzip.compress(PLAIN * 50)[:60] + b"xxxx" + gzip.compress(PLAIN * 50)[64:], TableFormat(), None,
        DAMAGED_GZIP,
    ),
    "junk after gzip": (
        gzip.compress(PLAIN) + b"junk", TableFormat(), None,
        DAMAGED_GZIP,
    ),
    "cut parquet": (
        as_parquet()[:-6], TableFormat(), None,
        DAMAGED_PARQUET,
    ),
    "damaged parquet": (
        bytes(DAMAGED_PAGES), TableFormat(), None,
        DAMAGED_PARQUET,
    ),
    "nested parquet": (
        as_parquet(NESTED), TableFormat(), None,
        "Parquet with nested columns is not supported. Flatten 'town' first.",
    ),
    "parquet of times": (
        as_parquet(OF_TIMES), TableFormat(), None,
        "'age' is stored as a type that is not read here. Save it as text first.",
    ),
    "no parquet": (
        PLAIN, TableFormat(kind="parquet"), None,
        "This is not a Parquet file. Check the file, or the kind in the format.",
    ),
    "parquet called csv": (
        as_parquet(), TableFormat(kind="csv"), None,
        "This is a Parquet file, and the format says csv. Set the kind to auto.",
    ),
    "excel": (
        b"PK\x03\x04" + bytes(30), TableFormat(), None,
        "This is a zip or Excel file. Save the table as CSV, TSV (also .gz) or Parquet.",
    ),
    "too large": (
        PLAIN * 50, TableFormat(), SMALL,
        "The file is larger than 3.91 kB, the most this machine reads. Split the table, or ask your administrator "
        "for a higher limit.",
    ),
    "too large inside gzip": (
        gzip.compress(PLAIN * 50), TableFormat(), SMALL,
        "The table inside the gzip file is larger than 3.91 kB, the most this machine reads. Split the table, or ask "
        "your administrator for a higher limit.",
    ),
    "too many rows": (
        PLAIN, TableFormat(), SMALL, "The table has more than 3 rows, the most this machine reads. Split the table."
    ),
    "too many parquet rows": (
        as_parquet(), TableFormat(), SMALL,
        "The table has more than 3 rows, the most this machine reads. Split the table.",
    ),
    "too many columns": (
        MANY_COLUMNS, TableFormat(), None,
        "The table has 20,000 columns; at most 2,000 are read. Leave out columns you do not need.",
    ),
    "too many columns without a header": (
        MANY_COLUMNS, TableFormat(**NO_HEADER), None,
        "The table has 20,000 columns; at most 2,000 are read. Leave out columns you do not need.",
    ),
    "too many parquet columns": (
        as_parquet(pa.table({f"c{place}": [1] for place in range(11)})), TableFormat(), SMALL,
        "The table has 11 columns; at most 10 are read. Leave out columns you do not need.",
    ),
    "long cell": (
        LONG_TEXT, TableFormat(), SMALL,
        "A cell of 'town' is longer than 100 bytes. Leave the column out with type: drop, or shorten its texts.",
    ),
    "long parquet cell": (
        as_parquet(pa.table({"who": ["a"], "age": ["1"], "town": [CANARY * 20], "seen": [""]})), TableFormat(),
        ReaderLimits(cell_bytes=100),
        "A cell of 'town' is longer than 100 bytes. Leave the column out with type: drop, or shorten its texts.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    data, form, limits, sentence = REFUSED[name]
    with pytest.raises(InputError) as caught:
        served(data() if callable(data) else data, form, limits=limits)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ConfigError if name == "unknown encoding" else TableError)
    said = capfd.readouterr()
    assert CANARY not in str(caught.value) + caplog.text + said.out + said.err


@pytest.mark.parametrize("name", ["repeated cell taken for a name", "short row", "damaged parquet", "nested parquet"])
def test_the_process_says_its_sentence_and_nothing_else(name: str, tmp_path: Path) -> None:
    data, form, _, sentence = REFUSED[name]
    assert isinstance(data, bytes)
    question = io.BytesIO()
    request = Request(format=form, limits=ReaderLimits(), columns=SCHEMA.columns, id_column="who")
    write_frame(question, b"Q", request.to_bytes())
    folder = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "synth.privacy.reader"],
        input=question.getvalue() + data,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert ended.returncode == 0
    assert ended.stderr == b""
    assert CANARY.encode() not in ended.stdout
    assert sentence.encode() in ended.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["empty file", "short row", "unknown encoding", "endless first line", "cut parquet"])
def test_refused_by_the_parsing_process(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    data, form, _, sentence = REFUSED[name]
    with pytest.raises(InputError) as caught:
        read(data() if callable(data) else data, form)
    assert str(caught.value) == sentence
    assert CANARY not in caplog.text
    # Nothing of the way there hangs on the error: a traceback printed by a careless caller quotes no cell.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_unusable_pattern_is_an_error_of_the_schema() -> None:
    schema = Schema((DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), pattern="%Q"),))
    with pytest.raises(SchemaError, match="'seen': the pattern '%Q' cannot be used"):
        served(b"seen\n2020-01-01\n", schema=schema)


def test_an_unforeseen_error_is_a_plain_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"could not convert: {CANARY}")

    monkeypatch.setattr("synth.privacy.reader_process.encode_cells", fail)
    with pytest.raises(TableError, match=r"^The table could not be read\. Save it as plain CSV and try again\.$"):
        served(PLAIN)


def test_too_much_processor_time() -> None:
    with pytest.raises(TableError, match="took more than 1 seconds of processor time and was stopped"):
        read(Endless(b"b,1,Ayr,2020-01-01,x\n" * 10_000, PLAIN), limits=ReaderLimits(cpu_seconds=1))


def test_too_much_time() -> None:
    with pytest.raises(TableError, match="took longer than 1 seconds and was stopped"):
        read(Endless(b"b,1,Ayr,2020-01-01,x\n" * 10_000, PLAIN), limits=ReaderLimits(wall_seconds=1))


def test_too_much_memory() -> None:
    # A small file whose one row group unpacks to hundreds of megabytes.
    bomb = pa.table({"who": ["a"], "age": ["1"], "town": ["x" * 900_000], "seen": [""]})
    table = pa.concat_tables([bomb] * 400).combine_chunks()
    data = as_parquet(table, use_dictionary=False, compression="zstd")
    assert len(data) < 2**20
    with pytest.raises(TableError, match="memory"):
        read(data, limits=ReaderLimits(memory_bytes=500 * 2**20))


def test_a_stream_that_fails_says_why_itself() -> None:
    class Broken(Endless):
        def read(self, size: int = -1) -> bytes:
            if not self._start:
                raise TableError("The encrypted table was altered.")
            return super().read(size)

    with pytest.raises(TableError, match="was altered"):
        read(Broken(b"", PLAIN))


def test_the_parsing_process_writes_no_file(tmp_path: Path) -> None:
    probe = (
        "from synth.privacy.reader_process import _limit_resources\n"
        "from synth.privacy.reader_pipes import Request, ReaderLimits\n"
        "from synth.config import TableFormat\n"
        "_limit_resources(Request(format=TableFormat(), limits=ReaderLimits()))\n"
        f"file = open({str(tmp_path / 'x')!r}, 'wb', buffering=0)\n"
        "try:\n    file.write(b'cell')\nexcept OSError:\n    raise SystemExit(7)\n"
    )
    folder = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", probe], cwd=folder, check=False)
    assert ended.returncode == 7
    assert (tmp_path / "x").read_bytes() == b""


def test_the_parsing_process_loads_little() -> None:
    probe = (
        "import sys, synth.privacy.reader_process; raise SystemExit('torch' in sys.modules or 'pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", probe], cwd=Path(__file__).parents[2], check=False).returncode == 0


def test_no_file_is_left_behind() -> None:
    before = set(Path(tempfile.gettempdir()).iterdir())
    read(as_parquet())
    assert {path for path in set(Path(tempfile.gettempdir()).iterdir()) - before if path.is_file()} == set()


def test_results_have_no_text() -> None:
    table = read(PLAIN)
    assert "array" not in repr(table)
    assert "47" not in repr(table)


def test_inspect_names_kinds_and_rows() -> None:
    rows = [
        f"p{place},{place},{'yes' if place % 3 else 'no'},2020-01-{place % 28 + 1:02d},{place % 4}/x,{place}.5 kg\n"
        for place in range(60)
    ]
    text = "subject,years,smoker_at_home,last_visit,area,free\n" + "".join(rows)
    header = inspect_header(io.BytesIO(text.encode()))
    assert header.names == ("subject", "years", "smoker_at_home", "last_visit", "area", "free")
    assert header.kinds == ("identifier", "number", "yes_no", "date", "category", "identifier")
    assert header.n_rows == 60
    assert not header.first_row_is_data


def test_inspect_parquet_types() -> None:
    table = pa.table({"a": [1.5], "b": [True], "c": [datetime.date(2020, 1, 1)], "d": ["x"], "patient_id": [3]})
    header = inspect_header(io.BytesIO(as_parquet(table)))
    assert header.kinds == ("number", "yes_no", "date", "category", "identifier")
    assert header.kinds_by_name == (None, None, None, None, "identifier")


def test_inspect_warns_of_a_first_row_of_cells() -> None:
    assert inspect_header(io.BytesIO(b"39, State-gov, 77516\n50, Private, 83311\n")).first_row_is_data


def test_inspect_refuses_as_reading_does() -> None:
    with pytest.raises(TableError, match="Column 2 has no name"):
        inspect_header(io.BytesIO(b"a,,c\n1,2,3\n"))
    with pytest.raises(TableError, match="Row 3 has 2 fields"):
        served(b"a,b,c\n1,2,3\n4,5\n", schema=None)
    nested = as_parquet(pa.table({"address": [{"street": CANARY}]}))
    with pytest.raises(TableError, match="Flatten 'address' first"):
        served(nested, schema=None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("patient_id", "identifier"), ("firstName", "identifier"), ("E-mail", None), ("date of birth", "date"),
        ("is_smoker", "yes_no"), ("hours-per-week", "number"), ("capital-gain", "number"), ("sex", "category"),
        ("notes", "drop"), ("zzz", None),
    ],
)  # fmt: skip
def test_kinds_by_name(name: str, kind: str | None) -> None:
    assert kind_by_name(name) == kind
