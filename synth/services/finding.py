"""Find privately what nobody has declared: its cost and losses in advance, its charge, its work, and its result.

A finding is charged once, like a run: reserved, spent before a row is read, and released with what it found, however
many runs use that. Its two files are in a folder of its own beside those of runs. They contain noisy answers and what
follows from them; nothing else that was read leaves the process that read it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from synth.bundle.finding import Finding
from synth.errors import ConfigError, JobError
from synth.ledger.rulings import Role
from synth.ledger.spending import Cost, fine_units_of
from synth.names import numbered
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.more.finding import (
    Foreseen,
    find,
    finding_budget,
    foreseen,
    key_delta,
    open_schema,
    open_table,
)
from synth.privacy.more.found_columns import open_columns
from synth.privacy.session import PrivateSession
from synth.progress import Progress
from synth.schema import (
    FindColumn,
    Neighbours,
    RunConfig,
    Schema,
    is_found,
    undeclared_facts,
)
from synth.services import run_folder
from synth.services.access import require_still_owner, use_case
from synth.services.early_charges import EarlyCharges, EarlyTask, asking_only, charge_of, conclude, task_of
from synth.services.installation import Installation
from synth.services.intake import Reading
from synth.store import ChargeState, Work, WorkKind
from synth.system.settings import Settings

__all__ = [
    "USUAL_SHARE",
    "FindingPlan",
    "Findings",
    "bring_back",
    "carry_out",
    "completed",
    "cost_of_finding",
    "finding_of",
    "marked",
    "remaining",
]

USUAL_SHARE = 0.1
"""The default share of the budget for a finding: a tenth of epsilon, and of delta."""

SCARCE = 0.2
"""Part of all rows from which on a value that is lost is worth a warning."""

_USUAL_READING = Reading()


@dataclass(frozen=True, slots=True)
class FindingPlan:
    """What a finding will cost and lose, from declared facts and the ledger only; no row is read.

    Attributes
    ----------
    columns : tuple of str
        The open columns.
    epsilon, delta : float
    foreseen : Foreseen
        How many rows a value needs to be found, and a column.
    rows_at_most : int
        As many rows as the table can have, as declared.
    protects : str
        The protected unit.
    epsilon_before, epsilon_after : float
        What is spent on these people before and after the finding.
    refusal : str, optional
        Why it cannot start, in one sentence.
    """

    columns: tuple[str, ...]
    epsilon: float
    delta: float
    foreseen: Foreseen
    rows_at_most: int
    protects: str
    epsilon_before: float
    epsilon_after: float
    refusal: str | None = None

    @property
    def finds_little(self) -> bool:
        """Whether even a value that a fifth of the rows share is likely to be lost."""
        return self.foreseen.least_rows > SCARCE * self.rows_at_most

    @property
    def loses(self) -> str:
        """What will be lost, as stated before the finding."""
        least, rows = self.foreseen.least_rows, self.rows_at_most
        scarce = ""
        if self.finds_little:
            scarce = (
                f"Declared are at most {rows:,} rows: values that fewer than {100 * least / rows:.0f} % of them share "
                "are not found. The fewer columns are open, the more is found in each: describe what you know by hand, "
                "with presets or with a data dictionary. "
            )
        return (
            f"Values in fewer than about {least:,} rows are lost: they become 'other'. Columns with fewer than about "
            f"{self.foreseen.kind_rows:,} filled cells are left out. {scarce}Ranges of numbers and dates are widened "
            "by what the noise may hide, so that rarely more than a twentieth of the cells lie outside. Ids and free "
            f"text are left out: for each {self.protects}, the chance that a text of this {self.protects} alone is "
            f"published is at most {key_delta(self.delta):.1g}."
        )


def cost_of_finding(epsilon: float, delta: float, neighbours: Neighbours) -> Cost:
    """Return the ledger's charge for a finding: the noise that its session may spend, and delta for values."""
    budget = finding_budget(epsilon, delta, neighbours)
    noise = Cost.of_budget(budget.epsilon, budget.delta, neighbours)
    return replace(noise, additive_delta_units=noise.additive_delta_units + fine_units_of(key_delta(delta)))


