"""What balancing rows in all pairs of columns brings: one fit, its rows drawn with and without it.

    HERMITAGE_DATA=FOLDER python benchmarks/balanced.py [--tables simple g10] [--epsilons 0.3 1 10] [--seeds 3]

``dp-hp-adaptive`` learns from open tables of ``everywhere.py`` (add/remove, delta 1e-5), and as many rows as were
learnt from are drawn: as in the product, and without exchanging rows for the sake of pairs. Printed are the mean total
variation of single columns, of two and of three columns from the rows that were learnt from, and CPU seconds of
drawing: means over the seeds, each with its own rows to learn from and its own noise; then by how much the distances
are smaller, with the standard error over the seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from cell import ROW_COUNT_SHARE
from everywhere_tables import LISTED, OPEN, split
from metrics import mean_total_variation

from synth.generators import GeneratorTask, make
from synth.models import balanced_rows, pool
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress

TABLES = ("simple", "cervical", "scm_tree", "g10", "incomes", "shops")
SETS = 200
PAIRS = balanced_rows.pairs_to_balance
WAYS = {"as in the product": PAIRS, "pairs left alone": lambda *_: []}


def measured(name: str, epsilon: float, seed: int) -> list[list[float]]:
    """Fit once, and return by way the errors of sets of one, two and three columns, and CPU seconds of drawing."""
    table, _ = split(LISTED[name], seed)
    schema, codes = table.schema, table.codes
    private = PrivateTable.from_codes(schema, {column: codes[:, d] for d, column in enumerate(schema.names)})
    session = PrivateSession(private, PrivacyBudget(epsilon, 1e-5, schema.neighbours))
    session.count_rows(share=ROW_COUNT_SHARE)
    task = GeneratorTask(schema=schema, label=table.label, seed=seed, device="cpu")
    fitted = make("dp-hp-adaptive", task, {}).fit(session, NullProgress())
    fitted.sample(1, seed)  # a first pool is drawn once
    real, found = table.binned(codes), []
    for pairs in WAYS.values():
        for module in (balanced_rows, pool):
            vars(module)["pairs_to_balance"] = pairs
        began = time.process_time()
        rows = fitted.sample(len(codes), seed)
        took = time.process_time() - began
        bins = table.binned(rows)
        errors = [mean_total_variation(real, bins, table.sizes, alpha, at_most=SETS) for alpha in (1, 2, 3)]
        found.append([*errors, took])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(OPEN), default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    print(f"{'':>12} {'epsilon':>8} {'':>18} {'1 column':>9} {'2 columns':>9} {'3 columns':>9} {'CPU s':>6}")
    for name in asked.tables:
        for epsilon in asked.epsilons:
            found = np.array([measured(name, epsilon, seed) for seed in range(asked.seeds)])
            for way, each in zip(WAYS, found.mean(axis=0), strict=True):
                shown = " ".join(f"{one:9.4f}" for one in each[:3])
                print(f"{name:>12} {epsilon:>8g} {way:>18} {shown} {each[3]:6.2f}")
            less = 100 * (1 - found[:, 0, :3] / found[:, 1, :3])
            error = less.std(axis=0, ddof=1) / np.sqrt(asked.seeds) if asked.seeds > 1 else np.zeros(3)
            shown = ", ".join(f"{mean:.1f} ± {one:.1f} %" for mean, one in zip(less.mean(axis=0), error, strict=True))
            print(f"{'':>12} {'':>8} {'smaller by':>18} {shown}", flush=True)


if __name__ == "__main__":
    main()
