"""Membership attacks on a finished run with the private rows in hand: owner only, and never a reason to stop."""

from __future__ import annotations

from pathlib import Path

from synth.bundle.certificate import certificate_from_dict
from synth.config import RunConfig
from synth.errors import RunCancelledError
from synth.privacy.owner_view import OwnerPart, OwnerView
from synth.progress import Progress
from synth.reports.attack_evidence import nothing_attacked, owner_attacks
from synth.reports.counting import CodeTable
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.membership import UnitRows
from synth.reports.proven_ceiling import ProvenCeiling
from synth.services.incidents import record_incident
from synth.services.run_folder import read_json

__all__ = ["attack_run"]


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
    held_out = _part(view, "holdout") if "holdout" in view.parts else None
    try:
        return owner_attacks(
            _part(view, "train"),
            held_out,
            synthetic,
            config.schema,
            ProvenCeiling(certificate.epsilon, certificate.delta, certificate.receipts),
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


def _part(view: OwnerView, part: OwnerPart) -> UnitRows:
    return UnitRows([view.column(name, part) for name in view.schema.names], view.units(part))
