"""Many columns described at once, on the page: chosen, set, shown before it is applied, undone; clicks are counted."""

from __future__ import annotations

import datetime
import io
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from driving import CODEBOOK, declare_people, errors, go, new_people, open_app, texts, upload_table, uploader
from streamlit.testing.v1 import AppTest

from pages.ui.column_groups import applied, as_another, differences, groups_of, set_in, undone
from pages.ui.column_rows import Row, errors_of_rows, new_row, row_of_mapping, state_of
from synth.schema import READ_FROM_ROWS

SCALE = {"low": "1", "high": "5", "step": "1"}
QUESTIONS = [f"q{number}" for number in range(1, 301)]
MIXED = [
    *(f"item{number}" for number in range(1, 15)),
    *(f"has_{thing}" for thing in ("car", "garden", "dog", "cat", "job", "pension", "partner", "children")),
    *(f"pct_{part}" for part in ("rent", "food", "travel", "tax", "health", "school")),
    *(f"{event}_date" for event in ("birth", "move", "visit", "wedding")),
    *("income", "rent", "savings", "debt", "tips"),
    *("town", "county", "village"),
]


@dataclass
class Visitor:
    """Somebody on Describe, whose clicks and typed texts are counted."""

    app: AppTest
    clicks: int = 0
    typed: int = 0

    def press(self, key: str) -> None:
        self.clicks += 1
        self.app.button(key=key).click().run()

    def choose(self, name: str, value: Any) -> None:
        self.clicks += 1
        found = [box for box in (*self.app.selectbox, *self.app.multiselect) if str(box.key).startswith(f"many-{name}")]
        (box,) = found
        box.set_value(value).run()

    def tick(self, name: str) -> None:
        self.clicks += 1
        (box,) = [box for box in self.app.checkbox if str(box.key).startswith(f"many-{name}")]
        box.set_value(not box.value).run()

    def type(self, **cells: str) -> None:
        for cell, text in cells.items():
            self.typed += 1
            (box,) = [box for box in self.app.text_input if str(box.key).startswith(f"many-{cell}")]
            box.set_value(text).run()

    @property
    def offered(self) -> str:
        """The group that the panel proposes."""
        (box,) = [box for box in self.app.selectbox if str(box.key).startswith("many-which")]
        return str(box.value)

    @property
    def rows(self) -> dict[str, Row]:
        return {row["name"]: row for row in self.app.session_state["draft"]["columns"]}

    @property
    def sources(self) -> dict[str, str]:
        return dict(self.app.session_state["draft"]["domain_source"])

    @property
    def preview(self) -> list[list[str]]:
        """What would change, line by line."""
        tables = [table.value for table in self.app.table if "Will be" in table.value.columns]
        return [[str(cell).replace("\\", "") for cell in line] for table in tables for line in table.to_numpy()]


def visitor(table: bytes, name: str = "survey.csv") -> Visitor:
    owner = Visitor(declare_people(go(upload_table(open_app(), table, name), "describe")))
    owner.clicks += 1
    owner.app.segmented_control(key="way").set_value("Set like columns together").run()
    return owner


def with_columns(*names: str) -> Visitor:
    return visitor(f"{','.join(names)}\n{','.join('1' for _ in names)}\n".encode())


def test_three_hundred_like_columns_in_six_clicks() -> None:
    owner = with_columns(*QUESTIONS)
    owner.choose("what", "number")
    owner.type(**SCALE)
    assert owner.preview == [
        ["q1, q2, q3, q4 and 296 more", "300", "not described", "number 1 to 5; step 1; may be empty"]
    ]
    owner.press("many-apply")
    assert (owner.clicks, owner.typed) == (3, 3)  # and six of both
    assert "Set in 300 columns: number 1 to 5; step 1; may be empty." in texts(owner.app)
    assert {(row["role"], row["low"], row["high"], row["step"], row["missing"]) for row in owner.rows.values()} == {
        ("number", "1", "5", "1", True)
    }
    assert not errors_of_rows(list(owner.rows.values()))
    owner.press("many-undo")
    assert {row["role"] for row in owner.rows.values()} == {""}
    assert "many-undo" not in {button.key for button in owner.app.button}


@pytest.mark.thorough
def test_forty_mixed_columns_in_twelve_clicks() -> None:
    """A Parquet file says which columns are numbers and dates; names say which belong together."""
    of_dates = {name: [datetime.date(2020, 1, 31)] for name in MIXED if name.endswith("_date")}
    of_texts = {name: ["north"] for name in ("town", "county", "village")}
    target = io.BytesIO()
    pq.write_table(pa.table({name: [1] for name in MIXED} | of_dates | of_texts), target)
    owner = visitor(target.getvalue(), "survey.parquet")
    assert len(owner.rows) == 40
    for expected, what, cells in (
        ("item* · 14 columns", None, SCALE),
        ("has_* · 8 columns", "preset: 0 or 1", {}),
        ("pct_* · 6 columns", None, {"low": "0", "high": "100", "step": "0.1"}),
        ("*_date · 4 columns", None, {"low": "1920-01-01", "high": "2025-12-31"}),
        ("every number · 5 columns", None, {"low": "0", "high": "9,000", "step": "10"}),
        ("every column without a role · 3 columns", "category", {"categories": "north, south"}),
    ):
        assert owner.offered == expected
        if what is not None:
            owner.choose("what", what)
        owner.type(**cells)
        owner.press("many-apply")
    assert not errors_of_rows(list(owner.rows.values()))
    assert owner.clicks == 9
    assert owner.typed == 12
    for left in range(5, -1, -1):
        owner.press("many-undo")
        assert ("many-undo" in {button.key for button in owner.app.button}) == (left > 0)
    assert not any(row["low"] or row["categories"] for row in owner.rows.values())


