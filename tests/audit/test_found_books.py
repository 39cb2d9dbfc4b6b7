"""What ledger and bundle state after findings and a release, from the bytes of a file, against sums made by hand.

Two findings of one table are charged, and a run uses the second. Each finding asks for values twice, so that deltas add
up within it as well as over findings. What is stated has to be true of the noise that receipts name, and of what one
unit alone may show, and hardly more than that.
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from audited_runs import ACCOUNT, WORLDS, Public, differences, neighbours, settings_of, start_home
from choosing import few
from found_runs import OF_FINDING, FindingBrowser, FoundDictation
from reading_here import read_all_here
from scipy.stats import norm

from synth.application import Application
from synth.bundle import certificate, checks
from synth.bundle import finding as of_bundle
from synth.bundle.finding import Finding
from synth.bundle.verify import verdict_of
from synth.jobs.processes import birth_of
from synth.ledger import spending
from synth.ledger.ledger import Ledger
from synth.ledger.spending import Cost
from synth.privacy.more.finding import find, finding_budget
from synth.privacy.more.found_values import FoundValues, ValuesQuestion
from synth.progress import NullProgress
from synth.reports import forecast
from synth.schema import FindColumn, ModelledColumn, RunConfig, config_to_mapping, parse_config
from synth.services import finding as findings
from synth.services import run_folder, runs
from synth.services.entering import enter_upload
from synth.system.machine import this_host

UNITS, EPSILON, DELTA = 300, 30.0, 1e-5
DELTA_OF_FINDING = 4e-6
"""So that each of the two parts that a finding adds is a tenth of what the run's delta is."""

BROUGHT = {"replace one": "far beyond all bounds", "add or remove": "a line that cannot be read"}

LOOSE = 0.02
"""Part of delta that may be stated and not needed: for noise on a grid, and for thresholds that are rounded up."""


# By hand --------------------------------------------------------------------------------------------------------------


def delta_of_noise(receipts: Iterable[Mapping[str, Any]], epsilon: float) -> float:
    """Add up by how much noise makes whole numbers likelier than e^epsilon times the same noise beside a neighbour.

    One discrete Gaussian stands for all: squares of sensitivity over noise add.
    """
    shift = 4096
    variance = shift**2 / sum((one["sensitivity"] / one["noise_scale"]) ** 2 for one in receipts)
    reach = math.ceil(12 * math.sqrt(variance)) + shift
    places = np.arange(-reach, reach + 1, dtype=np.float64)
    likely = np.exp(-(places**2) / (2 * variance))
    loss = (shift**2 - 2 * places * shift) / (2 * variance)
    return float((likely * np.maximum(0.0, -np.expm1(epsilon - loss))).sum() / likely.sum())


def delta_of_texts(finding: Finding) -> float:
    """Add up how likely one of all texts that a unit alone may hold passes, over the questions for values."""
    found, rows = 0.0, finding.schema.unit.rows_per_unit
    for answer in finding.answers:
        if isinstance(answer, FoundValues):
            keys = len(answer.question.columns) * rows * (2 if finding.schema.row_count == "public" else 1)
            above = (answer.threshold - 1) * answer.receipt.grid - rows
            found += 1 - (1 - float(norm.sf(above / answer.receipt.noise_scale))) ** keys
    return found


def assert_stated(what: str, epsilon: float, delta: float, receipts: Iterable[Mapping[str, Any]], texts: float) -> None:
    needed = delta_of_noise(receipts, epsilon) + texts
    assert needed <= delta, f"{what}: epsilon {epsilon:.6g} needs delta {needed:.6g}, and {delta:.6g} is stated"
    assert needed >= delta * (1 - LOOSE), f"{what}: epsilon {epsilon:.6g} needs no more than delta {needed:.6g}"


# From bytes to the bundle ---------------------------------------------------------------------------------------------


class _Rest:
    """What a part of its budget leaves of a session, as if it were all."""

    def __init__(self, session: Any, left: float) -> None:
        self._session, self._left, self.schema = session, left, session.schema

    def noisy_sum(self, *asked: Any, share: float, **named: Any) -> Any:
        return self._session.noisy_sum(*asked, share=share * self._left, **named)

    def ask(self, *asked: Any, share: float, **named: Any) -> Any:
        return self._session.ask(*asked, share=share * self._left, **named)


def find_twice(session: Any, *, delta_key: float) -> Any:
    """Ask for the values of one column first, and then all that a finding asks; half of the delta is for each."""
    session.ask(ValuesQuestion(("town",), delta_key / 2), share=0.1, query="towns", source="find")
    return find(_Rest(session, 0.9), delta_key=delta_key / 2)


