r"""DP-HP: noisy mean embeddings of Hermite features train a neural network (Vinaroz 2022).

Mehler's formula writes the one-dimensional Gaussian kernel as a sum over orders (sections 3.1-3.2 and appendix E),

.. math:: \exp\Bigl(-\frac{\rho}{1-\rho^2}(x-y)^2\Bigr) = \sum_{c \ge 0} \phi_c(x)\,\phi_c(y),

with features whose size falls like :math:`\rho^{c/2}`. Cutting the sum after order C is a projection of the full
feature vector, which has norm 1. So every vector made here has norm at most 1, and two of them are at most
:math:`\sqrt 2` apart: :math:`|\phi(x)-\phi(y)|^2 \le 2-2k(x,y) \le 2`. Both bounds survive the sum and the product over
columns.

The two parts of the loss, ``SumDistance`` and ``ProductDistance``, compare released means of such features with their
expectation over drawn rows, which is exact in the probabilities and differentiable in the values: between two places of
a long grid features are interpolated, and a value on a place has exactly those that the private rows were summed with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ConfigError, InputError
from synth.generators.hermite import CARD, DpHpOptions
from synth.generators.neural import NeuralGenerator, Released
from synth.generators.protocol import Card, GeneratorTask
from synth.generators.row_network import ClassBatch, Draw, OutputHead, OutputHeads
from synth.generators.stacked import column_weights
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import Constant, FeatureMap, Stack
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.progress import Progress
from synth.system.costs import Work

__all__ = ["DpHp", "ProductDistance", "SumDistance", "hermite_features", "rho_of_length_scale"]

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

    @property
    def steps(self) -> int:
        """Training steps."""
        return int(self._epochs * (self._options.steps_per_epoch or math.ceil(STEPS / self._epochs)))

    @property
    def held(self) -> int:
        """About how many numbers a fit holds, besides the network's own."""
        return 4 * _MOST_NUMBERS

    def ask(self, session: AnswerSource, progress: Progress) -> Released | None:
        """Release the sum embedding and one product embedding for each epoch."""
        total = max(session.rows.value, 1.0)
        features = self._sum_features()
        split = 1.0 if features is None else self._options.split
        release = session.noisy_sum(
            self._by_class(features), share=session.remaining_share * split, query="sum kernel", source=self._source
        )
        sum_answer = np.asarray(release.value, dtype=np.float64).reshape(-1, self.classes) / total
        self.probabilities = self._class_probabilities(sum_answer, features)
        if features is None:
            return None
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
        return sum_answer, *answers

    def work(self, rows: int) -> Work:
        """Return what training computes, apart from the network mostly with the features of the product kernel."""
        heads, options = self._layout.heads, self._options
        if not heads:
            return super().work(rows)
        network = self._work_of_network(steps=self.steps, operations=115.0)
        products = max(self._width(head, options.order_product) for head in heads) ** self._prod_dimension
        return replace(
            network,
            single=network.single + 6.0 * options.batch_size * products,
            bytes=network.bytes + 4.0 * options.batch_size * (0.75 * products + 120 * len(heads)),
        )

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

    def distance(self, released: Released, batch: ClassBatch) -> _BothDistances:
        """Return the distance of batches from all released embeddings."""
        options, layout, features = self._options, self._layout, self._sum_features()
        if features is None:
            raise InputError("There is nothing to learn: the table has no column other than the label.")
        tables = [
            weight * part.table
            for weight, part in zip(features.weights, features.parts, strict=True)
            if isinstance(part, Lookup)
        ]
        sum_answer, *answers = released
        sums = SumDistance(layout, tables, sum_answer[..., : sum(table.shape[1] for table in tables), :], batch)
        if not options.gamma:
            return _BothDistances(sums, None, 0.0)
        plain = [self._product_lookup(head).table for head in layout.heads]
        products = ProductDistance(layout, plain, self._drawn_columns(), answers, batch)
        return _BothDistances(sums, products, options.gamma)


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


