"""Estimates: numbers that the owner asks for, computed from the bundle alone; this report has none of its own."""

from __future__ import annotations

from synth.reports.panels import Badge, Panel, Questions, Words
from synth.reports.report import Report, Screen, Shown, Tab
from synth.schema import ModelledColumn, RunConfig

__all__ = ["REPORT", "suggested_questions"]


def suggested_questions(config: RunConfig) -> tuple[str, ...]:
    """Return example questions for a run, one of each kind that its columns allow."""
    columns = config.schema.modelled
    first = [config.schema.modelled_column(name) for name in dict.fromkeys([*config.groups, config.label]) if name]
    number = next((column for column in columns if column.is_summable), None)
    group = next((column for column in (*first, *columns) if not column.levels and column.size <= 20), None)
    other = next((column for column in columns if column.is_summable and column is not number), None)
    found = []
    if number is not None:
        found += [f"mean {_quoted(number)}", f"quantile 0.9 of {_quoted(number)}"]
    if number is not None and group is not None:
        found.append(f"mean {_quoted(number)} by {_quoted(group)}")
    if group is not None:
        found.append(f"table of {_quoted(group)}")
    predictors = [column for column in (other, group) if column is not None]
    if number is not None and predictors:
        found.append(f"regression of {_quoted(number)} on {', '.join(map(_quoted, predictors))}")
    return tuple(found)


def _quoted(column: ModelledColumn) -> str:
    """Return a name as it is written in a question."""
    name = column.name
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


_SENTENCE = (
    "Ask for a number about the population. It is computed from the bundle alone, with a 95 % interval for noise and "
    "sampling together, and costs no budget. The run is repeated twenty times on rows drawn from its own model, which "
    "takes as long as twenty fits."
)


def _panels(shown: Shown) -> list[Panel]:
    return [Badge("safe"), Words(_SENTENCE, "note"), Questions(suggested_questions(shown.config))]


REPORT = Report(
    id="estimates",
    title="Estimates",
    sections={},
    screens=(Screen(Tab(35, "● Estimates"), _panels),),
)
