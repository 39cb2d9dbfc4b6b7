"""Downstream accuracy: predictors trained on synthetic rows and tested on real rows that no generator saw.

It is compared with the same predictors trained on real rows and on the independent control, and with the most frequent
class. Every predictor is trained several times, with another seed and, where a table has more rows than are trained on,
with another sample of them. The range of a number covers what resampling the test rows and training again would change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from synth.progress import Progress
from synth.reports.code_tables import CodeTable, bin_labels, coarse_bins
from synth.reports.features import Features, Target
from synth.reports.prediction.classifiers import CLASSIFIERS, REGRESSORS, Predictor, classify, regress
from synth.reports.prediction.disparity import GroupRisks, mean_losses
from synth.reports.prediction.problem import (
    Choice,
    DownstreamOptions,
    Measure,
    Predictions,
    Problem,
    TrainedOn,
    Untestable,
)
from synth.reports.prediction.scores import Weights, class_measures, number_measures, resampled
from synth.reports.prediction.tasks import in_parallel, in_words, seconds_ahead
from synth.reports.tree_predictors import quiet_and_single

__all__ = [
    "Bench",
    "Groups",
    "Outcome",
    "bench_of",
    "compare_predictions",
    "majority",
    "predictors_of",
    "seconds_of",
    "trained",
]

_MOST_CLASSES = 200
_FEWEST_TEST_ROWS = 20
_RESAMPLED_CLASSES = 10
"""Up to so many classes the test rows are resampled as often as asked; with more, less often, to save time."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One training: measures for every weighting of the test rows; by column scores by group, and risks.

    ``scores`` has shape (n_groups,), ``risks`` (n_weightings, 1 + n_groups) as :func:`mean_losses` gives them.
    """

    measures: Mapping[str, NDArray[np.float64]]
    scores: Mapping[str, NDArray[np.float64]]
    risks: Mapping[str, NDArray[np.float64]]
    constant: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of the test rows by one column: their names, and the group of every row."""

    labels: tuple[str, ...]
    of_row: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """The test rows, ready for every training."""

    problem: Problem
    options: DownstreamOptions
    features: Features
    target: Target
    matrix: NDArray[np.float32]
    truth: NDArray[np.float64]
    groups: Mapping[str, Groups]
    asked: NDArray[np.int64]
    weights: Weights = field(repr=False)
    rows: NDArray[np.int64]
    """Which rows of the problem's test rows these are."""

    @property
    def maximum_rows(self) -> int:
        """Rows trained on at most."""
        return self.options.rows_for(self.features.width, self.target.n_declared)


