"""A second person's approval: asked for, given by somebody else, bound to one configuration, and used once."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from town import CONFIG, TABLE

from synth.application import Application
from synth.cli.commands import main
from synth.errors import ApprovalRequiredError, InputError, LedgerError, NotAllowedError
from synth.jobs.processes import birth_of
from synth.ledger.charging import Approval
from synth.ledger.rulings import Policy, Role
from synth.privacy.accounting import PrivacyBudget
from synth.progress import NullProgress
from synth.schema import RunConfig, config_to_mapping, parse_config
from synth.schema.documents import read_mapping
from synth.services import access
from synth.services.previewing import Previews
from synth.services.runs import carry_out
from synth.store import ChargeState, DecisionKind, WorkState
from synth.system.machine import this_host
from synth.system.settings import Login, Settings

USERS = {
    "anna": [Role.OWNER],
    "ben": [Role.APPROVER, Role.OWNER],
    "carla": [Role.AUDITOR],
    "dan": [Role.ADMIN],
}


@pytest.fixture
def application(settings: Settings) -> Iterator[Application]:
    with Application(replace(settings, login=Login("oidc", "email"))) as opened:
        for name, roles in USERS.items():
            opened.roles.give(name, roles, who="the test")
        opened.as_user("dan").set_policy(Policy(approval_epsilon=0.5, release_epsilon=4.0))
        yield opened


@pytest.fixture
def config() -> RunConfig:
    return parse_config(read_mapping(CONFIG))  # of epsilon 1


def table_of(user: Application) -> str:
    return user.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id


def states(application: Application) -> list[str]:
    return [
        charge.state.value for run in application.store.runs.all() for charge in application.ledger.charges_of(run.id)
    ]


def done(application: Application, run_id: str, progress: NullProgress | None = None) -> None:
    application.store.work.claim(run_id, host=this_host(), pid=os.getpid(), pid_created=birth_of(os.getpid()))
    carry_out(application.installation, run_id, progress or NullProgress(), owner_report=False)


def test_one_asks_a_second_approves_and_it_is_good_for_one_charge(application: Application, config: RunConfig) -> None:
    anna, ben, carla = map(application.as_user, ("anna", "ben", "carla"))
    table = table_of(anna)
    plan = anna.plan(config)
    assert plan.refusal is None
    assert plan.can_ask
    assert "above 0.5, a second person has to approve it" in str(plan.approval)
    with pytest.raises(ApprovalRequiredError, match="Ask for it, and start the run once it is approved"):
        anna.reserve(config, table_id=table)
    request = anna.ask_approval(config)
    assert request.caution is None
    assert anna.ask_approval(config).id == request.id  # the same that still waits
    assert application.store.runs.all() == ()
    assert not anna.plan(config).can_ask
    with pytest.raises(ApprovalRequiredError, match=f"request {request.id}, and is not decided yet"):
        anna.reserve(config, table_id=table)

    assert [one.id for one in ben.approvals.all()] == [request.id]
    with pytest.raises(InputError, match="Give a reason"):
        ben.approvals.approve(request.id, because=" ")
    approved = ben.approvals.approve(request.id, because="the board said yes")
    assert (approved.state, approved.decided_by, approved.because) == ("approved", "ben", "the board said yes")
    with pytest.raises(InputError, match="was decided already: approved by ben"):
        ben.approvals.refuse(request.id, because="no")
    assert anna.plan(config).approval is None

    # Of another configuration it is none, not even of one that differs in the seed alone.
    for other in (replace(config, epsilon=2.0), replace(config, seed=config.seed + 1), replace(config, rows=201)):
        with pytest.raises(ApprovalRequiredError):
            anna.reserve(other, table_id=table)
    run = anna.reserve(config, table_id=table)
    with pytest.raises(ApprovalRequiredError, match="was used by an earlier run"):
        anna.reserve(config, table_id=table)
    assert anna.approvals.all()[0].state == "used"
    # A reservation that was never spent is freed, and gives the approval back.
    application.ledger.settle(run.id)
    assert anna.approvals.all()[0].state == "approved"
    again = anna.reserve(config, table_id=table)
    done(application, again.id)
    assert application.store.runs[again.id].state is WorkState.REPORTED
    with pytest.raises(ApprovalRequiredError):
        anna.reserve(config, table_id=table)

    chain = application.ledger.chain(application.store.accounts.open("town").id)
    kinds = [one.kind.value for one in chain.decisions if one.kind in _OF_REQUESTS]
    assert kinds == ["asked", "approved", "used", "used"]  # the first of two uses was freed
    decided = [one.what for one in carla.decisions() if one.account == "town" and one.who == "ben"]
    assert decided == [f"approved request {request.id} of anna, epsilon 1: the board said yes"]
    assert {row.state for row in carla.ledger_rows()} >= {"reserved", "freed", "spent"}


_OF_REQUESTS = (DecisionKind.ASKED, DecisionKind.APPROVED, DecisionKind.REFUSED, DecisionKind.USED)


def test_nobody_approves_what_they_asked_for_themselves(application: Application, config: RunConfig) -> None:
    ben = application.as_user("ben")
    request = ben.ask_approval(config)
    with pytest.raises(NotAllowedError, match="You asked for this yourself, so somebody else has to decide it"):
        ben.approvals.approve(request.id, because="why not")
    with pytest.raises(NotAllowedError, match="You asked for this yourself"):
        ben.approvals.refuse(request.id, because="why not")
    with pytest.raises(InputError, match="There is no request 'feedbeef'"):
        ben.approvals.approve("feedbeef", because="why not")


def test_nobody_approves_for_an_account_of_their_own_or_under_another_spelling(
    application: Application, config: RunConfig
) -> None:
    """An account that is handed over while a request waits, and a name that a provider writes with a capital."""
    anna, ben = application.as_user("anna"), application.as_user("ben")
    table_of(anna)
    request = anna.ask_approval(config)
    application.as_user("dan").hand_over("town", "ben")
    with pytest.raises(NotAllowedError, match="The account is yours, so somebody else has to decide it"):
        ben.approvals.approve(request.id, because="why not")
    assert ben.ask_approval(config).id == request.id  # the same request, which somebody else asked for
    assert ben.approvals.hindrance(request) is not None
    application.roles.give("Anna", [Role.APPROVER], who="the test")
    with pytest.raises(NotAllowedError, match="You asked for this yourself"):
        application.as_user("Anna").approvals.approve(request.id, because="why not")
    application.roles.give("bob", [Role.APPROVER], who="the test")
    assert application.as_user("bob").approvals.approve(request.id, because="yes").state == "approved"


def test_an_approval_is_good_for_no_more_than_was_approved(application: Application, config: RunConfig) -> None:
    """A preview that is shown afterwards adds to what the certificate states."""
    anna, ben = application.as_user("anna"), application.as_user("ben")
    table = table_of(anna)
    first = anna.ask_approval(config)
    ben.approvals.approve(first.id, because="one run of epsilon 1")
    account = application.store.accounts.open("town").id
    shown = PrivacyBudget(0.4, 1e-6, config.schema.neighbours)
    application.ledger.enter_certificate(
        account, shown, certificate_id="0123456789abcdef", who="the test", purpose=Previews.purpose
    )
    assert anna.as_released(config).previews
    with pytest.raises(ApprovalRequiredError, match=f"{first.id} was approved for epsilon 1, before more was shown"):
        anna.reserve(config, table_id=table)
    assert anna.plan(config).can_ask
    second = anna.ask_approval(config)
    assert second.id != first.id
    assert second.epsilon > 1
    ben.approvals.approve(second.id, because="both together")
    assert anna.reserve(config, table_id=table)
    assert {one.id: one.state for one in anna.approvals.all()} == {first.id: "approved", second.id: "used"}
    with pytest.raises(ApprovalRequiredError):
        anna.reserve(config, table_id=table)


@pytest.mark.parametrize("delta", [1e-3, 0.5, 0.999])
def test_a_large_delta_does_not_make_an_epsilon_small(
    application: Application, config: RunConfig, delta: float
) -> None:
    """At a delta of .5 hardly any noise has an epsilon of .4; what counts is what the noise is worth at 1e-5."""
    anna = application.as_user("anna")
    table = table_of(anna)
    small = replace(config, epsilon=0.4)
    assert anna.plan(small).approval is None
    wide = replace(small, delta=delta)
    with pytest.raises(ApprovalRequiredError, match=rf"0\.4 at delta {delta:g}, which is worth epsilon"):
        anna.reserve(wide, table_id=table)
    with pytest.raises(ApprovalRequiredError, match=r"which is worth epsilon .* Use a smaller delta"):
        anna.previews.reserve(config, ["age"], table_id=table, epsilon=0.4, delta=delta)
    assert states(application) == []
    # At a delta below it, the epsilon that is stated is the one that counts.
    assert anna.reserve(replace(small, delta=1e-9), table_id=table)


@pytest.mark.parametrize("what", ["another seed", "another run"])
def test_an_approval_covers_nothing_that_is_written_into_the_database(
    application: Application, config: RunConfig, what: str
) -> None:
    """What was approved and used is in the chain: the configuration of a run is not."""
    anna, ben = application.as_user("anna"), application.as_user("ben")
    table = table_of(anna)
    ben.approvals.approve(anna.ask_approval(config).id, because="one run")
    run = anna.reserve(config, table_id=table)
    other = _as_json(replace(config, seed=config.seed + 1))
    with application.store.writing() as connection:
        connection.execute(text("UPDATE runs SET config = :other"), {"other": other})
    if what == "another seed":
        with pytest.raises(LedgerError, match="not the one for which its budget was reserved"):
            application.ledger.spend(application.ledger.charges_of(run.id)[0], config=other)
    else:
        with pytest.raises(ApprovalRequiredError, match="was used by an earlier run"):
            anna.reserve(config, table_id=table)


def test_a_release_that_is_entered_after_a_restore_uses_its_approval(
    application: Application, config: RunConfig
) -> None:
    anna, ben = application.as_user("anna"), application.as_user("ben")
    table = table_of(anna)
    ben.approvals.approve(anna.ask_approval(config).id, because="one run")
    account, asked = application.store.accounts.open("town").id, _as_json(config)
    budget = PrivacyBudget(config.epsilon, config.delta, config.schema.neighbours)
    application.ledger.enter_certificate(account, budget, certificate_id="c" * 16, who="dan", config=asked)
    assert [one.state for one in anna.approvals.all()] == ["used"]
    with pytest.raises(ApprovalRequiredError, match="was used by an earlier run"):
        anna.reserve(config, table_id=table)


def test_a_refusal_stands_with_its_reason(application: Application, config: RunConfig) -> None:
    anna, ben = application.as_user("anna"), application.as_user("ben")
    table = table_of(anna)
    request = anna.ask_approval(config)
    ben.approvals.refuse(request.id, because="too much for this year")
    with pytest.raises(ApprovalRequiredError, match=f"{request.id} was refused by ben: too much for this year"):
        anna.reserve(config, table_id=table)
    assert anna.plan(config).can_ask
    assert anna.ask_approval(config).id != request.id
    assert [one.state for one in ben.approvals.all()].count("waiting") == 1


def test_above_the_limit_of_a_release_nobody_is_asked(application: Application, config: RunConfig) -> None:
    anna = application.as_user("anna")
    table = table_of(anna)
    wide = replace(config, epsilon=5.0)
    for ask in (lambda: anna.ask_approval(wide), lambda: anna.reserve(wide, table_id=table)):
        with pytest.raises(ApprovalRequiredError, match="allows at most epsilon 4 for one release, and this one has 5"):
            ask()
    assert not anna.plan(wide).can_ask
    assert anna.approvals.all() == ()
    assert application.ledger.rows(application.store.accounts.open("town").id) == ()
    with pytest.raises(InputError, match="needs no approval"):
        anna.ask_approval(replace(config, epsilon=0.5))


def test_a_finding_and_a_preview_stay_below_the_threshold(application: Application) -> None:
    anna = application.as_user("anna")
    found = parse_config(read_mapping(CONFIG.replace("epsilon: 1.0", "epsilon: 3")))
    table = table_of(anna)
    plan = anna.previews.plan(found, ["age"], epsilon=0.9)
    assert "possible for a release and not for a preview" in str(plan.refusal)
    with pytest.raises(ApprovalRequiredError, match="Use a smaller epsilon for it"):
        anna.previews.reserve(found, ["age"], table_id=table, epsilon=0.9)
    anna.previews.reserve(found, ["age"], table_id=table, epsilon=0.4)


def test_of_two_runs_that_begin_together_one_has_the_approval(application: Application, config: RunConfig) -> None:
    """The ledger decides it under the lock of the account, whatever both have read before."""
    anna, ben = application.as_user("anna"), application.as_user("ben")
    table = table_of(anna)
    ben.approvals.approve(anna.ask_approval(config).id, because="one run")
    gate, refused, made = threading.Barrier(4), [], []

    def run() -> None:
        own = application.as_user("anna")
        approval = own.approvals.require(config)
        planned = application.store.runs.add(
            account_id=application.store.accounts.open("town").id,
            config=_as_json(config),
            owner="anna",
            table_id=table,
        )
        gate.wait()
        try:
            made.append(_reserve(application, planned.id, config, approval))
        except ApprovalRequiredError as error:
            refused.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 3)


def _as_json(config: RunConfig) -> str:
    return json.dumps(config_to_mapping(config.published()))


def _reserve(application: Application, run_id: str, config: RunConfig, approval: Approval | None) -> object:
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    account = application.store.accounts.open("town").id
    return application.ledger.reserve(account, run_id, budget, purpose="a race", approval=approval)


def test_of_two_approvers_who_answer_together_one_does(application: Application, config: RunConfig) -> None:
    """One request is one answer: two approvals of it would be good for two charges."""
    application.roles.give("bob", [Role.APPROVER], who="the test")
    anna = application.as_user("anna")
    table_of(anna)
    request = anna.ask_approval(config).id
    gate, refused = threading.Barrier(4), []

    def answer(name: str, word: str) -> None:
        own = application.as_user(name).approvals
        gate.wait()
        try:
            (own.approve if word == "approved" else own.refuse)(request, because=word)
        except InputError as error:
            refused.append(str(error))

    told = [("ben", "approved"), ("bob", "refused"), ("ben", "refused"), ("bob", "approved")]
    threads = [threading.Thread(target=answer, args=one) for one in told]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (found,) = anna.approvals.all()
    assert [f"was decided already: {found.state} by {found.decided_by}" in words for words in refused] == [True] * 3
    chain = application.ledger.chain(application.store.accounts.open("town").id)
    assert [one.kind.value for one in chain.decisions] == ["asked", found.state]


def test_an_approval_that_was_written_into_the_database_is_noticed(application: Application, config: RunConfig) -> None:
    anna, ben = application.as_user("anna"), application.as_user("ben")
    table = table_of(anna)
    first = anna.ask_approval(config)
    ben.approvals.refuse(first.id, because="no")
    is_sqlite = application.settings.database_url.startswith("sqlite")
    drop = "DROP TRIGGER decisions_no_update" if is_sqlite else "DROP TRIGGER decisions_append_only ON decisions"
    with application.store.writing() as connection:
        connection.execute(text(drop))
        connection.execute(text("UPDATE decisions SET kind = 'approved' WHERE kind = 'refused'"))
    with pytest.raises(LedgerError, match="was altered at decision"):
        anna.reserve(config, table_id=table)


def test_a_role_that_is_taken_away_while_the_run_waits_costs_nothing(
    application: Application, config: RunConfig
) -> None:
    anna, dan = application.as_user("anna"), application.as_user("dan")
    run = anna.reserve(replace(config, epsilon=0.5), table_id=table_of(anna))
    dan.give_roles("anna", [])
    with pytest.raises(NotAllowedError, match="'anna', who asked for this, has not the role of owner any more"):
        carry_out(application.installation, run.id, NullProgress(), owner_report=False)
    assert states(application) == ["reserved"]
    application.ledger.settle(run.id)
    assert states(application)[-1] == "freed"


def test_a_run_that_was_charged_ends_whatever_becomes_of_the_role(application: Application, config: RunConfig) -> None:
    """What is paid for is not lost: somebody else can be given the account."""
    anna, dan = application.as_user("anna"), application.as_user("dan")
    run = anna.reserve(replace(config, epsilon=0.5), table_id=table_of(anna))

    class Taking(NullProgress):
        def phase(self, name: str, steps: int | None = None) -> None:
            spent = application.ledger.charges_of(run.id)[-1].state is ChargeState.SPENT
            if spent and "anna" in application.roles.all():
                dan.give_roles("anna", [])

    done(application, run.id, Taking())
    assert "anna" not in application.roles.all()
    assert application.store.runs[run.id].state is WorkState.REPORTED
    with pytest.raises(NotAllowedError):
        anna.report(run.id)
    dan.hand_over("town", "ben")
    assert application.as_user("ben").report(run.id)


# On the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def synth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(TABLE)
    (tmp_path / "town.yaml").write_text(f"table: people.csv\n{CONFIG}")

    def command(*arguments: str, user: str = "anna") -> tuple[int, str]:
        monkeypatch.setattr(access, "local_user", lambda: user)
        monkeypatch.setattr("synth.application.local_user", lambda: user)
        code = main(list(arguments))
        said = capsys.readouterr()
        return code, said.out + said.err

    return command


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial")
def test_the_command_line_asks_and_ends_with_code_four(synth: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    assert synth("user")[1].strip() == "There are no users: whoever reaches this may do everything."
    assert synth("policy", "--approval-epsilon", "0.5")[0] == 0
    code, said = synth("run", "town.yaml", "--out", "release")
    assert code == 4
    assert "has only one user, so nobody can" in said
    for name, roles in {"dan": "admin", "anna": "owner", "ben": "approver"}.items():
        assert synth("user", name, "--roles", roles, user="root")[0] == 0
    code, said = synth("run", "town.yaml", "--out", "release")
    assert code == 4
    request = said.partition("as request ")[2][:8]
    assert "is not decided yet" in said
    assert not (tmp_path / "release").exists()
    # Nothing was read for it: no table was taken in.
    assert not list((tmp_path / "home" / "vault").glob("*.table"))
    assert synth("run", "town.yaml", "--out", "release")[1].partition("as request ")[2][:8] == request
    assert synth("approvals", "--approve", request, "--because", "x")[0] == 2
    assert synth("approvals", "--approve", request, user="ben")[1].strip().startswith("synth: Give a reason")
    code, said = synth("approvals", "--approve", request, "--because", "the board said yes", user="ben")
    assert (code, "approved by ben: the board said yes" in said) == (0, True)
    code, said = synth("run", "town.yaml", "--out", "release", "--no-owner-report")
    assert code == 0, said
    assert synth("verify", "release/bundle.zip", user="nobody")[0] == 0
    # The next run of the same configuration is asked about anew.
    code, said = synth("run", "town.yaml", "--out", "again")
    assert code == 4
    assert said.partition("as request ")[2][:8] not in (request, "")
    # Nobody else's account.
    synth("user", "otto", "--roles", "owner", user="root")
    assert synth("account", "town", user="otto")[0] == 2
    assert synth("ledger", user="otto")[1].strip() == "Nothing spent yet."
    assert synth("account", "town", "--owner", "otto", user="dan")[0] == 0
    assert "released" in synth("ledger", user="otto")[1]
