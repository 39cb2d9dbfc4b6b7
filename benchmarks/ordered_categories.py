"""Whether the default generator learns ordered categories better where it takes them for places of a grid.

    HERMITAGE_DATA=FOLDER python benchmarks/ordered_categories.py [--seeds 3] --json build/ordered.json [--resume]

Categories of two tables are put into their order and declared so: schooling in adult, bands of age in diabetes130. Then
dp-hp-adaptive learns the table as it does, and as it would if an ordered category said that its values are places of a
grid: few neighbouring values share a bin then, as those of numbers do, where their counts are no clearer than noise.

Mean total variation over sets of one, two and three columns that hold the ordered one, as in ``found.py``; means and
two standard errors over seeds, with fresh noise each time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from found import Described, made
from tables import Table, load

from synth.schema import CategoryColumn

ORDER = {
    "adult": (
        "education",
        ("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
         "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
    ),
    "diabetes130": ("age", tuple(f"[{low}-{low + 10})" for low in range(0, 100, 10))),
}  # fmt: skip
WAYS = ("as listed", "as a grid")
MOST_SETS = 60


def in_order(table: Table) -> Table:
    """Return the table with its ordered category declared in order, and codes that follow."""
    name, values = ORDER[table.name]
    column = table.schema[name]
    assert isinstance(column, CategoryColumn)
    assert sorted(values) == sorted(column.values)
    ordered = replace(column, values=values, ordered=True)
    columns = tuple(ordered if one.name == name else one for one in table.schema)
    new = np.arange(column.size)
    new[: len(values)] = [values.index(value) for value in column.values]
    place = [one.name for one in table.schema.modelled].index(name)
    codes = table.codes.copy()
    codes[:, place] = new[codes[:, place]]
    return replace(table, schema=replace(table.schema, columns=columns), codes=codes)


def distances(table: Table, rows: np.ndarray) -> dict[str, float]:
    """Return mean total variation over sets of columns that hold the ordered one."""
    place = [one.name for one in table.schema.modelled].index(ORDER[table.name][0])
    others = [d for d in range(rows.shape[1]) if d != place]
    real, synthetic = table.binned(table.codes), table.binned(rows)
    found = {}
    for k in (1, 2, 3):
        sets = list(combinations(others, k - 1))
        chosen = np.random.default_rng(0).permutation(len(sets))[:MOST_SETS]
        errors = []
        for which in chosen:
            columns = [place, *sets[which]]
            shape = [table.sizes[d] for d in columns]
            counts = [
                np.bincount(np.ravel_multi_index(tuple(part[:, d] for d in columns), shape), minlength=np.prod(shape))
                / len(part)
                for part in (real, synthetic)
            ]
            errors.append(0.5 * float(np.abs(counts[0] - counts[1]).sum()))
        found[f"{k}-way"] = statistics.fmean(errors)
    return found


def measure(table: Table, way: str, epsilon: float, seed: int) -> dict[str, object]:
    levels = property(lambda column: len(column.values) if column.ordered and way == "as a grid" else 0)
    with mock.patch.object(CategoryColumn, "levels", levels):
        rows, _ = made(table, Described(table.schema), epsilon, "dp-hp-adaptive", seed)
    return {"table": table.name, "way": way, "epsilon": epsilon, "seed": seed, **distances(table, rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(ORDER))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    done = json.loads(asked.json.read_text()) if asked.resume and asked.json and asked.json.exists() else []
    for name in asked.tables:
        table = in_order(load(name, neighbours="add_remove"))
        for epsilon in asked.epsilons:
            for way in WAYS:
                held = {"table": name, "way": way, "epsilon": epsilon}
                for seed in range(asked.seeds):
                    if not any(cell.items() >= (held | {"seed": seed}).items() for cell in done):
                        done.append(measure(table, way, epsilon, seed))
                        if asked.json:
                            asked.json.write_text(json.dumps(done, indent=1))
                cells = [cell for cell in done if cell.items() >= held.items()]
                spread = [[float(cell[f"{k}-way"]) for cell in cells] for k in (1, 2, 3)]
                words = [
                    f"{statistics.fmean(s):.4f} ({2 * statistics.stdev(s) / len(s) ** 0.5 if len(s) > 1 else 0:.4f})"
                    for s in spread
                ]
                print(f"{name} | {epsilon:g} | {way} | {' | '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
