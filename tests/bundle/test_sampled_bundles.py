"""dp-gan and dp-cgan from the bytes of a file: forecast, sealed bundle, verification, forgeries and replay."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import (
    Key,
    altered,
    checked,
    members_of,
    npy,
    npz_with,
    npz_with_index,
    require_verified_and_replayed,
)
from forging import answers_of, costing, forged, with_answer

from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.replay import replay
from synth.errors import PrivacyError
from synth.generators import GeneratorTask, make
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts, units_left_beside
from synth.privacy.answers import of_kind
from synth.privacy.feature_maps import Constant
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.receipt import Receipt
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import PlannedSession, budget_parts, forecast
from synth.reports.measured import EVALUATION_QUERY, evaluation_question
from synth.schema import RunConfig, TableFormat, config_of_text
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

STEPS = 5
TRAINING = "gradients of the critic"

DECLARED = """
account: visits
unit: {protects: patient, id_column: patient, rows_per_unit: ROWS}
row_count: private
people: MADE
people_at_most: 5000
budget: {epsilon: 4.0}
holdout: 0.2
generator: {name: GENERATOR, options: {steps: 5, batch_size: 100, hidden: 4, generated: 16}}
rows: 150
label: outcome
columns:
  patient: {type: identifier}
  age: {type: number, low: 0, high: 99, step: 1, fallback: 0}
  cost: {type: number, low: 0, high: 900, step: 10, missing: true}
  ward: {type: category, values: [general, surgery, heart], fallback: general}
  visited: {type: date, low: 2022-01-01, high: 2022-12-31, step: day, fallback: 2022-01-01}
  outcome: {type: category, values: [well, ill], fallback: well}
"""

SITUATIONS = {
    "dp-gan": ("dp-gan", 1, ""),
    "dp-cgan": ("dp-cgan", 1, ""),
    "dp-gan, whole patients": ("dp-gan", 3, ""),
    "dp-cgan, up to 3 visits": ("dp-cgan", 3, "separate_rows"),
}
"""Generator, visits of a patient, and whether visits are read one by one."""


def settings_of(situation: str) -> RunConfig:
    generator, visits, made = SITUATIONS[situation]
    text = DECLARED.replace("people: MADE\n", f"people: {made}\n" if made else "")
    return config_of_text(text.replace("GENERATOR", generator).replace("ROWS", str(visits)))


def file_of(patients: int, visits: int, seed: int = 1) -> bytes:
    """The bytes of a table: some cells undeclared, some empty, some rows of nobody."""
    random = np.random.default_rng(seed)
    lines = ["patient,age,cost,ward,visited,outcome"]
    for patient in range(patients):
        for _ in range(random.integers(1, visits + 2) if visits > 1 else 1):
            day = np.datetime64("2022-01-01") + int(random.integers(0, 365))
            cost = "" if random.random() < 0.1 else f"{10 * random.integers(0, 95)}"
            ward = ("general", "surgery", "heart", "elsewhere")[random.integers(4)]
            whose = "" if random.random() < 0.02 else f"P{patient}"
            lines.append(f"{whose},{random.integers(0, 110)},{cost},{ward},{day},{('well', 'ill')[random.integers(2)]}")
    return ("\n".join(lines) + "\n").encode()


class Told(NullProgress):
    """Everything that a run says while it goes on."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def phase(self, name: str) -> None:
        self.said.append(name)

    def step(self, done: int, total: int) -> None:
        self.said.append((done, total))


def released(config: RunConfig, data: bytes, folder: Path, key: Key, progress: Any = None) -> Path:
    """Read, ask, fit, draw and seal as a run does."""
    folder.mkdir(exist_ok=True)
    (table,) = PrivateTable.open(
        lambda: io.BytesIO(data), "", config.schema, TableFormat(), account_key=bytes(32), holdout=config.holdout
    )
    fitted = fit_and_sample(config, table, progress or NullProgress())
    assert epsilon_of_receipts(fitted.receipts, config.delta) <= config.epsilon
    sealing = Sealing(signer=key, ledger={"charges": 1, "head": "ab" * 32})
    return seal_release(config, fitted, folder, sealing=sealing, progress=NullProgress()).path


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    return {
        situation: released(settings_of(situation), file_of(300, visits), tmp_path_factory.mktemp("run"), key)
        for situation, (_, visits, _) in SITUATIONS.items()
    }


