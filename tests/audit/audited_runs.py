"""Whole runs in two neighbouring worlds: from the bytes of a file to everything that is public when the run has ended.

A run goes the way of one from the browser: its file is received, its budget reserved, a worker's ``main`` carries it
out, and the owner releases it. Keys, ids and the clock are fixed, and the second world hears the answers of the first:
its noise is what was answered there less what is true here. Whatever then differs depends on the rows by another way
than through an answer.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import logging
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from recorded_noise import RecordedNoise
from sqlalchemy import inspect, text
from suited import suited

import synth.store.layout
from synth import worker
from synth.application import Application
from synth.errors import SynthError
from synth.privacy import answers, session
from synth.privacy.more import gradients, perturbed_rows
from synth.progress import Progress, StoredProgress
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DateStep,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    Protection,
    RowCountRule,
    RunConfig,
    Schema,
    YesNoColumn,
)
from synth.services import run_folder, runs
from synth.services.intake import Reading
from synth.system.settings import Settings

Line = bytes
Public = dict[str, Any]

ACCOUNT, FILE_NAME = "people", "table.csv"
AS_DECLARED = Reading(as_declared=True)
"""A planted bug may lose most of a table, which the owner would be asked about."""

OWNERS_COLUMNS = {"tables": {"size", "fingerprint"}}
"""What the database holds of a table for its owner: how long its file is, and a keyed hash of what it holds."""

COLUMNS = (
    IdentifierColumn("who"),
    NumberColumn("age", 0, 100, 10, special=(999.0,), missing=True),
    CategoryColumn("town", ("Ayr", "Bath", "Leith"), other=True),
    DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2020, 12, 1), step=DateStep.MONTH, missing=True),
    YesNoColumn("well", fallback="no"),
)
LABEL = "well"
NAMES = tuple(column.name for column in COLUMNS)
HEADER = (",".join(NAMES) + "\n").encode()


@dataclass(frozen=True)
class World:
    """How the table is declared, and whether every row has an id."""

    row_count: RowCountRule
    ids: bool = False
    rows_per_unit: int = 1
    protection: Protection = "record"

    def config(self, units: int, generator: str, **changes: Any) -> RunConfig:
        unit = PrivacyUnit("person", self.rows_per_unit, "who" if self.ids else None)
        schema = Schema(
            COLUMNS,
            unit=unit,
            row_count=self.row_count,
            protection=self.protection,
            number_of_units=units if self.row_count == "public" and self.protection == "record" else None,
        )
        schema = suited(generator, schema, LABEL)
        settings: dict[str, Any] = {
            "account": ACCOUNT,
            "epsilon": 1.0,
            "delta": 1e-5,
            "people_at_most": 1000,
            "rows": 40,
            "holdout": 0.25,
            "label": LABEL,
            "seed": 3,
            "generator": generator,
        }
        return RunConfig(schema=schema, **settings | changes)


WORLDS = {
    "replace one": World("public"),
    "add or remove": World("private"),
    "replace one of several rows": World("public", ids=True, rows_per_unit=2),
    "add or remove several rows": World("private", ids=True, rows_per_unit=2),
}
CELL = World("public", protection="cell")


# Neighbours


def a_line(who: str, random: np.random.Generator, well: str | None = None) -> Line:
    cells = (
        who,
        str(10 * random.integers(0, 11)),
        ("Ayr", "Bath", "Leith", "Oban")[random.integers(4)],
        f"2020-{random.integers(1, 13):02d}-01",
        well or ("yes", "no")[random.integers(2)],
    )
    return (",".join(cells) + "\n").encode()


def people(world: World, units: int, *, well: str | None = None) -> list[Line]:
    """Return honest lines, in an order that says nothing; where several rows are allowed some people have too many."""
    random = np.random.default_rng(units)
    lines = [
        a_line(f"p{unit}", random, well)
        for unit in range(units)
        for _ in range(1 + unit % 4 if world.ids and world.rows_per_unit > 1 else 1)
    ]
    return [lines[place] for place in random.permutation(len(lines))]


def rows_of_people(world: World, units: int) -> list[dict[str, str]]:
    """Return the same people as rows of cells, for files of other kinds."""
    return [dict(zip(NAMES, line.decode().rstrip("\n").split(","), strict=True)) for line in people(world, units)]


NASTY: dict[str, list[Line]] = {
    "far beyond all bounds": [b"new,1e400,Nowhere,9999-12-31,perhaps\n"],
    "a line that cannot be read": [b'new,\xff,"Ba,\0,yes\n'],
    "a ragged line": [b"new,5\n"],
    "a blank line beside somebody": [b"new,30,Ayr,2020-03-01,no\n", b"\n", b" \r\n"],
    "a row without an id": [b",999,Leith,2020-02-01,yes\n"],
    "more rows than may be kept": [b"new,%d0,Ayr,2020-0%d-01,no\n" % (n, n) for n in range(1, 8)],
    "the last line, without its end": [b"new,,Oban,,no"],
}
"""The lines of somebody new, among them some that are no rows. Some have no id: nobody's where there are ids."""

