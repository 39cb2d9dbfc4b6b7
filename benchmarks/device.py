"""The processor (one core) beside a graphics card: everything that Hermitage can compute on one, in at most 6 minutes.

    python -m benchmarks.device [--parts dp-merf kahm] [--seconds 360] [--json device.json]

from the root of the repository, with what requirements.txt installs. Parts: passes over rows, trainings from answers
that were given before, affine hull machines, nearest neighbours, and a whole run with ``verify`` and ``replay``. Before
them the ceilings of the machine: launches, memory and matrix products.

Each part runs in a process of its own for each device, once after one that warms up (longer ones on the processor are
not warmed up). A card's time is that of the clock; the processor's is what it worked, so that other programs do not
lengthen it, and where that would be too long it does a stated part of the work and its time is multiplied. Memory is
the peak of the process, or of torch's allocations on a card. A wait is an operation after which the program stands
still until the card is done (``torch.cuda.set_sync_debug_mode``), counted while it warms up.

Without a card one sentence says so and the processor's figures stand alone. A part is skipped by name, with the reason,
if the time that is left is not enough or if something that it needs is missing. ``launches.py`` counts without a card
what the steps of fits ask of one.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from numpy.typing import NDArray
from passes import fourier_question, hermite_question, simulated_codes
from passes import schema as schema_of_passes
from tables import RAW

import synth
from synth.bundle.recorded_session import RecordedSession
from synth.cli.local import run_locally
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
from synth.reports.membership.distances import GowerSpace
from synth.reports.membership.pairs_in_blocks import bytes_of_pair, nearest_in_blocks
from synth.schema import CategoryColumn, Neighbours, NumberColumn, Schema
from synth.services.pipeline import peak_memory_bytes
from synth.system.costs import measured_costs
from synth.system.machine import device_name, processor_name

HERE = Path(__file__).resolve().parent
TABLE, ROWS_DRAWN = "scm_tree", 20_000
CLASSES, OF_CLASS, NUMBERS, PIXELS = 10, 1_000, 100, 784
COLUMNS, GROUPS, COMPONENTS, MIXTURE_STEPS = 30, 16, 256, 600
PASSED, NEIGHBOURS, PEOPLE = 200_000, 60_000, 2_000
Work = Callable[[str], object]


# What is timed -------------------------------------------------------------------------------------------------------


def private_pass(rows: int, *, hermite: bool = False) -> Work:
    """Return what asks one question about rows: Fourier or Hermite features of 15 columns."""
    table = PrivateTable.from_codes(schema_of_passes(), simulated_codes(rows))
    question = hermite_question() if hermite else fourier_question()

    def ask(device: str) -> object:
        session = PrivateSession(table, PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE), device=device)
        return session.noisy_sum(question, share=1.0, query="pass", source="benchmark")

    return ask


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


def steps_of_em(rows: int) -> Work:
    """Return what asks the questions of dp-mixture, each a step of EM over all rows, and fits it."""
    table = RAW[TABLE](Path())
    schema = replace(table.schema, row_count="public", number_of_units=None)
    places = np.arange(rows) % len(table.codes)
    coded = {column: table.codes[places, place] for place, column in enumerate(schema.names)}
    private = PrivateTable.from_codes(schema, coded)

    def work(device: str) -> object:
        session = PrivateSession(private, PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE), device=device)
        task = GeneratorTask(schema, table.label, device=device)
        return make("dp-mixture", task, {}).fit(session, NullProgress())

    return work


def machines(classes: int = CLASSES, of_class: int = OF_CLASS, numbers: int = NUMBERS) -> Work:
    """Return what fabricates rows of several classes, in blocks."""
    random = np.random.default_rng(0)
    centres = random.random((classes, numbers))
    rows = np.repeat(centres, of_class, axis=0) + 0.2 * random.standard_normal((classes * of_class, numbers))
    blocks = -(-of_class // KahmOptions().block)
    parts = [
        (place // blocks, part) for place, part in enumerate(np.array_split(np.arange(len(rows)), blocks * classes))
    ]
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


def mixed_columns() -> Schema:
    """Return 8 numbers, half of them with missing cells, and 7 categories."""
    numbers = tuple(NumberColumn(f"n{place}", 0, 999, 1, missing=place % 2 == 0) for place in range(8))
    categories = tuple(CategoryColumn(f"c{one}", tuple(f"v{place}" for place in range(4 + one))) for one in range(7))
    return Schema((*numbers, *categories))


def neighbours(queries: int, rows: int = NEIGHBOURS, *, all_pairs: bool = False) -> Work:
    """Return what finds how far the nearest row is from each query, by Gower's distance in 15 mixed columns.

    A card compares all pairs, and so does the processor if ``all_pairs`` says so; else it searches a tree.
    """
    schema = mixed_columns()
    space = GowerSpace.of(schema)
    random = np.random.default_rng(0)

    def drawn(number: int) -> list[NDArray[np.int64]]:
        cause = random.random(number)
        mixed = [np.where(random.random(number) < 0.6, cause, random.random(number)) for _ in schema.modelled]
        pairs = zip(schema.sizes, mixed, strict=True)
        return [np.minimum((size * place).astype(np.int64), size - 1) for size, place in pairs]

    asked, known = drawn(queries), drawn(rows)
    if all_pairs:
        placed, there = space.place(asked), space.place(known)
        return lambda device: nearest_in_blocks(space.axes, placed, there, device=device)
    return lambda device: space.nearest(asked, known, device=device)


def whole_run(rows: int) -> Work:
    """Return a whole run of dp-merf on a simulated table, with the check of its bundle and a replay that fits again."""
    random = np.random.default_rng(0)
    age, sex = random.integers(18, 90, rows), random.integers(0, 2, rows)
    cost = np.clip((30 * age + 500 * sex + random.normal(0, 300, rows)).round(), 0, 5000).astype(int)
    lines = [f"{one},{'fm'[other]},{third}" for one, other, third in zip(age, sex, cost, strict=True)]
    content = "\n".join(["age,sex,cost", *lines, ""])

    def work(device: str) -> object:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HERMITAGE_HOME"] = str(Path(folder) / "home")
            os.environ.pop("DATABASE_URL", None)
            (Path(folder) / "people.csv").write_text(content, encoding="utf-8")
            (Path(folder) / "people.yaml").write_text(RUN.format(rows=rows, device=device), encoding="utf-8")
            config = synth.load_config(Path(folder) / "people.yaml")
            made = run_locally(config, Path(folder) / "out", owner_report=False)
            verdict = synth.verify(made.bundle)
            again = synth.replay(made.bundle, Path(folder) / "again", refit=True)
            if not verdict.ok or not again.identical:
                raise SystemExit("\n".join((*verdict.lines, *again.lines)))
            return made

    return work


RUN = """
account: benchmark
table: people.csv
device: {device}
row_count: private
people_at_most: 1000000
unit: {{protects: person, rows_per_unit: 1}}
budget: {{epsilon: 1.0, delta: 1.0e-6}}
generator: {{name: dp-merf}}
rows: {rows}
label: sex
columns:
  age: {{type: number, low: 18, high: 90, step: 1, fallback: 40}}
  sex: {{type: category, values: [f, m], fallback: f}}
  cost: {{type: number, low: 0, high: 5000, step: 1, fallback: 0}}
