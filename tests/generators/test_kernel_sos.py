"""kernel-sos: which tables it takes, what it asks, how it makes rows of the answer, and what it shows of itself."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy.spatial import cKDTree
from simulated import check_domain, fitted, schema, session, task

from synth.errors import ConfigError
from synth.generators import make
from synth.generators.groups import numbers_and_groups
from synth.generators.sums_of_squares.kernel_sos import KernelSos, _bandwidths
from synth.models.sos_density import fourier_features
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, Schema

SMALL = {"features": 300, "support": 60, "steps": 60}
ROWS = 6000

SHAPES = Schema(
    (
        NumberColumn("x", 0, 100, 1),
        NumberColumn("y", 0, 1, 0.001, special=(-1.0,)),
        CategoryColumn("kind", ("ring", "line")),
    )
)
"""A ring and a line in the plane; a fifth of the lines have no y but the special value."""


def shapes(n: int = ROWS) -> dict[str, np.ndarray]:
    random = np.random.default_rng(4)
    kind = (random.random(n) < 0.4).astype(int)
    turn = random.random(n) * 2 * math.pi
    ring = 0.5 + 0.3 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    along = random.random(n)
    line = np.stack([0.2 + 0.6 * along, 0.8 - 0.6 * along], axis=1)
    plane = np.clip(np.where(kind[:, None] == 1, line, ring) + 0.03 * random.standard_normal((n, 2)), 0, 1)
    x, y = np.rint(plane * [100, 1000]).astype(int).T
    y[(kind == 1) & (random.random(n) < 0.2)] = 1001
    return {"x": x, "y": y, "kind": kind}


@functools.cache
def made(row_count: str = "public", epsilon: float = 3.0) -> tuple[KernelSos, np.ndarray]:
    declared = Schema(SHAPES.columns, row_count=row_count)
    opened = session(declared, shapes(), epsilon=epsilon)
    model = make("kernel-sos", task(declared, "kind"), SMALL).fit(opened, NullProgress())
    return model, model.sample(ROWS, seed=1)


# Which tables


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        (("region", "smoker", "outcome"), "outcome"),
        (("age", "visited", "region", "smoker", "outcome"), "region"),
        (("age", "income", "score", "smoker"), "smoker"),
    ],
    ids=["no number", "groups of three categories", "special values and missing cells of two, and a label"],
)
def test_other_tables_are_refused_in_one_sentence_that_names_another_generator(columns, label):
    declared = schema(*columns)
    with pytest.raises(ConfigError, match=r"needs 1 to 6 numbers or dates.*such as 'dp-hp-adaptive'") as refusal:
        make("kernel-sos", task(declared, label), {})
    assert "\n" not in str(refusal.value)


def test_seven_numbers_are_one_too_many():
    columns = tuple(NumberColumn(f"x{place}", 0, 9, 1) for place in range(7))
    make("kernel-sos", task(Schema(columns[:6]), None), {})
    with pytest.raises(ConfigError, match="1 to 6 numbers"):
        make("kernel-sos", task(Schema(columns), None), {})


def test_a_label_of_few_numbers_tells_rows_apart_and_one_of_many_is_a_number():
    declared = Schema((NumberColumn("stars", 1, 5, 1), NumberColumn("x", 0, 9, 1)))
    numbers, axes = numbers_and_groups(declared, "stars", 4)
    assert [one.name for one in numbers] == ["stars", "x"]
    assert axes == ()
    numbers, axes = numbers_and_groups(declared, "stars", 5)
    assert [one.name for one in numbers] == ["x"]
    assert [(one.column.name, one.size, one.code(3), one.words(3)) for one in axes] == [("stars", 5, 3, "stars 4")]


# What it asks


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("row_count", "label", "most"),
    [
        ("public", None, 2.0),
        ("private", None, 1.0),
        ("public", "kind", math.sqrt(0.95 * 4 + 0.05 * 2)),
        ("private", "kind", 1.0),
    ],
)
def test_one_question_moves_by_the_length_of_one_row(row_count, label, most):
    names = ("x", "kind") if label else ("x",)
    declared = Schema(
        tuple(column for column in SHAPES.columns if column.name in names),
        PrivacyUnit(rows_per_unit=1),
        row_count=row_count,
    )
    opened = session(declared, shapes(200))
    make("kernel-sos", task(declared, label), SMALL).fit(opened, NullProgress())
    (receipt,) = [one for one in opened.receipts if one.query == "mean embedding"]
    assert most * 0.99 <= receipt.sensitivity <= most * 1.001
    assert receipt.dimension == 300 * (2 if label else 1) + (0 if label is None and row_count == "public" else 1) * (
        2 if label else 1
    )


def test_what_is_asked_is_the_mean_that_densities_are_fitted_to():
    declared = Schema(SHAPES.columns[:1])
    model = make("kernel-sos", task(declared, None), SMALL)
    codes = np.array([0, 31, 100])
    asked = model._map.evaluate({"x": codes})
    # A range is read as 256 places, so a code lies within half of one of them.
    read = np.rint(255 * codes / 100)[:, None] / 255
    assert np.allclose(asked, fourier_features(read, model._radians), atol=1e-6)


def test_a_cell_beside_the_grid_is_seen_by_no_frequency():
    model = make("kernel-sos", task(SHAPES, "kind"), SMALL)
    special = model._map.evaluate({"x": np.array([40]), "y": np.array([1001])})
    lowest = model._map.evaluate({"x": np.array([40]), "y": np.array([0])})
    assert np.array_equal(special, lowest)
    groups = [(model._name(group), model._on_grid(group)) for group in range(4)]
    assert groups == [
        ("y in its range, kind ring", (0, 1)),
        ("y in its range, kind line", (0, 1)),
        ("y -1.000, kind ring", (0,)),
        ("y -1.000, kind line", (0,)),
    ]


# What it makes


@pytest.mark.thorough
@pytest.mark.parametrize("row_count", ["public", "private"])
def test_groups_are_drawn_in_their_parts_and_cells_beside_the_grid_come_back(row_count):
    model, rows = made(row_count)
    check_domain(rows, SHAPES, ROWS)
    true = shapes()
    for kind in (0, 1):
        for special in (False, True):
            expected = np.mean((true["kind"] == kind) & ((true["y"] == 1001) == special))
            found = np.mean((rows[:, 2] == kind) & ((rows[:, 1] == 1001) == special))
            assert abs(found - expected) < 0.02  # noise of some 20 rows of 6,000
    if row_count == "public":
        assert model.state()["rows"].sum() == pytest.approx(ROWS, abs=30)


@pytest.mark.thorough
def test_shapes_are_kept_by_class():
    _, rows = made()
    here = rows[:, 1] <= 1000
    distance = np.hypot(rows[:, 0] / 100 - 0.5, rows[:, 1] / 1000 - 0.5)
    ring, line = (here & (rows[:, 2] == kind) for kind in (0, 1))
    assert np.mean(np.abs(distance[ring] - 0.3) < 0.12) > 0.85  # .03 of noise, and a kernel of .06
    assert np.corrcoef(rows[line, 0], rows[line, 1])[0, 1] < -0.9


@pytest.mark.thorough
def test_a_group_drowned_in_noise_has_the_shape_of_all():
    random = np.random.default_rng(0)
    declared = Schema((NumberColumn("x", 0, 255, 1), CategoryColumn("kind", ("many", "few"))))
    codes = {"x": np.clip(random.normal(60, 12, 5000), 0, 255).astype(int), "kind": np.repeat([0, 1], [4990, 10])}
    opened = session(declared, codes, epsilon=0.5)
    model = make("kernel-sos", task(declared, "kind"), SMALL).fit(opened, NullProgress())
    model._probabilities = np.array([0.5, 0.5])
    rows = model.sample(2000, seed=0)
    few = rows[rows[:, 1] == 1, 0]
    assert abs(np.median(few) - 60) < 15  # by its own noise alone it would be anywhere


@pytest.mark.thorough
def test_a_narrow_bandwidth_can_be_asked_for():
    model, _ = fitted("kernel-sos", Schema(SHAPES.columns[:1]), shapes(400), label=None)
    declared = Schema(SHAPES.columns[:1])
    opened = session(declared, shapes(400))
    narrow = make("kernel-sos", task(declared, None), {**SMALL, "bandwidth": "0.06"}).fit(opened, NullProgress())
    assert narrow.state()["fit.0"][0] == 0.06
    assert model.state()["fit.0"][0] in {0.06, 0.09, 0.14, 0.2}


# What it shows


def test_no_kernel_is_tried_that_leaves_holes_between_support_points():
    """Half the way to the nearest of as many random points, found by drawing them on a torus, which has no edge."""
    random = np.random.default_rng(5)
    for columns, narrowest in ((2, 0.06), (5, 0.14), (6, 0.2)):
        tree = cKDTree(random.random((200, columns)), boxsize=1)
        half_a_way = tree.query(tree.data, k=2)[0][:, 1].mean() / 2
        tried = _bandwidths(200, columns)
        assert min(tried) == narrowest
        assert all((one in tried) == (one >= half_a_way) for one in (0.06, 0.09, 0.14)), (columns, half_a_way)


@pytest.mark.thorough
def test_pictures_show_what_is_drawn():
    model, rows = made()
    pictures = {one.name: one for one in model.pictures()}
    assert set(pictures) == {"density_0_1", "density_of_0", "density_of_1"}
    ring = pictures["density_of_0"]
    assert (ring.across, ring.up, ring.title) == ("x", "y", "Density of x and y where y in its range, kind ring")
    shown = np.array(ring.values).T
    assert shown.sum() == pytest.approx(100, abs=0.1)
    kept = rows[(rows[:, 2] == 0) & (rows[:, 1] <= 1000)]
    edges = [np.arange(25) * size // 24 for size in (101, 1001)]
    drawn = np.histogram2d(kept[:, 0], kept[:, 1], bins=edges)[0] / len(kept) * 100
    assert np.abs(shown - drawn).sum() / 200 < 0.12  # 3,600 rows in some 250 cells
    assert ring.columns[0] == 1.0  # the middle of 0, 1, 2 and 3, rounded down


def test_one_number_is_shown_by_group_and_facts_hold_the_fit():
    declared = Schema((SHAPES.columns[0], SHAPES.columns[2]))
    model, _ = fitted("kernel-sos", declared, shapes(2000), label="kind")
    (picture,) = model.pictures()
    assert (picture.across, picture.up, picture.rows) == ("x", "group", ("kind ring", "kind line"))
    assert all(sum(line) == pytest.approx(100, abs=0.1) for line in picture.values)
    (fact,) = model.facts()
    assert fact.header[0] == "group"
    assert [row[0] for row in fact.rows] == ["kind ring", "kind line"]
    assert sum(float(row[1]) for row in fact.rows) == pytest.approx(1, abs=0.001)
    assert 0.5 < float(fact.value) <= 1
