"""CPU seconds of ``synth run`` in several checkouts, in turn on one machine: a processor's speed then cancels out.

    git worktree add ../before COMMIT   # such as "Version 0.6.0" in the log
    HERMITAGE_DATA=FOLDER python benchmarks/run_times.py --checkouts ../before . --tables g10 scm_tree --times 3

The default generator's runs are those of ``whole_row.py`` (epsilon 1, delta 1e-5, one row added or removed, default
options, one thread), each with a fresh vault and account. Printed are every run's seconds, as they come, and then each
table's medians, with their ratios to the first checkout's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from marginals import HERE
from tables import Table, load_split
from whole_row import DEFAULT, WANTED, Cell, config_of

from synth.schema.config import config_to_yaml

LIMIT = 1800


def seconds_of(checkout: Path, name: str, table: Table, seed: int) -> float:
    """Run the command line of a checkout; return the CPU seconds of its processes together."""
    cell = Cell(name, DEFAULT, "{}", 1.0, 1e-5, "add_remove", seed, 0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "table.csv").write_bytes(table.written or b"")
        (folder / "run.yaml").write_text(config_to_yaml(config_of(cell, table)), encoding="utf-8")
        command = [sys.executable, "-m", "synth", "run", str(folder / "run.yaml"), "--table", str(folder / "table.csv")]
        command += ["--out", str(folder / "release"), "--no-owner-report"]
        timed = subprocess.run(
            [sys.executable, "-S", str(HERE / "measured.py"), str(LIMIT), *command],
            capture_output=True,
            check=True,
            cwd=checkout,
            env={**os.environ, "HERMITAGE_HOME": str(folder / "home"), "PYTHONPATH": str(checkout)},
        )
    used = json.loads(timed.stdout.splitlines()[-1])
    if used["code"]:
        sys.exit(f"The run of {name} in {checkout} ended with {used['code']}: {timed.stderr.decode()[-500:]}")
    return float(used["cpu_seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", nargs="+", type=Path, required=True, help="folders; the first is compared with")
    parser.add_argument("--tables", nargs="+", choices=WANTED, default=list(WANTED))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=900)
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    checkouts = [one.resolve() for one in asked.checkouts]
    found: dict[str, list[list[float]]] = {}
    for name in asked.tables:
        table, _ = load_split(name, neighbours="add_remove", seed=0)
        found[name] = []
        for turn in range(asked.times):
            found[name].append([seconds_of(one, name, table, asked.first_seed + turn) for one in checkouts])
            print(f"{name:>22} {turn + 1}  " + "  ".join(f"{each:6.1f}" for each in found[name][-1]), flush=True)
    for name, turns in found.items():
        medians = [statistics.median(each) for each in zip(*turns, strict=True)]
        print(f"{name:>22}    " + "  ".join(f"{each:6.1f} ({each / medians[0]:.2f})" for each in medians))


if __name__ == "__main__":
    main()
