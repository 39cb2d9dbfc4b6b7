"""Two tables that belong together, in a bundle: each in two files, whose keys fit, and nothing else passes."""

from __future__ import annotations

import datetime
import io
import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import forgeries
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bundle_making import Key, checked, members_of
from hypothesis import given
from hypothesis import strategies as st
from linked_making import CONFIG, FILES, FIRST, SCHEMA, SECOND, joined_codes, linked_bundle
from test_fields import document_of, places

from synth.bundle import sheets
from synth.bundle.archive import MEMBERS, zip_of
from synth.bundle.as_declared import rows_as_declared, write_as_declared
from synth.bundle.fields import Check, field_of
from synth.bundle.linter import LeakWords, lint_members
from synth.bundle.replay import replay
from synth.bundle.table_files import check_csv, is_written_as, linked_files, read_table, read_units, write_table
from synth.errors import ConfigError, TableError
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    IdentifierColumn,
    LinkedTables,
    NumberColumn,
    PrivacyUnit,
    Schema,
    TableFormat,
    TimeColumn,
    YesNoColumn,
)
from synth.schema.encoding import encode_cells
from synth.schema.schema import LEFT_ONLY, MERGE

ALL = ("synthetic.csv", "synthetic.parquet", *FILES)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    return linked_bundle(tmp_path_factory.mktemp("linked"), key)


@pytest.fixture(scope="module")
def members(bundle: Path) -> dict[str, bytes]:
    return members_of(bundle)


def frame(data: bytes, *, parquet: bool = False) -> pd.DataFrame:
    """A file as pandas reads it, every cell as text or None."""
    if parquet:
        return pq.read_table(io.BytesIO(data)).to_pandas(integer_object_nulls=True).astype(object)
    return pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, na_values=[""]).astype(object)


def in_one_order(rows: pd.DataFrame, columns: list[str]) -> list[tuple[object, ...]]:
    plain = rows[columns].astype(object).where(rows[columns].notna(), None)
    return sorted((tuple(row) for row in plain.to_numpy()), key=repr)


def require_join(files: Mapping[str, bytes], tables: LinkedTables) -> None:
    """Require that pandas joins the two tables to the joined one, from CSV and from Parquet."""
    for parquet in (False, True):
        ending = ".parquet" if parquet else ".csv"
        first, second, joined = (
            frame(files[f"{name}{ending}"], parquet=parquet) for name in (tables.first, tables.second, "synthetic")
        )
        merged = first.merge(second, on=tables.key, how="outer", indicator=True)
        merged[MERGE.name] = merged[MERGE.name].astype(str)
        assert set(merged.columns) == set(joined.columns)
        assert in_one_order(merged, list(joined.columns)) == in_one_order(joined, list(joined.columns))
        assert first[tables.key].is_unique
        assert list(first[tables.key]) == list(dict.fromkeys(joined[tables.key]))


# What is written ------------------------------------------------------------------------------------------------------


def test_it_holds_each_table_twice_and_verifies(bundle: Path, members: dict[str, bytes]) -> None:
    behind = MEMBERS.index("synthetic.parquet") + 1
    assert tuple(members) == (*MEMBERS[:behind], *FILES, *MEMBERS[behind:])
    verdict = checked(bundle)
    assert verdict.ok, verdict.lines
    assert f"Checked: {Check.LINKED}." in verdict.lines
    require_join(members, LinkedTables("patients", "visits", "patient"))
    first, second, joined = (frame(members[f"{name}.csv"]) for name in ("patients", "visits", "synthetic"))
    assert (list(first), list(second)) == (FIRST, SECOND)
    assert len(first) == CONFIG.rows
    alone = joined[MERGE.name] == "left_only"
    assert 0 < alone.sum() < CONFIG.rows
    assert len(second) == (~alone).sum()
    assert joined[alone][SECOND[1:]].isna().all(axis=None)


