"""Two files in, one table out: a row follows from the rows of its key, each cell gets the code of its own file."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linked_faults import FAULTS
from linked_here import TABLES, Row, by_hand, here, in_small_pieces, joined, rows_joined
from typed_files import statistical

from synth.errors import InputError
from synth.reading.more.xlsx import write_xlsx
from synth.schema import (
    IdentifierColumn,
    PrivacyUnit,
    Schema,
    TableFormat,
    parse_column,
)
from synth.system.settings import ReaderLimits

PATIENT = {
    "sex": {"type": "category", "values": ["f", "m"], "missing": True},
    "born": {"type": "number", "low": 1940, "high": 1949, "step": 1, "fallback": 1940},
}
VISIT = {
    "seen": {"type": "date", "low": "2020-01-01", "high": "2020-06-01", "step": "month", "missing": True},
    "cost": {"type": "number", "low": 0, "high": 300, "step": 10, "special": [999], "fallback": 0},
    "ward": {"type": "category", "values": ["a", "b"], "other": True},
}


def schema_of(patient: dict[str, Any] = PATIENT, visit: dict[str, Any] = VISIT) -> Schema:
    columns = (parse_column(name, said) for name, said in {**patient, **visit}.items())
    unit = PrivacyUnit("patient", 3, "patient", tuple(patient))
    return Schema((IdentifierColumn("patient"), *columns), unit=unit, people="whole", tables=TABLES)


SCHEMA = schema_of()
IDS = ["p1", "p2", " p1 ", "p3", "p4", "", "Zo\u00eb", "Zoe\u0308", "NA", "p5"]
CELLS = {
    "sex": ["f", "m", "", "x", " f"],
    "born": ["1940", "1945", "", "1,9", "2000"],
    "seen": ["2020-01-05", "2020-03-31", "", "never"],
    "cost": ["0", "50", "999", "", "-3", "1e9"],
    "ward": ["a", "b", "", "other", 'odd "," one'],
}


def lines(*rows: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def table(names: Sequence[str], rows: Sequence[Sequence[str]], *, parquet: bool = False) -> bytes:
    if not parquet:
        return lines(("patient", *names), *rows)
    target = io.BytesIO()
    columns = {name: [row[k] or None for row in rows] for k, name in enumerate(("patient", *names))}
    typed = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
    pq.write_table(typed, target, row_group_size=4)
    return target.getvalue()


def some_rows(names: Sequence[str], most: int) -> st.SearchStrategy[list[list[str]]]:
    cells = [st.sampled_from(IDS), *(st.sampled_from(CELLS[name]) for name in names)]
    return st.lists(st.tuples(*cells).map(list), max_size=most)


@given(
    patients=some_rows(list(PATIENT), 9),
    visits=some_rows(list(VISIT), 14),
    missing=st.sampled_from(((""), ("", "NA"))),
    strip=st.booleans(),
    parquet=st.tuples(st.booleans(), st.booleans()),
    at_once=st.sampled_from((1, 3, 1000)),
)
def test_each_cell_has_the_code_of_its_own_file_and_each_row_that_of_its_key(
    patients: list[list[str]],
    visits: list[list[str]],
    missing: tuple[str, ...],
    strip: bool,
    parquet: tuple[bool, bool],
    at_once: int,
) -> None:
    form = TableFormat(missing=tuple(missing) or ("",), strip=strip)
    first = table(list(PATIENT), patients, parquet=parquet[0])
    second = table(list(VISIT), visits, parquet=parquet[1])
    with here() as patch:
        if not patients and not visits:
            with pytest.raises(InputError, match="Neither 'patients' nor 'visits' has a row"):
                rows_joined(first, second, SCHEMA, form)
            return
        expected = by_hand(first, second, SCHEMA, form)
        in_small_pieces(patch, rows=at_once)
        assert rows_joined(first, second, SCHEMA, form) == expected
    assert len(expected) >= max(len(patients), len(visits))


@given(
    patients=st.lists(st.integers(0, 20), unique=True, max_size=12),
    visits=st.lists(st.tuples(st.integers(0, 20), st.text("ab\u00e9\",'\n", max_size=3)), min_size=1, max_size=20),
)
def test_tables_whose_keys_are_unique_are_joined_as_pandas_joins_them(
    patients: list[int], visits: list[tuple[int, str]]
) -> None:
    left = pd.DataFrame({"patient": [f"p{k}" for k in patients], "sex": ["fm"[k % 2] for k in patients]}, dtype=str)
    right = pd.DataFrame({"patient": [f"p{k}" for k, _ in visits], "note": [note for _, note in visits]}, dtype=str)
    form = TableFormat(newlines=True, strip=False)
    with here():
        data = joined(left.to_csv(index=False).encode(), right.to_csv(index=False).encode(), form)
    found = pd.read_parquet(io.BytesIO(data))
    wanted = left.merge(right, how="outer", on="patient", indicator=True)

    def rows_of(frame: pd.DataFrame) -> list[tuple[str, ...]]:
        texts = frame.astype(object).where(frame.notna(), "").astype(str)
        return sorted(map(tuple, texts[["patient", "sex", "note", "_merge"]].to_numpy().tolist()))

    assert rows_of(found) == rows_of(wanted)


# One person's rows and everybody else's ------------------------------------------------------------------------------


def files_of(patients: Sequence[Sequence[str]], visits: Sequence[Sequence[str]]) -> tuple[bytes, bytes]:
    return table(list(PATIENT), patients), table(list(VISIT), visits)


PATIENTS = [
    ["p1", "f", "1940"], ["p2", "m", "1941"], ["p3", "f", "1942"], ["p2", "f", "1949"], ["", "m", "1943"],
    ["p4", "m", "1944"], ["p5", "", "1945"], ["p1", "m", "1946"], ["p7", "m", "1947"],
]  # fmt: skip
VISITS = [
    ["p2", "2020-01-05", "10", "a"], ["p1", "2020-02-05", "20", "b"], ["p9", "2020-03-05", "30", "a"],
    ["p5", "2020-04-05", "40", "b"], ["", "2020-05-05", "50", "a"], ["p2", "2020-06-01", "60", "b"],
    ["p9", "2020-01-06", "70", "a"], ["p1", "2020-02-06", "80", "other"], ["p5", "2020-03-06", "90", ""],
]  # fmt: skip
CHANGES: list[tuple[list[list[str]], list[list[str]]]] = [
    ([], []),
    ([["p1", "f", "1940"]], []),
    ([], [["p1", "2020-02-05", "999", "b"]]),
    ([["p1", "m", "1949"], ["p1", "f", "1948"], ["p1", "f", "1940"]], [["p1", "2020-01-01", "0", "x"]] * 4),
    ([["p1", 'an "odd', "one"]], [["p1", "never", "1e9", 'a"b'], ["p1", "", "", ""]]),
]
"""What the person p1 may have in both files instead."""


def everybody_else(first: bytes, second: bytes, own: bytes) -> list[Row]:
    return [row for row in rows_joined(first, second, SCHEMA) if row[1] != own]


def assert_others_keep_their_rows() -> None:
    """The rows of p1 in either file, and where they are, change nothing in anybody else's."""
    others = [[row for row in rows if row[0] != "p1"] for rows in (PATIENTS, VISITS)]
    first, second = files_of(PATIENTS, VISITS)
    hashes = {row[1] for row in rows_joined(*files_of([["p1", "f", "1940"]], []), SCHEMA)}
    (own,) = hashes
    expected = everybody_else(first, second, own)
    for patients, visits in CHANGES:
        for place in (0, 3):
            changed = [
                [*rows[:place], *mine, *rows[place:]] for rows, mine in zip(others, (patients, visits), strict=True)
            ]
            assert everybody_else(*files_of(*changed), own) == expected, (patients, visits, place)