ODD_TABLES = ("the only row of a class", "hardly anybody", "nobody else can be read")


def neighbours(world: World, name: str, units: int = 60) -> tuple[int, bytes, bytes]:
    """Return the declared number of units and two neighbouring files; the second holds what the name says."""
    lines, new = people(world, units), list(NASTY.get(name, [b"new,30,Leith,2020-03-01,no\n"]))
    if name == "the only row of a class":
        lines = people(world, units, well="yes")
    elif name == "hardly anybody":
        lines, units = [b"p1,20,Ayr,2020-02-01,yes\n"], 2 if world.row_count == "private" else 1
    elif name == "nobody else can be read":
        lines = [b"p%d\n" % unit for unit in range(units)]
    if not world.ids and world.rows_per_unit == 1:
        # But for blank lines, which are no rows.
        new = [new[0], *(line for line in new if not line.strip())]
    gone = min(3, len(lines) - 1)
    nobodys = world.ids and not new[0].startswith(b"new,")
    if nobodys:
        # Lines that belong to nobody come beside somebody who belongs to himself.
        new = [b"new,30,Ayr,2020-03-01,no\n", *new]
    place = len(lines) if not new[-1].endswith(b"\n") else len(lines) // 2
    changed = [*lines[:place], *new, *lines[place:]]
    if world.row_count == "public":
        who = lines[gone].split(b",")[0]
        lost = [line for line in lines if line.split(b",")[0] == who] if world.ids else [lines[gone]]
        changed = [line for line in changed if line not in lost]
    return units, HEADER + b"".join(lines), HEADER + b"".join(changed)


CELLS: dict[str, tuple[int, bytes]] = {
    "far beyond all bounds": (1, b"1e400"),
    "an undeclared value": (2, b"Nowhere"),
    "a blank cell": (3, b""),
    "a cell that cannot be read": (1, b"\0"),
}
"""A column and what its cell becomes."""


def cell_neighbours(name: str, units: int = 30) -> tuple[int, bytes, bytes]:
    """Return the number of rows and two files that differ in one cell, which is not the label's."""
    lines = people(CELL, units)
    place, cell = CELLS[name]
    cells = lines[3].split(b",")
    changed = b",".join([*cells[:place], cell, *cells[place + 1 :]])
    return units, HEADER + b"".join(lines), HEADER + b"".join([*lines[:3], changed, *lines[4:]])


def as_parquet(data: bytes) -> bytes:
    """Return a readable file as Parquet, in row groups shorter than it."""
    target = BytesIO()
    pq.write_table(pa.csv.read_csv(BytesIO(data)).cast(pa.schema([(name, pa.string()) for name in NAMES])), target, 7)
    return target.getvalue()


# Everything that is not an answer, held still


