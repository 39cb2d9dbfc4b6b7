"""One run, from private rows to a sealed bundle: the same steps for the browser, the command line and Python."""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from synth.bundle.certificate import certify, current_versions
from synth.bundle.finding import Finding
from synth.bundle.linter import LeakWords
from synth.bundle.model_file import ModelCard
from synth.bundle.table_files import write_table
from synth.bundle.writer import Contents, SealedBundle, Signer, write_bundle
from synth.errors import PrivacyError
from synth.estimators import DrawnRows, drawn_rows, make, restore, rows_as_asked
from synth.generators import Fact, GeneratorTask, Picture, PrivateModel, State
from synth.generators.protocol import ReleasedModel
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import NoisyAnswer, RowCount, of_kind
from synth.privacy.questions import Answer, KeptAnswers
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import Progress, TellsOwner
from synth.reports.document import published_evidence
from synth.reports.evidence import Publishable
from synth.reports.forecast import PREDICTIONS, budget_parts
from synth.reports.holdout import (
    PREDICTION_QUERY,
    model_question,
    trained_question,
)
from synth.reports.measured import EVALUATION_QUERY, evaluation_question
from synth.schema import RunConfig
from synth.services.incidents import record_incident
from synth.system.machine import device_name, one_thread

__all__ = [
    "FittedRun",
    "PhaseTimer",
    "Sealing",
    "copy_outputs",
    "fit_and_sample",
    "fit_and_sample_together",
    "fits_together",
    "peak_memory_bytes",
    "seal_release",
]


