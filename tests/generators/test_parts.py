"""The parts that generators share, each against a slow and obvious way of doing the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pretended_card import pretended_card
from simulated import COLUMNS, schema
from torch import Tensor

from synth.generators.coarse_grid import coarse_grid, stairs
from synth.generators.fourier import dp_merf
from synth.generators.fourier.dp_merf import FourierDistance
from synth.generators.hermite import dp_hp
from synth.generators.hermite.dp_hp import ProductDistance, SumDistance
from synth.generators.row_network import ClassBatch, Distance, Draw, OutputHeads, RowNetwork, train
from synth.generators.sampling import random_source, rounded_counts
from synth.generators.stacked import column_weights
from synth.privacy.feature_maps import FeatureMap, OneHot, Stack
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


STEP = torch.tensor(3)


def batch_of(*probabilities: float, fits: int | None = None) -> ClassBatch:
    chances = np.array(probabilities)
    if fits is not None:
        chances = np.random.default_rng(5).dirichlet(20 * chances, size=fits)
    return ClassBatch(chances, batch_size=24, device=CPU, dtype=torch.float64)


def some_outputs(layout: OutputHeads, batch: ClassBatch, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    shape = (*batch.weights.shape[:-2], layout.outputs, batch.size)
    outputs = torch.randn(shape, generator=source, dtype=torch.float64)
    outputs[..., torch.from_numpy(layout.impossible()), :] = -1e9
    return outputs


def drawn(layout: OutputHeads, outputs: Tensor) -> tuple[Draw, Tensor]:
    noise = torch.randn((len(layout.continuous), outputs.shape[-1]), generator=torch.Generator().manual_seed(1))
    draw = layout.new_draw(outputs)
    layout.draw(outputs, noise.double(), draw)
    return draw, noise.double()


def some_draw(layout: OutputHeads, batch: ClassBatch) -> Draw:
    return drawn(layout, some_outputs(layout, batch))[0]


def probabilities(layout: OutputHeads, draw: Draw, d: int) -> np.ndarray:
    """The probabilities of one column, shape (choices, rows)."""
    for block, choices in zip(layout.blocks, draw.choices, strict=True):
        if d in block.heads:
            return choices[: layout.heads[d].choices, block.heads.index(d)].numpy()
    return np.ones((1, draw.values.shape[1]))


def picked_values(layout: OutputHeads, draw: Draw, row: int, d: int) -> list[tuple[float, float, int]]:
    """Every way to draw column d in a row: (probability, value in [0, 1], place or -1 for the value itself)."""
    head = layout.heads[d]
    chances = probabilities(layout, draw, d)[:, row].tolist()
    if not head.is_continuous:
        return [(p, float("nan"), place) for place, p in enumerate(chances)]
    value = float(draw.values[layout.continuous.index(d), row])
    atoms = [(p, float("nan"), head.grid.levels + atom) for atom, p in enumerate(chances[1:])]
    return [(chances[0], value, -1), *atoms]


def expected_rows(layout: OutputHeads, draw: Draw, table: np.ndarray, d: int) -> np.ndarray:
    """Expected features of column d, shape (rows, width), as sums over every way to draw it."""
    grid = np.arange(layout.heads[d].grid.levels)
    found = np.zeros((draw.values.shape[1], table.shape[1]))
    for row in range(len(found)):
        for chance, value, place in picked_values(layout, draw, row, d):
            between = [np.interp(value * grid[-1], grid, column[: len(grid)]) for column in table.T] if place < 0 else 0
            found[row] += chance * (np.array(between) if place < 0 else table[place])
    return found


@pytest.mark.parametrize("label", ["outcome", None])
def test_probabilities_and_values_are_what_they_say(label):
    layout = OutputHeads(schema(), label)
    draw = some_draw(layout, batch_of(0.6, 0.3, 0.1))
    assert sorted(d for block in layout.blocks for d in block.heads) == [
        d for d, head in enumerate(layout.heads) if head.choices > 1
    ]
    for d in range(len(layout.heads)):
        np.testing.assert_allclose(probabilities(layout, draw, d).sum(axis=0), 1.0)
    for block, choices in zip(layout.blocks, draw.choices, strict=True):
        for column, d in enumerate(block.heads):
            assert block.kind == layout.heads[d].kind
            assert block.kind != "value" or layout.continuous[block.values][column] == d
            assert choices.shape[0] == block.size >= layout.heads[d].choices
    assert len(draw.values) == len(layout.continuous)
    assert float(draw.values.min()) >= 0
    assert float(draw.values.max()) <= 1


def test_a_choice_that_a_column_does_not_have_is_impossible():
    layout = OutputHeads(schema(), "outcome")
    assert len(layout.impossible())
    network = RowNetwork.drawn(layout, classes=3, seed=0)
    batch = ClassBatch(np.array([0.6, 0.3, 0.1]), batch_size=24, device=CPU)
    draw = layout.new_draw(torch.zeros(layout.outputs, batch.size))
    layout.draw(network.outputs(torch.randn(16, batch.size), batch.one_hot), torch.zeros(1, batch.size), draw)
    for block, choices in zip(layout.blocks, draw.choices, strict=True):
        for column, d in enumerate(block.heads):
            assert not choices[layout.heads[d].choices :, column].any()
            assert (choices[: layout.heads[d].choices, column] > 0).all()


def test_drawn_codes_follow_the_probabilities():
    layout = OutputHeads(schema(), "outcome")
    draw = some_draw(layout, batch_of(1.0))
    repeated = Draw(
        draw.values[:, :1].repeat(1, 20_000), tuple(choices[..., :1].repeat(1, 1, 20_000) for choices in draw.choices)
    )
    picking, inside = random_source(0).random((2, len(layout.heads), 20_000))
    codes = layout.codes(layout.picked(repeated, torch.from_numpy(picking)).numpy(), inside)
    for d, head in enumerate(layout.heads):
        bins = np.arange(head.column.size) if head.grid.bins is None else head.grid.bins.plain()
        places = bins[codes[:, d]]
        if head.is_continuous:
            places = np.where(codes[:, d] < head.column.levels, 0, places - head.grid.levels + 1)
        frequencies = np.bincount(places, minlength=head.choices) / 20_000
        np.testing.assert_allclose(frequencies, probabilities(layout, draw, d)[:, 0], atol=0.02)


def some_waves(layout: OutputHeads, columns: tuple[int, ...], pairs: int, random: np.random.Generator) -> Fourier:
    return Fourier(
        columns=tuple(layout.heads[d].column.name for d in columns),
        positions=tuple(random.integers(-300, 300, size=layout.heads[d].column.size).astype(np.int32) for d in columns),
        frequencies=random.integers(-40, 40, size=(pairs, len(columns))).astype(np.int32),
    )


def fourier_question(layout: OutputHeads) -> Stack:
    """Waves of all numbers and of each, and counts, with weights of their own."""
    random = np.random.default_rng(0)
    numbers = tuple(d for d, head in enumerate(layout.heads) if head.column.levels)
    parts: list[FeatureMap] = [some_waves(layout, numbers, 6, random)] if len(numbers) > 1 else []
    parts += [some_waves(layout, (d,), 4, random) for d in numbers]
    parts += [dp_merf._counts(head) for head in layout.heads if head.grid.atoms]
    return Stack(parts=tuple(parts), weights=tuple(0.3 * random.random(len(parts)) + 0.1))


def slow_fourier(layout: OutputHeads, question: Stack, draw: Draw) -> np.ndarray:
    """The expected features of every row, as sums over every way to draw it; shape (rows, features)."""
    head_of = {head.column.name: d for d, head in enumerate(layout.heads)}
    found = []
    for part, weight in zip(question.parts, question.weights, strict=True):
        columns = [head_of[name] for name in part.columns]
        if isinstance(part, OneHot):
            (d,) = columns
            merged = layout.heads[d].grid.levels if not layout.heads[d].is_continuous else 0
            chances = probabilities(layout, draw, d)
            if merged:
                chances = np.concatenate([chances[:merged].sum(axis=0, keepdims=True), chances[merged:]])
            found.append(weight * chances.T)
            continue
        assert isinstance(part, Fourier)
        waves = np.zeros((draw.values.shape[1], len(part.frequencies)), dtype=complex)
        for row in range(len(waves)):
            for ways in itertools.product(*(picked_values(layout, draw, row, d) for d in columns)):
                where = [
                    255 * value if place < 0 else int(part.positions[j][layout.heads[d].grid.first[[place]]][0])
                    for j, (d, (_, value, place)) in enumerate(zip(columns, ways, strict=True))
                ]
                turned = np.exp(2j * np.pi / 4096 * (part.frequencies @ np.array(where)))
                waves[row] += np.prod([way[0] for way in ways]) * turned
        found.append(weight * part.scale * np.concatenate([waves.real, waves.imag], axis=1))
    return np.concatenate(found, axis=1)


def slow_unbiased(features: np.ndarray, batch: ClassBatch, target: np.ndarray) -> float:
    """The average over ordered pairs of different rows of a class; target of shape (classes, features)."""
    total = 0.0
    for row, aim in zip(batch.weights.numpy(), target, strict=True):
        rows = features[row > 0]
        mass = row.sum()
        pairs = [rows[i] @ rows[j] for i in range(len(rows)) for j in range(len(rows)) if i != j]
        total += mass**2 * np.mean(pairs) - 2 * mass * rows.mean(axis=0) @ aim + aim @ aim
    return total


def fourier_distance(layout: OutputHeads, batch: ClassBatch) -> tuple[FourierDistance, Stack, np.ndarray]:
    question = fourier_question(layout)
    shape = (*batch.weights.shape[:-1], question.dimension)
    target = 0.3 * np.random.default_rng(7).normal(size=shape)
    return FourierDistance(layout, question, target, batch, scale=255), question, target


@pytest.mark.parametrize("names", [("age", "income", "score"), ("age",), ()])
@pytest.mark.parametrize("kept", [True, False])
def test_the_fourier_distance_equals_the_slow_one(names, kept, monkeypatch):
    if not kept:
        monkeypatch.setattr(dp_merf, "_KEPT", 0)
    layout = OutputHeads(schema(*names), None)
    batch = batch_of(1.0)
    distance, question, target = fourier_distance(layout, batch)
    draw = some_draw(layout, batch)
    distance.slopes(draw, STEP, layout.new_draw(draw.values))
    slow = slow_unbiased(slow_fourier(layout, question, draw), batch, target)
    assert float(distance.value(draw, STEP)) == pytest.approx(slow, rel=1e-9)


def tables_of(layout: OutputHeads, *, own: bool) -> list[np.ndarray]:
    """A table for each column; special values of numbers have features of their own, before the others."""
    random = np.random.default_rng(1)
    tables = []
    for d, head in enumerate(layout.heads):
        table = 0.3 * random.normal(size=(head.grid.size, 4 + d % 2))
        atoms = head.grid.atoms if head.column.levels and own else 0
        if atoms:
            levels = head.grid.levels
            table = np.hstack([np.zeros((len(table), atoms)), table])
            table[levels:] = 0.0
            table[levels:, :atoms] = np.eye(atoms)
        tables.append(table)
    return tables


def sum_distance(layout: OutputHeads, batch: ClassBatch) -> tuple[SumDistance, list[np.ndarray], np.ndarray]:
    tables = tables_of(layout, own=True)
    shape = (*batch.weights.shape[:-2], sum(table.shape[1] for table in tables), len(batch.one_hot))
    target = np.random.default_rng(8).normal(size=shape)
    return SumDistance(layout, tables, target, batch), tables, target


def test_the_sum_distance_equals_the_slow_one():
    layout, batch = OutputHeads(schema(), "outcome"), batch_of(0.6, 0.3, 0.1)
    distance, tables, target = sum_distance(layout, batch)
    draw = some_draw(layout, batch)
    features = np.concatenate([expected_rows(layout, draw, table, d) for d, table in enumerate(tables)], axis=1)
    assert float(distance.value(draw, STEP)) == pytest.approx(slow_unbiased(features, batch, target.T), rel=1e-9)


def product_distance(layout: OutputHeads, batch: ClassBatch, depth: int) -> tuple[ProductDistance, list, list, list]:
    tables = tables_of(layout, own=True)
    sets = [tuple(range(first, first + depth)) for first in range(min(3, len(tables) - depth + 1))]
    random = np.random.default_rng(2)
    fits = batch.weights.shape[:-2]
    answers = [
        0.1 * random.normal(size=(*fits, *(tables[d].shape[1] for d in chosen), len(batch.one_hot))) for chosen in sets
    ]
    return ProductDistance(layout, tables, sets, answers, batch), tables, sets, answers


def in_turns(layout: OutputHeads, batch: ClassBatch, depth: int) -> tuple[ProductDistance, list, list, list]:
    """As if there were room for a single embedding in a step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dp_hp, "_MOST_NUMBERS", 1)
        return product_distance(layout, batch, depth)


