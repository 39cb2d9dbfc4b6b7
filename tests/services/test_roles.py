"""Every use case with every role, on a real installation: who may ask for what, and about whose account."""

from __future__ import annotations

import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from town import CONFIG, TABLE

from synth.application import Application
from synth.demonstration import CLINIC
from synth.errors import BudgetExceededError, ConfigError, InputError, LedgerError, NotAllowedError, TableError
from synth.ledger.notes import SEEN_ELSEWHERE
from synth.ledger.rulings import Policy, Role, roles_called
from synth.progress import NullProgress
from synth.rehearsal.rehearsals import Rehearsals
from synth.rehearsal.run_estimates import RunEstimates
from synth.schema import parse_config
from synth.schema.documents import read_mapping
from synth.services.access import UseCase
from synth.services.approvals import Approvals
from synth.services.finding import Findings
from synth.services.intake import Intake
from synth.services.previewing import Previews
from synth.services.run_folder import make
from synth.services.runs import carry_out
from synth.services.stops import Stops
from synth.system.settings import Login, Settings

SERVICES: dict[type, str] = {
    Application: "",
    Approvals: "approvals",
    Findings: "findings",
    Intake: "intake",
    Previews: "previews",
    Rehearsals: "rehearsals",
    RunEstimates: "estimates",
    Stops: "stops",
}
"""Every class with use cases, and where the application has it."""

MATRIX = {
    "owner": """
        Application: ask_approval as_released bundle cancel_check cancel_renewal check_again checking compare counts
            demonstration device_reason first_rows folder latest_run latest_runs linked_file model note_look
            open_account owner_report plan release renew renewal renewal_minutes report require_approval reserve rows
            rows_as_declared start totals_with_another
        Approvals: ask
        Findings: cancel latest plan reserve standing start
        Intake: join keys_with name_of read_as receive receive_from receive_linked receive_listed recognise
            recognise_table rename_columns table tables
        Previews: cancel going of_account plan reserve result standing
        Rehearsals: cancel predictions rehearse rehearse_grid report standing start
        RunEstimates: answers ask cancel standing
        Stops: of
    """,
    "owner auditor": "Application: certificate config_of run runs",
    "owner admin": """
        Application: cancel
        Intake: delete_table
    """,
    "owner auditor admin": "Application: account account_names accounts ledger_rows",
    "owner approver auditor admin": "Approvals: all",
    "approver": "Approvals: approve hindrance refuse",
    "auditor admin": """
        Application: check_heads decisions heads
        Stops: all
    """,
    "admin": """
        Application: accept_ledger enter_release enter_releases give_roles hand_over incidents set_cap set_policy strays
            users
        Intake: kept
        Stops: clear
    """,
    "everyone": "Application: as_user for_local_user from_environment policy public_key verify",
    "program": """
        Application: close note_incident purge
        Approvals: can_be_asked require
        Intake: check
        Rehearsals: carry_out purge
        RunEstimates: carry_out
        Stops: check record
    """,
}
"""Which roles may ask for which use case, as docs/deploying.md says; the rest is nobody's."""

USERS = {"anna": "owner", "otto": "owner", "ben": "approver", "carla": "auditor", "dan": "admin", "nobody": ""}
"""The account, the table and the run are anna's."""


def expected() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for roles, lines in MATRIX.items():
        service = ""
        for word in lines.split():
            if word.endswith(":"):
                service = word[:-1]
            else:
                assert (service, word) not in found
                found[service, word] = roles
    return found


def use_cases() -> dict[tuple[str, str], UseCase | None]:
    """Return every public method of every service; None where nobody said who may call it."""
    return {
        (service.__name__, name): getattr(method, "use_case", None)
        for service in SERVICES
        for name, method in inspect.getmembers(service, callable)
        if not name.startswith("_")
    }


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    settings = Settings(
        home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}", login=Login("header", "X-Forwarded-User")
    )
    with Application(settings) as opened:
        for name, roles in USERS.items():
            if roles:
                opened.roles.give(name, roles_called([roles]), who="the test")
        yield opened


