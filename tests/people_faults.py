"""Planted bugs in what becomes of whole people: each breaks the promise in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from synth.privacy import hashing, people, table
from synth.privacy.table import PrivateTable
from synth.schema import Codes, People

__all__ = ["PEOPLE_FAULTS"]

Plant = Callable[[pytest.MonkeyPatch], None]
PEOPLE_FAULTS: dict[str, tuple[Plant, str]] = {}
"""By what is wrong: what plants it, and the check that has to notice it by itself."""


def fault(name: str, noticed_by: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        PEOPLE_FAULTS[name] = plant, noticed_by
        return plant

    return keep


def numbers_of(patch: pytest.MonkeyPatch, purpose: bytes, wrong: Callable[[int], np.ndarray]) -> None:
    """Draw something else instead of the hashes of one purpose."""
    right, keys = people.keyed_numbers, []

    def purpose_key(account_key: bytes, asked: bytes) -> bytes:
        keys[:] = [asked]
        return hashing.purpose_key(account_key, asked)

    def keyed_numbers(hashes: Any, occurrences: Any, key: bytes) -> np.ndarray:
        return wrong(len(hashes)) if keys == [purpose] else right(hashes, occurrences, key)

    patch.setattr(people, "purpose_key", purpose_key)
    patch.setattr(people, "keyed_numbers", keyed_numbers)


def made_of(patch: pytest.MonkeyPatch, change: Callable[[Codes, np.ndarray, People, Codes], Codes]) -> None:
    """Change the table of people after it was made rightly."""
    right = people.folded

    def folded(columns: Codes, unit_hashes: np.ndarray, whole: People, *, account_key: bytes) -> Codes:
        return change(columns, unit_hashes, whole, right(columns, unit_hashes, whole, account_key=account_key))

    patch.setattr(table, "folded", folded)


def _of_unit(unit_hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each row's unit, units in the order of the table of people, and how many rows each has."""
    ids = np.ascontiguousarray(unit_hashes).view(np.uint64).reshape(-1, 2)
    unit = np.unique(ids, axis=0, return_inverse=True)[1].ravel()
    return unit, np.bincount(unit)


@fault("a tie is broken by place in the file", "shuffled")
def _(patch: pytest.MonkeyPatch) -> None:
    numbers_of(patch, b"order of rows", lambda n: np.arange(2 * n, dtype=np.uint64).reshape(n, 2))


@fault("the first rows in the file are kept", "shuffled")
def _(patch: pytest.MonkeyPatch) -> None:
    right = people.units_in_order

    def units_in_order(columns: Codes, unit_hashes: np.ndarray, whole: People, *, account_key: bytes) -> Any:
        kept = np.flatnonzero(hashing.units_and_occurrences(unit_hashes)[1] < whole.most)
        less = {name: codes[kept] for name, codes in columns.items()}
        rows, first, count = right(less, unit_hashes[kept], whole, account_key=account_key)
        return kept[rows], first, count

    patch.setattr(people, "units_in_order", units_in_order)


@fault("rows are capped as separate rows are, by their number in the file", "shuffled")
def _(patch: pytest.MonkeyPatch) -> None:
    right = table.chosen_rows
    patch.setattr(
        table, "chosen_rows", lambda encoded, schema, **how: right(encoded, schema.of_rows(schema.columns), **how)
    )


@fault("equal rows are told apart by how many there are, whoever's they are", "one more")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(people, "content_hashes", table.row_hashes)


@fault("rows are counted before the cap", "codes")
def _(patch: pytest.MonkeyPatch) -> None:
    made_of(patch, lambda _, hashes, whole, made: made | {whole.count: (_of_unit(hashes)[1] - 1).astype(np.uint16)})


