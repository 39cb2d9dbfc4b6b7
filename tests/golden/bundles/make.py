"""Make the golden bundles again: ``python tests/golden/bundles/make.py FOLDER`` (see README.md beside it)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

COLUMNS = """
columns:
  patient: {type: identifier}
  age: {type: number, low: 0, high: 99, step: 1, missing: true}
  weight: {type: number, low: 30, high: 150, step: 0.5, special: [-1]}
  ward: {type: category, values: [north, south, east], other: true}
  visited: {type: date, low: 2024-01-01, high: 2024-12-31, step: day}
  smoker: {type: yes_no, yes: "yes", no: "no", missing: true}
  note: {type: drop}
  outcome: {type: category, values: [well, ill]}
"""

REPLACE = "unit: {protects: patient, rows_per_unit: 1}\nrow_count: public\n"
REPLACE_BY_ID = "unit: {protects: patient, rows_per_unit: 1, id_column: patient}\nrow_count: public\n"
ADD_REMOVE = "unit: {protects: patient, rows_per_unit: 1}\nrow_count: private\n"
SEVERAL_ROWS = "unit: {protects: patient, rows_per_unit: 3, id_column: patient}\nrow_count: private\n"

BUNDLES = {
    "independent": (REPLACE, "holdout: 0.3\nprediction_share: 0.2\nlabel: outcome\n", "independent", "{}"),
    "independent-by-class": (SEVERAL_ROWS, "label: outcome\n", "independent-by-class", "{bins: 8}"),
    "dp-hp-adaptive": (REPLACE_BY_ID, "label: outcome\n", "dp-hp-adaptive", "{cells: 20000}"),
    "dp-hp-adaptive-several-rows": (SEVERAL_ROWS, "holdout: 0.2\n", "dp-hp-adaptive", "{cells: 20000, model: mixture}"),
    "dp-hp": (ADD_REMOVE, "label: outcome\n", "dp-hp", "{order: 5, order_product: 3, epochs: 1, steps_per_epoch: 5}"),
    "dp-merf": (REPLACE, "label: outcome\n", "dp-merf", "{features: 40, steps: 20}"),
    "kahm": (REPLACE, "label: outcome\n", "kahm", "{n: 4, block: 50}"),
    "kahm-rows": (REPLACE, "label: outcome\n", "kahm", "{mode: rows, n: 4, block: 50}"),
    "kahm-cell": (
        REPLACE + "protection: cell\ncell_change: 0.5\n",
        "label: outcome\nevaluation_share: 0\n",
        "kahm",
        "{mode: cell, n: 4, block: 50}",
    ),
}
"""Name of a bundle: unit and relation, further settings, generator, its options."""

ROWS = {"dp-hp-adaptive": 6000, "dp-hp-adaptive-several-rows": 6000}
"""Private rows, 400 where nothing is said: private choices come only where there is something to tell apart."""


def main(target: Path) -> None:
    """Simulate a table for each configuration, release it, and keep the bundle."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HERMITAGE_HOME": f"{scratch}/home", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.environ.pop("DATABASE_URL", None)
        from dataclasses import replace

        from synth.cli.local import run_locally
        from synth.rehearsal.simulation import SIMULATED_FORMAT, SimulatedColumn, Simulation, simulated_table
        from synth.schema import parse_config
        from synth.schema.documents import read_mapping

        shapes = {
            "age": SimulatedColumn("bell"),
            "weight": SimulatedColumn("bell", follows="age", strength=0.6),
            "ward": SimulatedColumn(shares=(5, 3, 2)),
            "outcome": SimulatedColumn(shares=(3, 1), follows="age", strength=0.7),
        }
        for seed, (name, (unit, further, generator, options)) in enumerate(BUNDLES.items()):
            text = (
                f"account: {name}\n{unit}people_at_most: 1000\nbudget: {{epsilon: 4.0, delta: 1e-6}}\nrows: 100\n"
                f"{further}generator: {{name: {generator}, options: {options}}}\nseed: 3\ndevice: cpu\n{COLUMNS}"
            )
            config = replace(parse_config(read_mapping(text)), format=SIMULATED_FORMAT)
            table = Path(scratch) / f"{name}.csv"
            table.write_bytes(simulated_table(Simulation(ROWS.get(name, 400), shapes, seed=seed), config.schema))
            out = Path(scratch) / name
            result = run_locally(config, out, table=table, owner_report=False)
            shutil.copyfile(result.bundle, target / f"{name}.zip")
        public = next(Path(scratch, "home").rglob("*public*.pem"), None)
        if public is not None:
            shutil.copyfile(public, target / "public-key.pem")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
