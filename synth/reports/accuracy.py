"""How far counts can be trusted, from the known noise alone: by column, and by declared group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synth.reports.charts import Cell, Table
from synth.reports.compared import BAR, ComparedTable
from synth.reports.evidence import SafeEvidence
from synth.reports.labels import bin_labels
from synth.schema import Schema

__all__ = ["expected_accuracy", "group_accuracy"]

_TRUSTED = 0.1
_DOUBTFUL = 0.2
_MOST_GROUPS = 200
_MOST_TABLES = 100


def expected_accuracy(compared: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    """Say from which size on a count is known to 10 %, and below which it is noise.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables.

    Returns
    -------
    tuple of SafeEvidence
        ``accuracy.trust`` and ``accuracy.columns`` where a column was measured, and ``accuracy.joint`` where several
        were measured together.
    """
    singles = [one for one in compared if len(one.columns) == 1]
    joint = [one for one in compared if len(one.columns) > 1]
    return (*(_of_columns(singles) if singles else ()), *(_of_joint(joint) if joint else ()))


def _of_columns(singles: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    noise = max(float(one.noise_std.max()) for one in singles)
    least, nothing = noise / _TRUSTED, BAR * noise
    return (
        SafeEvidence(
            id="accuracy.trust",
            title="Smallest count to trust",
            value=least,
            unit="rows",
            sentence=f"Trust measured counts above about {least:,.0f} rows; below {nothing:,.0f}, treat them as noise. "
            "It follows from the known noise alone. What the generator's model misses comes on top.",
        ),
        SafeEvidence(
            id="accuracy.columns",
            title="Standard error of a count",
            value=noise,
            unit="rows",
            sentence="The largest over all columns; each column is listed below.",
            figures=(_errors("Error of a measured count, by column (rows)", "column", singles),),
        ),
    )


def _of_joint(joint: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    best = sorted(joint, key=lambda one: float(one.noise_std.max()))
    least = float(best[len(best) // 2].noise_std.max()) / _TRUSTED
    shown = best[:_MOST_TABLES]
    title = "Error of a measured joint count (rows)"
    title += "" if len(shown) == len(best) else f", the {len(shown)} best known of {len(best)} tables"
    return (
        SafeEvidence(
            id="accuracy.joint",
            title="Smallest joint count to trust",
            value=least,
            unit="rows",
            sentence=f"In a typical measured table of several columns, trust counts above about {least:,.0f} rows; "
            f"below {BAR * _TRUSTED * least:,.0f}, treat them as noise. What was not measured is the model's guess.",
            figures=(_errors(title, "columns", shown),),
        ),
    )


def _errors(title: str, heading: str, compared: Sequence[ComparedTable]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in compared:
        worst = float(one.noise_std.max())
        rows.append((" + ".join(one.columns), one.measured.size, worst, BAR * worst, worst / _TRUSTED))
    return Table(title, (heading, "counts", "standard error", "range (95 %)", "trust above"), tuple(rows))


def group_accuracy(
    compared: Sequence[ComparedTable], schema: Schema, groups: Sequence[str]
) -> tuple[SafeEvidence, ...]:
    """Say for every declared group how well its size is known, and name those with an error above 20 %.

    Returns
    -------
    tuple of SafeEvidence
        ``groups.<column>`` for each column of ``groups`` that was measured.
    """
    by_column = {one.columns[0]: one for one in compared if len(one.columns) == 1}
    found = []
    for name in groups:
        one = by_column.get(name)
        if one is not None and one.measured.size <= _MOST_GROUPS:
            found.append(_groups(one, bin_labels(schema.modelled_column(name), one.bins[0])))
    return tuple(found)


def _groups(one: ComparedTable, labels: Sequence[str]) -> SafeEvidence:
    name = one.columns[0]
    # A count that noise has driven to nothing has no relative error; it is as doubtful as can be.
    relative = one.noise_std / np.maximum(one.measured, 1e-9)
    relative[one.measured <= 0] = np.inf
    doubtful = [label for label, error in zip(labels, relative, strict=True) if error > _DOUBTFUL]
    rows = tuple(
        (label, float(count), BAR * float(noise), float(error) if np.isfinite(error) else None)
        for label, count, noise, error in zip(labels, one.measured, one.noise_std, relative, strict=True)
    )
    sentence = f"Groups of '{name}' whose size is known to no better than 20 %"
    noise = "What the synthetic rows say about them is mostly noise."
    sentence += f": {', '.join(doubtful)}. {noise}" if doubtful else ": none."
    return SafeEvidence(
        id=f"groups.{name}",
        title=f"Small groups of {name}",
        value=len(doubtful),
        unit=f"of {len(labels)} groups",
        sentence=sentence,
        figures=(Table(f"Groups of {name}", ("group", "noisy count", "range (95 %)", "relative error"), rows),),
    )
