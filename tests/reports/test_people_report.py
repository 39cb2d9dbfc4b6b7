"""What is kept of people: against rows that are compared one by one in plain Python, and against known answers."""

from __future__ import annotations

import datetime
import io
import math
import tracemalloc
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import chain, combinations, pairwise, product

import numpy as np
import pytest
from reading_here import read_all_here

from synth.estimators import DrawnRows, rows_as_asked
from synth.privacy.answers import RowCount
from synth.privacy.bins import Bins
from synth.reports.code_tables import UnitRows, coarse_bins
from synth.reports.evidence import Evidence, OwnerOnlyEvidence, SafeEvidence
from synth.reports.features import predicting
from synth.reports.figures import Table
from synth.reports.forecast import one_way_noise
from synth.reports.measured import ComparedTable
from synth.reports.overview import REPORT as OVERVIEW
from synth.reports.owner_view import OwnerView
from synth.reports.people import REPORT, published_people
from synth.reports.people import kept as kept_module
from synth.reports.people.kept import PeopleRows, kept_of_people, own_share
from synth.reports.report import PaidAnswers
from synth.schema import (
    CategoryColumn,
    DateColumn,
    IdentifierColumn,
    LinkedTables,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    TableFormat,
    people_asked,
    people_of,
)
from synth.services.reports import owner_rows

COLUMNS = (
    IdentifierColumn("patient"),
    CategoryColumn("sex", ("f", "m")),
    DateColumn("seen", datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), missing=True),
    CategoryColumn("ward", ("general", "heart", "eyes")),
    NumberColumn("cost", 0, 90, 1, missing=True),
)
UNIT = PrivacyUnit("patient", 4, "patient", ("sex",), "seen")
WIDE_UNIT = PrivacyUnit("patient", 3, "patient")
SCHEMA = Schema(COLUMNS, unit=UNIT, people="whole")
PEOPLE = people_of(SCHEMA)
KEY = b"\1" * 32


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)


