"""Make what is golden again: ``PYTHONPATH=. python tests/golden/make.py WHAT`` (see README.md beside it)."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden_checks"))
sys.path.insert(0, str(HERE.parent))

import same_kernels  # noqa: E402, F401 - before numpy, as where they are checked

FOUND = """
table: found.csv
account: found
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 10000
budget: {epsilon: 3.0, delta: 1e-6}
holdout: 0.2
evaluation_share: 0.1
generator: {name: independent}
rows: 300
label: ill
device: cpu
columns:
  age: {type: find}
  town: {type: find}
  seen: {type: find}
  remark: {type: find}
  ill: {type: yes_no, yes: "yes", no: "no", missing: true}
"""
"""A configuration whose columns are open; they are found privately, and one town is added by hand."""


def bundles(scratch: Path) -> None:
    """Simulate a table for each case, release it, and keep the bundle."""
    from golden_bundles import keep
    from golden_cases import KEPT, configuration, stand_in

    from synth.cli.finding import find_locally
    from synth.cli.local import run_locally
    from synth.schema import load_config

    target = HERE / "bundles"
    target.mkdir(exist_ok=True)
    for name in KEPT:
        table = scratch / f"{name}.csv"
        table.write_bytes(stand_in(name))
        result = run_locally(configuration(name), scratch / name, table=table, owner_report=False)
        keep(result.bundle, name)
    (scratch / "found.csv").write_text(_people(), encoding="utf-8")
    (scratch / "found.yaml").write_text(FOUND, encoding="utf-8")
    filled = find_locally(scratch / "found.yaml", epsilon=1.0)
    said = filled.read_text(encoding="utf-8")
    filled.write_text(said.replace("    - Chur\n", "    - Chur\n    - Uri\n"), encoding="utf-8")
    result = run_locally(load_config(filled), scratch / "found", owner_report=False)
    keep(result.bundle, "found")
    shutil.copyfile(next((scratch / "home").rglob("*public*.pem")), target / "public-key.pem")


def _people() -> str:
    draw, lines = random.Random(6), ["age,town,seen,remark,ill"]
    for number in range(4000):
        town = draw.choices(["Bern", "Basel", "Chur", "Uri"], [6, 3, 2, 0.01])[0]
        seen = date(2010, 2, 1) + timedelta(days=draw.randrange(3460))
        age = "" if draw.random() < 0.02 else 18 + int(72 * draw.random() ** 1.5)
        lines.append(f"{age},{town},{seen},remark {number},{'yes' if draw.random() < 0.3 else 'no'}")
    return "\n".join(lines) + "\n"


def transcripts(_: Path) -> None:
    """Fit every case with known noise, and forecast it."""
    from golden_cases import BUNDLES
    from transcripts_made import as_text, forecast_of, transcript_of

    target = HERE / "transcripts"
    for name in BUNDLES:
        (target / f"{name}.json").write_text(as_text(transcript_of(name)), encoding="utf-8")
    forecasts = {name: forecast_of(name) for name in BUNDLES}
    (target / "forecasts.json").write_text(as_text(forecasts), encoding="utf-8")


def documents(_: Path) -> None:
    """Read, write and refuse every configuration of ``documents_given.py``."""
    from documents_given import everything
    from transcripts_made import as_text

    (HERE / "documents" / "expected.json").write_text(as_text(everything()), encoding="utf-8")


def reading(_: Path) -> None:
    """Read the table that was written by hand."""
    from reading_made import everything
    from transcripts_made import as_text

    (HERE / "reading" / "expected.json").write_text(as_text(everything()), encoding="utf-8")


def home(scratch: Path) -> None:
    """Make the installation that is kept."""
    from home_made import make_home

    make_home(HERE / "home", scratch)


PARTS = {one.__name__: one for one in (bundles, transcripts, documents, reading, home)}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HERMITAGE_HOME": f"{folder}/home", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.environ.pop("DATABASE_URL", None)
        PARTS[sys.argv[1]](Path(folder))
