"""Files of every kind are read: separators, encodings, quoting, compression, types."""

from __future__ import annotations

import csv
import datetime
import gzip
import hashlib
import io
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from reading import (
    AGES,
    CANARY,
    DAYS,
    HEADER,
    NO_HEADER,
    PLAIN,
    ROWS,
    TOWNS,
    Unseekable,
    as_parquet,
    as_text,
    codes_of,
    read,
    served,
)

from synth.errors import TableError
from synth.reading import process
from synth.reading.more.xlsx import write_xlsx
from synth.reading.request import Request
from synth.schema import IdentifierColumn, NumberColumn, PrivacyUnit, Schema, TableFormat
from synth.schema.columns.base import CellCounts
from synth.services.inspection import NO_HEADER as NO_HEADER_SENTENCE
from synth.services.inspection import inspect_header, kind_by_name
from synth.system.settings import ReaderLimits

HANDLED: dict[str, tuple[bytes, TableFormat]] = {
    "comma": (PLAIN, TableFormat()),
    "semicolon": (as_text(";").encode(), TableFormat()),
    "tab": (as_text("\t").encode(), TableFormat()),
    "tab by kind": (as_text("\t").encode(), TableFormat(kind="tsv")),
    "bar": (as_text("|").encode(), TableFormat()),
    "another separator": (as_text("~").encode(), TableFormat(separator="~")),
    "no header": (as_text(header=False).encode(), TableFormat(**NO_HEADER)),
    "no header, another separator": (
        as_text(";", header=False).encode(),
        TableFormat(**NO_HEADER | {"separator": ";"}),
    ),
    "no header, tab by kind": (
        as_text("\t", header=False).encode(),
        TableFormat(**NO_HEADER | {"separator": "auto", "kind": "tsv"}),
    ),
    "no header, skipped lines": (b"|x\n\n" + as_text(header=False).encode(), TableFormat(**NO_HEADER, skip_rows=2)),
    "no header, utf-16": (
        as_text(header=False).encode("utf-16-be"),
        TableFormat(**NO_HEADER, encoding="utf-16-be"),
    ),
    "every cell quoted": (as_text(quoting=csv.QUOTE_ALL).encode(), TableFormat()),
    "windows line ends": (as_text(end="\r\n").encode(), TableFormat()),
    "no last line end": (PLAIN.rstrip(), TableFormat()),
    "blank lines above the names": (b"\n \n" + PLAIN, TableFormat()),
    "line breaks in cells": (PLAIN.replace(b"two; lines", b'"two\r\nli, nes\n"'), TableFormat(newlines=True)),
    "line breaks in names": (PLAIN.replace(b",notes", b',"notes\n"'), TableFormat(newlines=True)),
    "utf-8 mark": (b"\xef\xbb\xbf" + PLAIN, TableFormat()),
    "utf-8 mark, no header": (b"\xef\xbb\xbf" + as_text(header=False).encode(), TableFormat(**NO_HEADER)),
    "utf-8 mark in the middle": (PLAIN.replace(b"\nb,", b"\n\xef\xbb\xbfb,"), TableFormat()),
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
    "parquet, its kind declared instead of a header": (as_parquet(), TableFormat(**NO_HEADER, kind="parquet")),
}


@pytest.mark.parametrize("name", HANDLED)
def test_handled(name: str) -> None:
    data, form = HANDLED[name]
    result = served(data, form)
    assert codes_of(result) == [AGES, TOWNS, DAYS]
    assert result["counts"] == {"age": [1, 1, 1], "town": [0, 0, 1], "seen": [1, 1, 1]}
    assert result["lines"] == [0, {}]


