"""Rules that the owner declared: what keeping them does to the rows, for every generator.

    HERMITAGE_DATA=FOLDER python benchmarks/rules.py [--tables adult titanic visits] [--seeds 3] [--epsilon 1] \
        [--generators dp-hp-adaptive ...] [--options '{"bins": 16}'] [--undeclared] [--json FILE]

Every generator is fitted once a seed, with default options (or those given) and fresh noise, and draws as many rows as
were learned from. These rows are looked at twice: as drawn, and as a run keeps rules (``kept``). Printed for each, as
the mean over seeds:

- how many rows break a rule (of ``kept`` none may), and how many were changed;
- total variation of one column, of two and of three, of sets with at least one column that a rule is about, beside the
  real rows; numbers in at most 16 parts of equally many real rows;
- for an order of two columns, how far the distribution of their difference is from the real one
  (Kolmogorov-Smirnov);
- for one column that determines another, the share of rows in which it has the value that it really has.

``trips`` is simulated from a fixed seed: minutes of a quarter of a year at which taxis pick people up and let them out,
minutes to hours later, longer at farther distances and in the afternoon; where the second is not known in one of thirty
rows; a discount that is no larger than the fare. ``visits`` is simulated too: stays of a few days in a year
(``left >= came``), a bill that is a sum, 60 wards of 6 clinics, children and retired people without a job, men who are
not pregnant. The rules of Adult and Titanic are facts of those tables, but for a row or two of Adult.

With ``--undeclared`` nobody declares the orders: both columns of one are dates in ``trips`` (with a time of day to the
minute beside each) and ``visits``. Rows are judged by the order all the same, and days apart are compared.
``patients``, for that alone, has two dates that are unrelated: when somebody was born, and when he comes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from metrics import total_variations
from numpy.typing import NDArray
from tables import Table, load, read_again

from synth.estimators import drawn_rows, make
from synth.generators import GENERATORS, Generator, GeneratorTask
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import CategoryColumn, Column, DateColumn, NumberColumn, RunConfig, Schema, TimeColumn, YesNoColumn
from synth.schema.rule_lines import read_rules
from synth.schema.rules import Comparison, Dependency
from synth.schema.shares import with_learnt_tables

Codes = NDArray[np.int64]

RULES: dict[str, tuple[str, ...]] = {
    "adult": (
        "education determines education-num",
        "if relationship = Wife then sex = Female",
        "if relationship = Husband then sex = Male",
        "if marital-status in (Never-married, Divorced, Separated, Widowed) then relationship not in (Husband, Wife)",
        "workclass is missing exactly when occupation is missing",
    ),
    "titanic": (
        "if Pclass = 3 then Fare <= 70",
        "if Pclass = 2 then Fare <= 74",
        "if Embarked = Q then Fare <= 90",
    ),
    "trips": ("let_out >= picked_up", "discount <= fare"),
    "patients": ("came >= born",),
    "visits": (
        "left >= came",
        "bill = bed + drugs",
        "ward determines clinic",
        "if age < 15 then job = none and income is missing",
        "income is missing exactly when job = none",
        "if sex = male then pregnant = no",
        "if age < 12 then pregnant = no",
        "if age > 60 then pregnant = no",
    ),
}

PARTS = 16
GENERATORS_ASKED = ("dp-hp-adaptive", "independent-by-class", "dp-merf", "dp-hp", "kahm", "dp-mixture")


def visits(n_rows: int = 30_000) -> tuple[list[Column], pd.DataFrame]:
    """Draw stays in a hospital; nobody's, the same on every machine."""
    random = np.random.default_rng(20_261_123)
    age = np.minimum(random.gamma(3.2, 14, n_rows), 99).astype(int)
    male = random.random(n_rows) < 0.47
    severity = np.clip(random.poisson(0.6 + age / 60), 0, 4)
    works = (age >= 15) & (random.random(n_rows) < np.where(age < 65, 0.75, 0.08))
    kinds = np.array(["office", "trade", "care", "craft"])
    job = np.where(works, kinds[(random.random(n_rows) * 4 * np.where(male, 1.0, 0.8)).astype(int)], "none")
    income = np.clip(random.lognormal(10.2 + 0.25 * (job == "office") + 0.004 * age, 0.5), 0, 200_000) // 500 * 500
    fertile = (age >= 12) & (age <= 60) & ~male
    pregnant = fertile & (random.random(n_rows) < 0.12 * np.exp(-(((age - 30) / 8) ** 2)) + 0.001)
    ward = np.minimum(random.gamma(2.0, 8, n_rows), 59).astype(int)
    ward = np.where(pregnant, 50 + ward % 3, ward)
    came = random.integers(0, 360, n_rows)
    stay = np.minimum(random.geometric(1 / (1.5 + 2.5 * severity)) - 1, 60)
    bed = 300.0 * np.maximum(stay, 1)
    drugs = np.minimum(np.round(random.lognormal(4 + 0.6 * severity, 0.8)), 20_000)
    rows = pd.DataFrame(
        {
            "age": age,
            "sex": np.where(male, "male", "female"),
            "job": job,
            "income": np.where(works, income.astype(int).astype(str), ""),
            "pregnant": np.where(pregnant, "yes", "no"),
            "severity": severity,
            "ward": ward,
            "clinic": ward * 7 % 6,
            "came": came,
            "left": np.minimum(came + stay, 420),
            "bed": bed.astype(int),
            "drugs": drugs.astype(int),
            "bill": (bed + drugs).astype(int),
        }
    ).astype(str)
    columns: list[Column] = [
        NumberColumn("age", 0, 99, 1),
        CategoryColumn("sex", ("female", "male")),
        CategoryColumn("job", ("none", *kinds)),
        NumberColumn("income", 0, 200_000, 500, missing=True),
        YesNoColumn("pregnant", yes="yes", no="no"),
        NumberColumn("severity", 0, 4, 1),
        CategoryColumn("ward", tuple(map(str, range(60)))),
        CategoryColumn("clinic", tuple(map(str, range(6)))),
        NumberColumn("came", 0, 360, 1),
        NumberColumn("left", 0, 420, 1),
        NumberColumn("bed", 0, 20_000, 1),
        NumberColumn("drugs", 0, 20_000, 1),
        NumberColumn("bill", 0, 40_000, 1),
    ]
    return columns, rows