def test_an_unpacked_bundle_holds_too(members: dict[str, bytes], tmp_path: Path) -> None:
    for name, data in members.items():
        (tmp_path / name).write_bytes(data)
    assert checked(tmp_path).ok
    (tmp_path / "patients.csv").unlink()
    assert checked(tmp_path).json["failures"] == ["The bundle lacks patients.csv."]


def test_every_field_is_in_the_table_once(members: dict[str, bytes]) -> None:
    for name, data in members.items():
        document = document_of(name, data)
        for place in sorted(set(places(document))) if document is not None else ():
            assert len(field_of(name, place)) == 1, (name, place)


def test_readers_are_told_of_both_tables(members: dict[str, bytes]) -> None:
    readme = members["README.txt"].decode()
    assert "patients.csv, visits.csv           the two tables; patient is the key of both\n" in readme
    assert "It joins two tables by 'patient', which are also in files of their own." in readme


def test_the_same_run_gives_the_same_files(members: dict[str, bytes], key: Key, tmp_path: Path) -> None:
    other = members_of(linked_bundle(tmp_path, key, seed=6))
    assert all(other[name] != members[name] for name in ALL)
    codes, units = joined_codes(SCHEMA, np.array([0, 3, 1, 0]))
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_table(
            codes, SCHEMA, tmp_path / name / "synthetic.csv", tmp_path / name / "synthetic.parquet", 3, units=units
        )
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == set(ALL)


def test_two_tables_by_hand(tmp_path: Path) -> None:
    codes, units = joined_codes(SCHEMA, np.array([0, 2, 1]))
    names = SCHEMA.names
    for name, cells in {
        "sex": (0, 1, 1, 0),
        "day": (7, 3, 40, 7),
        "ward": (2, 0, 2, 1),
        "born": (0, 9, 9, 10),
        "urgent": (0, 1, 0, 1),
    }.items():
        codes[:, names.index(name)] = cells
    write_table(codes, SCHEMA, tmp_path / "synthetic.csv", tmp_path / "synthetic.parquet", 1, units=units)
    ids = sheets.fresh_ids("patient", np.arange(3), 1).to_pylist()
    seen = sheets.fresh_ids("visit", np.arange(4), 1).to_pylist()
    assert (tmp_path / "synthetic.csv").read_text() == (
        "sex,patient,day,ward,visit,born,urgent,_merge\n"
        f"f,{ids[0]},,,,1930,,left_only\n"
        f"m,{ids[1]},3,general,{seen[1]},2020,yes,both\n"
        f"m,{ids[1]},40,,{seen[2]},2020,no,both\n"
        f"f,{ids[2]},7,'=heart,{seen[3]},,yes,both\n"
    )
    assert (tmp_path / "patients.csv").read_text() == (
        f"sex,patient,born\nf,{ids[0]},1930\nm,{ids[1]},2020\nf,{ids[2]},\n"
    )
    assert (tmp_path / "visits.csv").read_text() == (
        "patient,day,ward,visit,urgent\n"
        f"{ids[1]},3,general,{seen[1]},yes\n{ids[1]},40,,{seen[2]},no\n{ids[2]},7,'=heart,{seen[3]},yes\n"
    )
    kinds = pq.read_schema(tmp_path / "visits.parquet").types
    assert [str(kind) for kind in kinds] == ["string", "int64", "string", "string", "bool"]


def test_two_tables_need_to_know_whose_rows_they_are(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="whose rows are known"):
        write_table(np.zeros((2, 6), int), SCHEMA, tmp_path / "a.csv", tmp_path / "a.parquet", 1)


