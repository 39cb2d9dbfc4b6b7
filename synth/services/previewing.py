"""Preview columns privately: noisy histograms for a small charge of their own, before a release is paid for.

A preview is charged once, like a finding: reserved, spent before a row is read, and released with what it counted. It
asks one question, for one table of counts of each column in public bins. The result is sealed on the disk; nothing of
it is published unless its owner does so, and every later release of the account states what it cost.

Its answer is kept before anything else receives it. If its process is killed, the charge stays as it is, and the same
preview goes on from the kept answer; noise is never drawn twice for one charge. Two previews are the same if the same
is asked about the same people. Whether two tables are equal depends on every row of both, so a charge cannot follow
from it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from synth.bundle.archive import canonical_json
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.errors import (
    ConfigError,
    JobError,
    PrivacyError,
    SynthError,
)
from synth.estimators import delta_added
from synth.ledger.charging import OTHER_THAN_RESERVED, charge_in, require_as_reserved, require_open
from synth.ledger.rulings import Role
from synth.names import numbered, shown
from synth.privacy.accounting import SLACK_ALLOWANCE, PrivacyBudget
from synth.privacy.answers import NoisyAnswer, NoisySum, of_kind
from synth.privacy.costs import between_neighbours
from synth.privacy.feature_maps import Stack
from synth.privacy.more.together import epsilon_left
from synth.privacy.questions import Allowance
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import Progress
from synth.reports.counted import Counts, counts_of
from synth.reports.measured import BAR, one_way
from synth.schema import (
    Column,
    DropColumn,
    FindColumn,
    ModelledColumn,
    Neighbours,
    PreviewSpent,
    RunConfig,
    Schema,
    config_to_mapping,
    schema_from_document,
    schema_to_document,
    undeclared_facts,
)
from synth.services import run_folder
from synth.services.access import require_still_owner, use_case
from synth.services.early_charges import EarlyCharges, EarlyTask, asking_only, charge_of, conclude, task_of
from synth.services.installation import Installation
from synth.services.intake import Reading, going_preview
from synth.store import Charge, ChargeState, Work, WorkKind
from synth.vault.kept_answers import AnswerFile, answers_path
from synth.vault.sealing import seal, unseal

__all__ = [
    "MOST_BINS",
    "USUAL_SHARE",
    "Foreseen",
    "Preview",
    "PreviewPlan",
    "Previews",
    "bring_back_previews",
    "carry_out",
    "preview_question",
    "previewed_schema",
    "with_previews",
]

USUAL_SHARE = 0.05
"""The default share of the budget for a preview: a twentieth of epsilon."""

MOST_BINS = 50
"""Most bins of a declared range: equal parts of it, whatever the rows hold. Other values have one bin each."""

QUERY = "histograms of the preview"
SOURCE = "preview"

_USUAL_READING = Reading()
_IDENTITY_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Foreseen:
    """How accurate the histogram of one column will be: its bins, and the error of each count, in rows."""

    column: str
    bins: int
    error: float


@dataclass(frozen=True, slots=True)
class PreviewPlan:
    """What a preview will cost and show, from declared facts and the ledger only; no row is read.

    Attributes
    ----------
    columns : tuple of str
    epsilon, delta : float
    foreseen : tuple of Foreseen
        By column: half the width of the 95 % range of a count.
    rows_at_most : int
        As many rows as the table can have, as declared.
    epsilon_before, epsilon_after : float
        What is spent on these people before and after the preview.
    epsilon_left : float
        With how much of the configuration's epsilon a release states no more than that for both together.
    refusal : str, optional
        Why it cannot start, in one sentence.
    paid : datetime, optional
        When it was paid for, if it was: asked again, it costs nothing and gives the same counts.
    """

    columns: tuple[str, ...]
    epsilon: float
    delta: float
    foreseen: tuple[Foreseen, ...]
    rows_at_most: int
    epsilon_before: float
    epsilon_after: float
    epsilon_left: float
    refusal: str | None = None
    paid: datetime | None = None

    @property
    def shows(self) -> str:
        """How accurate the histograms will be, as stated before the preview."""
        return " ".join(
            f"{one.column}: counts within ±{one.error:,.3g} rows, of {self.rows_at_most / one.bins:,.0f} rows each if "
            f"{numbered(one.bins, 'bin')} shared {self.rows_at_most:,} rows equally."
            for one in self.foreseen
        )

    @property
    def cost(self) -> str:
        """What it costs, as stated before the preview."""
        if self.paid is not None:
            return (
                f"This preview was paid for on {self.paid:%Y-%m-%d}: the same counts are shown again, at no cost, of "
                "the table as it was then."
            )
        return (
            f"Previewing {numbered(len(self.columns), 'column')} costs epsilon {self.epsilon:g} at delta "
            f"{self.delta:g}, in addition to the budget of a later release, which states both together. With epsilon "
            f"{self.epsilon_left:g} for the release, the two stay within that budget."
        )


@dataclass(frozen=True, eq=False)
class Preview:
    """What was counted. All of it is covered by the charge; it is published only if its owner publishes it.

    Attributes
    ----------
    account : str
    schema : Schema
        What was asked: the unit, the neighbouring relation, and the columns.
    epsilon, delta : float
    answer : NoisyAnswer
        With its receipt.
    """

    account: str
    schema: Schema
    epsilon: float
    delta: float
    answer: NoisyAnswer

    def __post_init__(self) -> None:
        if not self.answer.receipt.private:
            raise PrivacyError("A preview was made with test noise, which protects nobody. Ask for it again.")

    @property
    def counts(self) -> Counts:
        """The histograms, one for each column. No share is known: the number of rows was not asked."""
        return counts_of((self.answer,), self.schema, None, part="previewed")

    @property
    def files(self) -> dict[str, bytes]:
        """The two files, by name; the same preview gives the same bytes."""
        document = {
            "account": self.account,
            "schema": schema_to_document(self.schema),
            "epsilon": self.epsilon,
            "delta": self.delta,
        }
        return dict(
            zip(
                run_folder.PREVIEWED,
                (canonical_json(document), measurements_to_bytes(Measurements((self.answer,)))),
                strict=True,
            )
        )

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> Preview:
        """Read the two files back."""
        said, held = (files[name] for name in run_folder.PREVIEWED)
        document = json.loads(said)
        (answer,) = of_kind(measurements_from_bytes(held, name=run_folder.PREVIEWED[1]).answers, NoisyAnswer)
        return cls(
            document["account"],
            schema_from_document(document["schema"]),
            document["epsilon"],
            document["delta"],
            answer,
        )


# The question ---------------------------------------------------------------------------------------------------------


def previewed_schema(schema: Schema, columns: Sequence[str]) -> Schema:
    """Return the schema that a preview asks: the chosen columns, the unit's id, and all others left out.

    Rows are asked about one by one. Of two tables that belong together these are rows of the joined table.

    Raises
    ------
    ConfigError
        If no column is chosen, one twice, or one is not described.
    """
    if not columns:
        raise ConfigError("Name at least one column to preview.")
    if len(set(columns)) < len(columns):
        raise ConfigError("A column is named twice. Name each column to preview once.")
    described = {one.name for one in schema.modelled if not isinstance(one, FindColumn)}
    missing = next((name for name in columns if name not in described), None)
    if missing is not None:
        known = missing in {one.name for one in schema.columns}
        raise ConfigError(
            f"'{shown(missing)}' has no declared values to count. Describe it first, or preview other columns."
            if known
            else f"There is no column '{shown(missing)}'. Name columns as the configuration does."
        )
    no_row = schema.no_row
    # Who has no row in the second of two tables is counted as empty there, not as what an empty cell would become.
    without_cells: frozenset[str] = frozenset() if no_row is None else no_row.empty

    def asked(column: Column) -> Column:
        if column.name not in columns and column.name != schema.unit.id_column:
            return DropColumn(column.name)
        if isinstance(column, ModelledColumn) and column.name in without_cells:
            column = replace(column, missing=True)
        # Without descriptions: in other words, the same is asked.
        return replace(column, description="")

    return schema.of_rows(tuple(map(asked, schema.columns)))


def preview_question(schema: Schema) -> Stack:
    """Return the one question of a preview: a histogram of every modelled column, all with the same noise.

    The bins of a range are at most 50 equal parts of what is declared; every other value has a bin of its own.
    """
    parts = tuple(one_way(column, grid=MOST_BINS) for column in schema.modelled)
    return Stack(parts=parts, weights=(1 / math.sqrt(len(parts)),) * len(parts))


def _foreseen(schema: Schema, budget: PrivacyBudget) -> tuple[Foreseen, ...]:
    """Return the error of each histogram, from the plan of the question; no row is read."""
    question = preview_question(schema)
    allowance = Allowance(
        schema, budget, budget.units, SLACK_ALLOWANCE, lambda bound: between_neighbours(bound, schema)
    )
    asked = NoisySum(question)
    asked.check(schema)
    (cost,) = asked.plan(allowance).costs
    return tuple(
        Foreseen(column.name, part.dimension, BAR * cost.noise_scale / weight)
        for column, part, weight in zip(schema.modelled, question.parts, question.weights, strict=True)
    )


# The service ----------------------------------------------------------------------------------------------------------


class Previews(EarlyCharges):
    """The previews of one installation: at most one in progress for each table.

    The subject of their work is the preview itself: one that was stopped after it had spent can go on.
    """

    kind = WorkKind.PREVIEW
    purpose = "preview of noisy histograms"

    @use_case(Role.OWNER, about="config")
    def plan(
        self,
        config: RunConfig,
        columns: Sequence[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        anew: bool = False,
    ) -> PreviewPlan:
        """Return what a preview costs and shows, without reading rows or writing anything.

        Parameters
        ----------
        config : RunConfig
            The planned release; only the chosen columns need to be described.
        columns : sequence of str
        epsilon : float, optional
            By default a twentieth of the configuration's epsilon.
        delta : float, optional
            By default a twentieth of the configuration's delta.
        anew : bool
            Charge it although the same preview of these people was paid for: the table may be another one since.

        Raises
        ------
        ConfigError
            If a column cannot be previewed, single cells are protected, or the noise would hide everything.
        PrivacyError
            If no noise can satisfy such a budget.
        """
        epsilon = config.epsilon * USUAL_SHARE if epsilon is None else float(epsilon)
        delta = config.delta * USUAL_SHARE if delta is None else float(delta)
        schema = previewed_schema(config.schema, columns)
        _require_askable(config, schema, epsilon, delta)
        budget = PrivacyBudget(epsilon, delta, schema.neighbours)
        foreseen = _foreseen(schema, budget)
        rows = _rows_at_most(config)
        blind = [one for one in foreseen if one.error >= rows]
        if blind:
            raise ConfigError(
                f"At epsilon {epsilon:g} the preview would show nothing of '{blind[0].column}': counts would be within "
                f"±{blind[0].error:,.3g} rows, and as declared the table has at most {rows:,}. Spend more, or preview "
                "fewer columns. Nothing was spent."
            )
        names = tuple(column.name for column in schema.modelled)
        run = with_previews(self._installation, config)
        left = epsilon_left(run, budget, additive_delta=delta_added(run))
        plan = PreviewPlan(names, epsilon, delta, foreseen, rows, 0.0, epsilon, left)
        earlier = None if anew else self._earlier(task_of(config, schema, budget, ""))
        if earlier is not None:
            spent = self._installation.ledger.spent(earlier.account_id).epsilon
            return replace(plan, epsilon_before=spent, epsilon_after=spent, paid=earlier.time)
        return replace(plan, **self._beside(config, budget)._asdict())

    @use_case(Role.OWNER, about="config")
    def reserve(
        self,
        config: RunConfig,
        columns: Sequence[str],
        *,
        table_id: str,
        epsilon: float | None = None,
        delta: float | None = None,
        anew: bool = False,
        reading: Reading = _USUAL_READING,
        start: bool = False,
    ) -> str:
        """Charge a preview and record its work, to be claimed and done in this process; return its id.

        With ``start`` it is started in another process instead. If the same preview of these people was paid for,
        nothing is charged, unless ``anew``: its :meth:`result` is there, or it goes on from the kept answer.

        Raises
        ------
        NotAsDeclaredError
            If most lines, or most cells of a column, would be lost, and ``reading`` does not say to go on.
        SynthError
            If :meth:`plan` refuses it, or the table cannot be read as declared or is being worked on.
        """
        plan = self.plan(config, columns, epsilon=epsilon, delta=delta, anew=anew)
        schema = previewed_schema(config.schema, plan.columns)
        budget = PrivacyBudget(plan.epsilon, plan.delta, schema.neighbours)
        task = task_of(config, schema, budget, table_id)
        if self.going(table_id) is not None:
            raise JobError("A preview is already in progress for this table. Wait for it, or stop it first.")
        earlier = None if plan.paid is None else self._earlier(task)
        if earlier is not None:
            if earlier.state is ChargeState.SPENT:
                self._begin_work(earlier.run_id, task, work_id=earlier.run_id, start=start)
            return earlier.run_id

        def begin(preview_id: str) -> None:
            folder = run_folder.make(self._installation.settings, preview_id)
            run_folder.write_owner_json(folder / "owner" / run_folder.PREVIEW_ASKED, {"asked": _digest(task)})
            self._begin_work(preview_id, task, work_id=preview_id, start=start)

        return self._charge(
            config,
            budget,
            refusal=plan.refusal,
            task=task,
            read_as=asking_only(config, schema),
            # A release of this configuration is not chosen after the look, which is about its columns alone.
            looked_for=json.dumps(config_to_mapping(config.published())),
            table_id=table_id,
            reading=reading,
            begin=begin,
        )

    def _earlier(self, asked: str) -> Charge | None:
        """Return the charge of the same preview of the same people, if its answer can still be had."""
        account = self._installation.store.accounts.named(json.loads(asked)["account"])
        for charge in () if account is None else reversed(self._installation.ledger.current(account.id)):
            if charge.purpose != self.purpose or charge.state not in (ChargeState.SPENT, ChargeState.RELEASED):
                continue
            path = run_folder.of(self._installation.settings, charge.run_id) / "owner" / run_folder.PREVIEW_ASKED
            with suppress(JobError):
                if run_folder.read_json(path) == {"asked": _digest(asked)} and self._can_be_had(charge):
                    return charge
        return None

    def _can_be_had(self, charge: Charge) -> bool:
        if charge.state is ChargeState.SPENT:
            return answers_path(self._installation.settings.home, charge.run_id).is_file()
        return _of_folder(self._installation, charge.run_id) is not None

    @use_case(Role.OWNER, about="table_id")
    def going(self, table_id: str) -> Work | None:
        """Return the preview of a table that is in progress, after tending, or None."""
        self._engine.tend()
        return going_preview(self._installation.store, table_id)

    @use_case(Role.OWNER, about="preview_id")
    def result(self, preview_id: str) -> Preview | None:
        """Return what a preview counted; None if it has not ended, or failed."""
        released = [one for one in self._installation.ledger.charges_of(preview_id) if one.certificate_id]
        return _of_folder(self._installation, preview_id) if released else None

    @use_case(Role.OWNER, about="name")
    def of_account(self, name: str) -> tuple[tuple[Charge, Preview], ...]:
        """Return the previews of an account that were counted, the newest first, each with its charge."""
        account = self._installation.store.accounts.named(name)
        charges = () if account is None else reversed(self._installation.ledger.current(account.id))
        found = (
            (charge, self.result(charge.run_id))
            for charge in charges
            if charge.purpose == self.purpose and charge.state is ChargeState.RELEASED
        )
        return tuple((charge, preview) for charge, preview in found if preview is not None)


def _require_askable(config: RunConfig, schema: Schema, epsilon: float, delta: float) -> None:
    if config.delta == 0:
        raise ConfigError(
            "A preview needs a delta above 0, and a release cannot then have a delta of 0. Choose one, for example "
            "1e-6 (3 Budget)."
        )
    if config.schema.neighbours is Neighbours.CELL:
        raise ConfigError(
            "If single cells are protected, nothing can be previewed, because counts of values protect whole rows."
        )
    if not 0 < epsilon < config.epsilon:
        raise ConfigError(
            f"A preview takes a small part of the budget. Choose an epsilon between 0 and {config.epsilon:g}, for "
            f"example {config.epsilon * USUAL_SHARE:g}."
        )
    if not 0 < delta < 1:
        raise ConfigError(
            f"The delta of a preview must be above 0 and below 1, got {delta:g}. Leave it out, or choose for example "
            f"{config.delta * USUAL_SHARE:g}."
        )
    problem = undeclared_facts(schema)
    if problem is not None:
        raise ConfigError(problem)
    config.format.check()


def _rows_at_most(config: RunConfig) -> int:
    return config.people_at_most * config.schema.unit.rows_per_unit


def _digest(asked: str) -> str:
    """Return a digest of what was asked, whatever the table."""
    body = {key: said for key, said in json.loads(asked).items() if key != "table"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# In the worker --------------------------------------------------------------------------------------------------------


def carry_out(installation: Installation, work_id: str, progress: Progress) -> Preview:
    """Spend, read, ask, and keep what was counted; or go on from the answer that an earlier process kept.

    Raises
    ------
    SynthError
        What stopped it; the caller settles the charge, unless it can go on.
    """
    work = installation.store.work[work_id]
    task = EarlyTask.of(installation, work)
    progress.phase("Reading")
    key, path = installation.keys.answers_key(work_id), answers_path(installation.settings.home, work_id)
    with AnswerFile(path, key=key, run_id=work_id) as answers, _forgetting(answers):
        charge = _spend(installation, work, task, answers)
        (rows,) = PrivateTable.open(
            installation.vault,
            task.table_id,
            task.schema,
            task.form,
            account_key=installation.vault.split_key(task.account_id),
            holdout=0.0,
            parts=("train",),
            undeclared=task.undeclared,
        )
        progress.phase("Counting with noise")
        budget = PrivacyBudget(task.epsilon, task.delta, task.schema.neighbours)
        session = PrivateSession(rows, budget, kept=answers)
        answer = session.noisy_sum(preview_question(task.schema), share=1.0, query=QUERY, source=SOURCE)
        answers.require_all_repeated()
        preview = Preview(task.account, task.schema, task.epsilon, task.delta, answer)
        _keep(installation, work_id, preview)
        # Drawn anew, so that what certificates say of it follows from no row.
        conclude(installation, work, charge, uuid4().hex[:_IDENTITY_DIGITS])
        answers.forget()
    return preview


@contextmanager
def _forgetting(answers: AnswerFile) -> Iterator[None]:
    """Forget a kept answer that cannot be used: asked again, the preview is a new one, with a charge of its own."""
    try:
        yield
    except JobError:
        answers.forget()
        raise


def _spend(installation: Installation, work: Work, task: EarlyTask, answers: AnswerFile) -> Charge:
    """Spend the reservation of a preview, or find that an earlier process did, to the same question."""
    ledger = installation.ledger
    charge = charge_of(installation, work, task.account_id, ChargeState.RESERVED, ChargeState.SPENT)
    if charge.state is ChargeState.RESERVED:
        require_still_owner(installation.roles, work.owner)
        answers.begin({"asked": _digest(task.text)})
        return ledger.spend(charge, config=task.text)
    facts = answers.go_on()
    found = ledger.chain(task.account_id)
    require_open(found)
    require_as_reserved(found, charge_in(found.account, found.charges, charge.charge_id), task.text)
    if facts["asked"] != _digest(task.text):
        raise JobError(OTHER_THAN_RESERVED)
    return charge


def _keep(installation: Installation, preview_id: str, preview: Preview) -> None:
    """Seal what was counted under a key of this preview alone."""
    key = installation.keys.answers_key(preview_id)
    sealed = {name: seal(key, data, context=_context(preview_id, name)) for name, data in preview.files.items()}
    run_folder.write_files(run_folder.make(installation.settings, preview_id), sealed)


def _of_folder(installation: Installation, preview_id: str) -> Preview | None:
    """Return what a preview kept; None where it is missing, or was altered."""
    folder, key = run_folder.of(installation.settings, preview_id), installation.keys.answers_key(preview_id)
    try:
        files = {
            name: unseal(key, (folder / name).read_bytes(), context=_context(preview_id, name))
            for name in run_folder.PREVIEWED
        }
        return Preview.of_files(files)
    except (OSError, SynthError):
        return None


def _context(preview_id: str, name: str) -> bytes:
    return f"hermitage preview 1 {preview_id} {name}".encode()


# In later releases ----------------------------------------------------------------------------------------------------


def with_previews(installation: Installation, config: RunConfig) -> RunConfig:
    """Return a configuration that lists every preview of its account that was shown, as the ledger knows them.

    What the owner chooses after a preview is a function of it, so a release states what both cost together.
    """
    account = installation.store.accounts.named(config.account)
    charges = () if account is None else installation.ledger.current(account.id)
    previews = tuple(
        PreviewSpent(str(charge.certificate_id), charge.epsilon, charge.delta)
        for charge in charges
        if charge.purpose == Previews.purpose and charge.state is ChargeState.RELEASED
    )
    return replace(config, previews=previews)


def bring_back_previews(installation: Installation, config: RunConfig, *, account_id: str, who: str) -> None:
    """Enter previews that are missing from the ledger, from a bundle that states them; each only once."""
    known = {charge.certificate_id for charge in installation.ledger.current(account_id)}
    for one in config.previews:
        if one.id not in known:
            installation.ledger.enter_certificate(
                account_id,
                PrivacyBudget(one.epsilon, one.delta, config.schema.neighbours),
                certificate_id=one.id,
                who=who,
                run_id=str(uuid4()),
                purpose=Previews.purpose,
            )
