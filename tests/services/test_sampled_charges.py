"""What the ledger charges for a training on samples: never less than its receipts add up to, however many runs."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from town import CONFIG, TABLE

from synth.application import Application
from synth.generators import GENERATORS, GeneratorTask, make
from synth.ledger.spending import Cost
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.feature_maps import Constant
from synth.privacy.receipt import Receipt
from synth.progress import NullProgress
from synth.reports.forecast import PlannedSession
from synth.reports.measured import EVALUATION_QUERY, evaluation_question
from synth.schema import RunConfig, config_of_text
from synth.services.planning import cost_of_run
from synth.system.settings import Settings

SAMPLING = sorted(name for name, card in GENERATORS.items() if card.needs.sampling)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        yield opened


def config_for(generator: str) -> RunConfig:
    text = CONFIG.replace("row_count: public\nnumber_of_units: 300", "row_count: private\nlabel: town")
    options = "{steps: 3, batch_size: 30}" if generator in SAMPLING else "{}"
    return config_of_text(text.replace("{name: independent}", f"{{name: {generator}, options: {options}}}"))


def receipts_of(config: RunConfig) -> list[Receipt]:
    """Every receipt of a run that spends all of its budget on counts and on the generator."""
    budget = PrivacyBudget(config.epsilon, config.delta, config.schema.neighbours)
    session = PlannedSession(config.schema, budget, rows=300.0)
    session.noisy_sum(Constant(), share=0.02, query="number of rows", source="test")
    session.noisy_sum(evaluation_question(config.schema), share=0.1, query=EVALUATION_QUERY, source="test")
    generator = make(config.generator, GeneratorTask.of(config, device="cpu"), config.options)
    generator.fit(session.sub_session(session.remaining_share), NullProgress())
    return [dataclasses.replace(one.receipt, private=True) for one in session.answers]


@pytest.mark.parametrize("generator", SAMPLING)
@pytest.mark.parametrize("runs", [1, 2, 12, 40])
def test_the_ledger_never_states_less_than_the_receipts_of_all_runs(generator: str, runs: int) -> None:
    config = config_for(generator)
    neighbours = config.schema.neighbours
    charged = sum((cost_of_run(config)(config.epsilon, config.delta, neighbours) for _ in range(runs)), Cost())
    true = epsilon_of_receipts(receipts_of(config) * runs, config.delta)
    assert true <= charged.epsilon(config.delta)
    assert runs > 1 or charged.epsilon(config.delta) <= config.epsilon
    # Charged as though nothing was added to delta, several runs would be worth more than the ledger says.
    plain = sum((Cost.of_budget(config.epsilon, config.delta, neighbours) for _ in range(runs)), Cost())
    assert runs < 40 or plain.epsilon(config.delta) < true


def test_a_reservation_sets_the_part_of_delta_aside_as_the_plan_says(application: Application) -> None:
    config = config_for(SAMPLING[0])
    table = application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv")
    for _ in range(2):
        after = application.plan(config).epsilon_after
        with_another = application.totals_with_another(config, (config.epsilon,))
        application.reserve(config, table_id=table.table_id)
        account = application.store.accounts.named("town")
        assert account is not None
        charges = application.ledger.current(account.id)
        assert all(charge.additive_delta_units > 0 for charge in charges)
        assert after == application.ledger.spent(account.id).epsilon
        assert with_another[0] > after


def test_a_limit_counts_the_part_of_delta(application: Application) -> None:
    """A total that fits only without it is refused, before anything is written."""
    config = config_for(SAMPLING[0])
    table = application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv")
    application.reserve(config, table_id=table.table_id)
    account = application.store.accounts.named("town")
    assert account is not None
    neighbours = config.schema.neighbours
    two = sum((Cost.of_budget(config.epsilon, config.delta, neighbours) for _ in range(2)), Cost())
    truly = sum((cost_of_run(config)(config.epsilon, config.delta, neighbours) for _ in range(2)), Cost())
    between = (two.epsilon(config.delta) + truly.epsilon(config.delta)) / 2
    application.ledger.set_cap(account.id, epsilon=between, delta=config.delta)
    assert application.plan(config).refusal is not None
    assert application.plan(replace(config, generator="independent", options={})).refusal is None


def test_generators_that_draw_no_samples_are_charged_as_before() -> None:
    config = config_for("independent")
    found = cost_of_run(config)(1.0, 1e-5, config.schema.neighbours)
    assert found == Cost.of_budget(1.0, 1e-5, config.schema.neighbours)
