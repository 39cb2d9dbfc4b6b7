"""Private regression: what it spends, that it learns, what it refuses, and that scikit-learn takes it for its own."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
import warnings

import numpy as np
import pytest
from recorded_noise import RecordedNoise
from scikit_learn_checks import require_taken
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from synth.errors import BudgetExceededError, InputError, PrivacyError
from synth.estimators.random_features.fitting import _measured_noise, noise_of_average
from synth.estimators.regression import PrivacyAccount, PrivateRandomFeatureRegressor
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours

pytestmark = pytest.mark.filterwarnings("ignore:With epsilon:UserWarning")


def line(n: int = 2000, *, seed: int = 0, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.random((n, columns))
    return x, np.clip(0.2 + 0.6 * x[:, 0] + 0.02 * random.normal(size=n), 0, 1)


def quiet(key: int | None = None, **settings: object) -> PrivateRandomFeatureRegressor:
    """An estimator with known noise: NOT PRIVATE."""
    made = PrivateRandomFeatureRegressor(**settings)
    vars(made).update(_of_session={"noise": RecordedNoise(key)})
    return made


def error(model: PrivateRandomFeatureRegressor, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((model.predict(x) - y) ** 2))


WAYS = {
    "gradient": {"mechanism": "gradient", "features": "linear"},
    "ridge": {"mechanism": "ridge"},
    "fourier": {"features": "fourier"},
    "measured": {"features": "linear", "intervals": "measured"},
    "huber": {"loss": "huber", "features": "linear"},
    "fourier ridge": {"mechanism": "ridge", "features": "fourier"},
}


# What it learns


@pytest.mark.thorough
@pytest.mark.parametrize("row_count", ["public", "private"])
@pytest.mark.parametrize("way", WAYS)
def test_it_learns_a_line_far_better_than_the_mean(way: str, row_count: str) -> None:
    x, y = line()
    model = quiet(1, epsilon=2.0, row_count=row_count, **WAYS[way]).fit(x, y)
    assert error(model, *line(seed=1)) < (0.7 if way == "fourier ridge" else 0.2) * y.var()


def test_without_noise_ridge_is_ridge_regression() -> None:
    """Second moments are those of the features, in their order: what is solved is what least squares solves."""
    x, y = line(4000)
    model = quiet(None, mechanism="ridge").fit(x, y)
    wide = np.column_stack([2 * x - 1, np.ones(len(x))]) / 2
    rest = y - 0.5 - model.mean_
    penalty = 0.5 * model.receipts_[-1].noise_scale * 1.25 * np.sqrt(2 * 4)
    wanted = np.linalg.solve(wide.T @ wide + penalty * np.eye(4), wide.T @ rest)
    np.testing.assert_allclose(model.coef_, wanted, atol=2e-3)


def test_without_noise_ridge_of_waves_is_ridge_regression() -> None:
    x, y = line(4000)
    model = quiet(None, mechanism="ridge", features="fourier").fit(x, y)
    seen = model._row_features(3, "fourier").map.evaluate(model._codes(x))
    penalty = 0.5 * model.receipts_[-1].noise_scale * 1.25 * np.sqrt(2 * 80)
    wanted = np.linalg.solve(seen.T @ seen + penalty * np.eye(80), seen.T @ (y - 0.5 - model.mean_))
    np.testing.assert_allclose(model.coef_, wanted, atol=2e-3)


def coverage(x: np.ndarray, y: np.ndarray, fits: int = 40, **settings: object) -> tuple[float, float]:
    """How often intervals hold what the same fit finds without noise, with known noise; and their mean width."""
    silent = quiet(None, features="linear", **settings).fit(x, y)
    hits, widths = [], []
    for key in range(fits):
        model = quiet(100 + key, features="linear", **settings).fit(x, y)
        # The noisy mean moves the constant alone, and is no part of what an interval speaks of.
        wanted = silent.coef_.copy()
        wanted[-1] -= np.sqrt(len(wanted)) * (model.mean_ - silent.mean_)
        hits.append((model.coef_interval_[:, 0] <= wanted) & (wanted <= model.coef_interval_[:, 1]))
        widths.append(np.diff(model.coef_interval_).mean())
    return float(np.mean(hits)), float(np.mean(widths))


@pytest.mark.thorough
@pytest.mark.parametrize(("way", "least", "most"), [("gradient", 0.97, 1.0), ("measured", 0.9, 0.99)])
def test_intervals_hold_what_the_same_fit_finds_without_noise(way: str, least: float, most: float) -> None:
    """Of a descent they are upper bounds, unless second moments were measured; 4 coefficients a fit."""
    held, width = coverage(*line(2000), **{name: is_ for name, is_ in WAYS[way].items() if name != "features"})
    assert least <= held <= most
    assert (width < 0.15) is (way == "measured")


@pytest.mark.thorough
@pytest.mark.parametrize("band", [1.0, 0.1])
def test_intervals_of_ridge_count_noise_once(band: float) -> None:
    """Of columns that hardly vary the coefficients are mostly noise, which is not to widen the intervals again."""
    x, y = line(1000, columns=6)
    held, _ = coverage(0.5 + band * (x - 0.5), y, mechanism="ridge")
    assert 0.9 <= held <= 0.985


def test_measured_intervals_are_wider_where_gradients_are_clipped() -> None:
    x, y = line(1500)
    of_two = (np.random.default_rng(4).random(1500) < 0.5).astype(np.float64)
    of_clipped, of_others = (coverage(x, labels, 1, intervals="measured")[1] for labels in (of_two, y))
    assert of_clipped > 1.5 * of_others


def test_noise_of_a_descent_is_that_of_its_curvature_and_a_bound_where_that_may_be_none() -> None:
    settings = {"rate": 4.0, "steps": 30, "std": 0.01}
    curvature = np.diag([0.2, 0.05, 0.0])
    known = noise_of_average(np.diag(curvature), **settings)
    np.testing.assert_allclose(_measured_noise(curvature, 0.0, **settings), np.diag(known), atol=1e-12)
    guessed = np.diag(_measured_noise(curvature, 0.004, **settings))
    assert known[0] < guessed[0] < 1.2 * known[0]
    assert 0.8 * known[2] < guessed[2] <= known[2]
    flat = _measured_noise(np.zeros((5, 5)), 0.05, **settings)
    assert 0.8 * known[2] < np.diag(flat).min() <= np.diag(flat).max() <= known[2] * (1 + 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_the_noise_of_predictions_is_foretold_before_a_row_is_read(way: str) -> None:
    """Rows that fill their bounds evenly, as is assumed; labels that no clip touches."""
    x = np.random.default_rng(3).random((1500, 3))
    y = np.full(1500, 0.5)
    settings = {"epsilon": 2.0, "target_lower": -100, "target_upper": 101} | WAYS[way]
    foretold = PrivateRandomFeatureRegressor(**settings).expected_noise(n_rows=1500, n_features=3)
    models = [quiet(key, **settings).fit(x, y) for key in range(8)]
    scores = [201 * (model._scores(x[:500])) for model in models]
    found = np.sqrt(np.mean(np.square(scores)))
    assert 0.6 < found / foretold < 1.6


@pytest.mark.parametrize("row_count", ["public", "private"])
def test_a_number_of_rows_says_how_it_is_known(row_count: str) -> None:
    x, y = line(500)
    model = PrivateRandomFeatureRegressor(row_count=row_count, n_rows=7).fit(x, y)
    assert model.n_rows_["known"] == ("public" if row_count == "public" else "released")
    assert (model.n_rows_["rows"] == 500) is (row_count == "public")
    read = PrivateRandomFeatureRegressor.from_json(model.to_json())
    assert (read.n_rows_, read.coef_interval_.tolist()) == (model.n_rows_, model.coef_interval_.tolist())


def test_without_noise_a_descent_takes_the_steps_of_gradient_descent() -> None:
    x, y = line(3900)
    model = quiet(None, features="linear").fit(x, y)
    wide = np.column_stack([2 * x - 1, np.ones(len(x))]) / 2
    rest = np.clip(y - 0.5 - model.mean_, -0.5, 0.5)
    now, late = np.zeros(4), []
    for step in range(30):
        slopes = (wide @ now - rest)[:, None] * wide
        slopes /= np.maximum(1, np.linalg.norm(slopes, axis=1) / 0.25)[:, None]
        now = now - 4 * slopes.mean(axis=0)
        late += [now] if step >= 15 else []
    np.testing.assert_allclose(model.coef_, np.mean(late, axis=0), atol=2e-3)


def test_predictions_stay_within_the_declared_labels_and_bounds_come_from_nowhere_else() -> None:
    x, y = line()
    model = quiet(2, lower=-1.0, upper=[1.0, 2.0, 1.5], target_lower=10, target_upper=20).fit(3 * x - 1, 10 + 10 * y)
    far = np.array([[1e300, -1e300, np.nan], [np.inf, -np.inf, 0.0], [-5.0, 5.0, 0.5]])
    found = model.predict(far)
    assert ((found >= 10) & (found <= 20)).all()
    # What lies outside is the bound itself, and what is no number the middle.
    assert found.tolist() == model.predict(np.array([[1.0, -1.0, 0.25], [1.0, -1.0, 0.0], [-1.0, 2.0, 0.5]])).tolist()
    outlier = np.array([[1e9] * 3]), np.array([1e12])
    more = quiet(2, lower=-1.0, upper=[1.0, 2.0, 1.5], target_lower=10, target_upper=20).fit(
        np.concatenate([3 * x - 1, outlier[0]]), np.concatenate([10 + 10 * y, outlier[1]])
    )
    assert abs(more.predict(far) - found).max() < 1.0


def test_the_same_noise_gives_the_same_model_and_the_seed_of_features_gives_no_noise() -> None:
    x, y = line(300)
    one, other = (quiet(3, features="fourier", epsilon=5.0).fit(x, y) for _ in range(2))
    assert one.coef_.tolist() == other.coef_.tolist()
    real = [PrivateRandomFeatureRegressor(features="fourier", random_state=4).fit(x, y) for _ in range(2)]
    assert (real[0].coef_ != real[1].coef_).all()


# What it spends


@pytest.mark.parametrize("row_count", ["public", "private"])
@pytest.mark.parametrize("way", WAYS)
def test_a_fit_spends_its_epsilon_and_says_so(way: str, row_count: str) -> None:
    x, y = line(400)
    model = PrivateRandomFeatureRegressor(epsilon=0.7, delta=1e-6, row_count=row_count, **WAYS[way]).fit(x, y)
    assert 0.699 < model.spent_["epsilon"] <= 0.7
    assert (model.spent_["delta"], model.spent_["hides"]) == (
        1e-6,
        "replace_one" if row_count == "public" else "add_remove",
    )
    budget = PrivacyBudget(0.7, 1e-6, Neighbours(model.spent_["hides"]))
    assert sum(one.mu_squared_units for one in model.receipts_) <= budget.units
    assert all(one.private for one in model.receipts_)
    of_gradients = {one.sensitivity for one in model.receipts_ if one.query.startswith("gradient")}
    assert of_gradients == (set() if "ridge" in way else {2.0 if row_count == "public" else 1.0})


def test_a_second_fit_without_an_account_is_refused_and_so_is_a_search() -> None:
    x, y = line(300)
    model = PrivateRandomFeatureRegressor(features="linear").fit(x, y)
    before = model.coef_.copy()
    with pytest.raises(PrivacyError, match="pass an account"):
        model.fit(x, y)
    assert model.coef_.tolist() == before.tolist()
    for copied in (clone(PrivateRandomFeatureRegressor()), copy.deepcopy(model)):
        with pytest.raises(PrivacyError, match="pass an account"):
            copied.fit(x, y)
    with pytest.raises(PrivacyError, match="pass an account"):
        cross_val_score(PrivateRandomFeatureRegressor(), x, y, cv=2, error_score="raise")


def test_all_fits_of_a_search_spend_from_one_account() -> None:
    x, y = line(300)
    account = PrivacyAccount(3.0, 1e-5)
    asked = PrivateRandomFeatureRegressor(epsilon=1.0, account=account)
    search = GridSearchCV(asked, {"features": ["linear", "fourier"]}, cv=2, error_score="raise").fit(x, y)
    assert search.best_estimator_.account is account
    assert len([one for one in account.receipts if one.query == "mean of labels"]) == 5
    assert 2.0 < account.epsilon <= 3.0
    with pytest.raises(BudgetExceededError, match="of the account"):
        PrivateRandomFeatureRegressor(epsilon=2.9, account=account).fit(x, y)
    assert account.epsilon <= 3.0


def test_an_account_takes_no_other_relation_or_delta_and_is_not_copied() -> None:
    x, y = line(50)
    account = PrivacyAccount(3.0, 1e-5)
    for settings in ({"delta": 1e-6}, {"row_count": "private"}):
        with pytest.raises(PrivacyError, match="same delta"):
            PrivateRandomFeatureRegressor(account=account, **settings).fit(x, y)
    assert account.epsilon == 0.0
    with pytest.raises(PrivacyError, match="more than counts, which needs a delta above 0"):
        PrivacyAccount(3.0, 0.0)
    for row_count in ("public", "private"):
        asked = PrivateRandomFeatureRegressor(delta=0.0, row_count=row_count)
        with pytest.raises(PrivacyError, match="more than counts, which needs a delta above 0"):
            asked.fit(x, y)
        assert asked.set_params(delta=1e-5, features="linear").fit(x, y).receipts_, "nothing was charged before"
    assert copy.deepcopy(account) is account
    with pytest.raises(PrivacyError, match="another process"):
        pickle.dumps(account)


def test_a_fit_that_fails_after_rows_were_read_is_paid_for_all_the_same() -> None:
    x, y = line(50)
    account = PrivacyAccount(1.0, 1e-5)
    broken = PrivateRandomFeatureRegressor(account=account)

    class Failing(RecordedNoise):
        def gaussian(self, variance: int, size: int) -> np.ndarray:
            raise ArithmeticError

    vars(broken).update(_of_session={"noise": Failing(1)})
    with pytest.raises(ArithmeticError):
        broken.fit(x, y)
    assert account.epsilon == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(BudgetExceededError):
        PrivateRandomFeatureRegressor(account=account).fit(x, y)


# What it refuses


@pytest.mark.parametrize(
    "settings",
    [
        {"mechanism": "output"},
        {"features": "cosine"},
        {"mechanism": "ridge", "loss": "huber"},
        {"loss": "absolute"},
        {"intervals": "none"},
        {"lower": 1.0},
        {"upper": np.inf},
        {"target_upper": 0.0},
    ],
)
def test_settings_that_make_no_sense_cost_nothing(settings: dict[str, object]) -> None:
    x, y = line(50)
    account = PrivacyAccount(1.0, 1e-5)
    with pytest.raises(InputError):
        PrivateRandomFeatureRegressor(account=account, **settings).fit(x, y)
    PrivateRandomFeatureRegressor(account=account).fit(x, y)


@pytest.mark.parametrize("in_labels", [True, False])
def test_what_is_no_number_is_refused_without_a_word_of_it(in_labels: bool) -> None:
    x, y = line(50)
    account = PrivacyAccount(1.0, 1e-5)
    given = [x.astype(object), y.astype(object)]
    given[in_labels].reshape(-1)[3] = "a secret cell"
    with pytest.raises(InputError) as refusal:
        PrivateRandomFeatureRegressor(account=account).fit(*given)
    assert "secret" not in "".join(traceback.format_exception(refusal.value))
    assert account.epsilon == 0.0


def test_it_says_where_hardly_anything_is_better_than_the_mean() -> None:
    x, y = line(150)
    with pytest.warns(UserWarning, match="about 150 rows hardly any model"):
        quiet(1, epsilon=1.0).fit(x, y)
    with warnings.catch_warnings(record=True) as heard:
        quiet(1, epsilon=2.0).fit(x, y)
    assert not heard


@pytest.mark.thorough
def test_features_follow_from_declared_numbers_alone() -> None:
    x, y = line(1000)
    assert quiet(1, epsilon=3.9).fit(x, y).features_ == "linear"
    assert quiet(1, epsilon=4.1).fit(x, y).features_ == "fourier"
    assert quiet(1, epsilon=4.1, n_rows=10).fit(x, y).features_ == "linear"
    wide = np.tile(x, (1, 14))
    assert quiet(1, epsilon=4.1).fit(wide, y).features_ == "linear"


# JSON


@pytest.mark.parametrize("way", WAYS)
def test_a_model_is_written_and_read_as_json(way: str) -> None:
    x, y = line(300)
    model = PrivateRandomFeatureRegressor(upper=[1.0, 1.5, 2.0], **WAYS[way]).fit(x, y)
    text = model.to_json()
    read = PrivateRandomFeatureRegressor.from_json(text)
    assert read.predict(x).tolist() == model.predict(x).tolist()
    assert (read.spent_, read.receipts_) == (model.spent_, model.receipts_)
    assert json.loads(read.to_json()) == json.loads(text)
    with pytest.raises(PrivacyError, match="pass an account"):
        read.fit(x, y)
    with pytest.raises(InputError, match="no private regression"):
        PrivateRandomFeatureRegressor.from_json('{"kind": "another"}')


def test_it_predicts_nothing_before_it_was_fitted() -> None:
    with pytest.raises(NotFittedError):
        PrivateRandomFeatureRegressor().predict(np.zeros((1, 2)))


# scikit-learn

EXEMPT = {
    "check_supervised_y_no_nan": "whether a label is missing is private: it counts as the middle",
    "check_estimators_pickle": "models are kept as JSON; an account is not copied to another process",
    "check_estimators_overwrite_params": "it pickles the account",
    "check_supervised_y_2d": "every fit draws noise of its own",
    "check_fit_idempotent": "every fit draws noise of its own",
    "check_regressors_int": "every fit draws noise of its own",
    "check_regressor_data_not_an_array": "every fit draws noise of its own",
}
"""Checks of scikit-learn that ask for what would not be private, each with the reason."""


@pytest.mark.thorough
def test_scikit_learn_takes_it_for_its_own() -> None:
    account = PrivacyAccount(50.0, 1e-5)
    bounds = {"lower": -10.0, "upper": 10.0, "target_lower": -10.0, "target_upper": 10.0}
    estimator = quiet(5, epsilon=0.5, account=account, **bounds)
    require_taken(estimator, EXEMPT)
