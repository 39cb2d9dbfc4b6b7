"""Arrow IPC files and streams, and Feather: a row becomes what it says, and no bytes lead out of the file."""

from __future__ import annotations

import datetime
import io
import random
import struct
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pytest
from mutations import SCHEMA, TALLY, Outcome, codes_of
from test_typed_files import BAD, MUTATIONS, NUMBERS, TEXTS, honest

from synth.errors import TableError
from synth.reading.files import open_batches
from synth.reading.more import arrow
from synth.reading.process import serve
from synth.reading.request import Request
from synth.schema import CategoryColumn, TableFormat
from synth.schema.encoding import texts_of
from synth.services.inspection import inspect_header
from synth.system.settings import ReaderLimits

CANARY = "cell-of-a-person"
DAY = 86_400_000
MOMENTS = (None, 0, 1, -1, 2**62, -(2**62), DAY * 18_500 + 1, DAY * 10**7)
"""Thousandths of a second since 1970, as a date may be stored: also of no day, and beyond every calendar."""

WAYS: dict[str, dict[str, Any]] = {
    "file": {},
    "file, lz4": {"compression": "lz4"},
    "file, texts once": {"once": True},
    "file, views": {"texts": pa.string_view()},
    "stream, zstd": {"compression": "zstd", "stream": True},
}


def ipc(table: pa.Table, *, stream: bool = False, at_once: int = 7, compression: str | None = None) -> bytes:
    target = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(target, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=at_once)
    return target.getvalue()


