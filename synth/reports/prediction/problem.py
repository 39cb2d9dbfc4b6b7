"""What a downstream report is asked, and its results: plain values that are passed between modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from synth.reports.code_tables import CodeTable
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Meaning
from synth.reports.prediction.disparity import GroupRisks
from synth.schema import Schema

__all__ = [
    "MEANINGS",
    "SOURCES",
    "TITLES",
    "Choice",
    "DownstreamOptions",
    "Measure",
    "Predictions",
    "Problem",
    "TrainedOn",
    "Untestable",
    "nobody_pays",
    "nothing_predicted",
]

TrainedOn = Literal["synthetic", "real", "control", "majority"]
"""What a predictor was trained on; the most frequent class of the real rows is no predictor but an anchor."""

SOURCES: Mapping[TrainedOn, str] = {
    "synthetic": "synthetic rows",
    "real": "real rows",
    "control": "independent control",
    "majority": "majority class",
}
"""What a predictor was trained on, in words."""

MEANINGS: Mapping[TrainedOn, Meaning] = {
    "synthetic": "synthetic",
    "real": "real",
    "control": "control",
    "majority": "floor",
}
"""How it is drawn."""

TITLES = {
    "roc_auc": "ROC AUC",
    "pr_auc": "PR AUC",
    "macro_f1": "Macro F1",
    "weighted_f1": "Weighted F1",
    "accuracy": "Accuracy",
    "r2": "R2",
    "mae": "Mean absolute error",
    "mse": "Mean squared error",
}
"""Every measure, as it is called in a title."""

_NARROW = 150
"""Up to so many coordinates the quick predictors may train on all the rows that are allowed."""

_FEWEST_ROWS = 2_000

Choice = Literal["quick", "all"]
"""A quick selection that every run can afford, or all predictors."""


@dataclass(frozen=True, slots=True)
class DownstreamOptions:
    """How much is trained, and how it is scored.

    Attributes
    ----------
    predictors : {"quick", "all"}
    repeats : int
        Trainings of each predictor, 1 to 20.
    maximum_rows, maximum_test_rows : int
        From larger tables seeded samples of this many rows are trained on and tested on; the quick predictors train on
        fewer where rows are wide or classes many.
    hard_labels : bool
        Areas under curves from predicted classes instead of scores: the convention of the printed tables
        (Vinaroz 2022, Table 2). It undervalues every classifier and is here for comparison with them.
    resamples : int
        Bootstrap samples of the test rows.
    threads : int
        Trainings at once; results do not depend on it.
    """

    predictors: Choice = "quick"
    repeats: int = 2
    maximum_rows: int = 10_000
    maximum_test_rows: int = 20_000
    hard_labels: bool = False
    resamples: int = 40
    threads: int = 1

    def rows_for(self, width: int, n_classes: int) -> int:
        """Return how many rows are trained on; a public number, the same on every machine.

        Parameters
        ----------
        width : int
            Coordinates of a row.
        n_classes : int
            Declared classes; 0 for numbers.
        """
        if self.predictors == "all":
            return self.maximum_rows
        # Measured: trees take time in proportion to width, boosting also to classes.
        slower = max(1.0, width / _NARROW) * (1.0 + max(0, n_classes - 2) / 4)
        return min(self.maximum_rows, max(_FEWEST_ROWS, round(self.maximum_rows / slower)))

    @classmethod
    def chosen(cls, choice: Choice, *, hard_labels: bool = False, threads: int = 1) -> DownstreamOptions:
        """Return how much is trained: quick predictors in every run, or every predictor three times on more rows."""
        if choice == "all":
            return cls(predictors="all", repeats=3, maximum_rows=20_000, hard_labels=hard_labels, threads=threads)
        return cls(hard_labels=hard_labels, threads=threads)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What is predicted from what, and on which rows it is tested.

    Attributes
    ----------
    schema : Schema
    label : str
    tables : mapping
        Rows to train on, codes in ``schema.names`` order; "real" also gives the most frequent class.
    test : CodeTable
        Rows to test on.
    test_units : array of shape (n_test_rows,), optional
        Whose each test row is; every row its own if absent.
    groups : sequence of str
        Columns for whose values accuracies are given separately.
    seed : int
        Public.
    """

    schema: Schema
    label: str
    tables: Mapping[TrainedOn, CodeTable]
    test: CodeTable
    test_units: NDArray[np.int64] | None = None
    groups: Sequence[str] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Measure:
    """One number with half the width of its 95 % range; None where it is not defined."""

    value: float | None
    error: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """The results.

    Attributes
    ----------
    kind : {"classes", "number"}
    unit : str
        Unit of the mean absolute error.
    means : mapping of mappings
        By what was trained on and by measure, the mean over predictors.
    by_predictor : mapping of mappings of mappings
        By title of predictor first.
    groups : mapping
        By column: the risks of its groups, which are its values, or at most 32 parts of a declared range.
    group_scores : mapping of mappings
        By column and by what was trained on: accuracy (mean absolute error for numbers) for every group, shape
        (n_groups,), NaN where no test row belongs to it.
    rows : mapping
        Rows trained on, by table.
    test_rows : int
    classes : int
        Classes among the test rows; 0 for numbers.
    notes : tuple of str
        What could not be trained, was left out, or was shortened.
    options : DownstreamOptions
    """

    kind: Literal["classes", "number"]
    unit: str
    means: Mapping[TrainedOn, Mapping[str, Measure]]
    by_predictor: Mapping[str, Mapping[TrainedOn, Mapping[str, Measure]]]
    groups: Mapping[str, GroupRisks]
    group_scores: Mapping[str, Mapping[TrainedOn, NDArray[np.float64]]]
    rows: Mapping[TrainedOn, int]
    test_rows: int
    classes: int
    notes: tuple[str, ...]
    options: DownstreamOptions


@dataclass(frozen=True, slots=True)
class Untestable:
    """Why nothing can be predicted, in one sentence."""

    reason: str


def nothing_predicted(reason: str) -> OwnerOnlyEvidence:
    """Say why a report holds no predictions."""
    return OwnerOnlyEvidence(id="downstream.none", title="Nothing predicted", value=None, sentence=reason)


def nobody_pays(reason: str) -> OwnerOnlyEvidence:
    """Say why what privacy costs the groups is not known."""
    return OwnerOnlyEvidence(id="excess.none", title="Not calculated", value=None, sentence=reason)
