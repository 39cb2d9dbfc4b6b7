"""The two SDMetrics scores against the private rows: numbers that many readers know, for the owner only.

Only scores are used: the library's pictures and details contain real values and are never requested. Cells are passed
decoded, as the released table prints them; of a wide table a seeded sample of columns, because pairs take long, and
never columns with long lists of categories.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synth.generators import CONTROL
from synth.progress import Progress
from synth.reports.code_tables import CodeTable
from synth.reports.controls import Anchored
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Cell, Table
from synth.reports.panels import Cards, Panel, Part
from synth.reports.report import OWNER_ONLY, OwnerRows, Report, Screen, Section, Shown
from synth.reports.wording import beside_anchors
from synth.schema import ModelledColumn, Schema
from synth.schema.encoding import decode_column

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REPORT", "no_scores", "owner_scores"]

_MOST_ROWS = 10_000
_MOST_COLUMNS = 20
_MOST_CATEGORIES = 500
"""A dense table of two columns with longer lists would not fit into memory."""

_TABLE = "table"
_OVERALL = "overall"
_WORDS = {
    "quality": ("SDMetrics quality score", "How similar single columns and pairs of columns are"),
    "diagnostic": ("SDMetrics diagnostic score", "Whether values and structure are valid"),
}


def owner_scores(tables: Anchored) -> tuple[OwnerOnlyEvidence, ...]:
    """Score synthetic rows against private ones with SDMetrics.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``scores.quality`` and ``scores.diagnostic``, values in [0, 1], 1 the best; or ``scores.none`` where every
        column has more than 500 categories.
    """
    schema, seed = tables.schema, tables.seed
    random = np.random.default_rng([seed, 5])
    short = [place for place, column in enumerate(schema.modelled) if column.size - column.levels <= _MOST_CATEGORIES]
    if not short:
        return (no_scores(f"Every column has more than {_MOST_CATEGORIES} categories."),)
    kept = sorted(random.choice(short, size=min(len(short), _MOST_COLUMNS), replace=False).tolist())
    real, *others = (_frame(table, schema, kept, random) for table in tables.tables)
    columns = {schema.names[place]: {"sdtype": _kind(schema.modelled[place])} for place in kept}
    metadata = {"tables": {_TABLE: {"columns": columns}}}
    width = len(schema.names)
    which = "All columns."
    if len(kept) < width:
        which = (
            f"{len(kept)} of {width:,} columns, a seeded sample of those with at most {_MOST_CATEGORIES} categories."
        )
    return tuple(
        _evidence(name, [_scores(make(), real, other, metadata) for other in others], which)
        for name, make in _reports().items()
    )


def no_scores(reason: str) -> OwnerOnlyEvidence:
    """Say why there are no scores."""
    return OwnerOnlyEvidence(id="scores.none", title="SDMetrics scores", value=None, sentence=reason)


def _evidence(name: str, scores: Sequence[Mapping[str, float]], which: str) -> OwnerOnlyEvidence:
    title, words = _WORDS[name]
    rows: tuple[tuple[Cell, ...], ...] = tuple((part, *(one.get(part) for one in scores)) for part in scores[0])
    return OwnerOnlyEvidence(
        id=f"scores.{name}",
        title=title,
        value=scores[0].get(_OVERALL),
        unit="out of 1",
        sentence=f"{words}, compared with the independent control and a bootstrap of the private rows. {which}",
        figures=(_table(scores, rows),),
    )


def _table(scores: Sequence[Mapping[str, float]], rows: tuple[tuple[Cell, ...], ...]) -> Table:
    ours, control, floor = (one.get(_OVERALL) for one in scores)
    title, judged = "Score by score", ""
    if ours is not None and control is not None and floor is not None:
        title = f"Synthetic rows score {ours:.2f} out of 1, unrelated columns {control:.2f}"
        judged = beside_anchors(1 - ours, control=1 - control, floor=1 - floor)
    return Table(title, ("score", "synthetic", CONTROL, "floor"), rows, judged)


def _reports() -> dict[str, Callable[[], Any]]:
    # Imported late: most commands need no library of metrics.
    with _torch_left_out():
        from sdmetrics.reports import DiagnosticReport, QualityReport

    # Its log may quote cells.
    logging.getLogger("sdmetrics").setLevel(logging.CRITICAL + 1)
    return {"quality": QualityReport, "diagnostic": DiagnosticReport}


class _NoTorch:
    """Finds no torch for one thread, as where it is not installed; other threads import it as ever."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "torch" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("torch is left out", name=name)


@contextmanager
def _torch_left_out() -> Iterator[None]:
    """Import no torch in the block: the library would, for metrics that nobody asks for, and it takes seconds."""
    finder = _NoTorch()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _scores(report: Any, real: pd.DataFrame, other: pd.DataFrame, metadata: dict[str, Any]) -> dict[str, float]:
    with warnings.catch_warnings():
        # Constant columns have no correlation, and it warns once for every pair.
        warnings.simplefilter("ignore")
        report.generate({_TABLE: real}, {_TABLE: other}, metadata, verbose=False)
        parts = report.get_properties()
    found = {_OVERALL: report.get_score(), **dict(zip(parts["Property"], parts["Score"], strict=True))}
    # What does not apply (there are no constraints) has no score.
    return {name: float(score) for name, score in found.items() if math.isfinite(score)}


def _frame(table: CodeTable, schema: Schema, kept: Sequence[int], random: np.random.Generator) -> pd.DataFrame:
    import pandas as pd  # imported late: it starts slowly, and is needed here alone

    n = len(table[0])
    rows = np.sort(random.choice(n, size=min(n, _MOST_ROWS), replace=False))
    columns = schema.modelled
    return pd.DataFrame({columns[place].name: _cells(columns[place], table[place][rows]) for place in kept})


def _cells(column: ModelledColumn, codes: NDArray[Any]) -> NDArray[Any]:
    kind = _kind(column)
    if kind == "categorical":
        return np.asarray(np.array([text or None for text in column.texts()], dtype=object)[codes])
    values = decode_column(column, codes).cast("float64" if kind == "numerical" else "timestamp[s]")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _kind(column: ModelledColumn) -> str:
    """Return what sdmetrics calls a column like this."""
    return {"int64": "numerical", "double": "numerical", "date32": "datetime"}.get(column.cell_type, "categorical")


# The report ---------------------------------------------------------------------------------------------------------


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    progress.phase("Scoring")
    return owner_scores(rows.tables)


def _panels(shown: Shown) -> list[Panel]:
    scores = shown.exact_of("scores")
    return [Part("scores", "Scores", [Cards(scores, key="owner-scores")])] if scores else []


REPORT = Report(
    id="scores",
    title="Scores",
    sections={"scores": Section("Scores")},
    owner=_owner,
    # A third-party library: what it cannot score must not cost the owner a report.
    failed=no_scores,
    fault="SDMetrics could not score this table",
    screens=(Screen(OWNER_ONLY, _panels, exact=True),),
)
