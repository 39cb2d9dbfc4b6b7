"""Whether means, totals and upper quantiles of skewed numbers survive, and whether their stated intervals hold.

    HERMITAGE_DATA=FOLDER python benchmarks/skewed.py [--half developing] [--families ...] [--wide 1 10 1000] \
        [--others 1 5 15] [--rows 500 1500 5000 50000] [--epsilons 0.3 1 3] [--relations add_remove replace_one] \
        [--seeds 3] [--columns-alone] --json build/skewed.json [--resume]

Each table has one skewed number and other columns of which some depend on it. Simulated numbers have a known law, and
are drawn anew for every seed; real ones are columns of public tables, of which rows are drawn. The declared bounds hold
every row, and are ``wide`` times as wide as that needs. Printed are means over seeds: the error of the mean and the
total, relative to the mean and total size of the values; the relative error of the median, the 90th and 99th percentile
(for a quantile of zero in units of the mean size); KS; and in how many cells the mean is within 5 % and the 99th
percentile within 10 %. ``held`` is how often the 95 % interval of the report holds the mean of the private rows.
``at best`` are the errors of a mean and a 99th percentile of which each gets the whole budget, by somebody who knows
the rows (``at_best``): what no aim can ask for.

``--columns-alone`` asks only about single columns, with the same shares of the budget, and draws columns independently:
a tenth of a second instead of several, so that differences of tails, which vary much from seed to seed, can be seen.

Half of the families were used while the generator was made, the other half for the last figures alone.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.generators import GeneratorTask, make
from synth.generators.adaptive import AdaptiveOptions
from synth.generators.adaptive.all_pairs import independent
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive, _Fit
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import AnswerSource
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.reports.interval_estimates import summed_numbers
from synth.reports.intervals import column_numbers
from synth.reports.measured import compare_measured
from synth.schema import CategoryColumn, ModelledColumn, NumberColumn, RunConfig, Schema
from synth.schema.columns.number import MAXIMUM_LEVELS

Vector = NDArray[np.float64]
Random = np.random.Generator

GENERATOR = "dp-hp-adaptive"
ROW_COUNT_SHARE = 0.02
NAME = "amount"


def lognormal(sigma: float) -> Callable[[Random, int], Vector]:
    return lambda random, rows: np.exp(7.0 + sigma * random.normal(size=rows))


def pareto(shape: float) -> Callable[[Random, int], Vector]:
    return lambda random, rows: 1000.0 * (1.0 - random.random(rows)) ** (-1.0 / shape)


def zeros(part: float) -> Callable[[Random, int], Vector]:
    return lambda random, rows: (random.random(rows) >= part) * np.exp(8.0 + random.normal(size=rows))


def profit(random: Random, rows: int) -> Vector:
    """Profit and loss: both signs, heavy on both sides."""
    return 300.0 + 2000.0 * random.standard_t(2.5, rows)


def losses(random: Random, rows: int) -> Vector:
    """Mostly small gains, and rare heavy losses."""
    return np.where(random.random(rows) < 0.9, random.gamma(2.0, 150.0, rows), -np.exp(8.0 + random.normal(size=rows)))


def mixture(random: Random, rows: int) -> Vector:
    """Many small bills, and one in twenty that is fifty times as large."""
    return np.exp(np.where(random.random(rows) < 0.95, 5.0, 9.0) + 0.6 * random.normal(size=rows))


def real(file: str, column: str | int, **how: object) -> Callable[[Random, int], Vector]:
    @functools.cache
    def values() -> Vector:
        frame = pd.read_csv(Path(os.environ["HERMITAGE_DATA"]) / file, **how)
        return (frame.iloc[:, column] if isinstance(column, int) else frame[column]).to_numpy(dtype=np.float64)

    def draw(random: Random, rows: int) -> Vector:
        return random.choice(values(), rows, replace=rows > len(values()))

    return draw


_CENSUS = {"header": None, "skipinitialspace": True}

DEVELOPING: dict[str, Callable[[Random, int], Vector]] = {
    "lognormal 0.5": lognormal(0.5),
    "lognormal 1.5": lognormal(1.5),
    "pareto 2.5": pareto(2.5),
    "zeros 0.7": zeros(0.7),
    "zeros 0.99": zeros(0.99),
    "profit": profit,
    "adult gain": real("adult/adult.data.gz", 10, header=None),
    "charges": real("insurance/insurance.csv", "charges"),
}

LAST: dict[str, Callable[[Random, int], Vector]] = {
    "lognormal 1": lognormal(1.0),
    "lognormal 2": lognormal(2.0),
    "pareto 1.5": pareto(1.5),
    "zeros 0.95": zeros(0.95),
    "mixture": mixture,
    "losses": losses,
    "adult weight": real("adult/adult.data.gz", 2, header=None),
    "census wage": real("census_income_kdd/census-income.test.gz", 5, **_CENSUS),
    "census dividends": real("census_income_kdd/census-income.test.gz", 18, **_CENSUS),
    "card amounts": real("creditcard_fraud_sample/creditcard_sample.csv.gz", "Amount"),
}

FAMILIES = DEVELOPING | LAST


def bounds(values: Vector, wide: float) -> tuple[float, float]:
    """Return round bounds that hold every value, so many times too wide, or as wide as a grid may be; 0 may be one."""
    most = float(np.abs(values).max())
    unit = 10.0 ** np.floor(np.log10(most))
    high = float(np.ceil(most / unit) * unit) * wide
    signed = values.min() < 0
    high = min(high, (MAXIMUM_LEVELS - 1) / (2 if signed else 1))
    return (-high if signed else 0.0), high


def table(family: str, rows: int, wide: float, others: int, seed: int) -> tuple[tuple[ModelledColumn, ...], NDArray]:
    """Return declared columns and codes: the number, then others by turns a category, a number and a flag."""
    random = np.random.default_rng([seed, rows, sorted(FAMILIES).index(family)])
    values = np.rint(FAMILIES[family](random, rows))
    low, high = bounds(values, wide)
    columns: list[ModelledColumn] = [NumberColumn(NAME, low, high, 1)]
    codes = [(values - low).astype(np.int64)]
    rank = np.argsort(np.argsort(values + random.random(rows))) / rows
    for k in range(others):
        # Every second one depends on the number.
        own = rank if k % 2 == 0 else random.random(rows)
        seen = np.clip(own + 0.2 * random.normal(size=rows), 0, 0.999999)
        if k % 3 == 0:
            columns.append(CategoryColumn(f"kind{k}", ("a", "b", "c", "d", "e")))
            codes.append((seen * 5).astype(np.int64))
        elif k % 3 == 1:
            columns.append(NumberColumn(f"number{k}", 0, 100, 1))
            codes.append(np.rint(seen * 100).astype(np.int64))
        else:
            columns.append(CategoryColumn(f"flag{k}", ("no", "yes")))
            codes.append((seen > 0.7).astype(np.int64))
    return tuple(columns), np.stack(codes, axis=1)


class ColumnsAlone(DpHpAdaptive):
    """The default generator without tables of several columns, and without spending what they would get."""

    def fit(self, session: AnswerSource, progress: Progress) -> ColumnsAlone:
        fit = _Fit(self._task, self._options, session, source="columns alone", progress=progress)
        fit.measure_round_values()
        fit.measure_differences()
        fit.measure_columns()
        fit.choose_bins()
        self._model = independent(fit.bins)
        self._bins = fit.bins_as_written(self._model)
        return self


def measure(
    family: str, rows: int, wide: float, others: int, epsilon: float, relation: str, seed: int, *, alone: bool = False
) -> dict[str, object]:
    columns, codes = table(family, rows, wide, others, seed)
    schema = Schema(columns, row_count="private" if relation == "add_remove" else "public")
    private = PrivateTable.from_codes(schema, {name: codes[:, d] for d, name in enumerate(schema.names)})
    session = PrivateSession(private, PrivacyBudget(epsilon, 1e-5, schema.neighbours))
    if not schema.rows_are_public:
        session.count_rows(share=ROW_COUNT_SHARE)
    started = time.process_time()
    task = GeneratorTask(schema=schema, label=None, seed=seed, device="cpu")
    generator = ColumnsAlone(task, AdaptiveOptions()) if alone else make(GENERATOR, task, {})
    fitted = generator.fit(session, NullProgress())
    counted = session.rows
    made = fitted.sample(max(round(counted.value), 1), seed)
    seconds = time.process_time() - started
    amount = columns[0]
    real_values, made_values = (np.sort(amount.comparable_at(one[:, 0].astype(np.int64))) for one in (codes, made))
    mean, total = float(real_values.mean()), float(real_values.sum())
    size = float(np.abs(real_values).mean())
    found: dict[str, object] = {
        "mean": float(made_values.mean() - mean) / size,
        "total": float(made_values.sum() - total) / (size * len(codes)),
        "seconds": seconds,
    }
    for part in (0.5, 0.9, 0.99):
        truth, got = (float(np.quantile(one, part, method="inverted_cdf")) for one in (real_values, made_values))
        found[f"q{100 * part:g}"] = (got - truth) / (abs(truth) or size)
    both = np.concatenate([real_values, made_values])
    below = [np.searchsorted(one, both, side="right") / len(one) for one in (real_values, made_values)]
    found["KS"] = float(np.abs(below[0] - below[1]).max())
    found |= interval(schema, made, session, mean, size) | at_best(real_values, epsilon, relation)
    cell = {"family": family, "rows": rows, "wide": wide, "others": others, "epsilon": epsilon, "relation": relation}
    return {**cell, "seed": seed, **found}


def at_best(values: Vector, epsilon: float, relation: str) -> dict[str, float]:
    """Return the expected errors of one question about a number, alone, with the whole budget and helped by the rows.

    The mean is that of values clipped to [-h, h], or [0, h], with Laplace noise, of the best h for these rows. The 99th
    percentile is chosen from the range of the rows by the exponential mechanism.

    Parameters
    ----------
    values : array of shape (rows,)
        Ascending whole numbers.
    epsilon : float
    relation : str
    """
    rows, size, mean = len(values), float(np.abs(values).mean()), float(values.mean())
    near = values[np.argsort(np.abs(values), kind="stable")]
    sign, highs = np.sign(near), np.abs(near)
    # Those up to h as they are, the others as h with their sign.
    clipped = np.cumsum(near) + highs * (sign.sum() - np.cumsum(sign))
    biases = np.abs(clipped / rows - mean)
    apart = 2 if relation == "replace_one" and values[0] < 0 else 1
    noise = apart * np.maximum(highs, 1.0) / (epsilon * rows)
    of_mean = biases + noise * np.exp(-biases / noise)

    held, counts = np.unique(values, return_counts=True)
    up_to = np.cumsum(counts)
    wanted = int(np.ceil(0.99 * rows))
    truth = float(values[wanted - 1])
    # Every value that is held, then all between it and the next one.
    away = np.maximum(np.maximum(wanted - up_to, up_to - counts - (wanted - 1)), 0)
    between = np.maximum(np.maximum(wanted - up_to, up_to - (wanted - 1)), 0)[:-1]
    likely = np.concatenate([away, between]) * (-epsilon / 2)
    many = np.concatenate([np.ones(len(held)), np.diff(held) - 1])
    where = np.concatenate([held, (held[1:] + held[:-1]) / 2])
    weights = many * np.exp(likely - likely.max())
    of_quantile = float(weights @ np.abs(where - truth) / weights.sum())
    return {"mean at best": float(of_mean.min()) / size, "q99 at best": of_quantile / (abs(truth) or size)}


def interval(schema: Schema, made: NDArray, session: PrivateSession, mean: float, size: float) -> dict[str, float]:
    """Return whether the report's interval holds the mean of the private rows, and half its length as a share of it."""
    codes = [made[:, d].astype(np.int64) for d in range(made.shape[1])]
    config = RunConfig(schema, "skewed", session.budget.epsilon, len(made), session.budget.delta, 1)
    compared = compare_measured(codes, schema, session.sums, session.rows)
    summed = summed_numbers(session.sums).get(NAME)
    numbers = column_numbers(compared, schema.modelled[0], codes[0], config, summed)
    one = next((number for number in numbers if number.name == "mean"), None)
    if one is None or not np.isfinite(one.low):
        return {"held": float("nan"), "half": float("nan")}
    return {"held": float(one.low <= mean <= one.high), "half": (one.high - one.low) / 2 / size}


