"""The modes of KAHM behind one name, and what the record-level mode learns from whole rows."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import dependent_codes, fitted, schema, session, task

from synth import generators
from synth.errors import ConfigError
from synth.generators.kahm.record import RecordQuestions
from synth.privacy.more.row_moments import RowMoments
from synth.progress import NullProgress
from synth.reports.forecast import PlannedSession
from synth.schema import CategoryColumn, NumberColumn, Schema

PIXELS = Schema((*(NumberColumn(f"x{place}", 0, 16, 1) for place in range(40)), CategoryColumn("y", tuple("abc"))))


def pixel_codes(n_rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Three classes in forty numbers that vary together in two directions."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, 3, n_rows)
    means = np.random.default_rng(9).uniform(4, 12, (3, 40))
    directions = np.random.default_rng(8).normal(size=(2, 40))
    rows = means[classes] + 1.5 * random.normal(size=(n_rows, 2)) @ directions + random.normal(size=(n_rows, 40)) / 2
    whole = np.clip(np.rint(rows), 0, 16).astype(int)
    return {**{f"x{place}": whole[:, place] for place in range(40)}, "y": classes}


def pixels(epsilon: float, **options: object) -> np.ndarray:
    opened = session(PIXELS, pixel_codes(6000), epsilon=epsilon)
    made = generators.make("kahm", task(PIXELS, "y"), options).fit(opened, NullProgress())
    return made.sample(3000, seed=1)


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [0, 2])
def test_means_and_correlations_of_a_signal_come_back(steps: int) -> None:
    made = pixels(8.0, steps=steps)
    codes = pixel_codes(6000)
    private = np.stack([codes[name] for name in PIXELS.names], axis=1)
    for label in range(3):
        own, true = made[made[:, -1] == label, :-1], private[private[:, -1] == label, :-1]
        assert abs(len(own) / 3000 - len(true) / 6000) < 0.02
        assert np.abs(own.mean(axis=0) - true.mean(axis=0)).max() < 0.6
        difference = np.corrcoef(own.T) - np.corrcoef(true.T)
        assert np.abs(difference).mean() < 0.15


@pytest.mark.thorough
def test_smoothing_makes_rows_vary_less() -> None:
    rough, smooth = pixels(8.0, steps=0), pixels(8.0, steps=2)
    assert smooth[:, :-1].var(axis=0).sum() < rough[:, :-1].var(axis=0).sum()


@pytest.mark.thorough
def test_ranks_keep_spikes_and_categories_keep_their_frequencies_by_class() -> None:
    codes = dependent_codes(6000)
    made, _ = fitted("kahm", codes=codes, epsilon=20.0)
    rows = made.sample(6000, seed=1)
    names = schema().names
    spike = schema()["income"].levels
    place = names.index("income")
    assert abs((rows[:, place] == spike).mean() - (codes["income"] == spike).mean()) < 0.02
    for label in range(3):
        own = rows[rows[:, -1] == label, names.index("region")]
        true = codes["region"][codes["outcome"] == label]
        found, expected = (np.bincount(one, minlength=5) / len(one) for one in (own, true))
        # Class means carry the noise of class sums: here some hundredths.
        assert np.abs(found - expected).sum() / 2 < 0.09
    age = names.index("age")
    assert np.abs(np.quantile(rows[:, age], [0.1, 0.5, 0.9]) - np.quantile(codes["age"], [0.1, 0.5, 0.9])).max() <= 3


@pytest.mark.thorough
def test_questions_are_planned_without_rows() -> None:
    opened = session(PIXELS, pixel_codes(500))
    planned = PlannedSession(PIXELS, opened.budget, rows=500.0)
    RecordQuestions(planned, PIXELS.modelled, label=40, source="generator kahm").ask()
    generators.make("kahm", task(PIXELS, "y"), {"n": 5}).fit(opened, NullProgress())
    noises = [(receipt.query, receipt.noise_scale) for receipt in opened.receipts]
    assert noises == [(release.receipt.query, release.receipt.noise_scale) for release in planned.sums]
    assert [query for query, _ in noises] == [
        "one-way tables",
        "lengths of rows",
        "sum of rows",
        "class sizes and sums",
        "pairs of coordinates",
        "pairs of directions by class",
    ]


@pytest.mark.thorough
def test_offsets_and_directions_come_from_earlier_answers() -> None:
    opened = session(PIXELS, pixel_codes(2000))
    generators.make("kahm", task(PIXELS, "y"), {"n": 5}).fit(opened, NullProgress())
    asked = [release.feature_map for release in opened.sums]
    pairs = next(one for one in asked if isinstance(one, RowMoments) and one.weights == (0.0, 0.0, 1.0))
    assert pairs.offsets.shape == (3, 40)
    again = session(PIXELS, pixel_codes(2000, seed=5))  # other rows, the same noise
    generators.make("kahm", task(PIXELS, "y"), {"n": 5}).fit(again, NullProgress())
    assert [one.receipt.sensitivity for one in opened.sums] == [one.receipt.sensitivity for one in again.sums]


def test_a_label_of_many_codes_is_a_column_like_any_other() -> None:
    declared = Schema((NumberColumn("x", 0, 10, 1), CategoryColumn("y", tuple(f"v{place}" for place in range(300)))))
    codes = {"x": np.arange(200) % 11, "y": np.arange(200) % 300}
    made, _ = fitted("kahm", declared, codes, label="y")
    assert made.state()["model.means"].shape[0] == 1


@pytest.mark.parametrize("label", ["outcome", None])
def test_a_table_in_which_everything_is_missing(label: str | None) -> None:
    declared = schema()
    codes = {column.name: np.full(60, column.size - 1) for column in declared.modelled}
    made, opened = fitted("kahm", declared, codes, label=label, epsilon=20.0)
    rows = made.sample(200, seed=1)
    assert opened.remaining_share <= 1e-3
    place = declared.names.index("score")
    assert (rows[:, place] == declared["score"].size - 1).mean() > 0.5


def test_the_paper_is_refused_before_anything_is_charged() -> None:
    with pytest.raises(ConfigError, match="not differentially private"):
        generators.make("kahm", task(schema()), {"mode": "paper"})


def test_modes_promise_only_what_they_hide() -> None:
    with pytest.raises(ConfigError, match="protection: cell"):
        generators.make("kahm", task(schema()), {"mode": "cell"})
    with pytest.raises(ConfigError, match="row_count"):
        generators.make("kahm", task(schema(row_count="private")), {"mode": "rows"})
    with pytest.raises(ConfigError, match="'steps'"):
        generators.make("kahm", task(schema()), {"mode": "rows", "steps": 0})


@pytest.mark.parametrize("mode", ["rows", "record"])
def test_a_mode_is_saved_and_restored(mode: str) -> None:
    opened = session(schema(), dependent_codes(120))
    options = {"mode": mode, "n": 4}
    made = generators.make("kahm", task(schema()), options).fit(opened, NullProgress())
    assert made.perturbs_rows == (mode == "rows")
    again = generators.restore("kahm", task(schema()), options, made.state())
    assert np.array_equal(again.sample(120, seed=3), made.sample(120, seed=3))


@pytest.mark.thorough
def test_the_record_level_says_what_its_machines_did_to_the_rows_that_were_drawn() -> None:
    made = generators.make("kahm", task(PIXELS, "y"), {"block": 50})
    made.fit(session(PIXELS, pixel_codes(600), epsilon=3.0), NullProgress()).sample(300, 1)
    facts = {fact.name: fact for fact in made.facts()}
    assert "Our adaptation; not the paper's algorithm." in facts["mode"].sentence
    assert sum(row[1] for row in facts["ridge"].rows) == 300
    assert facts["machines"].value == 2 * len(facts["ridge"].rows) >= 12
    plain = generators.make("kahm", task(PIXELS, "y"), {"steps": 0})
    plain.fit(session(PIXELS, pixel_codes(600), epsilon=3.0), NullProgress()).sample(300, 1)
    assert [fact.value for fact in plain.facts()][1:] == [0]
