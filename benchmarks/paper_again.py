"""The tables and figures of the DP-HP paper (Vinaroz 2022) again, with every generator, in one place.

    HERMITAGE_DATA=FOLDER python -m benchmarks.paper_again [--only table1 table2 figure3 figure4] [--seeds 5] \
        [--hours 8] [--seconds N] [--kept FILE] [--write]

- ``table1``: mean total variation over sets of columns of discretised Adult and Census, at epsilon 0.3 and 0.1, as the
  released code of the paper computes it (one column more than it says, one bin too few) and as the paper defines it.
- ``table2``: twelve classifiers on real rows (``downstream.py``), in the paper's convention and in a sound one.
- ``figure3``: accuracy on the 10,000 test pictures of MNIST by the number of generated pictures (``images.py``); the
  GANs at epsilon 10 too, because the paper shows them with weak budgets.
- ``figure4``: two of these pictures for each digit.

Beside every generator of the registry stand the real rows, rows drawn with replacement or the controls, and what the
paper prints; it prints Figures 3 and 4 as pictures, without numbers. The relation is the paper's, one row replaced; a
generator that hides only whether a row is there is measured so, and its row says it. Delta is 1e-5.

A cell (a table, a generator, an epsilon, a seed) is a process of its own on one thread, one after the other, seed by
seed, and is kept in a file of JSON lines as soon as it is done, so a second start goes on. The rules for what takes too
long are these: a cell that needs more than 1,800 CPU seconds is stopped and measured once more from a quarter of the
rows to learn from, which its row says; if that takes too long as well, it is left out, with the reason. Of Census at
most 500 sets of columns are compared, classifiers of Table 2 learn from at most 20,000 rows, and those of Figure 3 from
at most 6,000 pictures. After 8 CPU hours over all starts no further cell is begun (``--hours``), nor after
``--seconds`` of this start. Noise is fresh; a seed repeats training, sampling and splits.

Not here, because the public data are not: ``epileptic`` of Table 2 and FashionMNIST (with the convolutional generator
that the paper has only there). ``--write`` puts the kept figures into ``docs/results.md`` and draws its pictures.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from cell import made
from dp_hp_printed import REAL
from kept import Kept
from numpy.typing import NDArray

from synth.errors import ConfigError, PrivacyError, SynthError
from synth.generators import GENERATORS, GeneratorTask, make
from synth.schema import CategoryColumn, NumberColumn, Schema

HERE = Path(__file__).resolve().parent
KEPT = HERE / "paper_again.jsonl"
DELTA = 1e-5
MOST_SECONDS, PART = 1800, 4
"""CPU seconds of a cell, and the part of its rows (one in so many) that it learns from if it needs more."""

SETS = 500
"""The most sets of columns of Census that are compared."""

SIZES = (60, 600, 6000)
LEVELS = 256
SHOWN_LEVELS = 16
"""Grey values of the pictures of Figure 4."""

FLOOR = "rows drawn again"
CONTROLS = ("independent", "independent-by-class")
GANS = ("dp-gan", "dp-cgan", "gs-wgan")
WEAK_EPSILON = 10.0
ADD_REMOVE, REPLACE = "add_remove", "replace_one"
PAPERS = ", the paper's settings"
_TABLE_4: dict[float, dict[str, object]] = {
    0.3: {"order": 100, "order_product": 10, "prod_dimension": 5, "gamma": 1.0, "epochs": 8},
    0.1: {"order": 100, "order_product": 5, "prod_dimension": 7, "gamma": 1.0, "epochs": 8},
}
"""Of Adult; Table 4 names no epochs, Table 5 does."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured once.

    Attributes
    ----------
    part : str
        ``table1``, ``table2`` or ``figure3``, whose pictures are those of Figure 4.
    table : str
        As the paper calls it.
    trained_on : str
        A generator, one with ``, the paper's settings``, or the real rows.
    epsilon : float
        0 for real rows.
    seed : int
    convention : str
        Of Table 2: ``paper`` or ``sound``.
    """

    part: str
    table: str
    trained_on: str
    epsilon: float
    seed: int
    convention: str = ""

    @property
    def generator(self) -> str:
        """The name in the registry."""
        return self.trained_on.removesuffix(PAPERS)

    def options(self) -> dict[str, object]:
        """Return the options of the generator."""
        if not self.trained_on.endswith(PAPERS):
            return {}
        if self.part == "table1":
            return _TABLE_4[self.epsilon]
        from images import OPTIONS

        return OPTIONS[self.generator]


# What is measured -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows to learn from."""

    schema: Schema
    label: str | None
    codes: NDArray[np.int64]