# Distances ------------------------------------------------------------------------------------------------------------


class _BothDistances:
    """The sum kernel's distance and gamma times the product kernel's (Vinaroz 2022, eq. 16)."""

    def __init__(self, sums: SumDistance, products: ProductDistance | None, gamma: float) -> None:
        self._sums, self._products, self._gamma = sums, products, gamma

    def slopes(self, draw: Draw, step: Tensor, slopes: Draw) -> None:
        """Write the slopes of the distance in all numbers of a draw."""
        self._sums.slopes(draw, step, slopes)
        if self._products is not None:
            self._products.add_slopes(draw, step, slopes, factor=self._gamma)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the distance."""
        found = self._sums.value(draw, step)
        return found if self._products is None else found + self._gamma * self._products.value(draw, step)


class _OnGrids:
    """Where the values of a draw lie between the places of their grids.

    Parameters
    ----------
    layout : OutputHeads
    tables : sequence of arrays of shape (places of column d, width of column d)
    batch : ClassBatch

    Attributes
    ----------
    table, differences : Tensor of shape (places of all values + 1, width)
        Features of every place, grid after grid, and how they differ from those of the next place.
    firsts : list of int
        First place of every value's grid.
    """

    def __init__(self, layout: OutputHeads, tables: Sequence[NDArray[np.float64]], batch: ClassBatch) -> None:
        self._layout = layout
        grids = [layout.heads[d].grid.levels for d in layout.continuous]
        own = [_own_features(layout.heads[d]) for d in layout.continuous]
        self.firsts = np.cumsum([0, *grids]).tolist()
        widths = [tables[d].shape[1] - skipped for d, skipped in zip(layout.continuous, own, strict=True)]
        table = np.zeros((self.firsts[-1] + 1, max(widths, default=0)))
        differences = np.zeros_like(table)
        for first, levels, d, skipped in zip(self.firsts[:-1], grids, layout.continuous, own, strict=True):
            features = tables[d][:levels, skipped:]
            table[first : first + levels, : features.shape[1]] = features
            differences[first : first + levels - 1, : features.shape[1]] = np.diff(features, axis=0)
        self.table, self.differences = (torch.from_numpy(one).to(batch.weights) for one in (table, differences))
        self.stretch = torch.tensor(grids).to(batch.weights)[:, None] - 1.0
        self._places = torch.tensor(self.firsts[:-1]).to(batch.weights.device)[:, None]

    def __call__(self, draw: Draw) -> tuple[Tensor, Tensor]:
        """Return the place below every value, among all, and the part of the way from it to the next place.

        Both of shape (..., values, rows).
        """
        place = draw.values * self.stretch
        below = place.floor()
        return below.long().add_(self._places), place.sub_(below)

    def chances(self, draw: Draw) -> Tensor | None:
        """Return the probability of every value's grid, (..., values, rows); None if all of them are 1."""
        if self._layout.plain == len(self._layout.continuous):
            return None
        chances = torch.ones_like(draw.values)
        for block, choices in zip(self._layout.blocks, draw.choices, strict=True):
            if block.kind == "value":
                chances[..., block.values, :] = choices[..., 0, :, :]
        return chances


