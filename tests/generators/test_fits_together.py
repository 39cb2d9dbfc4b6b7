"""Several fits side by side: what a session answers decides its own fit and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pretended_card import pretended_card
from simulated import FAST, dependent_codes, schema_for, session, task

from synth.errors import InputError
from synth.estimators import make, restore
from synth.generators import GENERATORS
from synth.generators.neural import NeuralGenerator
from synth.progress import NullProgress

TRAINED = ("dp-hp", "dp-merf")


def fitted(name: str, seeds: tuple[int, ...], *, together: bool = True, label: str | None = None) -> list[Any]:
    schema = schema_for(name)
    models = [make(name, task(schema, label), FAST[name]) for _ in seeds]
    sessions = [session(schema, dependent_codes(300, seed=seed), epsilon=100.0) for seed in seeds]
    if together:
        type(models[0]).fit_together(models, sessions, NullProgress())
    else:
        for model, asked in zip(models, sessions, strict=True):
            model.fit(asked, NullProgress())
    return models


@pytest.mark.parametrize("name", TRAINED)
def test_a_fit_is_decided_by_its_own_answers_alone(name: str) -> None:
    first, second = fitted(name, (1, 2))
    for one, seed in ((first, 1), (second, 2)):
        (alone,) = fitted(name, (seed,), together=False)
        np.testing.assert_allclose(one.state()["weights"], alone.state()["weights"], atol=1e-3)
        # Last bits, which depend on the processor, move a number of 200,000 levels by one or two.
        apart = np.abs(one.sample(2000, seed=1) - alone.sample(2000, seed=1))
        assert np.mean(apart <= 1e-4 * np.array(schema_for(name).sizes)) > 0.99
    assert np.abs(first.state()["weights"] - second.state()["weights"]).mean() > 1e-3


@pytest.mark.parametrize("name", ["independent", *TRAINED])
def test_fits_with_a_label_have_its_classes_in_their_own_proportions(name: str) -> None:
    for one, seed in zip(fitted(name, (1, 2, 3), label="outcome"), (1, 2, 3), strict=True):
        (alone,) = fitted(name, (seed,), together=False, label="outcome")
        shares = [np.bincount(model.sample(3000, seed=4)[:, -1], minlength=3) / 3000 for model in (one, alone)]
        np.testing.assert_allclose(*shares, atol=1e-3)


@pytest.mark.four_cases
@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_only_a_card_is_worth_many_fits_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_for(name)
    assert make(name, task(schema, device="cpu"), FAST[name]).fits_together == 1
    with pretended_card(monkeypatch):
        there = make(name, task(schema, device="cuda"), FAST[name]).fits_together
    assert 1 <= there <= 256
    assert (there > 1) == issubclass(type(make(name, task(schema), FAST[name])), NeuralGenerator)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRAINED)
def test_many_fits_cost_a_card_as_many_operations_as_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def operations(fits: int) -> int:
        schema = schema_for(name)
        with pretended_card(monkeypatch) as traffic:
            models = [make(name, task(schema, device="cuda"), FAST[name]) for _ in range(fits)]
            sessions = [session(schema, dependent_codes(100)) for _ in range(fits)]
            released = [model.ask(asked, NullProgress()) for model, asked in zip(models, sessions, strict=True)]
            traffic.forget()
            models[0].train(models, released, NullProgress())
            return traffic.operations

    assert operations(8) < 1.5 * operations(1)


@pytest.mark.parametrize("name", TRAINED)
def test_a_network_for_other_columns_is_refused_in_a_sentence(name: str) -> None:
    (model,) = fitted(name, (1,), together=False)
    state = dict(model.state())
    for forged in (state["weights"][:-1], state["weights"].reshape(1, -1), None):
        given = {key: value for key, value in state.items() if key != "weights"}
        if forged is not None:
            given["weights"] = forged
        with pytest.raises(InputError, match=r"not one for the declared columns"):
            restore(name, task(schema_for(name), None), FAST[name], given)
