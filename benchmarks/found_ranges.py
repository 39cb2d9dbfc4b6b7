"""How much of a column lies outside the range that is found for it, and what found ranges cost a release.

    python benchmarks/found_ranges.py shapes [--rows 300 2000 20000] [--epsilons 0.3 1] [--columns 8]
    HERMITAGE_DATA=FOLDER python benchmarks/found_ranges.py tables [--tables insurance cervical] [--epsilons 0.3 1]
    HERMITAGE_DATA=FOLDER python benchmarks/found_ranges.py releases [--tables insurance cervical] [--finds 0.1 0.3]

``shapes`` draws columns of many shapes (even, normal, log-normal, exponential, with heavy tails, with one frequent
value, codes, two clusters, dates), finds each one among so many open columns, with noise of the standard deviation of a
finding at that epsilon (delta 1e-7, one row for each person, neighbours by adding or removing one), and prints the
mean and the largest part of its cells outside the range, and the width of the range in that of its middle 98 %.

``tables`` finds every column of published tables with the program itself and prints the same of every number and date
that is found; ``releases`` compares releases at a total of epsilon 1 (delta 1e-6) whose columns were found with a part
of it, and whose numbers are as they were declared or as they were found: mean total variation over sets of one and two
columns between real and made rows, in at most 32 parts of the declared ranges. The columns that are no numbers are as
declared in both, so that only ranges differ.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Callable
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from found import Described, as_found, left_over, made
from metrics import mean_total_variation
from tables import Table, load

from synth.privacy.answers import NoisyAnswer
from synth.privacy.costs import gaussian_on_grid
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.finding import find, finding_budget
from synth.privacy.more.found_values import FoundValues, ValuesQuestion
from synth.privacy.receipt import Receipt
from synth.schema import (
    DateColumn,
    DropColumn,
    FindColumn,
    ModelledColumn,
    Neighbours,
    NumberColumn,
    PrivacyUnit,
    Schema,
)
from synth.schema.encoding import encode_column

DELTA = 1e-7

Drawn = Callable[[np.random.Generator, int], np.ndarray]
DAY = np.datetime64("2000-01-01")


def _days(draw: Drawn) -> Drawn:
    return lambda random, n: DAY + np.asarray(draw(random, n)).astype("timedelta64[D]")


SHAPES: dict[str, Drawn] = {
    "whole 18 to 64": lambda r, n: r.integers(18, 65, n),
    "whole 1 to 7": lambda r, n: r.integers(1, 8, n),
    "years 1950 to 2020": lambda r, n: r.integers(1950, 2021, n),
    "even 0 to 1": lambda r, n: r.uniform(0, 1, n).round(4),
    "normal 100, 15": lambda r, n: r.normal(100, 15, n).round(1),
    "normal 50, 20 cut at 0": lambda r, n: np.clip(r.normal(50, 20, n).round(), 0, None).astype(int),
    "normal 0, 1": lambda r, n: r.normal(0, 1, n).round(3),
    "normal 1, 2": lambda r, n: r.normal(1, 2, n).round(2),
    "normal .9967, .002": lambda r, n: r.normal(0.9967, 0.002, n).round(5),
    "log-normal 1": lambda r, n: r.lognormal(9, 1, n).round(2),
    "log-normal 2": lambda r, n: r.lognormal(3, 2, n).round(2),
    "exponential": lambda r, n: r.exponential(300, n).round(2),
    "Pareto 1.5": lambda r, n: ((r.pareto(1.5, n) + 1) * 1000).round(2),
    "Student 2": lambda r, n: (r.standard_t(2, n) * 10 + 100).round(1),
    "gamma below 0": lambda r, n: -r.gamma(4, 5, n).round(1),
    "beta 2, 5 in %": lambda r, n: (100 * r.beta(2, 5, n)).round(1),
    "Poisson 2": lambda r, n: r.poisson(2, n),
    "geometric to 9": lambda r, n: np.minimum(r.geometric(0.45, n) - 1, 9),
    "0 or 1, 30 % ones": lambda r, n: (r.random(n) < 0.3).astype(int),
    "0 or 1, 8 % ones": lambda r, n: (r.random(n) < 0.08).astype(int),
    "half 40, rest normal": lambda r, n: np.where(
        r.random(n) < 0.5, 40, np.clip(r.normal(42, 14, n).round(), 1, 99)
    ).astype(int),
    "80 % zero, log-normal": lambda r, n: np.where(r.random(n) < 0.8, 0, r.lognormal(7, 1, n).round()).astype(int),
    "92 % zero, exponential": lambda r, n: np.where(r.random(n) < 0.92, 0, r.exponential(5000, n).round()).astype(int),
    "15 % -1, even": lambda r, n: np.where(r.random(n) < 0.15, -1, r.integers(20, 80, n)),
    "two clusters": lambda r, n: np.where(r.random(n) < 0.5, r.normal(20, 3, n), r.normal(200, 20, n)).round(1),
    "dates of ten years": _days(lambda r, n: r.integers(0, 3652, n)),
    "dates of a year": _days(lambda r, n: r.integers(0, 365, n)),
    "dates of birth": _days(lambda r, n: r.normal(-11000, 7000, n)),
    "more and more dates": _days(lambda r, n: 8000 - r.exponential(1000, n)),
}


class _Drawn:
    """Answers about one column among several, with noise of the standard deviation of a finding: NOT PRIVATE."""

    def __init__(self, cells: np.ndarray, columns: int, epsilon: float, seed: int) -> None:
        self.schema = Schema((FindColumn("x"),), PrivacyUnit(), row_count="private")
        self._codes = encode_column(FindColumn("x"), pa.array(cells.astype(str)))
        self._units = finding_budget(epsilon, DELTA, Neighbours.ADD_REMOVE).units
        self._columns, self._random = columns, np.random.default_rng(seed)

    def noisy_sum(self, one_hot: OneHot, *, share: float, query: str, source: str) -> NoisyAnswer:
        units = math.floor(self._units * share / self._columns)
        noise = gaussian_on_grid(12, 1.0, dimension=1, units=units)
        (bins,) = one_hot.bins
        assert bins is not None
        counts = np.bincount(bins[self._codes], minlength=one_hot.shape[0])
        receipt = Receipt(
            sequence=0, query=query, mechanism="discrete_gaussian", source=source, neighbours=Neighbours.ADD_REMOVE,
            protects="person", rows_per_unit=1, sensitivity=1.0, noise_scale=noise.noise_std, dimension=1,
            grid=noise.grid, mu_squared_units=1, slack=0.0,
        )  # fmt: skip
        return NoisyAnswer(receipt, counts + self._random.normal(0, noise.noise_std, len(counts)), one_hot)

    def ask(self, question: ValuesQuestion, *, share: float, query: str, source: str) -> FoundValues:
        raise LookupError("taken for texts")


def ends_of(column: ModelledColumn | DropColumn, cells: np.ndarray) -> tuple[float, float] | None:
    """Return the ends of a found range, in the cells' own unit; None where no range was found."""
    if isinstance(column, NumberColumn) and cells.dtype.kind != "M":
        return column.low, column.high
    if isinstance(column, DateColumn) and cells.dtype.kind == "M":
        return float(np.datetime64(column.low).astype(int)), float(np.datetime64(column.high).astype(int))
    return None


