"""Several budgets and generators side by side on public rows: what each cell of the grid came to, as safe evidence.

Bands are what other seeds change: another draw of who is held out, of the noise and of the rows made. Nothing here is
about private rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from synth.errors import InputError
from synth.reports.charts import Bars, Cell, Series, Table
from synth.reports.evidence import SafeEvidence

__all__ = ["GridCell", "grid_cell_from_dict", "grid_cell_to_dict", "grid_evidence"]

_CONTROL = "independent"
_GUESSING = 0.5

Measure = Callable[["GridCell"], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One generator at one epsilon with one seed.

    Attributes
    ----------
    generator : str
    epsilon : float
    seed : int
    pairs : float
        Mean total variation of synthetic against stand-in rows over sets of two columns (of one, where there is but
        one), numbers and dates in at most 32 public bins.
    floor : float
        The same for another draw of the stand-in rows.
    measure : str
        How predictions are scored; empty where nothing could be predicted.
    predicted, real : float, optional
        Mean score after training on synthetic rows, and on stand-in rows.
    attack : str
        The attack that told most; empty where there were too few people for a verdict.
    area, ceiling : float, optional
        Its ROC AUC, and the largest that the receipts allow any attack.
    seconds : float
        Measuring, fitting and drawing; without any report.
    """

    generator: str
    epsilon: float
    seed: int
    pairs: float
    floor: float
    measure: str = ""
    predicted: float | None = None
    real: float | None = None
    attack: str = ""
    area: float | None = None
    ceiling: float | None = None
    seconds: float = 0.0


def grid_cell_to_dict(cell: GridCell) -> dict[str, Any]:
    """Write a cell as JSON values; :func:`grid_cell_from_dict` gives it back."""
    return asdict(cell)


def grid_cell_from_dict(body: dict[str, Any]) -> GridCell:
    """Read a cell back.

    Raises
    ------
    InputError
        If it is not what :func:`grid_cell_to_dict` writes.
    """
    try:
        return GridCell(**body)
    except TypeError:
        raise InputError("A cell of the rehearsal cannot be read. Rehearse again.") from None


def grid_evidence(cells: Sequence[GridCell], *, label: str | None, said: str) -> tuple[SafeEvidence, ...]:
    """Put the cells of a grid side by side.

    Parameters
    ----------
    cells : sequence of GridCell
        At least one.
    label : str, optional
        What is predicted.
    said : str
        What has to be said of the rows under every picture.

    Returns
    -------
    tuple of SafeEvidence
        ``grid.table``, ``grid.pairs``, ``grid.prediction`` and ``grid.attacks``, the last two where there is something
        to show.
    """
    seeds = len({cell.seed for cell in cells})
    bands = f"Bands reach over {seeds} seeds. " if seeds > 1 else "One seed: what another would change is not shown. "
    found = [
        SafeEvidence(
            id="grid.table",
            title="Every generator at every epsilon",
            value=None,
            sentence=f"Means over {seeds} seed{'s' * (seeds > 1)}; small distances and large scores are good. {said}",
            figures=(_table(cells),),
        ),
        SafeEvidence(
            id="grid.pairs",
            title="Error of pairs of columns",
            value=None,
            unit="total variation",
            sentence="Synthetic against stand-in rows, numbers and dates in at most 32 public bins; 0 is equal. "
            f"{bands}{said}",
            figures=_figures(cells, "Distance of pairs", "total variation", lambda cell: cell.pairs, _floor),
        ),
    ]
    measure = next((cell.measure for cell in cells if cell.measure), "")
    if measure:
        found.append(
            SafeEvidence(
                id="grid.prediction",
                title=f"Prediction of '{label}'",
                value=None,
                unit=measure,
                sentence=f"Trained on synthetic rows, tested on stand-in rows that were held out. {bands}{said}",
                figures=_figures(cells, "Prediction", measure, lambda cell: cell.predicted, _real),
            )
        )
    if any(cell.area is not None for cell in cells):
        found.append(
            SafeEvidence(
                id="grid.attacks",
                title="The attack that told most",
                value=None,
                unit="ROC AUC",
                sentence="Of all attacks the one with the largest area; 0.5 is guessing, and the largest of several "
                f"lies a little above it by chance. The ceiling is proven for any attack; a point above it is "
                f"chance, unless an incident is named. {bands}{said}",
                figures=_figures(cells, "Worst attack", "ROC AUC", lambda cell: cell.area, _ceiling),
            )
        )
    return tuple(found)


