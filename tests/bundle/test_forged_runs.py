"""Bundles whose parts look right one by one and do not belong together, signed anew.

Rows, report, questions and model are made again and compared: each forgery is refused for its own reason and no other.
Costs and answers are forged in ``test_forgeries``, texts in ``test_forged_files``, bytes in ``test_one_form``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bundle_making
import numpy as np
import pytest
from bundle_making import Key, altered, checked, config_of, seal, simulated_codes
from forging import Parts, costing, failures, only
from golden_bundles import golden

from synth.bundle.archive import canonical_json
from synth.bundle.fields import stated_only
from synth.bundle.verify import Outcome
from synth.ledger.notes import NOTES
from synth.privacy.answers import NoisyAnswer, of_kind
from synth.privacy.selection import Selection
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

pytestmark = pytest.mark.thorough

COLUMNS = (
    NumberColumn("age", 0, 99, 1, fallback=0),
    CategoryColumn("region", ("north", "south", "east"), fallback="north"),
    YesNoColumn("ill", fallback="no"),
)
RULE = "if ill = yes then age >= 30"


def config(generator: str, **changes: Any) -> RunConfig:
    settings = {"rows": 60, "label": "ill", "holdout": 0.2, "row_count": "private", "domain_source": {}}
    return config_of(COLUMNS, **settings | {"generator": generator} | changes)


CONFIGS = {
    "classes": config("independent-by-class", constraints=(RULE,), options={"bins": 8}),
    "sketch": config("dp-merf", options={"features": 20, "steps": 3}),
    "choices": config(
        "dp-hp-adaptive", options={"cells": 1000}, epsilon=20.0, row_count="public", number_of_units=2000, holdout=0.0
    ),
}
"""All questions asked first, with a rule; a share for the report; private choices, which only a refit makes again."""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    return {name: seal(asked, tmp_path_factory.mktemp(name), key).path for name, asked in CONFIGS.items()}


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    """The same configurations on quite another table."""

    def mirrored(schema: Schema, rows: int) -> dict[str, np.ndarray]:
        codes = simulated_codes(schema, rows)
        return {column.name: column.size - 1 - codes[column.name] for column in schema.modelled}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_making, "simulated_codes", mirrored)
        return {name: seal(asked, tmp_path_factory.mktemp(name), key).path for name, asked in CONFIGS.items()}


Forge = Callable[[Parts, Parts], None]
"""Changes the parts of a bundle, given those of another run of the same configuration."""

ROWS = "synthetic.csv does not follow, byte for byte, from the rest of the bundle: it was altered."
REPORT = "report.json does not follow, byte for byte, from the rest of the bundle: it was altered."
ANSWERED = "does not follow from the noisy answers."
ASKED = "was asked with another feature map"
NEVER = "was never asked; a recorded run can only repeat its answers"
COST = "has another noise scale than the generator's question and its share of the budget give."
RUN = "state different generators, options or seeds"
CARD = "was made with a different generator, options or seed from those certified"
OFFERED = "chose a candidate that the generator does not offer here"
UNDRAWN = "No rows can be drawn from model.safetensors"
SOMEBODY = "names a source that such a run does not have"
STRANGE = "states an assumption that neither the schema nor its question gives"
MODEL = "model.safetensors is not what the noisy answers give: it differs in"


@dataclass(frozen=True)
class Forgery:
    """What is forged, and why it is refused.

    ``by`` is the weakest check that finds it: quick, the usual one, or with a refit. With ``follow`` the forger makes
    rows and report of the forged model and answers; otherwise only README.txt, CITATION.cff and the page.
    """

    of: str
    change: Forge
    reasons: tuple[str | tuple[str, ...], ...]
    by: str = "check"
    follow: bool = False


HOWS: dict[str, dict[str, bool]] = {"quick": {"quick": True}, "check": {"quick": False}, "refit": {"refit": True}}


# Rows ---------------------------------------------------------------------------------------------------------------


def a_row_of_the_same_domain(mine: Parts, _: Parts) -> None:
    mine.codes[7] = mine.codes[3] if (mine.codes[7] != mine.codes[3]).any() else mine.codes[5]


def two_rows_swapped(mine: Parts, _: Parts) -> None:
    (place,) = np.flatnonzero((mine.codes != mine.codes[0]).any(axis=1))[:1]
    mine.codes[[0, place]] = mine.codes[[place, 0]]


def one_cell_by_one_step(mine: Parts, _: Parts) -> None:
    mine.codes[-1, 0] += 1 if mine.codes[-1, 0] < 90 else -1


def a_cell_in_two_rows_exchanged(mine: Parts, _: Parts) -> None:
    """Every column keeps its counts."""
    (place,) = np.flatnonzero(mine.codes[:, 0] != mine.codes[0, 0])[:1]
    mine.codes[[0, place], 0] = mine.codes[[place, 0], 0]


def rows_of_another_run(mine: Parts, other: Parts) -> None:
    mine.codes = other.codes


def rows_and_report_of_another_run(mine: Parts, other: Parts) -> None:
    mine.codes = other.codes
    mine.members["report.json"] = other.members["report.json"]


def fewer_rows(mine: Parts, _: Parts) -> None:
    mine.everywhere(rows=mine.config.rows - 10)
    mine.codes = mine.codes[:-10]


# The model ----------------------------------------------------------------------------------------------------------


def model_of_another_run(mine: Parts, other: Parts) -> None:
    mine.state = other.state


def table_and_model_of_another_run(mine: Parts, other: Parts) -> None:
    mine.state, mine.codes = other.state, other.codes


def all_but_answers_of_another_run(mine: Parts, other: Parts) -> None:
    mine.state, mine.codes = other.state, other.codes
    mine.members["report.json"] = other.members["report.json"]


def last_bit_of_the_model(mine: Parts, _: Parts) -> None:
    name = max(one for one, array in mine.state.items() if array.dtype == np.float64)
    array = mine.state[name].copy()
    array.reshape(-1)[-1] = np.nextafter(array.reshape(-1)[-1], np.inf)
    mine.state[name] = array


def model_of_another_schema(mine: Parts, _: Parts) -> None:
    schema = mine.config.schema
    age, *rest = schema.columns
    mine.card = replace(mine.card, schema=replace(schema, columns=(replace(age, high=98.0), *rest)))


# Seed, options, rules -----------------------------------------------------------------------------------------------


def another_seed(mine: Parts, _: Parts) -> None:
    mine.everywhere(seed=mine.config.seed + 1)


def another_seed_than_the_model(mine: Parts, _: Parts) -> None:
    card = mine.card
    mine.everywhere(seed=mine.config.seed + 1)
    mine.card = card


def other_options(**options: Any) -> Forge:
    def change(mine: Parts, _: Parts) -> None:
        mine.everywhere(options=dict(sorted((dict(mine.config.options) | options).items())))

    return change


def another_generator(mine: Parts, _: Parts) -> None:
    mine.everywhere(generator="independent")
    mine.document["generator"] = "independent"


def rules_left_out(mine: Parts, _: Parts) -> None:
    mine.everywhere(constraints=())


def a_rule_added(mine: Parts, _: Parts) -> None:
    mine.everywhere(constraints=(*mine.config.constraints, "age <= 98"))


def a_rule_that_rows_break(mine: Parts, _: Parts) -> None:
    mine.everywhere(constraints=(*mine.config.constraints, "region in (north, south)"))


def a_group_added(mine: Parts, _: Parts) -> None:
    mine.everywhere(groups=("region",))


def another_label(mine: Parts, _: Parts) -> None:
    mine.everywhere(label="region")


# Questions ----------------------------------------------------------------------------------------------------------


def sums(mine: Parts) -> list[NoisyAnswer]:
    return sorted(of_kind(mine.known.answers, NoisyAnswer), key=lambda one: one.receipt.sequence)


def first_choice(mine: Parts) -> Selection:
    return of_kind(mine.known.answers, Selection)[0]


def with_noise(answer: NoisyAnswer, factor: float) -> NoisyAnswer:
    """Other noise, whose variance is a whole number of grid steps, with the cost that follows."""
    receipt = answer.receipt
    steps = math.isqrt(round((factor * receipt.noise_scale / receipt.grid) ** 2) - 1) + 1
    return replace(answer, receipt=costing(replace(receipt, noise_scale=steps * receipt.grid)))


def last_receipt(**changes: Any) -> Forge:
    def change(mine: Parts, _: Parts) -> None:
        last = sums(mine)[-1]
        mine.exchange(last, replace(last, receipt=replace(last.receipt, **changes)))

    return change


def in_another_order(mine: Parts, _: Parts) -> None:
    mine.paid(*reversed(mine.known.answers))


def shares_exchanged(mine: Parts, _: Parts) -> None:
    """The report's table is said to have cost twice as much, the generator's sum so much less."""
    count, told, sketch = sums(mine)
    least = sketch.receipt.mu_squared_units / (sketch.receipt.mu_squared_units - told.receipt.mu_squared_units)
    mine.paid(count, with_noise(told, 2**-0.5), with_noise(sketch, least**0.5))


def a_question_left_out(mine: Parts, _: Parts) -> None:
    """Its share goes to the generator's."""
    count, told, sketch = sums(mine)
    more = 1 + told.receipt.mu_squared_units / sketch.receipt.mu_squared_units
    mine.paid(count, with_noise(sketch, more**-0.5))