class Findings(EarlyCharges):
    """The findings of one installation: at most one in progress for each table, and the latest of each table.

    The subject of their work is the table.
    """

    kind = WorkKind.FINDING
    purpose = "what was open, found privately"

    @use_case(Role.OWNER, about="config")
    def plan(self, config: RunConfig, *, epsilon: float, delta: float | None = None) -> FindingPlan:
        """Return what finding the open columns costs and loses, without reading rows or writing anything.

        Parameters
        ----------
        config : RunConfig
            A configuration with open columns.
        epsilon : float
            What the finding will spend.
        delta : float, optional
            By default a tenth of the configuration's delta.

        Raises
        ------
        ConfigError
            If no column is open, if single cells are protected, or if as few rows as are declared can show nothing at
            this epsilon.
        PrivacyError
            If no noise can satisfy such a budget.
        """
        _require_findable(config)
        if not 0 < epsilon < config.epsilon:
            raise ConfigError(
                f"A finding is paid for from the budget of epsilon {config.epsilon:g} and must leave something for "
                f"rows. Choose an epsilon between 0 and {config.epsilon:g}, for example "
                f"{config.epsilon * USUAL_SHARE:g}."
            )
        delta = config.delta * USUAL_SHARE if delta is None else delta
        if not 0 < delta < 1:
            raise ConfigError(
                f"The delta of a finding must be above 0 and below 1, got {delta:g}. Leave it out, or choose for "
                f"example {config.delta * USUAL_SHARE:g}."
            )
        expected = foreseen(open_schema(config.schema), epsilon, delta)
        rows_at_most = config.people_at_most * config.schema.unit.rows_per_unit
        if rows_at_most < expected.kind_rows:
            raise ConfigError(_too_few(config, epsilon, delta, rows_at_most, expected.kind_rows))
        budget = PrivacyBudget(epsilon, delta, config.schema.neighbours)
        beside = self._beside(config, budget, cost_of=cost_of_finding)
        protects = config.schema.unit.protects
        return FindingPlan(open_columns(config.schema), epsilon, delta, expected, rows_at_most, protects, *beside)

    @use_case(Role.OWNER, about="config")
    def reserve(
        self,
        config: RunConfig,
        *,
        table_id: str,
        epsilon: float,
        delta: float | None = None,
        reading: Reading = _USUAL_READING,
    ) -> Work:
        """Charge a finding and record its work, to be claimed and done in this process.

        Raises
        ------
        NotAsDeclaredError
            If most lines of the table would be lost, and ``reading`` does not say to go on.
        SynthError
            If :meth:`plan` refuses it, or the table cannot be read as declared or is being worked on.
        """
        return self._begin(config, table_id, epsilon, delta, reading, start=False)

    @use_case(Role.OWNER, about="config")
    def start(
        self,
        config: RunConfig,
        *,
        table_id: str,
        epsilon: float,
        delta: float | None = None,
        reading: Reading = _USUAL_READING,
    ) -> str:
        """Charge a finding and start it in another process; return its id. Errors as :meth:`reserve`."""
        return self._begin(config, table_id, epsilon, delta, reading, start=True).id

    def _begin(
        self, config: RunConfig, table_id: str, epsilon: float, delta: float | None, reading: Reading, *, start: bool
    ) -> Work:
        plan = self.plan(config, epsilon=epsilon, delta=delta)
        schema = open_schema(config.schema)
        budget = PrivacyBudget(float(epsilon), plan.delta, schema.neighbours)
        task = task_of(config, schema, budget, table_id)
        going = self.standing(table_id)
        if going is not None and going.is_active:
            raise JobError("A finding is already in progress for this table. Wait for it, or stop it first.")
        finding_id = self._charge(
            config,
            budget,
            refusal=plan.refusal,
            task=task,
            read_as=asking_only(config, schema),
            looked_for=task,
            table_id=table_id,
            reading=reading,
            begin=lambda work_id: self._begin_work(table_id, task, work_id=work_id, start=start),
            cost_of=cost_of_finding,
        )
        return self._installation.store.work[finding_id]

    @use_case(Role.OWNER, about="table_id")
    def latest(self, table_id: str) -> Finding | None:
        """Return the result of the latest finding of a table; None if there is none, or if it failed."""
        work = self.standing(table_id)
        return None if work is None or work.is_active else _of_folder(self._installation, work.id)


