"""Raw tables of numbers, categories and missing cells: numbers as numbers, and classifiers trained on synthetic rows.

    HERMITAGE_DATA=FOLDER python benchmarks/raw_tables.py [--tables adult cervical] [--seeds 5] [--epsilon 1] \
        --json build/raw_tables.json [--resume]

Every synthetic table is made from the training rows by one process (see ``marginals.py``: the declared schema, a
private session with real noise; AIM is given numbers in at most 32 equal parts of their declared range, and its rows
are decoded evenly inside each part). Then

- logistic regression, histogram gradient boosting and a random forest (settings of ``whole_runs.py``, one for all
  tables, none chosen by test rows) are trained on it and tested on real rows that nothing was made from: areas under
  the ROC and the precision-recall curve (of the rarer class of two; the mean over classes, one against the rest, of
  more) and macro F1, each the mean of the three; they learn from at most 30,000 of the rows, drawn by the seed;
- numbers are compared with the training rows: Kolmogorov-Smirnov and Wasserstein-1 distance of every column and the
  mean absolute difference of correlations (``shapes.py``).

Beside the generators stand the real training rows; their distances are those of the test rows from the training rows.

Tests: the published test file of Adult; elsewhere a third of the units (of patients, for diabetes130, which
has up to three stays of each) drawn by the seed of the cell, so that spreads contain the split. Neighbours: one row
replaced; for diabetes130 one patient added or removed, with a private number of rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from marginals import AIM, HERE, PEERS, Cell, Results, released, spread, write_inputs
from shapes import shape_distances, values_of
from simulated_tables import EXTREMES
from tables import Table, load_split
from whole_runs import accuracies

from synth.generators import GENERATORS
from synth.schema import NumberColumn

REAL = "real rows"
TABLES = ("cervical", "creditcard", "adult", "diabetes130", "census")
SEVERAL_ROWS = ("diabetes130",)
LEARNT_FROM = 30_000
"""Most rows that classifiers learn from, drawn by the seed of the cell: of real and of synthetic rows alike."""

ACCURACIES = ("roc_auc", "pr_auc", "macro_f1")
SHAPES = ("ks", "wasserstein", "correlation")


def frame(table: Table, codes: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """Return features (numbers as numbers, -1 where missing; categories by code) and labels."""
    columns = {
        column.name: np.nan_to_num(values_of(column, codes[:, d]), nan=-1.0)
        if isinstance(column, NumberColumn)
        else codes[:, d]
        for d, column in enumerate(table.schema.modelled)
    }
    labels = columns.pop(table.label or "")
    return pd.DataFrame(columns), labels


def measure(cell: Cell, table: Table, test: np.ndarray, folder: Path, asked: argparse.Namespace) -> dict[str, object]:
    result: dict[str, object] = {}
    codes: np.ndarray | None = table.codes
    if cell.generator != REAL:
        result, codes = released(cell, table, folder, asked)
    if codes is None:
        return result
    if cell.generator in PEERS:
        codes = table.unbinned(codes, cell.seed)
    learnt = np.random.default_rng(cell.seed).permutation(len(codes))[:LEARNT_FROM]
    found = accuracies(table.schema, table.label or "", frame(table, codes[learnt]), frame(table, test), cell.seed)
    means = {key: statistics.fmean(each[key] for each in found.values()) for key in ACCURACIES}
    compared = test if cell.generator == REAL else codes
    return result | means | {"classifiers": found} | shape_distances(table, table.codes, compared)


def shown(name: str, results: list[dict[str, object]]) -> str:
    cells = []
    for key in (*ACCURACIES, *SHAPES):
        values = [float(one[key]) for one in results if key in one]  # type: ignore[arg-type]
        cells.append(spread(values, 4) if values else "-")
    seconds = [float(one["cpu_seconds"]) for one in results if "cpu_seconds" in one]  # type: ignore[arg-type]
    cells.append(spread(seconds, 1) if seconds else "-")
    failed = sum(ACCURACIES[0] not in one for one in results)
    return f"{name:>20} " + " ".join(f"{each:>15}" for each in cells) + (f"  {failed} failed" if failed else "")


def columns_shown(by_generator: dict[str, list[dict[str, object]]]) -> list[str]:
    """Return a line for each number column: both distances, in declared units, of every generator."""
    lines = [f"{'':>36} " + " ".join(f"{name + ': KS, Wasserstein':>40}" for name in by_generator)]
    columns = dict.fromkeys(name for found in by_generator.values() for one in found for name in one.get("columns", {}))
    for column in columns:
        cells = []
        for found in by_generator.values():
            pairs = [one["columns"][column] for one in found if column in one.get("columns", {})]
            sides = [spread([pair[side] for pair in pairs], 3) if pairs else "-" for side in (0, 1)]
            cells.append(f"{sides[0]}, {sides[1]}")
        lines.append(f"{column:>36} " + " ".join(f"{each:>40}" for each in cells))
    return lines


def compare(name: str, asked: argparse.Namespace, results: Results, folder: Path) -> None:
    neighbours = "add_remove" if name in SEVERAL_ROWS else "replace_one"
    found: dict[str, list[dict[str, object]]] = {generator: [] for generator in (REAL, *asked.generators)}
    for seed in range(asked.seeds):
        table, test = load_split(name, neighbours=neighbours, seed=seed)
        write_inputs(folder, table)
        if seed == 0:
            rows, columns = table.codes.shape
            print(f"\n{name}: {rows:,} rows x {columns} columns, {len(test):,} test rows, {neighbours}, ", end="")
            print(f"epsilon {asked.epsilon:g}, delta {asked.delta:g}, {table.schema.unit.sentence.lower()}")
            shares = np.bincount(test[:, table.schema.names.index(table.label or "")]) / len(test)
            print(f"classes of {table.label} among test rows: {', '.join(f'{100 * each:.1f} %' for each in shares)}")
        for generator, so_far in found.items():
            cell = Cell(
                table=name,
                generator=generator,
                options="{}",
                epsilon=asked.epsilon,
                delta=asked.delta,
                neighbours=neighbours,
                seed=seed,
                rows=len(table.codes),
                categories_only=False,
                subsets=0,
            )
            result = results.get(cell)
            if result is None:
                result = measure(cell, table, test, folder, asked)
                results.put(cell, result)
            so_far.append(result)
    print(f"{'':>20} " + " ".join(f"{head:>15}" for head in (*ACCURACIES, *SHAPES, "CPU s")))
    for generator, each in found.items():
        print(shown(generator, each))
    if asked.columns:
        print("\n".join(columns_shown(found)))
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=(*TABLES, *EXTREMES), default=list(TABLES))
    parser.add_argument(
        "--generators",
        nargs="+",
        choices=[*PEERS, *GENERATORS],
        default=["dp-hp-adaptive", AIM, "independent-by-class"],
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--columns", action="store_true", help="also print both distances of every number column")
    parser.add_argument("--aim-python", type=Path, default=HERE.parent / "build" / "peers" / "aim" / "bin" / "python")
    parser.add_argument("--limit", type=float, default=1800, help="CPU seconds of one synthetic table")
    parser.add_argument("--untimed", action="store_true", help="ours in this process: soon done, no time and memory")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    if AIM in asked.generators and not asked.aim_python.exists():
        sys.exit("AIM has an environment of its own: run benchmarks/peers/aim/setup first.")
    results = Results(asked.json, resume=asked.resume)
    with tempfile.TemporaryDirectory() as scratch:
        for name in asked.tables:
            compare(name, asked, results, Path(scratch) / name)


if __name__ == "__main__":
    main()
