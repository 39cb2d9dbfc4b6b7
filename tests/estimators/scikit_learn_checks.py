"""The checks that scikit-learn has for every estimator, with those that ask for what would not be private."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator

__all__ = ["require_taken"]


def require_taken(estimator: BaseEstimator, exempt: Mapping[str, str]) -> None:
    """Require that all checks pass but the exempted ones, and that each of these is run and fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(estimator, expected_failed_checks=dict(exempt), on_fail=None)
    failed = {one["check_name"]: str(one["exception"])[:200] for one in found if one["status"] == "failed"}
    assert not failed
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == set(exempt)
    assert len(found) > 40
