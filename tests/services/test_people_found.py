"""Whole people, some of whose columns are found privately first: from a file to the sealed bundle, or to a sentence."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pytest
import yaml

import synth
from synth.bundle.archive import open_archive
from synth.bundle.certificate import certificate_of, config_of
from synth.cli.commands import main
from synth.cli.finding import found_and_kept
from synth.errors import InputError

DECLARED = """
table: visits.csv
account: visits
unit: {protects: patient, id_column: patient, rows_per_unit: 4, same_in_all_rows: [sex], ordered_by: visited}
row_count: private
people_at_most: 10000
budget: {epsilon: 40}
generator: {name: independent, options: {}}
people: 200
columns:
  patient: {type: identifier}
  sex: {type: find}
  visited: {type: find}
  ward: {type: category, values: [heart, eyes], fallback: heart}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    draw, lines = random.Random(6), []
    for patient in range(900):
        day = datetime.date(2024, 1, 1) + datetime.timedelta(draw.randrange(200))
        for _ in range(1 + draw.randrange(4)):
            day += datetime.timedelta(1 + draw.randrange(40))
            lines.append(f"{patient},{'fm'[patient % 2]},{day},{draw.choice(('heart', 'eyes'))}\n")
    (tmp_path / "visits.csv").write_text("patient,sex,visited,ward\n" + "".join(lines))
    path = tmp_path / "visits.yaml"
    path.write_text(DECLARED)
    return path


def ignored(*lines: str) -> None:
    """Print nothing."""


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial")
def test_what_belongs_to_people_and_gives_their_order_may_be_found(config: Path, tmp_path: Path) -> None:
    described = ["preview", str(config), "--columns", "ward", "--epsilon", "1"]
    assert main(described) == 0
    assert main(["run", str(config), "--find", "30", "--out", str(tmp_path / "out"), "--no-owner-report"]) == 0
    verdict = synth.verify(tmp_path / "out" / "bundle.zip")
    assert verdict.ok, verdict.lines
    with open_archive(tmp_path / "out" / "bundle.zip") as archive:
        said, unit = config_of(archive).schema, certificate_of(archive).unit
    assert (unit.same_in_all_rows, unit.ordered_by) == (("sex",), "visited")
    assert (said["sex"].kind, said["visited"].kind) == ("category", "date")
    header, *rows = (tmp_path / "out" / "synthetic.csv").read_text().splitlines()
    assert header == "patient,sex,visited,ward"
    people: dict[str, list[list[str]]] = {}
    for patient, *cells in (row.split(",") for row in rows):
        people.setdefault(patient, []).append(cells)
    assert len(people) == 200 < len(rows)
    for visits in people.values():
        assert len({sex for sex, *_ in visits}) == 1
        days = [day for _, day, _ in visits]
        assert days == sorted(days, key=lambda day: (not day, day)), "a missing date comes last"


def test_what_was_found_must_have_an_order_and_is_not_paid_for_twice(config: Path, tmp_path: Path) -> None:
    config.write_text(DECLARED.replace("ordered_by: visited", "ordered_by: ward").replace("[heart, eyes]", "[a, b]"))
    document = yaml.safe_load(config.read_text())
    document["columns"]["ward"] = {"type": "find"}
    config.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match=r"is not charged again: correct .*visits-found\.yaml") as refused:
        found_and_kept(synth.load_config(config), config, epsilon=30.0, password=None, say=ignored, warn=ignored)
    assert "unit: ordered_by: 'ward' has no order. Name a number, a date or a time." in str(refused.value)
    found = yaml.safe_load((tmp_path / "visits-found.yaml").read_text())
    found["unit"]["ordered_by"] = "visited"
    (tmp_path / "visits-found.yaml").write_text(yaml.safe_dump(found))
    assert synth.load_config(tmp_path / "visits-found.yaml").schema.unit.ordered_by == "visited"
