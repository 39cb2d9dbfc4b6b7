"""One large simulated table as Parquet, released once: rows a second, peak memory, and what reading alone takes.

    python benchmarks/large.py [--rows 5000000] [--processes 1 2 4] [--folder FOLDER] [--holdout 0] [--only TEXT]

15 columns of claims: six categories, seven numbers, a date and a flag, all but two with missing cells. The table is
written once, a group of a million rows at a time, and is the same for the same number of rows; it is kept in FOLDER.

Each line is a process of its own, one after the other: the Parquet file parsed by pyarrow alone; one pass, which is the
file read to codes and the exact counts of all 105 pairs of columns, by 1, 2 and 4 local processes; and one whole
``synth run`` by the default generator, encryption, the reading before the charge and the check of the bundle included.
CPU seconds are those of all processes of a line together. Memory is the most that all of them hold at a time, where
memory that several share counts once (PSS), looked at five times a second. Every pass has to find the same sums.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import OneHot, Stack
from synth.privacy.noise import SystemNoise
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import RunConfig, load_config

GROUP = 1_000_000
LOOK_SECONDS = 0.2
MEBIBYTE = 2.0**20
KEY = bytes(32)
CATEGORIES = {"region": 12, "plan": 5, "sex": 3, "provider": 40, "diagnosis": 60, "channel": 4}

CONFIGURATION = """\
account: large-{rows}
unit: {{protects: claim, rows_per_unit: 1, id_column: null}}
row_count: private
people_at_most: 120000000
budget: {{epsilon: 1.0}}
holdout: {holdout}
rows: 100000
columns:
{categories}
  smoker: {{type: category, values: ["no", "yes"], missing: true}}
  age: {{type: number, low: 0, high: 99, step: 1, missing: true}}
  stay: {{type: number, low: 0, high: 60, step: 1, missing: true}}
  cost: {{type: number, low: 0, high: 20000, step: 100, missing: true}}
  income: {{type: number, low: 0, high: 250000, step: 5000, missing: true}}
  systolic: {{type: number, low: 70, high: 220, step: 1, missing: true}}
  bmi: {{type: number, low: 12, high: 60, step: 0.5, missing: true}}
  visits: {{type: number, low: 0, high: 30, step: 1, missing: true}}
  day: {{type: date, low: 2020-01-01, high: 2023-12-31, step: month, missing: true}}
"""


def group_of_rows(number: int, rows: int) -> pa.Table:
    """Return one group of simulated rows, which follows from its number alone."""
    random = np.random.default_rng([20261128, number])
    columns: dict[str, pa.Array] = {}
    for name, size in CATEGORIES.items():
        shares = 1 / np.arange(1, size + 1)
        codes = random.choice(size, rows, p=shares / shares.sum()).astype(np.int8)
        columns[name] = pa.DictionaryArray.from_arrays(codes, [f"{name} {place}" for place in range(size)])
    columns["smoker"] = pa.DictionaryArray.from_arrays((random.random(rows) < 0.3).astype(np.int8), ["no", "yes"])
    age = random.integers(0, 100, rows)
    columns["age"] = pa.array(age.astype(np.int16))

    def some(values: np.ndarray, kind: type) -> pa.Array:
        return pa.array(values.astype(kind), mask=random.random(rows) < 0.02)

    columns["stay"] = some(np.minimum(random.geometric(0.2, rows), 60), np.int16)
    columns["cost"] = some(np.minimum(random.lognormal(5, 1, rows).round(-1), 20_000), np.int32)
    columns["income"] = some(np.minimum(random.lognormal(10, 0.5, rows).round(-3), 250_000), np.int32)
    columns["systolic"] = some(np.clip(random.normal(110 + age / 4, 12), 70, 220).round(), np.int16)
    columns["bmi"] = some(np.clip(random.normal(26, 4, rows), 12, 60).round(1), np.float64)
    columns["visits"] = some(np.minimum(random.poisson(2, rows), 30), np.int16)
    columns["day"] = pa.array((18_262 + random.integers(0, 1461, rows)).astype(np.int32), pa.date32())
    return pa.table(columns)


def write(path: Path, rows: int) -> None:
    draft = path.with_suffix(".draft")
    with pq.ParquetWriter(draft, group_of_rows(0, 1).schema) as writer:
        for number, start in enumerate(range(0, rows, GROUP)):
            writer.write_table(group_of_rows(number, min(GROUP, rows - start)), row_group_size=GROUP)
    draft.rename(path)


def write_configuration(path: Path, rows: int, holdout: float) -> None:
    lines = []
    for name, size in CATEGORIES.items():
        values = ", ".join(f"{name} {place}" for place in range(size))
        lines.append(f"  {name}: {{type: category, values: [{values}], missing: true}}")
    path.write_text(CONFIGURATION.format(rows=rows, holdout=holdout, categories="\n".join(lines)), encoding="utf-8")


# Steps, each in a process of its own ----------------------------------------------------------------------------------


def parse(table: Path) -> dict[str, Any]:
    """Parse the file, and keep nothing."""
    file = pq.ParquetFile(table, pre_buffer=False)
    for _ in file.iter_batches(2**16, use_threads=False):
        pass
    return {}


def one_pass(table: Path, config: RunConfig, processes: int) -> dict[str, Any]:
    """Read the file to codes, and count all pairs of columns exactly."""
    begin = time.perf_counter()
    (rows,) = PrivateTable.open(
        lambda: table.open("rb"),
        "",
        config.schema,
        config.format,
        account_key=KEY,
        undeclared=config.undeclared,
        processes=processes,
    )
    read = time.perf_counter() - begin
    budget = PrivacyBudget(config.epsilon, config.delta, config.schema.neighbours)
    session = PrivateSession(rows, budget, noise=Silent())
    sizes = {column.name: column.size for column in config.schema.modelled}
    pairs = [OneHot(names, (None, None), tuple(map(sizes.__getitem__, names))) for names in combinations(sizes, 2)]
    question = Stack(tuple(pairs), ((1 - 1e-9) * len(pairs) ** -0.5,) * len(pairs))
    sums = session.noisy_sum(question, share=1.0, query="pairs", source="benchmark").value
    count = time.perf_counter() - begin - read
    return {"read": read, "count": count, "sums": hashlib.sha256(sums.tobytes()).hexdigest()}


class Silent(SystemNoise):
    """No noise, so that sums can be compared; the rows are simulated."""

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        """Return zeros."""
        return np.zeros(size, dtype=np.int64)


# Measured from outside ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What one command took, and what it printed."""

    seconds: float
    cpu: float
    peak: float
    said: str


