"""Private models: choose a model that is itself released, spend, and watch; it takes the place of 4 Generate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import streamlit as st

from pages.ui.column_rows import MODELLED_ROLES
from pages.ui.draft import MOST_PILLS, Draft, config_of
from pages.ui.evidence import badge
from pages.ui.fitting import confirm_and_start, draw_cards, modes_panel, options_form, seed_and_device
from pages.ui.forecast import forecast_panel, paid_predictions, parts_table
from pages.ui.guards import guard, through_the_application
from pages.ui.running import prepare_or_follow
from pages.ui.session import application, bind, draft
from pages.ui.words import name_or, note, plain
from synth.estimators import describe, model_cards
from synth.generators.options import option_fields
from synth.generators.protocol import Card
from synth.names import visible
from synth.reports.holdout import paid_refusal
from synth.schema import RunConfig
from synth.services.views import Plan


def screen() -> None:
    """Draw the screen."""
    st.title("Private models")
    prepare_or_follow(_prepare)


def _prepare() -> None:
    held = draft()
    if held["tables"] is not None:
        first, second = plain(held["tables"]["first"]), plain(held["tables"]["second"])
        st.info(
            f"A model looks at the rows of one table, one by one, so there is none of {first} and {second} together. "
            "Release synthetic rows of both on 4 Generate. For a model, join them yourself, and upload the joined "
            "table."
        )
        st.page_link("pages/generate.py", label="Go to 4 Generate")
        return
    st.markdown(
        "Release a model of the table instead of synthetic rows. It is fitted to noisy answers only, and "
        "charged to the same people and the same budget."
    )
    model_cards_panel(held)
    # Until a model is fully chosen, the other screens continue to speak of rows.
    held["makes"] = "table"
    if held["model"] is None:
        return
    card = describe(held["model"])
    st.header(card.title)
    columns_form(held, card)
    if card.needs.label and held["model_label"] is None:
        st.info("Choose the column to predict.")
        return
    held["makes"] = "model"
    releases = modes_panel(card, "model_options")
    options_form(card.name, option_fields(card.options), held["model_options"])
    seed_and_device("Used for a model's random choices, so that anyone can fit it again.", *st.columns(2))
    if releases:
        # Its refusal does not hide the runs below.
        with guard():
            forecast_of_model()
            confirm_and_start(verb="fit", made="model")


def model_cards_panel(held: Draft) -> None:
    """Draw one card for each model, and choose among them."""
    schema = config_of({**held, "makes": "table", "protection": "record"}).schema
    draw_cards(
        model_cards(),
        chosen=held["model"],
        is_ready=lambda card: any(card.needs.are_met(schema, label) for label in (None, *schema.names)),
        choose=_choose,
        others=f"{len(model_cards()) - 1} more models",
    )


def _choose(name: str) -> None:
    held = draft()
    held.update(model=name, model_options={}, protection="record")
    if not describe(name).needs.label:
        held["model_label"] = None
    elif held["model_label"] is None:
        held["model_label"] = held["label"]
    st.session_state.pop("field:model_label", None)


def columns_form(held: Draft, card: Card) -> None:
    """Ask for the column to predict, if there is one, and for those that the model uses."""
    modelled = [row["name"] for row in held["columns"] if row["role"] in MODELLED_ROLES]
    if held["model_label"] not in modelled:
        held["model_label"] = None
        st.session_state.pop("field:model_label", None)
    if not set(held["model_columns"]) <= set(modelled):
        held["model_columns"] = []
        st.session_state.pop("field:model_columns", None)
    if card.needs.label:
        st.selectbox(
            "Target: the column to predict",
            [None, *modelled],
            format_func=partial(name_or, none="choose a column"),
            help="The released model predicts it from the other columns.",
            **bind("model_label"),
        )
    if len(modelled) > MOST_PILLS:
        note("The model uses every column that is not left out on 2 Describe.")
        return
    # Not a multiselect: the names that it shows cannot be read on a dark page.
    st.pills(
        "Columns to learn from (none chosen: all)",
        [name for name in modelled if name != held["model_label"]],
        selection_mode="multi",
        format_func=visible,
        help="Fewer columns mean less noise on each. Choose them by what you know, not by what the rows say.",
        **bind("model_columns"),
    )


def forecast_of_model() -> None:
    """Say what is asked and what that costs, what error the noise will cause, and what is assumed public."""
    config = config_of(draft())
    plan = application().plan(config)
    st.header("What it will measure, and what that costs")
    badge("safe")
    parts_table(plan, config.epsilon)
    _paid_predictions(plan, config)
    forecast_panel(plan.forecast)
    st.page_link("pages/budget.py", label="Change the budget on 3 Budget")


def _paid_predictions(plan: Plan, config: RunConfig) -> None:
    held, card = draft(), describe(config.generator)
    if not card.predicts:
        return
    refusal = paid_refusal(card, replace(config, holdout=held["holdout"]))
    paid_predictions(
        "model_prediction_share",
        plan.forecast,
        refusal=refusal,
        means="Pays for noisy counts of right and wrong predictions for held-out people (for a numeric "
        "target, noisy sums of squared errors). The report can then publish how well the released model "
        "predicts, also by group.",
    )
    if refusal is None and config.prediction_share:
        note(
            f"{config.holdout:.0%} of the people are held out for this, as set on 2 Describe; the model is "
            f"fitted to the others."
        )


if __name__ == "__main__":
    through_the_application()
    screen()
