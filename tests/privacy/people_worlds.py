"""Files of people with several rows, and what has to hold of the tables that are opened from them.

A check raises AssertionError; each of the planted bugs of ``people_faults`` is noticed by the check that it names.
"""

from __future__ import annotations

import datetime
import io
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from recorded_noise import RecordedNoise

from synth.privacy import people as people_module
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.receipt import Part
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DateStep,
    IdentifierColumn,
    LinkedTables,
    NumberColumn,
    PrivacyUnit,
    RowCountRule,
    Schema,
    TableFormat,
    YesNoColumn,
    people_of,
)
from synth.schema.rule_lines import read_rules

__all__ = ["BUDGET", "CHECKS", "KEY", "UNITS", "WORLDS", "PeopleWorld", "assert_answers", "folded_rows", "rows_of"]

KEY = b"the key of an account in a test!"
UNITS = 30
PARTS: tuple[Part, ...] = ("train", "holdout")

COLUMNS = (
    IdentifierColumn("who"),
    CategoryColumn("sex", ("f", "m"), missing=True),
    NumberColumn("born", 1940, 1949, 1),
    DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2020, 6, 1), step=DateStep.MONTH, missing=True),
    NumberColumn("cost", 0, 300, 10, special=(999.0,), missing=True),
    CategoryColumn("town", ("Ayr", "Bath"), other=True),
    YesNoColumn("well", missing=True),
)
HEADER = (",".join(column.name for column in COLUMNS) + "\n").encode()
Line = bytes


@dataclass(frozen=True)
class PeopleWorld:
    """How people are declared."""

    row_count: RowCountRule
    most: int = 3
    own: tuple[str, ...] = ("sex", "born")
    order: str | None = "seen"
    holdout: float = 0.25
    tables: LinkedTables | None = None

    @property
    def schema(self) -> Schema:
        return Schema(
            COLUMNS,
            unit=PrivacyUnit("person", self.most, "who", self.own, self.order),
            row_count=self.row_count,
            number_of_units=UNITS if self.row_count == "public" else None,
            people="whole",
            tables=self.tables,
        )

    def open(self, lines: Sequence[Line], key: bytes = KEY) -> tuple[PrivateTable, PrivateTable]:
        """Return both sides of a file."""
        data = HEADER + b"".join(lines) if self.tables is None else joined([HEADER, *lines])
        train, held = PrivateTable.open(
            lambda: io.BytesIO(data),
            "",
            self.schema,
            TableFormat(),
            account_key=key,
            holdout=self.holdout,
            parts=PARTS,
        )
        return train, held


WORLDS = {
    "add or remove": PeopleWorld("private"),
    "replace one": PeopleWorld("public"),
    "add or remove, without an order": PeopleWorld("private", order=None),
    "replace one, by a number": PeopleWorld("public", most=4, own=(), order="cost"),
    "a thousand rows declared": PeopleWorld("private", most=1_000, own=("town",)),
    "add or remove, two tables": PeopleWorld("private", tables=LinkedTables("patients", "visits", "who")),
    "replace one, two tables": PeopleWorld("public", order=None, tables=LinkedTables("patients", "visits", "who")),
}


def joined(lines: Sequence[Line]) -> bytes:
    """Return a file that was joined from two: what a line holds says which of them it comes from."""
    kinds = (b"left_only", b"left_only", b"both", b"left_only", b"right_only", b"?")
    ends = [b"_merge", *(kinds[zlib.crc32(line) % len(kinds)] for line in lines[1:])]
    return b"".join(line[:-1] + b"," + end + b"\n" for line, end in zip(lines, ends, strict=True))


def a_line(who: str, random_: random.Random) -> Line:
    """Return a row, with many ties, values that are beside the grid, and columns of the person that differ."""
    cells = (
        who,
        random_.choice(("f", "m", "")),
        str(random_.randrange(1940, 1950)),
        random_.choice(("2020-01-01", "2020-01-17", "2020-04-02", "", "never")),
        random_.choice(("0", "50", "120", "300", "999", "")),
        random_.choice(("Ayr", "Bath", "Oban")),
        random_.choice(("yes", "no", "")),
    )
    return (",".join(cells) + "\n").encode()


def lines_of(who: str, rows: int, random_: random.Random) -> list[Line]:
    """Return the rows of somebody; the last of several is the same as the one before it."""
    lines = [a_line(who, random_) for _ in range(rows)]
    return [*lines[:-1], lines[-2]] if rows > 3 else lines