def rows_of(cell: Cell, rows: Rows, *, in_parts: int, n_made: int) -> tuple[NDArray[np.int64], dict[str, object]]:
    """Return the rows that a generator makes, and under which relation and from how many rows."""
    learnt = rows.codes
    if in_parts > 1:
        learnt = learnt[np.random.default_rng(cell.seed).permutation(len(learnt))[: len(learnt) // in_parts]]
    refused: SynthError | None = None
    for relation, row_count in ((REPLACE, "public"), (ADD_REMOVE, "private")):
        schema = replace(rows.schema, row_count=row_count, number_of_units=None)
        columns = {name: learnt[:, d] for d, name in enumerate(schema.names)}
        try:
            make(cell.generator, GeneratorTask(schema, rows.label, seed=cell.seed, device="cpu"), cell.options())
            codes = made(
                schema, rows.label, columns, None, cell.generator, cell.options(), (cell.epsilon, DELTA), n_made,
                cell.seed,
            )  # fmt: skip
        except (ConfigError, PrivacyError) as error:
            refused = refused or error
        else:
            return codes.astype(np.int64), {"relation": relation, "learnt_from": len(learnt)}
    raise refused or AssertionError


def _table_one_rows(name: str) -> Rows:
    from tables import load

    table = load("simple" if name == "adult" else name, neighbours=REPLACE)
    if table.every_code:
        return Rows(table.schema, table.label, table.codes)
    # As discretised tables come: one code for each bin.
    columns = tuple(
        CategoryColumn(column.name, tuple(map(str, range(size))))
        if isinstance(column, CategoryColumn)
        else NumberColumn(column.name, 0, size - 1, 1)
        for column, size in zip(table.schema.modelled, table.sizes, strict=True)
    )
    return Rows(Schema(columns), table.label, table.binned(table.codes))


def measure_marginals(cell: Cell, in_parts: int) -> dict[str, object]:
    """Return the distances of one synthetic table: ``printed<alpha>`` and ``right<alpha>``."""
    from metrics import mean_total_variation, printed_total_variation

    rows, at_most = _table_one_rows(cell.table), None if cell.table == "adult" else SETS
    said: dict[str, object] = {}
    if cell.trained_on == FLOOR:
        codes = rows.codes[np.random.default_rng(cell.seed).integers(len(rows.codes), size=len(rows.codes))]
    else:
        codes, said = rows_of(cell, rows, in_parts=in_parts, n_made=len(rows.codes))
    for alpha in ALPHAS[cell.table]:
        said[f"printed{alpha}"] = printed_total_variation(rows.codes, codes, alpha, at_most=at_most)
        said[f"right{alpha}"] = mean_total_variation(rows.codes, codes, rows.schema.sizes, alpha, at_most=at_most)
    return said


def measure_scores(cell: Cell, in_parts: int) -> dict[str, object]:
    """Return the mean scores of twelve classifiers, as ``downstream.py`` computes them."""
    from downstream import prepared, scored

    table, test = prepared(cell.table, cell.convention, cell.seed)
    codes, said = table.codes, {}
    if cell.trained_on != REAL:
        rows = Rows(table.schema, table.label, table.codes)
        codes, said = rows_of(cell, rows, in_parts=in_parts, n_made=len(table.codes))
    found = scored(table, codes, test, cell.seed)
    del found["classifiers"]
    return said | found


def measure_pictures(cell: Cell, in_parts: int) -> dict[str, object]:
    """Return mean accuracies of twelve classifiers by size, and of the first seed two pictures of each digit."""
    from images import accuracies, problem
    from pictures import mnist

    task = problem(mnist(Path(os.environ["HERMITAGE_DATA"])), LEVELS)
    codes, said = task.train, {}
    if cell.trained_on != REAL:
        codes, said = rows_of(
            cell, Rows(task.schema, task.label, task.train), in_parts=in_parts, n_made=len(task.train)
        )
    codes = np.random.default_rng(cell.seed).permutation(codes)
    for size in SIZES:
        by_name = accuracies(codes, task.test, LEVELS, size=size, seed=cell.seed)
        said[f"accuracy{size}"] = float(np.mean(list(by_name.values())))
    if cell.seed == 0:
        said["pictures"] = packed(codes)
    return said


def packed(codes: NDArray[np.int64]) -> str:
    """Return two pictures of each digit as text, in the order of the digits; black where there is none."""
    shown = np.zeros((2, 10, 784), dtype=np.uint8)
    for digit in range(10):
        of_digit = codes[codes[:, -1] == digit][:2, :-1]
        shown[: len(of_digit), digit] = of_digit * SHOWN_LEVELS // LEVELS
    return base64.b85encode(zlib.compress(shown.tobytes(), 9)).decode()


def unpacked(text: str) -> NDArray[np.uint8]:
    """Return what :func:`packed` wrote, shape (2, 10, 28, 28), values below ``SHOWN_LEVELS``."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=np.uint8).reshape(2, 10, 28, 28)


ALPHAS = {"adult": (3, 4), "census": (2, 3)}
"""Of Table 1, by table."""

MEASURES: Mapping[str, Callable[[Cell, int], dict[str, object]]] = {
    "table1": measure_marginals,
    "table2": measure_scores,
    "figure3": measure_pictures,
}


# Which cells ----------------------------------------------------------------------------------------------------------


def cells_of(part: str, seed: int) -> Iterator[Cell]:
    """Yield the cells of one part and seed, quick ones first."""
    if part == "table1":
        for table in ALPHAS:
            yield Cell(part, table, FLOOR, 0.0, seed)
            for epsilon in (0.3, 0.1):
                yield from (Cell(part, table, name, epsilon, seed) for name in GENERATORS)
        yield from (Cell(part, "adult", f"dp-hp{PAPERS}", epsilon, seed) for epsilon in _TABLE_4)
    elif part == "table2":
        from downstream import PAPER, SOUND, TABLES

        for table in sorted(TABLES, key=QUICK_FIRST.index):
            # Where nothing is left out, both conventions are read off one training.
            for convention in (SOUND, PAPER) if TABLES[table].kept < 1.0 else (SOUND,):
                yield Cell(part, table, REAL, 0.0, seed, convention)
                yield from (Cell(part, table, name, 1.0, seed, convention) for name in GENERATORS)
    else:
        yield Cell(part, "mnist", REAL, 0.0, seed)
        names = [f"{name}{PAPERS}" if name == "dp-hp" else name for name in GENERATORS]
        yield from (Cell(part, "mnist", name, 1.0, seed) for name in names)
        yield from (Cell(part, "mnist", name, WEAK_EPSILON, seed) for name in names if name in GANS)


QUICK_FIRST = ("cervical", "credit", "isolet", "covtype", "adult", "intrusion", "census")
PARTS = ("table1", "table2", "figure3")


def in_a_process(cell: Cell, limit: float, in_parts: int) -> dict[str, Any] | None:
    """Measure a cell in a process of its own; return None if it was stopped at the limit of its CPU seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        into = Path(scratch) / "result.json"
        command = [sys.executable, str(Path(__file__)), "--one", json.dumps(asdict(cell)), str(in_parts), str(into)]
        began = time.monotonic()
        run = subprocess.run(
            [sys.executable, "-S", str(HERE / "measured.py"), str(limit), *command],
            stdout=subprocess.PIPE,
            check=True,
            cwd=HERE.parent,
        )
        used = json.loads(run.stdout)
        said = {"cpu_seconds": round(used["cpu_seconds"], 1), "seconds": round(time.monotonic() - began, 1)}
        if into.exists():
            return json.loads(into.read_text(encoding="utf-8")) | said
    if used["cpu_seconds"] >= limit - 1:
        return None
    raise RuntimeError(f"{cell} failed with exit code {used['code']}: see above.")


def measured(cell: Cell) -> dict[str, Any]:
    """Measure a cell by the rules for what takes too long."""
    found = in_a_process(cell, MOST_SECONDS, 1)
    if found is None:
        found = in_a_process(cell, MOST_SECONDS, PART) if cell.trained_on not in (REAL, FLOOR) else None
        if found is None:
            why = f"more than {MOST_SECONDS:,} CPU s, and from a quarter of the rows as well"
            return {"left_out": why, "cpu_seconds": 2.0 * MOST_SECONDS}
        found |= {"quarter": True, "cpu_seconds": found["cpu_seconds"] + MOST_SECONDS}
    return found


def run(kept: Kept[Cell], wanted: Iterable[Cell], *, hours: float, seconds: float) -> None:
    """Measure the cells that are missing, as long as time is left."""
    began = time.monotonic()
    for cell in wanted:
        if cell in kept.results:
            continue
        if kept.seconds >= hours * 3600 or time.monotonic() - began >= seconds:
            print("Time is up; start again to go on.", flush=True)
            return
        kept.put(cell, measured(cell))
        print(_line(cell, kept.results[cell]), flush=True)


def _line(cell: Cell, result: Mapping[str, Any]) -> str:
    numbers = "  ".join(
        f"{name} {value:.4f}" for name, value in result.items() if isinstance(value, float) and "seconds" not in name
    )
    where = " ".join(filter(None, (cell.part, cell.table, cell.convention)))
    epsilon = f" at epsilon {cell.epsilon:g}" if cell.epsilon else ""
    how = f"  [{result['relation']}]" if result.get("relation") == ADD_REMOVE else ""
    said = result.get("left_out") or numbers
    return f"{where}, {cell.trained_on}{epsilon}, seed {cell.seed}: {said}{how}  ({result['cpu_seconds']:.0f} CPU s)"


def measure_here(cell: Cell, in_parts: int, into: Path) -> None:
    """Measure a cell in this process and write what was found, or why a generator refuses."""
    import torch

    torch.set_num_threads(1)
    try:
        found = MEASURES[cell.part](cell, in_parts)
    except SynthError as error:
        found = {"left_out": str(error).partition(". ")[0].removesuffix(".")}
    into.write_text(json.dumps(found), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=(*PARTS, "figure4"), default=[*PARTS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hours", type=float, default=8.0, help="CPU hours of all cells together, over all starts")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no cell after so many of this start")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the file of JSON lines")
    parser.add_argument("--write", action="store_true", help="measure nothing; write docs/results.md and its pictures")
    parser.add_argument("--one", nargs=3, metavar=("CELL", "PARTS", "INTO"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        body, in_parts, into = asked.one
        measure_here(Cell(**json.loads(body)), int(in_parts), Path(into))
        return
    from paper_again_pages import lines, write

    kept = Kept(asked.kept, Cell)
    if asked.write:
        write(kept.results)
        return
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    # The pictures of Figure 4 are those of the first seed of Figure 3.
    parts = list(dict.fromkeys("figure3" if part == "figure4" else part for part in asked.only))
    wanted = [cell for seed in range(asked.seeds) for part in parts for cell in cells_of(part, seed)]
    run(kept, wanted, hours=asked.hours, seconds=asked.seconds)
    print(*lines(kept.results, parts), sep="\n")
    done = sum(cell in kept.results for cell in wanted)
    print(f"{done} of {len(wanted)} cells are done, in {kept.seconds / 3600:.2f} CPU hours.")


if __name__ == "__main__":
    import paper_again

    paper_again.main()  # of the module that the pages import, so that there is one kind of cell
