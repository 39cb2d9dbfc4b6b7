"""Junction trees of random graphs: every set of columns has a home, and the cliques of a column hang together."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.models.junction_tree import ColumnSet, JunctionTree, triangulated_cliques


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> tuple[tuple[int, ...], list[ColumnSet]]:
    """Sizes of some columns, and sets of at most three of them."""
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=most)))
    columns = st.integers(0, len(sizes) - 1)
    subsets = draw(st.lists(st.sets(columns, min_size=1, max_size=3), max_size=14))
    return sizes, [tuple(sorted(subset)) for subset in subsets]


@given(graphs())
def test_every_subset_has_the_smallest_clique_that_holds_it(graph):
    sizes, subsets = graph
    tree = JunctionTree.of(sizes, subsets)
    for subset in subsets:
        home = tree.home(subset)
        assert home is not None
        assert set(subset) <= set(tree.cliques[home])
        holding = [clique for clique in tree.cliques if set(subset) <= set(clique)]
        assert tree.cells_of(tree.cliques[home]) == min(map(tree.cells_of, holding))


@given(graphs())
def test_cliques_hold_every_column_and_none_lies_within_another(graph):
    sizes, subsets = graph
    cliques = triangulated_cliques(sizes, subsets)
    assert set().union(*cliques) == set(range(len(sizes)))
    for clique in cliques:
        assert list(clique) == sorted(set(clique))
        assert not [other for other in cliques if other is not clique and set(clique) <= set(other)]


@given(graphs(), st.randoms(use_true_random=False))
def test_the_cliques_of_a_column_hang_together_in_whatever_order_they_come(graph, random):
    sizes, subsets = graph
    cliques = triangulated_cliques(sizes, subsets)
    random.shuffle(cliques)
    tree = JunctionTree(sizes, tuple(cliques))
    for column in range(len(sizes)):
        holding = {number for number, clique in enumerate(cliques) if column in clique}
        edges = [number for number in holding if tree.parents[number] in holding]
        # In a tree, n nodes with n - 1 edges among them are connected.
        assert len(edges) == len(holding) - 1


@given(graphs())
def test_parents_come_first_and_separators_are_what_is_shared(graph):
    tree = JunctionTree.of(*graph)
    assert sorted(tree.order) == list(range(len(tree.cliques)))
    place = {clique: number for number, clique in enumerate(tree.order)}
    assert tree.parents[tree.order[0]] == -1
    assert tree.separators[tree.order[0]] == ()
    for clique in tree.order[1:]:
        parent = tree.parents[clique]
        assert place[parent] < place[clique]
        assert clique in tree.children[parent]
        assert set(tree.separators[clique]) == set(tree.cliques[clique]) & set(tree.cliques[parent])
    assert sum(map(len, tree.children)) == len(tree.cliques) - 1


@given(graphs())
def test_cells_are_counted_once_a_clique(graph):
    tree = JunctionTree.of(*graph)
    assert tree.cells == sum(math.prod(tree.sizes[column] for column in clique) for clique in tree.cliques)


@pytest.mark.thorough
@settings(max_examples=30)
@given(graphs(most=6))
def test_no_pair_adds_more_cells_than_the_best_tree_needs(graph):
    sizes, subsets = graph
    tree = JunctionTree.of(sizes, subsets)
    for pair in itertools.combinations(range(len(sizes)), 2):
        if tree.home(pair) is not None:
            assert tree.growths[pair] == 0
        else:
            # The cliques of the tree joined by the pair, by the best of all orders of elimination.
            best = min(
                cells_by(order, sizes, [*tree.cliques, pair]) for order in itertools.permutations(range(len(sizes)))
            )
            assert best <= tree.cells + tree.growths[pair]


def cells_by(order, sizes: tuple[int, ...], subsets: list[ColumnSet]) -> int:
    """Cells of all cliques when columns are eliminated in a given order."""
    around = {column: set().union(*(one for one in subsets if column in one), {column}) for column in order}
    cliques: list[set[int]] = []
    for column in order:
        clique = around.pop(column)
        cliques.append(clique)
        for other in clique - {column}:
            around[other] = (around[other] | clique) - {column}
    largest = [one for one in cliques if not any(one < other for other in cliques)]
    return sum(math.prod(sizes[column] for column in clique) for clique in largest)


def test_columns_that_hang_together_with_nothing_get_a_table_of_their_own():
    tree = JunctionTree.of((2, 3, 4, 5), [(0, 1)])
    assert tree.growths[2, 3] == 20
    assert tree.growths[1, 3] == 15
    # Along a path the cheaper column goes: 0 joins (1, 2), or 2 joins (0, 1).
    assert JunctionTree.of((2, 3, 4), [(0, 1), (1, 2)]).growths[0, 2] == min(12, 18)


@pytest.mark.parametrize(
    ("sizes", "subsets", "cliques"),
    [
        ((2, 3, 4), [], {(0,), (1,), (2,)}),
        ((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3)], {(0, 1), (1, 2), (2, 3)}),
        ((2, 3, 4), [(0, 1), (1, 2), (0, 2)], {(0, 1, 2)}),
        # A cycle of four gets a chord between the two columns that are small.
        ((2, 9, 2, 9), [(0, 1), (1, 2), (2, 3), (0, 3)], {(0, 1, 2), (0, 2, 3)}),
        ((2, 3, 4), [(0, 1, 2), (0, 1), (2,)], {(0, 1, 2)}),
        ((7,), [(0,)], {(0,)}),
    ],
    ids=["nothing joined", "chain", "triangle", "cycle", "one within another", "one column"],
)
def test_known_graphs(sizes, subsets, cliques):
    assert set(triangulated_cliques(sizes, subsets)) == cliques


def test_columns_that_lie_in_no_clique_have_no_home():
    tree = JunctionTree.of((2, 3, 4), [(0, 1), (1, 2)])
    assert tree.home((0, 2)) is None
    assert tree.cliques[tree.home((1,))] == (0, 1)
