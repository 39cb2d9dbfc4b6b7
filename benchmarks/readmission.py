"""What synthetic patients of a real table keep, and whether their readmissions can be predicted from them.

    HERMITAGE_DATA=FOLDER python benchmarks/readmission.py [--epsilons 1 3] [--seeds 11 12 13]

Diabetes130 has 101,766 stays of 71,518 patients. A third of the patients, drawn by the seed, is kept for testing; of
the others the first six stays are released, whole and as separate rows, by `dp-hp-adaptive` with default options; all
patients are used. Race and sex belong to the patient. There is no date: stays are in the order of their numbers
(`encounter_id`, in steps of 100,000), which say roughly when a stay was. Numbers are compared in eight parts with about
equally many real rows.

Readmission within 30 days is predicted by histogram boosting with default settings that learns from the made rows, or
from the real ones, and is tested on the patients kept apart: from the stay alone (the other columns), and from the stay
and the one before (also how many there were before, whether the last one ended in a readmission, and how far its number
is). Each area under the ROC curve weighs patients equally: a stay weighs one part in as many as the patient has.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import declared
import numpy as np
import pandas as pd
from people import Study, scores
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from synth.cli.local import run_locally
from synth.reading.reader import read_codes
from synth.schema import CategoryColumn, Column, NumberColumn, PrivacyUnit, RunConfig, Schema, TableFormat

PATIENT, ORDER = "patient_nbr", "encounter_id"
LABEL, LABELS, SOON = "readmitted", ("NO", "<30", ">30"), "<30"
MOST = 6
OWN = ("race", "gender")
OF_ROWS = (
    "discharge_disposition_id",
    "medical_specialty",
    "time_in_hospital",
    "num_medications",
    "number_inpatient",
    "diag_1",
    "insulin",
    "readmitted",
)


def columns() -> tuple[Column, ...]:
    """Return the declared columns; a cell that cannot be read would become the first value, but there is none."""
    found: list[Column] = []
    for column in (NumberColumn(ORDER, 0, 450_000_000, 100_000), *declared.diabetes()[1:]):
        if isinstance(column, NumberColumn):
            found.append(replace(column, fallback=column.low))
        elif isinstance(column, CategoryColumn) and not column.missing and not column.other:
            found.append(replace(column, fallback=column.texts()[0]))
        else:
            found.append(column)
    return tuple(found)


SCHEMA = Schema(
    columns(),
    PrivacyUnit(protects="patient", rows_per_unit=MOST, id_column=PATIENT, same_in_all_rows=OWN, ordered_by=ORDER),
    row_count="private",
)


@dataclass(frozen=True, eq=False)
class Split:
    """Stays of two groups of patients, as texts and as codes; a patient's stays in their order."""

    written: pd.DataFrame
    train: pd.DataFrame
    test: pd.DataFrame


def codes_of(written: pd.DataFrame) -> pd.DataFrame:
    """Return the declared columns of a table as codes, and the patient as a whole number, read by the product."""
    text = written.to_csv(index=False).encode()
    order = {column.name: column for column in SCHEMA.columns}
    schema = replace(SCHEMA, columns=tuple(order[name] for name in written.columns))
    read = read_codes(lambda: io.BytesIO(text), TableFormat(), schema)
    cells = {name: codes.astype(np.int64) for name, codes in read._codes.items()}  # noqa: SLF001  # of a public table
    table = pd.DataFrame(cells)
    table["patient"] = pd.factorize(written[PATIENT])[0]
    return table


