"""Layers T0 to T3 for every generator and hand-made questions, under both relations, one and several rows a unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import layers
import pytest
import torch
from askers import CHOOSING, HAND_MADE, NAMES, NETWORK, PAIRS, TREE, asker
from choosing import each_once
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transcripts import record
from worlds import WORLDS, Row, extreme_rows, far_rows, ordinary_rows

from synth.privacy.selection import Selection

USUAL = ("replace one", "add or remove several rows")
"""Both relations, one row a unit and several: what takes long is tried there, and in every world by the whole audit."""

LONG = ("kernel-sos", "choices by a field", PAIRS, "kahm")
"""Those that take longest to ask: the default command brings them somebody far out in every world, and not anybody."""


def left_when_long(cases: list[Any]) -> list[Any]:
    """Mark the cases of those that take long, unless they are left to the audit already."""
    return [
        pytest.param(*case.values, marks=[*case.marks, pytest.mark.thorough], id=case.id)
        if case.values[0] in LONG and not case.marks
        else case
        for case in cases
    ]


@pytest.mark.parametrize(("name", "world"), each_once([*NAMES, TREE], WORLDS, others=pytest.mark.audit))
def test_t0_calibration(name: str, world: str) -> None:
    layers.t0_calibration(name, WORLDS[world])


@pytest.mark.parametrize("name", [*CHOOSING, NETWORK])
def test_those_that_choose_do_choose(name: str) -> None:
    world = WORLDS["replace one"]
    transcript, _, _, _ = record(asker(name, world.schema), world, world.table(ordinary_rows(30, 1)))
    chosen = [one for one in transcript.answered if isinstance(one.answer, Selection)]
    assert len(chosen) >= 3
    assert len({one.answer.candidate.columns for one in chosen}) >= 2


@pytest.mark.parametrize("world", WORLDS)
def test_t0_charges(world: str) -> None:
    layers.t0_charges(WORLDS[world])


def test_t0_keys() -> None:
    layers.t0_keys()


@pytest.mark.parametrize(("name", "world"), each_once([*NAMES, TREE], WORLDS, others=pytest.mark.audit))
def test_t1_sensitivity_to_an_outlier(name: str, world: str) -> None:
    layers.t1_sensitivity(name, WORLDS[world], far_rows())


@pytest.mark.parametrize(
    ("name", "world"),
    [
        *left_when_long(each_once([*NAMES, TREE], USUAL, others=pytest.mark.audit)),
        *(
            pytest.param(name, world, marks=pytest.mark.audit, id=f"{name}-{world}")
            for name in [*NAMES, TREE]
            for world in WORLDS
            if world not in USUAL
        ),
    ],
)
def test_t1_sensitivity_to_anybody(name: str, world: str) -> None:
    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(brought=extreme_rows, place=st.integers(0, 40), seed=st.integers(0, 3))
    def anybody(brought: list[Row], place: int, seed: int) -> None:
        layers.t1_sensitivity(name, WORLDS[world], brought, place=place, seed=seed)

    anybody()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; sums are promised to be the same there")
@pytest.mark.parametrize("world", WORLDS)
def test_t1_sensitivity_on_cuda(world: str) -> None:
    layers.t1_sensitivity(HAND_MADE, WORLDS[world], far_rows(), device="cuda")


@pytest.mark.four_cases
@pytest.mark.parametrize("name", [*NAMES, TREE])
def test_t1_exactness(name: str) -> None:
    layers.t1_exactness(name, WORLDS["add or remove"])


@pytest.mark.parametrize("world", WORLDS)
def test_t1_split(world: str) -> None:
    layers.t1_split(WORLDS[world])


@pytest.mark.parametrize(("name", "world"), each_once([*NAMES, TREE], USUAL, others=pytest.mark.audit))
def test_t2_noise_law(name: str, world: str) -> None:
    layers.t2_noise_law(name, WORLDS[world])


@pytest.mark.parametrize(("name", "world"), each_once([*NAMES, TREE], WORLDS, others=pytest.mark.audit))
def test_t3_metadata(name: str, world: str, tmp_path: Path) -> None:
    layers.t3_metadata(name, WORLDS[world], tmp_path)