class Entropy:
    """Bytes for keys, ids and nonces: the same in every world.

    Each place of the program has its own, so that a library that draws some when it is first imported moves no others.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: dict[str, Iterator[int]] = defaultdict(itertools.count)

    def __call__(self, size: int) -> bytes:
        frame = sys._getframe(1)
        while frame.f_back is not None and not str(frame.f_globals.get("__name__")).startswith("synth."):
            frame = frame.f_back
        place = f"{frame.f_globals.get('__name__')} {frame.f_code.co_qualname}"
        return hashlib.shake_256(f"{self._name} {place} {next(self._counts[place])}".encode()).digest(size)


class StoppedClock(datetime.datetime):
    """A moment that does not pass."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return datetime.datetime(2026, 3, 1, 12, tzinfo=tz)

    @classmethod
    def fromtimestamp(cls, timestamp: float, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(timestamp, tz)


class Dictation:
    """Noise that is drawn in the first world, and in the second makes every answer the one of the first."""

    private = True

    def __init__(self) -> None:
        self._noise = RecordedNoise(7)
        self._answers: list[tuple[Any, ...]] = []
        self._place: int | None = None
        self._sums = np.zeros(0, np.int64)
        self.sums: list[np.ndarray] = []
        """Every exact sum, in grid steps, in order."""

    @property
    def asked(self) -> list[str]:
        """What kinds of answers were given, in order."""
        return [kind for (kind, *_), _ in self._answers]

    def again(self) -> Dictation:
        """Return what repeats the answers of this run."""
        other = Dictation()
        other._answers, other._place = self._answers, 0
        return other

    def require_all_asked(self) -> None:
        assert self._place in (None, len(self._answers)), "fewer questions are asked of the neighbour"

    def install(self, patch: pytest.MonkeyPatch) -> None:
        rows = perturbed_rows.draw_rows

        def heard(exact: Any) -> Any:
            def sums(*arguments: Any, **named: Any) -> np.ndarray:
                self._sums = exact(*arguments, **named)
                self.sums.append(self._sums.copy())
                return self._sums

            return sums

        def drawn(question: Any, plan: Any, table: Any, noise: Any) -> Any:
            found = rows(question, plan, table, self._noise)
            return self._answer(("rows", found[0].shape, plan.classes), found)

        def steps_of(right: Any) -> Any:
            return lambda *arguments, **named: heard(right(*arguments, **named))

        for kind in answers.STEPS_QUESTIONS:
            patch.setattr(kind, "of_rows", steps_of(kind.of_rows))
        patch.setattr(answers, "exact_sum", heard(answers.exact_sum))
        patch.setattr(gradients, "sum_of_gradients", heard(gradients.sum_of_gradients))
        patch.setattr(perturbed_rows, "draw_rows", drawn)
        patch.setattr(session, "SystemNoise", lambda: self)

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        mine = self._sums + self._noise.gaussian(variance, size)
        told: np.ndarray = self._answer(("sum", variance, size), mine)
        return told - self._sums

    def laplace(self, scale: int, size: int) -> np.ndarray:
        mine = self._sums + self._noise.laplace(scale, size)
        told: np.ndarray = self._answer(("laplace sum", scale, size), mine)
        return told - self._sums

    def choose(self, scores: np.ndarray, *, numerator: int, denominator: int) -> int:
        mine = self._noise.choose(scores, numerator=numerator, denominator=denominator)
        return int(self._answer(("choice", numerator, denominator, scores.size), mine))

    def sample(self, size: int, *, rate: int) -> np.ndarray:
        # Nobody hears who was drawn, so every world draws its own.
        self._answer(("sample", rate), None)
        return self._noise.sample(size, rate=rate)

    def _answer(self, asked: tuple[Any, ...], mine: Any) -> Any:
        if self._place is None:
            self._answers.append((asked, mine))
            return mine
        assert self._place < len(self._answers), "more questions are asked of the neighbour"
        before, told = self._answers[self._place]
        assert before == asked, f"question {self._place} depends on more than the answers"
        self._place += 1
        return told


@dataclass
class Watched:
    """Progress that is written down as well, every step of it."""

    progress: Progress
    seen: list[tuple[Any, ...]] = field(default_factory=list)

    def phase(self, name: str) -> None:
        self.seen.append(("phase", name))
        self.progress.phase(name)

    def step(self, k: int, of: int) -> None:
        self.seen.append(("step", k, of))
        self.progress.step(k, of)

    def loss(self, value: float) -> None:
        self.seen.append(("loss", value))
        self.progress.loss(value)

    def check_cancelled(self) -> None:
        self.progress.check_cancelled()


class Said(logging.Handler):
    """Every line of the program's logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.name, record.levelname, record.getMessage()))


# One run


@contextmanager
def stillness(seed: str) -> Iterator[pytest.MonkeyPatch]:
    """Fix keys, ids and the clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", Entropy(seed))
        patch.setattr(synth.store.layout, "datetime", StoppedClock)
        yield patch


def settings_of(home: Path) -> Settings:
    return Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}", heartbeat_seconds=3600)


def start_home(folder: Path) -> Path:
    """Make an installation with its keys and an account with its secret, for every world to begin with."""
    with stillness("home"), Application(settings_of(folder)) as application:
        application.vault.split_key(application.store.accounts.open(ACCOUNT).id)
    return folder