def texts(cells: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    """Return texts, of which some are not in UTF-8, as a file may hold them."""
    raw = [None if cell is None else b"\xff\xfe" if cell == BAD else cell.encode() for cell in cells]
    plain = pa.array(raw, pa.binary())
    if kind == pa.string_view():
        return plain.cast(pa.binary_view()).view(kind)
    return plain.view(kind)


def file(
    rows: Sequence[tuple[Any, ...]], *, texts_as: pa.DataType | None = None, once: bool = False, **said: Any
) -> bytes:
    who, age, town, seen, well = zip(*rows, strict=True)
    kind = texts_as or pa.string()
    towns = texts(town, kind)
    stored = [
        one if not isinstance(one, datetime.date) else (one - datetime.date(1970, 1, 1)).days * DAY for one in seen
    ]
    table = pa.table({
        "who": texts(who, kind),
        "age": pa.array(age, pa.float64()),
        "town": pa.DictionaryArray.from_arrays(range(len(towns)), towns, safe=False) if once else towns,
        "seen": pa.array(stored, pa.int64()).view(pa.date64()),
        "well": texts([None if one is None else {0.0: "no", 1.0: "yes"}.get(one, str(one)) for one in well], kind),
    })  # fmt: skip
    return ipc(table, **said)


def hostile(random_: random.Random) -> tuple[Any, ...]:
    return tuple(map(random_.choice, (TEXTS, NUMBERS, TEXTS, MOMENTS, NUMBERS)))


def written(name: str, rows: Sequence[tuple[Any, ...]], **more: Any) -> bytes:
    said = dict(WAYS[name])
    return file(rows, texts_as=said.pop("texts", None), **said, **more)


@pytest.mark.parametrize("tried", MUTATIONS)
@pytest.mark.parametrize("name", WAYS)
def test_no_mutation_of_one_row_changes_another(name: str, tried: int) -> None:
    random_ = random.Random(7)
    rows = [honest(random_) for _ in range(30)]
    became = codes_of(written(name, rows), TableFormat(), SCHEMA)
    changed = 0
    for _ in range(tried):
        place, instead = random_.randrange(len(rows)), hostile(random_)
        others = codes_of(written(name, [*rows[:place], instead, *rows[place + 1 :]]), TableFormat(), SCHEMA)
        changed += [*others[:place], *others[place + 1 :]] != [*became[:place], *became[place + 1 :]]
    TALLY[f"arrow {name}, {tried}"] = (tried, changed)
    assert changed == 0


@pytest.mark.parametrize("name", WAYS)
def test_a_row_becomes_the_same_alone_and_in_any_batch(name: str) -> None:
    random_ = random.Random(3)
    rows = [(honest if k % 2 else hostile)(random_) for k in range(16)]
    alone: list[Outcome] = [code for row in rows for code in codes_of(written(name, [row]), TableFormat(), SCHEMA)]
    for at_once in (1, 5, 16):
        assert codes_of(written(name, rows, at_once=at_once), TableFormat(), SCHEMA) == alone


def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all that a batch says is checked, one text in another encoding ends the reading of all rows."""
    data = file([honest(random.Random(1)), (BAD, 1.0, BAD, None, 0.0)])
    assert len(codes_of(data, TableFormat(), SCHEMA)) == 2
    monkeypatch.setattr(arrow, "_require_sound", lambda cells: cells.validate(full=True))
    assert codes_of(data, TableFormat(), SCHEMA) == []


# What is read ---------------------------------------------------------------------------------------------------------


def read(data: bytes, limits: ReaderLimits | None = None) -> dict[str, list[Any]]:
    opened = open_batches(io.BytesIO(data), TableFormat(), limits or ReaderLimits(), ranges=io.BytesIO(data))
    found: dict[str, list[Any]] = {name: [] for name in opened.names}
    for batch in opened.read(range(len(opened.names))):
        for name, column in zip(opened.names, batch.columns, strict=True):
            plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            found[name] += texts_of(plain).to_pylist()
    return found


TYPES = pa.table({
    "texts": [CANARY, "é", None, "bb"],
    "once": pa.array(["x", "y", "x", None]).dictionary_encode(),
    "views": pa.array(["q" * 20, "w", None, "e"], pa.string_view()),
    "views once": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 1], pa.int8()), pa.array(["z" * 30, "y"], pa.string_view())
    ),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array(["a", "b"])),
    "whole": [1, 2, None, 2**62],
    "days": pa.array([datetime.date(2021, 3, 4)] * 4),
})  # fmt: skip
READ = {
    "texts": [CANARY, "é", None, "bb"],
    "once": ["x", "y", "x", None],
    "views": ["q" * 20, "w", None, "e"],
    "views once": ["z" * 30, "y", None, "y"],
    "runs": ["a", "a", "b", "b"],
    "whole": ["1", "2", None, str(2**62)],
    "days": ["2021-03-04"] * 4,
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_files_streams_and_feather_are_read_like_parquet(stream: bool, compression: str | None) -> None:
    assert read(ipc(TYPES, stream=stream, at_once=3, compression=compression)) == READ
    assert inspect_header(io.BytesIO(ipc(TYPES, stream=stream))).names == tuple(READ)


def test_a_dataframe_in_feather() -> None:
    frame = pd.DataFrame(
        {"town": pd.Categorical(["Ayr", "Leith", None]), "week": pd.PeriodIndex(["2024-01-31"] * 3, freq="W-SUN")}
    )
    target = io.BytesIO()
    pyarrow.feather.write_feather(frame, target)
    assert read(target.getvalue()) == {"town": ["Ayr", "Leith", None], "week": ["2024-01-29"] * 3}


# What is refused ------------------------------------------------------------------------------------------------------

WHOLE = ipc(TYPES)
NESTED = pa.table({"town": [{"street": CANARY}]})
DAMAGED = "The Arrow file is damaged or cut short. Save it again and send the whole file."
BOMB = pa.table({"a": pa.array([b"\0" * 2**23] * 3, pa.large_binary())})


@pytest.mark.parametrize(
    ("data", "limits", "sentence"),
    [
        (WHOLE[:-7], None, DAMAGED),
        (WHOLE[: len(WHOLE) // 2], None, DAMAGED),
        (b"ARROW1\0\0" + bytes(200), None, DAMAGED),
        (b"\xff\xff\xff\xff\x40\0\0\0" + bytes(200), None, DAMAGED),
        (ipc(pa.table({})), None, DAMAGED),
        (ipc(NESTED), None, "'town' holds lists, records or maps. Make a column of each value"),
        (ipc(TYPES), ReaderLimits(rows=3), "The table has more than 3 rows, the most this machine reads."),
        (ipc(TYPES), ReaderLimits(columns=6), "The table has 7 columns; at most 6 are read."),
        (ipc(BOMB, compression="zstd"), ReaderLimits(text_bytes=2**20), "The table inside the Arrow file is larger"),
        (b"FEA1" + bytes(40), None, "This is a Feather file of version 1. Save the table as"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_sentence(
    data: bytes, limits: ReaderLimits | None, sentence: str
) -> None:
    with pytest.raises(TableError) as refused:
        read(data, limits)
    assert str(refused.value).startswith(sentence)
    assert CANARY not in str(refused.value)


def test_a_batch_of_endless_rows_without_a_cell_is_too_many() -> None:
    table = pa.table({"a": pa.nulls(10**9)})
    with pytest.raises(TableError, match="more than 120,000,000 rows"):
        read(ipc(table, at_once=10**9))


def test_a_body_that_would_need_all_memory_ends_its_process_with_one_sentence() -> None:
    size = struct.pack("<q", 3 * 2**23)
    small = ipc(BOMB, compression="zstd", at_once=3)
    assert len(small) < 2**14
    assert small.count(size) == 1
    answers = io.BytesIO()
    request = Request(format=TableFormat(), limits=ReaderLimits(), columns=(CategoryColumn("a", ("b",), other=True),))
    serve(request, io.BytesIO(small.replace(size, struct.pack("<q", 2**48))), answers)
    assert b"Reading the table needs more memory than the 4 GB allowed." in answers.getvalue()


@pytest.mark.parametrize("tried", [300, pytest.param(5_000, marks=pytest.mark.thorough)])
def test_bytes_of_a_file_lead_nowhere_but_into_it(tried: int) -> None:
    """Whatever is changed in a file, it is read or refused; a place in memory that is not its own would end us here."""
    random_ = random.Random(tried)
    files = [ipc(TYPES, stream=stream, compression=one) for stream in (False, True) for one in (None, "lz4")]
    refused: list[str] = []
    for _ in range(tried):
        data = bytearray(random_.choice(files))
        for _ in range(random_.choice([1, 1, 2, 5])):
            data[random_.randrange(8, len(data))] = random_.choice([0, 1, 128, 255, random_.randrange(256)])
        try:
            read(bytes(data), ReaderLimits(rows=10**4))
        except TableError as refusal:
            refused.append(str(refusal))
        except MemoryError:  # what its process says in a sentence
            refused.append("")
    assert 0.2 < len(refused) / tried < 0.9
    assert not [sentence for sentence in refused if CANARY in sentence]
