"""A preview is charged once, whatever becomes of it; its counts can be had again, and later releases state its cost."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from synth.application import Application
from synth.bundle.archive import open_archive
from synth.bundle.certificate import certificate_of
from synth.bundle.checks import check
from synth.bundle.verify import Verdict, verdict_of
from synth.errors import BudgetExceededError, ConfigError, JobError, NotAsDeclaredError, SynthError, TableError
from synth.jobs import LocalEngine
from synth.jobs.processes import birth_of
from synth.ledger.notes import CHOSEN_AFTER_LOOKING
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.more.together import epsilon_together
from synth.progress import NullProgress
from synth.schema import RunConfig, parse_config
from synth.schema.documents import read_mapping
from synth.services import previewing, run_folder
from synth.services.entering import enter_bundles
from synth.services.intake import Reading
from synth.services.previewing import Preview, Previews
from synth.services.runs import carry_out
from synth.store import ChargeState, WorkState
from synth.system.machine import this_host
from synth.system.settings import Settings

CONFIG = """
account: village
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 10000
budget: {epsilon: 2.0, delta: 1.0e-5}
holdout: 0
generator: {name: independent}
rows: 100
label: side
columns:
  age: {type: number, low: 0, high: 199, step: 1, special: [-1], missing: true}
  side: {type: category, values: [north, south], other: true}
  remark: {type: drop}
  later: {type: find}
"""
TABLE = b"age,side,remark,later\n" + b"".join(
    b"%d,%s,says %d,%d\n" % (20 + i % 60, (b"north", b"south")[i % 2], i, i) for i in range(900)
)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        yield opened


def taken(application: Application, table: bytes = TABLE) -> str:
    return application.intake.receive(io.BytesIO(table), account="village", name="village.csv").table_id


@pytest.fixture
def table_id(application: Application) -> str:
    return taken(application)


def config(**changes: Any) -> RunConfig:
    return parse_config(read_mapping(CONFIG) | changes)


def to_release() -> RunConfig:
    columns = read_mapping(CONFIG)["columns"] | {"later": {"type": "drop"}}
    return config(columns=columns)


def begun(application: Application, table_id: str, columns: tuple[str, ...] = ("age", "side"), **how: Any) -> str:
    """Reserve a preview as this process's work."""
    work_id = application.previews.reserve(how.pop("config", config()), columns, table_id=table_id, **how)
    pid = os.getpid()
    if application.previews.result(work_id) is None:
        application.store.work.claim(work_id, host=this_host(), pid=pid, pid_created=birth_of(pid))
    return work_id


def previewed(application: Application, table_id: str, *columns: str, epsilon: float = 0.2) -> Preview:
    work_id = begun(application, table_id, columns or ("age", "side"), epsilon=epsilon)
    return previewing.carry_out(application.installation, work_id, NullProgress())


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


def values(preview: Preview) -> list[list[float]]:
    return [table.counts.tolist() for table in preview.counts.tables]


def test_what_is_said_beforehand_is_what_is_charged_and_counted(application: Application, table_id: str) -> None:
    plan = application.previews.plan(config(), ["side", "age"], epsilon=0.2)
    assert (plan.columns, plan.refusal, plan.paid) == (("age", "side"), None, None)
    assert plan.delta == pytest.approx(5e-7)
    assert [(one.column, one.bins) for one in plan.foreseen] == [("age", 52), ("side", 3)]
    preview = previewed(application, table_id)
    assert charges(application) == [(0.2, "released")]
    assert application.account("village").epsilon_spent == pytest.approx(plan.epsilon_after, rel=1e-9)
    age, side = preview.counts.tables
    assert (age.columns, side.columns) == (("age",), ("side",))
    assert age.values[0][:2] == ("0 to 3", "4 to 7"), "fifty equal parts of what is declared"
    assert age.values[0][-3:] == ("196 to 199", "-1", "missing")
    assert side.values == (("north", "south", "other"),)
    for table, foreseen in zip((age, side), plan.foreseen, strict=True):
        assert 1.959964 * table.standard_error == pytest.approx(foreseen.error, rel=1e-9)
        assert f"{foreseen.column}: counts within ±{foreseen.error:,.3g} rows" in plan.shows
    # What the receipt says it cost is within what was charged.
    assert preview.answer.receipt.private
    assert epsilon_of_receipts([preview.answer.receipt], preview.delta) <= 0.2


