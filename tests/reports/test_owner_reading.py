"""The owner sees what became of lines and cells that are not as declared."""

from __future__ import annotations

import io

from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Table
from synth.reports.owner_view import OwnerView
from synth.reports.reading import owner_reading
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, Schema, TableFormat, YesNoColumn

SCHEMA = Schema(
    (
        IdentifierColumn("who"),
        NumberColumn("weight", 0, 200, 1, fallback=70),
        CategoryColumn("town", ("Ayr",), other=True),
        YesNoColumn("well", missing=True),
    ),
    PrivacyUnit("person", 2, "who"),
    "private",
)
LINES = b'who,weight,town,well\na,80kg,Ayr,yes\nb,91 kg,Leith,\n,70,Ayr,perhaps\nc,500,Ayr,no\n\nd,5\ne,5,"Ayr,no\n'


def test_every_odd_cell_is_counted_and_its_fate_named() -> None:
    view = OwnerView.open(lambda: io.BytesIO(LINES), "", SCHEMA, TableFormat(), account_key=b"k")
    (entry,) = owner_reading(view.reading, SCHEMA)
    assert isinstance(entry, OwnerOnlyEvidence)
    assert entry.value == (2 + 2 + 1) + (2 + 1) + (2 + 1)
    assert "6 rows were read. Blank lines, which are no rows in a table of several columns: 1. Unr" in entry.sentence
    assert "all of whose cells count as unreadable: 2. Rows without 'who', which are not used: 3." in entry.sentence
    (table,) = entry.figures
    assert isinstance(table, Table)
    assert table.rows == (
        ("weight", 0, 4, 1, "70"),
        ("town", 0, 2, 1, "other"),
        ("well", 1, 2, 1, "missing"),
    )


def test_codes_in_memory_were_not_read() -> None:
    assert owner_reading(OwnerView.from_codes(SCHEMA, {}).reading, SCHEMA) == ()
