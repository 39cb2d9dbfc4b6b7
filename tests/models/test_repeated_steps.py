"""The same step many times: as a loop, and recorded once and replayed; the same bits, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from pretended_card import pretended_card
from pretended_graphs import pretended_graphs

from synth.models.repeated_steps import RepeatedSteps

TOGETHER = 4


class Descent:
    """Least squares by gradient descent with noise and a rate of its own in every step."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.values = torch.zeros(3, device=device)
        self.matrix = torch.tensor([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 0.5]]).to(device)
        self.rates, self.noise = torch.zeros(TOGETHER, device=device), torch.zeros(TOGETHER, 3, device=device)
        self.losses = torch.zeros(TOGETHER, device=device)
        self.random = torch.Generator().manual_seed(5)
        self.asked: list[tuple[int, int]] = []

    def refill(self, first: int, count: int) -> None:
        self.asked.append((first, count))
        self.rates[:count].copy_(torch.tensor([0.3 / (1 + step) for step in range(first, first + count)]))
        self.noise[:count].copy_(0.1 * torch.randn(count, 3, generator=self.random))

    def body(self, place: int) -> None:
        learned = self.values.detach().requires_grad_(True)
        loss = (self.matrix @ learned - 1.0 + self.noise[place]).square().sum()
        (slope,) = torch.autograd.grad(loss, learned)
        self.values.sub_(slope * self.rates[place])
        self.losses[place].copy_(loss.detach())

    def steps(self, body: Callable[[int], None] | None = None) -> RepeatedSteps:
        return RepeatedSteps(
            body or self.body,
            device=self.device,
            together=TOGETHER,
            refill=self.refill,
            changed=(self.values, self.losses),
        )


def by_hand(count: int) -> Descent:
    descent = Descent()
    for start in range(0, count, TOGETHER):
        several = min(TOGETHER, count - start)
        descent.refill(start, several)
        for place in range(several):
            descent.body(place)
    return descent


def same(one: Descent, other: Descent) -> bool:
    return torch.equal(one.values.cpu(), other.values) and torch.equal(one.losses.cpu(), other.losses)


@pytest.mark.parametrize("count", [0, 3, 4, 11, 20])
def test_a_loop_runs_every_step_once(count: int) -> None:
    descent = Descent()
    steps = descent.steps()
    steps.run(0, count)
    assert same(descent, by_hand(count))
    assert not steps.is_recorded
    assert sum(several for _, several in descent.asked) == count


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_recorded_steps_are_those_of_the_loop_to_the_last_bit(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_card(monkeypatch), pretended_graphs(monkeypatch) as graphs:
        descent = Descent(device)
        steps = descent.steps()
        steps.run(0, 8)
        steps.run(8, 4)
        steps.run(12, 7)
        assert steps.is_recorded
        assert same(descent, by_hand(19))
    assert (graphs.warmed, graphs.recorded, graphs.replayed) == (1, 1, 3)
    assert descent.asked == [(0, 4), (4, 4), (8, 4), (12, 4), (16, 3)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_loop_goes_on_where_a_recording_fails(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_card(monkeypatch), pretended_graphs(monkeypatch) as graphs:
        descent = Descent(device)

        def waiting(place: int) -> None:
            descent.body(place)
            assert float(descent.losses[place]) >= 0.0  # waits for the card, after memory was changed

        steps = descent.steps(waiting)
        steps.run(0, 19)
        assert not steps.is_recorded
        assert same(descent, by_hand(19))
    assert (graphs.warmed, graphs.recorded, graphs.replayed) == (1, 0, 0)


def test_what_a_failed_recording_changed_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def warm_up(self, work: Callable[[], None]) -> None:
            work()

        def record(self, work: Callable[[], None]) -> Callable[[], None]:
            work()
            raise RuntimeError("the graph could not be made")

    with pretended_graphs(monkeypatch):
        monkeypatch.setattr("synth.models.repeated_steps._Recorder", Failing)
        descent = Descent()
        descent.steps().run(0, 12)
    assert same(descent, by_hand(12))


def test_a_mistake_in_a_step_is_not_taken_for_a_failed_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def mistaken(place: int) -> None:
        calls.append(place)
        if len(calls) > TOGETHER:
            raise ValueError("a mistake")

    with pretended_graphs(monkeypatch), pytest.raises(ValueError, match="a mistake"):
        Descent().steps(mistaken).run(0, 8)


def test_a_number_of_the_program_that_is_recorded_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the pretended graphs are for: the fault that a loop does not show."""

    def fitted() -> Descent:
        descent, number = Descent(), 0

        def body(place: int) -> None:
            nonlocal number
            number += 1
            descent.values.sub_(descent.values - 1.0, alpha=0.3 / number)

        descent.steps(body).run(0, 12)
        return descent

    looped = fitted()
    with pretended_graphs(monkeypatch) as graphs:
        assert not torch.equal(fitted().values, looped.values)
    assert graphs.replayed == 2