def test_the_same_preview_costs_nothing_again_and_another_one_does(application: Application, table_id: str) -> None:
    first = previewed(application, table_id)
    work_id = begun(application, table_id, ("side", "age"), epsilon=0.2)
    again = application.previews.result(work_id)
    assert again is not None
    assert values(again) == values(first), "noise is never drawn twice for one charge"
    ((charge, _),) = application.previews.of_account("village")
    plan = application.previews.plan(config(), ["age", "side"], epsilon=0.2)
    assert plan.paid == charge.time
    assert plan.epsilon_after == plan.epsilon_before
    # Whether the table is the same plays no part: that depends on every row of both.
    other = taken(application, TABLE + b"3,north,x,1\n")
    assert begun(application, other, epsilon=0.2) == work_id
    assert charges(application) == [(0.2, "released")]
    previewed(application, table_id, "side")
    previewed(application, table_id, epsilon=0.1)
    anew = begun(application, other, epsilon=0.2, anew=True)
    fresh = previewing.carry_out(application.installation, anew, NullProgress())
    assert charges(application) == [(0.2, "released"), (0.2, "released"), (0.1, "released"), (0.2, "released")]
    assert [values(one) for _, one in application.previews.of_account("village")][::3] == [values(fresh), values(first)]


def test_nothing_is_charged_for_what_is_refused(application: Application, table_id: str) -> None:
    plan = application.previews.plan
    for columns, words in (
        ([], "Name at least one column"),
        (["age", "age"], "named twice"),
        (["height"], "There is no column 'height'"),
        (["remark"], "'remark' has no declared values to count"),
        (["later"], "'later' has no declared values to count"),
    ):
        with pytest.raises(ConfigError, match=words):
            begun(application, table_id, tuple(columns), epsilon=0.2)
    for epsilon in (0.0, 2.0, 5.0):
        with pytest.raises(ConfigError, match=r"between 0 and 2, for example 0\.1"):
            begun(application, table_id, epsilon=epsilon)
    for delta in (0.0, 1.0):
        with pytest.raises(ConfigError, match="The delta of a preview must be above 0 and below 1"):
            begun(application, table_id, epsilon=0.2, delta=delta)
    with pytest.raises(ConfigError, match=r"would show nothing of 'age'.*at most 300\. .*Nothing was spent"):
        begun(application, table_id, config=config(people_at_most=300), epsilon=0.01)
    cells = config(row_count="public", number_of_units=900, protection="cell")
    with pytest.raises(ConfigError, match="If single cells are protected, nothing can be previewed"):
        plan(cells, ["side"], epsilon=0.2)
    with pytest.raises(TableError, match="another account"):
        begun(application, table_id, config=config(account="strangers"), epsilon=0.2)
    application.set_cap("village", 0.1, 1e-6)
    refused = plan(config(), ["age"], epsilon=0.2)
    with pytest.raises(BudgetExceededError) as error:
        begun(application, table_id, ("age",), epsilon=0.2)
    assert str(error.value) == refused.refusal, "said before anything is asked"
    assert charges(application) == []


def test_what_would_be_lost_is_told_of_the_chosen_columns_before_the_charge(application: Application) -> None:
    odd = taken(application, TABLE.replace(b"north", b"N").replace(b"south", b"S"))
    with pytest.raises(NotAsDeclaredError):
        begun(application, odd, epsilon=0.2, config=config(columns=strict()))
    assert charges(application) == []
    told: list[str] = []
    reading = Reading(look=True, as_declared=True, tell=told.append)
    begun(application, odd, epsilon=0.2, config=config(columns=strict()), reading=reading)
    assert len(told) == 1
    assert "side" in told[0]
    # The other column has nothing to lose, so nothing is waited for.
    begun(application, taken(application, TABLE + b"7,north,x,1\n"), ("age",), epsilon=0.2)
    assert [state for _, state in charges(application)] == ["reserved", "reserved"]


def strict() -> dict[str, Any]:
    return read_mapping(CONFIG)["columns"] | {
        "side": {"type": "yes_no", "yes": "north", "no": "south", "missing": True}
    }


def test_one_that_is_stopped_before_it_spends_is_freed(application: Application, table_id: str) -> None:
    work_id = begun(application, table_id, epsilon=0.2)
    with pytest.raises(JobError, match="already in progress"):
        begun(application, table_id, epsilon=0.1)
    with pytest.raises(TableError, match="still needs this table"):
        application.intake.delete_table(table_id)
    application.store.work.move(work_id, WorkState.CANCELLED, message="stopped")
    application.ledger.settle(work_id)
    assert charges(application) == [(0.2, "freed")]
    with pytest.raises(JobError, match="Nothing is reserved"):
        previewing.carry_out(application.installation, work_id, NullProgress())
    previewed(application, table_id)
    assert charges(application) == [(0.2, "freed"), (0.2, "released")]