def assert_rows_are_right() -> None:
    files = files_of(PATIENTS, VISITS)
    assert rows_joined(*files, SCHEMA) == by_hand(*files, SCHEMA)


def check_everything() -> None:
    assert_rows_are_right()
    assert_others_keep_their_rows()


@pytest.mark.parametrize("at_once", [2, pytest.param(1000, marks=pytest.mark.thorough)])
def test_no_person_changes_the_rows_of_others_by_a_bit(at_once: int) -> None:
    with here() as patch:
        in_small_pieces(patch, rows=at_once)
        check_everything()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_bug_is_noticed(fault: str) -> None:
    with here() as patch:
        in_small_pieces(patch, rows=2)
        FAULTS[fault](patch)
        with pytest.raises((AssertionError, InputError, IndexError)):
            check_everything()


# Types ----------------------------------------------------------------------------------------------------------------

FAR = [-(2**63), -(2**62), -1, 0, 1, 86_399, 1_577_836_800, 1_590_000_000_000, 2**62, 2**63 - 1]
TYPES: list[pa.Array] = [
    *(pa.array(FAR, pa.int64()).view(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.array(FAR, pa.int64()).view(pa.timestamp("ms", tz="Europe/Paris")),
    pa.array(FAR, pa.int64()).view(pa.date64()),
    pa.array([18_300, -(2**31), 2**31 - 1, 0, 18_400], pa.int32()).view(pa.date32()),
    pa.array([0.5, 1940.0, float("nan"), float("inf"), -0.0], pa.float64()),
    pa.array([0.1, 1940.0, float("nan")], pa.float32()),
    pa.array([1940, 2**63 - 1, 0], pa.int64()),
    pa.array([2**64 - 1, 1], pa.uint64()),
    pa.array([True, False]),
    pa.array(["19.40", "1.00"]).cast(pa.decimal128(6, 2)),
    pa.array([b"f", b"\xff\xfe", b"1940"], pa.binary()),
    pa.array([b"f", b"\xff"], pa.large_binary()),
    pa.array([b"ab", b"\xff\xfe"], pa.binary(2)),
    pa.array(["f", "m", "Zoe\u0308"], pa.large_string()),
    pa.array(["f", "m", "f"]).dictionary_encode(),
    pa.array([1940, 1941, 1940]).dictionary_encode(),
    pa.array(["f", "m"], pa.large_string()).dictionary_encode(),
    pa.nulls(2),
    pa.nulls(2, pa.string()),
    pa.array([50_000, 3_600, 90_000], pa.int32()).view(pa.time32("s")),
]
READ_AS: list[dict[str, Any]] = [
    {"type": "number", "low": 0, "high": 2000, "step": 1, "missing": True},
    {"type": "date", "low": "2019-01-01", "high": "2021-01-01", "step": "day", "missing": True},
    {"type": "time", "step": "hour", "missing": True},
    {"type": "yes_no", "missing": True},
    {
        "type": "category",
        "values": ["f", "1940", "true", "2020-05-20", "1970-01-01 00:00:01"],
        "other": True,
    },
]


@pytest.mark.parametrize("cells", TYPES, ids=[str(one.type) for one in TYPES])
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_typed_cells_keep_their_types(cells: pa.Array, kind: str) -> None:
    cells = pa.concat_arrays([cells, pa.nulls(1, cells.type)])
    names = [f"own{k}" for k in range(len(READ_AS))]
    columns = {"patient": pa.array([f"p{k}" for k in range(len(cells))]), **dict.fromkeys(names, cells)}
    first = io.BytesIO()
    if kind == "arrow":
        pyarrow.feather.write_feather(pa.table(columns), first, compression="uncompressed")
    elif cells.type in (pa.timestamp("s"), pa.date64()):
        pytest.skip("Parquet has no such type.")
    else:
        pq.write_table(pa.table(columns), first)
    second = lines(["patient", "cost"], *([f"p{k}", "10"] for k in range(0, len(cells) + 1, 2)))
    schema = schema_of(dict(zip(names, READ_AS, strict=True)), {"cost": VISIT["cost"]})
    with here():
        assert rows_joined(first.getvalue(), second, schema) == by_hand(first.getvalue(), second, schema)


def test_durations_keep_their_unit() -> None:
    lengths = pa.array([90, -5, 2**62, None], pa.int64()).view(pa.duration("s"))
    first = io.BytesIO()
    pq.write_table(pa.table({"patient": ["p1", "p2", "p3", "p4"], "stay": lengths}), first)
    said = {"type": "number", "low": 0, "high": 10, "step": 0.5, "duration": "minutes", "missing": True}
    schema = schema_of({"stay": said}, {"cost": VISIT["cost"]})
    with here():
        found = rows_joined(first.getvalue(), b"patient,cost\np1,10\n", schema)
        assert found == by_hand(first.getvalue(), b"patient,cost\np1,10\n", schema)
    assert found[0][0][0] == 3


def test_seconds_of_a_time_zone_are_refused() -> None:
    cells = pa.array([0], pa.int64()).view(pa.timestamp("s", tz="Europe/Paris"))
    first = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({"patient": ["p1"], "seen": cells}), first, compression="uncompressed")
    with here(), pytest.raises(InputError, match="'patients': 'seen' holds times in seconds with a time zone"):
        joined(first.getvalue(), b"patient,cost\np1,10\n")


KEYS = [
    pa.array([1, 2, 3, None]), pa.array([1.0, 2.0, 3.0, None]), pa.array(["1", " 2", "3 ", ""]),
    pa.array([b"1", b"2", b"\xff", None], pa.binary()), pa.array(["1", "2", "3", None]).dictionary_encode(),
    pa.array([1, 2, 3, None]).dictionary_encode(), pa.array([b"1 ", b"2", b"3", None], pa.large_binary()),
]  # fmt: skip


PAIRS_OF_KEYS = [
    pytest.param(one, other, marks=() if k == 2 or m == 2 else pytest.mark.thorough, id=f"{one.type}-{other.type}")
    for k, one in enumerate(KEYS)
    for m, other in enumerate(KEYS)
]


@pytest.mark.parametrize(("first", "second"), PAIRS_OF_KEYS)
def test_keys_are_the_same_however_they_are_stored(first: pa.Array, second: pa.Array) -> None:
    files = []
    for keys, name, numbers in ((first, "born", range(1940, 1944)), (second, "cost", range(0, 40, 10))):
        target = io.BytesIO()
        pyarrow.feather.write_feather(
            pa.table({"patient": keys, name: list(numbers)}), target, compression="uncompressed"
        )
        files.append(target.getvalue())
    schema = schema_of({"born": PATIENT["born"]}, {"cost": VISIT["cost"]})
    with here():
        found = rows_joined(*files, schema)
        assert found == by_hand(*files, schema)
    assert sum(merge == 0 for (*_, merge), _ in found) >= 2


def test_bytes_of_one_length_are_only_the_same_as_bytes_of_that_length() -> None:
    fixed = pa.array([b"ab", b" a", b"a ", None], pa.binary(2))
    schema = schema_of({"born": PATIENT["born"]}, {"cost": VISIT["cost"]})

    def file(keys: pa.Array, name: str) -> bytes:
        target = io.BytesIO()
        pq.write_table(pa.table({"patient": keys, name: [0, 10, 20, 30]}), target)
        return target.getvalue()

    with here():
        found = rows_joined(file(fixed, "born"), file(fixed, "cost"), schema)
        assert [merge for (*_, merge), _ in found] == [0, 0, 0, 2, 1]
        assert found == by_hand(file(fixed, "born"), file(fixed, "cost"), schema)
        with pytest.raises(InputError, match="stored in different ways"):
            rows_joined(file(fixed, "born"), file(pa.array(["ab", "x", "y", "z"]), "cost"), schema)


# Files of other kinds, and what is refused ----------------------------------------------------------------------------


def test_each_file_is_recognised_by_its_own_bytes() -> None:
    patients = pd.DataFrame({"patient": ["1", "2", "3"], "born": [1940.0, 1941.0, 1942.0]})
    visits = [["patient", "cost"], ["1", "10"], ["1", "20"], ["4", "30"]]
    schema = schema_of({"born": PATIENT["born"]}, {"cost": VISIT["cost"]})
    firsts = (
        statistical("sav", patients),
        statistical("dta", patients),
        patients.to_csv(index=False).encode(),
        gzip.compress(patients.to_csv(index=False).encode()),
        patients.to_csv(index=False, sep=";").encode("utf-16"),
    )
    seconds = (lines(*visits), write_xlsx(visits, "Visits"))
    with here():
        found = {tuple(rows_joined(first, second, schema)) for first in firsts for second in seconds}
    assert len(found) == 1
    assert [codes[-1] for codes, _ in next(iter(found))] == [0, 0, 2, 1, 1]


def test_a_file_without_rows_is_a_table_in_which_nobody_is() -> None:
    (patients, visits), no = files_of(PATIENTS, VISITS), files_of([], [])
    assert {codes[-1] for codes, _ in rows_joined(patients, no[1], SCHEMA)} == {1}
    assert {codes[-1] for codes, _ in rows_joined(no[0], visits, SCHEMA)} == {2}
    with pytest.raises(InputError, match="Neither 'patients' nor 'visits' has a row"):
        joined(*no)


def test_columns_that_are_dropped_are_not_joined() -> None:
    first = lines(["patient", "sex", "born", "note"], ["p1", "f", "1940", "secret"])
    second = lines(["patient", "seen", "cost", "ward", "note"], ["p1", "2020-01-05", "10", "a", "secret"])
    schema = replace(SCHEMA, columns=(*SCHEMA.declared, parse_column("note", {"type": "drop"})))
    assert b"secret" not in joined(first, second, declared=schema.columns)
    assert b"secret" not in joined(first, second, declared=SCHEMA.columns, drop_undeclared=True)
    with pytest.raises(InputError, match="'note'"):
        joined(first, second, declared=SCHEMA.columns)


def test_columns_of_either_table_get_other_names() -> None:
    first = lines(["patient", "gender", "born"], ["p1", "f", "1940"])
    second = lines(["who", "seen", "cost", "ward"], ["p1", "2020-01-05", "10", "a"])
    form = TableFormat(rename=(("gender", "sex"), ("who", "patient")))
    assert rows_joined(first, second, SCHEMA, form) == rows_joined(
        first.replace(b"gender", b"sex"), second.replace(b"who", b"patient"), SCHEMA
    )
    with pytest.raises(InputError, match="'rename' lists 'sexe', but neither table has such a column"):
        joined(first, second, replace(form, rename=(*form.rename, ("sexe", "sex2"))))


REFUSED = [
    (b"id,sex\np1,CELL\n", b"patient,ward\np1,a\n", "'patients' has no column 'patient', which is the key"),
    (b"patient,sex\np1,CELL\n", b"id,ward\np1,a\n", "'visits' has no column 'patient', which is the key"),
    (b"patient,sex\np1,CELL\n", b"patient,sex\np1,a\n", "Both 'patients' and 'visits' have a column 'sex'"),
    (b"patient,_merge\np1,CELL\n", b"patient,ward\np1,a\n", "'patients' has a column '_merge'"),
    (b"patient,sex\np1,CELL\n", b"patient,ward,ward,_merge\np1,a,a,b\n", "'visits' has a column '_merge'"),
    (b"", b"patient,ward\np1,a\n", "'patients': The file is empty"),
    (b"patient,sex\np1,CELL\n", b"%PDF-1.4", "'visits': This is a PDF"),
    (b"patient,sex\np1,CELL\n", b"PAR1 and no more", "'visits': The Parquet file is damaged"),
    (b"\xff\xff,sex\np1,CELL\n", b"patient,ward\np1,a\n", "'patients': This does not look like UTF-8 text"),
]


@pytest.mark.parametrize(("first", "second", "said"), REFUSED, ids=[said for *_, said in REFUSED])
def test_files_that_do_not_belong_together_are_refused_in_one_sentence(first: bytes, second: bytes, said: str) -> None:
    with pytest.raises(InputError) as refusal:
        joined(first, second)
    assert str(refusal.value).startswith(said)
    assert "CELL" not in str(refusal.value)


def test_files_without_a_header_are_refused() -> None:
    form = TableFormat(header=False, names=("patient", "sex"), separator=",")
    with pytest.raises(InputError, match="two tables that belong together need a header line each"):
        joined(b"p1,f\n", b"p1,a\n", form)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (ReaderLimits(rows=9), "more than 9 rows"),
        (ReaderLimits(columns=6), "7 columns; at most 6 are read"),
        (ReaderLimits(input_bytes=200), "is larger than 200 bytes"),
    ],
)
def test_limits_are_those_of_the_joined_table_too(limits: ReaderLimits, said: str) -> None:
    with pytest.raises(InputError, match=said):
        joined(*files_of(PATIENTS, VISITS), limits=limits)


