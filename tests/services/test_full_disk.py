"""A disk that is full: the message names it, nothing half stays, and what was charged is told as it is."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from town import CONFIG, HEADER, ROWS, TABLE

from synth import cli
from synth.application import Application
from synth.cli.local import run_locally
from synth.errors import DiskFullError
from synth.jobs.processes import birth_of
from synth.ledger.backup import back_up
from synth.ledger.ledger import STAYED_SPENT
from synth.schema import RunConfig, parse_config
from synth.schema.documents import read_mapping
from synth.store import Store
from synth.system.disk import disk_full, is_full
from synth.system.machine import this_host
from synth.system.settings import Settings

SENTENCE = r"The disk that holds {} is full \(.* of .* left\)\. Free some space, then try again\."


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("mounting a file system is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, *, leave: int = 0) -> Path:
    """Fill a disk up to its last block, or but for some bytes."""
    path = disk / "filling"
    with path.open("wb", buffering=0) as file:
        with suppress(OSError):  # full
            while True:
                file.write(bytes(4096))
        if leave:
            file.truncate(file.tell() - leave)
    return path


def settings_on(disk: Path) -> Settings:
    home = disk / "home"
    return Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")


def config(rows: int = 200) -> RunConfig:
    return parse_config(read_mapping(CONFIG.replace("rows: 200", f"rows: {rows}")))


def sentence_of(folder: Path) -> str:
    return SENTENCE.format(re.escape(str(folder)))


def test_a_new_installation_on_a_full_disk(disk: Path) -> None:
    fill(disk)
    with pytest.raises(DiskFullError, match=sentence_of(disk / "home")):
        Application(settings_on(disk))


@pytest.mark.parametrize("leave", [0, 2**16, 2**20], ids=["nothing left", "room for the database", "room for a part"])
def test_a_table_that_does_not_fit(disk: Path, leave: int) -> None:
    with Application(settings_on(disk)) as application:
        application.store.events.of_kind  # noqa: B018 - the database is open
        vault = application.settings.home / "vault"
        filling = fill(disk, leave=leave)
        wanted = (
            rf"The table needs 1\.58 MB on the disk that holds {re.escape(str(disk / 'home'))}, which has .* left\."
        )
        with pytest.raises(DiskFullError, match=wanted):
            application.intake.receive(io.BytesIO(HEADER + ROWS * 600), account="town", name="people.csv")
        assert list(vault.iterdir()) == []
        assert application.store.accounts.all() == ()
        filling.unlink()
        assert application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").n_rows == 300


@pytest.mark.thorough
def test_a_database_that_cannot_grow(disk: Path) -> None:
    with Store(settings_on(disk)) as store:
        filling = fill(disk)

        def grow() -> None:
            for number in range(10_000):
                store.accounts.open(f"account {number}")

        with pytest.raises(DiskFullError, match=sentence_of(disk / "home")):
            grow()
        filling.unlink()
        store.accounts.open("room again")


def charged(run: Callable[[], object], home: Settings) -> tuple[str, list[str]]:
    """Carry a run out that fails for its disk; return what its row says, and the states of its charge."""
    with pytest.raises(DiskFullError, match="The disk that holds"):
        run()
    with Application(home) as application:
        (row,) = application.store.runs.all()
        return row.message, [charge.state.value for charge in application.ledger.rows(row.account_id)]


@pytest.mark.thorough
def test_a_disk_that_fills_after_the_charge(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = settings_on(disk)
    monkeypatch.setenv("HERMITAGE_HOME", str(home.home))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    table = tmp_path / "people.csv"
    table.write_bytes(TABLE)

    def run() -> None:
        # 400,000 rows are 3 MB of CSV and more of Parquet and bundle: there is room for the first alone.
        def fill_when_writing(line: str) -> None:
            if line.startswith("Writing"):
                fill(disk, leave=2 * 2**20)

        run_locally(config(rows=400_000), tmp_path / "out", table=table, say=fill_when_writing)

    message, states = charged(run, home)
    assert re.match(sentence_of(disk / "home"), message)
    assert message.endswith(STAYED_SPENT)
    assert states == ["reserved", "spent", "failed-spent"]
    written = [path.name for path in (home.home / "runs").rglob("*") if path.is_file()]
    assert not {"synthetic.csv", "synthetic.parquet", "bundle.zip"} & set(written)
    assert [path.suffix for path in (home.home / "vault").iterdir()] == [".mark"]


@pytest.mark.thorough
def test_a_result_that_does_not_fit_where_it_is_asked_for(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The release is finished and charged: the message says where it is, and not to run again."""
    home = tmp_path / "home"
    monkeypatch.setenv("HERMITAGE_HOME", str(home))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    fill(disk, leave=4096)
    table, written = tmp_path / "people.csv", tmp_path / "release.yaml"
    table.write_bytes(TABLE)
    written.write_text(CONFIG, encoding="utf-8")
    arguments = ["run", str(written), "--table", str(table), "--out", str(disk / "out")]
    assert cli.main(arguments) == DiskFullError.exit_code
    said = capsys.readouterr().err
    (folder,) = (home / "runs").iterdir()
    assert f"The disk that holds {disk} " in said or f"The disk that holds {disk / 'out'} " in said
    assert (
        f"Do not run again, which would be charged again: the release is complete, and its files are in {folder}"
        in said
    )
    assert (folder / "bundle.zip").exists()