"""


@dataclass(frozen=True)
class Part:
    """One line of the table.

    ``make`` takes the share of the work that is done: ``on_cpu`` on the processor, whose time is then divided by it,
    and 1 on a card. ``needs`` is about how many seconds a processor takes for its share, warming up and starting.
    """

    about: str
    make: Callable[[float], Work]
    needs: float
    on_cpu: float = 1.0


PARTS: dict[str, Part] = {
    "fourier": Part(
        f"sums of 10,000 Fourier features, {PASSED:,} rows", lambda share: private_pass(round(share * PASSED)), 12, 0.1
    ),
    "hermite": Part(
        f"sums of 1,515 Hermite features, {20 * PASSED:,} rows",
        lambda share: private_pass(20 * PASSED, hermite=True),
        8,
    ),
    "run": Part(f"dp-merf on {PEOPLE:,} rows, verify, and replay --refit", lambda share: whole_run(PEOPLE), 60),
    "dp-merf": Part("its default training, 1,500 steps", lambda share: fit_of("dp-merf", {"steps": 1500}), 30),
    "dp-hp": Part(
        "its default training, 1,500 steps",
        lambda share: fit_of("dp-hp", {"epochs": 4, "steps_per_epoch": round(375 * share)}),
        30,
        0.25,
    ),
    "dp-mixture": Part(f"its steps of EM, {PASSED:,} rows", lambda share: steps_of_em(PASSED), 15),
    "mixture": Part(
        f"the default generator's: all pairs of {COLUMNS} columns, {COMPONENTS} products, {MIXTURE_STEPS} steps",
        lambda share: mixture(round(MIXTURE_STEPS * share)),
        25,
        0.1,
    ),
    "kahm": Part(
        f"machines of {CLASSES} blocks of 1,000 rows of {NUMBERS} numbers",
        lambda share: machines(round(CLASSES * share)),
        12,
        0.4,
    ),
    "images": Part(
        "60,000 images of 784 pixels are fabricated",
        lambda share: machines(round(60 * share), numbers=PIXELS),
        25,
        0.05,
    ),
    "neighbours": Part(
        f"{NEIGHBOURS:,} x {NEIGHBOURS:,} rows of 15 mixed columns",
        lambda share: neighbours(round(NEIGHBOURS * share)),
        15,
        0.1,
    ),
    "all pairs": Part(
        "the same neighbours, all pairs compared by the processor too",
        lambda share: neighbours(round(NEIGHBOURS * share), all_pairs=True),
        15,
        0.05,
    ),
}


# Measuring -----------------------------------------------------------------------------------------------------------


def measure(name: str, device: str) -> dict[str, float]:
    """Time one part on one device, in this process."""
    torch.set_num_threads(1)
    share = 1.0 if device == "cuda" else PARTS[name].on_cpu
    work = PARTS[name].make(share)
    waits = 0
    if device == "cuda":
        waits = _waits(work)
    elif PARTS[name].needs < 20:
        work(device)
    begin = _seconds(device)
    work(device)
    taken = _seconds(device) - begin
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else peak_memory_bytes()
    return {"seconds": taken / share, "share": share, "peak_bytes": float(peak), "waits": float(waits)}


def _seconds(device: str) -> float:
    """Return the seconds that the processor worked for this process and those it has waited for, or those of a card."""
    if device == "cpu":
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime
    torch.cuda.synchronize()
    return time.perf_counter()


def _waits(work: Work) -> int:
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work("cuda")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(one.message) for one in caught)


def ceilings(device: str) -> dict[str, float]:
    """Return what the machine can do at best: operations, bytes and floating-point operations of products a second.

    ``operation``, ``single``, ``double`` and ``byte`` of :class:`synth.system.costs.Costs` decide on ``device: auto``.
    Copies of a table that fits no cache, and products of large matrices, are the ceilings.
    """
    torch.set_num_threads(1)
    costs = measured_costs(device)
    side = 1024 if device == "cpu" else 8192
    table = torch.ones(2**26, device=device)
    target = torch.empty_like(table)
    single = torch.ones(side, side, device=device)
    double = single[: side // 2, : side // 2].double()
    return {
        "seconds_of_an_operation": costs.operation,
        "bytes_per_second_of_a_fit": 1 / costs.byte,
        "bytes_per_second": 2 * 4 * 2**26 / _best(lambda: target.copy_(table), device),
        "single_per_second": 2 * side**3 / _best(lambda: single @ single, device),
        "double_per_second": 2 * (side // 2) ** 3 / _best(lambda: double @ double, device),
    }


def _best(work: Callable[[], torch.Tensor], device: str) -> float:
    taken = []
    for _ in range(4):
        begin = time.perf_counter()
        made = [work() for _ in range(3)][-1]
        made.flatten()[:1].cpu()
        taken.append((time.perf_counter() - begin) / 3)
    return min(taken[1:])


class Budget:
    """The seconds that may be spent in all."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    def child(self, *asked: str) -> dict[str, float] | str:
        """Measure in another process; return what it found, or why it found nothing."""
        if self.left < 1:
            return "no time is left"
        try:
            done = subprocess.run(
                [sys.executable, str(HERE / "device.py"), "--measure", *asked],
                check=False,
                capture_output=True,
                text=True,
                timeout=self.left,
            )
        except subprocess.TimeoutExpired:
            return "not finished when the time was over"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["it stopped without a word"])[-1][:200]
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found


