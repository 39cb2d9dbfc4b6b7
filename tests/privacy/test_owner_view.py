"""The owner's exact answers agree with the rows, part by part."""

from __future__ import annotations

import ast
import copy
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from synth.errors import PrivacyError
from synth.privacy.table import PrivateTable
from synth.reports.owner_view import OWNER_ONLY_READERS, OwnerView
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, Schema, TableFormat
from synth.schema.columns.base import CellCounts

KEY = b"an account's secret, 32 bytes of"
ROOT = Path(__file__).parents[2]
SCHEMA = Schema(
    (
        IdentifierColumn("who"),
        NumberColumn("age", 0, 9, 1, missing=True),
        CategoryColumn("town", ("Ayr", "Bath"), other=True),
    ),
    PrivacyUnit("person", 2, "who"),
    number_of_units=7,
)


def written(n_rows: int) -> bytes:
    rows = [f"{place % 7},{place % 13},{'ABC'[place % 3]}yr\n" for place in range(n_rows)]
    return ("who,age,town\n" + "".join(rows)).encode()


class Files:
    def __init__(self, **tables: bytes) -> None:
        self._tables = tables

    def open(self, table_id: str) -> io.BytesIO:
        return io.BytesIO(self._tables[table_id])


@pytest.fixture(scope="module")
def view() -> OwnerView:
    files = Files(one=written(40), test=written(9).replace(b",", b";"))
    return OwnerView.open(
        files, "one", SCHEMA, TableFormat(), account_key=KEY, holdout=0.3, test_table_id="test",
        test_form=TableFormat(separator=";"),
    )  # fmt: skip


def test_parts_are_the_rows_that_a_run_reads(view: OwnerView) -> None:
    assert view.parts == ("train", "holdout", "test")
    assert view.rows() + view.rows("holdout") == 14
    assert view.rows("test") == 9
    for part in ("train", "holdout"):
        table = PrivateTable.open(
            Files(one=written(40)), "one", SCHEMA, TableFormat(), account_key=KEY, holdout=0.3, parts=(part,)
        )[0]
        np.testing.assert_array_equal(view.column("age", part), table._column("age"))
        np.testing.assert_array_equal(view.codes(part)[:, 1], table._column("town"))


def test_rows_of_one_unit_have_one_number_and_lie_on_one_side(view: OwnerView) -> None:
    # Seven ids, capped at two rows.
    for part in ("train", "holdout"):
        units = view.units(part)
        assert len(units) == view.rows(part)
        assert np.bincount(units).max() == 2
    assert len(set(view.units().tolist())) + len(set(view.units("holdout").tolist())) == 7
    without = OwnerView.from_codes(Schema((NumberColumn("age", 0, 9, 1),)), {"train": {"age": [1, 1, 2]}})
    np.testing.assert_array_equal(without.units(), [0, 1, 2])


def test_cells_that_were_not_as_declared_are_counted_over_all_rows(view: OwnerView) -> None:
    assert view.reading is not None
    counts = view.reading.cells
    ages = [place % 13 for place in range(40)]
    assert counts["age"] == CellCounts(outside=sum(age > 9 for age in ages))
    assert counts["town"] == CellCounts(outside=26)
    assert (view.reading.rows, view.reading.blank_lines, view.reading.unreadable_lines) == (40, 0, 0)


def test_rows_without_an_id_are_in_no_part_and_change_none(view: OwnerView) -> None:
    lines = written(40).splitlines(keepends=True)
    data = b"".join([*lines[:5], b",3,Ayr\n", *lines[5:20], b",9,Byr\n,,\n", *lines[20:]])
    more = OwnerView.open(Files(one=data), "one", SCHEMA, TableFormat(), account_key=KEY, holdout=0.3)
    for part in ("train", "holdout"):
        np.testing.assert_array_equal(more.codes(part), view.codes(part))


def test_a_part_that_is_not_there_is_refused() -> None:
    view = OwnerView.from_codes(SCHEMA, {"train": {"age": [1], "town": [0]}})
    assert view.parts == ("train",)
    with pytest.raises(PrivacyError, match="no rows called 'holdout'"):
        view.rows("holdout")


def test_without_a_hold_out_every_row_is_train() -> None:
    view = OwnerView.open(Files(one=written(40)), "one", SCHEMA, TableFormat(), account_key=KEY)
    assert view.parts == ("train",)
    assert view.rows() == 14


def test_a_view_shows_no_rows() -> None:
    view = OwnerView.from_codes(SCHEMA, {"train": {"age": [1], "town": [0]}})
    assert repr(view) == "<OwnerView: owner only, rows are not shown>"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="cannot be copied or pickled"):
            copied(view)
    with pytest.raises(PrivacyError, match="opened by a table's id"):
        OwnerView()


def test_the_listed_modules_and_no_others_read_exact_rows() -> None:
    readers = set()
    for path in [*(ROOT / "synth").rglob("*.py"), *(ROOT / "pages").glob("*.py")]:
        module, text = ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text(encoding="utf-8")
        if "owner_view" not in text:
            continue
        names = {
            name
            for node in ast.walk(ast.parse(text))
            for name in (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                if isinstance(node, ast.ImportFrom) else []
            )
        }  # fmt: skip
        if "synth.reports.owner_view" in names:
            readers.add(module)
    assert readers == set(OWNER_ONLY_READERS)
