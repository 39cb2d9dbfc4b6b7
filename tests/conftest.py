"""What tests of several packages share: a store on each database, for real."""

from __future__ import annotations

import same_kernels  # noqa: F401 - before numpy

# isort: split
import gc
import os
import random
import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from choosing import leave_all_but_four
from forked_children import ForkedChildren
from sqlalchemy import Connection
from xdist.scheduler import LoadFileScheduling

from synth.bundle.checks import check
from synth.bundle.verify import Verdict, verdict_of
from synth.jobs import processes
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Account, Store
from synth.store.engine import READING, Transactions
from synth.system import confined
from synth.system.settings import Settings
from synth.vault.keys import Keys, load_keys

# What is imported and collected stays: looking through it for garbage took a third of the start.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, only among what tests leave, and as often as a server that has memory would."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


# A busy machine is no reason for a test to fail, nor is an example that no run before has met.
_STEADY = hypothesis.settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("few", _STEADY, max_examples=30)
hypothesis.settings.register_profile("everything", _STEADY, max_examples=60)
hypothesis.settings.load_profile("few")


_LONG = (
    "end_to_end/",
    "test_printed_examples.py",
    "services/test_going_on.py",
    "services/test_backup.py",
    "services/test_odd_runs.py",
    "bytes/test_bundles.py",
    "bytes/test_planted_bugs.py",
    "audit/test_run_faults.py",
    "test_tour.py",
)
"""Files of few tests that each take long, browser walks above all."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first, then those of many tests: no worker is left alone with a long file at the end."""
    folder, number = Path(__file__).parent, Counter(item.path for item in items)
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if "[postgresql" in name and name.startswith(_ON_SQLITE) and not name.startswith(_ON_BOTH):
            item.add_marker(pytest.mark.thorough)

    leave_all_but_four(items)

    def order(item: pytest.Item) -> tuple[bool, int]:
        return not item.path.relative_to(folder).as_posix().startswith(_LONG), -number[item.path]

    items.sort(key=order)


_ON_SQLITE = (
    "services/",
    "jobs/",
    "privacy/",
    "store/test_moving.py::test_processes",
    "store/test_store.py::test_processes",
    "store/test_moving.py",
)
"""Tests of whole runs, of many processes, and of what the ledger makes of the rows of its store, which is the same code
on both: on SQLite in the default command, on PostgreSQL in the rest."""

_ON_BOTH = (
    "services/test_databases.py",
    "services/test_named_databases.py",
    "privacy/test_ledger.py::test_a_charge_is_reserved_then_spent_then_released",
    "privacy/test_ledger.py::test_amounts_survive_the_database_exactly",
    "privacy/test_ledger.py::test_many_large_charges_do_not_overflow",
    "privacy/test_ledger.py::test_removing_a_row_is_found",
    "privacy/test_ledger.py::test_whoever_has_no_key_cannot_make_a_chain_that_is_whole",
    "privacy/test_ledger.py::test_a_row_out_of_turn_is_refused_by_the_database",
    "privacy/test_ledger.py::test_a_frozen_account_cannot_be_thawed_in_the_database",
    "privacy/test_vault.py::test_no_table_opens_over_a_ledger_that_has_lost_rows",
)
"""Tests of tables that are read from a database, each kind by code of its own, and of the ledger those in which the
database itself has a part: its numbers, its order, what it refuses, and a chain that is read from its rows."""


class _OneBrowser(LoadFileScheduling):
    """Files to workers, those of the browser to one: a server, a browser and a walk are for all of them."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        walked = file.startswith("tests/end_to_end/") and "test_any_declaration" not in file
        return "tests/end_to_end" if walked else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _OneBrowser:
    return _OneBrowser(config, log)


_STARTED_ANEW = (
    "bundle/test_limits.py",
    "privacy/test_reader_memory.py",
    "privacy/test_reader_refusals.py",
    "services/test_failing_intake.py",
    "system/",
)
"""Tests of how confined processes start, end, and stay within their limits: theirs start as a release's do."""

_CHILDREN = ForkedChildren()


@pytest.fixture
def without_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what a run tries before its charge, a third of a short one, where a test is about something else.

    The trial is made in tests/services/test_trying_out.py and test_before_the_charge.py, for drawn declarations, in
    tests/audit/test_run_faults.py where nothing is planted, and where a run is started at the command line, in Python,
    in the browser and by a worker.
    """
    monkeypatch.setattr("synth.services.runs.try_out", lambda *given, **named: None)


def checked_here(path: Path, key: bytes, **limits: float) -> Verdict:
    """Check a run's own bundle in this process, which knows what a test has planted, and not in one of its own."""
    return verdict_of(check(path, expected_key=key), key_given=True)


