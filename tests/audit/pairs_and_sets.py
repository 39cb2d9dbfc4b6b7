"""Whole runs that ask for what many columns tell together, in neighbouring worlds: from bytes to the sealed bundle.

Two tables take the ways of the default generator by themselves. In the dense one all columns go together: a look at all
pairs is followed by one question for all of them, by sets of columns where these are allowed, and by second moments
where rows are for regressions. In the other one a class depends on three columns at once, of which no two tell
anything: a first set of columns stands out, and sets are chosen and counted until nothing is left.

What is looked for is written beside each law. All of them begin with the bytes of two files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_runs import ACCOUNT, WORLDS, Browser, Dictation, Public, World, differences
from oracle import delta_of_gaussian
from scipy.special import ndtri

from synth.bundle.checks import check
from synth.bundle.replay import replay
from synth.bundle.verify import Outcome
from synth.errors import SynthError
from synth.generators.adaptive import all_pairs, dp_hp_adaptive, sums, whole_rows
from synth.models import pool
from synth.models.joint_model import MarkovRandomFieldFitter
from synth.privacy.answers import ROW_COUNT_QUERY
from synth.privacy.costs import MU_UNIT
from synth.privacy.session import PrivateSession
from synth.schema import (
    CategoryColumn,
    IdentifierColumn,
    ModelledColumn,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    YesNoColumn,
)
from synth.services import runs

__all__ = [
    "BOTH",
    "DENSE",
    "LAWS",
    "LOOK",
    "NAMED",
    "PAIRS",
    "PARITY",
    "REGRESSION",
    "Followed",
    "Together",
    "first_broken",
    "follow",
    "small_fits",
]

LOOK, PAIRS, CHOICE, SET = "which columns go together", "all pairs of columns", "choice of wide table", "wide table"
MOMENTS, CENTRES = "moments of all columns", "rows by nearest centre"

EPSILON, DELTA, UNITS = 40.0, 1e-5, 900
"""So large that few people are enough for every question to be asked."""

Line = bytes


@dataclass(frozen=True)
class Together:
    """A table, what is asked of it, and what somebody new brings."""

    name: str
    columns: tuple[ModelledColumn, ...]
    options: tuple[tuple[str, Any], ...]
    people: Callable[[np.random.Generator, int], list[list[str]]]
    gone: tuple[str, ...]
    """Somebody who may be replaced."""
    brought: dict[str, tuple[bytes, ...]]
    """By name, the lines that somebody new brings, without an id."""
    asked: tuple[str, ...]
    """How names of questions begin that this table is asked, in order; others may stand between them."""
    rules: tuple[str, ...] = ()
    sets: bool = True
    """Whether sets of many columns may be asked."""

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name

    def config(self, world: World) -> RunConfig:
        unit = PrivacyUnit("person", world.rows_per_unit, "who" if world.ids else None)
        schema = Schema(
            (IdentifierColumn("who"), *self.columns),
            unit=unit,
            row_count=world.row_count,
            number_of_units=UNITS if world.row_count == "public" else None,
        )
        return RunConfig(
            schema=schema,
            account=ACCOUNT,
            epsilon=EPSILON,
            delta=DELTA,
            people_at_most=5000,
            rows=40,
            holdout=0.0,
            label=self.columns[-1].name,
            seed=3,
            generator="dp-hp-adaptive",
            options=dict(self.options),
            constraints=self.rules,
        )

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Leave sets of many columns out of runs and of fits to their answers, where the table is asked for none."""
        with pytest.MonkeyPatch.context() as patch:
            if not self.sets:
                patch.setattr(dp_hp_adaptive, "_CLEAR_WHOLE_ROWS", math.inf)
            yield

    @cache  # noqa: B019 - as many as there are tables and worlds
    def lines(self, world: World) -> tuple[Line, ...]:
        """Return honest lines, in an order that says nothing; where several rows are allowed some have too many."""
        random = np.random.default_rng(UNITS)
        several = world.ids and world.rows_per_unit > 1
        whose = [unit for unit in range(1, UNITS) for _ in range(1 + unit % 4 if several else 1)]
        cells = self.people(random, len(whose))
        lines = [
            b",".join([b"p%d" % unit, *map(str.encode, one)]) + b"\n" for unit, one in zip(whose, cells, strict=True)
        ]
        lines.append(b",".join([b"p0", *map(str.encode, self.gone)]) + b"\n")
        return tuple(lines[place] for place in random.permutation(len(lines)))

    def new(self, world: World, name: str) -> list[Line]:
        """Return the lines of somebody new: one, or more than may be kept."""
        (*said,) = self.brought[name]
        lines = [b"new," + cells + b"\n" for cells in said]
        return lines * 3 if world.ids and world.rows_per_unit > 1 else lines[:1]

    def file(self, lines: Sequence[Line]) -> bytes:
        return ",".join(["who", *(column.name for column in self.columns)]).encode() + b"\n" + b"".join(lines)

    def neighbours(self, world: World, name: str) -> tuple[bytes, bytes]:
        """Return two files; in the second somebody new has come, in the place of somebody else or beside all."""
        lines, new = list(self.lines(world)), self.new(world, name)
        middle = len(lines) // 2
        left = lines if world.row_count == "private" else [one for one in lines if not one.startswith(b"p0,")]
        return self.file(lines), self.file([*left[:middle], *new, *left[middle:]])


