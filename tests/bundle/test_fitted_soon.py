"""The usual check fits again where that takes seconds, and a fit that is stopped or proves nothing harms nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bundle_making import Key, checked, members_of
from forging import answers_of, forged
from golden_bundles import golden

from synth.bundle import checks
from synth.bundle import verify as verifying
from synth.bundle.archive import open_archive
from synth.bundle.certificate import config_of
from synth.bundle.fields import Check
from synth.bundle.remaking import Agreement
from synth.bundle.verify import Findings, Outcome, State, Verdict, verify
from synth.errors import PrivacyError
from synth.estimators import make
from synth.generators import GeneratorTask

SMALL, MIXTURE = golden("dp-hp-adaptive"), golden("dp-hp-adaptive-several-rows")
FAR, NEAR = Agreement(("model.weights",), 0.3), Agreement(("model.weights",), 1e-9)


def asked(verdict: Verdict) -> list[str]:
    """What the verdict says about the questions that it leaves out."""
    return [one for one in verdict.json["left_out"] if one.startswith("that these are the questions")]


def test_a_small_field_is_fitted_again_and_a_mixture_is_left_out() -> None:
    small, mixture = checked(SMALL), checked(MIXTURE)
    assert small.ok, small.lines
    assert mixture.ok, mixture.lines
    assert Check.FIT in small.json["checked"]
    assert not asked(small)
    assert Check.FIT not in mixture.json["checked"]
    assert "the usual check leaves out what takes longer than seconds" in asked(mixture)[0]
    assert Check.FIT not in checked(SMALL, quick=True).json["checked"]
    told = members_of(SMALL)["README.txt"].decode()
    assert "and the usual check where that takes seconds" in " ".join(told.split())


@pytest.mark.parametrize(
    ("options", "soon"),
    [({}, True), ({"model": "mixture"}, False), ({"cells": 10**7}, False), ({"purpose": "regression"}, False)],
)
def test_what_is_declared_and_how_much_was_asked_decide(options: dict[str, object], soon: bool) -> None:
    with open_archive(SMALL) as archive:
        config = config_of(archive)
    answers = answers_of(SMALL).answers
    generator = make(config.generator, GeneratorTask.of(config), {**config.options, **options})
    assert generator.fits_soon(answers) is soon
    assert not generator.fits_soon(answers * 100), "so many choices take longer"


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("agreement", "stated", "outcome"),
    [
        (NEAR, {}, Outcome.FAILS),
        (FAR, {}, Outcome.FAILS),
        (NEAR, {"versions": {"source": "0" * 32}}, Outcome.HOLDS),
        (FAR, {"versions": {"source": "0" * 32}}, Outcome.FAILS),
        (NEAR, {"device": "NVIDIA H100 80GB HBM3"}, Outcome.HOLDS),
        (FAR, {"device": "NVIDIA H100 80GB HBM3"}, Outcome.FAILS),
    ],
)
def test_last_digits_prove_nothing_elsewhere_and_another_model_does(
    agreement: Agreement,
    stated: dict[str, Any],
    outcome: Outcome,
    tmp_path: Path,
    key: Key,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def elsewhere(document: dict[str, Any]) -> None:
        document["versions"].update(stated.get("versions", {}))
        document["device"] = stated.get("device", "cpu")

    path = forged(SMALL, tmp_path / "f.zip", key, certificate=elsewhere)
    monkeypatch.setattr(checks, "agreement_of_models", lambda *_: agreement)
    verdict = checked(path)
    assert verdict.outcome is outcome, verdict.lines
    if outcome is Outcome.HOLDS:
        said = str(*stated.values()) if "device" in stated else "source 0000"
        assert f"here other last digits prove nothing, as the certificate states {said}" in asked(verdict)[0]
    else:
        assert "is not what the noisy answers give" in verdict.json["failures"][0]


def test_a_question_that_follows_from_other_last_digits_is_no_forgery_elsewhere(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: object, **__: object) -> None:
        raise PrivacyError("'choice 2' was never asked; a recorded run can only repeat its answers.")

    monkeypatch.setattr(checks, "asked_again", other)
    assert checked(forged(SMALL, tmp_path / "f.zip", key)).json["failures"] == [
        "'choice 2' was never asked; a recorded run can only repeat its answers."
    ]
    moved = forged(
        SMALL, tmp_path / "g.zip", key, certificate=lambda document: document["versions"].update(source="0" * 32)
    )
    assert checked(moved).ok
    assert asked(checked(moved))


def test_a_fit_that_lacks_memory_or_is_stopped_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(checks, "asked_again", lacking)
        verdict = checked(SMALL)
    assert verdict.ok, verdict.lines
    assert asked(verdict)

    # The process is killed in the middle of its last step: only that one was nobody's request.
    for extra, outcome in ((True, Outcome.HOLDS), (False, Outcome.UNKNOWN)):
        findings = Findings(step="the fit", is_extra=extra, left=["something"])
        findings.end("signature", State.PASSED)
        monkeypatch.setattr(verifying, "_listen", lambda *_, findings=findings: (findings, True))
        assert verify(SMALL).outcome is outcome
