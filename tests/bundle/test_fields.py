"""The table of fields has every field of every bundle, and the checks do what it says."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from bundle_making import Key, checked, members_of
from golden_bundles import GOLDEN, golden
from linked_making import linked_bundle

from synth.bundle.fields import FIELDS, Check, explained, explained_as_markdown, field_of, stated_only
from synth.bundle.verify import CANNOT_SHOW

DOCS = Path(__file__).resolve().parents[2] / "docs" / "what-verify-checks.md"


def document_of(name: str, data: bytes) -> Any:
    if name.endswith(".json"):
        return json.loads(data)
    if name.endswith(".yaml"):
        return yaml.safe_load(data)
    if name.endswith(".npz"):
        return json.loads(np.load(io.BytesIO(data))["index"].tobytes())
    if name == "model.safetensors":
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return json.loads(header["__metadata__"]["hermitage"])
    return None


def places(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from places(entry, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for entry in value:
            yield from places(entry, f"{path}[]")
    elif not isinstance(value, dict | list):
        yield path


@pytest.mark.four_cases
@pytest.mark.parametrize("bundle", GOLDEN)
def test_every_field_is_in_the_table_once(bundle: str) -> None:
    for name, data in members_of(golden(bundle)).items():
        assert any(one.file == name for one in FIELDS), name
        document = document_of(name, data)
        for place in sorted(set(places(document))) if document is not None else ():
            assert len(field_of(name, place)) == 1, (name, place, field_of(name, place))


def test_a_field_that_nobody_thought_of_is_in_no_entry() -> None:
    assert field_of("certificate.json", "note") == ()
    assert field_of("certificate.json", "receipts[].sequence")
    assert field_of("config.yaml", "columns.age.low")
    assert field_of("measurements.npz", "releases[].receipt.query")
    assert field_of("measurements.npz", "releases[].secret") == ()


def test_every_step_of_a_verdict_is_in_the_table_and_the_other_way_round(tmp_path: Path, key: Key) -> None:
    of_all_kinds = ("dp-hp-adaptive", "found", "gaussian-mixture", "independent", "kahm")
    linked = linked_bundle(tmp_path, key, constraints=("next.day - day <= 30",))
    verdicts = [checked(bundle) for bundle in (*map(golden, of_all_kinds), linked)]
    taken = {step["name"] for verdict in verdicts for step in verdict.json["steps"]}
    assert taken == set(Check) - {Check.BESIDE}
    named = {step for one in FIELDS for step in one.steps}
    assert set(Check) - named == {Check.FORM, Check.BESIDE, Check.FROM_ANSWERS, Check.TEXTS, Check.LEAKS} - named


def test_what_is_only_stated_is_said_by_every_verdict() -> None:
    said = " ".join(CANNOT_SHOW)
    assert all(one.what in said for one in stated_only())


def test_the_page_of_the_documentation_is_the_table() -> None:
    assert explained_as_markdown() in DOCS.read_text(encoding="utf-8")
    assert len(list(explained())) == len(FIELDS) + 2