def _floor(cells: Sequence[GridCell]) -> list[Series]:
    return _line("another draw of the stand-in", "floor", cells, lambda cell: cell.floor)


def _real(cells: Sequence[GridCell]) -> list[Series]:
    return _line("trained on stand-in rows", "ceiling", cells, lambda cell: cell.real)


def _ceiling(cells: Sequence[GridCell]) -> list[Series]:
    epsilons = _epsilons(cells)
    guessing = Series("guessing", "floor", (_GUESSING,) * len(epsilons))
    return [guessing, *_line("proven ceiling", "ceiling", cells, lambda cell: cell.ceiling)]


def _line(name: str, meaning: Any, cells: Sequence[GridCell], measure: Measure) -> list[Series]:
    means = [_mean(_values(cells, epsilon, measure)) for epsilon in _epsilons(cells)]
    known = [mean for mean in means if mean is not None]
    return [Series(name, meaning, tuple(known))] if len(known) == len(means) else []


def _figures(
    cells: Sequence[GridCell],
    title: str,
    unit: str,
    measure: Measure,
    anchors: Callable[[Sequence[GridCell]], list[Series]],
) -> tuple[Bars, ...]:
    """Return a picture for each generator beside the control; of the control alone where there is no other."""
    generators = _in_order(cell.generator for cell in cells)
    control = [cell for cell in cells if cell.generator == _CONTROL]
    figures = []
    for name in [name for name in generators if name != _CONTROL] or generators:
        own = [cell for cell in cells if cell.generator == name]
        epsilons = _epsilons(own)
        series = _bands(name, "stand_in", own, measure)
        if name != _CONTROL and _epsilons(control) == epsilons:
            series += _bands(_CONTROL, "control", control, measure)
        if series:
            categories = tuple(f"ε = {epsilon:g}" for epsilon in epsilons)
            figures.append(Bars(f"{title}: {name}", unit, categories, (*series, *anchors(own)), joined=True))
    return tuple(figures)


def _bands(name: str, meaning: Any, cells: Sequence[GridCell], measure: Measure) -> list[Series]:
    found = [_values(cells, epsilon, measure) for epsilon in _epsilons(cells)]
    if not all(found):
        return []
    means = [sum(values) / len(values) for values in found]
    above = tuple(max(values) - mean for values, mean in zip(found, means, strict=True))
    below = tuple(mean - min(values) for values, mean in zip(found, means, strict=True))
    return [Series(name, meaning, tuple(means), errors=above, below=below)]


def _table(cells: Sequence[GridCell]) -> Table:
    measure = next((cell.measure for cell in cells if cell.measure), "")
    header = ["generator", "epsilon", "distance of pairs"]
    measures: list[Measure] = [lambda cell: cell.pairs]
    if measure:
        header.append(f"prediction, {measure}")
        measures.append(lambda cell: cell.predicted)
    if any(cell.area is not None for cell in cells):
        header += ["worst attack, ROC AUC", "its proven ceiling"]
        measures += [lambda cell: cell.area, lambda cell: cell.ceiling]
    header.append("seconds of a run")
    measures.append(lambda cell: cell.seconds)
    rows: list[tuple[Cell, ...]] = []
    for name in _in_order(cell.generator for cell in cells):
        own = [cell for cell in cells if cell.generator == name]
        rows += [
            (name, epsilon, *(_mean(_values(own, epsilon, one)) for one in measures)) for epsilon in _epsilons(own)
        ]
    return Table("Generators and budgets side by side", tuple(header), tuple(rows))


def _values(cells: Sequence[GridCell], epsilon: float, measure: Measure) -> list[float]:
    found = (measure(cell) for cell in cells if cell.epsilon == epsilon)
    return [value for value in found if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _epsilons(cells: Iterable[GridCell]) -> list[float]:
    return sorted({cell.epsilon for cell in cells})


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
