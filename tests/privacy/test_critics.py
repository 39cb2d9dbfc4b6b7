"""What a row adds to the gradient of a critic: its own, to the last bit, never too long, and what it should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from critics_by_hand import length_by_hand, terms_by_hand, unit_by_hand, weights_by_hand
from devices import DEVICES
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from synth.errors import PrivacyError
from synth.privacy.more import critics
from synth.privacy.more.critics import (
    CRITIC_LOSSES,
    Critic,
    CriticLoss,
    RowTerms,
    rounded_lengths,
    row_terms,
    sum_of_terms,
    whole_weights,
)

FEW = 12
"""Different rows."""

LARGEST = 2**48
"""Square of the clip norm, in steps of 2^-24."""


def weights_of(critic: Critic, how: str, *, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(-1, 1, critic.size)
    return {
        "zero": np.zeros(critic.size),
        "drawn": drawn,
        "large": 8 * drawn,
        "of any size": np.ldexp(drawn, rng.integers(-30, 30, critic.size)),
        "all 8": np.full(critic.size, 8.0),
        "either 8": np.where(drawn > 0, 8.0, -8.0),
        "infinite": np.where(drawn > 0, np.inf, -np.inf),
    }[how]


def rows_of(critic: Critic, *, seed: int = 4) -> np.ndarray:
    """A few rows in steps of 2^-16, shape (inputs, FEW): of zeros, ones of either sign, one-hot, and any numbers."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-(2**16), 2**16 + 1, (FEW, critic.inputs))
    rows[0], rows[1], rows[2] = 0, 2**16, -(2**16)
    rows[3] = rows[3] > 0
    rows[4] = 2**16 * (np.arange(critic.inputs) == 1)
    return np.asarray(rows.T, dtype=np.float64)


SHAPES = {"one layer": Critic(3, (4,)), "two": Critic(5, (6, 3)), "four": Critic(2, (3, 5, 1, 4))}
WEIGHTS = ("zero", "drawn", "large", "of any size", "all 8", "either 8", "infinite")
CLIPS = (2.0**-20, 0.3, 1.0, 2.0**20)
KINDS = {
    f"{shape}, {how}, {loss}": (SHAPES[shape], weights_of(SHAPES[shape], how), loss)
    for shape in SHAPES
    for how in WEIGHTS
    for loss in CRITIC_LOSSES
    # Every shape with some weights, and one shape with all of them.
    if shape == "two" or how in ("drawn", "either 8")
}


def terms_of(kind: str, chosen: np.ndarray, *, device: str = "cpu") -> RowTerms:
    critic, weights, loss = KINDS[kind]
    rows = torch.from_numpy(np.ascontiguousarray(rows_of(critic)[:, chosen])).to(device)
    return row_terms(critic, torch.from_numpy(whole_weights(critic, weights)).to(device), rows, loss)


def summed(kind: str, chosen: np.ndarray, *, clip: float = 1.0, device: str = "cpu") -> np.ndarray:
    terms = terms_of(kind, chosen, device=device)
    return sum_of_terms(terms, terms.lengths(), clip=clip)


@cache
def alone(kind: str, clip: float = 1.0) -> np.ndarray:
    """What each row adds as a unit of its own, by hand."""
    critic, weights, loss = KINDS[kind]
    rows = rows_of(critic).astype(int).T.tolist()
    return np.array([unit_by_hand(critic, weights.tolist(), [row], loss, clip=clip) for row in rows])


def squared(added: np.ndarray) -> int:
    """The squared length of whole numbers, as a whole number of Python."""
    return sum(int(entry) ** 2 for entry in added)


# What a row adds


def check_alone(kind: str, device: str = "cpu") -> None:
    for place in range(FEW):
        for clip in (2.0**-20, 1.0):
            np.testing.assert_array_equal(
                summed(kind, np.array([place]), clip=clip, device=device), alone(kind, clip)[place]
            )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_alone_adds_what_is_worked_out_by_hand(kind: str, device: str) -> None:
    check_alone(kind, device)


