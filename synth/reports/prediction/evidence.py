"""The downstream report as evidence for the owner only."""

from __future__ import annotations

from typing import Any

from synth.progress import Progress
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Bars, Cell, Series, Table
from synth.reports.prediction.by_group import predictions_by_group
from synth.reports.prediction.downstream import compare_predictions
from synth.reports.prediction.problem import (
    MEANINGS,
    SOURCES,
    TITLES,
    DownstreamOptions,
    Measure,
    Predictions,
    Problem,
    TrainedOn,
    Untestable,
    nothing_predicted,
)

__all__ = ["owner_downstream"]


def owner_downstream(
    problem: Problem, options: DownstreamOptions, progress: Progress, *, tested_on: str
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare predictors on private rows; for the owner's eyes only.

    Parameters
    ----------
    problem : Problem
        Rows to train on by origin, and private rows to test on.
    options : DownstreamOptions
    progress : Progress
        Updated after each training; may raise to stop.
    tested_on : str
        What the test rows are, in words: "the hold-out".

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``downstream.<trained on>.<measure>``, ``downstream.rows``, ``downstream.classifiers``, ``downstream.notes``
        where there are any and ``downstream.groups.<column>``; or ``downstream.none`` with the reason.
    """
    found = compare_predictions(problem, options, progress)
    if isinstance(found, Untestable):
        return (nothing_predicted(found.reason),)
    entries = [
        _number(found, source, name, measure)
        for source, measures in found.means.items()
        for name, measure in measures.items()
    ]
    entries += [_rows(found, tested_on), _by_predictor(found)]
    if found.notes:
        entries.append(_entry("notes", "What to know about these numbers", " ".join(found.notes)))
    return (*entries, *predictions_by_group(found))


def _entry(name: str, title: str, sentence: str, **rest: Any) -> OwnerOnlyEvidence:
    return OwnerOnlyEvidence(id=f"downstream.{name}", title=title, sentence=sentence, **{"value": None} | rest)


def _number(found: Predictions, source: TrainedOn, name: str, measure: Measure) -> OwnerOnlyEvidence:
    origin = "predicting the mean" if source == "majority" and found.kind == "number" else SOURCES[source]
    count = len(found.by_predictor)
    kinds = "regressors" if found.kind == "number" else "classifiers"
    baseline = "the mean" if found.kind == "number" else "the most frequent class"
    sentence = {
        "synthetic": f"Mean over {count} {kinds} trained on synthetic rows only, tested on real rows.",
        "real": f"The same {count} {kinds} trained on real rows: the most that can be expected.",
        "control": f"The same {count} {kinds} trained on rows whose columns are unrelated.",
        "majority": f"Baseline without a model: always {baseline}.",
    }[source]
    if name in ("roc_auc", "pr_auc"):
        sentence += (
            " From predicted classes instead of scores, as in published tables." if found.options.hard_labels else ""
        )
        sentence += " For the class that is rarer in the test rows." if found.classes == 2 else ""
        sentence += " Mean over classes, one against the rest." if found.classes > 2 else ""
    return _entry(
        f"{source}.{name}",
        f"{TITLES[name]}, {origin}",
        sentence,
        value=measure.value,
        # An anchor that no resampling moves has no range.
        error=measure.error or None,
        unit=found.unit if name == "mae" else "",
    )


def _rows(found: Predictions, tested_on: str) -> OwnerOnlyEvidence:
    trained = "; ".join(f"{SOURCES[name]}: {rows:,}" for name, rows in found.rows.items())
    sentence = (
        f"Tested on {tested_on}. Training rows: {trained} (a seeded sample of larger tables). Trainings of each "
        f"predictor: {found.options.repeats}. The 95 % range of a number covers a bootstrap of the test rows, unit by "
        "unit, and repeated training."
    )
    return _entry("rows", "Test rows", sentence, value=found.test_rows, unit="rows")


def _by_predictor(found: Predictions) -> OwnerOnlyEvidence:
    main = "r2" if found.kind == "number" else "roc_auc"
    names = [name for name in TITLES if name in next(iter(found.means.values()))]
    rows: list[tuple[Cell, ...]] = [
        (title, SOURCES[source], *(measures[name].value for name in names))
        for title, sources in found.by_predictor.items()
        for source, measures in sources.items()
    ]
    rows += [("mean", SOURCES[source], *(of[name].value for name in names)) for source, of in found.means.items()]
    title, judged = _seen(found, main)
    header = ("predictor", "trained on", *(TITLES[name] for name in names))
    table, bars = Table(title, header, tuple(rows), judged), _bars(found, main)
    return _entry(
        "classifiers",
        "By predictor",
        "Every predictor has one fixed setting; none was tuned on test rows.",
        figures=(table,) if bars is None else (bars, table),
    )


def _seen(found: Predictions, main: str) -> tuple[str, str]:
    """Say what predictors reach, and how much of what real rows teach beyond guessing."""
    ours, real, guess = (
        found.means[source][main].value if source in found.means else None
        for source in ("synthetic", "real", "majority")
    )
    if ours is None or real is None:
        return f"{TITLES[main]} by predictor", ""
    title = f"{TITLES[main]}: {ours:.2f} after training on synthetic rows, {real:.2f} on real rows"
    if guess is None or real <= guess:
        return title, "Training on real rows is no better than guessing."
    kept = 100 * (ours - guess) / (real - guess)
    if kept <= 0:
        return title, "Not good: no better than guessing."
    return title, f"Synthetic rows keep {min(kept, 100):.0f} % of what real rows teach beyond guessing."


def _bars(found: Predictions, main: str) -> Bars | None:
    shown: list[Series] = []
    titles = tuple(found.by_predictor)
    for source, meaning in MEANINGS.items():
        if source not in found.means:
            continue
        if source == "majority":
            measures = [found.means["majority"][main]] * len(titles)
        else:
            measures = [found.by_predictor[title][source][main] for title in titles]
        if any(one.value is None for one in measures):
            return None
        values = tuple(one.value or 0.0 for one in measures)
        errors = None if source == "majority" else tuple(one.error or 0.0 for one in measures)
        shown.append(Series(SOURCES[source], meaning, values, errors))
    title, judged = _seen(found, main)
    return Bars(title, TITLES[main], titles, tuple(shown), subtitle=judged)