def memory_of(process: psutil.Process) -> float:
    """Return the memory of a process and all that it started; what they share counts once."""
    held = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            held += one.memory_full_info().pss
        except psutil.Error:  # it has ended meanwhile
            continue
    return float(held)


def measured(command: list[str], environment: dict[str, str]) -> Measured:
    """Run a command, and look at its memory until it ends."""
    begin, peak = time.perf_counter(), 0.0
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=sys.stderr, env=environment)
        watched = psutil.Process(child.pid)
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            try:
                peak = max(peak, memory_of(watched))
            except psutil.Error:
                continue
            time.sleep(LOOK_SECONDS)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode()
    if child.returncode:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}")
    return Measured(time.perf_counter() - begin, used.ru_utime + used.ru_stime, peak, said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "hermitage-large")
    parser.add_argument("--holdout", type=float, default=0.0)
    parser.add_argument("--only", default="", help="lines whose name holds this text")
    parser.add_argument("--step", choices=("parse", "pass"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    table, declared = asked.folder / f"claims-{asked.rows}.parquet", asked.folder / f"claims-{asked.rows}.yaml"
    if asked.step is not None:
        found = parse(table) if asked.step == "parse" else one_pass(table, load_config(declared), asked.processes[0])
        print(json.dumps(found))
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    write_configuration(declared, asked.rows, asked.holdout)
    if not table.exists():
        write(table, asked.rows)
    print(f"{asked.rows:,} rows x 15 columns, {table.stat().st_size / 1e6:,.0f} MB of Parquet, {os.cpu_count()} cores")
    print(f"{'':>22} {'s':>7} {'CPU s':>7} {'Mrows/CPU s':>12} {'x parsing':>9} {'peak MiB':>9}", flush=True)
    rest = ["--rows", str(asked.rows), "--folder", str(asked.folder)]
    alone: float | None = None
    sums = set()

    def line(name: str, command: list[str], more: Callable[[Measured], str] = lambda found: "", **set_to: str) -> None:
        nonlocal alone
        if asked.only not in name:
            return
        found = measured(command, {**os.environ, **set_to})
        alone = found.cpu if alone is None else alone
        print(
            f"{name:>22} {found.seconds:>7.1f} {found.cpu:>7.1f} {asked.rows / found.cpu / 1e6:>12.2f} "
            f"{found.cpu / alone:>9.1f} {found.peak / MEBIBYTE:>9,.0f}{more(found)}",
            flush=True,
        )

    def of_pass(found: Measured) -> str:
        said = json.loads(found.said)
        sums.add(said["sums"])
        return f"   reading {said['read']:.1f} s, counting {said['count']:.1f} s"

    line("pyarrow alone", [sys.executable, __file__, "--step", "parse", *rest])
    for processes in asked.processes:
        command = [sys.executable, __file__, "--step", "pass", "--processes", str(processes), *rest]
        line(f"one pass, {processes} process{'es' if processes > 1 else ''}", command, of_pass)
    if len(sums) > 1:
        sys.exit("The sums differ.")
    if sums:
        print(f"{'':>22} {len(asked.processes)} passes, the same sums", flush=True)
    with tempfile.TemporaryDirectory(dir=asked.folder) as home:
        command = [sys.executable, "-m", "synth", "run", str(declared), "--table", str(table)]
        command += ["--out", str(Path(home) / "out"), "--no-owner-report"]
        most = str(max(asked.processes))
        line(f"synth run, {most} processes", command, HERMITAGE_HOME=str(Path(home) / "home"), HERMITAGE_THREADS=most)


if __name__ == "__main__":
    main()