def trips(n_rows: int = 20_000) -> tuple[list[Column], pd.DataFrame]:
    """Draw rides of taxis; nobody's, the same on every machine."""
    random = np.random.default_rng(20_261_124)
    hour = np.clip(random.normal(np.where(random.random(n_rows) < 0.4, 8.5, 17.5), 2.5), 0, 23.98)
    picked_up = (random.integers(0, 90, n_rows) * 1440 + hour * 60).astype(int)
    zone = np.minimum(random.gamma(1.5, 4, n_rows), 19).astype(int)
    distance = np.minimum(random.lognormal(0.8 + 0.05 * zone, 0.7), 40)
    minutes = 4 + distance * np.where((hour > 15) & (hour < 19), 5.0, 3.2) * random.lognormal(0, 0.25, n_rows)
    fare = np.minimum(np.round(2 * (3 + 2.1 * distance)) / 2, 120)
    discount = np.where(random.random(n_rows) < 0.15, np.minimum(fare, random.integers(1, 4, n_rows) * 5), 0)
    let_out = np.minimum(picked_up + np.minimum(minutes, 240).astype(int), 130_000).astype(str)
    rows = pd.DataFrame(
        {
            "picked_up": picked_up,
            "let_out": np.where(random.random(n_rows) < 1 / 30, "", let_out),
            "zone": zone,
            "distance": np.round(distance, 1),
            "fare": fare,
            "discount": discount,
            "night": np.where((hour < 6) | (hour > 22), "yes", "no"),
        }
    ).astype(str)
    columns: list[Column] = [
        NumberColumn("picked_up", 0, 130_000, 1),
        NumberColumn("let_out", 0, 130_000, 1, missing=True),
        CategoryColumn("zone", tuple(map(str, range(20)))),
        NumberColumn("distance", 0, 40, 0.1),
        NumberColumn("fare", 0, 120, 0.5),
        NumberColumn("discount", 0, 120, 0.5),
        YesNoColumn("night", yes="yes", no="no"),
    ]
    return columns, rows


