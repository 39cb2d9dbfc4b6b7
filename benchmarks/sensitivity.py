"""How much a generator's rows depend on each constant that was chosen, and where a table reaches its code at all.

    HERMITAGE_DATA=FOLDER python benchmarks/sensitivity.py --generator dp-hp-adaptive --keep build/sensitivity.jsonl \
        [--tables ...] [--only ...] [--numbers 3] [--seeds 1 2] [--factors 0.5 2] [--hours 1]

The constants are those that a generator lists. Each is halved and doubled, the others left alone; the generator learns
from the real rows through a private session (epsilon 1, delta 1e-5, one row added or removed) and its rows are
compared: mean total variation over sets of two and three columns (numbers in ten parts); the area under the ROC curve
of boosting on real test rows, as in ``whole_row.py``; and of numbers the Kolmogorov-Smirnov distance and, code by code,
the total variation. The noise of a seed is the same whatever is changed (in this benchmark alone, and of public or
simulated tables), so a constant that makes no difference gives the very same rows.

A table may say after a colon what it is learned for: ``titanic:prediction``, ``wine_red:regression``; or that groups
of its label are compared: ``titanic:groups``. The tables of ``rules.py``, and those with ``:undeclared``, are for
constants about rules and orders: there the sets are those of columns that a rule is about, and in the place of the ROC
curve stands how far the distributions of differences of ordered columns are from the real ones (Kolmogorov-Smirnov).

Of the runs without a change it is noted which constants' lines were run. Printed for each constant and table is the
change of the measures in standard errors (positive: better), whose variance between seeds is pooled over all cells of
the table; as it is, the generator is run at three times as many seeds. In its place stands ``.`` where the table does
not reach the constant's code, and nothing was run; ``=`` where all rows were the same; ``?`` where nothing is measured
yet. A constant is *felt* on a table where a measure changes by more than some 3 of 1,000 do by chance alone: three
errors where that variance is of many cells, by Student's distribution more where it is of few. One that is felt nowhere
may be a round figure or go; one that is felt on a single table fits that table.
Finished cells are kept as lines of JSON; when ``--hours`` of CPU are used no more are begun, and what is missing is
said. For a generator that takes few columns, ``--numbers`` leaves each table its first numbers and its label.
"""

from __future__ import annotations

import argparse
import dis
import hashlib
import importlib
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import rules
from cell import synthetic, write_folder
from metrics import mean_total_variation
from raw_tables import frame
from scipy import stats
from shapes import shape_distances
from tables import TABLES as EVERY
from tables import Table, load_split
from whole_row import BINS, LEARNT_FROM
from whole_runs import accuracies, classifiers

from synth.errors import ConfigError
from synth.generators import GENERATORS
from synth.generators.options import option_fields
from synth.generators.protocol import Tuned
from synth.schema import NumberColumn

TABLES = (
    *("titanic", "few15", "wine_red", "simple", "scm_tree", "g10", "heaps", "isolet", "sixty_2k"),
    *("artificial_characters", "titanic:prediction", "wine_red:regression", "visits", "trips:undeclared"),
)
"""Small, sparse, dense, wide, with round values, with what rows may be for, and with orders."""

HIGHER_IS_BETTER = {"auc"}
OF_RULES = tuple(f"{name}{hidden}" for name in rules.SIMULATED for hidden in ("", ":undeclared"))
PURPOSES = ("prediction", "regression")
ANY = (*EVERY, *OF_RULES, *(f"{name}:{how}" for name in EVERY for how in (*PURPOSES, "groups")))
BUDGET = (1.0, 1e-5)
MOST_ROWS = 20_000
FACTORS = (0.5, 2.0)
AS_IT_IS = ("", 1.0)
FELT = stats.norm.sf(3.0)
"""Chance of a change of three errors or more, in one direction, where nothing changed."""

ROWS, REACHED = "rows", "reached"
"""What is kept beside the measures: a digest of the rows, and the constants whose lines were run."""

Cell = tuple[str, str, float, str, int]


