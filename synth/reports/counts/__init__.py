"""Counts: every noisy count of the bundle, as pictures and as a table to download; this report has none of its own."""

from __future__ import annotations

from synth.reports.panels import Badge, NoisyCounts, Panel, Words
from synth.reports.report import Report, Screen, Shown, Tab

__all__ = ["REPORT"]

_SENTENCE = (
    "The noisy counts that were paid for, as they are in the bundle. They are closer to the private rows than counts "
    "of the synthetic rows, and may be published like these."
)


def _panels(shown: Shown) -> list[Panel]:
    return [Badge("charged"), Words(_SENTENCE, "note"), NoisyCounts()]


REPORT = Report(
    id="counts",
    title="Counts",
    sections={},
    screens=(Screen(Tab(37, "● Counts"), _panels, of_models=lambda config: True),),
)
