"""Simulated stand-ins: what was asked for is what is drawn, it reads as declared, and nothing else comes in."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synth.errors import ConfigError
from synth.privacy.table import PrivateTable
from synth.rehearsal.simulation import (
    MISSING_SHARE,
    OTHER_SHARE,
    SHAPES,
    SIMULATED_FORMAT,
    SPECIAL_SHARE,
    SimulatedColumn,
    Simulation,
    load_simulation,
    parse_simulation,
    simulated_table,
)
from synth.schema import Schema, asked_schema, parse_config
from synth.schema.documents import read_mapping

SCHEMA = parse_config(
    read_mapping(
        """
account: town
row_count: private
people_at_most: 1000
budget: {epsilon: 1.0}
rows: 100
format: {header: false, separator: ";", names: [person, age, income, region, visited, smoker, remark]}
unit: {protects: person, rows_per_unit: 3, id_column: person}
columns:
  person: {type: identifier}
  age: {type: number, low: 0, high: 99, step: 1}
  income: {type: number, low: 0, high: 100000, step: 1000, special: [-1], missing: true}
  region: {type: category, values: ["=north", "south, far", east, west], other: true}
  visited: {type: date, low: 2020-01-01, high: 2025-12-31, step: month, pattern: "%d/%m/%Y"}
  smoker: {type: yes_no, yes: "ja", no: "nein", missing: true}
  remark: {type: drop}
