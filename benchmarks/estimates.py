"""How often intervals of `synth estimate` hold the truth, on tables whose population is known.

    python benchmarks/estimates.py --runs 500 --keep build/estimates.jsonl [--generator dp-hp-adaptive] [--epsilon 1] \
        [--options '{"purpose": "regression"}'] [--step 0.1] [--questions "median income"]
    python benchmarks/estimates.py --people --runs 40 --replicates 10 --keep build/estimates_of_people.jsonl
    python benchmarks/estimates.py --report --runs 500 --keep build/report_intervals.jsonl

Every run draws 5,000 rows of a simulated population: a region, a sex, and an income that depends on both. They go
through the command line's own way (``synth.run``: vault, ledger, sealed bundle), and the bundle alone is asked. The
truth is the population's own number, worked out from its law. Printed are, for each question, the part of intervals
that hold the truth, their mean width, and how often no interval was given. With ``--report`` the intervals are those
of the report in the bundle (numbers to quote), with region as a declared group. ``--step`` is the step of the
grid of incomes: where one value of it holds more of the rows than an interval of shares is wide, an interval of a
quantile, whose ends are values of the grid, can hardly miss. Finished runs are appended to the file of ``--keep`` and
not run again.

With ``--zeros`` 84 % of the incomes are zero and the others lognormal: a bin may contain all zeros and some more, and
the interval has to allow for that.

With ``--people`` the tables are those of ``people.py``: 3,000 patients with one to six visits each, kept whole. The
truth is that of 200,000 other patients of the same law; numbers count visits.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import zipfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import people

REGIONS, SHARES = ("north", "south", "east"), (0.5, 0.3, 0.2)
BASE, PAID_MORE = {"north": 40.0, "south": 55.0, "east": 70.0}, 12.0
ROWS = 5000
SPREAD = 10.0
MEN = 0.45

QUESTIONS = (
    "mean income",
    "mean income by region",
    "mean income by sex",
    "share of income > 60 by region",
    "median income",
    "table of region",
    "regression of income on region, sex",
    "regression of income > 60 on region, sex",
)

NO_INCOME = 0.84
MOST_INCOME = 30_000
OF_ZEROS = (
    "share of income = 0",
    "share of income > 5000",
    "mean income",
    "median income",
    "quantile 0.95 of income",
)

PATIENTS = 3000
OF_PEOPLE = ("mean cost", "mean cost by ward", "median cost", "share of again = 'yes' by sex", "table of ward")

QUANTILES = {0.1: "10 % below", 0.25: "25 % below", 0.5: "median", 0.75: "75 % below", 0.9: "90 % below"}
IN_REPORT = {
    "intervals.column.income": "numbers of income",
    "intervals.column.region": "shares of region",
    "intervals.column.sex": "shares of sex",
    "intervals.groups.mean income by region": "mean income by region",
    "intervals.pair.region and sex": "table of region and sex",
}
"""Which numbers of a report are looked at, and as what."""


def drawn(random: np.random.Generator, rows: int, step: float = 1.0) -> pd.DataFrame:
    """Draw rows of the population; incomes lie within their limits, whose effect on the truth is below a thousandth."""
    region = random.choice(len(REGIONS), rows, p=SHARES)
    man = random.random(rows) < MEN
    base = np.array([BASE[name] for name in REGIONS])[region]
    steps = np.rint((base + PAID_MORE * man + SPREAD * random.normal(size=rows)) / step)
    # As its text says it, so that a value here and the same value of a bundle are one number.
    income = np.round(np.clip(steps * step, 0, 120), 6) if step < 1 else np.clip(steps * step, 0, 120).astype(int)
    return pd.DataFrame({"region": np.array(REGIONS)[region], "sex": np.where(man, "man", "woman"), "income": income})


def with_zeros(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """Draw rows of a population most of whom have no income."""
    incomes = np.minimum(random.lognormal(8.5, 0.8, rows), MOST_INCOME).astype(int)
    return pd.DataFrame({"income": np.where(random.random(rows) < NO_INCOME, 0, incomes)})


def truths_with_zeros() -> dict[str, dict[tuple[str, ...], float]]:
    """Return the population's numbers, from ten million rows of a fixed seed."""
    income = with_zeros(np.random.default_rng(0), 10_000_000)["income"]
    found = ((income == 0).mean(), (income > 5000).mean(), income.mean(), income.median(), income.quantile(0.95))
    return {question: {(): float(value)} for question, value in zip(OF_ZEROS, found, strict=True)}


