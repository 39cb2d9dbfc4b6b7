"""Bundles forged until everything in them agrees, and signed anew: each is refused for its own reason and no other.

Here costs and answers; files and texts are in ``test_forged_files``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from bundle_making import Key, altered, checked, config_of, members_of, seal
from candidates import candidate_of
from choosing import few
from forging import SUMS, Change, answers_of, costing, failures, forged, only, with_answer
from golden_bundles import GOLDEN, golden, made_here, same_digits_here

from synth.bundle.archive import canonical_json
from synth.bundle.measurements import Measurements
from synth.bundle.replay import replay
from synth.bundle.verify import Outcome
from synth.privacy.answers import ROW_COUNT_QUERY, NoisyAnswer, of_kind
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.cells import CellNoise
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.questions import Answer
from synth.privacy.receipt import Part, Receipt
from synth.privacy.selection import Selection
from synth.schema import PrivacyUnit

ALONE = [name for name in GOLDEN if name != "found"]
"""Bundles without a finding; ``test_found_bundles.py`` forges the other."""


# The default command verifies each of them as it is, in test_golden_bundles.py.
@pytest.mark.parametrize("name", few(ALONE, kept=("dp-hp-adaptive", "kahm-cell")))
def test_nothing_is_found_where_nothing_was_changed(name: str, tmp_path: Path, key: Key) -> None:
    again = tmp_path / "again.zip"
    verdict = checked(forged(golden(name), again, key, receipts=lambda receipt: receipt))
    if not verdict.ok and not same_digits_here(name):
        verdict = checked(forged(made_here(name, tmp_path), again, key, receipts=lambda receipt: receipt))
    assert verdict.ok, verdict.lines
    assert all(step["state"] == "passed" for step in verdict.json["steps"])


# Costs --------------------------------------------------------------------------------------------------------------


def a_tenth(receipt: Receipt) -> Receipt:
    if receipt.mechanism != "discrete_gaussian":
        return receipt
    return costing(dataclasses.replace(receipt, sensitivity=receipt.sensitivity / 10))


@pytest.mark.parametrize("name", SUMS)
def test_a_tenth_of_every_sensitivity_of_sums(name: str, tmp_path: Path, key: Key) -> None:
    path = forged(golden(name), tmp_path / "forged.zip", key, receipts=a_tenth, budget=True)
    assert json.loads(members_of(path)["certificate.json"])["epsilon"] < 2.5
    only(path, "its question and schema.json give")
    asked = [one for one in answers_of(path).sums if one.receipt.mechanism == "discrete_gaussian"]
    assert len(failures(path)) == len(asked)


# The fourth asks again what the third did, and the ninth is a second choice.
@pytest.mark.four_cases
@pytest.mark.parametrize("place", few(range(9), kept=(0, 1, 2, 4, 5, 6, 7)))
def test_half_the_sensitivity_of_any_one_answer(place: int, tmp_path: Path, key: Key) -> None:
    def halved(receipt: Receipt) -> Receipt:
        if receipt.sequence != place:
            return receipt
        return costing(dataclasses.replace(receipt, sensitivity=receipt.sensitivity / 2))

    name = "dp-hp-adaptive"
    kinds = {one.receipt.sequence: "sum" for one in answers_of(golden(name)).sums}
    kinds |= {one.receipt.sequence: "choice" for one in of_kind(answers_of(golden(name)).answers, Selection)}
    assert set(kinds) >= set(range(9))
    assert list(kinds.values()).count("choice") > 1
    only(forged(golden(name), tmp_path / "f.zip", key, receipts=halved, budget=True), "its question and schema.json")


def test_a_tenth_of_the_parameter_of_a_choice_leaves_a_budget_that_no_run_leaves(tmp_path: Path, key: Key) -> None:
    def weaker(receipt: Receipt) -> Receipt:
        if receipt.mechanism != "exponential":
            return receipt
        return costing(dataclasses.replace(receipt, noise_scale=receipt.noise_scale / 10))

    for name in ("dp-hp-adaptive", "dp-hp-adaptive-several-rows"):
        only(forged(golden(name), tmp_path / "f.zip", key, receipts=weaker), "of the budget")


def test_less_of_the_parameter_and_a_budget_to_match_is_found_by_fitting_again(tmp_path: Path, key: Key) -> None:
    def weaker(part: float) -> Path:
        def changed(receipt: Receipt) -> Receipt:
            if receipt.mechanism != "exponential":
                return receipt
            return costing(dataclasses.replace(receipt, noise_scale=part * receipt.noise_scale))

        return forged(golden("dp-hp-adaptive"), tmp_path / f"{part}.zip", key, receipts=changed, budget=True)

    path = weaker(0.9)
    assert failures(path, quick=True) == [], "the smaller budget is spent whole"
    choices = [one.query for one in of_kind(answers_of(path).answers, Selection)]
    assert choices
    for refit in (False, True):
        found = " ".join(failures(path, refit=refit))
        assert all(f"The receipt of '{query}' has another noise scale" in found for query in choices)
    again = replay(path, tmp_path / "again", refit=True)
    assert not again.as_certified
    assert any("than the generator's question and its share" in line for line in again.lines)
    # With a far smaller budget numbers may be clipped elsewhere, and that question, which comes before, tells.
    (told, *_) = failures(weaker(0.1), refit=True)
    assert "has another noise scale" in told or "'sums of numbers' was asked with another feature map" in told


@pytest.mark.parametrize(
    "name",
    # The default command also fits golden bundles of every generator again, which asks with the same shares.
    [one if one in ("independent", "dp-hp") else pytest.param(one, marks=pytest.mark.thorough) for one in GOLDEN],
)
def test_every_generator_asks_with_the_shares_that_its_receipts_state(name: str, tmp_path: Path) -> None:
    path = golden(name)
    verdict = checked(path, refit=True)
    if verdict.outcome is Outcome.UNKNOWN and not same_digits_here(name):
        path = made_here(name, tmp_path)
        verdict = checked(path, refit=True)
    assert verdict.ok, verdict.lines
    asked = "questions, their order, shares and receipts, and the model, fitted to the noisy answers again"
    assert asked in verdict.json["checked"]
    again = replay(path, tmp_path / "again", refit=True)
    assert again.as_certified, again.lines


@pytest.mark.parametrize("name", ["kahm-rows", "kahm-cell"])
def test_a_tenth_of_the_sensitivity_of_noisy_rows(name: str, tmp_path: Path, key: Key) -> None:
    def smaller(receipt: Receipt) -> Receipt:
        if receipt.mechanism == "gaussian_rows":
            return costing(dataclasses.replace(receipt, sensitivity=receipt.sensitivity / 10))
        if receipt.mechanism == "discrete_laplace":
            cells = tuple(CellNoise(*(-(-number // 10) for number in cell[:3]), cell.scale) for cell in receipt.cells)
            dearest = max(cells, key=lambda cell: Fraction(cell.l1, cell.scale))
            stated = {"sensitivity": dearest.l1 * receipt.grid, "noise_scale": dearest.scale * receipt.grid}
            return costing(dataclasses.replace(receipt, cells=cells, **stated))
        return receipt

    path = forged(golden(name), tmp_path / "forged.zip", key, receipts=smaller, budget=True)
    if name == "kahm-cell":
        only(path, "by more than its receipt states")
    else:
        # The rows seem to cost less, so the other questions have more than their shares of what is left.
        only(path, "its question and schema.json give", "of the budget; config.yaml gives it 10.000%")


def test_a_label_that_moves_less_than_a_label_does(tmp_path: Path, key: Key) -> None:
    def smaller(receipt: Receipt) -> Receipt:
        labels = receipt.mechanism == "randomised_response"
        return dataclasses.replace(receipt, sensitivity=0.1) if labels else receipt

    only(forged(golden("kahm-rows"), tmp_path / "f.zip", key, receipts=smaller), "its question and schema.json give")


def test_more_rows_per_unit_than_the_sensitivity_is_for(tmp_path: Path, key: Key) -> None:
    def cap(text: bytes) -> bytes:
        return text.replace(b'"rows_per_unit": 3', b'"rows_per_unit": 600').replace(
            b"rows_per_unit: 3", b"rows_per_unit: 600"
        )

    def model(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        header = data[8 : 8 + length].replace(b'rows_per_unit\\": 3', b'rows_per_unit\\": 600').rstrip(b" ")
        header += b" " * (-len(header) % 8)
        return struct.pack("<Q", len(header)) + header + data[8 + length :]

    bundle = golden("independent-by-class")
    prepared = forged(
        bundle,
        tmp_path / "prepared.zip",
        key,
        receipts=lambda receipt: dataclasses.replace(receipt, rows_per_unit=600),
        certificate=lambda document: document["unit"].update(rows_per_unit=600),
        files={"schema.json": cap, "config.yaml": cap, "model.safetensors": model},
    )
    only(forged(prepared, tmp_path / "f.zip", key), "its question and schema.json give")


def test_noise_that_no_variance_in_grid_steps_gives(tmp_path: Path, key: Key) -> None:
    def odd(receipt: Receipt) -> Receipt:
        if receipt.mechanism != "discrete_gaussian" or receipt.query == ROW_COUNT_QUERY:
            return receipt
        # 41 whole steps and a half: no whole number is its square.
        noise = receipt.noise_scale
        steps = round(noise / receipt.grid) + 0.5
        return costing(dataclasses.replace(receipt, noise_scale=math.nextafter(steps * receipt.grid, 0.0)))

    path = forged(golden("dp-hp"), tmp_path / "f.zip", key, receipts=odd)
    only(path, "whose variance is not a whole number of grid steps")


def test_a_grid_that_no_sum_is_taken_on(tmp_path: Path, key: Key) -> None:
    def finer(receipt: Receipt) -> Receipt:
        return costing(dataclasses.replace(receipt, grid=receipt.grid / 2))

    only(forged(golden("independent"), tmp_path / "f.zip", key, receipts=finer), "a grid that no sum uses")


def test_a_part_of_the_budget_that_the_configuration_does_not_give(tmp_path: Path, key: Key) -> None:
    def other(data: bytes) -> bytes:
        assert b"prediction_share: 0.2" in data
        return data.replace(b"prediction_share: 0.2", b"prediction_share: 0.3")

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"config.yaml": other})
    only(path, "is 20.000% of the budget; config.yaml gives it 30.000%")


# Answers and receipts -----------------------------------------------------------------------------------------------


def second(found: Measurements) -> Measurements:
    """Another answer under each kind of receipt there is, of other noise."""
    more: list[Answer] = list(of_kind(found.answers, Selection)[:1])
    more += [dataclasses.replace(one, numbers=one.numbers + 1) for one in of_kind(found.answers, PerturbedRows)[:1]]
    more += [NoisyAnswer(one.receipt, one.value + one.receipt.grid, one.feature_map) for one in found.sums[:1]]
    return dataclasses.replace(found, answers=(*found.answers, more[0]))


@pytest.mark.parametrize("name", ["independent", "dp-hp-adaptive", "kahm-rows", "kahm-cell"])
def test_a_second_answer_under_one_receipt(name: str, tmp_path: Path, key: Key) -> None:
    only(forged(golden(name), tmp_path / "f.zip", key, answers=second), "a second answer to")


@pytest.mark.parametrize("kind", [NoisyAnswer, Selection])
def test_answers_in_another_order_than_they_were_asked(kind: type[Answer], tmp_path: Path, key: Key) -> None:
    """Any order of the answers of a kind would be read the same, and a hundred of them have room for 60 bytes."""

    def swapped(found: Measurements) -> Measurements:
        *first, one, other = of_kind(found.answers, kind)
        return dataclasses.replace(
            found, answers=(*(each for each in found.answers if type(each) is not kind), *first, other, one)
        )

    path = forged(golden("dp-hp-adaptive"), tmp_path / "f.zip", key, answers=swapped)
    assert answers_of(path).answers != answers_of(golden("dp-hp-adaptive")).answers
    only(path, "measurements.npz lists its answers in another order than that in which they were given")


def test_two_questions_of_one_name(tmp_path: Path, key: Key) -> None:
    def renamed(receipt: Receipt) -> Receipt:
        return dataclasses.replace(receipt, query="one-way tables")

    found = failures(forged(golden("independent"), tmp_path / "f.zip", key, receipts=renamed))
    assert "Two receipts have questions of the same name, which no run has." in found


def test_an_assumption_of_the_receipts_that_the_certificate_leaves_out(tmp_path: Path, key: Key) -> None:
    path = forged(
        golden("dp-merf-no-label"), tmp_path / "f.zip", key, certificate=lambda one: one.update(assumptions=[])
    )
    only(path, "relies on an assumption that the certificate leaves out", "lists its assumptions in another order")


@pytest.mark.parametrize(("name", "left"), [("dp-merf-no-label", 0), ("kahm-cell", 1), ("kahm-rows", 1)])
def test_an_assumption_of_the_table_that_everything_leaves_out(name: str, left: int, tmp_path: Path, key: Key) -> None:
    def unsaid(receipt: Receipt) -> Receipt:
        return dataclasses.replace(receipt, assumptions=receipt.assumptions[:left])

    def certificate(document: dict[str, Any]) -> None:
        said = [sentence for one in document["receipts"] for sentence in one["assumptions"]]
        document["assumptions"] = list(dict.fromkeys(said))

    path = forged(golden(name), tmp_path / "f.zip", key, receipts=unsaid, certificate=certificate)
    only(path, "leaves out an assumption: ")
    # Another version might have worded it otherwise: the reader is told in the words of this one.
    other = forged(path, tmp_path / "o.zip", key)
    other = altered(other, other, certificate=lambda one: one["versions"].update(source="0" * 32), sign_with=key)
    verdict = checked(other)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.lines
    assert any("words an assumption differently from this version" in one for one in verdict.json["not_checked"])
    honest = checked(golden(name), quick=True).lines
    assert {line for line in honest if line.startswith("Assumed")} <= set(verdict.lines)


_PAGE = "report.html does not follow, byte for byte, from the rest"
"""The page begins with what the configuration promises and foretells."""


@pytest.mark.parametrize(
    ("old", "new", "reasons"),
    [
        (b"delta: 1.0e-06", b"delta: 1.0e-07", ["asks for delta", _PAGE]),
        (b"epsilon: 4.0", b"epsilon: 3.0", ["more than a run may spend", _PAGE]),
        (b"epsilon: 4.0", b"epsilon: 4.1", ["a run spends all of it", _PAGE]),
        (b"seed: 3", b"seed: 3 # exact 41", ["contains a comment"]),
        (b"label: outcome", b"label: smoker", ["for a different label", "under 'What was not kept'", _PAGE]),
    ],
)
def test_a_configuration_of_another_run(tmp_path: Path, key: Key, old: bytes, new: bytes, reasons: list[str]) -> None:
    def other(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new)

    only(forged(golden("independent-by-class"), tmp_path / "f.zip", key, files={"config.yaml": other}), *reasons)


def test_held_out_rows_that_no_prediction_was_paid_for(tmp_path: Path, key: Key) -> None:
    def other(data: bytes) -> bytes:
        return data.replace(b"prediction_share: 0.2\n", b"")

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"config.yaml": other})
    only(path, "config.yaml pays for no prediction", "gives it 0.000%")


@pytest.mark.parametrize("name", ["independent", "independent-by-class", "dp-hp-adaptive", "kahm", "kahm-rows"])
def test_another_share_for_the_report(name: str, tmp_path: Path, key: Key) -> None:
    """Where the generator measures one-way tables itself, nothing is asked with this share, and it is room."""
    noisy_rows = name == "kahm-rows"  # which measure no tables
    path = forged(
        golden(name),
        tmp_path / "f.zip",
        key,
        files={"config.yaml": lambda data: data.replace(b"share: 0.1\n", b"share: 0.12\n")},
    )
    assert b"evaluation_share: 0.12\n" in members_of(path)["config.yaml"]
    if noisy_rows:
        assert any("config.yaml gives it 12.000%" in one for one in failures(path))
    else:
        only(path, "states more than a sealed configuration does")


def test_a_share_that_nothing_is_asked_with_is_sealed_as_the_usual_one(tmp_path: Path, key: Key) -> None:
    for share, sealed in ((0.123, 0.1), (0.0, 0.0)):
        made = seal(config_of(evaluation_share=share), tmp_path, key).path
        assert yaml.safe_load(members_of(made)["config.yaml"])["evaluation_share"] == sealed
        assert checked(made).ok, checked(made).lines
        made.unlink()


def test_a_number_of_rows_that_was_not_paid_for(tmp_path: Path, key: Key) -> None:
    def exact(found: Measurements) -> Measurements:
        assert found.rows is not None
        return dataclasses.replace(found, rows=dataclasses.replace(found.rows, value=400.0))

    path = forged(golden("independent-by-class"), tmp_path / "f.zip", key, answers=exact)
    only(path, "not the noisy one that was charged")


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    """A bundle whose number of units is declared, as every run with a public one asks for."""
    return seal(config_of(number_of_units=2000, holdout=0.0), tmp_path_factory.mktemp("declared"), key).path


def test_a_number_of_rows_other_than_the_declared_units_less_those_held_out(
    declared: Path, tmp_path: Path, key: Key
) -> None:
    def fewer(found: Measurements) -> Measurements:
        assert found.rows is not None
        assert found.rows.value == 2000
        return dataclasses.replace(found, rows=dataclasses.replace(found.rows, value=1999.0))

    def held_out(data: bytes) -> bytes:
        assert b"holdout: 0" in data
        return re.sub(rb"holdout: [0-9.]+", b"holdout: 0.1", data)

    reason = "does not state the number of rows that was declared public"
    only(forged(declared, tmp_path / "f.zip", key, answers=fewer), reason)
    only(forged(declared, tmp_path / "h.zip", key, files={"config.yaml": held_out}), reason)
    only(forged(declared, tmp_path / "same.zip", key))


def test_line_breaks_in_cells_without_what_they_assume_of_the_table(declared: Path, tmp_path: Path, key: Key) -> None:
    def newlines(data: bytes) -> bytes:
        document = yaml.safe_load(data)
        document["format"]["newlines"] = True
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).encode()

    path = forged(declared, tmp_path / "f.zip", key, files={"config.yaml": newlines})
    only(path, "The certificate leaves out an assumption: Every quotation mark")
    other = altered(
        path, tmp_path / "o.zip", certificate=lambda one: one["versions"].update(source="0" * 32), sign_with=key
    )
    verdict = checked(other)
    assert verdict.outcome is Outcome.UNKNOWN
    assert any(line.startswith("Assumed: Every quotation mark of the table is closed") for line in verdict.lines)


@pytest.mark.parametrize(("query", "part"), [("predictions on the hold-out", "train"), ("one-way tables", "holdout")])
def test_a_question_of_another_part_of_the_table(query: str, part: Part, tmp_path: Path, key: Key) -> None:
    def moved(receipt: Receipt) -> Receipt:
        return dataclasses.replace(receipt, part=part) if receipt.query == query else receipt

    path = forged(golden("independent"), tmp_path / "f.zip", key, receipts=moved)
    assert any("about the wrong part of the table for its question" in one for one in failures(path))


@pytest.mark.parametrize(
    ("place", "values", "reason"),
    [
        (
            "ledger",
            {"charges": 1, "head": "ab" * 32, "private_total": 12345},
            "more about its ledger than the head",
        ),
        ("ledger", {"charges": 1, "head": "exactly 12345 rows"}, "more about its ledger than the head"),
        ("ledger", {"charges": "many", "head": "ab" * 32}, "more about its ledger than the head"),
        ("device", "exactly 12345 rows", "neither a processor nor a graphics card"),
        ("versions", {"note": "12345"}, "the version of a package that no run uses"),
        ("versions", {"numpy": "exactly 12345 rows"}, "the version of a package that no run uses"),
    ],
)
def test_a_word_where_a_certificate_has_room_for_one(
    place: str, values: object, reason: str, tmp_path: Path, key: Key
) -> None:
    path = forged(
        golden("independent"), tmp_path / "f.zip", key, certificate=lambda document: document.update({place: values})
    )
    only(path, reason)


def test_words_of_the_owner_are_shown_and_never_vouched_for(tmp_path: Path, key: Key) -> None:
    said = "There were exactly 12345 rows."

    def certificate(document: dict[str, Any]) -> None:
        document["assumptions"].append(said)

    verdict = checked(forged(golden("independent"), tmp_path / "f.zip", key, certificate=certificate))
    assert f"Assumed: {said}" in verdict.lines
    assert any(line.startswith("No check can show that words chosen by the owner") for line in verdict.lines)


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    """A bundle with several words wherever the owner chooses them freely."""
    rules = ["if region = west then age >= 18"]
    config = config_of(account="people of a survey", unit=PrivacyUnit("grown person"), constraints=tuple(rules))
    return seal(config, tmp_path_factory.mktemp("worded"), key).path


@pytest.mark.four_cases
@pytest.mark.parametrize("hidden", ["  ", "\u2003", " \u200b", "\u00a0", "\U000e0141 ", "\u3164", "\n"])
@pytest.mark.parametrize("where", ["account", "unit", "rules"])
def test_room_between_the_words_of_the_owner(where: str, hidden: str, worded: Path, tmp_path: Path, key: Key) -> None:
    def other(data: bytes) -> bytes:
        mapping = yaml.safe_load(data)
        said, name = {"account": (mapping, "account"), "unit": (mapping["unit"], "protects")}.get(
            where, (mapping["rules"], 0)
        )
        said[name] = said[name].replace(" ", hidden, 1)
        return yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=120).encode()

    path = altered(worded, tmp_path / "f.zip", files={"config.yaml": other}, certificate=lambda _: None, sign_with=key)
    only(path, "config.yaml contains a comment, or is not written as it was sealed")


@pytest.mark.parametrize("other", [b"utf-8-----", b"U_T_F-8", b"utf8", b'"utf-8\\u200b"'])
def test_another_name_of_the_encoding(other: bytes, worded: Path, tmp_path: Path, key: Key) -> None:
    def named(data: bytes) -> bytes:
        assert data.count(b"encoding: utf-8\n") == 1
        return data.replace(b"encoding: utf-8\n", b"encoding: " + other + b"\n")

    path = altered(worded, tmp_path / "f.zip", files={"config.yaml": named}, certificate=lambda _: None, sign_with=key)
    assert failures(path), "it has one name"


def test_a_word_in_the_schema(tmp_path: Path, key: Key) -> None:
    def said(data: bytes) -> bytes:
        return canonical_json({**json.loads(data), "number_of_units": None})

    path = forged(golden("independent-by-class"), tmp_path / "f.zip", key, files={"schema.json": said})
    only(path, "schema.json is not written as it was sealed")


def stating(kind: str, **changes: Any) -> Change:
    def change(receipt: Receipt) -> Receipt:
        return costing(dataclasses.replace(receipt, **changes)) if receipt.mechanism == kind else receipt

    return change


STATED: list[tuple[str, Change, str]] = [
    ("dp-hp-adaptive", stating("exponential", grid=2.0**-20), "states a grid that no score uses"),
    ("kahm-rows", stating("gaussian_rows", grid=2.0**-11), "states a grid that no rows use"),
    (
        "kahm-cell",
        stating("discrete_laplace", sensitivity=1.0),
        "the sensitivity and noise of its most expensive column",
    ),
    (
        "independent-by-class",
        stating("discrete_gaussian", mechanism="gaussian_rows"),
        "a receipt that is not for a sum",
    ),
    ("kahm-rows", stating("gaussian_rows", mechanism="discrete_gaussian"), "a receipt that is not for rows with"),
    (
        "dp-hp-adaptive",
        stating("discrete_gaussian", dimension=1000),
        "a different number of coordinates from its receipt",
    ),
]


@pytest.mark.parametrize(("name", "change", "reason"), STATED, ids=[reason for _, _, reason in STATED])
def test_a_receipt_that_its_answer_does_not_bear_out(
    tmp_path: Path, key: Key, name: str, change: Change, reason: str
) -> None:
    no_sum = ["does not follow from the noisy answers", "a number of rows that is not the noisy one"]
    also = no_sum if reason == "a receipt that is not for a sum" else []
    only(forged(golden(name), tmp_path / "f.zip", key, receipts=change), reason, *also)


def test_a_choice_that_is_a_sum_by_its_receipt(tmp_path: Path, key: Key) -> None:
    def a_sum(receipt: Receipt) -> Receipt:
        if receipt.mechanism != "exponential":
            return receipt
        noise = receipt.sensitivity / math.sqrt(receipt.mu_squared_units * 2.0**-40)
        return costing(dataclasses.replace(receipt, mechanism="discrete_gaussian", noise_scale=noise, slack=1e-9))

    path = forged(golden("dp-hp-adaptive"), tmp_path / "f.zip", key, receipts=a_sum)
    only(path, "has a receipt that is not for a choice")


def test_a_question_of_another_table(tmp_path: Path, key: Key) -> None:
    def other(found: Measurements) -> Measurements:
        count, *_ = found.sums
        question = OneHot(("outcome",), (np.zeros(3, dtype=np.int32),))
        return with_answer(found, count, NoisyAnswer(count.receipt, count.value, question))

    path = forged(golden("independent-by-class"), tmp_path / "f.zip", key, answers=other)
    only(path, "cannot be asked about the declared table", "not the noisy one that was charged")


def test_a_choice_of_no_candidate_and_one_of_another_table(tmp_path: Path, key: Key) -> None:
    def beyond(found: Measurements) -> Measurements:
        first, *_ = of_kind(found.answers, Selection)
        return with_answer(found, first, Selection(first.receipt, first.receipt.dimension, first.candidate))

    def strange(found: Measurements) -> Measurements:
        first, *_ = of_kind(found.answers, Selection)
        return with_answer(found, first, Selection(first.receipt, 0, candidate_of(("outcome",), np.ones(3))))

    bundle = golden("dp-hp-adaptive")
    only(forged(bundle, tmp_path / "f.zip", key, answers=beyond), "chose a candidate that is not among")
    only(forged(bundle, tmp_path / "f.zip", key, answers=strange), "cannot be made on the declared table")


def test_another_number_of_noisy_rows_than_is_public(tmp_path: Path, key: Key) -> None:
    def more(found: Measurements) -> Measurements:
        assert found.rows is not None
        return dataclasses.replace(found, rows=dataclasses.replace(found.rows, value=found.rows.value + 1))

    path = forged(golden("kahm-rows"), tmp_path / "f.zip", key, answers=more)
    only(path, "does not state the number of rows that was declared public")
