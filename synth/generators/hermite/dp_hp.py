r"""DP-HP: noisy mean embeddings of Hermite features train a neural network (Vinaroz 2022).

Mehler's formula writes the one-dimensional Gaussian kernel as a sum over orders (sections 3.1-3.2 and appendix E),

.. math:: \exp\Bigl(-\frac{\rho}{1-\rho^2}(x-y)^2\Bigr) = \sum_{c \ge 0} \phi_c(x)\,\phi_c(y),

with features whose size falls like :math:`\rho^{c/2}`. Cutting the sum after order C is a projection of the full
feature vector, which has norm 1. So every vector made here has norm at most 1, and two of them are at most
:math:`\sqrt 2` apart: :math:`|\phi(x)-\phi(y)|^2 \le 2-2k(x,y) \le 2`. Both bounds survive the sum and the product over
columns.

The two parts of the loss, ``SumEmbedding`` and ``ProductEmbeddings``, compare released means of such features with
their expectation over drawn rows, which is exact in the probabilities and differentiable in the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ConfigError
from synth.generators.hermite import CARD, DpHpOptions
from synth.generators.neural import ClassBatch, Draw, NeuralGenerator, OutputHead, OutputHeads
from synth.generators.protocol import Card, GeneratorTask
from synth.generators.stacked import column_weights
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import Constant, FeatureMap, Stack
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.progress import Progress

__all__ = ["DpHp", "ExpectedTables", "ProductEmbeddings", "SumEmbedding", "hermite_features", "rho_of_length_scale"]

COLUMNS_TOGETHER, FEATURES = 5, 2**17
"""Default number of columns in a product kernel, and the most features that they may make by default."""

TURNS, MOST_EPOCHS = 2, 30
"""How often every column is drawn by default, and the most epochs by default."""

STEPS = 1500
"""Default number of training steps."""

_MOST_PRODUCT_FEATURES = 2**22
"""Largest number of product features times classes in one question; the paper's own 14^5 for two classes are 2^20."""

_MOST_RELEASED = 2**25
"""Largest number of them in the questions of all epochs together, all of which a bundle contains."""

_MOST_NUMBERS = 4_000_000
"""Most numbers in the outer products of one training step; if not all embeddings fit, they take turns."""