def title_of(constant: Tuned) -> str:
    """Return a name that no other constant of the generator has: several modules have a threshold of one name."""
    return constant.name if constant.is_option else f"{constant.module.rpartition('.')[2]}.{constant.name}"


def value_of(generator: str, constant: Tuned) -> float:
    """Return what a constant is today."""
    if constant.is_option:
        return next(one.default for one in option_fields(GENERATORS[generator].options) if one.name == constant.name)  # type: ignore[return-value]
    return getattr(importlib.import_module(constant.module), constant.name)  # type: ignore[no-any-return]


def changed(value: float, factor: float) -> float:
    """Return a constant times a factor, whole where it is whole, and a share as odds, so that it stays one."""
    if isinstance(value, int):
        return max(1, round(value * factor))
    if 0 < value < 1 and factor > 1 and value * factor >= 1:
        return 1 - (1 - value) / factor
    return value * factor


def with_first_numbers(table: Table, test: np.ndarray, most: int | None) -> tuple[Table, np.ndarray]:
    """Return a table, and rows to test on, with its first numbers and its label alone; as it is without ``most``."""
    if most is None:
        return table, test
    columns = table.schema.modelled
    numbers = [place for place, one in enumerate(columns) if isinstance(one, NumberColumn) and one.name != table.label]
    kept = sorted([*numbers[:most], *(place for place, one in enumerate(columns) if one.name == table.label)])
    schema = replace(table.schema, columns=tuple(columns[place] for place in kept))
    return replace(table, schema=schema, codes=table.codes[:, kept]), test[:, kept]


@contextmanager
def set_to(constant: Tuned, value: float) -> Iterator[None]:
    """Set a constant in its module and wherever it was imported from there."""
    before = getattr(importlib.import_module(constant.module), constant.name)
    holders = _holders(constant)
    for module in holders:
        setattr(module, constant.name, value)
    try:
        yield
    finally:
        for module in holders:
            setattr(module, constant.name, before)


@contextmanager
def known_noise(at: str, seed: int) -> Iterator[None]:
    """Draw the noise of a table and a seed the same in every cell; nothing private is here."""
    before = os.urandom
    os.urandom = random.Random(f"{at} {seed}").randbytes  # noqa: S311  # of public tables
    try:
        yield
    finally:
        os.urandom = before


@contextmanager
def noting(constants: list[Tuned], reached: set[str]) -> Iterator[None]:
    """Note which constants stand in a line that is run; an option counts as reached."""
    reached |= {title_of(one) for one in constants if one.is_option}
    lines: dict[tuple[str, int], set[str]] = {}
    for constant in constants:
        for module in () if constant.is_option else _holders(constant):
            path = Path(module.__file__ or "")
            for line in _lines_with(compile(path.read_text(encoding="utf-8"), str(path), "exec"), constant.name):
                lines.setdefault((str(path), line), set()).add(title_of(constant))
    files = {path for path, _ in lines}

    def called(frame: FrameType, _event: str, _what: object) -> Any:
        return in_line if frame.f_code.co_filename in files else None

    def in_line(frame: FrameType, _event: str, _what: object) -> Any:
        reached.update(lines.get((frame.f_code.co_filename, frame.f_lineno), ()))
        return in_line

    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(None)


def _lines_with(code: CodeType, name: str) -> Iterator[int]:
    """Yield the lines of functions in which a name of the module is read."""
    for inner in (one for one in code.co_consts if isinstance(one, CodeType)):
        starts = 0
        for step in dis.get_instructions(inner):
            starts = step.starts_line or starts
            if step.argval == name and step.opname == "LOAD_GLOBAL":
                yield step.positions.lineno if step.positions and step.positions.lineno else starts
        yield from _lines_with(inner, name)


def _holders(constant: Tuned) -> list[Any]:
    """Return the modules that know a constant by its name: its own, and those that imported it."""
    before = getattr(importlib.import_module(constant.module), constant.name)
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("synth.")]
    return [one for one in ours if vars(one).get(constant.name) is before and _is_of(one, constant)]