def coefficients(whole: pd.DataFrame) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the population's linear and logistic regression; predictors make six kinds of rows."""
    places = (whole["region"] == "south", whole["region"] == "east", whole["sex"] == "woman")
    x = np.column_stack([np.ones(len(whole)), *places]).astype(np.float64)
    terms = [("constant",), ("region = south",), ("region = east",), ("sex = woman",)]
    kinds, counts = np.unique(x, axis=0, return_counts=True)
    of_kind = [whole["income"][(x == kind).all(axis=1)].to_numpy() for kind in kinds]
    means = np.array([own.mean() for own in of_kind])
    linear = np.linalg.solve((kinds * counts[:, None]).T @ kinds, kinds.T @ (counts * means))
    rich = np.array([(own > 60).mean() for own in of_kind])
    beta = np.zeros(len(terms))
    for _ in range(50):
        chance = 1 / (1 + np.exp(-kinds @ beta))
        information = (kinds * (counts * chance * (1 - chance))[:, None]).T @ kinds
        beta = beta + np.linalg.solve(information, kinds.T @ (counts * (rich - chance)))
    found = {"regression of income on region, sex": linear, "regression of income > 60 on region, sex": beta}
    return {question: dict(zip(terms, map(float, own), strict=True)) for question, own in found.items()}


def truths(step: float = 1.0) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the population's numbers, from ten million rows of a fixed seed."""
    whole = drawn(np.random.default_rng(0), 10_000_000, step)
    shares = whole["region"].value_counts(normalize=True)
    by_region, by_sex = whole.groupby("region")["income"], whole.groupby("sex")["income"]
    return {
        "mean income": {(): float(whole["income"].mean())},
        "mean income by region": {(name,): float(value) for name, value in by_region.mean().items()},
        "mean income by sex": {(name,): float(value) for name, value in by_sex.mean().items()},
        "share of income > 60 by region": {(name,): float((values > 60).mean()) for name, values in by_region},
        "median income": {(): float(whole["income"].median())},
        "table of region": {(name,): float(value) for name, value in shares.items()},
        **coefficients(whole),
    }


def truths_of_people() -> dict[str, dict[tuple[str, ...], float]]:
    """Return the numbers of many patients of the same law."""
    whole = people.simulated(200_000, 0)
    shares = whole["ward"].value_counts(normalize=True)
    again = (whole["again"] == "yes").groupby(whole["sex"]).mean()
    return {
        "mean cost": {(): float(whole["cost"].mean())},
        "mean cost by ward": {(name,): float(value) for name, value in whole.groupby("ward")["cost"].mean().items()},
        "median cost": {(): float(whole["cost"].median())},
        "share of again = 'yes' by sex": {(name,): float(value) for name, value in again.items()},
        "table of ward": {(name,): float(value) for name, value in shares.items()},
    }


def truths_in_report(step: float = 1.0) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the population's numbers under the names that a report gives them."""
    whole = drawn(np.random.default_rng(0), 10_000_000, step)
    income = {("mean",): float(whole["income"].mean())}
    income |= {(name,): float(whole["income"].quantile(part)) for part, name in QUANTILES.items()}
    by_region = whole.groupby("region")["income"].mean()
    cells = whole.value_counts(["region", "sex"], normalize=True)
    return {
        "numbers of income": income,
        **{
            f"shares of {column}": {
                (f"share {name}",): float(part) for name, part in whole[column].value_counts(normalize=True).items()
            }
            for column in ("region", "sex")
        },
        "mean income by region": {(name,): float(value) for name, value in by_region.items()},
        "table of region and sex": {(f"{region}, {sex}",): float(part) for (region, sex), part in cells.items()},
    }


def in_report(bundle: Path) -> dict[str, list[list[object]]]:
    """Read the numbers to quote from the report of a bundle, in the form of :func:`one_run`."""
    with zipfile.ZipFile(bundle) as file:
        evidence = json.loads(file.read("report.json"))["evidence"]
    found: dict[str, list[list[object]]] = {name: [] for name in IN_REPORT.values()}
    for entry in evidence:
        if entry["id"] in IN_REPORT:
            rows = entry["figures"][0]["rows"]
            numbers = [[math.nan if cell is None else cell for cell in row[1:]] for row in rows]
            found[IN_REPORT[entry["id"]]] = [[[row[0]], *own] for row, own in zip(rows, numbers, strict=True)]
    return found