class DpHp(NeuralGenerator):
    r"""Differentially private Hermite polynomials (Vinaroz 2022), corrected.

    The sum kernel's embedding (eq. 10) is released once; the product kernel's (eq. 8) once for each epoch, on
    ``prod_dimension`` columns drawn from the public seed; both times the one-hot label (eq. 14-15). A network is
    trained on eq. 16, :math:`\gamma \|\hat\mu^p - \mu^p\|^2 + \|\hat\mu^s - \mu^s\|^2`.

    Codes are scaled to [-1, 1] on the declared range; grids of more than 1024 levels are grouped into public bins. A
    category is encoded by its position in the declared order, as in the paper. Special values and missing cells of a
    number are not numbers: each gets a feature of its own, and the bounds on norm and distance do not change.

    Notes
    -----
    Differs from the published code:

    - length scale, ranges and categories are declared, never read from rows;
    - each class has its own product embedding (the code adds all rows to every class, which breaks its noise scale);
    - the session computes the sensitivity (sqrt 2 times one row for replace-one, not 2) and all releases are composed
      exactly, instead of halving epsilon and delta and adding up;
    - privacy noise never comes from a seed.

    Differs from the paper:

    - the class proportions come from a constant feature inside the sum release, not from a release of their own;
    - the product kernel has a length scale of its own: with the sum kernel's its low orders vanish away from the
      middle;
    - every product embedding is paid for, so it stays in the loss to the end, not for one epoch; columns are dealt like
      cards, so none is drawn twice before all others have been drawn;
    - section 3.4 gives the product's share first; as in the code, ``split`` is the share of the sum kernel;
    - the network has exact probabilities for categories and no batch statistics, and the distance is estimated without
      bias.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: DpHpOptions) -> None:
        super().__init__(task, options)
        heads = self._layout.heads
        widest = max((self._width(head, options.order_product) for head in heads), default=1)
        self._prod_dimension = min(options.prod_dimension or self._columns_together(widest), len(heads))
        turns = math.ceil(TURNS * len(heads) / max(self._prod_dimension, 1))
        self._epochs = options.epochs or min(max(turns, 1), MOST_EPOCHS)
        features = widest**self._prod_dimension * self.classes
        if features > _MOST_PRODUCT_FEATURES:
            raise ConfigError(
                f"options 'order_product' {options.order_product} and 'prod_dimension' {options.prod_dimension} make "
                f"{features:,} product features; at most {_MOST_PRODUCT_FEATURES:,} are allowed. Lower one of them."
            )
        if features * self._epochs > _MOST_RELEASED:
            raise ConfigError(
                f"{self._epochs:,} epochs of {features:,} product features each are {features * self._epochs:,} "
                f"released numbers; at most {_MOST_RELEASED:,} are allowed. Lower 'epochs', 'order_product' or "
                "'prod_dimension'."
            )

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Release the sum embedding and one product embedding for each epoch, then train on all of them."""
        _ = self.device  # refuses a missing device before anything is spent
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
        parts: list[FeatureMap] = [self._lookup(head, options.order, options.length_scale) for head in heads]
        weights = column_weights(tuple(head.column for head in heads))
        if self._label_places is not None:
            # The constant counts the classes; it has the weight of one column.
            columns = len(heads)
            parts.append(Constant())
            weights = (*(w * math.sqrt(columns / (columns + 1)) for w in weights), math.sqrt(1 / (columns + 1)))
        return Stack(parts=tuple(parts), weights=weights)

    def _product_lookup(self, head: OutputHead) -> Lookup:
        return self._lookup(head, self._options.order_product, self._options.length_scale_product)

    def _lookup(self, head: OutputHead, order: int, length_scale: float) -> Lookup:
        """Return a column's features: those of special values, then the Hermite features of its position in [-1, 1]."""
        own, width = _own_features(head), self._width(head, order)
        x = torch.from_numpy(2.0 * head.positions(ordered=head.grid.size - own) - 1.0)
        hermite = hermite_features(x, order=width - own - 1, rho=rho_of_length_scale(length_scale)).numpy()
        table = np.zeros((head.grid.size, width))
        table[: len(hermite), own:] = hermite
        table[len(hermite) :, :own] = np.eye(own)
        return Lookup(column=head.column.name, table=table, bins=head.grid.bins)

    def _columns_together(self, widest: int) -> int:
        """Return the default number of columns in a product kernel."""
        fitting = (k for k in range(COLUMNS_TOGETHER, 1, -1) if widest**k * self.classes <= FEATURES)
        return next(fitting, 1)

    def _width(self, head: OutputHead, order: int) -> int:
        """Return how many features a column has."""
        own = _own_features(head)
        if self._options.orders == "by column":
            order = min(order, head.grid.size - own - 1)
        return own + order + 1

    def _class_probabilities(self, answer: NDArray[np.float64], features: Stack | None) -> NDArray[np.float64]:
        if self._label_places is None:
            return np.ones(1)
        return project_to_simplex(answer[-1] if features is None else answer[-1] / features.weights[-1])

    def _drawn_columns(self) -> list[tuple[int, ...]]:
        random = np.random.default_rng([self._task.seed, 1])
        drawn: list[tuple[int, ...]] = []
        deck: list[int] = []
        for _ in range(self._epochs):
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
        options, layout, device = self._options, self._layout, torch.device(self.device)
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

        steps = self._epochs * (options.steps_per_epoch or math.ceil(STEPS / self._epochs))
        self._train(loss_of, steps=steps, progress=progress)


def _own_features(head: OutputHead) -> int:
    """Return how many codes have a feature of their own: special values and missing cells of a number."""
    return head.grid.atoms if head.column.levels else 0


def rho_of_length_scale(length_scale: float) -> float:
    r"""Return the Mehler constant of a length scale (Vinaroz 2022, footnote 4).

    Solves :math:`\frac{1}{2 l^2} = \frac{\rho}{1-\rho^2}` for :math:`\rho \in (0, 1)`, where l is ``length_scale``.

    Parameters
    ----------
    length_scale : float
        Positive, in the units of the data.

    Notes
    -----
    Differs from the published code, which evaluates :math:`-l^2 + \sqrt{l^4 + 1}`: that cancels to exactly 0 once
    :math:`l^2 \ge 10^8`, and every feature above order 0 vanishes. Here the same root is written without a difference,
    :math:`1 / (l^2 + \sqrt{l^4 + 1})`.
    """
    squared = length_scale * length_scale
    return 1.0 / (squared + math.hypot(squared, 1.0))