def _is_of(module: Any, constant: Tuned) -> bool:
    """Whether a module has a constant from its module, and not one of the same name and value of its own."""
    if module.__name__ == constant.module:
        return True
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    return constant.module in text and f"\n{constant.name} =" not in text and f"\n{constant.name}, " not in text


def measure(
    ready: tuple[Table, np.ndarray, Path], generator: str, options: dict[str, Any], groups: tuple[str, ...], seed: int
) -> dict:
    """Make one synthetic table and compare it."""
    table, test, folder = ready
    rows = synthetic(folder, generator, options, BUDGET, len(table.codes), seed, groups=groups).astype(np.int64)
    real, made = table.binned(table.codes), table.binned(rows)
    found: dict[str, Any] = {
        f"tv{size}": mean_total_variation(real, made, table.sizes, size, at_most=200)
        for size in (2, 3)
        if size <= len(table.sizes)
    }
    label = table.label or ""
    sides = frame(table, rows[:LEARNT_FROM]), frame(table, test)
    boosting = {"boosting": classifiers(table.schema, label, seed)["histogram boosting"]}
    found["auc"] = accuracies(table.schema, label, *sides, seed, models=boosting)["boosting"]["roc_auc"]
    shapes = shape_distances(replace(table, every_code=False), table.codes, rows)
    if "ks" in shapes:
        every = mean_total_variation(table.codes, rows, table.schema.sizes, 1)
        found |= {"ks": shapes["ks"], "values": every}
    return found | {ROWS: _digest(rows)}


def _digest(rows: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows, dtype=np.int64).tobytes()).hexdigest()[:16]


def measure_by_rules(name: str, generator: str, options: dict[str, Any], seed: int) -> dict:
    """Make one synthetic table by a generator that is told a table's rules, and compare what they are about."""
    table, judge, told = ruled(name)
    model = rules.fitted(table, generator, options, told, epsilon=BUDGET[0], seed=seed)
    drawn = model.sample(len(table.codes), seed)
    found = judge.judged(drawn, drawn)
    lengths = [value for measure_, value in found.items() if measure_.startswith("KS of difference")]
    means = {"tv2": found["tv2 of rules"], "tv3": found["tv3 of rules"], "lengths": statistics.fmean(lengths)}
    return means | {ROWS: _digest(drawn)}


@cache
def ruled(name: str) -> tuple[Table, rules.Judge, tuple[str, ...]]:
    """Return a table of ``rules.py``, what judges rows by its rules, and the rules that a run is told."""
    plain, _, hidden = name.partition(":")
    table = rules.loaded(plain, undeclared=bool(hidden))
    return table, rules.Judge(table, rules.RULES[plain]), rules.told_rules(plain, undeclared=bool(hidden))


def measures_of(done: dict[Cell, dict], at: str) -> tuple[str, ...]:
    """Return what was measured on a table."""
    found = next((tuple(result) for cell, result in done.items() if cell[3] == at), ())
    return tuple(one for one in found if one not in (ROWS, REACHED))


def spread(done: dict[Cell, dict], at: str, measure_: str) -> tuple[float, int]:
    """Return the standard deviation between seeds, pooled over all cells of a table, and its degrees of freedom."""
    cells: dict[tuple[str, float], list[float]] = {}
    for (_, name, factor, table, _), result in done.items():
        if table == at:
            cells.setdefault((name, factor), []).append(result[measure_])
    several = [each for each in cells.values() if len(each) > 1]
    if not several:
        return math.nan, 0
    squares = sum(statistics.variance(each) * (len(each) - 1) for each in several)
    degrees = sum(len(each) - 1 for each in several)
    return math.sqrt(squares / degrees), degrees


def excess(changed_: list[dict], before: list[dict], measure_: str, deviation: float) -> float:
    """Return a change in standard errors, positive where it is better; ``deviation`` is that of one seed."""
    if not changed_ or not before:
        return math.nan
    sides = [[one[measure_] for one in each] for each in (changed_, before)]
    error = deviation * math.sqrt(sum(1 / len(each) for each in sides))
    difference = statistics.fmean(sides[0]) - statistics.fmean(sides[1])
    return (difference if measure_ in HIGHER_IS_BETTER else -difference) / max(error, 1e-9)