@pytest.fixture(scope="session", autouse=True)
def _own_check_here() -> Iterator[None]:
    """Workers, the browser and tests/services/test_own_check.py check in a confined process, as the product does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synth.services.own_check.verify", checked_here)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_children() -> Iterator[None]:
    """Fork confined processes and workers that this process asks for, where nothing stands in their place already."""
    if not hasattr(os, "pidfd_open") or subprocess.Popen.__module__ != "subprocess":
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confined, "subprocess", _CHILDREN)
        patch.setattr(processes, "subprocess", _CHILDREN)
        yield
        _CHILDREN.close()


@pytest.fixture(scope="session", autouse=True)
def one_transaction_at_a_time() -> Iterator[Callable[..., Any]]:
    """Refuse a writing transaction inside another of the same thread: it would wait for its own turn.

    Yields the method without this check.
    """
    begun, last = Transactions._begun, threading.local()

    @contextmanager
    def alone(own: Transactions, options: dict[str, Any] | None = None, *, wait: bool = True) -> Iterator[Connection]:
        writes = options is None or not {READING, "postgresql_readonly"} & options.keys()
        writing = getattr(last, "writing", {}).get(id(own)) if writes else None
        assert writing is None or writing.closed, "A transaction begins while this thread writes in another."
        with begun(own, options, wait=wait) as connection:
            if writes:
                last.writing = {**getattr(last, "writing", {}), id(own): connection}
            yield connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transactions, "_begun", alone)
        yield begun


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose before any fixture how confined processes of this test are started."""
    place = item.path.relative_to(Path(__file__).parent).as_posix()
    _CHILDREN.are_started_anew = place.startswith(_STARTED_ANEW)


_ABOUT_RANDOMNESS = {"audit", "bytes", "end_to_end", "jobs", "ledger", "privacy", "vault"}
"""Folders whose tests are about noise, keys and processes, and draw from the operating system as a release does."""


@pytest.fixture(autouse=True)
def known_randomness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw noise, keys and ids of this process the same whenever this test is run: no assertion meets a new draw."""
    if request.path.relative_to(Path(__file__).parent).parts[0] not in _ABOUT_RANDOMNESS:
        monkeypatch.setattr(os, "urandom", random.Random(request.node.nodeid).randbytes)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw what several tests share the same too, whichever of them is run first and in whichever process."""
    folder = fixturedef.baseid.split("/")[1:2]
    if fixturedef.scope == "function" or not folder or folder[0] in _ABOUT_RANDOMNESS:
        yield
        return
    known = random.Random(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', '')}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", known.randbytes)
        yield


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """The device "cuda": this machine's own, or a pretended one, which counts, where it has none."""
    import torch  # here, as most tests start without it
    from pretended_card import pretended_card

    if torch.cuda.is_available():
        yield None
        return
    with pretended_card(monkeypatch) as traffic:
        yield traffic


def _postgres_programs() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class PostgresServer:
    """A throwaway PostgreSQL; it refuses to run as root, so root becomes its own user."""

    def __init__(self) -> None:
        programs = _postgres_programs()
        if programs is None:
            pytest.skip("no PostgreSQL programs (initdb, pg_ctl) here; on Debian: apt-get install postgresql")
        self._programs = programs
        self._user = "postgres" if os.geteuid() == 0 else None
        # Not pytest's own folder: a socket's path may have 107 characters at most, and root's folders are closed.
        self.directory = Path(tempfile.mkdtemp(prefix="hermitage-postgres-"))
        if self._user:
            shutil.chown(self.directory, self._user)
        self._data = self.directory / "data"
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "postgres", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        """The address of its one database."""
        return f"postgresql://postgres@/postgres?host={self.directory}"

    @property
    def processes(self) -> list[psutil.Process]:
        """The server and all that work for it."""
        first = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        return [first, *first.children(recursive=True)]

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self.directory} -c fsync=off -c max_connections=60"
        log = str(self.directory / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        """Stop it as a power cut does: nobody is waited for."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "stop")

    def close(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            cwd=self.directory,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Path]:
    """The socket directory of a throwaway PostgreSQL."""
    server = PostgresServer()
    yield server.directory
    server.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this test's, which it may stop."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'home' / 'hermitage.sqlite'}"
    import psycopg
    import psycopg.sql

    url = f"postgresql://postgres@/postgres?host={request.getfixturevalue('postgres_server')}"
    with psycopg.connect(url, autocommit=True) as connection:
        # Emptying one database is quicker than making one per test; connections of killed processes go first.
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        schemas = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        ).fetchall()
        for (schema,) in schemas:
            connection.execute(psycopg.sql.SQL("DROP SCHEMA {} CASCADE").format(psycopg.sql.Identifier(schema)))
        connection.execute("CREATE SCHEMA public")
    return url


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=database_url, heartbeat_seconds=0.2)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with Store(settings) as opened:
        yield opened


@pytest.fixture
def keys(settings: Settings) -> Keys:
    return load_keys(settings.home)


@pytest.fixture
def account(store: Store) -> Account:
    """An account of persons with a public number of rows and no cap."""
    return store.accounts.ensure("city survey", Neighbours.REPLACE, PrivacyUnit())[0]
