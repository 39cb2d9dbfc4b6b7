"""A generator that descends along noisy gradients: forecast, bundle, verification, forgeries and replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from bundle_making import Key, config_of, members_of, require_verified_and_replayed, simulated_codes
from forging import answers_of, costing, forged, require_half_a_sensitivity_is_found, with_answer

from synth.bundle.answers import ENTRIES
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.replay import replay
from synth.errors import PrivacyError
from synth.generators import GENERATORS, Card, Generator, GeneratorTask, State
from synth.models.simplex import project_to_simplex
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import AnswerSource, of_kind
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more.gradients import GradientQuestion, NoisyGradient
from synth.privacy.more.lookups import Lookup
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig
from synth.services.pipeline import FittedRun, Sealing, fit_and_sample, seal_release

COLUMNS = (
    NumberColumn("age", 0, 99, 1, fallback=0),
    NumberColumn("income", 0, 999, 1, fallback=0),
    CategoryColumn("region", ("north", "south", "east", "west"), fallback="north"),
    CategoryColumn("outcome", ("well", "ill"), fallback="well"),
)
STEPS, CLIP = 4, 0.25


@dataclass(frozen=True)
class NoOptions:
    """It has none."""


class Descent(Generator):
    """Columns by themselves, but for incomes: those follow from age and region by a line that was descended to."""

    def __init__(self, task: GeneratorTask, options: NoOptions) -> None:
        self._columns = task.schema.modelled
        sizes = dict(zip(task.schema.names, task.schema.sizes, strict=True))
        ages = Lookup("age", np.linspace(-0.5, 0.5, sizes["age"])[:, None])
        cells = OneHot(("region",), (None,), (sizes["region"],))
        self.features = Stack((Constant(), ages, cells), (0.5, 0.7, 0.5))
        self.target = Lookup("income", np.linspace(-0.5, 0.5, sizes["income"])[:, None])
        self._tables: list[np.ndarray] = []
        self._line = np.zeros(self.features.dimension)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        parts = [OneHot((column.name,), (None,), (column.size,)) for column in self._columns]
        question = Stack(parts, (0.5,) * len(parts))
        release = session.noisy_sum(question, share=0.3, query="one-way tables", source="generator descent")
        ends = np.cumsum([part.dimension for part in parts])
        counts = np.split(release.value / 0.5, ends[:-1])
        self._tables = [project_to_simplex(one / max(one.sum(), 1.0)) for one in counts]
        for step in range(STEPS):
            asked = GradientQuestion(self.features, self.target, "squared", self._line, CLIP)
            share = session.remaining_share / (STEPS - step)
            answer = session.noisy_gradient(asked, share=share, query=f"gradient {step}", source="generator descent")
            self._line = asked.parameters - 2.0 * answer.gradient / max(session.rows.value, 1.0)
        return self

    def sample(self, n_rows: int, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        names = [column.name for column in self._columns]
        drawn = {
            name: random.choice(len(table), n_rows, p=table / table.sum())
            for name, table in zip(names, self._tables, strict=True)
        }
        wanted = np.clip(self.features.evaluate(drawn) @ self._line, -0.5, 0.5)
        drawn["income"] = np.rint((wanted + 0.5) * 999).astype(np.int64)
        return np.stack([drawn[name] for name in names], axis=1)

    def state(self) -> State:
        return {"line": self._line.copy()} | {f"table.{place}": one.copy() for place, one in enumerate(self._tables)}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: NoOptions, state: State) -> Self:
        generator = cls(task, options)
        generator._line = state["line"]
        generator._tables = [state[f"table.{place}"] for place in range(len(generator._columns))]
        return generator


Descent.card = Card(
    name="descent",
    title="Descent",
    summary="For tests.",
    best_for="Tests.",
    loses_where="Everywhere else: incomes lie on a line.",
    reference="None.",
    made_by=Descent,
    options=NoOptions,
    measures_one_ways=True,
)


@pytest.fixture(autouse=True, scope="module")
def registered() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GENERATORS, "descent", Descent.card)
        yield


SITUATIONS = {
    "replace one": (1, "public", False),
    "add or remove": (1, "private", False),
    "add or remove three rows": (3, "private", False),
    "add or remove three rows that say whose they are": (3, "private", True),
    "replace one of three rows": (3, "public", True),
}


def settings_of(situation: str) -> RunConfig:
    rows_per_unit, row_count, ids = SITUATIONS[situation]
    unit = PrivacyUnit(rows_per_unit=rows_per_unit, id_column="person" if ids else None)
    columns = (*((IdentifierColumn("person"),) if ids else ()), *COLUMNS)
    number = {1: 3000, 3: 1000}[rows_per_unit] if row_count == "public" else None
    changes = {"unit": unit, "row_count": row_count, "generator": "descent", "label": "outcome", "domain_source": {}}
    return config_of(columns, number_of_units=number, holdout=0.0, **changes)


def measured_on(config: RunConfig) -> FittedRun:
    codes = simulated_codes(config.schema, 3000)
    people = [f"person {place % 1000}" for place in range(3000)] if config.schema.unit.id_column else None
    return fit_and_sample(config, PrivateTable.from_codes(config.schema, codes, unit_ids=people), NullProgress())


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    found = {}
    for situation in SITUATIONS:
        folder = tmp_path_factory.mktemp("run")
        config = settings_of(situation)
        measured = measured_on(config)
        assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
        seal_release(config, measured, folder, sealing=Sealing(signer=key), progress=NullProgress())
        found[situation] = folder / "bundle.zip"
    return found


def test_it_is_a_generator() -> None:
    assert isinstance(Descent(GeneratorTask(settings_of("replace one").schema), NoOptions()), Generator)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_sealed_verified_and_replayed(
    situation: str, bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    require_verified_and_replayed(bundles[situation], key, tmp_path)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_forecast_is_what_is_spent(situation: str, bundles: dict[str, Path]) -> None:
    parts = {part.name: part.share for part in forecast(settings_of(situation)).parts}
    receipts = [receipt for one in answers_of(bundles[situation]).answers for receipt in one.receipts]
    whole = sum(receipt.mu_squared_units for receipt in receipts)
    for receipt in receipts:
        if receipt.query.startswith("gradient"):
            assert receipt.mu_squared_units / whole == pytest.approx(parts[receipt.query], rel=1e-5)
    replaced = SITUATIONS[situation][1] == "public"
    of_gradients = {receipt.sensitivity for receipt in receipts if receipt.query.startswith("gradient")}
    assert of_gradients == {2.0 if replaced else 1.0}


def test_answers_are_written_and_read_back_byte_for_byte(bundles: dict[str, Path]) -> None:
    for bundle in bundles.values():
        written = members_of(bundle)["measurements.npz"]
        found = measurements_from_bytes(written)
        assert measurements_to_bytes(found) == written
        assert len(of_kind(found.answers, NoisyGradient)) == STEPS


Change = Callable[[NoisyGradient], NoisyGradient]


def receipt_with(**changes: Any) -> Change:
    return lambda one: dataclasses.replace(one, receipt=costing(dataclasses.replace(one.receipt, **changes)))


def asked_with(**changes: Any) -> Change:
    return lambda one: dataclasses.replace(one, question=dataclasses.replace(one.question, **changes))


FORGERIES: dict[str, tuple[Change, str]] = {
    "half the sensitivity": (receipt_with(sensitivity=1.0), "its question and schema.json give 2"),
    "another mechanism": (receipt_with(mechanism="gaussian_rows"), "has a receipt that is not for a sum"),
    "another grid": (receipt_with(grid=2.0**-23), "a grid that no sum uses"),
    "no whole variance": (
        receipt_with(noise_scale=3.5 * 2.0**-24),
        "whose variance is not a whole number of grid steps",
    ),
    "one coordinate less": (lambda one: dataclasses.replace(one, value=one.value[:-1]), "number of coordinates"),
    "off the grid": (lambda one: dataclasses.replace(one, value=one.value + 2.0**-26), "not lie on the grid"),
    "not a number": (lambda one: dataclasses.replace(one, value=one.value * np.nan), "is not finite"),
    "another table": (
        asked_with(target=Lookup("income", np.linspace(-0.5, 0.5, 7)[:, None])),
        "cannot be asked about the declared table",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_answer_is_found(forgery: str, bundles: dict[str, Path]) -> None:
    change, reason = FORGERIES[forgery]
    schema = settings_of("replace one").schema
    first = of_kind(answers_of(bundles["replace one"]).answers, NoisyGradient)[0]
    problems = ENTRIES[NoisyGradient].problems
    assert not list(problems(first, schema))
    assert any(reason in problem for problem in problems(change(first), schema))


def test_half_the_sensitivity_is_found_though_everything_agrees_and_is_signed(
    bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """Costs follow from what is stated; what the question and the schema give is worked out again."""
    require_half_a_sensitivity_is_found(
        bundles["replace one"], tmp_path / "forged.zip", key, queries="gradient", given="2"
    )


@pytest.mark.parametrize(
    "changes",
    [{"clip": 0.5}, {"loss": "huber"}, {"parameters": np.full(6, 0.125)}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_gradient_of_another_question_is_not_refitted(
    changes: dict[str, Any], bundles: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    """What was asked is in the bundle: an answer passed off as one to another question fits no refit."""

    def passed_off(found: Measurements) -> Measurements:
        last = of_kind(found.answers, NoisyGradient)[-1]
        return with_answer(found, last, asked_with(**changes)(last))

    path = forged(bundles["replace one"], tmp_path / "forged.zip", key, answers=passed_off)
    with pytest.raises(PrivacyError, match="other parameters"):
        replay(path, tmp_path / "again", refit=True)
