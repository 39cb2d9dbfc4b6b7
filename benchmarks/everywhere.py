"""Generators and peers on tables of many kinds, half of which nobody has looked at before the last measurement.

    HERMITAGE_DATA=FOLDER python -m benchmarks.everywhere [--tables adult g10] [--epsilons 1 0.3 3] [--seeds 3] \
        [--generators dp-hp-adaptive aim mst] [--hours 2] [--kept FILE] [--write]
    HERMITAGE_DATA=FOLDER python -m benchmarks.everywhere --last

The tables, what is declared of them and which are held back are in ``everywhere_tables.py``. Those that are held back
are read with ``--last`` alone, which notes in the file of results, once for each start, that and when it was done, and
for which code; whoever tunes anything afterwards has tuned to all of them.

A cell is a table, a method, an epsilon and a seed. The method is a process of its own on one thread, stopped at 600 CPU
seconds or 6 GiB, which is then its result ("no result in 600 CPU s"); where that happened, the method is not tried
again on that table at a larger epsilon or another seed. The relation is one row added or removed, for which all peers
are published, and delta is 1e-5; ours spend 2 % of their budget on the number of rows. All methods learn from the same
rows, and peers are given numbers in at most 32 equal parts of their declared range and decoded evenly inside each, as
in ``marginals.py``; so on amounts declared from 0 to 10 million nearly all rows are in the first part, where two- and
three-way errors say little, and errors of means and tails much.

What is measured, against the rows that were learnt from unless it says otherwise:

- ``tv2``, ``tv3``: mean total variation over all sets of two and of three columns, or 300 of them, the same for all;
- ``auc``: mean area under the ROC curve of five classifiers of ``synth.reports.prediction`` (logistic regression,
  decision tree, random forest, histogram gradient boosting, neural network; one setting each) that learn from at most
  6,000 synthetic rows and are tested on at most 6,000 real ones that nothing was made from: the published test file, or
  a third of the rows, drawn by the seed. Of the rarer of two classes; mean over more, one against the rest;
- ``correlation``: mean absolute difference of Pearson correlations; ``ks``: mean Kolmogorov-Smirnov distance;
- ``mean``, ``tail``: by how much means and 99th percentiles of numbers are off, as a part of the real one, or of the
  standard deviation where a column may be negative: mean over columns, and (``worst_``) the largest;
- CPU seconds and the peak in MiB of the method, start-up included.

Beside them stand the real rows: classifiers learn from those that were learnt from, and their distances are those of
the test rows. The kept results name the code they were measured with, a digest of what the method runs without comments
and docstrings; cells of other code are measured again and until then shown as old. Change a table, and its lines in the
file have to go. Cells come in an order in which a stopped run is useful: epsilon 1 of all tables, then 0.3 and 3, then
0.1 and 10, then the next seed. Generators outside the default list (``--generators all``) are measured at epsilon 1
with the first seed only.

``--write`` measures nothing and writes a section of ``docs/results.md`` and its picture.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import marginals
import numpy as np
from downstream import scored
from everywhere_tables import HELD_BACK, LISTED, OPEN, split
from kept import Kept
from marginals import AIM, HERE, MST, OVER_TIME, OWN_PYTHON, PEERS, released, write_inputs
from metrics import mean_total_variation
from numpy.typing import NDArray
from shapes import shape_distances, values_of
from tables import Table

from synth.errors import ConfigError, PrivacyError
from synth.generators import GENERATORS, GeneratorTask, make
from synth.schema import NumberColumn

KEPT = HERE / "everywhere.jsonl"
DELTA = 1e-5
EPSILONS = (1.0, 0.3, 3.0, 0.1, 10.0)
TOGETHER = ((1.0,), (0.3, 3.0), (0.1, 10.0))
"""Budgets of which all tables are measured before the next ones."""

REAL, LAST = "real rows", "--last"
OURS, PRIVBAYES = "dp-hp-adaptive", "datasynthesizer"
METHODS = (OURS, AIM, MST, "privbayes", "independent", "independent-by-class", PRIVBAYES)
WITHOUT_EPSILON = (PRIVBAYES,)
"""Whose work is the same at every epsilon."""

MOST_SECONDS, MOST_MEBIBYTES = 600, 6144
SETS = 300
LEARNT_FROM = 6_000
FIVE = ("logistic_regression", "decision_tree", "random_forest", "hist_gradient_boosting", "mlp")
DIGITS = 4
"""Of a kept figure."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured once.

    Attributes
    ----------
    table : str
    method : str
        A generator, a peer or the real rows.
    epsilon : float
        0 for the real rows.
    seed : int
        Of the split, of the training and, for peers, of the noise.
    code : str
        :func:`code_of` the method.
    """

    table: str
    method: str
    epsilon: float
    seed: int
    code: str


Results = dict[Cell, dict[str, Any]]


# Which code -----------------------------------------------------------------------------------------------------------


@functools.cache
def code_of(method: str) -> str:
    """Return a digest of the code that a method runs, which comments, docstrings and layout do not change."""
    if method in (REAL, LAST):
        return ""
    if method in PEERS:
        paths = [path for path in (HERE / "peers" / PEERS[method]).parent.glob("*.py") if path.stem[:5] != "test_"]
    else:
        made_by = GENERATORS[method].made_by
        module = made_by.partition(":")[0] if isinstance(made_by, str) else made_by.__module__
        generators = HERE.parent / "synth" / "generators"
        own = HERE.parent.joinpath(*module.split(".")[:-1])
        paths = [*own.rglob("*.py"), *generators.glob("*.py"), *(HERE.parent / "synth" / "models").rglob("*.py")]
    digest = hashlib.sha256()
    for path in sorted(set(paths)):
        digest.update(f"{path.name}\n{_of_file(path)}\n".encode())
    return digest.hexdigest()[:10]


@functools.cache
def _of_file(path: Path) -> str:
    return _statements(path.read_text(encoding="utf-8"))


def _statements(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# What is measured -----------------------------------------------------------------------------------------------------


def number_errors(table: Table, real: NDArray[np.integer], made: NDArray[np.integer]) -> dict[str, float]:
    """Return by how much means and 99th percentiles are off: the mean over number columns, and the largest."""
    means, tails = [], []
    for d, column in enumerate(table.schema.modelled):
        if not isinstance(column, NumberColumn):
            continue
        before, after = (values_of(column, codes[:, d]) for codes in (real, made))
        before, after = before[~np.isnan(before)], after[~np.isnan(after)]
        if not len(before) or np.ptp(before) == 0:
            continue
        for found, of in ((means, np.mean), (tails, _upper)):
            truth = float(of(before))
            scale = truth if column.low >= 0 and truth > 0 else float(before.std())
            found.append(abs(float(of(after)) - truth) / scale if len(after) else 1.0)
    if not means:
        return {}
    return {
        "mean": float(np.mean(means)), "worst_mean": max(means), "tail": float(np.mean(tails)), "worst_tail": max(tails)
    }  # fmt: skip


def _upper(values: NDArray[np.float64]) -> float:
    return float(np.quantile(values, 0.99, method="inverted_cdf"))


def scores(table: Table, codes: NDArray[np.integer], bins: NDArray[np.integer], test: NDArray[np.int64], *,
           learnt: NDArray[np.integer], seed: int) -> dict[str, Any]:  # fmt: skip
    """Return every measure of some rows: their distances from the table's, and what five classifiers learn.

    Parameters
    ----------
    table : Table
        The rows that distances are from.
    codes, bins : arrays of shape (rows, columns)
        The rows that are compared, as codes and as the bins of the table.
    test : array
        Codes of the rows that classifiers are tested on.
    learnt : array
        Codes of the rows that they learn from.
    """
    real = table.binned(table.codes)
    found: dict[str, Any] = {
        f"tv{many}": mean_total_variation(real, bins, table.sizes, many, at_most=SETS)
        for many in (2, 3)
        if many <= len(table.sizes)
    }
    shapes = shape_distances(replace(table, every_code=False), table.codes, codes)
    found |= {name: shapes[name] for name in ("ks", "correlation") if name in shapes}
    found |= number_errors(table, table.codes, codes)
    if table.label is not None:
        learned = scored(table, learnt, test, seed, names=FIVE, at_most=LEARNT_FROM)
        each: dict[str, dict[str, float]] = learned["classifiers"]  # type: ignore[assignment]
        found["auc"] = learned["roc_auc"]
        found["aucs"] = [each[name]["roc_auc"] for name in FIVE]
    return found


def measure(cell: Cell, folder: Path) -> dict[str, Any]:
    """Measure one cell."""
    table, test = split(LISTED[cell.table], cell.seed)
    began = time.process_time()
    if cell.method == REAL:
        found = scores(table, test, table.binned(test), test, learnt=table.codes, seed=cell.seed)
        return rounded(found | {"cpu_seconds": time.process_time() - began, "rows": len(table.codes)})
    why = refused(cell, table)
    if why:
        return {"left_out": why, "cpu_seconds": 0.0}
    write_inputs(folder, table)
    made_of = marginals.Cell(
        table=cell.table,
        generator=cell.method,
        options="{}",
        epsilon=cell.epsilon,
        delta=DELTA,
        neighbours="add_remove",
        seed=cell.seed,
        rows=len(table.codes),
        categories_only=False,
        subsets=SETS,
    )
    asked = argparse.Namespace(
        untimed=False,
        limit=f"{MOST_SECONDS}:{MOST_MEBIBYTES}",
        aim_python=HERE.parent / "build" / "peers" / "aim" / "bin" / "python",
    )
    used, rows = released(made_of, table, folder, asked)
    said = {"cpu_seconds": used["cpu_seconds"], "mebibytes": float(used["peak_bytes"]) / 2**20}  # type: ignore[arg-type]
    if rows is None:
        return rounded({"left_out": _without_result(used), **said})
    began = time.process_time()
    peers = cell.method in PEERS
    bins = rows.astype(np.int64) if peers else table.binned(rows)
    codes = table.unbinned(rows, cell.seed) if peers else rows.astype(np.int64)
    found = scores(table, codes, bins, test, learnt=codes, seed=cell.seed)
    return rounded(found | said | {"scoring_seconds": time.process_time() - began})


def refused(cell: Cell, table: Table) -> str:
    """Return why a generator does not take the table; empty if it does."""
    if cell.method in PEERS:
        return ""
    try:
        make(cell.method, GeneratorTask(table.schema, table.label, seed=cell.seed, device="cpu"), {})
    except (ConfigError, PrivacyError) as error:
        return str(error).partition(". ")[0].removesuffix(".")
    return ""


def _without_result(used: dict[str, Any]) -> str:
    if used["code"] in OVER_TIME and used["cpu_seconds"] >= MOST_SECONDS - 1:
        return f"no result in {MOST_SECONDS} CPU s"
    if used["peak_bytes"] > 0.8 * MOST_MEBIBYTES * 2**20:
        return f"no result in {MOST_MEBIBYTES:,} MiB"
    return f"failed with exit code {used['code']} at {used['peak_bytes'] / 2**20:,.0f} MiB"


def rounded(found: dict[str, Any]) -> dict[str, Any]:
    """Keep so many digits of every figure."""

    def short(value: Any) -> Any:
        if isinstance(value, list):
            return [short(each) for each in value]
        if isinstance(value, float) and math.isfinite(value) and value != 0:
            return round(value, max(0, DIGITS - 1 - math.floor(math.log10(abs(value)))))
        return value

    return {name: short(value) for name, value in found.items()}


# Which cells ----------------------------------------------------------------------------------------------------------


def cells_of(tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], seeds: int) -> Iterator[Cell]:
    """Yield cells in an order in which a stopped run is useful."""
    for seed in range(seeds):
        for together in TOGETHER:
            for table in tables:
                asked = [epsilon for epsilon in together if epsilon in epsilons]
                if asked:
                    yield Cell(table, REAL, 0.0, seed, code_of(REAL))
                for method in methods:
                    for epsilon in asked:
                        if method in METHODS or (epsilon, seed) == (1.0, 0):
                            yield Cell(table, method, epsilon, seed, code_of(method))


def known_failure(cell: Cell, results: Results) -> str:
    """Return why a method has no result where it had none at less, for the same table and code."""
    for other, result in results.items():
        same = (other.table, other.method, other.code) == (cell.table, cell.method, cell.code)
        as_much = other.epsilon <= cell.epsilon or cell.method in WITHOUT_EPSILON
        if same and as_much and result.get("left_out", "").startswith("no result in"):
            why: str = result["left_out"].partition(" (")[0]
            return f"{why} (tried at epsilon {other.epsilon:g}, seed {other.seed})"
    return ""


def run(kept: Kept[Cell], wanted: Iterable[Cell], *, hours: float) -> None:
    """Measure the cells that are missing, as long as time is left."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for cell in wanted:
            if cell in kept.results:
                continue
            if time.monotonic() - began >= hours * 3600:
                print("Time is up; start again to go on.", flush=True)
                return
            known = known_failure(cell, kept.results)
            result = {"left_out": known, "cpu_seconds": 0.0} if known else measure(cell, Path(scratch) / cell.table)
            kept.put(cell, result)
            print(line(cell, result), flush=True)


