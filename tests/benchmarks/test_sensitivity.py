"""Constants that were chosen: every one that a card lists is there, and is halved and doubled where it is used."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import sensitivity
from sensitivity import AS_IT_IS, changed, set_to, show, title_of, value_of
from tables import Table

from synth.generators import GENERATORS, hermite, row_network
from synth.generators.adaptive.whole_rows import sets_are_few
from synth.generators.hermite import dp_hp
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn

LISTED = [(name, one) for name, card in GENERATORS.items() for one in card.constants]


@pytest.mark.parametrize(("generator", "constant"), LISTED, ids=lambda each: getattr(each, "name", each))
def test_a_listed_constant_is_a_number_that_can_be_halved_and_doubled(generator: str, constant: object) -> None:
    value = value_of(generator, constant)  # type: ignore[arg-type]
    assert changed(value, 2.0) > value > 0
    assert changed(value, 0.5) < value
    assert constant.why  # type: ignore[attr-defined]
    assert constant.tuned_on  # type: ignore[attr-defined]


def test_a_constant_is_set_where_it_is_used_and_set_back() -> None:
    (hidden,) = (one for one in hermite.CONSTANTS if one.name == "HIDDEN")
    (turns,) = (one for one in hermite.CONSTANTS if one.name == "TURNS")
    before = row_network.HIDDEN
    layout = row_network.OutputHeads(Schema((YesNoColumn("ill"),)), None)
    with set_to(hidden, 7), set_to(turns, 5):
        assert len(row_network.RowNetwork.drawn(layout, classes=1, seed=0).first) == 7
        assert dp_hp.TURNS == 5
    assert (before, 2) == (row_network.HIDDEN, dp_hp.TURNS)


@pytest.mark.parametrize("generator", GENERATORS)
def test_no_two_constants_of_a_generator_share_a_cell(generator: str) -> None:
    titles = [title_of(one) for one in GENERATORS[generator].constants]
    assert len(set(titles)) == len(titles)


def test_a_share_that_is_doubled_stays_a_share() -> None:
    assert (changed(0.2, 2.0), changed(0.5, 2.0), changed(0.9, 2.0)) == pytest.approx((0.4, 0.75, 0.95))
    assert (changed(3, 0.5), changed(1.5, 2.0)) == (2, 3.0)


def test_a_constant_that_one_table_feels_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = argparse.Namespace(
        generator="dp-hp", tables=["scm_tree", "wine_white"], seeds=[1, 2], factors=sensitivity.FACTORS
    )
    constants = [one for one in hermite.CONSTANTS if one.name in ("gamma", "split")]
    done = {}
    for name, factor in (AS_IT_IS, *((one.name, factor) for one in constants for factor in sensitivity.FACTORS)):
        for table in asked.tables:
            moved = 0.1 if (name, factor, table) == ("gamma", 2.0, "scm_tree") else 0.0
            for seed in asked.seeds:
                found = {"tv2": 0.1 + moved + 0.001 * seed, "tv3": 0.2 + 0.001 * seed, "auc": 0.8 + 0.001 * seed}
                done["dp-hp", name, factor, table, seed] = found
    show(asked, constants, done)
    said = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in said if "x" not in line][1:-1] == ["one table alone", "nowhere"]
    # Five degrees of freedom of every table: 5.5 errors are as rare as 3 are of a variance that is known.
    assert said[-1].split() == ["felt", "from", "5.5", "5.5"]
    assert "-141.4" in said[2] or "-141.4" in said[1]


def test_what_one_seed_alone_says_is_felt_by_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A variance of two degrees of freedom is hardly known: five of its errors are nothing."""
    asked = argparse.Namespace(generator="dp-hp", tables=["scm_tree"], seeds=[1], factors=sensitivity.FACTORS)
    constants = [one for one in hermite.CONSTANTS if one.name == "gamma"]
    done = {("dp-hp", *AS_IT_IS, "scm_tree", 1 + 1000 * turn): _found(0.001 * turn) for turn in range(3)}
    done |= {("dp-hp", "gamma", factor, "scm_tree", 1): _found(0.007) for factor in sensitivity.FACTORS}
    show(asked, constants, done)
    said = capsys.readouterr().out.splitlines()
    assert "-5.2" in said[1]
    assert said[3].strip() == "nowhere"
    assert said[-1].split() == ["felt", "from", "19.2"]


