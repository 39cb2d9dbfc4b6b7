"""Private logistic regression: what it learns, what it spends, and that scikit-learn takes it for its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from recorded_noise import RecordedNoise
from scikit_learn_checks import require_taken
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from synth.errors import InputError, PrivacyError
from synth.estimators.regression import (
    PrivacyAccount,
    PrivateRandomFeatureClassifier,
    PrivateRandomFeatureRegressor,
)

pytestmark = pytest.mark.filterwarnings("ignore:With epsilon:UserWarning")


def classes(n: int = 3000, *, seed: int = 0, names: tuple[object, object] = (0, 1)) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose log odds are a line, and classes drawn by them."""
    random = np.random.default_rng(seed)
    x = random.random((n, 3))
    odds = 6 * (x[:, 0] - 0.5) - 4 * (x[:, 1] - 0.5)
    return x, np.array(names)[(random.random(n) < 1 / (1 + np.exp(-odds))).astype(int)]


def quiet(key: int | None = None, **settings: object) -> PrivateRandomFeatureClassifier:
    """A classifier with known noise: NOT PRIVATE."""
    made = PrivateRandomFeatureClassifier(**settings)
    vars(made).update(_of_session={"noise": RecordedNoise(key)})
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("row_count", ["public", "private"])
@pytest.mark.parametrize("features", ["linear", "fourier"])
def test_it_ranks_nearly_as_well_as_logistic_regression_that_is_not_private(features: str, row_count: str) -> None:
    x, y = classes()
    fresh, wanted = classes(seed=1)
    best = roc_auc_score(wanted, LogisticRegression().fit(x, y).predict_proba(fresh)[:, 1])
    model = quiet(1, epsilon=2.0, features=features, row_count=row_count).fit(x, y)
    found = roc_auc_score(wanted, model.decision_function(fresh))
    assert best - 0.03 < found


def test_without_noise_it_takes_the_steps_of_gradient_descent() -> None:
    x, y = classes()
    model = quiet(None, features="linear").fit(x, y)
    wide = np.column_stack([2 * x - 1, np.ones(len(x))]) / 2
    now, late = np.zeros(4), []
    for step in range(30):
        slopes = (1 / (1 + np.exp(-wide @ now)) - y)[:, None] * wide
        slopes /= np.maximum(1, np.linalg.norm(slopes, axis=1) / 0.5)[:, None]
        now = now - 16 * slopes.mean(axis=0)
        late += [now] if step >= 15 else []
    np.testing.assert_allclose(model.coef_, np.mean(late, axis=0), atol=2e-2)


