"""Whether synthetic numbers are as round as real ones.

    HERMITAGE_DATA=FOLDER python benchmarks/round_values.py [--tables heaps census] [--epsilons 1] [--seeds 3] \
        --json build/round.json [--resume]

Rows of dp-hp-adaptive. Of every number with more than 64 places, among values on the grid other than zero: the share of
multiples of 10, 50, 100, 500, ... units of the last printed digit, at the one of these units where the two tables
differ most; the share of each last digit, at the one where they differ most; distinct values; the 99th percentile.
Beside them the mean total variation over sets of one to three columns, numbers in at most 32 equal parts (at most 200
sets). Means over seeds, with fresh noise each time; two standard errors in brackets. ``adult``, ``census`` and
``cervical`` as the other benchmarks declare them; ``titanic``, ``insurance`` and ``creditcard`` with cents and
thousandths, as their files have them; ``heaps`` is simulated, with known heaps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import declared
import numpy as np
from cell import synthetic, write_folder
from metrics import mean_total_variation
from numpy.typing import NDArray
from tables import Table, _text, load, read

from synth.generators.round_values import long_numbers
from synth.schema import ModelledColumn, NumberColumn

GENERATOR = "dp-hp-adaptive"
FINER = {
    "titanic": ("Survived", "titanic/titanic.csv", {"Fare": 0.01, "Age": 0.01}, declared.titanic),
    "insurance": ("smoker", "insurance/insurance.csv", {"bmi": 0.001, "charges": 0.01}, declared.insurance),
    "creditcard": (
        "Class",
        "creditcard_fraud_sample/creditcard_sample.csv.gz",
        {"Amount": 0.01},
        declared.creditcard,
    ),
}
"""Tables whose numbers are declared as their files write them."""

TABLES = ("heaps", "census", "adult", "titanic", "insurance", "cervical", "creditcard")
SETS = 200


def loaded(name: str) -> Table:
    if name not in FINER:
        return load(name, neighbours="add_remove")
    label, file, steps, columns = FINER[name]
    finer = [
        replace(one, step=steps[one.name]) if isinstance(one, NumberColumn) and one.name in steps else one
        for one in columns()
    ]
    table = read(name, finer, label, _text(Path(os.environ["HERMITAGE_DATA"]) / file))
    return replace(table, schema=replace(table.schema, row_count="private", number_of_units=None))


def whole(column: ModelledColumn, codes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return values on the grid other than zero, in units of the last printed digit."""
    on_grid = codes[codes < column.levels]
    scale = column.scale
    low, step = (round(one * 10**scale.decimals) for one in (scale.low, scale.step))
    values = np.abs(low + step * on_grid.astype(np.int64))
    return values[values > 0]


def roundness(column: ModelledColumn, real: NDArray[np.integer], made: NDArray[np.integer]) -> dict[str, float]:
    """Compare how round one column is; shares are of values on the grid other than zero."""
    before, after = whole(column, real), whole(column, made)
    if not len(before) or not len(after):
        return {}
    units = [unit for k in range(1, 8) for unit in (10**k, 5 * 10**k)]
    shares = [(float((before % unit == 0).mean()), float((after % unit == 0).mean()), unit) for unit in units]
    worst = max(shares, key=lambda pair: abs(pair[0] - pair[1]))
    digits = [np.bincount(values % 10, minlength=10) / len(values) for values in (before, after)]
    decimals = column.scale.decimals
    return {
        "unit": worst[2] / 10**decimals,
        "real": worst[0],
        "made": worst[1],
        "digits": float(np.abs(digits[0] - digits[1]).max()),
        "distinct": float(len(np.unique(after))),
        "distinct real": float(len(np.unique(before))),
        "p99": float(np.quantile(after, 0.99)) / 10**decimals,
        "p99 real": float(np.quantile(before, 0.99)) / 10**decimals,
    }


def measure(table: Table, epsilon: float, seed: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), table.schema, table.label, table.codes, table.units)
        rows = synthetic(Path(folder), GENERATOR, {}, (epsilon, 1e-5), len(table.codes), seed)
    binned = table.binned(table.codes), table.binned(rows)
    found = {f"{k}-way": mean_total_variation(*binned, table.sizes, k, at_most=SETS) for k in (1, 2, 3)}
    place = {column.name: d for d, column in enumerate(table.schema.modelled)}
    columns = {
        column.name: roundness(column, table.codes[:, place[column.name]], rows[:, place[column.name]])
        for column in long_numbers(table.schema.modelled)
    }
    return {"table": table.name, "epsilon": epsilon, "seed": seed, "columns": columns, **found}


def _mean(numbers: list[float], form: str = ".3f") -> str:
    spread = 2 * statistics.stdev(numbers) / len(numbers) ** 0.5 if len(numbers) > 1 else 0.0
    return f"{statistics.fmean(numbers):{form}} ({spread:{form}})"


def lines(cells: list[dict], names: list[str]) -> list[str]:
    """Say what was found, a line for each table and one for each of its columns."""
    said = []
    for name in names:
        for epsilon in sorted({cell["epsilon"] for cell in cells if cell["table"] == name}):
            held = [c for c in cells if (c["table"], c["epsilon"]) == (name, epsilon)]
            far = " | ".join(_mean([cell[f"{k}-way"] for cell in held], ".4f") for k in (1, 2, 3))
            said.append(f"{name} | {epsilon:g} | {far}")
            for column in held[0]["columns"]:
                of = [cell["columns"][column] for cell in held if cell["columns"][column]]
                if of:
                    off = _mean([abs(one["real"] - one["made"]) for one in of])
                    digits = _mean([one["digits"] for one in of])
                    distinct = statistics.fmean(one["distinct"] for one in of)
                    p99 = statistics.fmean(one["p99"] for one in of)
                    said.append(
                        f"    {column}: multiples off by {off}, at {of[0]['unit']:g} {of[0]['real']:.3f} became "
                        f"{of[0]['made']:.3f}; digits {digits}; {of[0]['distinct real']:.0f} values became "
                        f"{distinct:.0f}; 99th percentile {of[0]['p99 real']:.6g} became {p99:.6g}"
                    )
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    done = json.loads(asked.json.read_text()) if asked.resume and asked.json and asked.json.exists() else []
    for name in asked.tables:
        table = loaded(name)
        for epsilon in asked.epsilons:
            for seed in range(asked.seeds):
                cell = {"table": name, "epsilon": epsilon, "seed": seed}
                if not any(one.items() >= cell.items() for one in done):
                    done.append(measure(table, epsilon, seed))
                    if asked.json:
                        asked.json.write_text(json.dumps(done, indent=1))
        print("\n".join(lines(done, [name])), flush=True)


if __name__ == "__main__":
    main()