def shapes(asked: argparse.Namespace) -> None:
    print(f"{'':24} | rows, epsilon: mean and largest % outside, width, (not found) ; {asked.columns} columns")
    failed = total = 0
    for name, draw in SHAPES.items():
        line = []
        for rows in asked.rows:
            for epsilon in asked.epsilons:
                outside, widths, ends = [], [], None
                for seed in range(asked.seeds):
                    cells = draw(np.random.default_rng([seed, rows]), rows)
                    session = _Drawn(cells, asked.columns, epsilon, seed)
                    try:
                        (found,) = find(session, delta_key=1e-8)
                    except LookupError:
                        continue
                    ends = ends_of(found.column, cells) or None
                    if ends is None:
                        continue
                    values = cells.astype("M8[D]").astype(int) if cells.dtype.kind == "M" else cells
                    outside.append(100 * float(np.mean((values < ends[0]) | (values > ends[1]))))
                    middle = np.subtract(*np.quantile(values, [0.99, 0.01]))
                    widths.append((ends[1] - ends[0]) / max(middle, 1e-9))
                failed += sum(one > 5 for one in outside)
                total += len(outside)
                lost = asked.seeds - len(outside)
                said = (
                    f"{statistics.fmean(outside):4.1f} {max(outside):5.1f} x{statistics.median(widths):<6.1f}"
                    if outside
                    else ""
                )
                line.append(f"{said:18}{f'({lost})' if lost else '':4}")
        print(f"{name:24} | {' | '.join(line)}", flush=True)
    print(f"more than 5 % outside: {failed} of {total} ranges found")


