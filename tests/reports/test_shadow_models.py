"""Shadow models: copies and bare counts are caught, honest runs are not, and the coins are those the proof needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from attacked import DELTA, people, people_schema, promised, released_by
from pretended_card import pretended_card

from synth.errors import InputError, RunCancelledError
from synth.reports.code_tables import UnitRows
from synth.reports.membership import distances
from synth.reports.membership.distances import GowerSpace
from synth.reports.membership.shadow_models import (
    FEATURES,
    MOST_TARGETS,
    ShadowGame,
    ShadowScores,
    TargetReader,
    most_exposed,
    shadow_evidence,
)
from synth.reports.report import Remade, Remake
from synth.schema import RowCountRule, Schema

RULES: tuple[RowCountRule, ...] = ("public", "private")


def table(n_rows: int, *, seed: int = 0, each: int = 1) -> UnitRows:
    return UnitRows(people(n_rows, seed=seed), np.arange(n_rows) // each)


def honest(generator: str, schema: Schema) -> Remake:
    """A run at epsilon 1 with other noise each time."""
    made = iter(range(10_000))

    def remake(rows: UnitRows) -> Remade:
        released, ceiling = released_by(generator, rows.codes, schema, seed=next(made))
        return Remade(released, ceiling.receipts)

    return each(remake)


def each(remake: Callable[[UnitRows], Remade]) -> Remake:
    return lambda several: [remake(rows) for rows in several]


def copying(schema: Schema) -> Remake:
    return each(lambda rows: Remade(rows.codes, promised(schema).receipts))


def came_to(scores: ShadowScores, schema: Schema) -> dict[str, float | int | str | bool | None]:
    found = shadow_evidence(scores, schema, epsilon=1.0, delta=DELTA, seed=0)
    return {entry.id.removeprefix("attacks.shadow."): entry.value for entry in found}


@pytest.mark.parametrize("rule", RULES)
def test_a_generator_that_copies_rows_is_caught(rule: RowCountRule) -> None:
    schema = people_schema(row_count=rule)
    game = ShadowGame.draw(table(300), schema, runs=16, seed=0)
    found = came_to(game.play(copying(schema)), schema)
    assert float(found["area"]) > 0.95  # type: ignore[arg-type]
    assert float(found["caught"]) > 0.9  # type: ignore[arg-type]
    assert len(str(found["warning"])) == 8


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
def test_an_honest_generator_is_not(rule: RowCountRule) -> None:
    schema = people_schema(row_count=rule)
    game = ShadowGame.draw(table(300, seed=1), schema, runs=32, seed=0)
    scores = game.play(honest("independent", schema))
    found = came_to(scores, schema)
    error = np.sqrt((1 / len(scores.members) + 1 / len(scores.non_members)) / 12)
    # What is proven, and four standard errors.
    assert abs(float(found["area"]) - 0.5) < 0.08 + 4 * error  # type: ignore[arg-type]
    assert "warning" not in found


def test_counts_without_noise_are_caught_although_no_row_is_copied() -> None:
    schema = people_schema()
    rows = table(300, seed=2)

    def columns_shuffled(given: UnitRows) -> Remade:
        random = np.random.default_rng(given.codes[1].astype(int).sum())
        return Remade([random.permutation(codes) for codes in given.codes], promised(schema).receipts)

    found = came_to(ShadowGame.draw(rows, schema, runs=64, seed=0).play(each(columns_shuffled)), schema)
    assert float(found["area"]) > 0.8  # type: ignore[arg-type]
    assert "warning" in found


@pytest.mark.parametrize("rule", RULES)
def test_a_run_has_its_units_in_or_out_and_everybody_else_in(rule: RowCountRule) -> None:
    schema = people_schema(row_count=rule, rows_per_unit=3)
    rows = table(600, each=3)
    game = ShadowGame.draw(rows, schema, runs=16, seed=0)
    assert len(game.targets) == MOST_TARGETS
    assert not set(game.targets.tolist()) & set(game.donors.tolist())
    assert 0.35 < game.coins.mean() < 0.65
    again = ShadowGame.draw(rows, schema, runs=16, seed=0)
    np.testing.assert_array_equal(game.coins, again.coins)
    for run in range(3):
        made = game.table(run)
        for place, target in enumerate(game.targets.tolist()):
            mine = made.of(np.array([target]))
            if game.coins[run, place]:
                np.testing.assert_array_equal(mine.codes, rows.of(np.array([target])).codes)
            elif rule == "private":
                assert len(mine.units) == 0
            else:
                np.testing.assert_array_equal(mine.codes, rows.of(game.donors[place : place + 1]).codes)
        others = np.setdiff1d(rows.numbers, game.targets)
        np.testing.assert_array_equal(made.of(others).codes, rows.of(others).codes)
        assert (len(made.units) == len(rows.units)) == (rule == "public")


def test_the_most_exposed_are_those_who_are_like_nobody_else() -> None:
    schema = people_schema()
    rows = table(2000)
    alone = [3, 700, 1500]
    for codes, size in zip(rows.codes, schema.sizes, strict=True):
        codes[:] = np.minimum(codes, size // 2)
        codes[alone] = size - 1 - np.arange(3) % max(1, size // 4)
    assert set(most_exposed(rows, schema, number=3).tolist()) == set(alone)
    # Somebody's own other rows do not hide them.
    twice = UnitRows([np.concatenate([codes, codes[alone]]) for codes in rows.codes], np.append(rows.units, alone))
    assert set(most_exposed(twice, schema, number=3).tolist()) == set(alone)


def test_features_are_what_they_say() -> None:
    schema = people_schema()
    rows, released = table(40), people(500, seed=5)
    read = TargetReader.of(rows, schema, seed=0).read(released)
    assert read.shape == (40, len(FEATURES))
    apart = GowerSpace.of(schema).between(rows.codes, released)
    np.testing.assert_allclose(read[:, 0], -apart.min(axis=1))
    np.testing.assert_allclose(read[:, 1], np.log(np.exp(-14 * apart).sum(axis=1)), rtol=1e-6)
    smoker = np.bincount(released[4], minlength=3)[rows.codes[4]]
    assert (read[:, 3] <= np.log((smoker + 0.5) / 501) + 1e-12).all()
    assert (read[:, 5] <= read[:, 3] + 1e-12).all()
    both = TargetReader.of(UnitRows(rows.codes, np.arange(40) // 2), schema, seed=0).read(released)
    np.testing.assert_allclose(both, read.reshape(20, 2, -1).max(axis=1))


def test_a_card_chooses_the_same_targets_and_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, rows, released = people_schema(), table(300), people(500, seed=5)
    games = [ShadowGame.draw(rows, schema, runs=16, seed=0)]
    readers = [TargetReader.of(rows, schema, seed=0)]
    monkeypatch.setattr(distances, "_WORTH_A_CARD", 1)
    with pretended_card(monkeypatch) as traffic:
        games.append(ShadowGame.draw(rows, schema, runs=16, seed=0, device="cuda"))
        assert traffic.downloads == 1
        readers.append(TargetReader.of(rows, schema, seed=0, device="cuda"))
        read = readers[1].read(released)
        assert traffic.downloads == 2
    np.testing.assert_array_equal(games[0].targets, games[1].targets)
    np.testing.assert_array_equal(readers[0].read(released), read)


def test_too_few_runs_or_units_are_refused_and_too_few_coins_get_no_verdict() -> None:
    schema = people_schema()
    with pytest.raises(InputError, match="at least 16 runs, got 15"):
        ShadowGame.draw(table(100), schema, runs=15, seed=0)
    with pytest.raises(InputError, match="at least 10 units"):
        ShadowGame.draw(table(9), schema, runs=16, seed=0)
    scores = ShadowGame.draw(table(40), schema, runs=16, seed=0).play(copying(schema))
    (entry,) = shadow_evidence(scores, schema, epsilon=1.0, delta=DELTA, seed=0)
    assert entry.id == "attacks.shadow.none"
    assert "No verdict: over 8 runs, 4 units" in entry.sentence


def test_it_can_be_stopped() -> None:
    schema = people_schema()

    def stop(done: int, of: int) -> None:
        assert (done, of) == (1, 16)
        raise RunCancelledError("The run was cancelled.")

    with pytest.raises(RunCancelledError):
        ShadowGame.draw(table(100), schema, runs=16, seed=0).play(copying(schema), on_step=stop)


def test_a_generator_that_ignores_its_rows_gives_guesses() -> None:
    schema = people_schema()
    same = Remade(people(200, seed=8), promised(schema).receipts)
    scores = ShadowGame.draw(table(200), schema, runs=16, seed=0).play(each(lambda rows: same))
    assert len(set(np.round(scores.members, 12))) == 1
    assert came_to(scores, schema)["area"] == 0.5
