"""Rehearsal on a stand-in: the same configuration and code, on rows that need no protection.

No account, no charge, no bundle. The numbers are exact and safe to publish, because the rows are public or simulated
from what was declared. All attacks are tried, and one that does better than the proof allows stops every release with
this configuration (:mod:`synth.services.stops`). A grid of epsilons and generators (:mod:`synth.rehearsal.grid`) is
kept separately, whatever epsilon and generator the configuration has by now.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import uuid4

import numpy as np

from synth.errors import AttackError, TableError
from synth.estimators import restore
from synth.generators import CONTROL, GeneratorTask
from synth.jobs import Engine, engine_of
from synth.ledger.rulings import Role
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.rehearsal.grid import (
    Grid,
    GridRehearsal,
    OpenedStandIn,
    Predicted,
    check_grid,
    predicted_of,
    rehearse_grid,
)
from synth.rehearsal.simulation import SIMULATED_FORMAT
from synth.rehearsal.stand_in import (
    REHEARSAL_SENTENCE,
    SIMULATED_SENTENCE,
    STAND_IN_SENTENCE,
    error_of_model,
    of_stand_in,
)
from synth.reports.code_tables import CodeTable
from synth.reports.document import report_document
from synth.reports.evidence import SafeEvidence
from synth.reports.registry import reports
from synth.reports.risk_bounds import ProvenCeiling
from synth.reports.wording import number_text
from synth.schema import RunConfig, config_to_mapping, parse_config
from synth.services import run_folder
from synth.services.access import ITSELF, Access, internal, use_case
from synth.services.devices import on_planned_device
from synth.services.incidents import record_incident
from synth.services.installation import Installation
from synth.services.pipeline import FittedRun, fit_and_sample, fit_and_sample_together, fits_together
from synth.services.planning import check_config
from synth.services.reports import exact_numbers, open_stand_in, owner_rows, rows_of_part, stand_in_parts
from synth.services.stops import Stops, configuration_digest
from synth.store import Work, WorkKind, WorkState, now
from synth.vault.sealing import DecryptedStream, encrypt_stream, new_key, seal, unseal
from synth.vault.vault import Fingerprint

__all__ = ["Rehearsal", "Rehearsals", "carry_out"]

OpenStandIn = Callable[[], BinaryIO]

_USUAL_HOLDOUT = 0.2
_REPORT, _ROWS = "report.json", "stand-in"
_PIECE = 2**20
LEFT_AGE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result of a rehearsal: its numbers, and the incident if it stopped the configuration."""

    evidence: tuple[SafeEvidence, ...]
    incident: str | None
    exceeded: tuple[str, ...] = ()
    said: str = STAND_IN_SENTENCE

    @property
    def lines(self) -> list[str]:
        """The most important numbers and the verdict, as lines of text."""
        spoken_of = [report.spoken for report in reports() if report.spoken is not None]
        first = [entry for entry in self.evidence if any(one.fullmatch(entry.id) for one in spoken_of)]
        spoken = [
            f"{entry.title}: {entry.value:.3g} {entry.unit}. {_verdict(entry)}".replace(" .", ".").rstrip()
            for entry in first
            if isinstance(entry.value, float)
        ]
        # For a model: what it says about itself, and its error on held-out rows.
        spoken += [
            f"{entry.title}: {number_text(entry.value)} {entry.unit}. {entry.sentence}".replace(" .", ".").rstrip()
            for entry in self.evidence
            if entry.section == "model" and entry.value is not None
        ]
        # Why a report has no numbers.
        reasons = {name for report in reports() for name in report.reasons}
        return [*spoken, *(entry.sentence for entry in self.evidence if entry.id in reasons), self.sentence]

    @property
    def sentence(self) -> str:
        """The sentence to show first."""
        if self.incident is None:
            return f"{self.said} {REHEARSAL_SENTENCE}"
        return (
            f"Stop. An attack did better than the proof allows ({', '.join(self.exceeded)}). This is a bug, so do not "
            f"release. Incident {self.incident}. Runs and releases with this configuration are stopped."
        )


