"""Sets of many columns: asked where a first one stands out, and nowhere else; drawn again from what is kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from simulated import session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive import dp_hp_adaptive, whole_rows
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.models.cells import CellsOfSet
from synth.models.centres import CellsOfCentres
from synth.models.markov_random_field import MarkovRandomField
from synth.models.pool import CountedCells, TiltedPool, effective_rows
from synth.privacy.answers import of_kind
from synth.privacy.selection import Selection
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn

ODD = ("c0", "c1", "c2", "label")


def parity(n_rows: int, *, odd: bool = True) -> tuple[Schema, dict[str, np.ndarray]]:
    """Seven columns and a label: whether an odd number of the first three is 1, which no two of them tell."""
    random = np.random.default_rng(0)
    codes = {f"c{d}": random.integers(0, 2, n_rows) for d in range(7)}
    codes["label"] = (codes["c0"] + codes["c1"] + codes["c2"]) % 2 if odd else random.integers(0, 2, n_rows)
    return Schema(tuple(map(YesNoColumn, codes)), row_count="public"), codes


def two_causes() -> tuple[Schema, dict[str, np.ndarray]]:
    """Five numbers that follow two causes, a category that does not, and a label that one cause tells."""
    random = np.random.default_rng(3)
    causes = random.normal(size=(6000, 2))
    told = np.rint(20 * (causes @ random.normal(size=(2, 5)) + random.normal(size=(6000, 5)))).astype(int)
    codes = {f"n{d}": np.clip(told[:, d] + 60, 0, 120) for d in range(5)}
    codes["n0"][::7] = 121
    codes["kind"], codes["label"] = random.integers(0, 4, 6000), (causes[:, 0] > 0).astype(int)
    schema = Schema(
        (
            NumberColumn("n0", 0, 120, 1, missing=True),
            *(NumberColumn(f"n{d}", 0, 120, 1) for d in range(1, 5)),
            CategoryColumn("kind", tuple("abcd")),
            YesNoColumn("label"),
        ),
        row_count="public",
    )
    return schema, codes


def opened_on(*, odd: bool = True, key: int = 0) -> PrivateSession:
    return session(*parity(4000, odd=odd), epsilon=2.0, noise_key=key)


def fit(opened: PrivateSession | RecordedSession, **options: str) -> DpHpAdaptive:
    made = generators.make(DpHpAdaptive.card.name, task(opened.schema, "label"), options)
    return made.fit(opened, NullProgress())


def wide(opened: PrivateSession) -> list[str]:
    return [receipt.query for receipt in opened.receipts if receipt.query.startswith("wide table")]


def by_centre(opened: PrivateSession) -> list[str]:
    return [receipt.query for receipt in opened.receipts if receipt.query.startswith("rows by nearest centre")]


def agreement(rows: np.ndarray) -> float:
    return float(np.mean(rows[:, :3].sum(axis=1) % 2 == rows[:, -1]))


@pytest.fixture(scope="module")
def found() -> tuple[PrivateSession, DpHpAdaptive, list[CountedCells]]:
    """A run that finds the parity, and every table that its pool was tilted to."""
    seen: list[CountedCells] = []
    right = whole_rows.tilted

    def noted(pool, counted, *args, **more):
        seen.extend(counted)
        return right(pool, counted, *args, **more)

    opened = opened_on()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_rows, "tilted", noted)
        made = fit(opened)
    return opened, made, seen


@pytest.mark.thorough
def test_a_class_that_three_columns_tell_together_is_found(found):
    opened, made, _ = found
    chosen = [set(one.candidate.columns) for one in of_kind(opened.answers, Selection) if "wide" in one.query]
    assert chosen[0] >= set(ODD)
    assert isinstance(made._model, TiltedPool)
    assert agreement(made.sample(4000, seed=1)) > 0.95
    assert opened.remaining_share < 1e-8


@pytest.mark.thorough
def test_where_nothing_stands_out_one_set_is_asked_and_the_model_is_the_field():
    opened = opened_on(odd=False)
    made = fit(opened)
    assert len(wide(opened)) == 1
    assert isinstance(made._model, MarkovRandomField)
    assert opened.remaining_share < 1e-8
    # Of too few rows not even one.
    silent = session(*parity(400), epsilon=2.0)
    fit(silent)
    assert not wide(silent)


@pytest.mark.thorough
def test_rows_are_the_same_from_what_is_kept_and_from_recorded_answers(found):
    opened, made, _ = found
    state = made.state()
    # No row is kept: nothing is as long as a pool.
    assert max(map(len, state.values())) < 2000
    again = DpHpAdaptive.from_state(task(opened.schema, "label"), made._options, state)
    replayed = fit(RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers))
    for n_rows in (1, 999):
        rows = made.sample(n_rows, seed=3)
        assert (again.sample(n_rows, seed=3) == rows).all()
        assert (replayed.sample(n_rows, seed=3) == rows).all()
    assert (made.sample(999, seed=4) != rows).any()


@pytest.mark.thorough
def test_a_pool_is_tilted_to_nothing_but_answers(found):
    opened, _, seen = found
    of_pool = ("wide table", "rows by nearest centre")
    answered = [one.value.reshape(-1) for one in opened.sums if one.receipt.query.startswith(of_pool)]
    asked = [one for one in seen if not one.held]
    assert asked
    assert all(any(np.array_equal(one.counts, value) for value in answered) for one in asked)


@pytest.mark.thorough
def test_tables_that_are_sums_of_larger_ones_are_what_the_pool_holds(monkeypatch: pytest.MonkeyPatch):
    compared = []
    right = whole_rows.WholeRows._tables

    def both(self):
        summed = right(self)
        compared.extend(zip(summed, [self._expected(one.cells) for one in self._sets], strict=True))
        counted = sum(one is None for one in self._within)
        assert 0 < counted < len(summed) / 2
        return summed

    monkeypatch.setattr(whole_rows.WholeRows, "_tables", both)
    fit(opened_on())
    assert compared
    for summed, counted in compared:
        np.testing.assert_allclose(summed, counted, rtol=1e-9, atol=1e-6)


def test_a_set_cut_in_two_is_a_sum_of_the_same_cut_in_four_and_not_one_cut_in_three():
    random = np.random.default_rng(0)
    masses = random.random((2, 9))
    sets = [
        CellsOfSet((0, 1), tuple(whole_rows.equal_parts(mass, np.arange(9), b) for mass in masses)) for b in (2, 3, 4)
    ]
    rows = random.integers(0, 9, (1000, 2))
    two, _, four = (
        np.bincount(np.ravel_multi_index([one.parts[d][rows[:, d]] for d in (0, 1)], one.shape), minlength=one.size)
        for one in sets
    )
    found = whole_rows._finer(sets)
    assert found[0] is not None
    assert found[1:] == [None, None]
    of, cells = found[0]
    assert of == 2
    np.testing.assert_array_equal(np.bincount(cells, four, sets[0].size), two)


@pytest.mark.thorough
def test_columns_are_cut_in_two_and_in_four(monkeypatch: pytest.MonkeyPatch):
    found: set[int] = set()
    right = whole_rows._Candidates.sets

    def noted(self):
        sets = right(self)
        found.update(size for one in sets for d, size in zip(one.cells.columns, one.cells.shape, strict=True) if d < 3)
        return sets

    monkeypatch.setattr(whole_rows._Candidates, "sets", noted)
    fit(session(*two_causes(), epsilon=4.0, noise_key=1))
    assert found == {2, 4}


@pytest.mark.thorough
def test_the_question_puts_a_row_where_the_pool_does(monkeypatch: pytest.MonkeyPatch):
    """Numbers with and without values, categories, more parts than a weight of a half would carry; with a label."""
    asked = []
    right = whole_rows.WholeRows._question_of

    def noted(self, cells):
        asked.append((right(self, cells), cells, self._pool, self._bins))
        return right(self, cells)

    monkeypatch.setattr(whole_rows.WholeRows, "_question_of", noted)
    monkeypatch.setattr(dp_hp_adaptive, "STANDS_OUT", -9.0)
    monkeypatch.setattr(whole_rows, "CLEAR", -9.0)
    random = np.random.default_rng(3)
    opened = session(*two_causes(), epsilon=4.0, noise_key=1)
    fit(opened)
    assert by_centre(opened)
    assert len(asked) >= 2
    for question, cells, pool, bins in asked:
        assert len(cells.features) == 6
        some = np.arange(0, pool.n_rows, 101)
        code_of = [one.codes(pool.columns[d][some].astype(np.int64), random) for d, one in enumerate(bins)]
        features = question.evaluate({name: own for name, own in zip(opened.schema.names, code_of, strict=True)})
        assert (features.sum(axis=1) == 1).all()
        np.testing.assert_array_equal(features.argmax(axis=1), cells.index(pool)[some])


@pytest.mark.thorough
def test_rows_are_counted_by_centres_where_sets_told_something_to_the_end(found, monkeypatch: pytest.MonkeyPatch):
    """Not in a parity, which one set tells whole."""
    monkeypatch.setattr(dp_hp_adaptive, "STANDS_OUT", -9.0)
    opened = session(*two_causes(), epsilon=4.0, noise_key=3)  # with every second one the sets are soon dull
    made = fit(opened)
    assert by_centre(opened)
    assert any(isinstance(one, CellsOfCentres) for one in made._model.cells)
    again = DpHpAdaptive.from_state(task(opened.schema, "label"), made._options, made.state())
    replayed = fit(RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers))
    rows = made.sample(999, seed=3)
    assert (again.sample(999, seed=3) == rows).all()
    assert (replayed.sample(999, seed=3) == rows).all()
    of_parity, of_one_set, _ = found
    assert not by_centre(of_parity)
    assert all(isinstance(one, CellsOfSet) for one in of_one_set._model.cells)
    assert of_parity.remaining_share < 1e-8


@pytest.mark.thorough
def test_too_few_rows_for_centres_leave_the_rest_to_the_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole_rows, "_ROWS_PER_NOISE", 1e9)
    monkeypatch.setattr(dp_hp_adaptive, "STANDS_OUT", -9.0)
    opened = session(*two_causes(), epsilon=4.0, noise_key=1)
    fit(opened)
    assert wide(opened)
    assert not by_centre(opened)
    assert opened.receipts[-1].query.startswith("one-way tables again")
    assert opened.remaining_share < 1e-8


@pytest.mark.thorough
def test_pairs_go_on_where_too_few_rows_would_carry_a_pool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole_rows, "_LEAST_EFFECTIVE", 99_999.0)
    opened = opened_on()
    made = fit(opened)
    assert len(wide(opened)) == 1
    assert opened.remaining_share < 1e-8
    assert isinstance(made._model, TiltedPool)
    assert effective_rows(made._model.pool(0)[1]) >= 99_999.0


def test_parts_hold_about_as_much_and_follow_the_order():
    mass = np.array([0.05, 0.3, 0.05, 0.3, 0.3])
    order = np.array([4, 3, 2, 1, 0])
    parts = whole_rows.equal_parts(mass, order, 3)
    assert (np.diff(parts[order]) >= 0).all()
    assert sorted(set(parts.tolist())) == [0, 1, 2]
    assert np.abs(np.bincount(parts, mass) - 1 / 3).max() < 0.1
    # A bin that holds nearly all leaves fewer parts, and none of them empty.
    assert set(whole_rows.equal_parts(np.array([0.98, 0.01, 0.01]), np.arange(3), 3).tolist()) == {0, 1}


@pytest.mark.thorough
def test_candidates_follow_from_the_number_of_rows_and_leave_enough_to_a_cell(monkeypatch: pytest.MonkeyPatch):
    offered: list[tuple[tuple[str, ...], int]] = []
    right = PrivateSession.noisy_max

    def noisy_max(self, candidates, **asked):
        if "wide" in asked["query"]:
            offered.extend((one.columns, one.one_hot.dimension) for one in candidates)
        return right(self, candidates, **asked)

    monkeypatch.setattr(PrivateSession, "noisy_max", noisy_max)
    fit(opened_on(odd=False))
    assert max(cells for _, cells in offered) <= 4000 / 8
    names = [f"c{d}" for d in range(7)]
    every = {tuple(sorted((*some, "label"))) for n in (2, 3, 4, 5) for some in itertools.combinations(names, n)}
    every |= {some for n in (3, 4) for some in itertools.combinations(names, n)}
    assert {tuple(sorted(columns)) for columns, _ in offered} == every
