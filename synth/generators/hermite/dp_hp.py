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
from dataclasses import dataclass, replace
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
from synth.generators.row_network import ClassBatch, Draw, OutputHead, OutputHeads, product
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
        network = self._work_of_network(steps=self.steps, operations=60.0)
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
            return _BothDistances(sums, None)
        plain = [self._product_lookup(head).table for head in layout.heads]
        products = ProductDistance(layout, plain, self._drawn_columns(), answers, batch, factor=options.gamma)
        return _BothDistances(sums, products)


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

    def __init__(self, sums: SumDistance, products: ProductDistance | None) -> None:
        self._sums, self._products = sums, products

    def slopes(self, draw: Draw, step: Tensor, slopes: Draw) -> None:
        """Write the slopes of the distance in all numbers of a draw."""
        where = self._sums.where(draw)
        self._sums.slopes(draw, step, slopes, where=where)
        if self._products is not None:
            self._products.add_slopes(draw, step, slopes, where=where)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the distance of the draw whose slopes were taken last."""
        found = self._sums.value(draw, step)
        return found if self._products is None else found + self._products.value(draw, step)


@dataclass(frozen=True, slots=True, eq=False)
class _Where:
    """Where the values of a draw lie.

    Attributes
    ----------
    pairs : int64 Tensor of shape (..., values, rows, 2)
        The places below and above, among those of all grids.
    left : Tensor of shape (..., values, rows)
        The part of the way from the one to the other.
    chances : Tensor of shape (..., values, rows), optional
        Probability of the value's grid; None if all of them are 1.
    """

    pairs: Tensor
    left: Tensor
    chances: Tensor | None

    @property
    def below(self) -> Tensor:
        """The places below."""
        return self.pairs[..., 0]


class _OnGrids:
    """The places of all values' grids, one grid after the other, and their features.

    Parameters
    ----------
    layout : OutputHeads
    tables : sequence of arrays of shape (places of column d, width of column d)
    batch : ClassBatch

    Attributes
    ----------
    table : array of shape (places of all values + 1, width)
        Features of every place.
    differences : array of the same shape
        How those of the next place differ.
    steps : array of shape (places of all values + 1, 1)
        Steps of the place's grid.
    firsts : list of int
        First place of every value's grid.
    """

    def __init__(self, layout: OutputHeads, tables: Sequence[NDArray[np.float64]], batch: ClassBatch) -> None:
        self._layout = layout
        grids = [layout.heads[d].grid.levels for d in layout.continuous]
        own = [_own_features(layout.heads[d]) for d in layout.continuous]
        self.firsts = np.cumsum([0, *grids]).tolist()
        widths = [tables[d].shape[1] - skipped for d, skipped in zip(layout.continuous, own, strict=True)]
        self.table = np.zeros((self.firsts[-1] + 1, max(widths, default=0)))
        self.differences = np.zeros_like(self.table)
        self.steps = np.append(np.repeat(grids, grids), 1)[:, None] - 1.0
        for first, levels, d, skipped in zip(self.firsts[:-1], grids, layout.continuous, own, strict=True):
            features = tables[d][:levels, skipped:]
            self.table[first : first + levels, : features.shape[1]] = features
            self.differences[first : first + levels - 1, : features.shape[1]] = np.diff(features, axis=0)
        device = batch.weights.device
        self.stretch = torch.tensor(grids).to(batch.weights)[:, None] - 1.0
        self._pairs = (torch.tensor(self.firsts[:-1]).reshape(-1, 1, 1) + torch.arange(2)).to(device)

    def where(self, draw: Draw) -> _Where:
        """Return where the values of a draw lie."""
        place = draw.values * self.stretch
        pairs = place.long().unsqueeze(-1) + self._pairs
        return _Where(pairs, place.frac_(), self._chances(draw))

    def _chances(self, draw: Draw) -> Tensor | None:
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
    norms from those of neighbouring rows and their products. What a value's slope needs is computed for every place of
    its grid and class, and looked up.

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
        starts = np.cumsum([0, *(table.shape[1] for table in tables)]).tolist()
        self._grids = _OnGrids(layout, tables, batch)
        self._row_weights = batch.weights.sum(dim=-2)
        if layout.continuous:
            self._prepare_values(target, starts)

        # Of choices: products of the tables' rows with each other, followed by those with what was released; what they
        # are multiplied by ends with the rows of every class.
        self._grams, self._products, self._both, self._weighted = [], [], [], []
        for block in layout.blocks:
            gram = np.zeros((len(block.heads), block.size, block.size))
            products = np.zeros((*target.shape[:-2], len(block.heads), block.size, len(batch.one_hot)))
            for column, d in enumerate(block.heads):
                own = tables[d]
                if block.kind == "value":
                    own = np.concatenate([np.zeros((1, own.shape[1])), own[layout.heads[d].grid.levels :]])
                gram[column, : len(own), : len(own)] = own @ own.T
                products[..., column, : len(own), :] = own @ target[..., starts[d] : starts[d + 1], :]
            self._grams.append(self._moved(gram))
            self._products.append(self._moved(products))
            expanded = np.broadcast_to(gram, (*products.shape[:-1], block.size))
            self._both.append(self._moved(np.concatenate([expanded, products], axis=-1)))
            weighted = batch.weights.new_zeros((*self._both[-1].shape[:-2], self._both[-1].shape[-1], batch.size))
            weighted[..., block.size :, :] = -2.0 * batch.weights[..., None, :, :]
            self._weighted.append(weighted)
        self._rest = self._moved(np.square(target).sum(axis=(-2, -1)))
        for d, head in enumerate(layout.heads):
            if head.choices == 1 and not head.is_continuous:
                same, chances = self._moved(tables[d][0]), batch.weights.sum(dim=-1)
                aim = self._moved(target[..., starts[d] : starts[d + 1], :].swapaxes(-1, -2)) @ same
                self._rest = self._rest + (chances * (chances * same.square().sum() - 2.0 * aim)).sum(dim=-1)

    def _moved(self, array: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._batch.weights)

    def _prepare_values(self, target: NDArray[np.float64], starts: list[int]) -> None:
        """Make what the slopes of values are looked up in.

        It has a row for every class of every fit, and where fits have rows of no weight one more, which is 0, for them.
        """
        layout, batch, grids = self._layout, self._batch, self._grids
        like, classes, values = batch.weights, len(batch.one_hot), len(layout.continuous)
        device, several = like.device, like.shape[:-2]
        fits, width = math.prod(several), grids.table.shape[1]

        aims = np.zeros((fits, values, classes, width))
        for place, d in enumerate(layout.continuous):
            first = starts[d] + _own_features(layout.heads[d])
            own = target[..., first : starts[d + 1], :].swapaxes(-1, -2)
            aims[:, place, :, : own.shape[-1]] = own.reshape(fits, classes, -1)
        self._aims = self._moved(aims).view(*several, values, classes, width)
        self._table = self._moved(grids.table)
        # For each place the norm of its features, and its slope in the value, halved: at the place and a step later.
        self._slope_table = self._moved(grids.steps * grids.differences)
        norms = [grids.table**2, grids.steps * grids.table * grids.differences, grids.steps * grids.differences**2]
        self._norms = torch.stack([self._moved(one.sum(axis=1)) for one in norms])

        # The mean features of the rows of a class are a bag of places, two for each row.
        ends = np.cumsum([0, *batch.rows])
        bags = (np.arange(fits * values)[:, None] * batch.size + ends[:-1]) * 2
        self._bags = torch.from_numpy(bags.ravel()).to(device)
        weights = self._row_weights[..., None, :, None]
        self._of_pairs = torch.cat([weights, 0.0 * weights], dim=-1), torch.cat([-weights, weights], dim=-1)

        counts = self._row_weights.reshape(fits, -1) > 0
        class_of = torch.arange(classes).repeat_interleave(torch.tensor(batch.rows)).to(device).expand(fits, -1)
        weight = batch.weights.reshape(fits, classes, -1).amax(dim=-1)
        is_padded = bool((~counts & (weight.gather(1, class_of) > 0)).any())
        rows = classes + is_padded
        if is_padded:
            class_of = torch.where(counts, class_of, classes)
        class_of = class_of + rows * torch.arange(fits).to(device)[:, None]
        self._class_of = class_of.view(*several, 1, -1)

        scale = (2.0 * weight * batch.correction.reshape(fits, classes))[..., None]
        self._scale = scale
        self._minus = (-2.0 * weight[:, None, :, None] * self._aims.view(fits, values, classes, width)).transpose(0, 1)
        self._missed = like.new_zeros((values, fits, rows, width))
        of_norms = torch.zeros_like(self._missed[0, ..., :1])
        of_norms[:, :classes] = -scale * weight[..., None]
        norm, slope, bend = self._norms[:, None, :] * of_norms.flatten(0, 1)
        nothing = torch.zeros_like(norm)
        has_chances = layout.plain < values
        self._looked_up = torch.stack([nothing, bend, slope, nothing, norm] if has_chances else [nothing, bend])
        # What is computed for every place of each run of equal grids: into where, from what, and what is added.
        of_places = [self._slope_table, self._table]
        self._runs = []
        for first, last in _runs_of_equals(np.diff(grids.firsts).tolist()):
            places = slice(grids.firsts[first], grids.firsts[last])
            for row, table in zip((0, 3) if has_chances else (0,), of_places, strict=False):
                into, added = (
                    torch.unflatten(one[:, places], 1, (last - first, -1)).transpose(0, 1)
                    for one in (self._looked_up[row], nothing if has_chances else slope)
                )
                features = torch.unflatten(table[places], 0, (last - first, -1)).mT
                self._runs.append((slice(first, last), into, features, added))

    def where(self, draw: Draw) -> _Where:
        """Return where the values of a draw lie; a product distance needs the same."""
        return self._grids.where(draw)

    def slopes(self, draw: Draw, step: Tensor, slopes: Draw, *, where: _Where | None = None) -> None:
        """Write the slopes of the distance in all numbers of a draw."""
        batch = self._batch
        of_slopes = batch.of_slopes[..., : len(batch.one_hot), :]
        for choices, both, weighted, of_choices in zip(
            draw.choices, self._both, self._weighted, slopes.choices, strict=True
        ):
            flat = choices.flatten(-3, -2)
            rows = ((flat @ batch.weights.mT) @ of_slopes).view_as(choices)
            norms = batch.of_norm[..., None, None, :]
            here = weighted[..., : choices.shape[-3], :]
            torch.addcmul(rows, choices, norms, value=-1.0, out=here.transpose(-3, -2))
            product(both, weighted, out=of_choices.transpose(-3, -2))
        if self._layout.continuous:
            self._write_slopes_of_values(self.where(draw) if where is None else where, slopes)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the distance."""
        batch = self._batch
        correction = batch.correction.mT[..., None, :, :]
        found, norms = self._rest, torch.zeros_like(batch.of_norm)
        for choices, gram, products in zip(draw.choices, self._grams, self._products, strict=True):
            mean = (choices.flatten(-3, -2) @ batch.weights.mT).view(*choices.shape[:-1], -1).transpose(-3, -2)
            found = found + (mean * (correction * (gram @ mean) - 2.0 * products)).sum(dim=(-3, -2, -1))
            norms = norms + (choices * (gram @ choices.transpose(-3, -2)).transpose(-3, -2)).sum(dim=(-3, -2))
        if self._layout.continuous:
            where = self.where(draw)
            mean = self._mean_of_values(where)
            squared = (mean * batch.correction[..., None, :, :]).sub_(self._aims, alpha=2.0).mul_(mean)
            found = found + squared.sum(dim=(-3, -2, -1))
            norm, slope, bend = self._norms[:, where.below]
            slope = torch.addcmul(slope + slope, where.left, bend)
            norm = torch.addcmul(norm, where.left / self._grids.stretch, slope)
            norms = norms + (norm if where.chances is None else norm * where.chances.square()).sum(dim=-2)
        return found.sub((batch.of_norm * norms).sum(dim=-1), alpha=0.5)

    def _mean_of_values(self, where: _Where) -> Tensor:
        """Return the mean features of values by class, (..., values, classes, width)."""
        base, turned = self._of_pairs
        weights = torch.addcmul(base, where.left.unsqueeze(-1), turned)
        if where.chances is not None:
            weights.mul_(where.chances.unsqueeze(-1))
        found = torch.nn.functional.embedding_bag(
            where.pairs.flatten(), self._table, self._bags, mode="sum", per_sample_weights=weights.flatten()
        )
        return found.view(self._aims.shape)

    def _write_slopes_of_values(self, where: _Where, slopes: Draw) -> None:
        values, fits, _, width = self._missed.shape
        classes = self._scale.shape[1]
        mean = self._mean_of_values(where).view(fits, values, classes, width).transpose(0, 1)
        torch.addcmul(self._minus, mean, self._scale, out=self._missed[:, :, :classes])
        missed = self._missed.flatten(1, 2)
        for some, into, features, added in self._runs:
            torch.baddbmm(added, missed[some], features, out=into)
        slope, bend, *others = self._looked_up[:, self._class_of, where.below]
        left, chances = where.left, where.chances
        if chances is None:
            torch.addcmul(slope, left, bend, out=slopes.values)
            return
        once, below, norm = others
        of_norm = torch.addcmul(once, left, bend)
        torch.mul(torch.addcmul(slope, chances, of_norm), chances, out=slopes.values)
        part = left / self._grids.stretch
        of_chances = torch.addcmul(below, part, slope)
        of_chances.addcmul_(chances, torch.addcmul(norm, part, of_norm.add_(once)))
        for block, of_choices in zip(self._layout.blocks, slopes.choices, strict=True):
            if block.kind == "value":
                of_choices[..., 0, :, :] += of_chances[..., block.values, :]