@fault("the pair is drawn by a generator that units share", "one more")
def _(patch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng
    numbers_of(patch, b"row and next", lambda n: random(1).integers(0, 2**64, (n, 2), dtype=np.uint64))


@fault("who has several values is given the most frequent of the table", "one more")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(columns: Codes, hashes: np.ndarray, whole: People, made: Codes) -> Codes:
        unit, count = _of_unit(hashes)
        for name in whole.own:
            codes = columns[name].astype(np.int64)
            lowest, highest = np.full(len(count), 2**40), np.full(len(count), -1)
            np.minimum.at(lowest, unit, codes)
            np.maximum.at(highest, unit, codes)
            mode = np.bincount(codes).argmax() if len(codes) else 0
            made = made | {name: np.where(lowest == highest, made[name], mode).astype(made[name].dtype)}
        return made

    made_of(patch, change)


@fault("the usual value is that of everybody", "one more")
def _(patch: pytest.MonkeyPatch) -> None:
    def middle(codes: np.ndarray, first: np.ndarray, *_: Any) -> np.ndarray:
        return np.full(len(first), np.sort(codes)[len(codes) // 2] if len(codes) else 0)

    patch.setattr(people, "_middle", middle)


@fault("a gap is one to the next row of the file", "shuffled")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(columns: Codes, hashes: np.ndarray, whole: People, made: Codes) -> Codes:
        if whole.order is None or whole.gap is None or not len(hashes):
            return made
        unit, _ = _of_unit(hashes)
        gaps = np.abs(np.diff(columns[whole.order].astype(np.int64), append=0))
        most = whole.asked.size_of(whole.gap) - 1
        # Of the last row of each unit in the file, whose row it is.
        last = np.zeros(unit.max() + 1, dtype=np.int64)
        last[unit] = np.arange(len(unit))
        return made | {whole.gap: np.minimum(gaps[last], most).astype(made[whole.gap].dtype)}

    made_of(patch, change)


@fault("a unit counts once for each of its rows", "one row each")
def _(patch: pytest.MonkeyPatch) -> None:
    made_of(
        patch,
        lambda _, hashes, whole, made: {
            name: np.repeat(codes, made[whole.count].astype(np.int64) + 1) for name, codes in made.items()
        },
    )


@fault("hashes have no key", "keyed")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(people, "purpose_key", lambda account_key, purpose: hashing.purpose_key(b"", purpose))
    right = people.content_hashes
    patch.setattr(people, "content_hashes", lambda columns, *, account_key: right(columns, account_key=b""))


@fault("the split comes after the rows became one", "sides")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateTable._of.__func__  # type: ignore[attr-defined]

    def of(
        cls: Any, encoded: Any, schema: Any, *, account_key: bytes, holdout: float, part: Any, last: bool = False
    ) -> PrivateTable:
        made = right(cls, encoded, schema, account_key=account_key, holdout=0.0, part="train")
        hashes = table.row_hashes([made._columns[name] for name in made.schema.names], account_key=account_key)
        n_units = table.units_to_split(encoded, schema)
        held = table.holdout_rows(hashes, share=holdout, n_units=n_units, account_key=account_key)
        chosen = held if part == "holdout" else ~held
        columns = {name: codes[chosen] for name, codes in made._columns.items()}
        return cls._side(columns, made.schema, part, n_units=n_units or len(hashes), holdout=holdout)

    patch.setattr(PrivateTable, "_of", classmethod(of))


@fault("rows without an id are one more person", "nobodies")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "with_id", lambda hashes: np.ones(len(hashes), dtype=bool))


@fault("a split of fixed size under add or remove", "one more")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        table,
        "units_to_split",
        lambda encoded, schema: len(np.unique(encoded._unit_hashes[table.with_id(encoded._unit_hashes)], axis=0)),
    )


@fault("who has no row in the second table is nobody", "one row each")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(columns: Codes, hashes: np.ndarray, whole: People, made: Codes) -> Codes:
        there = made[whole.count] > 0 if whole.least == 0 else slice(None)
        return {name: codes[there] for name, codes in made.items()}

    made_of(patch, change)


@fault("who has no row in the second table is given a cell that others have", "one more")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(columns: Codes, hashes: np.ndarray, whole: People, made: Codes) -> Codes:
        if whole.least or not len(made[whole.count]):
            return made
        name = whole.by_row[0]
        cells = made[name].copy()
        cells[made[whole.count] == 0] = np.sort(columns[name])[len(columns[name]) // 2]
        return made | {name: cells}

    made_of(patch, change)


@fault("a row of the first table alone counts as one of the second", "structure")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        people, "_without_rows", lambda columns, rows, whole: np.zeros(len(whole_column(columns)[rows]), bool)
    )


def whole_column(columns: Codes) -> np.ndarray:
    return next(iter(columns.values()))