COLUMNS: dict[str, Column] = {
    "n": NumberColumn("n", -2, 7, 0.5, fallback=0.5, special=(99.0,)),
    "n?": NumberColumn("n?", 0, 3, 1, missing=True),
    "c": CategoryColumn("c", ("a", 'b,"c"', "-"), fallback="-"),
    "other": CategoryColumn("other", ("a", "b"), other=True),
    "=y": YesNoColumn("=y", yes="1", no="0", fallback="0"),
    "d": DateColumn("d", datetime.date(2020, 1, 1), datetime.date(2020, 2, 1), fallback=datetime.date(2020, 1, 9)),
    "t": TimeColumn("t", step="hour", missing=True),
    "other id": IdentifierColumn("other id"),
}


@st.composite
def linked_tables(draw: st.DrawFn) -> tuple[Schema, np.ndarray]:
    """Draw a schema with its columns in any order and in either table, and how many rows each person has."""
    names = draw(st.permutations([*COLUMNS, "who"]))[: draw(st.integers(1, 9))]
    names = [*names, *(["who"] if "who" not in names else [])]
    modelled = [name for name in names if name in COLUMNS and not isinstance(COLUMNS[name], IdentifierColumn)]
    own = tuple(name for name in modelled if draw(st.booleans()))
    ordered = [name for name in modelled if name not in own and name in ("n", "n?", "d", "t")]
    order = draw(st.sampled_from([None, *ordered]))
    schema = Schema(
        tuple(COLUMNS.get(name, IdentifierColumn(name)) for name in names),
        unit=PrivacyUnit("person", 4, "who", own, order),
        people="whole",
        tables=LinkedTables(*draw(st.permutations(["Zoo", "a-1"])), "who"),
    )
    return schema, np.array(draw(st.lists(st.integers(0, 4), min_size=1, max_size=9)))