def a_file(random_: random.Random, units: int = UNITS) -> list[Line]:
    """Return the rows of people with one row to six, and of a few rows without an id, in any order."""
    lines = [line for unit in range(units) for line in lines_of(f"p{unit}", 1 + unit % 6, random_)]
    lines += [a_line("", random_) for _ in range(3)]
    random_.shuffle(lines)
    return lines


def somebody_new(others: Sequence[Line], random_: random.Random) -> Iterator[list[Line]]:
    """Return people who come: with one row, many, rows like those of others, and rows that cannot be read."""
    odd = [b"new,\xff\n", b"new,f,1e400,9999-12-31,-1e9,Nowhere,perhaps\n", b'new,"\n']
    yield odd[1:2]
    for rows in (1, 2, 5):
        yield [*lines_of("new", rows, random_), *odd[: rows - 1]]
    yield [b"new,f,1940,2020-01-01,50,Ayr,yes\n"] * 2
    # The rows of everybody: what told those of others apart by their number would move.
    yield [line.replace(line.split(b",")[0], b"new", 1) for line in others if not line.startswith(b",")]


def rows_of(table: PrivateTable) -> list[tuple[int, ...]]:
    columns = [table._column(name).tolist() for name in table.schema.names]
    return list(zip(*columns, strict=True))


def mixed(lines: Sequence[Line], new: Sequence[Line], random_: random.Random) -> list[Line]:
    """Put lines anywhere among others, whose order stays."""
    found = list(lines)
    for line in new:
        found.insert(random_.randrange(len(found) + 1), line)
    return found


def is_of(line: Line, who: str) -> bool:
    return line.split(b",")[0] == who.encode()


# What has to hold


def the_place_of_lines_says_nothing(world: PeopleWorld) -> None:
    random_ = random.Random(1)
    lines = a_file(random_)
    tables = [rows_of(side) for side in world.open(lines)]
    for _ in range(4):
        random_.shuffle(lines)
        assert [rows_of(side) for side in world.open(lines)] == tables


def one_person_more_is_one_row_more(world: PeopleWorld) -> None:
    """One person more or another one: one row on one side, whoever else is there, and answers within their receipts."""
    random_ = random.Random(2)
    everybody = a_file(random_)
    gone = [f"p{unit}" for unit in (5, 10, 4, 0, 17, 23)]
    for who, new in zip(gone, somebody_new(everybody, random_), strict=True):
        others = [line for line in everybody if not is_of(line, who)]
        if world.row_count == "private":
            before, after = world.open(others), world.open(mixed(others, new, random_))
        else:
            before, after = world.open(everybody), world.open(mixed(others, new, random_))
        moved = [
            (Counter(rows_of(one)) - Counter(rows_of(other)), Counter(rows_of(other)) - Counter(rows_of(one)))
            for one, other in zip(before, after, strict=True)
        ]
        if world.row_count == "private":
            assert not any(lost for lost, _ in moved), "somebody came and another one changed"
            assert sum(come.total() for _, come in moved) == 1, "somebody came and is not one row"
            alone = [row for side in world.open(new) for row in rows_of(side)]
            assert [*moved[0][1].elements(), *moved[1][1].elements()] == alone, "others play a part"
        else:
            assert all(lost.total() <= 1 and come.total() <= 1 for lost, come in moved), "more than one person changed"
        for one, other in zip(before, after, strict=True):
            assert_answers(one, other)


def codes_are_declared(world: PeopleWorld) -> None:
    for side in world.open(a_file(random.Random(3))):
        for name in side.schema.names:
            column = side._column(name)
            assert not len(column) or column.max() < side.schema.size_of(name), name


def units_without_rows_have_none(world: PeopleWorld) -> None:
    """What is declared true of every row of the table of people is true of it."""
    people = people_of(world.schema)
    rules = read_rules(people.structure, people.asked)
    seen = set()
    for side in world.open(a_file(random.Random(7))):
        rows = {name: side._column(name).astype(np.int64) for name in people.asked.names}
        assert not [rules.lines[rule.line] for rule in rules.rules if rule.broken(rows).any()]
        seen |= set((rows[people.count] + people.least).tolist())
    # Somebody of this file has lines of the first table alone.
    assert (0 in seen) == (world.tables is not None)