class PhaseTimer:
    """Progress that also adds up the seconds of each phase, for the owner's ``timings.json``."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._since, self._name = time.perf_counter(), ""
        self._shown = True
        self.seconds: dict[str, float] = {}

    def hide(self) -> None:
        """From now on report phases to the owner only: the phases and steps that follow depend on exact rows."""
        self._shown = False

    def phase(self, name: str) -> None:
        """Begin a phase and end the one before it."""
        self.close()
        self._name = name
        if self._shown:
            self._progress.phase(name)
        elif isinstance(self._progress, TellsOwner):
            self._progress.owner_phase(name)

    def step(self, k: int, of: int) -> None:
        """Pass a step on."""
        if self._shown:
            self._progress.step(k, of)
        else:
            self._progress.check_cancelled()

    def loss(self, value: float) -> None:
        """Pass a loss on."""
        if self._shown:
            self._progress.loss(value)

    def check_cancelled(self) -> None:
        """Pass the check on."""
        self._progress.check_cancelled()

    def close(self) -> None:
        """End the current phase."""
        moment = time.perf_counter()
        if self._name:
            self.seconds[self._name] = self.seconds.get(self._name, 0.0) + moment - self._since
        self._since, self._name = moment, ""


@dataclass(frozen=True, slots=True, eq=False)
class FittedRun:
    """The result of the private part of a run: answers, receipts, the fitted state and rows of codes.

    If a model is released, there are no rows. ``units`` numbers the people whose rows they are, where people are kept
    whole. ``device`` names what fitted it: "cpu", or the graphics card.
    """

    codes: NDArray[np.int64]
    state: State
    answers: tuple[Answer, ...]
    receipts: tuple[Receipt, ...]
    rows: RowCount
    units: NDArray[np.int64] | None = None
    facts: tuple[Fact, ...] = ()
    pictures: tuple[Picture, ...] = ()
    assumptions: tuple[str, ...] = ()
    device: str = "cpu"

    def as_asked(self, config: RunConfig) -> NDArray[np.int64]:
        """Return the rows as questions are about them: people that are kept whole have one row each."""
        return rows_as_asked(DrawnRows(self.codes, units=self.units), config)

    def evidence(self, config: RunConfig) -> tuple[Publishable, ...]:
        """Return the numbers that the report of the run may publish."""
        return published_evidence(
            self.as_asked(config),
            of_kind(self.answers, NoisyAnswer),
            config.asked,
            rows=self.rows,
            facts=self.facts,
            pictures=self.pictures,
            receipts=self.receipts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """What sealing needs besides answers: key, notes, head of the ledger, a finding, names that must not leak."""

    signer: Signer
    notes: tuple[str, ...] = ()
    ledger: Mapping[str, str | int] = field(default_factory=dict)
    file_names: tuple[str, ...] = ()
    finding: Finding | None = None


@one_thread()
def fit_and_sample(
    config: RunConfig,
    table: PrivateTable,
    progress: Progress,
    *,
    holdout: PrivateTable | None = None,
    predict: bool = True,
    kept: KeptAnswers | None = None,
) -> FittedRun:
    """Ask every question of the plan, fit the generator or model to the answers, and draw the rows.

    Nothing after the session's answers reads the private rows again.

    Parameters
    ----------
    config : RunConfig
    table : PrivateTable
        The training part.
    progress : Progress
    holdout : PrivateTable, optional
        The held-out part; required if predictions on it are paid for, and not read otherwise.
    predict : bool
        Whether to make predictions that are paid for. A run that is repeated to attack it leaves them out, but still
        sets their share aside, so that the generator has as much noise as in the run.
    kept : KeptAnswers, optional
        Where answers are kept, and read again when a run continues.

    Raises
    ------
    PrivacyError
        If predictions are to be paid for and there is no hold-out; nothing is asked.
    """
    begun = _begun(config, table, progress, holdout=holdout, predict=predict, kept=kept)
    fitted = make(config.generator, GeneratorTask.of(config), config.options).fit(begun.rest, progress)
    return _finished(config, begun, fitted, progress)


@one_thread()
def fit_and_sample_together(
    configs: Sequence[RunConfig], tables: Sequence[PrivateTable], progress: Progress
) -> list[FittedRun]:
    """Do what :func:`fit_and_sample` does without paid predictions, several times, fitting side by side.

    Parameters
    ----------
    configs : sequence of RunConfig
        At least one; at most epsilon differs.
    tables : sequence of PrivateTable
        The table of each.
    progress : Progress
    """
    begun = [_begun(one, table, progress, predict=False) for one, table in zip(configs, tables, strict=True)]
    models = [make(one.generator, GeneratorTask.of(one), one.options) for one in configs]
    type(models[0]).fit_together(models, [one.rest for one in begun], progress)
    return [
        _finished(config, one, fitted, progress) for config, one, fitted in zip(configs, begun, models, strict=True)
    ]


def fits_together(config: RunConfig) -> int:
    """Return how many fits of a configuration pay side by side on its device."""
    return make(config.generator, GeneratorTask.of(config), config.options).fits_together


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """A session whose other shares are spent or set aside, what is left of it, and what asks about the hold-out."""

    session: PrivateSession
    rest: PrivateSession
    held: PrivateSession | None


def _begun(
    config: RunConfig,
    table: PrivateTable,
    progress: Progress,
    *,
    holdout: PrivateTable | None = None,
    predict: bool,
    kept: KeptAnswers | None = None,
) -> _Begun:
    asked = config.asked
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=asked.schema.neighbours)
    session = PrivateSession(table, budget, device=config.device, kept=kept)
    shares = {part.name: part.share for part in budget_parts(asked)}
    # Set aside before anything is asked; the rest is for the generator.
    held = None
    if PREDICTIONS in shares and not predict:
        session.sub_session(shares[PREDICTIONS])
    elif PREDICTIONS in shares:
        if holdout is None:
            raise PrivacyError("Predictions are to be paid for, but the hold-out was not opened.")
        held = session.holdout_session(holdout, share=shares[PREDICTIONS])
    progress.phase("Measuring")
    if "row count" in shares:
        session.count_rows(share=shares["row count"])
    if "evaluation" in shares:
        session.noisy_sum(
            evaluation_question(asked.schema), share=shares["evaluation"], query=EVALUATION_QUERY, source="report"
        )
    return _Begun(session, session.sub_session(session.remaining_share), held)


def _finished(config: RunConfig, begun: _Begun, fitted: PrivateModel, progress: Progress) -> FittedRun:
    session, held, asked = begun.session, begun.held, config.asked
    if not config.is_model:
        progress.phase("Sampling")
    # Rows are drawn from what is sealed, and on the processor, so that everyone can draw them again.
    sealed = restore(config.generator, ModelCard.of(config).task, config.options, fitted.state())
    drawn = drawn_rows(sealed, config)
    if held is not None:
        progress.phase("Predicting held-out rows" if config.is_model else "Predicting from synthetic rows")
        question = (
            model_question(fitted, asked)
            if isinstance(fitted, ReleasedModel)
            else trained_question(rows_as_asked(drawn, config), asked, failed=record_incident)
        )
        held.noisy_sum(question, share=held.remaining_share, query=PREDICTION_QUERY, source="report")
    return FittedRun(
        drawn.codes,
        fitted.state(),
        session.answers,
        session.receipts,
        session.rows,
        drawn.units,
        (*sealed.facts(), *drawn.facts),
        sealed.pictures(),
        sealed.assumptions,
        device_name(fitted.device),
    )


@one_thread()
def seal_release(
    config: RunConfig, fitted: FittedRun, folder: Path, *, sealing: Sealing, progress: Progress
) -> SealedBundle:
    """Write the table, build the publishable report, and seal the bundle in ``folder``."""
    schema = config.schema
    csv, parquet = None, None
    if not config.is_model:
        csv, parquet = folder / "synthetic.csv", folder / "synthetic.parquet"
        progress.phase("Writing")
        write_table(fitted.codes, schema, csv, parquet, config.seed, units=fitted.units)
    progress.phase("Reporting")
    evidence = fitted.evidence(config)
    progress.phase("Sealing")
    certificate = certify(
        fitted.receipts,
        delta=config.delta,
        neighbours=schema.neighbours,
        unit=schema.unit,
        account=config.account,
        generator=config.generator,
        options=config.options,
        rows=len(fitted.codes),
        seed=config.seed,
        assumptions=(*config.format.assumptions, *fitted.assumptions, *sealing.notes),
        domain_source={one.name: config.domain_source.get(one.name, "declared") for one in schema.modelled},
        versions=current_versions(),
        ledger=sealing.ledger,
        found=None if sealing.finding is None else sealing.finding.certified,
        people=schema.people,
        previews=config.previews,
        device=fitted.device,
    )
    contents = Contents(
        config=config,
        answers=fitted.answers,
        state=fitted.state,
        evidence=evidence,
        certificate=certificate,
        rows=fitted.rows,
        synthetic_csv=csv,
        synthetic_parquet=parquet,
        finding=sealing.finding,
    )
    words = LeakWords.of_this_machine(file_names=sealing.file_names, public=(config.account,))
    sealed = write_bundle(folder / "bundle.zip", contents, signer=sealing.signer, leak_words=words)
    if sealed.model_json:
        (folder / "model.json").write_bytes(sealed.model_json)
    (folder / "certificate.json").write_bytes(sealed.certificate_json)
    (folder / "report.json").write_bytes(sealed.report_json)
    return sealed


def peak_memory_bytes() -> int:
    """Return the peak resident memory of this process so far."""
    try:
        # Linux: getrusage would also count the memory of the process that started this one.
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return int(peak if sys.platform == "darwin" else peak * 1024)


def copy_outputs(source: Path, target: Path, names: Sequence[str]) -> None:
    """Copy finished files into the folder that a user named."""
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(source / name, target / name)