@given(drawn=linked_tables(), seed=st.integers(0, 9))
def test_any_two_tables_fit_and_come_back(
    drawn: tuple[Schema, np.ndarray], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    schema, counts = drawn
    codes, units = joined_codes(schema, counts, seed)
    folder = tmp_path_factory.mktemp("any")
    csv = folder / "synthetic.csv"
    write_table(codes, schema, csv, folder / "synthetic.parquet", seed, units=units)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(files) == {"synthetic.csv", "synthetic.parquet", *linked_files(schema)}
    assert schema.tables is not None
    require_join(files, schema.tables)
    # Whoever reads the joined table has the same codes, and a check the same files.
    np.testing.assert_array_equal(read_table(csv, schema), codes)
    np.testing.assert_array_equal(read_table(folder / "synthetic.parquet", schema), codes)
    np.testing.assert_array_equal(read_units(csv, schema), units)
    check = check_csv(io.BytesIO(files["synthetic.csv"]), schema, rows=len(codes), keep=True)
    assert check.problems == []
    np.testing.assert_array_equal(check.codes, codes)
    np.testing.assert_array_equal(check.units, units)
    for name, data in files.items():
        assert is_written_as(name, io.BytesIO(data), codes, schema, seed, units=units), name
        if name.endswith(".csv"):
            assert check_csv(io.BytesIO(data), schema, rows=None, name=name).problems == [], name


def test_pieces_do_not_show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    codes, units = joined_codes(SCHEMA, np.random.default_rng(2).integers(0, 4, 70))
    written = []
    for name, piece in (("at once", 65_536), ("in pieces", 7)):
        monkeypatch.setattr(sheets, "PIECE", piece)
        (tmp_path / name).mkdir()
        csv = tmp_path / name / "synthetic.csv"
        write_table(codes, SCHEMA, csv, csv.with_suffix(".parquet"), 3, units=units)
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    for name, data in written[0].items():
        if name.endswith(".csv"):
            assert data == written[1][name], name
        else:
            assert frame(data, parquet=True).equals(frame(written[1][name], parquet=True)), name


# What does not pass ---------------------------------------------------------------------------------------------------


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda data: b"".join(change(data.splitlines(keepends=True)))


def last_cell(data: bytes) -> bytes:
    """Another declared value in the last cell."""
    line = data.splitlines()[-1]
    return (
        data.removesuffix(line + b"\n") + (line[:-3] + b"no" if line.endswith(b"yes") else line[:-2] + b"yes") + b"\n"
    )


def filled(column: str, text: bytes) -> Callable[[bytes], bytes]:
    """A cell in the row of someone who has no visit."""

    def change(rows: list[bytes]) -> list[bytes]:
        place = next(place for place, row in enumerate(rows) if row.endswith(b"left_only\n"))
        cells = rows[place].split(b",")
        cells[SCHEMA.printed.index(SCHEMA[column])] = text
        return [*rows[:place], b",".join(cells), *rows[place + 1 :]]

    return lines(change)


def swapped(rows: list[bytes]) -> list[bytes]:
    return [rows[0], rows[2], rows[1], *rows[3:]]


ALTERED: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "a cell of a visit": ("visits.csv", last_cell, "visits.csv is not what synthetic.csv gives"),
    "a visit left out": ("visits.csv", lines(lambda rows: rows[:-1]), "visits.csv is not what"),
    "a visit twice": ("visits.csv", lines(lambda rows: [*rows, rows[-1]]), "visits.csv is not what"),
    "visits in another order": ("visits.csv", lines(swapped), "visits.csv is not what"),
    "nobody's visit": (
        "visits.csv",
        lines(lambda rows: [*rows, b"syn-0123456789ab" + rows[-1][16:]]),
        "visits.csv is not what",
    ),
    "a person left out": ("patients.csv", lines(lambda rows: rows[:-1]), "patients.csv is not what"),
    "people in another order": ("patients.csv", lines(swapped), "patients.csv is not what"),
    "a sex": (
        "patients.csv",
        lambda data: data[:-17] + (b"x" + data[-16:]),
        "patients.csv is not what synthetic.csv gives",
    ),
    "the joined table in place of one": ("patients.csv", lambda data: data + b"f,,\n", "patients.csv is not what"),
    "a visit of someone who has none": (
        "synthetic.csv",
        filled("day", b"3"),
        "1 cells of 'day' are filled in a row that '_merge' says has none",
    ),
    "a number for someone who has none": ("synthetic.csv", filled("visit", b"syn-0123456789ab"), "'visit' are filled"),
    "the fallback for someone who has none": ("synthetic.csv", filled("day", b"7"), "'day' are filled"),
    "an empty cell of a visit": (
        "synthetic.csv",
        lines(lambda rows: [rows[0], *(row.replace(b"yes,both", b",both") for row in rows[1:])]),
        "cells of 'urgent' are outside its declared domain",
    ),
    "visits of nobody": (
        "synthetic.csv",
        lines(lambda rows: [rows[0], *(row.replace(b",both\n", b",right_only\n") for row in rows[1:])]),
        "one row belongs to no patient",
    ),
    "no visits where there are some": (
        "synthetic.csv",
        lines(lambda rows: [rows[0], *(row.replace(b",both\n", b",left_only\n") for row in rows[1:])]),
        "are filled in a row that '_merge' says has none",
    ),
    "someone with nothing beside visits": (
        "synthetic.csv",
        lines(lambda rows: [*rows, _alone_again(rows[-1])]),
        "one patient both has rows and has none",
    ),
}


def _alone_again(row: bytes) -> bytes:
    cells = row.split(b",")
    return b",".join([cells[0], cells[1], b"", b"", b"", cells[5], b"", b"left_only\n"])


