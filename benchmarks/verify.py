"""What making and checking a bundle takes, over values, columns and rows, and how it grows.

    python benchmarks/verify.py [--generators independent dp-hp-adaptive] [--only values] [--limit 900] \
        [--json FILE] [--resume] [--keep FOLDER]
    python benchmarks/verify.py --honest [--generators kahm] [--only long wide] [--json FILE] [--resume]

The first form changes one thing at a time: the values of each of two numbers (10^3 to 2^24), the columns (10 to 2,000)
and the rows (1,000 to 100,000). The second is the list of honest bundles that have to verify: every generator and
private model with an income to 10 million, with 16.7 million values, with 300 and 1,000 columns, with several rows a
person, with rules, with columns that were found privately, and with a hold-out whose predictions are charged. What a
generator refuses by a sentence is printed as refused.

A bundle is made by ``synth run``, which checks what it seals, and then checked by ``synth verify`` within its usual
limits; each is a process of its own, on one thread. Seconds are by the clock. MiB are the largest that one process held
(``ru_maxrss`` of the command and of the confined processes that it waits for, read by ``wait4``), the checking process
of ``synth verify`` among them. Growth is the exponent of the last two sizes: 1 where twice as much takes twice as long.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import yaml

from synth.estimators import MODELS
from synth.generators import GENERATORS

GROWING: dict[str, tuple[int, ...]] = {
    "values": (10**3, 10**4, 10**5, 10**6, 10**7, 2**24),
    "columns": (10, 100, 300, 1000, 2000),
    "rows": (1_000, 10_000, 30_000, 100_000),
}
"""What is changed by itself, and its sizes."""

HONEST: dict[str, tuple[int, ...]] = {
    "income": (10**7,),
    "long": (2**24,),
    "wide": (300, 1000),
    "several rows": (3,),
    "rules": (1,),
    "found": (1,),
    "predictions": (1,),
}
"""What an honest bundle may have, and its sizes: values, columns, rows a person."""

OF_NUMBERS = ("private-regression", "regression-with-missing-inputs")
"""Models whose predictions can be charged where the label is a number."""

ALL_VALUES = 2**25
"""Values of all declared ranges together, at most."""

Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One table and its declaration: ``kind`` is what is changed or special, ``size`` how much of it."""

    kind: str
    generator: str
    size: int

    @property
    def key(self) -> str:
        """Its name in files."""
        return f"{self.kind} {self.size} {self.generator}"


@dataclass(frozen=True)
class Measured:
    """Seconds and MiB of making and checking a bundle, its size, and how it ended: holds, refused, or a sentence."""

    case: str
    made: float
    made_mib: int
    checked: float
    checked_mib: int
    bundle_mib: float
    ended: str


def drawn(case: Case) -> tuple[Table, dict[str, Any], dict[str, Any]]:
    """Return the cells of a case's table, its columns, and what else its configuration says."""
    random = np.random.default_rng(5)
    rows = {"rows": case.size, "values": 5000, "columns": 3000}.get(case.kind, 3000)
    kind, more = case.kind, dict[str, Any]()
    if kind in ("values", "income", "long"):
        top = min(case.size, (ALL_VALUES - 200) // 2) - 1
        spent = np.exp(random.normal(math.log(top) - 3, 1.2, (2, rows))).clip(0, top).round().astype(int)
        table = {"income": spent[0], "cost": spent[1], "ill": random.integers(0, 2, rows)}
        return table, {"income": number(0, top), "cost": number(0, top), "ill": number(0, 1)}, labelled(case, "ill")
    if kind in ("columns", "wide"):
        table = {f"q{place}": random.integers(0, 3, rows) for place in range(case.size)}
        return table, {name: number(0, 2) for name in table}, labelled(case, "q0")
    age, town = random.integers(18, 90, rows), random.integers(0, 4, rows)
    table = {
        "age": age,
        "town": np.array(["north", "south", "east", "west"])[town],
        "stay": np.minimum(random.poisson(age / 10), 40),
        "cost": (random.gamma(2.0, 900, rows) + 30 * age).clip(0, 20_000).round(),
        "ill": (random.random(rows) < 0.1 + age / 200).astype(int),
    }
    columns: dict[str, Any] = {
        "age": number(0, 110),
        "town": {"type": "category", "values": ["north", "south", "east", "west"], "fallback": "north"},
        "stay": number(0, 40),
        "cost": number(0, 20_000),
        "ill": number(0, 1),
    }
    more = labelled(case, "cost" if case.generator in OF_NUMBERS else "ill")
    if kind == "several rows":
        table["person"] = np.arange(rows) // case.size
        more["unit"] = {"protects": "person", "rows_per_unit": case.size, "id_column": "person"}
        columns["person"] = {"type": "identifier"}
    if kind == "rules":
        table["age"] = np.maximum(table["age"], table["stay"])
        more["rules"] = ["age >= stay"]
    if kind == "predictions":
        more |= {"holdout": 0.2, "prediction_share": 0.1}
    if kind == "found":
        columns = {name: {"type": "find"} for name in columns}
    return table, columns, more


def number(low: int, high: int) -> dict[str, Any]:
    """Declare whole numbers."""
    return {"type": "number", "low": low, "high": high, "step": 1, "fallback": low}


def labelled(case: Case, name: str) -> dict[str, Any]:
    """Declare the label where there is something to predict, or where the generator needs one."""
    needed = case.generator in MODELS or case.generator == "independent-by-class" or case.kind == "predictions"
    return {"label": name} if needed else {}


def write(case: Case, folder: Path) -> Path:
    """Write the table and the configuration of a case; return the configuration."""
    table, columns, more = drawn(case)
    lines = [
        ",".join(table),
        *(",".join(map(str, row)) for row in zip(*(own.tolist() for own in table.values()), strict=True)),
    ]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    count = len(lines) - 1
    config = {
        "table": str(folder / "table.csv"),
        "account": case.key,
        "unit": {"protects": "person", "rows_per_unit": 1},
        "row_count": "private",
        "people_at_most": 10 * count,
        "holdout": 0,
        "budget": {"epsilon": 3.0, "delta": 1e-6},
        "columns": columns,
    }
    what = (
        {"model": case.generator}
        if case.generator in MODELS
        else {"generator": {"name": case.generator}, "rows": count}
    )
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config | what | more, sort_keys=False))
    return path


