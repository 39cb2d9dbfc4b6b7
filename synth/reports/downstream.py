"""Downstream accuracy: predictors trained on synthetic rows and tested on real rows that no generator saw.

Beside it stand the same predictors trained on real rows, on the independent control, and the most frequent class. Every
predictor is trained several times, with another seed and, where a table has more rows than are trained on, with another
sample of them. The range of a number covers what resampling the test rows and training again would change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from synth.progress import Progress
from synth.reports.classifiers import CLASSIFIERS, REGRESSORS, Predictor, classify, regress
from synth.reports.disparity import GroupRisks
from synth.reports.prediction_bench import Bench, Outcome, bench_of, majority, trained
from synth.reports.prediction_features import Features, Target
from synth.reports.prediction_problem import (
    Choice,
    DownstreamOptions,
    Measure,
    Predictions,
    Problem,
    TrainedOn,
    Untestable,
)
from synth.reports.prediction_tasks import in_parallel, in_words, quiet_and_single, seconds_ahead

__all__ = ["compare_predictions", "seconds_of"]

_RANGE = 1.959964

_CLASSIFIERS: Mapping[Choice, tuple[str, ...]] = {
    "quick": ("logistic_regression", "random_forest", "hist_gradient_boosting"),
    "all": tuple(CLASSIFIERS),
}
_MANY_CLASSES = 10
_QUICK_FOR_MANY_CLASSES = ("logistic_regression", "random_forest", "lda")
"""With more than ten declared classes boosting, which grows trees for every class, is no longer quick."""

_REGRESSORS: Mapping[Choice, tuple[str, ...]] = {
    "quick": ("ridge", "random_forest", "hist_gradient_boosting"),
    "all": tuple(REGRESSORS),
}


def _predictors_of(target: Target, choice: Choice) -> tuple[dict[str, Predictor], tuple[str, ...]]:
    """Return the predictors of a choice that this machine has, and the titles of those it lacks."""
    known = CLASSIFIERS if target.kind == "classes" else REGRESSORS
    names = (_CLASSIFIERS if target.kind == "classes" else _REGRESSORS)[choice]
    if target.kind == "classes" and choice == "quick" and target.n_classes > _MANY_CLASSES:
        names = _QUICK_FOR_MANY_CLASSES
    there = {name: known[name] for name in names if known[name].is_there}
    return there, tuple(known[name].title for name in names if name not in there)


def seconds_of(problem: Problem, options: DownstreamOptions) -> float:
    """Say how long :func:`compare_predictions` will take, measured by training on small parts of the synthetic rows.

    Neither private rows nor their number enter, so the time may be shown while a run goes on.
    """
    features, target = Features.of(problem.schema, problem.label), Target.of(problem.schema, problem.label)
    synthetic = problem.tables["synthetic"]
    usable = target.usable(synthetic)
    if not len(usable) or not features.width:
        return 0.0
    rows = min(options.rows_for(features.width, target.n_declared), len(usable))
    matrix = features.matrix(synthetic, usable[:rows])
    labels = target.values(synthetic, usable[:rows])
    predictors, _ = _predictors_of(target, options.predictors)

    def train(predictor: Predictor, size: int) -> object:
        part = slice(0, size)
        if target.kind == "number":
            return regress(predictor, matrix[part], labels[part], matrix[part], target.bounds, seed=0)
        whole = labels[part].astype(np.int64)
        return classify(predictor, matrix[part], whole, matrix[part], whole[:1], seed=0)

    with quiet_and_single():
        once = sum(seconds_ahead(partial(train, predictor), rows) for predictor in predictors.values())
    return once * len(problem.tables) * options.repeats / max(1, options.threads)


def compare_predictions(problem: Problem, options: DownstreamOptions, progress: Progress) -> Predictions | Untestable:
    """Train every predictor on every table and test it on the same rows.

    Returns
    -------
    Predictions, or Untestable where there is no label or no row to test on
    """
    bench = bench_of(problem, options)
    if isinstance(bench, Untestable):
        return bench
    predictors, missing = _predictors_of(bench.target, options.predictors)
    usable = {name: bench.target.usable(codes) for name, codes in problem.tables.items()}
    runs = [
        (title, name, repeat) for title in predictors for name in problem.tables for repeat in range(options.repeats)
    ]
    works = [
        partial(trained, bench, predictors[title], problem.tables[name], usable[name], repeat)
        for title in predictors
        for name in problem.tables
        for repeat in range(options.repeats)
    ]
    kind = "classifiers" if bench.target.kind == "classes" else "regressors"
    ahead = in_words(seconds_of(problem, options))
    progress.phase(f"Predicting with {len(predictors)} {kind} on {len(problem.tables)} tables, {ahead}")
    outcomes = dict(zip(runs, in_parallel(works, threads=options.threads, on_step=progress.step), strict=True))
    by_title = {
        predictor.title: {
            name: [outcomes[title, name, repeat] for repeat in range(options.repeats)] for name in problem.tables
        }
        for title, predictor in predictors.items()
    }
    return _summed(bench, by_title, usable, missing)


def _summed(
    bench: Bench,
    by_title: Mapping[str, Mapping[TrainedOn, Sequence[Outcome]]],
    usable: Mapping[TrainedOn, NDArray[np.int64]],
    missing: Sequence[str],
) -> Predictions:
    means: dict[TrainedOn, dict[str, Measure]] = {}
    risks: dict[str, dict[str, NDArray[np.float64]]] = {name: {} for name in bench.groups}
    scores: dict[str, dict[TrainedOn, NDArray[np.float64]]] = {name: {} for name in bench.groups}
    for name in bench.problem.tables:
        repeats = [[runs[name][repeat] for runs in by_title.values()] for repeat in range(bench.options.repeats)]
        means[name] = _measures(repeats)
        for column in bench.groups:
            scores[column][name] = np.mean([one.scores[column] for outcomes in repeats for one in outcomes], axis=0)
            risks[column][name] = np.array(
                [np.mean([one.risks[column] for one in outcomes], axis=0) for outcomes in repeats]
            )
    anchor = majority(bench, usable)
    if anchor is not None:
        means["majority"] = _measures([[anchor]])
    return Predictions(
        kind=bench.target.kind,
        unit=bench.target.unit,
        means=means,
        by_predictor={
            title: {name: _measures([[outcome] for outcome in outcomes]) for name, outcomes in runs.items()}
            for title, runs in by_title.items()
        },
        groups={
            name: GroupRisks(one.labels, np.bincount(one.of_row, minlength=len(one.labels)), risks[name])
            for name, one in bench.groups.items()
        },
        group_scores=scores,
        rows={name: min(len(rows), bench.maximum_rows) for name, rows in usable.items()},
        test_rows=len(bench.truth),
        classes=len(np.unique(bench.truth)) if bench.target.kind == "classes" else 0,
        notes=(*_notes(bench, missing), *_constants(by_title)),
        options=bench.options,
    )


def _measures(repeats: Sequence[Sequence[Outcome]]) -> dict[str, Measure]:
    """Average over predictors and trainings, and add the variances of resampled test rows and of trainings."""
    found = {}
    for name in repeats[0][0].measures:
        # Shape (trainings, weightings): the same weightings for all, so that predictors' errors go together.
        values = np.array([np.mean([one.measures[name] for one in outcomes], axis=0) for outcomes in repeats])
        overall = values.mean(axis=0)
        if not math.isfinite(overall[0]):
            found[name] = Measure(None, None)
            continue
        variance = float(np.nanvar(overall[1:])) if np.isfinite(overall[1:]).any() else 0.0
        if len(values) > 1:
            variance += float(values[:, 0].var(ddof=1)) / len(values)
        found[name] = Measure(float(overall[0]), _RANGE * math.sqrt(variance))
    return found


def _notes(bench: Bench, missing: Sequence[str]) -> list[str]:
    notes = [f"{title} is left out: its package is not installed here." for title in missing]
    if bench.features.shortened:
        names = ", ".join(f"'{name}'" for name in bench.features.shortened)
        notes.append(f"Long lists of values were seen as {bench.features.blocks} blocks of neighbours: {names}.")
    return notes


def _constants(by_title: Mapping[str, Mapping[TrainedOn, Sequence[Outcome]]]) -> list[str]:
    reasons: dict[tuple[TrainedOn, str], list[str]] = {}
    for title, runs in by_title.items():
        for name, outcomes in runs.items():
            for reason in dict.fromkeys(outcome.constant for outcome in outcomes if outcome.constant):
                reasons.setdefault((name, reason), []).append(title)
    every = len(by_title)
    return [
        f"Trained on {name} rows, {'every predictor' if len(titles) == every else ', '.join(titles)} gave one constant "
        f"prediction. {reason}"
        for (name, reason), titles in reasons.items()
    ]