def test_every_public_method_says_who_may_call_it_and_the_table_of_roles_knows_each() -> None:
    """A new use case fails here until someone has decided whose it is."""
    found = use_cases()
    assert [name for name, case in found.items() if case is None] == []
    assert set(found) == set(expected())
    for name, roles in expected().items():
        case = found[name]
        assert case is not None
        if roles == "everyone":
            assert case.roles is None
        else:
            assert case.roles == frozenset(roles_called(roles.split())) if roles != "program" else case.roles == set()


def test_every_use_case_with_every_role(application: Application) -> None:
    config = parse_config(read_mapping(CONFIG))
    anna = application.as_user("anna")
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    run = anna.reserve(config, table_id=table).id
    values: dict[str | None, Any] = {
        **{"account": "town", "name": "town", "look_for": "town", "config": config, "table_id": table},
        **{"run_id": run, "preview_id": run, "subject": table, None: None},
    }
    tried = 0
    for (service, method), roles in expected().items():
        case = use_cases()[service, method]
        assert case is not None
        for user, had in USERS.items():
            own = application.as_user(user)
            place = SERVICES[next(one for one in SERVICES if one.__name__ == service)]
            bound = getattr(getattr(own, place) if place else own, method)
            allowed = roles == "everyone" or had in roles.split() if had else roles == "everyone"
            if user == "otto" and case.subject is not None:
                allowed = False  # an owner, but not this one's
            if allowed:
                case.require(own.access, values[case.subject])
            elif roles != "program":
                # For real: refused before an argument is looked at, so that nothing of it matters.
                given = {case.subject: values[case.subject]} if case.subject else {}
                others = dict.fromkeys(_needed(bound), None) | given
                with pytest.raises(NotAllowedError):
                    bound(**others)
            tried += 1
    assert tried == len(expected()) * len(USERS)


def _needed(method: Any) -> list[str]:
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = inspect.signature(method).parameters.items()
    return [name for name, one in named if one.default is empty and one.kind not in kinds]


class _BegunError(Exception):
    """A rehearsal has begun."""


class _Beginning(NullProgress):
    def phase(self, name: str, steps: int | None = None) -> None:
        raise _BegunError


def test_an_owner_sees_only_their_own(application: Application) -> None:
    """Tables, drafts, runs and accounts of another owner are on no list, and an address of one leads nowhere."""
    config = parse_config(read_mapping(CONFIG))
    anna, otto = application.as_user("anna"), application.as_user("otto")
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    run = anna.reserve(config, table_id=table).id
    anna.drafts.save(table, {"account": "town"}, seen=0)
    anna.begun.save("00000000-0000-4000-8000-000000000000", {"account": "later"}, seen=0)
    assert [one.table_id for one in anna.intake.tables()] == [table]
    assert [one.run_id for one in anna.runs()] == [run]
    assert anna.account_names() == ["town"]
    assert len(anna.drafts.latest(9)) == len(anna.begun.latest(9)) == 1
    for seen in (otto.intake.tables(), otto.runs(), otto.latest_runs(9), otto.accounts(), otto.ledger_rows()):
        assert seen == []
    assert otto.account_names() == []
    for drafts in (otto.drafts, otto.begun):
        assert drafts.latest(9) == ()
    assert otto.drafts.find(table) is None
    assert otto.drafts.number(table) == 0
    assert otto.drafts.save(table, {"account": "mine"}, seen=1) is None
    assert otto.drafts.save(table, {"account": "mine"}, seen=0) is None
    begun = "00000000-0000-4000-8000-000000000000"
    otto.begun.forget(begun)
    assert otto.begun.find(begun) is None
    assert otto.begun.save(begun, {"account": "mine"}, seen=1) is None
    assert dict(anna.begun.find(begun).body) == {"account": "later"}  # type: ignore[union-attr]
    with pytest.raises(NotAllowedError, match="belongs to another owner"):
        otto.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv")
    # The same table under an account of their own: that another owner has exactly these rows is told to neither.
    own = otto.intake.receive(io.BytesIO(TABLE), account="village", name="people.csv")
    assert own.same_table is None
    assert anna.intake.table(table).same_table is None
    views = [*otto.accounts(), *anna.accounts(), otto.account("village")]
    assert not any(SEEN_ELSEWHERE in view.notes for view in views)
    assert all(SEEN_ELSEWHERE in view.notes for view in application.as_user("dan").accounts())
    # Neither does a stand-in tell; of one's own table it does.
    otto.intake.delete_table(own.table_id)
    other = TABLE.replace(b"0,north", b"1,north", 1)
    anna.intake.receive(io.BytesIO(other), account="town", name="people.csv")
    with pytest.raises(_BegunError):
        otto.rehearsals.rehearse(config, lambda: io.BytesIO(other), _Beginning())
    for user, account in ((anna, "town"), (otto, "village")):
        with pytest.raises(TableError, match=f"a private table of the account '{account}'"):
            user.rehearsals.rehearse(config, lambda: io.BytesIO(TABLE), _Beginning())
    # And the run of a table that is another's is refused, whatever account it names.
    with pytest.raises(NotAllowedError):
        otto.latest_run(table)
    auditor = application.as_user("carla")
    assert auditor.account_names() == ["town", "village"]
    assert len(auditor.ledger_rows()) == 1
    with pytest.raises(NotAllowedError):
        auditor.intake.table(table)


