"""What membership attacks reach: copied rows, rows copied in part, and honest generators at several budgets.

    HERMITAGE_DATA=FOLDER python benchmarks/attacks.py [--tables adult] [--seeds 3] [--json FILE] [--nearest ROWS]

A fifth of the units is held out, as in a run; the generator sees the rest. ``copy`` releases the rows it was given;
``half copied`` changes each cell with chance one half; these must be caught (or named where they are not). The others
are asked at epsilon 1 and 8. Printed for each attack: ROC AUC with its 95 % interval, members caught at one false alarm
in 100, the proven ceiling of both, whether the test against the ceiling accuses, and the seconds of the attack.

``--nearest ROWS`` instead times the nearest neighbours of so many rows among so many others: of rows like Adult's, and
of rows without any structure, where no box can be left closed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tables import Table, load

from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.code_tables import UnitRows
from synth.reports.membership.attacks import ATTACKS
from synth.reports.membership.distances import GowerSpace
from synth.reports.membership.inference import FALSE_POSITIVE, Sides, run_attacks
from synth.reports.risk_bounds import ProvenCeiling

HOLDOUT, DELTA, ROW_COUNT_SHARE = 0.2, 1e-5, 0.02
GENERATORS = ("independent", "dp-hp-adaptive")
EPSILONS = (1.0, 8.0)
CHANGED = {"copy": 0.0, "half copied": 0.5}


def split(table: Table, seed: int) -> tuple[UnitRows, UnitRows]:
    """Hold out a fifth of the units, drawn by a public seed."""
    units = np.arange(len(table.codes)) if table.units is None else table.units
    every = np.random.default_rng([seed, 20]).permutation(np.unique(units))
    held = np.isin(units, every[: round(HOLDOUT * len(every))])
    return (
        UnitRows(list(table.codes[~held].T), units[~held]),
        UnitRows(list(table.codes[held].T), units[held]),
    )


def changed(train: UnitRows, chance: float, seed: int) -> list[np.ndarray]:
    """Return the rows with each cell taken from another row by this chance."""
    random = np.random.default_rng([seed, 21])
    rows = [codes.copy() for codes in train.codes]
    for codes in rows:
        there = random.random(len(codes)) < chance
        codes[there] = codes[random.integers(len(codes), size=int(there.sum()))]
    return rows


def released(table: Table, train: UnitRows, name: str, epsilon: float, seed: int) -> tuple[list[np.ndarray], Any]:
    """Return the rows of a generator and the receipts it left."""
    schema = table.schema
    codes = dict(zip(schema.names, train.codes, strict=True))
    units = train.units.tolist() if schema.unit.id_column else None
    private = PrivateTable.from_codes(schema, codes, unit_ids=units)
    session = PrivateSession(private, PrivacyBudget(epsilon, DELTA, schema.neighbours))
    if not schema.rows_are_public:
        session.count_rows(share=ROW_COUNT_SHARE)
    task = GeneratorTask(schema=schema, label=table.label, seed=seed, device="cpu")
    fitted = make(name, task, {}).fit(session.sub_session(session.remaining_share), NullProgress())
    return list(fitted.sample(len(train.units), seed).T), session.receipts


def cells(table: Table, seed: int) -> list[dict[str, Any]]:
    """Attack every release of one table at one seed."""
    train, held = split(table, seed)
    sides = Sides.draw(train, held, neighbours=table.schema.neighbours, share=HOLDOUT, seed=seed)
    found = []
    honest = [(name, epsilon) for name in GENERATORS for epsilon in EPSILONS]
    receipts: dict[float, Any] = {}
    releases = []
    for name, epsilon in honest:
        rows, receipts[epsilon] = released(table, train, name, epsilon, seed)
        releases.append((name, epsilon, rows))
    # Copies are measured against the ceiling that an honest release at epsilon 1 would have.
    releases += [(name, EPSILONS[0], changed(train, chance, seed)) for name, chance in CHANGED.items()]
    for name, epsilon, rows in releases:
        ceiling = ProvenCeiling(epsilon, DELTA, receipts[epsilon])
        for attack in ATTACKS:
            began = time.perf_counter()
            (one,) = run_attacks(sides, rows, table.schema, ceiling, seed=seed, attacks=(attack,))
            found.append(
                {
                    "table": table.name, "release": name, "epsilon": epsilon, "seed": seed, "attack": attack.name,
                    "auc": one.area.value, "low": one.area.low, "high": one.area.high, "auc_ceiling": ceiling.area,
                    "caught": one.caught.value, "caught_ceiling": ceiling.caught(FALSE_POSITIVE),
                    "accused": one.is_exceeded, "units": sum(sides.sizes), "seconds": time.perf_counter() - began,
                }
            )  # fmt: skip
            print(line(found[-1]), flush=True)
    return found


def line(cell: dict[str, Any]) -> str:
    return (
        f"| {cell['table']} | {cell['release']} | {cell['epsilon']:g} | {cell['seed']} | {cell['attack']} "
        f"| {cell['auc']:.3f} ({cell['low']:.3f} to {cell['high']:.3f}) | {cell['auc_ceiling']:.3f} "
        f"| {cell['caught']:.3f} | {cell['caught_ceiling']:.3f} | {'yes' if cell['accused'] else 'no'} "
        f"| {cell['seconds']:.1f} |"
    )


def nearest(n_rows: int) -> list[dict[str, Any]]:
    """Time exact nearest neighbours among as many rows, and check a few against every pair."""
    table = load("adult", neighbours="replace_one")
    space = GowerSpace.of(table.schema)
    found = []
    for kind in ("like Adult", "no structure"):
        tables = []
        for seed in (1, 2):
            if kind == "no structure":
                draws = np.random.default_rng(seed)
                tables.append([draws.integers(size, size=n_rows) for size in table.schema.sizes])
            else:
                drawn = np.random.default_rng(seed).integers(len(table.codes), size=n_rows)
                rows = UnitRows(list(table.codes[drawn].T), drawn)
                tables.append(changed(rows, 0.15, seed))
        began = time.perf_counter()
        distances = space.nearest(*tables)
        seconds = time.perf_counter() - began
        few = [codes[:50] for codes in tables[0]]
        exact = bool((space.between(few, tables[1]).min(axis=1) == distances[:50]).all())
        found.append({"rows": n_rows, "kind": kind, "seconds": seconds, "exact": exact})
        print(f"| {kind} | {n_rows:,} | {seconds:.1f} s | {'exact' if exact else 'WRONG'} |", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["adult"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nearest", type=int, metavar="ROWS")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.nearest:
        found = nearest(asked.nearest)
    else:
        print(
            "| table | release | epsilon | seed | attack | ROC AUC (95 %) | ceiling | caught | ceiling | accused | s |"
        )
        print("|---" * 11 + "|")
        loaded = [load(name, neighbours="replace_one") for name in asked.tables]
        found = [cell for table in loaded for seed in range(asked.seeds) for cell in cells(table, seed)]
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
