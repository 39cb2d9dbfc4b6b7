"""Names that are not what they look like, and how they are shown: on screens, in messages, in published texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import ConfigError, SchemaError
from synth.names import in_natural_order, name_problem, odd_names, one_form, shown, visible, words_of
from synth.schema import NumberColumn, Schema

CYRILLIC_A = "\u0430"

SHOWN = {
    "age": "age",
    "\u202egae": "⟨U+202E⟩gae",
    "age\u200b": "age⟨U+200B⟩",
    "a\u00adge": "a⟨U+00AD⟩ge",
    "a\u00a0ge": "a⟨U+00A0⟩ge",
    "a\nge\t": "a⟨U+000A⟩ge⟨U+0009⟩",
    "a\u3164": "a⟨U+3164⟩",
    "a\ufe0f": "a⟨U+FE0F⟩",
    f"{CYRILLIC_A}ge": "⟨U+0430⟩ge",
    "\u0432\u043e\u0437\u0440\u0430\u0441\u0442": "\u0432\u043e\u0437\u0440\u0430\u0441\u0442",
    "\u0394age": "\u0394age",
    "caf\u00e9 \u6f22\u5b57": "caf\u00e9 \u6f22\u5b57",
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_cannot_be_seen_is_shown_by_its_number(name: str) -> None:
    assert visible(name) == SHOWN[name]


@given(st.text())
def test_shown_texts_hide_nothing_and_stay_as_they_are(text: str) -> None:
    seen = visible(text)
    assert seen.isprintable()
    assert visible(seen) == seen
    assert len(shown(text * 100)) <= 60 * 10 + 3


def test_names_that_look_the_same_are_told() -> None:
    assert odd_names(["age", "weight", "Age", "caf\u00e9"]) == []
    (one,) = odd_names(["\u0441\u043e\u0440", "cop"])
    assert "look the same" in one
    assert "U+0063 Latin small letter c" in one
    mixed, twin = odd_names(["age", f"{CYRILLIC_A}ge"])
    assert mixed == "The column name '⟨U+0430⟩ge' is not what it looks like: U+0430 Cyrillic small letter a."
    assert twin.startswith("The columns 'age' and '⟨U+0430⟩ge' look the same.")
    for pair in (("a b", "a\u00a0b"), ("a", "a\u200b"), ("e\u0301", "\u00e9"), ("\uff41ge", "age"), ("a b", "a  b")):
        assert any("look the same" in sentence for sentence in odd_names(pair)), pair


def test_messages_show_names_as_they_are() -> None:
    with pytest.raises(SchemaError) as caught:
        NumberColumn("a\u202eb", 1, 0, 1)
    assert str(caught.value).startswith("'a⟨U+202E⟩b': high must be larger than low")
    assert str(ConfigError("two\nlines\u200b")) == "two\nlines⟨U+200B⟩"


def test_a_schema_still_holds_the_name_itself() -> None:
    assert Schema((NumberColumn("a\u202eb", 0, 1, 1),)).names == ("a\u202eb",)


def test_names_have_a_length_and_words() -> None:
    assert name_problem("x" * 256) is None
    assert name_problem(" ") == "A column has no name. Give every column a name."
    assert words_of("birthDate_2 of-Person") == ["birth", "date", "2", "of", "person"]
    assert words_of("\u202e--") == []


def test_markdown_shows_letters_and_what_is_unseen() -> None:
    from pages.ui.words import plain

    assert plain("a\u202e*b*") == "a⟨U+202E⟩\\*b\\*"
    assert plain("_a_b_ `c`") == "\\_a_b\\_ \\`c\\`"


def test_published_texts_show_names_as_they_are() -> None:
    from synth.reports.document import report_page
    from synth.reports.drawing import draw
    from synth.reports.figures import Table

    name = f"{CYRILLIC_A}ge\u202e<b>"
    page = draw(Table("Table", ("column",), ((name,),))) + report_page((), heading=name, promise=(name,))
    assert "⟨U+0430⟩ge⟨U+202E⟩&lt;b&gt;" in page
    assert "\u202e" not in page
    assert CYRILLIC_A not in page


def test_the_command_line_shows_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from synth.cli.speaking import say, tell

    say("a\u202eb")
    tell("a\u200bb")
    assert capsys.readouterr() == ("a⟨U+202E⟩b\n", "a⟨U+200B⟩b\n")


def test_a_table_of_the_pages_shows_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    from pages.ui import charts

    drawn: list[pd.DataFrame] = []
    monkeypatch.setattr(charts.st, "table", lambda styled, **_: drawn.append(styled.data))
    charts.show_table(pd.DataFrame({"column\u200b": ["a\u202eb"], "count": [1]}), alt="t", key="t")
    assert drawn[0].to_dict("records") == [{"column⟨U+200B⟩": "a⟨U+202E⟩b", "count": 1}]


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("  city\u2003 survey\u00a0", "city survey"),
        ("city\u200bsurvey", "city survey"),
        ("cit\u0065\u0301", "cit\u00e9"),
        ("\uff43ity", "city"),
        ("a\ufe0f\U000e0142b", "a b"),
        ("one\ntwo\tthree\x07", "one two three"),
        ("\u3164\u2800", ""),
    ],
)
def test_words_have_one_form(typed: str, kept: str) -> None:
    assert one_form(typed) == kept == one_form(kept)


def test_one_form_is_a_fixed_point_of_any_characters() -> None:
    random = np.random.default_rng(40)
    signs = [
        " ",
        "a",
        "e",
        "\u0301",
        "\u0338",
        "<",
        "|",
        "\u00b4",
        "\ufdfa",
        "\u1160",
        "\u200d",
        "\U000e0101",
        "\u0f73",
    ]
    for _ in range(3000):
        text = "".join(random.choice(signs, random.integers(1, 9)))
        assert one_form(one_form(text)) == one_form(text)
        assert not set(one_form(text)) & {"\u1160", "\u200d", "\U000e0101"}


def test_names_of_the_table_stay_as_they_are_in_a_rule() -> None:
    names = ["net  pay", "gross\u00a0pay", "pay"]
    rule = "  net  pay   <=\u2003gross\u00a0pay "
    assert one_form(rule, keeping=names) == "net  pay <= gross\u00a0pay"
    assert one_form(one_form(rule, keeping=names), keeping=names) == one_form(rule, keeping=names)


@pytest.mark.parametrize(
    "wanted",
    [
        ["-10", "-9.5", "0", "0.25", "0.5", "9", "10"],
        ["-1,5", "0", "2,25", "10"],
        ["under 18", "18-24", "25-64", "65+"],
        ["<1 year", "1 year", "2-5 years", "6-10 years", ">10 years", "Never"],
        ["E9", "E11.2", "E11.10", "e12", "F1"],
        ["Zürich 2", "Zürich 10", "zürich 11"],
        ["January", "february", "MARCH"],
        ["Mon", "Tue", "Sun"],
        ["Jan", "Jane"],
        ["", "  ", "9" * 5000, "1" + "0" * 5000],
    ],
)
def test_values_are_listed_as_people_list_them_whatever_order_they_come_in(wanted: list[str]) -> None:
    assert in_natural_order(wanted) == wanted
    assert in_natural_order(reversed(wanted)) == wanted
