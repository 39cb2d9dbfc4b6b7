"""What ``synth run`` takes in several checkouts, in turn on one machine, so that a processor's speed cancels out.

    HERMITAGE_DATA=FOLDER python benchmarks/run_times.py --checkouts . --tables g10 scm_tree --times 3
    git worktree add ../before COMMIT   # a commit to compare with: --checkouts ../before .

The default generator's runs are those of ``whole_row.py`` (epsilon 1, delta 1e-5, one row added or removed, default
options, one thread), each with a fresh vault and account. Printed are every run's CPU seconds and peak memory, as they
come, and then each table's medians, with their ratios to the first checkout's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tables import load_split
from whole_row import DEFAULT, WANTED, Cell, command_line

LIMIT = 1800.0
"""CPU seconds of one run."""


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
    found: dict[str, list[list[tuple[float, float]]]] = {}
    for name in asked.tables:
        table, _ = load_split(name, neighbours="add_remove", seed=0)
        found[name] = []
        for turn in range(asked.times):
            cell = Cell(name, DEFAULT, "{}", 1.0, 1e-5, "add_remove", asked.first_seed + turn, 0)
            with tempfile.TemporaryDirectory() as scratch:
                folders = [Path(scratch) / str(place) for place in range(len(checkouts))]
                found[name].append(
                    [
                        command_line(cell, table, folder, limit=LIMIT, checkout=one)
                        for folder, one in zip(folders, checkouts, strict=True)
                    ]
                )
            said = (f"{seconds:6.1f} s, {peak / 2**20:5.0f} MB" for seconds, peak in found[name][-1])
            print(f"{name:>22} {turn + 1}  " + "    ".join(said), flush=True)
    for name, turns in found.items():
        for place, unit, scale in ((0, "s", 1.0), (1, "MB", 2.0**20)):
            medians = [statistics.median(one[place] for one in each) / scale for each in zip(*turns, strict=True)]
            said = (f"{each:6.1f} ({each / medians[0]:.2f})" for each in medians)
            print(f"{name:>22} {unit:>2}  " + "  ".join(said))


if __name__ == "__main__":
    main()
