"""Bundles of a configuration that was filled privately, forged until all else in them agrees, and signed anew."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from bundle_making import Key, checked, members_of
from forging import failures, forged, only
from golden_bundles import golden

from synth.bundle import checks
from synth.bundle import finding as of_bundle
from synth.bundle.archive import canonical_json, write_zip
from synth.bundle.finding import Finding
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.more.found_values import FoundValues
from synth.privacy.receipt import Receipt
from synth.schema import FOUND_THEN_EDITED, RunConfig, config_to_yaml, parse_config, schema_to_document
from synth.schema.documents import read_mapping

BUNDLE = golden("found")

Words = Callable[[dict[str, Any]], None]


def nothing(document: dict[str, Any]) -> None:
    del document


def kept(finding: Finding) -> Finding:
    return finding


def forge(
    target: Path,
    key: Key,
    finding: Callable[[Finding], Finding] = kept,
    *,
    config: Callable[[RunConfig], RunConfig] = lambda config: config,
    certificate: Words = nothing,
    without: tuple[str, ...] = (),
    marked: bool = True,
) -> Path:
    """Change what was found, let configuration, certificate, epsilon and every text follow, and sign.

    Without ``marked`` the columns keep the source that they had.
    """
    members = members_of(BUNDLE)
    found = finding(Finding.of_files(members))
    members |= found.files
    run = parse_config(read_mapping(members["config.yaml"].decode(), sealed=True))
    run = config(dataclasses.replace(run, found=found.reference))
    if marked and run.found is not None:
        run = dataclasses.replace(run, domain_source={**run.domain_source, **found.sources(run.schema)})
    members["config.yaml"] = config_to_yaml(run).encode()
    members["schema.json"] = canonical_json(schema_to_document(run.schema))

    def follow(document: dict[str, Any]) -> None:
        document["found"] = found.certified.to_dict()
        document["domain_source"] = {name: run.domain_source.get(name, "declared") for name in run.schema.names}
        paid = [*found.receipts, *(Receipt.from_dict(one) for one in document["receipts"])]
        document["epsilon"] = epsilon_of_receipts(paid, document["delta"])
        if "found.json" in without:
            del document["found"]
            document["epsilon"] = epsilon_of_receipts(paid[len(found.receipts) :], document["delta"])
        certificate(document)

    for name in without:
        del members[name]
    write_zip(target, members)
    return forged(target, target, key, certificate=follow)


def values_of(finding: Finding) -> FoundValues:
    (values,) = (answer for answer in finding.answers if isinstance(answer, FoundValues))
    return values


def with_values(finding: Finding, **changes: Any) -> Finding:
    old = values_of(finding)
    new = dataclasses.replace(old, **changes)
    receipts = tuple(new.receipt if one == old.receipt else one for one in finding.receipts)
    answers = tuple(new if answer is old else answer for answer in finding.answers)
    return dataclasses.replace(finding, receipts=receipts, answers=answers)


def test_nothing_is_found_where_nothing_was_changed(tmp_path: Path, key: Key) -> None:
    verdict = checked(forge(tmp_path / "again.zip", key))
    assert verdict.ok, verdict.json["failures"]
    assert "what was found privately" in verdict.json["checked"]


def test_a_finding_that_is_left_out(tmp_path: Path, key: Key) -> None:
    path = forge(tmp_path / "f.zip", key, without=("found.json", "found.npz"))
    only(path, "does not hold all of a finding", "but the bundle has no finding")


def test_a_finding_that_nothing_speaks_of_any_more_but_its_columns(tmp_path: Path, key: Key) -> None:
    path = forge(
        tmp_path / "f.zip",
        key,
        config=lambda config: dataclasses.replace(config, found=None),
        without=("found.json", "found.npz"),
    )
    only(path, "marked as found privately, but the bundle has no finding")
    assert len(failures(path)) == 3


def test_an_epsilon_without_the_finding(tmp_path: Path, key: Key) -> None:
    def alone(document: dict[str, Any]) -> None:
        own = [Receipt.from_dict(one) for one in document["receipts"]]
        document["epsilon"] = epsilon_of_receipts(own, document["delta"])

    only(forge(tmp_path / "f.zip", key, certificate=alone), "The receipts compose to epsilon")


def test_a_receipt_and_its_answer_taken_out(tmp_path: Path, key: Key) -> None:
    members = members_of(BUNDLE)
    document = json.loads(members["found.json"])
    taken = document["receipts"].pop()
    certificate = json.loads(members["certificate.json"])
    certificate["found"]["receipts"].pop()
    members["found.json"] = canonical_json(document)
    members["certificate.json"] = canonical_json(certificate)
    write_zip(tmp_path / "f.zip", members)
    found = failures(forged(tmp_path / "f.zip", tmp_path / "f.zip", key))
    assert any(f"The answer to '{taken['query']}' has a different receipt" in one for one in found)
    assert any("found.json is not the finding that the certificate" in one for one in found)
    assert any("costs of the finding in config.yaml are not" in one for one in found)


def test_a_threshold_that_lets_more_pass(tmp_path: Path, key: Key) -> None:
    found = failures(forge(tmp_path / "f.zip", key, lambda f: with_values(f, threshold=values_of(f).threshold // 2)))
    assert len(found) == 1
    assert "threshold" in found[0]


def test_a_value_that_did_not_pass(tmp_path: Path, key: Key) -> None:
    def one_more(finding: Finding) -> Finding:
        values = values_of(finding)
        passed = (*values.values, ("town", "Uri", values.threshold - 1))
        return with_values(finding, values=tuple(sorted(passed)))

    members = members_of(BUNDLE)
    assert "Uri" not in members["found.json"].decode()
    path = forge(tmp_path / "f.zip", key, one_more)
    assert any("threshold" in failure for failure in failures(path)), failures(path)


def test_a_delta_of_values_that_is_not_charged(tmp_path: Path, key: Key) -> None:
    def free(finding: Finding) -> Finding:
        return with_values(finding, receipt=dataclasses.replace(values_of(finding).receipt, additive_delta=0.0))

    path = forge(tmp_path / "f.zip", key, free)
    assert json.loads(members_of(path)["certificate.json"])["epsilon"] < 3.1753
    only(path, "leaves out the chance that one person alone is found")


def test_less_noise_than_a_receipt_says_is_another_cost(tmp_path: Path, key: Key) -> None:
    members = members_of(BUNDLE)
    documents = {name: json.loads(members[name]) for name in ("found.json", "certificate.json")}
    for receipts in (documents["found.json"]["receipts"], documents["certificate.json"]["found"]["receipts"]):
        receipts[-1]["mu_squared_units"] //= 2
    members |= {name: canonical_json(document) for name, document in documents.items()}
    write_zip(tmp_path / "f.zip", members)
    found = failures(forged(tmp_path / "f.zip", tmp_path / "f.zip", key))
    assert any("states a cost that does not follow from its sensitivity and noise" in one for one in found)
    assert any("states a cost of" in one for one in found)


@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_another_budget_than_the_certificate_says(name: str, tmp_path: Path, key: Key) -> None:
    def less(document: dict[str, Any]) -> None:
        document["found"][name] /= 2

    only(forge(tmp_path / "f.zip", key, certificate=less), "state different epsilons or deltas of the finding")


def test_a_budget_that_the_receipts_exceed(tmp_path: Path, key: Key) -> None:
    path = forge(tmp_path / "f.zip", key, lambda finding: dataclasses.replace(finding, epsilon=0.5))
    only(path, "0.5 was asked for")


def test_costs_that_a_configuration_states_otherwise(tmp_path: Path, key: Key) -> None:
    def cheaper(config: RunConfig) -> RunConfig:
        assert config.found is not None
        return dataclasses.replace(config, found=dataclasses.replace(config.found, mu_squared_units=1))

    found = failures(forge(tmp_path / "f.zip", key, config=cheaper))
    assert any("costs of the finding in config.yaml are not" in one for one in found)


@pytest.mark.parametrize("account", ["a", "zz"])
def test_what_other_people_paid_for(account: str, tmp_path: Path, key: Key) -> None:
    path = forge(tmp_path / "f.zip", key, lambda finding: dataclasses.replace(finding, account=account))
    only(path, "charged to a different account")


def test_a_column_that_was_edited_and_does_not_say_so(tmp_path: Path, key: Key) -> None:
    def as_found(config: RunConfig) -> RunConfig:
        assert config.domain_source["town"] == FOUND_THEN_EDITED
        return dataclasses.replace(config, domain_source={**config.domain_source, "town": "found privately, epsilon 1"})

    path = forge(tmp_path / "f.zip", key, config=as_found, marked=False)
    only(path, f"The domain of 'town' was {FOUND_THEN_EDITED}, which is not what the certificate says")


def test_a_column_that_was_found_and_is_called_declared(tmp_path: Path, key: Key) -> None:
    def declared(config: RunConfig) -> RunConfig:
        sources = {name: said for name, said in config.domain_source.items() if name != "age"}
        return dataclasses.replace(config, domain_source=sources)

    path = forge(tmp_path / "f.zip", key, config=declared, marked=False)
    only(path, "The domain of 'age' was found privately, epsilon 1, which is not what the certificate says")


def test_a_column_that_no_finding_asked_for(tmp_path: Path, key: Key) -> None:
    def more(config: RunConfig) -> RunConfig:
        return dataclasses.replace(config, domain_source={**config.domain_source, "ill": FOUND_THEN_EDITED})

    path = forge(tmp_path / "f.zip", key, config=more, marked=False)
    only(path, "The domain of 'ill' is marked as found privately, but no finding asked for it")


def test_columns_that_do_not_follow_from_the_answers(tmp_path: Path, key: Key) -> None:
    members = members_of(BUNDLE)
    document = json.loads(members["found.json"])
    document["columns"]["age"]["high"] = 200.0
    members["found.json"] = canonical_json(document)
    write_zip(tmp_path / "f.zip", members)
    found = failures(forged(tmp_path / "f.zip", tmp_path / "f.zip", key))
    assert any("do not follow from its noisy answers by the public rule" in one for one in found)


def test_more_words_in_a_finding(tmp_path: Path, key: Key) -> None:
    members = members_of(BUNDLE)
    document = json.loads(members["found.json"])
    members["found.json"] = canonical_json({**document, "rows": 4000})
    write_zip(tmp_path / "f.zip", members)
    found = failures(forged(tmp_path / "f.zip", tmp_path / "f.zip", key))
    assert any("has missing or unknown keys" in one for one in found)


# Deltas that add up ---------------------------------------------------------------------------------------------------


def asked_twice(finding: Finding) -> Finding:
    """Values were asked for a second time, and epsilon 2 for all of it."""
    old = values_of(finding)
    receipt = dataclasses.replace(old.receipt, sequence=len(finding.receipts), query="values again")
    again = dataclasses.replace(old, receipt=receipt)
    receipts, answers = (*finding.receipts, receipt), (*finding.answers, again)
    return dataclasses.replace(finding, epsilon=2.0, receipts=receipts, answers=answers)


def with_largest(receipts: Iterable[Receipt]) -> list[Receipt]:
    """Leave of all deltas that are added only the largest."""
    paid = list(receipts)
    largest = max(range(len(paid)), key=lambda place: paid[place].additive_delta, default=0)
    return [one if place == largest else dataclasses.replace(one, additive_delta=0.0) for place, one in enumerate(paid)]


def test_what_two_answers_of_a_finding_add_to_delta_adds_up_by_hand(tmp_path: Path, key: Key) -> None:
    path = forge(tmp_path / "twice.zip", key, asked_twice)
    assert failures(path) == []
    document = json.loads(members_of(path)["certificate.json"])
    paid = [*document["found"]["receipts"], *document["receipts"]]
    mu = math.sqrt(sum((one["sensitivity"] / one["noise_scale"]) ** 2 for one in paid))
    epsilon, below = document["epsilon"], NormalDist().cdf
    of_noise = below(mu / 2 - epsilon / mu) - math.exp(epsilon) * below(-mu / 2 - epsilon / mu)
    # Each adds 0.49 of the finding's delta, which is a tenth of that of the run.
    assert 0.999e-6 < of_noise + 2 * 0.49e-7 <= 1e-6


def stated_of_largest(document: dict[str, Any]) -> None:
    own = [Receipt.from_dict(one) for one in document["receipts"]]
    found = [Receipt.from_dict(one) for one in document["found"]["receipts"]]
    document["epsilon"] = epsilon_of_receipts(with_largest([*found, *own]), document["delta"])


def allowed_for_largest(finding: Finding) -> Finding:
    twice = asked_twice(finding)
    allowed = epsilon_of_receipts(with_largest(twice.receipts), twice.delta)
    return dataclasses.replace(twice, epsilon=1.001 * allowed)


def written_of_largest(config: RunConfig) -> RunConfig:
    assert config.found is not None
    return dataclasses.replace(config, found=dataclasses.replace(config.found, additive_delta=0.49e-7))


LARGEST: dict[str, tuple[str, dict[str, Any], tuple[Any, str]]] = {
    "the certificate": (
        "The receipts compose to epsilon",
        {"finding": asked_twice, "certificate": stated_of_largest},
        (checks, "epsilon_of_receipts"),
    ),
    "what was asked for": (
        "was asked for",
        {"finding": allowed_for_largest},
        (of_bundle, "epsilon_of_receipts"),
    ),
    "the configuration": (
        "costs of the finding in config.yaml are not",
        {"finding": asked_twice, "config": written_of_largest},
        (of_bundle, "reference_of"),
    ),
}
"""What refuses a bundle that states the largest of two deltas, how it is forged, and what adds them in that check."""


@pytest.mark.parametrize("where", LARGEST)
def test_the_largest_of_two_deltas_in_place_of_their_sum(where: str, tmp_path: Path, key: Key) -> None:
    sentence, changes, _ = LARGEST[where]
    only(forge(tmp_path / "f.zip", key, **changes), sentence)


@pytest.mark.parametrize("where", LARGEST)
def test_a_planted_fault_in_a_sum_of_deltas_is_noticed(
    where: str, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence, changes, (module, name) = LARGEST[where]
    path, right = forge(tmp_path / "f.zip", key, **changes), getattr(module, name)

    def largest(*given: Any) -> Any:
        return right(*(with_largest(one) if isinstance(one, tuple) else one for one in given))

    monkeypatch.setattr(module, name, largest)
    with pytest.raises(AssertionError, match="nothing was found"):
        only(path, sentence)