def test_a_pattern_leaves_complete_columns_alone_unless_it_is_told_otherwise() -> None:
    owner = with_columns("q1", "q2", "q3", "q3_text", "age")
    owner.choose("which", "columns that I choose")
    owner.choose("chosen", ["q2", "q3_text"])
    owner.choose("what", "leave out")
    owner.press("many-apply")
    owner.choose("which", "a pattern of the name")
    owner.type(pattern="Q*")
    assert "No column is called like 'Q*'." in texts(owner.app)
    owner.type(pattern="q*")
    owner.choose("what", "number")
    owner.type(**SCALE)
    assert owner.preview == [["q1 and q3", "2", "not described", "number 1 to 5; step 1; may be empty"]]
    owner.tick("leave")
    assert owner.preview[1] == ["q2 and q3_text", "2", "leave out", "number 1 to 5; step 1; may be empty"]
    owner.tick("leave")
    assert owner.app.button(key="many-apply").label == "Apply to 2 columns"
    owner.press("many-apply")
    assert [owner.rows[name]["role"] for name in ("q1", "q2", "q3", "q3_text", "age")] == [
        "number", "leave out", "number", "leave out", "number",
    ]  # fmt: skip
    assert owner.rows["age"]["low"] == ""


def test_what_cannot_be_used_is_said_before_it_is_applied() -> None:
    owner = with_columns("q1", "q2", "q3")
    owner.choose("what", "number")
    owner.type(low="5", high="1", step="1")
    assert errors(owner.app) == ["Highest must be larger than lowest (q1: 5, 1)."]
    assert owner.app.button(key="many-apply").disabled
    owner.type(low="much")
    assert owner.app.button(key="many-apply").disabled
    owner.type(low="0")
    assert not errors(owner.app)
    owner.press("many-apply")
    owner.choose("which", "all declared like one column")
    owner.choose("like", "q2")
    assert "Nothing would change." in texts(owner.app)
    assert owner.app.button(key="many-apply").disabled
    owner.type(high="7")
    assert owner.preview == [
        ["q1, q2 and q3", "3", "number 0 to 1; step 1; may be empty", "number 0 to 7; step 1; may be empty"]
    ]


def test_columns_are_described_as_another_is() -> None:
    owner = with_columns("sex", "twin", "age", "years")
    owner.choose("which", "columns that I choose")
    owner.choose("chosen", ["sex"])
    owner.choose("what", "preset: female or male")
    owner.press("many-apply")
    owner.choose("which", "all declared like one column")
    owner.choose("like", "twin")
    owner.choose("what", "as another column is declared")
    owner.choose("as", "sex")
    owner.press("many-apply")
    assert {**owner.rows["twin"], "name": "sex"} == owner.rows["sex"]
    assert owner.sources["twin"] == owner.sources["sex"] == "declared from preset: female or male; English words"
    owner.press("many-undo")
    assert set(owner.sources) == {"sex"}


def test_money_asks_for_its_highest_value() -> None:
    owner = with_columns("income", "rent", "debt")
    owner.choose("which", "every column without a role · 2 columns")
    owner.choose("what", "preset: money from 0, zero kept apart (you say the highest)")
    assert "many-apply" not in {button.key for button in owner.app.button}
    owner.type(**{"preset-highest": "much"})
    assert errors(owner.app) == ["The highest value must be a number."]
    owner.type(**{"preset-highest": "90,000"})
    owner.press("many-apply")
    assert [owner.rows[name]["high"] for name in ("income", "rent", "debt")] == ["", "90000", "90000"]


def test_undo_takes_back_one_application_and_leaves_what_was_changed_since() -> None:
    owner = with_columns("q1", "q2", "q3")
    owner.choose("what", "number")
    owner.type(**SCALE)
    owner.press("many-apply")
    owner.app.session_state["draft"]["columns"][1]["high"] = "7"
    owner.press("many-undo")
    assert [(row["role"], row["high"]) for row in owner.rows.values()] == [("", ""), ("number", "7"), ("", "")]


CODEBOOK_OF_MANY = (
    CODEBOOK.partition("columns:")[0]
    + """
columns: {age: {type: number, low: 0, high: 120, step: 1, missing: true}}
columns_like:
  - {like: "q*", type: number, low: 1, high: 5, step: 1, missing: true}
"""
)


