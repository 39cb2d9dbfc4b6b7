"""What synthetic rows are worth where many columns go together: whole runs, small sets of columns, classifiers.

    HERMITAGE_DATA=FOLDER python benchmarks/whole_row.py --generators dp-hp-adaptive --seeds 21 22 23 24 25 \
        --keep build/whole_row.jsonl [--tables xor3 g10] [--epsilons 0.3 1 3]

Every synthetic table comes out of the command line (``synth run`` from a configuration: vault, ledger, charged
report, sealed bundle; delta 1e-5, default options unless given, as many rows as the real table, nobody held out) and is
read back from its CSV; peers are given codes, numbers in at most 32 bins. A seed changes training, sampling and
classifiers; the privacy noise of ours is fresh in every run.

- ``tv1`` to ``tv5``: mean total variation from the rows that were learnt from, over all sets of one to five columns (at
  most ``--subsets``, chosen by a fixed seed), numbers in ten equal parts of their declared range;
- ``forest`` and ``boosting``: accuracy and area under the ROC curve (of the rarer class of two, the mean over classes
  otherwise) on real test rows that nothing was made from. They learn from at most 20,000 synthetic rows; a hundred full
  trees, and boosting as in ``whole_runs.py``, for every table the same;
- ``cpu``: seconds of the whole command and of the processes it starts, on one thread.

``real`` stands for the real rows: drawn with replacement for distances, as they are for classifiers. Printed are means
and two standard errors over seeds, then every cell of the default generator at epsilon 1, one row added or removed,
that misses a figure of ``AIMS``. Finished cells are appended to the file of ``--keep`` as lines of JSON and not run
again; lines that other code made are counted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from marginals import HERE, PEERS, source_of, write_inputs
from marginals import Cell as CodesCell
from marginals import released as of_codes
from metrics import mean_total_variation
from raw_tables import frame
from tables import AIM_BINS, TABLES, Table, load_split, read_again
from whole_runs import accuracies, classifiers

from synth.generators import GENERATORS
from synth.schema import Column, ModelledColumn, NumberColumn, RunConfig
from synth.schema.config import config_to_yaml

WANTED = ("artificial_characters", "scm_tree", "xor2", "xor3", "xor4", "g10", "g30")
DEFAULT, REAL = "dp-hp-adaptive", "real"
LEARNT_FROM = 20_000
BINS = 10
SETS = (1, 2, 3, 4, 5)
CLASSIFIERS = ("forest", "boosting")
DISTANCES = tuple(f"tv{size}" for size in SETS)
SCORES = tuple(f"{name} {score}" for name in CLASSIFIERS for score in ("accuracy", "auc"))
MEASURES = (*DISTANCES, *SCORES, "cpu")

AIMS = {
    "artificial_characters": {"forest accuracy": 0.45, "forest auc": 0.86, "tv3": 0.23},
    "scm_tree": {"tv2": 0.037, "boosting auc": 0.83},
    "xor2": {"boosting accuracy": 0.99},
    "xor3": {"boosting accuracy": 0.99},
    "xor4": {"boosting accuracy": 0.85},
    "g10": {"tv2": 0.023},
    "g30": {"tv2": 0.034},
}

Result = dict[str, float]


@dataclass(frozen=True)
class Cell:
    """One run."""

    table: str
    generator: str
    options: str
    epsilon: float
    delta: float
    neighbours: str
    seed: int
    subsets: int


class Kept:
    """Finished cells, one line of JSON each, so that a stopped run loses nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.of_other_code = 0
        self._done: dict[Cell, Result] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                cell = Cell(**record["cell"])
                self._done[cell] = record["result"]
                self.of_other_code += record["source"] != source_of(cell.generator)

    def get(self, cell: Cell) -> Result | None:
        return self._done.get(cell)

    def put(self, cell: Cell, result: Result) -> None:
        self._done[cell] = result
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            line = json.dumps({"cell": asdict(cell), "result": result, "source": source_of(cell.generator)})
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def whole(column: Column) -> Column:
    """Say what an unreadable cell becomes, which no table here has."""
    if not isinstance(column, ModelledColumn) or column.fallback_code is not None:
        return column
    return replace(column, fallback=column.low if isinstance(column, NumberColumn) else column.declared_labels[0])


