"""A feature map written out as blocks: each block is a weight times a product of leaves, at known places of the answer.

A product of stacks is a stack of products, so every map has this form. Bounds and sums are worked out block by block.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.features import FeatureMap, Leaf, Product, Stack
from synth.privacy.leaves import Constant, Fourier, Lookup, OneHot
from synth.privacy.more.forests import Forest
from synth.privacy.more.row_moments import RowMoments

__all__ = ["Term", "terms_of"]

MAXIMUM_TERMS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One block of a map: ``weight`` times the product of ``leaves``.

    ``places`` is an int64 array of shape (dimension,): where the block's features, first leaf slowest, stand in the
    answer.
    """

    weight: float
    leaves: tuple[Leaf, ...]
    places: NDArray[np.int64]

    def __post_init__(self) -> None:
        others = len(self.leaves) - len(self.cells)
        if self.moments is not None and others - sum(isinstance(leaf, Constant) for leaf in self.leaves) > 1:
            raise PrivacyError("The moments of rows can be multiplied by tables of counts only; use one per product.")
        if self.fourier is not None and others - sum(isinstance(leaf, Constant) for leaf in self.leaves) > 1:
            raise PrivacyError("A Fourier map can be multiplied by tables of counts only; use one per product.")

    @property
    def cells(self) -> tuple[OneHot | Forest, ...]:
        """The one-hot factors: tables of counts, and bins of predictions."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, OneHot | Forest))

    @property
    def tables(self) -> tuple[Lookup, ...]:
        """The lookup factors."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, Lookup))

    @property
    def fourier(self) -> Fourier | None:
        """The Fourier factor, if there is one."""
        return next((leaf for leaf in self.leaves if isinstance(leaf, Fourier)), None)

    @property
    def moments(self) -> RowMoments | None:
        """The factor that is moments of whole rows, if there is one."""
        return next((leaf for leaf in self.leaves if isinstance(leaf, RowMoments)), None)

    @property
    def n_cells(self) -> int:
        """Number of cells of all one-hot factors together."""
        return math.prod(leaf.dimension for leaf in self.cells)

    @property
    def is_exact(self) -> bool:
        """Whether the block's features need no rounding beyond that of its one table and weight."""
        return self.fourier is None and self.moments is None and len(self.tables) <= 1

    @property
    def sides(self) -> tuple[tuple[Lookup, ...], tuple[Lookup, ...]]:
        """The lookup factors cut in two so that both sides are about equally wide; for two or more of them."""
        widths = [table.dimension for table in self.tables]
        cuts = range(1, len(widths))
        cut = min(cuts, key=lambda place: math.prod(widths[:place]) + math.prod(widths[place:]))
        return self.tables[:cut], self.tables[cut:]

    def arranged(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bring sums of shape (n_cells, other features) into the order of ``leaves``, shape (dimension,)."""
        others = [leaf for leaf in self.leaves if not isinstance(leaf, OneHot | Forest)]
        stored = [*self.cells, *others]
        order = [next(place for place, leaf in enumerate(stored) if leaf is wanted) for wanted in self.leaves]
        if len(set(order)) < len(order):  # the same map object given twice: any assignment of its axes is right
            order = _distinct_order(stored, self.leaves)
        return sums.reshape([leaf.dimension for leaf in stored]).transpose(order).reshape(-1)


def terms_of(feature_map: FeatureMap) -> tuple[Term, ...]:
    """Write a map out as blocks whose places together are every place of the answer once."""
    if isinstance(feature_map, Stack):
        starts = np.cumsum([0, *(part.dimension for part in feature_map.parts)])
        return tuple(
            Term(weight * term.weight, term.leaves, start + term.places)
            for part, weight, start in zip(feature_map.parts, feature_map.weights, starts, strict=False)
            for term in terms_of(part)
        )
    if isinstance(feature_map, Product):
        return _product_terms(feature_map)
    if not isinstance(feature_map, Leaf):
        raise PrivacyError(
            "A question must be a feature map: Lookup, OneHot, Forest, Fourier, Constant, RowMoments, Stack or Product."
        )
    return (Term(1.0, (feature_map,), np.arange(feature_map.dimension)),)


def _product_terms(product: Product) -> tuple[Term, ...]:
    expanded = [terms_of(factor) for factor in product.factors]
    if math.prod(len(terms) for terms in expanded) > MAXIMUM_TERMS:
        raise PrivacyError(f"A product of stacks may have at most {MAXIMUM_TERMS:,} blocks; stack fewer parts.")
    combined = []
    for terms in itertools.product(*expanded):
        places = np.zeros(1, dtype=np.int64)
        for factor, term in zip(product.factors, terms, strict=True):
            places = (places[:, None] * factor.dimension + term.places[None, :]).reshape(-1)
        leaves = tuple(leaf for term in terms for leaf in term.leaves)
        combined.append(Term(math.prod(term.weight for term in terms), leaves, places))
    return tuple(combined)


def _distinct_order(stored: list[Leaf], wanted: tuple[Leaf, ...]) -> list[int]:
    left = list(enumerate(stored))
    order = []
    for leaf in wanted:
        entry = next(entry for entry in left if entry[1] is leaf)
        left.remove(entry)
        order.append(entry[0])
    return order
