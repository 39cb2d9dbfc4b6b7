"""Whether a regression on synthetic rows says what it says on the real ones: overlap of 95 % intervals.

    HERMITAGE_DATA=FOLDER python benchmarks/regressions.py --seeds 1 2 3 --keep build/regressions.jsonl \
        [--tables adult insurance] [--epsilons 1] [--purposes balanced regression]

Every synthetic table comes out of the command line, as in ``whole_row.py``, with as many rows as the real one. One
linear and one logistic regression of each table (``REGRESSIONS``) are fitted to the real rows, to rows that were held
out from them, and to synthetic rows. Numbers are in units of the real rows' standard deviation; of a category, classes
of at least 2 % of the real rows have a coefficient each, but for the largest. The overlap of two intervals is the mean
of the parts of each that lie in the other, and nothing where they do not meet (Karr et al. 2006, section 3.2). Printed
are its mean over coefficients without the intercept, and the part of the coefficients whose synthetic 95 % interval
holds the real estimate; both as means and two standard errors over seeds; then distances of ``whole_row.py``.

With ``--purposes regression`` columns that no regression names are declared of low importance, for every purpose alike.
With ``named`` each of the two regressions has a table of its own, made with ``purpose: regression of Y on X, Z``;
distances and seconds are then means over both.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from metrics import mean_total_variation
from shapes import values_of
from tables import Table, load_split
from whole_row import BINS, DEFAULT, Cell, Kept, mean_and_error, released

from synth.generators.adaptive import PURPOSE
from synth.schema import NumberColumn
from synth.schema.columns.base import Weight

REGRESSIONS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "adult": (
        ("linear", "hours-per-week", ("age", "education-num", "sex", "race", "marital-status", "workclass")),
        ("logistic", "income", ("age", "education-num", "hours-per-week", "sex", "race", "marital-status")),
    ),
    "insurance": (
        ("linear", "charges", ("age", "sex", "bmi", "children", "smoker", "region")),
        ("logistic", "smoker", ("age", "sex", "bmi", "children", "region")),
    ),
    "titanic": (
        ("linear", "Fare", ("Pclass", "Age", "SibSp", "Parch", "Embarked")),
        ("logistic", "Survived", ("Pclass", "Sex", "Age", "SibSp", "Parch", "Fare")),
    ),
    "wine_white": (
        ("linear", "alcohol", ("fixed acidity", "volatile acidity", "residual sugar", "chlorides", "pH", "sulphates")),
        ("logistic", "quality", ("volatile acidity", "residual sugar", "sulphates", "alcohol", "free sulfur dioxide")),
    ),
    "census": (
        ("linear", "age", ("sex", "marital stat", "education", "weeks worked in year", "income")),
        ("logistic", "income", ("age", "sex", "race", "education", "weeks worked in year")),
    ),
}
"""Kind, outcome and predictors by table; an outcome of several classes is whether it is at least the middle one."""

LEAST_CLASS = 0.02
PURPOSES = ("balanced", "prediction", "marginals", "regression", "named")


class Design:
    """Turns rows into predictors and an outcome, in the units of the real rows.

    Parameters
    ----------
    table : Table
    real : DataFrame
    regression : tuple of kind, outcome and predictors
    """

    def __init__(self, table: Table, real: pd.DataFrame, regression: tuple[str, str, tuple[str, ...]]) -> None:
        self.kind, self.outcome, self.predictors = regression
        self._columns = {column.name: column for column in table.schema.modelled}
        self._units: dict[str, tuple[float, float]] = {}
        self._classes: dict[str, list[str]] = {}
        for name in (self.outcome, *self.predictors):
            if isinstance(self._columns[name], NumberColumn):
                values = pd.to_numeric(real[name], errors="coerce")
                self._units[name] = float(values.mean()), float(values.std())
            else:
                shares = real[name].astype(str).value_counts(normalize=True)
                self._classes[name] = [str(each) for each in shares.index[1:] if shares[each] >= LEAST_CLASS]

    def of(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return predictors with a constant, shape (rows, coefficients), and the outcome, of rows without a gap."""
        parts = [np.ones((len(rows), 1))]
        for name in self.predictors:
            parts.append(self._numbers(rows, name)[:, None] if name in self._units else self._indicators(rows, name))
        x, y = np.concatenate(parts, axis=1), self._answers(rows)
        full = np.isfinite(x).all(axis=1) & np.isfinite(y)
        return x[full], y[full]

    def _numbers(self, rows: pd.DataFrame, name: str) -> np.ndarray:
        mean, std = self._units[name]
        return (pd.to_numeric(rows[name], errors="coerce").to_numpy(dtype=np.float64) - mean) / std

    def _indicators(self, rows: pd.DataFrame, name: str) -> np.ndarray:
        texts = rows[name].astype(str).to_numpy()
        return np.stack([texts == each for each in self._classes[name]], axis=1).astype(np.float64)

    def _answers(self, rows: pd.DataFrame) -> np.ndarray:
        if self.kind == "linear":
            return self._numbers(rows, self.outcome)
        codes, least = rows[self.outcome].to_numpy(), self._columns[self.outcome].size // 2
        return (codes >= least).astype(np.float64)


