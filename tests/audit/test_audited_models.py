"""Runs that release a model, from the bytes of a file to the sealed bundle, and bugs planted in between.

The model descends along noisy gradients: each is asked at parameters that follow from the answers before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_runs import NASTY, WORLDS, Dictation, World, moved, neighbours, start_home, t5_whole_runs
from faults import tables_opened
from prediction_faults import PREDICTION_FAULTS
from reading_here import read_here
from toy_models import CARDS
from toy_models.line import Line

from synth.errors import SynthError
from synth.estimators import MODELS
from synth.estimators.random_features.model import PrivateClassifier
from synth.privacy.costs import Bound
from synth.privacy.feature_maps import Block
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.session import PrivateSession
from synth.reading import reader
from synth.schema import RunConfig
from synth.services import run_folder

pytestmark = pytest.mark.thorough

Plant = Callable[[pytest.MonkeyPatch], None]

FEW = {
    "replace one": ("far beyond all bounds",),
    "add or remove": ("a line that cannot be read", "the last line, without its end"),
    "replace one of several rows": ("a row without an id",),
    "add or remove several rows": ("more rows than may be kept",),
}
"""What somebody new brings in the default run; everything with ``-m audit``."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("models") / "home")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "toy-line", CARDS[0])
    monkeypatch.setattr(reader, "ask", read_here)


def config_of(world: World, units: int) -> RunConfig:
    return world.config(units, "toy-line", rows=0, label="age", holdout=0.0, options={"steps": 3})


def a_model_keeps_its_promise(world: str, brought: tuple[str, ...], home: Path) -> None:
    """Nothing public depends on one unit, and the receipts state what was reserved."""
    found = {name: neighbours(WORLDS[world], name) for name in brought}
    (units, first, _), *_ = found.values()
    config = config_of(WORLDS[world], units)
    public, dictation = t5_whole_runs(config, first, {name: second for name, (*_, second) in found.items()}, home)
    assert set(public["files"]) == set(run_folder.PUBLISHABLE_OF_MODEL)
    certificate = json.loads(public["files"]["certificate.json"])
    assert 0.99 * config.epsilon < certificate["epsilon"] <= config.epsilon
    asked = [receipt["query"] for receipt in certificate["receipts"]]
    assert [query for query in asked if query.startswith("gradient")] == [f"gradient {step}" for step in range(3)]
    assert len(dictation.asked) >= len(asked), "an answer has no receipt"


def in_both_relations(home: Path) -> None:
    for world in ("replace one", "add or remove"):
        a_model_keeps_its_promise(world, FEW[world], home)


@pytest.mark.parametrize("world", WORLDS)
def test_a_nasty_neighbour_changes_no_public_byte_of_a_model(world: str, home: Path) -> None:
    a_model_keeps_its_promise(world, FEW[world], home)


@pytest.mark.audit
@pytest.mark.parametrize("world", WORLDS)
def test_no_neighbour_changes_a_public_byte_of_a_model(world: str, home: Path) -> None:
    a_model_keeps_its_promise(world, tuple(NASTY), home)


PAID: dict[str, dict[str, Any]] = {
    "toy-line": {"label": "age", "options": {"steps": 2}},
    "private-classifier": {"label": "well", "options": {"steps": 2, "features": "linear"}},
}
"""Models whose predictions of held-out people are paid for: of a number, and of classes."""


def paid_predictions_keep_their_promise(world: str, name: str, home: Path) -> None:
    """From the bytes of a file to the certificate: somebody who is held out moves the answer by what it states."""
    new = "far beyond all bounds"
    units, first, second = neighbours(WORLDS[world], new)
    config = WORLDS[world].config(
        units, name, rows=0, holdout=0.5, prediction_share=0.3, groups=("town",), **PAID[name]
    )
    heard: list[Dictation] = []
    public, dictation = t5_whole_runs(config, first, {new: second}, home, heard=heard)
    certificate = json.loads(public["files"]["certificate.json"])
    assert certificate["epsilon"] <= config.epsilon
    (receipt,) = [one for one in certificate["receipts"] if one.get("part") == "holdout"]
    factor = (np.sqrt(2) if WORLDS[world].row_count == "public" else 1.0) * WORLDS[world].rows_per_unit
    assert receipt["sensitivity"] == pytest.approx(factor, rel=1e-4)
    assert moved(certificate, dictation, heard[0])[receipt["query"]] > 0, "nobody of these is held out"