def _runs_of_equals(numbers: list[int]) -> list[tuple[int, int]]:
    """Return where runs of equal numbers start and end."""
    cuts = [0, *(place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1]), len(numbers)]
    return list(pairwise(cuts)) if numbers else []


class ProductDistance:
    """The mean distance from released product-kernel embeddings (Vinaroz 2022, eq. 15) that take turns.

    Tables are padded with zeros to one width, so that all embeddings of a step are one batched matrix product; a zero
    feature adds nothing to a distance. A row's features are the outer product of two sides, so they are never computed
    for a single row: the sum over the rows of a class, which are adjacent and have one weight, is a matrix product.
    Both sides have as many columns; where their number is odd, the one in the middle belongs to the left.

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
    factor : float
        What the distance is multiplied by.
    """

    def __init__(
        self,
        layout: OutputHeads,
        tables: Sequence[NDArray[np.float64]],
        column_sets: Sequence[tuple[int, ...]],
        answers: Sequence[NDArray[np.float64]],
        batch: ClassBatch,
        *,
        factor: float = 1.0,
    ) -> None:
        self._layout, self._batch = layout, batch
        like, several, device = batch.weights, batch.weights.shape[:-2], batch.weights.device
        width = self._width = max(table.shape[1] for table in tables)
        depth, self._count = len(column_sets[0]), len(column_sets)
        self._depth, half, is_odd = depth, depth // 2, depth % 2
        self._half, self._is_odd = half, bool(is_odd)
        self._grids = _OnGrids(layout, tables, batch)

        # Columns in the order of values and blocks; a block of values is among the values, those with one choice last.
        values = layout.continuous
        blocks = [(number, block) for number, block in enumerate(layout.blocks) if block.kind != "value"]
        order = [*values, *(d for _, block in blocks for d in block.heads)]
        alone = sorted(set(range(len(layout.heads))) - set(order))
        row_of = {d: row for row, d in enumerate([*order, *alone])}
        self._features = like.new_zeros((*several, len(row_of), width, batch.size))
        for d in alone:
            self._features[..., row_of[d], : tables[d].shape[1], :] = torch.from_numpy(tables[d][0]).to(like)[:, None]

        def moved(array: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(like)

        # Of every block the features of its choices, (columns, choices, width). Of values the features of places come
        # first, then those of atoms.
        self._blocks: list[tuple[int, slice, Tensor]] = []
        for number, block in enumerate(layout.blocks):
            made = np.zeros((len(block.heads), block.size, width))
            for column, d in enumerate(block.heads):
                if block.kind == "value":
                    own = layout.heads[d].grid.atoms
                    first = tables[d].shape[1] - own
                    made[column, 1 : 1 + own, first : first + own] = np.eye(own)
                else:
                    made[column, : len(tables[d]), : tables[d].shape[1]] = tables[d]
            first = row_of[block.heads[0]]
            self._blocks.append((number, slice(first, first + len(block.heads)), moved(made)))
        self._table = torch.stack([moved(self._grids.table.T), moved(self._grids.differences.T)])

        # Of every embedding first the columns of the two sides, then the one in the middle.
        cut = half + is_odd
        rows = torch.tensor([[row_of[d] for d in (*one[:half], *one[cut:], *one[half:cut])] for one in column_sets])
        # Putting slopes back by a matrix product is exact, and in order, on every device; by indexing it is not.
        self._chosen, self._picks = rows.to(device), torch.nn.functional.one_hot(rows, len(row_of)).to(like)
        each = batch.size * (width**cut + width**half) + len(batch.one_hot) * width**depth
        together = max(1, min(self._count, _MOST_NUMBERS // each))
        turns = (torch.arange(self._count)[:, None] * together + torch.arange(together)) % self._count
        self._turns = None if together == self._count else turns.to(device)

        # What an embedding's missing part is multiplied by on the way to slopes, and what was released, times -2 of it.
        factor /= together
        weight = batch.weights.amax(dim=-1)[..., None, :, None]
        self._factor, self._scale = factor, 2.0 * factor * batch.correction[..., None, :, :] * weight.square()
        targets = moved(
            np.stack([self._padded(answer, one) for answer, one in zip(answers, column_sets, strict=True)], axis=-3)
        )
        self._rest = factor * targets.square().sum(dim=(-2, -1))
        self._aims = targets.mul_(-2.0 * factor * weight)
        counts = (self._batch.weights > 0).any(dim=-2)
        self._mask = None if bool(counts.all()) or not several else counts.to(like)[..., None, None, None, :]
        self._make_room(math.prod(several) * together)

    def _make_room(self, embeddings: int) -> None:
        """Make the tensors of a step: of all fits' embeddings, features of columns and of both sides, and slopes."""
        batch, like, half, width = self._batch, self._batch.weights, self._half, self._width
        rows = batch.size

        def room(*shape: int) -> Tensor:
            return like.new_zeros((embeddings, *shape, rows))

        self._picked, self._of_picked = room(self._depth, width), room(self._depth, width)
        # Squared norms of the columns, and what the norm of a row's whole product counts.
        self._norms = room(self._depth + 1)
        own = (self._factor * batch.of_norm).unsqueeze(-2)
        self._norms.view(*like.shape[:-2], -1, self._depth + 1, rows)[..., -1, :] = own
        self._sides = [room(2, width**level) for level in range(2, half + 1)]
        self._of_sides = [room(2, width**level) for level in range(2, half + 1)]
        self._spare = room(2, width**half) if half > 1 else room(0)
        self._left, self._of_left, self._spare_left = (
            room(width ** (half + 1)) if self._is_odd else room(0) for _ in range(3)
        )
        self._ones = like.new_ones((embeddings, 1, rows))
        if self._mask is not None:
            self._ones = self._ones.view(*like.shape[:-2], -1, rows).mul(self._mask[..., 0, 0, :]).view_as(self._ones)
        self._embedding = like.new_zeros((embeddings, len(batch.one_hot), width ** (half + self._is_odd), width**half))
        self._missed = torch.zeros_like(self._embedding)
        n, most = len(self._layout.continuous), self._table.shape[1]
        self._of_values = like.new_zeros((*like.shape[:-2], n, most, rows))

    def add_slopes(self, draw: Draw, step: Tensor, slopes: Draw, *, where: _Where | None = None) -> None:
        """Add the slopes of the distance in all numbers of a draw."""
        batch, half, width = self._batch, self._half, self._width
        where = self._grids.where(draw) if where is None else where
        turn = self._turn(step)
        kept = self._write_features(draw, where)
        levels, left, right = self._write_embedding(turn)
        of_picked = self._of_picked
        several = (*batch.weights.shape[:-2], -1)
        shape = (*several, *self._embedding.shape[1:2], self._aims.shape[-1])
        torch.addcmul(self._aims_of(turn), self._embedding.view(shape), self._scale, out=self._missed.view(shape))

        # Slopes in the two sides, and of an odd number of columns in the one in the middle.
        paired = torch.unflatten(of_picked[:, : 2 * half], 1, (2, half))
        of_levels = [*paired.unbind(2)[:1], *self._of_sides]
        of_left = of_picked[:, 0] if not half else self._of_left if self._is_odd else of_levels[-1][:, 0]
        first = 0
        for c, count in enumerate(batch.rows):
            missed, rows = self._missed[:, c], slice(first, first + count)
            torch.bmm(missed, right[..., rows], out=of_left[..., rows])
            if half:
                torch.bmm(missed.mT, left[..., rows], out=of_levels[-1][:, 1, :, rows])
            first += count
        if half and self._is_odd:
            every, spare = (torch.unflatten(one, 1, (-1, width)) for one in (of_left, self._spare_left))
            torch.mul(every, self._picked[:, None, -1], out=spare)
            torch.sum(spare, dim=2, out=of_levels[-1][:, 0])
            torch.mul(every, levels[-1][:, 0].unsqueeze(2), out=spare)
            torch.sum(spare, dim=1, out=of_picked[:, -1])
        factors = torch.unflatten(self._picked[:, : 2 * half], 1, (2, half))
        for level in range(half - 1, 0, -1):
            every = torch.unflatten(of_levels[level], 2, (-1, width))
            spare = torch.unflatten(self._spare[:, :, : width ** (level + 1)], 2, (-1, width))
            torch.mul(every, levels[level - 1].unsqueeze(3), out=spare)
            torch.sum(spare, dim=2, out=paired[:, :, level])
            torch.mul(every, factors[:, :, level].unsqueeze(2), out=spare)
            torch.sum(spare, dim=3, out=of_levels[level - 1])

        # No row is compared with itself: off with the slopes in the norms of whole products.
        every = self._squared_norms()
        self._of_picked.addcmul_(self._picked, (every / self._norms[:, :-1]).unsqueeze(2), value=-1.0)
        picks = self._picks if turn is None else self._picks[turn]
        flat = of_picked.view(*several[:-1], -1, width * batch.size)
        of_features = (picks.flatten(0, 1).T @ flat).view(self._features.shape)
        self._add_slopes_of_draw(of_features, draw, kept, where.chances, slopes)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the distance of the draw whose slopes were taken last, a mean over the embeddings of its step."""
        turn = self._turn(step)
        aims, rest = self._aims_of(turn), self._rest if turn is None else self._rest[..., turn]
        embedding = self._embedding.view(aims.shape)
        squared = torch.addcmul(aims, embedding, self._scale, value=0.5).mul_(embedding).sum(dim=(-2, -1))
        norms = self._squared_norms().view(*rest.shape, -1).sum(dim=-1)
        return (squared + rest).sub_(norms, alpha=0.5).sum(dim=-1)

    def _turn(self, step: Tensor) -> Tensor | None:
        """Return which embeddings count in a step; None if all do."""
        # Indexing by a tensor without dimensions would wait for its number.
        return None if self._turns is None else self._turns.index_select(0, (step % self._count).view(1))[0]

    def _aims_of(self, turn: Tensor | None) -> Tensor:
        """Return what was released in a turn, times its weight in slopes, (..., embeddings, classes, features)."""
        return self._aims if turn is None else self._aims.index_select(-3, turn)

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

    def _write_features(self, draw: Draw, where: _Where) -> tuple[Tensor, Tensor] | None:
        """Write every column's expected features; return those of values, and how those of the next place differ."""
        features, kept = self._features, None
        n = len(self._layout.continuous)
        if n:
            below, differences = self._table[:, :, where.below].movedim(1, -2)
            here, left = features[..., :n, : below.shape[-2], :], where.left.unsqueeze(-2)
            if where.chances is None:
                on_grid = torch.addcmul(below, left, differences, out=here)
            else:
                on_grid = torch.addcmul(below, left, differences)
                features[..., :n, :, :] = 0.0
                torch.mul(on_grid, where.chances.unsqueeze(-2), out=here)
            kept = on_grid, differences
        for number, rows, table in self._blocks:
            choices, here = draw.choices[number].transpose(-3, -2), features[..., rows, :, :]
            product(table.mT, choices, out=here, adds=self._layout.blocks[number].kind == "value")
        return kept

    def _write_embedding(self, turn: Tensor | None) -> tuple[list[Tensor], Tensor, Tensor]:
        """Write the features of the picked columns and the sums over the rows of each class of their products.

        Returns
        -------
        list of Tensor of shape (embeddings of all fits, 2, width^k, rows)
            Products of the first k columns of both sides.
        Tensor of shape (embeddings of all fits, features of the left side, rows)
        Tensor of the right side
        """
        half, picked = self._half, self._picked
        chosen = (self._chosen if turn is None else self._chosen[turn]).flatten()
        several = (*self._features.shape[:-3], -1, *self._features.shape[-2:])
        torch.index_select(self._features, -3, chosen, out=picked.view(several))
        factors = torch.unflatten(picked[:, : 2 * half], 1, (2, half))
        levels, left, right = [factors[:, :, 0]] if half else [], picked[:, -1], self._ones
        for level, side in enumerate(self._sides, start=1):
            every = torch.unflatten(side, 2, (-1, self._width))
            torch.mul(levels[-1].unsqueeze(3), factors[:, :, level].unsqueeze(2), out=every)
            levels.append(side)
        if half:
            both = levels[-1]
            if self._mask is not None:
                several = (*self._mask.shape[:-4], -1, *both.shape[1:])
                both = levels[-1] = (both.view(several) * self._mask).view_as(both)
            left, right = both[:, 0], both[:, 1]
            if self._is_odd:
                every = torch.unflatten(self._left, 1, (-1, self._width))
                torch.mul(left.unsqueeze(2), picked[:, None, -1], out=every)
                left = self._left
        first = 0
        for c, count in enumerate(self._batch.rows):
            rows = slice(first, first + count)
            torch.bmm(left[..., rows], right[..., rows].mT, out=self._embedding[:, c])
            first += count
        return levels, left, right

    def _squared_norms(self) -> Tensor:
        """Return the squared norm of every row's product, times its weight, (embeddings of all fits, 1, rows)."""
        torch.sum(self._picked.square(), dim=2, out=self._norms[:, :-1])
        return self._norms.prod(dim=1, keepdim=True)

    def _add_slopes_of_draw(
        self, of_features: Tensor, draw: Draw, kept: tuple[Tensor, Tensor] | None, chances: Tensor | None, slopes: Draw
    ) -> None:
        if kept is not None:
            on_grid, differences = kept
            n = len(self._layout.continuous)
            here = of_features[..., :n, : differences.shape[-2], :]
            of_values = torch.mul(here, differences, out=self._of_values).sum(dim=-2)
            if chances is None:
                slopes.values.addcmul_(of_values, self._grids.stretch)
            else:
                slopes.values.addcmul_(of_values * chances, self._grids.stretch)
                of_chances = torch.mul(here, on_grid, out=self._of_values).sum(dim=-2)
                for block, of_choices in zip(self._layout.blocks, slopes.choices, strict=True):
                    if block.kind == "value":
                        of_choices[..., 0, :, :] += of_chances[..., block.values, :]
        for number, rows, table in self._blocks:
            product(table, of_features[..., rows, :, :], out=slopes.choices[number].transpose(-3, -2), adds=True)