def hermite_features(x: Tensor, *, order: int, rho: float) -> Tensor:
    r"""Evaluate the weighted Hermite features of numbers (Vinaroz 2022, eq. 6 and appendix E).

    .. math::
        \phi_0(x) &= (1-\rho^2)^{1/4} e^{-\rho x^2 / (1+\rho)}, \qquad \phi_1(x) = \sqrt{2\rho}\, x\, \phi_0(x), \\
        \phi_{c+1}(x) &= \sqrt{\tfrac{2\rho}{c+1}}\, x\, \phi_c(x) - \rho \sqrt{\tfrac{c}{c+1}}\, \phi_{c-1}(x).

    Parameters
    ----------
    x : Tensor of shape (...), floating point
        Numbers, in the units of the length scale that ``rho`` came from.
    order : int
        Highest order C, at least 0.
    rho : float
        Mehler constant in (0, 1), see :func:`rho_of_length_scale`.

    Returns
    -------
    Tensor of shape (..., order + 1)
        Each vector has L2 norm at most 1.

    Notes
    -----
    The unweighted polynomials, which overflow, are never formed: against 80-digit arithmetic the recursion in float64
    is right to 4e-15 up to order 200 and ``|x|`` 20. Where ``|x|`` is much larger than the length scale the mass is
    near order :math:`x^2/l^2`, and cutting earlier loses it: centre the numbers first.
    """
    current = (1.0 - rho * rho) ** 0.25 * torch.exp(-(rho / (1.0 + rho)) * x * x)
    features = [current]
    previous = torch.zeros_like(current)
    for c in range(order):
        following = math.sqrt(2.0 * rho / (c + 1)) * x * current - rho * math.sqrt(c / (c + 1)) * previous
        features.append(following)
        previous, current = current, following
    return torch.stack(features, dim=-1)


def _outer(factors: Sequence[Tensor], *, like: Tensor) -> Tensor:
    """Return the outer products of the rows of some columns' features, first factor slowest; ones without any."""
    if not factors:
        return torch.ones_like(like[:, :, :1])
    product = factors[0]
    for factor in factors[1:]:
        product = (product.unsqueeze(3) * factor.unsqueeze(2)).flatten(start_dim=2)
    return product


class ExpectedTables:
    """Expected rows of one lookup table for every column.

    Between two levels of a long grid the table is interpolated, so a value has a gradient, and a value on a level has
    exactly the features that the private rows were summed with.

    Parameters
    ----------
    layout : OutputHeads
    tables : sequence of arrays of shape (places of column d, width of column d), float64
    device : torch.device
    """

    def __init__(self, layout: OutputHeads, tables: Sequence[NDArray[np.float64]], device: torch.device) -> None:
        self._heads = layout.heads
        self._value_of = {d: k for k, d in enumerate(layout.continuous)}
        self._tables = [torch.tensor(table, dtype=torch.float32, device=device) for table in tables]

    def __call__(self, draw: Draw) -> list[Tensor]:
        """Return the expected features of every column, each of shape (batch, width of column d)."""
        return [self.column(d, draw) for d in range(len(self._heads))]

    def column(self, d: int, draw: Draw) -> Tensor:
        """Return the expected features of one column, shape (batch, width of column d)."""
        choices, table = draw.choices[d], self._tables[d]
        if d not in self._value_of:
            return choices @ table
        levels = self._heads[d].grid.levels
        place = draw.values[:, self._value_of[d]] * (levels - 1)
        below = place.detach().floor().clamp(0, levels - 2)
        low, high = table[below.long()], table[below.long() + 1]
        on_grid = torch.lerp(low, high, (place - below)[:, None])
        if choices.shape[1] == 1:
            return on_grid
        return choices[:, :1] * on_grid + choices[:, 1:] @ table[levels:]


class SumEmbedding:
    """The released embedding of one table of features for every column, concatenated (Vinaroz 2022, eq. 10 and 15).

    Parameters
    ----------
    layout : OutputHeads
    tables : sequence of arrays of shape (places of column d, width of column d)
        Features of every column as the session summed them, weights included.
    target : array of shape (total width, classes)
        Released mean, columns in order.
    device : torch.device
    """

    def __init__(
        self,
        layout: OutputHeads,
        tables: Sequence[NDArray[np.float64]],
        *,
        target: NDArray[np.float64],
        device: torch.device,
    ) -> None:
        self._expected = ExpectedTables(layout, tables, device)
        self._tables = [torch.tensor(table, dtype=torch.float32, device=device) for table in tables]
        self._grams = [table @ table.T for table in self._tables]
        self._continuous = set(layout.continuous)
        self._target = torch.from_numpy(target.T.copy()).to(device, torch.float32)

    def squared_distance(self, batch: ClassBatch, draw: Draw) -> Tensor:
        """Return the squared distance to a drawn batch, without bias."""
        embeddings, norms = [], draw.values.new_zeros(batch.size)
        for d, table in enumerate(self._tables):
            if d in self._continuous:
                features = self._expected.column(d, draw)
                embeddings.append(batch.embedding(features))
                norms = norms + features.square().sum(dim=1)
            else:
                # Averaging probabilities first saves the features of every row; their norms come from the Gram matrix.
                choices = draw.choices[d]
                embeddings.append(batch.embedding(choices) @ table)
                norms = norms + ((choices @ self._grams[d]) * choices).sum(dim=1)
        return batch.squared_distance(torch.cat(embeddings, dim=1), norms, self._target)


