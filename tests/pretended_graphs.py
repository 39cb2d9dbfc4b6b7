"""Graphs of a graphics card that are pretended: what is recorded runs later, on the same memory, and nothing else does.

Recording notes every operation with the tensors that it was given and gave, and leaves no trace in memory that was
there before. Replaying carries the operations out again on those tensors. So a number of the program that was read
while recording stays what it was then, and what waits for the card is refused, as on a card. Python does not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from pretended_card import CardTensor, launches_nothing
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from synth.models import repeated_steps

_ATEN = torch.ops.aten
_REFUSED = {_ATEN._local_scalar_dense, _ATEN.nonzero, _ATEN.masked_select, _ATEN._unique2, _ATEN.equal}


@dataclass
class Graphs:
    """What was done so far."""

    warmed: int = 0
    recorded: int = 0
    replayed: int = 0
    operations: int = 0


class _Recording(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[Any, Any, Any, Any]] = []
        self._own: set[int] = set()
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.Tensor)]
        cards = {isinstance(one, CardTensor) for one in tensors}
        if named.get("device") is not None:
            cards.add(torch.device(named["device"]).type != "cpu")
        crosses = operation.overloadpacket in (_ATEN.copy_, _ATEN._to_copy) and len(cards) > 1
        if operation.overloadpacket in _REFUSED or crosses:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        for place, said in enumerate(operation._schema.arguments):
            given = args[place] if place < len(args) else named.get(said.name)
            if said.alias_info is not None and said.alias_info.is_write and given is not None:
                written = [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
                self._before += [(_as_it_is(one), one.clone()) for one in written]
        # Later operations may change the shape of a tensor in place, though not what lies in its memory.
        given = tree_map(_as_it_is, (args, named))
        found = operation(*args, **named)
        self.noted.append((operation, *given, tree_map(_as_it_is, found)))
        return found

    def forget(self) -> None:
        """Put back what was there before: recording calculates nothing."""
        with torch.no_grad():
            for one, value in reversed(self._before):
                one.copy_(value)


def _as_it_is(one: Any) -> Any:
    return _ATEN.alias(one) if isinstance(one, torch.Tensor) else one


class _Recorder:
    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs

    def warm_up(self, work: Callable[[], None]) -> None:
        self._graphs.warmed += 1
        work()

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        recording = _Recording()
        try:
            with recording:
                work()
        finally:
            recording.forget()
        self._graphs.recorded += 1
        self._graphs.operations = len(recording.noted)
        return lambda: self._replay(recording.noted)

    @torch.no_grad()
    def _replay(self, noted: list[tuple[Any, Any, Any, Any]]) -> None:
        self._graphs.replayed += 1
        for operation, args, named, given in noted:
            if launches_nothing(operation):
                continue  # it made a tensor that is still there
            found = operation(*args, **named)
            for one, again in zip(tree_leaves(given), tree_leaves(found), strict=True):
                if isinstance(one, torch.Tensor) and one is not again:
                    one.copy_(again)


@contextmanager
def pretended_graphs(patch: pytest.MonkeyPatch) -> Iterator[Graphs]:
    """Record and replay repeated steps wherever they run; gives what was recorded."""
    graphs = Graphs()
    with patch.context() as patched:
        patched.setattr(repeated_steps, "_can_record", lambda device: True)
        patched.setattr(repeated_steps, "_Recorder", lambda: _Recorder(graphs))
        yield graphs
