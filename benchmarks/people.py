"""What synthetic people with several rows keep: simulated patients with known structure, whole and as separate rows.

    python benchmarks/people.py --picture docs/pictures/whole-people.svg   # epsilon .3, 1, 3, 10, three seeds each
    python benchmarks/people.py --epsilons 1 --seeds 20 21 22 --patients 6000 --generator independent
    python benchmarks/people.py --epsilons 1 --seeds 11 --generator independent-by-class --label again

Patients have 1 to 6 visits, in order: how many depends on age; sex and year of birth belong to the patient; visits are
about two months apart, sooner after a visit to the third ward; wards are sticky; costs have a share of the patient's
own; `again`, readmitted within 30 days, follows from the next visit. Nobody is in it. All rows are used (no hold-out),
as many people are made as there are, and each number is a mean over seeds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from people_picture import picture

import synth

MOST = 6
WARDS = ("general", "surgery", "heart", "children")
FIRST, DAYS = pd.Timestamp("2022-01-01"), 1095
SCHEMA: dict[str, Any] = {
    "unit": {
        "protects": "patient",
        "id_column": "patient",
        "rows_per_unit": MOST,
        "same_in_all_rows": ["sex", "born"],
        "ordered_by": "visited",
    },
    "row_count": "private",
    "columns": {
        "patient": {"type": "identifier"},
        "sex": {"type": "category", "values": ["f", "m"], "fallback": "f"},
        "born": {"type": "number", "low": 1930, "high": 2021, "step": 1, "fallback": 1930},
        "visited": {"type": "date", "low": "2022-01-01", "high": "2024-12-31", "step": "day", "fallback": "2022-01-01"},
        "ward": {"type": "category", "values": list(WARDS), "fallback": "general"},
        "cost": {"type": "number", "low": 0, "high": 20000, "step": 10, "fallback": 0},
        "again": {"type": "category", "values": ["yes", "no"], "fallback": "no"},
    },
}
COLUMNS = tuple(SCHEMA["columns"])[1:]


def simulated(patients: int, seed: int) -> pd.DataFrame:
    """Return visits of patients."""
    random = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        sex = random.choice(["f", "m"], p=[0.54, 0.46])
        born = int(np.clip(random.normal(1962 if random.random() < 0.75 else 2012, 15), 1930, 2021))
        count = 1 + min(MOST - 1, random.poisson(0.4 + 2.2 * (born < 1955) + 0.5 * (sex == "f")))
        own, day = random.normal(0, 0.6), int(random.integers(0, 700))
        ward = 3 if born > 2005 else int(random.choice(3, p=[0.6, 0.25, 0.15]))
        visits = []
        for _ in range(count):
            cost = np.exp(5.5 + own + (0, 1.4, 0.9, -0.3)[ward] + random.normal(0, 0.5))
            visits.append((day, ward, min(round(float(cost) / 10) * 10, 20000)))
            day += 1 + int(random.exponential(25 if ward == 2 else 70))
            if ward != 3 and random.random() > 0.7:
                ward = int(random.choice(3, p=[0.6, 0.25, 0.15]))
        visits = [one for one in visits if one[0] <= DAYS]
        for place, (day, ward, cost) in enumerate(visits):
            soon = place + 1 < len(visits) and visits[place + 1][0] - day <= 30
            date = (FIRST + pd.Timedelta(days=day)).date().isoformat()
            rows.append((f"P{patient:05d}", sex, born, date, WARDS[ward], cost, "yes" if soon else "no"))
    return pd.DataFrame(rows, columns=["patient", *COLUMNS])


@dataclass(frozen=True)
class Study:
    """What is scored of a table with several rows per unit.

    Attributes
    ----------
    unit : str
        The id column.
    own : tuple of str
        Columns that are the same in all rows of a unit.
    columns : tuple of str
        Columns whose pairs are compared within a row.
    of_rows : tuple of str
        Columns whose pairs are compared between a row and the next.
    by : tuple of str
        A column by which rows a unit are compared, and its name in the scores.
    binned : callable
        Returns a table with its columns in a few bins.
    order, number : callable
        Return the column that gives the order, as numbers, and the number whose intraclass correlation is computed.
    stays, gaps, share : tuple of str
        A column that often stays as it is, and names in the scores of this one, of gaps, and of the number.
    """

    unit: str
    own: tuple[str, ...]
    columns: tuple[str, ...]
    of_rows: tuple[str, ...]
    by: tuple[str, str]
    binned: Callable[[pd.DataFrame], pd.DataFrame]
    order: Callable[[pd.DataFrame], pd.Series]
    number: Callable[[pd.DataFrame], pd.Series]
    stays: tuple[str, str]
    gaps: str
    share: str


def binned(table: pd.DataFrame) -> pd.DataFrame:
    """Return decades of birth, quarters of visits, and costs in eight parts."""
    visited = pd.to_datetime(table["visited"])
    return table.assign(
        born=table["born"].astype(int) // 10,
        visited=visited.dt.year * 4 + visited.dt.quarter,
        cost=np.digitize(table["cost"].astype(float), [50, 100, 200, 400, 800, 1600, 3200]),
    )


SIMULATED = Study(
    unit="patient",
    own=("sex", "born"),
    columns=COLUMNS,
    of_rows=("ward", "cost", "again"),
    by=("born", "by decade of birth"),
    binned=binned,
    order=lambda table: (pd.to_datetime(table["visited"]) - FIRST).dt.days,
    number=lambda table: np.log(table["cost"].astype(float) + 10),
    stays=("ward", "same ward again"),
    gaps="days between, KS",
    share="own share of cost",
)


def apart(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Return the total variation distance of two distributions of whole numbers."""
    values, found = np.unique(np.concatenate([one, other]), return_inverse=True)
    parts = found[: len(one)], found[len(one) :]
    counts = [np.bincount(part, minlength=len(values)) / max(len(part), 1) for part in parts]
    return float(np.abs(counts[0] - counts[1]).sum() / 2)


