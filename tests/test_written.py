"""How a table is written: encodings, lines of names, and notations of numbers and dates, each cell by itself."""

from __future__ import annotations

import codecs
import datetime
import io
from pathlib import Path

import pyarrow as pa
import pytest

from synth.cli import main
from synth.cli.files import format_of
from synth.errors import ConfigError, SchemaError, TableError
from synth.schema import (
    ENCODINGS,
    CategoryColumn,
    DateColumn,
    DateStep,
    ModelledColumn,
    NumberColumn,
    Schema,
    TableFormat,
    YesNoColumn,
    format_to_mapping,
    load_config,
    parse_column,
    parse_format,
)
from synth.schema.encoding import encode_cells, invented_cells_of, plain_numbers
from synth.schema.header import joined_names, public_names
from synth.schema.written import _CODECS, Notation
from synth.services.inspection import inspect_header

AMOUNT = NumberColumn("amount", 0, 5_000, 0.5, missing=True)


@pytest.mark.parametrize("codec", sorted(_CODECS))
def test_lines_of_every_encoding_are_told_apart_before_they_are_decoded(codec: str) -> None:
    if codec.startswith("utf-16"):
        return  # cut by units
    for sign in b'\n\r"':
        assert bytes([sign]).decode(codec) == chr(sign)
        for before in range(256):
            for lead in (b"", b"\x81", b"\x8e", b"\x810\x81", b"\x8f\xa1"):
                data = lead + bytes([before, sign])
                text = data.decode(codec, "ignore")
                # Either nothing of it is text, or the sign is one by itself: no character takes it in.
                try:
                    text = data.decode(codec)
                except UnicodeError:
                    continue
                assert text.endswith(chr(sign)), (data, text)
                assert text == data[:-1].decode(codec) + chr(sign)
    for high in range(128, 256):
        assert not set(bytes([high]).decode(codec, "ignore")) & set('\n\r",;\t|')


@pytest.mark.audit
@pytest.mark.parametrize("codec", sorted(name for name in _CODECS if not name.startswith("utf-16")))
def test_no_two_bytes_take_the_sign_behind_them_in(codec: str) -> None:
    """All pairs of bytes, and of the only encoding with four bytes a character all its threes that begin one."""
    leads = [bytes((first, second)) for first in range(256) for second in range(256)]
    if codec == "gb18030":
        leads += [
            bytes((first, second, third))
            for first in range(0x81, 0xFF)
            for second in range(0x30, 0x3A)
            for third in range(0x81, 0xFF)
        ]
    for sign in (b"\n", b"\r", b'"'):
        for lead in leads:
            try:
                text = (lead + sign).decode(codec)
            except UnicodeError:
                continue
            assert text == lead.decode(codec) + chr(sign[0]), (lead, sign)


def test_names_of_rows_need_a_header_line_that_leaves_them_out() -> None:
    form = parse_format({"row_names": "row"})
    assert format_to_mapping(form) == {**format_to_mapping(TableFormat()), "row_names": "row"}
    assert inspect_header(io.BytesIO(b"a,b\nfirst,1,2\nsecond,3,4\n"), form).names == ("row", "a", "b")
    for other in ({"header": False, "names": ["a"]}, {"kind": "parquet"}, {"kind": "xlsx"}):
        with pytest.raises(ConfigError, match="'row_names' is for a text whose header line leaves out"):
            parse_format({"row_names": "row", **other})


def test_encodings_are_known_to_the_format_and_others_are_not() -> None:
    for name in ENCODINGS:
        TableFormat(encoding=name).check()
    for name in ("utf-7", "iso2022_jp", "hz", "utf-32", "punycode", "rot13", "idna", "unicode_escape"):
        assert codecs.lookup(name)
        with pytest.raises(ConfigError, match="is not supported"):
            TableFormat(encoding=name).check()


