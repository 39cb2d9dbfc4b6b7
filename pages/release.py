"""6 Release: the checks, the attestations, the seal, and the download."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui.evidence import badge
from pages.ui.guards import require, through_the_application
from pages.ui.session import application, draft
from pages.ui.words import DELTA_MEANS, cell_and_row, note, plain, stated, upper
from synth.bundle.certificate import certificate_from_dict, promise
from synth.estimators import describe
from synth.names import listed, visible
from synth.schema import Schema
from synth.services.views import RunView

ATTESTATIONS = (
    "No protected unit has more rows in the table than I declared, or the cap is enforced by a column.",
    "What I declared public was typed from public knowledge, without looking at the rows{apart}.",
    "I may share a {made} with this promise.",
)
_APART = ", apart from the ranges and categories of {names}, which I took from the rows"
_MOST_NAMED = 20


def screen() -> None:
    """Draw the screen."""
    st.title("Release")
    require("run")
    require("report")
    run_id = draft()["run_id"]

    run = application().run(run_id)
    stop = application().stops.of(application().config_of(run_id))
    if stop is not None:
        st.error(plain(stop.sentence))
    checklist(run)
    if run.state != "released":
        if stop is None:
            attest_and_seal(run)
    else:
        st.success("Sealed and signed.")
        if stop is None:
            download(run)
        certificate_summary(run_id)
        how_to_verify(run)


def checklist(run: RunView) -> None:
    """Show the four checks; the bundle is written only where all of them hold."""
    certificate = certificate_from_dict(application().certificate(run.run_id))
    cell = cell_and_row(certificate.row_epsilon)
    st.markdown(f"**Run {run.run_id[:8]}** · {run.generator} · ε = {stated(run)}{cell}, δ = {run.delta:g}")
    with st.container(border=True):
        st.markdown("**Checked for you, without reading the private table**")
        checks = _checks(application().config_of(run.run_id).schema) if run.rows else _CHECKS_OF_A_MODEL
        for name, meaning in checks:
            st.markdown(f"✓ **{name}.** {plain(meaning)}")
        badge("safe")
        if run.rows:
            note(
                "Synthetic rows that happen to equal real ones are kept: removing them would reveal which "
                "rows are real."
            )


def _checks(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return what was checked when the bundle was written, by name; nothing is said that this table does not have."""
    made = schema.identifiers
    fresh = f", identifiers ({', '.join(made)}) are newly generated" if made else ""
    return (
        ("Labelled as synthetic", "README.txt says that the rows are synthetic, not real."),
        (
            "Disclosure",
            f"Every cell is in the domain declared in step 2{fresh}; the report contains only numbers that "
            f"may be published; no file contains a path or the name of this machine, its user or the uploaded file.",
        ),
        ("Structure", "Columns, types and formats match the declared schema."),
        (
            "Documentation",
            "Schema, configuration, report and measurements are included, and README.txt says how to make the "
            "table again.",
        ),
    )


_CHECKS_OF_A_MODEL = (
    ("Labelled as a private model", "README.txt says that it was fitted to noisy answers and contains no rows."),
    (
        "Disclosure",
        "The report contains only numbers that may be published; no file contains a path or the name of this "
        "machine, its user or the uploaded file.",
    ),
    ("Structure", "Every number in model.json follows from the saved model; columns match the schema."),
    (
        "Documentation",
        "Schema, configuration, report and measurements are included, and README.txt says how to fit the model again.",
    ),
)


def attest_and_seal(run: RunView) -> None:
    """Ask for the attestations by name; then the release can be sealed."""
    st.header("What only you can confirm")
    demonstration = bool(draft()["demonstration"])
    read = application().config_of(run.run_id).read_columns
    apart = _APART.format(names=listed([visible(name) for name in read], _MOST_NAMED)) if read else ""
    statements = tuple(text.format(made="table" if run.rows else "model", apart=apart) for text in ATTESTATIONS)
    given = [
        st.checkbox(plain(text), value=demonstration, key=f"attest-{position}")
        for position, text in enumerate(statements)
    ]
    name = st.text_input(
        "Your name, kept in the records with these statements",
        "Demonstration" if demonstration else "",
        key="attested-by",
    )
    ready = all(given) and bool(name.strip())
    if st.button("Seal release", type="primary", key="seal", disabled=not ready):
        with st.spinner("Checking and sealing the bundle"):
            application().release(run.run_id, attestations=statements, attested_by=name.strip())
        st.rerun()
    if not ready:
        note("All three statements and a name are needed. The download is available once the release is sealed.")


