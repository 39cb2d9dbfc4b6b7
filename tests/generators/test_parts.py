"""The parts that generators share, each against a slow and obvious way of doing the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from simulated import COLUMNS, schema

from synth.generators.coarse_grid import coarse_grid, stairs
from synth.generators.fourier import dp_merf
from synth.generators.fourier.dp_merf import ExpectedFourier
from synth.generators.hermite.dp_hp import ExpectedTables, ProductEmbeddings, SumEmbedding
from synth.generators.neural import ClassBatch, Draw, OutputHeads
from synth.generators.sampling import random_source, rounded_counts
from synth.generators.stacked import column_weights
from synth.privacy.more.fourier import Fourier
from synth.schema import NumberColumn, Weight
from synth.system.machine import single_thread

CPU = torch.device("cpu")


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 10)),
    st.integers(1, 10_000),
    st.integers(0, 2**32),
)
def test_rounded_counts_add_up_and_are_neighbours_of_their_expectation(weights, total, seed):
    probabilities = (weights + 1e-6) / (weights + 1e-6).sum()
    counts = rounded_counts(probabilities, total, random_source(seed))
    assert counts.sum() == total
    assert (np.abs(counts - probabilities * total) <= 1 + 1e-6).all()


def test_rounded_counts_are_right_on_average():
    probabilities = np.array([0.05, 0.333, 0.617])
    random = random_source(0)
    mean = np.mean([rounded_counts(probabilities, 7, random) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(mean, 7 * probabilities, atol=0.05)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=lambda column: column.name)
@pytest.mark.parametrize(("grid", "atoms"), [(1, 1), (7, 2), (4096, 4096)])
def test_places_cover_every_code_once(column, grid, atoms):
    places = coarse_grid(column, grid=grid, atoms=atoms)
    bins = np.arange(column.size) if places.bins is None else places.bins.plain()
    assert len(bins) == column.size
    assert places.levels <= grid
    assert places.atoms <= atoms
    assert (bins[: column.levels] < places.levels).all()
    assert (bins[column.levels :] >= places.levels).all()
    for uniform in (0.0, 0.5, 1 - 1e-16):
        codes = places.codes(np.arange(places.size), np.full(places.size, uniform))
        np.testing.assert_array_equal(bins[codes], np.arange(places.size))


def test_important_columns_get_a_larger_part():
    columns = tuple(NumberColumn(weight.value, 0, 1, 1, weight=weight) for weight in Weight)
    weights = np.array(column_weights(columns))
    assert (weights**2).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights**2 / weights[1] ** 2, [0.5, 1.0, 2.0])


def some_draw(layout: OutputHeads, batch: int, seed: int = 0) -> Draw:
    source = torch.Generator().manual_seed(seed)
    outputs = torch.randn(batch, layout.outputs, generator=source)
    return layout.draw(outputs, torch.randn(batch, len(layout.continuous), generator=source))


def picked_values(layout: OutputHeads, draw: Draw, row: int, d: int) -> list[tuple[float, float, int]]:
    """Every way to draw column d in a row: (probability, value in [0, 1], place or -1 for the value itself)."""
    head = layout.heads[d]
    probabilities = draw.choices[d][row].tolist()
    if not head.is_continuous:
        return [(p, float("nan"), place) for place, p in enumerate(probabilities)]
    value = float(draw.values[row, layout.continuous.index(d)])
    atoms = [(p, float("nan"), head.grid.levels + atom) for atom, p in enumerate(probabilities[1:])]
    return [(probabilities[0], value, -1), *atoms]


def test_probabilities_and_values_are_what_they_say():
    layout = OutputHeads(schema(), "outcome")
    draw = some_draw(layout, 50)
    assert len(draw.choices) == len(schema().names) - 1
    for head, choices in zip(layout.heads, draw.choices, strict=True):
        assert choices.shape == (50, head.choices)
        torch.testing.assert_close(choices.sum(dim=1), torch.ones(50))
    assert draw.values.shape == (50, len(layout.continuous))
    assert float(draw.values.min()) >= 0
    assert float(draw.values.max()) <= 1


def test_drawn_codes_follow_the_probabilities():
    layout = OutputHeads(schema(), "outcome")
    draw = some_draw(layout, 1)
    repeated = Draw([c.double().repeat(20_000, 1) for c in draw.choices], draw.values.double().repeat(20_000, 1))
    picking, inside = random_source(0).random((2, 20_000, len(layout.heads)))
    codes = layout.codes(layout.picked(repeated, torch.from_numpy(picking)).numpy(), inside)
    for d, head in enumerate(layout.heads):
        bins = np.arange(head.column.size) if head.grid.bins is None else head.grid.bins.plain()
        places = bins[codes[:, d]]
        if head.is_continuous:
            places = np.where(codes[:, d] < head.column.levels, 0, places - head.grid.levels + 1)
        frequencies = np.bincount(places, minlength=head.choices) / 20_000
        np.testing.assert_allclose(frequencies, draw.choices[d][0].numpy(), atol=0.02)


def test_expected_table_features_are_sums_over_every_way_to_draw():
    layout = OutputHeads(schema(), "outcome")
    random = np.random.default_rng(0)
    tables = [random.normal(size=(head.grid.size, 3 + d)) for d, head in enumerate(layout.heads)]
    draw = some_draw(layout, 4)
    expected = ExpectedTables(layout, tables, CPU)(draw)
    for row, d in itertools.product(range(4), range(len(tables))):
        total = np.zeros(tables[d].shape[1])
        for probability, value, place in picked_values(layout, draw, row, d):
            levels = layout.heads[d].grid.levels
            grid = np.arange(levels)
            on_grid = [
                np.interp(value * (levels - 1), grid, column[:levels]) if place < 0 else 0 for column in tables[d].T
            ]
            total += probability * (np.array(on_grid) if place < 0 else tables[d][place])
        np.testing.assert_allclose(expected[d][row].numpy(), total, atol=1e-3)


def test_expected_fourier_features_are_sums_over_every_way_to_draw():
    layout = OutputHeads(schema("age", "income", "score"), None)
    random = np.random.default_rng(0)
    frequencies = random.integers(-40, 40, size=(6, 3)).astype(np.int32)
    positions = tuple(random.integers(-300, 300, size=head.column.size).astype(np.int32) for head in layout.heads)
    feature_map = Fourier(columns=schema("age", "income", "score").names, positions=positions, frequencies=frequencies)
    draw = some_draw(layout, 3)
    got = ExpectedFourier(layout, feature_map, scale=255, device=CPU)(draw).numpy()
    for row in range(3):
        wave = np.zeros(6, dtype=complex)
        for ways in itertools.product(*(picked_values(layout, draw, row, d) for d in range(3))):
            probability = np.prod([way[0] for way in ways])
            where = [
                255 * value if place < 0 else positions[d][layout.heads[d].grid.first[place]]
                for d, (_, value, place) in enumerate(ways)
            ]
            wave += probability * np.exp(2j * np.pi / 4096 * (frequencies @ np.array(where)))
        exact = np.concatenate([wave.real, wave.imag]) * feature_map.scale
        np.testing.assert_allclose(got[row], exact, atol=1e-4)


def test_fourier_features_and_their_gradient_are_the_same_in_blocks_of_columns(monkeypatch):
    layout = OutputHeads(schema(), None)
    random = np.random.default_rng(0)
    columns = len(layout.heads)
    frequencies = random.integers(-40, 40, size=(6, columns)).astype(np.int32)
    positions = tuple(random.integers(-300, 300, size=head.column.size).astype(np.int32) for head in layout.heads)
    expected = ExpectedFourier(
        layout,
        Fourier(columns=schema().names, positions=positions, frequencies=frequencies),
        scale=255,
        device=CPU,
    )
    assert len(expected._mixed) > 2
    outcomes = []
    for together in (100, 2):
        monkeypatch.setattr(dp_merf, "_TOGETHER", together)
        draw = some_draw(layout, 3)
        leaves = [draw.values.requires_grad_(), *(choice.requires_grad_() for choice in draw.choices)]
        features = expected(draw)
        features.square().sum().backward()
        outcomes.append([features.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)])
    assert len(outcomes[0]) == len(outcomes[1]) > 2
    for whole, in_blocks in zip(*outcomes, strict=True):
        torch.testing.assert_close(whole, in_blocks)


def slow_unbiased(features: np.ndarray, batch: ClassBatch, target: np.ndarray) -> float:
    """The average over ordered pairs of different rows of a class."""
    total = 0.0
    weights = batch.weights.double().numpy()
    for c, row in enumerate(weights):
        rows = features[row > 0]
        mass = row.sum()
        pairs = [rows[i] @ rows[j] for i in range(len(rows)) for j in range(len(rows)) if i != j]
        total += mass**2 * np.mean(pairs) - 2 * mass * rows.mean(axis=0) @ target[:, c] + target[:, c] @ target[:, c]
    return total


def test_the_sum_distance_equals_the_slow_one():
    layout = OutputHeads(schema(), "outcome")
    random = np.random.default_rng(1)
    batch = ClassBatch(np.array([0.6, 0.3, 0.1]), batch_size=24, device=CPU)
    tables = [0.3 * random.normal(size=(head.grid.size, 4)) for head in layout.heads]
    target = random.normal(size=(4 * len(tables), 3))
    draw = some_draw(layout, batch.size)
    got = SumEmbedding(layout, tables, target=target, device=CPU).squared_distance(batch, draw)
    features = torch.cat(ExpectedTables(layout, tables, CPU)(draw), dim=1).double().numpy()
    assert float(got) == pytest.approx(slow_unbiased(features, batch, target), rel=1e-4)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_the_product_distance_equals_the_slow_one(depth):
    layout = OutputHeads(schema(), "outcome")
    random = np.random.default_rng(2)
    batch = ClassBatch(np.array([0.6, 0.3, 0.1]), batch_size=24, device=CPU)
    widths = [2 + d % 2 for d in range(len(layout.heads))]
    tables = [random.normal(size=(head.grid.size, w)) for head, w in zip(layout.heads, widths, strict=True)]
    sets = [tuple(range(first, first + depth)) for first in range(min(3, len(widths) - depth + 1))]
    answers = [random.normal(size=(*(widths[d] for d in chosen), 3)) for chosen in sets]
    draw = some_draw(layout, batch.size)
    products = ProductEmbeddings(layout, tables, column_sets=sets, answers=answers, device=CPU)
    by_column = [block.double().numpy() for block in ExpectedTables(layout, tables, CPU)(draw)]
    slow = []
    for chosen, answer in zip(sets, answers, strict=True):
        features = by_column[chosen[0]]
        for d in chosen[1:]:
            features = (features[:, :, None] * by_column[d][:, None, :]).reshape(len(features), -1)
        slow.append(slow_unbiased(features, batch, answer.reshape(-1, 3)))
    assert float(products.squared_distance(batch, draw, 0)) == pytest.approx(np.mean(slow), rel=1e-4)


def test_the_distance_is_unbiased():
    random = np.random.default_rng(3)
    batch = ClassBatch(np.array([1.0]), batch_size=16, device=CPU)
    target = torch.tensor([[0.3, -0.2]])
    estimates = []
    for _ in range(3000):
        rows = torch.tensor(random.normal([0.5, 0.1], 1.0, size=(batch.size, 2)), dtype=torch.float32)
        estimates.append(float(batch.squared_distance(batch.embedding(rows), rows.square().sum(dim=1), target)))
    exact = 0.2**2 + 0.3**2
    assert np.mean(estimates) == pytest.approx(exact, abs=6 * np.std(estimates) / np.sqrt(3000))


def test_every_class_is_in_every_batch():
    batch = ClassBatch(np.array([0.999, 0.001, 0.0]), batch_size=30, device=CPU)
    assert (batch.one_hot.sum(dim=0) >= 2).all()
    torch.testing.assert_close(batch.weights.sum(dim=1), torch.tensor([0.999, 0.001, 0.0]))


def test_one_thread_inside_and_the_old_number_outside():
    before = torch.get_num_threads()
    with single_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


@given(
    codes=st.integers(1, 5000), top=st.integers(1, 300), power=st.sampled_from([0.3, 1.0, 4.0]), low=st.integers(-9, 9)
)
@settings(max_examples=60, deadline=None)
def test_stairs_are_the_values_of_every_code(codes: int, top: int, power: float, low: int) -> None:
    def rises(code: np.ndarray) -> np.ndarray:
        return low + np.rint(top * (code / codes) ** power).astype(int)

    values, widths = stairs(rises, codes)
    np.testing.assert_array_equal(np.repeat(values, widths), rises(np.arange(codes)))