def slow_products(layout: OutputHeads, batch: ClassBatch, draw: Draw, tables: list, sets: list, answers: list) -> list:
    by_column = [expected_rows(layout, draw, table, d) for d, table in enumerate(tables)]
    slow = []
    for chosen, answer in zip(sets, answers, strict=True):
        features = by_column[chosen[0]]
        for d in chosen[1:]:
            features = (features[:, :, None] * by_column[d][:, None, :]).reshape(len(features), -1)
        slow.append(slow_unbiased(features, batch, answer.reshape(-1, 3).T))
    return slow


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_the_product_distance_equals_the_slow_one(depth):
    layout, batch = OutputHeads(schema(), "outcome"), batch_of(0.6, 0.3, 0.1)
    distance, *asked = product_distance(layout, batch, depth)
    draw = some_draw(layout, batch)
    OfProducts(distance).slopes(draw, STEP, layout.new_draw(draw.values))
    slow = slow_products(layout, batch, draw, *asked)
    assert float(distance.value(draw, STEP)) == pytest.approx(np.mean(slow), rel=1e-9)


def test_embeddings_for_which_there_is_no_room_take_turns():
    layout, batch = OutputHeads(schema(), "outcome"), batch_of(0.6, 0.3, 0.1)
    distance, *asked = in_turns(layout, batch, 3)
    draw = some_draw(layout, batch)
    slow = slow_products(layout, batch, draw, *asked)
    assert len(set(np.round(slow, 6))) == 3
    for number in range(5):
        step = torch.tensor(number)
        OfProducts(distance).slopes(draw, step, layout.new_draw(draw.values))
        assert float(distance.value(draw, step)) == pytest.approx(slow[number % 3], rel=1e-9)