@pytest.mark.parametrize(
    ("text", "notation", "number"),
    [
        ("1.234,5", Notation(",", "."), "1234.5"),
        ("1 234,5", Notation(",", " "), "1234.5"),
        ("1\u202f234,5 €", Notation(",", " ", ("€",)), "1234.5"),
        ("1'234.5", Notation(None, "'"), "1234.5"),
        ("1\u2019234.5", Notation(None, "'"), "1234.5"),
        ("$-5", Notation(units=("$",)), "-5"),
        ("-$5", Notation(units=("$",)), "-5"),
        ("80kg", Notation(units=("kg", "g")), "80"),
        ("45 %", Notation(units=("%",)), "45"),
        (",5", Notation(","), ".5"),
        ("5,", Notation(","), "5"),
        # What does not fit is left as it is: a number as programs write it, or none.
        ("12.34,5", Notation(",", "."), "12.34,5"),
        ("1.5", Notation(",", "."), "1.5"),
        ("1e-6", Notation(",", "."), "1e-6"),
        ("80 lb", Notation(units=("kg",)), "80 lb"),
        ("kg", Notation(units=("kg",)), "kg"),
        ("", Notation(","), ""),
        ("a.*b", Notation(",", ".", (".*",)), "a.*b"),
    ],
)
def test_a_number_in_a_notation(text: str, notation: Notation, number: str) -> None:
    assert plain_numbers(pa.array([text]), notation).to_pylist() == [number]
    # Whatever stands beside it.
    beside = ["x", None, "1,5", "1.5", "9" * 3_000]
    assert plain_numbers(pa.array([*beside, text]), notation).to_pylist()[-1] == number


def test_a_column_says_for_itself_what_its_table_says_otherwise() -> None:
    form = TableFormat(decimal=",", thousands=".", dates=("%d/%m/%Y", "%d.%m.%y"))
    cells = pa.array(["1.000,5", "1000.5", "7"])
    assert encode_cells(AMOUNT, cells, **form.of_cells).codes.tolist() == [2001, 2001, 14]
    own = NumberColumn("amount", 0, 5_000, 0.5, missing=True, decimal=".", thousands=",")
    assert encode_cells(own, pa.array(["1,000.5"]), **form.of_cells).codes.tolist() == [2001]
    seen = DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31), missing=True)
    written = pa.array(["03/02/2020", "03.02.20", "2020-02-03", "2020-02-03 10:00", "02-03-2020"])
    assert encode_cells(seen, written, **form.of_cells).codes.tolist() == [33, 33, 33, 33, 366]
    american = DateColumn("seen", seen.low, seen.high, missing=True, pattern=("%m/%d/%Y", "%m/%d/%y"))
    assert encode_cells(american, pa.array(["02/03/2020", "02/03/20"]), **form.of_cells).codes.tolist() == [33, 33]
    assert parse_column("seen", american.to_mapping()) == american
    assert parse_column("amount", own.to_mapping()) == own
    assert own.notated_texts([1, 2]) == ["0.5", "1.0"]
    comma = NumberColumn("amount", 0, 5, 0.5, missing=True, decimal=",", thousands=".")
    assert comma.notated_texts([1]) == ["0,5"]
    assert comma.text_of_typed("1.125") == "1,125"


def test_signs_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="are both ','"):
        TableFormat(decimal=",", thousands=",")
    with pytest.raises(SchemaError, match="'x': the decimal sign"):
        parse_column("x", {"type": "number", "low": 0, "high": 1, "step": 1, "thousands": "."})
    with pytest.raises(ConfigError, match="decimal must be one sign"):
        parse_format({"decimal": "5"})
    with pytest.raises(ConfigError, match="units must be units without digits"):
        parse_format({"units": ["m2"]})
    with pytest.raises(ConfigError, match="names_from must be one of the 2 header_rows"):
        TableFormat(header_rows=2, names_from=3)


def test_a_format_is_written_with_what_it_says_and_read_back() -> None:
    assert set(format_to_mapping(TableFormat())) == {
        "separator", "header", "encoding", "missing", "strip", "skip_rows", "kind", "newlines",
    }  # fmt: skip
    full = TableFormat(
        sheet="A", header_rows=2, names_from=1, decimal=",", thousands=" ", units=("€",), dates=("%d/%m/%Y",),
        rename=(("column_2", "weight"), ("age_2", "age at death")),
    )  # fmt: skip
    assert parse_format(format_to_mapping(full)) == full
    said = ["sheet=A", "header_rows=2", "names_from=1", "decimal=,", "thousands= ", "units=€", "dates=%d/%m/%Y"]
    said += ["rename=column_2:weight,age_2:age at death"]
    assert format_of(said) == full
    assert format_of(["separator=tab", "missing=NA,?"]) == TableFormat(separator="\t", missing=("NA", "?"))
    with pytest.raises(ConfigError, match="must be a key and a value"):
        format_of(["latin-1"])


