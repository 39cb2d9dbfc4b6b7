"""What a reader of the README sees: how well the demonstration tables predict who is readmitted, over several tables.

    python benchmarks/demonstrations.py [--which demonstration small-clinic] [--seeds 1 2 3 4 5 6]

Each seed simulates another table of the same process as ``synth demo`` and ``synth demo --small`` write, which is run
with the configuration that they write, as ``synth run`` does. Printed is what the owner's report says: the area under
the ROC curve, a mean of three classifiers, on people held out, after training on synthetic rows, on real rows and on
rows with unrelated columns.
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
TRAINED_ON = ("synthetic", "real", "control")


def areas(stem: str, seed: int, folder: Path) -> list[float]:
    """Return the areas of the owner's report in the order of ``TRAINED_ON``; the run has a home of its own."""
    which = DEMONSTRATIONS[stem]
    os.environ["HERMITAGE_HOME"] = str(folder / "home")
    (folder / which.table_name).write_bytes(demonstration_bytes(which, seed=seed).getvalue())
    config = folder / f"{stem}.yaml"
    config.write_text(demonstration_config_text(which, table=which.table_name), encoding="utf-8")
    synth.run(synth.load_config(config), folder / "release")
    report = json.loads((folder / "release" / "owner" / "report.json").read_text())
    values = {one["id"]: one["value"] for one in report["evidence"]}
    return [values[f"downstream.{trained}.roc_auc"] for trained in TRAINED_ON]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--which", nargs="+", choices=list(DEMONSTRATIONS), default=list(DEMONSTRATIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5, 6])
    asked = parser.parse_args()
    os.environ.pop("DATABASE_URL", None)
    for stem in asked.which:
        print(f"{stem}: seed, ROC AUC after training on {', '.join(TRAINED_ON)}; CPU s")
        found = []
        for seed in asked.seeds:
            started = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                found.append(areas(stem, seed, Path(folder)))
            cpu = time.process_time() - started
            print(f"{seed:>6}  {'  '.join(f'{area:.3f}' for area in found[-1])}  {cpu:6.0f}", flush=True)
        means, least, most = np.mean(found, axis=0), np.min(found, axis=0), np.max(found, axis=0)
        cells = (f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in zip(means, least, most, strict=True))
        print(f"  mean  {'  '.join(cells)}\n")


if __name__ == "__main__":
    main()