def test_taking_turns_never_waits_for_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = OutputHeads(schema(), "outcome")
    with pretended_card(monkeypatch) as traffic:
        batch = ClassBatch(np.array([0.6, 0.3, 0.1]), batch_size=24, device=torch.device("cuda"), dtype=torch.float64)
        distance = OfProducts(in_turns(layout, batch, 3)[0])
        draw = drawn(layout, some_outputs(layout, batch_of(0.6, 0.3, 0.1)))[0]
        there = Draw(draw.values.to("cuda"), tuple(one.to("cuda") for one in draw.choices))
        slopes, step = layout.new_draw(there.values), torch.tensor(2).to("cuda")
        traffic.forget()
        distance.slopes(there, step, slopes)
        assert traffic.operations > 0
        assert traffic.crossings() == 0


class OfProducts:
    """A product distance as a distance of its own."""

    def __init__(self, distance: ProductDistance) -> None:
        self._distance = distance

    def slopes(self, draw: Draw, step: Tensor, slopes: Draw) -> None:
        for one in (slopes.values, *slopes.choices):
            one.zero_()
        self._distance.add_slopes(draw, step, slopes)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        return self._distance.value(draw, step)


DISTANCES = {
    "fourier": lambda layout, batch: fourier_distance(layout, batch)[0],
    "sum": lambda layout, batch: sum_distance(layout, batch)[0],
    **{
        f"product of {depth}": lambda layout, batch, depth=depth: OfProducts(product_distance(layout, batch, depth)[0])
        for depth in (1, 2, 3, 4, 5)
    },
    "products in turns": lambda layout, batch: OfProducts(in_turns(layout, batch, 3)[0]),
}