def steps_of(bundle: Path) -> NoisySteps:
    (found,) = of_kind(answers_of(bundle).answers, NoisySteps)
    return found


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_sealed_verified_and_replayed(
    situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """Rows are drawn again from the model; then both networks are trained again on the noisy steps."""
    require_verified_and_replayed(bundles[situation], key, tmp_path)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_forecast_is_what_is_spent(situation: str, bundles: dict[str, Path]) -> None:
    """A training spends what the generator has left: on mu, and on its part of delta."""
    config = settings_of(situation).asked
    parts = {part.name: part.share for part in budget_parts(config)}
    budget = PrivacyBudget(config.epsilon, config.delta, config.schema.neighbours)
    receipts = {one.query: one for answer in answers_of(bundles[situation]).answers for one in answer.receipts}
    training = receipts.pop(TRAINING)
    of_delta = budget.units - units_left_beside(budget, training.additive_delta)
    generator = (
        parts["generator"] - sum(receipts[name].units for name in ("classes",) if name in receipts) / budget.units
    )
    assert 0.995 < (training.units + of_delta) / (generator * budget.units) <= 1
    assert receipts["number of rows"].units == pytest.approx(parts["row count"] * budget.units, rel=1e-5)
    assert sum(parts.values()) == pytest.approx(1.0)
    assert {part.name for part in forecast(config).parts} == parts.keys()
    epsilon = json.loads(members_of(bundles[situation])["certificate.json"])["epsilon"]
    assert 0.99 * config.epsilon <= epsilon <= config.epsilon
    assert (training.mechanism, training.sensitivity, training.steps) == ("sampled_gaussian", 1.0, STEPS)
    assert training.rows_per_unit == (3 if situation.endswith("visits") else 1)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_planned_session_foresees_the_receipts_of_the_run(situation: str, bundles: dict[str, Path]) -> None:
    """Told the noisy number of rows that the run was told, it plans every question as the run did."""
    config, found = settings_of(situation).asked, answers_of(bundles[situation])
    budget = PrivacyBudget(config.epsilon, config.delta, config.schema.neighbours)
    planned = PlannedSession(config.schema, budget, rows=found.rows.value)
    for part in budget_parts(config):
        if part.name == "row count":
            planned.noisy_sum(Constant(), share=part.share, query="number of rows", source="number of rows")
        elif part.name == "evaluation":
            question = evaluation_question(config.schema)
            planned.noisy_sum(question, share=part.share, query=EVALUATION_QUERY, source="report")
    generator = make(config.generator, GeneratorTask.of(config, device="cpu"), config.options)
    generator.fit(planned.sub_session(planned.remaining_share), NullProgress())
    foreseen = [one.receipt for one in planned.answers]
    receipts = [receipt for answer in found.answers for receipt in answer.receipts]
    assert [dataclasses.replace(one, private=True) for one in foreseen] == receipts


def test_the_rate_follows_from_the_noisy_number_of_rows_and_never_from_the_true_one(bundles: dict[str, Path]) -> None:
    for bundle in bundles.values():
        found = answers_of(bundle)
        assert not found.rows.public
        assert steps_of(bundle).question.rate == round(100 / found.rows.value * 2**32)


def test_answers_are_written_and_read_back_byte_for_byte(bundles: dict[str, Path]) -> None:
    for bundle in bundles.values():
        written = members_of(bundle)["measurements.npz"]
        found = measurements_from_bytes(written)
        assert measurements_to_bytes(found) == written
        assert steps_of(bundle).whole.shape == (STEPS, steps_of(bundle).question.dimension)


def test_what_a_run_says_is_the_same_however_many_rows_there_are(tmp_path: Path, key: Key) -> None:
    said = []
    for patients in (40, 700):
        progress = Told()
        released(settings_of("dp-cgan"), file_of(patients, 1), tmp_path / str(patients), key, progress)
        said.append(progress.said)
    assert said[0] == said[1]
    assert (STEPS, STEPS) in said[0]


def test_two_runs_of_one_seed_draw_other_samples_and_other_noise(
    bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """The seed of a configuration is public; with it nobody can draw the samples again."""
    again = released(settings_of("dp-gan"), file_of(300, 1), tmp_path / "again", key)
    assert (steps_of(again).whole != steps_of(bundles["dp-gan"]).whole).any(axis=1).all()


# Forgeries: everything follows the forgery, and the signature is right

ReceiptChange = Callable[[Receipt], Receipt]


def of_training(**changes: Any) -> ReceiptChange:
    """Change the receipt of the training alone, at the cost that then follows from it."""
    return lambda one: costing(dataclasses.replace(one, **changes)) if one.query == TRAINING else one


def noise_times(factor: float) -> ReceiptChange:
    """State noise of another size, on the same grid."""

    def change(one: Receipt) -> Receipt:
        if one.query != TRAINING:
            return one
        variance = round((factor * one.noise_scale / one.grid) ** 2)
        return costing(dataclasses.replace(one, noise_scale=variance**0.5 * one.grid))

    return change


def asked(**changes: Any) -> Callable[[Measurements], Measurements]:
    """Pass the steps off as answers to another question."""

    def change(found: Measurements) -> Measurements:
        (old,) = of_kind(found.answers, NoisySteps)
        question = dataclasses.replace(old.question, **changes)
        whole = np.resize(old.whole, (question.steps, question.dimension))
        return with_answer(found, old, NoisySteps(old.receipt, question, whole))

    return change


def with_tables(found: Measurements) -> Measurements:
    """Say that ages were looked up in another table, of as many numbers."""
    (old,) = of_kind(found.answers, NoisySteps)
    first, *others = old.question.tables
    turned = Lookup(first.column, first.table[::-1], first.bins)
    return asked(tables=(turned, *others))(found)


def with_steps(steps: int) -> dict[str, Any]:
    """Drop steps, or add some, everywhere: answer, question and receipt."""

    def receipt(one: Receipt) -> Receipt:
        return of_training(steps=steps, dimension=one.dimension // STEPS * steps)(one)

    return {"answers": asked(steps=steps), "receipts": receipt}


OTHERS = "was asked about other columns or with other settings"
OTHER = "than the generator's question and its share of the budget give"
UNLIKE = "is for another sampling rate or number of steps than its question"

FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "more noise than was added": ({"receipts": noise_times(2.0)}, f"another noise scale {OTHER}"),
    "a little more noise than was added": ({"receipts": noise_times(1.001)}, f"another noise scale {OTHER}"),
    "a smaller rate on the receipt": ({"receipts": of_training(sampling_rate=0.01)}, UNLIKE),
    "fewer steps on the receipt": ({"receipts": of_training(steps=3)}, UNLIKE),
    "a smaller rate everywhere": (
        {"answers": asked(rate=2**26), "receipts": of_training(sampling_rate=2.0**-6)},
        OTHERS,
    ),
    "steps dropped": (with_steps(3), OTHERS),
    "steps added": (with_steps(7), OTHERS),
    "half the sensitivity": ({"receipts": of_training(sensitivity=0.5)}, "its question and schema.json give 1"),
    "more of delta added": ({"receipts": of_training(additive_delta=1e-7)}, f"another mu squared units {OTHER}"),
    "another clip": ({"answers": asked(clip=2.0)}, OTHERS),
    "another loss": ({"answers": asked(loss="wasserstein")}, OTHERS),
    "another batch size": ({"answers": asked(rate=2**31), "receipts": of_training(sampling_rate=0.5)}, OTHERS),
    "another table": ({"answers": with_tables}, OTHERS),
    "a sum": (
        {"receipts": of_training(mechanism="discrete_gaussian", sampling_rate=0.0, steps=0, additive_delta=0.0)},
        "is not for the steps of such a training",
    ),
    "another grid": ({"receipts": of_training(grid=2.0**-23)}, "a grid that no sum uses"),
    "a training instead of a sum": (
        {
            "receipts": lambda one: (
                costing(
                    dataclasses.replace(
                        one, mechanism="sampled_gaussian", sampling_rate=0.01, steps=1, additive_delta=1e-8
                    )
                )
                if one.query == "classes"
                else one
            )
        },
        "has a receipt that is not for a sum",
    ),
}


@pytest.mark.four_cases
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_training_is_found(forgery: str, bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    changes, reason = FORGERIES[forgery]
    path = forged(bundles["dp-cgan"], tmp_path / "forged.zip", key, **changes)
    verdict = checked(path, key.public_key_pem)
    assert not verdict.ok
    assert reason in "\n".join(verdict.json["failures"])


UNDERSTATED: dict[str, tuple[dict[str, Any], str]] = {
    "no part of delta": ({"additive_delta": 0.0}, "delta"),
    "half the part of delta": ({"additive_delta": 2.0**-5 * 1e-6}, "cost"),
    "no cost on a grid": ({"slack": 0.0}, "discretisation cost"),
    "half the cost": ({"mu_squared_units": 10**9}, "cost"),
    "twice the steps": ({"steps": 2 * STEPS}, "cost|dimension"),
}


@pytest.mark.parametrize("forgery", UNDERSTATED)
def test_a_receipt_that_understates_is_refused_by_whoever_adds_it_up(
    forgery: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """In a certificate that claims the epsilon of the honest one; the answers go along."""
    changes, reason = UNDERSTATED[forgery]

    def certificate(document: dict[str, Any]) -> None:
        for one in document["receipts"]:
            if one["query"] == TRAINING:
                one |= changes

    path = altered(bundles["dp-cgan"], tmp_path / "forged.zip", certificate=certificate, sign_with=key)
    verdict = checked(path, key.public_key_pem)
    assert not verdict.ok
    assert re.search(reason, "\n".join(verdict.json["failures"])), verdict.json["failures"]


def check_numbers(
    bundle: Path, target: Path, key: Key, change: Callable[[dict[str, bytes]], None], reason: str
) -> None:
    """Change the members of the file of answers, and sign."""
    path = altered(bundle, target, files={"measurements.npz": lambda data: npz_with(data, change)}, sign_with=key)
    verdict = checked(path, key.public_key_pem)
    assert not verdict.ok
    assert reason in "\n".join(verdict.json["failures"]), verdict.json["failures"]


def with_numbers(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict[str, bytes]], None]:
    def changed(members: dict[str, bytes]) -> None:
        (name,) = (one for one in members if one.startswith("steps_"))
        members[name] = npy(np.ascontiguousarray(change(np.load(io.BytesIO(members[name])))))

    return changed


NUMBERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "off the grid": lambda whole: whole + 0.5,
    "not numbers": lambda whole: whole * np.nan,
    "a step dropped": lambda whole: whole[:-1],
    "a number of each step dropped": lambda whole: whole[:, :-1],
    "in one row": lambda whole: whole.reshape(1, -1),
}


def require_refused(bundle: Path, change: Callable[[bytes], bytes], folder: Path, key: Key) -> None:
    """Answers that were changed so are named as what does not hold."""
    path = altered(bundle, folder / "f.zip", files={"measurements.npz": change}, sign_with=key)
    verdict = checked(path, key.public_key_pem)
    assert not verdict.ok
    assert "measurements.npz" in "\n".join(verdict.json["failures"])


@pytest.mark.parametrize("forgery", NUMBERS)
def test_numbers_of_another_form_are_refused(forgery: str, bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    change = with_numbers(NUMBERS[forgery])
    require_refused(bundles["dp-cgan"], lambda data: npz_with(data, change), tmp_path, key)


def test_a_training_of_no_known_kind_is_refused(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    def unknown(index: dict[str, Any]) -> None:
        index["steps"][0]["kind"] = "gradients of friends"

    require_refused(bundles["dp-cgan"], lambda data: npz_with_index(data, unknown), tmp_path, key)


@pytest.mark.parametrize("changed", [{"clip": 0.5}, {"loss": "wasserstein"}, {"rate": 2**31}, {"tables": None}])
def test_a_training_of_another_question_is_not_fitted_again(
    changed: dict[str, Any], bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    answers = with_tables if "tables" in changed else asked(**changed)
    path = forged(bundles["dp-cgan"], tmp_path / "forged.zip", key, answers=answers)
    with pytest.raises(PrivacyError, match=OTHERS):
        replay(path, tmp_path / "again", refit=True)


def test_other_noisy_steps_lead_to_another_model(bundles: dict[str, Path], tmp_path: Path, key: Key) -> None:
    """Fitted again, the networks follow the steps: a bundle whose steps were exchanged does not come out the same."""

    def exchanged(found: Measurements) -> Measurements:
        (old,) = of_kind(found.answers, NoisySteps)
        return with_answer(found, old, NoisySteps(old.receipt, old.question, old.whole[::-1]))

    path = forged(bundles["dp-cgan"], tmp_path / "forged.zip", key, answers=exchanged)
    assert not checked(path, key.public_key_pem, refit=True).ok