def config_of(cell: Cell, table: Table) -> RunConfig:
    """Return what is asked of the command line."""
    units = len(table.codes) if cell.neighbours == "replace_one" else None
    schema = replace(table.schema, columns=tuple(map(whole, table.schema.columns)), number_of_units=units)
    return RunConfig(
        schema=schema,
        account=f"{cell.table}-{cell.generator}-{cell.epsilon:g}-{cell.seed}",
        epsilon=cell.epsilon,
        delta=cell.delta,
        people_at_most=100_000,
        rows=len(table.codes),
        generator=cell.generator,
        options=json.loads(cell.options),
        format=table.form,
        holdout=0.0,
        label=table.label,
        seed=cell.seed,
        device="cpu",
    )


def released(cell: Cell, table: Table, folder: Path, asked: argparse.Namespace) -> tuple[np.ndarray, float]:
    """Run the command line, or a peer; return the codes of the rows that it made, and its CPU seconds."""
    if cell.generator in PEERS:
        coarse = replace(table, bins=AIM_BINS)
        write_inputs(folder, coarse)
        used, rows = of_codes(of_peers(cell, table), coarse, folder, asked)
        if rows is None:
            sys.exit(f"The run of {cell} ended with {used['code']}.")
        return coarse.unbinned(rows, cell.seed), float(used["cpu_seconds"])  # type: ignore[arg-type]
    seconds, _ = command_line(cell, table, folder, limit=asked.limit)
    made = pd.read_csv(folder / "release" / "synthetic.csv", dtype=str, keep_default_na=False)
    return read_again(table, made).codes, seconds


def command_line(
    cell: Cell, table: Table, folder: Path, *, limit: float, checkout: Path = HERE.parent
) -> tuple[float, float]:
    """Make a release by the command line of a checkout, in a new folder.

    Returns
    -------
    cpu_seconds : float
        Of all its processes.
    peak : float
        Most memory of the process that fits, in bytes.
    """
    folder.mkdir(parents=True)
    (folder / "table.csv").write_bytes(table.written or b"")
    (folder / "run.yaml").write_text(config_to_yaml(config_of(cell, table)), encoding="utf-8")
    command = [sys.executable, "-m", "synth", "run", str(folder / "run.yaml"), "--table", str(folder / "table.csv")]
    command += ["--out", str(folder / "release"), "--no-owner-report"]
    timed = subprocess.run(
        [sys.executable, "-S", str(HERE / "measured.py"), str(limit), *command],
        capture_output=True,
        check=True,
        cwd=checkout,
        env={**os.environ, "HERMITAGE_HOME": str(folder / "home"), "PYTHONPATH": str(checkout)},
    )
    used = json.loads(timed.stdout.splitlines()[-1])
    if used["code"]:
        said = timed.stderr.decode(errors="replace")[-500:]
        sys.exit(f"The run of {cell} in {checkout} ended with {used['code']}: {said}")
    return float(used["cpu_seconds"]), float(used["peak_bytes"])


def of_peers(cell: Cell, table: Table) -> CodesCell:
    """Return what is asked of a peer."""
    return CodesCell(**asdict(cell), rows=len(table.codes), categories_only=False)


