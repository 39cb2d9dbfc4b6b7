"""Rehearsal on a stand-in: the same configuration, the same code, on rows that are nobody's to protect.

No account, no charge, no bundle. The numbers are exact and safe, because the rows are public; all attacks are tried,
and one that does better than the proof allows stops every release with this configuration
(:mod:`synth.services.stops`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from synth.config import RunConfig, Settings
from synth.config_file import config_to_mapping, parse_config
from synth.errors import AttackError, TableError
from synth.keys import Keys
from synth.privacy.fingerprint import Fingerprint
from synth.privacy.table import PrivateTable
from synth.progress import Progress
from synth.reports.document import report_document
from synth.reports.evidence import SafeEvidence
from synth.reports.proven_ceiling import ProvenCeiling
from synth.reports.stand_in import STAND_IN_SENTENCE, of_stand_in
from synth.services import run_folder
from synth.services.attacks import attack_stand_in
from synth.services.background import Work, WorkView
from synth.services.incidents import record_incident
from synth.services.planning import check_config
from synth.services.release import fit_and_sample
from synth.services.reports import exact_numbers, open_stand_in
from synth.services.stops import Stops, configuration_digest
from synth.store import Store, now

__all__ = ["Rehearsal", "Rehearsals"]

OpenStandIn = Callable[[], BinaryIO]

_USUAL_HOLDOUT = 0.2
_REPORT, _CONFIG, _ROWS = "report.json", "config.json", "stand-in"
_PIECE = 2**20
_FIRST = re.compile(
    r"marginals\.[123]\.coarse_(mean|control)|downstream\.(synthetic|real|control|majority)\.(roc_auc|r2)"
    r"|attacks\.\w+\.(area|caught)"
)
_REASONS = {"attacks.none", "downstream.none"}


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rehearsal came to: its numbers, and the incident where it stopped the configuration."""

    evidence: tuple[SafeEvidence, ...]
    incident: str | None
    exceeded: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The numbers to read first, as lines of text, and the verdict."""
        first = [entry for entry in self.evidence if _FIRST.fullmatch(entry.id)]
        spoken = [
            f"{entry.title}: {entry.value:.3g} {entry.unit}. {_verdict(entry)}".rstrip()
            for entry in first
            if isinstance(entry.value, float)
        ]
        # Where nothing could be said: why.
        return [*spoken, *(entry.sentence for entry in self.evidence if entry.id in _REASONS), self.sentence]

    @property
    def sentence(self) -> str:
        """What has to be said of it first."""
        if self.incident is None:
            return STAND_IN_SENTENCE
        return (
            f"Stop. An attack did better than the proof allows ({', '.join(self.exceeded)}). This is a bug; do not "
            f"release. Incident {self.incident}. Runs and releases with this configuration are stopped."
        )


class Rehearsals:
    """The rehearsals of one installation: one for each configuration, the latest.

    Parameters
    ----------
    settings : Settings
    store : Store
        Where stops are kept; no account is looked at.
    keys : Keys
        By which a private table is recognised that somebody offers as a stand-in.
    """

    def __init__(self, settings: Settings, store: Store, keys: Keys) -> None:
        self._settings, self._store, self._keys = settings, store, keys

    def rehearse(self, config: RunConfig, open_rows: OpenStandIn, progress: Progress) -> Rehearsal:
        """Rehearse in this process and keep the report.

        Parameters
        ----------
        config : RunConfig
            Account, table and test table are not looked at. Where nothing would be held out a fifth of the units is,
            because attacks need people who were not trained on.
        open_rows : callable
            Opens the stand-in, a file as ``config.format`` says; called a few times.
        progress : Progress

        Raises
        ------
        TableError
            If the stand-in is a private table of this installation, or cannot be read as declared.
        """
        check_config(config)
        self._refuse_private(open_rows)
        rehearsed = replace(config.published(), holdout=config.holdout or _USUAL_HOLDOUT)
        # Any key will do: which rows are held out of a public table is no secret.
        key = f"rehearsal {rehearsed.seed}".encode().ljust(32)
        progress.phase("Reading")
        view = open_stand_in(rehearsed, open_rows, key)
        table = PrivateTable.open(
            open_rows,
            "stand-in",
            rehearsed.schema,
            rehearsed.format,
            account_key=key,
            holdout=rehearsed.holdout,
            part="train",
            undeclared=rehearsed.undeclared,
        )
        # Exact predictions stand in the rehearsal anyway, so the noisy ones are left out; their share stays unspent.
        measured = fit_and_sample(rehearsed, table, progress, predict=False)
        synthetic = list(measured.codes.T)
        exact = of_stand_in(exact_numbers(rehearsed, view, synthetic, progress))
        ceiling = ProvenCeiling(config.epsilon, config.delta, measured.receipts)
        attacked = attack_stand_in(rehearsed, view, synthetic, ceiling, progress)
        incident = None
        if attacked.exceeded:
            incident = record_incident(AttackError("", incident=""))
            Stops(self._store).record(config, incident, ", ".join(attacked.exceeded))
        found = Rehearsal((*exact, *attacked.evidence), incident, attacked.exceeded)
        run_folder.write_owner_json(self._folder(config) / _REPORT, _document(found))
        return found

    def start(self, config: RunConfig, rows: BinaryIO) -> None:
        """Keep a stand-in until it was rehearsed on, in a process of its own.

        Raises
        ------
        JobError
            If this configuration is being rehearsed already.
        TableError
            If the stand-in is a private table of this installation, or too large.
        """
        check_config(config)
        folder, work = self._folder(config), self._work(configuration_digest(config))
        work.check_idle()
        most = self._settings.maximum_table_bytes
        path = folder / _ROWS
        try:
            with run_folder.private_stream(path) as kept:
                seen = 0
                while piece := rows.read(_PIECE):
                    seen += len(piece)
                    if seen > most:
                        raise TableError(f"The stand-in is larger than the {most / 2**20:,.0f} MiB accepted here.")
                    kept.write(piece)
            self._refuse_private(lambda: path.open("rb"))
            # As one text: the order of columns is part of the schema.
            body = json.dumps(config_to_mapping(config.published()))
            run_folder.write_owner_json(folder / _CONFIG, {"config": body})
            work.start(self._settings)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def standing(self, config: RunConfig) -> WorkView | None:
        """Return where rehearsing a configuration stands, or None where it was never started."""
        return self._work(configuration_digest(config)).standing()

    def cancel(self, config: RunConfig) -> None:
        """Stop rehearsing a configuration; the report of an earlier time stays."""
        self._work(configuration_digest(config)).cancel()
        (self._folder(config) / _ROWS).unlink(missing_ok=True)

    def report(self, config: RunConfig) -> dict[str, Any] | None:
        """Return the report of the latest rehearsal of a configuration: sentence, incident, time and evidence."""
        path = self._root() / configuration_digest(config) / _REPORT
        return run_folder.read_json(path) if path.exists() else None

    def carry_out(self, digest: str) -> int:
        """Do the work of :meth:`start` in this process and return its exit code."""
        folder = self._root() / digest
        path = folder / _ROWS

        def work(progress: Progress) -> None:
            config = parse_config(json.loads(run_folder.read_json(folder / _CONFIG)["config"]))
            self.rehearse(config, lambda: path.open("rb"), progress)

        try:
            return self._work(digest).carry_out(work)
        finally:
            path.unlink(missing_ok=True)

    def _refuse_private(self, open_rows: OpenStandIn) -> None:
        seen = Fingerprint(self._keys)
        with open_rows() as stream:
            while piece := stream.read(_PIECE):
                seen.update(piece)
        twins = self._store.tables.with_fingerprint(seen.hexdigest())
        if twins:
            account = self._store.accounts[twins[0].account_id].name
            raise TableError(
                f"This table was taken in as a private table of the account '{account}', so it cannot stand in. "
                "Rehearse on rows that are public."
            )

    def _root(self) -> Path:
        return self._settings.home / "rehearsals"

    def _folder(self, config: RunConfig) -> Path:
        folder = self._root() / configuration_digest(config)
        for made in (self._root(), folder):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _work(self, digest: str) -> Work:
        return Work(
            self._root() / digest / "work.json",
            (digest, "--rehearsal"),
            busy="This configuration is being rehearsed already. Wait for it, or stop it first.",
            died="The rehearsal stopped before its end. Start it again.",
        )


def _verdict(entry: SafeEvidence) -> str:
    """Return the sentence of an attack that says what it came to."""
    return f"{entry.sentence.partition('). ')[0]})." if entry.id.endswith(".area") else ""


def _document(found: Rehearsal) -> dict[str, Any]:
    said = {"time": now().isoformat(), "incident": found.incident, "sentence": found.sentence}
    return report_document(found.evidence) | said
