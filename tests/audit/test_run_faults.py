"""Bugs planted between the bytes of a file and the sealed bundle: in the reader, the services, the ledger, the bundle.

They are looked for in two whole runs, one that is released and one in which a library fails. The default run plants
some of each, which show in different places; the others are planted with ``-m audit``.
"""

from __future__ import annotations

import json
import logging
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_runs import WORLDS, Public, neighbours, start_home, t5_whole_runs
from faults import tables_opened
from reading_here import read_here

from synth import worker
from synth.application import Application
from synth.bundle import sheets as writing
from synth.errors import SynthError, TableError
from synth.ledger import chain, spending
from synth.ledger.ledger import Ledger
from synth.ledger.notes import WENT_ON
from synth.privacy.session import PrivateSession
from synth.reading import reader
from synth.reports.evidence import SafeEvidence
from synth.schema import RunConfig
from synth.services import pipeline, run_folder, runs
from synth.services.intake import Intake
from synth.store import ChargeState
from synth.store.work import WORK

Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, Plant] = {}

BROUGHT = {
    "replace one": ("hardly anybody",),
    "add or remove": ("far beyond all bounds", "a line that cannot be read"),
}
"""Where there is hardly anybody, one person decides what is most frequent."""

LEARNED = {"holdout": 0.0}
"""Nobody is held out, so that what somebody brings is learned from whatever the account's secret is."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("planted") / "home")


def a_run_keeps_its_promise(home: Path) -> None:
    """Nothing public depends on one unit; what was reserved is spent and stated; nothing else is published."""
    for world, brought in BROUGHT.items():
        found = [neighbours(WORLDS[world], name) for name in brought]
        config = WORLDS[world].config(found[0][0], "independent", **LEARNED)
        others = {name: second for name, (_, _, second) in zip(brought, found, strict=True)}
        public, _ = t5_whole_runs(config, found[0][1], others, home)
        assert_books(public, config, ["reserved", "spent", "released"])
        assert set(public["files"]) == set(run_folder.PUBLISHABLE), "another file lies beside those to publish"
        certificate = json.loads(public["files"]["certificate.json"])
        assert certificate["delta"] == config.delta
        assert 0.99 * config.epsilon < certificate["epsilon"] <= config.epsilon
        assert certificate["ledger"]["charges"] == 2


def a_failing_library_tells_nothing(home: Path) -> None:
    """Where a library fails on the rows, and quotes them, the run says no more than that, and stays spent."""
    world = WORLDS["add or remove"]
    units, first, second = neighbours(world, "far beyond all bounds")
    config = world.config(units, "independent", **LEARNED)

    right = pipeline.make

    def make(*arguments: Any) -> Any:
        made = right(*arguments)
        fit = made.fit

        def failing(session: PrivateSession, progress: Any) -> Any:
            if session._table._rows < 5:  # made-up rows, on which a run is tried out before its charge
                return fit(session, progress)
            codes = [np.asarray(session._table._column(name)).tolist() for name in session.schema.names]
            raise ValueError(f"could not convert string to float: {codes}")

        made.fit = failing
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "make", make)
        public, _ = t5_whole_runs(config, first, {"far": second}, home, ends="failed")
    assert public["exit code"] == worker.INTERNAL_ERROR
    assert "could not convert" not in str(public["shown"]["run"].message)
    assert "stays spent" in str(public["shown"]["run"].message)
    assert_books(public, config, ["reserved", "spent", "failed-spent"])
    assert public["files"] == {}


def assert_books(public: Public, config: RunConfig, states: list[str]) -> None:
    shown = public["shown after the release"]
    assert [row.state for row in shown["ledger"]] == states
    assert {(row.epsilon, row.delta) for row in shown["ledger"]} == {(config.epsilon, config.delta)}
    (account,) = shown["accounts"]
    assert 0.999 * config.epsilon < account.epsilon_spent <= config.epsilon * (1 + 1e-6), "not all of it is spent"
    assert account.epsilon_simple_sum == config.epsilon


CHECKS = (a_run_keeps_its_promise, a_failing_library_tells_nothing)


def all_checks(home: Path, *, failures_first: bool) -> None:
    for check in reversed(CHECKS) if failures_first else CHECKS:
        check(home)


OF_FAILURES = {
    "a run says what a library said",
    "an incident keeps the words of a library",
    "a charge whose noise was drawn is freed",
    "the charges of failed runs are not added",
}
"""What shows where a library fails is looked for there first."""

QUICK = {
    "malformed cells are counted in the log",
    "the order of the categories is that of the table",
    "the seed follows the fingerprint of the table",
    "the number of private rows is a phase",
    "small tables are fitted by another generator",
    "a run says what a library said",
    "the owner's files lie beside those to publish",
    "the exit code follows the parity of the private number of rows",
    "that the run went on is noted where the number of rows is odd",
    "a charge whose noise was drawn is freed",
    "a released charge counts for what its questions used",
    "the bundle is padded to the length of the upload",
    "the certificate holds the fingerprint of the table",
    "an exact number is called safe",
    "the delta on the certificate is a part of the one spent",
}
"""In the default run: one bug for each way out, of the reader, the services, the ledger and the bundle."""


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant
        return plant

    return keep


def fit_with(patch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    """Put something between a run and its fit: called with the fit, configuration, table and progress."""
    right = runs.fit_and_sample

    def fit(config: RunConfig, table: Any, progress: Any, **named: Any) -> Any:
        return change(lambda config: right(config, table, progress, **named), config, table, progress)

    patch.setattr(runs, "fit_and_sample", fit)


# The reader


@fault("a table with too many lines that cannot be read is refused in the run")
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader._Collected.table

    def table(self: Any, end: dict[str, Any]) -> Any:
        if end["lines"][1]:
            raise TableError("More than 1 % of the lines cannot be read. Mend the table.")
        return right(self, end)

    patch.setattr(reader._Collected, "table", table)


@fault("malformed cells are counted in the log")
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader._Collected.table

    def table(self: Any, end: dict[str, Any]) -> Any:
        logging.getLogger("synth.reader").info("read, %s", end["counts"])
        return right(self, end)

    patch.setattr(reader._Collected, "table", table)


@fault("the order of the categories is that of the table")
def _(patch: pytest.MonkeyPatch) -> None:
    def fit(right: Any, config: RunConfig, table: Any, progress: Any) -> Any:
        place = table.schema.names.index("town")
        made = right(config)
        seen = np.argsort(-np.bincount(table._column("town"), minlength=4), kind="stable")
        codes = made.codes.copy()
        codes[:, place] = seen[codes[:, place]]
        return replace(made, codes=codes)

    fit_with(patch, fit)


# The services


@fault("the seed follows the parity of the private number of rows")
def _(patch: pytest.MonkeyPatch) -> None:
    fit_with(patch, lambda right, config, table, _: right(replace(config, seed=config.seed + table._rows % 2)))


@fault("the seed follows the fingerprint of the table")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Application.reserve

    def reserve(self: Application, config: RunConfig, *, table_id: str, **named: Any) -> Any:
        seed = int(self.store.tables[table_id].fingerprint[:8], 16)
        return right(self, replace(config, seed=seed), table_id=table_id, **named)

    patch.setattr(Application, "reserve", reserve)


@fault("the number of private rows is a phase")
def _(patch: pytest.MonkeyPatch) -> None:
    def fit(right: Any, config: RunConfig, table: Any, progress: Any) -> Any:
        progress.phase(f"Measuring {table._rows:,} rows")
        return right(config)

    fit_with(patch, fit)


@fault("steps are counted in private rows")
def _(patch: pytest.MonkeyPatch) -> None:
    def fit(right: Any, config: RunConfig, table: Any, progress: Any) -> Any:
        progress.step(0, table._rows)
        return right(config)

    fit_with(patch, fit)


@fault("as many rows are made as the table has")
def _(patch: pytest.MonkeyPatch) -> None:
    fit_with(patch, lambda right, config, table, _: right(replace(config, rows=table._rows)))


@fault("small tables are fitted by another generator")
def _(patch: pytest.MonkeyPatch) -> None:
    def fit(right: Any, config: RunConfig, table: Any, _: Any) -> Any:
        many = int((table._column("well") == 0).sum()) % 2
        return right(config if many else replace(config, generator="independent-by-class"))

    fit_with(patch, fit)


@fault("the forecast counts the table")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Application.plan

    def plan(self: Application, config: RunConfig) -> Any:
        (table,) = self.tables()
        return right(self, replace(config, people_at_most=100 * int(table.n_rows or 1)))

    patch.setattr(Application, "plan", plan)


@fault("a run says what a library said")
def _(patch: pytest.MonkeyPatch) -> None:
    right = worker._stop

    def stop(store: Any, run_id: str, state: Any, message: str, *others: Any, **named: Any) -> int:
        return right(store, run_id, state, f"{message} {sys.exc_info()[1]}", *others, **named)

    patch.setattr(worker, "_stop", stop)


@fault("an incident keeps the words of a library")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(worker, "code_location", lambda error: f"{type(error).__name__}: {error}")


@fault("the owner's files lie beside those to publish")
def _(patch: pytest.MonkeyPatch) -> None:
    right = run_folder.write_owner_json
    patch.setattr(run_folder, "write_owner_json", lambda path, body: right(path.parent.parent / path.name, body))


@fault("a release is not entered in the ledger")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "release", lambda self, charge, certificate_id: charge)


@fault("the exit code follows the parity of the private number of rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = worker._work, tables_opened(patch)
    patch.setattr(worker, "_work", lambda *arguments: right(*arguments) or int(opened[-1]._rows % 2))


@fault("that the run went on is noted where the number of rows is odd")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = runs._sealing, tables_opened(patch)

    def sealing(application: Application, run: Any, charge: Any = None, went_on: Any = ()) -> Any:
        many = charge is not None and opened[-1]._rows % 2
        return right(application, run, charge, (WENT_ON,) if many else went_on)

    patch.setattr(runs, "_sealing", sealing)


def open_with(patch: pytest.MonkeyPatch, change: Callable[[Application, Any, int], Any]) -> None:
    """Do something when a run opens its table: called with the application, the run and the number of rows."""
    right = runs._open

    def opened(application: Application, run: Any, config: RunConfig) -> Any:
        sides = right(application, run, config)
        change(application, run, sides[0]._rows)
        return sides

    patch.setattr(runs, "_open", opened)


@fault("the owner is said to have looked where the number of rows is odd")
def _(patch: pytest.MonkeyPatch) -> None:
    def look(application: Application, run: Any, rows: int) -> None:
        if rows % 2:
            application.ledger.note_owner_view(run.account_id, run_id=run.id, who="owner", what="report")

    open_with(patch, look)


@fault("one more worker is counted where the number of rows is odd")
def _(patch: pytest.MonkeyPatch) -> None:
    open_with(
        patch, lambda application, run, rows: application.store.work._change(WORK.c.id == run.id, attempts=1 + rows % 2)
    )


# The ledger


@fault("a charge whose noise was drawn is freed")
def _(patch: pytest.MonkeyPatch) -> None:
    ends = chain.SUCCESSORS | {ChargeState.SPENT: (ChargeState.RELEASED, ChargeState.FREED)}
    patch.setattr(chain, "SUCCESSORS", ends)
    patch.setattr(Ledger, "fail", Ledger.free)


@fault("the charges of failed runs are not added")
def _(patch: pytest.MonkeyPatch) -> None:
    right = spending.Spent.of.__func__  # type: ignore[attr-defined]

    def of(cls: Any, account: Any, charges: Any, **named: Any) -> Any:
        kept = [charge for charge in charges if charge.state is not ChargeState.FAILED_SPENT]
        return right(cls, account, kept, **named)

    patch.setattr(spending.Spent, "of", classmethod(of))


@fault("a released charge counts for what its questions used")
def _(patch: pytest.MonkeyPatch) -> None:
    right = spending.Cost.of_charges.__func__  # type: ignore[attr-defined]

    def of_charges(cls: Any, charges: Any) -> Any:
        used = (
            replace(charge, mu_squared_units=charge.mu_squared_units * 9 // 10)
            if charge.state is ChargeState.RELEASED
            else charge
            for charge in charges
        )
        return right(cls, used)

    patch.setattr(spending.Cost, "of_charges", classmethod(of_charges))


@fault("the purpose of a charge tells how many rows there are")
def _(patch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    received, reserved = Intake.receive, Ledger.reserve

    def receive(self: Intake, *arguments: Any, **named: Any) -> Any:
        table = received(self, *arguments, **named)
        opened.append(int(table.n_rows or 0))
        return table

    def reserve(self: Ledger, *arguments: Any, purpose: str, **named: Any) -> Any:
        return reserved(self, *arguments, purpose=f"{purpose} from {opened[-1]} rows", **named)

    patch.setattr(Intake, "receive", receive)
    patch.setattr(Ledger, "reserve", reserve)


# The bundle


@fault("the bundle is padded to the length of the upload")
def _(patch: pytest.MonkeyPatch) -> None:
    right = runs.seal_release

    def sealed(config: RunConfig, measured: Any, folder: Path, **named: Any) -> Any:
        made = right(config, measured, folder, **named)
        with zipfile.ZipFile(folder / "bundle.zip", "a") as archive:
            archive.comment = b" " * (uploads[-1] % 97)
        return made

    uploads: list[int] = []
    received = Intake.receive

    def receive(self: Intake, stream: Any, **named: Any) -> Any:
        uploads.append(len(stream.getvalue()))
        return received(self, stream, **named)

    patch.setattr(runs, "seal_release", sealed)
    patch.setattr(Intake, "receive", receive)


@fault("the certificate holds the fingerprint of the table")
def _(patch: pytest.MonkeyPatch) -> None:
    right = runs._sealing

    def sealing(application: Application, run: Any, *others: Any) -> Any:
        found = right(application, run, *others)
        head = application.store.tables[run.table_id].fingerprint
        return replace(found, ledger={**found.ledger, "head": head})

    patch.setattr(runs, "_sealing", sealing)


@fault("rows are written in the order of how often their codes occur")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = pipeline.write_table, tables_opened(patch)

    def write_table(codes: np.ndarray, schema: Any, *others: Any, **more: Any) -> None:
        often = np.zeros(len(codes))
        for place, (name, size) in enumerate(zip(schema.names, schema.sizes, strict=True)):
            often += np.bincount(opened[-1]._column(name), minlength=size)[codes[:, place]]
        right(codes[np.argsort(often, kind="stable")], schema, *others, **more)

    patch.setattr(pipeline, "write_table", write_table)


@fault("how long row groups are follows the number of private rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = pipeline.write_table, tables_opened(patch)

    def write_table(*arguments: Any, **more: Any) -> None:
        patch.setattr(writing, "PIECE", 1 + opened[-1]._rows % 32)
        right(*arguments, **more)

    patch.setattr(pipeline, "write_table", write_table)


@fault("an exact number is called safe")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = pipeline.published_evidence, tables_opened(patch)

    def evidence(*arguments: Any, **named: Any) -> Any:
        exact = float(opened[-1]._column("age").sum())
        found = SafeEvidence(id="ages.sum", title="Sum of the codes of age", value=exact)
        return (*right(*arguments, **named), found)

    patch.setattr(pipeline, "published_evidence", evidence)


@fault("the model keeps the codes that occur")
def _(patch: pytest.MonkeyPatch) -> None:
    def fit(right: Any, config: RunConfig, table: Any, _: Any) -> Any:
        made = right(config)
        name, array = next(iter(made.state.items()))
        trained = np.array(array)
        trained.reshape(-1)[0] += len(np.unique(table._column("age"))) + table._column("well").sum() % 2
        return replace(made, state={**made.state, name: trained})

    fit_with(patch, fit)


@fault("the delta on the certificate is a part of the one spent")
def _(patch: pytest.MonkeyPatch) -> None:
    right = pipeline.certify
    patch.setattr(pipeline, "certify", lambda receipts, *, delta, **named: right(receipts, delta=delta * 0.9, **named))


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "ask", read_here)


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_noticed_in_a_whole_run_without_a_bug(check: Callable[[Path], None], home: Path) -> None:
    check(home)


def test_what_is_planted_in_the_default_run_is_there() -> None:
    assert set(FAULTS) > QUICK


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "planted", [name if name in QUICK else pytest.param(name, marks=pytest.mark.audit) for name in FAULTS]
)
def test_a_planted_bug_in_a_whole_run_is_noticed(planted: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is planted in the trial alone, which is 40 % of a run; the runs without a bug have it.
    monkeypatch.setattr(runs, "try_out", lambda *given, **more: None)
    FAULTS[planted](monkeypatch)
    with pytest.raises((AssertionError, SynthError)):
        all_checks(home, failures_first=planted in OF_FAILURES)
