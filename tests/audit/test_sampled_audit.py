"""The audit of trainings on random samples: every layer for every asker, and every planted bug noticed by a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sampled_layers
import worlds
from choosing import each_once, few
from sampled_faults import SAMPLED_FAULTS
from sampled_layers import ASKERS, BY_HAND, PRIVATE

from synth.errors import PrivacyError


@pytest.mark.parametrize(("name", "world"), each_once(ASKERS, PRIVATE))
def test_t0_calibration(name: str, world: str) -> None:
    sampled_layers.t0_calibration(name, PRIVATE[world])


@pytest.mark.parametrize("place", few((3, 20), kept=(3,)))
@pytest.mark.parametrize(("name", "world"), each_once(ASKERS, PRIVATE))
def test_t1_neighbours(name: str, world: str, place: int) -> None:
    sampled_layers.t1_neighbours(name, PRIVATE[world], place=place)


def test_t1_beside_many() -> None:
    sampled_layers.t1_beside_many()


@pytest.mark.parametrize(("name", "world"), each_once(ASKERS, PRIVATE))
def test_t1_what_is_made(name: str, world: str) -> None:
    sampled_layers.t1_made(name, PRIVATE[world])


def test_t2_law_of_samples() -> None:
    sampled_layers.t2_samples()


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
@pytest.mark.parametrize("world", PRIVATE)
@pytest.mark.parametrize("name", ASKERS)
def test_every_asker_keeps_its_promise_at_other_budgets(
    name: str, world: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "EPSILON", epsilon)
    sampled_layers.t0_calibration(name, PRIVATE[world])
    sampled_layers.t1_neighbours(name, PRIVATE[world])
    sampled_layers.t1_made(name, PRIVATE[world])


def layers_of(name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    for world in PRIVATE.values():
        yield "T0", lambda world=world: sampled_layers.t0_calibration(name, world)
        yield "T1", lambda world=world: sampled_layers.t1_neighbours(name, world)
        yield "T1 made", lambda world=world: sampled_layers.t1_made(name, world)
    yield "T1 beside many", sampled_layers.t1_beside_many
    yield "T2", sampled_layers.t2_samples


# What stands for others of its kind in the default command; the others with everything else.
KEPT = (
    "samples paid for and not drawn",
    "samples by the replay seed",
    "rows of a unit drawn one by one",
    "a batch shortened as a whole",
    "lengths rounded where somebody of a batch has several rows",
    "nine tenths of the noise of a training",
    "a step more than is charged",
    "the mean over those who were drawn",
    "exact shares of the classes",
)


@pytest.mark.four_cases
@pytest.mark.parametrize("planted", few(SAMPLED_FAULTS, kept=KEPT))
def test_every_planted_bug_is_noticed(
    planted: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]
) -> None:
    name, plant = SAMPLED_FAULTS[planted]
    plant(monkeypatch)
    for layer, check in layers_of(name):
        try:
            check()
        except (AssertionError, PrivacyError):
            record_property("layer", layer)
            return
    pytest.fail(f"nobody notices: {planted}")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASKERS)
def test_nothing_is_noticed_without_a_bug(name: str) -> None:
    for _, check in layers_of(name):
        check()


def test_the_bugs_are_planted_where_they_show() -> None:
    assert {name for name, _ in SAMPLED_FAULTS.values()} == {BY_HAND, "dp-gan", "dp-cgan"}