def side_by_side(parts: list[str], seconds: float) -> dict[str, object]:
    """Measure every part on every device that there is, within the time; print the table and return its numbers."""
    budget = Budget(seconds)
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    found: dict[str, object] = {
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "card": device_name("cuda") if len(devices) > 1 else None,
        "torch": torch.__version__,
    }
    if len(devices) == 1:
        print("No graphics card was found here, so the processor's figures stand alone.")
    print(f"cpu: {processor_name()}, one core" + (f"; cuda: {device_name('cuda')}" if len(devices) > 1 else ""))
    found["ceilings"] = {device: _told_ceilings(device, budget.child("ceilings", device)) for device in devices}
    print(f"{'':11} {'cpu, s':>9} {'cuda, s':>9} {'ratio':>7} {'cpu MiB':>8} {'cuda MiB':>9} {'waits':>6}")
    lines: dict[str, object] = {}
    for name in parts:
        told = PARTS[name]
        measured: dict[str, dict[str, float] | str] = {}
        for device in devices:
            enough = told.needs if device == "cpu" else told.needs / 2
            measured[device] = (
                budget.child(name, device) if budget.left > enough else f"skipped: {budget.left:.0f} s are left"
            )
        lines[name] = {"about": told.about, **measured}
        print(_line(name, measured), flush=True)
        for device, one in measured.items():
            if isinstance(one, str):
                print(f"    {name} on {device}: {one}")
    found["parts"] = lines
    about = [f"{name}: {PARTS[name].about}{_shared(PARTS[name])}" for name in parts]
    print("\n".join(about))
    pair = bytes_of_pair(GowerSpace.of(mixed_columns()).axes)
    rate = found["ceilings"]["cuda"] if len(devices) > 1 else {}  # type: ignore[index]
    speed, whose = (rate["bytes_per_second"], "this card") if isinstance(rate, dict) and rate else (3.35e12, "an H100")
    print(
        f"A pair of rows of neighbours takes {pair} bytes on a card, all of them {NEIGHBOURS**2 * pair / 1e12:.2f}e12: "
        f"at the {speed / 1e12:.2f}e12 bytes a second of {whose} no less than {NEIGHBOURS**2 * pair / speed:.2f} s."
    )
    found["neighbours_least_seconds"] = NEIGHBOURS**2 * pair / speed
    return found


