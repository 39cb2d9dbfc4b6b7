"""Every report, in the order of report.json and of the owner's report. To add one, add a folder and a line below."""

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
    "synth.reports.people",
    "synth.reports.relations",
    "synth.reports.fidelity",
    "synth.reports.groups",
    "synth.reports.differences",
    "synth.reports.scores",
    "synth.reports.estimates",
    "synth.reports.counts",
    "synth.reports.prediction",
    "synth.reports.membership",
]
"""The folders; each defines one value ``REPORT``, which is read when it is first needed."""


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
    """Return the report with a given section, or None."""
    return next((report for report in reports() if section in report.sections), None)


def section_words(section: str) -> Section:
    """Return the words of a section; one that no report knows has its own name as heading."""
    report = report_of(section)
    return Section(section.replace("_", " ").capitalize()) if report is None else report.sections[section]


def is_upper_bound(entry: Evidence) -> bool:
    """Return whether a number is an upper bound, which printing must not make smaller."""
    return any(entry.id in report.upper_bounds for report in reports())


def tabs(config: RunConfig) -> tuple[Tab, ...]:
    """Return the tabs of the report's screen for a configuration, in order."""
    return tuple(sorted({screen.tab for screen in _about(config)}))


def _about(config: RunConfig) -> Iterator[Screen]:
    """Yield the screens of a configuration; for a model only those that are not about synthetic rows."""
    screens = (screen for report in reports() for screen in report.screens)
    return (screen for screen in screens if not config.is_model or screen.of_models(config))


def screens_of(tab: Tab, config: RunConfig) -> tuple[Screen, ...]:
    """Return the screens on a tab for a configuration, in order."""
    return tuple(
        sorted((one for one in _about(config) if one.tab == tab and one.wanted(config)), key=lambda one: one.place)
    )


def options_of_reports() -> tuple[ReportOption, ...]:
    """Return every option of every report."""
    return tuple(option for report in reports() for option in report.options)


def renewals() -> tuple[Renewal, ...]:
    """Return the parts of reports that are made on request."""
    return tuple(renewal for report in reports() for renewal in report.renewals)


def renewal_called(name: str) -> Renewal:
    """Return one of these parts by its name.

    Raises
    ------
    InputError
        If there is none with this name.
    """
    found = {renewal.name: renewal for renewal in renewals()}
    if name not in found:
        raise InputError(f"No part of a report is called '{name}'. Choose one of: {', '.join(found)}.")
    return found[name]
