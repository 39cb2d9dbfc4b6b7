"""Bundles of people of whom previews were paid for: they state and compose what these cost, and no less holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from bundle_making import Key, altered, checked, config_of, members_of, seal

from synth.bundle.certificate import certificate_from_bytes
from synth.bundle.fields import field_of
from synth.errors import ConfigError, PrivacyError, VerificationError
from synth.privacy.accounting import PrivacyBudget, epsilon_of_receipts
from synth.privacy.more.together import epsilon_left, epsilon_together
from synth.schema import Neighbours, PreviewSpent, parse_config
from synth.schema.documents import read_mapping

PREVIEWS = (PreviewSpent("0123456789abcdef", 0.1, 5e-8), PreviewSpent("00000000000000ff", 0.2, 1e-7))


@pytest.fixture(scope="module")
def key() -> Key:
    return Key()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    return seal(config_of(previews=PREVIEWS), tmp_path_factory.mktemp("previewed"), key).path


def test_it_holds_and_states_all_of_it_together(bundle: Path, key: Key) -> None:
    verdict = checked(bundle, key.public_key_pem)
    assert verdict.ok, verdict.lines
    members = members_of(bundle)
    certificate = certificate_from_bytes(members["certificate.json"])
    assert certificate.previews == PREVIEWS
    config = parse_config(read_mapping(members["config.yaml"].decode(), sealed=True))
    assert config.previews == PREVIEWS
    alone = epsilon_of_receipts(certificate.receipts, certificate.delta)
    assert alone <= 1.0 < certificate.epsilon <= epsilon_together(config) < 1.3
    assert len([line for line in verdict.lines if "was spent on a preview" in line]) == 2
    assert b"0.2 at delta = 1e-07 was spent on a preview" in members["README.txt"]
    for place in ("previews[].id", "previews[].epsilon", "previews[].delta"):
        assert len(field_of("certificate.json", place)) == len(field_of("config.yaml", place)) == 1


def cheaper(document: dict[str, Any]) -> None:
    document["previews"][0]["epsilon"] = 0.05


def silent(document: dict[str, Any]) -> None:
    del document["previews"]


def fewer(document: dict[str, Any]) -> None:
    document["previews"].pop()


def renamed(document: dict[str, Any]) -> None:
    document["previews"][0]["id"] = "f" * 16


@pytest.mark.parametrize("change", [cheaper, silent, fewer, renamed])
def test_a_certificate_that_states_less_or_something_else_does_not_hold(
    change: Callable[[dict[str, Any]], None], bundle: Path, key: Key, tmp_path: Path
) -> None:
    verdict = checked(altered(bundle, tmp_path / "forged.zip", certificate=change, sign_with=key))
    assert not verdict.ok
    assert any("different previews before the run" in line for line in verdict.json["failures"])
    assert any("The receipts compose to" in line for line in verdict.json["failures"]) is (change is not renamed)


@pytest.mark.parametrize("change", [cheaper, silent, fewer])
def test_nor_does_a_bundle_that_is_altered_to_fit_itself(
    change: Callable[[dict[str, Any]], None], bundle: Path, key: Key, tmp_path: Path
) -> None:
    """Epsilon is composed again from what is stated; that there were no other previews is only stated."""

    def config_too(data: bytes) -> bytes:
        document = yaml.safe_load(data)
        change(document)
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).encode()

    forged = altered(
        bundle, tmp_path / "forged.zip", files={"config.yaml": config_too}, certificate=change, sign_with=key
    )
    verdict = checked(forged)
    assert not verdict.ok
    assert any("The receipts compose to" in line for line in verdict.json["failures"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "x" * 16, "epsilon": 0.1, "delta": 1e-7},
        {"id": "0" * 15, "epsilon": 0.1, "delta": 1e-7},
        {"id": "0" * 16, "epsilon": 0.0, "delta": 1e-7},
        {"id": "0" * 16, "epsilon": -0.1, "delta": 1e-7},
        {"id": "0" * 16, "epsilon": 0.1, "delta": 0.0},
        {"id": "0" * 16, "epsilon": 0.1},
    ],
)
def test_what_is_no_preview_is_refused_in_words(wrong: dict[str, Any], bundle: Path, key: Key, tmp_path: Path) -> None:
    document = read_mapping(members_of(bundle)["config.yaml"].decode(), sealed=True)
    with pytest.raises(ConfigError, match=r"previews: |previews"):
        parse_config({**document, "previews": [wrong]})

    def put(certificate: dict[str, Any]) -> None:
        certificate["previews"] = [wrong]

    forged = altered(bundle, tmp_path / "forged.zip", certificate=put, sign_with=key)
    with pytest.raises(VerificationError):
        certificate_from_bytes(members_of(forged)["certificate.json"])
    assert not checked(forged).ok
    with pytest.raises(ConfigError, match="listed twice"):
        parse_config({**document, "previews": [dataclasses.asdict(PREVIEWS[0])] * 2})


def test_whole_budgets_add_up_with_receipts_of_the_same_relation_only() -> None:
    one = PrivacyBudget(0.5, 1e-6, Neighbours.ADD_REMOVE)
    alone, twice = (epsilon_of_receipts((), 1e-6, (one,) * times) for times in (1, 2))
    assert alone <= 0.5 < twice < 1.0
    other = PrivacyBudget(0.5, 1e-6, Neighbours.REPLACE)
    with pytest.raises(PrivacyError, match="two neighbouring relations"):
        epsilon_of_receipts((), 1e-6, (one, other))
    cell = PrivacyBudget(0.5, 1e-6, Neighbours.CELL)
    with pytest.raises(PrivacyError, match="spent as pure epsilon"):
        epsilon_of_receipts((), 1e-6, (cell,))


def test_what_is_left_for_a_release_is_the_most_that_states_no_more_in_all() -> None:
    config = config_of()
    more = PrivacyBudget(0.3, 1e-7, config.schema.neighbours)
    left = epsilon_left(config, more)
    spent = (PreviewSpent("0" * 16, more.epsilon, more.delta),)
    within, beyond = (
        epsilon_together(dataclasses.replace(config, epsilon=epsilon, previews=spent))
        for epsilon in (left, left + 0.02)
    )
    assert within <= config.epsilon < beyond
    assert 1.0 - more.epsilon < left < 1.0, "more than the plain difference, as squares of mu add"
    assert epsilon_left(dataclasses.replace(config, previews=PREVIEWS), more) < left
