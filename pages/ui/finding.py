"""Find undescribed columns privately: the offer with its cost and its losses, the work, and the result."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.charts import show_table
from pages.ui.column_rows import MODELLED_ROLES, Row, described_as, host_of, row_of_mapping
from pages.ui.draft import Draft, config_body
from pages.ui.guards import guard
from pages.ui.losses import ask_to_look, draw_losses, start_unless_lost
from pages.ui.running import LongWork, follow_work
from pages.ui.session import application, draft, renew_editor
from pages.ui.words import amount, note, plain, upper
from synth.bundle.finding import Finding
from synth.errors import ConfigError, DatabaseAwayError, SynthError
from synth.privacy.more.together import epsilon_together
from synth.schema import READ_FROM_ROWS, DropColumn, FindColumn, RunConfig, is_found, parse_config
from synth.schema.schema import MERGE
from synth.services.finding import USUAL_SHARE, FindingPlan, remaining
from synth.services.linked import form_of_joined

_TYPED = ("low", "high", "categories")
_EPSILON = "find-epsilon"


def open_names(rows: list[Row]) -> list[str]:
    """Return the undescribed columns: those without a role, or with nothing typed that their role needs."""
    return [
        row["name"]
        for row in rows
        if not row.get("proposed")
        and not host_of(row)
        and (not row["role"] or (row["role"] in MODELLED_ROLES and not any(row[cell] for cell in _TYPED)))
    ]


def take_finding() -> None:
    """Fill the draft with what was found, once, where the work ended since the page was last drawn."""
    held = draft()
    work = application().findings.standing(held["table_id"])
    if work is None or not work.is_finished or held["finding"] == work.id:
        return
    held["finding"] = work.id
    found = application().findings.latest(held["table_id"])
    if found is None:
        return
    still_open, mappings = set(open_names(held["columns"])), found.mappings
    filled = [name for name in mappings if name in still_open]
    held["columns"] = [
        described_as(row, row_of_mapping(row["name"], mappings[row["name"]])) if row["name"] in filled else row
        for row in held["columns"]
    ]
    source = found.reference.source
    held["domain_source"] |= {name: source for name in filled if mappings[name]["type"] != "drop"}
    held["found"] = asdict(found.reference)
    held["epsilon"] = max(remaining(held["epsilon"], found.epsilon), 0.001)
    renew_editor()
    st.rerun()


def show_finding() -> bool:
    """Follow a finding, or say what was found; return whether one is going on. The page has called take_finding."""
    held = draft()
    table_id = str(held["table_id"])
    findings = application().findings
    going = LongWork(
        standing=lambda: findings.standing(table_id),
        cancel=lambda: findings.cancel(table_id),
        stop_label="Stop (what was spent stays spent)",
        steps="steps",
        after_stop="Stopped. Nothing was filled in.",
    )
    latest = findings.standing(table_id)
    if latest is not None:
        draw_losses(latest.id)
    if follow_work(going, stop_key="stop-finding"):
        return True
    if held["found"] is not None:
        found = _finding_of(held)
        _what_was_found(held, found)
        names = open_names(held["columns"])
        if names:
            note(
                f"{_many(names)} left. A release supports one finding: describe by hand what you know and drop the "
                "rest, or find everything again."
            )
        _anew(held, found)
    return False


def finds_little(names: list[str]) -> bool:
    """Whether finding columns now would find next to nothing, by what is declared of the number of rows.

    Parameters
    ----------
    names : list of str
        The undescribed columns, of a draft whose people are declared.
    """
    held = draft()
    if held["protection"] == "cell":
        return True
    try:
        config = _config_to_find(held, names)
        return application().findings.plan(config, epsilon=_epsilon(held)).finds_little
    except DatabaseAwayError:
        raise
    except SynthError:
        return True  # what keeps it from being begun is said where it is offered


def _epsilon(held: Draft) -> float:
    """Return what is set for a finding now, by default a tenth of the budget."""
    return float(st.session_state.get(_EPSILON, float(f"{held['epsilon'] * USUAL_SHARE:.6g}")))


def offer_finding(names: list[str]) -> None:
    """Offer to find columns privately, with its cost and its losses, and begin it at a click.

    Parameters
    ----------
    names : list of str
        The undescribed columns, of a draft whose people are declared and that has no finding yet.
    """
    held = draft()
    if held["protection"] == "cell":
        st.markdown("**Find privately**")
        note(
            f"When single cells are protected, nothing can be found privately: describe {_many(names)} by "
            f"hand, or protect whole rows."
        )
        return
    with guard():
        _offer(held, names)


def _offer(held: Draft, names: list[str]) -> None:
    head = st.container()
    most = float(held["epsilon"]) * 0.9
    st.session_state[_EPSILON] = min(_epsilon(held), most)
    epsilon = st.number_input(
        "Epsilon for finding",
        min_value=0.001,
        max_value=most,
        step=0.01,
        format="%.3f",
        key=_EPSILON,
        help="Part of the budget, a tenth by default. A larger part finds rarer values and tighter bounds but "
        "leaves less for the rows.",
    )
    config = _config_to_find(held, names)
    try:
        plan = application().findings.plan(config, epsilon=float(epsilon))
    except ConfigError as error:
        head.markdown("**Find privately**")
        head.warning(plain(error))
        return
    blind = plan.finds_little
    head.markdown("**Find privately**" if blind else "**Find privately** :green-badge[recommended]")
    if blind:
        least = plan.foreseen.least_rows
        how_little = "next to nothing" if least > plan.rows_at_most else "little"
        head.warning(
            f"This would find {how_little}: at ε = {amount(plan.epsilon)} a value has to be in about {least:,} rows, "
            f"and you declared at most {plan.rows_at_most:,}. Look at your rows or type what is public; or spend more "
            f"on finding."
        )
    else:
        head.markdown(f"Measures the kind, the bounds and the values of {_many(names)}. The promise covers it.")
    st.markdown(_cost_words(held, plan))
    if not blind:
        note(plain(plan.loses))
    if plan.refusal is not None:
        st.error(plain(plan.refusal))
    look = ask_to_look("look-before-finding")
    label = f"Find {_many(names)} privately (spends {amount(plan.epsilon)})"
    pressed = st.button(
        label, key="find-privately", type="secondary" if blind else "primary", disabled=plan.refusal is not None
    )
    table_id, spent = str(held["table_id"]), {"epsilon": plan.epsilon, "delta": plan.delta}
    begun = start_unless_lost(
        lambda reading: application().findings.start(config, table_id=table_id, **spent, reading=reading),
        pressed=pressed,
        look=look,
        about=(config, table_id, spent),
        label=label,
    )
    if begun is not None:
        st.rerun()


def _cost_words(held: Draft, plan: FindingPlan) -> str:
    left = amount(remaining(held["epsilon"], plan.epsilon))
    after = upper(plan.epsilon_after) if math.isfinite(plan.epsilon_after) else "more than their limit on δ allows"
    return (
        f"**Spends ε = {amount(plan.epsilon)}** (δ = {plan.delta:g}) of the budget of {amount(held['epsilon'])}; "
        f"**{left} remains** for rows. Total spent on these people afterwards: {after}. It is charged once, "
        f"however many releases use what was found."
    )


def _finding_of(held: Draft) -> Finding | None:
    """Return what filled this draft; None where it came with a description, and is not about the open table."""
    found = application().findings.latest(str(held["table_id"]))
    return found if found is not None and found.digest == held["found"]["digest"] else None


def _what_was_found(held: Draft, found: Finding | None) -> None:
    """List what was found of every column, and whether it was edited since."""
    st.markdown(
        f"**Found privately at ε = {amount(held['found']['epsilon'])}.** Every line can be edited; certificates say "
        "which were. The receipts are part of every release of this description."
    )
    if found is None:
        note("What was found came with this description and is not about the current table.")
        return
    show_table(_found_frame(found, held), alt="What was found privately, column by column", key="found-privately")
    if all(isinstance(one.column, DropColumn) for one in found.columns):
        note(
            "Nothing was found: at this epsilon, the table has too few rows for so many columns. The finding is paid "
            "for and is not charged again: describe columns by hand, with presets or with a data dictionary."
        )


def _anew(held: Draft, found: Finding | None) -> None:
    """Offer to take out of the draft what was found, so that it can be found once more."""
    with st.expander("Find everything again"):
        st.markdown(
            "Clears every column that was found, even those you have edited. Then choose another epsilon, or "
            "describe some columns by hand so that the others are found more accurately. "
            f"**What was spent stays spent** (ε = {amount(held['found']['epsilon'])}); the next finding is "
            f"charged in addition."
        )
        if st.button("Clear these columns", key="find-anew"):
            names = {name for name, source in held["domain_source"].items() if is_found(source)}
            names |= set() if found is None else set(found.mappings)
            held["columns"] = [
                described_as(row, row_of_mapping(row["name"], {"type": FindColumn.kind}))
                if row["name"] in names
                else row
                for row in held["columns"]
            ]
            held["domain_source"] = {name: said for name, said in held["domain_source"].items() if name not in names}
            held["found"] = None
            renew_editor()
            st.rerun()


def _found_frame(found: Finding, held: Draft) -> pd.DataFrame:
    rows = {row["name"]: row for row in held["columns"]}
    kept = [one for one in found.columns if one.name in rows]
    return pd.DataFrame(
        {
            "column": [one.name for one in kept],
            "what was found": [one.said for one in kept],
            "now": [_now(one.column.to_mapping(), rows[one.name], held) for one in kept],
        }
    )


def _now(mapping: dict[str, Any], row: Row, held: Draft) -> str:
    if mapping["type"] == "drop" and row["role"] not in MODELLED_ROLES:
        return "left out"
    source = held["domain_source"].get(row["name"], "")
    if source == READ_FROM_ROWS:
        return "taken from the rows since"
    return "found privately" if is_found(source) else "found privately, then edited"


def _many(names: list[str]) -> str:
    return "1 undescribed column" if len(names) == 1 else f"{len(names)} undescribed columns"


def _config_to_find(held: Draft, names: list[str]) -> RunConfig:
    """Return a configuration of the undescribed columns only, so that mistakes in other lines do not matter."""
    columns: dict[str, Any] = {
        row["name"]: {"type": "find" if row["name"] in names else "drop"} for row in held["columns"]
    }
    if held["id_column"] is not None:
        columns[held["id_column"]] = {"type": "identifier"}
    apart = {**held, "kept_together": "separate_rows"}  # columns are asked about one by one
    if held["tables"] is None:
        return parse_config(config_body(apart, columns, ("found",)))
    # So are those of two joined tables, where nothing is to be found about which of them a row comes from.
    columns[MERGE.name] = {"type": "drop"}
    config = parse_config(config_body({**apart, "tables": None}, columns, ("found",)))
    return replace(config, format=form_of_joined(config.format)) if held["tables"]["two_files"] else config


def found_note(config: RunConfig) -> None:
    """Say beside a budget what was spent on finding what was open; nothing where nothing was."""
    if config.found is not None:
        note(
            f"In addition, ε = {amount(config.found.epsilon)} was spent on finding undescribed columns. The "
            f"release states at "
            f"most ε = {upper(epsilon_together(config))} for both."
        )
