"""Accounts that protect one cell: what they are charged, what they refuse, and what they say."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from synth.application import Application
from synth.errors import BudgetExceededError, InputError, PrivacyError
from synth.ledger.rulings import Policy, Role
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours, RunConfig, config_to_mapping, parse_config
from synth.schema.documents import read_mapping
from synth.services.comparing import compared_runs
from synth.system.settings import Login, Settings

CONFIG = """
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: public
people_at_most: 1000
budget: {epsilon: 1.0, delta: 1.0e-5}
protection: cell
holdout: 0
generator: {name: kahm, options: {mode: cell, n: 3}}
rows: 200
label: town
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south], fallback: north}
"""
TABLE = b"age,town\n" + b"".join(b"%d,%s\n" % (i % 90, (b"north", b"south")[i % 2]) for i in range(300))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        yield opened


@pytest.fixture
def config() -> RunConfig:
    return parse_config(read_mapping(CONFIG))


@pytest.fixture
def table_id(application: Application) -> str:
    return application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id


def of_records(config: RunConfig) -> RunConfig:
    schema = replace(config.schema, protection="record", number_of_units=300)
    return replace(config, schema=schema, generator="independent", options={})


def test_the_policy_is_about_a_whole_row(tmp_path: Path, config: RunConfig) -> None:
    """An epsilon of one cell is worth several times as much for a person, whatever delta it is stated beside."""
    settings = Settings(
        home=tmp_path, database_url=f"sqlite:///{tmp_path / 'hermitage.sqlite'}", login=Login("oidc", "email")
    )
    with Application(settings) as opened:
        for name, role in (("anna", Role.OWNER), ("ben", Role.APPROVER)):
            opened.roles.give(name, [role], who="the test")
        opened.roles.set_policy(Policy(approval_epsilon=1.0), who="the test")
        anna = opened.as_user("anna")
        said = "epsilon 1 for one cell, which is worth epsilon"
        for one in (config, replace(config, delta=0.9)):
            assert said in str(anna.plan(one).approval)
        assert anna.plan(replace(config, epsilon=0.05)).approval is None
        request = anna.ask_approval(config)
        assert "Protects ONE CELL" in request.line
        assert said in str(request.caution)


def test_cells_are_charged_in_pure_epsilon(application: Application, config: RunConfig, table_id: str) -> None:
    for _ in range(2):
        run = application.reserve(config, table_id=table_id)
    (charge,) = application.ledger.charges_of(run.id)
    assert (charge.mu_squared_units, charge.slack_units, charge.coordinates) == (0, 0, 0)
    assert charge.pure_units == 2**40
    view = application.account("town")
    assert view.epsilon_spent == pytest.approx(2.0)
    assert "ONE CELL" in str(view.unit_sentence)
    plan = application.plan(config)
    assert plan.refusal is None
    assert plan.epsilon_after == pytest.approx(3.0)
    assert plan.forecast.row_epsilon == pytest.approx(1.0, rel=1e-3)
    application.ledger.heads()


def test_an_epsilon_of_one_cell_is_never_listed_without_its_worth_for_a_row(
    application: Application, config: RunConfig, table_id: str
) -> None:
    wider = replace(config, schema=replace(config.schema, cell_change=0.5), account="half", delta=1e-6)
    twins = [application.reserve(config, table_id=table_id) for _ in range(2)]
    half = application.intake.receive(io.BytesIO(TABLE), account="half", name="people.csv").table_id
    other = application.reserve(wider, table_id=half)
    rows = {row.run_id: row.row_worth for row in application.ledger_rows()}
    expected = {name: application.plan(one).forecast.row_epsilon for name, one in (("town", config), ("half", wider))}
    assert rows == {
        **{run.id: (expected["town"], 1e-5) for run in twins},
        other.id: (expected["half"], 1e-6),
    }
    # Half the protected change is half the noise: a row costs more, the entered epsilon is the same.
    assert expected["half"] > expected["town"] * 1.5
    assert application.run(other.id).row_worth == (expected["half"], 1e-6)
    assert application.account("town").row_worth == pytest.approx((2 * expected["town"], 2e-5))
    application.ledger.settle(twins[0].id)
    assert application.account("town").row_worth == pytest.approx((expected["town"], 1e-5)), (
        "what was freed is not paid"
    )
    sentence = compared_runs(
        [replace(application.run(run.id), state="reported") for run in twins], [[], []], ledger=application.ledger
    ).sentence
    assert f"for one cell, {2 * expected['town']:.6g} for a row with the same label at delta 2e-05" in sentence


def test_records_are_listed_as_they_are(application: Application, config: RunConfig, table_id: str) -> None:
    run = application.reserve(of_records(config), table_id=table_id)
    assert application.ledger_rows()[0].row_worth is None
    assert application.account("town").row_worth is None
    assert application.run(run.id).row_worth is None


def test_a_charge_without_a_configuration_is_said_to_be_unknown(
    application: Application, config: RunConfig, table_id: str
) -> None:
    application.reserve(config, table_id=table_id)
    account = application.store.accounts.open("town")
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5, neighbours=Neighbours.CELL)
    application.ledger.enter_certificate(account.id, budget, certificate_id="5f0c", who="owner")
    assert application.ledger_rows()[-1].row_worth == (None, 1e-5)
    assert application.account("town").row_worth == (None, pytest.approx(2e-5))


def test_a_cap_on_cells_is_one_on_their_plain_sum(application: Application, config: RunConfig, table_id: str) -> None:
    application.set_cap("town", 1.5, 1e-5)
    application.reserve(config, table_id=table_id)
    with pytest.raises(BudgetExceededError, match=r"bring the total to 2\.00.*Use 0\.50 or less"):
        application.reserve(config, table_id=table_id)
    application.reserve(replace(config, epsilon=0.5), table_id=table_id)
    with pytest.raises(BudgetExceededError, match="Nothing more fits"):
        application.reserve(replace(config, epsilon=0.01), table_id=table_id)


def test_a_record_never_enters_an_account_of_cells_nor_a_cell_one_of_records(
    application: Application, config: RunConfig, table_id: str
) -> None:
    application.reserve(config, table_id=table_id)
    with pytest.raises(PrivacyError, match="protects one cell"):
        application.reserve(of_records(config), table_id=table_id)
    assert "a different promise" in str(application.plan(of_records(config)).refusal)
    other = application.intake.receive(io.BytesIO(TABLE), account="village", name="people.csv").table_id
    application.reserve(replace(of_records(config), account="village"), table_id=other)
    with pytest.raises(PrivacyError, match="protects whole rows"):
        application.reserve(replace(config, account="village"), table_id=other)
    assert len(application.ledger_rows("village")) == 1


def test_later_runs_name_the_same_label_and_the_same_change(
    application: Application, config: RunConfig, table_id: str
) -> None:
    application.reserve(config, table_id=table_id)
    for changed in (
        replace(config, label=None),
        replace(config, schema=replace(config.schema, cell_change=0.5)),
    ):
        with pytest.raises(PrivacyError, match="protect other cells"):
            application.reserve(changed, table_id=table_id)
        assert "protect other cells" in str(application.plan(changed).refusal)
    assert application.account("town").epsilon_spent == pytest.approx(1.0)


def test_what_is_written_about_cells_is_read_again(config: RunConfig) -> None:
    part = replace(config, schema=replace(config.schema, cell_change=0.25))
    mapping = config_to_mapping(part)
    assert (mapping["protection"], mapping["cell_change"]) == ("cell", 0.25)
    assert parse_config(mapping).schema == part.schema
    assert "protection" not in config_to_mapping(of_records(config))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("protection: row", "protection must be record or cell"),
        ("row_count: private", "row_count: public"),
        ("unit: {protects: person, rows_per_unit: 3}", "rows_per_unit: 1"),
        ("protection: cell\ncell_change: 2", "at most 1"),
        ("protection: record\ncell_change: 0.5", "only for 'protection: cell'"),
    ],
)
def test_what_cannot_be_protected_is_refused_in_one_sentence(line: str, message: str) -> None:
    changed = {entry.partition(":")[0] for entry in line.splitlines()}
    kept = [entry for entry in CONFIG.splitlines() if entry.partition(":")[0] not in changed]
    text = "\n".join([line, *kept])
    with pytest.raises(InputError, match=message) as refusal:
        parse_config(read_mapping(text))
    assert "\n" not in str(refusal.value)