def of_factors(random: np.random.Generator, rows: int) -> list[list[str]]:
    """Five numbers and a class that all follow two hidden causes: no few pairs of them tell the others."""
    causes, loads = random.normal(size=(rows, 2)), np.random.default_rng(8).normal(size=(2, 6))
    loads[0] = np.abs(loads[0]) + 1.0
    told = causes @ loads / np.linalg.norm(loads, axis=0) + 0.25 * random.normal(size=(rows, 6))
    numbers = np.clip(np.rint(told[:, :5] * 1.6 + 3.5), 0, 7).astype(int)
    classes = np.array(["low", "mid", "high"])[np.digitize(told[:, 5], [-0.45, 0.45])]
    return [[*map(str, one), kind] for one, kind in zip(numbers.tolist(), classes.tolist(), strict=True)]


def of_three(random: np.random.Generator, rows: int) -> list[list[str]]:
    """Five flags, and whether an odd number of the first three is set."""
    flags = random.integers(0, 2, (rows, 5))
    odd = flags[:, :3].sum(axis=1) % 2
    words = np.array(["no", "yes"])
    return [list(map(str, words[one])) for one in np.column_stack([flags, odd])]


DENSE = Together(
    "a dense table",
    (
        NumberColumn("a", 0, 7, 1, missing=True),
        *(NumberColumn(name, 0, 7, 1, fallback=3) for name in "bcde"),
        CategoryColumn("kind", ("low", "mid", "high"), missing=True),
    ),
    (("bins", 6), ("cells", 1000)),
    of_factors,
    ("0", "0", "0", "0", "0", "high"),
    {
        "all ends, and against its class": (b"7,7,7,7,7,low",),
        "far beyond all bounds": (b"-1e400,1e400,-5,99,1e400,unheard",),
        "no class": (b",0,7,0,7,",),
        "a line that cannot be read": (b'\xff,"',),
    },
    (LOOK, PAIRS),
    sets=False,
)

BOTH = replace(
    DENSE,
    name="a dense table whose sets are asked too",
    sets=True,
    brought={name: DENSE.brought[name] for name in ("all ends, and against its class", "no class")},
    asked=(LOOK, PAIRS, f"{CHOICE} 1", f"{SET} 1"),
)

REGRESSION = replace(
    DENSE,
    name="a dense table for regressions",
    options=(*DENSE.options, ("purpose", "regression")),
    asked=(LOOK, PAIRS, MOMENTS),
)

NAMED = replace(
    REGRESSION,
    name="a dense table for one regression",
    options=(*DENSE.options, ("purpose", "regression of kind on a, c")),
    brought={name: DENSE.brought[name] for name in ("all ends, and against its class", "no class")},
)

