"""Why columns by class tell rare attacks apart better than the default generator: noise looks like an outlier.

    HERMITAGE_DATA=FOLDER python benchmarks/outlying_classes.py --seeds 1 2 3 [--options '{"label_share": 0.5}']

The intrusion table of ``downstream.py``, soundly: nothing left out, areas from scores, the mean of its twelve
classifiers, here for each class. Beside the rows of `dp-hp-adaptive` and of `independent-by-class` stand rows of the
first in which cells of rare classes are replaced, ``--part`` of them, by values drawn evenly from all that are
declared. Nothing is learnt from the private rows by that. What it wins is owed to attacks being unlike other rows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from cell import synthetic, write_folder
from downstream import LEARNT_FROM, SOUND, TWELVE, prepared
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from tables import Table

from synth.reports.features import Features, Target
from synth.reports.prediction.classifiers import CLASSIFIERS, classify
from synth.reports.tree_predictors import quiet_and_single

TABLE, BUDGET, FIRST_RARE_CLASS = "intrusion", (1.0, 1e-5), 2
WAYS = ("dp-hp-adaptive", "the same, rare classes noised", "independent-by-class")


def noised(table: Table, rows: NDArray[np.integer], part: float, seed: int) -> NDArray[np.integer]:
    """Replace a part of the cells of rare classes by values drawn evenly."""
    random, at = np.random.default_rng(seed), table.schema.names.index(table.label or "")
    changed, rare = rows.copy(), np.flatnonzero(rows[:, at] >= FIRST_RARE_CLASS)
    for d, column in enumerate(table.schema.modelled):
        if d != at:
            hit = rare[random.random(len(rare)) < part]
            changed[hit, d] = random.integers(0, column.size, len(hit))
    return changed


def areas(table: Table, rows: NDArray[np.integer], test: NDArray[np.integer], seed: int) -> NDArray[np.float64]:
    """Return areas under the ROC curve by class of the test rows, means over the classifiers."""
    label = table.label or ""
    features, target = Features.of(table.schema, label), Target.of(table.schema, label)
    random = np.random.default_rng(seed)
    made, real = list(rows.T), list(test.T)
    learnt = random.permutation(target.usable(made))[:LEARNT_FROM]
    tested = random.permutation(target.usable(real))[:LEARNT_FROM]
    seen, labels = features.matrix(made, learnt), target.values(made, learnt).astype(np.int64)
    unseen, truth = features.matrix(real, tested), target.values(real, tested).astype(np.int64)
    classes = np.unique(truth)
    found = np.full((len(TWELVE), int(classes.max()) + 1), np.nan)
    with quiet_and_single():
        for place, name in enumerate(TWELVE):
            scores = classify(CLASSIFIERS[name], seen, labels, unseen, classes, seed=seed).scores
            for k, one in enumerate(classes):
                found[place, one] = roc_auc_score(truth == one, scores[:, k])
    return found.mean(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--part", type=float, default=0.15)
    parser.add_argument("--options", type=json.loads, default={}, help="of dp-hp-adaptive")
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    found: dict[str, list[NDArray[np.float64]]] = {way: [] for way in WAYS}
    for seed in asked.seeds:
        table, test = prepared(TABLE, SOUND, seed)
        with tempfile.TemporaryDirectory() as folder:
            write_folder(Path(folder), table.schema, table.label, table.codes, table.units)
            made = {way: synthetic(Path(folder), way, {}, BUDGET, len(table.codes), seed) for way in (WAYS[0], WAYS[2])}
        made[WAYS[1]] = noised(table, made[WAYS[0]], asked.part, seed)
        for way in WAYS:
            one = areas(table, made[way], test, seed)
            found[way].append(np.pad(one, (0, 5 - len(one)), constant_values=np.nan))
            print(f"seed {seed}, {way}: {np.array2string(found[way][-1], precision=3)}", flush=True)
    print("\nROC AUC by class (denial of service, normal, probe, remote, to root), then their mean:")
    for way in WAYS:
        classes = np.nanmean(found[way], axis=0)
        means = [np.nanmean(one) for one in found[way]]
        print(f"{way:>30} " + " ".join(f"{one:.3f}" for one in classes) + f"  {np.mean(means):.3f}")


if __name__ == "__main__":
    main()