ERRORS = ("mean", "total", "q50", "q90", "q99", "KS")
AIMS = {"mean": 0.05, "q99": 0.1}
CELL = ("family", "rows", "wide", "others", "epsilon", "relation")


def spread(cells: list[dict], name: str) -> float:
    """Return the standard error of the mean absolute error over seeds."""
    errors = [abs(cell[name]) for cell in cells]
    return statistics.stdev(errors) / len(errors) ** 0.5 if len(errors) > 1 else float("nan")


def lines(cells: list[dict]) -> list[str]:
    """Say what was found: one line for each cell, and the share of cells that meet the aims where they apply."""
    said = [", ".join(CELL) + " | bias of mean | mean absolute errors (SE): " + ", ".join(ERRORS)]
    said[0] += " | at best: " + ", ".join(AIMS)
    met = []
    for key in dict.fromkeys(tuple(cell[name] for name in CELL) for cell in cells):
        held = [cell for cell in cells if tuple(cell[name] for name in CELL) == key]
        errors = {name: statistics.fmean(abs(cell[name]) for cell in held) for name in ERRORS}
        best = {name: statistics.fmean(cell[f"{name} at best"] for cell in held) for name in AIMS}
        bias = statistics.fmean(cell["mean"] for cell in held)
        told = [cell for cell in held if cell["held"] == cell["held"]]
        inside = f"{sum(cell['held'] for cell in told):g} of {len(told)}"
        half = statistics.median(cell["half"] for cell in told) if told else float("nan")
        said.append(
            f"{', '.join(map(str, key))} | {bias:+.3f} | "
            + " ".join(f"{errors[name]:.3f} ({spread(held, name):.3f})" for name in ERRORS)
            + " | at best "
            + " ".join(f"{one:.3f}" for one in best.values())
            + f" | held {inside}, +-{half:.2f} | {statistics.fmean(cell['seconds'] for cell in held):.1f} s"
        )
        if key[1] * key[4] >= 5000:
            met.append({name: (errors[name] <= aim, best[name] <= aim) for name, aim in AIMS.items()})
    for name, aim in AIMS.items() if met else ():
        here, there = (sum(one[name][place] for one in met) for place in (0, 1))
        said.append(
            f"where rows x epsilon >= 5,000: {name} within {aim:.0%} in {here} of {len(met)} cells; in {there} if it"
            " gets the whole budget, by somebody who knows the rows"
        )
    told = [cell for cell in cells if cell["held"] == cell["held"]]
    if told:
        said.append(f"intervals hold the mean in {sum(cell['held'] for cell in told):g} of {len(told)} runs")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("developing", "last", "both"), default="both")
    parser.add_argument("--families", nargs="+", choices=tuple(FAMILIES))
    parser.add_argument("--wide", nargs="+", type=float, default=[1.0, 10.0, 1000.0])
    parser.add_argument("--others", nargs="+", type=int, default=[5])
    parser.add_argument("--rows", nargs="+", type=int, default=[1500, 5000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--relations", nargs="+", default=["add_remove"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--columns-alone", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    halves = {"developing": DEVELOPING, "last": LAST, "both": FAMILIES}
    done = json.loads(asked.json.read_text()) if asked.resume and asked.json and asked.json.exists() else []
    known = {(*(cell[name] for name in CELL), cell["seed"]) for cell in done}
    for family in asked.families or halves[asked.half]:
        for rows in asked.rows:
            for wide in asked.wide:
                for others in asked.others:
                    for epsilon in asked.epsilons:
                        for relation in asked.relations:
                            for seed in range(asked.seeds):
                                key = (family, rows, wide, others, epsilon, relation)
                                if (*key, seed) in known:
                                    continue
                                done.append(measure(*key, seed, alone=asked.columns_alone))
                                if asked.json:
                                    asked.json.write_text(json.dumps(done))
    print("\n".join(lines(done)), flush=True)


if __name__ == "__main__":
    main()
