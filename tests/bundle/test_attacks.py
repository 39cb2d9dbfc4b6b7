"""What an attacker got into a bundle that was accepted: statements that nothing recomputes need a form and a length."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundle_making import Key, checked, members_of
from forging import following
from golden_bundles import golden

from synth.bundle.archive import canonical_json, write_zip
from synth.bundle.model_file import ModelCard, model_from_bytes, model_to_bytes
from synth.errors import SynthError
from synth.schema import RunConfig, config_to_yaml, parse_config, schema_to_document
from synth.schema.documents import read_mapping

_WORD = "exact number 41 "


def _declared_as(name: str, target: Path, change: Callable[[RunConfig], RunConfig]) -> Path:
    """Another configuration of a golden bundle, with all that follows from it, signed anew."""
    members = members_of(golden(name))
    config = change(parse_config(read_mapping(members["config.yaml"].decode(), sealed=True)))
    _, state = model_from_bytes(members["model.safetensors"])
    document = json.loads(members["certificate.json"]) | {"account": config.account}
    members |= {
        "config.yaml": config_to_yaml(config).encode(),
        "schema.json": canonical_json(schema_to_document(config.schema)),
        "model.safetensors": model_to_bytes(ModelCard.of(config), state),
        "certificate.json": canonical_json(document),
    }
    write_zip(target, members)
    return following(target, target, Key())


def _formatted(**changes: Any) -> Callable[[RunConfig], RunConfig]:
    return lambda config: replace(config, format=replace(config.format, **changes))


def _ruled(*rules: str) -> Callable[[RunConfig], RunConfig]:
    return lambda config: replace(config, constraints=rules)


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kahm", _formatted(missing=("", *(f"{_WORD}{place}" * 50 for place in range(10))))),
        ("kahm", _formatted(comment=_WORD * 300)),
        ("kahm", _formatted(sheet=_WORD * 300)),
        ("kahm", _formatted(skip_rows=10**300 - 1)),
        ("kahm", lambda config: replace(config, account=_WORD * 300)),
        ("kahm", lambda config: replace(config, people_at_most=10**300 - 1)),
        ("independent", _ruled(f"age < 1{'0123456789' * 90}")),
        ("independent", _ruled(f"age{' ' * 1000}<= 100")),
    ],
    ids=["missing", "comment", "sheet", "skip", "account", "people", "rule that cannot fail", "blanks"],
)
def test_a_statement_that_nothing_recomputes_is_short(
    name: str, change: Callable[[RunConfig], RunConfig], tmp_path: Path
) -> None:
    try:
        made = _declared_as(name, tmp_path / "bundle.zip", change)
    except SynthError:
        return  # no configuration can say so
    assert not checked(made, quick=True).ok


def test_an_honest_bundle_made_in_the_same_way_holds(tmp_path: Path) -> None:
    assert checked(_declared_as("kahm", tmp_path / "bundle.zip", lambda config: config), quick=True).ok
