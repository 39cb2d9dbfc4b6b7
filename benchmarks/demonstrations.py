"""How accurate the rows of the demonstration tables are, over several tables of each.

    python benchmarks/demonstrations.py [--which demonstration small-clinic] [--seeds 1 2 3 4 5 6]

Each seed simulates another table of the same process as ``synth demo`` and ``synth demo --small`` write, which is run
with the configuration that they write, as ``synth run`` does. Printed is what the owner's report says, exact because
simulated rows need no protection: means over the seeds, with the least and the most of them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import synth
from synth.demonstration import CLINIC, NETWORK, demonstration_bytes, demonstration_config_text

DEMONSTRATIONS = {which.stem: which for which in (NETWORK, CLINIC)}
PRINTED = {
    "downstream.synthetic.roc_auc": "ROC AUC for readmission, three classifiers, after training on synthetic rows",
    "downstream.real.roc_auc": "on real rows",
    "downstream.control.roc_auc": "on rows with unrelated columns",
    "marginals.1.coarse_mean": "error of single columns",
    "marginals.2.coarse_mean": "error of pairs",
    "marginals.2.coarse_independent": "error of pairs, unrelated columns",
    "people.rows": "rows a patient",
    "people.pairs": "pairs of columns within a visit",
    "people.next": "a visit and the next",
    "people.gaps": "time between them",
}


def reported(stem: str, seed: int, folder: Path) -> list[float]:
    """Return the numbers of the owner's report in the order of ``PRINTED``; the run has a home of its own."""
    which = DEMONSTRATIONS[stem]
    os.environ["HERMITAGE_HOME"] = str(folder / "home")
    (folder / which.table_name).write_bytes(demonstration_bytes(which, seed=seed).getvalue())
    config = folder / f"{stem}.yaml"
    config.write_text(demonstration_config_text(which, table=which.table_name), encoding="utf-8")
    synth.run(synth.load_config(config), folder / "release")
    report = json.loads((folder / "release" / "owner" / "report.json").read_text())
    values = {one["id"]: one["value"] for one in report["evidence"]}
    return [values[name] for name in PRINTED]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--which", nargs="+", choices=list(DEMONSTRATIONS), default=list(DEMONSTRATIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5, 6])
    asked = parser.parse_args()
    os.environ.pop("DATABASE_URL", None)
    for stem in asked.which:
        started, found = time.process_time(), []
        for seed in asked.seeds:
            with tempfile.TemporaryDirectory() as folder:
                found.append(reported(stem, seed, Path(folder)))
        cpu = (time.process_time() - started) / len(found)
        print(f"\n{stem}, {len(found)} tables, {cpu:.0f} CPU s each")
        for words, values in zip(PRINTED.values(), zip(*found, strict=True), strict=True):
            print(f"{words:>80}  {np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})", flush=True)


if __name__ == "__main__":
    main()