def a_question_added(mine: Parts, _: Parts) -> None:
    """It is paid for from the share of another."""
    count, tables = sums(mine)
    half = with_noise(tables, 2**0.5)
    mine.paid(count, half, replace(half, receipt=replace(half.receipt, query="another look")))


def other_evaluation(mine: Parts, _: Parts) -> None:
    mine.everywhere(evaluation_share=mine.config.evaluation_share / 2)


def more_held_out(mine: Parts, _: Parts) -> None:
    mine.everywhere(holdout=0.5)


def fewer_people(mine: Parts, _: Parts) -> None:
    mine.everywhere(schema=replace(mine.config.schema, number_of_units=500))
    rows = mine.known.rows
    assert rows is not None
    mine.known = replace(mine.known, rows=replace(rows, value=500.0))


def choices_left_out(mine: Parts, _: Parts) -> None:
    """The configuration asks for the budget of what is left."""
    mine.paid(*sums(mine))
    mine.config = replace(mine.config, epsilon=mine.document["epsilon"] * 1.00002)


def answers_of_another_run(mine: Parts, other: Parts) -> None:
    mine.known = other.known
    mine.document |= {"receipts": other.document["receipts"], "epsilon": other.document["epsilon"]}


def one_answer_by_one_row(mine: Parts, _: Parts) -> None:
    last = sums(mine)[-1]
    moved = last.value.copy()
    moved.reshape(-1)[0] += 1.0
    mine.exchange(last, replace(last, value=moved))