# A line of its own between the rows; how many of its lines are blank, and how many unreadable for which reason.
ODD_LINES: dict[str, tuple[bytes, int, dict[str, int]]] = {
    "blank": (b"\n", 1, {}),
    "blank, of Windows": (b"\r\n", 1, {}),
    "nothing but spaces": (b"   \n", 1, {}),
    "tabs and spaces, of Windows": (b"\t \t\r\n", 1, {}),
    "a space in quotation marks": (b'" "\n', 0, {"fewer": 1}),
    "a space that is no ASCII": ("\u00a0\n".encode(), 0, {"fewer": 1}),
    "too few cells": (b"c,5\n", 0, {"fewer": 1}),
    "one cell too many": (f"{CANARY},1,2,3,4,5\n".encode(), 0, {"one more": 1}),
    "too many cells": (f"{CANARY},1,2,3,4,5,6\n".encode(), 0, {"more": 1}),
    "too many cells in quotation marks": (b'"c",1,2,3,4,5,6\n', 0, {"more": 1}),
    "a quotation mark that opens": (b'c,5,Ayr,,"x\n', 0, {"quotation": 1}),
    "text behind a quotation mark": (b'c,5,"Ayr"s,,\n', 0, {"quotation": 1}),
    "a line break in a cell": (b'c,5,Ayr,,"one\ntwo"\n', 0, {"quotation": 1, "fewer": 1}),
    "bytes of another encoding": (b"c,5,S\xe3o Paulo,,\n", 0, {"encoding": 1}),
    "a carriage return alone": (b"c,5\rd,6,,,\n", 0, {"one more": 1}),
    "too long": (b"c,5,Ayr,," + b"x" * 5 * 2**20 + b"\n", 0, {"length": 1}),
    "the names once more": (b"who,age,town,seen,notes\n", 0, {}),
}


@pytest.mark.parametrize("name", ODD_LINES)
def test_an_odd_line_is_a_row_of_malformed_cells_or_none_and_changes_no_other(name: str) -> None:
    line, blank, unreadable = ODD_LINES[name]
    bad = sum(unreadable.values())
    rows = bad + ("once" in name)
    result = served(PLAIN.replace(b"\nb,", b"\n" + line + b"b,"))
    ages, towns, days = codes_of(result)
    place = slice(1, 1 + rows)
    # The town is "other" in a row of names, which is read as any other; all cells of the others are missing.
    assert (ages[place], towns[place], days[place]) == (
        [121] * rows,
        [3 if "once" in name else 4] * rows,
        [1827] * rows,
    )
    for codes, honest in ((ages, AGES), (towns, TOWNS), (days, DAYS)):
        del codes[place]
        assert codes == honest
    assert result["lines"] == [blank, unreadable]
    assert result["counts"]["town"] == [0, bad, 1 + ("once" in name)]
    assert result["counts"]["seen"] == [1, 1 + rows, 1]


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_a_cell_that_is_too_long_is_malformed(kind: str) -> None:
    rows = [[*ROWS[0]], ["b", "2", "Ayr" + " " * 200, "", ""], [*ROWS[2]]]
    limits = ReaderLimits(cell_bytes=100)
    names = dict(zip(HEADER, zip(*rows, strict=True), strict=True))
    text = "\n".join(",".join(row) for row in [HEADER, *rows]).encode()
    result = served(text if kind == "text" else as_parquet(pa.table(names)), limits=limits)
    assert codes_of(result) == [[47, 2, 120], [0, 4, 3], [428, 1827, 1827]]
    assert result["counts"]["town"] == [0, 1, 1]


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_parquet_cell_that_is_no_text_is_malformed(dictionary: bool) -> None:
    towns = pa.array([b"Ayr", b"S\xe3o Paulo", "São Paulo".encode(), None])
    texts = pa.Array.from_buffers(pa.string(), 4, towns.buffers(), 1)
    table = pa.table({"who": ["a"] * 4, "age": [1, 2, 3, 4], "town": texts, "seen": [""] * 4, "notes": [""] * 4})
    result = served(as_parquet(table, use_dictionary=dictionary))
    assert codes_of(result)[1] == [0, 4, 2, 4]
    assert result["counts"]["town"] == [1, 1, 0]


def test_a_text_that_begins_like_another_file_is_read_where_a_row_may_begin_so() -> None:
    form = TableFormat(**NO_HEADER)
    for start in (b"PAR1", b"PK\x03\x04", b"%PDF", b"ORC"):
        data = start + b",47,Ayr,2021-03-04,\n"
        assert codes_of(served(data, form)) == [[47], [0], [428]], start
        with pytest.raises(TableError):
            served(data + PLAIN)