def completed(document: Mapping[str, Any], finding: Finding) -> dict[str, Any]:
    """Fill the open columns of a configuration with what was found, and record where that comes from.

    The cost of the finding is subtracted from the budget; the rest is for the run.
    """
    said = {name: body["description"] for name, body in document["columns"].items() if body.get("description")}
    found_in_words = {
        name: {**body, "description": said[name]} if name in said else body for name, body in finding.mappings.items()
    }
    columns = dict(document["columns"]) | found_in_words
    sources = {name: finding.reference.source for name in finding.mappings if columns[name]["type"] != "drop"}
    kept = {name: said for name, said in (document.get("domain_source") or {}).items() if name not in finding.mappings}
    found = {field: getattr(finding.reference, field) for field in finding.reference.__slots__}
    budget = {**document["budget"], "epsilon": remaining(float(document["budget"]["epsilon"]), finding.epsilon)}
    return {**document, "budget": budget, "columns": columns, "domain_source": {**kept, **sources}, "found": found}


def remaining(whole: float, epsilon: float) -> float:
    """Return what a finding leaves of an epsilon, rounded to hide binary rounding errors."""
    return float(f"{whole - epsilon:.12g}")


def _require_findable(config: RunConfig) -> None:
    if config.found is not None:
        raise ConfigError(
            "This configuration was completed by a finding already, and a release contains the receipts of only one. "
            "Describe what is still open. Or remove 'found', write 'type: find' again for every column that was found, "
            "and find again, which is charged again."
        )
    before = [
        column.name
        for column in config.schema.modelled
        if not isinstance(column, FindColumn) and is_found(config.domain_source.get(column.name, ""))
    ]
    if before:
        raise ConfigError(
            f"'{before[0]}' was found privately before, and a release contains the receipts of only one finding. Write "
            "'type: find' for it again, or restore 'found'."
        )
    if not open_columns(config.schema):
        raise ConfigError("Every column is described. Write 'type: find' for the columns to find privately.")
    if config.delta == 0:
        raise ConfigError(
            "Finding columns privately needs a delta above 0, and a release cannot then have a delta of 0. Choose one, "
            "for example 1e-6 (3 Budget), or describe every column."
        )
    if config.schema.neighbours is Neighbours.CELL:
        raise ConfigError(
            "If single cells are protected, nothing can be found privately, because counts of values protect whole "
            "rows. Describe every column."
        )
    problem = undeclared_facts(open_schema(config.schema))
    if config.schema.needs_number_of_units and config.schema.number_of_units is None and problem is not None:
        raise ConfigError(problem)
    config.format.check()


def _too_few(config: RunConfig, epsilon: float, delta: float, rows: int, needed: int) -> str:
    """Say that a finding would be paid for and find nothing, and what can be done instead."""
    schema = open_schema(config.schema)
    k = len(open_columns(schema))
    enough = _enough_epsilon(schema, config.epsilon, delta, rows)
    more = (
        f"Spend at least {enough:g} on finding"
        if enough is not None
        else f"Even nearly the whole budget of epsilon {config.epsilon:g} would not be enough"
    )
    return (
        f"Finding {numbered(k, 'column')} at epsilon {epsilon:g} would find nothing: a column needs about {needed:,} "
        f"filled cells, and as declared the table has at most {rows:,} rows. {more}, or leave fewer columns open: "
        "describe the others by hand, with presets or with a data dictionary. Nothing was spent."
    )


def _enough_epsilon(schema: Schema, whole: float, delta: float, rows: int) -> float | None:
    """Return the least epsilon, in two digits and below the whole, at which so many rows can show something."""
    low, high = 0.0, whole
    if foreseen(schema, high, delta).kind_rows > rows:
        return None
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if foreseen(schema, middle, delta).kind_rows <= rows else (middle, high)
    digit = 10.0 ** (math.floor(math.log10(high)) - 1)
    enough = float(f"{math.ceil(high / digit) * digit:.2g}")
    return enough if enough < whole else None


# In the worker --------------------------------------------------------------------------------------------------------