def fitted(kind: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and standard errors of a linear or a logistic regression.

    What rows cannot tell (a class that none of them has) gets an infinite standard error.
    """
    seen = np.ptp(x, axis=0) > 0
    seen[0] = True
    z = x[:, seen]
    if kind == "linear":
        information = z.T @ z
        beta = np.linalg.lstsq(z, y, rcond=None)[0]
        scale = float(((y - z @ beta) ** 2).sum()) / max(len(y) - z.shape[1], 1)
    else:
        beta, scale = np.zeros(z.shape[1]), 1.0
        for _ in range(50):
            p = 1.0 / (1.0 + np.exp(-np.clip(z @ beta, -30, 30)))
            information = (z * (p * (1.0 - p))[:, None]).T @ z + 1e-6 * np.eye(z.shape[1])
            step = np.linalg.solve(information, z.T @ (y - p) - 1e-6 * beta)
            beta = beta + step
            if np.abs(step).max() < 1e-8:
                break
    errors = np.sqrt(np.maximum(scale * np.diag(np.linalg.pinv(information)), 0.0))
    all_beta, all_errors = np.zeros(x.shape[1]), np.full(x.shape[1], np.inf)
    all_beta[seen], all_errors[seen] = beta, errors
    return all_beta, all_errors


def compared(real: tuple[np.ndarray, np.ndarray], made: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """Return the mean overlap of 95 % intervals, and how many of the made ones hold the real estimate."""
    overlaps, holds = [], []
    for beta, error, other, wide in zip(*real, *made, strict=True):
        if not np.isfinite(wide) or wide == 0:
            overlaps.append(0.0)
            holds.append(0.0)
            continue
        common = min(beta + 1.96 * error, other + 1.96 * wide) - max(beta - 1.96 * error, other - 1.96 * wide)
        overlaps.append(max(0.0, 0.5 * (common / (3.92 * error) + common / (3.92 * wide))))
        holds.append(float(abs(beta - other) <= 1.96 * wide))
    return float(np.mean(overlaps[1:])), float(np.mean(holds[1:]))


def judged(table: Table, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return overlap and coverage of every regression of a table."""
    found: dict[str, float] = {}
    for regression in REGRESSIONS[table.name]:
        design = Design(table, real, regression)
        kind = regression[0]
        overlap, holds = compared(fitted(kind, *design.of(real)), fitted(kind, *design.of(made)))
        found |= {f"{kind} overlap": overlap, f"{kind} holds": holds}
    return found


def as_frame(table: Table, codes: np.ndarray) -> pd.DataFrame:
    """Return numbers as numbers, not finite where missing, and categories by code."""
    return pd.DataFrame(
        {
            column.name: values_of(column, codes[:, d]) if isinstance(column, NumberColumn) else codes[:, d]
            for d, column in enumerate(table.schema.modelled)
        }
    )


def declared(table: Table) -> Table:
    """Say that columns of no regression matter less."""
    named = {name for _, outcome, predictors in REGRESSIONS[table.name] for name in (outcome, *predictors)}
    columns = tuple(
        column if column.name in named or not hasattr(column, "weight") else replace(column, weight=Weight.LOW)
        for column in table.schema.columns
    )
    return replace(table, schema=replace(table.schema, columns=columns), bins=BINS)


def purposes(table: str, purpose: str) -> dict[str, str]:
    """Return the purposes of the runs that stand for one, by the kind of regression they are for; "" for both."""
    if purpose != "named":
        return {"": purpose}
    return {kind: PURPOSE.written(outcome, predictors) for kind, outcome, predictors in REGRESSIONS[table]}


def one_result(cell: Cell, table: Table, real: pd.DataFrame, asked: argparse.Namespace) -> dict[str, float]:
    """Make one synthetic table and judge it."""
    with tempfile.TemporaryDirectory() as scratch:
        made, seconds = released(cell, table, Path(scratch) / "run", asked)
    real_bins, made_bins = table.binned(table.codes), table.binned(made)
    found = judged(table, real, as_frame(table, made)) | {"cpu": seconds}
    for size in (1, 2, 3):
        found[f"tv{size}"] = mean_total_variation(real_bins, made_bins, table.sizes, size, at_most=asked.subsets)
    return found


def line(name: str, results: Sequence[dict[str, float]]) -> str:
    cells = []
    for each in ("linear overlap", "linear holds", "logistic overlap", "logistic holds", "tv1", "tv2", "tv3", "cpu"):
        values = [one[each] for one in results if each in one]
        mean, error = mean_and_error(values) if values else (float("nan"), float("nan"))
        cells.append(f"{mean:.3f} ± {error:.3f}" if values else "-")
    return f"{name:>24} " + " ".join(f"{cell:>17}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(REGRESSIONS), default=list(REGRESSIONS))
    parser.add_argument("--purposes", nargs="+", choices=PURPOSES, default=["balanced", "regression"])
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: further options of the generator")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--neighbours", choices=("add_remove", "replace_one"), default="add_remove")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--subsets", type=int, default=300)
    parser.add_argument("--limit", type=float, default=1800, help="CPU seconds of one run")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    kept = Kept(asked.keep)
    for name in asked.tables:
        table, test = load_split(name, neighbours=asked.neighbours, seed=0)
        table = declared(table)
        real = as_frame(table, table.codes)
        print(f"\n{name}: {len(table.codes):,} rows x {table.codes.shape[1]} columns, {len(test):,} held out")
        print(line("held-out rows", [judged(table, real, as_frame(table, test))]), flush=True)
        for epsilon in asked.epsilons:
            for purpose in asked.purposes:
                results = []
                for seed in asked.seeds:
                    found = []
                    for kind, words in purposes(name, purpose).items():
                        options = json.dumps(asked.options | {"purpose": words}, sort_keys=True)
                        cell = Cell(name, DEFAULT, options, epsilon, asked.delta, asked.neighbours, seed, asked.subsets)
                        result = kept.get(cell)
                        if result is None:
                            result = one_result(cell, table, real, asked)
                            kept.put(cell, result)
                        other = next((one for one in ("linear", "logistic") if kind and one != kind), "no other")
                        found.append({key: value for key, value in result.items() if not key.startswith(other)})
                    keys = dict.fromkeys(key for one in found for key in one)
                    results.append({key: float(np.mean([one[key] for one in found if key in one])) for key in keys})
                print(line(f"{purpose} {epsilon:g}", results), flush=True)


if __name__ == "__main__":
    main()
