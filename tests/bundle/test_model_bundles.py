"""The bundle of a private model: sealed, verified and fitted again in every situation; whatever is forged is found."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, altered, checked, config_of, members_of, simulated_codes
from forging import costing, failures, following, forged, with_answer
from toy_models import CARDS
from toy_models.line import Line

from synth.bundle.archive import canonical_json
from synth.bundle.measurements import Measurements
from synth.bundle.model_file import ModelCard, model_from_bytes, model_to_bytes, model_to_json, restored_model
from synth.bundle.replay import replay
from synth.bundle.verify import Outcome
from synth.errors import PrivacyError
from synth.estimators import MODELS
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import of_kind
from synth.privacy.more.gradients import NoisyGradient
from synth.privacy.receipt import Receipt
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

COLUMNS = (
    NumberColumn("age", 0, 99, 1, fallback=0),
    CategoryColumn("region", ("north", "south", "east"), fallback="north"),
    NumberColumn("income", 0, 999, 1, fallback=0),
)
SITUATIONS = {
    "replace one": (1, "public"),
    "add or remove": (1, "private"),
    "replace one of three rows": (3, "public"),
    "add or remove three rows": (3, "private"),
}
STEPS = 3


def written_again(model: bytes) -> bytes:
    card, state = model_from_bytes(model)
    return model_to_json(card, restored_model(card, state))


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "toy-line", CARDS[0])
        yield


def settings_of(situation: str) -> RunConfig:
    rows_per_unit, row_count = SITUATIONS[situation]
    ids = rows_per_unit > 1
    columns = (*((IdentifierColumn("person"),) if ids else ()), *COLUMNS)
    return config_of(
        columns,
        unit=PrivacyUnit(rows_per_unit=rows_per_unit, id_column="person" if ids else None),
        row_count=row_count,
        number_of_units=1500 // rows_per_unit if row_count == "public" else None,
        **{"generator": "toy-line", "rows": 0, "holdout": 0.0, "label": "income", "options": {"steps": STEPS}},
        domain_source={},
    )


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    found = {}
    for situation in SITUATIONS:
        config, folder = settings_of(situation), tmp_path_factory.mktemp("run")
        people = [f"person {place % 500}" for place in range(1500)] if config.schema.unit.id_column else None
        table = PrivateTable.from_codes(config.schema, simulated_codes(config.schema, 1500), unit_ids=people)
        measured = fit_and_sample(config, table, NullProgress())
        assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
        seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
        found[situation] = folder / "bundle.zip"
    return found


@pytest.fixture
def bundle(bundles: dict[str, Path]) -> Path:
    return bundles["replace one"]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_it_is_sealed_verified_and_fitted_again(
    situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    verdict = checked(bundles[situation], key.public_key_pem)
    assert verdict.ok, verdict.lines
    assert not any("synthetic" in line for line in verdict.lines)
    members = members_of(bundles[situation])
    certificate = json.loads(members["certificate.json"])
    assert certificate["model"] == "toy-line"
    assert not {"generator", "rows"} & set(certificate)
    gradients = [one for one in certificate["receipts"] if one["query"].startswith("gradient")]
    bound = 2.0 if situation.startswith("replace") else 1.0
    assert [one["sensitivity"] for one in gradients] == [bound] * STEPS
    for text in ("README.txt", "CITATION.cff", "report.html"):
        assert b"ynthetic" not in members[text], text
    again = replay(bundles[situation], tmp_path / "again")
    assert again.as_certified, again.lines
    for name in ("model.json", "report.json"):
        assert (tmp_path / "again" / name).read_bytes() == members[name]


Alter = Callable[[dict[str, Any]], None]


def json_with(change: Alter) -> Callable[[bytes], bytes]:
    def altered_json(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        return canonical_json(document)

    return altered_json


def slope(document: dict[str, Any]) -> None:
    document["fitted"]["slopes"]["age"] += 2.0**-40


def said_more(document: dict[str, Any]) -> None:
    document["fitted"]["rows seen"] = 1500


def nothing_assumed(document: dict[str, Any]) -> None:
    document["assumed"] = []


@pytest.mark.parametrize("change", [slope, said_more, nothing_assumed], ids=lambda change: change.__name__)
def test_a_model_that_was_altered_and_signed_anew_is_found(
    change: Alter, bundle: Path, tmp_path: Path, key: Key
) -> None:
    path = altered(bundle, tmp_path / "forged.zip", files={"model.json": json_with(change)}, sign_with=key)
    assert failures(path) == ["model.json does not follow, byte for byte, from the rest of the bundle: it was altered."]


def other_numbers(data: bytes) -> bytes:
    card, state = model_from_bytes(data)
    return model_to_bytes(card, {"line": state["line"] + 2.0**-30})


def test_other_numbers_of_which_everything_else_follows_are_found_by_fitting_again(
    bundle: Path, tmp_path: Path, key: Key
) -> None:
    """A check fits nothing again unless it is asked to, and says so; the report still has the numbers of the fit."""
    model = other_numbers(members_of(bundle)["model.safetensors"])
    files = {"model.safetensors": lambda _: model, "model.json": lambda _: written_again(model)}
    path = altered(bundle, tmp_path / "forged.zip", files=files, sign_with=key)
    reported = ["report.json does not follow, byte for byte, from the rest of the bundle: it was altered."]
    assert failures(path, quick=False) == reported
    again = replay(path, tmp_path / "again")
    assert not again.identical
    assert not again.as_certified
    assert any("is not what the noisy answers give: it differs in 'line'" in line for line in again.lines)
    # The forger makes report and page from the forged model too.
    path = following(path, tmp_path / "forged.zip", key)
    verdict = checked(path)
    assert verdict.ok, verdict.lines
    assert any("Not recomputed here: that the model was fitted" in line for line in verdict.lines)
    (failure,) = failures(path, refit=True)
    assert "is not what the noisy answers give: it differs in 'line'" in failure


def test_what_another_version_wrote_is_not_checked_and_a_far_model_still_fails(
    bundle: Path, tmp_path: Path, key: Key
) -> None:
    def other_version(document: dict[str, Any]) -> None:
        document["versions"]["source"] = "0" * 32

    def other_title(document: dict[str, Any]) -> None:
        document["title"] = "Line of old"

    for change in (other_title, slope):
        path = altered(
            bundle,
            tmp_path / "forged.zip",
            files={"model.json": json_with(change)},
            certificate=other_version,
            sign_with=key,
        )
        verdict = checked(path)
        assert verdict.outcome is Outcome.UNKNOWN
        assert [one.partition(":")[0] for one in verdict.json["not_checked"]] == ["model.json"]
        again = replay(path, tmp_path / "again")
        assert not again.identical
        assert again.outcome is Outcome.UNKNOWN
        assert "the certificate states source" in again.lines[-1]
    # A model that no other version explains.
    files = {"model.safetensors": lambda data: model_to_bytes(model_from_bytes(data)[0], {"line": np.ones(3)})}
    path = altered(bundle, tmp_path / "far.zip", files=files, certificate=other_version, sign_with=key)
    assert replay(path, tmp_path / "again").outcome is Outcome.FAILS
    assert checked(path).outcome is Outcome.UNKNOWN
    assert checked(path, refit=True).outcome is Outcome.FAILS


def test_a_tensor_that_model_json_does_not_tell_is_compared_too(
    bundle: Path, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Line.document
    monkeypatch.setattr(Line, "document", lambda self: {**right(self), "intercept": 0.0})
    files = {
        "model.safetensors": lambda data: model_to_bytes(
            (read := model_from_bytes(data))[0], {"line": read[1]["line"] + np.array([2.0**-30, 0, 0])}
        ),
        "model.json": lambda _: written_again(members_of(bundle)["model.safetensors"]),
    }
    path = altered(bundle, tmp_path / "forged.zip", files=files, sign_with=key)
    again = replay(path, tmp_path / "again")
    assert again.identical, "model.json does not tell it"
    assert again.outcome is Outcome.FAILS
    assert any("is not what the noisy answers give" in line for line in again.lines)
    assert any("is not what the noisy answers give" in one for one in failures(path, refit=True))


def test_another_answer_is_found_by_fitting_again(bundle: Path, tmp_path: Path, key: Key) -> None:
    """The last one: after it nothing was asked at other parameters."""

    def shifted(found: Measurements) -> Measurements:
        last = of_kind(found.answers, NoisyGradient)[-1]
        return with_answer(found, last, dataclasses.replace(last, value=last.value + last.receipt.grid))

    path = forged(bundle, tmp_path / "forged.zip", key, answers=shifted)
    assert checked(path).ok
    assert not replay(path, tmp_path / "again").identical
    (failure,) = failures(path, refit=True)
    assert "is not what the noisy answers give" in failure


@pytest.mark.parametrize("step", range(STEPS))
def test_a_gradient_at_other_parameters_fits_no_replay(step: int, bundle: Path, tmp_path: Path, key: Key) -> None:
    def elsewhere(found: Measurements) -> Measurements:
        old = of_kind(found.answers, NoisyGradient)[step]
        asked = dataclasses.replace(old.question, parameters=old.question.parameters + 2.0**-10)
        return with_answer(found, old, dataclasses.replace(old, question=asked))

    path = forged(bundle, tmp_path / "forged.zip", key, answers=elsewhere)
    with pytest.raises(PrivacyError, match="other parameters"):
        replay(path, tmp_path / "again")


def test_a_step_that_costs_less_is_found(bundle: Path, tmp_path: Path, key: Key) -> None:
    """What is left of the budget gives it away; where that was made to fit, the share of the step does."""

    def cheap(one: Receipt) -> Receipt:
        if one.query != "gradient 1":
            return one
        return costing(dataclasses.replace(one, noise_scale=2 * one.noise_scale))

    path = forged(bundle, tmp_path / "forged.zip", key, receipts=cheap)
    assert any("of the budget in config.yaml, but a run spends all of it" in one for one in failures(path))
    for how in ({"quick": False}, {"refit": True}):
        assert any("The receipt of 'gradient 1' has another noise scale" in one for one in failures(path, **how))
    again = replay(path, tmp_path / "again")
    assert again.identical
    assert not again.as_certified


def test_a_step_uncharged_is_found(bundle: Path, tmp_path: Path, key: Key) -> None:
    """Its receipt taken out, with its answer and without."""

    def out_of(document: dict[str, Any]) -> None:
        document["receipts"] = [one for one in document["receipts"] if one["query"] != "gradient 1"]
        kept = [Receipt.from_dict(one) for one in document["receipts"]]
        document["epsilon"] = epsilon_of_receipts(kept, document["delta"])

    def without(found: Measurements) -> Measurements:
        return dataclasses.replace(found, answers=tuple(one for one in found.answers if one.query != "gradient 1"))

    for answers in (None, without):
        path = forged(bundle, tmp_path / "forged.zip", key, certificate=out_of, answers=answers)
        assert any("numbered 0, 1, 2" in one for one in failures(path))
    with pytest.raises(PrivacyError, match="'gradient 1' was never asked"):
        replay(path, tmp_path / "again")


def test_half_the_sensitivity_is_found(bundle: Path, tmp_path: Path, key: Key) -> None:
    path = forged(
        bundle,
        tmp_path / "forged.zip",
        key,
        receipts=lambda one: costing(dataclasses.replace(one, sensitivity=1.0)),
    )
    assert sum("schema.json give 2" in problem for problem in failures(path)) == STEPS


def unsaid(document: dict[str, Any]) -> None:
    document["assumptions"] = [one for one in document["assumptions"] if not one.startswith("Steps of")]


def a_generator(document: dict[str, Any]) -> None:
    document |= {"generator": document.pop("model"), "rows": 700}


def both(document: dict[str, Any]) -> None:
    document |= {"generator": "toy-line", "rows": 700}


def no_rows(document: dict[str, Any]) -> None:
    document |= {"generator": document.pop("model"), "rows": 0}


def another(document: dict[str, Any]) -> None:
    document["model"] = "private-regression-of-another"


CERTIFICATES: dict[str, tuple[Alter, str]] = {
    "what is assumed left out": (unsaid, "The certificate leaves out an assumption: Steps of 2"),
    "a table's": (a_generator, "is about a table and the bundle holds a model, or the other way round"),
    "of both": (both, "has missing or unknown keys"),
    "a table's without rows": (no_rows, "has the wrong type"),
    "of another model": (another, "state different generators, options or seeds"),
}


@pytest.mark.parametrize("forgery", CERTIFICATES)
def test_a_certificate_of_something_else_is_found(forgery: str, bundle: Path, tmp_path: Path, key: Key) -> None:
    change, reason = CERTIFICATES[forgery]
    path = altered(bundle, tmp_path / "forged.zip", certificate=change, sign_with=key)
    # Signed after the change: only what is said differs.
    found = failures(path)
    assert any(reason in one for one in found), found


def test_a_generator_passed_off_as_a_model_is_found(bundle: Path, tmp_path: Path, key: Key) -> None:
    def renamed(data: bytes) -> bytes:
        card, state = model_from_bytes(data)
        return model_to_bytes(dataclasses.replace(card, generator="independent"), state)

    path = altered(bundle, tmp_path / "forged.zip", files={"model.safetensors": renamed}, sign_with=key)
    assert any("belongs to the model 'independent', which this program does not know" in one for one in failures(path))


def test_a_file_too_many_or_too_few_is_refused(bundle: Path, tmp_path: Path) -> None:
    members = members_of(bundle)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    for name, data in members.items():
        (folder / name).write_bytes(data)
    assert checked(folder).ok
    (folder / "synthetic.csv").write_text("age,region,income\n1,north,2\n")
    (problem,) = failures(folder)
    assert problem.startswith("The bundle contains a file that does not belong in a bundle.")
    (folder / "synthetic.csv").unlink()
    (folder / "model.json").unlink()
    assert failures(folder) == ["The bundle lacks synthetic.csv, synthetic.parquet."]


def test_the_model_follows_from_its_numbers_alone(bundle: Path) -> None:
    members = members_of(bundle)
    assert written_again(members["model.safetensors"]) == members["model.json"]
    told = json.loads(members["model.json"])
    card, state = model_from_bytes(members["model.safetensors"])
    assert isinstance(card, ModelCard)
    assert told["declared"] == json.loads(members["schema.json"])
    # By hand, as a reader would who has nothing but the file.
    by_hand = told["fitted"]["intercept"] + told["fitted"]["slopes"]["age"] * (50 / 99 - 0.5)
    by_hand += told["fitted"]["slopes"]["region"] * -0.5
    made = Line.from_state(card.task, CARDS[0].options(), state)
    assert made.predict(np.array([[50, 0, 0]]))[0] == pytest.approx(999 * min(max(by_hand + 0.5, 0), 1))