def test_names_are_given_where_there_are_none_and_never_to_a_row() -> None:
    assert public_names(("a", "", "a", "a_2", ""), {}) == ("a", "column_2", "a_3", "a_2", "column_5")
    assert public_names(("", "column_1"), {}) == ("column_1_2", "column_1")
    assert public_names(("a", "a", "47"), {}) == ("a", "a", "47")
    assert public_names(("a", ""), {"column_2": "weight", "sex": "a"}) == ("a", "weight")
    with pytest.raises(TableError, match="'rename' lists 'b', but no column of the table is called that"):
        public_names(("a", ""), {"b": "weight"})
    with pytest.raises(ConfigError, match="'rename' is for the names of a header line"):
        TableFormat(separator=",", header=False, names=("a",), rename=(("a", "b"),))
    assert joined_names([["id", "pay", ""], ["", "2019", "2020", ""]], None) == ("id", "pay_2019", "pay_2020", "pay")
    header = inspect_header(io.BytesIO(b"a,,a\n1,2,3\n"))
    assert header.names == ("a", "column_2", "a_2")
    assert header.renamed == {2: "column_2", 3: "a_2"}


def test_a_survey_export_in_latin_1_with_two_lines_of_names_is_described_and_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "survey.csv"
    table.write_bytes("Größe;Gehalt;\ncm;2019;2020\n1,75 m;1.234,5;99\n".encode("latin-1"))
    said = ["encoding=latin-1", "header_rows=2", "decimal=,", "thousands=.", "units=m"]
    assert main(["schema", str(table), *(text for one in said for text in ("--format", one))]) == 0
    drafted = capsys.readouterr().out
    assert '"Größe_cm": {type: }' in drafted
    assert (
        'format: {"encoding": "latin-1", "header_rows": 2, "decimal": ",", "thousands": ".", "units": ["m"]}' in drafted
    )
    config = tmp_path / "survey.yaml"
    bounds = {
        "Größe_cm": "0, high: 3, step: 0.01",
        "Gehalt_2019": "0, high: 9000, step: 0.5",
        "Gehalt_2020": "0, high: 99, step: 1",
    }
    columns = "".join(f'  "{name}": {{type: number, low: {said}, missing: true}}\n' for name, said in bounds.items())
    head = drafted[drafted.index("format:") : drafted.index("columns:")]
    config.write_text(
        "account: a\nunit: {protects: person, rows_per_unit: 1}\nrow_count: private\npeople_at_most: 9\nrows: 5\n"
        f"budget: {{epsilon: 1}}\n{head}columns:\n{columns}",
        encoding="utf-8",
    )
    read = load_config(config)
    assert codes(read.schema, read.format, table) == [[175], [2469], [99]]


def codes(schema: Schema, form: TableFormat, table: Path) -> list[list[int]]:
    from synth.reading.reader import read_codes

    found = read_codes(lambda: table.open("rb"), form, schema)
    return [found._codes[column.name].tolist() for column in schema.modelled]


YEAR = (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))
OLD = (datetime.date(1900, 1, 1), datetime.date(1910, 1, 1))
INVENTED = [
    (NumberColumn("n", 0, 120, 1, missing=True), TableFormat(), []),
    (NumberColumn("n", -2000, -1000, 1, units=("kg",), missing=True), TableFormat(thousands="'"),
     [("-1'500 kg", "-1500"), ("-1'000 kg", "-1000")]),
    (NumberColumn("n", 0, 1, 0.25, decimal=",", missing=True), TableFormat(), [("0,50", "0.50"), ("1,00", "1.00")]),
    (NumberColumn("n", 0, 9, 1, decimal=",", missing=True), TableFormat(thousands=","), []),
    (DateColumn("d", *YEAR, DateStep.MONTH, missing=True), TableFormat(dates=("%d.%m.%Y",)),
     [("25.07.2020", "2020-07-01")]),
    (DateColumn("d", *OLD, pattern="%d.%m.%y", missing=True), TableFormat(),
     [("25.01.05", "1910-01-01")]),
    (DateColumn("d", *YEAR, missing=True), TableFormat(), []),
    (YesNoColumn("y", "1", "2", missing=True), TableFormat(missing=("2",)), [("1", "yes"), ("2", "no")]),
    (YesNoColumn("y", missing=True), TableFormat(), []),
    (CategoryColumn("c", ("a",), aliases=(("A", "a"),), missing=True), TableFormat(), [("A", "a")]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "form", "cells"), INVENTED)
def test_invented_cells_become_what_a_table_with_them_becomes(
    column: ModelledColumn, form: TableFormat, cells: list[tuple[str, str]]
) -> None:
    assert invented_cells_of(column, form) == cells