class Rehearsals:
    """The rehearsals of one installation: the latest for each configuration, and the latest grid for each description.

    Parameters
    ----------
    installation : Installation
        Where stops are kept, and whose keys recognise a private table that is offered as a stand-in; its vault is not
        opened, and no account is read.
    engine : Engine
        Runs them in the background.
    access : Access
        Who asks; by default the program itself.
    """

    def __init__(self, installation: Installation, engine: Engine, *, access: Access = ITSELF) -> None:
        self._engine, self.access = engine, access
        self._settings, self._store, self._keys = installation.settings, installation.store, installation.keys

    @use_case(Role.OWNER)
    def rehearse(
        self, config: RunConfig, open_rows: OpenStandIn, progress: Progress, *, simulated: bool = False
    ) -> Rehearsal:
        """Rehearse in this process and keep the report.

        Parameters
        ----------
        config : RunConfig
            Account, table and test table are not read. If it holds out nothing, a fifth of the units is held out here,
            because attacks need people who were not trained on.
        open_rows : callable
            Opens the stand-in, a file in the format of ``config.format``; called several times.
        progress : Progress
        simulated : bool
            Whether the stand-in was simulated from declarations (:mod:`synth.rehearsal.simulation`).

        Raises
        ------
        TableError
            If the stand-in is a private table of the user's, or cannot be read as declared.
        """
        check_config(config)
        self._refuse_private(open_rows)
        return self._rehearsal(config, open_rows, progress, simulated=simulated)

    def _rehearsal(
        self, config: RunConfig, open_rows: OpenStandIn, progress: Progress, *, simulated: bool
    ) -> Rehearsal:
        rehearsed, said = _rehearsed(config, simulated=simulated), _said_of(simulated=simulated)
        progress.phase("Reading")
        view = open_stand_in(rehearsed, open_rows, _key(rehearsed))
        if config.is_model:
            held_out = rows_of_part(view, "holdout").codes
            found = Rehearsal(
                _evidence_of_model(self._placed(rehearsed), _training_table(rehearsed, open_rows), held_out, progress),
                None,
                said=said,
            )
            self._keep(config, found)
            return found
        synthetic, ceiling = _synthetic_rows(self._placed(rehearsed), _training_table(rehearsed, open_rows), progress)
        rows = owner_rows(rehearsed, view, synthetic, ceiling.receipts)
        exact = of_stand_in(exact_numbers(rows, progress), sentence=said)
        attacked = stand_in_parts(rows, progress)
        incident = None
        if attacked.exceeded:
            incident = record_incident(AttackError("", incident=""))
            Stops(self._store).record(config, incident, ", ".join(attacked.exceeded))
        found = Rehearsal((*exact, *attacked.evidence), incident, attacked.exceeded, said)
        self._keep(config, found)
        return found

    @use_case(Role.OWNER)
    def rehearse_grid(
        self,
        config: RunConfig,
        grid: Grid,
        open_rows: OpenStandIn,
        progress: Progress,
        *,
        simulated: bool = False,
        watch: Callable[[GridRehearsal], None] = lambda found: None,
    ) -> GridRehearsal:
        """Rehearse a grid in this process and keep it after every cell.

        Parameters and errors are those of :meth:`rehearse`; ``watch`` is called with the grid so far, once it is kept.
        """
        check_grid(config, grid)
        self._refuse_private(open_rows)
        return self._grid(config, grid, open_rows, progress, simulated=simulated, watch=watch)

    def _grid(
        self,
        config: RunConfig,
        grid: Grid,
        open_rows: OpenStandIn,
        progress: Progress,
        *,
        simulated: bool,
        watch: Callable[[GridRehearsal], None] = lambda found: None,
    ) -> GridRehearsal:
        rehearsed = _rehearsed(config, simulated=simulated)

        def opened(one: RunConfig, among: int) -> OpenedStandIn:
            view, table = open_stand_in(one, open_rows, _key(one)), _training_table(one, open_rows)
            return OpenedStandIn(
                rows_of_part(view, "train"),
                rows_of_part(view, "holdout"),
                make=_Cells([cell for cell in grid.configs(rehearsed) if cell.seed == one.seed], table, self._placed),
                attack=lambda cell, made, proven: stand_in_parts(
                    owner_rows(cell, view, made, proven.receipts), NullProgress(), among=among
                ),
            )

        stopped: set[str] = set()

        def keep(found: GridRehearsal) -> None:
            for stop in found.stops:
                if stop.incident not in stopped:
                    stopped.add(stop.incident)
                    Stops(self._store).record(stop.config, stop.incident, ", ".join(stop.exceeded))
            self._keep(config, found, grid=True)
            watch(found)

        return rehearse_grid(rehearsed, grid, opened, progress, said=_said_of(simulated=simulated), keep=keep)

    @use_case(Role.OWNER)
    def start(self, config: RunConfig, rows: BinaryIO, *, grid: Grid | None = None, simulated: bool = False) -> None:
        """Start a rehearsal in another process, which keeps the stand-in until it has finished.

        Parameters
        ----------
        config : RunConfig
        rows : BinaryIO
            The stand-in, a file in the format of ``config.format``, or of ``SIMULATED_FORMAT`` if simulated.
        grid : Grid, optional
            Rehearse this grid instead of the configuration itself.
        simulated : bool
            As in :meth:`rehearse`.

        Raises
        ------
        JobError
            If this configuration, or a grid about it, is being rehearsed already.
        TableError
            If the stand-in is a private table of the user's, or too large.
        """
        if grid is None:
            check_config(config)
        else:
            check_grid(config, grid)
        kind, digest = _kind(grid=grid is not None), _digest(config, grid=grid is not None)
        # A name of its own, because another process may offer rows at the same moment, and one of the two is refused.
        path = self._folder(digest) / f"{_ROWS}-{uuid4()}"
        try:
            kept = self._keep_rows(path, rows, digest)
            self._refuse_private(lambda: self._open_rows(path, kept, digest))
            asked = {
                # As one text, because the order of columns is part of the schema.
                "config": json.dumps(config_to_mapping(config.published())),
                "grid": None if grid is None else grid.to_dict(),
                "simulated": simulated,
                "rows": kept,
            }
            self._engine.begin(kind, digest, asked=json.dumps(asked), owner=self.access.name)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    @use_case(Role.OWNER)
    def standing(self, config: RunConfig, *, grid: bool = False) -> Work | None:
        """Return the work of rehearsing a configuration or a grid, or None if it was never started."""
        return self._engine.standing(_kind(grid=grid), _digest(config, grid=grid))

    @use_case(Role.OWNER)
    def cancel(self, config: RunConfig, *, grid: bool = False) -> None:
        """Stop rehearsing a configuration or a grid; an earlier report, or the cells so far, stay."""
        kind, digest = _kind(grid=grid), _digest(config, grid=grid)
        self._engine.stop(kind, digest)
        work = self._store.work.about(kind, digest)
        if work is not None and work.is_finished:
            self._rows_of(work).unlink(missing_ok=True)

    @use_case(Role.OWNER)
    def report(self, config: RunConfig, *, grid: bool = False) -> dict[str, Any] | None:
        """Return the report of the latest rehearsal of a configuration: sentence, incident, time and evidence.

        For a grid, it also contains ``cells``, ``failures``, and how many are ``done`` of how many; it is kept for the
        description of the table, delta and label, whatever epsilon and generator the configuration has by now.
        """
        path = self._root() / _digest(config, grid=grid) / _REPORT
        return run_folder.read_json(path) if path.exists() else None

    @use_case(Role.OWNER)
    def predictions(self, config: RunConfig, epsilons: Sequence[float]) -> tuple[Predicted, ...]:
        """Return how well the label was predicted after training on rows of this generator, in all rehearsals.

        Parameters
        ----------
        config : RunConfig
        epsilons : sequence of float
            The epsilons at which to look for rehearsals of this configuration, besides the grid.
        """
        grid = self.report(config, grid=True)
        found = [
            Predicted(cell["measure"], float(cell["epsilon"]), cell["predicted"], cell["real"])
            for cell in (grid or {}).get("cells", ())
            if cell["generator"] == config.generator and cell["predicted"] is not None
        ]
        singles = {epsilon: self.report(replace(config, epsilon=epsilon)) for epsilon in epsilons}
        return (*found, *(one for epsilon, told in singles.items() if told for one in predicted_of(told, epsilon)))

    @internal
    def carry_out(self, work_id: str, progress: Progress) -> None:
        """Do the work of :meth:`start`, which has looked for private tables, in this process."""
        work = self._store.work[work_id]
        asked, path = json.loads(str(work.asked)), self._rows_of(work)
        config, simulated = parse_config(json.loads(asked["config"])), bool(asked["simulated"])

        def open_rows() -> BinaryIO:
            return self._open_rows(path, asked["rows"], work.subject)

        try:
            if asked["grid"] is None:
                self._rehearsal(config, open_rows, progress, simulated=simulated)
            else:
                grid = Grid.from_dict(asked["grid"])
                self._grid(config, grid, open_rows, progress, simulated=simulated)
            self._store.work.advance(work_id, WorkState.REPORTED)
        finally:
            path.unlink(missing_ok=True)

    @internal
    def purge(self, *, at: datetime | None = None) -> None:
        """Delete the stand-ins of killed rehearsals, an hour after they arrived."""
        self._engine.tend()
        kinds = (WorkKind.REHEARSAL, WorkKind.GRID)
        needed = {self._rows_of(work) for work in self._store.work.active() if work.kind in kinds}
        moment = (at or now()) - LEFT_AGE
        for path in set(self._root().glob(f"*/{_ROWS}*")) - needed:
            with suppress(FileNotFoundError):  # its rehearsal ended meanwhile
                if path.stat().st_mtime < moment.timestamp():
                    path.unlink()

    def _keep_rows(self, path: Path, rows: BinaryIO, digest: str) -> dict[str, Any]:
        """Encrypt a stand-in to a file, under its own key that the master key seals; return what opens it."""
        most, seen = self._settings.maximum_table_bytes, 0

        def observe(chunk: bytes) -> None:
            nonlocal seen
            seen += len(chunk)
            if seen > most:
                raise TableError(
                    f"The stand-in is larger than {most / 2**20:,.0f} MiB, the limit of this installation."
                )

        table_id, key = str(uuid4()), new_key()
        with run_folder.private_stream(path) as target:
            size = encrypt_stream(rows, target, key=key, table_id=table_id, observe=observe)
        sealed = seal(self._keys.master, key, context=_context(digest, table_id))
        return {"file": path.name, "table_id": table_id, "size": size, "key": sealed.hex()}

    def _open_rows(self, path: Path, kept: dict[str, Any], digest: str) -> BinaryIO:
        table_id = str(kept["table_id"])
        key = unseal(self._keys.master, bytes.fromhex(kept["key"]), context=_context(digest, table_id))
        raw = DecryptedStream(path, key=key, table_id=table_id, size=int(kept["size"]))
        return cast(BinaryIO, io.BufferedReader(raw, buffer_size=2**17))

    def _refuse_private(self, open_rows: OpenStandIn) -> None:
        seen = Fingerprint(self._keys)
        with open_rows() as stream:
            while piece := stream.read(_PIECE):
                seen.update(piece)
        twins = self._store.tables.with_fingerprint(seen.hexdigest())
        # Of another owner's table nothing is said, not even that it is this one: that depends on every row of it.
        own = self.access.own(self._store.accounts[twin.account_id] for twin in twins)
        if own:
            raise TableError(
                f"This table was uploaded as a private table of the account '{own[0].name}', so it cannot be a "
                "stand-in. Rehearse on public rows."
            )

    def _placed(self, config: RunConfig) -> RunConfig:
        return on_planned_device(config, self._settings.home)

    def _root(self) -> Path:
        return self._settings.home / "rehearsals"

    def _keep(self, config: RunConfig, found: Rehearsal | GridRehearsal, *, grid: bool = False) -> None:
        said = {"time": now().isoformat(), "incident": found.incident, "sentence": found.sentence}
        own = found.document if isinstance(found, GridRehearsal) else {}
        folder = self._folder(_digest(config, grid=grid))
        run_folder.write_owner_json(folder / _REPORT, report_document(found.evidence) | said | own)

    def _folder(self, digest: str) -> Path:
        folder = self._root() / digest
        for made in (self._root(), folder):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _rows_of(self, work: Work) -> Path:
        return self._root() / work.subject / str(json.loads(str(work.asked))["rows"]["file"])


