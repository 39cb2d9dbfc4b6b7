"""Fits where the device is a card: what crosses between it and the processor, and how often; on a pretended card."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pretended_card import Traffic, pretended_card
from simulated import FAST, dependent_codes, schema_for, session, task

from synth import generators
from synth.generators import GENERATORS
from synth.progress import NullProgress

LOSSES_EVERY = 20
"""Steps between two losses that the owner is shown; each is one wait for the card."""


def traffic_of(name: str, patch: pytest.MonkeyPatch, device: str = "cuda", **options: int) -> Traffic:
    opened = session(schema_for(name), dependent_codes(100))
    with pretended_card(patch) as traffic:
        made = generators.make(name, task(schema_for(name), device=device), {**FAST[name], **options})
        made.fit(opened, NullProgress()).sample(20, seed=1)
    return traffic


@pytest.mark.parametrize(("name", "steps"), [("dp-merf", "steps"), ("dp-hp", "steps_per_epoch")])
def test_a_training_loop_uploads_nothing_and_downloads_nothing(
    name: str, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = FAST[name].get("epochs", 1)
    few, more = (traffic_of(name, monkeypatch, **{steps: number}) for number in (10, 20))
    assert few.operations < more.operations
    assert (more.uploads, more.downloads) == (few.uploads, few.downloads), more.by_name
    assert 0 <= more.waits - few.waits <= 10 * epochs // LOSSES_EVERY + 1


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_a_card_is_taken_where_it_pays_if_the_device_is_left_open(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = traffic_of(name, monkeypatch, device="auto")
    assert (traffic.operations > 0) == GENERATORS[name].on_card == (name in ("dp-merf", "dp-hp"))


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