def test_everybody_may_open_the_demonstration_and_what_is_signed_names_the_user(application: Application) -> None:
    anna, otto = application.as_user("anna"), application.as_user("otto")
    accounts = [user.demonstration(CLINIC)[0].account for user in (anna, otto)]
    assert accounts == ["demonstration of one clinic, anna", "demonstration of one clinic, otto"]
    assert otto.account_names(own=True) == accounts[1:]
    application.roles.give("otto", [Role.OWNER, Role.ADMIN], who="the test")
    assert otto.account_names(own=True) == accounts[1:]
    assert otto.account_names() == accounts
    assert otto.access.signed(" A. Steward ") == "otto (A. Steward)"
    assert otto.access.signed("otto") == "otto"
    assert len(otto.access.signed("x" * 500)) == 120


def test_an_auditor_sees_who_spent_who_deleted_rows_and_who_cleared_an_incident(application: Application) -> None:
    config = parse_config(read_mapping(CONFIG))
    anna, carla, dan = map(application.as_user, ("anna", "carla", "dan"))
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    run = anna.reserve(config, table_id=table).id
    assert [(row.run_id, row.who) for row in carla.ledger_rows()] == [(run, "anna")]
    assert carla.ledger_rows()[0].line.endswith("  by anna")
    anna.cancel(run)
    dan.intake.delete_table(table)
    application.stops.record(config, "0badcafe", "the closest record")
    dan.stops.clear("0badcafe", who="D. Admin", because="a bug that is mended")
    told = {(one.account, one.what, one.who) for one in carla.decisions()}
    assert ("town", f"deleted the rows of the table {table[:8]}", "dan") in told
    assert ("", "cleared incident 0badcafe: a bug that is mended", "dan (D. Admin)") in told


def test_an_account_that_is_handed_over_goes_with_all_it_has(application: Application) -> None:
    config = parse_config(read_mapping(CONFIG))
    anna, otto, dan = map(application.as_user, ("anna", "otto", "dan"))
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    run = anna.reserve(config, table_id=table).id
    with pytest.raises(InputError, match="'carla' is no owner here"):
        dan.hand_over("town", "carla")
    dan.hand_over("town", "otto")
    assert [one.run_id for one in otto.runs()] == [run]
    assert anna.runs() == []
    assert ("handed over to otto", "dan") in {(one.what, one.who) for one in dan.decisions()}
    with application.store.writing() as connection:
        connection.execute(text("UPDATE accounts SET owner = 'anna'"))
    with pytest.raises(LedgerError, match="altered in its owner"):
        application.as_user("carla").ledger_rows()