PARITY = Together(
    "a class of three columns together",
    (*(YesNoColumn(f"c{place}", fallback="no") for place in range(5)), YesNoColumn("odd", missing=True)),
    (),
    of_three,
    ("no", "no", "no", "no", "no", "no"),
    {
        "against its class": (b"yes,yes,no,yes,yes,yes",),
        "no class": (b"yes,yes,yes,yes,yes,",),
        "a line that cannot be read": (b'\xff,"',),
    },
    (LOOK, "choice 1", f"{CHOICE} 1", f"{SET} 1", f"{CHOICE} 2", f"{SET} 2", CENTRES),
)


@contextmanager
def small_fits() -> Iterator[pytest.MonkeyPatch]:
    """Pools and fits that take a moment, no run on made-up rows before, and centres whatever sets told.

    Which other questions are asked is left alone.
    """
    right = whole_rows.WholeRows._ask_in_rounds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "try_out", lambda *given, **named: None)
        patch.setattr(MarkovRandomFieldFitter, "first_steps", 4)
        patch.setattr(MarkovRandomFieldFitter, "last_steps", 20)
        patch.setattr(pool, "POOL_ROWS", 3000)
        patch.setattr(whole_rows, "_LEAST_EFFECTIVE", 120.0)
        patch.setattr(whole_rows.WholeRows, "_ask_in_rounds", lambda *told, **more: (right(*told, **more)[0], True))
        patch.setattr(all_pairs, "_STEPS", 30)
        patch.setattr(all_pairs, "_MORE", ())
        patch.setattr(all_pairs, "_FITS", 2)
        patch.setattr(all_pairs, "_COMPONENTS", 6)
        yield patch


class Questions(Dictation):
    """A dictation that keeps every question to the last bit, what was answered before noise, and what the noise was.

    In the second world each question has to be the first world's: not alone its receipt and its noise, but every table,
    bin and penalty of it, those of candidates that were not chosen included.
    """

    def __init__(self) -> None:
        super().__init__()
        self.digests: list[str] = []
        self.exact: list[tuple[str, np.ndarray]] = []
        """Name of every question, with its exact sum in grid steps or the exact scores of its candidates."""
        self.noise: list[int | tuple[int, int]] = []
        """Of every question, the variance that was drawn, or the rate of a choice."""
        self.wrong = ""
        """Which question is another one than in the first world."""
        self._before: list[str] | None = None
        self._scores = np.zeros(0, np.int64)

    def again(self) -> Questions:
        other = Questions()
        other._answers, other._place, other._before = self._answers, 0, self.digests
        return other

    def install(self, patch: pytest.MonkeyPatch) -> None:
        super().install(patch)
        right = PrivateSession._answered

        def answered(session: PrivateSession, question: Any, plan: Any, receipts: Any) -> Any:
            place, digest, query = len(self.digests), question.digest(), receipts[0].query
            if self._before is not None and self._before[place : place + 1] != [digest]:
                # The run ends here, with an incident: what is wrong is told to who follows it.
                self.wrong = f"the question '{query}' depends on more than the answers before it"
                raise AssertionError(self.wrong)
            self.digests.append(digest)
            numbers = right(session, question, plan, receipts)
            chosen = receipts[0].mechanism == "exponential"
            self.exact.append((query, self._scores if chosen else self._sums))
            return numbers

        patch.setattr(PrivateSession, "_answered", answered)

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        self.noise.append(variance)
        return super().gaussian(variance, size)

    def choose(self, scores: np.ndarray, *, numerator: int, denominator: int) -> int:
        self._scores = scores.copy()
        self.noise.append((numerator, denominator))
        return super().choose(scores, numerator=numerator, denominator=denominator)


@dataclass(frozen=True)
class Followed:
    """What two neighbouring files became; and, where somebody was added, what the new lines become by themselves."""

    table: Together
    world: World
    public: Public
    first: Questions
    second: Questions
    alone: Questions | None
    shuffled: Questions | None

    @property
    def receipts(self) -> list[dict[str, Any]]:
        return list(json.loads(self.public["files"]["certificate.json"])["receipts"])

    def exact(self, heard: Questions) -> list[tuple[str, np.ndarray]]:
        """Return what was answered before noise, without what the run was tried out with before its charge."""
        return heard.exact[-len(self.receipts) :]