@pytest.mark.parametrize(("data", "blank", "unreadable"), [(b"a,b\n1,2\n\n1,2,3\n", 1, 1), (b"a\n1\n\n2\n", 1, 0)])
def test_a_blank_line_is_no_unreadable_one(data: bytes, blank: int, unreadable: int) -> None:
    names = data.decode().splitlines()[0].split(",")
    schema = Schema(tuple(NumberColumn(name, 0, 9, 1, missing=True) for name in names))
    counts = read(data, schema=schema)._reading
    assert (counts.blank_lines, counts.unreadable_lines) == (blank, unreadable)


@pytest.mark.parametrize("name", ["comma", "gzip", "parquet", "parquet in gzip"])
@pytest.mark.parametrize("stream", [io.BytesIO, Unseekable])
def test_handled_by_the_parsing_process(name: str, stream: type[io.BytesIO]) -> None:
    data, form = HANDLED[name]
    table = read(stream(data), form)
    assert (table._n_rows, [codes.tolist() for codes in table._codes.values()]) == (4, [AGES, TOWNS, DAYS])
    assert table._reading.cells["age"] == CellCounts(1, 1, 1)
    assert [str(codes.dtype) for codes in table._codes.values()] == ["uint8", "uint8", "uint16"]
    assert table._unit_hashes is not None
    one, other, same, none = table._unit_hashes.tolist()
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
    assert [codes.tolist() for codes in result._codes.values()] == [AGES, TOWNS, DAYS]
    as_text_too = read(b"who,age,town,seen\n1,,,\n2,,,\n,,,\n1,,,\n")
    assert result._unit_hashes is not None
    assert as_text_too._unit_hashes is not None
    np.testing.assert_array_equal(result._unit_hashes, as_text_too._unit_hashes)


def test_ids_are_hashed_with_the_key() -> None:
    one, other = (read(PLAIN, key=key)._unit_hashes for key in (b"one", b"other"))
    assert one is not None
    assert other is not None
    assert (one[0] != other[0]).any()
    assert (one[3] == other[3]).all()


@pytest.mark.parametrize("kind", [pa.binary(4), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())])
def test_ids_stored_as_bytes_are_as_many_units_as_there_are(kind: pa.DataType) -> None:
    # Read as texts, those of their bytes that are no UTF-8 would all become the same character.
    ids = [number.to_bytes(4, "big") for number in range(2**31, 2**31 + 1_000)]
    schema = Schema((IdentifierColumn("who"), NumberColumn("x", 0, 9, 1)), PrivacyUnit("person", 1, "who"))
    table = pa.table({"who": pa.array([*ids, *ids], kind), "x": [1] * 2_000})
    hashes = read(as_parquet(table), schema=schema)._unit_hashes
    assert hashes is not None
    np.testing.assert_array_equal(hashes[:1_000], hashes[1_000:])
    assert len(np.unique(hashes, axis=0)) == 1_000


def test_ids_stored_as_bytes_that_are_texts_are_those_texts() -> None:
    schema = Schema((IdentifierColumn("who"), NumberColumn("x", 0, 9, 1)), PrivacyUnit("person", 1, "who"))
    both = [
        read(as_parquet(pa.table({"who": pa.array(["é", " 7 ", "", None], kind), "x": [1] * 4})), schema=schema)
        for kind in (pa.string(), pa.binary())
    ]
    assert both[0]._unit_hashes is not None
    assert both[1]._unit_hashes is not None
    np.testing.assert_array_equal(both[0]._unit_hashes, both[1]._unit_hashes)
    assert both[0]._reading.without_id == 2


def test_ids_of_a_piece_of_parquet_are_hashed_without_those_of_all_other_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[bytes] = []

    class Counting:
        @staticmethod
        def blake2b(data: bytes, **named: Any) -> Any:
            hashed.append(data)
            return hashlib.blake2b(data, **named)

    monkeypatch.setattr(process, "hashlib", Counting)
    everybody = pa.array([f"p{place}" for place in range(1_000)])
    places = [3, 999, None, 3, 0]
    piece = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), everybody)
    request = Request(TableFormat(), ReaderLimits(), key=b"k")
    found = process._unit_hashes(piece, request)
    assert sorted(hashed) == [b"p0", b"p3", b"p999"]
    np.testing.assert_array_equal(found, process._unit_hashes(piece.dictionary_decode(), request))
    assert not found[2].any()


