"""A finding is charged once, whatever becomes of it, and every release that uses it bears its receipts."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from synth.application import Application
from synth.bundle.checks import check
from synth.bundle.finding import Finding
from synth.bundle.verify import Verdict, verdict_of
from synth.errors import BudgetExceededError, ConfigError, JobError, SynthError, TableError
from synth.jobs import LocalEngine
from synth.jobs.processes import birth_of
from synth.progress import NullProgress
from synth.schema import FOUND_THEN_EDITED, READ_FROM_ROWS, CategoryColumn, RunConfig, config_to_mapping, parse_config
from synth.schema.documents import read_mapping
from synth.services import finding as findings
from synth.services import run_folder
from synth.services.entering import enter_bundles
from synth.services.runs import carry_out
from synth.store import ChargeState, WorkKind, WorkState
from synth.system.machine import this_host
from synth.system.settings import Settings

CONFIG = """
account: village
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 10000
budget: {epsilon: 4.0, delta: 1.0e-5}
holdout: 0
generator: {name: independent}
rows: 100
label: side
columns:
  age: {type: find}
  side: {type: find}
  remark: {type: find}
"""
TABLE = b"age,side,remark\n" + b"".join(
    b"%d,%s,says %d\n" % (20 + i % 60, (b"north", b"south")[i % 2], i) for i in range(900)
)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        yield opened


@pytest.fixture
def table_id(application: Application) -> str:
    return application.intake.receive(io.BytesIO(TABLE), account="village", name="village.csv").table_id


def open_config() -> RunConfig:
    return parse_config(read_mapping(CONFIG))


def begun(application: Application, table_id: str, epsilon: float = 1.0) -> str:
    """Reserve a finding as this process's work."""
    work = application.findings.reserve(open_config(), table_id=table_id, epsilon=epsilon)
    pid = os.getpid()
    application.store.work.claim(work.id, host=this_host(), pid=pid, pid_created=birth_of(pid))
    return work.id


def found(application: Application, table_id: str) -> Finding:
    return findings.carry_out(application.installation, begun(application, table_id), NullProgress())


def filled(finding: Finding) -> RunConfig:
    return parse_config(findings.completed(read_mapping(CONFIG), finding))


def released(application: Application, config: RunConfig, table_id: str) -> Path:
    run = application.reserve(config, table_id=table_id)
    pid = os.getpid()
    application.store.work.claim(run.id, host=this_host(), pid=pid, pid_created=birth_of(pid))
    carry_out(application.installation, run.id, NullProgress(), owner_report=False)
    application.release(run.id, attestations=("test",), attested_by="owner")
    return application.folder(run.id)


def verdict_of_bundle(bundle: Path) -> Verdict:
    return verdict_of(check(bundle), key_given=False)


def charges(application: Application) -> list[tuple[float, str]]:
    account = application.store.accounts.named("village")
    assert account is not None
    return [(charge.epsilon, charge.state.value) for charge in application.ledger.current(account.id)]


@pytest.mark.thorough
def test_a_finding_is_charged_once_and_borne_by_every_release_that_uses_it(
    application: Application, table_id: str
) -> None:
    config = open_config()
    plan = application.findings.plan(config, epsilon=1.0)
    assert plan.columns == ("age", "side", "remark")
    assert plan.refusal is None
    assert plan.delta == pytest.approx(1e-6)
    assert f"fewer than about {plan.foreseen.least_rows:,} rows" in plan.loses
    finding = found(application, table_id)
    assert charges(application) == [(1.0, "released")]
    # What was said beforehand is what is charged.
    assert application.account("village").epsilon_spent == pytest.approx(plan.epsilon_after, rel=1e-9)
    assert {name: body["type"] for name, body in finding.mappings.items()} == {
        "age": "number",
        "side": "category",
        "remark": "drop",
    }
    assert finding.mappings["side"]["values"] == ["north", "south"]
    config = filled(finding)
    assert config.epsilon == 3.0
    total = {}
    for seed in (1, 2):
        folder = released(application, dataclasses.replace(config, seed=seed), table_id)
        verdict = verdict_of_bundle(folder / "bundle.zip")
        assert verdict.ok, verdict.json["failures"]
        certificate = json.loads((folder / "certificate.json").read_bytes())
        assert certificate["found"]["digest"] == finding.digest
        assert certificate["domain_source"] == {
            "age": "found privately, epsilon 1",
            "side": "found privately, epsilon 1",
        }
        total[seed] = certificate["epsilon"]
    assert charges(application) == [(1.0, "released"), (3.0, "released"), (3.0, "released")]
    # More than the run alone, and less than the sum; the ledger adds the finding to both runs once.
    assert all(2.999 < epsilon < 4.0 for epsilon in total.values())
    assert application.account("village").epsilon_spent < sum(total.values())


