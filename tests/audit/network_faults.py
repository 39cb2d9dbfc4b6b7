"""Planted bugs in how the parents of columns are chosen and counted; noticed by what a network of columns asks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from faults import bins_from_data, fault, tables_opened

from synth.generators.privbayes import network, privbayes
from synth.privacy import selection
from synth.privacy.costs import Bound
from synth.privacy.more import dependence
from synth.privacy.session import PrivateSession

NETWORK_FAULTS: list[str] = []


def network_fault(name: str) -> Any:
    NETWORK_FAULTS.append(name)
    return fault(name)


@network_fault("dependences bounded like distances")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dependence, "ONE_DEPENDENCE", Bound(1.0, 2.0))


@network_fault("dependences without the replace factor")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dependence, "ONE_DEPENDENCE", Bound(2.0, 2.0))


@network_fault("two values bounded by half a row")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dependence, "ONE_BINARY", Bound(0.5, 0.5))


@network_fault("dependences counted twice")
def _(patch: pytest.MonkeyPatch) -> None:
    right = selection.dependences_of
    patch.setattr(selection, "dependences_of", lambda *asked, **how: 2 * right(*asked, **how))


@network_fault("dependences as shares of the private number of rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = selection.dependences_of

    def shares(candidates: Any, rows: Any, *, bits: int) -> np.ndarray:
        # In shares, times a number of rows that is far too large: the bound is one of rows.
        return right(candidates, rows, bits=bits) * 1000 // max(rows.n_rows, 1)

    patch.setattr(selection, "dependences_of", shares)


@network_fault("parents by the rows themselves")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = network.Families.offered, tables_opened(patch)

    def offered(self: network.Families, children: Any, known: Any) -> list[network.Family]:
        present = [len(np.unique(opened[-1]._column(column.name))) for column in self._columns]
        return sorted(right(self, children, known), key=lambda one: present[one.child])

    patch.setattr(network.Families, "offered", offered)


@network_fault("the first column by the rows themselves")
def _(patch: pytest.MonkeyPatch) -> None:
    opened = tables_opened(patch)

    def entropy(shares: np.ndarray) -> float:
        return float(opened[-1]._column("age").sum() % 7 == len(shares) % 7)

    patch.setattr(privbayes, "_entropy", entropy)


@network_fault("bins of a network from data")
def _(patch: pytest.MonkeyPatch) -> None:
    bins_from_data(patch, privbayes)


@network_fault("parents chosen without being charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.noisy_max

    def noisy_max(self: PrivateSession, candidates: Any, **asked: Any) -> Any:
        before = self._spent_units
        chosen = right(self, candidates, **asked)
        if isinstance(chosen.candidate, dependence.Dependence):
            self._spent_units = before
        return chosen

    patch.setattr(PrivateSession, "noisy_max", noisy_max)
