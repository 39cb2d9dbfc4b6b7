"""From the bytes of a file to the answers: one line, or one person, moves no answer by more than its receipt says."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

import numpy as np
import pytest
from mutations import FORMATS, LONGEST, SCHEMA, Format, Line, codes_of, honest_cells, hostile_line, is_row
from reading_here import read_here
from recorded_noise import RecordedNoise

from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reading import text as reader_text
from synth.schema import PrivacyUnit, RowCountRule, Schema

KEY = b"the key of an account in a test!"
UNITS, HOLDOUT = 40, 0.25
CASES = [
    ("csv", "private", 1, False),
    ("every cell quoted", "public", 1, False),
    ("no header", "public", 1, True),
    ("utf-16, little end", "private", 3, True),
    ("gzip", "public", 3, True),
    ("semicolons", "private", 3, False),
]
IDS = [f"{name}, {rule}, at most {rows} rows{', with ids' if ids else ''}" for name, rule, rows, ids in CASES]


@dataclass(frozen=True)
class World:
    """How a file is written and what is declared of it."""

    kind: Format
    row_count: RowCountRule
    rows_per_unit: int
    ids: bool

    @property
    def schema(self) -> Schema:
        unit = PrivacyUnit("person", self.rows_per_unit, "who" if self.ids else None)
        number = UNITS if self.row_count == "public" and (self.ids or self.rows_per_unit == 1) else None
        return replace(SCHEMA, unit=unit, row_count=self.row_count, number_of_units=number)

    def open(self, lines: Sequence[Line], part: Literal["train", "holdout"]) -> PrivateTable:
        data = self.kind.file(lines)
        return PrivateTable.open(
            lambda: io.BytesIO(data), "", self.schema, self.kind.form, account_key=KEY, holdout=HOLDOUT, parts=(part,)
        )[0]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_text, "LONGEST_LINE", LONGEST)
    # The parsing process is another one and knows no patches: read in this one.
    monkeypatch.setattr("synth.reading.reader.ask", read_here)


def a_table(world: World, random_: random.Random) -> list[Line]:
    """Return the lines of ``UNITS`` people and of a few rows without an id, in any order."""
    lines = []
    for unit in range(UNITS):
        for _ in range(random_.randrange(1, world.rows_per_unit + 2) if world.ids else 1):
            lines.append(a_line(world, random_, f"p{unit}"))
    lines += [a_line(world, random_, "") for _ in range(3)] if world.ids else []
    random_.shuffle(lines)
    return lines


def a_line(world: World, random_: random.Random, person: str) -> Line:
    return world.kind.line([person, *honest_cells(random_)[1:]])


def a_neighbour(
    world: World, lines: list[Line], random_: random.Random, hash_of_line: Callable[[Line], int]
) -> list[Line]:
    """Bring somebody with hostile lines, or put them in the place of somebody else; nobody else is touched."""
    place = random_.randrange(len(lines))
    if not world.ids:
        # A blank line is no row: put in the place of one it would remove it, which is another neighbour.
        tried = (hostile_line(random_, world.kind) for _ in iter(int, 1))
        brought = next(line for line in tried if is_row(line, world.kind))
        if world.row_count == "private":
            return [*lines[:place], brought, *lines[place:]]
        return [*lines[:place], brought, *lines[place + 1 :]]
    # Behind the id anything may stand; a line that cannot be read has no id and is nobody's.
    honest = a_line(world, random_, "somebody new")
    brought = [honest, *(spoilt(world, honest, random_) for _ in range(world.rows_per_unit + 1))]
    random_.shuffle(brought)
    kept = lines
    if world.row_count == "public":
        gone = hash_of_line(next(line for line in lines[place:] + lines if hash_of_line(line)))
        kept = [line for line in lines if hash_of_line(line) != gone]
    return [*kept[:place], *brought, *kept[place:]]


def spoilt(world: World, line: Line, random_: random.Random) -> Line:
    separator = world.kind.separator.encode(world.kind.encoding)
    person, _, _ = line.partition(separator)
    return person + separator + hostile_line(random_, world.kind)


def hash_of(world: World, line: Line) -> int:
    """Return the hash of the id of a line, 0 where it has none."""
    return codes_of(world.kind.file([line]), world.kind.form, world.schema)[0][-1]


def rows_of(table: PrivateTable) -> Counter[tuple[int, ...]]:
    columns = {name: table._column(name) for name in table.schema.names}
    return Counter(zip(*(column.tolist() for column in columns.values()), strict=True))


def assert_neighbours(world: World, lines: list[Line], other: list[Line]) -> None:
    """Each side of the split differs by at most one unit, and the answers by at most what their receipts say."""
    one_side = 0
    for part in ("train", "holdout"):
        before, after = world.open(lines, part), world.open(other, part)  # type: ignore[arg-type]
        gone, come = rows_of(before) - rows_of(after), rows_of(after) - rows_of(before)
        most = world.rows_per_unit
        assert gone.total() <= most, "more rows are gone than one unit has"
        assert come.total() <= most, "more rows have come than one unit has"
        if world.row_count == "private":
            one_side += bool(gone or come)
            assert not gone, "somebody came and another one is gone"
        assert_answers(before, after)
    assert one_side <= 1, "one unit changed both sides"


def assert_answers(before: PrivateTable, after: PrivateTable) -> None:
    schema = before.schema
    one_ways = tuple(OneHot((column.name,), (None,), (column.size,)) for column in schema.modelled)
    maps: dict[str, FeatureMap] = {"columns": Stack(one_ways, (0.49,) * len(one_ways))}
    if not schema.rows_are_public:
        maps["rows"] = Constant()
    budget = PrivacyBudget(1.0, 1e-5, schema.neighbours)
    sessions = [PrivateSession(table, budget, noise=RecordedNoise(3)) for table in (before, after)]
    if schema.rows_are_public:
        assert sessions[0].rows == sessions[1].rows, "the printed number of rows is not the declared one"
    for query, feature_map in maps.items():
        answers = [session.noisy_sum(feature_map, share=0.4, query=query, source="test") for session in sessions]
        assert answers[0].receipt == answers[1].receipt
        moved = np.linalg.norm((answers[0].value - answers[1].value).ravel())
        assert moved <= answers[0].receipt.sensitivity * (1 + 1e-9), f"'{query}' moved by {moved}"


@pytest.mark.parametrize(("name", "row_count", "rows_per_unit", "ids"), CASES, ids=IDS)
def test_one_unit_moves_answers_by_at_most_their_receipts(
    name: str, row_count: RowCountRule, rows_per_unit: int, ids: bool
) -> None:
    world, random_ = World(FORMATS[name], row_count, rows_per_unit, ids), random.Random(9)
    lines = a_table(world, random_)
    hash_of_line = cache(partial(hash_of, world))  # each line alone, once for all its neighbours
    for _ in range(40):
        assert_neighbours(world, lines, a_neighbour(world, lines, random_, hash_of_line))


def test_a_stray_quotation_mark_takes_no_line_with_it() -> None:
    # 2,000 rows, and one line more behind row 200: the noisy row count fell from about 2,000 to about 200.
    world, random_ = World(FORMATS["csv"], "private", 1, False), random.Random(2)
    lines = [a_line(world, random_, "a") for _ in range(2_000)]
    assert_neighbours(world, lines, [*lines[:200], b'5,a,"1\n', *lines[200:]])


def test_rows_without_an_id_are_on_no_side() -> None:
    world, random_ = World(FORMATS["csv"], "public", 1, True), random.Random(4)
    lines = [a_line(world, random_, f"p{unit}") for unit in range(UNITS)]
    nobody = [a_line(world, random_, ""), world.kind.raw('"'), world.kind.raw("")]
    for part in ("train", "holdout"):
        alone, among = world.open(lines, part), world.open([*nobody, *lines, *nobody], part)  # type: ignore[arg-type]
        assert rows_of(alone) == rows_of(among)


@pytest.mark.parametrize("ids", [True, False])
def test_the_declared_number_splits_and_is_printed_whatever_the_table_holds(ids: bool) -> None:
    world, random_ = World(FORMATS["csv"], "public", 1, ids), random.Random(4)
    for there_are in (UNITS - 7, UNITS, UNITS + 9, 3):
        lines = [a_line(world, random_, f"p{unit}") for unit in range(there_are)]
        train, held = world.open(lines, "train"), world.open(lines, "holdout")
        held_out = min(round(HOLDOUT * UNITS), there_are)
        assert (train._rows, held._rows) == (there_are - held_out, held_out)
        sessions = [PrivateSession(table, PrivacyBudget(1.0, 1e-5, world.schema.neighbours)) for table in (train, held)]
        assert [session.rows.value for session in sessions] == [UNITS - 10, 10]


def test_a_public_number_that_is_not_declared_is_refused_before_a_byte_is_read() -> None:
    schema = replace(SCHEMA, row_count="public", number_of_units=None)
    with pytest.raises(PrivacyError, match="write it as 'number_of_units'"):
        PrivateTable.open(pytest.fail, "", schema, FORMATS["csv"].form, account_key=KEY)[0]  # type: ignore[arg-type]
