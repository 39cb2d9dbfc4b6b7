"""Which cells the runs of an account hide: the pure epsilons of one account add only where all speak of the same cells.

A label of one run is public in it for good, so a later run cannot hide it again; and a number that counts as hidden up
to a part of its declared range is hidden to the smallest such part of all runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from synth.errors import PrivacyError
from synth.ledger.chain import Chain
from synth.store import Account, ChargeState, DecisionKind

__all__ = ["Cells", "cells_charged", "cells_kept", "require_same_cells"]


@dataclass(frozen=True, slots=True)
class Cells:
    """What one run hides, as its configuration says.

    Attributes
    ----------
    label : str, optional
        The column that is public.
    change : float
        Largest change of a number or date that is hidden, as a part of its declared range.
    ranges : tuple of (str, str, str)
        Name and declared ends of every number and date, where ``change`` is below 1; else empty, as any change is
        hidden then, whatever the range.
    """

    label: str | None
    change: float
    ranges: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of_config(cls, config: str) -> Self:
        """Read them off a run's configuration, as JSON."""
        mapping: Mapping[str, Any] = json.loads(config)
        change = float(mapping.get("cell_change", 1.0))
        columns: Mapping[str, Any] = mapping.get("columns", {}) if change < 1 else {}
        return cls(
            label=mapping.get("label"),
            change=change,
            ranges=tuple(
                (name, str(column["low"]), str(column["high"]))
                for name, column in sorted(columns.items())
                if isinstance(column, dict) and "low" in column and "high" in column
            ),
        )

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> Self:
        """Read them back from a decision."""
        ranges = tuple((str(name), str(low), str(high)) for name, low, high in body["ranges"])
        return cls(label=body["label"], change=float(body["change"]), ranges=ranges)

    def to_body(self, run_id: str) -> dict[str, Any]:
        """Return them, and whose they are, as a decision keeps them."""
        ranges = [list(one) for one in self.ranges]
        return {"run": run_id, "label": self.label, "change": self.change, "ranges": ranges}

    def agrees(self, other: Cells) -> bool:
        """Whether both hide the same cells: columns that only one of them has do not count."""
        own, theirs = ({name: ends for name, *ends in one.ranges} for one in (self, other))
        return (self.label, self.change) == (other.label, other.change) and all(
            own[name] == theirs[name] for name in own.keys() & theirs.keys()
        )


def require_same_cells(account: Account, cells: Cells, earlier: Iterable[Cells]) -> None:
    """Refuse a run that hides other cells than the account's earlier ones.

    Raises
    ------
    PrivacyError
        If an earlier run named another label or another declared change of a cell, or other ends of a range that the
        change is a part of.
    """
    if not all(cells.agrees(one) for one in earlier):
        raise PrivacyError(
            f"Earlier runs of the account '{account.name}' protect other cells: they name another label, another "
            "cell_change, or other ranges that it is a part of. Name the same, or use another account."
        )


def cells_kept(found: Chain) -> dict[str, Cells]:
    """Return what each run hides, by its id, as the chain says."""
    return {one.body["run"]: Cells.of_body(one.body) for one in found.decisions if one.kind is DecisionKind.CELLS}


def cells_charged(found: Chain, configs: Mapping[str, str]) -> list[Cells]:
    """Return what each run hides that holds or spent a charge: as the chain says, or of older runs their configuration.

    A release that an older version entered from its certificate has neither.
    """
    latest = {charge.charge_id: charge for charge in found.charges}.values()
    held = {charge.run_id for charge in latest if charge.state is not ChargeState.FREED}
    kept = cells_kept(found)
    older = {run: Cells.of_config(configs[run]) for run in held if run in configs and run not in kept}
    return [cells for run, cells in (kept | older).items() if run in held]