def patients(n_rows: int = 10_000) -> tuple[list[Column], pd.DataFrame]:
    """Draw people who come to a practice; when they do has nothing to do with when they were born."""
    random = np.random.default_rng(20_261_125)
    age = np.minimum(random.gamma(3.5, 13, n_rows), 99)
    came = FIRST_DAY + pd.to_timedelta(random.integers(0, 730, n_rows), unit="D")
    born = (FIRST_DAY - pd.to_timedelta((365.25 * age).astype(int) + 1, unit="D")).strftime("%Y-%m-%d")
    weight = np.clip(np.rint(random.normal(50 + 30 * np.minimum(age, 20) / 20, 12)), 3, 160).astype(int)
    rows = pd.DataFrame(
        {
            "born": born,
            "came": came.strftime("%Y-%m-%d"),
            "weight": weight,
            "pressure": np.clip(np.rint(random.normal(105 + 0.45 * age, 12)), 70, 220).astype(int),
            "season": np.array(["winter", "spring", "summer", "autumn"])[(came.dayofyear // 92).to_numpy()],
            "tablets": np.where(random.random(n_rows) < age / 110, "yes", "no"),
        }
    ).astype(str)
    columns: list[Column] = [
        DateColumn("born", (FIRST_DAY - pd.DateOffset(years=100)).date(), LAST_DAY.date()),
        DateColumn("came", FIRST_DAY.date(), LAST_DAY.date()),
        NumberColumn("weight", 0, 160, 1),
        NumberColumn("pressure", 70, 220, 1),
        CategoryColumn("season", ("winter", "spring", "summer", "autumn")),
        YesNoColumn("tablets", yes="yes", no="no"),
    ]
    return columns, rows


FIRST_DAY, LAST_DAY = pd.Timestamp(2024, 1, 1), pd.Timestamp(2025, 12, 31)


def with_dates(name: str, columns: list[Column], rows: pd.DataFrame) -> tuple[list[Column], pd.DataFrame]:
    """Return a simulated table with dates, and times of day, where it has numbers of days, or of minutes."""
    parts: list[Column] = []
    rows = rows.copy()
    for column in columns:
        if column.name not in IN_ORDER.get(name, ()) or not isinstance(column, NumberColumn):
            parts.append(column)
            continue
        told = rows[column.name] != ""
        unit = "min" if name == "trips" else "D"
        at = FIRST_DAY + pd.to_timedelta(pd.to_numeric(rows[column.name].where(told, "0")), unit=unit)
        end = FIRST_DAY + pd.to_timedelta(column.high, unit=unit)
        rows[column.name] = at.dt.strftime("%Y-%m-%d").where(told, "")
        parts.append(DateColumn(column.name, FIRST_DAY.date(), end.date(), missing=column.missing))
        if unit == "min":
            rows[f"{column.name} time"] = at.dt.strftime("%H:%M").where(told, "")
            parts.append(TimeColumn(f"{column.name} time", missing=column.missing))
    return parts, rows[[one.name for one in parts]]


IN_ORDER = {"trips": ("picked_up", "let_out"), "visits": ("came", "left"), "patients": ("born", "came")}
"""Columns in an order that nobody declares with ``--undeclared``."""


def told_rules(name: str, *, undeclared: bool) -> tuple[str, ...]:
    """Return the rules that a run knows of."""
    hidden = " >= ".join(reversed(IN_ORDER.get(name, ()))) if undeclared else ""
    return tuple(line for line in RULES[name] if line != hidden)


SIMULATED: dict[str, tuple[Callable[[], tuple[list[Column], pd.DataFrame]], str]] = {
    "trips": (trips, "night"),
    "visits": (visits, "job"),
    "patients": (patients, "tablets"),
}
"""What draws a table, and its label."""


def loaded(name: str, *, undeclared: bool = False) -> Table:
    if name not in SIMULATED:
        return load(name, neighbours="add_remove")
    draw, label = SIMULATED[name]
    columns, rows = draw()
    if undeclared:
        columns, rows = with_dates(name, columns, rows)
    empty = Table(name, Schema(tuple(columns), row_count="private"), label, np.empty((0, len(columns)), int))
    return replace(read_again(empty, rows), schema=empty.schema)


class Judge:
    """The real rows, and how far others are from them."""

    def __init__(self, table: Table, rules: tuple[str, ...]) -> None:
        self.schema, self.real = table.schema, table.codes
        self.rules = read_rules(rules, table.schema)
        self.place = {name: at for at, name in enumerate(table.schema.names)}
        self.edges = [self._edges(at) for at in range(self.real.shape[1])]
        self.binned_real = self._binned(self.real)
        about = {self.place[name] for name in self.rules.columns}
        n_columns = self.real.shape[1]
        self.about = {n: [bool(about & set(each)) for each in combinations(range(n_columns), n)] for n in (1, 2, 3)}
        self.sizes = tuple(
            column.size if edges is None else len(edges) + 1 + column.size - column.n_values
            for column, edges in zip(self.schema.modelled, self.edges, strict=True)
        )
        self.known = with_learnt_tables(self.rules, self.schema, self.real)

    def _edges(self, at: int) -> NDArray[np.int64] | None:
        column, codes = self.schema.modelled[at], self.real[:, at]
        if column.levels <= PARTS:
            return None
        told = codes[codes < column.n_values]
        return np.unique(np.quantile(told, np.arange(1, PARTS) / PARTS).astype(np.int64))

    def _binned(self, codes: Codes) -> Codes:
        rows = codes.copy()
        for at, (column, edges) in enumerate(zip(self.schema.modelled, self.edges, strict=True)):
            if edges is not None:
                own = codes[:, at]
                parts = np.searchsorted(edges, own, side="left")
                rows[:, at] = np.where(own < column.n_values, parts, len(edges) + 1 + own - column.n_values)
        return rows

    def table_of(self, codes: Codes) -> dict[str, Codes]:
        return {name: codes[:, at] for name, at in self.place.items()}

    def judged(self, codes: Codes, drawn: Codes) -> dict[str, float]:
        rows = self.table_of(codes)
        broken = np.zeros(len(codes), bool)
        for rule in self.known.rules:
            # A table of values that nobody declared is right or wrong, and no rule of a row.
            if not any(rule.line == one.line and getattr(one.then, "learnt", False) for one in self.rules.rules):
                broken |= rule.broken(rows)
        found = {"broken": float(broken.sum()), "changed": float((codes != drawn).any(axis=1).sum())}
        binned = self._binned(codes)
        for n in (1, 2, 3):
            distances = total_variations(self.binned_real, binned, self.sizes, n)
            found[f"tv{n}"] = float(distances.mean())
            found[f"tv{n} of rules"] = float(distances[np.array(self.about[n])].mean())
        for rule in self.known.rules:
            then = rule.then
            if isinstance(then, Dependency):
                share = rows[then.target.name] == then.wanted[rows[then.source.name]]
                found[f"right: {rule.text}"] = float(share.mean())
            elif isinstance(then, Comparison) and then.right and then.relation != "=":
                found[f"KS of difference: {rule.text}"] = _ks(
                    *(self._differences(then, one) for one in (self.real, codes))
                )
        return found

    def _differences(self, then: Comparison, codes: Codes) -> NDArray[np.float64]:
        left, right = then.sides(self.table_of(codes))
        return (left - right)[np.isfinite(left - right)]


def _ks(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    at = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(each), at, side="right") / len(each) for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def fitted(
    table: Table, generator: str, options: dict[str, object], rules: tuple[str, ...], *, epsilon: float, seed: int
) -> Generator:
    codes = {name: table.codes[:, at] for at, name in enumerate(table.schema.names)}
    private = PrivateTable.from_codes(table.schema, codes)
    budget = PrivacyBudget(epsilon=epsilon, delta=1e-5, neighbours=table.schema.neighbours)
    session = PrivateSession(private, budget)
    session.count_rows(share=0.01)
    task = GeneratorTask(schema=table.schema, label=table.label, seed=seed, constraints=rules)
    made = make(generator, task, options).fit(session.sub_session(session.remaining_share), NullProgress())
    assert isinstance(made, Generator)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(RULES), default=["adult", "titanic", "trips", "visits"])
    parser.add_argument("--generators", nargs="+", choices=list(GENERATORS), default=list(GENERATORS_ASKED))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--options", type=json.loads, default={}, help="of every generator that is asked for")
    parser.add_argument("--undeclared", action="store_true", help="nobody declares orders; simulated tables alone")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    results = []
    for name in asked.tables:
        table, told = loaded(name, undeclared=asked.undeclared), told_rules(name, undeclared=asked.undeclared)
        judge = Judge(table, RULES[name])
        print(
            f"\n{name}: {len(table.codes):,} rows, epsilon {asked.epsilon:g}, {asked.seeds} seeds; real rows that",
            end="",
        )
        print(f" break a rule: {judge.judged(table.codes, table.codes)['broken']:.0f}", flush=True)
        for generator in asked.generators:
            found: dict[str, list[dict[str, float]]] = {"drawn": [], "kept": []}
            for seed in range(asked.seeds):
                started = time.process_time()
                try:
                    model = fitted(table, generator, asked.options, told, epsilon=asked.epsilon, seed=seed)
                except Exception as refusal:  # what a generator cannot learn it refuses
                    print(f"{generator}: {refusal}")
                    break
                drawn = model.sample(len(table.codes), seed)
                middle = time.process_time()
                config = RunConfig(
                    schema=table.schema, account="rules", epsilon=asked.epsilon, delta=1e-5, people_at_most=100_000,
                    rows=len(table.codes), seed=seed, generator=generator, constraints=told,
                )  # fmt: skip
                found["drawn"].append(judge.judged(drawn, drawn))
                kept_from = time.process_time()
                kept = drawn_rows(model, config).codes
                seconds = {"fit s": middle - started, "keep s": time.process_time() - kept_from}
                found["kept"].append(judge.judged(kept, drawn) | seconds)
            for way, each in found.items():
                if each:
                    means = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
                    results.append({"table": name, "generator": generator, "way": way, "seeds": each})
                    print(
                        f"{generator:>20} {way:>6}  " + "  ".join(f"{k} {v:.4g}" for k, v in means.items()), flush=True
                    )
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"finished": time.time(), "results": results}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
