"""Values found privately: their threshold by hand, what passes it, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from found_worlds import LEVEL, OPEN, WORLDS, LevelNoise, OpenWorld, as_csv, ordinary, values_asked
from reading_here import read_all_here
from recorded_noise import RecordedNoise

from synth.bundle.answers import ENTRIES
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.errors import PrivacyError, TableError
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.more.found_values import FoundValues, ValuesQuestion, key_delta_of, threshold_of
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reading.more.texts import LONGEST_VALUE, count_texts, is_value
from synth.reading.request import Request
from synth.schema import CategoryColumn, FindColumn, Schema, TableFormat
from synth.system.settings import ReaderLimits

VECTORS = json.loads((Path(__file__).parents[1] / "references" / "found_values.json").read_text())["thresholds"]
ROW = 2**24


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)


def noise_of(vector: dict[str, Any]) -> dict[str, float]:
    grid = 4.0 ** -vector["half_bits"]
    return {"noise_std": math.nextafter(math.sqrt(vector["variance"]) * grid, 0.0), "grid": grid}


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_the_threshold_is_that_of_sixty_digits(vector: dict[str, Any]) -> None:
    unit = {"rows_per_unit": vector["rows_per_unit"], "keys": vector["keys"]}
    threshold = threshold_of(**noise_of(vector), **unit, delta_key=float(vector["delta_key"]))
    assert threshold == vector["threshold"]
    stated = key_delta_of(**noise_of(vector), **unit, threshold=threshold)
    assert float(vector["key_delta"]) <= stated <= float(vector["key_delta"]) * (1 + 1e-6)
    assert stated <= float(vector["delta_key"])
    # The bound is one of the continuous law; what the discrete one really does is less.
    assert vector["key_delta_exact"] is None or float(vector["key_delta_exact"]) <= stated
    one_step_less = threshold - max(round(4.0 ** vector["half_bits"]) >> 10, 1)
    assert key_delta_of(**noise_of(vector), **unit, threshold=one_step_less) > float(vector["delta_key"]) * 0.9999


def test_the_threshold_grows_with_rows_columns_and_noise() -> None:
    usual = {"noise_std": 50.0, "grid": 2.0**-24, "rows_per_unit": 2, "keys": 20, "delta_key": 1e-7}
    threshold = threshold_of(**usual)
    for more in ({"noise_std": 51.0}, {"rows_per_unit": 3}, {"keys": 21}, {"delta_key": 1e-8}):
        assert threshold_of(**{**usual, **more}) > threshold
    assert key_delta_of(**{**without_delta(usual), "threshold": 2 * ROW}) == 1.0


def without_delta(usual: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in usual.items() if name != "delta_key"}


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_rows_of_one_unit_pass_only_by_noise_that_hardly_ever_comes(world: OpenWorld) -> None:
    """All its m rows say the same: the noise that lifts them is what delta_key bounds, under both relations."""
    own = [{"person": "somebody", "town": "Zanzibar"}] * world.rows_per_unit
    data = as_csv([*ordinary(20, world.rows_per_unit), *own])
    threshold = values_asked(world.session(data, LevelNoise())).threshold
    just = threshold - world.rows_per_unit * ROW
    for level, found in ((just, True), (just - 1, False)):
        noise = LevelNoise(level)
        answer = values_asked(world.session(data, noise))
        assert ("Zanzibar" in answer.counts("town")) == found
    # The discrete Gaussian's own chance of so much noise, for all texts that could be one unit's.
    (variance,) = {variance for variance, _ in noise.calls}
    steps = np.arange(0, 12 * math.isqrt(variance), max(math.isqrt(variance) >> 12, 1), dtype=np.float64)
    weights = np.exp(-(steps**2) / (2 * variance))
    tail = weights[steps >= just].sum() / (2 * weights.sum() - 1)
    assert len(OPEN) * world.rows_per_unit * tail <= answer.question.delta_key * 1.01


@pytest.mark.usefixtures("_here")
def test_what_is_let_out_survives_a_bundle_and_is_checked_there() -> None:
    world = WORLDS["add or remove several rows"]
    session = world.session(as_csv(ordinary(60, 3)), LevelNoise(LEVEL))
    question = ValuesQuestion(("town", "seen"), 1e-7)
    answer = session.ask(question, share=1.0, query="values", source="test")
    answer = replace(answer, receipt=replace(answer.receipt, private=True))
    assert set(answer.counts("town")) == {"Ayr", "Bath", "São Paulo", "Ely"}
    again = measurements_from_bytes(measurements_to_bytes(Measurements((answer,)))).answers[0]
    assert isinstance(again, FoundValues)
    assert (again.values, again.threshold, again.receipt) == (answer.values, answer.threshold, answer.receipt)
    assert question.again(again) is again
    problems = ENTRIES[FoundValues].problems
    schema = world.schema
    assert list(problems(again, schema)) == []
    forged = {
        "did not reach": replace(answer, values=(("town", "Ayr", answer.threshold - 1),)),
        "out of order": replace(answer, values=answer.values[::-1] + answer.values),
        "larger than that of any table": replace(answer, values=(("town", "Ayr", 2**60),)),
        "has a threshold of": replace(answer, threshold=answer.threshold - ROW // 2),
        "leaves out the chance": replace(answer, receipt=replace(answer.receipt, additive_delta=0.0)),
        "smaller? sensitivity": replace(answer, receipt=replace(answer.receipt, sensitivity=1.0)),
        "not for values": replace(answer, receipt=replace(answer.receipt, dimension=2)),
        "a grid that no count of values uses": replace(answer, receipt=replace(answer.receipt, grid=1.0)),
        "cannot be asked about": replace(answer, question=ValuesQuestion(("person",), 1e-7)),
    }
    for sentence, one in forged.items():
        assert any(sentence.split("? ")[-1] in problem for problem in problems(one, schema)), sentence


@pytest.mark.usefixtures("_here")
def test_its_delta_is_added_to_what_is_stated() -> None:
    world = WORLDS["replace one"]
    session = world.session(as_csv(ordinary(50)), RecordedNoise(5))
    receipt = replace(values_asked(session).receipt, private=True)
    assert receipt.additive_delta == 0.49e-6
    stated = epsilon_of_receipts([receipt], world.delta)
    assert stated < world.epsilon
    assert stated > epsilon_of_receipts([replace(receipt, additive_delta=0.0)], world.delta)
    assert epsilon_of_receipts([receipt], 0.48e-6) == math.inf


def test_the_same_texts_are_counted_by_a_process_of_its_own() -> None:
    world = WORLDS["add or remove"]
    lines = [*ordinary(30), {"town": "two\nlines"}, {"town": "x" * (LONGEST_VALUE + 1)}, {"town": "tab\there"}]
    answer = values_asked(world.session(as_csv(lines), LevelNoise(LEVEL)), ("town", "age"))
    counts = {text: round(rows) - LEVEL // ROW for text, rows in answer.counts("town").items()}
    held = [line["town"].strip() for line in lines[:30]]
    assert counts == {town: held.count(town) for town in {*held} - {"?"}}
    assert sum(answer.counts("age").values()) == pytest.approx(30 + len(answer.counts("age")) * LEVEL / ROW)


@pytest.mark.parametrize(("text", "counted"), [("a", True), ("", False), ("a\x00", False), ("\u202ea", False)])
def test_only_what_can_be_printed_is_a_value(text: str, counted: bool) -> None:
    assert is_value(text) == counted
    assert is_value("é" * LONGEST_VALUE)
    assert not is_value("é" * (LONGEST_VALUE + 1))


@pytest.mark.usefixtures("_here")
def test_a_table_that_has_changed_is_no_answer(tmp_path: Path) -> None:
    schema = Schema((FindColumn("town"),), row_count="private")
    request = Request(TableFormat(), ReaderLimits(), columns=schema.columns)
    (tmp_path / "t.csv").write_text("town\nAyr\nEly\n")
    for rows in (1, 3):
        with pytest.raises((TableError, ValueError)) as refused:
            count_texts(lambda: (tmp_path / "t.csv").open("rb"), request, np.ones(rows, dtype=bool))
        assert "Ayr" not in str(refused.value)


@pytest.mark.usefixtures("_here")
def test_refused_questions_cost_nothing() -> None:
    session = WORLDS["add or remove"].session(as_csv(ordinary(9)), LevelNoise())
    for columns, delta in (((), 0.1), (("town", "town"), 0.1), (("person",), 0.1), (("town",), 0.0), (("town",), 1.0)):
        with pytest.raises(PrivacyError):
            session.ask(ValuesQuestion(columns, delta), share=0.1, query="values", source="test")
    assert (session.remaining_share, session.receipts) == (1.0, ())
    declared = Schema((CategoryColumn("town", ("a",), other=True), FindColumn("age")), row_count="private")
    table = PrivateTable.from_codes(declared, {"town": [0], "age": [1]})
    other = PrivateSession(table, WORLDS["add or remove"].budget, noise=LevelNoise())
    with pytest.raises(PrivacyError, match="to be found"):
        other.ask(ValuesQuestion(("town",), 0.1), share=0.1, query="values", source="test")
    with pytest.raises(PrivacyError, match="opened without its texts"):
        other.ask(ValuesQuestion(("age",), 0.1), share=0.1, query="values", source="test")


def test_an_answer_belongs_to_its_question() -> None:
    question = ValuesQuestion(("town", "age"), 0.1)
    for other in (ValuesQuestion(("age", "town"), 0.1), ValuesQuestion(("town", "age"), 0.2)):
        assert other.digest() != question.digest()