KILLED = """
import os, signal, sys
from synth.ledger.ledger import Ledger
from synth.privacy.session import PrivateSession
from synth.services import previewing
from synth.store.work import WorkTable
from synth.vault.kept_answers import AnswerFile
from synth.worker import main

def kill(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

setattr({place}, kill)
sys.exit(main())
"""
PLACES = {
    "before it asks": "PrivateSession, 'noisy_sum'",
    "before its answer is kept": "AnswerFile, 'keep'",
    "after its answer is kept": "AnswerFile, 'require_all_repeated'",
    "before its counts are kept": "previewing, '_keep'",
    "before it is released": "Ledger, 'release'",
    "after it was released": "WorkTable, 'advance'",
}
USUAL = ("before its answer is kept", "before it is released")


@pytest.mark.parametrize(
    "place", [*USUAL, *(pytest.param(one, marks=pytest.mark.audit) for one in PLACES if one not in USUAL)]
)
def test_a_worker_that_is_killed_charges_once_and_its_counts_can_be_had(
    place: str, application: Application, table_id: str, tmp_path: Path
) -> None:
    script = tmp_path / "killed_worker.py"
    script.write_text(KILLED.format(place=PLACES[place]))
    engine = LocalEngine(application.store, command=(sys.executable, str(script)), gpus=())
    killed = Previews(application.installation, engine, application.intake)
    work_id = killed.reserve(config(), ["age", "side"], table_id=table_id, epsilon=0.2, start=True)
    psutil.Process(application.store.work[work_id].pid).wait(300)
    work = killed.standing(work_id)
    assert work is not None
    if place == "after it was released":
        assert work.state is WorkState.REPORTED
        assert charges(application) == [(0.2, "released")]
        assert killed.result(work_id) is not None
        return
    assert work.state is WorkState.FAILED
    assert work.message.endswith(
        "ask for the same preview again, which costs nothing more and continues where it stopped."
    )
    assert charges(application) == [(0.2, "spent")]
    assert killed.result(work_id) is None
    # What starts the program again leaves it as it is.
    engine.recover()
    kept = kept_numbers(application, work_id)
    assert (kept is None) == (place in {"before it asks", "before its answer is kept"})
    other = taken(application)
    assert application.previews.plan(config(), ["age", "side"], epsilon=0.2).paid is not None
    assert begun(application, other, epsilon=0.2) == work_id
    preview = previewing.carry_out(application.installation, work_id, NullProgress())
    assert charges(application) == [(0.2, "released")]
    steps = preview.answer.value / preview.answer.receipt.grid
    assert kept is None or steps.tolist() == kept, "the answer that was kept, and no other noise"
    assert not run_folder.of(application.settings, work_id).joinpath("answers.kept").exists()


def kept_numbers(application: Application, work_id: str) -> list[int] | None:
    """Return the answer that a killed worker kept, in grid steps; None if it kept none."""
    key, path = application.keys.answers_key(work_id), previewing.answers_path(application.settings.home, work_id)
    with previewing.AnswerFile(path, key=key, run_id=work_id) as answers:
        answers.go_on()
        if not answers.remaining:
            return None
        _, (numbers, *_) = answers._body(1, answers._places[0])
        return [int(number) for number in numbers]