def test_what_was_edited_is_said_and_what_was_altered_is_refused(application: Application, table_id: str) -> None:
    finding = found(application, table_id)
    config = filled(finding)
    side = config.schema["side"]
    assert isinstance(side, CategoryColumn)
    edited = tuple(
        dataclasses.replace(side, values=(*side.values, "west")) if one.name == "side" else one for one in config.schema
    )
    changed = dataclasses.replace(config, schema=dataclasses.replace(config.schema, columns=edited))
    marked = findings.marked(changed, findings.finding_of(application.installation, changed))
    assert marked.domain_source == {"age": "found privately, epsilon 1", "side": FOUND_THEN_EDITED}
    # What a column means is no part of what was found of it.
    said = read_mapping(CONFIG)
    said["columns"] = {**said["columns"], "side": {"type": "find", "description": "Of the river"}}
    kept = parse_config(findings.completed(said, finding))
    assert kept.schema["side"] == dataclasses.replace(side, description="Of the river")
    assert findings.marked(kept, finding).domain_source == config.domain_source
    # What its owner took from the rows since is no edit like another: the promise does not cover it.
    read = dataclasses.replace(changed, domain_source={**changed.domain_source, "side": READ_FROM_ROWS})
    assert findings.marked(read, findings.finding_of(application.installation, read)).read_columns == ("side",)
    assert config.found is not None
    before = charges(application)
    cheaper = dataclasses.replace(config, found=dataclasses.replace(config.found, mu_squared_units=1))
    silent = dataclasses.replace(config, found=None)
    unknown = dataclasses.replace(config, found=dataclasses.replace(config.found, digest="0" * 64))
    elsewhere = dataclasses.replace(config, account="other people")
    for other, words in (
        (cheaper, "'found' was changed"),
        (silent, "'found' is missing"),
        (unknown, "was not made here for the account 'village'"),
        (elsewhere, "was not made here for the account 'other people'"),
    ):
        with pytest.raises(SynthError, match=words):
            application.reserve(other, table_id=table_id)
    assert charges(application) == before
    with pytest.raises(ConfigError, match="completed by a finding already"):
        application.findings.plan(dataclasses.replace(open_config(), found=config.found), epsilon=1.0)
    # Found anew are all of its columns or none: else one would be borne by no release.
    again = read_mapping(CONFIG) | {"domain_source": {"side": FOUND_THEN_EDITED, "age": FOUND_THEN_EDITED}}
    again["columns"] |= {"side": side.to_mapping()}
    with pytest.raises(ConfigError, match="'side' was found privately before"):
        application.findings.plan(parse_config(again), epsilon=1.0)
    again["columns"] |= {"side": {"type": "find"}}
    assert application.findings.plan(parse_config(again), epsilon=1.0).refusal is None


def test_nothing_is_charged_for_what_is_refused(application: Application, table_id: str) -> None:
    config = open_config()
    application.set_cap("village", 0.5, 1e-5)
    plan = application.findings.plan(config, epsilon=1.0)
    assert str(plan.refusal).startswith("This would bring the total to 0.85. The limit for account 'village' is 0.50")
    with pytest.raises(BudgetExceededError) as refused:
        application.findings.reserve(config, table_id=table_id, epsilon=1.0)
    assert str(refused.value) == plan.refusal, "said before anything is asked"
    for epsilon in (0.0, 4.0, 5.0):
        with pytest.raises(ConfigError, match="must leave something"):
            application.findings.reserve(config, table_id=table_id, epsilon=epsilon)
    for delta in (0.0, 1.0):
        with pytest.raises(ConfigError, match="The delta of a finding must be above 0 and below 1"):
            application.findings.reserve(config, table_id=table_id, epsilon=1.0, delta=delta)
    cells = read_mapping(CONFIG) | {"row_count": "public", "number_of_units": 900, "protection": "cell"}
    with pytest.raises(ConfigError, match="If single cells are protected, nothing can be found privately"):
        application.findings.reserve(parse_config(cells), table_id=table_id, epsilon=1.0)
    described = dataclasses.replace(
        config, schema=dataclasses.replace(config.schema, columns=(CategoryColumn("side", ("n",), other=True),))
    )
    with pytest.raises(ConfigError, match="Every column is described"):
        application.findings.plan(described, epsilon=0.1)
    # A run of what is still open is refused too.
    with pytest.raises(SynthError, match="find"):
        application.reserve(config, table_id=table_id)
    with pytest.raises(TableError, match="another account"):
        application.findings.reserve(dataclasses.replace(config, account="strangers"), table_id=table_id, epsilon=1.0)
    assert charges(application) == []


def few(people: int, columns: int = 3) -> RunConfig:
    """The open configuration of so many people at most."""
    names = ("age", "side", "remark", *(f"more {place}" for place in range(columns - 3)))
    opened = {name: {"type": "find"} for name in names}
    return parse_config(read_mapping(CONFIG) | {"people_at_most": people, "columns": opened})