def test_an_owner_who_writes_their_name_on_an_account_in_the_database_gets_no_row(application: Application) -> None:
    """The chain begins with who opened the account, and the header of every table with the chain."""
    anna, otto = application.as_user("anna"), application.as_user("otto")
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    with application.store.writing() as connection:
        connection.execute(text("UPDATE accounts SET owner = 'otto'"))
    with pytest.raises(LedgerError, match="was altered"):
        otto.intake.recognise_table(table)
    with pytest.raises(LedgerError, match="was altered"):
        otto.reserve(parse_config(read_mapping(CONFIG)), table_id=table)


def test_a_run_that_is_given_the_table_of_another_account_in_the_database_reads_nothing(
    application: Application,
) -> None:
    anna, otto = application.as_user("anna"), application.as_user("otto")
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    own = otto.intake.receive(io.BytesIO(TABLE), account="village", name="people.csv").table_id
    run = otto.reserve(parse_config(read_mapping(CONFIG.replace("account: town", "account: village"))), table_id=own)
    with application.store.writing() as connection:
        connection.execute(text("UPDATE runs SET table_id = :table"), {"table": table})
    with pytest.raises(LedgerError, match="not the one for which its budget was reserved"):
        carry_out(application.installation, run.id, NullProgress(), owner_report=False)
    assert [charge.state.value for charge in application.ledger.charges_of(run.id)] == ["reserved"]


def test_an_owner_who_writes_their_name_on_an_account_reads_no_exact_report(application: Application) -> None:
    anna, otto = application.as_user("anna"), application.as_user("otto")
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    run = anna.reserve(parse_config(read_mapping(CONFIG)), table_id=table).id
    folder = make(application.settings, run) / "owner"
    folder.mkdir(exist_ok=True)
    (folder / "report.json").write_text("{}")
    with application.store.writing() as connection:
        connection.execute(text("UPDATE work SET state = 'reported'"))
    assert anna.owner_report(run) == {}
    with application.store.writing() as connection:
        connection.execute(text("UPDATE accounts SET owner = 'otto'"))
    with pytest.raises(LedgerError, match="was altered"):
        otto.owner_report(run)


def test_a_role_that_was_taken_away_is_gone_at_once_and_nobody_is_left_without_an_admin(
    application: Application,
) -> None:
    anna, dan = application.as_user("anna"), application.as_user("dan")
    anna.open_account("town")
    dan.give_roles("anna", [])
    with pytest.raises(NotAllowedError, match="You are 'anna' here, and this needs the role of owner"):
        anna.open_account("town")
    for spelled in ("dan", " dan ", "d\uff41n", "dan\u200b"):  # all of them are given to dan
        with pytest.raises(InputError, match="Somebody has to be an administrator"):
            dan.give_roles(spelled, [Role.OWNER])
    dan.give_roles("erin", [Role.ADMIN])
    erin = application.as_user("erin")
    dan.give_roles("dan", [Role.OWNER])
    with pytest.raises(NotAllowedError):
        dan.users()
    with pytest.raises(InputError, match="'owner' stands for whoever uses an installation without a login"):
        erin.give_roles(" owner ", [Role.OWNER])
    with pytest.raises(InputError, match="'policy' stands for limits that the policy has set"):
        erin.give_roles("policy", [Role.ADMIN])
    with pytest.raises(InputError, match="There is no role 'king'"):
        roles_called(["king"])


@pytest.mark.parametrize(
    "alteration",
    [
        "DELETE FROM rulings WHERE id = 1",
        "UPDATE rulings SET body = replace(body, 'auditor', 'admin') WHERE id = 4",
        "UPDATE rulings SET who = 'somebody else' WHERE id = 2",
        "INSERT INTO rulings SELECT 6, kind, replace(body, 'dan', 'eve'), who, time, digest, digest FROM rulings "
        "WHERE id = 5",
        "UPDATE rulings SET id = 9 WHERE id = 5",
    ],
)
def test_whoever_writes_a_role_into_the_database_is_noticed(application: Application, alteration: str) -> None:
    with application.store.writing() as connection:
        for name in ("update", "delete", "replace"):
            connection.execute(text(f"DROP TRIGGER rulings_no_{name}"))
        connection.execute(text(alteration))
    for user in USERS:
        with pytest.raises(LedgerError, match="altered outside the program"):
            application.as_user(user).account_names()


