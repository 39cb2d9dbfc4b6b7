"""DP-HP: noisy mean embeddings of Hermite features train a neural network (Vinaroz 2022)."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ConfigError
from synth.generators.coarse_grid import column_weights
from synth.generators.hermite import CARD, DpHpOptions
from synth.generators.hermite.features import (
    ProductEmbeddings,
    SumEmbedding,
    hermite_features,
    rho_of_length_scale,
)
from synth.generators.neural import ClassBatch, Draw, NeuralGenerator, OutputHead
from synth.generators.protocol import Card, GeneratorTask
from synth.generators.sampling import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.column_maps import Constant, Lookup
from synth.privacy.feature_maps import FeatureMap, Stack
from synth.privacy.more.products import Product
from synth.progress import Progress
from synth.system.devices import resolved_device

__all__ = [
    "DpHp",
]

_MOST_PRODUCT_FEATURES = 2**20
"""Largest number of product features times classes in one question."""


class DpHp(NeuralGenerator):
    r"""Differentially private Hermite polynomials (Vinaroz 2022), corrected.

    The sum kernel's embedding (eq. 10) is released once; the product kernel's (eq. 8) once for each epoch, on
    ``prod_dimension`` columns drawn from the public seed; both times the one-hot label (eq. 14-15). A network is
    trained on eq. 16, :math:`\gamma \|\hat\mu^p - \mu^p\|^2 + \|\hat\mu^s - \mu^s\|^2`.

    Codes are scaled to [-1, 1] on the declared range; grids of more than 1024 places are grouped into public bins. A
    category enters by the order in which it is declared, as in the paper. Special values and missing of a number are no
    numbers: each gets a feature of its own, and norm and distance bounds stay as they are.

    Notes
    -----
    Differs from the published code:

    - length scale, ranges and categories are declared, never read from rows;
    - each class has its own product embedding (the code adds all rows to every class, which breaks its noise scale);
    - the session computes the sensitivity (sqrt 2 times one row for replace-one, not 2) and all releases are composed
      exactly, instead of halving epsilon and delta and adding up;
    - privacy noise never follows from a seed.

    Differs from the paper:

    - the class proportions come from a constant feature inside the sum release, not from a release of their own;
    - the product kernel has a length scale of its own: with the sum kernel's its low orders vanish away from the
      middle;
    - every product embedding is paid for, so it stays in the loss to the end, not for one epoch; columns are dealt like
      cards, so none is drawn twice before the others had their turn;
    - section 3.4 names the product's share first; as in the code, ``split`` is the share of the sum kernel;
    - the network has exact probabilities for categories and no batch statistics, and the distance is estimated without
      bias.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: DpHpOptions) -> None:
        super().__init__(task, options)
        heads = self._layout.heads
        self._prod_dimension = min(options.prod_dimension, len(heads))
        widest = max((_own_features(head) for head in heads), default=0) + options.order_product + 1
        features = widest**self._prod_dimension * self.classes
        if features > _MOST_PRODUCT_FEATURES:
            raise ConfigError(
                f"options 'order_product' {options.order_product} and 'prod_dimension' {options.prod_dimension} make "
                f"{features:,} product features; at most {_MOST_PRODUCT_FEATURES:,} are possible. Lower one of them."
            )

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Release the sum embedding and one product embedding for each epoch, then train on all of them."""
        resolved_device(self._task.device)  # refuses a missing device before anything is spent
        progress.phase("Measuring")
        total = max(session.rows.value, 1.0)
        features = self._sum_features()
        split = 1.0 if features is None else self._options.split
        release = session.noisy_sum(
            self._by_class(features), share=session.remaining_share * split, query="sum kernel", source=self._source
        )
        sum_answer = np.asarray(release.value, dtype=np.float64).reshape(-1, self.classes) / total
        self._probabilities = self._class_probabilities(sum_answer, features)
        if features is None:
            return self
        column_sets = self._drawn_columns()
        answers = []
        for epoch, columns in enumerate(column_sets):
            progress.step(epoch, len(column_sets))
            release = session.noisy_sum(
                self._by_class(Product(factors=tuple(self._product_lookup(self._layout.heads[d]) for d in columns))),
                share=session.remaining_share / (len(column_sets) - epoch),
                query=f"product kernel {epoch + 1}",
                source=self._source,
            )
            shape = release.value.shape if self._label_places is not None else (*release.value.shape, 1)
            answers.append(np.asarray(release.value, dtype=np.float64).reshape(shape) / total)
        self._fit_embeddings(features, sum_answer, column_sets, answers, progress)
        return self

    def _sum_features(self) -> Stack | None:
        heads, options = self._layout.heads, self._options
        if not heads:
            return None
        parts: list[FeatureMap] = [_lookup(head, options.order, options.length_scale) for head in heads]
        weights = column_weights(tuple(head.column for head in heads))
        if self._label_places is not None:
            # The constant counts the classes; it weighs as much as one column.
            columns = len(heads)
            parts.append(Constant())
            weights = (*(w * math.sqrt(columns / (columns + 1)) for w in weights), math.sqrt(1 / (columns + 1)))
        return Stack(parts=tuple(parts), weights=weights)

    def _product_lookup(self, head: OutputHead) -> Lookup:
        return _lookup(head, self._options.order_product, self._options.length_scale_product)

    def _class_probabilities(self, answer: NDArray[np.float64], features: Stack | None) -> NDArray[np.float64]:
        if self._label_places is None:
            return np.ones(1)
        return project_to_simplex(answer[-1] if features is None else answer[-1] / features.weights[-1])

    def _drawn_columns(self) -> list[tuple[int, ...]]:
        random = np.random.default_rng([self._task.seed, 1])
        drawn: list[tuple[int, ...]] = []
        deck: list[int] = []
        for _ in range(self._options.epochs):
            if len(deck) < self._prod_dimension:
                deck = [int(d) for d in random.permutation(len(self._layout.heads))]
            drawn.append(tuple(sorted(deck.pop() for _ in range(self._prod_dimension))))
        return drawn

    def _fit_embeddings(
        self,
        features: Stack,
        sum_answer: NDArray[np.float64],
        column_sets: list[tuple[int, ...]],
        answers: list[NDArray[np.float64]],
        progress: Progress,
    ) -> None:
        options, layout, device = self._options, self._layout, torch.device(resolved_device(self._task.device))
        tables = [
            weight * part.table
            for weight, part in zip(features.weights, features.parts, strict=True)
            if isinstance(part, Lookup)
        ]
        width = sum(table.shape[1] for table in tables)
        sums = SumEmbedding(layout, tables, target=sum_answer[:width], device=device)
        products = ProductEmbeddings(
            layout,
            [self._product_lookup(head).table for head in layout.heads],
            column_sets=column_sets,
            answers=answers,
            device=device,
        )

        def loss_of(batch: ClassBatch, draw: Draw, step: int) -> Tensor:
            loss = sums.squared_distance(batch, draw)
            return loss + options.gamma * products.squared_distance(batch, draw, step) if options.gamma else loss

        self._train(loss_of, steps=options.epochs * options.steps_per_epoch, progress=progress)


def _own_features(head: OutputHead) -> int:
    """Return how many codes have a feature of their own: special values and missing of a number, no categories."""
    return head.places.atoms if head.column.levels else 0


def _lookup(head: OutputHead, order: int, length_scale: float) -> Lookup:
    """Return a column's features: those of its own, then the Hermite features of its place in [-1, 1]."""
    own = _own_features(head)
    x = torch.from_numpy(2.0 * head.positions(ordered=head.places.size - own) - 1.0)
    hermite = hermite_features(x, order=order, rho=rho_of_length_scale(length_scale)).numpy()
    table = np.zeros((head.places.size, own + order + 1))
    table[: len(hermite), own:] = hermite
    table[len(hermite) :, :own] = np.eye(own)
    return Lookup(column=head.column.name, table=table, bins=head.places.bins)