def seeds_of(asked: argparse.Namespace, name: str) -> list[int]:
    """Return the seeds of a constant's cells; three times as many where nothing is changed."""
    return list(asked.seeds) if name else [seed + 1000 * turn for turn in range(3) for seed in asked.seeds]


def read(path: Path | None) -> dict[Cell, dict]:
    if path is None or not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {tuple(line["cell"]): line["result"] for line in lines}  # type: ignore[misc]


def measure_all(asked: argparse.Namespace, constants: list[Tuned], done: dict[Cell, dict], folder: Path) -> int:
    """Measure what is missing, table by table; return how many cells are left when the time is used."""
    started, left = time.process_time(), 0
    # As it is on all tables first; then constants in their order, so that a stopped run knows the first ones wholly.
    plan = [AS_IT_IS, *((title_of(one), factor) for one in constants for factor in asked.factors)]
    by_title: dict[str, Tuned] = {title_of(one): one for one in constants}
    ready: dict[str, tuple[Table, np.ndarray, Path]] = {}
    for name, factor in plan:
        for at in asked.tables:
            for seed in seeds_of(asked, name):
                cell = (asked.generator, name, factor, at, seed)
                if cell in done or (name and not is_reached(asked, done, name, at)):
                    continue
                if time.process_time() - started > 3600 * asked.hours:
                    left += 1
                    continue
                constant = by_title.get(name)
                value = None if constant is None else changed(value_of(asked.generator, constant), factor)
                done[cell] = _measured(asked, ready, folder, at, constant, value, seed)
                if asked.keep is not None:
                    asked.keep.parent.mkdir(parents=True, exist_ok=True)
                    with asked.keep.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"cell": cell, "value": value, "result": done[cell]}) + "\n")
    return left


def _measured(
    asked: argparse.Namespace,
    ready: dict[str, tuple[Table, np.ndarray, Path]],
    folder: Path,
    at: str,
    constant: Tuned | None,
    value: float | None,
    seed: int,
) -> dict:
    """Measure one cell; without a constant, note which are reached."""
    plain, _, how = asked.tables[at].partition(":")
    of_rules = asked.tables[at] in OF_RULES
    options: dict[str, Any] = {"purpose": how} if how in PURPOSES else {}
    if not of_rules and at not in ready:
        ready[at] = _prepared(plain, asked.numbers, folder / at.replace(":", "."))
    reached: set[str] = set()
    if constant is not None and constant.is_option:
        changing: Any = nullcontext()
        options[constant.name] = value
    elif constant is not None:
        changing = set_to(constant, value)  # type: ignore[arg-type]
    else:
        changing = noting(list(GENERATORS[asked.generator].constants), reached)
    with known_noise(at, seed), changing:
        if of_rules:
            found = measure_by_rules(asked.tables[at], asked.generator, options, seed)
        else:
            groups = (ready[at][0].label or "",) if how == "groups" else ()
            found = measure(ready[at], asked.generator, options, groups, seed)
    return found if constant is not None else found | {REACHED: sorted(reached)}


def _prepared(name: str, numbers: int | None, folder: Path) -> tuple[Table, np.ndarray, Path]:
    """Read a table and rows to test on, at most so many rows, and write what a cell reads."""
    table, test = with_first_numbers(*load_split(name, neighbours="add_remove", seed=0), numbers)
    units = None if table.units is None else table.units[:MOST_ROWS]
    table = replace(table, bins=BINS, codes=table.codes[:MOST_ROWS], units=units)
    write_folder(folder, table.schema, table.label, table.codes, table.units)
    return table, test, folder


def is_reached(asked: argparse.Namespace, done: dict[Cell, dict], name: str, at: str) -> bool:
    """Whether a run without a change ran a constant's code; unknown where none noted it."""
    noted = [one[REACHED] for one in found(asked, done, *AS_IT_IS, at) if REACHED in one]
    return not noted or any(name in one for one in noted)