def split(seed: int) -> Split:
    """Return the patients to learn from, of each the first stays, and those to test on."""
    path = Path(os.environ["HERMITAGE_DATA"]) / "diabetes130" / "diabetic_data.csv.gz"
    rows = pd.read_csv(path, dtype=str, keep_default_na=False).replace("?", "")
    rows = rows.iloc[np.lexsort((rows[ORDER].astype(int), rows[PATIENT].astype(int)))].reset_index(drop=True)
    rows = rows[rows.groupby(PATIENT).cumcount() < MOST]
    patients = rows[PATIENT].unique()
    tested = np.random.default_rng(seed).permutation(patients)[: len(patients) // 3]
    apart = rows[PATIENT].isin(tested)
    written = rows[~apart].reset_index(drop=True)
    return Split(written, codes_of(written), codes_of(rows[apart].reset_index(drop=True)))


def study_of(real: pd.DataFrame) -> Study:
    """Return what is compared: numbers in eight parts with about equally many of the real rows."""
    numbers = [column.name for column in SCHEMA.modelled if isinstance(column, NumberColumn)]
    edges = {name: np.unique(np.quantile(real[name], np.arange(1, 8) / 8)) for name in numbers}
    return Study(
        unit="patient",
        own=OWN,
        columns=SCHEMA.names,
        of_rows=OF_ROWS,
        by=("age", "by age at the first"),
        binned=lambda table: table.assign(**{n: np.searchsorted(at, table[n], "left") for n, at in edges.items()}),
        order=lambda table: table[ORDER],
        number=lambda table: table["num_medications"].astype(float),
        stays=("medical_specialty", "same specialty again"),
        gaps="from number to number, KS",
        share="own share of medications",
    )


def features(table: pd.DataFrame, *, history: bool) -> pd.DataFrame:
    """Return what readmission is predicted from."""
    found = table[[name for name in SCHEMA.names if name not in (LABEL, ORDER)]]
    if not history:
        return found
    stays = table.groupby("patient")
    return found.assign(
        earlier=stays.cumcount(),
        ended_in=stays[LABEL].shift(1).fillna(-1.0),
        since=stays[ORDER].diff().fillna(-1.0),
    )


def area(learnt: pd.DataFrame, tested: pd.DataFrame, seed: int, *, history: bool) -> float:
    """Return the area under the ROC curve on tested patients, who weigh equally."""
    soon = LABELS.index(SOON)
    found = features(learnt, history=history)
    whole = [c.name for c in SCHEMA.modelled if not isinstance(c, NumberColumn) and c.name in found]
    model = HistGradientBoostingClassifier(categorical_features=whole, random_state=seed)
    model.fit(found, learnt[LABEL] == soon)
    weights = 1.0 / tested.groupby("patient")["patient"].transform("size")
    guessed = model.predict_proba(features(tested, history=history))[:, 1]
    return float(roc_auc_score(tested[LABEL] == soon, guessed, sample_weight=weights))


def areas(learnt: pd.DataFrame, tested: pd.DataFrame, seed: int) -> dict[str, float]:
    """Return both areas."""
    return {
        "AUC, the stay": area(learnt, tested, seed, history=False),
        "AUC, and the one before": area(learnt, tested, seed, history=True),
    }


def released(real: Split, epsilon: float, seed: int, folder: Path, *, whole: bool, owner: bool) -> pd.DataFrame:
    """Return the rows of one release, and print how long its steps took."""
    people = real.written[PATIENT].nunique()
    order = {column.name: column for column in SCHEMA.columns}
    schema = replace(
        SCHEMA,
        columns=tuple(order[name] for name in real.written.columns),
        people="whole" if whole else "separate_rows",
    )
    config = RunConfig(
        schema=schema,
        account="diabetes130",
        epsilon=epsilon,
        delta=1e-5,
        people_at_most=100_000,
        rows=people if whole else len(real.written),
        by_people=whole,
        holdout=0.0,
        seed=seed,
    )
    folder.mkdir(parents=True)
    real.written.to_csv(folder / "stays.csv", index=False)
    before = sum(os.times()[:4])
    run_locally(config, folder / "out", table=folder / "stays.csv", owner_report=owner)
    spent = sum(os.times()[:4]) - before
    seconds = json.loads((folder / "out" / "owner" / "timings.json").read_text(encoding="utf-8"))["seconds"]
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    steps = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
    print(f"   {steps} s; {spent:.0f} s of processors; peak so far {most / 1024:.0f} MiB", flush=True)
    made = pd.read_csv(folder / "out" / "synthetic.csv", dtype=str, keep_default_na=False)
    return codes_of(made)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what is kept, and the areas under the curve, for real rows, whole patients and separate rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--kinds", nargs="+", choices=["whole", "separate"], default=["whole", "separate"])
    parser.add_argument("--owner-report", action="store_true", help="also build the owner's report")
    given = parser.parse_args(arguments)
    found: dict[str, list[dict[str, float]]] = {}

    def add(name: str, line: dict[str, float]) -> None:
        found.setdefault(name, []).append(line)
        mine = found[name]
        means = {what: float(np.mean([one[what] for one in mine])) for what in line}
        said = ", ".join(f"{what} {value:.3f}" for what, value in means.items())
        print(f"{name}, mean of {len(mine)}: {said}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("HERMITAGE_HOME", str(Path(scratch) / "home"))
        for seed in given.seeds:
            real = split(seed)
            study = study_of(real.train)
            add("real rows", scores(real.train, real.test, study) | areas(real.train, real.test, seed))
            for epsilon, kind in product(given.epsilons, given.kinds):
                folder = Path(scratch) / f"{seed}-{epsilon:g}-{kind}"
                made = released(real, epsilon, seed, folder, whole=kind == "whole", owner=given.owner_report)
                add(f"epsilon {epsilon:g}, {kind}", scores(real.train, made, study) | areas(made, real.test, seed))


if __name__ == "__main__":
    main()
