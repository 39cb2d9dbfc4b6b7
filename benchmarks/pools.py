"""How many pools the rows of a tilted model should come from: one fit, drawn in several ways.

    python benchmarks/pools.py [--seeds 3]

``dp-hp-adaptive`` with ``model: field`` at epsilon 1 (add/remove, delta 1e-5) learns 20,000 rows of dense simulated
tables: numbers of three factors, of one Wishart covariance, and of a structural causal model. From the same fit come
20,000 and 400,000 rows: as in the product; from as few pools as hold them, which repeats rows; and without raking,
which for 400,000 rows means four pools to three of which the tilt was not fitted.

Printed are the mean total variation of two and of three columns in at most 32 places from the rows that were learnt
from, the part of rows that are different, and CPU seconds of drawing: mean and standard error over the seeds, each with
its own table and noise.
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
from metrics import mean_total_variation
from numpy.typing import NDArray
from simulated_tables import LABEL, Made, gaussian, structural_tree
from tables import read

from synth.generators import GeneratorTask, make
from synth.models import pool
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress

LEARNT = 20_000
DRAWN = (20_000, 400_000)
SETS = 120
WAYS = {"as in the product": (8, True), "few pools": (1, True), "few pools, not raked": (1, False)}
RAKED = pool._raked  # noqa: SLF001 - the ways differ in nothing else


def _as_it_is(weights: NDArray[np.float64], *_: object) -> NDArray[np.float64]:
    return weights


def tables(seed: int) -> dict[str, Made]:
    return {
        "three factors": gaussian(11, 3, 500 + seed),
        "Wishart": gaussian(9, 0, 500 + seed),
        "causes": structural_tree(500 + seed),
    }


def measured(made: Made, seed: int) -> dict[tuple[int, str], list[float]]:
    """Fit once, and return what each number of rows drawn in each way came to."""
    columns, rows, _ = made
    table = read("", columns, LABEL, rows.head(LEARNT))
    schema, codes = table.schema, table.codes
    private = PrivateTable.from_codes(schema, {name: codes[:, d] for d, name in enumerate(schema.names)})
    session = PrivateSession(private, PrivacyBudget(1.0, 1e-5, schema.neighbours))
    session.count_rows(share=ROW_COUNT_SHARE)
    task = GeneratorTask(schema=schema, label=LABEL, seed=seed, device="cpu")
    fitted = make("dp-hp-adaptive", task, {"model": "field"}).fit(session, NullProgress())
    real, found = table.binned(table.codes), {}
    for drawn in DRAWN:
        for way, (pools, raked) in WAYS.items():
            vars(pool).update(_POOLS=pools, _raked=RAKED if raked else _as_it_is)
            began = time.process_time()
            sample = fitted.sample(drawn, seed)
            took = time.process_time() - began
            binned = table.binned(sample)
            errors = [mean_total_variation(real, binned, table.sizes, alpha, at_most=SETS) for alpha in (2, 3)]
            found[drawn, way] = [*errors, len(np.unique(sample, axis=0)) / drawn, took]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    print(f"{'':>14} {'rows':>8} {'':>21} {'2 columns':>15} {'3 columns':>15} {'different':>15} {'CPU s':>15}")
    for name in tables(0):
        found = [measured(tables(seed)[name], seed) for seed in range(seeds)]
        for drawn, way in found[0]:
            values = np.array([one[drawn, way] for one in found])
            errors = values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(values.shape[1])
            both = zip(values.mean(axis=0), errors, strict=True)
            shown = " ".join(f"{f'{mean:.4f} ± {error:.4f}':>15}" for mean, error in both)
            print(f"{name:>14} {drawn:>8,} {way:>21} {shown}", flush=True)


if __name__ == "__main__":
    main()
