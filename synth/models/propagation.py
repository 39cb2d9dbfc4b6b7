"""Belief propagation on a junction tree (Koller and Friedman 2009, algorithm 10.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from synth.models.field_tables import table_within
from synth.models.junction_tree import JunctionTree, Subset

__all__ = ["calibrated"]


def calibrated(tree: JunctionTree, potentials: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Turn the potentials of the cliques into their joint proportions.

    Parameters
    ----------
    tree : JunctionTree
    potentials : list of tensors
        Logarithmic factor of every clique, axes in order of its columns.

    Returns
    -------
    list of tensors
        Beliefs, each with sum 1.
    tensor
        Logarithm of the normaliser of the product of all factors.

    Notes
    -----
    Factors are multiplied, not added as logarithms: messages are scaled to 1 on the way up, so that nothing overflows,
    and what underflows is nothing.
    """
    beliefs: list[Tensor] = list(potentials)
    upward: list[Tensor] = list(potentials)
    log_normaliser = torch.zeros((), dtype=potentials[0].dtype, device=potentials[0].device)
    for clique in reversed(tree.order):
        columns, top = tree.cliques[clique], potentials[clique].max()
        product = (potentials[clique] - top).exp_()
        for child in tree.children[clique]:
            product *= _spread(upward[child], tree.separators[child], columns, tree.sizes)
        message = table_within(product, columns, tree.separators[clique])
        largest = message.max()
        upward[clique], beliefs[clique] = message / largest, product.div_(largest)
        log_normaliser += top + largest.log()
    for clique in tree.order:
        for child in tree.children[clique]:
            separator = tree.separators[child]
            downward = table_within(beliefs[clique], tree.cliques[clique], separator)
            # Where nothing came up, nothing is there to be scaled.
            ratio = torch.where(upward[child] > 0, downward / upward[child].clamp_min(1e-300), 0.0)
            beliefs[child] *= _spread(ratio, separator, tree.cliques[child], tree.sizes)
    return beliefs, log_normaliser


def _spread(message: Tensor, separator: Subset, clique: Subset, sizes: tuple[int, ...]) -> Tensor:
    return message.reshape([sizes[column] if column in separator else 1 for column in clique])
