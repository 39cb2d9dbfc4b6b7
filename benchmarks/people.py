"""What synthetic people with several rows keep: simulated patients with known structure, whole and as separate rows.

    python benchmarks/people.py                        # epsilon .3, 1, 3, 10, three seeds each
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
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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
OF_ROWS = ("ward", "cost", "again")


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


def apart(one: pd.Series, other: pd.Series) -> float:
    """Return the total variation distance of two distributions of values."""
    shares = [values.value_counts(normalize=True) for values in (one, other)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def binned(table: pd.DataFrame) -> pd.DataFrame:
    """Return decades of birth, quarters of visits, and costs in eight parts."""
    visited = pd.to_datetime(table["visited"])
    return table.assign(
        born=table["born"].astype(int) // 10,
        visited=visited.dt.year * 4 + visited.dt.quarter,
        cost=np.digitize(table["cost"].astype(float), [50, 100, 200, 400, 800, 1600, 3200]),
    )


def joint(table: pd.DataFrame, *names: str) -> pd.Series:
    """Return several columns as one of tuples."""
    return pd.Series(list(zip(*(table[name] for name in names), strict=True)))


def following(table: pd.DataFrame, name: str, after: str) -> pd.Series:
    """Return a column of each row with another of the same patient's next row, where there is one."""
    then = table.groupby("patient")[after].shift(-1)
    return pd.Series(list(zip(table[name][then.notna()], then[then.notna()], strict=True)))


def own_share(table: pd.DataFrame) -> float:
    """Return the intraclass correlation of the logarithm of costs."""
    values = np.log(table["cost"].astype(float) + 10)
    groups = values.groupby(table["patient"])
    size, mean = groups.size(), groups.mean()
    inside = ((values - groups.transform("mean")) ** 2).sum() / max(len(values) - len(size), 1)
    between = (size * (mean - values.mean()) ** 2).sum() / max(len(size) - 1, 1)
    typical = (len(values) - (size**2).sum() / len(values)) / max(len(size) - 1, 1)
    between = max((between - inside) / typical, 0.0)
    return float(between / (between + inside))


def gaps(table: pd.DataFrame) -> np.ndarray:
    """Return the days between visits of one patient, ascending."""
    days = pd.to_datetime(table["visited"]).groupby(table["patient"]).diff().dropna().dt.days
    return np.sort(days.to_numpy())


def scores(real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return what the made rows keep; see the module."""
    one, other = binned(real), binned(made)
    size = [table.groupby("patient").size() for table in (one, other)]
    born = [table.groupby("patient")["born"].first() for table in (one, other)]
    kept = made.groupby("patient")[["sex", "born"]].nunique().le(1).all(axis=1).mean()
    ends = [gaps(table) for table in (real, made)]
    several = len(ends[1]) > 0
    at = np.union1d(*ends)
    places = [np.searchsorted(one, at, "right") / max(len(one), 1) for one in ends]
    stays = following(made, "ward", "ward")
    return {
        "rows a patient": apart(*size),
        "by decade of birth": apart(
            *(joint(pd.DataFrame({"a": a, "b": b}), "a", "b") for a, b in zip(size, born, strict=True))
        ),
        "pairs within a row": float(
            np.mean([apart(joint(one, *p), joint(other, *p)) for p in combinations(COLUMNS, 2)])
        ),
        "a row and the next": float(
            np.mean([apart(following(one, *p), following(other, *p)) for p in product(OF_ROWS, OF_ROWS)])
        )
        if several
        else 1.0,
        "days between, KS": float(np.abs(places[0] - places[1]).max()) if several else 1.0,
        "own share of cost": own_share(made) if several else float("nan"),
        "same ward again": float(np.mean([a == b for a, b in stays])) if several else float("nan"),
        "same in all rows": float(kept),
        "in order": float((ends[1] >= 0).mean()) if several else float("nan"),
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
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    tables = {seed: simulated(given.patients, seed) for seed in given.seeds}
    alike = [scores(tables[seed], simulated(given.patients, seed + 1000)) for seed in given.seeds]
    print(f"{given.patients} patients, {given.generator}, mean of seeds {given.seeds}")
    lines = {"other patients of the same law": alike}
    for epsilon in given.epsilons:
        for whole in (True, False) if given.separate else (True,):
            asked = {"people": given.patients} if whole else {"people": "separate_rows", "rows": 2 * given.patients}
            began, found = time.perf_counter(), []
            for table in tables.values():
                account = f"{'whole' if whole else 'separate'}-{epsilon:g}-{len(found)}"
                made = released(table, epsilon, generator=given.generator, label=given.label, account=account, **asked)
                found.append(scores(table, made))
            seconds = (time.perf_counter() - began) / len(tables)
            lines[f"epsilon {epsilon:g}, {'whole' if whole else 'separate rows'}, {seconds:.0f} s"] = found
            _print(lines)
            lines = {}


def _print(lines: dict[str, list[dict[str, float]]]) -> None:
    for name, found in lines.items():
        means = {what: float(np.mean([one[what] for one in found])) for what in found[0]}
        print(f"{name}: " + ", ".join(f"{what} {value:.3f}" for what, value in means.items()), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        import os

        os.environ.setdefault("HERMITAGE_HOME", str(Path(home) / "home"))
        main()
