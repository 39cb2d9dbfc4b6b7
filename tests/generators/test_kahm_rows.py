"""The two modes of KAHM that let rows out one by one: what they make, keep, hand out and refuse."""

from __future__ import annotations

import numpy as np
import pytest
from recorded_noise import RecordedNoise
from simulated import COLUMNS, check_domain, dependent_codes, task

from synth.bundle.recorded_session import RecordedSession
from synth.errors import ConfigError, InputError
from synth.generators.kahm import KahmOptions
from synth.generators.kahm.blocks import MOST_CLASSES
from synth.generators.kahm.kahm import RowsMode
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import of_kind
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import PrivacyUnit, Schema

MODES = ("rows", "cell")
N_ROWS = 300


def schema_of(mode: str, **named) -> Schema:
    return Schema(tuple(COLUMNS.values()), protection="cell" if mode == "cell" else "record", **named)


def fitted(mode: str, *, label="outcome", codes=None, epsilon=5.0, key=0, **settings):
    schema = schema_of(mode)
    table = PrivateTable.from_codes(schema, dependent_codes(N_ROWS) if codes is None else codes)
    opened = PrivateSession(table, PrivacyBudget(epsilon, 1e-5, schema.neighbours), noise=RecordedNoise(key))
    made = RowsMode(task(schema, label), KahmOptions(mode, n=5, block=100, **settings))
    return made.fit(opened, NullProgress()), opened


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("label", ["outcome", None, "income"])
def test_rows_lie_in_the_declared_domain(mode, label):
    made, opened = fitted(mode, label=label)
    check_domain(made.sample(257, seed=3), opened.schema, 257)
    assert opened.remaining_share <= 1e-3
    assert {receipt.source for receipt in opened.receipts} == {"generator kahm"}


@pytest.mark.parametrize("mode", MODES)
def test_there_is_one_row_for_every_private_one_then_whole_copies(mode):
    made, _ = fitted(mode)
    once = made.sample(N_ROWS, seed=1)
    kept = made.state()["codes"]

    def as_rows(table):
        return sorted(map(tuple, table.tolist()))

    assert as_rows(once) == as_rows(kept)
    assert not np.array_equal(once, kept)
    more = made.sample(2 * N_ROWS + 7, seed=1)
    assert as_rows(more[:N_ROWS]) == as_rows(more[N_ROWS : 2 * N_ROWS]) == as_rows(kept)
    assert made.sample(10, seed=1).shape == (10, len(COLUMNS))
    assert made.sample(N_ROWS, seed=1).tobytes() == once.tobytes()
    assert made.sample(N_ROWS, seed=2).tobytes() != once.tobytes()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("label", ["outcome", None])
def test_a_saved_model_hands_out_the_same_bytes_and_the_same_report(mode, label):
    made, opened = fitted(mode, label=label)
    state = {name: np.ascontiguousarray(array) for name, array in made.state().items()}
    again = RowsMode.from_state(task(opened.schema, label), KahmOptions(mode), state)
    assert again.sample(N_ROWS, seed=4).tobytes() == made.sample(N_ROWS, seed=4).tobytes()
    assert again.blocks == made.blocks
    assert sum(block.rows for block in made.blocks) == N_ROWS
    assert all(len(block.regularisers) == 2 and min(block.regularisers) > 0 for block in made.blocks)


@pytest.mark.parametrize("mode", MODES)
def test_facts_say_what_is_promised_and_what_the_machines_did(mode):
    made, _ = fitted(mode)
    facts = {fact.name: fact for fact in made.facts()}
    assert list(facts) == ["mode", "machines", "guarded", "ridge"]
    assert ("ONE CELL" in facts["mode"].sentence) == (mode == "cell")
    assert facts["machines"].value == 2 * len(made.blocks)
    assert facts["guarded"].value == sum(block.guarded for block in made.blocks)
    assert [row[1] for row in facts["ridge"].rows] == [block.rows for block in made.blocks]
    assert min(row[3] for row in facts["ridge"].rows) <= facts["ridge"].value


def test_a_damaged_model_is_refused():
    made, opened = fitted("rows")
    state = {**made.state(), "codes": made.state()["codes"] + 10**6}
    with pytest.raises(InputError, match="do not fit"):
        RowsMode.from_state(task(opened.schema), KahmOptions("rows"), state)


@pytest.mark.parametrize("mode", MODES)
def test_old_answers_give_the_same_rows_again(mode):
    made, opened = fitted(mode)
    recorded = RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers)
    again = RowsMode(task(opened.schema), KahmOptions(mode, n=5, block=100)).fit(recorded, NullProgress())
    assert np.array_equal(again.state()["codes"], made.state()["codes"])


def test_class_sizes_are_kept_where_labels_are_public_and_not_where_they_are_private():
    codes = dependent_codes(N_ROWS)
    cell, _ = fitted("cell", codes=codes)
    rows, _ = fitted("rows", codes=codes)
    exact = np.bincount(codes["outcome"], minlength=3)
    np.testing.assert_array_equal(np.bincount(cell.state()["codes"][:, -1], minlength=3), exact)
    assert not np.array_equal(np.bincount(rows.state()["codes"][:, -1], minlength=3), exact)


def test_much_budget_leaves_the_shape_of_the_rows():
    codes = dependent_codes(N_ROWS)
    made, _ = fitted("cell", codes=codes, epsilon=100.0)
    ages = made.state()["codes"][:, 0]
    labels = made.state()["codes"][:, -1]
    for label in range(3):
        assert ages[labels == label].mean() == pytest.approx(codes["age"][codes["outcome"] == label].mean(), rel=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_few_rows_and_classes_of_one_row_work(mode, n_rows):
    codes = {name: column[:n_rows] for name, column in dependent_codes(20).items()}
    made, opened = fitted(mode, codes=codes)
    check_domain(made.sample(2 * n_rows, seed=0), opened.schema, 2 * n_rows)


def test_a_label_of_many_codes_is_a_column_like_the_others():
    made, opened = fitted("cell", label="income")
    assert COLUMNS["income"].size > MOST_CLASSES
    assert made._label is None
    assert [table.column for table in of_kind(opened.answers, PerturbedRows)[0].question.tables] == list(COLUMNS)


def test_what_a_mode_cannot_promise_is_refused_when_it_is_made():
    settings = {mode: KahmOptions(mode) for mode in MODES}
    with pytest.raises(ConfigError, match="protection: cell"):
        RowsMode(task(schema_of("rows")), settings["cell"])
    with pytest.raises(ConfigError, match="protection: record"):
        RowsMode(task(schema_of("cell")), settings["rows"])
    for named in ({"row_count": "private"}, {"unit": PrivacyUnit(rows_per_unit=2)}):
        with pytest.raises(ConfigError, match="how many there are"):
            RowsMode(task(schema_of("rows", **named)), settings["rows"])


def test_nothing_is_handed_out_before_fitting_or_of_no_rows():
    made = RowsMode(task(schema_of("rows")), KahmOptions("rows"))
    with pytest.raises(InputError, match="not been fitted"):
        made.sample(3, seed=0)
    with pytest.raises(InputError, match="at least 1"):
        fitted("rows")[0].sample(0, seed=0)
