"""What an epsilon of one cell is worth for a whole row: said wherever such an epsilon is shown.

Noise on single cells follows from the configuration alone, so a run that has not ended, or failed, has its number too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from synth.errors import SynthError
from synth.reports.forecast import forecast
from synth.schema import Neighbours, parse_config
from synth.store import Charge, ChargeState, Store

__all__ = ["RowWorth", "added_worth", "row_epsilon_of_config", "row_worth_words", "worth_of_charge", "worth_of_charges"]

RowWorth = tuple[float | None, float]
"""Epsilon and delta for replacing a whole row by one with the same label; None where nobody can tell any more."""


@lru_cache(maxsize=1024)
def row_epsilon_of_config(config: str) -> float | None:
    """Return what the noise on cells of one run is worth for a whole row, at the run's delta.

    Parameters
    ----------
    config : str
        The run's configuration as JSON, as the store keeps it.

    Returns
    -------
    float, for replacing a row by one with the same label; None where no single cell is protected, or where this
    version cannot plan the run any more
    """
    try:
        parsed = parse_config(json.loads(config))
        return forecast(parsed).row_epsilon if parsed.schema.protection == "cell" else None
    except SynthError:
        return None


def row_worth_words(worth: RowWorth | None) -> str:
    """Return what follows an epsilon of one cell in a line of text; nothing for any other epsilon."""
    if worth is None:
        return ""
    for_a_row = "unknown" if worth[0] is None else f"{worth[0]:.6g}"
    return f" for one cell, {for_a_row} for a row with the same label"


def worth_of_charge(charge: Charge, store: Store) -> RowWorth | None:
    """Return what a charge is worth for a whole row; None where it is not about single cells."""
    if charge.neighbours is not Neighbours.CELL:
        return None
    # A charge that was entered from a certificate belongs to no run of this installation.
    run = store.runs.find(charge.run_id)
    return (None if run is None else row_epsilon_of_config(run.config)), charge.delta


def worth_of_charges(charges: Iterable[Charge], store: Store) -> RowWorth | None:
    """Return what all charges that count are worth for a whole row, simply added; None where none is about cells.

    Parameters
    ----------
    charges : iterable of Charge
        The latest row of each.
    store : Store
    """
    return added_worth(worth_of_charge(charge, store) for charge in charges if charge.state is not ChargeState.FREED)


def added_worth(worths: Iterable[RowWorth | None]) -> RowWorth | None:
    """Return what several runs are worth for a whole row together; None where none is about single cells."""
    found = [worth for worth in worths if worth is not None]
    if not found:
        return None
    # Basic composition: epsilons and deltas add.
    epsilons = [epsilon for epsilon, _ in found if epsilon is not None]
    return (sum(epsilons) if len(epsilons) == len(found) else None), sum(delta for _, delta in found)