def carry_out(installation: Installation, work_id: str, progress: Progress) -> Finding:
    """Spend, read, ask, and keep what was found.

    A finding that stops before its end keeps nothing and stays spent: its questions would have to be asked again.

    Raises
    ------
    SynthError
        What stopped it; the caller settles the charge.
    """
    work = installation.store.work[work_id]
    task = EarlyTask.of(installation, work)
    progress.phase("Reading")
    require_still_owner(installation.roles, work.owner)
    charge = charge_of(installation, work, task.account_id, ChargeState.RESERVED)
    charge = installation.ledger.spend(charge, config=task.text)
    rows = open_table(
        installation.vault,
        task.table_id,
        task.schema,
        task.form,
        account_key=installation.vault.split_key(task.account_id),
        undeclared=task.undeclared,
    )
    progress.phase("Finding privately")
    session = PrivateSession(rows, finding_budget(task.epsilon, task.delta, task.schema.neighbours))
    find(session, delta_key=key_delta(task.delta))
    finding = Finding(task.account, task.schema, task.form, task.epsilon, task.delta, session.receipts, session.answers)
    _keep(installation.settings, work_id, finding.files)
    conclude(installation, work, charge, finding.digest[:16])
    return finding


def _keep(settings: Settings, finding_id: str, files: Mapping[str, bytes]) -> None:
    run_folder.write_files(run_folder.make(settings, finding_id), files)


# Its result -----------------------------------------------------------------------------------------------------------


def _of_folder(installation: Installation, finding_id: str) -> Finding | None:
    """Return the finding with this id, if the ledger says that it was released with exactly these files."""
    folder = run_folder.of(installation.settings, finding_id)
    try:
        files = {name: (folder / name).read_bytes() for name in run_folder.FOUND}
    except OSError:
        return None
    identity = hashlib.sha256(files["found.json"]).hexdigest()[:16]
    released = [charge.certificate_id for charge in installation.ledger.charges_of(finding_id)]
    return Finding.of_files(files) if identity in released else None


def finding_of(installation: Installation, config: RunConfig) -> Finding | None:
    """Return the finding that completed a configuration, or None if it names none.

    Raises
    ------
    JobError
        If this installation has no such finding about these people.
    ConfigError
        If columns were found but the configuration names no finding, or if it states another cost.
    """
    if config.found is None:
        named = [name for name, source in config.domain_source.items() if is_found(source)]
        if named:
            raise ConfigError(
                f"domain_source says that '{named[0]}' was found privately, but 'found' is missing. Restore the "
                "section that synth find wrote: every release must contain its receipts."
            )
        return None
    account = installation.store.accounts.named(config.account)
    for charge in () if account is None else installation.ledger.current(account.id):
        if charge.certificate_id == config.found.digest[:16]:
            finding = _of_folder(installation, charge.run_id)
            if finding is not None and finding.digest == config.found.digest:
                if finding.reference != config.found:
                    raise ConfigError("'found' was changed. Restore it as synth find wrote it.")
                return finding
    raise JobError(
        f"The finding that completed this configuration was not made here for the account '{config.account}', or "
        "its files are missing. Run it where the finding was made, or describe the columns and remove 'found'."
    )


def marked(config: RunConfig, finding: Finding | None) -> RunConfig:
    """Return a configuration that says of every open column whether it is as found, or was edited since."""
    if finding is None:
        return config
    own = {column.name for column in config.schema}
    said = {name: source for name, source in config.domain_source.items() if not is_found(source) and name in own}
    return replace(config, domain_source={**said, **finding.sources(config.schema, said)})


def bring_back(installation: Installation, finding: Finding, *, account_id: str, who: str) -> None:
    """Enter a finding that is missing from the ledger, with its files, from a bundle that contains it; only once."""
    identity = finding.digest[:16]
    known = [one for one in installation.ledger.current(account_id) if one.certificate_id == identity]
    if known:
        charge = known[0]
    else:
        charge = installation.ledger.enter_certificate(
            account_id,
            PrivacyBudget(finding.epsilon, finding.delta, finding.schema.neighbours),
            certificate_id=identity,
            who=who,
            cost_of=cost_of_finding,
            run_id=str(uuid4()),
        )
    if _of_folder(installation, charge.run_id) is None:
        _keep(installation.settings, charge.run_id, finding.files)