def test_a_kept_answer_that_cannot_be_used_is_forgotten_and_a_new_preview_is_charged(
    application: Application, table_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_id = begun(application, table_id, epsilon=0.2)
    with monkeypatch.context() as patch:
        patch.setattr(previewing, "_keep", stopped)
        with pytest.raises(KeyboardInterrupt):
            previewing.carry_out(application.installation, work_id, NullProgress())
    application.store.work.move(work_id, WorkState.FAILED, message="stopped")
    path = previewing.answers_path(application.settings.home, work_id)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    begun(application, table_id, epsilon=0.2)
    with pytest.raises(JobError, match="altered or damaged"):
        previewing.carry_out(application.installation, work_id, NullProgress())
    application.ledger.settle(work_id)
    application.store.work.move(work_id, WorkState.FAILED, message="stopped")
    assert charges(application) == [(0.2, "failed-spent")]
    previewed(application, table_id)
    assert charges(application) == [(0.2, "failed-spent"), (0.2, "released")]


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_was_edited_while_it_waited_is_not_carried_out(application: Application, table_id: str) -> None:
    work_id = begun(application, table_id, epsilon=0.2)
    asked = json.loads(str(application.store.work[work_id].asked))
    asked["budget"]["epsilon"] = 1.0
    with application.store.writing() as connection:
        connection.exec_driver_sql("UPDATE work SET asked = ? WHERE id = ?", (json.dumps(asked), work_id))
    with pytest.raises(SynthError, match="not the one for which its budget was reserved"):
        previewing.carry_out(application.installation, work_id, NullProgress())
    assert charges(application) == [(0.2, "reserved")]


@pytest.mark.usefixtures("without_trial")
def test_every_later_release_states_it_and_the_account_composes_both(application: Application, table_id: str) -> None:
    preview = previewed(application, table_id)
    # The owner saw the histograms, and chose another range.
    columns = {
        **read_mapping(CONFIG)["columns"],
        "age": {"type": "number", "low": 16, "high": 99, "step": 1, "missing": True},
    }
    chosen = config(columns=columns | {"later": {"type": "drop"}})
    folder = released(application, chosen, table_id)
    verdict = verdict_of_bundle(folder / "bundle.zip")
    assert verdict.ok, verdict.json["failures"]
    certificate = json.loads((folder / "certificate.json").read_bytes())
    (stated,) = certificate["previews"]
    assert (stated["epsilon"], stated["delta"]) == (0.2, preview.delta)
    assert len(stated["id"]) == 16
    # The certificate covers both by adaptive composition, as the account does: more than the run, less than the sum.
    with open_archive(folder / "bundle.zip") as archive:
        sealed = certificate_of(archive)
        both = epsilon_of_receipts([preview.answer.receipt, *sealed.receipts], sealed.delta)
        assert both <= sealed.epsilon <= epsilon_together(application.config_of(run_of(application)))
        assert 2.0 < sealed.epsilon < 2.2
        names = {name: archive.read(name) for name in archive.members}
    assert application.account("village").epsilon_spent == pytest.approx(sealed.epsilon, rel=1e-3)
    assert application.account("village").epsilon_spent >= sealed.epsilon
    assert any("was spent on a preview" in line for line in verdict.lines)
    assert b"was spent on a preview" in names["README.txt"]
    assert b"was spent on a preview" in names["report.html"]
    # It is never published: no file of the bundle has its question, and it was no look either.
    assert not [name for name, data in names.items() if previewing.QUERY.encode() in data]
    released(application, chosen, table_id)
    assert [epsilon for epsilon, _ in charges(application)] == [0.2, 2.0, 2.0], "charged once for all releases"


def run_of(application: Application) -> str:
    return application.store.runs.all()[-1].id


@pytest.mark.usefixtures("without_trial")
def test_a_look_at_the_chosen_columns_is_none_before_a_release_of_the_same_configuration(
    application: Application, table_id: str
) -> None:
    same = to_release()
    work_id = begun(application, table_id, config=same, epsilon=0.2)
    previewing.carry_out(application.installation, work_id, NullProgress())
    folder = released(application, same, table_id)
    assert CHOSEN_AFTER_LOOKING not in json.loads((folder / "certificate.json").read_bytes())["assumptions"]
    # Another configuration was chosen after being told what is lost, which is exact.
    folder = released(application, dataclasses.replace(same, rows=120), table_id)
    assert CHOSEN_AFTER_LOOKING in json.loads((folder / "certificate.json").read_bytes())["assumptions"]


def test_its_counts_are_sealed_on_the_disk_and_nothing_altered_is_shown(
    application: Application, table_id: str
) -> None:
    preview = previewed(application, table_id)
    ((charge, _),) = application.previews.of_account("village")
    folder = run_folder.of(application.settings, charge.run_id)
    for name, data in preview.files.items():
        held = (folder / name).read_bytes()
        assert data not in held
        assert previewing.QUERY.encode() not in held
    assert json.loads((folder / "owner" / run_folder.PREVIEW_ASKED).read_bytes()).keys() == {"asked"}
    path = folder / run_folder.PREVIEWED[1]
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert application.previews.result(charge.run_id) is None


@pytest.mark.thorough
def test_a_ledger_that_lost_both_gets_both_back_from_one_bundle(
    application: Application, table_id: str, tmp_path: Path
) -> None:
    previewed(application, table_id)
    folders = [released(application, dataclasses.replace(to_release(), seed=seed), table_id) for seed in (1, 2)]
    known = charges(application)
    home = tmp_path / "restored"
    shutil.copytree(application.settings.home / "keys", home / "keys")
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as empty:
        enter_bundles(empty.installation, [folder / "bundle.zip" for folder in folders], who="owner")
        assert sorted(charges(empty)) == sorted((epsilon, "released") for epsilon, _ in known)
        account = empty.store.accounts.named("village")
        assert account is not None
        assert empty.as_released(to_release()).previews == application.as_released(to_release()).previews


def test_states_of_its_charge_are_those_of_a_run(application: Application, table_id: str) -> None:
    previewed(application, table_id)
    account = application.store.accounts.named("village")
    assert account is not None
    states = [charge.state for charge in application.ledger.rows(account.id)]
    assert states == [ChargeState.RESERVED, ChargeState.SPENT, ChargeState.RELEASED]
