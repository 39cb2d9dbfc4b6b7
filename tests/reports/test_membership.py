"""Membership attacks: copied rows are caught, honest releases are not, and odd tables get a sentence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from attacked import columns_for, people, people_schema, promised, released_by, split

from synth.errors import RunCancelledError
from synth.generators import GENERATORS
from synth.reports.code_tables import UnitRows
from synth.reports.document import owner_document
from synth.reports.evidence import (
    OWNER_ONLY_SENTENCE,
    OwnerOnlyEvidence,
    SafeEvidence,
    evidence_from_dict,
    evidence_to_dict,
)
from synth.reports.figures import MAXIMUM_POINTS, Bars
from synth.reports.membership.attacks import ATTACKS, AttackScene, seeded_rows
from synth.reports.membership.evidence import owner_attacks, public_attacks
from synth.reports.membership.inference import FEWEST_UNITS, Sides, run_attacks
from synth.schema import CategoryColumn, Neighbours, NumberColumn, RowCountRule, Schema, YesNoColumn

RULES: tuple[RowCountRule, ...] = ("public", "private")
SHARE = 1 / 3
FORBIDDEN = ("anonym", "no risk", "safe from", "passes", "hence private", "privacy score")


def by_id(evidence: tuple[OwnerOnlyEvidence | SafeEvidence, ...]) -> dict[str, OwnerOnlyEvidence | SafeEvidence]:
    return {entry.id: entry for entry in evidence}


def attacked(schema: Schema, released: list[np.ndarray]) -> dict[str, OwnerOnlyEvidence]:
    train, held = split(1600, 800)
    return by_id(owner_attacks(train, held, released, schema, promised(schema), share=SHARE, seed=0))  # type: ignore[return-value]


@pytest.mark.parametrize("rule", RULES)
def test_a_generator_that_copies_rows_is_caught_by_every_attack(rule: RowCountRule) -> None:
    schema = people_schema(row_count=rule)
    train, held = split(1600, 800)
    sides = Sides.draw(train, held, neighbours=schema.neighbours, share=SHARE, seed=0)
    results = {one.attack.name: one for one in run_attacks(sides, train.codes, schema, promised(schema), seed=0)}
    for result in results.values():
        assert result.area.low > result.null_area[1], result.attack.name
    assert results["closest"].area.value > 0.95
    assert results["density"].area.value > 0.8
    assert results["closest"].is_exceeded
    assert results["density"].is_exceeded


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("generator", ["independent", "dp-hp-adaptive"])
def test_an_honest_generator_is_not(generator: str, rule: RowCountRule) -> None:
    schema = people_schema(row_count=rule)
    train, held = split(1600, 800, seed=1)
    released, ceiling = released_by(generator, train.codes, schema)
    sides = Sides.draw(train, held, neighbours=schema.neighbours, share=SHARE, seed=0)
    for result in run_attacks(sides, released, schema, ceiling, seed=0):
        assert abs(result.area.value - 0.5) < 0.09  # four standard errors of 400 and 400
        assert result.area.value < ceiling.area
        assert not result.is_exceeded


@pytest.mark.audit
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("generator", GENERATORS)
def test_no_generator_is_accused_of_its_planted_people(generator: str, rule: RowCountRule) -> None:
    schema = people_schema(row_count=rule)
    train, held = split(1600, 800, seed=2)
    # A tenth of the people, on either side, are like nobody else: these would be seen first.
    for part, side in enumerate((train, held)):
        random = np.random.default_rng(part)
        odd = random.random(len(side.units)) < 0.1
        for codes, size in zip(side.codes, schema.sizes, strict=True):
            codes[odd] = random.integers(size, size=int(odd.sum()))
    schema, (train, held) = columns_for(generator, schema, train, held)
    released, ceiling = released_by(generator, train.codes, schema)
    found = public_attacks(train, held, released, schema, ceiling, share=SHARE, seed=0)
    assert found.exceeded == ()
    assert "attacks.people" in by_id(found.evidence)


@pytest.mark.thorough
def test_owner_numbers_are_for_the_owner_and_say_what_they_mean() -> None:
    schema = people_schema()
    evidence = attacked(schema, people(1600, seed=9))
    assert set(evidence) == {
        *(f"attacks.{attack.name}.{measure}" for attack in ATTACKS for measure in ("area", "caught")),
        "attacks.hull.score",
        "attacks.people",
        "attacks.reached",
    }
    assert {type(entry) for entry in evidence.values()} == {OwnerOnlyEvidence}
    for entry in evidence.values():
        assert OWNER_ONLY_SENTENCE in entry.sentence
        assert not [word for word in FORBIDDEN if word in (entry.title + entry.sentence).lower()]
        assert evidence_from_dict(evidence_to_dict(entry)) == entry
    assert "This attack did not beat guessing (95 % interval 0." in evidence["attacks.closest.area"].sentence
    assert "That is what the guarantee predicts; it is not extra proof." in evidence["attacks.closest.area"].sentence
    assert "400 units that were trained on and 400 that were held out" in evidence["attacks.people"].sentence
    pictures = [figure for figure in evidence["attacks.reached"].figures if isinstance(figure, Bars)]
    assert len(pictures) == 2
    for picture in pictures:
        dots, guessing, ceiling = picture.series
        assert (dots.meaning, guessing.meaning, ceiling.meaning) == ("real", "floor", "ceiling")
        assert dots.errors is not None
        assert dots.below is not None
        assert min(value - below for value, below in zip(dots.values, dots.below, strict=True)) >= 0.0
        assert len(dots.values) == len(ATTACKS) <= MAXIMUM_POINTS
        assert guessing.values < ceiling.values
    assert owner_document(tuple(evidence.values()))["evidence"]


@pytest.mark.thorough
def test_a_copy_of_private_rows_is_a_warning_and_never_a_stop(caplog: pytest.LogCaptureFixture) -> None:
    train, _ = split(1600, 800)
    evidence = attacked(people_schema(), train.codes)
    warning = evidence["attacks.warning"]
    assert isinstance(warning.value, str)
    assert len(warning.value) == 8
    assert "Nothing was stopped" in warning.sentence
    assert "did better than the proof allows" in evidence["attacks.closest.area"].sentence
    # That it happened was read from private rows: no log tells.
    assert not caplog.records


@pytest.mark.thorough
def test_a_copy_of_public_rows_is_named_and_an_honest_release_is_not() -> None:
    schema = people_schema()
    train, held = split(1600, 800)
    copied = public_attacks(train, held, train.codes, schema, promised(schema), share=SHARE, seed=0)
    assert "Closest record" in copied.exceeded
    honest = public_attacks(train, held, people(1600, seed=9), schema, promised(schema), share=SHARE, seed=0)
    assert honest.exceeded == ()
    assert {type(entry) for entry in honest.evidence} == {SafeEvidence}
    assert by_id(honest.evidence)["attacks.people"].sentence.startswith("Rows of a public stand-in.")


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_report() -> None:
    schema = people_schema()
    rows, released = people(600, seed=0), people(300, seed=9)
    once, again, other = (report(schema, rows, released, seed=seed) for seed in (0, 0, 1))
    assert once == again
    assert once != other


# ------------------------------------------------------------------------------------------------------------- sides


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_unit_is_on_two_sides_and_all_its_rows_are_on_one(neighbours: Neighbours) -> None:
    random = np.random.default_rng(0)
    rows = [np.arange(900)]
    train = UnitRows([rows[0]], random.integers(300, size=900))
    held = UnitRows([rows[0] + 1000], random.integers(150, size=900))
    sides = Sides.draw(train, held, neighbours=neighbours, share=SHARE, seed=3)
    others, known = set(sides.non_members.units.tolist()), set(sides.reference.units.tolist())
    assert not others & known
    assert (sides.members.codes[0] < 1000).all()
    assert (sides.non_members.codes[0] >= 1000).all()
    for side, part in ((sides.members, train), (sides.non_members, held), (sides.reference, held)):
        for unit in side.numbers.tolist():
            assert (side.units == unit).sum() == (part.units == unit).sum()


def test_a_unit_scores_as_high_as_its_highest_row() -> None:
    side = UnitRows([np.arange(5)], np.array([7, 2, 7, 2, 9]))
    np.testing.assert_array_equal(side.numbers, [2, 7, 9])
    np.testing.assert_array_equal(side.highest(np.array([1.0, 5.0, 3.0, 4.0, -1.0])), [5.0, 3.0, -1.0])


def test_sides_are_equal_where_the_split_was_exact_and_alike_where_it_was_by_coins() -> None:
    train = UnitRows([np.zeros(8000, dtype=int)], np.arange(8000))
    held = UnitRows([np.zeros(2000, dtype=int)], np.arange(2000))
    exact = Sides.draw(train, held, neighbours=Neighbours.REPLACE, share=0.2, seed=0)
    assert exact.sizes == (1000, 1000)
    assert len(exact.reference.units) == 1000
    coins = Sides.draw(train, held, neighbours=Neighbours.ADD_REMOVE, share=0.2, seed=0)
    assert coins.sizes[0] != coins.sizes[1]
    for size in coins.sizes:
        assert abs(size - 1000) < 5 * 30
    # More were held out than trained on: then non-members are thinned.
    swapped = Sides.draw(held, train, neighbours=Neighbours.ADD_REMOVE, share=0.8, seed=0)
    for size in swapped.sizes:
        assert abs(size - 2000) < 5 * 45
    capped = Sides.draw(train, held, neighbours=Neighbours.ADD_REMOVE, share=0.2, seed=0, most=100)
    assert sum(capped.sizes) == 200
    assert capped.capped
    assert not coins.capped


# ------------------------------------------------------------------------------------------------------- odd tables


def report(
    schema: Schema, codes: list[np.ndarray], released: list[np.ndarray], *, seed: int = 0
) -> dict[str, OwnerOnlyEvidence]:
    n_train = 2 * len(codes[0]) // 3
    train = UnitRows([column[:n_train] for column in codes], np.arange(n_train))
    held = UnitRows([column[n_train:] for column in codes], np.arange(len(codes[0]) - n_train))
    return by_id(owner_attacks(train, held, released, schema, promised(schema), share=SHARE, seed=seed))  # type: ignore[return-value]


def all_missing(rows: int) -> tuple[Schema, list[np.ndarray]]:
    schema = Schema((NumberColumn("age", 0, 9, 1, missing=True), CategoryColumn("town", ("a", "b"))))
    return schema, [np.full(rows, 10), np.random.default_rng(0).integers(2, size=rows)]


def one_column(rows: int) -> tuple[Schema, list[np.ndarray]]:
    return Schema((YesNoColumn("smoker"),)), [np.random.default_rng(0).integers(2, size=rows)]


def duplicates(rows: int) -> tuple[Schema, list[np.ndarray]]:
    return Schema((NumberColumn("age", 0, 9, 1), YesNoColumn("smoker"))), [np.full(rows, 4), np.zeros(rows, dtype=int)]


def wide(rows: int) -> tuple[Schema, list[np.ndarray]]:
    schema = Schema(tuple(NumberColumn(f"n{place}", 0, 99, 1) for place in range(300)))
    return schema, [np.random.default_rng(place).integers(100, size=rows) for place in range(300)]


@pytest.mark.thorough
@pytest.mark.parametrize("table", [all_missing, one_column, duplicates, wide], ids=lambda table: table.__name__)
def test_odd_tables_are_attacked_without_a_word_of_trouble(
    table: Callable[[int], tuple[Schema, list[np.ndarray]]],
) -> None:
    schema, codes = table(600)
    fresh = [np.random.default_rng(1).permutation(column) for column in codes]
    evidence = report(schema, codes, fresh)
    for attack in ATTACKS:
        value = evidence[f"attacks.{attack.name}.area"].value
        assert isinstance(value, float)
        assert abs(value - 0.5) < 0.2
    assert "attacks.warning" not in evidence
    one_row = report(schema, codes, [column[:1] for column in fresh])
    assert "attacks.closest.area" in one_row


def test_small_tables_get_no_verdict() -> None:
    schema = people_schema()
    (entry,) = report(schema, people(200, seed=0), people(200, seed=1)).values()
    assert entry.id == "attacks.none"
    assert entry.value is None
    assert f"fewer than {FEWEST_UNITS} on either side say nothing" in entry.sentence


def test_without_a_hold_out_the_report_says_what_to_declare() -> None:
    schema = people_schema()
    train, _ = split(100, 1)
    (entry,) = owner_attacks(train, None, train.codes, schema, promised(schema), share=0.0, seed=0)
    assert "Declare 'holdout: 0.2'" in entry.sentence


def test_the_report_can_be_stopped() -> None:
    schema = people_schema()
    train, held = split(300, 200)

    def stop(done: int, total: int) -> None:
        assert 0 < done <= total
        raise RunCancelledError("The run was cancelled.")

    with pytest.raises(RunCancelledError):
        owner_attacks(train, held, train.codes, schema, promised(schema), share=0.4, seed=0, on_step=stop)


@pytest.mark.thorough
def test_attackers_see_a_sample_of_large_tables() -> None:
    rows = people(5000, seed=0)
    sample = seeded_rows(rows, 100, seed=0)
    assert len(sample[0]) == 100
    np.testing.assert_array_equal(sample[0], seeded_rows(rows, 100, seed=0)[0])
    assert seeded_rows(rows, 5000, seed=0) is rows
    scene = AttackScene(people_schema(), rows, rows)
    for attack in ATTACKS:
        assert attack.score([column[:7] for column in rows], scene).shape == (7,)
