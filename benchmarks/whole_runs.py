"""How well classifiers trained on synthetic rows do on real test rows, for every generator.

    HERMITAGE_DATA=FOLDER python benchmarks/whole_runs.py [--table adult] [--seeds 5] [--epsilon 1] [--json FILE]

Every synthetic table comes out of the whole product (a run from a configuration: encrypted store, ledger, split,
charged report, bundle) with default options, and is read back from its CSV. Logistic regression, histogram gradient
boosting and a random forest are trained on it and scored by ROC AUC on the real test rows (the mean over classes, one
against the rest, where there are more than two). Beside them: the majority class, the control ``independent-by-class``,
and training on the real rows. A seed changes training and sampling; the privacy noise is fresh in every run.

Tables: ``adult`` (adult.data.gz and adult.test.gz, configuration examples/adult.yaml) and ``covtype`` (the balanced
sample covtype_train.csv.gz, every fifth row for testing). Classifier settings are fixed; none is chosen by test rows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import synth
from synth.cli.local import run_locally
from synth.generators import GENERATORS
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_GENERATORS = ("independent-by-class", "dp-merf", "dp-hp")


@dataclass(frozen=True)
class Problem:
    """A table to release, and real rows to test on."""

    config: RunConfig
    table: Path
    train: pd.DataFrame
    test: pd.DataFrame


def adult(data: Path, scratch: Path) -> Problem:
    config = synth.load_config(ROOT / "examples" / "adult.yaml")
    names = list(config.format.names or ())
    read = {"header": None, "names": names, "skipinitialspace": True, "na_values": ["?"], "keep_default_na": False}
    train = pd.read_csv(data / "adult" / "adult.data.gz", **read)
    test = pd.read_csv(data / "adult" / "adult.test.gz", skiprows=1, **read)
    test["income"] = test["income"].str.rstrip(".")
    return Problem(config, data / "adult" / "adult.data.gz", train, test)


COVTYPE_RANGES = {
    "Elevation": (1800, 4000),
    "Aspect": (0, 360),
    "Slope": (0, 60),
    "Horizontal_Distance_To_Hydrology": (0, 1400),
    "Vertical_Distance_To_Hydrology": (-200, 600),
    "Horizontal_Distance_To_Roadways": (0, 7200),
    "Hillshade_9am": (0, 255),
    "Hillshade_Noon": (0, 255),
    "Hillshade_3pm": (0, 255),
    "Horizontal_Distance_To_Fire_Points": (0, 7200),
}


def covtype(data: Path, scratch: Path) -> Problem:
    rows = pd.read_csv(data / "covtype_sample" / "covtype_train.csv.gz").drop(columns="Id")
    held_out = np.arange(len(rows)) % 5 == 0
    rows[~held_out].to_csv(scratch / "covtype.csv", index=False)
    # No cell of this table is unreadable; what one would become is declared all the same.
    columns = [
        NumberColumn(name, *COVTYPE_RANGES[name], 1, fallback=COVTYPE_RANGES[name][0])
        if name in COVTYPE_RANGES
        else CategoryColumn(name, kinds, fallback=kinds[0])
        for name in rows.columns
        for kinds in [tuple("1234567" if name == "Cover_Type" else "01")]
    ]
    config = RunConfig(
        schema=Schema(tuple(columns), number_of_units=int((~held_out).sum())),
        account="covtype",
        epsilon=1.0,
        delta=1e-5,
        people_at_most=20_000,
        rows=int((~held_out).sum()),
        holdout=0.0,
        label="Cover_Type",
    )
    return Problem(config, scratch / "covtype.csv", rows[~held_out], rows[held_out])


PROBLEMS: dict[str, Callable[[Path, Path], Problem]] = {"adult": adult, "covtype": covtype}


def classifiers(schema: Schema, label: str, seed: int) -> dict[str, Pipeline]:
    features = [column for column in schema.modelled if column.name != label]
    sizes = {column.name: column.size for column in features if isinstance(column, CategoryColumn | YesNoColumn)}
    categories = list(sizes)
    numbers = [column.name for column in features if column.name not in categories]

    def after(number_step: object, category_step: object, model: object) -> Pipeline:
        return make_pipeline(ColumnTransformer([("n", number_step, numbers), ("c", category_step, categories)]), model)

    one_hot = OneHotEncoder(handle_unknown="ignore")
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    # Boosting takes categories of at most 255 values as such, longer lists by their places.
    is_category = [False] * len(numbers) + [size <= 255 for size in sizes.values()]
    boosting = HistGradientBoostingClassifier(categorical_features=is_category, random_state=seed)
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=seed)
    return {
        "logistic regression": after(StandardScaler(), one_hot, LogisticRegression(max_iter=500)),
        "histogram boosting": after("passthrough", ordinal, boosting),
        "random forest": after("passthrough", one_hot, forest),
    }


def prepared(rows: pd.DataFrame, schema: Schema, label: str) -> tuple[pd.DataFrame, np.ndarray]:
    columns = {}
    for column in schema.modelled:
        cells = rows[column.name]
        if isinstance(column, NumberColumn):
            columns[column.name] = pd.to_numeric(cells).fillna(-1.0).to_numpy(float)
        else:
            columns[column.name] = cells.astype("string").str.strip().fillna("").to_numpy(object)
    labels = columns.pop(label)
    return pd.DataFrame(columns), labels.astype(str)


def accuracies(
    schema: Schema,
    label: str,
    train: tuple[pd.DataFrame, np.ndarray],
    test: tuple[pd.DataFrame, np.ndarray],
    seed: int,
    *,
    models: Mapping[str, Pipeline] | None = None,
) -> dict[str, dict[str, float]]:
    """Train classifiers on some rows and test them on others: areas under both curves, macro F1 and accuracy.

    Areas are those of the rarer class of two, and means over classes, one against the rest, of more.
    """
    (x, y), (x_test, y_test) = train, test
    classes, counts = np.unique(y_test, return_counts=True)
    asked = classes if len(classes) > 2 else classes[[counts.argmin()]]
    result = {}
    for name, model in (models or classifiers(schema, label, seed)).items():
        if len(set(y)) == 1:
            probabilities = pd.DataFrame({y[0]: np.ones(len(y_test))})
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                probabilities = pd.DataFrame(model.fit(x, y).predict_proba(x_test), columns=model.classes_)
        guesses = probabilities.columns.to_numpy()[probabilities.to_numpy().argmax(axis=1)]
        columns = [(y_test == one, probabilities.get(one, np.zeros(len(y_test)))) for one in asked]
        result[name] = {
            "roc_auc": float(np.mean([roc_auc_score(*each) for each in columns])),
            "pr_auc": float(np.mean([average_precision_score(*each) for each in columns])),
            "macro_f1": float(f1_score(y_test, guesses, labels=classes, average="macro", zero_division=0.0)),
            "accuracy": float(np.mean(guesses == y_test)),
        }
    return result


def scores(problem: Problem, train: pd.DataFrame, seed: int) -> dict[str, float]:
    schema, label = problem.config.schema, problem.config.label or ""
    rows = (prepared(each, schema, label) for each in (train, problem.test))
    result = {name: found["roc_auc"] for name, found in accuracies(schema, label, *rows, seed).items()}
    result["mean"] = statistics.fmean(result.values())
    return result


def released(
    problem: Problem, generator: str, *, seed: int, epsilon: float, scratch: Path
) -> tuple[pd.DataFrame, dict]:
    config = replace(problem.config, generator=generator, options={}, seed=seed, epsilon=epsilon)
    out = scratch / f"{generator}-{seed}"
    run_locally(config, out, table=problem.table, owner_report=False)
    rows = pd.read_csv(out / "synthetic.csv", keep_default_na=False, na_values=[""])
    timings = json.loads((out / "owner" / "timings.json").read_text(encoding="utf-8"))
    return rows, timings["seconds"]


def summary(rows: list[dict[str, float]]) -> str:
    cells = []
    for key in rows[0]:
        values = [row[key] for row in rows]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        cells.append(f"{statistics.fmean(values):.4f} ± {spread:.4f}")
    return "  ".join(f"{cell:>19}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=sorted(PROBLEMS), default="adult")
    parser.add_argument("--generators", nargs="+", choices=sorted(GENERATORS), default=DEFAULT_GENERATORS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables (adult, covtype_sample).")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        os.environ["HERMITAGE_HOME"] = str(scratch / "home")
        problem = PROBLEMS[asked.table](Path(os.environ["HERMITAGE_DATA"]), scratch)
        print(
            f"{asked.table}: {len(problem.train):,} rows, {len(problem.test):,} test rows, epsilon {asked.epsilon:g}, "
        )
        print(f"delta {problem.config.delta:g}; mean and standard deviation over {asked.seeds} seeds\n")
        results = {"real rows": [scores(problem, problem.train, seed) for seed in range(asked.seeds)]}
        heads = list(results["real rows"][0])
        print(f"{'trained on':>22}  " + "  ".join(f"{head:>19}" for head in heads) + "  fit seconds")
        print(f"{'real rows':>22}  {summary(results['real rows'])}", flush=True)
        for generator in asked.generators:
            results[generator], cpu = [], []
            for seed in range(asked.seeds):
                rows, seconds = released(problem, generator, seed=seed, epsilon=asked.epsilon, scratch=scratch)
                cpu.append(seconds["fit"])
                results[generator].append(scores(problem, rows, seed))
            print(f"{generator:>22}  {summary(results[generator])}  {statistics.fmean(cpu):9.1f}", flush=True)
            results[f"{generator}, fit seconds"] = [{"wall": value} for value in cpu]
        print(f"{'majority class':>22}  " + "  ".join(f"{'0.5000':>19}" for _ in heads))
    if asked.json:
        asked.json.write_text(json.dumps({"finished": time.time(), **vars(asked), "json": None, "results": results}))


if __name__ == "__main__":
    main()
