"""Backups, restores, lost releases and heads, by the commands that docs/deploying.md names, on both databases."""

from __future__ import annotations

import io
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from golden_homes import copy_of_golden_home
from printed import commands_by_section

from synth.application import Application
from synth.cli import main
from synth.errors import InputError
from synth.ledger.backup import INTERRUPTED, back_up, remove, restore
from synth.progress import StoredProgress
from synth.services.entering import enter_bundles
from synth.services.runs import carry_out
from synth.store import ChargeState, Store, WorkKind, WorkState
from synth.system.settings import Settings
from synth.vault.keys import load_keys

CONFIG = """
table: people.csv
account: {account}
row_count: public
number_of_units: 200
unit: {{protects: person, rows_per_unit: 1}}
budget: {{epsilon: 0.5, delta: 1.0e-6}}
generator: {{name: independent, options: {{}}}}
rows: 50
seed: {seed}
columns:
  age: {{type: number, low: 0, high: 100, step: 1, fallback: 40}}
  town: {{type: category, values: [north, south], fallback: north}}
"""
TABLE = "age,town\n" + "".join(f"{i % 90},{('north', 'south')[i % 2]}\n" for i in range(200))

Synth = Callable[..., int]

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""What is looked at is a bundle; what entering one writes is tried on both databases by what is restored."""


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=database_url)


@pytest.fixture
def synth(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Synth:
    """Run a command on the installation; its output is captured by pytest."""
    monkeypatch.setenv("HERMITAGE_HOME", str(settings.home))
    monkeypatch.setenv("DATABASE_URL", settings.database_url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(TABLE)
    return lambda *words: main([str(word) for word in words])


@pytest.fixture
def release(synth: Synth, tmp_path: Path) -> Callable[..., Path]:
    def made(name: str, account: str = "town", *options: str, seed: int = 0) -> Path:
        (tmp_path / f"{name}.yaml").write_text(CONFIG.format(account=account, seed=seed))
        assert synth("run", f"{name}.yaml", "--out", name, "--no-owner-report", *options) == 0
        return tmp_path / name

    return made


def lose(settings: Settings) -> None:
    """Lose the machine: home and database are gone."""
    shutil.rmtree(settings.home)
    if settings.database_url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(settings.database_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")


def total(settings: Settings, account: str = "town") -> tuple[float, int]:
    with Application(settings) as application:
        view = application.account(account)
    return view.epsilon_spent, view.releases


@pytest.mark.usefixtures("without_trial")
def test_a_restored_installation_is_frozen_until_the_missing_release_is_entered_and_accepted(
    settings: Settings,
    synth: Synth,
    release: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    release("first")
    assert synth("backup", "saved") == 0
    second, other = release("second"), release("third", "village")
    whole, village = total(settings), total(settings, "village")
    lose(settings)

    assert synth("restore", "saved") == 0
    assert "Every account is frozen" in capsys.readouterr().out
    assert total(settings)[0] < whole[0], "the backup does not know the second release"
    assert synth("run", "first.yaml", "--out", "refused", "--no-owner-report") == 3
    refusal = capsys.readouterr().err
    assert "is frozen" in refusal
    assert "--enter" in refusal

    # A copy of the certificate alone has no signature; the one beside its bundle has.
    shutil.copy(second / "certificate.json", tmp_path / "alone.json")
    assert synth("account", "--enter", "alone.json") == 2
    assert "the bundle contains the signature" in capsys.readouterr().err
    assert synth("account", "--enter", second / "certificate.json", other / "bundle.zip") == 0
    told = capsys.readouterr().out
    assert "Entered certificate" in told
    assert "'town' stays frozen" in told
    assert (total(settings), total(settings, "village")) == (whole, village)
    assert synth("run", "first.yaml", "--out", "refused", "--no-owner-report") == 3

    for name in ("town", "village"):
        assert synth("account", name, "--accept") == 0
    assert synth("run", "first.yaml", "--out", "further", "--no-owner-report") == 0
    assert total(settings)[1] == whole[1] + 1
    with Application(settings) as application:
        application.ledger.heads()
        for account in application.store.accounts.all():
            application.vault.check_ledger(account.id)
        # What was lost is there to be read and downloaded again.
        entered = [run for run in application.runs("village") if run.state == "released"]
        assert application.bundle(entered[0].run_id) == (other / "bundle.zip").read_bytes()
        assert application.certificate(entered[0].run_id)["account"] == "village"


@pytest.mark.thorough
@on_sqlite
def test_a_release_that_is_there_is_not_entered_twice(
    settings: Settings, synth: Synth, release: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    made = release("first")
    before = total(settings)
    assert synth("account", "--enter", made) == 3
    assert "is already in the ledger" in capsys.readouterr().out
    assert synth("backup", "saved") == 0
    later = release("second")
    lose(settings)
    assert synth("restore", "saved") == 0
    assert synth("account", "--enter", later, later, made) == 3
    told = capsys.readouterr().out
    assert (told.count("Entered certificate"), told.count("is already in the ledger")) == (1, 2)
    assert total(settings)[1] == before[1] + 1


@pytest.mark.thorough
@on_sqlite
def test_a_run_whose_files_are_gone_gets_them_back_and_is_charged_once(
    settings: Settings, synth: Synth, release: Callable[..., Path]
) -> None:
    made = release("first")
    before = total(settings)
    (folder,) = (settings.home / "runs").iterdir()
    shutil.rmtree(folder)
    assert synth("account", "--enter", made) == 3
    with Application(settings) as application:
        assert application.bundle(folder.name) == (made / "bundle.zip").read_bytes()
        assert application.report(folder.name)
        assert len(application.store.releases.of_run(folder.name)) == 1
    assert total(settings) == before


@pytest.mark.thorough
@on_sqlite
def test_a_report_that_was_not_released_yet_is_not_missing(
    settings: Settings, synth: Synth, release: Callable[..., Path]
) -> None:
    """Its charge is in the ledger without a certificate; the certificate's own place in the chain tells."""
    made = release("first", "town", "--keep-table")
    with Application(settings) as application:
        config = application.config_of(application.runs()[0].run_id)
        run = application.reserve(config, table_id=application.intake.tables()[0].table_id)
        application.store.work.claim(run.id, host="here", pid=1, pid_created=1.0)
        carry_out(application.installation, run.id, StoredProgress(application.store.work, run.id), owner_report=False)
        assert application.ledger.charges_of(run.id)[0].certificate_id is None
        before = application.account("town")
        for bundle in (application.folder(run.id), made):
            (entered,) = enter_bundles(application.installation, [bundle], who="owner")
            assert entered.was_there
        assert application.account("town") == before