def some_people(seed: int, people: int = 60) -> UnitRows:
    """Rows of people in their order, some without a date or a cost."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 5, people)
    units = np.repeat(np.arange(people), count)
    own = rng.integers(0, 60, people)[units]
    n = len(units)
    seen = np.sort(units * 1000 + rng.integers(0, 366, n)) % 1000
    seen[rng.random(n) < 0.05] = 366
    cost = np.where(rng.random(n) < 0.1, 91, own + rng.integers(0, 30, n))
    return UnitRows([rng.integers(0, 2, people)[units], seen, rng.integers(0, 3, n), cost], units)


REAL, MADE = some_people(1), some_people(2, 45)


def by_id(found: tuple[OwnerOnlyEvidence, ...] | tuple[SafeEvidence, ...]) -> dict[str, Evidence]:
    return {entry.id.removeprefix("people."): entry for entry in found}


def kept(real: UnitRows, made: UnitRows) -> dict[str, Evidence]:
    return by_id(kept_of_people(real, made, PEOPLE, seed=7))


# In plain Python


def rows_of(table: UnitRows) -> list[list[dict[str, int]]]:
    """Every person's rows, in their order, in coarse bins; the grid's own day is beside them."""
    people: dict[int, list[dict[str, int]]] = defaultdict(list)
    binned = [coarse_bins(column)[codes] for column, codes in zip(SCHEMA.modelled, table.codes, strict=True)]
    for place, unit in enumerate(table.units.tolist()):
        row = {name: int(one[place]) for name, one in zip(SCHEMA.names, binned, strict=True)}
        people[unit].append(row | {"day": int(table.codes[1][place])})
    return list(people.values())


def apart(one: list[tuple[int, ...]], other: list[tuple[int, ...]]) -> float:
    a, b = Counter(one), Counter(other)
    return sum(abs(a[key] / len(one) - b[key] / len(other)) for key in a | b) / 2


def steps(table: UnitRows) -> list[tuple[dict[str, int], dict[str, int]]]:
    return [pair for rows in rows_of(table) for pair in pairwise(rows)]


def test_every_distance_is_that_of_all_rows_one_by_one() -> None:
    found = kept(REAL, MADE)
    both = [rows_of(REAL), rows_of(MADE)]
    assert found["rows"].value == pytest.approx(apart(*[[(len(rows),) for rows in one] for one in both]))
    own = apart(*[[(len(rows), rows[0]["sex"]) for rows in one] for one in both])
    assert found["rows_by_own"].value == pytest.approx(own)
    within = [
        apart(*[[(row[x], row[y]) for rows in one for row in rows] for one in both])
        for x, y in combinations(SCHEMA.names, 2)
    ]
    assert found["pairs"].value == pytest.approx(sum(within) / 6)
    across = [
        apart(*[[(this[x], after[y]) for this, after in steps(one)] for one in (REAL, MADE)])
        for x, y in product(("ward", "cost"), repeat=2)
    ]
    assert found["next"].value == pytest.approx(sum(across) / 4)
    gaps = [
        [after["day"] - this["day"] for this, after in steps(one) if max(this["day"], after["day"]) < 366]
        for one in (REAL, MADE)
    ]
    largest = max(abs(np.mean([g <= at for g in gaps[0]]) - np.mean([g <= at for g in gaps[1]])) for at in chain(*gaps))
    assert found["gaps"].value == pytest.approx(largest)
    (same,) = found["same"].figures
    assert isinstance(same, Table)
    again = [np.mean([this["ward"] == after["ward"] for this, after in steps(one)]) for one in (REAL, MADE)]
    assert same.rows[0][:3] == ("ward", *again)


def test_each_number_says_what_it_weighs_and_is_the_owners() -> None:
    found = kept(REAL, MADE)
    assert all(isinstance(entry, OwnerOnlyEvidence) for entry in found.values())
    weighs = {name: entry.sentence.partition("Weighs ")[2].split(":")[0] for name, entry in found.items()}
    assert weighs == {
        "rows": "people", "rows_by_own": "people", "pairs": "rows", "next": "rows that have a next one",
        "gaps": "rows that have a next one", "own_share": "rows", "same": "rows that have a next one",
    }  # fmt: skip


def test_the_same_people_are_not_apart_and_shuffled_rows_lose_what_ties_them() -> None:
    assert all(entry.value == 0 for entry in kept(REAL, REAL).values())
    rng = np.random.default_rng(3)
    mixed = UnitRows([codes[rng.permutation(len(codes))] for codes in REAL.codes], REAL.units)
    real, lost = (own_share(PeopleRows.of(one, PEOPLE), "cost", PEOPLE) for one in (REAL, mixed))
    assert real is not None
    assert lost is not None
    assert real > 0.6 > 0.3 > lost


def test_a_persons_own_share_is_known_where_all_or_nothing_is_their_own() -> None:
    units = np.repeat(np.arange(20), 2)
    every = [np.zeros(40, int), np.arange(40), np.zeros(40, int)]
    all_own = PeopleRows.of(UnitRows([*every, np.repeat(np.arange(20), 2)], units), PEOPLE)
    assert own_share(all_own, "cost", PEOPLE) == pytest.approx(1)
    none_own = PeopleRows.of(UnitRows([*every, np.tile([3, 50], 20)], units), PEOPLE)
    assert own_share(none_own, "cost", PEOPLE) == 0
    alone = PeopleRows.of(UnitRows([*every, np.arange(40)], np.arange(40)), PEOPLE)
    assert own_share(alone, "cost", PEOPLE) is None


def test_people_without_a_second_row_are_compared_in_what_they_have() -> None:
    alone = UnitRows([codes[:30] for codes in MADE.codes], np.arange(30))
    found = kept(REAL, alone)
    assert found["next"].value == found["gaps"].value == 1
    assert set(kept(alone, alone)) == {"rows", "rows_by_own", "pairs", "own_share", "same"}


def test_people_without_a_row_have_none_and_no_cells() -> None:
    linked = people_of(replace(SCHEMA, tables=LinkedTables("patients", "visits", str(SCHEMA.unit.id_column))))
    rows = rows_of(REAL)
    alone = [unit for unit, own in enumerate(rows) if len(own) == 1]
    merged = np.isin(REAL.units, alone).astype(np.int64)
    joined = UnitRows([*REAL.codes, merged], REAL.units)
    found, before = by_id(kept_of_people(joined, joined, linked, seed=7)), kept(REAL, REAL)
    assert set(found) == set(before)
    laid_out = PeopleRows.of(joined, linked)
    assert np.array_equal(np.sort(laid_out.number), np.sort([0 if len(own) == 1 else len(own) for own in rows]))
    none = by_id(kept_of_people(joined, UnitRows([*REAL.codes, np.zeros_like(merged)], REAL.units), linked, seed=7))
    assert none["rows"].value == pytest.approx(len(alone) / len(rows))
    with_rows = [row for own in rows if len(own) > 1 for row in own]
    every_row = [row for own in rows for row in own]
    within = [
        apart([(row[x], row[y]) for row in with_rows], [(row[x], row[y]) for row in every_row])
        for x, y in combinations(SCHEMA.names, 2)
    ]
    assert none["pairs"].value == pytest.approx(sum(within) / 6)


# Against noisy answers


def compared(names: tuple[str, ...], measured: np.ndarray, synthetic: np.ndarray, noise: float) -> ComparedTable:
    bins = tuple(Bins.of_codes(np.arange(size)) for size in measured.shape)
    std = np.full(measured.shape, noise)
    rows, titles = RowCount(measured.sum(), 0.0, public=False), tuple(map(PEOPLE.title, names))
    return ComparedTable(names, bins, measured, synthetic, synthetic, std, rows, titles, counted="patients")


def test_what_was_measured_of_a_row_and_the_next_is_published_with_its_error() -> None:
    # Rows by ward, columns by the next ward and none: of 100 with a next row 60 are there again, and 50 as made.
    measured = np.array([[30.0, 10, 10, 20], [10, 20, 5, 20], [0, 5, 10, 20]])
    made = np.array([[25.0, 15, 10, 20], [15, 15, 5, 20], [0, 5, 10, 20]])
    table = compared(("ward", "next.ward"), measured, made, 2.0)
    found = by_id(published_people([table], PEOPLE))
    same = found["same.ward"]
    assert same.value == pytest.approx(0.5)
    cells = 3 * 0.4**2 + 6 * 0.6**2
    assert f"it is 0.600 ± {1.959964 * 2 * math.sqrt(cells) / 100:.3f}" in same.sentence
    assert found["next"].value == pytest.approx(table.distance)
    assert found["next"].error == pytest.approx(table.error)
    assert "1 of 4 pairs" in found["next"].sentence
    assert [found[name].value for name in ("rows", "own", "gap")] == [None] * 3
    turned = compared(("next.ward", "ward"), measured.T, made.T, 2.0)
    assert by_id(published_people([turned], PEOPLE))["same.ward"].value == pytest.approx(0.5)


def test_pairs_within_a_row_say_nothing_of_the_next() -> None:
    flat = np.full((3, 3), 10.0)
    others = [
        compared(names, flat, flat, 1.0) for names in (("sex", "ward"), ("sex", "next.ward"), ("count", "next.ward"))
    ]
    assert by_id(published_people(others, PEOPLE))["next"].value is None


def test_tables_that_are_too_large_to_lay_out_give_the_same_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out = kept_of_people(REAL, MADE, PEOPLE, seed=7)
    monkeypatch.setattr(kept_module, "_FEW_CELLS", 0)
    assert kept_of_people(REAL, MADE, PEOPLE, seed=7) == laid_out


def test_memory_does_not_grow_with_the_number_of_pairs() -> None:
    wide = Schema((IdentifierColumn("patient"), *(NumberColumn(f"n{k}", 0, 9, 1) for k in range(16))), unit=WIDE_UNIT)
    rng = np.random.default_rng(3)
    units = np.repeat(np.arange(1000), 3)
    real, made = (UnitRows([rng.integers(0, 10, 3000) for _ in wide.names], units) for _ in range(2))
    tracemalloc.start()
    try:
        kept_of_people(real, made, people_of(wide), seed=7)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The cells of all pairs of a row and the next together would take 256 times six of these columns.
    assert peak < 60 * 2000 * 8


# Over both doors


CONFIG = RunConfig(
    SCHEMA, account="visits", people_at_most=100, epsilon=1.0, delta=1e-6, generator="independent", rows=45
)


def test_the_overview_counts_people_and_rows_and_columns_of_the_published_table() -> None:
    codes = rows_as_asked(DrawnRows(np.column_stack(MADE.codes), units=MADE.units), CONFIG)
    answers = PaidAnswers(CONFIG.asked, list(codes.T), len(codes), (), (), (), (), None)
    assert OVERVIEW.public is not None
    found = {entry.id: entry.value for entry in OVERVIEW.public(answers)}
    assert found["overview.people_made"] == 45
    assert found["overview.rows_made"] == len(MADE.units)
    assert found["overview.columns"] == 5
    assert not REPORT.public(answers)  # type: ignore[misc]


def test_a_label_is_predicted_from_what_its_own_row_says() -> None:
    asked = people_asked(CONFIG.asked.schema)
    assert asked is not None
    assert [column.name for _, column in predicting(CONFIG.asked.schema, "ward")] == ["sex", "seen", "cost"]
    assert asked.made & {column.name for column in CONFIG.asked.schema.modelled} == asked.made
    assert people_asked(SCHEMA) is None


def test_the_owners_view_keeps_the_rows_of_each_person_in_their_order() -> None:
    lines = ["b,f,2024-01-09,eyes,5", "a,m,2024-03-01,heart,1", "b,f,2024-01-02,heart,", ",f,2024-01-01,eyes,3"]
    text = "\n".join(["patient,sex,seen,ward,cost", *lines]) + "\n"
    view = OwnerView.open(lambda: io.BytesIO(text.encode()), "table", SCHEMA, TableFormat(), account_key=KEY)
    assert view.of_people is not None
    columns, units = view.of_people
    people = defaultdict(list)
    for place, unit in enumerate(units.tolist()):
        people[unit].append(tuple(int(columns[name][place]) for name in SCHEMA.names))
    assert sorted(people.values()) == [[(0, 1, 1, 91), (0, 8, 2, 5)], [(1, 60, 1, 1)]]
    assert view.rows() == 2


def test_the_control_of_an_owners_report_has_the_noise_of_people() -> None:
    text = "patient,sex,seen,ward,cost\na,m,2024-03-01,heart,1\nb,f,2024-01-02,heart,\n"
    view = OwnerView.open(lambda: io.BytesIO(text.encode()), "table", SCHEMA, TableFormat(), account_key=KEY)
    codes = rows_as_asked(DrawnRows(np.column_stack(MADE.codes), units=MADE.units), CONFIG)
    rows = owner_rows(CONFIG, view, list(codes.T), ())
    assert rows.control_noise == one_way_noise(CONFIG.asked) < one_way_noise(CONFIG)