def carry_out(installation: Installation, work_id: str, progress: Progress) -> None:
    """Do the rehearsal of a piece of work."""
    Rehearsals(installation, engine_of(installation.store)).carry_out(work_id, progress)


def _kind(*, grid: bool) -> WorkKind:
    return WorkKind.GRID if grid else WorkKind.REHEARSAL


def _verdict(entry: SafeEvidence) -> str:
    """Return the sentence with the result of an attack."""
    return f"{entry.sentence.partition('). ')[0]})." if entry.id.endswith(".area") else ""


def _digest(config: RunConfig, *, grid: bool) -> str:
    """Return the digest under which a rehearsal is kept; that of a grid ignores epsilon and generator."""
    if not grid:
        return configuration_digest(config)
    neutral = configuration_digest(replace(config, epsilon=1.0, generator=CONTROL, options={}))
    return hashlib.sha256(f"grid {neutral} {config.label}".encode()).hexdigest()


def _rehearsed(config: RunConfig, *, simulated: bool) -> RunConfig:
    """Return the configuration to run: without paths, with a hold-out, and with the format of simulated rows."""
    form = SIMULATED_FORMAT if simulated else config.format
    # A stand-in has its own number of people, which is public and counted.
    schema = replace(config.schema, number_of_units=None)
    return replace(config.published(), holdout=config.holdout or _USUAL_HOLDOUT, format=form, schema=schema)