def line(cell: Cell, result: dict[str, Any]) -> str:
    said = result.get("left_out") or "  ".join(
        f"{name} {result[name]:.4f}" for name in ("tv2", "tv3", "auc", "mean", "tail") if name in result
    )
    return (
        f"{cell.table}, {cell.method} at epsilon {cell.epsilon:g}, seed {cell.seed}: {said}  "
        f"({result['cpu_seconds']:.1f} + {result.get('scoring_seconds', 0.0):.1f} CPU s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(OPEN), default=list(OPEN))
    parser.add_argument("--epsilons", nargs="+", type=float, choices=EPSILONS, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--generators", nargs="+", choices=[*dict.fromkeys([*METHODS, *PEERS, *GENERATORS]), "all"],
        default=list(METHODS), help="all: those of the default list, and every other generator of the product",
    )  # fmt: skip
    parser.add_argument("--hours", type=float, default=8.0, help="begin no cell after so many of this start")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the file of JSON lines")
    parser.add_argument("--last", action="store_true", help="also the tables that are held back: the last measurement")
    parser.add_argument("--write", action="store_true", help="measure nothing; write docs/results.md and its picture")
    asked = parser.parse_args()
    kept = Kept(asked.kept, Cell)
    if asked.write:
        from everywhere_pages import write

        write(kept.results)
        return
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    methods = [*METHODS, *GENERATORS] if "all" in asked.generators else asked.generators
    methods = list(dict.fromkeys(methods))
    for peer in set(methods) & set(OWN_PYTHON):
        folder = Path(PEERS[peer]).parent
        if not (HERE.parent / "build" / "peers" / folder / "bin" / "python").exists():
            sys.exit(f"{peer} has an environment of its own: run benchmarks/peers/{folder}/setup first.")
    tables = list(asked.tables)
    if asked.last:
        tables += list(HELD_BACK)
        note = Cell(LAST, LAST, 0.0, sum(cell.table == LAST for cell in kept.results), code_of(OURS))
        kept.put(note, {"at": time.strftime("%Y-%m-%d %H:%M"), "cpu_seconds": 0.0})
        print(f"The tables that were held back are read now; {asked.kept.name} says so.", flush=True)
    run(kept, cells_of(tables, methods, asked.epsilons, asked.seeds), hours=asked.hours)
    from everywhere_pages import lines

    print(*lines(kept.results), sep="\n")


if __name__ == "__main__":
    import everywhere

    everywhere.main()  # of the module that the pages import, so that there is one kind of cell
