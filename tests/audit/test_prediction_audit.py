"""The audit of predictions on the hold-out: every layer under both relations, and every planted bug noticed.

The default run plants half of them: of what predicts, of whose rows are counted, of what is charged, of how far a unit
moves an answer, and of the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import prediction_layers as layers
import pytest
from choosing import each_once
from prediction_faults import PREDICTION_FAULTS
from worlds import LABEL, WORLDS, far_rows

from synth.errors import PrivacyError

pytestmark = pytest.mark.thorough

QUICK = {
    "predictor that sees the label",
    "predictor trained on held-out rows",
    "hold-out answered by the training part, whatever the receipt says",
    "counts of the training part remembered for the hold-out",
    "cost of the hold-out not charged",
    "bins of a forest bounded like one cell",
    "losses that are not clipped to 1",
    "half the noise on the hold-out",
    "last held-out row forgotten",
}
"""Bugs of the default run; the others are planted with ``-m audit``."""


@pytest.mark.parametrize(("world", "label"), each_once(WORLDS, layers.LABELS, others=pytest.mark.audit))
def test_t0_calibration(world: str, label: str) -> None:
    layers.t0_calibration(WORLDS[world], label)


@pytest.mark.parametrize("world", WORLDS)
def test_t0_each_part_answers_for_itself(world: str) -> None:
    layers.t0_parts(WORLDS[world])


@pytest.mark.parametrize(("world", "label"), each_once(WORLDS, layers.LABELS, others=pytest.mark.audit))
def test_t1_sensitivity(world: str, label: str) -> None:
    assert layers.t1_sensitivity(WORLDS[world], far_rows(), label) > 0, "the hold-out never changed"


@pytest.mark.parametrize("label", [LABEL, pytest.param("age", marks=pytest.mark.audit)])
@pytest.mark.parametrize("world", ["replace one", "add or remove several rows"])
def test_t2_noise_law(world: str, label: str) -> None:
    layers.t2_noise_law(WORLDS[world], label=label)


@pytest.mark.parametrize(("world", "label"), each_once(WORLDS, layers.LABELS, others=pytest.mark.audit))
def test_t3_metadata(world: str, label: str) -> None:
    layers.t3_metadata(WORLDS[world], far_rows(), label)


def layers_of() -> Iterator[tuple[str, Callable[[], object]]]:
    """Every layer, in the two worlds that differ most, of a class and of a number; cheap ones first."""
    for world in (WORLDS["replace one"], WORLDS["add or remove several rows"]):
        yield "T0 parts", lambda world=world: layers.t0_parts(world)
        for label in layers.LABELS:
            yield f"T0 {label}", lambda world=world, label=label: layers.t0_calibration(world, label)
            yield f"T1 {label}", lambda world=world, label=label: layers.t1_sensitivity(world, far_rows(), label)
        for label in layers.LABELS:
            yield f"T2 {label}", lambda world=world, label=label: layers.t2_noise_law(world, label=label)
            yield f"T3 {label}", lambda world=world, label=label: layers.t3_metadata(world, far_rows(), label)


def test_what_is_planted_in_the_default_run_is_there() -> None:
    assert set(PREDICTION_FAULTS) > QUICK


@pytest.mark.parametrize(
    "planted", [name if name in QUICK else pytest.param(name, marks=pytest.mark.audit) for name in PREDICTION_FAULTS]
)
def test_every_planted_bug_is_noticed(
    planted: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]
) -> None:
    PREDICTION_FAULTS[planted](monkeypatch)
    for layer, check in layers_of():
        try:
            check()
        except (AssertionError, PrivacyError):
            record_property("layer", layer)
            return
    pytest.fail(f"nobody notices: {planted}")
