"""Generators that draw rows from a network, and those among them that train it on released mean embeddings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ConfigError, InputError
from synth.generators.coarse_grid import LABEL_BINS, CoarseGrid, coarse_grid
from synth.generators.protocol import Generator, GeneratorTask, State
from synth.generators.row_network import HIDDEN, LATENT, ClassBatch, Distance, OutputHeads, RowNetwork, train
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import FeatureMap, OneHot
from synth.privacy.more.products import Product
from synth.progress import Progress
from synth.system.costs import Work
from synth.system.machine import resolved_device, single_thread

__all__ = ["NetworkGenerator", "NeuralGenerator", "Released"]

Released = tuple[NDArray[np.float64], ...]
"""Answers as means of rows, which the networks are trained on."""

SAMPLE_BATCH = 8192

_SAMPLED = 2**27
"""Outputs of a layer that a card holds at a time, in numbers: 1 GB, or one batch."""

_MOST_TOGETHER, _TOGETHER = 256, 2**31
"""Most fits that train side by side, and the most numbers that they hold: 8 GB of a card."""

_MOST_CLASSES = 1000
"""Maximum number of classes: a training batch has at least two rows of each."""


def _randomness(
    layout: OutputHeads, n_rows: int, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw latent noise, shape (numbers, rows), and uniforms, shape (2, heads, rows), batch by batch."""
    noise = np.empty((LATENT + len(layout.continuous), n_rows))
    uniforms = np.empty((2, len(layout.heads), n_rows))
    for start in range(0, n_rows, SAMPLE_BATCH):
        rows = slice(start, min(start + SAMPLE_BATCH, n_rows))
        noise[:, rows] = random.standard_normal(noise[:, rows].shape)
        uniforms[:, :, rows] = random.random(uniforms[:, :, rows].shape)
    return noise, uniforms


