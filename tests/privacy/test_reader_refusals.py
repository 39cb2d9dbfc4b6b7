"""Every refusal of the reader is one sentence without a cell, wherever one looks for it."""

from __future__ import annotations

import datetime
import gzip
import io
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest
from reading import (
    CANARY,
    HEADER,
    NO_HEADER,
    PLAIN,
    SCHEMA,
    Endless,
    as_parquet,
    as_text,
    read,
    served,
)

from synth.errors import ConfigError, InputError, SchemaError, TableError
from synth.reading.request import Request
from synth.schema import DateColumn, Schema, TableFormat
from synth.system.conversation import write_frame
from synth.system.settings import ReaderLimits

SMALL = ReaderLimits(input_bytes=4_000, text_bytes=4_000, rows=3, columns=10, cell_bytes=100)
MANY_COLUMNS = (",".join(f"{CANARY}{place}" for place in range(20_000)) + "\n").encode()
DAMAGED_PAGES = bytearray(as_parquet(compression="snappy"))
DAMAGED_PAGES[20:200] = bytes(180)

EMPTY = "The file is empty. Send a table with a header and rows."
NOT_UTF_8 = "This does not look like UTF-8 text. Save it as UTF-8 CSV, or name its encoding in the format."
UNREADABLE_NAMES = (
    "The first line cannot be read. Check its quotation marks; if cells contain line breaks, declare 'newlines: true' "
    "in the format."
)
DAMAGED_GZIP = "The gzip file is damaged or cut short. Compress the table again and send the whole file."
DAMAGED_PARQUET = "The Parquet file is damaged or cut short. Save it again and send the whole file."
NESTED = pa.table({"who": ["a"], "age": [1], "town": [{"street": CANARY}], "seen": ["b"]})
OF_DURATIONS = pa.table({"who": ["a"], "age": [datetime.timedelta(1)], "town": ["a"], "seen": ["b"]})

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
    "blank name beside a number": (
        PLAIN.replace(b"town", b" ").replace(b"age", b"47"), TableFormat(), None,
        "Column 3 has no name. Give every column a name in the first row.",
    ),
    "repeated name in a Parquet file": (
        as_parquet(pa.table([pa.array(["1"])] * 2, names=["age", "age"])), TableFormat(), None,
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
        UNREADABLE_NAMES,
    ),
    "rows inside an open quotation mark of the header, line breaks declared": (
        f'age,who,town,seen,"notes\n1,b,,,{CANARY}\n'.encode(), TableFormat(newlines=True), None,
        UNREADABLE_NAMES,
    ),
    "text behind a closing quotation mark in the header": (
        f'age,who,"town"s,seen,notes\n1,b,,,{CANARY}\n'.encode(), TableFormat(), None,
        UNREADABLE_NAMES,
    ),
    "stray quotation mark in the header": (
        f'age,who,town,seen,5" notes\n1,b,,,{CANARY}\n'.encode(), TableFormat(), None,
        "The table has a column '5\" notes' that is not declared. Declare it (type: drop leaves it out), or set "
        "'undeclared: drop'.",
    ),
    "line ends of an old Macintosh": (
        as_text(end="\r").encode(), TableFormat(), None,
        "The first line contains a carriage return without a line feed. Save the table with the line ends of Windows "
        "or Unix.",
    ),
    "names in another encoding": (
        PLAIN.replace(b"notes", b"\xe9tat"), TableFormat(), None,
        NOT_UTF_8,
    ),
    "endless first line": (
        lambda: Endless(CANARY.encode() * 1000), TableFormat(), None,
        "The first line is longer than 4 MB. Check that this is a table with one row on each line.",
    ),
    "utf-16 unannounced": (
        as_text().encode("utf-16-le"), TableFormat(), None,
        NOT_UTF_8,
    ),
    "not utf-16": (
        PLAIN[:51], TableFormat(encoding="utf-16"), None,
        "This does not look like UTF-16-LE text. Save it as UTF-8 CSV, or name its encoding in the format.",
    ),
    "no header and no separator": (
        as_text(header=False).encode(), TableFormat(header=False, names=tuple(HEADER)), None,
        "format: a table without a header needs its separator; otherwise it could only be guessed from rows. Write for "
        'example separator: ",".',
    ),
    "no header and comments": (
        as_text(header=False).encode(), TableFormat(**NO_HEADER, comment="#"), None,
        "format: 'comment' needs a header; without one a row could be taken for a comment. Use 'skip_rows' to say how "
        "many lines come before the first row.",
    ),
    "a separator that is none": (
        PLAIN, TableFormat(separator='"'), None,
        "format: the separator must be one plain character, for example a comma.",
    ),
    "nothing without a header": (
        b"#\n", TableFormat(**NO_HEADER, skip_rows=1), None, "The file is empty. Send a table with rows.",
    ),
    "unknown encoding": (
        PLAIN, TableFormat(encoding="rot13"), None,
        "format: the encoding 'rot13' is not supported. Use for example utf-8 or latin-1.",
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
        "'town' holds lists, records or maps. Make a column of each value that you need, or leave the column out.",
    ),
    "parquet of durations": (
        as_parquet(OF_DURATIONS), TableFormat(), None,
        "'age' holds durations. Declare it as a number and say in what: 'duration: minutes' (or weeks, days, hours, "
        "seconds, milliseconds).",
    ),
    "no parquet": (
        PLAIN, TableFormat(kind="parquet"), None,
        "This is not a Parquet file. Check the file, or the kind in the format.",
    ),
    "parquet called csv": (
        as_parquet(), TableFormat(kind="csv"), None,
        "This is a Parquet file, but the format says csv. Set the kind to auto.",
    ),
    "old excel": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(30), TableFormat(), None,
        "The workbook is damaged or cut short. Save it again as .xlsx, or as CSV.",
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
        "The table has 20,000 columns; at most 5,000 are read. Leave out columns you do not need.",
    ),
    "too many parquet columns": (
        as_parquet(pa.table({f"c{place}": [1] for place in range(11)})), TableFormat(), SMALL,
        "The table has 11 columns; at most 10 are read. Leave out columns you do not need.",
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
    assert isinstance(caught.value, ConfigError if sentence.startswith("format:") else TableError)
    said = capfd.readouterr()
    assert CANARY not in str(caught.value) + caplog.text + said.out + said.err


@pytest.mark.parametrize(
    "name", ["repeated cell taken for a name", "too many rows", "damaged parquet", "nested parquet"]
)
def test_the_process_says_its_sentence_and_nothing_else(name: str, tmp_path: Path) -> None:
    data, form, limits, sentence = REFUSED[name]
    assert isinstance(data, bytes)
    question = io.BytesIO()
    request = Request(format=form, limits=limits or ReaderLimits(), columns=SCHEMA.columns, id_column="who")
    write_frame(question, b"Q", request.to_bytes())
    folder = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "synth.reading.process"],
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


@pytest.mark.parametrize(
    "name", ["empty file", "no header and no separator", "unknown encoding", "endless first line", "cut parquet"]
)
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
    with pytest.raises(SchemaError, match="'seen': pattern must be like %d/%m/%Y, got %Q"):
        served(b"seen\n2020-01-01\n", schema=schema)


def test_an_unforeseen_error_is_a_plain_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"could not convert: {CANARY}")

    monkeypatch.setattr("synth.reading.process.CellEncoder.encode", fail)
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
        read(data, limits=ReaderLimits(memory_bytes=300 * 2**20))


def test_a_stream_that_fails_says_why_itself() -> None:
    class Broken(Endless):
        def read(self, size: int = -1) -> bytes:
            if not self._start:
                raise TableError("The encrypted table was altered.")
            return super().read(size)

    with pytest.raises(TableError, match="was altered"):
        read(Broken(b"", PLAIN))