@pytest.mark.thorough
def test_a_first_table_that_is_too_large_to_hold_is_refused() -> None:
    random = np.random.default_rng(1)
    ids = np.arange(300_000)
    words = {f"c{k}": [f"{one:020d}" for one in random.integers(0, 10**18, len(ids))] for k in range(8)}
    first = io.BytesIO()
    pq.write_table(pa.table({"patient": ids, **words}), first)
    with pytest.raises(InputError, match="'patients' is held in memory while 'visits' is read, and needs more"):
        joined(first.getvalue(), b"patient,ward\n1,a\n", limits=ReaderLimits(memory_bytes=2**27))


def test_many_rows_in_any_batches_are_those_of_pandas() -> None:
    random = np.random.default_rng(5)
    left = pd.DataFrame({"patient": random.permutation(3000)[:2000], "town": random.integers(0, 500, 2000)})
    right = pd.DataFrame({"patient": random.integers(0, 3000, 9000), "cost": random.integers(0, 10**6, 9000)})
    wanted = left.merge(right, how="outer", on="patient", indicator=True)
    found = pd.read_parquet(io.BytesIO(joined(left.to_csv(index=False).encode(), right.to_csv(index=False).encode())))

    def counted(frame: pd.DataFrame) -> pd.Series:
        numbers = frame[["patient", "town", "cost"]].astype(object).astype(float).fillna(-1).astype(int)
        return numbers.assign(merge=frame["_merge"].astype(str)).value_counts().sort_index()

    pd.testing.assert_series_equal(counted(found), counted(wanted))


@pytest.mark.slow
def test_two_million_patients_and_ten_million_visits_are_joined_within_a_gibibyte() -> None:
    random = np.random.default_rng(1)
    n, m = 2_000_000, 10_000_000
    first, second = io.BytesIO(), io.BytesIO()
    names = random.integers(0, 10**9, n)
    patients = {"patient": random.permutation(n), "sex": random.integers(0, 2, n), "born": random.integers(0, 90, n)}
    pyarrow.csv.write_csv(pa.table({**patients, "name": names, "town": random.integers(0, 3000, n)}), first)
    seen = {"seen": random.integers(0, 1000, m), "ward": random.integers(0, 3, m), "cost": random.integers(0, 5000, m)}
    whose, note = random.integers(0, n, m), random.integers(0, 10**7, m)
    pyarrow.csv.write_csv(pa.table({"patient": whose, **seen, "note": note}), second)
    data = joined(first.getvalue(), second.getvalue(), limits=ReaderLimits(memory_bytes=2**30))
    assert pq.ParquetFile(io.BytesIO(data)).metadata.num_rows == m + n - len(np.unique(whose))
