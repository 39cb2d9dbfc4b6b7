"""Whole people under the audit: from the bytes of a file to the answers and to the sealed bundle, both relations."""

from __future__ import annotations

import io
import zipfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import audited_runs
import layers
import numpy as np
import pytest
from askers import HAND_MADE
from audited_runs import Dictation, moved, neighbours, start_home, t5_whole_runs
from linked_here import here, joined
from people_by_hand import row_of_unit
from people_faults import PEOPLE_FAULTS
from reading_here import read_all_here
from test_whole_runs import changes_of
from worlds import ACCOUNT_KEY, Row, World, far_rows

from synth.bundle.model_file import model_from_bytes
from synth.bundle.table_files import read_table
from synth.estimators import drawn_rows, restore, rows_as_asked
from synth.privacy.people import made_up_hashes
from synth.privacy.table import PrivateTable
from synth.schema import LinkedTables, PrivacyUnit, RunConfig, Schema, TableFormat, asked_schema, people_of
from synth.services.linked import form_of_joined

MOST = 3


@dataclass(frozen=True)
class PeopleWorld(World):
    """People with several rows who are one row each to every question: its bounds are those of one row a unit."""

    ids: bool = True
    holdout: float = 0.25

    def declared(self, units: int | None = None) -> Schema:
        columns = World(self.row_count).schema.columns
        unit = PrivacyUnit("person", MOST, "person", ("region",), "visited")
        return Schema(columns, unit=unit, row_count=self.row_count, number_of_units=units, people="whole")

    @property
    def schema(self) -> Schema:
        return asked_schema(self.declared())

    @property
    def rows_each(self) -> int:
        return MOST

    def table(self, rows: Sequence[Row], part: Any = "train") -> PrivateTable:
        """Write a file, and open it as the program does."""
        data = _text([column.name for column in self.declared()], rows)
        public = self.row_count == "public"
        schema = self.declared(len({row["person"] for row in rows}) if public else None)
        form, account = TableFormat(), ACCOUNT_KEY
        (table,) = PrivateTable.open(
            lambda: io.BytesIO(data), "", schema, form, account_key=account, holdout=self.holdout, parts=(part,)
        )
        return table


@dataclass(frozen=True)
class TwoTablesWorld(PeopleWorld):
    """The same people in two files: one has their regions, the other their rows, and whoever has one row has none."""

    def declared(self, units: int | None = None) -> Schema:
        return replace(super().declared(units), tables=LinkedTables("people", "visits", "person"))

    def table(self, rows: Sequence[Row], part: Any = "train") -> PrivateTable:
        """Write both files, and take them in as the program does."""
        schema = self.declared(len({row["person"] for row in rows}) if self.row_count == "public" else None)
        times, first = Counter(row["person"] for row in rows), {row["person"]: row for row in reversed(rows)}
        several = [row for row in rows if times[row["person"]] > 1]
        by_row = [column.name for column in schema.declared if column.name != "region"]
        form, account = TableFormat(), ACCOUNT_KEY
        with here():
            files = (_text(["person", "region"], list(first.values())), _text(by_row, several))
            data = joined(*files, form, tables=LinkedTables("people", "visits", "person"), declared=schema.columns)
            (table,) = PrivateTable.open(
                lambda: io.BytesIO(data),
                "",
                schema,
                form_of_joined(form),
                account_key=account,
                holdout=self.holdout,
                parts=(part,),
            )
        return table


def _text(names: Sequence[str], rows: Sequence[Row]) -> bytes:
    return "\n".join([",".join(names), *(",".join(row[name] or "" for name in names) for row in rows), ""]).encode()


WORLDS = {
    "replace one": PeopleWorld("public"),
    "add or remove": PeopleWorld("private"),
    "replace one, two tables": TwoTablesWorld("public"),
    "add or remove, two tables": TwoTablesWorld("private"),
}
TWICE = "a unit counts once for each of its rows"
ASKERS = ("independent", "dp-hp-adaptive", HAND_MADE)


@pytest.fixture
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)


@pytest.mark.usefixtures("_read_here")
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ["independent", *(pytest.param(one, marks=pytest.mark.audit) for one in ASKERS[1:])])
def test_one_person_moves_every_answer_by_at_most_its_receipt(name: str, world: str, tmp_path: Path) -> None:
    layers.t0_calibration(name, WORLDS[world])
    for place in (3, 11):
        layers.t1_sensitivity(name, WORLDS[world], far_rows(), place=place)
    layers.t3_metadata(name, WORLDS[world], tmp_path)


