"""The predictors of the downstream report: twelve classifiers (Vinaroz 2022, Table 2), a thirteenth, five regressors.

Each has one fixed setting.

Notes
-----
Differs from the paper: there every classifier is tried with several settings and the best result on the test rows is
reported. Here nothing is chosen by test rows. The setting is the paper's where that is one number (50 trees on a tenth
of the rows for gradient boosting, a learning rate of 0.5 for XGBoost), one of its tried ones where scikit-learn's
default suits rows in [0, 1] badly, and the default otherwise. Neural networks stop after 30 passes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLASSIFIERS", "REGRESSORS", "ClassPrediction", "NumberPrediction", "Predictor", "classify", "regress"]

_FAILURES = (ValueError, ArithmeticError, MemoryError, IndexError)
"""What libraries raise on rows they cannot learn from; anything else is our own bug and is not hidden.

Linear discriminants of scikit-learn raise IndexError where the rows of each class are alike, as nothing varies within
classes.
"""


@dataclass(frozen=True, slots=True)
class Predictor:
    """A predictor with its one setting.

    Attributes
    ----------
    title : str
        Its name in a report.
    make : callable
        Takes a seed and returns an untrained model with ``fit`` and ``predict``.
    needs : str, optional
        A package without which it is left out, and named as left out.
    """

    title: str
    make: Callable[[int], Any]
    needs: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether the package it needs is installed."""
        return self.needs is None or find_spec(self.needs) is not None


def _sklearn(name: str, *, draws: bool = True, **settings: Any) -> Callable[[int], Any]:
    """Return what makes a predictor of scikit-learn, which takes over a second to start: it waits until one is made."""

    def make(seed: int) -> Any:
        module, _, kind = name.partition(".")
        made = getattr(importlib.import_module(f"sklearn.{module}"), kind)
        return made(**settings, random_state=seed) if draws else made(**settings)

    return make


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier  # a large library that not every machine has

    return XGBClassifier(n_estimators=100, learning_rate=0.5, tree_method="hist", n_jobs=1, random_state=seed)


CLASSIFIERS: Mapping[str, Predictor] = {
    "logistic_regression": Predictor(
        "logistic regression", _sklearn("linear_model.LogisticRegression", draws=False, max_iter=500)
    ),
    "gaussian_nb": Predictor(
        "Gaussian naive Bayes", _sklearn("naive_bayes.GaussianNB", draws=False, var_smoothing=1e-3)
    ),
    "bernoulli_nb": Predictor("Bernoulli naive Bayes", _sklearn("naive_bayes.BernoulliNB", draws=False, binarize=0.5)),
    "linear_svc": Predictor("linear support vectors", _sklearn("svm.LinearSVC")),
    "decision_tree": Predictor("decision tree", _sklearn("tree.DecisionTreeClassifier")),
    "lda": Predictor("linear discriminants", _sklearn("discriminant_analysis.LinearDiscriminantAnalysis", draws=False)),
    "ada_boost": Predictor("AdaBoost", _sklearn("ensemble.AdaBoostClassifier")),
    "bagging": Predictor("bagging", _sklearn("ensemble.BaggingClassifier", n_estimators=20, max_samples=0.1)),
    "random_forest": Predictor(
        "random forest", _sklearn("ensemble.RandomForestClassifier", n_estimators=100, n_jobs=1)
    ),
    "gradient_boosting": Predictor(
        "gradient boosting", _sklearn("ensemble.GradientBoostingClassifier", n_estimators=50, subsample=0.1)
    ),
    "mlp": Predictor("neural network", _sklearn("neural_network.MLPClassifier", max_iter=30)),
    "xgboost": Predictor("XGBoost", _xgboost, needs="xgboost"),
    # Without early stopping, which would need two rows of every class.
    "hist_gradient_boosting": Predictor(
        "histogram gradient boosting", _sklearn("ensemble.HistGradientBoostingClassifier", early_stopping=False)
    ),
}
"""The twelve classifiers of the paper in its order, and histogram gradient boosting."""