class NetworkGenerator(Generator):
    """Base class of generators that draw rows from a row network; a subclass says how it is trained."""

    def __init__(self, task: GeneratorTask, options: Any) -> None:
        self._task = task
        self._options = options
        self._layout = OutputHeads(task.schema, task.label)
        self._label_places: CoarseGrid | None = None
        if task.label is not None:
            label = task.schema.modelled_column(task.label)
            self._label_places = coarse_grid(label, grid=LABEL_BINS, atoms=label.size)
        if self.classes > _MOST_CLASSES:
            raise ConfigError(
                f"The label '{task.label}' has {self.classes:,} classes; {self.card.name} learns at most "
                f"{_MOST_CLASSES:,}. Group them, or run without a label."
            )
        self.probabilities: NDArray[np.float64] | None = None
        self.network: RowNetwork | None = None

    def _require_at_most(self, value: int, most: int, *, does: str, smaller: str) -> None:
        """Refuse a value above what the declared table has; ``most`` is 0 where nothing is asked."""
        if most and value > most:
            raise ConfigError(
                f"{self.card.name} {does}, and the table has at most {most:,}. Choose a smaller {smaller} (4 Generate)."
            )

    @property
    def _source(self) -> str:
        return f"generator {self.card.name}"

    @property
    def device(self) -> str:
        """The device that trains the network and draws from it, "cpu" or "cuda"."""
        return resolved_device(self._task.device)

    def _work_of_network(self, *, steps: int, operations: float) -> Work:
        """Return the work of the network in each training step, and of the operations of the whole step.

        A product costs as much again for each of its two gradients. A number of a layer is read or written some 15
        times in a step, an output some 26 times.
        """
        rows, outputs = self._options.batch_size, self._layout.outputs
        weights = (LATENT + self.classes) * HIDDEN + HIDDEN**2 + (HIDDEN + self.classes) * outputs
        numbers = rows * (15 * (LATENT + 2 * HIDDEN) + 26 * outputs)
        return Work(steps=steps, operations=operations, single=6.0 * rows * weights, bytes=4.0 * numbers)

    @property
    def classes(self) -> int:
        """Number of classes of the label; 1 without a label."""
        return 1 if self._label_places is None else self._label_places.size

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw rows in float64, on one CPU thread or on a card.

        Every class gets its expected number of rows to within one. Random numbers are drawn on the processor, in the
        same order for every device; a card receives many batches at a time.
        """
        check_rows(n_rows)
        if self.probabilities is None:
            raise InputError("This generator has not been fitted yet.")
        layout, device = self._layout, self.device
        random = random_source(seed)
        counts = rounded_counts(self.probabilities, n_rows, random)
        classes = random.permutation(np.repeat(np.arange(len(counts)), counts))
        weights = None if self.network is None else self.network.weights.to(device).double()
        network = None if weights is None else RowNetwork(weights, classes=len(counts), outputs=layout.outputs)
        widest = max(layout.outputs, HIDDEN)
        together = SAMPLE_BATCH * (1 if device == "cpu" else max(1, _SAMPLED // (SAMPLE_BATCH * widest)))
        parts = []
        with single_thread(), torch.no_grad():
            for start in range(0, n_rows, together):
                here = classes[start : start + together]
                noise, uniforms = _randomness(layout, len(here), random)
                latent = torch.from_numpy(noise).to(device)
                one_hot = torch.nn.functional.one_hot(torch.from_numpy(here).to(device), len(counts)).double()
                outputs = latent[:0] if network is None else network.outputs(latent[:LATENT], one_hot.T)
                draw = layout.new_draw(outputs)
                layout.draw(outputs, latent[LATENT:], draw)
                picked = layout.picked(draw, torch.from_numpy(uniforms[0]).to(device))
                parts.append(layout.codes(picked.cpu().numpy(), uniforms[1]))
        codes = np.concatenate(parts)
        if self._label_places is not None and self._task.label is not None:
            uniforms = random_source(seed + 1).random(n_rows)
            position = self._task.schema.names.index(self._task.label)
            codes = np.insert(codes, position, self._label_places.codes(classes, uniforms), axis=1)
        return codes

    def state(self) -> State:
        """Return the class proportions and the network's weights."""
        if self.probabilities is None:
            raise InputError("This generator has not been fitted yet.")
        weights = {} if self.network is None else {"weights": self.network.weights.numpy().copy()}
        return {"probabilities": self.probabilities.copy(), **weights}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild a fitted generator; it draws the same bytes as before."""
        generator = cls(task, options)
        generator.probabilities = state["probabilities"].astype(np.float64)
        outputs, classes = generator._layout.outputs, generator.classes
        if outputs:
            weights = torch.from_numpy(np.asarray(state.get("weights", ()), dtype=np.float32))
            if weights.shape != (RowNetwork.size(classes=classes, outputs=outputs),):
                raise InputError("The network in this file is not one for the declared columns.")
            generator.network = RowNetwork(weights, classes=classes, outputs=outputs)
        return generator


class NeuralGenerator(NetworkGenerator):
    """Base class of generators that train a row network on released mean embeddings.

    A subclass asks its questions in ``ask`` and says in ``distance`` how far a batch is from the answers.
    """

    @abstractmethod
    def ask(self, session: AnswerSource, progress: Progress) -> Released | None:
        """Spend the budget of a session, set the class probabilities, and return what else to train on, if anything."""

    @abstractmethod
    def distance(self, released: Released, batch: ClassBatch) -> Distance:
        """Return the distance of batches from what was released; of several fits, all stacked along a first axis."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Training steps."""

    @property
    @abstractmethod
    def held(self) -> int:
        """About how many numbers a fit holds, besides the network's own."""

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask for mean embeddings and train the network on them."""
        self.fit_together([self], [session], progress)
        return self

    @property
    def fits_together(self) -> int:
        """How many fits pay side by side: on a processor one keeps all caches busy, on a card many fill it."""
        if self.device == "cpu":
            return 1
        held = self._options.batch_size * (6 * HIDDEN + 4 * self._layout.outputs) + self.held
        return max(1, min(_MOST_TOGETHER, _TOGETHER // int(held)))

    @classmethod
    def fit_together(cls, models: Sequence[Self], sessions: Sequence[AnswerSource], progress: Progress) -> None:
        """Fit models of one task and the same options side by side, each to the answers of its own session."""
        _ = models[0].device  # refuses a missing device before anything is spent
        progress.phase("Measuring")
        released = [model.ask(session, progress) for model, session in zip(models, sessions, strict=True)]
        known = [one for one in released if one is not None]
        if known:
            models[0].train(models, known, progress)

    def _by_class(self, features: FeatureMap | None) -> FeatureMap:
        """Multiply features by the one-hot label, if there is one (Vinaroz 2022, eq. 14)."""
        if self._label_places is None or self._task.label is None:
            if features is None:
                raise InputError("There is nothing to learn: the table has no column other than the label.")
            return features
        label = OneHot(
            columns=(self._task.label,),
            bins=(self._label_places.bins,),
            sizes=(self._task.schema.modelled_column(self._task.label).size,),
        )
        return label if features is None else Product(factors=(features, label))

    def train(self, models: Sequence[Self], released: Sequence[Released], progress: Progress) -> None:
        """Fit networks to released embeddings, those of several models like this one side by side.

        Parameters
        ----------
        models : sequence of Self
            Of one task and the same options.
        released : sequence of tuples of arrays
            What each of them asked; nothing else is learned from.
        progress : Progress
            Receives steps and losses; may stop the training.
        """
        layout, options, classes, device = self._layout, self._options, self.classes, torch.device(self.device)
        if not layout.outputs:
            return
        progress.phase("Fitting")
        several = (len(models),) if len(models) > 1 else ()
        answers = tuple(np.stack(parts) if several else parts[0] for parts in zip(*released, strict=True))
        probabilities = np.stack([model.probabilities for model in models if model.probabilities is not None])

        def told(step: int, losses: Tensor) -> None:
            progress.check_cancelled()
            progress.step(step + 1, self.steps)
            progress.loss(float(losses.mean()))

        with single_thread():
            drawn = RowNetwork.drawn(layout, classes=classes, seed=self._task.seed).weights.to(device)
            network = RowNetwork(drawn.expand(*several, -1).clone(), classes=classes, outputs=layout.outputs)
            batch = ClassBatch(
                probabilities if several else probabilities[0], batch_size=options.batch_size, device=device
            )
            train(
                layout,
                network,
                batch,
                self.distance(answers, batch),
                steps=self.steps,
                rate=options.learning_rate,
                seed=self._task.seed,
                report=told,
            )
        for model, weights in zip(models, network.weights.cpu().view(len(models), -1), strict=True):
            model.network = RowNetwork(weights.clone(), classes=classes, outputs=layout.outputs)