@dataclass(frozen=True)
class Books(FindingBrowser):
    """Two findings and a run that uses the second, and what is stated of them, also by a ledger that was lost."""

    def _carried(self, application: Application, table_id: str, patch: pytest.MonkeyPatch) -> Public:
        patch.setattr(findings, "find", find_twice)
        patch.setattr(of_bundle, "find", find_twice)  # what a check asks again
        # A run checks what it seals in a process of its own, where nothing is planted; it is checked below.
        patch.setattr(runs, "require_check", lambda *_: None)
        patch.setattr(runs, "try_out", lambda *_, **__: None)
        columns = tuple(
            FindColumn(one.name) if isinstance(one, ModelledColumn) else one for one in self.config.schema.columns
        )
        config = replace(self.config, schema=replace(self.config.schema, columns=columns))
        found = [self._found(application, config, table_id) for _ in range(2)]
        filled = parse_config(findings.completed(config_to_mapping(config), found[-1]))
        plan = application.plan(filled)
        run_id = application.reserve(filled, table_id=table_id).id
        self._claim(application, run_id)
        runs.carry_out(application.installation, run_id, NullProgress(), owner_report=False)
        application.release(run_id, attestations=("yes",), attested_by="owner")
        bundle = application.bundle(run_id)
        # Here, and not in a process of its own, where nothing is planted.
        verdict = verdict_of(checks.check(run_folder.of(application.settings, run_id) / "bundle.zip"), key_given=False)
        return {
            "findings": [one.files for one in found],
            "said before": (plan.epsilon_after, plan.forecast.epsilon),
            "spent": self._spent(application),
            "bundle": bundle,
            "failures": verdict.json["failures"],
            "spent, restored": self._restored(application, bundle),
        }

    def _found(self, application: Application, config: RunConfig, table_id: str) -> Finding:
        asked = {"epsilon": OF_FINDING, "delta": DELTA_OF_FINDING}
        work_id = application.findings.reserve(config, table_id=table_id, **asked).id
        self._claim(application, work_id)
        return findings.carry_out(application.installation, work_id, NullProgress())

    def _claim(self, application: Application, work_id: str) -> None:
        pid = os.getpid()
        application.store.work.claim(work_id, host=this_host(), pid=pid, pid_created=birth_of(pid))

    def _spent(self, application: Application) -> tuple[float, float]:
        account = application.store.accounts.named(ACCOUNT)
        assert account is not None
        spent = application.ledger.spent(account.id)
        return spent.epsilon, spent.delta

    def _restored(self, application: Application, bundle: bytes) -> tuple[float, float]:
        """A ledger of before all of it, with the same keys, which a bundle is entered into."""
        home = application.settings.home / "restored"
        shutil.copytree(application.settings.home / "keys", home / "keys")
        with Application(settings_of(home)) as empty:
            enter_upload(empty.installation, io.BytesIO(bundle), who="owner")
            return self._spent(empty)


def check(world: str, home: Path, *, neighbour: bool = False) -> None:
    """All that is stated of two findings and a release holds, and it is the same for a neighbouring file."""
    units, first, second = neighbours(WORLDS[world], BROUGHT[world], UNITS)
    config = WORLDS[world].config(units, "independent", epsilon=EPSILON, delta=DELTA, holdout=0.0)
    books, dictation = Books(config, home, owner_report=False, verify=True), FoundDictation()
    public = books.public(first, dictation)
    found = [Finding.of_files(files) for files in public["findings"]]
    texts = [delta_of_texts(one) for one in found]
    assert all(0.49 * DELTA_OF_FINDING * (1 - LOOSE) < one <= 0.49 * DELTA_OF_FINDING for one in texts)
    with zipfile.ZipFile(io.BytesIO(public["bundle"])) as members:
        sealed = json.loads(members.read("certificate.json"))
        stated = yaml.safe_load(members.read("config.yaml"))
    paid = [*sealed["found"]["receipts"], *sealed["receipts"]]
    both = [*json.loads(public["findings"][0]["found.json"])["receipts"], *paid]
    assert len(both) == 2 * len(sealed["found"]["receipts"]) + len(sealed["receipts"])
    assert {one["mechanism"] for one in both} == {"discrete_gaussian"}
    assert_stated("the certificate", sealed["epsilon"], sealed["delta"], paid, texts[1])
    assert_stated("the ledger", *public["spent"], both, sum(texts))
    assert_stated("the ledger that was restored", *public["spent, restored"], paid, texts[1])
    total, of_release = public["said before"]
    assert_stated("the plan", total, DELTA, both, sum(texts))
    assert_stated("the forecast", of_release, DELTA, paid, texts[1])
    assert texts[1] <= stated["found"]["additive_delta"], "the configuration states less than what a finding adds"
    assert not public["failures"], " ".join(public["failures"])
    if neighbour:
        again = dictation.again()
        assert differences(public, books.public(second, again)) == []
        again.require_all_asked()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("books") / "home")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)


