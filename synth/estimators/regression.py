r"""Private regression and classification on linear or Fourier features (after Liao 2024).

A row is encoded by public bounds, independently of other rows. There are two mechanisms, whose questions a session
answers with noise and a receipt: a descent along noisy clipped gradients, and ridge regression from noisy second
moments. Features, steps and clip norm follow from the declared numbers alone.

Notes
-----
Differs from the paper: its calibration of noise to a bound that holds with high probability over the data gives no
differential privacy on real tables, and is not offered here.
"""

from __future__ import annotations

import json
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from synth.errors import BudgetExceededError, InputError, PrivacyError
from synth.estimators.random_features.fitting import (
    FREQUENCIES,
    MOST_CLASSES,
    POSITIONS,
    TOO_FEW,
    Features,
    Fit,
    Intervals,
    Mechanism,
    RowFeatures,
    by_descent,
    by_ridge,
    chosen_features,
    expected_noise,
    mean_of_target,
    probabilities,
    steps_of,
    target_of_classes,
)
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.more.fourier import Fourier, Positions, angle_steps
from synth.privacy.more.gradients import Loss as AnyLoss
from synth.privacy.more.lookups import Lookup
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import Neighbours, RowCountRule, Schema, parse_column

__all__ = ["PrivacyAccount", "PrivateRandomFeatureClassifier", "PrivateRandomFeatureRegressor"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

Loss = Literal["squared", "huber"]

LEVELS = 1024
"""Levels of a feature or a label, evenly spaced from its lower to its upper bound."""

TARGET = "y"
"""The column of labels; columns of features are named after their position."""

COUNT_SHARE = 0.05
"""Share of mu^2 for a private number of rows."""


class PrivacyAccount:
    """The total that several fits to the same rows may spend.

    Parameters
    ----------
    epsilon, delta : float
        Delta above 0: fits ask for more than counts.
    row_count : {"public", "private"}
        As in :class:`PrivateRandomFeatureRegressor`; the same for all fits.

    Notes
    -----
    Copies are the account itself, so that clones of an estimator share one budget.
    """

    def __init__(self, epsilon: float, delta: float, *, row_count: RowCountRule = "public") -> None:
        _require_delta(delta)
        self.budget = PrivacyBudget(epsilon, delta, _relation(row_count))
        self.receipts: list[Receipt] = []
        self._spent = Fraction(0)

    @property
    def epsilon(self) -> float:
        """The amount charged, as an epsilon at the account's delta; a failed fit is charged in full."""
        return self.budget.epsilon_of_share(float(self._spent)) if self._spent else 0.0

    def opened(self, table: PrivateTable, budget: PrivacyBudget, **of_session: Any) -> PrivateSession:
        """Charge one fit and return the session that answers it.

        Raises
        ------
        BudgetExceededError
            If not enough is left. Then nothing is spent.
        PrivacyError
            If the fit has another neighbouring relation or delta.
        """
        if (budget.neighbours, budget.delta) != (self.budget.neighbours, self.budget.delta):
            raise PrivacyError("An account and its fits need the same delta and the same row_count.")
        share = Fraction(budget.units, self.budget.units)
        if self._spent + share > 1:
            raise BudgetExceededError(
                f"The fit asks for {float(share):.4g} of the account; {float(1 - self._spent):.4g} is left."
            )
        self._spent += share
        session = PrivateSession(table, self.budget, **of_session)
        return session if share == 1 else session.sub_session(float(share) * (1 - 2.0**-50))

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyAccount:
        return self

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("An account cannot be copied to another process: spending there would not be recorded here.")


class _PrivateRandomFeatures(BaseEstimator):
    """The common part of private models on linear and Fourier features: bounds, spending, and saving."""

    _may_fit = True
    _of_session: Mapping[str, Any] = MappingProxyType({})
    """Arguments of the session in tests: known noise."""

    kind: ClassVar[str]
    """Its name in saved models and receipts."""

    epsilon: float
    delta: float
    lower: float | ArrayLike
    upper: float | ArrayLike
    row_count: RowCountRule
    features: Features
    mechanism: Mechanism = "gradient"
    intervals: Intervals = "bound"
    n_rows: int | None
    account: PrivacyAccount | None
    random_state: int
    features_: str
    coef_: Matrix
    coef_interval_: Matrix
    n_features_in_: int

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Spend (epsilon, delta) on the rows and fit.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n,)

        Raises
        ------
        PrivacyError
            If it has no account, and it or the estimator that it is a clone of was already fitted.
        BudgetExceededError
            If the account does not have enough left.
        """
        self._require_settings()
        if self.account is None and not self._may_fit:
            raise PrivacyError(
                "Another fit to the same rows would spend again: pass an account with the budget of all fits together."
            )
        rows = self._numbers(X)
        labels, levels = self._labels(y)
        check_consistent_length(rows, labels)
        codes = self._codes(rows) | {TARGET: labels}
        sizes = dict.fromkeys(codes, LEVELS) | {TARGET: levels}
        declared = (
            parse_column(name, {"type": "number", "low": 0, "high": size - 1, "step": 1})
            for name, size in sizes.items()
        )
        schema = Schema(tuple(declared), row_count=self.row_count)
        self._may_fit = False
        budget = PrivacyBudget(self.epsilon, self.delta, schema.neighbours)
        account = self.account or PrivacyAccount(self.epsilon, self.delta, row_count=self.row_count)
        session = account.opened(PrivateTable.from_codes(schema, codes), budget, **self._of_session)
        try:
            if not schema.rows_are_public:
                session.count_rows(share=COUNT_SHARE, source=self.kind)
            n_rows = max(session.rows.value, 1.0)
            self.features_ = self._rule(n_rows)
            fit = self._fit_to(session, n_rows)
        finally:
            account.receipts += session.receipts
        # With a single class the coefficients are a vector.
        self.coef_ = fit.coefficients[0] if len(fit.coefficients) == 1 else fit.coefficients
        self.coef_interval_ = np.stack(fit.interval, axis=-1).reshape(*self.coef_.shape, 2)
        self.n_rows_ = {"rows": n_rows, "known": "public" if schema.rows_are_public else "released"}
        self.receipts_ = session.receipts
        spent = epsilon_of_receipts(session.receipts, self.delta)
        self.spent_ = {"epsilon": spent, "delta": self.delta, "hides": schema.neighbours.value}
        return self

    def to_json(self) -> str:
        """Return the fitted model as JSON for ``from_json``; it contains nothing that the fit did not pay for."""
        settings = {name: value for name, value in self._settings().items() if name != "account"}
        settings |= {name: np.asarray(settings[name]).tolist() for name in ("lower", "upper")}
        return json.dumps(
            {
                "kind": self.kind,
                "settings": settings,
                "columns": self.n_features_in_,
                "features": self.features_,
                "fitted": {name: np.asarray(getattr(self, name)).tolist() for name in self._fitted},
                "rows": self.n_rows_,
                "spent": self.spent_,
                "receipts": [receipt.to_dict() for receipt in self.receipts_],
            },
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Restore a fitted model from the text of ``to_json``; it needs an account to be fitted again."""
        saved = json.loads(text)
        if saved.get("kind") != cls.kind or "rows" not in saved:
            raise InputError(f"The text contains no {cls.kind}, or one that another version of the program wrote.")
        made = cls(**saved["settings"])
        vars(made).update(_may_fit=False)
        for name, value in saved["fitted"].items():
            setattr(made, name, np.array(value, dtype=np.float64) if isinstance(value, list) else value)
        made.features_, made.n_features_in_, made.spent_ = saved["features"], int(saved["columns"]), saved["spent"]
        made.n_rows_ = saved["rows"]
        made.receipts_ = tuple(map(Receipt.from_dict, saved["receipts"]))
        return made

    def expected_noise(self, *, n_rows: float, n_features: int) -> float:
        """Predict the noise of a prediction before any row is read: its root mean square.

        Parameters
        ----------
        n_rows : float
            A declared number of rows.
        n_features : int

        Returns
        -------
        float
            In units of the label for a regressor, and of a class's score for a classifier. For rows that fill their
            declared bounds evenly, and without the noise of the mean of labels.
        """
        self._require_settings()
        budget = PrivacyBudget(self.epsilon, self.delta, _relation(self.row_count))
        kind = self._chosen(n_rows, n_features)
        return self._width * expected_noise(
            self._row_features(n_features, kind),
            budget,
            mechanism=self.mechanism,
            loss=self._loss,
            steps=self._steps(n_rows),
            n_rows=n_rows,
            intervals=self.intervals,
        )

    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "coef_interval_")

    @abstractmethod
    def _labels(self, y: ArrayLike) -> tuple[NDArray[np.int64], int]:
        """Return the codes of labels, and how many codes are possible; the latter does not depend on the labels."""

    @abstractmethod
    def _fit_to(self, session: PrivateSession, n_rows: float) -> Fit:
        """Spend the remaining budget on questions, and fit."""

    @property
    @abstractmethod
    def _loss(self) -> AnyLoss:
        """The loss of a descent."""

    @property
    def _width(self) -> float:
        """What a score of 1 means."""
        return 1.0

    def _scores(self, x: ArrayLike) -> Matrix:
        if not hasattr(self, "coef_"):
            raise NotFittedError("The model has not been fitted yet.")
        rows = self._numbers(x, reset=False)
        seen = self._row_features(self.n_features_in_, self.features_).map.evaluate(self._codes(rows))
        return np.asarray(seen @ self.coef_.T)

    def _row_features(self, columns: int, kind: str) -> RowFeatures:
        names = tuple(f"x{place}" for place in range(columns))
        if kind == "linear":
            steps = np.linspace(-1, 1, LEVELS)[:, None]
            return RowFeatures(tuple(Lookup(name, steps) for name in names))
        radians = np.random.default_rng(self.random_state).normal(size=(FREQUENCIES, columns))
        places = Positions.of_codes(np.arange(LEVELS, dtype=np.int32) * POSITIONS // LEVELS)
        return RowFeatures((), Fourier(names, (places,) * columns, angle_steps(radians / (POSITIONS - 1))))

    def _rule(self, n_rows: float) -> str:
        """Return the features that are used, by declared and noisy numbers alone; warn if there are too few rows."""
        rows = self._rows_for_rules(n_rows)
        if self.epsilon * rows < TOO_FEW:
            warnings.warn(
                f"With epsilon {self.epsilon:g} and about {rows:,.0f} rows hardly any model beats the mean.",
                stacklevel=4,
            )
        return self._chosen(rows, self.n_features_in_)

    def _steps(self, n_rows: float) -> int:
        return steps_of(self.epsilon, self._rows_for_rules(n_rows))

    def _rows_for_rules(self, n_rows: float) -> float:
        return float(self.n_rows or n_rows)

    def _chosen(self, n_rows: float, columns: int) -> str:
        return chosen_features(
            self.features, mechanism=self.mechanism, epsilon=self.epsilon, n_rows=n_rows, columns=columns
        )

    def _numbers(self, x: ArrayLike, *, reset: bool = True) -> Matrix:
        return _quoting_nothing(lambda: validate_data(self, x, dtype=np.float64, ensure_all_finite=False, reset=reset))

    def _codes(self, rows: Matrix) -> dict[str, NDArray[np.int64]]:
        coded = _coded(rows, self.lower, self.upper)
        return {f"x{place}": coded[:, place] for place in range(rows.shape[1])}

    def _settings(self) -> dict[str, Any]:
        return dict(self.get_params(deep=False))  # type: ignore[no-untyped-call]

    def __sklearn_clone__(self) -> Self:
        made = type(self)(**self._settings())
        vars(made).update(_may_fit=self.account is not None, _of_session=self._of_session)
        return made

    def _require_settings(self) -> None:
        if self.features not in get_args(Features):
            raise InputError("features must be auto, linear or fourier.")
        _require_delta(self.delta)
        _require_widths(np.asarray(self.upper, dtype=np.float64) - np.asarray(self.lower, dtype=np.float64))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRandomFeatureRegressor(RegressorMixin, _PrivateRandomFeatures):
    """Differentially private regression on linear or random Fourier features.

    Parameters
    ----------
    epsilon, delta : float
        Budget of one ``fit``.
    lower, upper : float or array of shape (n_features,)
        Public bounds of the features; numbers outside count as the bound, anything else as the middle.
    target_lower, target_upper : float
        Public bounds of the labels; predictions are clipped to them.
    row_count : {"public", "private"}
        The change that is hidden. "public": one row is replaced by another; all neighbouring tables have the same
        number of rows, so it is public, and the length of X is used and reported. "private": one row is added or
        removed; the number of rows is measured with noise, which the fit pays for, and only that number is used.
    mechanism : {"gradient", "ridge"}
    loss : {"squared", "huber"}
        Loss of a descent; ridge regression has squared loss.
    features : {"auto", "linear", "fourier"}
        "auto" decides by a public rule of rows, columns and epsilon; ridge regression has linear features.
    intervals : {"bound", "measured"}
        For a descent on linear features. "measured" spends a tenth of the remaining budget on second moments of the
        features, so that ``coef_interval_`` is an estimate and not a bound.
    n_rows : int, optional
        A declared number of rows for the rules that choose features and steps.
    account : PrivacyAccount, optional
        The account that is charged. Without one an estimator can be fitted once, and its clones not at all, so that no
        search over settings spends silently.
    random_state : int
        Seed of the frequencies of Fourier features. Noise does not depend on it.

    Attributes
    ----------
    coef_ : array of shape (n_coefficients,)
    coef_interval_ : array of shape (n_coefficients, 2)
        Intervals for the coefficients that the same fit would find from the same rows and the same noisy mean without
        noise. They come from the known noise alone and do not cover sampling error, the penalty of ridge regression, or
        the steps and clips of a descent. Coverage is about 95 % for ridge regression, and for a descent with measured
        second moments; for other descents it is at least 95 %, as the width is an upper bound, unless nearly all rows
        are in one corner of the declared bounds.
    mean_ : float
        Noisy mean of the labels, in [-1/2, 1/2] of their range.
    n_rows_ : dict
        The number of rows that was used, and whether it is public or was released with noise.
    spent_ : dict
        Epsilon, delta and relation of this fit.
    receipts_ : tuple of Receipt
    n_features_in_ : int
    """

    kind: ClassVar[str] = "private regression"
    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "coef_interval_", "mean_")

    epsilon: float = 1.0
    delta: float = 1e-5
    lower: float | ArrayLike = 0.0
    upper: float | ArrayLike = 1.0
    target_lower: float = 0.0
    target_upper: float = 1.0
    row_count: RowCountRule = "public"
    mechanism: Mechanism = "gradient"
    loss: Loss = "squared"
    features: Features = "auto"
    intervals: Intervals = "bound"
    n_rows: int | None = None
    account: PrivacyAccount | None = None
    random_state: int = 0

    def predict(self, X: ArrayLike) -> Vector:  # noqa: N803
        """Return predictions, within the bounds of the labels; shape (n,)."""
        found = np.clip(self._scores(X) + self.mean_, -0.5, 0.5) + 0.5
        return np.asarray(self.target_lower + (self.target_upper - self.target_lower) * found)

    def _labels(self, y: ArrayLike) -> tuple[NDArray[np.int64], int]:
        labels = _quoting_nothing(lambda: column_or_1d(y, dtype=np.float64, warn=True))
        return _coded(labels, self.target_lower, self.target_upper), LEVELS

    def _fit_to(self, session: PrivateSession, n_rows: float) -> Fit:
        places = np.linspace(-0.5, 0.5, LEVELS)
        self.mean_ = mean_of_target(session, Lookup(TARGET, places[:, None]), n_rows=n_rows, source=self.kind)
        # The residual of a label, which is fitted; clipped, so that an error of the mean moves no bound.
        rest = Lookup(TARGET, np.clip(places - self.mean_, -0.5, 0.5)[:, None])
        features = self._row_features(self.n_features_in_, self.features_)
        if self.mechanism == "ridge":
            return by_ridge(session, features, rest, source=self.kind)
        steps, asked = self._steps(n_rows), self.intervals
        return by_descent(
            session, features, rest, loss=self.loss, steps=steps, n_rows=n_rows, source=self.kind, intervals=asked
        )

    @property
    def _loss(self) -> AnyLoss:
        return self.loss

    @property
    def _width(self) -> float:
        return float(self.target_upper - self.target_lower)

    def _require_settings(self) -> None:
        super()._require_settings()
        if self.mechanism not in get_args(Mechanism):
            raise InputError("mechanism must be gradient or ridge.")
        if self.loss not in get_args(Loss):
            raise InputError("loss must be squared or huber.")
        if self.intervals not in get_args(Intervals):
            raise InputError("intervals must be bound or measured.")
        if self.mechanism == "ridge" and self.loss != "squared":
            raise InputError("Ridge regression has squared loss; choose the gradient mechanism for other losses.")
        _require_widths(self.target_upper - self.target_lower)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.regressor_tags.poor_score = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRandomFeatureClassifier(ClassifierMixin, _PrivateRandomFeatures):
    """Differentially private logistic regression of two or more classes, on linear or random Fourier features.

    Parameters
    ----------
    classes : tuple of labels
        The declared classes: any other label counts as the first.
    epsilon, delta, lower, upper, row_count, features, n_rows, account, random_state
        As in :class:`PrivateRandomFeatureRegressor`.

    Attributes
    ----------
    coef_ : array of shape (n_coefficients,), or (n_classes, n_coefficients) with more than two classes
    coef_interval_ : array of the shape of coef_ and a last axis of 2
    classes_ : array of the labels
    spent_, receipts_, n_rows_, n_features_in_
        As in :class:`PrivateRandomFeatureRegressor`.
    """

    kind: ClassVar[str] = "private classifier"

    classes: tuple[Any, ...] = (0, 1)
    epsilon: float = 1.0
    delta: float = 1e-5
    lower: float | ArrayLike = 0.0
    upper: float | ArrayLike = 1.0
    row_count: RowCountRule = "public"
    features: Features = "auto"
    n_rows: int | None = None
    account: PrivacyAccount | None = None
    random_state: int = 0

    @property
    def classes_(self) -> NDArray[Any]:
        """The declared classes, in order."""
        return np.asarray(self.classes)

    def decision_function(self, X: ArrayLike) -> Matrix:  # noqa: N803
        """Return the log odds of the second of two classes, shape (n,), or a score of each class; shape (n, classes).

        Scores are log probabilities up to a constant that is the same for all classes.
        """
        return self._scores(X)

    def predict_proba(self, X: ArrayLike) -> Matrix:  # noqa: N803
        """Return the probabilities of the classes; shape (n, n_classes)."""
        return probabilities(self._scores(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class of every row, the first in a tie; shape (n,)."""
        scores = self._scores(X)
        best = (scores > 0).astype(np.int64) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[best])

    def _labels(self, y: ArrayLike) -> tuple[NDArray[np.int64], int]:
        given = column_or_1d(y, warn=True)
        codes = np.zeros(len(given), dtype=np.int64)
        for place, label in enumerate(self.classes_):
            codes[np.asarray(given == label)] = place
        return codes, len(self.classes)

    def _fit_to(self, session: PrivateSession, n_rows: float) -> Fit:
        features, steps = self._row_features(self.n_features_in_, self.features_), self._steps(n_rows)
        loss, target = target_of_classes(TARGET, len(self.classes))
        return by_descent(session, features, target, loss=loss, steps=steps, n_rows=n_rows, source=self.kind)

    @property
    def _loss(self) -> AnyLoss:
        return target_of_classes(TARGET, len(self.classes))[0]

    def _require_settings(self) -> None:
        super()._require_settings()
        if not 2 <= len(set(self.classes)) == len(self.classes) <= MOST_CLASSES:
            raise InputError(f"Declare two to {MOST_CLASSES} different classes.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.classifier_tags.multi_class = len(self.classes) > 2
        tags.classifier_tags.poor_score = True
        return tags


def _require_widths(widths: ArrayLike) -> None:
    if not all(math.isfinite(width) and width > 0 for width in np.ravel(widths)):
        raise InputError("Every upper bound must be finite and above its lower bound.")


def _require_delta(delta: float) -> None:
    if delta == 0:
        raise PrivacyError("A fit asks for more than counts, which needs a delta above 0, for example 1e-6.")


def _relation(row_count: RowCountRule) -> Neighbours:
    return Neighbours.REPLACE if row_count == "public" else Neighbours.ADD_REMOVE


def _quoting_nothing(read: Callable[[], Any]) -> Matrix:
    """Read numbers; numpy quotes an invalid value in its message, so that message is replaced."""
    try:
        return np.asarray(read())
    except ValueError as refusal:
        if "convert" not in str(refusal):
            raise
    raise InputError("Features and labels must be numbers.")


def _coded(values: Matrix, lower: float | ArrayLike, upper: float | ArrayLike) -> NDArray[np.int64]:
    """Return the level of each number between its bounds, number by number; of anything else the middle."""
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    middle = np.where(np.isnan(values), (low + high) / 2, values)
    part = (np.clip(middle, low, high) - low) / (high - low)
    return np.asarray(np.rint(part * (LEVELS - 1)).astype(np.int64))
