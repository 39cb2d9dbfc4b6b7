"""A device computes sums over private rows only where its float64 is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from synth.errors import ConfigError
from synth.system import machine


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    tried = machine.computes_exactly
    tried.cache_clear()
    yield
    tried.cache_clear()


def fewer_bits(found: torch.Tensor, bits: int) -> torch.Tensor:
    mantissa, exponent = torch.frexp(found)
    return torch.ldexp((mantissa * 2.0**bits).round(), exponent - bits)


INEXACT: dict[str, tuple[str, Callable[..., torch.Tensor]]] = {
    "products in float32": ("__matmul__", lambda one, other: torch.mm(one.float(), other.float()).double()),
    "products with a bit too few": ("__matmul__", lambda one, other: fewer_bits(torch.mm(one, other), 50)),
    "quotients by reciprocals": ("__truediv__", lambda one, other: torch.mul(one, other.reciprocal())),
}


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))],
)
def test_devices_compute_exactly(device: str) -> None:
    assert machine.computes_exactly(device)


@pytest.mark.parametrize("planted", INEXACT)
def test_a_device_that_does_not_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = INEXACT[planted]
    monkeypatch.setattr(torch.Tensor, name, wrong)
    assert not machine.computes_exactly("cpu")


@pytest.mark.parametrize("exact", [True, False])
def test_an_inexact_device_is_refused_or_left_alone(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # The one thing that is made up: a CUDA device, or a faulty one, where the machine has none.
    monkeypatch.setattr(machine, "cuda_is_available", lambda: True)
    monkeypatch.setattr(machine, "computes_exactly", lambda device: exact)
    assert machine.resolved_device("auto") == ("cuda" if exact else "cpu")
    assert machine.resolved_device("cpu") == "cpu"
    if exact:
        assert machine.resolved_device("cuda") == "cuda"
    else:
        with pytest.raises(ConfigError, match="does not compute exactly"):
            machine.resolved_device("cuda")


def test_a_device_that_is_missing_or_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cuda_is_available", lambda: False)
    assert machine.resolved_device("auto") == "cpu"
    with pytest.raises(ConfigError, match="no CUDA device was found"):
        machine.resolved_device("cuda")
    with pytest.raises(ConfigError, match="auto, cpu or cuda"):
        machine.resolved_device("tpu")
