"""Guesses of a linear classifier are data: the class of the largest score, and how far that lies above the next."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from questions import guesses_of_each_kind, small_codes

from synth.bundle.answers import from_description
from synth.errors import PrivacyError
from synth.privacy.feature_maps import Constant
from synth.privacy.more.linear_guesses import CONFIDENCE_STEPS, LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import within_reach
from synth.privacy.more.row_moments import RowMoments

KINDS = guesses_of_each_kind()


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_the_largest_score_in_float64(kind: str) -> None:
    guess, codes = KINDS[kind], small_codes(3000, seed=9)
    scores = guess.features.evaluate(codes) @ guess.parameters.T
    scores = scores if scores.shape[1] > 1 else np.column_stack([np.zeros(3000), scores])
    ordered = np.sort(scores, axis=1)
    found, confidence = guess.guesses(codes.__getitem__, 3000)
    np.testing.assert_allclose(confidence / CONFIDENCE_STEPS, ordered[:, -1] - ordered[:, -2], atol=2e-3)
    # Of classes that are as likely the first is guessed.
    clear = np.abs(ordered[:, -1] - ordered[:, -2]) > 2e-3
    np.testing.assert_array_equal(found[clear], scores.argmax(axis=1)[clear])
    assert set(found.tolist()) == set(range(scores.shape[1])) - {2}, "a class is never guessed"
    cells = guess.evaluate(codes).argmax(axis=1)
    np.testing.assert_array_equal(cells // guess.shape[1], found)
    own = guess.edges[found]
    np.testing.assert_array_equal(cells % guess.shape[1], (confidence[:, None] > own).sum(axis=1))


def test_descriptions_give_the_same_guess_back_and_others_are_others() -> None:
    for guess in KINDS.values():
        again = from_description(*guess.describe())
        assert isinstance(again, LinearGuess)
        assert again.is_same(guess)
        assert again.key == guess.key
        others = [dataclasses.replace(guess, parameters=guess.parameters + 2.0**-20)]
        others += [dataclasses.replace(guess, edges=guess.edges + 1)] if guess.edges.size else []
        for other in others:
            assert not other.is_same(guess)
            assert other.key != guess.key


PLAIN = {"features": Constant(), "parameters": np.array([[0.5]]), "edges": np.zeros((2, 1), int)}
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "parameters of another number of features": ({"parameters": np.zeros((1, 2))}, "1 finite parameters"),
    "parameters without classes": ({"parameters": np.zeros(1)}, "at most 256 classes"),
    "a parameter that is no number": ({"parameters": np.array([[np.nan]])}, "finite"),
    "a score that would be rounded": ({"parameters": np.array([[2.0**15]])}, "could reach"),
    "one score of several that would be rounded": ({"parameters": np.array([[0.5], [2.0**15]])}, "could reach"),
    "edges of another number of classes": ({"edges": np.zeros((3, 1), int)}, "edges of confidence for every class"),
    "edges that fall": ({"edges": np.array([[2, 1], [1, 2]])}, "none falling"),
    "features that are no table": (
        {"features": RowMoments((Lookup("income", np.ones((301, 1))),), 1.0, (0.0, 1.0, 0.0))},
        "made of",
    ),
}


def test_parameters_of_several_scores_are_shortened_together_until_the_largest_is_within_reach() -> None:
    short = within_reach(Constant(), np.array([[1.0], [2.0**16]]))
    assert 2.0**13 < short.max() <= 2.0**14
    assert short[1, 0] / short[0, 0] == 2.0**16


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_guess_is_refused(wrong: str) -> None:
    changes, words = WRONG[wrong]
    with pytest.raises(PrivacyError, match=words):
        LinearGuess(**{**PLAIN, **changes})  # type: ignore[arg-type]
