"""Reports: numbers about a synthetic table, each of a kind that says whether it may be published."""

from __future__ import annotations

from synth.reports.evidence import (
    OWNER_ONLY_SENTENCE,
    ChargedEvidence,
    Evidence,
    OwnerOnlyEvidence,
    Publishable,
    SafeEvidence,
    evidence_from_dict,
    evidence_to_dict,
    publishable,
)
from synth.reports.figures import Bars, Figure, HeatMap, Series, Table

__all__ = [
    "OWNER_ONLY_SENTENCE",
    "Bars",
    "ChargedEvidence",
    "Evidence",
    "Figure",
    "HeatMap",
    "OwnerOnlyEvidence",
    "Publishable",
    "SafeEvidence",
    "Series",
    "Table",
    "evidence_from_dict",
    "evidence_to_dict",
    "publishable",
]
