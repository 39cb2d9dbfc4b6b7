"""Classifiers trained on tables that ``kahm`` makes at record level, scored on real test rows.

    HERMITAGE_DATA=FOLDER python benchmarks/kahm_record.py [--tables mnist digits isolet covtype adult adult-10k]
        [--epsilons 1 3 8] [--seeds 5] [--generators kahm dp-hp-adaptive real] [--options '{"steps": 0}']
        [--json FILE] [--resume]

One person's whole row is replaced, delta 1e-5, labels protected; every answer comes from the private session with noise
of the operating system, and the whole budget goes to the generator (one-way tables included). A cell is a table, an
epsilon, a seed and a generator; it is written as soon as it is finished. ``real`` trains on private rows themselves.

Scores: accuracy of the affine hull classifier (``KahmClassifier``, n = 20, blocks of 1000 rows) and of logistic
regression, and the mean over classes of the latter's ROC AUC, one against the rest, on all test rows. Rows are read as
``RowEncoding`` does: numbers on [0, 1], categories one-hot. Classifiers are trained on at most ``--rows`` rows; their
settings are fixed, and none is chosen by test rows. A seed is the public seed of fit and sample, and splits the tables
that have no test rows of their own (digits 1297/500, isolet 1060/500, covtype 12000/3120); ``adult-10k`` learns from
10,000 of Adult's rows.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import statistics
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from pictures import read_idx
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import synth
from synth.generators import GeneratorTask, make
from synth.generators.row_encoding import RowEncoding
from synth.models.kahm_classifier import KahmClassifier
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.owner_view import OwnerView
from synth.schema import CategoryColumn, Column, Neighbours, NumberColumn, Schema, TableFormat, YesNoColumn

ROOT = Path(__file__).resolve().parents[1]
DELTA = 1e-5
LABEL = "label"

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from and rows to score on, as codes; the label is the last column."""

    schema: Schema
    label: str
    train: Codes
    test: Codes

    @property
    def inputs(self) -> tuple[str, ...]:
        """All columns but the label."""
        return tuple(name for name in self.schema.names if name != self.label)

    def vectors(self, codes: Codes) -> tuple[NDArray[np.float32], Codes]:
        """Return inputs and labels of rows of codes."""
        label = self.schema.names.index(self.label)
        others = np.delete(codes, label, axis=1)
        return RowEncoding.of(self.schema, self.inputs).encode(others).astype(np.float32), codes[:, label]


@dataclass(frozen=True)
class Cell:
    """What one result is of."""

    table: str
    epsilon: float
    seed: int
    generator: str
    options: str
    rows: int


def mnist(data: Path, _seed: int) -> Problem:
    """Sixty thousand images of digits, and ten thousand to test on: 784 numbers from 0 to 255."""
    parts = [
        np.hstack([_idx(data, f"{part}-images-idx3"), _idx(data, f"{part}-labels-idx1")]) for part in ("train", "t10k")
    ]
    return Problem(_signal(784, 256, 10), LABEL, *parts)


def _idx(data: Path, name: str) -> Codes:
    values = read_idx(data / "mnist" / f"{name}-ubyte.gz")
    return values.reshape(len(values), -1).astype(np.int64)


def digits(_data: Path, seed: int) -> Problem:
    """Small images of digits: 64 numbers from 0 to 16."""
    inputs, labels = load_digits(return_X_y=True)
    return _split(_signal(64, 17, 10), np.column_stack([inputs.astype(np.int64), labels]), 1297, seed)


def isolet(data: Path, seed: int) -> Problem:
    """Spoken letters: 617 numbers from -1 to 1, here in 256 steps."""
    from scipy.io import loadmat

    found = loadmat(data / "isolet" / "Isolet.mat")
    inputs = np.rint((np.clip(found["X"], -1, 1) + 1) * 127.5).astype(np.int64)
    codes = np.column_stack([inputs, found["Y"].reshape(-1).astype(np.int64) - 1])
    return _split(_signal(617, 256, 26), codes, 1060, seed)


def covtype(data: Path, seed: int) -> Problem:
    """Forest cover: ten numbers in public ranges, 44 truth values, seven classes."""
    with gzip.open(data / "covtype_sample" / "covtype_train.csv.gz", "rt") as stream:
        rows = np.loadtxt(stream, delimiter=",", skiprows=1)[:, 1:].astype(np.int64)
    low = [1800, 0, 0, 0, -200, 0, 0, 0, 0, 0]
    high = [3900, 360, 66, 1400, 600, 7200, 254, 254, 254, 7200]
    columns: list[Column] = [NumberColumn(f"x{d}", low[d], high[d], 1) for d in range(10)]
    columns += [YesNoColumn(f"x{d}") for d in range(10, 54)]
    columns.append(CategoryColumn(LABEL, tuple(map(str, range(1, 8)))))
    rows[:, :10] = np.clip(rows[:, :10], low, high) - low
    rows[:, -1] -= 1
    return _split(Schema(tuple(columns)), rows, 12_000, seed)


def adult(data: Path, _seed: int) -> Problem:
    """Census rows as examples/adult.yaml declares them, with the test rows of the publisher."""
    config = synth.load_config(ROOT / "examples" / "adult.yaml")
    parts = []
    for file, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1)):
        content = gzip.decompress((data / "adult" / file).read_bytes())
        lines = content.replace(b"K.\n", b"K\n").rstrip(b"\n").split(b"\n")[skipped:]
        form: TableFormat = config.format
        parts.append(_read(config.schema, b"\n".join(lines), form))
    return Problem(config.schema, str(config.label), *parts)