def _told_ceilings(device: str, one: dict[str, float] | str) -> dict[str, float] | str:
    if isinstance(one, str):
        print(f"    ceilings of {device}: {one}")
    else:
        print(
            f"{device}: {1e6 * one['seconds_of_an_operation']:.1f} us for an operation of a training step, "
            f"{one['bytes_per_second'] / 1e9:,.0f}e9 bytes/s copied, "
            f"{one['single_per_second'] / 1e9:,.0f}e9 (float32) and {one['double_per_second'] / 1e9:,.0f}e9 (float64) "
            "operations/s in products"
        )
    return one


def _line(name: str, measured: dict[str, dict[str, float] | str]) -> str:
    cpu, cuda = (one if isinstance(one := measured.get(device), dict) else None for device in ("cpu", "cuda"))

    def cell(one: dict[str, float] | None, key: str, unit: float, form: str) -> str:
        return "-" if one is None else format(one[key] / unit, form)

    ratio = "-" if cpu is None or cuda is None else format(cpu["seconds"] / cuda["seconds"], ".1f")
    return (
        f"{name:11} {cell(cpu, 'seconds', 1, '.2f'):>9} {cell(cuda, 'seconds', 1, '.2f'):>9} {ratio:>7} "
        f"{cell(cpu, 'peak_bytes', 2**20, '.0f'):>8} {cell(cuda, 'peak_bytes', 2**20, '.0f'):>9} "
        f"{cell(cuda, 'waits', 1, '.0f'):>6}"
    )


def _shared(part: Part) -> str:
    return "" if part.on_cpu == 1 else f" (the processor does {part.on_cpu:.0%}, and its time is multiplied)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=350.0, help="for everything together")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", nargs=2, metavar=("PART", "DEVICE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        name, device = given.measure
        with contextlib.redirect_stdout(io.StringIO()):  # a run speaks; the last line is the result
            found = ceilings(device) if name == "ceilings" else measure(name, device)
        print(json.dumps(found))
        return
    table = side_by_side(given.parts, given.seconds)
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