@pytest.mark.parametrize("world", few(BROUGHT, kept=("add or remove",)))
def test_what_is_stated_of_findings_and_a_release_is_true(world: str, home: Path) -> None:
    check(world, home, neighbour=True)


# Planted --------------------------------------------------------------------------------------------------------------


Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, Plant] = {}


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant
        return plant

    return keep


def with_largest(receipts: Iterable[Any]) -> Sequence[Any]:
    """Leave of all deltas that are added only the largest."""
    paid = tuple(receipts)
    largest = max(range(len(paid)), key=lambda place: paid[place].additive_delta, default=0)
    return [one if place == largest else replace(one, additive_delta=0.0) for place, one in enumerate(paid)]


def largest_in(patch: pytest.MonkeyPatch, *modules: Any) -> None:
    for module in modules:
        right = module.epsilon_of_receipts
        patch.setattr(
            module,
            "epsilon_of_receipts",
            lambda paid, delta, *more, right=right: right(with_largest(paid), delta, *more),
        )


@fault("a finding costs its noise alone")
def _(patch: pytest.MonkeyPatch) -> None:
    def cost_of_finding(epsilon: float, delta: float, neighbours: Any) -> Cost:
        return Cost.of_budget(epsilon, finding_budget(epsilon, delta, neighbours).delta, neighbours)

    patch.setattr(findings, "cost_of_finding", cost_of_finding)


def without_cost(patch: pytest.MonkeyPatch, name: str) -> None:
    right = getattr(Ledger, name)
    patch.setattr(Ledger, name, lambda *asked, **named: right(*asked, **{**named, "cost_of": Cost.of_budget}))


@fault("a finding is reserved as a run is")
def _(patch: pytest.MonkeyPatch) -> None:
    without_cost(patch, "reserve")


@fault("a finding is brought back as a run is")
def _(patch: pytest.MonkeyPatch) -> None:
    without_cost(patch, "enter_certificate")


@fault("the largest delta of all charges")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Cost.__add__

    def add(self: Cost, other: Cost) -> Cost:
        return replace(
            right(self, other), additive_delta_units=max(self.additive_delta_units, other.additive_delta_units)
        )

    patch.setattr(Cost, "__add__", add)


@fault("the deltas of charges are not put into the curve")
def _(patch: pytest.MonkeyPatch) -> None:
    right = spending._epsilon_of_units  # it remembers what was asked before
    patch.setattr(spending, "_epsilon_of_units", lambda *amounts: right(*amounts[:-1], 0))


@fault("the largest delta of all receipts, for who seals and who verifies")
def _(patch: pytest.MonkeyPatch) -> None:
    largest_in(patch, certificate, checks, of_bundle)


@fault("the largest delta of all receipts, for who seals")
def _(patch: pytest.MonkeyPatch) -> None:
    largest_in(patch, certificate)


@fault("the largest delta of all receipts, for who verifies")
def _(patch: pytest.MonkeyPatch) -> None:
    largest_in(patch, checks)


@fault("the largest delta of a finding, in the configuration that it fills")
def _(patch: pytest.MonkeyPatch) -> None:
    right = of_bundle.reference_of
    patch.setattr(of_bundle, "reference_of", lambda *asked: right(*asked[:-1], with_largest(asked[-1])))


@fault("a forecast without what a finding adds to delta")
def _(patch: pytest.MonkeyPatch) -> None:
    right = forecast.promised_epsilon

    def promised(config: RunConfig) -> float:
        assert config.found is not None
        return right(replace(config, found=replace(config.found, additive_delta=0.0)))

    patch.setattr(forecast, "promised_epsilon", promised)


REPEATED = ("the largest delta of all receipts, for who seals", "the largest delta of all receipts, for who verifies")
"""The fault in both together stands for each alone."""

ALTERNATELY = [
    pytest.param(
        planted,
        world,
        marks=pytest.mark.audit if (place + turn) % 2 == 0 else pytest.mark.thorough if planted in REPEATED else (),
    )
    for place, planted in enumerate(FAULTS)
    for turn, world in enumerate(BROUGHT)
]
"""Each bug under one relation, in the default run but for those repeated, and with ``-m audit`` under the other."""


@pytest.mark.four_cases
@pytest.mark.parametrize(("planted", "world"), ALTERNATELY)
def test_a_planted_bug_in_what_is_stated_is_noticed(
    planted: str, world: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[planted](monkeypatch)
    with pytest.raises(AssertionError, match=r"is stated|states less than|compose to"):
        check(world, home)
