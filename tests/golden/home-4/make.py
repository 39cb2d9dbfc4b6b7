"""Make a home of layout 4; run with the code of commit 0962be0: ``make.py NEW_HOME NEW_WORK_FOLDER``."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from unittest import mock

from synth.application import Application
from synth.cli import local, main
from synth.ledger.ledger import Ledger
from synth.schema import load_config
from synth.store import Store, WorkState
from synth.system.settings import Settings

home, work = Path(sys.argv[1]), Path(sys.argv[2])
work.mkdir(parents=True, exist_ok=True)
os.environ.update(HERMITAGE_HOME=str(home), HERMITAGE_RETENTION_HOURS="1000000")

draw = random.Random(12)
lines = ["pid,age,region"]
for _ in range(200):
    lines.append(f"p{draw.randrange(90)},{18 + draw.randrange(60)},{draw.choice(['north', 'south'])}")
(work / "visits.csv").write_text("\n".join(lines) + "\n")


def config(name: str, unit: str, *, row_count: str, extra: str = "", generator: str = "independent", delta="1e-6"):
    path = work / f"{name}.yaml"
    ids = "identifier" if "id_column" in unit else "drop"
    path.write_text(f"""
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
""")
    return str(path)


def run(path: str, out: str, *flags: str) -> None:
    with mock.patch.object(local, "this_host", return_value="a machine of before"):
        code = main(["run", path, "--out", str(work / out), *flags])
    assert code == 0, code


survey = config("survey", "{protects: person, rows_per_unit: 1}", row_count="private")
assert main(["account", "survey", "--epsilon-cap", "6", "--delta-cap", "1e-5"]) == 0
run(survey, "survey-1", "--keep-table")
visits = config("visits", "{protects: patient, rows_per_unit: 4, id_column: pid}", row_count="private")
run(visits, "visits-1", "--no-owner-report")
cells = config(
    "cells",
    "{protects: person, rows_per_unit: 1}",
    row_count="public",
    extra="protection: cell\nholdout: 0\nlabel: region",
    generator="kahm, options: {mode: cell, n: 2}",
    delta="1e-5",
)
run(cells, "cells-1", "--no-owner-report")

with Application.from_environment() as application:
    made = load_config(survey)
    table = application.tables()[0].table_id
    application.look_at_rows(table)
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
        queue.claim(run_id, host="a machine of before", pid=1, pid_created=1.0)
        ledger.spend(ledger.charges_of(run_id)[0], config=runs[state].config)
        if state == "measured":
            store.work.advance(run_id, WorkState.MEASURED)
        if state == "failed":
            ledger.settle(run_id)
            store.work.move(run_id, WorkState.FAILED, message="The worker stopped without a word.")
    schema = load_config(visits).schema
    frozen, _ = store.accounts.ensure("frozen", schema.neighbours, schema.unit)
    ledger.freeze(frozen.id, because="for the test", who="owner")
