"""What dp-merf and dp-hp have in common: a row network, the label's classes, sampling and saving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ConfigError, InputError
from synth.generators.heads import Draw, HeadLayout
from synth.generators.neural import ClassBatch, RowNetwork, TrainingPlan, sample_rows, train
from synth.generators.places import LABEL_BINS, Places, places_of
from synth.generators.protocol import GeneratorTask, State
from synth.generators.sampling import check_rows, random_source
from synth.privacy.features import FeatureMap, OneHot, Product
from synth.progress import Progress
from synth.system.devices import resolved_device
from synth.system.threads import single_thread

__all__ = ["NeuralGenerator"]


_MOST_CLASSES = 1000
"""A training batch holds at least two rows of every class."""


class NeuralGenerator:
    """Base of the generators that train a row network on released mean embeddings.

    A subclass asks its questions in ``fit`` and calls ``_train`` with a loss made of the answers.
    """

    name: ClassVar[str]

    def __init__(self, task: GeneratorTask, options: Any) -> None:
        self._task = task
        self._options = options
        self._layout = HeadLayout(task.schema, task.label)
        self._label_places: Places | None = None
        if task.label is not None:
            label = task.schema.modelled_column(task.label)
            self._label_places = places_of(label, grid=LABEL_BINS, atoms=label.size)
        if self.classes > _MOST_CLASSES:
            raise ConfigError(
                f"The label '{task.label}' has {self.classes:,} classes; {self.name} learns at most {_MOST_CLASSES:,}. "
                "Group them, or run without a label."
            )
        self._probabilities: NDArray[np.float64] | None = None
        self._network: RowNetwork | None = None

    @property
    def _source(self) -> str:
        return f"generator {self.name}"

    @property
    def classes(self) -> int:
        """Number of classes of the label; 1 without a label."""
        return 1 if self._label_places is None else self._label_places.size

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw rows in float64 on one CPU thread; classes follow the fitted proportions to within one row."""
        check_rows(n_rows)
        if self._probabilities is None:
            raise InputError("This generator has not been fitted yet.")
        classes, codes = sample_rows(self._network, self._layout, self._probabilities, n_rows=n_rows, seed=seed)
        if self._label_places is not None and self._task.label is not None:
            uniforms = random_source(seed + 1).random(n_rows)
            position = self._task.schema.names.index(self._task.label)
            codes = np.insert(codes, position, self._label_places.codes(classes, uniforms), axis=1)
        return codes

    def state(self) -> State:
        """Return the class proportions and the network's weights."""
        if self._probabilities is None:
            raise InputError("This generator has not been fitted yet.")
        weights = {} if self._network is None else self._network.state_dict()
        arrays = {f"network.{name}": tensor.detach().cpu().numpy().copy() for name, tensor in weights.items()}
        return {"probabilities": self._probabilities.copy(), **arrays}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        generator._probabilities = state["probabilities"].astype(np.float64)
        network = generator._new_network()
        if network is not None:
            prefix = "network."
            network.load_state_dict(
                {
                    name.removeprefix(prefix): torch.from_numpy(array)
                    for name, array in state.items()
                    if name != "probabilities"
                }
            )
        generator._network = network
        return generator

    def _by_class(self, features: FeatureMap | None) -> FeatureMap:
        """Multiply features by the one-hot label, where there is one (Vinaroz 2022, eq. 14)."""
        if self._label_places is None or self._task.label is None:
            if features is None:
                raise InputError("There is nothing to learn: the table has no column beside the label.")
            return features
        label = OneHot(
            columns=(self._task.label,),
            bins=(self._label_places.bins,),
            sizes=(self._task.schema.modelled_column(self._task.label).size,),
        )
        return label if features is None else Product(factors=(features, label))

    def _new_network(self) -> RowNetwork | None:
        if not self._layout.outputs:
            return None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._task.seed)
            return RowNetwork(classes=self.classes, outputs=self._layout.outputs)

    def _train(
        self,
        loss_of: Callable[[ClassBatch, Draw, int], Tensor],
        *,
        steps: int,
        progress: Progress,
    ) -> None:
        device = torch.device(resolved_device(self._task.device))
        network = self._new_network()
        if network is None or self._probabilities is None:
            return
        progress.phase("Fitting")
        with single_thread():
            network.to(device)
            batch = ClassBatch(self._probabilities, batch_size=self._options.batch_size, device=device)
            plan = TrainingPlan(
                steps=steps, learning_rate=self._options.learning_rate, seed=self._task.seed, device=device
            )
            train(
                network,
                self._layout,
                batch,
                lambda draw, step: loss_of(batch, draw, step),
                plan=plan,
                progress=progress,
            )
        self._network = network.cpu()
