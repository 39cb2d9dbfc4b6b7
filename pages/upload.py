"""1 Upload: whose table it is, then the file, straight into the encrypted store."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.server.uploads import stream_of, whole_stream
from pages.ui.badges import badge
from pages.ui.database import database_panel
from pages.ui.draft import fill_from_config, take_table
from pages.ui.guards import through_the_application
from pages.ui.notations import notations_note
from pages.ui.session import (
    TABLE_TYPES,
    application,
    bind,
    draft,
    forget_uploads,
    forget_widgets,
    go,
    own_table,
    start_again,
    uploader_key,
)
from pages.ui.words import count, note, plain, size_in_words
from synth.errors import ConfigError, SynthError, TableError
from synth.limits import DOCUMENT_BYTES
from synth.names import odd_names, visible
from synth.schema import ENCODINGS, MOST_HEADER_ROWS, RunConfig, TableFormat, config_of_text, parse_format
from synth.services.views import ReceivedTable

__all__ = ["screen"]

NEW_PEOPLE = "No, new people"
_MAXIMUM_CODEBOOK_MEGABYTES = DOCUMENT_BYTES // 10**6

_MOST_WARNINGS = 20
"""About names, one by one: a browser bears some, and not two for each of 5,000 columns."""

_FORM = "field:format-"
"""Widgets of the form begin like those of the draft, so that they are forgotten with them when a codebook is read."""

_SEPARATORS = {
    "as the header line says": "auto",
    "comma ,": ",",
    "semicolon ;": ";",
    "tab": "\t",
    "bar |": "|",
    "space": " ",
}

_POINTS: dict[str, str | None] = {"a point: 1.5": None, "a comma: 1,5": ","}
_BETWEEN: dict[str, str | None] = {
    "nothing: 1234": None,
    "a comma: 1,234": ",",
    "a point: 1.234": ".",
    "a space: 1 234": " ",
    "an apostrophe: 1'234": "'",
}
_ASKED_MORE = {"sheet", "header_rows", "names_from", "decimal", "thousands", "units", "dates"}
_ASKED_ABOVE = " It is asked above, under 'How the file is written'. Then send the file again."
_OPEN = "format asked"
"""Whether the form stays unfolded, because a file did not fit what it says."""

_SHEETS = "sheets offered"
"""Names of the sheets of a workbook that was sent without saying which one is meant; public, as column names are."""


def screen() -> None:
    """Draw the screen."""
    st.title("Upload a table")

    table = own_table()
    if table is not None:
        show_stored(table)
    else:
        st.markdown(
            "The file is encrypted while it arrives. Its rows are never shown: no preview, no chart, no smallest or "
            "largest value."
        )
        account = account_question()
        if account is not None:
            format_form()
            table_uploader(account)
            database_panel(account)
            codebook_uploader()


def account_question() -> str | None:
    """Ask whose table this is before it comes; return the account, or None while the answer is open."""
    names = application().account_names()
    st.header("Is this about the same people as a table already in the ledger?")
    chosen = st.radio(
        "People",
        [NEW_PEOPLE, *names],
        index=None,
        format_func=plain,
        label_visibility="collapsed",
        key="people",
        help="The ledger counts what has been spent on people, not on files. A newer file about them counts too.",
    )
    if chosen is None:
        note("The same people share one privacy budget, even if the file has changed.")
        return None
    if chosen != NEW_PEOPLE:
        draft()["account"] = chosen
        return str(chosen)
    st.text_input(
        "A name for these people",
        placeholder="city-survey-2026",
        help="The people the ledger protects, not the file. The name is printed in the certificate.",
        **bind("account"),
    )
    name = str(draft()["account"]).strip()
    if name in names:
        st.info(f"There is an account '{plain(name)}' already: this table will count on its budget.")
    return name or None


def format_form() -> None:
    """Ask how the file is written, folded away because most files need no answer."""
    held = draft()["format"]
    with st.expander(
        "How the file is written (separator, header, numbers, dates, missing cells)",
        expanded=st.session_state.get(_OPEN, False),
    ):
        left, right = st.columns(2)
        held_encoding = held.get("encoding", "utf-8")
        encodings = {_encoding(name): name for name in (*ENCODINGS, held_encoding)}
        words = {sign: word for word, sign in _SEPARATORS.items()}
        separator = _key("separator", words.get(held.get("separator", "auto"), "as the header line says"))
        chosen = left.selectbox("Separator", list(_SEPARATORS), key=separator)
        encoding = right.selectbox(
            "Encoding",
            list(encodings),
            key=_key("encoding", _encoding(held_encoding)),
            help="How letters beyond A to Z are stored. Older survey exports are often Western Europe (latin-1).",
        )
        missing = left.text_input(
            "Signs for a missing cell, separated by commas",
            placeholder="NA, ?",
            key=_key("missing-signs", ", ".join(sign for sign in held.get("missing", ()) if sign)),
            help="An empty cell always counts as missing.",
        )
        skipped = _key("comment", held.get("comment", ""))
        comment = right.text_input("Skip lines at the top that begin with", key=skipped)
        newlines = right.checkbox(
            "Cells may hold line breaks",
            key=_key("newlines", held.get("newlines", False)),
            help="Only inside quotation marks. You then say that every quotation mark of the file is closed, and the "
            "certificate repeats it: an open one would draw other people's lines into its own.",
        )
        header = st.checkbox("The first row holds the column names", key=_key("has-header", held.get("header", True)))
        passed = right.number_input(
            "Lines passed over before the header, or before the first row",
            min_value=0,
            step=1,
            key=_key("skip-rows", int(held.get("skip_rows", 0))),
        )
        given = _key("names", "\n".join(held.get("names", ())))
        names = "" if header else st.text_area("Column names, one a line", key=given)
        more = (_names_form(held) if header else {}) | _notation_form(held)
    signs = _listed(missing)
    # What a codebook says and nobody is asked here stays as it is.
    form = {key: value for key, value in held.items() if key not in {"comment", "names", *_ASKED_MORE}}
    form |= {"separator": _SEPARATORS[chosen], "encoding": encodings[encoding], **more}
    form |= {"missing": ["", *signs], "header": header, "newlines": newlines, "skip_rows": int(passed)}
    if comment:
        form["comment"] = comment
    if not header:
        form["names"] = [name.strip() for name in names.splitlines() if name.strip()]
    draft()["format"] = form


def _encoding(name: str) -> str:
    return ENCODINGS.get(name, name)


def _names_form(held: dict[str, Any]) -> dict[str, Any]:
    """Ask which lines hold names; return the keys of a format that say something."""
    left, right = st.columns(2)
    rows = left.number_input(
        "Lines that hold names",
        min_value=1,
        max_value=MOST_HEADER_ROWS,
        step=1,
        key=_key("header-rows", int(held.get("header_rows", 1))),
        help="Two where a line of questions or units stands below the names.",
    )
    if rows == 1:
        return {}
    ways = ["all of them, joined by _", *(f"line {line} of them" for line in range(1, int(rows) + 1))]
    start = ways[min(int(held.get("names_from") or 0), int(rows))]
    way = ways.index(right.selectbox("Columns are called by", ways, key=_key("names-from", start)))
    return {"header_rows": int(rows)} | ({"names_from": way} if way else {})


def _notation_form(held: dict[str, Any]) -> dict[str, Any]:
    """Ask how numbers and dates are written, and which sheet is meant; return the keys that say something."""
    left, right = st.columns(2)
    offered = st.session_state.get(_SHEETS, ())
    if offered:
        sheet = left.selectbox("Sheet of the workbook", offered, index=None, format_func=plain, key=_FORM + "a-sheet")
    else:
        sheet = left.text_input(
            "Sheet of a workbook",
            key=_key("sheet", held.get("sheet", "")),
            help="Needed only where there are several; sending the workbook tells you which.",
        )
    point, between = _word(_POINTS, held, "decimal"), _word(_BETWEEN, held, "thousands")
    decimal = right.selectbox("Decimals come behind", list(_POINTS), key=_key("decimal", point))
    thousands = left.selectbox("Between thousands", list(_BETWEEN), key=_key("thousands", between))
    units = right.text_input(
        "Units beside numbers, separated by commas",
        placeholder="€, kg, %",
        key=_key("units", ", ".join(held.get("units", ()))),
        help="They are passed over: '80 kg' is 80 and '45 %' is 45.",
    )
    dates = left.text_input(
        "How dates are written, separated by commas",
        placeholder="%d/%m/%Y",
        key=_key("dates", ", ".join(held.get("dates", ()))),
        help="%d is the day, %m the month, %Y the year (%y with two digits), %H:%M the time; the first form that fits "
        "a cell counts. Dates such as 2024-01-31 are always read.",
    )
    said = {
        "sheet": sheet or None,
        "decimal": _POINTS[decimal],
        "thousands": _BETWEEN[thousands],
        "units": _listed(units),
        "dates": _listed(dates),
    }
    form = {key: value for key, value in said.items() if value}
    notations_note(form)
    return form


def _word(words: dict[str, str | None], held: dict[str, Any], key: str) -> str:
    return next((word for word, sign in words.items() if sign == held.get(key)), next(iter(words)))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _key(name: str, value: str | bool | int) -> str:
    """Return the key of a widget that starts from a value; a browser keeps what it showed before unless it is set."""
    if _FORM + name not in st.session_state:
        st.session_state[_FORM + name] = value
    return _FORM + name


def table_uploader(account: str) -> None:
    """Take the table in as soon as it has arrived, and let go of the file."""
    limit = application().settings.maximum_upload_bytes // 2**20
    uploaded = st.file_uploader(
        f"Table: CSV, TSV, Excel (.xlsx), OpenDocument (.ods) or Parquet, at most {limit} MB",
        type=TABLE_TYPES,
        key=uploader_key("table"),
        max_upload_size=limit,
        help="Larger tables: use the command line, `synth run config.yaml --table FILE`.",
    )
    note(
        f"A file over {limit} MB, or of another kind, only shows a red sign here. Use the command line for large ones: "
        "`synth run …`. Save old Excel files (.xls) as .xlsx."
    )
    if uploaded is not None:
        _receive(uploaded, account)
    _show_refusal("table")


def codebook_uploader() -> None:
    """Take a configuration that describes the table, so that bounds and categories need not be typed."""
    uploaded = st.file_uploader(
        "Codebook: a configuration (YAML) that describes the columns, if you have one",
        type=["yaml", "yml", "json"],
        key=uploader_key("codebook"),
        max_upload_size=_MAXIMUM_CODEBOOK_MEGABYTES,
    )
    if uploaded is not None:
        try:
            with whole_stream(uploaded, most=_MAXIMUM_CODEBOOK_MEGABYTES * 2**20) as stream:
                config = _config_of_text(stream.read())
        except SynthError as error:
            forget_uploads()
            st.session_state["refusal"] = ("codebook", str(error))
        else:
            forget_uploads()
            account = draft()["account"]
            absent = fill_from_config(draft(), config)
            draft()["account"] = account or config.account
            note = "The description has been filled in from the file."
            if absent and draft()["table_id"]:
                note += f" Not in this table and left out: {', '.join(absent)}."
            st.session_state["notice"] = note
            forget_widgets()
        st.rerun()
    _show_refusal("codebook")
    if "notice" in st.session_state:
        st.success(plain(st.session_state.pop("notice")))


def show_stored(table: ReceivedTable) -> None:
    """Say what is known of a stored table: its name, size, columns, and the row count to its owner."""
    st.success("Stored, encrypted. The upload has been removed from memory.")
    name, size, columns, rows = st.columns([2, 1, 1, 1], border=True)
    name.metric("Table", plain(table.name))
    size.metric("Size", size_in_words(table.size_bytes))
    columns.metric("Columns", len(table.columns))
    if table.n_rows is not None:
        with rows:
            st.metric("Rows", count(table.n_rows))
            badge("owner_only")
            note("Not published unless you say so in step 2.")
    if table.warning:
        # It may tell how many lines are blank or cannot be read, and that a table is another account's too.
        badge("owner_only")
        st.warning(plain(table.warning))
    st.markdown("**Columns, names only:** " + ", ".join(f"`{_code(column.name)}`" for column in table.columns))
    if table.renamed:
        given = [f"column {place} is {_code(name)}" for place, name in table.renamed.items()][:_MOST_WARNINGS]
        st.info(f"Not every column has a name of its own in the file. From here on {', '.join(given)}.")
    odd = odd_names([column.name for column in table.columns])
    for sentence in odd[:_MOST_WARNINGS]:
        st.warning(plain(sentence))
    if len(odd) > _MOST_WARNINGS:
        st.warning(
            f"{len(odd) - _MOST_WARNINGS:,} more warnings of this kind. Step 2 lists every name, with what cannot "
            "be seen or looks like another letter as its number."
        )
    note(f"These people are '{plain(table.account)}' in the ledger.")
    if st.button("Continue to 2 Describe", type="primary", key="continue-describe"):
        go("describe")
    with st.expander("Test rows, a codebook, or another table"):
        _test_table(table.account)
        codebook_uploader()
        _leave(table)


def _test_table(account: str) -> None:
    held = draft()
    if held["test_table_id"] is not None:
        note("A test table is stored. It is used for owner-only accuracy and never for making rows.")
        return
    uploaded = st.file_uploader(
        "Test rows with the same columns (owner only, never used for making rows)",
        type=TABLE_TYPES,
        key=uploader_key("test"),
        max_upload_size=application().settings.maximum_upload_bytes // 2**20,
    )
    if uploaded is not None:
        try:
            form = _format_of(held["test_format"] or held["format"])
            with stream_of(uploaded) as stream:
                received = application().receive(
                    stream, account=account, name=uploaded.name, table_format=form, kind="test"
                )
            held["test_table_id"] = received.table_id
        except SynthError as error:
            st.session_state["refusal"] = ("test", str(error))
        finally:
            forget_uploads()
        st.rerun()
    _show_refusal("test")


def _leave(table: ReceivedTable) -> None:
    keep, delete = st.columns(2)
    if keep.button("Work on another table", key="another-table"):
        start_again()
        st.rerun()
    if delete.button("Delete this table now", key="delete-table", help="Removes the encrypted copy. Runs are kept."):
        application().delete_table(table.table_id)
        start_again()
        st.rerun()


def _receive(uploaded: Any, account: str) -> None:
    held = draft()
    try:
        with st.spinner("Encrypting and checking the header"), stream_of(uploaded) as stream:
            table = application().receive(
                stream, account=account, name=uploaded.name, table_format=_format_of(held["format"])
            )
        take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
    except TableError as error:
        st.session_state["refusal"] = ("table", f"{error}{_ASKED_ABOVE if error.key else ''}")
        st.session_state[_OPEN] = bool(error.key)
        if error.key == "sheet":
            st.session_state[_SHEETS] = error.choices
    except SynthError as error:
        st.session_state["refusal"] = ("table", str(error))
    finally:
        # Whatever happened, the upload is gone before the page is drawn again.
        forget_uploads()
    st.rerun()


def _format_of(form: dict[str, Any]) -> TableFormat:
    """Read the format the page asked for, with the same checks as a configuration file."""
    return parse_format(form)


def _config_of_text(text: bytes) -> RunConfig:
    try:
        return config_of_text(text.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError("This does not look like UTF-8 text. Save it as UTF-8.") from None


def _show_refusal(where: str) -> None:
    refusal = st.session_state.get("refusal")
    if refusal is not None and refusal[0] == where:
        st.error(plain(refusal[1]))
        del st.session_state["refusal"]


def _code(name: str) -> str:
    return visible(name).replace("`", "'")


if __name__ == "__main__":
    through_the_application()
    screen()
