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
    """What is asked: gradients of the loss along a descent, or once the second moments of the features (ridge)."""

    features: Literal["auto", "linear", "fourier"] = "auto"
    """Linear features have coefficients that can be read; Fourier features bend. auto: linear where epsilon times rows
    is below 4,000 or there are more than 40 columns, and for ridge."""

    loss: Literal["squared", "huber"] = "squared"
    """What a descent makes small; huber is less moved by labels far off."""

    steps: Annotated[int, Between(0, MOST_STEPS)] = 0
    """Gradients that are asked for; 0: a hundred where epsilon times rows is at least 4,000, else ten below epsilon 0.3
    and thirty from there on."""

    intervals: Literal["bound", "measured"] = "bound"
    """Of a descent on linear features. bound: they hold at least 95 %, cost nothing and are often several times too
    wide. measured: a tenth of the budget measures the second moments of the features, with which they hold about 95 %.
    Those of ridge hold about 95 % either way."""


@dataclass(frozen=True, slots=True)
class ClassifierOptions(Options):
    """Options of private classification."""

    features: Literal["auto", "linear", "fourier"] = "auto"
    """Linear features have coefficients that can be read; Fourier features bend. auto: linear where epsilon times rows
    is below 4,000 or there are more than 40 columns."""

    steps: Annotated[int, Between(0, MOST_STEPS)] = 0
    """Gradients that are asked for; 0: a hundred where epsilon times rows is at least 4,000, else ten below epsilon 0.3
    and thirty from there on."""


GRADIENTS = {
    f"gradient {step}": "the gradient of the loss at the step before, each person's clipped"
    for step in range(1, MOST_STEPS + 1)
}

CARDS = (
    Card(
        name="private-regression",
        title="Private regression (a number)",
        summary=(
            "Predicts a number or a date from the other columns: a descent along noisy clipped gradients, or ridge "
            "regression from noisy second moments, with the coefficients and what the noise did to them."
        ),
        best_for="One number to predict, and a formula that can be printed; far cheaper than a table for that one end.",
        loses_where="Fewer than about 200 / epsilon rows: hardly anything is better than the mean there.",
        reference="Liao, Needell and Xue 2024, with another calibration of noise, as theirs keeps no promise.",
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
        title="Private classification",
        summary="Predicts the chances of a column's values: logistic regression by a descent along noisy gradients.",
        best_for="One column of two to fifty values to predict, and a formula that can be printed.",
        loses_where="Many values with few rows each, and fewer than about 200 / epsilon rows.",
        reference="Liao, Needell and Xue 2024, with another calibration of noise, as theirs keeps no promise.",
        made_by="synth.estimators.random_features.model:PrivateClassifier",
        options=ClassifierOptions,
        needs=Needs(label=True, columns=2),
        questions=GRADIENTS,
        kind="model",
        predicts=True,
        paid="classes",
    ),
)