def bench_of(problem: Problem, options: DownstreamOptions) -> Bench | Untestable:
    """Draw and encode the test rows, or say why there is nothing to test."""
    features, target = Features.of(problem.schema, problem.label), Target.of(problem.schema, problem.label)
    if not features.width:
        return Untestable(f"There is no column besides the label '{problem.label}' to predict it from.")
    if target.kind == "classes" and target.n_classes > _MOST_CLASSES:
        return Untestable(
            f"The label '{problem.label}' has {target.n_classes:,} declared values; classifiers are trained for at "
            f"most {_MOST_CLASSES}. Declare groups of values as the label."
        )
    usable = target.usable(problem.test)
    if len(usable) < _FEWEST_TEST_ROWS:
        return Untestable(
            f"Fewer than {_FEWEST_TEST_ROWS} rows with a known label are left to test on. Declare a hold-out, or give "
            "a test table."
        )
    if len(usable) > options.maximum_test_rows:
        random = np.random.default_rng([problem.seed, 11])
        usable = np.sort(random.choice(usable, size=options.maximum_test_rows, replace=False))
    truth = target.values(problem.test, usable)
    asked = np.zeros(0, dtype=np.int64)
    if target.kind == "classes":
        classes, counts = np.unique(truth.astype(np.int64), return_counts=True)
        asked = classes if len(classes) > 2 else classes[[counts.argmin()]]
    resamples = max(10, options.resamples * _RESAMPLED_CLASSES // max(len(asked), _RESAMPLED_CLASSES))
    units = usable if problem.test_units is None else problem.test_units[usable]
    return Bench(
        problem=problem,
        options=options,
        features=features,
        target=target,
        matrix=features.matrix(problem.test, usable),
        truth=truth,
        groups={name: _groups_of(problem, name, usable) for name in problem.groups if name != problem.label},
        asked=asked,
        weights=resampled(units, resamples, problem.seed),
        rows=usable,
    )


def _groups_of(problem: Problem, name: str, usable: NDArray[np.int64]) -> Groups:
    """Return the groups by a column: its values, or at most 32 public parts of a declared range."""
    column = problem.schema.modelled_column(name)
    bins = coarse_bins(column)
    codes = problem.test[problem.schema.names.index(name)][usable]
    return Groups(bin_labels(column, bins), bins[codes].astype(np.int64))


def trained(bench: Bench, predictor: Predictor, codes: CodeTable, usable: NDArray[np.int64], repeat: int) -> Outcome:
    """Train once on a seeded sample of a table and measure on the test rows."""
    options, target = bench.options, bench.target
    if len(usable) > bench.maximum_rows:
        random = np.random.default_rng([bench.problem.seed, repeat, 13])
        usable = np.sort(random.choice(usable, size=bench.maximum_rows, replace=False))
    rows, labels = bench.features.matrix(codes, usable), target.values(codes, usable)
    seed = (bench.problem.seed + repeat) % 2**31
    if target.kind == "number":
        numbers = regress(predictor, rows, labels, bench.matrix, target.bounds, seed=seed)
        return _measured_numbers(bench, numbers.values, numbers.constant)
    found = classify(predictor, rows, labels.astype(np.int64), bench.matrix, bench.asked, seed=seed)
    scores = found.scores
    if options.hard_labels:
        scores = (found.classes[:, None] == bench.asked).astype(np.float64)
    return _measured_classes(bench, found.classes, scores, found.constant)


def _measured_classes(
    bench: Bench, guesses: NDArray[np.int64], scores: NDArray[np.float64], constant: str | None
) -> Outcome:
    truth = bench.truth.astype(np.int64)
    measures = class_measures(truth, guesses, scores, bench.asked, bench.weights)
    right = (guesses == truth).astype(np.float64)
    return Outcome(measures, *_by_group(bench, scores=right, losses=1 - right), constant)


def _measured_numbers(bench: Bench, guesses: NDArray[np.float64], constant: str | None) -> Outcome:
    measures = number_measures(bench.truth, guesses, bench.weights)
    low, high = bench.target.bounds
    errors = np.abs(guesses - bench.truth)
    return Outcome(measures, *_by_group(bench, scores=errors, losses=(errors / (high - low)) ** 2), constant)


def _by_group(
    bench: Bench, *, scores: NDArray[np.float64], losses: NDArray[np.float64]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    means, risks = {}, {}
    for name, groups in bench.groups.items():
        size = len(groups.labels)
        means[name] = mean_losses(scores, groups.of_row, size, bench.weights[:1])[0, 1:]
        risks[name] = mean_losses(losses, groups.of_row, size, bench.weights)
    return means, risks


def majority(bench: Bench, usable: Mapping[TrainedOn, NDArray[np.int64]]) -> Outcome | None:
    """Predict the most frequent class (of numbers: the mean) of the real rows everywhere."""
    if "real" not in usable or not len(usable["real"]):
        return None
    labels = bench.target.values(bench.problem.tables["real"], usable["real"])
    if bench.target.kind == "number":
        return _measured_numbers(bench, np.full(len(bench.truth), labels.mean()), None)
    classes, counts = np.unique(labels.astype(np.int64), return_counts=True)
    guesses = np.full(len(bench.truth), classes[counts.argmax()])
    return _measured_classes(bench, guesses, np.zeros((len(guesses), len(bench.asked))), None)


_RANGE = 1.959964

_CLASSIFIERS: Mapping[Choice, tuple[str, ...]] = {
    "quick": ("logistic_regression", "random_forest", "hist_gradient_boosting"),
    "all": tuple(CLASSIFIERS),
}
_MANY_CLASSES = 10
_QUICK_FOR_MANY_CLASSES = ("logistic_regression", "random_forest", "lda")
"""With more than ten declared classes, boosting is no longer quick: it grows trees for every class."""

_REGRESSORS: Mapping[Choice, tuple[str, ...]] = {
    "quick": ("ridge", "random_forest", "hist_gradient_boosting"),
    "all": tuple(REGRESSORS),
}


def predictors_of(target: Target, choice: Choice) -> tuple[dict[str, Predictor], tuple[str, ...]]:
    """Return the predictors of a choice that this machine has, and the titles of those it lacks."""
    known = CLASSIFIERS if target.kind == "classes" else REGRESSORS
    names = (_CLASSIFIERS if target.kind == "classes" else _REGRESSORS)[choice]
    if target.kind == "classes" and choice == "quick" and target.n_classes > _MANY_CLASSES:
        names = _QUICK_FOR_MANY_CLASSES
    there = {name: known[name] for name in names if known[name].is_there}
    return there, tuple(known[name].title for name in names if name not in there)


def seconds_of(problem: Problem, options: DownstreamOptions) -> float:
    """Estimate how long :func:`compare_predictions` will take, by training on small parts of the synthetic rows.

    Neither private rows nor their number are used, so the time may be shown during a run.
    """
    features, target = Features.of(problem.schema, problem.label), Target.of(problem.schema, problem.label)
    synthetic = problem.tables["synthetic"]
    usable = target.usable(synthetic)
    if not len(usable) or not features.width:
        return 0.0
    rows = min(options.rows_for(features.width, target.n_declared), len(usable))
    matrix = features.matrix(synthetic, usable[:rows])
    labels = target.values(synthetic, usable[:rows])
    predictors, _ = predictors_of(target, options.predictors)

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
    predictors, missing = predictors_of(bench.target, options.predictors)
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
        notes.append(
            f"Columns with many values were cut into {bench.features.blocks} blocks of neighbouring values: {names}."
        )
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
