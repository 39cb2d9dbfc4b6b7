"""Distances of synthetic tables from real ones over all sets of one to four columns, for our generators and AIM.

    HERMITAGE_DATA=FOLDER python benchmarks/marginals.py --tables simple --generators aim dp-hp-adaptive \
        --epsilons 0.1 0.3 1 --seeds 5 --neighbours add_remove --json build/marginals.json [--resume]

Mean total variation over sets of columns, mean and standard deviation over seeds; CPU seconds (one thread, start-up
included) and peak memory of a process that reads codes and writes codes. Beside them the control ``independent`` and
the floor: rows of the real table drawn with replacement.

The discretised Adult tables (``simple``, ``bounded``) are compared with one bin for each code over all sets; raw tables
with numbers in at most 32 equal parts of their declared range, which is also what AIM is given, over all sets or a
fixed choice of ``--subsets`` of them. A generator of ours is given the declared schema and a private session with real
noise, so a seed repeats its training and not its noise; AIM's noise follows its seed. Under add_remove the number of
rows is private, and ours spend 2 % of their budget on it; under replace_one it is public. Our generators have no part
of the budget taken for the report of a whole run.

``--against independent`` ends with a line for every table, epsilon and measure: by how much the other generators are
worse than that one, with the standard error of the difference (noise is drawn anew in every cell, so cells of two
generators have nothing in common), and whether that is within two standard errors.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from cell import synthetic, write_folder
from metrics import mean_total_variation
from shapes import shape_distances
from tables import TABLES, Table, load

from synth.generators import GENERATORS

HERE = Path(__file__).resolve().parent
CONTROL, FLOOR, AIM, MST = "independent", "bootstrap", "aim", "mst"
PEERS = {
    AIM: "aim/aim.py",
    MST: "aim/mst.py",
    "margnet": "margnet.py",
    "tab-pe": "tab_pe.py",
    "datasynthesizer": "datasynthesizer/datasynthesizer.py",
}
"""Programs of other methods, below ``peers``; each has its README there."""

OWN_PYTHON = (AIM, MST, "datasynthesizer")
"""Those that have an environment of their own, which their ``setup`` makes."""

ALPHAS = (1, 2, 3, 4)
OVER_TIME = (-signal.SIGXCPU, -signal.SIGKILL)
SHAPES = ("ks", "wasserstein", "correlation")
Found = dict[str, list[dict[str, object]]]


@dataclass(frozen=True)
class Cell:
    """What is measured once."""

    table: str
    generator: str
    options: str
    epsilon: float
    delta: float
    neighbours: str
    seed: int
    rows: int
    categories_only: bool
    subsets: int


class Results:
    """Finished cells, written after each one so that a stopped run loses nothing."""

    def __init__(self, path: Path | None, *, resume: bool) -> None:
        self._path = path
        self._done: dict[Cell, dict[str, object]] = {}
        if path is not None and path.exists():
            if not resume:
                sys.exit(f"{path} exists. Add --resume to keep its cells, or name another file.")
            for record in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                self._done[Cell(**record["cell"])] = record["result"]

    def get(self, cell: Cell) -> dict[str, object] | None:
        return self._done.get(cell)

    def put(self, cell: Cell, result: dict[str, object]) -> None:
        self._done[cell] = result
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            cells = [{"cell": asdict(each), "result": found} for each, found in self._done.items()]
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps({"finished": time.time(), "cells": cells}, indent=1), encoding="utf-8")
            partial.replace(self._path)


def source_of(generator: str) -> str:
    """Return a digest of the code that a cell was made by."""
    folder = HERE / "peers" if generator in PEERS else HERE.parent / "synth"
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def python_of(generator: str, asked: argparse.Namespace) -> Path:
    """Return the program that runs a method."""
    if generator in (AIM, MST):
        return Path(asked.aim_python)
    folder = HERE.parent / "build" / "peers" / generator
    return folder / "bin" / "python" if generator in OWN_PYTHON else Path(sys.executable)


def command_of(cell: Cell, table: Table, folder: Path, out: Path, python: Path) -> list[str]:
    common = ["--epsilon", str(cell.epsilon), "--delta", str(cell.delta), "--seed", str(cell.seed)]
    common += ["--rows", str(cell.rows), "--out", str(out)]
    if cell.generator not in PEERS:
        options = ["--generator", cell.generator, "--options", cell.options]
        return [sys.executable, str(HERE / "cell.py"), str(folder), *options, *common]
    words = [str(HERE / "peers" / PEERS[cell.generator]), "--input", str(folder / "bins.npy")]
    words += ["--domain", str(folder / "domain.json"), "--neighbours", cell.neighbours]
    words += ["--rows-per-unit", str(table.schema.unit.rows_per_unit)]
    for name, value in json.loads(cell.options).items():
        words += [f"--{name}", str(value)]
    if cell.generator in ("tab-pe", "datasynthesizer"):
        places = {column.name: place for place, column in enumerate(table.schema.modelled)}
        ordered = [places[column.name] for column in table.schema.modelled if column.levels > 2]
        words += ["--ordered", *map(str, ordered)] if ordered else []
        words += ["--label", str(places[table.label])] if table.label and cell.generator == "tab-pe" else []
    return [str(python), *words, *common]


def write_inputs(folder: Path, table: Table) -> None:
    """Write what the processes read: codes and the declared schema for ours, bins and their numbers for AIM."""
    write_folder(folder, table.schema, table.label, table.codes, table.units)
    np.save(folder / "bins.npy", table.binned(table.codes))
    (folder / "domain.json").write_text(json.dumps(table.sizes), encoding="utf-8")


def released(
    cell: Cell, table: Table, folder: Path, asked: argparse.Namespace
) -> tuple[dict[str, object], np.ndarray | None]:
    """Make one synthetic table in a process of its own; return what that used, and the rows if it made them.

    Rows of peers are bins, ours are codes.
    """
    source: dict[str, object] = {"source": source_of(cell.generator)}
    if asked.untimed and cell.generator not in PEERS:
        options = json.loads(cell.options)
        return source, synthetic(folder, cell.generator, options, (cell.epsilon, cell.delta), cell.rows, cell.seed)
    out = folder / "synthetic.npy"
    out.unlink(missing_ok=True)
    command = command_of(cell, table, folder, out, python_of(cell.generator, asked))
    run = subprocess.run(
        [sys.executable, "-S", str(HERE / "measured.py"), str(asked.limit), *command],
        stdout=subprocess.PIPE,
        check=True,
        cwd=HERE.parent,
    )
    used = json.loads(run.stdout)
    return source | used, None if used["code"] or not out.exists() else np.load(out)


def measure(cell: Cell, table: Table, folder: Path, asked: argparse.Namespace) -> dict[str, object]:
    """Make one synthetic table and compare it."""
    real = table.binned(table.codes)

    def distances(bins: np.ndarray, codes: np.ndarray) -> dict[str, object]:
        at_most = None if table.every_code else cell.subsets
        alphas = [alpha for alpha in asked.alphas if alpha <= len(table.sizes)]
        found = {
            f"tv{alpha}": mean_total_variation(real, bins, table.sizes, alpha, at_most=at_most) for alpha in alphas
        }
        return found | shape_distances(table, table.codes, codes)

    if cell.generator == FLOOR:
        drawn = np.random.default_rng(cell.seed).integers(len(table.codes), size=cell.rows)
        return distances(real[drawn], table.codes[drawn])
    result, rows = released(cell, table, folder, asked)
    if rows is None:
        return result
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
        name = f"{cell.table}-{cell.generator}-{cell.epsilon:g}-{cell.neighbours}-{cell.seed}.npy"
        np.save(asked.keep / name, rows)
    bins = rows.astype(np.int64) if cell.generator in PEERS else table.binned(rows)
    codes = table.unbinned(rows, cell.seed) if cell.generator in PEERS else rows
    return result | distances(bins, codes)


def spread(values: list[float], decimals: int) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.{decimals}f} ± {deviation:.{decimals}f}"


def line(name: str, results: list[dict[str, object]], columns: tuple[str, ...]) -> str:
    finished = [result for result in results if columns[0] in result]
    cells = []
    for key in columns:
        values = [float(result[key]) for result in finished if key in result]  # type: ignore[arg-type]
        cells.append(spread(values, 4) if values else "-")
    for key, unit, decimals in (("cpu_seconds", 1.0, 1), ("peak_bytes", 2.0**20, 0)):
        values = [float(result[key]) / unit for result in finished if key in result]  # type: ignore[arg-type]
        cells.append(spread(values, decimals) if values else "-")
    failed = [result for result in results if columns[0] not in result]
    late = sum(result["code"] in OVER_TIME for result in failed)
    note = f"  {late} of {len(results)} stopped after {failed[0]['limit']} CPU s" if late else ""
    note += f"  {len(failed) - late} of {len(results)} failed" if len(failed) > late else ""
    return f"{name:>24} " + " ".join(f"{each:>15}" for each in cells) + note


def differences(title: str, found: Found, against: str, shown: tuple[str, ...]) -> list[str]:
    """Say by how much each generator is worse than one of them, measure by measure; a lower measure is better."""
    lines = []
    for generator, results in found.items():
        for key in shown if generator != against else ():
            ours, theirs = ([float(one[key]) for one in each if key in one] for each in (results, found[against]))  # type: ignore[arg-type]
            if min(len(ours), len(theirs)) < 2:
                continue
            worse = statistics.fmean(ours) - statistics.fmean(theirs)
            error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (ours, theirs)))
            verdict = "better" if worse < -2 * error else "WORSE" if worse > 2 * error else "within two"
            sides = f"{statistics.fmean(ours):.4f} - {statistics.fmean(theirs):.4f}"
            lines.append(f"{title:>24} {generator:>16} {key:>11} {sides:>15} = {worse:+.4f} ± {error:.4f}  {verdict}")
    return lines


def compare(name: str, asked: argparse.Namespace, results: Results, scratch: Path) -> list[str]:
    """Measure every cell of one table, printing as they come; return the lines of ``--against``."""
    table = load(name, neighbours=asked.neighbours, categories_only=asked.categories_only)
    folder = scratch / name
    write_inputs(folder, table)
    print(f"\n{name}: {table.codes.shape[0]:,} rows x {table.codes.shape[1]} columns, {asked.neighbours}, ", end="")
    print(f"delta {asked.delta:g}, {table.schema.unit.sentence.lower()}, {asked.seeds} seeds")
    shown = tuple(f"tv{alpha}" for alpha in asked.alphas) + (() if table.every_code else SHAPES)
    print(f"{'':>24} " + " ".join(f"{head:>15}" for head in (*shown, "CPU s", "peak MiB")), flush=True)
    generators = [each for each in (CONTROL, *asked.generators) if each != FLOOR]
    lines = []
    for epsilon in (None, *asked.epsilons):
        at_epsilon: Found = {}
        for generator in [FLOOR] if epsilon is None else list(dict.fromkeys(generators)):
            options = asked.aim_options if generator == AIM else asked.options.get(generator, {})
            found = []
            for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
                cell = Cell(
                    table=name,
                    generator=generator,
                    options=json.dumps(options, sort_keys=True),
                    epsilon=epsilon or 0.0,
                    delta=asked.delta,
                    neighbours=asked.neighbours,
                    seed=seed,
                    rows=asked.rows or len(table.codes),
                    categories_only=asked.categories_only,
                    subsets=asked.subsets,
                )
                result = results.get(cell)
                if result is None:
                    result = measure(cell, table, folder, asked)
                    results.put(cell, result)
                elif result.get("source", source_of(generator)) != source_of(generator):
                    print(f"{'':>24} (kept: {generator}, seed {seed}, made by other code)")
                found.append(result)
            title = generator if epsilon is None else f"{generator} {epsilon:g}"
            print(line(title, found, shown), flush=True)
            at_epsilon[generator] = found
        if asked.against in at_epsilon:
            new = differences(f"{name} {epsilon:g}", at_epsilon, asked.against, shown)
            for each in new:
                if each.endswith("WORSE"):
                    print(each, flush=True)
            lines += new
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=["simple"])
    parser.add_argument("--generators", nargs="+", choices=[*PEERS, *GENERATORS], default=[AIM, "independent"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--neighbours", choices=("add_remove", "replace_one"), default="add_remove")
    parser.add_argument("--alphas", nargs="+", type=int, choices=ALPHAS, default=list(ALPHAS), help="sizes of sets")
    parser.add_argument("--against", choices=[*PEERS, *GENERATORS], help="say who is worse than this one")
    parser.add_argument("--untimed", action="store_true", help="ours in this process: soon done, no time and memory")
    parser.add_argument("--rows", type=int, help="rows to make; default: as many as the real table has")
    parser.add_argument("--subsets", type=int, default=500, help="sets compared at most, on raw tables")
    parser.add_argument("--categories-only", action="store_true", help="declare no numbers in the discretised tables")
    parser.add_argument("--options", type=json.loads, default={}, help='JSON: {"generator": {"option": value}}')
    parser.add_argument("--aim-options", type=json.loads, default={}, help='JSON: {"rounds": 240}')
    parser.add_argument("--aim-python", type=Path, default=HERE.parent / "build" / "peers" / "aim" / "bin" / "python")
    parser.add_argument("--limit", type=float, default=1800, help="CPU seconds of one cell")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for the synthetic tables, as codes")
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    for peer in OWN_PYTHON:
        if peer in asked.generators and not python_of(peer, asked).exists():
            sys.exit(f"{peer} has an environment of its own: run benchmarks/peers/{peer}/setup first.")
    results = Results(asked.json, resume=asked.resume)
    with tempfile.TemporaryDirectory() as scratch:
        lines = [each for name in asked.tables for each in compare(name, asked, results, Path(scratch))]
    if asked.against:
        print(f"\nWorse than {asked.against} (mean - mean = difference ± standard error):")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