def download(run: RunView) -> None:
    """Offer the sealed bundle, and a model by itself; the right is checked again when a button is pressed."""
    run_id = run.run_id
    st.download_button(
        "Download the bundle (zip)",
        # A callable: nothing is served before the press, and an unreleased run is refused inside.
        data=partial(application().bundle, run_id),
        file_name=_file_name(run),
        mime="application/zip",
        type="primary",
        on_click="ignore",
        key="download-bundle",
    )
    tables = application().config_of(run_id).schema.tables
    if tables is not None:
        for name, place in zip((tables.first, tables.second), st.columns(2, border=True), strict=True):
            with place:
                download_one_of_two(run_id, name)
        note(
            f"Both have the column '{visible(tables.key)}': every row of '{tables.second}' belongs to one of "
            f"'{tables.first}', and some of these may have none."
        )
    elif run.rows:
        st.download_button(
            "Download the rows in your table's format",
            data=partial(application().rows_as_declared, run_id),
            file_name=f"rows-{run_id[:8]}.csv",
            mime="text/csv",
            on_click="ignore",
            help=_AS_DECLARED.format(plain="synthetic.csv"),
            key="download-rows-as-declared",
        )
    else:
        st.download_button(
            "Download the model (model.json)",
            data=partial(application().model, run_id),
            file_name=f"model-{run_id[:8]}.json",
            mime="application/json",
            on_click="ignore",
            key="download-model",
        )
        note("The model in plain numbers, usable without this program. Its certificate is in the bundle.")


def download_one_of_two(run_id: str, name: str) -> None:
    """Offer one of two tables that belong together, in every format."""
    st.markdown(f"**{plain(name)}**")
    for ending, mime in ((".csv", "text/csv"), (".parquet", "application/vnd.apache.parquet")):
        st.download_button(
            f"{name}{ending}",
            data=partial(application().linked_file, run_id, f"{name}{ending}"),
            file_name=f"{name}{ending}",
            mime=mime,
            on_click="ignore",
            key=f"download-{name}{ending}",
        )
    st.download_button(
        f"{name}, in your table's format",
        data=partial(application().rows_as_declared, run_id, name),
        file_name=f"{name}-{run_id[:8]}.csv",
        mime="text/csv",
        on_click="ignore",
        help=_AS_DECLARED.format(plain=f"{name}.csv"),
        key=f"download-{name}-as-declared",
    )


_AS_DECLARED = (
    "With its separator, encoding, decimal sign, date formats and missing-value codes: programs that read your table "
    "can read these rows. {plain} in the bundle is plain UTF-8 with commas, points and ISO dates."
)


def _file_name(run: RunView) -> str:
    return f"hermitage-{run.run_id[:8]}.zip"


def certificate_summary(run_id: str) -> None:
    """Show what the certificate promises, in its own words."""
    body = application().certificate(run_id)
    certificate = certificate_from_dict(body)
    st.header("The certificate")
    badge("safe")
    facts = (
        ("Epsilon", upper(certificate.epsilon), "Computed from the receipts, rounded up."),
        ("Delta", f"{certificate.delta:g}", DELTA_MEANS),
        ("Receipts", f"{len(certificate.all_receipts)}", "One for each noisy question that was asked."),
    )
    for (title, value, meaning), place in zip(facts, st.columns(3, border=True), strict=True):
        place.metric(title, value)
        note(meaning, place)
    for line in promise(certificate):
        st.markdown(f"- {plain(line)}")


def how_to_verify(run: RunView) -> None:
    """Say how anyone can check the bundle without this server."""
    st.header("How anyone can check it")
    checks = (
        "It checks the promise and every file, makes the rows and the report again from the sealed model, and compares "
        "them."
        if run.rows
        else "It checks the promise, every file and every number of the model, makes the report again, and compares it."
    )
    st.markdown(f"With the package, offline. {checks}")
    st.code(f"synth verify {_file_name(run)}", language="bash")
    again = "To make the same rows again, byte for byte, from the saved model"
    if not run.rows:
        again = "To fit the model again to the noisy answers, to the same bytes"
    st.markdown(f"{again}, with the versions that the certificate names:")
    st.code(f"synth replay {_file_name(run)} --out again", language="bash")
    if not run.rows and describe(run.generator).predicts:
        st.markdown("To make predictions for rows of your own from the checked bundle:")
        st.code(f"synth model predict {_file_name(run)} TABLE --out predictions.csv", language="bash")
    note("Or upload the bundle on the Start page.")


if __name__ == "__main__":
    through_the_application()
    screen()
