"""How long a rehearsal of every generator takes: ``synth rehearse --generators all`` on a cut of Adult.

    HERMITAGE_DATA=FOLDER python benchmarks/rehearsed_grid.py [--rows 20000] [--epsilons 0.25 0.5 1 2 4] [--json FILE]

The stand-in is ``--rows`` rows of the 15 columns of Adult, chosen by a fixed seed and declared as in
``examples/adult.yaml``, but with a private number of rows: some generators hide only whether a row is there. The
command is the owner's, in a process of its own with a fresh home: each cell is printed as it comes, and the table at
the end, the best for predicting the income first. Then follow the CPU seconds of that process and its children, the
seconds by the clock, and the largest memory. The aim is 900 s by the clock on two cores.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import yaml

from synth.system.machine import cores

ROOT = Path(__file__).resolve().parents[1]
AIM = 900.0
"""Seconds by the clock on two cores."""

CHOSEN_SEED = 20_261_128
"""Public: which rows of Adult make the stand-in."""


def write_inputs(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write the stand-in and its configuration; return both."""
    with gzip.open(Path(os.environ["HERMITAGE_DATA"]) / "adult" / "adult.data.gz", "rt", encoding="utf-8") as stream:
        lines = [line for line in stream if line.strip()]
    chosen = np.sort(np.random.default_rng(CHOSEN_SEED).choice(len(lines), size=min(rows, len(lines)), replace=False))
    table, config = folder / "stand-in.csv", folder / "grid.yaml"
    table.write_text("".join(lines[place] for place in chosen), encoding="utf-8")
    body = yaml.safe_load((ROOT / "examples" / "adult.yaml").read_text(encoding="utf-8"))
    del body["number_of_units"]
    config.write_text(yaml.safe_dump(body | {"row_count": "private", "rows": len(chosen)}, sort_keys=False))
    return table, config


def rehearsed(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Run the owner's command; return what it used and what it found."""
    table, config = write_inputs(folder, asked.rows)
    command = [sys.executable, "-m", "synth", "rehearse", str(config), "--stand-in", str(table), "--generators", "all"]
    command += ["--epsilons", *map(str, asked.epsilons), "--seeds", str(asked.seeds), "--out", str(folder / "out.json")]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"HERMITAGE_HOME": str(folder / "home")})
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit("The rehearsal failed.")
    report = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_bytes": used.ru_maxrss * 1024,
        "cores": cores(),
        "rows": asked.rows,
        "cells": report["cells"],
        "failures": report["failures"],
        "left_out": report["left_out"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.25, 0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    with tempfile.TemporaryDirectory() as scratch:
        found = rehearsed(Path(scratch), asked)
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    made = {cell["generator"]: 0.0 for cell in found["cells"]}
    for cell in found["cells"]:
        made[cell["generator"]] += cell["seconds"]
    print("Seconds of measuring, fitting and drawing: " + ", ".join(f"{name} {s:.0f}" for name, s in made.items()))
    print(
        f"{len(found['cells'])} rehearsals of {asked.rows:,} rows: {found['cpu_seconds']:,.0f} CPU s, "
        f"{found['seconds']:,.0f} s by the clock on {found['cores']} cores (aim: {AIM:,.0f} s on two), "
        f"{found['peak_bytes'] / 2**20:,.0f} MiB"
    )


if __name__ == "__main__":
    main()