def follow(table: Together, world_name: str, brought: str, home: Path, *, more: bool = True) -> Followed:
    """Carry neighbouring files through whole runs: nothing public may depend on one unit, nor any question.

    With ``more`` the lines of the first file come in another order too, and a file of the new lines alone.
    """
    with table.taken():
        return _followed(table, WORLDS[world_name], brought, home, more=more)


def _followed(table: Together, world: World, brought: str, home: Path, *, more: bool) -> Followed:
    config, (first, second) = table.config(world), table.neighbours(world, brought)
    browser, heard = Browser(config, home, owner_report=False, verify=False), Questions()
    before = browser.public(first, heard)
    assert before["shown after the release"]["run"].state == "released", before["shown"]["run"].message

    def again(data: bytes, what: str) -> Questions:
        other = heard.again()
        found = differences(before, browser.public(data, other))
        assert not other.wrong, f"{other.wrong}: {what}"
        other.require_all_asked()
        assert not found, f"a whole run depends on {what} in {', '.join(found[:8])}"
        return other

    beside = again(second, "one unit")
    alone = shuffled = None
    if more:
        # Which rows of somebody with too many are kept follows from their order among his own.
        lines = sorted(table.lines(world), key=lambda line: line.split(b",")[0][::-1])
        shuffled = again(table.file(lines), "the order of lines")
        if world.row_count == "private":
            alone = again(table.file(table.new(world, brought)), "all units but one")
    return Followed(table, world, before, heard, beside, alone, shuffled)


# Laws


def the_way_is_taken(run: Followed, folder: Path) -> None:
    """Every question that this table is there for is asked, in its order, and before anything is spent twice."""
    asked = [receipt["query"] for receipt in run.receipts]
    assert len(set(asked)) == len(asked)
    assert [query for query, _ in run.exact(run.first)] == asked, "receipts are not of what was asked"
    left = iter(asked)
    for begins in run.table.asked:
        assert any(query.startswith(begins) for query in left), f"'{begins}' was not asked: {asked}"


def one_unit_moves_no_answer_farther_than_is_stated(run: Followed, folder: Path) -> None:
    """Exact sums by their length, scores each by itself; and what is stated is what the definition gives."""
    replaced, m = run.world.row_count == "public", run.world.rows_per_unit
    pairs = zip(run.receipts, run.exact(run.first), run.exact(run.second), strict=True)
    for receipt, (query, one), (_, other) in pairs:
        apart = np.abs((one - other).astype(np.float64)) * receipt["grid"]
        choice = receipt["mechanism"] == "exponential"
        moved = float(apart.max()) if choice else float(np.linalg.norm(apart))
        assert moved <= receipt["sensitivity"] * (1 + 1e-9), (
            f"'{query}' moved by {moved:.6g}, its receipt says {receipt['sensitivity']:.6g}"
        )
        # A row adds one number, or a vector of length 1 whose products with others are not negative.
        row = (2.0 if choice else math.sqrt(2.0)) if replaced and query != ROW_COUNT_QUERY else 1.0
        if replaced and query == sums.QUERY:
            # Steps from -1 to 1; tests/generators/test_added_up.py compares with the definition.
            assert m < receipt["sensitivity"] <= 2.0 * m
            continue
        assert receipt["sensitivity"] == pytest.approx(m * row, rel=1e-5), f"'{query}' states another sensitivity"


def a_row_adds_the_same_beside_any_rows(run: Followed, folder: Path) -> None:
    """To the last bit: what the new lines add to a sum is what they sum up to by themselves, in any order of lines."""
    pairs = list(zip(run.receipts, run.exact(run.first), run.exact(run.second), strict=True))
    for heard, what in ((run.alone, "other rows"), (run.shuffled, "the order of rows")):
        if heard is None:
            continue
        for (receipt, (query, one), (_, two)), (_, own) in zip(pairs, run.exact(heard), strict=True):
            if receipt["mechanism"] == "discrete_gaussian":
                wanted = two - one if heard is run.alone else one
                assert (own == wanted).all(), f"what a row adds to '{query}' depends on {what}"


