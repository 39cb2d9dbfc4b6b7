"""5 Report: what the rows are worth, each number with its badge."""

from __future__ import annotations

import streamlit as st

from pages.components.entrance import through_the_application
from pages.components.evidence import at_a_glance, columns_and_pairs, expected_accuracy, owner_only
from pages.components.guards import guard, require
from pages.components.session import application, draft, go

through_the_application()


st.title("Read the report")
require("run")
require("report")
run_id = draft()["run_id"]

run, report = application().run(run_id), application().report(run_id)
names = ["At a glance", "Columns and pairs", "Accuracy you can expect", "Owner only"]
glance, pairs, accuracy, owner = st.tabs(names)
# Each tab has its own guard: the failure of one never hides the others.
with glance, guard():
    at_a_glance(run, report)
with pairs, guard():
    columns_and_pairs(report)
with accuracy, guard():
    expected_accuracy(report)
with owner, guard():
    owner_only(run_id)

st.divider()
if st.button("Continue to 6 Release", type="primary", key="continue-release"):
    go("release")
