"""The downstream report as evidence: owner-only where rows are private, safe where the test rows are public."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synth.progress import Progress
from synth.reports.code_tables import CodeTable
from synth.reports.controls import shuffled_rows
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence, SafeEvidence
from synth.reports.figures import Bars, Cell, Series, Table
from synth.reports.prediction.by_group import Kind, predictions_by_group
from synth.reports.prediction.downstream import compare_predictions
from synth.reports.prediction.problem import (
    MEANINGS,
    SOURCES,
    DownstreamOptions,
    Measure,
    Predictions,
    Problem,
    TrainedOn,
    Untestable,
)
from synth.schema import Schema

__all__ = ["nothing_predicted", "owner_downstream", "public_downstream"]

_TITLES = {
    "roc_auc": "ROC AUC",
    "pr_auc": "PR AUC",
    "macro_f1": "Macro F1",
    "weighted_f1": "Weighted F1",
    "accuracy": "Accuracy",
    "r2": "R2",
    "mae": "Mean absolute error",
}


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
        Told by training; may raise to stop.
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
    return _evidence(OwnerOnlyEvidence, found, tested_on)


def public_downstream(
    synthetic: CodeTable,
    public: CodeTable,
    schema: Schema,
    label: str,
    options: DownstreamOptions,
    progress: Progress,
    *,
    groups: Sequence[str] = (),
    seed: int = 0,
) -> tuple[SafeEvidence, ...]:
    """Compare predictors on rows that are public; what comes out may be published.

    Parameters
    ----------
    synthetic : CodeTable
        Rows of a release.
    public : CodeTable
        Rows that are public without this release. One half, drawn by the seed, is trained on as the "real" rows, the
        other is tested on. Nothing private may be given here: this function cannot know.
    schema, label, options, progress, groups, seed
        As in :class:`synth.reports.prediction.problem.Problem`.

    Returns
    -------
    tuple of SafeEvidence
        As :func:`owner_downstream`. The control is the synthetic rows with every column shuffled by itself.
    """
    order = np.random.default_rng([seed, 17]).permutation(len(public[0]))
    half = len(order) // 2
    tables: dict[TrainedOn, CodeTable] = {
        "synthetic": synthetic,
        "real": [codes[order[:half]] for codes in public],
        "control": shuffled_rows(synthetic, seed=seed),
    }
    test = [codes[order[half:]] for codes in public]
    problem = Problem(schema=schema, label=label, tables=tables, test=test, groups=groups, seed=seed)
    found = compare_predictions(problem, options, progress)
    if isinstance(found, Untestable):
        return (SafeEvidence(id="downstream.none", title="Nothing predicted", value=None, sentence=found.reason),)
    return _evidence(SafeEvidence, found, "one half of a public sample")


def nothing_predicted(reason: str) -> OwnerOnlyEvidence:
    """Say why a report holds no predictions."""
    return OwnerOnlyEvidence(
        id="downstream.none", title="Nothing predicted", value=None, sentence=f"{reason} {OWNER_ONLY_SENTENCE}"
    )


def _evidence(kind: type[Kind], found: Predictions, tested_on: str) -> tuple[Kind, ...]:
    suffix = f" {OWNER_ONLY_SENTENCE}" if kind is OwnerOnlyEvidence else ""
    entries = [
        _number(kind, found, source, name, measure, suffix)
        for source, measures in found.means.items()
        for name, measure in measures.items()
    ]
    entries.append(_rows(kind, found, tested_on, suffix))
    entries.append(_by_predictor(kind, found, suffix))
    if found.notes:
        entries.append(
            kind(
                id="downstream.notes",
                title="What to know about these numbers",
                value=None,
                sentence=" ".join(found.notes) + suffix,
            )
        )
    entries += predictions_by_group(kind, found, suffix=suffix)
    return tuple(entries)


def _number(kind: type[Kind], found: Predictions, source: TrainedOn, name: str, measure: Measure, suffix: str) -> Kind:
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
    return kind(
        id=f"downstream.{source}.{name}",
        title=f"{_TITLES[name]}, {origin}",
        value=measure.value,
        # An anchor that no resampling moves has no range.
        error=measure.error or None,
        unit=found.unit if name == "mae" else "",
        sentence=sentence + suffix,
    )


def _rows(kind: type[Kind], found: Predictions, tested_on: str, suffix: str) -> Kind:
    options = found.options
    trained = "; ".join(f"{SOURCES[name]}: {rows:,}" for name, rows in found.rows.items())
    sampled = " (a seeded sample of larger tables)"
    ranges = "The 95 % range of a number covers a bootstrap of the test rows, unit by unit, and training again."
    return kind(
        id="downstream.rows",
        title="Test rows",
        value=found.test_rows,
        unit="rows",
        sentence=f"Tested on {tested_on}. Rows trained on: {trained}{sampled}. Trainings of each predictor: "
        f"{options.repeats}. {ranges}{suffix}",
    )


def _by_predictor(kind: type[Kind], found: Predictions, suffix: str) -> Kind:
    main = "r2" if found.kind == "number" else "roc_auc"
    names = [name for name in _TITLES if name in next(iter(found.means.values()))]
    rows: list[tuple[Cell, ...]] = [
        (title, SOURCES[source], *(measures[name].value for name in names))
        for title, sources in found.by_predictor.items()
        for source, measures in sources.items()
    ]
    rows += [("mean", SOURCES[source], *(of[name].value for name in names)) for source, of in found.means.items()]
    title, judged = _seen(found, main)
    header = ("predictor", "trained on", *(_TITLES[name] for name in names))
    table, bars = Table(title, header, tuple(rows), judged), _bars(found, main)
    return kind(
        id="downstream.classifiers",
        title="By predictor",
        value=None,
        sentence=f"Every predictor has one fixed setting; none was tuned on test rows.{suffix}",
        figures=(table,) if bars is None else (bars, table),
    )


def _seen(found: Predictions, main: str) -> tuple[str, str]:
    """Say what predictors reach, and how much that is of what real rows teach beyond a guess."""
    ours, real, guess = (
        found.means[source][main].value if source in found.means else None
        for source in ("synthetic", "real", "majority")
    )
    if ours is None or real is None:
        return f"{_TITLES[main]} by predictor", ""
    title = f"{_TITLES[main]}: {ours:.2f} learned from synthetic rows, {real:.2f} from real ones"
    if guess is None or real <= guess:
        return title, "Real rows teach no more than guessing."
    kept = 100 * (ours - guess) / (real - guess)
    if kept <= 0:
        return title, "Not good: no better than guessing."
    return title, f"They keep {min(kept, 100):.0f} % of what real rows teach beyond guessing."


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
    return Bars(title, _TITLES[main], titles, tuple(shown), subtitle=judged)
