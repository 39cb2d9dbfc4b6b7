"""1 Upload: the file, straight into the encrypted store, then how it is written and whose table it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import streamlit as st

from pages.server.uploads import incoming, stream_of, ticket_of, whole_stream
from pages.ui.column_rows import host_of
from pages.ui.database import database_panel, show_caution
from pages.ui.dictionaries import keep_own_dictionary
from pages.ui.draft import fill_from_config, linked_of, rename_columns, take_table
from pages.ui.evidence import badge
from pages.ui.folders import folder_panel
from pages.ui.format_form import FORM_OPEN, SHEETS, format_form
from pages.ui.guards import through_the_application
from pages.ui.joining import second_table
from pages.ui.latest import latest_work
from pages.ui.looking import keep_look
from pages.ui.recognised import ask_open, format_lines
from pages.ui.session import (
    TABLE_TYPES,
    WaitingFile,
    application,
    bind,
    draft,
    forget_uploads,
    forget_widgets,
    go,
    keep_draft,
    own_table,
    refuse,
    say_when_saved,
    show_refusal,
    start_again,
    taking,
    uploader_key,
)
from pages.ui.words import count, note, plain, size_in_words
from synth.errors import ConfigError, SynthError, TableError
from synth.limits import DOCUMENT_BYTES
from synth.names import odd_names, visible
from synth.schema import (
    DeclaredTable,
    DropColumn,
    LinkedTables,
    RunConfig,
    config_of_text,
    format_to_mapping,
    parse_format,
)
from synth.schema.schema import MERGE
from synth.services.recognition import Recognised
from synth.services.views import ReceivedTable

NEW_PEOPLE = "No, new people"
_MAXIMUM_CODEBOOK_MEGABYTES = DOCUMENT_BYTES // 10**6

_MOST_WARNINGS = 20
"""About names, one by one: a browser can show some, but not two for each of 5,000 columns."""

_ASKED_BELOW = " Set it below, under 'File format'."
_KEPT = "file kept"
"""Where the session keeps a :class:`WaitingFile`."""

_PEOPLE, _NAME = "field:people", "field:account"


def screen() -> None:
    """Draw the screen."""
    title, saved = st.columns([3, 1], vertical_alignment="bottom")
    title.title("Upload a table")

    table = own_table()
    if table is not None:
        show_stored(table)
    else:
        st.markdown(
            "The file is encrypted as it arrives. Its rows are never shown: no preview, no charts, no minimum "
            "or maximum values."
        )
        names = application().account_names(own=True)
        again = table_uploader(_account(names))
        format_form()
        account = account_question(names)
        folder_panel(account)
        database_panel(account)
        codebook_panel()
        latest_work("Show the latest tables and runs")
        # Last, so that all the page says by now is what the file is read by.
        _take_waiting(account, again=again)
    keep_draft(merge=False)
    say_when_saved(saved)


def _account(names: Sequence[str]) -> str | None:
    """Return whose table it is said to be; None while that is open."""
    held = draft()
    if names and held["people"] not in (NEW_PEOPLE, *names):
        return None
    return str(held["people"] if held["people"] in names else held["account"]).strip() or None


def account_question(names: Sequence[str]) -> str | None:
    """Ask whose table this is, before it is kept; return the account, or None while the answer is open."""
    held = draft()
    st.header("Whose table is it?")
    if names:
        choices = [NEW_PEOPLE, *names]
        if held["people"] in choices:
            st.session_state.setdefault(_PEOPLE, held["people"])
        chosen = st.radio(
            "Is it about the same people as a table already in the ledger?",
            choices,
            index=None,
            format_func=plain,
            key=_PEOPLE,
            on_change=_take_people,
            help="The ledger counts spending per group of people, not per file: a newer file about the same people "
            "draws on the same budget.",
        )
        if chosen is None:
            note("The same people share one privacy budget, even if the file has changed.")
        if chosen in names:
            return _account(names)
    st.text_input(
        "A name for these people"
        if not names or chosen == NEW_PEOPLE
        else "Or a name for these people, if they are new",
        placeholder="city-survey-2026",
        help="It names the people, not the file, and is printed in the certificate. A later table about them will "
        "draw on the same privacy budget.",
        **{**bind("account"), "on_change": _take_name},
    )
    name = _account(names)
    waiting: WaitingFile | None = st.session_state.get(_KEPT)
    if name in names and not (waiting is not None and waiting.is_looked_at):
        st.info(f"An account named '{plain(name)}' already exists: this table will draw on its budget.")
    return name


def _take_people() -> None:
    held, chosen = draft(), st.session_state.get(_PEOPLE)
    held["people"] = chosen
    if chosen not in (None, NEW_PEOPLE):
        held["account"] = chosen


def _take_name(field: str) -> None:
    draft().update({field: st.session_state.get(_NAME, ""), "people": NEW_PEOPLE})
    st.session_state.pop(_PEOPLE, None)  # the page shows the answer that a new name is


def table_uploader(account: str | None) -> bool:
    """Take a file in as it arrives; return whether one that was asked about is to be read as the format says now.

    Parameters
    ----------
    account : str, optional
        Whose table it is said to be.
    """
    limit = application().settings.maximum_upload_bytes // 2**20
    uploaded = st.file_uploader(
        f"Table: CSV, TSV, Excel, OpenDocument, Parquet, Feather, SPSS, Stata or SAS, at most {limit} MB",
        type=TABLE_TYPES,
        key=uploader_key("table"),
        max_upload_size=limit,
        help="Larger tables: use the command line, `synth run config.yaml --table FILE`.",
    )
    if uploaded is not None:
        waiting = WaitingFile(ticket_of(uploaded), uploaded.name)
        with suppress(SynthError):  # what cannot be read is refused, in words, when the table is taken in
            waiting = replace(waiting, recognised=_recognised(waiting, None))
        st.session_state[_KEPT] = waiting
        forget_uploads(keep=waiting.ticket)
        st.rerun()
    show_refusal("table")
    held: WaitingFile | None = st.session_state.get(_KEPT)
    if held is None:
        note(
            "Larger files and other formats are marked in red and not uploaded. For large files use the command "
            "line: `synth run …`."
        )
        return False
    with st.container(border=True):
        return _waiting_form(held, account)


def _waiting_form(held: WaitingFile, account: str | None) -> bool:
    """Say what a file waits for; return whether it is to be read as the format says now."""
    words, discard = st.columns([5, 1], vertical_alignment="center")
    words.markdown(f"**{plain(held.name)}** is here, encrypted. {_what_it_waits_for(held, account)}")
    if discard.button("Discard it", key="forget-kept"):
        del st.session_state[_KEPT]
        forget_uploads()
        st.rerun()
    if held.recognised is not None:
        format_lines(held.recognised.proposals)
        ask_open(held.recognised.proposals, _choose)
    if not held.is_asked_about:
        return False
    buttons = st.container(horizontal=True)
    if held.recognised is not None:
        buttons.button(
            "Use this",
            key="use-format",
            type="primary",
            disabled=bool(held.recognised.open),
            on_click=_use_format,
            args=(held,),
        )
    if held.may_start_with_row:
        buttons.button(
            "The first line holds the names",
            key="names-first",
            on_click=_say_names_first,
            args=(held,),
            help="For names that look like cells, as years do. They will be published, so press this only if the first "
            "line is no row.",
        )
    label = "Read it again" if held.refused else "Read it as set below"
    again = buttons.button(label, key="read-again", help="As 'File format' says now.")
    if (
        account is not None
        and (held.recognised is None or not held.recognised.looked)
        and buttons.button(
            "Look at my rows to recognise the format",
            key="look-at-format",
            type="primary" if held.recognised is None else "secondary",
            help="Recorded with this account. What it finds is shown to you only.",
        )
    ):
        _look_at_format(held, account)
    return again


def _what_it_waits_for(held: WaitingFile, account: str | None) -> str:
    if held.recognised is not None:
        return "It seems to be written like this:"
    if held.refused:
        return "Correct the file format below; you do not need to upload it again."
    return "Say below whose table it is." if account is None else ""


def _recognised(waiting: WaitingFile, look_for: str | None) -> Recognised | None:
    """Return how a file seems to be written, where that differs from what the format says; otherwise None."""
    with incoming().claim(waiting.ticket, keep=True) as stream:
        found = application().intake.recognise(stream, parse_format(draft()["format"]), look_for=look_for)
    return found if found.proposals else None


def _look_at_format(held: WaitingFile, account: str) -> None:
    try:
        with st.spinner("Looking at the rows"):
            found = _recognised(held, account)
    except SynthError as error:
        refuse("table", f"{error}{_ASKED_BELOW}")
    else:
        if found is None:
            refuse("table", f"The rows say nothing else about how the file is written.{_ASKED_BELOW}")
        st.session_state.update({_KEPT: replace(held, recognised=found), FORM_OPEN: found is None})
    st.rerun()


def _choose(key: str, value: object) -> None:
    held: WaitingFile = st.session_state[_KEPT]
    if held.recognised is not None:
        st.session_state[_KEPT] = replace(held, recognised=held.recognised.chosen(key, value))


def _say_names_first(held: WaitingFile) -> None:
    st.session_state[_KEPT] = replace(held, refused=False, may_start_with_row=False, names_first=True)


def _use_format(held: WaitingFile) -> None:
    """Write into the form how the file seems to be written; it is then read so."""
    if held.recognised is not None:
        draft()["format"] = {**draft()["format"], **format_to_mapping(held.recognised.form)}
        forget_widgets()
        looked = held.recognised if held.recognised.looked else None
        st.session_state[_KEPT] = replace(held, refused=False, recognised=None, looked=looked)
        st.session_state[FORM_OPEN] = False


def _take_waiting(account: str | None, *, again: bool) -> None:
    """Keep the file that waits once it is said whose it is; one that was asked about, once it may be read."""
    held: WaitingFile | None = st.session_state.get(_KEPT)
    if held is None or (held.is_asked_about and not again):
        return
    if account is not None:
        _receive(held, account)
    elif again:
        st.session_state[_KEPT] = replace(held, refused=False, recognised=None)
        st.rerun()


# A codebook, and what is stored -------------------------------------------------------------------------------------


def codebook_uploader() -> None:
    """Take a configuration that describes the table, so that bounds and categories need not be typed."""
    uploaded = st.file_uploader(
        "Codebook: a configuration (YAML) that describes the columns, if you have one",
        type=["yaml", "yml", "json"],
        key=uploader_key("codebook"),
        max_upload_size=_MAXIMUM_CODEBOOK_MEGABYTES,
        help="The file from 'Download this description' for an earlier table, or one like it. Other codebooks "
        "(CSV, Excel, datapackage.json) can be loaded on the next screen.",
    )
    if uploaded is not None:
        with taking("codebook"):
            with whole_stream(uploaded, most=_MAXIMUM_CODEBOOK_MEGABYTES * 2**20) as stream:
                config = _config_of_text(stream.read())
            account = draft()["account"]
            absent = fill_from_config(draft(), config)
            draft()["account"] = account or config.account
            note = "The description has been filled in from the file."
            if draft()["table_id"] and draft()["joining"].get("columns"):
                note += f" Columns of '{draft()['joining']['second']}' are filled in once you add that table below."
            if absent and draft()["table_id"]:
                note += f" Not in this table and left out: {', '.join(absent)}."
            st.session_state["notice"] = note
            forget_widgets()


def codebook_panel() -> None:
    """Offer a codebook, folded, and say above the fold what came of it."""
    show_notice()
    with st.expander("A codebook that describes the columns, if you have one"):
        codebook_uploader()


def show_notice() -> None:
    """Say once what a codebook filled in, or why it could not be used."""
    show_refusal("codebook")
    if "notice" in st.session_state:
        st.success(plain(st.session_state.pop("notice")))


def show_stored(table: ReceivedTable) -> None:
    """Say what is known of a stored table: its name, size, columns, and the row count to its owner."""
    tables = linked_of(draft())
    both = "Both are stored as one table, joined" if tables is not None else "Stored"
    st.success(f"{both}, encrypted. The upload has been removed from memory.")
    name, size, columns, rows = st.columns([2, 1, 1, 1], border=True)
    name.metric("Table" if tables is None else "Tables", plain(table.name))
    size.metric("Size", size_in_words(table.size_bytes))
    columns.metric("Columns", len(table.columns) - (tables is not None))
    if table.n_rows is not None:
        with rows:
            st.metric("Rows" if tables is None else "Rows of both, joined", count(table.n_rows))
            badge("owner_only")
            note("Not published unless you say so in step 2." if tables is None else "Not published.")
    # How many lines are blank or cannot be read, and that a table is another account's too, depends on rows.
    for said in filter(None, (table.warning, table.same_table)):
        badge("owner_only")
        st.warning(plain(said))
    show_caution(table.table_id)
    if tables is None:
        _names_of_columns_shown("Columns, names only", [column.name for column in table.columns])
    else:
        show_both(tables, table)
    if table.renamed:
        given_names(table)
    odd = odd_names([column.name for column in table.columns])
    for sentence in odd[:_MOST_WARNINGS]:
        st.warning(plain(sentence))
    if len(odd) > _MOST_WARNINGS:
        st.warning(
            f"{len(odd) - _MOST_WARNINGS:,} more warnings of this kind. Step 2 lists every name, with "
            f"invisible and look-alike characters shown by their codes."
        )
    note(f"In the ledger these people are called '{plain(table.account)}'.")
    if st.button("Continue to 2 Describe", type="primary", key="continue-describe"):
        go("describe")
    show_notice()
    if tables is None:
        second_table(table)
    with st.expander("Test rows, a codebook, or another table"):
        _test_table(table.account)
        codebook_uploader()
        _leave(table)


def _names_of_columns_shown(title: str, names: Sequence[str]) -> None:
    code = [visible(name).replace("`", "'") for name in names]
    st.markdown(f"**{title}:** " + ", ".join(f"`{name}`" for name in code))


def show_both(tables: LinkedTables, table: ReceivedTable) -> None:
    """Say which columns came from which of two tables, and what happens to rows that fit none of the other."""
    of_first = set(draft()["tables"]["of_first"])
    names = [column.name for column in table.columns if column.name not in (tables.key, MERGE.name)]
    parts = {
        tables.first: [name for name in names if name in of_first],
        tables.second: [name for name in names if name not in of_first],
    }
    for title, own in parts.items():
        _names_of_columns_shown(f"Columns of {plain(title)}, names only", [tables.key, *own])
    note(
        f"Rows of {plain(tables.second)} whose {plain(tables.key)} is not in {plain(tables.first)} are counted and "
        "told to you before anything is spent."
    )


def given_names(table: ReceivedTable) -> None:
    """Say which names were given to columns that have none of their own, and let the owner give better ones."""
    asked = list(table.renamed.items())[:_MOST_WARNINGS]
    with st.container(border=True):
        st.markdown("Some columns have no name of their own in the file. You can name them here:")
        places = st.columns(min(len(asked), 4))
        typed = {
            name: places[number % len(places)].text_input(
                f"Column {place} of the file", visible(name), key=f"given-name:{table.table_id}:{place}:{name}"
            )
            for number, (place, name) in enumerate(asked)
        }
        if len(table.renamed) > len(asked):
            note(f"{len(table.renamed) - len(asked):,} more columns are named by their position.")
        changed = {name: other.strip() for name, other in typed.items() if other.strip() != visible(name)}
        if st.button("Use these names", key="use-names", disabled=not changed):
            _rename(table.table_id, changed)
        show_refusal("names")


def _rename(table_id: str, names: dict[str, str]) -> None:
    held = draft()
    try:
        with st.spinner("Reading the header again"):
            _, form = application().intake.rename_columns(table_id, names)
    except SynthError as error:
        refuse("names", str(error))
    else:
        rename_columns(held, names)
        held["format"] = {**held["format"], "rename": dict(form.rename)}
        held["described"] = False
        forget_widgets()
    st.rerun()


def _test_table(account: str) -> None:
    held = draft()
    if held["tables"] is not None:
        note("Test rows are one table, so there are none beside two tables: hold people out for checking instead.")
        return
    if held["test_table_id"] is not None:
        note("A test table is stored. It is used for owner-only accuracy, never to make rows.")
        return
    uploaded = st.file_uploader(
        "Test rows with the same columns (owner only, never used to make rows)",
        type=TABLE_TYPES,
        key=uploader_key("test"),
        max_upload_size=application().settings.maximum_upload_bytes // 2**20,
        help="Rows about other people, if you have them: your owner-only report then shows how well "
        "predictors trained on synthetic rows work for them. Nobody then needs to be held out.",
    )
    if uploaded is not None:
        with taking("test"):
            form = parse_format(held["test_format"] or held["format"])
            with stream_of(uploaded) as stream:
                received = application().intake.receive(
                    stream, account=account, name=uploaded.name, table_format=form, kind="test"
                )
            held["test_table_id"] = received.table_id
    show_refusal("test")


def _leave(table: ReceivedTable) -> None:
    keep, delete = st.columns(2)
    if keep.button("Work on another table", key="another-table"):
        start_again()
        st.rerun()
    if delete.button("Delete this table now", key="delete-table", help="Removes the encrypted copy. Runs are kept."):
        application().intake.delete_table(table.table_id)
        start_again()
        st.rerun()


def _receive(waiting: WaitingFile, account: str) -> None:
    """Take a file in; where it does not fit what the form says it stays, and only the form is asked anew."""
    held = draft()
    st.session_state.pop(_KEPT, None)
    refused = replace(waiting, refused=True, recognised=None)
    try:
        with (
            st.spinner("Encrypting and checking the header"),
            incoming().claim(waiting.ticket, keep=True) as stream,
        ):
            form = parse_format(held["format"])
            table = application().intake.receive(
                stream,
                account=account,
                name=waiting.name,
                table_format=form,
                # What a codebook says of each column plays no part yet: its names say that the first line is no row.
                declared=[DropColumn(row["name"]) for row in held["columns"]],
                vouched=waiting.names_first,
            )
        take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
        keep_own_dictionary(table.columns)
        if waiting.looked is not None:
            keep_look(table.table_id, replace(waiting.looked, proposals=()))
    except TableError as error:
        refuse("table", f"{error}{_ASKED_BELOW if error.key else ''}")
        st.session_state[FORM_OPEN] = bool(error.key)
        if error.key:
            st.session_state[_KEPT] = replace(refused, may_start_with_row=error.key == "header")
        if error.key == "sheet":
            st.session_state[SHEETS] = error.choices
    except ConfigError as error:
        # Of the form itself: the file has not been looked at.
        refuse("table", str(error))
        st.session_state.update({FORM_OPEN: True, _KEPT: refused})
    except SynthError as error:
        refuse("table", str(error))
    finally:
        # Before the page is drawn again nothing waits but what is to be read again.
        forget_uploads(keep=waiting.ticket if _KEPT in st.session_state else None)
    st.rerun()


def _config_of_text(text: bytes) -> RunConfig:
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("This does not look like UTF-8 text. Save it as UTF-8.") from None
    return config_of_text(decoded, _names_of_columns)


def _names_of_columns(declared: DeclaredTable) -> Sequence[str]:
    """Return the names that patterns of a codebook go by."""
    if draft()["table_id"] is not None:
        return [row["name"] for row in draft()["columns"] if not host_of(row)]
    if declared.format.names is None:
        raise ConfigError("This file declares columns by patterns of their names. Upload the table first, then this.")
    return declared.format.names


if __name__ == "__main__":
    through_the_application()
    screen()