def three_classes(n: int = 3000, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.random((n, 2))
    scores = np.stack([6 * x[:, 0], 6 * x[:, 1], np.full(n, 2.0)], axis=1)
    return x, np.array(["a", "b", "c"])[np.argmax(scores + random.gumbel(size=(n, 3)), axis=1)]


def test_of_several_classes_without_noise_a_step_is_one_clipped_vector() -> None:
    x, y = three_classes(2000)
    model = quiet(None, classes=("a", "b", "c"), features="linear").fit(x, y)
    wide, wanted = np.column_stack([2 * x - 1, np.ones(len(x))]) / np.sqrt(3), y[:, None] == ["a", "b", "c"]
    now, late = np.zeros((3, 3)), []
    for step in range(30):
        shares = np.exp(wide @ now.T)
        slopes = shares / shares.sum(axis=1, keepdims=True) - wanted
        rows = slopes[:, :, None] * wide[:, None]
        rows /= np.maximum(1, np.linalg.norm(rows, axis=(1, 2)) / 0.5)[:, None, None]
        now = now - 8 * rows.mean(axis=0)
        late += [now] if step >= 15 else []
    np.testing.assert_allclose(model.coef_, np.mean(late, axis=0), atol=2e-2)
    shares = model.predict_proba(x)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert model.predict(x).tolist() == np.array(["a", "b", "c"])[np.argmax(shares, axis=1)].tolist()


@pytest.mark.thorough
def test_several_classes_are_told_apart_with_noise() -> None:
    x, y = three_classes()
    fresh, wanted = three_classes(seed=1)
    best = LogisticRegression().fit(x, y).score(fresh, wanted)
    assert quiet(1, classes=("a", "b", "c"), epsilon=2.0).fit(x, y).score(fresh, wanted) > best - 0.03


def test_probabilities_scores_and_classes_say_the_same() -> None:
    x, y = classes(names=("no", "yes"))
    model = quiet(2, classes=("no", "yes")).fit(x, y)
    both, odds = model.predict_proba(x), model.decision_function(x)
    np.testing.assert_allclose(both.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(both[:, 1] / both[:, 0]), odds, atol=1e-9)
    assert model.predict(x).tolist() == np.where(odds > 0, "yes", "no").tolist()
    assert set(model.predict(x)) == {"no", "yes"}


def test_a_label_that_was_not_declared_counts_as_the_first_class() -> None:
    x, y = classes(names=("no", "yes"))
    other = np.where(y == "no", "never declared", y)
    one, two = (quiet(3, classes=("no", "yes")).fit(x, labels) for labels in (y, other))
    assert one.coef_.tolist() == two.coef_.tolist()


@pytest.mark.parametrize("row_count", ["public", "private"])
def test_a_fit_spends_its_epsilon_on_gradients_alone(row_count: str) -> None:
    x, y = classes(400)
    model = PrivateRandomFeatureClassifier(epsilon=0.7, row_count=row_count).fit(x, y)
    assert 0.699 < model.spent_["epsilon"] <= 0.7
    asked = [one.query for one in model.receipts_]
    assert asked == [*(["number of rows"] if row_count == "private" else []), *(f"gradient {k}" for k in range(1, 31))]
    with pytest.raises(PrivacyError, match="pass an account"):
        model.fit(x, y)


def test_a_classifier_is_written_and_read_as_json() -> None:
    x, y = classes(300, names=("no", "yes"))
    model = PrivateRandomFeatureClassifier(classes=("no", "yes")).fit(x, y)
    read = PrivateRandomFeatureClassifier.from_json(model.to_json())
    assert read.predict_proba(x).tolist() == model.predict_proba(x).tolist()
    assert json.loads(read.to_json()) == json.loads(model.to_json())
    several = PrivateRandomFeatureClassifier(classes=("no", "yes", "perhaps")).fit(x, y)
    again = PrivateRandomFeatureClassifier.from_json(several.to_json())
    assert again.predict_proba(x).tolist() == several.predict_proba(x).tolist()
    with pytest.raises(InputError, match="no private regression"):
        PrivateRandomFeatureRegressor.from_json(model.to_json())


@pytest.mark.parametrize(
    "settings",
    [{"classes": (1, 1)}, {"classes": (1,)}, {"classes": tuple(range(51))}, {"features": "cosine"}, {"lower": 2}],
)
def test_settings_that_make_no_sense_cost_nothing(settings: dict[str, object]) -> None:
    account = PrivacyAccount(1.0, 1e-5)
    with pytest.raises(InputError):
        PrivateRandomFeatureClassifier(account=account, **settings).fit(*classes(50))
    assert account.epsilon == 0.0


EXEMPT = {
    "check_estimators_pickle": "models are kept as JSON; an account is not copied to another process",
    "check_estimators_overwrite_params": "it pickles the account",
    "check_fit_idempotent": "every fit draws noise of its own",
    "check_supervised_y_2d": "every fit draws noise of its own",
    "check_classifier_data_not_an_array": "every fit draws noise of its own",
    "check_classifiers_classes": "classes are declared, and not what labels there are",
    "check_classifiers_regression_target": "a label that was not declared counts as the first class",
    "check_classifier_not_supporting_multiclass": "how many classes there are in the rows is private",
    "check_supervised_y_no_nan": "whether a label is missing is private",
}
"""Checks of scikit-learn that ask for what would not be private, each with the reason."""


@pytest.mark.thorough
def test_scikit_learn_takes_it_for_its_own() -> None:
    estimator = quiet(5, epsilon=0.5, lower=-10.0, upper=10.0, account=PrivacyAccount(50.0, 1e-5))
    require_taken(estimator, EXEMPT)