def test_an_id_is_one_unit_in_either_form_of_its_letters() -> None:
    schema = Schema((IdentifierColumn("who"), NumberColumn("x", 0, 9, 1)), PrivacyUnit("person", 1, "who"))
    hashes = read("who,x\nZo\u00eb,1\nZoe\u0308,1\nZoe,1\n".encode(), schema=schema)._unit_hashes
    assert hashes is not None
    assert (hashes[0] == hashes[1]).all()
    assert (hashes[0] != hashes[2]).any()


def test_a_column_has_its_name_in_either_form_of_its_letters() -> None:
    for declared, written in itertools.permutations(("gr\u00f6\u00dfe", "gro\u0308\u00dfe")):
        schema = Schema((NumberColumn(declared, 0, 9, 1),))
        assert codes_of(served(f"{written}\n3\n".encode(), schema=schema), (1,)) == [[3]]
        assert read(as_parquet(pa.table({written: [4]})), schema=schema)._codes[declared].tolist() == [4]


def test_parquet_columns_with_odd_names() -> None:
    names = ["a.b", "a", "c d", "=e"]
    schema = Schema(tuple(NumberColumn(name, 0, 9, 1) for name in names))
    table = pa.table({name: [place, 2] for place, name in enumerate(names)})
    assert [codes.tolist() for codes in read(as_parquet(table), schema=schema)._codes.values()] == [
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


@pytest.mark.parametrize(("width", "rows"), [(200, 300), pytest.param(3_000, 40, marks=pytest.mark.thorough)])
def test_many_columns(width: int, rows: int) -> None:
    schema = Schema(tuple(NumberColumn(f"n{place}", 0, 255, 1) for place in range(width)))
    cells = np.random.default_rng(1).integers(0, 256, (rows, width))
    text = ",".join(schema.names) + "\n" + "\n".join(",".join(map(str, row)) for row in cells)
    table = read(text.encode(), schema=schema)
    np.testing.assert_array_equal(np.column_stack(list(table._codes.values())), cells)
    for kind in ("xlsx", "tsv"):
        lines = [row.split(",") for row in text.split("\n")]
        data = write_xlsx(lines) if kind == "xlsx" else text.replace(",", "\t").encode()
        again = read(data, TableFormat(kind=kind), schema=schema)
        np.testing.assert_array_equal(np.column_stack(list(again._codes.values())), cells)
    frame = pa.table({name: cells[:, place] for place, name in enumerate(schema.names)})
    again = read(as_parquet(frame), schema=schema)
    np.testing.assert_array_equal(np.column_stack(list(again._codes.values())), cells)


def test_blocks_and_pieces_end_anywhere() -> None:
    rows = [
        [str(place), str(place % 121), 'x "y"\r\nz' * (place % 7), "", "é" * (place % 50)] for place in range(60_000)
    ]
    target = io.StringIO()
    csv.writer(target).writerows([HEADER, *rows])
    data = target.getvalue().encode()
    assert len(data) > 4 * 2**20
    result = served(data, TableFormat(newlines=True))
    assert codes_of(result)[0] == [place % 121 for place in range(60_000)]
    assert result["lines"] == [0, {}]
    # Without the declaration each of those lines is a row of its own, and the whole rows are still read.
    lines = served(data)
    assert len(codes_of(lines)[0]) == data.count(b"\n") - 1
    whole = [place % 121 for place in range(60_000) if place % 7 == 0]
    assert [code for code in codes_of(lines)[0] if code != 121] == whole


@pytest.mark.parametrize("module", ["synth.reading.process", "synth.services.inspection"])
def test_the_parsing_process_loads_little(module: str) -> None:
    unwanted = {"torch", "pandas", "http", "urllib.request"}  # what computes, and what opens addresses
    probe = f"import sys, {module}; raise SystemExit(bool({unwanted} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", probe], cwd=Path(__file__).parents[2], check=False).returncode == 0


def test_no_file_is_left_behind() -> None:
    before = set(Path(tempfile.gettempdir()).iterdir())
    read(as_parquet())
    assert {path for path in set(Path(tempfile.gettempdir()).iterdir()) - before if path.is_file()} == set()


def test_results_have_no_text() -> None:
    # All but the address of the object, which has any digits.
    said = repr(read(PLAIN)).partition(" at 0x")[0]
    assert said.startswith("<synth.reading.")
    assert "array" not in said
    assert "47" not in said