def measured(case: Case, *, limit: float, keep: Path | None) -> Measured:
    """Make and check one bundle."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, home = Path(scratch), Path(scratch) / "home"
        config, out = write(case, folder), folder / "out"
        find = ["--find", "0.5"] if case.kind == "found" else []
        made = command(["run", str(config), "--out", str(out), "--no-owner-report", *find], home, limit)
        bundle = out / "bundle.zip"
        if made.code or not bundle.is_file():
            return Measured(case.key, made.seconds, made.mib, 0.0, 0, 0.0, made.said or "stopped")
        checked = command(["verify", str(bundle)], home, limit)
        size = bundle.stat().st_size / 2**20
        if keep is not None:
            bundle.replace(keep / f"{case.key}.zip")
    ended = "holds" if not checked.code else checked.said
    return Measured(case.key, made.seconds, made.mib, checked.seconds, checked.mib, size, ended)


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, seconds, the largest memory of one of its processes, and what it said."""

    code: int
    seconds: float
    mib: int
    said: str


def command(words: Sequence[str], home: Path, limit: float) -> Ended:
    """Run a command of the program in a process of its own; one that takes too long is ended."""
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "synth", *words],
            env={**os.environ, "HERMITAGE_HOME": str(home), "DATABASE_URL": ""},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while True:
            found, status, used = os.wait4(process.pid, os.WNOHANG)
            if found:
                break
            if time.perf_counter() - start > limit:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        said.seek(0)
        text = said.read().decode(errors="replace").strip().splitlines()
    telling = [line for line in text if line.startswith(("FAILED", "NOT CHECKED", "synth:", "Refused"))]
    last = (telling or text or [""])[-1] if process.returncode >= 0 else f"ended by signal {-process.returncode}"
    return Ended(process.returncode, seconds, used.ru_maxrss // 1024, last[:160])


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Yield what was asked for."""
    every = arguments.generators or ([*GENERATORS, *MODELS] if arguments.honest else ["independent", "dp-hp-adaptive"])
    for generator in every:
        for kind, sizes in (HONEST if arguments.honest else GROWING).items():
            if arguments.only is None or kind in arguments.only:
                yield from (Case(kind, generator, size) for size in sizes)


def main() -> int:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--honest", action="store_true", help="the list of honest bundles that have to verify")
    parser.add_argument("--generators", nargs="+", choices=[*GENERATORS, *MODELS])
    parser.add_argument("--only", nargs="+", choices=[*GROWING, *HONEST], help="these kinds of case")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of one command")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="leave out the cases that are in the file of --json")
    parser.add_argument("--keep", type=Path, help="a folder for the bundles")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    known: list[Measured] = []
    if arguments.resume and arguments.json is not None and arguments.json.is_file():
        known = [Measured(**one) for one in json.loads(arguments.json.read_text())]
    print(f"{'case':46} {'made s':>7} {'MiB':>6} {'checked s':>9} {'MiB':>6} {'bundle':>7}  growth  ended")
    before: tuple[Case, Measured] | None = None
    for case in cases(arguments):
        one = next((one for one in known if one.case == case.key), None)
        if one is None:
            one = measured(case, limit=arguments.limit, keep=arguments.keep)
            known.append(one)
            if arguments.json is not None:
                arguments.json.write_text(json.dumps([asdict(each) for each in known], indent=1))
        print(
            f"{case.key:46} {one.made:7.1f} {one.made_mib:6} {one.checked:9.1f} {one.checked_mib:6} "
            f"{one.bundle_mib:7.1f}  {growth(before, case, one):>6}  {one.ended}",
            flush=True,
        )
        before = case, one
    return 0


def growth(before: tuple[Case, Measured] | None, case: Case, one: Measured) -> str:
    """Return the exponent with which the time of a check grew from the size before."""
    if before is None or (before[0].kind, before[0].generator) != (case.kind, case.generator):
        return ""
    if before[0].size >= case.size or not (before[1].checked and one.checked):
        return ""
    return f"{math.log(one.checked / before[1].checked) / math.log(case.size / before[0].size):.2f}"


if __name__ == "__main__":
    sys.exit(main())
