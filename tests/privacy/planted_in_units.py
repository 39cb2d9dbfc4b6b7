"""Bugs that can be planted in every question that bounds what a unit adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from synth.privacy.more import gradients
from synth.privacy.questions import Digest
from synth.privacy.session import PrivateSession

__all__ = ["planted_in"]


def planted_in(names: dict[str, Any]) -> dict[str, Callable[[pytest.MonkeyPatch], None]]:
    """Return the bugs of a module and those of this one, by their names in words."""
    return {
        name.removeprefix("plant_").replace("_", " "): plant
        for name, plant in (globals() | names).items()
        if name.startswith("plant_")
    }


def plant_no_factor_where_a_unit_is_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gradients, "between_neighbours", lambda unit, schema, rows: unit.norm)


def plant_a_step_uncharged(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._open

    def _open(self: PrivateSession, query: str, units: int, **named: Any) -> None:
        right(self, query, units, **named)
        self._spent_units -= units if query.endswith("7") else 0

    patch.setattr(PrivateSession, "_open", _open)


def plant_a_digest_without_parameters(patch: pytest.MonkeyPatch) -> None:
    right = Digest.add_array
    patch.setattr(Digest, "add_array", lambda self, array: right(self, 0 * array))
