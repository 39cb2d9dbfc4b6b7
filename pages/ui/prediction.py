"""The tab of predictions: what a label can be predicted with after training on synthetic rows, beside its anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from pages.ui.badges import OWNER_ONLY_NOTE
from pages.ui.evidence import cards, read_evidence, section_of
from pages.ui.groups import by_group
from pages.ui.long_work import LongWork, long_work
from pages.ui.session import application
from pages.ui.words import plain
from synth.reports import OWNER_ONLY_SENTENCE, Evidence

__all__ = ["CHARGED_SECTION", "PREDICTION_SECTION", "prediction"]

PREDICTION_SECTION = "downstream"
CHARGED_SECTION = "predictions"
_MEASURES = {
    "roc_auc": "ROC AUC",
    "pr_auc": "PR AUC",
    "macro_f1": "macro F1",
    "weighted_f1": "weighted F1",
    "accuracy": "accuracy",
    "r2": "R2",
    "mae": "mean absolute error",
}
_TRAINED_ON = ("synthetic", "real", "control", "majority")


def prediction(run_id: str, report: Mapping[str, Any]) -> None:
    """Show what predictors reach; asking for exact numbers is entered in the ledger of these people."""
    charged = [entry for entry in read_evidence(report) if section_of(entry) == CHARGED_SECTION]
    if charged:
        _charged(charged)
    public = [entry for entry in read_evidence(report) if section_of(entry) == PREDICTION_SECTION]
    if public:
        _numbers(public, key="public-prediction")
    document = application().owner_report(run_id)
    if document is None:
        st.info(
            "No owner-only report: the rows were deleted before it could be built, or building it failed (see the log)."
        )
        return
    entries = [entry for entry in read_evidence(document) if section_of(entry) == PREDICTION_SECTION]
    reason = next((entry for entry in entries if entry.id == f"{PREDICTION_SECTION}.none"), None)
    if reason is not None or not entries:
        words = "This report was made before predictions were part of it." if reason is None else _said(reason)
        st.info(plain(words))
        if reason is None:
            _again(run_id)
        return
    st.warning(OWNER_ONLY_NOTE)
    _numbers(entries, key="prediction")
    _again(run_id)


def _charged(entries: Sequence[Evidence]) -> None:
    """Show what was paid for, apart from the exact numbers: the predictor, then the anchor of one measure."""
    st.subheader("Paid for: on held-out rows, with noise")
    by_id = {entry.id.removeprefix(f"{CHARGED_SECTION}."): entry for entry in entries}
    measures = [name for name in _MEASURES if name in by_id]
    chosen = st.segmented_control(
        "Measure", measures, default=measures[0], format_func=_MEASURES.__getitem__, key="charged-measure"
    )
    measure = str(chosen) if chosen in measures else measures[0]
    wanted = (measure, f"majority_{measure}", "rows")
    cards([by_id[name] for name in wanted if name in by_id], key=f"charged-{measure}")
    cards([entry for entry in entries if entry.figures], key="charged-figures")
    st.subheader("Exact, for the owner")


def _numbers(entries: Sequence[Evidence], *, key: str) -> None:
    by_id = {entry.id: entry for entry in entries}
    measures = [name for name in _MEASURES if f"{PREDICTION_SECTION}.synthetic.{name}" in by_id]
    chosen = st.segmented_control(
        "Measure", measures, default=measures[0], format_func=_MEASURES.__getitem__, key=f"{key}-measure"
    )
    measure = str(chosen) if chosen in measures else measures[0]
    wanted = [f"{PREDICTION_SECTION}.{trained}.{measure}" for trained in _TRAINED_ON]
    first = [by_id[name] for name in (*wanted, f"{PREDICTION_SECTION}.rows") if name in by_id]
    cards(first, key=f"{key}-{measure}")
    notes = by_id.get(f"{PREDICTION_SECTION}.notes")
    if notes is not None:
        st.info(plain(_said(notes)))
    # Groups have a tab of their own.
    told_apart = by_group(entries)
    rest = [entry for entry in entries if entry.figures and entry not in told_apart]
    cards(rest, key=f"{key}-figures")


def _said(entry: Evidence) -> str:
    return entry.sentence.replace(OWNER_ONLY_SENTENCE, "").strip()


def _again(run_id: str) -> None:
    st.subheader("With every predictor")
    work = LongWork(
        standing=partial(application().predicting, run_id),
        cancel=partial(application().cancel_predicting, run_id),
        stop_label="Stop the training",
        steps="trainings",
    )
    long_work(
        work,
        start=partial(application().predict, run_id),
        start_label="Train every predictor",
        about=(
            "In every run three predictors are trained twice on at most 10,000 rows. All of them (thirteen "
            "classifiers or five regressors), three times on at most 20,000 rows, take minutes. How long is "
            "measured first and said. Nothing is charged."
        ),
        start_key="predict-all",
        stop_key="stop-predicting",
    )