def what_was_drawn_is_paid_for(run: Followed, folder: Path) -> None:
    """The noise that was really drawn, by definition alone, costs what receipts state, and all of the budget."""
    replaced, m = run.world.row_count == "public", run.world.rows_per_unit
    total = 0.0
    drawn = run.first.noise[-len(run.receipts) :]
    for receipt, noise in zip(run.receipts, drawn, strict=True):
        if isinstance(noise, tuple):
            parameter = noise[0] / noise[1] / receipt["grid"] * 2 * m * (2.0 if replaced else 1.0)
            mu = 2 * float(ndtri(1 / (1 + math.exp(-parameter / 2))))
            mu = abs(mu)
        else:
            # Two rows are as far apart as two numbers at right angles; both are one row where rows are counted.
            row = math.sqrt(2.0) if replaced and receipt["query"] != ROW_COUNT_QUERY else 1.0
            if replaced and receipt["query"] == sums.QUERY:
                row = (
                    receipt["sensitivity"] / m
                )  # bounded above, and by the definition in tests/generators/test_added_up.py
            mu = m * row / (math.sqrt(noise) * receipt["grid"])
        assert receipt["mu_squared_units"] * MU_UNIT == pytest.approx(mu**2, rel=1e-5), receipt["query"]
        total += mu**2
    certificate = json.loads(run.public["files"]["certificate.json"])
    assert 0.99 * EPSILON < certificate["epsilon"] <= EPSILON
    assert delta_of_gaussian(math.sqrt(total), EPSILON) <= DELTA * (1 + 1e-3)
    (account,) = run.public["shown after the release"]["accounts"]
    assert 0.999 * EPSILON < account.epsilon_spent <= EPSILON * (1 + 1e-6)


def the_bundle_holds(run: Followed, folder: Path) -> None:
    """``verify`` finds nothing; where it fits again, it asks in the way the run took."""
    with run.table.taken():
        found = check(BytesIO(run.public["bundle"]))
    assert not found.failures, found.failures
    assert found.outcome is Outcome.HOLDS, found.not_checked


def the_rows_come_again(run: Followed, folder: Path) -> None:
    """``replay`` draws the same bytes, each time."""
    for number in range(2):
        again = replay(bundle_of(run, folder), folder / f"again {number}")
        assert again.identical, "a replay depends on more than the bundle"
        assert again.report_identical, "a report depends on more than the bundle"


def everything_follows_from_answers(run: Followed, folder: Path) -> None:
    """Fitted again to the answers of the bundle alone: the same questions, the same shares, the same model and rows."""
    with run.table.taken():
        again = replay(bundle_of(run, folder), folder / "refitted", refit=True)
    assert again.identical, "what was decided or fitted depends on more than the answers"
    assert again.as_certified, again.lines


def first_broken(cases: Iterable[tuple[Together, str, str]], home: Path, folder: Path) -> str | None:
    """Return the first law that whole runs of tables, in worlds, with somebody new break, in words, or None."""
    for case in cases:
        name = "nothing depends on one unit"
        try:
            run = follow(*case, home)
            for law in LAWS:
                name = law.__name__.replace("_", " ")
                law(run, folder)
        except (AssertionError, SynthError) as noticed:
            return f"{name}: {str(noticed).splitlines()[0] if str(noticed) else type(noticed).__name__}"
    return None


def bundle_of(run: Followed, folder: Path) -> Path:
    path = folder / "bundle.zip"
    path.write_bytes(run.public["bundle"])
    return path


LAWS = (
    the_way_is_taken,
    one_unit_moves_no_answer_farther_than_is_stated,
    a_row_adds_the_same_beside_any_rows,
    what_was_drawn_is_paid_for,
    the_bundle_holds,
    the_rows_come_again,
    everything_follows_from_answers,
)
"""Beside the one of :func:`follow`, the cheap ones first."""