def test_what_can_find_nothing_is_refused_with_the_epsilon_that_can(application: Application, table_id: str) -> None:
    with pytest.raises(ConfigError) as refused:
        application.findings.reserve(few(300), table_id=table_id, epsilon=0.1)
    said = re.search(r"at most 300 rows\. Spend at least ([\d.]+) on finding, or leave fewer", str(refused.value))
    assert said is not None, refused.value
    assert "with presets or with a data dictionary. Nothing was spent." in str(refused.value)
    enough = float(said[1])
    assert application.findings.plan(few(300), epsilon=enough).foreseen.kind_rows <= 300
    with pytest.raises(ConfigError, match="would find nothing"):
        application.findings.plan(few(300), epsilon=0.9 * enough)
    # Fewer open columns share the same budget, as the words say.
    with pytest.raises(ConfigError, match="Finding 12 columns"):
        application.findings.plan(few(300, columns=12), epsilon=enough)
    with pytest.raises(ConfigError, match="Even nearly the whole budget of epsilon 4 would not be enough"):
        application.findings.plan(few(10), epsilon=1.0)
    # Several rows of one person are several rows, with noise for all of them.
    several = dataclasses.replace(few(300).schema, unit=dataclasses.replace(few(300).schema.unit, rows_per_unit=5))
    assert application.findings.plan(dataclasses.replace(few(300), schema=several), epsilon=enough).rows_at_most == 1500
    assert charges(application) == []


def test_what_finds_little_says_how_little(application: Application) -> None:
    plan = application.findings.plan(few(300), epsilon=0.5)
    part = plan.foreseen.least_rows / 300
    assert 0.2 < part < 1
    assert f"at most 300 rows: values that fewer than {100 * part:.0f} % of them share are not found" in plan.loses
    assert "describe what you know by hand, with presets or with a data dictionary." in plan.loses
    plenty = application.findings.plan(few(100_000), epsilon=0.5)
    assert "Declared are" not in plenty.loses
    assert f"Columns with fewer than about {plenty.foreseen.kind_rows:,} filled cells are left out." in plenty.loses


def test_what_a_refusal_says_would_fit_fits_and_no_more(application: Application) -> None:
    config = open_config()
    application.set_cap("village", 1.0, 1e-6)
    asked = application.findings.plan(config, epsilon=1.2, delta=9e-7)
    said = re.search(r"the total to ([\d.]+)\. .* Use ([\d.]+) or less", str(asked.refusal))
    assert said is not None
    total, fit = float(said[1]), float(said[2])
    fitting, more = (application.findings.plan(config, epsilon=one, delta=9e-7) for one in (fit, fit + 0.01))
    assert fitting.refusal is None
    assert more.refusal is not None
    assert fitting.epsilon_after <= 1.0 < more.epsilon_after < asked.epsilon_after <= total


def test_one_that_is_stopped_before_it_spends_is_freed(application: Application, table_id: str) -> None:
    work_id = begun(application, table_id)
    with pytest.raises(JobError, match="already in progress"):
        application.findings.reserve(open_config(), table_id=table_id, epsilon=1.0)
    with pytest.raises(TableError, match="still needs this table"):
        application.intake.delete_table(table_id)
    assert charges(application) == [(1.0, "reserved")]
    application.store.work.move(work_id, WorkState.CANCELLED, message="stopped")
    application.ledger.settle(work_id)
    assert charges(application) == [(1.0, "freed")]
    with pytest.raises(JobError, match="Nothing is reserved"):
        findings.carry_out(application.installation, work_id, NullProgress())
    assert application.findings.latest(table_id) is None