@pytest.mark.thorough
@on_sqlite
def test_a_stranger_s_bundle_and_an_altered_one_are_not_entered(
    settings: Settings,
    synth: Synth,
    release: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = release("first")
    synth("backup", "saved")
    stranger = next(copy_of_golden_home(tmp_path / "elsewhere").glob("runs/*/bundle.zip"))
    shutil.copytree(made, tmp_path / "altered")
    bundle = tmp_path / "altered" / "bundle.zip"
    data = bundle.read_bytes()
    bundle.write_bytes(data.replace(b'"epsilon":0.', b'"epsilon":0.', 1)[:-40])
    (tmp_path / "no.zip").write_bytes(b"PK")
    capsys.readouterr()
    for path, code in ((stranger, 2), (bundle, 1), (tmp_path / "no.zip", 1), (tmp_path / "none.zip", 2)):
        assert synth("account", "--enter", path) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("synth: ")
    (tmp_path / "first" / "certificate.json").write_text("{}")
    assert synth("account", "--enter", tmp_path / "first" / "certificate.json") == 2
    assert "is not the certificate of the bundle beside it" in capsys.readouterr().err


def test_a_backup_of_a_sqlite_installation_in_use_has_what_is_still_in_the_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")
    with Application(settings) as application:
        application.set_cap("town", 1.0, 1e-6)
        log = home / "hermitage.sqlite-wal"
        assert log.stat().st_size > 0
        shutil.copy(home / "hermitage.sqlite", tmp_path / "copied.sqlite")
        made = back_up(settings, tmp_path / "saved")
    with sqlite3.connect(tmp_path / "copied.sqlite") as copied:
        names = copied.execute("SELECT name FROM sqlite_master WHERE name = 'accounts'").fetchall()
        found = copied.execute("SELECT name FROM accounts").fetchall() if names else []
    assert found == [], "copying the file alone loses what is in its log: the reason for the command"
    with sqlite3.connect(made.folder / "database.sqlite") as saved:
        assert saved.execute("SELECT name, epsilon_cap FROM accounts").fetchall() == [("town", 1.0)]
    assert not list(made.folder.glob("*-wal"))


@pytest.mark.thorough
def test_a_backup_is_private_and_holds_tables_only_where_asked(
    settings: Settings, synth: Synth, release: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release("first", "town", "--keep-table")
    assert synth("backup", "saved") == synth("backup", "with", "--with-tables") == 0
    for folder in (tmp_path / "saved", tmp_path / "with"):
        modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
        assert modes == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o700}
    assert {path.suffix for path in (tmp_path / "saved" / "vault").iterdir()} == {".mark"}
    assert {path.suffix for path in (tmp_path / "with" / "vault").iterdir()} == {".mark", ".header", ".table"}
    lose(settings)
    assert synth("restore", "saved") == 0
    assert "Not in the backup: 1 private table." in capsys.readouterr().out
    with Application(settings) as application:
        assert application.intake.tables() == []
    lose(settings)
    assert synth("restore", "with") == 0
    with Application(settings) as application:
        (table,) = application.intake.tables()
        with application.vault.open(table.table_id) as rows:
            assert rows.read().decode() == TABLE


@pytest.mark.thorough
def test_what_was_unfinished_counts_after_a_restore(
    settings: Settings, synth: Synth, release: Callable[..., Path], tmp_path: Path
) -> None:
    release("first", "town", "--keep-table")
    with Application(settings) as application:
        config = application.config_of(application.runs()[0].run_id)
        waiting = application.reserve(config, table_id=application.intake.tables()[0].table_id)
        rehearsal = application.store.work.begin(WorkKind.REHEARSAL, "0" * 64, asked="{}", owner="owner", host="here")
    assert synth("backup", "saved") == 0
    lose(settings)
    assert synth("restore", "saved") == 0
    with Application(settings) as application:
        assert application.store.runs[waiting.id].state is WorkState.FAILED
        assert application.store.runs[waiting.id].message == INTERRUPTED
        assert application.ledger.charges_of(waiting.id)[0].state is ChargeState.FAILED_SPENT
        application.ledger.heads()
        assert application.store.work.find(rehearsal.id) is None, "what it was made from is in no backup"


@pytest.mark.thorough
def test_the_frozen_state_of_a_restored_installation_is_marked(
    settings: Settings, synth: Synth, release: Callable[..., Path]
) -> None:
    """Whoever takes the freeze out of the database leaves a mark that is ahead."""
    release("first")
    synth("backup", "saved")
    lose(settings)
    synth("restore", "saved")
    from sqlalchemy import create_engine, text

    engine = create_engine(settings.database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            for name in ("decisions_no_delete", "accounts_fixed"):
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("ALTER TABLE decisions DISABLE TRIGGER ALL"))
        connection.execute(text("DELETE FROM decisions WHERE kind = 'frozen'"))
        connection.execute(text("UPDATE accounts SET frozen = FALSE"))
    engine.dispose()
    assert synth("run", "first.yaml", "--out", "refused", "--no-owner-report") == 3


@pytest.mark.thorough
def test_damaged_backups_and_homes_in_use_are_refused(
    settings: Settings, synth: Synth, release: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release("first")
    assert synth("backup", "saved") == 0
    capsys.readouterr()
    assert synth("backup", "saved") == 2
    assert "is not empty" in capsys.readouterr().err
    assert synth("restore", "saved") == 2
    assert "There is already an installation" in capsys.readouterr().err
    lose(settings)
    assert synth("restore", "nowhere") == 2
    assert "is not a complete backup" in capsys.readouterr().err
    for name in ("altered", "short", "more"):
        shutil.copytree(tmp_path / "saved", tmp_path / name)
    database = next((tmp_path / "altered").glob("database.*"))
    database.write_bytes(database.read_bytes()[:-1] + b"x")
    next((tmp_path / "short" / "vault").iterdir()).unlink()
    (tmp_path / "more" / "vault" / "x.mark").write_bytes(b"x")
    for name in ("altered", "short", "more"):
        assert synth("restore", name) == 2
        assert "is damaged" in capsys.readouterr().err
        assert not any(path.is_file() for path in settings.home.rglob("*"))
    assert synth("backup", "empty") == 2
    assert "There is no installation" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_log_that_a_killed_program_left_behind_is_not_read_into_a_restored_database(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")
    with Application(settings) as application:
        application.open_account("town")
    back_up(settings, tmp_path / "saved")
    killed = (
        "import os, sys; from pathlib import Path; from synth.system.settings import Settings;"
        "from synth.application import Application;"
        "application = Application(Settings(home=Path(sys.argv[1]), database_url=sys.argv[2]));"
        "application.open_account('village'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", killed, str(home), settings.database_url], check=True, timeout=300)
    for part in ("keys", "vault"):
        shutil.rmtree(home / part)
    (home / "hermitage.sqlite").unlink()
    log = home / "hermitage.sqlite-wal"
    assert log.stat().st_size > 0
    with pytest.raises(InputError, match="Move both away"):
        restore(settings, tmp_path / "saved")
    assert not (home / "hermitage.sqlite").exists()
    log.unlink()
    assert restore(settings, tmp_path / "saved").accounts == ("town",)


@pytest.mark.thorough
def test_heads_kept_elsewhere_tell_when_a_whole_home_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From inside nothing can be seen: database and marks agree. On SQLite, where a home is one folder."""
    home, older = tmp_path / "home", tmp_path / "older"
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")
    monkeypatch.setenv("HERMITAGE_HOME", str(home))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(TABLE)
    (tmp_path / "c.yaml").write_text(CONFIG.format(account="town", seed=0))
    assert main(["run", "c.yaml", "--out", "one", "--no-owner-report"]) == 0
    shutil.copytree(home, older)
    assert main(["run", "c.yaml", "--out", "two", "--no-owner-report"]) == 0
    capsys.readouterr()
    assert main(["account", "--heads"]) == 0
    (tmp_path / "heads.txt").write_text(capsys.readouterr().out)
    assert main(["account", "--check-heads", "heads.txt"]) == 0
    assert main(["run", "c.yaml", "--out", "three", "--no-owner-report"]) == 0
    assert main(["account", "--check-heads", "heads.txt"]) == 0
    assert "3 more entries" in capsys.readouterr().out
    shutil.rmtree(home)
    shutil.copytree(older, home)
    assert total(settings)[1] == 1, "the older home opens: that is the limit the documents name"
    assert main(["account", "--check-heads", "heads.txt"]) == 1
    assert "BEHIND: 'town' lacks entries that were noted" in capsys.readouterr().out
    shutil.rmtree(home)
    Application(settings).close()
    assert main(["account", "--check-heads", "heads.txt"]) == 1
    assert "MISSING: the account 'town'" in capsys.readouterr().out
    for content in ("", "nonsense\n", (tmp_path / "heads.txt").read_text() + "x y\n"):
        (tmp_path / "bad.txt").write_text(content)
        assert main(["account", "--check-heads", "bad.txt"]) == 2
    assert main(["account", "--check-heads", "none.txt"]) == 2


@pytest.mark.usefixtures("without_trial")
def test_a_database_that_is_gone_or_older_refuses_to_start(
    settings: Settings, synth: Synth, release: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    release("first")
    kept = settings.home.parent / "kept"
    shutil.copytree(settings.home, kept)
    lose(settings)
    for part in ("keys", "vault"):
        shutil.copytree(kept / part, settings.home / part)
    assert synth("ledger") == 3
    assert "has records of spending on 1 account that is not in the database" in capsys.readouterr().err


@pytest.mark.thorough
def test_an_older_database_beside_newer_marks_stops_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HERMITAGE_HOME", str(home))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(TABLE)
    (tmp_path / "c.yaml").write_text(CONFIG.format(account="town", seed=0))
    assert main(["run", "c.yaml", "--out", "one", "--no-owner-report"]) == 0
    shutil.copy(home / "hermitage.sqlite", tmp_path / "older.sqlite")
    assert main(["run", "c.yaml", "--out", "two", "--no-owner-report"]) == 0
    for log in home.glob("hermitage.sqlite-*"):
        log.unlink()
    shutil.copy(tmp_path / "older.sqlite", home / "hermitage.sqlite")
    capsys.readouterr()
    assert main(["run", "c.yaml", "--out", "three", "--no-owner-report"]) == 3
    assert "lacks charges that were already spent" in capsys.readouterr().err
    assert main(["account", "--enter", "two/bundle.zip"]) == 0
    assert main(["account", "town", "--accept"]) == 0
    assert main(["run", "c.yaml", "--out", "three", "--no-owner-report"]) == 0
    assert main(["account", "town"]) == 0
    assert "3 releases" in capsys.readouterr().out


def test_options_of_account_that_stand_alone(synth: Synth, capsys: pytest.CaptureFixture[str]) -> None:
    assert synth("account") == 2
    assert "Name an account" in capsys.readouterr().err
    assert synth("account", "town", "--heads") == 2
    assert "--heads is used alone" in capsys.readouterr().err
    assert synth("account", "nobody", "--accept") == 2
    assert "There is no account 'nobody'" in capsys.readouterr().err


@pytest.mark.thorough
def test_the_document_followed_word_by_word_loses_nothing(
    settings: Settings, synth: Synth, release: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command is typed as it stands, with the names of the example replaced."""
    names = {"/safe/backup": "saved", "/safe/heads.txt": "heads.txt", "/old/release": "second", "ACCOUNT": "town"}

    def follow(section: str) -> None:
        for line in commands_by_section("docs/deploying.md")[section]:
            for name, own in names.items():
                line = line.replace(name, own)
            command, _, output = line.partition(" > ")
            assert command.startswith("synth "), line
            capsys.readouterr()
            assert synth(*command.split()[1:]) == 0, line
            if output:
                (tmp_path / output).write_text(capsys.readouterr().out)

    release("first")
    follow("Backups")
    before = (tmp_path / "heads.txt").read_text()
    release("second")
    whole = total(settings)
    lose(settings)
    follow("Restoring")
    assert total(settings) == whole
    assert before.splitlines()[1].split()[0] in (tmp_path / "heads.txt").read_text()
    assert synth("run", "first.yaml", "--out", "further", "--no-owner-report") == 0


@pytest.mark.usefixtures("without_trial")
def test_a_database_of_another_kind_and_missing_programs_are_sentences(
    settings: Settings, synth: Synth, release: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release("first")
    if not settings.database_url.startswith("postgresql"):
        back_up(settings, tmp_path / "saved")
        other = Settings(home=tmp_path / "new", database_url="postgresql://postgres@/none")
        with pytest.raises(InputError, match="of a sqlite database, but DATABASE_URL names postgresql"):
            restore(other, tmp_path / "saved")
        return
    monkeypatch.setenv("PATH", str(tmp_path))
    assert synth("backup", "saved") == 2
    assert not (tmp_path / "saved" / "manifest.json").exists()


def test_a_password_is_on_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from synth.ledger import backup as copies

    seen: list[tuple[list[str], dict[str, str]]] = []

    def noted(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[bytes]:
        seen.append((list(command), env))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(copies.subprocess, "run", noted)
    for number, address in enumerate(
        (
            "postgresql://someone:canary-word@host:77/base?sslmode=require",
            "postgres://someone@host/base?password=canary-word",
        )
    ):
        copies.copy_database(address, tmp_path / f"dump {number}")
    for command, environment in seen:
        assert "canary-word" not in " ".join(command)
        assert environment["PGPASSWORD"] == "canary-word"
    assert seen[0][0][-1] == "--dbname=postgresql://someone@host:77/base?sslmode=require"
    assert seen[1][0][-1] == "--dbname=postgresql://someone@host/base"


@pytest.mark.thorough
def test_an_installation_is_removed_after_a_typed_word_and_never_at_work(
    synth: Synth,
    release: Callable[..., Path],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def uninstall(typed: str, *options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        capsys.readouterr()
        code = synth("uninstall", *options)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    assert uninstall("remove\n", "--everything")[0] == 2, "there is none yet"
    bundle = release("first", "town", "--keep-table") / "bundle.zip"
    (settings.home / "notes.txt").write_text("the owner's own")
    kept = {path: path.read_bytes() for path in settings.home.rglob("*") if path.suffix in {".key", ".table"}}
    assert kept
    assert "--everything" in uninstall("remove\n")[1]
    for typed in ("", "yes\n", "Remove it\n"):
        assert "Nothing was removed" in uninstall(typed, "--everything")[1]
    with Application(settings) as application:
        work = application.store.work.begin(WorkKind.REPORT, "a report", asked="{}", owner="owner", host="here")
    code, said = uninstall("remove\n", "--everything")
    assert (code, "Work is in progress" in said) == (2, True)
    with Application(settings) as application:
        application.store.work.move(work.id, WorkState.FAILED)
    assert {path: path.read_bytes() for path in kept} == kept

    code, said = uninstall("remove\n", "--everything")
    assert code == 0, said
    for part in ("1 private table,", "1 account,", "1 release,", "notes.txt"):
        assert part in said
    assert [path.name for path in settings.home.iterdir()] == ["notes.txt"]
    assert synth("verify", bundle) == 0
    # A new one begins in its place, with keys of its own and an empty ledger.
    assert synth("ledger") == 0
    assert "Nothing spent yet" in capsys.readouterr().out
    assert not [path for path, held in kept.items() if path.exists() and path.read_bytes() == held]


def test_removing_leaves_files_of_others_and_no_empty_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")
    for others in (("notes.txt",), ()):
        with Store(settings):
            load_keys(home)
        for name in others:
            (home / name).write_text("the owner's own")
        assert remove(settings) == others
        assert [path.name for path in tmp_path.rglob("*")] == (["home", *others] if others else [])
        for name in others:
            (home / name).unlink()
