"""Bundles of runs that asked for all pairs and for sets of many columns: held, replayed, and forged in what is new."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bundle_making
import numpy as np
import pytest
from bundle_making import Key, altered, checked, config_of, members_of, seal
from forging import failures, following, forged, only, require_half_a_sensitivity_is_found, with_answer

from synth.bundle.measurements import Measurements
from synth.bundle.model_file import model_from_bytes, model_to_bytes
from synth.bundle.replay import Replay, drawn_table, replay
from synth.errors import PrivacyError, VerificationError
from synth.generators.adaptive import all_pairs, dp_hp_adaptive, whole_rows
from synth.models import pool
from synth.privacy.answers import NoisyAnswer, of_kind
from synth.privacy.selection import Selection
from synth.schema import CategoryColumn, DateColumn, NumberColumn, Schema, YesNoColumn

pytestmark = pytest.mark.thorough

ROWS = 1500

Arrays = dict[str, np.ndarray]


def of_three(schema: Schema, rows: int) -> Arrays:
    """Flags, and whether an odd number of the first three is set: no two columns tell anything."""
    codes = dict(zip(schema.names, np.random.default_rng(0).integers(0, 2, (len(schema.names), rows)), strict=True))
    return codes | {"odd": (codes["c0"] + codes["c1"] + codes["c2"]) % 2}


def of_factors(schema: Schema, rows: int) -> Arrays:
    """Numbers and a class that all follow two hidden causes."""
    random, loads = np.random.default_rng(1), np.random.default_rng(8).normal(size=(2, 6))
    loads[0] = np.abs(loads[0]) + 1.0
    told = random.normal(size=(rows, 2)) @ loads / np.linalg.norm(loads, axis=0) + 0.25 * random.normal(size=(rows, 6))
    codes = dict(zip(schema.names, np.clip(np.rint(told.T * 1.6 + 3.5), 0, 7).astype(int), strict=True))
    return codes | {"kind": np.digitize(told[:, 5], [-0.45, 0.45])}


TABLES: dict[str, tuple[tuple[Any, ...], dict[str, Any], Callable[[Schema, int], Arrays]]] = {
    "sets": (tuple(YesNoColumn(name, fallback="no") for name in ("c0", "c1", "c2", "c3", "c4", "odd")), {}, of_three),
    "pairs": (
        (
            *(NumberColumn(name, 0, 7, 1, fallback=3) for name in "abcde"),
            CategoryColumn("kind", ("low", "mid", "high"), fallback="low"),
        ),
        {"bins": 6, "cells": 1000},
        of_factors,
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Small pools and short fits; centres whatever sets told, so that bundles hold them."""
    right = whole_rows.WholeRows._ask_in_rounds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "POOL_ROWS", 3000)
        # Of flags alone: the other table is a mixture of all pairs.
        patch.setattr(dp_hp_adaptive, "sets_are_few", lambda bins, _: all(one.size == 2 for one in bins))
        patch.setattr(whole_rows, "_LEAST_EFFECTIVE", 120.0)
        patch.setattr(whole_rows.WholeRows, "_ask_in_rounds", lambda *told, **more: (right(*told, **more)[0], True))
        patch.setattr(all_pairs, "_STEPS", 30)
        patch.setattr(all_pairs, "_MORE", ())
        patch.setattr(all_pairs, "_FITS", 2)
        patch.setattr(all_pairs, "_COMPONENTS", 6)
        yield


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    """An honest bundle of each table."""
    found = {}
    for name, (columns, options, codes) in TABLES.items():
        config = config_of(
            columns,
            generator="dp-hp-adaptive",
            options=options,
            label=columns[-1].name,
            epsilon=20.0,
            rows=60,
            number_of_units=ROWS,
            holdout=0.0,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bundle_making, "simulated_codes", lambda schema, _, codes=codes: codes(schema, ROWS))
            found[name] = seal(config, tmp_path_factory.mktemp(name), key).path
    return found


def queries(bundle: Path) -> list[str]:
    return [one["query"] for one in json.loads(members_of(bundle)["certificate.json"])["receipts"]]


def of_stays(schema: Schema, rows: int) -> Arrays:
    """Two dates a few days apart, and a kind."""
    random = np.random.default_rng(3)
    came = random.integers(0, 350, rows)
    return {"came": came, "left": came + random.geometric(0.3, rows) - 1, "kind": random.integers(0, 2, rows)}


