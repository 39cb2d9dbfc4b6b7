r"""How far one person can move a sum, computed from the data of the map.

Two numbers describe a map: its norm :math:`\max_x |\phi(x)|` and its diameter :math:`\max_{x, x'} |\phi(x) -
\phi(x')|`. For tables both are read off the whole-number entries exactly. For products the closure lemma is used:
maps with norm at most 1 and squared diameter at most 2 keep both under outer products and under stacks whose squared
weights add up to at most 1 (``docs/proofs/sensitivity.md``). Rounding of products and weights is added as a slack. No
bound is taken from a generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synth.errors import PrivacyError
from synth.privacy.features import Leaf
from synth.privacy.leaves import LEAF_BITS, Fourier, Lookup, OneHot
from synth.privacy.more.forests import Forest
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.terms import Term

__all__ = ["Bound", "bound_of"]

EXACT_BINS = 4096
"""Up to this many bins every pair of table rows is compared; above, twice the norm bounds the diameter."""

BLOCK = 512
SAFETY = 1 + 1e-12
"""Covers the float64 arithmetic of this module, which has far fewer than a thousand roundings on any path."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Largest norm of a row's features, and largest distance between the features of two rows."""

    norm: float
    diameter: float


def bound_of(terms: Sequence[Term], *, half_bits: int) -> Bound:
    """Bound the whole-number features of a map that is summed on a grid of step 2^-(2 half_bits).

    Parameters
    ----------
    terms : sequence of Term
        The map, written out as blocks.
    half_bits : int
        Bits of each side of a product of tables.

    Returns
    -------
    Bound
        In units of the answer.

    Raises
    ------
    PrivacyError
        If a table is longer than 1 or off its grid, which happens only when a map was altered after it was made.
    """
    bounds = [_bound_of_term(term, half_bits) for term in terms]
    norm = math.sqrt(sum(bound.norm**2 for bound in bounds))
    diameter = math.sqrt(sum(bound.diameter**2 for bound in bounds))
    return Bound(norm * SAFETY, min(diameter, 2 * norm) * SAFETY)


def _bound_of_term(term: Term, half_bits: int) -> Bound:
    leaves = [_bound_of_leaf(leaf) for leaf in term.leaves]
    norm = term.weight * math.prod(leaf.norm for leaf in leaves)
    slack = _rounding_of_sides(term, half_bits)
    norm += slack
    if term.moments is not None:
        diameter = term.weight * _bound_of_leaf(term.moments).diameter
        return Bound(norm, max(diameter, math.sqrt(2) * norm if term.n_cells > 1 else 0.0))
    if term.fourier is not None:
        return Bound(norm, 2 * norm)
    tables = [_bound_of_leaf(table) for table in term.tables]
    if len(tables) <= 1:
        same_cell = term.weight * sum(table.diameter for table in tables)
        if tables and term.weight != 1.0:
            # Truncated entries of two rows differ from the exact ones by less than one grid step each.
            same_cell += 2 * 2.0 ** (-2 * half_bits) * math.sqrt(term.tables[0].dimension)
    elif all(table.norm <= 1 and table.diameter**2 <= 2 * SAFETY for table in tables):
        same_cell = term.weight * math.sqrt(2) + 2 * slack
    else:
        same_cell = 2 * norm
    # Rows in different cells have features at right angles.
    different_cell = math.sqrt(2) * norm if term.n_cells > 1 else 0.0
    return Bound(norm, max(same_cell, different_cell))


def _polynomial_bound(weights: tuple[float, float, float]) -> Bound:
    r"""Bound the powers of vectors of length at most 1, whose inner products are w0^2 + w1^2 s + w2^2 s^2."""
    constant, linear, quadratic = (weight**2 for weight in weights)
    # The least that the inner product can be, apart from the constant; docs/proofs/sensitivity.md.
    least = -(linear**2) / (4 * quadratic) if linear < 2 * quadratic else quadratic - linear
    return Bound(math.sqrt(constant + linear + quadratic), math.sqrt(2 * (linear + quadratic - least)))


def _rounding_of_sides(term: Term, half_bits: int) -> float:
    """Bound how far a product of two rounded sides lies from the product itself; sides have norm at most 1."""
    if len(term.tables) <= 1:
        return 0.0
    widths = [math.prod(table.dimension for table in side) for side in term.sides]
    left, right = (2.0 ** -(half_bits + 1) * math.sqrt(width) for width in widths)
    return left + right + left * right


def _bound_of_leaf(leaf: Leaf) -> Bound:
    if isinstance(leaf, Lookup):
        return _bound_of_table(leaf)
    if isinstance(leaf, OneHot | Forest):
        return Bound(1.0, math.sqrt(2) if leaf.dimension > 1 else 0.0)
    if isinstance(leaf, Fourier):
        from synth.privacy.more.fourier_sums import (
            longest_pair,  # brings torch, which other questions are checked without
        )

        norm = leaf.scale * math.sqrt(len(leaf.frequencies)) * longest_pair()
        return Bound(norm, 2 * norm)
    if isinstance(leaf, RowMoments):
        return _polynomial_bound(leaf.weights)
    return Bound(1.0, 0.0)


def _bound_of_table(lookup: Lookup) -> Bound:
    table = lookup.table if lookup.bins is None else lookup.table[np.unique(lookup.bins)]
    whole = table * 2.0**LEAF_BITS
    if not (np.isfinite(whole).all() and (whole == np.trunc(whole)).all() and np.abs(whole).max() <= 2**LEAF_BITS):
        raise PrivacyError(f"The table of '{lookup.column}' was altered after the map was made; make a new map.")
    # Exact: whole numbers whose partial sums stay below 2^42.
    squares = (whole * whole).sum(axis=1)
    if squares.max() > 2.0 ** (2 * LEAF_BITS):
        raise PrivacyError(f"The table of '{lookup.column}' has a row longer than 1; make a new map from it.")
    longest = float(squares.max())
    farthest = 4 * longest
    if len(whole) <= EXACT_BINS:
        farthest = max(
            float((squares[start : start + BLOCK, None] + squares - 2 * (whole[start : start + BLOCK] @ whole.T)).max())
            for start in range(0, len(whole), BLOCK)
        )
    return Bound(math.sqrt(longest) / 2**LEAF_BITS, math.sqrt(farthest) / 2**LEAF_BITS)