def measure(cell: Cell, table: Table, test: np.ndarray, folder: Path, asked: argparse.Namespace) -> Result:
    """Make one synthetic table, compare it and learn from it."""
    random = np.random.default_rng(cell.seed)
    if cell.generator == REAL:
        learnt, seconds = table.codes, 0.0
        compared = table.codes[random.integers(len(table.codes), size=len(table.codes))]
    else:
        learnt, seconds = released(cell, table, folder, asked)
        compared = learnt
    real, made = table.binned(table.codes), table.binned(compared)
    result = {
        f"tv{size}": mean_total_variation(real, made, table.sizes, size, at_most=cell.subsets)
        for size in SETS
        if size <= len(table.sizes)
    }
    if table.label is not None:
        chosen = learnt[random.permutation(len(learnt))[:LEARNT_FROM]]
        sides = frame(table, chosen), frame(table, test)
        models = classifiers(table.schema, table.label, cell.seed)
        forest = models["random forest"].set_params(randomforestclassifier__min_samples_leaf=1)
        learners = dict(zip(CLASSIFIERS, (forest, models["histogram boosting"]), strict=True))
        for name, found in accuracies(table.schema, table.label, *sides, cell.seed, models=learners).items():
            result |= {f"{name} accuracy": found["accuracy"], f"{name} auc": found["roc_auc"]}
    return result | {"cpu": seconds}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean and two standard errors."""
    error = 2 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return statistics.fmean(values), error


def missed(table: str, results: list[Result]) -> Iterator[str]:
    """Say which aims the cells of a table miss."""
    for name, bound in AIMS.get(table, {}).items():
        mean, error = mean_and_error([one[name] for one in results])
        beyond = bound - mean if name in SCORES else mean - bound
        if beyond > 0:
            near = ", within two standard errors" if beyond <= error else ""
            yield f"{table:>22} {name:<18} {mean:.4f} ± {error:.4f}, aim {bound:.4f}{near}"


def line(name: str, results: list[Result]) -> str:
    cells = []
    for each in MEASURES:
        values = [one[each] for one in results if each in one]
        digits = 1 if each == "cpu" else 4
        mean, error = mean_and_error(values) if values else (math.nan, math.nan)
        cells.append(f"{mean:.{digits}f} ± {error:.{digits}f}" if values else "-")
    return f"{name:>22} " + " ".join(f"{cell:>17}" for cell in cells)


def compare(name: str, asked: argparse.Namespace, kept: Kept) -> list[str]:
    """Measure every cell of one table, printing as they come; return the figures that are missed."""
    failing: list[str] = []
    table, test = load_split(name, neighbours=asked.neighbours, seed=0)
    table = replace(table, bins=BINS)
    print(
        f"\n{name}: {table.codes.shape[0]:,} rows x {table.codes.shape[1]} columns, {len(test):,} test rows, ", end=""
    )
    print(f"{asked.neighbours}, delta {asked.delta:g}, seeds {' '.join(map(str, asked.seeds))}")
    print(f"{'':>22} " + " ".join(f"{each:>17}" for each in MEASURES), flush=True)
    for generator in dict.fromkeys(asked.generators):
        for epsilon in asked.epsilons if generator != REAL else [0.0]:
            results = []
            for seed in asked.seeds:
                cell = Cell(
                    table=name,
                    generator=generator,
                    options=json.dumps(asked.options.get(generator, {}), sort_keys=True),
                    epsilon=epsilon,
                    delta=asked.delta,
                    neighbours=asked.neighbours,
                    seed=seed,
                    subsets=asked.subsets,
                )
                result = kept.get(cell)
                if result is None:
                    with tempfile.TemporaryDirectory() as scratch:
                        result = measure(cell, table, test, Path(scratch) / "run", asked)
                    kept.put(cell, result)
                results.append(result)
            print(line(generator if generator == REAL else f"{generator} {epsilon:g}", results), flush=True)
            if (generator, epsilon, asked.neighbours) == (DEFAULT, 1.0, "add_remove"):
                failing += missed(name, results)
    return failing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    raw = [each for each in TABLES if each not in ("simple", "bounded")]
    parser.add_argument("--tables", nargs="+", choices=raw, default=list(WANTED))
    parser.add_argument("--generators", nargs="+", choices=[REAL, *PEERS, *GENERATORS], default=[REAL, DEFAULT])
    parser.add_argument("--options", type=json.loads, default={}, help='JSON: {"generator": {"option": value}}')
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--neighbours", choices=("add_remove", "replace_one"), default="add_remove")
    parser.add_argument("--seeds", nargs="+", type=int, default=[21, 22, 23, 24, 25])
    parser.add_argument("--subsets", type=int, default=300, help="sets of each size that are compared at most")
    parser.add_argument("--aim-python", type=Path, default=HERE.parent / "build" / "peers" / "aim" / "bin" / "python")
    parser.add_argument("--limit", type=float, default=1800, help="CPU seconds of one run")
    parser.add_argument("--keep", type=Path, help="file of finished cells, which are not run again")
    asked = parser.parse_args()
    asked.untimed = False
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    kept = Kept(asked.keep)
    failing = [each for name in asked.tables for each in compare(name, asked, kept)]
    if kept.of_other_code:
        print(f"\n{kept.of_other_code} cells of {asked.keep} were made by other code.")
    print("\nMissed figures (mean ± two standard errors):" if failing else "\nNo figure is missed.")
    print("\n".join(failing))


if __name__ == "__main__":
    main()