class ProductEmbeddings:
    """Released product-kernel embeddings (Vinaroz 2022, eq. 15), compared with drawn rows.

    Tables are padded with zeros to one width, so that all embeddings of a step are one batched matrix product; a zero
    feature adds nothing to a distance.

    Parameters
    ----------
    layout : OutputHeads
    tables : sequence of arrays of shape (places of column d, width of column d)
        Features of every column, as the session was asked.
    column_sets : sequence of tuples of int
        Columns of each embedding, all of one length.
    answers : sequence of arrays of shape (width of first column, ..., width of last column, classes)
        Released means.
    device : torch.device
    """

    def __init__(
        self,
        layout: OutputHeads,
        tables: Sequence[NDArray[np.float64]],
        *,
        column_sets: Sequence[tuple[int, ...]],
        answers: Sequence[NDArray[np.float64]],
        device: torch.device,
    ) -> None:
        widths = [table.shape[1] for table in tables]
        self._width = max(widths)
        padded = [
            np.pad(table, ((0, 0), (0, self._width - width))) for table, width in zip(tables, widths, strict=True)
        ]
        self._expected = ExpectedTables(layout, padded, device)
        self._depth = len(column_sets[0])
        self._cut = (self._depth + 1) // 2 if self._depth > 1 else 0
        targets = np.stack([self._pad(answer) for answer in answers])
        self._targets = torch.from_numpy(targets).to(device, torch.float32)
        # Picking columns by a matrix product has an exact, ordered gradient on every device; indexing has not.
        chosen = torch.tensor(column_sets, device=device)
        # Twice round, so that the embeddings of every step are adjacent, on the device.
        self._round = torch.arange(2 * len(answers), device=device) % len(answers)
        self._pick = torch.nn.functional.one_hot(chosen, len(tables)).to(torch.float32)

    def squared_distance(self, batch: ClassBatch, draw: Draw, step: int) -> Tensor:
        """Return the mean over this step's embeddings of the squared distance to a drawn batch."""
        chosen = self._turn(batch, step)
        features = torch.stack(self._expected(draw))
        flat = features.flatten(start_dim=1)
        picked = [
            (self._pick[chosen, j] @ flat).reshape(len(chosen), batch.size, self._width) for j in range(self._depth)
        ]
        norms = torch.stack([factor.square().sum(dim=2) for factor in picked]).prod(dim=0)
        # A row's features are the outer product of two sides, so they are never computed for a single row: the sum over
        # the rows of a class, which are adjacent, is one matrix product.
        left = _outer(picked[: self._cut], like=picked[-1]) * batch.weights.sum(dim=0)[:, None]
        right = _outer(picked[self._cut :], like=picked[-1])
        sides = (torch.split(side, list(batch.rows), dim=1) for side in (left, right))
        by_class = [(one.transpose(1, 2) @ other).flatten(start_dim=1) for one, other in zip(*sides, strict=True)]
        embedding = torch.stack(by_class, dim=1)
        return batch.squared_distance(embedding, norms, self._targets[chosen]).mean()

    def _turn(self, batch: ClassBatch, step: int) -> Tensor:
        count = len(self._targets)
        classes = len(batch.weights)
        sides = batch.size * (self._width**self._cut + self._width ** (self._depth - self._cut))
        together = max(1, min(count, _MOST_NUMBERS // (sides + classes * self._width**self._depth)))
        start = step * together % count
        return self._round[start : start + together]

    def _pad(self, answer: NDArray[np.float64]) -> NDArray[np.float64]:
        by_class = np.moveaxis(answer, -1, 0)
        padding = [(0, 0), *((0, self._width - width) for width in by_class.shape[1:])]
        return np.pad(by_class, padding).reshape(len(by_class), -1)
