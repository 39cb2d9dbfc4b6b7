"""The same run on one machine and on a Ray cluster: the same bytes but for the noise, and bundles that verify alike."""

from __future__ import annotations

import io
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import psycopg
import pytest
from known_noise_worker import COMMAND, SPLIT_KEY
from ray_cluster import RayCluster

from synth.application import Application
from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.jobs import LocalEngine
from synth.jobs.engine import WORKER_COMMAND
from synth.jobs.ray_jobs import RayEngine
from synth.schema import RunConfig, parse_config
from synth.schema.documents import read_mapping
from synth.store import ChargeState
from synth.system.settings import Settings

pytestmark = pytest.mark.thorough

PATIENCE_SECONDS = 300.0
CONFIG = """
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 1000
budget: {epsilon: 4.0, delta: 1.0e-5}
rows: 150
label: ill
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south, east], fallback: north}
  ill: {type: yes_no, fallback: "no"}
"""
ROWS = [(i % 90, ("north", "south", "east")[i % 3], "yes" if i % 90 > 60 else "no") for i in range(400)]
TABLE = "age,town,ill\n" + "".join(f"{age},{town},{ill}\n" for age, town, ill in ROWS)


@pytest.fixture(scope="module")
def cluster(postgres_server: Path) -> Iterator[RayCluster]:
    cluster = RayCluster({"DATABASE_URL": address(postgres_server)})
    yield cluster
    cluster.close()


@pytest.fixture
def on_ray(
    cluster: RayCluster, postgres_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    for name, value in cluster.client_environment.items():
        monkeypatch.setenv(name, value)
    url = address(postgres_server)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    yield Settings(home=tmp_path / "on ray", database_url=url, ray=cluster.address, threads=1)
    cluster.end_jobs()


@pytest.fixture
def here(tmp_path: Path) -> Settings:
    home = tmp_path / "here"
    return Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}", threads=1)


@pytest.fixture
def config() -> RunConfig:
    return parse_config(read_mapping(CONFIG))


def address(server: Path) -> str:
    return f"postgresql://postgres@/postgres?host={server}"


def table_in(application: Application) -> str:
    return application.intake.receive(io.BytesIO(TABLE.encode()), account="town", name="people.csv").table_id


def released(settings: Settings, config: RunConfig, command: Sequence[str]) -> dict[str, bytes]:
    """Run a configuration on the engine that the settings choose; return the members of its bundle, which holds."""
    with Application(settings) as application:
        if not settings.ray:
            application.engine = LocalEngine(application.store, command=command, gpus=())
        else:
            assert isinstance(application.engine, RayEngine)
            application.engine = RayEngine(application.store, command=command)
        run_id = application.start(config, table_id=table_in(application))
        end = time.monotonic() + PATIENCE_SECONDS
        while (run := application.run(run_id)).state in ("queued", "running", "measured"):
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.2)
        assert run.state == "reported", run.message
        (charge,) = application.ledger.charges_of(run_id)
        assert charge.state is ChargeState.SPENT
        bundle = application.folder(run_id) / "bundle.zip"
    verdict = verify(bundle)
    assert verdict.ok, verdict.lines
    assert replay(bundle, settings.home / "replayed").as_certified
    with ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> set[str]:
    """Return the fields of certificates in which two bundles differ."""
    first, second = (json.loads(bundle["certificate.json"]) for bundle in (one, other))
    assert [*first] == [*second]
    return {name for name in first if first[name] != second[name]}


@pytest.mark.parametrize("generator", ["dp-hp-adaptive", "dp-merf"])
def test_with_the_same_noise_both_engines_make_the_same_bytes(
    here: Settings, on_ray: Settings, config: RunConfig, generator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"features": 60, "steps": 25, "batch_size": 64} if generator == "dp-merf" else {"cells": 20_000}
    config = replace(config, generator=generator, options=options)
    monkeypatch.setattr("synth.vault.vault.new_key", lambda: SPLIT_KEY)
    local = released(here, config, COMMAND)
    shutil.copytree(here.home / "keys", on_ray.home / "keys")
    ray = released(on_ray, config, COMMAND)
    assert [*local] == [*ray]
    assert {name for name in local if local[name] != ray[name]} == {"certificate.json", "certificate.json.sig"}
    assert differing(local, ray) == {"ledger"}  # its entries have ids and times


def test_with_fresh_noise_the_bundles_differ_in_what_is_noisy_alone(
    here: Settings, on_ray: Settings, config: RunConfig
) -> None:
    """The worker that an installation starts, with the owner's report."""
    local, ray = (released(settings, config, WORKER_COMMAND) for settings in (here, on_ray))
    assert [*local] == [*ray]
    # Which questions are asked depends on earlier answers, and so does what they cost together.
    assert differing(local, ray) <= {"ledger", "files", "receipts", "epsilon"}
