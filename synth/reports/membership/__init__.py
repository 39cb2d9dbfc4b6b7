"""Attacks on membership: can anyone with the released rows tell who was in the table? For the owner only."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from synth.errors import InputError
from synth.estimators import promised_epsilon
from synth.progress import Progress
from synth.reports.code_tables import UnitRows
from synth.reports.evidence import Evidence, OwnerOnlyEvidence
from synth.reports.panels import (
    Alarm,
    Badge,
    Cards,
    ExactWarning,
    Folded,
    Heading,
    OnRequest,
    Panel,
    RehearsalResults,
    Words,
)
from synth.reports.report import (
    OwnerRows,
    Remade,
    Renewal,
    Report,
    ReportOption,
    Screen,
    Section,
    Shown,
    StandInPart,
    Tab,
)
from synth.reports.risk_bounds import ProvenCeiling
from synth.schema import RunConfig
from synth.system.machine import resolved_device

__all__ = ["REPORT"]

_NONE, _SHADOWS = "attacks.none", "attacks.shadow."
_USUAL_RUNS = 64


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    from synth.reports.membership.evidence import owner_attacks  # imported late: it brings torch

    progress.phase("Attacking")
    config = rows.config
    return owner_attacks(
        rows.train,
        rows.holdout,
        rows.synthetic,
        config.schema,
        ProvenCeiling(promised_epsilon(config), config.delta, rows.receipts),
        share=config.holdout,
        seed=config.seed,
        device=_device(config),
        on_step=progress.step,
    )


def _stand_in(rows: OwnerRows, among: int, progress: Progress) -> StandInPart:
    from synth.reports.membership.evidence import public_attacks  # imported late, as above

    progress.phase("Attacking")
    config = rows.config
    if rows.holdout is None:
        raise InputError("A rehearsal is attacked only where some units are held out.")
    return public_attacks(
        rows.train,
        rows.holdout,
        rows.synthetic,
        config.schema,
        ProvenCeiling(promised_epsilon(config), config.delta, rows.receipts),
        share=config.holdout,
        seed=config.seed,
        among=among,
        device=_device(config),
        on_step=progress.step,
    )


def _device(config: RunConfig) -> str:
    """Return a card if there is one and the run was not to do without; it may have gone since the run."""
    return "cpu" if config.device == "cpu" else resolved_device("auto")


def _unattacked(reason: str) -> OwnerOnlyEvidence:
    return OwnerOnlyEvidence(id=_NONE, title="Attacks", value=None, sentence=reason)


# Shadow models ------------------------------------------------------------------------------------------------------


def _with_shadows(rows: OwnerRows, runs: str, progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    """Run the configuration repeatedly, with and without the most exposed units, and tell the two apart.

    The attack reads the results of these runs and drops them: nothing leaves, so nothing is charged, and the ledger
    holds no release of them.
    """
    from synth.reports.membership.shadow_models import (  # imported late, as above
        ShadowGame,
        no_shadows,
        shadow_evidence,
    )

    config, remake = rows.config, rows.remake
    if not config.schema.allows_sums:
        return no_shadows(
            "Nothing is proven about who was in the table, because this run promises to hide single cells only."
        )
    if remake is None:
        return no_shadows("This run cannot be repeated here.")
    begun = time.monotonic()
    progress.phase("Attacking with shadow models")

    def made(drawn: Sequence[UnitRows]) -> list[Remade]:
        progress.check_cancelled()
        return remake(drawn)

    def step(done: int, of: int) -> None:
        together = min(rows.remakes_together, of)
        if done == together < of:
            minutes = (time.monotonic() - begun) * (of / together - 1) / 60
            progress.phase(f"Attacking with {of} shadow models, {_about(minutes)}")
        progress.step(done, of)

    try:
        game = ShadowGame.draw(rows.train, config.schema, runs=int(runs), seed=config.seed, device=_device(config))
    except InputError as error:
        return no_shadows(str(error))
    scores = game.play(made, together=rows.remakes_together, on_step=step)
    return shadow_evidence(scores, config.schema, epsilon=config.epsilon, delta=config.delta, seed=config.seed)


def _about(minutes: float) -> str:
    return "less than a minute" if minutes < 1 else f"about {round(minutes)} minute{'s' * (round(minutes) > 1)}"


def _minutes(seconds: Mapping[str, float]) -> int:
    """Estimate how many minutes the usual number of runs takes, from the times of the run itself."""
    return max(1, round(_USUAL_RUNS * math.fsum(seconds[part] for part in ("measure", "fit", "sample")) / 60))


def _check_runs(runs: str) -> None:
    from synth.reports.membership.shadow_models import FEWEST_RUNS  # imported late, as above

    if int(runs) < FEWEST_RUNS:
        raise InputError(f"--shadow-models needs at least {FEWEST_RUNS} runs, got {runs}.")


def _about_shadows(minutes: int | None) -> str:
    long = "minutes" if minutes is None else f"about {minutes} minute{'' if minutes == 1 else 's'} on this machine"
    return (
        f"An attacker who knows more: this configuration is run {_USUAL_RUNS} more times, each time with or without "
        "the rows that lie farthest from all others, and an attacker learns to tell the two apart. It takes "
        f"{long}. Nothing is charged, because nothing from these runs is shown or leaves this machine."
    )


_RENEWAL = Renewal(
    name="shadow-models",
    prefix=_SHADOWS,
    usual=str(_USUAL_RUNS),
    make=_with_shadows,
    done="attacked",
    about=_about_shadows,
    start_label=f"Train {_USUAL_RUNS} shadow models",
    stop_label="Stop the shadow models",
    minutes=_minutes,
    check=_check_runs,
    option="shadow_models",
)


# The screen ---------------------------------------------------------------------------------------------------------


def _panels(shown: Shown) -> list[Panel]:
    entries = shown.exact_of("attacks")
    shadows = [entry for entry in entries if entry.id.startswith(_SHADOWS)]
    members = [entry for entry in entries if entry not in shadows]
    return [
        *_members(members),
        Heading("Shadow models on the most exposed rows"),
        *_shadow_panels(shadows),
        OnRequest(_RENEWAL.name),
        Folded("On a stand-in", [RehearsalResults("attacks")]),
    ]


def _members(entries: Sequence[Evidence]) -> list[Panel]:
    """Show the attacks of every run: members against held-out units."""
    if not entries:
        return []
    if entries[0].id == _NONE:
        return [Badge(entries[0].kind), Words(entries[0].sentence)]
    shouted, rest = _apart(entries)
    # One line of cards for each measure, below the pictures.
    first = [entry for measure in (".area", ".caught") for entry in rest if entry.id.endswith(measure)]
    others = [entry for entry in rest if entry not in first and not entry.figures]
    return [
        ExactWarning(),
        *shouted,
        Words(
            "An attacker holds the released rows and one person's row, and guesses whether that person was in the "
            "private table. The guarantee limits how often any such guess can be right. The numbers below show how "
            "often these attacks are.",
            "paragraph",
        ),
        Cards([entry for entry in rest if entry.figures], key="attacks"),
        Folded("Each attack in numbers", [Cards([*first, *others], key="attacks-each")]),
    ]


def _shadow_panels(entries: Sequence[Evidence]) -> list[Panel]:
    reason = next((entry for entry in entries if entry.id == f"{_SHADOWS}none"), None)
    if reason is not None:
        return [Badge(reason.kind), Words(reason.sentence)]
    shouted, rest = _apart(entries)
    return [*shouted, Cards(rest, key="shadows")] if entries else []


def _apart(entries: Sequence[Evidence]) -> tuple[list[Panel], list[Evidence]]:
    """Separate warnings, which come first, from the rest."""
    shouted: list[Panel] = [Alarm(entry) for entry in entries if entry.id.endswith(".warning")]
    return shouted, [entry for entry in entries if not entry.id.endswith(".warning")]


REPORT = Report(
    id="membership",
    title="Attacks",
    sections={"attacks": Section("Attacks")},
    owner=_owner,
    failed=_unattacked,
    fault="The attacks failed inside the program",
    stand_in=_stand_in,
    options=(
        ReportOption(
            "shadow_models",
            "attack the most exposed rows with N runs like this one (64 without N), each row in or out by a coin toss",
            number=_USUAL_RUNS,
        ),
    ),
    renewals=(_RENEWAL,),
    screens=(
        Screen(
            Tab(60, "○ Attacks"),
            _panels,
            exact=True,
            without="No attacks: the rows were deleted before the attacks could be run.",
        ),
    ),
    spoken=re.compile(r"attacks\.\w+\.(area|caught)"),
    reasons=(_NONE,),
)