class SumDistance:
    r"""The distance from the released embedding of one table of features for every column (Vinaroz 2022, eq. 10, 15).

    Expected features are never made for a single row. With T the table of a column, p a row's probabilities and
    G = T T', the distance needs T' times the mean of p, and the norm p' G p; of values, weighted sums of rows of T, and
    norms from those of neighbouring rows and their products.

    Parameters
    ----------
    layout : OutputHeads
    tables : sequence of arrays of shape (places of column d, width of column d)
        Features of every column as the session summed them, weights included.
    target : array of shape (..., total width, classes)
        Released mean, columns in order.
    batch : ClassBatch
    """

    def __init__(
        self,
        layout: OutputHeads,
        tables: Sequence[NDArray[np.float64]],
        target: NDArray[np.float64],
        batch: ClassBatch,
    ) -> None:
        self._layout, self._batch = layout, batch
        like, classes = batch.weights, len(batch.one_hot)
        starts = np.cumsum([0, *(table.shape[1] for table in tables)]).tolist()
        self._grids = grids = _OnGrids(layout, tables, batch)

        def moved(array: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(like)

        # Of values: what was released, and for each place the norm of its features, and their product with the step to
        # the next place, and the norm of that step.
        width, values = grids.table.shape[1], len(layout.continuous)
        aims = np.zeros((*target.shape[:-2], values, classes, width))
        for place, d in enumerate(layout.continuous):
            first = starts[d] + _own_features(layout.heads[d])
            own = target[..., first : starts[d + 1], :].swapaxes(-1, -2)
            aims[..., place, :, : own.shape[-1]] = own
        self._aims = moved(aims)
        self._relative = self._aims / batch.correction[..., None, :, :]
        steps = grids.differences
        self._norms = torch.stack(
            [grids.table.square().sum(dim=1), (grids.table * steps).sum(dim=1), steps.square().sum(dim=1)]
        )
        # Bags of rows of one class, and where they are looked up.
        class_of = torch.arange(classes).repeat_interleave(torch.tensor(batch.rows)).to(like.device)
        lengths = torch.tensor([levels for levels in np.diff(grids.firsts).tolist()]).to(like.device)
        firsts = torch.tensor(grids.firsts[:-1]).to(like.device)
        self._shift = class_of * lengths[:, None] + (classes - 1) * firsts[:, None]
        fits = math.prod(like.shape[:-2])
        ends = np.cumsum([0, *batch.rows])
        bags = (np.arange(fits * values)[:, None] * batch.size + ends[:-1]) * 2
        self._bags = torch.from_numpy(bags.ravel()).to(like.device)
        self._row_weights = batch.weights.sum(dim=-2)
        self._slope_weights = (batch.of_slopes[..., :classes, :].sum(dim=-2))[..., None, :]
        self._runs = _runs_of_equals(np.diff(grids.firsts).tolist())

        # Of choices: products of the tables' rows with each other and with what was released.
        self._grams, self._products = [], []
        for block in layout.blocks:
            gram = np.zeros((len(block.heads), block.size, block.size))
            products = np.zeros((*target.shape[:-2], len(block.heads), block.size, classes))
            for column, d in enumerate(block.heads):
                own = tables[d]
                if block.kind == "value":
                    own = np.concatenate([np.zeros((1, own.shape[1])), own[layout.heads[d].grid.levels :]])
                gram[column, : len(own), : len(own)] = own @ own.T
                products[..., column, : len(own), :] = own @ target[..., starts[d] : starts[d + 1], :]
            self._grams.append(moved(gram))
            self._products.append(moved(products))
        self._relative_products = [one / batch.correction.mT[..., None, :, :] for one in self._products]
        self._rest = moved(np.square(target).sum(axis=(-2, -1)))
        for d, head in enumerate(layout.heads):
            if head.choices == 1 and not head.is_continuous:
                same, chances = moved(tables[d][0]), batch.weights.sum(dim=-1)
                aim = moved(target[..., starts[d] : starts[d + 1], :].swapaxes(-1, -2)) @ same
                self._rest = self._rest + (chances * (chances * same.square().sum() - 2.0 * aim)).sum(dim=-1)

    def slopes(self, draw: Draw, step: Tensor, slopes: Draw) -> None:
        """Write the slopes of the distance in all numbers of a draw."""
        batch = self._batch
        of_slopes = batch.of_slopes[..., : len(batch.one_hot), :]
        for number, (gram, relative) in enumerate(zip(self._grams, self._relative_products, strict=True)):
            choices = draw.choices[number]
            mean = self._mean_choices(choices)
            by_class = torch.matmul(gram, mean).sub_(relative).flatten(-3, -2)
            rows = torch.matmul(by_class, of_slopes).view(*choices.shape[:-3], *gram.shape[:2], -1)
            own = torch.matmul(gram, choices.transpose(-3, -2))
            torch.addcmul(rows, own, batch.of_norm[..., None, None, :], value=-1.0, out=rows)
            slopes.choices[number].copy_(rows.transpose(-3, -2))
        if self._layout.continuous:
            self._write_slopes_of_values(draw, slopes)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the distance."""
        batch = self._batch
        correction = batch.correction.mT[..., None, :, :]
        found, norms = self._rest, torch.zeros_like(batch.of_norm)
        for number, (gram, products) in enumerate(zip(self._grams, self._products, strict=True)):
            choices = draw.choices[number]
            mean = self._mean_choices(choices)
            found = found + (mean * (correction * (gram @ mean) - 2.0 * products)).sum(dim=(-3, -2, -1))
            norms = norms + (choices * (gram @ choices.transpose(-3, -2)).transpose(-3, -2)).sum(dim=(-3, -2))
        if self._layout.continuous:
            places, left = self._grids(draw)
            chances = self._grids.chances(draw)
            mean = self._mean_of_values(places, left, chances)
            found = found + (mean * (batch.correction[..., None, :, :] * mean - 2.0 * self._aims)).sum(dim=(-3, -2, -1))
            norm, slope, bend = self._norms[:, places]
            norm = norm + left * (2.0 * slope + left * bend)
            norms = norms + (norm if chances is None else norm * chances.square()).sum(dim=-2)
        return found - (batch.of_norm * norms).sum(dim=-1) / 2.0

    def _mean_choices(self, choices: Tensor) -> Tensor:
        """Return the mean probabilities by class, (..., columns, places, classes)."""
        flat = choices.flatten(-3, -2)
        mean = torch.matmul(flat, self._batch.weights.mT)
        return mean.view(*choices.shape[:-1], -1).transpose(-3, -2)

    def _mean_of_values(self, places: Tensor, left: Tensor, chances: Tensor | None) -> Tensor:
        """Return the mean features of values by class, (..., values, classes, width)."""
        weights = self._row_weights[..., None, :]
        if chances is not None:
            weights = weights * chances
        above = left * weights
        pairs = torch.stack([weights - above, above], dim=-1)
        found = torch.nn.functional.embedding_bag(
            torch.stack([places, places + 1], dim=-1).flatten(),
            self._grids.table,
            self._bags,
            mode="sum",
            per_sample_weights=pairs.flatten(),
        )
        return found.view(self._aims.shape)

    def _write_slopes_of_values(self, draw: Draw, slopes: Draw) -> None:
        places, left = self._grids(draw)
        chances = self._grids.chances(draw)
        classes = len(self._batch.one_hot)
        missed = self._mean_of_values(places, left, chances).sub_(self._relative)
        where = places + self._shift
        of_norm, bend = self._norms[1:, places]
        of_norm = torch.addcmul(of_norm, left, bend)
        if chances is not None:
            of_norm = of_norm * chances
        stretched = self._grids.stretch * (1.0 if chances is None else chances)
        found = self._looked_up(missed, self._grids.differences, where, classes)
        weights = self._row_weights[..., None, :]
        slope = torch.addcmul(found, of_norm, weights, value=-1.0).mul_(self._slope_weights)
        torch.mul(slope, stretched, out=slopes.values)
        if chances is None:
            return
        below = self._looked_up(missed, self._grids.table, where, classes)
        norm, once, twice = self._norms[:, places]
        norm = norm + left * (2.0 * once + left * twice)
        of_chances = (below + left * found - weights * chances * norm) * self._slope_weights
        for block, of_choices in zip(self._layout.blocks, slopes.choices, strict=True):
            if block.kind == "value":
                of_choices[..., 0, :, :] += of_chances[..., block.values, :]

    def _looked_up(self, missed: Tensor, table: Tensor, where: Tensor, classes: int) -> Tensor:
        """Return the product of every row's features in a table with what its class missed, (..., values, rows)."""
        parts = []
        for first, last in self._runs:
            rows = torch.unflatten(table[self._grids.firsts[first] : self._grids.firsts[last]], 0, (last - first, -1))
            parts.append((missed[..., first:last, :, :] @ rows.mT).flatten(-3))
        every = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return torch.gather(every, -1, where.flatten(-2)).view_as(where)


def _runs_of_equals(numbers: list[int]) -> list[tuple[int, int]]:
    """Return where runs of equal numbers start and end."""
    cuts = [0, *(place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1]), len(numbers)]
    return list(pairwise(cuts)) if numbers else []


