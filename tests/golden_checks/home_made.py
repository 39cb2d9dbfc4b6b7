"""The installation that is kept: accounts in every state, runs in every state, other work, a table and drafts."""

from __future__ import annotations

import json
import lzma
import os
import random
import shutil
from pathlib import Path
from unittest import mock

from synth.application import Application
from synth.cli import local, main
from synth.ledger.ledger import Ledger
from synth.schema import load_config
from synth.store import Store, WorkKind, WorkState
from synth.system.settings import Settings

__all__ = ["make_home"]

ELSEWHERE = "another machine"
AGE = {"role": "number", "low": "0", "high": "100", "step": "1", "missing": True}

CONFIG = """
table: visits.csv
account: {name}
unit: {unit}
row_count: {row_count}
people_at_most: 1000
budget: {{epsilon: 1.0, delta: {delta}}}
generator: {{name: {generator}}}
rows: 60
{extra}
columns:
  pid: {{type: {ids}}}
  age: {{type: number, low: 0, high: 100, step: 1, missing: true}}
  region: {{type: category, values: [north, south], missing: true}}
"""


def make_home(target: Path, scratch: Path) -> None:
    """Make the installation that ``HERMITAGE_HOME`` names, and copy of it what is kept."""
    os.environ["HERMITAGE_RETENTION_HOURS"] = "1000000"
    draw = random.Random(12)
    lines = [f"p{draw.randrange(90)},{18 + draw.randrange(60)},{draw.choice(['north', 'south'])}\n" for _ in range(200)]
    (scratch / "visits.csv").write_text("pid,age,region\n" + "".join(lines), encoding="utf-8")

    one_row = "{protects: person, rows_per_unit: 1}"
    survey = _config(scratch, "survey", one_row)
    visits = _config(scratch, "visits", "{protects: patient, rows_per_unit: 4, id_column: pid}", ids="identifier")
    cell = "protection: cell\nholdout: 0\nlabel: region"
    cells = _config(
        scratch, "cells", one_row, row_count="public", extra=cell, generator="kahm, options: {mode: cell, n: 2}"
    )
    assert main(["account", "survey", "--open", "--epsilon-cap", "6", "--delta-cap", "1e-5"]) == 0
    _run(survey, "--keep-table")
    _run(visits, "--no-owner-report")
    _run(cells, "--no-owner-report")
    _work(survey)
    _typed()

    home = Path(os.environ["HERMITAGE_HOME"])
    for kept in ("keys", "runs", "vault"):
        shutil.rmtree(target / kept, ignore_errors=True)
        shutil.copytree(home / kept, target / kept)
    shutil.copyfile(home / "hermitage.sqlite", target / "hermitage.sqlite")
    for large in (target / "hermitage.sqlite", *target.glob("runs/*/bundle.zip")):
        large.with_name(f"{large.name}.xz").write_bytes(lzma.compress(large.read_bytes()))
        large.unlink()
    for run in (target / "runs").iterdir():
        if not (run / "owner" / "report.json").exists():  # one whole run is enough
            _leave_certificate(run)


def _config(
    scratch: Path,
    name: str,
    unit: str,
    *,
    row_count: str = "private",
    extra: str = "",
    generator: str = "independent",
    ids: str = "drop",
) -> Path:
    path = scratch / f"{name}.yaml"
    delta = "1e-5" if name == "cells" else "1e-6"
    text = CONFIG.format(
        name=name, unit=unit, row_count=row_count, extra=extra, generator=generator, ids=ids, delta=delta
    )
    path.write_text(text, encoding="utf-8")
    return path


def _run(path: Path, *flags: str) -> None:
    with mock.patch.object(local, "this_host", return_value=ELSEWHERE):
        assert main(["run", str(path), "--out", str(path.with_suffix("")), *flags]) == 0


def _work(survey: Path) -> None:
    """Bring runs of one account into every state, and begin work that is no run."""
    with Application.from_environment() as application:
        made = load_config(survey)
        table = application.intake.tables()[0].table_id
        application.intake.recognise_table(table)
        states = ("planned", "waiting", "at work", "measured", "failed", "cancelled")
        runs = {state: application.reserve(made, table_id=table) for state in states}
        application.cancel(runs["cancelled"].id)
        application.set_cap("undescribed", 2.0, 1e-6)
    with Store(Settings.from_environment()) as store:  # without an engine, which would begin what waits
        ledger, queue = Ledger(store), store.work
        for state in ("waiting", "at work", "measured", "failed"):
            run_id = runs[state].id
            queue.put(run_id, gpus=0, cpus=1)
            if state == "waiting":
                continue
            queue.claim(run_id, host=ELSEWHERE, pid=1, pid_created=1.0)
            ledger.spend(ledger.charges_of(run_id)[0], config=runs[state].config)
            if state == "measured":
                queue.advance(run_id, WorkState.MEASURED)
            if state == "failed":
                ledger.settle(run_id)
                queue.move(run_id, WorkState.FAILED, message="The worker stopped without a word.")
        schema = load_config(survey).schema
        frozen, _ = store.accounts.ensure("frozen", schema.neighbours, schema.unit)
        ledger.freeze(frozen.id, because="for the test", who="owner")
        released = next(run for run in store.runs.of_account(_survey(store)) if run.state is WorkState.RELEASED)
        for kind, subject, end in (
            (WorkKind.REHEARSAL, "0" * 64, WorkState.RUNNING),
            (WorkKind.GRID, "1" * 64, WorkState.FAILED),
            (WorkKind.REPORT, f"{released.id} predictions", WorkState.REPORTED),
            (WorkKind.REPORT, f"{released.id} shadow-models", WorkState.CANCELLED),
        ):
            work = queue.begin(kind, subject, asked=json.dumps("what was asked"), owner="owner", host=ELSEWHERE)
            queue.claim(work.id, host=ELSEWHERE, pid=1, pid_created=1.0)
            if end is not WorkState.RUNNING:
                queue.move(work.id, end, message="The worker stopped without a word." * (end == "failed"))


def _survey(store: Store) -> str:
    account = store.accounts.named("survey")
    assert account is not None
    return account.id


def _typed() -> None:
    """Save what somebody typed: of the table that is kept, twice, and before a table came."""
    with Store(Settings.from_environment()) as store:
        (table,) = store.tables.stored()
        first = store.drafts.save(table.id, {"account": "survey", "columns": {"age": AGE}}, seen=0)
        assert first is not None
        body = {"account": "survey", "protects": "person", "columns": {"age": AGE, "region": {"role": ""}}}
        store.drafts.save(table.id, body, seen=first.number)
        store.begun.save("7" * 36, {"people": "No, new people", "account": "begun"}, seen=0)


def _leave_certificate(run: Path) -> None:
    for path in run.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "certificate.json":
            path.unlink()