def _context(digest: str, table_id: str) -> bytes:
    return f"hermitage stand-in 1 {digest} {table_id}".encode()


def _said_of(*, simulated: bool) -> str:
    return SIMULATED_SENTENCE if simulated else STAND_IN_SENTENCE


def _key(config: RunConfig) -> bytes:
    # Any key will do: which rows of a public table are held out is no secret.
    return f"rehearsal {config.seed}".encode().ljust(32)


def _training_table(config: RunConfig, open_rows: OpenStandIn) -> PrivateTable:
    """Open the training part of the stand-in, in the way a private table is opened."""
    (table,) = PrivateTable.open(
        open_rows,
        "stand-in",
        config.schema,
        config.format,
        account_key=_key(config),
        holdout=config.holdout,
        undeclared=config.undeclared,
        public=True,
    )
    return table


def _evidence_of_model(
    config: RunConfig, table: PrivateTable, held_out: CodeTable, progress: Progress
) -> tuple[SafeEvidence, ...]:
    """Fit a model to a stand-in; return what it says about itself, and its error on held-out rows."""
    fitted = fit_and_sample(config, table, progress, predict=False)
    said = fitted.evidence(config)
    task = GeneratorTask.of(config, device="cpu")
    model = restore(config.generator, task, config.options, fitted.state)
    rows = np.stack(held_out, axis=1).astype(np.int64)
    return (*(entry for entry in said if isinstance(entry, SafeEvidence)), *error_of_model(model, rows, task))


