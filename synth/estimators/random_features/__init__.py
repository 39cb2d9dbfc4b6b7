"""Private regression and classification on linear and Fourier features of declared columns (after Liao 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Needs

__all__ = ["CARDS", "ClassifierOptions", "RegressionOptions"]

MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class RegressionOptions(Options):
    """Options of private regression."""

    mechanism: Literal["gradient", "ridge"] = "gradient"
    """What is measured: gradients of the loss along a descent, or the second moments of the features once (ridge)."""

    features: Literal["auto", "linear", "fourier"] = "auto"
    """Linear features have coefficients that can be read; Fourier features can follow curves. auto: linear if epsilon
    times rows is below 4,000 or there are more than 40 columns, and for ridge."""

    loss: Literal["squared", "huber"] = "squared"
    """The loss of a descent; huber is less sensitive to outliers of the label."""

    steps: Annotated[int, Between(0, MOST_STEPS)] = 0
    """Number of gradients that are measured; 0: a hundred if epsilon times rows is at least 4,000, else ten below
    epsilon 0.3 and thirty otherwise."""

    intervals: Literal["bound", "measured"] = "bound"
    """Intervals of a descent on linear features. bound: coverage at least 95 %, free, and often several times too wide.
    measured: a tenth of the budget measures the second moments of the features, and coverage is about 95 %. For ridge
    coverage is about 95 % either way."""


@dataclass(frozen=True, slots=True)
class ClassifierOptions(Options):
    """Options of private classification."""

    features: Literal["auto", "linear", "fourier"] = "auto"
    """Linear features have coefficients that can be read; Fourier features can follow curves. auto: linear if epsilon
    times rows is below 4,000 or there are more than 40 columns."""

    steps: Annotated[int, Between(0, MOST_STEPS)] = 0
    """Number of gradients that are measured; 0: a hundred if epsilon times rows is at least 4,000, else ten below
    epsilon 0.3 and thirty otherwise."""


GRADIENTS = {
    f"gradient {step}": "the gradient of the loss after the previous step, clipped for each person"
    for step in range(1, MOST_STEPS + 1)
}

CARDS = (
    Card(
        name="private-regression",
        fits_at_once=True,
        title="Private regression (a number)",
        summary=(
            "Predicts a number or a date from the other columns: a descent along noisy clipped gradients, or ridge "
            "regression from noisy second moments, with coefficients and the effect of the noise on them."
        ),
        best_for="One number to predict, and a formula that can be printed; far cheaper than a table for that purpose.",
        loses_where="Fewer than about 200 / epsilon rows: then hardly any model is better than the mean.",
        reference="Liao, Needell and Xue 2024, with another calibration of noise, as theirs is not differentially "
        "private.",
        made_by="synth.estimators.random_features.model:PrivateRegression",
        options=RegressionOptions,
        needs=Needs(label=True, columns=2),
        questions={
            **GRADIENTS,
            "mean of labels": "the mean of the column to predict",
            "second moments": "products of all pairs of features, and of features and the column to predict",
        },
        kind="model",
        predicts=True,
        paid="number",
    ),
    Card(
        name="private-classifier",
        fits_at_once=True,
        title="Private classification",
        summary="Predicts the probabilities of a column's values: logistic regression by a descent along noisy "
        "gradients.",
        best_for="One column with two to fifty values to predict, and a formula that can be printed.",
        loses_where="Many values with few rows each, and fewer than about 200 / epsilon rows.",
        reference="Liao, Needell and Xue 2024, with another calibration of noise, as theirs is not differentially "
        "private.",
        made_by="synth.estimators.random_features.model:PrivateClassifier",
        options=ClassifierOptions,
        needs=Needs(label=True, columns=2),
        questions=GRADIENTS,
        kind="model",
        predicts=True,
        paid="classes",
    ),
)