def test_one_that_breaks_off_after_it_spent_stays_spent_and_leaves_nothing(
    application: Application, table_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_id = begun(application, table_id)

    def broken(*_: object, **__: object) -> None:
        raise TableError("Row 3 has too many cells.")

    monkeypatch.setattr(findings, "find", broken)
    with pytest.raises(TableError):
        findings.carry_out(application.installation, work_id, NullProgress())
    application.ledger.settle(work_id)
    application.store.work.move(work_id, WorkState.FAILED, message="Row 3 has too many cells.")
    assert charges(application) == [(1.0, "failed-spent")]
    assert application.findings.latest(table_id) is None
    folder = run_folder.of(application.settings, work_id)
    assert not any((folder / name).exists() for name in run_folder.FOUND)


KILLED = """
import os, signal, sys
from synth.services import finding, run_folder
from synth.ledger.ledger import Ledger
from synth.store.work import WorkTable
from synth.worker import main

def kill(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

setattr({place}, kill)
sys.exit(main())
"""
PLACES = {
    "before it asks": ("finding, 'find'", ChargeState.FAILED_SPENT),
    "before its files are kept": ("finding, '_keep'", ChargeState.FAILED_SPENT),
    "before it is released": ("Ledger, 'release'", ChargeState.FAILED_SPENT),
    "after it was released": ("WorkTable, 'advance'", ChargeState.RELEASED),
}
USUAL = "before it is released"


@pytest.mark.parametrize(
    "place", [USUAL, *(pytest.param(one, marks=pytest.mark.audit) for one in PLACES if one != USUAL)]
)
def test_a_worker_that_is_killed_charges_once_and_a_new_finding_once_more(
    place: str, application: Application, table_id: str, tmp_path: Path
) -> None:
    patched, fate = PLACES[place]
    script = tmp_path / "killed_worker.py"
    script.write_text(KILLED.format(place=patched))
    engine = LocalEngine(application.store, command=(sys.executable, str(script)), gpus=())
    killed = findings.Findings(application.installation, engine, application.intake)
    work_id = killed.start(open_config(), table_id=table_id, epsilon=1.0)
    work = application.store.work[work_id]
    psutil.Process(work.pid).wait(300)
    work = killed.standing(table_id)
    assert work is not None
    assert charges(application) == [(1.0, fate.value)]
    if fate is ChargeState.RELEASED:
        # What it found is paid for and there: nothing is lost, and nothing is charged again.
        assert (work.state, work.message) == (WorkState.REPORTED, "")
        assert killed.latest(table_id) is not None
        return
    assert work.state is WorkState.FAILED
    assert work.message == (
        "The worker died without a message, for example because memory ran out. Its budget had already been spent, "
        "so it stays spent. It does not restart by itself; a new finding is charged again."
    )
    assert killed.latest(table_id) is None
    assert killed.standing(table_id) == work, "asking again charges and starts nothing"
    found(application, table_id)
    assert charges(application) == [(1.0, "failed-spent"), (1.0, "released")]
    assert killed.latest(table_id) is not None


def test_a_configuration_that_was_edited_while_it_waited_is_not_carried_out(
    application: Application, table_id: str
) -> None:
    work_id = begun(application, table_id)
    asked = json.loads(str(application.store.work[work_id].asked))
    asked["budget"]["epsilon"] = 3.0
    with application.store.writing() as connection:
        connection.exec_driver_sql("UPDATE work SET asked = ? WHERE id = ?", (json.dumps(asked), work_id))
    with pytest.raises(SynthError, match="not the one for which its budget was reserved"):
        findings.carry_out(application.installation, work_id, NullProgress())
    assert charges(application) == [(1.0, "reserved")]


@pytest.mark.thorough
def test_a_value_that_did_not_pass_is_nowhere_but_in_the_encrypted_table(
    application: Application, table_id: str, tmp_path: Path
) -> None:
    finding = found(application, table_id)
    folder = released(application, filled(finding), table_id)
    assert verdict_of_bundle(folder / "bundle.zip").ok
    songs = [b"says %d" % i for i in (0, 17, 899)]
    for path in (tmp_path / "home").rglob("*"):
        if path.is_file():
            body = path.read_bytes()
            assert not any(song in body for song in songs), path.name


@pytest.mark.thorough
def test_a_ledger_that_lost_both_gets_both_back_from_one_bundle(
    application: Application, table_id: str, tmp_path: Path
) -> None:
    finding = found(application, table_id)
    folder = released(application, filled(finding), table_id)
    account = application.store.accounts.named("village")
    assert account is not None
    known = charges(application)
    bundle = folder / "bundle.zip"
    (entered,) = enter_bundles(application.installation, [bundle], who="owner")
    assert entered.was_there
    assert charges(application) == known
    # The same keys, and a ledger of before both.
    home = tmp_path / "restored"
    shutil.copytree(application.settings.home / "keys", home / "keys")
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as empty:
        (entered,) = enter_bundles(empty.installation, [bundle], who="owner")
        assert not entered.was_there
        assert sorted(charges(empty)) == sorted((epsilon, "released") for epsilon, _ in known)
        enter_bundles(empty.installation, [bundle], who="owner")
        assert len(charges(empty)) == 2
        assert findings.finding_of(empty.installation, filled(finding)) is not None


def test_the_configuration_that_is_filled_says_what_remains(application: Application, table_id: str) -> None:
    finding = found(application, table_id)
    config = filled(finding)
    written = config_to_mapping(config)
    assert written["budget"]["epsilon"] == 3.0
    assert written["found"]["digest"] == finding.digest
    assert parse_config(written) == config
    assert application.store.work.about(WorkKind.FINDING, table_id) is not None
    states = {charge.state for charge in application.ledger.charges_of(str(application.findings.standing(table_id).id))}  # type: ignore[union-attr]
    assert states == {ChargeState.RELEASED}
