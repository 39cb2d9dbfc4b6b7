"""What dp-hp-adaptive takes as tables grow: the private pass, the fit, sampling and memory, in one table.

    HERMITAGE_DATA=FOLDER python benchmarks/scaling.py [--device cuda] [--json FILE] [--only TEXT] [--factors 1 4 16 64]

Rows: discretised Adult (``simple``), every row repeated; at epsilon 1, where more rows mean more signal and so a larger
model, and at epsilon divided by the factor, where only the rows grow. Then 5 million rows of 15 columns, and 15, 30, 60
and 120 columns of 50,000 rows, all simulated: each column depends on one of the three before it, 2 to 32 categories.

Every line is a process of its own on one thread. The private pass is the time inside the session's answers, the fit is
the rest of ``fit``, sampling is one million rows; on a CPU all are CPU seconds. Memory is the largest that the process
held, and beside it what it held before the fit: Python, its libraries and the table as codes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tables import load

from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import of_kind
from synth.privacy.selection import Selection
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import CategoryColumn, Schema
from synth.services.pipeline import peak_memory_bytes

HERE = Path(__file__).resolve().parent
SAMPLED = 1_000_000
ROW_COUNT_SHARE = 0.02
MEBIBYTE = 2.0**20


@dataclass(frozen=True)
class Case:
    """One line of the table: ``factor`` copies of Adult, or a simulated table where it is 0."""

    title: str
    epsilon: float
    factor: int = 0
    rows: int = 0
    columns: int = 0


def cases(factors: list[int]) -> list[Case]:
    adult = [Case(f"Adult x{factor}", 1.0, factor) for factor in factors]
    adult += [Case(f"Adult x{factor}, same signal", 1.0 / factor, factor) for factor in factors if factor > 1]
    wide = [Case(f"{columns} columns", 1.0, rows=50_000, columns=columns) for columns in (15, 30, 60, 120)]
    return [*adult, Case("5 million rows", 1.0, rows=5_000_000, columns=15), *wide]


def simulated(rows: int, columns: int) -> tuple[Schema, np.ndarray]:
    random = np.random.default_rng(columns)
    sizes = np.exp(random.uniform(np.log(2), np.log(32.999), columns)).astype(int)
    codes = np.zeros((columns, rows), dtype=np.uint8)
    for column, size in enumerate(sizes):
        # Categories of unequal size, and for each value of the column it depends on others that are likely.
        before = max(column - 1 - int(random.integers(3)), 0)
        chances = random.dirichlet(np.full(size, 0.5), sizes[before] if column else 1)
        edges = np.cumsum(chances, axis=1)
        given = codes[before] if column else np.zeros(rows, dtype=np.uint8)
        for value in range(len(edges)):
            chosen = given == value
            codes[column, chosen] = np.searchsorted(edges[value, :-1], random.random(int(chosen.sum())), side="right")
    schema = Schema(
        tuple(CategoryColumn(f"c{column}", tuple(map(str, range(size)))) for column, size in enumerate(sizes))
    )
    return schema, codes.T


class Timed:
    """A session that knows how long its answers took."""

    def __init__(self, session: PrivateSession, now: Callable[[], float]) -> None:
        self._session, self._now, self.seconds = session, now, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def noisy_sum(self, *asked: Any, **how: Any) -> Any:
        return self._timed(self._session.noisy_sum, *asked, **how)

    def noisy_max(self, *asked: Any, **how: Any) -> Any:
        return self._timed(self._session.noisy_max, *asked, **how)

    def _timed(self, answer: Callable[..., Any], *asked: Any, **how: Any) -> Any:
        begin = self._now()
        try:
            return answer(*asked, **how)
        finally:
            self.seconds += self._now() - begin


def cuda_name() -> str:
    """Return what the graphics card calls itself."""
    import torch

    return torch.cuda.get_device_name()


def measure(case: Case, device: str) -> dict[str, object]:
    """Run one case in this process."""
    now = time.process_time if device == "cpu" else time.perf_counter
    label = None
    if case.factor:
        table = load("simple", neighbours="add_remove")
        schema, label, codes = table.schema, table.label, np.tile(table.codes.astype(np.uint8), (case.factor, 1))
    else:
        schema, codes = simulated(case.rows, case.columns)
    columns = {name: np.ascontiguousarray(codes[:, place]) for place, name in enumerate(schema.names)}
    rows = len(codes)
    del codes
    if device == "cuda":
        import torch  # here, as it would count as memory of a default run, which does without

        torch.zeros(1, device="cuda")
    private = PrivateTable.from_codes(schema, columns)
    held = peak_memory_bytes()
    session = Timed(PrivateSession(private, PrivacyBudget(case.epsilon, 1e-5, schema.neighbours), device=device), now)
    begin = now()
    if not schema.rows_are_public:
        session.count_rows(share=ROW_COUNT_SHARE)
    session.seconds = now() - begin
    begin = now()
    task = GeneratorTask(schema=schema, label=label, seed=0, device=device)
    made = make("dp-hp-adaptive", task, {}).fit(session, NullProgress())
    fit = now() - begin
    fitted = peak_memory_bytes()
    counted = session.seconds
    begin = now()
    made.sample(SAMPLED, 0)
    sampling = now() - begin
    model = {name: one for name, one in made.state().items() if name.startswith("model.")}
    return {
        "rows": rows,
        "columns": len(columns),
        "pass_seconds": counted,
        "fit_seconds": fit - counted,
        "sampling_seconds": sampling,
        "rows_per_second": SAMPLED / sampling,
        "rounds": len(of_kind(session.answers, Selection)),
        "kind": "mixture" if "model.weights" in model else "field",
        "cells": sum(one.size for one in model.values()),
        "bytes_before": held,
        "peak_bytes_of_fit": fitted,
        "peak_bytes": peak_memory_bytes(),
    }


def line(case: Case, found: dict[str, Any]) -> str:
    return (
        f"{case.title:>24} {case.epsilon:>7.3g} {found['rows']:>10,} {found['columns']:>4} "
        f"{found['pass_seconds']:>8.2f} {found['fit_seconds']:>8.2f} {found['sampling_seconds']:>8.2f} "
        f"{found['rows_per_second'] / 1e6:>7.2f} {found['rounds']:>7} {found['kind']:>8} {found['cells']:>9,} "
        f"{found['bytes_before'] / MEBIBYTE:>7.0f} {found['peak_bytes_of_fit'] / MEBIBYTE:>7.0f} "
        f"{found['peak_bytes'] / MEBIBYTE:>7.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--factors", nargs="+", type=int, default=[1, 4, 16, 64])
    parser.add_argument("--only", default="", help="cases whose title holds this text")
    parser.add_argument("--limit", type=float, default=3600, help="CPU seconds of one case")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case is not None:
        asked.out.write_text(json.dumps(measure(Case(**asked.case), asked.device)), encoding="utf-8")
        return
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    where = cuda_name() if asked.device == "cuda" else "one core"
    print(f"dp-hp-adaptive on {where}; seconds of the private pass, of the fit, and of sampling {SAMPLED:,} rows;")
    print("million rows a second; MiB before the fit, at most until the fit was done, and at most with sampling")
    heads = ("case", "epsilon", "rows", "cols", "pass", "fit", "sample", "Mrows/s", "rounds", "model", "cells")
    heads += ("before", "fitted", "sampled")
    widths = (24, 7, 10, 4, 8, 8, 8, 7, 7, 8, 9, 7, 7, 7)
    print(" ".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)), flush=True)
    done = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        for case in cases(asked.factors):
            if asked.only not in case.title:
                continue
            # A process inherits the peak memory of the one that starts it; the launcher is small.
            launcher = [sys.executable, "-S", str(HERE / "measured.py"), str(asked.limit)]
            child = [sys.executable, __file__, "--device", asked.device]
            command = [*launcher, *child, "--case", json.dumps(asdict(case)), "--out", str(out)]
            out.unlink(missing_ok=True)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if not out.exists():
                print(f"{case.title:>24} failed, or took more than {asked.limit:g} CPU s", flush=True)
                continue
            found = json.loads(out.read_text(encoding="utf-8"))
            print(line(case, found), flush=True)
            done.append({"case": asdict(case), "device": asked.device, "result": found})
            if asked.json is not None:
                asked.json.parent.mkdir(parents=True, exist_ok=True)
                asked.json.write_text(json.dumps(done, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
