"""Five million rows of fifteen columns pass within one gigabyte, the program and its parsing process together."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from synth.services import inspection

MILLIONS = 5

PROBE = """
import datetime, resource, sys
from synth.schema import TableFormat
from synth.privacy.table import PrivateTable
from synth.schema import CategoryColumn, DateColumn, NumberColumn, Schema, YesNoColumn

first, last = datetime.date(2020, 1, 1), datetime.date(2025, 12, 31)
schema = Schema((
    *(NumberColumn(f"whole{place}", 0, 999, 1) for place in range(5)),
    *(CategoryColumn(f"place{place}", ("north", "south", "east"), other=True) for place in range(4)),
    *(NumberColumn(f"real{place}", 0, 100, 0.01) for place in range(3)),
    *(DateColumn(f"date{place}", first, last) for place in range(2)),
    YesNoColumn("flag", yes="true", no="false"),
), number_of_units=5_000_000)
(table,) = PrivateTable.open(
    lambda: open(sys.argv[1], "rb"), "", schema, TableFormat(), account_key=b"k", holdout=float(sys.argv[2])
)
peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(table._rows, sum(peaks) // 1024)
"""


def a_million_rows(seed: int) -> pa.Table:
    generator, rows = np.random.default_rng(seed), 1_000_000
    days = np.datetime64("2020-01-01") + generator.integers(0, 2_000, (2, rows))
    places = np.array(["north", "south", "east", "west"])
    return pa.table(
        {
            **{f"whole{place}": generator.integers(0, 10 ** (place + 1), rows) for place in range(5)},
            **{f"place{place}": places[generator.integers(0, 4, rows)] for place in range(4)},
            **{f"real{place}": np.round(generator.normal(50, 20, rows), 2 * place) for place in range(3)},
            **{f"date{place}": days[place].astype("datetime64[D]") for place in range(2)},
            "flag": generator.random(rows) < 0.5,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_five_million_rows_within_a_gigabyte(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{kind}"
    writer = None
    for seed in range(MILLIONS):
        rows = a_million_rows(seed)
        if writer is None:
            make = pyarrow.parquet.ParquetWriter if kind == "parquet" else pyarrow.csv.CSVWriter
            writer = make(path, rows.schema)
        writer.write_table(rows)
    assert writer is not None
    writer.close()
    for holdout, kept in (("0", 5_000_000), ("0.2", 4_000_000)):
        ended = subprocess.run(
            [sys.executable, "-c", PROBE, str(path), holdout],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        )
        n_rows, megabytes = map(int, ended.stdout.split())
        assert n_rows == kept
        assert megabytes < 1_000, f"{kind}, holdout {holdout}: {megabytes} MB"


def reads(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
        # One that others of this process's tests are forked from looks at nothing.
        waits = any(word.endswith("forked_children.py") for word in words)
        return process.status() != psutil.STATUS_ZOMBIE and "synth.services.inspection" in words and not waits
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def test_files_that_are_looked_at_side_by_side_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is a process with memory of its own: thirty uploads at once are not thirty of them."""
    monkeypatch.setattr(inspection, "LOOKS", threading.BoundedSemaphore(2))
    found: list[int] = []

    def look() -> None:
        found.append(inspection.inspect_header(io.BytesIO(b"age,income\n1,2\n3,4\n")).n_rows)

    # Of tests before this one: a process whose start was made to fail half way waits for its first question.
    earlier = {held.pid for held in psutil.Process().children() if reads(held)}
    threads = [threading.Thread(target=look) for _ in range(5)]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, sum(reads(held) for held in psutil.Process().children() if held.pid not in earlier))
        time.sleep(0.005)
    assert found == [2] * 5
    assert 1 <= most <= 2
