"""Which device a run computes on is said beforehand, and while it runs, as it will be."""

from __future__ import annotations

import pytest

from synth.estimators import describe
from synth.services.devices import device_words, working_device


@pytest.mark.parametrize(
    ("name", "asked", "gpu", "said"),
    [
        ("dp-merf", "cpu", True, "The run uses the CPU, as you chose."),
        ("dp-merf", "auto", False, "The run uses the CPU: this machine has no GPU."),
        ("dp-merf", "cuda", False, "would be refused before anything is spent"),
        ("dp-merf", "auto", True, "The GPU or the CPU does the training: whichever is predicted to be quicker"),
        ("dp-merf", "cuda", True, "The GPU fits `dp-merf`, as you chose."),
        ("kahm", "auto", True, "The GPU or the CPU does the affine hull machines: whichever"),
        ("kahm-classifier", "auto", True, "The GPU or the CPU does the affine hull machines: whichever"),
        ("dp-hp-adaptive", "auto", True, "The CPU fits `dp-hp-adaptive`. For mixtures of products"),
        ("independent", "auto", True, "The CPU fits `independent`, which a GPU would not speed up"),
        ("independent", "cuda", True, "The CPU fits `independent`, which a GPU would not speed up"),
        ("private-regression", "auto", True, "The CPU fits `private-regression`"),
    ],
)
def test_the_device_is_said_with_its_reason(name: str, asked: str, gpu: bool, said: str) -> None:
    assert said in device_words(describe(name), asked, gpu=gpu)


@pytest.mark.parametrize(
    ("name", "device", "said"),
    [
        ("dp-merf", "cpu", "CPU"),
        ("dp-merf", "cuda", "GPU"),
        ("dp-hp-adaptive", "cuda", "CPU and GPU"),
        ("independent", "cuda", "CPU"),
    ],
)
def test_a_run_is_said_to_be_where_its_work_is(name: str, device: str, said: str) -> None:
    assert working_device(describe(name), device) == said