def own_share(values: pd.Series, units: pd.Series) -> float:
    """Return the intraclass correlation of values: how much of their variance lies between units."""
    groups = values.groupby(units)
    size, mean = groups.size(), groups.mean()
    inside = ((values - groups.transform("mean")) ** 2).sum() / max(len(values) - len(size), 1)
    between = (size * (mean - values.mean()) ** 2).sum() / max(len(size) - 1, 1)
    typical = (len(values) - (size**2).sum() / len(values)) / max(len(size) - 1, 1)
    between = max((between - inside) / typical, 0.0)
    return float(between / (between + inside))


def scores(real: pd.DataFrame, made: pd.DataFrame, study: Study = SIMULATED) -> dict[str, float]:
    """Return what the made rows keep: distances, 0 where nothing differs, and what of the made rows is stated as it is.

    Parameters
    ----------
    real, made : DataFrame
        Rows of a unit in their order, if not all together.
    study : Study
    """
    tables = [table.sort_values(study.unit, kind="stable", ignore_index=True) for table in (real, made)]
    both = pd.concat([study.binned(table) for table in tables], keys=(0, 1))
    codes = {name: pd.factorize(both[name], use_na_sentinel=False)[0] for name in study.columns}
    units = [table[study.unit] for table in tables]
    bins = [{name: one[part] for name, one in codes.items()} for part in (slice(len(real)), slice(len(real), None))]
    size = [of.groupby(of).size().to_numpy() for of in units]
    first = [~of.duplicated().to_numpy() for of in units]
    by = [one[study.by[0]][at] for one, at in zip(bins, first, strict=True)]
    follows = [of.to_numpy()[1:] == of.to_numpy()[:-1] for of in units]
    between = [np.diff(study.order(table))[at] for table, at in zip(tables, follows, strict=True)]
    several = bool(follows[1].any())
    at = np.union1d(*between)
    places = [np.searchsorted(np.sort(gaps), at, "right") / max(len(gaps), 1) for gaps in between]
    kept = made.groupby(study.unit)[list(study.own)].nunique(dropna=False).le(1).all(axis=1).mean()
    stays = bins[1][study.stays[0]]
    many = 1 << 20

    def within(name: str, other: str) -> float:
        return apart(*(one[name] * many + one[other] for one in bins))

    def onwards(name: str, other: str) -> float:
        return apart(*(one[name][:-1][at] * many + one[other][1:][at] for one, at in zip(bins, follows, strict=True)))

    return {
        f"rows a {study.unit}": apart(*size),
        study.by[1]: apart(*(a * many + b for a, b in zip(size, by, strict=True))),
        "pairs within a row": float(np.mean([within(*pair) for pair in combinations(study.columns, 2)])),
        "a row and the next": float(np.mean([onwards(*pair) for pair in product(study.of_rows, study.of_rows)]))
        if several
        else 1.0,
        study.gaps: float(np.abs(places[0] - places[1]).max()) if several else 1.0,
        study.share: own_share(study.number(tables[1]), units[1]) if several else float("nan"),
        study.stays[1]: float((stays[1:] == stays[:-1])[follows[1]].mean()) if several else float("nan"),
        "same in all rows": float(kept),
        "in order": float((between[1] >= 0).mean()) if several else float("nan"),
    }