REGRESSORS: Mapping[str, Predictor] = {
    "ridge": Predictor("ridge regression", _sklearn("linear_model.Ridge", draws=False, alpha=1.0)),
    "decision_tree": Predictor("regression tree", _sklearn("tree.DecisionTreeRegressor", min_samples_leaf=5)),
    "random_forest": Predictor(
        "random forest", _sklearn("ensemble.RandomForestRegressor", n_estimators=50, min_samples_leaf=5, n_jobs=1)
    ),
    "mlp": Predictor("neural network", _sklearn("neural_network.MLPRegressor", max_iter=30)),
    "hist_gradient_boosting": Predictor(
        "histogram gradient boosting", _sklearn("ensemble.HistGradientBoostingRegressor", early_stopping=False)
    ),
}
"""Five regressors for a label that is a number."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassPrediction:
    """Predicted classes of test rows.

    Attributes
    ----------
    classes : array of shape (n_test,), int64
        Codes of the label.
    scores : array of shape (n_test, n_asked)
        For every class asked about, a number that is larger the likelier the class; ties are allowed.
    constant : str or None
        Why every row was given the same prediction, in one sentence; None where a model was trained.
    """

    classes: NDArray[np.int64]
    scores: NDArray[np.float64]
    constant: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NumberPrediction:
    """Predicted numbers of test rows, shape (n_test,); ``constant`` as in :class:`ClassPrediction`."""

    values: NDArray[np.float64]
    constant: str | None = None


def classify(
    predictor: Predictor,
    rows: NDArray[np.float32],
    labels: NDArray[np.int64],
    test: NDArray[np.float32],
    asked: NDArray[np.int64],
    *,
    seed: int,
) -> ClassPrediction:
    """Train one classifier and predict test rows; rows that teach nothing give a constant prediction.

    Parameters
    ----------
    predictor : Predictor
    rows : array of shape (n_rows, width)
    labels : array of shape (n_rows,)
        Codes of the classes.
    test : array of shape (n_test, width)
    asked : array of shape (n_asked,)
        Classes whose scores are wanted.
    seed : int
        Public; seeds the training.
    """
    classes, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    varying = _varying(rows)
    if len(labels) == 0:
        return ClassPrediction(np.full(len(test), asked[0]), np.zeros((len(test), len(asked))), "No row to train on.")
    if len(classes) == 1:
        reason = "All training rows have the same class."
    elif not varying.any():
        reason = "All training rows are alike."
    else:
        try:
            model = predictor.make(seed).fit(rows[:, varying], places)
            scores = _scores(model, test[:, varying], len(classes))
            guesses = np.asarray(model.predict(test[:, varying]), dtype=np.int64)
        except _FAILURES as error:
            reason = f"Not trained ({type(error).__name__})."
        else:
            if np.isfinite(scores).all():
                return ClassPrediction(classes[guesses], _of_asked(scores, classes, asked))
            reason = "Its scores were not finite."
    likeliest = classes[counts.argmax()]
    return ClassPrediction(np.full(len(test), likeliest), np.zeros((len(test), len(asked))), reason)


def regress(
    predictor: Predictor,
    rows: NDArray[np.float32],
    labels: NDArray[np.float64],
    test: NDArray[np.float32],
    bounds: tuple[float, float],
    *,
    seed: int,
) -> NumberPrediction:
    """Train one regressor and predict test rows, clipped to the declared bounds; otherwise as :func:`classify`."""
    low, high = bounds
    varying = _varying(rows)
    if len(labels) == 0:
        return NumberPrediction(np.full(len(test), (low + high) / 2), "No row to train on.")
    if labels.min() == labels.max():
        reason = "All training rows have the same number."
    elif not varying.any():
        reason = "All training rows are alike."
    else:
        try:
            # Trained on [0, 1], as the features are, so that no setting depends on the unit.
            model = predictor.make(seed).fit(rows[:, varying], (labels - low) / (high - low))
            guesses = low + (high - low) * np.asarray(model.predict(test[:, varying]), dtype=np.float64)
        except _FAILURES as error:
            reason = f"Not trained ({type(error).__name__})."
        else:
            if np.isfinite(guesses).all():
                return NumberPrediction(np.clip(guesses, low, high))
            reason = "Its predictions were not finite."
    return NumberPrediction(np.full(len(test), labels.mean()), reason)


def _varying(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Say which coordinates differ between training rows; the others teach nothing and break some models."""
    if len(rows) == 0:
        return np.zeros(rows.shape[1], dtype=bool)
    return np.asarray((rows != rows[0]).any(axis=0))


def _scores(model: Any, test: NDArray[np.float32], n_classes: int) -> NDArray[np.float64]:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(test), dtype=np.float64)
    scores = np.asarray(model.decision_function(test), dtype=np.float64)
    return np.column_stack([-scores, scores]) if n_classes == 2 and scores.ndim == 1 else scores


def _of_asked(scores: NDArray[np.float64], classes: NDArray[np.int64], asked: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the scores of the classes asked about; one that no training row had has the same score everywhere."""
    found = np.zeros((len(scores), len(asked)))
    for place, one in enumerate(asked):
        (column,) = np.nonzero(classes == one)
        if len(column):
            found[:, place] = scores[:, column[0]]
    return found
