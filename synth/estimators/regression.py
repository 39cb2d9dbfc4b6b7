r"""Private regression, of numbers and of two classes, on linear or Fourier features (after Liao 2024).

A row is coded by public bounds, never by what other rows hold. Two mechanisms, both of questions that a session answers
with noise and a receipt: a descent along noisy clipped gradients, and ridge regression from noisy second moments. Which
features, steps and clip norm are used follows from the declared numbers alone.

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
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from synth.errors import BudgetExceededError, InputError, PrivacyError
from synth.models.losses import averaged_descent
from synth.models.random_features import ridge_of_moments
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.feature_maps import Constant, FeatureMap, Stack
from synth.privacy.more.fourier import Fourier, angle_steps
from synth.privacy.more.gradients import GradientQuestion, Loss
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.row_maps import logistic
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.receipt import Receipt
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import Neighbours, RowCountRule, Schema, parse_column

__all__ = ["PrivacyAccount", "PrivateRandomFeatureClassifier", "PrivateRandomFeatureRegressor"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

Mechanism = Literal["gradient", "ridge"]
Features = Literal["auto", "linear", "fourier"]

LEVELS = 1024
"""Values that a feature or a label is told apart by, evenly from its lower to its upper bound."""

TARGET = "y"
"""The column of labels; those of features are called after their place."""

COUNT_SHARE, MEAN_SHARE = 0.05, 0.1
"""Parts of mu^2 for a private number of rows, and, of what is left, for the mean of labels."""

FREQUENCIES, POSITIONS = 40, 128
"""Frequencies of Fourier features, and the values of a column that their angles tell apart."""

FEW_ROWS, MANY_COLUMNS = 4000, 40
"""Below this epsilon times rows, and above so many columns, linear features lose least."""

RATE, CLIP = 4.0, 0.25
"""Step and clip norm of a descent of squared errors of labels between -1/2 and 1/2."""

LOGISTIC_RATE, LOGISTIC_CLIP = 16.0, 0.5
"""Those of logistic regression, whose curvature is at most a quarter."""

TOO_FEW = 200
"""Below this epsilon times rows hardly anything is better than the mean."""


class PrivacyAccount:
    """All that several fits to the same rows may spend together.

    Parameters
    ----------
    epsilon, delta : float
    row_count : {"public", "private"}
        As in :class:`PrivateRandomFeatureRegressor`; the same for all fits.

    Notes
    -----
    Copies are the account itself, so that clones of an estimator spend from one purse.
    """

    def __init__(self, epsilon: float, delta: float, *, row_count: RowCountRule = "public") -> None:
        self.budget = PrivacyBudget(epsilon, delta, _relation(row_count))
        self.receipts: list[Receipt] = []
        self._spent = Fraction(0)

    @property
    def epsilon(self) -> float:
        """What was charged, as an epsilon at the account's delta; a fit that failed is charged in full."""
        return self.budget.epsilon_of_share(float(self._spent)) if self._spent else 0.0

    def opened(self, table: PrivateTable, budget: PrivacyBudget, **of_session: Any) -> PrivateSession:
        """Charge one fit and return the session that answers it.

        Raises
        ------
        BudgetExceededError
            If less is left. Nothing is spent then.
        PrivacyError
            If the fit hides another change, or is priced at another delta.
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
        raise PrivacyError(
            "An account cannot be copied to another process: what is spent there would not be seen here."
        )


class _PrivateRandomFeatures(BaseEstimator):
    """What private models of linear and Fourier features share: bounds, what may be spent, and how one is kept."""

    _may_fit = True
    _of_session: Mapping[str, Any] = MappingProxyType({})
    """What tests hand to a session: known noise."""

    kind: ClassVar[str]
    """Its name where models are written down."""

    epsilon: float
    delta: float
    lower: float | ArrayLike
    upper: float | ArrayLike
    row_count: RowCountRule
    features: Features
    n_rows: int | None
    account: PrivacyAccount | None
    random_state: int
    features_: str
    coef_: Vector
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
            If the estimator, or one that it is a clone of, has no account and was to be fitted before.
        BudgetExceededError
            If the account has less left.
        """
        self._require_settings()
        if self.account is None and not self._may_fit:
            raise PrivacyError(
                "Another fit to the same rows would spend again: give an account that says how much all may spend."
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
            self._fit_to(session, n_rows)
        finally:
            account.receipts += session.receipts
        self.receipts_ = session.receipts
        spent = epsilon_of_receipts(session.receipts, self.delta)
        self.spent_ = {"epsilon": spent, "delta": self.delta, "hides": schema.neighbours.value}
        return self

    def to_json(self) -> str:
        """Return the fitted model as a text that ``from_json`` reads; it says nothing that the fit did not pay for."""
        settings = {name: value for name, value in self._settings().items() if name != "account"}
        settings |= {name: np.asarray(settings[name]).tolist() for name in ("lower", "upper")}
        return json.dumps(
            {
                "kind": self.kind,
                "settings": settings,
                "columns": self.n_features_in_,
                "features": self.features_,
                "fitted": {name: np.asarray(getattr(self, name)).tolist() for name in self._fitted},
                "spent": self.spent_,
                "receipts": [receipt.to_dict() for receipt in self.receipts_],
            },
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Make a fitted model of what ``to_json`` wrote; it predicts, and is not fitted again without an account."""
        said = json.loads(text)
        if said.get("kind") != cls.kind:
            raise InputError(f"The text holds no {cls.kind}.")
        made = cls(**said["settings"])
        vars(made).update(_may_fit=False)
        for name, value in said["fitted"].items():
            setattr(made, name, np.array(value, dtype=np.float64) if isinstance(value, list) else value)
        made.features_, made.n_features_in_, made.spent_ = said["features"], int(said["columns"]), said["spent"]
        made.receipts_ = tuple(map(Receipt.from_dict, said["receipts"]))
        return made

    _fitted: ClassVar[tuple[str, ...]] = ("coef_",)

    @abstractmethod
    def _labels(self, y: ArrayLike) -> tuple[NDArray[np.int64], int]:
        """Return the codes of labels, and how many there are; what is private of them decides nothing."""

    @abstractmethod
    def _fit_to(self, session: PrivateSession, n_rows: float) -> None:
        """Ask for everything that is left of the budget, and fit."""

    def _scores(self, x: ArrayLike) -> Vector:
        if not hasattr(self, "coef_"):
            raise NotFittedError("The model has not been fitted to any rows yet.")
        rows = self._numbers(x, reset=False)
        return np.asarray(self._map().evaluate(self._codes(rows)) @ self.coef_)

    def _descent(
        self, session: PrivateSession, labels: Lookup, n_rows: float, *, loss: Loss, rate: float, clip: float
    ) -> Vector:
        """Descend along noisy gradients from 0."""
        features, steps = self._map(), 10 if self.epsilon < 0.3 else 30
        asked = 0

        def mean_gradient(at: Vector) -> Vector:
            nonlocal asked
            question = GradientQuestion(features, labels, loss, at, clip)
            share = session.remaining_share / (steps - asked)
            asked += 1
            answer = session.noisy_gradient(question, share=share, query=f"gradient {asked}", source=self.kind)
            return np.asarray(answer.gradient / n_rows)

        found, _ = averaged_descent(mean_gradient, features=features.dimension, rate=rate, steps=steps)
        return found

    def _map(self) -> FeatureMap:
        """Return the features, no longer than 1, over the codes of a row."""
        d = self.n_features_in_
        names = tuple(f"x{place}" for place in range(d))
        if self.features_ == "linear":
            weight = 1 / math.sqrt(d + 1)
            steps = np.linspace(-1, 1, LEVELS)[:, None]
            return Stack((*(Lookup(name, steps) for name in names), Constant()), (weight,) * (d + 1))
        radians = np.random.default_rng(self.random_state).normal(size=(FREQUENCIES, d))
        places = np.arange(LEVELS, dtype=np.int32) * POSITIONS // LEVELS
        return Fourier(names, (places,) * d, angle_steps(radians / (POSITIONS - 1)))

    def _rule(self, n_rows: float) -> str:
        """Return what features are used, by declared and noisy numbers alone; warn where hardly anything helps."""
        reckoned = float(self.n_rows or n_rows)
        if self.epsilon * reckoned < TOO_FEW:
            warnings.warn(
                f"With epsilon {self.epsilon:g} and about {reckoned:,.0f} rows hardly any model beats the mean.",
                stacklevel=4,
            )
        few = self.epsilon * reckoned < FEW_ROWS or self.n_features_in_ > MANY_COLUMNS
        return ("linear" if few else "fourier") if self.features == "auto" else self.features

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
        _require_widths(np.asarray(self.upper, dtype=np.float64) - np.asarray(self.lower, dtype=np.float64))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


class PrivateRandomFeatureRegressor(RegressorMixin, _PrivateRandomFeatures):
    """Differentially private regression on linear or random Fourier features.

    Parameters
    ----------
    epsilon, delta : float
        What one ``fit`` spends.
    lower, upper : float or array of shape (n_features,)
        Public bounds of the features; what lies outside counts as the bound, what is no number as the middle.
    target_lower, target_upper : float
        Public bounds of the labels; predictions are cut off there as well.
    row_count : {"public", "private"}
        Whether one row replaced is hidden, and how many there are is public, or one row added or removed.
    mechanism : {"gradient", "ridge"}
    features : {"auto", "linear", "fourier"}
        "auto" decides by a public rule from rows, columns and epsilon. Ridge regression uses linear ones.
    n_rows : int, optional
        Rows that the public rule reckons with where their number is private.
    account : PrivacyAccount, optional
        What is spent from. Without one an estimator can be fitted once, and clones of it not at all, so that no search
        over settings spends in silence.
    random_state : int
        Seed of the frequencies of Fourier features. Noise does not depend on it.

    Attributes
    ----------
    coef_ : array of shape (n_coefficients,)
    mean_ : float
        Noisy mean of the labels, in [-1/2, 1/2] of their range.
    spent_ : dict
        Epsilon, delta and relation of this fit.
    receipts_ : tuple of Receipt
    n_features_in_ : int
    """

    kind = "private regression"
    _fitted = ("coef_", "mean_")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        lower: float | ArrayLike = 0.0,
        upper: float | ArrayLike = 1.0,
        target_lower: float = 0.0,
        target_upper: float = 1.0,
        row_count: RowCountRule = "public",
        mechanism: Mechanism = "gradient",
        features: Features = "auto",
        n_rows: int | None = None,
        account: PrivacyAccount | None = None,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.lower = lower
        self.upper = upper
        self.target_lower = target_lower
        self.target_upper = target_upper
        self.row_count = row_count
        self.mechanism = mechanism
        self.features = features
        self.n_rows = n_rows
        self.account = account
        self.random_state = random_state

    def predict(self, X: ArrayLike) -> Vector:  # noqa: N803
        """Return predictions, within the bounds of the labels; shape (n,)."""
        found = np.clip(self._scores(X) + self.mean_, -0.5, 0.5) + 0.5
        return np.asarray(self.target_lower + (self.target_upper - self.target_lower) * found)

    def _labels(self, y: ArrayLike) -> tuple[NDArray[np.int64], int]:
        labels = _quoting_nothing(lambda: column_or_1d(y, dtype=np.float64, warn=True))
        return _coded(labels, self.target_lower, self.target_upper), LEVELS

    def _fit_to(self, session: PrivateSession, n_rows: float) -> None:
        steps = np.linspace(-0.5, 0.5, LEVELS)
        share = MEAN_SHARE * session.remaining_share
        labels = Lookup(TARGET, steps[:, None])
        mean = session.noisy_sum(labels, share=share, query="mean of labels", source=self.kind)
        self.mean_ = float(np.clip(mean.value[0] / n_rows, -0.5, 0.5))
        # What is left of a label, which is fitted: cut off, so that a mean that is off moves no bound.
        rest = Lookup(TARGET, np.clip(steps - self.mean_, -0.5, 0.5)[:, None])
        if self.mechanism == "ridge":
            self.coef_ = self._ridge(session, rest)
        else:
            self.coef_ = self._descent(session, rest, n_rows, loss="squared", rate=RATE, clip=CLIP)

    def _ridge(self, session: PrivateSession, labels: Lookup) -> Vector:
        """Solve from the noisy second moments of features and label, which are one vector per row."""
        d = self.n_features_in_
        scale = 1 / math.sqrt(d + 1)
        columns = [np.linspace(-scale, scale, LEVELS)[:, None] for _ in range(d)]
        # The constant stands beside the first column.
        columns[0] = np.concatenate([columns[0], np.full((LEVELS, 1), scale)], axis=1)
        tables = tuple(Lookup(f"x{place}", column) for place, column in enumerate(columns))
        question = RowMoments((*tables, labels), math.sqrt(1.25), (0.0, 0.0, 1.0))
        share = session.remaining_share
        answer = session.noisy_sum(question, share=share, query="second moments", source=self.kind)
        sums = answer.value / question.factors * question.clip**2
        whole = np.zeros((d + 2, d + 2))
        upper = np.triu_indices(d + 2)
        whole[upper] = whole[upper[1], upper[0]] = sums
        # The constant goes to the end, where the features of a descent have it.
        order = [0, *range(2, d + 1), 1]
        noise = answer.noise_std * question.clip**2
        penalty = 0.5 * noise * math.sqrt(2 * (d + 1))
        return ridge_of_moments(whole[np.ix_(order, order)], whole[order, d + 1], penalty=penalty)

    def _require_settings(self) -> None:
        super()._require_settings()
        if self.mechanism not in get_args(Mechanism):
            raise InputError("mechanism must be gradient or ridge.")
        if self.mechanism == "ridge" and self.features == "fourier":
            raise InputError("Ridge regression is of linear features; choose the gradient mechanism for others.")
        _require_widths(self.target_upper - self.target_lower)

    def _rule(self, n_rows: float) -> str:
        found = super()._rule(n_rows)
        return "linear" if self.mechanism == "ridge" else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.regressor_tags.poor_score = True
        return tags


class PrivateRandomFeatureClassifier(ClassifierMixin, _PrivateRandomFeatures):
    """Differentially private logistic regression of two classes, on linear or random Fourier features.

    Parameters
    ----------
    classes : tuple of two labels
        The classes, declared: a label that is not the second counts as the first.
    epsilon, delta, lower, upper, row_count, features, n_rows, account, random_state
        As in :class:`PrivateRandomFeatureRegressor`.

    Attributes
    ----------
    coef_ : array of shape (n_coefficients,)
    classes_ : array of the two labels
    spent_, receipts_, n_features_in_
        As in :class:`PrivateRandomFeatureRegressor`.
    """

    kind = "private classifier"

    def __init__(
        self,
        *,
        classes: tuple[Any, Any] = (0, 1),
        epsilon: float = 1.0,
        delta: float = 1e-5,
        lower: float | ArrayLike = 0.0,
        upper: float | ArrayLike = 1.0,
        row_count: RowCountRule = "public",
        features: Features = "auto",
        n_rows: int | None = None,
        account: PrivacyAccount | None = None,
        random_state: int = 0,
    ) -> None:
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.lower = lower
        self.upper = upper
        self.row_count = row_count
        self.features = features
        self.n_rows = n_rows
        self.account = account
        self.random_state = random_state

    @property
    def classes_(self) -> NDArray[Any]:
        """The two classes, in order."""
        return np.asarray(self.classes)

    def decision_function(self, X: ArrayLike) -> Vector:  # noqa: N803
        """Return the log odds of the second class; shape (n,)."""
        return self._scores(X)

    def predict_proba(self, X: ArrayLike) -> Matrix:  # noqa: N803
        """Return the probabilities of both classes; shape (n, 2)."""
        second = logistic(self._scores(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the likelier class of every row; shape (n,)."""
        return np.asarray(self.classes_[(self._scores(X) > 0).astype(np.int64)])

    def _labels(self, y: ArrayLike) -> tuple[NDArray[np.int64], int]:
        return np.asarray(column_or_1d(y, warn=True) == self.classes_[1]).astype(np.int64), 2

    def _fit_to(self, session: PrivateSession, n_rows: float) -> None:
        labels = Lookup(TARGET, np.array([[0.0], [1.0]]))
        self.coef_ = self._descent(session, labels, n_rows, loss="logistic", rate=LOGISTIC_RATE, clip=LOGISTIC_CLIP)

    def _require_settings(self) -> None:
        super()._require_settings()
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:
            raise InputError("Two different classes have to be declared.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags


def _require_widths(widths: ArrayLike) -> None:
    if not all(math.isfinite(width) and width > 0 for width in np.ravel(widths)):
        raise InputError("Every upper bound must be finite and above its lower bound.")


def _relation(row_count: RowCountRule) -> Neighbours:
    return Neighbours.REPLACE if row_count == "public" else Neighbours.ADD_REMOVE


def _quoting_nothing(read: Callable[[], Any]) -> Matrix:
    """Read numbers; what numpy says of one that is none quotes it, and is put into other words."""
    try:
        return np.asarray(read())
    except ValueError as refusal:
        if "convert" not in str(refusal):
            raise
    raise InputError("Features and labels have to be numbers.")


def _coded(values: Matrix, lower: float | ArrayLike, upper: float | ArrayLike) -> NDArray[np.int64]:
    """Return the step of each number between its bounds, number by number: of no number the middle."""
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    middle = np.where(np.isnan(values), (low + high) / 2, values)
    part = (np.clip(middle, low, high) - low) / (high - low)
    return np.asarray(np.rint(part * (LEVELS - 1)).astype(np.int64))