"""
    )
).schema
ROWS = 20_000
SPREAD = 5 / ROWS**0.5  # five standard errors of a share, at most


def drawn(schema: Schema = SCHEMA, **columns: SimulatedColumn) -> pd.DataFrame:
    made = simulated_table(Simulation(rows=ROWS, columns=columns), schema)
    return pd.read_csv(io.BytesIO(made), keep_default_na=False, dtype=str)


def test_it_reads_as_the_declared_table_and_every_unit_has_its_rows() -> None:
    made = simulated_table(Simulation(rows=500), SCHEMA)
    table = PrivateTable.open(
        lambda: io.BytesIO(made), "any", SCHEMA, SIMULATED_FORMAT, account_key=b"k" * 32, public=True
    )[0]
    assert table.schema == asked_schema(SCHEMA)
    frame = pd.read_csv(io.BytesIO(made), dtype=str, keep_default_na=False)
    assert list(frame) == [column.name for column in SCHEMA.columns]
    assert set(frame.groupby("person").size()) == {1, 2, 3}
    assert set(frame["remark"]) == {""}


def test_the_same_declaration_is_the_same_table_and_another_seed_another() -> None:
    asked = Simulation(rows=300, columns={"age": SimulatedColumn("bell")}, seed=3)
    assert simulated_table(asked, SCHEMA) == simulated_table(asked, SCHEMA)
    assert simulated_table(asked, SCHEMA) != simulated_table(replace(asked, seed=4), SCHEMA)


def test_shapes_are_what_they_are_called() -> None:
    ages = {shape: drawn(age=SimulatedColumn(shape))["age"].astype(int) for shape in SHAPES}
    thirds = {shape: np.histogram(values, [0, 33, 67, 100])[0] / ROWS for shape, values in ages.items()}
    assert thirds["even"] == pytest.approx([0.33, 0.34, 0.33], abs=SPREAD)
    assert thirds["bell"][1] > 0.6
    assert thirds["bell"][0] == pytest.approx(thirds["bell"][2], abs=SPREAD)
    assert thirds["falling"][0] > thirds["falling"][1] > thirds["falling"][2]
    assert thirds["rising"] == pytest.approx(thirds["falling"][::-1], abs=SPREAD)
    assert ages["even"].nunique() == 100


def test_public_shares_are_met_by_values_and_by_parts_of_a_range() -> None:
    frame = drawn(
        region=SimulatedColumn(shares=(6, 3, 1, 0)),
        smoker=SimulatedColumn(shares=(80, 20)),
        age=SimulatedColumn(shares=(3, 1)),
    )
    plain = frame["region"][frame["region"] != "other"]
    assert plain.value_counts(normalize=True).to_dict() == pytest.approx(
        {"=north": 0.6, "south, far": 0.3, "east": 0.1}, abs=SPREAD
    )
    assert (frame["smoker"][frame["smoker"] != ""] == "ja").mean() == pytest.approx(0.2, abs=SPREAD)
    assert (frame["age"].astype(int) < 50).mean() == pytest.approx(0.75, abs=SPREAD)


def test_special_other_and_missing_cells_have_their_shares() -> None:
    frame = drawn()
    assert (frame["income"] == "").mean() == pytest.approx(MISSING_SHARE, abs=SPREAD)
    assert (frame["income"] == "-1").mean() == pytest.approx(SPECIAL_SHARE * (1 - MISSING_SHARE), abs=SPREAD)
    assert (frame["region"] == "other").mean() == pytest.approx(OTHER_SHARE, abs=SPREAD)
    many = replace(SCHEMA["income"], special=tuple(float(-value) for value in range(1, 41)))
    wide = replace(SCHEMA, columns=tuple(many if one.name == "income" else one for one in SCHEMA.columns))
    assert drawn(wide)["income"].str.startswith("-").mean() == pytest.approx(0.5 * (1 - MISSING_SHARE), abs=SPREAD)


@pytest.mark.parametrize("strength", [0.7, -0.7])
def test_a_column_goes_with_the_one_it_follows_and_with_no_other(strength: float) -> None:
    frame = drawn(
        age=SimulatedColumn("bell"),
        visited=SimulatedColumn("falling", follows="age", strength=strength),
        region=SimulatedColumn(follows="visited", strength=strength),
    )
    ages = frame["age"].astype(int)
    along = ages.corr(frame["visited"].astype("category").cat.codes, method="spearman")
    # The rank correlation of two normal scores with correlation r is 6/pi asin(r/2).
    assert along == pytest.approx(6 / np.pi * np.arcsin(strength / 2), abs=0.03)
    assert abs(ages.corr(frame["smoker"].eq("ja"), method="spearman")) < SPREAD
    plain = frame["region"] != "other"
    order = frame["region"][plain].map({"=north": 0, "south, far": 1, "east": 2, "west": 3})
    assert ages[plain].corr(order, method="spearman") > 0.3, "what follows a follower goes with its leader too"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"height": SimulatedColumn()}, "'height' is not a modelled column"),
        ({"person": SimulatedColumn()}, "'person' is not a modelled column"),
        ({"age": SimulatedColumn(follows="height", strength=1)}, "'age' follows 'height', which is not"),
        (
            {"age": SimulatedColumn(follows="income"), "income": SimulatedColumn(follows="age")},
            "in a circle: age, income",
        ),
        ({"region": SimulatedColumn(shares=(1, 2))}, "'region' has 4 declared values but 2 shares"),
        ({"age": SimulatedColumn(shares=(1.0,) * 101)}, "'age' has 100 levels but 101 shares"),
    ],
)
def test_what_does_not_fit_the_table_is_refused(columns: dict[str, SimulatedColumn], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulated_table(Simulation(rows=10, columns=columns), SCHEMA)


def test_a_file_says_rows_seed_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "like-ours.yaml"
    path.write_text("seed: 2\ncolumns:\n  age: {shape: bell}\n  smoker: {shares: [4, 1], follows: age}\n")
    assert load_simulation(path, rows=70) == Simulation(
        rows=70,
        seed=2,
        columns={
            "age": SimulatedColumn("bell"),
            "smoker": SimulatedColumn(shares=(4, 1), follows="age", strength=0.5),
        },
    )
    with pytest.raises(ConfigError, match=r"'gone\.yaml' cannot be read"):
        load_simulation(tmp_path / "gone.yaml", rows=5)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("rowes: 5", "The simulation has an unknown key"),
        ("rows: 0", "between 1 and 1,000,000, got 0"),
        ("rows: 2.5", "rows must be a whole number"),
        ("seed: -1", "seed must not be negative"),
        ("columns: [age]", "columns must be a mapping"),
        ("columns: {age: bell}", "'age' must be a mapping with the keys follows, shape, shares, strength"),
        ("columns: {age: {form: bell}}", "'age': unknown key 'form'. Known keys: follows, shape, shares"),
        ("columns: {age: {shape: round}}", "'age': shape must be even, bell, falling or rising, got round"),
        ("columns: {age: {shares: 5}}", "'age': shares must be a list"),
        ("columns: {age: {shares: [0, 0]}}", "'age': shares must be numbers of at least 0"),
        ("columns: {age: {shares: [a]}}", "'age': shares must be a number"),
        ("columns: {age: {follows: b, strength: 2}}", "'age': strength must lie between -1 and 1"),
        ("columns: {age: {strength: 0.5}}", "'age': strength needs 'follows'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(document: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        parse_simulation(read_mapping(document), rows=5)
    assert "\n" not in str(refusal.value)