def _found(moved: float) -> dict[str, float]:
    return {"tv2": 0.1 + moved, "tv3": 0.2 + moved, "auc": 0.8}


def test_a_table_with_its_first_numbers_keeps_its_label_and_its_rows_to_test_on() -> None:
    columns = (NumberColumn("a", 0, 9, 1), CategoryColumn("y", ("no", "yes")), NumberColumn("b", 0, 4, 1))
    codes = np.array([[1, 0, 2], [3, 1, 4]])
    table = Table("made up", Schema((*columns, NumberColumn("c", 0, 1, 1))), "y", np.c_[codes, [0, 1]])
    few, test = sensitivity.with_first_numbers(table, table.codes[1:], 2)
    assert few.schema.names == ("a", "y", "b")
    assert few.codes.tolist() == codes.tolist()
    assert test.tolist() == codes[1:].tolist()
    assert sensitivity.with_first_numbers(table, test, None)[0] is table


def test_rows_of_ordered_columns_are_compared_by_their_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that returns the real rows is off by nothing; of the order, only who declares it is told."""
    table, _, told = sensitivity.ruled("trips:undeclared")
    assert "let_out >= picked_up" in sensitivity.ruled("trips")[2]
    assert told == ("discount <= fare",)
    right = SimpleNamespace(sample=lambda n_rows, seed: table.codes)
    monkeypatch.setattr(sensitivity.rules, "fitted", lambda *given, **options: right)
    found = sensitivity.measure_by_rules("trips:undeclared", "dp-hp-adaptive", {}, 1)
    assert {name: found[name] for name in ("tv2", "tv3", "lengths")} == pytest.approx(
        {"tv2": 0.0, "tv3": 0.0, "lengths": 0.0}, abs=1e-12
    )
    right.sample = lambda n_rows, seed: np.random.default_rng(seed).permuted(table.codes, axis=0)
    other = sensitivity.measure_by_rules("trips:undeclared", "dp-hp-adaptive", {}, 1)
    assert other.pop(sensitivity.ROWS) != found[sensitivity.ROWS]
    assert min(other.values()) > 0.02


def test_a_constant_is_reached_where_its_line_is_run() -> None:
    listed = list(GENERATORS["dp-hp-adaptive"].constants)
    reached: set[str] = set()
    with sensitivity.noting(listed, reached):
        sets_are_few([], None)
    assert reached == {"whole_rows._LEAST_WEIGHED"}


def test_noise_is_the_same_for_a_seed_and_only_inside() -> None:
    def drawn() -> bytes:
        return os.urandom(8)

    with sensitivity.known_noise("titanic", 1):
        first = drawn()
    with sensitivity.known_noise("titanic", 1):
        again = drawn()
    with sensitivity.known_noise("titanic", 2):
        other = drawn()
    assert first == again != other
    assert drawn() != first


def test_a_table_that_does_not_reach_a_constant_and_one_that_it_leaves_alone_are_told_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = argparse.Namespace(generator="dp-hp", tables={"a": "a", "b": "b"}, seeds=[1], factors=(2.0,))
    constants = [one for one in hermite.CONSTANTS if one.name == "gamma"]
    done = {}
    for at, reached in (("a", []), ("b", ["gamma"])):
        for seed in sensitivity.seeds_of(asked, ""):
            kept = {sensitivity.ROWS: f"{seed}", sensitivity.REACHED: reached}
            done["dp-hp", *AS_IT_IS, at, seed] = _found(0.001 * seed) | kept
    done["dp-hp", "gamma", 2.0, "b", 1] = _found(0.001) | {sensitivity.ROWS: "1"}
    show(asked, constants, done)
    assert capsys.readouterr().out.splitlines()[1].split()[-2:] == [".", "="]
