"""Every planted bug is noticed: one for each asker in the default run, all for all with ``-m audit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import layers
import pytest
from askers import CHOOSING, CRITICS, DESCENT, HAND_MADE, MIXTURE, NAMES, NETWORK, PAIRS
from choosing import few
from critic_faults import CRITIC_FAULTS
from density_faults import DENSITY_FAULTS
from faults import FAULTS
from gradient_faults import GRADIENT_FAULTS
from mixture_faults import MIXTURE_FAULTS
from moment_faults import ASKED_FAULTS, MOMENT_FAULTS
from network_faults import NETWORK_FAULTS
from worlds import WORLDS, far_rows

from synth.errors import PrivacyError

QUICK = {name: "noise draws stored" for name in NAMES} | {
    HAND_MADE: "selection weights ignored",
    DESCENT: "nine tenths of the noise",
    MIXTURE: "rows of a unit forgotten",
    "independent": "neighbour factor dropped",
    "independent-by-class": "half the noise",
    "kahm": "class means from data",
    "kernel-sos": "a row in every group",
    PAIRS: "groups from data",
    NETWORK: "dependences bounded like distances",
    CRITICS: "turns of one part not counted",
    "gs-wgan": "a critic in the state of a generator",
    **dict(zip(CHOOSING, ("bins from data", "candidates from data"), strict=True)),
}
"""One planted bug for each asker; the noise bugs and the factor bugs show in every one."""

Layer = Callable[[], object]


def layers_of(name: str, folder: Path) -> Iterator[tuple[str, Layer]]:
    """Every layer for one asker; then those that concern no asker, and the askers that ask everything between them."""
    yield from layers_of_asker(name, folder)
    for world in WORLDS.values():
        yield "T0 charges", lambda world=world: layers.t0_charges(world)
        yield "T1 split", lambda world=world: layers.t1_split(world)
    yield "T0 keys", layers.t0_keys
    for world in WORLDS.values():
        yield "T2b", lambda world=world: layers.t2b_selection_law(world, 1500)
    for other in (HAND_MADE, DESCENT, MIXTURE, NETWORK, CRITICS, "gs-wgan", *CHOOSING, PAIRS, "kahm", "kernel-sos"):
        if other != name:
            yield from layers_of_asker(other, folder)


def layers_of_asker(name: str, folder: Path) -> Iterator[tuple[str, Layer]]:
    """Every layer that asks, cheap ones first."""
    for world in WORLDS.values():
        yield "T0", lambda world=world: layers.t0_calibration(name, world)
        for place in (3, 11):
            yield "T1", lambda world=world, place=place: layers.t1_sensitivity(name, world, far_rows(), place=place)
    yield "T1 exactness", lambda: layers.t1_exactness(name, WORLDS["add or remove"])
    yield "T2", lambda: layers.t2_noise_law(name, WORLDS["add or remove"])
    yield "T3", lambda: layers.t3_metadata(name, WORLDS["replace one"], folder)


def killed_by(name: str, folder: Path) -> str | None:
    """Return the first layer that notices something, or None."""
    return next((layer for layer, check in layers_of(name, folder) if noticed(check)), None)


def noticed(check: Layer) -> bool:
    try:
        check()
    except (AssertionError, PrivacyError, pytest.fail.Exception):
        return True
    return False


@pytest.mark.four_cases
@pytest.mark.parametrize("name", NAMES)
def test_one_planted_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    FAULTS[QUICK[name]](monkeypatch)
    assert killed_by(name, tmp_path) is not None, f"nobody notices: {QUICK[name]}"


@pytest.mark.four_cases
@pytest.mark.parametrize("planted", MOMENT_FAULTS)
def test_a_planted_bug_in_whole_rows_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    FAULTS[planted](monkeypatch)
    found = killed_by(HAND_MADE, tmp_path)
    assert found is not None, f"nobody notices: {planted}"


STEPWISE_FAULTS = [(DESCENT, planted) for planted in GRADIENT_FAULTS] + [
    (MIXTURE, planted) for planted in MIXTURE_FAULTS
]


@pytest.mark.four_cases
@pytest.mark.parametrize(("name", "planted"), STEPWISE_FAULTS, ids=[planted for _, planted in STEPWISE_FAULTS])
def test_a_planted_bug_in_what_is_asked_step_by_step_is_noticed(
    name: str, planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    FAULTS[planted](monkeypatch)
    found = next((layer for layer, check in layers_of_asker(name, tmp_path) if noticed(check)), None)
    record_property("layer", found)
    assert found is not None, f"nobody notices: {planted}"


# A bug for each of what is clipped, who is in a part, and what is paid; the others with everything else.
CRITIC_KEPT = (
    "the mean of a turn's gradients clipped and not each",
    "parts by the replay seed and the place of a row",
    "a replaced unit pays for one part",
    "a critic kept beside the network",
)


@pytest.mark.parametrize("planted", few(list(CRITIC_FAULTS), kept=CRITIC_KEPT))
def test_a_planted_bug_in_private_critics_is_noticed(
    planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    FAULTS[planted](monkeypatch)
    layers_here = layers_of_asker(CRITIC_FAULTS[planted], tmp_path)
    found = next((layer for layer, check in layers_here if noticed(check)), None)
    assert found is not None, f"nobody notices: {planted}"


NETWORK_KEPT = ("two values bounded by half a row", "dependences counted twice", "parents by the rows themselves")


@pytest.mark.parametrize("planted", few(NETWORK_FAULTS, kept=NETWORK_KEPT))
def test_a_planted_bug_in_a_network_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    FAULTS[planted](monkeypatch)
    found = next((layer for layer, check in layers_of_asker(NETWORK, tmp_path) if noticed(check)), None)
    assert found is not None, f"nobody notices: {planted}"


@pytest.mark.parametrize("planted", ASKED_FAULTS)
def test_a_planted_bug_in_what_kahm_asks_is_noticed(
    planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    FAULTS[planted](monkeypatch)
    assert killed_by("kahm", tmp_path) is not None, f"nobody notices: {planted}"


# Of the two in which rows decide what is made of the answer, the default command plants the support.
@pytest.mark.parametrize(
    "planted",
    few(DENSITY_FAULTS, kept=[name for name in DENSITY_FAULTS if name != "bandwidth by the private number of rows"]),
)
def test_a_planted_bug_in_a_density_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    FAULTS[planted](monkeypatch)
    found = next((layer for layer, check in layers_of_asker("kernel-sos", tmp_path) if noticed(check)), None)
    assert found is not None, f"nobody notices: {planted}"


@pytest.mark.audit
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("planted", FAULTS)
def test_every_planted_bug_is_noticed(
    planted: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    FAULTS[planted](monkeypatch)
    layer = killed_by(name, tmp_path)
    record_property("layer", layer)
    assert layer is not None, f"nobody notices: {planted}"


@pytest.mark.audit
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_noticed_without_a_bug(name: str, tmp_path: Path) -> None:
    assert killed_by(name, tmp_path) is None