def tables(asked: argparse.Namespace) -> None:
    for name in asked.tables:
        table = load(name, neighbours="add_remove")
        for epsilon in asked.epsilons:
            by_column: dict[str, list[float]] = {}
            left_out: list[int] = []
            said: dict[str, str] = {}
            for _ in range(asked.seeds):
                described = as_found(table, epsilon)
                numbers = {one.name for one in described.schema if isinstance(one, NumberColumn | DateColumn)}
                left_out.append(sum(isinstance(one, DropColumn) for one in described.schema))
                for column, part in described.outside.items():
                    if column in numbers:
                        by_column.setdefault(column, []).append(100 * part)
                        one = described.schema[column]
                        said[column] = f"{one.low:,g} to {one.high:,g}" if isinstance(one, NumberColumn) else ""
            every = [part for parts in by_column.values() for part in parts]
            worst = f"mean {statistics.fmean(every):.2f} %, largest {max(every):.1f} %" if every else "nothing"
            above = sum(one > 5 for one in every)
            print(
                f"{name}, epsilon {epsilon:g}: {len(every)} ranges in {asked.seeds} findings: outside {worst}; "
                f"above 5 %: {above}; columns left out: {statistics.fmean(left_out):.1f} of {len(table.schema.names)}",
                flush=True,
            )
            if asked.columns_too:
                for column, parts in by_column.items():
                    print(f"    {column:36} {statistics.fmean(parts):5.2f} {max(parts):5.1f}  {said[column]}")


def releases(asked: argparse.Namespace) -> None:
    for name in asked.tables:
        table = load(name, neighbours="add_remove")
        for epsilon in asked.finds:
            found = [as_found(table, epsilon) for _ in range(asked.seeds)]
            for way in ("declared", "found"):
                errors: dict[int, list[float]] = {1: [], 2: []}
                for seed, described in enumerate(found):
                    shown = described if way == "found" else replace(described, schema=table.schema)
                    rows, _ = made(
                        table, _numbers_of(table, shown), left_over(described.receipts), "dp-hp-adaptive", seed
                    )
                    real, synthetic = table.binned(table.codes), table.binned(rows)
                    for k, values in errors.items():
                        values.append(mean_total_variation(real, synthetic, table.sizes, k, at_most=300))
                cells = " | ".join(
                    f"{statistics.fmean(values):.4f} ({min(values):.4f} to {max(values):.4f})"
                    for values in errors.values()
                )
                print(f"{name} | {len(table.codes):,} rows | found at {epsilon:g} | {way} ranges | {cells}", flush=True)


def _numbers_of(table: Table, described: Described) -> Described:
    """Return the declared columns with the numbers and dates of a description."""
    ranged = (NumberColumn, DateColumn)
    columns = tuple(
        described.schema[one.name]
        if isinstance(one, ranged) and isinstance(described.schema[one.name], ranged)
        else one
        for one in table.schema
    )
    return replace(described, schema=replace(table.schema, columns=columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shapes", "tables", "releases"])
    parser.add_argument("--rows", nargs="+", type=int, default=[300, 2_000, 20_000, 100_000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0])
    parser.add_argument("--finds", nargs="+", type=float, default=[0.1])
    parser.add_argument("--columns", type=int, default=8, help="open columns of the table, for shapes")
    parser.add_argument("--columns-too", action="store_true", help="a line for every column, for tables")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--tables", nargs="+", default=["insurance", "wine_red", "wine_white", "cervical", "diabetes130"]
    )
    asked = parser.parse_args()
    {"shapes": shapes, "tables": tables, "releases": releases}[asked.what](asked)


if __name__ == "__main__":
    main()
