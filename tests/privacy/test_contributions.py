"""What a row adds to any sum is the same to the last bit: alone, beside other rows, in any order, in any blocks.

Every kind of question is asked of tables that repeat a few different rows, among them rows that lie on the edge of a
rounding; the answer has to be the rows' own vectors, added up as whole numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from by_hand import contribution, sides_of
from candidates import candidate_of
from choosing import each_once, few
from devices import DEVICES
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import every_kind_of_map, random_forest, small_codes, small_schema
from recorded_noise import RecordedNoise

from synth.privacy import counting
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import FeatureMap, exact_sum
from synth.privacy.more import forests, fourier, linear_guesses, losses, perturbed_rows, products, row_moments
from synth.privacy.more.forests import Forest
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.perturbed_rows import RowsQuestion, draw_rows
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.questions import Allowance
from synth.privacy.selection import SCORE_STEP, Candidate, scores_of
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import IdentifierColumn, Neighbours, PrivacyUnit, Schema

Codes = dict[str, np.ndarray]

BLOCKS = (1, 7, 4096)
HALF_BITS = 18


@dataclass(frozen=True)
class Case:
    """A question, and a few different rows that it is asked about; ``of_rows`` codes by column."""

    question: FeatureMap
    of_rows: Codes

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.of_rows.values())))

    def row(self, place: int) -> dict[str, int]:
        return {name: int(column[place]) for name, column in self.of_rows.items()}

    def summed(self, chosen: np.ndarray, device: str = "cpu") -> np.ndarray:
        """The whole-number answer for the table of these rows, in this order."""
        rows = PrivateRows(lambda name: self.of_rows[name][chosen], len(chosen))
        return exact_sum(self.question.blocks(), rows, half_bits=HALF_BITS, device=device)

    def by_hand(self) -> np.ndarray:
        """What every row adds, worked out for that row; shape (n_rows, dimension)."""
        return np.array([contribution(self.question, self.row(place), HALF_BITS) for place in range(self.n_rows)])


# Rows at the edge of a rounding


def near_whole_entries(bits: int, wanted: range) -> list[tuple[int, int]]:
    """Whole vectors (v0, v1) whose first entry after the clip is a whole step k but for a relative 10^-15 at most.

    v0 C / sqrt(v0^2 + v1^2) = k where v1 / v0 = sqrt(C^2 / k^2 - 1), so its best fractions are tried.
    """
    margin = int(row_moments.MARGIN * 2**30) << bits
    found = []
    for entry in wanted:
        whole = entry << 30
        above, below = math.isqrt((margin**2 - whole**2) << 200), whole << 100
        last, now = (0, 1), (1, 0)
        while below:
            quotient, rest = divmod(above, below)
            last, now = now, (quotient * now[0] + last[0], quotient * now[1] + last[1])
            above, below = below, rest
            v1, v0 = now
            if max(now) >= 2**30:
                break
            # Twice the relative distance, as squares are compared; in whole numbers.
            if 10**15 * abs((margin * v0) ** 2 - whole**2 * (v0**2 + v1**2)) <= 2 * whole**2 * (v0**2 + v1**2):
                found.append((v0, v1))
    return found


def moments_near_whole_entries(wanted: range) -> Case:
    """Moments of rows whose entries are truncated, or not, by the last bit of their length."""
    vectors = np.array(near_whole_entries(HALF_BITS - 6, wanted))
    # Numbers of 30 bits as two digits of 15 bits, which the projection puts together again.
    digits = np.stack([vectors[:, 0] >> 15, vectors[:, 0] & 0x7FFF, vectors[:, 1] >> 15, vectors[:, 1] & 0x7FFF], 1)
    together = np.array([[2**15, 0], [1, 0], [0, 2**15], [0, 1]]) / 2**18
    question = RowMoments((Lookup("x", digits / 2**16),), 2.0**-20, (0.0, 0.6, 0.75), projection=together)
    return Case(question, {"x": np.arange(len(digits))})


HALVES = (
    *((779167, 858469, 440035, 918615), (940161, 600735, 386645, 590377), (641961, 614039, 335109, 635617)),
    *((957871, 577071, 679093, 939297), (884383, 930761, 482709, 548081), (965657, 914039, 64393, 607777)),
)
"""Four numbers below 2^20 whose product is within 11 of 2^61 above a multiple of 2^62 (27 in one case)."""


def products_near_halves() -> Case:
    """Products of five tables, where what is rounded lies within 2^-57 of the middle between two whole steps.

    The products have 80 bits: float64 rounds on the way, and another order of factors would round to another step.
    """
    columns = np.array(HALVES).T / 2**20
    tables = tuple(Lookup(f"x{place}", column[:, None]) for place, column in enumerate(columns))
    assert all(abs(math.prod(numbers) % 2**62 - 2**61) <= 27 for numbers in HALVES)
    rows = {f"x{place}": np.arange(len(HALVES)) for place in range(4)} | {"w": np.arange(len(HALVES)) % 2}
    return Case(Product((Lookup("w", np.array([[0.75], [-1.0]])), *tables)), rows)


def widest_angles() -> Case:
    """Fourier features with angles up to the last step below 2^24, of either sign and on every kind of step."""
    rng = np.random.default_rng(4)
    names = tuple("abcd")
    places = rng.integers(-2000, 2000, (4, 40)).astype(np.int32)
    places[:, 0], places[:, 1] = 2047, -2047
    frequencies = rng.integers(-2048, 2048, (50, 4)).astype(np.int32)
    frequencies[0], frequencies[1] = 2048, -2048
    places[:, 2] = 2**11 - 1
    return Case(Fourier(names, tuple(places), frequencies), {name: np.arange(40) for name in names})


def forest_at_its_edges() -> Case:
    """A forest whose confidences are as often at an edge as beside it, with classes that tie."""
    full = random_forest(11, trees=4, depth=3, classes=3, bins=4)
    small = Forest(full.columns, full.places, full.nodes, full.values % 3, full.roots, np.array([[0, 1, 2]] * 3))
    return Case(small, small_codes(40, seed=5))


@functools.cache
def cases() -> dict[str, Case]:
    rows = small_codes(24, seed=6)
    found = {kind: Case(question, rows) for kind, question in every_kind_of_map().items()}
    return found | {
        "moments near whole entries": moments_near_whole_entries(range(11, 4096, 160)),
        "products near halves": products_near_halves(),
        "widest angles": widest_angles(),
        "forest at its edges": forest_at_its_edges(),
    }


CASES = list(cases())


@functools.cache
def added_by(kind: str) -> np.ndarray:
    """What every row of a case adds, by hand; shape (n_rows, dimension), int64."""
    return cases()[kind].by_hand().astype(np.int64)


def cut_into(patch: pytest.MonkeyPatch, rows: int, question: FeatureMap) -> None:
    """Make every module work on so many rows at a time, and add products up by rows, never by counts."""
    patch.setattr(counting, "PIECE", rows)
    patch.setattr(forests, "ROWS_AT_A_TIME", rows)
    patch.setattr(fourier, "ROWS_AT_A_TIME", rows)
    patch.setattr(linear_guesses, "ROWS_AT_A_TIME", rows)
    patch.setattr(losses, "ROWS_AT_A_TIME", rows)
    width = 1
    for block in question.blocks():
        tables = [one for one in block.map.maps if isinstance(one, Lookup)]
        if len(tables) > 1:
            width = max(width, sum(math.prod(table.dimension for table in side) for side in sides_of(tables)))
        for one in block.map.maps:
            if isinstance(one, RowMoments):
                width = max(width, one.width)
            if isinstance(one, Fourier):
                angles = {"cpu": rows * len(one.frequencies), "cuda": rows}
                patch.setattr(fourier, "angles_at_a_time", angles.__getitem__)
    entries = 1 if rows == 1 else rows * width
    patch.setattr(products, "BLOCK_ENTRIES", entries)
    patch.setattr(row_moments, "BLOCK_ENTRIES", entries)
    patch.setattr(products, "SMALL_HISTOGRAM", 0)
    patch.setattr(products, "LARGEST_SIDE", 0)


def check(kind: str, n_rows: int, *, seed: int = 0, device: str = "cpu") -> None:
    """A table of rows, some of them many times over, in a drawn order: the answer is what each of them adds."""
    case, own = cases()[kind], added_by(kind)
    chosen = np.random.default_rng(seed).integers(0, case.n_rows, n_rows)
    expected = np.bincount(chosen, minlength=case.n_rows) @ own
    np.testing.assert_array_equal(case.summed(chosen, device), expected)


# Sums


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", CASES)
def test_a_row_alone_adds_what_is_worked_out_by_hand(kind: str, device: str) -> None:
    case, own = cases()[kind], added_by(kind)
    for place in range(case.n_rows):
        np.testing.assert_array_equal(case.summed(np.array([place]), device), own[place])


def test_a_root_is_rounded_as_ieee_arithmetic_says_on_every_machine() -> None:
    """Thousands of rows whose entries depend on the last bit of their length; a root that errs by one shows."""
    case = moments_near_whole_entries(range(1, 4096))
    assert case.n_rows > 3000
    np.testing.assert_array_equal(case.summed(np.arange(case.n_rows)), case.by_hand().sum(axis=0).astype(np.int64))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kind", "n_rows"), each_once(CASES, [*BLOCKS, 4103]))
def test_in_a_table_of_any_size_and_order_every_row_adds_the_same(kind: str, n_rows: int, device: str) -> None:
    check(kind, n_rows, seed=n_rows, device=device)
    check(kind, n_rows, seed=n_rows + 1, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kind", "block"), each_once(CASES, BLOCKS))
def test_rows_are_worked_on_in_blocks_of_any_size(
    kind: str, block: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_into(monkeypatch, block, cases()[kind].question)
    check(kind, 303 if block < 4096 else 4103, seed=block, device=device)


@pytest.mark.parametrize("kind", CASES)
def test_one_more_row_anywhere_changes_a_sum_by_what_it_adds(kind: str) -> None:
    case, own = cases()[kind], added_by(kind)
    places = st.integers(0, case.n_rows - 1)

    @settings(max_examples=10)  # of each of some forty questions
    @given(st.lists(places, max_size=40), places, st.data())
    def one_more(table: list[int], row: int, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(table)))
        more = [*table[:at], row, *table[at:]]
        before, after = (case.summed(np.array(rows, dtype=np.int64)) for rows in (table, more))
        np.testing.assert_array_equal(after - before, own[row])

    one_more()


def test_the_row_with_which_counting_takes_over_adds_what_it_adds() -> None:
    """Products are added up by counts where cells are no more than rows: one row decides, and moves nothing else."""
    case, own = cases()["product"], added_by("product")
    cells = 2 * 12 * 11
    chosen = np.random.default_rng(1).integers(0, case.n_rows, cells)
    by_rows = case.summed(chosen[:-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "SMALL_HISTOGRAM", 0)
        counted: list[int] = []
        right = products._by_counts
        patch.setattr(products, "_by_counts", lambda *a: (counted.append(a[1].n_rows), right(*a))[1])
        before, after = case.summed(chosen[:-1]), case.summed(chosen)
    assert counted == [cells]
    np.testing.assert_array_equal(before, by_rows)
    np.testing.assert_array_equal(after - before, own[chosen[-1]])


@pytest.mark.parametrize("kind", CASES)
def test_as_many_threads_as_there_are_change_nothing(kind: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        check(kind, 4103, seed=3)
    finally:
        torch.set_num_threads(before)


def test_settings_for_reduced_precision_elsewhere_in_the_process_change_nothing() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for kind in CASES:
                check(kind, 500, seed=4)
    finally:
        torch.set_float32_matmul_precision(before)


# What contributions are made of


def test_the_operations_on_a_rows_numbers_are_those_of_ieee_arithmetic() -> None:
    """Elementwise operations are rounded right at every place of an array: in a vector's body, in its tail, alone."""
    rng = np.random.default_rng(8)
    for size in (1, 2, 3, 5, 7, 8, 9, 31, 4097):
        one, other = rng.normal(size=(2, size)) * 2.0 ** rng.integers(-30, 30, (2, size))
        pairs = list(zip(one.tolist(), other.tolist(), strict=True))
        first, second = torch.from_numpy(one), torch.from_numpy(other)
        for found, expected in (
            (first * second, [a * b for a, b in pairs]),
            (first + second, [a + b for a, b in pairs]),
            (first.clone().add_(second), [a + b for a, b in pairs]),
            (first / second, [a / b for a, b in pairs]),
            (first.clone().mul_(4095.1), [a * 4095.1 for a, _ in pairs]),
            (first.trunc(), [float(math.trunc(a)) for a, _ in pairs]),
            (first.mul(0.5).round(), [float(round(a * 0.5)) for a, _ in pairs]),
            (first.clamp(min=1.0), [max(a, 1.0) for a, _ in pairs]),
        ):
            assert found.tolist() == expected
        assert np.sqrt(np.abs(one)).tolist() == [root_of(abs(a)) for a, _ in pairs]


