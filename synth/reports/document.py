"""``report.json``: the numbers of a report for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synth.reports.charts import Table
from synth.reports.evidence import Evidence, Publishable, evidence_to_dict, publishable

__all__ = ["owner_document", "report_document"]

_VERSION = 1
_ALPHAS = ("1", "2", "3", "4")


def report_document(evidence: Sequence[Publishable]) -> dict[str, Any]:
    """Return the report that enters a bundle.

    Raises
    ------
    TypeError
        If evidence of another kind than safe or charged is among it.
    """
    return _document(publishable(evidence))


def owner_document(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Return the report that stays in the owner's own folder; it may hold every kind."""
    return _document(evidence)


def _document(evidence: Sequence[Evidence]) -> dict[str, Any]:
    marginals: dict[str, dict[str, Any]] = {alpha: {} for alpha in _ALPHAS}
    for entry in evidence:
        section, _, rest = entry.id.partition(".")
        alpha, _, name = rest.partition(".")
        if section == "marginals" and alpha in marginals and name and "." not in name:
            tables = [figure for figure in entry.figures if isinstance(figure, Table)]
            marginals[alpha][name] = _rows(tables[0]) if tables and name.endswith("worst") else entry.value
    return {"version": _VERSION, "evidence": [evidence_to_dict(entry) for entry in evidence], "marginals": marginals}


def _rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]