def adult_10k(data: Path, seed: int) -> Problem:
    """Ten thousand of the census rows, drawn with the public seed; the same test rows."""
    whole = adult(data, seed)
    chosen = np.random.default_rng(seed).permutation(len(whole.train))[:10_000]
    return Problem(whole.schema, whole.label, whole.train[chosen], whole.test)


def _read(schema: Schema, content: bytes, form: TableFormat) -> Codes:
    return OwnerView.open(lambda: io.BytesIO(content), "", schema, form, account_key=b"").codes()


def _signal(width: int, levels: int, classes: int) -> Schema:
    numbers = tuple(NumberColumn(f"x{d}", 0, levels - 1, 1) for d in range(width))
    return Schema((*numbers, CategoryColumn(LABEL, tuple(map(str, range(classes))))))


def _split(schema: Schema, codes: Codes, n_train: int, seed: int) -> Problem:
    order = np.random.default_rng(seed).permutation(len(codes))
    return Problem(schema, LABEL, codes[order[:n_train]], codes[order[n_train:]])


TABLES = {
    "mnist": mnist,
    "digits": digits,
    "isolet": isolet,
    "covtype": covtype,
    "adult": adult,
    "adult-10k": adult_10k,
}


def released(cell: Cell, problem: Problem) -> Codes:
    """Return rows of codes made from the private rows, or the private rows themselves."""
    random = np.random.default_rng(cell.seed)
    if cell.generator == "real":
        return problem.train[random.permutation(len(problem.train))[: cell.rows]]
    columns = {name: problem.train[:, d] for d, name in enumerate(problem.schema.names)}
    session = PrivateSession(
        PrivateTable.from_codes(problem.schema, columns), PrivacyBudget(cell.epsilon, DELTA, Neighbours.REPLACE)
    )
    task = GeneratorTask(problem.schema, problem.label, seed=cell.seed, device="cpu")
    made = make(cell.generator, task, json.loads(cell.options)).fit(session, NullProgress())
    return made.sample(min(len(problem.train), cell.rows), cell.seed)


def scores(cell: Cell, problem: Problem, codes: Codes) -> dict[str, float]:
    """Train both classifiers on rows and score them on the test rows."""
    inputs, labels = problem.vectors(codes)
    test, truth = problem.vectors(problem.test)
    if len(np.unique(labels)) < 2:
        share = float((truth == labels[0]).mean())
        return {"kahm": share, "linear": share, "auc": 0.5}
    hulls = KahmClassifier(n=20, block=1000, partition="random", seed=cell.seed).fit(inputs, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is fixed, converged or not
        linear = LogisticRegression(max_iter=200).fit(inputs, labels)
    probabilities = np.zeros((len(test), int(max(truth.max(), labels.max())) + 1))
    probabilities[:, linear.classes_] = linear.predict_proba(test)
    areas = [roc_auc_score(truth == one, probabilities[:, one]) for one in np.unique(truth)]
    return {
        "kahm": float((hulls.predict(test) == truth).mean()),
        "linear": float((linear.predict(test) == truth).mean()),
        "auc": float(np.mean(areas)),
    }


def measure(cell: Cell, problem: Problem) -> dict[str, float]:
    """Run one cell."""
    begin = time.process_time()
    codes = released(cell, problem)
    made = time.process_time() - begin
    return {**scores(cell, problem, codes), "cpu_seconds": made}


def shown(cell: Cell, results: list[dict[str, float]]) -> str:
    """Return one line: means over seeds with their standard errors."""
    parts = []
    for name in ("kahm", "linear", "auc"):
        values = [one[name] for one in results]
        error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        parts.append(f"{name} {statistics.mean(values):.4f} +- {error:.4f}")
    return f"{cell.table:8} {cell.generator:16} epsilon {cell.epsilon:<4g} {cell.options:14} " + "  ".join(parts)


def main() -> None:
    """Run all cells that are not finished, and print a line for each table, generator and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0, 8.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--generators", nargs="+", default=["kahm"])
    parser.add_argument("--options", default="{}")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    data = Path(os.environ["HERMITAGE_DATA"])
    done: dict[Cell, dict[str, float]] = {}
    if asked.json is not None and asked.json.exists():
        if not asked.resume:
            sys.exit(f"{asked.json} exists. Add --resume to keep its cells, or name another file.")
        done = {Cell(**one["cell"]): one["result"] for one in json.loads(asked.json.read_text())}
    for name in asked.tables:
        for generator in asked.generators:
            for epsilon in asked.epsilons if generator != "real" else [0.0]:
                found = []
                for seed in range(asked.seeds):
                    cell = Cell(name, epsilon, seed, generator, asked.options, asked.rows)
                    if cell not in done:
                        done[cell] = measure(cell, TABLES[name](data, seed))
                        if asked.json is not None:
                            cells = [{"cell": asdict(one), "result": result} for one, result in done.items()]
                            asked.json.write_text(json.dumps(cells, indent=1), encoding="utf-8")
                    found.append(done[cell])
                print(shown(cell, found), flush=True)


if __name__ == "__main__":
    main()
