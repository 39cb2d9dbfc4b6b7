"""What is refused before a Ray cluster is asked, and what is said when it does not answer; no Ray is needed."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from synth import worker
from synth.application import Application
from synth.errors import ClusterAwayError, ConfigError
from synth.jobs.ray_jobs import RayClient, RayEngine
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours, PrivacyUnit, parse_config
from synth.schema.documents import read_mapping
from synth.store import ChargeState, Store, WorkState
from synth.system.settings import Settings

CONFIG = """
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 1000
budget: {epsilon: 4.0, delta: 1.0e-5}
rows: 100
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
"""


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of a port at which nobody answers; who connects waits."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize(
    "address",
    [
        "head",
        "head:8265",
        "ray://head:10001",
        "http://head",
        "http://head:99999",
        "http://head:8265/jobs",
        "http://name:password@head:8265",
        "http://head:8265?token=secret",
    ],
)
def test_an_address_that_names_no_dashboard_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="HERMITAGE_RAY must be the address of the dashboard") as refused:
        Settings.from_environment({"HERMITAGE_RAY": address, "DATABASE_URL": "postgresql://db/hermitage"})
    assert "secret" not in str(refused.value)
    assert "password@" not in str(refused.value)


@pytest.mark.parametrize("address", ["http://head:8265", "https://10.0.0.5:443/", "http://[::1]:8265", ""])
def test_the_address_of_a_dashboard_is_taken(address: str) -> None:
    settings = Settings.from_environment({"HERMITAGE_RAY": address, "DATABASE_URL": "postgresql://db/hermitage"})
    assert settings.ray == address.rstrip("/")


def test_a_file_that_machines_cannot_share_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HERMITAGE_RAY needs PostgreSQL"):
        Settings.from_environment({"HERMITAGE_RAY": "http://head:8265", "HERMITAGE_HOME": str(tmp_path / "home")})
    assert not (tmp_path / "home").exists()


def test_a_worker_on_a_machine_that_does_not_see_the_home_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HERMITAGE_HOME", str(home))
    monkeypatch.setenv("HERMITAGE_RAY", "http://head:8265")
    for url in ("postgresql://nowhere/hermitage", ""):
        monkeypatch.setenv("DATABASE_URL", url)
        assert worker.main(["00000000-0000-0000-0000-000000000000"]) == ConfigError.exit_code
    assert not home.exists()


@pytest.mark.parametrize("answers", [False, True])
def test_a_cluster_that_does_not_answer_is_asked_once_in_a_while(
    nobody: str, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether nobody is there or somebody says nothing, a screen waits once, and the next one not at all."""
    monkeypatch.setattr("synth.jobs.ray_jobs.ANSWER_SECONDS", 0.05)
    seconds, asked = [0.0], []
    client = RayClient(nobody if answers else "http://127.0.0.1:9", clock=lambda: seconds[0])
    connect = socket.create_connection

    def noted(*arguments: object, **named: object) -> socket.socket:
        asked.append(seconds[0])
        return connect(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "create_connection", noted)
    for moment in (0.0, 14.0, 16.0, 17.0):
        seconds[0] = moment
        with pytest.raises(ClusterAwayError, match=r"does not answer\. Runs in the queue wait for it"):
            client.machines()
    assert asked == [0.0, 16.0]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_run_that_nothing_can_execute_reserves_nothing(settings: Settings) -> None:
    with Application(replace(settings, ray="http://127.0.0.1:9")) as application:
        assert isinstance(application.engine, RayEngine)
        table = application.intake.receive(io.BytesIO(b"age\n" + b"41\n" * 400), account="town", name="people.csv")
        with pytest.raises(ClusterAwayError, match=r"127\.0\.0\.1:9 does not answer\. .* nothing new is reserved"):
            application.start(parse_config(read_mapping(CONFIG)), table_id=table.table_id)
        assert not application.runs()
        assert not [
            charge for account in application.store.accounts.all() for charge in application.ledger.current(account.id)
        ]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_queue_is_kept_while_the_cluster_is_away(settings: Settings) -> None:
    with Store(replace(settings, ray="http://127.0.0.1:9")) as store:
        engine, ledger = RayEngine(store), Ledger(store)
        account, _ = store.accounts.ensure("town", Neighbours.REPLACE, PrivacyUnit())
        waits, cancelled = (store.runs.add(account_id=account.id, config="{}", owner="owner") for _ in range(2))
        for run in (waits, cancelled):
            ledger.reserve(account.id, run.id, PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE), purpose="run")
            engine.submit(run.id)
        engine.recover()
        assert engine.state(waits.id) is WorkState.QUEUED
        assert engine.cancel(cancelled.id) is WorkState.CANCELLED
        states = [ledger.charges_of(run.id)[0].state for run in (waits, cancelled)]
        assert states == [ChargeState.RESERVED, ChargeState.FREED]
