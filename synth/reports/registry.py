"""Every report, in the order of report.json and of the owner's report. Adding one is a folder here and a line below."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib import import_module

from synth.errors import InputError
from synth.reports.evidence import Evidence
from synth.reports.report import Renewal, Report, ReportOption, Screen, Section, Tab
from synth.schema import RunConfig

__all__ = [
    "REPORTS",
    "is_upper_bound",
    "options_of_reports",
    "renewal_called",
    "renewals",
    "report_of",
    "reports",
    "screens_of",
    "section_words",
    "tabs",
]

REPORTS = [
    "synth.reports.overview",
    "synth.reports.reading",
    "synth.reports.accuracy",
    "synth.reports.intervals",
    "synth.reports.marginals",
    "synth.reports.relations",
    "synth.reports.fidelity",
    "synth.reports.groups",
    "synth.reports.differences",
    "synth.reports.scores",
    "synth.reports.estimates",
    "synth.reports.prediction",
    "synth.reports.membership",
]
"""The folders; each has one value ``REPORT``, read when it is first asked for."""


def reports() -> Iterator[Report]:
    """Return every report, in order."""
    return map(_report, REPORTS)


@functools.cache
def _report(folder: str) -> Report:
    found = import_module(folder).REPORT
    if not isinstance(found, Report):
        raise TypeError(f"'{folder}' declares no report.")
    return found


def report_of(section: str) -> Report | None:
    """Return the report that numbers belong to whose ids begin with a word, or None."""
    return next((report for report in reports() if section in report.sections), None)


def section_words(section: str) -> Section:
    """Return the words of a section; one that no report knows is headed by its own name."""
    report = report_of(section)
    return Section(section.replace("_", " ").capitalize()) if report is None else report.sections[section]


def is_upper_bound(entry: Evidence) -> bool:
    """Whether a number is a bound that print may not make smaller."""
    return any(entry.id in report.upper_bounds for report in reports())


def tabs(config: RunConfig) -> tuple[Tab, ...]:
    """Return the tabs of the report's screen for a configuration, in order."""
    return tuple(sorted({screen.tab for screen in _about(config)}))


def _about(config: RunConfig) -> Iterator[Screen]:
    """Return what is shown of tables; of a model only what is not about synthetic rows."""
    screens = (screen for report in reports() for screen in report.screens)
    return (screen for screen in screens if not config.is_model or screen.of_models(config))


def screens_of(tab: Tab, config: RunConfig) -> tuple[Screen, ...]:
    """Return what a tab shows of a configuration, in order."""
    return tuple(
        sorted((one for one in _about(config) if one.tab == tab and one.wanted(config)), key=lambda one: one.place)
    )


def options_of_reports() -> tuple[ReportOption, ...]:
    """Return all that an owner may ask of reports."""
    return tuple(option for report in reports() for option in report.options)


def renewals() -> tuple[Renewal, ...]:
    """Return the parts of reports that are made at the owner's wish."""
    return tuple(renewal for report in reports() for renewal in report.renewals)


def renewal_called(name: str) -> Renewal:
    """Return one of them by its name.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    found = {renewal.name: renewal for renewal in renewals()}
    if name not in found:
        raise InputError(f"There is nothing called '{name}' to make again. Choose one of: {', '.join(found)}.")
    return found[name]