def root_of(number: float) -> float:
    """The float64 nearest to a root, from whole numbers alone."""
    numerator, denominator = number.as_integer_ratio()
    # The root in steps of 2^-120; none lies so near to the middle between two float64 that the rest would matter.
    return math.isqrt((numerator << 240) // denominator) / 2**120


# Choices, noisy rows, units


def candidates() -> list[Candidate]:
    rng = np.random.default_rng(9)
    return [
        candidate_of(("age",), rng.uniform(0, 9, 12), weight=0.3, penalty=2.5),
        candidate_of(("region", "outcome"), rng.uniform(0, 9, (4, 2)), weight=1 / 3),
        candidate_of(("income",), rng.uniform(0, 2, 301), weight=1.7),
        candidate_of(("age", "income"), rng.uniform(0, 2, (3, 11)), bins=(np.arange(12) // 4, np.arange(301) // 30)),
    ]


def scores(codes: Codes) -> np.ndarray:
    return scores_of(candidates(), PrivateRows(codes.__getitem__, len(codes["age"])))


def of_rows(codes: Codes, chosen: np.ndarray) -> Codes:
    return {name: column[chosen] for name, column in codes.items()}


@pytest.mark.parametrize("block", BLOCKS)
def test_scores_of_a_choice_know_neither_order_nor_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = small_codes(4103, seed=2)
    expected = scores(codes)
    monkeypatch.setattr(counting, "PIECE", block)
    np.testing.assert_array_equal(scores(of_rows(codes, np.random.default_rng(3).permutation(4103))), expected)


def test_one_more_row_moves_no_score_by_more_than_the_largest_weight() -> None:
    codes = small_codes(300, seed=2)
    for n_rows in range(1, 300):
        moved = scores(of_rows(codes, np.arange(n_rows))) - scores(of_rows(codes, np.arange(n_rows - 1)))
        assert np.abs(moved).max() <= 1 / SCORE_STEP


@pytest.mark.parametrize("block", BLOCKS)
def test_a_noisy_row_is_its_own_numbers_beside_any_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    tables = (Lookup("income", rng.normal(size=(301, 3))), Lookup("age", np.eye(12)[:3], np.arange(12) // 4))
    question = RowsQuestion(tables, label="outcome")
    budget = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)
    plan = question.plan(Allowance(small_schema(), budget, 2**40, 1e-4, lambda row: row.norm))

    def drawn(codes: Codes) -> Any:
        rows = PrivateRows(codes.__getitem__, len(codes["age"]))
        numbers, labels = draw_rows(question, plan, rows, RecordedNoise(None))
        return SimpleNamespace(numbers=numbers, labels=labels)

    few = small_codes(20, seed=1)
    alone = np.concatenate([drawn(of_rows(few, np.array([place]))).numbers for place in range(20)])
    monkeypatch.setattr(perturbed_rows, "PIECE", block)
    for n_rows in BLOCKS:
        chosen = rng.integers(0, 20, n_rows)
        together = drawn(of_rows(few, chosen))
        np.testing.assert_array_equal(together.numbers, alone[chosen])
        np.testing.assert_array_equal(together.labels, few["outcome"][chosen])


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind in every_kind_of_map()])
def test_a_unit_of_several_rows_adds_the_sum_of_what_its_rows_add(kind: str) -> None:
    """Rows are clipped one by one; what a unit's rows add together is clipped by nothing."""
    case = cases()[kind]
    unit = PrivacyUnit("person", rows_per_unit=3, id_column="person")
    schema = Schema((IdentifierColumn("person"), *small_schema().columns), unit=unit, row_count="private")

    def answer(chosen: list[int], people: list[str]) -> tuple[float, np.ndarray]:
        codes = of_rows(case.of_rows, np.array(chosen))
        table = PrivateTable.from_codes(schema, codes, unit_ids=people, account_key=b"an account's key, 32 bytes long!")
        session = PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(None))
        release = session.noisy_sum(case.question, share=1.0, query="q", source="test")
        return release.receipt.grid, release.value.reshape(-1) / release.receipt.grid

    names = [f"person {place}" for place in range(20)]
    grid, before = answer([*range(20)], names)
    again, after = answer([3, *range(9), 3, 21, *range(9, 20)], ["new", *names[:9], "new", "new", *names[9:]])
    assert again == grid
    theirs = sum(contribution(case.question, case.row(place), round(-math.log2(grid) / 2)) for place in (3, 3, 21))
    assert (after - before).tolist() == theirs.tolist()


# Planted bugs


def in_float32(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one.float() @ other.float()).double()


def plant_products_in_float32(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.Tensor, "addmm_", lambda held, one, other: held.add_(in_float32(one, other)))


def plant_angles_in_reduced_precision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch, "mm", lambda one, other, out: out.copy_(in_float32(one.bfloat16(), other.bfloat16())))