def test_a_codebook_with_patterns_goes_by_the_names_of_the_uploaded_table() -> None:
    app = new_people(go(open_app(), "upload"), "survey")
    uploader(app, "codebook").upload("survey.yaml", CODEBOOK_OF_MANY.encode(), "application/yaml")
    app.run()
    assert errors(app) == ["This file declares columns by patterns of their names. Upload the table first, then this."]
    uploader(app, "table").upload("survey.csv", b"q2,age,q1\n1,30,5\n", "text/csv")
    app.run()
    uploader(app, "codebook").upload("survey.yaml", CODEBOOK_OF_MANY.encode(), "application/yaml")
    app.run()
    assert [(row["name"], row["high"]) for row in app.session_state["draft"]["columns"]] == [
        ("q2", "5"), ("age", "120"), ("q1", "5"),
    ]  # fmt: skip


# Without the page ----------------------------------------------------------------------------------------------------


def rows_of(*names: str, role: str = "") -> list[Row]:
    return [{**new_row(name, ""), "role": role} for name in names]


def test_groups_are_of_names_that_differ_in_a_number_or_share_a_word_and_of_roles() -> None:
    rows = rows_of("a1", "a2", "a3", "b-x", "b-y", "b-z", "u v", "w v", "x v", "lone")
    assert [(group.common, len(group.names)) for group in groups_of(rows)] == [
        ("a*", 3), ("b-*", 3), ("* v", 3), ("every column without a role", 10),
    ]  # fmt: skip


def test_a_group_of_a_role_that_is_one_of_names_is_offered_once() -> None:
    assert [group.label for group in groups_of(rows_of("a1", "a2", "a3", role="number"))] == ["a* · 3 columns"]


def test_complete_columns_and_times_in_other_cells_are_in_no_group() -> None:
    ready = row_of_mapping("a1", {"type": "drop"})
    time = {**new_row("at", "time"), "extra": {"of": "a2"}}
    assert [group.names for group in groups_of([ready, time, *rows_of("a2")])] == [("a2",)]


def test_a_blank_text_leaves_a_cell_of_the_same_role_as_it_is() -> None:
    row = {**row_of_mapping("a", {"type": "number", "low": 0, "high": 9, "step": 1}), "weight": "high"}
    changed = set_in(row, "number", {"low": "", "high": "5", "step": "", "missing": True})
    assert (changed["low"], changed["high"], changed["step"], changed["missing"]) == ("0", "5", "1", True)
    date = set_in(row, "date", {"low": "", "high": "", "step": ""})
    assert (date["low"], date["high"], date["weight"]) == ("", "", "high")
    assert set_in(row, "leave out", {"low": "3", "missing": True}) == {
        **new_row("a", ""), "role": "leave out", "weight": "high",
    }  # fmt: skip


def test_what_was_found_privately_for_one_column_is_declared_for_others() -> None:
    one, other = row_of_mapping("a", {"type": "yes_no", "yes": "y", "no": "n", "missing": True}), new_row("b", "")
    for source, expected in (("found privately, epsilon 0.1", None), ("as the questionnaire says", True)):
        after = {"b": as_another(other, one)}
        rows, sources, undo = applied([one, other], {"a": source, "b": "old"}, after, source=source)
        assert state_of(rows[1]).words == "● ready"
        assert sources == {"a": source} | ({"b": source} if expected else {})
        assert undone(rows, sources, undo) == ([one, other], {"a": source, "b": "old"}, ())


def test_what_was_taken_from_the_rows_stays_so_when_it_is_typed_over() -> None:
    rows = [new_row("q1", "number"), new_row("q2", "number")]
    after = {row["name"]: {**row, "low": "1", "high": "5"} for row in rows}
    taken = {"q1": READ_FROM_ROWS, "q2": "declared from a data dictionary: a table of columns"}
    typed, sources, undo = applied(rows, taken, after, source=None)
    assert sources == {"q1": READ_FROM_ROWS}
    assert undone(typed, sources, undo)[1] == taken


def test_changes_are_told_together_where_they_are_the_same() -> None:
    rows = [*rows_of("a", "b"), row_of_mapping("c", {"type": "drop"})]
    told = differences(rows, {row["name"]: set_in(row, "leave out", {}) for row in rows})
    assert [(one.columns, one.now, one.then) for one in told] == [("a and b", "not described", "leave out")]
    (told_of,) = differences(rows[:1], {"a": set_in(rows[0], "number", {"step": "1", "missing": True})})
    assert told_of.then == "number; step 1; may be empty (still missing: limits)"
    (told_of,) = differences(rows[:1], {"a": set_in(rows[0], "yes/no", {"categories": "a, b, c", "missing": True})})
    assert told_of.then == "yes/no"
    (told_of,) = differences([new_row("user_id", "")], {"user_id": new_row("user_id", "identifier")})
    assert told_of.then == "identifier (replaced) (proposed)"
