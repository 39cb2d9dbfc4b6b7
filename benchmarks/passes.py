"""Rows per second per core of one private pass, beside what the hardware could do at best, measured side by side.

    python benchmarks/passes.py [--rows 50000] [--repeats 7] [--parquet-rows 5000000] [--json FILE]

Every number is CPU time of one thread, the median over repeats in which all passes take turns, so that a busy machine
slows all of them alike. Tables are simulated. Ceilings: the time that torch takes for as many cosines and sines of
numbers in its cache, and the time to read as many bytes from memory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from synth.generators.hermite.dp_hp import hermite_features
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import Stack
from synth.privacy.more.fourier import Fourier, angles_at_a_time
from synth.privacy.more.lookups import Lookup
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import Neighbours, NumberColumn, Schema, TableFormat
from synth.services.pipeline import peak_memory_bytes
from synth.system.machine import core_cache_bytes, processor_name

COLUMNS = 15
LEVELS = 101
FREQUENCIES = 5000
ORDER = 100
CACHED = (64, 1024)
GIGABYTE = 2**30


def schema() -> Schema:
    return Schema(tuple(NumberColumn(f"x{place}", 0, LEVELS - 1, 1) for place in range(COLUMNS)))


def simulated_codes(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(0, LEVELS, rows, dtype=np.uint8) for name in schema().names}


def fourier_question() -> Fourier:
    rng = np.random.default_rng(1)
    places = (np.arange(LEVELS) * 255 // (LEVELS - 1)).astype(np.int32)
    frequencies = rng.integers(-2048, 2048, (FREQUENCIES, COLUMNS)).astype(np.int32)
    return Fourier(schema().names, (places,) * COLUMNS, frequencies)


def hermite_question() -> Stack:
    table = hermite_features(torch.linspace(-1, 1, LEVELS, dtype=torch.float64), order=ORDER, rho=0.9).numpy()
    return Stack(tuple(Lookup(name, table) for name in schema().names), (COLUMNS**-0.5 * (1 - 1e-7),) * COLUMNS)


def private_pass(table: PrivateTable, question: Fourier | Stack) -> Callable[[], object]:
    """One whole question: plan, sum, noise, receipt."""

    def ask() -> object:
        session = PrivateSession(table, PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE))
        return session.noisy_sum(question, share=1.0, query="pass", source="benchmark")

    return ask


def trigonometry() -> Callable[[], object]:
    """As many cosines and sines as 64 rows of the Fourier question need, of numbers that stay in cache."""
    angles = torch.rand(CACHED) * 6 - 3
    out = torch.empty(CACHED)

    def calculate() -> None:
        for _ in range(FREQUENCIES * 64 // angles.numel() + 1):
            torch.cos(angles, out=out)
            torch.sin(angles, out=out)

    return calculate


def memory() -> Callable[[], object]:
    numbers = torch.ones(GIGABYTE // 16, dtype=torch.float32)
    return numbers.sum


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare(rows: int, repeats: int) -> dict[str, float]:
    table = PrivateTable.from_codes(schema(), simulated_codes(rows))
    many = PrivateTable.from_codes(schema(), simulated_codes(40 * rows))
    works = {
        "trigonometry": trigonometry(),
        "memory": memory(),
        "fourier": private_pass(table, fourier_question()),
        "hermite": private_pass(many, hermite_question()),
    }
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            taken[name].append(seconds(work))
    median = {name: statistics.median(times) for name, times in taken.items()}
    blocks = FREQUENCIES * 64 // (CACHED[0] * CACHED[1]) + 1
    pair = median["trigonometry"] / (blocks * CACHED[0] * CACHED[1])
    bandwidth = GIGABYTE / 4 / median["memory"]
    fourier, hermite = rows / median["fourier"], 40 * rows / median["hermite"]
    return {
        "fourier_rows_per_second": fourier,
        "trigonometric_ceiling_rows_per_second": 1 / (pair * FREQUENCIES),
        "fourier_part_of_ceiling": fourier * pair * FREQUENCIES,
        "hermite_rows_per_second": hermite,
        "memory_bytes_per_second": bandwidth,
        "memory_ceiling_rows_per_second": bandwidth / COLUMNS,
        "hermite_part_of_memory_ceiling": hermite * COLUMNS / bandwidth,
    }


def read_parquet(rows: int) -> dict[str, float]:
    """Open a Parquet file of ``rows`` rows and ask the Hermite question, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, rows)
        child = [sys.executable, __file__, "--measure", str(path), "--rows", str(rows)]
        return json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)


def write_parquet(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    names = schema().names
    kind = pa.schema([(name, pa.int64()) for name in names])
    with pq.ParquetWriter(path, kind) as writer:
        for start in range(0, rows, 500_000):
            some = min(500_000, rows - start)
            writer.write_table(pa.table({name: rng.integers(0, LEVELS, some) for name in names}, schema=kind))


def measure_reading(path: Path, rows: int) -> dict[str, float]:
    begin = time.perf_counter()
    table = PrivateTable.open(
        lambda: path.open("rb"),
        "rows",
        replace(schema(), number_of_units=rows),
        TableFormat(kind="parquet"),
        account_key=b"key",
    )[0]
    read = time.perf_counter()
    private_pass(table, hermite_question())()
    asked = time.perf_counter()
    # The reader is a process of its own; adding both peaks counts them as if they came at the same moment. What is
    # known of an ended child counts the memory of its parent at its start too, so the reader's peak is an upper bound.
    own, reader = peak_memory_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "parquet_rows": rows,
        "read_seconds": read - begin,
        "ask_seconds": asked - read,
        "peak_bytes_of_both_processes": own + reader,
        "peak_bytes_reader": reader,
        "within_one_gigabyte": own + reader <= GIGABYTE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--parquet-rows", type=int, default=5_000_000, help="0 leaves the Parquet file out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.measure is not None:
        print(json.dumps(measure_reading(given.measure, given.rows)))
        return
    found: dict[str, object] = {
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "core_cache_bytes": core_cache_bytes(),
        "fourier_angles_at_a_time": angles_at_a_time("cpu"),
        "torch": torch.__version__,
        "numpy": np.__version__,
        **compare(given.rows, given.repeats),
    }
    if given.parquet_rows:
        found |= read_parquet(given.parquet_rows)
    for name, value in found.items():
        print(f"{name:40s} {value:,.3f}" if isinstance(value, float) else f"{name:40s} {value}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