@pytest.mark.four_cases
@pytest.mark.parametrize("fits", [None, 2])
@pytest.mark.parametrize("kind", DISTANCES)
def test_slopes_are_those_of_the_distance(kind, fits):
    layout, batch = OutputHeads(schema(), "outcome"), batch_of(0.6, 0.3, 0.1, fits=fits)
    distance: Distance = DISTANCES[kind](layout, batch)
    outputs = some_outputs(layout, batch)
    found = torch.zeros_like(outputs)
    draw, noise = drawn(layout, outputs)
    slopes = layout.new_draw(outputs)
    distance.slopes(draw, STEP, slopes)
    layout.backward(slopes, draw, noise, found)

    def value(some: Tensor) -> float:
        draw = drawn(layout, some)[0]
        distance.slopes(draw, STEP, layout.new_draw(some))
        return float(distance.value(draw, STEP).sum())

    # Along random directions and along every output of one row; so near that no value passes a place of its grid.
    random, size = np.random.default_rng(3), 1e-7
    directions = [torch.from_numpy(random.normal(size=outputs.shape)) for _ in range(5)]
    for output in range(layout.outputs):
        one = torch.zeros_like(outputs)
        one[..., output, output % batch.size] = 1.0
        directions.append(one)
    for direction in directions:
        numeric = (value(outputs + size * direction) - value(outputs - size * direction)) / (2 * size)
        assert float((found * direction).sum()) == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def test_fits_side_by_side_are_the_fits_alone():
    layout = OutputHeads(schema(), "outcome")
    chances = np.array([[0.6, 0.3, 0.1], [0.3, 0.5, 0.2]])
    drawn_network = RowNetwork.drawn(layout, classes=3, seed=0)
    question = fourier_question(layout)
    targets = 0.3 * np.random.default_rng(7).normal(size=(2, 3, question.dimension))

    def fitted(which: slice | int, steps: int) -> np.ndarray:
        # A first batch of all fits has the rows of classes that both need.
        batch = ClassBatch(chances, batch_size=24, device=CPU, dtype=torch.float64)
        if isinstance(which, int):
            for name in ("weights", "correction", "of_norm", "of_slopes"):
                setattr(batch, name, getattr(batch, name)[which])
        weights = drawn_network.weights.double().expand(*batch.weights.shape[:-2], -1).clone()
        network = RowNetwork(weights, classes=3, outputs=layout.outputs)
        distance = FourierDistance(layout, question, targets[which], batch, scale=255)
        train(layout, network, batch, distance, steps=steps, rate=0.01, seed=1, report=lambda step, losses: None)
        return network.weights.numpy()

    both = fitted(slice(None), 30)
    np.testing.assert_allclose(both[0], fitted(0, 30), atol=1e-8)
    np.testing.assert_allclose(both[1], fitted(1, 30), atol=1e-8)
    assert np.abs(both[0] - both[1]).max() > 0.01