@pytest.mark.four_cases
@pytest.mark.parametrize("way", ALTERED)
def test_what_does_not_follow_is_refused(way: str, members: dict[str, bytes]) -> None:
    name, change, reason = ALTERED[way]
    altered = change(members[name])
    assert altered != members[name]
    forged = members | {name: altered}
    rows = altered.count(b"\n") - 1
    certificate = json.loads(members["certificate.json"])
    if name == "synthetic.csv" and rows != certificate["rows"]:
        forged["certificate.json"] = forgeries.canonical_json(certificate | {"rows": rows})
    found = forgeries.refusals(forgeries.repacked(forgeries.signed_anew(forged)), until=reason)
    assert any(reason in problem for problem in found), found


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_release_is_refused(name: str, members: dict[str, bytes], key: Key, tmp_path: Path) -> None:
    codes, units = joined_codes(SCHEMA, np.random.default_rng(8).integers(0, 4, 150))
    csv = tmp_path / "synthetic.csv"
    write_table(codes, SCHEMA, csv, csv.with_suffix(".parquet"), CONFIG.seed, units=units)
    forged = forgeries.signed_anew(members | {name: (tmp_path / name).read_bytes()})
    assert forgeries.refusals(forgeries.repacked(forged)) == [
        f"{name} is not what synthetic.csv gives: there is one form, to the byte."
    ]


WAYS = [(name, way) for name in FILES for way in (forgeries.CSVS if name.endswith(".csv") else forgeries.PARQUETS)]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, marks=() if place % 9 == 0 else pytest.mark.thorough)
        for place, (name, way) in enumerate(WAYS)
    ],
)
def test_the_same_written_in_another_way_is_refused(name: str, way: str, bundle: Path) -> None:
    change = (forgeries.CSVS if name.endswith(".csv") else forgeries.PARQUETS)[way]
    forged = forgeries.re_encoded(bundle.read_bytes(), name, change)
    reason = f"{name} is not what synthetic.csv gives"
    found = forgeries.refusals(forged, until=reason)
    assert any(reason in problem for problem in found), found


NAMES: dict[str, tuple[Callable[[dict[str, bytes]], Mapping[str, bytes]], str]] = {
    "another file": (lambda files: files | {"doctors.csv": b"doctor\n"}, "a file that does not belong in a bundle"),
    "two other files": (
        lambda files: files | {"doctors.csv": b"doctor\n", "doctors.parquet": b""},
        "a file that does not belong in a bundle",
    ),
    "a file in a folder": (
        lambda files: files | {"a/patients.csv": files["patients.csv"]},
        "a file that does not belong in a bundle",
    ),
    "one is missing": (
        lambda files: {name: data for name, data in files.items() if name != "visits.parquet"},
        "The bundle lacks visits.parquet",
    ),
    "one is called otherwise": (
        lambda files: {name.replace("visits.csv", "stays.csv"): data for name, data in files.items()},
        "a file that does not belong in a bundle",
    ),
    "both are called otherwise": (
        lambda files: {name.replace("visits.", "stays."): data for name, data in files.items()},
        "does not hold exactly the two tables that schema.json declares",
    ),
    "in capitals": (
        lambda files: {name.replace("visits.", "VISITS."): data for name, data in files.items()},
        "in another order",
    ),
    "neither is there": (
        lambda files: {name: data for name, data in files.items() if name not in FILES},
        "does not hold exactly the two tables that schema.json declares",
    ),
    "each under the name of the other": (
        lambda files: files | {name: files[other] for name, other in zip(FILES, (*FILES[2:], *FILES[:2]), strict=True)},
        "patients.csv is not what synthetic.csv gives",
    ),
    "in the order of declaration": (
        lambda files: {
            name: files[name] for name in sorted(files, key=lambda name: (*files,).index(name) ^ (name in FILES))
        },
        "in another order",
    ),
}


@pytest.mark.parametrize("way", NAMES)
def test_a_file_too_many_or_too_few_is_refused(way: str, members: dict[str, bytes]) -> None:
    change, reason = NAMES[way]
    forged = forgeries.signed_anew(dict(change(dict(members))))
    order = {name: forged[name] for name in change(dict(members))}
    packed = b"".join(zip_of(order, attributes=stat.S_IFREG | 0o644))
    found = forgeries.refusals(packed, until=reason)
    assert any(reason in problem for problem in found), found