def test_a_backup_that_does_not_fit(disk: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")
    with Application(settings) as application:
        application.intake.receive(io.BytesIO(HEADER + ROWS * 10), account="town", name="people.csv")
    fill(disk, leave=2**15)
    with pytest.raises(DiskFullError, match=r"The disk that holds .*disk.* is full"):
        back_up(settings, disk / "backup", with_tables=True)


def test_a_page_names_the_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from streamlit.testing.v1 import AppTest

    monkeypatch.setenv("HERMITAGE_HOME", str(disk / "home"))
    monkeypatch.setenv("FULL_DISK", str(disk))
    fill(disk)

    def page() -> None:
        import os
        from pathlib import Path

        from pages.ui.guards import guard

        with guard():
            (Path(os.environ["FULL_DISK"]) / "more").write_bytes(bytes(100_000))

    app = AppTest.from_function(page, default_timeout=300).run()
    (error,) = app.error
    assert f"The disk that holds {disk} is full" in str(error.value).replace("\\", "")


def test_the_screen_of_a_run_says_that_it_waits_for_room(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from streamlit.testing.v1 import AppTest

    monkeypatch.setenv("HERMITAGE_HOME", str(disk / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with Application(settings_on(disk)) as application:
        table = application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv")
        run = application.reserve(config(), table_id=table.table_id)
        application.ledger.spend(application.ledger.charges_of(run.id)[0])
        number = os.getpid()
        application.store.work.claim(run.id, host=this_host(), pid=number, pid_created=birth_of(number))
    monkeypatch.setenv("RUN", run.id)

    def page() -> None:
        import os

        from pages.ui.running import follow_run

        follow_run(os.environ["RUN"])

    assert not AppTest.from_function(page, default_timeout=300).run().warning
    fill(disk)
    app = AppTest.from_function(page, default_timeout=300).run()
    assert not app.exception
    assert not app.error
    (warning,) = app.warning
    said = str(warning.value).replace("\\", "")
    assert said.startswith(f"The disk that holds {disk / 'home'} is full")
    assert "waits for an hour and then continues by itself" in said


def test_what_says_that_a_disk_is_full_is_found_under_other_errors() -> None:
    def fail() -> None:
        try:
            with Path("/dev/full").open("wb", buffering=0) as device:
                device.write(b"x")
        except OSError:
            raise ValueError("Can't close the ZIP file while there is an open writing handle on it.")  # noqa: B904

    with pytest.raises(ValueError, match="ZIP") as caught:
        fail()
    assert is_full(caught.value)
    assert not is_full(ValueError("x"))
    assert not is_full(OSError(5, "x"))
    assert "The disk that holds / is full" in str(disk_full(Path("/no such folder")))