def plant_rows_in_float32(patch: pytest.MonkeyPatch) -> None:
    right = row_moments.clipped_columns
    patch.setattr(row_moments, "clipped_columns", lambda vectors, bits: right(vectors.float().double(), bits))


def wrong_in_sums(patch: pytest.MonkeyPatch, wrong: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
    """Change the vectors of private rows, which are made on a device, and not those that a map shows of made ones."""
    right = row_moments.rows_of_vectors

    def vectors(*chosen: Any, bits: int, **named: Any) -> torch.Tensor:
        found = right(*chosen, bits=bits, **named)
        return wrong(found, bits) if named else found

    patch.setattr(row_moments, "rows_of_vectors", vectors)


def plant_blocks_clipped(patch: pytest.MonkeyPatch) -> None:
    wrong_in_sums(
        patch,
        lambda rows, bits: rows.mul_(2.0**bits / rows.sum(dim=1).norm().clamp(min=2.0**bits)).trunc_(),
    )


def plant_blocks_averaged(patch: pytest.MonkeyPatch) -> None:
    wrong_in_sums(patch, lambda rows, bits: rows.div_(rows.shape[1]).round_().mul_(rows.shape[1]))


def plant_cosines_of_rows(patch: pytest.MonkeyPatch) -> None:
    def added(positions: torch.Tensor, steps: torch.Tensor, values: torch.Tensor, block_rows: int) -> np.ndarray:
        turns = (positions @ steps).float() * (2 * math.pi / 4096)
        cosines, sines = ((4096 * one).round().long() for one in (turns.cos(), turns.sin()))
        return ((cosines << fourier.SINE_BITS) + sines).sum(dim=0).numpy()

    patch.setattr(fourier, "_add_block", added)


def plant_lengths_by_logarithms(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_moments.np, "sqrt", lambda squares: np.exp(np.log(np.maximum(squares, 1e-300)) / 2))


def plant_a_root_that_errs_by_its_last_bit(patch: pytest.MonkeyPatch) -> None:
    right = np.sqrt
    patch.setattr(row_moments.np, "sqrt", lambda squares: np.nextafter(right(squares), 0.0))


def plant_factors_in_the_order_of_the_block(patch: pytest.MonkeyPatch) -> None:
    right = products._features

    def features(tables: Any, indexes: Any, weight: float, half_bits: int) -> torch.Tensor:
        turned = len(indexes[0]) > 1 and all(table.shape[1] == 1 for table in tables)
        return (
            right(tables[::-1], indexes[::-1], weight, half_bits)
            if turned
            else right(tables, indexes, weight, half_bits)
        )

    patch.setattr(products, "_features", features)


def plant_products_rounded_after_they_are_added(patch: pytest.MonkeyPatch) -> None:
    right = products._features

    def features(tables: Any, indexes: Any, weight: float, half_bits: int) -> torch.Tensor:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(torch.Tensor, "round_", lambda found: found)
            return right(tables, indexes, weight, half_bits)

    patch.setattr(products, "_features", features)


def plant_another_rounding_where_rows_are_counted(patch: pytest.MonkeyPatch) -> None:
    right = products._by_counts

    def by_counts(*given: Any) -> np.ndarray:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(torch.Tensor, "round_", torch.Tensor.trunc_)
            return right(*given)

    patch.setattr(products, "_by_counts", by_counts)


def plant_losses_of_predictions_centred_in_their_block(patch: pytest.MonkeyPatch) -> None:
    right = Losses._predictions

    def predictions(self: Losses, codes: Any, n_rows: int) -> np.ndarray:
        found = right(self, codes, n_rows)
        return found - found.mean() * 2.0**-12

    patch.setattr(Losses, "_predictions", predictions)


def plant_predictions_clipped_to_the_rows_beside(patch: pytest.MonkeyPatch) -> None:
    right = Losses._predictions

    def predictions(self: Losses, codes: Any, n_rows: int) -> np.ndarray:
        found = right(self, codes, n_rows)
        return found.clip(*np.quantile(found, (0.05, 0.95)))

    patch.setattr(Losses, "_predictions", predictions)


def plant_scores_of_a_class_less_their_mean_in_the_block(patch: pytest.MonkeyPatch) -> None:
    right = LinearGuess._scores

    def scores(self: LinearGuess, codes: Any, n_rows: int) -> np.ndarray:
        found = right(self, codes, n_rows)
        return found - np.rint(found.mean(axis=0, keepdims=True))

    patch.setattr(LinearGuess, "_scores", scores)


def plant_a_table_truncated_after_it_is_added(patch: pytest.MonkeyPatch) -> None:
    def summed(
        self: Lookup, weight: float, rows: PrivateRows, cells: Any, *, half_bits: int, device: str
    ) -> np.ndarray:
        table = self.table * weight * 2.0 ** (2 * half_bits)
        counts = counting.joint_counts(rows, (*cells, self.axis)).reshape(-1, len(table))
        return np.trunc(counts.astype(np.float32) @ table.astype(np.float32)).astype(np.int64)

    patch.setattr(Lookup, "sums_by_cell", summed)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    name.removeprefix("plant_").replace("_", " "): plant
    for name, plant in list(globals().items())
    if name.startswith("plant_")
}


def checks() -> Iterator[Callable[[], None]]:
    """What is asked of every case, short of every size and block: in two tables, and alone; the quickest first."""
    for n_rows in (7, 4103):
        yield from (functools.partial(check, kind, n_rows) for kind in CASES)
    for kind in CASES:
        yield lambda kind=kind: test_a_row_alone_adds_what_is_worked_out_by_hand(kind, "cpu")


def noticed(check_one: Callable[[], None]) -> bool:
    try:
        check_one()
    except AssertionError:
        return True
    return False


REPEATED = ("lengths by logarithms", "blocks averaged", "predictions clipped to the rows beside")
"""Of faults in one function that another stands for: a root's last bit, blocks clipped, and predictions centred."""


@pytest.mark.parametrize("planted", few(PLANTED, kept=[name for name in PLANTED if name not in REPEATED]))
def test_a_planted_bug_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in CASES:
        added_by(kind)  # by hand, before anything is broken
    assert not any(map(noticed, checks()))
    PLANTED[planted](monkeypatch)
    assert any(map(noticed, checks())), f"nobody notices: {planted}"