class ProductDistance:
    """The mean distance from released product-kernel embeddings (Vinaroz 2022, eq. 15) that take turns.

    Tables are padded with zeros to one width, so that all embeddings of a step are one batched matrix product; a zero
    feature adds nothing to a distance. A row's features are the outer product of two sides, so they are never computed
    for a single row: the sum over the rows of a class, which are adjacent, is a matrix product.

    Parameters
    ----------
    layout : OutputHeads
    tables : sequence of arrays of shape (places of column d, width of column d)
        Features of every column, as the session was asked.
    column_sets : sequence of tuples of int
        Columns of each embedding, all of one length.
    answers : sequence of arrays of shape (..., width of first column, ..., width of last column, classes)
        Released means.
    batch : ClassBatch
    """

    def __init__(
        self,
        layout: OutputHeads,
        tables: Sequence[NDArray[np.float64]],
        column_sets: Sequence[tuple[int, ...]],
        answers: Sequence[NDArray[np.float64]],
        batch: ClassBatch,
    ) -> None:
        self._layout, self._batch = layout, batch
        like, device = batch.weights, batch.weights.device
        self._width = max(table.shape[1] for table in tables)
        self._depth, self._count = len(column_sets[0]), len(column_sets)
        self._cut = (self._depth + 1) // 2 if self._depth > 1 else 0
        self._grids = _OnGrids(layout, tables, batch)

        # Columns in the order of values and blocks; a block of values is among the values, those with one choice last.
        values = layout.continuous
        blocks = [(number, block) for number, block in enumerate(layout.blocks) if block.kind != "value"]
        order = [*values, *(d for _, block in blocks for d in block.heads)]
        alone = sorted(set(range(len(layout.heads))) - set(order))
        row_of = {d: row for row, d in enumerate([*order, *alone])}
        self._features = like.new_zeros((*like.shape[:-2], len(row_of), self._width, batch.size))
        for d in alone:
            self._features[..., row_of[d], : tables[d].shape[1], :] = torch.from_numpy(tables[d][0]).to(like)[:, None]

        def moved(array: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(like)

        # Of every block the features of its choices, (columns, choices, width). Of values the features of places come
        # first, then those of atoms.
        self._blocks: list[tuple[int, slice, Tensor]] = []
        for number, block in enumerate(layout.blocks):
            made = np.zeros((len(block.heads), block.size, self._width))
            for column, d in enumerate(block.heads):
                if block.kind == "value":
                    own = layout.heads[d].grid.atoms
                    first = tables[d].shape[1] - own
                    made[column, 1 : 1 + own, first : first + own] = np.eye(own)
                else:
                    made[column, : len(tables[d]), : tables[d].shape[1]] = tables[d]
            first = row_of[block.heads[0]]
            self._blocks.append((number, slice(first, first + len(block.heads)), moved(made)))
        self._tables = self._grids.table.T.contiguous(), self._grids.differences.T.contiguous()

        # Picking columns by a matrix product has an exact, ordered slope on every device; indexing has not.
        rows = torch.tensor([[row_of[d] for d in chosen] for chosen in column_sets])
        picks = torch.nn.functional.one_hot(rows, len(row_of))
        self._chosen, self._picks = rows.to(device), picks.to(like)
        self._targets = moved(
            np.stack([self._padded(answer, chosen) for answer, chosen in zip(answers, column_sets, strict=True)])
        )
        sides = batch.size * (self._width**self._cut + self._width ** (self._depth - self._cut))
        each = sides + len(batch.one_hot) * self._width**self._depth
        self._together = max(1, min(self._count, _MOST_NUMBERS // each))
        # Twice round, so that the embeddings of every step are adjacent.
        self._round = (torch.arange(2 * self._count) % self._count).to(device)
        self._numbers = torch.arange(self._together).to(device)

    def add_slopes(self, draw: Draw, step: Tensor, slopes: Draw, *, factor: float) -> None:
        """Add the slopes of the distance, times a factor, in all numbers of a draw."""
        batch = self._batch
        turn = self._turn(step)
        kept = self._write_features(draw)
        picked, sides, right, embedding = self._embedding(turn)
        factor /= self._together
        missed = (embedding * batch.correction[..., None, :, :] - self._targets_of(turn)).mul_(2.0 * factor)
        shape = (*missed.shape[:-1], sides[0].shape[-2], right.shape[-2])
        by_class = missed.view(shape).unbind(-3)
        of_sides = torch.empty_like(sides[0]), torch.empty_like(right)
        first = 0
        for each, count in zip(by_class, batch.rows, strict=True):
            rows = slice(first, first + count)
            of_sides[0][..., rows] = each @ right[..., rows]
            of_sides[1][..., rows] = each.mT @ sides[0][..., rows]
            first += count
        of_sides[1].mul_(batch.weights.sum(dim=-2)[..., None, None, :])
        norms = picked.square().sum(dim=-2)
        every = norms.prod(dim=-2, keepdim=True) * (-factor * batch.of_norm)[..., None, None, :]
        of_picked = picked * (every / norms)[..., None, :]
        factors = picked.unbind(-3)
        of_factors = of_picked.unbind(-3)
        for side, some, into in (
            (of_sides[0], factors[: self._cut], of_factors[: self._cut]),
            (of_sides[1], factors[self._cut :], of_factors[self._cut :]),
        ):
            _add_slopes_of_outer(side, some, into)
        picks = self._picks[turn].flatten(0, 1)
        flat = of_picked.flatten(-4, -3).flatten(-2)
        of_features = torch.matmul(picks.T, flat).view(self._features.shape)
        self._add_slopes_of_draw(of_features, draw, kept, slopes)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the mean over this step's embeddings of the squared distance."""
        turn = self._turn(step)
        self._write_features(draw)
        picked, _, _, embedding = self._embedding(turn)
        norms = picked.square().sum(dim=-2).prod(dim=-2)
        batch, targets = self._batch, self._targets_of(turn)
        squared = (batch.correction[..., None, :, :] * embedding - 2.0 * targets) * embedding + targets.square()
        return (squared.sum(dim=(-2, -1)) - (batch.of_norm[..., None, :] * norms).sum(dim=-1) / 2.0).mean(dim=-1)

    def _turn(self, step: Tensor) -> Tensor:
        return self._round[step * self._together % self._count + self._numbers]

    def _targets_of(self, turn: Tensor) -> Tensor:
        """Return what was released in a turn, (..., embeddings, classes, features)."""
        return self._targets[turn].movedim(0, -3)

    def _padded(self, answer: NDArray[np.float64], chosen: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an answer by class with all columns of one width, shape (..., classes, features)."""
        by_class = np.moveaxis(answer, -1, -1 - self._depth)
        for axis, d in enumerate(chosen):
            head = self._layout.heads[d]
            place = by_class.ndim - self._depth + axis
            if head.is_continuous:
                by_class = np.roll(by_class, -head.grid.atoms, axis=place)
            padding = [(0, 0)] * by_class.ndim
            padding[place] = (0, self._width - by_class.shape[place])
            by_class = np.pad(by_class, padding)
        return by_class.reshape(*by_class.shape[: -self._depth], -1)

    def _write_features(self, draw: Draw) -> tuple[Tensor, Tensor | None, Tensor] | None:
        """Write every column's expected features; return steps, chances and features of values."""
        features, kept = self._features, None
        n = len(self._layout.continuous)
        if n:
            places, left = self._grids(draw)
            below, steps = (table[:, places].movedim(0, -2) for table in self._tables)
            on_grid = torch.addcmul(below, left[..., None, :], steps)
            chances = self._grids.chances(draw)
            here = features[..., :n, : len(self._tables[0]), :]
            if chances is None:
                here.copy_(on_grid)
            else:
                features[..., :n, :, :] = 0.0
                torch.mul(on_grid, chances[..., None, :], out=here)
            kept = steps, chances, on_grid
        for number, rows, table in self._blocks:
            found = table.mT @ draw.choices[number].transpose(-3, -2)
            if self._layout.blocks[number].kind == "value":
                features[..., rows, :, :] += found
            else:
                features[..., rows, :, :] = found
        return kept

    def _embedding(self, turn: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor, Tensor]:
        """Return the picked features, the two sides of their products, the second times weights, and its embedding.

        Returns
        -------
        Tensor of shape (..., embeddings, columns, width, rows)
        tuple of Tensor of shape (..., embeddings, features of a side, rows)
        Tensor of the shape of the second
        Tensor of shape (..., embeddings, classes, features)
        """
        batch = self._batch
        picked = self._features.index_select(-3, self._chosen[turn].flatten())
        picked = torch.unflatten(picked, -3, (-1, self._depth))
        factors = picked.unbind(-3)
        sides = _outer(factors[: self._cut], like=factors[-1]), _outer(factors[self._cut :], like=factors[-1])
        right = sides[1] * batch.weights.sum(dim=-2)[..., None, None, :]
        pieces = zip(*(torch.split(side, list(batch.rows), dim=-1) for side in (sides[0], right)), strict=True)
        by_class = [(one @ other.mT).flatten(-2) for one, other in pieces]
        return picked, sides, right, torch.stack(by_class, dim=-2)

    def _add_slopes_of_draw(
        self, of_features: Tensor, draw: Draw, kept: tuple[Tensor, Tensor | None, Tensor] | None, slopes: Draw
    ) -> None:
        if kept is not None:
            steps, chances, on_grid = kept
            n = len(self._layout.continuous)
            here = of_features[..., :n, : steps.shape[-2], :]
            of_values = (here * steps).sum(dim=-2)
            if chances is None:
                slopes.values.addcmul_(of_values, self._grids.stretch)
            else:
                slopes.values.addcmul_(of_values * chances, self._grids.stretch)
                of_chances = (here * on_grid).sum(dim=-2)
                for block, of_choices in zip(self._layout.blocks, slopes.choices, strict=True):
                    if block.kind == "value":
                        of_choices[..., 0, :, :] += of_chances[..., block.values, :]
        for number, rows, table in self._blocks:
            slopes.choices[number].add_((table @ of_features[..., rows, :, :]).transpose(-3, -2))


def _outer(factors: Sequence[Tensor], *, like: Tensor) -> Tensor:
    """Return the outer products of some columns' features, (..., features, rows), first slowest; ones without any."""
    if not factors:
        return torch.ones_like(like[..., :1, :])
    found = factors[0]
    for factor in factors[1:]:
        found = (found.unsqueeze(-2) * factor.unsqueeze(-3)).flatten(-3, -2)
    return found


def _add_slopes_of_outer(slope: Tensor, factors: Sequence[Tensor], slopes: Sequence[Tensor]) -> None:
    """Add the slopes in the factors of an outer product, given those in the product."""
    earlier: list[Tensor] = []
    for factor in factors[:-1]:
        earlier.append(_outer([*earlier[-1:], factor], like=factor))
    for factor, into, before in zip(factors[:0:-1], slopes[:0:-1], reversed(earlier), strict=True):
        both = torch.unflatten(slope, -2, (before.shape[-2], factor.shape[-2]))
        into.add_((both * before.unsqueeze(-2)).sum(dim=-3))
        slope = (both * factor.unsqueeze(-3)).sum(dim=-2)
    if factors:
        slopes[0].add_(slope)
