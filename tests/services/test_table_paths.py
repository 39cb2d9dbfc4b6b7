"""Tables by path: files that match a pattern are one table, and a server opens nothing outside the listed folders."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synth.application import Application
from synth.errors import ConfigError, DiskFullError, InputError, TableError
from synth.reading.more.several import pieces_of_part
from synth.reading.reader import read_codes
from synth.schema import CategoryColumn, NumberColumn, Schema, TableFormat, parse_config
from synth.services import intake
from synth.services.inspection import inspect_header
from synth.services.table_paths import open_listed, open_table, size_of
from synth.system import disk
from synth.system.settings import Settings

FORM = TableFormat()
SCHEMA = Schema((NumberColumn("age", 0, 99, 1), CategoryColumn("ward", ("a", "b", "c"))))


def table(rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    wards = pa.array(np.array(["a", "b", "c"])[random.integers(0, 3, rows)])
    return pa.table({"age": pa.array(random.integers(0, 100, rows), pa.int16()), "ward": wards})


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    """A folder with three Parquet files, of 5, 7 and 1 rows and of several groups."""
    folder = tmp_path / "claims"
    folder.mkdir()
    for seed, rows in enumerate((5, 7, 1)):
        pq.write_table(table(rows, seed), folder / f"2024-{seed}.parquet", row_group_size=3)
    return folder


def codes_of(opened: Callable[[], io.BufferedIOBase]) -> dict[str, list[int]]:
    found = read_codes(opened, FORM, SCHEMA)
    return {name: codes.tolist() for name, codes in found._codes.items()}


def codes_at(pattern: str) -> dict[str, list[int]]:
    with open_table(pattern, FORM) as (_, stream):
        return codes_of(lambda: stream)


def as_one(folder: Path) -> dict[str, list[int]]:
    """The codes of the same rows in one file."""
    held = io.BytesIO()
    pq.write_table(pa.concat_tables(table(rows, seed) for seed, rows in enumerate((5, 7, 1))), held)
    return codes_of(lambda: io.BytesIO(held.getvalue()))


def test_parquet_files_are_one_table_in_the_order_of_their_names(claims: Path) -> None:
    pattern = str(claims / "2024-*.parquet")
    assert codes_at(pattern) == as_one(claims)
    with open_table(pattern, FORM) as (name, stream):
        size = size_of(stream)
        header = inspect_header(stream, FORM)
        assert (name, header.names, header.n_rows) == ("2024-0.parquet", ("age", "ward"), 13)
        stream.seek(0)
        assert len(stream.read()) == size


A, C = "'2024-0.parquet'", "'2024-2.parquet'"
OTHER_COLUMNS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "another name": (
        lambda one: one.rename_columns(["age", "unit"]),
        f"column 2 of {C} is 'unit', and that of {A} is 'ward'",
    ),
    "another order": (
        lambda one: one.select(["ward", "age"]),
        f"column 1 of {C} is 'ward', and that of {A} is 'age'",
    ),
    "one more": (
        lambda one: one.append_column("cost", pa.array([1] * len(one))),
        f"{C} has the column 'cost', and {A} has not",
    ),
    "one fewer": (lambda one: one.select(["age"]), f"{A} has the column 'ward', and {C} has not"),
    "another type": (
        lambda one: one.set_column(0, "age", one["age"].cast(pa.string())),
        f"'age' is of type string in {C}, and of type int16 in {A}",
    ),
}


@pytest.mark.parametrize("which", OTHER_COLUMNS)
def test_parquet_files_with_other_columns_are_refused_by_file_and_column(claims: Path, which: str) -> None:
    change, words = OTHER_COLUMNS[which]
    pq.write_table(change(table(2, 9)), claims / "2024-2.parquet")
    with pytest.raises(TableError, match="The files have different columns: ") as refused:
        codes_at(str(claims / "*.parquet"))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (b"age,unit\n1,a\n", "column 2 is 'ward' in 'a.csv' and 'unit' in 'b.csv'"),
        (b"age\n1\n", "'a.csv' has the column 'ward', and 'b.csv' has not"),
        (b"age,ward,cost\n1,a,2\n", "'b.csv' has the column 'cost', and 'a.csv' has not"),
        (b'"age",ward\n1,a\n', "those of 'a.csv' and 'b.csv' are written differently"),
    ],
)
def test_texts_with_other_headers_are_refused_by_file_and_column(tmp_path: Path, second: bytes, words: str) -> None:
    (tmp_path / "a.csv").write_bytes(b"age,ward\n1,a\n")
    (tmp_path / "b.csv").write_bytes(second)
    with pytest.raises(TableError, match="different headers") as refused:
        codes_at(str(tmp_path / "*.csv"))
    assert words in str(refused.value)


def test_files_of_two_kinds_are_not_one_table(claims: Path) -> None:
    (claims / "more.csv").write_bytes(b"age,ward\n1,a\n")
    with pytest.raises(TableError, match="all of them are texts, or all are Parquet"):
        codes_at(str(claims / "*"))


def test_a_joined_file_that_was_cut_short_or_altered_is_refused(claims: Path) -> None:
    with open_table(str(claims / "*.parquet"), FORM) as (_, stream):
        whole = stream.read()
    for broken in (whole[:-1], whole + b"x", whole[:30], whole.replace(b"[[", b"{[", 1), whole[:-40] + bytes(40)):
        with pytest.raises(TableError, match="damaged or cut short"):
            codes_of(lambda broken=broken: io.BytesIO(broken))


def test_a_file_that_becomes_shorter_while_it_is_read_is_named(claims: Path) -> None:
    with open_table(str(claims / "*.parquet"), FORM) as (_, stream):
        os.truncate(claims / "2024-1.parquet", 10)
        with pytest.raises(TableError, match=r"'2024-1.parquet' became shorter"):
            stream.read()


# Folders of a server --------------------------------------------------------------------------------------------------


def listed(typed: str, *folders: Path, home: Path | None = None) -> str:
    roots = [str(folder) for folder in folders]
    with open_listed(typed, FORM, folders=roots, home=home or Path("/nowhere/home")) as (name, stream):
        assert stream.read(4)
        return name


def test_what_lies_in_a_listed_folder_is_opened(claims: Path, tmp_path: Path) -> None:
    assert listed(str(claims / "2024-1.parquet"), claims) == "2024-1.parquet"
    assert listed(f" {claims}/2024-*.parquet ", tmp_path / "other", tmp_path) == "2024-0.parquet"
    assert listed(f"{tmp_path}/cl*/2024-[12].parquet", tmp_path) == "2024-1.parquet"
    (claims / "odd[1].csv").write_bytes(b"age,ward\n1,a\n")
    assert listed(f"{claims}/odd[1].csv", claims) == "odd[1].csv"
    (tmp_path / "link").symlink_to(claims)  # which leads to another place of the same folder
    assert listed(f"{tmp_path}/link/2024-2.parquet", tmp_path) == "2024-2.parquet"


def test_what_leads_out_of_the_listed_folders_is_refused_by_what_was_typed(claims: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "rows.parquet").write_bytes(b"PAR1")
    (claims / "out").symlink_to(secret)
    (claims / "2025-0.parquet").symlink_to(secret / "rows.parquet")
    (claims / "around").symlink_to(claims / "again")
    (claims / "again").symlink_to(claims / "around")
    refused = [
        f"{claims}/around", f"{claims}/aroun?",
        f"{secret}/rows.parquet", f"{secret}/*.parquet", f"{secret}/none.parquet", f"{claims}/../secret/rows.parquet",
        f"{claims}/out/rows.parquet", f"{claims}/out/*.parquet", f"{claims}/out/none*", f"{claims}/o*/rows.parquet",
        f"{claims}/o*/none.parquet", f"{claims}/2025-0.parquet", f"{claims}/*.parquet", f"{tmp_path}/*/rows.parquet",
        f"{claims}2/x",
    ]  # fmt: skip
    for typed in refused:
        with pytest.raises(InputError) as error:
            listed(typed, claims)
        assert str(error.value) == (
            f"'{typed}' leads out of the folders that this server may read. Its operator lists these in "
            "HERMITAGE_FOLDERS."
        )


def test_nothing_of_the_home_is_read_even_if_it_lies_in_a_listed_folder(claims: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leads out of the folders"):
        listed(f"{claims}/2024-0.parquet", tmp_path, home=claims)


def test_a_path_that_is_none_is_refused(claims: Path) -> None:
    with pytest.raises(InputError, match="Type the whole path"):
        listed("claims/2024-0.parquet", claims)
    with pytest.raises(TableError, match="There is no file"):
        listed(f"{claims}/2031-*.parquet", claims)
    with pytest.raises(TableError, match="There is no file"):
        listed(str(claims), claims)


# Taken in -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(claims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """An installation whose operator listed the folder of claims."""
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HERMITAGE_FOLDERS", f" {claims} , /nowhere/else")
    with Application.from_environment() as application:
        yield application


def nothing_is_kept(application: Application) -> bool:
    left = [*(application.settings.home / "vault").iterdir()]
    return application.accounts() == [] and application.intake.tables() == [] and left == []


def test_files_of_a_listed_folder_are_taken_in_as_one_table(server: Application, claims: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    pattern = f"{claims}/*.parquet"
    table = server.intake.receive_listed(
        pattern, account="claims", table_format=FORM, watch=lambda *told: seen.append(told)
    )
    assert (table.n_rows, [column.name for column in table.columns]) == (13, ["age", "ward"])
    assert seen[-1] == ("encrypted", table.size_bytes, table.size_bytes)
    # The snapshot is what is read from now on, whatever happens to the files.
    for path in claims.iterdir():
        path.unlink()
    assert codes_of(lambda: server.vault.open(table.table_id))["age"][:5] == table_of_first()


def table_of_first() -> list[int]:
    return list(table(5, 0)["age"].to_pylist())


@pytest.mark.parametrize("stage", ["read", "encrypted"])
def test_a_cancelled_intake_leaves_nothing_behind(server: Application, claims: Path, stage: str) -> None:
    def cancel(now: str, done: int, of: int | None) -> None:
        if now == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        server.intake.receive_listed(f"{claims}/*", account="claims", table_format=FORM, watch=cancel)
    assert nothing_is_kept(server)


def test_what_is_refused_is_refused_before_anything_is_kept_or_charged(server: Application, claims: Path) -> None:
    refusals = [("/etc/*", InputError, "leads out of the folders"), (f"{claims}/*", TableError, "different columns")]
    pq.write_table(table(2, 9).select(["ward"]), claims / "2024-9.parquet")
    for typed, kind, words in refusals:
        with pytest.raises(kind, match=words):
            server.intake.receive_listed(typed, account="claims", table_format=FORM)
        assert nothing_is_kept(server)


def test_a_table_that_the_disk_has_no_room_for_is_refused_before_it_is_read(
    server: Application, claims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: SimpleNamespace(free=100, total=10**9))
    with pytest.raises(DiskFullError, match="which has 100 bytes left"):
        server.intake.receive_listed(f"{claims}/*", account="claims", table_format=FORM)
    assert nothing_is_kept(server)


def test_a_table_that_does_not_fit_into_memory_is_refused_before_a_charge(
    server: Application, claims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = server.intake.receive_listed(f"{claims}/*", account="claims", table_format=FORM)
    account = server.store.accounts.named("claims")
    assert account is not None
    config = parse_config(
        {
            "account": "claims",
            "unit": {"protects": "claim", "rows_per_unit": 1, "id_column": None},
            "row_count": "private",
            "people_at_most": 100,
            "budget": {"epsilon": 1.0},
            "rows": 10,
            "columns": {
                "age": {"type": "number", "low": 0, "high": 99, "step": 1, "fallback": 0},
                "ward": {"type": "category", "values": ["a", "b", "c"], "fallback": "a"},
            },
        }
    )
    monkeypatch.setattr(intake, "MANY_ROWS", 1)
    monkeypatch.setattr(intake, "free_memory_bytes", lambda: 25)
    with pytest.raises(TableError, match="The rows take 26 bytes of memory, and this machine has 25 bytes free"):
        server.reserve(config, table_id=table.table_id)
    assert server.ledger_rows() == []
    monkeypatch.setattr(intake, "free_memory_bytes", lambda: 26)
    assert server.reserve(config, table_id=table.table_id).account_id == account.id


def test_a_folder_is_listed_by_its_whole_path() -> None:
    with pytest.raises(ConfigError, match="HERMITAGE_FOLDERS must be a list of whole paths"):
        Settings.from_environment({"HERMITAGE_FOLDERS": "/data,claims"})
    assert Settings.from_environment({}).folders == ()


# Parts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7])
def test_every_group_of_rows_is_in_exactly_one_part(parts: int) -> None:
    random = np.random.default_rng(parts)
    for _ in range(50):
        rows = [random.integers(0, 5, random.integers(0, 6)).tolist() for _ in range(random.integers(1, 6))]
        found = [
            (piece.file, group)
            for number in range(parts)
            for piece in pieces_of_part(rows, (number, parts))
            for group in piece.groups
        ]
        assert found == [(file, group) for file, groups in enumerate(rows) for group in range(len(groups))]
