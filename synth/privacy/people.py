"""From several rows of a unit to its one row in the table of people (:mod:`synth.schema.people`).

That row is a function of the unit's own rows, of its id and of what is declared: no other unit plays a part, nor does
the place of a row in the file. So one unit more or less is one row more or less, and every bound of a question about
the table of people is that of a unit with one row (``docs/proofs/people.md``). Everything that is drawn is drawn by
keyed hashes, the same in every later run:

- the rows of a unit are ordered by the column that gives their order, those without a value last; ties, and all rows
  where no order is declared, by a keyed hash of the id and the contents of the row, so that only equal rows can change
  places. Of more rows than declared the first are kept.
- Of its K rows one, but not the last, and the row after it are its two rows: each of the K - 1 neighbouring pairs is
  equally likely.
- Where the table was joined from two (:class:`synth.schema.schema.LinkedTables`), a row of the first alone is none of
  the unit's rows if it has others; a unit that has no other keeps one such row, for its own columns.
- A column that is declared the same in all rows has the value of the first, whatever the others say.
- The usual value of a number is the middle one of its values on the grid, the lower or the upper of two by a keyed
  coin.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from synth.privacy.hashing import Hashes, begins, content_hashes, keyed_numbers, places_in_groups, purpose_key
from synth.schema import Codes, People, code_dtype
from synth.schema.people import PLACES
from synth.schema.schema import LEFT_ONLY, MERGE

__all__ = ["folded", "made_up_hashes", "units_in_order"]

_Whole = npt.NDArray[np.int64]
_ONLY, _BOTH, _FIRST, _MIDDLE, _LAST = range(len(PLACES))
_NOWHERE = len(PLACES)


def folded(columns: Codes, unit_hashes: Hashes, people: People, *, account_key: bytes) -> Codes:
    """Return the table of people.

    Parameters
    ----------
    columns : Codes
        Every row of the units, as codes of the declared table.
    unit_hashes : array of shape (n_rows, 16)
        The keyed hash of each row's id.
    people : People
    account_key : bytes
        The account's secret; of synthetic rows a public text.

    Returns
    -------
    Codes
        One row for each unit, in the order of their hashes.
    """
    rows, first, count = units_in_order(columns, unit_hashes, people, account_key=account_key)
    numbers = keyed_numbers(unit_hashes[rows[first]], None, purpose_key(account_key, b"row and next"))
    # Uniform from 0 to K - 2 by the high half of a product, exact in whole numbers.
    pairs = np.maximum(count - 1, 1).astype(np.uint64)
    chosen = (((numbers[:, 0] >> np.uint64(32)) * pairs) >> np.uint64(32)).astype(np.int64)
    this = rows[first + chosen]
    following = rows[first + np.minimum(chosen + 1, count - 1)]
    several, empty = count > 1, _without_rows(columns, rows[first], people)
    schema, asked = people.schema, people.asked
    made: Codes = {}

    def keep(name: str, codes: npt.NDArray[Any]) -> None:
        # At once, so that no more than one column is wide at a time.
        made[name] = codes.astype(code_dtype(asked.size_of(name)), copy=False)

    for name in people.own:
        keep(name, columns[name][rows[first]])

    def keep_of_rows(name: str, codes: npt.NDArray[Any]) -> None:
        keep(name, codes)
        # Not before: where no cell can be missing, this code may be one more than the declared column's type holds.
        made[name][empty] = asked.size_of(name) - 1

    for name in people.by_row:
        keep_of_rows(name, columns[name][this])
    keep(people.count, np.where(empty, 0, count) - people.least)
    keep(people.place, np.where(empty, _NOWHERE, _places(chosen, count)))
    for name, new in people.following.items():
        keep(new, columns[name][following])
        # Not before: where no cell can be missing, this code may be one more than the declared column's type holds.
        made[new][~several] = people.absent_code(name)
    if people.order is not None and people.gap is not None:
        levels = schema.modelled_column(people.order).levels
        before, after = (columns[people.order][at].astype(np.int64) for at in (this, following))
        known = several & (before < levels) & (after < levels)
        keep(people.gap, np.where(known, after - before, asked.size_of(people.gap) - 1))
    upper = (numbers[:, 1] >> np.uint64(63)).astype(np.int64)
    for name, new in people.usual.items():
        levels = schema.modelled_column(name).levels
        keep_of_rows(new, _middle(columns[name][rows].astype(np.int64), first, count, chosen, levels, upper))
    return {name: made[name] for name in asked.names}


def units_in_order(
    columns: Codes, unit_hashes: Hashes, people: People, *, account_key: bytes
) -> tuple[_Whole, _Whole, _Whole]:
    """Return the kept rows, unit by unit and in their order, where each unit begins among them, and how many it has.

    A unit that has no row in the second of two tables keeps one, that of the first.

    Parameters
    ----------
    columns, unit_hashes, people, account_key
        As in :func:`folded`.
    """
    contents = content_hashes([columns[name] for name in people.schema.names], account_key=account_key)
    contents ^= unit_hashes
    ties = keyed_numbers(contents, None, purpose_key(account_key, b"order of rows"))
    del contents
    ids = np.ascontiguousarray(unit_hashes).view(np.uint64).reshape(-1, 2)
    keys = [ties[:, 1], ties[:, 0]]
    alone = _without_rows(columns, slice(None), people)
    if people.order is not None:
        # A special value or a missing cell has a code behind those of the grid: such rows come last.
        levels = people.schema.modelled_column(people.order).levels
        keys.append(np.minimum(columns[people.order], np.uint32(levels)))
    if not people.least:
        keys.append(alone.astype(np.uint64))
    rows = np.lexsort((*keys, ids[:, 1], ids[:, 0]))
    sorted_ids = ids[rows]
    unit = np.cumsum(begins(sorted_ids)) - 1
    place = places_in_groups(unit)
    kept = (place < people.most) & ((place == 0) | ~alone[rows])
    rows, unit = rows[kept], unit[kept]
    first = np.flatnonzero(begins(unit))
    return rows, first, np.diff(np.append(first, len(rows)))


def _without_rows(columns: Codes, rows: _Whole | slice, people: People) -> npt.NDArray[np.bool_]:
    """Return which rows are none in the second of two tables."""
    if people.least:
        return np.zeros(len(columns[people.schema.names[0]][rows]), dtype=bool)
    found: npt.NDArray[np.bool_] = columns[MERGE.name][rows] == LEFT_ONLY
    return found


def _places(chosen: _Whole, count: _Whole) -> _Whole:
    place = np.full(len(count), _MIDDLE)
    place[chosen == 0] = _FIRST
    place[(chosen == count - 2) & (count > 2)] = _LAST
    place[count == 2] = _BOTH
    place[count == 1] = _ONLY
    return place


def _middle(codes: _Whole, first: _Whole, count: _Whole, chosen: _Whole, levels: int, upper: _Whole) -> _Whole:
    """Return the middle code of each unit among those on the grid, or that of its chosen row if it has none."""
    units, span = np.arange(len(first)), levels + 1
    # Values of one unit lie together and in order, what is beside the grid behind them.
    ordered = np.sort(np.repeat(units, count) * span + np.minimum(codes, levels))
    known = np.add.reduceat(codes < levels, first, dtype=np.int64) if len(first) else units
    middle = np.where(upper == 1, known // 2, (known - 1) // 2)
    return np.where(known > 0, ordered[first + np.maximum(middle, 0)] - units * span, codes[first + chosen])


def made_up_hashes(units: _Whole, seed: int) -> tuple[Hashes, bytes]:
    """Return hashes and a key for synthetic units, whose table of people is made like that of private ones.

    Parameters
    ----------
    units : array of int of shape (n_rows,)
        The number of each row's unit.
    seed : int
        The public seed.
    """
    key = hashlib.blake2b(f"{seed}".encode(), digest_size=32, person=b"synthetic units").digest()
    blocks = np.zeros((len(units), 2), dtype=np.uint64)
    blocks[:, 0] = units.astype(np.uint64)
    # One-to-one, so different units have different hashes.
    return keyed_numbers(blocks.view(np.uint8), None, key).view(np.uint8), key