def test_a_bundle_of_dates_without_a_rule_holds_and_comes_again(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = datetime.date(2024, 1, 1), datetime.date(2025, 12, 31)
    columns = (
        DateColumn("came", first, last, fallback=first),
        DateColumn("left", first, last, missing=True),
        YesNoColumn("kind", fallback="no"),
    )
    config = config_of(
        columns,
        generator="dp-hp-adaptive",
        options={"cells": 4000},
        epsilon=20.0,
        rows=60,
        number_of_units=ROWS,
        holdout=0.0,
    )
    monkeypatch.setattr(bundle_making, "simulated_codes", lambda schema, _: of_stays(schema, ROWS))
    bundle = seal(config, tmp_path / "sealed", key).path
    assert "differences of dates" in queries(bundle)
    assert checked(bundle, key.public_key_pem).ok
    for folder, refit in (("again", False), ("refitted", True)):
        again = replay(bundle, tmp_path / folder, refit=refit)
        assert again.identical, again.lines
    assert again.as_certified, again.lines
    assert "model.safetensors is what the noisy answers give, to the last bit." in again.lines


@pytest.mark.parametrize("name", TABLES)
def test_an_honest_bundle_holds_and_comes_again(name: str, bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    asked = queries(bundles[name])
    assert "which columns go together" in asked
    assert ("all pairs of columns" in asked) == (name == "pairs")
    assert any(query.startswith("wide table 2") for query in asked) == (name == "sets")
    assert any(query.startswith("rows by nearest centre") for query in asked) == (name == "sets")
    assert checked(bundles[name], key.public_key_pem).ok
    again = replay(bundles[name], tmp_path / "again")
    assert again.identical
    assert again.report_identical
    refitted = replay(bundles[name], tmp_path / "refitted", refit=True)
    assert refitted.identical
    assert refitted.as_certified, refitted.lines
    assert "model.safetensors is what the noisy answers give, to the last bit." in refitted.lines


# What a model holds


def with_tensor(change: Callable[[np.ndarray], np.ndarray], *, ends: str) -> Callable[[bytes], bytes]:
    """Return a change of the last tensor whose name ends so."""

    def other(data: bytes) -> bytes:
        card, state = model_from_bytes(data)
        name = max(one for one in state if one.endswith(ends))
        return model_to_bytes(card, state | {name: change(state[name].copy())})

    return other


def more_of_the_first(array: np.ndarray) -> np.ndarray:
    array.reshape(-1)[0] += 1.0
    return array


def swapped(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array[::-1])


MODELS = {
    "a factor of a set": ("sets", with_tensor(more_of_the_first, ends=".factors"), ".factors'"),
    "weights of the mixture": ("pairs", with_tensor(swapped, ends="model.weights"), "'model.weights'"),
    "a component of the mixture": ("pairs", with_tensor(swapped, ends="model.probabilities"), "'model.probabilities'"),
}


@pytest.mark.parametrize("what", MODELS)
def test_a_model_that_its_answers_do_not_give(what: str, bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    """It draws other rows; a quick check leaves that out, and says so."""
    name, change, place = MODELS[what]
    path = altered(bundles[name], tmp_path / "f.zip", files={"model.safetensors": change}, sign_with=key)
    verdict = checked(path, quick=True)
    assert verdict.ok, verdict.json["failures"]
    assert any("synthetic.csv is what the sealed model draws" in one for one in verdict.json["left_out"])
    found = failures(path, refit=True)
    assert "synthetic.csv does not follow, byte for byte, from the rest of the bundle: it was altered." in found
    assert any("is not what the noisy answers give" in one and place in one for one in found)
    again = replay(path, tmp_path / "again")
    assert not again.as_certified
    assert again.differing[0].startswith("synthetic.csv, made again, is not the certified one")
    require_another_model(replay(path, tmp_path / "refitted", refit=True), place)


@pytest.mark.parametrize("what", MODELS)
def test_rows_and_report_of_a_forged_model_are_found_by_a_refit(
    what: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """The forger draws rows and report from the forged model, so that they agree with it.

    These fits take seconds: the usual check makes them again too, and a quick one says that it does not.
    """
    name, change, place = MODELS[what]
    path = altered(bundles[name], tmp_path / "1.zip", files={"model.safetensors": change}, sign_with=key)
    path = following(path, tmp_path / "2.zip", key)
    quick = checked(path, quick=True)
    assert quick.ok, quick.json["failures"]
    assert any("synth verify --refit does" in one for one in quick.json["left_out"])
    for refit in (False, True):
        (failure,) = failures(path, refit=refit)
        require_said_of_another_model(failure, place)
    again = replay(path, tmp_path / "again")
    assert again.identical, "a replay has only the model to go by"
    require_another_model(replay(path, tmp_path / "refitted", refit=True), place)


def require_another_model(again: Replay, place: str) -> None:
    assert not again.as_certified
    (said,) = [line for line in again.lines if line.startswith("model.safetensors")]
    require_said_of_another_model(said, place)


def require_said_of_another_model(said: str, place: str) -> None:
    assert "is not what the noisy answers give" in said
    assert place in said


def test_a_pool_of_another_seed(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    def other(seed: np.ndarray) -> np.ndarray:
        return seed + 1.0

    files = {"model.safetensors": with_tensor(other, ends="pool.seed")}
    path = altered(bundles["sets"], tmp_path / "f.zip", files=files, sign_with=key)
    only(path, "other numbers in 'model.pool.seed' than its model uses")
    assert replay(path, tmp_path / "again").identical, "rows are drawn by the seed of the run"


NO_POOL: dict[str, Callable[[bytes], bytes]] = {
    "a part below nothing": with_tensor(lambda one: one - 1.0, ends=".parts.0"),
    "a column that there is not": with_tensor(lambda one: one + 9.0, ends=".columns"),
    "too few factors": with_tensor(lambda one: one[:-1].copy(), ends=".factors"),
    "a factor that is no number": with_tensor(lambda one: one * np.nan, ends=".factors"),
}


@pytest.mark.parametrize("what", NO_POOL)
def test_what_is_no_pool_is_refused_in_a_sentence(
    what: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    path = altered(bundles["sets"], tmp_path / "f.zip", files={"model.safetensors": NO_POOL[what]}, sign_with=key)
    no_number = what == "a factor that is no number"
    strange = "contains something in the place of a number" if no_number else "does not contain exactly the tensors"
    only(path, f"model.safetensors {strange}")
    refused = "contains something in the place" if no_number else "cannot be used: it was altered"
    for draw in (lambda: replay(path, tmp_path / "again"), lambda: drawn_table(path, rows=5, seed=1)):
        with pytest.raises(VerificationError, match=rf"model\.safetensors {refused}"):
            draw()


# Answers and receipts


def answer_named(found: Measurements, begins: str) -> NoisyAnswer:
    return next(one for one in found.sums if one.receipt.query.startswith(begins))


ANSWERS = [("sets", "wide table 2"), ("pairs", "all pairs of columns"), ("pairs", "which columns go together")]


def refused(path: Path, folder: Path) -> str:
    """Return what a fit to the answers says of a bundle that it does not bear out."""
    try:
        again = replay(path, folder, refit=True)
    except PrivacyError as refusal:
        return str(refusal)
    assert not again.as_certified
    return " ".join(again.lines)


def shifted(value: np.ndarray) -> np.ndarray:
    """Another table of as many rows."""
    return np.roll(value.reshape(-1), 1).reshape(value.shape)


@pytest.mark.parametrize(
    ("name", "begins", "change", "said"),
    [
        ("sets", "wide table 1", shifted, "was asked with another feature map|was never asked|the noisy answers give"),
        ("sets", "wide table 2", shifted, "was asked with another feature map|was never asked|the noisy answers give"),
        ("pairs", "all pairs of columns", shifted, "is not what the noisy answers give"),
        # An answer that decides alone: what was asked next does not follow from this one.
        ("pairs", "which columns go together", np.zeros_like, "'choice 1' was never asked"),
    ],
)
def test_an_answer_that_was_changed(
    name: str,
    begins: str,
    change: Callable[[np.ndarray], np.ndarray],
    said: str,
    bundles: dict[str, Path],
    tmp_path: Path,
    key: Key,
) -> None:
    """Everything else agrees with it: a fit to the answers is another model, or asks another question next."""

    def other(found: Measurements) -> Measurements:
        old = next(one for one in found.sums if one.receipt.query.startswith(begins))
        return with_answer(found, old, NoisyAnswer(old.receipt, change(old.value), old.feature_map))

    path = forged(bundles[name], tmp_path / "f.zip", key, answers=other)
    assert re.search(said, refused(path, tmp_path / "again"))


def without(found: Measurements, begins: str) -> Measurements:
    kept = [one for one in found.answers if not one.query.startswith(begins)]
    assert len(kept) < len(found.answers)
    return dataclasses.replace(found, answers=tuple(kept))


@pytest.mark.parametrize(("name", "begins"), [*ANSWERS, ("sets", "choice of wide table 2")])
def test_a_receipt_that_was_left_out(
    name: str, begins: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """Of the certificate alone; and with its answer, of a question that the model was fitted to."""

    def unstated(document: dict[str, Any]) -> None:
        document["receipts"] = [one for one in document["receipts"] if not one["query"].startswith(begins)]

    found = failures(forged(bundles[name], tmp_path / "f.zip", key, certificate=unstated))
    assert any("receipt" in failure for failure in found), found
    both = forged(
        bundles[name], tmp_path / "b.zip", key, certificate=unstated, answers=lambda one: without(one, begins)
    )
    assert failures(both)
    with pytest.raises(PrivacyError, match="was never asked"):
        replay(both, tmp_path / "again", refit=True)


@pytest.mark.parametrize(
    ("name", "begins", "given"),
    [
        ("pairs", "all pairs of columns", "1.41"),
        ("pairs", "which columns go together", "1.41"),
        ("sets", "wide table", "1.41"),
        ("sets", "choice of wide table", "2"),
    ],
)
def test_half_a_sensitivity_of_what_is_new(
    name: str, begins: str, given: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    require_half_a_sensitivity_is_found(bundles[name], tmp_path / "f.zip", key, queries=begins, given=given)


def test_another_set_than_was_chosen(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    """``verify`` has no candidates but the chosen one; a fit to the answers has them all."""

    def other(found: Measurements) -> Measurements:
        chosen = next(one for one in of_kind(found.answers, Selection) if one.query == "choice of wide table 2")
        index = (chosen.index + 1) % chosen.receipt.dimension
        return with_answer(found, chosen, dataclasses.replace(chosen, index=index))

    path = forged(bundles["sets"], tmp_path / "f.zip", key, answers=other)
    with pytest.raises(PrivacyError, match=r"was asked with another feature map|was never asked"):
        replay(path, tmp_path / "again", refit=True)