def found(asked: argparse.Namespace, done: dict[Cell, dict], name: str, factor: float, at: str) -> list[dict]:
    """Return the finished cells of a change and a table, by seed."""
    cells = ((asked.generator, name, factor, at, seed) for seed in seeds_of(asked, name))
    return [done[cell] for cell in cells if cell in done]


def is_alike(asked: argparse.Namespace, done: dict[Cell, dict], name: str, factor: float, at: str) -> bool:
    """Whether a change gives the same rows in all its seeds."""
    pairs = [
        (done[cell].get(ROWS), done[before].get(ROWS))
        for seed in asked.seeds
        if (cell := (asked.generator, name, factor, at, seed)) in done
        and (before := (asked.generator, *AS_IT_IS, at, seed)) in done
    ]
    return bool(pairs) and all(one is not None and one == other for one, other in pairs)


def show(asked: argparse.Namespace, constants: list[Tuned], done: dict[Cell, dict]) -> None:
    """Print how much each change is felt, table by table."""

    spreads = {at: {each: spread(done, at, each) for each in measures_of(done, at)} for at in asked.tables}
    degrees = {at: max((freedom for _, freedom in each.values()), default=0) for at, each in spreads.items()}
    limits = {at: float(stats.t.isf(FELT, degrees[at])) for at in asked.tables}
    print(f"{'constant':>40} {'value':>10}  " + "  ".join(f"{table:>22}" for table in asked.tables) + "  felt on")
    for constant in constants:
        felt, is_missing = set[str](), False
        for factor in asked.factors:
            cells = []
            for table in asked.tables:
                if not is_reached(asked, done, title_of(constant), table):
                    cells.append(".")
                    continue
                if is_alike(asked, done, title_of(constant), factor, table):
                    cells.append("=")
                    continue
                sides = (
                    found(asked, done, title_of(constant), factor, table),
                    found(asked, done, *AS_IT_IS, table),
                )
                if not all(sides):
                    is_missing = True
                    cells.append("?")
                    continue
                excesses = [excess(*sides, each, spreads[table][each][0]) for each in spreads[table]]
                felt |= {table} if any(abs(each) > limits[table] for each in excesses) else set()
                cells.append(" ".join(f"{each:+.1f}" for each in excesses))
            title = f"{title_of(constant)} x {factor:g}"
            value = changed(value_of(asked.generator, constant), factor)
            print(f"{title:>40} {value:>10.4g}  " + "  ".join(f"{each:>22}" for each in cells))
        nowhere = "nowhere so far" if is_missing else "nowhere"
        verdict = nowhere if not felt else "one table alone" if len(felt) == 1 else f"{len(felt)} tables"
        print(f"{'':>52}  {verdict}")
    print(f"{'felt from':>52}  " + "  ".join(f"{limits[table]:>22.1f}" for table in asked.tables))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--generator", choices=[name for name, card in GENERATORS.items() if card.constants], required=True
    )
    parser.add_argument("--tables", nargs="+", choices=ANY, default=list(TABLES))
    parser.add_argument("--only", nargs="+", help="names of constants")
    parser.add_argument("--numbers", type=int, help="of each table, beside its label; all columns by default")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--factors", nargs="+", type=float, default=list(FACTORS), help="0: as if it were not there")
    parser.add_argument("--hours", type=float, default=1.0, help="CPU hours after which no cell is begun")
    parser.add_argument("--keep", type=Path, help="file of finished cells, which are not run again")
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    listed = GENERATORS[asked.generator].constants
    constants = [one for one in listed if asked.only is None or title_of(one) in asked.only]
    few = "" if asked.numbers is None else f":{asked.numbers}"
    asked.tables = {f"{table}{few}": table for table in asked.tables}
    done = read(asked.keep)
    try:
        with tempfile.TemporaryDirectory() as folder:
            left = measure_all(asked, constants, done, Path(folder))
    except ConfigError as error:
        sys.exit(f"One of these tables is nothing for {asked.generator}; see --tables and --numbers. {error}")
    show(asked, constants, done)
    if left:
        print(f"{left} cells are missing: the time is used. Run it again with the same --keep.")


if __name__ == "__main__":
    main()
