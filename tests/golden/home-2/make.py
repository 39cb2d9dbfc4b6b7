"""Make a home of layout 2; run with the code of commit 7c23d49: ``make.py NEW_HOME NEW_WORK_FOLDER``."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from synth.application import Application
from synth.cli import main
from synth.schema import load_config
from synth.store import WorkState

home, work = Path(sys.argv[1]), Path(sys.argv[2])
work.mkdir(parents=True, exist_ok=True)
os.environ.update(HERMITAGE_HOME=str(home), HERMITAGE_RETENTION_HOURS="1000000")
os.environ.pop("DATABASE_URL", None)

draw = random.Random(12)
lines = ["pid,vid,age,region"]
for visit in range(240):
    lines.append(f"p{draw.randrange(90)},v{visit},{18 + draw.randrange(60)},{draw.choice(['north', 'south'])}")
(work / "visits.csv").write_text("\n".join(lines) + "\n")


def config(
    name,
    unit,
    account,
    *,
    row_count="public",
    extra="",
    generator="independent",
    options="{}",
    delta="1.0e-6",
    ids="identifier",
):
    path = work / f"{name}.yaml"
    path.write_text(f"""
table: visits.csv
account: {account}
unit: {unit}
row_count: {row_count}
people_at_most: 1000
budget: {{epsilon: 1.0, delta: {delta}}}
generator: {{name: {generator}, options: {options}}}
rows: 60
{extra}
columns:
  pid: {{type: {ids}}}
  vid: {{type: {ids}}}
  age: {{type: number, low: 0, high: 100, step: 1}}
  region: {{type: category, values: [north, south]}}
""")
    return str(path)


def run(path, out, *flags):
    code = main(["run", path, "--out", str(work / out), *flags])
    assert code == 0, code


survey = config("survey", "{protects: person, rows_per_unit: 1}", "survey", ids="drop")
assert main(["account", "survey", "--epsilon-cap", "4", "--delta-cap", "1e-6"]) == 0
run(survey, "survey-1", "--keep-table")
with Application.from_environment() as application:
    made = load_config(survey)
    table = application.tables()[0].table_id
    freed = application.reserve(made, table_id=table)
    application.cancel(freed.id)
    failed = application.reserve(made, table_id=table)
    charge = application.ledger.charges_of(failed.id)[0]
    application.ledger.spend(charge)
    application.ledger.settle(failed.id)
    application.store.work.move(
        failed.id,
        WorkState.FAILED,
        message="The worker stopped without a word. It had begun to read the rows, so what it was charged stays spent.",
    )
    application.set_cap("undescribed", 2.0, 1e-6)
run(
    config("visits-4", "{protects: patient, rows_per_unit: 4, id_column: pid}", "visits"),
    "visits-1",
    "--no-owner-report",
)
run(
    config("visits-2", "{protects: patient, rows_per_unit: 2, id_column: pid}", "visits"),
    "visits-2",
    "--no-owner-report",
)
run(
    config("mixed-4", "{protects: person, rows_per_unit: 4, id_column: pid}", "mixed", row_count="private"),
    "mixed-1",
    "--no-owner-report",
)
run(
    config("mixed-1", "{protects: person, rows_per_unit: 1, id_column: vid}", "mixed", row_count="private"),
    "mixed-2",
    "--no-owner-report",
)
run(
    config(
        "cells",
        "{protects: person, rows_per_unit: 1}",
        "cells",
        extra="protection: cell\nholdout: 0\nlabel: region",
        generator="kahm",
        options="{mode: cell, n: 3}",
        delta="1.0e-5",
        ids="drop",
    ),
    "cells-1",
    "--no-owner-report",
)
