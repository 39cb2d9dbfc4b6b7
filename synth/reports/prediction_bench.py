"""The bench on which predictors are tested: one set of test rows, and one training at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from synth.reports.classifiers import Predictor, classify, regress
from synth.reports.control import coarse_bins
from synth.reports.counting import CodeTable
from synth.reports.disparity import mean_losses
from synth.reports.labels import bin_labels
from synth.reports.prediction_features import Features, Target
from synth.reports.prediction_problem import DownstreamOptions, Problem, TrainedOn, Untestable
from synth.reports.prediction_scores import Weights, class_measures, number_measures, resampled

__all__ = ["Bench", "Groups", "Outcome", "bench_of", "majority", "trained"]

_MOST_CLASSES = 200
_FEWEST_TEST_ROWS = 20
_RESAMPLED_CLASSES = 10
"""Up to so many classes the test rows are resampled as often as asked; with more, less often: each takes its time."""


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

    @property
    def maximum_rows(self) -> int:
        """Rows trained on at most."""
        return self.options.rows_for(self.features.width, self.target.n_declared)


def bench_of(problem: Problem, options: DownstreamOptions) -> Bench | Untestable:
    """Draw and encode the test rows, or say why there is nothing to test."""
    features, target = Features.of(problem.schema, problem.label), Target.of(problem.schema, problem.label)
    if not features.width:
        return Untestable(f"There is no column beside the label '{problem.label}' to predict it from.")
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
