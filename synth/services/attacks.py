"""Membership attacks on a finished run with the private rows in hand: owner only, and never a reason to stop.

Shadow models run the same configuration again on the private rows. What they make is looked at by the attack and
dropped: nothing leaves, so nothing is charged and the ledger holds no release of it; reading what the attack came to is
a look at private rows like any other.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from synth.bundle.certificate import certificate_from_dict
from synth.errors import InputError, RunCancelledError
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.reports.attack_evidence import PublicAttacks, nothing_attacked, owner_attacks, public_attacks
from synth.reports.counting import CodeTable
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.membership import UnitRows
from synth.reports.owner_view import OwnerPart, OwnerView
from synth.reports.proven_ceiling import ProvenCeiling
from synth.reports.shadow_evidence import no_shadows, shadow_evidence
from synth.reports.shadow_models import Remade, ShadowGame
from synth.schema import RunConfig
from synth.services.incidents import record_incident
from synth.services.pipeline import fit_and_sample
from synth.services.run_folder import read_json

__all__ = ["attack_run", "attack_stand_in", "attack_with_shadows", "rows_of_part"]


def attack_run(
    config: RunConfig, view: OwnerView, synthetic: CodeTable, folder: Path, progress: Progress
) -> tuple[OwnerOnlyEvidence, ...]:
    """Try to tell who was in the table of a run from its synthetic rows.

    Parameters
    ----------
    config : RunConfig
    view : OwnerView
        The private rows; the part that was held out is compared with the part that was trained on.
    synthetic : CodeTable
        The synthetic rows as codes, column by column.
    folder : Path
        The run's files; its certificate holds the receipts.
    progress : Progress

    Returns
    -------
    tuple of OwnerOnlyEvidence, with ids that begin with ``attacks.``
    """
    progress.phase("Attacking")
    certificate = certificate_from_dict(read_json(folder / "certificate.json"))
    held_out = rows_of_part(view, "holdout") if "holdout" in view.parts else None
    try:
        return owner_attacks(
            rows_of_part(view, "train"),
            held_out,
            synthetic,
            config.schema,
            ProvenCeiling(config.epsilon, config.delta, certificate.receipts),
            share=config.holdout,
            seed=config.seed,
            on_step=progress.step,
        )
    except RunCancelledError:
        raise
    except Exception as error:
        # The bundle is sealed and paid for: odd rows must not turn the run into a failed one.
        incident = record_incident(error)
        return nothing_attacked(f"The attacks failed inside the program (incident {incident}).")


def attack_with_shadows(
    config: RunConfig, view: OwnerView, progress: Progress, *, runs: int
) -> tuple[OwnerOnlyEvidence, ...]:
    """Run the configuration again and again, with and without the most exposed units, and try to tell which is which.

    Parameters
    ----------
    config : RunConfig
    view : OwnerView
        The private rows; those that were trained on are attacked.
    progress : Progress
        Told how long it will take once the first run is made.
    runs : int
        At least 16.

    Returns
    -------
    tuple of OwnerOnlyEvidence, with ids that begin with ``attacks.shadow.``
    """
    if not config.schema.allows_sums:
        return no_shadows("Nothing is proven about who was in the table: this run promises to hide single cells.")
    begun = time.monotonic()
    progress.phase("Attacking with shadow models")

    def remake(rows: UnitRows) -> Remade:
        progress.check_cancelled()
        return _remade(config, rows)

    def step(done: int, of: int) -> None:
        if done == 1:
            minutes = (time.monotonic() - begun) * (of - 1) / 60
            progress.phase(f"Attacking with {of} shadow models, {_about(minutes)}")
        progress.step(done, of)

    try:
        game = ShadowGame.draw(rows_of_part(view, "train"), config.schema, runs=runs, seed=config.seed)
    except InputError as error:
        return no_shadows(str(error))
    scores = game.play(remake, on_step=step)
    return shadow_evidence(scores, config.schema, epsilon=config.epsilon, delta=config.delta, seed=config.seed)


def attack_stand_in(
    config: RunConfig,
    view: OwnerView,
    synthetic: CodeTable,
    ceiling: ProvenCeiling,
    progress: Progress,
    *,
    among: int = 1,
) -> PublicAttacks:
    """Attack a release that was made from rows that somebody declared public.

    Parameters
    ----------
    config : RunConfig
        Holds some units out.
    view : OwnerView
        The public rows.
    synthetic : CodeTable
        The synthetic rows as codes, column by column.
    ceiling : ProvenCeiling
        What is promised, and what the receipts prove.
    progress : Progress
    among : int
        How many rehearsals are made together; they share the chance of a false alarm.
    """
    progress.phase("Attacking")
    return public_attacks(
        rows_of_part(view, "train"),
        rows_of_part(view, "holdout"),
        synthetic,
        config.schema,
        ceiling,
        share=config.holdout,
        seed=config.seed,
        among=among,
        on_step=progress.step,
    )


def _remade(config: RunConfig, rows: UnitRows) -> Remade:
    schema = config.schema
    codes = dict(zip(schema.names, rows.codes, strict=True))
    # The view has capped every unit's rows already, so that the cap keeps all of them again.
    units = None if schema.unit.id_column is None else rows.units.tolist()
    # Which rows are in is drawn for the attack, so the declared number is not theirs.
    table = PrivateTable.from_codes(replace(schema, number_of_units=None), codes, unit_ids=units)
    measured = fit_and_sample(config, table, NullProgress(), predict=False)
    return Remade(list(measured.codes.T), measured.receipts)


def _about(minutes: float) -> str:
    return "less than a minute" if minutes < 1 else f"about {round(minutes)} minute{'s' * (round(minutes) > 1)}"


def rows_of_part(view: OwnerView, part: OwnerPart) -> UnitRows:
    """Return the rows of a part as codes, column by column, and whose they are."""
    return UnitRows([view.column(name, part) for name in view.schema.names], view.units(part))
