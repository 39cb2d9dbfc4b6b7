"""DP mixture: components and steps by a public rule, what a step asks, kinds that are found, columns of every sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import check_domain, dependent_codes, fitted, schema, session, task

from synth import generators
from synth.generators.mixture.dp_mixture import MOST_CLASSES, DpMixture, components_and_steps
from synth.privacy.answers import NoisyAnswer, of_kind
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import Responsibilities
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema

NAME = DpMixture.card.name


def fit(opened: PrivateSession, *, label: str | None = "outcome", **options: Any) -> DpMixture:
    made = generators.make(NAME, task(opened.schema, label), options)
    assert isinstance(made, DpMixture)
    return made.fit(opened, NullProgress())


def steps_of(opened: PrivateSession) -> list[NoisyAnswer]:
    return [one for one in of_kind(opened.answers, NoisyAnswer) if one.query.startswith("step")]


def shares_of(answer: NoisyAnswer) -> Responsibilities:
    question = answer.feature_map
    assert isinstance(question, Product)
    (shares,) = (one for one in question.factors if isinstance(one, Responsibilities))
    return shares


@pytest.mark.parametrize(
    ("noise", "rows", "expected"), [(1.0, 239, (1, 1)), (1.0, 240, (4, 8)), (1.0, 480, (8, 10)), (2.0, 480, (4, 8))]
)
def test_components_are_worth_their_noise(noise: float, rows: float, expected: tuple[int, int]) -> None:
    assert components_and_steps(noise, rows) == expected


@pytest.mark.parametrize("row_count", ["public", "private"])
def test_the_rule_counts_units_and_neighbours_and_no_exact_row(row_count: str) -> None:
    """More rows per unit and replacement cost noise, so there are fewer components; rows are those of the session."""
    wide = schema("age", "region", "smoker", "outcome", row_count=row_count)
    several = schema("age", "region", "smoker", "outcome", row_count=row_count, rows_per_unit=3)
    codes = {name: column for name, column in dependent_codes(12_000).items() if name in wide.names}
    components = [shares_of(steps_of(_fitted_on(one, codes))[-1]).dimension for one in (wide, several)]
    assert components == [8, 4] if row_count == "private" else [8, 1]


def _fitted_on(declared: Schema, codes: dict[str, np.ndarray]) -> PrivateSession:
    opened = session(declared, codes, epsilon=2.0)
    fit(opened)
    return opened


def test_a_step_asks_at_the_mixture_of_the_steps_before() -> None:
    """Twice as many components for two steps; the mixtures differ; each answer is of all classes at once."""
    opened = session(schema(), dependent_codes(2000))
    fit(opened, components=3, steps=6)
    steps = steps_of(opened)
    assert [shares_of(one).dimension for one in steps] == [6, 6, 3, 3, 3, 3]
    assert [one.value.shape[:2] for one in steps] == [(3, one) for one in (6, 6, 3, 3, 3, 3)]
    assert len({shares_of(one).key for one in steps}) == 6
    noise = [one.noise_std for one in steps]
    assert max(noise) == pytest.approx(min(noise), rel=1e-3)
    assert opened.answers[0].query == "classes"


def test_late_steps_are_averaged() -> None:
    """A mixture of many steps is no noisier than one of few: its last answer alone would be."""
    codes = {"x": np.repeat(np.arange(8), 250), "outcome": np.tile([0, 1], 1000)}
    declared = Schema((CategoryColumn("x", tuple("abcdefgh")), CategoryColumn("outcome", ("well", "ill"))))
    error = {1: 0.0, 20: 0.0}
    for steps in error:
        for key in range(8):
            made = fit(session(declared, codes, epsilon=1.0, noise_key=key), components=1, steps=steps)
            drawn = made.sample(20_000, seed=0)
            error[steps] += np.abs(np.bincount(drawn[:, 0], minlength=8) / 20_000 - 1 / 8).sum()
    assert error[20] < 2.5 * error[1]  # sqrt(20) = 4.5 times the noise if nothing were averaged


def kinds(n_rows: int = 3000) -> tuple[Schema, dict[str, np.ndarray]]:
    """Two kinds of row within each of two classes, told apart by four columns that are independent within a kind."""
    random = np.random.default_rng(4)
    label, kind = random.integers(0, 2, (2, n_rows))
    columns = {f"c{place}": (random.random(n_rows) < np.where(kind == 1, 0.9, 0.1)) * 1 for place in range(4)}
    declared = Schema(
        (*(CategoryColumn(name, ("no", "yes")) for name in columns), CategoryColumn("outcome", ("well", "ill")))
    )
    return declared, {**columns, "outcome": label}


def test_kinds_are_found() -> None:
    declared, codes = kinds()
    drawn = {}
    for components in (1, 2):
        drawn[components] = fit(session(declared, codes, noise_key=None), components=components, steps=10).sample(
            3000, 1
        )
    together = np.corrcoef(codes["c0"], codes["c1"])[0, 1]
    assert np.corrcoef(drawn[2][:, 0], drawn[2][:, 1])[0, 1] == pytest.approx(together, abs=0.06)
    assert abs(np.corrcoef(drawn[1][:, 0], drawn[1][:, 1])[0, 1]) < 0.06


def test_what_tells_kinds_apart_is_told() -> None:
    declared, codes = kinds()
    made = fit(session(declared, codes, noise_key=None), components=2, steps=10)
    (told,) = made.facts()
    assert told.value == len(told.rows) == 4
    assert sum(row[2] for row in told.rows) == pytest.approx(1.0, abs=1e-3)
    assert any("c0 yes" in str(row[3]) for row in told.rows)
    (picture,) = made.pictures()
    assert picture.columns == ("c0", "c1", "c2", "c3")
    assert picture.rows == ("well 1", "well 2", "ill 1", "ill 2")
    assert max(value for row in picture.values for value in row if value) > 0.2
    restored = DpMixture.from_state(task(declared), made._options, made.state())
    assert (restored.facts(), restored.pictures()) == (made.facts(), made.pictures())


@pytest.mark.parametrize("numbers", ["bins", "gaussian"])
@pytest.mark.parametrize("label", [None, "outcome", "age"])
def test_columns_of_every_sort(label: str | None, numbers: str) -> None:
    """No label, a label of few classes, and one of too many, which is a column like the others."""
    opened = session(schema(), dependent_codes(500), epsilon=3.0)
    made = fit(opened, label=label, components=2, steps=5, numbers=numbers)
    check_domain(made.sample(700, seed=1), schema(), 700)
    assert any(one.query == "classes" for one in opened.answers) == (label == "outcome")
    assert schema().size_of("age") > MOST_CLASSES
    assert opened.remaining_share < 1e-9
    assert len(made.facts()) == (2 if numbers == "gaussian" else 1)
    assert made.pictures()


def test_a_label_alone_is_counted() -> None:
    declared = Schema((CategoryColumn("outcome", ("well", "ill")),))
    opened = session(declared, {"outcome": np.repeat([0, 1], [150, 50])}, noise_key=None)
    made = fit(opened)
    assert np.bincount(made.sample(200, seed=0)[:, 0]).tolist() == [150, 50]
    assert made.pictures() == ()


def test_zero_and_special_values_have_places_of_their_own() -> None:
    declared = Schema((NumberColumn("gain", -10, 99_999, 1, special=(-99.0,), missing=True),))
    random = np.random.default_rng(2)
    codes = np.where(random.random(4000) < 0.6, 10, random.integers(0, 100_000, 4000))
    codes[:200], codes[200:300] = 100_010, 100_011
    made = fit(session(declared, {"gain": codes}, epsilon=5.0), label=None)
    drawn = made.sample(4000, seed=0)[:, 0]
    for code in (10, 100_010, 100_011):
        assert np.mean(drawn == code) == pytest.approx(np.mean(codes == code), abs=0.01)


def test_gaussian_components_follow_the_numbers_of_their_kind() -> None:
    random = np.random.default_rng(5)
    label = random.integers(0, 2, 4000)
    values = np.clip(np.rint(random.normal(np.where(label, 700, 300), 40)), 0, 999).astype(int)
    declared = Schema((NumberColumn("x", 0, 999, 1), CategoryColumn("outcome", ("well", "ill"))))
    opened = session(declared, {"x": values, "outcome": label}, noise_key=None)
    drawn = fit(opened, components=1, steps=3, numbers="gaussian").sample(4000, seed=2)
    for one, middle in ((0, 300), (1, 700)):
        made = drawn[drawn[:, 1] == one, 0]
        assert made.mean() == pytest.approx(middle, abs=8)
        assert made.std() == pytest.approx(40, abs=8)


def test_the_class_is_in_the_question_and_other_columns_are_counted_whole() -> None:
    opened = session(schema(), dependent_codes(300))
    fit(opened, components=2, steps=3)
    question = steps_of(opened)[0].feature_map
    assert isinstance(question, Product)
    assert isinstance(question.factors[0], OneHot)
    assert question.factors[0].columns == ("outcome",)
    assert set(question.columns) == set(schema().names)


def test_a_budget_of_any_size_is_spent_whole() -> None:
    for epsilon in (0.01, 50.0):
        made, opened = fitted(NAME, epsilon=epsilon)
        assert opened.remaining_share < 1e-6  # whole units of privacy loss are left
        check_domain(made.sample(50, seed=0), schema(), 50)
