"""Fits where the device is a card: what crosses between it and the processor, and how often; on a pretended card.

Every generator and model of the registries runs here, so a new one that computes on a card is tested without a line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pretended_card import Traffic, pretended_card
from simulated import FAST, dependent_codes, schema_for, session, task

from synth.estimators import MODELS, describe, make, restore
from synth.generators import GENERATORS, Generator, PrivateModel
from synth.generators.adaptive import all_pairs, dp_hp_adaptive
from synth.generators.kahm import KahmOptions
from synth.generators.kahm.blocks import fabricated_blocks
from synth.generators.row_network import STEPS_TOGETHER
from synth.models.joint_model import MixtureFitter
from synth.models.marginals import NoisyMarginal
from synth.models.mixture_estimation import GroupedMarginals, fit_mixtures
from synth.progress import NullProgress
from synth.services.devices import device_choice
from synth.system.costs import Costs, CostTable, Work

CARDS = GENERATORS | MODELS
ON_A_CARD = sorted(name for name, card in CARDS.items() if card.on_card != "never")
QUICK = {**FAST, "kahm-classifier": {"rows": 60, "n": 5, "block": 30}}
"""Options of those that run here; a model that computes on a card has to be among them."""

DEAR, CHEAP = (Costs(operation=cost, single=cost, double=cost, byte=cost) for cost in (1e-6, 1e-9))

LOSSES_EVERY = 20
"""Steps between two losses of mixtures that the owner is shown; each is one wait for the card."""

BLOCKS_OF_A_BATCH = 16


def fitted_on(device: str, name: str, epsilon: float = 1.0, **options: object) -> PrivateModel:
    taken = replace(schema_for(name), protection="cell" if options.get("mode") == "cell" else "record")
    made = make(name, task(taken, device=device), {**QUICK[name], **options})
    return made.fit(session(taken, dependent_codes(100), epsilon=epsilon), NullProgress())


def traffic_of(name: str, patch: pytest.MonkeyPatch, device: str = "cuda", **options: Any) -> Traffic:
    with pretended_card(patch) as traffic:
        made = fitted_on(device, name, **options)
        if isinstance(made, Generator):
            made.sample(20, seed=1)
        assert made.device in ("cpu", "cuda")
        assert (made.device == "cuda") == (traffic.operations > 0), name
    return traffic


def work_of(name: str, **options: object) -> Work:
    made = make(name, task(schema_for(name)), {**QUICK.get(name, {}), **options})
    return made.work(100)


# Every fit


@pytest.mark.parametrize("name", sorted(CARDS))
def test_a_card_that_says_it_does_something_is_asked_what_it_did(name: str) -> None:
    overridden = describe(name).model.device is not PrivateModel.device
    assert overridden == (CARDS[name].on_card != "never") == bool(CARDS[name].card_work)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted({*GENERATORS, *ON_A_CARD}))
def test_every_fit_runs_on_a_card_or_leaves_it_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (traffic_of(name, monkeypatch).operations > 0) == (name in ON_A_CARD)


@pytest.mark.parametrize("name", sorted(CARDS))
def test_work_is_stated_where_a_card_could_do_it(name: str) -> None:
    assert (describe(name).model.work is PrivateModel.work) == (CARDS[name].on_card == "never")
    if CARDS[name].on_card != "never":
        stated = work_of(name)
        assert min(stated.steps, stated.operations, stated.single + stated.double, stated.bytes) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted({*GENERATORS, *ON_A_CARD}))
def test_a_card_is_taken_where_it_is_predicted_to_be_quicker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    card = CARDS[name]
    work = work_of(name)
    for quicker in ("cpu", "cuda"):
        table = CostTable("", *((CHEAP, DEAR) if quicker == "cpu" else (DEAR, CHEAP)))
        # Where the card is chosen, it does the work that suits it, as in a run.
        device = "auto" if device_choice(card, work, table).device == "cuda" else "cpu"
        taken = traffic_of(name, monkeypatch, device=device).operations > 0
        assert taken == (quicker == "cuda" and card.on_card == "whole"), quicker


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "steps"), [("dp-merf", "steps"), ("dp-hp", "steps_per_epoch")])
def test_the_stated_operations_of_a_step_are_about_those_that_a_card_gets(
    name: str, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, more = (traffic_of(name, monkeypatch, **{steps: number}).launches for number in (20, 40))
    stated = [work_of(name, **{steps: number}) for number in (20, 40)]
    counted = (more - few) / (stated[1].steps - stated[0].steps)
    assert 0.5 < counted / stated[0].operations < 2, f"{counted} are counted: state them in {name}'s work()"


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["rows", "cell"])
def test_noisy_rows_are_fabricated_on_a_card(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert traffic_of("kahm", monkeypatch, mode=mode).operations > 0


@pytest.mark.thorough
@pytest.mark.parametrize("dense", [False, True])
def test_a_mixture_is_fitted_on_a_card_where_the_device_is_left_open(
    dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(fit: Any) -> None:
        fit.is_dense = dense

    monkeypatch.setattr(dp_hp_adaptive._Fit, "look_at_pairs", look)
    monkeypatch.setattr(all_pairs, "_STEPS", 5)
    monkeypatch.setattr(all_pairs, "_MORE", ())
    monkeypatch.setattr(all_pairs, "_FITS", 2)
    monkeypatch.setattr(MixtureFitter, "first_steps", 2)
    monkeypatch.setattr(MixtureFitter, "last_steps", 5)
    options = {} if dense else {"model": "mixture"}
    assert traffic_of("dp-hp-adaptive", monkeypatch, device="auto", epsilon=50.0, **options).operations > 0


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted({*GENERATORS} & {*ON_A_CARD}))
def test_rows_drawn_on_a_card_are_those_of_the_processor_but_for_last_bits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fitted_on("cpu", name)
    assert isinstance(here, Generator)
    drawn = here.sample(2000, seed=3)
    with pretended_card(monkeypatch):
        there = restore(name, task(schema_for(name), device="cuda"), QUICK[name], here.state())
        assert isinstance(there, Generator)
        assert np.mean(there.sample(2000, seed=3) == drawn) > 0.999


# What crosses


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "steps"), [("dp-merf", "steps"), ("dp-hp", "steps_per_epoch")])
def test_a_training_loop_uploads_noise_for_many_steps_and_downloads_nothing(
    name: str, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = FAST[name].get("epochs", 1)
    few, more = (traffic_of(name, monkeypatch, **{steps: number}) for number in (10, 20))
    assert few.operations < more.operations
    assert more.downloads == few.downloads, more.by_name
    assert 0 <= more.uploads - few.uploads <= 10 * epochs // STEPS_TOGETHER + 1, more.by_name
    assert 0 <= more.waits - few.waits <= 10 * epochs // STEPS_TOGETHER + 1


@pytest.mark.thorough
def test_mixtures_move_nothing_but_chi_squares_while_they_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    sizes = (3, 4, 3)
    measured = [NoisyMarginal((d,), random.random(size) * 100, 2.0) for d, size in enumerate(sizes)]
    measured += [NoisyMarginal((0, 1), random.random((3, 4)) * 30, 3.0), NoisyMarginal((0, 1, 2), np.ones(sizes), 3.0)]
    halves = tuple(np.arange(size, dtype=np.int32) // 2 for size in sizes)
    grouped = GroupedMarginals(halves, (NoisyMarginal((1, 2), random.random((2, 2)) * 50, 3.0),))

    def fit(steps: int) -> Traffic:
        with pretended_card(monkeypatch) as traffic:
            fit_mixtures(
                sizes,
                measured,
                100.0,
                components=5,
                steps=steps,
                grouped=grouped,
                device="cuda",
                seeds=(0, 1),
                report=lambda step, chi_squares: None,
            )
        return traffic

    few, more = fit(20), fit(60)
    assert few.operations < more.operations
    assert more.uploads == few.uploads, more.by_name
    # Chi-squares of all of them, one read now and then.
    assert (more.downloads - few.downloads, more.waits - few.waits) == (40 // LOSSES_EVERY, 0), more.by_name


@pytest.mark.thorough
def test_blocks_go_to_a_card_and_come_back_once_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).random((96 * 12, 6))
    parts = [(None, part) for part in np.array_split(np.arange(len(rows)), 96)]

    def fabricate(blocks: int) -> Traffic:
        with pretended_card(monkeypatch) as traffic:
            made = list(fabricated_blocks(rows, parts[:blocks], KahmOptions(n=3, block=12), device="cuda"))
        assert [len(one) for one, _ in made] == [12] * blocks
        return traffic

    few, more = fabricate(BLOCKS_OF_A_BATCH), fabricate(6 * BLOCKS_OF_A_BATCH)
    assert more.uploads == few.uploads, more.by_name
    assert more.downloads - few.downloads == 5, more.by_name  # what was found, once for every batch
    waits = (more.waits - few.waits) / 5
    assert waits < BLOCKS_OF_A_BATCH, f"{waits} waits for a batch of {BLOCKS_OF_A_BATCH} blocks"


@pytest.mark.thorough
def test_a_card_makes_of_blocks_what_the_processor_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    rows = random.random((200, 30))
    parts = [(7, part) for part in np.array_split(random.permutation(200), 9)]
    here = list(fabricated_blocks(rows, parts, KahmOptions(n=4, block=30), device="cpu"))
    with pretended_card(monkeypatch):
        there = list(fabricated_blocks(rows, parts, KahmOptions(n=4, block=30), device="cuda"))
    for (made, block), (again, same) in zip(here, there, strict=True):
        np.testing.assert_allclose(again, made, atol=1e-9)
        assert (same.label, same.rows, same.n_effective, same.guarded) == (7, block.rows, 4, block.guarded)
        assert same.regularisers == pytest.approx(block.regularisers, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["dp-hp", "dp-merf"])
def test_many_rows_are_drawn_in_one_go(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = fitted_on("cpu", name).state()

    def draw(rows: int) -> Traffic:
        with pretended_card(monkeypatch) as traffic:
            restored = restore(name, task(schema_for(name), device="cuda"), QUICK[name], state)
            assert isinstance(restored, Generator)
            restored.sample(rows, seed=1)
        return traffic

    few, more = draw(20), draw(30_000)
    assert (more.uploads, more.downloads, more.waits) == (few.uploads, few.downloads, few.waits)


# The pretended card itself


def test_the_pretended_card_refuses_what_a_card_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_card(monkeypatch) as traffic:
        there, here = torch.ones(3, device="cuda"), torch.ones(3)
        assert there.device.type == "cuda"
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(RuntimeError, match="same device"):
            torch.mm(there[None], here[:, None])
        for refused in (there.numpy, lambda: np.asarray(there)):
            with pytest.raises(TypeError, match="to numpy"):
                refused()
        assert (there + 2.0 * here.sum()).cpu().tolist() == [7.0] * 3  # a single number may come along
    assert traffic.crossings() == 1


def test_the_pretended_card_counts_what_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_card(monkeypatch) as traffic:
        table = torch.arange(4.0).to("cuda")
        assert (traffic.uploads, traffic.downloads, traffic.waits) == (1, 0, 0)
        table[[0, 2]] + table[np.array([1, 3])] + table[torch.tensor([0, 1])]
        assert (traffic.uploads, traffic.waits) == (4, 0)
        assert table[table > 1].sum().item() == 5.0
        assert traffic.waits == 2
        table.tolist()
        assert traffic.downloads == 1
