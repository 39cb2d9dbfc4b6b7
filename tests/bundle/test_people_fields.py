"""What a bundle says of people who keep all of their rows: every field is in the table, and each is checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, altered, checked, members_of
from test_fields import document_of, places

from synth.bundle.archive import canonical_json
from synth.bundle.counted import counts_of_bundle
from synth.bundle.fields import field_of
from synth.bundle.replay import saved_generator
from synth.estimators import drawn_rows
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.rehearsal.estimating import estimate
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig, Schema
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

UNIT = PrivacyUnit("patient", 3, "patient", ("sex",), "day")
SCHEMA = Schema(
    (
        IdentifierColumn("patient"),
        CategoryColumn("sex", ("f", "m")),
        NumberColumn("day", 0, 40, 1),
        CategoryColumn("ward", ("general", "heart")),
    ),
    unit=UNIT,
    people="whole",
)
CONFIG = RunConfig(
    SCHEMA,
    account="visits",
    people_at_most=1_000,
    epsilon=2.0,
    delta=1e-6,
    generator="independent",
    rows=150,
    by_people=True,
    seed=5,
)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    """A bundle as a run seals it."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(4)
    units = np.repeat(np.arange(400), rng.integers(1, 4, 400))
    codes = {
        "sex": (units % 2).astype(int),
        "day": rng.integers(0, 41, len(units)),
        "ward": rng.integers(0, 2, len(units)),
    }
    table = PrivateTable.from_codes(SCHEMA, codes, unit_ids=units.tolist(), account_key=bytes(32))
    fitted = fit_and_sample(CONFIG, table, NullProgress())
    ledger = {"charges": 1, "head": "ab" * 32}
    return seal_release(
        CONFIG, fitted, folder, sealing=Sealing(signer=key, ledger=ledger), progress=NullProgress()
    ).path


def test_it_holds_and_every_field_is_in_the_table_once(bundle: Path) -> None:
    verdict = checked(bundle)
    assert verdict.ok, verdict.lines
    for name, data in members_of(bundle).items():
        document = document_of(name, data)
        for place in sorted(set(places(document))) if document is not None else ():
            assert len(field_of(name, place)) == 1, (name, place)


def test_readers_are_told_how_many_people_with_how_many_rows(bundle: Path) -> None:
    members = members_of(bundle)
    rows = members["synthetic.csv"].count(b"\n") - 1
    numbers = {one["id"]: one["value"] for one in json.loads(members["report.json"])["evidence"]}
    assert (numbers["overview.people_made"], numbers["overview.rows_made"]) == (150, rows)
    assert numbers["overview.columns"] == 4
    readme, page = members["README.txt"].decode(), members["report.html"].decode()
    assert "They belong to 150 patients, whose 'patient' is new and meaningless." in readme
    assert "in the order of day, and are at most 3." in readme
    assert "The same in all rows of one patient: sex." in readme
    assert f"150 synthetic patients with {rows:,} rows" in page


@pytest.mark.parametrize("rows", [1, 2, 300, 3_000])
def test_rows_asked_for_draw_few_more_people_than_they_need(
    rows: int, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted, config = saved_generator(bundle)[:2]
    sample, drawn = fitted.sample, []

    def counted(number: int, seed: int) -> np.ndarray:
        drawn.append(number)
        return sample(number, seed)

    monkeypatch.setattr(fitted, "sample", counted)
    made = drawn_rows(fitted, replace(config, by_people=False, rows=rows))
    assert made.units is not None
    people = int(made.units[-1]) + 1
    assert rows <= len(made.codes) < rows + 3
    # The last draw is of the people, before it come the pool, and perhaps draws that were not enough.
    assert people <= drawn[-1] <= max(people + 2, 1.1 * people)


def _json(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        return canonical_json(document)

    return changed


def _text(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new)

    return changed


def _more_people(report: Any) -> None:
    next(one for one in report["evidence"] if one["id"] == "overview.people_made")["value"] = 151


FORGED: dict[str, dict[str, Any]] = {
    "people are said to be separate": {"certificate": lambda document: document.pop("people")},
    "another column is the same": {"certificate": lambda document: document["unit"].update(same_in_all_rows=["ward"])},
    "no column gives the order": {"certificate": lambda document: document["unit"].pop("ordered_by")},
    "schema.json has another column": {
        "files": {"schema.json": _json(lambda schema: schema["unit"].update(same_in_all_rows=["ward"]))}
    },
    "schema.json has separate people": {"files": {"schema.json": _json(lambda schema: schema.pop("people"))}},
    "more people are asked for": {"files": {"config.yaml": _text(b"people: 150", b"people: 151")}},
    "more people are reported": {"files": {"report.json": _json(_more_people)}},
    "the text names more people": {"files": {"README.txt": _text(b"150 patients", b"151 patients")}},
}


@pytest.mark.four_cases
@pytest.mark.parametrize("name", FORGED)
def test_each_of_these_fields_is_checked(name: str, bundle: Path, key: Key, tmp_path: Path) -> None:
    verdict = checked(altered(bundle, tmp_path / "forged.zip", sign_with=key, **FORGED[name]))
    assert not verdict.ok
    assert verdict.json["failures"]


def test_counts_and_estimates_are_had_from_it(bundle: Path) -> None:
    counts = counts_of_bundle(bundle)
    assert {"sex", "count", "next.ward"} <= {name for table in counts.tables for name in table.columns}
    found = estimate(bundle, "share of ward = 'heart'", replicates=5)[0]
    (number,) = found.numbers
    assert number.low < number.value < number.high
    codes = drawn_rows(*saved_generator(bundle)[:2]).codes
    assert number.rows == len(codes)
