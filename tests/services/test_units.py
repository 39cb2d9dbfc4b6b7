"""One account, one unit: from tables and configurations, as an owner would ask."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from synth.application import Application
from synth.errors import PrivacyError
from synth.schema import PrivacyUnit, RunConfig, parse_config
from synth.schema.documents import read_mapping
from synth.system.settings import Settings

CONFIG = """
account: clinic
people_at_most: 1000
row_count: private
people: separate_rows
unit: {protects: person, rows_per_unit: 4, id_column: pid}
budget: {epsilon: 1.0, delta: 1.0e-6}
generator: {name: independent, options: {}}
rows: 50
columns:
  pid: {type: identifier}
  vid: {type: identifier}
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
"""
TABLE = b"pid,vid,age\n" + b"".join(b"p%d,v%d,%d\n" % (i % 60, i, i % 90) for i in range(200))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        yield opened


@pytest.fixture
def table_id(application: Application) -> str:
    return application.intake.receive(io.BytesIO(TABLE), account="clinic", name="visits.csv").table_id


def of(unit: PrivacyUnit) -> RunConfig:
    config = parse_config(read_mapping(CONFIG))
    return replace(config, schema=replace(config.schema, unit=unit))


def test_runs_that_protect_different_units_do_not_share_an_account(application: Application, table_id: str) -> None:
    """Rows of one pid, then one row of one vid, on the same rows: two epsilons that add up to nothing."""
    application.reserve(of(PrivacyUnit("person", 4, "pid")), table_id=table_id)
    for other, words in (
        (PrivacyUnit("person", 1, "vid"), "all rows of one vid"),
        (PrivacyUnit("person", 1), "one person with one row"),
        (PrivacyUnit("visit", 4, "pid"), "protects one visit"),
    ):
        config = of(other)
        with pytest.raises(PrivacyError, match=words) as refusal:
            application.reserve(config, table_id=table_id)
        assert "account" in str(refusal.value)
        assert application.plan(config).refusal == str(refusal.value), "said before anything is asked"
    assert len(application.ledger_rows("clinic")) == 1
    assert all(run.state in {"queued", "cancelled"} for run in application.runs("clinic"))


def test_another_cap_on_the_rows_of_one_id_adds_up_and_the_account_says_so(
    application: Application, table_id: str
) -> None:
    for rows in (4, 1, 6):
        config = of(PrivacyUnit("person", rows, "pid"))
        assert application.plan(config).refusal is None
        application.reserve(config, table_id=table_id)
    view = application.account("clinic")
    assert view.unit_sentence == "Protects one person: all rows of one pid"
    assert view.epsilon_simple_sum == pytest.approx(3.0)


def test_without_an_id_column_the_cap_is_part_of_the_unit(application: Application, table_id: str) -> None:
    application.reserve(of(PrivacyUnit("person", 4)), table_id=table_id)
    with pytest.raises(PrivacyError, match="up to 4 rows; this run protects one person with up to 5 rows"):
        application.reserve(of(PrivacyUnit("person", 5)), table_id=table_id)
    assert application.account("clinic").unit_sentence == "Protects one person contributing up to 4 rows"
