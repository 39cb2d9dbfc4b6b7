"""The table of people by hand: one unit at a time, in plain Python, from its own rows alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from synth.schema import People, code_dtype
from synth.schema.people import PLACES
from synth.schema.schema import LEFT_ONLY, MERGE

__all__ = ["Row", "row_of_unit"]

Row = dict[str, int]
"""The code of every modelled column."""


def _purpose(account_key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(account_key, digest_size=32, person=purpose).digest()


def _aes(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)  # noqa: S305 - as the program


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _halves(block: bytes, key: bytes) -> tuple[int, int]:
    twice = _aes(key, _aes(key, block))
    return int.from_bytes(twice[:8], "little"), int.from_bytes(twice[8:], "little")


def _tie(row: Row, unit: bytes, people: People, account_key: bytes) -> tuple[int, int]:
    """Return what orders rows that nothing else orders: a keyed hash of the unit's id and of what the row holds."""
    names, state = people.schema.names, bytes(16)
    held = b"".join(
        row[name].to_bytes(np.dtype(code_dtype(people.schema.size_of(name))).itemsize, "little") for name in names
    )
    held += bytes(-len(held) % 16)
    for start in range(0, len(held), 16):
        state = _aes(_purpose(account_key, b"rows"), _xor(state, held[start : start + 16]))
    return _halves(_xor(state, unit), _purpose(account_key, b"order of rows"))


def row_of_unit(rows: Sequence[Row], unit: bytes, people: People, *, account_key: bytes) -> tuple[int, ...]:
    """Return the one row of a unit, columns in the order of ``people.asked.names``.

    Parameters
    ----------
    rows : sequence of Row
        All rows of the unit, in any order.
    unit : bytes
        The hash of its id.
    people, account_key
        As in :func:`synth.privacy.people.folded`.
    """

    def grid(name: str) -> int:
        return people.schema.modelled_column(name).levels

    def key(row: Row) -> tuple[int, tuple[int, int]]:
        order = 0 if people.order is None else min(row[people.order], grid(people.order))
        return order, _tie(row, unit, people, account_key)

    alone = [row for row in rows if people.schema.tables is not None and row[MERGE.name] == LEFT_ONLY]
    kept = sorted((row for row in rows if row not in alone), key=key)[: people.most]
    if not kept:
        own = min(alone, key=key)
        without = {name: people.asked.size_of(name) - 1 for name in (*people.by_row, *people.made)}
        without |= {people.count: 0, people.place: len(PLACES)} | {name: own[name] for name in people.own}
        return tuple(without[name] for name in people.asked.names)
    first, second = _halves(unit, _purpose(account_key, b"row and next"))
    chosen = ((first >> 32) * (len(kept) - 1)) >> 32 if len(kept) > 1 else 0
    this, following = kept[chosen], kept[chosen + 1] if len(kept) > 1 else None
    made = {name: kept[0][name] for name in people.own} | {name: this[name] for name in people.by_row}
    made[people.count] = len(kept) - people.least
    if following is None:
        place = "only"
    elif len(kept) == 2:
        place = "both"
    else:
        place = {0: "first", len(kept) - 2: "last"}.get(chosen, "middle")
    made[people.place] = PLACES.index(place)
    for name, new in people.following.items():
        made[new] = people.absent_code(name) if following is None else following[name]
    if people.order is not None and people.gap is not None:
        unknown = people.asked.size_of(people.gap) - 1
        both = following is not None and max(this[people.order], following[people.order]) < grid(people.order)
        made[people.gap] = following[people.order] - this[people.order] if following is not None and both else unknown
    for name, new in people.usual.items():
        values = sorted(row[name] for row in kept if row[name] < grid(name))
        middle = len(values) // 2 if second >> 63 else (len(values) - 1) // 2
        made[new] = values[middle] if values else this[name]
    return tuple(made[name] for name in people.asked.names)
