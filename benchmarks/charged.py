"""Predictions on the hold-out that were paid for, beside the exact ones, and what the share costs the synthetic rows.

    HERMITAGE_DATA=FOLDER python benchmarks/charged.py [--tables adult] [--seeds 5] [--share 0.05] [--epsilon 1] \
        [--groups sex race] --json build/charged.json

Every cell is a whole run of the product on real rows with real noise: a fifth of the units is held out by the account's
key, which the seed makes; the generator learns from the others; the question about the hold-out is asked and read as a
run does. Beside it stand

- the same predictor counted exactly on the same held-out rows: the difference is the noise, which the stated range has
  to cover in 95 of 100;
- the three predictors of the owner's report, trained on the synthetic rows and tested on the same rows: their mean,
  with the share paid and without it. The same seed has the same hold-out, so that the difference is what the share
  costs, and the luck of two draws of noise.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tables import Table, load

from synth.bundle.certificate import current_versions
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.holdout import holdout_tables
from synth.reports.prediction.charged import MEASURES, table_measures
from synth.reports.prediction.downstream import compare_predictions
from synth.reports.prediction.problem import DownstreamOptions, Predictions, Problem
from synth.schema import RunConfig
from synth.services.pipeline import fit_and_sample

HELD_OUT = 0.2


def config_of(table: Table, asked: argparse.Namespace, seed: int, share: float) -> RunConfig:
    """Return the configuration of one run."""
    return RunConfig(
        schema=table.schema,
        account="benchmark",
        epsilon=asked.epsilon,
        delta=1e-5,
        people_at_most=len(table.codes),
        rows=len(table.codes),
        generator=asked.generator,
        label=table.label,
        groups=tuple(name for name in asked.groups if name in table.schema.names),
        holdout=HELD_OUT,
        prediction_share=share,
        seed=seed,
        device="cpu",
    )


def parts_of(table: Table, config: RunConfig, seed: int) -> tuple[PrivateTable, PrivateTable]:
    """Split the rows as the product does, by a key that the seed makes."""
    codes = {name: table.codes[:, place] for place, name in enumerate(table.schema.names)}
    units = None if table.units is None else table.units.tolist()
    key = seed.to_bytes(32, "little")
    train, held_out = (
        PrivateTable.from_codes(table.schema, codes, unit_ids=units, account_key=key, holdout=config.holdout, part=part)
        for part in ("train", "holdout")
    )
    return train, held_out


def measured(table: Table, asked: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Make one run with the share and one without, and compare what they say."""
    found: dict[str, Any] = {"table": table.name, "seed": seed}
    for share in (asked.share, 0.0):
        config = config_of(table, asked, seed, share)
        train, held_out = parts_of(table, config, seed)
        made = fit_and_sample(config, train, NullProgress(), holdout=held_out)
        # The exact side of a benchmark on public tables: the codes that no run lets out.
        tested = [np.asarray(held_out._column(name)).astype(np.int64) for name in table.schema.names]  # noqa: SLF001
        real = [np.asarray(train._column(name)).astype(np.int64) for name in table.schema.names]  # noqa: SLF001
        problem = Problem(
            schema=table.schema,
            label=str(table.label),
            tables={"synthetic": list(made.codes.T), "real": real},
            test=tested,
            seed=seed,
        )
        told = compare_predictions(problem, DownstreamOptions(repeats=1, resamples=2), NullProgress())
        if not isinstance(told, Predictions):
            raise SystemExit(f"{table.name}: {told.reason}")
        name = "paid" if share else "unpaid"
        found[f"owner_{name}"] = {one: told.means["synthetic"][one].value for one in MEASURES}
        found["owner_real"] = {one: told.means["real"][one].value for one in MEASURES}
        tables = holdout_tables(made.sums)
        if tables is None:
            continue
        by_name = dict(zip(table.schema.names, tested, strict=True))
        label = by_name[tables.label]
        cells = tables.predictor.cells(by_name.__getitem__, len(label)).astype(np.int64)
        known = label < tables.counts.shape[2]
        exact = np.zeros(tables.counts.shape)
        np.add.at(exact, (*np.unravel_index(cells[known], tables.predictor.shape), label[known]), 1)
        charged = table_measures(tables.counts, tables.noise_std, seed=config.seed)
        truth = table_measures(exact, 1e-9, seed=0)
        found |= {
            "rows": int(known.sum()),
            "noise_std": tables.noise_std,
            "charged": {one: (charged.measures[one].value, charged.measures[one].error) for one in MEASURES},
            "exact": {one: truth.measures[one].value for one in MEASURES},
            "majority": {one: truth.majority[one].value for one in MEASURES},
        }
    return found


def show(name: str, cells: list[dict[str, Any]]) -> None:
    """Print the figures of one table, by measure."""
    print(
        f"\n{name}: {cells[0]['rows']:,} held-out rows, noise of {cells[0]['noise_std']:.3g} rows on a count, "
        f"{len(cells)} seeds"
    )
    print(
        "| measure | charged | stated ± | exact, same predictor | off | covered | owner's three, paid | unpaid | "
        "real rows |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for one in MEASURES:
        pairs = [(cell["charged"][one], cell["exact"][one]) for cell in cells]
        told = [(value, error, exact) for (value, error), exact in pairs if value is not None and exact is not None]
        columns = (
            [f"{len(cells) - len(told)} hidden"] * 5
            if not told
            else [
                spread([value for value, _, _ in told]),
                f"{statistics.fmean(error for _, error, _ in told):.3f}",
                spread([exact for _, _, exact in told]),
                f"{statistics.fmean(abs(value - exact) for value, _, exact in told):.3f}",
                f"{sum(abs(value - exact) <= error for value, error, exact in told)} of {len(told)}",
            ]
        )
        columns += [spread([cell[key][one] for cell in cells]) for key in ("owner_paid", "owner_unpaid", "owner_real")]
        print(f"| {one} | {' | '.join(columns)} |")
    lost = [cell["owner_unpaid"]["roc_auc"] - cell["owner_paid"]["roc_auc"] for cell in cells]
    print(f"ROC AUC lost by the share, seed by seed: {spread(lost, 4)}")


def spread(values: list[float], decimals: int = 3) -> str:
    """Write a mean with its standard deviation."""
    several = f" ± {statistics.stdev(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{decimals}f}{several}"


def main() -> None:
    """Run every cell and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["adult", "diabetes130"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--generator", default="dp-hp-adaptive")
    parser.add_argument("--neighbours", choices=("replace_one", "add_remove"), default="replace_one")
    parser.add_argument("--groups", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    results: list[dict[str, Any]] = []
    for name in asked.tables:
        table = replace(load(name, neighbours=asked.neighbours), name=name)
        cells = []
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            cells.append(measured(table, asked, seed))
            print(f"{name}, seed {seed}: done", file=sys.stderr, flush=True)
            if asked.json is not None:
                asked.json.parent.mkdir(parents=True, exist_ok=True)
                written = {"cells": [*results, *cells], "versions": dict(current_versions())}
                asked.json.write_text(json.dumps(written, indent=1))
        show(name, cells)
        results += cells


if __name__ == "__main__":
    main()