def test_the_distance_is_unbiased():
    random = np.random.default_rng(3)
    batch = ClassBatch(np.array([1.0]), batch_size=16, device=CPU)
    target = torch.tensor([[0.3, -0.2]])
    estimates = []
    for _ in range(3000):
        rows = torch.tensor(random.normal([0.5, 0.1], 1.0, size=(batch.size, 2)), dtype=torch.float32)
        embedding = batch.weights @ rows
        estimates.append(float(batch.squared_distance(embedding, rows.square().sum(dim=1), target)))
    exact = 0.2**2 + 0.3**2
    assert np.mean(estimates) == pytest.approx(exact, abs=6 * np.std(estimates) / np.sqrt(3000))


def test_every_class_is_in_every_batch():
    batch = ClassBatch(np.array([0.999, 0.001, 0.0]), batch_size=30, device=CPU)
    assert (batch.one_hot.sum(dim=1) >= 2).all()
    torch.testing.assert_close(batch.weights.sum(dim=1), torch.tensor([0.999, 0.001, 0.0]))


def test_several_fits_have_rows_of_their_own_classes_and_no_weight_behind_them():
    chances = np.array([[0.9, 0.1], [0.2, 0.8]])
    together = ClassBatch(chances, batch_size=24, device=CPU)
    for fit, own in enumerate(chances):
        alone = ClassBatch(own, batch_size=24, device=CPU)
        for c, count in enumerate(alone.rows):
            there = together.weights[fit, c]
            torch.testing.assert_close(there[there > 0], alone.weights[c][alone.weights[c] > 0])
            assert int((there > 0).sum()) == count
        torch.testing.assert_close(together.correction[fit], alone.correction)


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