def everybody_is_one_row(world: PeopleWorld) -> None:
    for units in (1, 2, UNITS):
        lines = [line for unit in range(units) for line in lines_of(f"p{unit}", 1 + unit % 6, random.Random(unit))]
        assert sum(len(rows_of(side)) for side in world.open(lines)) == units


def hashes_are_keyed(world: PeopleWorld) -> None:
    """Under another key other pairs are drawn, and ties fall in another order."""
    people = people_of(world.schema)
    random_ = np.random.default_rng(4)
    columns = {
        column.name: column.smallest_codes(random_.integers(0, column.size, 400)) for column in world.schema.modelled
    }
    hashes = np.repeat(random_.integers(0, 256, (100, 16), dtype=np.uint8), 4, axis=0)
    one, other = (folded_rows(columns, hashes, people, key) for key in (KEY, KEY[::-1]))
    assert len(one) == len(other)
    assert one != other


def a_side_follows_from_the_id(world: PeopleWorld) -> None:
    """Whatever rows somebody brings, on another day, everybody stays on their side."""
    random_ = random.Random(5)
    lines = a_file(random_)
    numbers = {}
    for who in ("p1", "p8", "p14", "p21"):
        others = [line for line in lines if not is_of(line, who)]
        for rows in (1, 2, 4):
            sides = [len(rows_of(side)) for side in world.open([*others, *lines_of(who, rows, random_)])]
            assert numbers.setdefault(who, sides) == sides
            among = [Counter(rows_of(side)) for side in world.open([*others, *lines_of(who, rows, random_)])]
            left = [Counter(rows_of(side)) for side in world.open(lines)]
            assert all((one - other).total() <= 1 for one, other in zip(among, left, strict=True))
            assert sum((one - other).total() for one, other in zip(among, left, strict=True)) <= 1


def rows_without_an_id_are_nobodys(world: PeopleWorld) -> None:
    random_ = random.Random(6)
    lines = [line for line in a_file(random_) if not line.startswith(b",")]
    nobodys = [a_line("", random_) for _ in range(5)] + [b'"\n', b" ,f\n", b"\n"]
    for one, other in zip(world.open(lines), world.open(mixed(lines, nobodys, random_)), strict=True):
        assert rows_of(one) == rows_of(other)


CHECKS: dict[str, Callable[[PeopleWorld], None]] = {
    "shuffled": the_place_of_lines_says_nothing,
    "one more": one_person_more_is_one_row_more,
    "codes": codes_are_declared,
    "one row each": everybody_is_one_row,
    "structure": units_without_rows_have_none,
    "keyed": hashes_are_keyed,
    "sides": a_side_follows_from_the_id,
    "nobodies": rows_without_an_id_are_nobodys,
}


def folded_rows(
    columns: dict[str, np.ndarray], hashes: np.ndarray, people: people_module.People, key: bytes = KEY
) -> list[tuple[int, ...]]:
    made = people_module.folded(columns, hashes, people, account_key=key)
    return list(zip(*(made[name].tolist() for name in people.asked.names), strict=True))


BUDGET = (1.0, 1e-5)


def assert_answers(before: PrivateTable, after: PrivateTable) -> None:
    """Answers of neighbours have one receipt, and lie as far from each other as it says at most: that of one row."""
    schema = before.schema
    one_ways = tuple(OneHot((column.name,), (None,), (column.size,)) for column in schema.modelled)
    maps: dict[str, FeatureMap] = {
        "columns": Stack(one_ways, (1 / len(one_ways) ** 0.5 * 0.999,) * len(one_ways)),
        "rows and costs": OneHot(("count", "cost"), (None, None), (schema.size_of("count"), schema.size_of("cost"))),
    }
    if not schema.rows_are_public:
        maps["rows"] = Constant()
    budget = PrivacyBudget(*BUDGET, schema.neighbours)
    sessions = [PrivateSession(table, budget, noise=RecordedNoise(3)) for table in (before, after)]
    for query, feature_map in maps.items():
        answers = [session.noisy_sum(feature_map, share=0.3, query=query, source="test") for session in sessions]
        receipt = answers[0].receipt
        assert receipt == answers[1].receipt
        assert receipt.sensitivity <= (2**0.5 if schema.rows_are_public else 1) * (1 + 1e-6), "several rows are hidden"
        moved = np.linalg.norm((answers[0].value - answers[1].value).ravel())
        assert moved <= receipt.sensitivity * (1 + 1e-9), f"'{query}' moved by {moved}"