def check_beside(kind: str, n_rows: int, device: str = "cpu") -> None:
    """Rows in a drawn order, most of them many times over: the sum is what each of them adds alone."""
    chosen = np.random.default_rng(n_rows).integers(0, FEW, n_rows)
    expected = np.bincount(chosen, minlength=FEW) @ alone(kind)
    np.testing.assert_array_equal(summed(kind, chosen, device=device), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n_rows", [2, 7, 64, 4103])
@pytest.mark.parametrize("kind", KINDS)
def test_beside_any_rows_a_row_adds_the_same(kind: str, n_rows: int, device: str) -> None:
    check_beside(kind, n_rows, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_one_length_to_the_last_bit_beside_any_rows(kind: str, device: str) -> None:
    """Each is the float that its own numbers give by hand; lengths decide how much a row is shortened."""
    critic, weights, loss = KINDS[kind]
    layers = weights_by_hand(critic, weights.tolist())
    by_hand = [length_by_hand(terms_by_hand(layers, row, loss)) for row in rows_of(critic).astype(int).T.tolist()]
    for n_rows in (1, 3, 1000):
        chosen = np.random.default_rng(n_rows).integers(0, FEW, n_rows)
        assert terms_of(kind, chosen, device=device).lengths().tolist() == [by_hand[place] for place in chosen]


def test_one_more_row_anywhere_changes_a_sum_by_what_it_adds() -> None:
    places = st.integers(0, FEW - 1)

    @settings(max_examples=40)
    @given(st.sampled_from(sorted(KINDS)), st.lists(places, max_size=20), places, st.data())
    def one_more(kind: str, rows: list[int], place: int, data: st.DataObject) -> None:
        more = rows.copy()
        more.insert(data.draw(st.integers(0, len(rows))), place)
        before, after = (summed(kind, np.array(some, dtype=np.int64)) for some in (rows, more))
        np.testing.assert_array_equal(after - before, alone(kind)[place])

    one_more()


def test_as_many_threads_and_as_little_precision_elsewhere_change_nothing() -> None:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for kind in (f"two, {how}, logistic" for how in ("drawn", "large", "either 8")):
                check_beside(kind, 4103)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


# How long it is


def check_lengths(kind: str) -> None:
    for clip in CLIPS:
        for place in range(FEW):
            assert squared(summed(kind, np.array([place]), clip=clip)) <= LARGEST


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_adds_more_than_the_clip_norm(kind: str) -> None:
    check_lengths(kind)


def test_a_long_gradient_keeps_its_direction_and_a_short_one_its_length() -> None:
    """Shortened to the clip norm less a little; the grids of a shortened vector are the whole difference."""
    for kind in ("two, drawn, wasserstein", "two, large, logistic", "one layer, drawn, logistic"):
        critic, weights, loss = KINDS[kind]
        layers = weights_by_hand(critic, weights.tolist())
        for place, row in enumerate(rows_of(critic).astype(int).T.tolist()):
            terms = terms_by_hand(layers, row, loss)
            exact = np.concatenate(
                [
                    part
                    for numbers, slopes in terms
                    for part in (np.outer(slopes, numbers).ravel() * 2.0**-40, np.array(slopes) * 2.0**-24)
                ]
            )
            for clip in CLIPS[:3]:
                wanted = exact / max(np.linalg.norm(exact), clip)
                found = alone(kind, clip)[place] * 2.0**-24
                np.testing.assert_allclose(found, wanted, atol=2.0**-14 * 17 + 2.0**-10)
                if np.linalg.norm(exact) > clip:
                    assert math.isclose(np.linalg.norm(found), 1.0, abs_tol=0.01)


NUMBERS = st.integers(-(2**16), 2**16)


def unit_of(kind: str, rows: list[list[int]], *, clip: float) -> np.ndarray:
    """What the code makes of a unit with several rows."""
    critic, weights, loss = KINDS[kind]
    read = torch.tensor(rows, dtype=torch.float64).T.contiguous()
    terms = row_terms(critic, torch.from_numpy(whole_weights(critic, weights)), read, loss)
    length = rounded_lengths(terms.lengths(), np.zeros(1, dtype=np.int64))
    return sum_of_terms(terms, np.repeat(length, len(rows)), clip=clip)


def check_units() -> None:
    @settings(max_examples=80)
    @given(
        st.sampled_from(sorted(name for name in KINDS if name.startswith("two"))),
        st.lists(st.lists(NUMBERS, min_size=5, max_size=5), min_size=1, max_size=4),
        st.sampled_from(CLIPS),
    )
    def within(kind: str, rows: list[list[int]], clip: float) -> None:
        critic, weights, loss = KINDS[kind]
        found = unit_of(kind, rows, clip=clip)
        assert squared(found) <= LARGEST
        assert found.tolist() == unit_by_hand(critic, weights.tolist(), rows, loss, clip=clip, several=True)

    within()


def test_a_unit_of_several_rows_adds_no_more_than_the_clip_norm_and_what_is_worked_out_by_hand() -> None:
    check_units()


def test_a_unit_of_very_many_rows_alike_adds_no_more_than_the_clip_norm() -> None:
    """Rows that point the same way are the longest sum; as many of them as fit a block and as a unit may have."""
    for kind in ("two, either 8, logistic", "two, all 8, wasserstein", "two, zero, logistic"):
        row = rows_of(KINDS[kind][0])[:, 1].astype(int).tolist()
        for several in (2, 1000, 2**16):
            assert squared(unit_of(kind, [row] * several, clip=2.0**-20)) <= LARGEST


def check_rounding() -> None:
    rng = np.random.default_rng(6)
    lengths = np.concatenate([rng.exponential(2.0, 60), [0.0, 2.0**-30, 2.0**14, 1.0 / 3.0]])
    starts = np.array([0, 1, 3, 40, 61], dtype=np.int64)
    found = rounded_lengths(lengths, starts)
    for begin, end, one in zip(starts, [*starts[1:], len(lengths)], found, strict=True):
        exact = math.fsum(lengths[begin:end])
        assert exact <= one * critics.MARGIN <= exact + (end - begin) * 2.0**-19
        order = rng.permutation(np.arange(begin, end))
        assert rounded_lengths(lengths[order], np.zeros(1, dtype=np.int64)) == [one]
    assert rounded_lengths(np.full(2**16, 2.0**14), np.zeros(1, dtype=np.int64)) >= 2.0**30


def test_lengths_of_rows_are_added_up_without_becoming_less() -> None:
    check_rounding()


# What it means


def loss_of(critic: Critic, weights: Tensor, rows: Tensor, loss: CriticLoss) -> Tensor:
    """The loss of each row as the papers write it, in float64, with the bounds that a critic has."""
    layers = critic.layers(weights)
    for matrix, constant in layers[:-1]:
        rows = torch.nn.functional.leaky_relu(matrix @ rows + constant, 0.25).clamp(-16.0, 16.0)
    matrix, constant = layers[-1]
    scores = (matrix @ rows + constant)[0]
    return -torch.nn.functional.logsigmoid(scores) if loss == "logistic" else -scores


@pytest.mark.parametrize("loss", CRITIC_LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_added_up_is_the_gradient_of_the_loss(shape: str, loss: CriticLoss) -> None:
    """Against torch's own derivatives; the grids of numbers and slopes are the whole difference."""
    kind = f"{shape}, drawn, {loss}"
    critic, weights, _ = KINDS[kind]
    for place in range(FEW):
        known = torch.from_numpy(whole_weights(critic, weights) * 2.0**-16).requires_grad_()
        row = torch.from_numpy(rows_of(critic)[:, [place]] * 2.0**-16)
        (exact,) = torch.autograd.grad(loss_of(critic, known, row, loss).sum(), known)
        terms = terms_of(kind, np.array([place]))
        found = np.concatenate(
            [
                part
                for numbers, slopes in zip(terms.numbers, terms.slopes, strict=True)
                for part in ((slopes @ numbers.T).numpy().ravel() * 2.0**-40, slopes.numpy().ravel() * 2.0**-24)
            ]
        )
        # A number near the corner of the rectifier may fall on the other side of it, and scores are rounded.
        np.testing.assert_allclose(found, exact.numpy(), atol=2e-3)
        assert terms.lengths()[0] == pytest.approx(np.linalg.norm(exact.numpy()), abs=5e-3)


def test_what_leaves_the_bounds_of_a_layer_has_no_slope() -> None:
    """Where a number is cut off its slope is 0, as torch has it: a saturated critic moves by its last layer alone."""
    terms = terms_of("two, all 8, wasserstein", np.array([1]))
    assert terms.numbers[1].tolist() == [[2.0**20]] * 6
    assert [slopes.abs().max() > 0 for slopes in terms.slopes] == [False, False, True]


# Sums that stay whole


def test_no_sum_of_products_can_exceed_what_float64_holds() -> None:
    """The bounds that the comments of the code state, from its own constants."""
    weight, number, slope = (
        int(critics.LARGEST_WEIGHT * 2**critics.NUMBER_BITS),
        int(critics.LARGEST_NUMBER * 2**critics.NUMBER_BITS),
        int(critics.LARGEST_SLOPE * 2**critics.SLOPE_BITS),
    )
    constant = weight << critics.NUMBER_BITS
    assert critics.MOST_INPUTS * weight * 2**critics.NUMBER_BITS + constant < 2**50
    assert critics.WIDEST * weight * number + constant < 2**50
    assert critics.WIDEST * weight * slope <= 2**52
    # A slope is at most as long as its own constant's part of the gradient, so it is at most 1 when it is kept.
    kept, read = 2**critics.KEPT_SLOPE_BITS, int(critics.LARGEST_NUMBER) << critics.KEPT_NUMBER_BITS
    assert 2**25 * kept * read <= 2**53


@pytest.mark.parametrize(
    "critic",
    [Critic(critics.MOST_INPUTS, (3,)), Critic(2, (critics.WIDEST,) * 4)],
    ids=["most inputs", "widest"],
)
@pytest.mark.parametrize("odd", [False, True], ids=["largest", "largest but one step"])
def test_the_largest_critics_leave_no_whole_number_behind(critic: Critic, odd: bool) -> None:
    """Weights of one sign or of either, all as large as they may be, where odd ones use every bit of a product."""
    largest = 8.0 - 2.0**-16 * odd
    for weights in (np.full(critic.size, largest), largest / 8 * weights_of(critic, "either 8")):
        row = [2**16 - odd] * critic.inputs
        read = torch.tensor([row], dtype=torch.float64).T.contiguous()
        terms = row_terms(critic, torch.from_numpy(whole_weights(critic, weights)), read, "logistic")
        by_hand = terms_by_hand(weights_by_hand(critic, weights.tolist()), row, "logistic")
        for numbers, slopes, (whole_numbers, whole_slopes) in zip(terms.numbers, terms.slopes, by_hand, strict=True):
            assert numbers.flatten().tolist() == whole_numbers
            assert slopes.flatten().tolist() == whole_slopes


def test_the_largest_slopes_are_passed_back_as_whole_numbers() -> None:
    """Small constants keep all numbers inside their bounds, so that slopes of up to 4 meet weights of up to 8."""
    critic = Critic(1, (critics.WIDEST,) * 3)
    weights = np.full(critic.size, 2.0**-16)
    layers = critic.layers(torch.from_numpy(weights))
    for matrix, constant in layers[1:]:
        matrix.fill_(8.0 - 2.0**-16)
        constant.fill_(-1.0)
    layers[1][0].fill_(2.0**-10)
    layers[2][0].mul_(torch.where(torch.arange(critics.WIDEST) % 2 == 0, 1.0, -1.0)[:, None])
    row = [2**16]
    read = torch.tensor([row], dtype=torch.float64)
    terms = row_terms(critic, torch.from_numpy(whole_weights(critic, weights)), read, "wasserstein")
    by_hand = terms_by_hand(weights_by_hand(critic, weights.tolist()), row, "wasserstein")
    assert [slopes.flatten().tolist() for slopes in terms.slopes] == [slopes for _, slopes in by_hand]
    assert max(slopes.abs().max().item() for slopes in terms.slopes[1:]) > 2.0**23


@pytest.mark.parametrize("device", DEVICES)
def test_a_unit_of_most_rows_is_added_up_exactly(device: str) -> None:
    """Each entry is as large as it may be, and odd; Python's whole numbers say what 2^16 of them are."""
    n_rows = 2**16
    numbers = torch.full((1, n_rows), 16.0 * 2**16, dtype=torch.float64, device=device)
    slopes = torch.full((1, n_rows), 4.0 * 2**24, dtype=torch.float64, device=device)
    found = sum_of_terms(RowTerms((numbers,), (slopes,)), np.full(n_rows, 4.0), clip=1.0)
    kept = math.trunc(2.0**26 * 2.0**-10 * (critics.MARGIN / 4.0))
    assert kept % 2 == 1
    assert found.tolist() == [n_rows * kept * 2**14, n_rows * kept * 2**10]


# Refusals


@pytest.mark.parametrize(
    ("inputs", "hidden", "message"),
    [
        (0, (4,), "at most 16,384 numbers of a row, got 0"),
        (2**14 + 1, (4,), "at most 16,384 numbers of a row, got 16,385"),
        (3, (), "1 to 4 hidden layers of 1 to 128 numbers"),
        (3, (1,) * 5, "1 to 4 hidden layers of 1 to 128 numbers"),
        (3, (4, 129), "1 to 4 hidden layers of 1 to 128 numbers"),
        (3, (0,), "1 to 4 hidden layers of 1 to 128 numbers"),
    ],
)
def test_sizes_out_of_range_are_refused(inputs: int, hidden: tuple[int, ...], message: str) -> None:
    with pytest.raises(PrivacyError, match=message):
        Critic(inputs, hidden)


@pytest.mark.parametrize("wrong", [np.zeros(60), np.zeros(62), np.zeros((61, 1)), np.full(61, np.nan)])
def test_weights_that_are_too_few_too_many_or_no_numbers_are_refused(wrong: np.ndarray) -> None:
    assert SHAPES["two"].size == 61
    with pytest.raises(PrivacyError, match="This critic has 61 weights, all of them numbers"):
        whole_weights(SHAPES["two"], wrong)


def test_one_weight_that_is_no_number_is_enough_to_refuse() -> None:
    for place in (0, 30, 60):
        weights = np.zeros(61)
        weights[place] = np.nan
        with pytest.raises(PrivacyError, match="all of them numbers"):
            whole_weights(SHAPES["two"], weights)


def test_weights_are_rounded_to_their_grid_and_cut_off_at_8() -> None:
    critic = Critic(1, (1,))
    found = whole_weights(critic, np.array([1e300, -np.inf, 2.0**-17 * 1.01, -(2.0**-18)])) * 2.0**-16
    assert found.tolist() == [8.0, -8.0, 2.0**-16, 0.0]
    assert not np.signbit(found[3])


# Planted bugs


def plant_no_clip(patch: pytest.MonkeyPatch) -> None:
    right = critics.sum_of_terms
    patch_sum(patch, lambda terms, lengths, clip: right(terms, 0 * lengths, clip=clip))


def plant_half_a_length(patch: pytest.MonkeyPatch) -> None:
    right = RowTerms.lengths
    patch.setattr(RowTerms, "lengths", lambda self: right(self) / 2)


def plant_a_batch_clipped_as_a_whole(patch: pytest.MonkeyPatch) -> None:
    right = critics.sum_of_terms
    patch_sum(
        patch, lambda terms, lengths, clip: right(terms, np.full_like(lengths, lengths.max(initial=0)), clip=clip)
    )


def plant_constants_left_out_of_a_length(patch: pytest.MonkeyPatch) -> None:
    def lengths(self: RowTerms) -> np.ndarray:
        squares = sum(
            (slopes * 2.0**-24).square().sum(dim=0) * (numbers * 2.0**-16).square().sum(dim=0)
            for numbers, slopes in zip(self.numbers, self.slopes, strict=True)
        )
        return np.sqrt(squares.cpu().numpy())

    patch.setattr(RowTerms, "lengths", lengths)


def plant_each_layer_clipped_by_itself(patch: pytest.MonkeyPatch) -> None:
    right = critics.sum_of_terms

    def added(terms: RowTerms, lengths: np.ndarray, clip: float) -> np.ndarray:
        parts = []
        for numbers, slopes in zip(terms.numbers, terms.slopes, strict=True):
            one = RowTerms((numbers,), (slopes,))
            parts.append(right(one, one.lengths(), clip=clip))
        return np.concatenate(parts)

    patch_sum(patch, added)


def plant_rounded_to_nearest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tensor, "trunc_", Tensor.round_)


def plant_products_in_float32(patch: pytest.MonkeyPatch) -> None:
    right = torch.addmm
    patch.setattr(torch, "addmm", lambda *given: right(*(one.float() for one in given)).double())


def plant_numbers_centred_by_their_batch(patch: pytest.MonkeyPatch) -> None:
    right = torch.addmm

    def centred(*given: Tensor) -> Tensor:
        found = right(*given)
        return found - found.mean(dim=1, keepdim=True).trunc()

    patch.setattr(torch, "addmm", centred)


def plant_numbers_without_a_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(critics, "LARGEST_NUMBER", 2.0**40)


def plant_the_other_slope(patch: pytest.MonkeyPatch) -> None:
    right = critics._slopes
    patch.setattr(critics, "_slopes", lambda *given: -right(*given))


def plant_rows_of_a_unit_rounded_down(patch: pytest.MonkeyPatch) -> None:
    def rounded(lengths: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.floor(lengths * 2.0**20), starts) * 2.0**-20

    patch.setitem(globals(), "rounded_lengths", rounded)


def plant_the_longest_row_of_a_unit(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "rounded_lengths", lambda lengths, starts: np.maximum.reduceat(lengths, starts))


def patch_sum(patch: pytest.MonkeyPatch, added: Callable[..., np.ndarray]) -> None:
    def sum_of_terms(terms: RowTerms, lengths: np.ndarray, *, clip: float) -> np.ndarray:
        return added(terms, lengths, clip)

    patch.setitem(globals(), "sum_of_terms", sum_of_terms)


PLANTED = {
    name.removeprefix("plant_").replace("_", " "): plant
    for name, plant in list(globals().items())
    if name.startswith("plant_")
}


def checks() -> Iterator[Callable[[], None]]:
    for kind in KINDS:
        yield from (partial(check_lengths, kind), partial(check_alone, kind), partial(check_beside, kind, 40))
    yield from (check_rounding, check_units)


def noticed(check: Callable[[], Any]) -> bool:
    try:
        check()
    except AssertionError:
        return True
    return False


def test_nothing_is_noticed_without_a_bug() -> None:
    assert not any(map(noticed, checks()))


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        alone(kind)  # by hand, before anything is broken
    PLANTED[planted](monkeypatch)
    assert any(map(noticed, checks())), f"nobody notices: {planted}"
