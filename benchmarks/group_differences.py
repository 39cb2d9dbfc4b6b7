"""How far differences between groups are off in synthetic rows, with groups declared and without.

    HERMITAGE_DATA=FOLDER python benchmarks/group_differences.py [--tables adult census] [--epsilons 1 3] \
        [--seeds 31 32 33] [--keep build/group_differences.jsonl]

For the column of groups of a table, every number and every column of two values: its mean in the largest group less
that in the next, in the real rows and in as many synthetic ones, in units of the real standard deviation. Printed is
the mean of absolute errors over these columns, with the groups declared and without, with two standard errors over
seeds, and the mean total variation over pairs and sets of three columns, in at most 32 public bins.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from metrics import mean_total_variation
from tables import Table, load

from synth.estimators import make
from synth.generators import Generator, GeneratorTask
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.code_tables import coarse_bins

GROUPS = {"adult": "sex", "census": "sex", "insurance": "smoker", "titanic": "Sex"}


def differences(table: Table, codes: np.ndarray, units: dict[str, float]) -> np.ndarray:
    """Return, for each column with a mean, the largest group's less the next one's, in real standard deviations."""
    place = {name: at for at, name in enumerate(table.schema.names)}
    groups = table.codes[:, place[GROUPS[table.name]]]
    first, second = np.argsort(-np.bincount(groups))[:2]
    found = []
    for name, unit in units.items():
        values = values_of(table, codes, name)
        own = codes[:, place[GROUPS[table.name]]]
        means = [np.nanmean(values[own == group]) if (own == group).any() else np.nan for group in (first, second)]
        found.append((means[0] - means[1]) / unit)
    return np.nan_to_num(np.array(found))


def values_of(table: Table, codes: np.ndarray, name: str) -> np.ndarray:
    """Return the numbers of a column, NaN where they are missing; of two values 0 and 1."""
    column, own = table.schema.modelled_column(name), codes[:, table.schema.names.index(name)]
    values = column.comparable_values() if column.is_summable else np.array([0.0, 1.0] + [np.nan] * (column.size - 2))
    return np.asarray(values[own], dtype=np.float64)


def one_run(table: Table, groups: tuple[str, ...], epsilon: float, seed: int) -> dict[str, float]:
    """Make rows through a private session with fresh noise, and hold them against the real ones."""
    private = {name: table.codes[:, at] for at, name in enumerate(table.schema.names)}
    session = PrivateSession(
        PrivateTable.from_codes(table.schema, private), PrivacyBudget(epsilon, 1e-5, table.schema.neighbours)
    )
    session.count_rows(share=0.01)
    task = GeneratorTask(table.schema, table.label, seed=seed, groups=groups)
    made = make("dp-hp-adaptive", task, {})
    made = made.fit(session.sub_session(session.remaining_share), NullProgress())
    assert isinstance(made, Generator)
    rows = made.sample(len(table.codes), seed)
    names = [
        column.name
        for column in table.schema.modelled
        if column.name != GROUPS[table.name] and (column.is_summable or column.n_values == 2)
    ]
    units = {name: float(np.nanstd(values_of(table, table.codes, name))) or 1.0 for name in names}
    off = differences(table, rows, units) - differences(table, table.codes, units)
    found = {"difference": float(np.abs(off).mean())}
    bins = [coarse_bins(column) for column in table.schema.modelled]
    real, made_rows = (np.stack([own[codes[:, at]] for at, own in enumerate(bins)], 1) for codes in (table.codes, rows))
    for n in (2, 3):
        found[f"tv{n}"] = mean_total_variation(real, made_rows, [int(own.max()) + 1 for own in bins], n, at_most=300)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(GROUPS), default=["adult", "census"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[31, 32, 33])
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    done = {}
    if asked.keep is not None and asked.keep.exists():
        for line in asked.keep.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            done[tuple(record["key"])] = record["found"]
    for name in asked.tables:
        table = load(name, neighbours="add_remove")
        for epsilon in asked.epsilons:
            for said_of, groups in (("without", ()), ("declared", (GROUPS[name],))):
                found = []
                for seed in asked.seeds:
                    key = (name, epsilon, said_of, seed)
                    if key not in done:
                        done[key] = one_run(table, groups, epsilon, seed)
                        if asked.keep is not None:
                            asked.keep.parent.mkdir(parents=True, exist_ok=True)
                            with asked.keep.open("a", encoding="utf-8") as file:
                                file.write(json.dumps({"key": key, "found": done[key]}) + "\n")
                    found.append(done[key])
                said = []
                for measure in found[0]:
                    values = np.array([one[measure] for one in found])
                    error = 2 * values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
                    said.append(f"{measure} {values.mean():.4f} ± {error:.4f}")
                print(f"{name:>10} epsilon {epsilon:g} groups {said_of:>8}: {', '.join(said)}", flush=True)


if __name__ == "__main__":
    main()