def another_index(mine: Parts, _: Parts) -> None:
    old = first_choice(mine)
    mine.exchange(old, replace(old, index=(old.index + 1) % old.receipt.dimension))


def another_candidate(mine: Parts, _: Parts) -> None:
    old = first_choice(mine)
    mine.exchange(old, replace(old, candidate=replace(old.candidate, table=old.candidate.table + 1.0)))


def another_penalty(mine: Parts, _: Parts) -> None:
    old = first_choice(mine)
    mine.exchange(old, replace(old, candidate=replace(old.candidate, penalty=old.candidate.penalty + 1.0)))


# The certificate ----------------------------------------------------------------------------------------------------


def said(**changes: Any) -> Forge:
    def change(mine: Parts, _: Parts) -> None:
        mine.document |= changes

    return change


def renamed_account(mine: Parts, _: Parts) -> None:
    mine.everywhere(account="city people")


def a_smaller_delta(mine: Parts, _: Parts) -> None:
    mine.everywhere(delta=1e-9)
    mine.paid(*sums(mine))
    mine.config = replace(mine.config, epsilon=mine.document["epsilon"] * 1.00002)


def free_text_assumed(mine: Parts, _: Parts) -> None:
    mine.document["assumptions"].append(FREE)


FREE = "There were exactly 12345 rows."


def free_text_assumed_by_a_receipt(mine: Parts, _: Parts) -> None:
    last = sums(mine)[-1]
    assumed = (*last.receipt.assumptions, FREE)
    mine.exchange(last, replace(last, receipt=replace(last.receipt, assumptions=assumed)))
    mine.document["assumptions"].append(FREE)


def an_assumption_twice(mine: Parts, _: Parts) -> None:
    mine.document["assumptions"] *= 2


def nothing_assumed(mine: Parts, _: Parts) -> None:
    mine.document["assumptions"] = []


def read_from_the_rows(mine: Parts, _: Parts) -> None:
    mine.document["domain_source"]["age"] = "read from the private rows"


# The report ---------------------------------------------------------------------------------------------------------


def reported(change: Callable[[list[dict[str, Any]]], None]) -> Forge:
    def forge(mine: Parts, _: Parts) -> None:
        report = json.loads(mine.members["report.json"])
        change(report["evidence"])
        mine.members["report.json"] = canonical_json(report)

    return forge