def one_run(asked: argparse.Namespace, seed: int) -> dict[str, list[list[object]]]:
    """Make a release of a fresh table and ask its bundle everything; by question, value and ends of every group."""
    import synth
    from synth.rehearsal.estimating import estimate

    random = np.random.default_rng(seed)
    frame = with_zeros(random, ROWS) if asked.zeros else drawn(random, ROWS, asked.step)
    frame = people.simulated(PATIENTS, seed) if asked.people else frame
    columns = {
        "region": {"type": "category", "values": list(REGIONS), "fallback": "north"},
        "sex": {"type": "category", "values": ["man", "woman"], "fallback": "woman"},
        "income": {"type": "number", "low": 0, "high": 120, "step": asked.step, "fallback": 40},
    }
    if asked.zeros:
        columns = {"income": {"type": "number", "low": 0, "high": MOST_INCOME, "step": 1, "fallback": 0}}
    of_rows = {"unit": {"protects": "person", "rows_per_unit": 1}, "row_count": "private", "columns": columns}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HERMITAGE_HOME"] = f"{folder}/home"
        config = {
            "account": f"estimates-{seed}",
            **(people.SCHEMA if asked.people else of_rows),
            "people_at_most": 100_000,
            "budget": {"epsilon": asked.epsilon, "delta": 1e-6},
            "generator": {"name": asked.generator, "options": asked.options},
            **({"people": PATIENTS} if asked.people else {"rows": ROWS}),
            "seed": seed,
            "holdout": 0.0,
            "device": "cpu",
            **({"groups": ["region"]} if asked.report else {}),
        }
        path = Path(folder) / "run.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")
        frame.to_csv(Path(folder) / "table.csv", index=False)
        result = synth.run(synth.load_config(path), f"{folder}/release", table=f"{folder}/table.csv")
        if asked.report:
            return in_report(Path(result.bundle))
        for question, told in zip(
            asked.questions, estimate(result.bundle, *asked.questions, replicates=asked.replicates), strict=True
        ):
            found[question] = [[list(one.group), one.value, one.low, one.high] for one in told.numbers]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--generator", default="dp-hp-adaptive")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--options", type=json.loads, default={}, help="of the generator; one file of --keep each")
    parser.add_argument("--report", action="store_true", help="look at the report's intervals; a --keep of its own")
    parser.add_argument("--step", type=float, default=1.0, help="of incomes; one file of --keep each")
    parser.add_argument("--people", action="store_true", help="patients with several visits; a --keep of its own")
    parser.add_argument("--zeros", action="store_true", help="incomes of which most are zero; a --keep of its own")
    parser.add_argument("--questions", nargs="+", choices=(*QUESTIONS, *OF_ZEROS, *OF_PEOPLE), metavar="QUESTION")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    asked.questions = asked.questions or (OF_PEOPLE if asked.people else OF_ZEROS if asked.zeros else QUESTIONS)
    done = {}
    if asked.keep is not None and asked.keep.exists():
        for line in asked.keep.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            done[record["seed"], record["generator"], record["epsilon"], record["replicates"]] = record["found"]
    true = truths_in_report(asked.step) if asked.report else truths_of_people() if asked.people else truths(asked.step)
    true = truths_with_zeros() if asked.zeros else true
    held: dict[str, list[float]] = {}
    widths: dict[str, list[float]] = {}
    without: dict[str, int] = {}
    for seed in range(asked.first_seed, asked.first_seed + asked.runs):
        key = (seed, asked.generator, asked.epsilon, asked.replicates)
        if key not in done:
            done[key] = one_run(asked, seed)
            if asked.keep is not None:
                asked.keep.parent.mkdir(parents=True, exist_ok=True)
                names = ("seed", "generator", "epsilon", "replicates")
                with asked.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**dict(zip(names, key, strict=True)), "found": done[key]}) + "\n")
        for question, numbers in done[key].items():
            for group, _value, low, high in numbers:
                if tuple(group) not in true[question]:
                    continue
                # Of a column each number has a line of its own: a mean is no quantile.
                line = f"{group[0]} of income" if question == "numbers of income" else question
                mine = held.setdefault(line, [])
                if math.isfinite(low):
                    mine.append(low <= true[question][tuple(group)] <= high)
                    widths.setdefault(line, []).append(high - low)
                else:
                    without[line] = without.get(line, 0) + 1
    size = f"{PATIENTS:,} patients" if asked.people else f"{ROWS:,} rows"
    print(f"{asked.generator} {asked.options or ''}, epsilon {asked.epsilon:g}, {asked.runs} runs of {size}")
    for line, mine in held.items():
        n = len(mine)
        share = f"{np.mean(mine):.3f} of {n} hold the truth" if n else "none"
        wide = f", mean width {np.mean(widths[line]):.4g}" if n else ""
        print(f"{line:>40}: {share}{wide}; {without.get(line, 0)} without interval")


if __name__ == "__main__":
    main()