def test_the_two_tables_of_one_that_declares_none_are_refused(
    tmp_path: Path, key: Key, members: dict[str, bytes]
) -> None:
    schema = replace(SCHEMA, columns=SCHEMA.declared, tables=None)
    other = members_of(linked_bundle(tmp_path, key, schema=schema))
    assert tuple(other) == MEMBERS
    assert forgeries.refusals(forgeries.repacked(other)) == []
    forged = forgeries.signed_anew(other | {name: members[name] for name in FILES})
    found = forgeries.refusals(forgeries.repacked(forged))
    assert found == [
        "The bundle does not hold exactly the two tables that schema.json declares, as CSV and as Parquet."
    ]


# What else is made of it ----------------------------------------------------------------------------------------------


def test_a_replay_writes_both_tables_and_compares_them(bundle: Path, members: dict[str, bytes], tmp_path: Path) -> None:
    again = replay(bundle, tmp_path / "again")
    assert again.as_certified, again.lines
    for name in ALL:
        assert (tmp_path / "again" / name).read_bytes() == members[name], name
        if name != "synthetic.parquet":
            assert f"{name} is the certified one, byte for byte." in again.lines
    altered = forgeries.signed_anew(members | {"visits.csv": last_cell(members["visits.csv"])})
    (tmp_path / "altered.zip").write_bytes(forgeries.repacked(altered))
    other = replay(tmp_path / "altered.zip", tmp_path / "other")
    assert other.identical
    assert other.differing == ("visits.csv, made again, is not the certified one.",)
    assert not other.as_certified


def test_rows_come_in_the_format_of_the_private_tables(bundle: Path, members: dict[str, bytes]) -> None:
    for name in ("patients", "visits"):
        assert rows_as_declared(bundle, table=name) == members[f"{name}.csv"]
    with pytest.raises(ConfigError, match="Name one of its two tables, 'patients' or 'visits'"):
        rows_as_declared(bundle)
    with pytest.raises(ConfigError, match="Name one of its two tables"):
        rows_as_declared(bundle, table="synthetic")
    german = TableFormat(separator=";", missing=("", "k. A."), rename=(("Station", "ward"),))
    codes, units = joined_codes(SCHEMA, np.array([0, 2, 1, 3, 0]))
    tables = {}
    for name in ("patients", "visits"):
        target = io.BytesIO()
        write_as_declared(codes, SCHEMA, german, target, 1, units=units, table=name)
        tables[name] = pd.read_csv(io.BytesIO(target.getvalue()), sep=";", dtype=str, keep_default_na=False)
    assert list(tables["visits"]) == ["patient", "day", "Station", "visit", "urgent"]
    there = codes[:, SCHEMA.names.index(MERGE.name)] != LEFT_ONLY
    for table, chosen, names in (
        ("patients", np.unique(units, return_index=True)[1], ("sex", "born")),
        ("visits", np.flatnonzero(there), ("day", "ward", "urgent")),
    ):
        for name in names:
            cells = tables[table][{"ward": "Station"}.get(name, name)]
            read = encode_cells(SCHEMA.modelled_column(name), pa.array(list(cells)), **german.of_cells).codes
            np.testing.assert_array_equal(read, codes[chosen, SCHEMA.names.index(name)], err_msg=name)


def test_names_of_the_two_files_are_no_leak(members: dict[str, bytes]) -> None:
    words = LeakWords(("patients.csv", "visits.csv", "patients", "Visits"))
    assert lint_members(members, SCHEMA, words) == []
    assert lint_members(members | {"doctors.csv": b""}, SCHEMA, words) == [
        f"file {len(members) + 1} does not belong in a bundle."
    ]
    strange = members["visits.csv"].replace(b"general", b"private")
    assert any(
        "visits.csv" in one and "'ward'" in one
        for one in lint_members(members | {"visits.csv": strange}, SCHEMA, words)
    )