def test_heads_kept_elsewhere_show_that_the_latest_decisions_were_cut_off(application: Application) -> None:
    """A role that was taken away is there again if the decision is deleted; the chain before it is whole."""
    dan, carla = application.as_user("dan"), application.as_user("carla")
    dan.give_roles("ben", [])
    noted = carla.heads()
    assert carla.check_heads(noted).lines == (
        "complete: 'users and policy' has everything that was noted, and 0 more entries.",
    )
    with application.store.writing() as connection:
        connection.execute(text("DROP TRIGGER rulings_no_delete"))
        connection.execute(text("DELETE FROM rulings WHERE id = (SELECT max(id) FROM rulings)"))
    assert application.as_user("ben").approvals.all() == ()  # they may again
    found = carla.check_heads(noted)
    assert not found.ok
    assert found.lines[0].startswith("BEHIND: 'users and policy' lacks entries that were noted")
    # Nor does another decision in its place pass for it.
    dan.set_policy(Policy(release_epsilon=1.0))
    assert not carla.check_heads(noted).ok


def test_the_database_itself_refuses_to_change_a_ruling(application: Application) -> None:
    for change in ("UPDATE rulings SET who = 'x'", "DELETE FROM rulings"):
        with pytest.raises(Exception, match="rulings is append-only"), application.store.writing() as connection:
            connection.execute(text(change))


def test_without_users_and_without_a_login_whoever_comes_may_do_everything(tmp_path: Path) -> None:
    with Application(Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path / 'hermitage.sqlite'}")) as application:
        someone = application.as_user("owner")
        assert someone.access.is_single_user
        assert someone.access.roles == frozenset(Role)
        someone.open_account("town")
        someone.set_cap("town", 1.0, 1e-6)
        # As soon as there is a user, nobody can be told apart here, and it is closed.
        application.roles.give("dan", [Role.ADMIN], who="the test")
        with pytest.raises(NotAllowedError, match="no login is set up"):
            someone.account_names()


def test_with_a_login_and_without_users_nobody_may_do_anything(application: Application, tmp_path: Path) -> None:
    home = tmp_path / "another"
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}", login=Login("oidc", "email"))
    with Application(settings) as opened:
        first = opened.as_user("dan@example.org")
        with pytest.raises(NotAllowedError, match=r"synth user 'dan@example\.org' --roles owner"):
            first.runs()


def test_the_policys_limit_is_that_of_every_account_without_one(application: Application) -> None:
    anna, dan = application.as_user("anna"), application.as_user("dan")
    with pytest.raises(ConfigError, match="needs both numbers"):
        Policy(account_epsilon=3.0)
    with pytest.raises(ConfigError, match="release_epsilon must be a number above 0"):
        Policy(release_epsilon=float("nan"))
    dan.set_policy(Policy(account_epsilon=3.0, account_delta=1e-6))
    table = anna.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
    anna.reserve(parse_config(read_mapping(CONFIG)), table_id=table)
    assert anna.account("town").epsilon_cap == 3.0
    assert ("limit epsilon 3 at delta 1e-06", "policy") in {(one.what, one.who) for one in dan.decisions()}
    # The limit follows the policy, also below what is spent, until somebody gives the account one of its own.
    dan.set_policy(Policy(account_epsilon=0.5, account_delta=1e-6))
    with pytest.raises(BudgetExceededError, match=r"limit for account 'town' is 0\.50 at delta 1e-06"):
        anna.reserve(parse_config(read_mapping(CONFIG)), table_id=table)
    assert anna.account("town").epsilon_cap == 0.5
    dan.set_policy(Policy())
    assert anna.open_account("town").epsilon_cap is None
    dan.set_cap("town", 5.0, 1e-6)
    dan.set_policy(Policy(account_epsilon=0.5, account_delta=1e-6))
    assert anna.open_account("town").epsilon_cap == 5.0
