"""The Bayesian network: which parents are offered, what is chosen, how rows are drawn, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated import dependent_codes, fitted, schema, schema_for, session, task

from synth import generators
from synth.errors import ConfigError
from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.one_way_marginals import measure_one_way_marginals
from synth.generators.privbayes.network import Families
from synth.generators.privbayes.privbayes import _Conditional, _fitted
from synth.generators.sampling import random_source
from synth.privacy.answers import of_kind
from synth.privacy.more.dependence import Dependence
from synth.privacy.selection import Selection
from synth.progress import NullProgress
from synth.schema import CategoryColumn, Schema, YesNoColumn


def families_of(cells: float, *, most_parents: int = 3) -> Families:
    declared = schema()
    opened = session(declared, dependent_codes(2000))
    one_ways = measure_one_way_marginals(opened, declared.modelled, label=None, share=0.5, source="test")
    bins = coarsen(one_ways, Coarseness(bins=12))
    return Families(declared.modelled, bins, cells=cells, most_parents=most_parents, seed=0)


@pytest.mark.parametrize("cells", [5.0, 40.0, 300.0, 5000.0])
def test_no_table_has_more_cells_than_are_useful(cells: float) -> None:
    families = families_of(cells)
    offered = families.offered([0, 3, 6], [1, 2, 4, 5])
    sizes = [families.one_hot(family).dimension for family in offered]
    assert all(size <= cells for size in sizes)
    assert bool(offered) == (cells >= 6)
    assert len({(one.child, one.parents, one.own_parts) for one in offered}) == len(offered)


def test_a_set_to_which_a_parent_can_be_added_is_left_out() -> None:
    offered = families_of(1e9, most_parents=2).offered([0], [1, 2, 4])
    assert {one.parents for one in offered} == {(1, 2), (1, 4), (2, 4)}
    assert {one.parts for one in offered} == {0}


def test_families_beyond_a_number_are_drawn_by_the_public_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    from synth.generators.privbayes import network

    monkeypatch.setattr(network, "_MOST_CANDIDATES", 1)
    monkeypatch.setattr(network, "_FEWEST_CANDIDATES", 4)
    first, again = (families_of(300.0).offered([0, 3, 6], [1, 2, 4, 5]) for _ in range(2))
    assert first == again
    assert len(first) == 4


def chain(n_rows: int = 6000) -> tuple[Schema, dict[str, np.ndarray]]:
    """b follows a, c follows b, and d is the exclusive or of a and e: no pair with d says anything."""
    random = np.random.default_rng(2)
    names = ("a", "b", "c", "e", "d")
    a, e = random.integers(0, 2, (2, n_rows))
    b = np.where(random.random(n_rows) < 0.9, a, 1 - a)
    c = np.where(random.random(n_rows) < 0.9, b, 1 - b)
    declared = Schema(tuple(YesNoColumn(name, fallback="no") for name in names), row_count="private")
    return declared, dict(zip(names, (a, b, c, e, a ^ e), strict=True))


@pytest.mark.parametrize("score", ["R", "F"])
def test_relations_of_two_and_of_three_columns_are_found(score: str) -> None:
    declared, codes = chain()
    opened = session(declared, codes, epsilon=4.0)
    made = generators.make("privbayes", task(declared, None), {"score": score, "parents": 2})
    rows = made.fit(opened.sub_session(opened.remaining_share), NullProgress()).sample(6000, seed=1)
    a, b, c, e, d = rows.T
    assert np.mean(a == b) == pytest.approx(0.9, abs=0.04)
    assert np.mean(b == c) == pytest.approx(0.9, abs=0.04)
    assert np.mean((a ^ e) == d) > 0.93
    assert abs(np.mean(a == e) - 0.5) < 0.06
    assert {one.candidate.score for one in of_kind(opened.answers, Selection) if isinstance(one.candidate, Dependence)}
    bound = {one.receipt.sensitivity for one in of_kind(opened.answers, Selection)}
    assert bound == {2.0 if score == "R" else 1.0}


def test_score_f_is_refused_for_longer_columns_before_anything_is_asked() -> None:
    with pytest.raises(ConfigError, match="at most two values") as refusal:
        generators.make("privbayes", task(schema()), {"score": "F"})
    assert "\n" not in str(refusal.value)


def test_columns_are_independent_where_noise_would_hide_every_pair() -> None:
    declared = schema_for("privbayes", row_count="private")
    made, opened = fitted("privbayes", declared, dependent_codes(60), epsilon=0.05)
    assert [receipt.query for receipt in opened.receipts] == [
        "number of rows",
        "one-way tables",
        "one-way tables again (1)",
    ]
    assert opened.remaining_share < 1e-6
    (network,) = made.facts()
    assert network.value == 0
    assert {row[1] for row in network.rows} == {"none"}


def test_columns_without_a_common_parent_are_drawn_apart_given_it() -> None:
    """Rows of one cell of the parents are dealt at random: two children of one parent are independent given it."""
    chances = np.array([[0.5, 0.5], [0.2, 0.8]])
    one = _Conditional((0,), (np.array([0, 1], dtype=np.int32),), chances)
    random = random_source(3)
    rows = np.zeros((40_000, 3), dtype=np.int64)
    rows[:, 0] = np.arange(40_000) % 2
    rows[:, 1], rows[:, 2] = one.draw(rows, random), one.draw(rows, random)
    for value in (0, 1):
        inside = rows[rows[:, 0] == value]
        # Counts are those expected, to within a row.
        assert abs(int(inside[:, 1].sum()) - 20_000 * chances[value, 1]) <= 1
        both = np.mean(inside[:, 1] & inside[:, 2])
        expected = chances[value, 1] ** 2
        assert abs(both - expected) < 5 * math.sqrt(expected / 20_000)


def test_what_has_no_chance_is_never_drawn() -> None:
    one = _Conditional((), (), np.array([[0.0, 0.3, 0.0, 0.7, 0.0]]))
    drawn = one.draw(np.zeros((5000, 1), dtype=np.int64), random_source(0))
    assert np.bincount(drawn, minlength=5).tolist() == [0, 1500, 0, 3500, 0]


def test_tables_agree_with_their_columns() -> None:
    random = np.random.default_rng(1)
    margins = [random.dirichlet(np.ones(size)) for size in (4, 3, 2)]
    noisy = random.dirichlet(np.ones(24)) + random.normal(0, 0.01, 24)
    joint = _fitted(noisy, margins)
    assert joint.min() > 0
    for axis, margin in enumerate(margins):
        others = tuple(other for other in range(3) if other != axis)
        np.testing.assert_allclose(joint.sum(axis=others), margin, atol=0.01)


def test_a_category_with_no_rows_does_not_stop_a_fit() -> None:
    names = tuple(map(str, range(6)))
    declared = Schema(tuple(CategoryColumn(name, names) for name in ("x", "y", "z")), row_count="private")
    x = np.arange(3000) % 2
    codes = {"x": x, "y": x * 5, "z": (x + 1) % 2}
    opened = session(declared, codes, epsilon=8.0)
    made = generators.make("privbayes", task(declared, None), {})
    rows = made.fit(opened.sub_session(opened.remaining_share), NullProgress()).sample(2000, seed=0)
    assert np.mean(rows[:, 1] == 5 * rows[:, 0]) > 0.9