def another_title(entries: list[dict[str, Any]]) -> None:
    entries[-1]["title"] += ", as in the private table"


def an_exact_number_marked_safe(entries: list[dict[str, Any]]) -> None:
    (rows,) = [one for one in entries if one["id"] == "overview.rows_made"]
    entries.append({**rows, "id": "overview.rows_seen", "title": "Private rows", "value": 12345})


def a_number_left_out(entries: list[dict[str, Any]]) -> None:
    del entries[-1]


def in_another_place(entries: list[dict[str, Any]]) -> None:
    entries[-1], entries[-2] = entries[-2], entries[-1]


def the_last_bit(entries: list[dict[str, Any]]) -> None:
    entry = [one for one in entries if isinstance(one["value"], float) and one["value"] % 1][-1]
    entry["value"] = float(np.nextafter(entry["value"], np.inf))


FORGERIES: dict[str, Forgery] = {
    # Rows that the model never drew
    "a row": Forgery("classes", a_row_of_the_same_domain, (ROWS,)),
    "two rows swapped": Forgery("classes", two_rows_swapped, (ROWS,)),
    "a cell": Forgery("choices", one_cell_by_one_step, (ROWS,)),
    "cells of two rows exchanged": Forgery("sketch", a_cell_in_two_rows_exchanged, (ROWS,)),
    "rows of another run": Forgery("choices", rows_of_another_run, (ROWS,)),
    "rows and report of another run": Forgery("sketch", rows_and_report_of_another_run, (ANSWERED,), "quick"),
    "ten rows fewer": Forgery("classes", fewer_rows, (ROWS, REPORT)),
    # Models that the answers do not give
    "a model of another run": Forgery("classes", model_of_another_run, (MODEL, ROWS, REPORT)),
    "table and model of another run": Forgery("sketch", table_and_model_of_another_run, (REPORT,)),
    "all but answers of another run": Forgery("classes", all_but_answers_of_another_run, (ANSWERED,), "quick"),
    "a model of another run and what follows": Forgery("choices", model_of_another_run, (MODEL,), "check", True),
    "answers of another run": Forgery("classes", answers_of_another_run, (ANSWERED,), "quick"),
    "answers of another run and what follows": Forgery("sketch", answers_of_another_run, (MODEL,), "refit", True),
    "an answer": Forgery("classes", one_answer_by_one_row, (MODEL, REPORT)),
    "an answer and what follows": Forgery("classes", one_answer_by_one_row, (MODEL,), follow=True),
    "the last bit of the model": Forgery("classes", last_bit_of_the_model, (MODEL,)),
    "the last bit of a network": Forgery("sketch", last_bit_of_the_model, (MODEL,), "refit"),
    "a model of another schema": Forgery("classes", model_of_another_schema, ("a different schema",), "quick"),
    # Another run than was asked for
    "another seed": Forgery("classes", another_seed, (ROWS, REPORT)),
    "another seed of features": Forgery("sketch", another_seed, (ASKED,), follow=True),
    "another seed than the model's": Forgery("choices", another_seed_than_the_model, (CARD,), "quick"),
    "options of the questions": Forgery("classes", other_options(bins=9), (ASKED, UNDRAWN)),
    "options of the training": Forgery("sketch", other_options(steps=4), (MODEL,), "refit"),
    "options of the choices": Forgery("choices", other_options(bins=9), (ASKED,), "check"),
    "options of the certificate": Forgery("classes", said(options={"bins": 9}), (RUN, CARD), "quick"),
    "another generator": Forgery("classes", another_generator, (SOMEBODY,), "quick"),
    "rules left out": Forgery("classes", rules_left_out, (REPORT,)),
    "a rule that all rows keep": Forgery("classes", a_rule_added, (REPORT,)),
    "a rule that rows break": Forgery("classes", a_rule_that_rows_break, ("breaks 'region in",), "quick"),
    "a group to compare": Forgery("sketch", a_group_added, (ANSWERED,), "quick"),
    "another label": Forgery("choices", another_label, (ASKED,), "check", True),
    # Other questions than the generator asks
    "another order": Forgery("sketch", in_another_order, ("has another sequence",)),
    "shares exchanged": Forgery("sketch", shares_exchanged, ("gives it 10.000%", ANSWERED), "quick"),
    "half the share of the report": Forgery("sketch", other_evaluation, ("gives it 5.000%",), "quick"),
    "a question left out": Forgery("sketch", a_question_left_out, (NEVER,), follow=True),
    "a question added": Forgery("classes", a_question_added, ("the run does not ask it", COST), follow=True),
    # With another budget sums may be clipped elsewhere, and their question is the first that differs.
    "choices left out": Forgery("choices", choices_left_out, ((NEVER, ASKED),), "check", True),
    "a question renamed": Forgery("classes", last_receipt(query="exact 41"), (NEVER,), follow=True),
    "asked by somebody else": Forgery("classes", last_receipt(source="exact 41"), (SOMEBODY,), "quick"),
    "asked by somebody else after choices": Forgery("choices", last_receipt(source="exact 41"), (SOMEBODY,), "quick"),
    "asked by the report": Forgery("classes", last_receipt(source="report"), ("has another source",)),
    "a delta of its own": Forgery("classes", last_receipt(additive_delta=1e-12), ("another additive delta",)),
    "another index": Forgery("choices", another_index, (NEVER,), "check"),
    "another candidate": Forgery("choices", another_candidate, (OFFERED,), "check"),
    "another penalty": Forgery("choices", another_penalty, (OFFERED,), "check"),
    "more people held out": Forgery("choices", more_held_out, ("that was declared public",), "quick"),
    "fewer people declared": Forgery("choices", fewer_people, (" asked",), "check", True),
    # What the certificate states
    "a smaller epsilon": Forgery("classes", said(epsilon=0.5), ("compose to epsilon",), "quick"),
    "a smaller delta": Forgery("classes", a_smaller_delta, (COST,)),
    "another account": Forgery("classes", said(account="city"), ("different accounts",), "quick"),
    "the account but in the report": Forgery("classes", renamed_account, (REPORT,)),
    "free text assumed": Forgery("choices", free_text_assumed, (f"nothing in the bundle gives: {FREE}",), "quick"),
    "free text assumed by a receipt": Forgery("classes", free_text_assumed_by_a_receipt, (STRANGE,), "quick"),
    "the same after choices": Forgery("choices", free_text_assumed_by_a_receipt, (STRANGE,), "quick"),
    "an assumption twice": Forgery("sketch", an_assumption_twice, ("in another order than a run",), "quick"),
    "nothing assumed": Forgery("classes", nothing_assumed, ("leaves out", "in another order than a run"), "quick"),
    "a domain that was read": Forgery("classes", read_from_the_rows, ("config.yaml does not",), "quick"),
    # What the report says
    "another title": Forgery("sketch", reported(another_title), (REPORT,)),
    "an exact number marked safe": Forgery("classes", reported(an_exact_number_marked_safe), (REPORT,)),
    "a number left out of the report": Forgery("choices", reported(a_number_left_out), (REPORT,)),
    "numbers in another order": Forgery("classes", reported(in_another_place), (REPORT,)),
    "the last bit of a number": Forgery("sketch", reported(the_last_bit), (REPORT,)),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_it_is_refused_for_its_own_reason(
    what: str, bundles: dict[str, Path], others: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    forgery = FORGERIES[what]
    mine = Parts.of(bundles[forgery.of])
    forgery.change(mine, Parts.of(others[forgery.of]))
    path = mine.written(tmp_path / "f.zip", key, follow=forgery.follow)
    only(path, *forgery.reasons, **HOWS[forgery.by])
    for weaker in list(HOWS)[: list(HOWS).index(forgery.by)]:
        assert failures(path, **HOWS[weaker]) == [], f"a {weaker} check finds it too: say so"


OTHER_QUESTION = "The charged predictions are not about the label and the groups in config.yaml."


@pytest.mark.parametrize("changes", [{"label": "smoker"}, {"groups": ("region",)}], ids=["label", "groups"])
def test_predictions_of_another_label_or_by_other_groups(changes: dict[str, Any], tmp_path: Path, key: Key) -> None:
    """The generator asks the same of the rows whatever the label is."""
    mine = Parts.of(golden("independent"))
    schema = mine.config.schema
    if "groups" in changes:
        few = [one.name for one in schema.modelled if one.size <= 20 and one.name != mine.config.label]
        changes = {"groups": tuple(few[:1])}
    assert set(changes.get("groups", ())) | {changes.get("label", "smoker")} <= set(schema.names)
    mine.everywhere(**changes)
    only(mine.written(tmp_path / "f.zip", key, follow=True), OTHER_QUESTION, quick=False)


# Where it was made ----------------------------------------------------------------------------------------------------

ELSEWHERE: dict[str, Callable[[dict[str, str]], object]] = {
    "a digit of a version": lambda versions: versions.update(numpy="1.2.3"),
    "another processor": lambda versions: versions.update(processor="m68k"),
    "another source": lambda versions: versions.update(source="0" * 32),
    "no source": lambda versions: versions.pop("source"),
    "no version of a package": lambda versions: versions.pop("numpy"),
    "nothing at all": lambda versions: versions.clear(),
}


def of_elsewhere(path: Path, key: Key, stated: str = "a digit of a version") -> Path:
    """State other versions: nothing in the texts follows from them."""
    return altered(path, path, certificate=lambda one: ELSEWHERE[stated](one["versions"]), sign_with=key)


@pytest.mark.parametrize("stated", ELSEWHERE)
def test_stated_versions_switch_no_comparison_off(
    stated: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """Where all is made again to the byte, other versions prove nothing; a forged row is never said to hold."""
    mine = Parts.of(bundles["classes"])
    assert checked(of_elsewhere(mine.written(tmp_path / "honest.zip", key), key, stated), refit=True).ok
    one_cell_by_one_step(mine, mine)
    verdict = checked(of_elsewhere(mine.written(tmp_path / "f.zip", key), key, stated))
    assert verdict.outcome is Outcome.UNKNOWN, verdict.lines
    (lack,) = verdict.json["not_checked"]
    assert lack.startswith(
        "synthetic.csv: made again here, it differs, and this computer is not like the one that made"
    )
    assert " (here " in lack


@pytest.mark.parametrize("name", ["classes", "sketch", "choices"])
def test_a_bit_of_a_model_of_elsewhere_is_not_checked(
    name: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    mine = Parts.of(bundles[name])
    last_bit_of_the_model(mine, mine)
    verdict = checked(of_elsewhere(mine.written(tmp_path / "f.zip", key, follow=True), key), refit=True)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.lines
    (lack,) = verdict.json["not_checked"]
    assert MODEL in lack
    assert "The certificate states numpy 1.2.3 (here " in lack


def test_no_other_version_explains_a_model_that_is_far_away(
    bundles: dict[str, Path], others: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    mine = Parts.of(bundles["classes"])
    mine.state = Parts.of(others["classes"]).state
    path = of_elsewhere(mine.written(tmp_path / "f.zip", key, follow=True), key)
    only(path, MODEL, refit=True)
    only(path, MODEL, refit=False)
    assert checked(path, quick=True).ok, "nothing else contradicts it"


@pytest.mark.parametrize("note", NOTES)
def test_a_note_in_another_place(note: str, bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    """A run may have noted it, before the assumptions of its receipts."""
    mine = Parts.of(bundles["classes"])
    mine.document["assumptions"].append(note)
    only(mine.written(tmp_path / "f.zip", key), "lists its assumptions in another order than a run does")


# What is only stated --------------------------------------------------------------------------------------------------

STATED: dict[str, Forge] = {
    "device of the certificate": said(device="NVIDIA A100-SXM4-80GB"),
    "ledger": said(ledger={"charges": 2, "head": "cd" * 32}),
    "people_at_most": lambda mine, _: mine.everywhere(people_at_most=900),
    "holdout": lambda mine, _: mine.everywhere(holdout=0.5),
    "device": lambda mine, _: mine.everywhere(device="cpu"),
    "undeclared": lambda mine, _: mine.everywhere(undeclared="drop"),
}
"""Changed everywhere at once: nothing in a bundle contradicts it."""


@pytest.mark.parametrize("what", STATED)
def test_what_nothing_contradicts_is_said_to_be_only_stated(
    what: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    mine = Parts.of(bundles["classes"])
    STATED[what](mine, mine)
    verdict = checked(mine.written(tmp_path / "f.zip", key), refit=True)
    assert verdict.ok, verdict.json["failures"]
    file = "certificate.json" if what in ("ledger", "device of the certificate") else "config.yaml"
    named = what.partition(" ")[0]
    (field,) = (one for one in stated_only() if one.file == file and one.path.partition(".")[0] == named)
    assert any(field.what in line for line in verdict.lines if line.startswith("No check can show"))