PAID_FAULTS: dict[str, tuple[str, Plant]] = {
    name: ("toy-line", PREDICTION_FAULTS[name])
    for name in (
        "losses that are not clipped to 1",
        "losses and rows counted as if they were one number",
        "losses bounded like one number",
        "cost of the hold-out not charged",
    )
}


def paid_fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        PAID_FAULTS[name] = ("private-classifier", plant)
        return plant

    return keep


@paid_fault("guesses bounded like one cell")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LinearGuess, "weighted_bound", lambda self, weight, half_bits: Bound(weight, weight))
    right = Block.bound

    def bound(block: Block, half_bits: int) -> Bound:
        found = right(block, half_bits)
        guess = any(isinstance(one, LinearGuess) for one in block.map.maps)
        return Bound(found.norm, found.diameter / np.sqrt(2)) if guess else found

    patch.setattr(Block, "bound", bound)


@paid_fault("a guess at coefficients from the rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = PrivateClassifier.predictor, tables_opened(patch)

    def predictor(self: PrivateClassifier, bins: int) -> LinearGuess:
        found = right(self, bins)
        return replace(found, parameters=found.parameters + 2.0**-20 * exact_ages(opened))

    patch.setattr(PrivateClassifier, "predictor", predictor)


@pytest.mark.audit
@pytest.mark.parametrize("planted", PAID_FAULTS)
def test_a_planted_bug_in_paid_predictions_is_noticed(
    planted: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, plant = PAID_FAULTS[planted]
    plant(monkeypatch)
    with pytest.raises((AssertionError, SynthError)):
        paid_predictions_keep_their_promise("replace one", name, home)


@pytest.mark.parametrize(
    ("world", "name"),
    [
        ("replace one", "private-classifier"),
        pytest.param("add or remove several rows", "private-classifier", marks=pytest.mark.audit),
        pytest.param("replace one", "toy-line", marks=pytest.mark.audit),
        pytest.param("add or remove several rows", "toy-line", marks=pytest.mark.audit),
    ],
)
def test_paid_predictions_of_a_model_keep_their_promise(world: str, name: str, home: Path) -> None:
    paid_predictions_keep_their_promise(world, name, home)


FAULTS: dict[str, Plant] = {}


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant
        return plant

    return keep


def exact_ages(opened: list[Any]) -> float:
    # A forecast fits the model too, before any table is opened.
    return float(np.asarray(opened[-1]._column("age"), dtype=np.int64).sum()) if opened else 0.0


@fault("the model keeps an exact sum")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = Line.state, tables_opened(patch)
    patch.setattr(Line, "state", lambda self: {"line": right(self)["line"] + 2.0**-20 * exact_ages(opened)})


@fault("what is assumed says how many rows there are")
def _(patch: pytest.MonkeyPatch) -> None:
    opened = tables_opened(patch)
    patch.setattr(Line, "assumptions", property(lambda self: (f"It has {opened[-1]._rows if opened else 0} rows.",)))


@fault("the first gradient is asked at parameters from the rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = Line.fit, tables_opened(patch)

    def fit(self: Line, session: PrivateSession, progress: Any) -> Line:
        self._line = self._line + 2.0**-20 * exact_ages(opened)
        return right(self, session, progress)

    patch.setattr(Line, "fit", fit)


@fault("an exact number is a fact of the model")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = Line.facts, tables_opened(patch)
    patch.setattr(Line, "facts", lambda self: tuple(replace(fact, value=exact_ages(opened)) for fact in right(self)))


@fault("a step uncharged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Line.fit

    def fit(self: Line, session: PrivateSession, progress: Any) -> Line:
        made = right(self, session, progress)
        spent = [receipt for receipt in session.receipts if receipt.query != "gradient 1"]
        patch.setattr(PrivateSession, "receipts", property(lambda own: tuple(spent)))
        return made

    patch.setattr(Line, "fit", fit)


@pytest.mark.parametrize("planted", FAULTS)
def test_a_planted_bug_in_the_run_of_a_model_is_noticed(
    planted: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[planted](monkeypatch)
    with pytest.raises((AssertionError, SynthError)):
        in_both_relations(home)