@pytest.mark.usefixtures("_read_here")
@pytest.mark.audit
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ASKERS)
def test_two_neighbouring_files_are_told_apart_no_better_than_is_stated(
    name: str, world: str, record_property: Any
) -> None:
    """The worst pair: a file in which somebody's rows are as far from all others as rows can be."""
    record_property("mu", layers.t4_distinguishing(name, WORLDS[world]))


@pytest.mark.usefixtures("_read_here")
@pytest.mark.parametrize("world", WORLDS)
def test_a_person_who_counts_once_for_each_row_moves_an_answer_too_far(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PEOPLE_FAULTS[TWICE][0](monkeypatch)
    with pytest.raises(AssertionError):
        layers.t1_sensitivity("independent", WORLDS[world], far_rows())


@pytest.mark.usefixtures("_read_here")
@pytest.mark.audit
def test_a_person_who_counts_once_for_each_row_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the one above it could tell."""
    PEOPLE_FAULTS[TWICE][0](monkeypatch)
    with pytest.raises(AssertionError, match="more than epsilon"):
        layers.t4_distinguishing("independent", WORLDS["add or remove"])


# To the sealed bundle


@dataclass(frozen=True)
class WholeRuns(audited_runs.World):
    """A table of people with two rows at most, of whom the file has up to four."""

    def config(self, units: int, generator: str, **changes: Any) -> RunConfig:
        config = super().config(units, generator, **changes)
        unit = replace(config.schema.unit, same_in_all_rows=("town",), ordered_by="seen")
        schema = replace(config.schema, unit=unit, people="whole")
        return replace(config, schema=schema, by_people=True)


RUNS = {
    "replace one": WholeRuns("public", ids=True, rows_per_unit=2),
    "add or remove": WholeRuns("private", ids=True, rows_per_unit=2),
}
NASTY = ("more rows than may be kept", "far beyond all bounds", "a row without an id", "the last line, without its end")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("people") / "home")


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize(("world", "new"), [*zip(RUNS, NASTY[:2], strict=True)])
def test_a_neighbour_changes_no_public_byte_and_the_rows_fold_back(world: str, new: str, home: Path) -> None:
    units, first, second = neighbours(RUNS[world], new)
    config = RUNS[world].config(units, "independent")
    heard: list[Dictation] = []
    public, dictation = t5_whole_runs(config, first, {new: second}, home, verify=True, heard=heard)
    distances = moved(public["shown after the release"]["certificate"], dictation, heard[0])
    assert any(distances.values()), "nobody is told from anybody"
    assert_folds_back(public["bundle"], config)


@pytest.mark.audit
@pytest.mark.parametrize("world", RUNS)
@pytest.mark.parametrize("name", ["dp-hp-adaptive", "dp-mixture", "dp-merf"])
def test_no_neighbour_changes_a_public_byte(name: str, world: str, home: Path) -> None:
    found = {new: neighbours(RUNS[world], new) for new in audited_runs.NASTY}
    units, first, _ = found[NASTY[0]]
    generator, changes = changes_of(name)
    config = RUNS[world].config(units, generator, **changes)
    public, _ = t5_whole_runs(config, first, {new: one[2] for new, one in found.items()}, home)
    assert_folds_back(public["bundle"], config)


def assert_folds_back(bundle: bytes, config: RunConfig) -> None:
    """By hand, people of the published table are the rows that the report compares with the answers."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        table, (card, state) = archive.read("synthetic.csv"), model_from_bytes(archive.read("model.safetensors"))
    schema, people = config.schema, people_of(config.schema)
    codes = read_table(io.BytesIO(table), schema)
    ids = [line.partition(b",")[0] for line in table.splitlines()[1:]]
    numbers = {who: number for number, who in enumerate(dict.fromkeys(ids))}
    units = np.array([numbers[who] for who in ids])
    assert (np.diff(units) >= 0).all(), "the rows of somebody are apart"
    assert len(numbers) == config.rows
    hashes, key = made_up_hashes(units, config.seed)
    own: dict[bytes, list[dict[str, int]]] = defaultdict(list)
    for row, unit in zip(codes.tolist(), hashes, strict=True):
        own[unit.tobytes()].append(dict(zip(schema.names, row, strict=True)))
    assert max(map(len, own.values())) <= people.most
    by_hand = sorted(row_of_unit(rows, unit, people, account_key=key) for unit, rows in own.items())
    fitted = restore(config.generator, card.task, config.options, state)
    compared = rows_as_asked(drawn_rows(fitted, config), config)
    assert sorted(map(tuple, compared.tolist())) == by_hand