@dataclass(frozen=True)
class Browser:
    """A run as the browser starts it; with the owner's report, unless a test has no time for it."""

    config: RunConfig
    home: Path
    owner_report: bool
    verify: bool

    def public(self, data: bytes, dictation: Dictation) -> Public:
        """Carry the run out in a home of its own, and return whatever is public then."""
        home = self.home.with_name(f"{self.home.name}-world")
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(self.home, home)
        said, logger = Said(), logging.getLogger("synth")
        logger.addHandler(said)
        level = logger.level
        logger.setLevel(logging.DEBUG)
        try:
            with stillness("upload") as patch, Application(settings_of(home)) as application:
                dictation.install(patch)
                form = self.config.format
                received = application.intake.receive(BytesIO(data), account=ACCOUNT, name=FILE_NAME, table_format=form)
                # However many pieces the upload was encrypted in, what follows is keyed alike.
                patch.setattr(os, "urandom", Entropy("run"))
                return self._carried(application, received.table_id, patch) | {"said": said.lines}
        finally:
            logger.removeHandler(said)
            logger.setLevel(level)
            shutil.rmtree(home)

    def _carried(self, application: Application, table_id: str, patch: pytest.MonkeyPatch) -> Public:
        public: Public = {"plan": repr(application.plan(self.config))}
        run_id = application.reserve(self.config, table_id=table_id, reading=AS_DECLARED).id
        watched: list[Watched] = []

        def execute(run_id: str, *, settings: Settings, progress: Progress) -> None:
            assert isinstance(progress, StoredProgress)
            # It writes twice a second; here it writes at every step, however long one takes.
            progress._interval = 0.0
            watched.append(Watched(progress))
            with Application(settings) as opened:
                runs.carry_out(opened.installation, run_id, watched[0], owner_report=self.owner_report)

        public["exit code"] = worker.main([run_id], execute=execute, settings=application.settings, command=("true",))
        public["progress"] = watched[0].seen
        public["shown"] = _shown(application, run_id)
        folder = run_folder.of(application.settings, run_id)
        # What the owner's report drew is the owner's.
        patch.setattr(os, "urandom", Entropy("release"))
        if application.run(run_id).state == "reported":
            public["certificate id"] = application.release(run_id, attestations=("yes",), attested_by="A. Steward")
            public["bundle"] = application.bundle(run_id)
            if self.verify:
                verdict = application.verify(BytesIO(public["bundle"]))
                assert verdict.ok, verdict
                public["verdict"] = repr(verdict)
        public["shown after the release"] = _shown(application, run_id)
        public["files"] = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "owner" not in path.relative_to(folder).parts
        }
        public["database"] = _database(application)
        return public


def _shown(application: Application, run_id: str) -> Public:
    """What screens and commands ask for."""
    shown: Public = {
        "run": application.run(run_id),
        "runs": application.runs(),
        "ledger": application.ledger_rows(),
        "accounts": application.accounts(),
        "tables": [(table.table_id, table.account, table.name, table.columns) for table in application.intake.tables()],
    }
    for name, ask in {"report": application.report, "certificate": application.certificate}.items():
        try:
            shown[name] = ask(run_id)
        except SynthError as error:
            shown[name] = str(error)
    return shown


def _database(application: Application) -> Public:
    """Every row of the database, without what it holds of a table for its owner."""
    found: Public = {}
    with application.store.reading() as connection:
        for name in sorted(inspect(connection).get_table_names()):
            rows = connection.execute(text(f"SELECT * FROM {name}")).mappings()  # noqa: S608 - names of our tables
            owners = OWNERS_COLUMNS.get(name, set())
            found[name] = [{column: row[column] for column in row if column not in owners} for row in rows]
    return found


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """Say where two worlds differ, and never how."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        names = sorted({*first, *second}, key=str)
        return [one for name in names for one in differences(first.get(name), second.get(name), f"{where}/{name}")]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return [one for place, pair in pairs for one in differences(*pair, f"{where}/{place}")]
    return [] if first == second else [where]


def moved(certificate: Mapping[str, Any], first: Dictation, second: Dictation) -> dict[str, float]:
    """By question of a run that asks for sums alone: how far one unit moves its exact answer.

    It is never farther than the certificate states. What a run was tried out with, before it, is left aside.
    """
    receipts, found = certificate["receipts"], {}
    assert len(receipts) <= len(first.sums) == len(second.sums), "not every answer is a sum"
    sums = zip(receipts, first.sums[-len(receipts) :], second.sums[-len(receipts) :], strict=True)
    for receipt, one, other in sums:
        distance = float(np.linalg.norm((one - other).astype(np.float64))) * receipt["grid"]
        assert distance <= receipt["sensitivity"] * (1 + 1e-9), (
            f"'{receipt['query']}' moved by {distance:.6g}, its receipt says {receipt['sensitivity']:.6g}"
        )
        found[receipt["query"]] = distance
    return found


def t5_whole_runs(
    config: RunConfig,
    first: bytes,
    others: Mapping[str, bytes],
    home: Path,
    *,
    owner_report: bool = False,
    verify: bool = False,
    ends: str = "released",
    heard: list[Dictation] | None = None,
) -> tuple[Public, Dictation]:
    """With the answers forced to be equal, not one public byte of a whole run depends on one unit.

    ``heard`` takes what was asked of every neighbour.
    """
    browser, dictation = Browser(config, home, owner_report, verify), Dictation()
    before = browser.public(first, dictation)
    assert before["shown after the release"]["run"].state == ends, before["shown"]["run"].message
    for name, second in others.items():
        again = dictation.again()
        found = differences(before, browser.public(second, again))
        again.require_all_asked()
        if heard is not None:
            heard.append(again)
        assert not found, f"a whole run depends on one unit ({name}) in {', '.join(found[:8])}"
    return before, dictation
