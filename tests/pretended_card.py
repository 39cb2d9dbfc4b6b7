"""A graphics card that is pretended: it refuses what a card refuses, and counts what costs time there.

Its tensors say that they lie on "cuda"; what they hold lies in the processor's memory, and the processor calculates. So
a fit runs on "cuda" where there is none: a tensor of the card beside one of the processor is refused, and so is
``numpy()``; each upload, each download and each wait for the card is counted. That a card gives the same numbers, or is
quick, is not shown by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from synth.system import machine

CARD_NAME = "NVIDIA pretended"

_STAND_IN = torch.device("meta")  # of all devices that torch itself knows, the one that needs no driver
_ATEN = torch.ops.aten
_WAITS = {
    _ATEN._local_scalar_dense,  # item(), float(), bool()
    _ATEN.nonzero,
    _ATEN.masked_select,
    _ATEN._unique2,
    _ATEN.unique_dim,
    _ATEN.bincount,
    _ATEN.equal,
}
"""Operations after which a program waits until the card has done all that it was asked before."""

_ONLY_ALLOCATES = {_ATEN.empty, _ATEN.empty_like, _ATEN.new_empty, _ATEN.empty_strided, _ATEN.new_empty_strided}
_VIEWS_UNSAID = {_ATEN._unsafe_view, _ATEN.unsafe_split, _ATEN.unsafe_chunk}
"""Views whose schema does not say that what they return shares memory with what they are given."""

_TAKES_INDEXES = {_ATEN.index, _ATEN.index_put, _ATEN.index_put_, _ATEN._index_put_impl_}


@dataclass
class Traffic:
    """What went between a program and the card.

    Operations are all that torch dispatches there. Those that only view or allocate memory launch nothing and are
    counted once more as ``views``.
    """

    operations: int = 0
    views: int = 0
    uploads: int = 0
    downloads: int = 0
    waits: int = 0
    by_name: Counter[str] = field(default_factory=Counter)

    def forget(self) -> None:
        """Count from nothing."""
        self.operations = self.views = self.uploads = self.downloads = self.waits = 0
        self.by_name.clear()

    @property
    def launches(self) -> int:
        """Operations that launch at least one kernel or one copy."""
        return self.operations - self.views

    def crossings(self) -> int:
        """All after which one side waits for the other."""
        return self.uploads + self.downloads + self.waits


class CardTensor(torch.Tensor):
    """A tensor that says it lies on the card."""

    here: torch.Tensor
    traffic: Traffic

    @staticmethod
    def __new__(cls, here: torch.Tensor, traffic: Traffic) -> CardTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=_STAND_IN,
        )
        made.here, made.traffic = here, traffic
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def device(self) -> torch.device:
        return torch.device("cuda")

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy.")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cards = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, CardTensor)]
        return _carried_out(cards[0].traffic, operation, args, kwargs or {})


def _carried_out(traffic: Traffic, operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    packet = operation.overloadpacket
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    cards = [one for one in tensors if isinstance(one, CardTensor)]
    assert len(cards) == sum(one.is_meta for one in tensors), "a tensor was made out of sight of the pretended card"
    asked = kwargs.get("device")
    on_card = bool(cards) if asked is None else torch.device(asked) in (_STAND_IN, torch.device("cuda"))
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if not cards and not on_card:
        return operation(*args, **kwargs)
    _count(traffic, packet, tensors, cards, on_card=on_card)
    traffic.views += launches_nothing(operation)
    found = operation(*tree_map(_held, args), **tree_map(_held, kwargs))
    if torch.Tag.inplace_view in operation.tags:  # squeeze_() and its like change the shape of what is given to them
        with no_dispatch():
            operation(*args, **kwargs)
    if not on_card or packet is _ATEN._local_scalar_dense:
        return found
    known = {id(one.here): one for one in cards}

    def put(one: Any) -> Any:
        return known.get(id(one)) if id(one) in known else CardTensor(one, traffic)

    return tree_map(lambda one: put(one) if type(one) is torch.Tensor else one, found)


@cache
def launches_nothing(operation: Any) -> bool:
    """Whether an operation only views or allocates memory: its schema says so for all but a few."""
    if operation.overloadpacket in _ONLY_ALLOCATES | _VIEWS_UNSAID or torch.Tag.inplace_view in operation.tags:
        return True
    returned = [one.alias_info for one in operation._schema.returns]
    return bool(returned) and all(one is not None and not one.is_write for one in returned)


def _held(one: Any) -> Any:
    return one.here if isinstance(one, CardTensor) else one


def _count(traffic: Traffic, packet: Any, tensors: list[Any], cards: list[Any], *, on_card: bool) -> None:
    traffic.operations += 1
    # Torch takes a single number from the processor as if it had been written into the program.
    strangers = [one for one in tensors if not isinstance(one, CardTensor) and one.dim()]
    crossing = ""
    if packet is _ATEN.copy_:
        crossing = "upload" if strangers and isinstance(tensors[0], CardTensor) else "download" if strangers else ""
    elif packet is _ATEN._to_copy:
        crossing = "upload" if on_card and not cards else "" if on_card else "download"
    elif packet in _TAKES_INDEXES and isinstance(tensors[0], CardTensor):
        places = [one for one in tensors[1:] if one.dtype in (torch.int64, torch.int32, torch.uint8, torch.bool)]
        if any(one.dtype in (torch.bool, torch.uint8) for one in places):
            crossing = "wait"
        elif strangers:
            crossing = "upload"
    elif packet in _WAITS:
        crossing = "wait"
    elif strangers and cards:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({packet})"
        )
    if crossing:
        setattr(traffic, crossing + "s", getattr(traffic, crossing + "s") + 1)
        traffic.by_name[f"{crossing}: {packet}"] += 1


class _OfFunctions(TorchFunctionMode):
    """Calls "cuda" by the name of the device that stands in for it, before torch looks for a driver."""

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.device:
            return function(*args, **(kwargs or {}))
        named = {name: _renamed(value) for name, value in (kwargs or {}).items()}
        if function in (torch.tensor, torch.as_tensor) and named.get("device") == _STAND_IN:
            # These make a tensor out of sight of what watches operations; so it is made here and then taken there.
            learned = named.pop("requires_grad", False)
            return function(*args, **{**named, "device": "cpu"}).to(_STAND_IN).requires_grad_(learned)
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[0], CardTensor):
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            args = (args[0], tuple(map(_uploaded, places)), *args[2:])
        return function(*map(_renamed, args), **named)


class _OfOperations(TorchDispatchMode):
    """Sees operations that have no tensor of the card yet: what makes one, and what takes one there."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _carried_out(self._traffic, operation, args, kwargs or {})


def _uploaded(place: Any) -> Any:
    """Take a list of places to the card, as torch does where a tensor of a card is indexed by a list or an array."""
    if not isinstance(place, list | np.ndarray):
        return place
    return torch.as_tensor(place, dtype=None if len(place) else torch.int64).to(_STAND_IN)


def _renamed(one: Any) -> Any:
    is_card = isinstance(one, str | torch.device) and str(one).split(":")[0] == "cuda"
    return _STAND_IN if is_card else one


@contextmanager
def pretended_card(patch: pytest.MonkeyPatch) -> Iterator[Traffic]:
    """Pretend that this machine has a card; gives what is counted on it."""
    traffic = Traffic()
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    with patch.context() as patched, _OfFunctions(), _OfOperations(traffic):
        patched.setattr(machine, "cuda_is_available", lambda: True)
        patched.setattr(torch.cuda, "get_device_name", lambda: CARD_NAME)
        patched.setattr(machine, "computes_exactly", cache(machine.computes_exactly.__wrapped__))
        machine.computes_exactly("cuda")  # tried once in a process, whatever is fitted
        traffic.forget()
        try:
            yield traffic
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(before)