def released(real: pd.DataFrame, epsilon: float, **more: Any) -> pd.DataFrame:
    """Return the rows of one release, made in an installation of its own."""
    release = synth.Release(real, SCHEMA, epsilon=epsilon, people_at_most=10_000, holdout=0.0, **more)
    return release.fit().table_


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of whole people, and of separate rows, for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--patients", type=int, default=6000)
    parser.add_argument("--generator", default="dp-hp-adaptive")
    parser.add_argument("--label", help="for generators that need a column to predict")
    parser.add_argument("--separate", action="store_true", help="also make separate rows")
    parser.add_argument("--picture", type=Path, help="also draw the scores of whole people into this file")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    tables = {seed: simulated(given.patients, seed) for seed in given.seeds}
    alike = [scores(tables[seed], simulated(given.patients, seed + 1000)) for seed in given.seeds]
    print(f"{given.patients} patients, {given.generator}, mean of seeds {given.seeds}")
    lines = {"other patients of the same law": alike}
    made_whole = []
    for epsilon in given.epsilons:
        for whole in (True, False) if given.separate else (True,):
            asked = {"people": given.patients} if whole else {"people": "separate_rows", "rows": 2 * given.patients}
            began, found = time.perf_counter(), []
            for table in tables.values():
                account = f"{'whole' if whole else 'separate'}-{epsilon:g}-{len(found)}"
                made = released(table, epsilon, generator=given.generator, label=given.label, account=account, **asked)
                found.append(scores(table, made))
            if whole:
                made_whole.append(_means(found))
            seconds = (time.perf_counter() - began) / len(tables)
            lines[f"epsilon {epsilon:g}, {'whole' if whole else 'separate rows'}, {seconds:.0f} s"] = found
            _print(lines)
            lines = {}
    if given.picture:
        below = f"{given.patients:,} simulated patients with 1 to {MOST} visits, {given.generator}, "
        below += f"mean of {len(given.seeds)} seeds"
        given.picture.write_text(picture(given.epsilons, made_whole, _means(alike), below), encoding="utf-8")


def _means(found: list[dict[str, float]]) -> dict[str, float]:
    return {what: float(np.mean([one[what] for one in found])) for what in found[0]}


def _print(lines: dict[str, list[dict[str, float]]]) -> None:
    for name, found in lines.items():
        means = _means(found)
        print(f"{name}: " + ", ".join(f"{what} {value:.3f}" for what, value in means.items()), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        import os

        os.environ.setdefault("HERMITAGE_HOME", str(Path(home) / "home"))
        main()