class _Cells:
    """Makes the rows of a grid's cells of one seed, on a card those that differ in epsilon alone side by side.

    Parameters
    ----------
    configs : list of RunConfig
        All cells of the seed.
    table : PrivateTable
        The training part of the stand-in.
    placed : callable
        Returns a configuration on its device.
    """

    def __init__(self, configs: list[RunConfig], table: PrivateTable, placed: Callable[[RunConfig], RunConfig]) -> None:
        self._waiting, self._table, self._placed = configs, table, placed
        self._made: dict[tuple[str, float], tuple[CodeTable, ProvenCeiling, float]] = {}

    def __call__(self, config: RunConfig) -> tuple[CodeTable, ProvenCeiling, float]:
        """Return the rows of a cell, what its receipts prove, and its share of the seconds."""
        key = config.generator, config.epsilon
        self._waiting = [one for one in self._waiting if one != config]
        if key not in self._made:
            first = self._placed(config)
            alike = [one for one in self._waiting if one.generator == config.generator]
            several = [first, *map(self._placed, alike[: fits_together(first) - 1])]
            try:
                self._make(several)
            except Exception:
                if len(several) == 1:
                    raise
                # One of them fails, or they do not fit together: each is made when it is asked for, by itself.
                self._waiting = [one for one in self._waiting if one not in alike]
                self._make([first])
        return self._made.pop(key)

    def _make(self, cells: list[RunConfig]) -> None:
        begun = time.monotonic()
        if len(cells) == 1:
            found = [fit_and_sample(cells[0], self._table, NullProgress(), predict=False)]
        else:
            found = fit_and_sample_together(cells, [self._table] * len(cells), NullProgress())
        seconds = (time.monotonic() - begun) / len(cells)
        for cell, fitted in zip(cells, found, strict=True):
            self._made[cell.generator, cell.epsilon] = (*_rows_of(cell, fitted), seconds)


def _synthetic_rows(config: RunConfig, table: PrivateTable, progress: Progress) -> tuple[CodeTable, ProvenCeiling]:
    """Run a configuration up to its rows; return them as codes, column by column, and what its receipts prove.

    They are the rows that questions are about: people who are kept whole have one each.
    """
    # A rehearsal has exact predictions, so noisy ones are left out; their share stays unspent.
    return _rows_of(config, fit_and_sample(config, table, progress, predict=False))


def _rows_of(config: RunConfig, fitted: FittedRun) -> tuple[CodeTable, ProvenCeiling]:
    return list(fitted.as_asked(config).T), ProvenCeiling(config.epsilon, config.delta, fitted.receipts)
