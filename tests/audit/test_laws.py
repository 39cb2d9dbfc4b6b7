"""Layers T2b and T4: the law of a selection, and how well two neighbours can be told apart from a whole run."""

from __future__ import annotations

import layers
import pytest
from askers import NAMES
from choosing import few
from faults import FAULTS
from worlds import WORLDS


@pytest.mark.parametrize("world", few(WORLDS, kept=("replace one", "add or remove several rows")))
def test_t2b_selection_law(world: str) -> None:
    layers.t2b_selection_law(WORLDS[world], 1500)


@pytest.mark.audit
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", NAMES)
def test_t4_neighbours_cannot_be_told_apart(name: str, world: str) -> None:
    layers.t4_distinguishing(name, WORLDS[world], 3000)


@pytest.mark.audit
@pytest.mark.parametrize("world", ["replace one", "add or remove several rows"])
@pytest.mark.parametrize(
    "planted", ["half the noise", "half the noise of the operating system", "rows of a unit forgotten"]
)
def test_t4_notices_by_itself(planted: str, world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if planted == "rows of a unit forgotten" and WORLDS[world].rows_per_unit == 1:
        pytest.skip("a unit has one row in this world")
    FAULTS[planted](monkeypatch)
    with pytest.raises(AssertionError, match="told apart"):
        layers.t4_distinguishing("independent", WORLDS[world], 16_000)
