"""Fits on the processor and on a graphics card side by side: time, memory, and how often one waits for the other.

    python benchmarks/device.py [--repeats 3] [--works dp-hp kahm] [--json FILE]

Four fits of a simulated table: ``dp-hp`` and ``dp-merf`` (their default options), the machines of ``kahm`` (10 classes
of 2,000 rows of 100 numbers), the default generator's mixture (all pairs of 30 columns in 16 groups, 256 products). A
session answers once; what is timed is what follows from the answers, and the drawing of rows. Each fit runs in a
process of its own: seconds are the median over repeats after one that warms up, memory is the peak of the process on
the processor, and of torch's allocations on a card. A wait is an operation after which the program stands still until
the card has done what it was asked before, as torch itself counts them (``torch.cuda.set_sync_debug_mode``).

Where there is no card, one sentence says so and the processor's figures stand alone. ``launches.py`` counts without a
card what the steps of these fits ask of one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from tables import RAW

from synth.bundle.recorded_session import RecordedSession
from synth.generators import GENERATORS, make
from synth.generators.kahm import KahmOptions
from synth.generators.kahm.blocks import fabricated_blocks
from synth.generators.protocol import GeneratorTask
from synth.models.marginals import NoisyMarginal
from synth.models.mixture_estimation import fit_mixtures
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import Neighbours
from synth.services.pipeline import peak_memory_bytes
from synth.system.machine import device_name, processor_name

TABLE, ROWS_DRAWN = "scm_tree", 20_000
CLASSES, OF_CLASS, NUMBERS = 10, 2_000, 100
COLUMNS, GROUPS, COMPONENTS, MIXTURE_STEPS = 30, 16, 256, 600
Work = Callable[[str], object]


def fit_of(name: str, options: dict[str, object], rows: int = ROWS_DRAWN) -> Work:
    """Ask once; return what fits the generator to those answers and draws rows, on a device."""
    table = RAW[TABLE](Path())
    schema = replace(table.schema, row_count="public", number_of_units=None)
    budget = PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE)
    coded = {column: table.codes[:, place] for place, column in enumerate(schema.names)}
    session = PrivateSession(PrivateTable.from_codes(schema, coded), budget)
    task = GeneratorTask(schema, table.label, device="cpu")
    make(name, task, {**options, **GENERATORS[name].short_training}).fit(session, NullProgress())

    def work(device: str) -> object:
        answers = RecordedSession(schema, budget, rows=session.rows, answers=session.answers)
        return make(name, replace(task, device=device), options).fit(answers, NullProgress()).sample(rows, 1)

    return work


def machines(classes: int = CLASSES, of_class: int = OF_CLASS) -> Work:
    """Return what fabricates rows of several classes, in blocks."""
    random = np.random.default_rng(0)
    centres = random.random((classes, NUMBERS))
    rows = np.repeat(centres, of_class, axis=0) + 0.2 * random.standard_normal((classes * of_class, NUMBERS))
    parts = [(place // 2, part) for place, part in enumerate(np.array_split(np.arange(len(rows)), 2 * classes))]
    return lambda device: list(fabricated_blocks(rows, parts, KahmOptions(), device=device))


def mixture(steps: int = MIXTURE_STEPS, components: int = COMPONENTS, columns: int = COLUMNS) -> Work:
    """Return what fits a mixture of products to noisy tables of all pairs of columns."""
    random = np.random.default_rng(0)
    bins = _dependent(random, 20_000, columns)
    measured = []
    for pair in itertools.combinations(range(columns), 2):
        counts = np.zeros((GROUPS, GROUPS))
        np.add.at(counts, (bins[:, pair[0]], bins[:, pair[1]]), 1.0)
        measured.append(NoisyMarginal(pair, counts + random.normal(0, 30, counts.shape), 30.0))
    return lambda device: fit_mixtures(
        (GROUPS,) * columns, measured, 20_000.0, components=components, steps=steps, device=device, report=_told
    )


def _told(step: int, losses: tuple[float, ...]) -> None:
    """Take losses, as a run's page does."""


def _dependent(random: np.random.Generator, rows: int, columns: int) -> NDArray[np.int64]:
    cause = random.random((rows, 1))
    return np.minimum((GROUPS * (0.6 * cause + 0.4 * random.random((rows, columns)))).astype(np.int64), GROUPS - 1)


WORKS: dict[str, tuple[Callable[[], Work], int]] = {
    "dp-hp": (lambda: fit_of("dp-hp", {}), 1500),
    "dp-merf": (lambda: fit_of("dp-merf", {}), 1500),
    "kahm": (machines, 2 * CLASSES),
    "mixture": (mixture, MIXTURE_STEPS),
}
"""What is timed, and its steps: of training, or blocks of rows."""


# Measuring -----------------------------------------------------------------------------------------------------------


def measure(name: str, device: str, repeats: int) -> dict[str, float]:
    """Time one work on one device, in this process."""
    torch.set_num_threads(1)
    made, steps = WORKS[name]
    work = made()
    waits = _waits(work) / steps if device == "cuda" else 0.0  # warms up as well
    if device == "cpu":
        work(device)
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work(device)
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else peak_memory_bytes()
    return {"seconds": statistics.median(taken), "peak_bytes": float(peak), "waits_per_step": waits}


def _waits(work: Work) -> int:
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work("cuda")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(one.message) for one in caught)


def side_by_side(works: list[str], repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Measure every work on every device that there is, each in a process of its own."""
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    if len(devices) == 1:
        print("No graphics card was found here, so the processor's figures stand alone.")
    print(f"cpu: {processor_name()}" + (f"; cuda: {device_name('cuda')}" if len(devices) > 1 else ""))
    print(f"{'':10} {'device':7} {'s a fit':>9} {'peak MiB':>9} {'waits a step':>13}")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in works:
        for device in devices:
            child = [sys.executable, __file__, "--measure", name, device, "--repeats", str(repeats)]
            one = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
            found.setdefault(name, {})[device] = one
            waits = f"{one['waits_per_step']:13.2f}" if device == "cuda" else f"{'-':>13}"
            print(f"{name:10} {device:7} {one['seconds']:9.2f} {one['peak_bytes'] / 2**20:9.0f} {waits}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", nargs=2, metavar=("WORK", "DEVICE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure(*given.measure, given.repeats)))
        return
    found = side_by_side(given.works, given.repeats)
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
