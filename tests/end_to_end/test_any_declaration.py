"""Declarations drawn by twenty-two seeds, each carried from the bytes of a file to a verified bundle, or refused."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import any_declaration
import numpy as np
import pytest
from any_declaration import Outcome, carried_out, drawn, in_a_process, summary
from reading_here import read_all_here

from synth.errors import ConfigError
from synth.estimators import MODELS
from synth.generators import GENERATORS
from synth.generators.independent.independent import Independent
from synth.schema import Schema
from synth.schema.columns import COLUMN_TYPES
from synth.services import pipeline, runs, trying_out

SEEDS = (
    *(1242, 1226, 1229, 1222, 1220, 1221, 1223, 1224, 1225, 1227, 1228),
    *(1231, 1232, 1234, 1235, 1236, 1237, 1238, 1239, 1250, 1253, 1297),
)
"""Together they have every generator and model; the first four are quick."""

LEAST = 14
"""Of these that end in a bundle; the others are refused by a sentence."""


@cache
def outcome_of(seed: int) -> Outcome:
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        if seed % 5:  # that a file is read in a process of its own is for a few to see
            read_all_here(patch)
        return carried_out(drawn(seed, small=True), Path(home))


@pytest.mark.parametrize("seed", [*SEEDS[:3], *(pytest.param(seed, marks=pytest.mark.thorough) for seed in SEEDS[3:])])
def test_a_drawn_declaration_ends_in_a_bundle_or_in_a_sentence(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.how in {"ran", "refused"}, f"{outcome.words}\n{outcome.detail}"


@pytest.mark.thorough
def test_most_of_them_end_in_a_bundle() -> None:
    assert Counter(outcome_of(seed).how for seed in SEEDS)["ran"] >= LEAST


@pytest.mark.thorough
def test_they_have_all_that_a_declaration_may_have() -> None:
    ran = [drawn(seed, small=True) for seed in SEEDS if outcome_of(seed).how == "ran"]
    seen = frozenset().union(*(case.traits for case in ran))
    assert seen >= {*GENERATORS, *MODELS}
    assert seen >= {"public", "private", "one_cell", "public number", "id column", "several rows"}
    assert seen >= {"hold-out", "label", "groups", "rules", "paid predictions"}
    assert seen >= {*COLUMN_TYPES, "csv", "parquet"}


def test_a_seed_draws_the_same_whenever_it_is_asked() -> None:
    for seed in range(8):
        first, again = drawn(seed, small=True), drawn(seed, small=True)
        assert (first.file, first.data, first.text) == (again.file, again.data, again.text)
    assert drawn(1, small=True).data != drawn(2, small=True).data


# What fails is seen to fail -------------------------------------------------------------------------------------------


def first_that_ran(fits: Callable[[any_declaration.Case], object]) -> any_declaration.Case:
    """The first case that fits and ends in a bundle; what does not fit is not run."""
    drawings = ((seed, drawn(seed, small=True)) for seed in SEEDS)
    return next(case for seed, case in drawings if fits(case) and outcome_of(seed).how == "ran")


def a_plain_case() -> any_declaration.Case:
    """The first that the generator of the plainest tables makes."""
    return first_that_ran(lambda case: "independent" in case.traits)


def a_bundle_that_is_not_what_it_claims(patch: pytest.MonkeyPatch) -> None:
    """One row more in the table than the certificate says; the trial before the charge is not made."""
    write = pipeline.write_table

    def altered(codes: np.ndarray, schema: Schema, csv: Path, *given: Any, **more: Any) -> None:
        write(codes, schema, csv, *given, **more)
        csv.write_bytes(csv.read_bytes() + csv.read_bytes().splitlines(keepends=True)[-1])

    patch.setattr(pipeline, "write_table", altered)
    patch.setattr(runs, "try_out", lambda *given, **more: None)


def a_number_that_is_none(patch: pytest.MonkeyPatch) -> None:
    def fit(self: Independent, *given: Any) -> Independent:
        np.log(np.array([-1.0]))
        return whole(self, *given)

    whole = Independent.fit
    patch.setattr(Independent, "fit", fit)


def a_refusal_after_the_charge(patch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any, **more: Any) -> None:
        raise ConfigError("Something should have been said before.")

    patch.setattr(runs, "fit_and_sample", refused)


def a_trial_that_stops(patch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **more: Any) -> None:
        raise ZeroDivisionError

    patch.setattr(trying_out, "fit_and_sample", broken)


def an_error_of_a_library(patch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **more: Any) -> None:
        raise ValueError("could not convert string to float")

    patch.setattr(any_declaration, "run_locally", broken)


def a_cell_in_the_sentence(patch: pytest.MonkeyPatch) -> None:
    cell = next(iter(any_declaration.cells_nobody_declared(a_case_with_words())))

    def refused(*given: Any, **more: Any) -> None:
        raise ConfigError(f"The cell {cell} cannot be used.")

    patch.setattr(any_declaration, "run_locally", refused)


def a_case_with_words() -> any_declaration.Case:
    """The first that has cells that no configuration names."""
    return first_that_ran(any_declaration.cells_nobody_declared)


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    a_bundle_that_is_not_what_it_claims: "does not hold in its own check",
    a_number_that_is_none: "numpy warned: invalid value encountered in log",
    a_refusal_after_the_charge: "refused after the charge",
    a_trial_that_stops: "was stopped by the trial",
    an_error_of_a_library: "it is no error of ours",
    a_cell_in_the_sentence: "the refusal quotes a cell",
}


ALWAYS = (a_bundle_that_is_not_what_it_claims, a_refusal_after_the_charge, a_cell_in_the_sentence)
"""One fault of a bundle, one of a charge and one of a sentence are planted by the default command."""


@pytest.mark.parametrize(
    "plant",
    [one if one in ALWAYS else pytest.param(one, marks=pytest.mark.thorough) for one in PLANTED],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_fault_is_a_failure(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = a_case_with_words() if plant is a_cell_in_the_sentence else a_plain_case()
    plant(monkeypatch)
    outcome = carried_out(case, tmp_path)
    assert outcome.how == "failed"
    assert PLANTED[plant] in outcome.words


def test_a_case_that_takes_too_long_is_a_failure() -> None:
    outcome = in_a_process(SEEDS[0], small=True, limit=0.001)
    assert (outcome.how, outcome.words) == ("failed", "took longer than 0.001 seconds")


def test_how_cases_ended_is_counted() -> None:
    outcomes = [
        Outcome(1, "ran", seconds=2.0),
        Outcome(2, "refused", "'age' has 17 values between low and high."),
        Outcome(3, "refused", "'town' has 4,000 values between low and high."),
        Outcome(4, "failed", "took longer than 300 seconds"),
    ]
    assert summary(outcomes) == [
        "    2 x '...' has N values between low and high.",
        "4 cases in 2 s",
        "ran 1 / refused 2 / failed 1",
    ]


def test_no_warning_is_kept_from_other_tests() -> None:
    """What a case listens to, it gives back."""
    with warnings.catch_warnings(record=True) as before:
        warnings.simplefilter("always")
        with any_declaration.told_meanwhile():
            pass
        warnings.warn("still heard", RuntimeWarning, stacklevel=1)
    assert len(before) == 1
