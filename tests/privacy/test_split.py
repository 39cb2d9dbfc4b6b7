"""The cap and the split look at one unit at a time, and stay the same for later runs."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from synth.privacy import table
from synth.privacy.table import PrivateTable, hash_key, held_of_many, holdout_rows, kept_rows, place_hashes, row_hashes
from synth.reading.reader import with_id
from synth.schema import NumberColumn, Schema, TableFormat

KEY = b"an account's secret, 32 bytes of"


def hashes(ids: list[int]) -> np.ndarray:
    digests = [hashlib.blake2b(str(unit).encode(), digest_size=16).digest() for unit in ids]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16)


def kept(ids: list[int], cap: int, key: bytes = KEY) -> list[bool]:
    return kept_rows(hashes(ids), rows_per_unit=cap, account_key=key).tolist()


def held(ids: list[int], *, exact: bool, share: float = 0.3, key: bytes = KEY) -> list[bool]:
    n_units = len(set(ids)) if exact else None
    return holdout_rows(hashes(ids), share=share, n_units=n_units, account_key=key).tolist()


def alike(rows: list[tuple[int, int]], key: bytes = KEY) -> list[bytes]:
    """Stand-ins for ids of rows of two columns, of one byte and of two."""
    columns = [np.array([row[0] for row in rows], np.uint8), np.array([row[1] for row in rows], np.uint16)]
    return [one.tobytes() for one in row_hashes(columns, account_key=key)]


unit_ids = st.lists(st.integers(0, 8), max_size=40)


@given(ids=unit_ids, cap=st.integers(1, 5))
def test_each_id_keeps_its_rows_up_to_the_cap(ids: list[int], cap: int) -> None:
    chosen = kept(ids, cap)
    for unit in set(ids):
        rows = [keep for other, keep in zip(ids, chosen, strict=True) if other == unit]
        assert sum(rows) == min(cap, len(rows))


@given(ids=unit_ids, cap=st.integers(1, 5), data=st.data())
def test_adding_an_id_changes_no_other_ids_rows(ids: list[int], cap: int, data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=6)))
    more = list(ids)
    for added, place in enumerate(places):
        more.insert(place + added, 99)
    of_others = [keep for unit, keep in zip(more, kept(more, cap), strict=True) if unit != 99]
    assert of_others == kept(ids, cap)


@given(ids=unit_ids, data=st.data())
def test_adding_an_id_moves_no_other_id_to_the_other_side(ids: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(ids)))
    more = [*ids[:place], 99, 99, *ids[place:]]
    of_others = [side for unit, side in zip(more, held(more, exact=False), strict=True) if unit != 99]
    assert of_others == held(ids, exact=False)


@given(ids=st.lists(st.integers(0, 30), max_size=60), gone=st.integers(0, 30), share=st.floats(0, 0.9))
def test_replacing_an_id_replaces_at_most_one_on_each_side(ids: list[int], gone: int, share: float) -> None:
    if gone not in ids:
        return
    others = [99 if unit == gone else unit for unit in ids]
    for side in (True, False):
        before = {unit for unit, out in zip(ids, held(ids, exact=True, share=share), strict=True) if out is side}
        after = {unit for unit, out in zip(others, held(others, exact=True, share=share), strict=True) if out is side}
        assert len(before) == len(after)
        assert len(before - after) <= 1


@given(ids=unit_ids, share=st.floats(0, 0.99), exact=st.booleans())
def test_all_rows_of_an_id_lie_on_one_side(ids: list[int], share: float, exact: bool) -> None:
    sides = held(ids, exact=exact, share=share)
    of_unit = {unit: {side for other, side in zip(ids, sides, strict=True) if other == unit} for unit in ids}
    assert all(len(values) == 1 for values in of_unit.values())
    if exact:
        assert sum(True in values for values in of_unit.values()) == round(share * len(of_unit))


@given(ids=unit_ids, share=st.floats(0, 0.9), declared=st.integers(1, 30))
def test_the_declared_number_of_units_splits_whatever_the_table_holds(
    ids: list[int], share: float, declared: int
) -> None:
    sides = holdout_rows(hashes(ids), share=share, n_units=declared, account_key=KEY)
    held_units = {unit for unit, side in zip(ids, sides, strict=True) if side}
    assert len(held_units) == min(round(share * declared), len(set(ids)))
    # One more unit in the table takes at most one place, and none with fewer units than declared places to hold out.
    more = holdout_rows(hashes([*ids, 99]), share=share, n_units=declared, account_key=KEY)[:-1]
    still = {unit for unit, side in zip(ids, more, strict=True) if side}
    assert still <= held_units
    assert len(held_units - still) <= 1


def test_a_row_keeps_its_side_when_one_cell_is_hidden() -> None:
    sides = holdout_rows(place_hashes(1_000), share=0.2, n_units=1_000, account_key=KEY)
    assert sides.sum() == 200
    np.testing.assert_array_equal(sides, holdout_rows(place_hashes(1_000), share=0.2, n_units=1_000, account_key=KEY))


few_rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), min_size=1, max_size=30)


@given(rows=few_rows, other=st.tuples(st.integers(0, 2), st.integers(0, 300)), data=st.data())
def test_without_ids_what_a_row_holds_stands_for_it_and_not_its_place(
    rows: list[tuple[int, int]], other: tuple[int, int], data: st.DataObject
) -> None:
    before = alike(rows)
    assert len(set(before)) == len(rows)
    # Another order: the same hashes, of rows that hold the same.
    order = data.draw(st.permutations(range(len(rows))))
    moved = alike([rows[place] for place in order])
    by_row = [sorted(one for row, one in zip(rows, before, strict=True) if row == kind) for kind in sorted(set(rows))]
    shuffled = [rows[place] for place in order]
    assert by_row == [
        sorted(one for row, one in zip(shuffled, moved, strict=True) if row == kind) for kind in sorted(set(rows))
    ]
    # One more row, wherever it stands: one more hash, and all others as they were.
    place = data.draw(st.integers(0, len(rows)))
    more = alike([*rows[:place], other, *rows[place:]])
    assert set(before) < set(more)
    assert len(more) == len(before) + 1


def test_hashes_of_rows_depend_on_every_column_the_key_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    columns = [random.integers(0, 2**bits, 5_000).astype(f"u{bits // 8}") for bits in (8, 16, 32, 8, 32, 32, 32)]
    first = row_hashes(columns, account_key=KEY)
    for place in range(len(columns)):
        changed = [column.copy() for column in columns]
        changed[place][17] ^= 1
        differ = (row_hashes(changed, account_key=KEY) != first).any(axis=1)
        assert np.flatnonzero(differ).tolist() == [17]
    assert (row_hashes(columns, account_key=b"another") != first).any(axis=1).all()
    # However many rows are hashed at a time, and in whatever byte order codes came.
    monkeypatch.setattr("synth.privacy.hashing.PIECE", 7)
    np.testing.assert_array_equal(row_hashes(columns, account_key=KEY), first)
    swapped = [column.astype(column.dtype.newbyteorder(">")) for column in columns]
    np.testing.assert_array_equal(row_hashes(swapped, account_key=KEY), first)


def test_a_hash_of_zeros_is_no_id() -> None:
    of_rows = np.vstack([hashes([1]), np.zeros((1, 16), np.uint8), hashes([2])])
    assert with_id(of_rows).tolist() == [True, False, True]


def test_coins_are_independent_and_fair() -> None:
    sides = holdout_rows(place_hashes(200_000), share=0.2, n_units=None, account_key=KEY)
    assert stats.binomtest(int(sides.sum()), len(sides), 0.2).pvalue > 1e-6
    pairs = np.bincount(2 * sides[::2] + sides[1::2], minlength=4)
    expected = len(sides) / 2 * np.array([0.64, 0.16, 0.16, 0.04])
    assert stats.chisquare(pairs, expected).pvalue > 1e-6
    # The same test sees a share that is off.
    assert stats.binomtest(int(sides.sum()), len(sides), 0.21).pvalue < 1e-6


def test_coins_do_not_fix_the_number_held_out() -> None:
    sizes = {sum(held(list(range(50)), exact=False, key=bytes([key]))) for key in range(30)}
    assert len(sizes) > 5


def test_which_rows_are_kept_is_even() -> None:
    ids = [unit for unit in range(3_000) for _ in range(4)]
    chosen = np.array(kept(ids, 1)).reshape(-1, 4).sum(axis=0)
    assert stats.chisquare(chosen).pvalue > 1e-6


@pytest.mark.parametrize("exact", [True, False])
def test_the_key_decides(exact: bool) -> None:
    ids = list(range(200))
    assert held(ids, exact=exact) == held(ids, exact=exact)
    assert held(ids, exact=exact) != held(ids, exact=exact, key=b"another")
    assert kept([1] * 50, 5) != kept([1] * 50, 5, key=b"another")
    assert hash_key(KEY) != hash_key(b"another")


def test_cap_and_split_use_unrelated_numbers() -> None:
    # The row an id keeps says nothing about its side.
    ids = [unit for unit in range(4_000) for _ in range(2)]
    first_kept = np.array(kept(ids, 1))[::2]
    side = np.array(held(ids, exact=False, share=0.5))[::2]
    table = np.array([[np.sum(first_kept & side), np.sum(first_kept & ~side)],
                      [np.sum(~first_kept & side), np.sum(~first_kept & ~side)]])  # fmt: skip
    assert stats.chi2_contingency(table).pvalue > 1e-6


@pytest.mark.parametrize("exact", [True, False])
def test_a_share_of_nothing_holds_nothing_out(exact: bool) -> None:
    assert not any(held([1, 2, 3], exact=exact, share=0.0))


@pytest.mark.parametrize("ids", [[], [1]])
def test_few_rows(ids: list[int]) -> None:
    assert held(ids, exact=True, share=0.9) == [True] * len(ids)
    assert kept(ids, 1) == [True] * len(ids)
    assert len(held(ids, exact=False)) == len(ids)


# Many rows, a few million at a time


def as_columns(rows: list[tuple[int, int]]) -> list[np.ndarray]:
    return [np.array([row[0] for row in rows], np.uint8), np.array([row[1] for row in rows], np.uint16)]


@given(rows=few_rows, share=st.floats(0, 0.99), declared=st.none() | st.integers(1, 40), at_a_time=st.integers(1, 9))
def test_of_many_rows_the_same_ones_are_held_out(
    rows: list[tuple[int, int]], share: float, declared: int | None, at_a_time: int
) -> None:
    columns = as_columns(rows)
    expected = holdout_rows(row_hashes(columns, account_key=KEY), share=share, n_units=declared, account_key=KEY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "HASHED_ROWS", at_a_time)
        found = held_of_many(columns, share=share, n_units=declared, account_key=KEY)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("bits", [0, 1, 3])
def test_rows_whose_numbers_begin_alike_are_told_apart(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = table.keyed_numbers

    def alike(hashes: np.ndarray, occurrences: np.ndarray | None, key: bytes) -> np.ndarray:
        numbers = right(hashes, occurrences, key)
        if key == table.purpose_key(KEY, b"hold-out"):
            low = np.uint64(2**32 - 1)
            numbers[:, 0] = (numbers[:, 0] & low) | (
                (numbers[:, 0] >> np.uint64(64 - bits if bits else 63)) << np.uint64(32)
            )
        return numbers

    monkeypatch.setattr(table, "keyed_numbers", alike)
    monkeypatch.setattr(table, "HASHED_ROWS", 16)
    columns = as_columns([(place % 3, place % 7) for place in range(200)])
    for declared in (200, 150, 300):
        expected = holdout_rows(row_hashes(columns, account_key=KEY), share=0.3, n_units=declared, account_key=KEY)
        found = held_of_many(columns, share=0.3, n_units=declared, account_key=KEY)
        assert found.sum() == round(0.3 * declared)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("row_count", ["private", "public"])
def test_a_table_of_many_rows_has_the_sides_of_one_of_few(row_count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = Schema(
        (NumberColumn("age", 0, 9, 1), NumberColumn("days", 0, 299, 1)),
        row_count=row_count,
        number_of_units=500 if row_count == "public" else None,
    )
    draw = np.random.default_rng(2)
    lines = [f"{draw.integers(10)},{draw.integers(20)}" for _ in range(500)]
    data = "\n".join(["age,days", *lines, ""]).encode()

    def sides() -> list[list[list[int]]]:
        opened = PrivateTable.open(
            lambda: io.BytesIO(data),
            "",
            declared,
            TableFormat(),
            account_key=KEY,
            holdout=0.2,
            parts=("train", "holdout"),
        )
        return [[side._column(name).tolist() for name in declared.names] for side in opened]

    few = sides()
    monkeypatch.setattr(table, "HASHED_ROWS", 64)
    assert sides() == few
    assert {len(side[0]) for side in few} == {400, 100} if row_count == "public" else len(few[0][0]) > 300
