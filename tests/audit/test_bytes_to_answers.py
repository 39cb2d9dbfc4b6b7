"""Neighbours that differ in one line of a file: exact answers differ by what that line adds, wherever it stands.

From bytes to whole numbers, by the way a run takes: the file is read in its own process, encoded, capped and split, and
a session is asked the questions of every kind. What is done with the answers afterwards is public.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import layers
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from askers import DESCENT, HAND_MADE, MIXTURE, asker
from prediction_faults import PREDICTION_FAULTS
from transcripts import SUMS, Answered, record
from worlds import ACCOUNT_KEY, LABEL, Row, World, far_rows, ordinary_rows

from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.products import Product
from synth.privacy.table import PrivateTable
from synth.reading.more.ods import write_ods
from synth.reading.more.xlsx import write_xlsx
from synth.schema import TableFormat

ROWS = World("private")
PEOPLE = World("private", rows_per_unit=3, ids=True)
HELD_OUT = World("private", rows_per_unit=3, ids=True, holdout=0.4)

ODD = {"person": "", "age": "80kg", "region": "", "income": "1e400", "job": "=1+1", "visited": "1066-13-45"}
"""Cells that are nothing that was declared."""


def of_predictors(session: AnswerSource) -> Any:
    """Ask how wrong public predictors are, as a hold-out is asked: losses by group, and guesses by label and group."""
    sizes = dict(zip(session.schema.names, session.schema.sizes, strict=True))
    rng = np.random.default_rng(8)
    features = Stack((Constant(), Lookup("age", rng.normal(size=(sizes["age"], 3)))), (0.6, 0.8))
    region, label = (OneHot((name,), (None,), (sizes[name],)) for name in ("region", LABEL))
    incomes = Lookup("income", np.linspace(0, 1, sizes["income"])[:, None])
    edges = np.sort(rng.integers(0, 2**16, (3, 2)), axis=1)
    asked = {
        "losses by group": Product((Losses(features, rng.normal(size=4), incomes), region)),
        "guesses by label": Product((LinearGuess(features, rng.normal(size=(3, 4)), edges), label, region)),
    }
    return [session.noisy_sum(one, share=0.4, query=query, source="predictors") for query, one in asked.items()]


@functools.cache
def questions() -> tuple[Answered, ...]:
    """Every kind of question, as those put them who ask for sums by hand, for gradients, steps of EM and errors."""
    table = ROWS.table(ordinary_rows(40, 1))
    asked = [
        one
        for ask in (*(asker(name, ROWS.schema) for name in (HAND_MADE, DESCENT, MIXTURE)), of_predictors)
        for one in record(ask, ROWS, table)[0].answered
    ]
    return tuple(answered for answered in asked if isinstance(answered.answer, SUMS))


def as_csv(world: World, rows: Sequence[Row], end: str = "\n") -> bytes:
    names = [column.name for column in world.schema.columns]
    target = io.StringIO()
    writer = csv.writer(target, lineterminator=end)
    writer.writerow(names)
    writer.writerows([row[name] or "" for name in names] for row in rows)
    return target.getvalue().encode()


def as_workbook(world: World, rows: Sequence[Row], kind: str) -> bytes:
    names = [column.name for column in world.schema.columns]
    write = write_xlsx if kind == "xlsx" else write_ods
    return write([names, *([row[name] or "" for name in names] for row in rows)])


def answers(world: World, data: bytes, form: TableFormat | None = None) -> list[np.ndarray]:
    """The exact answer to every question, in grid steps."""
    table = PrivateTable.open(
        lambda: io.BytesIO(data),
        "table",
        world.schema,
        form or TableFormat(),
        account_key=ACCOUNT_KEY,
        holdout=world.holdout,
    )[0]
    return [layers.exact_numbers(answered, world, table) for answered in questions()]


def assert_adds(before: list[np.ndarray], after: list[np.ndarray], own: list[np.ndarray]) -> None:
    for answered, first, second, alone in zip(questions(), before, after, own, strict=True):
        np.testing.assert_array_equal(second - first, alone, err_msg=answered.query)


@pytest.mark.parametrize("cells", ["far", "odd"])
def test_one_more_line_adds_the_same_wherever_it_stands(cells: str) -> None:
    rows, (far,) = ordinary_rows(40, 1), far_rows(1)
    line = {**far, "person": "somebody new"} if cells == "far" else {**far, **ODD, LABEL: ""}
    own = answers(ROWS, as_csv(ROWS, [line]))
    assert any(one.any() for one in own)
    before = answers(ROWS, as_csv(ROWS, rows))
    for place in (0, 17, len(rows)):
        assert_adds(before, answers(ROWS, as_csv(ROWS, [*rows[:place], line, *rows[place:]])), own)


def test_the_order_of_lines_and_how_a_file_is_cut_change_nothing() -> None:
    rows = ordinary_rows(300, 1)
    before = answers(ROWS, as_csv(ROWS, rows))
    nothing = [np.zeros_like(one) for one in before]
    shuffled = [rows[place] for place in np.random.default_rng(1).permutation(len(rows))]
    assert_adds(before, answers(ROWS, as_csv(ROWS, shuffled)), nothing)
    assert_adds(before, answers(ROWS, gzip.compress(as_csv(ROWS, rows, end="\r\n"))), nothing)
    names = [column.name for column in ROWS.schema.columns]
    columns = pa.table({name: [row[name] for row in rows] for name in names})
    for group in (1, 7, 4096):
        target = io.BytesIO()
        pq.write_table(columns, target, row_group_size=group)
        assert_adds(before, answers(ROWS, target.getvalue(), TableFormat(kind="parquet")), nothing)
    for kind in ("xlsx", "ods"):
        assert_adds(before, answers(ROWS, as_workbook(ROWS, rows, kind), TableFormat(kind=kind)), nothing)


@pytest.mark.parametrize("kind", ["xlsx", "ods"])
def test_one_more_row_of_a_workbook_adds_the_same_wherever_it_stands(kind: Literal["xlsx", "ods"]) -> None:
    rows, (far,), form = ordinary_rows(9, 1), far_rows(1), TableFormat(kind=kind)
    line = {**far, **ODD, LABEL: ""}
    own, before = (answers(ROWS, as_workbook(ROWS, some, kind), form) for some in ([line], rows))
    for place in (0, len(rows)):
        assert_adds(before, answers(ROWS, as_workbook(ROWS, [*rows[:place], line, *rows[place:]], kind), form), own)


@pytest.mark.parametrize(
    ("world", "person", "asked"),
    [(PEOPLE, "somebody new", True), (HELD_OUT, "somebody new", True), (HELD_OUT, "a fourth", False)],
    ids=["nobody held out", "some held out", "held out"],
)
def test_one_more_unit_adds_the_same_wherever_its_lines_stand(world: World, person: str, asked: bool) -> None:
    """More lines than may be kept: which ones are follows from the unit's own, and so does its side of the split."""
    others = ordinary_rows(15, 3)
    lines = [{**row, "person": person} for row in [*far_rows(2), *ordinary_rows(3, 1, seed=7)]]
    own = answers(world, as_csv(world, lines))
    assert any(one.any() for one in own) == asked
    before = answers(world, as_csv(world, others))
    assert_adds(before, answers(world, as_csv(world, [*lines, *others])), own)
    mixed = [*others[:4], *lines[:2], *others[4:20], *lines[2:4], *others[20:], lines[4]]
    assert_adds(before, answers(world, as_csv(world, mixed)), own)


def plant_guesses_ranked_among_the_rows_beside(patch: pytest.MonkeyPatch) -> None:
    right = LinearGuess.guesses

    def guesses(self: LinearGuess, column: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        found, confidence = right(self, column, n_rows)
        return found, np.argsort(np.argsort(confidence, kind="stable"), kind="stable") * 2**16 // max(n_rows, 1)

    patch.setattr(LinearGuess, "guesses", guesses)


NEIGHBOURLY: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "centred predictions": PREDICTION_FAULTS["predictions of a number centred on the rows beside"],
    "ranked guesses": plant_guesses_ranked_among_the_rows_beside,
}


@pytest.mark.parametrize("planted", NEIGHBOURLY)
def test_errors_that_look_at_the_rows_beside_are_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_errors = tuple(one for one in questions() if one.query in ("losses by group", "guesses by label"))
    monkeypatch.setattr(sys.modules[__name__], "questions", lambda: of_errors)
    NEIGHBOURLY[planted](monkeypatch)
    with pytest.raises(AssertionError, match="losses by group" if "predictions" in planted else "guesses by label"):
        test_one_more_line_adds_the_same_wherever_it_stands("far")
