"""The layers at the edges, and the planted bugs that only they can see."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import edges
import layers
import numpy as np
import pytest
import worlds
from askers import NAMES
from choosing import each_once
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from edges import BUDGETS
from faults import Between, wrapped_noise
from worlds import WORLDS

from synth.errors import PrivacyError
from synth.privacy import accounting, noise, selection
from synth.privacy.session import PrivateSession

Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, Plant] = {}
SOME_WORLDS = ("replace one", "add or remove several rows")


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_budget_sets_aside_what_a_grid_costs(budget: str) -> None:
    edges.t0_allowance(budget)


@pytest.mark.parametrize("world", SOME_WORLDS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_small_shares_add_up_to_the_budget(budget: str, world: str) -> None:
    edges.t0_small_shares(budget, WORLDS[world])


@pytest.mark.parametrize("world", SOME_WORLDS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_choice_costs_its_share(budget: str, world: str) -> None:
    edges.t0_choices(budget, WORLDS[world])


@pytest.mark.parametrize("budget", BUDGETS)
def test_noise_beyond_six_sigma_follows_its_law(budget: str) -> None:
    edges.t2_tails(budget, WORLDS["replace one"])


def test_noise_of_rows_follows_its_law_far_out() -> None:
    edges.t2_tails_of_rows()


def test_no_size_of_noise_is_thinned_out() -> None:
    edges.t2_tail_masses()


@pytest.mark.parametrize(("budget", "world"), each_once(BUDGETS, SOME_WORLDS, others=pytest.mark.audit))
def test_choices_between_far_apart_scores_follow_their_law(budget: str, world: str) -> None:
    edges.t2b_far_choices(budget, WORLDS[world])


def test_the_key_of_the_noise_comes_from_the_operating_system() -> None:
    edges.t0_key()


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
@pytest.mark.parametrize("world", SOME_WORLDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_asker_keeps_its_promise_at_other_budgets(
    name: str, world: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "EPSILON", epsilon)
    monkeypatch.setattr(layers, "EPSILON", epsilon)
    layers.t0_calibration(name, WORLDS[world])
    layers.t1_sensitivity(name, WORLDS[world], worlds.far_rows())
    layers.t2_noise_law(name, WORLDS[world])


# Planted bugs


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant
        return plant

    return keep


@fault("noise cut off at 4 sigma")
def _(patch: pytest.MonkeyPatch) -> None:
    right = noise.SystemNoise.gaussian

    def gaussian(self: Any, variance: int, size: int) -> np.ndarray:
        most = 4 * math.isqrt(variance)
        return right(self, variance, size).clip(-most, most)

    patch.setattr(noise.SystemNoise, "gaussian", gaussian)


@fault("noise above 4 sigma drawn again")
def _(patch: pytest.MonkeyPatch) -> None:
    right = noise._accepted

    def accepted(source: Any, scale: int, variance: int | None, count: int, doubt: float) -> np.ndarray:
        found = right(source, scale, variance, count, doubt)
        return found if variance is None else found[np.abs(found) <= 4 * math.isqrt(variance)]

    patch.setattr(noise, "_accepted", accepted)


@fault("noise cut off at 4 sigma by the session")
def _(patch: pytest.MonkeyPatch) -> None:
    class Cut(Between):
        def gaussian(self, variance: int, size: int) -> np.ndarray:
            most = 4 * math.isqrt(variance)
            return self.source.gaussian(variance, size).clip(-most, most)

    wrapped_noise(patch, Cut)


@fault("every second draw above 4 sigma left out")
def _(patch: pytest.MonkeyPatch) -> None:
    right = noise._accepted

    def accepted(source: Any, scale: int, variance: int | None, count: int, doubt: float) -> np.ndarray:
        found = right(source, scale, variance, count, doubt)
        return found if variance is None else found[(np.abs(found) <= 4 * scale) | (found % 2 == 0)]

    patch.setattr(noise, "_accepted", accepted)


@fault("Laplace noise of rows cut off at 10 scales")
def _(patch: pytest.MonkeyPatch) -> None:
    right = noise.SystemNoise.laplace
    patch.setattr(
        noise.SystemNoise,
        "laplace",
        lambda self, scale, size: right(self, scale, size).clip(-10 * scale, 10 * scale),
    )


@fault("parts with a share below a fifth not charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._aside

    def aside(self: PrivateSession, share: float, *others: Any) -> PrivateSession:
        before = self._spent_units
        part = right(self, share, *others)
        if share < 0.2:
            self._spent_units = before
        return part

    patch.setattr(PrivateSession, "_aside", aside)


@fault("questions with a share below a fifth not charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._open

    def opened(self: PrivateSession, query: str, units: int, **named: Any) -> None:
        right(self, query, units, **named)
        if units < 0.2 * self._units:
            self._spent_units -= units

    patch.setattr(PrivateSession, "_open", opened)


@fault("tails and slack of the grid dropped")
def _(patch: pytest.MonkeyPatch) -> None:
    def cuts(slack: float, coordinates: int) -> Iterator[tuple[float, float]]:
        yield 0.0, -math.inf

    patch.setattr(accounting, "_cuts", cuts)
    forget = accounting.mu_of_budget.__wrapped__
    patch.setattr(accounting, "mu_of_budget", forget)


@fault("slack of the grid dropped from what is stated")
def _(patch: pytest.MonkeyPatch) -> None:
    right = accounting.epsilon_of
    patch.setattr(accounting, "epsilon_of", lambda *a, **named: right(*a, **{**named, "slack": 0.0}))


@fault("the best taken when it is far ahead")
def _(patch: pytest.MonkeyPatch) -> None:
    class Sure(Between):
        def choose(self, scores: np.ndarray, *, numerator: int, denominator: int) -> int:
            best, second = np.sort(scores)[[-1, -2]]
            if (int(best) - int(second)) * numerator > 8 * denominator:
                return int(scores.argmax())
            return self.source.choose(scores, numerator=numerator, denominator=denominator)

    wrapped_noise(patch, Sure)


@fault("candidates far behind left out by the sampler")
def _(patch: pytest.MonkeyPatch) -> None:
    right = noise._gaps
    patch.setattr(noise, "_gaps", lambda scores: np.where(right(scores) > 2**25, 2**61, right(scores)))


@fault("noise keyed by the number of the process")
def _(patch: pytest.MonkeyPatch) -> None:
    def renew(self: Any) -> None:
        self._process = (os.getpid(), noise._forks)
        key = hashlib.sha256(str(os.getpid()).encode()).digest()
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(os.urandom(16))).encryptor()

    patch.setattr(noise.CipherStream, "_renew", renew)


@fault("eight bytes of the operating system for a key")
def _(patch: pytest.MonkeyPatch) -> None:
    def renew(self: Any) -> None:
        self._process = (os.getpid(), noise._forks)
        key = hashlib.sha256(os.urandom(8)).digest()
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(os.urandom(16))).encryptor()

    patch.setattr(noise.CipherStream, "_renew", renew)


@fault("the parameter of a choice doubled from mu 2 on")
def _(patch: pytest.MonkeyPatch) -> None:
    right = selection.exponential_of_mu
    patch.setattr(selection, "exponential_of_mu", lambda mu: (2 if mu >= 2 else 1) * right(mu))


def all_edges() -> None:
    """Every layer at the edges, cheap ones first."""
    edges.t0_key()
    for budget in BUDGETS:
        edges.t0_allowance(budget)
    for world in SOME_WORLDS:
        for budget in reversed(BUDGETS):
            edges.t0_choices(budget, WORLDS[world])
            edges.t0_small_shares(budget, WORLDS[world])
    edges.t2_tail_masses()
    edges.t2_tails("epsilon 1", WORLDS["replace one"])
    edges.t2_tails_of_rows()
    edges.t2b_far_choices("epsilon 8", WORLDS["replace one"])


@pytest.mark.four_cases
@pytest.mark.parametrize("planted", FAULTS)
def test_a_planted_bug_at_an_edge_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[planted](monkeypatch)
    with pytest.raises((AssertionError, PrivacyError)):
        all_edges()