def test_inspect_names_kinds_and_rows() -> None:
    rows = [
        f"p{place},{place},{'yes' if place % 3 else 'no'},2020-01-{place % 28 + 1:02d},{place % 4}/x,{place}.5 kg\n"
        for place in range(60)
    ]
    text = "subject,years,smoker_at_home,last_visit,area,free\n" + "".join(rows)
    header = inspect_header(io.BytesIO(text.encode()))
    assert header.names == ("subject", "years", "smoker_at_home", "last_visit", "area", "free")
    assert (header.n_rows, header.blank_lines, header.none_readable) == (60, 0, False)
    # Names alone speak, and other cells say the same.
    kinds = (None, "number", None, None, None, None)
    assert inspect_header(io.BytesIO(text.encode())).kinds == kinds
    other = "subject,years,smoker_at_home,last_visit,area,free\nno,2020-01-01,5,yes,,no\n"
    assert inspect_header(io.BytesIO(other.encode())).kinds == kinds


@pytest.mark.parametrize("line", ['5,a,"1\n', "5\n", "a,b,c,d\n", "1999-01-01,no,7\n"])
def test_no_row_decides_what_a_kind_is_drafted_as(line: str) -> None:
    rows = "".join(f"{place},{place % 3},x{place}\n" for place in range(50))
    with_line, without = (
        inspect_header(io.BytesIO(("amount,patient_id,q7\n" + more + rows).encode())) for more in (line, "")
    )
    assert with_line.kinds == without.kinds == ("number", "identifier", None)
    assert (with_line.n_rows, without.n_rows) == (51, 50)


def test_inspect_counts_blank_lines_and_says_where_no_line_is_a_row() -> None:
    header = inspect_header(io.BytesIO(b"a,b\n1,x\n\n\n2,y\n"))
    assert (header.n_rows, header.blank_lines, header.none_readable) == (2, 2, False)
    header = inspect_header(io.BytesIO(b"a,b\n1;x\n2;y\n\n"))
    assert (header.n_rows, header.blank_lines, header.none_readable) == (2, 1, True)
    header = inspect_header(io.BytesIO(b"a\n1\n\n\n2\n"))
    assert (header.n_rows, header.blank_lines) == (4, 2), "in one column a blank line is a missing cell"
    assert not inspect_header(io.BytesIO(b"a\n\n\n")).none_readable


def test_inspect_parquet_types() -> None:
    table = pa.table({"a": [1.5], "b": [True], "c": [datetime.date(2020, 1, 1)], "d": ["x"], "patient_id": [3]})
    header = inspect_header(io.BytesIO(as_parquet(table)))
    assert header.kinds == ("number", "yes_no", "date", None, "identifier")


@pytest.mark.parametrize(
    "text",
    [
        f"39, {CANARY}, 77516\n50, Private, 83311\n",
        f"39,{CANARY}\n,{CANARY}\n",
        f"{CANARY},x\nb,y\n{CANARY},z\n",
        f"2020-01-01,{CANARY}\n2021-05-06,b\n",
    ],
)
def test_a_first_line_that_looks_like_a_row_is_refused_and_never_shown(text: str) -> None:
    with pytest.raises(TableError) as caught:
        inspect_header(io.BytesIO(text.encode()))
    assert str(caught.value) == NO_HEADER_SENTENCE
    form = TableFormat(header=False, names=tuple("abc"[: text.split("\n")[0].count(",") + 1]), separator=",")
    assert inspect_header(io.BytesIO(text.encode()), form).names == form.names


def test_inspect_refuses_as_reading_does() -> None:
    with pytest.raises(TableError, match="Column 2 has no name"):
        inspect_header(io.BytesIO(b"a,,7\n1,2,3\n"))
    with pytest.raises(TableError, match="Columns 1 and 3 have the same name"):
        served(b"a,7,a\n1,2,3\n4,5\n", schema=None)
    assert served(b"a,b,c\n1,2,3\n4,5\n", schema=None)["lines"] == [0, {"fewer": 1}]
    nested = as_parquet(pa.table({"address": [{"street": CANARY}]}))
    with pytest.raises(TableError, match="'address' holds lists, records or maps"):
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
